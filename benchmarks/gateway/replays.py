"""A client that sends the calls of recorded sessions, one after the other, and reads the answers as they come."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import urlsplit

import msgspec

from benchmarks.gateway.clocks import RecordedClock
from benchmarks.gateway.contenders import GatewayProcess
from benchmarks.gateway.heads import Head
from benchmarks.gateway.material import BodyBuilder, ReplayCall, ReplaySession
from benchmarks.gateway.scores import Scorer, SessionScore
from benchmarks.gateway.upstream import MICROS, Receipt, ReplayProvider, bill
from holdfast.model.history.prices import Prices

WORK_S = 2.0
"""Between an answer and the next request, the replay waits as long as recorded, but no longer than the contender works, and
this at most. So what a contender does behind an answer is done, as it is where seconds lie between two calls."""
TIMEOUT_S = 120


class SessionReplay(msgspec.Struct):
    """What was seen of one session."""

    score: SessionScore
    removed: set[str] = msgspec.field(default_factory=set)
    """The ids of tool calls whose results were not in some request as they are."""
    billed: int = 0
    """By the fake provider, with replies, in picodollars."""


class Client:
    """One connection, which is opened again when it is lost."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = parts.hostname or "", parts.port or 80
        self._connection = self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*self._address, timeout=TIMEOUT_S)

    def send(self, session: str, body: bytes, on_first: Callable[[], None]) -> tuple[int, bytes]:
        """The status and the bytes of an answer; `on_first` is called at its first byte."""
        headers = build_headers(session)
        try:
            self._connection.request("POST", "/v1/messages?beta=true", body, headers)
            response = self._connection.getresponse()
        except (ConnectionError, http.client.HTTPException):
            self._connection.close()
            self._connection = self._connect()
            self._connection.request("POST", "/v1/messages?beta=true", body, headers)
            response = self._connection.getresponse()
        first = response.read1(1 << 16)
        on_first()
        return response.status, first + response.read()

    def close(self) -> None:
        self._connection.close()


def build_headers(session: str) -> dict[str, str]:
    """As Claude Code sends them."""
    return {
        "Content-Type": "application/json",
        "Accept": "application/json",
        "User-Agent": "claude-cli/2.1.197 (external, cli)",
        "x-app": "cli",
        "x-api-key": "benchmark",
        "anthropic-version": "2023-06-01",
        "X-Claude-Code-Session-Id": session,
    }


class Replay:
    """Sends sessions to one contender."""

    def __init__(
        self,
        url: str,
        provider: ReplayProvider,
        clock: RecordedClock,
        head: Head,
        prices: Prices,
        process: GatewayProcess | None = None,
    ) -> None:
        self._client = Client(url)
        self._provider, self._clock, self._head, self._prices = provider, clock, head, prices
        self._process = process

    def run(
        self,
        session: ReplaySession,
        calls: Iterable[ReplayCall] | None = None,
        before: Callable[[int], None] | None = None,
    ) -> SessionReplay:
        """Send the calls of a session. `before` is called with the number of each."""
        scorer = Scorer(self._prices)
        found = SessionReplay(scorer.score)
        bodies = BodyBuilder(self._head, session.name)
        self._provider.begin_session()
        calls = session.calls if calls is None else calls
        before_us = 0
        for number, call in enumerate(calls):
            if before is not None:
                before(number)
            body = bodies.build(call.turns)
            if before_us:
                if self._process is not None:
                    self._process.wait_until_idle(min(WORK_S, max(0, call.sent_us - before_us) / MICROS))
                self._clock.advance(call.sent_us)
            else:
                self._clock.set(call.sent_us)
            before_us = call.replied_us
            receipt = self._provider.expect(call, call.sent_us)
            status, answer = self._client.send(session.name, body, self._provider.open_gate)
            self._note(found, call, receipt, body, status, answer)
            if receipt.blocks:
                scorer.add(call, receipt, call.sent_us, call.replied_us)
        return found

    def _note(
        self, found: SessionReplay, call: ReplayCall, receipt: Receipt, body: bytes, status: int, answer: bytes
    ) -> None:
        score, exchange = found.score, receipt.exchange
        score.failed += status != 200 or exchange is None
        score.resent += receipt.requests > 1
        if exchange is None:
            return
        score.streams += receipt.is_held and exchange.is_streamed
        score.intact += exchange.answer == answer
        score.changed += exchange.body != body
        found.billed += price_output(receipt, self._prices)
        if exchange.body != body:
            found.removed |= find_removed(call, receipt)

    def close(self) -> None:
        self._client.close()


def price_output(receipt: Receipt, prices: Prices) -> int:
    return bill(receipt.usage, prices) + receipt.usage["output_tokens"] * prices.output


def find_removed(call: ReplayCall, receipt: Receipt) -> set[str]:
    """The ids of the calls whose results a request does not have as they are."""
    assert receipt.exchange is not None
    shown = {
        (block["tool_use_id"], block.get("content"))
        for message in receipt.exchange.request["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
        if block["type"] == "tool_result" and isinstance(block.get("content"), str)
    }
    return {name for name, text in _results(call) if (name, text) not in shown}


def _results(call: ReplayCall) -> Iterator[tuple[str, str]]:
    for turn in call.turns:
        for block in turn.blocks:
            if block["type"] == "tool_result":
                yield block["tool_use_id"], block["content"]
