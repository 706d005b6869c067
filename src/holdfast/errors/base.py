"""The base of all errors. Its message is the docstring of its class, with its data filled in."""

from __future__ import annotations

from typing import Any

VALUE_CHARS = 120
"""The most characters of a value that a message shows."""
REASON_CHARS = 600
"""The most characters of a reason: Holdfast writes it, from text and shortened values."""
INT_BITS = 128


class HoldfastError(Exception):
    """Holdfast could not do what was asked."""

    def __init_subclass__(cls) -> None:
        cls.__module__ = "holdfast.errors"  # where programs find it

    def __init__(self, **data: object) -> None:
        plain = {name: _to_plain(value) for name, value in data.items()}
        self.__dict__.update(plain)
        template = self._write_template()
        shown = {
            name: _shorten(value, REASON_CHARS if name == "reason" else VALUE_CHARS) for name, value in plain.items()
        }
        super().__init__(template.format(**shown))

    def _write_template(self) -> str:
        """The message, with the names of the data in braces."""
        return " ".join((type(self).__doc__ or "").split())

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_error, (type(self), dict(self.__dict__))


def _rebuild_error(cls: type[HoldfastError], data: dict[str, object]) -> HoldfastError:
    return cls(**data)


def describe_value(value: object) -> str:
    """Describe any value in a few words. A value that is not plain is named by its type: its own code is not called."""
    kind = type(value)
    if kind is str:
        return repr(_shorten(value))
    if kind is int and value.bit_length() > INT_BITS:  # type: ignore[attr-defined]
        return f"an int of {value.bit_length()} bits"  # type: ignore[attr-defined]
    if value is None or kind in (int, float, bool):
        return repr(value)
    return f"a value of type {_shorten(kind.__name__)}"


def _to_plain(value: object) -> object:
    """Errors are printed, stored and sent to other processes, so they have plain data only."""
    kind = type(value)
    if value is None or kind in (str, float, bool) or kind.__module__ == "holdfast.model.names":
        return value
    if (kind.__module__, kind.__name__) == ("holdfast.model.content", "Usage"):
        return value
    if kind is int and value.bit_length() <= INT_BITS:  # type: ignore[attr-defined]
        return value
    return describe_value(value)


def _shorten(value: object, chars: int = VALUE_CHARS) -> object:
    """Cut a text, and make it printable: messages may quote hostile text."""
    if type(value) is not str:
        return value
    printable = value[: chars + 1].encode("utf-8", "backslashreplace").decode("utf-8")
    return printable if len(printable) <= chars else printable[:chars] + "…"


HoldfastError.__module__ = "holdfast.errors"
