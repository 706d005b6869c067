"""`holdfast facts proposals`, `accept` and `decline`: what was seen in a conversation, and waits for someone's word."""

from __future__ import annotations

import click

import holdfast
from holdfast.cli import shapes
from holdfast.cli.facts import VALUE_CHARS, facts, said
from holdfast.cli.frames import principal_option
from holdfast.cli.ledgers import policy_option
from holdfast.cli.screen import Column, Styled, emit, say, table
from holdfast.cli.sessions import session_argument, thread_option
from holdfast.cli.settings import Settings, common
from holdfast.cli.words import clean, short

_COLUMNS = (
    Column("PROPOSAL", whole=True),
    Column("CHANGE", whole=True),
    Column("KEY"),
    Column("VALUE"),
    Column("FACT", whole=True),
    Column("SURE", right=True, whole=True),
    Column("LEDGER"),
    Column("REASON"),
)

proposal_argument = click.argument("proposal")


@facts.command()
@session_argument
@thread_option
@common
@click.pass_obj
def proposals(settings: Settings, session: str, thread: str | None) -> None:
    """List what a detector saw in a session and was not sure enough of to do it unasked."""
    with settings.open() as engine:
        found = settings.session(engine, session, thread).proposals()
    if settings.json:
        for each in found:
            emit(shapes.plain(each))
        return
    if not found:
        say(clean(f"Nothing is to be decided in the session {session!r}."))
        return
    table(_COLUMNS, (_cells(each) for each in found))


def _cells(waiting: holdfast.OpenProposal) -> list[str | Styled]:
    proposal = waiting.proposal
    kind, *names = waiting.ledger
    return [
        Styled(waiting.id, "bold"),
        proposal.change,
        short(proposal.key, VALUE_CHARS),
        "" if proposal.value is None else said(proposal.value),
        clean(proposal.fact or ""),
        f"{proposal.confidence:.0%}",
        clean(f"{kind} {'/'.join(names)}"),
        short(proposal.reason, VALUE_CHARS),
    ]


@facts.command()
@session_argument
@proposal_argument
@thread_option
@principal_option
@policy_option
@common
@click.pass_obj
def accept(
    settings: Settings,
    session: str,
    proposal: str,
    thread: str | None,
    principal: str,
    policy: holdfast.Policy | None,
) -> None:
    """Do what PROPOSAL says, with the authority of whoever speaks in the session."""
    with settings.open(principal=principal, policy=policy) as engine:
        settings.session(engine, session, thread).accept(proposal)
    _told(settings, proposal, "accepted")


@facts.command()
@session_argument
@proposal_argument
@thread_option
@principal_option
@common
@click.pass_obj
def decline(settings: Settings, session: str, proposal: str, thread: str | None, principal: str) -> None:
    """Leave things as they are."""
    with settings.open(principal=principal) as engine:
        settings.session(engine, session, thread).decline(proposal)
    _told(settings, proposal, "declined")


def _told(settings: Settings, proposal: str, decision: str) -> None:
    if settings.json:
        emit({"proposal": proposal, "decision": decision})
    else:
        say(clean(f"{proposal} {decision}."))
