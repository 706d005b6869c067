"""Facts as lines of a pack: each with what a reader needs to know before relying on it.

Law: a line shows the whole value of its fact; what is uncertain about it stands behind it, in words that tell a reader
without any other context what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from holdfast.context.assemble import Piece
from holdfast.core.infer import text_of
from holdfast.core.validity import read_validity
from holdfast.model.content import Json
from holdfast.model.detection import Proposal
from holdfast.model.facts import Fact
from holdfast.model.state import OpenProposal

_DAY_US = 86_400_000_000
_ASK = "ask before relying on it"


def constrains(fact: Fact) -> bool:
    return fact.is_constraint and not fact.claim


def fact_line(fact: Fact, now_us: int, note: str = "") -> str:
    """The line of a fact, with a note on what is uncertain about it."""
    key = fact.key if fact.scope in ("global", "session") else f"{fact.key} ({fact.scope} {fact.scope_id})"
    told = f"{key}: {one_line(fact.value)}{describe_validity(fact, now_us)}"
    if fact.claim:
        return f"- claim by {fact.authority}, not confirmed: {told}"
    if constrains(fact):
        return f"- CONSTRAINT ({_kind(fact)}) {told}{note}"
    return f"- {told}{note}"


def _kind(fact: Fact) -> str:
    """What kind of constraint it is, and who states it."""
    if fact.constraint_type in (None, fact.authority):
        return fact.authority
    return f"{fact.constraint_type}, stated by {fact.authority}"


def describe_dispute(fact: Fact, proposal: Proposal | None) -> str:
    """Who disagrees with a fact: those who took it back without the authority for it, and what the conversation may have
    changed; empty if nobody does."""
    notes: list[str] = []
    if fact.disputes:
        who = " and ".join(dict.fromkeys(each.authority for each in fact.disputes))
        notes.append(f" (stated by {fact.authority}; withdrawn by {who}, not confirmed: {_ASK})")
    if proposal is not None:
        notes.append(f" ({_doubt(proposal)}; {_ASK})")
    return "".join(notes)


def _doubt(proposal: Proposal) -> str:
    if proposal.change == "expire":
        return "may be out of date: its time seems to be over"
    what = "it may not hold" if proposal.change == "retract" else "it may have changed"
    if proposal.change == "supersede" and proposal.value is not None:
        what = f"it may now be {one_line(proposal.value)}"
    return f"disputed: the conversation says that {what}"


def describe_review(source: Fact | None, instead: Fact | None) -> str:
    """What a fact under review rests on, as far as the reader may know: the source that ended, and what holds now."""
    if source is None:
        return " (under review: something that it rests on has changed; check before relying on it)"
    if instead is None:
        return f" (under review: it rests on {source.key}, which does not hold; check before relying on it)"
    value = one_line(instead.value)
    return f" (under review: it rests on {source.key}, which is now {value}; check before relying on it)"


def beside_their_facts(facts: Iterable[Fact]) -> list[int]:
    """The places of these facts, in an order in which each claim follows the fact that it is made against."""
    order, claims = list[int](), dict[tuple[str, str, str], list[int]]()
    known = [*facts]
    held = {_slot(each) for each in known if not each.claim}
    for at, each in enumerate(known):
        if each.claim and _slot(each) in held:
            claims.setdefault(_slot(each), []).append(at)
    for at, each in enumerate(known):
        if not (each.claim and _slot(each) in held):
            order += [at, *claims.pop(_slot(each), ())]
    return order


def rank_line(fact: Fact, score: float, before: Piece | None) -> tuple[float, int]:
    """The score and the recency of a line: those of a claim are below the ones of the line before, which tells the fact
    that it is made against."""
    if not fact.claim or before is None:
        return score, fact.at_us
    return min(score, before.score), min(fact.at_us, before.recency - 1)


def identify_line(fact: Fact, waiting: OpenProposal | None) -> str:
    """What tells a line from what it was before. No digest of a value outlives it: it could be guessed."""
    disputes = " ".join(f"{each.authority} {each.at_us}" for each in fact.disputes)
    return " ".join((fact.id, fact.review, disputes, "" if waiting is None else waiting.id)).rstrip()


def _slot(fact: Fact) -> tuple[str, str, str]:
    return fact.key, fact.scope, fact.scope_id


def one_line(value: Json) -> str:
    return " ".join(text_of(value).split())


def describe_validity(fact: Fact, now_us: int) -> str:
    """For how long a fact is valid, unless its value names the day itself; empty if it just holds."""
    stated = read_validity(fact.value, fact.at_us)
    named = stated is not None and stated.names_the_day
    parts: list[str] = []
    if fact.valid_from_us > now_us:
        parts.append(f"not valid before {_day(fact.valid_from_us)}")
    if fact.expires_us is not None and not (named and stated is not None and stated.until_us == fact.expires_us):
        parts.append(_end(fact.expires_us))
    return f" ({', '.join(parts)})" if parts else ""


def _end(expires_us: int) -> str:
    if expires_us % _DAY_US == 0:
        return f"valid through {_day(expires_us - 1)}"
    return f"valid until {_day(expires_us, '%Y-%m-%d %H:%M UTC')}"


def _day(time_us: int, form: str = "%Y-%m-%d") -> str:
    try:
        return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{time_us // 1_000_000:,} seconds after 1970"  # no calendar goes so far
