"""What a view reads follows what it shows, not what others said meanwhile, nor what was read before."""

from __future__ import annotations

from typing import Any

import holdfast


class Counting:
    """A store that counts the events that are read from it."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.events = 0

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if name not in ("read", "read_back"):
            return found

        def counted(*args: Any, **more: Any) -> Any:
            answer = found(*args, **more)
            self.events += len(answer)
            return answer

        return counted

    def take(self) -> int:
        events, self.events = self.events, 0
        return events


def counted(engine: holdfast.Engine) -> Counting:
    counting = Counting(engine.store)
    engine.store = counting
    return counting


def exchange(number: int) -> list[tuple[str, str]]:
    return [("user", f"question {number}"), ("assistant", f"answer {number}")]


def test_what_was_said_in_frames_is_not_read_for_the_session_nor_the_reverse(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "first")
    parent = session.frame("work", budget=1_000_000)
    parent.record("user", "to do")
    child = parent.frame("more work", budget=1_000)
    for number in range(10):
        child.record_all([each for one in range(50) for each in exchange(100 * number + one)])
    parent.record("user", "go on")
    session.record("user", "last")
    counting = counted(engine)
    for place, expected in ((session, ["first", "last"]), (parent, ["to do", "go on"])):
        engine._context.cache.views.drop(session.scope.stream)
        assert [each.text for each in place.context.view().messages] == expected
        assert counting.take() < 20, "there are more than a thousand"


def test_a_second_look_reads_only_what_came_since(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record_all([each for one in range(200) for each in exchange(one)])
    first = session.context.view()
    session.record("user", "one more")
    counting = counted(engine)
    second = session.context.view()
    assert second.messages[:-1] == first.messages
    assert counting.take() <= 2
    session.pack(budget=100_000)
    assert counting.take() <= 2


def test_what_is_erased_is_gone_from_what_was_read_before(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    said = session.record("user", "a secret")
    session.record("assistant", "noted")
    assert "a secret" in session.context.render("text")
    session.erase([said.seq], "asked to")
    assert "a secret" not in session.context.render("text")
    assert "a secret" not in str(session.pack())
