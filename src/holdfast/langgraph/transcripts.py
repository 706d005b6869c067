"""The transcript of a thread: the messages of its latest checkpoint, as the conversation of the session.

Laws: a checkpoint is stored also if its conversation cannot be. An element with the same text as in the last list is not
converted again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence, Set
from contextlib import AbstractContextManager
from typing import NamedTuple

from langchain_core.messages import BaseMessage

import holdfast
from holdfast.errors import HoldfastError
from holdfast.frameworks.shadows import Shadow, ShadowMessage
from holdfast.langgraph.messages import to_shadows
from holdfast.langgraph.records import count_shared
from holdfast.langgraph.values import KnownList
from holdfast.types import Entry, NewEntry, SessionState

logger = logging.getLogger("holdfast.langgraph")


class Spoken(NamedTuple):
    """A list of messages in a checkpoint, which is the conversation."""

    messages: KnownList
    exact: bool
    """Also if the list merely ends earlier than the conversation."""


class ConvertedList(NamedTuple):
    """A list of messages as a session records it."""

    texts: Sequence[str] = ()
    shadows: list[ShadowMessage | None] = []  # noqa: RUF012 - it never changes
    """One for each text; None for what is no message."""
    ids: Set[str] = frozenset()
    messages: list[ShadowMessage] = []  # noqa: RUF012 - it never changes


class ThreadTranscript:
    """The conversation of a thread, in its session. Threads of the program can share it."""

    def __init__(self, thread_id: str, session: holdfast.Session, *, observe: bool) -> None:
        self._id = thread_id
        self._shadow = Shadow(session, observe=observe, unique_ids=True, spares_started=True)
        self._converted = ConvertedList()
        """The list that was followed last."""
        self._lock = threading.Lock()

    def follow(self, spoken: Spoken, *, point: str = "", is_copy: bool = False) -> None:
        """Make the conversation of the session that of a list. `point` is the checkpoint of the list: it may be stored
        late, when a middleware has gone on. `is_copy`: the list is that of another thread: no facts are read from it."""
        with self._lock:
            converted = self._convert(spoken.messages)
            if converted is None:
                return
            try:
                self._shadow.follow(
                    converted.messages, exact=spoken.exact, point=point, tells_lost=not spoken.exact, is_copy=is_copy
                )
            except HoldfastError:
                logger.warning("The transcript of thread %r could not be followed.", self._id, exc_info=True)
                return
            self._converted = converted

    def follow_with(
        self,
        spoken: Spoken,
        build_entries: Callable[[SessionState], Sequence[NewEntry] | None],
        write_lock: AbstractContextManager[object],
        *,
        point: str,
    ) -> list[Entry] | None:
        """As follow(), and append entries in the same transaction; returns them. None if nothing was stored."""
        with self._lock, self._shadow.hold():
            converted = self._convert(spoken.messages)
            if converted is None:
                return None
            with write_lock:
                entries = self._shadow.follow_with(converted.messages, build_entries, exact=spoken.exact, point=point)
            if entries is None:
                return None
            self._converted = converted
            try:
                self._shadow.read_facts()
            except HoldfastError:
                logger.warning("The facts of thread %r could not be read.", self._id, exc_info=True)
            return entries

    def forget(self) -> None:
        """Convert the next list as a whole."""
        self._converted = ConvertedList()

    def _convert(self, known: KnownList) -> ConvertedList | None:
        """A list as a session records it; None if it is the last one."""
        last = self._converted
        shared = count_shared(known.texts, last.texts)
        if shared == len(known.texts) == len(last.texts):
            return None
        shadows = last.shadows[:shared] + _convert_all(known.elements[shared:])
        messages = [each for each in shadows if each is not None]
        new = messages if shared < len(last.texts) else shadows[shared:]
        ids = {each.id for each in new if each is not None}
        if new is not messages:
            ids |= last.ids
        if len(ids) < len(messages):  # some have no id, and equal content
            messages = to_shadows([each for each in known.elements if isinstance(each, BaseMessage)])
        return ConvertedList(known.texts, shadows, ids, messages)


def _convert_all(elements: Sequence[object]) -> list[ShadowMessage | None]:
    """Messages as a session records them; None for what is no message."""
    return [to_shadows([each])[0] if isinstance(each, BaseMessage) else None for each in elements]
