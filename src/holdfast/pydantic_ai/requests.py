"""The messages of a model request, from a pack.

Laws: what the pack shows as it was recorded is the framework's own object. No object of the framework is changed. The last
request of the framework is always sent, and the texts of Holdfast for this call come after it. Everything before them stays
the same from call to call, until the history view changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic_ai.messages import (
    BaseToolReturnPart,
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from holdfast.frameworks.shown import ShownMessage
from holdfast.model.content import File, Image
from holdfast.pydantic_ai.messages import (
    ListedPiece,
    name_call,
    restore_call,
    restore_response,
    restore_result,
)
from holdfast.render.entries import text_in
from holdfast.text.fence import OPENING, remove_tag

BRIEF_ID = "brief"
"""The id of the message that a pack makes of the brief."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclasses.dataclass
class _Group:
    """A request that is being built: its parts, with their positions in the framework's request."""

    position: int | None
    parts: list[tuple[int, ModelRequestPart]] = dataclasses.field(default_factory=list)


class RequestBuilder:
    """Builds the messages of one request. `messages` is the framework's list, `listed` its pieces."""

    def __init__(self, messages: Sequence[ModelMessage], listed: Sequence[ListedPiece]) -> None:
        self._messages = messages
        self._by_name = {each.shadow.id: each for each in listed}
        self._results: dict[str, list[ListedPiece]] = {}
        self._recorded: dict[int, set[int]] = {}
        """The numbers of the parts that are messages of the session, by the position of their request."""
        for each in listed:
            self._recorded.setdefault(each.position, set()).update(each.piece.numbers)
            if each.piece.call_id is not None:
                self._results.setdefault(each.piece.call_id, []).append(each)
        asked = (each.position for each in listed if each.piece.fields["role"] == "user")
        self._turn = max(asked, default=-1)
        """The position of the newest message of the user."""
        self._built: list[_Group | ModelResponse] = []
        self._reply_position: int | None = None
        self._used: set[int] = set()
        self._front: list[tuple[int, int, SystemPromptPart]] = []

    def build(self, extra: Iterable[str], shown: Iterable[ShownMessage]) -> list[ModelMessage]:
        """The messages: first the framework's own that the session does not have, then those of the pack."""
        for name in extra:
            self._add_original(self._by_name[name])
        tail = ""
        for each in shown:
            if each.message is None and each.role == "user" and each.text.startswith(OPENING):
                tail = each.text
            elif each.message is None or each.message.id != BRIEF_ID:  # the framework sends its instructions itself
                self._add(each)
        self._add_last()
        self._find_system_prompts()
        return self._finish(tail)

    def _add(self, shown: ShownMessage) -> None:
        if shown.role == "assistant":
            self._add_reply(shown)
        elif shown.role == "tool":
            self._add_result(shown)
        else:
            self._add_request(shown)

    def _add_original(self, listed: ListedPiece) -> None:
        message = self._messages[listed.position]
        if isinstance(message, ModelResponse):
            self._built.append(message)
        else:
            number = listed.piece.numbers[0]
            self._open(listed.position).parts.append((number, message.parts[number]))

    def _open(self, position: int | None) -> _Group:
        """The group for parts of the request at this position."""
        last = self._built[-1] if self._built else None
        if not isinstance(last, _Group) or last.position != position:
            last = _Group(position)
            self._built.append(last)
        return last

    def _add_request(self, shown: ShownMessage) -> None:
        listed = self._by_name.get(shown.id) if shown.id else None
        if listed is None:
            at = shown.message.at if shown.message is not None else _EPOCH
            kind = SystemPromptPart if shown.role == "system" else UserPromptPart
            self._open(None).parts.append((0, kind(shown.text, timestamp=at)))
        elif shown.is_original:
            self._add_original(listed)
        else:
            number = listed.piece.numbers[0]
            original: Any = self._messages[listed.position].parts[number]
            self._open(listed.position).parts.append((number, _change_prompt(original, shown)))

    def _add_result(self, shown: ShownMessage) -> None:
        call = shown.call
        assert call is not None, "a result has a call"
        assert shown.message is not None, "a result is a message"
        listed = self._find_result(call.provider_id or call.id)
        if listed is None:
            part = restore_result(shown.message, call, shown.text, is_error=shown.is_error)
            self._open(None).parts.append((0, part))
        elif shown.is_original:
            self._add_original(listed)
        else:
            number = listed.piece.numbers[0]
            original: Any = self._messages[listed.position].parts[number]
            self._open(listed.position).parts.append((number, _change_result(original, shown)))

    def _find_result(self, call_id: str) -> ListedPiece | None:
        """The result of a call of the reply that was added last: providers may use the same id again."""
        if self._reply_position is None:
            return None
        listed = self._results.get(call_id, ())
        return next((each for each in listed if each.position > (self._reply_position or 0)), None)

    def _add_reply(self, shown: ShownMessage) -> None:
        assert shown.message is not None, "a reply is a message"
        listed = self._by_name.get(shown.id) if shown.id else None
        self._reply_position = listed.position if listed is not None else None
        if listed is None:
            reply = _restore_reply(shown)
        else:
            original = self._messages[listed.position]
            assert isinstance(original, ModelResponse), "a reply is a response"
            reply = original if shown.is_original else self._change_reply(original, listed, shown)
        if reply.parts:
            self._built.append(reply)

    def _change_reply(self, original: ModelResponse, listed: ListedPiece, shown: ShownMessage) -> ModelResponse:
        """A reply that the pack shows otherwise. Reasoning may repeat what the pack does not show, so it stays only in the
        current turn, where providers need it."""
        kept = {call.provider_id or call.id for call in shown.calls}
        calls = [
            part
            for part in original.parts
            if not isinstance(part, ToolCallPart) or name_call(part.tool_call_id) in kept
        ]
        texts = [part["text"] for part in listed.piece.fields["content"] if part["type"] == "text"]
        if shown.text in ("".join(texts), "\n".join(texts)):
            return dataclasses.replace(original, parts=calls)
        is_current = listed.position > self._turn
        parts: list[ModelResponsePart] = [part for part in calls if is_current and isinstance(part, ThinkingPart)]
        parts += [TextPart(shown.text)] if shown.text else []
        parts += (part for part in calls if isinstance(part, ToolCallPart))
        return dataclasses.replace(original, parts=parts)

    def _add_last(self) -> None:
        """The framework's last request is sent, even if nothing of it is a message of the session."""
        position = len(self._messages) - 1
        if position >= 0 and not any(isinstance(each, _Group) and each.position == position for each in self._built):
            last = self._messages[position]
            assert isinstance(last, ModelRequest), "the last message is a request"
            parts = enumerate(last.parts)
            self._open(position).parts += [(at, part) for at, part in parts if not isinstance(part, SystemPromptPart)]

    def _find_system_prompts(self) -> None:
        """System prompts come first: those at the beginning of the list, and those of requests that are not shown."""
        shown = {each.position for each in self._built if isinstance(each, _Group)}
        leading = True
        for position, message in enumerate(self._messages):
            for number, part in enumerate(message.parts):
                leading = leading and isinstance(part, SystemPromptPart)
                if isinstance(part, SystemPromptPart) and (leading or position not in shown):
                    self._front.append((position, number, part))

    def _finish(self, tail: str) -> list[ModelMessage]:
        built: list[ModelMessage] = [
            self._build_request(each) if isinstance(each, _Group) else each for each in self._add_front()
        ]
        if not tail:
            return built
        last = built[-1] if built else None
        if not isinstance(last, ModelRequest):
            return [*built, ModelRequest(parts=[UserPromptPart(tail, timestamp=_EPOCH)])]
        part = UserPromptPart(tail, timestamp=last.timestamp or _EPOCH)
        return [*built[:-1], dataclasses.replace(last, parts=[*last.parts, part])]

    def _add_front(self) -> list[_Group | ModelResponse]:
        """The system prompts in front: with the first request, if they are from it, so that it stays the same object."""
        if not self._front:
            return self._built
        own = [(number, part) for position, number, part in self._front if position == 0]
        first = self._built[0] if self._built else None
        if len(own) == len(self._front) and isinstance(first, _Group) and first.position == 0:
            first.parts += own
            return self._built
        return [_Group(None, [(0, part) for _, _, part in self._front]), *self._built]

    def _build_request(self, group: _Group) -> ModelRequest:
        if group.position is None:
            return ModelRequest(parts=[part for _, part in group.parts], timestamp=_EPOCH)
        original = self._messages[group.position]
        assert isinstance(original, ModelRequest), "a group has parts of a request"
        parts = dict(group.parts)
        if group.position not in self._used:  # parts that say nothing to models stay with the first
            self._used.add(group.position)
            recorded = self._recorded.get(group.position, set())
            front = {number for position, number, _ in self._front if position == group.position}
            left_out = recorded | front | parts.keys()
            parts |= {number: part for number, part in enumerate(original.parts) if number not in left_out}
        ordered = [parts[number] for number in sorted(parts)]
        is_same = len(ordered) == len(original.parts) and all(
            part is own for part, own in zip(ordered, original.parts, strict=True)
        )
        return original if is_same else dataclasses.replace(original, parts=ordered)


def _restore_reply(shown: ShownMessage) -> ModelResponse:
    """A reply of an earlier run, whose object is gone."""
    assert shown.message is not None, "a reply is a message"
    if shown.is_original:
        return restore_response(shown.message, shown.calls)
    parts: list[ModelResponsePart] = [TextPart(shown.text)] if shown.text else []
    return ModelResponse(parts=[*parts, *map(restore_call, shown.calls)], timestamp=shown.message.at)


def _change_result(original: object, shown: ShownMessage) -> ToolReturnPart:
    """The result of a tool that the pack shows otherwise."""
    assert shown.call is not None, "a result has a call"
    if not isinstance(original, BaseToolReturnPart):
        assert shown.message is not None, "a result is a message"
        return restore_result(shown.message, shown.call, shown.text, is_error=shown.is_error)
    return ToolReturnPart(
        original.tool_name,
        shown.text,
        tool_call_id=original.tool_call_id,
        timestamp=original.timestamp,
        outcome=original.outcome,
    )


def _change_prompt(original: Any, shown: ShownMessage) -> ModelRequestPart:
    """A message of the user that the pack shows otherwise. Images and files stay."""
    timestamp = getattr(original, "timestamp", _EPOCH)
    return UserPromptPart(_change_content(getattr(original, "content", ""), shown), timestamp=timestamp)


def _change_content(content: Any, shown: ShownMessage) -> Any:
    parts = shown.message.content if shown.message is not None else ()
    media: Iterator[Any] = iter(())
    if isinstance(content, Sequence) and not isinstance(content, str):
        items = [item for item in content if isinstance(item, ImageUrl | BinaryContent)]
        if items and len(items) == sum(isinstance(part, Image | File) for part in parts):
            media = iter(items)
            return [next(media) if isinstance(part, Image | File) else remove_tag(text_in(part)) for part in parts]  # type: ignore[arg-type]  # no opaque part
    return shown.text
