"""Manifests in words: what is in a pack and why, and what changed from one pack to another.

Laws of a comparison: every candidate of either pack is listed once, as changed or as the same. The same manifests and the
same evidence give the same words.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.model.facts.fact import Fact, fact_seq
from holdfast.model.names import LedgerId
from holdfast.model.packs.pack import PREFIX_SECTIONS, SECTIONS, Fate, Manifest, ManifestEntry, PackChange, Section

TITLES: dict[Section, str] = {section: section for section in SECTIONS} | {
    "working_set": "working set",
    "query": "question",
}
_BAR_WIDTH = 40
_FATE_SIGNS: dict[Fate, str] = {"included": "+", "reduced": "~", "omitted": "-", "missing": "!", "withheld": "x"}
SHOWN_FATES = ("included", "reduced")
_EntryKey: TypeAlias = tuple[str, str, str]
ChangeKind: TypeAlias = Literal["added", "gone", "changed", "in", "out"]


# One manifest


def explain_manifest(manifest: Manifest) -> str:
    tokens, request = manifest.tokens, manifest.request
    used = f"{tokens.used:,} of {tokens.budget:,} tokens used, {tokens.remaining:,} left"
    lines = [f"{used}; level: {tokens.level}; profile: {request.profile.name}; guard: {request.guard}."]
    for section in SECTIONS:
        share = tokens.breakdown.get(section, 0)
        entries = [entry for entry in manifest.entries if entry.section == section]
        if share or entries:
            lines.append(f"\n{TITLES[section]}: {share:,} tokens {draw_bar(share, tokens.budget)}".rstrip())
            lines += (f"  {_FATE_SIGNS[entry.fate]} {describe_entry(entry)}" for entry in entries)
    if manifest.exposed:
        keys = ", ".join(sorted({exposure.key for exposure in manifest.exposed}))
        lines.append(f"\nOutdated values still shown, until the next boundary: {keys}.")
    return "\n".join(lines)


def draw_bar(share: int, budget: int, width: int = _BAR_WIDTH) -> str:
    filled = min(width, -(-share * width // max(1, budget))) if share else 0
    return "█" * filled


def describe_entry(entry: ManifestEntry) -> str:
    origin = ", ".join(filter(None, (entry.source, entry.authority)))
    size = f", {entry.tokens:,} tokens" if entry.tokens else ""
    fate = "" if entry.fate == "included" else f"{entry.fate}: "
    return f"{entry.id}{f' ({origin})' if origin else ''}{size}: {fate}{entry.reason}"


# Two manifests


class HistoryChange(NamedTuple):
    """An event between two packs that changed how the history is shown."""

    seq: int
    kind: Literal["fold", "cut", "guard", "reset", "erasure", "withdrawal", "restoration"]
    first: int
    last: int
    messages: int = 0
    """How many were folded."""


class DiffEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the log says about the time between two packs."""

    facts: dict[tuple[LedgerId, str], Fact] = {}
    """As the reader may see them now."""
    events: tuple[HistoryChange, ...] = ()
    """The newest first."""
    messages: tuple[int, ...] = ()
    """The seqs of the messages since the first pack, in order."""


class Comparison(NamedTuple):
    changes: tuple[PackChange, ...]
    same: int
    prefix_kept: bool


def compare_manifests(first: Manifest, second: Manifest, evidence: DiffEvidence) -> Comparison:
    """The change of each candidate: the prefix, the history, then the tail."""
    reasons = _ChangeReasons(first, second, evidence)
    before, after = _entries_by_key(first), _entries_by_key(second)
    changes: list[PackChange] = []
    same = 0
    for key in dict.fromkeys([*before, *after]):
        change = _compare_entries(before.get(key), after.get(key), reasons.explain)
        same += change is None
        changes += [] if change is None else [change]
    history, unchanged = _compare_history(first, second, reasons)
    prefix = [change for change in changes if change.entry.section in PREFIX_SECTIONS]
    tail = [change for change in changes if change.entry.section not in PREFIX_SECTIONS]
    extends = _has_same_prefix(first, second) and _is_only_longer(first, history)
    return Comparison((*prefix, *history, *tail), same + unchanged, extends)


def find_changed_facts(first: Manifest, second: Manifest) -> list[tuple[LedgerId, str]]:
    """The facts whose state explains a change."""
    before, after = _entries_by_key(first), _entries_by_key(second)
    facts: dict[tuple[LedgerId, str], None] = {}
    for key in dict.fromkeys([*before, *after]):
        one, other = before.get(key), after.get(key)
        if _compare_entries(one, other, lambda *_: "") is None:
            continue
        for manifest, entry in ((first, one), (second, other)):
            fact = None if entry is None or entry.section != "facts" else fact_of_entry(manifest, entry)
            if fact is not None:
                facts[fact] = None
    return list(facts)


def fact_of_entry(manifest: Manifest, entry: ManifestEntry) -> tuple[LedgerId, str] | None:
    """The fact of an entry, and its ledger."""
    fact, _, _ = entry.id.partition("@")
    ledgers = [ledger for ledger, _ in manifest.ledgers]
    if len(ledgers) == 1:
        return ledgers[0], fact
    for ledger in ledgers:
        if f", {ledger}, " in entry.source:
            return ledger, fact
    return None


def _entries_by_key(manifest: Manifest) -> dict[_EntryKey, ManifestEntry]:
    """All entries but the history, which is compared message by message."""
    entries: dict[_EntryKey, ManifestEntry] = {}
    for entry in manifest.entries:
        if entry.section == "history":
            continue
        fact = fact_of_entry(manifest, entry) if entry.section == "facts" else None
        key = (entry.section, entry.id, "") if fact is None else (entry.section, fact[1], str(fact[0]))
        entries[key] = entry
    return entries


def _compare_entries(
    before: ManifestEntry | None,
    after: ManifestEntry | None,
    explain: Callable[[ManifestEntry | None, ManifestEntry | None], str],
) -> PackChange | None:
    """None if nothing changed."""
    kind = kind_of_change(before, after)
    if kind is None:
        return None
    entry = after or before
    assert entry is not None, "a change has an entry before or after it"
    return PackChange(entry=entry, before=before if after is not None else None, what=kind, why=explain(before, after))


def kind_of_change(before: ManifestEntry | None, after: ManifestEntry | None) -> ChangeKind | None:
    if before is None:
        return "added"
    if after is None:
        return "gone"
    was_shown, is_shown = before.fate in SHOWN_FATES, after.fate in SHOWN_FATES
    if was_shown != is_shown:
        return "in" if is_shown else "out"
    return "changed" if before.fate != after.fate or before.digest != after.digest else None


class _ChangeReasons:
    """The reason of each change, in words, from the evidence of the log."""

    def __init__(self, first: Manifest, second: Manifest, evidence: DiffEvidence) -> None:
        self.first, self.second = first, second
        self.events, self.messages = evidence.events, evidence.messages
        self._facts = evidence.facts
        self._versions = (dict(first.ledgers), dict(second.ledgers))
        self._has_new_query = first.request.query != second.request.query

    def explain(self, before: ManifestEntry | None, after: ManifestEntry | None) -> str:
        entry = after or before
        assert entry is not None, "a change has an entry before or after it"
        if entry.section in PREFIX_SECTIONS:
            return _prefix_reason(before, after)
        if entry.section == "facts":
            return self._fact_reason(before, after)
        if before is None:
            return f"is recalled now: {entry.reason}" if entry.section == "recall" else "is new"
        if after is None:
            return "is not recalled any more" if entry.section == "recall" else "is no longer there"
        if after.fate not in SHOWN_FATES:
            return f"left out: {after.reason}"
        if before.fate not in SHOWN_FATES:
            return f"included: {after.reason}"
        return self._changed_reason(before, after)

    def _changed_reason(self, before: ManifestEntry, after: ManifestEntry) -> str:
        if before.fate != after.fate:
            return "is shortened to fit" if after.fate == "reduced" else "is shown whole again"
        return "is another question" if after.section == "query" else "has changed"

    def _fact_reason(self, before: ManifestEntry | None, after: ManifestEntry | None) -> str:
        name = self._find_fact(before, after)
        fact = None if name is None else self._facts.get(name)
        if name is None or fact is None:
            return "is new" if before is None else "was erased, or is withheld from this reader"
        if after is None:
            return self._ending_reason(name[0], fact) or self._loss_reason(fact)
        if before is None:
            return self._arrival_reason(name[0], fact)
        if after.fate not in SHOWN_FATES:
            return self._ending_reason(name[0], fact) or f"does not fit any more: {after.reason}"
        if before.fate not in SHOWN_FATES:
            return f"included: {after.reason}"
        if fact.review and before.fate == after.fate:
            return f"{fact.key} is under review: {fact.review_reason}"
        return self._changed_reason(before, after)

    def _find_fact(self, before: ManifestEntry | None, after: ManifestEntry | None) -> tuple[LedgerId, str] | None:
        if after is not None:
            return fact_of_entry(self.second, after)
        return None if before is None else fact_of_entry(self.first, before)

    def _ending_reason(self, ledger: LedgerId, fact: Fact) -> str:
        """How the fact ended before the second pack; empty if it had not ended."""
        now = self.second.request.as_of_us
        successor = fact.superseded_by
        if successor is not None and fact_seq(successor) <= self._versions[1].get(ledger, 0):
            return f"{fact.key} was superseded by {successor} ({fact.rule})"
        if fact.has_expired(now) and fact.status in ("live", "expired"):
            return f"{fact.key} expired"
        if fact.status in ("live", "superseded") and successor is not None:
            return ""
        if fact.status == "live" or fact.ended_us is None or fact.ended_us > now:
            return ""
        return f"{fact.key} was {fact.status}{f': {fact.why}' if fact.why else ''}"

    def _loss_reason(self, fact: Fact) -> str:
        if fact.scope != "global" and (fact.scope, fact.scope_id) not in self.second.request.within:
            return f"{fact.key} belongs to the {fact.scope} {fact.scope_id!r}, which is not in the request"
        if self._has_new_query:
            return f"{fact.key} does not fit the new question"
        return f"{fact.key} is no longer a candidate"

    def _arrival_reason(self, ledger: LedgerId, fact: Fact) -> str:
        version = self._versions[0].get(ledger, 0)
        if fact_seq(fact.id) > version:
            replaced = [name for name in fact.supersedes if fact_seq(name) <= version]
            return f"{fact.key} is new" + (f", in place of {', '.join(replaced)}" if replaced else "")
        if fact.scope != "global" and (fact.scope, fact.scope_id) not in self.first.request.within:
            return f"{fact.key} belongs to the {fact.scope} {fact.scope_id!r}, which was not in the first request"
        return f"{fact.key} fits the new question" if self._has_new_query else f"{fact.key} is a candidate again"


def _prefix_reason(before: ManifestEntry | None, after: ManifestEntry | None) -> str:
    if before is None:
        return "is new in the prefix"
    return "is no longer in the prefix" if after is None else "has other words"


# The history of two manifests


class Stretch(NamedTuple):
    first: int
    last: int
    entry: ManifestEntry


def split_stretches(manifest: Manifest) -> list[Stretch]:
    """The stretches of a history without overlaps: a message inside a summary that stays in view is no part of it."""
    entries = (entry for entry in manifest.entries if entry.section == "history")
    stretches = [Stretch(entry.at, max(entry.at, entry.to), entry) for entry in entries]
    stretches.sort(key=lambda stretch: (stretch.first, -stretch.last))
    apart: list[Stretch] = []
    for stretch in stretches:
        around = apart.pop() if apart and stretch.last <= apart[-1].last else None
        if around is None:
            apart.append(stretch)
            continue
        ends = (around.first, stretch.first - 1), (stretch.last + 1, around.last)
        before, after = (Stretch(first, last, around.entry) for first, last in ends)
        apart += (part for part in (before, stretch, after) if part.first <= part.last)
    return apart


def _compare_history(first: Manifest, second: Manifest, reasons: _ChangeReasons) -> tuple[list[PackChange], int]:
    """The change of each stretch of messages, and how many are the same."""
    changes: list[PackChange] = []
    same = 0
    for start, end, before, after in pair_stretches(split_stretches(first), split_stretches(second)):
        kind = kind_of_change(before, after) or ("changed" if _is_erased(start, end, reasons) else None)
        if kind is None:
            same += 1
            continue
        new = [seq for seq in reasons.messages if start <= seq <= end] if kind == "added" else []
        if new:
            start, end = new[0], new[-1]
        why = _new_messages_reason(start, end, reasons) if new else _stretch_reason(start, end, before, after, reasons)
        entry = after or before
        if why and entry is not None:  # a stretch of other events is no message of this conversation
            old = None if before is None or after is None else _cut_entry(before, start, end)
            changes.append(PackChange(entry=_cut_entry(entry, start, end), before=old, what=kind, why=why))
    return changes, same


def _new_messages_reason(start: int, end: int, reasons: _ChangeReasons) -> str:
    """Messages that were recorded and folded between the two packs were never in the first one."""
    for event in reasons.events:
        if event.kind == "fold" and event.first <= start and end <= event.last:
            return f"is new, in the summary of boundary {event.seq}"
    return "is new"


def _is_erased(start: int, end: int, reasons: _ChangeReasons) -> bool:
    return any(event.kind == "erasure" and start <= event.last and event.first <= end for event in reasons.events)


def pair_stretches(
    before: Sequence[Stretch], after: Sequence[Stretch]
) -> Iterable[tuple[int, int, ManifestEntry | None, ManifestEntry | None]]:
    """Both cut where either is, so that each piece belongs to one entry of each, or of one of them."""
    cuts = sorted({end for stretch in (*before, *after) for end in (stretch.first, stretch.last + 1)})
    at = [0, 0]
    for start, stop in itertools.pairwise(cuts):
        entries: list[ManifestEntry | None] = []
        for side, stretches in enumerate((before, after)):
            while at[side] < len(stretches) and stretches[at[side]].last < start:
                at[side] += 1
            stretch = stretches[at[side]] if at[side] < len(stretches) else None
            entries.append(stretch.entry if stretch is not None and stretch.first <= start else None)
        if entries[0] is not None or entries[1] is not None:
            yield start, stop - 1, entries[0], entries[1]


def _cut_entry(entry: ManifestEntry, start: int, end: int) -> ManifestEntry:
    """The entry of a part of its messages; the tokens of a part are unknown."""
    if (entry.at, max(entry.at, entry.to)) == (start, end):
        return entry
    name = f"m{start}" if start == end else f"m{start}-m{end}"
    return msgspec.structs.replace(entry, id=name, at=start, to=end, tokens=0, source="")


def _stretch_reason(
    start: int, end: int, before: ManifestEntry | None, after: ManifestEntry | None, reasons: _ChangeReasons
) -> str:
    """Empty if no event explains the change: then there is no message in that stretch."""
    if start > reasons.first.version:
        return ""
    event = find_explaining_event(start, end, after, reasons.events)
    if event is not None:
        return _describe_event(event, after)
    if after is None or before is None:
        return ""
    if after.fate in SHOWN_FATES and before.fate in SHOWN_FATES:
        return f"is shown differently: {after.reason}"
    return after.reason


def find_explaining_event(
    start: int, end: int, after: ManifestEntry | None, events: Sequence[HistoryChange]
) -> HistoryChange | None:
    """The newest of these events, newest first, that explains how a stretch is shown now; None if none does."""
    touching = (event for event in events if event.first <= end and start <= event.last)
    return next((event for event in touching if _describe_event(event, after)), None)


def _describe_event(event: HistoryChange, after: ManifestEntry | None) -> str:
    """How an event explains that a stretch is shown differently; empty if it does not."""
    seq = event.seq
    match event.kind:
        case "reset" if after is None:
            return f"the conversation was reset at event {seq}"
        case "erasure":
            return f"a part of it was erased at event {seq}"
        case "withdrawal" if after is None:
            return f"was withdrawn at event {seq}"
        case "restoration" if after is not None:
            return f"is in the conversation again since event {seq}"
        case "fold" if after is None or after.fate in SHOWN_FATES:
            count = event.messages
            return f"{count:,} message{' was' if count == 1 else 's were'} folded at boundary {seq}"
        case "guard" if after is not None and after.fate in SHOWN_FATES:
            return f"superseded values redacted at boundary {seq}"
        case "cut" if after is not None and after.fate in SHOWN_FATES:
            return f"is shown in part since boundary {seq}"
    return ""


# The prompt cache


def _has_same_prefix(first: Manifest, second: Manifest) -> bool:
    def prefix(manifest: Manifest) -> list[tuple[str, str, str]]:
        return [(one.section, one.id, one.digest) for one in manifest.entries if one.section in PREFIX_SECTIONS]

    return prefix(first) == prefix(second) and first.brief == second.brief and first.renderer == second.renderer


def _is_only_longer(first: Manifest, history: Sequence[PackChange]) -> bool:
    """Whether every change of the history comes after what the first pack showed of it."""
    shown = [stretch.last for stretch in split_stretches(first) if stretch.entry.fate in SHOWN_FATES]
    last = max(shown, default=0)
    return all(change.entry.at > last for change in history)
