"""`holdfast sessions`: list sessions, show one with its messages, follow one."""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator
from typing import get_args

import click

import holdfast
from holdfast import File, Image, Text, errors
from holdfast.cli import documents
from holdfast.cli.log import summarize_event
from holdfast.cli.options import limit_option, session_argument, thread_option
from holdfast.cli.output import (
    ROLE_STYLES,
    SESSION_STYLES,
    StyledText,
    TableColumn,
    escape,
    escape_lines,
    format_age,
    format_count,
    format_duration,
    format_local_time,
    format_size,
    json_text,
    print_block,
    print_json,
    print_line,
    print_more,
    print_table,
    truncate,
)
from holdfast.cli.settings import (
    PAGE,
    SessionListOrder,
    SessionStatusFilter,
    Settings,
    common_options,
    iterate_sessions,
)
from holdfast.runtime.watch import Watch
from holdfast.types import Body, Opaque, Part

METADATA_CHARS = 1_000


_SESSION_COLUMNS = (
    TableColumn("SESSION"),
    TableColumn("ACTOR"),
    TableColumn("THREAD"),
    TableColumn("STATUS", whole=True),
    TableColumn("MESSAGES", right=True, whole=True),
    TableColumn("TOKENS", right=True, whole=True),
    TableColumn("OPEN CALLS", right=True, whole=True),
    TableColumn("UPDATED", whole=True),
)


@click.group()
def sessions() -> None:
    """List sessions, show one, or follow one."""


@sessions.command("list")
@click.option("--status", type=click.Choice(get_args(SessionStatusFilter)), help="Only sessions with this status.")
@click.option(
    "--order",
    type=click.Choice(get_args(SessionListOrder)),
    default="recent",
    show_default=True,
    help="The order of the list.",
)
@limit_option(50)
@common_options
@click.pass_obj
def list_(settings: Settings, status: SessionStatusFilter | None, order: SessionListOrder, limit: int) -> None:
    """List the sessions of a tenant, the last used first."""
    with settings.open() as engine:
        rows = iterate_sessions(engine, actor=settings.actor, status=status, order=order)
        first_rows = itertools.islice(rows, limit or None)
        if settings.json:
            for row in first_rows:
                print_json(documents.session_row(row))
            return
        listed = list(first_rows)
        if not listed:
            print_line(_describe_no_sessions(settings, engine))
            return
        now_us = time.time_ns() // 1_000
        print_table(_SESSION_COLUMNS, (_session_cells(row, now_us) for row in listed))
        if limit and next(rows, None) is not None:
            print_more(f"and more: these are the first {limit:,}")


def _session_cells(row: holdfast.types.SessionRow, now_us: int) -> list[str | StyledText]:
    return [
        StyledText(escape(row.session), "bold"),
        escape(row.actor),
        escape(row.thread),
        StyledText(row.status, SESSION_STYLES.get(row.status, "")),
        f"{row.messages:,}",
        f"{row.tokens:,}",
        StyledText(f"{row.open_calls:,}", "yellow") if row.open_calls else "",
        format_age(row.updated_us, now_us),
    ]


def _describe_no_sessions(settings: Settings, engine: holdfast.Engine) -> str:
    """Report that there is no session, and name other tenants: a wrong tenant is the usual reason."""
    try:
        tenants = {head.stream.tenant for head in engine.store.heads(limit=PAGE)} - {settings.tenant}
    except errors.RoleTooNarrow:
        tenants = set()
    actor = f" of actor {settings.actor!r}" if settings.actor else ""
    others = f" Other tenants here: {', '.join(sorted(map(repr, tenants)))}." if tenants else ""
    return escape(f"No sessions{actor} in tenant {settings.tenant!r}.{others}")


@sessions.command()
@session_argument
@thread_option
@limit_option(20)
@click.option("--full", is_flag=True, help="Do not shorten long texts.")
@common_options
@click.pass_obj
def show(settings: Settings, session: str, thread: str | None, limit: int, full: bool) -> None:
    """Show the state of a session, and its last messages."""
    with settings.open() as engine:
        conversation = settings.find_session(engine, session, thread)
        state = conversation.state()
        messages = read_last_messages(conversation, limit)
        if settings.json:
            shown = [documents.message(message) for message in messages]
            print_json({"session": documents.session_state(conversation.scope, state), "messages": shown})
            return
        now_us = time.time_ns() // 1_000
        _print_state(conversation, state, now_us)
        if len(messages) < state.messages:
            print_line("")
            print_more(format_count(state.messages - len(messages), "earlier message"), error=False)
        is_after_reset = not messages or messages[0].seq > state.start
        for message in messages:
            print_line("")
            if not is_after_reset and message.seq > state.start:
                is_after_reset = True
                print_line(StyledText("    the conversation was reset here", "dim"))
                print_line("")
            print_message(message, format_age(message.time_us, now_us), full=full)


def _print_state(session: holdfast.Session, state: holdfast.types.SessionState, now_us: int) -> None:
    scope = session.scope
    where = f"actor {scope.actor} · tenant {scope.tenant}" + (f" · thread {scope.thread}" if scope.thread else "")
    why = f" ({state.close_reason})" if state.close_reason else ""
    print_line(
        StyledText(escape(scope.session), "bold"),
        "  ",
        StyledText(state.status, SESSION_STYLES.get(state.status, "")),
        escape(f"{why}  {where}"),
    )
    print_line(
        f"{format_count(state.messages, 'message')} · {format_count(state.tokens, 'token')} · version {state.version}"
        f" · created {format_age(state.created_us, now_us)} · updated {format_age(state.updated_us, now_us)}"
    )
    if state.origin is not None:
        print_line(escape(f"continues {state.origin.parent[1]} after event {state.origin.cut}"))
    usage = state.usage
    if usage.input_tokens or usage.output_tokens:
        cached = f"{usage.cache_read_tokens:,} from a cache"
        print_line(
            f"models read {format_count(usage.input_tokens, 'token')} ({cached}) and wrote {usage.output_tokens:,}"
        )
    if state.idle_timeout_us:
        print_line(f"ends after {format_duration(state.idle_timeout_us / 1e6)} without a change")
    print_line("identity ", escape(_describe_identity(state.identity)))
    if state.ledgers:
        others = ", ".join(f"{kind} {'/'.join(names)}" for kind, *names in state.ledgers)
        print_line(escape(f"reads the ledgers of this session and of {others}"))
    if state.proposals:
        waiting = StyledText(format_count(len(state.proposals), "proposal"), "yellow")
        print_line(waiting, " to decide on; `holdfast facts proposals` lists them")
    if state.frames:
        kinds = Counter(frame.status for frame in state.frames.values())
        parts = ", ".join(f"{number:,} {kind}" for kind, number in sorted(kinds.items()))
        print_line(f"{format_count(len(state.frames), 'live frame')} ({parts}); `holdfast frames` lists them")
    for call in state.open_calls:
        where = f"  in {call.frame}" if call.frame else ""
        outcome = f"  started, outcome unknown, key {call.key}" if call.attempts else ""
        print_line(StyledText("open call ", "yellow"), escape(f"{call.name}  {call.id}{where}{outcome}"))
    if state.late:
        late = format_count(state.late, "late result")
        print_line(f"{late} stored as evidence; `holdfast log --type evidence.kept` lists them")
    if state.metadata:
        print_line("metadata ", truncate(json_text(state.metadata), METADATA_CHARS))


def _describe_identity(identity: holdfast.Identity) -> str:
    names = [identity.user_name or identity.user_id or "unknown", identity.department, identity.organization]
    permissions = f"; may {', '.join(identity.permissions)}" if identity.permissions else ""
    return f"{', '.join(filter(None, names))}, with the authority of {identity.authority or 'unknown'}{permissions}"


@sessions.command()
@session_argument
@thread_option
@limit_option(10)
@click.option("-f", "--follow", is_flag=True, help="Wait for new messages until the session ends.")
@click.option("--full", is_flag=True, help="Do not shorten long texts.")
@common_options
@click.pass_obj
def tail(settings: Settings, session: str, thread: str | None, limit: int, follow: bool, full: bool) -> None:
    """Show the last messages of a session; -f waits for new ones.

    With -f it also shows new messages of any process.
    """
    with settings.open() as engine:
        conversation = settings.find_session(engine, session, thread)
        version = conversation.state().version
        for message in read_last_messages(conversation, limit):
            _print_entry(settings, message, full)
            version = max(version, message.seq)
        if follow:
            scope = conversation.scope
            watch = engine.watch(scope.session, actor=scope.actor, thread=scope.thread, after=version)
            _follow(settings, conversation, watch, full)


def _follow(settings: Settings, session: holdfast.Session, watch: Watch, full: bool) -> None:
    """Print new entries until the session ends. Events of other processes increase its version."""
    version = int(watch.cursor or 0)
    while True:
        try:
            state = session.state()
        except errors.SessionNotFound:
            break
        if state.version > version:
            for entry in _read_between(session, version, state.version):
                _print_entry(settings, entry, full)
            version = state.version
        if state.status != "open":
            break
        while next(watch).seq <= version:
            pass  # it was printed
    if not settings.json:
        print_line(StyledText("the session has ended", "dim"), error=True)


def _read_between(
    session: holdfast.Session, after: int, upto: int
) -> Iterator[holdfast.Message | holdfast.types.StoredEvent]:
    """Yield the entries after one version, up to another: a message, or else an event."""
    messages = {message.seq: message for message in _read_newer_messages(session, after)}
    while after < upto and (page := session.events(after=after, limit=PAGE)):
        for event in page:
            if event.seq <= upto:
                yield messages.get(event.seq, event)
        after = page[-1].seq


def _read_newer_messages(session: holdfast.Session, after: int) -> Iterator[holdfast.Message]:
    before: int | None = None
    while page := session.messages(before=before, limit=PAGE):
        yield from (message for message in page if message.seq > after)
        before = page[0].seq
        if before <= after:
            return


def read_last_messages(session: holdfast.Session, limit: int) -> list[holdfast.Message]:
    """Read the last `limit` messages, oldest first; 0 for all."""
    messages: list[holdfast.Message] = []
    before: int | None = None
    while not limit or len(messages) < limit:
        size = min(PAGE, limit - len(messages)) if limit else PAGE
        page = session.messages(before=before, limit=size)
        if not page:
            break
        messages = [*page, *messages]
        before = page[0].seq
    return messages


def _print_entry(settings: Settings, entry: holdfast.Message | holdfast.types.StoredEvent, full: bool) -> None:
    if isinstance(entry, holdfast.Message):
        if settings.json:
            print_json(documents.message(entry))
        else:
            print_message(entry, format_local_time(entry.time_us), full=full)
            print_line("")
    elif not settings.json:
        print_line(StyledText(f"{entry.seq:>6}  {escape(entry.type)}  {summarize_event(entry)[1]}", "dim"))
        print_line("")


MESSAGE_CHARS = 2_000
"""The maximum length of one text, unless --full is given."""
ARGS_CHARS = 400
_INDENT = " " * 8


def print_message(message: holdfast.Message, when: str, *, full: bool) -> None:
    """Print a message: a headline, then its content, indented."""
    role = message.role or "erased"
    model = f"  {escape(message.source.model)}" if message.source and message.source.model else ""
    print_line(
        StyledText(f"{message.seq:>6}  ", "dim"),
        StyledText(f"{role:<9}", f"bold {ROLE_STYLES.get(role, 'dim')}"),
        StyledText(f"  {when}  {format_count(message.tokens, 'token')}{model}", "dim"),
    )
    if message.skipped:
        print_line(_INDENT, StyledText(f"[not shown to models: {message.skipped}]", "yellow"))
    if message.withdrawn:
        print_line(_INDENT, StyledText(f"[withdrawn at event {message.withdrawn}]", "yellow"))
    for part in message.content:
        _print_part(part, full)
    for call in (*message.tool_calls, *message.dropped_calls):
        args = json_text(call.args)
        print_line(
            _INDENT,
            StyledText("→ ", "yellow"),
            StyledText(escape(call.name), "bold"),
            " ",
            _truncate_unless_full(args, full, ARGS_CHARS),
        )
        print_line(_INDENT, StyledText(f"  {escape(call.id)}", "dim"))
    for result in message.tool_results:
        mark = StyledText("✗ ", "red") if result.is_error else StyledText("← ", "yellow")
        print_line(_INDENT, mark, StyledText(escape(result.tool_call_id), "dim"))
        for part in result.content:
            _print_part(part, full)


def _print_part(part: Part, full: bool) -> None:
    for text in _part_texts(part):
        print_block(escape_lines(text if full else truncate(text, MESSAGE_CHARS)), len(_INDENT))
    if note := _describe_part(part):
        print_line(_INDENT, StyledText(f"[{escape(note)}]", "dim"))


def _part_texts(part: Part) -> Iterator[str]:
    match part:
        case Text(text):
            yield text
        case Body(preview=preview) if preview:
            yield preview
        case holdfast.types.Data(value):
            yield json_text(value)


def _describe_part(part: Part) -> str:
    """A description of a part that is not text."""
    match part:
        case Body(ref=ref):
            return f"shortened text of {format_size(ref.size)}, blob {ref.digest[:12]}"
        case File(ref=ref, name=name):
            return f"file {name or ''} {ref.media_type or ''} {format_size(ref.size)}, blob {ref.digest[:12]}"
        case Image(ref=None, url=url):
            return f"image at {url}"
        case Image(ref=holdfast.BlobRef() as ref):
            return f"image {ref.media_type or ''} {format_size(ref.size)}, blob {ref.digest[:12]}"
        case Opaque(issuer=issuer):
            return f"a part that only {issuer} can read"
    return ""


def _truncate_unless_full(text: str, full: bool, chars: int) -> str:
    return text if full else truncate(text, chars)
