"""Reading back what is too long to be shown whole: by bytes, by lines, or by what is in it.

Laws: no more comes out than was asked for, and whole characters only; memory does not depend on the length of a body, and
time on how much of it must be passed over; what is read to its end was checked against its digest.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from holdfast import codec
from holdfast.core import previews
from holdfast.errors import InvalidContent, InvalidName, InvalidNumber, shown
from holdfast.flows import effects, frames
from holdfast.flows.effects import Flow
from holdfast.flows.place import Context, Place
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, Data, File, Image, Opaque, Part, Text
from holdfast.model.handles import Handle, handle_seq, piece_of
from holdfast.model.names import check_size, checked_whole

LIMIT_BYTES = 16 << 10
"""What one reading has, unless it is asked for more or less."""
FOUND_LINES = 20
"""Lines that a search shows, with those around them."""
AROUND = 2
"""Lines before and after one that a search shows."""

LEAST_BYTES = 64
"""The fewest that may be asked for."""
_ROW_CHARS = 400
"""A line that is longer than this is shown in part by a search."""
_BESIDE_CHARS = 120
"""What is shown on either side of what was found in such a line."""
_CHAR_BYTES = 4


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of what a handle stands for."""

    handle: str
    text: str
    """What was asked for; of what is no text, the bytes as hexadecimal digits."""
    size: int
    """Bytes of the whole."""
    start: int
    """The first byte that this shows."""
    stop: int
    """The byte after the last one: where to read on."""
    lines: tuple[int, int] | None = None
    """The first and the last line that it shows, if lines were asked for."""
    found: int | None = None
    """How many lines have what was searched for, those that are not shown included."""
    binary: bool = False
    more: str = ""
    """How to go on; empty if there is nothing more."""
    media_type: str | None = None
    """Of what is no text, what it is, if that is known."""


class _Bytes(msgspec.Struct, frozen=True):
    start: int
    stop: int | None


class _Lines(msgspec.Struct, frozen=True):
    first: int
    last: int | None


class _Search(msgspec.Struct, frozen=True):
    text: str


_Asked: TypeAlias = _Bytes | _Lines | _Search


def read_text(
    place: Place,
    handle: Handle | str,
    *,
    start: int | None = None,
    stop: int | None = None,
    first_line: int | None = None,
    last_line: int | None = None,
    search: str | None = None,
    limit: int = LIMIT_BYTES,
) -> Flow[Reading]:
    """Read what a handle stands for: something added to a frame ("h12"), or a piece of a message ("h12_0"). Bodies in the
    blob store are read there, and only as far as is needed.

    Ask for bytes, from `start` up to but not including `stop`; or for lines, from `first_line` to `last_line`, the first
    one being 1; or, with `search`, for the lines in which a text is, in upper or lower case. A `start` or a `first_line`
    below 0 counts from the end: -20 is for the last 20. A character belongs to the range in which it begins. No more than
    `limit` bytes come back; `stop` and `more` tell where to go on. This is what was stored, superseded values included:
    what reader() returns is for a model, and leaves them out."""
    asked = _asked(start, stop, first_line, last_line, search)
    checked_whole("limit", limit, LEAST_BYTES, limits.PAYLOAD_BYTES)
    return (yield from _read_piece(place, handle.id if type(handle) is Handle else handle, asked, limit, digits=True))


def read_for_model(place: Place, handle: object, arguments: dict[str, object], limit: int) -> Flow[Reading]:
    """The same for a model, with the arguments of its call: of what is no text, nothing is read."""
    names = ("start", "stop", "first_line", "last_line", "search")
    asked = _asked(*(arguments.get(name) for name in names))
    return (yield from _read_piece(place, handle, asked, limit, digits=False))


def _read_piece(place: Place, handle: object, asked: _Asked, limit: int, *, digits: bool) -> Flow[Reading]:
    parts = yield from _content(place, handle)
    piece = _Piece.of(str(handle), parts)
    read = functools.partial(_read, place.context, piece, asked, limit, digits=digits)
    return (yield from effects.outside(read))


def _asked(start: object, stop: object, first: object, last: object, search: object) -> _Asked:
    ways = (start is not None or stop is not None, first is not None or last is not None, search is not None)
    if sum(ways) > 1:
        reason = "ask for bytes (start, stop), for lines (first_line, last_line) or for a search, one at a time"
        raise InvalidContent(reason=reason)
    if search is not None:
        return _Search(_checked_search(search))
    if first is not None or last is not None:
        one = 1 if first is None else checked_whole("first_line", first, -limits.WHOLE_NUMBER if first else 1)
        return _Lines(one, None if last is None else checked_whole("last_line", last, max(1, one)))
    begin = 0 if start is None else checked_whole("start", start, -limits.WHOLE_NUMBER)
    return _Bytes(begin, None if stop is None else checked_whole("stop", stop, max(0, begin)))


def _checked_search(search: object) -> str:
    text = codec.checked_text("what to search for", search)
    if not text or "\n" in text:
        raise InvalidContent(reason="what to search for is a text within one line: pass a word or a few")
    check_size("what to search for", len(text.encode()), "bytes", "BRIEF_BYTES", "Search for a shorter piece of it.")
    return text


# What is read


def _content(place: Place, handle: object) -> Flow[tuple[Part, ...]]:
    name = handle if type(handle) is str else ""
    if piece_of(name) is None and not handle_seq(name):
        reason = "it is h and a number, or h, a number, _ and a number, as it was shown"
        raise InvalidName(what="handle", value=name or shown(handle), reason=reason, limit=40)
    return (yield from frames.read_handle(place, name))


class _Piece(msgspec.Struct, frozen=True):
    """Something to read: bytes, and bodies in the blob store, a line end between them."""

    handle: str
    parts: tuple[bytes | BlobRef, ...]
    media_type: str | None = previews.TEXT

    @classmethod
    def of(cls, handle: str, parts: tuple[Part, ...]) -> _Piece:
        if len(parts) == 1:
            part = _readable(parts[0])
            if part is None:
                raise InvalidContent(reason=f"{handle} is a provider's own part, which nobody else can read")
            return cls(handle, (part,), part.media_type if isinstance(part, BlobRef) else previews.TEXT)
        readable = (_readable(part) for part in parts)
        return cls(handle, tuple(_named(part) for part in readable if part is not None))

    @property
    def size(self) -> int:
        sizes = (part.size if isinstance(part, BlobRef) else len(part) for part in self.parts)
        return sum(sizes) + max(0, len(self.parts) - 1)

    def chunks(self, context: Context) -> Iterator[bytes]:
        for number, part in enumerate(self.parts):
            if number:
                yield b"\n"
            if isinstance(part, bytes):
                yield part
            else:
                yield from context.bodies.chunks(context.tenant, part)


def _readable(part: Part) -> bytes | BlobRef | None:
    match part:
        case Text(text):
            return text.encode()
        case Data(value):
            return codec.encode(value)
        case Body(ref=ref) | File(ref=ref):
            return ref
        case Image(ref, url):
            return ref if ref is not None else (url or "").encode()
        case Opaque():
            return None


def _named(part: bytes | BlobRef) -> bytes | BlobRef:
    """Among others, what is no text is only named."""
    if isinstance(part, bytes) or _is_text(part.media_type):
        return part
    return f"[{part.media_type or 'binary'}, {part.size} bytes]".encode()


def _is_text(media_type: str | None) -> bool:
    kind = (media_type or "").partition(";")[0]
    return kind.startswith("text/") or kind.endswith(("json", "xml"))


# Reading it


def _read(context: Context, piece: _Piece, asked: _Asked, limit: int, *, digits: bool) -> Reading:
    if isinstance(asked, _Bytes) and asked.start > piece.size:
        raise InvalidNumber(what="start", value=asked.start, low=0, high=piece.size)
    chunks = piece.chunks(context)
    first = next(chunks, b"")
    is_text = _is_text(piece.media_type) or previews.media_type(first, whole=len(first) == piece.size) == previews.TEXT
    whole = _Passed(first, chunks, piece.size)
    if not is_text and not digits:
        kind = piece.media_type or previews.media_type(first)
        return Reading(handle=piece.handle, text="", size=piece.size, start=0, stop=0, binary=True, media_type=kind)
    match _from_start(context, piece, asked) if is_text or isinstance(asked, _Bytes) else asked:
        case _Bytes(start, stop) if is_text:
            return _bytes(piece, whole, start, stop, limit)
        case _Bytes(start, stop):
            return _digits(piece, whole, start, stop, limit)
        case _ if not is_text:
            reason = f"{piece.handle} is no text but {piece.media_type or 'binary'}: ask for bytes, with start and stop"
            raise InvalidContent(reason=reason)
        case _Lines(one, last):
            return _lines(piece, whole, one, last, limit)
        case _Search(text):
            return _searched(piece, whole, text, limit)
    raise AssertionError("these are all the ways to ask")


def _from_start(context: Context, piece: _Piece, asked: _Asked) -> _Asked:
    """What was asked for, counted from the beginning."""
    match asked:
        case _Bytes(start, stop) if start < 0:
            begin = max(0, piece.size + start)
            return _Bytes(begin, None if stop is None else checked_whole("stop", stop, begin))
        case _Lines(first, last) if first < 0:
            one = max(1, _count_lines(piece.chunks(context)) + first + 1)
            return _Lines(one, None if last is None else checked_whole("last_line", last, one))
    return asked


def _count_lines(chunks: Iterator[bytes]) -> int:
    lines, last = 0, b"\n"
    for chunk in chunks:
        lines += chunk.count(b"\n")
        last = chunk or last
    return lines + (not last.endswith(b"\n"))


class _Passed:
    """The pieces of a body, and how far they go. What comes to the end of it reads on until nothing comes: only then its
    digest was checked."""

    def __init__(self, first: bytes, rest: Iterator[bytes], size: int) -> None:
        self._first = first
        self._rest = rest
        self.size = size

    def __iter__(self) -> Iterator[bytes]:
        yield self._first
        yield from self._rest

    def between(self, start: int, stop: int) -> bytes:
        """The bytes from `start` to `stop`, or to the end."""
        found = bytearray()
        at = 0
        for chunk in self:
            found += chunk[max(0, start - at) : max(0, stop - at)]
            at += len(chunk)
            if at >= stop and at < self.size:
                break
        return bytes(found)


def _continues(data: bytes | bytearray, at: int) -> bool:
    """Whether a byte is one of those that a character goes on with."""
    return at < len(data) and data[at] & 0xC0 == 0x80


def _before_character(data: bytes | bytearray, at: int) -> int:
    """The nearest place, not after this one, where a character begins."""
    for back in range(min(_CHAR_BYTES, at + 1)):
        if not _continues(data, at - back):
            return at - back
    return at


def _after_character(data: bytes, at: int) -> int:
    """The nearest place, not before this one, where a character begins."""
    for on in range(_CHAR_BYTES):
        if not _continues(data, at + on):
            return at + on
    return at


def _bytes(piece: _Piece, whole: _Passed, start: int, stop: int | None, limit: int) -> Reading:
    stop = min(whole.size, stop if stop is not None else whole.size)
    end = min(stop, start + limit)
    data = whole.between(start, end + _CHAR_BYTES)
    skipped = _after_character(data, 0) if start else 0
    upto = _after_character(data, end - start)
    if upto - skipped > limit:
        upto = _before_character(data, end - start)
    text, used = _decoded(data[skipped : max(skipped, upto)], limit)
    begin = start + skipped
    return _reading(piece, text, begin, begin + used)


def _reading(piece: _Piece, text: str, start: int, stop: int, *, binary: bool = False) -> Reading:
    size = piece.size
    more = "" if stop >= size else f"start={stop} reads on"
    return Reading(
        handle=piece.handle, text=text, size=size, start=min(start, size), stop=stop, more=more, binary=binary
    )


def _decoded(data: bytes, limit: int) -> tuple[str, int]:
    """What can be read of this as text, in no more than so many bytes, and how many of the bytes that took."""
    try:
        return data.decode(), len(data)
    except UnicodeDecodeError:
        some = data[: limit // len("\ufffd".encode())]
        return some.decode("utf-8", "replace"), len(some)


def _digits(piece: _Piece, whole: _Passed, start: int, stop: int | None, limit: int) -> Reading:
    stop = min(whole.size, stop if stop is not None else whole.size, start + limit // 2)
    return _reading(piece, whole.between(start, stop).hex(), start, stop, binary=True)


def _lines(piece: _Piece, whole: _Passed, first: int, last: int | None, limit: int) -> Reading:
    wanted = None if last is None else last - first + 1
    start, data, lines = _from_line(whole, first, wanted, limit)
    if not data and (first > 1 or whole.size):
        raise InvalidNumber(what="first_line", value=first, low=1, high=max(1, lines))
    end = len(data)
    if wanted is not None:
        end = _end_of_line(data, wanted)
    if end > limit:
        fitting = data.rfind(b"\n", 0, limit) + 1
        end = fitting or _before_character(data, limit)
    text, used = _decoded(data[:end], limit)
    shown = data[:used]
    ends = shown.count(b"\n")
    in_line = bool(shown) and not shown.endswith(b"\n")
    made = _reading(piece, text, start, start + used)
    more = made.more
    if more and in_line:
        more = f"start={made.stop} reads on in line {first + ends}, which is longer"
    elif more:
        more = f"first_line={first + ends} reads on"
    lines_shown = (first, first + ends - (not in_line)) if shown else None
    return msgspec.structs.replace(made, lines=lines_shown, more=more)


def _from_line(whole: _Passed, first: int, wanted: int | None, limit: int) -> tuple[int, bytes, int]:
    """Where a line begins, what follows from there, as much as may be needed, and how many lines were passed over."""
    line, at = 1, 0
    start = 0
    data = bytearray()
    ends = 0
    last = b""
    for chunk in whole:
        begin = 0
        at += len(chunk)
        last = chunk or last
        if line < first:
            passed = chunk.count(b"\n")
            if line + passed < first:
                line += passed
                continue
            begin = _end_of_line(chunk, first - line)
            line = first
        if not data:
            start = at - len(chunk) + begin
        data += chunk[begin:]
        ends += chunk.count(b"\n", begin)
        enough = len(data) > limit + _CHAR_BYTES or (wanted is not None and ends >= wanted)
        if enough and (at < whole.size or len(data) > limit + _CHAR_BYTES):
            break
    return start, bytes(data), line if last and not last.endswith(b"\n") else line - 1


def _end_of_line(data: bytes, lines: int) -> int:
    """Where so many lines end, or all that there are."""
    at = 0
    for _ in range(lines):
        at = data.find(b"\n", at) + 1
        if not at:
            return len(data)
    return at


# Searching it


def _searched(piece: _Piece, whole: _Passed, wanted: str, limit: int) -> Reading:
    finder = _Finder(wanted, limit)
    for data, ended in _blocks(whole):
        finder.look(data, ended)
    hidden = finder.found - finder.shown
    more = ""
    if hidden:
        more = f"{hidden} more lines have it: search for more words, or first_line={finder.last + 1} reads on"
    text = "\n".join(finder.rows)
    return Reading(
        handle=piece.handle, text=text, size=whole.size, start=0, stop=whole.size, found=finder.found, more=more
    )


def _blocks(whole: _Passed) -> Iterator[tuple[bytes, bool]]:
    """Whole lines, as many as came; or, of a line that is very long, a part, which the next one goes on with."""
    buffer = bytearray()
    for chunk in whole:
        buffer += chunk
        end = buffer.rfind(b"\n") + 1
        if end:
            yield bytes(buffer[:end]), True
            del buffer[:end]
        elif len(buffer) >= limits.BLOB_CHUNK_BYTES:
            end = _before_character(buffer, max(0, len(buffer) - _CHAR_BYTES))
            yield bytes(buffer[:end]), False
            del buffer[:end]
    if buffer:
        yield bytes(buffer), True


class _Finder:
    """Looks for a text, line by line, and keeps what is to be shown."""

    def __init__(self, wanted: str, limit: int) -> None:
        self.found = self.shown = self.last = 0
        """Lines that have it, those of them that are shown, and the last line that is."""
        self.rows: list[str] = []
        self._left = limit
        self._is_full = False
        self._wanted = wanted.casefold()
        self._line = 1
        self._at = 0
        self._carry = b""  # of a line that goes on: what is looked for may lie across
        self._is_inside = False
        self._due = 0
        self._recent: deque[tuple[int, str]] = deque(maxlen=AROUND)
        self._found_in = 0

    def look(self, data: bytes, ended: bool) -> None:
        whole = self._carry + data
        text = whole.decode("utf-8", "surrogateescape")
        if ended:
            text = text.removesuffix("\n")
        rows = text.count("\n") + 1
        folded = text.casefold()
        if not self._due and (self._is_full or self.shown == FOUND_LINES):
            self._count(folded, self._line + rows - 1)
        elif self._due or self._wanted in folded:
            self._look_at(text.split("\n"), self._at - len(self._carry), ended)
        else:
            newest = text.rsplit("\n", AROUND)[-AROUND:]
            for number, row in enumerate(newest, rows - len(newest)):
                if number or not self._is_inside:
                    self._recent.append((self._line + number, _short(row, ended)))
        self._line += rows - (not ended)
        self._at += len(data)
        self._is_inside = not ended
        needed = max(0, len(whole) - _CHAR_BYTES * len(self._wanted))
        self._carry = b"" if ended else whole[_before_character(whole, needed) :]

    def _count(self, folded: str, last: int) -> None:
        """Nothing more is shown: how many lines have it is all that is left to say."""
        at = folded.find("\n") if self._found_in == self._line else 0
        while at >= 0 and (place := folded.find(self._wanted, at)) >= 0:
            self.found += 1
            at = folded.find("\n", place)
            if at < 0:
                self._found_in = last

    def _look_at(self, rows: list[str], at: int, ended: bool) -> None:
        """These are lines; the first may be the rest of one, and the last goes on unless it has ended. The first byte of it
        is this one."""
        for number, row in enumerate(rows):
            line = self._line + number
            is_new = number > 0 or not self._is_inside
            folded = row.casefold()
            if self._wanted in folded:
                if self._found_in != line:
                    self._found_in = line
                    self.found += 1
                    place = _place_in(row, folded, self._wanted)
                    self._show_found(line, row, place, at, is_new and ended)
            elif is_new and self._due:
                self._due -= 1
                self._show([(line, f"{line}- {_short(row, ended)}")])
            elif is_new:
                self._recent.append((line, _short(row, ended)))
            at += _bytes_of(row) + 1

    def _show_found(self, line: int, row: str, place: int, at: int, is_whole: bool) -> None:
        before = [(number, f"{number}- {each}") for number, each in self._recent if number < line]
        self._recent.clear()
        if is_whole and len(row) <= _ROW_CHARS:
            shown = f"{line}: {row}"
        else:
            begin, end = max(0, place - _BESIDE_CHARS), place + len(self._wanted) + _BESIDE_CHARS
            shown = f"{line} (byte {at + _bytes_of(row[:place])}): …{row[begin:end]}…"
        if self.shown < FOUND_LINES and self._show([*before, (line, shown)]):
            self.shown += 1
            self._due = AROUND
        else:
            self._due = 0

    def _show(self, rows: list[tuple[int, str]]) -> bool:
        """Show these, if there is room for all of them; else nothing is shown any more."""
        told = [_printable(text) for _, text in rows]
        if self.rows and rows[0][0] > self.last + 1:
            told.insert(0, "--")
        self._left -= sum(len(each.encode()) + 1 for each in told)
        self._is_full = self._is_full or self._left < 0
        if not self._is_full:
            self.rows += told
            self.last = rows[-1][0]
        return not self._is_full


def _place_in(row: str, folded: str, wanted: str) -> int:
    """At which character of a line that begins which was found when case was left aside."""
    place = folded.find(wanted)
    if len(folded) == len(row):  # one for each: what becomes several is never made up for
        return place
    at = 0
    for number, character in enumerate(row):
        at += len(character.casefold())
        if at > place:
            return number
    raise AssertionError("it was found")


def _short(row: str, ended: bool) -> str:
    return row if ended and len(row) <= _ROW_CHARS else row[:_ROW_CHARS] + "…"


def _bytes_of(row: str) -> int:
    return len(row) if row.isascii() else len(row.encode("utf-8", "surrogateescape"))


def _printable(row: str) -> str:
    return row if row.isascii() else row.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
