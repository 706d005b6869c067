"""Providers that fail, through the gateway: clients see what they would see without it, and the conversation goes on."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import anthropic
import pytest

from tests.gateway.agents import MessagesAgent, read_content
from tests.gateway.loops import LOOPS, write_script
from tests.gateway.processes import GatewayProcess, GatewayTask, Nursery
from tests.gateway.upstreams import FakeProvider, Fault, say

WINDOW = 9_000


@pytest.fixture(scope="module")
def provider() -> Iterator[FakeProvider]:
    with FakeProvider(write_script(100, thinking=True)) as server:
        yield server


@pytest.fixture(scope="module")
def gateway(
    nursery: Nursery, provider: FakeProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[GatewayProcess]:
    store = tmp_path_factory.mktemp("gateway") / "g.db"
    with GatewayProcess(nursery, GatewayTask(store=str(store), upstream=provider.url, window=WINDOW)) as process:
        yield process


@pytest.fixture
def agent(gateway: GatewayProcess, request: pytest.FixtureRequest) -> Iterator[MessagesAgent]:
    agent = MessagesAgent(gateway.url, request.node.name, thinking="enabled")
    agent.is_stream = True
    yield agent
    agent.close()


STATUSES = [Fault(status=429, retry_after="7"), Fault(status=529), Fault(status=500), Fault(status=503)]


@pytest.mark.parametrize("fault", STATUSES, ids=lambda fault: str(fault.status))
def test_overload_comes_through_and_a_retry_goes_on(provider: FakeProvider, agent: MessagesAgent, fault: Fault) -> None:
    for turn in range(6):
        provider.faults.append(fault)
        status, data = agent.call()
        failed = provider.calls[-1]
        assert (status, data) == (fault.status, failed.answer) == (failed.status, failed.answer)
        agent.step()
        assert provider.calls[-1].body == failed.body, f"turn {turn}"
    assert provider.refusals == []
    assert agent.sender.sent[-1] != provider.calls[-1].body, "a boundary was made"


CUTS = [Fault(cut=-1), Fault(cut=0), Fault(cut=1), Fault(cut=700), Fault(cut=700, resets=True), Fault(cut=10**6)]


@pytest.mark.parametrize("fault", CUTS, ids=lambda fault: f"{fault.cut}-{fault.resets}")
def test_a_cut_is_a_cut_and_a_retry_goes_on(provider: FakeProvider, agent: MessagesAgent, fault: Fault) -> None:
    for _ in range(3):
        agent.step()
    provider.faults.append(fault)
    got = b""
    try:
        status, got = agent.call()
        assert status >= 500, "a cut stream has no proper end"
    except http.client.IncompleteRead as error:
        got = error.partial
        assert provider.calls[-1].answer.startswith(got)
    except (ConnectionError, http.client.HTTPException):
        assert (fault.cut or 0) <= 0
    for _ in range(3):
        agent.step()
    assert provider.refusals == []


SPLITS = [Fault(chunks=(1,)), Fault(chunks=(1, 2, 3, 5)), Fault(chunks=(7,)), Fault(trim=True), Fault(gzip=True)]


@pytest.mark.parametrize("fault", SPLITS, ids=["bytes", "small", "sevens", "trim", "gzip"])
def test_splits_change_nothing(provider: FakeProvider, agent: MessagesAgent, fault: Fault) -> None:
    """The reply was read as well, wherever it was split: the next request continues it, and is not a revision."""
    for _ in range(7):
        provider.faults.append(fault)
        _, data = agent.call()
        call = provider.calls[-1]
        if agent.sender.coding == "gzip" or not fault.gzip:
            assert data == call.answer
        else:  # the gateway reads along, and so has to decode
            assert b"holdfast_read" in call.body
            assert data == gzip.decompress(call.answer)
        agent.take(read_content(gzip.decompress(data) if agent.sender.coding else data))
    assert provider.refusals == []
    assert agent.sender.sent[-1] != provider.calls[-1].body, "a boundary was made"


def test_a_stalled_stream_arrives_as_far_as_it_came(provider: FakeProvider, gateway: GatewayProcess) -> None:
    async def run() -> str:
        client = anthropic.AsyncAnthropic(base_url=gateway.url, api_key="none", max_retries=0)
        headers = {"x-fake-line": "stalled", "x-fake-turn": "5"}
        provider.faults.append(Fault(stall=60, stall_at=900, chunks=(100,)))
        async with (
            client,
            client.messages.stream(
                model="claude-sonnet-5",
                max_tokens=9,
                messages=[{"role": "user", "content": "Hi."}],
                extra_headers=headers,
            ) as stream,
        ):
            first = await anext(aiter(stream))
            assert first.type == "message_start"
            await asyncio.to_thread(provider.stalled.wait, 60)
            provider.resume()
            return await stream.get_final_text()

    assert asyncio.run(run()) == "Done with step 5 of stalled."


def test_a_refused_change_is_sent_as_it_came_and_the_session_left_alone(nursery: Nursery, tmp_path: Path) -> None:
    """A provider that takes no summary."""
    with FakeProvider(write_script(100)) as provider:
        check = provider.rules.check

        def refuse(request: dict[str, object], *args: object, **options: object) -> None:
            assert "Summary of earlier context" not in json.dumps(request["messages"])
            check(request, *args, **options)  # type: ignore[arg-type]

        def guard(request: dict[str, object], *args: object, **options: object) -> None:
            from tests.gateway.upstreams.refusals import Refusal

            try:
                refuse(request, *args, **options)
            except AssertionError:
                raise Refusal("messages: no summaries here") from None

        provider.rules.check = guard  # type: ignore[method-assign]
        task = GatewayTask(store=str(tmp_path / "g.db"), upstream=provider.url, window=7_000)
        with GatewayProcess(nursery, task) as gateway:
            agent = MessagesAgent(gateway.url, "alone")
            for _ in range(10):
                agent.step()
            assert len(provider.refusals) == 1
            gateway.restart()
            agent.close()
            for _ in range(3):
                agent.step()
            agent.close()
        assert len(provider.refusals) == 1
        at = next(number for number, call in enumerate(provider.calls) if call.refusal)
        assert [call.body for call in provider.calls[at + 1 :]] == agent.sender.sent[at:]


@pytest.mark.parametrize("dialect", LOOPS)
def test_answers_in_one_piece_of_every_kind(gateway: GatewayProcess, provider: FakeProvider, dialect: str) -> None:
    script, provider.script = provider.script, [say("Größe 😀 ok."), say("Done.")]
    loop = LOOPS[dialect](gateway.url, f"pieces-{dialect}")
    for fault in (Fault(gzip=True, chunks=(3, 1)), Fault(chunks=(1,))):
        provider.faults.append(fault)
        loop.take(loop.call())  # type: ignore[arg-type]
    loop.close()
    provider.script = script
    assert provider.refusals == []
    assert [bytes(got) for got in loop.tap.got] == [call.answer for call in provider.calls[-2:]]
