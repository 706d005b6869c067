"""The memory service: what a user said in any session, found by its words and without superseded values.

All memories of a user of an app are messages of one session of Holdfast, so they are searched by the stems of their
words, and the guard replaces values that a newer fact has superseded.

Laws: a memory is added once, by the id of its event. A deleted one does not come back when its session is added again.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from google.adk.events.event import Event
from google.adk.memory.base_memory_service import BaseMemoryService, SearchMemoryResponse
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.sessions.session import Session
from google.genai import types
from typing_extensions import override

import holdfast
from holdfast.adk.events import clean_json, clean_text, is_shown, to_json
from holdfast.adk.names import MEMORY_THREAD, Conversations, actor_of, clean_id, escape_name
from holdfast.adk.state import append_entries
from holdfast.adk.uris import choose_engine
from holdfast.errors import EntryConflict, KeyConflict
from holdfast.frameworks.engines import run_blocking
from holdfast.types import NewEntry

MAX_MEMORIES = 10
"""How many memories a search returns at most, unless the service was told otherwise."""
_BATCH = 200
_NEAR = "is near a match"
"""The reason of passages beside a match: in a memory of many sessions they are chance neighbours."""
_DELETED = "deleted"
_OUTDATED = re.compile(r"\[outdated: |has changed since\]")
"""How the guard marks values in a text."""
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
"""Scripts that are written without spaces: Thai, Lao, Burmese, Khmer, kana and Chinese characters."""
_SIGN = re.compile(f"[{_UNSPACED}]")
_RUN = re.compile(f"[{_UNSPACED}]+")


class _NewMemory:
    """A memory to add."""

    def __init__(self, name: str, role: str, text: str, about: dict[str, Any]) -> None:
        self.name, self.role, self.text, self.about = escape_name(name), role, text, about


class MemoryService(BaseMemoryService):
    """Long-term memory of ADK in Holdfast.

        runner = Runner(app=app, session_service=…, memory_service=MemoryService(engine))

    `limit` and `budget` bound what a search returns. With `observe`, facts are read from what the user said in the
    events that are added: use it if the sessions are not those of Holdfast's SessionService, which does that itself."""

    def __init__(
        self,
        engine: holdfast.Engine | None = None,
        *,
        uri: str | None = None,
        limit: int = MAX_MEMORIES,
        budget: int = 4_000,
        observe: bool = False,
        **_options: Any,
    ) -> None:
        self.engine = choose_engine(engine, uri)
        self._conversations = Conversations(self.engine)
        self._limit, self._budget, self._observe = limit, budget, observe

    @override
    async def add_session_to_memory(self, session: Session) -> None:
        """Add the events of a session. Those that were added before stay as they are."""
        await run_blocking(self._add_events, session.app_name, session.user_id, session.events, session.id, None)

    @override
    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add some events. `custom_metadata` is stored with each, and comes back with it."""
        await run_blocking(self._add_events, app_name, user_id, events, session_id, custom_metadata)

    @override
    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Add memories as they are. One without an id gets one from its content."""
        await run_blocking(self._add_entries, app_name, user_id, memories, custom_metadata)

    @override
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """Search the memory of a user of an app. The best memories come first."""
        return await run_blocking(self._search, app_name, user_id, query)

    @override
    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Delete a memory by its id: its content is erased for good. An unknown id changes nothing."""
        if memory_id:
            await run_blocking(self._delete, app_name, user_id, escape_name(memory_id))

    def _add_events(
        self,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None,
        custom: Mapping[str, object] | None,
    ) -> None:
        memories: list[_NewMemory] = []
        guarded = self._read_guarded(app_name, user_id, session_id) if events else {}
        for event in events:
            text = text_of(event.content) if is_shown(event) else ""
            if text:
                text = guarded.get(event.id, text)
                about = {"author": event.author, "time": event.timestamp, "session": session_id or ""}
                role = "user" if event.author == "user" else "assistant"
                memories.append(_NewMemory(event.id, role, text, {**about, "custom": _read_custom(custom, {})}))
        self._add(app_name, user_id, memories)

    def _add_entries(
        self,
        app_name: str,
        user_id: str,
        entries: Sequence[MemoryEntry],
        custom: Mapping[str, object] | None,
    ) -> None:
        memories: list[_NewMemory] = []
        for entry in entries:
            text = text_of(entry.content)
            if not text:
                continue
            digest = hashlib.sha256(f"{entry.author}\0{text}".encode()).hexdigest()[:32]
            about = {
                "author": entry.author,
                "stamp": entry.timestamp,
                "custom": _read_custom(custom, entry.custom_metadata),
            }
            role = "user" if entry.author in (None, "user") else "assistant"
            memories.append(_NewMemory(entry.id or f"memory-{digest}", role, text, about))
        self._add(app_name, user_id, memories)

    def _add(self, app_name: str, user_id: str, memories: Sequence[_NewMemory]) -> None:
        if not memories:
            return
        session = self._session(app_name, user_id, create=True)
        assert session is not None, "it was created"
        new: dict[str, _NewMemory] = {}
        for memory in memories:
            if session.entries.get(f"memory/{memory.name}") is None:
                new.setdefault(memory.name, memory)
        added = list(new.values())
        for start in range(0, len(added), _BATCH):
            self._add_batch(session, added[start : start + _BATCH])

    def _add_batch(self, session: holdfast.Session, batch: Sequence[_NewMemory]) -> None:
        """Record memories, then the entries that say so: a process that dies in between records them under the same
        keys."""
        for memory in batch:
            metadata = {"id": unquote(memory.name), "memory": memory.about}
            scope = session.scope
            digest = hashlib.sha256(f"{scope.actor}\0{scope.session}\0{memory.name}".encode()).hexdigest()
            item = {"role": memory.role, "content": separate_signs(memory.text), "metadata": metadata}
            try:
                recorded = session.record_all([item], as_found=True, key=f"adk-memory-{digest}")
            except KeyConflict:  # the same id with another content: the first one stays
                continue
            if self._observe and memory.role == "user":
                session.observe(recorded[0])
            try:
                append_entries(session, [NewEntry("memory", f"memory/{memory.name}", {"seq": recorded[0].seq})])
            except EntryConflict:
                continue

    def _search(self, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        session = self._session(app_name, user_id)
        if session is None or not query.strip():
            return SearchMemoryResponse()
        passages = session.search(separate_signs(query), limit=3 * self._limit, budget=self._budget)
        runs = [run for word in normalize(query).split() if (run := _RUN.fullmatch(word))]
        is_unspaced = len(runs) == len(query.split())
        memories: dict[int, MemoryEntry] = {}
        for passage in passages:
            if passage.reason == _NEAR or passage.seq in memories or len(memories) == self._limit:
                continue
            found = session.messages(before=passage.seq + 1, limit=1)
            if not found or found[0].seq != passage.seq or found[0].erased:
                continue
            metadata = found[0].metadata
            about = metadata.get("memory")
            text = join_signs(passage.text)
            if isinstance(about, dict) and (not is_unspaced or any(run[0] in text for run in runs)):
                memories[passage.seq] = _build_entry(str(metadata.get("id")), text, about)
        return SearchMemoryResponse(memories=list(memories.values()))

    def _delete(self, app_name: str, user_id: str, memory_id: str) -> None:
        session = self._session(app_name, user_id)
        known = session.entries.get(f"memory/{memory_id}") if session is not None else None
        if session is None or known is None or not isinstance(known.body, dict) or _DELETED in known.body:
            return
        session.erase([int(str(known.body["seq"]))], "deleted in ADK")
        session.entries.delete([known.key], reason="deleted in ADK")
        append_entries(session, [NewEntry("memory", known.key, {_DELETED: True})])

    def _read_guarded(self, app_name: str, user_id: str, session_id: str | None) -> dict[str, str]:
        """The messages of a session of Holdfast in which the guard replaced a value: what was superseded before the session
        is added to memory stays superseded there."""
        name = clean_id(session_id)
        opened = self._conversations.find(app_name, user_id, name)[0] if name else None
        if opened is None:
            return {}
        shown = opened.context.view().messages
        texts = {each.seq: each.text for each in shown if _OUTDATED.search(each.text)}
        names = {each.seq: str(each.metadata.get("id")) for each in shown}
        turn = next((at for at in range(len(shown) - 1, -1, -1) if shown[at].role == "user"), len(shown))
        for message in shown[turn:]:  # a view shows the values of the current turn as they are
            for passage in opened.search(message.text, limit=3) if message.text.strip() else ():
                if passage.seq == message.seq and _OUTDATED.search(passage.text):
                    texts[message.seq] = passage.text
        return {names[seq]: text for seq, text in texts.items()}

    def _session(self, app_name: str, user_id: str, *, create: bool = False) -> holdfast.Session | None:
        return self._conversations.beside("memory", actor_of(app_name, user_id), MEMORY_THREAD, create=create)


def normalize(text: str) -> str:
    """Text in its composed form, without lone surrogates."""
    return unicodedata.normalize("NFC", clean_text(text))


def separate_signs(text: str) -> str:
    """Text with each sign of an unspaced script as a word of its own, so that the index finds it."""
    return _SIGN.sub("\u200b \\g<0> \u200b", normalize(text))


def join_signs(text: str) -> str:
    """The text as it was, without the marks of separate_signs()."""
    return text.replace("\u200b ", "").replace(" \u200b", "")


def text_of(content: types.Content | None) -> str:
    """The text of a content, without thoughts."""
    parts = content.parts if content and content.parts else []
    return clean_text(" ".join(part.text for part in parts if part.text and not part.thought)).strip()


def _read_custom(given: Mapping[str, object] | None, own: Mapping[str, object]) -> dict[str, Any]:
    custom: dict[str, Any] = clean_json(to_json({**(given or {}), **own}))
    return custom


def _build_entry(name: str, text: str, about: Mapping[str, Any]) -> MemoryEntry:
    author, time = about.get("author"), about.get("time")
    stamp = datetime.fromtimestamp(time, UTC).isoformat() if isinstance(time, int | float) else about.get("stamp")
    role = "user" if author in (None, "user") else "model"
    return MemoryEntry(
        id=name,
        content=types.Content(role=role, parts=[types.Part(text=text)]),
        author=author,
        timestamp=stamp,
        custom_metadata=about.get("custom") or {},
    )
