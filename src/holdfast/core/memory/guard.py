"""The guard of recalled passages: their texts without superseded and withheld values.

Laws: those of the history view. The place of a passage among the ends of facts is that in the log, also if it is from
another session. One that the log does not know counts as older than every end. A withheld value stays only where the user
typed it. A question about the past gets the past, with a note: passages are chosen for each question, so nothing else
depends on how they are shown.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.core.history.guard import GuardInput, find_facts_by_terms
from holdfast.core.packs.recall import ShownPassage
from holdfast.model.memory.recall import RecalledPassage
from holdfast.model.packs.pack import PassageTrace
from holdfast.text.guard import finder
from holdfast.text.guard.patterns import GuardFact


def find_ended_facts(guard_input: GuardInput, text: str) -> list[str]:
    """The superseded facts that a text may state."""
    return [fact.id for fact in find_facts_by_terms(guard_input, text) if fact.status == "dead"]


def find_past_facts(guard_input: GuardInput, query: str, texts: Iterable[str]) -> frozenset[str]:
    """The superseded facts in these texts whose earlier values a question asks for."""
    facts = dict.fromkeys(name for text in texts for name in find_ended_facts(guard_input, text))
    keys = dict.fromkeys(guard_input.endings[name].key for name in facts)
    past = {*finder.find_past_keys(query, keys, keys)} if keys else set()
    return frozenset(name for name in facts if guard_input.endings[name].key in past)


def guard_passage(
    guard_input: GuardInput, passage: RecalledPassage, trace: PassageTrace, past: frozenset[str] = frozenset()
) -> ShownPassage:
    """A passage as it may be shown. The values of `past` facts get a note, and stay."""
    text = passage.text
    if guard_input.is_idle:
        return ShownPassage(passage, text)
    facts = [one for one in find_facts_by_terms(guard_input, text) if _is_candidate(one, passage, trace)]
    ended = [fact.id for fact in facts if fact.status == "dead"]
    if all(fact.status == "live" for fact in facts):
        return ShownPassage(passage, text)
    is_reply = passage.role == "assistant" and passage.kind == "message" and passage.stream is not None
    statements = finder.find_statements(
        text,
        facts,
        sources=[name for name in trace.sources if name in ended],
        echoes={name: "" for name in ended if name in trace.known} if is_reply else {},
        offers=[name for name in ended if name not in trace.known] if is_reply else (),
        data=passage.role == "tool",
    )
    statements = tuple(
        one if one.action == "withhold" or not past.issuperset(one.ids) else one._replace(action="annotate")
        for one in statements
    )
    shown = finder.edit_text(text, statements, guard_input.policy)
    redacted = (name for one in statements if one.action != "withhold" for name in one.ids)
    return ShownPassage(passage, shown, tuple(dict.fromkeys(redacted)))


def _is_candidate(fact: GuardFact, passage: RecalledPassage, trace: PassageTrace) -> bool:
    """Whether the guard looks for a fact: a live one protects its value."""
    if fact.status == "withheld":
        return passage.role != "user"
    return fact.status == "live" or fact.id not in trace.ended
