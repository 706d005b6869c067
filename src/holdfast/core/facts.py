"""Facts: what a command makes happen in a ledger.

Laws: a lower authority never ends what a higher one says, it is kept as a claim; what ends takes nothing along silently,
its dependents are marked or go with it; repeating what is known changes nothing; whoever may not know of a fact is told
nothing by which he could tell that it is there.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast import errors
from holdfast.core import infer
from holdfast.core.authority import lowest, outranks, rung
from holdfast.core.fact_changes import changed, confirmed, erased
from holdfast.core.supersede import (
    By,
    below,
    check_live,
    check_wide,
    contest,
    deaths,
    end_of,
    foremost,
    lives,
    named,
    placed,
    run_out,
    same,
    slot_of,
)
from holdfast.core.validity import Validity, read_validity
from holdfast.model.commands import (
    AssertFact,
    EraseFacts,
    ExpireFacts,
    Given,
    LedgerCommand,
)
from holdfast.model.events import (
    Event,
    FactAsserted,
    FactEndorsed,
    FactSuperseded,
)
from holdfast.model.facts import (
    Fact,
    FactSource,
    fact_id,
    fact_seq,
)
from holdfast.model.state import LedgerState


def decide(state: LedgerState, command: LedgerCommand, given: Given) -> tuple[Event, ...]:
    """The events that this command makes now; none if it changes nothing. Refusals are raised."""
    match command:
        case AssertFact():
            return _assert(state, command, given)
        case ExpireFacts():
            return run_out(given.slice.due, given)
        case EraseFacts():
            return erased(command, given)
    fact = named(command.ledger, command.fact, given)
    return changed(fact, command, given)


def _assert(state: LedgerState, command: AssertFact, given: Given) -> tuple[Event, ...]:
    new = _new(command, given)
    targets = [end_of(named(command.ledger, name, given), given) for name in command.supersedes]
    targets = [each for each in {each.id: each for each in targets}.values() if lives(each, given)]
    for each in targets:
        check_wide(new.scope, new.scope_id, each)
    slot = slot_of(new.key, new.scope, new.scope_id, given)
    held = [each for each in slot if each.current_at(given.time_us)]
    if all(each in held for each in targets):
        known = _repetition(new, command, held, slot, given)
        if known is not None:
            return known
    late = _overtaken(new, command, held, given) if not targets else None
    own = fact_id(state.version + 1)
    gone = tuple(each.id for each in slot if each.ran_out(given.time_us))
    if late is not None:
        return (new, FactSuperseded(fact=own, by=late.id, rule="temporal", reason="it is older news", late=True))
    against, ended = contest(new.source.authority, [*held, *targets], slot, given)
    if against is not None:
        requires = tuple(sorted({*new.requires, *against.requires}))
        new = msgspec.structs.replace(new, against=against.id, requires=requires)
    by = By(own, new.value, new.source.authority, {*new.depends_on})
    superseded = list(deaths(by, ended, targets, command, given, gone))
    _check_apart(own, new, ended)
    lost = (*(each.id for each in ended), *gone)
    doubtful = next((each for each in lost if {*below([each], given)} & {*new.depends_on}), "")
    if doubtful and not new.review:
        new = msgspec.structs.replace(new, review=doubtful)
    return (new, *run_out(gone, given), *superseded)


def _new(command: AssertFact, given: Given) -> FactAsserted:
    """The fact, if nothing stands against it."""
    policy, writer = given.policy, given.writer
    asked = rung(policy.ladder, command.authority) if command.authority is not None else writer.default
    if outranks(policy.ladder, asked, writer.authority):
        if command.authority is not None:
            raise errors.AuthorityExceeded(asked=asked, has=writer.authority)
        asked = writer.authority
    sources = [named(command.ledger, name, given) for name in command.depends_on]
    for each in sources:
        check_live(each, "nothing can be derived from it", given)
    source = _spoken(command.source or FactSource(), given)
    if command.authority is None and writer.permissions is None and source.type == "policy":
        asked = policy.ladder.rungs[0]
    authority = lowest(policy.ladder, [asked, *(each.authority for each in sources)])
    turn = given.message if source.type == "conversation" and given.message else source.turn
    source = msgspec.structs.replace(source, authority=authority, turn=turn)
    requires = {*command.requires}.union(*(each.requires for each in sources))
    missing = requires - {*(writer.permissions if writer.permissions is not None else requires)}
    if missing:
        raise errors.PermissionMissing(permission=min(missing), what="know of what you are about to assert")
    stated = _stated(command, given)
    kind = command.constraint_type
    if kind is None and command.is_constraint is not False:
        kind = infer.constraint(command.key, command.value, source)
        kind = "policy" if kind is None and command.is_constraint else kind
    return FactAsserted(
        key=command.key,
        value=command.value,
        ref=command.ref,
        source=source,
        memory_type=command.memory_type or infer.memory_type(source),
        scope=command.scope or "global",
        scope_id=command.scope_id,
        valid_from_us=given.time_us if stated.from_us is None else stated.from_us,
        expires_us=stated.until_us,
        depends_on=tuple(dict.fromkeys(each.id for each in sources)),
        review=next((each.review for each in sources if each.review), ""),
        is_constraint=kind is not None,
        constraint_type=kind,
        requires=tuple(sorted(requires)),
        provenance=command.provenance,
        mentions=placed(command.mentions, given),
        reason=command.reason,
    )


def _stated(command: AssertFact, given: Given) -> Validity:
    """For how long the fact is valid: as the caller says, or else as its value does."""
    first, last = command.valid_from_us, command.expires_us
    if command.ttl_us is not None:
        last = given.time_us + command.ttl_us
    read = read_validity(command.value, given.time_us if first is None else first)
    if read is None:
        return Validity(from_us=first, until_us=last)
    return Validity(
        from_us=read.from_us if first is None else first,
        until_us=read.until_us if last is None else last,
    )


def _spoken(source: FactSource, given: Given) -> FactSource:
    """Who speaks is what the channel says; only the program itself, or who has the rank, speaks for policy or a system."""
    writer, policy = given.writer, given.policy
    if writer.permissions is None:
        return source
    needs = policy.source_types.get(source.type)
    if needs is not None and outranks(policy.ladder, needs, writer.authority):
        raise errors.AuthorityExceeded(asked=rung(policy.ladder, needs), has=writer.authority)
    return msgspec.structs.replace(source, identity=writer.identity)


def _repetition(
    new: FactAsserted, command: AssertFact, held: list[Fact], slot: list[Fact], given: Given
) -> tuple[Event, ...] | None:
    """What hearing the same again makes happen; None if it is something new."""
    ladder, authority = given.policy.ladder, new.source.authority
    known = foremost(held, given)
    if known is not None and same(known.value, new.value) and _says_no_more(new, command, known):
        events: list[Event] = []
        if outranks(ladder, authority, known.authority):
            if {*known.depends_on} != {*new.depends_on}:
                return None  # what was derived is said outright now, by one who has more to say
            events.append(FactEndorsed(fact=known.id, authority=authority, by=new.source.identity))
        doubted = known.review or (known.disputes and not events)
        if doubted and not new.review and not outranks(ladder, known.authority, authority):
            events.append(confirmed(known, new.source.identity, "", given))
        return tuple(events)
    for claim in slot:
        if claim.claim and lives(claim, given) and same(claim.value, new.value) and _says_no_more(new, command, claim):
            higher = any(outranks(ladder, each.authority, authority) for each in held)
            if higher and not outranks(ladder, authority, claim.authority):
                return ()
    return None


def _says_no_more(new: FactAsserted, command: AssertFact, known: Fact) -> bool:
    """Whether a repetition leaves everything beside the value as it is, too."""
    return (
        {*new.depends_on} <= {*known.depends_on}
        and {*new.requires} <= {*known.requires}
        and (new.expires_us is None or new.expires_us == known.expires_us)
        and (command.is_constraint is None or command.is_constraint == known.is_constraint)
        and command.constraint_type in (None, known.constraint_type)
        and command.memory_type in (None, known.memory_type)
        and command.ref in ("", known.ref)
    )


def _overtaken(new: FactAsserted, command: AssertFact, held: list[Fact], given: Given) -> Fact | None:
    """What is newer than this news, although it came before; None if it is news."""
    told = command.expires_us is not None or command.ttl_us is not None
    if not told and new.expires_us is not None and new.expires_us <= given.time_us:
        return foremost(held, given)  # by its own words it is of the past
    if command.valid_from_us is None:
        return None
    sensitive = command.time_sensitive
    if sensitive is None:
        sensitive = infer.time_sensitive(given.policy, command.key)
    newer = [
        each
        for each in held
        if sensitive
        and each.valid_from_us > new.valid_from_us
        and not outranks(given.policy.ladder, new.source.authority, each.authority)
    ]
    return max(newer, key=lambda each: (each.valid_from_us, fact_seq(each.id)), default=None)


def _check_apart(own: str, new: FactAsserted, ended: Iterable[Fact]) -> None:
    for each in ended:
        if each.id in new.depends_on:
            raise errors.SupersessionCycle(fact=own, what=f"both depend on {each.id!r} and supersede it")
