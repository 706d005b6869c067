"""The conversation manager of Strands: what happens when a prompt is too long for the model.

Packs bound every call already, so there is nothing to cut in the agent's list, and nothing is: the list only gets
shorter in memory, and the store keeps it whole. When a provider refuses a prompt all the same, the next packs are smaller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strands.agent.conversation_manager import ConversationManager
from strands.types.content import Message, Messages
from strands.types.exceptions import ContextWindowOverflowException

from holdfast.errors import InvalidArgument, describe_value
from holdfast.model.names import check_whole
from holdfast.strands.session_managers import HoldfastSessionManager

if TYPE_CHECKING:
    from strands.agent import Agent

DEFAULT_MESSAGES = 400


class PackedConversationManager(ConversationManager):
    """Bounds the context of an agent by packs of its HoldfastSessionManager.

    The agent's own list is cut at the front when it has more than `max_messages`: at the beginning of a turn, so that no
    tool call loses its result. Packs are made from the stored conversation, so they do not miss what was cut."""

    def __init__(self, *, max_messages: int = DEFAULT_MESSAGES) -> None:
        super().__init__()
        self.max_messages = check_whole("max_messages", max_messages, 2)
        self._budget: int | None = None

    def apply_management(self, agent: Agent, **_: Any) -> None:
        """Cut the front of a list that is too long, if a turn begins in the rest."""
        manager = _find_manager(agent)
        if manager.agent_budget(agent.agent_id) is None or len(agent.messages) <= self.max_messages:
            return
        cut = _find_turn(agent.messages, len(agent.messages) - self.max_messages)
        if cut:
            del agent.messages[:cut]
            self.removed_message_count += cut

    def reduce_context(self, agent: Agent, e: Exception | None = None, **_: Any) -> None:
        """Make the next packs smaller. Raises ContextWindowOverflowException if they cannot be, and `e` is given."""
        manager = _find_manager(agent)
        if manager.shrink_budget(agent):
            self._budget = manager.agent_budget(agent.agent_id)
        elif e is not None:
            raise ContextWindowOverflowException(
                f"The smallest pack, of {manager.agent_budget(agent.agent_id)} tokens, is too long for the model."
            ) from e

    def get_state(self) -> dict[str, Any]:
        """The state that a later process restores."""
        return {**super().get_state(), "budget": self._budget}

    def restore_from_session(self, state: dict[str, Any]) -> list[Message] | None:
        """Restore the state of an earlier process. The state of another conversation manager is taken over as far as it
        goes: what that one removed is not in the agent's list, but in its packs."""
        self.removed_message_count = int(state.get("removed_message_count") or 0)
        self._budget = state.get("budget")
        return None

    def register_hooks(self, registry: Any, **kwargs: Any) -> None:
        """Use the restored budget from the first model call on."""
        from strands.hooks import BeforeModelCallEvent  # noqa: PLC0415

        super().register_hooks(registry, **kwargs)
        registry.add_callback(BeforeModelCallEvent, self._use_budget)

    def _use_budget(self, event: Any) -> None:
        manager = _find_manager(event.agent)
        if self._budget is not None:
            manager.restore_budget(event.agent.agent_id, self._budget)


def _find_manager(agent: Agent) -> HoldfastSessionManager:
    manager = agent._session_manager
    if isinstance(manager, HoldfastSessionManager):
        return manager
    reason = f"{describe_value(manager)} is not a HoldfastSessionManager, which makes the packs of an agent"
    raise InvalidArgument(argument="session_manager", reason=reason)


def _find_turn(messages: Messages, start: int) -> int:
    """The first message from `start` on that begins a turn; 0 if there is none."""
    for number in range(start, len(messages)):
        message = messages[number]
        if message["role"] == "user" and not any("toolResult" in block for block in message["content"]):
            return number
    return 0
