"""Commands for a whole store: verify, rebuild, backup, copy, export, import, stats, sweep, collect."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import os
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

import click

import holdfast
from holdfast import errors
from holdfast.cli import documents
from holdfast.cli.gateway_figures import show_gateway_stats
from holdfast.cli.options import LEDGER_KINDS, belongs_to_actor, date_option
from holdfast.cli.options import iterate_ledgers as ledger_rows
from holdfast.cli.output import (
    StyledText,
    TableColumn,
    draw_bar,
    escape,
    format_count,
    format_size,
    print_json,
    print_line,
    print_table,
    show_progress,
)
from holdfast.cli.settings import Settings, common_options, complete_session_names, iterate_sessions, iterate_suspended
from holdfast.frameworks import claude_import
from holdfast.gateway.stores import default_store
from holdfast.model import limits
from holdfast.model.names import DEFAULT_ACTOR
from holdfast.ports import EventStore
from holdfast.runtime.maintenance import BLOB_FOLDER
from holdfast.runtime.store_copy import copy as copy_store

F = TypeVar("F", bound=Callable[..., Any])


target_argument = click.argument("target", type=click.Path())


transcript_thread_option = click.option(
    "--thread", metavar="NAME", help="The thread of the session; needs --transcript."
)


def transcript_option(text: str) -> Callable[[F], F]:
    return click.option("--transcript", metavar="SESSION", shell_complete=complete_session_names, help=text)


@click.command()
@common_options
@click.pass_obj
def verify(settings: Settings) -> int:
    """Check the whole store for damage.

    Compares hash chains, heads, snapshots, rows and bodies. The exit code is 1 if there is damage.
    """
    with settings.open() as engine, show_progress("verifying") as advance:
        report = engine.admin.verify(progress=advance)
    if settings.json:
        print_json({"ok": report.ok, **documents.to_plain(report)})
    else:
        for problem in report.problems:
            print_line(StyledText("bad   ", "bold red"), escape(str(problem)))
        verdict = format_count(len(report.problems), "problem") if report.problems else "no damage"
        print_line(
            f"{format_count(report.streams, 'stream')}, {format_count(report.events, 'event')}: ",
            StyledText(verdict, _verdict_style(report.ok)),
        )
    return 0 if report.ok else 1


def _verdict_style(ok: bool) -> str:
    return "bold green" if ok else "bold red"


@click.command()
@common_options
@click.pass_obj
def rebuild(settings: Settings) -> None:
    """Rebuild everything that is derived from the log."""
    with settings.open() as engine, show_progress("rebuilding") as advance:
        streams = engine.admin.rebuild(progress=advance)
    _print_result(settings, f"Rebuilt from the log: {format_count(streams, 'stream')}.", {"streams": streams})


@click.command()
@target_argument
@common_options
@click.pass_obj
def backup(settings: Settings, target: str) -> None:
    """Copy the file and its blobs to TARGET.

    Other processes may write to the file meanwhile. TARGET must not exist.
    """
    settings.check_exists()
    if settings.is_on_server:
        reason = "use pg_dump for a server, or copy it to a file with `holdfast copy`"
        raise errors.InvalidUrl(url=settings.display_address, reason=reason)
    with settings.open() as engine, show_progress("copying", in_bytes=True) as advance:
        engine.admin.backup(target, progress=advance)
    total = os.path.getsize(target)
    _print_result(settings, f"Copied to {target} ({format_size(total)}).", {"target": target, "bytes": total})


@click.command()
@click.argument("source", type=click.Path())
@target_argument
@common_options
@click.pass_obj
def copy(settings: Settings, source: str, target: str) -> None:
    """Copy everything from the store SOURCE to the store TARGET.

    SOURCE and TARGET are files or addresses of servers. Other processes may write to SOURCE meanwhile. TARGET is created
    if it does not exist; its contents stay. Repeat the command after an interruption, or to copy new events.
    """
    origin, destination = (dataclasses.replace(settings, file=file) for file in (source, target))
    with origin.open() as engine, show_progress("copying") as advance:
        created = not destination.exists()
        copied = copy_store(engine, target, progress=advance)
    counts = f"{format_count(copied.events, 'event')} and {format_count(copied.bodies, 'body', 'bodies')}"
    before = "a new store" if created else f"{format_count(copied.already_there, 'event')} were there already"
    message = f"Copied {counts} to {destination.display_address} ({before})"
    message += f"; all of {format_count(copied.streams, 'stream')} compared."
    data = {
        "source": origin.display_address,
        "target": destination.display_address,
        **documents.to_plain(copied),
        "created": created,
    }
    _print_result(settings, message, data)


@click.command()
@target_argument
@click.option("--force", is_flag=True, help="Replace TARGET if it exists.")
@transcript_option("Export only this session, one message per line, in a format for other systems.")
@transcript_thread_option
@common_options
@click.pass_obj
def export(settings: Settings, target: str, force: bool, transcript: str | None, thread: str | None) -> None:
    """Write everything to TARGET as JSON lines.

    The events and blobs of all tenants, for an import elsewhere; or the transcript of one session.
    """
    _check_thread(transcript, thread)
    settings.check_exists()
    if os.path.exists(target) and not force:
        raise errors.InvalidUrl(url=target, reason="the file exists; --force replaces it")
    with settings.open() as engine, show_progress("exporting") as advance:
        if transcript is None:
            events = engine.admin.export(target, progress=advance)
            message, data = format_count(events, "event"), {"events": events}
        else:
            scope = settings.find_session(engine, transcript, thread).scope
            lines = engine.admin.export_transcript(target, scope.session, actor=scope.actor, thread=scope.thread)
            message, data = (
                f"{format_count(lines, 'line')} of {scope.session!r}",
                {"lines": lines, **documents.to_plain(scope)},
            )
    total = os.path.getsize(target)
    _print_result(
        settings, f"Exported {message} to {target} ({format_size(total)}).", {"target": target, **data, "bytes": total}
    )


@click.command("import")
@click.argument("source", type=click.Path())
@transcript_option("SOURCE is the transcript of one session of any system: import it as a new session of this name.")
@transcript_thread_option
@common_options
@click.pass_obj
def import_(settings: Settings, source: str, transcript: str | None, thread: str | None) -> None:
    """Import an export, a transcript, or logs of Claude Code.

    Events that exist already are skipped. The file, or the schema on a server, is created if it does not exist.
    A log of Claude Code is a file or a folder in ~/.claude/projects; each session in it becomes a session of the same
    name, and its sub-agents become frames of it. Importing it again adds what is new.
    """
    _check_thread(transcript, thread)
    is_folder = os.path.isdir(source)
    if not (os.path.isfile(source) or (is_folder and transcript is None)):
        raise errors.FileAbsent(path=source)
    is_log = transcript is None and (is_folder or claude_import.is_log(source))
    created = not settings.exists()
    data: dict[str, object]
    with settings.open(create=True) as engine, show_progress("importing", in_bytes=True) as advance:
        if is_log:
            message, data = _import_logs(settings, engine, source)
        elif transcript is None:
            events = engine.admin.import_(source, progress=advance)
            message, data = format_count(events, "new event"), {"events": events}
        else:
            actor = DEFAULT_ACTOR if settings.actor is None else settings.actor
            session = engine.admin.import_transcript(source, transcript, actor=actor, thread=thread)
            state = session.state()
            message = f"{format_count(state.messages, 'message')} of {transcript!r}"
            message += f" and {format_count(state.late, 'item')} of evidence" if state.late else ""
            data = {"messages": state.messages, "late": state.late, **documents.to_plain(session.scope)}
    new = " (a new store)" if created else ""
    message = f"Imported {message} from {source} into {settings.display_address}{new}."
    _print_result(settings, message, {"source": source, **data, "created": created})


def _import_logs(settings: Settings, engine: holdfast.Engine, source: str) -> tuple[str, dict[str, object]]:
    imported = claude_import.import_logs(engine, source, actor=settings.actor)
    parts = [format_count(imported.lines, "new line"), format_count(imported.messages, "new message")]
    if imported.broken:
        parts.append(f"{format_count(imported.broken, 'line')} that are no JSON")
    origin = f"{format_count(imported.sessions, 'session')} and {format_count(imported.subagents, 'sub-agent')}"
    return f"{', '.join(parts)} of {origin}", documents.to_plain(imported)


def _check_thread(transcript: str | None, thread: str | None) -> None:
    if thread is not None and transcript is None:
        raise click.UsageError("--thread needs --transcript.")


@click.command()
@common_options
@click.pass_obj
def sweep(settings: Settings) -> None:
    """End idle sessions and late frames, and expire facts."""
    sessions: list[holdfast.types.Scope] = []
    frames: list[tuple[holdfast.types.Scope, str]] = []
    facts = 0
    with settings.open() as engine:
        while (swept := engine.admin.sweep()) != holdfast.types.SweepResult():
            sessions += swept.sessions
            frames += swept.frames
            facts += swept.facts
    if settings.json:
        late = [{"scope": documents.to_plain(scope), "frame": frame} for scope, frame in frames]
        print_json({"timed_out": documents.to_plain(sessions), "frames": late, "facts": facts})
        return
    for scope in sessions:
        print_line(escape(f"{scope.session}  (actor {scope.actor})"))
    for scope, frame in frames:
        print_line(escape(f"{scope.session}  frame {frame}  (actor {scope.actor})"))
    print_line(
        f"{format_count(len(sessions), 'session')} and {format_count(len(frames), 'frame')} timed out,"
        f" {format_count(facts, 'fact')} expired."
    )


@click.command()
@click.option(
    "--grace",
    type=click.FloatRange(0),
    default=limits.BLOB_GRACE_S,
    show_default=True,
    help="Keep unused bodies that are younger than this, in seconds: an event may still refer to them.",
)
@common_options
@click.pass_obj
def collect(settings: Settings, grace: float) -> None:
    """Remove bodies that no event refers to.

    Such bodies are left by erasures and interrupted writes.
    """
    with settings.open() as engine:
        dropped = engine.admin.collect(grace_s=grace)
    _print_result(settings, f"Removed {format_count(dropped, 'unused body', 'unused bodies')}.", {"removed": dropped})


def _print_result(settings: Settings, message: str, data: dict[str, object]) -> None:
    if settings.json:
        print_json(data)
    else:
        print_line(escape(message))


_SUMMED_FIELDS = ("messages", "tokens", "open_calls", "input_tokens", "cache_read_tokens", "output_tokens")
_SERVER_BLOBS_SQL = """
SELECT (SELECT count(*) FROM blobs), (pg_total_relation_size('blobs') + pg_total_relation_size('bodies')
                                      + pg_total_relation_size('pieces'))::bigint
"""


_FIGURE_COLUMNS = (TableColumn("", whole=True), TableColumn("", right=True, whole=True), TableColumn("", whole=True))


class SessionTotals(NamedTuple):
    """The sums over the sessions of a tenant."""

    statuses: Counter[str]
    sums: dict[str, int]
    largest: list[holdfast.types.SessionRow]


class LedgerTotals(NamedTuple):
    """The number of ledgers of a tenant by kind, and of all facts ever asserted in them."""

    kinds: Counter[str]
    facts: int


@click.command()
@click.option(
    "--top", type=click.IntRange(0), default=5, show_default=True, help="The number of largest sessions to show."
)
@click.option("--gateway", is_flag=True, help="Show what the calls through gateways cost, and would have cost.")
@date_option("--since", "Only calls of this time or later; needs --gateway.")
@common_options
@click.pass_obj
def stats(settings: Settings, top: int, gateway: bool, since: datetime | None) -> None:
    """Show counts, sizes and token usage."""
    if gateway:
        if not settings.has_file:
            settings.file = default_store()
        show_gateway_stats(settings, 0 if since is None else int(since.timestamp() * 1_000_000), top)
        return
    if since is not None:
        raise click.UsageError("--since needs --gateway.")
    with settings.open() as engine:
        whole = _read_totals(settings, engine)
        sums = _sum_sessions(engine, settings.actor, top)
        suspended = sum(1 for _ in iterate_suspended(engine, settings.actor))
        ledgers = _sum_ledgers(engine, settings.actor)
    if settings.json:
        print_json(
            {
                "file": documents.to_plain(whole),
                "tenant": settings.tenant,
                "actor": settings.actor,
                "sessions": {status: sums.statuses[status] for status in ("open", "closed", "destroyed")},
                **sums.sums,
                "suspended": suspended,
                "ledgers": {kind: ledgers.kinds[kind] for kind in LEDGER_KINDS},
                "facts": ledgers.facts,
                "largest": [documents.session_row(row) for row in sums.largest],
            }
        )
        return
    print_line(StyledText(escape(settings.display_address), "bold"))
    if whole is None:
        print_line("Only the role that owns the tables can see the totals.")
    else:
        total, blobs = format_size(whole["bytes_on_disk"] + whole["blob_bytes"]), f"{whole['blobs']:,}"
        lines = [
            ("on disk", total, f"blobs {format_size(whole['blob_bytes'])} in {blobs}"),
            ("events", f"{whole['events']:,}", f"in {whole['streams']:,} streams, {whole['keys']:,} with a key"),
        ]
        if whole["entries"]:
            size = f"{format_size(whole['entry_bytes'])} before chunks are shared"
            lines.append(("entries", f"{whole['entries']:,}", size))
        print_table(_FIGURE_COLUMNS, lines)
    _print_tenant(settings, sums, suspended, ledgers)


def _sum_ledgers(engine: holdfast.Engine, actor: str | None) -> LedgerTotals:
    kinds: Counter[str] = Counter()
    facts = 0
    for row in ledger_rows(engine):
        if belongs_to_actor(row, actor):
            kinds[row.kind] += 1
            facts += row.facts
    return LedgerTotals(kinds, facts)


def _read_totals(settings: Settings, engine: holdfast.Engine) -> dict[str, int] | None:
    """Read the totals of all tenants; None for a role that sees one tenant at a time."""
    try:
        totals: dict[str, int] = documents.to_plain(engine.admin.totals())
    except errors.RoleTooNarrow:
        return None
    if not settings.is_on_server:
        blobs, blob_bytes = measure_blob_folder(settings.path + BLOB_FOLDER)
        return {**totals, "blobs": blobs, "blob_bytes": blob_bytes}
    blobs, blob_bytes = _read_server_blobs(engine.store)
    return {**totals, "bytes_on_disk": totals["bytes_on_disk"] - blob_bytes, "blobs": blobs, "blob_bytes": blob_bytes}


def _read_server_blobs(store: EventStore) -> tuple[int, int]:
    """Count the blobs on a server, and their bytes: its tables contain them."""
    from holdfast.storage.postgres.log import Operation, Query  # noqa: PLC0415 - an extra
    from holdfast.storage.postgres.store import PostgresStore  # noqa: PLC0415 - the same

    def query(_: bool) -> Operation[list[tuple[Any, ...]]]:
        return (yield Query(None, _SERVER_BLOBS_SQL, is_long=True))

    assert isinstance(store, PostgresStore), "the address of a server always opens a PostgresStore"
    ((blobs, blob_bytes),) = store.run(query)
    return blobs, blob_bytes


def _print_tenant(settings: Settings, sums: SessionTotals, suspended: int, ledgers: LedgerTotals) -> None:
    totals = sums.sums
    actor = f", actor {settings.actor}" if settings.actor else ""
    print_line("")
    print_line(StyledText(escape(f"tenant {settings.tenant}{actor}"), "bold"))
    parts = _format_counts(sums.statuses)
    cached = totals["cache_read_tokens"]
    lines: list[tuple[str, str, str]] = [
        ("sessions", f"{sums.statuses.total():,}", parts),
        ("messages", f"{totals['messages']:,}", ""),
        ("tokens", f"{totals['tokens']:,}", "in messages"),
        (
            "models read",
            f"{totals['input_tokens']:,}",
            f"tokens, {_format_share(cached, totals['input_tokens'])} from a cache",
        ),
        ("models wrote", f"{totals['output_tokens']:,}", "tokens"),
    ]
    if totals["open_calls"]:
        lines.append(("open calls", f"{totals['open_calls']:,}", "without a result"))
    if suspended:
        lines.append(("suspended", f"{suspended:,}", "frames that wait for a token"))
    if ledgers.kinds:
        lines.append(("ledgers", f"{ledgers.kinds.total():,}", _format_counts(ledgers.kinds)))
        lines.append(("facts", f"{ledgers.facts:,}", "asserted in all"))
    print_table(_FIGURE_COLUMNS, lines)
    if sums.largest and sums.largest[0].tokens:
        print_line("")
        most = sums.largest[0].tokens
        columns = (
            TableColumn("LARGEST"),
            TableColumn("ACTOR"),
            TableColumn("TOKENS", True, True),
            TableColumn("MESSAGES", True, True),
        )
        print_table(
            (*columns, TableColumn("", whole=True)),
            [
                (
                    escape(row.session),
                    escape(row.actor),
                    f"{row.tokens:,}",
                    f"{row.messages:,}",
                    draw_bar(row.tokens / most),
                )
                for row in sums.largest
            ],
        )


def _sum_sessions(engine: holdfast.Engine, actor: str | None, top: int) -> SessionTotals:
    statuses: Counter[str] = Counter()
    sums = dict.fromkeys(_SUMMED_FIELDS, 0)
    largest: list[tuple[int, int, Any]] = []
    rows = itertools.chain(
        iterate_sessions(engine, actor=actor), iterate_sessions(engine, actor=actor, status="destroyed")
    )
    for number, row in enumerate(rows):
        statuses[row.status] += 1
        for name in _SUMMED_FIELDS:
            sums[name] += getattr(row, name)
        heapq.heappush(largest, (row.tokens, -number, row))
        if len(largest) > top:
            heapq.heappop(largest)
    return SessionTotals(statuses, sums, [row for _, _, row in sorted(largest, reverse=True)])


def _format_counts(counts: Counter[str]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in sorted(counts.items()))


def _format_share(part: int, whole: int) -> str:
    return f"{part / whole:.0%}" if whole else "0%"


def measure_blob_folder(folder: str) -> tuple[int, int]:
    """Count the bodies in a blob folder, and their bytes."""
    bodies = total = 0
    for directory, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".zst"):
                bodies += 1
                total += _file_size(os.path.join(directory, name))
    return bodies, total


def _file_size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except FileNotFoundError:  # removed by a collection meanwhile
        return 0
