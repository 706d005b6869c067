"""Engines by their address in ADK: `holdfast:///agent.db`.

| address | store |
|---|---|
| `holdfast:///agent.db` | a file, relative to the working directory |
| `holdfast:////var/lib/agent.db` | a file by its full path |
| `holdfast://user@host/database` | PostgreSQL |
| `holdfast:` and any other address | what `holdfast.open()` takes, or a server for `holdfast.connect()` |

Law: one process has one engine for an address, so that services and plugin share their caches.
"""

from __future__ import annotations

import threading
from urllib.parse import unquote, urlsplit

import holdfast
from holdfast.errors import InvalidArgument, StoreClosed
from holdfast.frameworks.engines import check_engine
from holdfast.storage.addresses import mask_address

SCHEME = "holdfast:"
_ENGINES: dict[str, holdfast.Engine] = {}
_LOCK = threading.Lock()


def read_uri(uri: str) -> str:
    """What `holdfast.open()` or `holdfast.connect()` takes for an address of ADK."""
    if not uri.startswith(SCHEME):
        raise InvalidArgument(argument="uri", reason=f"{mask_address(uri)!r} does not begin with {SCHEME}")
    rest = uri.removeprefix(SCHEME)
    if not rest.startswith("//"):
        address = rest
    elif rest.startswith("///"):
        address = unquote(urlsplit(rest).path[1:])
    else:
        address = f"postgresql:{rest}" if rest != "//" else ""
    if not address:
        raise InvalidArgument(argument="uri", reason=f"{uri!r} names no store: use holdfast:///agent.db, for example")
    return address


def open_uri(uri: str) -> holdfast.Engine:
    """The engine of this process for an address. It is closed with the process, or by its close()."""
    address = read_uri(uri)
    with _LOCK:
        engine = _ENGINES.get(address)
        if engine is None or _is_closed(engine):
            opened = holdfast.connect(address) if address.startswith(("http:", "https:")) else holdfast.open(address)
            engine = _ENGINES[address] = check_engine(opened)
        return engine


def _is_closed(engine: holdfast.Engine) -> bool:
    try:
        engine.sessions(limit=1)
    except StoreClosed:
        return True
    return False


def choose_engine(engine: object, uri: str | None) -> holdfast.Engine:
    """The engine that a service was given, or that of its address."""
    if uri is None:
        return check_engine(engine)
    if engine is not None:
        raise InvalidArgument(argument="uri", reason="pass an engine or an address, not both")
    return open_uri(uri)
