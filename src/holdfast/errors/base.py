"""What all errors have in common, and the families that go across."""

from __future__ import annotations

from typing import Any

SHOWN_CHARS = 120
INT_BITS = 128


class HoldfastError(Exception):
    """Holdfast could not do what was asked."""

    def __init__(self, **data: object) -> None:
        plain = {name: _plain(value) for name, value in data.items()}
        self.__dict__.update(plain)
        template = " ".join((type(self).__doc__ or "").split())
        super().__init__(template.format(**{name: _cut(value) for name, value in plain.items()}))

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), dict(self.__dict__))


def _rebuild(cls: type[HoldfastError], data: dict[str, object]) -> HoldfastError:
    return cls(**data)


def shown(value: object) -> str:
    """A few words for any value. What is not plain is named by its type: looking closer may fail, or never end."""
    kind = type(value)
    if kind is str:
        return repr(_cut(value))
    if kind is int and value.bit_length() > INT_BITS:  # type: ignore[attr-defined]
        return f"an int of {value.bit_length()} bits"  # type: ignore[attr-defined]
    if value is None or kind in (int, float, bool):
        return repr(value)
    return f"a value of type {_cut(kind.__name__)}"


def _plain(value: object) -> object:
    """Errors are printed, kept and sent to other processes, so they hold on to nothing but plain data."""
    kind = type(value)
    if value is None or kind in (str, float, bool) or kind.__module__ == "holdfast.model.names":
        return value
    if kind is int and value.bit_length() <= INT_BITS:  # type: ignore[attr-defined]
        return value
    return shown(value)


def _cut(value: object) -> object:
    """Hostile text ends up in messages: it is cut, and always printable."""
    if type(value) is not str:
        return value
    short = value if len(value) <= SHOWN_CHARS else value[:SHOWN_CHARS] + "…"
    return short.encode("utf-8", "backslashreplace").decode("utf-8")


class InvalidInput(HoldfastError, ValueError):
    """The input cannot be accepted."""


class NotFound(HoldfastError, LookupError):
    """There is no such thing."""


class Conflict(HoldfastError):
    """The command is at odds with the stored state."""
