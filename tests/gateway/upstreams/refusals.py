"""Errors of providers: their status, their shape, and small checks that raise them."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """A request that a provider refuses."""

    def __init__(
        self,
        message: str,
        *,
        status: int = 400,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message, self.status, self.kind, self.param, self.code = message, status, kind, param, code

    def shape(self, dialect: str, request_id: str) -> dict[str, Any]:
        """The body of the answer."""
        if dialect == "anthropic":
            error = {"type": self.kind, "message": self.message}
            return {"type": "error", "error": error, "request_id": request_id}
        return {"error": {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}}


def require(holds: object, message: str, param: str | None = None) -> None:
    if not holds:
        raise Refusal(message, param=param)


def require_fields(value: object, where: str, known: frozenset[str], needed: frozenset[str]) -> dict[str, Any]:
    """The object, if it has no other fields than these."""
    if not isinstance(value, dict):
        raise Refusal(f"{where}: Input should be a valid dictionary")
    for name in value:
        require(name in known, f"{where}.{name}: Extra inputs are not permitted")
    for name in sorted(needed):
        require(value.get(name) is not None, f"{where}.{name}: Field required")
    return value
