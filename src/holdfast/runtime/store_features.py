"""What a store can have beside the event store: found by its methods, so that a store without them still opens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.errors import StoreFeatureMissing
from holdfast.ports import DeliveryQueue, PassageIndex

_INDEX_METHODS = tuple(name for name in vars(PassageIndex) if not name.startswith("_"))
_QUEUE_METHODS = tuple(name for name in vars(DeliveryQueue) if not name.startswith("_"))


def find_index(store: Any) -> PassageIndex | None:
    """The store itself, if it has an index of passages."""
    index: PassageIndex | None = store if all(has_method(store, name) for name in _INDEX_METHODS) else None
    return index


def find_queue(store: Any) -> DeliveryQueue | None:
    """The store itself, if workers can share its outbox."""
    queue: DeliveryQueue | None = store if all(has_method(store, name) for name in _QUEUE_METHODS) else None
    return queue


def require_index(store: Any) -> PassageIndex:
    """The store as an index of passages, or StoreFeatureMissing. For an async store, pass the blocking one in it."""
    index = find_index(store)
    if index is None:
        raise StoreFeatureMissing(
            store=type(store).__name__, feature="PassageIndex", methods=_missing(store, _INDEX_METHODS)
        )
    return index


def require_queue(store: Any) -> DeliveryQueue:
    """The store as a queue of deliveries, or StoreFeatureMissing. For an async store, pass the blocking one in it."""
    queue = find_queue(store)
    if queue is None:
        raise StoreFeatureMissing(
            store=type(store).__name__, feature="DeliveryQueue", methods=_missing(store, _QUEUE_METHODS)
        )
    return queue


def find_method(store: Any, name: str) -> Callable[..., Any]:
    """A method of a store, or StoreFeatureMissing."""
    try:
        method: Callable[..., Any] = getattr(store, name)
    except AttributeError:
        blocking = getattr(store, "blocking", store)
        if name in _INDEX_METHODS:
            require_index(blocking)
        elif name in _QUEUE_METHODS:
            require_queue(blocking)
        raise
    return method


def _missing(store: Any, names: tuple[str, ...]) -> str:
    return ", ".join(name for name in names if not has_method(store, name))


def has_method(store: object, name: str) -> bool:
    """Whether a store has a method. It may be any object."""
    try:
        return callable(getattr(store, name, None))
    except Exception:  # noqa: BLE001 - the attributes of a foreign object can raise anything
        return False
