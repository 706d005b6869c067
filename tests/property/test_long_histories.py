"""A session of 100,000 messages opens, appends and is viewed at the price of one of 2,000: counted, not timed.

What is counted is what the engine asks of its store: calls, and the events that come back.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import msgspec
import pytest

import holdfast
from holdfast import errors
from holdfast.model import limits
from holdfast.model.log import StoredEvent
from holdfast.ports import EventStore
from holdfast.runtime.bodies import VerifiedBodies
from tests.property.session_model import CharCounter
from tests.property.store_tools import fast_folder
from tests.support import CountingIds, SteppingClock, figure

SHORT, LONG = 2_000, figure(10_000, 100_000)
BATCH = 100
CALLS = [{"name": "search", "args": {"for": "x"}, "id": "p"}, {"name": "read", "args": {}, "id": "q"}]


class Counting:
    """A store between the engine and the real one that notes what it is asked for."""

    def __init__(self, inner: EventStore) -> None:
        self.inner = inner
        self.seen: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)

        def counted(*args: object, **kwargs: object) -> Any:
            answer = found(*args, **kwargs)
            self.seen[name] += 1
            if isinstance(answer, tuple):
                self.seen["events read"] += sum(isinstance(each, StoredEvent) for each in answer)
            return answer

        return counted


class Shelf:
    """Engines on one store, each as fresh as in another process."""

    def __init__(self, folder: str | None) -> None:
        self.url = "memory:" if folder is None else os.path.join(folder, "log.db")
        self.shared = None if folder else holdfast.open(self.url)
        self.clock, self.ids = SteppingClock(), CountingIds()

    @contextmanager
    def engine(self) -> Iterator[tuple[holdfast.Engine, Counting]]:
        with holdfast.open(self.url, clock=self.clock, ids=self.ids, counter=CharCounter()) as engine:
            if self.shared is not None:
                context = msgspec.structs.replace(engine._context, bodies=VerifiedBodies(self.shared._blob_store))
                engine = holdfast.Engine(self.shared.store, self.shared._blob_store, context)
            counting = Counting(engine.store)
            engine.store = cast("EventStore", counting)
            yield engine, counting

    def fill(self, name: str, messages: int) -> None:
        """A conversation of turns with tools, as agents have them."""
        with self.engine() as (engine, _):
            session = engine.create_session(name)
            session.record("system", "You are helpful.")
            turn: list[object] = [
                ("user", "please look it up"),
                {"role": "assistant", "content": "I look", "tool_calls": CALLS},
                {"role": "tool", "tool_results": [{"tool_call_id": name, "result": "found " * 9} for name in "pq"]},
                ("assistant", "here it is"),
            ]
            for _ in range(messages // BATCH):
                session.record_all(turn * (BATCH // len(turn)))


def _late(session: holdfast.Session) -> None:
    call = session.record("assistant", None, tool_calls=[{"name": "read", "args": {}}]).tool_calls[0]
    session.close_calls("gone")
    session.result(call, "late")


def _unknown(session: holdfast.Session) -> None:
    with pytest.raises(errors.CallNotFound):
        session.result("nowhere", "x")


def _summarise(session: holdfast.Session) -> None:
    draft = session.context.draft_summary()
    assert draft is not None
    session.context.summarize(draft, "they talked")


DEEDS: dict[str, Callable[[holdfast.Session], object]] = {
    "open": lambda session: session.state(),
    "record": lambda session: session.record("user", "and now?"),
    "a small window": lambda session: session.context.window(100),
    "a window": lambda session: session.context.window(2_000),
    "the last messages": lambda session: session.messages(),
    "older messages": lambda session: session.messages(before=500, limit=50),
    "a late result": _late,
    "a result for no call": _unknown,
    "a summary": _summarise,
    "a window behind a summary": lambda session: session.context.window(2_000),
    "a reset": lambda session: session.reset("again"),
    "an empty window": lambda session: session.context.window(2_000),
}


def _prices(shelf: Shelf, name: str) -> dict[str, Counter[str]]:
    """What each deed asks of the store, done one after the other, each by an engine that has never seen the session."""
    prices: dict[str, Counter[str]] = {}
    for deed, do in DEEDS.items():
        with shelf.engine() as (engine, counting):
            session = engine.session(name)
            do(session)
            prices[deed] = counting.seen
    return prices


@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_what_is_done_to_a_long_session_costs_what_it_costs_in_a_short_one(kind: str) -> None:
    with fast_folder() as folder:
        shelf = Shelf(folder if kind == "sqlite" else None)
        for name, messages in (("short", SHORT), ("long", LONG)):
            shelf.fill(name, messages)
        assert _prices(shelf, "long") == _prices(shelf, "short")
        _check_snapshots(shelf)


def _check_snapshots(shelf: Shelf) -> None:
    """The state is no larger either, and no more is behind its snapshot than there may be."""
    sizes: list[int] = []
    with shelf.engine() as (engine, _):
        for name, messages in (("short", SHORT), ("long", LONG)):
            session = engine.session(name)
            snapshot = engine.store.snapshot(session.scope.stream)
            assert snapshot is not None
            assert messages < snapshot.version <= session.state().version <= snapshot.version + limits.SNAPSHOT_EVERY
            sizes.append(len(snapshot.state))
    assert sizes[1] - sizes[0] < 60


def test_a_window_reads_about_what_it_shows() -> None:
    """Whatever the budget: a few events more than are shown, at most as many again."""
    shelf = Shelf(None)
    shelf.fill("s", SHORT)
    for tokens in (50, 500, 5_000, 50_000):
        with shelf.engine() as (engine, counting):
            session = engine.session("s")
            before = counting.seen["events read"]
            shown = len(session.context.window(tokens).messages)
            assert counting.seen["events read"] - before <= 2 * shown + 100
