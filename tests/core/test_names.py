"""Names: what may be one, and that two places are never the same stream."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidName, InvalidNumber
from holdfast.model import limits
from holdfast.model.names import Scope, check_name, check_whole, shorten_name
from tests.core import strategies
from tests.support import figure

EXAMPLES = figure(75, 20_000)


def _usable(text: str) -> bool:
    """The rule, said in another way."""
    kinds = {unicodedata.category(character) for character in text}
    return bool(text) and kinds.isdisjoint({"Cc", "Cs", "Zl", "Zp"}) and len(text.encode()) <= limits.NAME_BYTES


@given(st.text(max_size=300) | st.text(st.sampled_from("aé日😀\u2028\n"), max_size=300))
@settings(max_examples=EXAMPLES)
def test_a_name_is_usable_exactly_when_the_model_says_so(text: str) -> None:
    if _usable(text):
        assert check_name("name", text) is text
    else:
        with pytest.raises(InvalidName) as refusal:
            check_name("name", text)
        assert str(refusal.value).encode()


def test_every_single_character_is_judged_as_the_model_does() -> None:
    for point in [*range(0x3000), *range(0xD000, 0x11000), 0x1F600, 0xE0001, 0x10FFFF]:
        text = chr(point)
        try:
            accepted = bool(check_name("name", text))
        except InvalidName:
            accepted = False
        assert accepted == _usable(text), hex(point)


@pytest.mark.parametrize("letter", ["a", "é", "日", "😀"])
def test_the_limit_counts_bytes(letter: str) -> None:
    fitting = limits.NAME_BYTES // len(letter.encode())
    assert check_name("name", letter * fitting)
    with pytest.raises(InvalidName, match=f"{(fitting + 1) * len(letter.encode())} bytes"):
        check_name("name", letter * (fitting + 1))


@pytest.mark.parametrize("value", [None, 1, b"name", ["name"], ("a",), object(), type("Name", (str,), {})("name")])
def test_only_text_is_a_name(value: object) -> None:
    with pytest.raises(InvalidName):
        check_name("name", value)


@given(st.integers() | st.floats() | st.booleans() | st.none() | st.text())
@settings(max_examples=EXAMPLES)
def test_a_whole_number_is_an_int_in_range(value: object) -> None:
    if type(value) is int and 3 <= value <= 1_000:
        assert check_whole("number", value, 3, 1_000) == value
    else:
        with pytest.raises(InvalidNumber, match="from 3 to 1000"):
            check_whole("number", value, 3, 1_000)


@pytest.mark.parametrize("number", [10**5_000, -(10**5_000), 2**62, 2**63, 2**64], ids=int.bit_length)
def test_a_number_too_large_for_a_store_is_refused_however_large(number: int) -> None:
    with pytest.raises(InvalidNumber):
        check_whole("number", number)


@given(strategies.scopes)
@settings(max_examples=EXAMPLES)
def test_a_scope_comes_back_from_its_stream(scope: Scope) -> None:
    assert Scope.from_stream(scope.stream) == scope
    assert Scope.check(scope.tenant, scope.actor, scope.session, scope.thread) == scope


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
            Scope.check(**{**names, field: bad})


NAMES = st.text(st.sampled_from("aé日😀~0f"), min_size=1, max_size=400)
"""Names of other systems, of any length, some of which look like shortened ones."""


def _shortened(text: str) -> str:
    return shorten_name(text + "x" * limits.NAME_BYTES)


@given(NAMES | NAMES.map(_shortened), NAMES | NAMES.map(_shortened), st.sampled_from([80, 100, limits.NAME_BYTES]))
@settings(max_examples=EXAMPLES)
def test_a_shortened_name_is_a_name_and_belongs_to_one_name_only(one: str, other: str, limit: int) -> None:
    short = shorten_name(one, limit)
    assert check_name("name", short) == short == shorten_name(one, limit)
    assert len(short.encode()) <= limit
    assert short.startswith(one[:10].encode()[:10].decode(errors="ignore"))
    assert (short == shorten_name(other, limit)) == (one == other)
    for name in (one, other):  # whatever a name is shortened to is no other name unchanged
        assert (
            shorten_name(shorten_name(name, limit), limit) != shorten_name(name, limit) or len(name.encode()) <= limit
        )


@given(NAMES)
@settings(max_examples=EXAMPLES)
def test_a_name_that_fits_is_not_changed_unless_it_looks_shortened(name: str) -> None:
    fits = len(name.encode()) <= limits.NAME_BYTES
    looks_shortened = len(name) > 64 and name[-65] == "~" and {*name[-64:]} <= {*"0123456789abcdef"}
    assert (shorten_name(name) == name) == (fits and not looks_shortened)


@pytest.mark.parametrize("bad", ["", "a\n", "\ud800", None, 5, b"a"])
def test_a_shortened_name_must_be_a_name(bad: object) -> None:
    with pytest.raises(InvalidName):
        shorten_name(bad)  # type: ignore[arg-type]


def test_a_limit_without_room_for_a_hash_is_refused() -> None:
    with pytest.raises(InvalidNumber):
        shorten_name("a", 79)
