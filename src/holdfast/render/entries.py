"""The parts of a message as a renderer meets them: what can be shown, in its shell, and what is the provider's own.

The reverse of `holdfast.providers.parts`: a shell and the part behind it make the provider's block again. A shell fits the
part that it was taken from; behind another one, as when an image has given way to a line of text, it says nothing.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from holdfast import codec
from holdfast.context.fence import cleared, cleared_parts
from holdfast.model.content import BlobRef, Body, Data, File, Image, Opaque, Part, Text
from holdfast.model.handles import piece_id
from holdfast.model.messages import History, Message
from holdfast.providers.openai import CALLS

NO_BODIES: Mapping[str, bytes] = types.MappingProxyType({})

CALL_SHELLS = CALLS | {"tool_use", "function", "custom"}
"""The shells that mark the place of a call: those of a responses list, of Anthropic, and of chat."""

_AROUND: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("text", "input_text", "output_text", "refusal"), (Text, Body)),
    **dict.fromkeys(("image", "image_url", "input_image"), (Image,)),
    **dict.fromkeys(("document", "file", "input_file"), (File,)),
}
"""What a shell of this type was taken from."""

PDF = "application/pdf"
IMAGES = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
"""What every provider can look at."""

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", PDF),
)
_TEXTS = frozenset({"application/json", "application/xml", "application/yaml", "application/javascript"})
_URL_CHARS = 200


class Shown(NamedTuple):
    """Something that every provider has a place for, and what its own provider said around it."""

    part: Text | Data | Body | Image | File
    shell: dict[str, Any]
    handle: str


class Own(NamedTuple):
    """A block or item as its issuer made it; it has a type."""

    block: dict[str, Any]


class Around(NamedTuple):
    """What stands around a whole message, or around a whole result."""

    shell: dict[str, Any]


class Mark(NamedTuple):
    """Here stood a call, and this is what it said beyond name, arguments and id."""

    shell: dict[str, Any]


class Foreign(NamedTuple):
    """A part of another issuer, or one that is not at hand."""

    issuer: str
    handle: str

    @property
    def line(self) -> str:
        return f"[{self.handle}: a part for {self.issuer} alone, not shown]"


Entry: TypeAlias = Shown | Own | Around | Mark | Foreign


def content(message: Message, issuer: str, bodies: Mapping[str, bytes]) -> list[Entry]:
    """The content of a message for this issuer. Of a reply, its own parts go back together or not at all: a provider that
    signs what it said refuses a half of it."""
    before = len(message.tool_results)
    handles = [piece_id(message.seq, before + number) for number in range(len(message.content))]
    found = _entries(message.content, handles, issuer, bodies)
    missing = any(type(entry) is Foreign and entry.issuer == issuer for entry in found)
    if not missing or message.role != "assistant":
        return found
    return [
        Shown(entry.part, {}, entry.handle) if type(entry) is Shown else entry
        for entry in found
        if type(entry) is Shown or (type(entry) is Foreign and entry.issuer != issuer)
    ]


def result(message: Message, number: int, issuer: str, bodies: Mapping[str, bytes]) -> list[Entry]:
    """What one of the results of a message brought."""
    parts = message.tool_results[number].content
    return _entries(parts, [piece_id(message.seq, number)] * len(parts), issuer, bodies)


def _entries(parts: Sequence[Part], handles: Sequence[str], issuer: str, bodies: Mapping[str, bytes]) -> list[Entry]:
    found: list[Entry] = []
    waiting: dict[str, Any] = {}
    for part, handle in zip(parts, handles, strict=True):
        if not isinstance(part, Opaque):
            fits = isinstance(part, _AROUND.get(waiting.get("type", ""), ()))
            found.append(Shown(part, waiting if fits else {}, handle))
            waiting = {}
            continue
        waiting = {}
        block = _block(part, bodies) if part.issuer == issuer else None
        if block is None:
            found.append(Foreign(part.issuer, handle))
            continue
        shell = block.get("around")
        if not isinstance(shell, dict):
            found.append(Own(block))
        elif shell.get("type") in _AROUND:
            waiting = shell
        else:
            found.append(Mark(shell) if shell.get("type") in CALL_SHELLS else Around(shell))
    return _cleared(found)


def _cleared(found: list[Entry]) -> list[Entry]:
    """These, without the tag of the fence in any text, or across several."""
    places = [
        (at, entry)
        for at, entry in enumerate(found)
        if type(entry) is Shown and isinstance(entry.part, Text | Data | Body)
    ]
    texts = [text_in(entry.part) for _, entry in places if isinstance(entry.part, Text | Data | Body)]
    for (at, entry), was, now in zip(places, texts, cleared_parts(texts), strict=True):
        if now != was:
            found[at] = Shown(Text(now), entry.shell, entry.handle)
    return found


def _block(part: Opaque, bodies: Mapping[str, bytes]) -> dict[str, Any] | None:
    """The object that an opaque part spells; None if it spells none, or is not at hand."""
    body = bodies.get(part.body.digest) if isinstance(part.body, BlobRef) else part.body.encode()
    if body is None:
        return None
    try:
        block = codec.decode_object(body)
    except (msgspec.MsgspecError, RecursionError):
        return None
    shell = block.get("around")
    if shell is None:
        return block if isinstance(block.get("type"), str) else None
    return block if isinstance(shell, dict) and isinstance(shell.get("type", shell.get("role")), str) else None


def text_in(part: Text | Data | Body) -> str:
    """What there is to read: data as compact JSON; of a body in the blob store, the preview."""
    match part:
        case Text(text) | Body(preview=text):
            return text
        case Data(value):
            return codec.encode(value).decode()


def line(part: Image | File, handle: str) -> str:
    """What stands for an image or a file that cannot be shown."""
    if isinstance(part, Image) and part.ref is None:
        return f"[{handle}: image at {cleared(part.url or '')[:_URL_CHARS]}]"
    what = f'file "{cleared(part.name)}"' if isinstance(part, File) and part.name else type(part).__name__.lower()
    ref = part.ref
    assert ref is not None, "a file has one, and so has an image without a URL"
    kind = f", {ref.media_type}" if ref.media_type else ""
    return f"[{handle}: {what}{kind}, {ref.size} bytes, not shown]"


def picture_of(part: Image, bodies: Mapping[str, bytes]) -> tuple[str, bytes] | None:
    """The media type and the bytes of an image, if it is of a kind that is shown. Its bytes tell better than its label:
    providers refuse the one that does not fit the other."""
    data = bodies.get(part.ref.digest) if part.ref is not None else None
    if data is None or part.ref is None:
        return None
    kind = _sniffed(data) or part.ref.media_type
    return (kind, data) if kind in IMAGES else None


def file_of(part: File, bodies: Mapping[str, bytes]) -> tuple[str, bytes] | None:
    """The media type and the bytes of a file, if they are at hand; not of one that is an image."""
    data = bodies.get(part.ref.digest)
    if data is None:
        return None
    kind = part.ref.media_type or _sniffed(data) or "text/plain"
    return None if kind in IMAGES else (kind, data)


def _sniffed(data: bytes) -> str | None:
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), None)


def fetched(url: str | None) -> str | None:
    """The URL, if a provider can fetch it."""
    return url if url is not None and url.startswith(("https://", "http://")) else None


def as_text(kind: str, data: bytes) -> str | None:
    """The text of a file that is text."""
    plain = kind.partition(";")[0].strip().lower()
    if not plain.startswith("text/") and not plain.endswith(("+json", "+xml")) and plain not in _TEXTS:
        return None
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else cleared(text)


def bodies_of(history: History, issuer: str | None = None) -> tuple[BlobRef, ...]:
    """The images and files that a rendering of this history shows, and what is the issuer's own: each once, in order."""
    found: dict[str, BlobRef] = {}
    for message in history.messages:
        for part in (*message.content, *(each for answer in message.tool_results for each in answer.content)):
            match part:
                case Image(ref=BlobRef() as ref) | File(ref=BlobRef() as ref):
                    found.setdefault(ref.digest, ref)
                case Opaque(issuer=whose, body=BlobRef() as ref) if whose == issuer:
                    found.setdefault(ref.digest, ref)
    return tuple(found.values())
