"""What a message is made of: text, JSON, references to bodies in the blob store, and opaque provider parts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from holdfast.model import limits

Role = Literal["system", "user", "assistant", "tool"]

SkipReason = Literal["empty", "length", "refusal", "content_filter", "incomplete"]
"""Why a reply is recorded but not shown to models: it has neither content nor calls; the token limit cut it off; the model
refused; the provider's filter stopped it; or the provider reports it as failed or cancelled."""

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
else:
    Json = Any  # decoders cannot follow an alias to itself; codec.checked_json has checked the value on its way in


TOKEN_BYTES = 4
"""About what a token takes, where nothing was counted."""
_MARKER_BYTES = 120
"""About what the marker behind a preview takes."""


class BlobRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A body in the blob store, named by the SHA-256 of its bytes."""

    digest: str
    size: int
    media_type: str | None = None


class Text(msgspec.Struct, frozen=True, tag="text"):
    text: str


class Data(msgspec.Struct, frozen=True, tag="data"):
    """A JSON value, as a tool returned it."""

    value: Json


class Body(msgspec.Struct, frozen=True, omit_defaults=True, tag="body"):
    """Text or JSON that is stored as a blob. `preview` is what is shown of it where there is no room for the whole."""

    ref: BlobRef
    preview: str = ""
    tokens: int = 0
    """Tokens of the whole body; 0 if they were never counted. Of a body over COUNTED_BYTES, an estimate."""
    preview_tokens: int = 0
    """Tokens of the preview with its marker: as much of the message's tokens is the body's. 0 if unknown."""
    tail: int = 0
    """How many of the last characters of the preview are the end of the body; 0 if it shows no end."""

    @property
    def whole_tokens(self) -> int:
        """Tokens of the whole body, estimated from its size if they were never counted."""
        return self.tokens or self.ref.size // TOKEN_BYTES

    @property
    def shown_tokens(self) -> int:
        """Tokens of the preview with its marker, estimated if unknown."""
        return self.preview_tokens or (len(self.preview.encode()) + _MARKER_BYTES) // TOKEN_BYTES


class Image(msgspec.Struct, frozen=True, omit_defaults=True, tag="image"):
    """An image in the blob store, or one that the provider fetches."""

    ref: BlobRef | None = None
    url: str | None = None


class File(msgspec.Struct, frozen=True, omit_defaults=True, tag="file"):
    ref: BlobRef
    name: str | None = None


class Opaque(msgspec.Struct, frozen=True, omit_defaults=True, tag="opaque"):
    """A provider's own part (signed reasoning and the like): kept byte for byte, shown only to its issuer."""

    issuer: str
    body: str | BlobRef


Part: TypeAlias = Text | Data | Body | Image | File | Opaque


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the assistant asks a tool to do. `args` is an object, or text when the provider sent no valid one."""

    id: str
    """Given by the session, and unique in it."""
    name: str
    args: Json
    provider_id: str | None = None
    """The provider's own id, unique within the message."""
    raw: str | None = None
    """The arguments as the provider spelled them, where that differs from their canonical JSON."""


class ToolResult(msgspec.Struct, frozen=True, omit_defaults=True):
    tool_call_id: str
    content: tuple[Part, ...]
    is_error: bool = False

    @property
    def value(self) -> Json:
        """What the tool returned: a JSON value, or the text; of a body in the blob store, the preview."""
        if len(self.content) == 1 and isinstance(self.content[0], Data):
            return self.content[0].value
        return text_of(self.content)


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a model call consumed, in the provider's tokens."""

    input_tokens: int = 0
    """The whole prompt, from the cache or not."""
    output_tokens: int = 0
    """All that the model wrote, reasoning included."""
    cache_read_tokens: int = 0
    """How much of the prompt came from the provider's cache."""
    cache_write_tokens: int = 0
    """How much of the prompt was written to the provider's cache."""
    reasoning_tokens: int = 0
    """How much of the output was reasoning."""

    def __add__(self, other: Usage) -> Usage:
        if other == _NONE:
            return self
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Usage(*(min(mine + theirs, limits.WHOLE_NUMBER) for mine, theirs in pairs))


_NONE = Usage()
"""What nothing was consumed by."""


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a reply came from."""

    provider: str | None = None
    model: str | None = None
    id: str | None = None
    """The provider's id of the reply."""
    stop: str | None = None
    """Why the model stopped, in the provider's words."""


def text_of(parts: Iterable[Part], between: str = "\n") -> str:
    """What there is to read in these parts, joined: texts, data as JSON; of bodies in the blob store, the preview."""
    texts: list[str] = []
    for part in parts:
        match part:
            case Text(text):
                texts.append(text)
            case Data(value):
                texts.append(msgspec.json.encode(value).decode())  # to be read; what is stored is codec's business
            case Body(preview=preview):
                texts.append(preview)
    return between.join(texts)


def blob_refs(parts: Iterable[Part]) -> tuple[BlobRef, ...]:
    """The bodies that these parts need, in order."""
    refs: list[BlobRef] = []
    for part in parts:
        match part:
            case Body(ref=BlobRef() as ref) | File(ref=BlobRef() as ref) | Image(ref=BlobRef() as ref):
                refs.append(ref)
            case Opaque(body=BlobRef() as ref):
                refs.append(ref)
    return tuple(refs)
