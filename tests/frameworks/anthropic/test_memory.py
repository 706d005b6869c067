"""Versions, facts, owners, crashes, and the client of Anthropic with a server on this machine."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import ToolError

import holdfast
from holdfast.anthropic import AsyncMemoryTool, MemoryTool
from holdfast.errors import InvalidArgument
from tests.frameworks.messages_api import call, fake_api, results_in, text

ROOT = Path(__file__).parents[3]
NOTES = "/memories/notes.md"


def run(tool: MemoryTool, command: str, **fields: Any) -> str:
    return str(tool.call({"command": command, **fields}))


def refuse(tool: MemoryTool, command: str, **fields: Any) -> str:
    with pytest.raises(ToolError) as caught:
        run(tool, command, **fields)
    return str(caught.value)


def test_what_cannot_be_stored_is_refused_in_words_for_a_model(file_engine: holdfast.Engine) -> None:
    """A model that reads of an argument of a program, or that its memory is not available, gives its memory up."""
    tool = MemoryTool(file_engine, user="ada")
    run(tool, "create", path=NOTES, file_text="tea")
    for path in ("/memories/a\tb", "/memories/a\u2028b", "/memories/" + "d/" * 3_000 + "f"):
        for refused in (
            refuse(tool, "create", path=path, file_text="x"),
            refuse(tool, "rename", old_path=NOTES, new_path=path),
        ):
            assert refused.startswith(f"No file can have the path {path[:150]}")
            assert len(refused) < 400
        assert refuse(tool, "view", path=path) == f"The path {path} does not exist. Please provide a valid path."
        assert refuse(tool, "delete", path=path) == f"The path {path} does not exist"
        with pytest.raises(InvalidArgument, match="No file can have"):
            tool.files.write(path, "x")
    for name in ("", "a\tb", "k" * 300):
        path = f"/memories/facts/{name}.md"
        assert refuse(tool, "view", path=path) == f"The path {path} does not exist. Please provide a valid path."
        assert refuse(tool, "delete", path=path) == f"The path {path} does not exist"
        said = refuse(tool, "create", path=path, file_text="Oslo")
        assert "no fact can have this name" in said if name else "name them /memories/facts/<key>.md" in said
    said = refuse(tool, "create", path="/memories/facts/cv.md", file_text="x" * 70_000)
    assert "at most 65,536 bytes" in said
    assert "outside of /memories/facts" in said
    assert tool.files.paths() == [NOTES]


def test_every_version_of_a_file_is_kept_with_its_writer(engine: holdfast.Engine) -> None:
    tool = MemoryTool(engine, user="ada", by="support-bot")
    run(tool, "create", path=NOTES, file_text="tea\n")
    run(tool, "str_replace", path=NOTES, old_str="tea", new_str="coffee")
    tool.files.write(NOTES, "water\n", command="reviewed")
    run(tool, "rename", old_path=NOTES, new_path="/memories/drinks.md")
    run(tool, "delete", path="/memories/drinks.md")
    history = tool.files.history(NOTES)
    assert [(each.text, each.command) for each in history] == [
        ("tea\n", "create"),
        ("coffee\n", "str_replace"),
        ("water\n", "reviewed"),
        (None, "rename to /memories/drinks.md"),
    ]
    assert {each.by for each in history} == {"support-bot"}
    assert [each.at_us for each in history] == sorted(each.at_us for each in history)
    assert [each.text for each in tool.files.history("/memories/drinks.md")] == ["water\n", None]
    tool.files.restore(NOTES, history[1])
    assert tool.files.read(NOTES) == "coffee\n"
    assert tool.files.paths() == [NOTES]
    with pytest.raises(InvalidArgument, match="version"):
        tool.files.restore(NOTES, history[3])
    with pytest.raises(InvalidArgument, match="path"):
        tool.files.read("/etc/passwd")
    assert engine.admin.verify().ok


def test_an_erased_file_is_gone_with_all_versions(engine: holdfast.Engine) -> None:
    tool = MemoryTool(engine, user="ada")
    run(tool, "create", path=NOTES, file_text="the secret is plover")
    run(tool, "str_replace", path=NOTES, old_str="plover", new_str="plover too")
    run(tool, "create", path="/memories/other.md", file_text="stays")
    tool.files.erase(NOTES, "asked by the user")
    assert tool.files.history(NOTES) == []
    assert "does not exist" in refuse(tool, "view", path=NOTES)
    events = tool.files.session().events(limit=1_000)
    assert not any(b"plover" in (event.payload or b"") for event in events)
    assert tool.files.read("/memories/other.md") == "stays"
    assert engine.admin.verify().ok
    tool.clear_all_memory()
    assert [each.text for each in tool.files.history("/memories/other.md")] == ["stays", None]


def test_a_file_with_a_time_to_live_goes(file_engine: holdfast.Engine) -> None:
    tool = MemoryTool(file_engine, user="ada", ttl_s=0.2)
    run(tool, "create", path=NOTES, file_text="for now")
    tool.files.write("/memories/long.md", "for long", ttl_s=1_000)
    assert tool.files.paths() == ["/memories/long.md", NOTES]
    time.sleep(0.3)
    assert tool.files.paths() == ["/memories/long.md"]
    assert "does not exist" in refuse(tool, "view", path=NOTES)
    run(tool, "create", path=NOTES, file_text="again")


def test_memories_are_apart_by_owner_and_shared_by_a_project(engine: holdfast.Engine) -> None:
    ada, bob = MemoryTool(engine, user="ada"), MemoryTool(engine, user="bob")
    first, second = MemoryTool(engine, project="shop"), MemoryTool(engine, project="shop", by="bob")
    run(ada, "create", path=NOTES, file_text="ada's")
    assert "does not exist" in refuse(bob, "view", path=NOTES)
    run(first, "create", path=NOTES, file_text="ours")
    run(second, "str_replace", path=NOTES, old_str="ours", new_str="all of ours")
    assert first.files.read(NOTES) == "all of ours"
    assert [each.by for each in first.files.history(NOTES)] == ["assistant", "bob"]
    assert ada.files.read(NOTES) == "ada's"
    with pytest.raises(InvalidArgument, match="one owner"):
        MemoryTool(engine)
    with pytest.raises(InvalidArgument, match="one owner"):
        MemoryTool(engine, user="ada", project="shop")


def test_facts_are_files_and_an_edit_sets_the_fact(engine: holdfast.Engine) -> None:
    ledger = engine.ledger(user="ada")
    ledger.set("drink", "tea", authority="tool")
    ledger.set("seats", 2, authority="tool")
    ledger.set("a/b: c", "odd key", authority="tool")
    tool = MemoryTool(engine, user="ada")
    run(tool, "create", path=NOTES, file_text="x")
    assert run(tool, "view", path="/memories").split("\n")[1:] == [
        "4K\t/memories",
        "1B\t/memories/notes.md",
        "4K\t/memories/facts/",
        "8B\t/memories/facts/a%2Fb%3A c.md",
        "4B\t/memories/facts/drink.md",
        "2B\t/memories/facts/seats.md",
    ]
    assert run(tool, "view", path="/memories/facts").split("\n")[1:3] == [
        "4K\t/memories/facts",
        "8B\t/memories/facts/a%2Fb%3A c.md",
    ]
    assert run(tool, "view", path="/memories/facts/drink.md").endswith("\n     1\ttea\n     2\t")
    run(tool, "str_replace", path="/memories/facts/drink.md", old_str="tea", new_str="coffee")
    run(tool, "str_replace", path="/memories/facts/seats.md", old_str="2", new_str="3")
    run(tool, "create", path="/memories/facts/city.md", file_text="Rome\n")
    current = {fact.key: (fact.value, fact.authority) for fact in ledger.items()}
    assert current["drink"] == ("coffee", "agent")
    assert current["seats"][0] == 3
    assert current["city"] == ("Rome", "agent")
    assert [fact.value for fact in ledger.history("drink")] == ["tea", "coffee"]
    ledger.set("drink", "water", authority="peer")
    assert run(tool, "view", path="/memories/facts/drink.md").endswith("\n     1\twater\n     2\t")
    run(tool, "delete", path="/memories/facts/city.md")
    assert ledger.get("city") is None
    session = engine.create_session("s", user="ada")
    session.record("user", "What do I drink?")
    assert "water" in json.dumps(session.pack().anthropic())


@pytest.mark.parametrize("key", ["größe", "お気に入りの飲み物", "любимый чай", "50%41 é", "👨\u200d👩", "a\u202eb"])
def test_facts_of_any_language_have_the_names_that_they_were_given(file_engine: holdfast.Engine, key: str) -> None:
    tool = MemoryTool(file_engine, user="ada")
    file_engine.ledger(user="ada").set(key, "tea", authority="agent")
    size, path = run(tool, "view", path="/memories/facts").split("\n")[-1].split("\t")
    hidden = [each for each in key if each == "%" or not each.isprintable()]
    assert (size, path) == ("4B", f"/memories/facts/{''.join(quote(e) if e in hidden else e for e in key)}.md")
    run(tool, "str_replace", path=path, old_str="tea", new_str="coffee")
    assert {fact.key: fact.value for fact in file_engine.ledger(user="ada").items()} == {key: "coffee"}
    run(tool, "delete", path=path)
    assert file_engine.ledger(user="ada").get(key) is None


def test_refused_edits_of_facts_say_why(file_engine: holdfast.Engine) -> None:
    ledger = file_engine.ledger(user="ada")
    ledger.set("limit", "100 euros", authority="policy")
    tool = MemoryTool(file_engine, user="ada")
    path = "/memories/facts/limit.md"
    reason = refuse(tool, "str_replace", path=path, old_str="100", new_str="900")
    assert "higher authority" in reason
    assert "'100 euros'" in reason
    assert "policy" in refuse(tool, "delete", path=path)
    fact = ledger.get("limit")
    assert fact is not None
    assert fact.value == "100 euros"
    assert "already exists" in refuse(tool, "create", path=path, file_text="1")
    assert "does not exist" in refuse(tool, "view", path="/memories/facts/none.md")
    assert "<key>.md" in refuse(tool, "create", path="/memories/facts/plain.txt", file_text="1")
    assert "<key>.md" in refuse(tool, "create", path="/memories/facts/a/b.md", file_text="1")
    assert "empty" in refuse(tool, "create", path="/memories/facts/blank.md", file_text="\n")
    assert "Cannot delete" in refuse(tool, "delete", path="/memories/facts")
    assert "Cannot rename" in refuse(tool, "rename", old_path=path, new_path=NOTES)
    assert "Cannot rename" in refuse(tool, "rename", old_path=NOTES, new_path="/memories/facts/x.md")
    trusted = MemoryTool(file_engine, user="ada", authority="policy")
    run(trusted, "str_replace", path=path, old_str="100", new_str="900")
    fact = ledger.get("limit")
    assert fact is not None
    assert fact.value == "900 euros"


def script(request: dict[str, Any]) -> list[dict[str, Any]]:
    """By the newest result: the client sends only what is new."""
    last = [result["tool_use_id"] for result in results_in(request)][-1:]
    if not last:
        return [call("memory", "toolu_1", command="view", path="/memories")]
    if last == ["toolu_1"]:
        return [call("memory", "toolu_2", command="create", path=NOTES, file_text="likes tea\n")]
    if last == ["toolu_2"]:
        return [call("memory", "toolu_3", command="create", path=NOTES, file_text="again")]
    return [text("Noted.")]


def check_requests(requests: list[dict[str, Any]]) -> None:
    assert requests[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    shown = {result["tool_use_id"]: result for request in requests for result in results_in(request)}
    assert "up to 2 levels deep in /memories" in json.dumps(shown["toolu_1"])
    assert "File created successfully at: /memories/notes.md" in json.dumps(shown["toolu_2"])
    assert "File /memories/notes.md already exists" in json.dumps(shown["toolu_3"])
    assert shown["toolu_3"]["is_error"] is True


def test_the_client_runs_the_tool(engine: holdfast.Engine) -> None:
    tool = MemoryTool(engine, user="ada")
    with fake_api(script) as api, Anthropic(base_url=api.url, api_key="test") as client:
        runner = client.beta.messages.tool_runner(
            model="claude-sonnet-5",
            max_tokens=100,
            messages=[{"role": "user", "content": "I like tea."}],
            tools=[tool],
        )
        last = runner.until_done()
    assert last.content[0].type == "text"
    check_requests(api.requests)
    assert tool.files.read(NOTES) == "likes tea\n"


def test_the_async_client_runs_the_async_tool(file_engine: holdfast.Engine) -> None:
    tool = AsyncMemoryTool(file_engine, user="ada")

    async def ask(url: str) -> None:
        async with AsyncAnthropic(base_url=url, api_key="test") as client:
            runner = client.beta.messages.tool_runner(
                model="claude-sonnet-5",
                max_tokens=100,
                messages=[{"role": "user", "content": "I like tea."}],
                tools=[tool],
            )
            await runner.until_done()

    with fake_api(script) as api:
        asyncio.run(ask(api.url))
    check_requests(api.requests)
    assert tool.files.read(NOTES) == "likes tea\n"


WRITER = """
import sys
import holdfast
from holdfast.anthropic import MemoryTool
with holdfast.open(sys.argv[1]) as engine:
    tool = MemoryTool(engine, user="ada", by=sys.argv[2])
    for number in range(int(sys.argv[3])):
        line = f"{sys.argv[2]} {number}"
        tool.call({"command": "insert", "path": "/memories/log.md", "insert_line": 0, "insert_text": line})
        print(number, flush=True)
"""


def start_writer(url: str, name: str, count: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", WRITER, url, name, str(count)]
    return subprocess.Popen(arguments, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_two_processes_lose_no_line(engine: holdfast.Engine, url: str) -> None:
    tool = MemoryTool(engine, user="ada")
    run(tool, "create", path="/memories/log.md", file_text="")
    writers = [start_writer(url, name, 8) for name in ("one", "two")]
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    lines = tool.files.read("/memories/log.md").split()
    assert sorted(lines) == sorted([*"one two".split() * 8, *map(str, [*range(8)] * 2)])
    assert len(tool.files.history("/memories/log.md")) == 17


def test_a_process_that_is_killed_leaves_whole_files(engine: holdfast.Engine, url: str) -> None:
    tool = MemoryTool(engine, user="ada")
    run(tool, "create", path="/memories/log.md", file_text="")
    writer = start_writer(url, "one", 10_000)
    assert writer.stdout is not None
    for _ in range(10):
        confirmed = int(writer.stdout.readline())
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate()
    lines = tool.files.read("/memories/log.md").splitlines()
    assert len(lines) > confirmed
    assert lines == [f"one {number}" for number in reversed(range(len(lines)))]
    assert engine.admin.verify().ok
