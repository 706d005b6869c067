"""The cost of a context is measured on real packs: they send what the planner foretells, and a tail that passes is paid for
once, at every call."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
from benchmarks import cost
from benchmarks.cost_packs import PackedSession, instructions, without_tails
from benchmarks.cost_planner import GAP, PlannedSession, cut_summary
from benchmarks.cost_recordings import Recording, count, read_recordings
from benchmarks.cost_score import PREFIX_TOKENS, Prompt, PromptPiece, score, tokens_of
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model.history.plans import Frugal
from holdfast.types import Summary
from tests.support import figure

WINDOW = 12_000
PRICES = cost.prices_at("claude-sonnet-4-5", WINDOW)
START_S = 1_700_000_000
WORDS = "the build of part_{} failed in src/step_{}.py at line {} because a name was not found there; "


def lines(steps: list[tuple[int, int, bool]]) -> list[dict[str, object]]:
    """Each step is a reply that calls a tool: seconds since the last, sentences of the result, whether a user spoke."""
    now = START_S
    found: list[dict[str, object]] = [said("user", "Begin with src/first_file.py.", now)]
    for number, (seconds, sentences, asked) in enumerate(steps):
        now += seconds
        if asked:
            found.append(said("user", f"And what of step_{number}?", now))
        call = {"id": f"t{number}", "name": "read", "args": {"path": f"src/step_{number - 1}.py"}}
        found.append(said("assistant", f"I look at part {number}.", now) | {"tool_calls": [call]})
        text = "".join(WORDS.format(number, each, each * 7) for each in range(sentences))
        result = {"tool_call_id": f"t{number}", "result": text, "is_error": False}
        found.append({"role": "tool", "tool_results": [result], "at": written(now)})
    return found


def said(role: str, text: str, now: int) -> dict[str, object]:
    return {"role": role, "content": text, "at": written(now)}


def written(now: int) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat()


def both(steps: list[tuple[int, int, bool]]) -> tuple[Recording, list[Prompt], list[Prompt]]:
    """A session, what its packs send, and what the planner foretells."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "some.jsonl"
        path.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in lines(steps)))
        (told,) = read_recordings([path])
        packs = list(PackedSession(told, path, Frugal(), PRICES, WINDOW).prompts())
    return told, packs, list(PlannedSession(told, Frugal(), PRICES, WINDOW).prompts())


steps = st.tuples(st.sampled_from([1, 20, 299, 301, 4_000]), st.integers(1, 120), st.booleans())


@settings(max_examples=figure(4, 200))
@given(st.lists(steps, min_size=3, max_size=14))
def test_packs_fit_and_cost_what_the_planner_foretells(taken: list[tuple[int, int, bool]]) -> None:
    told, packs, foretold = both(taken)
    assert all(PREFIX_TOKENS + tokens_of(prompt) <= WINDOW for prompt in packs)
    ours = score(told, without_tails(packs), WINDOW, PRICES)
    theirs = score(told, foretold, WINDOW, PRICES)
    assert abs(ours.cost / theirs.cost - 1) <= cost.AGREED
    assert ours.calls == theirs.calls == len(taken)


def without_handles(prompt: Prompt) -> list[tuple[object, ...]]:
    """What is shown, but for the numbers of handles, and the tokens of texts that have some: an engine counts its own
    events, too."""
    return [
        (
            each.texts,
            re.sub(r"\[h\d+_\d+\]", "[handle]", each.text),
            0 if re.search(r"\[h\d+_\d+\]", each.text) else each.tokens,
        )
        for each in prompt
    ]


def test_a_long_session_is_folded_at_the_same_calls_and_to_the_same_words() -> None:
    told, packs, foretold = both([(20, 60, number % 5 == 4) for number in range(24)])
    assert [*map(without_handles, without_tails(packs))] == [*map(without_handles, foretold)]
    assert score(told, without_tails(packs), WINDOW, PRICES).boundaries >= 2


def test_what_passes_is_paid_for_at_each_call_and_breaks_no_prefix() -> None:
    told, _, foretold = both([(20, 10, False)] * 4)
    tail = PromptPiece(("tail", 0), 100, text="Now: Monday.", passing=True)
    plain = score(told, foretold, WINDOW, PRICES)
    tailed = score(told, [[*prompt, tail] for prompt in foretold], WINDOW, PRICES)
    assert tailed.cost == plain.cost + len(foretold) * 100 * PRICES.input
    assert (tailed.read, tailed.boundaries) == (plain.read, plain.boundaries)
    assert tailed.sent == plain.sent + len(foretold) * 100


texts = st.lists(st.text(st.sampled_from("ab c1_.\né"), max_size=400), min_size=1, max_size=6)


@given(texts, st.integers(10, 200))
def test_what_is_cut_has_both_ends_and_no_more_tokens_than_it_may(told: list[str], tokens: int) -> None:
    items = [Summary(seq=at, first=at, last=at, messages=1, text=text, tokens=9) for at, text in enumerate(told, 1)]
    whole = "\n".join(told)
    found = cut_summary(items, tokens)
    assert count(found) <= tokens
    if count(whole) <= tokens:
        assert found == whole
    else:
        head, _, tail = found.partition(GAP)
        assert whole.startswith(head)
        assert whole.endswith(tail)
        assert len(head) - len(tail) in (0, 1)


def test_what_is_cut_comes_near_to_what_it_may_have() -> None:
    text = WORDS.format(1, 2, 3) * 200
    found = cut_summary([Summary(seq=1, first=1, last=1, messages=1, text=text, tokens=9)], 500)
    assert 480 <= count(found) <= 500


def test_instructions_are_as_long_as_they_are_to_be() -> None:
    assert PREFIX_TOKENS <= count(instructions(PREFIX_TOKENS)) <= PREFIX_TOKENS + 3
