"""How much of one process a single key may occupy: a user who sends slowly or opens streams leaves room for others.

Law: a key for a part of a tenant, which is that of a user, has at most KEY_REQUESTS requests at work and KEY_STREAMS
streams open in a process. Programs that may use all of a tenant act for many: they have the limits of the process only.
"""

from __future__ import annotations

from collections import Counter
from types import TracebackType
from typing import Self

from holdfast.access.access import Access
from holdfast.api.problems import RETRY_AFTER_S
from holdfast.errors import ServerBusy
from holdfast.server import metrics
from holdfast.server.state import RUNNING, SERVER_NAME, STREAMS

KEY_REQUESTS = RUNNING // 4
"""Requests of one key of a user that a process works on at the same time."""
KEY_STREAMS = STREAMS // 10
"""Streams of one key of a user that a process has open."""


class KeyShares:
    """What the keys of users occupy now. Only those that do are remembered."""

    def __init__(self) -> None:
        self.requests: Counter[str] = Counter()
        self.streams: Counter[str] = Counter()

    def hold(self, access: Access) -> KeyShare:
        """Count a request while a block runs. Raises ServerBusy if the key has too many."""
        return KeyShare(self, access.key_id if access.actor is not None else "")


class KeyShare:
    """What one request occupies."""

    def __init__(self, shares: KeyShares, key: str) -> None:
        self._shares, self._key = shares, key
        self._held: Counter[str] | None = None

    def __enter__(self) -> Self:
        self._take(self._shares.requests, KEY_REQUESTS, "requests at work")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def become_stream(self) -> None:
        """The answer is a stream: count it as one. Raises ServerBusy if the key has too many."""
        self._leave()
        self._take(self._shares.streams, KEY_STREAMS, "open streams")

    def _take(self, counts: Counter[str], limit: int, what: str) -> None:
        if not self._key:
            return
        if counts[self._key] >= limit:
            metrics.REFUSED.labels("key").inc()
            raise ServerBusy(server=SERVER_NAME, reason=f"the key has {limit} {what} already", retry_s=RETRY_AFTER_S)
        counts[self._key] += 1
        self._held = counts

    def _leave(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            held[self._key] -= 1
            if not held[self._key]:
                del held[self._key]
