"""The server with /v1, on a real port, with callers that their keys name."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import holdfast
from holdfast.access.access import RIGHTS
from holdfast.access.keys import create_key
from holdfast.access.records import KeyGrant
from holdfast.server.app import build_app
from holdfast.server.settings import ServerSettings
from tests.server.running import running

KEY = "token-of-the-program"
"""The token of a server without keys: it may do everything."""
CALLERS = {
    "program": KeyGrant(name="program", rights=RIGHTS),
    "reader": KeyGrant(name="reader", rights=("read",)),
    "writer": KeyGrant(name="writer", rights=("read", "write")),
    "other-tenant": KeyGrant(name="eve", tenant="other", rights=("read", "write", "model")),
    "bob": KeyGrant(name="bob", rights=("read", "write", "model"), identity=holdfast.Identity(user_id="bob")),
    "carol": KeyGrant(name="carol", rights=("read", "write", "model"), identity=holdfast.Identity(user_id="carol")),
    "poor": KeyGrant(name="poor", rights=("read", "write", "model"), tokens_per_hour=1),
}


def key_of(store: str, name: str) -> str:
    """A key for one of the callers."""

    async def create() -> str:
        async with await holdfast.open_async(store) as engine:
            _, key = await create_key(engine, CALLERS[name], by="test")
            return key

    return asyncio.run(create())


def build_settings(store: str, **settings: Any) -> ServerSettings:
    chosen = {"upstream_key_variable": "UPSTREAM_KEY", "turn_lease_s": 5, "turn_wait_s": 10, "background": False}
    return ServerSettings(**{"store": store, "token": KEY, **chosen, **settings})


@contextlib.contextmanager
def serving(store: str, **settings: Any) -> Iterator[str]:
    """Serve while the block runs. Yields the base URL of clients."""
    with running(build_app(build_settings(store, **settings))) as url:
        yield f"{url}/v1"
