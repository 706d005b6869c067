"""The contents of a request, as a pack shows them. Pure.

ADK decides what an agent is shown, and in which form: own events as they are, those of other agents as quoted context, and
contents of its own (instructions, memories, a task). The pack decides how much of the conversation is shown: events that it
leaves out are left out, redacted ones are redacted, and summaries and the tail are added. Contents that come from no event
stay as they are.

Law: a content that the pack shows as it was recorded is not changed, so a request extends the one before it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from google.adk.events.event import Event
from google.genai import types

import holdfast
from holdfast.adk.events import CLIENT_ID, clean_json, is_shown, read_part
from holdfast.frameworks.accepted import accept_id
from holdfast.frameworks.shown import ShownMessage
from holdfast.types import Body

_OTHER_AGENT = "For context:"
"""How ADK begins what another agent did."""


class PackView(NamedTuple):
    """What a pack shows, by the events of ADK."""

    messages: Mapping[str, ShownMessage]
    """Messages by the id of their event."""
    results: Mapping[str, ShownMessage]
    """Results by the id of their call."""
    known: frozenset[str]
    """The ids of all messages in the conversation, shown or not, and of all calls with a result."""
    summaries: Sequence[str]
    tail: str


def read_view(shown: Iterable[ShownMessage], known: Iterable[str]) -> PackView:
    """Sort what a pack shows."""
    messages: dict[str, ShownMessage] = {}
    results: dict[str, ShownMessage] = {}
    texts: list[tuple[bool, str]] = []
    for each in shown:
        if each.call is not None:
            results[each.call.provider_id or each.call.id] = each
        elif each.id:
            messages[each.id] = each
        elif each.role == "user":
            texts.append((bool(messages or results), each.text))
    last = texts.pop()[1] if texts and (texts[-1][0] or not (messages or results)) else ""
    return PackView(messages, results, frozenset(known), [text for _, text in texts], last)


class _EventParts(NamedTuple):
    """The event of a content, and the numbers of its parts there."""

    event: Event
    parts: tuple[int, ...]


def arrange_contents(
    contents: Sequence[types.Content], events: Sequence[Event], agent: str, view: PackView
) -> list[types.Content]:
    """The contents of the request: those of ADK, as the pack shows them, then what the pack adds."""
    sources = find_sources(contents, events, agent)
    arranged: list[types.Content] = []
    first: int | None = None
    for content, source in zip(contents, sources, strict=True):
        if source is not None and first is None:
            first = len(arranged)
        changed = content if source is None else change_content(content, source, view)
        if changed is not None:
            arranged.append(changed)
    _add_interrupted(arranged, events, sources, agent, view)
    has_summary = any(event.actions.compaction for event in events)
    left_out = len(arranged) < len(contents)
    if view.summaries and (left_out or not has_summary):
        at = first or 0
        arranged[at:at] = [_build_text(text) for text in view.summaries]
    if view.tail:
        arranged.append(_build_text(view.tail))
    return arranged


def _build_text(text: str, role: str = "user") -> types.Content:
    return types.Content(role=role, parts=[types.Part(text=text)])


def find_sources(
    contents: Sequence[types.Content], events: Sequence[Event], agent: str
) -> list[tuple[_EventParts, ...] | None]:
    """The events that each content is made of, None for a content that is made of none. The newest are compared first: of
    two equal events, the later one is in view."""
    index: dict[str, list[Event]] = {}
    responses: dict[str, list[tuple[Event, int]]] = {}
    others: list[Event] = []
    for event in events:
        if not is_shown(event):
            continue
        assert event.content is not None
        assert event.content.parts is not None
        others.append(event)
        if event.author not in (agent, "user"):
            continue
        index.setdefault(_content_key(event.content), []).append(event)
        for number, part in enumerate(event.content.parts):
            if part.function_response:
                responses.setdefault(_part_key(part), []).append((event, number))
    sources: list[tuple[_EventParts, ...] | None] = []
    for content in reversed(contents):
        sources.append(_find_source(content, index, responses, others))
    return sources[::-1]


def _find_source(
    content: types.Content,
    index: dict[str, list[Event]],
    responses: dict[str, list[tuple[Event, int]]],
    others: list[Event],
) -> tuple[_EventParts, ...] | None:
    parts = content.parts or []
    if equal := index.get(_content_key(content)):
        event = equal.pop()
        assert event.content is not None
        return (_EventParts(event, tuple(range(len(event.content.parts or [])))),)
    if parts and all(part.function_response for part in parts):
        found = [responses[key].pop() for part in parts if responses.get(key := _part_key(part))]
        return tuple(_EventParts(event, (number,)) for event, number in found) if len(found) == len(parts) else None
    if len(parts) > 1 and (parts[0].text or "").startswith(_OTHER_AGENT):
        for number in range(len(others) - 1, -1, -1):
            event = others[number]
            if event.content and event.content.parts and _is_quoted(event, parts[1:]):
                del others[number]
                return (_EventParts(event, tuple(range(len(event.content.parts)))),)
    return None


def _is_quoted(event: Event, quoted: Sequence[types.Part]) -> bool:
    """Whether these parts quote an event of another agent, part by part."""
    parts = (event.content.parts if event.content else None) or []
    kept = [part for part in parts if not part.thought and read_part(part)]
    kept = [part for part in parts if part in kept or part.function_call or part.function_response]
    if event.author == "user" or len(kept) != len(quoted):
        return False
    return all(_quotes(text.text or "", event.author, part) for text, part in zip(quoted, kept, strict=True))


def _quotes(text: str, author: str, part: types.Part) -> bool:
    """Whether a text of ADK quotes a part: it names the author, says what they did, and has the words."""
    if part.function_call:
        words = [
            f"[{author}] called tool `{part.function_call.name}`",
            *map(str, (part.function_call.args or {}).values()),
        ]
    elif part.function_response:
        words = [f"[{author}] `{part.function_response.name}` tool returned", str(part.function_response.response)]
    elif part.text:
        words = [f"[{author}] said:", part.text]
    else:
        return not text  # a file: ADK shows it as it is
    return all(word in text for word in words)


def _content_key(content: types.Content) -> str:
    return json.dumps([content.role, [_part_key(part) for part in content.parts or []]])


def _part_key(part: types.Part) -> str:
    """A part without the ids that ADK gave it."""
    fields = part.model_dump(mode="python", exclude_none=True)
    for name in ("function_call", "function_response"):
        if str(fields.get(name, {}).get("id", "")).startswith(CLIENT_ID):
            del fields[name]["id"]
    return repr(fields)


def change_content(content: types.Content, sources: tuple[_EventParts, ...], view: PackView) -> types.Content | None:
    """A content as the pack shows it; None if the pack leaves it out."""
    changed = content
    is_left_out = True
    position = 0
    for source in sources:
        event_parts = (source.event.content.parts if source.event.content else None) or []
        for number in source.parts:
            part = event_parts[number]
            at = position if len(content.parts or []) == sum(len(each.parts) for each in sources) else None
            position += 1
            shown, is_known = _find_shown(source.event, part, view)
            if shown is None and is_known:
                continue
            is_left_out = False
            if shown is not None and not is_original(shown):
                changed = _replace(changed, at, part, source.event, shown)
    return None if is_left_out else changed


def is_original(shown: ShownMessage) -> bool:
    """Whether ADK's own content can be shown. One whose body is in the blob store is shown by its preview."""
    parts: list[Any] = []
    if shown.message is not None:
        parts = [*shown.message.content, *(part for result in shown.message.tool_results for part in result.content)]
    return shown.is_original and not any(isinstance(part, Body) for part in parts)


def _find_shown(event: Event, part: types.Part, view: PackView) -> tuple[ShownMessage | None, bool]:
    """How a part is shown, and whether the conversation has it at all."""
    response = part.function_response
    if response is not None and response.id:
        call = accept_id(response.id)
        if call in view.results:
            return view.results[call], True
        names = [name for name in view.messages if name == event.id or name.startswith(f"{event.id}/")]
        return (view.messages[names[0]], True) if names else (None, call in view.known)
    return view.messages.get(event.id), event.id in view.known


def _replace(
    content: types.Content, at: int | None, part: types.Part, event: Event, shown: ShownMessage
) -> types.Content:
    """The content with one part as the pack shows it. `at` is its number; None if ADK wrote the content anew."""
    parts = list(content.parts or [])
    old, new = _read_change(event, part, shown)
    if new is None:
        return content
    if at is not None and parts[at].function_response is not None:
        response = parts[at].function_response
        assert response is not None
        value = {"error" if shown.is_error else "result": new}
        parts[at] = parts[at].model_copy(update={"function_response": response.model_copy(update={"response": value})})
    elif at is not None and parts[at].text is not None:
        parts[at] = parts[at].model_copy(update={"text": new})
    else:
        for number, each in enumerate(parts):
            if each.text and old and old in each.text:
                parts[number] = each.model_copy(update={"text": each.text.replace(old, new)})
    return content.model_copy(update={"parts": parts})


def _read_change(event: Event, part: types.Part, shown: ShownMessage) -> tuple[str, str | None]:
    """The text of a part, and the text that the pack shows for it; None if it shows the same."""
    if part.function_response is not None:
        return str(part.function_response.response), shown.text
    if part.text is None or part.thought or shown.message is None:
        return "", None
    blocks = [each for each in (event.content.parts if event.content else None) or [] if read_part(each)]
    number = next((at for at, each in enumerate(blocks) if each is part), None)
    content = shown.message.content
    if number is not None and len(content) == len(blocks):
        block = content[number]
        new = block.text if isinstance(block, holdfast.Text) else shown.text
    else:
        texts = [each for each in blocks if each.text and not each.thought]
        new = shown.text if texts and texts[0] is part else ""
    return part.text, None if new == part.text else new


def _add_interrupted(
    arranged: list[types.Content],
    events: Sequence[Event],
    sources: Sequence[tuple[_EventParts, ...] | None],
    agent: str,
    view: PackView,
) -> None:
    """Add calls of this agent that ADK leaves out because no result came: the model must know that they may have taken
    effect. They stand before the next message of the user."""
    seen = {source.event.id for each in sources if each for source in each}
    for number, event in enumerate(events):
        shown = view.messages.get(event.id)
        if shown is None or event.id in seen or event.author != agent or not shown.calls:
            continue
        added = _build_interrupted(shown, view)
        later = {each.id for each in events[number + 1 :]}
        at = next((index for index, each in enumerate(arranged) if _is_from(each, sources, later)), len(arranged))
        arranged[at:at] = added


def _is_from(content: types.Content, sources: Sequence[tuple[_EventParts, ...] | None], ids: set[str]) -> bool:
    key = _content_key(content)
    return any(
        source.event.id in ids and source.event.content is not None and _content_key(source.event.content) == key
        for each in sources
        if each
        for source in each
    )


def _build_interrupted(shown: ShownMessage, view: PackView) -> list[types.Content]:
    calls, answers = [], []
    for call in shown.calls:
        name = call.provider_id or call.id
        args = call.args if isinstance(call.args, dict) else {"arguments": clean_json(call.args)}
        calls.append(types.Part(function_call=types.FunctionCall(id=name, name=call.name, args=args)))
        result = view.results.get(name)
        answer = {"error" if result is None or result.is_error else "result": result.text if result else "no result"}
        answers.append(types.Part(function_response=types.FunctionResponse(id=name, name=call.name, response=answer)))
    head = [types.Part(text=shown.text)] if shown.text else []
    return [types.Content(role="model", parts=[*head, *calls]), types.Content(role="user", parts=answers)]
