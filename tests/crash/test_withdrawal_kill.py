"""Killed while it withdraws and restores: messages, and the facts that only they state, change together or not at all.

Run as a program, this module withdraws and restores until it is killed.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import holdfast
from tests.property.store_tools import fast_folder
from tests.support import figure

KILLS = figure(6, 100)
SEED = 20_261_117


def run(path: str) -> None:
    with holdfast.open(path) as engine:
        session = engine.session("s", user="ada", create=True)
        number = session.state().version
        while True:
            number += 1
            said = session.record("user", f"number {number}")
            session.ledger(user="ada").set(f"own {number}", number, provenance=said.id)
            session.facts.set(f"fact {number}", number, provenance=said.id)
            withdrawal = session.withdraw(key=f"w{said.seq}")
            assert withdrawal is not None
            print(withdrawal.seq, flush=True)
            if number % 3:
                session.restore(withdrawal, key=f"r{said.seq}")


def check(path: str, acknowledged: set[int]) -> None:
    with holdfast.open(path) as engine:
        assert engine.admin.verify().problems == ()
        session = engine.session("s", user="ada", create=True)
        messages = {message.id: message for message in session.messages(limit=1_000)}
        withdrawals = {event.seq for event in _read_events(session, "messages.withdrawn")}
        assert acknowledged <= withdrawals
        for ledger in (session.ledger(), session.ledger(user="ada")):
            for fact in ledger.items(limit=1_000):
                message = messages.get(fact.provenance[0])
                assert message is None or fact.needs_review == bool(message.withdrawn), (fact, message)


def _read_events(session: holdfast.Session, kind: str) -> list[holdfast.types.StoredEvent]:
    events: list[holdfast.types.StoredEvent] = []
    while page := session.events(after=events[-1].seq if events else 0, limit=1_000):
        events += page
    return [event for event in events if event.type == kind]


def test_a_kill_leaves_a_withdrawal_and_its_facts_whole() -> None:
    chance = random.Random(SEED)
    with fast_folder() as folder:
        path = str(Path(folder) / "agent.db")
        acknowledged: set[int] = set()
        for _ in range(KILLS):
            command = [sys.executable, "-m", "tests.crash.test_withdrawal_kill", path]
            with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
                assert worker.stdout is not None
                for _ in range(chance.randrange(1, 12)):
                    acknowledged.add(int(worker.stdout.readline()))
                time.sleep(chance.random() / 50)
                worker.kill()
                acknowledged |= {int(line) for line in worker.stdout if line.endswith("\n")}
            check(path, acknowledged)


if __name__ == "__main__":
    run(sys.argv[1])
