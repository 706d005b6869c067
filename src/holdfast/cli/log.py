"""`holdfast log`: the stored events of a session, a ledger or the whole store."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import click

import holdfast
from holdfast import errors
from holdfast.cli import documents
from holdfast.cli.options import LedgerSelector, ledger_options, limit_option, select_ledger, thread_option
from holdfast.cli.output import (
    ROLE_STYLES,
    StyledText,
    escape,
    format_local_time,
    json_text,
    print_json,
    print_line,
    shorten,
    show_progress,
    truncate,
)
from holdfast.cli.settings import PAGE, Settings, common_options, complete_session_names
from holdfast.core import upcast
from holdfast.model.sessions.events import EvidenceKept, MessageRecorded

EventWithCursor: TypeAlias = tuple[holdfast.types.StoredEvent, str | None]
"""An event, and the cursor after it, if it is known."""
EventFilter: TypeAlias = Callable[[holdfast.types.StoredEvent], bool]
EventReader: TypeAlias = Callable[..., Sequence[holdfast.types.StoredEvent]]
EventWatcher: TypeAlias = Callable[..., Iterable[holdfast.types.FeedEvent]]
HASH_DIGITS = 12
PAYLOAD_CHARS = 2_000


class _FeedSource:
    """The events of all streams, from a cursor on."""

    def __init__(self, engine: holdfast.Engine, cursor: str, is_wanted: EventFilter) -> None:
        self._engine = engine
        self._cursor = cursor
        self._is_wanted = is_wanted

    def page(self, limit: int) -> list[EventWithCursor] | None:
        """Return the next matching events, at most `limit`; None if there are no more events now."""
        page = self._engine.admin.feed(self._cursor, limit=PAGE)
        if not page.events:
            return None
        matches = [number for number, event in enumerate(page.events) if self._is_wanted(event)]
        if len(matches) > limit:  # the cursor must point right after the last event that is shown
            matches = matches[:limit]
            page = self._engine.admin.feed(self._cursor, limit=matches[-1] + 1)
        self._cursor = page.cursor
        last = matches[-1] if matches else None
        return [(page.events[number], page.cursor if number == last else None) for number in matches]

    def follow(self) -> Iterator[EventWithCursor]:
        """Wait for matching events."""
        for event in self._engine.admin.watch(after=self._cursor):
            if self._is_wanted(event):
                yield event, event.cursor


class _Stream(NamedTuple):
    """A session or a ledger: how to read and to watch it, and its version."""

    read: EventReader
    watch: EventWatcher
    version: int


class _StreamSource:
    """The events of one session or ledger, from a seq on."""

    def __init__(self, stream: _Stream, after: int, is_wanted: EventFilter) -> None:
        self._read = stream.read
        self._watch = stream.watch
        self._after = after
        self._is_wanted = is_wanted

    def page(self, limit: int) -> list[EventWithCursor] | None:
        try:
            page = self._read(after=self._after, limit=PAGE)
        except errors.SessionNotFound:  # the session was destroyed meanwhile
            return None
        if not page:
            return None
        matches = [event for event in page if self._is_wanted(event)]
        self._after = matches[limit - 1].seq if len(matches) > limit else page[-1].seq
        return [(event, None) for event in matches[:limit]]

    def follow(self) -> Iterator[EventWithCursor]:
        """Wait for matching events."""
        return ((event, None) for event in self._watch(after=self._after) if self._is_wanted(event))


EventSource: TypeAlias = _FeedSource | _StreamSource


@click.command()
@click.argument("session", required=False, shell_complete=complete_session_names)
@thread_option
@ledger_options
@click.option("--facts", is_flag=True, help="Show the ledger of the session, not its conversation.")
@click.option(
    "--after", metavar="POSITION", help="Start after this seq of the stream, or after this cursor of the feed."
)
@click.option("--type", "kind", metavar="TYPE", help="Only events of this type, such as message.recorded.")
@limit_option(100)
@click.option("-f", "--follow", is_flag=True, help="Wait for new events.")
@click.option("--payload", is_flag=True, help="Show the payload of each event. JSON always contains it.")
@common_options
@click.pass_obj
def log(
    settings: Settings,
    /,
    session: str | None,
    thread: str | None,
    after: str | None,
    kind: str | None,
    limit: int,
    follow: bool,
    payload: bool,
    facts: bool,
    **named: str | None,
) -> None:
    """Show the events of a session, of a ledger, or of the store.

    By default the newest events; with --after, the events after that position.
    Without a session or ledger: the events of all tenants and actors, unless --tenant or --actor is given.
    """
    with settings.open() as engine:
        source: EventSource
        stream = _select_stream(settings, engine, session, LedgerSelector(**named, thread=thread), facts)
        if stream is None:
            source = _FeedSource(engine, after or "", _build_filter(settings, kind))
        else:
            source = _StreamSource(stream, _start_after(stream.version, after, kind, limit), _build_filter(None, kind))
        is_newest = after is None and limit
        events = _read_newest(engine, source, limit) if is_newest else _read_next(source, 0 if follow else limit)
        for event, cursor in events:
            _print_event(settings, event, cursor, payload, show_stream=stream is None)
        for event, cursor in source.follow() if follow else ():
            _print_event(settings, event, cursor, payload, show_stream=stream is None)


def _select_stream(
    settings: Settings, engine: holdfast.Engine, session: str | None, selector: LedgerSelector, facts: bool
) -> _Stream | None:
    """Return the requested stream; None if all streams were requested."""
    if session is None and not selector.ledger_names:
        if facts:
            raise click.UsageError("--facts needs a session.")
        return None
    if session is not None and not selector.ledger_names and not facts:
        conversation = settings.find_session(engine, session, selector.thread)
        scope = conversation.scope
        watch = functools.partial(engine.watch, scope.session, actor=scope.actor, thread=scope.thread)
        return _Stream(conversation.events, watch, conversation.state().version)
    if session is not None and not facts:
        raise click.UsageError("Name a session or a ledger, not both.")
    ledger = select_ledger(settings, engine, selector._replace(session=session)).id
    head = engine.store.head(ledger.stream)
    read = functools.partial(engine.store.read, ledger.stream)
    return _Stream(read, functools.partial(engine.watch, ledger=ledger), head.version if head else 0)


def _build_filter(settings: Settings | None, kind: str | None) -> EventFilter:
    tenant = settings.tenant if settings is not None and settings.has_tenant else None
    actor = settings.actor if settings is not None else None

    def is_wanted(event: holdfast.types.StoredEvent) -> bool:
        stream = event.stream
        return kind in (None, event.type) and tenant in (None, stream.tenant) and actor in (None, _actor_of(stream))

    return is_wanted


def _actor_of(stream: holdfast.types.StreamId) -> str | None:
    """Return the actor of a session, or of the session that a ledger belongs to."""
    if stream.kind == "session":
        return stream.key[0]
    return stream.key[1] if stream.key[0] == "session" else None


def _start_after(version: int, after: str | None, kind: str | None, limit: int) -> int:
    """Return the seq to start after: the requested one, or the last one that shows all of the newest events."""
    if after is None:
        return max(0, version - limit) if limit and kind is None else 0
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise click.BadParameter(f"{after!r} is not the seq of an event.", param_hint="'--after'")
    return int(after)


def _read_next(source: EventSource, limit: int) -> Iterator[EventWithCursor]:
    """Read the next events, at most `limit`; 0 for all that exist now."""
    shown = 0
    while (not limit or shown < limit) and (page := source.page(limit - shown if limit else PAGE)) is not None:
        yield from page
        shown += len(page)


def _read_newest(engine: holdfast.Engine, source: EventSource, limit: int) -> Iterator[EventWithCursor]:
    """Read the last `limit` events. The feed can only be read forwards, so all events are read."""
    newest: deque[EventWithCursor] = deque(maxlen=limit)
    with show_progress("reading the log") as advance:
        total = engine.admin.totals().events if advance is not None and isinstance(source, _FeedSource) else 0
        read = 0
        while (page := source.page(PAGE)) is not None:
            newest += page
            read += PAGE
            if advance is not None and total:
                advance(min(read, total), total)
    yield from newest


def _print_event(
    settings: Settings, event: holdfast.types.StoredEvent, cursor: str | None, payload: bool, *, show_stream: bool
) -> None:
    if settings.json:
        print_json(documents.event(event, cursor))
        return
    stream = event.stream
    kind = () if stream.kind == "session" else ("ledger",)
    where = f"{escape('/'.join((stream.tenant, *kind, *stream.key)))}  " if show_stream else ""
    role, summary = summarize_event(event)
    print_line(
        f"{event.seq:>6}  ",
        StyledText(f"{format_local_time(event.time_us)}  {event.hash.hex()[:HASH_DIGITS]}  ", "dim"),
        StyledText(f"{escape(event.type):<20}", "bold"),
        "  ",
        StyledText(where, "blue"),
        StyledText(role, ROLE_STYLES.get(role, "")),
        summary,
    )
    if payload:
        print_line(" " * 8, truncate(json_text(documents.payload(event)), PAYLOAD_CHARS))


SUMMARY_CHARS = 72


def summarize_event(event: holdfast.types.StoredEvent) -> tuple[str, str]:
    """Return the role of an event, if it has one, and a summary; the payload itself if it cannot be decoded."""
    if event.payload is None:
        return "", "(erased)"
    try:
        current = upcast.decode_event(event)
    except errors.EventUnreadable:
        current = None
    if current is None:
        return "", shorten(json_text(documents.payload(event)), SUMMARY_CHARS)
    role = current.role if isinstance(current, MessageRecorded | EvidenceKept) else ""
    return role, shorten(current.describe(event.seq), SUMMARY_CHARS).removeprefix(role)
