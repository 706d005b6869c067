"""A store with a payload in every field that a user, a model, a tool or a caller can write.

A payload that the engine refuses for a field (a name with a control character, for example) cannot be there: it is left
out, and `Fields` counts what was stored.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import holdfast
from holdfast import Brief, File, Identity, Image, Text, Usage
from holdfast.errors import HoldfastError
from holdfast.model.entries.entry import NewEntry
from tests.inspector.desk import draw_png
from tests.inspector.payloads import PAYLOADS, SHORT
from tests.inspector.sample import open_desk

SESSION, FILES = "hostile", "hostile-files"
USER = '<img src=x onerror="__owned.push(900)">'
JOINED = "\n".join(SHORT)


class Fields:
    """What was stored, by field."""

    def __init__(self) -> None:
        self.stored: Counter[str] = Counter()

    def each(self, field: str, payloads: Sequence[str], write: Callable[[str, int], object]) -> None:
        """Write each payload into a field, one by one."""
        for number, payload in enumerate(payloads):
            try:
                write(payload, number)
            except HoldfastError:
                continue
            self.stored[field] += 1


def build_hostile(path: str | os.PathLike[str]) -> None:
    """Write the store, and what it has beside it, as `<path>.fields.json`."""
    fields = Fields()
    with open_desk(path) as (engine, _clock):
        write_sessions(engine, fields)
        session = engine.create_session(
            SESSION,
            user=USER,
            memory=True,
            metadata={payload: payload for payload in SHORT[:60]},
            identity=Identity(
                user_name=SHORT[0], user_id=USER, authority=SHORT[1], department=SHORT[2], organization="acme"
            ),
        )
        write_messages(session, fields)
        write_files(engine, fields)
        write_facts(engine, session, fields)
        write_layers(session, fields)
        write_frames(session, fields)
        write_packs(session, fields)
    with open(f"{os.fspath(path)}.fields.json", "w") as file:
        json.dump(fields.stored, file)


def write_sessions(engine: holdfast.Engine, fields: Fields) -> None:
    """Sessions, users, actors and threads with hostile names; and what an earlier session told long-term memory."""

    def create(payload: str, number: int) -> None:
        engine.create_session(payload, user=SHORT[-1 - number])

    fields.each("session", SHORT, create)
    fields.each("actor", SHORT[:20], lambda payload, _: engine.create_session("by-actor", actor=payload))
    fields.each("thread", SHORT[:20], lambda payload, _: engine.create_session("by-thread", thread=payload))
    earlier = engine.create_session("earlier", user=USER, memory=True)
    earlier.record_all([("user", f"I remember this: {payload}") for payload in SHORT])
    earlier.end("</script><script>__owned.push(901)</script>")
    engine.memory.deliver()
    fields.stored["memory"] = len(SHORT)


def write_messages(session: holdfast.Session, fields: Fields) -> None:
    """Texts, tool names, arguments, results and owners of turns."""
    session.record_all([("user" if number % 2 else "assistant", payload) for number, payload in enumerate(PAYLOADS)])
    fields.stored["message"] = len(PAYLOADS)

    def call(payload: str, number: int) -> None:
        reply = session.record(
            "assistant",
            tool_calls=[{"name": payload, "args": {payload: payload, "__proto__": {"x": payload}, "text": [payload]}}],
        )
        session.start_call(reply.tool_calls[0], call_key=f"key-{number}{payload}"[:200])
        value = (payload, {payload: payload, "__proto__": payload}, [payload, {"html": payload}])[number % 3]
        session.result(reply.tool_calls[0], value, is_error=number % 5 == 0)

    fields.each("tool", SHORT, call)

    def take(payload: str, _number: int) -> None:
        with session.turn(owner=payload, lease_s=3_600) as taken:
            taken.record_all([("user", "a turn"), ("assistant", "its end")])

    fields.each("owner", SHORT, take)


def write_files(engine: holdfast.Engine, fields: Fields) -> None:
    """File names, media types, addresses of images, and metadata: in a session of their own, since they are large."""
    session = engine.create_session(FILES, user=USER)
    picture = draw_png(8, 8)

    def attach(payload: str, number: int) -> None:
        ref = engine.blobs.put(picture + bytes([number % 250]), media_type=payload)
        page = engine.blobs.put(payload.encode(errors="replace"), media_type="text/html")
        drawing = engine.blobs.put(
            b"<svg xmlns='http://www.w3.org/2000/svg' onload='__owned.push(902)'/>", media_type="image/svg+xml"
        )
        session.record(
            "user", [Text(payload), Image(ref), File(page, payload), Image(drawing), File(ref, f"{payload}.svg")]
        )

    fields.each("media_type", SHORT, attach)
    fields.each(
        "url", SHORT, lambda payload, _: session.record("user", [Image(url=payload)], metadata={payload: payload})
    )


def write_facts(engine: holdfast.Engine, session: holdfast.Session, fields: Fields) -> None:
    """Keys, values, reasons, sources, constraints, claims and disputes, in all ledgers that the session reads."""
    for name, ledger in (("session", session.facts), ("user", engine.ledger(user=USER))):

        def state(payload: str, number: int, ledger: Any = ledger) -> None:
            ledger.set(payload, PAYLOADS[number], reason=payload, source=payload)
            ledger.set(payload, {"__proto__": payload, "new": payload}, reason=payload, is_constraint=number % 7 == 0)

        fields.each(f"fact of the {name}", SHORT, state)
    fields.each("retraction", SHORT[:20], lambda payload, _: session.facts.retract(payload, reason=payload))
    guest = Identity(user_name=SHORT[3], user_id=SHORT[4], authority="guest")
    ledger = engine.ledger(engine.ledger(user=USER).id, identity=guest)
    fields.each("claim", SHORT[20:40], lambda payload, _: ledger.set(payload, f"claimed {payload}", reason=payload))
    fields.each("dispute", SHORT[40:60], lambda payload, _: ledger.retract(payload, reason=payload))


def write_layers(session: holdfast.Session, fields: Fields) -> None:
    """Situation, actions, working set, environment and entries."""
    session.situation.update(
        dict.fromkeys(("goal", "progress", "current_approach", "key_findings", "next_focus"), JOINED[:1500]),
        by=SHORT[5],
    )
    session.situation.act(
        thinking=JOINED[:5_000],
        planning=SHORT[6],
        tool_calls=[{"name": SHORT[7], "args": {SHORT[8]: SHORT[9]}, "result": SHORT[10], "outcome": "success"}],
    )
    fields.each("working set", SHORT[:60], lambda payload, _: session.working.set(payload, {payload: payload}))
    fields.each("environment", SHORT[:60], lambda payload, _: session.environment.set(payload, payload))

    def append(payload: str, number: int) -> None:
        session.entries.append_all([NewEntry(payload, f"{number} {payload}", {payload: [payload]}, payload)])

    fields.each("entry", SHORT, append)


def write_frames(session: holdfast.Session, fields: Fields) -> None:
    """Goals, inputs, summaries, results, and who may resume."""

    def push(payload: str, number: int) -> None:
        frame = session.frame(payload, budget=1_000, inputs={payload: payload})
        if number % 50 == 0:
            frame.suspend(payload, resumable_by=[payload])
        else:
            frame.pop("failed" if number % 2 else "completed", payload, result={payload: payload})

    fields.each("frame", SHORT, push)


def write_packs(session: holdfast.Session, fields: Fields) -> None:
    """Packs with hostile briefs and tools, replies from hostile models, a withdrawal, and a summary."""
    tools = tuple(
        holdfast.Tool(name=f"tool_{number}", description=payload, parameters={"type": "object", "title": payload})
        for number, payload in enumerate(SHORT[:80])
    )
    brief = Brief(prompt=JOINED, invariants=SHORT[:60], working_context=JOINED, tools=tools)
    for number in range(4):
        session.record("user", f"{SHORT[number]} What now?")
        pack = session.pack(SHORT[number + 10], budget=60_000, brief=brief, profile="comprehensive")
        reply: dict[str, Any] = {
            "id": SHORT[number + 20],
            "type": "message",
            "role": "assistant",
            "model": SHORT[number + 30],
            "content": [{"type": "text", "text": f"{SHORT[number + 40]} It is so."}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": pack.tokens.used, "output_tokens": 9},
        }
        try:
            session.record(reply, pack=pack)
        except HoldfastError:
            session.record("assistant", SHORT[number + 40], usage=Usage(pack.tokens.used, 9), pack=pack)
        fields.stored["pack"] += 1
    session.withdraw(reason=SHORT[11])
    if (draft := session.context.draft_summary(keep_turns=20)) is not None:
        session.context.summarize(draft, JOINED[:6_000])
