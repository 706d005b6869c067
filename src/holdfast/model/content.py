"""The content of messages: text, JSON, references to bodies in the blob store, and opaque provider parts."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from holdfast.model import limits
from holdfast.model.structs import find_values

Role = Literal["system", "user", "assistant", "tool"]

SkipReason = Literal["empty", "length", "refusal", "content_filter", "incomplete"]
"""Why a reply is recorded but not shown to models: it has neither content nor calls; the token limit cut it off; the model
refused; the provider's filter stopped it; or the provider reports it as failed or cancelled."""

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
else:
    Json = Any  # decoders cannot follow a recursive alias; codec.check_json has checked the value


TOKEN_BYTES = 4
"""The approximate bytes of a token, where nothing was counted."""
_MARKER_BYTES = 120
"""The approximate bytes of the marker after a preview."""


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
    """Text or JSON that is stored as a blob. `preview` is shown where there is no room for all of it."""

    ref: BlobRef
    preview: str = ""
    tokens: int = 0
    """Tokens of the full body; 0 if never counted. An estimate for a body over COUNTED_BYTES."""
    preview_tokens: int = 0
    """Tokens of the preview with its marker, as counted in the tokens of the message. 0 if unknown."""
    tail: int = 0
    """How many of the last characters of the preview are the end of the body; 0 if it shows no end."""

    @property
    def whole_tokens(self) -> int:
        """Tokens of the full body, estimated from its size if never counted."""
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


_CALL_ID = re.compile(r"c([1-9][0-9]{0,18})_(0|[1-9][0-9]{0,5})")


def call_id(seq: int, ordinal: int) -> str:
    """The id of a call: short, since models read it. The seq of its message makes it unique in the session."""
    return f"c{seq}_{ordinal}"


def calling_seq(call: str) -> int | None:
    """The seq of the message with this call; None if it is not an id of ours."""
    match = _CALL_ID.fullmatch(call)
    return int(match[1]) if match else None


class ToolCall(msgspec.Struct, frozen=True, omit_defaults=True):
    """A request of the assistant to a tool. `args` is an object, or text if the provider sent no valid object."""

    id: str
    """Assigned by the session, and unique in it."""
    name: str
    args: Json
    provider_id: str | None = None
    """The provider's own id, unique within the message."""
    raw: str | None = None
    """The arguments in the provider's spelling, where it differs from their canonical JSON."""


class ToolResult(msgspec.Struct, frozen=True, omit_defaults=True):
    tool_call_id: str
    content: tuple[Part, ...]
    is_error: bool = False

    @property
    def value(self) -> Json:
        """The return value of the tool: a JSON value, or the text; of a body in the blob store, the preview."""
        if len(self.content) == 1 and isinstance(self.content[0], Data):
            return self.content[0].value
        return text_of(self.content)


class Usage(msgspec.Struct, frozen=True, omit_defaults=True):
    """The tokens of a model call, as the provider counts them."""

    input_tokens: int = 0
    """The full prompt, cached or not."""
    output_tokens: int = 0
    """The output, including reasoning."""
    cache_read_tokens: int = 0
    """How much of the prompt came from the provider's cache."""
    cache_write_tokens: int = 0
    """How much of the prompt was written to the provider's cache."""
    reasoning_tokens: int = 0
    """How much of the output was reasoning."""

    def __add__(self, other: Usage) -> Usage:
        if other == _NO_USAGE:
            return self
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Usage(*(min(mine + theirs, limits.WHOLE_NUMBER) for mine, theirs in pairs))


_NO_USAGE = Usage()


class Source(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where a reply came from."""

    provider: str | None = None
    model: str | None = None
    id: str | None = None
    """The provider's id of the reply."""
    stop: str | None = None
    """Why the model stopped, in the provider's words."""


def text_of(parts: Iterable[Part], between: str = "\n") -> str:
    """The text of these parts, joined: texts, data as JSON, and previews of bodies in the blob store."""
    texts: list[str] = []
    for part in parts:
        match part:
            case Text(text):
                texts.append(text)
            case Data(value):
                texts.append(msgspec.json.encode(value).decode())  # for readers; codec encodes what is stored
            case Body(preview=preview):
                texts.append(preview)
    return between.join(texts)


def blob_refs(parts: Iterable[Part]) -> tuple[BlobRef, ...]:
    """The blobs that these parts refer to, in order."""
    return tuple(ref for part in parts if type(part) is not Text for ref in find_values(part, (BlobRef,)))
