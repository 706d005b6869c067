"""What users state through agents becomes facts, and what clients write around it does not."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.gateway.statements import find_own_words
from holdfast.runtime.ledgers import FactsFacet
from tests.gateway.clients import ItemsClient
from tests.gateway.harness import OPTIONS, Harness

REMINDER = "<system-reminder>\nMy employer is Evil Corp.\n# currentDate\nToday is 2026-11-18.\n</system-reminder>"


@pytest.mark.parametrize(
    "text",
    [
        "My shipping address is 12 Main St.",
        f"{REMINDER}\n\n\nMy shipping address is 12 Main St.",
        f"{REMINDER}\n{REMINDER}\nMy shipping address is 12 Main St.\n{REMINDER}\n",
        "Also, my shipping address is 12 Main St.\nGo on with the next step.",
    ],
)
def test_what_the_user_states_is_a_fact(text: str) -> None:
    harness = Harness(1)
    harness.client.messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    harness.exchange("take")
    (row,) = harness.engine.sessions()
    session = harness.engine.session(row.session)
    (fact,) = session.facts.items()
    assert (fact.key, fact.value) == ("shipping_address", "12 Main St")
    (mention,) = fact.mentions
    (message,) = [each for each in session.messages() if each.role == "user"]
    assert message.text[mention.start : mention.end] == "12 Main St"


@pytest.mark.parametrize(
    "text",
    [
        REMINDER,
        f"My shipping address is 12 Main St. {REMINDER} What now?",
        "<system-reminder>My employer is Evil Corp.",
        "<local-command-stdout>My employer is Evil Corp.</local-command-stdout>",
        "<command-name>/x</command-name> <command-message>My employer is Evil Corp.</command-message>",
    ],
)
def test_what_a_client_writes_is_none(text: str) -> None:
    start, end = find_own_words(text)
    assert not text[start:end]


@given(st.lists(st.sampled_from(["<", ">", "/", "a", " ", "\n", "system-reminder", "<system-reminder>", REMINDER])))
def test_own_words_have_no_tag_of_a_client(parts: list[str]) -> None:
    text = "".join(parts)
    start, end = find_own_words(text)
    assert 0 <= start <= end <= len(text)
    assert "<system-reminder>" not in text[start:end]


def test_facts_stand_behind_the_summary() -> None:
    harness = Harness(7)
    text = "My shipping address is 12 Main St."
    harness.client.messages = [{"role": "user", "content": [{"type": "text", "text": text}]}]
    harness.exchange("take")
    for _ in range(60):
        harness.step("take")
    sent = harness.send().body.decode()
    assert "Facts that the user stated before this summary was written:\\n- shipping_address: 12 Main St" in sent


class SharedClient(ItemsClient):
    """A client that gives all its conversations one id."""

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        return (("x-session-id", "shared"), ("authorization", "Bearer secret"))


def test_facts_of_one_conversation_are_in_no_other() -> None:
    harness = Harness(7, kind=SharedClient)
    for text in ("My shipping address is 12 Main St.", "My employer is Acme."):
        harness.client.messages = [{"type": "message", "role": "user", "content": text}]
        harness.exchange("take")
    for _ in range(60):
        harness.step("take")
    sent = harness.send().body.decode()
    assert "- employer: Acme" in sent
    assert "12 Main St" not in sent


HISTORY: list[dict[str, Any]] = [
    {"type": "message", "role": "user", "content": "My shipping address is 12 Main St."},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Noted."}]},
    {"type": "message", "role": "user", "content": "Which of my orders are open?"},
]


def current(ledger: holdfast.Ledger | FactsFacet) -> object:
    fact = ledger.get("shipping_address")
    return fact and fact.value


def test_what_was_said_long_ago_changes_no_fact_of_the_user() -> None:
    """The conversation comes through the gateway for the first time."""
    harness = Harness(7, options=msgspec.structs.replace(OPTIONS, user="ada"), kind=ItemsClient)
    ledger = harness.engine.ledger(user="ada")
    ledger.set("shipping_address", "456 Oak Ave")
    harness.client.messages = [*HISTORY]
    harness.exchange("take")
    assert current(ledger) == "456 Oak Ave"
    harness.client.messages.append(HISTORY[0] | {"content": "My shipping address is 7 Elm Road."})
    harness.exchange("take")
    assert current(ledger) == "7 Elm Road"


def test_a_conversation_that_is_new_here_is_read_from_its_beginning() -> None:
    harness = Harness(7, kind=ItemsClient)
    harness.client.messages = [*HISTORY]
    harness.exchange("take")
    (row,) = harness.engine.sessions()
    assert current(harness.engine.session(row.session).facts) == "12 Main St"


def test_the_words_that_a_client_keeps_when_it_compacts_change_no_fact() -> None:
    harness = Harness(7, kind=SharedClient)
    said = [HISTORY[0], HISTORY[0] | {"content": "Actually, my shipping address is now 456 Oak Ave."}]
    for number in range(len(said)):
        harness.client.messages.append(said[number])
        harness.exchange("take")
    (row,) = harness.engine.sessions()
    session = harness.engine.session(row.session)
    before = session.facts.history("shipping_address")
    summary = {"type": "message", "role": "user", "content": "Another model began to work on this. It wrote: orders."}
    harness.client.messages = [HISTORY[2], *said, summary]
    harness.exchange("take")
    assert session.facts.history("shipping_address") == before
