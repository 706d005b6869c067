"""What the tests of crashes and of several processes run in a process of their own: `python -m
tests.frameworks.adk.child`."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.errors import StaleSessionError
from google.adk.platform import time as platform_time

import holdfast
from holdfast.adk import Plugin, SessionService, current_call
from tests.frameworks.adk.support import ScriptedModel, ask, build_runner, call, create, load, state_event


async def die_in_tool(engine: holdfast.Engine) -> None:
    """Start a tool, say so, and wait to be killed."""

    async def pay(amount: int) -> dict[str, Any]:
        """Pay."""
        started = current_call()
        print("running", started.key if started else "", flush=True)
        await asyncio.sleep(60)
        return {"paid": amount}

    service = SessionService(engine)
    agent = LlmAgent(name="desk_agent", model=ScriptedModel.of(call("pay", amount=40)), tools=[pay])
    await create(service, state={"user:plan": "gold"})
    await ask(build_runner(agent, service, Plugin(engine, budget=8_000)), "Pay 40.")


async def append_with_skew(engine: holdfast.Engine, skew_s: str, count: str) -> None:
    """Append events with a clock that is wrong by so many seconds, loading the session again when it is stale."""
    platform_time.set_time_provider(lambda: time.time() + float(skew_s))
    service = SessionService(engine)
    stale = 0
    for number in range(int(count)):
        while True:
            session = await load(service)
            try:
                await service.append_event(session, state_event({f"k{skew_s}": number, "shared": skew_s}))
            except StaleSessionError:
                stale += 1
            else:
                break
    print("stale", stale, flush=True)


def main(job: str, url: str, *options: str) -> None:
    with holdfast.open(url) as engine:
        asyncio.run({"die": die_in_tool, "append": append_with_skew}[job](engine, *options))  # type: ignore[operator]  # each has its own options


if __name__ == "__main__":
    main(*sys.argv[1:])
