"""Hints between processes that a stream has changed: LISTEN and NOTIFY on a separate connection.

Laws: a hint is sent after the commit, never in its transaction. Many hints are sent as one. Nothing depends on their
arrival. A token identifies a stream without its name.
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
MAX_TOKENS = 400
"""More do not fit into one notification: then all streams count as changed."""
ALL_STREAMS = "*"
WAKES = 1_024
"""The most wake-up calls that are read at once."""
RECONNECT_S = 1.0
"""The pause between two attempts to connect."""


@functools.lru_cache(limits.KNOWN_HEADS)
def token_of(stream: StreamId) -> str:
    """Return the token of a stream."""
    return hashlib.sha256("\0".join(common.stream_key(stream)).encode()).hexdigest()[:TOKEN_CHARS]


class StreamHints:
    """Sends and receives hints in a thread. `on_hint` gets the tokens of changed streams, or None for all streams."""

    def __init__(self, info: str, channel: str, on_hint: Callable[[frozenset[str] | None], None]) -> None:
        self._info = info
        self._channel = f"holdfast_{channel}"[:63]
        self._on_hint = on_hint
        self._changed_tokens: set[str] = set()
        self._mutex = threading.Lock()
        self._close_event = threading.Event()
        self._is_closed = False
        self._wake_end, self._waker = os.pipe()
        self._thread = threading.Thread(target=self._run, name="holdfast-hints", daemon=True)
        self._thread.start()

    def announce(self, streams: Iterable[StreamId]) -> None:
        """Send a hint about these streams soon."""
        tokens = {token_of(stream) for stream in streams}
        with self._mutex:
            is_first = not self._changed_tokens
            self._changed_tokens |= tokens
            if len(self._changed_tokens) > MAX_TOKENS:  # perhaps there is no connection to send them
                self._changed_tokens = {ALL_STREAMS}
            if is_first and self._changed_tokens:
                self._wake()

    def close(self) -> None:
        with self._mutex:
            self._close_event.set()
            self._wake()
        self._thread.join(RECONNECT_S)  # a thread that waits for an unreachable server ends by itself

    def _wake(self) -> None:
        if not self._is_closed:
            os.write(self._waker, b"!")

    def _run(self) -> None:
        try:
            while not self._close_event.is_set():
                with suppress(psycopg.Error, OSError), psycopg.connect(self._info, autocommit=True) as connection:
                    self._listen(connection)
                self._close_event.wait(RECONNECT_S)
        finally:
            with self._mutex:  # the file numbers are free for others after this
                self._is_closed = True
                os.close(self._wake_end)
                os.close(self._waker)

    def _listen(self, connection: Connection) -> None:
        connection.execute("SET synchronous_commit = off")  # a hint may be lost, so it need not wait for the disk
        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._channel)))
        self._on_hint(None)  # earlier hints were missed
        with selectors.DefaultSelector() as ready:
            ready.register(connection, selectors.EVENT_READ)
            ready.register(self._wake_end, selectors.EVENT_READ)
            while not self._close_event.is_set():
                if any(key.fileobj == self._wake_end for key, _ in ready.select()):
                    os.read(self._wake_end, WAKES)
                    self._close_event.wait(limits.HINT_MS / 1_000)
                self._exchange(connection)
            self._exchange(connection)  # the last hints

    def _exchange(self, connection: Connection) -> None:
        with self._mutex:
            tokens, self._changed_tokens = self._changed_tokens, set()
        if tokens:
            payload = ALL_STREAMS if ALL_STREAMS in tokens else " ".join(sorted(tokens))
            connection.execute("SELECT pg_notify(%s, %s)", (self._channel, payload))
        own_pid = connection.info.backend_pid
        for hint in connection.notifies(timeout=0):
            if hint.pid != own_pid:
                self._on_hint(None if hint.payload == ALL_STREAMS else frozenset(hint.payload.split()))
