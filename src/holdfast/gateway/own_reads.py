"""The reads of sessions through the gateway's own tool: who has the tool, what it answers, and what was read before.

Laws: how a session reads is chosen at its first request, and stays. A request has the tool from the first boundary on, in
this process or in the next. What was read is in the log before the client knows the end of the reply, so its next request
has it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

import holdfast
from holdfast.core.sessions.forks import stretches_of
from holdfast.flows.history.handle_text import run_read_handle
from holdfast.gateway.edits import Edit
from holdfast.gateway.injected import add_tool, restore_reads
from holdfast.gateway.lines import Line
from holdfast.gateway.model import ClientRequest, SentView
from holdfast.gateway.options import ReadBackChoice
from holdfast.gateway.read_back import ReadBack, ReadBackKind, name_session
from holdfast.gateway.splitters import ReadCall, ReadReply
from holdfast.model.names import Scope

SHELL_CLIENTS = frozenset({"claude", "codex"})
"""Clients that have a shell."""
CHOICE_KIND = "gateway.read-back"
"""The entry that says how a session reads, unless that is by its shell."""
READS_KIND = "gateway.reads"
"""The entry with what was read in one reply."""
_SESSIONS = 256
"""The sessions whose reads are known in memory; others are read from the store again."""
_PAGE = 100


class ReadingStep(NamedTuple):
    """What is needed to answer and to store the reads of a reply."""

    session: holdfast.Session
    hash: bytes
    """Of the client's list that the reply follows."""


class _KnownReads:
    """How a session reads, and what it has read: by the hash of the client's list before the reply."""

    def __init__(self, kind: ReadBackKind, session: holdfast.Session) -> None:
        self.kind = kind
        *shared, _ = stretches_of(session.state().origin, session.scope.stream)
        self.origins = tuple((_write_name(kind, Scope.from_stream(each.stream).session), each.last) for each in shared)
        self.replies: dict[bytes, ReadReply] | None = None


def _write_name(kind: ReadBackKind, session: str) -> str:
    return session if kind == "mcp" else name_session(session)


class OwnReads:
    """The reads of all sessions of a gateway."""

    def __init__(self, choice: ReadBackChoice) -> None:
        self._choice = choice
        self._known: OrderedDict[str, _KnownReads] = OrderedDict()
        self._lock = threading.Lock()

    def choose(self, line: Line, request: ClientRequest) -> ReadBack:
        """How the session of a line reads; at its first request, that is chosen and stored."""
        name = line.session.scope.session
        known = self._known.get(name)
        if known is None:
            known = _KnownReads(self._load_kind(line, request), line.session)
            with self._lock:
                known = self._known.setdefault(name, known)
                while len(self._known) > _SESSIONS:
                    self._known.popitem(last=False)
        return ReadBack(kind=known.kind, session=_write_name(known.kind, name), origins=known.origins)

    def _load_kind(self, line: Line, request: ClientRequest) -> ReadBackKind:
        entry = line.session.entries.get(CHOICE_KIND)
        if entry is not None:
            stored: ReadBackKind = msgspec.convert(entry.body, ReadBackKind)
            return stored
        state = line.session.state()
        if state.view(line.frame).boundary or state.summaries_of(line.frame):
            return "shell"  # it has texts that say so
        by_client: ReadBackKind = "shell" if request.client in SHELL_CLIENTS else "tool"
        kind = by_client if self._choice == "auto" else self._choice
        if kind != "shell":
            line.session.entries.append(CHOICE_KIND, CHOICE_KIND, kind)
        return kind

    def build_edits(
        self, line: Line, request: ClientRequest, body: bytes, view: SentView, *, from_memory: bool = False
    ) -> list[Edit] | None:
        """The splices that give a request the tool, and what was read by it; None if it has no tool. `choose` comes
        before. `from_memory`: nothing is read from the store."""
        known = self._known.get(line.session.scope.session)
        if known is None or known.kind != "tool" or view.is_empty:
            return None
        edits = add_tool(request.dialect, body)
        if not edits:
            return None
        if known.replies is None and not from_memory:
            known.replies = _load_replies(line.session)
        if known.replies:
            gone = {index for index, _ in view.removed}
            for index, before in enumerate(request.chain[:-1], 1):
                reply = known.replies.get(before) if index not in gone else None
                edits += [] if reply is None else restore_reads(body, request, index, reply)
        return edits

    def answer(self, step: ReadingStep, calls: Sequence[ReadCall]) -> list[str]:
        """The results of calls of the tool. A wrong call has a text that says what is wrong."""
        context = step.session._context
        return [step.session._drive(run_read_handle(context, call.arguments)) for call in calls]

    def keep(self, step: ReadingStep, reply: ReadReply) -> None:
        """Store what was read in a reply; another reply to the same request takes its place."""
        known = self._known.get(step.session.scope.session)
        if known is not None:
            if known.replies is None:
                known.replies = _load_replies(step.session)
            known.replies[step.hash] = reply
        first = reply.reads[0].calls[0]
        name = str(first.get("call_id") or first.get("id"))
        body = {"after": step.hash.hex(), **msgspec.to_builtins(reply)}
        step.session.entries.append(READS_KIND, f"{READS_KIND}-{step.hash.hex()[:16]}-{name}", body)


def _load_replies(session: holdfast.Session) -> dict[bytes, ReadReply]:
    replies: dict[bytes, ReadReply] = {}
    before: int | None = None
    while page := session.entries.list(kind=READS_KIND, before=before, limit=_PAGE):
        for entry in page:  # the newest first
            assert isinstance(entry.body, dict)
            name = bytes.fromhex(str(entry.body["after"]))
            replies.setdefault(name, msgspec.convert(entry.body, ReadReply))
        before = page[-1].seq
    return replies
