"""What a question asks of memory: its terms, whom it is about, and when.

Laws: the same text, time and names give the same question. Names of participants are not searched for, because the speaker
of a passage is known; they say whose words fit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from holdfast.model import limits
from holdfast.text.recall.dates import DAY_US, FADE_DAYS, PLAN_DAYS, DayRange, find_days
from holdfast.text.recall.terms import find_synonyms, find_term, question_words
from holdfast.text.stems import Term, split_words

_READ_CHARS = 16 << 10
_SPAN_DAYS = 62
"""Two months. A longer time has too many passages to rank them without a word in common."""
_FIRST_PERSON = re.compile(r"\b(?:i|my|me|mine|myself)\b")
_SPEECH = (
    "say|tell|recommend|suggest|mention|advise|propose|list|provide|write|explain|describe|give|share|generate|answer"
)
_PAST_SPEECH = (
    "said|told|recommended|suggested|mentioned|advised|proposed|listed|provided|wrote|explained|described|gave|shared|"
    "generated|answered"
)
_ASKS_ASSISTANT = re.compile(
    rf"\bdid (?:you|the assistant) (?:\w+ly )?(?:{_SPEECH})\b"
    rf"|\b(?:you|the assistant) (?:(?:\w+ly|had|have|also|just|once|earlier|already) ){{0,2}}(?:{_PAST_SPEECH})\b"
    r"|\byour (?:\w+ ){0,2}(?:recommendation|suggestion|answer|advice|reply|explanation|response)s?\b"
    r"|\b(?:previous|earlier|last) (?:chat|conversation|discussion)\b"
)
"""The words of a question about what the assistant said. "Can you tell me" is none: it asks for an answer now."""


class RecallQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """A question to memory."""

    text: str
    terms: tuple[str, ...]
    """The stems of its words, without those of its form and without the names of participants."""
    synonyms: dict[str, str]
    """Further terms to search for, with the term that each stands for."""
    kin: dict[str, str]
    """The kin of its words, with the term of each: passages that are found otherwise fit better if they have them."""
    about: tuple[str, ...] = ()
    """The names of the participants that it is about, in lower case."""
    is_about_user: bool = False
    """It is in the first person: about the user."""
    days: tuple[DayRange, ...] = ()
    """The days that it names."""
    asks_assistant: bool = False
    """It asks what the assistant said."""
    meaning: str = ""
    """The text for an embedder: who it is about speaks in the first person, as they do in passages."""

    @property
    def time_spans(self) -> tuple[tuple[int, int], ...]:
        """The times, from and until, whose passages are worth ranking whatever their words: those of the days that it
        names, unless they are too many."""
        return tuple(
            ((days.first - PLAN_DAYS // 2) * DAY_US, (days.last + 1 + FADE_DAYS) * DAY_US)
            for days in self.days
            if days.last - days.first < _SPAN_DAYS
        )

    @property
    def search_terms(self) -> tuple[str, ...]:
        """The terms to match in an index: its own first, then synonyms."""
        return (*self.terms, *self.synonyms)[: limits.SEARCH_WORDS]


def parse_question(text: str, *, asked_us: int, participants: Sequence[str] = ()) -> RecallQuestion:
    """Read a question that was asked at a time, in the presence of participants with these names."""
    text = text[:_READ_CHARS]
    lower = " ".join(text.lower().split())
    names = {name.lower() for name in participants if name.strip()}
    parts = {word for name in names for word in split_words(name)}
    present = set(split_words(text))
    about = tuple(sorted(name for name in names if set(split_words(name)) & present))
    terms: dict[str, Term] = {}
    for word in question_words(text):
        if word not in parts:
            term = find_term(word)
            terms.setdefault(term.stem, term)
    stems = tuple(terms)[: limits.SEARCH_WORDS]
    asks_assistant = _ASKS_ASSISTANT.search(lower) is not None
    return RecallQuestion(
        text=text,
        terms=stems,
        synonyms=find_synonyms(stems),
        kin={terms[stem].kin: stem for stem in stems if terms[stem].kin},
        about=about,
        is_about_user=not about and not asks_assistant and _FIRST_PERSON.search(lower) is not None,
        days=find_days(text, asked_us),
        asks_assistant=asks_assistant,
        meaning=_speak_as(about[0], text) if len(about) == 1 else text,
    )


def _speak_as(name: str, text: str) -> str:
    """Replace a name by the first person."""
    for part in sorted({name, *split_words(name)}, key=len, reverse=True):
        text = re.sub(rf"\b{re.escape(part)}['’]s?(?!\w)", "my", text, flags=re.IGNORECASE)
        text = re.sub(rf"\b{re.escape(part)}\b", "I", text, flags=re.IGNORECASE)
    return text
