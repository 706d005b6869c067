"""Errors as documents of RFC 9457 (application/problem+json), and back.

Laws: one table says which status an error has. A document has the name of the error as `type` and its data under
`attributes`, so a client raises the error that the engine raised, with the same message. What is inside the server stays
there: paths, addresses and messages of drivers are in its log, not in its answers. An error that is not in the table is a
500 without any of its text.
"""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn

import msgspec

from holdfast import errors
from holdfast.errors import HoldfastError
from holdfast.model.content import Usage
from holdfast.model.names import LedgerId, Scope, StreamId

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 1
"""When to send a request again that found the store or the server busy."""
RETRY_UNAVAILABLE_S = 5
"""When to send a request again that found the store gone."""
ATTRIBUTE_CHARS = 1_000
"""The most characters of a text in a document: errors quote what a caller sent."""
JSON_INT_BITS = 63
"""Larger whole numbers are sent as text: many readers of JSON have no larger ones."""

STATUSES: dict[type[BaseException], int] = {
    errors.InvalidInput: 422,
    errors.InvalidJson: 400,
    errors.InvalidText: 400,
    errors.TooLarge: 413,
    errors.ImportRefused: 422,
    errors.NotFound: 404,
    errors.Conflict: 409,
    errors.AuthorityExceeded: 403,
    errors.NotAuthorised: 403,
    errors.PermissionMissing: 403,
    errors.TokenForbidden: 403,
    errors.AccessRefused: 403,
    errors.KeyRefused: 401,
    errors.RateExceeded: 429,
    errors.SpendExceeded: 429,
    errors.StorageCorrupt: 500,
    errors.StorageBusy: 503,
    errors.StorageFull: 507,
    errors.StorageReadOnly: 503,
    errors.StorageUnavailable: 503,
    errors.StoreClosed: 503,
    errors.StoreFeatureMissing: 501,
    errors.ExtraMissing: 501,
    errors.LocalOnly: 422,
    errors.ServerBusy: 503,
    errors.RequestTimeout: 504,
    errors.ModelFailed: 502,
    errors.ModelTimeout: 504,
    errors.MemoryFailed: 502,
    errors.EmbedderFailed: 502,
}
"""The status of each error and of those below it in the tree; the nearest entry counts. All others are 500."""
PRECONDITION_FAILED = 412
"""The status of VersionConflict if the request named a version in If-Match."""

_INSIDE = {"what": "the store", "store": "the store", "path": "the store", "reason": "see the log of the server"}
"""What answers say in place of the places and the reasons of a store."""
_STRUCTS: dict[str, type[Any]] = {kind.__name__: kind for kind in (StreamId, Scope, LedgerId, Usage)}
"""What errors may hold beside plain data."""
_KIND = "struct"
_WORD_START = re.compile(r"(?<!^)(?=[A-Z])")


def status_of(error: BaseException, *, if_match: bool = False) -> int:
    """The status of the answer to a request that ended with this error. `if_match`: the request named a version."""
    if if_match and isinstance(error, errors.VersionConflict):
        return PRECONDITION_FAILED
    return next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), 500)


def headers_of(error: BaseException) -> dict[str, str]:
    """The headers of that answer: when to try again, and how to show who one is."""
    match error:
        case errors.RateExceeded() | errors.SpendExceeded() | errors.ServerBusy():
            return {"Retry-After": str(error.retry_s)}
        case errors.StorageBusy() | errors.RequestTimeout():
            return {"Retry-After": str(RETRY_AFTER_S)}
        case errors.StorageUnavailable() | errors.StoreClosed():
            return {"Retry-After": str(RETRY_UNAVAILABLE_S)}
        case errors.KeyRefused():
            return {"WWW-Authenticate": "Bearer"}
    return {}


def build_problem(error: BaseException, request_id: str, *, if_match: bool = False) -> dict[str, Any]:
    """The document for an error: `type`, `title`, `status`, `detail`, `instance` (the id of the request), `attributes`."""
    status = status_of(error, if_match=if_match)
    if not isinstance(error, HoldfastError) or (status == 500 and not isinstance(error, errors.StorageCorrupt)):
        return _build_failure(request_id)
    attributes = {name: _to_json(value) for name, value in _hide_inside(error).items()}
    shown = type(error)(**{name: _from_json(value) for name, value in attributes.items()})
    return {
        "type": type(error).__name__,
        "title": _build_title(type(error).__name__),
        "status": status,
        "detail": str(shown),  # of what the document says, so that both sides have the same text
        "instance": request_id,
        "attributes": attributes,
    }


def build_http_problem(status: int, title: str, detail: str, request_id: str) -> dict[str, Any]:
    """The document for what is no error of Holdfast: an address or a method that the server does not have."""
    return {"type": "about:blank", "title": title, "status": status, "detail": detail, "instance": request_id}


def raise_problem(document: object, server: str = "") -> NoReturn:
    """Raise the error that a document describes; ServerFailed if it describes none. `server` is its address."""
    raise read_problem(document, server)


def read_problem(document: object, server: str = "") -> HoldfastError:
    """The error that a document describes."""
    fields: dict[str, Any] = document if isinstance(document, dict) else {}
    kind = getattr(errors, str(fields.get("type")), None)
    attributes = fields.get("attributes")
    if isinstance(kind, type) and issubclass(kind, HoldfastError) and isinstance(attributes, dict):
        data = {name: _from_json(value) for name, value in attributes.items() if not name.startswith("_")}
        if issubclass(kind, errors.ServerError) and server:
            data["server"] = server
        try:
            return kind(**data)
        except (KeyError, IndexError, ValueError, TypeError, AttributeError):
            pass  # another version of Holdfast wrote it, with other data: the text says all
    reason = " ".join(str(fields[name]) for name in ("status", "title", "detail") if name in fields).rstrip(".")
    return errors.ServerFailed(server=server or "of Holdfast", reason=reason or "its answer is no problem document")


def _build_failure(request_id: str) -> dict[str, Any]:
    error = errors.ServerFailed(server="of Holdfast", reason="an error that it does not expect")
    return {
        "type": "ServerFailed",
        "title": _build_title("ServerFailed"),
        "status": 500,
        "detail": str(error),
        "instance": request_id,
        "attributes": dict(vars(error)),
    }


def _hide_inside(error: HoldfastError) -> dict[str, object]:
    """The data of an error without the places and the messages of the server's own store."""
    data = vars(error)
    if not isinstance(error, errors.StorageError | errors.StorageCorrupt):
        return data
    return {**data, **{name: text for name, text in _INSIDE.items() if name in data}}


def _build_title(name: str) -> str:
    return _WORD_START.sub(" ", name.removesuffix("Error")).capitalize()


def _to_json(value: object) -> object:
    """Data of an error as JSON that comes back as it was, as far as a message shows it."""
    match value:
        case bool() | None:
            return value
        case int():
            return value if value.bit_length() <= JSON_INT_BITS else str(value)
        case float():
            return value if math.isfinite(value) else repr(value)
        case str():
            printable = value[:ATTRIBUTE_CHARS].encode("utf-8", "backslashreplace").decode("utf-8")
            return printable if len(value) <= ATTRIBUTE_CHARS else printable + "…"
        case _ if type(value).__name__ in _STRUCTS:
            plain: dict[str, Any] = msgspec.to_builtins(value)
            return {_KIND: type(value).__name__, **{name: _list_to_json(each) for name, each in plain.items()}}
    return str(value)


def _list_to_json(value: object) -> object:
    return [_to_json(each) for each in value] if isinstance(value, list | tuple) else _to_json(value)


def _from_json(value: object) -> object:
    if not isinstance(value, dict):
        return value if value is None or isinstance(value, str | int | float) else str(value)
    kind = _STRUCTS.get(str(value.get(_KIND)))
    if kind is None:
        return str(value)
    try:
        return msgspec.convert({name: each for name, each in value.items() if name != _KIND}, kind)
    except msgspec.ValidationError:
        return str(value)
