"""The facts that hold now, as a text that goes with a prompt.

The conversation that Claude Code sends is its own, so outdated values in it stay. This text names the current ones, and the
facts of earlier such texts that have none any more. So the names of the facts that a model was given are stored.
"""

from __future__ import annotations

import collections
import secrets
import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import holdfast
from holdfast.core.packs.candidates import format_fact
from holdfast.frameworks.claude_entries import FACTS_KIND
from holdfast.frameworks.claude_facts import open_ledger
from holdfast.model.facts.fact import FactScope
from holdfast.text.fence import fence_texts

_HEAD = "Facts that hold now. They replace what earlier messages say about the same keys:"
_CHARS = 4
"""Characters of a token, about."""
_MOST = 200
_PAGE = 1_000


class FactName(NamedTuple):
    """The key of a fact in its scope."""

    key: str
    scope: FactScope
    scope_id: str


class FactsText(NamedTuple):
    """What a model is given of the facts."""

    text: str
    names: list[FactName]
    """Of the facts in it that hold."""


def describe_facts(session: holdfast.Session, query: str, budget: int, given: Iterable[FactName] = ()) -> FactsText:
    """The current facts in all ledgers that the session reads: constraints first, then those about the query, then the
    newest. Of those that were `given` before, also the ones that have ended. The text is empty if there are none."""
    now_us = time.time_ns() // 1_000
    lines: dict[FactName, str] = {}
    room = budget * _CHARS - len(_HEAD)
    seen: set[FactName] = set()
    ended = [line for line in _describe_ended(session, given, now_us) if (room := room - len(line) - 1) >= 0]
    for fact in _read_facts(session, query):
        name = FactName(fact.key, fact.scope, fact.scope_id)
        if name in seen or not fact.is_current_at(now_us):
            continue
        seen.add(name)
        current = session.facts.get(fact.key, scope=fact.scope, scope_id=fact.scope_id) or fact
        line = format_fact(current, now_us)
        if len(line) + 1 <= room:
            lines[name] = line
            room -= len(line) + 1
    shown = [*([_HEAD, *lines.values()] if lines else []), *ended]
    return FactsText("\n".join(fence_texts(["\n".join(shown)])) if shown else "", [*lines])


def _describe_ended(session: holdfast.Session, given: Iterable[FactName], now_us: int) -> Iterator[str]:
    for name in given:
        current = session.facts.get(name.key, scope=name.scope, scope_id=name.scope_id)
        if current is None or not current.is_current_at(now_us):
            yield f"- Earlier statements about {name.key} are outdated. It has no current value."


def _read_facts(session: holdfast.Session, query: str) -> Iterator[holdfast.Fact]:
    """The facts, the most important ones first; some come twice."""
    ledgers: list[Any] = [session.facts, *(open_ledger(session, key) for key in session.state().ledgers)]
    for ledger in ledgers:
        yield from ledger.constraints(limit=_MOST)
    if query.strip():
        yield from (match.fact for match in session.facts.search(query, limit=50))
    for ledger in ledgers:
        yield from reversed(_read_newest(ledger))


def _read_newest(ledger: Any) -> collections.deque[holdfast.Fact]:
    newest: collections.deque[holdfast.Fact] = collections.deque(maxlen=_MOST)
    last: holdfast.Fact | None = None
    while page := ledger.items(after=last, limit=_PAGE):
        last = page[-1]
        newest += page
        if len(page) < _PAGE:
            break
    return newest


def read_given(session: holdfast.Session) -> list[FactName]:
    """The facts that the model was given in this session, the newest last."""
    newest = session.entries.list(kind=FACTS_KIND, limit=1)
    body: Any = newest[0].body if newest else []
    return [FactName(*name) for name in body]


def note_given(session: holdfast.Session, given: list[FactName], names: list[FactName]) -> None:
    """Store that the model is given these facts, too."""
    if not {*names} <= {*given}:
        body = [list(name) for name in [*dict.fromkeys([*given, *names])][-_PAGE:]]
        session.entries.append(FACTS_KIND, f"{FACTS_KIND}-{secrets.token_hex(12)}", body)
