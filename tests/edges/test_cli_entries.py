"""`holdfast entries`: the entries of a session, and one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import holdfast
from tests.edges.cli import HOSTILE, CommandRunner


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    path = tmp_path / "entries.db"
    with holdfast.open(path) as engine:
        session = engine.create_session("trip")
        session.entries.append("checkpoint", "c1", {"messages": [f"message {each} " * 20 for each in range(20)]})
        session.entries.append("checkpoint", "c2", {"text": HOSTILE}, parent="c1")
        session.entries.append("write", "w1", b"\x00\xff", parent="c2")
        session.entries.append("write", "node:" * 90, None, parent="c2")
        engine.create_session("empty")
    return CommandRunner(path, capsys)


def test_entries_are_listed_newest_first(cli: CommandRunner) -> None:
    assert [each["key"] for each in cli("entries", "trip", "--json").documents] == ["node:" * 90, "w1", "c2", "c1"]
    assert [each["key"] for each in cli("entries", "trip", "-n", "2", "--json").documents] == ["node:" * 90, "w1"]
    assert [each["key"] for each in cli("entries", "trip", "-n", "0", "--json").documents][-1] == "c1"
    assert [each["size"] for each in cli("entries", "trip", "--kind", "write", "--json").documents] == [4, 2]
    assert [each["key"] for each in cli("entries", "trip", "--parent", "c1", "--json").documents] == ["c2"]
    lines = cli("entries", "trip").out.splitlines()
    assert lines[0].split() == ["EVENT", "TIME", "KIND", "KEY", "PARENT", "BYTES"]
    assert len(lines) == 5
    assert "There are no such entries in the session 'empty'." in cli("entries", "empty").out


def test_one_entry_is_shown_with_its_body(cli: CommandRunner) -> None:
    assert len(cli("entries", "trip", "c1", "--json").document["body"]["messages"]) == 20
    assert cli("entries", "trip", "w1", "--json").document["base64"] == "AP8="
    assert "AP8=" in cli("entries", "trip", "w1").out
    assert cli("entries", "trip", "node:" * 90, "--json").document["body"] is None
    shown = cli("entries", "trip", "c2").out
    assert "alert" in shown
    assert "\x1b" not in shown


def test_stats_count_entries_with_their_bytes(cli: CommandRunner) -> None:
    sizes = [each["size"] for each in cli("entries", "trip", "--json").documents]
    found = cli("stats", "--json").document["file"]
    assert (found["entries"], found["entry_bytes"]) == (4, sum(sizes))
    assert any(line.split()[:2] == ["entries", "4"] for line in cli("stats").out.splitlines())


def test_an_unknown_entry_or_session_is_an_error(cli: CommandRunner) -> None:
    missing = cli("entries", "trip", "c9")
    assert missing.code != 0
    assert "there is no entry 'c9' in the session 'trip'" in missing.err
    assert cli("entries", "nowhere").code != 0
