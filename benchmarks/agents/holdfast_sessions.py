"""Our side of it, a `worker.Side` like the peers, used as our documentation shows. Run by this project's interpreter."""

from __future__ import annotations

from typing import Any, NamedTuple

import psycopg

import holdfast
from benchmarks.agents.workload import (
    POSTGRES_SETTINGS,
    SESSION,
    SQLITE_SETTINGS,
    TAIL_MESSAGES,
    WINDOW_TOKENS,
    Turn,
    mark,
    marks_in,
    settings_of,
)
from holdfast.storage.postgres.connect import parse_address
from holdfast.storage.sqlite.store import SqliteStore

PAGE = 1_000


class PreparedTurn(NamedTuple):
    turn: Turn
    calls: list[dict[str, Any]]
    chat: list[dict[str, Any]]


class Holdfast:
    """`record_all` for a turn at once, `record` and `result` message by message; a key for what may be sent twice."""

    packages: tuple[str, ...] = ("holdfast",)

    def __init__(self, address: str) -> None:
        self._address = address
        self._engine = holdfast.open(address)
        self._session = self._engine.session(SESSION, create=True)

    def prepared(self, turn: Turn) -> PreparedTurn:
        return PreparedTurn(turn, tool_calls(turn), chat_messages(turn))

    def append(self, turns: list[PreparedTurn]) -> None:
        for each in turns:
            self._session.record_all(each.chat)

    def append_each(self, turns: list[PreparedTurn]) -> None:
        for turn, calls, _ in turns:
            self._session.record("user", turn.question)
            asked = self._session.record("assistant", turn.remark, tool_calls=calls)
            for call, result in zip(asked.tool_calls, turn.results, strict=True):
                self._session.result(call, result)
            self._session.record("assistant", turn.answer)

    def fill(self, turns: list[Turn]) -> None:
        for turn in turns:
            self._session.record_all(chat_messages(turn))

    def read(self, kind: str, times: int) -> int:
        for _ in range(times):
            if kind == "tail":
                found = len(self._session.messages(limit=TAIL_MESSAGES))
            else:
                found = len(self._session.context.window(tokens=WINDOW_TOKENS).messages)
        return found

    def send(self, turn: Turn, position: int) -> list[str]:
        key = mark(turn.number, position)
        if position == 0:
            self._session.record("user", turn.question, key=key)
        elif position == 1:
            self._session.record("assistant", turn.remark, tool_calls=tool_calls(turn), key=key)
        elif position < len(turn) - 1:
            self._session.result(turn.calls[position - 2].id, turn.results[position - 2], key=key)
        else:
            self._session.record("assistant", turn.answer, key=key)
        return [key]

    def held(self) -> list[str]:
        pages: list[list[str]] = []
        before = None
        while found := self._session.messages(before=before, limit=PAGE):
            pages.append(marks_in(message.text for message in found))
            before = found[0].seq
        return [each for page in reversed(pages) for each in page]

    def close(self) -> None:
        self._engine.close()


class OnSqlite(Holdfast):
    def settings(self) -> dict[str, object]:
        store = self._engine.store
        assert isinstance(store, SqliteStore)
        return settings_of(store._writer._log.connection.execute, SQLITE_SETTINGS)


class OnPostgres(Holdfast):
    packages = ("holdfast", "psycopg")

    def settings(self) -> dict[str, object]:
        with psycopg.connect(parse_address(self._address).info) as connection:
            return settings_of(connection.execute, POSTGRES_SETTINGS)


def tool_calls(turn: Turn) -> list[dict[str, Any]]:
    return [{"name": call.name, "args": call.args, "id": call.id} for call in turn.calls]


def chat_messages(turn: Turn) -> list[dict[str, Any]]:
    """The turn in the shape that most clients speak."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in turn.calls
    ]
    results = [
        {"role": "tool", "tool_call_id": call.id, "content": text}
        for call, text in zip(turn.calls, turn.results, strict=True)
    ]
    return [
        {"role": "user", "content": turn.question},
        {"role": "assistant", "content": turn.remark, "tool_calls": calls},
        *results,
        {"role": "assistant", "content": turn.answer},
    ]
