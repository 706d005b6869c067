"""The names of spans, attributes and metrics, and what an operation and its answer say under these names.

The names of the GenAI conventions of OpenTelemetry are constants of ours: the package that had them no longer does.
Law: without `contents`, a value here is a name, a number, a digest or the type of an error, never a text of a message, a
tool, a fact or an error.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import CodeType
from typing import Any, TypeAlias

import msgspec

from holdfast.flows.context import EngineContext, LedgerContext, SessionContext
from holdfast.flows.facts import changes, observation, queries
from holdfast.flows.frames import frames
from holdfast.flows.history import compaction, handle_text, handles, summaries
from holdfast.flows.memory import delivery, recall, removal, vectors
from holdfast.flows.packs import assembly, records
from holdfast.flows.sessions import layers, lifecycle, messages, tools, turns
from holdfast.flows.situation import situations
from holdfast.model import limits
from holdfast.model.content import ToolCall, Usage
from holdfast.model.facts.outcomes import ObservationResult
from holdfast.model.frames.frames import Recovery, SweepResult
from holdfast.model.history.plans import Plan
from holdfast.model.history.prices import Prices, find_prices
from holdfast.model.packs.pack import Manifest
from holdfast.model.sessions.messages import Message
from holdfast.model.state import OpenCall
from holdfast.render.pack import Pack

Attributes: TypeAlias = dict[str, str | bool | int | float | Sequence[str]]

# Attributes of the GenAI conventions
OPERATION_NAME = "gen_ai.operation.name"
CONVERSATION_ID = "gen_ai.conversation.id"
CONVERSATION_COMPACTED = "gen_ai.conversation.compacted"
AGENT_ID = "gen_ai.agent.id"
PROVIDER_NAME = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
RESPONSE_MODEL = "gen_ai.response.model"
RESPONSE_ID = "gen_ai.response.id"
FINISH_REASONS = "gen_ai.response.finish_reasons"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME = "gen_ai.tool.name"
TOOL_CALL_ID = "gen_ai.tool.call.id"
MEMORY_STORE_ID = "gen_ai.memory.store.id"
ERROR_TYPE = "error.type"

# Attributes of our own
OPERATION = "holdfast.operation"
TENANT = "holdfast.tenant"
THREAD = "holdfast.thread"
FRAME_ID = "holdfast.frame.id"
EVENTS = "holdfast.events"
REPEATED = "holdfast.repeated"
MESSAGE_ID = "holdfast.message.id"
MESSAGE_COUNT = "holdfast.message.count"
MESSAGE_ROLES = "holdfast.message.roles"
MESSAGE_TOKENS = "holdfast.message.tokens"
MESSAGE_SKIPPED = "holdfast.message.skipped"
COST = "holdfast.cost.usd"
PACK_BUDGET = "holdfast.pack.budget_tokens"
PACK_USED = "holdfast.pack.used_tokens"
PACK_SECTION = "holdfast.pack.tokens"
"""With the name of a section after it: the tokens of that section."""
PACK_LEVEL = "holdfast.pack.level"
PACK_CANDIDATES = "holdfast.pack.candidates"
PACK_INCLUDED = "holdfast.pack.included"
PACK_REDUCED = "holdfast.pack.reduced"
PACK_OMITTED = "holdfast.pack.omitted"
PACK_HASH = "holdfast.pack.context_hash"
TOKENS_BEFORE = "holdfast.compaction.tokens_before"
TOKENS_AFTER = "holdfast.compaction.tokens_after"
COMPACTION_POLICY = "holdfast.compaction.policy"
COMPACTION_LEVEL = "holdfast.compaction.level"
RESULTS = "holdfast.results"
"""How many facts were found, proposals detected, or frames recovered."""

# Contents: only with contents=True
INPUT_MESSAGES = "gen_ai.input.messages"
OUTPUT_MESSAGES = "gen_ai.output.messages"
TOOL_ARGUMENTS = "gen_ai.tool.call.arguments"
TOOL_RESULT = "gen_ai.tool.call.result"
QUERY_TEXT = "gen_ai.memory.query.text"
PACK_TEXT = "holdfast.pack.text"
ERROR_MESSAGE = "exception.message"
CONTENT_ATTRIBUTES = frozenset(
    {INPUT_MESSAGES, OUTPUT_MESSAGES, TOOL_ARGUMENTS, TOOL_RESULT, QUERY_TEXT, PACK_TEXT, ERROR_MESSAGE}
)
"""All attributes that can have contents."""

# Metrics
DURATION = "holdfast.operation.duration"
APPENDED = "holdfast.events.appended"
PACK_SIZE = "holdfast.pack.size"
USAGE_INPUT = "holdfast.usage.input_tokens"
USAGE_OUTPUT = "holdfast.usage.output_tokens"
USAGE_CACHE_READ = "holdfast.usage.cache_read_tokens"
USAGE_CACHE_WRITE = "holdfast.usage.cache_write_tokens"
USAGE_CACHE_SHARE = "holdfast.usage.cache_read_share"
USAGE_COST = "holdfast.usage.cost"

TOOL_ERROR = "tool_error"
"""The `error.type` of a tool that failed: its exception became a result for the model."""
EXECUTE_TOOL = "execute_tool"
_SEARCH, _UPDATE, _DELETE = "search_memory", "update_memory", "delete_memory"


class TracedOperation(msgspec.Struct, frozen=True):
    """The name of a traced operation, and the name that the GenAI conventions have for it, if any."""

    name: str
    convention: str = ""

    @property
    def span(self) -> str:
        return self.convention if self.convention == EXECUTE_TOOL else f"holdfast.{self.name}"


_NAMES: dict[Callable[..., Any], TracedOperation] = {
    messages.close_open_calls: TracedOperation("close_calls"),
    tools.start: TracedOperation("start_call"),
    tools.run: TracedOperation("run", EXECUTE_TOOL),
    assembly.pack: TracedOperation("pack"),
    records.store: TracedOperation("store_pack"),
    compaction.follow_strategy: TracedOperation("compact"),
    compaction.prepare: TracedOperation("prepare"),
    summaries.draft_summary: TracedOperation("draft_summary"),
    observation.search_facts: TracedOperation("search_facts", _SEARCH),
    observation.accept: TracedOperation("accept_proposal"),
    observation.decline: TracedOperation("decline_proposal"),
    queries.search_facts: TracedOperation("search_facts", _SEARCH),
    changes.set_fact: TracedOperation("set_fact", _UPDATE),
    changes.set_facts: TracedOperation("set_facts", _UPDATE),
    changes.retract: TracedOperation("retract_fact", _DELETE),
    changes.erase: TracedOperation("erase_facts", _DELETE),
    changes.supersede: TracedOperation("supersede_fact", _UPDATE),
    changes.expire: TracedOperation("expire_fact", _UPDATE),
    changes.promote: TracedOperation("promote_fact", _UPDATE),
    changes.endorse: TracedOperation("endorse_fact", _UPDATE),
    changes.confirm: TracedOperation("confirm_fact", _UPDATE),
    changes.reinstate: TracedOperation("reinstate_fact", _UPDATE),
    frames.push: TracedOperation("push_frame"),
    frames.update: TracedOperation("update_frame"),
    frames.pop: TracedOperation("pop_frame"),
    frames.leave: TracedOperation("pop_frame"),
    handles.page_out: TracedOperation("page_out"),
    handles.page_in: TracedOperation("page_in"),
    handle_text.run_read_handle: TracedOperation("read_handle"),
    layers.set_working: TracedOperation("set_working"),
    lifecycle.create: TracedOperation("create_session"),
    lifecycle.ensure: TracedOperation("open_session"),
    lifecycle.reset: TracedOperation("reset_session"),
    lifecycle.close: TracedOperation("end_session"),
    lifecycle.destroy: TracedOperation("destroy_session"),
    removal.erase_messages: TracedOperation("erase"),
    lifecycle.sweep: TracedOperation("sweep"),
    lifecycle.acknowledge: TracedOperation("acknowledge"),
    recall.recall_for_program: TracedOperation("recall", _SEARCH),
    recall.search_session: TracedOperation("search_session", _SEARCH),
    removal.forget: TracedOperation("forget", _DELETE),
    delivery.deliver: TracedOperation("deliver"),
    vectors.embed_pending: TracedOperation("embed"),
    situations.act: TracedOperation("act"),
    turns.take: TracedOperation("take_turn"),
    turns.renew: TracedOperation("renew_turn"),
    turns.end: TracedOperation("end_turn"),
}
"""The flows whose own name would say too little, or that are traced though they have no parameter `cause`."""
_OPERATIONS: dict[CodeType, TracedOperation | None] = {
    function.__code__: operation for function, operation in _NAMES.items()
}
_DETOURS = frozenset(
    {
        changes.with_current_identity(queries.get_fact).__code__,
        observation.run_in_own_ledger.__code__,
        observation.run_in_ledger_of.__code__,
    }
)
"""Flows that run the flow in their variable `flow`."""


def find_operation(flow: Any) -> TracedOperation | None:
    """The operation that a flow carries out, before it starts; None if it has no span: it only reads.

    A flow with a parameter `cause` writes events: it has a span with its name, unless another is listed."""
    code: CodeType = flow.gi_code
    if code in _DETOURS:
        code = flow.gi_frame.f_locals["flow"].__code__
    try:
        return _OPERATIONS[code]
    except KeyError:
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        operation = _OPERATIONS[code] = TracedOperation(code.co_name) if "cause" in parameters else None
        return operation


def read_arguments(flow: Any) -> Mapping[str, Any]:
    """The arguments of a flow that has not started."""
    arguments: Mapping[str, Any] = flow.gi_frame.f_locals
    if flow.gi_code not in _DETOURS:
        return arguments
    names = arguments["flow"].__code__.co_varnames[1:]
    passed = dict(zip(names, arguments["args"], strict=False))
    return {**passed, **arguments["kwargs"], "context": arguments["context"]}


def read_context(arguments: Mapping[str, Any]) -> SessionContext | LedgerContext | EngineContext | None:
    """The context that a flow works on: its first argument."""
    for name in ("context", "engine"):
        value = arguments.get(name)
        if isinstance(value, SessionContext | LedgerContext | EngineContext):
            return value
    return None


# The start of an operation


def describe_start(operation: TracedOperation, arguments: Mapping[str, Any], *, contents: bool) -> Attributes:
    """Where the operation works, and with which figures. The arguments are not yet checked."""
    attributes: Attributes = {OPERATION: operation.name}
    if operation.convention:
        attributes[OPERATION_NAME] = operation.convention
    match read_context(arguments):
        case SessionContext(engine=engine, scope=scope, frame=frame):
            attributes |= {TENANT: engine.tenant, CONVERSATION_ID: scope.session, AGENT_ID: scope.actor}
            attributes |= _drop_none({THREAD: scope.thread, FRAME_ID: frame})
        case LedgerContext(engine=engine, ledger=ledger, session=scope):
            attributes |= {TENANT: engine.tenant, MEMORY_STORE_ID: str(ledger)}
            if scope is not None:
                attributes |= {CONVERSATION_ID: scope.session, AGENT_ID: scope.actor}
        case EngineContext(tenant=tenant):
            attributes[TENANT] = tenant
    call = arguments.get("call")
    if isinstance(call, ToolCall | OpenCall):
        attributes |= {TOOL_CALL_ID: call.id, TOOL_NAME: call.name}
        if contents and isinstance(call, ToolCall):
            attributes[TOOL_ARGUMENTS] = _encode(call.args)
    if operation.name == "pack":
        attributes |= _describe_pack_arguments(arguments.get("arguments", {}))
    if contents and operation.convention == _SEARCH and type(arguments.get("query")) is str:
        attributes[QUERY_TEXT] = _shorten(arguments["query"])
    return attributes


def _describe_pack_arguments(options: Mapping[str, Any]) -> Attributes:
    attributes: Attributes = {}
    budget, model = options.get("budget"), options.get("model")
    if type(budget) is int and abs(budget) <= limits.WHOLE_NUMBER:
        attributes[PACK_BUDGET] = budget
    if type(model) is str and len(model) <= limits.NAME_BYTES:
        attributes[REQUEST_MODEL] = model
    return attributes


def _drop_none(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


# The answer of an operation


def describe_answer(answer: object, *, contents: bool) -> Attributes:
    """What the answer of an operation says about it."""
    match answer:
        case Pack():
            return _describe_pack(answer, contents=contents)
        case ObservationResult(message=message, proposals=proposals):
            return describe_messages([message], contents=contents) | {RESULTS: len(proposals)}
        case Plan():
            return _describe_plan(answer)
        case Recovery(frames_recovered=count):
            return {RESULTS: count}
        case SweepResult(sessions=sessions, frames=ended, facts=facts):
            return {RESULTS: len(sessions) + len(ended) + facts}
        case tuple():
            return {RESULTS: len(answer)}
    recorded = find_messages(answer)
    return describe_messages(recorded, contents=contents) if recorded else {}


def _describe_pack(pack: Pack, *, contents: bool) -> Attributes:
    """The size of a pack. Its manifest is not built for this: describe_answered_pack() has more to say."""
    tokens = pack.tokens
    attributes: Attributes = {
        PACK_BUDGET: tokens.budget,
        PACK_USED: tokens.used,
        PACK_LEVEL: tokens.level,
        **{f"{PACK_SECTION}.{section}": count for section, count in tokens.breakdown.items()},
    }
    if contents:
        attributes[PACK_TEXT] = _shorten(pack.text)
    return attributes


def describe_answered_pack(manifest: Manifest) -> Attributes:
    """Which pack a reply answers, and how many candidates it included and left out."""
    fates = Counter(entry.fate for entry in manifest.entries)
    return {
        PACK_HASH: manifest.context_hash,
        PACK_CANDIDATES: len(manifest.entries),
        PACK_INCLUDED: fates["included"],
        PACK_REDUCED: fates["reduced"],
        PACK_OMITTED: fates["omitted"] + fates["withheld"],
    }


def _describe_plan(plan: Plan) -> Attributes:
    attributes: Attributes = {CONVERSATION_COMPACTED: plan.at is not None}
    if plan.at is not None:
        attributes |= {
            TOKENS_BEFORE: plan.original,
            TOKENS_AFTER: plan.final,
            COMPACTION_POLICY: plan.policy,
            COMPACTION_LEVEL: plan.level,
        }
    return attributes


def describe_messages(recorded: Sequence[Message], *, contents: bool) -> Attributes:
    """The roles, tokens and sources of messages, and the id of the last one; with `contents`, the messages themselves."""
    attributes: Attributes = {
        MESSAGE_ID: recorded[-1].id,
        MESSAGE_COUNT: len(recorded),
        MESSAGE_ROLES: [*dict.fromkeys(message.role or "" for message in recorded)],
        MESSAGE_TOKENS: sum(message.tokens for message in recorded),
    }
    usage = sum_usage(recorded)
    if usage is not None:
        attributes |= {
            INPUT_TOKENS: usage.input_tokens,
            OUTPUT_TOKENS: usage.output_tokens,
            CACHE_READ_TOKENS: usage.cache_read_tokens,
            CACHE_WRITE_TOKENS: usage.cache_write_tokens,
            REASONING_TOKENS: usage.reasoning_tokens,
        }
    newest = next((message.source for message in reversed(recorded) if message.source is not None), None)
    if newest is not None:
        names = {PROVIDER_NAME: newest.provider, RESPONSE_MODEL: newest.model, RESPONSE_ID: newest.id}
        attributes |= _drop_none(names)
        if newest.stop is not None:
            attributes[FINISH_REASONS] = [newest.stop]
    attributes |= _drop_none({MESSAGE_SKIPPED: recorded[-1].skipped})
    results = [result for message in recorded for result in message.tool_results]
    if len(results) == 1:
        attributes[TOOL_CALL_ID] = results[0].tool_call_id
    if any(result.is_error for result in results):
        attributes[ERROR_TYPE] = TOOL_ERROR
    return attributes | (_describe_contents(recorded) if contents else {})


def _describe_contents(recorded: Sequence[Message]) -> Attributes:
    attributes: Attributes = {}
    inputs = [_build_entry(message) for message in recorded if message.role != "assistant"]
    outputs = [_build_entry(message) for message in recorded if message.role == "assistant"]
    if inputs:
        attributes[INPUT_MESSAGES] = _encode(inputs)
    if outputs:
        attributes[OUTPUT_MESSAGES] = _encode(outputs)
    results = [result for message in recorded for result in message.tool_results]
    if len(results) == 1:
        attributes[TOOL_RESULT] = _encode(results[0].value)
    return attributes


def _build_entry(message: Message) -> dict[str, Any]:
    """A message in the JSON form of the GenAI conventions."""
    parts: list[dict[str, Any]] = []
    if message.content:
        text = msgspec.structs.replace(message, tool_results=()).text
        parts.append({"type": "text", "content": _shorten(text)})
    parts += (
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.args} for call in message.tool_calls
    )
    parts += (
        {"type": "tool_call_response", "id": result.tool_call_id, "response": result.value}
        for result in message.tool_results
    )
    return {"role": message.role or "", "parts": parts}


def _encode(value: object) -> str:
    text = value if type(value) is str else msgspec.json.encode(value).decode("utf-8", "replace")
    return _shorten(text)


def _shorten(text: str) -> str:
    return text if len(text) <= limits.TELEMETRY_CHARS else f"{text[: limits.TELEMETRY_CHARS]}…"


# Errors


def describe_failure(error: BaseException) -> Attributes:
    """The type of an error. Its text may quote a value, so that it is a content."""
    return {ERROR_TYPE: type.__dict__["__name__"].__get__(type(error))}


def describe_error_text(error: BaseException) -> Attributes:
    """The text of an error: a content."""
    return {ERROR_MESSAGE: _shorten(tools.describe_error(error))}


# Usage and cost


def sum_usage(recorded: Iterable[Message]) -> Usage | None:
    """The usage of these messages together; None if none has any."""
    total: Usage | None = None
    for message in recorded:
        if message.usage is not None:
            total = message.usage if total is None else total + message.usage
    return total


def find_messages(answer: object) -> Sequence[Message]:
    """The messages in the answer of an operation that records messages."""
    match answer:
        case Message():
            return [answer]
        case ObservationResult(message=message):
            return [message]
        case list():
            return [each for each in answer if isinstance(each, Message)]
    return ()


def estimate_cost(usage: Usage, model: str, table: Sequence[Prices]) -> float | None:
    """What a model call cost, in dollars; None if the prices of the model are not known."""
    prices = find_prices(model, table)
    if prices is None:
        return None
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    cost = max(0, usage.input_tokens - cached) * prices.input
    cost += usage.cache_read_tokens * prices.cache_read + usage.cache_write_tokens * prices.cache_write
    return (cost + usage.output_tokens * prices.output) / 1e12
