"""The session for the runner of the SDK."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, Unpack, cast

from agents.memory.session import OpenAIResponsesCompactionArgs
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit

import holdfast
from agents import SessionSettings, TResponseInputItem
from holdfast.frameworks.engines import check_engine, run_blocking
from holdfast.model.names import check_options
from holdfast.openai_agents.conversations import AbandonedCalls, ItemConversation
from holdfast.runtime.options import SessionOptions
from holdfast.types import shorten_name

READ_SESSION: contextvars.ContextVar[ItemConversation | None] = contextvars.ContextVar(
    "holdfast_openai_agents_session", default=None
)
"""The conversation that the run in this task has read, and added nothing to since."""
P = ParamSpec("P")
T = TypeVar("T")


class HoldfastSessionOptions(SessionOptions, total=False):
    """Options of HoldfastSession. Those of a new session apply if the session is new."""

    abandoned: AbandonedCalls
    """What happens to tool calls of a run that broke off: "tell", the default, "raise" or "forget"."""
    repeatable: Sequence[str]
    """The tools that may be started again."""
    session_settings: SessionSettings | dict[str, Any] | None
    """The settings of the SDK."""


class HoldfastSession:
    """A session of the SDK that is a session of Holdfast.

        result = await Runner.run(agent, "Where is my order?", session=HoldfastSession(engine, "order-1"))

    The SDK gets back the items that it added. Beside them there is a transcript, so that packs, facts, recovery and the
    command line work on the conversation. `user` applies if the session is new. HoldfastSessionOptions lists all
    options."""

    session_id: str
    session_settings: SessionSettings | None

    def __init__(
        self,
        engine: holdfast.Engine,
        session_id: str,
        *,
        user: str | None = None,
        actor: str = "main",
        window: int | None = None,
        model: str | None = None,
        **options: Unpack[HoldfastSessionOptions],
    ) -> None:
        """`window` and `model` are for run_compaction(): how many tokens the history may have, and whose prices apply."""
        check_options("HoldfastSession", HoldfastSessionOptions, options)
        abandoned, repeatable = options.pop("abandoned", "tell"), options.pop("repeatable", ())
        settings = options.pop("session_settings", None)
        opened = check_engine(engine).session(
            shorten_name(session_id), user=user, actor=actor, create=True, **cast("SessionOptions", options)
        )
        self.session_id = session_id
        self.session_settings = None if settings is None else coerce_session_settings(settings)
        self.conversation = ItemConversation(opened, abandoned=abandoned, repeatable=repeatable)
        self._compaction = {key: value for key, value in (("window", window), ("model", model)) if value is not None}

    @property
    def session(self) -> holdfast.Session:
        """The session of Holdfast: packs, facts, frames, recovery."""
        return self.conversation.session

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items of the conversation: all, or the newest `limit` of them, oldest first. A limit of 0 gives none, a
        negative one all."""
        wanted = resolve_session_limit(limit, self.session_settings)
        READ_SESSION.set(self.conversation)
        return cast("list[TResponseInputItem]", await run_blocking(self.conversation.read, wanted))

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items: all of them, or none."""
        READ_SESSION.set(None)
        await run_to_end(self.conversation.add, list(items))

    async def pop_item(self) -> TResponseInputItem | None:
        """Take the newest item back, and return it; None if there is none. The log keeps it."""
        return cast("TResponseInputItem | None", await run_to_end(self.conversation.withdraw_last))

    async def clear_session(self) -> None:
        """Begin anew, with no items. The log keeps the old ones, and facts stay."""
        await run_to_end(self.conversation.clear)

    async def run_compaction(self, args: OpenAIResponsesCompactionArgs | None = None) -> None:
        """Shorten what models are shown, if that pays off at the prices of the model. The items do not change.

        The SDK calls it after each turn. The arguments are for a compaction by OpenAI, and are not needed here."""
        del args
        await run_to_end(self.conversation.compact, **self._compaction)

    def __repr__(self) -> str:
        return f"<HoldfastSession {self.session_id!r}>"


async def run_to_end(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run a write in a thread, and wait for its end, also if the caller is cancelled: what comes next sees it."""
    task = asyncio.ensure_future(run_blocking(function, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # the cancellation comes first
        raise cancelled
    return task.result()
