"""Messages that are withdrawn: no view shows them, the transcript has them, and a restoration shows the same as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Engine, Policy, Session, codec, errors
from holdfast.types import SummaryDraft, Withdrawal
from tests.edges.engines import EngineDesk

CALLS = [{"name": "find", "args": {}, "id": "p"}, {"name": "read", "args": {}, "id": "q"}]


def talk(engine: Engine) -> Session:
    """A question, a reply, and a turn with two calls."""
    session = engine.session("s", user="ada", create=True)
    session.record("system", "Be brief.")
    session.record("user", "Where is the lamp?")
    session.record("assistant", "Which lamp do you mean?")
    session.record("user", "The green one.")
    session.record("assistant", "I look.", tool_calls=CALLS)
    session.result("p", "in the hall")
    session.result("q", "it is on", is_error=True)
    return session


def shown(session: Any) -> list[int]:
    return [message.seq for message in session.context.view().messages]


def withdrawn(session: Session) -> dict[int, int]:
    return {message.seq: message.withdrawn for message in session.messages() if message.withdrawn}


def some(withdrawal: Withdrawal | None) -> Withdrawal:
    assert withdrawal is not None
    return withdrawal


def test_the_newest_call_group_is_withdrawn_whole_and_restored_to_the_same_bytes(engine: Engine) -> None:
    session = talk(engine)
    before, state = session.context.render("anthropic"), session.state()
    assert state.errors == ("c6_1",)
    first = some(session.withdraw(reason="again"))
    assert [message.seq for message in first.messages] == [6, 7, 8]
    assert (first.seq, first.grown, first.reason) == (9, False, "again")
    assert shown(session) == [2, 3, 4, 5]
    assert withdrawn(session) == {6: 9, 7: 9, 8: 9}
    after = session.state()
    assert (after.live, after.turns, after.errors, after.messages) == (3, 2, (), 7)
    restoration = session.restore(first)
    assert [message.seq for message in restoration.messages] == [6, 7, 8]
    assert session.context.render("anthropic") == before
    again = session.state()
    assert (again.live, again.live_tokens, again.turns, again.errors) == (6, state.live_tokens, 2, state.errors)
    assert withdrawn(session) == {}
    assert engine.admin.verify().problems == ()


def test_a_reply_is_regenerated_and_the_pack_from_before_still_reproduces(engine: Engine) -> None:
    session = engine.session("s", create=True)
    session.record("user", "Say a number.")
    pack = session.pack()
    session.record("assistant", "Seven", pack=pack)
    stored = session.packs.store(session.pack(settle=False))
    session.withdraw()
    assert session.pack().text.count("Seven") == 0
    session.record("assistant", "Eight")
    assert "Seven" not in session.pack().text
    assert "Seven" in session.packs.reproduce(stored).text
    session.packs.store(session.pack())
    changes = session.packs.diff(stored.id).changes
    assert any("withdrawn at event" in change.why for change in changes)


def test_a_pack_that_shows_withdrawn_messages_waits_for_no_reply(engine: Engine) -> None:
    session = talk(engine)
    session.pack()
    session.withdraw()
    session.record("assistant", "It is in the hall.")
    assert session.packs.list() == []


def test_all_after_a_message_is_withdrawn_and_the_range_grows_to_whole_groups(engine: Engine) -> None:
    session = talk(engine)
    grown = some(session.withdraw(after=7))
    assert grown.grown
    assert [message.seq for message in grown.messages] == [6, 7, 8]
    message = session.messages()[1]
    rest = some(session.withdraw(after=message))
    assert not rest.grown
    assert [each.seq for each in rest.messages] == [4, 5]
    assert shown(session) == [2, 3]
    session.restore(rest)
    assert shown(session) == [2, 3, 4, 5]
    assert session.state().asks is False
    some(session.withdraw())
    assert session.state().asks is True
    session.restore(grown.seq)
    assert shown(session) == [2, 3, 4, 6, 7, 8]


def test_words_between_a_call_and_its_result_stay(engine: Engine) -> None:
    session = engine.session("s", create=True)
    session.record("assistant", "", tool_calls=CALLS[:1])
    session.record("user", "Hurry up.")
    session.result("p", "done")
    assert [each.seq for each in some(session.withdraw()).messages] == [3]
    assert shown(session) == [2, 4]
    session.restore(5)
    grown = some(session.withdraw(after=3))
    assert grown.grown
    assert [each.seq for each in grown.messages] == [2, 4]
    assert shown(session) == [3]


def test_nothing_to_withdraw_is_no_event(engine: Engine) -> None:
    session = engine.session("s", create=True)
    assert session.withdraw() is None
    session.record("user", "hello")
    assert session.withdraw(after=2) is None
    assert session.state().version == 2


def test_open_calls_of_withdrawn_messages_are_closed_and_a_late_result_is_evidence_that_no_view_shows(
    engine: Engine,
) -> None:
    session = engine.session("s", create=True)
    session.record("user", "Look.")
    session.record("assistant", "", tool_calls=CALLS)
    session.start_call("p")
    session.result("q", "one")
    first = some(session.withdraw())
    assert session.open_calls() == ()
    assert session.recover().pending_work == ()
    assert [message.closing for message in first.messages] == [False, False, True]
    assert session.result("p", "late news").late
    assert session.context.view().late == ()
    assert "late news" not in session.pack().text
    session.record("assistant", "No need.")
    session.restore(first)
    assert shown(session) == [2, 3, 5, 6, 10]


def test_a_summary_of_a_withdrawn_message_is_void_until_it_is_restored(engine: Engine) -> None:
    session = engine.session("s", create=True)
    for number in range(8):
        session.record("user", f"the long question number {number} about the lamp in the hall")
    draft = SummaryDraft(scope=session.scope, first=2, last=6, version=9, items=(), tokens=0)
    session.context.summarize(draft, "five questions")
    before = session.context.render("text")
    first = some(session.withdraw(after=5))
    assert shown(session) == [2, 3, 4, 5]
    session.restore(first)
    assert session.context.render("text") == before
    newest = some(session.withdraw())
    assert shown(session) == [7, 8]
    version = session.state().version
    draft = SummaryDraft(scope=session.scope, first=2, last=newest.seq - 1, version=version, items=(), tokens=0)
    session.context.summarize(draft, "all questions")
    with pytest.raises(errors.RestoreRefused, match="was made without them"):
        session.restore(newest)


def test_a_reset_ends_withdrawals_and_a_second_restoration_is_refused(engine: Engine) -> None:
    session = talk(engine)
    first, second = some(session.withdraw()), some(session.withdraw())
    session.restore(second)
    with pytest.raises(errors.RestoreRefused, match="not in effect"):
        session.restore(second)
    with pytest.raises(errors.RestoreRefused, match="or that event is no withdrawal"):
        session.restore(2)
    session.reset()
    with pytest.raises(errors.RestoreRefused, match="not in effect"):
        session.restore(first)
    assert withdrawn(session) == {6: 9, 7: 9, 8: 9}


def test_a_key_is_answered_once(engine: Engine) -> None:
    session = talk(engine)
    first = some(session.withdraw(key="k"))
    assert session.withdraw(key="k") == first
    with pytest.raises(errors.KeyConflict):
        session.withdraw(after=2, key="k")
    undone = session.restore(first, key="r")
    assert session.restore(first, key="r") == undone
    with pytest.raises(errors.VersionConflict):
        session.withdraw(expect=3)
    assert session.state().withdrawals == ()


def test_a_frame_has_its_own_withdrawals(engine: Engine) -> None:
    session = talk(engine)
    frame = session.frame("look", budget=1_000)
    frame.record("user", "in the frame")
    frame.record("assistant", "yes?")
    first = some(frame.withdraw())
    assert shown(frame) == [2, 10]
    assert shown(session) == [2, 3, 4, 5, 6, 7, 8]
    with pytest.raises(errors.InvalidArgument, match="another conversation"):
        session.restore(first)
    frame.pop()
    assert shown(frame) == [2, 10]
    with pytest.raises(errors.HoldfastError):
        frame.restore(first)


def test_the_situation_is_as_it_was_before_the_withdrawn_messages(engine: Engine) -> None:
    session = engine.session("s", create=True)
    session.record("user", "Find the lamp.")
    session.situation.update({"goal": "find the lamp"})
    session.record("assistant", "It is a chair.")
    session.situation.update({"goal": "find the chair", "progress": "found it"})
    first = some(session.withdraw())
    now = session.situation.get()
    assert (now.goal, now.progress) == ("find the lamp", "")
    session.restore(first)
    now = session.situation.get()
    assert (now.goal, now.progress) == ("find the chair", "found it")


def test_a_fact_that_only_withdrawn_messages_state_needs_a_review_until_they_are_restored(engine: Engine) -> None:
    session = engine.session("s", user="ada", create=True)
    kept = session.record("user", "I like red.")
    said = session.record("user", "My shoe size is 43.")
    session.facts.set("color", "red", provenance=[kept.id, said.id])
    session.facts.set("size", 43, provenance=said.id)
    session.ledger(user="ada").set("feet", "large", provenance=said.id)
    first = some(session.withdraw())
    assert [each.ledger[0] for each in first.facts] == ["session", "user"]
    facts = {fact.key: fact for fact in (*session.ledger().items(), *session.ledger(user="ada").items())}
    assert {key for key, fact in facts.items() if fact.needs_review} == {"size", "feet"}
    assert facts["size"].review_reason == "its message was withdrawn at event 4 of session s"
    assert "the message that stated it was withdrawn" in session.pack("shoe size").text
    session.ledger().review.confirm("size")
    restored = session.restore(first)
    assert [each.ledger[0] for each in restored.facts] == ["user"]
    assert not session.ledger().review.list()
    assert not session.ledger(user="ada").review.list()
    assert engine.admin.verify().problems == ()


def test_by_policy_such_a_fact_is_retracted_with_its_dependents_and_comes_back(desk: EngineDesk) -> None:
    engine = desk.open("sqlite", policy=Policy(withdrawal="retract"))
    session = engine.session("s", create=True)
    said = session.record("user", "My shoe size is 43.")
    size = session.facts.set("size", 43, provenance=said.id)
    session.facts.set("feet", "large", depends_on=size)
    first = some(session.withdraw())
    assert not session.facts.items()
    session.restore(first)
    assert {fact.key for fact in session.facts.items()} == {"size", "feet"}
    again = some(session.withdraw())
    session.facts.set("size", 44)
    session.restore(again)
    assert {fact.key: fact.value for fact in session.facts.items()} == {"size": 44}


def test_the_outbox_marks_withdrawn_messages_and_an_export_leaves_them_out(engine: Engine, tmp_path: Path) -> None:
    session = talk(engine)
    session.withdraw()
    session.end()
    (offload,) = engine.admin.outbox()
    assert [message.withdrawn for message in engine.admin.offloaded(offload)] == [0, 0, 0, 0, 9, 9, 9]
    target = tmp_path / "lines.jsonl"
    assert engine.admin.export_transcript(str(target), "s") == 4
    assert "in the hall" not in target.read_text()


def test_erasing_a_withdrawal_erases_its_messages_and_erasing_them_leaves_it(engine: Engine) -> None:
    session = talk(engine)
    first = some(session.withdraw())
    second = some(session.withdraw())
    session.erase([6], "asked")
    assert [message.erased for message in session.messages()] == [False] * 4 + [True] * 3
    session.erase([second.seq], "asked")
    assert session.messages()[3].erased
    assert shown(session) == [2, 3, 4]
    session.restore(first)
    assert shown(session) == [2, 3, 4]
    assert engine.admin.verify().problems == ()


def test_a_restored_system_message_can_be_erased(engine: Engine) -> None:
    session = talk(engine)
    first = some(session.withdraw(after=1))
    assert shown(session) == []
    session.restore(first)
    session.erase([2], "asked")
    assert shown(session) == [3, 4, 5, 6, 7, 8]
    again = some(session.withdraw(after=1))
    session.erase([3], "asked")
    session.restore(again)
    assert shown(session) == [4, 5, 6, 7, 8]
    assert engine.admin.verify().problems == ()


def test_erasing_a_restoration_leaves_its_messages_in_view(engine: Engine) -> None:
    session = talk(engine)
    first = some(session.withdraw(reason="a secret"))
    restoration = session.restore(first, reason="another secret")
    session.context.summarize(
        SummaryDraft(scope=session.scope, first=3, last=8, version=10, items=(), tokens=0), "they looked for a lamp"
    )
    before = session.context.render("text")
    session.erase([restoration.seq], "asked")
    assert [event.payload for event in session.events() if event.seq in (first.seq, restoration.seq)] == [None, None]
    assert withdrawn(session) == {}
    assert session.context.render("text") == before
    assert engine.admin.verify().problems == ()


def test_a_system_message_is_withdrawn_from_frames_too(engine: Engine) -> None:
    session = talk(engine)
    frame = session.frame("look", budget=1_000)
    frame.record("user", "in the frame")
    first = some(session.withdraw(after=1))
    assert shown(frame) == [10]
    inner = some(frame.withdraw(after=0))
    assert [message.seq for message in inner.messages] == [10]
    session.restore(first)
    assert shown(frame) == [2]
    frame.restore(inner)
    assert shown(frame) == [2, 10]


def test_a_restoration_moves_marks_of_the_provider_cache_and_no_text(engine: Engine) -> None:
    session = talk(engine)
    session.context.summarize(
        SummaryDraft(scope=session.scope, first=3, last=4, version=8, items=(), tokens=0), "a lamp"
    )
    session.record("user", "And then?")
    session.record("assistant", "Wait.")
    formats: Any = ("text", "openai", "openai-responses")
    before, marked = [session.context.render(each) for each in formats], session.context.render("anthropic")
    session.restore(some(session.withdraw()))
    assert [session.context.render(each) for each in formats] == before
    again = session.context.render("anthropic")
    assert count_marks(again) < count_marks(marked)
    assert remove_marks(again) == remove_marks(marked)


def count_marks(value: Any) -> int:
    return codec.encode(value).count(b"cache_control")


def remove_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: remove_marks(each) for key, each in value.items() if key != "cache_control"}
    return [remove_marks(each) for each in value] if isinstance(value, list) else value


def test_recorded_packs_stay_and_say_what_was_withdrawn_and_restored(engine: Engine) -> None:
    session = talk(engine)
    whole = session.packs.store(session.pack())
    first = some(session.withdraw())
    short = session.packs.store(session.pack())
    session.restore(first)
    again = session.packs.store(session.pack())
    shown_then = [session.packs.reproduce(each).text for each in (whole, short, again)]
    assert shown_then[0] == shown_then[2] != shown_then[1]
    assert ["in the hall" in text for text in shown_then] == [True, False, True]
    assert [change.why for change in session.packs.diff(whole.id, short.id).changes] == [
        f"was withdrawn at event {first.seq}"
    ]
    assert [change.why for change in session.packs.diff(short.id, again.id).changes] == [
        "is in the conversation again since event 12"
    ]
    session.withdraw()
    session.erase([6], "asked")
    with pytest.raises(errors.PackChanged, match="was erased"):
        session.packs.reproduce(whole)


def test_a_withdrawal_is_undone_in_a_copy(engine: Engine, desk: EngineDesk, tmp_path: Path) -> None:
    session = talk(engine)
    said = session.record("user", "It is mine.")
    session.facts.set("owner", "ada", provenance=said.id)
    before = session.context.render("text")
    first = some(session.withdraw(after=5))
    engine.admin.export(tmp_path / "all.jsonl")
    other = desk.open("sqlite", "other")
    other.admin.import_(tmp_path / "all.jsonl")
    there = other.session("s", user="ada")
    assert there.context.render("text") == session.context.render("text") != before
    restoration = there.restore(first.seq)
    assert restoration.facts == first.facts
    assert there.context.render("text") == before
    assert not there.ledger().review.list()


@pytest.mark.parametrize("after", [-1, "x", 1.5, True, holdfast.Message(id="x", seq=3, time_us=0, principal="p")])
def test_what_is_no_message_is_refused(engine: Engine, after: Any) -> None:
    session = talk(engine)
    with pytest.raises(errors.InvalidInput):
        session.withdraw(after=after)
    with pytest.raises(errors.InvalidInput):
        session.restore(after)


def test_a_closed_session_is_not_changed(engine: Engine) -> None:
    session = talk(engine)
    first = some(session.withdraw())
    session.end()
    with pytest.raises(errors.SessionClosedError):
        session.withdraw()
    with pytest.raises(errors.SessionClosedError):
        session.restore(first)
    assert shown(session) == [2, 3, 4, 5]
