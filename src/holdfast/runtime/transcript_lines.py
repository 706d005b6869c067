"""One line of a transcript, and the messages that it becomes; and back. Nothing here is read, stored or asked for.

A line becomes one message, or several pieces where it says at once what a session keeps apart, such as results for calls
that wait and others that come late. Each has a note in its metadata of what its line said beyond what a message can say.

Law: `joined` makes the line again of what became of the drafts that `Reader` made of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, get_args

import msgspec

from holdfast import codec
from holdfast.core.arguments import raw_of
from holdfast.core.messages import group_of
from holdfast.errors import InvalidJson, InvalidName
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, Data, Part, SkipReason, Text, Usage, text_of
from holdfast.model.drafts import Draft, DraftCall, DraftResult
from holdfast.model.events import EvidenceKept, MessageRecorded
from holdfast.model.names import checked_name
from holdfast.providers.usage import anthropic_usage, openai_usage

ROLES = {role: role for role in ("system", "user", "assistant", "tool")} | {"developer": "system"}
_MARK = "import"
_UNKNOWN = "unknown"
"""For a call or a tool without a usable name."""

Line: TypeAlias = dict[str, Any]
Kept: TypeAlias = MessageRecorded | EvidenceKept
Names: TypeAlias = Callable[[str], str]
"""From a call's id in the session to its id in the transcript."""
Read: TypeAlias = Callable[[BlobRef], bytes | None]
"""A body, or None for one that stays a reference."""


class _Patch(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """How an object of the line differs from what is said without it."""

    put: dict[str, Any] = msgspec.field(default_factory=dict)
    drop: list[str] = []
    bare: bool = False
    """It was no object but the result itself."""


class Note(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    line: int = 0
    part: bool = False
    """Another piece of this line speaks for it."""
    added: bool = False
    """No line says this: it closes calls that the log has no results for."""
    put: dict[str, Any] = msgspec.field(default_factory=dict)
    drop: list[str] = []
    calls: list[_Patch | None] = []
    at: list[int] = []
    """Where the results of this piece stand among those of the line; none if they are all of them, in order."""
    results: list[_Patch | None] = []


# From lines to messages


class _Answer(NamedTuple):
    """A result of a line, and the call that it is recorded for."""

    at: int
    found: object
    call: str

    @property
    def draft(self) -> DraftResult:
        if type(self.found) is not dict:
            return DraftResult(self.call, self.found)
        return DraftResult(self.call, self.found.get("result"), self.found.get("is_error") is True)

    @property
    def patch(self) -> _Patch | None:
        if type(self.found) is not dict:
            return _Patch(bare=True)
        return _patch(_result_line(self.call, self.draft.content, self.draft.is_error), self.found)


class Reader:
    """Makes messages of lines. Knows which calls wait, by the ids that the lines give them: anything, or nothing."""

    def __init__(self) -> None:
        self._waiting: list[tuple[bytes, str]] = []
        """The id in the line, and the one that the call is recorded with."""

    def drafts(self, number: int, line: Line) -> list[Draft]:
        """What a line becomes: results for calls that wait, what was said, results for its own calls, late results."""
        found = line.get("tool_results")
        results = list(enumerate(found)) if type(found) is list else []
        before, left = self._answers(results)
        speaks = not results or _content(line) is not None or _calls(line) or _skipped(line)
        said = self._said(number, line) if speaks else None
        after, left = self._answers(left)
        late = [[_Answer(at, each, self._nobody(each))] for at, each in left]
        pieces = [] if said is None else [(said, Note(line=number))]
        pieces[:0] = [_answering(before, number, len(results))] if before else []
        pieces += [_answering(answers, number, len(results)) for answers in (after, *late) if answers]
        speaker = next((at for at, (draft, _) in enumerate(pieces) if draft is said), 0)
        return [
            msgspec.structs.replace(
                draft, metadata={_MARK: codec.plain(_speaking(draft, note, line) if at == speaker else note)}
            )
            for at, (draft, note) in enumerate(pieces)
        ]

    def _answers(self, results: list[tuple[int, object]]) -> tuple[list[_Answer], list[tuple[int, object]]]:
        """The results that calls wait for, and the others. Calls of the same id get theirs in their own order."""
        answers: list[_Answer] = []
        left: list[tuple[int, object]] = []
        for at, found in results:
            name = codec.encode(found.get("tool_call_id")) if type(found) is dict else b""
            call = next((each for each in self._waiting if each[0] == name), None)
            if call is None:
                left.append((at, found))
            else:
                self._waiting.remove(call)
                answers.append(_Answer(at, found, call[1]))
        return answers, left

    def _nobody(self, found: object) -> str:
        """A name for what a late result answers that is the name of no call that waits."""
        name: Any = found.get("tool_call_id") if type(found) is dict else None
        return _free(name if _usable(name) else _UNKNOWN, {call for _, call in self._waiting})

    def _said(self, number: int, line: Line) -> Draft:
        role = ROLES[line["role"]]
        content, skipped = _content(line), _skipped(line)
        calls = _calls(line)
        ids: list[Any] = [each.get("id") for each in calls]
        own: list[str] = []
        for at, name in enumerate(ids):
            fits = _usable(name) and name not in own
            own.append(name if fits else _free(f"line-{number}-{at}", own))
        if role == "assistant" and (content is not None or calls) and not skipped:
            self._waiting = [(codec.encode(id_), name) for id_, name in zip(ids, own, strict=True)]
        is_message = role != "tool" and (content is not None or calls or skipped)
        return Draft(
            role=role,
            content=content,
            tool_calls=tuple(_call(each, name) for each, name in zip(calls, own, strict=True)),
            usage=_usage(line.get("usage")) if is_message else None,
            skipped=skipped,
        )


def _content(line: Line) -> str | Data | None:
    """Text as text; what is no text, as the JSON that it is."""
    content = line.get("content")
    if content is None or content == "":
        return None
    return content if type(content) is str else Data(content)


def _skipped(line: Line) -> SkipReason | None:
    """Why a reply was shown to no model, if the line says so in our own words."""
    said = line.get("skipped")
    known: tuple[SkipReason, ...] = get_args(SkipReason)
    alone = line["role"] == "assistant" and not line.get("tool_calls") and not line.get("tool_results")
    return next((each for each in known if alone and each == said), None)


def _calls(line: Line) -> list[Line]:
    calls = line.get("dropped_calls" if _skipped(line) else "tool_calls")
    if type(calls) is not list or line["role"] != "assistant":
        return []
    return [each for each in calls if type(each) is dict]


def _call(found: Line, own: str) -> DraftCall:
    name, args = found.get("name"), found.get("args")
    if args is None:
        args = {}
    elif type(args) not in (dict, str):
        args = codec.encode(args).decode()
    raw = found.get("raw")
    return DraftCall(name if _is_name(name) else _UNKNOWN, args, own, raw_of(args, raw) if type(raw) is str else None)


def _is_name(value: object) -> bool:
    with suppress(InvalidName):
        return bool(checked_name("", value))
    return False


def _usable(own: Any) -> bool:
    """An id that a call can be recorded with. One that looks like a session's own might be taken for another call's."""
    return _is_name(own) and group_of(own) is None


def _free(name: str, taken: Iterable[str]) -> str:
    others = (f"{name[: limits.NAME_BYTES // 8]}~{number}" for number in itertools.count(2))
    return next(each for each in itertools.chain([name], others) if each not in taken)


def _usage(given: object) -> Usage | None:
    if type(given) is not dict:
        return None
    counts_cached = "prompt_tokens" in given or "input_tokens_details" in given
    return openai_usage(given) if counts_cached else anthropic_usage(given)


def _answering(answers: list[_Answer], number: int, total: int) -> tuple[Draft, Note]:
    draft = Draft(role="tool", tool_results=tuple(each.draft for each in answers))
    at = [each.at for each in answers]
    patches = [each.patch for each in answers]
    return draft, Note(
        line=number,
        part=True,
        at=[] if at == [*range(total)] else at,
        results=patches if any(patches) else [],
    )


def _speaking(draft: Draft, note: Note, line: Line) -> Note:
    """The note of the piece that says of the line what is not in its results."""
    found = dict(line)
    if type(line.get("tool_results")) is list and line["tool_results"]:
        del found["tool_results"]
    calls = [_call_line(call.provider_id, call.name, call.args, call.raw) for call in draft.tool_calls]
    content = draft.content.value if isinstance(draft.content, Data) else draft.content
    said = _spoken(draft.role, content, calls, draft.usage, draft.skipped)
    patches: list[_Patch | None] = []
    where = "dropped_calls" if draft.skipped else "tool_calls"
    if calls and len(calls) == len(found[where]):
        patches = list(map(_patch, said.pop(where), found.pop(where)))
    patch = _patch(said, found) or _Patch()
    return msgspec.structs.replace(
        note, part=False, put=patch.put, drop=patch.drop, calls=patches if any(patches) else []
    )


def _patch(said: Line, found: Line) -> _Patch | None:
    """What makes `found` of `said`. Told apart is also what Python takes for equal: 1 is not true, and not 1.0."""
    put = {
        name: value
        for name, value in found.items()
        if name not in said or codec.encode(said[name]) != codec.encode(value)
    }
    drop = [name for name in said if name not in found]
    return _Patch(put, drop) if put or drop else None


# From messages to lines


class Piece(NamedTuple):
    note: Note
    line: Line


def joined(pieces: list[Piece]) -> Line:
    """The line that became these pieces. If some of them were erased, what is left of it."""
    note, line = next((piece for piece in pieces if not piece.note.part), pieces[0])
    results: dict[int, object] = {}
    for piece in pieces:
        own, patches = piece.note.at or itertools.count(), piece.note.results or itertools.repeat(None)
        for at, said, patch in zip(own, piece.line.get("tool_results", ()), patches):  # noqa: B905
            results[at] = _patched(said, patch)
    line = {name: value for name, value in line.items() if name != "tool_results"}
    if results:
        line["tool_results"] = [results[at] for at in sorted(results)]
    if note.calls:
        where = "dropped_calls" if "dropped_calls" in line else "tool_calls"
        line[where] = list(map(_patched, line.get(where, ()), note.calls))
    line |= note.put
    return {name: value for name, value in line.items() if name not in note.drop}


def _patched(said: Line, patch: _Patch | None) -> object:
    if patch is None:
        return said
    if patch.bare:
        return said["result"]
    return {name: value for name, value in (said | patch.put).items() if name not in patch.drop}


def note_of(event: Kept) -> Note | None:
    """The note of an import; None if this was recorded here."""
    note = event.metadata.get(_MARK)
    if not isinstance(note, dict):
        return None
    try:
        return codec.convert(note, Note)
    except msgspec.ValidationError:
        return None


def event_line(event: Kept, names: Names, read: Read) -> Line:
    calls: list[Line] = []
    usage = skipped = None
    if isinstance(event, MessageRecorded):
        made = (*event.tool_calls, *event.dropped_calls)
        calls = [_call_line(call.provider_id or call.id, call.name, call.args, call.raw) for call in made]
        usage, skipped = event.usage, event.skipped
    line = _spoken(event.role, _value(event.content, read) if event.content else None, calls, usage, skipped)
    if event.tool_results:
        line["tool_results"] = [
            _result_line(names(each.tool_call_id), _value(each.content, read), each.is_error)
            for each in event.tool_results
        ]
    return line


def _spoken(role: str, content: object, calls: list[Line], usage: Usage | None, skipped: SkipReason | None) -> Line:
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


def _call_line(own: str, name: str, args: object, raw: str | None) -> Line:
    line = {"id": own, "name": name, "args": args}
    return line if raw is None else {**line, "raw": raw}


def _result_line(call: str, value: object, is_error: bool) -> Line:
    return {"tool_call_id": call, "result": value, "is_error": is_error}


def _value(parts: tuple[Part, ...], read: Read) -> object:
    """What a message or a tool said: text, or JSON; parts of other kinds as a list of objects."""
    whole = tuple(_whole(part, read) for part in parts)
    if all(isinstance(part, Text) for part in whole):
        return text_of(whole)
    if len(whole) == 1 and isinstance(whole[0], Data):
        return whole[0].value
    listed = [codec.plain(part) for part in whole]
    with suppress(InvalidJson):
        return codec.checked_json("the parts", listed)
    return codec.encode(listed).decode()


def _whole(part: Part, read: Read) -> Part:
    """A body from the blob store as the text or JSON that it was, if it was any."""
    if not isinstance(part, Body) or (body := read(part.ref)) is None:
        return part
    if part.ref.media_type == "application/json":
        with suppress(msgspec.MsgspecError, RecursionError, InvalidJson):
            value = codec.checked_json("the body", codec.decode(body, object))
            if codec.encode(value) == body:
                return Data(value)
    with suppress(UnicodeDecodeError):
        return Text(body.decode())
    return part
