"""Killed between a pack and its reply, or in the middle of recording both: a reply has its pack and its question, or none
of the three is there; and what was recorded can be made again.

Run as a program, this module is the nursery of agents. Every other turn they record the question first; else it is kept
together with the reply. After a restart an agent repeats its last turn under the key of the first time.
"""

from __future__ import annotations

import itertools
import os
import random
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast import Engine, Session
from holdfast.core import upcast
from holdfast.model.content import text_of
from holdfast.model.packs.events import PackRecorded
from holdfast.model.sessions.events import MessageRecorded
from holdfast.types import StoredEvent
from tests.crash.stores import KINDS, create_store
from tests.crash.worker import Nursery, run_in_threads, serve_nursery
from tests.support import figure

ROUNDS = figure(8, 200)
SESSIONS = 2
MOST_TURNS = 12
SEED = 20_261_116


# The agent


def live(session: Session) -> None:
    state = session.state()
    known = state.version
    for turn in itertools.count(max(1, 2 * state.turns - 1)):  # every second question is recorded
        name = f"{session.id}/{turn}"
        question = f"{name}/question"
        if turn % 2:
            session.record("user", question, key=question)
            session.pack(budget=4_000)
        else:
            session.pack(question, budget=4_000)
        key = f"{name}/answer"
        reply = session.record("assistant", key, key=key)
        word = "new" if reply.seq > known else "again"
        os.write(1, f"{word} {key} {reply.seq}\n".encode())  # one short write: lines of threads never mix


class Life(msgspec.Struct, frozen=True):
    url: str


def live_until_killed(line: bytes) -> None:
    engine = holdfast.open(msgspec.json.decode(line, type=Life).url)
    run_in_threads(lambda number: live(engine.session(f"s{number}", create=True)), SESSIONS)


# The witness


def _commands(session: Session) -> list[list[StoredEvent]]:
    """The events of a session, those of one command together."""
    events: list[StoredEvent] = []
    while page := session.events(after=len(events) + 1, limit=1_000):
        events += page
    return [list(run) for _, run in itertools.groupby(events, key=lambda each: each.command)]


def _check_whole(session: Session) -> dict[str, int]:
    """Every reply came with its pack; the seqs of the replies by their keys."""
    replies: dict[str, int] = {}
    said: list[str] = []
    for run in _commands(session):
        told = [upcast.decode_event(each) for each in run]
        spoken = [each for each in told if isinstance(each, MessageRecorded)]
        said += (text_of(each.content, "") for each in spoken)
        if [each.role for each in spoken] == ["user"]:
            assert len(run) == 1
            continue
        *_, reply, pack = told
        assert isinstance(reply, MessageRecorded)
        assert isinstance(pack, PackRecorded)
        assert len(run) == 2, "a query that nobody said is no message"
        assert [pack.asked, pack.reply] == [0, run[-2].seq]
        replies[run[-2].key or ""] = run[-2].seq
    names = [
        f"{session.id}/{turn}/{what}"
        for turn in range(1, len(said) + 1)
        for what in (("question", "answer") if turn % 2 else ("answer",))
    ]
    assert said == names[: len(said)], "nothing is there twice, and nothing is missing"
    return replies


def _check(engine: Engine, acknowledged: dict[str, int]) -> int:
    """What was acknowledged is there; how many replies there are."""
    found: dict[str, int] = {}
    for row in engine.sessions():
        found |= _check_whole(engine.session(row.session))
    assert {key: found.get(key) for key in acknowledged} == acknowledged
    return len(found)


def _check_all(engine: Engine) -> None:
    assert engine.admin.verify().problems == ()
    for row in engine.sessions():
        session = engine.session(row.session)
        for record in session.packs.list(limit=5):
            assert session.packs.reproduce(record).context_hash == record.context_hash


@pytest.mark.parametrize("kind", KINDS)
def test_a_reply_has_its_pack_or_neither_is_there(tmp_path: Path, kind: str) -> None:
    rng = random.Random(SEED)
    acknowledged: dict[str, int] = {}
    replies = 0
    with create_store(kind, tmp_path) as store, closing(Nursery("tests.crash.test_pack_record", b"new")) as nursery:
        for number in range(ROUNDS):
            name = f"agents_{number}"
            life = Life(store.url_for(name))
            for line in nursery.run_and_kill(life, rng.randint(0, MOST_TURNS), rng.uniform(0.0, 0.02)):
                _, key, seq = line.decode().split()
                assert acknowledged.setdefault(key, int(seq)) == int(seq), "a repeated turn has another place"
            with store.look(name) as engine:
                replies = _check(engine, acknowledged)
                if number == ROUNDS - 1:
                    _check_all(engine)
    assert replies >= len(acknowledged) >= ROUNDS


if __name__ == "__main__":
    serve_nursery(live_until_killed)
