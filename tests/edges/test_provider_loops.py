"""Agents at work with the official clients, blocking and not, streaming and not, against a server that refuses what the
providers refuse. Its model does what models do: it says nothing, is cut off, refuses, calls several tools at once, and its
line breaks."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

import holdfast
from holdfast import READ_HANDLE, Brief, Image, Tool
from holdfast.render.pack import Pack
from holdfast.types import Deltas
from tests.protocols import Reply, Stop, Talk
from tests.provider import Provider, serve_provider
from tests.support import figure

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 99
PROTOCOLS = ("anthropic", "chat", "responses")
MODELS = {"anthropic": "claude-opus-5", "chat": "gpt-5.2", "responses": "gpt-5.2"}
TURNS = figure(4, 60)
CALLS = 12
"""Model calls that a turn may take."""
BROKEN = (httpx2.HTTPError, anthropic.APIError, openai.APIError)

TOOLS = (
    Tool(name="look", description="Look at it.", parameters={"type": "object"}),
    Tool(name="write", description="Write it.", parameters={}),
    READ_HANDLE,
)
ARGS: list[dict[str, Any]] = [
    {},
    {"path": "b.txt", "content": 'é\n\t"x" </holdfast>', "at": 1.0},
    {"z": [1, 2.50, None, True], "a": {"y": 1e16, "b": "  "}},
]


class Model:
    """A model with moods."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.said = 0

    def __call__(self, talk: Talk) -> Reply:
        self.said += 1
        chance = self._random.random
        thought = "Let me think." if chance() < 0.4 else ""
        mood = chance()
        if mood < 0.1:
            return Reply(self._random.choice(["", " ", "\n"]), thought=thought)
        stop: Stop = ""
        if mood < 0.35:
            stop = self._random.choice(["length", "length", "refusal", "content_filter"])
        if mood < 0.25 or (not stop and mood < 0.75 and talk.tools):
            names = self._random.choices([name for name in talk.tools if name != "read_handle"] or ["look"], k=3)
            calls = tuple((name, self._random.choice(ARGS)) for name in names[: self._random.randint(1, 3)])
            return Reply("Wait. " if chance() < 0.5 else "", calls, thought, stop)
        return Reply("So it is. ", (), thought, stop)


def results(engine: holdfast.Engine | holdfast.AsyncEngine, dice: random.Random, image: Image) -> Callable[..., Any]:
    """What tools return."""

    def run(**_args: Any) -> Any:
        kind = dice.randrange(7)
        if kind == 0:
            raise RuntimeError("it is broken")
        return ["ok", "", {"b": 1, "a": [None]}, "x" * 70_000, [image, "an image"], None, " \n"][kind]

    return run


def words(dice: random.Random, image: Image) -> Any:
    """What the user says."""
    said = ["Go on.", "x" * 66_000, [image, "What is that?"], [image], {"role": "user", "content": "Hi", "name": "A B"}]
    return dice.choice(said)


def asked_for(dice: random.Random, protocol: str) -> dict[str, Any]:
    """How a pack is asked for: with tools or without, with the time or without, sometimes about something nobody said."""
    brief = Brief(prompt="You are at work.", tools=TOOLS if dice.random() < 0.8 else ())
    query = {"query": "What is next?"} if dice.random() < 0.2 else {}
    return {"budget": 20_000, "brief": brief, "time": dice.random() < 0.5, "model": MODELS[protocol], **query}


def request(pack: Pack, protocol: str, stream: bool) -> dict[str, Any]:
    made = {"anthropic": pack.anthropic, "chat": pack.openai, "responses": pack.openai_responses}[protocol]()
    if stream:
        made["stream"] = True
    if stream and protocol == "chat":
        made["stream_options"] = {"include_usage": True}
    return made


def method(client: Any, protocol: str) -> Any:
    if protocol == "anthropic":
        return client.messages.create
    return client.chat.completions.create if protocol == "chat" else client.responses.create


def network(address: str, protocol: str) -> dict[str, Any]:
    base = address if protocol == "anthropic" else f"{address}/v1"
    return {"api_key": "none", "base_url": base, "max_retries": 0}


def breaking(dice: random.Random) -> Callable[[], int | None]:
    return lambda: dice.randint(0, 8) if dice.random() < 0.2 else None


def cases() -> Iterator[Any]:
    for protocol in PROTOCOLS:
        for stream in (False, True):
            for seed in range(figure(1, 20)):
                yield pytest.param(protocol, stream, seed, id=f"{protocol}-{'stream' if stream else 'whole'}-{seed}")


def collected(events: Any) -> Any:
    """A stream as what is recorded of it, whether it came to its end or not."""
    deltas = Deltas()
    try:
        for event in events:
            deltas.add(event)
    except BROKEN:
        pass
    return _as_far_as_it_came(deltas)


async def collected_async(events: Any) -> Any:
    deltas = Deltas()
    try:
        async for event in events:
            deltas.add(event)
    except BROKEN:
        pass
    return _as_far_as_it_came(deltas)


def _as_far_as_it_came(deltas: Deltas) -> Any:
    try:
        return deltas.partial()
    except holdfast.errors.InvalidArgument:  # nothing came at all
        return None


def check(session: Any, provider: Provider, stream: bool) -> None:
    assert provider.refused == []
    assert len(provider.asked) > TURNS
    kept = session.messages(limit=1_000)
    assert len({each.skipped for each in kept}) > 1, "all of them were answers: this showed nothing"
    assert session.state().open_calls == ()
    if not stream:
        assert session.state().usage.input_tokens == sum(_taken(each.body) for each in provider.asked)


def _taken(body: dict[str, Any]) -> int:
    return len(json.dumps(body)) // 4


@pytest.mark.parametrize(("protocol", "stream", "seed"), [*cases()])
def test_no_request_is_refused(tmp_path: Path, protocol: str, stream: bool, seed: int) -> None:
    dice, provider = random.Random(seed), Provider(Model(seed))
    provider.patience = breaking(random.Random(seed))
    with serve_provider(provider) as address, holdfast.open(tmp_path / "agent.db") as engine:
        session = engine.create_session("s")
        image = Image(engine.blobs.put(PNG, media_type="image/png"))
        kinds: Any = anthropic.Anthropic if protocol == "anthropic" else openai.OpenAI
        with kinds(**network(address, protocol)) as client:
            ask = method(client, protocol)
            for _ in range(TURNS):
                said = words(dice, image)
                session.record(said) if isinstance(said, dict) else session.record("user", said)
                for _ in range(CALLS):
                    pack = session.pack(**asked_for(dice, protocol))
                    reply = ask(**request(pack, protocol, stream))
                    reply = collected(reply) if stream else reply
                    if reply is None:
                        continue
                    message = session.record(reply)
                    for call in message.tool_calls:
                        session.run(call, results(engine, dice, image))
                    if not message.tool_calls and not message.skipped:
                        break
        check(session, provider, stream)
        assert engine.admin.verify().problems == ()


@pytest.mark.parametrize(("protocol", "stream", "seed"), [*cases()])
def test_no_request_is_refused_without_blocking(tmp_path: Path, protocol: str, stream: bool, seed: int) -> None:
    dice, provider = random.Random(seed + 100), Provider(Model(seed + 100))
    provider.patience = breaking(random.Random(seed))

    async def live(address: str) -> None:
        kinds: Any = anthropic.AsyncAnthropic if protocol == "anthropic" else openai.AsyncOpenAI
        async with await holdfast.open_async(tmp_path / "agent.db") as engine:
            session = await engine.session("s", create=True)
            image = Image(await engine.blobs.put(PNG, media_type="image/png"))
            async with kinds(**network(address, protocol)) as client:
                for _ in range(TURNS):
                    said = words(dice, image)
                    await (session.record(said) if isinstance(said, dict) else session.record("user", said))
                    await work(session, method(client, protocol), results(engine, dice, image))

    async def work(session: holdfast.AsyncSession, ask: Any, tool: Callable[..., Any]) -> None:
        for _ in range(CALLS):
            pack = await session.pack(**asked_for(dice, protocol))
            reply = await ask(**request(pack, protocol, stream))
            reply = await collected_async(reply) if stream else reply
            if reply is None:
                continue
            message = await session.record(reply)
            for call in message.tool_calls:
                await session.run(call, tool)
            if not message.tool_calls and not message.skipped:
                return

    with serve_provider(provider) as address:
        asyncio.run(live(address))
    with holdfast.open(tmp_path / "agent.db") as engine:
        check(engine.session("s"), provider, stream)
        assert engine.admin.verify().problems == ()
