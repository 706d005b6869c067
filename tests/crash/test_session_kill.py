"""Killed in the middle of agents' turns and started again: nothing acknowledged is lost, nothing is there twice, and calls
and results pair up.

Run as a program, this module is the nursery of agents: a few threads, each with a session of its own, that say what was
acknowledged.
Every turn is a question, a reply with parallel calls, their results in any order, and an answer. After a restart an agent
looks where it was, repeats what may have been done under the key of the first time, and goes on; now and then it closes the
calls that wait instead of answering them.
"""

from __future__ import annotations

import itertools
import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast import Engine, Message, Session, ToolCall
from holdfast.flows.sessions.transcript import message_of
from holdfast.model import limits
from holdfast.types import Body, Data, StoredEvent
from tests.crash.stores import KINDS, create_store
from tests.crash.worker import Nursery, die, run_in_threads, serve_nursery
from tests.property.store_tools import rows_dump
from tests.support import figure

ROUNDS = figure(16, 500)
CHECK_EVERY = figure(8, 50)
CLOSING_EVERY = 5
SESSIONS = 4
UNSAID = (None, "question", None, "calls", None, "result", None, "answer")
"""What an agent dies of, in turns: a kill at any moment, or after this was stored and before it was acknowledged."""
NEW = b"new"
SEED = 20_240_608


# The agent


def calls_of(name: str, turn: int) -> list[dict[str, object]]:
    return [{"name": "tool", "args": {"n": at}, "id": f"{name}/{turn}/{at}"} for at in range(1 + turn % 3)]


def value_of(key: str) -> object:
    """What a tool returns: text, JSON, or something for the blob store, which says what it is at its beginning."""
    kind = sum(key.encode()) % 3
    return (key, {"key": key}, iter([key.encode(), b" x" * limits.SPOOL_BYTES]))[kind]


class Agent:
    def __init__(self, session: Session, life: Life, said: list[str]) -> None:
        self.session = session
        self._life = life
        self._said = said
        """What is new of all that this process acknowledged."""
        self._known = session.state().version

    def say(self, message: Message, key: str) -> None:
        is_new = message.seq > self._known
        if is_new and self._life.is_last(key, len(self._said)):
            die()
        word = NEW.decode() if is_new else "again"
        os.write(
            1, f"{word} {key} {message.seq} {message.id}\n".encode()
        )  # one short write: lines of threads never mix
        if is_new:
            self._said.append(key)

    def live(self) -> None:
        closing = self._life.closing
        for turn in itertools.count(max(1, self.session.state().turns)):
            self.turn(turn, closing=closing)
            closing = False

    def turn(self, turn: int, *, closing: bool) -> None:
        name = f"{self.session.id}/{turn}"
        key = f"{name}/question"
        self.say(self.session.record("user", key, key=key), key)
        key = f"{name}/calls"
        asked = self.session.record("assistant", key, tool_calls=calls_of(self.session.id, turn), key=key)
        self.say(asked, key)
        if closing:
            self.session.close_calls("restarted")
        waiting = {call.id for call in self.session.state().open_calls}
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(self.answer, [call for call in asked.tool_calls if call.id in waiting]))
        key = f"{name}/answer"
        self.say(self.session.record("assistant", key, key=key), key)

    def answer(self, call: ToolCall) -> None:
        key = f"{call.provider_id}/result"
        self.say(self.session.result(call, value_of(key), key=key), key)


class Life(msgspec.Struct, frozen=True):
    url: str
    closing: bool
    unsaid: str | None
    count: int

    def is_last(self, key: str, said: int) -> bool:
        return self.unsaid is not None and key.endswith(self.unsaid) and said >= self.count


def live_until_killed(line: bytes) -> None:
    life = msgspec.json.decode(line, type=Life)
    engine = holdfast.open(life.url)
    said: list[str] = []
    run_in_threads(lambda number: Agent(engine.session(f"s{number}", create=True), life, said).live(), SESSIONS)


# The witness


def key_in(message: Message) -> str:
    """What a message says of itself, wherever it says it."""
    for result in message.tool_results:
        match result.content:
            case (Data(value=dict() as value),):
                return str(value["key"])
            case (Body(preview=preview),):
                return preview.partition(" ")[0]
    return message.text


class Log:
    """The sessions as their events tell them, read on from where the last look ended."""

    def __init__(self) -> None:
        self.by_key: dict[str, tuple[int, str]] = {}
        self.messages: dict[str, list[Message]] = {}
        self._cursor = ""

    def read_on(self, engine: Engine) -> None:
        while (page := engine.admin.feed(self._cursor, limit=1_000)).events:
            for event in page.events:
                self._take(event)
            self._cursor = page.cursor

    def _take(self, event: StoredEvent) -> None:
        own = self.messages.setdefault(event.stream.key[1], [])
        assert event.type == ("message.recorded" if event.seq > 1 else "session.created")
        if event.seq == 1:
            return
        assert event.seq == len(own) + 2
        message = message_of(event)
        own.append(message)
        assert (event.key is None) == message.closing
        if event.key is not None:
            assert event.key not in self.by_key, "it was stored twice"
            assert event.key == key_in(message)
            self.by_key[event.key] = (event.seq, event.id)

    def check(self, acknowledged: dict[str, tuple[int, str]]) -> None:
        """Everything acknowledged is where it was said to be; every session is a run of turns, the last one cut short."""
        assert {key: self.by_key.get(key) for key in acknowledged} == acknowledged
        for name, messages in self.messages.items():
            rest = messages
            for turn in itertools.count(1):
                if not rest:
                    break
                rest = rest[self._check_turn(rest, name, turn) :]

    def _check_turn(self, messages: list[Message], name: str, turn: int) -> int:
        """How many messages this turn has; it is whole, or they are the last ones."""
        question, *rest = messages
        assert (question.role, question.text) == ("user", f"{name}/{turn}/question")
        if not rest:
            return 1
        asked, *rest = rest
        assert (asked.role, asked.text) == ("assistant", f"{name}/{turn}/calls")
        assert [call.provider_id for call in asked.tool_calls] == [call["id"] for call in calls_of(name, turn)]
        results = list(itertools.takewhile(lambda each: each.role == "tool", rest))
        answered = [result.tool_call_id for each in results for result in each.tool_results]
        assert len(set(answered)) == len(answered)
        assert set(answered) <= {call.id for call in asked.tool_calls}
        rest = rest[len(results) :]
        if not rest:
            return 2 + len(results)
        assert (rest[0].role, rest[0].text) == ("assistant", f"{name}/{turn}/answer")
        assert len(answered) == len(asked.tool_calls), "a call has no result"
        return 3 + len(results)


def _check_all(engine: Engine) -> None:
    assert engine.admin.verify().problems == ()
    for row in engine.sessions():
        session = engine.session(row.session)
        view = session.context.window(100_000)
        shown = [message for unit in view.groups for message in unit.messages]
        calls = {call.id for message in shown for call in message.tool_calls}
        assert calls == {result.tool_call_id for message in shown for result in message.tool_results}
        assert calls.isdisjoint(call.id for call in view.open_calls)
    before = rows_dump(engine)
    engine.admin.rebuild()
    assert rows_dump(engine) == before


@pytest.mark.parametrize("kind", KINDS)
def test_agents_that_are_killed_in_mid_turn_go_on_where_they_were(tmp_path: Path, kind: str) -> None:
    rng = random.Random(SEED)
    log = Log()
    acknowledged: dict[str, tuple[int, str]] = {}
    with create_store(kind, tmp_path) as store, closing(Nursery("tests.crash.test_session_kill", NEW)) as nursery:
        for number in range(ROUNDS):
            name = f"agents_{number}"
            count = rng.choice((0, 1, rng.randint(2, 60)))
            delay_s = rng.uniform(0.0, 0.1) if count == 0 else rng.choice((0.0, rng.uniform(0.0, 0.01)))
            unsaid = UNSAID[number % len(UNSAID)]
            life = Life(store.url_for(name), number % CLOSING_EVERY == CLOSING_EVERY - 1, unsaid, count)
            said = nursery.run(life) if unsaid else nursery.run_and_kill(life, count, delay_s)
            for _, key, seq, id_ in (line.decode().split() for line in said):
                stands = (int(seq), id_)
                assert acknowledged.setdefault(key, stands) == stands, "a repeated step has another place"
            with store.look(name) as engine:
                log.read_on(engine)
                log.check(acknowledged)
                missing = log.by_key.keys() - acknowledged.keys()
                assert not unsaid or any(key.endswith(unsaid) for key in missing)
                assert unsaid != "calls" or any(row.open_calls for row in engine.sessions())
                if number % CHECK_EVERY == CHECK_EVERY - 1 or number == ROUNDS - 1:
                    _check_all(engine)
    assert len(acknowledged) > 5 * ROUNDS, "the agents hardly got to work: this showed nothing"


if __name__ == "__main__":
    serve_nursery(live_until_killed)
