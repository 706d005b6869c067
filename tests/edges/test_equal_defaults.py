"""A text that is equal to a default is the default, wherever it comes from: a request, or a part of another text."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast


def copy(text: str) -> Any:
    """An equal text that is another object."""
    made = "".join([*text])
    assert made is not text
    return made


@pytest.mark.parametrize("field", [{"scope": "global"}, {"memory_type": "user"}], ids=str)
def test_a_fact_with_copies_of_the_defaults_verifies(field: dict[str, str]) -> None:
    with holdfast.open("memory:") as engine:
        for value in ("one", "two"):
            engine.ledger(user="ada").set("k", value, **{name: copy(text) for name, text in field.items()})
        assert engine.admin.verify().problems == ()


def test_a_source_with_a_copy_of_the_default_verifies() -> None:
    with holdfast.open("memory:") as engine:
        for value in ("one", "two"):
            source = holdfast.types.FactSource(type=copy("state_write"), name="desk")
            engine.ledger(user="ada").set("k", value, source=source)
        assert engine.admin.verify().problems == ()


def test_a_session_with_copies_of_the_defaults_verifies() -> None:
    with holdfast.open("memory:") as engine:
        session = engine.create_session("s")
        session.record(copy("user"), "Hello.", priority=copy("medium"))
        session.situation.act(mode=copy("fast"), thinking="It is a greeting.")
        assert engine.admin.verify().problems == ()
        session.end()
        assert engine.admin.verify().problems == ()
