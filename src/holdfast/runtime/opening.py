"""From an address to an engine."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import codec
from holdfast.adapters.system import RandomIds, SystemClock
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.context.levels import Custom
from holdfast.core.previews import Spooling
from holdfast.errors import ExtraMissing, InvalidContent, InvalidUrl, shown
from holdfast.flows import maintain
from holdfast.flows.load import StateCache
from holdfast.flows.place import Context
from holdfast.flows.strategies import checked_strategies
from holdfast.model import limits
from holdfast.model.addresses import POSTGRES, shown_address
from holdfast.model.frames import Weights
from holdfast.model.names import checked_name, checked_whole
from holdfast.model.pack import Brief, checked_brief
from holdfast.model.plan import Faithful, PlanPolicy, Prices, checked_policy
from holdfast.model.policy import Ladder, Policy
from holdfast.model.prices import PRICES, checked_prices
from holdfast.ports import BlobStore, Clock, Detector, EventStore, IdSource, Summarizer, TokenCounter
from holdfast.runtime.care import BLOB_FOLDER, Bodies, checked_path
from holdfast.runtime.drive import Turns, drive
from holdfast.runtime.engine import Engine
from holdfast.storage.blobs.folder import FolderBlobs
from holdfast.storage.memory import MemoryBlobs, MemoryStore
from holdfast.storage.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from holdfast.runtime.async_engine import AsyncEngine
    from holdfast.storage.threaded import ThreadedStore

_SQLITE = "sqlite:///"


def open(
    url: str | os.PathLike[str],
    *,
    tenant: str = "default",
    principal: str = "local",
    clock: Clock | None = None,
    ids: IdSource | None = None,
    counter: TokenCounter | None = None,
    cached_streams: int = limits.CACHED_STREAMS,
    cached_bytes: int = limits.CACHED_BYTES,
    weights: Weights | None = None,
    policy: Policy | None = None,
    detector: Detector | None = None,
    spooling: Spooling | None = None,
    compaction: PlanPolicy | None = None,
    prices: Sequence[Prices] = (),
    summarizer: Summarizer | None = None,
    briefs: Mapping[str, Brief] | None = None,
    strategies: Mapping[str, Custom] | None = None,
) -> Engine:
    """Open a store: a file name, "sqlite:///path/to/file.db", "postgresql://…", or "memory:" for one that is gone with the
    process. `weights` says what tokens of each kind count against the budgets of frames, `policy` how facts are judged,
    `detector` finds in what is said what changes them: without one, rules that need no model. `spooling` says what is too
    long to be shown whole, and how much of it is; `compaction` when a history is shortened, and how; `prices` what models
    cost, before what is known of them; `summarizer` makes the summaries: without one, an extract that needs no
    model; `briefs` are what packs tell someone in a role first; `strategies` are compaction strategies of your own, by the
    names that `pack` and `compact` take."""
    cache = _cache(cached_streams, cached_bytes)
    context = _context(
        tenant,
        principal,
        clock,
        ids,
        counter,
        cache,
        weights,
        policy,
        detector,
        spooling,
        compaction,
        prices,
        summarizer,
        briefs,
        strategies,
    )
    store, blobs = _stores(url, cache)
    return Engine(store, blobs, context(blobs))


async def open_async(
    url: str | os.PathLike[str],
    *,
    tenant: str = "default",
    principal: str = "local",
    clock: Clock | None = None,
    ids: IdSource | None = None,
    counter: TokenCounter | None = None,
    cached_streams: int = limits.CACHED_STREAMS,
    cached_bytes: int = limits.CACHED_BYTES,
    weights: Weights | None = None,
    policy: Policy | None = None,
    detector: Detector | None = None,
    spooling: Spooling | None = None,
    compaction: PlanPolicy | None = None,
    prices: Sequence[Prices] = (),
    summarizer: Summarizer | None = None,
    briefs: Mapping[str, Brief] | None = None,
    strategies: Mapping[str, Custom] | None = None,
) -> AsyncEngine:
    """`open` for an event loop: the same engine, awaited."""
    import asyncio  # noqa: PLC0415 - who blocks has no need of it, and it is half the time of an import

    from holdfast.runtime.async_engine import AsyncEngine  # noqa: PLC0415 - the same

    cache = _cache(cached_streams, cached_bytes)
    context = _context(
        tenant,
        principal,
        clock,
        ids,
        counter,
        cache,
        weights,
        policy,
        detector,
        spooling,
        compaction,
        prices,
        summarizer,
        briefs,
        strategies,
    )
    store, blobs = await asyncio.to_thread(_stores, url, cache)
    return AsyncEngine(_awaitable(store), blobs, context(blobs))


def _awaitable(store: EventStore) -> ThreadedStore:
    from holdfast.storage.threaded import ThreadedStore  # noqa: PLC0415 - who blocks has no need of it

    if isinstance(store, MemoryStore | SqliteStore):
        return ThreadedStore(store)
    from holdfast.storage.postgres.async_store import AsyncPostgresStore  # noqa: PLC0415 - an extra
    from holdfast.storage.postgres.store import PostgresStore  # noqa: PLC0415 - the same

    assert isinstance(store, PostgresStore), "these are all the stores that can be opened"
    return AsyncPostgresStore(store)


def _context(
    tenant: str,
    principal: str,
    clock: Clock | None,
    ids: IdSource | None,
    counter: TokenCounter | None,
    cache: StateCache,
    weights: Weights | None,
    policy: Policy | None,
    detector: Detector | None,
    spooling: Spooling | None,
    compaction: PlanPolicy | None,
    prices: Sequence[Prices],
    summarizer: Summarizer | None,
    briefs: Mapping[str, Brief] | None,
    strategies: Mapping[str, Custom] | None,
) -> Callable[[BlobStore], Context]:
    """What everything is done in, but for the blob store: that is opened only when all this is found to be in order."""
    spooled = _checked_spooling(spooling)
    made = functools.partial(
        Context,
        checked_name("tenant", tenant),
        checked_name("principal", principal),
        cache,
        clock or SystemClock(),
        ids or RandomIds(),
        counter or EstimatingCounter(),
        weights=_checked_weights(weights),
        policy=_checked_policy(policy),
        detector=_checked_detector(detector),
        spooling=spooled,
        compaction=checked_policy(compaction, Faithful()),
        prices=_checked_table(prices),
        summarizer=_checked_summarizer(summarizer),
        briefs=_checked_briefs(briefs),
        strategies=checked_strategies(strategies),
    )
    return lambda blobs: made(Bodies(blobs, spooled))


def _cache(streams: int, weight: int) -> StateCache:
    return StateCache(checked_whole("cached_streams", streams, 1), checked_whole("cached_bytes", weight))


def _checked_weights(weights: object) -> Weights:
    if weights is None:
        return Weights()
    if type(weights) is not Weights:
        raise InvalidContent(reason=f"{shown(weights)} are no weights: pass a holdfast.Weights")
    for field in Weights.__struct_fields__:
        checked_whole(f"the weight of {field}", getattr(weights, field), 0, limits.WEIGHT)
    return weights


def _checked_spooling(spooling: object) -> Spooling:
    if spooling is None:
        return Spooling()
    if type(spooling) is not Spooling:
        raise InvalidContent(reason=f"{shown(spooling)} does not say what to spool: pass a holdfast.Spooling")
    checked_whole("the threshold of spooling", spooling.threshold, 0, limits.PAYLOAD_BYTES)
    checked_whole("the preview of spooling", spooling.preview, 0, limits.SPOOL_BYTES)
    for name in ("result_share", "message_share", "preview_share"):
        share = getattr(spooling, name)
        if type(share) not in (int, float) or not 0 <= share <= 1:
            raise InvalidContent(reason=f"{name} of spooling is {shown(share)}, not a share of a budget from 0 to 1")
    return spooling


def _checked_table(prices: object) -> tuple[Prices, ...]:
    if type(prices) not in (list, tuple):
        raise InvalidContent(reason=f"{shown(prices)} is no table of prices: pass a list of holdfast.Prices")
    return (*map(checked_prices, prices), *PRICES)  # type: ignore[call-overload]


def _checked_briefs(briefs: object) -> dict[str, Brief]:
    if briefs is None:
        return {}
    if type(briefs) is not dict:
        raise InvalidContent(reason=f"{shown(briefs)} are no briefs: pass a dict from roles to holdfast.Brief")
    return {
        "" if type(role) is str and not role else checked_name("role", role): checked_brief(each)
        for role, each in briefs.items()
    }


def _checked_summarizer(summarizer: object) -> Summarizer | None:
    if summarizer is None:
        return None
    if not callable(getattr(summarizer, "summarize", None)) or not hasattr(summarizer, "prices"):
        raise InvalidContent(
            reason=f"{shown(summarizer)} is no summarizer: it needs summarize(draft, tokens) and prices"
        )
    if summarizer.prices is not None:
        checked_prices(summarizer.prices)
    return summarizer  # type: ignore[return-value]


def _checked_policy(policy: object) -> Policy:
    """What is to be relied on when facts are judged is looked at once, here."""
    if policy is None:
        return Policy()
    if type(policy) is not Policy or type(policy.ladder) is not Ladder:
        raise InvalidContent(reason=f"{shown(policy)} is no policy: pass a holdfast.Policy with a holdfast.Ladder")
    try:
        codec.decode(codec.encode(policy), Policy)  # all of the types that it should have
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise InvalidContent(reason=f"the policy cannot be used: {error}") from error
    ladder = policy.ladder
    for each in ladder.rungs:
        if " ".join(checked_name("a rung of the ladder", each).lower().replace("_", " ").split()) != each:
            raise InvalidContent(reason=f"the rung {shown(each)} is to be written in lower case, with single blanks")
    if type(ladder.rungs) is not tuple or not ladder.rungs or len({*ladder.rungs}) != len(ladder.rungs):
        raise InvalidContent(reason="the rungs of a ladder are a tuple of names, each once: pass at least one")
    named = [*ladder.aliases.values(), *ladder.titles.values(), *policy.speakers.values(), policy.channel]
    for each in (*named, *policy.source_types.values()):
        if each not in ladder.rungs:
            raise InvalidContent(
                reason=f"{shown(each)} is not a rung of the ladder: name one of {', '.join(ladder.rungs)}"
            )
    for word in (*policy.time_sensitive, policy.endorse, *ladder.aliases, *ladder.titles):
        checked_name("a word of the policy", word)
    if type(policy.time_sensitive) is not tuple or not {*policy.speakers} <= {"user", "assistant", "tool", "system"}:
        raise InvalidContent(
            reason="time_sensitive is a tuple of words, speakers are roles: user, assistant, tool, system"
        )
    if not 0 <= policy.ask_from <= policy.apply_from <= 1:
        raise InvalidContent(reason="ask_from and apply_from go from 0 to 1, in this order: pass them so")
    return policy


def _checked_detector(detector: Any) -> Detector | None:
    if detector is None:
        return None
    if not callable(getattr(detector, "detect", None)):
        raise InvalidContent(reason=f"{shown(detector)} is no detector: pass one with a name and a method detect()")
    checked_name("the name of a detector", getattr(detector, "name", None))
    found: Detector = detector
    return found


def _stores(url: str | os.PathLike[str], cache: StateCache) -> tuple[EventStore, BlobStore]:
    address = checked_path(url)
    if address in ("memory:", ":memory:"):
        return MemoryStore(), MemoryBlobs()
    store: EventStore
    blobs: BlobStore
    if address.startswith(POSTGRES):
        store, blobs = _postgres(address, cache)
    else:
        path = _path(address)
        store, blobs = SqliteStore(path), FolderBlobs(path + BLOB_FOLDER)
    try:
        drive(maintain.rebuild_if_old(), store, Turns())
    except BaseException:
        store.close()
        raise
    return store, blobs


def _postgres(address: str, cache: StateCache) -> tuple[EventStore, BlobStore]:
    try:
        from holdfast.storage.postgres.blobs import PostgresBlobs  # noqa: PLC0415 - an extra
        from holdfast.storage.postgres.hints import token_of  # noqa: PLC0415
        from holdfast.storage.postgres.store import PostgresStore  # noqa: PLC0415
    except ImportError as error:
        raise ExtraMissing(what="a store on PostgreSQL", extra="postgres") from error
    store = PostgresStore(address)
    store.listen(lambda tokens: cache.doubt(None if tokens is None else lambda stream: token_of(stream) in tokens))
    return store, PostgresBlobs(store)


def _path(address: str) -> str:
    scheme, separator, _ = address.partition("://")
    if not separator:
        return address
    path = address.removeprefix(_SQLITE)
    if path not in (address, "", ":memory:"):
        return path
    raise InvalidUrl(url=shown_address(address), reason=f"no store for {scheme!r} is known here")
