"""What a model is told of how things stand and of what was done: in words, and without a model.

Laws: the same log gives the same words; what a tool said stands behind a mark in every line of it, so that it cannot pass
for ours; all of it is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from holdfast.core.questions import is_question
from holdfast.core.situation import TEXTS, args_text, one_line, shortened
from holdfast.model.content import ToolCall, ToolResult, text_of
from holdfast.model.messages import Item, Message, Unit
from holdfast.model.situation import FIELDS, Action, ActionCall, Field, Mode
from holdfast.model.state import OpenCall

NOTHING = "Nothing has been done yet."

_REQUEST_CHARS = 400
_FINDING_CHARS = 160
_LINE_CHARS = 200
_ARGS_CHARS = 160
_FINDINGS = 3
_NAMED = 5
_REQUEST_LETTERS = 12
"""Letters and digits of what may be a request: a word of thanks is none."""


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """What rules tell from how a conversation stands."""

    goal: str = ""
    """Of the frame; empty outside of frames."""
    goal_at: int = 0
    """The seq of the event that pushed it."""
    items: tuple[Item, ...] = ()
    """What is in view."""
    replies: int = 0
    actions: tuple[Action, ...] = ()
    """The latest, oldest first."""
    open_calls: tuple[OpenCall, ...] = ()


class Derived(msgspec.Struct, frozen=True):
    fields: tuple[tuple[Field, str], ...] = ()
    """Those of which something can be told."""
    tells: tuple[int, ...] = ()
    """The seqs of the events whose words are in them."""


def derived(ground: Ground) -> Derived:
    """The situation that rules read from what happened. They know what was asked, done, found and left open; not what it
    was for."""
    told = _Told(ground)
    texts = {
        "goal": told.goal(),
        "progress": told.progress(),
        "current_approach": told.approach(),
        "key_findings": told.findings(),
        "next_focus": told.focus(),
    }
    return Derived(tuple((name, texts[name]) for name in FIELDS if texts[name]), tuple(sorted(told.seqs)))


class _Told:
    """Each method tells one field; `seqs` are the events that were quoted."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._said = [each for item in ground.items if isinstance(item, Unit) for each in item.messages]
        self._calls = {call.id: call for each in self._said for call in each.tool_calls}
        self.seqs: set[int] = set()

    def _quoted(self, message: Message, text: str, chars: int) -> str:
        short = shortened(one_line(text), chars)
        if short:
            self.seqs.add(message.seq)
        return short

    def _results(self, said: Iterable[Message]) -> Iterator[tuple[Message, ToolCall, ToolResult]]:
        for each in said:
            for result in each.tool_results:
                call = self._calls.get(result.tool_call_id)
                if call is not None:
                    yield each, call, result

    def goal(self) -> str:
        if self._ground.goal:
            self.seqs |= {self._ground.goal_at} - {0}
            return shortened(one_line(self._ground.goal), _REQUEST_CHARS)
        asked = [each for each in self._said if each.role == "user" and each.text.strip()]
        for each in reversed(asked):
            if sum(char.isalnum() for char in each.text) >= _REQUEST_LETTERS:
                return self._quoted(each, each.text, _REQUEST_CHARS)
        return self._quoted(asked[-1], asked[-1].text, _REQUEST_CHARS) if asked else ""

    def progress(self) -> str:
        done = [(call.name, result.is_error) for _, call, result in self._results(self._said)]
        parts = [_counted(self._ground.replies, "reply", "replies")] if self._ground.replies else []
        if done:
            parts.append(f"{_counted(len(done), 'tool call', 'tool calls')} ({_tally(name for name, _ in done)})")
        failed = sum(is_error for _, is_error in done)
        if failed:
            parts.append(f"{failed} of them failed")
        return ", ".join(parts)

    def approach(self) -> str:
        for action in reversed(self._ground.actions):
            if action.approach.strip():
                self.seqs.add(action.seq)
                return shortened(one_line(action.approach), _REQUEST_CHARS)
        for each in reversed(self._said):
            if each.role == "user":
                break
            if each.tool_calls:
                return f"Using {_tally(call.name for call in each.tool_calls)}"
        return ""

    def findings(self) -> str:
        """The newest results that tell something, since the user spoke last; else what the assistant said last."""
        found: list[str] = []
        for message, call, result in reversed(list(self._results(self._since_user()))):
            short = "" if result.is_error else self._quoted(message, text_of(result.content), _FINDING_CHARS)
            if short and len(found) < _FINDINGS:
                found.append(f"{call.name}: {short}")
        if found:
            return "; ".join(reversed(found))
        for each in reversed(self._said):
            if each.role == "assistant" and each.text.strip():
                return self._quoted(each, each.text, _REQUEST_CHARS)
        return ""

    def focus(self) -> str:
        waiting = self._ground.open_calls
        if waiting:
            names = ", ".join(f"{call.name} ({call.id})" for call in waiting[:_NAMED])
            more = f" and {len(waiting) - _NAMED} more" if len(waiting) > _NAMED else ""
            return f"Waiting for what comes of {names}{more}"
        failed = [each for each in self._results(self._since_reply()) if each[2].is_error]
        if failed:
            message, call, result = failed[-1]
            return f"{call.name} failed: {self._quoted(message, text_of(result.content), _FINDING_CHARS)}".rstrip(": ")
        last = self._said[-1] if self._said else None
        if last is None or last.tool_results:
            return "Going on from the latest results" if last is not None else ""
        if last.role == "user":
            return "The user waits for an answer"
        asked = is_question(last.text)
        return f"The user was asked: {self._quoted(last, last.text, _REQUEST_CHARS)}" if asked else ""

    def _since_user(self) -> list[Message]:
        return self._since("user")

    def _since_reply(self) -> list[Message]:
        return self._since("assistant")

    def _since(self, role: str) -> list[Message]:
        for at in range(len(self._said) - 1, -1, -1):
            if self._said[at].role == role:
                return self._said[at + 1 :]
        return self._said


def _counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _tally(names: Iterable[str]) -> str:
    """Names, each once, with how often it came; those that came first stand first."""
    counts = Counter(names)
    shown = [f"{name} {count}" if count > 1 else name for name, count in list(counts.items())[:_NAMED]]
    return ", ".join([*shown, *(["…"] if len(counts) > _NAMED else [])])


# Reasoning contexts


def told(
    mode: Mode,
    situation: Sequence[tuple[str, str]],
    actions: Sequence[Action],
    results: Sequence[ActionCall],
    max_history: int,
) -> str:
    """What a model is to reason on: how things stand, and what came of the latest step; in deep mode with all its details.
    Without a situation, the actions before the latest stand for it, in short. `results` came since the latest action."""
    parts: list[str] = []
    latest = actions[-1] if actions else None
    if situation:
        parts.append("\n".join(["SITUATION", *(f"{name}: {text}" for name, text in situation)]))
    elif len(actions) > 1 and max_history:
        parts.append(
            "\n".join(["EARLIER ACTIONS", *(line for each in actions[:-1][-max_history:] for line in _short(each))])
        )
    if latest is not None and (mode == "deep" or not situation):
        parts.append("\n".join(["LATEST DETAILS", *_details(latest)]))
        newest: Sequence[ActionCall] = results
    else:
        newest = results or (() if latest is None else latest.tool_calls)
    if newest:
        parts.append("\n".join(["LATEST RESULTS", *(line for each in newest for line in _result(each, mode))]))
    return "\n\n".join(parts) or NOTHING


def _short(action: Action) -> Iterator[str]:
    """An action in short: what was tried, and each call in one line, with its arguments and the beginning of its result."""
    words = shortened(one_line(action.approach or action.thinking), _LINE_CHARS)
    head = f"iteration {action.iteration}, {action.mode}"
    yield f"{head}: {words}" if words else head
    for call in action.tool_calls[:_NAMED]:
        yield f"  {_one_line_result(call, _FINDING_CHARS)}"
    more = len(action.tool_calls) - _NAMED
    if more > 0:
        yield f"  - and {_counted(more, 'more call', 'more calls')}"


def _details(action: Action) -> Iterator[str]:
    yield f"iteration {action.iteration}, {action.mode}, {action.timestamp}"
    for name in TEXTS:
        text: str = getattr(action, name)
        if text.strip():
            yield f"{name}: {one_line(text)}"
    for call in action.tool_calls:
        yield from _result(call, "deep")


def _result(call: ActionCall, mode: Mode) -> Iterator[str]:
    """In fast mode in one line; in deep mode all that is kept."""
    if mode == "fast":
        yield _one_line_result(call, _LINE_CHARS)
        return
    yield _head(call)
    yield from (f"  | {line}" for line in call.result.splitlines())


def _one_line_result(call: ActionCall, chars: int) -> str:
    text = shortened(one_line(call.result), chars)
    return f"{_head(call)}: {text}" if text else _head(call)


def _head(call: ActionCall) -> str:
    return f"- {call.name}({shortened(one_line(args_text(call)), _ARGS_CHARS)}): {call.outcome}"
