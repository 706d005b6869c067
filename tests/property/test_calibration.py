"""Whatever usage is reported, no pack exceeds its budget by more than the counter's own error."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Usage
from holdfast.adapters.tokens import ESTIMATE_ERROR, EstimatingCounter, ExactCounter
from holdfast.model.state import Calibration
from tests.support import figure

EXACT = ExactCounter()
BUDGET = 2_000
MESSAGE_TOKENS = Calibration().overhead
TEXTS = (
    "Please move the appointment of Mrs Rossi from Tuesday to Thursday afternoon, and tell the clinic about it. " * 3,
    "The build failed in module parser.py, line 214: expected an indented block after the 'if' statement. " * 4,
    "Yes.",
    "I changed both call sites to the new name, and all 212 tests pass. One warning is left in the importer. " * 2,
)

_exactly = st.sampled_from([0, 1, 7, 10**9, (1 << 62) - 1])
_shares = st.floats(0.01, 6.0)
_reports = st.lists(
    st.tuples(_exactly | _shares, st.sampled_from(["", "a", "b"]), st.sampled_from(["reply", "reply", "alone"])),
    min_size=1,
    max_size=24,
)


def recounted(pack: Any) -> int:
    """The tokens of a request as an exact tokenizer counts them."""
    request = pack.openai()
    texts = [each["content"] for each in request["messages"]]
    shown = [text if isinstance(text, str) else "".join(part.get("text", "") for part in text) for text in texts]
    tools = [json.dumps(request["tools"])] if "tools" in request else []
    return sum(map(EXACT.count, (*shown, *tools))) + MESSAGE_TOKENS * len(texts)


def reply(text: str, model: str, prompt: int) -> dict[str, Any]:
    """What a chat client returns."""
    return {
        "id": "r",
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": prompt, "completion_tokens": 3, "total_tokens": prompt + 3},
    }


def play(engine: Any, reports: list[tuple[int | float, str, str]], budget: int = BUDGET) -> list[tuple[int, int]]:
    """A session whose replies bring these figures; for each pack its size by the exact counter, and its budget."""
    session = engine.create_session("s")
    sizes: list[tuple[int, int]] = []
    for number, (figures, model, how) in enumerate(reports):
        session.record("user", f"{number}. {TEXTS[number % len(TEXTS)]}")
        pack = session.pack(budget=budget)
        sizes.append((recounted(pack), pack.tokens.budget))
        prompt = figures if isinstance(figures, int) else int(figures * sizes[-1][0])
        text = TEXTS[(number + 1) % len(TEXTS)]
        if how == "alone":
            session.record("assistant", text, usage=Usage(input_tokens=prompt), pack=False)
        elif model:
            session.record(reply(text, model, prompt))
        else:
            session.record("assistant", text, usage=Usage(input_tokens=prompt))
    for number in range(12 * budget // BUDGET):  # enough to fill the budget, whatever a token counts for
        session.record("user", TEXTS[number % 2], pack=False)
        session.record("assistant", TEXTS[3], pack=False)
    with contextlib.suppress(holdfast.errors.CriticalOverflow):  # counted too high is refused, and is not too large
        pack = session.pack(budget=budget)
        sizes.append((recounted(pack), pack.tokens.budget))
    return sizes


@pytest.mark.parametrize(("counter", "error"), [(ExactCounter(), 0), (EstimatingCounter(), ESTIMATE_ERROR)])
@given(reports=_reports)
@settings(max_examples=figure(13, 3_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_pack_exceeds_its_budget_whatever_was_reported(
    counter: Any, error: float, reports: list[tuple[int | float, str, str]]
) -> None:
    with holdfast.open("memory:", counter=counter) as engine:
        for size, budget in play(engine, reports):
            assert size <= budget * (1 + error)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("how", ["reply", "alone"])
@pytest.mark.parametrize("budget", [BUDGET, 3 * BUDGET])
def test_a_gateway_that_reports_less_than_it_was_sent_does_not_make_packs_longer(
    share: float, how: str, budget: int
) -> None:
    """As one does that leaves out cached tokens, compresses the prompt, or reports another model's count."""
    with holdfast.open("memory:", counter=EXACT) as engine:
        sizes = play(engine, [(share, "a", how)] * 40, budget)
        assert max(size for size, _ in sizes) <= budget


@pytest.mark.parametrize("hidden", [0, 5_000])
def test_an_honest_report_is_learned_from_packs(hidden: int) -> None:
    """A provider whose tokens are shorter than the counter's, with text in every prompt that no pack has."""
    with holdfast.open("memory:", counter=EXACT) as engine:
        session = engine.create_session("s")
        for number in range(60):
            session.record("user", f"{number}. {TEXTS[number % 2] * 5}")
            pack = session.pack(budget=200_000)
            assert pack.tokens.counted + 4 * pack.tokens.messages <= pack.tokens.used
            session.record(reply(TEXTS[3] * 5, "a", hidden + round(pack.tokens.counted * 1.3)))
        assert session.state().calibration.factor == pytest.approx(1_300, abs=40)


def test_usage_that_answers_no_pack_teaches_nothing() -> None:
    with holdfast.open("memory:", counter=EXACT) as engine:
        session = engine.create_session("s")
        for number in range(20):
            session.record("user", f"{number}. {TEXTS[0]}")
            session.record(reply(TEXTS[3], "a", 3_000 * (number + 1)))
            session.record("user", "Again.", usage=Usage(input_tokens=90_000 + number))
        known = session.state().calibration
        assert (known.factor, known.overhead, known.prompt) == (1_000, 4, 0)
        assert known.model == "a"
