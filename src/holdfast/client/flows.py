"""What a method does that is more than one request: the part of the work that stays with the caller.

Laws: functions of the caller run here, never on the server. A reply is recorded with the pack that it answers, which this
engine remembers: the server need not. Texts and errors are those of the embedded engine, from the same functions.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.api import requests
from holdfast.api.parts import ToolText, TurnOffer
from holdfast.api.wire import encode_argument
from holdfast.client.calls import (
    RemoteContext,
    RemoteEngineContext,
    RemoteMethod,
    call_method,
    context_headers,
    list_methods,
    place_of,
    prefix_of,
    probe_arguments,
)
from holdfast.client.exchanges import RemoteFlow, RemoteRequest, RemoteResponse, ask
from holdfast.client.values import describe_call, plain_content, send_value
from holdfast.conversion import to_json
from holdfast.core.frames.decide import OUT_OF_TIME
from holdfast.core.frames.stack import is_blocked_by_suspension
from holdfast.core.upcast import decode_event
from holdfast.errors import (
    AlreadyTerminal,
    InvalidArgument,
    InvalidInput,
    InvalidLedger,
    LocalOnly,
    SessionDestroyedError,
    describe_value,
)
from holdfast.flows.context import EngineContext, LedgerContext, SessionContext
from holdfast.flows.facts.changes import resolve_ledger, writer_for
from holdfast.flows.facts.queries import ledgers_of, own_ledger
from holdfast.flows.frames.frames import shorten_summary
from holdfast.flows.history.withdrawals import check_withdrawal
from holdfast.flows.packs import records
from holdfast.flows.sessions import messages as message_flows
from holdfast.flows.sessions import tools, turns
from holdfast.flows.sessions.ingest import check_call_id
from holdfast.model import limits
from holdfast.model.content import Body, Data, File, Image, Opaque, Text, ToolCall
from holdfast.model.frames.events import FramePopped
from holdfast.model.frames.frames import Ending, FrameRecord, FrameState, StartedCall
from holdfast.model.names import DEFAULT_ACTOR, Scope, check_flag
from holdfast.model.packs.pack import Brief, check_brief
from holdfast.model.sessions.messages import Message
from holdfast.model.sessions.turns import TurnFence
from holdfast.model.situation.situations import UPDATE_SITUATION
from holdfast.model.state import OpenCall, SessionState
from holdfast.providers import require_message
from holdfast.runtime.engine import add_user
from holdfast.runtime.sessions import Frame, FramesFacet, Session

_BYTE_TYPES = (bytes, bytearray, memoryview)
_PARTS = (Text, Data, Body, Image, File, Opaque)
_ROLES = ("system", "user", "assistant", "tool")


def conversation_method(context: SessionContext, name: str) -> RemoteMethod:
    """A method of the session or frame of a context."""
    return list_methods(Session if context.frame is None else Frame)[name]


def post(
    context: RemoteContext, path: str, body: Mapping[str, Any], *, verb: str = "POST", is_safe: bool = False
) -> RemoteFlow[RemoteResponse]:
    """Send a request that is no operation of the table, below the path of a session or frame."""
    place = place_of(context)
    base = prefix_of(context)
    for name, value in place.items():
        base = base.replace("{" + name + "}", requests.quote_name(value or ""))
    query = tuple((name, value) for name in ("actor", "thread") if (value := place.get(name)) is not None)
    headers = context_headers(context)
    content = None if verb == "DELETE" else msgspec.json.encode(encode_argument("body", dict(body)))
    request = RemoteRequest(verb, base + path, query, tuple(headers.items()), content, is_safe=is_safe)
    return (yield from ask(request))


# Messages and packs


def record(method: RemoteMethod, context: SessionContext, arguments: dict[str, Any]) -> RemoteFlow[Message]:
    """Record a message, and tie a reply to its pack."""
    message, content = arguments["message"], arguments.get("content")
    given = {
        name: arguments[name] for name in ("tool_calls", "usage", "metadata", "priority", "stop") if name in arguments
    }
    drafts = message_flows.build_drafts(message, content, **given)
    answered = records.find_answered_pack(context, drafts, arguments.get("pack"))
    sent = {**arguments, "message": message if type(message) is str else plain_content(require_message(message))}
    sent["pack"] = False if answered is None else answered
    if "content" in arguments:
        sent["content"] = plain_content(content)
    if "tool_calls" in arguments:
        sent["tool_calls"] = [describe_call(each) for each in arguments["tool_calls"]]
    if arguments.get("metadata") is not None:
        sent["metadata"] = to_json("metadata", arguments["metadata"])
    recorded: Message = yield from _send_probed(method, context, sent, arguments)
    if answered is not None and recorded.seq > answered.history.version:
        context.engine.cache.packs.remove(context.scope.stream, context.frame, answered)
    return recorded


def record_all(method: RemoteMethod, context: SessionContext, arguments: dict[str, Any]) -> RemoteFlow[list[Message]]:
    listed = arguments["messages"]
    if type(listed) not in (list, tuple) or not all(map(_is_sendable_message, listed)):
        probe_arguments(method, context, arguments)
    sent = {**arguments, "messages": [_plain_message(each) for each in listed]}
    recorded: list[Message] = yield from _send_probed(method, context, sent, arguments)
    return recorded


def _is_sendable_message(message: object) -> bool:
    return type(message) is not tuple or (len(message) == 2 and message[0] in _ROLES)


def _plain_message(message: Any) -> Any:
    if type(message) is tuple:
        role, content = message
        return {"role": role, "content": plain_content(content)}
    return plain_content(require_message(message))


def _send_probed(
    method: RemoteMethod, context: SessionContext, sent: dict[str, Any], arguments: dict[str, Any]
) -> RemoteFlow[Any]:
    """Send a converted call. If it cannot be sent, the error is that of the arguments as they were passed."""
    try:
        return (yield from call_method(method, context, sent))
    except InvalidInput:
        probe_arguments(method, context, arguments)
        raise


def build_pack(method: RemoteMethod, context: SessionContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    """Build a pack, and remember it for the reply."""
    sent = dict(arguments)
    _check_strategy(sent.get("strategy"))
    if type(sent.get("brief")) is Brief:
        sent["brief"] = check_brief(sent["brief"])
    pack = yield from _send_probed(method, context, sent, arguments)
    for owner in {context.frame, pack.manifest.frame}:
        context.engine.cache.packs.put(context.scope.stream, owner, pack)
    return pack


def compact(method: RemoteMethod, context: SessionContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    _check_strategy(arguments.get("strategy"))
    return (yield from call_method(method, context, arguments))


def _check_strategy(strategy: object) -> None:
    if callable(strategy) and not isinstance(strategy, msgspec.Struct):
        raise LocalOnly(
            what="a compaction strategy of your own",
            reason="it is a function; the server may offer some by their names",
        )


def change_view(method: RemoteMethod, context: SessionContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    """Withdraw or restore messages: a pack that shows the conversation as it was gets no reply."""
    answer = yield from call_method(method, context, arguments)
    if answer is not None:
        context.engine.cache.packs.drop(context.scope.stream, context.frame)
    return answer


def withdraw(method: RemoteMethod, context: SessionContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    after = arguments.get("after")
    if type(after) is Message:
        reason = f"{describe_value(after)} is not a message of this session"
        yield from _check_message(context, after, InvalidArgument(argument="after", reason=reason))
    return (yield from change_view(method, context, arguments))


def restore(method: RemoteMethod, context: SessionContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    seq = check_withdrawal(context, arguments["withdrawal"])
    return (yield from change_view(method, context, {**arguments, "withdrawal": seq}))


def observe(method: RemoteMethod, context: SessionContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    message = arguments["message"]
    if type(message) is not str:
        reason = f"{describe_value(message)} is neither a text nor a message of this session"
        yield from _check_message(context, message, InvalidArgument(argument="message", reason=reason))
    return (yield from call_method(method, context, arguments))


def _check_message(context: SessionContext, message: object, refusal: InvalidArgument) -> RemoteFlow[None]:
    """Refuse what is no message of this session: a message is sent as its seq, which every session has."""
    if type(message) is not Message or type(message.seq) is not int or not 0 < message.seq < limits.WHOLE_NUMBER:
        raise refusal
    session = msgspec.structs.replace(context, frame=None)
    page = {"before": message.seq + 1, "limit": 1}
    found: list[Message] = yield from call_method(list_methods(Session)["messages"], session, page)
    if not found or (found[0].seq, found[0].id) != (message.seq, message.id):
        raise refusal


def destroy(method: RemoteMethod, context: SessionContext, arguments: dict[str, Any]) -> RemoteFlow[None]:
    """Destroy a session. One that was destroyed stays so."""
    try:
        yield from call_method(method, context, arguments)
    except SessionDestroyedError:
        return


def open_session(method: RemoteMethod, context: RemoteEngineContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    """Open a session. Without `create`, that is a read: a key that may only read can do it."""
    if check_flag("create", arguments.get("create", False)):
        return (yield from call_method(method, context, arguments))
    place = {name: arguments[name] for name in ("session", "actor", "thread") if name in arguments}
    options: Any = {name: value for name, value in arguments.items() if name not in (*place, "create", "user")}
    add_user(context, arguments.get("user"), options)
    actor = place.get("actor", context.actor or DEFAULT_ACTOR)
    scope = Scope.check(context.tenant, actor, place["session"], place.get("thread"))
    opened = SessionContext(context, scope)
    yield from call_method(list_methods(Session)["state"], opened, {})
    return opened


def resume(method: RemoteMethod, context: EngineContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    if not isinstance(arguments["token"], str):
        probe_arguments(method, context, arguments)
    return (yield from call_method(method, context, arguments))


# Tool calls


def run_call(
    context: SessionContext,
    call: ToolCall | OpenCall | str,
    function: Any = None,
    *,
    key_as: str | None = None,
    call_key: str | None = None,
    again: bool = False,
) -> RemoteFlow[Message]:
    """Run a tool call: its start and its result are stored by the server, the function runs here."""
    options = {"call_key": call_key, "again": again}
    if function is None:
        name = check_call_id(call.id if isinstance(call, ToolCall | OpenCall) else call)
        response = yield from post(context, f"/calls/{requests.quote_name(name)}/run", options)
        answer: Message = msgspec.json.decode(response.body, type=Message)
        return answer
    start = conversation_method(context, "start_call")
    steps = tools.CallSteps(
        start=functools.partial(call_method, start, context, {"call": call, **options}),
        finish=functools.partial(_finish_call, context),
        answer=functools.partial(_answer_call, context),
    )
    return (yield from tools.run_function(steps, function, key_as=key_as))


def _finish_call(context: SessionContext, call: str, value: object, *, is_error: bool = False) -> RemoteFlow[Any]:
    method = conversation_method(context, "result")
    return send_value("value")(method, context, {"call": call, "value": value, "is_error": is_error})


def _answer_call(context: SessionContext, started: StartedCall) -> RemoteFlow[Any]:
    """Answer a call of a tool of the engine."""
    args = started.args if isinstance(started.args, dict) else {}
    text = yield from ask_tool(context, started.name, args)
    return (yield from _finish_call(context, started.call, text))


def ask_tool(context: SessionContext, tool: str, arguments: Mapping[str, Any]) -> RemoteFlow[str]:
    """What a tool of the engine says to the model."""
    sent = {name: _plain(value) for name, value in arguments.items()}
    response = yield from post(context, f"/tools/{tool}", sent, is_safe=tool != UPDATE_SITUATION.name)
    return msgspec.json.decode(response.body, type=ToolText).text


def _plain(value: object) -> Any:
    try:
        return to_json("the arguments", value)
    except InvalidInput:
        return str(type(value))


# Frames and ledgers


def get_frame(context: SessionContext, frame: FrameState | str) -> RemoteFlow[SessionContext]:
    """Open a frame by its id."""
    name = getattr(frame, "id", frame)
    if type(frame) is not FrameState and (type(frame) is not str or not name):
        get = RemoteMethod(FramesFacet, "get", inspect.signature(FramesFacet.get), {})
        probe_arguments(get, context, {"frame": frame})
    opened = msgspec.structs.replace(context, frame=name)
    state: FrameRecord = yield from call_method(list_methods(Frame)["state"], opened, {})
    return msgspec.structs.replace(context, frame=state.id)


def leave_frame(context: SessionContext, status: Ending, summary: str) -> RemoteFlow[None]:
    """End a frame when its `with` block ends, unless it is suspended or has ended: as flows.frames.frames.leave()."""
    session = msgspec.structs.replace(context, frame=None)
    state: SessionState = yield from call_method(list_methods(Session)["state"], session, {})
    assert context.frame is not None, "only a frame is left"
    frame: Any = state.frames.get(context.frame)
    if frame is None:
        frame = yield from call_method(list_methods(Frame)["state"], context, {})
    is_live = frame.id in state.frames
    if is_live and status == "completed" and is_blocked_by_suspension(state.frames, frame.id):
        return
    if not is_live or frame.suspension is not None:
        if status == "completed" and frame.status in ("failed", "cancelled"):
            yield from _check_own_ending(session, frame)
        return
    arguments = {"status": status, "summary": shorten_summary(summary), "cascade": status != "completed"}
    yield from call_method(list_methods(Frame)["pop"], context, arguments)


def _check_own_ending(session: SessionContext, frame: Any) -> RemoteFlow[None]:
    method = list_methods(Session)["events"]
    page = yield from call_method(method, session, {"after": frame.touched - 1, "limit": 1})
    event = decode_event(page[0]) if page else None
    if not isinstance(event, FramePopped) or event.frame != frame.id or event.summary == OUT_OF_TIME:
        raise AlreadyTerminal(frame=frame.id, status=frame.status)


def open_ledger(context: SessionContext, names: Mapping[str, str | None]) -> RemoteFlow[LedgerContext]:
    """The own ledger of a session, or one that it was opened with."""
    state: SessionState = yield from call_method(list_methods(Session)["state"], context, {})
    home = own_ledger(context.scope)
    if any(name is not None for name in names.values()):
        home = resolve_ledger(context.engine, None, **names)
        if home not in ledgers_of(context.scope, state):
            reason = f"the session {context.scope.session!r} was not opened with it"
            raise InvalidLedger(value=str(home), reason=reason)
    return LedgerContext(context.engine, home, writer_for(context.engine, None), context.scope)


def fork(method: RemoteMethod, context: SessionContext, arguments: dict[str, Any]) -> RemoteFlow[Any]:
    if check_flag("ephemeral", arguments.get("ephemeral", False)):
        raise LocalOnly(
            what="an ephemeral fork", reason="it lives in the memory of the program that has the store open"
        )
    return (yield from call_method(method, context, arguments))


def recover(context: SessionContext, options: dict[str, Any]) -> RemoteFlow[Any]:
    return (yield from call_method(list_methods(Session)["recover"], context, options))


# Turns


class RemoteTurns:
    """Takes, renews and ends turns, as flows.sessions.turns does."""

    @staticmethod
    def take(context: SessionContext, request: turns.TurnRequest, ticket: int = 0) -> RemoteFlow[turns.TurnAnswer]:
        """Try once to take the turn."""
        body = {
            "owner": request.owner,
            "lease_s": request.lease_us / 1_000_000,
            "wait_s": request.wait_us / 1_000_000,
            **({"ticket": ticket} if ticket else {}),
        }
        response = yield from post(context, "/turns", body)
        offer = msgspec.json.decode(response.body, type=TurnOffer)
        if offer.number is None:
            return turns.TurnAnswer(None, offer.ticket)
        fence = TurnFence(context.scope, context.frame, offer.number, request.lease_us)
        engine = msgspec.structs.replace(context.engine, turn=fence)
        return turns.TurnAnswer(msgspec.structs.replace(context, engine=engine), offer.number)

    @staticmethod
    def renew(context: SessionContext) -> RemoteFlow[None]:
        """Keep the turn for its time from now."""
        turn = context.engine.turn
        assert turn is not None, "the context of a turn has one"
        yield from post(
            context, f"/turns/{turn.number}", {"lease_s": turn.lease_us / 1_000_000}, verb="PUT", is_safe=True
        )

    @staticmethod
    def end(context: SessionContext) -> RemoteFlow[None]:
        """Give the turn back."""
        turn = context.engine.turn
        assert turn is not None, "the context of a turn has one"
        yield from post(context, f"/turns/{turn.number}", {}, verb="DELETE", is_safe=True)
