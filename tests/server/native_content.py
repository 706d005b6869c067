"""What an owner has in a store: a bit of everything that the native API shows."""

from __future__ import annotations

from typing import Any

import holdfast
from holdfast.types import Body
from tests.server.access_matrix import MARKER, OWNER


async def fill(engine: holdfast.AsyncEngine) -> dict[str, Any]:
    """Store it, in the tenant of the owner; returns its names, by those of parameters and fields."""
    ledger = holdfast.types.LedgerId("acme", "organization", ("desk",))
    session = await engine.create_session(
        "private-trip", actor="ada", user="ada", identity=OWNER, memory=True, ledgers=(ledger,), metadata={"to": MARKER}
    )
    await session.record("system", f"You book trips to {MARKER}.")
    question = await session.record("user", f"My city is {MARKER} now.")
    reply = await session.record("assistant", tool_calls=[{"name": "look", "args": {"city": MARKER}}])
    call = reply.tool_calls[0]
    await session.result(call, f"{MARKER} is far. " * 50)
    await session.record("assistant", f"{MARKER} it is.")
    ref = await engine.blobs.put(f"{MARKER} ".encode() * 20_000, media_type="text/plain")
    await session.record("user", [Body(ref)])
    pack = await session.pack(budget=8_000)
    stored = await session.packs.store(pack)
    await session.facts.set("city", MARKER)
    await engine.ledger(user="ada").set("city", MARKER, requires=("hr",))
    await engine.ledger(organization="desk").set("seat", MARKER)
    await session.working.set("note", MARKER)
    await session.environment.set("location", MARKER)
    await session.situation.update({"goal": MARKER})
    await session.entries.append("checkpoint", "e1", {"text": MARKER})
    frame = await session.frame(f"Find {MARKER}", budget=5_000)
    handle = await frame.handles.add("document", f"{MARKER} " * 100, title=MARKER)
    reservation = await frame.budget.reserve("search", 100)
    token = await frame.suspend(f"ask about {MARKER}")
    return {
        "session": "private-trip",
        "actor": "ada",
        "user": "ada",
        "kind": "user",
        "ledger": "ada",
        "name": "city",
        "query": MARKER,
        "frame": frame.id,
        "handle": handle.id,
        "reservation": reservation.id,
        "token": str(token),
        "call": call.id,
        "message_id": question.id,
        "pack": stored.id,
        "digest": ref.digest,
        "size": ref.size,
        "key": "e1",
        "at": 1,
        "number": 1,
        "tool": "read_handle",
        "timeout_s": 0,
        "message": "user",
        "content": "hello",
    }
