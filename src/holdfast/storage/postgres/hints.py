"""Telling other processes that a stream has moved, and hearing it from them: LISTEN and NOTIFY on a connection of its own.

Laws: a hint is sent after the commit, never in its transaction; many become one; nothing depends on its arrival. A token
says which stream without naming it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import selectors
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeAlias

import psycopg
from psycopg import sql

from holdfast.model import limits
from holdfast.model.names import StreamId
from holdfast.storage import common

Connection: TypeAlias = psycopg.Connection[tuple[object, ...]]

TOKEN_CHARS = 16
MOST_TOKENS = 400
"""More than fit into one notification: then all streams may have moved."""
EVERYTHING = "*"
WAKES = 1_024
"""Calls to wake up that are heard as one."""
PAUSE_S = 1.0
"""Between two tries to connect again."""


@functools.lru_cache(limits.KNOWN_HEADS)
def token_of(stream: StreamId) -> str:
    return hashlib.sha256("\0".join(common.stream_key(stream)).encode()).hexdigest()[:TOKEN_CHARS]


class Hints:
    def __init__(self, info: str, channel: str, heed: Callable[[frozenset[str] | None], None]) -> None:
        self._info = info
        self._channel = f"holdfast_{channel}"[:63]
        self._heed = heed
        self._moved: set[str] = set()
        self._mutex = threading.Lock()
        self._closing = threading.Event()
        self._ended = False
        self._wake_end, self._waker = os.pipe()
        self._thread = threading.Thread(target=self._run, name="holdfast-hints", daemon=True)
        self._thread.start()

    def wrote(self, streams: Iterable[StreamId]) -> None:
        """To be told to others soon."""
        tokens = {token_of(stream) for stream in streams}
        with self._mutex:
            first = not self._moved
            self._moved |= tokens
            if len(self._moved) > MOST_TOKENS:  # nobody may be there to tell it to
                self._moved = {EVERYTHING}
            if first and self._moved:
                self._wake()

    def close(self) -> None:
        with self._mutex:
            self._closing.set()
            self._wake()
        self._thread.join(PAUSE_S)  # one that waits for a server that is gone ends by itself

    def _wake(self) -> None:
        if not self._ended:
            os.write(self._waker, b"!")

    def _run(self) -> None:
        try:
            while not self._closing.is_set():
                with suppress(psycopg.Error, OSError), psycopg.connect(self._info, autocommit=True) as connection:
                    self._listen(connection)
                self._closing.wait(PAUSE_S)
        finally:
            with self._mutex:  # from now on these numbers are somebody else's
                self._ended = True
                os.close(self._wake_end)
                os.close(self._waker)

    def _listen(self, connection: Connection) -> None:
        connection.execute("SET synchronous_commit = off")  # a hint may be lost: it waits for no disk
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        self._heed(None)  # whatever was said before, we did not hear
        with selectors.DefaultSelector() as ready:
            ready.register(connection, selectors.EVENT_READ)
            ready.register(self._wake_end, selectors.EVENT_READ)
            while not self._closing.is_set():
                if any(key.fileobj == self._wake_end for key, _ in ready.select()):
                    os.read(self._wake_end, WAKES)
                    self._closing.wait(limits.HINT_MS / 1_000)
                self._exchange(connection)
            self._exchange(connection)  # what was told last

    def _exchange(self, connection: Connection) -> None:
        with self._mutex:
            moved, self._moved = self._moved, set()
        if moved:
            said = EVERYTHING if EVERYTHING in moved else " ".join(sorted(moved))
            connection.execute("SELECT pg_notify(%s, %s)", (self._channel, said))
        own = connection.info.backend_pid
        for heard in connection.notifies(timeout=0):
            if heard.pid != own:
                self._heed(None if heard.payload == EVERYTHING else frozenset(heard.payload.split()))
