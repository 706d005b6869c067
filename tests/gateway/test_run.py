"""`holdfast run`: the command's variables, output, signals and exit code are its own, and its gateway outlives a kill."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.gateway.agents import (
    CHATGPT_URL,
    build_command,
    build_environment,
    extend_no_proxy,
    find_kind,
    find_providers,
    has_holdfast_in_login_shell,
)
from holdfast.gateway.run import RunOptions, choose_read_back
from tests.gateway.run_processes import end_with_tests, find_gateways
from tests.gateway.upstreams import Ask, FakeProvider, Reply, say

ROOT = Path(__file__).parents[2]
AGENT = [sys.executable, str(Path(__file__).with_name("run_agent.py"))]
WAIT_S = 60.0


# Variables and arguments


def test_the_command_gets_the_gateway_and_keeps_its_other_variables() -> None:
    before = {"HOME": "/home/ada", "PATH": "/bin", "NO_PROXY": "intern.example", "ANTHROPIC_API_KEY": "secret"}
    found = build_environment(before, "http://127.0.0.1:9", store="/data/g.db", tools="/tmp/tools")
    changed = {name for name in found if found[name] != before.get(name)}
    assert changed == {
        "ANTHROPIC_BASE_URL",
        "ENABLE_TOOL_SEARCH",
        "HOLDFAST_FILE",
        "HOLDFAST_RUN_URL",
        "NO_PROXY",
        "OPENAI_BASE_URL",
        "PATH",
        "no_proxy",
    }
    assert found["OPENAI_BASE_URL"] == "http://127.0.0.1:9/v1"
    assert found["PATH"] == "/tmp/tools:/bin"
    assert found["NO_PROXY"] == "intern.example,127.0.0.1,localhost,::1"
    assert build_environment(found, "http://x", store="s")["NO_PROXY"] == found["NO_PROXY"]


@pytest.mark.parametrize("before", [{"ENABLE_TOOL_SEARCH": "false"}, {"ANTHROPIC_BASE_URL": "http://own.example"}])
def test_tools_on_demand_are_as_the_user_has_them(before: dict[str, str]) -> None:
    found = build_environment(before, "http://127.0.0.1:9", store="s")
    assert found.get("ENABLE_TOOL_SEARCH") == before.get("ENABLE_TOOL_SEARCH")


@given(st.lists(st.sampled_from(["a.example", "*", "localhost", "127.0.0.1", "", " b "])))
def test_this_machine_needs_no_proxy(names: list[str]) -> None:
    value = extend_no_proxy(",".join(names))
    assert "*" in value or {"127.0.0.1", "localhost", "::1"} <= set(value.split(","))
    assert extend_no_proxy(value) == value
    assert all(name.strip() in value for name in names)


def test_only_codex_gets_an_argument_and_it_stands_before_all_others() -> None:
    assert build_command("codex", ["codex", "exec", "-c", "x=1"], "http://h") == [
        *("codex", "-c", 'openai_base_url="http://h/v1"', "exec", "-c", "x=1")
    ]
    for name in ("claude", "/opt/claude", "sh"):
        assert build_command(find_kind(name), [name, "-p", "--", "x"], "http://h") == [name, "-p", "--", "x"]
    assert find_kind("/usr/bin/codex") == "codex"


def test_requests_leave_for_the_provider_that_the_command_would_use(tmp_path: Path) -> None:
    own = {"ANTHROPIC_BASE_URL": "http://a", "OPENAI_BASE_URL": "http://o/v1", "CODEX_HOME": str(tmp_path)}
    assert find_providers("claude", "claude", own) == ("http://a", "http://o/v1")
    assert find_providers("other", "x", {}) == (None, None)
    login = tmp_path / "codex"
    login.write_text('#!/bin/sh\necho "Logged in using ChatGPT" >&2\n')
    login.chmod(0o755)
    assert find_providers("codex", str(login), own) == ("http://a", CHATGPT_URL), "a key never goes to another host"
    assert find_providers("codex", str(login), {**own, "CODEX_API_KEY": "k"}) == ("http://a", None)
    (tmp_path / "config.toml").write_text('openai_base_url = "http://mine/v1"\n')
    assert find_providers("codex", str(login), own) == ("http://a", "http://mine/v1")


def write_profile(home: Path, path: str) -> dict[str, str]:
    """The variables of a user whose login shells set PATH."""
    for name in (".profile", ".bash_profile", ".zprofile"):
        (home / name).write_text(f'PATH="{path}"; export PATH\n')
    return {**os.environ, "HOME": str(home), "ZDOTDIR": str(home)}


def test_codex_reads_by_a_tool_where_its_login_shells_do_not_find_the_command(tmp_path: Path) -> None:
    tools, options = tmp_path / "bin", RunOptions(command=("codex",), store="s", gateway_args=("--window=9000",))
    tools.mkdir()
    (tools / "holdfast").write_text("#!/bin/sh\n")
    (tools / "holdfast").chmod(0o755)
    kept, lost = tmp_path / "kept", tmp_path / "lost"
    kept.mkdir()
    lost.mkdir()
    environ = write_profile(lost, "/nowhere")
    assert not has_holdfast_in_login_shell({**environ, "PATH": f"{tools}:{environ['PATH']}"})
    chosen = choose_read_back(options, "codex", environ, str(tools))
    assert chosen.gateway_args == ("--window=9000", "--read-back=tool")
    assert choose_read_back(options, "claude", environ, str(tools)) == options, "its shells have PATH as it is"
    own = RunOptions(command=("codex",), store="s", gateway_args=("--read-back=none",))
    assert choose_read_back(own, "codex", environ, str(tools)) == own
    environ = write_profile(kept, f"{tools}:$PATH")
    assert has_holdfast_in_login_shell(environ)
    assert choose_read_back(options, "codex", environ, None) == options


# Processes


def count_turns(ask: Ask) -> Reply:
    return say(f"Turn {len(ask.request['messages']) // 2}.")


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with FakeProvider(count_turns) as running:
        yield running


def build_line(tmp_path: Path, *command: str, options: Sequence[str] = ()) -> list[str]:
    return [sys.executable, "-m", "holdfast", "run", "--file", str(tmp_path / "g.db"), *options, *command]


def build_variables(provider: FakeProvider) -> dict[str, str]:
    return {**os.environ, "ANTHROPIC_BASE_URL": provider.url, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "NO_COLOR": "1"}


def start(
    provider: FakeProvider, tmp_path: Path, *command: str, options: Sequence[str] = (), **more: Any
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        end_with_tests(*build_line(tmp_path, *command, options=options)),
        env=build_variables(provider),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def test_a_command_runs_whole_and_its_figures_are_its_own(provider: FakeProvider, tmp_path: Path) -> None:
    for _ in range(2):
        ran = start(provider, tmp_path, *AGENT, "ask", "3", options=["--json"])
        out, err = ran.communicate(timeout=WAIT_S)
        assert (ran.returncode, out) == (0, "Turn 0.\nTurn 1.\nTurn 2.\n")
        figures = json.loads(err)
        assert (figures["calls"], figures["failed"]) == (3, 0)
        assert figures["cost_usd"] == figures["plain_cost_usd"] > 0
    assert not find_gateways(tmp_path / "g.db")


def test_a_run_inside_another_uses_its_gateway(provider: FakeProvider, tmp_path: Path) -> None:
    inner = build_line(tmp_path, *AGENT, "ask", "2")
    ran = start(provider, tmp_path, *inner, options=["--json"])
    out, err = ran.communicate(timeout=WAIT_S)
    assert (ran.returncode, out) == (0, "Turn 0.\nTurn 1.\n")
    assert json.loads(err)["calls"] == 2


def test_a_gateway_that_runs_already_is_no_provider(provider: FakeProvider, tmp_path: Path) -> None:
    """In a shell that agents use a gateway from, a second one would record and shorten what the first one sends."""
    command = [sys.executable, "-m", "holdfast", "--json", "gateway", str(tmp_path / "g.db"), "--port", "0"]
    with subprocess.Popen(end_with_tests(*command), env=build_variables(provider), stdout=subprocess.PIPE) as first:
        assert first.stdout is not None
        url = json.loads(first.stdout.readline())["url"]
        for name, value in (("ANTHROPIC_BASE_URL", url), ("OPENAI_BASE_URL", f"{url}/v1")):
            variables = {**build_variables(provider), name: value}
            line = build_line(tmp_path, "touch", str(tmp_path / "ran"))
            for words, said in ((command, "use that one, or name the provider"), (line, "The command was not run.")):
                second = subprocess.run(
                    end_with_tests(*words), env=variables, capture_output=True, text=True, timeout=WAIT_S, check=False
                )
                assert second.returncode != 0
                where = f"at '{value}', from ANTHROPIC_BASE_URL or OPENAI_BASE_URL"
                assert f"{where}, a Holdfast gateway runs already" in second.stderr
                assert said in second.stderr
        first.terminate()
    assert not (tmp_path / "ran").exists()


def test_arguments_are_passed_on_as_they_are(provider: FakeProvider, tmp_path: Path) -> None:
    words = ["--json", "--file", "x", "--", "-q", "--help", ""]
    ran = start(provider, tmp_path, "--", *AGENT, *words)
    out, err = ran.communicate(timeout=WAIT_S)
    assert json.loads(out) == words
    assert "No call came to the gateway" in err


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT])
def test_signals_are_for_the_command(provider: FakeProvider, tmp_path: Path, number: signal.Signals) -> None:
    before = signal.signal(number, lambda *_: None)  # a suite in the background ignores it, and so would the command
    try:
        ran = start(provider, tmp_path, *AGENT, "wait", options=["--quiet"], start_new_session=True)
    finally:
        signal.signal(number, before)
    assert ran.stdout is not None
    assert ran.stdout.readline() == "ready\n"
    ran.send_signal(number)
    out, err = ran.communicate(timeout=WAIT_S)
    assert (ran.returncode, out, err) == (10 + number, f"got {int(number)}\n", "")
    assert not find_gateways(tmp_path / "g.db")


def test_a_signal_that_ends_the_command_is_in_the_exit_code(provider: FakeProvider, tmp_path: Path) -> None:
    ran = start(provider, tmp_path, "sh", "-c", "kill -9 $$", options=["-q"])
    ran.communicate(timeout=WAIT_S)
    assert ran.returncode == 128 + signal.SIGKILL


def test_figures_that_cannot_be_printed_leave_the_exit_code(provider: FakeProvider, tmp_path: Path) -> None:
    line = build_line(tmp_path, "sh", "-c", "exit 3")
    with open("/dev/full", "w", encoding="utf-8") as full:
        ran = subprocess.run(line, env=build_variables(provider), stderr=full, timeout=WAIT_S, check=False)
    assert ran.returncode == 3


def test_ctrl_c_on_a_terminal_reaches_the_command_once_and_not_the_gateway(
    provider: FakeProvider, tmp_path: Path
) -> None:
    line = build_line(tmp_path, *AGENT, "wait", options=["-q"])
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(line[0], line, build_variables(provider))
    seen = b""
    while b"ready" not in seen:
        seen += os.read(terminal, 1_000)
    os.write(terminal, b"\x03")
    with contextlib.suppress(OSError):  # a terminal whose processes are gone
        while data := os.read(terminal, 1_000):
            seen += data
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 10 + signal.SIGINT
    assert seen.count(b"got 2") == 1
    assert not find_gateways(tmp_path / "g.db")


def test_a_killed_gateway_comes_back_at_its_port(tmp_path: Path) -> None:
    killed: list[int] = []

    def choose(ask: Ask) -> Reply:
        turn = len(ask.request["messages"]) // 2
        if turn == 1 + len(killed) and len(killed) < 3:
            killed.extend(pid for pid in find_gateways(tmp_path / "g.db") if pid not in killed)
            os.kill(killed[-1], signal.SIGKILL)
        return say(f"Turn {turn}.")

    with FakeProvider(choose) as provider:
        ran = start(provider, tmp_path, *AGENT, "ask", "6", options=["--json"])
        out, err = ran.communicate(timeout=WAIT_S)
    assert (ran.returncode, out) == (0, "".join(f"Turn {turn}.\n" for turn in range(6)))
    note, figures = err.splitlines()
    assert "ended 3 times" in note
    assert 3 <= json.loads(figures)["calls"] <= 6, "a kill loses the figures of one call at most"


def test_a_run_that_is_killed_leaves_its_gateway_to_the_command_and_no_longer(
    provider: FakeProvider, tmp_path: Path
) -> None:
    ran = start(provider, tmp_path, *AGENT, "wait", options=["-q"], start_new_session=True)
    assert ran.stdout is not None
    assert ran.stderr is not None
    assert ran.stdout.readline() == "ready\n"
    (gateway,) = find_gateways(tmp_path / "g.db")
    ran.kill()
    ran.wait()
    os.kill(gateway, 0)
    os.killpg(ran.pid, signal.SIGTERM)  # the command
    ran.stdout.close()
    ran.stderr.close()
    until = time.monotonic() + WAIT_S
    while find_gateways(tmp_path / "g.db"):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_nothing_of_a_run_outlives_tests_that_are_killed(provider: FakeProvider, tmp_path: Path) -> None:
    script = "from tests.gateway.test_run import *\n"
    script += "provider = type('Provider', (), {'url': sys.argv[2]})\n"
    script += "ran = start(provider, Path(sys.argv[1]), *AGENT, 'wait', options=['-q'], start_new_session=True)\n"
    script += "print(ran.stdout.readline() + str(ran.pid), flush=True)\n"
    script += "signal.pause()\n"
    tests = subprocess.Popen(
        end_with_tests(sys.executable, "-c", script, str(tmp_path), provider.url),
        cwd=ROOT,
        env=build_variables(provider),
        stdout=subprocess.PIPE,
        text=True,
    )
    with tests:
        assert tests.stdout is not None
        assert tests.stdout.readline() == "ready\n"
        run = int(tests.stdout.readline())
        assert find_gateways(tmp_path / "g.db")
        tests.kill()
    until = time.monotonic() + WAIT_S
    while find_gateways(tmp_path / "g.db") or Path(f"/proc/{run}/cmdline").exists():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_nothing_is_run_without_a_gateway(provider: FakeProvider, tmp_path: Path) -> None:
    (tmp_path / "g.db").write_bytes(b"not a store" * 100)
    ran = start(provider, tmp_path, "touch", str(tmp_path / "ran"))
    _, err = ran.communicate(timeout=WAIT_S)
    assert ran.returncode == 4
    assert re.search(r"The gateway did not start: .*g\.db.*The command was not run\.", err)
    assert not (tmp_path / "ran").exists()
    ran = start(provider, tmp_path, "no-such-program-at-all")
    _, err = ran.communicate(timeout=WAIT_S)
    assert (ran.returncode, "no-such-program-at-all" in err) == (3, True)
