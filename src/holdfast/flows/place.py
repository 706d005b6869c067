"""Where something is done, by whom, and with what comes in from outside."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import msgspec

from holdfast.core.messages import closing_text
from holdfast.flows.effects import Flow
from holdfast.flows.execute import Order, execute
from holdfast.flows.load import StateCache
from holdfast.model.commands import Command, Given
from holdfast.model.content import BlobRef
from holdfast.model.frames import Weights
from holdfast.model.log import Appended
from holdfast.model.names import Scope, checked_name, checked_whole
from holdfast.ports import Bodies, Clock, IdSource, TokenCounter

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


class Place(msgspec.Struct, frozen=True):
    """A session as seen by someone, or a frame in it."""

    context: Context
    scope: Scope
    frame: str | None = None


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
    context = place.context
    counter = context.counter
    given = Given(
        time_us=context.clock.now_us(),
        tokens=tuple(tokens),
        counter=counter.name,
        closing_tokens=0 if closing is None else counter.count(closing_text(closing)),
        started_tokens=0 if closing is None else counter.count(closing_text(closing, _SOME_KEY)),
        principal=context.principal,
        spent=tuple(spent),
        digest=digest,
    )
    return execute(
        Order(
            command=command,
            given=given,
            principal=context.principal,
            cause=None if cause is None else checked_name("cause", cause),
            key=None if key is None else checked_name("idempotency key", key),
            expected=None if expect is None else checked_whole("the expected version", expect),
            needs=tuple(functools.partial(context.bodies.check, context.tenant, ref) for ref in bodies),
        ),
        context.cache,
        context.ids,
    )
