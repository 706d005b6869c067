"""Who wants to know when the streams of a store have changed.

Law: a store announces a change after its commit, never before. An announcement may come twice; it carries no events, so a
slow listener delays nobody.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TypeAlias

from holdfast.model.names import StreamId

ChangeListener: TypeAlias = Callable[[], None]


class ChangeListeners:
    """The listeners of one store. Threads can share it."""

    def __init__(self) -> None:
        self._mutex = threading.RLock()  # a watch can be collected while this thread has it
        self._streams: dict[ChangeListener, StreamId | None] = {}
        self._wide: set[ChangeListener] = set()
        self._by_stream: dict[StreamId, set[ChangeListener]] = {}

    def __len__(self) -> int:
        return len(self._streams)

    def add(self, listener: ChangeListener, stream: StreamId | None) -> None:
        """Call `listener` after each change of this stream, or of any stream."""
        with self._mutex:
            self._streams[listener] = stream
            (self._wide if stream is None else self._by_stream.setdefault(stream, set())).add(listener)

    def remove(self, listener: ChangeListener) -> None:
        """Do not call this listener any more. Removing it again does nothing."""
        with self._mutex:
            stream = self._streams.pop(listener, None)
            self._wide.discard(listener)
            if stream is not None:
                self._by_stream[stream].discard(listener)
                if not self._by_stream[stream]:
                    del self._by_stream[stream]

    def announce(self, streams: Iterable[StreamId]) -> None:
        """Call the listeners of these streams."""
        if self._streams:
            with self._mutex:
                found = set(self._wide)
                for stream in streams:
                    found |= self._by_stream.get(stream, set())
            _call_all(found)

    def announce_matching(self, has_changed: Callable[[StreamId], bool]) -> None:
        """Call the listeners of the streams for which `has_changed` is true."""
        if self._streams:
            with self._mutex:
                streams = list(self._by_stream)
            self.announce(filter(has_changed, streams))

    def announce_all(self) -> None:
        """Call every listener: any stream may have changed."""
        with self._mutex:
            found = list(self._streams)
        _call_all(found)


def _call_all(listeners: Iterable[ChangeListener]) -> None:
    for listener in listeners:
        listener()
