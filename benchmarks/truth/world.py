"""A world to play cases in: one session and three ledgers in memory, under a fixed clock, through the public interface."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Literal, Self

import msgspec

import holdfast
from benchmarks.truth.cases import FactCase, FactChange, Owner, Step

START_US = 1_740_992_400_000_000
"""Monday, 3 March 2025, 09:00 UTC."""
STEP_US = 60_000_000
BUDGET = 16_000
"""Of a pack, in tokens: room for all of a conversation."""
FRAME_BUDGET = 100_000


class SteppingClock:
    """A minute later with each look, and the same on every day."""

    def __init__(self) -> None:
        self._now_us = START_US

    def now_us(self) -> int:
        self._now_us += STEP_US
        return self._now_us


class Question(msgspec.Struct, frozen=True):
    """A change that somebody is asked about."""

    key: str
    value: Any


def open_engine(guard: str | None = None) -> holdfast.Engine:
    """A store in memory with the default settings, or with another guard than the default."""
    if guard is None:
        return holdfast.open("memory:", clock=SteppingClock())
    return holdfast.open("memory:", clock=SteppingClock(), policy=holdfast.Policy(guard=guard))  # type: ignore[arg-type]


class World:
    def __init__(self, guard: str | None = None) -> None:
        self._engine = open_engine(guard)
        self._ledgers: dict[Owner, holdfast.Ledger] = {
            "user": self._engine.ledger(user="ada"),
            "organization": self._engine.ledger(organization="acme"),
            "project": self._engine.ledger(project="apollo"),
        }
        self._session = self._engine.create_session(
            "truth",
            actor="ada",
            identity=holdfast.Identity(user_name="Ada", authority="employee"),
            ledgers=[ledger.id for ledger in self._ledgers.values()],
        )
        self._place: holdfast.Session | holdfast.Frame = self._session

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._engine.close()

    def assert_fact(self, fact: FactCase | FactChange, value: Any) -> None:
        ledger = self._ledgers[fact.owner]
        if fact.authority is None:
            ledger.set(fact.key, value)
        else:
            ledger.set(fact.key, value, authority=fact.authority)

    def apply_change(self, change: FactChange) -> None:
        if change.value is None:
            self._ledgers[change.owner].retract(change.key)
        else:
            self.assert_fact(change, change.value)

    def find_value(self, key: str) -> Any:
        """The value that the session sees for a key; None without one."""
        fact = self._session.facts.get(key)
        return None if fact is None else fact.value

    def find_keys(self) -> set[str]:
        """The keys of all live facts, in the session's own ledger too; claims left out."""
        ledgers = [*self._ledgers.values(), self._session.ledger()]
        return {fact.key for ledger in ledgers for fact in ledger.items(limit=100) if not fact.is_claim}

    def observe(self, text: str) -> list[Question]:
        """Observe what the user says. Returns what somebody is asked about; what was applied is in the facts."""
        judged = self._session.observe(text).proposals
        return [
            Question(each.proposal.key or self._find_key(each.proposal.fact), each.proposal.value)
            for each in judged
            if each.outcome == "asked"
        ]

    def say(self, role: Literal["user", "assistant"], text: str) -> None:
        self._place.record(role, text)

    def _find_key(self, fact_id: str | None) -> str:
        facts = (fact for ledger in self._ledgers.values() for fact in ledger.items(limit=100))
        return next((fact.key for fact in facts if fact.id == fact_id), "")

    def play(self, step: Step) -> None:
        """Take one step of a conversation."""
        if step.change is not None:
            self.apply_change(step.change)
        elif step.summary is not None:
            draft = self._session.context.draft_summary(keep_turns=step.keep_turns)
            if draft is None:
                raise ValueError("there is nothing to summarize at this step")
            self._session.context.summarize(draft, step.summary)
        elif step.frame is not None:
            self._place = self._session.frame(step.frame, budget=FRAME_BUDGET)
        elif step.environment is not None:
            self._session.environment.set(step.environment.name, step.environment.value)
        elif step.role == "tool":
            call = self._place.record("assistant", tool_calls=[{"name": step.name, "args": step.args}]).tool_calls[0]
            self._place.result(call, step.result)
        elif step.role is not None:
            self.say(step.role, step.text)

    def read_pack(self) -> str:
        return str(self._place.pack(budget=BUDGET))

    def read_history(self) -> str:
        return str(self._place.context.render("text"))
