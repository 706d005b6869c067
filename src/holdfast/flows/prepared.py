"""Summaries that were made before the boundary that will use them: kept in memory, never stored.

Law: a prepared text stands for exactly the messages it was made of, as they were shown then; if any of them is shown
otherwise now, it is not used.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from holdfast import codec
from holdfast.model import limits
from holdfast.model.messages import Item
from holdfast.model.names import StreamId


class PreparedSummary(msgspec.Struct, frozen=True):
    """A summary of the messages up to event `last`."""

    version: int
    """The version of the session that it was made on."""
    last: int
    digest: str
    """Of the messages, as the summarizer read them."""
    text: str


class PreparedSummaries:
    """The newest for each conversation, of so many conversations: those used last."""

    def __init__(self, most: int = limits.PREPARED_SUMMARIES) -> None:
        self._most = most
        self._kept: OrderedDict[tuple[StreamId, str | None], PreparedSummary] = OrderedDict()
        self._mutex = threading.Lock()

    def get(self, stream: StreamId, frame: str | None, since: int) -> PreparedSummary | None:
        """The one for a conversation whose view changed last at event `since`: an older one is forgotten."""
        with self._mutex:
            found = self._kept.get((stream, frame))
            if found is not None and found.version < since:
                del self._kept[stream, frame]
                return None
            return found

    def put(self, stream: StreamId, frame: str | None, summary: PreparedSummary) -> None:
        with self._mutex:
            self._kept[stream, frame] = summary
            self._kept.move_to_end((stream, frame))
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


def digest_items(items: Sequence[Item]) -> str:
    return codec.digest(tuple(items))
