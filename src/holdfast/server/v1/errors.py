"""Errors in the envelope of OpenAI: {"error": {"message", "type", "param", "code"}}.

Laws: every HoldfastError has a status that fits it. Its message says what to do, without paths and reasons of the store. An
error of the upstream keeps its own status, if that is one of a client; else it is 502 or 504. Whatever else goes wrong is
500, and says nothing of its cause.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from starlette.responses import JSONResponse, Response

from holdfast import errors
from holdfast.api.problems import RETRY_AFTER_S, build_problem, headers_of, status_of
from holdfast.errors import HoldfastError
from holdfast.server.logs import log_failure

FAILURE = "The server could not do what was asked. Its log says more."


class ApiError(Exception):
    """A refusal, as the clients of OpenAI read it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message.encode(errors="replace").decode())
        self.status = status
        self.kind = kind
        self.param = param
        self.code = code
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, object]:
        return {"message": str(self), "type": self.kind, "param": self.param, "code": self.code}

    def respond(self) -> Response:
        return JSONResponse({"error": self.body}, self.status, headers=self.headers)


def invalid(message: str, param: str | None = None, code: str | None = None) -> ApiError:
    """A request that cannot be accepted as it is."""
    return ApiError(400, message, param=param, code=code)


def not_found(what: str, name: object, param: str | None = None) -> ApiError:
    return ApiError(404, f"{what} with id '{str(name)[:200]}' not found.", param=param, code="not_found")


class _Shape(NamedTuple):
    """How clients of OpenAI know an error."""

    type: str
    code: str | None
    status: int | None = None
    """None: as everywhere, see holdfast.api.problems."""


_INVALID, _CONFLICT, _SERVER = "invalid_request_error", "conflict_error", "server_error"
_SHAPES: dict[type[BaseException], _Shape] = {
    errors.KeyRefused: _Shape(_INVALID, "invalid_api_key"),
    errors.RightMissing: _Shape("insufficient_permissions", "right_missing"),
    errors.AccessRefused: _Shape("insufficient_permissions", None),
    errors.AuthorityExceeded: _Shape("insufficient_permissions", None),
    errors.NotAuthorised: _Shape("insufficient_permissions", None),
    errors.PermissionMissing: _Shape("insufficient_permissions", None),
    errors.RateExceeded: _Shape("requests", "rate_limit_exceeded"),
    errors.SpendExceeded: _Shape("tokens", "rate_limit_exceeded"),
    errors.TooLarge: _Shape(_INVALID, "too_large"),
    errors.WindowTooSmall: _Shape(_INVALID, "context_length_exceeded", 400),
    errors.BudgetTooSmall: _Shape(_INVALID, "context_length_exceeded", 400),
    errors.CriticalOverflow: _Shape(_INVALID, "context_length_exceeded", 400),
    errors.InvalidInput: _Shape(_INVALID, "invalid_value", 400),
    errors.CallNotFound: _Shape(_INVALID, "call_not_found", 400),
    errors.NotFound: _Shape(_INVALID, "not_found"),
    errors.CallsOpen: _Shape(_INVALID, "calls_open", 400),
    errors.CallAnswered: _Shape(_INVALID, "call_answered", 400),
    errors.TurnBusy: _Shape(_CONFLICT, "conversation_busy"),
    errors.KeyConflict: _Shape(_CONFLICT, "idempotency_key_reused"),
    errors.EntryConflict: _Shape(_CONFLICT, "idempotency_key_reused"),
    errors.Conflict: _Shape(_CONFLICT, "conflict"),
    errors.StorageBusy: _Shape(_SERVER, "storage_busy"),
    errors.StorageFull: _Shape(_SERVER, "storage_full"),
    errors.StorageError: _Shape(_SERVER, "storage_unavailable"),
    errors.ServerBusy: _Shape(_SERVER, "server_busy"),
    errors.RequestTimeout: _Shape(_SERVER, "request_timeout"),
    errors.ModelTimeout: _Shape(_SERVER, "upstream_timeout"),
    errors.ModelFailed: _Shape(_SERVER, "upstream_error"),
}
"""The shape of each error and of those below it in the tree; the nearest entry counts."""


def read_error(error: HoldfastError) -> ApiError:
    """An error of Holdfast as a client of OpenAI reads it, without what is inside the server."""
    shape = next((_SHAPES[kind] for kind in type(error).__mro__ if kind in _SHAPES), _Shape(_SERVER, None))
    status = status_of(error) if shape.status is None else shape.status
    text = FAILURE if status == 500 else build_problem(error, "")["detail"]
    argument = getattr(error, "argument", None)
    param = argument if isinstance(argument, str) else None
    return ApiError(status, text, kind=shape.type, param=param, code=shape.code, headers=_retry_headers(error))


def _retry_headers(error: HoldfastError) -> dict[str, str]:
    if isinstance(error, errors.TurnBusy):
        return {"Retry-After": str(max(1, -(-error.until_us // 1_000_000) - int(time.time())))}
    if isinstance(error, errors.Contended):
        return {"Retry-After": str(RETRY_AFTER_S)}
    return headers_of(error)


def shape_error(error: Exception, text: str) -> dict[str, object]:
    """The envelope for an error that was found before any route of /v1: `text` if it is none of Holdfast."""
    if isinstance(error, HoldfastError):
        return read_error(error).body
    return {"message": text, "type": _INVALID, "param": None, "code": None}


def build_error(error: Exception, request_id: str = "") -> Response:
    """The answer to a request that failed."""
    return find_error(error, request_id).respond()


def find_error(error: Exception, request_id: str = "") -> ApiError:
    """Any error as a client of OpenAI reads it. What the server could not help is logged, without contents."""
    if isinstance(error, ApiError):
        return error
    shown = read_error(error) if isinstance(error, HoldfastError) else ApiError(500, FAILURE, kind=_SERVER)
    if shown.status >= 500:
        log_failure(error, request_id)
    return shown
