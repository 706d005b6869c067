"""The judge is judged: correct histories pass, planted bugs are found, and a search through all orders says the same."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import NamedTuple, TypeAlias, TypeVar, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.crash.linearizability import Answer, Append, Kind, Operation, Read, StoredElement, Violation, find_violations
from tests.support import figure

T = TypeVar("T")

SEEDS = st.integers(0, 2**32 - 1)
KEYS = 1_000
NOBODYS = 10_000


class History(NamedTuple):
    operations: list[Operation]
    streams: dict[int, list[StoredElement]]
    feed: list[StoredElement]

    def judged(self) -> list[Violation]:
        return find_violations(self.operations, self.streams, self.feed)

    def told(self, *changes: tuple[Operation, Operation]) -> History:
        """With other operations in the place of some."""
        new = {id(old): changed for old, changed in changes}
        return self._replace(operations=[new.get(id(each), each) for each in self.operations])

    def kept(self, stream: int, elements: Iterable[StoredElement]) -> History:
        """With another content of one stream, numbered without a gap, in the feed as well."""
        streams = self.streams | {stream: [replace(each, seq=seq) for seq, each in enumerate(elements, 1)]}
        return self._replace(streams=streams, feed=[each for kept in streams.values() for each in kept])

    def added(self, element: StoredElement) -> History:
        return self.kept(element.stream, [*self.streams[element.stream], element])


def told(append: Append, version: int, holder: StoredElement | None) -> tuple[Answer, int]:
    """The answer of a store that does one thing at a time, at this version, with whoever holds the key."""
    if holder is not None:
        return ("stored", holder.seq) if holder.value == append.value else ("key conflict", 0)
    return ("stored", version + 1) if append.expect in (None, version) else ("conflict", version)


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
        self._holders: dict[int | None, StoredElement] = {}

    def run(self, count: int) -> History:
        for _ in range(count):
            self._now = max(self._now + self.rng.randint(0, 3), min(self._free))
            client = self.rng.choice([each for each, free in enumerate(self._free) if free <= self._now])
            began = self.rng.randint(self._free[client], self._now)
            ended = self._now + self.rng.choice((0, self.rng.randint(0, 3), self.rng.randint(0, 30)))
            stream = self.rng.choice(list(self.history.streams))
            self._free[client] = ended + 1
            act = self._read if self.rng.random() < 0.4 else self._append
            self.history.operations.append(act(client, stream, began, ended))
        return self.history

    def _read(self, client: int, stream: int, began: int, ended: int) -> Read:
        there = self.history.streams[stream]
        after = self.rng.randint(0, len(there))
        version = self.rng.choice((len(there), self.rng.randint(after, len(there))))
        values = tuple(each.value for each in there[after:version])
        return Read(client, stream, began, ended, after, version, values, exact=version == len(there))

    def _append(self, client: int, stream: int, began: int, ended: int) -> Append:
        append = self._draw(client, stream, began)
        if self.rng.random() < 0.15:  # killed before the answer came, perhaps even before the append arrived
            self._free[client] = self.rng.randint(began, self._now) + 1
            if self.rng.random() < 0.5:
                self._effect(append)
            return append
        return replace(self._effect(append), ended=ended)

    def _draw(self, client: int, stream: int, began: int) -> Append:
        expect = self.rng.choice((None, None, len(self.history.streams[stream]), self.rng.randint(0, 5)))
        chance = self.rng.random()
        if self._keyed and chance < 0.25:
            return replace(self.rng.choice(self._keyed), client=client, began=began, expect=expect)
        value = next(self._values)
        key = KEYS + value if chance < 0.6 else None
        if self._keyed and chance > 0.9:
            other = self.rng.choice(self._keyed)
            key, stream = other.key, stream if self._shared_keys else other.stream
        append = Append(client, stream, value, key, expect, began)
        if key is not None:
            self._keyed.append(append)
        return append

    def _effect(self, append: Append) -> Append:
        there = self.history.streams[append.stream]
        holder = self._holders.get(append.key)
        answer, seq = told(append, len(there), holder)
        if answer == "stored" and holder is None:
            stored = StoredElement(append.stream, seq, append.value, append.key)
            there.append(stored)
            self.history.feed.append(stored)
            if append.key is not None:
                self._holders[append.key] = stored
        return replace(append, answer=answer, seq=seq)


def simulated(rng: Random, operations: int, streams: int, *, shared_keys: bool = True) -> History:
    return Simulator(rng, rng.randint(1, 6), streams, shared_keys=shared_keys).run(operations)


@settings(max_examples=figure(1_000, 100_000))
@given(SEEDS, st.integers(0, 80), st.integers(1, 3))
def test_a_correct_history_is_never_blamed(seed: int, operations: int, streams: int) -> None:
    assert simulated(Random(seed), operations, streams).judged() == []


# Planted bugs: each turns a correct history into one that no correct store can have made


class Unfit(Exception):
    """There is nothing in this history to plant the bug in."""


class Garden:
    """A history, with what one needs to know to spoil it."""

    def __init__(self, history: History, rng: Random) -> None:
        self.history = history
        self.rng = rng
        self.streams = history.streams
        self.reads = [each for each in history.operations if isinstance(each, Read)]
        self.tries: dict[int, list[Append]] = {}
        for operation in history.operations:
            if isinstance(operation, Append):
                self.tries.setdefault(operation.value, []).append(operation)
        self.places = {each.value: each for each in history.feed}

    def pick(self, candidates: Iterable[T]) -> T:
        found = list(candidates)
        if not found:
            raise Unfit
        return self.rng.choice(found)

    def appends(self, *answers: Answer, landed: bool | None = None, alone: bool = False) -> Iterator[Append]:
        """Tries with such an answer whose command landed, or did not; `alone` if it was tried only once."""
        for value, tries in self.tries.items():
            if landed in (None, value in self.places) and not (alone and len(tries) > 1):
                yield from (each for each in tries if each.answer in answers)

    def known(self, value: int) -> float:
        """When a client first knew that it is stored."""
        ends = (each.ended for each in self.tries[value] if each.answer == "stored")
        return min((end for end in ends if end is not None), default=float("inf"))

    def begun(self, value: int) -> int:
        return min(each.began for each in self.tries[value])

    def seen(self, read: Read, version: int) -> Read:
        """The read, had the stream been at this version."""
        after = min(read.after, version)
        values = tuple(each.value for each in self.streams[read.stream][after:version])
        return replace(read, after=after, version=version, values=values)

    def exact(self) -> Iterator[Read]:
        return (read for read in self.reads if read.exact)


def an_acknowledged_write_is_lost(garden: Garden) -> History:
    lost = garden.pick(garden.appends("stored"))
    left = [each for each in garden.streams[lost.stream] if each.value != lost.value]
    return garden.history.kept(lost.stream, left)


def a_write_is_acknowledged_before_it_is_durable(garden: Garden) -> History:
    lost = garden.pick(garden.appends("stored"))
    return garden.history.kept(lost.stream, garden.streams[lost.stream][: lost.seq - 1])


def a_write_is_stored_twice(garden: Garden) -> History:
    return garden.history.added(garden.pick(garden.history.feed))


def a_retry_lands_again(garden: Garden) -> History:
    again = garden.pick(each for each in garden.appends("stored") if each.began > garden.known(each.value))
    second = replace(again, seq=len(garden.streams[again.stream]) + 1)
    return garden.history.told((again, second)).added(garden.places[again.value])


def a_refused_write_is_stored(garden: Garden) -> History:
    refused = garden.pick(
        each
        for each in garden.appends("conflict", "key conflict", landed=False)
        if not any(other.answer == "unknown" for other in garden.tries[each.value])
    )
    return garden.history.added(StoredElement(refused.stream, 0, refused.value, refused.key))


def a_write_of_nobody_is_stored(garden: Garden) -> History:
    return garden.history.added(StoredElement(garden.pick(garden.streams), 0, NOBODYS))


def a_write_lands_in_another_stream(garden: Garden) -> History:
    sent = garden.pick(garden.appends("stored", "unknown", landed=True))
    other = garden.pick(stream for stream in garden.streams if stream != sent.stream)
    return garden.history.told(*((each, replace(each, stream=other)) for each in garden.tries[sent.value]))


def a_write_is_acknowledged_at_another_place(garden: Garden) -> History:
    stored = garden.pick(garden.appends("stored"))
    return garden.history.told((stored, replace(stored, seq=stored.seq + garden.rng.choice((-1, 1)))))


def a_later_write_goes_before_an_earlier_one(garden: Garden) -> History:
    """Everybody agrees on the wrong order: it is only the clock that tells."""
    free = [each for each in garden.history.feed if not any(other.expect for other in garden.tries[each.value])]
    first, second = garden.pick(
        (first, second)
        for first, second in itertools.permutations(free, 2)
        if first.stream == second.stream and garden.known(first.value) < garden.begun(second.value)
    )
    swap = {first.value: second, second.value: first}
    history = garden.history.kept(first.stream, [swap.get(each.value, each) for each in garden.streams[first.stream]])
    return history.told(
        *(
            (each, replace(each, seq=swap[value].seq))
            for value in swap
            for each in garden.tries[value]
            if each.answer == "stored"
        ),
        *(
            (read, replace(read, values=tuple(swap[each].value if each in swap else each for each in read.values)))
            for read in garden.reads
        ),
    )


def a_stream_has_a_gap(garden: Garden) -> History:
    last = garden.pick(garden.history.feed)
    change = {
        each.value: replace(each, seq=each.seq + 1) for each in garden.streams[last.stream] if each.seq >= last.seq
    }
    streams = {
        stream: [change.get(each.value, each) for each in elements] for stream, elements in garden.streams.items()
    }
    feed = [change.get(each.value, each) for each in garden.history.feed]
    return garden.history._replace(streams=streams, feed=feed)


def two_writers_win_with_the_same_expected_version(garden: Garden) -> History:
    first, second = garden.pick(
        (first, second)
        for first, second in itertools.permutations(garden.appends("stored", alone=True), 2)
        if first.expect is not None and (first.stream, first.seq + 1) == (second.stream, second.seq)
    )
    return garden.history.told((second, replace(second, expect=first.expect)))


def two_commands_are_stored_under_one_key(garden: Garden) -> History:
    keyed = [each for each in garden.history.feed if each.key is not None]
    first, second = garden.pick(itertools.combinations(keyed, 2))
    same = replace(second, key=first.key)
    history = garden.history.told(*((each, replace(each, key=first.key)) for each in garden.tries[second.value]))
    return history.kept(same.stream, [same if each is second else each for each in garden.streams[same.stream]])


def a_write_is_stored_under_another_key(garden: Garden) -> History:
    stored = garden.pick(garden.history.feed)
    other = replace(stored, key=NOBODYS)
    stream = garden.streams[stored.stream]
    return garden.history.kept(stored.stream, [other if each is stored else each for each in stream])


def a_read_is_stale(garden: Garden) -> History:
    read, known = garden.pick(
        (read, stored)
        for read, stored in itertools.product(garden.exact(), garden.history.feed)
        if read.stream == stored.stream and garden.known(stored.value) < read.began
    )
    return garden.history.told((read, garden.seen(read, garden.rng.randint(0, known.seq - 1))))


def a_read_sees_the_future(garden: Garden) -> History:
    read, later = garden.pick(
        (read, stored)
        for read, stored in itertools.product(garden.reads, garden.history.feed)
        if read.stream == stored.stream and read.ended < garden.begun(stored.value)
    )
    return garden.history.told((read, garden.seen(read, later.seq)))


def a_client_s_reads_go_back(garden: Garden) -> History:
    first, second = garden.pick(
        (first, second)
        for first, second in itertools.permutations(garden.exact(), 2)
        if (first.client, first.stream) == (second.client, second.stream)
        if first.ended < second.began and first.version < second.version
    )
    return garden.history.told(
        (first, garden.seen(first, second.version)), (second, garden.seen(second, first.version))
    )


def _seen_before_it_began(garden: Garden, answer: Answer) -> History:
    read, append = garden.pick(
        (read, append)
        for read, append in itertools.product(garden.reads, garden.appends(answer, landed=True, alone=True))
        if read.stream == append.stream and read.version >= garden.places[append.value].seq
    )
    began = read.ended + 1
    ended = None if append.ended is None else max(append.ended, began)
    return garden.history.told((append, replace(append, began=began, ended=ended)))


def a_write_is_seen_before_it_began(garden: Garden) -> History:
    return _seen_before_it_began(garden, "stored")


def a_write_that_was_never_answered_is_seen_before_it_began(garden: Garden) -> History:
    return _seen_before_it_began(garden, "unknown")


def a_read_sees_what_was_rolled_back(garden: Garden) -> History:
    read, append = garden.pick(
        (read, append)
        for read in garden.reads
        for append in garden.appends("conflict", "key conflict", "unknown", landed=False)
        if read.stream == append.stream
    )
    dirty = replace(read, version=read.version + 1, values=(*read.values, append.value))
    return garden.history.told((read, dirty))


def a_read_skips_an_element(garden: Garden) -> History:
    read = garden.pick(read for read in garden.reads if len(read.values) > 1)
    skipped = garden.pick(read.values)
    values = tuple(value for value in read.values if value != skipped)
    return garden.history.told((read, replace(read, values=values)))


def a_read_ends_behind_the_end(garden: Garden) -> History:
    read = garden.pick(garden.reads)
    end = len(garden.streams[read.stream]) + 1
    return garden.history.told((read, replace(read, after=end, version=end, values=())))


def a_conflict_is_reported_at_the_expected_version(garden: Garden) -> History:
    refused = garden.pick(garden.appends("conflict"))
    return garden.history.told((refused, replace(refused, expect=refused.seq)))


def a_conflict_is_reported_with_a_version_long_past(garden: Garden) -> History:
    refused, known = garden.pick(
        (refused, stored)
        for refused, stored in itertools.product(garden.appends("conflict"), garden.history.feed)
        if refused.stream == stored.stream and garden.known(stored.value) < refused.began
    )
    past = garden.rng.randint(0, known.seq - 1)
    return garden.history.told((refused, replace(refused, seq=past, expect=past + 1)))


def a_conflict_is_reported_to_a_retry_of_what_is_stored(garden: Garden) -> History:
    again = garden.pick(each for each in garden.appends("stored") if each.began > garden.known(each.value))
    refused = replace(again, answer="conflict", seq=len(garden.streams[again.stream]), expect=NOBODYS)
    return garden.history.told((again, refused))


def a_conflict_is_reported_though_the_key_was_taken_elsewhere(garden: Garden) -> History:
    refused, holder = garden.pick(
        (refused, stored)
        for refused, stored in itertools.product(garden.appends("conflict", alone=True), garden.history.feed)
        if stored.key is not None and stored.stream != refused.stream and garden.known(stored.value) < refused.began
    )
    return garden.history.told((refused, replace(refused, key=holder.key)))


def a_key_conflict_is_reported_though_the_key_is_free(garden: Garden) -> History:
    held = {each.key for each in garden.history.feed}
    unknown = garden.pick(each for each in garden.appends("unknown") if each.key is not None and each.key not in held)
    return garden.history.told((unknown, replace(unknown, answer="key conflict", ended=unknown.began + 1)))


def the_feed_is_not_in_a_stream_s_order(garden: Garden) -> History:
    first, second = garden.pick(
        (first, second)
        for first, second in itertools.combinations(garden.history.feed, 2)
        if first.stream == second.stream
    )
    swap = {first.value: second, second.value: first}
    return garden.history._replace(feed=[swap.get(each.value, each) for each in garden.history.feed])


def the_feed_skips_an_element(garden: Garden) -> History:
    skipped = garden.pick(garden.history.feed)
    return garden.history._replace(feed=[each for each in garden.history.feed if each is not skipped])


Bug: TypeAlias = Callable[[Garden], History]

BUGS: dict[Bug, Kind] = {
    an_acknowledged_write_is_lost: "lost",
    a_write_is_acknowledged_before_it_is_durable: "lost",
    a_write_is_stored_twice: "doubled",
    a_retry_lands_again: "doubled",
    a_refused_write_is_stored: "refused but stored",
    a_write_of_nobody_is_stored: "ghost",
    a_write_lands_in_another_stream: "mixed up",
    a_write_is_acknowledged_at_another_place: "misplaced",
    a_later_write_goes_before_an_earlier_one: "real time",
    a_stream_has_a_gap: "gap",
    two_writers_win_with_the_same_expected_version: "wrong version",
    two_commands_are_stored_under_one_key: "key twice",
    a_write_is_stored_under_another_key: "wrong key",
    a_read_is_stale: "real time",
    a_read_sees_the_future: "real time",
    a_client_s_reads_go_back: "real time",
    a_write_is_seen_before_it_began: "real time",
    a_write_that_was_never_answered_is_seen_before_it_began: "real time",
    a_read_sees_what_was_rolled_back: "not a prefix",
    a_read_skips_an_element: "not a prefix",
    a_read_ends_behind_the_end: "not there yet",
    a_conflict_is_reported_at_the_expected_version: "false conflict",
    a_conflict_is_reported_with_a_version_long_past: "real time",
    a_conflict_is_reported_to_a_retry_of_what_is_stored: "refused but stored",
    a_conflict_is_reported_though_the_key_was_taken_elsewhere: "real time",
    a_key_conflict_is_reported_though_the_key_is_free: "false conflict",
    the_feed_is_not_in_a_stream_s_order: "feed",
    the_feed_skips_an_element: "feed",
}

pytestmark = pytest.mark.promise(8, f"the judge of concurrent histories: {len(BUGS)} planted bugs")


def planted(bug: Bug, rng: Random) -> tuple[History, History]:
    """A correct history, and what the bug makes of it."""
    while True:
        history = simulated(rng, operations=rng.randint(5, 80), streams=2)
        try:
            return history, bug(Garden(history, rng))
        except Unfit:
            continue


@pytest.mark.parametrize(("bug", "kind"), BUGS.items(), ids=[bug.__name__ for bug in BUGS])
@settings(max_examples=figure(40, 5_000))
@given(seed=SEEDS)
def test_a_planted_bug_is_found_every_time(bug: Bug, kind: Kind, seed: int) -> None:
    correct, spoiled = planted(bug, Random(seed))
    assert correct.judged() == []
    found = {violation.kind for violation in spoiled.judged()}
    assert kind in found or (kind == "not a prefix" and "not there yet" in found)


def test_every_kind_of_violation_is_planted() -> None:
    assert len(BUGS) >= 20
    assert set(BUGS.values()) == set(get_args(Kind))


# The same question, answered by trying every order


def linearizable(
    operations: tuple[Operation, ...], end: dict[int, list[StoredElement]], log: tuple[StoredElement, ...] = ()
) -> bool:
    """Whether some order that respects the clock leads from this log to that end, each operation answered as it was."""
    if all(each.ended is None for each in operations) and _by_stream(log, end) == end:
        return True
    for operation in operations:
        rest = tuple(each for each in operations if each is not operation)
        if any(each.ended is not None and each.ended < operation.began for each in rest):
            continue
        after = _done(operation, log)
        if after is not None and linearizable(rest, end, after):
            return True
    return False


def _by_stream(log: Iterable[StoredElement], streams: Iterable[int]) -> dict[int, list[StoredElement]]:
    kept: dict[int, list[StoredElement]] = {stream: [] for stream in streams}
    for each in log:
        kept[each.stream].append(each)
    return kept


def _done(operation: Operation, log: tuple[StoredElement, ...]) -> tuple[StoredElement, ...] | None:
    """The log after this operation; None if it would have been answered otherwise."""
    there = [each for each in log if each.stream == operation.stream]
    if isinstance(operation, Read):
        values = tuple(each.value for each in there[operation.after : operation.version])
        right = values == operation.values and len(values) == operation.version - operation.after
        fits = len(there) == operation.version if operation.exact else len(there) >= operation.version
        return log if right and fits else None
    held = [each for each in log if each.key is not None and each.key == operation.key]
    if operation.answer == "conflict" and operation.expect is None and not held:
        return log if operation.seq == len(there) else None  # a store may give up when others are always first
    answer, seq = told(operation, len(there), held[0] if held else None)
    if operation.answer not in ("unknown", answer) or (
        operation.answer in ("stored", "conflict") and operation.seq != seq
    ):
        return None
    if answer != "stored" or held:
        return log
    return (*log, StoredElement(operation.stream, seq, operation.value, operation.key))


class Vandal:
    """Changes anything, without a thought for whether it matters."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def spoiled(self, history: History) -> History:
        if history.operations and self.rng.random() < 0.8:
            old = self.rng.choice(history.operations)
            return history.told((old, self._read(old) if isinstance(old, Read) else self._append(old)))
        stream = self.rng.choice(list(history.streams))
        elements = list(history.streams[stream])
        self.rng.choice((self.rng.shuffle, self._drop, self._double))(elements)
        return history.kept(stream, elements)

    def _drop(self, elements: list[StoredElement]) -> None:
        del elements[self.rng.randint(0, len(elements)) :]

    def _double(self, elements: list[StoredElement]) -> None:
        elements += elements[self.rng.randint(0, len(elements)) :][:1]

    def _times(self, began: int, ended: int) -> tuple[int, int]:
        began += self.rng.randint(-20, 20)
        return began, max(began, ended + self.rng.randint(-20, 20))

    def _read(self, read: Read) -> Read:
        match self.rng.randint(0, 2):
            case 0:
                began, ended = self._times(read.began, read.ended)
                return replace(read, began=began, ended=ended)
            case 1:
                version = max(0, read.version + self.rng.choice((-1, 1)))
                kept = read.after if read.values else self.rng.choice((read.after, version))
                return replace(read, after=kept, version=version, values=read.values[: max(0, version - kept)])
            case _:
                return replace(read, exact=not read.exact)

    def _append(self, append: Append) -> Append:
        match self.rng.randint(0, 3):
            case 0 if append.ended is not None:
                began, ended = self._times(append.began, append.ended)
                return replace(append, began=began, ended=ended)
            case 1 if append.answer in ("stored", "conflict"):
                return replace(append, seq=max(0, append.seq + self.rng.choice((-1, 1))))
            case 2:
                return replace(append, expect=self.rng.choice((None, 0, 1, 2)))
            case _:
                answer = self.rng.choice(get_args(Answer))
                end = append.ended or append.began + self.rng.randint(0, 20)
                return replace(append, answer=answer, ended=None if answer == "unknown" else end)


def test_the_verdict_is_that_of_a_search_through_all_orders() -> None:
    verdicts: Counter[bool] = Counter()

    @settings(max_examples=figure(1_000, 100_000), database=None)
    @given(SEEDS, st.integers(0, 6), st.integers(1, 2), st.integers(0, 3))
    def agree(seed: int, operations: int, streams: int, changes: int) -> None:
        rng = Random(seed)
        history = simulated(rng, operations, streams, shared_keys=False)
        for _ in range(changes):
            history = Vandal(rng).spoiled(history)
        verdict = not history.judged()
        assert verdict == linearizable(tuple(history.operations), history.streams)
        verdicts[verdict] += 1

    agree()
    assert min(verdicts[True], verdicts[False]) > sum(verdicts.values()) // 10, "one verdict is hardly tested"
