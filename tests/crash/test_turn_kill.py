"""Owners of turns are killed, stopped and overtaken: no turn mixes with another, and nothing acknowledged is lost.

Run as a program, this module is one owner: it takes turns on one session, and says what was acknowledged.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast import errors
from tests.crash.stores import KINDS, create_store
from tests.support import figure

OWNERS = 3
KILLS = figure(4, 100)
LINES = 3
"""An owner is killed after so many lines at most."""
LEASE_S = 0.6
SEED = 20_261_117
ROOT = Path(__file__).parents[2]


def work(url: str, name: str) -> None:
    """Question and reply in one turn, again and again, until somebody ends this process."""
    with holdfast.open(url) as engine:
        session = engine.session("s")
        number = 0
        while True:
            number += 1
            try:
                with session.turn(lease_s=LEASE_S, owner=name) as turn:
                    for role in ("user", "assistant"):
                        turn.record(role, f"{name} {number}")
                        os.write(1, f"{role} {name} {number}\n".encode())
            except errors.LeaseLost:
                os.write(1, b"lost\n")
            except errors.StorageBusy:
                continue  # the owner that is stopped has the lock of the file


class Owner:
    """A process that takes turns, and the lines that it wrote."""

    def __init__(self, url: str, name: str) -> None:
        command = [sys.executable, "-m", "tests.crash.test_turn_kill", url, name]
        self.process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line.strip())
                self._changed.notify_all()

    def wait_for_lines(self, count: int, patience_s: float = 120) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self.lines) >= count, patience_s)

    def kill(self) -> list[str]:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.lines


@contextmanager
def open_owners(url: str) -> Iterator[list[Owner]]:
    owners = [Owner(url, f"o{number}") for number in range(OWNERS)]
    try:
        yield owners
    finally:
        for owner in owners:
            owner.kill()


@pytest.mark.promise(1, f"{KILLS} owners of turns are killed, stopped or overtaken")
@pytest.mark.parametrize("kind", KINDS)
def test_owners_that_are_killed_or_stopped_never_mix_their_turns(kind: str, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    with create_store(kind, tmp_path) as store:
        url = store.url
        with holdfast.open(url) as engine:
            engine.create_session("s")
        lines: list[str] = []
        with open_owners(url) as owners:
            for number in range(KILLS):
                at = rng.randrange(OWNERS)
                assert owners[at].wait_for_lines(rng.randint(1, LINES)), "the owner got no turn"
                if number % 2:  # it is stopped for longer than its turn, so that another owner takes the next one
                    owners[at].process.send_signal(signal.SIGSTOP)
                    other = owners[(at + 1) % OWNERS]
                    other.wait_for_lines(len(other.lines) + 3, 5 * LEASE_S)  # not if it was stopped in a transaction
                    owners[at].process.send_signal(signal.SIGCONT)
                    assert owners[at].wait_for_lines(len(owners[at].lines) + 1), "the owner got no turn"
                lines += owners[at].kill()
                owners[at] = Owner(url, f"o{OWNERS + number}")
            for owner in owners:
                assert owner.wait_for_lines(2), "the owner got no turn"
        for owner in owners:
            lines += owner.lines
        check_history(url, lines)


def check_history(url: str, lines: list[str]) -> None:
    with holdfast.open(url) as engine:
        session = engine.session("s")
        messages = session.messages(limit=1_000)
        while older := session.messages(before=messages[0].seq, limit=1_000):
            messages = older + messages
        stored = [f"{message.role} {message.text}" for message in messages]
        assert len(stored) == len({*stored}), "nothing is there twice"
        assert {*lines} - {"lost"} <= {*stored}, "what was acknowledged is there"
        for before, message in zip([None, *messages], messages, strict=False):
            if message.role == "assistant":
                assert before is not None
                assert (before.role, before.text) == ("user", message.text), "a reply comes right after its question"
        assert engine.admin.verify().ok


if __name__ == "__main__":
    work(*sys.argv[1:])
