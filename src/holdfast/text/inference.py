"""Defaults for the properties of a fact, read from its source and its text. The caller can set each of them instead.

Law: text only restricts. No wording gives a fact more than its source allows.
"""

from __future__ import annotations

import re

from holdfast.model.content import Json
from holdfast.model.facts.fact import FactScope, FactSource, MemoryType
from holdfast.model.policy import Policy
from holdfast.text.values import value_text

_READ_CHARS = 4_096
"""Only the beginning of a text is read."""
_ORGANIZATION = re.compile(
    r"(^|[\W_])(policy|policies|system|document|handbook|manual|guideline|regulation|contract|crm|erp|hr|finance)($|[\W_])"
)
_EXPERIENCE = re.compile(
    r"(^|[\W_])(observation|pattern|heuristic|strategy|lesson|learned|learnt|experience)s?($|[\W_])"
)
_HYPOTHETICAL = re.compile(
    r"\s*(\W{0,3}(hypothetical(ly)?|what if|suppose|supposing|let'?s say|assume|assuming|imagine|in theory)\b)"
)
_DRAFT = re.compile(r"\s*(\W{0,3}(draft|tentative(ly)?|rough (draft|estimate|idea)|work in progress|wip)\b)")
_DRAFT_LABEL = re.compile(r"\s{0,9}[\[(]\s?(?:draft|tentative|work in progress|wip)\b[^\])\n]{0,60}[\])]")
_INVALID = re.compile(
    r"\s{0,9}[\[(]\s?(?:invalid(?:ated)?|superseded|obsolete|outdated|retracted|"
    r"no longer (?:valid|true|current|in (?:force|effect)))\s?(?:[:;,.–—-][^\])\n]{0,200})?[\])]",
    re.IGNORECASE,
)
"""A label in brackets, with an optional reason."""
_OBLIGATION = re.compile(
    r"\b(must( not)?|shall( not)?|may not|cannot exceed|can't exceed|not (allowed|permitted)"
    r"|no (more|less|fewer|later) than|at (most|least)|max(imum)?|min(imum)?|cap(ped)? at|limit(ed)? (of|to|is)"
    r"|never|only if|required|mandatory|prohibited|forbidden)\b"
)
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("deadline", re.compile(r"\b(deadlines?|due (by|on|date)|due\b|no later than|expires? on)\b")),
    ("budget", re.compile(r"\b(budgets?|spend(ing)?|discounts?|costs?|prices?)\b|[$€£¥]\s?\d")),
    ("capacity", re.compile(r"\b(capacity|headcount|seats?|people|persons|guests|attendees|users|hours|units)\b")),
)


def infer_memory_type(source: FactSource) -> MemoryType:
    """Infer whether a fact belongs to the organisation, is an experience of the agent, or comes from a user."""
    name = source.name.lower()
    if source.type in ("policy", "system"):
        return "organizational"
    if _EXPERIENCE.search(name):
        return "capability"
    return "organizational" if _ORGANIZATION.search(name) else "user"


def infer_scope(value: Json) -> FactScope:
    """Infer a hypothetical or draft scope from the first words of a text. A draft contract is not a draft fact."""
    if not isinstance(value, str):
        return "global"
    text = value[:_READ_CHARS].lower()
    if _HYPOTHETICAL.match(text):
        return "hypothetical"
    is_draft = _DRAFT_LABEL.match(text) is not None or (_DRAFT.match(text) is not None and ":" in text[:64])
    return "draft" if is_draft else "global"


def is_labelled_invalid(value: Json) -> bool:
    """Whether a text begins with a label such as `[OBSOLETE]`."""
    return isinstance(value, str) and _INVALID.match(value[:_READ_CHARS]) is not None


def infer_constraint(key: str, value: Json, source: FactSource) -> str | None:
    """Infer the type of a constraint; None for a fact that is no constraint."""
    words = key.lower().replace("_", " ")
    text = f"{words} {value_text(value)[:_READ_CHARS].lower()}"
    if (
        source.type != "policy"
        and not _OBLIGATION.search(text)
        and not re.search(r"\b(deadline|constraint|policy)\b", words)
    ):
        return None
    return next((kind for kind, pattern in _KINDS if pattern.search(text)), "policy")


def is_time_sensitive(policy: Policy, key: str) -> bool:
    return not {*re.split(r"[\W_]+", key.lower())}.isdisjoint(policy.time_sensitive)
