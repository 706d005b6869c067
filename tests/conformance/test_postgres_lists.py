"""The lists of terms on PostgreSQL: rows that are near each other take 2 bytes, others 4, and all are found."""

from __future__ import annotations

import psycopg
import pytest

from holdfast.model.memory.passages import MemorySubject, PassageFilter, PassageQuery
from holdfast.model.names import Scope
from holdfast.storage.postgres.connect import parse_address
from holdfast.storage.postgres.store import PostgresStore
from holdfast.testing.appends import ONE
from holdfast.testing.contract_passages import passage_of, put_passages
from tests.postgres import fresh_url

FAR = 70_000
"""More than 2 bytes can tell."""


def lists_of(url: str) -> list[tuple[int, int]]:
    """The width of each list, and how many rows it has."""
    with psycopg.connect(parse_address(url).info) as connection:
        connection.execute("SELECT set_config('holdfast.tenant', 'acme', false)")
        found = connection.execute("SELECT width, octet_length(rows) / width FROM passage_words ORDER BY first")
        return [(int(width), int(size)) for width, size in found.fetchall()]


def skip_rows(url: str) -> None:
    with psycopg.connect(parse_address(url).info, autocommit=True) as connection:
        connection.execute("SELECT setval('passage_rows', nextval('passage_rows') + %s)", (FAR,))


@pytest.mark.parametrize(
    ("first", "lists"), [(3, [(4, 5)]), (40, [(2, 40), (2, 2)])], ids=["a short list grows wide", "a long one ends"]
)
def test_rows_far_apart_are_found_and_removed(first: int, lists: list[tuple[int, int]]) -> None:
    url = fresh_url()
    store = PostgresStore(url)
    query = PassageQuery(visible=PassageFilter(tenant="acme", user="ada"), terms=("lion",), limit=100)
    try:
        put_passages(store, *(passage_of(ONE, seq) for seq in range(1, first + 1)))
        skip_rows(url)
        put_passages(store, *(passage_of(ONE, first + more) for more in (1, 2)))
        assert lists_of(url) == lists
        assert {each.seq for each in store.match_passages(query).passages} == {*range(1, first + 3)}
        subject = MemorySubject(tenant="acme", scope=Scope.from_stream(ONE), seqs=(2, first + 1))
        assert store.forget_passages(subject).passages == 2
        assert sum(size for _, size in lists_of(url)) == first
        found = store.match_passages(query)
        assert {each.seq for each in found.passages} == {*range(1, first + 3)} - {2, first + 1}
        assert found.counts == {"lion": first}
    finally:
        store.close()
