"""Whether a history of concurrent appends and reads is linearizable, stream by stream. Pure; no search, one pass.

A stream is a list that only grows, and at the end all of it can be read. So the order of its appends is known, and what is
left to find out is whether it agrees with every answer and with the clock. Let T(n) be the moment element n landed. Then

    T(1) ≤ T(2) ≤ T(3) …
    an append that became element n       began ≤ T(n) ≤ ended
    a read that saw the list end at n     T(n) ≤ ended and began ≤ T(n + 1)
    a refusal, told that it ends at n     the same

and nothing else binds these moments. Each bound is on one of them alone, so they exist exactly if no lower bound of an
element lies above an upper bound of that element or a later one: a running maximum finds out. Operations that touch in one
nanosecond count as concurrent.

What is tried is a value, which belongs to one command and is never used for another. A command with a key may be tried any
number of times, one after the other or at once, and lands at most once; one without a key is tried once. An append that
was never answered may have landed at any time since it began, or not at all.

Each stream is judged by itself. Where one key is used in two streams, what one tells of the other is judged by the other's
moments, not by both together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

Answer: TypeAlias = Literal["stored", "conflict", "key conflict", "unknown"]


Kind: TypeAlias = Literal[
    "lost",  # acknowledged, and not there
    "misplaced",  # acknowledged at another place
    "doubled",  # there twice
    "ghost",  # there, and nobody tried
    "mixed up",  # in another stream than it was sent to
    "refused but stored",
    "wrong version",  # landed elsewhere than right behind the version it was to follow
    "wrong key",  # stored under another key than it was sent with
    "key twice",  # two commands stored under one key
    "false conflict",  # refused for a reason that did not hold
    "gap",  # a stream whose elements do not count 1, 2, 3…
    "not a prefix",  # a read of something else than the list
    "not there yet",  # an answer about an element that the list does not have
    "real time",  # an order that contradicts the clock
    "feed",  # the feed and a stream disagree
]


class Append(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="append"):
    """One try to append. `seq` is the element's place if it was stored, and the version it was told of a conflict."""

    client: int
    stream: int
    value: int
    key: int | None
    expect: int | None
    began: int
    ended: int | None = None
    answer: Answer = "unknown"
    seq: int = 0

    def __str__(self) -> str:
        under = "" if self.key is None else f" under key {self.key}"
        behind = "" if self.expect is None else f" behind {self.expect}"
        return f"client {self.client}'s append of {self.value}{under}{behind} ({self.answer} {self.seq or ''})"


class Read(msgspec.Struct, frozen=True, gc=False, array_like=True, tag="read"):
    """A read that was answered: `values` are the elements behind `after` up to `version`. With neither, it is the version
    alone that was asked for. If it is not `exact`, there may have been more."""

    client: int
    stream: int
    began: int
    ended: int
    after: int
    version: int
    values: tuple[int, ...] = ()
    exact: bool = True

    def __str__(self) -> str:
        return f"client {self.client}'s read of {self.after + 1} to {self.version}"


Operation: TypeAlias = Append | Read


class StoredElement(msgspec.Struct, frozen=True, gc=False):
    """An element, as it was found at the end."""

    stream: int
    seq: int
    value: int
    key: int | None = None


class Violation(msgspec.Struct, frozen=True):
    kind: Kind
    stream: int
    operations: tuple[Operation, ...]
    words: str


def find_violations(
    operations: Iterable[Operation], streams: Mapping[int, Sequence[StoredElement]], feed: Iterable[StoredElement]
) -> list[Violation]:
    """What is wrong with a history, given every stream and the feed as they were at the end; empty if nothing is."""
    check = _Check(streams)
    check.content()
    for operation in operations:
        if isinstance(operation, Read):
            check.read(operation)
        else:
            check.append(operation)
    check.landings()
    check.order(feed)
    return check.found


class _Bounds:
    """What is known about each element of a stream: who may have made it, and the tightest bounds on when it landed."""

    __slots__ = ("ceiling", "floor", "maker", "stored", "tried")

    def __init__(self, stored: Sequence[StoredElement]) -> None:
        self.stored = stored
        self.tried: list[Append | None] = [None] * len(stored)
        self.maker: list[Append | None] = [None] * len(stored)
        """Of those that may have made it, the one that began first."""
        self.floor: list[Operation | None] = [None] * len(stored)
        """Of those that it came after, the one that began last."""
        self.ceiling: list[Operation | None] = [None] * len(stored)
        """Of those that told of it, the one that ended first."""

    def not_before(self, seq: int, operation: Operation) -> None:
        if seq <= len(self.floor):
            known = self.floor[seq - 1]
            if known is None or known.began < operation.began:
                self.floor[seq - 1] = operation

    def not_after(self, seq: int, operation: Operation) -> None:
        if seq:
            known = self.ceiling[seq - 1]
            if known is None or _end(operation) < _end(known):
                self.ceiling[seq - 1] = operation

    def may_be_by(self, seq: int, operation: Append) -> None:
        known = self.maker[seq - 1]
        if known is None or operation.began < known.began:
            self.maker[seq - 1] = operation

    def contradictions(self) -> Iterator[tuple[int, Operation, int, Operation]]:
        """An element, an operation before whose beginning it was not there, a later element or the same, and an operation
        at whose end that one was there: though the one ended before the other began."""
        latest: tuple[int, int, Operation] | None = None
        for seq, (maker, floor, ceiling) in enumerate(zip(self.maker, self.floor, self.ceiling, strict=True), 1):
            for operation in (maker, floor):
                if operation is not None and (latest is None or operation.began > latest[0]):
                    latest = (operation.began, seq, operation)
            if latest is not None and ceiling is not None and latest[0] > _end(ceiling):
                yield latest[1], latest[2], seq, ceiling


def _end(operation: Operation) -> int:
    assert operation.ended is not None, "who was not answered knows nothing"
    return operation.ended


class _Check:
    def __init__(self, streams: Mapping[int, Sequence[StoredElement]]) -> None:
        self.found: list[Violation] = []
        self._bounds: defaultdict[int, _Bounds] = defaultdict(lambda: _Bounds(()))
        self._bounds.update((stream, _Bounds(stored)) for stream, stored in streams.items())
        self._places: dict[int, StoredElement] = {}
        self._keys: dict[int, StoredElement] = {}

    def _say(self, kind: Kind, stream: int, words: str, *operations: Operation | None) -> None:
        involved = tuple(operation for operation in operations if operation is not None)
        self.found.append(Violation(kind, stream, involved, words))

    def content(self) -> None:
        """Each stream counts without a gap, and has no value and no key that it or another had already."""
        for stream, bounds in self._bounds.items():
            for place, each in enumerate(bounds.stored, 1):
                if each.seq != place or each.stream != stream:
                    words = f"element {place} of stream {stream} calls itself {each.seq} of {each.stream}"
                    self._say("gap", stream, words)
                    break
            for each in bounds.stored:
                first = self._places.setdefault(each.value, each)
                if first is not each:
                    self._say("doubled", stream, f"{each.value} is there twice: {first} and {each}")
                elif each.key is not None and self._keys.setdefault(each.key, each) is not each:
                    self._say("key twice", stream, f"{self._keys[each.key]} and {each} have one key")

    def read(self, read: Read) -> None:
        bounds = self._bounds[read.stream]
        if read.version > len(bounds.stored):
            words = f"{read}, but the stream ends at {len(bounds.stored)}"
            self._say("not there yet", read.stream, words, read)
            return
        there = tuple(each.value for each in bounds.stored[read.after : read.version])
        if read.values != there or len(there) != read.version - read.after:
            self._say("not a prefix", read.stream, f"{read} saw {read.values}, but there is {there}", read)
        bounds.not_after(read.version, read)
        if read.exact:
            bounds.not_before(read.version + 1, read)

    def append(self, append: Append) -> None:
        if append.answer == "conflict":
            self._conflict(append)
        elif append.answer == "key conflict":
            self._key_conflict(append)
        place = self._places.get(append.value)
        if place is None:
            if append.answer == "stored":
                self._say("lost", append.stream, f"{append} is not there", append)
        elif place.stream != append.stream:
            self._say("mixed up", append.stream, f"{append} went to stream {append.stream}: {place}", append)
        else:
            self._landed(append, place)

    def _landed(self, append: Append, place: StoredElement) -> None:
        bounds = self._bounds[place.stream]
        seq = min(place.seq, len(bounds.stored))  # a stream with a gap counts further than it is long
        bounds.tried[seq - 1] = append
        if append.key != place.key:
            self._say("wrong key", append.stream, f"{append} stands under another key: {place}", append)
        if append.answer == "stored":
            if append.seq != place.seq:
                self._say("misplaced", append.stream, f"{append} is at {place.seq}", append)
            bounds.not_after(seq, append)
        if append.answer in ("stored", "unknown") and append.expect in (None, place.seq - 1):
            bounds.may_be_by(seq, append)

    def _conflict(self, append: Append) -> None:
        """Refused for its version: the version was what it was told, and another, and its key was not in use yet."""
        bounds = self._bounds[append.stream]
        if append.seq == append.expect:
            self._say("false conflict", append.stream, f"{append} was refused at the version it expected", append)
        if append.seq > len(bounds.stored):
            words = f"{append}, but the stream ends at {len(bounds.stored)}"
            self._say("not there yet", append.stream, words, append)
            return
        bounds.not_after(append.seq, append)
        bounds.not_before(append.seq + 1, append)
        holder = None if append.key is None else self._keys.get(append.key)
        if holder is None:
            return
        if holder.stream != append.stream:
            self._bounds[holder.stream].not_before(holder.seq, append)
        elif append.seq >= holder.seq:
            kind: Kind = "refused but stored" if holder.value == append.value else "false conflict"
            self._say(kind, append.stream, f"{append} was refused when its key was in use: {holder}", append)

    def _key_conflict(self, append: Append) -> None:
        """Refused for its key: another command had it."""
        holder = None if append.key is None else self._keys.get(append.key)
        if holder is None or holder.value == append.value:
            self._say("false conflict", append.stream, f"{append} was refused, but no other has its key", append)
            return
        bounds = self._bounds[holder.stream]
        bounds.not_after(min(holder.seq, len(bounds.stored)), append)

    def landings(self) -> None:
        """Somebody can have made each element, at a moment that fits all that is known."""
        for stream, bounds in self._bounds.items():
            for each, maker, tried in zip(bounds.stored, bounds.maker, bounds.tried, strict=True):
                if maker is None:
                    self._say(*_unmade(each, tried), tried)
            for seq, later, then, earlier in bounds.contradictions():
                words = (
                    f"element {seq} was not there before {later} began, but element {then} was when {earlier} ended,"
                    f" {later.began - _end(earlier)} ns earlier"
                )
                self._say("real time", stream, words, later, earlier)

    def order(self, feed: Iterable[StoredElement]) -> None:
        """The feed has every stream, whole and in its order."""
        versions: defaultdict[int, int] = defaultdict(int)
        for each in feed:
            stored = self._bounds[each.stream].stored
            at = versions[each.stream]
            versions[each.stream] += 1
            if at >= len(stored) or stored[at] != each:
                self._say("feed", each.stream, f"{each} is number {at + 1} of its stream in the feed")
        for stream, bounds in self._bounds.items():
            if versions[stream] < len(bounds.stored):
                self._say("feed", stream, f"it has {versions[stream]} elements of {len(bounds.stored)}")


def _unmade(stored: StoredElement, tried: Append | None) -> tuple[Kind, int, str]:
    """Why nobody can have made this element."""
    if tried is None:
        return "ghost", stored.stream, f"{stored} was not tried by anybody"
    if tried.answer in ("stored", "unknown"):
        return "wrong version", stored.stream, f"{tried} landed where it should not: {stored}"
    return "refused but stored", stored.stream, f"{tried} was refused, and is there: {stored}"
