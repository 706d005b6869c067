"""Exports with frame events that no command can have made: refused by line, whatever their checksums say."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import codec
from holdfast.model.events import Event
from holdfast.model.frames.events import (
    BudgetCancelled,
    BudgetCommitted,
    BudgetGranted,
    BudgetReserved,
    BudgetUsed,
    FramePopped,
    FramePushed,
    FrameResumed,
    FrameSuspended,
    FrameUpdated,
    ResultAdded,
    TokenReissued,
    TokenRevoked,
)
from holdfast.model.frames.frames import FrameLimits
from holdfast.model.history.events import HandleAdded
from holdfast.model.log import StoredEvent
from holdfast.model.sessions.events import CallStarted, MessageRecorded
from tests.edges.engines import LOCAL_KINDS, EngineDesk, log_of
from tests.edges.test_transfer import chained, exported_to, line_of, refused_at, sealed_file

D = "0" * 64
WIDE = FrameLimits(max_subframe_depth=64)


def _history(engine: holdfast.Engine) -> dict[str, str]:
    """A bit of every state a frame can be in; what the ids are called."""
    session = engine.create_session("forged")
    root = session.frame("root", budget=1_000, max_tool_calls=3)
    kept, over = root.budget.reserve("kept", 10), root.budget.reserve("over", 10)
    root.budget.cancel(over)
    child = root.frame("child", budget=100)
    leaf = child.frame("leaf", budget=10)
    ended = root.frame("ended", budget=5)
    ended.pop()
    resting = root.frame("resting", budget=5)
    resting.suspend("approval")
    void = root.frame("void", budget=5)
    void.suspend("approval")
    void.revoke()
    drawn = root.frame("overdrawn", budget=5)
    drawn.budget.use(50)
    call = root.record("assistant", "", tool_calls=[{"name": "look"}, {"name": "pay"}]).tool_calls
    root.start_call(call[0])
    ids = {name: frame.id for name, frame in locals().items() if isinstance(frame, holdfast.Frame)}
    return ids | {"kept": kept.id, "over": over.id, "started": call[0].id, "waiting": call[1].id}


IDS: dict[str, str] = _history(holdfast.open("memory:"))


@functools.cache
def _exported(write: Callable[[holdfast.Engine], object]) -> tuple[list[bytes], StoredEvent]:
    """The lines of a history that was written once, and its last event."""
    with TemporaryDirectory() as folder, closing(EngineDesk(Path(folder))) as desk:
        source = desk.open("memory")
        write(source)
        return exported_to(source, desk).read_bytes().splitlines(keepends=True), log_of(source)[-1]


def forged(desk: EngineDesk, event: Event, write: Callable[[holdfast.Engine], object] = _history) -> Path:
    """The export of a history with one more event, of which all checksums are right."""
    lines, last = _exported(write)
    payload = codec.encode_event(event)
    another = msgspec.structs.replace(
        last,
        seq=last.seq + 1,
        type=event.name,
        version=event.version,
        payload=payload,
        command=f"{2**100:032x}",
        ordinal=0,
        key=None,
    )
    made = line_of(chained(last.hash, another))
    return sealed_file(desk.folder / "forged.jsonl", [*lines[:-1], made, lines[-1]])


def _pushed(**changes: Any) -> FramePushed:
    return FramePushed(**{"goal": "x", "budget": 1, "limits": FrameLimits(), "parent": None, **changes})


def _popped(frame: str, **changes: Any) -> FramePopped:
    return FramePopped(**{"frame": frame, "status": "completed", **changes})


def _suspended(frame: str, **changes: Any) -> FrameSuspended:
    return FrameSuspended(**{"frame": frame, "reason": "r", "digest": D, "by": "p", **changes})


def _result(**changes: Any) -> ResultAdded:
    given = {"frame": IDS["root"], "child": IDS["ended"], "status": "completed", "at": 5}
    return ResultAdded(**{**given, "tokens": 0, "counter": "c", "digest": D, **changes})


def _handle(**changes: Any) -> HandleAdded:
    return HandleAdded(**{"frame": IDS["root"], "kind": "url", "tokens": 1, "counter": "c", "digest": D, **changes})


NARROW = FrameLimits(max_subframe_depth=3, max_tool_calls=3)

TRUE: dict[str, Event] = {
    "a root": _pushed(),
    "a child": _pushed(parent=IDS["root"], limits=NARROW),
    "a pop": _popped(IDS["leaf"]),
    "a pop of several": _popped(IDS["child"], cascade=(IDS["leaf"],)),
    "a suspension": _suspended(IDS["child"], cascade=(IDS["leaf"],)),
    "a resumption": FrameResumed(frame=IDS["resting"], by="p"),
    "another token": TokenReissued(frame=IDS["void"], digest=D, by="p"),
    "a reservation": BudgetReserved(frame=IDS["leaf"], purpose="p", amount=10),
    "a commitment": BudgetCommitted(frame=IDS["root"], reservation=IDS["kept"], tokens=10**9),
    "a grant": BudgetGranted(frame=IDS["leaf"], amount=90),
    "a start": CallStarted(call=IDS["waiting"], key="k", frame=IDS["root"]),
    "a handle": _handle(),
}

FORGED: dict[str, Event] = {
    "a frame without a goal": _pushed(goal=" "),
    "a negative budget": _pushed(budget=-1),
    "a budget beyond counting": _pushed(budget=2**62),
    "a negative limit": _pushed(limits=FrameLimits(max_subframe_depth=-1)),
    "a deadline before the epoch": _pushed(deadline_us=-1),
    "a parent that never was": _pushed(parent="f999"),
    "a parent that is no frame": _pushed(parent="root"),
    "a parent that has ended": _pushed(parent=IDS["ended"], limits=NARROW, budget=0),
    "a parent that rests": _pushed(parent=IDS["resting"], limits=NARROW, budget=0),
    "more than the parent has": _pushed(parent=IDS["root"], limits=NARROW, budget=900),
    "something from a parent that is overdrawn": _pushed(parent=IDS["drawn"], limits=NARROW, budget=0),
    "wider limits": _pushed(parent=IDS["root"], limits=WIDE),
    "more tools": _pushed(parent=IDS["root"], limits=FrameLimits(max_tool_calls=4)),
    "no limit of tools": _pushed(parent=IDS["root"], limits=FrameLimits()),
    "a pop of nobody": _popped("f999"),
    "a second pop": _popped(IDS["ended"]),
    "a pop that forgets those below": _popped(IDS["child"]),
    "a pop in the wrong order": _popped(IDS["root"], cascade=(IDS["child"], IDS["leaf"])),
    "a pop of somebody else": _popped(IDS["leaf"], cascade=(IDS["resting"],)),
    "a pop that used more": _popped(IDS["leaf"], used=1),
    "a pop that used less": _popped(IDS["drawn"], used=49),
    "a suspension of nobody": _suspended("f999"),
    "a second suspension": _suspended(IDS["resting"]),
    "a suspension of somebody else": _suspended(IDS["leaf"], cascade=(IDS["root"],)),
    "a suspension with its token": _suspended(IDS["leaf"], digest="hfs_" + "A" * 43),
    "a resumption of what works": FrameResumed(frame=IDS["leaf"], by="p"),
    "a resumption by a void token": FrameResumed(frame=IDS["void"], by="p"),
    "a token for what works": TokenReissued(frame=IDS["leaf"], digest=D, by="p"),
    "a token that is told": TokenReissued(frame=IDS["resting"], digest="hfs_", by="p"),
    "a second revocation": TokenRevoked(frame=IDS["void"], reason="r"),
    "a reservation of nobody": BudgetReserved(frame="f999", purpose="p", amount=1),
    "a reservation of too much": BudgetReserved(frame=IDS["leaf"], purpose="p", amount=11),
    "a negative reservation": BudgetReserved(frame=IDS["leaf"], purpose="p", amount=-1),
    "a commitment of nothing": BudgetCommitted(frame=IDS["root"], reservation="r999", tokens=1),
    "a commitment of what is over": BudgetCommitted(frame=IDS["root"], reservation=IDS["over"], tokens=1),
    "a commitment of another's": BudgetCommitted(frame=IDS["leaf"], reservation=IDS["kept"], tokens=1),
    "a negative commitment": BudgetCommitted(frame=IDS["root"], reservation=IDS["kept"], tokens=-1),
    "a cancellation of what is over": BudgetCancelled(frame=IDS["root"], reservation=IDS["over"]),
    "a use by nobody": BudgetUsed(frame=IDS["ended"], tokens=1),
    "a negative use": BudgetUsed(frame=IDS["root"], tokens=-1),
    "a grant of too much": BudgetGranted(frame=IDS["leaf"], amount=91),
    "a negative grant": BudgetGranted(frame=IDS["root"], amount=-1),
    "a start of what never was": CallStarted(call="c99_0", key="k"),
    "a second start that is the first": CallStarted(call=IDS["started"], key="k", frame=IDS["root"]),
    "a start under another key": CallStarted(call=IDS["started"], key="k", attempt=2, frame=IDS["root"]),
    "a start under no key": CallStarted(call=IDS["waiting"], key="", frame=IDS["root"]),
    "a start in another frame": CallStarted(call=IDS["waiting"], key="k", frame=IDS["leaf"]),
    "a frame of any depth": _pushed(limits=FrameLimits(max_subframe_depth=10**9)),
    "a frame that loses its goal": FrameUpdated(frame=IDS["root"], goal=" "),
    "a suspension for no reason": _suspended(IDS["leaf"], reason=" "),
    "a suspension until before the epoch": _suspended(IDS["leaf"], expires_us=-1),
    "a token until before the epoch": TokenReissued(frame=IDS["resting"], digest=D, by="p", expires_us=-1),
    "a revocation for no reason": TokenRevoked(frame=IDS["resting"], reason=""),
    "a reservation for nothing": BudgetReserved(frame=IDS["leaf"], purpose="", amount=1),
    "a reservation where all rests": BudgetReserved(frame=IDS["resting"], purpose="p", amount=0),
    "a reservation where all is spent": BudgetReserved(frame=IDS["drawn"], purpose="p", amount=0),
    "a grant beyond counting": BudgetGranted(frame=IDS["root"], amount=2**62 - 1),
    "a handle of nobody": _handle(frame="f999"),
    "a handle without a digest": _handle(digest="x"),
    "a handle of negative size": _handle(tokens=-1),
    "a result long after": _result(),
    "a message in a frame that has ended": MessageRecorded(
        role="user", content=(holdfast.Text("x"),), tokens=1, counter="c", frame=IDS["ended"]
    ),
}


@pytest.fixture(params=LOCAL_KINDS[:2])
def target(request: pytest.FixtureRequest, desk: EngineDesk) -> holdfast.Engine:
    """Somewhere with a session of its own already."""
    engine = desk.open(request.param, name="target")
    engine.create_session("mine").frame("mine", budget=1)
    return engine


def test_what_a_command_could_have_made_is_taken(desk: EngineDesk) -> None:
    """So that the refusals below have no other reason than what is wrong."""
    for name, event in TRUE.items():
        engine = desk.open("memory")
        assert engine.admin.import_(forged(desk, event)) > 0, name
        assert engine.admin.verify().ok, name


def test_what_no_command_can_have_made_is_refused(target: holdfast.Engine, desk: EngineDesk) -> None:
    taken = []
    for name, event in FORGED.items():
        path = forged(desk, event)
        lines = path.read_bytes().count(b"\n")
        try:
            assert refused_at(target, path) == lines - 1
        except pytest.fail.Exception:
            taken.append(name)
    assert taken == []
