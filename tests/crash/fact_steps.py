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
from holdfast import Engine, Identity, Observation, Proposal, Session, Span
from holdfast.model.names import LedgerId, StreamId
from holdfast.ports import EventStore
from tests.crash.frame_steps import Deadly, die, finding, laying, taking
from tests.crash.worker import be_nursery

SPEAKER = Identity(user_id="ada", authority="manager")
KEY = "step"


class Told:
    """Takes the last word of what is said for the town, and all of it for something said."""

    name = "told"

    def detect(self, observation: Observation) -> tuple[Proposal, ...]:
        text = observation.said.text
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
                new=Span(0, text.index(word), text.index(word) + len(word)),
            )
            for each in observation.facts
            if each.key == "town"
        ]
        said = Proposal(change="assert", rule="stated", reason="said so", confidence=sure, key="said", value=text)
        return (*found, said)


class Desk(msgspec.Struct, frozen=True):
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


def lay(engine: Engine, tenant: str) -> Desk:
    engine = told(engine)
    ledger = engine.ledger(user="ada")
    town = ledger.assert_("town", "Oslo", ref="doc")
    ledger.assert_("trip", "by train", depends_on=town)
    old = ledger.assert_("price", 5)
    ledger.assert_("price", 6)
    draft = ledger.assert_("plan", "stay", scope="draft", scope_id="d")
    session = engine.create_session("work", identity=SPEAKER, ledgers=[ledger.id])
    session.ledger().assert_("said", "Nothing yet.")
    (proposal,) = (each.id for each in session.observe("Perhaps it is Bergen.").judged if each.proposal.key == "town")
    return Desk(tenant=tenant, town=town.id, old=old.id, draft=draft.id, proposal=proposal)


def told(engine: Engine) -> Engine:
    """The same with the detector of this place."""
    return Engine(engine.store, engine.blobs, msgspec.structs.replace(engine._place, detector=Told()))


class Step(NamedTuple):
    """Something that is done at the desk, always under the same key; and the town as it is then."""

    take: Callable[[Engine, Session, Desk], object]
    town: str | None
    messages: int = 1


def ledger_of(engine: Engine) -> holdfast.Ledger:
    return engine.ledger(user="ada")


STEPS: dict[str, Step] = {
    "assert": Step(lambda engine, _, desk: ledger_of(engine).assert_("town", "Rome", key=KEY), "Rome"),
    "retract": Step(lambda engine, _, desk: ledger_of(engine).retract(desk.town, key=KEY), None),
    "reinstate": Step(lambda engine, _, desk: ledger_of(engine).reinstate(desk.old, key=KEY), "Oslo"),
    "promote": Step(lambda engine, _, desk: ledger_of(engine).promote(desk.draft, key=KEY), "Oslo"),
    "erase": Step(lambda engine, _, desk: ledger_of(engine).erase([desk.town], "asked to", key=KEY), None),
    "observe": Step(lambda _, session, desk: session.observe("Now it is Rome.", key=KEY), "Rome", 2),
    "accept": Step(lambda _, session, desk: session.accept(desk.proposal, key=KEY), "Bergen"),
}


# The process


class Task(msgspec.Struct, frozen=True):
    url: str
    desk: Desk
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


class DeadlyToFacts(Deadly):
    """The process dies at one of these points."""

    def _arm(self, connection: apsw.Connection) -> None:
        beginning = STATEMENTS.get(self._point)
        if beginning is None:
            super()._arm(connection)
        else:
            connection.exec_trace = lambda _, sql, __: beginning.match(sql) is None or die()


def laid_by(engine: Engine, tenant: str) -> Engine:
    """A store, as seen by the process that lays the desk."""
    return told(laying(engine, tenant))


def taken_by(engine: Engine, tenant: str) -> Engine:
    """… by the process that takes the step."""
    return told(taking(engine, tenant))


def found_by(engine: Engine, tenant: str) -> Engine:
    """… by whoever comes next."""
    return told(finding(engine, tenant))


def take_and_die(line: bytes) -> None:
    task = msgspec.json.decode(line, type=Task)
    engine = taken_by(holdfast.open(task.url), task.desk.tenant)
    session: Any = engine.session("work")
    if task.point:
        engine.store = cast("EventStore", DeadlyToFacts(engine.store, task.point, 1))
    STEPS[task.step].take(engine, session, task.desk)


if __name__ == "__main__":
    be_nursery(take_and_die)
