"""`holdfast log`: events as they are stored."""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import click

import holdfast
from holdfast import errors
from holdfast.cli import shapes
from holdfast.cli.ledgers import Whose, chosen, kind_options
from holdfast.cli.screen import ROLES, Styled, emit, json_text, progress, say
from holdfast.cli.sessions import FOLLOW_S, limit_option, thread_option
from holdfast.cli.settings import PAGE, Settings, common, session_names
from holdfast.cli.told import summary
from holdfast.cli.words import clean, cut, local

Found: TypeAlias = tuple[holdfast.Recorded, str | None]
"""An event, and the cursor that goes on after it, where it is known."""
Wanted: TypeAlias = Callable[[holdfast.Recorded], bool]
Read: TypeAlias = Callable[..., Sequence[holdfast.Recorded]]

HASH_DIGITS = 12
PAYLOAD_CHARS = 2_000


class _Feed:
    """Everybody's events from a cursor on."""

    def __init__(self, engine: holdfast.Engine, cursor: str, wanted: Wanted) -> None:
        self._engine = engine
        self._cursor = cursor
        self._wanted = wanted

    def page(self, room: int) -> list[Found] | None:
        """The next events, at most so many of them wanted; None if there are no more by now."""
        page = self._engine.feed(self._cursor, limit=PAGE)
        if not page.events:
            return None
        wanted = [number for number, event in enumerate(page.events) if self._wanted(event)]
        if len(wanted) > room:  # the cursor must stand right after the last one that is shown
            wanted = wanted[:room]
            page = self._engine.feed(self._cursor, limit=wanted[-1] + 1)
        self._cursor = page.cursor
        last = wanted[-1] if wanted else None
        return [(page.events[number], page.cursor if number == last else None) for number in wanted]


class _Stream:
    """One session's or one ledger's events from a seq on."""

    def __init__(self, read: Read, after: int, wanted: Wanted) -> None:
        self._read = read
        self._after = after
        self._wanted = wanted

    def page(self, room: int) -> list[Found] | None:
        try:
            page = self._read(after=self._after, limit=PAGE)
        except errors.SessionNotFound:  # it was destroyed while we looked on
            return None
        if not page:
            return None
        wanted = [event for event in page if self._wanted(event)]
        self._after = wanted[room - 1].seq if len(wanted) > room else page[-1].seq
        return [(event, None) for event in wanted[:room]]


Source: TypeAlias = _Feed | _Stream


@click.command()
@click.argument("session", required=False, shell_complete=session_names)
@thread_option
@kind_options
@click.option("--facts", is_flag=True, help="The session's ledger instead of its conversation.")
@click.option("--after", metavar="PLACE", help="Begin after this seq of the session, or this cursor of the feed.")
@click.option("--type", "kind", metavar="TYPE", help="Only events of this type, such as message.recorded.")
@limit_option(100)
@click.option("-f", "--follow", is_flag=True, help="Wait for more.")
@click.option("--payload", is_flag=True, help="Show what each event says. JSON always does.")
@common
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
    """Show events of a session, of a ledger, or of all.

    The newest ones; with --after, those that come next.
    All means all tenants and actors, unless --tenant or --actor is given.
    """
    with settings.open() as engine:
        source: Source
        one = _one(settings, engine, session, Whose(**named, thread=thread), facts)
        if one is None:
            source = _Feed(engine, after or "", _wanted(settings, kind))
        else:
            read, version = one
            source = _Stream(read, _start(version, after, kind, limit), _wanted(None, kind))
        newest = after is None and limit
        chosen = _newest(engine, source, limit) if newest else _upto(source, 0 if follow else limit)
        for event, cursor in chosen:
            _tell(settings, event, cursor, payload, named=one is None)
        while follow:
            time.sleep(FOLLOW_S)
            for event, cursor in _upto(source, 0):
                _tell(settings, event, cursor, payload, named=one is None)


def _one(
    settings: Settings, engine: holdfast.Engine, session: str | None, whose: Whose, facts: bool
) -> tuple[Read, int] | None:
    """How to read the one stream that was asked for, and its version; None if all were."""
    if session is None and not whose.named:
        if facts:
            raise click.UsageError("--facts goes with a session.")
        return None
    if session is not None and not whose.named and not facts:
        found = settings.session(engine, session, whose.thread)
        return found.events, found.state().version
    if session is not None and not facts:
        raise click.UsageError("One at a time: a session, or a ledger.")
    stream = chosen(settings, engine, whose._replace(session=session)).id.stream
    head = engine.store.head(stream)
    return functools.partial(engine.store.read, stream), head.version if head else 0


def _wanted(settings: Settings | None, kind: str | None) -> Wanted:
    tenant = settings.tenant if settings is not None and settings.tenant_given else None
    actor = settings.actor if settings is not None else None

    def wanted(event: holdfast.Recorded) -> bool:
        stream = event.stream
        return kind in (None, event.type) and tenant in (None, stream.tenant) and actor in (None, _actor(stream))

    return wanted


def _actor(stream: holdfast.StreamId) -> str | None:
    """Whose session it is, or that of the session whose ledger it is."""
    if stream.kind == "session":
        return stream.key[0]
    return stream.key[1] if stream.key[0] == "session" else None


def _start(version: int, after: str | None, kind: str | None, limit: int) -> int:
    """The seq to begin after: what was asked for, or as late as the newest ones allow."""
    if after is None:
        return max(0, version - limit) if limit and kind is None else 0
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise click.BadParameter(f"{after!r} is not the seq of an event.", param_hint="'--after'")
    return int(after)


def _upto(source: Source, limit: int) -> Iterator[Found]:
    """The next events, at most so many; 0 for all there are by now."""
    shown = 0
    while (not limit or shown < limit) and (page := source.page(limit - shown if limit else PAGE)) is not None:
        yield from page
        shown += len(page)


def _newest(engine: holdfast.Engine, source: Source, limit: int) -> Iterator[Found]:
    """The feed is read forwards only, so the newest are what is left in the end."""
    kept: deque[Found] = deque(maxlen=limit)
    with progress("reading the log") as advance:
        total = engine.totals().events if advance is not None and isinstance(source, _Feed) else 0
        read = 0
        while (page := source.page(PAGE)) is not None:
            kept += page
            read += PAGE
            if advance is not None and total:
                advance(min(read, total), total)
    yield from kept


def _tell(settings: Settings, event: holdfast.Recorded, cursor: str | None, payload: bool, *, named: bool) -> None:
    if settings.json:
        emit(shapes.event(event, cursor))
        return
    home = event.stream
    kind = () if home.kind == "session" else ("ledger",)
    where = f"{clean('/'.join((home.tenant, *kind, *home.key)))}  " if named else ""
    role, words = summary(event)
    say(
        f"{event.seq:>6}  ",
        Styled(f"{local(event.time_us)}  {event.hash.hex()[:HASH_DIGITS]}  ", "dim"),
        Styled(f"{clean(event.type):<20}", "bold"),
        "  ",
        Styled(where, "blue"),
        Styled(role, ROLES.get(role, "")),
        words,
    )
    if payload:
        say(" " * 8, cut(json_text(shapes.payload(event)), PAYLOAD_CHARS))
