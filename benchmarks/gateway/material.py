"""Recorded sessions as the requests of a client of Anthropic.

Results of parallel calls are blocks of one user message, as is what the user said behind them. A call sends all messages
before it. Cache marks are set as Claude Code sets them: two in the system, one on the last block, which moves.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from benchmarks.cost_recordings import Recording, read_recordings
from benchmarks.gateway.heads import MARK, Head

MODEL = "claude-sonnet-4-5"
MAX_TOKENS = 32_000
Block = dict[str, Any]


class ClientTurn(msgspec.Struct, frozen=True):
    """A message of the client's list."""

    role: str
    blocks: list[Block]


class ReplayCall(msgspec.Struct, frozen=True):
    """A call, and what the recording says of it."""

    number: int
    turns: list[ClientTurn]
    """The client's list."""
    reply: list[Block]
    sent_us: int
    replied_us: int
    wanted: tuple[str, ...]
    """The identifiers that the reply takes from what was there before."""


class ReplaySession(msgspec.Struct, frozen=True):
    name: str
    calls: list[ReplayCall]

    @property
    def results(self) -> dict[str, str]:
        """The text of every tool result that a call sends, by the id of its call."""
        return {
            block["tool_use_id"]: block["content"]
            for turn in self.calls[-1].turns
            for block in turn.blocks
            if block["type"] == "tool_result"
        }


def find_files(data: Path) -> list[Path]:
    """The recorded sessions, the small ones first."""
    files = (data / "trajectories" / "coding-agent").glob("*.jsonl")
    return sorted(files, key=lambda file: (file.stat().st_size, file.name))


def read_sessions(files: Sequence[Path]) -> list[ReplaySession]:
    """The sessions in the order of their beginnings."""
    pairs = zip(files, read_recordings(files), strict=True)
    found = [_build_session(file, recording) for file, recording in pairs]
    return sorted(found, key=lambda session: session.calls[0].sent_us)


def _build_session(file: Path, recording: Recording) -> ReplaySession:
    turns: list[ClientTurn] = []
    calls: list[ReplayCall] = []
    with file.open("rb") as lines:
        for message in map(msgspec.json.decode, lines):
            if message["role"] != "assistant":
                blocks = list(_build_user_blocks(message))
                if turns and turns[-1].role == "user":
                    turns[-1] = ClientTurn("user", [*turns[-1].blocks, *blocks])
                else:
                    turns.append(ClientTurn("user", blocks))
                continue
            reply = list(_build_reply(message))
            known = recording.calls[len(calls)]
            calls.append(ReplayCall(len(calls), list(turns), reply, known.sent_us, known.replied_us, known.wanted))
            turns.append(ClientTurn("assistant", reply))
    assert len(calls) == len(recording.calls), file.name
    return ReplaySession(recording.name, calls)


def _build_user_blocks(message: dict[str, Any]) -> Iterator[Block]:
    for result in message.get("tool_results", ()):
        block = {"type": "tool_result", "tool_use_id": result["tool_call_id"], "content": result["result"]}
        yield {**block, "is_error": True} if result["is_error"] else block
    if message.get("content"):
        yield {"type": "text", "text": message["content"]}


def _build_reply(message: dict[str, Any]) -> Iterator[Block]:
    if message["content"]:
        yield {"type": "text", "text": message["content"]}
    for call in message.get("tool_calls", ()):
        yield {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["args"]}


class BodyBuilder:
    """Spells requests, each message once."""

    def __init__(self, head: Head, session: str) -> None:
        user = json.dumps({"device_id": "benchmark", "account_uuid": "", "session_id": session})
        before = {"model": MODEL, "max_tokens": MAX_TOKENS, "stream": True, "metadata": {"user_id": user}}
        fields = msgspec.json.encode({**before, "system": head.system, "tools": head.tools})
        self._start = fields[:-1] + b',"messages":['
        self._spelled: dict[int, tuple[ClientTurn, bytes]] = {}

    def build(self, turns: Sequence[ClientTurn]) -> bytes:
        last = turns[-1]
        marked = ClientTurn(last.role, [*last.blocks[:-1], {**last.blocks[-1], "cache_control": MARK}])
        return self._start + b",".join([*map(self._spell, turns[:-1]), _encode(marked)]) + b"]}"

    def _spell(self, turn: ClientTurn) -> bytes:
        known = self._spelled.get(id(turn))
        if known is None or known[0] is not turn:
            known = self._spelled[id(turn)] = (turn, _encode(turn))
        return known[1]


def _encode(turn: ClientTurn) -> bytes:
    return msgspec.json.encode({"role": turn.role, "content": turn.blocks})
