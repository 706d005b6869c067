"""Transcripts as JSON lines, one message a line: what other systems keep of a session, and what they can read.

    {"role": "user", "content": "…", "at": "2026-01-22T19:57:17.484Z"}
    {"role": "assistant", "content": "…", "tool_calls": [{"id": …, "name": …, "args": {…}}], "usage": {…}, "at": …}
    {"role": "tool", "tool_results": [{"tool_call_id": …, "result": …, "is_error": false}], "at": …}

Laws: what is imported comes out again equal, line by line; what breaks the rules of a session (a result without its call, a
second result, an empty message, a call that never got a result) is kept as evidence, not refused; an import that was
interrupted goes on where it was when it is repeated.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast import codec
from holdfast.core.messages import group_of
from holdfast.errors import ImportRefused, InvalidInput
from holdfast.flows import effects
from holdfast.flows import messages as message_flows
from holdfast.flows import sessions as session_flows
from holdfast.flows.place import Place
from holdfast.flows.read import message as read_message
from holdfast.model import limits
from holdfast.model.content import Body, Data, Part, Text, ToolResult, Usage, text_of
from holdfast.model.events import EvidenceKept, MessageRecorded
from holdfast.model.messages import Message
from holdfast.providers.draft import Draft, DraftCall, DraftResult
from holdfast.providers.usage import anthropic_usage, openai_usage
from holdfast.runtime.care import Drive
from holdfast.storage.files import appearing, typed_os_errors

_BATCH = 100
_MARK = "import"
"""Where a message keeps what its line said beyond what a message can say."""

Line = dict[str, Any]


def import_transcript(drive: Drive, place: Place, source: str, metadata: Line | None) -> int:
    """How many messages were new. The session is made by this, or was by an import of the same file."""
    name = f"transcript-{_digest(source)}"
    drive(session_flows.create(place, metadata, key=name))
    before = drive(session_flows.state(place)).version
    lines = enumerate(_lines(source), 1)
    while batch := list(itertools.islice(lines, _BATCH)):
        first = batch[0][0]
        try:
            drafts = [_draft(line, number) for number, line in batch]
            drive(message_flows.record_drafts(place, drafts, key=f"{name}-{first}", as_found=True))
        except InvalidInput as error:
            raise ImportRefused(line=first, reason=f"in the {len(batch)} lines from here on: {error}") from error
    added: int = drive(session_flows.state(place)).version - before
    return added


def _digest(source: str) -> str:
    digest = hashlib.sha256()
    with typed_os_errors(source), open(source, "rb") as file:
        while chunk := file.read(limits.BLOB_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _lines(source: str) -> Iterator[Line]:
    with typed_os_errors(source), open(source, "rb") as file:
        for number in itertools.count(1):
            raw = file.readline(limits.EXPORT_LINE_BYTES)
            if not raw:
                return
            try:
                line = codec.decode_object(raw)
            except (msgspec.MsgspecError, RecursionError, ValueError) as error:
                raise ImportRefused(line=number, reason=f"it is not a JSON object ({error})") from error
            if type(line.get("role")) is not str:
                raise ImportRefused(line=number, reason="it has no role")
            yield line


def _draft(line: Line, number: int) -> Draft:
    """A line as a message, with a note of what a message cannot say."""
    calls = _calls(line.get("tool_calls"))
    results = tuple(
        DraftResult(each.get("tool_call_id"), each.get("result"), each.get("is_error") is True)
        for each in _objects(line.get("tool_results"))
    )
    draft = Draft(
        role="tool" if results else line["role"],
        content=None if results else _content(line.get("content")),
        tool_calls=calls if line["role"] == "assistant" and not results else (),
        tool_results=results,
        usage=_usage(line.get("usage")),
    )
    said = _said(draft)
    note: Line = {"line": number}
    if set_ := {key: value for key, value in line.items() if key not in said or not _same(said[key], value)}:
        note["set"] = set_
    if drop := [key for key in said if key not in line]:
        note["drop"] = drop
    return msgspec.structs.replace(draft, metadata={_MARK: note})


def _content(content: object) -> object:
    """Text as text; what is no text, as the JSON that it is."""
    return content if content is None or type(content) is str else Data(content)  # type: ignore[arg-type]


def _calls(given: object) -> tuple[DraftCall, ...]:
    """Calls, each with an id of its own: one that repeats another's has none."""
    calls: list[DraftCall] = []
    for each in _objects(given):
        own = each.get("id")
        known = [call.provider_id for call in calls]
        args = each.get("args")
        text = args if type(args) in (dict, str) else codec.encode(args).decode()
        calls.append(DraftCall(each.get("name"), text, own if type(own) is str and own not in known else None))
    return tuple(calls)


def _objects(given: object) -> list[Line]:
    return [each for each in given if type(each) is dict] if type(given) is list else []


def _usage(given: object) -> Usage | None:
    if type(given) is not dict:
        return None
    return openai_usage(given) if "prompt_tokens" in given else anthropic_usage(given)


def _said(draft: Draft) -> Line:
    """What the line of this draft will say when it is exported."""
    calls = [{"id": call.provider_id, "name": call.name, "args": call.args} for call in draft.tool_calls]
    results = [
        {"tool_call_id": each.call, "result": each.content, "is_error": each.is_error} for each in draft.tool_results
    ]
    content = draft.content.value if isinstance(draft.content, Data) else draft.content
    return _line(draft.role, content, calls, results, draft.usage)


def _line(role: str, content: object, calls: list[Line], results: list[Line], usage: Usage | None) -> Line:
    line: Line = {"role": role}
    if content not in (None, ""):
        line["content"] = content
    if calls:
        line["tool_calls"] = calls
    if results:
        line["tool_results"] = results
    if usage is not None:
        line["usage"] = {
            "input_tokens": usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens,
            "cache_creation_input_tokens": usage.cache_write_tokens,
            "cache_read_input_tokens": usage.cache_read_tokens,
            "output_tokens": usage.output_tokens,
        }
    return line


def _same(one: object, other: object) -> bool:
    """Equal also in what Python takes for equal: 1 is not true, and not 1.0."""
    return codec.encode(one) == codec.encode(other)


def export_transcript(drive: Drive, place: Place, target: str) -> int:
    """Every message a line, from the first on; how many lines."""
    count = 0
    with appearing(target) as partial, open(partial, "wb") as file:
        for line in _exported(drive, place):
            file.write(codec.encode(line) + b"\n")
            count += 1
    return count


def _exported(drive: Drive, place: Place) -> Iterator[Line]:
    drive(message_flows.check_there(place))
    names: dict[str, str] = {}
    pending: tuple[int, Line] | None = None
    after = 0
    while page := drive(effects.read(place.scope.stream, after, _BATCH)):
        for recorded in page:
            if recorded.type not in (MessageRecorded.name, EvidenceKept.name):
                continue
            message = read_message(recorded)
            note: Any = message.metadata.get(_MARK, {})
            if message.erased or "added" in note:
                continue
            line = _message_line(drive, place, message, names)
            number = note.get("line", 0)
            if pending and number and pending[0] == number:  # one line that became a message and evidence
                pending[1].setdefault("tool_results", []).extend(line.get("tool_results", []))
                continue
            if pending:
                yield pending[1]
            pending = (number, line)
        after = page[-1].seq
    if pending:
        yield pending[1]


def _message_line(drive: Drive, place: Place, message: Message, names: dict[str, str]) -> Line:
    if message.tool_calls:
        names.clear()
    names.update((call.id, call.provider_id or call.id) for call in message.tool_calls)
    calls = [{"id": call.provider_id or call.id, "name": call.name, "args": call.args} for call in message.tool_calls]
    results = [
        {
            "tool_call_id": _name(drive, place, each, names),
            "result": _value(place, each.content),
            "is_error": each.is_error,
        }
        for each in message.tool_results
    ]
    content = _value(place, message.content) if message.content else None
    line = _line(message.role or "", content, calls, results, message.usage)
    note: Any = message.metadata.get(_MARK)
    if note is None:
        return line | {"at": message.at.isoformat()}
    line |= note.get("set", {})
    return {key: value for key, value in line.items() if key not in note.get("drop", ())}


def _name(drive: Drive, place: Place, result: ToolResult, names: dict[str, str]) -> str:
    """The call's name as its line gave it: known from a little while ago, or read again."""
    call = result.tool_call_id
    seq = group_of(call)
    if call not in names and seq is not None:
        for recorded in drive(effects.read(place.scope.stream, seq - 1, 1)):
            names.update((each.id, each.provider_id or each.id) for each in read_message(recorded).tool_calls)
    return names.get(call, call)


def _value(place: Place, parts: tuple[Part, ...]) -> object:
    """What a message or a tool said, whole: bodies are read back from the blob store."""
    if len(parts) == 1:
        match parts[0]:
            case Text(text):
                return text
            case Data(value):
                return value
            case Body(ref):
                body = b"".join(place.context.bodies.chunks(place.context.tenant, ref))
                if ref.media_type == "application/json":
                    return codec.decode(body, object)
                return body.decode("utf-8", "replace")
    if all(isinstance(part, Text) for part in parts):
        return text_of(parts)
    return [codec.plain(part) for part in parts]
