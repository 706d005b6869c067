"""Search facts by words with FTS5.

Laws: a query matches words of one ledger at a time, and of no other. All other bounds are checked in the rows of the
facts, best first, until there are enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import apsw

from holdfast import codec
from holdfast.model.facts.fact import FactQuery
from holdfast.model.rows import FactRow
from holdfast.storage.sql import row_of
from holdfast.storage.sqlite.log import SQL


def search_facts(
    connection: apsw.Connection, search: FactQuery, words: Sequence[str]
) -> tuple[tuple[FactRow, float], ...]:
    """Return the facts that match, best first, with their scores."""
    ledgers = connection.execute(SQL["ledgers"], (search.tenant, _json(search.ledgers))).fetchall()
    prefixes = {str(ledger): f"{'l' if search.live else 'd'}{number}x" for number, ledger in ledgers}
    if not words:
        return ()
    most = _top_scores(connection, prefixes, words) if len(prefixes) > 1 else dict.fromkeys(prefixes, 1.0)
    matches = [
        (fact, score / most[ledger])
        for ledger, prefix in prefixes.items()
        for fact, score in _search_ledger(connection, search, ledger, _match_query(prefix, words))
    ]
    matches.sort(key=lambda match: (-match[1], match[0].ledger, -match[0].fact))
    return tuple(matches[: search.limit])


def _search_ledger(
    connection: apsw.Connection, search: FactQuery, ledger: str, query: str
) -> Iterator[tuple[FactRow, float]]:
    permissions = None if search.permissions is None else _json(search.permissions)
    bounds = (search.tenant, ledger, int(search.live), search.now_us, _json(search.scopes), permissions, search.limit)
    for score, *row in connection.execute(SQL["search"], (query, *bounds)):
        yield row_of(FactRow, row), score


def _top_scores(connection: apsw.Connection, prefixes: Mapping[str, str], words: Sequence[str]) -> dict[str, float]:
    """Return for each ledger the score of a fact that has exactly these words.

    Scores are divided by it, so that a fact of a small ledger, where words are rare, is not better than one of a
    large ledger. A word that a ledger does not have counts as in the other ledgers."""
    scores: dict[str, dict[str, float]] = {}
    for ledger, prefix in prefixes.items():
        for word in words:
            for (score,) in connection.execute(SQL["worth"], (_match_query(prefix, [word]),)):
                scores.setdefault(word, {})[ledger] = score
    return {
        ledger: sum(by_ledger.get(ledger, max(by_ledger.values())) for by_ledger in scores.values()) or 1.0
        for ledger in prefixes
    }


def _match_query(prefix: str, words: Sequence[str]) -> str:
    """Return a query of FTS5. Words have letters and digits only, so no quoting is needed."""
    return " OR ".join(f'"{prefix}{word}"' for word in words)


def _json(value: object) -> str:
    return codec.encode(value).decode()
