"""Prompt caches as providers document them.

Anthropic: only marks write. From each mark, at most 20 positions are looked at, the mark itself first, and the longest
prefix that is cached is read. A prefix under 1,024 tokens is not cached. An entry lives for five minutes or an hour from
its last use. OpenAI: every prompt is cached by itself; the longest common beginning is read, in steps of 128 tokens from
1,024 on.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from tests.gateway.upstreams.prompts import PromptBlock

LOOK_BACK = 20
MIN_TOKENS = 1_024
STEP_TOKENS = 128
SLICE_CHARS = 256
"""The grain of common beginnings inside of a block."""


class CacheUse(NamedTuple):
    """The tokens of one prompt by what they cost."""

    fresh: int
    read: int = 0
    write_5m: int = 0
    write_1h: int = 0

    @property
    def total(self) -> int:
        return sum(self)


class _Entry(NamedTuple):
    expires: float
    ttl: int


class MarkCache:
    """The cache of Anthropic."""

    def __init__(self, min_tokens: int = MIN_TOKENS) -> None:
        self._min_tokens = min_tokens
        self._entries: dict[bytes, _Entry] = {}

    def use(self, model: str, blocks: Sequence[PromptBlock], now: float) -> CacheUse:
        """What this prompt reads and writes now."""
        keys, sums = _chain(model, blocks)
        marks = [at for at, block in enumerate(blocks) if block.ttl and sums[at] >= self._min_tokens]
        hit = max((self._look_back(keys, mark, now) for mark in marks), default=-1)
        if hit >= 0:
            self._touch(keys[hit], self._entries[keys[hit]].ttl, now)
        for mark in marks:
            self._touch(keys[mark], blocks[mark].ttl, now)
        total = sums[-1] if sums else 0
        read = sums[hit] if hit >= 0 else 0
        long_end = max((sums[at] for at in marks if blocks[at].ttl > 300 and at > hit), default=read)
        end = max((sums[at] for at in marks if at > hit), default=read)
        return CacheUse(total - end, read, end - long_end, long_end - read)

    def _look_back(self, keys: list[bytes], mark: int, now: float) -> int:
        for at in range(mark, max(-1, mark - LOOK_BACK), -1):
            entry = self._entries.get(keys[at])
            if entry is not None and entry.expires > now:
                return at
        return -1

    def _touch(self, key: bytes, ttl: int, now: float) -> None:
        """Write the entry, or refresh it; an entry that lives keeps the longer of both times."""
        entry = self._entries.get(key)
        if entry is not None and entry.expires > now:
            ttl = max(ttl, entry.ttl)
        self._entries[key] = _Entry(now + ttl, ttl)


class PrefixCache:
    """The cache of OpenAI."""

    def __init__(self, ttl_s: int = 300) -> None:
        self._ttl_s = ttl_s
        self._expiry: dict[bytes, float] = {}

    def use(self, model: str, blocks: Sequence[PromptBlock], now: float, *, bills_writes: bool = False) -> CacheUse:
        keys, sums = _chain_slices(model, blocks)
        total = sum(block.tokens for block in blocks)
        common = 0
        for key, tokens in zip(keys, sums, strict=True):
            if self._expiry.get(key, now) <= now:
                break
            common = tokens
        for key in keys:
            self._expiry[key] = now + self._ttl_s
        common -= common % STEP_TOKENS
        read = common if common >= MIN_TOKENS else 0
        cached = total - total % STEP_TOKENS if total >= MIN_TOKENS else 0
        write = max(0, cached - read) if bills_writes else 0
        return CacheUse(total - read - write, read, write)


def _chain(model: str, blocks: Sequence[PromptBlock]) -> tuple[list[bytes], list[int]]:
    """The key of each prefix, and its tokens."""
    keys, sums = [], []
    key, tokens = hashlib.sha256(model.encode()).digest(), 0
    for block in blocks:
        key = hashlib.sha256(key + block.key).digest()
        tokens += block.tokens
        keys.append(key)
        sums.append(tokens)
    return keys, sums


def _chain_slices(model: str, blocks: Sequence[PromptBlock]) -> tuple[list[bytes], list[int]]:
    """The key of each prefix of slices, and its tokens: those of a block are spread over its characters."""
    keys, sums = [], []
    key, before = hashlib.sha256(model.encode()).digest(), 0
    for block in blocks:
        for start in range(0, max(1, len(block.text)), SLICE_CHARS):
            end = min(len(block.text), start + SLICE_CHARS)
            is_last = end == len(block.text)
            part = block.text[start:end] + ("\0" if is_last else "")
            key = hashlib.sha256(key + part.encode("utf-8", "surrogatepass")).digest()
            keys.append(key)
            sums.append(before + (block.tokens if is_last else block.tokens * end // len(block.text)))
        before += block.tokens
    return keys, sums
