"""The PostgreSQL that tests run on: the one named in HOLDFAST_TEST_POSTGRES, or one of our own for each test process."""

from __future__ import annotations

import atexit
import functools
import os
import uuid

import psycopg

from holdfast.testing.postgres import Server

NAMED = "HOLDFAST_TEST_POSTGRES"


@functools.cache
def server() -> Server:
    """A server of this process, started when it is first asked for."""
    return Server()


def base_url() -> str:
    return os.environ.get(NAMED) or server().url()


def fresh_url(base: str | None = None) -> str:
    """A store that is not there yet: a schema of its own, made by whoever opens it."""
    url = base or base_url()
    schema = f"test_{uuid.uuid4().hex}"
    if os.environ.get(NAMED) == url:  # ours goes with its folder
        atexit.register(drop, url, schema)
    return f"{url}{'&' if '?' in url else '?'}schema={schema}"


def drop(url: str, schema: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')
