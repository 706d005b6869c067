"""The conversation of an agent's thread: what LangChain has of it, followed in a session, and packed for the model.

Laws: the state of the agent is what counts, and it is never changed. A message that the pack shows as it was recorded is
sent as LangChain's own object. What other middleware added to a request is sent, too.
"""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

import holdfast
from holdfast.errors import CallAnswered, CallNotFound, Conflict, InvalidInput
from holdfast.frameworks.shadows import RESULT_DIGEST, Shadow, ShadowMessage, mark_message
from holdfast.frameworks.shown import ShownMessage, show_pack
from holdfast.frameworks.tool_runs import ToolRun
from holdfast.langchain.attempts import Answer, ToolAttempts, recorded_id
from holdfast.langgraph.messages import to_shadow, to_shadows
from holdfast.model.sessions.messages import Message
from holdfast.render.entries import arguments_object


class PackedRequest(NamedTuple):
    """What is sent to the model in place of the request, and the pack that it comes from."""

    pack: holdfast.Pack
    system: SystemMessage | None
    messages: list[BaseMessage]


class AgentConversation:
    """A thread of an agent, and its session. Threads of the program can share it."""

    def __init__(self, session: holdfast.Session, attempts: ToolAttempts, *, observe: bool) -> None:
        self.session = session
        self.attempts = attempts
        self._shadow = Shadow(session, observe=observe, unique_ids=True)
        self._lock = threading.Lock()
        self._followed: Sequence[BaseMessage] | None = None
        """The messages of the state that were followed last."""
        self._reply: tuple[str, str] = ("", "")
        """The id and the digest of the reply that was recorded last."""
        self._converted: dict[str, tuple[BaseMessage, ShadowMessage]] = {}

    def follow(
        self, messages: Sequence[BaseMessage], sent: Sequence[BaseMessage] = (), *, point: str = ""
    ) -> Sequence[ShadowMessage]:
        """Make the conversation of the session that of the agent. Returns messages at its front that are not recorded.
        `sent` are the messages of the request: LangChain answers calls there that it could not parse. `point` is the
        checkpoint that the run goes on from."""
        shadows = self._convert(messages)
        self._lead(point)
        self._record_answers(messages, sent)
        self._close_calls(messages)
        self._followed = messages
        return self._shadow.follow(shadows, exact=True, tells_lost=True).extra

    def hold(self) -> contextlib.AbstractContextManager[object]:
        """While it is held, no other run of this process on the same thread changes the conversation."""
        return self._shadow.hold()

    def is_followed(self) -> bool:
        """Whether the conversation of the session is still that of the last follow()."""
        return self._shadow.is_current()

    def pack(
        self,
        state: Sequence[BaseMessage],
        sent: Sequence[BaseMessage],
        system: SystemMessage | None,
        pack: holdfast.Pack,
        extra: Sequence[ShadowMessage],
    ) -> PackedRequest:
        """What a pack shows, as messages of LangChain. `sent` are the messages of the request: other middleware may have
        changed them, and added some."""
        return _RequestBuilder(self._shadow, self._convert(state), state, sent, extra).build(pack, system)

    def record_reply(self, reply: AIMessage, pack: holdfast.Pack | None, state: Sequence[BaseMessage]) -> None:
        """Record a reply with the pack that it answers, behind the messages of the state that it answers: another run on
        the thread may have gone on meanwhile. It has an id."""
        shadow = to_shadow(reply)
        metadata = mark_message(shadow)
        with self.hold():
            if self._followed is not state or not self._shadow.is_current():
                self.follow(state)
            try:
                self.session.record(shadow.message, pack=pack if pack is not None else False, metadata=metadata)
            except (InvalidInput, Conflict):
                self.session.record_all([{**shadow.message, "metadata": metadata}], as_found=True)
        with self._lock:
            self._reply = (shadow.id, shadow.digest)

    def start_tool(self, call: Mapping[str, Any]) -> ToolRun | Answer:
        """Store that a tool starts; or return what is to be returned in its place."""
        return self.attempts.start(call, self._shadow.find_withdrawn_result(recorded_id(call)))

    def _waits_for(self, call: Mapping[str, Any]) -> bool:
        return any((each.provider_id or each.id) == recorded_id(call) for each in self.session.open_calls())

    def record_results(self, results: Iterable[ToolMessage]) -> None:
        """Record results that came with a reply: of a structured answer."""
        for message in results:
            shadow = to_shadow(message)
            self.session.record_all([{**shadow.message, "metadata": {RESULT_DIGEST: shadow.digest}}], as_found=True)

    def ensure_reply(self, call: Mapping[str, Any], messages: Sequence[BaseMessage], *, point: str = "") -> None:
        """Record the reply that made a call, as it is now, unless it is the last that was recorded: other middleware may
        change a reply, and a new process continues with that of an old one."""
        self._lead(point)
        made = (each for each in reversed(messages) if isinstance(each, AIMessage) and _makes_call(each, call))
        reply = next(made, None)
        if reply is None:
            return
        shadow = to_shadow(reply)
        with self._lock:
            is_last = self._reply == (shadow.id, shadow.digest)
            if is_last and self._waits_for(call):
                return
            self._followed = None
            shadows = self._convert(messages)
            self._shadow.follow(shadows, tells_lost=True)
            if not is_last and (reopened := self._find_reopened(reply, messages)):
                self._shadow.follow(shadows, exact=True, tells_lost=True, reopened=reopened)
            self._reply = (shadow.id, shadow.digest)

    def _find_reopened(self, reply: AIMessage, messages: Sequence[BaseMessage]) -> set[str]:
        """The calls of a reply that a person refused, or that were left open, in a branch that the thread has left."""
        answered = {recorded_id({"id": each.tool_call_id}) for each in messages if isinstance(each, ToolMessage)}
        made = {recorded_id(call) for call in reply.tool_calls} - answered
        return {call for call in made if self._shadow.has_other_result(call)}

    def _convert(self, messages: Sequence[BaseMessage]) -> list[ShadowMessage]:
        """The messages as the session records them. Those that have not changed are not converted again."""
        if any(message.id is None for message in messages):
            return to_shadows(messages)
        known, current = self._converted, {}
        for message in messages:
            pair = known.get(message.id or "")
            if pair is None or (pair[0] is not message and pair[0] != message) or isinstance(message, AIMessage):
                pair = (message, to_shadow(message))
            current[message.id or ""] = pair
        self._converted = current
        return [current[message.id or ""][1] for message in messages]

    def _lead(self, point: str) -> None:
        """What a checkpointer stores of earlier checkpoints is late: it does not undo what this run has recorded."""
        if point:
            self._shadow.lead(point)

    def _record_answers(self, messages: Sequence[BaseMessage], sent: Sequence[BaseMessage]) -> None:
        """Record the answers of LangChain to calls that it could not parse. They are in the state later."""
        own = {each.tool_call_id for each in messages if isinstance(each, ToolMessage)}
        added = [each for each in sent if isinstance(each, ToolMessage) and each.tool_call_id not in own]
        if not added:
            return
        waiting = {call.provider_id or call.id for call in self.session.open_calls() if not call.attempts}
        self.record_results(each for each in added if recorded_id({"id": each.tool_call_id}) in waiting)

    def _close_calls(self, messages: Sequence[BaseMessage]) -> None:
        """Give results to calls that LangChain goes on without: the model is told what is known of them."""
        open_calls = self.session.open_calls()
        if not open_calls:
            return
        answered = {recorded_id({"id": each.tool_call_id}) for each in messages if isinstance(each, ToolMessage)}
        for call in open_calls:
            name = call.provider_id or call.id
            if name not in answered:
                with contextlib.suppress(CallAnswered, CallNotFound):  # another run on this thread was faster
                    self.attempts.close(call, self._shadow.find_withdrawn_result(name))


class _RequestBuilder:
    """Builds the messages of one request."""

    def __init__(
        self,
        shadow: Shadow,
        shadows: Sequence[ShadowMessage],
        state: Sequence[BaseMessage],
        sent: Sequence[BaseMessage],
        extra: Sequence[ShadowMessage],
    ) -> None:
        self._shadow = shadow
        objects: dict[str, BaseMessage] = {each.id: message for each, message in zip(shadows, state, strict=True)}
        own = {id(message) for message in state} | {message.id for message in state if message.id}
        for message in sent:
            if message.id in objects:
                objects[message.id or ""] = message  # other middleware may have changed it
        self._objects = objects
        added = [each for each in sent if id(each) not in own and each.id not in own]
        answers = [each for each in added if isinstance(each, ToolMessage)]
        known = [each for each in objects.values() if isinstance(each, ToolMessage)]
        self._results = {each.tool_call_id: each for each in [*answers, *known]}
        first = next((place for place, each in enumerate(sent) if each not in added), len(sent))
        others = [(place, each) for place, each in enumerate(sent) if each in added and each not in answers]
        self._front = [objects[each.id] for each in extra] + [each for place, each in others if place < first]
        self._back = [each for place, each in others if place > first]

    def build(self, pack: holdfast.Pack, system: SystemMessage | None) -> PackedRequest:
        head: list[BaseMessage] = []
        texts: list[str] = []
        messages: list[BaseMessage] = [*self._front]
        tail: BaseMessage | None = None
        for shown in show_pack(pack, self._shadow):
            if shown.role == "system" and not shown.is_later:
                original = self._objects.get(shown.id) if shown.is_original else None
                if original is not None:
                    head.append(original)
                else:
                    texts.append(shown.text)
                continue
            if shown.message is None and tail is None and messages and _is_tail(shown):
                tail = HumanMessage(shown.text)
                continue
            messages += self._show(shown)
        messages += [*self._back, *([tail] if tail is not None else [])]
        return PackedRequest(pack, _build_system(system, texts), [*head, *messages])

    def _show(self, shown: ShownMessage) -> list[BaseMessage]:
        match shown.role:
            case "tool":
                return [self._show_result(shown)]
            case "assistant":
                return self._show_reply(shown)
            case _:
                original = self._objects.get(shown.id) if shown.is_original else None
                return [original if original is not None else HumanMessage(shown.user_text)]

    def _show_reply(self, shown: ShownMessage) -> list[BaseMessage]:
        original = self._objects.get(shown.id) if shown.is_original else None
        if not isinstance(original, AIMessage) or any(not call.get("id") for call in original.invalid_tool_calls):
            calls = [
                {
                    "name": call.name,
                    "args": arguments_object(call),
                    "id": call.provider_id or call.id,
                    "type": "tool_call",
                }
                for call in shown.calls
            ]
            return [AIMessage(shown.text, tool_calls=calls)]
        return [original]

    def _show_result(self, shown: ShownMessage) -> BaseMessage:
        call, message = shown.call, shown.message
        assert call is not None, "a result answers a call"
        call_id = call.provider_id or call.id
        own = self._results.get(call_id)
        if own is not None:
            recorded = _digest_of(message) if message is not None else None
            was_changed = recorded is not None and to_shadow(own).digest != recorded
            if shown.is_original or was_changed:
                return own
        return ToolMessage(
            shown.text, tool_call_id=call_id, name=call.name, status="error" if shown.is_error else "success"
        )


def _digest_of(result: Message) -> object:
    """The digest of the message of LangChain that a result was recorded from."""
    origin = result.metadata.get("framework")
    return origin.get("digest") if isinstance(origin, dict) else result.metadata.get(RESULT_DIGEST)


def give_id(message: BaseMessage) -> None:
    """Give an id to a message that has none, as LangGraph does later."""
    if message.id is None:
        message.id = str(uuid.uuid4())


def _is_tail(shown: ShownMessage) -> bool:
    return shown.text.startswith("<holdfast-context>")


def _makes_call(reply: AIMessage, call: Mapping[str, Any]) -> bool:
    return any(each["id"] == call["id"] for each in reply.tool_calls)


def _build_system(system: SystemMessage | None, texts: Sequence[str]) -> SystemMessage | None:
    """The system prompt of the agent as it is, and behind it what Holdfast adds."""
    if system is None:
        return SystemMessage("\n\n".join(texts)) if texts else None
    added = [*texts]
    if added and added[0].startswith(system.text):
        added[0] = added[0].removeprefix(system.text).strip()
    added = [text for text in added if text]
    if not added:
        return system
    if isinstance(system.content, str):
        return system.model_copy(update={"content": "\n\n".join([system.content, *added])})
    blocks = [{"type": "text", "text": f"\n\n{text}"} for text in added]  # providers put nothing between blocks
    return system.model_copy(update={"content": [*system.content, *blocks]})
