"""The agent of the tutorial does what its page says: it can die at any point, and goes on where it was."""

from __future__ import annotations

from typing import Any

import pytest

import holdfast
from holdfast.model.log import Append, Appended
from tests.docs.test_examples import BLOCK, ROOT

REQUEST = "What does a trip to Lisbon cost?"
SAID = ["user", "assistant", "tool", "assistant", "tool", "assistant"]
REPLIES = 200 + 250 + 300 + 3 * 20
RESERVED = 1_000
MOST_WRITES = 100


def the_agent() -> dict[str, Any]:
    """What the page defines, without what it plays."""
    names: dict[str, Any] = {"__name__": "example"}
    page = ROOT / "docs" / "tutorial" / "agent.md"
    for code, _ in BLOCK.findall(page.read_text()):
        if "holdfast.open" not in code:
            exec(compile(code, str(page), "exec"), names)
    return names


def played(monkeypatch: pytest.MonkeyPatch, cut: int, *, stored: bool) -> tuple[holdfast.Session, int]:
    """Its session at the end, and how often it was started: the power fails at one write, just before or just after it is
    stored."""
    agent = the_agent()
    engine = holdfast.open("memory:")
    append = engine.store.append
    writes = 0

    def failing(what: Append) -> Appended:
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
        agent["start"](engine, REQUEST, agent["price"])
    except agent["PowerCut"]:
        starts += 1
        agent["start"](engine, REQUEST, agent["price"])
    assert engine.verify().ok
    return engine.session("trip", actor="ada"), starts


@pytest.mark.parametrize("stored", [False, True])
def test_it_goes_on_wherever_it_dies(monkeypatch: pytest.MonkeyPatch, *, stored: bool) -> None:
    died = 0
    anew: list[int] = []
    used: list[int] = []
    for cut in range(1, MOST_WRITES):
        session, starts = played(monkeypatch, cut, stored=stored)
        if starts == 1:
            break
        died += 1
        first, *others = session.frames()
        assert first.status == "completed"
        assert first.handles == 2
        assert [message.role for message in session.messages()][: len(SAID)] == SAID
        if others:
            anew.append(cut)
        else:
            assert len(session.messages()) == len(SAID)
        used.append(first.budget.used - REPLIES)
    assert died > 10
    assert {*used} == {0, RESERVED}
    assert used.count(RESERVED) == 3, (
        "a model call that was reserved for and never heard of again counts, each of the three"
    )
    assert anew == ([died] if stored else []), "only after its last write is the work done, and the request a new one"
