"""What a server counts, for Prometheus.

Laws: a scrape of any worker gives the totals of all of them: with several workers the values are in files of one folder
that all of them share, and what a killed worker counted is still in the totals. Labels are names of routes, methods and
classes of status: never an id, a tenant or a path, so their number is bounded.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

import holdfast
from holdfast.model.log import Append, AppendResult
from holdfast.storage.threaded import ThreadedStore

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable with the folder of the values; the library of Prometheus reads it when it is imported."""
CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""The bounds of the histogram of latencies."""
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))

_registry = CollectorRegistry()


def _build_gauge(name: str, text: str, labels: tuple[str, ...] = ()) -> Gauge:
    """A gauge whose value is the sum over the workers that live."""
    return Gauge(name, text, labels, multiprocess_mode="livesum", registry=_registry)


REQUESTS = Counter(
    "holdfast_requests",
    "Requests that were answered, by route and class of status; 499: the client went away.",
    ("route", "method", "status"),
    registry=_registry,
)
LATENCY = Histogram(
    "holdfast_request_seconds",
    "Time until the answer was complete, or until the stream began.",
    ("route",),
    buckets=SECONDS,
    registry=_registry,
)
RUNNING = _build_gauge("holdfast_requests_running", "Requests in work, without streams.")
WAITING = _build_gauge("holdfast_requests_waiting", "Requests that wait for others to end.")
STREAMS = _build_gauge("holdfast_streams_open", "Streams that are open.")
REFUSED = Counter(
    "holdfast_requests_refused", "Requests that the server was too busy for.", ("reason",), registry=_registry
)
EVENTS = Counter("holdfast_events_appended", "Events that were stored.", registry=_registry)
TOKENS = Counter(
    "holdfast_upstream_tokens", "Tokens that upstream models counted.", ("upstream", "kind"), registry=_registry
)
STORE = _build_gauge("holdfast_store", "The connections to the store, and the calls that wait for it.", ("what",))


def count_request(route: str, method: str, status: int, seconds: float) -> None:
    """Count an answer. `status` 499: the client went away before it."""
    shown = method if method in METHODS else "other"
    REQUESTS.labels(route, shown, f"{status // 100}xx" if status != 499 else "499").inc()
    LATENCY.labels(route).observe(seconds)


def count_tokens(upstream: str, usage: holdfast.Usage) -> None:
    """Count what a call of an upstream model has spent. `upstream` is its host: never a name that a caller sends."""
    TOKENS.labels(upstream, "input").inc(usage.input_tokens)
    TOKENS.labels(upstream, "output").inc(usage.output_tokens)
    TOKENS.labels(upstream, "cache_read").inc(usage.cache_read_tokens)


def count_appends(store: ThreadedStore) -> None:
    """Count what is stored through this store from now on."""
    append = store.append

    async def append_counted(command: Append) -> AppendResult:
        result = await append(command)
        if not result.repeated:
            EVENTS.inc(sum(len(write.events) for write in command.writes))
        return result

    setattr(store, "append", append_counted)  # noqa: B010 - of this object only


def measure_store(store: ThreadedStore) -> None:
    """Set the gauges of the store."""
    for name, value in store.load().items():
        STORE.labels(name).set(value)


def render_metrics() -> bytes:
    """All values as Prometheus reads them; with several workers, the totals of all."""
    folder = os.environ.get(FOLDER_VARIABLE)
    if not folder:
        return generate_latest(_registry)
    _forget_dead(folder)
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry, path=folder)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def _forget_dead(folder: str) -> None:
    """Take the gauges of killed workers out of the sums: nothing of theirs runs any more."""
    for pid in {int(path.stem.rpartition("_")[2]) for path in Path(folder).glob("gauge_live*_*.db")}:
        if not _is_alive(pid):
            with contextlib.suppress(FileNotFoundError):  # another worker was first
                multiprocess.mark_process_dead(pid, folder)  # type: ignore[no-untyped-call]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def iterate_samples() -> Iterator[tuple[str, dict[str, Any], float]]:
    """The values of this process: name, labels and number."""
    for family in _registry.collect():
        for sample in family.samples:
            yield sample.name, dict(sample.labels), sample.value
