"""Errors in the envelope of OpenAI: {"error": {"message", "type", "param", "code"}}.

Laws: every HoldfastError has a status that fits it, and its message says what to do. An error of the upstream keeps its own
status, if that is one of a client; else it is 502 or 504. Whatever else goes wrong is 500, and says nothing of its cause.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from starlette.responses import JSONResponse, Response

from holdfast import errors
from holdfast.errors import HoldfastError

log = logging.getLogger("holdfast.server.v1")

RETRY_S = 1
"""When a busy store or conversation is worth another try."""


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


_STATUSES: tuple[tuple[type[HoldfastError], int, str, str | None], ...] = (
    (errors.KeyRefused, 401, "invalid_request_error", "invalid_api_key"),
    (errors.RightMissing, 403, "insufficient_permissions", "right_missing"),
    (errors.RateExceeded, 429, "requests", "rate_limit_exceeded"),
    (errors.SpendExceeded, 429, "tokens", "rate_limit_exceeded"),
    (errors.AccessRefused, 403, "insufficient_permissions", None),
    (errors.CallNotFound, 400, "invalid_request_error", "call_not_found"),
    (errors.TooLarge, 413, "invalid_request_error", "too_large"),
    (errors.WindowTooSmall, 400, "invalid_request_error", "context_length_exceeded"),
    (errors.BudgetTooSmall, 400, "invalid_request_error", "context_length_exceeded"),
    (errors.CriticalOverflow, 400, "invalid_request_error", "context_length_exceeded"),
    (errors.InvalidInput, 400, "invalid_request_error", "invalid_value"),
    (errors.NotFound, 404, "invalid_request_error", "not_found"),
    (errors.CallsOpen, 400, "invalid_request_error", "calls_open"),
    (errors.CallAnswered, 400, "invalid_request_error", "call_answered"),
    (errors.TurnBusy, 409, "conflict_error", "conversation_busy"),
    (errors.KeyConflict, 409, "conflict_error", "idempotency_key_reused"),
    (errors.EntryConflict, 409, "conflict_error", "idempotency_key_reused"),
    (errors.Conflict, 409, "conflict_error", "conflict"),
    (errors.StorageBusy, 503, "server_error", "storage_busy"),
    (errors.StorageFull, 507, "server_error", "storage_full"),
    (errors.StorageError, 503, "server_error", "storage_unavailable"),
    (errors.ModelTimeout, 504, "server_error", "upstream_timeout"),
    (errors.ModelFailed, 502, "server_error", "upstream_error"),
)
"""The status, the type and the code of each error; the first that fits counts."""


def read_error(error: HoldfastError) -> ApiError:
    """An error of Holdfast as a client of OpenAI reads it."""
    for kind, status, label, code in _STATUSES:
        if isinstance(error, kind):
            return ApiError(
                status,
                str(error),
                kind=label,
                param=_param_of(error),
                code=code,
                headers=_retry_headers(error),
            )
    log.error("an error without a status: %s", error, exc_info=error)
    return ApiError(500, "The server could not do what was asked. Its log says more.", kind="server_error")


def _param_of(error: HoldfastError) -> str | None:
    argument = getattr(error, "argument", None)
    return argument if isinstance(argument, str) else None


def _retry_headers(error: HoldfastError) -> dict[str, str]:
    if isinstance(error, errors.RateExceeded | errors.SpendExceeded):
        return {"Retry-After": str(max(1, error.retry_s))}
    if isinstance(error, errors.TurnBusy):
        return {"Retry-After": str(max(1, -(-error.until_us // 1_000_000) - int(time.time())))}
    if isinstance(error, errors.StorageBusy | errors.StorageUnavailable | errors.Contended):
        return {"Retry-After": str(RETRY_S)}
    return {}


def build_error(error: Exception) -> Response:
    """The answer to a request that failed."""
    return find_error(error).respond()


def find_error(error: Exception) -> ApiError:
    """Any error as a client of OpenAI reads it."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, HoldfastError):
        return read_error(error)
    log.error("a request failed", exc_info=error)
    return ApiError(500, "The server could not do what was asked. Its log says more.", kind="server_error")
