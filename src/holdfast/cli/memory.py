"""`holdfast memory`: search the memory of a user, show what is known of them, forget, and see what waits for delivery.

Laws: the caller always names the user, so that no memory of another one is shown; nothing is forgotten without a
confirmation, or --yes. The commands work on the memory in the store, not on a memory of your own engine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar

import click

import holdfast
from holdfast import errors
from holdfast.cli import documents
from holdfast.cli.facts import format_value
from holdfast.cli.options import date_option, limit_option, principal_option, thread_option
from holdfast.cli.output import (
    ROLE_STYLES,
    StyledText,
    TableColumn,
    escape,
    format_age,
    format_count,
    format_duration,
    format_local_time,
    format_size,
    print_json,
    print_line,
    print_more,
    print_table,
    shorten,
)
from holdfast.cli.settings import Settings, common_options, complete_session_names, iterate_sessions
from holdfast.model import limits
from holdfast.types import Delivery, RecalledPassage, Scope

F = TypeVar("F", bound=Callable[..., Any])
TEXT_CHARS = 400
NAME_CHARS = 40
FOUND_RESIDUE = 1
"""The exit code if something of the subject is left."""
_PASSAGE_COLUMNS = (
    TableColumn("SCORE", right=True, whole=True),
    TableColumn("TIME", whole=True),
    TableColumn("SESSION"),
    TableColumn("SPEAKER"),
    TableColumn("TEXT", below=True),
    TableColumn("WHY", below=True),
)
_KNOWN_COLUMNS = (
    TableColumn("KEY"),
    TableColumn("VALUE"),
    TableColumn("AUTHORITY", whole=True),
    TableColumn("SINCE", whole=True),
)
_BACKLOG_COLUMNS = (
    TableColumn("SESSION"),
    TableColumn("ACTOR"),
    TableColumn("THREAD"),
    TableColumn("ENTRY", right=True, whole=True),
    TableColumn("WHY"),
    TableColumn("ENDED", whole=True),
    TableColumn("TRIES", right=True, whole=True),
    TableColumn("STATE", whole=True),
    TableColumn("ERROR", below=True),
)


def _budget_option(default: int) -> Callable[[F], F]:
    return click.option(
        "--budget",
        type=click.IntRange(1, limits.RECALL_TOKENS),
        default=default,
        show_default=True,
        metavar="TOKENS",
        help="The most tokens of the answer.",
    )


@click.group()
def memory() -> None:
    """Search long-term memory, show it, forget, and see what waits."""


@memory.command()
@click.argument("query")
@click.option("--user", metavar="NAME", required=True, help="The user whose memory is searched.")
@_budget_option(1_000)
@click.option(
    "--session",
    "sessions",
    metavar="NAME",
    multiple=True,
    shell_complete=complete_session_names,
    help="Only this session; may be repeated.",
)
@date_option("--since", "Only passages of this day or later.")
@date_option("--until", "Only passages of this day or earlier.")
@common_options
@click.pass_obj
def search(
    settings: Settings,
    query: str,
    user: str,
    budget: int,
    sessions: Sequence[str],
    since: datetime | None,
    until: datetime | None,
) -> None:
    """List what the memory of a user has for QUERY, best first.

    The passages are as they were said. Packs show them without superseded values.
    """
    with settings.open() as engine:
        answer = engine.memory.recall(
            query, user=user, budget=budget, sessions=list(sessions), since=since, until=until
        )
        waiting = 0 if answer.passages else len(engine.memory.backlog().waiting)
    if settings.json:
        print_json(documents.to_plain(answer))
        return
    _print_failure(answer.error)
    if not answer.passages:
        print_line(escape(f"The memory of the user {user!r} has nothing for this query."))
        _print_waiting(waiting)
        return
    _print_passages(answer.passages)
    if answer.left_out:
        print_line(
            StyledText(f"… {answer.left_out:,} more did not fit. A larger --budget shows more.", "dim"), error=True
        )


def _print_waiting(count: int) -> None:
    """Say that memory may be empty because no worker ran."""
    if count:
        waits = "conversation waits" if count == 1 else "conversations wait"
        print_line(
            StyledText(f"{count:,} {waits} for long-term memory: `holdfast worker` delivers.", "dim"), error=True
        )


def _print_failure(error: str) -> None:
    if error:
        print_line(StyledText("Not everything could be searched: ", "bold yellow"), escape(error), error=True)


def _print_passages(passages: Sequence[RecalledPassage]) -> None:
    print_table(_PASSAGE_COLUMNS, map(_passage_cells, passages))


def _passage_cells(passage: RecalledPassage) -> list[str | StyledText]:
    speaker = "situation" if passage.kind == "situation" else passage.speaker or passage.role
    return [
        f"{passage.score:.2f}" if passage.score else "",
        "" if passage.time_us is None else format_local_time(passage.time_us),
        StyledText(shorten(passage.session, NAME_CHARS), "bold"),
        StyledText(shorten(speaker, NAME_CHARS), ROLE_STYLES.get(passage.role, "")),
        shorten(passage.text, TEXT_CHARS),
        StyledText(shorten(passage.reason, TEXT_CHARS), "dim"),
    ]


@memory.command()
@click.argument("user")
@_budget_option(2_000)
@common_options
@click.pass_obj
def known(settings: Settings, user: str, budget: int) -> None:
    """Show what is known of USER: facts, outcomes, and last words.

    A session of this user that has a memory starts with it.
    """
    with settings.open() as engine:
        knowledge = engine.memory.bootstrap(user=user, budget=budget)
        totals = engine.memory.totals(user=user)
        waiting = 0 if totals.passages else len(engine.memory.backlog().waiting)
    if settings.json:
        print_json({**documents.to_plain(knowledge), "totals": documents.to_plain(totals)})
        return
    _print_failure(knowledge.error)
    now_us = time.time_ns() // 1_000
    if knowledge.facts:
        print_table(
            _KNOWN_COLUMNS,
            (
                [
                    StyledText(shorten(fact.key, NAME_CHARS), "bold"),
                    format_value(fact.value),
                    escape(fact.authority),
                    format_age(fact.valid_from_us, now_us),
                ]
                for fact in knowledge.facts
            ),
        )
        print_line("")
    if knowledge.passages:
        _print_passages(knowledge.passages)
        print_line("")
    print_line(_describe_totals(user, knowledge, totals, now_us))
    _print_waiting(waiting)


def _describe_totals(
    user: str,
    knowledge: holdfast.types.UserKnowledge,
    totals: holdfast.types.PassageTotals,
    now_us: int,
) -> str:
    name = escape(repr(user))
    if not knowledge.facts and not totals.passages:
        return f"Nothing is known of the user {name}."
    shown = f"{format_count(len(knowledge.facts), 'fact')} shown"
    if totals.oldest_us is None or totals.newest_us is None:
        return f"The user {name}: {shown}, no passages."
    return (
        f"The user {name}: {shown}; memory has {format_count(totals.passages, 'passage')} of "
        f"{format_count(totals.sessions, 'session')}, {format_size(totals.text_bytes)}, "
        f"from {format_age(totals.oldest_us, now_us)} to {format_age(totals.newest_us, now_us)}."
    )


@memory.command()
@click.option("--user", metavar="NAME", help="Forget everything of this user.")
@click.option(
    "--session", metavar="NAME", shell_complete=complete_session_names, help="Forget everything of this session."
)
@thread_option
@click.option("--yes", is_flag=True, help="Do not ask for a confirmation.")
@principal_option
@common_options
@click.pass_obj
def forget(
    settings: Settings, user: str | None, session: str | None, thread: str | None, yes: bool, principal: str
) -> None:
    """Remove a user or a session from long-term memory.

    Passages, their index and their vectors are removed, and what waits is not delivered. Facts and sessions stay.
    """
    if (user is None) == (session is None):
        raise click.UsageError("Name what to forget: --user or --session.")
    if thread is not None and session is None:
        raise click.UsageError("--thread needs --session.")
    with settings.open(principal=principal) as engine:
        scope = None if session is None else _find_scope(settings, engine, session, thread)
        if not yes:
            click.confirm(_describe_subject(engine, user, scope), abort=True, err=True)
        report = engine.memory.forget(user=user, session=scope)
    if settings.json:
        print_json(documents.to_plain(report))
    else:
        style = "bold red" if report.residue else "green"
        print_line(
            f"{format_count(report.passages, 'passage')} removed, ", StyledText(f"{report.residue:,} left", style), "."
        )
    if report.residue:
        raise click.exceptions.Exit(FOUND_RESIDUE)


def _describe_subject(engine: holdfast.Engine, user: str | None, scope: Scope | None) -> str:
    if user is None:
        assert scope is not None, "either is named"
        return escape(f"Forget everything of the session {scope.session!r} of the actor {scope.actor!r}?")
    totals = engine.memory.totals(user=user)
    amount = f"{format_count(totals.passages, 'passage')} of {format_count(totals.sessions, 'session')}"
    return escape(f"Forget everything of the user {user!r}: {amount}?")


def _find_scope(settings: Settings, engine: holdfast.Engine, name: str, thread: str | None) -> Scope:
    """The session of this name, also if it is destroyed: memory may have taken its words before."""
    try:
        return settings.find_session(engine, name, thread).scope
    except errors.SessionNotFound:
        destroyed = iterate_sessions(engine, actor=settings.actor, status="destroyed")
        rows = [row for row in destroyed if row.session == name and thread in (None, row.thread)]
        if len(rows) != 1:
            raise
        return Scope(rows[0].tenant, rows[0].actor, rows[0].session, rows[0].thread or None)


@memory.command()
@click.option("--requeue", is_flag=True, help="Make all entries due at once that failed or were set aside.")
@limit_option(50)
@common_options
@click.pass_obj
def backlog(settings: Settings, requeue: bool, limit: int) -> None:
    """List the conversations that wait for long-term memory.

    Those that failed too often are set aside, and come first: no worker takes them until they are requeued.
    """
    with settings.open() as engine:
        entries = _read_backlog(settings, engine)
        failed = [entry for entry in entries if entry.is_set_aside or entry.error] if requeue else []
        for entry in failed:
            engine.memory.requeue(entry)
        entries = _read_backlog(settings, engine) if failed else entries
    shown = entries[: limit or None]
    if settings.json:
        for entry in shown:
            print_json(documents.delivery(entry))
        return
    now_us = time.time_ns() // 1_000
    if requeue:
        print_line(f"{format_count(len(failed), 'entry', 'entries')} requeued.")
    if not shown:
        print_line("Nothing waits for long-term memory.")
        return
    print_table(_BACKLOG_COLUMNS, (_backlog_cells(entry, now_us) for entry in shown))
    if len(entries) > len(shown):
        print_more(f"and {format_count(len(entries) - len(shown), 'more entry', 'more entries')}")


def _read_backlog(settings: Settings, engine: holdfast.Engine) -> list[Delivery]:
    waiting = engine.memory.backlog()
    entries = (*waiting.set_aside, *waiting.waiting)
    return [entry for entry in entries if settings.actor in (None, entry.offload.scope.actor)]


def _backlog_cells(entry: Delivery, now_us: int) -> list[str | StyledText]:
    offload = entry.offload
    return [
        StyledText(shorten(offload.scope.session, NAME_CHARS), "bold"),
        shorten(offload.scope.actor, NAME_CHARS),
        shorten(offload.scope.thread or "", NAME_CHARS),
        f"{offload.entry:,}",
        shorten(offload.why, NAME_CHARS),
        format_age(offload.at_us, now_us),
        f"{entry.attempts:,}",
        StyledText(_describe_state(entry, now_us), "bold red" if entry.is_set_aside else ""),
        escape(entry.error),
    ]


def _describe_state(entry: Delivery, now_us: int) -> str:
    if entry.is_set_aside:
        return "set aside"
    if entry.until_us > now_us:
        return "in work"
    return "due" if entry.next_us <= now_us else f"again in {format_duration((entry.next_us - now_us) / 1e6)}"
