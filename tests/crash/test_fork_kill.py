"""Killed while it forks, and while another process erases: a fork and its parent change together or not at all, and no fork
keeps what was erased.

Run as a program, this module forks or erases until it is killed.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import Any

import pytest

import holdfast
from holdfast import codec
from holdfast.model.rows import SessionRow
from holdfast.model.sessions.events import SessionBranched
from tests.property.store_tools import rows_of_table, session_events, store_of_kind
from tests.support import figure

KILLS = figure(3, 60)
SEED = 20_261_118
PAUSE_S = 0.05
MORE = 8
"""How many steps a process takes beyond those that are waited for. Then it waits to be killed: an erasure changes all
forks, and a slow machine that forks without end would never come to erase."""


def run(url: str, role: str, steps: str) -> None:
    """Fork the session or one of its forks, or erase the oldest messages of the session."""
    chance = random.Random(role)
    with holdfast.open(url) as engine:
        session = engine.session("s")
        names = ["s"]
        for _ in range(int(steps)):
            if role == "fork":
                fork = engine.session(chance.choice(names[-3:])).fork()
                fork.record("user", "Go on.")
                names.append(fork.scope.session)
                print(fork.scope.session, flush=True)
                time.sleep(PAUSE_S)  # an erasure changes all forks: it needs a moment without a new one
            else:
                said = session.record("user", f"secret {session.state().version}")
                session.ledger().set("number", f"secret {said.seq}")
                session.erase([each.seq for each in session.messages(limit=2)], "asked to")
                print(said.seq, flush=True)
        signal.pause()


def check(url: str, acknowledged: set[str]) -> None:
    with holdfast.open(url) as engine:
        assert engine.admin.verify().problems == ()
        rows = {row.session: row for row in rows_of_table(engine.store, SessionRow)}
        assert acknowledged <= {*rows}
        branches = {fork: name for name in rows for fork in _list_forks(engine.session(name))}
        assert {*branches} == {name for name, row in rows.items() if row.parent}
        gone = {message.seq for message in engine.session("s").messages(limit=1_000) if message.erased}
        for name, row in rows.items():
            messages = engine.session(name).messages(limit=1_000)
            shared = _shared_with(rows, name)
            assert all(message.erased for message in messages if message.seq in gone and message.seq <= shared), row


def _list_forks(session: holdfast.Session) -> list[str]:
    own = [event for event in session_events(session) if event.stream == session.scope.stream]
    branched = (event.payload for event in own if event.type == SessionBranched.name)
    return [codec.decode(payload, SessionBranched).fork[1] for payload in branched if payload]


def _shared_with(rows: dict[str, SessionRow], name: str) -> int:
    """The last event that a session shares with the first one."""
    shared = 1 << 60
    while rows[name].parent:
        shared = min(shared, rows[name].cut)
        name = codec.decode(rows[name].parent.encode(), tuple[str, ...])[1]
    return shared


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_kill_leaves_forks_whole_and_without_what_was_erased(kind: Any) -> None:
    chance = random.Random(SEED)
    acknowledged: set[str] = set()
    with store_of_kind(kind) as url:
        with holdfast.open(url) as engine:
            engine.create_session("s").record("user", "secret 0")
        for _ in range(KILLS if kind == "sqlite" else max(1, KILLS // 3)):
            with ExitStack() as exits:
                workers = []
                counts = [chance.randrange(2, 8) for _ in range(2)]
                for role, count in zip(("fork", "erase"), counts, strict=True):
                    command = [sys.executable, "-m", "tests.crash.test_fork_kill", url, role, str(count + MORE)]
                    workers.append(exits.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True)))
                for worker, count in zip(workers, counts, strict=True):
                    assert worker.stdout is not None
                    lines = [worker.stdout.readline().strip() for _ in range(count)]
                    acknowledged |= {line for line in lines if "~" in line}
                for worker in chance.sample(workers, 2):
                    worker.kill()
            check(url, acknowledged)


if __name__ == "__main__":
    run(*sys.argv[1:])
