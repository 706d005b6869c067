"""The session store: what the Claude Agent SDK mirrors, in an engine.

Laws: an entry with a uuid is stored once, also if it is sent again; one without is stored each time. The summary of a
session is stored in the transaction of the entries that it sums up. Entries come back as they were given.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, cast

from claude_agent_sdk import fold_session_summary
from claude_agent_sdk.types import (
    HookEvent,
    HookMatcher,
    SessionKey,
    SessionListSubkeysKey,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
)

import holdfast
from holdfast.claude.hooks import SessionHooks
from holdfast.errors import InvalidArgument, describe_value
from holdfast.frameworks.claude_entries import LogName
from holdfast.frameworks.claude_logs import ClaudeLog, UnknownCall
from holdfast.frameworks.engines import check_engine, run_blocking
from holdfast.types import SessionRow, shorten_name

_PAGE = 1_000
_KEPT = 256
"""Logs whose progress is kept in memory; that of any other is read anew."""


class HoldfastSessionStore:
    """Stores the sessions of the Claude Agent SDK in an engine of `holdfast.open()` or `holdfast.connect()`.

    The session `session_id` of the engine has the messages; its actor is the project, and each sub-agent is a frame in it.
    `user` gives new sessions an identity and the ledger of facts of that user. With `observe`, facts are read from the
    prompts of the user."""

    def __init__(self, engine: holdfast.Engine, *, user: str | None = None, observe: bool = True) -> None:
        self._engine = check_engine(engine)
        self._user = user
        self._observe = observe
        self._logs: OrderedDict[LogName, ClaudeLog] = OrderedDict()
        self._lock = threading.Lock()

    # The protocol of the SDK

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store entries, and record their messages."""
        await run_blocking(self._append, key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """The entries of a session, or of a sub-agent, in their order; None if there are none."""
        return cast("list[SessionStoreEntry] | None", await run_blocking(self.log(key).load))

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, each with the time of its last write, in milliseconds."""
        return await run_blocking(self._list_sessions, project_key)

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """The summaries of the sessions of a project."""
        return await run_blocking(self._list_summaries, project_key)

    async def delete(self, key: SessionKey) -> None:
        """Erase a session with its sub-agents, or one sub-agent."""
        await run_blocking(self.log(key).delete)

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The subpaths of a session: its sub-agents."""
        return await run_blocking(self._list_subkeys, key["project_key"], key["session_id"])

    # Beyond the protocol

    def hooks(
        self, *, context: bool = False, budget: int = 2_000, wait_s: float = 1.0
    ) -> dict[HookEvent, list[HookMatcher]]:
        """The hooks for ClaudeAgentOptions: the start of a tool is stored before it runs, and its outcome after it.

        With `context`, the facts that hold now are given to the model with a prompt, in at most `budget` tokens: with the
        first one, with the next after a change or a compaction, and with every 20th.
        `wait_s` is how long a tool waits for its call to be stored; that needs `session_store_flush="eager"`."""
        return SessionHooks(self.log, context=context, budget=budget, wait_s=wait_s).matchers()

    def session(self, session_id: str, project_key: str) -> holdfast.Session:
        """The session of the engine with the messages of an agent's session. Raises SessionNotFound if there is none."""
        log = self._open_log(LogName(project_key, session_id))
        log.follow()
        session = log.session()
        if session is not None:
            return session
        return self._engine.session(shorten_name(session_id), actor=shorten_name(project_key))

    def frames(self, session_id: str, project_key: str, subpath: str) -> list[holdfast.Frame]:
        """The frames of a sub-agent, oldest first: it has a further one for what it says after it has ended."""
        log = self._open_log(LogName(project_key, session_id, subpath))
        log.follow()
        return log.frames()

    def unknown_calls(self, session_id: str, project_key: str) -> list[UnknownCall]:
        """The tool calls of a session and of its sub-agents that were started and have no outcome: after a crash, they may
        have taken effect."""
        main = self._open_log(LogName(project_key, session_id))
        logs = [main, *(main.agent(path) for path in main.list_callers())]
        return [call for log in logs for call in log.unknown_calls()]

    def log(self, key: SessionKey) -> ClaudeLog:
        """The log of a key of the SDK."""
        return self._open_log(_read_key(key))

    def _open_log(self, name: LogName) -> ClaudeLog:
        with self._lock:
            main = name._replace(subpath="")
            log = self._logs.pop(main, None) or self._read_log(main)
            self._logs[main] = log
            while len(self._logs) > _KEPT:
                self._logs.popitem(last=False)
        return log.agent(name.subpath) if name.subpath else log

    def _read_log(self, name: LogName) -> ClaudeLog:
        return ClaudeLog(self._engine, name, user=self._user, observe=self._observe)

    def _append(self, key: SessionKey, entries: Sequence[SessionStoreEntry]) -> None:
        def fold(last: Any, lines: Sequence[Any]) -> Any:
            summary: SessionSummaryEntry | None = None
            if last is not None:
                summary = {"session_id": key["session_id"], "mtime": 0, "data": last}
            return fold_session_summary(summary, key, list(lines))["data"]

        name = _read_key(key)
        self._open_log(name).append(cast("list[dict[str, Any]]", entries), None if name.subpath else fold)

    def _list_sessions(self, project: str) -> list[SessionStoreListEntry]:
        return [
            {"session_id": log.name.session, "mtime": row.updated_us // 1_000} for row, log in self._find_logs(project)
        ]

    def _list_summaries(self, project: str) -> list[SessionSummaryEntry]:
        return [
            {"session_id": log.name.session, "mtime": row.updated_us // 1_000, "data": summary}
            for row, log in self._find_logs(project)
            if (summary := log.summary()) is not None
        ]

    def _find_logs(self, project: str) -> Iterator[tuple[SessionRow, ClaudeLog]]:
        """The logs of the sessions of a project that have entries."""
        last: SessionRow | None = None
        while page := self._engine.sessions(actor=shorten_name(project), after=last, limit=_PAGE):
            for last in page:
                if last.thread:
                    continue
                log = self._read_log(self._name_of(last, project))
                if log.has_lines():
                    yield last, log
            if len(page) < _PAGE:
                return

    def _list_subkeys(self, project: str, session: str) -> list[str]:
        log = self._open_log(LogName(project, session))
        return [path for path in log.list_agents() if log.agent(path).has_lines()]

    def _name_of(self, row: SessionRow, project: str) -> LogName:
        """The name of the log of a session: names over 256 bytes, and those that were used before, are in its metadata."""
        session = self._engine.session(row.session, actor=row.actor, thread=row.thread or None)
        origin = session.state().metadata.get("claude")
        return LogName(project, str(origin.get("session")) if isinstance(origin, dict) else row.session)


def _read_key(key: SessionKey) -> LogName:
    for field in ("project_key", "session_id"):
        value: object = key.get(field)
        if not isinstance(value, str) or not value:
            raise InvalidArgument(argument=field, reason=f"{describe_value(value)} is not a name")
    return LogName(key["project_key"], key["session_id"], key.get("subpath") or "")
