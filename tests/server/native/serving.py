"""A server of the native API for tests, and a client that says which operation each request is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

import holdfast
from holdfast.access.keys import create_key
from holdfast.access.records import KeyGrant
from holdfast.api.operations import OPERATIONS
from holdfast.api.problems import MEDIA_TYPE
from holdfast.server.app import build_app
from holdfast.server.native.dispatch import split_path
from holdfast.server.native.route_tree import RouteTree
from holdfast.server.settings import ServerSettings
from tests.postgres import empty_url
from tests.server.running import running

TOKEN = "the-token-of-the-tests"
"""It has all rights in a store without keys."""
ALL_RIGHTS = KeyGrant(name="local", rights=("read", "write", "model", "admin"))
PATIENCE_S = 60
_NAMES: RouteTree[str] = RouteTree()
for _operation in OPERATIONS:
    _NAMES.add(_operation.verb, _operation.path, _operation.name)


class ApiClient:
    """A client of the native API."""

    def __init__(self, url: str, key: str = TOKEN, answered: set[str] | None = None) -> None:
        self.url = url
        self.key = key
        self.http = httpx2.Client(base_url=f"{url}/api", headers={"Authorization": f"Bearer {key}"}, timeout=PATIENCE_S)
        self.answered: set[str] = set() if answered is None else answered
        """The operations that were answered with success."""
        self._others: list[ApiClient] = []

    def with_key(self, key: str) -> ApiClient:
        """The same server, for the holder of another key."""
        other = ApiClient(self.url, key, self.answered)
        self._others.append(other)
        return other

    def close(self) -> None:
        for each in (self, *self._others):
            each.http.close()

    def send(self, verb: str, path: str, body: Any = None, **options: Any) -> httpx2.Response:
        if body is not None:
            options["json"] = body
        answer = self.http.request(verb, path, **options)
        if answer.status_code < 400:
            scope = {"raw_path": answer.request.url.raw_path, "root_path": "/api", "path": ""}
            found = _NAMES.find(verb, split_path(scope))
            if not isinstance(found, list):
                self.answered.add(found.endpoint)
        return answer

    def ok(self, verb: str, path: str, body: Any = None, **options: Any) -> Any:
        """Send a request that succeeds. Returns the JSON of its answer; None if it has none."""
        answer = self.send(verb, path, body, **options)
        assert answer.status_code < 300, f"{verb} {path}: {answer.status_code} {answer.text}"
        if answer.status_code == 204:
            assert answer.content == b""
            return None
        return answer.json()

    def items(self, path: str, **options: Any) -> list[Any]:
        """The items of a list."""
        items: list[Any] = self.ok("GET", path, **options)["items"]
        return items

    def problem(self, verb: str, path: str, body: Any = None, **options: Any) -> tuple[int, str, Mapping[str, Any]]:
        """Send a request that is refused. Returns the status, the type and the document."""
        answer = self.send(verb, path, body, **options)
        assert answer.status_code >= 400, f"{verb} {path}: {answer.status_code} {answer.text}"
        assert answer.headers["content-type"] == MEDIA_TYPE
        document = answer.json()
        assert document["status"] == answer.status_code
        return answer.status_code, document["type"], document


class FailureLog(logging.Handler):
    """The failures of the server: errors that it did not expect."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[Any] = []

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", {})
        if fields.get("error", {}).get("type") != "LocalOnly":
            self.found.append(fields or record.getMessage())


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[ApiClient]:
    """Serve a store in a folder, to a client with a key of all rights. At the end, no request may have failed in an
    unexpected way."""
    failures = FailureLog()
    logger = logging.getLogger("holdfast.server")
    logger.addHandler(failures)
    options = {"store": str(folder / "agent.db"), "background": False, **settings}
    (key,) = asyncio.run(create_keys(options["store"], ALL_RIGHTS))
    try:
        with running(build_app(ServerSettings(**options))) as url:
            api = ApiClient(url, key)
            try:
                yield api
            finally:
                api.close()
        assert not failures.found, failures.found
    finally:
        logger.removeHandler(failures)


STORES = ("sqlite", "postgres")


@contextmanager
def serving_on(store: str, folder: Path) -> Iterator[ApiClient]:
    """Serve a store of a kind."""
    if store == "sqlite":
        with serving(folder) as api:
            yield api
        return
    with empty_url() as url, serving(folder, store=url) as api:
        yield api


def make_keys(folder: Path, *grants: KeyGrant) -> list[str]:
    """Create keys in the store of a folder."""
    return asyncio.run(create_keys(str(folder / "agent.db"), *grants))


async def create_keys(store: str, *grants: KeyGrant) -> list[str]:
    async with await holdfast.open_async(store, principal="tests") as engine:
        return [(await create_key(engine, grant, by="tests"))[1] for grant in grants]
