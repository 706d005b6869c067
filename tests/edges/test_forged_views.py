"""Exports with events about views that no command can have made: refused by line, whatever their checksums say."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import BlobRef, Text, errors
from holdfast.core import invariants
from holdfast.model.events import Event
from holdfast.model.history.events import (
    ContextCompacted,
    HandleMoved,
    HandleReplaced,
    MessagesRestored,
    MessagesWithdrawn,
    SummaryRecorded,
)
from holdfast.model.history.plans import Fold, PlanFigures, Reduction
from holdfast.model.history.ranges import LedgerFacts, VisibilityChange
from holdfast.runtime import transfer
from holdfast.types import SummarizeOldest
from tests.edges.engines import LOCAL_KINDS, EngineDesk
from tests.edges.test_forged_frames import forged
from tests.edges.test_transfer import refused_at

D = "0" * 64
MANY = 2**62
BODY = b"a body"


def _history(engine: holdfast.Engine) -> dict[str, Any]:
    """Two conversations, each with a fold, a piece out of view, a call that waits and a withdrawn message; and one that
    has ended."""
    session = engine.create_session("forged")
    session.record("user", "before " * 9)
    session.reset("anew")
    session.record("system", "be kind")
    live, ended = session.frame("live", budget=10**6), session.frame("ended", budget=10)
    ended.pop()
    ids: dict[str, Any] = {"live": live.id, "ended": ended.id}
    for name, place in (("", session), ("live ", live)):
        ids[f"{name}first"] = place.record("user", "one " * 99).seq
        place.record("assistant", "two " * 99)
        ids[f"{name}last"] = place.record("user", "three " * 99).seq
        place.record("assistant", "four " * 99)
        ids[f"{name}fold"] = place.context.compact(strategy=SummarizeOldest(keep_recent=1), window=8_000).at
        ids[f"{name}said"] = place.record("user", "five " * 99).seq
        ids[f"{name}seen"] = place.record("assistant", "six " * 99).seq
        place.handles.page_out(f"h{ids[f'{name}said']}_0")
        place.record("assistant", "", tool_calls=[{"name": "look"}])
        ids[f"{name}gone"] = place.record("user", "seven").seq
        ids[f"{name}withdrawal"] = place.withdraw().seq  # type: ignore[union-attr]
    body = engine.blobs.put(BODY)
    session.record("user", holdfast.File(body))
    handle = live.handles.add("document", "a page")
    return ids | {"handle": handle.id, "at": handle.at, "digest": handle.digest, "body": body}


IDS: dict[str, Any] = _history(holdfast.open("memory:"))
SAID, SEEN = IDS["said"], IDS["seen"]


def _piece(**changes: Any) -> Reduction:
    given = {"message": SEEN, "piece": 0, "form": "excerpt", "tokens": 9, "saved": 3, "size": 9, "digest": D}
    return Reduction(**{**given, **changes})


def _paged(**changes: Any) -> Reduction:
    return _piece(**{"form": "page", "ref": IDS["body"], **changes})


def _moved(piece: Reduction, residency: Any = "paged_out", frame: str | None = None) -> HandleMoved:
    return HandleMoved(frame=frame, residency=residency, piece=piece)


def _reduced(*pieces: Reduction, **changes: Any) -> ContextCompacted:
    given: dict[str, Any] = {"policy": "frugal", "why": "asked", "original": 9, "final": 3, "counter": "c"}
    return ContextCompacted(**{**given, "reduced": pieces, **changes})


def _folded(frame: str | None = None, **changes: Any) -> ContextCompacted:
    """All up to what was seen, the fold that is there among it."""
    name = "" if frame is None else f"{frame} "
    seen = (IDS[f"{name}fold"] - 1, IDS[f"{name}said"], IDS[f"{name}seen"])
    given = {"first": IDS[f"{name}first"], "last": seen[-1], "messages": seen, "summaries": (IDS[f"{name}fold"],)}
    fold = Fold(**{**given, "count": 6, "text": "all of it", "tokens": 3, **changes})
    return _reduced(fold=fold, frame=None if frame is None else IDS[frame])


def _replaced(**changes: Any) -> HandleReplaced:
    given = {"frame": IDS["live"], "handle": IDS["handle"], "kind": "document", "tokens": 1, "counter": "c"}
    return HandleReplaced(**{**given, "digest": IDS["digest"], "at": IDS["at"], **changes})


def _withdrawn(*ranges: tuple[int, int], frame: str | None = None, **changes: Any) -> MessagesWithdrawn:
    figures = {"messages": 2, "tokens": 99, "turns": 1, "replies": 1}
    facts = changes.pop("facts", ())
    return MessagesWithdrawn(frame=frame, ranges=ranges, change=VisibilityChange(**{**figures, **changes}), facts=facts)


def _restored(withdrawal: int, frame: str | None = None, **changes: Any) -> MessagesRestored:
    figures = {"messages": 1, "tokens": 1, "turns": 1}
    return MessagesRestored(frame=frame, withdrawal=withdrawal, change=VisibilityChange(**{**figures, **changes}))


GONE, WITHDRAWAL = IDS["gone"], IDS["withdrawal"]
OWN = ("session", "main", "forged")


TRUE: dict[str, Event] = {
    "a withdrawal": _withdrawn((SAID, SEEN)),
    "a withdrawal from a fold": _withdrawn((IDS["last"], SEEN)),
    "a withdrawal in a frame": _withdrawn((IDS["live said"], IDS["live seen"]), frame=IDS["live"]),
    "a withdrawal of a system message": _withdrawn((4, 4), messages=0, turns=0, replies=0, system=(4,)),
    "a withdrawal with facts": _withdrawn((SAID, SEEN), facts=(LedgerFacts(OWN, ("k1",)),)),
    "a restoration": _restored(WITHDRAWAL),
    "a restoration in a frame": _restored(IDS["live withdrawal"], IDS["live"]),
    "an excerpt": _reduced(_piece()),
    "an excerpt in a frame": _reduced(_piece(message=IDS["live seen"]), frame=IDS["live"]),
    "a fold": _folded(),
    "a fold in a frame": _folded("live"),
    "a fold beside another": _folded(first=SAID, messages=(SAID, SEEN), summaries=(), count=2),
    "a piece that leaves": _moved(_paged()),
    "a piece that comes back": _moved(_paged(message=SAID), "resident"),
    "a piece that is shown whole": _moved(_piece(form="whole", saved=-MANY // 2), "resident"),
    "a handle with another title": _replaced(title="t"),
    "a handle with another content": _replaced(content=(Text("x"),), at=10**6),
    "a handle that leaves": _replaced(residency="paged_out", tier="durable", ref=IDS["body"]),
}

FORGED: dict[str, Event] = {
    "a withdrawal of nothing": _withdrawn(),
    "a withdrawal of nobody's": _withdrawn((SAID, SEEN), frame="f999"),
    "a withdrawal where all has ended": _withdrawn((SAID, SEEN), frame=IDS["ended"]),
    "a withdrawal of no frame": _withdrawn((SAID, SEEN), frame=""),
    "a withdrawal backwards": _withdrawn((SEEN, SAID)),
    "a withdrawal in no order": _withdrawn((SEEN, SEEN), (IDS["last"], IDS["last"])),
    "a withdrawal in parts that touch": _withdrawn((SAID, SAID), (SEEN, SEEN)),
    "a withdrawal twice at once": _withdrawn((SAID, SEEN), (SEEN, SEEN)),
    "a withdrawal of what was before": _withdrawn((2, SEEN)),
    "a withdrawal of what was before a frame": _withdrawn((4, IDS["live seen"]), frame=IDS["live"]),
    "a withdrawal before the beginning": _withdrawn((-MANY, SEEN)),
    "a withdrawal of nothing at all": _withdrawn((0, 0)),
    "a withdrawal of what is to come": _withdrawn((SAID, MANY)),
    "a withdrawal of itself": _withdrawn((SAID, 10**6)),
    "a withdrawal of what is withdrawn": _withdrawn((GONE, GONE)),
    "a withdrawal around what is withdrawn": _withdrawn((SEEN + 3, IDS["live first"])),
    "a withdrawal of what waits": _withdrawn((SEEN, SEEN + 2)),
    "a withdrawal of less than nothing": _withdrawn((SAID, SEEN), messages=-1),
    "a withdrawal beyond counting": _withdrawn((SAID, SEEN), tokens=MANY),
    "a withdrawal of less than no turns": _withdrawn((SAID, SEEN), turns=-1),
    "a withdrawal of replies beyond counting": _withdrawn((SAID, SEEN), replies=MANY),
    "a withdrawal with errors without end": _withdrawn((SAID, SEEN), errors=("c2_0",) * 999),
    "a withdrawal of a system message that is none": _withdrawn((SAID, SEEN), system=(SAID,)),
    "a withdrawal of a system message elsewhere": _withdrawn((SAID, SEEN), system=(4,)),
    "a withdrawal of facts without a name": _withdrawn((SAID, SEEN), facts=(LedgerFacts(OWN, ("color",)),)),
    "a withdrawal of no facts": _withdrawn((SAID, SEEN), facts=(LedgerFacts(OWN, ()),)),
    "a withdrawal of facts of no ledger": _withdrawn((SAID, SEEN), facts=(LedgerFacts((), ("k1",)),)),
    "a withdrawal of facts of a strange ledger": _withdrawn((SAID, SEEN), facts=(LedgerFacts(("x", "y"), ("k1",)),)),
    "a withdrawal of facts of a ledger twice": _withdrawn(
        (SAID, SEEN), facts=(LedgerFacts(OWN, ("k1",)), LedgerFacts(OWN, ("k2",)))
    ),
    "a restoration of nothing": _restored(0),
    "a restoration of less than nothing": _restored(-1),
    "a restoration of what is to come": _restored(10**6),
    "a restoration of a message": _restored(SAID),
    "a restoration of nobody's": _restored(WITHDRAWAL, "f999"),
    "a restoration of another conversation": _restored(IDS["live withdrawal"]),
    "a restoration in another conversation": _restored(WITHDRAWAL, IDS["live"]),
    "a restoration of less than no messages": _restored(WITHDRAWAL, messages=-1),
    "a restoration beyond counting": _restored(WITHDRAWAL, tokens=MANY),
    "a restoration of a system message to come": _restored(WITHDRAWAL, system=(10**6,)),
    "a restoration of a system message that is none": _restored(WITHDRAWAL, system=(SAID,)),
    "a restoration with errors without end": _restored(WITHDRAWAL, errors=("c2_0",) * 999),
    "a boundary that changes nothing": _reduced(),
    "a boundary of nobody": _reduced(_piece(), frame="f999"),
    "a boundary of what has ended": _reduced(_piece(), frame=IDS["ended"]),
    "a boundary of no frame": _reduced(_piece(), frame=""),
    "a piece of what is to come": _reduced(_piece(message=10**6)),
    "a piece of nothing": _reduced(_piece(message=0)),
    "a piece of less than nothing": _reduced(_piece(piece=-1)),
    "a piece of what was before": _reduced(_piece(message=2)),
    "a piece of what is folded": _reduced(_piece(message=IDS["first"])),
    "a piece of a system message": _reduced(_piece(message=4)),
    "a piece twice": _reduced(_piece(), _piece(form="snip")),
    "a piece without a digest": _reduced(_piece(digest="x")),
    "a piece that is paged by a plan": _reduced(_paged()),
    "a piece that is whole by a plan": _reduced(_piece(form="whole")),
    "a piece with less than no tokens": _reduced(_piece(tokens=-1)),
    "a piece of less than no size": _reduced(_piece(size=-1)),
    "a piece that begins before its beginning": _reduced(_piece(head=-1)),
    "a piece that ends behind its end": _reduced(_piece(tail=MANY)),
    "a piece that saves beyond counting": _reduced(_piece(saved=MANY)),
    "a piece that costs beyond counting": _reduced(_piece(saved=-MANY)),
    "figures below nothing": _reduced(_piece(), original=-1),
    "figures beyond counting": _reduced(_piece(), final=MANY),
    "a change before the beginning": _reduced(_piece(), first_changed=-1),
    "less than no calls": _reduced(_piece(), figures=PlanFigures(calls=-1)),
    "growth beyond counting": _reduced(_piece(), figures=PlanFigures(grown=MANY)),
    "a fold of what is to come": _folded(last=10**6),
    "a fold of what was before": _folded(first=2),
    "a fold that ends before it begins": _folded(first=SEEN, last=SAID, messages=(), summaries=()),
    "a fold through another": _folded(first=IDS["first"] + 1),
    "a fold of what waits": _folded(last=SEEN + 2),
    "a fold of what waits in a frame": _folded("live", last=IDS["live seen"] + 2),
    "a fold that says nothing": _folded(text=" "),
    "a fold of less than nothing": _folded(count=-1),
    "a fold with less than no tokens": _folded(tokens=-1),
    "a fold that tells of what it does not hold": _folded(messages=(SEEN + 1,)),
    "a fold that tells in no order": _folded(messages=(SEEN, SAID)),
    "a fold that hides what it took in": _folded(summaries=()),
    "a fold that took in what is not there": _folded(summaries=(IDS["live fold"],)),
    "a fold in a frame that was before it": _folded("live", first=5),
    "a fold of nobody's": msgspec.structs.replace(_folded(), frame="f999"),
    "a move of nobody's": _moved(_paged(), frame="f999"),
    "a move where all has ended": _moved(_paged(), frame=IDS["ended"]),
    "a move of what is to come": _moved(_paged(message=10**6)),
    "a move of what is folded": _moved(_paged(message=IDS["first"])),
    "a move of a system message": _moved(_paged(message=4)),
    "a move to nowhere": _moved(_paged(ref=None)),
    "a move to what is not there": _moved(_paged(ref=BlobRef(D, 9))),
    "a move half the way": _moved(_paged(), "collapsed"),
    "a move by an excerpt": _moved(_piece()),
    "a move with less than no tokens": _moved(_paged(tokens=-1)),
    "a move that saves beyond counting": _moved(_paged(saved=MANY)),
    "a move without a digest": _moved(_paged(digest="")),
    "a handle of nobody": _replaced(frame="f999"),
    "a handle of what has ended": _replaced(frame=IDS["ended"]),
    "a handle that is none": _replaced(handle="handle"),
    "a handle that is to come": _replaced(handle="h999999"),
    "a handle with less than no tokens": _replaced(tokens=-1),
    "a handle of less than no size": _replaced(size=-1),
    "a handle without a digest": _replaced(digest="x"),
    "a handle whose content is to come": _replaced(at=10**6),
    "a handle whose content is elsewhere": _replaced(content=(Text("x"),)),
    "a handle that is here and there": _replaced(ref=IDS["body"], tier="durable"),
    "a summary of nobody's": SummaryRecorded(
        first=SAID, last=SEEN, messages=2, text="x", tokens=1, counter="c", frame="f999"
    ),
}


def _settled(event: Event) -> Event:
    """With the seq that it gets, where it must name that."""
    if isinstance(event, HandleReplaced) and event.content is not None and event.at == 10**6:
        with holdfast.open("memory:") as engine:
            _history(engine)
            return msgspec.structs.replace(event, at=engine.session("forged").state().version + 1)
    return event


def test_what_a_command_could_have_made_is_taken(desk: EngineDesk) -> None:
    """So that the refusals below have no other reason than what is wrong."""
    for name, event in TRUE.items():
        engine = desk.open("memory")
        assert engine.admin.import_(forged(desk, _settled(event), _history)) > 0, name
        assert engine.admin.verify().ok, name
        assert invariants.find_violations(engine.session("forged").state()) == [], name


@pytest.mark.parametrize("kind", LOCAL_KINDS[:2])
def test_what_no_command_can_have_made_is_refused(kind: str, desk: EngineDesk) -> None:
    target = desk.open(kind, name="target")
    target.create_session("mine").record("user", "mine")
    lines = forged(desk, TRUE["a fold"], _history).read_bytes().count(b"\n")
    taken = []
    for name, event in FORGED.items():
        try:
            assert refused_at(target, forged(desk, event, _history)) == lines - 1
        except pytest.fail.Exception:
            taken.append(name)
            target = desk.open("memory")
    assert taken == []


def test_readers_survive_withdrawals_that_no_command_can_have_made(
    desk: EngineDesk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log that somebody else wrote is read as far as it can be, and an import of it is refused."""
    found = 0
    for event in FORGED.values():
        if not isinstance(event, MessagesWithdrawn | MessagesRestored):
            continue
        engine, other = desk.open("memory"), desk.open("memory")
        with monkeypatch.context() as patched:
            patched.setattr(transfer, "find_fault", lambda *_: None)
            engine.admin.import_(forged(desk, event, _history))
        session = engine.session("forged")
        for place in (session, session.frames.get(IDS["live"])):
            place.context.view()
            place.context.render("anthropic")
            place.context.window(100_000)
            place.pack(settle=False)
            place.handles.list()
            place.withdraw()
        session.messages()
        session.recover()
        found += not engine.admin.verify().ok
        path = desk.folder / "again.jsonl"
        engine.admin.export(path)
        with pytest.raises(errors.HoldfastError):
            other.admin.import_(path)
    assert found > 5, "verify reports those that break a rule of the state"
