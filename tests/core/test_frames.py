"""Deciding about frames: pure, with refusals that name the figures, and what is decided leads to sound states only."""

from __future__ import annotations

import copy
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import errors
from holdfast.core import invariants
from holdfast.core.decide import decide_session
from holdfast.core.faults import find_fault
from holdfast.core.fold import fold_session
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.events import Event
from holdfast.model.frames.commands import (
    CommitTokens,
    GrantTokens,
    PopFrame,
    PushFrame,
    ReserveTokens,
    ResumeActor,
    ResumeFrame,
    SuspendFrame,
    TimeOutFrame,
)
from holdfast.model.frames.events import ActorResumed, FramePopped, FramePushed, ResultAdded
from holdfast.model.frames.frames import FrameState
from holdfast.model.inputs import DecisionInput, FrameInput
from holdfast.model.names import Scope
from holdfast.model.rows import TokenRow
from holdfast.model.sessions.commands import CreateSession, ResetSession
from holdfast.model.state import SessionState
from tests.support import figure

SCOPE = Scope("tenant", "actor", "session")
DIGEST = "d" * 64


class Log:
    """A session made of nothing but decisions and folds."""

    def __init__(self) -> None:
        self.state = SessionState()
        self.events: list[tuple[Event, int]] = []
        self.time_us = 1
        self.order(CreateSession(scope=SCOPE))

    def order(self, command: SessionCommand) -> tuple[Event, ...]:
        given_ = self.build_input(command)
        before = copy.deepcopy(self.state)
        made = decide_session(self.state, command, given_)
        assert made == decide_session(self.state, command, given_)
        assert self.state == before
        for event in made:
            assert find_fault(self.state, event, event.name) is None
            self.events.append((event, self.time_us))
            self.state = fold_session(self.state, event, event.name, self.time_us)
            assert invariants.find_violations(self.state) == []
        return made

    def build_input(self, command: SessionCommand) -> DecisionInput:
        """The input from rows. No ended frame is looked up: the log alone says what has ended."""
        token = None
        if isinstance(command, ResumeFrame):
            names = {"tenant": "tenant", "actor": "actor", "session": "session", "thread": ""}
            token = TokenRow(**names, frame=1, digest=DIGEST, status="live", suspended=1, state="")
        frame = FrameInput(digest=DIGEST, token=token)
        return DecisionInput(time_us=self.time_us, tokens=(1,), counter="c", principal="me", frame=frame)

    def push(self, parent: str | None = None, budget: int = 100, **more: int) -> str:
        self.order(PushFrame(scope=SCOPE, goal="plan", parent=parent, budget=budget, **more))
        return f"f{self.state.version}"

    def use(self, frame: str, tokens: int) -> None:
        self.order(CommitTokens(scope=SCOPE, frame=frame, reservation=None, tokens=tokens))

    def pop(self, frame: str, *, cascade: bool = False) -> tuple[Event, ...]:
        return self.order(PopFrame(scope=SCOPE, frame=frame, status="completed", digest=DIGEST, cascade=cascade))

    def frame(self, frame: str) -> FrameState:
        return self.state.frames[frame]


def test_what_a_child_did_not_use_comes_back() -> None:
    log = Log()
    root = log.push(budget=8_000)
    for purpose, amount in (("brief", 500), ("crumbs", 200)):
        log.order(ReserveTokens(scope=SCOPE, frame=root, purpose=purpose, amount=amount))
    log.use(root, 2_000)
    child = log.push(root, 3_000)
    assert log.frame(root).budget.available == 2_300
    log.use(child, 2_500)
    assert log.frame(root).budget.available == 2_300
    popped, result = log.pop(child)
    assert isinstance(popped, FramePopped)
    assert isinstance(result, ResultAdded)
    assert (popped.used, result.child, result.at) == (2_500, child, log.state.version - 1)
    assert log.frame(root).budget.available == 2_800


@pytest.mark.parametrize(
    ("total", "used", "asked", "available"),
    [(100, 0, 101, 100), (100, 100, 1, 0), (100, 150, 1, 0), (100, 150, 0, 0), (0, 0, 1, 0)],
)
@pytest.mark.parametrize("way", ["reserve", "push", "grant"])
def test_more_than_is_available_is_refused_with_the_figures(
    total: int, used: int, asked: int, available: int, way: str
) -> None:
    log = Log()
    root = log.push(budget=total)
    child = log.push(root, 0)
    log.use(root, used)
    commands: dict[str, SessionCommand] = {
        "reserve": ReserveTokens(scope=SCOPE, frame=root, purpose="call", amount=asked),
        "push": PushFrame(scope=SCOPE, goal="plan", parent=root, budget=asked),
        "grant": GrantTokens(scope=SCOPE, frame=child, amount=asked),
    }
    with pytest.raises(errors.InsufficientTokens) as refusal:
        log.order(commands[way])
    error = refusal.value
    assert (error.frame, error.requested, error.available) == (root, asked, available)


@pytest.mark.parametrize("way", ["reserve", "push", "grant"])
def test_all_that_is_available_can_be_had(way: str) -> None:
    log = Log()
    root = log.push(budget=100)
    child = log.push(root, 0)
    commands: dict[str, SessionCommand] = {
        "reserve": ReserveTokens(scope=SCOPE, frame=root, purpose="call", amount=100),
        "push": PushFrame(scope=SCOPE, goal="plan", parent=root, budget=100),
        "grant": GrantTokens(scope=SCOPE, frame=child, amount=100),
    }
    log.order(commands[way])
    assert log.frame(root).budget.available == 0
    assert not log.frame(root).budget.is_overdrawn


def test_a_budget_grows_up_to_the_largest_number_and_no_further() -> None:
    log = Log()
    root = log.push(budget=limits.WHOLE_NUMBER - 1)
    log.order(GrantTokens(scope=SCOPE, frame=root, amount=1))
    with pytest.raises(errors.TooLarge):
        log.order(GrantTokens(scope=SCOPE, frame=root, amount=1))


@pytest.mark.parametrize("early_us", [1, 0, -5])
def test_a_frame_is_out_of_time_from_its_deadline_on(early_us: int) -> None:
    log = Log()
    root = log.push(timeout_us=10)
    log.time_us = 11 - early_us
    if early_us > 0:
        log.push(root, 1)
        assert log.order(TimeOutFrame(scope=SCOPE, frame=root)) == ()
        return
    with pytest.raises(errors.DeadlinePassed) as refusal:
        log.push(root, 1)
    assert refusal.value.late_us == -early_us
    log.use(root, 5)
    (popped,) = log.order(TimeOutFrame(scope=SCOPE, frame=root))
    assert isinstance(popped, FramePopped)
    assert (popped.status, popped.used) == ("failed", 5)
    assert log.order(TimeOutFrame(scope=SCOPE, frame=root)) == ()


@pytest.mark.parametrize(
    ("outer", "inner", "met"),
    [
        ({}, {}, (3, None, None)),
        ({"max_subframe_depth": 9}, {}, (9, None, None)),
        ({}, {"max_subframe_depth": 9}, (3, None, None)),
        ({"max_tool_calls": 2, "timeout_us": 7}, {}, (3, 2, 7)),
        ({"max_tool_calls": 2, "timeout_us": 7}, {"max_tool_calls": 5, "timeout_us": 8}, (3, 2, 7)),
        ({"max_tool_calls": 2, "timeout_us": 7}, {"max_tool_calls": 0, "timeout_us": 6}, (3, 0, 6)),
    ],
)
def test_limits_are_those_of_the_parent_or_narrower(
    outer: dict[str, int], inner: dict[str, int], met: tuple[int, int | None, int | None]
) -> None:
    log = Log()
    child = log.push(log.push(None, 100, **outer), 1, **inner)
    bounds = log.frame(child).limits
    assert (bounds.max_subframe_depth, bounds.max_tool_calls, bounds.timeout_us) == met


def test_only_so_many_frames_live_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LIVE_FRAMES", 3)
    log = Log()
    roots = [log.push() for _ in range(3)]
    with pytest.raises(errors.TooLarge):
        log.push()
    log.pop(roots[0])
    log.push()


def test_taking_a_session_up_says_what_was_found() -> None:
    log = Log()
    root = log.push()
    child = log.push(root, 10)
    (event,) = log.order(ResumeActor(scope=SCOPE))
    assert event == ActorResumed(frames=(root, child), pending={"waiting_for_subcall": 1})


Step = Callable[[Log, int], object]


def _pick(log: Log, pick: int) -> str:
    live = sorted(log.state.frames, key=lambda each: int(each[1:]))
    return live[pick % len(live)] if live else log.push(budget=1_000)


_steps: dict[str, Step] = {
    "root": lambda log, pick: log.push(budget=pick * 10),
    "push": lambda log, pick: log.push(_pick(log, pick), pick),
    "push timed": lambda log, pick: log.push(_pick(log, pick), pick, timeout_us=pick),
    "use": lambda log, pick: log.use(_pick(log, pick), pick),
    "reserve": lambda log, pick: log.order(
        ReserveTokens(scope=SCOPE, frame=_pick(log, pick), purpose="call", amount=pick)
    ),
    "grant": lambda log, pick: log.order(GrantTokens(scope=SCOPE, frame=_pick(log, pick), amount=pick)),
    "pop": lambda log, pick: log.pop(_pick(log, pick)),
    "pop all": lambda log, pick: log.pop(_pick(log, pick), cascade=True),
    "suspend": lambda log, pick: log.order(SuspendFrame(scope=SCOPE, frame=_pick(log, pick), reason="wait")),
    "suspend all": lambda log, pick: log.order(
        SuspendFrame(scope=SCOPE, frame=_pick(log, pick), reason="wait", cascade=True)
    ),
    "resume": lambda log, pick: log.order(ResumeFrame(scope=SCOPE, frame=_pick(log, pick), digest=DIGEST)),
    "time out": lambda log, pick: log.order(TimeOutFrame(scope=SCOPE, frame=_pick(log, pick))),
    "reset": lambda log, _: log.order(ResetSession(scope=SCOPE, reason="again")),
}
_names = [*_steps, "push", "push", "push timed", "use", "suspend", "resume", "resume"]


def run(steps: list[tuple[str, int]]) -> Log:
    log = Log()
    for name, pick in steps:
        log.time_us += pick % 5
        try:
            _steps[name](log, pick)
        except (errors.Conflict, errors.NotFound):
            continue
    return log


histories = st.lists(st.tuples(st.sampled_from(_names), st.integers(0, 40)), max_size=30)


@settings(max_examples=figure(40, 5_000))
@given(steps=histories, erased=st.sets(st.integers(1, 40)))
def test_what_is_decided_is_sound_and_stays_so_without_any_of_its_trees(
    steps: list[tuple[str, int]], erased: set[int]
) -> None:
    """A tree is erased as a whole, once it is over; of any other events, too, the fold makes what it can."""
    log = run(steps)
    over = [each for each in trees(log) if each not in log.state.frames]
    gone = {each for each in over if int(each[1:]) in erased}
    state = SessionState()
    for seq, (event, time_us) in enumerate(log.events, 1):
        root = root_of(log, event, seq)
        known = None if root in gone else event
        if known is not None:
            names = {int(each[1:]) for each in gone}
            assert find_fault(state, known, known.name, names) is None
        state = fold_session(state, known, event.name, time_us)
        assert invariants.find_violations(state) == []
    assert {name: figures(frame) for name, frame in state.frames.items()} == {
        name: figures(frame) for name, frame in log.state.frames.items()
    }
    state = SessionState()
    for seq, (event, time_us) in enumerate(log.events, 1):
        state = fold_session(state, None if seq in erased else event, event.name, time_us)
        assert all(frame.is_live for frame in state.frames.values())


def figures(frame: FrameState) -> FrameState:
    return msgspec.structs.replace(frame, touched=0)


def trees(log: Log) -> list[str]:
    return [
        f"f{seq}"
        for seq, (event, _) in enumerate(log.events, 1)
        if isinstance(event, FramePushed) and event.parent is None
    ]


def root_of(log: Log, event: Event, seq: int) -> str | None:
    """The root of the tree that an event belongs to."""
    named = f"f{seq}" if isinstance(event, FramePushed) else getattr(event, "frame", None)
    while named is not None:
        pushed, _ = log.events[int(named[1:]) - 1]
        assert isinstance(pushed, FramePushed)
        if pushed.parent is None:
            break
        named = pushed.parent
    return named


@settings(max_examples=figure(30, 5_000))
@given(steps=histories)
def test_each_tree_has_used_what_was_used_in_it(steps: list[tuple[str, int]]) -> None:
    log = run(steps)
    for each in trees(log):
        if each in log.state.frames:
            log.pop(each, cascade=True)
    spent: dict[str | None, int] = {}
    settled: dict[str | None, int] = {}
    for seq, (event, _) in enumerate(log.events, 1):
        root = root_of(log, event, seq)
        spent[root] = spent.get(root, 0) + getattr(event, "tokens", 0) * (event.name == "budget.used")
        if isinstance(event, FramePopped) and event.frame == root:
            settled[root] = event.used
    assert all(used == spent[root] for root, used in settled.items())
