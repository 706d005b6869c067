"""Connect to a server: `holdfast.connect` and `holdfast.connect_async`.

Laws: everything is checked before the server is asked. The key is never shown: not in a repr, a log or an error. A key is
not sent in the clear, except to this machine.
"""

from __future__ import annotations

import ipaddress
import os
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import msgspec

import holdfast
from holdfast.adapters.system import RandomIds, SystemClock
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.api.parts import CallerDocument
from holdfast.client.calls import RemoteEngineContext
from holdfast.client.exchanges import RemoteFlow, RemoteRequest, ask, is_foreign
from holdfast.errors import ExtraMissing, InvalidArgument, InvalidServerUrl, KeyRefused, describe_value
from holdfast.flows.load import StateCache
from holdfast.model import limits
from holdfast.model.names import check_flag, check_whole
from holdfast.runtime.bodies import VerifiedBodies
from holdfast.storage.memory import MemoryBlobs

if TYPE_CHECKING:
    from holdfast.client.transport import ServerAddress

KEY_VARIABLE = "HOLDFAST_KEY"
DEFAULT_TIMEOUT_S = 60.0
DEFAULT_RETRIES = 4
MAX_TIMEOUT_S = 3_600
MAX_RETRIES = 20
_HOST_AND_PORT = re.compile(r"(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):[0-9]{1,5}(?=/|$)")
"""A host with a port, without a scheme."""


def connect(
    url: str,
    *,
    key: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    retries: int = DEFAULT_RETRIES,
    insecure: bool = False,
) -> holdfast.Engine:
    """Connect to a server of Holdfast, and return an engine: the same methods as of `holdfast.open()`.

        with holdfast.connect("https://agents.example") as engine:
            session = engine.session("support-7", user="ada", create=True)

    `key` is the key that the server gave you; without it, the environment variable HOLDFAST_KEY is used. The key decides
    the tenant and what you may do. A request has `timeout_s` seconds. If the server cannot be reached or is busy, a request
    that is safe to repeat is sent again, at most `retries` times: one that reads, or one with an idempotency key. Every
    write gets a key for the time of its call, so a lost answer never stores anything twice.

    Plain http is refused for other machines than this one, unless `insecure` is True: everybody on the way could read
    the key. Threads can share an engine, and so can forked processes."""
    address = _check_address(url, key, timeout_s, retries, insecure)
    from holdfast.client.transport import BlockingPool  # noqa: PLC0415 - an extra
    from holdfast.client.worlds import BLOCKING  # noqa: PLC0415 - the same

    pool = BlockingPool(address)
    try:
        caller = pool(_find_caller(address.url))
    except BaseException:
        pool.close()
        raise
    engine: holdfast.Engine = BLOCKING[holdfast.Engine](pool, _build_context(caller))
    return engine


async def connect_async(
    url: str,
    *,
    key: str | None = None,
    timeout_s: float = DEFAULT_TIMEOUT_S,
    retries: int = DEFAULT_RETRIES,
    insecure: bool = False,
) -> holdfast.AsyncEngine:
    """Connect to a server of Holdfast from an event loop: connect(), awaited."""
    address = _check_address(url, key, timeout_s, retries, insecure)
    from holdfast.client.transport import AwaitedPool  # noqa: PLC0415 - an extra
    from holdfast.client.worlds import AWAITED  # noqa: PLC0415 - the same

    pool = AwaitedPool(address)
    try:
        caller = await pool(_find_caller(address.url))
    except BaseException:
        await pool.close()
        raise
    engine: holdfast.AsyncEngine = AWAITED[holdfast.Engine](pool, _build_context(caller))
    return engine


def _find_caller(url: str) -> RemoteFlow[CallerDocument]:
    response = yield from ask(RemoteRequest("GET", "/caller", is_safe=True, is_first=True))
    if is_foreign(response):
        raise InvalidServerUrl(url=url, reason=f"it answered with status {response.status}, and not as Holdfast does")
    try:
        caller: CallerDocument = msgspec.json.decode(response.body, type=CallerDocument)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        raise InvalidServerUrl(url=url, reason="its answer is not that of Holdfast") from None
    return caller


def _build_context(caller: CallerDocument) -> RemoteEngineContext:
    """The context of objects: who acts, and the packs that wait for a reply."""
    return RemoteEngineContext(
        actor=caller.actor,
        tenant=caller.tenant,
        principal=caller.principal,
        cache=StateCache(limits.CACHED_STREAMS),
        clock=SystemClock(),
        ids=RandomIds(),
        counter=EstimatingCounter(),
        bodies=VerifiedBodies(MemoryBlobs()),
    )


# Arguments


def _check_address(url: object, key: object, timeout_s: object, retries: object, insecure: object) -> ServerAddress:
    try:
        from holdfast.client.transport import ServerAddress  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ExtraMissing(what="A connection to a server", extra="client") from error
    checked_key = _check_key(os.environ.get(KEY_VARIABLE) if key is None else key)
    address = check_address(url, allow_plain=check_flag("insecure", insecure))
    if type(timeout_s) not in (int, float) or not 0 < timeout_s <= MAX_TIMEOUT_S:  # type: ignore[operator]
        reason = f"{describe_value(timeout_s)} is not a number of seconds above 0 and up to {MAX_TIMEOUT_S}"
        raise InvalidArgument(argument="timeout_s", reason=reason)
    headers = {"Authorization": f"Bearer {checked_key}"} if checked_key else {}
    headers["User-Agent"] = f"holdfast/{holdfast.__version__}"
    tries = check_whole("retries", retries, 0, MAX_RETRIES)
    return ServerAddress(address, headers, float(timeout_s), tries)  # type: ignore[arg-type]


def _check_key(key: object) -> str:
    if key is None or key == "":
        return ""
    if not isinstance(key, str) or not key.isascii() or not key.isprintable() or " " in key:
        raise KeyRefused(reason="it is not a key of a server: those have letters, digits and signs, without spaces")
    return str.__str__(key)


def check_address(url: object, *, allow_plain: bool = False) -> str:
    """The address of a server. It has no user, password, query or fragment: those would be shown."""
    if type(url) is not str:
        raise InvalidServerUrl(url=describe_value(url), reason="it is not the address of a server")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise InvalidServerUrl(url=_mask(url), reason="it is not an address") from None
    if parts.scheme not in ("http", "https") or not host:
        reason = "an address begins with https:// or http://; holdfast.open() is for a file or a database"
        raise InvalidServerUrl(url=_mask(url), reason=reason)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidServerUrl(url=_mask(url), reason="it has more than a host and a path; pass the key as key=…")
    if parts.scheme == "http" and not allow_plain and not _is_loopback(host):
        reason = "http would send the key in the clear; use https, or insecure=True if the network is yours"
        raise InvalidServerUrl(url=_mask(url), reason=reason)
    name = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{name}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"


def _mask(url: str) -> str:
    """An address without what may be secret in it."""
    scheme, separator, rest = url.partition("://")
    host = rest.rpartition("@")[2].partition("?")[0].partition("#")[0]
    if separator:
        return f"{scheme}{separator}{host}"
    found = _HOST_AND_PORT.match(url)  # anything else may be a key in the wrong place
    return found[0] if found else "…"


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
