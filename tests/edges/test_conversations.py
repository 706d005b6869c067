"""Frames side by side: each has a conversation of its own, and calls pair up with their results in all of them."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import errors
from holdfast.core.history.views import has_whole_groups

CALL = {"name": "look_up", "args": {"key": "a"}, "id": "call_1"}


def _two(engine: holdfast.Engine) -> tuple[holdfast.Session, holdfast.Frame, holdfast.Frame]:
    session = engine.create_session("s")
    root = session.frame("all", budget=1_000)
    return session, root.frame("one", budget=100), root.frame("two", budget=100)


def test_a_frame_does_not_wait_for_the_calls_of_another(engine: holdfast.Engine) -> None:
    session, one, two = _two(engine)
    first = one.record("assistant", "I look.", tool_calls=[CALL]).tool_calls[0]
    second = two.record("assistant", "So do I.", tool_calls=[CALL]).tool_calls[0]
    session.record("assistant", "And I talk.")
    with pytest.raises(errors.CallsOpen) as refusal:
        one.record("assistant", "Found nothing yet.")
    assert (refusal.value.count, refusal.value.calls) == (1, f"{first.id} look_up")
    assert [call.id for call in session.state().open_calls] == [first.id, second.id]
    assert two.result(second, "b").frame == two.id
    two.record("assistant", "Done.")
    assert [call.id for call in session.state().open_calls] == [first.id]
    assert one.result(first, "a").frame == one.id


def test_the_ids_of_a_provider_are_those_of_the_frame(engine: holdfast.Engine) -> None:
    """Two replies of one provider may use the same id at the same time."""
    _, one, two = _two(engine)
    first = one.record("assistant", tool_calls=[CALL]).tool_calls[0]
    second = two.record("assistant", tool_calls=[CALL]).tool_calls[0]
    assert two.start_call("call_1").call == second.id
    assert [each.tool_call_id for each in two.result("call_1", "b").tool_results] == [second.id]
    assert [each.tool_call_id for each in one.result("call_1", "a").tool_results] == [first.id]


def test_results_for_calls_of_several_messages_are_several_messages(engine: holdfast.Engine) -> None:
    session, one, two = _two(engine)
    calls = [frame.record("assistant", tool_calls=[CALL]).tool_calls[0] for frame in (one, two)]
    both = {"role": "tool", "tool_results": [{"tool_call_id": call.id, "result": "x"} for call in calls]}
    before = session.state()
    with pytest.raises(errors.InvalidArgument, match="several messages"):
        session.record_all([both])
    assert session.state() == before


def test_calls_are_closed_in_one_frame_or_in_all(engine: holdfast.Engine) -> None:
    session, one, two = _two(engine)
    calls = {
        frame.id: frame.record("assistant", tool_calls=[CALL, CALL | {"id": "2"}]).tool_calls for frame in (one, two)
    }
    closed = one.close_calls("given up")
    assert closed is not None
    assert [each.tool_call_id for each in closed.tool_results] == [call.id for call in calls[one.id]]
    assert {call.frame for call in session.state().open_calls} == {two.id}
    three = one.record("assistant", tool_calls=[CALL]).tool_calls
    assert session.close_calls("all of them") is not None
    assert session.state().open_calls == ()
    groups = [[each.tool_call_id for each in message.tool_results] for message in session.messages() if message.closing]
    assert groups == [[call.id for call in group] for group in (calls[one.id], calls[two.id], three)]


@pytest.mark.parametrize("tokens", [30, 60, 100, 200, 10_000])
def test_no_view_parts_what_belongs_together_however_frames_take_turns(engine: holdfast.Engine, tokens: int) -> None:
    session, one, two = _two(engine)
    for number in range(6):
        asked = [frame.record("assistant", f"step {number}", tool_calls=[CALL]).tool_calls[0] for frame in (one, two)]
        session.record("user", "Is it done?")
        two.result(asked[1], f"result {number}")
        one.result(asked[0], f"result {number}")
    view = session.context.window(tokens)
    assert view.tokens <= tokens
    assert all(has_whole_groups(unit.messages) for unit in view.groups)
    draft = session.context.draft_summary(keep_turns=1)
    assert draft is not None
    assert has_whole_groups(
        message for item in draft.items if isinstance(item, holdfast.types.MessageGroup) for message in item.messages
    )


def test_what_is_erased_takes_its_own_results_along(engine: holdfast.Engine) -> None:
    session, one, two = _two(engine)
    first = one.record("assistant", tool_calls=[CALL])
    second = two.record("assistant", tool_calls=[CALL])
    answers = [two.result(second.tool_calls[0], "b"), one.result(first.tool_calls[0], "a")]
    session.erase([first.seq], "asked to")
    gone = {message.seq for message in session.messages() if message.erased}
    assert gone == {first.seq, answers[1].seq}


def test_a_question_is_pending_until_it_is_answered_where_it_was_asked(engine: holdfast.Engine) -> None:
    session, one, two = _two(engine)
    one.record("assistant", "Which one?")
    two.record("assistant", "It is done.")
    kinds = [(each.kind, each.frame) for each in session.recover().pending_work]
    assert ("waiting_for_user", one.id) in kinds
    one.record("user", "The first.")
    assert [each.kind for each in session.recover().pending_work] == ["waiting_for_subcall"]


def test_usage_in_a_frame_teaches_nothing_of_the_transcript(engine: holdfast.Engine) -> None:
    session, one, _ = _two(engine)
    before = session.state().calibration
    one.record("assistant", "Done.", usage=holdfast.Usage(input_tokens=5_000, output_tokens=3))
    state = session.state()
    assert (state.calibration, state.usage.input_tokens) == (before, 5_000)
