"""What the cost of a context is measured with: the optimum is one, the cache reads what it holds, and an identifier is
found where it stands, nowhere else."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from benchmarks import cost
from benchmarks.cost_baselines import send_cleared, send_everything, send_newest
from benchmarks.cost_folds import (
    FoldCosts,
    Shape,
    at_threshold,
    break_even,
    choose_folds,
    find_optimal_folds,
    whole_units,
)
from benchmarks.cost_grounding import Index, identifiers, present, strings
from benchmarks.cost_planner import PlannedSession
from benchmarks.cost_recordings import Recording, build_recording, read_recordings
from benchmarks.cost_score import PREFIX_TOKENS, Prompt, PromptPiece, cold, score, tokens_of
from benchmarks.harness import Bench
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.model.content import Json, Text, ToolCall, ToolResult
from holdfast.model.history.plans import Frugal
from holdfast.model.sessions.messages import Message

PRICES = cost.prices_at("claude-sonnet-4-5", 6_000)
SHAPE = Shape(window=6_000, turns=2, tail_share=0.2, summary_share=0.1)
START_US = 1_700_000_000_000_000


def session(steps: Sequence[tuple[int, int, bool]]) -> Recording:
    """Each step is a reply that calls a tool: seconds since the one before, tokens of the result, whether a user spoke."""
    messages: list[Message] = []
    now_us = START_US

    def add(role: str, tokens: int, **more: object) -> int:
        seq = len(messages) + 2
        note: dict[str, Json] = {"import": {"put": {"at": written(now_us)}}}
        given = {"id": str(seq), "seq": seq, "role": role, "tokens": tokens, "time_us": 0, "principal": "local"}
        messages.append(Message(**(given | more), metadata=note))  # type: ignore[arg-type]
        return seq

    add("user", 50, content=(Text("Begin with src/first_file.py."),))
    for number, (seconds, tokens, asked) in enumerate(steps):
        now_us += seconds * 1_000_000
        if asked:
            add("user", 20, content=(Text(f"And step_{number}?"),))
        call = ToolCall(f"c{len(messages) + 2}_0", "read", {"path": f"src/part_{number - 1}.py"})
        add("assistant", 30, tool_calls=(call,))
        add("tool", tokens, tool_results=(ToolResult(call.id, (Text(f"in src/part_{number}.py"),), False),))
    return build_recording("some", messages)


def written(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat()


steps = st.tuples(st.sampled_from([1, 20, 299, 301, 4_000]), st.integers(1, 2_500), st.booleans())


def by_trying_all(folding: FoldCosts) -> int | None:
    """The cheapest of all choices of boundaries; None if no choice fits."""
    best: int | None = None
    for chosen in itertools.product((False, True), repeat=len(folding.cuts)):
        cuts: list[int] = []
        cut, fits = 0, True
        for call, new, now in zip(folding.recording.calls, folding.cuts, chosen, strict=True):
            if now and new > cut:
                cut = new
            elif new > cut and folding.size(cut, call.units) > folding.shape.window:
                fits = False
            cuts.append(cut)
        if fits:
            best = min(folding.total(cuts), best if best is not None else folding.total(cuts))
    return best


@given(st.lists(steps, min_size=1, max_size=8))
def test_the_optimum_is_the_cheapest_choice_of_boundaries(taken: list[tuple[int, int, bool]]) -> None:
    folding = FoldCosts(session(taken), SHAPE, PRICES)
    assert folding.total(find_optimal_folds(folding)) == by_trying_all(folding)


@settings(max_examples=50)
@given(st.lists(steps, min_size=10, max_size=40))
def test_no_rule_is_cheaper_than_the_optimum(taken: list[tuple[int, int, bool]]) -> None:
    folding = FoldCosts(session(taken), SHAPE, PRICES)
    best = folding.total(find_optimal_folds(folding))
    for rule in (break_even, *(at_threshold(tenths / 10) for tenths in range(11))):
        assert folding.total(choose_folds(folding, rule)) >= best


@given(st.lists(steps, min_size=1, max_size=30))
def test_what_is_foretold_of_a_choice_is_what_its_prompts_cost(taken: list[tuple[int, int, bool]]) -> None:
    folding = FoldCosts(session(taken), SHAPE, PRICES)
    chosen = choose_folds(folding, break_even)
    whole = whole_units(folding.recording)
    prompts: list[Prompt] = []
    for call, cut in zip(folding.recording.calls, chosen, strict=True):
        head = [PromptPiece(("summary", cut), folding.folded(cut))] if cut else []
        prompts.append(head + whole[cut : call.units])
    found = score(folding.recording, prompts, SHAPE.window, PRICES)
    assert found.cost == folding.total(chosen)
    assert found.boundaries == len({*chosen} - {0})


@given(st.lists(steps, min_size=1, max_size=30), st.integers(4_000, 20_000))
def test_a_warm_cache_reads_the_last_prompt_and_a_cold_one_nothing(
    taken: list[tuple[int, int, bool]], window: int
) -> None:
    told = session(taken)
    lost = cold(told, PRICES)
    assert lost == [True, *(asked and seconds > 300 for seconds, _, asked in taken[1:])]
    sizes = [PREFIX_TOKENS + tokens_of(prompt) for prompt in send_everything(told)]
    found = score(told, send_everything(told), window, PRICES)
    assert found.read == sum(0 if gone else before for gone, before in zip(lost[1:], sizes[:-1], strict=True))
    assert (found.sent, found.grounding, found.boundaries) == (sum(sizes), 1, 0)
    assert found.over == sum(size > window for size in sizes)


@given(st.lists(steps, min_size=1, max_size=30), st.integers(5_000, 20_000))
def test_what_others_send_fits_and_ends_with_what_is_newest(taken: list[tuple[int, int, bool]], window: int) -> None:
    told = session(taken)
    for made in (send_newest(told, window), send_cleared(told, window, 0.5)):
        for prompt, whole in zip(made, send_everything(told), strict=True):
            assert PREFIX_TOKENS + tokens_of(prompt) <= window
            assert prompt[-1] == whole[-1]


@settings(max_examples=30)
@given(st.lists(steps, min_size=1, max_size=30))
def test_the_planner_keeps_to_its_window_and_extends_between_boundaries(taken: list[tuple[int, int, bool]]) -> None:
    told = session(taken)
    before: Prompt = []
    boundaries = 0
    for prompt in PlannedSession(told, Frugal(least=100), PRICES, SHAPE.window).prompts():
        assert PREFIX_TOKENS + tokens_of(prompt) <= SHAPE.window
        extends = prompt[: len(before)] == before
        assert extends or prompt[0].key[0] in ("summary", "reduced")
        boundaries += not extends
        before = prompt
    found = score(told, PlannedSession(told, Frugal(least=100), PRICES, SHAPE.window).prompts(), SHAPE.window, PRICES)
    assert found.boundaries == boundaries


def test_identifiers_are_paths_numbers_and_names() -> None:
    text = (
        'Read /src/app/main_loop.py:48, then SessionState, os.path and run-all; "the plain words" and 7 do not count.'
    )
    assert identifiers(text) == {
        "src/app/main_loop.py:48",
        "main_loop.py:48",
        "SessionState",
        "os.path",
        "run-all",
    }
    assert identifiers("port 8080, id 5f3a-22, v1.2") == {"8080", "5f3a-22", "v1.2"}


words = st.text(st.sampled_from("ab1_/.:- X"), max_size=30)


@given(st.lists(words, max_size=6), words)
def test_an_identifier_is_found_where_it_stands_and_nowhere_else(texts: list[str], text: str) -> None:
    index = Index([*texts, text])
    for identifier in identifiers(text):
        assert present(identifier, text)
        assert index.holding(identifier) == tuple(
            number for number, each in enumerate([*texts, text]) if present(identifier, each)
        )


def test_part_of_a_longer_word_is_no_mention() -> None:
    for identifier, text in (("48", "line 48."), ("48", "148 or 48"), ("a.py", "src/a.py")):
        assert present(identifier, text)
    for identifier, text in (("48", "2048 484"), ("part_1", "part_12"), ("x", "")):
        assert not present(identifier, text)


def test_arguments_are_read_to_their_leaves() -> None:
    assert list(strings({"a": ["x", 12, True], "b": {"c": 1.5, "d": None}})) == ["x", "12", "1.5"]


def test_a_call_wants_what_was_there_before_it() -> None:
    told = session([(1, 10, False), (1, 10, True), (1, 10, False)])
    assert [set(call.wanted) for call in told.calls] == [
        set(),
        {"src/part_0.py", "part_0.py"},
        {"src/part_1.py", "part_1.py"},
    ]
    lost = score(told, ([] for _ in told.calls), SHAPE.window, PRICES)
    assert (lost.judged, lost.grounding) == (2, 0)


def test_no_sessions_are_said_and_no_failure(tmp_path: Path) -> None:
    tables = cost.contexts(Bench(tmp_path, True, tmp_path / "nowhere"))
    assert "nothing was measured" in tables[0].notes[0]


def test_a_session_is_read_from_a_file_as_the_library_takes_it_in(tmp_path: Path) -> None:
    path = tmp_path / "one.jsonl"
    lines: list[dict[str, object]] = [
        {"role": "user", "content": "Look into src/main.py", "at": "2026-01-01T10:00:00Z"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "t1", "name": "read", "args": {"path": "src/main.py"}}],
            "at": "2026-01-01T10:00:05Z",
        },
        {"role": "tool", "tool_results": [{"tool_call_id": "t1", "result": "x = 1", "is_error": False}]},
        {"role": "assistant", "content": "Done.", "at": "2026-01-01T10:09:00Z"},
    ]
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    (told,) = read_recordings([path])
    assert [call.units for call in told.calls] == [1, 2]
    assert [call.wanted for call in told.calls] == [("main.py", "src/main.py"), ()]
    assert cold(told, PRICES) == [True, False]
    with holdfast.open("memory:") as engine:
        engine.admin.import_transcript(path, "one")
        assert told.tokens == sum(message.tokens for message in engine.session("one").messages())
