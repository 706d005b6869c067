"""The command as it is really run: pipes, terminals, signals, several processes, and what it costs to import."""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast.cli import main
from tests.edges.cli import COMMAND, copy_store, environment, run_process

ESCAPE = "\x1b"


@pytest.fixture
def path(history: Path, tmp_path: Path) -> Path:
    return copy_store(history, tmp_path / "agent.db")


@contextmanager
def started(*args: str | Path, **options: int) -> Iterator[subprocess.Popen[str]]:
    """A command that is still running, and hears interrupts: who is started in the background has them switched off."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        process = subprocess.Popen([*COMMAND, *map(str, args)], text=True, env=environment(), **pipes)  # type: ignore[call-overload]
    finally:
        signal.signal(signal.SIGINT, before)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def on_a_terminal(*args: str | Path, **variables: str) -> tuple[str, int]:
    """What a person would see, and the exit code."""
    terminal, end = os.openpty()
    process = subprocess.Popen(
        [*COMMAND, *map(str, args)], stdin=end, stdout=end, stderr=end, env=environment(COLUMNS="100", **variables)
    )
    os.close(end)
    seen = b""
    try:
        while chunk := os.read(terminal, 65_536):
            seen += chunk
    except OSError:  # how Linux says that the other end was closed
        pass
    finally:
        os.close(terminal)
    return seen.decode(), process.wait(timeout=60)


def test_the_exit_code_reaches_the_shell(path: Path) -> None:
    assert run_process("-f", path, "verify").returncode == 0
    assert run_process("-f", path, "sessions", "show", "nobody").returncode == 3
    assert run_process("-f", path, "--unknown").returncode == 2
    assert run_process("-f", f"{path}.absent", "verify").returncode == 3
    path.write_bytes(b"x" * 10_000)
    assert run_process("-f", path, "verify").returncode == 4
    done = run_process("-f", path, "doctor")
    assert (done.returncode, done.stderr) == (1, "")


def test_the_installed_command_is_the_same(path: Path) -> None:
    installed = Path(sys.executable).parent / "holdfast"
    done = subprocess.run([installed, "-f", path, "verify", "--json"], capture_output=True, text=True, check=False)
    assert json.loads(done.stdout)["ok"]
    version = subprocess.run([installed, "--version"], capture_output=True, text=True, check=False)
    assert version.stdout == f"holdfast, version {holdfast.__version__}\n"


@pytest.mark.parametrize("command", [["log", "-n", "0", "--json"], ["sessions", "tail", "large", "-f"]])
def test_a_reader_who_leaves_early_is_no_failure(path: Path, command: list[str]) -> None:
    with started("-f", path, *command) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        process.stdout.close()
        if "-f" in command:  # it notices when it has something to say
            with holdfast.open(path) as engine:
                engine.session("large").record("user", "are you there?")
        assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == ""


def test_output_that_cannot_be_written_is_told_in_words(path: Path) -> None:
    with open(os.devnull) as closed_to_writers:
        done = run_process("-f", path, "log", stdout=closed_to_writers, stderr=subprocess.PIPE, capture_output=False)
    assert done.returncode == 4
    assert re.fullmatch(r"Error: .*Bad file descriptor.*\n", done.stderr)


def test_tail_follows_what_another_process_records_until_the_session_ends(path: Path) -> None:
    with (
        holdfast.open(path) as engine,
        started("-f", path, "sessions", "tail", "large", "-n", "1", "--follow", "--json") as process,
    ):
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["role"] == "user"
        large = engine.session("large")
        for text in ("one", "two\n\x1b[2J", "three"):
            large.record("assistant", text)
            assert json.loads(process.stdout.readline())["text"] == text
        large.end("done")
        assert process.stdout.read() == ""
        assert process.wait(timeout=60) == 0


def test_the_log_follows_every_session(path: Path) -> None:
    with (
        holdfast.open(path) as engine,
        started("-f", path, "log", "-n", "1", "--follow", "--json") as process,
    ):
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["stream"]["tenant"] == "acme"
        engine.create_session("fresh").record("user", "hello")
        told = [json.loads(process.stdout.readline()) for _ in range(2)]
        assert [event["type"] for event in told] == ["session.created", "message.recorded"]


def test_the_doctor_names_the_processes_that_use_the_file(path: Path) -> None:
    with holdfast.open(path) as engine:
        engine.session("large").record("user", "I hold it open.")
        checks = json.loads(run_process("-f", path, "doctor", "--json").stdout)["checks"]
    [users] = [check["found"] for check in checks if check["name"] == "used by"]
    assert str(os.getpid()) in users or not os.path.exists("/proc/locks")


def test_an_interrupted_command_ends_with_130_and_no_trace(path: Path) -> None:
    with started("-f", path, "sessions", "tail", "large", "-f") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr.read().strip() == ""


@pytest.mark.parametrize(
    "command", [["verify"], ["rebuild"], ["backup", "copy.db"], ["export", "all.jsonl"], ["import", "there.jsonl"]]
)
def test_a_terminal_shows_a_bar_where_it_takes_long(path: Path, command: list[str], tmp_path: Path) -> None:
    with holdfast.open(path) as engine:
        engine.admin.export(tmp_path / "there.jsonl")
    args = [command[0], *(str(tmp_path / name) for name in command[1:])]
    seen, code = on_a_terminal("-f", path, *args)
    assert code == 0
    assert "━━━" in seen
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", " ", seen)
    assert re.search(r" ([1-9][\d.]*)/\1 ", plain), "the bar never came to its end"


def test_what_is_no_terminal_is_shown_no_bar(path: Path) -> None:
    assert "━" not in run_process("-f", path, "verify").stderr


def test_a_terminal_gets_colours_unless_they_are_not_wanted(path: Path) -> None:
    seen, code = on_a_terminal("-f", path, "sessions", "show", "trip")
    assert code == 0
    assert f"{ESCAPE}[32m{ESCAPE}[1muser" in seen
    assert f"{ESCAPE}[31malert" not in seen
    assert "\\x1b[31malert" in seen
    commands = (["sessions", "list"], ["sessions", "show", "trip"], ["doctor"], ["log"])
    for command, variable in zip(commands, itertools.cycle((("NO_COLOR", "1"), ("TERM", "dumb"))), strict=False):
        seen, _ = on_a_terminal("-f", path, *command, **dict([variable]))
        assert not re.search(r"\x1b\[[0-9;]*m", seen)
    assert ESCAPE not in run_process("-f", path, "sessions", "list", env=environment(FORCE_COLOR="1")).stdout


def test_a_narrow_terminal_shortens_names_and_keeps_figures(path: Path) -> None:
    with holdfast.open(path) as engine:
        engine.create_session("n" * 200).record("user", "x")
    seen, _ = on_a_terminal("-f", path, "sessions", "list", "-n", "1", NO_COLOR="1")
    line = seen.splitlines()[1]
    assert len(line) <= 100
    assert "…" in line
    assert "just now" in line or " ago" in line


def test_output_in_another_encoding_is_spelled_out(path: Path) -> None:
    with holdfast.open(path) as engine:
        engine.create_session("日本").record("user", "naïve ☃")
    latin: dict[str, Any] = {"env": environment(PYTHONIOENCODING="latin-1"), "encoding": "latin-1"}
    assert "naïve \\u2603" in run_process("-f", path, "sessions", "show", "日本", **latin).stdout
    told = json.loads(run_process("-f", path, "sessions", "show", "日本", "--json", **latin).stdout)
    assert told["messages"][0]["text"] == "naïve ☃"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands_and_the_names_of_sessions(path: Path, shell: str) -> None:
    script = run_process("completion", shell)
    assert script.returncode == 0
    assert "_HOLDFAST_COMPLETE" in script.stdout

    def completed(*typed: str, file: Path = path) -> set[str]:
        variables = {
            "_HOLDFAST_COMPLETE": f"{shell}_complete",
            "HOLDFAST_FILE": str(file),
            "COMP_WORDS": " ".join(("holdfast", *typed)),
            "COMP_CWORD": typed[-1] if shell == "fish" else str(len(typed)),
        }
        done = run_process(env=environment(**variables))
        assert done.stderr == ""
        return set(re.findall(r"[\w-]+", done.stdout))

    names = completed("sessions", "show", "tr")
    assert "trip" in names
    assert not names & {"large", "secret"}
    if shell != "bash":
        return
    assert "verify" in completed("ver")
    assert not completed("sessions", "show", "tr", file=Path(f"{path}.absent"))
    assert not Path(f"{path}.absent").exists()


def test_neither_the_library_nor_a_plain_answer_loads_what_only_drawing_needs(path: Path) -> None:
    code = """
import sys, holdfast
assert not {"click", "rich"} & set(sys.modules), "the library loads them"
from holdfast.cli import main
assert main(["-f", sys.argv[1], "sessions", "show", "trip"]) == 0
assert main(["-f", sys.argv[1], "verify", "--json"]) == 0
assert "rich" not in sys.modules, "plain text loads it"
"""
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_looking_changes_nothing(path: Path) -> None:
    with holdfast.open(path) as engine:
        before = engine.admin.feed(limit=1_000)
    for command in (["sessions", "list"], ["sessions", "show", "trip"], ["log"], ["verify"], ["stats"], ["doctor"]):
        assert main(["-f", str(path), *command]) == 0
    with holdfast.open(path) as engine:
        assert engine.admin.feed(limit=1_000) == before
