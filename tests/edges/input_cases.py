"""What an entrance is: how to hand a value in, which values fit, and what must come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from holdfast.conversion import to_json
from holdfast.errors import InvalidInput


def identity(value: Any) -> Any:
    return value


def _prepare_nothing(_: Any, __: int) -> None:
    pass


class InputCase(NamedTuple):
    """`use` hands a value in (the number keeps names apart) and returns what came back, which has to be `expected` of the
    value. `fits` says which values may be accepted at all, `also` which other errors are right for those."""

    use: Callable[[Any, Any, int], object]
    fits: Callable[[Any], bool]
    expected: Callable[[Any], object] = identity
    also: tuple[type[BaseException], ...] = ()
    prepare: Callable[[Any, int], object] = _prepare_nothing


def is_text(value: object) -> bool:
    return type(value) is str


def is_text_part(value: object) -> bool:
    """A part of a message as a dict."""
    return type(value) is dict and value.keys() == {"type", "text"} and value["type"] == "text"


def part_text(value: Any) -> object:
    return value["text"] if is_text_part(value) else value


def is_int(value: object) -> bool:
    return type(value) is int


def is_series(value: object) -> bool:
    """In an order that its maker chose: neither a mapping nor a set."""
    return isinstance(value, list | tuple | Iterator) or type(value).__name__ == "deque"


def is_json(value: object) -> bool:
    return value is None or type(value) in (str, int, float, bool, list, dict)


def is_json_object(value: object) -> bool:
    return value is None or isinstance(value, Mapping)


def is_convertible(value: object) -> bool:
    """Whether a program may give this where it gives a JSON value."""
    try:
        to_json("the value", value)
    except InvalidInput:
        return False
    return True


def as_json(value: object) -> Any:
    return to_json("the value", value)


class SingleKeyMapping(dict[Any, Any]):
    """A mapping of one key, which may be one that cannot be hashed."""

    def __init__(self, key: object) -> None:
        self._key = key

    def items(self) -> Any:
        return [(self._key, 1)]

    def __len__(self) -> int:
        return 1


def is_key(value: object) -> bool:
    return is_convertible(SingleKeyMapping(value))


def as_key(value: object) -> object:
    found: Any = as_json(SingleKeyMapping(value))
    return next(iter(found))


def is_convertible_object(value: object) -> bool:
    return value is None or (is_convertible(value) and type(as_json(value)) is dict)


def as_json_object(value: object) -> object:
    return {} if value is None else as_json(value)


def is_tool_return(value: object) -> bool:
    """Whether a tool may return this."""
    return is_body(value) or is_convertible(value)


def expected_return(value: Any) -> object:
    """What comes back of a value that a tool returned: of bytes, files and pieces of text, the bytes."""
    if isinstance(value, bytes | bytearray | memoryview):
        return join_bytes(value)
    if not hasattr(type(value), "__next__"):
        return as_json(value)
    items = list(value)
    if all(type(item) is str for item in items):
        return "".join(items).encode()
    return as_json(items) if is_convertible(items) and not is_body(items[0]) else join_bytes(items)


def is_body(value: object) -> bool:
    return isinstance(value, bytes | bytearray | memoryview) or is_series(value) or hasattr(value, "read")


def is_number(value: object) -> bool:
    return type(value) in (int, float) and -1e300 < value < 1e300  # type: ignore[operator]


def accept_nothing(_: object) -> bool:
    return False


def is_bool(value: object) -> bool:
    return type(value) is bool


def or_none(fits: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or fits(value)


def query_only(ask: Callable[[Any, Any], object]) -> Callable[[Any, Any, int], object]:
    """A question that keeps nothing: if it is answered at all, the value was fine."""

    def use(engine: Any, value: Any, _: int) -> object:
        ask(engine, value)
        return value

    return use


def join_bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else b"".join(map(bytes, value))
