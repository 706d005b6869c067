"""Exports and logs with forks that no command can have made: refused by line or reported, and no reader stops working."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import msgspec
import pytest

import holdfast
from holdfast import codec, errors
from holdfast.model.events import Event
from holdfast.model.facts.events import LedgerBranched, LedgerForked
from holdfast.model.log import GENESIS, StoredEvent
from holdfast.model.names import StreamId
from holdfast.model.sessions.events import PayloadsErased, SessionBranched, SessionForked
from holdfast.model.sessions.forks import ForkSegment
from holdfast.storage.memory import MemoryBlobs, MemoryStore
from tests.edges.engines import EngineDesk, log_of
from tests.edges.test_transfer import chained, exported_to, line_of, refused_at, sealed_file

S, OTHER, F, NEW = ("main", "s"), ("main", "other"), ("main", "f"), ("main", "new")
LEDGER, NEW_LEDGER = ("session", *S), ("session", *NEW)


def write_history(engine: holdfast.Engine) -> None:
    """A session of 4 events with a superseded fact, another one, and a fork at event 3 with an event of its own."""
    for name in ("s", "other"):
        session = engine.create_session(name)
        for text in ("one", "two", "three"):
            session.record("user", text)
        session.ledger().set("city", "Lisbon")
        session.ledger().set("city", "Porto")
    engine.session("s").fork(3, as_="f").record("user", "four")


class Forgery(NamedTuple):
    event: Event
    key: tuple[str, ...] = NEW
    kind: str = "session"
    seq: int = 3
    after: tuple[tuple[str, ...], int] | None = (S, 2)
    """The event whose hash it continues."""


def forked(**changes: Any) -> SessionForked:
    given: dict[str, Any] = {"session": NEW, "parent": S, "cut": 2, "lineage": (ForkSegment(S, 2),)}
    return SessionForked(**{**given, **changes})


def ledger_forked(**changes: Any) -> LedgerForked:
    return LedgerForked(**{"parent": LEDGER, "cut": 3, "lineage": (ForkSegment(LEDGER, 3),), **changes})


def of_ledger(event: Event, **changes: Any) -> Forgery:
    return Forgery(event, NEW_LEDGER, "ledger", 4, (LEDGER, 3))._replace(**changes)


TRUE = {
    "a fork": Forgery(forked()),
    "a fork of a fork": Forgery(
        forked(parent=F, cut=4, lineage=(ForkSegment(S, 3), ForkSegment(F, 4))), seq=5, after=(F, 4)
    ),
    "a ledger of a fork": of_ledger(ledger_forked()),
}
END = 5
"""The version of the session: its last event notes the fork."""
FORGED = {
    "the name of another": Forgery(forked(session=F)),
    "an earlier cut": Forgery(forked(cut=1)),
    "a later cut": Forgery(forked(cut=3, lineage=(ForkSegment(S, 3),))),
    "no cut": Forgery(forked(cut=0, lineage=()), seq=1, after=None),
    "a cut before the beginning": Forgery(forked(cut=-1, lineage=(ForkSegment(S, -1),))),
    "the hash of another session": Forgery(forked(), after=(OTHER, 2)),
    "no hash": Forgery(forked(), after=None),
    "a parent that does not exist": Forgery(forked(parent=("main", "x"), lineage=(ForkSegment(("main", "x"), 2),))),
    "itself as its parent": Forgery(forked(parent=NEW, lineage=(ForkSegment(NEW, 2),))),
    "no name as its parent": Forgery(forked(parent=(), lineage=(ForkSegment((), 2),))),
    "no lineage": Forgery(forked(lineage=())),
    "the lineage of another": Forgery(forked(lineage=(ForkSegment(OTHER, 2),))),
    "a lineage through another": Forgery(forked(lineage=(ForkSegment(OTHER, 1), ForkSegment(S, 2)))),
    "a lineage of nobody": Forgery(forked(lineage=(ForkSegment((), 1), ForkSegment(S, 2)))),
    "a lineage that ends early": Forgery(forked(lineage=(ForkSegment(S, 1),))),
    "a lineage that ends late": Forgery(forked(lineage=(ForkSegment(S, 2**62),))),
    "a lineage without the first session": Forgery(
        forked(parent=F, cut=4, lineage=(ForkSegment(F, 4),)), seq=5, after=(F, 4)
    ),
    "a fork in the middle": Forgery(
        forked(session=S, cut=END, lineage=(ForkSegment(S, END),)), S, seq=END + 1, after=(S, END)
    ),
    "a fork of a ledger as a session": Forgery(ledger_forked(parent=S, lineage=(ForkSegment(S, 2),))),
    "a fork after no event": Forgery(SessionBranched(fork=NEW, cut=0), S, seq=END + 1, after=(S, END)),
    "a fork after a later event": Forgery(SessionBranched(fork=NEW, cut=9), S, seq=END + 1, after=(S, END)),
    "an erasure of the beginning": Forgery(PayloadsErased(seqs=(4,), reason="x"), F, seq=6, after=(F, 5)),
    "a ledger with an earlier cut": of_ledger(ledger_forked(cut=1)),
    "a ledger with no cut": of_ledger(ledger_forked(cut=0, lineage=()), seq=1, after=None),
    "a ledger of another": of_ledger(ledger_forked(lineage=(ForkSegment(("session", *OTHER), 3),))),
    "a ledger of nobody": of_ledger(ledger_forked(parent=(), lineage=(ForkSegment((), 3),))),
    "a ledger in the middle": of_ledger(ledger_forked(), key=LEDGER),
    "a fork of a session as a ledger": of_ledger(
        forked(session=NEW_LEDGER, parent=LEDGER, cut=3, lineage=(ForkSegment(LEDGER, 3),))
    ),
    "a ledger after no event": of_ledger(LedgerBranched(fork=NEW, cut=0), key=LEDGER),
}


def forge(log: list[StoredEvent], forgery: Forgery) -> StoredEvent:
    """The event, with all checksums right."""
    hashes = {(event.stream.key, event.seq): event.hash for event in log}
    event = msgspec.structs.replace(
        log[-1],
        stream=StreamId("default", forgery.kind, forgery.key),  # type: ignore[arg-type]
        seq=forgery.seq,
        type=forgery.event.name,
        version=forgery.event.version,
        payload=codec.encode_event(forgery.event),
        command=f"{2**100:032x}",
        ordinal=0,
        key=None,
    )
    return chained(GENESIS if forgery.after is None else hashes[forgery.after], event)


@pytest.mark.parametrize("name", [*TRUE, *FORGED])
def test_an_import_takes_true_forks_and_no_others(desk: EngineDesk, name: str) -> None:
    source = desk.open("memory")
    write_history(source)
    lines = exported_to(source, desk).read_bytes().splitlines(keepends=True)
    line = line_of(forge(log_of(source), {**TRUE, **FORGED}[name]))
    path = sealed_file(desk.folder / "forged.jsonl", [*lines[:-1], line, lines[-1]])
    target = desk.open("memory", name="target")
    if name in FORGED:
        assert refused_at(target, path) == len(lines)
        return
    assert target.admin.import_(path) == len(log_of(source)) + 1
    assert target.admin.verify().ok


@pytest.mark.parametrize("name", [*FORGED])
def test_a_forged_fork_in_the_log_is_reported_and_stops_no_reader(name: str) -> None:
    store, blobs = MemoryStore(), MemoryBlobs()
    engine = holdfast.open(store, blobs=blobs)
    write_history(engine)
    store._add_events([forge(log_of(engine), FORGED[name])])
    other = holdfast.open(store, blobs=blobs)
    report = other.admin.verify()
    assert not report.ok
    for session in ("s", "other", "f", "new"):
        with suppress(errors.HoldfastError):
            read = other.session(session)
            read.context.view()
            read.pack(budget=2_000)
            read.facts.items()
            read.events(limit=1_000)
            read.fork(as_=f"{session} again")
    with suppress(errors.HoldfastError):
        other.admin.rebuild()
