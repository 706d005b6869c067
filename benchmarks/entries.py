"""What checkpoints of a growing list cost on disk, against the checkpoints themselves."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import holdfast
from benchmarks import sample_messages
from benchmarks.harness import Bench, Spread
from benchmarks.report import Goal, Line, Table
from holdfast import codec
from holdfast.types import NewEntry

GOAL_MB = Goal("at most", 5)
LINEAR = Goal("at most", 2.5)
SIZES = (200, 400)


def checkpoint(rng: random.Random, messages: list[dict[str, Any]], step: int) -> dict[str, Any]:
    """A state as a graph of nodes stores it: all messages, and a version of each channel."""
    versions = {name: f"{step:032}.{rng.random()}" for name in ("__start__", "messages", "branch:to:model")}
    return {
        "v": 4,
        "ts": f"2026-11-17T10:{step // 60:02}:{step % 60:02}.000000+00:00",
        "id": f"{step:032x}",
        "channel_values": {"messages": [*messages], "branch:to:model": None},
        "channel_versions": versions,
        "versions_seen": {"__input__": {}, "__start__": {"__start__": versions["__start__"]}, "model": versions},
        "updated_channels": ["messages"],
    }


def message(rng: random.Random, step: int) -> dict[str, Any]:
    return {
        "type": ("human", "ai")[step % 2],
        "id": f"{rng.getrandbits(128):032x}",
        "content": (sample_messages.PROSE * 2)[: 200 + step * 211 % 800] + f" {step}",
        "additional_kwargs": {},
        "response_metadata": {"model_name": "a-model", "finish_reason": "stop"} if step % 2 else {},
        "name": None,
    }


def write(path: Path, steps: int, at_once: int = 1) -> int:
    """Append a checkpoint for each message, so many in one command; read the last one. Returns the bytes of all."""
    rng = random.Random(steps)
    messages: list[dict[str, Any]] = []
    raw = 0
    new: list[NewEntry] = []
    with holdfast.open(path) as engine:
        entries = engine.create_session("thread").entries
        for step in range(steps):
            messages.append(message(rng, step))
            body = checkpoint(rng, messages, step)
            raw += len(codec.encode(body))
            new.append(NewEntry("checkpoint", body["id"], body, f"{step - 1:032x}" if step else None))
            if len(new) == at_once or step == steps - 1:
                entries.append_all(new)
                new.clear()
        last = entries.get(f"{steps - 1:032x}")
        assert last is not None
        assert last.body == body
    return raw


def disk_bytes(path: Path) -> int:
    """The bytes of the file and of its blobs; the last to close has moved the write-ahead log into it."""
    blobs = Path(f"{path}.blobs")
    return path.stat().st_size + sum(each.stat().st_size for each in blobs.rglob("*") if each.is_file())


def run(bench: Bench) -> Table:
    sizes: dict[int, int] = {}
    lines: list[Line] = []
    for steps in SIZES:
        path = bench.file(f"{steps}.db")
        raw = write(path, steps)
        sizes[steps] = disk_bytes(path)
        lines.append(
            Line(
                what=f"{steps} checkpoints, up to {steps} messages",
                ours=f"{sizes[steps] / 1e6:,.2f} MB",
                theirs=f"{raw / 1e6:,.1f} MB",
                ratio=Spread.of([sizes[steps] / 1e6]),
                goal=GOAL_MB,
            )
        )
    first, last = SIZES
    lines.append(
        Line(
            what=f"the file at {last} over {first}",
            ours=f"{sizes[last] / 1e6:,.2f} MB",
            theirs=f"{sizes[first] / 1e6:,.2f} MB",
            ratio=Spread.of([sizes[last] / sizes[first]]),
            goal=LINEAR,
        )
    )
    return Table(
        name="entries",
        title="checkpoints of a conversation that grows by one message; the ratio is megabytes on disk",
        ours="file",
        theirs="checkpoints",
        lines=lines,
        notes=["Each checkpoint is the whole state. Twice as many checkpoints of up to twice as many messages."],
    )
