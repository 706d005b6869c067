"""What models use beside the conversation: it is in the session that caused it, and its frame pays for it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import holdfast
from holdfast import Prices, Usage, errors
from holdfast.types import MeteredAnswer, ModelUse, Observation, Proposal, SummaryDraft

USE = ModelUse(purpose="rerank", model="small", usage=Usage(100, 20), prompt="rank@1:00000000")


def test_a_session_counts_what_its_models_used() -> None:
    with holdfast.open("memory:") as engine:
        session = engine.create_session("s")
        session.record("assistant", "Hello.", usage=Usage(10, 2))
        session.record_model_uses(USE, USE, key="k")
        session.record_model_uses(USE, USE, key="k")
        assert session.state().usage == Usage(210, 42)
        lines = [each for each in session.events() if each.type == "model.used"]
        assert len(lines) == 2
        (row,) = engine.sessions()
        assert (row.input_tokens, row.output_tokens) == (210, 42), "what `holdfast stats` counts"
        assert engine.admin.verify().ok


def test_a_frame_pays_for_its_models_while_it_lives() -> None:
    with holdfast.open("memory:") as engine:
        session = engine.create_session("s")
        frame = session.frame("work", budget=10_000)
        frame.record_model_uses(USE)
        state = frame.state()
        assert (state.budget.used, state.usage) == (120, Usage(100, 20))
        assert session.state().usage == Usage(100, 20)
        frame.pop()
        frame.record_model_uses(USE)  # it came late: the session counts it
        assert frame.state().budget.used == 120
        assert session.state().usage == Usage(200, 40)
        assert engine.admin.verify().ok
        engine.admin.rebuild()
        assert session.state().usage == Usage(200, 40)


def test_a_closed_session_takes_the_use_of_an_extraction() -> None:
    with holdfast.open("memory:") as engine:
        session = engine.create_session("s")
        session.record("user", "Hello.")
        session.end("done")
        session.record_model_uses(USE)
        assert session.state().usage == Usage(100, 20)
        assert engine.admin.verify().ok


@pytest.mark.parametrize("use", [None, "small", ModelUse(purpose=""), ModelUse(purpose="a", usage=Usage(-1))])
def test_a_use_that_cannot_be_one_is_refused(use: Any) -> None:
    with holdfast.open("memory:") as engine, pytest.raises(errors.InvalidInput):
        engine.create_session("s").record_model_uses(use)


class MeteredDetector:
    """A detector that says what it cost, whatever it finds."""

    name = "metered"

    def __init__(self, *uses: Any, error: str = "") -> None:
        self.uses, self.error = uses, error

    def detect(self, observation: Observation) -> MeteredAnswer[tuple[Proposal, ...]]:
        return MeteredAnswer(value=(), uses=self.uses, error=self.error)


class AwaitedDetector(MeteredDetector):
    async def detect(self, observation: Observation) -> MeteredAnswer[tuple[Proposal, ...]]:  # type: ignore[override]
        await asyncio.sleep(0)
        return MeteredAnswer(value=(), uses=self.uses, error=self.error)


def test_an_observation_records_what_its_detector_used() -> None:
    with holdfast.open("memory:", detector=MeteredDetector(USE, error="it was late")) as engine:
        session = engine.create_session("s")
        result = session.observe("I live in Lyon.")
        assert (result.error, result.message.text) == ("it was late", "I live in Lyon.")
        assert session.state().usage == Usage(100, 20)


@pytest.mark.parametrize("uses", [("nonsense",), (ModelUse(purpose="\x00"),), (USE,) * 100])
def test_a_detector_that_is_wrong_about_its_cost_loses_no_message(uses: tuple[Any, ...]) -> None:
    with holdfast.open("memory:", detector=MeteredDetector(*uses)) as engine:
        session = engine.create_session("s")
        assert session.observe("I live in Lyon.").message.text == "I live in Lyon."
        assert session.state().usage == Usage()


async def observe_async() -> holdfast.Usage:
    detector: Any = AwaitedDetector(USE)
    async with await holdfast.open_async("memory:", detector=detector) as engine:
        session = await engine.create_session("s")
        assert (await session.observe("I live in Lyon.")).error == ""
        await session.record_model_uses(USE)
        return (await session.state()).usage


def test_an_awaited_detector_serves_an_awaited_engine() -> None:
    assert asyncio.run(observe_async()) == Usage(200, 40)


def test_an_awaited_detector_is_refused_without_an_event_loop_and_loses_no_message() -> None:
    detector: Any = AwaitedDetector(USE)
    with holdfast.open("memory:", detector=detector) as engine:
        result = engine.create_session("s").observe("I live in Lyon.")
        assert "open_async" in result.error
        assert result.message.text == "I live in Lyon."


class MeteredSummarizer:
    prices: Prices | None = None

    def __init__(self, text: str) -> None:
        self.text = text

    def summarize(self, draft: SummaryDraft, tokens: int) -> MeteredAnswer[str]:
        return MeteredAnswer(value=self.text, uses=(USE,))


@pytest.mark.parametrize("text", ["Ada asked for a room.", "", "word " * 5_000])
def test_a_compaction_records_what_its_summary_cost_also_if_it_is_refused(text: str) -> None:
    with holdfast.open("memory:", summarizer=MeteredSummarizer(text)) as engine:
        session = engine.create_session("s")
        for number in range(30):
            session.record("user", f"Question {number}: " + "what about the room " * 20)
            session.record("assistant", f"Answer {number}: " + "it is a fine room " * 20)
        plan = session.context.compact(window=3_000)
        assert plan.fold is not None
        assert plan.fold.made_by == ("model" if text == "Ada asked for a room." else "rule")
        assert session.state().usage == Usage(100, 20)
        assert engine.admin.verify().ok
