"""Killed in the middle of checkpoints: each is there with its whole body, or not at all; those acknowledged are there.

Run as a program, this module is the nursery of savers: each appends checkpoints of a list that grows, and deletes old ones.
"""

from __future__ import annotations

import os
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import holdfast
from tests.crash.stores import KINDS, create_store
from tests.crash.worker import Nursery, exit_on_error, serve_nursery
from tests.support import figure

ROUNDS = figure(10, 300)
KEPT = 5


def body_of(step: int) -> dict[str, Any]:
    """The state after a step: it follows from the number."""
    messages = [f"message {each} of the conversation " * (each % 40) for each in range(step)]
    return {"messages": messages, "large": f"{step // 7} " * 30_000, "step": step}


class Saver(msgspec.Struct, frozen=True):
    url: str


def save_until_killed(line: bytes) -> None:
    with exit_on_error():
        entries = holdfast.open(msgspec.json.decode(line, type=Saver).url).session("s", create=True).entries
        newest = entries.list(limit=1)
        step = int(newest[0].key) if newest else 0
        while True:
            step += 1
            entries.append("checkpoint", str(step), body_of(step), parent=str(step - 1))
            os.write(1, f"saved {step}\n".encode())
            if step % KEPT == 0:
                entries.delete([str(each) for each in range(max(1, step - 900), step - KEPT)])
                os.write(1, f"deleted {step - KEPT}\n".encode())


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_is_there_as_a_whole_or_not_at_all(kind: str, tmp_path: Path) -> None:
    rng = random.Random(7)
    with create_store(kind, tmp_path) as store, closing(Nursery("tests.crash.test_entry_kill", b"saved")) as nursery:
        for _ in range(ROUNDS):
            said = nursery.run_and_kill(Saver(store.url), rng.randrange(1, 8), rng.random() * 0.03)
            saved = max(int(line.split()[1]) for line in said if line.startswith(b"saved"))
            deleted = max((int(line.split()[1]) for line in said if line.startswith(b"deleted")), default=0)
            with holdfast.open(store.url) as engine:
                entries = engine.session("s").entries.list()
                steps = [int(entry.key) for entry in entries]
                assert steps == [*range(steps[0], steps[-1] - 1, -1)], "they are in order, without a gap"
                assert steps[0] in (saved, saved + 1), "what was acknowledged is there, and at most one more"
                assert steps[-1] >= deleted, "what was deleted is gone"
                for entry in entries:
                    assert entry.body == body_of(int(entry.key))
        with holdfast.open(store.url) as engine:
            report = engine.admin.verify()
            assert report.ok, report.problems


if __name__ == "__main__":
    serve_nursery(save_until_killed)
