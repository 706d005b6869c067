"""The layers beside the facts, decided and folded: as a plain dictionary would have it, whatever the clock does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from holdfast import codec, errors
from holdfast.core import invariants, upcast
from holdfast.core.decide import decide_session
from holdfast.core.faults import find_fault
from holdfast.core.fold import fold_session
from holdfast.core.sessions import layers
from holdfast.model import limits
from holdfast.model.commands import SessionCommand
from holdfast.model.content import Role, Text
from holdfast.model.events import Event
from holdfast.model.inputs import DecisionInput
from holdfast.model.log import StoredEvent
from holdfast.model.names import LedgerId, Scope, check_ledgers
from holdfast.model.sessions.commands import (
    ClearEnvironment,
    ClearWorking,
    CloseSession,
    CreateSession,
    DestroySession,
    ErasePayloads,
    NewMessage,
    ObserveEnvironment,
    RecordMessages,
    RefreshIdentity,
    ResetSession,
    SetWorking,
    TimeOutSession,
)
from holdfast.model.sessions.events import (
    EnvironmentCleared,
    EnvironmentObserved,
    IdentityRefreshed,
    PayloadsErased,
    SessionCreated,
    SessionReset,
    WorkingCleared,
    WorkingSet,
)
from holdfast.model.sessions.layers import EnvironmentItem, Identity, WorkingItem
from holdfast.model.state import SessionState
from tests.core import strategies
from tests.support import figure

EXAMPLES = figure(30, 10_000)
MACHINES = figure(30, 5_000)
SCOPE = Scope("tenant", "actor", "session")
ADA = Identity(user_name="Ada", user_id="u1", authority="manager", permissions=("billing", "deploy"))
ACME = ("organization", "acme")
FEW_ITEMS, FEW_BYTES = 3, 60
"""Bounds that short histories run into."""

names = st.sampled_from(["a", "b", "c", "d"])
some_names = st.lists(names, max_size=3).map(tuple)
values = st.sampled_from([None, True, 1, 1.0, "x", "y" * 20, ["z" * 30], {"k": [1, {}]}])
spans = st.sampled_from([None, 1, 2, 3])
moments = st.none() | st.integers(16, 26)
steps = st.sampled_from([1, 1, 2, 3, -1, -2])


# A plain model

Entry = tuple[str, Any]
"""What happened, and with what: a line of the model's own log."""


class Plain:
    """Two dictionaries: the values, with their times and the numbers of their events, by name."""

    def __init__(self) -> None:
        self.working: dict[str, tuple[Any, int, int | None, int]] = {}
        self.around: dict[str, tuple[Any, int, int | None, int]] = {}
        self.version = 0

    def apply(self, entry: Entry, now: int) -> None:
        what, said = entry
        self.version += 1
        if what.startswith("set"):
            self.working = {name: each for name, each in self.working.items() if each[2] is None or each[2] > now}
        match what:
            case "set":
                name, value, ttl = said
                self.working[name] = (value, now, None if ttl is None else now + ttl, self.version)
            case "seen":
                name, value, at, until = said
                self.around[name] = (value, at, until, self.version)
            case "put away" | "forgotten":
                layer = self.working if what == "put away" else self.around
                for name in said:
                    layer.pop(name, None)
            case "put away, erased" | "reset":
                self.working = {}
            case "forgotten, erased":
                self.around = {}
            case "over":
                self.working, self.around = {}, {}

    @property
    def size(self) -> int:
        """As bytes of JSON."""
        each = [*self.working.items(), *self.around.items()]
        return sum(len(codec.encode(name)) + len(codec.encode(value)) for name, (value, *_) in each)


def _fits(layer: dict[str, tuple[Any, int, int | None, int]]) -> bool:
    size = sum(len(codec.encode(name)) + len(codec.encode(each[0])) for name, each in layer.items())
    return len(layer) <= FEW_ITEMS and size <= FEW_BYTES


class Layers(RuleBasedStateMachine):
    """Commands on a session, beside the dictionaries. The clock is moved by hand, also backwards."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 20
        self.log: list[tuple[Event | None, str, int]] = []
        self.entries: list[tuple[Entry, int]] = []
        self.erased: set[int] = set()
        self.state = SessionState()
        self.plain = Plain()
        self.give(CreateSession(scope=SCOPE, identity=ADA, ledgers=(ACME,), idle_timeout_us=1), [("created", None)])

    def give(self, command: SessionCommand, entries: list[Entry]) -> None:
        """Carry it out; it makes one event for each entry of the model's log."""
        made = decide_session(self.state, command, self.build_input())
        assert len(made) == len(entries)
        for event, entry in zip(made, entries, strict=True):
            if isinstance(event, PayloadsErased):
                self.forget(event.seqs)
            assert find_fault(self.state, event, event.name, self.erased) is None
            self.log.append((event, event.name, self.now))
            self.entries.append((entry, self.now))
            self.state = fold_session(self.state, event, event.name, self.now)
            self.plain.apply(entry, self.now)

    def build_input(self) -> DecisionInput:
        return DecisionInput(time_us=self.now, tokens=(1,), counter="c")

    def forget(self, seqs: tuple[int, ...]) -> None:
        for seq in seqs:
            self.erased.add(seq)
            self.log[seq - 1] = (None, *self.log[seq - 1][1:])
            (what, _), at = self.entries[seq - 1]
            whole = {"set": "set, erased", "put away": "put away, erased", "forgotten": "forgotten, erased"}
            if what in whole or what == "seen":
                self.entries[seq - 1] = ((whole.get(what, "seen, erased"), None), at)
        self.state, self.plain = _folded(self.log), Plain()
        for entry, at in self.entries:
            self.plain.apply(entry, at)

    @property
    def open(self) -> bool:
        return self.state.status == "open"

    @rule(by=steps)
    def wait(self, by: int) -> None:
        self.now += by

    @precondition(lambda self: self.open)
    @rule(name=names, value=values, ttl=spans)
    def set_working(self, name: str, value: Any, ttl: int | None) -> None:
        command = SetWorking(scope=SCOPE, item=name, value=value, ttl_us=ttl)
        there = self.plain.working.get(name)
        if there and codec.encode([there[0], there[2]]) == codec.encode(
            [value, None if ttl is None else self.now + ttl]
        ):
            return self.give(command, [])
        after = Plain()
        after.working = dict(self.plain.working)
        after.apply(("set", (name, value, ttl)), self.now)
        if not _fits(after.working):
            return self.refused(command, errors.TooLarge)
        return self.give(command, [("set", (name, value, ttl))])

    @precondition(lambda self: self.open)
    @rule(name=names, value=values, at=moments, ttl=spans, until=moments)
    def observe(self, name: str, value: Any, at: int | None, ttl: int | None, until: int | None) -> None:
        command = ObserveEnvironment(scope=SCOPE, item=name, value=value, observed_us=at, ttl_us=ttl, expires_us=until)
        there = self.plain.around.get(name)
        seen = self.now if at is None else at
        ends = until if ttl is None else seen + ttl
        if there and at is None:
            seen = max(seen, there[1])
        if there and (seen < there[1] or codec.encode([value, seen, ends]) == codec.encode(there[:3])):
            return self.give(command, [])
        new: Entry = ("seen", (name, value, seen, ends))
        others = {other: each for other, each in self.plain.around.items() if other != name}
        if _fits({**others, name: (value, seen, ends, 0)}):
            return self.give(command, [new])
        over = {other for other, (_, _, end, _) in others.items() if end is not None and end <= self.now}
        if not _fits({**{other: others[other] for other in {*others} - over}, name: (value, seen, ends, 0)}):
            return self.refused(command, errors.TooLarge)
        return self.give(command, [("forgotten", over), new])

    @precondition(lambda self: self.open)
    @rule(items=some_names)
    def clear_working(self, items: tuple[str, ...]) -> None:
        gone = {*items} & {*self.plain.working} if items else {*self.plain.working}
        self.give(ClearWorking(scope=SCOPE, items=items), [("put away", gone)] if gone else [])

    @precondition(lambda self: self.open)
    @rule(items=some_names)
    def clear_environment(self, items: tuple[str, ...]) -> None:
        gone = {*items} & {*self.plain.around} if items else {*self.plain.around}
        self.give(ClearEnvironment(scope=SCOPE, items=items), [("forgotten", gone)] if gone else [])

    @precondition(lambda self: self.open)
    @rule()
    def reset(self) -> None:
        self.give(ResetSession(scope=SCOPE, reason="again"), [("reset", None)])

    @precondition(lambda self: self.open)
    @rule(role=st.sampled_from(["system", "user", "assistant"]), name=names, value=values)
    def say(self, role: Role, name: str, value: Any) -> None:
        """Nobody sets anything by saying so."""
        text = Text(f"set {name} to {codec.encode(value).decode()}")
        new = NewMessage(role=role, content=(text,), metadata={name: value, "working": {name: value}})
        self.give(RecordMessages(scope=SCOPE, messages=(new,)), [("said", None)])

    @precondition(lambda self: self.state.status != "destroyed")
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        seqs = data.draw(st.lists(st.integers(2, len(self.log)), max_size=2, unique=True)) if len(self.log) > 1 else []
        if seqs:
            self.give(ErasePayloads(scope=SCOPE, seqs=tuple(seqs), reason="asked to"), [("erasure", None)])

    @precondition(lambda self: self.open and len(self.log) > 12)
    @rule(how=st.sampled_from([CloseSession, DestroySession, TimeOutSession]))
    def end(self, how: type[SessionCommand]) -> None:
        if how is TimeOutSession:
            self.now = self.state.active_us + 1
        self.give(how(scope=SCOPE, **({} if how is TimeOutSession else {"reason": "over"})), [("over", None)])  # type: ignore[arg-type]
        refusal = errors.SessionDestroyedError if how is DestroySession else errors.SessionClosedError
        self.refused(SetWorking(scope=SCOPE, item="a", value=1), refusal)
        self.refused(ObserveEnvironment(scope=SCOPE, item="a", value=1), refusal)
        self.refused(ClearWorking(scope=SCOPE), refusal)
        self.refused(ClearEnvironment(scope=SCOPE), refusal)

    def teardown(self) -> None:
        """What was erased since makes nothing look as if no command had made it."""
        state = SessionState()
        for seq, (event, name, time_us) in enumerate(self.log, 1):
            assert find_fault(state, event, name, {each for each in self.erased if each < seq}) is None
            state = fold_session(state, event, name, time_us)

    def refused(self, command: SessionCommand, refusal: type[errors.HoldfastError]) -> None:
        with pytest.raises(refusal):
            decide_session(self.state, command, self.build_input())

    @invariant()
    def the_state_is_what_the_dictionaries_say(self) -> None:
        state = self.state
        assert state.working == {name: WorkingItem(*each) for name, each in self.plain.working.items()}
        assert state.environment == {name: EnvironmentItem(*each) for name, each in self.plain.around.items()}
        assert codec.encode([*state.working.values()]) == codec.encode(
            [WorkingItem(*each) for each in self.plain.working.values()]
        )
        assert (state.identity, state.ledgers) == (ADA, (ACME,))
        assert state.bulk == self.plain.size + len(codec.encode(ADA)) + len(codec.encode((ACME,)))
        assert invariants.find_violations(state) == []

    @invariant()
    def a_replay_and_a_snapshot_say_the_same(self) -> None:
        assert _folded(self.log) == self.state
        assert codec.decode(codec.encode(self.state), SessionState) == self.state


def _folded(log: list[tuple[Event | None, str, int]]) -> SessionState:
    state = SessionState()
    for event, name, time_us in log:
        state = fold_session(state, event, name, time_us)
    return state


def test_layers_are_what_plain_dictionaries_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """With bounds so small that they matter, resets, erasures, ends, and a clock that also stands still and goes back."""
    with monkeypatch.context() as patch:
        patch.setattr(limits, "LAYER_ITEMS", FEW_ITEMS)
        patch.setattr(limits, "LAYER_BYTES", FEW_BYTES)
        run_state_machine_as_test(Layers, settings=settings(max_examples=MACHINES, stateful_step_count=40))


# Identity


@given(st.lists(st.tuples(strategies.commands(st.just(SCOPE)), strategies.inputs), max_size=12))
@settings(max_examples=EXAMPLES)
def test_only_a_refresh_changes_an_identity_and_nothing_what_is_read(
    orders: list[tuple[SessionCommand, DecisionInput]],
) -> None:
    """Nor does what a command makes happen; only erasing what said it takes it away, and then the user has less say."""
    creation = decide_session(SessionState(), CreateSession(scope=SCOPE, identity=ADA, ledgers=(ACME,)), _at(1))
    log: list[tuple[Event | None, str, int]] = [(event, event.name, 1) for event in creation]
    for command, inputs in orders:
        state = _folded(log)
        try:
            made = decide_session(state, command, inputs)
        except errors.HoldfastError:
            continue
        for event in made:
            for seq in event.seqs if isinstance(event, PayloadsErased) else ():
                log[seq - 1] = (None, *log[seq - 1][1:])
            log.append((event, event.name, inputs.time_us))
    state = _folded(log)
    expected = [
        (layers.UNKNOWN_IDENTITY if event is None else event.identity)  # type: ignore[union-attr]
        for event, name, _ in log
        if name in (SessionCreated.name, IdentityRefreshed.name)
    ]
    assert state.identity == expected[-1]
    assert state.ledgers == ((ACME,) if log[0][0] is not None else ())
    assert invariants.find_violations(state) == []


def test_a_refresh_replaces_all_fields_and_the_weight_follows() -> None:
    created = decide_session(SessionState(), CreateSession(scope=SCOPE, identity=ADA), _at(1))
    state = fold_session(SessionState(), created[0], created[0].name, 1)
    less = Identity(user_name="Ada", authority="CFO")
    [event] = decide_session(state, RefreshIdentity(scope=SCOPE, identity=less), _at(2))
    assert event == IdentityRefreshed(identity=less)
    state = fold_session(state, event, event.name, 2)
    assert state.identity == less
    assert state.bulk == len(codec.encode(less))
    assert decide_session(state, RefreshIdentity(scope=SCOPE, identity=less), _at(3)) == ()
    state = fold_session(state, IdentityRefreshed(), IdentityRefreshed.name, 4)
    assert (state.identity, state.bulk) == (Identity(), 0)
    state = fold_session(state, None, IdentityRefreshed.name, 5)
    assert (state.identity, state.bulk) == (layers.UNKNOWN_IDENTITY, 0)


def test_a_refresh_that_no_command_can_have_made_is_a_fault() -> None:
    created = SessionCreated(identity=ADA)
    state = fold_session(SessionState(), created, created.name, 1)
    for forged in (Identity(permissions=("b", "a")), Identity(user_name="a\nb"), Identity(authority="")):
        assert find_fault(state, IdentityRefreshed(identity=forged), IdentityRefreshed.name) is not None
    assert find_fault(state, IdentityRefreshed(identity=Identity()), IdentityRefreshed.name) is None
    closed = msgspec.structs.replace(state, status="closed")
    assert find_fault(closed, IdentityRefreshed(), IdentityRefreshed.name) is None
    destroyed = msgspec.structs.replace(state, status="destroyed")
    assert find_fault(destroyed, IdentityRefreshed(), IdentityRefreshed.name) is not None


def test_who_spoke_is_unknown_after_the_creation_was_erased_and_trusted_least() -> None:
    """Above all, an erasure must not raise anyone."""
    state = fold_session(SessionState(), None, SessionCreated.name, 1)
    assert state.identity == Identity(authority="")
    assert state.identity != Identity()
    with pytest.raises(errors.InvalidName):
        layers.check_identity(state.identity)


@given(strategies.identities)
@settings(max_examples=EXAMPLES)
def test_what_is_kept_of_an_identity_is_all_of_it_or_a_refusal(identity: Identity) -> None:
    try:
        kept = layers.check_identity(identity)
    except errors.InvalidInput:
        assert any(not text.isprintable() or len(text.encode()) > limits.NAME_BYTES for text in _texts(identity))
        return
    assert kept == identity
    assert layers.check_identity(kept) == kept
    event = SessionCreated(identity=kept)
    assert find_fault(SessionState(), event, event.name) is None
    assert fold_session(SessionState(), event, event.name, 1).identity == identity


def _texts(identity: Identity) -> list[str]:
    return [identity.user_name, identity.user_id, identity.department, identity.organization, *identity.permissions]


def test_permissions_are_kept_in_order_and_once_however_they_were_given() -> None:
    given_: list[Any] = [("b", "a", "b"), ["b", "a"], {"a", "b"}, frozenset("ab")]
    kept = [layers.check_identity(Identity(permissions=each)) for each in given_]
    assert {codec.encode(each) for each in kept} == {b'{"permissions":["a","b"]}'}


def test_an_identity_has_the_same_bytes_whichever_way_it_was_said() -> None:
    spelled = Identity(authority=b"peer".decode())
    assert codec.encode(layers.check_identity(spelled)) == codec.encode(layers.check_identity(Identity())) == b"{}"


def test_a_session_of_an_older_holdfast_has_an_identity_of_which_nothing_is_known() -> None:
    for version in (1, 2):
        stored = StoredEvent(
            SCOPE.stream, 1, "0" * 32, 0, "session.created", version, 1, "p", None, None, b"", b"", b"", b"salt",
            b'{"metadata":{"a":1}}',
        )  # fmt: skip
        event = upcast.decode_event(stored)
        assert event == SessionCreated(metadata={"a": 1})
        assert fold_session(SessionState(), event, stored.type, 1).identity == Identity()


def _ledger(*names_: Any, kind: Any = "user", tenant: Any = "tenant") -> LedgerId:
    return LedgerId(tenant, kind, names_)


BAD_LEDGERS: dict[str, Any] = {
    "no list": _ledger("ada"),
    "a text": "user/ada",
    "a set": {_ledger("ada")},
    "a key": [("user", "ada")],
    "a scope": [SCOPE],
    "another tenant": [_ledger("ada", tenant="rival")],
    "no tenant": [_ledger("ada", tenant=None)],
    "an unknown kind": [_ledger("ada", kind="team")],
    "no kind": [_ledger("ada", kind=None)],
    "no name": [_ledger()],
    "an empty name": [_ledger("")],
    "a number": [_ledger(5)],
    "two names": [_ledger("ada", "bob")],
    "a session by one name": [_ledger("ada", kind="session")],
    "a session by four": [_ledger("a", "b", "c", "d", kind="session")],
    "names that are a list": [LedgerId("tenant", "user", ["ada"])],  # type: ignore[arg-type]
    "names that are a text": [LedgerId("tenant", "user", "ada")],  # type: ignore[arg-type]
    "the same one twice": [_ledger("ada"), _ledger("bob"), _ledger("ada")],
    "its own": [_ledger("actor", "session", kind="session")],
    "one too many": [_ledger(f"{number}") for number in range(limits.SESSION_LEDGERS + 1)],
}


@pytest.mark.parametrize("name", BAD_LEDGERS)
def test_ledgers_that_cannot_be_read_are_refused(name: str) -> None:
    with pytest.raises(errors.InvalidInput):
        check_ledgers(BAD_LEDGERS[name], SCOPE.stream.key, SCOPE.tenant)


def test_ledgers_are_kept_in_the_order_in_which_they_have_a_say() -> None:
    given_ = [_ledger("acme", kind="organization"), _ledger("ada"), _ledger("a", "s", "t", kind="session")]
    keys = check_ledgers(given_, SCOPE.stream.key, SCOPE.tenant)
    assert keys == (("organization", "acme"), ("user", "ada"), ("session", "a", "s", "t"))
    most = [_ledger(f"{number}") for number in range(limits.SESSION_LEDGERS)]
    assert len(check_ledgers(most, SCOPE.stream.key, SCOPE.tenant)) == limits.SESSION_LEDGERS


# Bounds, at their full size


def _at(time_us: int) -> DecisionInput:
    return DecisionInput(time_us=time_us)


def _after(state: SessionState, command: SessionCommand, time_us: int = 1) -> SessionState:
    for event in decide_session(state, command, _at(time_us)):
        state = fold_session(state, event, event.name, time_us)
    return state


def _session() -> SessionState:
    return _after(SessionState(), CreateSession(scope=SCOPE))


Setting = Callable[[str, Any, int | None], SessionCommand]


def _working(item: str, value: Any, ttl_us: int | None = None) -> SessionCommand:
    return SetWorking(scope=SCOPE, item=item, value=value, ttl_us=ttl_us)


def _around(item: str, value: Any, ttl_us: int | None = None) -> SessionCommand:
    return ObserveEnvironment(scope=SCOPE, item=item, value=value, ttl_us=ttl_us)


@pytest.mark.parametrize("setting", [_working, _around])
def test_a_layer_takes_just_as_many_bytes_as_its_bound_says(setting: Setting) -> None:
    whole = "x" * (limits.LAYER_BYTES - len('"a"') - len('""'))
    full = _after(_session(), setting("a", whole, None))
    assert full.bulk == limits.LAYER_BYTES
    for state, item, value in ((full, "b", 1), (full, "a", whole + "x"), (_session(), "a", whole + "x")):
        with pytest.raises(errors.TooLarge) as refusal:
            decide_session(state, setting(item, value, None), _at(2))
        assert refusal.value.limit == limits.LAYER_BYTES
    assert _after(full, setting("a", "less", None)).bulk == len('"a""less"')


@pytest.mark.parametrize("setting", [_working, _around])
def test_a_layer_takes_just_as_many_items_as_its_bound_says_and_what_ran_out_makes_room(setting: Setting) -> None:
    state = _session()
    for number in range(limits.LAYER_ITEMS):
        event: Any = decide_session(_session(), setting(f"{number}", number, 10 if number % 2 else None), _at(1))[0]
        state = fold_session(state, event, event.name, 1)
    with pytest.raises(errors.TooLarge) as refusal:
        decide_session(state, setting("more", 1, None), _at(10))
    assert (refusal.value.size, refusal.value.limit) == (limits.LAYER_ITEMS + 1, limits.LAYER_ITEMS)
    after = _after(state, setting("more", 1, None), time_us=11)
    kept = after.working or after.environment
    assert {*kept} == {*(f"{number}" for number in range(0, limits.LAYER_ITEMS, 2)), "more"}
    assert after.bulk == layers.layer_weight(after) < state.bulk
    assert after.weight < state.weight


# What no command can have made

FULL = _after(_after(_session(), _working("a", 1)), ObserveEnvironment(scope=SCOPE, item="w", value=1, observed_us=50))
DEEP: Any = []
for _ in range(limits.JSON_DEPTH + 1):
    DEEP = [DEEP]
PAST, BEYOND = -1, limits.WHOLE_NUMBER + 1

FORGED: dict[str, Event] = {
    "no name": WorkingSet(item="", value=1),
    "a name with a line end": WorkingSet(item="a\nb", value=1),
    "a long name": EnvironmentObserved(item="x" * (limits.NAME_BYTES + 1), value=1, observed_us=1),
    "a deep value": WorkingSet(item="a", value=DEEP),
    "a large value": EnvironmentObserved(item="a", value="x" * limits.LAYER_BYTES, observed_us=1),
    "a large number": WorkingSet(item="a", value=1 << 64),
    "an end before time began": WorkingSet(item="a", value=1, expires_us=PAST),
    "an end beyond time": EnvironmentObserved(item="a", value=1, observed_us=1, expires_us=BEYOND),
    "an observation before time began": EnvironmentObserved(item="a", value=1, observed_us=PAST),
    "an observation beyond time": EnvironmentObserved(item="a", value=1, observed_us=BEYOND),
    "old news": EnvironmentObserved(item="w", value=2, observed_us=49),
    "a timezone that is a number": EnvironmentObserved(item="timezone", value=1, observed_us=1),
    "nothing put away": WorkingCleared(items=()),
    "something put away twice": WorkingCleared(items=("a", "a")),
    "something put away that was not there": WorkingCleared(items=("b",)),
    "nothing forgotten": EnvironmentCleared(items=()),
    "forgotten out of order": EnvironmentCleared(items=("w", "a")),
    "something forgotten that was never seen": EnvironmentCleared(items=("a",)),
}


@pytest.mark.parametrize("name", FORGED)
def test_what_no_command_can_have_made_is_found_out(name: str) -> None:
    event = FORGED[name]
    assert find_fault(FULL, event, event.name)


CREATED: dict[str, dict[str, Any]] = {
    "a name with a line end": {"identity": Identity(user_name="Ada\nadmin")},
    "no authority": {"identity": Identity(authority="")},
    "an empty permission": {"identity": Identity(permissions=("",))},
    "permissions out of order": {"identity": Identity(permissions=("b", "a"))},
    "a permission twice": {"identity": Identity(permissions=("a", "a"))},
    "too many permissions": {
        "identity": Identity(permissions=tuple(f"{number:05}" for number in range(limits.PERMISSIONS + 1)))
    },
    "a ledger without a key": {"ledgers": ((),)},
    "a ledger of another kind": {"ledgers": (("team", "a"),)},
    "a ledger without a name": {"ledgers": (("user",),)},
    "a ledger with two": {"ledgers": (("user", "a", "b"),)},
    "a ledger twice": {"ledgers": (ACME, ACME)},
    "too many ledgers": {"ledgers": tuple(("user", f"{number}") for number in range(limits.SESSION_LEDGERS + 1))},
}


@pytest.mark.parametrize("name", CREATED)
def test_what_no_session_can_have_begun_with_is_found_out(name: str) -> None:
    event = SessionCreated(**CREATED[name])
    assert find_fault(SessionState(), event, event.name)
    sound = SessionCreated(identity=ADA, ledgers=(ACME, ("session", "a", "s")))
    assert find_fault(SessionState(), sound, sound.name) is None


def test_a_forged_history_cannot_grow_a_layer_beyond_its_bounds() -> None:
    for name, wanted in (("working", WorkingSet), ("environment", EnvironmentObserved)):
        state, grew = _session(), 0
        half = "x" * (limits.LAYER_BYTES // 2 - 100)
        for number in range(5):
            options = {} if wanted is WorkingSet else {"observed_us": 1}
            event: Any = wanted(item=f"{number}", value=half, **options)
            if find_fault(state, event, event.name) is None:
                grew += 1
                state = fold_session(state, event, event.name, 1)
        assert grew <= 3
        assert len(getattr(state, name)) == grew


def test_what_was_cleared_does_not_come_back_when_the_clearing_is_erased() -> None:
    log: list[tuple[Event | None, str, int]] = [(SessionCreated(), SessionCreated.name, 1)]
    events: list[Event] = [
        WorkingSet(item="a", value=1),
        WorkingCleared(items=("a",)),
        WorkingSet(item="b", value=2),
        EnvironmentObserved(item="w", value=1, observed_us=1),
        EnvironmentCleared(items=("w",)),
    ]
    log += [(None if "cleared" in event.name else event, event.name, 1) for event in events]
    state = _folded(log)
    assert ([*state.working], [*state.environment]) == (["b"], [])


def test_what_a_value_replaced_stands_again_when_the_value_is_erased() -> None:
    """As after any erasure, the state is what it would be if the event had said nothing."""
    state = _after(_session(), _working("a", "old"))
    for event in (None, WorkingSet(item="b", value=1)):
        state = fold_session(state, event, WorkingSet.name, 2)
    assert {name: item.value for name, item in state.working.items()} == {"a": "old", "b": 1}


def test_what_had_run_out_when_something_was_set_stays_away_when_that_is_erased() -> None:
    state = _after(_session(), _working("a", 1, ttl_us=5))
    assert fold_session(state, None, WorkingSet.name, 5).working == state.working
    assert fold_session(state, None, WorkingSet.name, 6).working == {}


def test_a_reset_takes_what_is_at_hand_and_leaves_what_is_around() -> None:
    state = fold_session(FULL, SessionReset(reason="r"), SessionReset.name, 60)
    assert (state.working, state.environment) == ({}, FULL.environment)
    assert state.bulk == layers.layer_weight(state) == len('"w"1')
    assert msgspec.structs.replace(state, environment={}) != state
