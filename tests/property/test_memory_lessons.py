"""Facts from ended sessions: of each key the latest words count, in whatever order and however often sessions are read.

No value is stated twice: an equal statement leaves no trace in a ledger, so it makes no fact newer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Engine
from holdfast.flows.effects import Flow
from holdfast.flows.memory.lessons import learn
from holdfast.types import Offload
from tests.edges.engines import ManualClock
from tests.support import figure

EXAMPLES = figure(30, 2_000)
T = TypeVar("T")
KEYS = {"address": "{} Fir Road", "email": "ada{}@corp.example"}
FILLERS = (
    "Thanks.",
    "Is my address 9 Pine Road?",
    "My sister's email is eve@else.example.",
    "If my address were 1 Low Road, would it ship?",
)


class Step(NamedTuple):
    """Something that happens at one time: a word in a session, or a fact that the program sets or retracts."""

    actor: str
    """A session, or the program."""
    key: str
    value: str | None
    """None for a filler, or a retraction."""
    filler: str = FILLERS[0]


actions = st.tuples(
    st.sampled_from(["s0", "s1", "program"]), st.sampled_from([*KEYS]), st.booleans(), st.sampled_from(FILLERS)
)


def build_script(chosen: list[tuple[str, str, bool, str]]) -> list[Step]:
    return [
        Step(actor, key, KEYS[key].format(10 + number) if is_stated else None, filler)
        for number, (actor, key, is_stated, filler) in enumerate(chosen)
    ]


@contextmanager
def played(script: list[Step]) -> Iterator[Engine]:
    """An engine in which all this has happened, and the sessions have ended."""
    clock = ManualClock()
    with holdfast.open("memory:", clock=clock) as engine:
        ledger = engine.ledger(user="ada")
        sessions = {name: engine.create_session(name, user="ada") for name in ("s0", "s1")}
        for step in script:
            clock.now_s += 60
            if step.actor != "program":
                text = step.filler if step.value is None else f"My {step.key} is now {step.value}."
                sessions[step.actor].record("user", text)
            elif step.value is not None:
                ledger.set(step.key, step.value)
            elif ledger.get(step.key) is not None:
                ledger.retract(step.key)
        for session in sessions.values():
            clock.now_s += 60
            session.end()
        clock.now_s += 60
        yield engine


def expected_values(script: list[Step]) -> dict[str, str]:
    """The latest words about each key. A retraction of a fact that was set is news, too."""
    values: dict[str, str] = {}
    held: set[str] = set()
    for step in script:
        if step.value is not None:
            values[step.key] = step.value
            held |= {step.key} if step.actor == "program" else set()
        elif step.actor == "program" and step.key in held:
            values.pop(step.key, None)
            held.discard(step.key)
    return values


def dump(engine: Engine) -> bytes:
    ledger = engine.ledger(user="ada")
    return msgspec.json.encode([ledger.history(key) for key in KEYS])


def current(engine: Engine) -> dict[str, Any]:
    return {fact.key: fact.value for fact in engine.ledger(user="ada").items()}


def interrupt(flow: Flow[T], after: int) -> Flow[T | None]:
    """The same flow, left after so many effects: as if its process had died."""
    try:
        effect = next(flow)
        for _ in range(after):
            try:
                answer = yield effect
            except BaseException as error:
                effect = flow.throw(error)
            else:
                effect = flow.send(answer)
    except StopIteration as stop:
        whole: T = stop.value
        return whole
    flow.close()
    return None


def entries_of(engine: Engine, *, backwards: bool) -> list[Offload]:
    return sorted(engine.admin.outbox(), key=lambda entry: entry.scope.session, reverse=backwards)


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(actions, min_size=1, max_size=10).map(build_script),
    st.booleans(),
    st.lists(st.integers(0, 60), max_size=3),
)
def test_the_latest_words_count_however_sessions_are_read(
    script: list[Step], backwards: bool, interruptions: list[int]
) -> None:
    with played(script) as engine:
        entries = entries_of(engine, backwards=backwards)
        for after in interruptions:
            for entry in entries:
                engine._drive(interrupt(learn(engine._context, entry), after))
        for entry in entries:
            engine._drive(learn(engine._context, entry))
        assert current(engine) == expected_values(script)
        before = dump(engine)
        for entry in reversed(entries):
            assert engine._drive(learn(engine._context, entry)) == 0
        assert dump(engine) == before, "a second look changed something"
