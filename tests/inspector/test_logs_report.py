"""Logs from the file to the report: replayed into a session, with packs, facts, prices and times."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.errors import LogRefused, SessionExists
from holdfast.inspector.logs import LogClock, format_report, open_scratch, replay_log
from holdfast.inspector.logs.build import sum_contexts
from holdfast.inspector.logs.reports import LogReport
from holdfast.inspector.logs.traces import TraceCall, TraceMessage, TraceThread
from holdfast.model.history.prices import find_prices
from tests.inspector.logs import MODEL, ClaudeLines, inspect, write_lines


def coding_log() -> ClaudeLines:
    log = ClaudeLines()
    log.say("Please change the port of the server.")
    log.call("Read", "     1→HOST = 'oslo'\n     2→PORT = 8080", file_path="/a/server.py")
    log.call("Edit", "ok", file_path="/a/server.py", old_string="PORT = 8080", new_string="PORT = 9090")
    log.text("The port is 9090 now.")
    log.say("Thanks. And the host?")
    log.text("It is oslo.")
    return log


def test_a_log_becomes_a_session_with_packs_and_a_report(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "trip.jsonl", coding_log().lines)
    clock = LogClock()
    with open_scratch(tmp_path / "scratch.db", clock) as engine:
        report = replay_log(path, engine, clock=clock)
        session = engine.session("trip")
        stored = session.entries.get("report")
        assert stored is not None
        assert stored.kind == "log-report"
        assert msgspec.convert(stored.body, LogReport) == report
        assert len(session.packs.list()) == report.calls == 4
        messages = session.messages()
        assert [
            message.role for message in messages
        ] == "user assistant tool assistant tool assistant user assistant".split()
        assert messages[0].at == datetime(2026, 3, 1, 0, 0, 10, tzinfo=UTC)
        assert messages[-1].at == datetime(2026, 3, 1, 0, 1, 20, tzinfo=UTC)
        assert [detail.reply for detail in report.calls_detail] == [
            each.seq for each in messages if each.role == "assistant"
        ]
        (dead,) = report.dead
        assert (dead.kind, dead.what, dead.calls) == ("stale_read", "Read /a/server.py", 2)
        assert (dead.at, dead.died_at) == (messages[2].seq, messages[4].seq)
        assert dead.cost > 0
        assert engine.admin.verify().ok


def test_money_is_that_of_the_usage(tmp_path: Path) -> None:
    log = coding_log()
    report = inspect(write_lines(tmp_path / "log.jsonl", log.lines), tmp_path)
    prices = find_prices(MODEL)
    assert prices is not None
    pico = 0
    for line in log.lines:
        usage = line["message"].get("usage") or {}
        pico += usage.get("input_tokens", 0) * prices.input + usage.get("output_tokens", 0) * prices.output
        pico += usage.get("cache_read_input_tokens", 0) * prices.cache_read
        pico += usage.get("cache_creation_input_tokens", 0) * prices.cache_write
    assert report.is_priced
    assert report.sent.cost == round(pico / 1_000_000)
    assert report.sent.tokens == report.sent.cache_read + report.sent.cache_write + report.sent.fresh
    assert report.holdfast.tokens > 0
    assert sum(detail.sent_tokens for detail in report.calls_detail) == report.sent.tokens


def test_a_correction_of_the_user_is_a_dead_fact(tmp_path: Path) -> None:
    log = ClaudeLines()
    log.say("My address is 123 Main St.")
    log.text("Noted.")
    log.say("Actually my address is 456 Oak Ave now.")
    log.text("Changed.")
    log.say("When does it ship?")
    log.text("Tomorrow.")
    report = inspect(write_lines(tmp_path / "log.jsonl", log.lines), tmp_path)
    (dead,) = report.dead
    assert (dead.kind, dead.what, dead.calls) == ("fact", "address", 2)
    assert "456 Oak Ave" in dead.by
    assert dead.value.startswith("123 Main St")
    assert dead.words == "My address is 123 Main St."
    assert report.dead_calls == 2


def test_a_summary_ends_the_context(tmp_path: Path) -> None:
    log = coding_log()
    log.say("The user changed a port.", isCompactSummary=True)
    log.prompt = 9_000
    log.text("Going on.", read=0)
    log.text("Still going on.")
    report = inspect(write_lines(tmp_path / "log.jsonl", log.lines), tmp_path)
    assert report.dead[0].calls == 2
    assert [found.cause for found in report.cache_breaks] == ["compaction"]
    assert report.cache_breaks[0].cost > 0


def test_what_a_compaction_keeps_stays_in_the_context(tmp_path: Path) -> None:
    for kept, calls in (([], 0), (["u2", "u3"], 2)):
        (tmp_path / f"scratch-{calls}").mkdir()
        log = ClaudeLines()
        log.say("Hello.")
        log.text("Hello.")
        log.say("My address is 123 Main St.")
        log.text("Noted.")
        log.parent = None
        told = {"trigger": "auto", "preservedMessages": {"uuids": [*kept, "unknown"]}}
        log.add("system", {}, subtype="compact_boundary", compactMetadata=told)
        log.say("They greeted each other.", isCompactSummary=True)
        log.say("Actually my address is 456 Oak Ave now.")
        log.text("Changed.", read=0)
        log.text("It ships tomorrow.")
        report = inspect(write_lines(tmp_path / f"log-{calls}.jsonl", log.lines), tmp_path / f"scratch-{calls}")
        assert [dead.calls for dead in report.dead] == ([calls] if calls else [])


def test_a_prompt_that_was_taken_back_is_withdrawn(tmp_path: Path) -> None:
    log = ClaudeLines()
    first = log.say("Rent a boat.")
    log.text("Which one?")
    log.say("The red one.")
    log.text("Red it is.")
    log.parent = first
    log.say("The blue one.")
    log.text("Blue it is.")
    clock = LogClock()
    with open_scratch(tmp_path / "scratch.db", clock) as engine:
        replay_log(write_lines(tmp_path / "log.jsonl", log.lines), engine, clock=clock)
        shown = [message.text for message in engine.session("log").messages() if not message.withdrawn]
    assert shown == ["Rent a boat.", "The blue one.", "Blue it is."]


def test_a_subagent_is_a_thread(tmp_path: Path) -> None:
    log = coding_log()
    main = log.parent
    log.parent = None
    log.say("Count the boats.", isSidechain=True, agentId="a7")
    log.reply({"type": "text", "text": "Three."}, isSidechain=True, agentId="a7", read=0)
    log.parent = main
    log.text("There are three.")
    clock = LogClock()
    with open_scratch(tmp_path / "scratch.db", clock) as engine:
        report = replay_log(write_lines(tmp_path / "log.jsonl", log.lines), engine, clock=clock)
        assert [each.text for each in engine.session("log", thread="agent-a7").messages()] == [
            "Count the boats.",
            "Three.",
        ]
    assert report.threads == 2
    assert [detail.thread for detail in report.calls_detail] == [""] * 5 + ["agent-a7"]


def test_lines_of_one_reply_are_one_call(tmp_path: Path) -> None:
    log = ClaudeLines()
    log.say("Look around.")
    log.text("I will look.")
    usage = log.lines[-1]["message"]["usage"]
    for number in (1, 2):
        block = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"file_path": f"/{number}"}}
        log.add("assistant", {"id": "msg_0", "role": "assistant", "model": MODEL, "content": [block], "usage": usage})
        result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "text"}
        log.add("user", {"role": "user", "content": [result]})
    report = inspect(write_lines(tmp_path / "log.jsonl", log.lines), tmp_path)
    assert report.calls == 1
    assert report.sent.tokens == 9_510


def test_a_log_without_usage_and_prices_says_so(tmp_path: Path) -> None:
    lines = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    report = inspect(write_lines(tmp_path / "log.jsonl", lines), tmp_path)
    text = " ".join(report.assumptions)
    assert not report.is_priced
    assert report.sent.cost == report.holdfast.cost == 0
    assert "no usage" in text
    assert "no prices" in text
    assert "no times" in text
    (tmp_path / "b").mkdir()
    named = inspect(write_lines(tmp_path / "named.jsonl", lines), tmp_path / "b", model="gpt-5")
    assert named.is_priced
    assert named.model == "gpt-5"


def test_a_summary_says_which_figures_are_estimates(tmp_path: Path) -> None:
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}] * 3
    path = tmp_path / "chat.json"
    path.write_text(json.dumps({"model": "gpt-5", "messages": chat}))
    report = inspect(path, tmp_path)
    text = format_report(report)
    assert report.estimated == report.calls == 3
    assert "estimated, the log has no usage" in text
    assert "the log has no figures of a cache" in text
    assert "openai-chat, 1 line\n" in text
    (tmp_path / "b").mkdir()
    log = coding_log()
    log.lines[-1]["message"].pop("usage")
    some = inspect(write_lines(tmp_path / "some.jsonl", log.lines), tmp_path / "b")
    assert some.estimated == 1
    assert "1 of 4 calls estimated" in format_report(some)


def test_calls_between_packs_are_interpolated(tmp_path: Path) -> None:
    log = ClaudeLines()
    for number in range(12):
        log.say(f"Question {number}?")
        log.text(f"Answer {number}.")
    path = write_lines(tmp_path / "log.jsonl", log.lines)
    clock = LogClock()
    with open_scratch(tmp_path / "scratch.db", clock) as engine:
        whole = replay_log(path, engine, clock=clock, session="whole")
        some = replay_log(path, engine, clock=clock, session="some", packs=4)
        assert len(engine.session("some").packs.list()) == 4
    assert any("4 of 12 calls" in each for each in some.assumptions)
    assert some.holdfast.tokens == pytest.approx(whole.holdfast.tokens, rel=0.02)


def test_a_log_without_replies_and_a_second_replay_are_refused(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "log.jsonl", [{"role": "user", "content": "Hello?"}])
    with pytest.raises(LogRefused, match="no reply"):
        inspect(path, tmp_path)
    write_lines(path, coding_log().lines)
    clock = LogClock()
    with open_scratch(tmp_path / "b.db", clock) as engine:
        replay_log(path, engine, clock=clock)
        with pytest.raises(SessionExists):
            replay_log(path, engine, clock=clock)


def test_odd_messages_are_replayed(tmp_path: Path) -> None:
    log = ClaudeLines()
    log.say("x" * 300_000)
    odd: dict[str, Any] = {"\ud800": "z"}
    log.call("", "\x00\u202e" + "y" * 200_000, **odd)
    log.reply({"type": "thinking", "thinking": "…"})
    log.reply({"type": "tool_use", "id": "open", "name": "Read", "input": {}})
    log.text("The call before has no result.")
    log.add("user", {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "nobody", "content": "late"}]})
    report = inspect(write_lines(tmp_path / "log.jsonl", log.lines), tmp_path)
    assert report.calls == 4
    assert len(format_report(report)) < 4_000


def test_the_summary_is_short_and_moves_no_cursor(tmp_path: Path) -> None:
    log = coding_log()
    log.call("Read", "a\x1b[2J", file_path="/\x1b[31mred")
    log.call("Edit", "ok", file_path="/\x1b[31mred", old_string="a", new_string="b")
    log.text("Done.")
    text = format_report(inspect(write_lines(tmp_path / "log.jsonl", log.lines), tmp_path))
    assert len(text.splitlines()) <= 16
    assert all(each.isprintable() for each in text.replace("\n", ""))
    assert "2 outdated texts" in text


def test_the_report_has_the_fields_of_its_json(tmp_path: Path) -> None:
    report = inspect(write_lines(tmp_path / "log.jsonl", coding_log().lines), tmp_path)
    plain = json.loads(msgspec.json.encode(report))
    assert {"source", "model", "calls", "sent", "holdfast", "dead", "cache_breaks", "assumptions", "calls_detail"} <= {
        *plain
    }
    assert plain["source"] == {"kind": "claude-code", "file": "log.jsonl", "lines": 8, "skipped": 0}


def test_contexts_are_the_messages_that_are_there() -> None:
    messages = [TraceMessage("prompt", 1, 0, 0, 2), TraceMessage("reply", 1, 0, 1), TraceMessage("prompt", 1, 0, 3)]
    calls = [TraceCall(0, None, 0, 0, 0, 0) for _ in range(3)]  # type: ignore[arg-type]
    assert sum_contexts(TraceThread("", messages, calls), [5, 7, 9]) == [5, 12, 7]
