"""Finding facts by their words in FTS5.

Laws: a word is sought among those of one ledger at a time, and in no others; whatever else bounds a search is looked up in
the fact's row, the best first, until there are enough of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import apsw

from holdfast import codec
from holdfast.model.facts import Search
from holdfast.model.rows import FactRow
from holdfast.storage.sql import row_of
from holdfast.storage.sqlite.log import SQL


def search_facts(
    connection: apsw.Connection, search: Search, words: Sequence[str]
) -> tuple[tuple[FactRow, float], ...]:
    ledgers = connection.execute(SQL["ledgers"], (search.tenant, _json(search.ledgers))).fetchall()
    homes = {str(ledger): f"{'l' if search.live else 'd'}{number}x" for number, ledger in ledgers}
    if not words:
        return ()
    most = _most(connection, homes, words) if len(homes) > 1 else dict.fromkeys(homes, 1.0)
    found = [
        (fact, score / most[ledger])
        for ledger, home in homes.items()
        for fact, score in _in_ledger(connection, search, ledger, _any_of(home, words))
    ]
    found.sort(key=lambda each: (-each[1], each[0].ledger, -each[0].fact))
    return tuple(found[: search.limit])


def _in_ledger(connection: apsw.Connection, search: Search, ledger: str, query: str) -> Iterator[tuple[FactRow, float]]:
    permissions = None if search.permissions is None else _json(search.permissions)
    bounds = (search.tenant, ledger, int(search.live), search.now_us, _json(search.scopes), permissions, search.limit)
    for score, *row in connection.execute(SQL["search"], (query, *bounds)):
        yield row_of(FactRow, row), score


def _most(connection: apsw.Connection, homes: Mapping[str, str], words: Sequence[str]) -> dict[str, float]:
    """What a fact that is nothing but the words would score in each ledger. Where a word is rare it counts for more, but
    that makes no fact of a small ledger better than one of a large one. A word that is not there at all counts for what it
    does where it is."""
    worth: dict[str, dict[str, float]] = {}
    for ledger, home in homes.items():
        for word in words:
            for (score,) in connection.execute(SQL["worth"], (_any_of(home, [word]),)):
                worth.setdefault(word, {})[ledger] = score
    return {ledger: sum(here.get(ledger, max(here.values())) for here in worth.values()) or 1.0 for ledger in homes}


def _any_of(home: str, words: Sequence[str]) -> str:
    """As a query of FTS5: strings alone. In them are letters and digits, so nothing ends one early."""
    return " OR ".join(f'"{home}{word}"' for word in words)


def _json(value: object) -> str:
    return codec.encode(value).decode()
