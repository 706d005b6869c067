"""Requests per minute: a token bucket for each key, in each process.

A server of several processes allows each key up to that many requests in each of them: the limit protects a process from a
client that runs wild. What costs money is limited across processes, in `spend.py`.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict

import msgspec

from holdfast.access.access import Access
from holdfast.errors import RateExceeded

MINUTE_S = 60.0
MOST_BUCKETS = 10_000
"""The keys whose rate one process remembers; the least recently used is forgotten."""
ROUNDING = 1e-9
"""What a sum of fractions of a request may lack of a whole one: who waited as long as they were told is allowed."""


class RateState(msgspec.Struct, frozen=True):
    """What a bucket has after a request."""

    is_allowed: bool
    limit: int
    remaining: int
    reset_s: int
    """Until the bucket is full; for a refused request, until the next one is allowed."""


class TokenBucket:
    """Allows `limit` requests at once, and as many in each minute."""

    def __init__(self, limit: int, now_s: float) -> None:
        self.limit = limit
        self._tokens = float(limit)
        self._at_s = now_s

    def take(self, now_s: float) -> RateState:
        per_second = self.limit / MINUTE_S
        self._tokens = min(float(self.limit), self._tokens + max(0.0, now_s - self._at_s) * per_second)
        self._at_s = max(self._at_s, now_s)
        if self._tokens < 1 - ROUNDING:
            return RateState(False, self.limit, 0, max(1, math.ceil((1 - self._tokens) / per_second)))
        self._tokens = max(0.0, self._tokens - 1)
        return RateState(True, self.limit, int(self._tokens), math.ceil((self.limit - self._tokens) / per_second))


class RateLimiter:
    """The buckets of all keys in this process."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()

    def take(self, access: Access, now_s: float | None = None) -> RateState | None:
        """Count a request; None for a caller without a limit."""
        limit = access.requests_per_minute
        if limit is None or not access.key_id:
            return None
        at_s = time.monotonic() if now_s is None else now_s
        bucket = self._buckets.get(access.key_id)
        if bucket is None or bucket.limit != limit:
            bucket = self._buckets[access.key_id] = TokenBucket(limit, at_s)
        self._buckets.move_to_end(access.key_id)
        if len(self._buckets) > MOST_BUCKETS:
            self._buckets.popitem(last=False)
        return bucket.take(at_s)


def rate_headers(state: RateState) -> dict[str, str]:
    """The headers of an answer to a caller with a limit."""
    return {
        "ratelimit-limit": str(state.limit),
        "ratelimit-remaining": str(state.remaining),
        "ratelimit-reset": str(state.reset_s),
    }


def rate_exceeded(state: RateState) -> RateExceeded:
    return RateExceeded(limit=state.limit, retry_s=state.reset_s, reason="")
