"""Proposals that wait for someone's word."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import get_args

import msgspec

from holdfast import errors
from holdfast.model import limits
from holdfast.model.commands import DecideProposal, Given, ProposeFacts
from holdfast.model.detection import Proposal, Settled, Span
from holdfast.model.events import Event, FactsProposed, ProposalDecided
from holdfast.model.names import LedgerKind, number_in
from holdfast.model.state import OpenProposal, SessionState

_KINDS = get_args(LedgerKind)


def proposal_id(seq: int, at: int) -> str:
    """A proposal is named after the event that brought it, and its place in it."""
    return f"p{seq}.{at}"


def decide(state: SessionState, command: ProposeFacts | DecideProposal, given: Given) -> tuple[Event, ...]:
    match command:
        case ProposeFacts():
            if not command.proposals and not command.settled:
                return ()
            return (
                FactsProposed(
                    detector=command.detector,
                    message=command.message or given.message,
                    proposals=command.proposals,
                    why=command.why,
                    settled=tuple(_refused(command.settled, given.refusals)),
                ),
            )
        case DecideProposal():
            find(state, command.scope.session, command.proposal)
            return (ProposalDecided(proposal=command.proposal, accepted=command.accepted),)


def _refused(settled: Iterable[Settled], refusals: list[list[str]]) -> Iterator[Settled]:
    for at, each in enumerate(settled):
        why = refusals[at] if at < len(refusals) else []
        yield msgspec.structs.replace(each, outcome="ignored", why=why[0][: limits.BRIEF_BYTES // 4]) if why else each


def find(state: SessionState, session: str, proposal: str) -> OpenProposal:
    for each in state.proposals:
        if each.id == proposal:
            return each
    raise errors.ProposalNotFound(session=session, proposal=proposal)


def folded(state: SessionState, event: FactsProposed | ProposalDecided, seq: int) -> tuple[OpenProposal, ...]:
    """Those that wait after this event; the oldest lapse."""
    if isinstance(event, ProposalDecided):
        return tuple(each for each in state.proposals if each.id != event.proposal)
    own = (_placed(ledger, each, event.message) for ledger, each in event.proposals)
    new = (OpenProposal(proposal_id(seq, at), ledger, each, event.message) for at, (ledger, each) in enumerate(own))
    return (*state.proposals, *new)[-limits.OPEN_PROPOSALS :]


def _placed(ledger: tuple[str, ...], proposal: Proposal, message: int) -> tuple[tuple[str, ...], Proposal]:
    """Spans in the message that was observed know its seq now."""

    def at(span: Span) -> Span:
        return span if span.seq else Span(message, span.start, span.end)

    new = None if proposal.new is None else at(proposal.new)
    return ledger, msgspec.structs.replace(proposal, old=tuple(at(span) for span in proposal.old), new=new)


def proposal_faults(state: SessionState, event: Event | None, erased: Collection[int]) -> Iterator[str]:
    """Why no command can have made an event about proposals."""
    if isinstance(event, ProposalDecided):
        seq = number_in("p", event.proposal.partition(".")[0])
        if seq not in erased and all(each.id != event.proposal for each in state.proposals):
            yield "what is decided was waiting"
    if isinstance(event, FactsProposed):
        if not (event.proposals or event.settled) or not 1 <= event.message <= state.version:
            yield "proposals come from a message"
        if any(each.outcome == "asked" for each in event.settled):
            yield "what is settled waits for nobody"
        for _, each in event.proposals:
            if each.fact is None and each.change in ("supersede", "retract", "expire"):
                yield "what is to be changed is named"
        for ledger, each in (*event.proposals, *((one.ledger, one.proposal) for one in event.settled)):
            if ledger[:1] != ("session",) and ledger not in state.ledgers and 1 not in erased:
                yield "a proposal is about a ledger that the session reads"
            if not ledger or ledger[0] not in _KINDS or not 0 <= each.confidence <= 1:
                yield "a proposal is about a ledger, and has a confidence from 0 to 1"
            spans = (*each.old, *(() if each.new is None else (each.new,)))
            if not all(0 <= span.start < span.end for span in spans):
                yield "a proposal is stated from one character to another"
