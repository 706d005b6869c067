"""What telemetry costs: record and pack without it, with no provider set, and with the SDK of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

import holdfast
from benchmarks.harness import FSYNC, Bench, Samples, Turn, each_us, limit_met, measure_each, time_ratio
from benchmarks.report import Goal, Line, Table, micros

GOAL_OFF = Goal("at most", 1.1)
GOAL_ON = Goal("at most", 2.5)
NONE, UNSET, ON = "none", "no provider", "on"
MESSAGES = 200
"""Of the session that is packed."""
BUDGET = 4_000


class DiscardingExporter(SpanExporter):
    """Takes spans and drops them: what a collector costs is not the question."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002 - named by the base class
        return SpanExportResult.SUCCESS


def build_telemetry() -> dict[str, holdfast.Telemetry | None]:
    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(DiscardingExporter()))
    meters = MeterProvider([InMemoryMetricReader()])
    return {
        NONE: None,
        UNSET: holdfast.Telemetry(),
        ON: holdfast.Telemetry(tracer_provider=tracers, meter_provider=meters),
    }


def open_session(bench: Bench, store: str, name: str, telemetry: holdfast.Telemetry | None) -> holdfast.Session:
    address = "memory:" if store == "memory" else str(bench.file(f"{name}.db".replace(" ", "-")))
    session = holdfast.open(address, telemetry=telemetry).create_session("chat")
    for number in range(MESSAGES):
        session.record("user" if number % 2 == 0 else "assistant", f"Message {number} about the order and the lamp.")
    return session


def record_turn(session: holdfast.Session, count: int) -> Turn:
    texts = [f"Note {number}: the lamp is on its way." for number in range(count)]
    return lambda: measure_each(lambda text: session.record("user", text), texts)


def pack_turn(session: holdfast.Session, count: int) -> Turn:
    return lambda: measure_each(lambda _: session.pack("Where is the lamp?", budget=BUDGET, settle=False), range(count))


def run(bench: Bench) -> Table:
    rounds, count = bench.pick(15, 5), bench.pick(200, 60)
    kinds: dict[str, tuple[str, int, Callable[[holdfast.Session, int], Turn]]] = {
        "record, in memory": ("memory", count, record_turn),
        "record, on SQLite": ("sqlite", count, record_turn),
        "pack, in memory": ("memory", count // 4, pack_turn),
    }
    lines: list[Line] = []
    for what, (store, operations, build) in kinds.items():
        turns = {
            name: build(open_session(bench, store, name, telemetry), operations)
            for name, telemetry in build_telemetry().items()
        }
        lines += _compare(what, bench.in_turns(rounds, turns, slices=3))
    return Table(
        name="telemetry",
        title="what telemetry adds to a record and to a pack",
        ours="with telemetry",
        theirs="without",
        lines=lines,
        notes=[
            f"{rounds} rounds in turns. The pack is of a session of {MESSAGES} messages, at {BUDGET} tokens.",
            '"No provider": holdfast.open(…, telemetry=Telemetry()) in a program that has set up no SDK.',
            '"On": the SDK, with its batch processor, an exporter that drops the spans, and a reader of metrics.',
        ],
    )


def _compare(what: str, samples: Samples) -> list[Line]:
    return [
        Line(
            what=f"{what}, {name}",
            ours=micros(each_us(samples[name])),
            theirs=micros(each_us(samples[NONE])),
            ratio=time_ratio(samples[name], samples[NONE]),
            goal=goal,
            limit=limit_met(samples[name], samples[FSYNC]),
        )
        for name, goal in ((UNSET, GOAL_OFF), (ON, GOAL_ON))
    ]
