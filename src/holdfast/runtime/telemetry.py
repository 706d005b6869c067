"""Spans and metrics of OpenTelemetry for what an engine does. Needs the extra `otel`.

Laws: without a Telemetry object, an operation pays one check of an attribute, and `opentelemetry` is not imported.
Telemetry changes no answer and no stored event, except that the `traceparent` of the current span becomes the `cause` of
events that have none. A failure of an exporter fails no operation. No contents are exported unless the caller asks for
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import msgspec

from holdfast.errors import ExtraMissing
from holdfast.flows.context import EngineContext
from holdfast.flows.effects import Effect, ExclusiveFlow, Flow, StoreCall
from holdfast.model.content import Source, Usage
from holdfast.model.history.events import ContextCompacted
from holdfast.model.log import Append, AppendResult
from holdfast.model.names import check_flag
from holdfast.model.sessions.messages import Message
from holdfast.render.pack import Pack
from holdfast.runtime import telemetry_attributes as names
from holdfast.runtime.logs import log
from holdfast.runtime.telemetry_attributes import Attributes, TracedOperation

if TYPE_CHECKING:
    from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider
    from opentelemetry.trace import Span, TracerProvider

P = ParamSpec("P")
T = TypeVar("T")

_SCOPE = "holdfast"
_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TOKENS = (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 1_024_000)
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_API_MODULES = ("opentelemetry.trace", "opentelemetry.metrics")
"""The modules of the providers that do nothing: those of the API, until a program sets one of an SDK."""


class Telemetry:
    """Spans and metrics of OpenTelemetry: pass it to `holdfast.open(…, telemetry=…)`.

        engine = holdfast.open("agent.db", telemetry=holdfast.Telemetry())

    Without arguments, the global providers of OpenTelemetry are used. As long as the program has set none, nothing is
    measured and nothing is exported.

    Spans have names, numbers and types of errors. With `contents=True` they also have the texts of messages, packs,
    tool calls, queries and errors.

    While telemetry is on, the W3C `traceparent` of the current span becomes the `cause` of every stored event for which
    the caller passes none. One object can serve any number of engines. Raises ExtraMissing without the extra `otel`."""

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        contents: bool = False,
    ) -> None:
        try:
            from opentelemetry import context, metrics, trace  # noqa: PLC0415 - an extra
        except ImportError as error:
            raise ExtraMissing(what="Telemetry", extra="otel") from error

        import holdfast  # noqa: PLC0415 - it is complete only now

        self._contents = check_flag("contents", contents)
        self._find_providers = (trace.get_tracer_provider, metrics.get_meter_provider)
        self._idle_tracers: object = trace.get_tracer_provider()
        self._idle_meters: object = metrics.get_meter_provider()
        used = (tracer_provider or self._idle_tracers, meter_provider or self._idle_meters)
        self._is_on = any(not type(each).__module__.startswith(_API_MODULES) for each in used)
        self._attach, self._detach = context.attach, context.detach
        self._set_span, self._current_span = trace.set_span_in_context, trace.get_current_span
        self._error_status = trace.StatusCode.ERROR
        self._tracer = trace.get_tracer(_SCOPE, holdfast.__version__, tracer_provider)
        self._meters = _Meters(metrics.get_meter(_SCOPE, holdfast.__version__, meter_provider))

    def __repr__(self) -> str:
        return f"<Telemetry contents={self._contents}>"

    def _trace(self, flow: Flow[T]) -> Flow[T]:
        """The flow, with a span around it if it is an operation that has one."""
        if not self._is_on and not self._check_providers():
            return flow
        operation = names.find_operation(flow)
        return self._follow(flow, None) if operation is None else self._run_in_span(flow, operation)

    def _check_providers(self) -> bool:
        """Whether the program has set a provider since this object was built. One that is set stays."""
        find_tracers, find_meters = self._find_providers
        self._is_on = find_tracers() is not self._idle_tracers or find_meters() is not self._idle_meters
        return self._is_on

    def _run_in_span(self, flow: Flow[T], operation: TracedOperation, parent: _OperationTrace | None = None) -> Flow[T]:
        trace = _OperationTrace(self, operation, names.read_arguments(flow), parent)
        trace.start()
        try:
            answer = yield from self._follow(flow, trace)
        except BaseException as error:
            trace.finish_failed(error)
            raise
        trace.finish(answer)
        return answer

    def _follow(self, flow: Flow[T], trace: _OperationTrace | None) -> Flow[T]:
        """Pass on the effects of a flow; note its appends, and add their cause."""
        try:
            effect = next(flow)
            while True:
                try:
                    answer = yield self._prepare(effect, trace)
                except BaseException as error:  # noqa: BLE001 - the flow may clean up or handle it
                    effect = flow.throw(error)
                else:
                    if trace is not None and isinstance(answer, AppendResult):
                        trace.note_append(effect, answer)
                    effect = flow.send(answer)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _prepare(self, effect: Effect, trace: _OperationTrace | None) -> Effect:
        if isinstance(effect, ExclusiveFlow):
            operation = None if effect.streams else names.find_operation(effect.flow)
            if operation is None:
                return ExclusiveFlow(effect.streams, self._follow(effect.flow, trace))
            return ExclusiveFlow((), self._run_in_span(effect.flow, operation, trace))
        if isinstance(effect, StoreCall) and effect.method == "append":
            (request,) = effect.args
            return StoreCall("append", (self._add_cause(request),))
        return effect

    def _add_cause(self, request: Append) -> Append:
        """The append with the `traceparent` of the current span as its cause, unless it has one."""
        if request.cause is not None:
            return request
        span = self._current_span().get_span_context()
        if not span.is_valid:
            return request
        return msgspec.structs.replace(
            request, cause=f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
        )


class _OperationTrace:
    """One operation: its span, and what it did. A failure in here is logged, and fails nothing."""

    def __init__(
        self,
        telemetry: Telemetry,
        operation: TracedOperation,
        arguments: Mapping[str, Any],
        parent: _OperationTrace | None,
    ) -> None:
        self._telemetry = telemetry
        self._operation = operation
        self._arguments = dict(arguments)
        self._parent = parent
        self._started_s = time.perf_counter()
        self._span: Span | None = None
        self._token: Any = None
        self._events = 0
        self._repeated = False
        self._compacted = False
        self._pack: Pack | None = None
        """The pack that a reply answers."""

    def note_append(self, effect: Effect, answer: AppendResult) -> None:
        """Note an append, or that a command with a known key was not executed again."""
        self._repeated = self._repeated or answer.repeated
        if isinstance(effect, StoreCall) and not answer.repeated:
            self._events += len(answer.events)
            if any(event.type == ContextCompacted.name for event in answer.events):
                self._compacted = True
                if self._parent is not None:
                    self._parent._compacted = True

    def start(self) -> None:
        _attempt(self._start)

    def finish(self, answer: object) -> None:
        _attempt(self._leave)
        attributes = _attempt(self._describe_end, answer) or {}
        _attempt(self._count, attributes)
        _attempt(self._end, attributes)

    def finish_failed(self, error: BaseException) -> None:
        _attempt(self._leave)
        attributes = names.describe_failure(error)
        if self._span is not None and self._telemetry._contents:
            _attempt(self._span.add_event, "exception", names.describe_error_text(error))
        _attempt(self._count, attributes)
        _attempt(self._end, attributes)

    def _start(self) -> None:
        telemetry = self._telemetry
        self._pack = _find_answered_pack(self._arguments)
        attributes = names.describe_start(self._operation, self._arguments, contents=telemetry._contents)
        name = " ".join([self._operation.span, *_tool_suffix(self._operation, attributes)])
        self._span = telemetry._tracer.start_span(name, attributes=attributes)
        self._token = telemetry._attach(telemetry._set_span(self._span))

    def _leave(self) -> None:
        if self._token is not None:
            self._telemetry._detach(self._token)

    def _describe_end(self, answer: object) -> Attributes:
        attributes: Attributes = {}
        if self._span is not None and self._span.is_recording():
            attributes = names.describe_answer(answer, contents=self._telemetry._contents)
            if self._operation.convention != names.EXECUTE_TOOL:
                attributes.pop(names.ERROR_TYPE, None)  # that a tool failed is no failure of who records it
            if self._pack is not None and attributes.get(names.MESSAGE_ROLES) == ["assistant"]:
                attributes |= names.describe_answered_pack(self._pack.manifest)
        if isinstance(answer, Pack):
            self._telemetry._meters.add_pack(answer)
        if self._events:  # usage is not counted again if the key was used before
            for message in names.find_messages(answer):
                attributes |= self._count_usage(message)
        return attributes

    def _count_usage(self, message: Message) -> Attributes:
        """Count the tokens and the cost of a reply; the cost is also an attribute."""
        context = names.read_context(self._arguments)
        if message.usage is None or context is None:
            return {}
        engine = context if isinstance(context, EngineContext) else context.engine
        source = message.source or Source()
        model = source.model or ("" if self._pack is None else _model_of(self._pack))
        cost = names.estimate_cost(message.usage, model, engine.prices) if model else None
        labels = {names.RESPONSE_MODEL: model, names.PROVIDER_NAME: source.provider or ""}
        labels = {name: value for name, value in labels.items() if value}
        self._telemetry._meters.add_usage(message.usage, cost, labels)
        return {} if cost is None else {names.COST: cost}

    def _count(self, attributes: Attributes) -> None:
        labels = {names.OPERATION: self._operation.name}
        if names.ERROR_TYPE in attributes:
            labels[names.ERROR_TYPE] = str(attributes[names.ERROR_TYPE])
        self._telemetry._meters.add_operation(time.perf_counter() - self._started_s, self._events, labels)

    def _end(self, attributes: Attributes) -> None:
        if self._span is None:
            return
        attributes |= {names.EVENTS: self._events}
        if self._repeated:
            attributes[names.REPEATED] = True
        if self._compacted:
            attributes[names.CONVERSATION_COMPACTED] = True
        self._span.set_attributes(attributes)
        if names.ERROR_TYPE in attributes:
            self._span.set_status(self._telemetry._error_status, str(attributes[names.ERROR_TYPE]))
        self._span.end()


def _attempt(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
    """Call a function of telemetry. If it raises, the operation goes on without it."""
    try:
        return function(*args, **kwargs)
    except Exception as error:  # noqa: BLE001 - span processors and exporters of others can raise anything
        log("telemetry failed: %s", type(error).__name__)
        return None


def _tool_suffix(operation: TracedOperation, attributes: Attributes) -> Sequence[str]:
    """The name of the tool, as the conventions have it in the name of the span."""
    tool = attributes.get(names.TOOL_NAME) if operation.convention == names.EXECUTE_TOOL else None
    return [] if tool is None else [str(tool)]


def _find_answered_pack(arguments: Mapping[str, Any]) -> Pack | None:
    """The pack that a message answers if it is a reply, before it is recorded."""
    if "message" not in arguments or "pack" not in arguments:
        return None
    pack, context = arguments["pack"], arguments["context"]
    if pack is None:
        pack = context.engine.cache.packs.get(context.scope.stream, context.frame)
    return pack if isinstance(pack, Pack) else None


def _model_of(pack: Pack) -> str:
    return pack._assembled.request.model  # not that of the manifest, which would be built for this


class _Meters:
    """The metrics: names and numbers only. Sessions and tenants are not told apart, which bounds the number of series."""

    def __init__(self, meter: Meter) -> None:
        def counter(name: str, unit: str, description: str) -> Counter:
            return meter.create_counter(name, unit, description)

        def histogram(name: str, unit: str, description: str, bounds: Sequence[float]) -> Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)

        self._duration = histogram(names.DURATION, "s", "The time that an operation takes.", _SECONDS)
        self._appended = counter(names.APPENDED, "{event}", "Events that were stored.")
        self._packs = histogram(names.PACK_SIZE, "{token}", "The tokens of a pack.", _TOKENS)
        self._input = counter(names.USAGE_INPUT, "{token}", "Tokens of prompts, cached or not.")
        self._output = counter(names.USAGE_OUTPUT, "{token}", "Tokens of replies, reasoning included.")
        self._cache_read = counter(names.USAGE_CACHE_READ, "{token}", "Tokens of prompts that came from a cache.")
        self._cache_write = counter(names.USAGE_CACHE_WRITE, "{token}", "Tokens of prompts that went into a cache.")
        share = "The share of a prompt that came from a cache."
        self._cache_share = histogram(names.USAGE_CACHE_SHARE, "1", share, _SHARES)
        self._cost = counter(names.USAGE_COST, "{USD}", "The cost of model calls, for models with known prices.")

    def add_operation(self, seconds: float, events: int, labels: Mapping[str, str]) -> None:
        self._duration.record(seconds, labels)
        if events:
            self._appended.add(events, {names.OPERATION: labels[names.OPERATION]})

    def add_pack(self, pack: Pack) -> None:
        model = _model_of(pack)
        self._packs.record(pack.tokens.used, {names.REQUEST_MODEL: model} if model else {})

    def add_usage(self, usage: Usage, cost: float | None, labels: Mapping[str, str]) -> None:
        self._input.add(usage.input_tokens, labels)
        self._output.add(usage.output_tokens, labels)
        self._cache_read.add(usage.cache_read_tokens, labels)
        self._cache_write.add(usage.cache_write_tokens, labels)
        if usage.input_tokens:
            self._cache_share.record(usage.cache_read_tokens / usage.input_tokens, labels)
        if cost is not None:
            self._cost.add(cost, labels)
