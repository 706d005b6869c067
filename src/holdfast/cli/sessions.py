"""`holdfast sessions`: list them, show one, watch one."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, get_args

import click

import holdfast
from holdfast import errors
from holdfast.cli import shapes
from holdfast.cli.screen import STATUSES, Column, Styled, emit, json_text, say, table
from holdfast.cli.settings import PAGE, Order, Settings, Status, common, rows, session_names
from holdfast.cli.told import summary
from holdfast.cli.transcript import show_message
from holdfast.cli.words import ago, clean, count, cut, local, span

FOLLOW_S = 0.2
"""Between two looks at a session that is being watched."""
METADATA_CHARS = 1_000

F = TypeVar("F", bound=Callable[..., Any])

_COLUMNS = (
    Column("SESSION"),
    Column("ACTOR"),
    Column("THREAD"),
    Column("STATUS", whole=True),
    Column("MESSAGES", right=True, whole=True),
    Column("TOKENS", right=True, whole=True),
    Column("OPEN CALLS", right=True, whole=True),
    Column("UPDATED", whole=True),
)


def limit_option(default: int) -> Callable[[F], F]:
    return click.option(
        "-n", "--limit", type=click.IntRange(0), default=default, show_default=True, help="How many; 0 for all."
    )


session_argument = click.argument("session", shell_complete=session_names)
thread_option = click.option("--thread", metavar="NAME", help="Which thread of the session.")


@click.group()
def sessions() -> None:
    """List sessions, show one, or watch one."""


@sessions.command("list")
@click.option("--status", type=click.Choice(get_args(Status)), help="Only these.")
@click.option(
    "--order", type=click.Choice(get_args(Order)), default="recent", show_default=True, help="What comes first."
)
@limit_option(50)
@common
@click.pass_obj
def list_(settings: Settings, status: Status | None, order: Order, limit: int) -> None:
    """List the sessions of a tenant, the most recently used first."""
    with settings.open() as engine:
        found = rows(engine, actor=settings.actor, status=status, order=order)
        wanted = itertools.islice(found, limit or None)
        if settings.json:
            for row in wanted:
                emit(shapes.row(row))
            return
        listed = list(wanted)
        if not listed:
            say(_nothing(settings, engine))
            return
        now_us = time.time_ns() // 1_000
        table(_COLUMNS, (_cells(row, now_us) for row in listed))
        if limit and next(found, None) is not None:
            say(Styled(f"… and more: these are the first {limit}. --limit 0 shows all.", "dim"), error=True)


def _cells(row: holdfast.SessionRow, now_us: int) -> list[str | Styled]:
    return [
        Styled(clean(row.session), "bold"),
        clean(row.actor),
        clean(row.thread),
        Styled(row.status, STATUSES.get(row.status, "")),
        f"{row.messages:,}",
        f"{row.tokens:,}",
        Styled(f"{row.open_calls:,}", "yellow") if row.open_calls else "",
        ago(row.updated_us, now_us),
    ]


def _nothing(settings: Settings, engine: holdfast.Engine) -> str:
    """No session, and where there are some: a wrong tenant is the usual reason."""
    try:
        tenants = {head.stream.tenant for head in engine.store.heads(limit=PAGE)} - {settings.tenant}
    except errors.RoleTooNarrow:
        tenants = set()
    whose = f" of actor {settings.actor!r}" if settings.actor else ""
    others = f" Other tenants here: {', '.join(sorted(map(repr, tenants)))}." if tenants else ""
    return clean(f"No sessions{whose} in tenant {settings.tenant!r}.{others}")


@sessions.command()
@session_argument
@thread_option
@limit_option(20)
@click.option("--full", is_flag=True, help="Show long texts to their end.")
@common
@click.pass_obj
def show(settings: Settings, session: str, thread: str | None, limit: int, full: bool) -> None:
    """Show where a session stands, and its last messages."""
    with settings.open() as engine:
        found = settings.session(engine, session, thread)
        state = found.state()
        messages = last_messages(found, limit)
        if settings.json:
            shown = [shapes.message(message) for message in messages]
            emit({"session": shapes.state(found.scope, state), "messages": shown})
            return
        now_us = time.time_ns() // 1_000
        _show_state(found, state, now_us)
        if len(messages) < state.messages:
            say("")
            say(Styled(f"… {count(state.messages - len(messages), 'earlier message')}. --limit 0 shows all.", "dim"))
        began = not messages or messages[0].seq > state.start
        for message in messages:
            say("")
            if not began and message.seq > state.start:
                began = True
                say(Styled("    the conversation was reset here", "dim"))
                say("")
            show_message(message, ago(message.time_us, now_us), full=full)


def _show_state(session: holdfast.Session, state: holdfast.SessionState, now_us: int) -> None:
    scope = session.scope
    where = f"actor {scope.actor} · tenant {scope.tenant}" + (f" · thread {scope.thread}" if scope.thread else "")
    why = f" ({state.close_reason})" if state.close_reason else ""
    say(
        Styled(clean(scope.session), "bold"),
        "  ",
        Styled(state.status, STATUSES.get(state.status, "")),
        clean(f"{why}  {where}"),
    )
    say(
        f"{count(state.messages, 'message')} · {count(state.tokens, 'token')} · version {state.version}"
        f" · created {ago(state.created_us, now_us)} · updated {ago(state.updated_us, now_us)}"
    )
    usage = state.usage
    if usage.input_tokens or usage.output_tokens:
        cached = f"{usage.cache_read_tokens:,} from a cache"
        say(f"models read {usage.input_tokens:,} tokens ({cached}) and wrote {usage.output_tokens:,}")
    if state.idle_timeout_us:
        say(f"times out after {span(state.idle_timeout_us / 1e6)} without a change")
    say("speaks ", clean(_identity(state.identity)))
    if state.ledgers:
        others = ", ".join(f"{kind} {'/'.join(names)}" for kind, *names in state.ledgers)
        say(clean(f"knows its own facts, and those of {others}"))
    if state.proposals:
        waiting = Styled(count(len(state.proposals), "proposal"), "yellow")
        say(waiting, " to decide on; `holdfast facts proposals` shows them")
    if state.frames:
        kinds = Counter(frame.status for frame in state.frames.values())
        parts = ", ".join(f"{number:,} {kind}" for kind, number in sorted(kinds.items()))
        say(f"{count(len(state.frames), 'live frame')} ({parts}); `holdfast frames` shows them")
    for call in state.open_calls:
        where = f"  in {call.frame}" if call.frame else ""
        begun = f"  started, its outcome is unknown, key {call.key}" if call.attempts else ""
        say(Styled("open call ", "yellow"), clean(f"{call.name}  {call.id}{where}{begun}"))
    if state.late:
        say(f"{count(state.late, 'late result')} beside the transcript; `holdfast log --type evidence.kept` shows them")
    if state.metadata:
        say("metadata ", cut(json_text(state.metadata), METADATA_CHARS))


def _identity(identity: holdfast.Identity) -> str:
    names = [identity.user_name or identity.user_id or "somebody", identity.department, identity.organization]
    permissions = f"; may {', '.join(identity.permissions)}" if identity.permissions else ""
    return f"{', '.join(filter(None, names))}, with the authority of {identity.authority or 'unknown'}{permissions}"


@sessions.command()
@session_argument
@thread_option
@limit_option(10)
@click.option("-f", "--follow", is_flag=True, help="Wait for more, until the session ends.")
@click.option("--full", is_flag=True, help="Show long texts to their end.")
@common
@click.pass_obj
def tail(settings: Settings, session: str, thread: str | None, limit: int, follow: bool, full: bool) -> None:
    """Show the last messages of a session; with -f, also those that are still to come, whoever records them."""
    with settings.open() as engine:
        found = settings.session(engine, session, thread)
        version = found.state().version
        for message in last_messages(found, limit):
            _tell(settings, message, full)
            version = max(version, message.seq)
        if follow:
            _follow(settings, found, version, full)


def _follow(settings: Settings, session: holdfast.Session, version: int, full: bool) -> None:
    """Other processes write; what they wrote shows in the session's version. A session that ended stays as it is."""
    while True:
        try:
            state = session.state()
        except errors.SessionNotFound:
            break
        if state.version > version:
            for seen in _between(session, version, state.version):
                _tell(settings, seen, full)
            version = state.version
        if state.status != "open":
            break
        time.sleep(FOLLOW_S)
    if not settings.json:
        say(Styled("the session has ended", "dim"), error=True)


def _between(session: holdfast.Session, after: int, upto: int) -> Iterator[holdfast.Message | holdfast.Recorded]:
    """What was added since: messages as such, anything else as the event it is."""
    messages = {message.seq: message for message in _newer(session, after)}
    while after < upto and (page := session.events(after=after, limit=PAGE)):
        for event in page:
            if event.seq <= upto:
                yield messages.get(event.seq, event)
        after = page[-1].seq


def _newer(session: holdfast.Session, after: int) -> Iterator[holdfast.Message]:
    before: int | None = None
    while page := session.messages(before=before, limit=PAGE):
        yield from (message for message in page if message.seq > after)
        before = page[0].seq
        if before <= after:
            return


def last_messages(session: holdfast.Session, limit: int) -> list[holdfast.Message]:
    """The last so many, oldest first; 0 for all."""
    found: list[holdfast.Message] = []
    before: int | None = None
    while not limit or len(found) < limit:
        wanted = min(PAGE, limit - len(found)) if limit else PAGE
        page = session.messages(before=before, limit=wanted)
        if not page:
            break
        found = [*page, *found]
        before = page[0].seq
    return found


def _tell(settings: Settings, seen: holdfast.Message | holdfast.Recorded, full: bool) -> None:
    if isinstance(seen, holdfast.Message):
        if settings.json:
            emit(shapes.message(seen))
        else:
            show_message(seen, local(seen.time_us), full=full)
            say("")
    elif not settings.json:
        say(Styled(f"{seen.seq:>6}  {clean(seen.type)}  {summary(seen)[1]}", "dim"))
        say("")
