"""Compare two sessions, and merge the facts of one into the other.

The two may be read through different stores: one of them may be an ephemeral fork. So each side is read by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from holdfast import chain, codec
from holdfast.core.facts.authority import may_know, outranks
from holdfast.core.sessions.forks import SharedStretch, find_shared, stretches_of
from holdfast.errors import InvalidArgument
from holdfast.flows import effects
from holdfast.flows.context import LedgerContext, SessionContext, build_ledger_request, execute_commands, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.execute import CommandRequest
from holdfast.flows.facts.changes import writer_for
from holdfast.flows.facts.lookup import ledger_where, state_of
from holdfast.flows.facts.observation import build_command, build_proposals_part, build_verdicts
from holdfast.flows.facts.queries import own_ledger
from holdfast.flows.lineage import read_origin
from holdfast.flows.sessions.messages import messages
from holdfast.model import limits
from holdfast.model.facts.commands import AssertFact, LedgerCommand
from holdfast.model.facts.detection import Proposal
from holdfast.model.facts.events import MERGE
from holdfast.model.facts.fact import Fact, FactScope, fact_seq
from holdfast.model.facts.outcomes import ObservedProposal
from holdfast.model.inputs import FactWriter
from holdfast.model.names import LedgerId, StreamId, check_flag, check_name, check_size
from holdfast.model.rows import FactRow
from holdfast.model.sessions.diffs import FactDifference, SessionDiff
from holdfast.model.sessions.messages import Message
from holdfast.model.state import OpenProposal, SessionState

_Slot: TypeAlias = tuple[str, FactScope, str]
"""The key and the scope of a fact."""


_FIRST_EVENT = 1
"""Merged facts are read in no message. Their proposals name the event that began the session: it is never withdrawn."""


class SessionSide(NamedTuple):
    """One of two sessions that are compared."""

    context: SessionContext
    stretches: list[SharedStretch]
    """Where its events are stored."""
    ledger: list[SharedStretch]
    """Where the events of its own ledger are stored."""
    facts: dict[_Slot, Fact]
    """The current facts of its own ledger that it may know."""
    ended: dict[_Slot, int]
    """For each key, the event of its own ledger that last ended a fact."""


def read_side(context: SessionContext) -> Flow[SessionSide]:
    """What a comparison needs of a session."""
    state = yield from load_session(context)
    ledger = own_ledger(context.scope).stream
    facts, ended = yield from _read_facts(context, state, ledger)
    head = yield from effects.head(ledger)
    origin = None if head is None else (yield from read_origin(ledger))
    return SessionSide(
        context=context,
        stretches=stretches_of(state.origin, context.scope.stream, state.version),
        ledger=stretches_of(origin, ledger, 0 if head is None else head.version),
        facts=facts,
        ended=ended,
    )


def _read_facts(
    context: SessionContext, state: SessionState, ledger: StreamId
) -> Flow[tuple[dict[_Slot, Fact], dict[_Slot, int]]]:
    facts: dict[_Slot, Fact] = {}
    ended: dict[_Slot, int] = {}
    permissions = writer_for(context.engine, state.identity).permissions
    now = context.engine.clock.now_us()
    last: FactRow | None = None
    while page := (yield from effects.rows(FactRow, ledger_where(ledger), last, limits.READ_EVENTS)):
        for fact in (state_of(row).fact for row in page):
            slot: _Slot = (fact.key, fact.scope, fact.scope_id)
            if not may_know(fact.requires, permissions):
                continue
            ended[slot] = max(ended.get(slot, 0), fact.ended_seq)
            if fact.is_current_at(now):
                facts[slot] = fact
        last = page[-1]
    return facts, ended


def read_later_messages(side: SessionSide, shared: int) -> Flow[list[Message]]:
    """The newest messages of one side after the last shared event, oldest first, without withdrawn ones: one more than
    DIFF_MESSAGES at most."""
    found: list[Message] = []
    before: int | None = None
    while len(found) <= limits.DIFF_MESSAGES:
        page = yield from messages(side.context, before=before, limit=limits.READ_EVENTS)
        later = [each for each in page if each.seq > shared]
        found = [*(each for each in later if not each.withdrawn), *found]
        if not page or len(later) < len(page):
            break
        before = page[0].seq
    return found[-limits.DIFF_MESSAGES - 1 :]


def find_common_end(one: SessionSide, other: SessionSide) -> int:
    """The seq of the last event that both sessions have; 0 for none."""
    return find_shared(one.stretches, other.stretches)


def build_diff(
    ours: SessionSide, theirs: SessionSide, own_messages: Sequence[Message], other_messages: Sequence[Message]
) -> SessionDiff:
    most = limits.DIFF_MESSAGES
    return SessionDiff(
        shared=find_common_end(ours, theirs),
        ours=tuple(own_messages[-most:]),
        theirs=tuple(other_messages[-most:]),
        facts=compare_facts(ours, theirs),
        is_complete=max(len(own_messages), len(other_messages)) <= most,
    )


def compare_facts(ours: SessionSide, theirs: SessionSide) -> tuple[FactDifference, ...]:
    """The keys for which the own ledgers of two sessions have different facts."""
    shared = find_shared(ours.ledger, theirs.ledger)
    return tuple(
        FactDifference(
            key=slot[0],
            scope=slot[1],
            scope_id=slot[2],
            ours=here,
            theirs=there,
            changed_here=_is_changed(ours, slot, shared),
            changed_there=_is_changed(theirs, slot, shared),
        )
        for slot in sorted({*ours.facts, *theirs.facts})
        for here, there in [(ours.facts.get(slot), theirs.facts.get(slot))]
        if here is None or there is None or here.value != there.value
    )


def _is_changed(side: SessionSide, slot: _Slot, shared: int) -> bool:
    """Whether a session changed a fact since the two parted: it has a newer one, or has ended the one of before."""
    fact = side.facts.get(slot)
    return side.ended.get(slot, 0) > shared if fact is None else fact_seq(fact.id) > shared


def merge_facts(
    context: SessionContext,
    branch: SessionSide,
    *,
    apply: bool = False,
    key: str | None = None,
    cause: str | None = None,
) -> Flow[tuple[ObservedProposal, ...]]:
    """Propose, or apply, the facts that a branch changed since it parted from this session."""
    check_flag("apply", apply)
    if context.frame is not None or branch.context.scope == context.scope:
        raise InvalidArgument(argument="into", reason="pass another session, not a frame and not the session itself")
    content = codec.encode([MERGE, branch.context.scope.stream.key, apply])
    if key is not None and (first := (yield from effects.find(context.scope.tenant, check_name("key", key)))):
        chain.answer_repeated_key(key, content, first)
        return build_verdicts(first)
    state = yield from load_session(context)
    here = yield from read_side(context)
    name = branch.context.scope.session
    changes = [each for each in compare_facts(branch, here) if each.changed_here and each.scope_id != name]
    if not apply:
        check_size("the merge", len(changes), "proposals", "OPEN_PROPOSALS", "Pass apply=True.")
    ledger, writer = own_ledger(context.scope), writer_for(context.engine, state.identity)
    verdicts = [_judge_change(each, name, ledger, state.proposals, apply=apply) for each in changes]
    requests: list[CommandRequest] = []
    refusals: list[list[str]] = []
    for each, verdict in zip(changes, verdicts, strict=True):
        if verdict.outcome != "asked":
            refusals.append([])
        if verdict.outcome == "applied":
            command = _keep_terms(context, build_command(context, ledger, verdict.proposal, 0), each.ours, writer)
            requests.append(build_ledger_request(LedgerContext(context.engine, ledger, writer), command, refusals[-1]))
    if not verdicts:
        return ()
    part = build_proposals_part(context, MERGE, _FIRST_EVENT, verdicts, refusals)
    appended = yield from execute_commands(context.engine, [*requests, part], key=key, cause=cause, key_content=content)
    return build_verdicts(appended.events)


def _judge_change(
    change: FactDifference, branch: str, ledger: LedgerId, waiting: Sequence[OpenProposal], *, apply: bool
) -> ObservedProposal:
    """The proposal of a change, and what is done with it."""
    fact, theirs = change.ours, change.theirs
    proposal = Proposal(
        change="retract" if fact is None else "assert" if theirs is None else "supersede",
        rule="explicit",
        reason=f"merged from the session {branch}",
        confidence=1.0,
        fact=None if theirs is None else theirs.id,
        key=change.key,
        value=None if fact is None else fact.value,
        scope=change.scope,
        scope_id=change.scope_id,
        origin=f"{branch}:{change.key if fact is None else fact.id}",
    )
    why = "both sessions changed it" if change.changed_there else ""
    if apply:
        return ObservedProposal(proposal=proposal, outcome="applied", ledger=ledger, why=why)
    for each in waiting:
        if each.proposal == proposal:
            why = f"it is proposed already, as {each.id}"
            return ObservedProposal(proposal=proposal, outcome="ignored", ledger=ledger, why=why)
    if fact is not None and (fact.requires or fact.expires_us is not None or fact.is_constraint):
        why = "a proposal cannot carry permissions, an expiry or a constraint: pass apply=True"
        hidden = msgspec.structs.replace(proposal, value=None)
        return ObservedProposal(proposal=hidden, outcome="ignored", ledger=ledger, why=why)
    return ObservedProposal(proposal=proposal, outcome="asked", ledger=ledger, why=why)


def _keep_terms(
    context: SessionContext, command: LedgerCommand, fact: Fact | None, writer: FactWriter
) -> LedgerCommand:
    """The command, with the authority, the permissions and the times of the fact in the branch."""
    if fact is None or not isinstance(command, AssertFact):
        return command
    can_claim = not outranks(context.engine.policy.ladder, fact.authority, writer.authority)
    return msgspec.structs.replace(
        command,
        authority=fact.authority if can_claim else None,
        memory_type=fact.memory_type,
        valid_from_us=fact.valid_from_us,
        expires_us=fact.expires_us,
        requires=fact.requires,
        is_constraint=fact.is_constraint,
        constraint_type=fact.constraint_type,
    )
