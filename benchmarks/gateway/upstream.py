"""The provider of a replay: it answers with the recorded reply, and holds the end of each stream back until the client has
its first byte. So a stream that was buffered on its way is seen without a clock."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import Any

import msgspec
from tests.gateway.upstreams import Exchange, FakeProvider, Fault, Reply, read_reply
from tests.gateway.upstreams.caches import MarkCache
from tests.gateway.upstreams.http import Answer
from tests.gateway.upstreams.prompts import BLOCK_TOKENS, PromptBlock, PromptReader
from tests.gateway.upstreams.server import Ask

from benchmarks.cost_grounding import strings
from benchmarks.gateway.clocks import SettableClock
from benchmarks.gateway.material import ReplayCall
from holdfast.model.history.prices import Prices

HOLD_S = 2.0
"""How long the end of a stream is held back at most."""
MICROS = 1_000_000


class SentBlock(msgspec.Struct, frozen=True):
    """A block of a prompt, without cache marks."""

    key: bytes
    tokens: int
    text: str
    """All that it says."""


class TextReader(PromptReader):
    """Counts the texts of blocks, not their JSON."""

    def __init__(self) -> None:
        super().__init__("exact")
        self.blocks: dict[bytes, SentBlock] = {}

    def _build(self, salt: str, block: object, ttl: int = 0, *, keeps_text: bool = False) -> PromptBlock:  # noqa: ARG002
        built = PromptBlock(_key(salt, block), 0, ttl)
        known = self.blocks.get(built.key)
        if known is None:
            assert isinstance(block, dict)
            shown = read_text(block)
            known = self.blocks[built.key] = SentBlock(built.key, self.count(shown) + BLOCK_TOKENS, find_words(block))
        return built._replace(tokens=known.tokens)


def _key(salt: str, block: object) -> bytes:
    return hashlib.blake2b(salt.encode() + msgspec.json.encode(block), digest_size=16).digest()


def read_text(block: dict[str, Any]) -> str:
    """What a model reads of a block: the text of a message or a result, and the JSON of a call or a tool."""
    match block.get("type"):
        case "text":
            return str(block["text"])
        case "tool_use":
            return f"{block['name']} {json.dumps(block['input'], ensure_ascii=False)}"
        case "tool_result":
            content = block.get("content") or ""
            return content if isinstance(content, str) else "\n".join(read_text(each) for each in content)
    return json.dumps(block, ensure_ascii=False)


def find_words(block: dict[str, Any]) -> str:
    """Where identifiers are looked for: the text, and the arguments of a call also as they are without JSON."""
    if block.get("type") != "tool_use":
        return read_text(block)
    return "\n".join([read_text(block), *strings(block["input"])])


@dataclasses.dataclass
class Receipt:
    """What came for one call."""

    blocks: tuple[SentBlock, ...] = ()
    usage: dict[str, int] = dataclasses.field(default_factory=dict)
    exchange: Exchange | None = None
    is_held: bool = False
    """The client had its first byte before the last was sent."""
    requests: int = 0


class ReplayProvider(FakeProvider):
    """Answers one call at a time."""

    def __init__(self, clock: SettableClock) -> None:
        super().__init__(self._answer, keep="all")
        self._recorded = clock
        self._reader = TextReader()
        self.clock = lambda: self._now_us / MICROS
        self._now_us = 0
        self._call: ReplayCall | None = None
        self.receipt = Receipt()
        self._gate: asyncio.Event | None = None

    def begin_session(self) -> None:
        """Forget all that was cached."""
        self._marks = MarkCache()
        self.exchanges.clear()

    def expect(self, call: ReplayCall, sent_us: int) -> Receipt:
        """The call that comes next."""
        self._call, self._now_us = call, sent_us
        self.receipt = Receipt()
        self.exchanges.clear()
        return self.receipt

    def open_gate(self) -> None:
        """Let the held stream end: the client has its first byte."""
        self._loop.call_soon_threadsafe(lambda: self._gate.set() if self._gate is not None else None)

    def _answer(self, _ask: Ask) -> Reply:
        assert self._call is not None
        return read_reply(self._call.reply)

    def _charge(self, ask: Ask, blocks: list[PromptBlock], reply: Reply) -> dict[str, Any]:
        usage = super()._charge(ask, blocks, reply)
        reader: Any = self._reader
        self.receipt.blocks = tuple(reader.blocks[block.key] for block in blocks)
        self.receipt.usage = usage
        self.receipt.exchange = ask.exchange
        return usage

    async def _handle(self, exchange: Exchange) -> Answer:
        answer = await super()._handle(exchange)
        if not exchange.is_call:
            return answer
        self.receipt.requests += 1
        assert self._call is not None
        self._recorded.advance(self._now_us + self._call.replied_us - self._call.sent_us)
        if answer.frames:
            self._gate = asyncio.Event()
            answer.fault = Fault(stall=HOLD_S, stall_at=len(answer.body) - answer.frames[-1])
        return answer

    async def _stall(self, seconds: float) -> None:
        assert self._gate is not None
        try:
            await asyncio.wait_for(self._gate.wait(), seconds)
        except TimeoutError:
            return
        self.receipt.is_held = True


def bill(usage: dict[str, Any], prices: Prices) -> int:
    """What a usage costs without the reply, in picodollars."""
    read, write = usage["cache_read_input_tokens"], usage["cache_creation_input_tokens"]
    tokens: int = usage["input_tokens"] * prices.input + read * prices.cache_read + write * prices.cache_write
    return tokens


def count_common(before: Sequence[SentBlock], after: Sequence[SentBlock]) -> int:
    """How many blocks two prompts share from the beginning on."""
    for number, (one, other) in enumerate(zip(before, after, strict=False)):
        if one.key != other.key:
            return number
    return min(len(before), len(after))
