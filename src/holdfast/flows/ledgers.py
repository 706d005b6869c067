"""Writing facts: asserting, superseding, taking back, promoting, endorsing, confirming, reinstating, erasing.

Laws: a fact never has more authority than the channel that it comes through; what changes nothing stores nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from holdfast import codec
from holdfast.conversion import to_json
from holdfast.core import infer, sessions, upcast
from holdfast.core.authority import rank, rung
from holdfast.core.layers import checked_ledger
from holdfast.core.ledgers import touched
from holdfast.core.supersede import same
from holdfast.errors import DataError, HoldfastError, InvalidContent, InvalidLedger, TooLarge, shown
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.execute import Part
from holdfast.flows.inform_facts import SOONEST
from holdfast.flows.ingest import microseconds
from holdfast.flows.knowing import by_id, checked_home, fact_name, meant, name_or_none, one_of, slot_of
from holdfast.flows.load import load
from holdfast.flows.place import Context, LedgerPlace, on_ledger, together
from holdfast.model import limits
from holdfast.model.commands import (
    AssertFact,
    ConfirmFact,
    EndorseFact,
    EraseFacts,
    ExpireFact,
    ExpireFacts,
    LedgerCommand,
    PromoteFact,
    ReinstateFact,
    RetractFact,
    SupersedeFact,
    Writer,
)
from holdfast.model.events import (
    FactAsserted,
    FactConfirmed,
    FactEndorsed,
    FactExpired,
    FactRetracted,
    PayloadsErased,
)
from holdfast.model.facts import (
    MEMORY_TYPES,
    SOURCE_TYPES,
    Fact,
    FactScope,
    FactSource,
    MemoryType,
    fact_id,
    fact_seq,
)
from holdfast.model.layers import Identity
from holdfast.model.log import Appended
from holdfast.model.names import LedgerId, Scope, StreamId, check_size, checked_flag, checked_name, checked_whole
from holdfast.model.rows import FactRow, ledger_of

P = ParamSpec("P")
T = TypeVar("T")

_LONG = "Put what is long into the blob store with put_blob() and keep a reference."


def ledger_named(
    context: Context,
    ledger: LedgerId | None = None,
    *,
    user: str | None = None,
    project: str | None = None,
    organization: str | None = None,
) -> LedgerId:
    """The ledger that exactly one of these names."""
    named = {"user": user, "project": project, "organization": organization}
    given = {kind: name for kind, name in named.items() if name is not None}
    if len(given) + (ledger is not None) != 1:
        what = ", ".join(given) or "nothing"
        raise InvalidLedger(value=what, reason="exactly one name says whose it is")
    if ledger is not None:
        return checked_ledger(ledger, context.tenant)
    ((kind, name),) = given.items()
    return LedgerId(context.tenant, kind, (checked_name(kind, name),))  # type: ignore[arg-type]


def with_current_identity(
    flow: Callable[Concatenate[LedgerPlace, P], Flow[T]],
) -> Callable[Concatenate[LedgerPlace, P], Flow[T]]:
    """A flow over a ledger, on behalf of whoever speaks when it runs: a handle that a session gave out long ago has no
    permission that was revoked since."""

    @functools.wraps(flow)
    def run(place: LedgerPlace, /, *args: P.args, **kwargs: P.kwargs) -> Flow[T]:
        if place.session is not None:
            state = yield from load(place.session.stream, place.context.cache, fresh=True)
            place = msgspec.structs.replace(place, writer=writer_for(place.context, state.identity))
        return (yield from flow(place, *args, **kwargs))

    return run


def writer_for(context: Context, identity: Identity | None) -> Writer:
    """What an identity may write. Without one, the program that opened the store speaks itself, and may claim anything."""
    ladder = context.policy.ladder
    if identity is None:
        return Writer(authority=ladder.rungs[0], default=rung(ladder, context.policy.channel))
    authority = rung(ladder, identity.authority)
    return Writer(
        identity=identity.user_id or identity.user_name,
        authority=authority,
        default=authority,
        permissions=identity.permissions,
    )


def assert_(
    place: LedgerPlace,
    name: str,
    value: Any,
    /,
    *,
    supersedes: str | Fact | Sequence[str | Fact] = (),
    depends_on: str | Fact | Sequence[str | Fact] = (),
    source: FactSource | str | None = None,
    authority: str | None = None,
    scope: FactScope | None = None,
    scope_id: str = "",
    memory_type: MemoryType | None = None,
    is_constraint: bool | None = None,
    constraint_type: str | None = None,
    requires: Sequence[str] = (),
    valid_from_us: int | None = None,
    expires_at_us: int | None = None,
    ttl_s: float | None = None,
    time_sensitive: bool | None = None,
    ref: str = "",
    provenance: str | Sequence[str] = (),
    reason: str = "",
    key: str | None = None,
    cause: str | None = None,
    expect: int | None = None,
) -> Flow[Fact]:
    """Hold something to be true: the key `name` has this value.

    What the same key said before in the same scope is superseded, and so is what `supersedes` names by id, outside name or
    key; but never what a higher authority says: then this is kept as a claim against it. Saying the same again changes
    nothing. `authority` may be lower than the channel's, never higher; with `depends_on` it is no higher than that of its
    sources. Memory type, scope and constraint are told from source and text unless they are given. `valid_from_us` is
    when it became true: older news about a time-sensitive key supersede nothing."""
    command = _assertion(
        place,
        name,
        value,
        supersedes=supersedes,
        depends_on=depends_on,
        source=source,
        authority=authority,
        scope=scope,
        scope_id=scope_id,
        memory_type=memory_type,
        is_constraint=is_constraint,
        constraint_type=constraint_type,
        requires=requires,
        valid_from_us=valid_from_us,
        expires_at_us=expires_at_us,
        ttl_s=ttl_s,
        time_sensitive=time_sensitive,
        ref=ref,
        provenance=provenance,
        reason=reason,
    )
    yield from _check_there(place, key)
    appended = yield from _order(place, command, key, cause, expect)
    return (yield from asserted(place, command, appended))


_SAID = frozenset(
    (
        "supersedes",
        "depends_on",
        "source",
        "authority",
        "scope",
        "scope_id",
        "memory_type",
        "is_constraint",
        "constraint_type",
        "requires",
        "valid_from_us",
        "expires_at_us",
        "ttl_s",
        "time_sensitive",
        "ref",
        "provenance",
        "reason",
    )
)
"""What can be said of a fact beside its key and its value."""


def assert_all(
    place: LedgerPlace,
    facts: Sequence[dict[str, Any]],
    /,
    *,
    key: str | None = None,
    cause: str | None = None,
    expect: int | None = None,
) -> Flow[tuple[Fact, ...]]:
    """Hold several things to be true, all or none, each after the one before: dicts with a `key`, a `value` and what
    else `assert_` takes. Returns the facts that are new. One may name another before it, by its ref or its key."""
    if type(facts) not in (list, tuple) or not facts:
        raise InvalidContent(reason="the facts to assert are a list of at least one")
    check_size("the batch", len(facts), "facts", "BATCH_FACTS", "Assert in several steps.")
    parts: list[Part] = []
    for each in facts:
        if type(each) is not dict or not {"key", "value"} <= {*each} <= {"key", "value", *_SAID}:
            raise InvalidContent(
                reason="a fact to assert has a key, a value and what else assert_() takes, and no more"
            )
        said = {name: each[name] for name in each if name in _SAID}
        parts.append(on_ledger(place, _assertion(place, each["key"], each["value"], **said)))
    yield from _check_there(place, key)
    appended = yield from together(place.context, parts, key=key, cause=cause, expect=expect)
    new: list[Fact] = []
    for recorded in appended.events:
        if recorded.type == FactAsserted.name:
            new.append((yield from by_id(place, fact_id(recorded.seq))))
    return tuple(new)


def _assertion(
    place: LedgerPlace,
    name: str,
    value: Any,
    *,
    supersedes: str | Fact | Sequence[str | Fact] = (),
    depends_on: str | Fact | Sequence[str | Fact] = (),
    source: FactSource | str | None = None,
    authority: str | None = None,
    scope: FactScope | None = None,
    scope_id: str = "",
    memory_type: MemoryType | None = None,
    is_constraint: bool | None = None,
    constraint_type: str | None = None,
    requires: Sequence[str] = (),
    valid_from_us: int | None = None,
    expires_at_us: int | None = None,
    ttl_s: float | None = None,
    time_sensitive: bool | None = None,
    ref: str = "",
    provenance: str | Sequence[str] = (),
    reason: str = "",
) -> AssertFact:
    command = AssertFact(
        ledger=place.ledger,
        key=checked_name("the key of a fact", name),
        value=_checked_value(value),
        ref=name_or_none("ref", ref),
        source=checked_source(source),
        authority=None if authority is None else checked_name("authority", authority),
        memory_type=None if memory_type is None else one_of("memory_type", memory_type, MEMORY_TYPES),  # type: ignore[arg-type]
        scope=None if scope is None else checked_home(scope, scope_id)[0],
        scope_id=checked_home("global", scope_id)[1],
        valid_from_us=None if valid_from_us is None else checked_whole("valid_from_us", valid_from_us),
        expires_us=None if expires_at_us is None else checked_whole("expires_at_us", expires_at_us),
        ttl_us=None if ttl_s is None else microseconds("ttl_s", ttl_s),
        supersedes=_names(place, "supersedes", supersedes),
        depends_on=_names(place, "depends_on", depends_on),
        is_constraint=None if is_constraint is None else checked_flag("is_constraint", is_constraint),
        constraint_type=None if constraint_type is None else checked_name("constraint_type", constraint_type),
        requires=checked_permissions(requires),
        provenance=_names(place, "provenance", provenance),
        time_sensitive=None if time_sensitive is None else checked_flag("time_sensitive", time_sensitive),
        reason=_checked_reason(reason),
    )
    if command.expires_us is not None and command.ttl_us is not None:
        raise InvalidContent(reason="a fact expires at a time or after a while: pass expires_at_us or ttl_s, not both")
    if command.is_constraint is False and command.constraint_type is not None:
        raise InvalidContent(reason="what is no constraint has no constraint_type: leave one of the two out")
    return command


def asserted(place: LedgerPlace, command: AssertFact, appended: Appended) -> Flow[Fact]:
    """The fact that an assertion came to: a new one, or the one that it repeated."""
    for recorded in appended.events:
        if recorded.stream != place.ledger.stream:
            continue
        event = upcast.current(recorded)
        if isinstance(event, FactAsserted):
            return (yield from by_id(place, fact_id(recorded.seq)))
        if isinstance(event, FactEndorsed | FactConfirmed):
            return (yield from by_id(place, event.fact))
    scope = command.scope or infer.scope(command.value)
    slot = yield from slot_of(place, command.key, scope, command.scope_id)
    equal = [each.fact for each in slot if same(each.fact.value, command.value)]
    now, ladder = place.context.clock.now_us(), place.context.policy.ladder

    def place_of(fact: Fact) -> tuple[bool, bool, int, int]:
        return fact.claim, fact.ran_out(now), -rank(ladder, fact.authority), -fact_seq(fact.id)

    for fact in sorted(equal, key=place_of):
        return (yield from by_id(place, fact.id))
    raise InvalidContent(reason=f"the fact {command.key!r} was erased after it was asserted: use a new key")


def supersede(
    place: LedgerPlace,
    fact: str | Fact,
    by: str | Fact,
    *,
    reason: str = "",
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Fact]:
    """One fact that is there takes the place of another; returns the superseded one."""
    old, new = fact_name(place, "fact", fact), fact_name(place, "by", by)
    command = SupersedeFact(ledger=place.ledger, fact=old, by=new, reason=_checked_reason(reason))
    return (yield from _changed(place, command, key, cause))


def retract(
    place: LedgerPlace, fact: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
) -> Flow[tuple[Fact, ...]]:
    """Take a fact back, and everything that was derived from it; returns what is dead now, as far as one may know of it.
    Nothing comes in its place, and what it superseded stays dead. Of what a higher authority says nothing ends: that it was
    withdrawn is kept as a dispute, which packs show beside the fact until someone who may confirms or retracts it."""
    name = fact_name(place, "fact", fact)
    command = RetractFact(ledger=place.ledger, fact=name, reason=_checked_reason(reason))
    appended = yield from _order(place, command, key, cause)
    dead: list[Fact] = []
    for recorded in appended.events:
        event = upcast.current(recorded)
        if isinstance(event, FactRetracted):
            for each in event.facts:
                found = yield from by_id(place, each, absent_ok=True)
                dead += [found] if found is not None else []
    if appended.events:
        return tuple(dead)
    known = yield from meant(place, name, dead=True)
    return () if known.is_valid else (known,)


def expire(
    place: LedgerPlace, fact: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
) -> Flow[Fact]:
    """End a fact because its time is over; those that depend on it need a review."""
    name = fact_name(place, "fact", fact)
    command = ExpireFact(ledger=place.ledger, fact=name, reason=_checked_reason(reason))
    return (yield from _changed(place, command, key, cause))


def promote(
    place: LedgerPlace,
    fact: str | Fact,
    *,
    scope: FactScope = "global",
    scope_id: str = "",
    reason: str = "",
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Fact]:
    """Let a fact of a narrower scope, a draft above all, hold in a wider one. There it supersedes what its authority lets
    it supersede, or is a claim."""
    name = fact_name(place, "fact", fact)
    wider, wider_id = checked_home(scope, scope_id)
    command = PromoteFact(
        ledger=place.ledger,
        fact=name,
        scope=wider,
        scope_id=wider_id,
        reason=_checked_reason(reason),
    )
    return (yield from _changed(place, command, key, cause))


def endorse(
    place: LedgerPlace,
    fact: str | Fact,
    authority: str | None = None,
    *,
    reason: str = "",
    key: str | None = None,
    cause: str | None = None,
) -> Flow[Fact]:
    """Stand for a fact with more authority than it has, up to one's own; it takes the permission `facts:endorse`. A claim
    that is no longer outranked becomes the current fact."""
    name = fact_name(place, "fact", fact)
    asked = None if authority is None else checked_name("authority", authority)
    command = EndorseFact(ledger=place.ledger, fact=name, authority=asked, reason=_checked_reason(reason))
    return (yield from _changed(place, command, key, cause))


def confirm(
    place: LedgerPlace, fact: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
) -> Flow[Fact]:
    """A fact that needed a review was reviewed, and holds."""
    name = fact_name(place, "fact", fact)
    command = ConfirmFact(ledger=place.ledger, fact=name, reason=_checked_reason(reason))
    return (yield from _changed(place, command, key, cause))


def reinstate(
    place: LedgerPlace, fact: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
) -> Flow[Fact]:
    """Let a superseded fact live again; what stood in its place is taken back."""
    name = fact_name(place, "fact", fact)
    command = ReinstateFact(ledger=place.ledger, fact=name, reason=_checked_reason(reason))
    return (yield from _changed(place, command, key, cause))


def erase(
    place: LedgerPlace, facts: str | Fact | Sequence[str | Fact], reason: str, *, key: str | None = None
) -> Flow[None]:
    """Remove these facts for good, by their ids: what they said is in no event, row or index any more. Those that depend on
    them need a review."""
    command = EraseFacts(ledger=place.ledger, facts=_names(place, "facts", facts), reason=_checked_reason(reason))
    yield from _order(place, command, key, None)


def run_out(context: Context, limit: int) -> Flow[tuple[int, HoldfastError | None]]:
    """Expire what has run out, in all ledgers of the tenant; how many facts, and what went wrong."""
    where: dict[str, str | int] = {"tenant": context.tenant, "live": 1}
    most = {"expires_us": context.clock.now_us()}
    due = yield from effects.rows(FactRow, where, None, limit, order=SOONEST, most=most)
    expired, trouble = 0, None
    for ledger in dict.fromkeys(ledger_of(row) for row in due):
        try:
            expired += yield from _run_out_in(LedgerPlace(context, ledger, writer_for(context, None)))
        except (DataError, TooLarge) as error:  # one ledger that cannot be swept does not keep the others
            trouble = error
    return expired, trouble


def _run_out_in(place: LedgerPlace) -> Flow[int]:
    """In portions: what depends on what ends is part of the same command, and that has its bounds."""
    expired, portion = 0, limits.EXPIRED_AT_ONCE
    while True:
        try:
            appended = yield from _order(place, ExpireFacts(ledger=place.ledger, limit=portion), None, None)
        except TooLarge:
            if portion == 1:
                raise
            portion = max(1, portion // 8)
            continue
        events = (upcast.current(each) for each in appended.events)
        ended = sum(len(each.facts) for each in events if isinstance(each, FactExpired))
        expired += ended
        if ended < portion:
            return expired


def erase_ledger(context: Context, ledger: LedgerId, reason: str) -> Flow[None]:
    """Remove all that a ledger says for good."""
    place = LedgerPlace(context, ledger, writer_for(context, None))
    after = 0
    while page := (yield from effects.read(ledger.stream, after, limits.READ_EVENTS)):
        after = page[-1].seq
        seqs = tuple(each.seq for each in page if each.payload is not None and each.type != PayloadsErased.name)
        if seqs:
            yield from _order(place, EraseFacts(ledger=ledger, seqs=seqs, reason=reason), None, None)


def _order(
    place: LedgerPlace, command: LedgerCommand, key: str | None, cause: str | None, expect: int | None = None
) -> Flow[Appended]:
    return together(place.context, [on_ledger(place, command)], key=key, cause=cause, expect=expect)


def _check_there(place: LedgerPlace, key: str | None) -> Flow[None]:
    """Raises if the ledger is the own one of a session that has ended: nobody would ever clear it away. What was done
    before, under the same key, is told all the same."""
    if place.ledger.kind != "session":
        return
    if key is not None and (yield from effects.find(place.ledger.tenant, checked_name("idempotency key", key))):
        return
    stream = StreamId(place.ledger.tenant, "session", place.ledger.names)
    sessions.check_open((yield from load(stream, place.context.cache, fresh=True)), Scope.of(stream))


_Single = SupersedeFact | ExpireFact | PromoteFact | EndorseFact | ConfirmFact | ReinstateFact


def _changed(place: LedgerPlace, command: _Single, key: str | None, cause: str | None) -> Flow[Fact]:
    """Carry out a command about one fact; how that is after it."""
    appended = yield from _order(place, command, key, cause)
    for recorded in appended.events:
        return (yield from by_id(place, touched(upcast.current(recorded))[0]))
    return (
        yield from meant(place, command.fact, dead=not isinstance(command, EndorseFact | ConfirmFact | PromoteFact))
    )


def _checked_value(value: object) -> Any:
    data = to_json("the value of a fact", value)
    check_size("the value of a fact", len(codec.encode(data)), "bytes", "FACT_BYTES", _LONG)
    return data


def checked_source(source: object) -> FactSource | None:
    """A source, or its name. What it says of authority and identity is the channel's to say."""
    if source is None:
        return None
    if type(source) is str:
        return FactSource(name=checked_name("source", source))
    if type(source) is not FactSource:
        raise InvalidContent(reason=f"{shown(source)} is no source: pass a holdfast.FactSource, or its name")
    one_of("type of a source", source.type, SOURCE_TYPES)
    for what in ("name", "identity"):
        name_or_none(f"the {what} of a source", getattr(source, what))
    for what in ("turn", "event"):
        if getattr(source, what) is not None:
            checked_whole(f"the {what} of a source", getattr(source, what))
    return msgspec.structs.replace(source, authority="peer")


def checked_permissions(permissions: object) -> tuple[str, ...]:
    if type(permissions) not in (list, tuple):
        raise InvalidContent(reason=f"permissions are a list of names, not {shown(permissions)}")
    check_size("the list", len(permissions), "permissions", "PERMISSIONS", "Pass fewer.")  # type: ignore[arg-type]
    return tuple(sorted({checked_name("permission", each) for each in permissions}))  # type: ignore[attr-defined]


def _names(place: LedgerPlace, what: str, names: object) -> tuple[str, ...]:
    """One name or several, of facts or of what facts come from."""
    several = names if type(names) in (list, tuple) else [names]
    check_size(what, len(several), "names", "FACT_LINKS", "Name fewer.")  # type: ignore[arg-type]
    return tuple(fact_name(place, what, each) for each in several)  # type: ignore[attr-defined]


def _checked_reason(reason: object) -> str:
    text = codec.checked_text("the reason", reason)
    check_size("the reason", len(text.encode()), "bytes", "BRIEF_BYTES", "Say it shorter.")
    return text
