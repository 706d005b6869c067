"""Redaction: no secret survives, wherever it stands; the same value has the same placeholder; what views need stays."""

from __future__ import annotations

import base64
import json
import re
import string
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.access.records import make_key
from holdfast.inspector.addresses import redact_address
from holdfast.inspector.patterns import PATTERNS, PLACEHOLDER, find_secrets, is_iban, passes_luhn
from holdfast.inspector.redaction import BINARY_CHARS, RedactionMode, Redactor, shape_text

ALNUM = string.ascii_letters + string.digits
HEX = "0123456789abcdef"


def letters(least: int, most: int, alphabet: str = ALNUM) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=least, max_size=most)


def build_card(body: str) -> str:
    return next(f"{body}{digit}" for digit in range(10) if passes_luhn(f"{body}{digit}"))


def build_iban(account: str) -> str:
    return next(f"DE{check:02}{account}" for check in range(2, 99) if is_iban(f"DE{check:02}{account}"))


KEYS: tuple[st.SearchStrategy[str], ...] = (
    letters(20, 48).map("sk-{}".format),
    letters(30, 60).map("sk-ant-api03-{}".format),
    letters(16, 16, string.ascii_uppercase + string.digits).map("AKIA{}".format),
    letters(36, 36).map("ghp_{}".format),
    letters(35, 35).map("AIza{}".format),
    letters(24, 24).map("sk_live_{}".format),
    letters(20, 20).map("glpat-{}".format),
    letters(24, 40, string.digits).map("xoxb-{}".format),
    st.just("").map(lambda _: str(make_key()[1])),
    st.tuples(letters(20, 30), letters(20, 30), letters(20, 43)).map(
        lambda part: f"eyJ{part[0]}.eyJ{part[1]}.{part[2]}"
    ),
    letters(200, 400).map("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----".format),
)
PERSONAL: tuple[st.SearchStrategy[str], ...] = (
    st.tuples(letters(1, 12, string.ascii_lowercase), letters(2, 10, string.ascii_lowercase)).map(
        lambda part: f"{part[0]}.x@{part[1]}.example"
    ),
    letters(14, 14, string.digits).map(lambda body: build_card(f"4{body}")),
    letters(18, 18, string.digits).map(build_iban),
    letters(9, 9, string.digits).map("+49{}".format),
    st.tuples(letters(3, 3, "23456789"), letters(4, 4, string.digits)).map(lambda part: f"(555) {part[0]}-{part[1]}"),
    st.tuples(st.integers(11, 126), st.integers(0, 255), st.integers(1, 254)).map(
        lambda part: f"{part[0]}.{part[1]}.7.{part[2]}"
    ),
    letters(1, 4, HEX).map("2001:db8::{}".format),
)
SHAPED = st.one_of(*KEYS, *PERSONAL)
"""What is recognized by its shape alone."""
NAMED = st.text(ALNUM + "!#$%*+._~-", min_size=8, max_size=24).filter(
    lambda text: (
        not text.isalpha()
        and not text.isdecimal()
        and any(each in ALNUM for each in text[:1] + text[-1:])
        and text[0] in ALNUM
        and text[-1] in ALNUM
    )
)
"""Passwords: recognized by their names only."""


def place_shaped(secret: str, number: int) -> Any:
    """A secret in one of the places where an answer can have it."""
    nested = json.dumps({"note": json.dumps({"deep": [f"see {secret} there"]})})
    places: tuple[Any, ...] = (
        secret,
        f"Please use {secret}, thanks.",
        {"content": [{"type": "text", "text": f"It is ({secret})."}]},
        nested,
        base64.b64encode(f"Here it is: {secret}. Keep it.".encode()).decode(),
        {f"about {secret}": 1},
        f"prefix {nested}",
        base64.b64encode(json.dumps({"x": f"a {secret}"}).encode()).decode(),
        [[[{"title": secret}]]],
        f"data:text/plain;base64,{base64.b64encode(f'body with {secret} inside'.encode()).decode()}",
    )
    return places[number % len(places)]


def place_named(secret: str, number: int) -> Any:
    """A password in one of the places where its name says that it is one."""
    places: tuple[Any, ...] = (
        f"password={secret}",
        f"DB_PASSWORD={secret}\nHOST=db",
        {"password": secret},
        json.dumps({"client_secret": secret}),
        f'config: {{"api_key": "{secret}"}}',
        f"https://ada:{secret}@db.example/x".replace("#", "%23"),
        {"headers": {"Authorization": secret}},
        json.dumps(json.dumps({"accessToken": secret})),
        f"clientSecret: '{secret}'",
        base64.b64encode(f"passwd: {secret} and more".encode()).decode(),
    )
    return places[number % len(places)]


def dump(value: Any) -> str:
    """All that a reader of the file could find: the JSON, and what is in its base64."""
    text = json.dumps(value, ensure_ascii=False)
    for run in re.findall(r"[A-Za-z0-9+/_-]{16,}={0,2}", text):
        plain = run.rstrip("=")
        try:
            text += "\n" + base64.b64decode(plain + "=" * (-len(plain) % 4)).decode()
        except ValueError:
            continue
    return text


@given(st.lists(st.tuples(SHAPED, st.integers(0, 99)), min_size=1, max_size=6))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_no_secret_with_a_known_shape_survives(secrets: list[tuple[str, int]]) -> None:
    document = [place_shaped(secret, number) for secret, number in secrets]
    redactor = Redactor()
    redactor.learn([document])
    shown = redactor.redact(document)
    found = dump(shown)
    for secret, number in secrets:
        assert secret not in found, (secret, number)
    assert Redactor().redact(shown) == shown
    again = Redactor()
    again.learn([shown])
    assert again.redact(shown) == shown


@given(st.lists(st.tuples(NAMED, st.integers(0, 99)), min_size=1, max_size=5))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_a_password_found_by_its_name_is_replaced_wherever_it_stands(secrets: list[tuple[str, int]]) -> None:
    document = [place_named(secret, number) for secret, number in secrets]
    alone = [f"then type {secret} again" for secret, number in secrets if number % 10 == 2]
    redactor = Redactor()
    redactor.learn([document, alone])
    shown = [redactor.redact(document), redactor.redact(alone)]
    found = dump(shown)
    for secret, number in secrets:
        assert secret not in found, (secret, number)
    again = Redactor()
    again.learn([shown])
    assert again.redact(shown) == shown


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False) | st.text(max_size=60),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=20,
)


@given(JSON, st.sampled_from(["secrets", "all", "none"]))
@settings(max_examples=200, deadline=None)
def test_redacting_twice_is_redacting_once_and_numbers_stay(value: Any, mode: Any) -> None:
    once = Redactor(mode).redact(value)
    assert Redactor(mode).redact(once) == once
    if mode != "all":
        assert list(numbers_of(once)) == list(numbers_of(value))


def numbers_of(value: Any) -> Any:
    if isinstance(value, dict):
        for each in value.values():
            yield from numbers_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from numbers_of(each)
    elif isinstance(value, int | float):
        yield value


@given(st.integers(1_000_000_000_000_000, 1_999_999_999_999_999), st.integers(0, 10**9))
def test_times_and_token_figures_stay(time_us: int, tokens: int) -> None:
    value = {"time_us": time_us, "tokens": tokens, "text": f"tokens: {tokens}, max_tokens={tokens}, at {time_us}"}
    assert Redactor().redact(value) == value


@pytest.mark.parametrize(
    "text",
    [
        "583823234207a1638188b8b1cb98b00b82c1af52902a65af72190922de487b34",
        "01a1ed120c7f737cb5b5090945973d4f.0",
        "OJKCe05U/rYHCNJl8gixv8mIJr5LQ1UjNjDhxYLy9vI=",
        "6f1d2c3e-8a4b-4c5d-9e6f-7a8b9c0d1e2f",
        "p12", "m13", "h12_0", "call_1",
        "version 0.15.0 of 2026-11-18 at 12:30:45",
        "http://127.0.0.1:8787/api and [::1]:80 and 0.0.0.0",
        "password: str = None",
        "Enter the password: required",
        "max_tokens: 4096, token: 12",
        "std::vector<int>, a::b_c, foo::bar()",
        "basic information about tokens and bearer bonds",
        "1,234,567.89 USD for 3 nights, order 20261118",
        "[email-1] and [password-2]",
        "password=[password-1]&x=1",
        "https://ada:[password-1]@host.example/x",
        "password = os.environ['DB_PASSWORD']",
        "see chapter 10.2.3 and 1.2.3",
    ],
)  # fmt: skip
def test_what_is_no_secret_stays(text: str) -> None:
    assert Redactor().redact(text) == text


def test_the_same_value_has_the_same_placeholder_in_every_writing() -> None:
    redactor = Redactor()
    value = {"a": "Ada@Example.com", "b": "mail ada%40example.com or ada@example.com, not bob@example.com"}
    assert redactor.redact(value) == {"a": "[email-1]", "b": "mail [email-1] or [email-1], not [email-2]"}
    assert redactor.redact("4111 1111 1111 1111 = 4111-1111-1111-1111") == "[card-1] = [card-1]"
    assert redactor.redact(4111111111111111) == "[card-1]"
    assert redactor.counts == {"card": 1, "email": 2}
    assert redactor.redact("/home/ada/x and C:\\Users\\ada\\y") == "/home/[user-1]/x and C:\\Users\\[user-1]\\y"


def test_bytes_that_nobody_can_read_are_left_out() -> None:
    image = base64.b64encode(bytes(range(256)) * 4).decode()
    assert Redactor().redact({"data": image}) == {"data": "[binary-1]"}
    short = base64.b64encode(bytes(range(200, 232))).decode()
    assert len(short) < BINARY_CHARS
    assert Redactor().redact(short) == short
    path = "src/holdfast/inspector/patterns/" * 12
    assert Redactor().redact(path) == path


def test_all_replaces_every_text_and_keeps_the_structure() -> None:
    value = {
        "id": "p4",
        "role": "user",
        "content": [{"type": "text", "text": "My cat is called Mittens."}],
        "session": "trip to Rome",
        "key": "home town",
        "arguments": {"city": "Rome", "role": "admin", "nights": 3},
        "tokens": 12,
        "digest": "58" * 32,
    }
    redactor = Redactor("all")
    shown = redactor.redact(value)
    text = json.dumps(shown)
    assert not any(word in text for word in ("cat", "Mittens", "Rome", "town", "trip", "admin"))
    assert (shown["id"], shown["role"], shown["tokens"], shown["digest"]) == ("p4", "user", 12, "58" * 32)
    assert shown["session"] == "[name-1]"
    assert redactor.redact_name("trip to Rome") == "[name-1]"
    assert shown["arguments"] == {"city": shape_text("Rome"), "role": shape_text("admin"), "nights": 0}
    assert len(shown["content"][0]["text"]) == 32


@given(st.text(max_size=300))
def test_a_shape_says_nothing_but_the_class_of_the_length(text: str) -> None:
    shape = shape_text(text)
    assert shape_text(shape) == shape
    assert set(shape) <= set("x ")
    assert len(text) <= len(shape) <= max(1, 2 * len(text))


def test_a_withheld_value_is_replaced_in_every_mode() -> None:
    modes: tuple[RedactionMode, ...] = ("secrets", "none")
    for mode in modes:
        redactor = Redactor(mode)
        redactor.withhold(["blood group 0", "x"])
        assert redactor.redact({"text": "Their blood group 0 is x."}) == {"text": "Their [withheld-1] is x."}


def test_an_address_is_redacted_as_the_answers_are() -> None:
    redactor = Redactor()
    address = "/sessions/ada%40example.com/facts/why?name=mail%20of%20ada%40example.com"
    assert redact_address(redactor, address) == "/sessions/%5Bemail-1%5D/facts/why?name=mail%20of%20%5Bemail-1%5D"
    everything = Redactor("all")
    assert redact_address(everything, "/sessions/trip/packs/p4/manifest") == "/sessions/%5Bname-1%5D/packs/p4/manifest"
    assert redact_address(everything, "/sessions/trip/ledgers/user/ada/facts?status=dead") == (
        "/sessions/%5Bname-1%5D/ledgers/user/%5Bname-2%5D/facts?status=dead"
    )
    assert redact_address(everything, 'POST /sessions/trip/packs/diff {"second":"p4"}') == (
        'POST /sessions/%5Bname-1%5D/packs/diff {"second":"p4"}'
    )


@pytest.mark.parametrize("unit", ["a", "a_", "000 ", ":", "a@", "eyJ", "a://", "password=", "[", '\\"', "x-", "/home/"])
def test_no_text_makes_a_pattern_read_it_again_and_again(unit: str) -> None:
    """A pattern that looks at every part of a long text from every place in it would not end within the time of a test."""
    text = unit * (400_000 // len(unit))
    assert sum(1 for _ in find_secrets(text)) >= 0
    assert Redactor().redact(text) is not None


def test_no_pattern_finds_a_placeholder() -> None:
    for pattern in PATTERNS:
        text = f"[{pattern.kind}-1]"
        assert PLACEHOLDER.fullmatch(text)
        assert not list(find_secrets(text))
