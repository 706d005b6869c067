"""Telemetry: spans and metrics of what an engine does, with the real SDK of OpenTelemetry."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry import trace
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import NoOpTracerProvider, StatusCode

import holdfast
from holdfast.errors import InvalidArgument, SessionNotFound, VersionConflict, WindowTooSmall
from holdfast.runtime import telemetry_attributes as names
from tests.edges.engines import FEWER_KINDS, EngineDesk, blobs_of, log_of, rows_of
from tests.edges.telemetry_recorder import Recorder

SECRET = "xylophone"
"""Part of every text that is passed to an engine here."""
TWO_KINDS = ("memory", "sqlite awaited")
"""Both worlds. Stores do not matter here, except for the cause."""
NOWHERE = holdfast.types.Scope("default", "main", "no")
MODEL = "claude-sonnet-4-5"


def reply(text: str, *calls: dict[str, Any], cached: int = 900) -> dict[str, Any]:
    """A reply of a provider."""
    blocks = [{"type": "tool_use", "id": f"toolu_{number}", **call} for number, call in enumerate(calls)]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": f"{MODEL}-20250929",
        "stop_reason": "tool_use" if calls else "end_turn",
        "content": [{"type": "text", "text": text}, *blocks],
        "usage": {"input_tokens": 100, "output_tokens": 10, "cache_read_input_tokens": cached},
    }


def run_agent(engine: holdfast.Engine, inside: Callable[[], object] = lambda: None) -> None:
    """One turn of an agent: question, pack, call, tool, pack, answer; then facts, a frame and a compaction."""
    session = engine.create_session("chat", user="ada")
    session.record("user", f"Where is my {SECRET}?")

    def look(thing: str) -> dict[str, str]:
        inside()
        return {"place": f"shelf of the {thing}"}

    def fail(**_: object) -> None:
        raise ValueError(SECRET)

    session.pack(budget=4_000, model=MODEL, brief=holdfast.Brief(prompt=f"Know {SECRET}."))
    arguments = {"thing": SECRET}
    message = session.record(reply(SECRET, *({"name": name, "input": arguments} for name in ("look", "fail"))))
    for call in message.tool_calls:
        session.run(call, {"look": look, "fail": fail})
    session.pack(budget=4_000, model=MODEL)
    session.record(reply(f"Here is your {SECRET}."))
    session.observe(f"I moved to {SECRET} street.")
    session.facts.set(f"{SECRET}_owner", SECRET)
    session.facts.search(SECRET)
    engine.ledger(user="ada").set("street", SECRET)
    engine.ledger(user="ada").search(SECRET)
    with session.frame(f"Find the {SECRET}", budget=9_000) as frame:
        frame.record("user", SECRET)
    session.context.compact(strategy=holdfast.types.TruncateAt(1))


def test_a_run_of_an_agent_is_a_tree_of_spans(desk: EngineDesk) -> None:
    for kind in FEWER_KINDS:
        recorder = Recorder()

        def work(recorder: Recorder = recorder) -> None:
            with recorder.tracer.start_as_current_span("work of the tool"):
                pass

        run_agent(desk.open(kind, "tree", telemetry=recorder.telemetry), work)
        assert recorder.trees() == [
            ("holdfast.create_session", []),
            ("holdfast.record", []),
            ("holdfast.pack", []),
            ("holdfast.record", []),
            ("execute_tool look", [("work of the tool", [])]),
            ("execute_tool fail", []),
            ("holdfast.pack", []),
            ("holdfast.record", []),
            ("holdfast.observe", []),
            ("holdfast.set_fact", []),
            ("holdfast.search_facts", []),
            ("holdfast.set_fact", []),
            ("holdfast.search_facts", []),
            ("holdfast.push_frame", []),
            ("holdfast.record", []),
            ("holdfast.pop_frame", []),
            ("holdfast.compact", []),
        ], kind
        assert {span.attributes["holdfast.tenant"] for span in recorder.spans if "work" not in span.name} == {"default"}  # type: ignore[index]


def test_spans_have_names_and_numbers(desk: EngineDesk) -> None:
    recorder = Recorder()
    engine = desk.open("memory", telemetry=recorder.telemetry)
    run_agent(engine)
    packs = recorder.attributes("holdfast.pack")
    assert packs[names.OPERATION] == "pack"
    assert packs[names.PACK_BUDGET] == 4_000
    assert 0 < packs[names.PACK_USED] <= 4_000
    assert packs[names.PACK_USED] == sum(
        count for name, count in packs.items() if name.startswith(f"{names.PACK_SECTION}.")
    )
    assert packs[names.REQUEST_MODEL] == MODEL
    answer = dict(recorder.named("holdfast.record")[2].attributes or {})
    counts = [int(str(answer.pop(name))) for name in (names.PACK_INCLUDED, names.PACK_REDUCED, names.PACK_OMITTED)]
    assert answer.pop(names.PACK_CANDIDATES) == sum(counts)
    assert answer.pop(names.PACK_HASH) == engine.session("chat").packs.list()[0].context_hash
    assert {name: answer[name] for name in answer if name != names.MESSAGE_ID} == {
        names.OPERATION: "record",
        names.TENANT: "default",
        names.CONVERSATION_ID: "chat",
        names.AGENT_ID: "main",
        names.MESSAGE_COUNT: 1,
        names.MESSAGE_ROLES: ("assistant",),
        names.MESSAGE_TOKENS: answer[names.MESSAGE_TOKENS],
        names.INPUT_TOKENS: 1_000,
        names.OUTPUT_TOKENS: 10,
        names.CACHE_READ_TOKENS: 900,
        names.CACHE_WRITE_TOKENS: 0,
        names.REASONING_TOKENS: 0,
        names.PROVIDER_NAME: "anthropic",
        names.RESPONSE_MODEL: f"{MODEL}-20250929",
        names.RESPONSE_ID: "msg_1",
        names.FINISH_REASONS: ("end_turn",),
        names.COST: pytest.approx((100 * 3 + 900 * 0.3 + 10 * 15) / 1e6),
        names.EVENTS: 2,
    }
    tool = recorder.attributes("execute_tool look")
    assert (tool[names.OPERATION_NAME], tool[names.TOOL_NAME]) == ("execute_tool", "look")
    assert tool[names.TOOL_CALL_ID].startswith("c")
    assert recorder.attributes("holdfast.search_facts")[names.MEMORY_STORE_ID] == "user ada"
    framed = dict(recorder.named("holdfast.record")[3].attributes or {})
    assert framed[names.FRAME_ID]
    assert recorder.attributes("holdfast.compact")[names.CONVERSATION_COMPACTED] is True


def test_a_compaction_of_a_pack_is_a_span_in_that_of_the_pack(desk: EngineDesk) -> None:
    for number, strategy in enumerate([None, holdfast.types.TruncateAt(2)]):
        recorder = Recorder()
        session = desk.open("sqlite", f"long{number}", telemetry=recorder.telemetry).create_session("chat")
        for turn in range(20):
            session.record("user", f"Question {turn}")
            session.record("assistant", f"Answer {turn}. " + "And more of it. " * 60)
        recorder.clear()
        session.pack("Go on", budget=2_000, strategy=strategy)
        assert recorder.trees() == [("holdfast.pack", [("holdfast.compact", [])])]
        inner = recorder.attributes("holdfast.compact")
        assert inner[names.TOKENS_AFTER] < inner[names.TOKENS_BEFORE]
        assert inner[names.EVENTS] == 1
        outer = recorder.attributes("holdfast.pack")
        assert outer[names.CONVERSATION_COMPACTED] is True
        assert outer[names.EVENTS] == 0


def test_a_turn_has_spans_at_its_start_and_its_end(desk: EngineDesk) -> None:
    recorder = Recorder()
    engine = desk.open("sqlite", telemetry=recorder.telemetry)
    with engine.create_session("chat").turn() as session:
        session.record("user", "hello")
    assert [name for name, _ in recorder.trees()] == [
        "holdfast.create_session",
        "holdfast.take_turn",
        "holdfast.record",
        "holdfast.end_turn",
    ]
    assert recorder.sums()[names.APPENDED] == len(log_of(engine))


# Contents


def provoke_errors(engine: holdfast.Engine) -> None:
    """Errors whose texts quote what was passed."""
    session: Any = engine.session("chat")
    for attempt in (
        lambda: session.record(SECRET, "text"),
        lambda: session.record({"role": SECRET, "content": SECRET}),
        lambda: session.pack(SECRET, budget=4_000, profile=SECRET),
        lambda: session.pack(budget=SECRET, model=[SECRET]),
        lambda: session.run(SECRET, print),
        lambda: session.result(SECRET, SECRET),
        lambda: session.facts.set("plan", SECRET, depends_on=SECRET),
        lambda: session.facts.retract(SECRET),
        lambda: session.context.compact(strategy=SECRET),
        lambda: session.situation.update(SECRET, by=SECRET),
        lambda: session.erase([999], SECRET),
        lambda: engine.resume(SECRET),
        lambda: session.record("user", "hello", metadata={SECRET: object()}),
    ):
        with pytest.raises(holdfast.HoldfastError):
            attempt()


def failing_detector() -> Any:
    class FailingDetector:
        name = "failing"

        def detect(self, observation: Any) -> Any:
            raise RuntimeError(SECRET)

    return FailingDetector()


@pytest.mark.parametrize("kind", TWO_KINDS)
def test_no_contents_are_exported_by_default(kind: str, desk: EngineDesk) -> None:
    recorder = Recorder()
    engine = desk.open(kind, telemetry=recorder.telemetry, detector=failing_detector())
    run_agent(engine)
    provoke_errors(engine)
    text = recorder.export_all()
    assert SECRET not in text
    assert text.count('"status_code": "ERROR"') == 14  # the tool that fails, and the errors above
    for wanted in ("holdfast.record", "InvalidArgument", "holdfast.usage.cost", "tool_error"):
        assert wanted in text


@pytest.mark.parametrize("kind", TWO_KINDS)
def test_contents_are_in_the_documented_attributes_only(kind: str, desk: EngineDesk) -> None:
    recorder = Recorder(contents=True)
    engine = desk.open(kind, telemetry=recorder.telemetry)
    run_agent(engine)
    provoke_errors(engine)
    having: set[str] = set()
    for span in recorder.spans:
        having |= {name for name, value in (span.attributes or {}).items() if SECRET in str(value)}
        for event in span.events:
            assert event.name == "exception"
            having |= {name for name, value in (event.attributes or {}).items() if SECRET in str(value)}
        assert SECRET not in f"{span.name} {span.status.description}"
    assert having == names.CONTENT_ATTRIBUTES
    for name, attributes, _ in recorder.points():
        assert SECRET not in f"{name} {attributes}"
    page = (Path(__file__).parents[2] / "docs" / "howto" / "telemetry.md").read_text()
    for name in names.CONTENT_ATTRIBUTES:
        assert f"`{name}`" in page


def test_contents_are_messages_in_the_form_of_the_conventions(desk: EngineDesk) -> None:
    recorder = Recorder(contents=True)
    run_agent(desk.open("memory", telemetry=recorder.telemetry))
    first, second = recorder.named("holdfast.record")[:2]
    assert msgspec.json.decode(str((first.attributes or {})[names.INPUT_MESSAGES])) == [
        {"role": "user", "parts": [{"type": "text", "content": f"Where is my {SECRET}?"}]}
    ]
    (shown,) = msgspec.json.decode(str((second.attributes or {})[names.OUTPUT_MESSAGES]))
    assert [part["type"] for part in shown["parts"]] == ["text", "tool_call", "tool_call"]
    assert shown["parts"][1]["arguments"] == {"thing": SECRET}
    tool = recorder.attributes("execute_tool look")
    assert msgspec.json.decode(tool[names.TOOL_ARGUMENTS]) == {"thing": SECRET}
    assert msgspec.json.decode(tool[names.TOOL_RESULT]) == {"place": f"shelf of the {SECRET}"}


def test_a_long_content_is_cut(desk: EngineDesk) -> None:
    recorder = Recorder(contents=True)
    desk.open("memory", telemetry=recorder.telemetry).create_session("chat").record("user", "long " * 20_000)
    assert len(recorder.attributes("holdfast.record")[names.INPUT_MESSAGES]) < 33_000


# Errors


def test_an_error_sets_the_status_to_its_type(desk: EngineDesk) -> None:
    for kind in TWO_KINDS:
        recorder = Recorder()
        engine = desk.open(kind, "errors", telemetry=recorder.telemetry)
        session = engine.create_session("chat")
        session.record("user", "hello " * 900)
        attempts: list[tuple[str, type[Exception], Callable[[], object]]] = [
            ("holdfast.record", VersionConflict, functools.partial(session.record, "user", "late", expect=1)),
            ("holdfast.pack", WindowTooSmall, functools.partial(session.pack, budget=500)),
            ("holdfast.recover", SessionNotFound, functools.partial(engine.recover, NOWHERE)),
        ]
        for name, error, attempt in attempts:
            with pytest.raises(error):
                attempt()
            span = recorder.last(name)
            assert span.status.status_code is StatusCode.ERROR
            assert span.status.description == error.__name__
            assert (span.attributes or {})[names.ERROR_TYPE] == error.__name__
            assert not span.events
        failed = [attributes for name, attributes, _ in recorder.points() if name == names.DURATION]
        assert {names.OPERATION: "pack", names.ERROR_TYPE: "WindowTooSmall"} in failed


def test_a_tool_that_fails_is_an_error_of_its_span_alone(desk: EngineDesk) -> None:
    recorder = Recorder()
    session = desk.open("memory", telemetry=recorder.telemetry).create_session("chat")
    message = session.record("assistant", "", tool_calls=[{"name": "fail", "args": {}}, {"name": "fail", "args": {}}])
    session.run(message.tool_calls[0], {"other": print})
    session.result(message.tool_calls[1], "out of order", is_error=True)
    assert recorder.last("execute_tool fail").status.description == names.TOOL_ERROR
    assert recorder.last("holdfast.result").status.status_code is StatusCode.UNSET


def test_a_cancelled_task_ends_its_span(tmp_path: Path) -> None:
    recorder = Recorder()

    async def run() -> None:
        async with await holdfast.open_async(tmp_path / "agent.db", telemetry=recorder.telemetry) as engine:
            session = await engine.create_session("chat")
            message = await session.record("assistant", "", tool_calls=[{"name": "wait", "args": {}}])
            started = asyncio.Event()

            async def wait() -> None:
                started.set()
                await asyncio.sleep(3_600)

            task = asyncio.create_task(session.run(message.tool_calls[0], wait))
            await started.wait()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()

    asyncio.run(run())
    assert recorder.last("execute_tool wait").status.description == "CancelledError"


# Tasks


def test_spans_nest_across_tasks(tmp_path: Path) -> None:
    recorder = Recorder()

    async def serve(engine: holdfast.AsyncEngine, number: int) -> None:
        with recorder.tracer.start_as_current_span(f"request {number}"):
            session = await engine.create_session(f"chat-{number}")
            await session.record("user", "hello")

            async def nested() -> str:
                await asyncio.sleep(0)
                await session.facts.set("answer", number)
                return "done"

            message = await session.record("assistant", "", tool_calls=[{"name": "work", "args": {}}] * 2)
            await asyncio.gather(*(session.run(call, nested) for call in message.tool_calls))
            await session.pack(budget=4_000)

    async def run() -> None:
        async with await holdfast.open_async(tmp_path / "agent.db", telemetry=recorder.telemetry) as engine:
            await asyncio.gather(*(serve(engine, number) for number in range(12)))

    asyncio.run(run())
    trees = recorder.trees()
    assert sorted(name for name, _ in trees) == sorted(f"request {number}" for number in range(12))
    for _, children in trees:
        assert children == [
            ("holdfast.create_session", []),
            ("holdfast.record", []),
            ("holdfast.record", []),
            ("execute_tool work", [("holdfast.set_fact", [])]),
            ("execute_tool work", [("holdfast.set_fact", [])]),
            ("holdfast.pack", []),
        ]
    for name, _ in trees:
        number = name.split()[1]
        own = recorder.last(name).context.trace_id
        sessions = {
            span.attributes[names.CONVERSATION_ID]  # type: ignore[index]
            for span in recorder.spans
            if span.context.trace_id == own and span.name != name
        }
        assert sessions == {f"chat-{number}"}


def test_maintenance_in_a_thread_belongs_to_the_task_that_awaits_it(tmp_path: Path) -> None:
    recorder = Recorder()
    source = tmp_path / "chat.jsonl"
    source.write_text('{"role": "user", "content": "hello"}\n')

    async def run() -> None:
        async with await holdfast.open_async(tmp_path / "agent.db", telemetry=recorder.telemetry) as engine:
            with recorder.tracer.start_as_current_span("import"):
                await engine.admin.import_transcript(source, "chat")

    asyncio.run(run())
    ((name, children),) = recorder.trees()
    assert name == "import"
    assert children


# The cause of events


def test_the_traceparent_is_the_cause_of_events_that_have_none(desk: EngineDesk) -> None:
    for kind in FEWER_KINDS:
        recorder = Recorder()
        engine = desk.open(kind, "cause", telemetry=recorder.telemetry)
        session = engine.create_session("chat")
        session.record("user", "hello")
        session.record("user", "again", cause="ticket-7")
        created, first, second = session.events()
        for event, span in ((created, recorder.last("holdfast.create_session")), (first, recorder.spans[1])):
            context = span.context
            flags = f"{context.trace_flags:02x}"
            assert event.cause == f"00-{context.trace_id:032x}-{context.span_id:016x}-{flags}", kind
        assert second.cause == "ticket-7"
        assert engine.admin.verify().problems == ()


def test_the_cause_is_in_the_trace_of_the_caller() -> None:
    recorder = Recorder()
    with holdfast.open("memory:", telemetry=recorder.telemetry) as engine:
        session = engine.create_session("chat")
        with recorder.tracer.start_as_current_span("request") as request:
            session.record("user", "hello")
        assert f"{request.get_span_context().trace_id:032x}" in str(session.events()[-1].cause)


def test_a_retry_in_another_trace_gets_the_answer_of_the_first() -> None:
    recorder = Recorder()
    with holdfast.open("memory:", telemetry=recorder.telemetry) as engine:
        session = engine.create_session("chat")
        first = session.record(reply("Hello."), key="k1")
        assert session.record(reply("Hello."), key="k1") == first
        assert len(session.events()) == 2
    one, other = recorder.named("holdfast.record")
    assert (one.attributes or {})[names.EVENTS] == 1
    assert names.REPEATED not in (one.attributes or {})
    assert (other.attributes or {})[names.EVENTS] == 0
    assert (other.attributes or {})[names.REPEATED] is True
    assert recorder.sums()[names.USAGE_INPUT] == 1_000


# Metrics


def test_metrics_count_tokens_cost_events_and_time(desk: EngineDesk) -> None:
    for kind in TWO_KINDS:
        recorder = Recorder()
        engine = desk.open(kind, "metrics", telemetry=recorder.telemetry)
        run_agent(engine)
        sums = recorder.sums()
        assert sums[names.APPENDED] == len(log_of(engine))
        assert sums[names.USAGE_INPUT] == 2_000
        assert sums[names.USAGE_OUTPUT] == 20
        assert sums[names.USAGE_CACHE_READ] == 1_800
        assert sums[names.USAGE_CACHE_WRITE] == 0
        assert sums[names.USAGE_CACHE_SHARE] == pytest.approx(1.8)
        assert sums[names.USAGE_COST] == pytest.approx(2 * (100 * 3 + 900 * 0.3 + 10 * 15) / 1e6)
        used = [dict(span.attributes or {})[names.PACK_USED] for span in recorder.named("holdfast.pack")]
        assert sums[names.PACK_SIZE] == sum(int(str(tokens)) for tokens in used)
        durations = {
            attributes[names.OPERATION]: point.count
            for name, attributes, point in recorder.points()
            if name == names.DURATION and names.ERROR_TYPE not in attributes
        }
        assert (durations["record"], durations["pack"], durations["run"]) == (4, 2, 1)
        for _, attributes, _ in recorder.points():
            assert "chat" not in str(attributes)


@pytest.mark.parametrize(
    ("model", "cost"),
    [(MODEL, (500 * 3 + 20 * 15) / 1e6), ("local", None), ("own-model", (500 * 2 + 20 * 8) / 1e6), (None, None)],
)
def test_a_reply_without_a_model_has_that_of_its_pack(model: str | None, cost: float | None) -> None:
    recorder = Recorder()
    prices = holdfast.Prices(
        provider="own", model="own-model", input=2_000_000, cache_read=1_000_000, cache_write=2_000_000,
        output=8_000_000, window=100_000, max_output=1_000,
    )  # fmt: skip
    with holdfast.open("memory:", telemetry=recorder.telemetry, prices=[prices]) as engine:
        session = engine.create_session("chat")
        session.record("user", "hello")
        session.pack(budget=4_000, model=model)
        session.record("assistant", "Hello.", usage=holdfast.Usage(500, 20))
    assert recorder.sums()[names.USAGE_INPUT] == 500
    assert recorder.sums().get(names.USAGE_COST) == (None if cost is None else pytest.approx(cost))


# Off, partly on, and broken


def run_quietly(engine: holdfast.Engine) -> tuple[list[Any], list[Any], list[Any]]:
    run_agent(engine)
    return log_of(engine), rows_of(engine), blobs_of(engine)


def test_telemetry_changes_nothing_but_the_cause(desk: EngineDesk) -> None:
    for kind in TWO_KINDS:
        off = run_quietly(desk.open(kind, "off"))
        idle = holdfast.Telemetry(tracer_provider=NoOpTracerProvider(), meter_provider=NoOpMeterProvider())
        unset = run_quietly(desk.open(kind, "unset", telemetry=idle))
        on = run_quietly(desk.open(kind, "on", telemetry=Recorder(contents=True).telemetry))
        assert unset == off
        assert on != off
        events = [msgspec.structs.replace(event, cause=None, hash=b"") for event in on[0]]
        assert events == [msgspec.structs.replace(event, hash=b"") for event in off[0]]
        assert on[1:] == off[1:]
        assert all(event.cause is None for event in off[0])
        assert all(str(event.cause).startswith("00-") for event in on[0])


def test_a_sampler_that_drops_spans_drops_no_metrics() -> None:
    recorder = Recorder(sampler=ALWAYS_OFF)
    with holdfast.open("memory:", telemetry=recorder.telemetry) as engine:
        run_agent(engine)
        causes = {str(event.cause)[-2:] for event in log_of(engine)}
    assert recorder.spans == []
    assert recorder.sums()[names.USAGE_INPUT] == 2_000
    assert all(int(flags, 16) & 1 == 0 for flags in causes)


class RaisingProcessor(SpanProcessor):
    """Fails at the start or at the end of every span."""

    def __init__(self, at: str) -> None:
        self._at = at

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        if self._at == "start":
            raise RuntimeError("no room")

    def on_end(self, span: ReadableSpan) -> None:
        if self._at == "end":
            raise RuntimeError("no room")


@pytest.mark.parametrize("at", ["start", "end"])
@pytest.mark.parametrize("kind", TWO_KINDS)
def test_an_exporter_that_fails_fails_nothing(kind: str, at: str, desk: EngineDesk) -> None:
    recorder = Recorder()
    recorder.tracers.add_span_processor(RaisingProcessor(at))
    engine = desk.open(kind, telemetry=recorder.telemetry)
    run_agent(engine)
    provoke_errors(engine)
    assert not trace.get_current_span().get_span_context().is_valid
    events = log_of(engine)
    with_none = run_quietly(desk.open(kind, "off"))
    assert [event.payload for event in events] == [event.payload for event in with_none[0]]
    assert recorder.sums()[names.USAGE_INPUT] == 2_000


def test_another_tenant_has_the_same_telemetry() -> None:
    recorder = Recorder()
    with holdfast.open("memory:", telemetry=recorder.telemetry) as engine:
        engine.acting_as(tenant="other").create_session("chat")
    assert recorder.attributes("holdfast.create_session")[names.TENANT] == "other"


def test_wrong_arguments_are_refused() -> None:
    wrong: Any = "yes"
    with pytest.raises(InvalidArgument, match="telemetry"):
        holdfast.open("memory:", telemetry=wrong)
    with pytest.raises(InvalidArgument, match="contents"):
        holdfast.Telemetry(contents=wrong)


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nothing_is_imported_without_telemetry() -> None:
    run_python(
        """
import sys, holdfast
with holdfast.open("memory:") as engine:
    session = engine.create_session("chat")
    session.record("user", "hello")
    session.pack(budget=4_000)
    assert engine._telemetry is None
assert not [name for name in sys.modules if "opentelemetry" in name or "telemetry" in name]
"""
    )


def test_without_the_extra_an_error_names_it() -> None:
    run_python(
        """
import sys
sys.modules["opentelemetry"] = None
import holdfast
try:
    holdfast.Telemetry()
except holdfast.errors.ExtraMissing as error:
    assert "holdfast[otel]" in str(error), error
else:
    raise SystemExit("no error")
"""
    )


def test_global_providers_are_used_from_when_they_are_set() -> None:
    run_python(
        """
import holdfast
from opentelemetry import trace
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

with holdfast.open("memory:", telemetry=holdfast.Telemetry()) as engine:
    session = engine.create_session("chat")
    session.record("user", "before")
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    session.record("user", "after")
    causes = [event.cause is None for event in session.events()]
assert [span.name for span in exporter.get_finished_spans()] == ["holdfast.record"]
assert causes == [True, True, False], causes
"""
    )


def test_every_listed_flow_names_its_context() -> None:
    """Otherwise its spans would not say which session they belong to."""
    for function, operation in names._NAMES.items():
        parameter = function.__code__.co_varnames[0]
        assert parameter in ("context", "engine"), operation
