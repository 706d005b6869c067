"""What counts as a question that waits for its answer."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import figure

from holdfast.text import questions
from holdfast.text.questions import is_question

SENTENCE_PIECES = [
    "A sentence.",
    "word ",
    "x",
    " ",
    "  ",
    "\n",
    "\u00a0",
    ".",
    "!",
    "?",
    "。",
    "？*",
    "”",
    ") ",
    "_",
    "long " * 40,
]
QUESTIONS = [
    "Which one?",
    "Which one?\n\n",
    "Really?!?",
    "Are you sure?!",
    "Which one? 🙂",
    "Shall I go on? 👍🏽\n",
    "**Shall I go on?**",
    "_Shall I?_ ",
    "~~Why?~~",
    "(Or not?)",
    "[Is it this?]",
    "[Is it this?](https://example.org/a?b=c)",
    "Is it this?\u00a0",
    "Have you seen https://example.org/a?",
    "“Shall I go on?”",
    "»Welches?«",
    "« Lequel ? »",
    "「どれ？」",
    "どれ？",
    "よろしいでしょうか。",
    "続けますか",
    "您要继续吗。",
    "계속하시겠습니까.",
    "คุณต้องการต่อไหมคะ",
    "أيها؟",
    "כמה?",
    "Ποιο θέλετε;",
    "Ποιο θέλετε\u037e",
    "Ո՞րն եք ուզում։",
    "የትኛው፧",
    "1. this\n2. that\n\nWhich?",
    "I found two accounts. Which one is yours?",
    'Do you mean "main"?',
    "Do you want `rm -rf build`?",
    "Shall I run this?\n```\nrm -rf build\n```",
    "~~~sh\nls\n~~~\nShall I run that?",
    "> Is it done?\n\nWhat makes you ask?",
    "Delete it? (yes/no)",
    "Delete it? [y/N]",
    "Delete the branch? (This cannot be undone.)",
    "Which size do you want?\n- Small\n- Medium\n- Large",
    "Which one should I use?\n\n1. **staging**\n2. production",
    "Which address shall I use? Thanks!",
    "Shall I proceed? Please let me know.",
    "Shall I proceed? I'll wait for your answer.",
    "Is it the red one or the blue one? Reply with 1 or 2.",
    "Please tell me your order number.",
    "To find it, please give me your order number.",
    "Please let me know which address to use.",
    "Please confirm that I may delete it.",
    "Kindly provide your date of birth.",
    "Tell me where it hurts.",
    "Let me know whether the 5th suits you. Thank you!",
    "Please tell me:\nWhich one?",
]


STATEMENTS = [
    "",
    " \n",
    "**",
    "🙂",
    "Done.",
    "Which one? This one.",
    "What?\n\nNever mind.",
    "Why did it fail? The disk was full.",
    "Why did it fail? The disk was full. I freed 3 GB.",
    "a?b",
    "(no)",
    "The answer to “Which one?” is below: the red one.",
    "He said: “Which one?”",
    'The form then asks "Are you sure?"',
    "Er fragte: „Welches?“",
    "`rm -rf /?`",
    "Use the pattern `file-?`",
    "```sql\nselect * from t where a = ?\n```",
    "I ran it:\n```\nContinue?\n```",
    "```\nContinue?",
    "You wrote:\n> Is it done?",
    "See https://example.org/search?q=holdfast",
    "そうですか。",
    "わかりました。",
    "我知道了。",
    "Είναι έτοιμο.",
    "What did I change?\n- Removed the cache.\n- Added a test.",
    "What did I change?\n- Removed the cache\n- Added a test",
    "What do you get?\n- A report of everything that was found in the last run of the nightly job\n- B",
    "Here is what you need?\n- one",
    "Let me know if you need anything else.",
    "Let me know if you have any questions!",
    "Please tell me if you need anything else.",
    "Please confirm your e-mail by clicking the link.",
    "Feel free to send me more files.",
    "Thanks!",
    "Thank you.",
    "Please wait.",
    "I told them to send us the report.",
    "Which one? I'll take the first.",
    "Do you see? It works. Thanks!",
    "Yes / no",
    "Հարցը պարզ է։",
    "Ո՞րն է։ Սա է։",
]


@pytest.mark.parametrize("text", QUESTIONS)
def test_a_question_is_seen_in_any_script_and_behind_what_closes_it(text: str) -> None:
    assert is_question(text)


@pytest.mark.parametrize("text", STATEMENTS)
def test_other_texts_are_no_questions(text: str) -> None:
    assert not is_question(text)


CLOSINGS = ["", " ", "\n\n", " 🙂", "**", "_", "”", ")", "\n```\nls?\n```", "\n> quoted", "\n\n---\n"]


@settings(max_examples=figure(100, 5_000))
@given(text=st.sampled_from([each for each in QUESTIONS if each.endswith("?")]), closing=st.sampled_from(CLOSINGS))
def test_what_only_closes_a_text_changes_nothing(text: str, closing: str) -> None:
    assert is_question(f"{text}{closing}")


@settings(max_examples=figure(100, 5_000))
@given(
    text=st.sampled_from(QUESTIONS), answer=st.sampled_from(["It is the red one.", "Nobody knows.", "答えは赤です。"])
)
def test_a_question_that_its_writer_answers_is_none(text: str, answer: str) -> None:
    assert not is_question(f"{text}\n\n{answer}")


@settings(max_examples=figure(150, 10_000))
@given(text=st.text())
def test_any_text_is_taken(text: str) -> None:
    assert is_question(text) in (True, False)
    assert not is_question(f"{text}\n```\n{text.replace('`', '')}\n```\nDone.")


@pytest.mark.parametrize(
    "piece",
    ["?", '"', "`", "[", "(", "please ", "1. a\n", "-\t", "tell me to ", "let me know ", "。", "http://a?", "a"],
)
def test_long_texts_take_no_long_time(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    start = time.thread_time()
    is_question(text)
    is_question(f"{text}?")
    assert time.thread_time() - start < 2


@given(st.lists(st.sampled_from(SENTENCE_PIECES), max_size=120).map("".join))
@settings(max_examples=figure(100, 5_000))
def test_sentences_from_the_end_are_those_of_the_whole_text(text: str) -> None:
    whole = [part for part in questions._SENTENCES.split(text) if any(map(str.isalnum, part))]
    assert [*questions._iter_sentences_back(text)] == whole[::-1]
