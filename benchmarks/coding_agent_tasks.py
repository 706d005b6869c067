"""The work of a coding agent, made up: turns of a user who asks for changes, and what the agent's tools return.

Most results are short (edits, listings, searches), some are files and logs of tests, and now and then one has megabytes.
All of it follows from one seed.
"""

from __future__ import annotations

import random

import msgspec

SEED = 17


MEAN_CALLS = 3
"""Model calls of a turn."""


KB = 1_000


MB = 1_000_000


KINDS = {"edit": 38, "grep": 34, "test": 13, "read": 13, "dump": 2}
"""How often each tool is called, of a hundred calls: a call adds as much as in recorded sessions, some 900 tokens."""


SIZES = {
    "edit": (80, 400),
    "grep": (300, 6 * KB),
    "test": (500, 20 * KB),
    "read": (2 * KB, 60 * KB),
    "dump": (MB, 5 * MB),
}
"""Characters of what each returns: from, to. Short ones are as frequent as long ones on a logarithmic scale."""


WORDS = ("session", "frame", "ledger", "budget", "handle", "pack", "guard", "view", "store", "event", "price", "turn")


class Step(msgspec.Struct, frozen=True):
    """A model call: what the agent says, and the tool that it calls; no tool ends the turn."""

    text: str
    tool: str = ""
    path: str = ""
    result: str = ""


class Task(msgspec.Struct, frozen=True):
    """A turn."""

    question: str
    steps: list[Step]


def tasks(turns: int, seed: int = SEED) -> list[Task]:
    """So many turns, with `MEAN_CALLS` model calls on average."""
    chance = random.Random(seed)
    calls = [chance.choice((1, 2, 2, 3, 3, 4, 6)) for _ in range(turns)]
    while (missing := turns * MEAN_CALLS - sum(calls)) != 0:
        at = chance.randrange(turns)
        calls[at] = max(1, calls[at] + (1 if missing > 0 else -1))
    return [
        Task(_question(chance, number), [_step(chance, number, at, count) for at in range(count)])
        for number, count in enumerate(calls)
    ]


def _question(chance: random.Random, number: int) -> str:
    subject, other = chance.sample(WORDS, 2)
    return (
        f"Task {number}: let {subject}_{number} report its {other}, and add a test. See src/{subject}_{number % 40}.py."
    )


def _step(chance: random.Random, number: int, at: int, calls: int) -> Step:
    subject = chance.choice(WORDS)
    if at == calls - 1:
        return Step(f"Task {number} is done: {subject}_{number} is in place and its tests pass.")
    tool = chance.choices(list(KINDS), weights=list(KINDS.values()))[0]
    low, high = SIZES[tool]
    size = round(low * (high / low) ** chance.random())
    path = f"src/{subject}_{number % 40}.py"
    return Step(f"I look at {subject}_{number}, step {at}.", tool, path, _result(chance, tool, f"{number}.{at}", size))


def _result(chance: random.Random, tool: str, mark: str, size: int) -> str:
    """A text of about so many characters; no two are the same."""
    lines, length = [f"# {tool} {mark} begins"], 0
    step = chance.randrange(10_000, 99_999)
    while length < size:
        word = WORDS[(len(lines) * 7 + step) % len(WORDS)]
        lines.append(
            f"    {word}_{step + len(lines)} = load_{word}(row={len(lines)}, offset={step * len(lines) % 9_973})"
        )
        length += len(lines[-1]) + 1
    lines.insert(len(lines) // 2, f"# {tool} {mark} middle")
    return "\n".join([*lines, f"# {tool} {mark} ends"])
