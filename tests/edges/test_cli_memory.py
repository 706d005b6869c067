"""`holdfast memory`: search, what is known of a user, forget, and the backlog."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.model import limits
from tests.edges.cli import HOSTILE, CommandRunner

LAMP = "The lamp from order 4711 came with a broken shade."
CHAIR = "The chair is fine."


class DailyClock:
    """A clock that moves a day at every look: the next try is always due."""

    def __init__(self) -> None:
        self._now_us = time.time_ns() // 1_000

    def now_us(self) -> int:
        self._now_us += 86_400_000_000
        return self._now_us


class BrokenMemory:
    name = "broken"

    def fail(self, *args: Any, **options: Any) -> Any:
        raise OSError("the service is down")

    take = recall = bootstrap = forget = fail


def write_sessions(path: Path) -> None:
    """Two users, a destroyed session, and a hostile text; everything is delivered but the last session."""
    with holdfast.open(path) as engine:
        engine.ledger(user="ada").set("shipping_address", "456 Oak Ave")
        for name, user, text in (
            ("monday", "ada", LAMP),
            ("tuesday", "ada", CHAIR),
            ("gone", "ada", HOSTILE),
            ("other", "bo", "My lamp is fine."),
        ):
            session = engine.session(name, user=user, create=True)
            session.record("user", text)
            session.record("assistant", "Noted.")
            session.situation.update({"goal": f"{name}: help {user}"})
            session.destroy() if name == "gone" else session.end()
        assert len(engine.memory.deliver().delivered) == 4
        waiting = engine.session("waiting", user="ada", create=True)
        waiting.record("user", "A lamp that nobody took yet.")
        waiting.end()


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandRunner:
    path = tmp_path / "memory.db"
    write_sessions(path)
    return CommandRunner(path, capsys)


def found_texts(cli: CommandRunner, *args: str) -> list[str]:
    return [each["text"] for each in cli("memory", "search", *args, "--json").document["passages"]]


def test_a_search_finds_the_words_of_one_user(cli: CommandRunner) -> None:
    assert found_texts(cli, "broken lamp", "--user", "ada")[0] == LAMP
    assert "My lamp is fine." not in found_texts(cli, "lamp", "--user", "ada")
    assert found_texts(cli, "lamp", "--user", "bo")[0] == "My lamp is fine."
    lines = cli("memory", "search", "broken lamp", "--user", "ada").out.splitlines()
    assert lines[0].split() == ["SCORE", "TIME", "SESSION", "SPEAKER", "TEXT", "WHY"]
    assert LAMP in lines[1]
    assert "monday" in lines[1]
    assert "The memory of the user 'eve' has nothing" in cli("memory", "search", "lamp", "--user", "eve").out


def test_an_empty_memory_says_what_waits_for_it(cli: CommandRunner) -> None:
    """Who forgot to run a worker learns of it."""
    hint = "1 conversation waits for long-term memory: `holdfast worker` delivers.\n"
    assert cli("memory", "search", "lamp", "--user", "eve").err == hint
    assert cli("memory", "known", "eve").err == hint
    cli("worker", "--once")
    assert cli("memory", "search", "lamp", "--user", "eve").err == cli("memory", "known", "eve").err == ""


def test_a_search_can_be_narrowed(cli: CommandRunner) -> None:
    fine = ("lamp chair", "--user", "ada")
    assert {LAMP, CHAIR} <= {*found_texts(cli, *fine)}
    assert LAMP not in found_texts(cli, *fine, "--session", "tuesday")
    assert {LAMP, CHAIR} <= {*found_texts(cli, *fine, "--session", "tuesday", "--session", "monday")}
    assert found_texts(cli, *fine, "--until", "2020-01-31") == []
    assert LAMP in found_texts(cli, *fine, "--since", "2020-01-31T12:00", "--until", "2999-12-31")
    assert found_texts(cli, *fine, "--budget", "1") == []
    assert cli("memory", "search", "lamp", "--user", "ada", "--since", "Monday").code == 2
    assert cli("memory", "search", "lamp").code == 2
    assert cli("memory", "search", "lamp", "--user", "ada", "--budget", str(limits.RECALL_TOKENS + 1)).code == 2
    assert cli("memory", "search", " ", "--user", "ada").code == 3


def test_a_text_cannot_control_the_terminal(cli: CommandRunner) -> None:
    for args in (("search", "pwned", "--user", "ada"), ("known", "ada")):
        shown = cli("memory", *args).out
        assert "pwned" in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown


def test_what_is_known_of_a_user_is_shown_with_totals(cli: CommandRunner) -> None:
    document = cli("memory", "known", "ada", "--json").document
    assert [(fact["key"], fact["value"]) for fact in document["facts"]] == [("shipping_address", "456 Oak Ave")]
    texts = [each["text"] for each in document["passages"]]
    assert {"goal: monday: help ada", "goal: tuesday: help ada", LAMP, CHAIR} <= {*texts}
    assert document["totals"]["sessions"] == 3
    shown = cli("memory", "known", "ada").out
    assert "456 Oak Ave" in shown
    assert "1 fact shown; memory has" in shown
    assert " of 3 sessions" in shown
    assert "Nothing is known of the user 'eve'." in cli("memory", "known", "eve").out


def test_nothing_is_forgotten_without_a_confirmation(cli: CommandRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    for answer, code in (("n\n", 130), ("", 130), ("y\n", 0)):
        assert found_texts(cli, "broken lamp", "--user", "ada") != []
        monkeypatch.setattr("sys.stdin", io.StringIO(answer))
        done = cli("memory", "forget", "--user", "ada")
        assert done.code == code
        assert "Forget everything of the user 'ada': " in done.err
    assert "removed, 0 left." in done.out
    assert found_texts(cli, "broken lamp", "--user", "ada") == []
    assert found_texts(cli, "lamp", "--user", "bo") != []


def test_what_is_forgotten_does_not_come_back(cli: CommandRunner) -> None:
    report = cli("memory", "forget", "--user", "ada", "--yes", "--json").document
    assert report["passages"] > 6
    assert report["residue"] == 0
    assert cli("memory", "backlog", "--json").documents == []
    with holdfast.open(cli.path) as engine:
        assert engine.memory.deliver().delivered == ()
        assert engine.memory.totals(user="ada").passages == 0
        assert engine.ledger(user="ada").get("shipping_address") is not None, "facts stay"
    assert cli("memory", "forget", "--user", "ada", "--yes").out == "0 passages removed, 0 left.\n"


def test_a_session_is_forgotten_by_its_name_also_if_it_is_destroyed(cli: CommandRunner) -> None:
    for name, query in (("monday", "broken lamp"), ("gone", "pwned")):
        assert name in {each["session"] for each in cli("memory", "known", "ada", "--json").document["passages"]}
        assert cli("memory", "forget", "--session", name, "--yes", "--json").document["residue"] == 0
        passages = cli("memory", "search", query, "--user", "ada", "--json").document["passages"]
        assert name not in {each["session"] for each in passages}
    assert CHAIR in found_texts(cli, "chair", "--user", "ada")
    assert cli("memory", "forget", "--session", "nowhere", "--yes").code == 3


def test_it_must_be_said_what_to_forget(cli: CommandRunner) -> None:
    assert cli("memory", "forget", "--yes").code == 2
    assert cli("memory", "forget", "--user", "ada", "--session", "monday", "--yes").code == 2
    assert cli("memory", "forget", "--user", "ada", "--thread", "x", "--yes").code == 2


def test_the_backlog_shows_what_waits_and_what_was_set_aside(cli: CommandRunner) -> None:
    [entry] = cli("memory", "backlog", "--json").documents
    assert (entry["session"], entry["attempts"], entry["error"], entry["is_set_aside"]) == ("waiting", 0, "", False)
    lines = cli("memory", "backlog").out.splitlines()
    assert lines[0].split() == ["SESSION", "ACTOR", "ENTRY", "WHY", "ENDED", "TRIES", "STATE"]
    assert lines[1].split()[-1] == "due"
    fail_deliveries(cli.path)
    [entry] = cli("memory", "backlog", "--json").documents
    assert entry["is_set_aside"]
    assert "OSError" in entry["error"]
    assert "set aside" in cli("memory", "backlog").out
    assert cli("memory", "backlog", "--actor", "nobody").out == "Nothing waits for long-term memory.\n"


def test_what_was_set_aside_can_be_requeued(cli: CommandRunner) -> None:
    fail_deliveries(cli.path)
    shown = cli("memory", "backlog", "--requeue").out
    assert shown.startswith("1 entry requeued.\n")
    assert "due" in shown.split()
    with holdfast.open(cli.path) as engine:
        assert len(engine.memory.deliver().delivered) == 1
    assert cli("memory", "backlog", "--requeue").out == "0 entries requeued.\nNothing waits for long-term memory.\n"


def fail_deliveries(path: Path) -> None:
    """Deliver to a memory that is down, until the entry is set aside."""
    with holdfast.open(path, memory=BrokenMemory(), clock=DailyClock()) as engine:
        for _ in range(limits.DELIVERY_TRIES):
            assert len(engine.memory.deliver(limit=1).failed) == 1
