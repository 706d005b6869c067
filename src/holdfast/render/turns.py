"""Calls with their results, and the ids that go with them to a provider.

Laws: a call is shown with its one result, in the same unit, or not at all; an id is given once, to the first that claims
it, so that what comes later never changes what was rendered before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast import codec
from holdfast.context.fence import cleared
from holdfast.core.arguments import foreign_object, is_finite
from holdfast.model.content import Json, ToolCall, ToolResult
from holdfast.model.messages import Message, Unit
from holdfast.providers.plain import OPENAI

_FITTING = {"openai": re.compile(r"[a-zA-Z0-9_-]{1,40}"), "anthropic": re.compile(r"[a-zA-Z0-9_-]{1,64}")}
_STRANGE = re.compile(r"[^a-zA-Z0-9_-]")
_NAME_CHARS = 64


class Answer(NamedTuple):
    """A result, the message that it came in, and which of its results it is."""

    message: Message
    number: int

    @property
    def result(self) -> ToolResult:
        return self.message.tool_results[self.number]


class Turn(NamedTuple):
    """A message, and the answers to its calls in the order in which they came."""

    message: Message
    answers: dict[str, Answer]


def turns(unit: Unit) -> Iterator[Turn]:
    """The messages of a unit; what a tool answered stands with the message that asked."""
    answers: dict[str, Answer] = {}
    for message in unit.messages:
        for number, result in enumerate(message.tool_results):
            answers.setdefault(result.tool_call_id, Answer(message, number))
    for message in unit.messages:
        if not message.erased:
            asked = {call.id for call in message.tool_calls} if message.role == "assistant" else set()
            yield Turn(message, {call: answer for call, answer in answers.items() if call in asked})


class Calls:
    """The calls of a message that have an answer, in the order in which they were made."""

    def __init__(self, turn: Turn) -> None:
        self._left = list(turn.message.tool_calls)
        self._answers = turn.answers

    def up_to(self, shell: dict[str, Any]) -> Iterator[tuple[ToolCall, dict[str, Any]]]:
        """The call that this shell belongs to, with it; before it, those made earlier that have no shell of their own."""
        own = shell.get("call_id", shell.get("id"))
        known = [number for number, call in enumerate(self._left) if call.provider_id == own is not None]
        last = known[0] if known else 0
        made, self._left = self._left[: last + 1], self._left[last + 1 :]
        for number, call in enumerate(made):
            if call.id in self._answers:
                yield call, shell if number == last else {}

    def rest(self) -> Iterator[ToolCall]:
        """Those that no shell has marked: they were made after all else."""
        made, self._left = self._left, []
        yield from (call for call in made if call.id in self._answers)


class Ids:
    """The provider's own id of a call, if it can have it and nobody had it before; else ours."""

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._taken: set[str] = set()
        self._given: dict[str, str] = {}

    def give(self, message: Message, call: ToolCall) -> str:
        own = call.provider_id
        number, chosen = 1, call.id
        if own is not None and own not in self._taken and self._fits(message, own):
            chosen = own
        while chosen in self._taken:
            number += 1
            chosen = f"{call.id}_{number}"
        self._taken.add(chosen)
        self._given[call.id] = chosen
        return chosen

    def of(self, call: str) -> str:
        """The id that was given to a call of ours."""
        return self._given[call]

    def _fits(self, message: Message, own: str) -> bool:
        """Some who speak OpenAI's dialect put a signature into it: what they made goes back as it is."""
        if self._issuer == OPENAI and is_from(message, OPENAI):
            return True
        return _FITTING[self._issuer].fullmatch(own) is not None


def is_from(message: Message, issuer: str) -> bool:
    return message.source is not None and message.source.provider == issuer


def name_of(message: Message, call: ToolCall, issuer: str) -> str:
    """The name of the tool, in letters that every provider takes, unless it was the provider that wrote it."""
    return call.name if is_from(message, issuer) else _STRANGE.sub("_", call.name)[:_NAME_CHARS]


def object_of(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object, which is all that providers and those who speak their dialects take for sure: text that
    spells none, from a call that broke off or of a tool that takes text, stands under "input". Keys and numbers are as
    they came. The tag of the fence is in none of them."""
    own = _own_text(call)
    if own is not None:
        found: dict[str, Any] = json.loads(own)
        if is_finite(found):
            return found
    return codec.decode_object(_canonical_text(call.args).encode())


def arguments_of(call: ToolCall) -> str:
    """The arguments as text: as the provider spelled them, if it was an object that it spelled."""
    own = _own_text(call)
    return _canonical_text(call.args) if own is None else own


def _canonical_text(args: Json) -> str:
    return cleared(_encoded(args))


def _encoded(args: Json) -> str:
    whole = args if isinstance(args, dict) else {"input": args} if args else {}
    return codec.encode(whole).decode()


def _own_text(call: ToolCall) -> str | None:
    """The provider's own text of an object, unless the tag of the fence is in it, however it is spelled."""
    if isinstance(call.args, dict):
        own, read = call.raw, _encoded(call.args)
    elif isinstance(call.args, str) and (found := foreign_object(call.args)) is not None:
        own, read = call.args, json.dumps(found, ensure_ascii=False)
    else:
        return None
    return own if own is not None and cleared(own) == own and cleared(read) == read else None
