"""Convert a line of a transcript into messages, and messages into a line. Pure: no file or store is used here.

A line becomes one message, or several where a session separates what the line has together: results for open calls, and
late results. Each message gets a note in its metadata with the parts of the line that a message has no field for.

Law: `join_parts` restores the line from the messages that `LineReader` made of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, get_args

import msgspec

from holdfast import codec
from holdfast.conversion import raw_arguments
from holdfast.errors import InvalidJson, InvalidName
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, Data, Part, SkipReason, Text, Usage, calling_seq, text_of
from holdfast.model.names import check_name
from holdfast.model.sessions.events import EvidenceKept, MessageRecorded
from holdfast.model.sessions.messages import CallDraft, MessageDraft, ResultDraft
from holdfast.providers.usage import read_anthropic_usage, read_openai_usage

ROLES = {role: role for role in ("system", "user", "assistant", "tool")} | {"developer": "system"}
_NOTE_KEY = "import"
_UNKNOWN = "unknown"
"""The name of a call or a tool without a valid name."""

Line: TypeAlias = dict[str, Any]
StoredMessage: TypeAlias = MessageRecorded | EvidenceKept
CallNamer: TypeAlias = Callable[[str], str]
"""Maps the id of a call in the session to its id in the transcript."""
BodyReader: TypeAlias = Callable[[BlobRef], bytes | None]
"""Returns a body, or None if the line only refers to it."""


class _LinePatch(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How an object of the line differs from the object that is built from the message."""

    put: dict[str, Any] = msgspec.field(default_factory=dict)
    drop: list[str] = []
    bare: bool = False
    """The line had the plain result in place of an object."""


class LineNote(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a message cannot express of its line. Stored in the metadata of the message."""

    line: int = 0
    part: bool = False
    """Another message of this line has the rest of the note."""
    added: bool = False
    """The message is not from the file: it closes calls that have no result there."""
    put: dict[str, Any] = msgspec.field(default_factory=dict)
    drop: list[str] = []
    calls: list[_LinePatch | None] = []
    at: list[int] = []
    """The positions of these results in the line; empty if they are all, in order."""
    results: list[_LinePatch | None] = []


# From lines to messages


class _LineResult(NamedTuple):
    """A result of a line, and the call that it answers."""

    at: int
    source: object
    call: str

    @property
    def draft(self) -> ResultDraft:
        if type(self.source) is not dict:
            return ResultDraft(self.call, self.source)
        return ResultDraft(self.call, self.source.get("result"), self.source.get("is_error") is True)

    @property
    def patch(self) -> _LinePatch | None:
        if type(self.source) is not dict:
            return _LinePatch(bare=True)
        return _build_patch(_build_result_line(self.call, self.draft.content, self.draft.is_error), self.source)


class LineReader:
    """Converts lines into messages. Keeps the open calls by their ids in the lines, which may be any value or
    missing."""

    def __init__(self) -> None:
        self._waiting: list[tuple[bytes, str]] = []
        """The id in the line, and the id that the call is recorded with."""

    def read_drafts(self, number: int, line: Line) -> list[MessageDraft]:
        """Convert a line: results for open calls, the message itself, results for its own calls, late results."""
        items = line.get("tool_results")
        results = list(enumerate(items)) if type(items) is list else []
        before, unmatched = self._match_results(results)
        has_message = not results or _content_of(line) is not None or _calls_of(line) or _skip_reason_of(line)
        message = self._draft_message(number, line) if has_message else None
        after, unmatched = self._match_results(unmatched)
        late = [[_LineResult(at, item, self._name_late_call(item))] for at, item in unmatched]
        pieces = [] if message is None else [(message, LineNote(line=number))]
        pieces[:0] = [_build_answer(before, number, len(results))] if before else []
        pieces += [_build_answer(answers, number, len(results)) for answers in (after, *late) if answers]
        main = next((at for at, (draft, _) in enumerate(pieces) if draft is message), 0)
        return [
            msgspec.structs.replace(
                draft, metadata={_NOTE_KEY: codec.to_plain(_build_note(draft, note, line) if at == main else note)}
            )
            for at, (draft, note) in enumerate(pieces)
        ]

    def _match_results(self, results: list[tuple[int, object]]) -> tuple[list[_LineResult], list[tuple[int, object]]]:
        """Return the results of open calls, and the others. Calls with the same id are answered in their order."""
        answers: list[_LineResult] = []
        unmatched: list[tuple[int, object]] = []
        for at, item in results:
            name = codec.encode(item.get("tool_call_id")) if type(item) is dict else b""
            call = next((waiting for waiting in self._waiting if waiting[0] == name), None)
            if call is None:
                unmatched.append((at, item))
            else:
                self._waiting.remove(call)
                answers.append(_LineResult(at, item, call[1]))
        return answers, unmatched

    def _name_late_call(self, item: object) -> str:
        """Return a name for the call of a late result that no open call has."""
        name: Any = item.get("tool_call_id") if type(item) is dict else None
        return _find_free_name(name if _is_usable_id(name) else _UNKNOWN, {call for _, call in self._waiting})

    def _draft_message(self, number: int, line: Line) -> MessageDraft:
        role = ROLES[line["role"]]
        content, skipped = _content_of(line), _skip_reason_of(line)
        calls = _calls_of(line)
        ids: list[Any] = [call.get("id") for call in calls]
        names: list[str] = []
        for at, name in enumerate(ids):
            is_free = _is_usable_id(name) and name not in names
            names.append(name if is_free else _find_free_name(f"line-{number}-{at}", names))
        if role == "assistant" and (content is not None or calls) and not skipped:
            self._waiting = [(codec.encode(id_), name) for id_, name in zip(ids, names, strict=True)]
        is_message = role != "tool" and (content is not None or calls or skipped)
        return MessageDraft(
            role=role,
            content=content,
            tool_calls=tuple(_build_call(call, name) for call, name in zip(calls, names, strict=True)),
            usage=_read_usage(line.get("usage")) if is_message else None,
            skipped=skipped,
        )


def _content_of(line: Line) -> str | Data | None:
    """Return text as text, and any other value as JSON."""
    content = line.get("content")
    if content is None or content == "":
        return None
    return content if type(content) is str else Data(content)


def _skip_reason_of(line: Line) -> SkipReason | None:
    """Return why a reply was shown to no model, if the line has a reason of Holdfast."""
    reasons: tuple[SkipReason, ...] = get_args(SkipReason)
    is_plain = line["role"] == "assistant" and not line.get("tool_calls") and not line.get("tool_results")
    return next((reason for reason in reasons if is_plain and reason == line.get("skipped")), None)


def _calls_of(line: Line) -> list[Line]:
    calls = line.get("dropped_calls" if _skip_reason_of(line) else "tool_calls")
    if type(calls) is not list or line["role"] != "assistant":
        return []
    return [call for call in calls if type(call) is dict]


def _build_call(call: Line, call_id: str) -> CallDraft:
    name, args = call.get("name"), call.get("args")
    if args is None:
        args = {}
    elif type(args) not in (dict, str):
        args = codec.encode(args).decode()
    raw = call.get("raw")
    kept = raw_arguments(args, raw) if type(raw) is str else None
    return CallDraft(name if _is_valid_name(name) else _UNKNOWN, args, call_id, kept)


def _is_valid_name(value: object) -> bool:
    with suppress(InvalidName):
        return bool(check_name("", value))
    return False


def _is_usable_id(name: Any) -> bool:
    """Whether a call can be recorded with this id. An id in the format of Holdfast could belong to another call."""
    return _is_valid_name(name) and calling_seq(name) is None


def _find_free_name(name: str, used: Iterable[str]) -> str:
    others = (f"{name[: limits.NAME_BYTES // 8]}~{number}" for number in itertools.count(2))
    return next(candidate for candidate in itertools.chain([name], others) if candidate not in used)


def _read_usage(usage: object) -> Usage | None:
    if type(usage) is not dict:
        return None
    is_openai = "prompt_tokens" in usage or "input_tokens_details" in usage
    return read_openai_usage(usage) if is_openai else read_anthropic_usage(usage)


def _build_answer(answers: list[_LineResult], number: int, total: int) -> tuple[MessageDraft, LineNote]:
    draft = MessageDraft(role="tool", tool_results=tuple(answer.draft for answer in answers))
    at = [answer.at for answer in answers]
    patches = [answer.patch for answer in answers]
    return draft, LineNote(
        line=number,
        part=True,
        at=[] if at == [*range(total)] else at,
        results=patches if any(patches) else [],
    )


def _build_note(draft: MessageDraft, note: LineNote, line: Line) -> LineNote:
    """Build the note of the message that has everything of the line but its results."""
    original = dict(line)
    if type(line.get("tool_results")) is list and line["tool_results"]:
        del original["tool_results"]
    calls = [_build_call_line(call.provider_id, call.name, call.args, call.raw) for call in draft.tool_calls]
    content = draft.content.value if isinstance(draft.content, Data) else draft.content
    built = _build_message_line(draft.role, content, calls, draft.usage, draft.skipped)
    patches: list[_LinePatch | None] = []
    field = "dropped_calls" if draft.skipped else "tool_calls"
    if calls and len(calls) == len(original[field]):
        patches = list(map(_build_patch, built.pop(field), original.pop(field)))
    patch = _build_patch(built, original) or _LinePatch()
    return msgspec.structs.replace(
        note, part=False, put=patch.put, drop=patch.drop, calls=patches if any(patches) else []
    )


def _build_patch(built: Line, original: Line) -> _LinePatch | None:
    """Build the patch from `built` to `original`. Values are compared as JSON: 1, 1.0 and true differ."""
    put = {
        name: value
        for name, value in original.items()
        if name not in built or codec.encode(built[name]) != codec.encode(value)
    }
    drop = [name for name in built if name not in original]
    return _LinePatch(put, drop) if put or drop else None


# From messages to lines


class LinePart(NamedTuple):
    """A message of a line, as a line of its own, with its note."""

    note: LineNote
    line: Line


def join_parts(pieces: list[LinePart]) -> Line:
    """Restore the line from its messages. If some of them were erased, the rest of the line is returned."""
    note, line = next((piece for piece in pieces if not piece.note.part), pieces[0])
    results: dict[int, object] = {}
    for piece in pieces:
        positions, patches = piece.note.at or itertools.count(), piece.note.results or itertools.repeat(None)
        for at, result, patch in zip(positions, piece.line.get("tool_results", ()), patches):  # noqa: B905
            results[at] = _apply_patch(result, patch)
    line = {name: value for name, value in line.items() if name != "tool_results"}
    if results:
        line["tool_results"] = [results[at] for at in sorted(results)]
    if note.calls:
        field = "dropped_calls" if "dropped_calls" in line else "tool_calls"
        line[field] = list(map(_apply_patch, line.get(field, ()), note.calls))
    line |= note.put
    return {name: value for name, value in line.items() if name not in note.drop}


def _apply_patch(built: Line, patch: _LinePatch | None) -> object:
    if patch is None:
        return built
    if patch.bare:
        return built["result"]
    return {name: value for name, value in (built | patch.put).items() if name not in patch.drop}


def read_note(event: StoredMessage) -> LineNote | None:
    """Return the note of an imported message; None for any other message."""
    note = event.metadata.get(_NOTE_KEY)
    if not isinstance(note, dict):
        return None
    try:
        return codec.convert(note, LineNote)
    except msgspec.ValidationError:
        return None


def build_line(event: StoredMessage, names: CallNamer, read: BodyReader) -> Line:
    """Build the line of a stored message."""
    calls: list[Line] = []
    usage = skipped = None
    if isinstance(event, MessageRecorded):
        all_calls = (*event.tool_calls, *event.dropped_calls)
        calls = [_build_call_line(call.provider_id or call.id, call.name, call.args, call.raw) for call in all_calls]
        usage, skipped = event.usage, event.skipped
    line = _build_message_line(
        event.role, _value_of(event.content, read) if event.content else None, calls, usage, skipped
    )
    if event.tool_results:
        line["tool_results"] = [
            _build_result_line(names(result.tool_call_id), _value_of(result.content, read), result.is_error)
            for result in event.tool_results
        ]
    return line


def _build_message_line(
    role: str, content: object, calls: list[Line], usage: Usage | None, skipped: SkipReason | None
) -> Line:
    line: Line = {"role": role}
    if content is not None or role != "tool":
        line["content"] = "" if content is None else content
    if skipped:
        line["skipped"] = skipped
    if calls:
        line["dropped_calls" if skipped else "tool_calls"] = calls
    if usage is not None:
        line["usage"] = {
            "input_tokens": max(0, usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens),
            "cache_creation_input_tokens": usage.cache_write_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens,
            "output_tokens": usage.output_tokens,
        }
    return line


def _build_call_line(call_id: str, name: str, args: object, raw: str | None) -> Line:
    line = {"id": call_id, "name": name, "args": args}
    return line if raw is None else {**line, "raw": raw}


def _build_result_line(call: str, value: object, is_error: bool) -> Line:
    return {"tool_call_id": call, "result": value, "is_error": is_error}


def _value_of(parts: tuple[Part, ...], read: BodyReader) -> object:
    """Return content as text, as JSON, or as a list of parts."""
    inlined = tuple(_inline_body(part, read) for part in parts)
    if all(isinstance(part, Text) for part in inlined):
        return text_of(inlined)
    if len(inlined) == 1 and isinstance(inlined[0], Data):
        return inlined[0].value
    plain = [codec.to_plain(part) for part in inlined]
    with suppress(InvalidJson):
        return codec.check_json("the parts", plain)
    return codec.encode(plain).decode()


def _inline_body(part: Part, read: BodyReader) -> Part:
    """Return a stored body as text or JSON, if it is one."""
    if not isinstance(part, Body) or (body := read(part.ref)) is None:
        return part
    if part.ref.media_type == "application/json":
        with suppress(msgspec.MsgspecError, RecursionError, InvalidJson):
            value = codec.check_json("the body", codec.decode(body, object))
            if codec.encode(value) == body:
                return Data(value)
    with suppress(UnicodeDecodeError):
        return Text(body.decode())
    return part
