"""Images and files of frameworks, as content blocks that a session takes from any program, also over HTTP."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, TypeAlias

from holdfast import Image, Text
from holdfast.codec import encode
from holdfast.model import limits
from holdfast.types import Data

MediaBlock: TypeAlias = dict[str, Any]
ContentPart: TypeAlias = Text | Data | Image | MediaBlock


def image_block(data: bytes, media_type: str) -> MediaBlock:
    """The block of an image."""
    source = {"type": "base64", "media_type": media_type, "data": base64.b64encode(data).decode()}
    return {"type": "image", "source": source}


def file_block(data: bytes, media_type: str | None, name: str | None) -> MediaBlock:
    """The block of a file."""
    address = f"data:{media_type or 'application/octet-stream'};base64,{base64.b64encode(data).decode()}"
    return {"type": "file", "file": {"filename": name or "file", "file_data": address}}


def unify_parts(parts: Sequence[ContentPart]) -> list[ContentPart]:
    """The parts as they are, or, if an image or a file is among them, all as blocks: a tool result cannot mix both."""
    if not any(isinstance(part, dict) for part in parts):
        return list(parts)
    return [_to_block(part) for part in parts]


def bound_parts(parts: list[ContentPart]) -> list[ContentPart]:
    """At most as many parts as a message can have: of a longer list, the parts at its end become one text."""
    if len(parts) <= limits.CONTENT_PARTS:
        return parts
    kept, rest = parts[: limits.CONTENT_PARTS - 1], map(_to_block, parts[limits.CONTENT_PARTS - 1 :])
    text = "\n".join(str(block.get("text") or f"[{block['type'].removesuffix('_url')}]") for block in rest)
    return [*kept, {"type": "text", "text": text} if any(isinstance(part, dict) for part in kept) else Text(text)]


def _to_block(part: ContentPart) -> MediaBlock:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Data(value):
            return {"type": "text", "text": encode(value).decode()}
        case Image():
            return {"type": "image", "source": {"type": "url", "url": part.url or ""}}
    return part
