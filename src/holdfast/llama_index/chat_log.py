"""The messages of a chat of LlamaIndex, as entries of a session, and the session's conversation beside them.

Laws: messages come back as they were given. A message is appended once; archiving and deleting are entries of their
own. The conversation of the session has the messages that are not deleted: archived ones are merely out of LlamaIndex's
queue.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import msgspec
from llama_index.core.base.llms.types import ChatMessage

import holdfast
from holdfast.errors import InvalidArgument, VersionConflict
from holdfast.frameworks.shadows import Shadow, ShadowMessage
from holdfast.llama_index.messages import OpenCalls, to_shadow
from holdfast.types import Entry, NewEntry, shorten_name

Status = Literal["active", "archived", "deleted"]
MESSAGE, CHANGE = "llama_index.message", "llama_index.change"
METADATA = "llama_index"
_FIRST_PAGE = 8
"""The entries that are read first: mostly, few are new."""
_PAGE = 500
_BATCH = 200
_TRIES = 20
_PAUSE_S = 0.01
"""The longest pause before the second try; each further one may be as much longer."""


class ChatRow(msgspec.Struct):
    """A message of a chat."""

    seq: int
    id: str
    message: ChatMessage
    status: Status


def open_chat(
    engine: holdfast.Engine, key: str, actor: str, user: str | None, thread: str | None = None
) -> holdfast.Session:
    """The session of a chat, or a thread beside it. It is created if there is none."""
    metadata = {METADATA: key} if thread is None else None
    return engine.session(shorten_name(key), actor=actor, thread=thread, user=user, create=True, metadata=metadata)


class ChatLog:
    """The chat of one session. Threads can share it."""

    def __init__(self, session: holdfast.Session, *, observe: bool = True) -> None:
        self.session = session
        self.shadow = Shadow(session, observe=observe)
        self._rows: dict[str, ChatRow] = {}
        self._shadows: list[ShadowMessage] = []
        """The rows that are not deleted, as the session records them. The same objects each time: then a list that merely
        grew is not compared again."""
        self._calls = OpenCalls()
        self._seq = 0
        self._version = 0
        self._lock = threading.RLock()

    def rows(self, status: str | None = "active") -> list[ChatRow]:
        """The messages with this status, oldest first; None for all that are not deleted."""
        with self._lock:
            self._load()
            kept = (row for row in self._rows.values() if row.status != "deleted")
            return [row for row in kept if status is None or row.status == status]

    def add(self, messages: Iterable[ChatMessage], status: Status = "active") -> None:
        """Append messages. If one is invalid, none is stored; more than 200 are stored in several steps."""
        bodies = [holdfast.conversion.to_json("the message", _dump(message)) for message in messages]
        new = [NewEntry(MESSAGE, uuid.uuid4().hex, {"message": body, "status": status}) for body in bodies]
        with self._lock:
            for start in range(0, len(new), _BATCH):
                self.session.entries.append_all(new[start : start + _BATCH])
            self._follow()

    def change(self, choose: Callable[[Sequence[ChatRow]], Sequence[ChatRow]], to: Status) -> list[ChatMessage]:
        """Archive or delete the rows that `choose` picks among those that are not deleted. Returns their messages."""
        with self._lock:
            for attempt in range(_TRIES):
                chosen = choose(self.rows(None))
                if not chosen:
                    return []
                body: Any = {"ids": [row.id for row in chosen], "to": to}
                try:
                    self.session.entries.append_all([NewEntry(CHANGE, uuid.uuid4().hex, body)], expect=self._version)
                    break
                except VersionConflict:
                    if attempt == _TRIES - 1:
                        raise
                    time.sleep(random.uniform(0, _PAUSE_S * (attempt + 1)))  # noqa: S311 - so that others get ahead
            if to == "deleted":
                self._drop_front({row.id for row in chosen})
                self._follow(exact=True)
            return [row.message for row in chosen]

    def replace(self, messages: Iterable[ChatMessage], status: Status = "active") -> None:
        """Delete all messages, and append these."""
        new = [*messages]
        with self._lock:
            rows = self.rows(None)
            pairs = zip(rows, new, strict=False)
            same = itertools.takewhile(lambda pair: pair[0].message == pair[1] and pair[0].status == status, pairs)
            shared = sum(1 for _ in same)
            if shared < len(rows):
                stale = {row.id for row in rows[shared:]}
                self.change(lambda kept: [row for row in kept if row.id in stale], "deleted")
            if shared < len(new):
                self.add(new[shared:], status)
            elif not new:
                self._follow(exact=True)

    def erase_deleted(self) -> int:
        """Erase the content of the deleted messages for good. Returns how many there were."""
        with self._lock:
            self._load()
            keys = [row.id for row in self._rows.values() if row.status == "deleted"]
            if not keys:
                return 0
            self._follow(exact=True)
            seqs = self._find_seqs({*keys})
            if seqs:
                self.session.erase(seqs, "deleted in LlamaIndex")
            self.session.entries.delete(keys, reason="deleted in LlamaIndex")
            for key in keys:
                del self._rows[key]
            return len(keys)

    def _find_seqs(self, keys: set[str]) -> list[int]:
        """The events of these messages in the conversation, also of those that were withdrawn."""
        seqs: list[int] = []
        for read in (self.session.messages, self.session.evidence):
            before: int | None = None
            while page := read(before=before, limit=_PAGE):
                seqs += [each.seq for each in page if not each.erased and each.metadata.get("id") in keys]
                before = page[0].seq
        return seqs

    def follow_turn(self) -> None:
        """Bring the conversation of the session up to date with the chat."""
        with self._lock:
            self._follow()

    def _drop_front(self, deleted: set[str]) -> None:
        """If the first message of the conversation was deleted, the rest is recorded anew: a shadow keeps what is merely
        missing at the front."""
        known = self.shadow.known_ids()
        if known and known[0] in deleted:
            self.session.withdraw(after=0, reason="deleted in LlamaIndex")

    def _follow(self, *, exact: bool = False) -> None:
        self._load()
        self.shadow.follow([*self._shadows], exact=exact)

    def _load(self) -> None:
        """Read the entries that came since."""
        version = self.session.state().version
        if version == self._version:
            return
        pages: list[Entry] = []
        before: int | None = None
        limit = _FIRST_PAGE
        while page := self.session.entries.list(before=before, limit=limit):
            pages += [entry for entry in page if entry.seq > self._seq]
            if page[-1].seq <= self._seq or len(page) < limit:
                break
            before, limit = page[-1].seq, min(limit * 4, _PAGE)
        for entry in reversed(pages):
            self._fold(entry)
        self._version = version

    def _fold(self, entry: Entry) -> None:
        self._seq = max(self._seq, entry.seq)
        body: Any = entry.body
        if entry.kind == MESSAGE:
            message = ChatMessage.model_validate(body["message"])
            self._rows[entry.key] = row = ChatRow(entry.seq, entry.key, message, body["status"])
            self._shadows.append(to_shadow(row.id, row.message, self._calls))
        elif entry.kind == CHANGE:
            for name in body["ids"]:
                if name in self._rows and self._rows[name].status != "deleted":
                    self._rows[name].status = body["to"]
            if body["to"] == "deleted":
                self._shadow_again()

    def _shadow_again(self) -> None:
        """After a deletion: results may answer other calls."""
        self._calls = OpenCalls()
        known = {each.id: each for each in self._shadows}
        kept = [row for row in self._rows.values() if row.status != "deleted"]
        built = [to_shadow(row.id, row.message, self._calls) for row in kept]
        self._shadows = [
            known[each.id] if each.id in known and known[each.id].message == each.message else each for each in built
        ]


def _dump(message: ChatMessage) -> Any:
    try:
        return message.model_dump(mode="json")
    except (ValueError, TypeError) as error:
        raise InvalidArgument(argument="message", reason=f"it has no JSON form: {error}") from error
