"""The agent of the tutorial does what its page says: it can die at any point, and goes on where it was."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast.model.log import Append, AppendResult
from tests.docs.pages import BLOCK, ROOT

ASKED = "I travel on May 3. What does Lisbon cost?"
CORRECTED = "Actually, my travel date is May 10. What does it cost then?"
SAID = ["user", "assistant", "tool", "assistant", "tool", "assistant", "user", "assistant"]
REPLIES = 4
MOST_WRITES = 100


def the_agent() -> dict[str, Any]:
    """What the page defines, without what it plays."""
    names: dict[str, Any] = {"__name__": "example"}
    page = ROOT / "docs" / "tutorial" / "agent.md"
    for code, _ in BLOCK.findall(page.read_text()):
        if "holdfast.open" in code:
            break
        exec(compile(code, str(page), "exec"), names)
    return names


def turns(engine: holdfast.Engine, agent: dict[str, Any]) -> list[str]:
    """Both turns of the page, from the beginning: what was done before is not done again."""
    engine.ledger(user="ada").set("travel_date", "May 3", source="the booking system", key="booked")
    asked = (("turn 1", ASKED), ("turn 2", CORRECTED))
    return [agent["agent"](engine, turn, text, agent["price"]) for turn, text in asked]


def played(monkeypatch: pytest.MonkeyPatch, cut: int, *, stored: bool) -> tuple[holdfast.Session, int]:
    """Its session at the end, and how often it was started: the power fails at one write, just before or just after it is
    stored."""
    agent = the_agent()
    engine = holdfast.open("memory:", briefs=agent["BRIEFS"])
    append = engine.store.append
    writes = 0

    def failing(what: Append) -> AppendResult:
        nonlocal writes
        writes += 1
        if writes == cut and not stored:
            raise agent["PowerCut"]
        answer = append(what)
        if writes == cut:
            raise agent["PowerCut"]
        return answer

    monkeypatch.setattr(engine.store, "append", failing)
    starts = 1
    try:
        turns(engine, agent)
    except agent["PowerCut"]:
        starts += 1
        turns(engine, agent)
    assert engine.admin.verify().ok
    return engine.session("trip", actor="ada"), starts


@pytest.mark.parametrize("stored", [False, True])
def test_it_goes_on_wherever_it_dies(monkeypatch: pytest.MonkeyPatch, *, stored: bool) -> None:
    died = 0
    for cut in range(1, MOST_WRITES):
        session, starts = played(monkeypatch, cut, stored=stored)
        if starts == 1:
            break
        died += 1
        messages = session.messages()
        assert [message.role for message in messages] == SAID
        assert messages[-1].text == "On May 10 it costs 210 euros."
        assert len(session.packs.list()) == REPLIES, "each reply with the pack that it answers, and no other"
        shown = str(session.pack(settle=False))
        assert "May 10" in shown
        assert "May 3" not in shown
        for record in session.packs.list():
            assert session.packs.reproduce(record).context_hash == record.context_hash
    assert died > 10
