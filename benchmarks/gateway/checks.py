"""What the store of a gateway says after a replay: whether what left a request can be read again, and its own figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

import holdfast
from benchmarks.gateway.material import ReplaySession
from holdfast.gateway.engines import open_engine
from holdfast.gateway.figures import ENTRY_KIND
from holdfast.model.history.handles import piece_id
from holdfast.model.limits import PAYLOAD_BYTES

PAGE = 1_000


class ReadBackCheck(msgspec.Struct):
    """Tool results that were not in some request as they are, and how many of them a handle gives back, byte for byte."""

    removed: int = 0
    readable: int = 0


class GatewayFigures(msgspec.Struct):
    """The sums of what the gateway says of its calls, in picodollars."""

    calls: int = 0
    cost: int = 0
    plain_cost: int = 0


def check_read_back(
    store: Path, sessions: Mapping[str, ReplaySession], removed: Mapping[str, set[str]]
) -> ReadBackCheck:
    found = ReadBackCheck()
    with open_engine(str(store)) as engine:
        for name, calls in removed.items():
            if not calls:
                continue
            session = engine.session(f"claude-{name}")
            handles = dict(_find_handles(session))
            originals = sessions[name].results
            for call in sorted(calls):
                found.removed += 1
                found.readable += any(
                    session.handles.read(handle, limit=PAYLOAD_BYTES).text == originals[call]
                    for handle in handles.get(call, ())
                )
    return found


def _find_handles(session: holdfast.Session) -> Iterator[tuple[str, list[str]]]:
    """The handles of the recorded results of each call, by the client's id of the call."""
    found: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    messages: list[holdfast.Message] = []
    while page := session.messages(before=messages[0].seq if messages else None, limit=PAGE):
        messages[:0] = page
    for message in messages:
        names.update({call.id: str(call.provider_id or call.id) for call in message.tool_calls})
        for piece, result in enumerate(message.tool_results):
            call = names.get(result.tool_call_id, result.tool_call_id)
            found.setdefault(call, []).append(piece_id(message.seq, piece))
    yield from found.items()


def read_figures(store: Path) -> dict[str, GatewayFigures]:
    """By session."""
    found: dict[str, GatewayFigures] = {}
    with open_engine(str(store)) as engine:
        for info in engine.sessions(limit=PAGE):
            name = info.session
            own = found.setdefault(name.removeprefix("claude-"), GatewayFigures())
            for body in _read_calls(engine.session(name)):
                own.calls += 1
                own.cost += body.get("cost", 0)
                own.plain_cost += body.get("plain_cost", 0)
    return found


def _read_calls(session: holdfast.Session) -> Iterator[dict[str, Any]]:
    before: int | None = None
    while page := session.entries.list(kind=ENTRY_KIND, before=before, limit=PAGE):
        for entry in page:
            assert isinstance(entry.body, dict)
            yield entry.body
        before = page[-1].seq
