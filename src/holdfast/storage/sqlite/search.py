"""Search facts by words with FTS5.

Laws: a query matches words of one ledger at a time, and of no other. All other bounds are checked in the rows of the
facts, best first, until there are enough.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import apsw

from holdfast import codec
from holdfast.model.facts.fact import FactQuery
from holdfast.model.rows import FactRow
from holdfast.storage.sql import row_of
from holdfast.storage.sqlite.log import SQL

_COMMON_SHARE = 5
"""A word that so many times `FactQuery.ranked` facts have says little about a fact."""


def search_facts(
    connection: apsw.Connection, search: FactQuery, words: Sequence[str]
) -> tuple[tuple[FactRow, float], ...]:
    """Return the facts that match, best first, with their scores."""
    ledgers = connection.execute(SQL["ledgers"], (search.tenant, _json(search.ledgers))).fetchall()
    prefixes = {str(ledger): f"{'l' if search.live else 'd'}{number}x" for number, ledger in ledgers}
    if not words:
        return ()
    chosen = {ledger: _choose_words(connection, search, prefix, words) for ledger, prefix in prefixes.items()}
    most = _top_scores(connection, prefixes, chosen) if len(prefixes) > 1 else dict.fromkeys(prefixes, 1.0)
    matches = [
        (fact, score / most[ledger])
        for ledger, prefix in prefixes.items()
        for fact, score in _search_ledger(connection, search, ledger, _match_query(prefix, *chosen[ledger]))
    ]
    matches.sort(key=lambda match: (-match[1], match[0].ledger, -match[0].fact))
    return tuple(matches[: search.limit])


class _QueryWords(NamedTuple):
    """The words of a query in one ledger."""

    scored: Sequence[str]
    required: Sequence[str] = ()
    """A fact must have one of these to be ranked, if there are any. They count twice."""


def _choose_words(connection: apsw.Connection, search: FactQuery, prefix: str, words: Sequence[str]) -> _QueryWords:
    """Return all words if no more than `search.ranked` facts have them. Else the rarest are required, as many as so many
    facts have together, or one; and words that most facts may have are left out."""
    if search.ranked is None:
        return _QueryWords(words)
    most = search.ranked * _COMMON_SHARE
    counts: dict[str, int] = {}
    for word in words:
        ((count,),) = connection.execute(SQL["occurrences"], (_match_query(prefix, [word]), most + 1))
        counts[word] = count
    found = sorted(filter(counts.get, words), key=lambda word: counts[word])
    totals = itertools.accumulate(counts[word] for word in found)
    required = [word for word, total in zip(found, totals, strict=True) if total <= search.ranked] or found[:1]
    if len(required) == len(found):
        return _QueryWords(words)
    return _QueryWords([word for word in words if counts[word] <= most or word in required], required)


def _search_ledger(
    connection: apsw.Connection, search: FactQuery, ledger: str, query: str
) -> Iterator[tuple[FactRow, float]]:
    permissions = None if search.permissions is None else _json(search.permissions)
    bounds = (search.tenant, ledger, int(search.live), search.now_us, _json(search.scopes), permissions, search.limit)
    for score, *row in connection.execute(SQL["search"], (query, *bounds)):
        yield row_of(FactRow, row), score


def _top_scores(
    connection: apsw.Connection, prefixes: Mapping[str, str], chosen: Mapping[str, _QueryWords]
) -> dict[str, float]:
    """Return for each ledger the score of a fact that has exactly its words.

    Scores are divided by it, so that a fact of a small ledger, where words are rare, is not better than one of a
    large ledger. A word that a ledger does not have counts as in the other ledgers."""
    scores: dict[str, dict[str, float]] = {}
    for ledger, prefix in prefixes.items():
        for word in chosen[ledger].scored:
            for (score,) in connection.execute(SQL["worth"], (_match_query(prefix, [word]),)):
                scores.setdefault(word, {})[ledger] = score
    return {
        ledger: sum(
            by_ledger.get(ledger, max(by_ledger.values())) * (2 if word in chosen[ledger].required else 1)
            for word, by_ledger in scores.items()
        )
        or 1.0
        for ledger in prefixes
    }


def _match_query(prefix: str, words: Sequence[str], required: Sequence[str] = ()) -> str:
    """Return a query of FTS5 for facts with any of the words. Words have letters and digits only, so no quoting is
    needed."""
    query = " OR ".join(f'"{prefix}{word}"' for word in words)
    return f"({_match_query(prefix, required)}) AND ({query})" if required else query


def _json(value: object) -> str:
    return codec.encode(value).decode()
