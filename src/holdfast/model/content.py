"""What a message is made of: text, references to bodies in the blob store, and opaque provider parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

Role = Literal["system", "user", "assistant", "tool"]

if TYPE_CHECKING:
    Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
else:
    Json = Any  # decoders cannot follow an alias to itself; codec.checked_json has checked the value on its way in


class BlobRef(msgspec.Struct, frozen=True, omit_defaults=True):
    """A body in the blob store, named by the SHA-256 of its bytes."""

    digest: str
    size: int
    media_type: str | None = None


class Text(msgspec.Struct, frozen=True, tag="text"):
    text: str


class Body(msgspec.Struct, frozen=True, omit_defaults=True, tag="body"):
    """Text too long to stand in the log; `preview` is what is shown of it."""

    ref: BlobRef
    preview: str = ""


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


Part: TypeAlias = Text | Body | Image | File | Opaque


def blob_refs(parts: tuple[Part, ...]) -> tuple[BlobRef, ...]:
    """The bodies that these parts need, in order."""
    refs: list[BlobRef] = []
    for part in parts:
        match part:
            case Body(ref=BlobRef() as ref) | File(ref=BlobRef() as ref) | Image(ref=BlobRef() as ref):
                refs.append(ref)
            case Opaque(body=BlobRef() as ref):
                refs.append(ref)
    return tuple(refs)
