"""The users of conversations: named by their key or by the program, and what a server with a memory knows of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import openai
import pytest

import holdfast
from tests.server.v1.conftest import Desk, open_desk


def test_a_key_of_a_user_reads_their_ledger(chat_desk: Desk) -> None:
    with openai.OpenAI(base_url=chat_desk.url, api_key=chat_desk.key("bob"), max_retries=0) as bob:
        with holdfast.open(chat_desk.store) as engine:
            engine.ledger(user="bob").set("shoe_size", "44")
        name = bob.conversations.create(metadata={"user": "carol"}).id
        bob.responses.create(model="m1", input="What is my shoe_size?", conversation=name)
    assert "shoe_size: 44" in json.dumps(chat_desk.sent)
    with holdfast.open(chat_desk.store) as engine:
        assert engine.session(name, actor="bob").state().identity.user_id == "bob", "the key says who they are"


def test_a_program_names_the_user(chat_desk: Desk) -> None:
    named = chat_desk.client.conversations.create(metadata={"user": "dora", "topic": "lamps"})
    response = chat_desk.client.responses.create(model="m1", input="hello", metadata={"user": "dora"})
    assert response.metadata is not None
    with holdfast.open(chat_desk.store) as engine:
        for name in (named.id, response.metadata["holdfast_session"]):
            state = engine.session(name).state()
            assert (state.identity.user_id, state.has_memory) == ("dora", False)
        assert engine.session(chat_desk.client.conversations.create().id).state().identity.user_id == ""
    with pytest.raises(openai.BadRequestError):
        chat_desk.client.conversations.create(metadata={"user": ""})


def test_a_memory_of_users(tmp_path: Path) -> None:
    with open_desk("openai", tmp_path, memory=True) as desk:

        def ask(text: str, conversation: str, **options: Any) -> str:
            desk.client.responses.create(model="m1", input=text, conversation=conversation, **options)
            return json.dumps(desk.sent["messages"])

        first = desk.client.conversations.create(metadata={"user": "ada"}).id
        assert "123 Main St" in ask("My address is 123 Main St.", first)
        once = {"Idempotency-Key": "moved"}
        desk.model.weather = lambda body: 500
        with pytest.raises(openai.InternalServerError):
            ask("I moved to 456 Oak Ave.", first, extra_headers=once)
        desk.model.weather = lambda body: 0
        ask("I moved to 456 Oak Ave.", first, extra_headers=once)
        sent = ask("Where do you ship to?", first)
        assert "- address: 456 Oak Ave" in sent
        assert "123 Main St" not in sent
        assert "My address is [outdated: address]." in sent
        with holdfast.open(desk.store) as engine:
            history = engine.ledger(user="ada").history("address")
            assert [(fact.value, fact.status) for fact in history] == [
                ("123 Main St", "superseded"),
                ("456 Oak Ave", "live"),
            ], "once each, also after a retry"
            engine.session(first).end()
            engine.worker().run_once()
        for conversation, knows in (
            (desk.client.conversations.create(metadata={"user": "ada"}).id, True),
            (desk.client.conversations.create(metadata={"user": "eve"}).id, False),
            (desk.client.conversations.create().id, False),
        ):
            sent = ask("What is my address?", conversation)
            assert ("456 Oak Ave" in sent) is knows
            assert "123 Main St" not in sent
