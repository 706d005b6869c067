"""The session store: the contracts of the SDK, retries, two processes, crashes, and cost."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, cast

import pytest
from claude_agent_sdk import (
    delete_session_via_store,
    fork_session_via_store,
    get_session_info_from_store,
    get_session_messages_from_store,
    import_session_to_store,
    list_sessions_from_store,
    list_subagents_from_store,
    project_key_for_directory,
)
from claude_agent_sdk.testing import run_session_store_conformance
from claude_agent_sdk.types import SessionKey, SessionStoreEntry

import holdfast
from holdfast.claude import HoldfastSessionStore
from holdfast.errors import InvalidArgument, SessionNotFound
from holdfast.frameworks.claude_messages import LogProgress
from tests.edges.claude_lines import Chat
from tests.support import WeighingStore

ROOT = Path(__file__).parents[3]
KEY: SessionKey = {"project_key": "-work-shop", "session_id": "1c2b5f0e-0000-4000-8000-000000000001"}


def entries(lines: list[dict[str, Any]]) -> list[SessionStoreEntry]:
    return cast("list[SessionStoreEntry]", lines)


def append(store: HoldfastSessionStore, key: SessionKey, lines: list[dict[str, Any]]) -> None:
    asyncio.run(store.append(key, entries(lines)))


def load(store: HoldfastSessionStore, key: SessionKey) -> list[SessionStoreEntry]:
    return asyncio.run(store.load(key)) or []


def test_all_contracts_of_the_sdk_hold(engine: holdfast.Engine) -> None:
    numbers = itertools.count()
    asyncio.run(
        run_session_store_conformance(lambda: HoldfastSessionStore(engine.acting_as(tenant=f"t{next(numbers)}")))
    )
    assert next(numbers) >= 14
    assert engine.admin.verify().ok


def test_lines_become_messages_and_repeated_ones_are_stored_once(engine: holdfast.Engine) -> None:
    chat = Chat()
    lines = [
        chat.prompt("Fix the test."),
        chat.note("mode", mode="plan"),
        *chat.reply("I look.", ("Bash", "toolu_1", {"command": "ls"}), ("Read", "toolu_2", {"file_path": "a"})),
        chat.result("toolu_2", "no such file", is_error=True),
        chat.result("toolu_1", "a.py"),
        *chat.reply("Fixed."),
    ]
    store = HoldfastSessionStore(engine)
    append(store, KEY, lines)
    append(store, KEY, lines)
    without = [line for line in lines if "uuid" not in line]
    assert load(store, KEY) == lines + without
    session = engine.session(KEY["session_id"], actor=KEY["project_key"])
    shown = [(each.role, each.text) for each in session.messages()]
    assert shown == [
        ("user", "Fix the test."),
        ("assistant", "I look."),
        ("tool", "no such file"),
        ("tool", "a.py"),
        ("assistant", "Fixed."),
    ]
    assert session.evidence() == []
    request = session.pack(budget=4_000).anthropic()
    assert [message["role"] for message in request["messages"]] == ["user", "assistant", "user", "assistant", "user"][
        :5
    ]
    other = HoldfastSessionStore(engine)  # another process knows nothing but the store
    append(other, KEY, [*lines[-1:], *chat.reply("And more.")])
    assert [each.text for each in session.messages()[-2:]] == ["Fixed.", "And more."]
    assert engine.admin.verify().ok


def test_no_line_is_refused_and_none_stops_the_next_ones(file_engine: holdfast.Engine) -> None:
    chat = Chat()
    call: dict[str, Any] = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    odd_blocks: list[dict[str, Any]] = [
        {**call, "id": "", "name": "", "input": None},
        {**call, "id": 5},
        {**call, "id": "n\n"},
        {**call, "name": "\x00"},
        {**call, "id": "k" * 400, "name": "n" * 400, "input": {"a": float("nan"), "b": "\ud800"}},
        {"type": "text", "text": 5},
        {"type": None},
        {"type": "image", "source": {"type": "base64", "media_type": "x", "data": "%"}},
    ]
    store = HoldfastSessionStore(file_engine)
    append(store, KEY, [chat.prompt("Begin.")])
    lines: list[dict[str, Any]] = []
    for block in odd_blocks:
        reply = chat.reply("Both:", ("Read", f"toolu_{len(lines)}", {}))
        for line in reply:
            line["message"]["content"] = [*line["message"]["content"], block]
        lines += [*reply, chat.result(f"toolu_{len(lines)}", [{"type": "weird"}, {"type": None}])]
    lines += [chat.result(name, "x") for name in ("k" * 400, "n\n", "")]
    lines += [chat.line("user", message={"role": "user", "content": [call, {"type": None}]})]
    odd_reply = {"id": "m9", "role": "assistant", "content": [{"type": "tool_result", "tool_use_id": "a"}, {}]}
    lines += [chat.line("assistant", message=odd_reply)]
    lines += [chat.prompt("odd", uuid=name) for name in ("u" * 5_000, "n\n\x00", "\ud800")]
    lines += [chat.prompt("odd", parentUuid=name) for name in ("u" * 5_000, "n\n\x00", "\ud800", "")]
    lines += [chat.line("user", message={"role": "user", "content": [{"type": "document"}]}, isCompactSummary=True)]
    lines += [chat.line("user", isSidechain=True, parentUuid="n\n", message={"role": "user", "content": "side"})]
    for line in lines:
        append(store, KEY, [line])
    append(store, KEY, [chat.prompt("Still there?"), *chat.reply("Yes.")])
    session = store.session(KEY["session_id"], KEY["project_key"])
    assert [each.text for each in session.messages(limit=2)] == ["Still there?", "Yes."]
    read = [
        call.provider_id for each in session.messages(limit=1_000) for call in each.tool_calls if call.name == "Read"
    ]
    assert {f"toolu_{3 * number}" for number in range(len(odd_blocks))} <= {*read}
    assert len(load(store, KEY)) == len(lines) + 3
    session.pack(budget=8_000)
    assert file_engine.admin.verify().ok


def test_a_call_with_huge_arguments_is_recorded_with_less_of_them(file_engine: holdfast.Engine) -> None:
    chat = Chat()
    store = HoldfastSessionStore(file_engine)
    append(
        store, KEY, [chat.prompt("Write it."), *chat.reply("I do.", ("Write", "toolu_1", {"text": "q" * 3_000_000}))]
    )
    assert store.log(KEY).start_call("toolu_1") is not None
    append(store, KEY, [chat.result("toolu_1", "written"), *chat.reply("Done.")])
    session = store.session(KEY["session_id"], KEY["project_key"])
    assert [each.text for each in session.messages()] == ["Write it.", "I do.", "written", "Done."]


class _Died(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("happens", ["another writer", "the process dies"])
def test_a_reply_that_goes_on_keeps_its_calls_if_it_is_interrupted(
    file_engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch, happens: str
) -> None:
    chat = Chat()
    prompt = chat.prompt("Fix it.")
    lines = chat.reply("I look.", ("Bash", "toolu_1", {"command": "a"}), ("Bash", "toolu_2", {"command": "b"}))
    store = HoldfastSessionStore(file_engine)
    append(store, KEY, [prompt, *lines[:2]])
    started = store.log(KEY).start_call("toolu_1")
    assert started is not None
    withdraw = LogProgress.withdraw

    def withdraw_and_stop(self: LogProgress, session: holdfast.Session, *args: Any) -> None:
        withdraw(self, session, *args)
        monkeypatch.setattr(LogProgress, "withdraw", withdraw)
        if happens == "the process dies":
            raise _Died
        session.entries.append("other", "other", {})

    monkeypatch.setattr(LogProgress, "withdraw", withdraw_and_stop)
    with contextlib.suppress(_Died):
        append(store, KEY, lines[2:])
    later = HoldfastSessionStore(file_engine)
    unknown = later.unknown_calls(KEY["session_id"], KEY["project_key"])
    assert [(call.id, call.key) for call in unknown] == [("toolu_1", started.key)]
    append(later, KEY, [chat.result("toolu_1", "one"), chat.result("toolu_2", "two"), *chat.reply("Done.")])
    session = later.session(KEY["session_id"], KEY["project_key"])
    shown = [(each.role, each.text, len(each.tool_calls)) for each in session.messages() if not each.withdrawn]
    assert shown == [
        ("user", "Fix it.", 0),
        ("assistant", "I look.", 2),
        ("tool", "one", 0),
        ("tool", "two", 0),
        ("assistant", "Done.", 0),
    ]
    assert not session.evidence()
    append(later, KEY, [chat.line("user", message={"role": "user", "content": "Again."}, parentUuid=prompt["uuid"])])
    append(HoldfastSessionStore(file_engine), KEY, chat.reply("Yes."))
    shown = [(each.role, each.text, len(each.tool_calls)) for each in session.messages() if not each.withdrawn]
    assert shown == [("user", "Fix it.", 0), ("user", "Again.", 0), ("assistant", "Yes.", 0)]
    assert file_engine.admin.verify().ok


def test_a_reply_of_a_sub_agent_in_the_file_of_the_session_goes_on(file_engine: holdfast.Engine) -> None:
    chat = Chat()
    side: dict[str, Any] = {"isSidechain": True, "agentId": "a1"}
    lines = chat.reply("I look.", ("Bash", "toolu_1", {}), ("Bash", "toolu_2", {}), **side)
    store = HoldfastSessionStore(file_engine)
    append(store, KEY, [chat.prompt("Look.", **side), *lines[:2]])
    append(store, KEY, lines[2:])
    append(store, KEY, [chat.result("toolu_2", "two", **side), chat.result("toolu_1", "one", **side)])
    (frame,) = store.frames(KEY["session_id"], KEY["project_key"], "sidechains/agent-a1")
    session = store.session(KEY["session_id"], KEY["project_key"])
    assert {each.frame for each in session.messages()} == {frame.frame_id}
    shown = [(each.role, each.text, len(each.tool_calls)) for each in session.messages() if not each.withdrawn]
    assert shown == [("user", "Look.", 0), ("assistant", "I look.", 2), ("tool", "two", 0), ("tool", "one", 0)]
    assert not session.evidence()


def test_a_reply_that_goes_on_while_its_first_call_runs_is_one_message(file_engine: holdfast.Engine) -> None:
    chat = Chat()
    prompt = chat.prompt("Go.")
    first, second, third = chat.reply("Two things.", ("Bash", "toolu_1", {}), ("Bash", "toolu_2", {}))
    store = HoldfastSessionStore(file_engine)
    append(store, KEY, [prompt, first, second])
    session = store.session(KEY["session_id"], KEY["project_key"])
    key = session.start_call("toolu_1").key
    append(store, KEY, [third])
    assert {each.provider_id: each.key for each in session.open_calls()} == {"toolu_1": key, "toolu_2": ""}
    append(store, KEY, [chat.result("toolu_1", "one"), chat.result("toolu_2", "two"), *chat.reply("Done.")])
    shown = [(each.role, each.text) for each in session.messages() if not each.withdrawn]
    assert shown == [
        ("user", "Go."),
        ("assistant", "Two things."),
        ("tool", "one"),
        ("tool", "two"),
        ("assistant", "Done."),
    ]
    assert not session.open_calls()


def test_going_back_to_an_earlier_prompt_withdraws_what_came_after(file_engine: holdfast.Engine) -> None:
    chat = Chat()
    start = [chat.prompt("One."), *chat.reply("First.")]
    at = chat.last
    wrong = [chat.prompt("Two, wrong."), *chat.reply("Second.")]
    chat.last = at
    right = [chat.prompt("Two."), *chat.reply("Better.")]
    store = HoldfastSessionStore(file_engine)
    append(store, KEY, start + wrong)
    append(HoldfastSessionStore(file_engine), KEY, right)
    session = store.session(KEY["session_id"], KEY["project_key"])
    shown = [each.text for each in session.messages() if not each.withdrawn]
    assert shown == ["One.", "First.", "Two.", "Better."]
    assert load(store, KEY) == start + wrong + right


def test_a_compaction_is_a_summary_and_nothing_is_lost(file_engine: holdfast.Engine) -> None:
    chat = Chat()
    long = "We talked about the parser and its tokens. " * 40
    lines = [chat.prompt(f"Explain. {long}"), *chat.reply(f"Well. {long}")]
    lines += [
        chat.line("system", subtype="compact_boundary", parentUuid=None),
        chat.line(
            "user",
            message={"role": "user", "content": "This session is being continued. Summary: the parser was explained."},
            isCompactSummary=True,
        ),
    ]
    lines += [chat.prompt("Go on."), *chat.reply("Yes.")]
    store = HoldfastSessionStore(file_engine)
    append(store, KEY, lines)
    session = store.session(KEY["session_id"], KEY["project_key"])
    assert [each.text[:8] for each in session.messages()] == ["Explain.", "Well. We", "Go on.", "Yes."]
    request = json.dumps(session.pack(budget=8_000).anthropic()["messages"])
    assert "the parser was explained" in request
    assert long[:60] not in request
    assert load(store, KEY) == lines
    append(HoldfastSessionStore(file_engine), KEY, chat.reply("More."))
    assert len(session.context.summaries()) == 1


def test_lines_that_no_json_of_ours_has_come_back_as_they_were(engine: holdfast.Engine) -> None:
    chat = Chat()
    odd = [
        chat.prompt("cut \ud83e here"),
        chat.note("numbers", value=2**80, nan=float("inf"), text="\u0000 \ud800"),
        *chat.reply("", ("Bash", "toolu_1", {"command": "\udfff"})),
        chat.result("toolu_1", "\udc00 broken"),
        chat.line("user", message={"role": "user", "content": [{"type": "hologram", "data": 1}]}),
        chat.line("user", message={"role": "user", "content": []}),
        chat.line("user", message="not a message"),
        chat.line("assistant", message={"role": "assistant", "content": [{"type": "text", "text": ""}]}),
        chat.line("unheard-of"),
        *chat.reply("Fine."),
    ]
    store = HoldfastSessionStore(engine)
    append(store, KEY, odd)
    assert load(store, KEY) == odd
    session = store.session(KEY["session_id"], KEY["project_key"])
    assert [each.role for each in session.messages()] == ["user", "assistant", "tool", "user", "assistant"]
    assert session.messages()[-1].text == "Fine."
    assert engine.admin.verify().ok


def test_a_deleted_session_is_erased_and_may_come_again(engine: holdfast.Engine) -> None:
    chat = Chat()
    store = HoldfastSessionStore(engine)
    lines = [chat.prompt("A secret."), *chat.reply("Yes.")]
    append(store, KEY, lines)
    append(store, {**KEY, "subpath": "subagents/agent-1"}, [chat.prompt("Another secret.")])
    asyncio.run(store.delete(KEY))
    assert asyncio.run(store.load(KEY)) is None
    with pytest.raises(SessionNotFound):
        store.session(KEY["session_id"], KEY["project_key"])
    again = HoldfastSessionStore(engine)
    append(again, KEY, lines)
    assert load(again, KEY) == lines
    listed = asyncio.run(again.list_sessions(KEY["project_key"]))
    assert [each["session_id"] for each in listed] == [KEY["session_id"]]
    assert asyncio.run(again.list_subkeys({"project_key": KEY["project_key"], "session_id": KEY["session_id"]})) == []
    asyncio.run(again.delete(KEY))
    assert asyncio.run(again.load(KEY)) is None


def test_long_names_and_wrong_ones(file_engine: holdfast.Engine) -> None:
    chat = Chat()
    store = HoldfastSessionStore(file_engine)
    key: SessionKey = {
        "project_key": "p" * 400,
        "session_id": "s" * 400,
        "subpath": "subagents/" + "w/" * 300 + "agent-1",
    }
    main: SessionKey = {"project_key": key["project_key"], "session_id": key["session_id"]}
    append(store, main, [chat.prompt("Hello.")])
    append(store, key, [chat.prompt("Sub.")])
    other = HoldfastSessionStore(file_engine)
    assert len(load(other, key)) == 1
    assert [each["session_id"] for each in asyncio.run(other.list_sessions(key["project_key"]))] == [key["session_id"]]
    subkeys = asyncio.run(other.list_subkeys({"project_key": key["project_key"], "session_id": key["session_id"]}))
    assert subkeys == [key["subpath"]]
    with pytest.raises(InvalidArgument, match="session_id"):
        append(store, cast("SessionKey", {"project_key": "p", "session_id": ""}), [chat.prompt("x")])
    with pytest.raises(InvalidArgument, match="engine"):
        HoldfastSessionStore(cast("holdfast.Engine", object()))


def agent_key(name: str) -> SessionKey:
    return {**KEY, "subpath": f"subagents/agent-{name}"}


def texts_in(session: holdfast.Session, frame: str | None) -> list[str]:
    return [each.text for each in session.messages(limit=1_000) if each.frame == frame and not each.withdrawn]


def agent_lines(name: str, call: str, count: int) -> list[dict[str, Any]]:
    """A sub-agent that reads some files."""
    chat = Chat()
    side: dict[str, Any] = {"isSidechain": True, "agentId": name}
    about = {"type": "agent_metadata", "agentType": "Explore", "description": f"Work of {name}", "toolUseId": call}
    lines = [about, chat.prompt(f"Task for {name}.", **side)]
    for number in range(count):
        read = f"toolu_{name}_{number}"
        lines += chat.reply(f"{name} reads {number}", ("Read", read, {"file_path": "a"}), stop="tool_use", **side)
        lines += [chat.result(read, f"{name} got {number}", **side)]
    return [*lines, *chat.reply(f"{name} is done.", stop="end_turn", **side)]


def test_subagents_side_by_side_are_frames_with_their_results_and_their_spend(engine: holdfast.Engine) -> None:
    chat, store, names = Chat(), HoldfastSessionStore(engine), ["a1", "b2", "c3"]
    lines = {name: agent_lines(name, f"toolu_{name}", 6) for name in names}
    calls = [("Agent", f"toolu_{name}", {"prompt": f"Task for {name}."}) for name in names]
    append(store, KEY, [chat.prompt("Three at once."), *chat.reply("Go.", *calls, stop="tool_use")])

    async def run(name: str) -> None:
        for at in range(0, len(lines[name]), 4):
            await store.append(agent_key(name), entries(lines[name][at : at + 4]))
            await store.append(agent_key(name), entries(lines[name][at + 1 : at + 2]))  # a retry

    async def run_all() -> None:
        await asyncio.gather(*(run(name) for name in names))

    asyncio.run(run_all())
    for name in names:
        append(store, KEY, [chat.result(f"toolu_{name}", f"{name} is done.", agentId=name)])
    append(store, KEY, chat.reply("All three are done.", stop="end_turn"))
    session = store.session(KEY["session_id"], KEY["project_key"])
    assert texts_in(session, None) == [
        "Three at once.",
        "Go.",
        *(f"{n} is done." for n in names),
        "All three are done.",
    ]
    assert session.evidence() == []
    assert len(engine.sessions()) == 1
    for name in names:
        assert load(store, agent_key(name)) == lines[name]
        (frame,) = store.frames(KEY["session_id"], KEY["project_key"], f"subagents/agent-{name}")
        state = frame.state()
        assert (state.goal, state.status, state.summary) == (f"Work of {name}", "completed", f"{name} is done.")
        assert state.inputs == {"agent": name, "type": "Explore", "call": f"toolu_{name}"}
        assert frame.spend().usage == holdfast.Usage(700, 35, cache_read_tokens=630)
        read = [f"{name} {verb} {number}" for number in range(6) for verb in ("reads", "got")]
        assert texts_in(session, frame.frame_id) == [f"Task for {name}.", *read, f"{name} is done."]
    assert not session.frames.list(status="live")
    other = HoldfastSessionStore(engine)
    append(other, agent_key("a1"), lines["a1"][1:])
    assert load(other, agent_key("a1")) == lines["a1"]
    assert len(session.frames.list()) == 3
    assert engine.admin.verify().ok


def test_subagents_are_deleted_one_by_one_and_with_their_session(engine: holdfast.Engine) -> None:
    store = HoldfastSessionStore(engine)
    append(store, KEY, [Chat().prompt("Go.")])
    lines = {name: agent_lines(name, f"toolu_{name}", 2) for name in ("a1", "b2")}
    for name, each in lines.items():
        append(store, agent_key(name), each[:-1])  # it still works
    asyncio.run(store.delete(agent_key("a1")))
    listing: Any = {"project_key": KEY["project_key"], "session_id": KEY["session_id"]}
    for reader in (store, HoldfastSessionStore(engine)):
        assert asyncio.run(reader.load(agent_key("a1"))) is None
        assert load(reader, agent_key("b2")) == lines["b2"][:-1]
        assert asyncio.run(reader.list_subkeys(listing)) == ["subagents/agent-b2"]
    session = store.session(KEY["session_id"], KEY["project_key"])
    left = "".join(str(event) for event in session.events(limit=1_000))
    assert "a1 reads" not in left
    assert "Work of a1" not in left
    assert "b2 reads" in left
    append(store, agent_key("a1"), lines["a1"])  # the same lines may come again
    assert load(store, agent_key("a1")) == lines["a1"]
    (frame,) = store.frames(KEY["session_id"], KEY["project_key"], "subagents/agent-a1")
    assert frame.state().status == "completed"
    assert engine.admin.verify().ok
    asyncio.run(store.delete(KEY))
    assert asyncio.run(store.load(agent_key("b2"))) is None
    assert asyncio.run(store.list_subkeys(listing)) == []


def test_a_subagent_that_is_stopped_ends_as_the_session_says(file_engine: holdfast.Engine) -> None:
    chat, store = Chat(), HoldfastSessionStore(file_engine)
    append(store, KEY, [chat.prompt("Go."), *chat.reply("", ("Agent", "toolu_a1", {}), ("Agent", "toolu_b2", {}))])
    for name in ("a1", "b2", "c3"):
        append(store, agent_key(name), agent_lines(name, f"toolu_{name}", 1)[:4])  # a call without a result
    append(store, KEY, [chat.result("toolu_a1", "Stopped by the user", is_error=True)])
    launched = chat.result("toolu_b2", "Async agent launched") | {"toolUseResult": {"status": "async_launched"}}
    append(store, KEY, [launched])
    session = store.session(KEY["session_id"], KEY["project_key"])
    assert [each.status for each in session.frames.list()] == ["failed", "active", "active"]
    notice = "<task-notification>\n<task-id>b2</task-id>\n<status>killed</status>\n</task-notification>"
    append(HoldfastSessionStore(file_engine), KEY, [chat.prompt(notice)])
    assert [each.status for each in session.frames.list()] == ["failed", "cancelled", "active"]
    assert [call.frame for call in session.open_calls()] == [session.frames.list()[2].id]


def test_a_subagent_of_a_subagent_is_in_a_frame_below_its_frame(engine: holdfast.Engine) -> None:
    """The one below may be started in the background, and end last."""
    chat, store = Chat(), HoldfastSessionStore(engine)
    append(store, KEY, [chat.prompt("Go."), *chat.reply("", ("Agent", "toolu_a1", {"prompt": "x"}), stop="tool_use")])
    outer, inner = agent_lines("a1", "toolu_a1", 1), agent_lines("b2", "toolu_b2", 2)
    last = agent_lines("c3", "toolu_c3", 1)
    own = Chat()
    side: dict[str, Any] = {"isSidechain": True, "agentId": "a1"}
    calls = [("Agent", "toolu_b2", {"prompt": "y"}), ("Agent", "toolu_c3", {"prompt": "z"})]
    append(store, agent_key("a1"), [*outer[:4], *own.reply("Two more.", *calls, stop="tool_use", **side)])
    append(store, agent_key("b2"), [inner[0] | {"parentAgentId": "a1"}, *inner[1:4]])
    other = HoldfastSessionStore(engine)  # another process knows nothing but the store
    append(other, agent_key("c3"), last[:3])  # found by the call alone
    names = (KEY["session_id"], KEY["project_key"])
    (above,), (below,), (third,) = (store.frames(*names, f"subagents/agent-{each}") for each in ("a1", "b2", "c3"))
    assert above.state().status == "waiting"
    assert [below.state().parent, third.state().parent] == [above.frame_id, above.frame_id]
    assert [each.goal for each in below.ancestry()] == ["Work of a1", "Work of b2"]
    append(store, agent_key("c3"), last[3:4])
    append(store, agent_key("a1"), [own.result("toolu_c3", "It was stopped.", is_error=True, **side)])
    assert [above.state().status, third.state().status] == ["waiting", "failed"]
    launched = own.result("toolu_b2", "Launched.", **side) | {"toolUseResult": {"status": "async_launched"}}
    append(store, agent_key("a1"), [launched, *own.reply("I wait no longer.", stop="end_turn", **side)])
    assert [above.state().status, below.state().status] == ["waiting", "active"]
    append(store, agent_key("b2"), inner[4:])
    assert [(each.state().status, each.state().summary) for each in (above, below)] == [
        ("completed", "I wait no longer."),
        ("completed", "b2 is done."),
    ]
    assert above.spend().usage.output_tokens == below.spend().usage.output_tokens + 15 + 5
    session = store.session(*names)
    assert texts_in(session, below.frame_id)[-1] == "b2 is done."
    assert not session.frames.list(status="live")
    asyncio.run(store.delete(agent_key("b2")))
    assert "b2 is done" not in "".join(str(event) for event in session.events(limit=1_000))
    assert engine.admin.verify().ok


@pytest.mark.parametrize(
    "about",
    [
        {"toolUseId": "a\x00b"},
        {"toolUseId": "a" * 5_000},
        {"toolUseId": 5, "parentAgentId": 5},
        {"parentAgentId": "a1"},
        {"parentAgentId": "\ud800x"},
        {"description": "\ud800\x00 x" * 100, "agentType": "\x00"},
    ],
    ids=str,
)
def test_no_description_of_a_subagent_is_refused(file_engine: holdfast.Engine, about: dict[str, Any]) -> None:
    store, lines = HoldfastSessionStore(file_engine), agent_lines("a1", "toolu_a1", 1)
    lines = [lines[0] | about, *lines[1:]]
    append(store, agent_key("a1"), lines)
    assert load(store, agent_key("a1")) == lines
    (frame,) = store.frames(KEY["session_id"], KEY["project_key"], "subagents/agent-a1")
    assert (frame.state().status, frame.state().parent) == ("completed", None)


def test_a_subagent_that_is_stopped_takes_those_below_it_with_it(file_engine: holdfast.Engine) -> None:
    chat, store = Chat(), HoldfastSessionStore(file_engine)
    append(store, KEY, [chat.prompt("Go."), *chat.reply("", ("Agent", "toolu_a1", {"prompt": "x"}), stop="tool_use")])
    append(store, agent_key("a1"), agent_lines("a1", "toolu_a1", 1)[:4])
    about, *lines = agent_lines("b2", "toolu_b2", 1)
    append(store, agent_key("b2"), [about | {"parentAgentId": "a1"}, *lines[:2]])
    append(store, KEY, [chat.result("toolu_a1", "Stopped by the user", is_error=True)])
    session = store.session(KEY["session_id"], KEY["project_key"])
    assert [each.status for each in session.frames.list()] == ["failed", "cancelled"]
    append(store, agent_key("b2"), lines[2:])  # it went on
    assert [each.status for each in session.frames.list()] == ["failed", "cancelled", "completed"]
    assert session.frames.list()[2].parent is None
    assert load(store, agent_key("b2")) == [about | {"parentAgentId": "a1"}, *lines]


def write_log(
    folder: Path, cwd: Path, session: str, lines: list[dict[str, Any]], subagent: list[dict[str, Any]]
) -> None:
    project = folder / "projects" / project_key_for_directory(str(cwd))
    (project / session / "subagents").mkdir(parents=True)
    (project / f"{session}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    agent = project / session / "subagents" / "agent-a1.jsonl"
    agent.write_text("".join(json.dumps(line) + "\n" for line in subagent))
    agent.with_suffix(".meta.json").write_text('{"agentType": "Explore"}')


def test_the_tools_of_the_sdk_work_on_the_store(
    engine: holdfast.Engine, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder))
    cwd = folder / "shop"
    cwd.mkdir()
    name = KEY["session_id"]
    chat = Chat(name)
    lines = [chat.prompt("Fix the test."), *chat.reply("I look.", ("Bash", "toolu_1", {"command": "ls"}))]
    lines += [chat.result("toolu_1", "a.py"), *chat.reply("Fixed."), chat.note("custom-title", customTitle="The test")]
    write_log(folder, cwd, name, lines, [Chat(name).prompt("Look around.")])
    store = HoldfastSessionStore(engine)

    async def run() -> None:
        await import_session_to_store(name, store, directory=str(cwd))
        await import_session_to_store(name, store, directory=str(cwd))
        (info,) = await list_sessions_from_store(store, directory=str(cwd))
        assert (info.session_id, info.custom_title, info.first_prompt) == (name, "The test", "Fix the test.")
        found = await get_session_info_from_store(store, name, directory=str(cwd))
        assert found is not None
        messages = await get_session_messages_from_store(store, name, directory=str(cwd))
        assert [each.type for each in messages] == ["user", "assistant", "assistant", "user", "assistant"]
        assert len(await list_subagents_from_store(store, name, directory=str(cwd))) == 1
        fork = await fork_session_via_store(store, name, directory=str(cwd), title="Another try")
        assert len(await list_sessions_from_store(store, directory=str(cwd))) == 2
        copy = store.session(fork.session_id, project_key_for_directory(str(cwd)))
        assert [each.text for each in copy.messages()] == ["Fix the test.", "I look.", "a.py", "Fixed."]
        await delete_session_via_store(store, fork.session_id, directory=str(cwd))
        assert len(await list_sessions_from_store(store, directory=str(cwd))) == 1

    asyncio.run(run())
    session = store.session(name, project_key_for_directory(str(cwd)))
    assert texts_in(session, None) == ["Fix the test.", "I look.", "a.py", "Fixed."]
    (frame,) = session.frames.list()
    assert texts_in(session, frame.id) == ["Look around."]
    assert engine.admin.verify().ok


def test_summaries_have_the_clock_of_the_list(file_engine: holdfast.Engine) -> None:
    chat = Chat()
    store = HoldfastSessionStore(file_engine)
    append(store, KEY, [chat.prompt("Hello.")])
    store.session(KEY["session_id"], KEY["project_key"]).pack()
    (listed,) = asyncio.run(store.list_sessions(KEY["project_key"]))
    (summary,) = asyncio.run(store.list_session_summaries(KEY["project_key"]))
    assert summary["mtime"] >= listed["mtime"] > time.time() * 1_000 - 60_000
    assert summary["data"]["first_prompt"] == "Hello."


WRITER = """
import asyncio, sys
import holdfast
from holdfast.claude import HoldfastSessionStore
from tests.edges.claude_lines import Chat
key = {"project_key": "-work-shop", "session_id": sys.argv[2]}
if sys.argv[3].startswith("agent-"):
    key["subpath"] = f"subagents/{sys.argv[3]}"
with holdfast.open(sys.argv[1]) as engine:
    store, chat, name = HoldfastSessionStore(engine), Chat(), sys.argv[3]
    for number in range(int(sys.argv[4])):
        lines = [chat.prompt(f"{name} asks {number}"), *chat.reply(f"{name} answers {number}"),
                 chat.note("custom-title", customTitle=f"{name} {number}")]
        asyncio.run(store.append(key, lines))
        print(number, flush=True)
"""


def start_writer(url: str, name: str, count: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, url, KEY["session_id"], name, str(count)]
    return subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_two_processes_append_at_once(engine: holdfast.Engine, url: str) -> None:
    writers = [start_writer(url, name, 15) for name in ("ada", "bob")]
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    store = HoldfastSessionStore(engine)
    lines = cast("list[dict[str, Any]]", load(store, KEY))
    assert len(lines) == 90
    for name in ("ada", "bob"):
        asked = [line["message"]["content"] for line in lines if line["type"] == "user"]
        assert [each for each in asked if each.startswith(name)] == [f"{name} asks {number}" for number in range(15)]
    session = store.session(KEY["session_id"], KEY["project_key"])
    texts = [each.text for each in session.messages(limit=200)]
    expected = [
        f"{name} {verb} {number}" for name in ("ada", "bob") for verb in ("asks", "answers") for number in range(15)
    ]
    assert sorted(texts) == sorted(expected)
    (summary,) = asyncio.run(store.list_session_summaries(KEY["project_key"]))
    assert summary["data"]["custom_title"] == lines[-1]["customTitle"]
    assert engine.admin.verify().ok


def test_processes_append_subagents_at_once_and_one_is_killed(engine: holdfast.Engine, url: str) -> None:
    names = ["agent-a1", "agent-b2"]
    writers = [start_writer(url, name, count) for name, count in zip(names, (8, 1_000), strict=True)]
    killed = writers[1]
    assert killed.stdout is not None
    confirmed = 0
    for _ in range(4):
        confirmed = int(killed.stdout.readline())
    os.kill(killed.pid, signal.SIGKILL)
    for writer in writers:
        writer.communicate(timeout=120)
    store = HoldfastSessionStore(engine)
    for name, least in zip(names, (7, confirmed), strict=True):
        lines = cast("list[dict[str, Any]]", load(store, {**KEY, "subpath": f"subagents/{name}"}))
        asked = [line["message"]["content"] for line in lines if line["type"] == "user"]
        assert asked[: least + 1] == [f"{name} asks {number}" for number in range(least + 1)]
        (frame,) = store.frames(KEY["session_id"], KEY["project_key"], f"subagents/{name}")
        session = store.session(KEY["session_id"], KEY["project_key"])
        texts = texts_in(session, frame.frame_id)
        assert texts[::2] == asked
        assert len(texts) == len({*texts})
        assert frame.state().status == "active"
    assert engine.admin.verify().ok


def test_a_subagent_that_is_described_after_its_first_words(file_engine: holdfast.Engine) -> None:
    chat, store = Chat(), HoldfastSessionStore(file_engine)
    about, *lines = agent_lines("a1", "toolu_a1", 1)
    append(store, KEY, [chat.prompt("Go."), *chat.reply("", ("Agent", "toolu_a1", {"prompt": "x"}), stop="tool_use")])
    append(store, agent_key("a1"), lines[:2])
    (frame,) = store.frames(KEY["session_id"], KEY["project_key"], "subagents/agent-a1")
    assert frame.state().goal == "Task for a1."
    append(HoldfastSessionStore(file_engine), agent_key("a1"), [about, *lines[2:3]])
    state = frame.state()
    assert (state.goal, state.inputs) == ("Work of a1", {"agent": "a1", "type": "Explore", "call": "toolu_a1"})
    append(store, KEY, [chat.result("toolu_a1", "Stopped", is_error=True)])
    assert frame.state().status == "failed"
    assert [each.frame_id for each in store.frames(KEY["session_id"], KEY["project_key"], "subagents/agent-a1")] == [
        frame.frame_id
    ]


def test_a_subagent_of_a_subagent_is_described_after_its_prompt(file_engine: holdfast.Engine) -> None:
    """Claude Code writes the two into different files: which of them comes first is not certain."""
    store, own = HoldfastSessionStore(file_engine), Chat()
    side: dict[str, Any] = {"isSidechain": True, "agentId": "a1"}
    append(store, agent_key("a1"), agent_lines("a1", "toolu_a1", 0)[:2])
    append(store, agent_key("a1"), own.reply("", ("Agent", "toolu_b2", {"prompt": "y"}), stop="tool_use", **side))
    about, prompt, *rest = agent_lines("b2", "toolu_b2", 1)
    append(store, agent_key("b2"), [prompt])
    other = HoldfastSessionStore(file_engine)  # another process knows nothing but the store
    append(other, agent_key("b2"), [about | {"parentAgentId": "a1"}])
    append(store, agent_key("b2"), rest)
    names = (KEY["session_id"], KEY["project_key"])
    (above,), (below,) = (store.frames(*names, f"subagents/agent-{each}") for each in ("a1", "b2"))
    assert (below.state().parent, below.state().status) == (above.frame_id, "completed")
    assert texts_in(store.session(*names), below.frame_id) == [
        "Task for b2.",
        "b2 reads 0",
        "b2 got 0",
        "b2 is done.",
    ]


def test_a_frame_whose_process_died_before_it_was_noted_is_found(file_engine: holdfast.Engine) -> None:
    store, lines = HoldfastSessionStore(file_engine), agent_lines("a1", "toolu_a1", 1)
    append(store, agent_key("a1"), lines[:1])
    session = store.session(KEY["session_id"], KEY["project_key"])
    name = f"claude/{KEY['session_id']}/2/subagents/agent-a1"
    pushed = session.frame("it knew less", budget=1_000_000_000, inputs={"agent": "a1"}, key=name)
    append(HoldfastSessionStore(file_engine), agent_key("a1"), lines[1:])
    (frame,) = store.frames(KEY["session_id"], KEY["project_key"], "subagents/agent-a1")
    assert frame.frame_id == pushed.frame_id
    assert frame.state().status == "completed"


def test_a_process_that_is_killed_while_it_appends_loses_nothing_that_it_confirmed(
    engine: holdfast.Engine, url: str
) -> None:
    writer = start_writer(url, "ada", 1_000)
    assert writer.stdout is not None
    confirmed = 0
    for _ in range(12):
        confirmed = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    store = HoldfastSessionStore(engine)
    lines = cast("list[dict[str, Any]]", load(store, KEY))
    asked = [line["message"]["content"] for line in lines if line["type"] == "user"]
    assert asked[: confirmed + 1] == [f"ada asks {number}" for number in range(confirmed + 1)]
    session = store.session(KEY["session_id"], KEY["project_key"])
    texts = [each.text for each in session.messages(limit=1_000)]
    assert texts[::2] == asked
    assert len(texts) == len({*texts})
    assert engine.admin.verify().ok


def test_a_store_remembers_little_of_many_sessions(
    file_engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.claude.store._KEPT", 2)
    store, names = HoldfastSessionStore(file_engine), [f"s{number}" for number in range(5)]
    chats = {name: Chat() for name in names}
    for turn in range(3):
        for name, chat in chats.items():
            reply = chat.reply(f"Reply {turn}.", ("Bash", f"toolu_{turn}", {}))
            lines = [chat.prompt(f"Turn {turn}."), *reply, chat.result(f"toolu_{turn}", "done")]
            append(store, {**KEY, "session_id": name}, lines[:2])
            append(store, {**KEY, "session_id": name, "subpath": "subagents/agent-1"}, [chat.prompt("Sub.")])
            append(store, {**KEY, "session_id": name}, lines[2:])
    assert len(store._logs) == 2
    assert len(asyncio.run(store.list_sessions(KEY["project_key"]))) == 5
    for name in names:
        session = store.session(name, KEY["project_key"])
        assert texts_in(session, None) == [
            text for turn in range(3) for text in (f"Turn {turn}.", f"Reply {turn}.", "done")
        ]
        assert session.evidence() == []


def test_the_cost_of_an_append_does_not_grow(file_engine: holdfast.Engine) -> None:
    store = HoldfastSessionStore(file_engine, observe=False)
    weighed = WeighingStore(file_engine.store)
    file_engine.store = cast("Any", weighed)
    chat = Chat()
    answers: list[int] = []
    for _ in range(100):
        lines: list[dict[str, Any]] = []
        while len(lines) < 100:
            lines += [
                chat.prompt("What now?"),
                *chat.reply("Look.", ("Bash", f"toolu_{chat.count}", {"command": "ls"})),
            ]
            lines += [chat.result(f"toolu_{chat.count - 2}", "a.py"), *chat.reply("There."), chat.note("mode")]
        before = weighed.answered
        append(store, KEY, lines)
        answers.append(weighed.answered - before)
    assert len(load(store, KEY)) >= 10_000
    assert sum(answers[-20:]) < 2 * sum(answers[:20])
    session = store.session(KEY["session_id"], KEY["project_key"])
    assert session.state().messages > 5_000
