"""`holdfast withdraw` and `restore`: take messages out of a conversation, and undo that."""

from __future__ import annotations

import shlex

import click

import holdfast
from holdfast.cli import documents
from holdfast.cli.options import (
    frame_option,
    open_conversation,
    policy_option,
    principal_option,
    reason_option,
    session_argument,
    thread_option,
)
from holdfast.cli.output import (
    ROLE_STYLES,
    StyledText,
    TableColumn,
    escape,
    format_count,
    print_json,
    print_line,
    print_table,
    shorten,
)
from holdfast.cli.settings import Settings, common_options
from holdfast.model.history.ranges import LedgerFacts

TEXT_CHARS = 100

_MESSAGE_COLUMNS = (
    TableColumn("EVENT", right=True, whole=True),
    TableColumn("ROLE", whole=True),
    TableColumn("TOKENS", right=True, whole=True),
    TableColumn("TEXT"),
)


@click.command()
@session_argument
@click.option(
    "--after",
    type=click.IntRange(0),
    metavar="EVENT",
    help="Withdraw all messages after this event.  [default: the newest message or call group]",
)
@thread_option
@frame_option
@reason_option
@principal_option
@policy_option
@common_options
@click.pass_obj
def withdraw(
    settings: Settings,
    /,
    session: str,
    after: int | None,
    thread: str | None,
    frame: str | None,
    reason: str,
    principal: str,
    policy: holdfast.Policy | None,
) -> None:
    """Take messages out of a conversation, without erasing them.

    A call goes with all of its results. `holdfast sessions show` lists messages with the numbers of their events.
    """
    with settings.open(principal=principal, policy=policy) as engine:
        conversation = open_conversation(settings, engine, session, thread, frame)
        withdrawal: holdfast.types.Withdrawal | None = conversation.withdraw(after, reason=reason)
        scope: holdfast.types.Scope = conversation.scope
    if settings.json:
        nothing = {**documents.to_plain(scope), "seq": None, "messages": []}
        print_json(nothing if withdrawal is None else documents.withdrawal(withdrawal))
        return
    if withdrawal is None:
        print_line("There is no message to withdraw. Nothing was changed.")
        return
    _print_messages(withdrawal.messages)
    print_line(f"{format_count(len(withdrawal.messages), 'message')} withdrawn at event {withdrawal.seq}.")
    if withdrawal.grown:
        print_line("That is more than --after names: a call and its results are withdrawn together.")
    _print_facts("Stated only by them", withdrawal.facts)
    names = {"--thread": scope.thread, "--frame": withdrawal.frame}
    options = [word for option, name in names.items() if name for word in (option, name)]
    undo = shlex.join(["holdfast", "restore", scope.session, str(withdrawal.seq), *options])
    print_line(StyledText(f"{escape(undo)}  undoes it.", "dim"), error=True)


@click.command()
@session_argument
@click.argument("withdrawal", type=click.IntRange(1), metavar="EVENT")
@thread_option
@frame_option
@reason_option
@principal_option
@policy_option
@common_options
@click.pass_obj
def restore(
    settings: Settings,
    /,
    session: str,
    withdrawal: int,
    thread: str | None,
    frame: str | None,
    reason: str,
    principal: str,
    policy: holdfast.Policy | None,
) -> None:
    """Undo a withdrawal: its messages are in the conversation again.

    EVENT is the number of its event, as `holdfast withdraw` printed it. `holdfast log SESSION --type messages.withdrawn`
    lists the withdrawals of a session.
    """
    with settings.open(principal=principal, policy=policy) as engine:
        conversation = open_conversation(settings, engine, session, thread, frame)
        restoration: holdfast.types.Restoration = conversation.restore(withdrawal, reason=reason)
    if settings.json:
        print_json(documents.withdrawal(restoration))
        return
    _print_messages(restoration.messages)
    print_line(f"{format_count(len(restoration.messages), 'message')} restored at event {restoration.seq}.")
    _print_facts("As before", restoration.facts)


def _print_messages(messages: tuple[holdfast.Message, ...]) -> None:
    if messages:
        print_table(_MESSAGE_COLUMNS, map(_message_cells, messages))


def _message_cells(message: holdfast.Message) -> list[str | StyledText]:
    role = message.role or "erased"
    calls = ", ".join(call.name for call in message.tool_calls)
    results = ", ".join(result.tool_call_id for result in message.tool_results)
    texts = (message.text, calls and f"[{calls}]", results and f"[{results}]")
    return [
        f"{message.seq:,}",
        StyledText(role, ROLE_STYLES.get(role, "dim")),
        f"{message.tokens:,}",
        shorten(" ".join(filter(None, texts)), TEXT_CHARS),
    ]


def _print_facts(label: str, facts: tuple[LedgerFacts, ...]) -> None:
    for each in facts:
        kind, *names = each.ledger
        print_line(escape(f"{label}: {', '.join(each.facts)} of the ledger {kind} {'/'.join(names)}"))
