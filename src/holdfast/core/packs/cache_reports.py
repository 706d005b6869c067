"""What became of the prompt cache from one model call to the next, and what a call cost.

A provider's cache has the front of a prompt: tools, system texts and the history, up to the first difference. What follows
the history is made for each call, and is never expected in a cache.

Laws: the same calls give the same report. Tokens are counted as paid again only if the call before had them in a cache
that was still warm, this call shows them again, unchanged or in a message that the guard has edited, and the provider did
not read them from the cache: in the figures of the provider if there are any, else as an estimate, and then `why` says
so. The parts of a cost add up to its total.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from holdfast.core.packs.explanations import (
    SHOWN_FATES,
    Comparison,
    HistoryChange,
    find_explaining_event,
    kind_of_change,
    pair_stretches,
    split_stretches,
)
from holdfast.model.content import Usage
from holdfast.model.history.prices import Prices
from holdfast.model.packs.calls import Boundary, BoundaryKind, CacheCause, CacheReport, CallCost
from holdfast.model.packs.pack import PREFIX_SECTIONS, Manifest, ManifestEntry, PackChange, Section

_MILLION = 1_000_000
TOLERANCE_TOKENS = 256
"""Providers cache in blocks, and a pack is counted before the call: a smaller difference is no loss."""
TOLERANCE_SHARE = 10
"""Nor is a difference of less than one in so many."""
_FRONT_ORDER: tuple[Section, ...] = ("tools", *(section for section in PREFIX_SECTIONS if section != "tools"))
"""As providers place them: a change of the tools changes everything."""
_CAUSES: dict[BoundaryKind, CacheCause] = {
    "guard": "guard",
    "withdrawal": "withdrawal",
    "restoration": "withdrawal",
    "fold": "boundary",
    "excerpt": "boundary",
    "reset": "boundary",
    "erasure": "boundary",
    "summary": "boundary",
}


class CallFigures(NamedTuple):
    """What is known of a call, to compare it with another one."""

    id: str
    manifest: Manifest | None = None
    model: str = ""
    usage: Usage | None = None
    started_us: int = 0
    ended_us: int = 0
    prices: Prices | None = None


class FrontComparison(NamedTuple):
    """The front of a pack, compared with the front of the one before. Tokens are in the count of the packs."""

    kept: bool
    """It begins with all of the front before."""
    shared: int
    """The tokens that are the same, up to the first difference."""
    same: int
    """The tokens that are the same, before and behind it; with those of messages that only the guard has edited."""
    front: int
    """The tokens of the front before."""
    cause: CacheCause = "kept"
    at: str = ""
    why: str = ""


# The fronts of two packs


def compare_fronts(
    before: Manifest,
    after: Manifest,
    comparison: Comparison,
    events: Sequence[HistoryChange],
    new: Mapping[int, int] = MappingProxyType({}),
) -> FrontComparison:
    """Compare the fronts of two packs. `comparison` is that of the manifests, `events` are those between them that
    changed the history, newest first, and `new` has the tokens of the messages between them by their seqs."""
    shared, same, is_same = _compare_prefixes(before, after)
    last = max((each.last for each in split_stretches(before) if each.entry.fate in SHOWN_FATES), default=0)
    breaks = [each for each in comparison.changes if each.entry.section == "history" and each.entry.at <= last]
    first_break = min((each.entry.at for each in breaks), default=last + 1)
    for start, end, one, other in pair_stretches(split_stretches(before), split_stretches(after)):
        if one is None or other is None or one.fate not in SHOWN_FATES or other.fate not in SHOWN_FATES:
            continue
        tokens = _count_part(start, end, one, other, new)
        if kind_of_change(one, other) is None:
            same += tokens
            shared += tokens if is_same and end < first_break else 0
            continue
        event = find_explaining_event(start, end, other, events)
        if event is not None and event.kind == "guard":  # the same message, without a value
            same += min(tokens, one.tokens)
    front = sum(each.tokens for each in before.entries if _is_front(each))
    if comparison.prefix_kept:
        return FrontComparison(True, shared, same, front)
    cause, at, why = _find_cause(before, after, comparison, breaks, events)
    return FrontComparison(False, shared, same, front, cause, at, why)


def _is_front(entry: ManifestEntry) -> bool:
    return entry.fate in SHOWN_FATES and (entry.section in PREFIX_SECTIONS or entry.section == "history")


def _compare_prefixes(before: Manifest, after: Manifest) -> tuple[int, int, bool]:
    """The tokens of the prefix that are the same up to the first difference, all that are the same, and whether there is
    no difference."""
    old, new = _sort_prefix(before), _sort_prefix(after)
    known = {(each.section, each.id, each.digest) for each in old}
    same = sum(each.tokens for each in new if (each.section, each.id, each.digest) in known)
    shared = 0
    for one, other in zip(old, new, strict=False):
        if (one.section, one.id, one.digest) != (other.section, other.id, other.digest):
            return shared, same, False
        shared += other.tokens
    return shared, same, len(old) == len(new)


def _sort_prefix(manifest: Manifest) -> list[ManifestEntry]:
    prefix = [entry for entry in manifest.entries if entry.section in PREFIX_SECTIONS]
    return sorted(prefix, key=lambda entry: entry.section != "tools")


def _count_part(start: int, end: int, before: ManifestEntry, after: ManifestEntry, new: Mapping[int, int]) -> int:
    """The tokens of a part of a stretch: exact if it is all of either entry, or if only new messages follow it; else in
    proportion."""
    for entry in (after, before):
        if (start, end) == (entry.at, max(entry.at, entry.to)):
            return entry.tokens
    last = max(after.at, after.to)
    rest = [tokens for seq, tokens in new.items() if end < seq <= last]
    if start == after.at and end == max(before.at, before.to) and rest:
        return max(0, after.tokens - sum(rest))
    whole = last - after.at + 1
    return after.tokens * (end - start + 1) // whole


def _find_cause(
    before: Manifest,
    after: Manifest,
    comparison: Comparison,
    breaks: Sequence[PackChange],
    events: Sequence[HistoryChange],
) -> tuple[CacheCause, str, str]:
    prefix = [each for each in comparison.changes if each.entry.section in PREFIX_SECTIONS]
    if prefix:
        first = min(prefix, key=lambda each: _FRONT_ORDER.index(each.entry.section))
        is_tools = all(each.entry.section == "tools" for each in prefix)
        return "tools" if is_tools else "brief", first.entry.id, f"{first.entry.id}: {first.why}"
    if before.renderer != after.renderer:
        return "unknown", "", "another version of Holdfast rendered it"
    if not breaks:
        return "brief", "", "the brief has changed"
    first = min(breaks, key=lambda each: each.entry.at)
    entry, words = first.entry, f"{first.entry.id}: {first.why}"
    shown = entry if first.what != "gone" else None
    event = find_explaining_event(entry.at, max(entry.at, entry.to), shown, events)
    if event is not None:
        kinds: dict[str, CacheCause] = {"guard": "guard", "withdrawal": "withdrawal", "restoration": "withdrawal"}
        return kinds.get(event.kind, "boundary"), entry.id, words
    if _is_chosen_for_call(before) or _is_chosen_for_call(after):
        return "request", entry.id, f"{words}; this profile chooses the history for each call"
    if before.request.guard != after.request.guard:
        return "request", entry.id, f"{words}; the guard was {before.request.guard!r} before"
    if any(each.kind == "guard" for each in events):  # in a summary, whose own event is none of those that it covers
        return "guard", entry.id, words
    if before.request.effective != after.request.effective:
        return "request", entry.id, f"{words}; the budget was {before.request.effective:,} before"
    return "unknown", entry.id, words


def _is_chosen_for_call(manifest: Manifest) -> bool:
    return manifest.request.profile.history == "relevant"


# The cache


def report_cache(
    call: CallFigures, previous: CallFigures | None, front: FrontComparison | None, boundaries: Sequence[Boundary] = ()
) -> CacheReport:
    """What became of the cache that `previous` left. Without the manifests of both, `front` is None."""
    if previous is None:
        figures = _read_figures(call, None)
        return CacheReport(
            read=figures and figures[0],
            written=figures and figures[1],
            cause="first",
            why="It is the first call of the conversation.",
        )
    return _CacheComparison(call, previous, front, boundaries).report()


class _CacheComparison:
    """A call and the one before it."""

    def __init__(
        self, call: CallFigures, previous: CallFigures, front: FrontComparison | None, boundaries: Sequence[Boundary]
    ) -> None:
        self._call, self._previous, self._front, self._boundaries = call, previous, front, boundaries
        self._figures = _read_figures(call, previous)
        self._prompt = 0 if call.usage is None else call.usage.input_tokens
        self._pause_s = max(0, (call.started_us or call.ended_us) - previous.ended_us) // _MILLION
        self._ttl_s = None if previous.prices is None else previous.prices.ttl_s
        self._is_late = self._ttl_s is not None and self._pause_s > self._ttl_s
        self._has_new_model = _is_other_model(call, previous)
        self._expected = self._count_expected()
        read = 0 if self._figures is None else self._figures[0]
        self._read = read
        self._has_loss = self._figures is not None and self._expected - read > _tolerance(self._expected)

    def report(self) -> CacheReport:
        front, figures = self._front, self._figures
        cause = self._find_cause()
        rewritten, is_estimate = self._count_rewritten(cause)
        return CacheReport(
            previous=self._previous.id,
            kept=cause == "kept",
            shared=0 if front is None else front.shared,
            read=figures and figures[0],
            written=figures and figures[1],
            rewritten=rewritten,
            cause=cause,
            at="" if front is None else front.at,
            why=self._describe(cause, rewritten, is_estimate),
        )

    def _count_expected(self) -> int:
        """The tokens that the provider could have read: what the call before left in the cache, as far as this call shows
        it, in the provider's count."""
        previous, front = self._previous, self._front
        if previous.usage is None:
            return 0
        left = count_cached(previous, None if front is None else front.front)
        if front is None:
            return min(left, self._prompt)
        return min(left, _scale(front.same, self._call), self._prompt)

    def _find_cause(self) -> CacheCause:
        front = self._front
        is_read = self._figures is not None and self._read > 0
        if self._has_new_model:
            return "model"
        if front is not None and not front.kept:
            shared = _scale(front.shared, self._call)
            is_warm = is_read and self._read >= shared - _tolerance(shared)
            return "idle" if self._is_late and not is_warm else front.cause
        has_nothing = self._figures is not None and not self._read
        if self._figures is not None and not self._has_loss and not has_nothing:
            return "kept" if self._expected or front is not None else "unknown"
        if self._is_late:
            return "idle"
        if front is not None:
            return "provider" if has_nothing or self._has_loss else "kept"
        return _CAUSES[self._boundaries[-1].kind] if self._boundaries else "unknown"

    def _count_rewritten(self, cause: CacheCause) -> tuple[int, bool]:
        """The tokens that were paid again, and whether that is an estimate."""
        if cause in ("kept", "idle", "unknown") or (self._is_late and cause == "model"):
            return 0, False
        if self._figures is not None:
            lost = self._expected - self._read
            return (min(lost, self._prompt - self._read), False) if self._has_loss else (0, False)
        if self._front is None:
            return 0, False
        kept = 0 if self._has_new_model else self._front.shared
        tokens = _scale(max(0, min(self._front.same, self._front.front) - kept), self._call)
        return (min(tokens, self._prompt) if self._prompt else tokens), True

    def _describe(self, cause: CacheCause, rewritten: int, is_estimate: bool) -> str:
        front = self._front
        match cause:
            case "model":
                what = f"{self._call.model} was asked, and {self._previous.model} before: a cache is of one model."
            case "idle":
                what = f"The pause was {self._pause_s:,} seconds: a cache of this model lasts {self._ttl_s:,}."
            case "provider":
                read = f"{self._read:,} of about {self._expected:,} tokens" if self._expected else "nothing"
                what = f"The pack begins with the one before, but the provider read {read} from its cache."
            case "kept":
                what = self._describe_kept()
            case _ if front is not None and front.why:
                what = f"The first difference is {front.why}." if front.at else f"There is a difference: {front.why}."
            case "unknown":
                what = "What changed is unknown: no pack of this call, or of the one before, is stored."
            case _:
                boundary = self._boundaries[-1]
                what = f"Event {boundary.seq:,} changed the history ({boundary.kind})."
        return what + self._describe_tokens(rewritten, is_estimate)

    def _describe_kept(self) -> str:
        if self._figures is not None:
            return f"The cache was kept: the provider read {self._read:,} tokens from it."
        return "The pack begins with the one before, up to its tail. The provider reports no cached tokens."

    def _describe_tokens(self, rewritten: int, is_estimate: bool) -> str:
        if not rewritten:
            return ""
        if is_estimate:
            return (
                f" About {rewritten:,} tokens were paid again, estimated from the packs: the provider reports no cache."
            )
        return f" {rewritten:,} tokens that were in the cache were paid again."


def _read_figures(call: CallFigures, previous: CallFigures | None) -> tuple[int, int] | None:
    """What the provider read from its cache and wrote to it. If neither this call nor the one before has such figures,
    the provider does not report any: None."""
    usages = [each.usage for each in (call, previous) if each is not None and each.usage is not None]
    if call.usage is None or not any(usage.cache_read_tokens or usage.cache_write_tokens for usage in usages):
        return None
    return call.usage.cache_read_tokens, call.usage.cache_write_tokens


def count_cached(call: CallFigures, front: int | None) -> int:
    """The tokens that are in the provider's cache after a call. Some providers report what they wrote to it; others
    cache each prompt, and of that only the front can be used again. `front` is that of its pack, if it is known."""
    usage = call.usage
    if usage is None:
        return 0
    reported = usage.cache_read_tokens + usage.cache_write_tokens
    if usage.cache_write_tokens or (call.prices is not None and call.prices.cache_write > call.prices.input):
        return reported
    whole = usage.input_tokens if front is None else _scale(front, call)
    return max(reported, min(whole, usage.input_tokens))


def _scale(tokens: int, call: CallFigures) -> int:
    """Tokens of a pack in the count of the provider of its call, if that is known."""
    used = 0 if call.manifest is None else call.manifest.tokens.used
    prompt = 0 if call.usage is None else call.usage.input_tokens
    return tokens * prompt // used if used and prompt else tokens


def _tolerance(tokens: int) -> int:
    return max(TOLERANCE_TOKENS, tokens // TOLERANCE_SHARE) if tokens > TOLERANCE_TOKENS else tokens // 2


def _is_other_model(call: CallFigures, previous: CallFigures) -> bool:
    """Whether both models are known, and are not the same one by two names."""
    names = [each.prices.model if each.prices is not None else each.model.lower() for each in (call, previous)]
    return all(names) and names[0] != names[1]


# Money


def price_usage(usage: Usage, prices: Prices, rewritten: int = 0) -> CallCost:
    """The cost of a call. `rewritten` are the tokens of the prompt that were paid again: those that were written to the
    cache come first."""
    read, written = usage.cache_read_tokens, usage.cache_write_tokens
    plain = max(0, usage.input_tokens - read - written)
    again_written = min(rewritten, written)
    again_plain = min(rewritten - again_written, plain)
    parts = {
        "fresh": _price(plain, prices.input),
        "cache_read": _price(read, prices.cache_read),
        "cache_write": _price(written, prices.cache_write),
        "output": _price(usage.output_tokens, prices.output),
    }
    again = _price(again_written, prices.cache_write) + _price(again_plain, prices.input)
    total = sum(parts.values())
    return CallCost(**parts, total=total, rewritten=min(again, total), model=prices.model)


def _price(tokens: int, price: int) -> int:
    """In micro-dollars, rounded to the nearest. A price is for a million tokens."""
    return (tokens * price + _MILLION // 2) // _MILLION
