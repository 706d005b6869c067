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
    session = file_engine.session(KEY["session_id"], actor=KEY["project_key"], thread="sidechains/agent-a1")
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
    assert [each.text for each in session.messages()] == ["Fix the test.", "I look.", "a.py", "Fixed."]
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
