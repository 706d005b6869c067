"""Previews: what is shown of a body in the blob store, and the marker that says how to read the rest.

Laws:
- A preview has no more bytes than its limit, and whole characters only.
- Of a text it shows the start and the end, in whole lines where lines are short.
- The same body has the same preview, however it came in.
- A body is stored apart only if its preview is shorter, or the log cannot hold it.
"""

from __future__ import annotations

import codecs
import heapq
import itertools
import re
from typing import NamedTuple

import msgspec

from holdfast import codec
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, Json

EVENT_TEXT_BYTES = limits.PAYLOAD_BYTES - limits.METADATA_BYTES
"""The most that an event has of one text or value, as JSON: the rest is for its other fields."""
SAMPLE_BYTES = 32 << 10
"""How much of a body is looked at for a preview, if the preview is not longer."""
ENDS_BYTES = 256 << 10
"""A stored text up to this size is read whole for a longer preview; of a larger one, the stored end is shown."""
STRUCTURE_BYTES = 1 << 20
"""A stored JSON value above this size is outlined from its start: its total number of items is then unknown."""
PREVIEW_TOKEN_BYTES = 3
"""Bytes of a preview for one token of its share, on the safe side."""
WHOLE_TOKEN_BYTES = 16
"""A text with more bytes for a token is not worth its share: such a body is not read to be shown whole."""
SAMPLE_HANDLE = "h1000000_0"
"""As long as the handles that are shown, for counting tokens."""
TEXT_TYPE = "text/plain"
RESULT_TAIL = 1 / 3
"""The share of a preview that shows the end of the text."""
MESSAGE_TAIL = 1 / 2
"""The same of a message: the question about a long paste often follows it."""
LEAST_ENDS_BYTES = 64
"""A shorter preview shows the start only."""
MARKER_START = "[… "
"""The start of every marker."""
UNREADABLE = "the rest cannot be read here"
_GAP = "\n…\n"
"""Between the start and the end in a preview."""
_MARKER_BYTES = 1_024
"""More than any marker has."""
_ESCAPED = 6
"""The most bytes that one byte becomes in JSON."""


class Spooling(msgspec.Struct, frozen=True):
    """What is stored as a blob, and how much of a stored body a pack shows.

    A text, value or stream over `threshold` bytes goes to the blob store, if its preview and the marker are shorter. At
    0 only what the log cannot hold goes there. A pack shows a stored body whole if that takes no more than its share of
    the budget; else a preview and a marker.
    """

    threshold: int = limits.SPOOL_BYTES
    preview: int = limits.PREVIEW_BYTES
    """Bytes of a preview; in a pack, `preview_share` of the budget if that is more."""
    result_share: float = 0.25
    """The most of a budget that a tool result, or a handle of a frame, may take to be shown whole."""
    message_share: float = 0.5
    """The same for a message of a user, and for a long reply."""
    preview_share: float = 0.02

    def preview_bytes(self, budget: int) -> int:
        """Bytes of a preview in a pack of so many tokens."""
        return max(self.preview, int(budget * self.preview_share) * PREVIEW_TOKEN_BYTES)

    @property
    def sample(self) -> int:
        """How much of a body is looked at."""
        return max(SAMPLE_BYTES, self.preview)

    @property
    def certain_bytes(self) -> int:
        """A longer body goes to the blob store for certain."""
        return max(min(self.threshold or EVENT_TEXT_BYTES, EVENT_TEXT_BYTES), self.sample + _MARKER_BYTES)


class Preview(NamedTuple):
    """What is shown of a body."""

    text: str
    tail: int = 0
    """The number of its last characters that are the end of the body; 0 if it shows no end."""


def preview_text(text: str, spooling: Spooling, tail_share: float = RESULT_TAIL) -> Preview | None:
    """The preview of a text that is to be spooled; None if it stays in the log."""
    size = len(text) if len(text) > EVENT_TEXT_BYTES or text.isascii() else len(text.encode())
    too_long = size > EVENT_TEXT_BYTES or (
        size * _ESCAPED > EVENT_TEXT_BYTES and len(codec.encode(text)) > EVENT_TEXT_BYTES
    )
    if not too_long and not 0 < spooling.threshold < size:
        return None
    start, end = text[: spooling.sample].encode(), text[len(text) - spooling.preview :].encode()
    preview = preview_ends(start, end if len(text) > spooling.preview else start, size, spooling, tail_share)
    return preview if too_long or is_shorter(preview, size) else None


def preview_json(value: Json, size: int, spooling: Spooling) -> Preview | None:
    """The same of a JSON value of `size` bytes."""
    if size <= EVENT_TEXT_BYTES and not 0 < spooling.threshold < size:
        return None
    preview = Preview(outline_json(value, spooling.preview))
    return preview if size > EVENT_TEXT_BYTES or is_shorter(preview, size) else None


def preview_ends(start: bytes, end: bytes, size: int, spooling: Spooling, tail_share: float = RESULT_TAIL) -> Preview:
    """The preview of a text of `size` bytes with this start and end."""
    outline = outline_json_start(start[: spooling.sample], spooling.preview)
    return cut_ends(start, end, size, spooling.preview, tail_share) if outline is None else Preview(outline)


def is_shorter(preview: Preview, size: int) -> bool:
    """Whether a preview with its marker is shorter than a body of `size` bytes."""
    return len(add_marker(*preview, size, SAMPLE_HANDLE).encode()) < size


def add_marker(
    preview: str,
    tail: int,
    size: int,
    handle: str,
    noun: str = "tool result",
    media_type: str | None = None,
    *,
    readable: bool = True,
) -> str:
    """A preview with its marker, where something is left out."""
    head, end = split_ends(preview, tail)
    line = marker_line(size, len(head.encode()), handle, noun, media_type, tail=len(end.encode()), readable=readable)
    return "\n".join(filter(None, (head, line, end)))


def split_ends(preview: str, tail: int) -> tuple[str, str]:
    """The start and the end of a body in its preview."""
    cut = len(preview) - tail
    return (preview[:cut].removesuffix(_GAP), preview[cut:]) if tail else (preview, "")


def count_shown_bytes(body: Body) -> int:
    """How many bytes of a body its preview shows."""
    return sum(len(text.encode()) for text in split_ends(body.preview, body.tail))


def marker_line(
    size: int,
    shown: int,
    handle: str,
    noun: str = "tool result",
    media_type: str | None = None,
    *,
    tail: int = 0,
    readable: bool = True,
) -> str:
    """The marker of a body of which `shown` bytes of the start, and `tail` bytes of the end, are shown. Without the
    tool that reads handles, it says that the rest cannot be read."""
    kind = "" if media_type in (None, TEXT_TYPE) else f" ({media_type})"
    part = f"preview of {shown} bytes shown" if shown else "nothing of it shown"
    if tail:
        part = f"the first {shown} and the last {tail} bytes shown"
    hint = f'; read_handle("{handle}") reads all of it' if handle else ""
    return f"{MARKER_START}{noun} spooled: {size} bytes total{kind}, {part}{hint if readable else f'; {UNREADABLE}'}]"


def show_body(body: Body, handle: str, noun: str = "tool result", *, readable: bool = True) -> str:
    """What is shown of a body: its preview, and the marker."""
    ref = body.ref
    if not is_text(ref) and not body.preview:
        return f"{MARKER_START}{noun}: {describe_binary(ref.size, ref.media_type)}]"
    return add_marker(body.preview, body.tail, ref.size, handle, noun, ref.media_type, readable=readable)


def describe_binary(size: int, media_type: str | None) -> str:
    """The text for a binary body."""
    return f"{size} bytes, binary{f' ({media_type})' if media_type else ''}; it cannot be shown as text"


def is_text(ref: BlobRef) -> bool:
    """Whether a body can be shown as text."""
    kind = ref.media_type or ""
    return kind.startswith("text/") or kind.endswith("json")


def fits_whole(body: Body, most: int) -> bool:
    """Whether a body may be shown whole where it may take so many tokens."""
    bytes_most = min(limits.WHOLE_BYTES, most * WHOLE_TOKEN_BYTES)
    return is_text(body.ref) and body.whole_tokens <= most and body.ref.size <= bytes_most


def lengthen_preview(body: Body, start: bytes, spooling: Spooling, limit: int, tail_share: float) -> Preview:
    """The preview of a stored body in `limit` bytes; of JSON, its structure. If only the start was read, the stored end
    is shown."""
    size = body.ref.size
    if body.ref.media_type == "application/json" and len(start) == size:
        return Preview(outline_json(codec.decode(start, object), limit))  # type: ignore[arg-type]
    longer = msgspec.structs.replace(spooling, preview=limit)
    if len(start) == size:
        return preview_ends(start, start, size, longer, tail_share)
    end = split_ends(body.preview, body.tail)[1]
    room = limit - len((_GAP + end).encode()) if end else limit
    outline = outline_json_start(start[: longer.sample], limit)
    if outline is not None:
        return Preview(outline)
    head = _cut_head(start, room)
    return Preview(f"{head}{_GAP}{end}", len(end)) if end else Preview(head)


def bytes_to_read(body: Body, spooling: Spooling, limit: int) -> int:
    """How much of a stored body is read for a preview of `limit` bytes; 0 if the stored preview serves."""
    if limit <= spooling.preview or not is_text(body.ref):
        return 0
    if body.ref.media_type == "application/json" and body.ref.size <= STRUCTURE_BYTES:
        return body.ref.size
    return body.ref.size if body.ref.size <= ENDS_BYTES else min(body.ref.size, max(SAMPLE_BYTES, limit))


def cut_ends(start: bytes, end: bytes, size: int, limit: int, tail_share: float) -> Preview:
    """The start and the end of a text of `size` bytes, in no more than `limit` bytes. Each is cut between two lines, if
    that leaves at least half of it; else between two characters."""
    room = limit - len(_GAP.encode())
    if size <= limit or limit < LEAST_ENDS_BYTES:
        return Preview(cut_start(start, limit))
    of_end = int(room * tail_share)
    head, tail = _cut_head(start, room - of_end), _cut_tail(end, of_end)
    return Preview(f"{head}{_GAP}{tail}", len(tail)) if tail else Preview(cut_start(start, limit))


def _cut_head(start: bytes, limit: int) -> str:
    part = start[:limit]
    if start[limit : limit + 1] != b"\n":
        at = part.rfind(b"\n")
        part = part[:at] if at >= limit // 2 else part
    return part.decode("utf-8", "ignore").removesuffix("\n")


def _cut_tail(end: bytes, limit: int) -> str:
    before, part = end[: len(end) - limit], end[max(0, len(end) - limit) :]
    if not before.endswith(b"\n"):
        at = part.find(b"\n") + 1
        part = part[at:] if 0 < at <= limit // 2 else part
    return part.decode("utf-8", "ignore")


def cut_start(start: str | bytes, limit: int) -> str:
    """The start of a text, cut between two characters."""
    head = start[:limit].encode("utf-8", "ignore") if isinstance(start, str) else start
    return head[:limit].decode("utf-8", "ignore")


_MAGIC_BYTES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
)


def detect_media_type(start: bytes, *, whole: bool = False) -> str | None:
    """The media type of a body with this start: text, if it is valid UTF-8; else by its first bytes, if they are known.
    Unless it is the whole body, a character may be cut in two at the end."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start, whole)
    except UnicodeDecodeError:
        return find_magic_type(start)
    return TEXT_TYPE


def find_magic_type(start: bytes) -> str | None:
    """The media type that the first bytes of a binary body name; None if they are not known."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC_BYTES if start.startswith(magic)), None)


# JSON: its structure says more than its first bytes


def outline_json(value: Json, limit: int) -> str:
    """A JSON value, abbreviated to `limit` bytes: first items, first keys in order, starts of strings, and how much
    there is of each."""
    return _fit_outline(value, limit, cut=0, in_order=True)


def outline_json_start(start: bytes, limit: int) -> str | None:
    """The same of an object or a list of which only the start is known; None of anything else."""
    text = start.decode("utf-8", "ignore").removeprefix("\ufeff")
    parsed = _parse_beginning(text) if text.lstrip(_JSON_SPACE)[:1] in ("{", "[") else None
    if parsed is None:
        return None
    value, cut = parsed
    return _fit_outline(value, limit, cut=cut, in_order=False)


_OUTLINE_LEVELS = 40
_JSON_SPACE = " \t\r\n"


def _fit_outline(value: Json, limit: int, *, cut: int, in_order: bool) -> str:
    """The fullest outline that fits: the whole value, or the highest level that is not too long."""
    low, high = -1, _OUTLINE_LEVELS + 1
    level, best = _OUTLINE_LEVELS, ""
    while high - low > 1:
        outline = _JsonOutline(level, limit, in_order=in_order)
        try:
            outline.add(value, 0, cut)
        except _OutlineFull:
            high = level
            if level == 0:
                best = cut_start("".join(outline.text), limit)
        else:
            low, best = level, "".join(outline.text)
        level = (low + high) // 2
    return best


class _OutlineFull(Exception):
    """The outline is longer than its limit."""


class _JsonOutline:
    """An outline of a JSON value, longer for a higher level. It stops as soon as it is too long, so its cost depends on
    the limit, not on the value."""

    def __init__(self, level: int, limit: int, *, in_order: bool) -> None:
        self.text: list[str] = []
        self._left = limit
        self._in_order = in_order
        is_full = level == _OUTLINE_LEVELS
        self._depth = limits.JSON_DEPTH + 1 if is_full else 2 + level // 2
        self._chars = limit if is_full else min(limit, int(12 * 1.25**level))
        self._items = limit if is_full else min(limit, int(1.2**level))
        self._keys = limit // 4 + 1 if is_full else min(limit // 4 + 1, 3 + int(1.25**level))

    def _write(self, text: str) -> None:
        self.text.append(text)
        self._left -= len(text.encode())
        if self._left < 0:
            raise _OutlineFull

    def add(self, value: Json, depth: int, cut: int) -> None:
        """`cut` is how many levels of the value, this one first, are still open where the known part ends."""
        if isinstance(value, str):
            self._write_string(value, cut > 0)
        elif isinstance(value, dict):
            self._write_object(value, depth, cut)
        elif isinstance(value, list):
            self._write_list(value, depth, cut)
        else:
            self._write(codec.encode(value).decode())

    def _write_string(self, value: str, is_cut: bool) -> None:
        self._write(codec.encode(value[: self._chars]).decode())
        left = len(value) - self._chars
        if is_cut:
            self._write("…")
        elif left > 0:
            self._write(f"… (+{left} characters)")

    def _write_object(self, value: dict[str, Json], depth: int, cut: int) -> None:
        if depth >= self._depth and value:
            self._write(f"{{… {len(value)}{'+' * (cut > 0)} keys}}")
            return
        self._write("{")
        last = next(reversed(value), None)
        names = list(itertools.islice(value, self._keys))
        if self._in_order:
            names = heapq.nsmallest(self._keys, value)
        for number, name in enumerate(names):
            self._write(", " if number else "")
            self._write_string(name, False)
            self._write(": ")
            self.add(value[name], depth + 1, cut - 1 if name == last else 0)
        self._write_rest(len(value) - len(names), " keys", cut, bool(names))
        self._write("}")

    def _write_list(self, value: list[Json], depth: int, cut: int) -> None:
        if depth >= self._depth and value:
            self._write(f"[… {len(value)}{'+' * (cut > 0)} items]")
            return
        self._write("[")
        for number, item in enumerate(value[: self._items]):
            self._write(", " if number else "")
            self.add(item, depth + 1, cut - 1 if number == len(value) - 1 else 0)
        self._write_rest(max(0, len(value) - self._items), "", cut, bool(value))
        self._write("]")

    def _write_rest(self, left: int, of_what: str, cut: int, follows: bool) -> None:
        if not left and cut <= 0:
            return
        count = f" (+{left} more{of_what}{', at least' * (cut > 0)})" if left else ""
        self._write(f"{', ' * follows}…{count}")


_JSON_TOKEN = re.compile(r'[ \t\r\n]*(?:([{}\[\],:])|("[^"\\]*(?:\\.[^"\\]*)*")|([^ \t\r\n{}\[\],:"]+))', re.DOTALL)
_UNFINISHED_STRING = re.compile(r'[ \t\r\n]*"[^"\\]*(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*)*', re.DOTALL)
_HALF_ESCAPE = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
"""The first half of a character that JSON writes as two."""


def _parse_beginning(text: str) -> tuple[Json, int] | None:
    """The value that a text begins with, as far as it goes, and how many levels of it are open at its end; None if it
    is not JSON."""
    closers: list[str] = []
    at = sound = 0  # up to `sound`, the text is JSON once the open levels are closed
    is_value = True
    while token := _JSON_TOKEN.match(text, at):
        sign, string, word = token.groups()
        if word is not None and token.end() == len(text) and closers:
            break  # the word may go on
        at = token.end()
        if sign in ("{", "["):
            closers.append("}" if sign == "{" else "]")
        elif sign in ("}", "]") and (not closers or closers.pop() != sign):
            return None
        if len(closers) > limits.JSON_DEPTH or (not closers and sign is None):
            return None
        if sign == ":":
            is_value = True
            continue
        if sign == ",":
            is_value = closers[-1:] == ["]"]
            continue
        if string is None or is_value:
            sound = at
        is_value = sign == "["
        if not closers:
            return _decode_closed(text[:at], 0) if not text[at:].strip(_JSON_SPACE) else None
    ending = "".join(reversed(closers))
    unfinished = _UNFINISHED_STRING.match(text, at) if is_value and '"' in text[at:] else None
    if unfinished is not None:
        string = _HALF_ESCAPE.sub("", text[: unfinished.end()])
        return _decode_closed(f'{string}"{ending}', len(closers) + 1)
    return _decode_closed(text[:sound] + ending, len(closers))


def _decode_closed(text: str, cut: int) -> tuple[Json, int] | None:
    try:
        return codec.decode(text.encode(), object), cut  # type: ignore[return-value]
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
