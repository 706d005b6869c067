"""The prompt caches of the fake provider, against lists: whatever is asked in whatever order, both charge the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import hypothesis.strategies as st
from hypothesis import given, settings

from holdfast.model.history.prices import find_prices
from tests.gateway.upstreams.bills import Bill, build_usage, compute_money
from tests.gateway.upstreams.caches import SLICE_CHARS, CacheUse, MarkCache, PrefixCache
from tests.gateway.upstreams.prompts import PromptBlock, PromptReader


class Asked(NamedTuple):
    model: str
    blocks: tuple[PromptBlock, ...]
    wait: float


def block(content: int, tokens: int, ttl: int = 0) -> PromptBlock:
    return PromptBlock(f"{content} {tokens}".encode(), tokens, ttl)


class ListedCache:
    """The cache of Anthropic as a list of what was written: the plainest form of the documentation."""

    def __init__(self) -> None:
        self.written: list[dict[str, Any]] = []

    def use(self, model: str, blocks: Sequence[PromptBlock], now: float) -> CacheUse:
        contents = [(each.key, each.tokens) for each in blocks]

        def find(length: int) -> dict[str, Any] | None:
            prefix = (model, contents[:length])
            alive = [each for each in self.written if each["prefix"] == prefix and each["until"] > now]
            return alive[0] if alive else None

        def count(length: int) -> int:
            return sum(tokens for _, tokens in contents[:length])

        lengths = [at for at in range(1, len(blocks) + 1) if blocks[at - 1].ttl and count(at) >= 1_024]
        hits = [at for mark in lengths for at in range(mark, mark - 20, -1) if at > 0 and find(at)]
        read = max(hits, default=0)
        if read:
            entry = find(read)
            assert entry
            entry["until"] = now + entry["ttl"]
        for mark in lengths:
            entry = find(mark)
            if entry is None:
                entry = {"prefix": (model, contents[:mark]), "ttl": 0}
                self.written = [each for each in self.written if each["prefix"] != entry["prefix"]]
                self.written.append(entry)
            entry["ttl"] = max(entry["ttl"], blocks[mark - 1].ttl)
            entry["until"] = now + entry["ttl"]
        last = max([read, *lengths])
        last_long = max([read, *(mark for mark in lengths if blocks[mark - 1].ttl == 3_600)])
        writes = count(last) - count(last_long), count(last_long) - count(read)
        return CacheUse(count(len(blocks)) - count(last), count(read), *writes)


@st.composite
def conversations(draw: st.DrawFn) -> list[Asked]:
    """Requests that mostly extend earlier ones, with marks of two kinds anywhere."""
    asked: list[Asked] = []
    for _ in range(draw(st.integers(1, 8))):
        if len(asked) > 0 and draw(st.integers(0, 3)) > 0:
            earlier = draw(st.sampled_from(asked))
            kept = len(earlier.blocks) if draw(st.booleans()) else draw(st.integers(0, len(earlier.blocks)))
            blocks = [each._replace(ttl=0) for each in earlier.blocks[:kept]]
            model = earlier.model
        else:
            blocks, model = [], draw(st.sampled_from(["a", "b"]))
        added = draw(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([10, 300, 1_024])), max_size=24))
        blocks += [block(content, tokens) for content, tokens in added]
        for _ in range(draw(st.integers(0, 4))):
            if blocks:
                at = draw(st.integers(max(0, len(blocks) - 30), len(blocks) - 1))
                blocks[at] = blocks[at]._replace(ttl=draw(st.sampled_from([300, 3_600])))
        asked.append(
            Asked(model, tuple(blocks), draw(st.sampled_from([0, 1, 200, 299, 300, 301, 3_599, 3_600, 4_000])))
        )
    return asked


@settings(max_examples=100, deadline=None)
@given(conversations())
def test_marks_are_charged_as_in_the_list(asked: list[Asked]) -> None:
    cache, listed, now = MarkCache(), ListedCache(), 1_000.0
    for each in asked:
        now += each.wait
        use = cache.use(each.model, each.blocks, now)
        assert use == listed.use(each.model, each.blocks, now)
        assert use.total == sum(part.tokens for part in each.blocks)
        assert min(use) >= 0
        if not any(part.ttl for part in each.blocks):
            assert use.fresh == use.total
        else:
            again = cache.use(each.model, each.blocks, now)
            assert again.write_5m == again.write_1h == 0
            listed.use(each.model, each.blocks, now)


def test_a_mark_looks_back_at_twenty_positions_with_itself() -> None:
    head = [block(1, 2_000, 300)]
    for added, is_read in ((19, True), (20, False)):
        cache = MarkCache()
        cache.use("m", head, 0)
        use = cache.use("m", [*head, *[block(2, 10)] * (added - 1), block(2, 10, 300)], 1)
        unmarked = [each._replace(ttl=0) for each in head]
        moved = MarkCache()
        moved.use("m", head, 0)
        use = moved.use("m", [*unmarked, *[block(2, 10)] * (added - 1), block(2, 10, 300)], 1)
        assert (use.read == 2_000) is is_read


def test_a_read_keeps_an_entry_warm_and_an_hour_costs_twice() -> None:
    cache, prompt = MarkCache(), [block(1, 2_000, 300), block(2, 10)]
    assert cache.use("m", prompt, 0) == CacheUse(10, 0, 2_000)
    assert cache.use("m", prompt, 299).read == cache.use("m", prompt, 598).read == 2_000
    assert cache.use("m", prompt, 898).read == 0
    prices = find_prices("claude-sonnet-4-5")
    assert prices
    assert compute_money(prices, CacheUse(0, 0, 0, 1_000_000), 0) == 2 * prices.input
    assert compute_money(prices, CacheUse(0, 0, 1_000_000, 0), 0) * 4 == 5 * prices.input
    bill = Bill()
    bill.charge(prices, CacheUse(1, 2, 3, 4), 5)
    assert (bill.calls, bill.prompt, bill.output) == (1, 10, 5)
    usage = build_usage("anthropic", CacheUse(1, 2, 3, 4), 5, 0)
    assert usage["cache_creation_input_tokens"] == sum(usage["cache_creation"].values()) == 7


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 12_000), st.integers(0, 3), st.sampled_from([0, 1, 299, 300, 301])), max_size=6)
)
def test_common_beginnings_are_read_in_steps(asked: list[tuple[int, int, int]]) -> None:
    """Each prompt is a beginning of one long text, then something of its own, in one block of a token a character."""
    cache, before, now = PrefixCache(300), list[tuple[str, float]](), 0.0
    whole = "".join(chr(0x4E00 + at % 5_000) for at in range(12_000))
    for length, own, wait in asked:
        now += wait
        text = whole[:length] + str(own) * 10
        use = cache.use("m", [PromptBlock(b"", len(text), 0, text)], now)
        common = 0
        for earlier, until in before:
            if until > now:
                equal = next((at for at in range(len(text)) if text[at : at + 1] != earlier[at : at + 1]), len(text))
                slices = equal - equal % SLICE_CHARS
                common = max(common, len(text) if earlier == text else slices)
        before = [(earlier, now + 300 if earlier == text else until) for earlier, until in before]
        before.append((text, now + 300))
        assert use.read <= (common - common % 128 if common >= 1_024 else 0)
        assert use.read % 128 == 0
        assert use.total == len(text)
        assert use.read == 0 or use.read >= 1_024


def test_an_equal_prompt_is_read_in_full_steps_and_others_not() -> None:
    text = "x" * 5_000
    cache = PrefixCache(300)
    prompt = [PromptBlock(b"", 1_300, 0, text)]
    assert cache.use("m", prompt, 0, bills_writes=True) == CacheUse(1_300 - 1_280, 0, 1_280)
    assert cache.use("m", prompt, 1, bills_writes=True) == CacheUse(20, 1_280)
    assert cache.use("other", prompt, 1).read == cache.use("m", prompt, 302).read == 0
    short = [PromptBlock(b"", 1_000, 0, text)]
    assert cache.use("m", short, 302).read == 0


def test_marks_and_their_moves_do_not_change_a_key_and_texts_are_blocks() -> None:
    reader = PromptReader()
    mark = {"type": "ephemeral", "ttl": "1h"}
    texts: list[Any] = ["Fix it.", [{"type": "text", "text": "Fix it.", "cache_control": mark}]]
    read = [reader.read_message({"messages": [{"role": "user", "content": text}]}) for text in texts]
    assert [each.key for each in read[0]] == [each.key for each in read[1]]
    assert [each.ttl for each in read[0] + read[1]] == [0, 3_600]
    other = reader.read_message({"messages": [{"role": "user", "content": "Fix it."}], "tool_choice": {"type": "any"}})
    assert other[0].key != read[0][0].key
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 100_000}}
    assert reader.read_message({"messages": [{"role": "user", "content": [image]}]})[0].tokens < 2_000
    exact = PromptReader("exact").read_message({"messages": [{"role": "user", "content": "Fix it."}]})
    assert exact[0].key == read[0][0].key
