"""Read the content of a handle: by bytes, by lines or by a search; for callers, and for models through the tool
`read_handle`.

Laws:
- No more comes back than was requested, in whole characters only.
- Memory does not depend on the length of a body, and time only on how much of it must be skipped.
- What is read to its end was checked against its digest.
- The answer of the tool is text for a model, also when its arguments are wrong.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from holdfast import codec
from holdfast.core.history import previews
from holdfast.errors import (
    HandleNotFound,
    HoldfastError,
    InvalidArgument,
    InvalidInput,
    InvalidName,
    InvalidNumber,
    TooLarge,
    describe_value,
)
from holdfast.flows import effects
from holdfast.flows.context import EngineContext, SessionContext
from holdfast.flows.effects import Flow
from holdfast.flows.history.guard import load_guarded_text
from holdfast.flows.history.handles import read_parts
from holdfast.flows.sessions.transcript import read_message_parts
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, Data, File, Image, Opaque, Part, Text
from holdfast.model.history.handles import Handle, HandleText, handle_seq, parse_piece_id
from holdfast.model.names import check_size, check_whole
from holdfast.model.tools.tool import READ_HANDLE

DEFAULT_BYTES = 16 << 10
"""The bytes of one reading, unless the caller passes another limit."""
MAX_MATCHES = 20
"""The lines that a search shows, with those around them."""
CONTEXT_LINES = 2
"""The lines before and after a match that a search shows."""
MIN_BYTES = 64
"""The least limit of a reading."""
_ROW_CHARS = 400
"""A search shows a longer line in part."""
_MARGIN_CHARS = 120
"""The characters that are shown on either side of a match in such a line."""
_CHAR_BYTES = 4
_HEADER_BYTES = 512
"""Bytes for the line about a reading."""
_MAX_DIGITS = 20
"""The most digits of a number that a model may mean."""
_NUMBER_ARGUMENTS = ("start", "stop", "first_line", "last_line")
_HANDLE_HINT = "use one that a marker in this conversation names, such as h12_0"


class _ByteRange(msgspec.Struct, frozen=True):
    start: int
    stop: int | None


class _LineRange(msgspec.Struct, frozen=True):
    first: int
    last: int | None


class _TextSearch(msgspec.Struct, frozen=True):
    text: str


_ReadRange: TypeAlias = _ByteRange | _LineRange | _TextSearch


def read_text(
    context: SessionContext,
    handle: Handle | str,
    *,
    start: int | None = None,
    stop: int | None = None,
    first_line: int | None = None,
    last_line: int | None = None,
    search: str | None = None,
    limit: int = DEFAULT_BYTES,
) -> Flow[HandleText]:
    """Read a range of a handle, or search in it. Bodies in the blob store are read only as far as needed."""
    wanted = _check_range(start, stop, first_line, last_line, search)
    check_whole("limit", limit, MIN_BYTES, limits.PAYLOAD_BYTES)
    return (yield from _read_body(context, handle.id if type(handle) is Handle else handle, wanted, limit, digits=True))


def read_recorded(
    context: SessionContext,
    handle: str,
    *,
    start: int | None = None,
    stop: int | None = None,
    first_line: int | None = None,
    last_line: int | None = None,
    search: str | None = None,
    limit: int = DEFAULT_BYTES,
) -> Flow[HandleText]:
    """The same of everything that was recorded, for the owner of the store: also a whole message with its calls, by its
    seq ("h12"), and a provider's own parts as they came. Of a binary body, only bytes that were asked for are read."""
    wanted = _check_range(start, stop, first_line, last_line, search)
    check_whole("limit", limit, MIN_BYTES, limits.PAYLOAD_BYTES)
    digits = start is not None or stop is not None
    return (yield from _read_body(context, handle, wanted, limit, digits=digits, own_parts=True))


def find_files(context: SessionContext, handle: str) -> Flow[tuple[BlobRef, ...]]:
    """The bodies of everything that was recorded which are not text, as a reading among other parts names them."""
    parts = yield from _read_content(context, handle, messages=True)
    bodies = (_readable_body(part, True) for part in parts)
    return tuple(body for body in bodies if isinstance(body, BlobRef) and not _is_text(body.media_type))


def read_plain_text(
    engine: EngineContext,
    name: str,
    text: str,
    *,
    start: int | None = None,
    stop: int | None = None,
    first_line: int | None = None,
    last_line: int | None = None,
    search: str | None = None,
) -> HandleText:
    """The same for a text at hand, under a name."""
    wanted = _check_range(start, stop, first_line, last_line, search)
    body = _HandleBody(name, (text.encode("utf-8", "surrogatepass"),))
    return _read_range(engine, body, wanted, DEFAULT_BYTES, digits=False)


def read_for_model(
    context: SessionContext, handle: object, arguments: dict[str, object], limit: int
) -> Flow[HandleText]:
    """The same with the arguments of a model's call. Of a binary body, nothing is read."""
    names = ("start", "stop", "first_line", "last_line", "search")
    wanted = _check_range(*(arguments.get(name) for name in names))
    return (yield from _read_body(context, handle, wanted, limit, digits=False))


def _read_body(
    context: SessionContext, handle: object, wanted: _ReadRange, limit: int, *, digits: bool, own_parts: bool = False
) -> Flow[HandleText]:
    parts = yield from _read_content(context, handle, messages=own_parts)
    body = _HandleBody.of(str(handle), parts, own_parts)
    read = functools.partial(_read_range, context.engine, body, wanted, limit, digits=digits)
    return (yield from effects.run_outside(read))


def _check_range(start: object, stop: object, first: object, last: object, search: object) -> _ReadRange:
    kinds = (start is not None or stop is not None, first is not None or last is not None, search is not None)
    if sum(kinds) > 1:
        argument = "search" if search is not None else "first_line"
        reason = "pass bytes (start, stop), lines (first_line, last_line) or a search, not several of these"
        raise InvalidArgument(argument=argument, reason=reason)
    if search is not None:
        return _TextSearch(_check_search(search))
    if first is not None or last is not None:
        one = 1 if first is None else check_whole("first_line", first, -limits.WHOLE_NUMBER if first else 1)
        return _LineRange(one, None if last is None else check_whole("last_line", last, max(1, one)))
    begin = 0 if start is None else check_whole("start", start, -limits.WHOLE_NUMBER)
    return _ByteRange(begin, None if stop is None else check_whole("stop", stop, max(0, begin)))


def _check_search(search: object) -> str:
    text = codec.check_text("search", search)
    if not text or "\n" in text:
        raise InvalidArgument(argument="search", reason="a search is for a text within one line: pass a word or a few")
    check_size("search", len(text.encode()), "bytes", "BRIEF_BYTES", "Search for a shorter part of it.")
    return text


# The content


def _read_content(context: SessionContext, handle: object, *, messages: bool) -> Flow[tuple[Part, ...]]:
    name = handle if type(handle) is str else ""
    if parse_piece_id(name) is None and not handle_seq(name):
        reason = "a handle looks like h12 or h12_0"
        raise InvalidName(what="handle", value=name or describe_value(handle), reason=reason, limit=40)
    try:
        return (yield from read_parts(context, name))
    except HandleNotFound:
        if not messages or not handle_seq(name):
            raise
    return (yield from read_message_parts(context.scope, handle_seq(name)))


class _HandleBody(msgspec.Struct, frozen=True):
    """The content of a handle: bytes, and bodies in the blob store, with a line end between them."""

    handle: str
    parts: tuple[bytes | BlobRef, ...]
    media_type: str | None = previews.TEXT_TYPE

    @classmethod
    def of(cls, handle: str, parts: tuple[Part, ...], own_parts: bool = False) -> _HandleBody:
        if len(parts) == 1:
            part = _readable_body(parts[0], own_parts)
            if part is None:
                reason = f"{handle} is a provider's own part, which nobody else can read"
                raise InvalidArgument(argument="handle", reason=reason)
            return cls(handle, (part,), part.media_type if isinstance(part, BlobRef) else previews.TEXT_TYPE)
        readable = (_readable_body(part, own_parts) for part in parts)
        return cls(handle, tuple(_replace_binary(part) for part in readable if part is not None))

    @property
    def size(self) -> int:
        sizes = (part.size if isinstance(part, BlobRef) else len(part) for part in self.parts)
        return sum(sizes) + max(0, len(self.parts) - 1)

    def chunks(self, engine: EngineContext) -> Iterator[bytes]:
        for number, part in enumerate(self.parts):
            if number:
                yield b"\n"
            if isinstance(part, bytes):
                yield part
            else:
                yield from engine.bodies.chunks(engine.tenant, part)


def _readable_body(part: Part, own_parts: bool) -> bytes | BlobRef | None:
    """The body of a part; None for a provider's own part, unless `own_parts` are wanted as well."""
    match part:
        case Text(text):
            return text.encode()
        case Data(value):
            return codec.encode(value)
        case Body(ref=ref) | File(ref=ref):
            return ref
        case Image(ref, url):
            return ref if ref is not None else (url or "").encode()
        case Opaque(body=body):
            own = body.encode() if isinstance(body, str) else body
            return own if own_parts else None


def _replace_binary(part: bytes | BlobRef) -> bytes | BlobRef:
    """Among other parts, a binary one is only named."""
    if isinstance(part, bytes) or _is_text(part.media_type):
        return part
    return f"[{part.media_type or 'binary'}, {part.size} bytes]".encode()


def _is_text(media_type: str | None) -> bool:
    kind = (media_type or "").partition(";")[0]
    return kind.startswith("text/") or kind.endswith(("json", "xml"))


# Ranges


def _read_range(
    engine: EngineContext, body: _HandleBody, wanted: _ReadRange, limit: int, *, digits: bool
) -> HandleText:
    if isinstance(wanted, _ByteRange) and wanted.start > body.size:
        raise InvalidNumber(what="start", value=wanted.start, low=0, high=body.size)
    chunks = body.chunks(engine)
    first = next(chunks, b"")
    is_text = (
        _is_text(body.media_type)
        or previews.detect_media_type(first, whole=len(first) == body.size) == previews.TEXT_TYPE
    )
    all_chunks = _BodyChunks(first, chunks, body.size)
    if not is_text and not digits:
        kind = body.media_type or previews.detect_media_type(first)
        return HandleText(handle=body.handle, text="", size=body.size, start=0, stop=0, is_binary=True, media_type=kind)
    match _resolve_range(engine, body, wanted) if is_text or isinstance(wanted, _ByteRange) else wanted:
        case _ByteRange(start, stop) if is_text:
            return _read_bytes(body, all_chunks, start, stop, limit)
        case _ByteRange(start, stop):
            return _read_hex(body, all_chunks, start, stop, limit)
        case _ if not is_text:
            reason = f"{body.handle} is not text but {body.media_type or 'binary'}: read bytes, with start and stop"
            raise InvalidArgument(argument="handle", reason=reason)
        case _LineRange(one, last):
            return _read_lines(body, all_chunks, one, last, limit)
        case _TextSearch(text):
            return _search_body(body, all_chunks, text, limit)
    raise AssertionError("a range is one of these")


def _resolve_range(engine: EngineContext, body: _HandleBody, wanted: _ReadRange) -> _ReadRange:
    """The range, counted from the start of the body."""
    match wanted:
        case _ByteRange(start, stop) if start < 0:
            begin = max(0, body.size + start)
            return _ByteRange(begin, None if stop is None else check_whole("stop", stop, begin))
        case _LineRange(first, last) if first < 0:
            one = max(1, _count_lines(body.chunks(engine)) + first + 1)
            return _LineRange(one, None if last is None else check_whole("last_line", last, one))
    return wanted


def _count_lines(chunks: Iterator[bytes]) -> int:
    lines, last = 0, b"\n"
    for chunk in chunks:
        lines += chunk.count(b"\n")
        last = chunk or last
    return lines + (not last.endswith(b"\n"))


class _BodyChunks:
    """The chunks of a body. A reading that reaches the end goes on until nothing more comes: only then the digest was
    checked."""

    def __init__(self, first: bytes, others: Iterator[bytes], size: int) -> None:
        self._first = first
        self._others = others
        self.size = size

    def __iter__(self) -> Iterator[bytes]:
        yield self._first
        yield from self._others

    def read_between(self, start: int, stop: int) -> bytes:
        """The bytes from `start` to `stop`, or to the end."""
        data = bytearray()
        at = 0
        for chunk in self:
            data += chunk[max(0, start - at) : max(0, stop - at)]
            at += len(chunk)
            if at >= stop and at < self.size:
                break
        return bytes(data)


def _is_continuation(data: bytes | bytearray, at: int) -> bool:
    """Whether a byte continues a character."""
    return at < len(data) and data[at] & 0xC0 == 0x80


def _character_before(data: bytes | bytearray, at: int) -> int:
    """The nearest position, not after this one, where a character begins."""
    for back in range(min(_CHAR_BYTES, at + 1)):
        if not _is_continuation(data, at - back):
            return at - back
    return at


def _character_after(data: bytes, at: int) -> int:
    """The nearest position, not before this one, where a character begins."""
    for on in range(_CHAR_BYTES):
        if not _is_continuation(data, at + on):
            return at + on
    return at


def _read_bytes(body: _HandleBody, chunks: _BodyChunks, start: int, stop: int | None, limit: int) -> HandleText:
    stop = min(chunks.size, stop if stop is not None else chunks.size)
    end = min(stop, start + limit)
    data = chunks.read_between(start, end + _CHAR_BYTES)
    skipped = _character_after(data, 0) if start else 0
    cut = _character_after(data, end - start)
    if cut - skipped > limit:
        cut = _character_before(data, end - start)
    text, used = _decode_text(data[skipped : max(skipped, cut)], limit)
    begin = start + skipped
    return _build_text(body, text, begin, begin + used)


def _build_text(body: _HandleBody, text: str, start: int, stop: int, *, binary: bool = False) -> HandleText:
    size = body.size
    more = "" if stop >= size else f"start={stop} reads on"
    return HandleText(
        handle=body.handle, text=text, size=size, start=min(start, size), stop=stop, more=more, is_binary=binary
    )


def _decode_text(data: bytes, limit: int) -> tuple[str, int]:
    """The text of these bytes, in no more than `limit` bytes, and how many bytes of the data it took."""
    try:
        return data.decode(), len(data)
    except UnicodeDecodeError:
        part = data[: limit // len("\ufffd".encode())]
        return part.decode("utf-8", "replace"), len(part)


def _read_hex(body: _HandleBody, chunks: _BodyChunks, start: int, stop: int | None, limit: int) -> HandleText:
    stop = min(chunks.size, stop if stop is not None else chunks.size, start + limit // 2)
    return _build_text(body, chunks.read_between(start, stop).hex(), start, stop, binary=True)


def _read_lines(body: _HandleBody, chunks: _BodyChunks, first: int, last: int | None, limit: int) -> HandleText:
    wanted = None if last is None else last - first + 1
    start, data, lines = _find_line(chunks, first, wanted, limit)
    if not data and (first > 1 or chunks.size):
        raise InvalidNumber(what="first_line", value=first, low=1, high=max(1, lines))
    end = len(data)
    if wanted is not None:
        end = _find_line_end(data, wanted)
    if end > limit:
        fitting = data.rfind(b"\n", 0, limit) + 1
        end = fitting or _character_before(data, limit)
    text, used = _decode_text(data[:end], limit)
    shown = data[:used]
    ends = shown.count(b"\n")
    in_line = bool(shown) and not shown.endswith(b"\n")
    result = _build_text(body, text, start, start + used)
    more = result.more
    if more and in_line:
        more = f"start={result.stop} reads on in line {first + ends}, which is longer"
    elif more:
        more = f"first_line={first + ends} reads on"
    lines_shown = (first, first + ends - (not in_line)) if shown else None
    return msgspec.structs.replace(result, lines=lines_shown, more=more)


def _find_line(chunks: _BodyChunks, first: int, wanted: int | None, limit: int) -> tuple[int, bytes, int]:
    """Where a line begins, the data from there, as much as may be needed, and how many lines there are."""
    line, at = 1, 0
    start = 0
    data = bytearray()
    ends = 0
    last = b""
    for chunk in chunks:
        begin = 0
        at += len(chunk)
        last = chunk or last
        if line < first:
            passed = chunk.count(b"\n")
            if line + passed < first:
                line += passed
                continue
            begin = _find_line_end(chunk, first - line)
            line = first
        if not data:
            start = at - len(chunk) + begin
        data += chunk[begin:]
        ends += chunk.count(b"\n", begin)
        enough = len(data) > limit + _CHAR_BYTES or (wanted is not None and ends >= wanted)
        if enough and (at < chunks.size or len(data) > limit + _CHAR_BYTES):
            break
    return start, bytes(data), line if last and not last.endswith(b"\n") else line - 1


def _find_line_end(data: bytes, lines: int) -> int:
    """Where so many lines end, or the end of the data."""
    at = 0
    for _ in range(lines):
        at = data.find(b"\n", at) + 1
        if not at:
            return len(data)
    return at


# Search


def _search_body(body: _HandleBody, chunks: _BodyChunks, wanted: str, limit: int) -> HandleText:
    finder = _LineFinder(wanted, limit)
    for data, ended in _split_blocks(chunks):
        finder.search_block(data, ended)
    hidden = finder.match_count - finder.shown_count
    more = ""
    if hidden:
        more = f"{hidden} more lines match: search for more words, or first_line={finder.last + 1} reads on"
    text = "\n".join(finder.rows)
    return HandleText(
        handle=body.handle,
        text=text,
        size=chunks.size,
        start=0,
        stop=chunks.size,
        matches=finder.match_count,
        more=more,
    )


def _split_blocks(chunks: _BodyChunks) -> Iterator[tuple[bytes, bool]]:
    """Whole lines, as many as have come; of a very long line, a part, which the next block continues."""
    buffer = bytearray()
    for chunk in chunks:
        buffer += chunk
        end = buffer.rfind(b"\n") + 1
        if end:
            yield bytes(buffer[:end]), True
            del buffer[:end]
        elif len(buffer) >= limits.BLOB_CHUNK_BYTES:
            end = _character_before(buffer, max(0, len(buffer) - _CHAR_BYTES))
            yield bytes(buffer[:end]), False
            del buffer[:end]
    if buffer:
        yield bytes(buffer), True


class _LineFinder:
    """Searches for a text line by line, and collects the lines to show."""

    def __init__(self, wanted: str, limit: int) -> None:
        self.match_count = self.shown_count = self.last = 0
        """The lines that match, those of them that are shown, and the last line shown."""
        self.rows: list[str] = []
        self._left = limit
        self._is_full = False
        self._query = wanted.casefold()
        self._line = 1
        self._at = 0
        self._carry = b""  # the end of an unfinished line: a match may begin there
        self._is_inside_line = False
        self._lines_due = 0
        self._recent: deque[tuple[int, str]] = deque(maxlen=CONTEXT_LINES)
        self._matched_line = 0

    def search_block(self, data: bytes, ended: bool) -> None:
        joined = self._carry + data
        text = joined.decode("utf-8", "surrogateescape")
        if ended:
            text = text.removesuffix("\n")
        rows = text.count("\n") + 1
        folded = text.casefold()
        if not self._lines_due and (self._is_full or self.shown_count == MAX_MATCHES):
            self._count_matches(folded, self._line + rows - 1)
        elif self._lines_due or self._query in folded:
            self._search_rows(text.split("\n"), self._at - len(self._carry), ended)
        else:
            newest = text.rsplit("\n", CONTEXT_LINES)[-CONTEXT_LINES:]
            for number, row in enumerate(newest, rows - len(newest)):
                if number or not self._is_inside_line:
                    self._recent.append((self._line + number, _shorten_row(row, ended)))
        self._line += rows - (not ended)
        self._at += len(data)
        self._is_inside_line = not ended
        needed = max(0, len(joined) - _CHAR_BYTES * len(self._query))
        self._carry = b"" if ended else joined[_character_before(joined, needed) :]

    def _count_matches(self, folded: str, last: int) -> None:
        """Nothing more is shown: only the number of matching lines is left to count."""
        at = folded.find("\n") if self._matched_line == self._line else 0
        while at >= 0 and (match := folded.find(self._query, at)) >= 0:
            self.match_count += 1
            at = folded.find("\n", match)
            if at < 0:
                self._matched_line = last

    def _search_rows(self, rows: list[str], at: int, ended: bool) -> None:
        """Search lines, the first of which may continue a line, and the last may be unfinished. `at` is the position of
        their first byte."""
        for number, row in enumerate(rows):
            line = self._line + number
            is_new = number > 0 or not self._is_inside_line
            folded = row.casefold()
            if self._query in folded:
                if self._matched_line != line:
                    self._matched_line = line
                    self.match_count += 1
                    match = _match_position(row, folded, self._query)
                    self._show_match(line, row, match, at, is_new and ended)
            elif is_new and self._lines_due:
                self._lines_due -= 1
                self._show([(line, f"{line}- {_shorten_row(row, ended)}")])
            elif is_new:
                self._recent.append((line, _shorten_row(row, ended)))
            at += _byte_length(row) + 1

    def _show_match(self, line: int, row: str, match: int, at: int, is_whole: bool) -> None:
        before = [(number, f"{number}- {text}") for number, text in self._recent if number < line]
        self._recent.clear()
        if is_whole and len(row) <= _ROW_CHARS:
            shown = f"{line}: {row}"
        else:
            begin, end = max(0, match - _MARGIN_CHARS), match + len(self._query) + _MARGIN_CHARS
            shown = f"{line} (byte {at + _byte_length(row[:match])}): …{row[begin:end]}…"
        if self.shown_count < MAX_MATCHES and self._show([*before, (line, shown)]):
            self.shown_count += 1
            self._lines_due = CONTEXT_LINES
        else:
            self._lines_due = 0

    def _show(self, rows: list[tuple[int, str]]) -> bool:
        """Show these rows, if there is room for all of them; else nothing is shown any more."""
        texts = [_to_printable(text) for _, text in rows]
        if self.rows and rows[0][0] > self.last + 1:
            texts.insert(0, "--")
        self._left -= sum(len(text.encode()) + 1 for text in texts)
        self._is_full = self._is_full or self._left < 0
        if not self._is_full:
            self.rows += texts
            self.last = rows[-1][0]
        return not self._is_full


def _match_position(row: str, folded: str, wanted: str) -> int:
    """The character of a line at which a match begins that was found regardless of case."""
    match = folded.find(wanted)
    if len(folded) == len(row):  # no character became several
        return match
    at = 0
    for number, character in enumerate(row):
        at += len(character.casefold())
        if at > match:
            return number
    raise AssertionError("the line has a match")


def _shorten_row(row: str, ended: bool) -> str:
    return row if ended and len(row) <= _ROW_CHARS else row[:_ROW_CHARS] + "…"


def _byte_length(row: str) -> int:
    return len(row) if row.isascii() else len(row.encode("utf-8", "surrogateescape"))


def _to_printable(row: str) -> str:
    return row if row.isascii() else row.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


# The tool of a model


def run_read_handle(context: SessionContext, arguments: dict[str, object]) -> Flow[str]:
    """The answer of the tool to a call with these arguments. It is never so long that it would be spooled itself."""
    threshold = context.engine.spooling.threshold
    limit = DEFAULT_BYTES if not threshold else min(DEFAULT_BYTES, threshold - _HEADER_BYTES)
    try:
        checked = _check_arguments(arguments)
        result = yield from read_for_model(context, checked["handle"], checked, max(MIN_BYTES, limit))
    except (InvalidInput, HandleNotFound) as error:
        return f"Error: {_explain_error(error)}."
    return describe_text((yield from _guard_text(context, result)))


def _explain_error(error: HoldfastError) -> str:
    """What is wrong with the arguments, for a model that knows nothing of the library."""
    match error:
        case HandleNotFound(handle=handle):
            return f"there is no handle {handle}; {_HANDLE_HINT}"
        case InvalidName(value=value):
            return f"{describe_value(value)} is not a handle; {_HANDLE_HINT}"
        case InvalidNumber(what=what, value=value, low=low, high=high):
            most = f" from {low} to {high}" if high < limits.WHOLE_NUMBER else f" of at least {low}"
            return f"{what} is {value}; it must be a whole number{most if low > -limits.WHOLE_NUMBER else ''}"
        case InvalidArgument(reason=reason):
            return reason
        case TooLarge():
            return "the text to search for is too long; search for a few words of it"
    return "search must be text"


def _guard_text(context: SessionContext, result: HandleText) -> Flow[HandleText]:
    """The result without superseded values, since it is shown after their end. Its range stays that of the body."""
    if result.is_binary:
        return result
    seq = handle_seq(result.handle) or (parse_piece_id(result.handle) or (0,))[0]
    return msgspec.structs.replace(result, text=(yield from load_guarded_text(context, result.text, seq)))


def _check_arguments(arguments: dict[str, object]) -> dict[str, Any]:
    """The arguments as the model meant them: a number may be in quotes, and null or empty means not passed."""
    names = READ_HANDLE.parameters["properties"]
    checked: dict[str, Any] = {}
    for name, value in arguments.items():
        if value is None or (type(value) is str and not value):
            continue
        if name not in names:
            reason = f"there is no argument {describe_value(name)}: use {', '.join(names)}"
            raise InvalidArgument(argument="arguments", reason=reason)
        checked[name] = _parse_whole_number(value) if name in _NUMBER_ARGUMENTS else value
    if "handle" not in checked:
        raise InvalidArgument(argument="handle", reason=f"the handle is missing; {_HANDLE_HINT}")
    if type(checked["handle"]) is str:
        checked["handle"] = checked["handle"].strip(" \t\r\n\"'`")
    return checked


def _parse_whole_number(value: object) -> object:
    if type(value) is str and value.strip().removeprefix("-").isdecimal() and len(value) <= _MAX_DIGITS:
        return int(value)
    if type(value) is float and value.is_integer():
        return int(value)
    return value


def describe_text(result: HandleText) -> str:
    """A result in words: the text, and a line that says which part of the body this is."""
    if result.is_binary:
        note = previews.describe_binary(result.size, result.media_type)
    elif result.matches is not None:
        note = f"{result.matches} lines match" if result.matches != 1 else "1 line matches"
        note = f"{note}; {result.size} bytes in all{'' if result.matches else '; search looks for literal text'}"
    else:
        lines = "" if result.lines is None else "lines {} to {}, ".format(*result.lines)
        note = f"{lines}bytes {result.start} to {result.stop} of {result.size}"
    line = f"[{result.handle}: {note}{'; ' if result.more else ''}{result.more}]"
    return f"{result.text}{'' if result.text.endswith(chr(10)) else chr(10)}{line}" if result.text else line
