"""Requests of any shape: they are read or refused, and what is read can be recorded and edited."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.gateway.bodies import UnreadableBody
from holdfast.gateway.dialects import build_drafts, cut_body, digest_reply, read_request
from holdfast.gateway.edits import apply_view
from holdfast.gateway.model import Dialect
from tests.gateway.random_requests import DIALECTS, LIST_NAMES, build_request, pick_view, random_messages, write_request
from tests.gateway.test_bodies import REFUSED
from tests.support import figure

_NAMES = """
    type role content text id call_id tool_use_id tool_call_id tool_calls function function_call name arguments input output
    is_error cache_control thinking signature data source url ref refusal audio encrypted_content summary status index
    citations action media_type title file image_url
""".split()
_VALUES = """
    user assistant system tool developer function text tool_use tool_result thinking image document message function_call
    function_call_output reasoning compaction item_reference output_text input_text refusal base64 opaque body data file
    custom_tool_call local_shell_call computer_call_output
""".split()
_NESTED = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.sampled_from([*_VALUES, "", "\x00", "😀", "a" * 300]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=5),
    max_leaves=12,
)
_MESSAGES = st.dictionaries(st.sampled_from(_NAMES[:9]), _NESTED, max_size=5)
_ROLES = st.sampled_from(_VALUES[:6])
_BLOCKS = st.lists(
    st.fixed_dictionaries({"type": st.sampled_from(_VALUES[6:])}, optional=dict.fromkeys(_NAMES[2:], _NESTED)),
    max_size=3,
)

_LIKELY = st.fixed_dictionaries({"role": _ROLES, "content": _BLOCKS}) | _BLOCKS.map(
    lambda blocks: blocks[0] if blocks else {}
)


def _exercise(dialect: Dialect, body: bytes, seed: int) -> None:
    """Whatever is done with a request that can be read, nothing fails."""
    try:
        request = read_request(dialect, (("x-session-id", "s"),), body)
    except UnreadableBody:
        return
    drafts = [
        draft
        for number in range(len(request.messages))
        for draft in build_drafts(request, cut_body(request, body, 0), number)
    ]
    if drafts:
        with holdfast.open(":memory:") as engine:
            engine.create_session("s").record_all([draft.message for draft in drafts], as_found=True)
    view = pick_view(request, random.Random(seed))
    edited = apply_view(body, request, view, mark=True)
    assert json.loads(edited).keys() == json.loads(body).keys()
    read_request(dialect, (), edited)


@settings(max_examples=figure(80, 2_000), deadline=None)
@given(st.sampled_from(DIALECTS), st.lists(_MESSAGES | _LIKELY, max_size=3), st.integers(0, 1 << 16))
def test_messages_of_any_shape(dialect: Dialect, messages: list[Any], seed: int) -> None:
    _exercise(dialect, json.dumps(build_request(dialect, messages)).encode(), seed)


@settings(max_examples=figure(40, 2_000), deadline=None)
@given(
    st.sampled_from(DIALECTS),
    st.dictionaries(st.sampled_from(["model", "tools", "system", "metadata", "stream", "n"]), _NESTED),
)
def test_fields_of_any_shape(dialect: Dialect, fields: dict[str, Any]) -> None:
    messages = [{"role": "user", "content": "hi"}]
    _exercise(dialect, json.dumps({**build_request(dialect, messages), **fields}).encode(), 0)


@settings(max_examples=figure(60, 2_000), deadline=None)
@given(st.sampled_from(DIALECTS), st.integers(0, 1 << 32), st.data())
def test_damaged_requests(dialect: Dialect, seed: int, data: st.DataObject) -> None:
    body = bytearray(write_request(dialect, random_messages(dialect, random.Random(seed), turns=1), seed))
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(body)))
        body[start : start + data.draw(st.integers(0, 3))] = data.draw(
            st.binary(max_size=2) | st.sampled_from([b'"', b"}", b"\\"])
        )
    _exercise(dialect, bytes(body), seed)


@settings(max_examples=figure(60, 2_000), deadline=None)
@given(st.sampled_from(DIALECTS), st.dictionaries(st.sampled_from(["content", "choices", "output"]), _NESTED))
def test_replies_of_any_shape(dialect: Dialect, reply: dict[str, Any]) -> None:
    try:
        assert len(digest_reply(dialect, reply)) == 32
    except UnreadableBody:
        pass


@pytest.mark.parametrize("dialect", DIALECTS)
def test_bodies_that_are_no_request_are_refused(dialect: Dialect) -> None:
    name = LIST_NAMES[dialect].encode()
    bodies = [
        *REFUSED,
        b"{}",
        b'{"model":"m"}',
        b'{"model":1,"%s":[]}' % name,
        b'{"model":"m","%s":null}' % name,
        b'{"model":"m","%s":{}}' % name,
        b'{"model":"m","%s":[1]}' % name,
        b'{"model":"m","%s":[[]]}' % name,
        b'{"model":"m","%s":[{}]}' % name,
        b'{"model":"m","%s":[{"role":"nobody","content":"x"}]}' % name,
        b'{"model":"m","%s":[{"role":"user","content":1}]}' % name,
        b'{"model":"m","%s":[{"role":"user","content":[1]}]}' % name,
        b'{"model":"m","%s":[{"role":"user","content":[{}]}]}' % name,
        b'{"model":"m","%s":[{"role":"user","role":"user","content":"x"}]}' % name,
        b'{"model":"m","%s":[{"role":"user","content":[{"type":"text","text":"a","text":"b"}]}]}' % name,
        b'{"model":"m","%s":[],"%s":[]}' % (name, name),
    ]
    for body in bodies:
        with pytest.raises(UnreadableBody):
            read_request(dialect, (), body)
