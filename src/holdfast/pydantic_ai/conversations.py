"""The session of a conversation.

A session that was destroyed keeps its name, but a conversation that was deleted can be created again: then it is in another
thread of the same name.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import holdfast
from holdfast.errors import InvalidName, SessionDestroyedError, SessionNotFound
from holdfast.types import Entry, shorten_name

RECORD_KIND = "pydantic-ai/record"
"""The kind of the entries that are records of a conversation: the newest counts."""
DELETED = b""
"""The body of the record of a deleted conversation."""


class Home(NamedTuple):
    """Where a conversation is: the name and the thread of its session."""

    actor: str
    name: str
    thread: str | None

    def open(self, engine: holdfast.Engine) -> holdfast.Session:
        """The session. Raises SessionNotFound if there is none."""
        return engine.session(self.name, actor=self.actor, thread=self.thread)

    def create(self, engine: holdfast.Engine, *, user: str | None = None, memory: bool = False) -> holdfast.Session:
        """The session, a new one if there is none."""
        return engine.session(self.name, actor=self.actor, thread=self.thread, user=user, create=True, memory=memory)


class LocatedConversation(NamedTuple):
    """The session of a conversation and its newest record, as far as there are such."""

    home: Home
    session: holdfast.Session | None
    record: Entry | None = None


def name_session(conversation_id: str) -> str:
    """The name of the session of a conversation: its id, or a digest of an id that is no name."""
    try:
        return shorten_name(conversation_id)
    except InvalidName:
        digest = hashlib.sha256(conversation_id.encode("utf-8", "surrogatepass")).hexdigest()
        return f"conversation-{digest}"


def iterate_homes(conversation_id: str, actor: str) -> Iterator[Home]:
    """Where a conversation of this id is, or was before it was deleted: oldest first."""
    name = name_session(conversation_id)
    yield Home(actor, name, None)
    for number in itertools.count(2):
        yield Home(actor, name, str(number))


def find_conversation(engine: holdfast.Engine, conversation_id: str, actor: str) -> LocatedConversation:
    """The session of a conversation, unless it was deleted; and where it belongs."""
    for home in iterate_homes(conversation_id, actor):
        try:
            session = home.open(engine)
        except SessionDestroyedError:
            continue
        except SessionNotFound:
            return LocatedConversation(home, None)
        record = read_newest_record(session)
        if record is None or record.body != DELETED:
            return LocatedConversation(home, session, record)
    raise AssertionError("there is a home for every conversation")


def read_newest_record(session: holdfast.Session) -> Entry | None:
    """The newest record in a session."""
    newest = session.entries.list(kind=RECORD_KIND, limit=1)
    return newest[0] if newest else None
