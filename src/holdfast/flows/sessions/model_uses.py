"""What models use beside the conversation: taken from the answers of ports, and recorded.

Laws: the use of a model is recorded also if its answer is refused. That it cannot be recorded never fails what the answer
was needed for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from holdfast import codec
from holdfast.errors import HoldfastError, InvalidArgument, describe_value
from holdfast.flows.context import SessionContext, build_input, execute_commands
from holdfast.flows.effects import Flow
from holdfast.flows.execute import CommandRequest
from holdfast.model import limits
from holdfast.model.content import Usage
from holdfast.model.names import check_name, check_size, check_whole
from holdfast.model.sessions.commands import RecordModelUses
from holdfast.model.sessions.model_uses import MeteredAnswer, ModelUse

T = TypeVar("T")


def take_answer(context: SessionContext, answer: T | MeteredAnswer[T]) -> Flow[tuple[T, str]]:
    """The answer of a port, and the error of its model, if any. What it cost is recorded."""
    if not isinstance(answer, MeteredAnswer):
        return answer, ""
    value: T = answer.value
    if answer.uses:
        try:
            yield from record_uses(context, answer.uses)
        except (HoldfastError, msgspec.MsgspecError, TypeError, ValueError):
            pass  # the session has ended, or the port is wrong about it: the answer counts all the same
    return value, limit_error(answer.error)


def limit_error(error: object) -> str:
    """The text of an error, as it can be shown and stored."""
    return str(error)[:1_000].encode(errors="replace").decode()


def record_uses(
    context: SessionContext, uses: Sequence[ModelUse], *, key: str | None = None, cause: str | None = None
) -> Flow[None]:
    """Record what models used, and charge it to the frame, if there is one."""
    checked = tuple(_check_use(use) for use in uses)
    check_size("the record", len(checked), "uses of models", "MODEL_USES", "Record them in several steps.")
    command = RecordModelUses(scope=context.scope, uses=checked, frame=context.frame)
    spent = [context.engine.weights.count_spend(use.usage) for use in checked]
    part = CommandRequest(command, build_input(context.engine, spent=spent))
    yield from execute_commands(context.engine, [part], key=key, cause=cause)


def _check_use(use: object) -> ModelUse:
    if type(use) is not ModelUse or type(use.usage) is not Usage:
        raise InvalidArgument(argument="use", reason=f"{describe_value(use)} is not a holdfast.types.ModelUse")
    check_name("purpose", use.purpose)
    for text in (use.model, use.prompt):
        check_name("a name in the use of a model", text or "none")
    for figure in msgspec.structs.astuple(use.usage):
        check_whole("usage", figure, 0, limits.WHOLE_NUMBER)
    return codec.decode(codec.encode(use), ModelUse)
