"""A view changes slices of a request, and nothing else."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.gateway.dialects import read_request
from holdfast.gateway.edits import apply_view
from holdfast.gateway.model import Dialect, SentView
from tests.gateway.random_requests import (
    DIALECTS,
    LIST_NAMES,
    build_request,
    model_edit,
    pick_view,
    random_messages,
    write_request,
)
from tests.support import figure

_dialects = st.sampled_from(DIALECTS)
_seeds = st.integers(min_value=0, max_value=1 << 32)


@settings(max_examples=figure(120, 2_000), deadline=None)
@example("responses", 1102)  # all before a reply is removed, and the first item of it
@given(_dialects, _seeds)
def test_an_edit_is_what_the_plain_model_says(dialect: Dialect, seed: int) -> None:
    pick = random.Random(seed)
    messages = random_messages(dialect, pick)
    body = write_request(dialect, messages, seed)
    request = read_request(dialect, (), body)
    view = pick_view(request, pick)
    edited = apply_view(body, request, view, mark=True)
    mark = json.loads(request.mark) if 0 < request.marks < 4 else None
    expected = build_request(dialect, model_edit(dialect, messages, view, mark))
    assert json.loads(edited) == expected
    if view.is_empty:
        assert edited is body


@settings(max_examples=figure(60, 2_000), deadline=None)
@given(_dialects, _seeds)
def test_bytes_outside_of_edited_slices_stay_in_their_order(dialect: Dialect, seed: int) -> None:
    pick = random.Random(seed)
    messages = random_messages(dialect, pick)
    body = write_request(dialect, messages, seed)
    request = read_request(dialect, (), body)
    view = pick_view(request, pick)
    edited = apply_view(body, request, view, mark=False)
    assert edited.startswith(body[: request.array.start + 1])
    assert edited.endswith(body[request.array.end :])
    position = 0
    for number, message in enumerate(request.messages):
        places = {(number, place) for place in range(len(message.pieces))}
        if places.isdisjoint(view.removed) and places.isdisjoint(view.replaced):
            position = edited.index(body[message.at.start : message.at.end], position) + 1


@settings(max_examples=figure(60, 2_000), deadline=None)
@given(_dialects, _seeds)
def test_the_same_view_of_a_longer_request_begins_with_the_same_bytes(dialect: Dialect, seed: int) -> None:
    pick = random.Random(seed)
    messages = random_messages(dialect, pick)
    body = write_request(dialect, messages, seed)
    request = read_request(dialect, (), body)
    view = pick_view(request, pick)
    edited = apply_view(body, request, view, mark=False)
    added: list[dict[str, Any]] = [{"role": "user", "content": "more"}]
    longer_body = write_request(dialect, [*messages, *added], seed)
    longer = apply_view(longer_body, read_request(dialect, (), longer_body), view, mark=False)
    end = read_request(dialect, (), edited).array.end - 1
    assert longer.startswith(edited[:end].rstrip())
    *before, last = json.loads(longer)[LIST_NAMES[dialect]]
    shown = json.loads(edited)[LIST_NAMES[dialect]]
    assert last == added[0]
    assert before[: len(shown)] == shown
    assert len(before) - len(shown) <= (shown[-1].get("role") == "system"), "a reply may have to stand between them"


def _edit(dialect: Dialect, messages: list[dict[str, Any]], view: SentView, *, mark: bool = False) -> list[Any]:
    body = json.dumps(build_request(dialect, messages)).encode()
    edited: list[Any] = json.loads(apply_view(body, read_request(dialect, (), body), view, mark=mark))[
        LIST_NAMES[dialect]
    ]
    return edited


def _marked(ttl: str, count: int) -> list[dict[str, Any]]:
    mark = {"type": "ephemeral", "ttl": ttl}
    blocks = [{"type": "text", "text": "b", **({"cache_control": mark} if at < count else {})} for at in range(5)]
    return [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": blocks},
    ]


@pytest.mark.parametrize(("count", "has_mark"), [(0, False), (1, True), (3, True), (4, False)])
def test_the_summary_has_a_mark_if_the_client_uses_some_and_one_is_left(count: int, has_mark: bool) -> None:
    view = SentView(summary=b'"S"', removed=frozenset({(0, 0), (1, 0)}))
    first = _edit("anthropic", _marked("1h", count), view, mark=True)[0]
    assert first["content"][0].get("cache_control") == ({"type": "ephemeral", "ttl": "1h"} if has_mark else None)
    assert "cache_control" not in _edit("anthropic", _marked("1h", count), view)[0]["content"][0]


def test_the_mark_of_the_summary_lasts_as_long_as_any_mark_behind_it() -> None:
    blocks = [{"type": "text", "text": "b", "cache_control": {"type": "ephemeral", "ttl": ttl}} for ttl in ("1h", "5m")]
    view = SentView(summary=b'"S"', removed=frozenset({(0, 0)}))
    summary = _edit(
        "anthropic", [{"role": "user", "content": "a"}, {"role": "user", "content": blocks}], view, mark=True
    )[0]
    assert summary["content"][0]["cache_control"]["ttl"] == "1h"


def test_calls_without_content_and_content_without_calls_are_valid() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {"role": "assistant", "content": "words", "tool_calls": [call]}
    assert _edit("chat", [message], SentView(removed=frozenset({(0, 1)}))) == [
        {"role": "assistant", "content": "words"}
    ]
    assert _edit("chat", [message], SentView(removed=frozenset({(0, 0)}))) == [{**message, "content": None}]
    turned = {"tool_calls": [call], "role": "assistant", "content": "words"}
    assert _edit("chat", [turned], SentView(removed=frozenset({(0, 1)}))) == [{"role": "assistant", "content": "words"}]


def test_an_input_that_is_a_text_is_replaced_as_a_text() -> None:
    body = b'{"model":"m", "input": "a long text", "tools":[{}]}'
    request = read_request("responses", (), body)
    shorter = apply_view(body, request, SentView(replaced={(0, 0): b'"short"'}), mark=False)
    assert shorter == b'{"model":"m", "input": "short", "tools":[{}]}'
    removed = apply_view(body, request, SentView(summary=b'"S"', removed=frozenset({(0, 0)})), mark=False)
    assert removed == b'{"model":"m", "input": "S", "tools":[{}]}'
