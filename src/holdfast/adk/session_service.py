"""The session service: sessions, events and state of ADK in Holdfast.

Each event is an entry of a session, as ADK wrote it; its conversation is a transcript of the same session. Reading the
newest events reads no others.

Laws: an event is stored whole, with the state that it changes, or not at all. A writer that has not seen the newest
event is refused, whatever its clock says. The same event again changes nothing.
"""

from __future__ import annotations

import asyncio
import time
import uuid
import weakref
from typing import Any

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from google.adk.sessions.session import Session
from typing_extensions import override

import holdfast
from holdfast.adk.events import decode_event, encode_event
from holdfast.adk.names import STATE_THREAD, Conversations, actor_of, clean_id, escape_app, escape_name
from holdfast.adk.state import (
    StateChange,
    append_entries,
    build_entry,
    change_state,
    decode_body,
    merge_state,
    read_state,
    split_state,
)
from holdfast.adk.transcripts import Transcripts
from holdfast.adk.uris import choose_engine
from holdfast.errors import EntryConflict, SessionNotFound, VersionConflict
from holdfast.frameworks.engines import run_blocking
from holdfast.types import Entry, NewEntry

_TRIES = 20
_PAGE = 200
_CREATED = "created"
_EVENT = "event"
_STALE = (
    "The session has been modified in storage since it was loaded: it has newer events. Nothing was stored. Load it again "
    "with get_session(), and append to that."
)


class _Names:
    """The names of a session of ADK, cleaned."""

    def __init__(self, app_name: str, user_id: str, session_id: str | None) -> None:
        self.app_name, self.user_id, self.session_id = app_name, user_id, clean_id(session_id)

    @property
    def all(self) -> tuple[str, str, str]:
        return self.app_name, self.user_id, self.session_id


class SessionService(BaseSessionService):
    """Sessions of ADK in Holdfast.

        runner = Runner(app=app, session_service=SessionService(engine))

    `uri` opens the engine of an address, for `services.yaml`: `holdfast:///agent.db`. With `observe`, facts are read from
    messages of the user. With `memory`, new sessions have a long-term memory."""

    def __init__(
        self,
        engine: holdfast.Engine | None = None,
        *,
        uri: str | None = None,
        observe: bool = True,
        memory: bool = False,
        **_options: Any,
    ) -> None:
        self.engine = choose_engine(engine, uri)
        self._observe = observe
        self._conversations = Conversations(self.engine, memory=memory)
        self._transcripts = Transcripts.of(self.engine)
        self._complete: set[tuple[str, str, str]] = set()
        self._locks: weakref.WeakKeyDictionary[
            asyncio.AbstractEventLoop, weakref.WeakValueDictionary[tuple[str, str, str], asyncio.Lock]
        ] = weakref.WeakKeyDictionary()
        self._appends: set[asyncio.Task[Event]] = set()

    def session(self, *, app_name: str, user_id: str, session_id: str, branch: str | None = None) -> holdfast.Session:
        """The session of Holdfast behind one of ADK: for packs, facts, recovery and the log. Raises
        SessionNotFoundError."""
        names = _Names(app_name, user_id, session_id)
        opened, _ = self._conversations.find(*names.all)
        if opened is None:
            raise SessionNotFoundError(f"Session {names.session_id} not found.")
        return self._conversations.branch(*names.all, branch) if branch else opened

    @override
    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session. Raises AlreadyExistsError."""
        return await run_blocking(self._create, _Names(app_name, user_id, session_id or str(uuid.uuid4())), state)

    @override
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """Return a session; None if there is none. With `num_recent_events`, only these are read."""
        return await run_blocking(self._get, _Names(app_name, user_id, session_id), config)

    @override
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """List the sessions of a user, or of all users of an app, the last active one last. They have state, and no
        events."""
        return await run_blocking(self._list, app_name, user_id)

    @override
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session: its content is erased. The id can be used again."""
        names = _Names(app_name, user_id, session_id)
        if names.session_id:
            await run_blocking(self._conversations.destroy, *names.all)
            self._complete.discard(names.all)

    @override
    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user of an app, without the prefix of its keys."""
        return await run_blocking(self._read_user, app_name, user_id)

    @override
    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event to a session, and update the session object.

        A partial event is returned and not stored. Raises StaleSessionError if the session has newer events than the
        object, and SessionNotFoundError if it was deleted. A caller that is cancelled does not stop the append: the
        object is updated once it is stored."""
        if event.partial:
            return event
        task = asyncio.ensure_future(self._append(session, event))
        self._appends.add(task)
        task.add_done_callback(self._appends.discard)
        return await asyncio.shield(task)

    @override
    async def flush(self) -> None:
        """Wait for appends whose callers were cancelled. All others are stored when append_event() returns."""
        own = [task for task in self._appends if task.get_loop() is asyncio.get_running_loop()]
        if own:
            await asyncio.gather(*own, return_exceptions=True)

    async def _append(self, session: Session, event: Event) -> Event:
        names = _Names(session.app_name, session.user_id, session.id)
        async with self._lock(names):
            temporary = {key: value for key, value in event.actions.state_delta.items() if key.startswith("temp:")}
            session.state.update(temporary)
            self._trim_temp_delta_state(event)
            last = session.events[-1].id if session.events else ""
            marker = session._storage_update_marker
            stored = await run_blocking(self._store, names, marker, last, event)
            session._storage_update_marker = stored
            session.last_update_time = event.timestamp
            if not any(each.id == event.id and each == event for each in reversed(session.events)):
                self._commit_event_to_session(session, event)
            return event

    def _lock(self, names: _Names) -> asyncio.Lock:
        """One append to a session at a time, in this loop: parallel agents share a session object."""
        locks = self._locks.setdefault(asyncio.get_running_loop(), weakref.WeakValueDictionary())
        return locks.setdefault(names.all, asyncio.Lock())

    def _create(self, names: _Names, state: dict[str, Any] | None) -> Session:
        if not names.session_id:
            names.session_id = str(uuid.uuid4())
        opened, _ = self._conversations.ensure(*names.all)
        if opened.entries.get(_CREATED) is not None:
            raise AlreadyExistsError(f"Session with id {names.session_id} already exists.")
        change = split_state(state)
        body: dict[str, Any] = {
            "app": names.app_name,
            "user": names.user_id,
            "id": names.session_id,
            "time": time.time(),
            "nonce": str(uuid.uuid4()),
        }
        entries = [NewEntry(_CREATED, _CREATED, body)]
        if not change.is_empty:
            entries.append(self._build_change(opened, change, _CREATED))
        try:
            append_entries(opened, entries)
        except EntryConflict as error:
            raise AlreadyExistsError(f"Session with id {names.session_id} already exists.") from error
        self._share(names, opened, change, _CREATED)
        self._complete.add(names.all)
        created = self._build_session(names, opened, [], None)
        assert created is not None, "its record was stored above"
        return created

    def _get(self, names: _Names, config: GetSessionConfig | None) -> Session | None:
        opened = self._find(names)
        if opened is None:
            return None
        newest = opened.entries.list(kind=_EVENT, limit=1)
        recent = config.num_recent_events if config else None
        events: list[Event] = []
        if newest and recent != 0:
            events = _read_events(opened, recent, config.after_timestamp if config else None)
        return self._build_session(names, opened, events, newest[0] if newest else None)

    def _find(self, names: _Names) -> holdfast.Session | None:
        """The session behind these names, complete after a crash; None if there is none."""
        if not names.session_id:
            return None
        opened, _ = self._conversations.find(*names.all)
        if opened is None or opened.entries.get(_CREATED) is None:
            return None
        if names.all not in self._complete:
            self._make_complete(names, opened)
            self._complete.add(names.all)
        return opened

    def _make_complete(self, names: _Names, opened: holdfast.Session) -> None:
        """Do what a process that died after it stored an event has left: the state of user and app, and the transcript."""
        for entry in opened.entries.list(kind="state", limit=1):
            body = decode_body(entry.body)
            shared = StateChange({}, body.get("user", {}), body.get("app", {}))
            self._share(names, opened, shared, entry.parent or "", once=True)
        for entry in opened.entries.list(kind=_EVENT, limit=1):
            event = decode_event(entry.body)
            self._transcripts.record_event(self._conversations, names.all, event, observe=False)

    def _build_session(
        self, names: _Names, opened: holdfast.Session, events: list[Event], newest: Entry | None
    ) -> Session | None:
        created = opened.entries.get(_CREATED)
        if created is None:
            return None
        body = decode_body(created.body)
        app, user = self._read_app(names.app_name), self._read_user(names.app_name, names.user_id)
        session = Session(
            id=names.session_id,
            app_name=names.app_name,
            user_id=names.user_id,
            state=merge_state(read_state(opened), user, app),
            events=events,
            last_update_time=decode_event(newest.body).timestamp if newest else body["time"],
        )
        session._storage_update_marker = str(newest.seq if newest else 0)
        return session

    def _list(self, app_name: str, user_id: str | None) -> ListSessionsResponse:
        sessions: list[Session] = []
        for row in self._conversations.rows(app_name, user_id):
            try:
                opened = self.engine.session(row.session, actor=row.actor, thread=row.thread or None)
            except SessionNotFound:  # deleted meanwhile
                continue
            created = opened.entries.get(_CREATED)
            if created is None:
                continue
            body = decode_body(created.body)
            newest = opened.entries.list(kind=_EVENT, limit=1)
            names = _Names(body["app"], body["user"], body["id"])
            listed = self._build_session(names, opened, [], newest[0] if newest else None)
            if listed is not None and listed.app_name == app_name:
                sessions.append(listed)
        sessions.sort(key=lambda each: (each.last_update_time, each.user_id, each.id))
        return ListSessionsResponse(sessions=sessions)

    def _store(self, names: _Names, marker: str | None, last: str, event: Event) -> str:
        """Store an event, with its state and its messages. Returns the marker of the session behind it."""
        opened = self._find(names)
        if opened is None:
            raise SessionNotFoundError(f"Session {names.session_id} not found.")
        body, change = encode_event(event), split_state(event.actions.state_delta)
        seq = self._append_entries(opened, marker, last, event, body, change)
        self._transcripts.record_event(self._conversations, names.all, event, observe=self._observe)
        self._share(names, opened, change, event.id)
        return str(seq)

    def _append_entries(
        self, opened: holdfast.Session, marker: str | None, last: str, event: Event, body: bytes, change: StateChange
    ) -> int:
        key = name = escape_name(event.id)
        for _ in range(_TRIES):
            version = opened.state().version
            known = opened.entries.get(key)
            if known is not None and known.body == body:
                return known.seq
            if known is not None:
                key = f"{name}~{uuid.uuid5(uuid.NAMESPACE_OID, body.hex())}"
                continue
            newest = opened.entries.list(kind=_EVENT, limit=1, bodies=False)
            _check_current(newest, marker, last)
            entries = [NewEntry(_EVENT, key, body, escape_name(event.invocation_id) or None)]
            if not change.is_empty:
                entries.append(self._build_change(opened, change, key))
            try:
                return append_entries(opened, entries, expect=version)
            except VersionConflict:
                continue
        raise StaleSessionError(_STALE)

    def _build_change(self, opened: holdfast.Session, change: StateChange, parent: str) -> NewEntry:
        shared = {name: values for name, values in (("user", change.user), ("app", change.app)) if values}
        return build_entry(opened, change.session, parent, shared)

    def _share(
        self, names: _Names, opened: holdfast.Session, change: StateChange, parent: str, *, once: bool = False
    ) -> None:
        """Store what a change sets for the user and for the app. With `once`, unless that was done."""
        token = f"{opened.scope.session}#{opened.scope.thread or ''}#{parent}"
        for values, is_app in ((change.user, False), (change.app, True)):
            if not values:
                continue
            shared = (
                self._app_session(names.app_name, create=True)
                if is_app
                else self._user_session(names.app_name, names.user_id, create=True)
            )
            assert shared is not None, "it was created"
            if not once or not shared.entries.list(kind="state", parent=token, limit=1, bodies=False):
                change_state(shared, values, token)

    def _user_session(self, app_name: str, user_id: str, *, create: bool = False) -> holdfast.Session | None:
        return self._conversations.beside("user", actor_of(app_name, user_id), STATE_THREAD, create=create)

    def _app_session(self, app_name: str, *, create: bool = False) -> holdfast.Session | None:
        actor = holdfast.types.shorten_name(escape_app(app_name) or "/")
        return self._conversations.beside("app", actor, STATE_THREAD, create=create)

    def _read_user(self, app_name: str, user_id: str) -> dict[str, Any]:
        return read_state(self._user_session(app_name, user_id))

    def _read_app(self, app_name: str) -> dict[str, Any]:
        return read_state(self._app_session(app_name))


def _check_current(newest: list[Entry], marker: str | None, last: str) -> None:
    """Refuse a writer that has not seen the newest event. A session object that this service did not make has no marker:
    then its last event counts."""
    if marker is not None:
        if marker != str(newest[0].seq if newest else 0):
            raise StaleSessionError(_STALE)
    elif (newest[0].key.split("~")[0] if newest else "") != escape_name(last):
        raise StaleSessionError(_STALE)


def _read_events(opened: holdfast.Session, recent: int | None, after: float | None) -> list[Event]:
    """Events, oldest first: the newest `recent`, and of these those not before `after`."""
    events: list[Event] = []
    before: int | None = None
    while recent is None or len(events) < recent:
        limit = _PAGE if recent is None else min(_PAGE, recent - len(events))
        page = opened.entries.list(kind=_EVENT, before=before, limit=limit)
        if not page:
            break
        events += [decode_event(entry.body) for entry in page]
        before = page[-1].seq
        if after is not None and events[-1].timestamp < after:
            break
    if after is not None:
        events = [event for event in events if event.timestamp >= after]
    return events[::-1]
