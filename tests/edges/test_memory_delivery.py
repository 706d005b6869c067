"""The outbox on its way to long-term memory: each entry once, failures that delay nothing else, and workers that share."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import Engine, Identity
from holdfast.flows.memory import delivery
from holdfast.model import limits
from holdfast.model.memory.deliveries import Delivery
from holdfast.model.memory.passages import MemorySubject
from holdfast.model.memory.recall import ForgetReport, SessionHistory
from holdfast.runtime import worker as worker_module
from tests.edges.cli import COMMAND, CommandRunner
from tests.edges.engines import ManualClock
from tests.support import PATIENCE_S

SECRET = "the-secret-4e1d"
HOUR_S = 3_600.0


class RecordingMemory:
    """A memory that keeps what it took, after `before` had its say."""

    name = "recording"

    def __init__(self, before: Callable[[SessionHistory], object] = lambda _: None) -> None:
        self.before = before
        self.taken: list[SessionHistory] = []
        self.forgotten: list[MemorySubject] = []

    def take(self, history: SessionHistory) -> Any:
        answer = self.before(history)
        self.taken.append(history)
        return answer

    def recall(self, *_: object, **__: object) -> Any:
        return ()

    def bootstrap(self, *_: object) -> Any:
        return ()

    def forget(self, subject: MemorySubject) -> ForgetReport:
        self.forgotten.append(subject)
        return ForgetReport(passages=0)


def fail(_: object) -> None:
    raise RuntimeError(f"cannot store {SECRET}")


def open_engine(memory: Any = None, **options: Any) -> tuple[Engine, ManualClock]:
    clock = ManualClock()
    return holdfast.open("memory:", clock=clock, memory=memory, **options), clock


def end_session(engine: Engine, name: str = "s", texts: tuple[str, ...] = ("Hello.",)) -> None:
    session = engine.create_session(name, user="ada")
    for text in texts:
        session.record("user", text)
    session.end()


# What is delivered


def test_the_built_in_memory_takes_a_conversation_and_learns_from_it() -> None:
    engine, _ = open_engine()
    with engine:
        end_session(engine, texts=("My address is 4 Fir Road.", "It rains in Lisbon."))
        report = engine.memory.deliver()
        assert [entry.scope.session for entry in report.delivered] == ["s"]
        assert (report.failed, report.facts, report.pending) == ((), 1, 0)
        assert engine.memory.totals(user="ada").passages == 2
        assert engine.admin.outbox() == []
        assert engine.memory.deliver() == holdfast.types.DeliveryReport()


def test_a_destroyed_session_is_erased_after_its_delivery() -> None:
    engine, _ = open_engine()
    with engine:
        session = engine.create_session("s", user="ada")
        session.record("user", SECRET)
        session.destroy()
        engine.memory.deliver()
        assert engine.memory.totals(user="ada").passages == 1
        events = engine.admin.feed(limit=1_000).events
        assert all(event.payload is None for event in events if event.type == "message.recorded")


def test_a_memory_of_the_caller_gets_parts_with_their_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DELIVERY_MESSAGES", 3)
    memory = RecordingMemory()
    engine, _ = open_engine(memory)
    with engine:
        session = engine.create_session("s", user="ada")
        for number in range(7):
            session.record("user", f"message {number}")
        session.withdraw()
        session.situation.update({"goal": "reach Lisbon"})
        session.reset("again")
        (entry,) = engine.admin.outbox()
        engine.memory.deliver()
        assert [part.key for part in memory.taken] == [f"{entry.key}.{part}" for part in range(3)]
        assert [[each.text for each in part.messages] for part in memory.taken] == [
            ["message 0", "message 1", "message 2"],
            ["message 3", "message 4", "message 5"],
            [],
        ]
        assert [part.is_last for part in memory.taken] == [False, False, True]
        assert [part.situation for part in memory.taken] == [{}, {}, {"goal": "reach Lisbon"}]
        assert {part.why for part in memory.taken} == {"reset"}


def test_the_words_of_two_users_come_apart() -> None:
    memory = RecordingMemory()
    engine, _ = open_engine(memory)
    with engine:
        session = engine.create_session("s", user="ada")
        session.record("user", "I am Ada.")
        session.refresh_identity(Identity(user_id="ben", user_name="Ben"))
        session.record("user", "I am Ben.")
        session.end()
        engine.memory.deliver()
        assert [(part.identity.user_id, part.messages[0].text) for part in memory.taken] == [
            ("ada", "I am Ada."),
            ("ben", "I am Ben."),
        ]


def test_a_conversation_without_messages_left_is_acknowledged() -> None:
    memory = RecordingMemory()
    engine, _ = open_engine(memory)
    with engine:
        session = engine.create_session("s", user="ada")
        session.record("user", "Never mind.")
        session.withdraw()
        session.end()
        assert len(engine.memory.deliver().delivered) == 1
        assert memory.taken == []


# Failures


def test_a_failing_memory_delays_entries_longer_each_time_and_sets_them_aside() -> None:
    memory = RecordingMemory(fail)
    engine, clock = open_engine(memory)
    with engine:
        end_session(engine)
        pauses: list[float] = []
        for attempt in range(1, limits.DELIVERY_TRIES + 1):
            (failed,) = engine.memory.deliver().failed
            assert failed.attempts == attempt
            assert engine.memory.deliver().failed == (), "it is not due"
            pauses.append(failed.next_us / 1e6 - clock.now_s)
            clock.now_s += pauses[-1]
        assert pauses == [min(2.0**number, limits.DELIVERY_LONGEST_PAUSE_S) for number in range(limits.DELIVERY_TRIES)]
        clock.now_s += 100 * HOUR_S
        assert engine.memory.deliver() == holdfast.types.DeliveryReport()
        (set_aside,) = engine.memory.backlog().set_aside
        assert set_aside.error.startswith("take: RuntimeError at test_memory_delivery.py:")
        assert SECRET not in repr(engine.memory.backlog())
        memory.before = lambda _: None
        engine.memory.requeue(set_aside)
        assert len(engine.memory.deliver().delivered) == 1
        assert engine.memory.backlog() == holdfast.types.DeliveryBacklog()


def test_a_poison_entry_stops_no_other_one() -> None:
    memory = RecordingMemory(lambda history: fail(history) if history.scope.session == "b" else None)
    engine, _ = open_engine(memory)
    with engine:
        for name in "abc":
            end_session(engine, name)
        report = engine.memory.deliver()
        assert [entry.scope.session for entry in report.delivered] == ["a", "c"]
        assert [failed.offload.scope.session for failed in report.failed] == ["b"]
        assert report.pending == 1


@pytest.mark.parametrize("answer", [True, False, "stored", {"id": 1}, SECRET])
def test_whatever_a_memory_returns_but_none_is_a_failure(answer: object) -> None:
    engine, _ = open_engine(RecordingMemory(lambda _: answer))
    with engine:
        end_session(engine)
        (failed,) = engine.memory.deliver().failed
        assert failed.error.startswith("take: MemoryFailed")
        assert SECRET not in failed.error


def test_a_memory_that_hangs_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DELIVERY_TIMEOUT_S", 0.05)
    engine, _ = open_engine(RecordingMemory(lambda _: time.sleep(0.3)))
    with engine:
        end_session(engine)
        (failed,) = engine.memory.deliver().failed
        assert failed.error.startswith("take: TimeoutError")


class AwaitedMemory(RecordingMemory):
    async def take(self, history: SessionHistory) -> Any:
        await asyncio.sleep(0)
        return super().take(history)


def test_a_coroutine_function_needs_an_event_loop() -> None:
    memory: Any = AwaitedMemory()
    engine, _ = open_engine(memory)
    with engine:
        end_session(engine)
        (failed,) = engine.memory.deliver().failed
        assert "InvalidArgument" in failed.error

    async def run() -> None:
        async with await holdfast.open_async("memory:", memory=memory) as awaited:
            session = await awaited.create_session("s", user="ada")
            await session.record("user", "Hello.")
            await session.end()
            assert len((await awaited.memory.deliver()).delivered) == 1

    asyncio.run(run())
    assert [part.messages[0].text for part in memory.taken] == ["Hello."]


def test_a_damaged_session_stops_no_other_one() -> None:
    engine, _ = open_engine()
    with engine:
        for name in "abc":
            end_session(engine, name)
        streams: Any = engine.store._streams  # type: ignore[attr-defined]
        for stream, events in streams.items():
            if "b" in stream.key:
                at = next(number for number, event in enumerate(events) if event.type == "message.recorded")
                events[at] = msgspec.structs.replace(events[at], payload=b"\x00 damaged")
        report = engine.memory.deliver()
        assert [entry.scope.session for entry in report.delivered] == ["a", "c"]
        assert len(report.failed) == 1


class FailingExtractor:
    name = "failing"

    def __init__(self) -> None:
        self.calls = 0

    def extract(self, _: object) -> Any:
        self.calls += 1
        raise ConnectionError(SECRET)


def test_an_extractor_that_keeps_failing_is_left_to_the_rules() -> None:
    extractor = FailingExtractor()
    engine, clock = open_engine(extractor=extractor)
    with engine:
        end_session(engine, texts=("My address is 4 Fir Road.",))
        for _ in range(limits.EXTRACTION_TRIES):
            (failed,) = engine.memory.deliver().failed
            assert failed.error.startswith("learn: ConnectionError")
            clock.now_s += HOUR_S
        assert engine.memory.deliver().facts == 1
        assert extractor.calls == limits.EXTRACTION_TRIES
        assert engine.memory.backlog().waiting == ()


def test_an_entry_that_ends_every_worker_is_set_aside() -> None:
    engine, clock = open_engine()
    with engine:
        end_session(engine)
        for _ in range(limits.DELIVERY_TRIES):  # each of them dies with its claim
            assert engine._drive(delivery.claim_next(engine._context, owner="dying")) is not None
            clock.now_s += HOUR_S
        (failed,) = engine.memory.deliver().failed
        assert failed.is_set_aside
        assert "none of them came to an end" in failed.error


# Claims


def test_a_claim_is_kept_while_parts_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "DELIVERY_MESSAGES", 1)
    others: list[int] = []

    def time_left() -> int:
        (claimed,) = engine.memory.backlog().waiting
        return claimed.until_us - clock.now_us()

    def take_long(_: object) -> None:
        clock.now_s += limits.DELIVERY_LEASE_S * 0.8
        others.append(len(engine.memory.deliver().delivered))

    memory = RecordingMemory(take_long)
    engine, clock = open_engine(memory)
    with engine:
        end_session(engine, texts=("one", "two", "three", "four"))
        assert len(engine.memory.deliver().delivered) == 1
        assert others == [0, 0, 0, 0]
        assert len(memory.taken) == 4


def test_a_worker_that_lost_its_claim_stops_quietly() -> None:
    inside: list[Any] = []

    def hang(_: object) -> None:
        if not inside:
            clock.now_s += 2 * limits.DELIVERY_LEASE_S
            inside.append(None)
            inside[0] = engine.memory.deliver()

    memory = RecordingMemory(hang)
    engine, clock = open_engine(memory)
    with engine:
        end_session(engine)
        report = engine.memory.deliver()
        assert (report.delivered, report.failed) == ((), ())
        assert len(inside[0].delivered) == 1
        assert len({part.key for part in memory.taken}) == 1
        acknowledged = [each for each in engine.admin.feed(limit=100).events if each.type == "offload.acknowledged"]
        assert len(acknowledged) == 1


def test_an_entry_that_somebody_acknowledges_meanwhile_is_let_go() -> None:
    memory = RecordingMemory(lambda _: [engine.admin.acknowledge(entry) for entry in engine.admin.outbox()] and None)
    engine, clock = open_engine(memory)
    with engine:
        end_session(engine)
        clock.now_s += 1
        report = engine.memory.deliver()
        assert report.failed == ()
        assert engine.memory.backlog().waiting == ()


def test_what_is_forgotten_while_a_worker_takes_it_is_taken_back() -> None:
    engine, _ = open_engine()
    with engine:
        end_session(engine, texts=("It rains in Lisbon.",))
        store: Any = engine.store
        take = store.take_passages

        def forget_first(*args: Any) -> Any:
            engine.memory.forget(user="ada")
            return take(*args)

        store.take_passages = forget_first
        assert engine.memory.deliver().delivered == ()
        assert engine.memory.totals(user="ada").passages == 0
        assert engine.admin.outbox() == []


def test_a_memory_of_the_caller_is_told_to_forget_what_it_took_too_late() -> None:
    def forget(_: object) -> None:
        engine.memory.forget(user="ada")

    memory = RecordingMemory(forget)
    engine, _ = open_engine(memory)
    with engine:
        end_session(engine)
        assert engine.memory.deliver().delivered == ()
        assert [(subject.user, subject.scope is None) for subject in memory.forgotten] == [("ada", True), ("", False)]
        assert memory.taken[0].messages[0].seq in memory.forgotten[1].seqs


# Workers


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_worker_delivers_what_ends_while_it_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(worker_module, "CALM_S", 0.01)
    for url in ("memory:", str(tmp_path / "store.db")):
        with holdfast.open(url) as engine:
            with engine.worker(every_s=HOUR_S):
                for name in "ab":
                    end_session(engine, name)
                    wait_until(lambda: not engine.admin.outbox())
            end_session(engine, "c")
            assert len(engine.admin.outbox()) == 1, "nobody works any more"


def test_a_worker_for_an_event_loop(tmp_path: Path) -> None:
    memory: Any = AwaitedMemory()

    async def run() -> None:
        async with await holdfast.open_async(str(tmp_path / "store.db"), memory=memory) as engine:
            async with engine.worker(every_s=HOUR_S):
                session = await engine.create_session("s", user="ada")
                await session.record("user", "Hello.")
                await session.end()
                while await engine.admin.outbox():  # noqa: ASYNC110 - a test looks from outside
                    await asyncio.sleep(0.01)
            assert (await engine.worker().run_once()).delivered == ()

    asyncio.run(asyncio.wait_for(run(), PATIENCE_S))
    assert len(memory.taken) == 1


def test_the_program_goes_on_and_the_log_says_why_without_contents(caplog: pytest.LogCaptureFixture) -> None:
    engine, _ = open_engine(RecordingMemory(fail))
    with engine, caplog.at_level(logging.WARNING, "holdfast.worker"), engine.worker(every_s=0.01):
        end_session(engine)
        wait_until(lambda: bool(engine.memory.backlog().waiting[0].error))
        assert engine.create_session("t", user="ada").record("user", "Still there.").seq
    assert "was not delivered (try 1)" in caplog.text
    assert SECRET not in caplog.text


def test_a_worker_survives_a_broken_store_and_ends_with_a_closed_one(caplog: pytest.LogCaptureFixture) -> None:
    engine, _ = open_engine()
    worker = engine.worker(every_s=0.01)
    broken: Any = engine.store
    claim = broken.claim_offloads

    def refuse(*_: object, **__: object) -> Any:
        raise ValueError(SECRET)

    with caplog.at_level(logging.ERROR, "holdfast.worker"), worker:
        end_session(engine)
        wait_until(lambda: not engine.admin.outbox())
        broken.claim_offloads = refuse
        wait_until(lambda: "ValueError" in caplog.text)
        broken.claim_offloads = claim
        end_session(engine, "t")
        wait_until(lambda: not engine.admin.outbox())
        engine.close()
        assert worker._thread is not None
        worker._thread.join(PATIENCE_S)
        assert not worker._thread.is_alive()
    assert SECRET not in caplog.text


def test_a_claim_is_renewed_while_one_long_take_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "RENEWAL_S", 0.01)
    seen: list[int] = []

    def time_left() -> int:
        (claimed,) = engine.memory.backlog().waiting
        return claimed.until_us - clock.now_us()

    def take_long(_: object) -> None:
        for _ in range(20):
            clock.now_s += limits.DELIVERY_LEASE_S / 4
            seen.append(time_left())
            wait_until(lambda: time_left() > seen[-1])

    engine, clock = open_engine(RecordingMemory(take_long))
    with engine:
        end_session(engine)
        assert len(engine.worker().run_once().delivered) == 1
        assert min(seen) > 0, "somebody else could have claimed it"


@pytest.mark.parametrize("options", [{"every_s": 0}, {"every_s": "1"}, {"limit": 0}, {"limit": True}])
def test_a_worker_refuses_what_makes_no_sense(options: dict[str, Any]) -> None:
    engine, _ = open_engine()
    with engine, pytest.raises(holdfast.errors.InvalidInput):
        engine.worker(**options)


def test_a_pause_of_nothing_is_named_as_such() -> None:
    engine, _ = open_engine()
    with engine, pytest.raises(holdfast.errors.InvalidArgument, match="0 is not a number of seconds above 0"):
        engine.worker(every_s=0)


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"roles": "user"}, "roles"),
        ({"roles": ["users"]}, "roles"),
        ({"sessions": "monday"}, "sessions"),
        ({"since": datetime(2026, 2, 1)}, "since"),  # noqa: DTZ001 - the mistake
        ({"since": datetime(2026, 2, 1, tzinfo=UTC), "until": datetime(2026, 1, 1, tzinfo=UTC)}, "until"),
    ],
)
def test_a_wrong_range_names_its_argument(options: dict[str, Any], argument: str) -> None:
    engine, _ = open_engine()
    with engine, pytest.raises(holdfast.errors.InvalidArgument, match=f"`{argument}`"):
        engine.memory.recall("lamp", user="ada", **options)


def test_only_a_session_of_this_tenant_is_forgotten_by_its_scope() -> None:
    engine, _ = open_engine()
    with engine:
        scope = engine.session("s", create=True).scope
        with pytest.raises(holdfast.errors.InvalidArgument, match="`session`: 'monday' is not a"):
            engine.memory.forget(session="monday")  # type: ignore[arg-type]
        with pytest.raises(holdfast.errors.SessionNotFound):
            engine.memory.forget(session=msgspec.structs.replace(scope, tenant="other"))


def test_a_session_with_a_memory_has_one_user() -> None:
    engine, _ = open_engine()
    with engine, pytest.raises(holdfast.errors.InvalidArgument, match="its user_id is 'bo', but the user is 'ada'"):
        engine.session("s", user="ada", identity=Identity(user_id="bo"), memory=True, create=True)


class PlainStore:
    """A store without one of its methods."""

    def __init__(self, store: Any, missing: str) -> None:
        self._store = store
        self._missing = missing

    def __getattr__(self, name: str) -> Any:
        if name == self._missing:
            raise AttributeError(name)
        return getattr(self._store, name)


def test_a_worker_needs_a_store_that_has_a_queue_and_an_index() -> None:
    engine, _ = open_engine()
    with engine:
        for missing, feature in (("claim_offloads", "DeliveryQueue"), ("take_passages", "PassageIndex")):
            plain: Any = PlainStore(engine.store, missing)
            derived = engine.acting_as()
            derived.store = plain
            with pytest.raises(holdfast.errors.StoreFeatureMissing, match=feature):
                derived.worker()


def test_a_stranger_cannot_be_requeued() -> None:
    engine, _ = open_engine()
    with engine:
        end_session(engine)
        (entry,) = engine.memory.backlog().waiting
        stranger: Any = engine.acting_as(tenant="other")
        for wrong in (entry, None, entry.offload):
            with pytest.raises(holdfast.errors.InvalidInput):
                stranger.memory.requeue(wrong)
        assert isinstance(entry, Delivery)


# The command line


@pytest.fixture
def commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    path = tmp_path / "store.db"
    with holdfast.open(str(path)) as engine:
        for name in ("one", "two"):
            end_session(engine, name, ("My address is 4 Fir Road.",))
    return CommandRunner(path, capsys)


def test_the_command_delivers_what_is_due(commands: CommandRunner) -> None:
    assert [each["session"] for each in commands("memory", "backlog", "--json").documents] == ["one", "two"]
    assert commands("worker", "--once").out == "2 conversations delivered, 1 fact learned, 0 waiting.\n"
    assert commands("worker", "--once", "--json").document == {"delivered": [], "failed": [], "facts": 0, "pending": 0}
    assert commands("memory", "backlog").out == "Nothing waits for long-term memory.\n"


def test_the_doctor_shows_what_was_set_aside_and_a_command_requeues_it(
    commands: CommandRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "DELIVERY_TRIES", 1)
    with holdfast.open(str(commands.path), memory=RecordingMemory(fail)) as engine:
        engine.memory.deliver(limit=1)
    found = commands("doctor").out
    assert "1 set aside after too many failures in 1 session: one; the first: take: RuntimeError" in found
    assert "holdfast memory backlog" in found
    assert commands("memory", "backlog", "--json").documents[0]["is_set_aside"]
    listed = commands("memory", "backlog", "--requeue", "--json").documents
    assert [(each["is_set_aside"], each["attempts"]) for each in listed] == [(False, 0), (False, 0)]
    assert "2 conversations delivered" in commands("worker", "--once").out


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_worker_cleanly(commands: CommandRunner, number: signal.Signals) -> None:
    command = [*COMMAND, "worker", "--file", str(commands.path), "--every", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "2 conversations delivered, 1 fact learned, 0 waiting.\n"
        process.send_signal(number)
        rest, problems = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, rest, problems) == (0, "", "")
