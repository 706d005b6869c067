"""The settings of a server, as `holdfast serve` reads them. They are one JSON text, for the worker processes.

Law: `check_settings` refuses what cannot run before anything is started.
"""

from __future__ import annotations

import ipaddress
import os
from urllib.parse import urlsplit

import msgspec

from holdfast.access.access import RIGHTS, Right
from holdfast.access.token_settings import TokenSettings
from holdfast.errors import InvalidArgument, describe_value
from holdfast.model import limits
from holdfast.model.names import check_choice, check_whole

DEFAULT_PORT = 8787
SETTINGS_VARIABLE = "HOLDFAST_SERVER"
"""The environment variable with the settings, for the worker processes. It has the token, so it is not for logs."""
MOST_WORKERS = 64
"""The most worker processes of one server."""
BODY_BYTES = 16 << 20
"""The largest body of a request, unless the settings say otherwise."""
MOST_BODY_BYTES = 1 << 30
"""The highest limit of a body that the settings may set, and the limit of a body of bytes, which goes to the disk as it
arrives. Any other body is in memory while its request runs."""
REQUEST_S = 60
"""How long a request may take until its answer begins, unless the settings or its route say otherwise."""
UPSTREAM_S = 600
"""How long the upstream may be silent, unless the settings say otherwise: models can think for minutes."""
GRACE_S = 20
"""How long running requests may go on after SIGTERM, unless the settings say otherwise."""
MOST_SECONDS = 3_600
"""The highest of the times in the settings."""
UPSTREAM_KINDS = ("", "openai", "openai-responses", "anthropic")


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a server runs."""

    store: str = "agent.db"
    """A file, or postgresql://…"""
    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    workers: int = 1
    upstream: str = ""
    """The base URL of the model server that /v1/responses asks; empty for none."""
    upstream_kind: str = ""
    """How the upstream speaks: "openai" (chat completions), "openai-responses" or "anthropic"; empty: from its address."""
    upstream_key_variable: str = ""
    """The environment variable with the key of the upstream; empty: OPENAI_API_KEY or ANTHROPIC_API_KEY."""
    upstream_s: int = UPSTREAM_S
    """How long the upstream may be silent, before its answer and within it."""
    budget: int = 24_000
    """The most tokens of a pack in front of the upstream."""
    memory: bool = False
    """Whether the conversations of a user under /v1 have a long-term memory, and what users state becomes facts."""
    turn_lease_s: float = 15
    """After how many seconds the turn of a process that died on a conversation is free."""
    turn_wait_s: float = 20
    """How many seconds a request waits for the turn on its conversation, before it is refused as busy."""
    token: str = ""
    """The token of a server without keys, on loopback: made and printed at its start. It ends with the first key."""
    local_tenant: str = "default"
    """The tenant of the token."""
    local_actor: str | None = None
    """The only namespace of sessions that the token may use; None for all."""
    local_rights: tuple[Right, ...] = RIGHTS
    """What the token may do."""
    for_owner: bool = False
    """Whether the server is for whoever started it, on loopback: the token works although the store has keys, no key does,
    and nothing is stored but what a request asks for."""
    jwt: TokenSettings | None = None
    """Which tokens of an identity provider are accepted beside keys; None for none."""
    allowed_hosts: tuple[str, ...] = ()
    """Host names under which the server is reached, beside those of its own: `api.example.com`, `*.example.com`, or `*`."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may use the server, with scheme and port; or `*`."""
    behind_tls: bool = False
    """True: clients reach the server through TLS, at a proxy in front of it."""
    body_bytes: int = BODY_BYTES
    """The largest body of a request, other than bytes: results, files and imports may have MOST_BODY_BYTES."""
    request_s: int = REQUEST_S
    """How long a request may take until its answer begins."""
    grace_s: int = GRACE_S
    """How long running requests may go on after SIGTERM."""
    drain_s: int = 0
    """How long the server accepts requests after SIGTERM while /readyz already says no: for load balancers."""
    background: bool = True
    """Whether the server delivers ended conversations to long-term memory, and sweeps."""


def check_settings(settings: ServerSettings) -> ServerSettings:
    """The settings, if a server can run with them."""
    check_whole("port", settings.port, 0, 65_535)
    check_whole("workers", settings.workers, 1, MOST_WORKERS)
    check_whole("budget", settings.budget, limits.PACK_TOKENS)
    check_whole("body_bytes", settings.body_bytes, 1, MOST_BODY_BYTES)
    check_whole("upstream_s", settings.upstream_s, 1, MOST_SECONDS)
    check_whole("request_s", settings.request_s, 1, MOST_SECONDS)
    check_whole("grace_s", settings.grace_s, 0, MOST_SECONDS)
    check_whole("drain_s", settings.drain_s, 0, MOST_SECONDS)
    check_choice("upstream_kind", settings.upstream_kind, UPSTREAM_KINDS)
    if not settings.host or settings.host != settings.host.strip():
        raise InvalidArgument(argument="host", reason=f"{describe_value(settings.host)} is not a host or an address")
    _check_upstream(settings)
    if settings.jwt is not None:
        settings.jwt.check()
    _check_owner(settings)
    if settings.workers > 1 and settings.store in ("memory:", ":memory:"):
        reason = f"{settings.workers} processes cannot share a store in memory; use a file or PostgreSQL"
        raise InvalidArgument(argument="workers", reason=reason)
    return settings


def _check_owner(settings: ServerSettings) -> None:
    """A server for its owner can be reached from this machine only, and does nothing by itself."""
    is_alone = is_loopback(settings.host) and settings.workers == 1
    if settings.for_owner and (not is_alone or settings.behind_tls or settings.background):
        reason = "a server for its owner has one process on loopback, no proxy and no background work"
        raise InvalidArgument(argument="for_owner", reason=reason)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on this host."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _check_upstream(settings: ServerSettings) -> None:
    if not settings.upstream:
        return
    try:
        address = urlsplit(settings.upstream)
        is_valid = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        is_valid = False
    if not is_valid or address.username or address.password or address.query or address.fragment:
        reason = (
            "it is not the base URL of a model server, such as http://127.0.0.1:8000/v1, without a password or a query"
        )
        raise InvalidArgument(argument="upstream", reason=reason)
    variable = settings.upstream_key_variable
    if variable and not os.environ.get(variable):
        raise InvalidArgument(argument="upstream_key_variable", reason=f"the environment has no {variable!r}")


def store_settings(settings: ServerSettings) -> None:
    """Hand the settings to the worker processes."""
    os.environ[SETTINGS_VARIABLE] = msgspec.json.encode(settings).decode()


def load_settings() -> ServerSettings:
    """The settings that the parent process has handed over."""
    text = os.environ.get(SETTINGS_VARIABLE, "")
    try:
        return check_settings(msgspec.json.decode(text, type=ServerSettings))
    except msgspec.MsgspecError as error:
        raise InvalidArgument(argument=SETTINGS_VARIABLE, reason="it has no settings of a server") from error
