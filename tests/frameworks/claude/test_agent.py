"""The command of Claude Code, run by the SDK against a server on this machine, with Holdfast as its store."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, get_session_messages_from_store, query

import holdfast
from holdfast.claude import HoldfastSessionStore
from holdfast.frameworks.claude_import import import_logs
from tests.frameworks.messages_api import call, fake_api, results_in, text

ROOT = Path(__file__).parents[3]


def options(store: HoldfastSessionStore, url: str, folder: Path, **more: Any) -> ClaudeAgentOptions:
    more.setdefault("hooks", store.hooks(context=True, wait_s=120))  # a loaded machine is slow
    return ClaudeAgentOptions(
        session_store=store,
        session_store_flush="eager",
        cwd=folder,
        env={
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "test",
            "CLAUDE_CONFIG_DIR": str(folder / "config"),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        allowed_tools=["Bash", "Read", "Agent"],
        setting_sources=[],
        **more,
    )


async def ask(prompt: str | AsyncIterator[dict[str, Any]], chosen: ClaudeAgentOptions) -> str:
    """The id of the session."""
    session = ""
    async for message in query(prompt=prompt, options=chosen):
        if isinstance(message, ResultMessage):
            session = message.session_id
    return session


@pytest.fixture
def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder / "config"))
    (folder / "work").mkdir()
    return folder / "work"


def is_subagent(request: dict[str, Any]) -> bool:
    return "cc_is_subagent" in json.dumps(request.get("system"))


def test_an_agent_with_tools_and_a_subagent_is_a_conversation(engine: holdfast.Engine, home: Path) -> None:
    (home / "a.txt").write_text("one\n")

    def script(request: dict[str, Any]) -> list[dict[str, Any]]:
        results = results_in(request)
        if is_subagent(request):
            read = call("Read", "toolu_sub", file_path=str(home / "a.txt"))
            return [text("It has one line.")] if results else [text("I look."), read]
        if not results:
            missing = call("Read", "toolu_2", file_path=str(home / "none.txt"))
            return [text("Let me look."), call("Bash", "toolu_1", command="echo hello"), missing]
        if len(results) == 2:
            return [call("Agent", "toolu_3", description="count", prompt="Count.", subagent_type="general-purpose")]
        return [text("Done.")]

    store = HoldfastSessionStore(engine)
    with fake_api(script) as api:
        name = asyncio.run(ask("Where is my order?", options(store, api.url, home)))
    (project,) = {row.actor for row in engine.sessions()}
    session = engine.session(name, actor=project)
    messages = session.messages()
    main = [each for each in messages if each.frame is None]
    assert [(each.role, bool(each.withdrawn)) for each in main[:6]] == [
        ("user", False),
        ("assistant", False),
        ("tool", False),
        ("tool", False),
        ("assistant", False),
        ("tool", False),
    ]
    assert [each.name for each in messages[1].tool_calls] == ["Bash", "Read"]
    assert messages[1].usage is not None
    assert messages[1].usage.input_tokens == 1_501
    assert {each.text for each in messages[2:4]} >= {"hello"}
    assert not session.evidence()
    assert not session.open_calls()
    assert [event.type for event in session.events(limit=1_000)].count("call.started") == 4
    (subpath,) = asyncio.run(store.list_subkeys({"project_key": project, "session_id": name}))
    (frame,) = store.frames(name, project, subpath)
    said = [each.text for each in messages if each.frame == frame.frame_id]
    assert said == ["Count.", "I look.", "1\tone\n2\t", "It has one line."]
    state = frame.state()
    assert (state.goal, state.status, state.summary) == ("count", "completed", "It has one line.")
    assert {"call": "toolu_3", "type": "general-purpose"}.items() <= cast("dict[str, str]", state.inputs).items()
    assert frame.spend().usage.input_tokens > 3_000
    pack = session.pack(budget=8_000)
    shown = json.dumps(pack.anthropic()["messages"])
    assert shown.count("Where is my order?") == 1
    assert shown.count("echo hello") == 1
    assert store.unknown_calls(name, project) == []
    assert engine.admin.verify().ok
    loaded = asyncio.run(get_session_messages_from_store(store, name, directory=str(home)))
    assert len(loaded) >= 6


def test_subagents_that_a_subagent_starts_are_below_its_frame(file_engine: holdfast.Engine, home: Path) -> None:
    """Claude Code starts the first one in the background, and the two below it side by side."""

    def script(request: dict[str, Any]) -> list[dict[str, Any]]:
        results, asked = results_in(request), json.dumps(request["messages"][0])
        if "Count a file." in asked:
            return (
                [text("It has one line.")] if results else [text("I look."), call("Bash", "toolu_b", command="echo 1")]
            )
        if is_subagent(request):
            more = {"prompt": "Count a file.", "subagent_type": "general-purpose"}
            below = [call("Agent", f"toolu_below_{each}", description=f"below {each}", **more) for each in (1, 2)]
            return [text("Led.")] if results else below
        lead = call("Agent", "toolu_1", description="lead", prompt="Lead.", subagent_type="general-purpose")
        return [text("Done.")] if results else [lead]

    store = HoldfastSessionStore(file_engine)
    with fake_api(script) as api:
        name = asyncio.run(ask("Go.", options(store, api.url, home)))
    (project,) = {row.actor for row in file_engine.sessions()}
    session = store.session(name, project)
    frames = {row.goal: session.frames.get(row).state() for row in session.frames.list()}
    above = frames["lead"]
    assert (above.parent, above.status, above.summary) == (None, "completed", "Led.")
    for goal in ("below 1", "below 2"):
        assert (frames[goal].parent, frames[goal].status) == (above.id, "completed")
        assert frames[goal].summary == "It has one line."
    assert len(frames) == 3
    assert session.frames.get(above.id).spend().usage.input_tokens > above.usage.input_tokens
    assert store.unknown_calls(name, project) == []
    assert file_engine.admin.verify().ok
    with holdfast.open("memory:") as other:  # the local log says the same
        import_logs(other, home / "config")
        imported = other.session(name, actor=project)
        found = {row.goal: imported.frames.get(row).state() for row in imported.frames.list()}
        shown = {goal: (state.status, state.summary) for goal, state in frames.items()}
        assert {goal: (state.status, state.summary) for goal, state in found.items()} == shown
        assert {state.parent for state in found.values()} == {None, found["lead"].id}


def test_a_session_is_resumed_from_the_store_and_facts_are_given_with_each_prompt(
    file_engine: holdfast.Engine, home: Path
) -> None:
    file_engine.ledger(user="ada").set("shipping_address", "12 Elm St")
    store = HoldfastSessionStore(file_engine, user="ada")
    with fake_api(lambda request: [text("Noted.")]) as api:
        name = asyncio.run(ask("Is it sent to 12 Elm St?", options(store, api.url, home)))
        chosen = options(store, api.url, home, resume=name)
        assert asyncio.run(ask("I moved: my shipping address is 456 Oak Ave now.", chosen)) == name
        assert asyncio.run(ask("Where do you send it?", options(store, api.url, home, resume=name))) == name
        last = api.asked(-1)
    assert last.count("456 Oak Ave now.") == 1
    assert "shipping_address: 456 Oak Ave" in last[last.index("Where do you send it?") :]
    (project,) = {row.actor for row in file_engine.sessions()}
    session = file_engine.session(name, actor=project)
    assert [(each.role, each.text) for each in session.messages()] == [
        ("user", "Is it sent to 12 Elm St?"),
        ("assistant", "Noted."),
        ("user", "I moved: my shipping address is 456 Oak Ave now."),
        ("assistant", "Noted."),
        ("user", "Where do you send it?"),
        ("assistant", "Noted."),
    ]
    current = session.facts.get("shipping_address")
    assert current is not None
    assert current.value == "456 Oak Ave"


PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def with_image(words: str) -> AsyncIterator[dict[str, Any]]:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    yield {"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": words}, image]}}


def shown_texts(session: holdfast.Session) -> list[str]:
    return [each.text for each in session.messages(limit=1_000) if not each.withdrawn]


def test_a_fork_a_rewind_and_an_image_are_recorded_as_the_model_sees_them(
    file_engine: holdfast.Engine, home: Path
) -> None:
    """A hook has the prompt before its line comes: before the copies of a fork, and before it is known what it follows."""
    ledger = file_engine.ledger(user="ada")
    ledger.set("shipping_address", "12 Elm St")
    store = HoldfastSessionStore(file_engine, user="ada")
    replies = iter(f"Reply {number}." for number in range(1, 10))
    moved = "I moved: my shipping address is 456 Oak Ave now."
    back = "I moved back: my shipping address is 12 Elm St now."
    last = "I moved: my shipping address is 7 Mill Road now."
    with fake_api(lambda request: [text(next(replies))]) as api:
        name = asyncio.run(ask(moved, options(store, api.url, home)))
        (project,) = {row.actor for row in file_engine.sessions()}
        asyncio.run(ask(back, options(store, api.url, home, resume=name)))
        fork = asyncio.run(ask("Where to?", options(store, api.url, home, resume=name, fork_session=True)))
        current = ledger.get("shipping_address")
        assert current is not None
        assert current.value == "12 Elm St"  # the copies state nothing anew
        session = store.session(fork, project)
        assert shown_texts(session) == [moved, "Reply 1.", back, "Reply 2.", "Where to?", "Reply 3."]
        second = asyncio.run(ask(last, options(store, api.url, home, resume=name, fork_session=True)))
        current = ledger.get("shipping_address")
        assert current is not None
        assert (current.value, current.review) == ("7 Mill Road", "")
        assert "shipping_address: 7 Mill Road" in api.asked(-1)
        assert shown_texts(store.session(second, project))[-3:] == ["Reply 2.", last, "Reply 4."]
        lines = cast("list[dict[str, Any]]", store.log({"project_key": project, "session_id": fork}).load())
        first = next(line["uuid"] for line in lines if line["type"] == "assistant")
        rewound = options(store, api.url, home, resume=fork, resume_session_at=first)
        asyncio.run(ask("And now?", rewound))
        assert "Where to?" not in api.asked(-1)
        assert shown_texts(session) == [moved, "Reply 1.", "And now?", "Reply 5."]
        asyncio.run(ask(with_image("What is this?"), options(store, api.url, home, resume=fork)))
    shown = [each for each in session.messages() if each.text == "What is this?" and not each.withdrawn]
    assert [[type(part).__name__ for part in each.content] for each in shown] == [["Text", "Image"]]
    assert file_engine.admin.verify().ok


def test_a_compaction_keeps_the_messages_that_claude_code_keeps(file_engine: holdfast.Engine, home: Path) -> None:
    def script(request: dict[str, Any]) -> list[dict[str, Any]]:
        if "Respond with TEXT ONLY" in json.dumps(request["messages"][-1]):
            return [text("<summary>Birds were explained.</summary>")]
        return [text(f"A reply of some length about birds, number {len(request['messages'])}. " * 40)]

    store = HoldfastSessionStore(file_engine)
    with fake_api(script) as api:
        name = asyncio.run(ask("Tell me of pelicans.", options(store, api.url, home)))
        for prompt in ("And of herons.", "/compact", "And now?"):
            asyncio.run(ask(prompt, options(store, api.url, home, resume=name)))
        sent = api.asked(-1)
    (project,) = {row.actor for row in file_engine.sessions()}
    session = store.session(name, project)
    pack = json.dumps(session.pack(budget=20_000).anthropic()["messages"])
    asked = [each.text for each in session.messages() if each.role == "user"]
    assert asked[:2] == ["Tell me of pelicans.", "And of herons."]  # all are in the transcript
    for part in ("Birds were explained", "Tell me of pelicans", "And of herons", "about birds, number", "And now?"):
        assert (part in pack) == (part in sent), part
    assert "Tell me of pelicans" not in pack
    assert "about birds, number" in pack
    assert file_engine.admin.verify().ok


CHILD = """
import asyncio, sys
from pathlib import Path
import holdfast
from holdfast.claude import HoldfastSessionStore
from tests.frameworks.claude.test_agent import ask, options
with holdfast.open(sys.argv[1]) as engine:
    asyncio.run(ask("Pay the rent.", options(HoldfastSessionStore(engine), sys.argv[2], Path(sys.argv[3]))))
"""


def wait_for_start(engine: holdfast.Engine, until_s: float = 120) -> holdfast.Session:
    end = time.monotonic() + until_s
    while time.monotonic() < end:
        for row in engine.sessions():
            session = engine.session(row.session, actor=row.actor)
            if any(each.key for each in session.open_calls()):
                return session
        time.sleep(0.05)
    raise AssertionError("no call was started")


def test_a_process_that_is_killed_inside_a_tool_leaves_an_unknown_outcome(
    file_engine: holdfast.Engine, home: Path, folder: Path
) -> None:
    def script(request: dict[str, Any]) -> list[dict[str, Any]]:
        return [text("Done.")] if results_in(request) else [call("Bash", "toolu_pay", command="touch paid; sleep 20")]

    with fake_api(script) as api:
        arguments = [sys.executable, "-c", CHILD, str(folder / "agent.db"), api.url, str(home)]
        child = subprocess.Popen(
            arguments, cwd=ROOT, start_new_session=True, env=os.environ | {"CLAUDE_CONFIG_DIR": str(home / "config")}
        )
        try:
            session = wait_for_start(file_engine)
        finally:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    (unknown,) = session.recover().unknown_outcomes
    assert unknown.key
    store = HoldfastSessionStore(file_engine)
    (found,) = store.unknown_calls(session.scope.session, session.scope.actor)
    assert (found.id, found.name, found.key, found.subpath) == ("toolu_pay", "Bash", unknown.key, "")
    assert file_engine.admin.verify().ok
