"""Columns arrive in PostgreSQL as they were packed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage.postgres.arrays import PackedColumn, pack_bigints, pack_blobs, pack_integers, pack_texts
from tests.postgres import base_url

CASES: list[tuple[str, Callable[[Sequence[Any]], PackedColumn], st.SearchStrategy[Any]]] = [
    ("text[]", pack_texts, st.none() | st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))),
    ("bytea[]", pack_blobs, st.none() | st.binary()),
    ("integer[]", pack_integers, st.integers(-(1 << 31), (1 << 31) - 1)),
    ("bigint[]", pack_bigints, st.integers(-(1 << 63), (1 << 63) - 1)),
]


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(base_url(), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize(("kind", "pack", "values"), CASES, ids=[kind for kind, _, _ in CASES])
def test_a_column_arrives_as_it_was_packed(
    connection: psycopg.Connection[Any],
    kind: str,
    pack: Callable[[Sequence[Any]], PackedColumn],
    values: st.SearchStrategy[Any],
) -> None:
    @given(st.lists(values, max_size=20))
    def arrives(column: list[Any]) -> None:
        query = f"SELECT pg_typeof(%b)::text, %b::{kind}"
        ((said, found),) = connection.execute(query, (pack(column), pack(column)), binary=True).fetchall()
        assert (said, found) == (kind, column)

    arrives()
