"""Handles: their tokens, where they are got by, and the account of what is resident and what is not."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import errors
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.types import Spooling, SummarizeOldest, TruncateAt
from tests.edges.engines import EngineDesk
from tests.support import figure

EXAMPLES = figure(20, 1_000)
LONG = "A line of the report that is long.\n" * 3_000


def _result(session: Any, value: object, provider: str | None = None) -> Any:
    call = {"name": "look", "args": {}} | ({"id": provider} if provider else {})
    (made,) = session.record("assistant", tool_calls=[call]).tool_calls
    return made, session.result(made, value)


def test_tokens_of_a_handle_are_those_of_its_whole_body_wherever_it_is() -> None:
    engine = holdfast.open("memory:")
    session: Any = engine.create_session("s")
    count = EstimatingCounter().count
    _, message = _result(session, LONG)
    name = f"h{message.seq}_0"
    whole = count(LONG)
    assert session.handles.get(name).tokens == whole
    assert session.handles.page_in(name).tokens == whole
    assert session.handles.get(name).tokens == whole
    assert session.handles.page_out(name).tokens == whole
    assert session.handles.get(name).tokens == whole
    session.context.compact(strategy=TruncateAt(0), window=100_000)
    assert session.handles.get(name).tokens == whole
    with session.frame("work", budget=1_000) as frame:
        handle = frame.handles.add("document", LONG)
        assert handle.tokens == whole
        assert frame.handles.page_out(handle).tokens == whole


def test_tokens_of_a_huge_stream_are_estimated_from_its_beginning() -> None:
    session: Any = holdfast.open("memory:").create_session("s")
    body = (LONG * 20).encode()
    _, message = _result(session, io.BytesIO(body))
    exact = EstimatingCounter().count(LONG * 20)
    assert abs(session.handles.get(f"h{message.seq}_0").tokens - exact) < exact * 0.02


ops = st.lists(
    st.tuples(
        st.sampled_from(["out", "in", "oldest", "truncate", "plan", "frame out", "frame in", "summary"]),
        st.integers(0, 30),
    ),
    max_size=12,
)


@settings(max_examples=EXAMPLES)
@given(sizes=st.lists(st.sampled_from([5, 60, 300, 2_000, 9_000]), min_size=2, max_size=10), ops=ops)
def test_resident_and_not_resident_are_the_same_total_whatever_moves(
    sizes: list[int], ops: list[tuple[str, int]]
) -> None:
    engine = holdfast.open("memory:", spooling=Spooling(threshold=1_000, preview=100))
    session: Any = engine.create_session("s")
    pieces: list[str] = []
    for number, size in enumerate(sizes):
        pieces.append(f"h{session.record('user', f'{number} said ' * (size // 7 + 1)).seq}_0")
        pieces.append(f"h{_result(session, f'{number} found ' * (size // 8 + 1))[1].seq}_0")
        session.record("assistant", "Good.")
    frame: Any = session.frame("work", budget=1_000)
    handles = [frame.handles.add("document", f"{number} noted " * size) for number, size in enumerate(sizes)]
    totals = session.context.occupancy().total_tokens, frame.context.occupancy().total_tokens
    assert totals[1] == sum(each.tokens for each in handles)
    for op, number in ops:
        try:
            _carry_out(session, frame, op, number, pieces, handles)
        except (errors.InvalidArgument, errors.HandleNotFound):
            continue  # out of view, or shorter than the line for it
        for held, total in zip((session, frame), totals, strict=True):
            taken = held.context.occupancy()
            assert taken.resident_tokens + taken.non_resident_tokens == taken.total_tokens == total
            assert min(taken.resident_tokens, taken.spooled_tokens, taken.paged_tokens, taken.collapsed_tokens) >= 0


def _carry_out(session: Any, frame: Any, op: str, number: int, pieces: list[str], handles: list[Any]) -> None:
    piece, handle = pieces[number % len(pieces)], handles[number % len(handles)]
    match op:
        case "out":
            session.handles.page_out(piece)
        case "in":
            session.handles.page_in(piece)
        case "oldest":
            session.context.compact(strategy=SummarizeOldest(number), window=100_000)
        case "truncate":
            session.context.compact(strategy=TruncateAt(number), window=100_000)
        case "plan":
            session.context.compact(window=500 + number * 200)
        case "summary":
            draft = session.context.draft_summary(number % 3)
            if draft is not None:
                session.context.summarize(draft, "x")
        case "frame out":
            frame.handles.page_out(handle)
        case "frame in":
            frame.handles.page_in(handle)


@pytest.mark.parametrize("kind", ["memory", "sqlite awaited"])
def test_a_handle_is_got_by_its_id_and_by_its_call(kind: str, desk: EngineDesk) -> None:
    session: Any = desk.open(kind).create_session("s")
    call, message = _result(session, LONG, "toolu_1")
    other, _ = _result(session, "short", "toolu_2")
    wanted = session.handles.get(f"h{message.seq}_0")
    assert wanted == session.handles.get(f"h{message.seq}_0")
    assert session.handles.get(call.id) == session.handles.get("toolu_1") == session.handles.get(call) == wanted
    assert session.handles.get(other.id).source == other.id
    session.context.compact(strategy=TruncateAt(0), window=100_000)
    assert session.handles.get(call.id).id == wanted.id
    assert session.handles.get(call.id).residency == "collapsed"
    with pytest.raises(errors.HandleNotFound):
        session.handles.get("toolu_3")
    with pytest.raises(errors.HandleNotFound):
        session.handles.get("c99_0")


def test_a_call_id_that_two_live_handles_have_is_refused_by_name() -> None:
    session: Any = holdfast.open("memory:").create_session("s")
    first = _result(session, "one", "call_0")[1]
    second = _result(session, "two", "call_0")[1]
    with pytest.raises(errors.AmbiguousHandle) as caught:
        session.handles.get("call_0")
    assert caught.value.handles == f"h{first.seq}_0, h{second.seq}_0"


def test_handles_of_frames_are_got_by_id_and_by_source() -> None:
    session: Any = holdfast.open("memory:").create_session("s")
    frame = session.frame("work", budget=1_000)
    handle = frame.handles.add("url", "The page.", source="https://example.org")
    assert frame.handles.get(handle.id) == session.handles.get(handle.id) == handle
    assert frame.handles.get("https://example.org") == session.handles.get("https://example.org") == handle
    child = frame.frame("look", budget=100)
    child.pop("completed", summary="Found.")
    assert [each.kind for each in frame.handles.attachments()] == ["url", "sub_agent_join"]
