"""What is written: messages of about 500 bytes, and streams filled by the store alone, as the engine would fill them."""

from __future__ import annotations

import os

from holdfast import codec
from holdfast.core import project
from holdfast.core.fold import fold_session
from holdfast.model import limits
from holdfast.model.content import Role, Text
from holdfast.model.events import Event
from holdfast.model.log import Append, NewEvent, Snapshot, StreamWrite
from holdfast.model.names import Scope
from holdfast.model.sessions.events import MessageRecorded, SessionCreated
from holdfast.model.state import SNAPSHOT_FORMAT, SessionState
from holdfast.ports import EventStore

ROLE: Role = "assistant"


TIME_US = 1_700_000_000_000_000


PROSE = (
    "The build failed in the third step because the linker could not find the symbol that was renamed last week. "
    "I looked at the two call sites, changed them to the new name, and ran the tests again: 212 passed, none failed. "
    "One warning is left (an unused import in parser.py, line 48); it was there before, so I did not touch it. "
    "Next I would update the changelog and open the pull request, unless you want the rename to be kept apart. "
    "Shall I go on with that, or wait for the review of the other branch?"
)


def text(number: int) -> str:
    return f"{number:08d} {PROSE}"


def message(number: int) -> MessageRecorded:
    return MessageRecorded(role=ROLE, content=(Text(text(number)),), tokens=110, counter="none")


def payload(number: int) -> bytes:
    """The bytes that the log keeps of one message."""
    return codec.encode_event(message(number))


class StreamWriter:
    """One session's stream, written with ready-made appends: what is left to measure is the store."""

    def __init__(self, session: str, tenant: str = "default", actor: str = "main") -> None:
        self._scope = Scope(tenant, actor, session)
        self._state = SessionState()

    def request(self, count: int) -> Append:
        """The next `count` events, the first of all being the one that makes the session."""
        before = self._state
        events: list[Event] = []
        for seq in range(before.version + 1, before.version + count + 1):
            event: Event = message(seq) if seq > 1 else SessionCreated()
            self._state = fold_session(self._state, event, event.name, TIME_US)
            events.append(event)
        new = tuple(NewEvent(e.name, e.version, codec.encode_event(e), os.urandom(16)) for e in events)
        row = project.session_row(self._scope, self._state)
        assert row is not None, "the first event makes the session"
        write = StreamWrite(self._scope.stream, before.version, new, (row,), self._snapshot(before.version))
        return Append(os.urandom(16).hex(), b"", TIME_US, "local", (write,))

    def requests(self, commands: int) -> list[Append]:
        return [self.request(1) for _ in range(commands)]

    def _snapshot(self, before: int) -> Snapshot | None:
        version = self._state.version
        if before // limits.SNAPSHOT_EVERY == version // limits.SNAPSHOT_EVERY:
            return None
        return Snapshot(version, SNAPSHOT_FORMAT, codec.encode(self._state))


def fill(store: EventStore, session: str, events: int) -> None:
    """A session with this many events, in the largest appends the store takes."""
    writing = StreamWriter(session)
    for start in range(0, events, limits.COMMAND_EVENTS):
        store.append(writing.request(min(limits.COMMAND_EVENTS, events - start)))


def warm(store: EventStore) -> None:
    """Past the first checkpoint, the write-ahead log grows no more, and a sync costs what it costs from then on."""
    fill(store, "warm", 5 * limits.COMMAND_EVENTS)
