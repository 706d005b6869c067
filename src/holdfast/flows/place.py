"""Where something is done, by whom, and with what comes in from outside."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import msgspec

from holdfast.context import levels
from holdfast.core.messages import closing_text
from holdfast.core.previews import Spooling
from holdfast.flows.effects import Flow
from holdfast.flows.execute import Order, Part, execute
from holdfast.flows.load import StateCache
from holdfast.model.commands import Command, Given, LedgerCommand, Writer
from holdfast.model.content import BlobRef
from holdfast.model.frames import Weights
from holdfast.model.log import Appended
from holdfast.model.names import LedgerId, Scope, checked_name, checked_whole
from holdfast.model.pack import Brief
from holdfast.model.plan import Faithful, PlanPolicy, Prices
from holdfast.model.policy import Policy
from holdfast.model.prices import PRICES
from holdfast.ports import Bodies, Clock, Detector, IdSource, Summarizer, TokenCounter

_SOME_KEY = "0123456789abcdef" * 2
"""As long as those that calls are given; what a count of tokens makes of it."""


class Context(msgspec.Struct, frozen=True):
    """Who acts, in which tenant, and what comes in from outside."""

    tenant: str
    principal: str
    cache: StateCache
    clock: Clock
    ids: IdSource
    counter: TokenCounter
    bodies: Bodies
    weights: Weights = Weights()
    policy: Policy = Policy()
    detector: Detector | None = None
    """None for the one that needs no model, which is loaded when it is first asked."""
    spooling: Spooling = Spooling()
    compaction: PlanPolicy = Faithful()
    prices: tuple[Prices, ...] = PRICES
    summarizer: Summarizer | None = None
    """None for the one that needs no model."""
    strategies: dict[str, levels.Custom] = {}
    """The compaction strategies of the program's own, by name."""
    briefs: dict[str, Brief] = {}
    """What someone in a role is told, by role; under the empty name, what everyone is told who has none."""


class Place(msgspec.Struct, frozen=True):
    """A session as seen by someone, or a frame in it."""

    context: Context
    scope: Scope
    frame: str | None = None


class LedgerPlace(msgspec.Struct, frozen=True):
    """A ledger as seen by someone, and on whose behalf."""

    context: Context
    ledger: LedgerId
    writer: Writer
    session: Scope | None = None
    """The session through which it is seen: whoever speaks there at the time of an operation is the one who sees."""


def order(
    place: Place,
    command: Command,
    *,
    tokens: Iterable[int] = (),
    closing: str | None = None,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
    bodies: Iterable[BlobRef] = (),
    spent: Iterable[int] = (),
    digest: str = "",
) -> Flow[Appended]:
    """Have a command carried out. `closing` is why calls that wait are closed by it, `bodies` must be there before it."""
    part = Part(
        command,
        given_to(place.context, tokens=tokens, closing=closing, spent=spent, digest=digest),
    )
    return together(place.context, [part], key=key, expect=expect, cause=cause, bodies=bodies)


def given_to(
    context: Context,
    *,
    tokens: Iterable[int] = (),
    closing: str | None = None,
    spent: Iterable[int] = (),
    digest: str = "",
) -> Given:
    counter = context.counter
    return Given(
        time_us=context.clock.now_us(),
        tokens=tuple(tokens),
        counter=counter.name,
        closing_tokens=0 if closing is None else counter.count(closing_text(closing)),
        started_tokens=0 if closing is None else counter.count(closing_text(closing, _SOME_KEY)),
        principal=context.principal,
        spent=tuple(spent),
        digest=digest,
    )


def on_ledger(place: LedgerPlace, command: LedgerCommand, refused: list[str] | None = None) -> Part:
    """What a command does to a ledger, on behalf of whoever it is seen by."""
    context = place.context
    given = Given(
        time_us=context.clock.now_us(), principal=context.principal, writer=place.writer, policy=context.policy
    )
    return Part(command, given, refused)


def together(
    context: Context,
    parts: Sequence[Part],
    *,
    key: str | None = None,
    expect: int | None = None,
    cause: str | None = None,
    bodies: Iterable[BlobRef] = (),
    bound: bytes | None = None,
) -> Flow[Appended]:
    """Have commands carried out at one moment, all of them or none. `bound` is what the key stands for, if the commands are
    not: when what they are depends on more than on what was asked."""
    now = parts[0].given.time_us
    at_once = (msgspec.structs.replace(each, given=msgspec.structs.replace(each.given, time_us=now)) for each in parts)
    return execute(
        Order(
            parts=tuple(at_once),
            bound=bound,
            principal=context.principal,
            cause=None if cause is None else checked_name("cause", cause),
            key=None if key is None else checked_name("idempotency key", key),
            expected=None if expect is None else checked_whole("the expected version", expect),
            needs=tuple(functools.partial(context.bodies.check, context.tenant, ref) for ref in bodies),
        ),
        context.cache,
        context.ids,
    )
