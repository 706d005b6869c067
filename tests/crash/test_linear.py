"""The judge is judged: planted bugs are found, correct histories pass, and a search through all orders says the same."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.crash.linear import Append, Kind, Operation, Read, Stored, Violation, violations
from tests.support import figure

SEEDS = st.integers(0, 2**32 - 1)


class History(NamedTuple):
    operations: list[Operation]
    streams: dict[int, list[Stored]]
    feed: list[Stored]

    def judged(self) -> list[Violation]:
        return violations(self.operations, self.streams, self.feed)


# A store that is right: every operation happens at one moment between its beginning and its end


class Simulator:
    def __init__(self, rng: Random, clients: int, streams: int, *, shared_keys: bool) -> None:
        self.rng = rng
        self.history = History([], {stream: [] for stream in range(streams)}, [])
        self._shared_keys = shared_keys
        self._now = 0
        self._free = [0] * clients
        self._values = itertools.count(1)
        self._keyed: list[Append] = []
        self._holders: dict[int, Stored] = {}

    def run(self, count: int) -> History:
        for _ in range(count):
            self._now = max(self._now + self.rng.randint(0, 3), min(self._free))
            client = self.rng.choice([each for each, free in enumerate(self._free) if free <= self._now])
            began = self.rng.randint(self._free[client], self._now)
            ended = self._now + self.rng.choice((0, self.rng.randint(0, 3), self.rng.randint(0, 30)))
            stream = self.rng.choice(list(self.history.streams))
            self._free[client] = ended + 1
            if self.rng.random() < 0.4:
                self.history.operations.append(self._read(client, stream, began, ended))
            else:
                self.history.operations.append(self._append(client, stream, began, ended))
        return self.history

    def _read(self, client: int, stream: int, began: int, ended: int) -> Read:
        there = self.history.streams[stream]
        after = self.rng.randint(0, len(there))
        version = self.rng.choice((len(there), self.rng.randint(after, len(there))))
        values = tuple(each.value for each in there[after:version])
        return Read(client, stream, began, ended, after, version, values, exact=version == len(there))

    def _append(self, client: int, stream: int, began: int, ended: int) -> Append:
        append = self._draw(client, stream, began)
        answer = self._effect(append) if self.rng.random() > 0.1 else append  # it may never arrive
        if self.rng.random() < 0.15:  # killed: perhaps even before it arrived
            self._free[client] = self.rng.randint(began, self._now) + 1
            return append
        return answer if answer is not append else replace(self._effect(append), ended=ended)

    def _draw(self, client: int, stream: int, began: int) -> Append:
        expect = self.rng.choice((None, None, len(self.history.streams[stream]), self.rng.randint(0, 5)))
        chance = self.rng.random()
        if self._keyed and chance < 0.25:
            again = self.rng.choice(self._keyed)
            return replace(again, client=client, began=began, expect=expect)
        value = next(self._values)
        key = 1_000 + value if chance < 0.6 else None
        if self._keyed and chance > 0.9:
            other = self.rng.choice(self._keyed)
            key, stream = other.key, stream if self._shared_keys else other.stream
        append = Append(client, stream, value, key, expect, began)
        if key is not None:
            self._keyed.append(append)
        return append

    def _effect(self, append: Append) -> Append:
        answer, seq = verdict(append, len(self.history.streams[append.stream]), self._holders.get(append.key or 0))
        if answer == "stored" and seq > len(self.history.streams[append.stream]):
            stored = Stored(append.stream, seq, append.value, append.key)
            self.history.streams[append.stream].append(stored)
            self.history.feed.append(stored)
            if append.key is not None:
                self._holders[append.key] = stored
        return replace(append, answer=answer, seq=seq)
