"""Packs that were recorded: what is kept of them, what is said of two of them, and what becomes of them when something is
erased."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import codec, errors
from holdfast.adapters.system import SystemClock
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.core import invariants
from holdfast.model import limits
from holdfast.model.content import BlobRef
from holdfast.model.events import Event
from holdfast.model.packs.events import PackRecorded
from holdfast.model.packs.pack import Brief, PackDiff
from holdfast.model.policy import Policy
from holdfast.model.rows import BlobRow
from holdfast.model.tools.tool import Tool
from tests.edges.engines import (
    LOCAL_KINDS,
    EngineDesk,
    ManualClock,
    RepeatableIds,
    blobs_of,
    contents,
    expect_refusal,
    log_of,
    read_raw_contents,
    rows_of,
)
from tests.edges.test_erasure import DAY_S, SECRET, _age
from tests.edges.test_forged_frames import forged
from tests.edges.test_transfer import refused_at
from tests.support import SteppingClock

BUDGET = 3_000
BRIEF = Brief(
    prompt="You help people who wait for a parcel.",
    invariants=("Never promise a day.",),
    tools=(Tool(name="track", description="Where a parcel is.", parameters={"type": "object", "properties": {}}),),
)


def _asked(place: Any, text: str = "Where do we ship the order?", **options: Any) -> Any:
    """A question, and the pack for its answer."""
    place.record("user", text)
    return place.pack(budget=BUDGET, brief=BRIEF, **options)


def _turn(place: Any, text: str, reply: str = "I see.", **options: Any) -> Any:
    pack = _asked(place, text, **options)
    place.record("assistant", reply)
    return pack


def _recorded(engine: holdfast.Engine) -> list[holdfast.types.StoredEvent]:
    return [each for each in log_of(engine) if each.type == PackRecorded.name]


def _why(diff: PackDiff, section: str) -> dict[str, tuple[str, str]]:
    return {each.entry.id: (each.what, each.why) for each in diff.changes if each.entry.section == section}


# Recording


def test_why_a_pack_is_as_it_is_is_kept_together_with_the_reply(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    pack = _asked(session)
    reply = session.record("assistant", "To Lisbon.")
    (record,) = session.packs.list()
    assert record.id == f"p{record.seq}"
    assert (record.reply, record.context_hash) == (reply.seq, pack.context_hash)
    assert (record.budget, record.used, record.level) == (BUDGET, pack.tokens.used, pack.tokens.level)
    assert (record.query, record.frame) == ("Where do we ship the order?", None)
    assert session.packs.manifest(record) == session.packs.manifest(record.id) == pack.manifest
    assert session.state().context_hash == pack.context_hash
    commands = {each.command for each in log_of(engine) if each.seq in (reply.seq, record.seq)}
    assert len(commands) == 1, "one append"
    bodies = {row.digest for row in rows_of(engine) if isinstance(row, BlobRow)}
    assert bodies == {hashlib.sha256(codec.encode(BRIEF)).hexdigest()}
    assert engine.admin.verify().problems == ()


def test_a_brief_is_kept_once_and_none_not_at_all(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    for text in ("one?", "two?"):
        _turn(session, text)
    session.record("user", "three?")
    session.pack(budget=BUDGET)
    session.record("assistant", "yes")
    events = [msgspec.json.decode(each.payload or b"", type=PackRecorded) for each in _recorded(engine)]
    assert events[0].brief == events[1].brief is not None
    assert events[2].brief is None
    assert len({codec.encode(each.manifest) for each in events}) == 3
    assert len(blobs_of(engine)) == 1


def test_a_long_manifest_lies_in_the_blob_store(desk: EngineDesk) -> None:
    engine = desk.open("memory", clock=SystemClock())
    session = engine.create_session("s")
    ledger = session.ledger()
    for number in range(150):
        ledger.set(f"parcel_{hashlib.sha256(bytes([number])).hexdigest()}", number)
    session.record("user", "which?")
    pack = session.pack(budget=20_000)
    session.record("assistant", "that one")
    body = codec.encode(pack.manifest)
    assert blobs_of(engine) == [("default", hashlib.sha256(body).hexdigest())]
    (record,) = session.packs.list()
    assert session.packs.manifest(record) == pack.manifest
    assert session.packs.reproduce(record).text == pack.text
    _age(engine, 2 * DAY_S, desk.folder)
    assert engine.admin.collect() == 0
    session.erase([session.messages()[0].seq], "asked to")
    assert engine.admin.collect() == 1
    assert engine.admin.verify().problems == ()


def test_a_query_that_nobody_said_is_in_the_record_of_the_pack_alone(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.pack("Where is it?", budget=BUDGET)
    reply = session.record("assistant", "On its way.")
    assert [(each.role, each.text) for each in session.messages()] == [("assistant", "On its way.")]
    (recorded,) = _recorded(engine)
    event = msgspec.json.decode(recorded.payload or b"", type=PackRecorded)
    assert (event.asked, event.reply, event.query) == (0, reply.seq, "Where is it?")
    session.erase([recorded.seq], "asked to")
    assert session.packs.list() == []


def test_the_pack_built_last_goes_with_the_next_reply_once(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    first, second = _asked(session), session.pack(budget=BUDGET)
    assert first is not second
    session.record("user", "and quickly")
    assert session.packs.list() == [], "what the user says answers no pack"
    reply = session.record("assistant", "yes")
    session.record("assistant", "and more")
    assert [(each.reply, each.context_hash) for each in session.packs.list()] == [(reply.seq, second.context_hash)]
    third = _asked(session, "what else?")
    session.record("assistant", "not to that", pack=False)
    assert len(session.packs.list()) == 1
    named = session.record("assistant", "to the first", pack=first)
    last = session.record("assistant", "to the third")
    assert [(each.reply, each.context_hash) for each in session.packs.list(limit=2)] == [
        (last.seq, third.context_hash),
        (named.seq, first.context_hash),
    ]
    engine.session("s").record("assistant", "another handle has built none")
    assert len(session.packs.list()) == 3


def test_a_refused_reply_leaves_the_pack_for_the_next(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    pack = _asked(session)
    with expect_refusal(engine, errors.InvalidArgument):
        session.record("assistant", 5)  # type: ignore[arg-type]
    session.record("assistant", "yes")
    assert [each.context_hash for each in session.packs.list()] == [pack.context_hash]


def test_a_pack_goes_where_it_belongs(engine: holdfast.Engine) -> None:
    session, other = engine.create_session("s"), engine.create_session("other")
    frame = session.frame("work", budget=10_000)
    pack = _asked(session)
    own = _asked(frame)
    for place, given in ((other, pack), (frame, pack), (session, own)):
        with expect_refusal(engine, errors.InvalidArgument):
            place.record("assistant", "yes", pack=given)
        with expect_refusal(engine, errors.InvalidArgument):
            place.packs.store(given)
    strange: Any
    for strange in ("p3", pack.manifest, True, 7, object()):
        with expect_refusal(engine, errors.InvalidArgument):
            session.record("assistant", "yes", pack=strange)
    with expect_refusal(engine, errors.InvalidArgument):
        session.record("user", "no reply", pack=pack)


def test_a_retry_is_the_same_message_whatever_pack_it_comes_with(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    pack = session.pack("Where is it?", budget=BUDGET)
    reply = session.record("assistant", "There.", key="k")
    before = contents(engine)
    assert session.record("assistant", "There.", key="k") == reply
    assert session.record("assistant", "There.", key="k", pack=pack) == reply
    assert session.record("assistant", "There.", key="k", pack=False) == reply
    assert engine.session("s").record("assistant", "There.", key="k") == reply
    later = session.pack("Another question?", budget=BUDGET, settle=False)
    assert session.record("assistant", "There.", key="k", pack=later) == reply
    assert contents(engine)[0] == before[0]
    with pytest.raises(errors.KeyConflict):
        session.record("assistant", "Elsewhere.", key="k")


def test_a_frame_knows_its_last_pack_and_what_was_reserved_is_settled(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    frame, other = session.frame("work", budget=10_000), session.frame("more", budget=10_000)
    pack = _asked(frame, reserve=2_000)
    assert frame.state().budget.reserved == 2_000
    frame.record("assistant", "done", usage=holdfast.Usage(100, 10))
    state = frame.state()
    assert (state.context_hash, state.budget.reserved, state.budget.used) == (pack.context_hash, 0, 110)
    again = _turn(other, "and this?")
    outside = _turn(session, "outside of frames")
    assert [each.frame for each in session.packs.list()] == [None, other.id, frame.id]
    assert [each.context_hash for each in frame.packs.list()] == [pack.context_hash]
    assert other.state().context_hash == again.context_hash
    assert session.state().context_hash == outside.context_hash
    with pytest.raises(errors.PackNotFound):
        session.packs.diff(), other.packs.diff()
    assert session.packs.reproduce(frame.packs.list()[0]).text == pack.text
    assert engine.admin.verify().problems == ()


def test_a_pack_is_kept_on_request(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    pack = session.pack("Where is it?", budget=BUDGET)
    record = session.packs.store(pack, key="k")
    assert (record.reply, session.packs.list()) == (0, [record])
    assert session.packs.store(pack, key="k") == record
    assert session.messages() == [], "nothing was said"
    assert session.packs.reproduce(record).text == pack.text
    assert session.record("assistant", "There.").seq == session.packs.list()[0].reply, "it can still be answered"
    session.end()
    with expect_refusal(engine, errors.SessionClosedError):
        session.packs.store(pack)
    assert len(session.packs.list()) == 2
    session.destroy(offload=False)
    for ask in (
        session.packs.list,
        session.packs.diff,
        lambda: session.packs.manifest(record.id),
        lambda: session.packs.reproduce(record),
    ):
        with pytest.raises(errors.SessionDestroyedError):
            ask()
    for entry in engine.admin.outbox():
        engine.admin.acknowledge(entry)
    assert [row for row in rows_of(engine) if isinstance(row, BlobRow)] == []


def test_packs_are_listed_the_newest_first_page_by_page(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    made = [_turn(session, f"question {number}").context_hash for number in range(5)]
    listed = session.packs.list()
    assert [each.context_hash for each in listed] == made[::-1]
    assert session.packs.list(limit=2) == listed[:2]
    assert session.packs.list(before=listed[1].seq, limit=2) == listed[2:4]
    assert session.packs.list(before=0) == []


@pytest.mark.parametrize("name", ["p0", "p1", "p2", "p999", "p3.0", "k3", "p٣", "p03"])
def test_what_is_no_pack_is_not_found(engine: holdfast.Engine, name: str) -> None:
    session = engine.create_session("s")
    _turn(session, "one?")
    for ask in (session.packs.manifest, session.packs.reproduce, session.packs.diff):
        with expect_refusal(engine, errors.PackNotFound, pack=name, session="s"):
            ask(name)


@pytest.mark.parametrize("name", [None, 3, "", "a\nb", object()])
def test_what_names_no_pack_is_refused(engine: holdfast.Engine, name: Any) -> None:
    session = engine.create_session("s")
    _turn(session, "one?")
    for ask in (session.packs.manifest, session.packs.reproduce):
        with expect_refusal(engine, errors.InvalidName):
            ask(name)


# Comparing


def test_a_diff_tells_how_facts_came_and_went(desk: EngineDesk) -> None:
    clock = ManualClock()
    engine = desk.open("memory", clock=clock)
    session = engine.create_session("s")
    ledger = session.ledger()
    home = ledger.set("shipping_address", "12 Elm Street")
    ledger.set("courier", "Swift")
    clock.now_s += 1
    ledger.set("offer", "free wrapping", ttl_s=60)
    ledger.set("order", "number 4711")
    _turn(session, "Where is the order?")
    clock.now_s += 100
    new = ledger.set("shipping_address", "99 Oak Avenue", supersedes=home.id)
    ledger.retract("courier", reason="they went out of business")
    _turn(session, "Where is the order?")
    diff = session.packs.diff()
    assert _why(diff, "facts") == {
        "k1": ("gone", f"shipping_address was superseded by {new.id} (explicit)"),
        "k2": ("gone", "courier was retracted: they went out of business"),
        "k3": ("gone", "offer expired"),
        new.id: ("added", "shipping_address is new, in place of k1"),
    }
    assert diff.same >= 1, "the order is as it was"
    told = diff.explain()
    for each in diff.changes:
        assert each.why in told
    assert told.startswith(f"From {diff.first.id} ")


def test_a_diff_tells_what_was_folded_and_what_is_new(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    for number in range(6):
        session.record("user", f"question {number} {'please ' * 60}")
        session.record("assistant", f"answer {number} {'indeed ' * 60}")
    first = _turn(session, "and then?")
    _turn(session, "and more?")
    extended = session.packs.diff()
    assert extended.prefix_kept
    assert [(each.what, each.why) for each in extended.changes if each.entry.section == "history"] == [
        ("added", "is new")
    ]
    at = session.context.compact(strategy=holdfast.types.SummarizeOldest(keep_recent=4), window=8_000).at
    second = session.pack(budget=8_000, brief=BRIEF)
    folded = session.packs.diff(session.packs.list()[1], second)
    assert not folded.prefix_kept
    assert folded.second.id == ""
    messages = [each for each in first.manifest.entries if each.section == "history"]
    assert [each.what for each in folded.changes if f"folded at boundary {at}" in each.why] == ["changed"]
    (change,) = (each for each in folded.changes if f"folded at boundary {at}" in each.why)
    assert change.entry.at == messages[0].at
    assert change.why.startswith("12 messages were folded")
    session.reset()
    _turn(session, "anew")
    gone = _why(session.packs.diff(first), "history")
    assert ("gone", f"the conversation was reset at event {session.state().start}") in gone.values()


def test_a_diff_tells_what_did_not_fit_any_more(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = session.ledger()
    for number in range(40):
        ledger.set(f"parcel_{number}", f"somewhere {number} beyond the seventh hill")
    session.record("user", "parcel?")
    large, small = session.pack(budget=6_000), session.pack(budget=700)
    diff = session.packs.diff(large, small)
    out = [each for each in diff.changes if each.what == "out"]
    assert out
    assert all(each.before is not None and each.before.fate == "included" for each in out)
    assert all(each.why.startswith("does not fit any more: ") for each in out)
    back = session.packs.diff(small, large)
    assert {each.entry.id for each in back.changes if each.what == "in"} == {each.entry.id for each in out}
    assert session.packs.diff(large, large).changes == ()


def test_a_diff_tells_nothing_of_what_the_reader_may_not_know(engine: holdfast.Engine) -> None:
    session = engine.create_session("s", identity=holdfast.Identity(user_id="ada", permissions=()))
    ledger = engine.ledger(holdfast.types.LedgerId("default", "session", ("main", "s")))
    ledger.set("salary", "a hundred")
    _turn(session, "salary?")
    ledger.set("salary", "two hundred", supersedes="salary", requires=["pay"])
    pack = _asked(session, "salary?")
    diff = session.packs.diff(None, pack)
    assert "k2" not in diff.explain()
    assert [each.what for each in diff.changes if each.entry.section == "facts"] == ["gone"]


def test_reading_changes_nothing(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    for text in ("one?", "two?"):
        _turn(session, text)
    before = contents(engine)
    for record in session.packs.list():
        session.packs.manifest(record)
        session.packs.reproduce(record)
    session.packs.diff()
    assert contents(engine) == before


# Making one again


def test_a_pack_is_made_again_wherever_its_log_is(engine: holdfast.Engine, desk: EngineDesk) -> None:
    session = engine.create_session("s")
    made = {}
    for text in ("one?", "two?", "three?"):
        pack = _turn(session, text)
        made[session.packs.list()[0].id] = pack.anthropic(), pack.openai(), pack.openai_responses(), str(pack)
    path = desk.folder / "moved.jsonl"
    engine.admin.export(path)
    moved = desk.open("sqlite", name="moved")
    moved.admin.import_(path)
    for place in (session, moved.session("s")):
        for name, shown in made.items():
            pack = place.packs.reproduce(name)
            assert (pack.anthropic(), pack.openai(), pack.openai_responses(), str(pack)) == shown
            assert pack.manifest == place.packs.manifest(name)


class _OtherCounter:
    name = "other"

    def count(self, text: str) -> int:
        return EstimatingCounter().count(text) + 1


def test_an_engine_that_does_otherwise_says_what(desk: EngineDesk) -> None:
    engine = desk.open("sqlite")
    session = engine.create_session("s")
    session.ledger().set("courier", "Swift")
    _turn(session, "Which courier?")
    (record,) = session.packs.list()
    engine.close()
    other = desk.open("sqlite", counter=_OtherCounter(), policy=Policy(review="omit"))
    assert other.session("s").packs.reproduce(record.id).context_hash == record.context_hash, (
        "all of it fits however counted"
    )


def test_an_erased_message_takes_along_the_packs_that_show_it(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    _turn(session, "hello")
    clean = session.packs.list()[0]
    session.record("user", f"Is {SECRET} a secret?")
    session.pack(budget=BUDGET)
    session.record("assistant", "It was.")
    session.record("user", "and then?")
    session.pack(budget=BUDGET)
    session.record("assistant", "nothing")
    later = session.packs.list()
    session.record("user", "bye")
    secret = next(each.seq for each in session.messages() if SECRET in each.text)
    session.erase([secret], "asked to")
    assert [each.id for each in session.packs.list()] == [clean.id]
    for record in later[:2]:
        for ask in (session.packs.reproduce, session.packs.manifest):
            with pytest.raises(errors.PackChanged) as changed:
                ask(record)
            assert changed.value.pack == record.id
    assert session.packs.reproduce(clean).context_hash == clean.context_hash
    with pytest.raises(errors.PackChanged):
        session.packs.diff(clean, later[0])
    assert {row.seq for row in rows_of(engine) if isinstance(row, BlobRow)} == {clean.seq}
    assert engine.admin.verify().problems == ()


def test_a_pack_is_made_again_from_a_log_with_holes(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    for text in ("one?", "two?"):
        _turn(session, text)
    session.erase([session.messages()[0].seq], "asked to")
    pack = _turn(session, "three?")
    assert session.packs.reproduce(session.packs.list()[0]).text == pack.text
    assert "two?" in pack.text


def test_a_reply_to_what_was_erased_meanwhile_is_kept_without_its_pack(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", SECRET)
    pack = session.pack("And what now?", budget=BUDGET)
    session.erase([session.messages()[0].seq], "asked to")
    with expect_refusal(engine, errors.PackChanged):
        session.packs.store(pack)
    session.record("assistant", "yes")
    assert [each.text for each in session.messages(limit=2)] == ["", "yes"]
    assert session.packs.list() == []
    assert SECRET not in "".join(str(each.payload) for each in log_of(engine))


def test_nothing_of_an_erased_query_is_left(desk: EngineDesk) -> None:
    engine = desk.open("memory", clock=SystemClock())
    session = engine.create_session("s")
    session.record("user", f"Is {SECRET} a secret?")
    session.pack(budget=BUDGET)
    session.record("assistant", "It was.")
    assert SECRET.encode() in read_raw_contents(engine, desk)
    session.erase([session.messages()[0].seq], "asked to")
    del session
    assert SECRET.encode() not in read_raw_contents(engine, desk)


def test_an_erased_fact_is_named_when_a_pack_cannot_be_made_again(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = session.ledger()
    fact = ledger.set("courier", SECRET)
    ledger.set("order", "4711")
    _turn(session, "Which courier has the order?")
    (record,) = session.packs.list()
    assert SECRET in session.packs.reproduce(record).text
    ledger.erase([fact.id], "asked to")
    with pytest.raises(errors.PackChanged) as changed:
        session.packs.reproduce(record)
    assert "the content of event 1" in changed.value.reason
    assert session.packs.manifest(record).context_hash == record.context_hash


# Forged


def _history(engine: holdfast.Engine) -> dict[str, Any]:
    session = engine.create_session("forged")
    live, ended = session.frame("live", budget=10**6), session.frame("ended", budget=10)
    ended.pop()
    session.record("user", "one?")
    pack = session.pack(budget=BUDGET)
    reply = session.record("assistant", "one")
    (recorded,) = _recorded(engine)
    event = msgspec.json.decode(recorded.payload or b"", type=PackRecorded)
    return {"live": live.id, "ended": ended.id, "event": event, "reply": reply.seq, "at": pack.manifest.version}


IDS = _history(holdfast.open("memory:", clock=SteppingClock(), ids=RepeatableIds()))


def _pack(**changes: Any) -> PackRecorded:
    true: PackRecorded = IDS["event"]
    return msgspec.structs.replace(true, **changes)


MANY = 2**62
TRUE: dict[str, Event] = {
    "a pack": _pack(),
    "a pack without a reply": _pack(reply=0),
    "a pack of a frame": _pack(frame=IDS["live"], reply=0),
    "a pack that shows nothing": _pack(shown=()),
    "a pack of everything before it": _pack(at=IDS["reply"], reply=0, shown=((1, IDS["reply"]),)),
}
FORGED: dict[str, Event] = {
    "a pack of what is to come": _pack(at=10**6, reply=0),
    "a pack of nothing": _pack(at=0),
    "a pack without a hash": _pack(context_hash="x"),
    "a pack over its budget": _pack(used=BUDGET + 1),
    "a pack beyond counting": _pack(budget=MANY),
    "a pack below nothing": _pack(used=-1),
    "a pack that shows what is to come": _pack(shown=((1, IDS["at"] + 1),)),
    "a pack that shows what never was": _pack(shown=((0, 1),)),
    "a pack that shows backwards": _pack(shown=((3, 2),)),
    "a pack that shows in no order": _pack(shown=((3, 3), (1, 1))),
    "a pack that shows something twice": _pack(shown=((1, 2), (2, 3))),
    "a pack that shows in more pieces than needed": _pack(shown=((1, 1), (2, 2))),
    "a pack that talks too much": _pack(query="x" * (limits.PACK_QUERY_CHARS + 1)),
    "a pack that was answered before it was made": _pack(reply=IDS["at"]),
    "a pack that is answered some day": _pack(reply=10**6),
    "a pack that was answered before it was asked": _pack(asked=IDS["reply"], reply=IDS["reply"]),
    "a pack of nobody": _pack(frame="f999"),
    "a pack of what has ended": _pack(frame=IDS["ended"]),
    "a pack whose manifest is not there": _pack(manifest=BlobRef("0" * 64, 9)),
    "a pack with a manifest that is too long": _pack(manifest=b"x" * (limits.PACK_MANIFEST_BYTES + 1)),
    "a pack whose brief is not there": _pack(brief=BlobRef("0" * 64, 9)),
}


def test_what_a_command_could_have_made_is_taken(desk: EngineDesk) -> None:
    for name, event in TRUE.items():
        engine = desk.open("memory")
        assert engine.admin.import_(forged(desk, event, _history)) > 0, name
        assert engine.admin.verify().ok, name
        assert invariants.find_violations(engine.session("forged").state()) == [], name


@pytest.mark.parametrize("kind", LOCAL_KINDS[:2])
def test_what_no_command_can_have_made_is_refused(kind: str, desk: EngineDesk) -> None:
    target = desk.open(kind, name="target")
    target.create_session("mine").record("user", "mine")
    lines = forged(desk, TRUE["a pack"], _history).read_bytes().count(b"\n")
    taken = []
    for name, event in FORGED.items():
        try:
            assert refused_at(target, forged(desk, event, _history)) == lines - 1
        except pytest.fail.Exception:
            taken.append(name)
            target = desk.open("memory")
    assert taken == []


STRANGE: dict[str, bytes] = {
    "nothing": b"",
    "no archive": b"{}",
    "an archive of nothing": codec.compress(b""),
    "an archive of something else": codec.compress(b"{}"),
    "an archive that is cut off": codec.compress(b"{}" * 99)[:-1],
    "an archive with more behind it": codec.compress(b"{}") + b"x",
    "an archive that explodes": codec.compress(b" " * (limits.PAYLOAD_BYTES + 1)),
}


def test_a_manifest_that_is_none_is_said_to_be_damaged(desk: EngineDesk) -> None:
    for name, manifest in STRANGE.items():
        target = desk.open("memory")
        target.admin.import_(forged(desk, _pack(manifest=manifest), _history))
        session = target.session("forged")
        for ask in (session.packs.manifest, session.packs.reproduce, session.packs.diff):
            with pytest.raises(errors.StorageCorrupt, match="manifest of p"):
                ask(session.packs.list()[0])
        assert len(session.packs.list()) == 2, name
