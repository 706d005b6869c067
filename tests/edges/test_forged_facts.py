"""Exports with events about facts that no command can have made: refused by line, whatever their checksums say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import codec
from holdfast.model import limits
from holdfast.model.events import Event
from holdfast.model.facts.events import (
    FactAsserted,
    FactConfirmed,
    FactDisputed,
    FactEndorsed,
    FactExpired,
    FactMarked,
    FactPromoted,
    FactReinstated,
    FactRetracted,
    FactsProposed,
    FactsRestored,
    FactSuperseded,
    FactsWithdrawn,
    ProposalDecided,
)
from holdfast.model.sessions.events import MessageRecorded, PayloadsErased, SessionClosed, WorkingSet
from holdfast.types import FactSource, Mention, MessageSpan, Proposal
from tests.edges.engines import LOCAL_KINDS, EngineDesk, log_of
from tests.edges.fact_engines import ScriptedDetector, open_ledger, proposal
from tests.edges.test_transfer import chained, exported_to, line_of, refused_at, sealed_file
from tests.support import figure


def _history(engine: holdfast.Engine) -> dict[str, str]:
    """Facts in every state; what their ids are called."""
    ledger = open_ledger(engine, user="ada")
    first = ledger.set("plan", "A")
    live = ledger.set("plan", "B")
    other = ledger.set("other", 1)
    taken = ledger.set("taken", 1)
    ledger.retract(taken)
    over = ledger.set("over", 1)
    ledger.review.expire(over)
    source = ledger.set("source", 1)
    derived = ledger.set("derived", 2, depends_on=source)
    policy = ledger.set("limit", 1, authority="policy")
    claim = ledger.set("limit", 2, authority="guest")
    draft = ledger.set("title", "x", scope="draft", scope_id="d")
    session = engine.session("w", user="ada", create=True)
    doubted = session.ledger(user="ada").set("doubted", 1, provenance=session.record("user", "It is one.").id)
    session.withdraw()
    gone = ledger.set("gone", "x")
    ledger.erase(gone, "asked to")
    return {name: fact.id for name, fact in locals().items() if isinstance(fact, holdfast.Fact)}


def _conversation(engine: holdfast.Engine) -> dict[str, str]:
    session = engine.create_session("s")
    judged = [session.observe(text).proposals[0] for text in ("it is so", "it is not so")]
    session.facts.decline(judged[0].id)
    return {"decided": judged[0].id, "open": judged[1].id}


def _asking() -> ScriptedDetector:
    return ScriptedDetector(lambda _: (proposal(confidence=0.6),))


IDS: dict[str, str] = _history(holdfast.open("memory:"))
PROPOSED: dict[str, str] = _conversation(holdfast.open("memory:", detector=_asking()))
OWN = ("session", "main", "s")
LABEL = 'w3:["main","w"]'
"""The withdrawal of the only message of the session."""
NEXT = "k99"
"""A fact that never was."""


def _forged(desk: EngineDesk, event: Event, of: str) -> Path:
    source = desk.open("memory", detector=_asking())
    (_history if of == "ledger" else _conversation)(source)
    lines = exported_to(source, desk, "true.jsonl").read_bytes().splitlines(keepends=True)
    log = log_of(source)
    last = log[-1]
    assert last.stream.kind == of
    forged = msgspec.structs.replace(
        last,
        seq=last.seq + 1,
        type=event.name,
        version=event.version,
        payload=codec.encode_event(event),
        command=f"{2**100:032x}",
        ordinal=0,
        key=None,
    )
    made = [line_of(each) for each in (*log, chained(last.hash, forged))]
    return sealed_file(desk.folder / "forged.jsonl", [lines[0], *made, lines[-1]])


def _asserted(**changes: Any) -> FactAsserted:
    return FactAsserted(**{"key": "new", "value": 1, "source": FactSource(), "valid_from_us": 1, **changes})


def _superseded(fact: str, by: str, **changes: Any) -> FactSuperseded:
    return FactSuperseded(**{"fact": fact, "by": by, "rule": "explicit", **changes})


def _mention(**changes: Any) -> tuple[Mention, ...]:
    return (Mention(**{"actor": "main", "session": "s", "seq": 2, "start": 0, "end": 1, **changes}),)


def _proposed(*proposals: Any, message: int = 2) -> FactsProposed:
    return FactsProposed(detector="d", message=message, proposals=proposals)


TRUE: dict[str, Event] = {
    "a fact": _asserted(),
    "a derived fact": _asserted(depends_on=(IDS["live"],), mentions=_mention()),
    "a fact that rests on an erased one": _asserted(depends_on=(IDS["gone"],)),
    "a claim": _asserted(key="limit", against=IDS["policy"], source=FactSource(authority="guest")),
    "a supersession": _superseded(IDS["other"], IDS["live"]),
    "a supersession with a follower": _superseded(IDS["source"], IDS["live"], followers=(IDS["derived"],)),
    "a retraction": FactRetracted(facts=(IDS["source"], IDS["derived"])),
    "an expiry": FactExpired(facts=(IDS["source"],)),
    "a promotion": FactPromoted(fact=IDS["draft"], scope="global"),
    "an endorsement": FactEndorsed(fact=IDS["claim"], authority="peer", by="p", against=IDS["policy"]),
    "a dispute": FactDisputed(fact=IDS["policy"], by="g", authority="guest"),
    "a mark": FactMarked(facts=(IDS["derived"],), because=IDS["first"]),
    "a mark because of what was erased": FactMarked(facts=(IDS["derived"],), because=IDS["gone"]),
    "a withdrawal": FactsWithdrawn(facts=(IDS["other"],), withdrawal=LABEL),
    "a withdrawal that retracts": FactsWithdrawn(facts=(IDS["other"], IDS["live"]), withdrawal=LABEL, retracted=True),
    "a withdrawal of what was erased": FactsWithdrawn(facts=(IDS["gone"],), withdrawal=LABEL),
    "a restoration": FactsRestored(facts=(IDS["doubted"],), withdrawal=LABEL),
    "a restoration of what was erased": FactsRestored(facts=(IDS["gone"],), withdrawal=LABEL),
    "a reinstatement": FactReinstated(fact=IDS["first"], instead=(IDS["live"],)),
    "an erasure": PayloadsErased(seqs=(1, 2), reason="r"),
}

FORGED: dict[str, Event] = {
    "a message": MessageRecorded(role="user", content=(holdfast.Text("x"),), tokens=1, counter="c"),
    "the end of a session": SessionClosed(reason="r"),
    "something at hand": WorkingSet(item="a", value=1),
    "a proposal": _proposed((("user", "ada"), proposal())),
    "a decision": ProposalDecided(proposal="p1.0", accepted=True),
    "a fact without a key": _asserted(key=""),
    "a fact with a control character": _asserted(key="a\nb"),
    "a fact with too long a key": _asserted(key="x" * 300),
    "a fact with too large a value": _asserted(value="x" * limits.FACT_BYTES),
    "a fact with an odd name outside": _asserted(ref="a\0b"),
    "a fact of a source with an odd name": _asserted(source=FactSource(name="a\nb")),
    "a fact in a scope with an odd id": _asserted(scope="task", scope_id="\x7f"),
    "a fact since before the epoch": _asserted(valid_from_us=-1),
    "a fact until before the epoch": _asserted(expires_us=-1),
    "a fact until beyond counting": _asserted(expires_us=2**62),
    "permissions out of order": _asserted(requires=("b", "a")),
    "a permission twice": _asserted(requires=("a", "a")),
    "a permission without a name": _asserted(requires=("",)),
    "a fact that rests on nothing": _asserted(depends_on=(NEXT,)),
    "a fact that rests on itself": _asserted(depends_on=("k20",)),
    "a fact that rests on a dead one": _asserted(depends_on=(IDS["taken"],)),
    "a fact that rests on a superseded one": _asserted(depends_on=(IDS["first"],)),
    "a claim against nothing": _asserted(against=NEXT),
    "a claim against a dead one": _asserted(against=IDS["first"]),
    "a constraint of no kind": _asserted(is_constraint=True),
    "a kind of no constraint": _asserted(constraint_type="budget"),
    "a doubt because of nothing": _asserted(review=NEXT),
    "a fact that no message states": _asserted(mentions=_mention(seq=0)),
    "a fact stated before the beginning": _asserted(mentions=_mention(start=-1)),
    "a fact stated nowhere": _asserted(mentions=_mention(start=1)),
    "a fact that supersedes itself": _superseded(IDS["live"], IDS["live"]),
    "a second death": _superseded(IDS["first"], IDS["live"]),
    "the death of one that was taken back": _superseded(IDS["taken"], IDS["live"]),
    "the death of nothing": _superseded(NEXT, IDS["live"]),
    "a death by nothing": _superseded(IDS["live"], NEXT),
    "a death by a dead one": _superseded(IDS["live"], IDS["over"]),
    "a chain in a circle": _superseded(IDS["live"], IDS["first"]),
    "a follower that depends on something else": _superseded(IDS["other"], IDS["live"], followers=(IDS["derived"],)),
    "a retraction of nothing": FactRetracted(facts=()),
    "a second retraction": FactRetracted(facts=(IDS["taken"],)),
    "a retraction of one twice": FactRetracted(facts=(IDS["live"], IDS["live"])),
    "a retraction of what never was": FactRetracted(facts=(IDS["live"], NEXT)),
    "a second expiry": FactExpired(facts=(IDS["over"],)),
    "an expiry of nothing": FactExpired(facts=()),
    "a promotion of a dead one": FactPromoted(fact=IDS["first"], scope="global"),
    "a promotion of what never was": FactPromoted(fact=NEXT, scope="global"),
    "a promotion inwards": FactPromoted(fact=IDS["live"], scope="draft", scope_id="d"),
    "a promotion into an odd scope": FactPromoted(fact=IDS["draft"], scope="task", scope_id="\0"),
    "a promotion against nothing": FactPromoted(fact=IDS["draft"], scope="global", against=NEXT),
    "an endorsement of a dead one": FactEndorsed(fact=IDS["first"], authority="policy", by="p"),
    "an endorsement of what never was": FactEndorsed(fact=NEXT, authority="policy", by="p"),
    "an endorsement by no authority": FactEndorsed(fact=IDS["live"], authority="", by="p"),
    "an endorsement against nothing": FactEndorsed(fact=IDS["live"], authority="policy", by="p", against=NEXT),
    "a fact of no authority": _asserted(source=FactSource(authority="")),
    "a confirmation of a dead one": FactConfirmed(fact=IDS["first"], by="p"),
    "a confirmation of what never was": FactConfirmed(fact=NEXT, by="p"),
    "a dispute of a dead one": FactDisputed(fact=IDS["first"], by="g", authority="guest"),
    "a dispute of what never was": FactDisputed(fact=NEXT, by="g", authority="guest"),
    "a dispute by no authority": FactDisputed(fact=IDS["policy"], by="g", authority=""),
    "a mark for nothing": FactMarked(facts=(), because=IDS["first"]),
    "a mark of a dead one": FactMarked(facts=(IDS["first"],), because=IDS["taken"]),
    "a mark because of what never was": FactMarked(facts=(IDS["live"],), because=NEXT),
    "a withdrawal of nothing": FactsWithdrawn(facts=(), withdrawal=LABEL),
    "a withdrawal of a fact twice": FactsWithdrawn(facts=(IDS["live"], IDS["live"]), withdrawal=LABEL),
    "a withdrawal of a dead one": FactsWithdrawn(facts=(IDS["first"],), withdrawal=LABEL),
    "a withdrawal of what never was": FactsWithdrawn(facts=(NEXT,), withdrawal=LABEL),
    "a withdrawal of no fact": FactsWithdrawn(facts=("plan",), withdrawal=LABEL),
    "a withdrawal without a label": FactsWithdrawn(facts=(IDS["live"],), withdrawal=""),
    "a withdrawal at no event": FactsWithdrawn(facts=(IDS["live"],), withdrawal=LABEL.replace("w3", "w0")),
    "a withdrawal in no session": FactsWithdrawn(facts=(IDS["live"],), withdrawal="w3:{}"),
    "a withdrawal in a hostile session": FactsWithdrawn(facts=(IDS["live"],), withdrawal='w3:["a'),
    "a restoration of nothing": FactsRestored(facts=(), withdrawal=LABEL),
    "a restoration of a fact twice": FactsRestored(facts=(IDS["doubted"],) * 2, withdrawal=LABEL),
    "a restoration of what never was": FactsRestored(facts=(NEXT,), withdrawal=LABEL),
    "a restoration of one that nobody doubts": FactsRestored(facts=(IDS["live"],), withdrawal=LABEL),
    "a restoration of one that was taken back": FactsRestored(facts=(IDS["taken"],), withdrawal=LABEL),
    "a restoration after another withdrawal": FactsRestored(
        facts=(IDS["doubted"],), withdrawal=LABEL.replace("w3", "w4")
    ),
    "a restoration without a label": FactsRestored(facts=(IDS["doubted"],), withdrawal="w"),
    "a reinstatement of one that lives": FactReinstated(fact=IDS["live"]),
    "a reinstatement of one that was taken back": FactReinstated(fact=IDS["taken"]),
    "a reinstatement of what never was": FactReinstated(fact=NEXT),
    "a reinstatement instead of a dead one": FactReinstated(fact=IDS["first"], instead=(IDS["over"],)),
    "a reinstatement instead of itself": FactReinstated(fact=IDS["first"], instead=(IDS["first"],)),
    "an erasure of nothing": PayloadsErased(seqs=(), reason="r"),
    "an erasure of what is to come": PayloadsErased(seqs=(99,), reason="r"),
    "an erasure out of order": PayloadsErased(seqs=(2, 1), reason="r"),
}

TRUE_PROPOSALS: dict[str, Event] = {
    "a proposal": _proposed((OWN, proposal())),
    "an acceptance": ProposalDecided(proposal=PROPOSED["open"], accepted=True),
    "a refusal": ProposalDecided(proposal=PROPOSED["open"], accepted=False),
}

FORGED_PROPOSALS: dict[str, Event] = {
    "a fact in a session": _asserted(),
    "a withdrawal of facts in a session": FactsWithdrawn(facts=("k1",), withdrawal=LABEL),
    "a mark in a session": FactMarked(facts=("k1",), because="k2"),
    "a decision on what never was": ProposalDecided(proposal="p99.0", accepted=True),
    "a decision on what was decided": ProposalDecided(proposal=PROPOSED["decided"], accepted=True),
    "a decision on no proposal": ProposalDecided(proposal="open", accepted=True),
    "no proposals": _proposed(),
    "proposals from what was never said": _proposed((OWN, proposal()), message=99),
    "a proposal about a ledger that the session does not read": _proposed((("user", "eve"), proposal())),
    "a proposal about no ledger": _proposed((("nobody",), proposal())),
    "a proposal beyond certainty": _proposed((OWN, proposal(confidence=2.0))),
    "a proposal to change nothing known": _proposed(
        (OWN, Proposal(change="retract", rule="explicit", reason="r", confidence=0.6))
    ),
    "a proposal stated nowhere": _proposed((OWN, proposal(new=MessageSpan(0, 3, 1)))),
}


@pytest.mark.parametrize(("of", "events"), [("ledger", TRUE), ("session", TRUE_PROPOSALS)])
def test_what_a_command_could_have_made_is_taken(of: str, events: dict[str, Event], desk: EngineDesk) -> None:
    """So that the refusals below have no other reason than what is wrong."""
    for name, event in events.items():
        engine = desk.open("memory")
        assert engine.admin.import_(_forged(desk, event, of)) > 0, name
        assert engine.admin.verify().ok, name


def _target(desk: EngineDesk, kind: str, number: int) -> holdfast.Engine:
    """Somewhere with facts of its own already."""
    engine = desk.open(kind, name=f"target{number}")
    open_ledger(engine, user="mine").set("mine", 1)
    return engine


@pytest.mark.parametrize(("of", "events"), [("ledger", FORGED), ("session", FORGED_PROPOSALS)])
@pytest.mark.parametrize("kind", LOCAL_KINDS[:2])
def test_what_no_command_can_have_made_is_refused(
    kind: str, of: str, events: dict[str, Event], desk: EngineDesk
) -> None:
    taken: list[str] = []
    target = _target(desk, kind, 0)
    for name, event in [*events.items()][:: 1 if kind == "memory" else figure(8, 1)]:
        path = _forged(desk, event, of)
        lines = path.read_bytes().count(b"\n")
        try:
            assert refused_at(target, path) == lines - 1
        except pytest.fail.Exception:
            taken.append(name)
            target = _target(desk, kind, len(taken))
    assert not taken, ", ".join(taken)
