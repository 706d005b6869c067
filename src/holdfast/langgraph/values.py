"""Values of channels as JSON: each message of a list is a text of its own, so that checkpoints share it.

A value is a text, or one of these: `{"list": […]}` with a text for each element, `{"items": […]}` with a pair for each key,
`{"snapshot": …}` for a snapshot of a DeltaChannel. A text is the type that the serializer names, one separator, and its
bytes. Elements of lists are compressed together with their neighbours, when they are stored, unless they are large.

Laws: load(dump(value)) is what the serializer gives back for the value. An element that did not change gives the same
text, in any process, also with a serializer that encrypts. A value that is loaded shares nothing that can change with
another one.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from operator import is_
from typing import Any, Generic, NamedTuple, TypeVar

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from pydantic import BaseModel

from holdfast.errors import StorageCorrupt
from holdfast.langgraph.deflation import pack_bytes, unpack_bytes

T = TypeVar("T")

_NUMBERS = (int, float, bool, type(None))
_ELEMENTS = 100_000
"""A longer list is one text."""
_SPLIT_CHARS = 2_048
"""A dict with a longer text is stored item by item."""
_MEMORY_CHARS = 32 << 20
_OWN_MESSAGES = "langchain_core.messages."
_NEW: Any = object.__new__
_SET_DICT, _SET_NAMES, _SET_EXTRA, _SET_PRIVATE = (
    vars(BaseModel)[name].__set__
    for name in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)


class _BoundedMemory(Generic[T]):
    """Values by key, with a size; those that were not used for longest are forgotten. Threads can share it."""

    def __init__(self, limit: int) -> None:
        self._values: OrderedDict[Any, tuple[T, int]] = OrderedDict()
        self._limit = limit
        self._size = 0
        self._lock = threading.Lock()

    def get(self, key: object) -> T | None:
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[0]

    def get_all(self, keys: Sequence[object]) -> list[T | None]:
        """The values of these keys. They do not count as used."""
        with self._lock:
            found = [self._values.get(key) for key in keys]
        return [None if each is None else each[0] for each in found]

    def add(self, key: object, value: T, size: int) -> None:
        with self._lock:
            if key not in self._values:
                self._values[key] = (value, size)
                self._size += size
            while self._size > self._limit:
                self._size -= self._values.popitem(last=False)[1][1]


class MessageTemplate(NamedTuple):
    """A message of LangChain that has nothing but texts, and can be built again without its serialized form."""

    kind: type[BaseMessage]
    state: dict[str, Any]
    names: set[str]
    """Its fields."""
    empty: tuple[tuple[str, type], ...]
    """Those with an empty list or dict."""


def build_messages(templates: Iterable[MessageTemplate | None]) -> list[Any]:
    """A new message of each template; None for none. A conversation has many: they are built in one loop."""
    new, set_dict, set_names, set_extra, set_private = _NEW, _SET_DICT, _SET_NAMES, _SET_EXTRA, _SET_PRIVATE
    messages: list[Any] = []
    for template in templates:
        if template is None:
            messages.append(None)
            continue
        kind, state, names, empty = template
        message = new(kind)
        fields = state.copy()
        for name, container in empty:
            fields[name] = container()
        set_dict(message, fields)
        set_names(message, names.copy())
        set_extra(message, {})
        set_private(message, None)
        messages.append(message)
    return messages


def read_template(value: object) -> MessageTemplate | None:
    """The template of a message; None if it has more than texts, or is no message."""
    if not isinstance(value, BaseMessage) or value.__pydantic_extra__ or value.__pydantic_private__:
        return None
    if not type(value).__module__.startswith(_OWN_MESSAGES):
        return None
    state = value.__dict__.copy()
    empty: list[tuple[str, type]] = []
    for name, field in value.__dict__.items():
        kind = type(field)
        if kind is dict or kind is list:
            if field:
                return None
            state[name] = kind()
            empty.append((name, kind))
        elif field is not None and kind is not str:
            return None
    return MessageTemplate(type(value), state, {*state}, tuple(empty))


class ValueMemory:
    """What was dumped or loaded: what did not change is not serialized, and not parsed, again."""

    def __init__(self, limit: int = _MEMORY_CHARS) -> None:
        self.texts: _BoundedMemory[str] = _BoundedMemory(limit)
        """Encrypted texts, by a digest of the serialized form before it was encrypted."""
        self.templates: _BoundedMemory[MessageTemplate] = _BoundedMemory(limit)
        """Messages, by their texts."""


class KnownList(NamedTuple):
    """A list as it was dumped or loaded last: elements that are in the next one unchanged have the same texts."""

    elements: Sequence[object] = ()
    states: list[dict[str, Any] | None] = []  # noqa: RUF012 - it never changes
    """The fields of each message that has nothing but texts; None for any other element."""
    texts: Sequence[str] = ()


def is_shared_list(value: object) -> bool:
    """Whether each element of a value is a text of its own."""
    return type(value) is list and 0 < len(value) <= _ELEMENTS and type(value[0]) not in _NUMBERS


def open_snapshot(value: object) -> Any:
    """The value in a snapshot of a DeltaChannel; None if it is none."""
    return value.value if isinstance(value, _DeltaSnapshot) else None


class ValueCodec:
    """Dumps and loads values of channels with a serializer of LangGraph."""

    def __init__(self, serde: SerializerProtocol, memory: ValueMemory) -> None:
        self._serde = serde
        self._plain = serde.serde if isinstance(serde, EncryptedSerializer) else None
        """What serializes before a serializer encrypts: it gives the same bytes for the same value."""
        self._memory = memory

    def dump(self, value: Any) -> Any:
        """The value as JSON."""
        if isinstance(value, _DeltaSnapshot):
            return {"snapshot": self.dump(value.value)}
        if is_shared_list(value):
            return {"list": [self.dump_text(element, is_element=True) for element in value]}
        if type(value) is dict and value and all(type(name) is str and _is_unicode(name) for name in value):
            return self._dump_dict(value)
        return self.dump_text(value)

    def _dump_dict(self, value: dict[str, Any]) -> Any:
        if not any(type(item) is list for item in value.values()):
            text = self.dump_text(value)
            if len(text) <= _SPLIT_CHARS or len(value) == 1:
                return text
        return {"items": [[name, self.dump(item)] for name, item in value.items()]}

    def dump_list(self, value: Sequence[Any], last: KnownList) -> KnownList:
        """The texts of the elements of a list. An element that is in the last list, and did not change since, has the
        same text."""
        shared = min(len(value), len(last.elements))
        if not all(map(is_, value, last.elements)):
            shared = next(at for at in range(shared) if value[at] is not last.elements[at])
        known = last.states[:shared]
        states: list[dict[str, Any] | None] = []
        texts: list[str] = []
        same = value[:shared]
        if (
            None not in known
            and [each.__dict__ for each in same] == known
            and not any([each.__pydantic_extra__ for each in same])  # noqa: C419 - it is faster
        ):
            states += known
            texts += last.texts[:shared]
        for at in range(len(states), len(value)):
            element = value[at]
            state = known[at] if at < shared else None
            if state is not None and element.__dict__ == state and not element.__pydantic_extra__:
                states.append(state)
                texts.append(last.texts[at])
                continue
            template = read_template(element)
            states.append(None if template is None else template.state)
            texts.append(self._dump_element(element, template))
        return KnownList(list(value), states, texts)

    def _dump_element(self, element: Any, template: MessageTemplate | None) -> str:
        text = self.dump_text(element, is_element=True)
        if template is not None:
            self._memory.templates.add(text, template, len(text))
        return text

    def load_list(self, texts: Sequence[str]) -> KnownList:
        """The elements of a list, by their texts."""
        templates = self._memory.templates.get_all(texts)
        elements = build_messages(templates)
        for at, template in enumerate(templates):
            if template is None:
                elements[at] = element = self.load_text(texts[at])
                templates[at] = made = read_template(element)
                if made is not None:
                    self._memory.templates.add(texts[at], made, len(texts[at]))
        return KnownList(elements, [None if each is None else each.state for each in templates], texts)

    def pack(self, value: Any, *, is_element: bool = False) -> str:
        """The value as one text that is not remembered."""
        return pack_bytes(*self._serde.dumps_typed(value), is_element=is_element and self._plain is None)

    def dump_text(self, value: Any, *, is_element: bool = False) -> str:
        """The value as one text. An equal value has the same text, also if a serializer encrypts."""
        if self._plain is None:
            return self.pack(value, is_element=is_element)
        mark = _digest_bytes(*self._plain.dumps_typed(value))
        text = self._memory.texts.get(mark)
        if text is None:
            text = self.pack(value)
            self._memory.texts.add(mark, text, len(text))
        return text

    def load(self, dumped: Any) -> Any:
        """The value of such JSON."""
        match dumped:
            case str():
                return self.load_text(dumped)
            case {"list": list() as texts}:
                return [*self.load_list(texts).elements]
            case {"items": list() as items}:
                return {name: self.load(item) for name, item in items}
            case {"snapshot": value}:
                return _DeltaSnapshot(self.load(value))
        raise StorageCorrupt(what="a checkpoint of LangGraph", reason="a value has an unknown form")

    def load_text(self, text: str) -> Any:
        """The value of one text."""
        value = self._serde.loads_typed(unpack_bytes(text))
        if self._plain is not None:
            self._memory.texts.add(_digest_bytes(*self._plain.dumps_typed(value)), text, len(text))
        return value


def _digest_bytes(kind: str, data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16, key=kind.encode()[:64]).digest()


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
