"""Open an engine: `holdfast.open` and `holdfast.open_async`. All options are checked before the store is opened."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

import holdfast
from holdfast import codec
from holdfast.adapters.system import RandomIds, SystemClock
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.core.history.levels import CustomFunction
from holdfast.core.history.previews import Spooling
from holdfast.errors import ExtraMissing, InvalidArgument, InvalidUrl, describe_value
from holdfast.flows import maintain
from holdfast.flows.context import EngineContext
from holdfast.flows.history.compaction import check_strategies
from holdfast.flows.load import StateCache
from holdfast.model import limits
from holdfast.model.frames.frames import TokenWeights
from holdfast.model.history.plans import Faithful, PlanPolicy, check_policy
from holdfast.model.history.prices import PRICES, Prices, check_prices
from holdfast.model.names import check_name, check_options, check_whole
from holdfast.model.packs.pack import Brief, check_brief
from holdfast.model.policy import AuthorityLadder, Policy
from holdfast.ports import (
    BlobStore,
    Clock,
    Detector,
    Embedder,
    EventStore,
    Extractor,
    IdSource,
    Memory,
    Summarizer,
    TokenCounter,
)
from holdfast.runtime.bodies import VerifiedBodies
from holdfast.runtime.driver import StreamLocks, drive
from holdfast.runtime.engine import Engine
from holdfast.runtime.logs import log
from holdfast.runtime.maintenance import BLOB_FOLDER, check_path
from holdfast.runtime.options import EngineOptions
from holdfast.storage.addresses import POSTGRES_SCHEMES, mask_address
from holdfast.storage.blobs.folder import FolderBlobs
from holdfast.storage.memory import MemoryBlobs, MemoryStore
from holdfast.storage.sqlite.store import SqliteStore

if TYPE_CHECKING:
    from holdfast.runtime.telemetry import Telemetry
    from holdfast.storage.threaded import ThreadedStore

_SQLITE_PREFIX = "sqlite:///"
_POSTGRES = "holdfast.storage.postgres.store"
"""Loaded only for a store on PostgreSQL, which needs an extra."""
_STORE_METHODS = (*(name for name in vars(EventStore) if not name.startswith("_")), "search")
_BLOB_METHODS = tuple(name for name in vars(BlobStore) if not name.startswith("_"))


def open(
    store: str | os.PathLike[str] | EventStore,
    *,
    blobs: BlobStore | None = None,
    tenant: str = "default",
    principal: str = "local",
    counter: TokenCounter | None = None,
    policy: Policy | None = None,
    compaction: PlanPolicy | None = None,
    briefs: Mapping[str, Brief] | None = None,
    **options: Unpack[EngineOptions],
) -> Engine:
    """Open an engine on a store, and create the store if it does not exist.

        engine = holdfast.open("agent.db")
        engine = holdfast.open("postgresql://app@db.example/agents")
        engine = holdfast.open(MyStore(), blobs=MyBlobs())

    `store` is a file name, "sqlite:///path/to/file.db", "postgresql://…", "memory:" for a store that ends with the
    process, or an object with the methods of holdfast.ports.EventStore. The engine closes the store. `blobs` is where
    large bodies are stored; every store of Holdfast has a place for them, another store needs it.

    `tenant` is whose data the engine works on, `principal` who acts. `counter` counts tokens; the default is an
    estimate. `policy` decides how facts supersede each other, and `compaction` when a history is shortened. `briefs`
    are the system prompts, rules and tools of packs, by role; the brief of the empty role is the default.
    EngineOptions lists all other options."""
    check_options("open", EngineOptions, options)
    cache, build_context = _check_options(
        tenant=tenant,
        principal=principal,
        counter=counter,
        policy=policy,
        compaction=compaction,
        briefs=briefs,
        **options,
    )
    opened, bodies = _open_stores(store, blobs, cache)
    return Engine(opened, bodies, build_context(bodies), telemetry=options.get("telemetry"))


async def open_async(
    store: str | os.PathLike[str] | EventStore,
    *,
    blobs: BlobStore | None = None,
    tenant: str = "default",
    principal: str = "local",
    counter: TokenCounter | None = None,
    policy: Policy | None = None,
    compaction: PlanPolicy | None = None,
    briefs: Mapping[str, Brief] | None = None,
    **options: Unpack[EngineOptions],
) -> holdfast.AsyncEngine:
    """Open an engine for an event loop: open(), awaited. `store` and `blobs` are blocking objects; they run in
    threads."""
    check_options("open_async", EngineOptions, options)
    import asyncio  # noqa: PLC0415 - half the time of an import, and only needed here

    from holdfast.runtime.async_engine import AsyncEngine  # noqa: PLC0415 - the same

    cache, build_context = _check_options(
        tenant=tenant,
        principal=principal,
        counter=counter,
        policy=policy,
        compaction=compaction,
        briefs=briefs,
        **options,
    )
    opened, bodies = await asyncio.to_thread(_open_stores, store, blobs, cache)
    telemetry = options.get("telemetry")
    return AsyncEngine(_wrap_async(opened), bodies, build_context(bodies), telemetry=telemetry)


# Stores


def _open_stores(store: object, blobs: object, cache: StateCache) -> tuple[EventStore, BlobStore]:
    if blobs is not None and _find_missing_method(blobs, _BLOB_METHODS):
        raise InvalidArgument(argument="blobs", reason=_describe_missing(blobs, _BLOB_METHODS, "BlobStore"))
    is_address = type(store) is str or hasattr(type(store), "__fspath__")
    if not is_address and _find_missing_method(store, _STORE_METHODS):
        raise InvalidArgument(argument="store", reason=_describe_missing(store, _STORE_METHODS, "EventStore"))
    opened: Any = _open_address(check_path(store)) if is_address else store
    try:
        bodies: Any = _default_blobs(opened) if blobs is None else blobs
        drive(maintain.rebuild_if_old(), opened, StreamLocks())
        if _is_postgres(opened):
            _listen_for_changes(opened, cache)
    except BaseException:
        if is_address:
            opened.close()
        raise
    log("engine opened on %s", _describe_store(opened))
    return opened, bodies


def _find_missing_method(value: object, methods: Sequence[str]) -> str | None:
    try:
        return next((name for name in methods if not callable(getattr(value, name, None))), None)
    except Exception:  # noqa: BLE001 - the attributes of a foreign object can raise anything
        return methods[0]


def _describe_missing(value: object, methods: Sequence[str], port: str) -> str:
    missing = _find_missing_method(value, methods)
    address = "a file name, an address, or " if port == "EventStore" else ""
    return (
        f"{describe_value(value)} has no method {missing}(). Pass {address}an object with the methods of "
        f"holdfast.ports.{port}"
    )


def _open_address(address: str) -> EventStore:
    if address in ("memory:", ":memory:"):
        return MemoryStore()
    if not address.startswith(POSTGRES_SCHEMES):
        return SqliteStore(_sqlite_path(address))
    try:
        from holdfast.storage.postgres.store import PostgresStore  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise ExtraMissing(what="A store on PostgreSQL", extra="postgres") from error
    return PostgresStore(address)


def _sqlite_path(address: str) -> str:
    scheme, separator, _ = address.partition("://")
    if not separator:
        return address
    path = address.removeprefix(_SQLITE_PREFIX)
    if path not in (address, "", ":memory:"):
        return path
    raise InvalidUrl(url=mask_address(address), reason=f"there is no store for the scheme {scheme!r}")


def _default_blobs(store: EventStore) -> BlobStore:
    """The store itself if it is a blob store too, or the blob store that belongs to a store of Holdfast."""
    if _find_missing_method(store, _BLOB_METHODS) is None:
        return store  # type: ignore[return-value]
    if isinstance(store, MemoryStore):
        return MemoryBlobs()
    if isinstance(store, SqliteStore):
        return FolderBlobs(store.path + BLOB_FOLDER)
    if _is_postgres(store):
        from holdfast.storage.postgres.blobs import PostgresBlobs  # noqa: PLC0415 - an extra

        return PostgresBlobs(store)  # type: ignore[arg-type]
    reason = f"{type(store).__name__} is not a store of Holdfast: say where large bodies are stored, with blobs=…"
    raise InvalidArgument(argument="blobs", reason=reason)


def _is_postgres(store: object) -> bool:
    module: Any = sys.modules.get(_POSTGRES)
    return module is not None and isinstance(store, module.PostgresStore)


def _listen_for_changes(store: Any, cache: StateCache) -> None:
    """Have the cache doubt the states of streams that other processes wrote to."""
    from holdfast.storage.postgres.hints import token_of  # noqa: PLC0415 - an extra

    store.listen(lambda tokens: cache.doubt(None if tokens is None else lambda stream: token_of(stream) in tokens))


def _wrap_async(store: EventStore) -> ThreadedStore:
    if _is_postgres(store):
        from holdfast.storage.postgres.async_store import AsyncPostgresStore  # noqa: PLC0415 - an extra

        return AsyncPostgresStore(store)  # type: ignore[arg-type]
    from holdfast.storage.threaded import ThreadedStore  # noqa: PLC0415 - needs asyncio

    return ThreadedStore(store)


def _describe_store(store: Any) -> str:
    """Where a store is, without secrets."""
    where = getattr(store, "path", None) or getattr(getattr(store, "address", None), "what", None)
    return f"{type(store).__name__} {where}" if type(where) is str else type(store).__name__


# Options


def _check_options(
    *,
    tenant: str,
    principal: str,
    counter: TokenCounter | None,
    policy: Policy | None,
    compaction: PlanPolicy | None,
    briefs: Mapping[str, Brief] | None,
    detector: Detector | None = None,
    summarizer: Summarizer | None = None,
    memory: Memory | None = None,
    embedder: Embedder | None = None,
    extractor: Extractor | None = None,
    prices: Sequence[Prices] = (),
    spooling: Spooling | None = None,
    strategies: Mapping[str, CustomFunction] | None = None,
    weights: TokenWeights | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    telemetry: Telemetry | None = None,
    cached_streams: int = limits.CACHED_STREAMS,
    cached_bytes: int = limits.CACHED_BYTES,
) -> tuple[StateCache, Callable[[BlobStore], EngineContext]]:
    """Check all options; return the cache, and a function that builds the context on a blob store."""
    cache = StateCache(check_whole("cached_streams", cached_streams, 1), check_whole("cached_bytes", cached_bytes))
    previews = _check_spooling(spooling)
    _check_telemetry(telemetry)
    build = functools.partial(
        EngineContext,
        check_name("tenant", tenant),
        check_name("principal", principal),
        cache,
        clock or SystemClock(),
        ids or RandomIds(),
        counter or EstimatingCounter(),
        weights=_check_weights(weights),
        policy=_check_policy(policy),
        detector=_check_detector(detector),
        spooling=previews,
        compaction=check_policy(compaction, Faithful()),
        prices=_check_price_table(prices),
        summarizer=_check_summarizer(summarizer),
        memory=_check_port("memory", memory, "take", "recall", "bootstrap", "forget"),
        embedder=_check_embedder(embedder),
        extractor=_check_port("extractor", extractor, "extract"),
        briefs=_check_briefs(briefs),
        strategies=check_strategies(strategies),
    )
    return cache, lambda blobs: build(VerifiedBodies(blobs, previews))


def _check_weights(weights: object) -> TokenWeights:
    if weights is None:
        return TokenWeights()
    if type(weights) is not TokenWeights:
        raise _wrong_type("weights", weights, "a holdfast.types.TokenWeights")
    for field in TokenWeights.__struct_fields__:
        check_whole(f"weights.{field}", getattr(weights, field), 0, limits.WEIGHT)
    return weights


def _wrong_type(argument: str, value: object, wanted: str) -> InvalidArgument:
    return InvalidArgument(argument=argument, reason=f"{describe_value(value)} is not {wanted}")


def _check_spooling(spooling: object) -> Spooling:
    if spooling is None:
        return Spooling()
    if type(spooling) is not Spooling:
        raise _wrong_type("spooling", spooling, "a holdfast.types.Spooling")
    check_whole("spooling.threshold", spooling.threshold, 0, limits.PAYLOAD_BYTES)
    check_whole("spooling.preview", spooling.preview, 0, limits.SPOOL_BYTES)
    for name in ("result_share", "message_share", "preview_share"):
        share = getattr(spooling, name)
        if type(share) not in (int, float) or not 0 <= share <= 1:
            raise _wrong_type(f"spooling.{name}", share, "a number from 0 to 1")
    return spooling


def _check_telemetry(telemetry: object) -> None:
    if telemetry is None:
        return
    from holdfast.runtime.telemetry import Telemetry  # noqa: PLC0415 - rarely needed

    if not isinstance(telemetry, Telemetry):
        raise _wrong_type("telemetry", telemetry, "a holdfast.Telemetry")


def _check_price_table(prices: object) -> tuple[Prices, ...]:
    if type(prices) not in (list, tuple):
        raise _wrong_type("prices", prices, "a list of holdfast.Prices")
    return (*map(check_prices, prices), *PRICES)  # type: ignore[call-overload]


def _check_briefs(briefs: object) -> dict[str, Brief]:
    if briefs is None:
        return {}
    if type(briefs) is not dict:
        raise _wrong_type("briefs", briefs, "a dict from role names to holdfast.Brief")
    return {
        "" if type(role) is str and not role else check_name("role", role): check_brief(brief)
        for role, brief in briefs.items()
    }


def _check_summarizer(summarizer: Any) -> Summarizer | None:
    if summarizer is None:
        return None
    if not callable(getattr(summarizer, "summarize", None)) or not hasattr(summarizer, "prices"):
        raise _wrong_type("summarizer", summarizer, "an object with summarize(draft, tokens) and `prices`")
    if summarizer.prices is not None:
        check_prices(summarizer.prices)
    checked: Summarizer = summarizer
    return checked


def _check_port(argument: str, port: Any, *methods: str) -> Any:
    """A port with a name, or None."""
    if port is None:
        return None
    if _find_missing_method(port, methods) is not None:
        wanted = f"an object with a `name` and the methods {', '.join(f'{each}()' for each in methods)}"
        raise _wrong_type(argument, port, wanted)
    check_name(f"{argument}.name", getattr(port, "name", None))
    return port


def _check_embedder(embedder: Any) -> Embedder | None:
    checked: Embedder | None = _check_port("embedder", embedder, "embed")
    if checked is not None:
        check_whole("embedder.dimensions", getattr(checked, "dimensions", None), 1, limits.VECTOR_DIMENSIONS)
    return checked


def _check_policy(policy: object) -> Policy:
    if policy is None:
        return Policy()
    if type(policy) is not Policy or type(policy.ladder) is not AuthorityLadder:
        raise _wrong_type("policy", policy, "a holdfast.Policy with a holdfast.types.AuthorityLadder")
    try:
        codec.decode(codec.encode(policy), Policy)  # fails if a field has a wrong type
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(argument="policy", reason=f"a field has a wrong type: {error}") from error
    _check_ladder(policy)
    if type(policy.time_sensitive) is not tuple:
        raise _wrong_type("policy.time_sensitive", policy.time_sensitive, "a tuple of words")
    if not {*policy.speakers} <= {"user", "assistant", "tool", "system"}:
        raise InvalidArgument(argument="policy.speakers", reason="the roles are user, assistant, tool and system")
    if not 0 <= policy.ask_from <= policy.apply_from <= 1:
        reason = (
            f"{policy.ask_from} and apply_from={policy.apply_from} are not in the order 0 ≤ ask_from ≤ apply_from ≤ 1"
        )
        raise InvalidArgument(argument="policy.ask_from", reason=reason)
    return policy


def _check_ladder(policy: Policy) -> None:
    ladder = policy.ladder
    for name in ladder.rungs:
        if " ".join(check_name("policy.ladder.rungs", name).lower().replace("_", " ").split()) != name:
            reason = f"write {describe_value(name)} in lower case, with single blanks"
            raise InvalidArgument(argument="policy.ladder.rungs", reason=reason)
    if type(ladder.rungs) is not tuple or not ladder.rungs or len({*ladder.rungs}) != len(ladder.rungs):
        raise InvalidArgument(argument="policy.ladder.rungs", reason="pass a tuple of at least one name, each once")
    named = [*ladder.aliases.values(), *ladder.titles.values(), *policy.speakers.values(), policy.channel]
    for name in (*named, *policy.source_types.values()):
        if name not in ladder.rungs:
            reason = f"{describe_value(name)} is not a rung of its ladder: name one of {', '.join(ladder.rungs)}"
            raise InvalidArgument(argument="policy", reason=reason)
    for word in (*policy.time_sensitive, policy.endorse, *ladder.aliases, *ladder.titles):
        check_name("policy", word)


def _check_detector(detector: object) -> Detector | None:
    checked: Detector | None = _check_port("detector", detector, "detect")
    return checked
