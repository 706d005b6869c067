"""The PostgreSQL that tests run on: the one named in HOLDFAST_TEST_POSTGRES, or one of our own for each test process."""

from __future__ import annotations

import atexit
import functools
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from holdfast.storage.postgres.connect import parse_address
from tests.postgres_server import PostgresServer

NAMED = "HOLDFAST_TEST_POSTGRES"

_idle: list[str] = []
"""Addresses of schemas that nobody uses at the moment."""

_EMPTY = (
    "SELECT act_for(NULL); DELETE FROM streams; DELETE FROM events; DELETE FROM keys; DELETE FROM snapshots; "
    "DELETE FROM session_rows; DELETE FROM outbox_rows; DELETE FROM blob_rows; DELETE FROM frame_rows; "
    "DELETE FROM handle_rows; DELETE FROM page_rows; DELETE FROM token_rows; DELETE FROM ledger_rows; "
    "DELETE FROM entry_rows; DELETE FROM chunk_rows; "
    "DELETE FROM fact_rows; DELETE FROM depend_rows; DELETE FROM mention_rows; DELETE FROM bodies; DELETE FROM pieces; "
    "DELETE FROM passages; DELETE FROM passage_words; DELETE FROM passage_drafts; "
    "DELETE FROM passage_shelves; DELETE FROM passage_marks; "
    "DELETE FROM passage_vectors; DELETE FROM deliveries; "
    "DELETE FROM blobs; UPDATE store SET projection = 0"
)


@functools.cache
def server() -> PostgresServer:
    """A server of this process, started when it is first asked for. It waits for no disk, unless a test has it do so: it is
    never killed."""
    started = PostgresServer(settings=["autovacuum=off"])
    with psycopg.connect(started.url(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
    return started


@functools.cache
def _emptier() -> psycopg.Connection:
    """A session that empties stores, as one does who may look after all tenants. To begin another costs more than that."""
    connection = psycopg.connect(base_url(), autocommit=True, application_name="tests")
    atexit.register(connection.close)
    return connection


def base_url() -> str:
    return os.environ.get(NAMED) or server().url()


def fresh_url(base: str | None = None) -> str:
    """A store that is not there yet: a schema of its own, made by whoever opens it."""
    url = base or base_url()
    schema = f"test_{uuid.uuid4().hex}"
    if os.environ.get(NAMED) == url:  # ours goes with its folder
        atexit.register(drop, url, schema)
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


@contextmanager
def empty_url() -> Iterator[str]:
    """A store with nothing in it. To make a schema costs more than most examples do, so it serves again; whoever had it
    before must have closed it."""
    if _idle:
        url = _idle.pop()
        empty(url)
    else:
        url = fresh_url()
    try:
        yield url
    finally:
        _idle.append(url)


def empty(url: str) -> None:
    """Take everything out of a store."""
    _emptier().execute(f"SET search_path = {parse_address(url).schema}; {_EMPTY}")


def drop(url: str, schema: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
