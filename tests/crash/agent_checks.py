"""What must hold when the agent of `agent_loop` has ended, however often it was killed on the way."""

from __future__ import annotations

from collections import Counter

import holdfast
from holdfast.core import upcast
from holdfast.model.frames.events import ActorResumed
from holdfast.model.sessions.events import CallStarted, MessageRecorded
from tests.crash.agent_loop import ANSWER, CALLED, CORRECTION, COUNTED, NEW, OLD, QUESTION, TOOLS
from tests.property.store_tools import session_events
from tests.provider import Provider


def check(engine: holdfast.Engine, asked: Provider) -> None:
    assert asked.refused == []
    assert engine.admin.verify().problems == ()
    session = engine.session("order", actor="ada")
    _check_transcript(session)
    _check_tools(session, asked)
    _check_requests(asked)
    replies = [each.seq for each in session.messages(limit=1_000) if each.role == "assistant"]
    assert sorted(each.reply for each in session.packs.list(limit=100)) == replies
    assert session.state().open_calls == ()
    assert session.evidence() == []
    (frame,) = session.frames.list()
    assert frame.status == "completed"
    assert frame.budget.reserved == 0


def _check_transcript(session: holdfast.Session) -> None:
    messages = session.messages(limit=1_000)
    outside = [each for each in messages if each.frame is None]
    within = [each for each in messages if each.frame is not None]
    assert [each.text for each in outside if each.role == "user"] == [QUESTION, CORRECTION]
    for conversation, called in ((outside, CALLED), (within, COUNTED)):
        replies = [each for each in conversation if each.role == "assistant"]
        assert [[call.name for call in each.tool_calls] for each in replies] == called
        calls = [call.id for each in replies for call in each.tool_calls]
        results = [result for each in conversation for result in each.tool_results]
        assert sorted(result.tool_call_id for result in results) == sorted(calls)
        assert not any(result.is_error for result in results)
        assert conversation[-1] is replies[-1]
    assert outside[-1].text == ANSWER


def _check_tools(session: holdfast.Session, asked: Provider) -> None:
    """Whoever takes the session up is told of each call whose outcome is unknown, and only then is it started again."""
    started: dict[str, int] = {}
    told: set[str] = set()
    attempts: Counter[str] = Counter()
    for event in map(upcast.decode_event, session_events(session)):
        if isinstance(event, ActorResumed):
            assert event.pending.get("tool_in_progress", 0) == len(started)
            told = {*started}
        elif isinstance(event, CallStarted):
            assert event.attempt == 1 + started.get(event.call, 0)
            assert event.attempt == 1 or event.call in told
            told.discard(event.call)
            started[event.call] = event.attempt
            attempts[event.key] += 1
        elif isinstance(event, MessageRecorded):
            for result in event.tool_results:
                del started[result.tool_call_id]
    assert started == {}
    assert sorted(each.name for each in asked.effects if each.first) == sorted([*TOOLS, "count", "find"])
    for key, count in Counter(each.key for each in asked.effects).items():
        assert 1 <= count <= attempts[key]


def _check_requests(asked: Provider) -> None:
    """Once the user has changed their mind, what they said before is marked, and the current value is there."""
    after = [each.spelled for each in asked.asked if NEW in each.spelled]
    assert len(after) >= 2
    for spelled in after:
        assert f"delivery town, {OLD}." not in spelled
        assert f"delivery town, {OLD} [delivery town has changed since]." in spelled
