"""A memory or an embedder of the caller that answers nonsense: packs are built, stored and read again all the same."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import holdfast
from holdfast.errors import InvalidArgument, InvalidNumber, MemoryFailed
from holdfast.model import limits
from holdfast.model.memory.recall import ForgetReport, RecalledPassage
from holdfast.model.names import StreamId
from tests.edges.engines import ManualClock

OWN = StreamId("default", "session", ("main", "talk"))


class WrongMemory:
    """A memory that always gives the same answer."""

    name = "wrong"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def take(self, _: Any) -> None:
        """Take nothing."""

    def recall(self, *_: Any, **__: Any) -> Any:
        return self.answer

    def bootstrap(self, *_: Any, **__: Any) -> Any:
        return self.answer

    def forget(self, _: Any) -> ForgetReport:
        return ForgetReport(passages=0)


class BrokenList(list[Any]):
    def __iter__(self) -> Any:
        raise RuntimeError("broken")


RIGHT: dict[str, Any] = {"id": "a", "text": "A lion.", "stream": OWN}
WRONG_VALUES: dict[str, tuple[Any, ...]] = {
    "id": (5, None, [], "\ud800", "i" * 100_000),
    "text": (5, None, b"x", "\ud800"),
    "score": (float("nan"), float("-inf"), "1", None),
    "role": ("god", [], None),
    "time_us": ("x", 10**30, -1, 1.5),
    "speaker": (4, "\ud800", "s" * 100_000),
    "seq": (1.5, -1, "x", 10**30),
    "stream": ("x",),
    "kind": (7,),
    "session": ("\udfff",),
    "reason": (None,),
    "part": ("z",),
    "handle": (9,),
    "start": ("a",),
}
ANSWERS: list[Any] = [
    *(None, "abc", {}, 5, BrokenList([1]), [3]),
    *([RecalledPassage(**(RIGHT | {name: value}))] for name, values in WRONG_VALUES.items() for value in values),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=range(len(ANSWERS)))
def test_a_memory_that_answers_nonsense_stops_no_pack(answer: Any) -> None:
    with holdfast.open("memory:", memory=WrongMemory(answer)) as engine:
        session = engine.create_session("talk", user="ada", memory=True)
        session.record("user", "Where is the lion?")
        pack = session.pack(budget=2_000)
        assert "A lion." not in str(pack)
        assert str(session.packs.reproduce(session.packs.store(pack))) == str(pack)
        assert "Not everything could be searched" in session.recall_tool()(query="lion")
        with pytest.raises(MemoryFailed):
            engine.memory.recall("lion", user="ada")
        assert engine.admin.verify().ok


def test_an_embedder_that_hangs_delays_a_question_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MEMORY_TIMEOUT_S", 0.05)
    is_over = threading.Event()

    class HangingEmbedder:
        name, dimensions = "hanging", 2

        def embed(self, texts: Any, *, is_query: bool = False) -> Any:
            if is_query:
                is_over.wait(30)
            return [(1.0, 0.0)] * len(texts)

    with holdfast.open("memory:", embedder=HangingEmbedder()) as engine:
        session = engine.create_session("talk", user="ada", memory=True)
        session.record("user", "The lion sleeps.")
        assert [each.text for each in session.search("lion")] == ["The lion sleeps."]
        is_over.set()
        for wrong in (0, None, "x", 1.5):
            with pytest.raises((InvalidArgument, InvalidNumber)):
                engine.memory.embed(limit=wrong)  # type: ignore[arg-type]


def test_an_embedder_that_failed_is_left_alone_for_a_while() -> None:
    class FailingEmbedder:
        name, dimensions = "failing", 2
        calls = 0

        def embed(self, texts: Any, *, is_query: bool = False) -> Any:
            self.calls += 1
            raise ConnectionError("no server")

    clock, embedder = ManualClock(), FailingEmbedder()
    with holdfast.open("memory:", embedder=embedder, clock=clock) as engine:
        session = engine.session("monday", user="ada", create=True, memory=True)
        session.record("user", "The zebra is striped.")
        session.end()
        engine.memory.deliver()
        for _ in range(3):
            assert engine.memory.recall("zebra", user="ada").passages
        assert embedder.calls == 1
        clock.now_s += 60
        assert engine.memory.recall("zebra", user="ada").passages
        assert embedder.calls == 2


def test_a_text_that_the_embedder_refuses_delays_no_other() -> None:
    class PickyEmbedder:
        name, dimensions = "picky", 2

        def embed(self, texts: Any, *, is_query: bool = False) -> Any:
            if any("zebra" in text for text in texts):
                raise ValueError("not this text")
            return [(0.6, 0.8)] * len(texts)

    with holdfast.open("memory:", embedder=PickyEmbedder()) as engine:
        session = engine.session("monday", user="ada", create=True, memory=True)
        for text in ("The lion sleeps.", "The zebra is striped.", "The owl flies."):
            session.record("user", text)
        session.end()
        engine.memory.deliver()
        assert engine.memory.embed() == 3
        assert engine.memory.embed() == 0
        found = [each.text for each in engine.memory.recall("mammals?", user="ada").passages]
        assert {"The lion sleeps.", "The owl flies."} <= {*found}
        assert engine.memory.recall("zebra", user="ada").passages[0].text == "The zebra is striped."
