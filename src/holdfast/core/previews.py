"""Previews: what is shown of a body that lies in the blob store, and the line that tells where the rest of it is.

Laws: a preview has no more bytes than was asked for, and whole characters only; of a text it shows the beginning and the
end, whole lines where lines are short; the same body has the same preview, however it came in; nothing is put there unless
what is shown instead is shorter, or the log cannot hold it.
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

HELD_BYTES = limits.PAYLOAD_BYTES - limits.METADATA_BYTES
"""What an event holds of one text or value, as JSON: the rest is for whatever else it says."""
SAMPLE_BYTES = 32 << 10
"""How much of a body is looked at for a preview, if that is not to be longer."""
ENDS_BYTES = 256 << 10
"""A stored text up to this is read whole for a longer preview; the end of a larger one is as it was stored with it."""
STRUCTURE_BYTES = 1 << 20
"""A stored JSON value above this is outlined from its beginning: how many items it has in all is then not known."""
PREVIEW_TOKEN_BYTES = 3
"""Bytes of a preview for one token of its share, on the safe side."""
WHOLE_TOKEN_BYTES = 16
"""No text that is worth its share has more bytes for a token: a body that has is not read to be shown whole."""
SOME_HANDLE = "h1000000_0"
"""As long as those that are shown; what a count of tokens makes of it."""
TEXT = "text/plain"
RESULT_TAIL = 1 / 3
"""How much of the preview of a text is its end."""
MESSAGE_TAIL = 1 / 2
"""The same of a message: what is asked of a long paste often follows it."""
LEAST_ENDS_BYTES = 64
"""A shorter preview has a beginning only."""
MARK = "[… "
"""How a marker begins."""

_GAP = "\n…\n"
"""What stands in a preview between the beginning and the end."""
_MARKER_BYTES = 1_024
"""More than any marker has."""
_ESCAPED = 6
"""Bytes that a byte may become in JSON."""


class Spooling(msgspec.Struct, frozen=True):
    """What is stored as a blob, and how much of a stored body a pack shows.

    A text, value or stream over `threshold` bytes goes to the blob store, if its preview and the marker are shorter than it
    is. At 0 nothing goes there, but for what the log cannot hold. A pack shows a stored body whole if that takes no more
    than its share of the budget; else a preview and a marker."""

    threshold: int = limits.SPOOL_BYTES
    preview: int = limits.PREVIEW_BYTES
    """Bytes of a preview; in a pack, `preview_share` of the budget if that is more."""
    result_share: float = 0.25
    """The most of a budget that a tool result, or a handle of a frame, may take to be shown whole."""
    message_share: float = 0.5
    """The same for what a user pasted, and for a long reply."""
    preview_share: float = 0.02

    def preview_bytes(self, budget: int) -> int:
        """Bytes of a preview in a pack of so many tokens."""
        return max(self.preview, int(budget * self.preview_share) * PREVIEW_TOKEN_BYTES)

    @property
    def sample(self) -> int:
        """How much of a body is looked at."""
        return max(SAMPLE_BYTES, self.preview)

    @property
    def enough(self) -> int:
        """What is longer than this goes to the blob store for certain."""
        return max(min(self.threshold or HELD_BYTES, HELD_BYTES), self.sample + _MARKER_BYTES)


class Preview(NamedTuple):
    """What is shown of a body."""

    text: str
    tail: int = 0
    """How many of its last characters are the end of the body; 0 if it shows no end."""


def of_text(text: str, spooling: Spooling, tail_share: float = RESULT_TAIL) -> Preview | None:
    """The preview of a text that is to be spooled; None if it stays as it is."""
    size = len(text) if len(text) > HELD_BYTES or text.isascii() else len(text.encode())
    too_long = size > HELD_BYTES or (size * _ESCAPED > HELD_BYTES and len(codec.encode(text)) > HELD_BYTES)
    if not too_long and not 0 < spooling.threshold < size:
        return None
    start, end = text[: spooling.sample].encode(), text[len(text) - spooling.preview :].encode()
    preview = of_ends(start, end if len(text) > spooling.preview else start, size, spooling, tail_share)
    return preview if too_long or is_shorter(preview, size) else None


def of_json(value: Json, size: int, spooling: Spooling) -> Preview | None:
    """The same of a JSON value that is so many bytes long."""
    if size <= HELD_BYTES and not 0 < spooling.threshold < size:
        return None
    preview = Preview(json_preview(value, spooling.preview))
    return preview if size > HELD_BYTES or is_shorter(preview, size) else None


def of_ends(start: bytes, end: bytes, size: int, spooling: Spooling, tail_share: float = RESULT_TAIL) -> Preview:
    """The preview of a text of so many bytes that begins and ends like this."""
    outline = json_start(start[: spooling.sample], spooling.preview)
    return text_ends(start, end, size, spooling.preview, tail_share) if outline is None else Preview(outline)


def is_shorter(preview: Preview, size: int) -> bool:
    """Whether a preview with its marker is shorter than the body of so many bytes."""
    return len(with_marker(*preview, size, SOME_HANDLE).encode()) < size


def with_marker(
    preview: str,
    tail: int,
    size: int,
    handle: str,
    what: str = "tool result",
    media_type: str | None = None,
    *,
    readable: bool = True,
) -> str:
    """A preview with the line that tells of the rest: where something is left out."""
    head, end = ends_of(preview, tail)
    line = marker(size, len(head.encode()), handle, what, media_type, tail=len(end.encode()), readable=readable)
    return "\n".join(filter(None, (head, line, end)))


def ends_of(preview: str, tail: int) -> tuple[str, str]:
    """The beginning and the end of a body, of its preview."""
    cut = len(preview) - tail
    return (preview[:cut].removesuffix(_GAP), preview[cut:]) if tail else (preview, "")


def shown_bytes(body: Body) -> int:
    """How many bytes of a body its preview shows."""
    return sum(len(each.encode()) for each in ends_of(body.preview, body.tail))


def marker(
    size: int,
    shown: int,
    handle: str,
    what: str = "tool result",
    media_type: str | None = None,
    *,
    tail: int = 0,
    readable: bool = True,
) -> str:
    """The line that stands for the rest of a body of which so many bytes of the beginning, and of the end, are shown.
    Without the tool that reads handles, the rest cannot be read, and the line says that."""
    kind = "" if media_type in (None, TEXT) else f" ({media_type})"
    of_it = f"preview of {shown} bytes shown" if shown else "nothing of it shown"
    if tail:
        of_it = f"the first {shown} and the last {tail} bytes shown"
    rest = f'; read_handle("{handle}") reads all of it' if handle else ""
    return f"{MARK}{what} spooled: {size} bytes total{kind}, {of_it}{rest if readable else f'; {UNREADABLE}'}]"


UNREADABLE = "the rest cannot be read here"


def shown_as(body: Body, handle: str, what: str = "tool result", *, readable: bool = True) -> str:
    """What is shown of a body: its preview, and the line that tells of the rest."""
    ref = body.ref
    if not is_text(ref) and not body.preview:
        return f"{MARK}{what}: {describe_binary(ref.size, ref.media_type)}]"
    return with_marker(body.preview, body.tail, ref.size, handle, what, ref.media_type, readable=readable)


def describe_binary(size: int, media_type: str | None) -> str:
    """What a model is told of a body that is no text."""
    return f"{size} bytes, binary{f' ({media_type})' if media_type else ''}; it cannot be shown as text"


def is_text(ref: BlobRef) -> bool:
    """Whether a body can be shown as text."""
    kind = ref.media_type or ""
    return kind.startswith("text/") or kind.endswith("json")


def fits_whole(body: Body, most: int) -> bool:
    """Whether a body may be shown whole where it may take so many tokens."""
    bytes_most = min(limits.WHOLE_BYTES, most * WHOLE_TOKEN_BYTES)
    return is_text(body.ref) and body.whole_tokens <= most and body.ref.size <= bytes_most


def longer_preview(body: Body, start: bytes, spooling: Spooling, limit: int, tail_share: float) -> Preview:
    """The preview of a stored body that has so many bytes; of JSON, its structure. If the beginning is all that was read,
    the end is the one that was stored with it."""
    size = body.ref.size
    if body.ref.media_type == "application/json" and len(start) == size:
        return Preview(json_preview(codec.decode(start, object), limit))  # type: ignore[arg-type]
    longer = msgspec.structs.replace(spooling, preview=limit)
    if len(start) == size:
        return of_ends(start, start, size, longer, tail_share)
    end = ends_of(body.preview, body.tail)[1]
    room = limit - len((_GAP + end).encode()) if end else limit
    outline = json_start(start[: longer.sample], limit)
    if outline is not None:
        return Preview(outline)
    head = _head(start, room)
    return Preview(f"{head}{_GAP}{end}", len(end)) if end else Preview(head)


def bytes_to_read(body: Body, spooling: Spooling, limit: int) -> int:
    """How much of a stored body a preview of `limit` bytes is made from; 0 if the stored preview serves."""
    if limit <= spooling.preview or not is_text(body.ref):
        return 0
    if body.ref.media_type == "application/json" and body.ref.size <= STRUCTURE_BYTES:
        return body.ref.size
    return body.ref.size if body.ref.size <= ENDS_BYTES else min(body.ref.size, max(SAMPLE_BYTES, limit))


def text_ends(start: bytes, end: bytes, size: int, limit: int, tail_share: float) -> Preview:
    """The beginning and the end of a text of so many bytes, in no more than `limit` bytes. Each is cut between two lines,
    if that leaves at least half of it; else between two characters."""
    room = limit - len(_GAP.encode())
    if size <= limit or limit < LEAST_ENDS_BYTES:
        return Preview(text_preview(start, limit))
    of_end = int(room * tail_share)
    head, tail = _head(start, room - of_end), _tail(end, of_end)
    return Preview(f"{head}{_GAP}{tail}", len(tail)) if tail else Preview(text_preview(start, limit))


def _head(start: bytes, limit: int) -> str:
    part = start[:limit]
    if start[limit : limit + 1] != b"\n":
        at = part.rfind(b"\n")
        part = part[:at] if at >= limit // 2 else part
    return part.decode("utf-8", "ignore").removesuffix("\n")


def _tail(end: bytes, limit: int) -> str:
    before, part = end[: len(end) - limit], end[max(0, len(end) - limit) :]
    if not before.endswith(b"\n"):
        at = part.find(b"\n") + 1
        part = part[at:] if 0 < at <= limit // 2 else part
    return part.decode("utf-8", "ignore")


def text_preview(start: str | bytes, limit: int) -> str:
    """The beginning of a text, cut between two characters."""
    beginning = start[:limit].encode("utf-8", "ignore") if isinstance(start, str) else start
    return beginning[:limit].decode("utf-8", "ignore")


_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"PK\x05\x06", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
)


def media_type(start: bytes, *, whole: bool = False) -> str | None:
    """What a body is that begins like this: text, if it can be read as that; else by its first bytes, if those are known.
    Unless it is the whole, a character may be cut in two at the end."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start, whole)
    except UnicodeDecodeError:
        if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
            return "image/webp"
        return next((kind for magic, kind in _KINDS if start.startswith(magic)), None)
    return TEXT


# JSON: its structure says more than its first bytes


def json_preview(value: Json, limit: int) -> str:
    """A JSON value, abbreviated until it has no more than so many bytes: first items, first keys in order, beginnings of
    strings, and how much there is of each."""
    return _outlined(value, limit, cut=0, in_order=True)


def json_start(start: bytes, limit: int) -> str | None:
    """The same of an object or a list of which this is the beginning; None of anything else."""
    text = start.decode("utf-8", "ignore").removeprefix("\ufeff")
    found = _beginning(text) if text.lstrip(_SPACE)[:1] in ("{", "[") else None
    if found is None:
        return None
    value, cut = found
    return _outlined(value, limit, cut=cut, in_order=False)


_LEVELS = 40
_SPACE = " \t\r\n"


def _outlined(value: Json, limit: int, *, cut: int, in_order: bool) -> str:
    """As generous as fits: whole, or else the highest level whose outline is not too long."""
    low, high = -1, _LEVELS + 1
    level, best = _LEVELS, ""
    while high - low > 1:
        outline = _Outline(level, limit, in_order=in_order)
        try:
            outline.add(value, 0, cut)
        except _Full:
            high = level
            if level == 0:
                best = text_preview("".join(outline.text), limit)
        else:
            low, best = level, "".join(outline.text)
        level = (low + high) // 2
    return best


class _Full(Exception):
    """It is longer than was asked for."""


class _Outline:
    """A JSON value in so many words, the more the higher the level. Stops as soon as it is too long, so what it costs
    depends on what is asked for, not on what there is."""

    def __init__(self, level: int, limit: int, *, in_order: bool) -> None:
        self.text: list[str] = []
        self._left = limit
        self._in_order = in_order
        whole = level == _LEVELS
        self._depth = limits.JSON_DEPTH + 1 if whole else 2 + level // 2
        self._chars = limit if whole else min(limit, int(12 * 1.25**level))
        self._items = limit if whole else min(limit, int(1.2**level))
        self._keys = limit // 4 + 1 if whole else min(limit // 4 + 1, 3 + int(1.25**level))

    def _say(self, text: str) -> None:
        self.text.append(text)
        self._left -= len(text.encode())
        if self._left < 0:
            raise _Full

    def add(self, value: Json, depth: int, cut: int) -> None:
        """`cut` is how many levels of it, this one first, are open where what is known of it ends."""
        if isinstance(value, str):
            self._string(value, cut > 0)
        elif isinstance(value, dict):
            self._object(value, depth, cut)
        elif isinstance(value, list):
            self._list(value, depth, cut)
        else:
            self._say(codec.encode(value).decode())

    def _string(self, value: str, is_cut: bool) -> None:
        self._say(codec.encode(value[: self._chars]).decode())
        left = len(value) - self._chars
        if is_cut:
            self._say("…")
        elif left > 0:
            self._say(f"… (+{left} characters)")

    def _object(self, value: dict[str, Json], depth: int, cut: int) -> None:
        if depth >= self._depth and value:
            self._say(f"{{… {len(value)}{'+' * (cut > 0)} keys}}")
            return
        self._say("{")
        last = next(reversed(value), None)
        names = list(itertools.islice(value, self._keys))
        if self._in_order:
            names = heapq.nsmallest(self._keys, value)
        for number, name in enumerate(names):
            self._say(", " if number else "")
            self._string(name, False)
            self._say(": ")
            self.add(value[name], depth + 1, cut - 1 if name == last else 0)
        self._rest(len(value) - len(names), " keys", cut, bool(names))
        self._say("}")

    def _list(self, value: list[Json], depth: int, cut: int) -> None:
        if depth >= self._depth and value:
            self._say(f"[… {len(value)}{'+' * (cut > 0)} items]")
            return
        self._say("[")
        for number, item in enumerate(value[: self._items]):
            self._say(", " if number else "")
            self.add(item, depth + 1, cut - 1 if number == len(value) - 1 else 0)
        self._rest(max(0, len(value) - self._items), "", cut, bool(value))
        self._say("]")

    def _rest(self, left: int, of_what: str, cut: int, follows: bool) -> None:
        if not left and cut <= 0:
            return
        count = f" (+{left} more{of_what}{', at least' * (cut > 0)})" if left else ""
        self._say(f"{', ' * follows}…{count}")


_TOKEN = re.compile(r'[ \t\r\n]*(?:([{}\[\],:])|("[^"\\]*(?:\\.[^"\\]*)*")|([^ \t\r\n{}\[\],:"]+))', re.DOTALL)
_UNFINISHED = re.compile(r'[ \t\r\n]*"[^"\\]*(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*)*', re.DOTALL)
_HALF = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
"""The first half of a character that JSON writes in two."""


def _beginning(text: str) -> tuple[Json, int] | None:
    """The value that a text begins with, as far as it goes, and how many levels of it are open at its end; None if it is
    not JSON."""
    closers: list[str] = []
    at = sound = 0  # up to where it is sound once what is open is closed
    is_value = True
    while found := _TOKEN.match(text, at):
        sign, string, word = found.groups()
        if word is not None and found.end() == len(text) and closers:
            break  # there may be more of it
        at = found.end()
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
            return _decoded(text[:at], 0) if not text[at:].strip(_SPACE) else None
    ending = "".join(reversed(closers))
    unfinished = _UNFINISHED.match(text, at) if is_value and '"' in text[at:] else None
    if unfinished is not None:
        string = _HALF.sub("", text[: unfinished.end()])
        return _decoded(f'{string}"{ending}', len(closers) + 1)
    return _decoded(text[:sound] + ending, len(closers))


def _decoded(text: str, cut: int) -> tuple[Json, int] | None:
    try:
        return codec.decode(text.encode(), object), cut  # type: ignore[return-value]
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None
