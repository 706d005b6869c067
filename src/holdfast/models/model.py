"""A language model behind one small interface: messages and a schema in, a checked value and its usage out.

Laws: an answer fits its schema, or a ModelFailed is raised that carries what the attempts used. An invalid answer is
repaired once. A server that is busy is asked again within the time limit. No call takes much longer than `timeout_s`,
whatever the server does. The blocking and the awaited call take the same steps.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Generator, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

import holdfast
from holdfast import codec
from holdfast.errors import (
    AnswerCut,
    AnswerInvalid,
    InvalidArgument,
    ModelFailed,
    ModelRefused,
    ModelTimeout,
    describe_value,
)
from holdfast.model import limits
from holdfast.model.content import Usage
from holdfast.model.names import check_whole
from holdfast.models.schemas import AnswerFault, AnswerReader, JsonSchema

T = TypeVar("T")
AnswerMode: TypeAlias = Literal["text", "schema", "tool", "json"]
"""How a server is asked for a value: plain text · a schema that it enforces · a call of a tool · any JSON."""
ANSWER_TOOL = "answer"
"""The tool that a model must call with its answer."""
RETRY_PAUSES_S = (0.5, 2.0)
"""The pauses before a busy server is asked again."""
_QUOTED_CHARS = 4_000
"""How much of an invalid answer is shown to the model that repairs it."""
_REPAIR = (
    "Your answer cannot be used: {fault}. Answer again, with one JSON object that fits the schema, and nothing else."
)
_REPAIR_TEXT = "Your answer cannot be used: {fault}. Answer again."


ROLES = ("system", "user", "assistant")


class PromptMessage(msgspec.Struct, frozen=True):
    """A message of a prompt, as plain text."""

    role: Literal["system", "user", "assistant"]
    text: str


class Completion(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of a model."""

    value: Any
    """A value of the schema; without a schema, the text."""
    usage: Usage = Usage()
    """Of all attempts."""
    model: str = ""
    """The model that answered, as the server names it."""
    attempts: int = 1
    """2 if the first answer had to be repaired."""


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a server."""

    messages: tuple[PromptMessage, ...]
    mode: AnswerMode
    schema: JsonSchema | None = None
    is_strict: bool = False
    pack: Any = None
    """The pack whose messages come first; None for none."""
    max_tokens: int
    deadline_s: float
    """When the time is over, by time.monotonic()."""

    @property
    def left_s(self) -> float:
        return max(0.001, self.deadline_s - time.monotonic())


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """One reply of a server."""

    text: str = ""
    value: Any = None
    """What the model called the tool with; None if it called none."""
    usage: Usage = Usage()
    model: str = ""
    stop: Literal["", "cut", "refused"] = ""
    reason: str = ""
    """Why it was refused."""


class ServerFailure(Exception):
    """A request that has no reply: the error for the caller, and what can be done before it is raised."""

    def __init__(
        self, error: ModelFailed, *, is_busy: bool = False, is_format: bool = False, retry_after_s: float = 0.0
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.is_busy = is_busy
        """The same request may be answered a little later."""
        self.is_format = is_format
        """The server may accept another way to ask."""
        self.retry_after_s = retry_after_s


class _Pause(msgspec.Struct, frozen=True):
    seconds: float


_Steps: TypeAlias = Generator[ModelRequest | _Pause, ModelReply | None, T]


class Model(ABC):
    """A language model. `complete` blocks; `complete_async` is awaited. Subclasses know how to send one request."""

    name: str
    """The model, as the server names it."""
    timeout_s: float = limits.MODEL_TIMEOUT_S
    max_tokens: int = limits.MODEL_ANSWER_TOKENS

    def complete(
        self,
        messages: Sequence[PromptMessage | tuple[str, str]],
        schema: dict[str, Any] | type[Any] | None = None,
        *,
        pack: holdfast.Pack | None = None,
        max_tokens: int | None = None,
        timeout_s: float | None = None,
    ) -> Completion:
        """Return a value of `schema`, or text without one. Raises ModelFailed.

            model.complete([PromptMessage("user", "The capital of France?")], {"type": "object", ...})

        With `pack`, the request begins with the messages and tools of that pack, byte for byte, so that the provider
        reads them from its cache."""
        steps = self._steps(messages, schema, pack, max_tokens, timeout_s)
        try:
            step = next(steps)
            while True:
                try:
                    reply = self._step(step)
                except ServerFailure as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(reply)
        except StopIteration as stop:
            answer: Completion = stop.value
            return answer

    async def complete_async(
        self,
        messages: Sequence[PromptMessage | tuple[str, str]],
        schema: dict[str, Any] | type[Any] | None = None,
        *,
        pack: holdfast.Pack | None = None,
        max_tokens: int | None = None,
        timeout_s: float | None = None,
    ) -> Completion:
        """As `complete`, awaited."""
        steps = self._steps(messages, schema, pack, max_tokens, timeout_s)
        try:
            step = next(steps)
            while True:
                try:
                    reply = await self._step_async(step)
                except ServerFailure as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(reply)
        except StopIteration as stop:
            answer: Completion = stop.value
            return answer

    def _step(self, step: ModelRequest | _Pause) -> ModelReply | None:
        if isinstance(step, _Pause):
            time.sleep(step.seconds)
            return None
        return self._send(step)

    async def _step_async(self, step: ModelRequest | _Pause) -> ModelReply | None:
        if isinstance(step, _Pause):
            await asyncio.sleep(step.seconds)
            return None
        try:
            async with asyncio.timeout(step.left_s):
                return await self._send_async(step)
        except TimeoutError as error:
            raise ServerFailure(ModelTimeout(model=self.name, reason="its time is over")) from error

    @abstractmethod
    def _send(self, request: ModelRequest) -> ModelReply:
        """Send one request. Raises ServerFailure."""

    @abstractmethod
    async def _send_async(self, request: ModelRequest) -> ModelReply:
        """Send one request, awaited. Raises ServerFailure."""

    @abstractmethod
    def _modes(self) -> tuple[AnswerMode, ...]:
        """How to ask for a value of a schema: the best way first. The next one is used if the server refuses it."""

    def _learn_mode(self, mode: AnswerMode) -> None:  # noqa: B027 - most have one way only
        """Note the way that the server accepts."""

    # The steps of a call

    def _steps(
        self,
        messages: Sequence[PromptMessage | tuple[str, str]],
        schema: dict[str, Any] | type[Any] | None,
        pack: holdfast.Pack | None,
        max_tokens: int | None,
        timeout_s: float | None,
    ) -> _Steps[Completion]:
        prompt = _check_messages(messages)
        reader = None if schema is None else AnswerReader(schema)
        most = check_whole("max_tokens", self.max_tokens if max_tokens is None else max_tokens, 1)
        seconds = check_timeout(self.timeout_s if timeout_s is None else timeout_s)
        request = ModelRequest(
            messages=prompt,
            mode="text",
            schema=None if reader is None else reader.schema,
            is_strict=reader is not None and reader.is_strict,
            pack=pack,
            max_tokens=most,
            deadline_s=time.monotonic() + seconds,
        )
        usage = Usage()
        fault = ""
        for attempt in (1, 2):
            try:
                reply = yield from self._ask(request, reader is not None)
                usage += reply.usage
                self._check_stop(reply)
            except (ServerFailure, ModelFailed) as failure:
                error = failure.error if isinstance(failure, ServerFailure) else failure
                raise type(error)(model=self.name, reason=error.reason, usage=usage) from failure
            try:
                value = _read_answer(reader, reply)
            except AnswerFault as wrong:
                fault = str(wrong)
                request = _build_repair(request, reply, fault, is_text=reader is None)
            else:
                return Completion(value=value, usage=usage, model=reply.model or self.name, attempts=attempt)
        raise AnswerInvalid(model=self.name, reason=fault, usage=usage)

    def _ask(self, request: ModelRequest, has_schema: bool) -> _Steps[ModelReply]:
        """Ask in the best way that the server accepts."""
        if not has_schema:
            return (yield from self._ask_patiently(request))
        refusal: ServerFailure | None = None
        for mode in self._modes():
            try:
                reply = yield from self._ask_patiently(msgspec.structs.replace(request, mode=mode))
            except ServerFailure as failure:
                refusal = refusal or failure
                if not failure.is_format:
                    raise
            else:
                self._learn_mode(mode)
                return reply
        assert refusal is not None, "a model has at least one way to ask"
        raise refusal

    def _ask_patiently(self, request: ModelRequest) -> _Steps[ModelReply]:
        """Ask, and ask again if the server is busy and there is time."""
        for pause in (*RETRY_PAUSES_S, None):
            try:
                reply = yield request
            except ServerFailure as failure:
                wait = max(pause or 0.0, failure.retry_after_s)
                if pause is None or not failure.is_busy or wait >= request.left_s:
                    raise
                yield _Pause(wait)
            else:
                assert reply is not None, "a request has a reply"
                return reply
        raise AssertionError("the last try returns or raises")

    def _check_stop(self, reply: ModelReply) -> None:
        if reply.stop == "refused":
            raise ModelRefused(model=self.name, reason=reply.reason or "it gave no reason")
        if reply.stop == "cut":
            raise AnswerCut(model=self.name, reason=f"it reached its limit after {reply.usage.output_tokens:,} tokens")


def _read_answer(reader: AnswerReader | None, reply: ModelReply) -> Any:
    if reader is None:
        if not reply.text.strip():
            raise AnswerFault("it is empty")
        return reply.text
    return reader.read_text(reply.text) if reply.value is None else reader.read_value(reply.value)


def _build_repair(request: ModelRequest, reply: ModelReply, fault: str, *, is_text: bool) -> ModelRequest:
    """The same request, with the invalid answer and what is wrong with it."""
    said = reply.text if reply.value is None else msgspec.json.encode(reply.value).decode()
    shown = (PromptMessage("assistant", said[:_QUOTED_CHARS].rstrip()),) if said.strip() else ()
    order = PromptMessage("user", (_REPAIR_TEXT if is_text else _REPAIR).format(fault=fault[:_QUOTED_CHARS]))
    return msgspec.structs.replace(request, messages=(*request.messages, *shown, order))


def _check_messages(messages: object) -> tuple[PromptMessage, ...]:
    if not isinstance(messages, list | tuple) or not messages:
        reason = f"pass a list of PromptMessage(role, text), not {describe_value(messages)}"
        raise InvalidArgument(argument="messages", reason=reason)
    return tuple(_check_message(each) for each in messages)


def _check_message(message: object) -> PromptMessage:
    given = message if isinstance(message, tuple) and len(message) == 2 else ()
    made = PromptMessage(*given) if given else message
    if type(made) is not PromptMessage or made.role not in ROLES:
        roles = ", ".join(ROLES)
        reason = f"{describe_value(message)} is not a PromptMessage with a role ({roles}) and a text"
        raise InvalidArgument(argument="messages", reason=reason)
    return PromptMessage(made.role, codec.check_text("a message of the prompt", made.text))


def check_timeout(seconds: object) -> float:
    if type(seconds) not in (int, float) or not 0 < seconds < 86_400:  # type: ignore[operator]
        reason = f"pass seconds above 0 and below a day, not {describe_value(seconds)}"
        raise InvalidArgument(argument="timeout_s", reason=reason)
    return float(seconds)  # type: ignore[arg-type]
