"""What a session leaves to long-term memory: offered once, whole, at least until it is acknowledged; then it may go."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeAlias

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Engine, Message, Session, errors
from holdfast.core import upcast
from holdfast.model import limits
from holdfast.model.events import OFFLOAD_EVENTS
from holdfast.model.sessions.events import EvidenceKept, MessageRecorded, OffloadAcknowledged, SessionDestroyed
from holdfast.testing.appends import LOOKALIKES
from holdfast.types import Offload, Scope, StoredEvent, SweepResult
from tests.disk import DiskRecorder, cut_power, open_on_tap, write_files
from tests.edges.engines import (
    KINDS,
    LOCAL_KINDS,
    SQLITE_KINDS,
    EngineDesk,
    ManualClock,
    RepeatableIds,
    blobs_of,
    contents,
    log_of,
    replace_store,
    rows_of,
    store_of,
)
from tests.property.store_tools import Fault, Faulty, fast_folder
from tests.support import SteppingClock, figure

EXAMPLES = figure(15, 1_000)
CUTS = figure(50, 3_000)
SAID = (MessageRecorded.name, EvidenceKept.name)
HEADERS = ("session.destroyed", "payloads.erased", "offload.acknowledged")
"""What stays of a session when all that was said in it is gone."""
SECRET = "the-secret-7f3a9c"
LATE_S = 4_000_000_000.0
"""Later than anything that a file system dates."""


# What the outbox has to hold, as the log tells it


class Owed(NamedTuple):
    scope: Scope
    entry: int
    why: str
    seqs: list[int]
    """Of the messages and the evidence in it."""


def owed(log: Sequence[StoredEvent]) -> list[Owed]:
    """Everything said since the session began, or since a conversation in it ended, when the next one ends."""
    since: dict[Scope, list[int]] = {}
    found: dict[tuple[Scope, int], Owed] = {}
    for recorded in log:
        scope = Scope.from_stream(recorded.stream)
        event = upcast.decode_event(recorded)
        if recorded.type in SAID:
            since.setdefault(scope, []).append(recorded.seq)
        elif recorded.type in OFFLOAD_EVENTS:
            seqs = since.pop(scope, [])
            if seqs and not _forgets(recorded):
                why = recorded.type.removeprefix("session.")
                found[scope, recorded.seq] = Owed(scope, recorded.seq, why, seqs)
        elif isinstance(event, OffloadAcknowledged):
            found.pop((scope, event.entry), None)
    return sorted(found.values())


def _forgets(recorded: StoredEvent) -> bool:
    """A destruction that says so; once it was erased, nothing is owed any more either."""
    event = upcast.decode_event(recorded)
    return recorded.type == SessionDestroyed.name and not (isinstance(event, SessionDestroyed) and event.offload)


def offered(engine: Engine) -> list[Owed]:
    return [
        Owed(entry.scope, entry.entry, entry.why, [message.seq for message in _history(engine, entry)])
        for entry in _outbox(engine)
    ]


def _outbox(engine: Engine, limit: int = 2) -> list[Offload]:
    found: list[Offload] = []
    while page := engine.admin.outbox(after=found[-1] if found else None, limit=limit):
        assert len(page) <= limit
        found += page
    return found


def _history(engine: Engine, entry: Offload, limit: int = 3) -> list[Message]:
    found: list[Message] = []
    while page := engine.admin.offloaded(entry, after=found[-1].seq if found else 0, limit=limit):
        assert len(page) <= limit
        found += page
    return found


def _contentful(log: Sequence[StoredEvent], scope: Scope) -> list[str]:
    """The events of a session whose content is there."""
    own = (event for event in log if event.stream == scope.stream and event.type not in HEADERS)
    return [event.type for event in own if event.payload is not None]


# Any life of a session


class Life:
    """One session, whatever is done to it; everything that was said in it is remembered."""

    def __init__(self, engine: Engine, clock: ManualClock) -> None:
        self.engine = engine
        self.clock = clock
        self.session = engine.create_session("s", metadata={"a": 1}, idle_timeout_s=10)
        self.said: dict[int, str] = {}
        self.calls: list[str] = []
        self.status = "open"

    def do(self, what: str) -> None:
        self.clock.now_s += 1
        if self.status == "open" or what in ("late", "destroy", "forget", "first", "last", "again", "rebuild"):
            getattr(self, what)()

    def say(self) -> None:
        self._said(self.session.record("user", f"message {len(self.said)}"))

    def call(self) -> None:
        if not self.session.state().open_calls:
            message = self.session.record("assistant", "working", tool_calls=[{"name": "a"}, {"name": "b"}])
            self._said(message)
            self.calls += [call.id for call in message.tool_calls]

    def late(self) -> None:
        """A result for a call that an end has closed, or has not."""
        if self.calls and self.status != "destroyed":
            self._said(self.session.result(self.calls.pop(), f"result {len(self.said)}"))

    def _said(self, message: Message) -> None:
        self.said[message.seq] = message.text

    def reset(self) -> None:
        self.session.reset("a new topic")

    def close(self) -> None:
        self.session.end("done")
        self.status = "closed"

    def idle(self) -> None:
        self.clock.now_s += 10
        assert self.engine.admin.sweep().sessions == (self.session.scope,)
        self.status = "closed"

    def destroy(self) -> None:
        self.session.destroy("no more")
        self.status = "destroyed"

    def forget(self) -> None:
        self.session.destroy("no more", offload=False)
        self.status = "destroyed"

    def first(self) -> None:
        self._acknowledge(0)

    def last(self) -> None:
        self._acknowledge(-1)

    def _acknowledge(self, which: int) -> None:
        for entry in self.engine.admin.outbox()[which:][:1]:
            self.engine.admin.acknowledge(entry)
            self.engine.admin.acknowledge(entry)

    def again(self) -> None:
        for entry in self.engine.admin.outbox():
            assert {message.seq: message.text for message in _history(self.engine, entry)}.items() >= {
                seq: text for seq, text in self.said.items() if entry.first <= seq <= entry.last
            }.items()

    def rebuild(self) -> None:
        before = rows_of(self.engine)
        self.engine.admin.rebuild()
        assert rows_of(self.engine) == before


DEEDS = (
    "say",
    "say",
    "call",
    "late",
    "reset",
    "close",
    "idle",
    "destroy",
    "forget",
    "first",
    "last",
    "again",
    "rebuild",
)


@pytest.mark.parametrize("kind", LOCAL_KINDS)
@settings(max_examples=EXAMPLES)
@given(deeds=st.lists(st.sampled_from(DEEDS), min_size=4, max_size=25))
def test_every_end_offers_exactly_what_was_said_since_the_last_one(kind: str, deeds: list[str]) -> None:
    clock = ManualClock()
    with fast_folder() as folder, closing(EngineDesk(Path(folder))) as desk:
        life = Life(desk.open(kind, clock=clock), clock)
        for deed in deeds:
            life.do(deed)
            log = log_of(life.engine)
            waiting = offered(life.engine)
            assert waiting == owed(log)
            left = _contentful(log, life.session.scope)
            if life.status == "destroyed" and not waiting:
                assert left == []
            else:
                assert len(left) == sum(event.type not in HEADERS for event in log)
        life.again()
        assert life.engine.admin.verify().problems == ()
        _check_copy(life.engine, desk)


def _check_copy(engine: Engine, desk: EngineDesk) -> None:
    """An export carries the outbox, and what is acknowledged there is gone there."""
    engine.admin.export(desk.folder / "export.jsonl")
    copy = desk.open("memory")
    copy.admin.import_(desk.folder / "export.jsonl")
    assert (log_of(copy), rows_of(copy), _outbox(copy)) == (log_of(engine), rows_of(engine), _outbox(engine))
    for entry in _outbox(copy):
        copy.admin.acknowledge(entry)
    assert _outbox(copy) == []
    assert copy.admin.verify().problems == ()


# What is asked of an entry


def _ended(engine: Engine, texts: int = 5) -> Session:
    """A session with a reset behind it, and another piece of history since."""
    session = engine.create_session("s")
    for part in range(2):
        for number in range(texts):
            session.record("user", f"{part}.{number}")
        session.reset() if part == 0 else session.destroy()
    return session


def test_a_conversation_in_which_nothing_was_said_leaves_nothing(engine: Engine) -> None:
    for number, end in enumerate(("reset", "end", "destroy")):
        getattr(engine.create_session(f"s{number}"), end)()
    assert engine.admin.outbox() == []
    assert engine.admin.verify().ok


@pytest.mark.parametrize("end", ["reset", "end"])
def test_a_result_that_came_after_the_last_end_is_offered_at_the_next(end: str, engine: Engine) -> None:
    session = engine.create_session("s")
    call = session.record("assistant", "working", tool_calls=[{"name": "read"}]).tool_calls[0]
    getattr(session, end)()
    session.result(call, "late")
    session.destroy()
    assert [[message.text for message in _history(engine, entry)][-1] for entry in engine.admin.outbox()] == [
        f"No result: {'reset' if end == 'reset' else 'done'}",
        "late",
    ]


@pytest.mark.parametrize("limit", [1, 2, 7, limits.READ_EVENTS])
def test_a_piece_of_history_is_read_in_pages_of_any_size(limit: int, engine: Engine) -> None:
    session = engine.create_session("s")
    call = session.record("assistant", "working", tool_calls=[{"name": "read"}]).tool_calls[0]
    session.close_calls("stop")
    session.result(call, "late")
    session.record("user", "gone")
    session.erase([5], "asked to")
    session.record_all([("user", f"message {number}") for number in range(12)])
    whole = [*session.messages(), *session.evidence()]
    session.destroy()
    [entry] = engine.admin.outbox()
    assert _history(engine, entry, limit) == sorted(whole, key=lambda message: message.seq)
    assert (entry.why, entry.first) == ("destroyed", 1)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_destroyed_session_is_erased_after_the_last_acknowledgement_in_any_order(
    order: tuple[int, int], engine: Engine
) -> None:
    session = _ended(engine)
    entries = engine.admin.outbox()
    for left, at in zip((1, 0), order, strict=True):
        assert _contentful(log_of(engine), session.scope)
        engine.admin.acknowledge(entries[at])
        assert len(engine.admin.outbox()) == left
    assert _contentful(log_of(engine), session.scope) == []
    assert engine.admin.verify().ok


def test_acknowledging_again_changes_nothing(engine: Engine) -> None:
    _ended(engine)
    entries = engine.admin.outbox()
    for entry in entries:
        engine.admin.acknowledge(entry, key=entry.key)
    before = contents(engine)
    for entry in entries:
        engine.admin.acknowledge(entry)
        engine.admin.acknowledge(entry, key=entry.key)
    assert contents(engine) == before


CHANGES: dict[str, dict[str, Any]] = {
    "another entry": {"entry": 3},
    "an entry to come": {"entry": 99},
    "a session that is none": {"scope": Scope("default", "main", "none")},
    "a thread that is none": {"scope": Scope("default", "main", "s", "t")},
}


@pytest.mark.parametrize("change", CHANGES)
def test_only_what_was_offered_can_be_acknowledged(change: str, engine: Engine) -> None:
    _ended(engine)
    entry = msgspec.structs.replace(engine.admin.outbox()[0], **CHANGES[change])
    before = contents(engine)
    with pytest.raises((errors.OffloadNotFound, errors.SessionNotFound)):
        engine.admin.acknowledge(entry)
    assert contents(engine) == before


def test_the_key_of_an_entry_is_its_own_and_stays(engine: Engine, desk: EngineDesk) -> None:
    names = sorted({name for pair in LOOKALIKES for name in pair})
    for number, name in enumerate(names):
        for place in ("actor", "thread", "session"):
            where: dict[str, Any] = {"session": "s", "actor": "a", place: name}
            session = engine.create_session(**where)
            for text in "ab":
                session.record("user", f"{number} {text}")
                session.reset()
    keys = {(entry.scope, entry.entry): entry.key for entry in _outbox(engine, 100)}
    assert len(set(keys.values())) == len(keys) == 6 * len(names)
    engine.admin.rebuild()
    engine.admin.export(desk.folder / "export.jsonl")
    copy = desk.open("sqlite", name="copy")
    copy.admin.import_(desk.folder / "export.jsonl")
    for each in (engine, copy):
        assert {(entry.scope, entry.entry): entry.key for entry in _outbox(each, 100)} == keys


# What is left behind


def _on_disk(folder: Path) -> list[str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path.name for path in files if SECRET.encode() in path.read_bytes())


def _full_of_secrets(engine: Engine) -> Session:
    """A session with the secret in every place that takes text."""
    session = engine.create_session("s", metadata={"note": SECRET}, idle_timeout_s=1e6)
    session.record("system", f"{SECRET} system")
    calls: list[dict[str, Any]] = [
        {"name": SECRET, "args": {SECRET: SECRET}, "id": f"{SECRET} {at}"} for at in range(3)
    ]
    message = session.record("assistant", SECRET, tool_calls=calls, metadata={SECRET: 1})
    session.result(message.tool_calls[0], (SECRET * 10_000).encode())
    session.result(message.tool_calls[1], {SECRET: [SECRET]})
    session.close_calls(SECRET)
    session.result(message.tool_calls[2], iter([SECRET.encode() * 10_000, b"late"]))
    for number in range(limits.SNAPSHOT_EVERY):
        session.record("user", f"{number} {SECRET} " + "x" * 300)
    draft = session.context.draft_summary()
    assert draft is not None
    session.context.summarize(draft, f"they spoke of {SECRET}")
    session.reset(f"{SECRET} is enough")
    session.record("user", [f"{SECRET} again", holdfast.File(engine.blobs.put(SECRET.encode() * 9), SECRET)])
    return session


@pytest.mark.parametrize("offload", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_of_a_destroyed_session_once_it_was_handed_over(
    kind: str, offload: bool, desk: EngineDesk
) -> None:
    engine = desk.open(kind, clock=ManualClock(LATE_S))
    session = _full_of_secrets(engine)
    engine.create_session("other").record("user", "stays")
    session.destroy(offload=offload)
    engine.admin.collect(grace_s=0)
    for entry in engine.admin.outbox():
        assert any(SECRET in message.text for message in _history(engine, entry, 100))
        assert len(blobs_of(engine)) == 3
        engine.admin.acknowledge(entry)
    assert _contentful(log_of(engine), session.scope) == []
    assert engine.admin.outbox() == []
    assert engine.admin.collect(grace_s=0) == 3
    assert blobs_of(engine) == []
    assert not any(SECRET in repr(row) for row in rows_of(engine))
    assert not any(SECRET.encode() in (event.payload or b"") for event in log_of(engine))
    snapshot = store_of(engine).snapshot(session.scope.stream)
    assert snapshot is not None
    assert SECRET.encode() not in snapshot.state
    if kind in SQLITE_KINDS:
        assert _on_disk(desk.folder) == []
    assert engine.admin.verify().ok
    engine.close()
    assert _on_disk(desk.folder) == []


@pytest.mark.parametrize("end", ["reset", "end"])
def test_a_reason_goes_also_when_all_else_was_erased_before(end: str, engine: Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "text")
    session.erase([1, 2], "asked to")
    getattr(session, end)(SECRET)
    session.destroy()
    for entry in engine.admin.outbox():
        engine.admin.acknowledge(entry)
    assert not any(SECRET.encode() in (event.payload or b"") for event in log_of(engine))


@pytest.mark.parametrize("fault", ["before", "after"])
@pytest.mark.parametrize("offload", [True, False])
def test_an_erasure_that_was_cut_short_is_finished_by_a_sweep(offload: bool, fault: Fault, engine: Engine) -> None:
    """Cut between the acknowledgement, or the destruction, and what follows from it."""
    session = engine.create_session("s")
    session.record("user", SECRET)
    if offload:
        session.destroy()
    entries = engine.admin.outbox()
    with replace_store(engine, FaultySecond(store_of(engine), fault)), pytest.raises(errors.StorageUnavailable):
        engine.admin.acknowledge(entries[0]) if offload else session.destroy(offload=False)
    assert engine.admin.outbox() == []
    assert bool(_contentful(log_of(engine), session.scope)) == (fault == "before")
    assert engine.admin.sweep() == SweepResult()
    assert _contentful(log_of(engine), session.scope) == []
    assert engine.admin.verify().ok
    before = contents(engine)
    engine.admin.sweep()
    assert contents(engine) == before


class FaultySecond(Faulty):
    """Lets one append through, and then fails the next."""

    def __init__(self, inner: Any, fault: Fault) -> None:
        super().__init__(inner)
        self._next: Fault | None = fault

    def append(self, append: Any) -> Any:
        appended = super().append(append)
        self.fault, self._next = self._next, None
        return appended


# Power loss


class Point(NamedTuple):
    """Something that was done: how long the log was then, and of which sessions nothing was left."""

    events: int
    gone: frozenset[str]


Recording: TypeAlias = DiskRecorder[Point]


def _live(engine: Engine, disk: Recording) -> None:
    """Sessions that are reset, closed, timed out and destroyed, and handed over in any order."""
    rng = Random(7)
    gone: set[str] = set()

    def note() -> None:
        disk.acknowledge(Point(store_of(engine).totals().events, frozenset(gone)))

    for number in range(8):
        session = engine.create_session(f"s{number}", metadata={"note": _text(number)}, idle_timeout_s=0.000_001)
        for part in range(3):
            for at in range(rng.randrange(3)):
                session.record("user", f"{_text(number)} {part} {at} " + "x" * rng.choice((0, 3_000)))
                note()
            if part < 2:
                session.reset()
                note()
        _end(engine, session, number)
        gone |= _erased_now(engine)
        note()
        for entry in rng.sample(engine.admin.outbox(), k=min(2, len(engine.admin.outbox()))):
            engine.admin.acknowledge(entry)
            gone |= _erased_now(engine)
            note()


def _end(engine: Engine, session: Session, number: int) -> None:
    ends: tuple[Callable[[], object], ...] = (
        session.end,
        engine.admin.sweep,
        session.destroy,
        lambda: session.destroy(offload=False),
    )
    ends[number % 4]()


def _text(number: int) -> str:
    return f"secret-of-{number}-"


def _erased_now(engine: Engine) -> set[str]:
    log = log_of(engine)
    return {row.session for row in engine.sessions(status="destroyed") if not _contentful(log, _scope(row.session))}


def _scope(name: str) -> Scope:
    return Scope("default", "main", name)


def _faults(disk: Recording, log: Sequence[StoredEvent], at: int, folder: Path) -> Iterator[str]:
    """What is wrong with what a cut left in this folder."""
    points = disk.acknowledgements(at)
    known = points[-1] if points else Point(0, frozenset())
    for name in known.gone:
        marks = _text(int(name[1:])).encode()
        if any(marks in path.read_bytes() for path in folder.rglob("*") if path.is_file()):
            yield f"{name} was erased, and can be read"
    with holdfast.open(folder / "agent.db") as engine:
        yield from map(str, engine.admin.verify().problems)
        found = log_of(engine)
        if [event.hash for event in found] != [event.hash for event in log[: len(found)]] or len(found) < known.events:
            yield f"{len(found)} of {known.events} acknowledged events are there"
        if found and len(found) < len(log) and found[-1].command == log[len(found)].command:
            yield "half a command is there"
        if offered(engine) != owed(found):
            yield "the outbox is not what the log says"
        engine.admin.sweep()
        waiting = {entry.scope.session for entry in _outbox(engine)}
        for row in engine.sessions(status="destroyed"):
            if row.session not in waiting and _contentful(log_of(engine), _scope(row.session)):
                yield f"{row.session} was not erased"
        yield from map(str, engine.admin.verify().problems)


@contextmanager
def _recorded() -> Iterator[tuple[Recording, list[StoredEvent], Path]]:
    with fast_folder() as folder:
        place = Path(folder) / "recorded"
        place.mkdir()
        disk: Recording = DiskRecorder(place)
        with open_on_tap(disk, place / "agent.db", clock=SteppingClock(), ids=RepeatableIds()) as engine:
            _live(engine, disk)
            log = log_of(engine)
        yield disk, log, Path(folder)


def test_no_power_loss_parts_an_end_from_its_entry_or_keeps_what_was_to_go() -> None:
    with _recorded() as (disk, log, folder):
        assert {event.type for event in log} >= {*OFFLOAD_EVENTS, "offload.acknowledged", "payloads.erased"}
        rng = Random(11)
        for number in range(CUTS):
            at = rng.randrange(disk.start, len(disk.log) + 1)
            left = folder / f"cut-{number}"
            write_files(cut_power(disk.log, at, rng), os.fspath(left))
            assert list(_faults(disk, log, at, left)) == [], f"cut {number} after operation {at} of {len(disk.log)}"
