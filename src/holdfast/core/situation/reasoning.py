"""The situation derived by rules, and the texts that show a model the situation and its actions.

Laws: the same log gives the same words. Every line of a tool result is marked, so that it cannot pass for text of the
engine. All of it is bounded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from holdfast import codec
from holdfast.model import limits
from holdfast.model.content import Json, ToolCall, ToolResult, text_of
from holdfast.model.history.views import HistoryItem
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.situation.situations import FIELDS, Action, ActionCall, ActionMode, FieldName
from holdfast.model.state import OpenCall
from holdfast.text.lines import ELLIPSIS, join_names, one_line, shorten
from holdfast.text.questions import is_question

ACTION_TEXTS = ("thinking", "planning", "reflection", "approach")
"""The texts of an action."""
NO_ACTIONS = "Nothing has been done yet."
_REQUEST_CHARS = 400
_FINDING_CHARS = 160
_LINE_CHARS = 200
_ARGS_CHARS = 160
_MAX_FINDINGS = 3
_MAX_NAMED = 5
_REQUEST_LETTERS = 12
"""The least letters and digits of a request: a word of thanks is none."""


# Fields and calls


def format_value(value: Json) -> str:
    """The value of a field as text: a list of findings is accepted too."""
    if value is None:
        return ""
    if type(value) is list:
        return "; ".join(
            filter(None, (_encode_json(item) if type(item) is list else format_value(item) for item in value))
        )
    return value if type(value) is str else _encode_json(value)


def _encode_json(value: Json) -> str:
    return codec.encode(value).decode()


def fit_field(text: str, count: Callable[[str], int]) -> str:
    """As much of a field as a situation may have: cut at a word, if there is one. A cut text ends with an ellipsis,
    unless nothing fits."""
    if _is_within_limit(text, count):
        return text
    start = text.encode()[: limits.SITUATION_BYTES].decode("utf-8", "ignore")
    words = start.split(" ")
    torn = len(start) < len(text) and text[len(start)] != " "  # the last word is cut
    most = _find_largest(len(words) - torn, lambda n: _is_within_limit(" ".join(words[:n]) + ELLIPSIS, count))
    if most:
        return " ".join(words[:most]) + ELLIPSIS
    chars = _find_largest(len(words[0]), lambda n: _is_within_limit(words[0][:n] + ELLIPSIS, count))
    return words[0][:chars] + ELLIPSIS if chars else ""


def _is_within_limit(text: str, count: Callable[[str], int]) -> bool:
    return len(text.encode()) <= limits.SITUATION_BYTES and count(text) <= limits.SITUATION_TOKENS


def _find_largest(top: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `top` that fits, if everything smaller fits too; 0 for none."""
    low, high = 0, top
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def shorten_args(args: Json) -> Json:
    """Arguments as an action stores them: as they are, or the start of their JSON."""
    text = codec.encode(args)
    if len(text) <= limits.ACTION_ARGS_BYTES:
        return args
    return shorten(text.decode(), limits.ACTION_ARGS_BYTES // 8)


def format_args(call: ActionCall) -> str:
    """The arguments of a call as text."""
    return "" if call.args is None else _encode_json(call.args)


def shorten_result(text: str) -> str:
    return shorten(text, limits.ACTION_RESULT_CHARS)


# Situations by rules


class SituationSource(msgspec.Struct, frozen=True, kw_only=True):
    """What the rules derive a situation from."""

    goal: str = ""
    """Of the frame; empty outside of frames."""
    goal_at: int = 0
    """The seq of the event that pushed it."""
    items: tuple[HistoryItem, ...] = ()
    """The items in view."""
    replies: int = 0
    actions: tuple[Action, ...] = ()
    """The latest, oldest first."""
    open_calls: tuple[OpenCall, ...] = ()


class DerivedSituation(msgspec.Struct, frozen=True):
    fields: tuple[tuple[FieldName, str], ...] = ()
    """The fields that have a text."""
    tells: tuple[int, ...] = ()
    """The seqs of the events that they quote."""


def derive_situation(source: SituationSource) -> DerivedSituation:
    """The situation that rules read from the log: what was asked, done, found and left open; not why."""
    writer = _SituationWriter(source)
    texts = {
        "goal": writer.describe_goal(),
        "progress": writer.describe_progress(),
        "current_approach": writer.describe_approach(),
        "key_findings": writer.describe_findings(),
        "next_focus": writer.describe_focus(),
    }
    return DerivedSituation(tuple((name, texts[name]) for name in FIELDS if texts[name]), tuple(sorted(writer.seqs)))


class _SituationWriter:
    """Each method writes one field; `seqs` are the events that were quoted."""

    def __init__(self, source: SituationSource) -> None:
        self._source = source
        self._messages = [
            message for item in source.items if isinstance(item, MessageGroup) for message in item.messages
        ]
        self._calls = {call.id: call for message in self._messages for call in message.tool_calls}
        self.seqs: set[int] = set()

    def _quote(self, message: Message, text: str, chars: int) -> str:
        short = shorten(one_line(text), chars)
        if short:
            self.seqs.add(message.seq)
        return short

    def _iter_results(self, messages: Iterable[Message]) -> Iterator[tuple[Message, ToolCall, ToolResult]]:
        for message in messages:
            for result in message.tool_results:
                call = self._calls.get(result.tool_call_id)
                if call is not None:
                    yield message, call, result

    def describe_goal(self) -> str:
        if self._source.goal:
            self.seqs |= {self._source.goal_at} - {0}
            return shorten(one_line(self._source.goal), _REQUEST_CHARS)
        requests = [message for message in self._messages if message.role == "user" and message.text.strip()]
        for request in reversed(requests):
            if sum(char.isalnum() for char in request.text) >= _REQUEST_LETTERS:
                return self._quote(request, request.text, _REQUEST_CHARS)
        return self._quote(requests[-1], requests[-1].text, _REQUEST_CHARS) if requests else ""

    def describe_progress(self) -> str:
        done = [(call.name, result.is_error) for _, call, result in self._iter_results(self._messages)]
        parts = [_count_phrase(self._source.replies, "reply", "replies")] if self._source.replies else []
        if done:
            parts.append(f"{_count_phrase(len(done), 'tool call', 'tool calls')} ({_tally(name for name, _ in done)})")
        failed = sum(is_error for _, is_error in done)
        if failed:
            parts.append(f"{failed} of them failed")
        return ", ".join(parts)

    def describe_approach(self) -> str:
        for action in reversed(self._source.actions):
            if action.approach.strip():
                self.seqs.add(action.seq)
                return shorten(one_line(action.approach), _REQUEST_CHARS)
        for message in reversed(self._messages):
            if message.role == "user":
                break
            if message.tool_calls:
                return f"Using {_tally(call.name for call in message.tool_calls)}"
        return ""

    def describe_findings(self) -> str:
        """The newest results with a text since the newest message of the user; else the newest text of the assistant."""
        findings: list[str] = []
        for message, call, result in reversed(list(self._iter_results(self._since("user")))):
            short = "" if result.is_error else self._quote(message, text_of(result.content), _FINDING_CHARS)
            if short and len(findings) < _MAX_FINDINGS:
                findings.append(f"{call.name}: {short}")
        if findings:
            return "; ".join(reversed(findings))
        for reply in reversed(self._messages):
            if reply.role == "assistant" and reply.text.strip():
                return self._quote(reply, reply.text, _REQUEST_CHARS)
        return ""

    def describe_focus(self) -> str:
        waiting = self._source.open_calls
        if waiting:
            names = [f"{call.name} ({call.id})" for call in waiting]
            return f"Waiting for the results of {join_names(names, _MAX_NAMED)}"
        failed = [entry for entry in self._iter_results(self._since("assistant")) if entry[2].is_error]
        if failed:
            message, call, result = failed[-1]
            return f"{call.name} failed: {self._quote(message, text_of(result.content), _FINDING_CHARS)}".rstrip(": ")
        last = self._messages[-1] if self._messages else None
        if last is None or last.tool_results:
            return "Going on from the latest results" if last is not None else ""
        if last.role == "user":
            return "The user waits for an answer"
        if not is_question(last.text):
            return ""
        return f"The user was asked: {self._quote(last, last.text, _REQUEST_CHARS)}"

    def _since(self, role: str) -> list[Message]:
        for at in range(len(self._messages) - 1, -1, -1):
            if self._messages[at].role == role:
                return self._messages[at + 1 :]
        return self._messages


def _count_phrase(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _tally(names: Iterable[str]) -> str:
    """Names, each once, with its count, in the order of their first use."""
    counts = Counter(names)
    shown = [f"{name} {count}" if count > 1 else name for name, count in list(counts.items())[:_MAX_NAMED]]
    return ", ".join([*shown, *(["…"] if len(counts) > _MAX_NAMED else [])])


# Reasoning contexts


def render_reasoning_context(
    mode: ActionMode,
    situation: Sequence[tuple[str, str]],
    actions: Sequence[Action],
    results: Sequence[ActionCall],
    max_history: int,
) -> str:
    """The text for a model to reason on: the situation and the latest results; in deep mode with all details of the
    latest action. Without a situation, the actions before the latest are shown instead, in short. `results` came since
    the latest action."""
    parts: list[str] = []
    latest = actions[-1] if actions else None
    if situation:
        parts.append("\n".join(["SITUATION", *(f"{name}: {text}" for name, text in situation)]))
    elif len(actions) > 1 and max_history:
        parts.append(
            "\n".join(
                ["EARLIER ACTIONS", *(line for action in actions[:-1][-max_history:] for line in _action_lines(action))]
            )
        )
    if latest is not None and (mode == "deep" or not situation):
        parts.append("\n".join(["LATEST DETAILS", *_detail_lines(latest)]))
        newest: Sequence[ActionCall] = results
    else:
        newest = results or (() if latest is None else latest.tool_calls)
    if newest:
        parts.append("\n".join(["LATEST RESULTS", *(line for call in newest for line in _result_lines(call, mode))]))
    return "\n\n".join(parts) or NO_ACTIONS


def _action_lines(action: Action) -> Iterator[str]:
    """An action in short: its approach, and each call in one line, with its arguments and the start of its result."""
    words = shorten(one_line(action.approach or action.thinking), _LINE_CHARS)
    head = f"iteration {action.iteration}, {action.mode}"
    yield f"{head}: {words}" if words else head
    for call in action.tool_calls[:_MAX_NAMED]:
        yield f"  {_result_line(call, _FINDING_CHARS)}"
    more = len(action.tool_calls) - _MAX_NAMED
    if more > 0:
        yield f"  - and {_count_phrase(more, 'more call', 'more calls')}"


def _detail_lines(action: Action) -> Iterator[str]:
    yield f"iteration {action.iteration}, {action.mode}, {action.timestamp}"
    for name in ACTION_TEXTS:
        text: str = getattr(action, name)
        if text.strip():
            yield f"{name}: {one_line(text)}"
    for call in action.tool_calls:
        yield from _result_lines(call, "deep")


def _result_lines(call: ActionCall, mode: ActionMode) -> Iterator[str]:
    """In fast mode one line; in deep mode all of the stored result."""
    if mode == "fast":
        yield _result_line(call, _LINE_CHARS)
        return
    yield _call_head(call)
    yield from (f"  | {line}" for line in call.result.splitlines())


def _result_line(call: ActionCall, chars: int) -> str:
    text = shorten(one_line(call.result), chars)
    return f"{_call_head(call)}: {text}" if text else _call_head(call)


def _call_head(call: ActionCall) -> str:
    return f"- {call.name}({shorten(one_line(format_args(call)), _ARGS_CHARS)}): {call.outcome}"
