"""The official clients through a gateway: the same conversation as without it, byte for byte where nothing is shortened."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import itertools
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from holdfast.gateway.engines import open_engine
from holdfast.gateway.statistics import read_calls
from tests.gateway.agents import MessagesAgent
from tests.gateway.loops import LOOPS, MODELS, Loop, Tap, build_tools, run_tool, write_script
from tests.gateway.processes import GatewayProcess, GatewayTask, Nursery
from tests.gateway.upstreams import Ask, FakeProvider, Reply, say

WINDOW = 10_000


@contextlib.contextmanager
def open_gateway(
    nursery: Nursery, provider: FakeProvider, store: Path, window: int | None = None
) -> Iterator[GatewayProcess]:
    with GatewayProcess(nursery, GatewayTask(store=str(store), upstream=provider.url, window=window)) as process:
        yield process


def run_loop(url: str, dialect: str, style: str, turns: int) -> Loop:
    loop = LOOPS[dialect](url, "line", style=style, thinking=dialect != "chat")
    try:
        loop.run(turns)
    finally:
        loop.close()
    return loop


def count_misses(provider: FakeProvider) -> int:
    """The calls that read less from the cache than the one before had sent, by more than a step of OpenAI."""
    misses = 0
    for before, call in itertools.pairwise(provider.calls):
        misses += read_tokens(call.usage)[0] < read_tokens(before.usage)[1] - 512
    return misses


def read_tokens(usage: dict[str, Any]) -> tuple[int, int]:
    """The tokens that were read from the cache, and all of the prompt."""
    if "cache_read_input_tokens" in usage:
        read = usage["cache_read_input_tokens"]
        return read, read + usage["cache_creation_input_tokens"] + usage["input_tokens"]
    details = usage.get("prompt_tokens_details") or usage["input_tokens_details"]
    return details["cached_tokens"], usage.get("prompt_tokens") or usage["input_tokens"]


@pytest.mark.parametrize(
    ("dialect", "style", "turns"), [("anthropic", "stream", 30), ("chat", "create", 30), ("responses", "create", 16)]
)
def test_a_long_loop_ends_as_without_the_gateway(
    nursery: Nursery, tmp_path: Path, dialect: str, style: str, turns: int
) -> None:
    script = write_script(turns, thinking=dialect != "chat")
    with FakeProvider(script) as direct:
        plain = run_loop(direct.url, dialect, style, turns)
    with FakeProvider(script) as provider, open_gateway(nursery, provider, tmp_path / "g.db", WINDOW) as gateway:
        loop = run_loop(gateway.url, dialect, style, turns)
        gateway.end(signal.SIGTERM)
    assert loop.messages == plain.messages
    assert provider.refusals == direct.refusals == []
    assert len(provider.calls) == turns
    assert [bytes(got) for got in loop.tap.got] == [call.answer for call in provider.calls]
    changed = [call.body != sent for call, sent in zip(provider.calls, loop.tap.sent, strict=True)]
    assert changed[0] is False
    assert changed[-1] is True
    assert provider.bill.prompt < direct.bill.prompt
    with open_engine(str(tmp_path / "g.db")) as engine:
        assert len(engine.sessions()) == 1
        calls = list(read_calls(engine))
    assert len(calls) == turns
    boundaries = sum(call.figures.is_boundary for call in calls)
    assert 0 < boundaries < turns / 2
    assert count_misses(direct) == 0
    assert count_misses(provider) <= boundaries


@pytest.mark.parametrize("dialect", LOOPS)
@pytest.mark.parametrize("style", ["create", "stream"])
def test_without_a_boundary_nothing_changes(nursery: Nursery, tmp_path: Path, dialect: str, style: str) -> None:
    with FakeProvider(write_script(6, thinking=True)) as provider:
        with open_gateway(nursery, provider, tmp_path / "g.db") as gateway:
            loop = run_loop(gateway.url, dialect, style, turns=6)
        assert provider.refusals == []
        assert loop.tap.sent == [call.body for call in provider.calls]
        assert [bytes(got) for got in loop.tap.got] == [call.answer for call in provider.calls]


def test_the_async_clients_work_side_by_side(nursery: Nursery, tmp_path: Path) -> None:
    """Sub-agents of one session, each with its own conversation, all at once."""
    taps = [Tap() for _ in range(4)]

    async def talk(url: str, number: int) -> list[Any]:
        headers = {"x-claude-code-session-id": "side", "x-fake-line": f"agent-{number}"}
        if number:
            headers["x-claude-code-agent-id"] = f"agent-{number}"
        http_client = taps[number].open_async()
        messages: list[Any] = [{"role": "user", "content": f"You are agent {number}."}]
        async with anthropic.AsyncAnthropic(base_url=url, api_key="none", http_client=http_client) as client:
            for turn in range(8):
                tools: Any = build_tools("anthropic")
                request: Any = {"model": MODELS["anthropic"], "max_tokens": 900, "tools": tools, "messages": messages}
                extra: Any = {"extra_headers": {**headers, "x-fake-turn": str(turn)}}
                async with client.messages.stream(**request, **extra) as stream:
                    content = [
                        each.model_dump(exclude_none=True) for each in (await stream.get_final_message()).content
                    ]
                results = [
                    {"type": "tool_result", "tool_use_id": each["id"], "content": run_tool(each["name"], each["input"])}
                    for each in content
                    if each["type"] == "tool_use"
                ]
                messages += [
                    {"role": "assistant", "content": content},
                    {"role": "user", "content": results or "Go on."},
                ]
        return messages

    async def talk_all(url: str) -> list[list[Any]]:
        return await asyncio.gather(*(talk(url, number) for number in range(4)))

    script = write_script(8)
    with FakeProvider(script) as direct:
        plain = asyncio.run(talk_all(direct.url))
    for tap in taps:
        tap.__init__()  # type: ignore[misc]
    with FakeProvider(script) as provider, open_gateway(nursery, provider, tmp_path / "g.db", 6_000) as gateway:
        assert asyncio.run(talk_all(gateway.url)) == plain
    assert provider.refusals == []
    changed = 0
    for number, tap in enumerate(taps):
        calls = [call for call in provider.calls if call.line == f"agent-{number}"]
        assert [call.answer for call in calls] == [bytes(got) for got in tap.got]
        for call, sent in zip(calls, tap.sent, strict=True):
            changed += call.body != sent
            others = {f"agent-{other}" for other in range(4)} - {f"agent-{number}"}
            assert not any(other in call.body.decode() for other in others), "no branch has messages of another one"
    assert changed > 0


@pytest.mark.parametrize("dialect", LOOPS)
def test_a_model_reads_what_was_shortened_and_the_client_sees_nothing_of_it(
    nursery: Nursery, tmp_path: Path, dialect: str
) -> None:
    turns = 12
    script = write_script(turns, thinking=dialect != "chat", reads=True)
    with FakeProvider(script) as direct:
        plain = run_loop(direct.url, dialect, "stream", turns)
    with FakeProvider(script) as provider, open_gateway(nursery, provider, tmp_path / "g.db", 7_000) as gateway:
        loop = run_loop(gateway.url, dialect, "stream", turns)
    assert provider.refusals == []
    assert len(provider.calls) > turns, "the model has read"
    assert "holdfast_read" not in json.dumps(loop.messages)
    assert drop_thinking(loop.messages) == drop_thinking(plain.messages)


def drop_thinking(messages: list[dict[str, Any]]) -> list[Any]:
    """The messages without thinking, and without ids of items: those of a spliced reply are its own."""
    found = []
    for message in messages:
        content = message.get("content")
        if isinstance(content, list):
            kept = [block for block in content if block["type"] not in ("thinking", "reasoning")]
            message = {**message, "content": kept}
        if message.get("type") != "reasoning":
            found.append({key: value for key, value in message.items() if key != "id"})
    return found


def test_what_is_no_conversation_passes_through(nursery: Nursery, tmp_path: Path) -> None:
    with FakeProvider([say("Hi.")]) as provider, open_gateway(nursery, provider, tmp_path / "g.db") as gateway:
        client = anthropic.Anthropic(base_url=gateway.url, api_key="none", max_retries=0)
        gpt = openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)
        with client, gpt:
            user: Any = {"role": "user", "content": "Hi."}
            assert client.messages.count_tokens(model="claude-x", messages=[user]).input_tokens > 0
            assert [model.id for model in gpt.models.list()]
            response = gpt.responses.create(model="gpt-5", input="Hi.", store=True)
            again = gpt.responses.create(model="gpt-5", input="Go on.", previous_response_id=response.id)
            assert again.output_text
            with pytest.raises(anthropic.NotFoundError):
                client.get("/v1/nothing", cast_to=object)
        assert provider.refusals == ["Not found"]


@anthropic.beta_tool
def print_log(service: str) -> str:
    """Print the log of a service."""
    return "\n".join(f"{service} says something of some length in line {line}." for line in range(150))


def look_at_logs(ask: Ask) -> Reply:
    return say("Done.") if ask.turn == 12 else say(f"Step {ask.turn}.", ("print_log", {"service": f"svc{ask.turn}"}))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("keeps", [True, False])
def test_the_tool_runner_works_with_and_without_a_thread_at_the_provider(
    nursery: Nursery, tmp_path: Path, *, stream: bool, keeps: bool
) -> None:
    """It lets the provider keep its conversation, unless it is told not to. What the provider keeps is passed on as it is:
    later requests have no tools and no messages that could be changed."""
    with FakeProvider(look_at_logs) as provider, open_gateway(nursery, provider, tmp_path / "g.db", 6_000) as gateway:
        line = {"x-fake-line": "runner"}
        client = anthropic.Anthropic(base_url=gateway.url, api_key="none", max_retries=0, default_headers=line)
        asked: Any = {"role": "user", "content": "Look at all logs."}
        off: Any = {} if keeps else {"thread": False}
        runner = client.beta.messages.tool_runner(
            model=MODELS["anthropic"],
            max_tokens=1_000,
            tools=[print_log],
            messages=[asked],
            cache_control={"type": "ephemeral"},
            stream=stream,
            **off,
        )
        last = runner.until_done()
        client.close()
    assert [block.text for block in last.content if block.type == "text"] == ["Done."]
    assert provider.refusals == []
    assert len(provider.calls) == 13
    texts = [call.body.decode() for call in provider.calls]
    assert all(('"thread":' in text) is keeps for text in texts)
    assert any("Summary of earlier context" in text or "holdfast_read" in text for text in texts) is not keeps


def test_many_clients_at_once_stay_apart(nursery: Nursery, tmp_path: Path) -> None:
    def talk(url: str, number: int) -> MessagesAgent:
        agent = MessagesAgent(url, f"line-{number}-", thinking="adaptive")
        agent.messages[0]["content"] = f"You are line-{number}-."
        for _ in range(7):
            agent.step()
        agent.close()
        return agent

    with (
        FakeProvider(write_script(100, thinking=True)) as provider,
        open_gateway(nursery, provider, tmp_path / "g.db", 7_000) as gateway,
        concurrent.futures.ThreadPoolExecutor(8) as pool,
    ):
        agents = list(pool.map(lambda number: talk(gateway.url, number), range(8)))
    assert provider.refusals == []
    changed = 0
    for number, agent in enumerate(agents):
        bodies = [call.body for call in provider.calls if call.line == f"line-{number}-"]
        assert len(bodies) == len(agent.sender.sent)
        changed += bodies != agent.sender.sent
        for other in set(range(8)) - {number}:
            assert all(f"line-{other}-".encode() not in body for body in bodies)
        assert json.loads(bodies[-1])["messages"][-1] == json.loads(agent.sender.sent[-1])["messages"][-1]
    assert changed, "a busy machine may be late with some views, not with all"
