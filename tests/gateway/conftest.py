"""A gateway on real sockets, with an upstream of the test and a desk whose calls the test decides."""

from __future__ import annotations

import contextlib
import queue
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from holdfast.gateway.model import Arrival, Outcome, PreparedRequest
from holdfast.gateway.proxy import Gateway, GatewayOptions
from holdfast.gateway.service import GatewayService, ServiceOptions
from holdfast.gateway.splitters import ReadCall, ReadReply
from tests.gateway.processes import Nursery
from tests.gateway.raw_upstream import WAIT_S, RawUpstream, Script


class ScriptedDesk:
    """A desk that changes nothing, unless a test gives it something to do."""

    def __init__(self) -> None:
        self.on_prepare: Callable[[Arrival], bytes] = lambda arrival: arrival.body
        self.on_fall_back: Callable[[Arrival], bytes] = lambda arrival: arrival.body
        self.on_settle: Callable[[Outcome], None] = lambda outcome: None
        self.kept_bytes = 0
        self.arrivals: list[Arrival] = []
        self.fall_backs: list[Arrival] = []
        self.left_alone: list[PreparedRequest] = []
        self.outcomes: queue.Queue[Outcome] = queue.Queue()

    def prepare(self, arrival: Arrival) -> PreparedRequest:
        self.arrivals.append(arrival)
        body = self.on_prepare(arrival)
        return PreparedRequest(arrival=arrival, body=body, step=self.outcomes, kept_bytes=self.kept_bytes)

    def fall_back(self, arrival: Arrival) -> PreparedRequest:
        self.fall_backs.append(arrival)
        return PreparedRequest(arrival=arrival, body=self.on_fall_back(arrival), step=self.outcomes)

    def settle(self, prepared: PreparedRequest, outcome: Outcome) -> None:
        self.on_settle(outcome)
        assert isinstance(prepared.step, queue.Queue)
        prepared.step.put(outcome)  # that of its test: a record may be finished after it

    def leave_alone(self, prepared: PreparedRequest) -> None:
        self.left_alone.append(prepared)

    def read(self, prepared: PreparedRequest, calls: Sequence[ReadCall]) -> list[str]:
        raise AssertionError("no request of these tests has the gateway's tool")

    def keep_reads(self, prepared: PreparedRequest, reply: ReadReply) -> None:
        raise AssertionError("no request of these tests has the gateway's tool")

    def next_outcome(self) -> Outcome:
        return self.outcomes.get(timeout=WAIT_S)


class Bench:
    """An upstream, a desk, and a gateway between a client and them."""

    def __init__(self, upstream: RawUpstream, desk: ScriptedDesk, service: GatewayService) -> None:
        self.upstream = upstream
        self.desk = desk
        self.service = service

    @property
    def url(self) -> str:
        return self.service.url


@contextlib.contextmanager
def open_bench(script: Script, *, grace_s: int = 1, **options: Any) -> Iterator[Bench]:
    upstream = RawUpstream(script)
    desk = ScriptedDesk()
    chosen = {"anthropic_url": upstream.url, "openai_url": upstream.url, **options}
    gateway = Gateway(desk, GatewayOptions(**chosen))
    try:
        with GatewayService(gateway, ServiceOptions(grace_s=grace_s)) as service:
            yield Bench(upstream, desk, service)
    finally:
        upstream.close()


@pytest.fixture(scope="module")
def shared_bench() -> Iterator[Bench]:
    """One gateway for the tests of a module that leave nothing open."""
    with open_bench(lambda *_: None) as bench:
        yield bench


@pytest.fixture
def bench(shared_bench: Bench) -> Bench:
    fresh = ScriptedDesk()
    shared_bench.desk.__dict__.update(fresh.__dict__)
    shared_bench.upstream.requests.clear()
    shared_bench.upstream.gone.clear()
    return shared_bench


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    """Where gateways come from that run as processes."""
    nursery = Nursery()
    yield nursery
    nursery.close()
