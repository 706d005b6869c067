"""The settings of a server, as `holdfast serve` reads them. They are one JSON text, for the worker processes."""

from __future__ import annotations

import msgspec

DEFAULT_PORT = 8787


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
    budget: int = 24_000
    """The most tokens of a pack in front of the upstream."""
    turn_lease_s: float = 15
    """After how many seconds the turn of a process that died on a conversation is free."""
    turn_wait_s: float = 20
    """How many seconds a request waits for the turn on its conversation, before it is refused as busy."""
    token: str = ""
    """The token of a server without keys, on loopback: made and printed at its start."""
