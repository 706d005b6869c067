"""Model calls, what the guard did to their packs, the same packs with other options, and the work as spans."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

import holdfast
from holdfast import Usage, errors
from holdfast.model.content import text_of
from holdfast.types import MessageGroup, ModelCall, PackRedaction
from tests.edges.engines import EngineDesk, ManualClock, expect_refusal

BUDGET = 4_000
BRIEF = holdfast.Brief(prompt="You help people who wait for a parcel. " * 20)
MODEL = "claude-sonnet-5"
OLD, NEW = "12 Elm Street", "7 Oak Avenue"


def ask(place: Any, text: str, reply: str = "I see.", usage: Usage | None = None, **options: Any) -> Any:
    place.record("user", text)
    return answer(place, reply, usage, **options)


def answer(place: Any, reply: str, usage: Usage | None = None, **options: Any) -> Any:
    pack = place.pack(**{"budget": BUDGET, "brief": BRIEF, "model": MODEL, **options})
    return place.record("assistant", reply, usage=usage, pack=pack)


def read_all(list_page: Any, limit: int) -> list[Any]:
    found: list[Any] = []
    while page := list_page(before=found[-1].seq if found else None, limit=limit):
        found += page
    return found


def work(engine: Any) -> Any:
    """A conversation with tools, a correction, a withdrawal, a suspended frame, and a tool that was started and never came
    back."""
    session = engine.create_session("s")
    session.facts.set("address", OLD)
    ask(session, f"Ship it to {OLD}.", f"To {OLD}, then.", Usage(900, 20, 0, 800))
    session.record("user", "Is it there?")
    session.pack(budget=BUDGET, brief=BRIEF, model=MODEL)
    calls = [{"name": "track", "args": {"to": OLD}}, {"name": "mail", "args": {}}]
    session.record("assistant", "I look.", usage=Usage(1_000, 20, 800, 150), tool_calls=calls)
    for call in session.open_calls():
        session.start_call(call)
        session.result(call, {"address": OLD, "days": [1, 2]}, is_error=call.name == "mail")
    answer(session, "Soon.", Usage(1_100, 20, 950, 100))
    session.facts.set("address", NEW)
    ask(session, "I moved.", "Noted.", Usage(1_200, 20, 500, 600))
    ask(session, "Forget that.", "Forgotten.", Usage(1_250, 20, 1_100, 100))
    session.withdraw()
    frame = session.frame("Find a carrier", budget=9_000)
    ask(frame, "Which one?", "The green one?", Usage(700, 10, 0, 600))
    frame.suspend("waits for approval", resumable_by="boss")
    session.record("assistant", "Imported.", pack=False)
    session.record("user", "Pay it.")
    session.pack(budget=BUDGET, brief=BRIEF, model=MODEL)
    session.record("assistant", "I pay.", tool_calls=[{"name": "pay", "args": {}}, {"name": "print", "args": {}}])
    session.start_call(session.open_calls()[0])
    return session


def test_every_reply_is_a_call_compared_with_the_one_before_in_its_conversation(engine: Any) -> None:
    session = work(engine)
    calls: list[ModelCall] = session.packs.calls()
    replies = [each.seq for each in session.messages(limit=100) if each.role == "assistant"]
    assert [each.reply for each in reversed(calls)] == replies
    assert [each.cache.cause for each in reversed(calls)] == [
        "first",
        "kept",
        "kept",
        "guard",
        "kept",
        "first",
        "withdrawal",
        "unknown",
    ]
    by_id = {each.id: each for each in calls}
    for each in calls:
        before = by_id.get(each.cache.previous)
        assert before is None or (before.frame, before.seq < each.seq) == (each.frame, True)
        assert (each.cost is None) == (each.usage is None)
        assert (each.pack is None) == each.id.startswith("m")
    guard = calls[4]
    assert [each.kind for each in guard.boundaries] == ["guard"]
    assert (guard.cache.at, guard.redacted > 0, guard.changed > 0) == ("m2", True, True)
    assert guard.cost is not None
    assert guard.cost.total == 2_000 * 100 // 1_000 + 500 * 200 // 1_000 + 600 * 2_500 // 1_000 + 20 * 10
    assert guard.cache.rewritten == 0 or guard.cost.rewritten > 0
    assert calls[2].frame is not None
    assert calls[2].cache.previous == "", "a frame is a conversation of its own"
    assert [each.kind for each in calls[1].boundaries] == ["withdrawal"]
    assert [each.kind for each in calls[0].boundaries] == []


def test_pages_and_frames_list_the_same_calls_and_spans(engine: Any) -> None:
    session = work(engine)
    whole = session.packs.calls()
    for limit in (1, 2, 3):
        assert read_all(session.packs.calls, limit) == whole
        spans = read_all(session.activity, limit)
        assert spans == session.activity(limit=1_000)
    frame = session.frames.get(next(each.frame for each in whole if each.frame))
    assert frame.packs.calls() == [each for each in whole if each.frame == frame.id]


def test_a_stored_pack_without_a_reply_is_a_call_and_one_without_usage_has_no_cost(engine: Any) -> None:
    session = engine.create_session("s")
    session.record("user", "Hello?")
    record = session.packs.store(session.pack(budget=BUDGET))
    (call,) = session.packs.calls()
    assert (call.id, call.reply, call.usage, call.cost, call.model) == (record.id, 0, None, None, "")
    assert call.used == record.used == sum(call.breakdown.values())
    session.record("assistant", "Hi.", usage=Usage(100, 5), pack=False)
    call = session.packs.calls()[0]
    assert (call.id, call.usage, call.cost, call.cache.read) == (f"m{call.reply}", Usage(100, 5), None, None)


def test_a_pause_a_model_and_a_brief_are_told_apart(desk: EngineDesk) -> None:
    clock = ManualClock()
    session = desk.open("sqlite", clock=clock).create_session("s")
    causes = []
    options: list[dict[str, Any]] = [
        {},
        {},
        {"model": "gpt-5"},
        {"model": "gpt-5", "brief": holdfast.Brief(prompt="Other.")},
    ]
    for number, each in enumerate(options):
        clock.now_s += 1_000 if number == 1 else 10
        ask(session, f"Question {number}?", **each)
        causes.append(session.packs.calls(limit=1)[0].cache.cause)
    assert causes == ["first", "idle", "model", "brief"]


def test_a_fork_reads_the_calls_that_it_shares(engine: Any) -> None:
    session = work(engine)
    session.close_calls("forked")
    shared = session.packs.calls()
    fork = session.fork(as_="f")
    assert fork.packs.calls() == shared
    ask(fork, "And now?", "Here.", Usage(1_400, 20, 0, 1_300))
    newest = fork.packs.calls(limit=1)[0]
    assert newest.cache.previous == shared[0].id
    redacted = shared[4].id
    assert fork.packs.redactions(redacted) == session.packs.redactions(redacted)


# What the guard did


def shown_text(pack: Any, redaction: PackRedaction) -> str:
    """The characters that a redaction names, in the pack."""
    groups = (item for item in pack.history.items if isinstance(item, MessageGroup))
    message = next(each for group in groups for each in group.messages if each.seq == redaction.at)
    results = [each.content for each in message.tool_results if each.tool_call_id == redaction.call]
    part = (results[0] if results else message.content)[redaction.part]
    return text_of([part])[redaction.start : redaction.end]


def test_a_redaction_names_the_characters_the_fact_and_what_ended_it(engine: Any) -> None:
    session = work(engine)
    call = session.packs.calls()[4]
    pack, found = session.packs.reproduce(call.id), session.packs.redactions(call.id)
    assert {each.at for each in found} >= {each.at for each in session.packs.manifest(call.id).redacted}
    for each in found:
        assert (each.key, each.value, each.current, each.ended, each.ended_by) == (
            "address",
            OLD,
            NEW,
            "superseded",
            "k2",
        )
        if each.end:
            assert shown_text(pack, each) == ("[outdated: address]" if each.mode == "redacted" else OLD)
        else:
            assert each.call, "only arguments have no place"
    assert {each.mode for each in found} == {"redacted", "annotated"}
    first = session.packs.calls()[-1]
    assert session.packs.redactions(first.id) == ()


def test_a_reader_without_the_permission_finds_no_trace_of_a_redaction(engine: Any) -> None:
    may = holdfast.Identity(user_name="Ada", permissions=("vault",))
    shop = engine.ledger(organization="shop")
    shop.set("vault_code", "XQ-4711-OLD", requires=["vault"])
    session = engine.create_session("s", identity=may, ledgers=[shop.id])
    ask(session, "The code is XQ-4711-OLD, I think.")
    shop.set("vault_code", "XQ-4712-NEW", requires=["vault"])
    ask(session, "And now?")
    record = session.packs.list()[0]
    assert [each.value for each in session.packs.redactions(record)] == ["XQ-4711-OLD"]
    session.refresh_identity(holdfast.Identity(user_name="Ada"))
    assert session.packs.redactions(record) == ()
    ask(session, "Still?")
    newest = session.packs.calls(limit=1)[0]
    assert (newest.redacted, newest.exposed) == (0, 0)
    assert b"XQ-4712" not in msgspec.json.encode([newest, session.packs.redactions(newest.pack)])


def test_an_audited_pack_counts_nothing_that_it_withholds(engine: Any) -> None:
    shop = engine.ledger(organization="shop")
    session = engine.create_session("s", identity=holdfast.Identity(user_name="Ada"), ledgers=[shop.id])
    ask(session, "Hello?", audit=True)
    shop.set("vault_code", "XQ-4711", requires=["vault"])
    ask(session, "And now?", audit=True)
    call = session.packs.calls(limit=1)[0]
    entries = session.packs.manifest(call.id).entries
    assert [each.fate for each in entries if each.section == "facts"] == ["withheld"]
    assert (call.added, call.gone) == (1, 0), "a stretch of new messages"


def test_nothing_that_was_erased_is_shown(engine: Any) -> None:
    session = work(engine)
    session.close_calls("erased")
    first = session.packs.calls()[-1]
    session.erase([2, first.reply], "asked to")
    calls = session.packs.calls()
    assert all(each.pack is None for each in calls[-4:]), "their packs showed it"
    told = msgspec.json.encode([calls, session.activity()])
    assert b"Elm" not in told
    with pytest.raises(errors.PackChanged):
        session.packs.redactions(first.pack)
    with pytest.raises(errors.PackChanged):
        session.packs.vary(first.pack, budget=900)


# Other options


def test_a_varied_pack_is_compared_with_the_stored_one_and_nothing_is_stored(engine: Any) -> None:
    session = engine.create_session("s")
    session.facts.set("address", OLD)
    for number in range(12):
        ask(session, f"Question {number} about {OLD}? " + "Please look. " * 20, "Yes. " * 30)
    session.facts.set("address", NEW)
    ask(session, "And now?")
    record = session.packs.list()[0]
    version = session.state().version
    assert session.packs.vary(record).context_hash == record.context_hash
    assert str(session.packs.vary(record.id)) == str(session.packs.reproduce(record))
    small = session.packs.vary(record, budget=1_500)
    assert small.tokens.used <= 1_500 < record.used
    assert small.manifest.version == session.packs.manifest(record).version
    assert not session.packs.diff(record, small).prefix_kept
    marked = session.packs.vary(record, guard="annotate")
    assert f"{OLD} [outdated: address]" in marked.text
    assert OLD in session.packs.vary(record, guard="off").text
    chosen = session.packs.vary(record, profile="high_stakes", query="Where do we ship it?")
    assert (chosen.manifest.request.profile.name, chosen.query) == ("high_stakes", "Where do we ship it?")
    assert session.packs.vary(record, model="claude-haiku-4-5", max_output=10).max_output == 10
    frugal = session.packs.vary(record, policy="classic", budget=2_500)
    assert frugal.tokens.used <= 2_500
    assert session.state().version == version
    assert session.packs.list()[0] == record
    with expect_refusal(engine, errors.InvalidArgument, argument="pack"):
        session.record("assistant", "Never asked.", pack=small)
    with expect_refusal(engine, errors.BudgetTooSmall):
        session.packs.vary(record, budget=1)


def test_a_pack_of_a_frame_varies_there(engine: Any) -> None:
    session = engine.create_session("s")
    frame = session.frame("Find a carrier", budget=9_000)
    ask(frame, "Which one? " + "words " * 300)
    record = frame.packs.list()[0]
    frame.pop("completed", summary="Done.")
    assert session.packs.vary(record, budget=3_000).manifest.frame == frame.id


# Spans


def test_the_spans_say_what_recovery_says(engine: Any) -> None:
    session = work(engine)
    spans = {each.id: each for each in session.activity()}
    pending = {each.call: each for each in session.recover().pending_work if each.call}
    kinds = {"tool_in_progress": "unknown", "tool_not_started": "not_started", "tool_running": "running"}
    waiting = {each.id: each for each in spans.values() if each.kind == "tool" and each.end_us is None}
    assert waiting.keys() == {name for name, each in pending.items() if each.kind in kinds}
    for name, span in waiting.items():
        assert span.status == kinds[pending[name].kind]
        assert span.key == (pending[name].key or "")
    (suspension,) = (each for each in spans.values() if each.kind == "suspension")
    assert (suspension.status, suspension.resumable_by, suspension.end_us) == ("suspended", ("boss",), None)
    frame = spans[suspension.parent]
    assert (frame.kind, frame.status, frame.label) == ("frame", "suspended", "Find a carrier")
    assert frame.budget is not None
    assert (frame.budget.total, frame.budget.used, frame.budget.overdrawn) == (9_000, 710, False)
    assert {each.id for each in session.packs.calls()} == {each.id for each in spans.values() if each.kind == "model"}
    assert [each.status for each in spans.values() if each.label == "mail"] == ["failed"]
    assert [each.label for each in spans.values() if each.kind == "boundary"] == ["withdrawal", "guard"]
    assert session.activity(limit=1)[0].kind == "recovery"


def test_what_a_session_does_not_have_is_an_empty_list(engine: Any) -> None:
    session = engine.create_session("s")
    assert (session.packs.calls(), session.activity()) == ([], [])
    with expect_refusal(engine, errors.PackNotFound):
        session.packs.redactions("p9")
    with expect_refusal(engine, errors.InvalidNumber):
        session.packs.calls(limit=0)
    with expect_refusal(engine, errors.InvalidNumber):
        session.activity(before=-1)
