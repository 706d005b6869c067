"""Read requests: their JSON, their fields and their pages, each checked before it is used."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal, TypeAlias, cast

import msgspec
from starlette.requests import ClientDisconnect, Request

from holdfast.errors import describe_value
from holdfast.server.v1.errors import ApiError, invalid

BODY_BYTES = 64 << 20
"""The most bytes of a request."""
BODY_DEPTH = 200
"""How deep the JSON of a request may nest."""
METADATA_KEYS = 16
METADATA_KEY_CHARS = 64
METADATA_VALUE_CHARS = 512
PAGE_ITEMS = 100
"""The most items of a page."""
DEFAULT_PAGE = 20
KEY_CHARS = 255
"""The most characters of an idempotency key."""

Fields: TypeAlias = dict[str, Any]
Order: TypeAlias = Literal["asc", "desc"]


async def read_body(request: Request) -> Fields:
    """The JSON object of a request; an empty one for no body."""
    declared = request.headers.get("content-length", "")
    if declared.isdigit() and int(declared) > BODY_BYTES:
        raise too_large(int(declared))
    pieces: list[bytes] = []
    size = 0
    try:
        async for piece in request.stream():
            size += len(piece)
            if size > BODY_BYTES:
                raise too_large(size)
            pieces.append(piece)
    except ClientDisconnect:
        raise invalid("The request ended before its body was complete. Nothing was stored.") from None
    data = b"".join(pieces)
    if not data.strip():
        return {}
    try:
        body = msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise invalid(f"The body is not valid JSON: {error}. Nothing was stored.", code="invalid_json") from None
    if type(body) is not dict:
        raise invalid(f"The body is {describe_value(body)}, not a JSON object. Nothing was stored.")
    _check_depth(body)
    return body


def too_large(size: int) -> ApiError:
    return ApiError(
        413, f"The request has {size} bytes; at most {BODY_BYTES} are accepted. Nothing was stored.", code="too_large"
    )


def _check_depth(body: Fields) -> None:
    level: list[Any] = [body]
    for _ in range(BODY_DEPTH):
        if not level:
            return
        below: list[Any] = []
        for value in level:
            if type(value) is dict:
                below += value.values()
            elif type(value) is list:
                below += value
        level = [value for value in below if type(value) in (dict, list)]
    raise invalid(f"The body nests deeper than {BODY_DEPTH} levels. Nothing was stored.")


def digest_fields(body: Fields) -> str:
    """The SHA-256 of a request, whatever it has: it is checked later."""
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


# Fields


def get_text(body: Fields, name: str, default: str | None = None) -> str | None:
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not str:
        raise wrong_type(name, value, "a string")
    return value


def get_flag(body: Fields, name: str, default: bool) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if type(value) is not bool:
        raise wrong_type(name, value, "a boolean")
    return value


def get_number(body: Fields, name: str, low: float, high: float) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if type(value) not in (int, float):
        raise wrong_type(name, value, "a number")
    if not low <= value <= high:
        raise invalid(f"Invalid '{name}': {value} is not from {low} to {high}. Nothing was stored.", name)
    return cast("float", value)


def get_whole(body: Fields, name: str, low: int, high: int) -> int | None:
    value = body.get(name)
    if value is not None and type(value) is not int:
        raise wrong_type(name, value, "an integer")
    return cast("int | None", get_number(body, name, low, high))


def get_fields(body: Fields, name: str) -> Fields | None:
    value = body.get(name)
    if value is not None and type(value) is not dict:
        raise wrong_type(name, value, "an object")
    return cast("Fields | None", value)


def get_list(body: Fields, name: str) -> list[Any]:
    value = body.get(name)
    if value is None:
        return []
    if type(value) is not list:
        raise wrong_type(name, value, "an array")
    return value


def wrong_type(name: str, value: object, expected: str) -> ApiError:
    return invalid(
        f"Invalid type for '{name}': expected {expected}, but got {describe_value(value)}. Nothing was stored.",
        name,
        "invalid_type",
    )


def get_metadata(body: Fields) -> dict[str, str]:
    """The metadata of a request: up to 16 short texts by short names."""
    metadata = get_fields(body, "metadata") or {}
    if len(metadata) > METADATA_KEYS:
        raise invalid(f"'metadata' has {len(metadata)} keys; at most {METADATA_KEYS} are accepted.", "metadata")
    for key, value in metadata.items():
        if type(value) is not str:
            raise wrong_type(f"metadata.{key[:METADATA_KEY_CHARS]}", value, "a string")
        if len(key) > METADATA_KEY_CHARS or len(value) > METADATA_VALUE_CHARS:
            raise invalid(
                f"A key of 'metadata' has at most {METADATA_KEY_CHARS} characters, a value {METADATA_VALUE_CHARS}.",
                "metadata",
            )
    return metadata


def get_key(request: Request) -> str | None:
    """The idempotency key of a request."""
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not 0 < len(key) <= KEY_CHARS:
        raise invalid(f"The header Idempotency-Key has {len(key)} characters; it needs 1 to {KEY_CHARS}.")
    return key


# Pages


def get_page(request: Request) -> tuple[str | None, Order, int]:
    """`after`, `order` and `limit` of a list."""
    query = request.query_params
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise invalid(f"Invalid 'order': {describe_value(order)} is not 'asc' or 'desc'.", "order")
    text = query.get("limit", str(DEFAULT_PAGE))
    if not (text.isascii() and text.isdigit() and len(text) <= 9) or not 1 <= int(text) <= PAGE_ITEMS:
        raise invalid(f"Invalid 'limit': {describe_value(text)} is not from 1 to {PAGE_ITEMS}.", "limit")
    return query.get("after") or None, cast("Order", order), int(text)


def build_page(items: list[Fields], *, has_more: bool) -> Fields:
    """A page of a list, as OpenAI's."""
    return {
        "object": "list",
        "data": items,
        "first_id": items[0]["id"] if items else None,
        "last_id": items[-1]["id"] if items else None,
        "has_more": has_more,
    }
