"""`holdfast fork`, `forks`, `compare` and `merge`: branches of a conversation."""

from __future__ import annotations

import click

import holdfast
from holdfast.cli import documents
from holdfast.cli.options import (
    open_conversation,
    policy_option,
    principal_option,
    session_argument,
    thread_option,
)
from holdfast.cli.output import (
    StyledText,
    TableColumn,
    escape,
    format_count,
    format_local_time,
    json_text,
    print_json,
    print_line,
    print_table,
    shorten,
)
from holdfast.cli.sessions import print_message
from holdfast.cli.settings import Settings, common_options

_VALUE_CHARS = 60

_FORK_COLUMNS = (
    TableColumn("SESSION"),
    TableColumn("FROM"),
    TableColumn("AFTER", right=True, whole=True),
    TableColumn("EVENTS", right=True, whole=True),
    TableColumn("STATUS", whole=True),
)
_FACT_COLUMNS = (TableColumn("KEY"), TableColumn("SESSION"), TableColumn("OTHER"))
_MERGE_COLUMNS = (
    TableColumn("KEY"),
    TableColumn("CHANGE", whole=True),
    TableColumn("VALUE"),
    TableColumn("OUTCOME", whole=True),
    TableColumn("WHY"),
)


@click.command()
@session_argument
@click.option(
    "--at", type=click.IntRange(1), metavar="EVENT", help="The last event that both share.  [default: the newest]"
)
@click.option("--as", "name", metavar="NAME", help="The name of the new session.  [default: made from the old name]")
@thread_option
@principal_option
@common_options
@click.pass_obj
def fork(
    settings: Settings, /, session: str, at: int | None, name: str | None, thread: str | None, principal: str
) -> None:
    """Begin a session that shares a conversation up to an event.

    Nothing is copied. `holdfast sessions show` lists messages with the numbers of their events.
    """
    with settings.open(principal=principal) as engine:
        branch: holdfast.Session = open_conversation(settings, engine, session, thread, None).fork(at, as_=name)
        state, scope = branch.state(), branch.scope
    if settings.json:
        print_json(documents.session_state(scope, state))
        return
    assert state.origin is not None, "a fork has an origin"
    print_line(escape(f"{scope.session} continues {session} after event {state.origin.cut}."))


@click.command()
@session_argument
@thread_option
@common_options
@click.pass_obj
def forks(settings: Settings, /, session: str, thread: str | None) -> None:
    """List the forks of a session, and the forks of its forks."""
    with settings.open() as engine:
        rows: tuple[holdfast.types.SessionRow, ...] = open_conversation(settings, engine, session, thread, None).forks()
    if settings.json:
        for row in rows:
            print_json(documents.session_row(row))
        return
    if rows:
        print_table(_FORK_COLUMNS, map(_fork_cells, rows))
    print_line(StyledText(f"{format_count(len(rows), 'fork')} of {escape(session)}", "dim"), error=True)


def _fork_cells(row: holdfast.types.SessionRow) -> list[str | StyledText]:
    parent = documents.parent_session(row) or ""
    return [escape(row.session), escape(parent), f"{row.cut:,}", f"{row.version - row.cut:,}", row.status]


@click.command()
@session_argument
@click.argument("other")
@thread_option
@click.option("--full", is_flag=True, help="Print long texts in full.")
@common_options
@click.pass_obj
def compare(settings: Settings, /, session: str, other: str, thread: str | None, full: bool) -> None:
    """List the messages and facts that only one of two sessions has."""
    with settings.open() as engine:
        one = open_conversation(settings, engine, session, thread, None)
        diff: holdfast.types.SessionDiff = one.diff(open_conversation(settings, engine, other, thread, None))
    if settings.json:
        print_json(documents.session_diff(diff))
        return
    print_line(f"Both share the first {format_count(diff.shared, 'event')}." if diff.shared else "They share no event.")
    for name, messages in ((session, diff.ours), (other, diff.theirs)):
        print_line("")
        print_line(StyledText(f"Only in {escape(name)}: {format_count(len(messages), 'message')}", "bold"))
        for message in messages:
            print_message(message, format_local_time(message.time_us), full=full)
    if not diff.is_complete:
        print_line(StyledText("Of each, the newest messages are shown.", "dim"), error=True)
    if diff.facts:
        print_line("")
        print_table(_FACT_COLUMNS, ([escape(each.key), _value(each.ours), _value(each.theirs)] for each in diff.facts))


def _value(fact: holdfast.Fact | None) -> str:
    return "none" if fact is None else shorten(json_text(fact.value), _VALUE_CHARS)


@click.command()
@click.argument("branch")
@click.option("--into", required=True, metavar="SESSION", help="The session that gets the facts.")
@click.option("--apply", is_flag=True, help="Set the facts at once, instead of proposing them.")
@thread_option
@principal_option
@policy_option
@common_options
@click.pass_obj
def merge(
    settings: Settings,
    /,
    branch: str,
    into: str,
    apply: bool,
    thread: str | None,
    principal: str,
    policy: holdfast.Policy | None,
) -> None:
    """Propose the facts that a branch changed in another session.

    `holdfast facts proposals SESSION` lists them, `facts accept` and `facts decline` decide.
    """
    with settings.open(principal=principal, policy=policy) as engine:
        target = open_conversation(settings, engine, into, thread, None)
        merged = open_conversation(settings, engine, branch, thread, None).facts.merge(target, apply=apply)
    if settings.json:
        for each in merged:
            print_json(documents.to_plain(each))
        return
    if merged:
        print_table(_MERGE_COLUMNS, map(_merge_cells, merged))
    print_line(StyledText(f"{format_count(len(merged), 'change')} of {escape(branch)}", "dim"), error=True)


def _merge_cells(each: holdfast.types.ObservedProposal) -> list[str | StyledText]:
    proposal = each.proposal
    value = "" if proposal.value is None else shorten(json_text(proposal.value), _VALUE_CHARS)
    outcome = f"proposed as {each.id}" if each.outcome == "asked" else each.outcome
    return [escape(proposal.key), proposal.change, value, outcome, escape(each.why)]
