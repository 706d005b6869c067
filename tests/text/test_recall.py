"""The recall of passages: questions, scores, choice."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.model import limits
from holdfast.model.content import Role
from holdfast.model.memory.passages import NeighbourSpan, Passage
from holdfast.model.names import Scope
from holdfast.text.recall.choice import choose_passages
from holdfast.text.recall.question import RecallQuestion, parse_question
from holdfast.text.recall.scores import PassageScore, find_hop_terms, find_neighbours, score_passages
from holdfast.text.recall.terms import find_synonyms, passage_terms

DAY_US = 86_400_000_000
NOW_US = int(datetime(2026, 3, 18, 12, tzinfo=UTC).timestamp()) * 1_000_000
WORDS = "bicycle lighthouse violin teapot the was ran harbour 42 ünïcode".split()


def passage(
    text: str,
    place: int = 2,
    *,
    session: str = "monday",
    role: Role = "user",
    speaker: str = "",
    time_us: int = NOW_US - DAY_US,
    part: int = 0,
) -> Passage:
    return Passage(
        scope=Scope("shop", "agent", session),
        seq=10 * place,
        part=part,
        role=role,
        speaker=speaker,
        user="ada",
        time_us=time_us,
        place=place,
        text=text,
    )


def ask(text: str, *participants: str) -> RecallQuestion:
    return parse_question(text, asked_us=NOW_US, participants=participants)


def rank(question: RecallQuestion, *passages: Passage) -> list[PassageScore]:
    counts: dict[str, int] = {}
    for each in passages:
        for term in set(passage_terms(each.text)):
            counts[term] = counts.get(term, 0) + 1
    return score_passages(question, passages, counts, len(passages))


def measure(each: Passage) -> int:
    return len(each.text)


passages = st.lists(
    st.builds(
        passage,
        st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join),
        st.integers(1, 30),
        session=st.sampled_from(["monday", "tuesday"]),
        role=st.sampled_from(["user", "assistant", "tool"]),
        speaker=st.sampled_from(["", "Ada", "Grace"]),
        time_us=st.integers(NOW_US - 400 * DAY_US, NOW_US),
        part=st.integers(0, 3),
    ),
    max_size=25,
    unique_by=lambda each: each.key,
)
questions = st.builds(
    ask, st.lists(st.sampled_from([*WORDS, "Ada", "my", "yesterday"]), max_size=6).map(" ".join), st.just("Ada")
)


def test_a_question_is_read_without_its_form_and_without_names() -> None:
    question = ask("What did Grace Hopper say about the lighthouses?", "Grace Hopper", "Ada")
    assert question.terms == (*passage_terms("say"), *passage_terms("lighthouse"))
    assert question.about == ("grace hopper",)
    assert not question.is_about_user


def test_a_question_in_the_first_person_is_about_the_user() -> None:
    question = ask("Where did I park my bicycle?")
    assert question.is_about_user
    assert not question.asks_assistant
    said, heard = (
        passage("the bicycle is at the harbour"),
        passage("the bicycle is at the harbour", role="assistant", place=9),
    )
    ranked = rank(question, heard, said)
    assert ranked[0].passage == said
    assert "said by the user" in ranked[0].reason


@pytest.mark.parametrize(
    "text",
    [
        "Which tea did you recommend to me?",
        "What was in your suggestion for the garden?",
        "What was the third tea that you previously mentioned?",
        "In our previous conversation there was a list of harbours. Which was the third?",
    ],
)
def test_a_question_can_ask_what_the_assistant_said(text: str) -> None:
    question = ask(text)
    assert question.asks_assistant
    assert not question.is_about_user


@pytest.mark.parametrize(
    "text",
    [
        "Can you tell me where I left my violin?",
        "Could you list my teapots?",
        "Do you remember what I told you about it?",
    ],
)
def test_a_request_to_tell_is_not_about_what_the_assistant_said(text: str) -> None:
    question = ask(text)
    assert not question.asks_assistant
    assert question.is_about_user


def test_the_embedder_gets_the_subject_in_the_first_person() -> None:
    assert (
        ask("Where is Ada's violin, and does Ada play it?", "Ada").meaning == "Where is my violin, and does I play it?"
    )
    assert ask("Do Ada and Grace play?", "Ada", "Grace").meaning == "Do Ada and Grace play?"


def test_a_name_with_signs_of_a_pattern_is_a_name() -> None:
    assert ask("Where does A+(b play?", "A+(b").about == ("a+(b",)


def test_irregular_forms_and_british_spellings_have_one_term() -> None:
    assert passage_terms("wrote written writes") == passage_terms("write write write")
    assert passage_terms("favourite colours organised") == passage_terms("favorite colors organized")
    assert passage_terms("hour pour promise") == passage_terms("hours pours promises")


def test_synonyms_count_less_than_the_word_itself() -> None:
    question = ask("Which film did Grace see?", "Grace")
    assert set(find_synonyms(question.terms)) >= set(passage_terms("movie"))
    ranked = rank(
        question, passage("a movie, in town", 2), passage("a film, in town", 9, session="b"), passage("rain", 5)
    )
    assert [item.passage.text for item in ranked] == ["a film, in town", "a movie, in town", "rain"]


def test_words_spread_to_the_answer_next_to_a_question_but_not_across_a_pause() -> None:
    question = ask("Which lighthouse did we visit?")
    matched = passage("Which lighthouse was it?", 4, role="assistant", time_us=NOW_US - DAY_US)
    answer = passage("Fastnet, in a storm!", 5, time_us=NOW_US - DAY_US)
    later = passage("Fastnet, in a storm!!", 6, time_us=NOW_US - DAY_US // 2)
    elsewhere = passage("Fastnet, in a storm!", 5, session="tuesday", time_us=NOW_US - DAY_US)
    scores = {item.passage: item for item in rank(question, matched, answer, later, elsewhere)}
    assert scores[answer].near > 0
    assert "near a match" in scores[answer].reason
    assert scores[later].near == scores[elsewhere].near == 0


def test_the_parts_of_a_long_message_are_one_message_away_from_the_next() -> None:
    question = ask("lighthouse")
    matched = passage("the lighthouse", 4)
    parts = [passage("long reply", 5, role="assistant", part=part) for part in range(6)]
    after = passage("thanks", 6)
    short = {item.passage: item.near for item in rank(question, matched, after, passage("reply", 5, session="b"))}
    long = {item.passage: item.near for item in rank(question, matched, after, *parts)}
    assert long[after] == pytest.approx(short[after], rel=0.5)
    assert all(long[part] > long[after] for part in parts)


def test_a_passage_of_the_days_in_question_comes_first() -> None:
    question = ask("What did Ada plan in January?", "Ada")
    january, may = (
        int(datetime(2026, 1, 20, tzinfo=UTC).timestamp()),
        int(datetime(2025, 5, 20, tzinfo=UTC).timestamp()),
    )
    inside = passage("a plan", 3, time_us=january * 1_000_000)
    outside = passage("a plan", 3, session="tuesday", time_us=may * 1_000_000)
    assert [item.passage for item in rank(question, outside, inside)] == [inside, outside]
    ((since_us, until_us),) = question.time_spans
    assert since_us <= inside.time_us < until_us
    assert not since_us <= outside.time_us < until_us


def test_similarity_finds_what_has_no_word_in_common() -> None:
    question = ask("Which lighthouse?")
    match, other, far = passage("Fastnet", 2), passage("a beacon", 40, session="b"), passage("soup", 80, session="c")
    similarities = {match.key: 0.1, other.key: 0.8, far.key: 0.2}
    ranked = score_passages(question, [match, other, far], {}, 3, similarities)
    assert ranked[0].passage == other
    assert "0.80" in ranked[0].reason


def test_terms_for_a_second_search_are_rare_words_of_the_best_passages() -> None:
    question = ask("Where does the sister of Ada live?", "Ada")
    best = passage("My sister Ottoline called", speaker="Ada")
    ranked = rank(question, best, *(passage(f"rain {number}", number, session="b") for number in range(5, 60)))
    assert passage_terms("Ottoline")[0] in find_hop_terms(question, ranked[:1], {"call": 50}, 56)
    assert "call" not in find_hop_terms(question, ranked[:1], {"call": 50}, 56)
    far = passage("Ottoline has a flat at the harbour", 70, session="c")
    plain = rank(question, best, far)
    hopped = score_passages(question, [best, far], {"sister": 1}, 2, None, passage_terms("Ottoline"))
    assert hopped[1].score > plain[1].score


def test_a_reason_names_words_that_nobody_asked_for_as_such() -> None:
    question = ask("Who is the second contact?")
    first, other = passage("Allegra is the second contact."), passage("Allegra plays chess.", session="tuesday")
    ranked = score_passages(question, [first, other], {}, 60, hop_terms=passage_terms("Allegra"))
    assert [each.reason for each in ranked] == ["has second, contact", "shares allegra with the best passages"]


def test_neighbours_are_spans_without_overlaps() -> None:
    ranked = rank(ask("tea"), *(passage("tea", place) for place in (5, 8, 90)), passage("tea", 1, session="b"))
    stream, other = passage("", session="monday").scope.stream, passage("", session="b").scope.stream
    assert find_neighbours(ranked, 10, 3) == (
        NeighbourSpan(other, 0, 4),
        NeighbourSpan(stream, 2, 11),
        NeighbourSpan(stream, 87, 93),
    )
    assert find_neighbours([], 10) == ()


@given(questions, passages, st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_does_not_matter(
    question: RecallQuestion, given_: list[Passage], random: object
) -> None:
    shuffled = [*given_, *given_[:3]]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    counts = dict.fromkeys(question.search_terms, 2)
    expected = score_passages(question, given_, counts, 100)
    assert score_passages(question, shuffled, counts, 100) == expected
    assert sorted(item.passage.key for item in expected) == sorted(each.key for each in given_)
    assert [item.score for item in expected] == sorted((item.score for item in expected), reverse=True)


@given(passages)
def test_a_passage_with_all_words_beats_one_with_none(others: list[Passage]) -> None:
    full = passage("glacier compass", 1, session="full")
    empty = passage("nothing here", 1, session="empty")
    ranked = rank(ask("glacier compass"), full, empty, *others)
    order = [item.passage for item in ranked]
    assert order.index(full) < order.index(empty)


@given(questions, passages, st.integers(-5, 200), st.booleans(), st.integers(0, 9))
def test_the_budget_is_never_exceeded(
    question: RecallQuestion, given_: list[Passage], budget: int, asks: bool, heading: int
) -> None:
    ranked = rank(question, *given_)
    chosen = choose_passages(ranked, budget, measure, heading=lambda _: heading, asks_assistant=asks)
    spent = sum(measure(item.passage) for item in chosen) + heading * len({item.passage.scope for item in chosen})
    assert spent <= max(budget, 0)
    if not asks:
        theirs = [measure(item.passage) for item in chosen if item.passage.role != "user"]
        assert sum(theirs) <= max(budget, 0) / 4 or (len(theirs) == 1 and theirs[0] <= budget / 2)
    assert [ranked.index(item) for item in chosen] == sorted(ranked.index(item) for item in chosen)


def test_a_passage_that_does_not_fit_is_skipped() -> None:
    ranked = [PassageScore(passage("x" * size, size), 1.0 / size) for size in (10, 95, 20)]
    chosen = choose_passages(ranked, 40, measure)
    assert [item.passage.place for item in chosen] == [10, 20]


def test_the_best_passage_may_take_half_whoever_said_it() -> None:
    best, other = passage("violin " * 5, role="tool"), passage("violin " * 5, role="assistant")
    ranked = [PassageScore(each, score) for each, score in ((best, 2.0), (other, 1.0), (passage("harbour"), 0.5))]
    assert [item.score for item in choose_passages(ranked, 70, measure)] == [2.0, 0.5]
    assert [item.score for item in choose_passages(ranked, 69, measure)] == [0.5]


def test_a_situation_is_no_text_of_the_assistant() -> None:
    situation = Passage(
        scope=Scope("shop", "agent", "x"), seq=1, role="assistant", kind="situation", time_us=NOW_US, text="y" * 40
    )
    reply = passage("z" * 40, role="assistant")
    ranked = [PassageScore(passage("first"), 3.0), PassageScore(reply, 2.0), PassageScore(situation, 1.0)]
    assert [item.passage for item in choose_passages(ranked, 100, measure)][1:] == [situation]
    everything = choose_passages(ranked, 100, measure, asks_assistant=True)
    assert [item.passage for item in everything][1:] == [reply, situation]


HOSTILE = [
    "",
    "\x00" * 50,
    "\ud800 lone",
    "a" * 200_000,
    "?" * 50_000,
    "you " * 20_000,
    "in may " * 10_000,
    "ﷺ ＬＯＵＤ İ ß ǅ",
    "31 February 2023, 2023-99-99, 0 May, 999 years ago",
    "' OR 1=1 --",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_ranked_like_any_other(text: str) -> None:
    question = ask(text, "", "you", "\x00", "(")
    assert len(question.search_terms) <= limits.SEARCH_WORDS
    ranked = rank(question, passage(text, 3), passage("tea", 4), passage(text, 5, speaker=text))
    assert len(ranked) == 3
    assert all(term.isalnum() or not term.isascii() for term in passage_terms(text))
    assert all(isinstance(item.reason, str) for item in ranked)


@settings(max_examples=50)
@given(st.text(max_size=80), st.integers(-(2**62), 2**62), st.lists(st.text(max_size=5), max_size=3))
def test_any_text_is_a_question(text: str, asked_us: int, names: list[str]) -> None:
    question = parse_question(text, asked_us=asked_us, participants=names)
    assert question == parse_question(text, asked_us=asked_us, participants=[*reversed(names)])
    score_passages(question, [passage(text)], {}, 0)
