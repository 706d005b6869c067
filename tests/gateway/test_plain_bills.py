"""What the client's own requests would have been billed, against a cache that is sent them, call by call."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.gateway.figures import PromptSize, bill_plain, measure_prompt
from holdfast.model.history.bills import CallBill
from tests.gateway.upstreams.caches import CacheUse, MarkCache
from tests.gateway.upstreams.prompts import PromptBlock

TTL = 300


class Added(NamedTuple):
    """What a call adds to the prompt, and the seconds before it."""

    blocks: int
    gap: int


ADDED = st.builds(Added, st.integers(1, 35), st.sampled_from([5, 5, 5, 400]))


def bill(use: CacheUse) -> CallBill:
    return CallBill(use.read, use.write_5m, use.write_1h, use.fresh)


class Replay:
    """The same conversation sent to two caches: as the client wrote it, and with its oldest messages folded."""

    def __init__(self, head: int, fold_at: int, *, has_mark: bool) -> None:
        self._plain, self._sent = MarkCache(), MarkCache()
        self._head = [PromptBlock(b"head", head, TTL)]
        self._fold_at, self._has_mark = fold_at, has_mark
        self._folded: list[PromptBlock] = []
        self._messages: list[PromptBlock] = []
        self._summary = PromptBlock(b"summary", 2_000, TTL if has_mark else 0)
        self._last: PromptSize | None = None
        self._now, self._calls = 0.0, 0

    def call(self, added: Added) -> tuple[CallBill, CallBill, bool]:
        """The bill of the plain request, what is stated of it, and whether a boundary came with it."""
        self._now += added.gap
        self._calls += 1
        is_boundary = self._calls == self._fold_at
        if is_boundary:
            self._folded, self._messages = self._messages, []
        self._messages += [PromptBlock(b"%d-%d" % (self._calls, number), 200) for number in range(added.blocks)]
        end = [*self._messages[:-1], self._messages[-1]._replace(ttl=TTL)]
        summary = [self._summary] if self._folded else []
        truth = bill(self._plain.use("m", [*self._head, *self._folded, *end], self._now))
        sent = bill(self._sent.use("m", [*self._head, *summary, *end], self._now))
        saved = 200 * len(self._folded) - sum(each.tokens for each in summary)
        counted = 200 * (len(self._folded) + len(self._messages))
        size = measure_prompt(sent.tokens, counted, saved, 1.0, before=self._last, is_boundary=is_boundary)
        stated = bill_plain(
            sent,
            size.plain,
            before=self._last,
            is_boundary=is_boundary,
            is_warm=added.gap <= TTL,
            head=self._head[0].tokens,
            has_own_mark=bool(summary) and self._has_mark,
        )
        self._last = msgspec.structs.replace(size, cached=sent.read + sent.written)
        return truth, stated, is_boundary


@example([Added(10, 5), Added(1, 5), Added(20, 5)], 2_000, 2, True)  # the summary is as long as what it replaces
@given(st.lists(ADDED, min_size=2, max_size=12), st.sampled_from([2_000, 17_500]), st.integers(2, 8), st.booleans())
def test_between_boundaries_the_bill_of_the_plain_request_is_exact(
    steps: list[Added], head: int, fold_at: int, has_mark: bool
) -> None:
    replay = Replay(head, fold_at, has_mark=has_mark)
    for added in steps:
        truth, stated, is_boundary = replay.call(added)
        if not is_boundary:
            assert stated == truth


def test_a_read_of_the_mark_behind_the_summary_is_no_warm_cache() -> None:
    """The client adds more blocks than the provider looks back, and so writes its own prompt again; the summary has a mark
    of its own, and is read."""
    replay = Replay(2_000, 2, has_mark=True)
    for added in (Added(150, 5), Added(2, 5), Added(2, 5)):
        replay.call(added)
    truth, stated, _ = replay.call(Added(30, 5))
    assert (stated.read, stated.write) == (truth.read, truth.write) == (2_000, truth.tokens - 2_000)
