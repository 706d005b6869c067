"""What must hold of real agents with and without the gateway. Each check raises AssertionError, or passes."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.conformance_gateway import scripts
from tests.conformance_gateway.agents import AgentResult, Desktop, list_messages, open_desktop
from tests.gateway.run_processes import find_gateways
from tests.gateway.upstreams import Ask, Reply
from tests.gateway.upstreams.server import Script

CLAUDE_WINDOW = 24_000
CODEX_WINDOW = 20_000
"""Small enough for boundaries after a few results: the heads of both agents have about 16,000 tokens."""
KILLS_MS = (0, 1, 3, 6, 10, 20, 40, 80, 200)
"""How long after a request reaches the provider its gateway is killed."""


class Observation(NamedTuple):
    """What a user sees, and what the provider sees."""

    results: list[tuple[int, str, int]]
    messages: list[tuple[str, int]]
    boundaries: int = 0


class Laboratory:
    """Where checks run: the agents' programs, and a folder."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.folder = programs, folder

    def open(
        self, script: Script, *, through: bool, window: int | None = None
    ) -> contextlib.AbstractContextManager[Desktop]:
        return open_desktop(self.folder, self.programs, script, through=through, window=window)

    def observe(
        self,
        script: Script,
        use: Callable[[Desktop], Sequence[AgentResult]],
        *,
        through: bool,
        window: int | None = None,
    ) -> Observation:
        with self.open(script, through=through, window=window) as desktop:
            results = [result.seen for result in use(desktop)]
            assert all(code == 0 for code, _, _ in results), results
            boundaries = 0
            if through:
                find_session(desktop)
                boundaries = read_figures(desktop)["boundaries"]
            return Observation(results, desktop.count_messages(), boundaries)

    def compare(self, script: Script, use: Callable[[Desktop], Sequence[AgentResult]]) -> Observation:
        """Without boundaries, user and provider see the same."""
        plain = self.observe(script, use, through=False)
        shown = self.observe(script, use, through=True)
        assert shown.results == plain.results, (shown.results, plain.results)
        assert shown.messages == plain.messages, (shown.messages, plain.messages)
        assert shown.boundaries == 0
        return shown

    def compare_shortened(
        self, script: Script, use: Callable[[Desktop], Sequence[AgentResult]], window: int
    ) -> Observation:
        """With boundaries, the user sees the same, and the provider sees as many calls, some of them shorter."""
        plain = self.observe(script, use, through=False)
        shown = self.observe(script, use, through=True, window=window)
        assert shown.results == plain.results, (shown.results, plain.results)
        assert len(shown.messages) == len(plain.messages)
        assert shown.messages != plain.messages, plain.messages
        assert shown.boundaries >= 1
        return shown


def read_figures(desktop: Desktop) -> dict[str, int]:
    done = desktop.holdfast("--json", "stats", "--gateway")
    assert done.returncode == 0, done.stderr
    figures: dict[str, int] = json.loads(done.stdout)
    assert figures["refusals"] == 0, figures
    return figures


# Claude Code


def check_claude_with_tools(lab: Laboratory) -> None:
    seen = lab.compare(scripts.work(5, parallel=True), lambda desk: [desk.claude("Do the five steps.")])
    assert len(seen.messages) == 6
    assert "Done with all 5 steps" in seen.results[0][1]


def use_resume(desk: Desktop) -> list[AgentResult]:
    first = desk.claude("What is question one?")
    second = desk.claude("What is question two?", "--resume", first.session)
    return [first, second, desk.claude("What is question three?", "--resume", second.session)]


def check_claude_resume(lab: Laboratory) -> None:
    seen = lab.compare(scripts.answer_questions, use_resume)
    assert len({text for _, text, _ in seen.results}) == 3


def use_compact(desk: Desktop) -> list[AgentResult]:
    first = desk.claude("What is question one?")
    compacted = desk.claude("/compact", "--resume", first.session)
    return [first, compacted, desk.claude("What is question two?", "--resume", first.session)]


def check_claude_compact(lab: Laboratory) -> None:
    lab.compare(scripts.answer_questions, use_compact)


def check_claude_sub_agents(lab: Laboratory) -> None:
    with lab.open(scripts.send_agents, through=False) as desk:
        plain = desk.claude("Send two agents.")
        counts = desk.count_messages()
    with lab.open(scripts.send_agents, through=True) as desk:
        shown = desk.claude("Send two agents.")
        assert (shown.seen, desk.count_messages()) == (plain.seen, counts)
        assert shown.text == "Reports came from: one, two."
        frames = [
            json.loads(line) for line in desk.holdfast("--json", "frames", find_session(desk)).stdout.splitlines()
        ]
        assert len(frames) == 2, frames
        assert {frame["status"] for frame in frames} == {"completed"}, frames


def check_claude_boundary(lab: Laboratory) -> None:
    lab.compare_shortened(scripts.work(14), lambda desk: [desk.claude("Do the steps.")], CLAUDE_WINDOW)


def check_claude_boundary_and_resume(lab: Laboratory) -> None:
    def use(desk: Desktop) -> list[AgentResult]:
        first = desk.claude("Do the steps.")
        return [first, desk.claude("And what else?", "--resume", first.session)]

    lab.compare_shortened(scripts.work(12), use, CLAUDE_WINDOW)


def check_read_back(lab: Laboratory, run: Callable[[Desktop], AgentResult], window: int) -> None:
    script = scripts.ReadBack()
    with lab.open(script, through=True, window=window) as desk:
        result = run(desk)
        assert (result.code, result.text) == (0, "Read again."), result
        assert script.command.startswith("holdfast read ")
        assert any(scripts.ORIGINAL.format(step=step) in script.result for step in range(40)), script.result


def check_claude_read_back(lab: Laboratory) -> None:
    check_read_back(lab, lambda desk: desk.claude("Do the steps."), CLAUDE_WINDOW)


class Killer:
    """A script during which gateways are killed, once for each of the first steps, at different moments."""

    def __init__(self, script: Callable[[Ask], Reply], delays_ms: Sequence[int]) -> None:
        self.script, self.delays_ms = script, delays_ms
        self.store = Path()
        self.killed = 0
        self._struck: set[int] = set()
        self._lock = threading.Lock()

    def __call__(self, ask: Ask) -> Reply:
        count = len(list_messages(ask.request))
        with self._lock:
            number = len(self._struck)
            if count not in self._struck and number < len(self.delays_ms):
                self._struck.add(count)
                timer = threading.Timer(self.delays_ms[number] / 1_000, self._kill)
                timer.daemon = True
                timer.start()
        return self.script(ask)

    def _kill(self) -> None:
        for pid in find_gateways(self.store):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.killed += 1


def check_kills(lab: Laboratory, steps: int, run: Callable[[Desktop], AgentResult], window: int | None = None) -> None:
    script = scripts.work(steps, speaks=False)
    with lab.open(script, through=False) as desk:
        plain = run(desk)
    delays = [*KILLS_MS]
    random.Random(7).shuffle(delays)
    killer = Killer(script, delays)
    with lab.open(killer, through=True, window=window) as desk:
        killer.store = desk.store
        shown = run(desk)
        assert shown.seen == plain.seen, (shown, plain)
        find_session(desk)
        assert killer.killed >= len(delays) // 2, killer.killed
        assert desk.holdfast("verify").returncode == 0


def check_claude_kills(lab: Laboratory) -> None:
    check_kills(lab, 12, lambda desk: desk.claude("Do the steps."), CLAUDE_WINDOW)


def find_session(desk: Desktop) -> str:
    """The session of the conversation: one, without a fork that nobody made."""
    rows = [json.loads(line) for line in desk.holdfast("--json", "sessions", "list").stdout.splitlines()]
    names = [row["session"] for row in rows if row["session"].startswith(("claude-", "codex-"))]
    assert len(names) == 1, rows
    return str(names[0])


def check_commands(lab: Laboratory) -> None:
    """What was recorded is a normal session."""
    with lab.open(scripts.work(8), through=True, window=CLAUDE_WINDOW) as desk:
        assert desk.claude("My name is Ada. Do the steps.").code == 0
        session = find_session(desk)
        page = desk.work / "page.html"
        for command in (
            ("sessions", "show", session),
            ("pack", session, "--budget", "20000"),
            ("context", session),
            ("calls", session),
            ("log", session),
            ("facts", "list", "--session", session),
            ("recover", session),
            ("inspect", str(desk.store), session, "--output", str(page)),
            ("export", str(desk.work / "all.jsonl")),
            ("export", str(desk.work / "one.jsonl"), "--transcript", session),
            ("verify",),
            ("doctor",),
        ):
            done = desk.holdfast(*command)
            assert done.returncode == 0, (command, done.stdout[-500:], done.stderr[-500:])
        assert page.stat().st_size > 1_000
        lines = (desk.work / "one.jsonl").read_text().splitlines()
        assert sum("STEP-7" in line for line in lines) >= 1


# Codex


def check_codex_with_tools(lab: Laboratory) -> None:
    seen = lab.compare(scripts.work(5, parallel=True), lambda desk: [desk.codex("Do the five steps.")])
    assert "Done with all 5 steps" in seen.results[0][1]


def check_codex_figures(lab: Laboratory) -> None:
    """Codex sends replies back with fields of its own: they are the replies that were recorded, and no boundaries."""
    with lab.open(scripts.work(8), through=False) as desk:
        assert desk.codex("Do the steps.").code == 0
        truth = desk.provider.bill.as_dict()["dollars"]
    with lab.open(scripts.work(8), through=True, window=CODEX_WINDOW) as desk:
        assert desk.codex("Do the steps.").code == 0
        assert "withdrawn" not in desk.holdfast("log", find_session(desk), "--limit", "0").stdout
        found = read_figures(desk)
        assert 0 < found["boundaries"] < 4, found
        assert abs(found["plain_cost_usd"] - truth) < 0.02 * truth, (found, truth)


def check_codex_in_javascript(lab: Laboratory) -> None:
    lab.compare(scripts.work_in_javascript(4), lambda desk: [desk.codex("Do it.", model="gpt-6.1-sol")])


def check_codex_boundary_in_javascript(lab: Laboratory) -> None:
    lab.compare_shortened(
        scripts.work_in_javascript(14), lambda desk: [desk.codex("Do it.", model="gpt-6.1-sol")], CODEX_WINDOW + 4_000
    )


def check_codex_resume(lab: Laboratory) -> None:
    def use(desk: Desktop) -> list[AgentResult]:
        first = desk.codex("What is question one?")
        return [first, desk.codex("resume", first.session, "What is question two?")]

    lab.compare(scripts.answer_questions, use)


def check_codex_boundary(lab: Laboratory) -> None:
    lab.compare_shortened(scripts.work(14), lambda desk: [desk.codex("Do the steps.")], CODEX_WINDOW)


def check_codex_login(lab: Laboratory) -> None:
    """With a login by ChatGPT, bodies are compressed."""

    def use(desk: Desktop) -> list[AgentResult]:
        desk.log_in()
        result = desk.codex("Do the steps.")
        assert {each.get("content-encoding") for each in desk.calls} == {"zstd"}
        assert {each.get("chatgpt-account-id") for each in desk.calls} == {"none"}
        return [result]

    lab.compare_shortened(scripts.work(14), use, CODEX_WINDOW)


def check_codex_read_back(lab: Laboratory) -> None:
    check_read_back(lab, lambda desk: desk.codex("Do the steps."), CODEX_WINDOW)


def check_codex_tool(lab: Laboratory) -> None:
    """Where its shells do not find the command, it reads by the tool of the gateway."""
    script = scripts.ToolRead()
    with lab.open(script, through=True, window=CODEX_WINDOW) as desk:
        desk.lose_command()
        result = desk.codex("Do the steps.")
        assert (result.code, result.text) == (0, "Read again."), result
        assert any(scripts.ORIGINAL.format(step=step) in script.result for step in range(40)), script.result


def check_codex_kills(lab: Laboratory) -> None:
    check_kills(lab, 12, lambda desk: desk.codex("Do the steps."), CODEX_WINDOW)


CHECKS: dict[str, Callable[[Laboratory], None]] = {
    "Claude Code: tools, some of them parallel": check_claude_with_tools,
    "Claude Code: --resume": check_claude_resume,
    "Claude Code: /compact": check_claude_compact,
    "Claude Code: two sub-agents at once": check_claude_sub_agents,
    "Claude Code: a boundary in the middle": check_claude_boundary,
    "Claude Code: a boundary, and --resume": check_claude_boundary_and_resume,
    "Claude Code: its shell reads back what left its view": check_claude_read_back,
    "Claude Code: gateways that are killed": check_claude_kills,
    "the commands of Holdfast on what was recorded": check_commands,
    "Codex: tools, some of them parallel": check_codex_with_tools,
    "Codex: its replies are recorded once, and its figures are true": check_codex_figures,
    "Codex: tools in its interpreter": check_codex_in_javascript,
    "Codex: tools in its interpreter, and boundaries": check_codex_boundary_in_javascript,
    "Codex: resume": check_codex_resume,
    "Codex: a boundary in the middle": check_codex_boundary,
    "Codex: a login by ChatGPT, and boundaries": check_codex_login,
    "Codex: its shell reads back what left its view": check_codex_read_back,
    "Codex: it reads back by a tool where its shells lack the command": check_codex_tool,
    "Codex: gateways that are killed": check_codex_kills,
}


def run_check(programs: Path, check: Callable[[Laboratory], None]) -> None:
    with tempfile.TemporaryDirectory(prefix="holdfast-agents-") as folder:
        check(Laboratory(programs, Path(folder)))
