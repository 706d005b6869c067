"""What the fake models say to real agents. A reply follows from the request alone, so that a request that is sent again
gets the same one."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from typing import Any

from holdfast.gateway.read_back import READ_TOOL
from tests.conformance_gateway.agents import list_messages
from tests.gateway.upstreams import Ask, Reply, say
from tests.gateway.upstreams.replies import CUSTOM

COMMAND = re.compile(r"`(holdfast read [^`]+)`")
HANDLE = re.compile(r"\[(h\d+_\d+)\]")
READ_TAIL = ": lines "
"""In what the gateway says of a reading."""
STEP = re.compile(r"STEP-(\d+)\b")
NOT_THE_USER = ("<system-reminder>", "Summary of earlier context", "<environment_context>")
ORIGINAL = "the words of result {step} on line 77"


def count_steps(ask: Ask) -> int:
    """The step that comes next: one more than the last one that the transcript or its summary names."""
    steps = [int(number) for number in STEP.findall(json.dumps(list_messages(ask.request), ensure_ascii=False))]
    return max(steps, default=-1) + 1


def print_lines(step: int, lines: int = 150) -> str:
    """A command that prints a result of about 7 kB, with words that stand nowhere else."""
    words = ORIGINAL.format(step=step)
    return f"for i in $(seq {lines}); do echo \"$i result {step} has a line of some length\"; done; echo '{words}'"


def read_last_user_text(ask: Ask) -> str:
    """What the user wrote last."""
    texts = []
    for message in list_messages(ask.request):
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        texts += [
            block["text"]
            for block in blocks
            if message.get("role") == "user" and block.get("type") in ("text", "input_text")
        ]
    return next((text for text in reversed(texts) if not text.startswith(NOT_THE_USER)), "")


def read_results(ask: Ask) -> list[str]:
    """What tools returned, as texts."""
    found = []
    for message in list_messages(ask.request):
        blocks = message.get("content") if isinstance(message.get("content"), list) else [message]
        for block in blocks or []:
            if block.get("type") == "tool_result":
                found.append(json.dumps(block.get("content"), ensure_ascii=False))
            elif block.get("type") in ("function_call_output", "custom_tool_call_output"):
                found.append(json.dumps(block.get("output"), ensure_ascii=False))
    return found


def bash(dialect: str, step: int, command: str) -> tuple[str, dict[str, Any]]:
    """A call of the agent's shell."""
    if dialect == "anthropic":
        return "Bash", {"command": command, "description": f"STEP-{step}"}
    return "exec_command", {"cmd": f": STEP-{step}; {command}"}


def work(steps: int, *, parallel: bool = False, speaks: bool = True) -> Callable[[Ask], Reply]:
    """A model that runs so many commands, and then says that it is done. Between them it `speaks`, or not: of a reply that
    is cut, clients keep what they have read, so a text before a call may come once more, or without its call."""

    def choose(ask: Ask) -> Reply:
        step = count_steps(ask)
        if step >= steps:
            return say(f"Done with all {steps} steps. The last question was: {read_last_user_text(ask)[:60]}")
        calls = [bash(ask.dialect, step, print_lines(step))]
        if parallel and step % 3 == 1:
            calls.append(bash(ask.dialect, step, f"echo second of {step}"))
        return say(f"I begin STEP-{step}." if speaks else "", *calls)

    return choose


def work_in_javascript(steps: int) -> Callable[[Ask], Reply]:
    """The same for a Codex whose tools run in its interpreter."""

    def choose(ask: Ask) -> Reply:
        step = count_steps(ask)
        if step >= steps:
            return say(f"Done with all {steps} steps.")
        command = json.dumps(f"{print_lines(step)} # STEP-{step}")
        return say("", ("exec", {CUSTOM: f"const r = await tools.exec_command({{cmd: {command}}}); text(r.output);"}))

    return choose


def answer_questions(ask: Ask) -> Reply:
    """A model that needs one command for each question, and sums up for a compaction."""
    question = read_last_user_text(ask)
    if "Respond with TEXT ONLY" in json.dumps(list_messages(ask.request)[-1]):
        return say("<summary>The user asked, and the work went well. STEP-0 is done.</summary>")
    words = question.strip()[-20:]
    if any(f"about {words}" in result for result in read_results(ask)):
        return say(f"The answer to {words}")
    return say("", bash(ask.dialect, 0, f"echo 'about {words}'"))


class ReadBack:
    """A model that works until its context has a summary, runs the command that the summary names, and says what it got."""

    def __init__(self) -> None:
        self.command = ""
        self.result = ""
        self._lock = threading.Lock()

    def __call__(self, ask: Ask) -> Reply:
        with self._lock:
            step = count_steps(ask)
            text = json.dumps(list_messages(ask.request), ensure_ascii=False)
            found = next((match[1] for match in COMMAND.finditer(text)), "")
            if self.command:
                self.result = read_results(ask)[-1]
                return say("Read again.")
            if found:
                self.command = found.removesuffix(" --lines 1-80") + " --lines -3"
                return say("I read it again.", bash(ask.dialect, step, self.command))
            if step > 40:
                return say("There is no summary.")
            return say("", bash(ask.dialect, step, print_lines(step)))


class ToolRead:
    """A model that works until it has the tool of the gateway, reads a result with it, and says what it got."""

    def __init__(self) -> None:
        self.result = ""
        self._lock = threading.Lock()

    def __call__(self, ask: Ask) -> Reply:
        with self._lock:
            step = count_steps(ask)
            texts = read_results(ask)
            mine = next((text for text in texts if READ_TAIL in text), "")
            if mine:
                self.result = mine
                return say("Read again.")
            handles = HANDLE.findall(json.dumps(list_messages(ask.request), ensure_ascii=False))
            if handles and any(tool.get("name") == READ_TOOL for tool in ask.request["tools"]):
                return say("I read it again.", (READ_TOOL, {"handle": handles[0], "first_line": 151}))
            if step > 40:
                return say("There is no summary.")
            return say("", bash(ask.dialect, step, print_lines(step)))


def send_agents(ask: Ask) -> Reply:
    """A model that sends two sub-agents at once, each with two commands, and sums up what they say."""
    is_sub = bool(ask.exchange.get("x-claude-code-agent-id"))
    results = read_results(ask)
    if is_sub:
        name = re.findall(r"agent number (one|two)", json.dumps(list_messages(ask.request)[0]))[-1]
        if len(results) < 2:
            return say("", ("Bash", {"command": f"echo {name} {len(results)}", "description": "x"}))
        return say(f"Report of {name}.")
    if not results:
        calls = [
            (
                "Agent",
                {
                    "description": f"Agent {name}",
                    "prompt": f"You are agent number {name}.",
                    "subagent_type": "general-purpose",
                },
            )
            for name in ("one", "two")
        ]
        return say("I send two.", *calls)
    reports = sorted(set(re.findall(r"Report of (one|two)", " ".join(results))))
    return say(f"Reports came from: {', '.join(reports)}.")
