"""Forget: remove a user, a session or some messages from long-term memory.

Laws: what waits in the outbox is forgotten first, so that no worker brings it back; one that is at it takes back what it
gave. Facts and sessions are erased by their own calls. If a memory of the caller fails, the call fails: repeat it then.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from holdfast.core.sessions.decide import session_not_found
from holdfast.errors import InvalidArgument, MemoryFailed, describe_value
from holdfast.flows import effects
from holdfast.flows.context import EngineContext, SessionContext
from holdfast.flows.effects import Flow
from holdfast.flows.memory.histories import HistoryParts, give_part
from holdfast.flows.memory.identities import read_identities
from holdfast.flows.memory.index import take_history
from holdfast.flows.memory.recall import call_memory
from holdfast.flows.sessions import lifecycle
from holdfast.model import limits
from holdfast.model.memory.passages import MemorySubject
from holdfast.model.memory.recall import ForgetReport
from holdfast.model.names import Scope, check_name
from holdfast.model.sessions.messages import Offload


def forget(engine: EngineContext, *, user: str | None = None, scope: Scope | None = None) -> Flow[ForgetReport]:
    """Forget all of a user, or all of a session."""
    if (user is None) == (scope is None):
        raise InvalidArgument(argument="user", reason="name either a user or a session")
    if scope is not None:
        _check_scope(engine, scope)
    subject = MemorySubject(tenant=engine.tenant, user="" if user is None else check_name("user", user), scope=scope)
    yield from _drop_waiting(engine, subject)
    outside = (yield from _forget_outside(engine, subject)) if engine.memory is not None else None
    report = yield from effects.forget_passages(subject)
    if outside is None:
        return report
    return ForgetReport(passages=report.passages + outside.passages, residue=report.residue + outside.residue)


def _check_scope(engine: EngineContext, scope: object) -> None:
    if type(scope) is not Scope:
        reason = f"{describe_value(scope)} is not a holdfast.types.Scope: pass the scope of a session"
        raise InvalidArgument(argument="session", reason=reason)
    Scope.check(scope.tenant, scope.actor, scope.session, scope.thread)
    if scope.tenant != engine.tenant:
        raise session_not_found(scope)


def _forget_outside(engine: EngineContext, subject: MemorySubject) -> Flow[ForgetReport]:
    memory = engine.memory
    assert memory is not None, "there is no other memory"
    report = yield from call_memory(engine, "forget", functools.partial(memory.forget, subject))
    if type(report) is not ForgetReport:
        reason = f"it returned {describe_value(report)}, not a holdfast.types.ForgetReport"
        raise MemoryFailed(memory=memory.name, operation="forget", reason=reason)
    return report


def erase_messages(context: SessionContext, seqs: Sequence[int], reason: str, *, key: str | None = None) -> Flow[None]:
    """Erase events of a session. The built-in memory forgets them in the same transaction, a memory of the caller after
    it."""
    yield from lifecycle.erase(context, seqs, reason, key=key)
    if context.engine.memory is not None:
        subject = MemorySubject(tenant=context.scope.tenant, scope=context.scope, seqs=tuple(seqs))
        yield from _forget_outside(context.engine, subject)


def _drop_waiting(engine: EngineContext, subject: MemorySubject) -> Flow[None]:
    """Acknowledge the outbox entries of the subject without delivering them."""
    last: Offload | None = None
    while page := (yield from lifecycle.outbox(engine, after=last, limit=limits.READ_EVENTS)):
        last = page[-1]
        for offload in page:
            if subject.scope is None:
                is_subject = yield from _leave_to_others(engine, offload, subject.user)
            else:
                is_subject = offload.scope == subject.scope
            if is_subject:
                yield from lifecycle.acknowledge(engine, offload, key=_forgotten_key(offload))


def _leave_to_others(engine: EngineContext, offload: Offload, user: str) -> Flow[bool]:
    """Whether a conversation has words of a user. If others spoke in it, too, memory takes theirs now."""
    identities = yield from read_identities(offload.scope.stream, offload.last)
    users = {each for _, _, each in identities.split(offload.first, offload.last)}
    if user not in users:
        return False
    if engine.memory is None:
        if users - {user, ""}:
            yield from take_history(engine, offload, without=user)
        return True
    parts = HistoryParts(engine, offload, identities)
    while (part := (yield from parts.next_part())) is not None:
        if part.identity.user_id != user and (part.messages or part.situation):
            yield from give_part(engine.memory, part)
    return True


def _forgotten_key(offload: Offload) -> str:
    return f"forgotten:{offload.key}"


def forget_again(engine: EngineContext, offload: Offload) -> Flow[None]:
    """Forget an entry that a worker gave to memory while it was forgotten; one that was not is left alone."""
    if not (yield from effects.find(engine.tenant, _forgotten_key(offload))):
        return
    for first in range(offload.first, offload.last + 1, limits.READ_EVENTS):
        seqs = tuple(range(first, min(first + limits.READ_EVENTS, offload.last + 1)))
        subject = MemorySubject(tenant=engine.tenant, scope=offload.scope, seqs=seqs)
        yield from effects.forget_passages(subject)
        if engine.memory is not None:
            yield from _forget_outside(engine, subject)
