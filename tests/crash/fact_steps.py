"""A desk with facts on it, the steps that are taken there, and the process that takes one and dies in the middle of it.

As with frames, the same desk is laid in every store, by a clock and with ids that are the same in every run: so what stands
there after a step is known, byte for byte, before the step is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import apsw
import msgspec

import holdfast
from holdfast import Engine, Identity, Session
from holdfast.model.names import LedgerId, StreamId
from holdfast.ports import EventStore
from holdfast.types import MessageSpan, Observation, Proposal
from tests.crash.frame_steps import DeadlyStore, as_preparer, as_successor, as_worker
from tests.crash.worker import die, serve_nursery

SPEAKER = Identity(user_id="ada", authority="manager")
KEY = "step"


class LastWordDetector:
    """Takes the last word of what is said for the town, and all of it for something said."""

    name = "told"

    def detect(self, observation: Observation) -> tuple[Proposal, ...]:
        text = observation.message.text
        sure = 0.6 if text.startswith("Perhaps") else 0.95
        word = text.rstrip(".").rpartition(" ")[2]
        found = [
            Proposal(
                change="supersede",
                rule="explicit",
                reason="said so",
                confidence=sure,
                fact=each.fact,
                key=each.key,
                value=word,
                new=MessageSpan(0, text.index(word), text.index(word) + len(word)),
            )
            for each in observation.facts
            if each.key == "town"
        ]
        said = Proposal(change="assert", rule="stated", reason="said so", confidence=sure, key="said", value=text)
        return (*found, said)


class FactDesk(msgspec.Struct, frozen=True):
    """A fact that another one rests on, one that took the place of another, a draft, and a proposal that waits."""

    tenant: str
    town: str
    """What the trip rests on."""
    old: str
    """Superseded."""
    draft: str
    proposal: str

    @property
    def ledger(self) -> LedgerId:
        return LedgerId(self.tenant, "user", ("ada",))

    @property
    def streams(self) -> tuple[StreamId, ...]:
        session = StreamId(self.tenant, "session", ("main", "work"))
        return session, self.ledger.stream, LedgerId(self.tenant, "session", session.key).stream


def lay_facts(engine: Engine, tenant: str) -> FactDesk:
    engine = with_detector(engine)
    ledger = engine.ledger(user="ada")
    town = ledger.set("town", "Oslo", ref="doc")
    ledger.set("trip", "by train", depends_on=town)
    old = ledger.set("price", 5)
    ledger.set("price", 6)
    draft = ledger.set("plan", "stay", scope="draft", scope_id="d")
    session = engine.create_session("work", identity=SPEAKER, ledgers=[ledger.id])
    session.ledger().set("said", "Nothing yet.")
    (proposal,) = (
        each.id for each in session.observe("Perhaps it is Bergen.").proposals if each.proposal.key == "town"
    )
    return FactDesk(tenant=tenant, town=town.id, old=old.id, draft=draft.id, proposal=proposal)


def with_detector(engine: Engine) -> Engine:
    """The same with the detector of this place."""
    return Engine(
        engine.store, engine._blob_store, msgspec.structs.replace(engine._context, detector=LastWordDetector())
    )


class Step(NamedTuple):
    """Something that is done at the desk, always under the same key; and the town as it is then."""

    take: Callable[[Engine, Session, FactDesk], object]
    town: str | None
    messages: int = 1


def ledger_of(engine: Engine) -> holdfast.Ledger:
    return engine.ledger(user="ada")


STEPS: dict[str, Step] = {
    "assert": Step(lambda engine, _, desk: ledger_of(engine).set("town", "Rome", key=KEY), "Rome"),
    "retract": Step(lambda engine, _, desk: ledger_of(engine).retract(desk.town, key=KEY), None),
    "reinstate": Step(lambda engine, _, desk: ledger_of(engine).review.reinstate(desk.old, key=KEY), "Oslo"),
    "promote": Step(lambda engine, _, desk: ledger_of(engine).review.promote(desk.draft, key=KEY), "Oslo"),
    "erase": Step(lambda engine, _, desk: ledger_of(engine).erase([desk.town], "asked to", key=KEY), None),
    "observe": Step(lambda _, session, desk: session.observe("Now it is Rome.", key=KEY), "Rome", 2),
    "accept": Step(lambda _, session, desk: session.facts.accept(desk.proposal, key=KEY), "Bergen"),
}


# The process


class Task(msgspec.Struct, frozen=True):
    url: str
    desk: FactDesk
    step: str
    point: str = ""
    """Where the process dies by itself; empty if it is killed."""


STATEMENTS = {
    "the transaction has begun": re.compile("PRAGMA data_version"),
    "the heads are moved": re.compile("INSERT INTO events"),
    "the events are written": re.compile(r"INSERT INTO \w+_rows"),
    "the rows of facts are written": re.compile("INSERT INTO ledger_rows"),
    "the rows are written": re.compile("UPDATE log_totals"),
    "nothing is left but to commit": re.compile("COMMIT"),
}
"""Points in a transaction of SQLite: right before the first statement that begins like this."""


class DeadlyFactStore(DeadlyStore):
    """The process dies at one of these points."""

    def _arm(self, connection: apsw.Connection) -> None:
        beginning = STATEMENTS.get(self._point)
        if beginning is None:
            super()._arm(connection)
        else:
            connection.exec_trace = lambda _, sql, __: beginning.match(sql) is None or die()


def as_fact_preparer(engine: Engine, tenant: str) -> Engine:
    """A store, as seen by the process that lays the desk."""
    return with_detector(as_preparer(engine, tenant))


def as_fact_worker(engine: Engine, tenant: str) -> Engine:
    """… by the process that takes the step."""
    return with_detector(as_worker(engine, tenant))


def as_fact_successor(engine: Engine, tenant: str) -> Engine:
    """… by whoever comes next."""
    return with_detector(as_successor(engine, tenant))


def run_step(line: bytes) -> None:
    task = msgspec.json.decode(line, type=Task)
    engine = as_fact_worker(holdfast.open(task.url), task.desk.tenant)
    session: Any = engine.session("work")
    if task.point:
        engine.store = cast("EventStore", DeadlyFactStore(engine.store, task.point, 1))
    STEPS[task.step].take(engine, session, task.desk)


if __name__ == "__main__":
    serve_nursery(run_step)
