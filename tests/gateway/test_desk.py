"""The desk under clients that append, retry, edit, fork and shorten their lists, with restarts at any time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.gateway.desk import Desk
from holdfast.gateway.options import DeskOptions
from holdfast.gateway.statistics import read_calls
from holdfast.model import limits
from tests.gateway import clients
from tests.gateway.clients import ChatClient, ItemsClient, MessagesClient, ModelClient, OddMessagesClient
from tests.gateway.harness import OPTIONS, STEPS, WORD, Harness

KINDS = (MessagesClient, OddMessagesClient, ChatClient, ItemsClient)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10_000), steps=st.lists(st.sampled_from(STEPS), min_size=10, max_size=40))
def test_any_client_is_sent_its_own_words(kind: type[ModelClient], seed: int, steps: list[str]) -> None:
    harness = Harness(seed, kind=kind)
    for name in steps:
        harness.step(name)
    harness.send()
    assert harness.engine.admin.verify().ok


def test_a_long_conversation_has_boundaries_and_loses_nothing() -> None:
    harness = Harness(7)
    for _ in range(60):
        harness.step("take")
    assert harness.boundaries >= 2
    prepared = harness.send()
    assert len(prepared.body) < len(prepared.arrival.body) / 2
    (row,) = harness.engine.sessions()
    session = harness.engine.session(row.session)
    stored = msgspec.json.encode(session.messages(limit=1_000)).decode()
    assert {*WORD.findall(json.dumps(harness.client.messages))} <= {*WORD.findall(stored)}


def test_who_goes_back_is_sent_the_same_bytes_if_something_fails() -> None:
    """The branch that they left has all of their messages too, and another view by now."""
    harness = Harness(7)
    for _ in range(30):
        harness.step("take")
    earlier = list(harness.client.messages)
    for _ in range(30):
        harness.step("take")
    harness.client.messages = earlier
    prepared = harness.send()
    assert prepared.is_changed
    assert harness.desk.fall_back(prepared.arrival).body == prepared.body


def test_between_boundaries_each_request_extends_the_last() -> None:
    harness = Harness(3)
    last: list[Any] = []
    for _ in range(50):
        prepared = harness.send()
        sent = strip_marks(json.loads(prepared.body)["messages"])
        step: Any = prepared.step
        if not step.is_boundary:
            assert sent[: len(last)] == last
        last = sent
        harness.client.take(harness.answer(prepared))
    assert harness.boundaries


def strip_marks(messages: list[Any]) -> list[Any]:
    for message in messages:
        for block in message["content"]:
            block.pop("cache_control", None)
    return messages


def test_another_process_knows_whether_what_stands_before_is_still_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents often go on with a conversation with other tools: then nothing of the prompt is in the cache."""
    harness = Harness(3)
    for restarts, changed in (
        (False, False),
        (True, False),
        (True, True),
        (False, False),
        (True, False),
        (False, True),
    ):
        harness.step("take")
        if restarts:
            harness.step("restart")
        if changed:
            tool = {"name": f"tool_{harness.sent}", "input_schema": {"type": "object"}}
            monkeypatch.setattr(clients, "TOOLS", [*clients.TOOLS, tool])
        prepared = harness.send()
        step: Any = prepared.step
        assert step.is_warm is not changed, (restarts, changed)
        harness.client.take(harness.answer(prepared))


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "gateway.db")


def test_a_fork_is_a_fork_of_the_session_and_an_epoch_a_reset(store: str) -> None:
    harness = Harness(1, store=store)
    for name in ("take", "take", "take", "take"):
        harness.step(name)
    count = len(harness.client.messages)
    harness.client.messages[2:] = []
    harness.client.ask()
    harness.step("take")
    names = [row.session for row in harness.engine.sessions()]
    assert names == [f"claude-{harness.client.family}", f"claude-{harness.client.family}.2"]
    fork = harness.engine.session(names[1])
    assert fork.state().origin is not None
    assert count > 2
    harness.client.compact()
    harness.step("take")
    assert len(harness.engine.sessions()) == 2
    harness.engine.close()


@pytest.mark.parametrize("kind", [MessagesClient, ChatClient])
def test_conversations_of_one_application_are_sessions_of_their_own(
    kind: type[ModelClient], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An application without ids has the same key and the same system prompt in each."""
    monkeypatch.setattr(kind, "headers", (("authorization", "Bearer secret"),))
    harness = Harness(5, kind=kind)
    for number in range(3):
        harness.client = kind(5)
        harness.client.words = 1_000 * number
        harness.client.compact()
        harness.step("take")
        harness.step("take")
    rows = harness.engine.sessions()
    assert len(rows) == 3
    assert [row.parent for row in rows] == ["", "", ""]


@pytest.mark.parametrize("kind", [MessagesClient, ChatClient, ItemsClient])
def test_a_model_without_known_prices_has_boundaries(kind: type[ModelClient], monkeypatch: pytest.MonkeyPatch) -> None:
    build = kind.build_request
    monkeypatch.setattr(kind, "build_request", lambda client: {**build(client), "model": "a-model-of-my-own"})
    harness = Harness(7, kind=kind)
    for _ in range(30):
        harness.step("take")
    assert harness.boundaries


def test_sub_agents_are_frames(store: str) -> None:
    harness = Harness(2, store=store)
    harness.step("take")
    agents = [MessagesClient(seed, family=harness.client.family, agent=f"agent-{seed}") for seed in (11, 12)]
    for round_number in range(4):
        for agent in agents:
            prepared = harness.desk.prepare(harness.arrive(agent))
            reply = agent.build_reply(calls=int(round_number < 3))
            harness.settle(prepared, reply)
            agent.take(reply)
        harness.step("take")
    session = harness.engine.session(f"claude-{harness.client.family}")
    frames = session.frames.list()
    assert [frame.status for frame in frames] == ["completed", "completed"]
    assert len(harness.engine.sessions()) == 1
    harness.engine.close()


def test_a_refused_conversation_is_left_alone() -> None:
    harness = Harness(5)
    for _ in range(30):
        harness.step("take")
    prepared = harness.send()
    assert prepared.is_changed
    reply = harness.client.build_reply()
    harness.settle(prepared, reply, was_resent=True)
    harness.client.take(reply)
    arrival = harness.arrive()
    assert not harness.desk.prepare(arrival).is_changed
    assert not Desk(harness.engine, OPTIONS).prepare(arrival).is_changed, "also after a restart"


def test_a_client_that_goes_back_is_sent_what_the_cache_of_the_provider_has() -> None:
    harness = Harness(7, DeskOptions(window=12_000))
    while not harness.boundaries:
        harness.step("take")
    client = harness.client
    common = client.messages[:-1]
    sent: list[Any] = []
    for _ in range(3):  # each time, something else follows the last reply
        last = client.build_results(client.read_calls(common[-1:])) or [client.build_question()]
        client.messages = [*common, *last]
        prepared = harness.send()
        sent.append(strip_marks(json.loads(prepared.body)["messages"]))
        client.take(harness.answer(prepared))
        harness.step("take")
    assert harness.boundaries == 1
    assert len(harness.engine.sessions()) == 3
    assert "`holdfast read 55556666:h" in json.dumps(sent[0])
    assert sent[0][:-1] == sent[1][:-1] == sent[2][:-1]
    assert sent[0] != sent[1] != sent[2]


def test_what_a_boundary_saved_does_not_depend_on_how_long_the_store_took() -> None:
    figures = []
    for last in ("take", "fall"):
        harness = Harness(7)
        while not any(
            line.has_boundary for family in harness.desk._lines._families.values() for line in family.lines.values()
        ):
            harness.step("take")
        harness.step(last)
        *_, call = sorted((call.figures for call in read_calls(harness.engine)), key=lambda found: found.counted)
        assert call.is_boundary
        figures.append(msgspec.structs.replace(call, sent_us=0, ended_us=0))
    assert figures[0] == figures[1]


def test_a_long_conversation_is_taken_up_in_the_middle() -> None:
    harness = Harness(8, DeskOptions(window=10_000_000))
    for _ in range(limits.READ_EVENTS // 4):
        harness.client.take(harness.client.build_reply(calls=3))
    harness.step("take")
    harness.step("take")
    (row,) = harness.engine.sessions()
    assert harness.engine.session(row.session).state().messages > limits.READ_EVENTS


def test_a_waiting_record_keeps_only_what_is_new() -> None:
    harness = Harness(5, DeskOptions(policy="faithful"))
    for _ in range(40):
        harness.step("take")
    prepared = harness.send()
    new = json.dumps(harness.client.messages[-1]).encode()
    assert 0 < prepared.kept_bytes <= 2 * len(new) < len(prepared.arrival.body) / 10
    harness.answer(prepared)
    (row,) = harness.engine.sessions()
    stored = msgspec.json.encode(harness.engine.session(row.session).messages(limit=1_000)).decode()
    assert {*WORD.findall(json.dumps(harness.client.messages))} <= {*WORD.findall(stored)}


def test_figures_are_stored_for_each_call() -> None:
    harness = Harness(9)
    for _ in range(30):
        harness.step("take")
    session = harness.engine.session(f"claude-{harness.client.family}")
    calls: list[Any] = [entry.body for entry in session.entries.list(kind="gateway.call", limit=100)]
    assert len(calls) == 30
    assert all(call["plain_cost"] >= call["cost"] or call.get("is_boundary") for call in calls)
    assert any(call.get("saved", 0) > 0 for call in calls)


@pytest.mark.parametrize("kind", [MessagesClient, ChatClient, ItemsClient])
def test_an_edited_reply_is_no_boundary_and_leaves_the_cache_warm(kind: type[ModelClient]) -> None:
    harness = Harness(7, kind=kind)
    for number in range(40):
        prepared = harness.send()
        step: Any = prepared.step
        assert step.is_warm or not number
        harness.client.take(harness.answer(prepared), edit=True)
    calls = list(read_calls(harness.engine))
    assert sum(call.figures.is_boundary for call in calls) == harness.boundaries > 0


def test_credentials_are_never_stored(store: str) -> None:
    harness = Harness(4, store=store)
    for _ in range(3):
        harness.step("take")
    harness.engine.close()
    folder = Path(store).parent
    assert all(b"secret" not in path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_the_engine_of_a_gateway_is_a_normal_store(store: str) -> None:
    harness = Harness(6, store=store)
    for _ in range(40):
        harness.step("take")
    harness.engine.close()
    with holdfast.open(store) as engine:
        session = engine.session(f"claude-{harness.client.family}")
        session.close_calls("the client is gone")
        assert session.pack(budget=4_000, model="claude-sonnet-4-5").tokens.used <= 4_000
        assert session.recover() is not None
        assert engine.admin.verify().ok
