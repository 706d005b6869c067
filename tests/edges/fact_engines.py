"""Ledgers, readers and detectors for tests of facts, on every kind of engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import holdfast
from holdfast import Engine, Fact, Identity, Ledger, Session
from holdfast.types import Observation, Proposal
from tests.edges.engines import BlockingProxy

STORES = ("memory", "sqlite", "postgres")
MANY = ("memory", "sqlite", "postgres", "memory awaited")
"""What differs between stores shows on each of them, what differs between blocking and awaiting on any."""

GUEST = Identity(user_id="g1", user_name="Gil", authority="guest")
PEER = Identity(user_id="p1", user_name="Pat", authority="employee")
MANAGER = Identity(user_id="m1", user_name="Max", authority="manager", permissions=("facts:endorse",))
CLERK = Identity(user_id="h1", user_name="Hana", authority="manager", permissions=("hr",))
CFO = Identity(user_id="c1", user_name="Carla", authority="CFO", permissions=("facts:endorse", "hr"))


def open_ledger(engine: Engine, *, identity: Identity | None = None, **named: str) -> Ledger:
    """A ledger of an engine, blocking or awaited."""
    return _to_blocking(engine, engine.ledger(identity=identity, **named))


def open_session_ledger(session: Session, **named: str) -> Ledger:
    """A ledger as the one who speaks in a session sees it."""
    return _to_blocking(session, session.ledger(**named))


def _to_blocking(of: Any, ledger: Any) -> Ledger:
    held: Any = BlockingProxy(ledger, of._runner) if isinstance(ledger, holdfast.AsyncLedger) else ledger
    return cast("Ledger", held)


class ScriptedDetector:
    """A detector that remembers what it was shown and proposes what it is told to."""

    name = "hearing"

    def __init__(self, answer: Callable[[Observation], Any] = lambda _: ()) -> None:
        self.answer = answer
        self.shown: list[Observation] = []

    def detect(self, observation: Observation) -> tuple[Proposal, ...]:
        self.shown.append(observation)
        proposals: tuple[Proposal, ...] = self.answer(observation)
        return proposals


def proposal(**changes: Any) -> Proposal:
    """Something that is plainly said, unless it is changed."""
    usual = {"change": "assert", "rule": "stated", "reason": "it was said", "confidence": 0.9, "key": "k", "value": "v"}
    return Proposal(**{**usual, **changes})


def propose_superseding(key: str, **changes: Any) -> Callable[[Observation], tuple[Proposal, ...]]:
    """Proposes to supersede the first candidate that has this key; nothing if there is none."""

    def answer(observation: Observation) -> tuple[Proposal, ...]:
        found = [each for each in observation.facts if each.key == key]
        given = {"change": "supersede", "rule": "explicit", "key": key, **changes}
        return tuple(proposal(fact=each.fact, **given) for each in found[:1])

    return answer


def values_by_key(facts: Iterable[Fact]) -> dict[str, Any]:
    return {fact.key: fact.value for fact in facts}


def ledger_context(ledger: Ledger, query: str) -> str:
    """All that a reader who asks this is given, as text."""
    listed = [str(fact.value) for fact in ledger.items()]
    return "\n".join(listed + [str(known.fact.value) for known in ledger.search(query)])
