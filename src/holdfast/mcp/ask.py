"""The tool `ask`: a question to a person. The work waits as a suspended frame until the answer is there.

Laws:
- The question is in the log before anybody is asked, so that it survives the process, the client and the connection.
- A client that can show questions shows it: in answer to the call (2026-07-28), or while the call waits (earlier versions,
  with a connection that goes both ways). Any other client gets a token, which resumes the frame once.
- Only the answer resumes the frame. A person who declines resumes it too: the model must know.
"""

from __future__ import annotations

import secrets
from typing import Annotated, Any

import msgspec
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult, ToolAnnotations
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import Field

import holdfast
from holdfast.access.access import resume_frame
from holdfast.errors import InvalidArgument, NoFrameAtWork
from holdfast.mcp.caller import Caller, CallerSource
from holdfast.mcp.results import AskResult
from holdfast.mcp.tools import FrameId, Session, describe_function, tool_errors
from holdfast.model.frames.frames import Ending
from holdfast.text.lines import one_line, shorten

ASK_BUDGET = 1
"""The tokens of a frame that only waits for an answer."""
_ANSWER = "answer"
_REASON_CHARS = 300
"""What of a question is shown as the reason of a suspension. The frame has all of it."""
_KEY_BYTES = 12
_NEXT = (
    "Put the question to the person in the conversation. When they have answered, call ask again with this token and their "
    "answer, word for word. Do not answer it yourself."
)


class _Waiting(msgspec.Struct, frozen=True):
    """What the client keeps until the person has answered. The server seals it."""

    session: str
    frame: str
    is_own: bool
    """Whether the frame was begun for this question."""
    key: str
    """The idempotency key of the answer: a client may send it twice."""


def ask_tool(source: CallerSource) -> Tool:
    """Build the tool. `source` says who makes a request."""

    @tool_errors
    async def ask(
        question: Annotated[
            str, Field(description="The question, with all that the person needs to know to answer it.")
        ],
        ctx: Context,
        choices: Annotated[list[str] | None, Field(description="The possible answers, if there are only some.")] = None,
        answer: Annotated[str | None, Field(description="With `token`: what the person answered.")] = None,
        token: Annotated[str | None, Field(description="From an earlier call that is waiting.")] = None,
        frame: FrameId = None,
        session: Session = None,
    ) -> AskResult | InputRequiredResult:
        """Ask a person, and wait for the answer: an approval, a decision, something only they know. Ask before you do what
        cannot be undone. The question is shown to the person if the client can do that, and the answer comes back. If it
        cannot, the result has status `waiting` and a token: put the question to the person in the conversation, then call
        ask again with the token and their answer. The work in the frame rests until then, for days if need be."""
        caller = source(ctx.request_context)
        caller.access.check("write")
        if token:
            return await _answer_by_token(caller, token, answer)
        if (state := _read_state(ctx)) is not None:
            return await _answer_by_client(caller, state, ctx)
        waiting, new_token = await _suspend(caller, question, session, frame)
        return await _show_question(caller, ctx, waiting, question, choices, new_token)

    hints = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=True)
    return Tool.from_function(ask, title="Ask a person", annotations=hints, description=describe_function(ask))


async def _suspend(
    caller: Caller, question: str, session: str | None, frame: str | None
) -> tuple[_Waiting, holdfast.types.SuspensionToken]:
    """Suspend the frame at work, or a new one. A frame that waits for an answer to the same question gets a new token."""
    opened = await caller.ensure(session)
    short = shorten(one_line(question), _REASON_CHARS)
    is_own = False
    try:
        asking = await opened.frames.get(frame or "top")
    except NoFrameAtWork:
        asking, is_own = await opened.frame(short, budget=ASK_BUDGET), True
    waiting = _Waiting(opened.scope.session, asking.id, is_own, secrets.token_hex(_KEY_BYTES))
    suspension = (await asking.state()).suspension
    if suspension is None:
        await asking.record("assistant", question)
        return waiting, await asking.suspend(short)
    if suspension.reason != short:
        reason = (
            f"the frame {asking.id} already waits for an answer to another question: pass its token, or another frame"
        )
        raise InvalidArgument(argument="frame", reason=reason)
    return waiting, await asking.reissue()


async def _show_question(
    caller: Caller,
    ctx: Context,
    waiting: _Waiting,
    question: str,
    choices: list[str] | None,
    token: holdfast.types.SuspensionToken,
) -> AskResult | InputRequiredResult:
    capabilities = ctx.client_capabilities
    if capabilities is not None and capabilities.elicitation is not None:
        form = _build_form(question, choices)
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS:
            state = msgspec.json.encode(waiting).decode()
            return InputRequiredResult(input_requests={_ANSWER: ElicitRequest(params=form)}, request_state=state)
        try:
            shown = await ctx.session.elicit_form(form.message, form.requested_schema, ctx.request_id)
        except (NoBackChannelError, MCPError):
            return _wait(waiting, token)
        return await _resume(caller, waiting, shown)
    return _wait(waiting, token)


def _wait(waiting: _Waiting, token: holdfast.types.SuspensionToken) -> AskResult:
    return AskResult(status="waiting", session=waiting.session, frame=waiting.frame, token=str(token), next_step=_NEXT)


def _build_form(question: str, choices: list[str] | None) -> ElicitRequestFormParams:
    field: dict[str, Any] = {"type": "string", "title": "Answer"}
    if choices:
        field["enum"] = choices
    schema = {"type": "object", "properties": {_ANSWER: field}, "required": [_ANSWER]}
    return ElicitRequestFormParams(message=question, requested_schema=schema)


def _read_state(ctx: Context) -> _Waiting | None:
    return None if ctx.request_state is None else msgspec.json.decode(ctx.request_state, type=_Waiting)


async def _answer_by_client(caller: Caller, waiting: _Waiting, ctx: Context) -> AskResult | InputRequiredResult:
    answer = (ctx.input_responses or {}).get(_ANSWER)
    if not isinstance(answer, ElicitResult):
        reason = "the client has returned no answer to the question; the frame still waits"
        raise InvalidArgument(argument="inputResponses", reason=reason)
    return await _resume(caller, waiting, answer)


async def _resume(caller: Caller, waiting: _Waiting, shown: ElicitResult) -> AskResult:
    opened = await caller.open(waiting.session)
    frame = await opened.frames.get(waiting.frame)
    state = await frame.state()
    given = str((shown.content or {}).get(_ANSWER, "")) if shown.action == "accept" else ""
    if state.status == "suspended":
        await caller.engine.resume(await frame.reissue())
    return await _conclude(opened, frame, given, shown.action == "accept", waiting)


async def _answer_by_token(caller: Caller, token: str, answer: str | None) -> AskResult:
    if not answer:
        raise InvalidArgument(argument="answer", reason="the answer is missing: pass what the person said")
    frame = await resume_frame(caller.engine, caller.access, token)
    opened = await caller.engine.session(frame.scope.session, actor=frame.scope.actor, thread=frame.scope.thread)
    is_own = (await frame.state()).budget.total == ASK_BUDGET
    waiting = _Waiting(frame.scope.session, frame.id, is_own, secrets.token_hex(_KEY_BYTES))
    return await _conclude(opened, frame, answer, True, waiting)


async def _conclude(
    session: holdfast.AsyncSession, frame: holdfast.AsyncFrame, answer: str, is_answered: bool, waiting: _Waiting
) -> AskResult:
    """Store the answer in the frame that has asked. A frame that was begun for the question ends with it."""
    if (await frame.state()).is_live:
        await frame.record("user", answer if is_answered else "[The person declined to answer.]", key=waiting.key)
    if waiting.is_own:
        ending: Ending = "completed" if is_answered else "cancelled"
        summary = shorten(one_line(answer), _REASON_CHARS) or "the person declined"
        await frame.pop(ending, summary, result=answer)
    return AskResult(
        status="answered" if is_answered else "declined",
        answer=answer,
        session=session.scope.session,
        frame=frame.id,
        next_step="" if is_answered else "The person does not want to answer. Do not do what you asked about.",
    )
