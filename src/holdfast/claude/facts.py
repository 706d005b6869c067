"""The facts that hold now, as a text that goes with a prompt.

The conversation that Claude Code sends is its own, so outdated values in it stay. This text names the current ones.
"""

from __future__ import annotations

import time

import holdfast
from holdfast.core.packs.candidates import format_fact
from holdfast.text.fence import fence_texts

_HEAD = "Facts that hold now. They replace what earlier messages say about the same keys:"
_CHARS = 4
"""Characters of a token, about."""
_MOST = 200


def describe_facts(session: holdfast.Session, query: str, budget: int) -> str:
    """The current facts in all ledgers that the session reads, those about the query first; empty if there are none."""
    now_us = time.time_ns() // 1_000
    lines: dict[tuple[str, ...], str] = {}
    room = budget * _CHARS - len(_HEAD)
    for fact in _read_facts(session, query):
        name = (fact.key, fact.scope, fact.scope_id)
        if name in lines or not fact.is_current_at(now_us):
            continue
        current = session.facts.get(fact.key, scope=fact.scope, scope_id=fact.scope_id) or fact
        line = format_fact(current, now_us)
        if len(line) + 1 <= room:
            lines[name] = line
            room -= len(line) + 1
    return "\n".join(fence_texts(["\n".join([_HEAD, *lines.values()])])) if lines else ""


def _read_facts(session: holdfast.Session, query: str) -> list[holdfast.Fact]:
    facts = [match.fact for match in session.facts.search(query, limit=50)] if query.strip() else []
    facts += reversed(session.facts.items(limit=_MOST))
    for kind, *names in session.state().ledgers:
        ledger = session.ledger(
            user=names[0] if kind == "user" else None,
            project=names[0] if kind == "project" else None,
            organization=names[0] if kind == "organization" else None,
        )
        facts += reversed(ledger.items(limit=_MOST))
    return facts
