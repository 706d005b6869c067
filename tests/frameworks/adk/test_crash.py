"""kill -9 in a tool and between two writes; several processes with clocks that are wrong; long sessions."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from typing import Any, cast

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import GetSessionConfig

import holdfast
from holdfast.adk import Plugin, SessionService
from holdfast.adk.events import encode_event, to_messages
from holdfast.adk.transcripts import Transcripts
from holdfast.frameworks.shadows import mark_message
from holdfast.types import NewEntry
from tests.frameworks.adk.support import ScriptedModel, ask, build_runner, create, load, run, show, text_event
from tests.support import WeighingStore


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.frameworks.adk.child", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_kill_9_in_a_tool_leaves_an_unknown_outcome_with_its_key(url: str) -> None:
    with start("die", url) as child:
        assert child.stdout is not None
        line = child.stdout.readline().split()
        assert line[:1] == ["running"], child.communicate()
        os.kill(child.pid, signal.SIGKILL)
    model = ScriptedModel.of("I will find out.")
    with holdfast.open(url) as engine:
        session = engine.session("s1", actor="desk/ada")
        (unknown,) = session.recover().unknown_outcomes
        assert unknown.key == line[1]
        service = SessionService(engine)
        runner = build_runner(LlmAgent(name="desk_agent", model=model), service, Plugin(engine, budget=8_000))
        run(ask(runner, "Did you pay?"))
        sent = show(model.requests[0])
        assert sent[:2] == ["user: Pay 40.", "model: call pay {'amount': 40}"]
        assert line[1] in sent[2]
        assert sent[3] == "user: Did you pay?"
        loaded = run(load(service))
        assert loaded.state == {"user:plan": "gold"}
        assert len(loaded.events) == 4
        assert engine.admin.verify().ok


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
def test_two_processes_with_skewed_clocks_lose_nothing(url: str) -> None:
    """One clock is an hour late, one is an hour early. Versions decide who is stale."""
    count = 8
    with holdfast.open(url) as engine:
        service = SessionService(engine)
        run(create(service))
        children = [start("append", url, skew, str(count)) for skew in ("-3600", "3600")]
        outputs = [child.communicate(timeout=120) for child in children]
        assert [child.returncode for child in children] == [0, 0], outputs
        loaded = run(load(service))
        assert len(loaded.events) == 2 * count
        assert (loaded.state["k-3600"], loaded.state["k3600"]) == (count - 1, count - 1)
        for skew in ("-3600", "3600"):
            numbers = [event.actions.state_delta.get(f"k{skew}") for event in loaded.events]
            assert [number for number in numbers if number is not None] == list(range(count))
        assert max(event.timestamp for event in loaded.events) > time.time() + 3_000
        assert engine.admin.verify().ok


class Crash(BaseException):
    """Stands for the end of a process."""


@pytest.mark.parametrize("at", ["transcript", "user state"])
def test_what_a_crash_between_two_writes_leaves_is_completed(
    engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    """The event is stored; its message, or the state of the user, is not. The next process does that."""
    service = SessionService(engine)
    run(create(service))

    def die(*_: Any, **__: Any) -> None:
        raise Crash

    with monkeypatch.context() as patched:
        if at == "transcript":
            patched.setattr(Transcripts, "record_event", die)
        else:
            patched.setattr(SessionService, "_share", die)
        event = text_event("hello", actions=EventActions(state_delta={"user:theme": "dark", "app:n": 1, "own": 2}))

        async def append() -> None:
            session = await load(service)
            with pytest.raises(Crash):
                await asyncio.to_thread(service._store, _names(service), session._storage_update_marker, "", event)

        run(append())
    for _ in range(2):
        again = SessionService(engine)
        loaded = run(load(again))
        assert loaded.state == {"user:theme": "dark", "app:n": 1, "own": 2}
        assert [each.id for each in loaded.events] == [event.id]
        messages = again.session(app_name="desk", user_id="ada", session_id="s1").messages()
        assert [message.text for message in messages] == ["hello"]
    user = engine.session("user", actor="desk/ada", thread="#state")
    assert len(user.entries.list(kind="state")) == 1


def _names(service: SessionService) -> Any:
    from holdfast.adk.session_service import _Names

    return _Names("desk", "ada", "s1")


def fill(service: SessionService, count: int) -> None:
    """A session of this many events, as appends would have left it, in a few writes."""
    session = service.session(app_name="desk", user_id="ada", session_id="long")
    for start_at in range(0, count, 200):
        events = [
            text_event(f"text {number}", "user" if number % 2 == 0 else "desk_agent", invocation_id=f"i{number // 2}")
            for number in range(start_at, start_at + 200)
        ]
        session.entries.append_all(
            [NewEntry("event", event.id, encode_event(event), event.invocation_id) for event in events]
        )
        marked = [message for event in events for message in to_messages(event)]
        session.record_all([{**each.message, "metadata": mark_message(each)} for each in marked], as_found=True)


def test_a_long_session_costs_no_more_than_what_is_asked_for(url: str) -> None:
    """5,000 events: the newest few are read without the others, in a process that never saw the session; and an append to
    it reads what one to a new session does."""
    with holdfast.open(url) as engine:
        service = SessionService(engine, observe=False)
        run(create(service, "long"))
        run(create(service, "short"))
        fill(service, 5_000)
        store = weigh(engine)

        async def append(name: str) -> int:
            session = await load(service, name, config=GetSessionConfig(num_recent_events=1))
            before = store.answered
            for number in range(41):
                await service.append_event(
                    session, text_event(f"more {number}", "user" if number % 2 else "desk_agent")
                )
            return store.answered - before

        long, short = run(append("long")), run(append("short"))
        assert long < 2 * short
    with holdfast.open(url) as engine:
        service, store = SessionService(engine), weigh(engine)
        loaded = run(load(service, "long", config=GetSessionConfig(num_recent_events=10)))
        few = store.answered
        assert len(loaded.events) == 10
        assert loaded.events[-1].content.parts[0].text == "more 40"  # type: ignore[union-attr,index]  # it has a part
        assert len(run(load(service, "long")).events) == 5_041
        assert few < (store.answered - few) / 10


def weigh(engine: holdfast.Engine) -> WeighingStore:
    store = WeighingStore(engine.store)
    engine.store = cast("Any", store)
    return store
