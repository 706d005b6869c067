"""JSON as slices: the slices say what the standard library reads, and anything ambiguous is refused."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.gateway.bodies import UnreadableBody, decode, elements, members, open_body, read_string
from holdfast.gateway.model import Slice
from tests.support import figure

_TEXT = st.text(max_size=12) | st.sampled_from(['"', "\\", "\\\\", '\\"', "\u2028", "😀", "/", "\x7f", "é\n\t", "\x00"])
_NUMBER = (
    st.integers()
    | st.integers(min_value=10**18, max_value=10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([0, -0.0, 1e21, 1.0, -1, 2**53, 2**64])
)
_JSON = st.recursive(
    st.none() | st.booleans() | _NUMBER | _TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_TEXT, inner, max_size=4),
    max_leaves=20,
)


def write_json(value: Any, pick: random.Random) -> str:
    """JSON with whitespace anywhere, and with characters escaped in any of their ways."""

    def gap() -> str:
        return "".join(pick.choice(" \t\n\r") for _ in range(pick.choice((0, 0, 0, 1, 2))))

    def text(value: str) -> str:
        return json.dumps(value, ensure_ascii=pick.random() < 0.5).replace("/", "\\/" if pick.random() < 0.5 else "/")

    def write(value: Any) -> str:
        if isinstance(value, dict):
            inner = ",".join(f"{gap()}{text(key)}{gap()}:{gap()}{write(item)}{gap()}" for key, item in value.items())
            return "{" + (inner or gap()) + "}"
        if isinstance(value, list):
            return "[" + (",".join(f"{gap()}{write(item)}{gap()}" for item in value) or gap()) + "]"
        return text(value) if isinstance(value, str) else json.dumps(value)

    return write(value)


def _compare(body: bytes, at: Slice, value: Any) -> None:
    """What the slices name is the value, at every depth."""
    assert body[at.start : at.end].strip() == body[at.start : at.end]
    assert decode(body, at) == value == json.loads(body[at.start : at.end])
    if isinstance(value, dict):
        found = members(body, at)
        assert list(found) == list(value)
        for key, inner in found.items():
            _compare(body, inner, value[key])
    elif isinstance(value, list):
        slots = elements(body, at)
        assert len(slots) == len(value)
        for slot, item in zip(slots, value, strict=True):
            _compare(body, slot, item)
    else:
        assert read_string(body, at) == (value if isinstance(value, str) else "")


@settings(max_examples=figure(100, 2_000), deadline=None)
@given(st.dictionaries(_TEXT, _JSON, max_size=5), st.integers(min_value=0))
def test_slices_name_the_values_that_json_has(value: dict[str, Any], seed: int) -> None:
    pick = random.Random(seed)
    body = (" " * pick.randrange(3) + write_json(value, pick) + "\n" * pick.randrange(2)).encode()
    found = open_body(body)
    assert list(found) == list(value)
    for key, at in found.items():
        _compare(body, at, value[key])


@settings(max_examples=figure(80, 2_000), deadline=None)
@given(st.dictionaries(_TEXT, _JSON, max_size=4), st.integers(min_value=0), st.data())
def test_a_damaged_body_is_refused_or_read_as_json_reads_it(
    value: dict[str, Any], seed: int, data: st.DataObject
) -> None:
    body = bytearray(write_json(value, random.Random(seed)).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(body)))
        body[start : start + data.draw(st.integers(0, 2))] = data.draw(
            st.binary(max_size=2) | st.sampled_from([b'"', b"{", b","])
        )
    damaged = bytes(body)
    try:
        found = open_body(damaged)
    except UnreadableBody:
        return
    read = json.loads(damaged)
    assert list(found) == list(read)
    for key, at in found.items():
        try:
            assert decode(damaged, at) == read[key]
        except UnreadableBody:
            continue


_DEEP = b'{"a":' + b"[" * 129 + b"]" * 129 + b"}"
REFUSED = [
    b"",
    b" ",
    b"{",
    b"[]",
    b'"text"',
    b"null",
    b'{"a":1,"a":2}',
    b'{"a":1,"\\u0061":1}',
    b'{"a":1,"b":1,"a":1}',
    b'{"a":[],"a":[[]]}',
    b'{"a":"\xff"}',
    b'{"a":"\xed\xa0\x80"}',
    b'{"\xff":1}',
    b'\xef\xbb\xbf{"a":1}',
    b'{"a":"\\ud800"}',
    b'{"a":"\\ud800\\u0041"}',
    b'{"\\udc00":1}',
    b'{"a":NaN}',
    b'{"a":-Infinity}',
    b'{"a":1} x',
    b'{"a":1}{"b":2}',
    b'{"a":1,}',
    b'{"a":[1,]}',
    b'{"a":01}',
    b'{"a":"\x00"}',
    b'{"a":"\\x"}',
    b"{'a':1}",
    b'{"a":1/*no*/}',
    b'{"a" 1}',
    b'{"a":tru}',
    b'{"a":' + b"[" * 100_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
]


@pytest.mark.parametrize("body", REFUSED, ids=range(len(REFUSED)))
def test_what_two_readers_could_read_differently_is_refused(body: bytes) -> None:
    with pytest.raises(UnreadableBody):
        open_body(body)


@pytest.mark.parametrize(
    "body",
    [b'{"a":{"b":1,"b":2}}', b'{"a":[{"c":{"b":1, "b":1}}]}', b'{"a":1e999}', b'{"a":' + b"9" * 6000 + b"}", _DEEP],
)
def test_what_is_ambiguous_inside_of_a_value_is_refused_when_it_is_decoded(body: bytes) -> None:
    with pytest.raises(UnreadableBody):
        decode(body, open_body(body)["a"])


def test_numbers_keep_all_their_digits() -> None:
    body = b'{"a":123456789012345678901234567890,"b":0.1}'
    found = open_body(body)
    assert decode(body, found["a"]) == 123456789012345678901234567890
    assert body[found["a"].start : found["a"].end] == b"123456789012345678901234567890"
