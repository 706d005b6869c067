"""What a fact is, as far as its source and its text tell. A caller who knows better says so.

Law: text narrows and never widens: no words make a fact more than its source lets it be.
"""

from __future__ import annotations

import re

from holdfast import codec
from holdfast.model.content import Json
from holdfast.model.facts import FactScope, FactSource, MemoryType
from holdfast.model.policy import Policy

_READ_CHARS = 4_096
"""What is read of a text: what it is shows at its beginning."""

_ORGANIZATION = re.compile(
    r"(^|[\W_])(policy|policies|system|document|handbook|manual|guideline|regulation|contract|crm|erp|hr|finance)($|[\W_])"
)
_LEARNED = re.compile(r"(^|[\W_])(observation|pattern|heuristic|strategy|lesson|learned|learnt|experience)s?($|[\W_])")
_SUPPOSED = re.compile(
    r"\s*(\W{0,3}(hypothetical(ly)?|what if|suppose|supposing|let'?s say|assume|assuming|imagine|in theory)\b)"
)
_DRAFT = re.compile(r"\s*(\W{0,3}(draft|tentative(ly)?|rough (draft|estimate|idea)|work in progress|wip)\b)")
_DRAFT_LABEL = re.compile(r"\s{0,9}[\[(]\s?(?:draft|tentative|work in progress|wip)\b[^\])\n]{0,60}[\])]")
_INVALID = re.compile(
    r"\s{0,9}[\[(]\s?(?:invalid(?:ated)?|superseded|obsolete|outdated|retracted|"
    r"no longer (?:valid|true|current|in (?:force|effect)))\s?(?:[:;,.–—-][^\])\n]{0,200})?[\])]",
    re.IGNORECASE,
)
"""A label of its own: what may follow the word is a reason."""
_BINDS = re.compile(
    r"\b(must( not)?|shall( not)?|may not|cannot exceed|can't exceed|not (allowed|permitted)"
    r"|no (more|less|fewer|later) than|at (most|least)|max(imum)?|min(imum)?|cap(ped)? at|limit(ed)? (of|to|is)"
    r"|never|only if|required|mandatory|prohibited|forbidden)\b"
)
_KINDS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("deadline", re.compile(r"\b(deadlines?|due (by|on|date)|due\b|no later than|expires? on)\b")),
    ("budget", re.compile(r"\b(budgets?|spend(ing)?|discounts?|costs?|prices?)\b|[$€£¥]\s?\d")),
    ("capacity", re.compile(r"\b(capacity|headcount|seats?|people|persons|guests|attendees|users|hours|units)\b")),
)


def text_of(value: Json) -> str:
    """A value as text."""
    return value if isinstance(value, str) else codec.encode(value).decode()


def memory_type(source: FactSource) -> MemoryType:
    """Knowledge of the organisation, something learned, or what a user said."""
    name = source.name.lower()
    if source.type in ("policy", "system"):
        return "organizational"
    if _LEARNED.search(name):
        return "capability"
    return "organizational" if _ORGANIZATION.search(name) else "user"


def scope(value: Json) -> FactScope:
    """Only what a text says of itself first: a draft contract is not a draft of a fact."""
    if not isinstance(value, str):
        return "global"
    text = value[:_READ_CHARS].lower()
    if _SUPPOSED.match(text):
        return "hypothetical"
    labelled = _DRAFT_LABEL.match(text) is not None or (_DRAFT.match(text) is not None and ":" in text[:64])
    return "draft" if labelled else "global"


def declares_itself_invalid(value: Json) -> bool:
    """Whether a text begins with a label that says that the rest is not valid: `[OBSOLETE] …`."""
    return isinstance(value, str) and _INVALID.match(value[:_READ_CHARS]) is not None


def constraint(key: str, value: Json, source: FactSource) -> str | None:
    """The kind of constraint that it is; None for none."""
    words = key.lower().replace("_", " ")
    text = f"{words} {text_of(value)[:_READ_CHARS].lower()}"
    if (
        source.type != "policy"
        and not _BINDS.search(text)
        and not re.search(r"\b(deadline|constraint|policy)\b", words)
    ):
        return None
    return next((kind for kind, pattern in _KINDS if pattern.search(text)), "policy")


def time_sensitive(policy: Policy, key: str) -> bool:
    return not {*re.split(r"[\W_]+", key.lower())}.isdisjoint(policy.time_sensitive)
