"""What a server spends on a key that it refuses: the same, whatever is wrong with the key."""

from __future__ import annotations

import asyncio
import time

import holdfast
from benchmarks.harness import FSYNC, Bench, Sample, each_us, limit_met, time_ratio
from benchmarks.report import Goal, Line, Table, micros
from holdfast.access import keys
from holdfast.access.keys import KeyRing, create_key, revoke_key
from holdfast.access.records import KeyGrant, make_key

GOAL = Goal("at most", 1.2)
OTHERS = 200
"""Keys that the server knows beside these."""


async def make_refused(engine: holdfast.AsyncEngine) -> dict[str, str]:
    """A key of each kind that is refused."""
    for number in range(OTHERS):
        await create_key(engine, KeyGrant(name=f"key {number}"), by="root")
    _, live = await create_key(engine, KeyGrant(name="live"), by="root")
    past = KeyGrant(name="expired", expires_us=2)
    _, expired = await create_key(engine, past, by="root", clock=lambda: 1)
    record, revoked = await create_key(engine, KeyGrant(name="revoked"), by="root")
    await revoke_key(engine, record.id, by="root")
    wrong = live[:-2] + ("AA" if live[-2:] != "AA" else "BB")
    return {"unknown": str(make_key()[1]), "wrong secret": wrong, "expired": str(expired), "revoked": str(revoked)}


def run(bench: Bench) -> Table:
    rounds, count = bench.pick(31, 11), 50
    keys.REFUSAL_PAUSE_S = 0.0
    with asyncio.Runner() as runner:
        engine = runner.run(holdfast.open_async(bench.file("agent.db")))
        refused = runner.run(make_refused(engine))
        ring = KeyRing(engine)

        async def refuse(key: str) -> Sample:
            wall, cpu = time.perf_counter(), time.process_time()
            for _ in range(count):
                assert await ring.find(key) is None
            return Sample(count, time.perf_counter() - wall, time.process_time() - cpu)

        turns = {name: (lambda key=key: runner.run(refuse(key))) for name, key in refused.items()}
        samples = bench.in_turns(rounds, turns)
        runner.run(engine.close())
    theirs = samples["unknown"]
    lines = [
        Line(
            what=name,
            ours=micros(each_us(samples[name])),
            theirs=micros(each_us(theirs)),
            ratio=time_ratio(samples[name], theirs),
            goal=GOAL,
            limit=limit_met(samples[name], samples[FSYNC]),
        )
        for name in refused
        if name != "unknown"
    ]
    return Table(
        name="refusals",
        title=f"a key that a server with {OTHERS} others refuses",
        ours="this key",
        theirs="unknown key",
        lines=lines,
        notes=["The pause between two looks into the store is left out."],
    )
