"""An agent with a provider, tools, a sub-task and a user who changes his mind; and deaths at every point at which it waits.

`agent`, `work` and `delegate` are what a user of the library writes; all else is the scene in which it happens, and the end
of it. A process of this module lives until the point that it was given, and kills itself there:

    {"url": …, "provider": …, "protocol": "chat", "tenant": …, "at": 117}
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Literal, TypeAlias, TypeVar

import anthropic
import httpx2
import msgspec
import openai

import holdfast
from holdfast import READ_HANDLE, AsyncEngine, AsyncFrame, AsyncSession, Tool
from holdfast.model.packs.pack import Brief
from tests.crash.worker import serve_nursery
from tests.protocols import Reply, Talk
from tests.provider import Effect, Provider

T = TypeVar("T")
Ask: TypeAlias = Callable[[Any], Awaitable[Any]]
Tools: TypeAlias = dict[str, Callable[..., Any]]

# What a user writes


async def agent(engine: AsyncEngine, ask: Ask, world: World) -> str:
    session = await engine.session("order", actor="ada", create=True)
    await (await session.ledger()).set("delivery town", OLD, key="the town of order 7")
    await session.recover()
    tools = world.tools | {"delegate": functools.partial(delegate, session, ask, world), **reader_tools(session)}
    return await work(session, ask, tools, world, role="clerk", budget=CLERKS_BUDGET)


async def work(place: AsyncSession | AsyncFrame, ask: Ask, tools: Tools, world: World, **asked: Any) -> str:
    """One conversation to its end, wherever it was left."""
    while True:
        waiting = (await place.context.view()).open_calls
        runs = [place.run(call, tools[call.name], key_as="key", again=call.attempts > 0) for call in waiting]
        await asyncio.gather(*runs)
        if isinstance(place, AsyncSession):
            for key, words in await world.inbox():
                await place.observe(words, key=key)
        last = (await place.context.view()).messages[-1]
        if last.role == "assistant":
            return last.text
        pack = await place.pack(model=world.model, **asked)
        await place.record(await ask(pack))


async def delegate(session: AsyncSession, ask: Ask, world: World, goal: str, key: str) -> str:
    """A tool that is an agent itself: the same call is the same frame, whoever comes back to it."""
    frame = await session.frame(goal, budget=COUNTERS_TOKENS, key=f"frame {key}")
    await frame.record("user", goal, key=f"goal {key}")
    for left in (await frame.state()).reservations:
        await frame.budget.commit(left, 0)
    answer = await work(frame, ask, world.tools, world, role="counter", budget=1_000, reserve=RESERVED)
    await frame.pop("completed", answer)
    return answer


def reader_tools(session: AsyncSession) -> Tools:
    read = session.handles.tool()

    async def without_key(key: str, **args: object) -> str:
        return await read(**args)

    return {READ_HANDLE.name: without_key}


# The scene


OLD, NEW = "Marlow", "Tresco"
QUESTION = f"Please ship order 7 to our delivery town, {OLD}."
CORRECTION = f"Actually, the delivery town is {NEW}."
ANSWER = f"Order 7 is on its way to {NEW}; 12 are left."
CLERKS_BUDGET = 1_200
COUNTERS_TOKENS = 20_000
RESERVED = 4_000
MODELS = {"anthropic": "claude-opus-5", "chat": "gpt-5.2", "responses": "gpt-5.2"}
SPOOLING = holdfast.types.Spooling(threshold=6_000, preview=400)


def tool(name: str, description: str, **properties: str) -> Tool:
    schema = {each: {"type": kind} for each, kind in properties.items()}
    return Tool(
        name=name,
        description=description,
        parameters={"type": "object", "properties": schema, "required": [*schema]},
    )


BRIEFS = {
    "clerk": Brief(
        prompt="You are a clerk. You ship orders.",
        invariants=("Never ship anything twice.",),
        tools=(
            tool("find", "Look something up.", of="string"),
            tool("catalogue", "All that is sold."),
            tool("delegate", "Have somebody else do it.", goal="string"),
            tool("ship", "Send it.", order="integer", to="string", left="integer"),
            READ_HANDLE,
        ),
    ),
    "counter": Brief(prompt="You are a counter. You count.", tools=(tool("count", "Count a shelf.", shelf="string"),)),
}


def script(talk: Talk) -> Reply:
    """What a model says: it follows from what was called for last, and from what it is shown."""
    return _counter(talk) if "You are a counter." in talk.system else _clerk(talk)


def _counter(talk: Talk) -> Reply:
    if not talk.last:
        return Reply("", tuple(("count", {"shelf": shelf}) for shelf in "AB"), thought="Shelf by shelf.")
    return Reply(f"{sum(int(text) for _, text in talk.last)} are left.")


def _clerk(talk: Talk) -> Reply:
    towns = NEW if NEW in talk.shown else OLD
    if not talk.last:
        finds = (("find", {"of": "order 7"}), ("find", {"of": f"the postage to {towns}"}))
        return Reply(f"I look up what it takes to {towns}.", finds, thought=f"It goes to {towns}.")
    call, told = talk.last[-1]
    match call.name:
        case "find":
            return Reply(f"The parcel to {towns} needs a box.", (("catalogue", {}),))
        case "catalogue":
            handle = re.findall(r'read_handle\("(h\d+_\d+)"\)', told)[-1]
            return Reply(
                "", (("read_handle", {"handle": handle, "search": "item 7 "}),), thought="Too long to be shown."
            )
        case "read_handle":
            assert "item 7 costs 19" in told, told
            return Reply("Is there any?", (("delegate", {"goal": "Count item 7 on the shelves A and B."}),))
        case "delegate":
            left = int(told.split()[0])
            return Reply("", (("ship", {"order": 7, "to": towns, "left": left}),), thought=f"To {towns}, then.")
    assert call.name == "ship", call
    return Reply(told)


CALLED = [["find", "find"], ["catalogue"], ["read_handle"], ["delegate"], ["ship"], []]
"""The tools of each reply of the clerk; the counter's are between those of the fourth and the fifth."""
COUNTED = [["count", "count"], []]


def _find(args: dict[str, Any]) -> str:
    lines = [f"{args['of']}, remark {number}: nothing that matters to anybody" for number in range(21)]
    return "\n".join([f"The customer of {args['of']} lives in {OLD}.", *lines])


def _catalogue(args: dict[str, Any]) -> str:
    return "\n".join(f"item {number} costs {number + 12}, and {OLD} pays no more" for number in range(300))


def _ship(args: dict[str, Any]) -> str:
    return f"Order {args['order']} is on its way to {args['to']}; {args['left']} are left."


TOOLS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "find": _find,
    "catalogue": _catalogue,
    "count": lambda args: {"A": 5, "B": 7}[args["shelf"]],
    "ship": _ship,
}


def inbox(effects: list[Effect]) -> list[tuple[str, str]]:
    """The user changes his mind while the shelves are counted. Whoever asks gets all of it, every time."""
    counted = {each.key for each in effects if each.name == "count"}
    return [("the first word", QUESTION), *([("the second word", CORRECTION)] if len(counted) == 2 else [])]


def provider() -> Provider:
    return Provider(script, TOOLS, inbox)


class World:
    """What is outside of the process: tools and the inbox, over HTTP."""

    def __init__(self, client: httpx2.AsyncClient, protocol: str) -> None:
        self._client = client
        self.model = MODELS[protocol]
        self.tools: Tools = {name: functools.partial(self._act, name) for name in TOOLS}

    async def _act(self, name: str, key: str, **args: Any) -> Any:
        return (await self._client.post(f"/tools/{name}", json=args, headers={"idempotency-key": key})).json()

    async def inbox(self) -> list[tuple[str, str]]:
        return [(key, words) for key, words in (await self._client.get("/inbox")).json()]


def build_ask(protocol: str, client: httpx2.AsyncClient) -> Ask:
    """The official client, as its users call it."""
    network: dict[str, Any] = {"api_key": "none", "http_client": client, "max_retries": 0}
    if protocol == "anthropic":
        claude = anthropic.AsyncAnthropic(base_url=str(client.base_url), **network)
        return lambda pack: claude.messages.create(**pack.anthropic())
    gpt = openai.AsyncOpenAI(base_url=f"{client.base_url}/v1", **network)
    if protocol == "chat":
        return lambda pack: gpt.chat.completions.create(**pack.openai())
    return lambda pack: gpt.responses.create(**pack.openai_responses())


# The end of it


DeathKind: TypeAlias = Literal["raise", "cancel", "kill"]


class ProcessKilled(BaseException):
    """The end of a process, as far as it can be told within one."""


class DeathPoint:
    """At which of the points at which it waits an agent dies, and how: an exception that nothing stops, or a task that is
    cancelled, or the process with all that is in it."""

    def __init__(self, at: int | None = None, how: DeathKind = "raise") -> None:
        self._at = at
        self._how = how
        self.dead = False
        self.points = 0
        self.task: asyncio.Task[Any] | None = None

    def factory(self, loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        """Tasks that share this fate."""
        return asyncio.Task(_MortalCoroutine(work, self), loop=loop, **options)

    def at_a_point(self) -> None:
        """The work waits for something that it has asked for."""
        self.points += 1
        if self.points == self._at:
            if self._how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            elif self._how == "cancel":
                assert self.task is not None
                self.task.cancel()
            else:
                self.dead = True


class _MortalCoroutine(Coroutine[Any, Any, T]):
    """The work of a task, one step after the other, until its fate befalls it."""

    def __init__(self, work: Coroutine[Any, Any, T], fate: DeathPoint) -> None:
        self._work = work
        self._fate = fate
        self._begun = False

    def send(self, value: Any) -> Any:
        return self._go(functools.partial(self._work.send, value))

    def throw(self, *error: Any) -> Any:
        return self._go(functools.partial(self._work.throw, *error))

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, T]:
        return self._work.__await__()

    def __getattr__(self, name: str) -> Any:
        """Who looks whether it has begun, or runs, is told so of the work."""
        return getattr(self._work, name)

    def _go(self, step: Callable[[], Any]) -> Any:
        """Once it is dead, nothing goes on, and what it waits for in order to clean up does not come. What has not begun
        comes as far as the first point: work that never begins leaves a warning behind."""
        waits_for = self._work.throw(ProcessKilled()) if self._fate.dead and self._begun else step()
        self._begun = True
        self._fate.at_a_point()
        while self._fate.dead:
            waits_for = self._work.throw(ProcessKilled())
        return waits_for


async def run_agent(url: str, address: str, protocol: str, *fates: DeathPoint, **options: Any) -> str | None:
    """What the agent answers, from the start or from where the one before it died; None if it dies, too. With several fates
    each goes on where the one before it died, with the same engine and the same client."""
    client = httpx2.AsyncClient(base_url=address, trust_env=False, verify=False, timeout=60)
    engine = await holdfast.open_async(url, briefs=BRIEFS, spooling=SPOOLING, principal="agent", **options)
    loop = asyncio.get_running_loop()
    answer: str | None = None
    try:
        for fate in fates:
            loop.set_task_factory(fate.factory)
            fate.task = loop.create_task(agent(engine, build_ask(protocol, client), World(client, protocol)))
            try:
                answer = await fate.task
            except (ProcessKilled, asyncio.CancelledError):
                await asyncio.sleep(0)  # other tasks have ended then, too
    finally:  # what a system does when a process is gone
        loop.set_task_factory(None)
        await client.aclose()
        await engine.close()
    return answer


class LifeTask(msgspec.Struct, frozen=True):
    url: str
    provider: str
    protocol: str
    tenant: str
    at: int | None = None


def run_until_killed(line: bytes) -> None:
    life = msgspec.json.decode(line, type=LifeTask)
    fate = DeathPoint(life.at, "kill")
    answer = asyncio.run(run_agent(life.url, life.provider, life.protocol, fate, tenant=life.tenant))
    os.write(1, f"answer {fate.points} {answer}\n".encode())


LATE = (
    "anyio._backends._asyncio",
    "holdfast.providers",
    "holdfast.render.pack",
    "httpcore2",
    "openai.resources.chat",
    "openai.resources.responses.responses",
)
"""What is imported when it is needed: here once, for all that are born."""

if __name__ == "__main__":
    assert sys.argv[1:] == ["nursery"]
    for name in LATE:
        importlib.import_module(name)
    serve_nursery(run_until_killed)
