"""JSON in which what is repeated stands once: a table of parts, and values that refer to them.

Laws: `read_shared` gives back what `Pool` was given, whatever names and texts are in it. A part refers to earlier parts
only, so that reading ends. Nothing is lost and nothing is guessed: a part is shared if it is equal, or if it continues
another one: the history of a call is that of the call before, and a little more.

    {"$ref": 3}                                  part 3
    {"$join": [{"$part": [3, 0, 40]}, [..]]}     the first 40 items of part 3 (or UTF-16 units, of a text), then others
    {"$real": {..}}                              an object that has one of these names itself
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

LEAST_BYTES = 40
"""A smaller part is repeated: to refer to it would not be shorter."""
LEAST_TEXT = 1_000
"""Texts of so many characters are compared with others that begin alike."""
LEAST_ITEMS = 8
"""Lists of so many items are compared with others that begin alike."""
HEAD_CHARS = 64
MARKS = frozenset({"$ref", "$join", "$real"})


class Pool:
    """Values whose equal parts are the same object in memory."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}
        self._items: dict[bytes, Any] = {}
        self._sizes: dict[int, int] = {}
        self._seen: dict[int, Any] = {}
        self.size = 0
        """The bytes of all parts, each counted once; about what a file of them has."""

    def share(self, value: Any) -> Any:
        """An equal value whose parts are those of the pool. Do not change it."""
        if isinstance(value, str):
            return self._keep(value, value, len(value) + 2) if len(value) >= LEAST_BYTES else value
        if not isinstance(value, dict | list):
            return value
        if id(value) in self._seen:
            return value
        is_dict = isinstance(value, dict)
        key: list[Any] = ["{" if is_dict else "["]
        parts: list[Any] = []
        mark: Any
        size = 2
        for each in value.values() if isinstance(value, dict) else value:
            kind = type(each)
            if kind is dict and not is_dict:
                part = self._share_item(each)
                mark, more = id(part), self._sizes[id(part)]
            elif kind is str and len(each) < LEAST_BYTES:
                part, mark, more = each, each, len(each) + 2
            elif kind is str or kind is dict or kind is list:
                part = self.share(each)
                mark, more = (part if kind is str else id(part)), self._sizes[id(part)]
            else:  # 1, 1.0 and true are equal, and not the same
                part, mark, more = each, (kind, repr(each)), 8
            parts.append(part)
            key.append(mark)
            size += more + 1
        if is_dict:
            return self._keep((*key, *value), dict(zip(value, parts, strict=True)), size + sum(map(len, value)))
        return self._keep(tuple(key), parts, size)

    def _share_item(self, item: dict[str, Any]) -> Any:
        """Share an object of a list. Each call shows nearly the messages of the call before: a message that is known is
        found by its JSON, without a look at its parts."""
        if id(item) in self._seen:
            return item
        try:
            text = msgspec.json.encode(item)
        except (TypeError, ValueError, RecursionError):  # half of a surrogate pair, for example
            return self.share(item)
        known = self._items.get(text)
        if known is None:
            known = self._items[text] = self.share(item)
        return known

    def measure(self, value: Any) -> int:
        """About how many bytes a value of this pool has as JSON."""
        if isinstance(value, dict | list):
            return self._sizes[id(value)]
        return len(value) + 2 if isinstance(value, str) else 8

    def _keep(self, key: Any, value: Any, size: int) -> Any:
        known = self._known.setdefault(key, value)
        if known is value and id(value) not in self._seen:
            self._seen[id(value)] = value
            self._sizes[id(value)] = size
            inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
            self.size += size - sum(self.measure(each) for each in inner if id(each) in self._seen)
        return known


def _identify(value: Any) -> Any:
    """What is the same for equal parts of a pool, and different for others: 1, 1.0 and true are others."""
    if isinstance(value, str):
        return value
    return id(value) if isinstance(value, dict | list) else (type(value).__name__, repr(value))


class Sharing:
    """Writes values of a pool as a table and values that refer to it. Add all values first."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._uses: dict[int, int] = {}
        self._heads: dict[Any, Any] = {}
        self._bases: dict[int, tuple[Any, int, int]] = {}
        self._places: dict[int, int] = {}
        self.table: list[Any] = []

    def add(self, value: Any) -> None:
        """Count the parts of a value."""
        if not _is_part(value):
            return
        count = self._uses[id(value)] = self._uses.get(id(value), 0) + 1
        if count > 1:
            return
        for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            self.add(each)
        self._find_base(value)

    def _find_base(self, value: Any) -> None:
        """Remember the part that this one continues: the last one that begins like it."""
        if isinstance(value, dict) or len(value) < (LEAST_TEXT if isinstance(value, str) else LEAST_ITEMS):
            return
        head = value[:HEAD_CHARS] if isinstance(value, str) else ("[", _identify(value[0]))
        base = self._heads.get(head)
        self._heads[head] = value
        if base is None:
            return
        front = count_common(base, value)
        back = min(count_common(base[front:][::-1], value[front:][::-1]), len(base) - front)
        saved = front + back if isinstance(value, str) else 14 * (front + back)
        if saved > LEAST_BYTES:
            self._bases[id(value)] = (base, front, back)
            self._uses[id(base)] += 1

    def write(self, value: Any) -> Any:
        """A value that refers to the table. What it refers to is in the table then."""
        if not _is_part(value):
            return value
        place = self._places.get(id(value))
        if place is not None:
            return {"$ref": place}
        written = self._write_part(value)
        if self._uses[id(value)] < 2 or self._pool.measure(value) < LEAST_BYTES:
            return written
        self.table.append(written)
        self._places[id(value)] = len(self.table) - 1
        return {"$ref": len(self.table) - 1}

    def _write_part(self, value: Any) -> Any:
        if isinstance(value, dict):
            fields = {name: self.write(each) for name, each in value.items()}
            return fields if MARKS.isdisjoint(fields) else {"$real": fields}
        if id(value) in self._bases:
            joined = self._join(value)
            if joined is not None:
                return joined
        return value if isinstance(value, str) else [self.write(each) for each in value]

    def _join(self, value: Any) -> Any:
        """A text or a list as parts of its base, and what is between them."""
        base, front, back = self._bases[id(value)]
        place = self.write(base)
        if not isinstance(place, dict) or place.keys() != {"$ref"}:
            return None
        middle = value[front : len(value) - back]
        parts: list[Any] = [{"$part": [place["$ref"], 0, _units(base, front)]}] if front else []
        parts += [middle if isinstance(value, str) else [self.write(each) for each in middle]] if middle else []
        if back:
            parts.append({"$part": [place["$ref"], _units(base, len(base) - back), _units(base, len(base))]})
        return {"$join": parts}


def _is_part(value: Any) -> bool:
    return isinstance(value, dict | list) or (isinstance(value, str) and len(value) >= LEAST_BYTES)


def _units(value: Any, length: int) -> int:
    """How long the beginning of a text or a list is, as a page counts it: a text in UTF-16."""
    return len(value[:length].encode("utf-16-le")) // 2 if isinstance(value, str) else length


def count_common(one: Sequence[Any], other: Sequence[Any]) -> int:
    """How many characters or items two texts or lists of one pool share at the front."""
    if isinstance(one, list):
        pairs = zip(one, other, strict=False)
        return next((at for at, (a, b) in enumerate(pairs) if _identify(a) != _identify(b)), min(len(one), len(other)))
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


# Reading


def read_shared(table: Sequence[Any], answers: Mapping[str, Any]) -> dict[str, Any]:
    """The values that were written, by their names."""
    parts: list[Any] = []
    for each in table:
        parts.append(_read(each, parts))
    return {name: _read(each, parts) for name, each in answers.items()}


def _read(value: Any, parts: list[Any]) -> Any:
    if isinstance(value, list):
        return [_read(each, parts) for each in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return parts[value["$ref"]]
    if "$join" in value:
        pieces = list(_read_pieces(value["$join"], parts))
        return "".join(pieces) if isinstance(pieces[0], str) else [each for piece in pieces for each in piece]
    fields = value.get("$real", value)
    return {name: _read(each, parts) for name, each in fields.items()}


def _read_pieces(pieces: Sequence[Any], parts: list[Any]) -> Iterator[Any]:
    for piece in pieces:
        if isinstance(piece, dict):
            place, start, stop = piece["$part"]
            base = parts[place]
            if isinstance(base, str):
                yield base.encode("utf-16-le")[2 * start : 2 * stop].decode("utf-16-le")
            else:
                yield base[start:stop]
        else:
            yield piece if isinstance(piece, str) else [_read(each, parts) for each in piece]
