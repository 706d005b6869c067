"""Proposals of detectors that wait for a decision."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import get_args

import msgspec

from holdfast import errors
from holdfast.model import limits
from holdfast.model.events import Event
from holdfast.model.facts.commands import DecideProposal, ProposeFacts
from holdfast.model.facts.detection import MessageSpan, Proposal, SettledProposal
from holdfast.model.facts.events import FactsProposed, ProposalDecided
from holdfast.model.inputs import DecisionInput
from holdfast.model.names import LedgerKind, parse_id_number
from holdfast.model.state import OpenProposal, SessionState

_KINDS = get_args(LedgerKind)


def proposal_id(seq: int, at: int) -> str:
    """The id of a proposal: the seq of its event, and its position in it."""
    return f"p{seq}.{at}"


def decide(state: SessionState, command: ProposeFacts | DecideProposal, inputs: DecisionInput) -> tuple[Event, ...]:
    """The events of this command; none if it changes nothing. Raises ProposalNotFound."""
    match command:
        case ProposeFacts():
            if not command.proposals and not command.settled:
                return ()
            return (
                FactsProposed(
                    detector=command.detector,
                    message=command.message or inputs.message,
                    proposals=command.proposals,
                    why=command.why,
                    settled=tuple(_apply_refusals(command.settled, inputs.proposals.refusals)),
                ),
            )
        case DecideProposal():
            find_proposal(state, command.scope.session, command.proposal)
            return (ProposalDecided(proposal=command.proposal, accepted=command.accepted),)


def _apply_refusals(settled: Iterable[SettledProposal], refusals: list[list[str]]) -> Iterator[SettledProposal]:
    """Proposals whose command was refused are ignored, for the reason of the refusal."""
    for at, each in enumerate(settled):
        why = refusals[at] if at < len(refusals) else []
        yield msgspec.structs.replace(each, outcome="ignored", why=why[0][: limits.BRIEF_BYTES // 4]) if why else each


def find_proposal(state: SessionState, session: str, proposal: str) -> OpenProposal:
    """The open proposal with this id. Raises ProposalNotFound."""
    for each in state.proposals:
        if each.id == proposal:
            return each
    raise errors.ProposalNotFound(session=session, proposal=proposal)


def fold_proposals(state: SessionState, event: FactsProposed | ProposalDecided, seq: int) -> tuple[OpenProposal, ...]:
    """The open proposals after this event. Over the limit, the oldest are dropped."""
    if isinstance(event, ProposalDecided):
        return tuple(each for each in state.proposals if each.id != event.proposal)
    new = (
        OpenProposal(proposal_id(seq, at), ledger, _complete_spans(each, event.message), event.message)
        for at, (ledger, each) in enumerate(event.proposals)
    )
    return (*state.proposals, *new)[-limits.OPEN_PROPOSALS :]


def _complete_spans(proposal: Proposal, message: int) -> Proposal:
    """Set the seq of the observed message in the spans without one."""

    def complete(span: MessageSpan) -> MessageSpan:
        return span if span.seq else MessageSpan(message, span.start, span.end)

    new = None if proposal.new is None else complete(proposal.new)
    return msgspec.structs.replace(proposal, old=tuple(map(complete, proposal.old)), new=new)


def proposal_faults(state: SessionState, event: Event | None, erased: Collection[int]) -> Iterator[str]:
    """Why no command can have produced an event about proposals: the rules that it breaks."""
    if isinstance(event, ProposalDecided):
        seq = parse_id_number("p", event.proposal.partition(".")[0])
        if seq not in erased and all(each.id != event.proposal for each in state.proposals):
            yield "a decided proposal was open"
    if isinstance(event, FactsProposed):
        if not (event.proposals or event.settled) or not 1 <= event.message <= state.version:
            yield "proposals come from a message"
        if any(each.outcome == "asked" for each in event.settled):
            yield "a settled proposal does not wait"
        for _, each in event.proposals:
            if each.fact is None and each.change in ("supersede", "retract", "expire"):
                yield "a change names its fact"
        for ledger, each in (*event.proposals, *((one.ledger, one.proposal) for one in event.settled)):
            if ledger[:1] != ("session",) and ledger not in state.ledgers and 1 not in erased:
                yield "a proposal is about a ledger that the session reads"
            if not ledger or ledger[0] not in _KINDS or not 0 <= each.confidence <= 1:
                yield "a proposal is about a ledger, and has a confidence from 0 to 1"
            spans = (*each.old, *(() if each.new is None else (each.new,)))
            if not all(0 <= span.start < span.end for span in spans):
                yield "a span is a range of characters"
