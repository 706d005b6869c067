"""How long texts are cut into passages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.text.recall.splits import PASSAGE_CHARS, split_passages

texts = st.one_of(
    st.text(max_size=3_000),
    st.lists(
        st.sampled_from(["word ", "End. ", "\n", "\n\n", "。", "x" * 300, "- item\n", "\u2028"]), max_size=400
    ).map("".join),
)


@given(texts)
def test_passages_cover_the_text(text: str) -> None:
    parts = split_passages(text)
    assert "".join(part for _, part in parts) == text
    assert all(text[start : start + len(part)] == part for start, part in parts)
    assert all(0 < len(part) <= PASSAGE_CHARS for _, part in parts)


def test_a_short_text_is_one_passage() -> None:
    assert split_passages("Two eggs.\n\nOne loaf.") == [(0, "Two eggs.\n\nOne loaf.")]
    assert split_passages("") == []


def test_a_cut_is_at_the_best_boundary() -> None:
    sentence = "The tide turned at noon. "
    paragraph = sentence * 14 + "\n\n"
    assert [part for _, part in split_passages(paragraph * 3)] == [paragraph] * 3
    lines = [part for _, part in split_passages("- one item of the list\n" * 60)]
    assert all(part.endswith("list\n") for part in lines)
    sentences = [part for _, part in split_passages(sentence * 60)]
    assert all(part.endswith("noon. ") for part in sentences)
    words = [part for _, part in split_passages("word " * 300)]
    assert all(part.endswith(" ") for part in words)
    assert [len(part) for _, part in split_passages("x" * 1_500)] == [PASSAGE_CHARS, PASSAGE_CHARS, 300]


def test_a_huge_text_is_cut_in_linear_time() -> None:
    parts = split_passages(" " * 500_000 + "\n" * 500_000 + "x" * 500_000)
    assert sum(len(part) for _, part in parts) == 1_500_000
