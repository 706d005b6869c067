"""The SDK of OpenTelemetry with exporters in memory, for tests of telemetry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, Sampler

import holdfast

Tree = tuple[str, list[Any]]
"""The name of a span, and the trees of its children in the order in which they began."""


class Recorder:
    """Providers of an SDK, and what they exported."""

    def __init__(self, *, contents: bool = False, sampler: Sampler = ALWAYS_ON) -> None:
        self._exporter = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracers = TracerProvider(sampler=sampler)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.tracers.get_tracer("test")
        self.telemetry = holdfast.Telemetry(
            tracer_provider=self.tracers, meter_provider=MeterProvider([self._reader]), contents=contents
        )

    @property
    def spans(self) -> list[ReadableSpan]:
        """The finished spans in the order in which they began."""
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def last(self, name: str) -> ReadableSpan:
        return self.named(name)[-1]

    def attributes(self, name: str) -> dict[str, Any]:
        """The attributes of the last span with this name."""
        return dict(self.last(name).attributes or {})

    def trees(self) -> list[Tree]:
        spans = self.spans
        trees: dict[int, Tree] = {span.context.span_id: (span.name, []) for span in spans}
        roots: list[Tree] = []
        for span in spans:
            above = None if span.parent is None else trees[span.parent.span_id]
            (roots if above is None else above[1]).append(trees[span.context.span_id])
        return roots

    def points(self) -> Iterator[tuple[str, dict[str, Any], Any]]:
        """The name, the attributes and the data of every series of the metrics."""
        data = self._reader.get_metrics_data()
        for resource in [] if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    for point in metric.data.data_points:
                        yield metric.name, dict(point.attributes or {}), point

    def sums(self) -> dict[str, float]:
        """The sum of every metric over all its series."""
        sums: dict[str, float] = {}
        for name, _, point in self.points():
            sums[name] = sums.get(name, 0) + getattr(point, "value", getattr(point, "sum", 0))
        return sums

    def export_all(self) -> str:
        """Everything that was exported, as text."""
        data = self._reader.get_metrics_data()
        return "\n".join([*(span.to_json() for span in self.spans), "" if data is None else data.to_json()])

    def clear(self) -> None:
        self._exporter.clear()
