"""What a session refuses is recorded as a line that says so, and stays in every request."""

from __future__ import annotations

import pytest

from holdfast.gateway.engines import open_engine
from holdfast.gateway.lines import Line, is_marked, record_as_found
from holdfast.model import limits
from holdfast.model.sessions.messages import MessageDraft


def build_draft(number: int) -> MessageDraft:
    mark = {"hash": f"{number:024x}", "role": "system", "pieces": [0]}
    return MessageDraft(role="system", content=f"Reminder {number}.", metadata={"gateway": mark})


def test_more_reminders_than_a_session_takes_are_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PINNED_MESSAGES", 3)
    with open_engine("memory:") as engine:
        session = engine.create_session("s")
        session.record("user", "Hello.")
        record_as_found(session, [build_draft(number) for number in range(5)])
        line = Line(session, None, "", 0)
        for message in filter(is_marked, session.messages()):
            line.add(message)
    assert [[part.is_lost for part in parts] for parts in line.places] == [[False], [False], [False], [True], [True]]
