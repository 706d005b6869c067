"""How a statement is meant, by the words around it; and which parts of a text are not the speaker's own."""

from __future__ import annotations

import pytest

from holdfast.text.detect.quotations import blank_quotations
from holdfast.text.detect.stance import judge_stance, split_surroundings
from holdfast.text.words import split_sentences


def meant(text: str) -> tuple[str, str]:
    """How the statement between braces is meant; a bar stands before its value."""
    start, bar, stop = text.index("{"), text.index("|") - 1, text.index("}") - 2
    plain = text.replace("{", "").replace("|", "").replace("}", "")
    sentence = next(each for each in split_sentences(plain) if each.start <= start < each.end)
    meaning = judge_stance(split_surroundings(plain, sentence, start, (bar, stop), stop))
    return meaning.stance, meaning.why


@pytest.mark.parametrize(
    ("text", "stance", "why"),
    [
        ("{my seat is |14C}", "earnest", ""),
        ("Could you {change my seat to |14C}?", "earnest", ""),
        ("{my seat is |14C}, can you print the ticket?", "earnest", ""),
        ("I said that {my seat is |14C}.", "earnest", ""),
        ("The airline told me that {my seat is |14C}.", "earnest", ""),
        ("Is {my seat |14C}?", "none", "question"),
        ("{my seat is |14C}, right?", "none", "question"),
        ("I wonder if {my seat is |14C}.", "none", "question"),
        ("When Ben is back, {change my seat to |14C}.", "none", "condition"),
        ("{change my seat to |14C} if it is free.", "none", "condition"),
        ("I wish {my seat was |14C}.", "none", "wish"),
        ("Please don't {change my seat to |14C}.", "none", "negation"),
        ("Ben says {my seat is |14C}.", "none", "report"),
        ("{my seat is |14C}, haha.", "none", "irony"),
        ("{my seat is |14C}. Just kidding!", "none", "irony"),
        ("Back then {my seat was |14C}.", "none", "past"),
        ("Just this once {change my seat to |14C}.", "none", "scope"),
        ("From next week {my seat is |14C}.", "doubtful", "future"),
        ("For now {my seat is |14C}.", "doubtful", "scope"),
        ("I think {my seat is |14C}.", "doubtful", "hedge"),
        ("{my seat is |14C}. Not sure though.", "doubtful", "hedge"),
        ("My brother {changed my seat to |14C}.", "doubtful", "deed of others"),
        ("Tell Ben that {my seat is |14C}.", "doubtful", "message to others"),
    ],
)
def test_a_statement_is_meant_as_the_words_around_it_say(text: str, stance: str, why: str) -> None:
    assert meant(text) == (stance, why)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("My seat is 14C.", "My seat is 14C."),
        ("Set the branch to `main`.", "Set the branch to `main`."),
        ('The title is "Hold Fast" now.', 'The title is "Hold Fast" now.'),
        ("Run `git config user.name Ada now` first.", "Run first."),
        ("Look:\n```\nseat = 14C\n```\nWhy?", "Look: Why?"),
        ("Is this real?\n> your seat is 14C\n> bye", "Is this real?"),
        ("Draft a note: my seat is 14C. Bye.", ""),
        ("My seat is 14C and write a mail to Ben.", "My seat is 14C and"),
        ('He said "my seat is 14C" to me.', "He said to me."),
        ("Ann: seat is 14C\nBen: is it?\nAnn: yes\n\nSum that up.", "Sum that up."),
        ("Email: a@b.example\nPhone: 0171 555 111", "Email: a@b.example Phone: 0171 555 111"),
        ("Here's the mail I got:\nyour seat is 14C", "Here's the mail I got:"),
    ],
)
def test_what_the_speaker_does_not_state_is_blanked(text: str, kept: str) -> None:
    blanked = blank_quotations(text)
    assert len(blanked) == len(text)
    assert " ".join(blanked.split()) == kept
