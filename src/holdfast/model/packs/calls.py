"""Model calls: each reply with its pack, its usage, what it cost, and what became of the prompt cache. Data only.

Money is in micro-dollars: 1_000_000 is $1. Times are in microseconds.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.model.content import Usage
from holdfast.model.history.plans import Pressure
from holdfast.model.packs.pack import PackRecord, Section

CacheCause: TypeAlias = Literal[
    "first",
    "kept",
    "brief",
    "tools",
    "boundary",
    "guard",
    "withdrawal",
    "request",
    "model",
    "idle",
    "provider",
    "unknown",
]
"""Why a prompt cache was kept or lost: nothing was cached before · it was kept · the brief or the identity changed · the
tools changed · a boundary changed the history · superseded values were redacted · messages were withdrawn or restored ·
the request shows the history in another way · another model was asked · nothing was asked for too long · the provider
lost it · unknown."""
BoundaryKind: TypeAlias = Literal[
    "fold", "excerpt", "guard", "withdrawal", "restoration", "reset", "erasure", "summary"
]


class CallCost(msgspec.Struct, frozen=True, kw_only=True):
    """The price of a model call, from the usage that the provider reported and the price list of the engine."""

    fresh: int
    """For the tokens of the prompt that were neither read from a cache nor written to one."""
    cache_read: int
    cache_write: int
    output: int
    total: int
    """The sum of these four."""
    rewritten: int = 0
    """The part of `total` that was paid again for tokens that the call before had in its warm cache."""
    model: str
    """The name in the price list."""


class CacheReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the prompt cache of the call before."""

    previous: str = ""
    """The id of the call before in the same conversation; empty for none."""
    kept: bool = False
    """All that the call before could leave in the cache was used again, as far as known."""
    shared: int = 0
    """The tokens at the front of the pack that are the same as before, in the count of the pack. 0 without two
    manifests."""
    read: int | None = None
    """The tokens that the provider read from its cache; None if it reports none."""
    written: int | None = None
    """The tokens that it wrote to its cache; None if it reports none."""
    rewritten: int = 0
    """The tokens that the call before had in its warm cache, and that this call shows again and paid for again. A message
    that the guard has edited is shown again; what a summary replaces is not."""
    cause: CacheCause = "unknown"
    at: str = ""
    """The id of the first candidate that differs; empty for none."""
    why: str = ""
    """In words."""


class Boundary(msgspec.Struct, frozen=True, kw_only=True):
    """A boundary between two calls: an event that changed what is shown of the conversation."""

    seq: int
    kind: BoundaryKind
    why: str = ""
    before: int = 0
    after: int = 0
    """The tokens of what changed, before and after; 0 if unknown."""
    window: int = 0
    """The window that it was planned for; 0 if unknown."""
    cost: int = 0
    saves: int = 0
    """What its plan said that it costs once, and saves at each call from then on; 0 if unknown."""
    messages: int = 0
    """The messages that are shown differently; of an erasure, the erased events."""
    policy: str = ""
    pressure: Pressure = "none"
    """The strongest step of the classic policy; "none" for other policies."""


class ModelCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a model: a reply, a recorded pack, or both."""

    id: str
    """That of its pack, such as `p12`; without a pack that of its reply, such as `m13`."""
    seq: int
    """The seq of the record of its pack; without a pack, of its reply. The next page is before the last one."""
    reply: int = 0
    """The seq of the reply; 0 for none."""
    pack: PackRecord | None = None
    """None if none was recorded, or if it was erased."""
    frame: str | None = None
    time_us: int
    """When the reply was recorded; without one, when the pack was."""
    started_us: int = 0
    """When its pack was built; 0 if unknown."""
    model: str = ""
    provider: str = ""
    usage: Usage | None = None
    """As the provider reported it; None if it reported none."""
    budget: int = 0
    used: int = 0
    """The tokens of the pack, as estimated."""
    breakdown: dict[Section, int] = {}
    cost: CallCost | None = None
    """None without a reported usage, or if the price of the model is unknown."""
    cache: CacheReport = CacheReport()
    added: int = 0
    gone: int = 0
    changed: int = 0
    """The numbers of candidates that changed against the call before, if both have a pack."""
    redacted: int = 0
    """Superseded values in the history that the guard hid or marked."""
    exposed: int = 0
    """Superseded values in the history that were still shown."""
    boundaries: tuple[Boundary, ...] = ()
    """Between the call before and this one, oldest first."""
