"""What `holdfast inspect` takes for the log of an agent: its report, and the file with all views.

The log is written for this measurement: an agent that reads and changes files, in the shape of Claude Code. Times are CPU
times of the command as a process of its own, its start included: that is what somebody waits for.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.harness import FSYNC, Bench, Sample, each_us, limit_met, time_ratio
from benchmarks.report import Goal, Line, Table, micros

GOAL_FILE = Goal("at most", 3)
"""The file has the packs of a hundred calls, with their differences: it may take as long as the report again, and again."""
GOAL_GROWTH = Goal("at most", 5)
"""Of a log four times as long: a little more than four times, since each call has all before it in its prompt."""
_WORDS = "the rate of a tax is in a file that we read and change before a test runs again and passes or fails".split()
_MODEL = "claude-opus-4-5"


def list_lines(calls: int) -> Iterator[dict[str, Any]]:
    """A session of Claude Code of so many calls: it reads a file, changes it, and says so."""
    chance = random.Random(3)
    previous: str | None = None
    prompt = 9_000
    for number in range(calls):
        step, name, call = number % 3, f"/srv/shop/f{number // 3 % 7}.py", f"t{number}"
        read = "\n".join(" ".join(chance.choices(_WORDS, k=9)) for _ in range(60))
        turn: list[tuple[str, list[dict[str, Any]]]] = []
        if step == 0:
            turn.append(
                ("user", [{"type": "text", "text": f"Question {number}: {' '.join(chance.choices(_WORDS, k=20))}?"}])
            )
        if step == 2:
            turn.append(("assistant", [{"type": "text", "text": f"Done: {' '.join(chance.choices(_WORDS, k=30))}."}]))
        else:
            tool = "Read" if step == 0 else "Edit"
            args = {"file_path": name} | ({} if step == 0 else {"old_string": read[:40], "new_string": f"new {number}"})
            result = read if step == 0 else "The file was changed."
            turn.append(("assistant", [{"type": "tool_use", "id": call, "name": tool, "input": args}]))
            turn.append(("user", [{"type": "tool_result", "tool_use_id": call, "content": result}]))
        for at, (role, content) in enumerate(turn):
            uuid = f"u{number}-{at}"
            seconds = number * 10 + at
            line: dict[str, Any] = {"type": role, "uuid": uuid, "parentUuid": previous, "sessionId": "s1"}
            line["timestamp"] = f"2026-03-01T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z"
            line["message"] = {"role": role, "content": content}
            if role == "assistant":
                usage = {"input_tokens": 10, "cache_read_input_tokens": prompt if number else 0, "output_tokens": 30}
                usage["cache_creation_input_tokens"] = 500
                line["message"] |= {"id": f"msg_{number}", "model": _MODEL, "usage": usage}
                prompt += 500
            previous = uuid
            yield line


def write_log(path: Path, calls: int) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in list_lines(calls)))
    return path


def measure_command(*words: str) -> Sample:
    """The CPU time of the command."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "holdfast", "--json", "inspect", *words]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert not process.returncode, f"{command} ended with {process.returncode}"
    return Sample(1, used.ru_utime + used.ru_stime, used.ru_utime + used.ru_stime)


def run(bench: Bench) -> Table:
    rounds, calls = bench.pick(7, 3), bench.pick(300, 100)
    short = write_log(bench.file("short.jsonl"), calls)
    long = write_log(bench.file("long.jsonl"), 4 * calls)
    page = bench.file("short.html")
    turns = {
        "report": lambda: measure_command(str(short)),
        "file": lambda: measure_command(str(short), "-o", str(page), "--force"),
        "long": lambda: measure_command(str(long)),
    }
    samples = bench.in_turns(rounds, turns)
    shown = {name: micros(each_us(samples[name])) for name in turns}
    lines = [
        Line(
            what=f"a file of {calls} calls, {page.stat().st_size:,} bytes",
            ours=shown["file"],
            theirs=shown["report"],
            ratio=time_ratio(samples["file"], samples["report"]),
            goal=GOAL_FILE,
            limit=limit_met(samples["file"], samples[FSYNC]),
        ),
        Line(
            what=f"the report of {4 * calls} calls, {long.stat().st_size:,} bytes",
            ours=shown["long"],
            theirs=shown["report"],
            ratio=time_ratio(samples["long"], samples["report"]),
            goal=GOAL_GROWTH,
            limit=limit_met(samples["long"], samples[FSYNC]),
        ),
    ]
    return Table(
        name="inspect_log",
        title="a log of an agent, by the command line",
        ours="CPU time",
        theirs=f"the report of {calls} calls",
        lines=lines,
        notes=[
            f"{rounds} processes each, in turns; CPU time, the start of the interpreter included.",
            f"The log of {calls} calls has {short.stat().st_size:,} bytes.",
        ],
    )
