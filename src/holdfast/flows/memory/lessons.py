"""Facts that are learned from ended conversations.

Laws:
- Only a message of the user teaches, in its own words: what a tool or the assistant said never becomes a user's fact, also
  if the user agreed to it. Messages in frames teach nothing: often an agent wrote them.
- Only what is certain is applied; nothing is proposed, and nobody is asked.
- A fact is written to the user's ledger, with the authority that the speaker had, and with the message as its origin.
- Old news changes nothing: a fact that was asserted, or became valid, or ended after the message was said stays as it is.
- A message teaches once, whenever and however often it is looked at. One that is erased meanwhile teaches nothing.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from holdfast import codec
from holdfast.core import upcast
from holdfast.core.facts.proposals import proposal_id
from holdfast.errors import MemoryFailed, VersionConflict
from holdfast.flows import effects
from holdfast.flows.context import (
    EngineContext,
    LedgerContext,
    SessionContext,
    build_ledger_request,
    execute_commands,
)
from holdfast.flows.effects import Flow
from holdfast.flows.facts.lookup import read_facts, read_visible, slot_where
from holdfast.flows.facts.observation import build_command, find_user_ledger, judge_message
from holdfast.flows.load import load_ledger_state, load_session_state
from holdfast.flows.memory.histories import read_history_pages
from holdfast.flows.memory.identities import IdentityTimeline, read_identities
from holdfast.flows.sessions.model_uses import take_answer
from holdfast.model import limits
from holdfast.model.facts.commands import AssertFact, LedgerCommand
from holdfast.model.facts.detection import Observation, Proposal, Utterance
from holdfast.model.facts.events import FactAsserted, FactsProposed, ProposalDecided
from holdfast.model.facts.fact import Fact, fact_seq
from holdfast.model.facts.outcomes import ObservedProposal
from holdfast.model.log import StoredEvent
from holdfast.model.names import LedgerId
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.messages import Message, Offload
from holdfast.model.state import SessionState
from holdfast.ports import Extractor
from holdfast.text.lines import one_line
from holdfast.text.values import value_text

LEARNED = "learned"
"""How the idempotency key of a learned change begins. The time of its message follows: that is how old the news is."""


class _Lesson(msgspec.Struct, frozen=True):
    """A message of the user that may teach something, with the messages before it."""

    offload: Offload
    utterance: Utterance
    message: str
    """The id of the message."""
    previous: tuple[Utterance, ...]

    @property
    def key(self) -> str:
        return f"{LEARNED}:{self.utterance.time_us}:{self.offload.key}:{self.utterance.seq}"


def learn(
    engine: EngineContext,
    offload: Offload,
    *,
    by_rules: bool = False,
    keep: Callable[[], Flow[None]] | None = None,
) -> Flow[int]:
    """Learn the facts that the user stated in an ended conversation: how many are new. `by_rules` leaves the extractor
    out, as if there were none. `keep` runs before each message, and may stop it by an error."""
    context = SessionContext(engine, offload.scope)
    state = yield from load_session_state(offload.scope.stream, engine.cache, fresh=True)
    ledger = find_user_ledger(context, state)
    if ledger is None:
        return 0
    extractor = None if by_rules else engine.extractor
    identities = yield from read_identities(offload.scope.stream, offload.last)
    observed = yield from _find_observed(offload)
    previous: deque[Utterance] = deque(maxlen=limits.DETECTED_BEFORE)
    learned, after = 0, 0
    while page := (yield from read_history_pages(engine, offload, after)):
        after = page[-1].seq
        for message in page:
            if not _is_spoken(message):
                continue
            utterance = Utterance(message.text, message.role or "user", message.seq, message.time_us)
            speaker = identities.find(message.seq)
            if message.role == "user" and message.seq not in observed and _may_teach(ledger, speaker, identities):
                lesson = _Lesson(offload, utterance, message.id, tuple(previous))
                then = msgspec.structs.replace(state, identity=speaker)
                if keep is not None:
                    yield from keep()
                learned += yield from _learn_message(context, then, lesson, ledger, extractor)
            previous.append(utterance)
    return learned


def _is_spoken(message: Message) -> bool:
    """Whether a message is in the conversation outside of frames: neither erased nor withdrawn, and no evidence."""
    return bool(message.role) and not message.withdrawn and not message.late and message.frame is None


def _may_teach(ledger: LedgerId, speaker: Identity | None, identities: IdentityTimeline) -> bool:
    """Whether a ledger is that of the speaker. A session that went over to another user still reads the ledger of the
    first one. An identity that was erased teaches nothing."""
    if speaker is None:
        return False
    name = _name_of(speaker)
    first = identities.first
    return name in ledger.names or (first is not None and name == _name_of(first))


def _name_of(identity: Identity) -> str:
    return identity.user_id or identity.user_name


def _find_observed(offload: Offload) -> Flow[set[int]]:
    """The messages that a detector has read, and whose proposals were applied or decided.

    What the rules only asked, and nobody decided until the conversation ended, is read again: else a program that
    observes messages would remember less than one that only records them. The proposals of another detector wait for
    the program that chose it."""
    from holdfast.text.detect.detector import RuleDetector  # noqa: PLC0415 - loaded only when it is used

    observed: set[int] = set()
    decided: set[str] = set()
    before: int | None = None
    kinds = (FactsProposed.name, ProposalDecided.name)
    while page := (yield from effects.read_back(offload.scope.stream, before, limits.READ_EVENTS, kinds)):
        before = page[-1].seq
        for stored in page:  # the newest first: a decision comes before its proposal
            event = upcast.decode_event(stored)
            if isinstance(event, ProposalDecided):
                decided.add(event.proposal)
            elif isinstance(event, FactsProposed) and not _is_merge(event):
                waiting = {proposal_id(stored.seq, at) for at in range(len(event.proposals))}
                took_effect = any(each.outcome in ("applied", "claimed") for each in event.settled)
                if event.detector != RuleDetector.name or took_effect or waiting & decided:
                    observed.add(event.message)
        if before <= offload.first:  # a proposal comes after its message
            break
    return observed


def _is_merge(event: FactsProposed) -> bool:
    proposals = (*(one for _, one in event.proposals), *(each.proposal for each in event.settled))
    return any(each.origin for each in proposals)


def _learn_message(
    context: SessionContext, state: SessionState, lesson: _Lesson, ledger: LedgerId, extractor: Extractor | None
) -> Flow[int]:
    """Apply what one message states: how many facts are new. If another process writes to the ledger meanwhile, it is
    judged again: its news may be newer."""
    conflict: VersionConflict | None = None
    for _ in range(limits.REDECIDE_TRIES):
        if (yield from effects.find(context.scope.tenant, lesson.key)):
            return 0
        head = yield from load_ledger_state(ledger.stream, context.engine.cache, fresh=True)
        propose = functools.partial(_propose, context, extractor)
        verdicts, writer = yield from judge_message(context, state, lesson.utterance, lesson.previous, propose)
        home = LedgerContext(context.engine, ledger, writer)
        commands = [
            _build_change(context, each, lesson)
            for each in verdicts
            if _is_certain(each, ledger, lesson.utterance, is_model=extractor is not None)
        ]
        commands = yield from _leave_out_old_news(home, commands, lesson.utterance.time_us)
        if not commands or (yield from _is_erased(lesson)):
            return 0
        try:
            return (yield from _apply(home, commands, lesson, head.version))
        except VersionConflict as error:
            conflict = error
    assert conflict is not None, "the loop ends with a conflict, or returns"
    raise conflict


def _is_erased(lesson: _Lesson) -> Flow[bool]:
    """Whether a message was erased while an extractor read it."""
    events = yield from effects.read_each(lesson.offload.scope.stream, [lesson.utterance.seq])
    return all(each.payload is None for each in events.values())


def _propose(
    context: SessionContext, extractor: Extractor | None, observation: Observation
) -> Flow[tuple[Proposal, ...]]:
    if extractor is not None:
        extract = functools.partial(extractor.extract, observation)
        try:
            answer: Any = yield from effects.run_outside(extract, timeout_s=limits.DELIVERY_TIMEOUT_S)
            proposals, failure = yield from take_answer(context, answer)
            found = tuple(itertools.islice(proposals, limits.PROPOSALS))
        except Exception as error:
            raise MemoryFailed(memory=extractor.name, operation="extract", reason=type(error).__name__) from error
        if failure:
            raise MemoryFailed(memory=extractor.name, operation="extract", reason="its model failed")
        return found
    return (yield from effects.run_outside(functools.partial(_detect, observation)))


def _detect(observation: Observation) -> tuple[Proposal, ...]:
    from holdfast.text.detect.detector import RuleDetector  # noqa: PLC0415 - loaded only when it is used
    from holdfast.text.detect.own_statements import find_own_statements, is_doubtful  # noqa: PLC0415 - the same

    if is_doubtful(observation.message.text):
        return ()
    own = find_own_statements(observation)
    taken = {each.new for each in own}
    return (*own, *(each for each in RuleDetector().detect(observation) if each.new is None or each.new not in taken))


def _is_certain(verdict: ObservedProposal, ledger: LedgerId, utterance: Utterance, *, is_model: bool) -> bool:
    """Whether a proposal is applied: policy says so, it is about the user's ledger, and the message itself states it."""
    proposal = verdict.proposal
    if verdict.outcome != "applied" or verdict.ledger != ledger or proposal.change == "switch":
        return False
    if proposal.value is None:
        own = [*proposal.old, *([] if proposal.new is None else [proposal.new])]
        return proposal.fact is not None and (not is_model or any(each.seq == 0 for each in own))
    if proposal.new is None or proposal.new.seq != 0:
        return False
    if isinstance(proposal.value, bool) and not is_model:
        return True  # the rules read the opposite of what was
    return _has_words(utterance.text[proposal.new.start : proposal.new.end], value_text(proposal.value))


def _has_words(text: str, value: str) -> bool:
    """Whether a value is in a text word for word, whatever its case and its spaces."""
    wanted = one_line(value).casefold()
    said = one_line(text).casefold()
    return bool(wanted) and (wanted in said or wanted in said.replace(",", ""))


def _build_change(context: SessionContext, verdict: ObservedProposal, lesson: _Lesson) -> LedgerCommand:
    command = build_command(context, verdict.ledger, verdict.proposal, lesson.utterance.seq)
    if not isinstance(command, AssertFact):
        return command
    return msgspec.structs.replace(
        command, valid_from_us=lesson.utterance.time_us, provenance=(*command.provenance, lesson.message)
    )


def _apply(home: LedgerContext, commands: Sequence[LedgerCommand], lesson: _Lesson, version: int) -> Flow[int]:
    requests = [build_ledger_request(home, each, []) for each in commands]
    done = yield from execute_commands(
        home.engine,
        requests,
        key=lesson.key,
        expect=version,
        cause=lesson.message,
        key_content=codec.encode([LEARNED, lesson.offload.key, lesson.utterance.seq]),
    )
    return 0 if done.repeated else sum(isinstance(each, FactAsserted) for each in done.decided)


# Old news


def _leave_out_old_news(
    home: LedgerContext, commands: Sequence[LedgerCommand], time_us: int
) -> Flow[list[LedgerCommand]]:
    """Without the changes of keys that have newer facts than the message."""
    current: list[LedgerCommand] = []
    for command in commands:
        facts = yield from _read_rivals(home, command)
        for fact in facts:
            if (yield from _is_newer(home.ledger, fact, time_us)):
                break
        else:
            current.append(command)
    return current


def _read_rivals(home: LedgerContext, command: LedgerCommand) -> Flow[list[Fact]]:
    """The facts that a change would supersede or end, and those of its key that ended already."""
    slots: set[tuple[str, str, str]] = set()
    rivals: dict[str, Fact] = {}
    names = command.supersedes if isinstance(command, AssertFact) else (getattr(command, "fact", ""),)
    if isinstance(command, AssertFact):
        slots.add((command.key, command.scope or "global", command.scope_id))
    for name in filter(fact_seq, names):
        for state in (yield from read_facts(home.ledger.stream, [name])).values():
            rivals[name] = state.fact
            slots.add((state.fact.key, state.fact.scope, state.fact.scope_id))
    for slot in sorted(slots):
        for live in (1, 0):
            where = slot_where(home.ledger.stream, *slot, live=live)
            states = yield from read_visible(where, home.writer.permissions, limits.SLOT_FACTS)
            rivals |= {each.fact.id: each.fact for each in states}
    return [*rivals.values()]


def _is_newer(ledger: LedgerId, fact: Fact, time_us: int) -> Flow[bool]:
    """Whether a fact was asserted, became valid, or ended after this time. What was learned is as old as its message."""
    if max(fact.at_us, fact.valid_from_us, fact.ended_us or 0) <= time_us:
        return False
    asserted = yield from _read_ledger_event(ledger, fact_seq(fact.id))
    if asserted is None or _news_time(asserted) > time_us or fact.valid_from_us > time_us:
        return True
    has_run_out = fact.status == "expired" and fact.expires_us is not None and fact.expires_us <= (fact.ended_us or 0)
    if fact.is_valid or has_run_out:
        return False
    ended = yield from _read_ledger_event(ledger, fact.ended_seq)
    return ended is None or _news_time(ended) > time_us


def _read_ledger_event(ledger: LedgerId, seq: int) -> Flow[StoredEvent | None]:
    page = yield from effects.read(ledger.stream, seq - 1, 1)
    return next((each for each in page if each.seq == seq), None)


def _news_time(event: StoredEvent) -> int:
    """When something was news: the time of the message if it was learned, else that of the event."""
    label, _, rest = (event.key or "").partition(":")
    time, _, _ = rest.partition(":")
    return int(time) if label == LEARNED and time.isdecimal() else event.time_us
