"""What changed from one pack to another, and why.

Laws: every candidate of either pack is told of once, as changed or among those that are as they were; the same manifests
and the same grounds give the same words.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.model.facts import Fact, fact_seq
from holdfast.model.names import LedgerId
from holdfast.model.pack import PREFIX, Change, Entry, Manifest

_Key: TypeAlias = tuple[str, str, str]
_SHOWN = ("included", "reduced")


class Happened(NamedTuple):
    """An event between two packs that changed how the history is shown."""

    seq: int
    kind: Literal["fold", "cut", "guard", "reset", "erasure"]
    first: int
    last: int
    messages: int = 0
    """How many were folded."""


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """What the log knows of what lies between two packs."""

    facts: dict[tuple[LedgerId, str], Fact] = {}
    """As the reader may see them now."""
    happened: tuple[Happened, ...] = ()
    """The newest first."""
    said: tuple[int, ...] = ()
    """The messages since the first pack, in order."""


class Compared(NamedTuple):
    changes: tuple[Change, ...]
    same: int
    prefix_kept: bool


def compared(first: Manifest, second: Manifest, grounds: Grounds) -> Compared:
    """What became of each candidate: what stands first, the history, then the tail."""
    told = _Told(first, second, grounds)
    before, after = _by_key(first), _by_key(second)
    changes: list[Change] = []
    same = 0
    for key in dict.fromkeys([*before, *after]):
        change = _changed(before.get(key), after.get(key), told.why)
        same += change is None
        changes += [] if change is None else [change]
    history, kept = _history(first, second, told)
    order = [each for each in changes if each.entry.section in PREFIX]
    order += history
    order += [each for each in changes if each.entry.section not in PREFIX]
    extends = _extends(first, second) and _only_longer(first, history)
    return Compared(tuple(order), same + kept, extends)


def facts_to_ask_for(first: Manifest, second: Manifest) -> list[tuple[LedgerId, str]]:
    """The facts of which the words of a difference have to do with what became of them."""
    before, after = _by_key(first), _by_key(second)
    found: dict[tuple[LedgerId, str], None] = {}
    for key in dict.fromkeys([*before, *after]):
        one, other = before.get(key), after.get(key)
        if _changed(one, other, lambda *_: "") is None:
            continue
        for manifest, entry in ((first, one), (second, other)):
            named = None if entry is None or entry.section != "facts" else fact_of(manifest, entry)
            if named is not None:
                found[named] = None
    return list(found)


def fact_of(manifest: Manifest, entry: Entry) -> tuple[LedgerId, str] | None:
    """The fact that an entry tells of, and its ledger."""
    fact, _, _ = entry.id.partition("@")
    ledgers = [each for each, _ in manifest.ledgers]
    if len(ledgers) == 1:
        return ledgers[0], fact
    for ledger in ledgers:
        if f", {ledger}, " in entry.source:
            return ledger, fact
    return None


def _by_key(manifest: Manifest) -> dict[_Key, Entry]:
    """All but the history, which is compared message by message."""
    found: dict[_Key, Entry] = {}
    for entry in manifest.entries:
        if entry.section == "history":
            continue
        named = fact_of(manifest, entry) if entry.section == "facts" else None
        key = (entry.section, entry.id, "") if named is None else (entry.section, named[1], str(named[0]))
        found[key] = entry
    return found


def _changed(
    before: Entry | None, after: Entry | None, why: Callable[[Entry | None, Entry | None], str]
) -> Change | None:
    """None for what is as it was."""
    what = _what(before, after)
    if what is None:
        return None
    entry = after or before
    assert entry is not None, "whatever changed was there, or is"
    return Change(entry=entry, before=before if after is not None else None, what=what, why=why(before, after))


def _what(before: Entry | None, after: Entry | None) -> Literal["added", "gone", "changed", "in", "out"] | None:
    if before is None:
        return "added"
    if after is None:
        return "gone"
    was, is_now = before.fate in _SHOWN, after.fate in _SHOWN
    if was != is_now:
        return "in" if is_now else "out"
    if before.fate != after.fate or before.digest != after.digest:
        return "changed"
    return None


class _Told:
    """Why: in words, from what the log knows."""

    def __init__(self, first: Manifest, second: Manifest, grounds: Grounds) -> None:
        self.first, self.second = first, second
        self._facts = grounds.facts
        self.happened = grounds.happened
        self.said = grounds.said
        self._versions = (dict(first.ledgers), dict(second.ledgers))
        self._another = first.request.query != second.request.query

    def why(self, before: Entry | None, after: Entry | None) -> str:
        entry = after or before
        assert entry is not None, "whatever changed was there, or is"
        if entry.section in PREFIX:
            return _stands(before, after)
        if entry.section == "facts":
            return self._fact(before, after)
        if before is None:
            return "is new"
        if after is None:
            return "is not there any more"
        if after.fate not in _SHOWN:
            return f"went out: {after.reason}"
        if before.fate not in _SHOWN:
            return f"came in: {after.reason}"
        return self._otherwise(before, after)

    def _otherwise(self, before: Entry, after: Entry) -> str:
        if before.fate != after.fate:
            return "is shortened to fit" if after.fate == "reduced" else "is shown whole again"
        return "asks something else" if after.section == "query" else "is not what it was"

    def _fact(self, before: Entry | None, after: Entry | None) -> str:
        named = self._named(before, after)
        fact = None if named is None else self._facts.get(named)
        if named is None or fact is None:
            return "is new" if before is None else "was erased, or is not for this reader any more"
        if after is None:
            return self._died(named[0], fact) or self._lost(fact)
        if before is None:
            return self._came(named[0], fact)
        if after.fate not in _SHOWN:
            return self._died(named[0], fact) or f"did not fit any more: {after.reason}"
        if before.fate not in _SHOWN:
            return f"came in: {after.reason}"
        if fact.review and before.fate == after.fate:
            return f"{fact.key} is under review since {fact.review} died"
        return self._otherwise(before, after)

    def _named(self, before: Entry | None, after: Entry | None) -> tuple[LedgerId, str] | None:
        if after is not None:
            return fact_of(self.second, after)
        return None if before is None else fact_of(self.first, before)

    def _died(self, ledger: LedgerId, fact: Fact) -> str:
        """How it ended before the second pack; empty if it had not."""
        now = self.second.request.as_of_us
        by = fact.superseded_by
        if by is not None and fact_seq(by) <= self._versions[1].get(ledger, 0):
            return f"{fact.key} was superseded by {by} ({fact.rule})"
        if fact.ran_out(now) and fact.status in ("live", "expired"):
            return f"{fact.key} expired"
        if fact.status in ("live", "superseded") and by is not None:
            return ""
        if fact.status == "live" or fact.ended_us is None or fact.ended_us > now:
            return ""
        return f"{fact.key} was {fact.status}{f': {fact.why}' if fact.why else ''}"

    def _lost(self, fact: Fact) -> str:
        if fact.scope != "global" and (fact.scope, fact.scope_id) not in self.second.request.within:
            return f"{fact.key} holds in the {fact.scope} {fact.scope_id!r}, which was not asked for"
        if self._another:
            return f"{fact.key} has nothing to do with the other question"
        return f"{fact.key} is no candidate any more"

    def _came(self, ledger: LedgerId, fact: Fact) -> str:
        known = self._versions[0].get(ledger, 0)
        if fact_seq(fact.id) > known:
            replaced = [each for each in fact.supersedes if fact_seq(each) <= known]
            return f"{fact.key} is new" + (f", in place of {', '.join(replaced)}" if replaced else "")
        if fact.scope != "global" and (fact.scope, fact.scope_id) not in self.first.request.within:
            return f"{fact.key} holds in the {fact.scope} {fact.scope_id!r}, which was not asked for before"
        return f"{fact.key} has to do with the question" if self._another else f"{fact.key} is a candidate again"


def _stands(before: Entry | None, after: Entry | None) -> str:
    if before is None:
        return "stands first from now on"
    return "does not stand first any more" if after is None else "has other words"


# History


class _Stretch(NamedTuple):
    first: int
    last: int
    entry: Entry


def _stretches(manifest: Manifest) -> list[_Stretch]:
    """The stretches of a history, none over another: what a summary goes around is no part of it."""
    found = [_Stretch(each.at, max(each.at, each.to), each) for each in manifest.entries if each.section == "history"]
    found.sort(key=lambda each: (each.first, -each.last))
    apart: list[_Stretch] = []
    for each in found:
        around = apart.pop() if apart and each.last <= apart[-1].last else None
        if around is None:
            apart.append(each)
            continue
        ends = (around.first, each.first - 1), (each.last + 1, around.last)
        before, after = (_Stretch(first, last, around.entry) for first, last in ends)
        apart += (part for part in (before, each, after) if part.first <= part.last)
    return apart


def _history(first: Manifest, second: Manifest, told: _Told) -> tuple[list[Change], int]:
    """What became of each stretch of messages, and how many are as they were."""
    changes: list[Change] = []
    same = 0
    for start, end, before, after in _pairs(_stretches(first), _stretches(second)):
        what = _what(before, after) or ("changed" if _erased(start, end, told) else None)
        if what is None:
            same += 1
            continue
        new = [each for each in told.said if start <= each <= end] if what == "added" else []
        if new:
            start, end = new[0], new[-1]
        why = _new(start, end, told) if new else _became(start, end, before, after, told)
        entry = after or before
        if why and entry is not None:  # nothing is said of events that are no messages of this conversation
            old = None if before is None or after is None else _cut(before, start, end)
            changes.append(Change(entry=_cut(entry, start, end), before=old, what=what, why=why))
    return changes, same


def _new(start: int, end: int, told: _Told) -> str:
    """What was said and folded between the two packs never stood in the first."""
    for each in told.happened:
        if each.kind == "fold" and each.first <= start and end <= each.last:
            return f"is new, in the summary of boundary {each.seq}"
    return "is new"


def _erased(start: int, end: int, told: _Told) -> bool:
    return any(each.kind == "erasure" and start <= each.last and each.first <= end for each in told.happened)


def _pairs(
    before: Sequence[_Stretch], after: Sequence[_Stretch]
) -> Iterable[tuple[int, int, Entry | None, Entry | None]]:
    """Both cut where either is, so that each piece belongs to one entry of each, or of one of them."""
    cuts = sorted({end for each in (*before, *after) for end in (each.first, each.last + 1)})
    at = [0, 0]
    for start, stop in itertools.pairwise(cuts):
        found: list[Entry | None] = []
        for side, stretches in enumerate((before, after)):
            while at[side] < len(stretches) and stretches[at[side]].last < start:
                at[side] += 1
            here = stretches[at[side]] if at[side] < len(stretches) else None
            found.append(here.entry if here is not None and here.first <= start else None)
        if found[0] is not None or found[1] is not None:
            yield start, stop - 1, found[0], found[1]


def _cut(entry: Entry, start: int, end: int) -> Entry:
    """What an entry tells of a part of its messages: how many tokens those take, it does not say."""
    if (entry.at, max(entry.at, entry.to)) == (start, end):
        return entry
    name = f"m{start}" if start == end else f"m{start}-m{end}"
    return msgspec.structs.replace(entry, id=name, at=start, to=end, tokens=0, source="")


def _became(start: int, end: int, before: Entry | None, after: Entry | None, told: _Told) -> str:
    """Empty if nothing is known to have happened to it: then there is no message in that stretch."""
    if start > told.first.version:
        return ""
    for each in told.happened:
        if each.first <= end and start <= each.last:
            said = _said(each, after)
            if said:
                return said
    if after is None or before is None:
        return ""
    if after.fate in _SHOWN and before.fate in _SHOWN:
        return f"is shown otherwise: {after.reason}"
    return after.reason


def _said(happened: Happened, after: Entry | None) -> str:
    """What one event says of a stretch that is not shown as it was; empty if it says nothing of that."""
    seq = happened.seq
    match happened.kind:
        case "reset" if after is None:
            return f"the conversation began anew at event {seq}"
        case "erasure":
            return f"something of it was erased at event {seq}"
        case "fold" if after is None or after.fate in _SHOWN:
            count = happened.messages
            return f"{count:,} message{' was' if count == 1 else 's were'} folded at boundary {seq}"
        case "guard" if after is not None and after.fate in _SHOWN:
            return f"superseded values redacted at boundary {seq}"
        case "cut" if after is not None and after.fate in _SHOWN:
            return f"is shown in part since boundary {seq}"
    return ""


# What a prompt cache keeps


def _extends(first: Manifest, second: Manifest) -> bool:
    """Whether what stands first is the same."""

    def stands(manifest: Manifest) -> list[tuple[str, str, str]]:
        return [(each.section, each.id, each.digest) for each in manifest.entries if each.section in PREFIX]

    return stands(first) == stands(second) and first.brief == second.brief and first.renderer == second.renderer


def _only_longer(first: Manifest, history: Sequence[Change]) -> bool:
    """Whether all that changed of the history stands behind what was shown of it."""
    shown = [each.last for each in _stretches(first) if each.entry.fate in _SHOWN]
    last = max(shown, default=0)
    return all(each.entry.at > last for each in history)
