"""The input of a model call: the pack of the conversation in place of the list that the SDK would send.

Laws: nothing is shown that the SDK has left out of its list: a limit, a callback or a filter of a handoff stays in force.
An item is shown as the SDK has it if the pack shows its message as it was recorded. A call is never shown without its
result. An input that has nothing of this conversation, such as that of an agent used as a tool, is left as it is.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

from agents.run_config import CallModelData, ModelInputData

import holdfast
from agents import FunctionTool, TResponseInputItem
from holdfast.frameworks.engines import run_blocking
from holdfast.frameworks.shadows import Shadow
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.openai_agents.conversations import ItemConversation
from holdfast.openai_agents.item_log import LoggedItem
from holdfast.openai_agents.items import Item, call_of, is_output, is_user_message, item_key, item_kind
from holdfast.openai_agents.sessions import READ_SESSION
from holdfast.providers.openai import CALLS, OUTPUTS
from holdfast.render.entries import tail_text
from holdfast.render.openai import render_openai_responses
from holdfast.text.fence import remove_tag
from holdfast.types import HistoryView

_KEPT = 32
"""How many calls may be under way at once."""


class SentInput(NamedTuple):
    """What a model call was sent, and the pack that it was made from."""

    pack: holdfast.Pack
    instructions: str | None
    items: list[Item]


class HoldfastInputFilter:
    """The filter for `RunConfig(call_model_input_filter=…)`: `hf.filter`."""

    def __init__(self, conversation: ItemConversation, *, budget: int, model: str | None, options: Mapping[str, Any]):
        self._conversation = conversation
        self._budget = budget
        self._model = model
        self._options = dict(options)
        self._lock = threading.Lock()
        self.last: SentInput | None = None
        """The last call."""
        self._sent: dict[int, SentInput] = {}

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """The input of the call: the pack, if the input is of this conversation."""
        shown = cast("list[Item]", data.model_data.input)
        sent = await run_blocking(self._send, shown, data.model_data.instructions, data.agent)
        if sent is None:
            return data.model_data
        items = cast("list[TResponseInputItem]", sent.items)
        return ModelInputData(input=items, instructions=sent.instructions)

    def take_pack(self, items: Sequence[object]) -> holdfast.Pack | None:
        """The pack that these items were made from, once. The SDK copies the list, but not the items."""
        last = items[-1] if items else None
        with self._lock:
            sent = self._sent.pop(id(last), None)
        return sent.pack if sent is not None and sent.items[-1] is last else None

    def _send(self, shown: list[Item], instructions: str | None, agent: Any) -> SentInput | None:
        conversation = self._conversation
        if conversation.has_running_tools():
            return None
        known = conversation.sync()
        marks = [item_key(item) for item in shown]
        has_new = READ_SESSION.get() is conversation  # the input of the run: it is at the end, and added later
        matched = _match_items(known, marks, shown, _count_read(known, marks, shown, is_sure=has_new))
        extra = matched[1]
        new = shown[
            len(extra) - next((at for at, is_extra in enumerate(reversed(extra)) if not is_extra), len(extra)) :
        ]
        if has_new and any(map(is_user_message, new)):
            conversation.stage(new)
            known = conversation.sync()
            matched = _match_items(known, marks, shown)
        elif all(extra):
            return None
        conversation.check_running()
        conversation.session.close_calls("the run went on without a result")
        options = {"model": self._model or (agent.model if isinstance(agent.model, str) else None), **self._options}
        brief = options.pop("brief", None) or describe_agent(instructions, agent)
        pack = conversation.session.pack(budget=self._budget, brief=brief, **options)
        items = show_items(pack, conversation.shadow, known, shown, matched)
        sent = SentInput(pack, show_instructions(pack), items)
        with self._lock:
            self.last = self._sent[id(items[-1])] = sent
            while len(self._sent) > _KEPT:
                del self._sent[next(iter(self._sent))]
        return sent


def describe_agent(instructions: str | None, agent: Any) -> holdfast.Brief:
    """What comes first in a call of this agent, so that it counts against the budget."""
    tools = [tool for tool in agent.tools if isinstance(tool, FunctionTool)]
    described = tuple(
        holdfast.Tool(name=tool.name, description=tool.description, parameters=tool.params_json_schema)
        for tool in {tool.name: tool for tool in tools}.values()
    )
    return holdfast.Brief(prompt=instructions or "", tools=described, read_handle=False, recall_memory=False)


def show_instructions(pack: holdfast.Pack) -> str | None:
    """The texts that come first: the instructions of the agent, who the user is, and rules. Messages of the conversation
    are not among them: they are items."""
    texts = [message.text for message in pack.history.system if not message.seq]
    return "\n\n".join(filter(None, texts)) or None


def show_items(
    pack: holdfast.Pack,
    shadow: Shadow,
    known: Sequence[LoggedItem],
    shown: Sequence[Item],
    matched: tuple[dict[str, Item], list[bool]],
) -> list[Item]:
    """The items for a pack: the SDK's own where the pack shows a message as it was recorded, else what Holdfast wrote."""
    return _drop_orphans(list(_PackItems(pack, shadow, known, shown, matched).show()))


class _PackItems:
    """Builds the items of a call from a pack, what the session knows, and what the SDK would send."""

    def __init__(
        self,
        pack: holdfast.Pack,
        shadow: Shadow,
        known: Sequence[LoggedItem],
        shown: Sequence[Item],
        matched: tuple[dict[str, Item], list[bool]],
    ) -> None:
        self._pack = pack
        self._shadow = shadow
        self._shown = shown
        self._known = known
        self._sent, self._extra = matched
        self._groups: dict[str, list[LoggedItem]] = {}
        self._outputs: dict[tuple[str, str], LoggedItem] = {}
        """The results, by the message that made the call, and the id of the call."""
        callers: dict[str, str] = {}
        for each in known:
            self._groups.setdefault(each.group.name, []).append(each)
            call = call_of(each.item)
            if call is not None and is_output(each.item):
                self._outputs[callers.get(call, ""), call] = each
            elif call is not None:
                callers[call] = each.group.name

    def show(self) -> Iterator[Item]:
        own = list(self._show_own())
        before = self._place_extra(own)
        for at, item in enumerate(own):
            yield from before.get(at, ())
            yield item
        yield from before.get(len(own), ())
        if tail := tail_text(self._pack.history):
            yield {"role": "developer", "content": tail}

    def _place_extra(self, own: Sequence[Item]) -> dict[int, list[Item]]:
        """The items that the session does not know, by the place before which they are shown: that of the item that comes
        next in the list of the SDK, as far as it is shown. A result stays next to its call; the front stays the front."""
        places = {id(item): at for at, item in enumerate(own) if item_kind(item) not in OUTPUTS}
        first = next((at for at, is_extra in enumerate(self._extra) if not is_extra), len(self._extra))
        before: dict[int, list[Item]] = {}
        place = len(own)
        for at in range(len(self._shown) - 1, -1, -1):
            item = self._shown[at]
            if self._extra[at]:
                before.setdefault(place if at >= first else 0, []).insert(0, item)
            else:
                place = places.get(id(item), place)
        return before

    def _show_own(self) -> Iterator[Item]:
        history = self._pack.history
        for message in history.system:
            yield from self._show_system(message) if message.seq else ()
        for entry in history.items:
            if isinstance(entry, MessageGroup) and entry.messages[0].role == "system":
                yield from self._show_system(entry.messages[0])
            elif isinstance(entry, MessageGroup):
                yield from self._show_group(entry)
            elif self._known[0].key in self._sent:  # a summary; a list that does not go back so far is not to have it
                yield {"role": "user", "content": remove_tag(entry.shown)}

    def _show_system(self, message: Message) -> Iterator[Item]:
        originals = [item for _, item in self._originals([message])]
        if originals and not self._is_original(message):
            yield {"role": originals[0].get("role", "developer"), "content": remove_tag(message.text)}
        else:
            yield from originals

    def _show_group(self, group: MessageGroup) -> Iterator[Item]:
        originals = list(self._originals(group.messages))
        if not originals:
            return  # the SDK has left it out
        if all(map(self._is_original, group.messages)):
            yield from (item for _, item in originals)
            return
        history = self._pack.history
        view = HistoryView(scope=history.scope, version=history.version, items=(group,))
        calls = {call_of(each.item) for each, _ in originals}
        named = {item_kind(item) for _, item in originals if item.get("id")}
        for item in render_openai_responses(view, self._pack._bodies)["input"]:
            if item_kind(item) not in named:  # the SDK leaves the ids out
                item.pop("id", None)
            if call_of(item) in calls or (call_of(item) is None and None in calls):
                yield item

    def _is_original(self, message: Message) -> bool:
        return self._shadow.shows_original(message) and remove_tag(message.text) == message.text

    def _originals(self, messages: Sequence[Message]) -> Iterator[tuple[LoggedItem, Item]]:
        """The SDK's own items of these messages, as far as it would send them."""
        calls = {
            call.id: (str(message.metadata.get("id") or ""), call.provider_id or call.id)
            for message in messages
            for call in message.tool_calls
        }
        for message in messages:
            logged = self._groups.get(str(message.metadata.get("id") or ""), [])
            names = [calls.get(result.tool_call_id, ("", "")) for result in message.tool_results]
            logged = logged or [self._outputs[name] for name in names if name in self._outputs]
            for each in logged:
                if each.key in self._sent:
                    yield each, self._sent[each.key]
                elif each.is_adopted or self._has_adopted_result(each):
                    yield each, copy.deepcopy(each.item)

    def _has_adopted_result(self, call: LoggedItem) -> bool:
        """Whether the SDK leaves the call out because it has no result of it."""
        result = self._outputs.get((call.group.name, call_of(call.item) or ""))
        return result is not None and result is not call and result.is_adopted


def _count_read(known: Sequence[LoggedItem], marks: Sequence[str], shown: Sequence[Item], *, is_sure: bool) -> int:
    """How many of the first items that are shown are the newest of the session: what follows is new, also if it is equal to
    an older item. 0 if that cannot be seen. If it is not sure that the list begins with items of the session, these have to
    be all that are shown of the session."""
    counts = [0]
    for by_id in (True, False):  # the SDK may leave out items that differ from others in nothing but their ids
        keys = _mark_items(shown, marks, by_id=by_id)
        offered = {*keys}
        own = _mark_items([each.item for each in known], [each.mark for each in known], by_id=by_id)
        read = [key for key in own if key in offered]
        least = 0 if is_sure else len(read) - 1
        most = min(len(read), len(keys))
        counts.append(next((count for count in range(most, least, -1) if read[-count:] == keys[:count]), 0))
    return max(counts)


def _mark_items(items: Sequence[Item], marks: Sequence[str], *, by_id: bool) -> list[tuple[str, str]]:
    """What each item is recognized by; with its id, or without."""
    return [(mark, str(item.get("id")) if by_id else "") for item, mark in zip(items, marks, strict=True)]


def _match_items(
    known: Sequence[LoggedItem], marks: Sequence[str], shown: Sequence[Item], read: int = 0
) -> tuple[dict[str, Item], list[bool]]:
    """What the SDK would send for each item of the session, and which items the session does not know. `marks` are the
    keys of what is shown; if `read` is not 0, only as many at the front are of the session. Of equal items, the newest are
    the ones that are sent."""
    sent: dict[str, Item] = {}
    is_extra = [True] * len(shown)
    for by_id in (True, False):  # reasoning often has nothing but its id
        offered: dict[tuple[str, str], list[int]] = {}
        for at, key in enumerate(_mark_items(shown, marks, by_id=by_id)[: read or None]):
            if is_extra[at]:
                offered.setdefault(key, []).append(at)
        own = _mark_items([each.item for each in known], [each.mark for each in known], by_id=by_id)
        for each, key in zip(reversed(known), reversed(own), strict=True):
            places = offered.get(key)
            if places and each.key not in sent:
                at = places.pop()
                sent[each.key] = shown[at]
                is_extra[at] = False
    return sent, is_extra


def _drop_orphans(items: list[Item]) -> list[Item]:
    """The items without calls that have no result, and without results that have no call."""
    outputs = {call_of(item) for item in items if item_kind(item) in OUTPUTS}
    calls = {call_of(item) for item in items if item_kind(item) in CALLS}
    return [
        item
        for item in items
        if (item_kind(item) not in OUTPUTS or call_of(item) in calls)
        and (item_kind(item) not in CALLS or call_of(item) in outputs)
    ]
