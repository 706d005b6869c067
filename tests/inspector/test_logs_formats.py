"""Every kind of log is recognised and read; what is none is refused with a typed error."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import FileAbsent, LogRefused
from holdfast.inspector.logs import is_log, read_log
from tests import hostile
from tests.inspector.logs import MODEL, USAGE, ClaudeLines, write_lines

CALL = {"id": "c1", "type": "function", "function": {"name": "find_boat", "arguments": '{"harbour": "Oslo"}'}}
CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "You rent out boats."},
    {"role": "user", "content": "Is there a boat in Oslo?"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "two boats"},
    {"role": "assistant", "content": "Yes, two."},
]
BLOCKS: list[dict[str, Any]] = [
    {"role": "user", "content": "Is there a boat in Oslo?"},
    {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c1", "name": "find_boat", "input": {"harbour": "Oslo"}}],
    },
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "two boats"}]},
    {"role": "assistant", "content": [{"type": "text", "text": "Yes, two."}]},
]
ITEMS: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Is there a boat in Oslo?"}]},
    {"type": "reasoning", "summary": []},
    {"type": "function_call", "call_id": "c1", "name": "find_boat", "arguments": '{"harbour": "Oslo"}'},
    {"type": "function_call_output", "call_id": "c1", "output": "two boats"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Yes, two."}]},
]
LANGCHAIN: list[dict[str, Any]] = [
    {"type": "human", "content": "Is there a boat in Oslo?"},
    {"type": "ai", "content": "", "tool_calls": [{"id": "c1", "name": "find_boat", "args": {"harbour": "Oslo"}}]},
    {"type": "tool", "tool_call_id": "c1", "content": "two boats"},
    {"type": "ai", "content": "Yes, two.", "usage_metadata": {"input_tokens": 70, "output_tokens": 5}},
]
CLASSES = {"human": "HumanMessage", "ai": "AIMessage", "tool": "ToolMessage"}
CONSTRUCTED: list[dict[str, Any]] = [
    {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", CLASSES[message["type"]]],
        "kwargs": {name: value for name, value in message.items() if name != "type"},
    }
    for message in LANGCHAIN
]
OWN: list[dict[str, Any]] = [
    {"role": "user", "content": "Is there a boat in Oslo?", "at": "2026-03-01T10:00:00Z"},
    {
        "role": "assistant",
        "tool_calls": [{"id": "c1", "name": "find_boat", "args": {"harbour": "Oslo"}}],
        "usage": USAGE,
    },
    {"role": "tool", "tool_results": [{"tool_call_id": "c1", "result": "two boats", "is_error": False}]},
    {"role": "assistant", "content": "Yes, two.", "at": "2026-03-01T10:00:09Z"},
]
REPLY = {"choices": [{"message": CHAT[2]}], "model": "gpt-5", "usage": {"prompt_tokens": 50, "completion_tokens": 9}}
LAST = {"choices": [{"message": CHAT[4]}], "model": "gpt-5", "usage": {"prompt_tokens": 80, "completion_tokens": 4}}
REQUESTS: list[dict[str, Any]] = [{"request": {"model": "gpt-5", "messages": CHAT[:2]}, "response": REPLY}]
REQUESTS += [{"request": {"model": "gpt-5", "messages": CHAT[:4]}, "response": LAST}]
ANTHROPIC_REPLY = {"type": "message", "model": MODEL, "usage": USAGE}
ANTHROPIC: list[dict[str, Any]] = [
    {"model": MODEL, "system": "You rent out boats.", "messages": BLOCKS[:1]},
    {**BLOCKS[1], **ANTHROPIC_REPLY, "id": "msg_1"},
    {"model": MODEL, "system": "You rent out boats.", "messages": BLOCKS[:3]},
    {**BLOCKS[3], **ANTHROPIC_REPLY, "id": "msg_2"},
]
RESPONSES: list[dict[str, Any]] = [
    {"input": ITEMS[:1], "model": "gpt-5", "response": {"object": "response", "output": ITEMS[1:3]}},
    {"input": ITEMS[:4], "model": "gpt-5", "response": {"object": "response", "output": ITEMS[4:]}},
]


def claude_lines() -> list[dict[str, Any]]:
    log = ClaudeLines()
    log.say("Is there a boat in Oslo?")
    log.call("find_boat", "two boats", harbour="Oslo")
    log.text("Yes, two.")
    return log.lines


LINES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "chat lines": (CHAT, "openai-chat"),
    "chat requests": (REQUESTS, "openai-chat"),
    "items": (ITEMS, "openai-responses"),
    "responses": (RESPONSES, "openai-responses"),
    "anthropic lines": (BLOCKS, "anthropic"),
    "anthropic requests": (ANTHROPIC, "anthropic"),
    "langchain": (LANGCHAIN, "langgraph"),
    "langchain constructors": (CONSTRUCTED, "langgraph"),
    "own": (OWN, "holdfast"),
    "claude": (claude_lines(), "claude-code"),
}
DOCUMENTS = {
    "chat list": (CHAT, "openai-chat"),
    "chat object": ({"messages": CHAT}, "openai-chat"),
    "anthropic object": ({"system": "You rent out boats.", "messages": BLOCKS}, "anthropic"),
    "thread state": ({"values": {"messages": LANGCHAIN}}, "langgraph"),
    "items list": (ITEMS, "openai-responses"),
}


def check_conversation(path: Path, kind: str) -> None:
    log = read_log(path)
    entries = [entry for entry in log.read() if entry.kind != "system"]
    assert log.kind == kind
    assert log.skipped == 0
    assert [entry.kind for entry in entries] == ["prompt", "reply", "result", "reply"]
    assert entries[0].text == "Is there a boat in Oslo?"
    assert [(call.name, call.args) for call in entries[1].calls] == [("find_boat", {"harbour": "Oslo"})]
    assert [(result.call, result.text) for result in entries[2].results] == [(entries[1].calls[0].id, "two boats")]
    assert entries[3].text == "Yes, two."
    assert is_log(path)


@pytest.mark.parametrize("name", LINES)
def test_lines_of_every_kind_are_the_same_conversation(name: str, tmp_path: Path) -> None:
    lines, kind = LINES[name]
    check_conversation(write_lines(tmp_path / "log.jsonl", lines), kind)


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("indent", [None, 2])
def test_documents_of_every_kind_are_the_same_conversation(name: str, indent: int | None, tmp_path: Path) -> None:
    document, kind = DOCUMENTS[name]
    path = tmp_path / "log.json"
    path.write_text(json.dumps(document, indent=indent))
    check_conversation(path, kind)


def test_figures_of_responses_are_read(tmp_path: Path) -> None:
    replies = [each for each in read_log(write_lines(tmp_path / "a.jsonl", REQUESTS)).read() if each.kind == "reply"]
    assert [each.figures.usage.input_tokens for each in replies if each.figures.usage] == [50, 80]
    assert {each.figures.model for each in replies} == {"gpt-5"}
    replies = [each for each in read_log(write_lines(tmp_path / "b.jsonl", ANTHROPIC)).read() if each.kind == "reply"]
    assert [each.figures.usage.cache_write_tokens for each in replies if each.figures.usage] == [9_000, 9_000]


def test_a_request_that_leaves_out_messages_says_what_is_kept(tmp_path: Path) -> None:
    short = {"request": {"model": "gpt-5", "messages": [CHAT[0], CHAT[4], {"role": "user", "content": "Thanks"}]}}
    entries = list(read_log(write_lines(tmp_path / "log.jsonl", [*REQUESTS, short])).read())
    assert entries[-1].text == "Thanks"
    assert entries[-1].keep == [0, 4]


def test_conversations_of_one_log_are_told_apart(tmp_path: Path) -> None:
    other = {"request": {"messages": [CHAT[0], {"role": "user", "content": "And in Bergen?"}]}, "response": LAST}
    entries = list(read_log(write_lines(tmp_path / "log.jsonl", [*REQUESTS, other])).read())
    assert [entry.thread for entry in entries] == [""] * 5 + ["conversation-2"] * 3


def test_broken_lines_are_counted_and_skipped(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "log.jsonl", CHAT)
    path.write_text(path.read_text() + '{"role": "assist\n[1]\n17\n{"level": "info"}\n')
    log = read_log(path)
    assert len(list(log.read())) == len(CHAT)
    assert (log.lines, log.skipped) == (len(CHAT) + 4, 4)


@pytest.mark.parametrize(
    "content", ["", "\n\n", "hello\n", "[]", "{}", '{"level": "info"}\n', "[1, 2]", "\x00\x01", "{"]
)
def test_what_is_no_log_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_text(content)
    with pytest.raises(LogRefused, match=r"notes\.jsonl"):
        read_log(path)
    assert not is_log(path)


def test_an_absent_file_and_other_files_are_none(tmp_path: Path) -> None:
    with pytest.raises(FileAbsent):
        read_log(tmp_path / "absent.jsonl")
    path = tmp_path / "agent.db"
    path.write_bytes(b"SQLite format 3\x00")
    assert not is_log(path)
    assert not is_log(tmp_path)


def test_hostile_values_in_every_field_are_read_or_skipped(tmp_path: Path) -> None:
    """Whatever JSON a log has, reading it raises nothing."""
    values: list[Any] = []
    for case in hostile.CASES:
        try:
            value = json.loads(json.dumps(case.make()))
        except Exception:
            continue
        values.append(value if len(str(value)) < 10_000 else str(value)[:10_000])
    templates = [*CHAT, *BLOCKS, *ITEMS, *LANGCHAIN, *CONSTRUCTED, *OWN, *REQUESTS, *RESPONSES, claude_lines()[1]]
    lines = []
    for number, value in enumerate(values):
        template = dict(templates[number % len(templates)])
        template[list(template)[number % len(template)]] = value
        lines += [template, value]
    for kind in (CHAT, claude_lines()):
        log = read_log(write_lines(tmp_path / "log.jsonl", [*kind, *lines]))
        for entry in log.read():
            entry.text.encode()
            assert all(call.name and call.id for call in entry.calls)
