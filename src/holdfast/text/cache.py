"""A cache of results by text."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class TextCache(Generic[T]):
    """Results by text, up to a number of bytes. A full cache is emptied."""

    def __init__(self, capacity: int) -> None:
        self._capacity = self._free = capacity
        self._values: dict[str, T] = {}

    def limit(self, capacity: int) -> None:
        """Keep no more than so many bytes from now on."""
        self._values.clear()
        self._capacity = self._free = capacity

    def get(self, text: str) -> T | None:
        return self._values.get(text)

    def put(self, text: str, value: T, weight: int) -> None:
        self._free -= len(text) + weight
        if self._free < 0:
            self._values.clear()
            self._free = self._capacity - len(text) - weight
        if self._free >= 0:
            self._values[text] = value
