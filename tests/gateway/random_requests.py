"""Random requests of agents in all dialects, as plain data and as bytes, and a plain model of what a view changes."""

from __future__ import annotations

import json
import random
from typing import Any

from holdfast.gateway.model import ClientRequest, Dialect, SentView
from tests.gateway.test_bodies import write_json

DIALECTS: tuple[Dialect, ...] = ("anthropic", "chat", "responses")
_WORDS = ["", "ok", 'say "hi"', "a\\b", "line\nline", "é😀", "{}", "[1,2]", "x" * 200, '","cache_control":{']
MARK = {"type": "ephemeral"}


def _word(pick: random.Random) -> str:
    return pick.choice(_WORDS)


def _text(pick: random.Random) -> str:
    return pick.choice(_WORDS[1:])


def _arguments(pick: random.Random) -> dict[str, Any]:
    return {
        pick.choice("abc"): pick.choice([1, 1.5, None, [], {"content": []}, _word(pick)])
        for _ in range(pick.randrange(3))
    }


def _anthropic(pick: random.Random, turns: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": pick.choice([_text(pick), [{"type": "text", "text": _text(pick)}]])}
    ]
    for turn in range(turns):
        reply: list[dict[str, Any]] = []
        if pick.random() < 0.4:
            reply.append({"type": "thinking", "thinking": _word(pick), "signature": f"s{turn}"})
        if pick.random() < 0.6:
            reply.append({"type": "text", "text": _word(pick)})
        calls = [f"toolu_{turn}_{number}" for number in range(pick.randrange(3))]
        reply += [{"type": "tool_use", "id": call, "name": "Read", "input": _arguments(pick)} for call in calls]
        messages.append({"role": "assistant", "content": reply or _text(pick)})
        answer: list[dict[str, Any]] = [_anthropic_result(pick, call) for call in calls]
        if not answer or pick.random() < 0.3:
            answer.append({"type": "text", "text": _text(pick)})
        if pick.random() < 0.1:
            answer.append({"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}})
        if pick.random() < 0.3:
            answer[-1]["cache_control"] = MARK
        messages.append({"role": "user", "content": answer})
        if pick.random() < 0.1:
            messages.append({"role": "system", "content": _text(pick)})
    return messages


def _anthropic_result(pick: random.Random, call: str) -> dict[str, Any]:
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": call}
    if pick.random() < 0.9:
        result["content"] = pick.choice([_word(pick), [{"type": "text", "text": _text(pick)}], []])
    if pick.random() < 0.3:
        result["is_error"] = pick.random() < 0.5
    return result


def _chat(pick: random.Random, turns: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": _text(pick)},
        {"role": "user", "content": _text(pick)},
    ]
    for turn in range(turns):
        calls = [f"call_{turn}_{number}" for number in range(pick.randrange(3))]
        reply: dict[str, Any] = {
            "role": "assistant",
            "content": pick.choice([None, _word(pick), [{"type": "text", "text": _text(pick)}]]),
        }
        if calls:
            reply["tool_calls"] = [
                {
                    "id": call,
                    "type": "function",
                    "function": {"name": "read", "arguments": json.dumps(_arguments(pick))},
                }
                for call in calls
            ]
        if pick.random() < 0.2:
            reply = dict(reversed(list(reply.items())))
        messages.append(reply)
        for call in calls:
            content = pick.choice([_word(pick), [{"type": "text", "text": _text(pick)}]])
            messages.append({"role": "tool", "tool_call_id": call, "content": content})
        if not calls or pick.random() < 0.3:
            parts = [
                {"type": "text", "text": _text(pick)},
                {"type": "image_url", "image_url": {"url": "https://e.com/a"}},
            ]
            messages.append({"role": "user", "content": pick.choice([_text(pick), parts])})
    return messages


def _responses(pick: random.Random, turns: int) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": _text(pick)}]},
        {"role": "user", "content": pick.choice([_text(pick), [{"type": "input_text", "text": _text(pick)}]])},
    ]
    for turn in range(turns):
        if pick.random() < 0.5:
            items.append({"type": "reasoning", "summary": [], "encrypted_content": f"e{turn}"})
        if pick.random() < 0.5:
            items.append(
                {
                    "type": "message",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": _text(pick), "annotations": []}],
                }
            )
        calls = [f"call_{turn}_{number}" for number in range(pick.randrange(3))]
        items += [
            {"type": "function_call", "call_id": call, "name": "read", "arguments": json.dumps(_arguments(pick))}
            for call in calls
        ]
        for call in calls:
            output = pick.choice([_word(pick), [{"type": "input_text", "text": _text(pick)}]])
            items.append({"type": "function_call_output", "call_id": call, "output": output})
        if not calls or pick.random() < 0.3:
            parts = [
                {"type": "input_text", "text": _text(pick)},
                {"type": "input_image", "image_url": "https://e.com/a"},
            ]
            items.append({"type": "message", "role": "user", "content": pick.choice([_text(pick), parts])})
    return items


_WRITERS = {"anthropic": _anthropic, "chat": _chat, "responses": _responses}
LIST_NAMES = {"anthropic": "messages", "chat": "messages", "responses": "input"}


def random_messages(dialect: Dialect, pick: random.Random, turns: int = 4) -> list[dict[str, Any]]:
    return _WRITERS[dialect](pick, turns)


def build_request(dialect: Dialect, messages: list[dict[str, Any]]) -> dict[str, Any]:
    """A request with these messages in the middle of its fields."""
    limit = {"anthropic": "max_tokens", "chat": "max_completion_tokens", "responses": "max_output_tokens"}[dialect]
    tool = (
        {"name": "Read", "input_schema": {"type": "object"}}
        if dialect == "anthropic"
        else {"type": "function", "name": "read"}
    )
    return {"model": "m-1", limit: 64, LIST_NAMES[dialect]: messages, "tools": [tool], "stream": True}


def write_request(dialect: Dialect, messages: list[dict[str, Any]], seed: int) -> bytes:
    """The bytes of a request, each message in a spelling that depends on the seed and its place alone."""
    request = build_request(dialect, messages)
    name = LIST_NAMES[dialect]
    if seed % 3 == 0:
        return json.dumps(request, separators=(",", ":"), ensure_ascii=False).encode()
    spelled = [write_json(message, random.Random(seed * 1_000 + number)) for number, message in enumerate(messages)]
    gap = random.Random(seed).choice(["", " ", "\n  "])
    before = json.dumps({key: request[key] for key in list(request)[:2]})[:-1]
    after = json.dumps({key: request[key] for key in list(request)[3:]})[1:]
    return f'{before}, "{name}":{gap}[{gap}{f"{gap},{gap}".join(spelled)}{gap}],{after}'.encode()


def pick_view(request: ClientRequest, pick: random.Random) -> SentView:
    """Any view of a request: removed messages, single pieces and shorter texts."""
    removed: set[tuple[int, int]] = set()
    replaced: dict[tuple[int, int], bytes] = {}
    for number, message in enumerate(request.messages):
        fate = pick.random()
        for place, piece in enumerate(message.pieces):
            if fate < 0.35 or (fate < 0.5 and pick.random() < 0.5):
                removed.add((number, place))
            elif piece.content is not None and pick.random() < 0.3:
                replaced[number, place] = json.dumps(_text(pick)).encode()
    summary = json.dumps(_text(pick)).encode() if removed and pick.random() < 0.9 else b""
    return SentView(summary=summary, removed=frozenset(removed), replaced=replaced)


# A plain model of an edit, on decoded data


def model_edit(
    dialect: Dialect, messages: list[dict[str, Any]], view: SentView, mark: dict[str, Any] | None
) -> list[Any]:
    """What apply_view() shall do, by its description alone."""
    groups = _group(dialect, messages)
    edited: list[Any] = []
    is_told = not view.summary
    lacks_reply = False
    for number, group in enumerate(groups):
        gone = {piece for at, piece in view.removed if at == number}
        if gone and not is_told:
            edited += _bridge(dialect, edited, "user", lacks_reply=True)
            edited.append(_summary(dialect, json.loads(view.summary), mark))
            is_told, lacks_reply = True, False
        texts = {piece: json.loads(text) for (at, piece), text in view.replaced.items() if at == number}
        left = _edit_group(dialect, group, gone, texts)
        role = group[0].get("role", "")
        if left:
            edited += _bridge(dialect, edited, role, lacks_reply=lacks_reply)
        lacks_reply = not left and (lacks_reply or role == "assistant")
        edited += left
    return edited


def _bridge(dialect: Dialect, before: list[Any], role: str, *, lacks_reply: bool) -> list[Any]:
    """The reply between a system message and one of the user, where the replies between them are gone."""
    is_bare = bool(before) and before[-1].get("role") == "system" and role not in ("assistant", "system")
    if dialect != "anthropic" or not is_bare or not lacks_reply:
        return []
    return [{"role": "assistant", "content": "(My earlier replies are in the summary.)"}]


def _group(dialect: Dialect, messages: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    groups: list[list[dict[str, Any]]] = []
    was_reply = False
    for message in messages:
        kind = message.get("type", "message")
        is_reply = dialect == "responses" and (
            kind in ("reasoning", "function_call") or (kind == "message" and message["role"] == "assistant")
        )
        if is_reply and was_reply:
            groups[-1].append(message)
        else:
            groups.append([message])
        was_reply = is_reply
    return groups


def _summary(dialect: Dialect, text: str, mark: dict[str, Any] | None) -> dict[str, Any]:
    if dialect == "chat":
        return {"role": "user", "content": text}
    if dialect == "responses":
        return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
    return {"role": "user", "content": [{"type": "text", "text": text, **({"cache_control": mark} if mark else {})}]}


def _edit_group(dialect: Dialect, group: list[dict[str, Any]], gone: set[int], texts: dict[int, str]) -> list[Any]:
    first = group[0]
    kind = first.get("type", "message")
    is_items = dialect == "responses" and (kind != "message" or first["role"] == "assistant")
    if is_items:
        return [_replace_item(item, texts.get(place)) for place, item in enumerate(group) if place not in gone]
    message = json.loads(json.dumps(first))
    if message["role"] == "tool":
        return [] if gone else [{**message, **({"content": texts[0]} if texts else {})}]
    pieces = _pieces(message)
    if gone and len(gone) == len(pieces):
        return []
    for place, text in texts.items():
        where, number = pieces[place]
        if number is None:
            message[where] = text
        else:
            block = message[where][number]
            block["content" if block["type"] == "tool_result" else "text"] = text
    return [_drop_pieces(message, pieces, gone)]


def _replace_item(item: dict[str, Any], text: str | None) -> dict[str, Any]:
    if text is None:
        return item
    if item["type"] == "function_call_output":
        return {**item, "output": text}
    return {**item, "content": [{**item["content"][0], "text": text}]}


def _pieces(message: dict[str, Any]) -> list[tuple[str, int | None]]:
    content = message["content"]
    pieces: list[tuple[str, int | None]] = []
    if isinstance(content, str) and content:
        pieces.append(("content", None))
    elif isinstance(content, list):
        pieces += [("content", at) for at, block in enumerate(content) if block.get("text") != ""]
    pieces += [("tool_calls", at) for at in range(len(message.get("tool_calls", ())))]
    return pieces or [("message", None)]


def _drop_pieces(message: dict[str, Any], pieces: list[tuple[str, int | None]], gone: set[int]) -> dict[str, Any]:
    for name in ("content", "tool_calls"):
        own = {place: at for place, (where, at) in enumerate(pieces) if where == name}
        if not own or gone.isdisjoint(own):
            continue
        left = [at for place, at in own.items() if place not in gone]
        if left:
            dropped = {own[place] for place in gone if place in own}
            message[name] = [block for at, block in enumerate(message[name]) if at not in dropped]
        elif name == "content":
            message["content"] = None
        else:
            del message["tool_calls"]
    return message
