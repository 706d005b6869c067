"""Names: what may be one, and that two places are never the same stream."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidName, InvalidNumber
from holdfast.model import limits
from holdfast.model.names import Scope, checked_name, checked_whole
from tests.core import strategies
from tests.support import figure

EXAMPLES = figure(150, 20_000)


def _usable(text: str) -> bool:
    """The rule, said in another way."""
    kinds = {unicodedata.category(character) for character in text}
    return bool(text) and kinds.isdisjoint({"Cc", "Cs", "Zl", "Zp"}) and len(text.encode()) <= limits.NAME_BYTES


@given(st.text(max_size=300) | st.text(st.sampled_from("aé日😀\u2028\n"), max_size=300))
@settings(max_examples=EXAMPLES)
def test_a_name_is_usable_exactly_when_the_model_says_so(text: str) -> None:
    if _usable(text):
        assert checked_name("name", text) is text
    else:
        with pytest.raises(InvalidName) as refusal:
            checked_name("name", text)
        assert str(refusal.value).encode()


def test_every_single_character_is_judged_as_the_model_does() -> None:
    for point in [*range(0x3000), *range(0xD000, 0x11000), 0x1F600, 0xE0001, 0x10FFFF]:
        text = chr(point)
        try:
            accepted = bool(checked_name("name", text))
        except InvalidName:
            accepted = False
        assert accepted == _usable(text), hex(point)


@pytest.mark.parametrize("letter", ["a", "é", "日", "😀"])
def test_the_limit_counts_bytes(letter: str) -> None:
    fitting = limits.NAME_BYTES // len(letter.encode())
    assert checked_name("name", letter * fitting)
    with pytest.raises(InvalidName, match=f"{(fitting + 1) * len(letter.encode())} bytes"):
        checked_name("name", letter * (fitting + 1))


@pytest.mark.parametrize("value", [None, 1, b"name", ["name"], ("a",), object(), type("Name", (str,), {})("name")])
def test_only_text_is_a_name(value: object) -> None:
    with pytest.raises(InvalidName):
        checked_name("name", value)


@given(st.integers() | st.floats() | st.booleans() | st.none() | st.text())
@settings(max_examples=EXAMPLES)
def test_a_whole_number_is_an_int_in_range(value: object) -> None:
    if type(value) is int and 3 <= value <= 1_000:
        assert checked_whole("number", value, 3, 1_000) == value
    else:
        with pytest.raises(InvalidNumber, match="from 3 to 1000"):
            checked_whole("number", value, 3, 1_000)


@pytest.mark.parametrize("number", [10**5_000, -(10**5_000), 2**62, 2**63, 2**64], ids=int.bit_length)
def test_a_number_too_large_for_a_store_is_refused_however_large(number: int) -> None:
    with pytest.raises(InvalidNumber):
        checked_whole("number", number)


@given(strategies.scopes)
@settings(max_examples=EXAMPLES)
def test_a_scope_comes_back_from_its_stream(scope: Scope) -> None:
    assert Scope.of(scope.stream) == scope
    assert Scope.checked(scope.tenant, scope.actor, scope.session, scope.thread) == scope


joined = st.sampled_from(["a", "b", "a/b", "/", "b/a", '","', "a,b", "."])


@given(
    st.builds(Scope, joined, joined, joined, st.none() | joined),
    st.builds(Scope, joined, joined, joined, st.none() | joined),
)
@settings(max_examples=EXAMPLES)
def test_two_scopes_share_a_stream_only_if_they_are_the_same(one: Scope, other: Scope) -> None:
    """Also with names that look like joined ones."""
    assert (one.stream == other.stream) == (one == other)


@pytest.mark.parametrize("field", ["tenant", "actor", "session", "thread"])
def test_every_name_of_a_scope_is_checked(field: str) -> None:
    names: dict[str, object] = {"tenant": "t", "actor": "a", "session": "s", "thread": "x"}
    for bad in ("", "\0", 5):
        with pytest.raises(InvalidName, match=field):
            Scope.checked(**{**names, field: bad})
