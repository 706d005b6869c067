"""How conversations stand, decided and folded: as plain dictionaries would have it; and what is told of it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from holdfast import codec, errors
from holdfast.core import invariants
from holdfast.core.decide import decide_session
from holdfast.core.faults import find_fault
from holdfast.core.fold import fold_session
from holdfast.core.situation import fold as situation_fold
from holdfast.core.situation.reasoning import fit_field, shorten_args, shorten_result
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.content import Json, Role, Text
from holdfast.model.events import Event
from holdfast.model.frames.commands import PopFrame, PushFrame
from holdfast.model.inputs import ActionInput, AnsweredCall, DecisionInput
from holdfast.model.names import Scope
from holdfast.model.sessions.commands import (
    CloseSession,
    CreateSession,
    DestroySession,
    ErasePayloads,
    NewMessage,
    RecordMessages,
    ResetSession,
)
from holdfast.model.situation.commands import RecordAction, UpdateSituation
from holdfast.model.situation.events import ActionRecorded, SituationUpdated
from holdfast.model.situation.situations import (
    ACTION_MODES,
    ACTION_OUTCOMES,
    FIELDS,
    RULES_AUTHOR,
    ActionCall,
    ActionMode,
    FieldName,
    SituationField,
    SituationState,
)
from holdfast.model.state import SessionState
from holdfast.text.lines import one_line, shorten
from tests.core import situation_strategies
from tests.core.plan_inputs import count_quarters
from tests.support import figure

EXAMPLES = figure(40, 10_000)
MACHINES = figure(20, 5_000)
SCOPE = Scope("tenant", "actor", "session")
FEW_BYTES = 60
"""For all situations of a session: a bound that short histories run into."""

words = st.text(st.sampled_from("ab 1é漢\n\t🦊"), max_size=12)
said = words.map(one_line)
some_fields = st.dictionaries(st.sampled_from(FIELDS), said.filter(bool), max_size=3)


# As dictionaries would have it


class Plain:
    """How one conversation stands."""

    def __init__(self) -> None:
        self.fields: dict[FieldName, tuple[str, int, str]] = {}
        self.replies = 0
        self.named = 0
        self.actions: list[int] = []

    @property
    def now(self) -> int:
        return max(self.replies, self.named)

    @property
    def size(self) -> int:
        return sum(len(text.encode()) + len(by) for text, _, by in self.fields.values())


class Situations(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.log: list[tuple[Event | None, str, int]] = []
        self.state = SessionState()
        self.erased: set[int] = set()
        self.plain: dict[str, Plain] = {}
        self.give(CreateSession(scope=SCOPE))

    def give(self, command: SessionCommand) -> tuple[Event, ...]:
        self.state = _folded(self.log)
        events = decide_session(self.state, command, _build_input(len(self.log)))
        for event in events:
            assert find_fault(self.state, event, event.name, self.erased) is None
            self.log.append((event, event.name, len(self.log) + 1))
            self.state = fold_session(self.state, *self.log[-1])
        return events

    def at(self, frame: str | None) -> Plain:
        return self.plain.setdefault(frame or "", Plain())

    @property
    def seq(self) -> int:
        return len(self.log)

    def frames(self, data: st.DataObject) -> str | None:
        return data.draw(st.sampled_from([None, *sorted(self.state.frames)]))

    @property
    def open(self) -> bool:
        return self.state.status == "open"

    @precondition(lambda self: self.open)
    @rule(data=st.data(), role=st.sampled_from(["assistant", "user"]))
    def speak(self, data: st.DataObject, role: Role) -> None:
        frame = self.frames(data)
        new = NewMessage(role=role, content=(Text("said"),))
        self.give(RecordMessages(scope=SCOPE, messages=(new,), frame=frame))
        if role == "assistant":
            self.at(frame).replies += 1

    @precondition(lambda self: self.open)
    @rule(
        data=st.data(),
        fields=some_fields,
        clear=situation_strategies.some_fields,
        iteration=st.none() | st.integers(0, 12),
        by=st.sampled_from(["model", "ada"]),
    )
    def update(
        self,
        data: st.DataObject,
        fields: dict[FieldName, str],
        clear: tuple[FieldName, ...],
        iteration: int | None,
        by: str,
    ) -> None:
        frame, clear = self.frames(data), tuple(name for name in clear if name not in fields)
        command = UpdateSituation(scope=SCOPE, frame=frame, fields=fields, clear=clear, iteration=iteration, by=by)
        plain = self.at(frame)
        at = plain.now if iteration is None else iteration
        new = {name: (text, at, by) for name, text in fields.items() if plain.fields.get(name) != (text, at, by)}
        gone = {name for name in clear if name in plain.fields}
        self.changed(command, plain, new, gone, at)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), fields=some_fields, iteration=st.none() | st.integers(0, 12))
    def by_rules(self, data: st.DataObject, fields: dict[FieldName, str], iteration: int | None) -> None:
        """They write over what others said only when that is old, clear what they said themselves, and repeat nothing."""
        frame = self.frames(data)
        clear = tuple(name for name in FIELDS if name not in fields)
        command = UpdateSituation(
            scope=SCOPE, frame=frame, fields=fields, clear=clear, iteration=iteration, by=RULES_AUTHOR, rules=True
        )
        plain = self.at(frame)
        at = plain.now if iteration is None else iteration
        new: dict[FieldName, tuple[str, int, str]] = {}
        for name, text in fields.items():
            old = plain.fields.get(name)
            if old is None or (old[0] != text and (old[2] == RULES_AUTHOR or at - old[1] >= limits.SITUATION_AGE)):
                new[name] = (text, at, RULES_AUTHOR)
        gone = {name for name in clear if name in plain.fields and plain.fields[name][2] == RULES_AUTHOR}
        self.changed(command, plain, new, gone, at)

    def changed(
        self,
        command: UpdateSituation,
        plain: Plain,
        new: dict[FieldName, tuple[str, int, str]],
        gone: set[FieldName],
        iteration: int,
    ) -> None:
        before = plain.fields
        plain.fields = {name: each for name, each in (before | new).items() if name not in gone}
        if sum(each.size for each in self.plain.values()) > FEW_BYTES:
            plain.fields = before
            if new or gone:  # only what changes something can be too much
                with pytest.raises(errors.TooLarge, match="SITUATIONS_BYTES"):
                    self.give(command)
                return
        events = self.give(command)
        assert len(events) == bool(new or gone)
        for event in events:
            assert isinstance(event, SituationUpdated)
            assert (event.iteration, event.by) == (iteration, command.by)
            plain.named = max(plain.named, iteration)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), iteration=st.none() | st.integers(0, 12), mode=st.sampled_from(ACTION_MODES), thinking=words)
    def act(self, data: st.DataObject, iteration: int | None, mode: ActionMode, thinking: str) -> None:
        frame = self.frames(data)
        plain = self.at(frame)
        [event] = self.give(
            RecordAction(scope=SCOPE, frame=frame, iteration=iteration, mode=mode, thinking=thinking, tool_calls=())
        )
        assert isinstance(event, ActionRecorded)
        assert event.iteration == (plain.now if iteration is None else iteration)
        plain.named = max(plain.named, event.iteration)
        plain.actions.append(self.seq)

    @precondition(lambda self: self.open and len(self.state.frames) < 3)
    @rule(data=st.data())
    def push(self, data: st.DataObject) -> None:
        self.give(PushFrame(scope=SCOPE, goal="work", parent=None, budget=5))

    @precondition(lambda self: self.open and self.state.frames)
    @rule(data=st.data())
    def pop(self, data: st.DataObject) -> None:
        frame = data.draw(st.sampled_from(sorted(self.state.frames)))
        self.give(PopFrame(scope=SCOPE, frame=frame, status="completed", digest="d" * 64))
        self.plain.pop(frame, None)
        update = UpdateSituation(scope=SCOPE, frame=frame, fields={"goal": "late"}, by="model")
        for command in (update, RecordAction(scope=SCOPE, frame=frame, mode="fast", tool_calls=())):
            with pytest.raises(errors.FrameNotFound):
                decide_session(self.state, command, _build_input(self.seq))

    @precondition(lambda self: self.open and self.seq > 5)
    @rule()
    def reset(self) -> None:
        self.give(ResetSession(scope=SCOPE, reason="anew"))
        self.plain = {}

    @precondition(lambda self: self.state.status != "destroyed")
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        """An update that is gone may have cleared anything: what was said before it does not come back."""
        ours = [
            seq for seq, (event, name, _) in enumerate(self.log, 1) if event and name in situation_fold.SITUATION_EVENTS
        ]
        if not ours:
            return
        seq = data.draw(st.sampled_from(ours))
        self.give(ErasePayloads(scope=SCOPE, seqs=(seq,), reason="asked to"))
        name = self.log[seq - 1][1]
        self.log[seq - 1] = (None, name, self.log[seq - 1][2])
        self.erased.add(seq)
        self.state = _folded(self.log)
        for frame, plain in self.plain.items():
            standing = self.state.standings.get(frame, SituationState())
            plain.actions = [each for each in plain.actions if each != seq]
            stood = {key: each for key, each in plain.fields.items() if key in standing.fields}
            assert {key: (each.text, each.iteration, each.by) for key, each in standing.fields.items()} == stood
            if name == SituationUpdated.name:
                assert all(each.seq > seq for each in standing.fields.values())
            plain.fields, plain.named = stood, standing.iteration

    @precondition(lambda self: self.open and self.seq > 15)
    @rule(how=st.sampled_from([CloseSession, DestroySession]))
    def end(self, how: type[CloseSession | DestroySession]) -> None:
        self.give(how(scope=SCOPE, reason="over"))
        self.plain = {}
        refusal = errors.SessionDestroyedError if how is DestroySession else errors.SessionClosedError
        update = UpdateSituation(scope=SCOPE, fields={"goal": "late"}, by="model")
        for command in (update, RecordAction(scope=SCOPE, mode="fast", tool_calls=())):
            with pytest.raises(refusal):
                decide_session(self.state, command, _build_input(self.seq))

    @rule()
    def wait(self) -> None:
        """There is always something to do, also when all is over."""

    @invariant()
    def the_state_is_what_the_dictionaries_say(self) -> None:
        assert {*self.state.standings} <= {*self.plain}
        for frame, plain in self.plain.items():
            standing = self.state.standing(frame or None)
            found = {name: (each.text, each.iteration, each.by) for name, each in standing.fields.items()}
            assert found == plain.fields
            assert [*standing.fields] == [name for name in FIELDS if name in plain.fields]
            assert (standing.replies, standing.current_iteration) == (plain.replies, plain.now)
            assert standing.actions == tuple(plain.actions[-limits.ACTIONS_KEPT :])
            told = situation_fold.build_situation(standing)
            assert told.fields == tuple((name, plain.fields[name][0]) for name in FIELDS if name in plain.fields)
        assert situation_fold.total_size(self.state) == sum(each.size for each in self.plain.values())
        assert self.state.bulk == situation_fold.total_size(self.state) + sum(
            len(each.goal) for each in self.state.frames.values()
        )
        assert invariants.find_violations(self.state) == []

    @invariant()
    def a_replay_and_a_snapshot_say_the_same(self) -> None:
        assert _folded(self.log) == self.state
        assert codec.decode(codec.encode(self.state), SessionState) == self.state

    def teardown(self) -> None:
        """What was erased since makes nothing look as if no command had made it."""
        state = SessionState()
        for seq, (event, name, time_us) in enumerate(self.log, 1):
            assert find_fault(state, event, name, {each for each in self.erased if each < seq}) is None
            state = fold_session(state, event, name, time_us)


def _build_input(time_us: int) -> DecisionInput:
    return DecisionInput(time_us=time_us, tokens=(1,), counter="test")


def _folded(log: list[tuple[Event | None, str, int]]) -> SessionState:
    state = SessionState()
    for event, name, time_us in log:
        state = fold_session(state, event, name, time_us)
    return state


def test_situations_are_what_plain_dictionaries_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the session and in frames that come and go, with a bound so small that it matters, resets, erasures and ends."""
    with monkeypatch.context() as patch:
        patch.setattr(limits, "SITUATIONS_BYTES", FEW_BYTES)
        run_state_machine_as_test(Situations, settings=settings(max_examples=MACHINES, stateful_step_count=40))


# Cutting


@given(st.text(st.sampled_from("ab 1é漢🦊"), max_size=60).map(one_line), st.integers(0, 8), st.integers(0, 60))
@settings(max_examples=EXAMPLES)
def test_a_field_is_cut_at_a_word_and_fits(text: str, tokens: int, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "SITUATION_TOKENS", tokens)
        patch.setattr(limits, "SITUATION_BYTES", size)
        fits = len(text.encode()) <= size and count_quarters(text) <= tokens
        short = fit_field(text, count_quarters)
        assert (short == text) == fits or not text
        assert len(short.encode()) <= size
        assert count_quarters(short) <= tokens
        if not fits and short:
            assert short.endswith("…")
            assert text.startswith(short[:-1])
            first = text.split(" ", maxsplit=1)[0] + "…"
            if len(first.encode()) <= size and count_quarters(first) <= tokens:
                assert text[len(short) - 1] == " "
        assert fit_field(short, count_quarters) == short


@given(st.text(max_size=80), st.integers(2, 40))
@settings(max_examples=EXAMPLES)
def test_what_is_shortened_is_the_beginning(text: str, chars: int) -> None:
    short = shorten(text, chars)
    assert len(short) <= chars
    assert short == text if len(text) <= chars else short.endswith("…") and text.startswith(short[:-1])


@given(situation_strategies.calls)
@settings(max_examples=EXAMPLES)
def test_what_an_action_keeps_of_a_call_is_bounded(call: ActionCall) -> None:
    wide: Json = {"all": [call.args] * 200, "text": call.result * 500 + "\x00" * 5_000}
    for args in (call.args, wide):
        kept = shorten_args(args)
        assert len(codec.encode(kept)) <= limits.ACTION_ARGS_BYTES
        assert kept == args or type(kept) is str
    assert len(shorten_result(call.result * 200)) <= limits.ACTION_RESULT_CHARS


# What no command can have made

OPEN = SessionState(
    version=9,
    status="open",
    messages=3,
    standings={"": SituationState(fields={"goal": SituationField("there", by="model", seq=5)}, version=5)},
    bulk=10,
)
LONG = "x" * (limits.SITUATION_BYTES + 1)
FORGED: dict[str, list[Event]] = {
    "events of a frame come while it is live": [
        SituationUpdated(frame="f7", fields={"goal": "a"}, iteration=0, by="m"),
        ActionRecorded(frame="f7", iteration=0),
    ],
    "an iteration is a whole number": [
        SituationUpdated(fields={"goal": "a"}, iteration=-1, by="m"),
        ActionRecorded(iteration=limits.WHOLE_NUMBER + 1),
    ],
    "an update sets fields, or clears others": [
        SituationUpdated(iteration=0, by="m"),
        SituationUpdated(fields={"goal": "a"}, cleared=("goal",), iteration=0, by="m"),
    ],
    "a field of a situation is one line of a bounded size": [
        SituationUpdated(fields={"goal": text}, iteration=0, by="m") for text in ("", " ", "a\nb", "a  b", LONG)
    ],
    "an update has an author": [SituationUpdated(fields={"goal": "a"}, iteration=0, by=by) for by in ("", "a\nb")],
    "cleared fields are named in order, once": [
        SituationUpdated(cleared=("goal", "goal"), iteration=0, by="m"),
        SituationUpdated(cleared=("progress", "goal"), iteration=0, by="m"),
    ],
    "a cleared field was set before": [SituationUpdated(cleared=("progress",), iteration=0, by="m")],
    "an update names messages before it, in order": [
        SituationUpdated(fields={"goal": "a"}, iteration=0, by="m", tells=tells)
        for tells in ((10,), (0,), (3, 2), (2, 2))
    ],
    "the texts of an action are bounded": [
        ActionRecorded(iteration=0, **{name: "x" * limits.ACTION_TEXT_BYTES})  # type: ignore[arg-type]
        for name in ("thinking", "planning", "reflection", "approach")
    ],
    "the tool calls of an action are bounded": [
        ActionRecorded(iteration=0, tool_calls=(ActionCall(name="a"),) * (limits.ACTION_CALLS + 1))
    ],
    "a tool call of an action has a name, and a bounded result": [
        ActionRecorded(iteration=0, tool_calls=(ActionCall(name=""),)),
        ActionRecorded(iteration=0, tool_calls=(ActionCall(name="a", result="x" * 1_001),)),
    ],
    "the arguments of a tool call of an action are bounded": [
        ActionRecorded(iteration=0, tool_calls=(ActionCall(name="a", args="x" * limits.ACTION_ARGS_BYTES),))
    ],
    "a tool call of an action is one of the transcript, or none": [
        ActionRecorded(iteration=0, tool_calls=(ActionCall(name="a", call=call),)) for call in ("c10_0", "mine", "c0_0")
    ],
}


@pytest.mark.parametrize(("why", "event"), [(why, event) for why, some in FORGED.items() for event in some])
def test_a_forged_event_is_told_why(why: str, event: Event) -> None:
    assert find_fault(OPEN, event, event.name) == why


def test_situations_that_are_too_much_together_are_forged(monkeypatch: pytest.MonkeyPatch) -> None:
    event = SituationUpdated(fields={"progress": "abc"}, iteration=0, by="m")
    assert find_fault(OPEN, event, event.name) is None
    monkeypatch.setattr(limits, "SITUATIONS_BYTES", 10 + 3)
    assert find_fault(OPEN, event, event.name) == "situations are bounded"
    assert find_fault(OPEN, event, event.name, {3}) is None  # something that was erased may have made room


def test_outcomes_are_named_for_calls_that_were_answered() -> None:
    done = ActionCall(name="pay", call="c3_0", outcome="error")
    inputs = msgspec.structs.replace(_build_input(3), actions=ActionInput((AnsweredCall(done, "toolu_1"),)))
    for outcome in ACTION_OUTCOMES:
        for name in ("c3_0", "toolu_1"):
            command = RecordAction(scope=SCOPE, mode="fast", outcomes={name: outcome})
            [event] = decide_session(OPEN, command, inputs)
            assert isinstance(event, ActionRecorded)
            assert [each.outcome for each in event.tool_calls] == [outcome]
    with pytest.raises(errors.InvalidArgument, match="c4_0"):
        decide_session(OPEN, RecordAction(scope=SCOPE, mode="fast", outcomes={"c4_0": "timeout"}), inputs)
