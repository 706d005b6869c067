"""A desk with work on it, the steps that are taken there, and the process that takes one and dies in the middle of it.

The same desk is laid in every store, by a clock and with ids that are the same in every run: so what stands there after a
step is known, byte for byte, before the step is taken.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias, cast

import apsw
import msgspec
import pytest

import holdfast
from holdfast import Engine, Frame, Plan, Session, Text, Usage
from holdfast.adapters.system import RandomIds
from holdfast.errors import (
    AlreadySuspended,
    AlreadyTerminal,
    CallAnswered,
    OutcomeUnknown,
    TokenConsumed,
    TokenRevokedError,
)
from holdfast.model.log import Append, AppendResult
from holdfast.model.names import Scope
from holdfast.ports import EventStore, IdSource
from holdfast.storage.sqlite.store import SqliteStore
from holdfast.types import Data, SummarizeOldest, Summary
from tests.crash.worker import die, serve_nursery
from tests.support import CountingIds, SteppingClock

PREPARED_US = 1_700_000_000_000_000
WORK_US = PREPARED_US + 1_000_000
SUCCESSOR_US = WORK_US + 1_000_000


class ProcessIds(CountingIds):
    """Those of one process; no two processes have the same."""

    def __init__(self, start: int = 0) -> None:
        super().__init__()
        self._count = start

    def secret(self) -> bytes:
        self._count += 1
        return self._count.to_bytes(32, "big")


FIRST_WORKER_ID = 1_000_000
LOST_TOKEN = "hfs_" + base64.urlsafe_b64encode((FIRST_WORKER_ID + 1).to_bytes(32, "big")).rstrip(b"=").decode()
"""What a step would have told if its reply had come: the first secret of the process that takes it."""


# The desk


class FrameDesk(msgspec.Struct, frozen=True):
    """A tree of frames, one of them suspended, with a call that was started and one that was not."""

    tenant: str
    root: str
    reader: str
    digger: str
    """Below the reader."""
    asker: str
    """Suspended."""
    writer: str
    reservation: str
    token: str
    fresh: str
    """The call that was not started."""
    begun: str
    """The call that was, and has no result."""
    asked: str
    """A piece of the root's conversation, in view."""
    paged: str
    """One that is paged out."""

    @property
    def scope(self) -> Scope:
        return Scope(self.tenant, "main", "work", None)


def lay_desk(engine: Engine, tenant: str) -> FrameDesk:
    session = engine.create_session("work")
    root = session.frame("Compare the vendors", budget=10_000)
    reservation = root.budget.reserve("brief", 500)
    root.budget.use(200)
    root.record("user", "Which one?")
    reader = root.frame("Read the offer", budget=3_000, timeout_s=3_600)
    reader.budget.use(Usage(600, 100))
    reader.handles.add("document", "The offer.", source="offer")
    digger = reader.frame("Dig deeper", budget=500)
    digger.budget.reserve("look", 50)
    digger.budget.use(70)
    asker = root.frame("Ask for approval", budget=400)
    token = asker.suspend("approval")
    writer = root.frame("Write it up", budget=900, inputs={"form": "a page"})
    writer.budget.use(333)
    pay: list[dict[str, object]] = [{"name": "pay", "args": {"amount": amount}} for amount in (1, 2)]
    fresh, begun = reader.record("assistant", "I pay.", tool_calls=pay, usage=Usage(90, 10)).tool_calls
    reader.start_call(begun)
    asked, paged = record_talk(root)
    root.handles.page_out(paged)
    return FrameDesk(
        tenant=tenant,
        root=root.id,
        reader=reader.id,
        digger=digger.id,
        asker=asker.id,
        writer=writer.id,
        reservation=reservation.id,
        token=str(token),
        fresh=fresh.id,
        begun=begun.id,
        asked=asked,
        paged=paged,
    )


def record_talk(frame: Frame) -> list[str]:
    """A conversation that can be folded; the handles of what was asked."""
    handles = []
    for text in ("And the price?", "And the terms?"):
        handles.append(f"h{frame.record('user', f'{text} Please look it up. ' * 30).seq}_0")
        frame.record("assistant", "As I read it, it is fair. " * 30)
    return handles


def as_preparer(engine: Engine, tenant: str) -> Engine:
    """A store, as seen by the process that lays the desk."""
    return _open_as(engine, tenant, PREPARED_US, ProcessIds())


def as_worker(engine: Engine, tenant: str) -> Engine:
    """… by the process that takes the step."""
    return _open_as(engine, tenant, WORK_US, ProcessIds(FIRST_WORKER_ID))


def as_successor(engine: Engine, tenant: str) -> Engine:
    """… by whoever comes next."""
    return _open_as(engine, tenant, SUCCESSOR_US, RandomIds())


def _open_as(engine: Engine, tenant: str, now_us: int, ids: IdSource) -> Engine:
    context = msgspec.structs.replace(engine._context, tenant=tenant, clock=SteppingClock(now_us), ids=ids)
    return Engine(engine.store, engine._blob_store, context)


# The steps

PendingWork: TypeAlias = tuple[str, str | None, str | None]
"""What is pending: its kind, its frame, its call."""


def initial_pending(desk: FrameDesk) -> set[PendingWork]:
    """What is pending at the desk as it was laid."""
    return {
        ("waiting_for_subcall", desk.root, None),
        ("waiting_for_subcall", desk.reader, None),
        ("waiting_for_user", desk.asker, None),
        ("tool_not_started", desk.reader, desk.fresh),
        ("tool_in_progress", desk.reader, desk.begun),
    }


def no_pending(desk: FrameDesk) -> set[PendingWork]:
    return set()


class Step(NamedTuple):
    """Something that is done at the desk. A step that is stored adds to the pending work, and takes some away."""

    take: Callable[[Engine, Session, FrameDesk], object]
    again: Callable[[Engine, Session, FrameDesk, bool], None]
    """What whoever comes after the crash does about it, given whether it was stored; it asserts what comes of that."""
    adds: Callable[[FrameDesk], set[PendingWork]] = no_pending
    drops: Callable[[FrameDesk], set[PendingWork]] = no_pending


def push_root(engine: Engine, session: Session, desk: FrameDesk) -> str:
    return session.frame("Another errand", budget=70, timeout_s=5, key="push").id


def push_child(engine: Engine, session: Session, desk: FrameDesk) -> str:
    return session.frames.get(desk.writer).frame("Draft", budget=400, inputs={"n": 1}, key="push").id


def check_push(push: Callable[[Engine, Session, FrameDesk], str]) -> Callable[[Engine, Session, FrameDesk, bool], None]:
    def again(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
        there = [each.id for each in session.frames.list(limit=1_000)]
        frame = push(engine, session, desk)
        assert (frame in there) == stored
        assert push(engine, session, desk) == frame
        assert len(session.frames.list(limit=1_000)) == len(there) + (not stored)

    return again


def start(engine: Engine, session: Session, desk: FrameDesk) -> object:
    return session.start_call(desk.fresh)


def check_start(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
    """An intent without an outcome: nothing repeats it unasked, and who asks does so under the key of the first time."""
    if stored:
        with pytest.raises(OutcomeUnknown) as refused:
            session.start_call(desk.fresh)
        assert (refused.value.attempts, refused.value.key) == (1, key_of(desk))
    started = session.start_call(desk.fresh, again=stored)
    assert (started.attempt, started.args, started.key) == (1 + stored, {"amount": 1}, key_of(desk))
    session.result(desk.fresh, "paid")
    assert desk.fresh not in {each.call for each in session.recover().pending_work}


def key_of(desk: FrameDesk) -> str:
    """The key that the fresh call is started under, whoever starts it."""
    with as_preparer(holdfast.open("memory:"), desk.tenant) as engine:
        lay_desk(engine, desk.tenant)
        return engine.session("work").start_call(desk.fresh).key


def answer(engine: Engine, session: Session, desk: FrameDesk) -> object:
    return session.result(desk.begun, {"paid": 2}, key="result")


def check_answer(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
    count = session.state().messages
    first = session.result(desk.begun, {"paid": 2}, key="result")
    assert session.result(desk.begun, {"paid": 2}, key="result") == first
    assert session.state().messages == count + (not stored)
    assert [call.id for call in session.state().open_calls] == [desk.fresh]


def commit(engine: Engine, session: Session, desk: FrameDesk) -> object:
    return session.frames.get(desk.root).budget.commit(desk.reservation, 321, key="commit")


def check_commit(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
    commit(engine, session, desk)
    budget = session.frames.get(desk.root).state().budget
    assert (budget.used, budget.reserved) == (200 + 321, 0)


def grant(engine: Engine, session: Session, desk: FrameDesk) -> object:
    return session.frames.get(desk.reader).budget.grant(45, key="grant")


def check_grant(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
    grant(engine, session, desk)
    assert session.frames.get(desk.reader).state().budget.total == 3_045
    assert session.frames.get(desk.root).state().budget.delegated == 3_045 + 400 + 900


def suspend(engine: Engine, session: Session, desk: FrameDesk) -> object:
    return session.frames.get(desk.reader).suspend("night", cascade=True)


def check_suspend(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
    """The token was lost with its reply, or there never was one. Another one works, and it alone."""
    reader = session.frames.get(desk.reader)
    if stored:
        with pytest.raises(AlreadySuspended):
            reader.suspend("night", cascade=True)
    else:
        reader.suspend("night", cascade=True)
    asleep = {each.id for each in session.frames.list(status="suspended")}
    assert asleep == {desk.reader, desk.digger, desk.asker}
    token = reader.reissue()
    if stored:
        with pytest.raises(TokenRevokedError):
            engine.resume(LOST_TOKEN)
    assert engine.resume(token).id == desk.reader
    with pytest.raises(TokenConsumed):
        engine.resume(token)
    assert [each.id for each in session.frames.list(status="suspended")] == [desk.asker]


def reissue(engine: Engine, session: Session, desk: FrameDesk) -> object:
    return session.frames.get(desk.asker).reissue()


def check_reissue(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
    """Exactly one token wakes the frame: the old one, or the one that was lost."""
    dead, alive = (desk.token, LOST_TOKEN) if stored else (LOST_TOKEN, desk.token)
    with pytest.raises(TokenRevokedError if stored else holdfast.errors.TokenInvalid):
        engine.resume(dead)
    assert engine.resume(alive).id == desk.asker


def resume(engine: Engine, session: Session, desk: FrameDesk) -> object:
    return engine.resume(desk.token)


def check_resume(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
    if stored:
        with pytest.raises(TokenConsumed):
            engine.resume(desk.token)
    else:
        assert engine.resume(desk.token).id == desk.asker
    assert session.frames.get(desk.asker).state().status == "active"
    assert engine.suspended() == []


def pop_child(engine: Engine, session: Session, desk: FrameDesk) -> object:
    return session.frames.get(desk.writer).pop("completed", "written", result={"pages": 1})


def check_pop_child(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
    pop_child(engine, session, desk)
    with pytest.raises(AlreadyTerminal):
        session.frames.get(desk.writer).pop("completed", "written otherwise")
    root = session.frames.get(desk.root).state()
    assert (root.budget.used, root.budget.delegated) == (200 + 333, 3_000 + 400)
    assert [(each.frame, each.status) for each in root.result_refs] == [(desk.writer, "completed")]
    (handle,) = session.frames.get(desk.root).handles.attachments()
    assert session.handles.parts(handle) == (Text("written"), Data({"pages": 1}))


def pop_root(engine: Engine, session: Session, desk: FrameDesk) -> object:
    return session.frames.get(desk.root).pop("failed", "enough", cascade=True)


def check_pop_root(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
    pop_root(engine, session, desk)
    with pytest.raises(AlreadyTerminal):
        session.frames.get(desk.root).pop("completed", "enough", cascade=True)
    ended = {each.id: (each.status, each.budget.used) for each in session.frames.list()}
    assert ended == {
        desk.root: ("failed", 200 + 333 + 700 + 100 + 70),
        desk.reader: ("cancelled", 700 + 100 + 70),
        desk.digger: ("cancelled", 70),
        desk.asker: ("cancelled", 0),
        desk.writer: ("cancelled", 333),
    }
    with pytest.raises(TokenRevokedError):
        engine.resume(desk.token)


def reset(engine: Engine, session: Session, desk: FrameDesk) -> object:
    return session.reset("a new day", key="reset")


def check_reset(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
    reset(engine, session, desk)
    assert {each.status for each in session.frames.list()} == {"cancelled"}
    with pytest.raises(CallAnswered):
        session.start_call(desk.fresh)
    with pytest.raises(TokenRevokedError):
        engine.resume(desk.token)


def recover(engine: Engine, session: Session, desk: FrameDesk) -> object:
    return session.recover()


def check_recover(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
    first, second = session.recover(), session.recover()
    assert (first.pending_work, first.frame_stack) == (second.pending_work, second.frame_stack)
    assert second.last_event_seq == first.last_event_seq + 1


def compact(engine: Engine, session: Session, desk: FrameDesk) -> Plan:
    return session.frames.get(desk.root).context.compact(
        strategy=SummarizeOldest(keep_recent=1), window=8_000, key="compact"
    )


def check_compact(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
    frame = session.frames.get(desk.root)
    assert isinstance(frame.context.view().items[0], Summary) == stored
    done = compact(engine, session, desk)
    assert [item.seq for item in frame.context.view().items if isinstance(item, Summary)] == [done.at]
    assert compact(engine, session, desk).at == done.at
    assert frame.handles.list() == []


def page_out(engine: Engine, session: Session, desk: FrameDesk) -> object:
    return session.handles.page_out(desk.asked, key="page out")


def page_in(engine: Engine, session: Session, desk: FrameDesk) -> object:
    return session.handles.page_in(desk.paged, key="page in")


def check_page(move: Callable[[Engine, Session, FrameDesk], object], out: bool) -> Callable[..., None]:
    """A piece is in view or out of it, and comes back as it was."""

    def again(engine: Engine, session: Session, desk: FrameDesk, stored: bool) -> None:
        frame = session.frames.get(desk.root)
        laid = [desk.paged]
        after = [desk.asked, desk.paged] if out else []
        assert [each.id for each in frame.handles.list()] == (after if stored else laid)
        for _ in range(2):
            move(engine, session, desk)
            assert [each.id for each in frame.handles.list()] == after
        for handle in (desk.asked, desk.paged):
            assert session.handles.page_in(handle).residency == "resident"
        assert "paged out" not in str(frame.context.render("text"))

    return again


STEPS: dict[str, Step] = {
    "push a root": Step(push_root, check_push(push_root)),
    "push a child": Step(
        push_child, check_push(push_child), adds=lambda desk: {("waiting_for_subcall", desk.writer, None)}
    ),
    "tool intent": Step(
        start,
        check_start,
        adds=lambda desk: {("tool_in_progress", desk.reader, desk.fresh)},
        drops=lambda desk: {("tool_not_started", desk.reader, desk.fresh)},
    ),
    "tool outcome": Step(answer, check_answer, drops=lambda desk: {("tool_in_progress", desk.reader, desk.begun)}),
    "commit": Step(commit, check_commit),
    "grant": Step(grant, check_grant),
    "suspend": Step(suspend, check_suspend, adds=lambda desk: {("waiting_for_user", desk.reader, None)}),
    "reissue": Step(reissue, check_reissue),
    "resume": Step(resume, check_resume, drops=lambda desk: {("waiting_for_user", desk.asker, None)}),
    "pop a child": Step(pop_child, check_pop_child),
    "pop a root and all below": Step(
        pop_root,
        check_pop_root,
        drops=lambda desk: initial_pending(desk) - {("tool_in_progress", desk.reader, desk.begun)},
    ),
    "reset": Step(reset, check_reset, drops=initial_pending),
    "recover": Step(recover, check_recover),
    "compact": Step(compact, check_compact),
    "page out": Step(page_out, check_page(page_out, out=True)),
    "page in": Step(page_in, check_page(page_in, out=False)),
}


# The process

PAID_PREFIX = b"paid "
"""How a line begins that a tool says when it takes effect, with the key that it was given."""


class Task(msgspec.Struct, frozen=True):
    url: str
    desk: FrameDesk
    step: str
    """One of those above, or `run`."""
    point: str = ""
    """Where the process dies by itself; empty if it is killed."""
    append: int = 1
    """… in which of its appends."""


STATEMENTS = {
    "the transaction has begun": re.compile("PRAGMA data_version"),
    "the head is moved": re.compile("INSERT INTO events"),
    "the events are written": re.compile(r"INSERT INTO \w+_rows"),
    "all rows but one are written": re.compile("INSERT INTO session_rows"),
    "the rows are written": re.compile("UPDATE log_totals"),
    "nothing is left but to commit": re.compile("COMMIT"),
}
"""Points in a transaction of SQLite: right before the first statement that begins like this."""


class DeadlyStore:
    """A store between an engine and the real one: the process dies at a point of the nth append."""

    def __init__(self, inner: EventStore, point: str, nth: int) -> None:
        self._inner = inner
        self._point = point
        self._left = nth

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def append(self, append: Append) -> AppendResult:
        self._left -= 1
        if self._left:
            return self._inner.append(append)
        if self._point == "before the append":
            die()
        if isinstance(self._inner, SqliteStore):
            self._arm(self._inner._writer._log.connection)
        appended = self._inner.append(append)
        if self._point == "before the reply":
            die()
        return appended

    def _arm(self, connection: apsw.Connection) -> None:
        beginning = STATEMENTS.get(self._point)
        if beginning is not None:
            connection.exec_trace = lambda _, sql, __: beginning.match(sql) is None or die()
        elif self._point == "committing":
            connection.set_commit_hook(die)
        elif self._point == "committed":
            connection.set_wal_hook(die)


def run_step(line: bytes) -> None:
    task = msgspec.json.decode(line, type=Task)
    engine = as_worker(holdfast.open(task.url), task.desk.tenant)
    session = engine.session("work")
    if task.point:
        engine.store = cast("EventStore", DeadlyStore(engine.store, task.point, task.append))
    if task.step != "run":
        STEPS[task.step].take(engine, session, task.desk)
        return

    def pay(amount: int, key: str) -> str:
        if task.point == "before the effect":
            die()
        os.write(1, PAID_PREFIX + key.encode() + b"\n")
        if task.point == "after the effect":
            die()
        return f"paid {amount}"

    session.run(task.desk.fresh, pay, key_as="key")


if __name__ == "__main__":
    serve_nursery(run_step)
