"""The facts that rest on a prompt of Claude Code, when the prompt is recorded again."""

from __future__ import annotations

from collections.abc import Sequence

import holdfast
from holdfast.model.history.ranges import LedgerFacts


def open_ledger(session: holdfast.Session, key: Sequence[str]) -> holdfast.Ledger:
    """One of the ledgers that a session reads, by the key of its stream."""
    kind, *names = key
    return session.ledger(
        user=names[0] if kind == "user" else None,
        project=names[0] if kind == "project" else None,
        organization=names[0] if kind == "organization" else None,
    )


def confirm_facts(session: holdfast.Session, facts: Sequence[LedgerFacts], seq: int) -> None:
    """Confirm the facts that a withdrawn message has stated, because it is recorded again. One that was retracted with the
    message is set again."""
    reason = "its prompt is recorded again"
    for each in facts:
        ledger = open_ledger(session, each.ledger)
        for name in each.facts:
            fact = ledger.fact(name)
            if all(mention.seq != seq for mention in fact.mentions):
                continue
            if fact.is_valid:
                ledger.review.confirm(fact, reason=reason)
            elif ledger.get(fact.key, scope=fact.scope, scope_id=fact.scope_id) is None:
                ledger.set(fact.key, fact.value, scope=fact.scope, scope_id=fact.scope_id, reason=reason)
