"""A process of its own: it asks an agent, and may be killed in the middle of a tool."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import holdfast
from agents import Agent, Runner, function_tool
from holdfast.frameworks import current_call
from holdfast.openai_agents import bind
from tests.frameworks.openai_agents.support import call, run, say, script

SESSIONS = ("awaited", "streamed", "raise", "forget")


def main(url: str, folder: str, mode: str, number: int) -> None:
    with holdfast.open(url) as engine:
        if mode == "write":
            hf = bind(engine, "order-1")
            for each in range(number):
                run(hf.session.add_items([{"role": "user", "content": f"{folder[-4:]} {each}"}]))
        else:
            run(pay_in_all(engine, Path(folder)))


async def pay_in_all(engine: holdfast.Engine, folder: Path) -> None:
    """Runs in four sessions at once, none of which ends."""
    await asyncio.gather(*(pay_in(engine, folder, name) for name in SESSIONS))


async def pay_in(engine: holdfast.Engine, folder: Path, name: str) -> None:
    hf = bind(engine, name)

    @function_tool
    async def pay(euros: int) -> str:
        """Pay."""
        started = current_call()
        assert started is not None
        with (folder / "paid").open("a") as ledger:
            ledger.write(f"{name} {started.key}\n")
        (folder / f"in_tool-{name}").touch()
        await asyncio.sleep(600)
        return f"paid {euros}"

    agent = Agent(name="desk", model=script([call("pay", "c1", euros=5)], [say("Paid.")]), tools=[pay])
    config = hf.config(tracing_disabled=True)
    await Runner.run(agent, "Pay 5 euros.", session=hf.session, hooks=hf.hooks, run_config=config)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
