"""The recorded sessions through the desk of a gateway in this process: the same requests, provider and scorer as over HTTP,
without sockets and processes. It takes minutes, not hours, and every boundary is there for the next request, as it is where
seconds lie between two calls. It says nothing of times and streams.

    python -m benchmarks.gateway.desks DATA [--policy faithful] [--head large] [--window TOKENS] [--half others]
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from tests.gateway.upstreams import Exchange
from tests.gateway.upstreams.http import Answer

import holdfast
from benchmarks.cost_grounding import present
from benchmarks.cost_recordings import is_held_out
from benchmarks.gateway.clocks import HeldClock
from benchmarks.gateway.heads import LARGE_HEAD, SMALL_HEAD, Head
from benchmarks.gateway.material import MODEL, BodyBuilder, ReplayCall, ReplaySession, find_files, read_sessions
from benchmarks.gateway.replays import build_headers, price_output
from benchmarks.gateway.scores import Scorer, SessionScore
from benchmarks.gateway.upstream import Receipt, ReplayProvider
from holdfast.gateway.desk import Desk
from holdfast.gateway.engines import SPOOLING
from holdfast.gateway.model import Arrival, Outcome
from holdfast.gateway.options import DeskOptions
from holdfast.gateway.replies import ReplyReader
from holdfast.gateway.statistics import read_calls, sum_calls
from holdfast.model.history.prices import Prices, find_prices

HEADS = {"small": SMALL_HEAD, "large": LARGE_HEAD}
HALVES = {"all": (False, True), "held-out": (True,), "others": (False,)}


class LocalProvider(ReplayProvider):
    """The provider of a replay, called without a socket."""

    def __init__(self) -> None:
        super().__init__(HeldClock())

    def answer(self, headers: Sequence[tuple[str, str]], body: bytes) -> Answer:
        named = tuple((name.encode(), value.encode()) for name, value in headers)
        exchange = Exchange(0, "POST", "/v1/messages", named, body)
        return self._reply("anthropic", exchange)


class MissingIdentifier(msgspec.Struct, frozen=True):
    """An identifier that a call takes from what was there before, and its request lacks."""

    session: str
    call: int
    identifier: str
    share: float
    """The part of the call's grounding that it is."""


class DeskReplay(msgspec.Struct):
    """What was seen of one session."""

    name: str
    score: SessionScore
    billed: int = 0
    """By the fake provider, with replies, in picodollars."""
    stated_cost: int = 0
    stated_plain: int = 0
    missing: list[MissingIdentifier] = msgspec.field(default_factory=list)


class DeskGround:
    """One provider and one price list for the replays of a process."""

    def __init__(self, head: Head) -> None:
        self._provider, self._head = LocalProvider(), head
        prices = find_prices(MODEL)
        assert prices is not None, "a listed model"
        self._prices: Prices = prices

    def replay(self, session: ReplaySession, options: DeskOptions | None) -> DeskReplay:
        """Send the calls of a session through a desk; as they are without options."""
        clock = HeldClock()
        with holdfast.open("memory:", principal="gateway", spooling=SPOOLING, clock=clock) as engine:
            desk = None if options is None else Desk(engine, options)
            scorer = Scorer(self._prices)
            found = DeskReplay(session.name, scorer.score)
            bodies = BodyBuilder(self._head, session.name)
            self._provider.begin_session()
            for call in session.calls:
                clock.advance(call.sent_us)
                receipt = self._send(desk, clock, session.name, bodies.build(call.turns), call)
                scorer.add(call, receipt, call.sent_us, call.replied_us)
                found.billed += price_output(receipt, self._prices)
                found.missing += find_missing(session.name, call, receipt)
            if desk is not None:
                totals = sum_calls(each.figures for each in read_calls(engine))
                found.stated_cost, found.stated_plain = totals.cost, totals.plain_cost
        return found

    def _send(self, desk: Desk | None, clock: HeldClock, name: str, body: bytes, call: ReplayCall) -> Receipt:
        headers = tuple((key.lower(), value) for key, value in build_headers(name).items())
        receipt = self._provider.expect(call, call.sent_us)
        if desk is None:
            self._provider.answer(headers, body)
            return receipt
        prepared = desk.prepare(Arrival(dialect="anthropic", headers=headers, body=body))
        answer = self._provider.answer(headers, prepared.body)
        clock.advance(call.replied_us)
        reader = ReplyReader("text/event-stream", "")
        reader.add(answer.body)
        read = reader.finish(has_ended=True)
        outcome = Outcome(status=answer.status, reply=read.reply, sent_us=call.sent_us, ended_us=call.replied_us)
        desk.settle(prepared, outcome)
        return receipt


def find_missing(session: str, call: ReplayCall, receipt: Receipt) -> list[MissingIdentifier]:
    text = "\n".join(block.text for block in receipt.blocks)
    share = 1 / max(1, len(call.wanted))
    return [MissingIdentifier(session, call.number, each, share) for each in call.wanted if not present(each, text)]


def describe(name: str, sent: Sequence[DeskReplay], plain: Sequence[DeskReplay]) -> str:
    total, base = SessionScore.total(each.score for each in sent), SessionScore.total(each.score for each in plain)
    ratios = [one.score.cost / other.score.cost for one, other in zip(sent, plain, strict=True)]
    truth = sum(each.billed for each in plain)
    stated = sum(each.stated_plain for each in sent) / truth - 1
    return (
        f"{name:20} {total.cost / base.cost:.4f} of plain ({total.billed / base.billed:.4f} look-back)   grounding"
        f" {total.grounding:.3%}   dearest session {max(ratios):.4f}, {sum(each > 1 for each in ratios)} dearer  "
        f" {total.sent // total.calls:,} tokens a call   {total.boundaries} boundaries   stated {stated:+.2%}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--policy", choices=["faithful", "frugal"], action="append")
    parser.add_argument("--head", choices=[*HEADS], default="small")
    parser.add_argument("--half", choices=[*HALVES], default="all")
    parser.add_argument("--window", type=int)
    given: Any = parser.parse_args()
    files = [file for file in find_files(given.data) if is_held_out(file.stem) in HALVES[given.half]]
    sessions = read_sessions(files)
    ground = DeskGround(HEADS[given.head])
    plain = [ground.replay(each, None) for each in sessions]
    print(f"{len(sessions)} sessions, {MODEL}, {HEADS[given.head].tokens:,} tokens before the conversation", flush=True)
    for policy in given.policy or ("faithful", "frugal"):
        sent = [ground.replay(each, DeskOptions(policy=policy, window=given.window)) for each in sessions]
        for half, chosen in HALVES.items():
            rows = [at for at, each in enumerate(sessions) if is_held_out(each.name) in chosen]
            if rows and (half == "all" or len(rows) < len(sessions)):
                print(describe(f"{policy}, {half}", [sent[at] for at in rows], [plain[at] for at in rows]), flush=True)


if __name__ == "__main__":
    main()
