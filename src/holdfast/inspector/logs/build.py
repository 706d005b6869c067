"""Build the report of a log from its figures and its replay. Pure.

Laws: what the provider reported is taken as it is; what it did not is stated as an assumption. A dead value counts
only in calls after its end that still had it. What Holdfast would have sent is the provider's figure for the call,
plus the difference between the pack and the plain conversation, both by the same counter, in the provider's measure.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Sequence

import msgspec

from holdfast.inspector.logs import money
from holdfast.inspector.logs.money import PromptShape
from holdfast.inspector.logs.replay import PACKS, SURE, ThreadReplay
from holdfast.inspector.logs.reports import CacheBreak, CallDetail, DeadValue, LogReport, LogSource, TokenBill
from holdfast.inspector.logs.traces import Survey, TraceCall, TraceThread
from holdfast.model.history.bills import CallBill
from holdfast.model.history.prices import Prices

RATIO_BOUNDS = (0.5, 3.0)
"""The provider's tokens for one of the counter's: figures beyond are no measure of the same text."""
DEAD_VALUES = 1_000
"""The dead values that a report lists: the most expensive ones."""

_NO_USAGE = (
    "The log has no usage: every call is taken as all messages before it, counted by estimate, with a cache that works as"
    " well as it can."
)
_COUNTERFACTUAL = (
    "What Holdfast would have sent is a replay: the same replies are recorded, and a model that sees another context"
    " might have acted differently."
)
_CACHE_MODEL = (
    "Its cost is at the same prices under an ideal cache: a prompt reads what it shares with the one before, unless the"
    " cache was idle for too long. The log's own cost under the same model is `sent.modelled_cost`."
)
_LATE_READS = (
    "The provider's cache was read after longer pauses than its usual time, so it is taken to stay warm for an hour. If"
    " the log does not say which writes were for an hour, all are priced at the usual rate."
)


class CountScale(msgspec.Struct, frozen=True):
    """How the provider counts a thread."""

    ratio: float = 1.0
    """Its tokens for one of the counter's."""
    overhead: int = 0
    """Its tokens for what is in every prompt, and not in the log."""


def calibrate(calls: Sequence[TraceCall], contexts: Sequence[int]) -> CountScale:
    """Compare the growth of prompts with the growth of the context, as the log has it."""
    billed = counted = 0
    pairs = list(zip(calls, contexts, strict=True))
    for (before, small), (call, large) in itertools.pairwise(pairs):
        one, other = before.figures.usage, call.figures.usage
        if one is None or other is None or call.change or before.figures.model != call.figures.model:
            continue
        if large > small and other.input_tokens > one.input_tokens > 0:
            billed += other.input_tokens - one.input_tokens
            counted += large - small
    ratio = min(max(billed / counted, RATIO_BOUNDS[0]), RATIO_BOUNDS[1]) if counted else 1.0
    first = next(((call, context) for call, context in pairs if money.bill_figures(call.figures)), None)
    if first is None or first[0].figures.usage is None:
        return CountScale()
    return CountScale(ratio, max(0, first[0].figures.usage.input_tokens - round(ratio * first[1])))


def sum_contexts(thread: TraceThread, tokens: Sequence[int]) -> list[int]:
    """The tokens of the messages before each call, of these sizes."""
    steps = [0] * (len(thread.calls) + 1)
    for message, size in zip(thread.messages, tokens, strict=True):
        if message.enters < len(steps) and message.enters < message.leaves:
            steps[message.enters] += size
            steps[min(message.leaves, len(steps) - 1)] -= size
    contexts, total = [], 0
    for step in steps[:-1]:
        total += step
        contexts.append(total)
    return contexts


class _ThreadFigures(msgspec.Struct):
    """The figures of one thread, call by call."""

    thread: TraceThread
    replay: ThreadReplay
    prices: list[Prices | None]
    scale: CountScale
    sent: list[CallBill]
    modelled: list[CallBill]
    packed: list[CallBill]
    breaks: list[CacheBreak] = msgspec.field(default_factory=list)
    dead: list[DeadValue] = msgspec.field(default_factory=list)
    shown: list[int] = msgspec.field(default_factory=list)
    """How many dead values each call was shown, and how many tokens of them: first as changes from the call before."""
    shown_tokens: list[int] = msgspec.field(default_factory=list)
    reads: list[int] = msgspec.field(default_factory=list)
    """The tokens that each call read from the cache, and what one of them cost: read, summed up, and written."""
    read_prices: list[int] = msgspec.field(default_factory=list)
    read_sums: list[int] = msgspec.field(default_factory=list)
    write_prices: list[float] = msgspec.field(default_factory=list)


def build_report(
    source: LogSource,
    survey: Survey,
    replays: dict[str, ThreadReplay],
    prices: dict[str, Prices | None],
    model: str = "",
) -> LogReport:
    """Build the report. `prices` are those of every model that the log names; `model` is that of calls without one."""
    figures = [
        _measure_thread(thread, replays[name], prices, model)
        for name, thread in survey.threads.items()
        if name in replays
    ]
    models = collections.Counter(
        call.figures.model or model for each in figures for call in each.thread.calls if call.figures.model or model
    )
    calls = sum(len(each.thread.calls) for each in figures)
    report = LogReport(
        source=source,
        model=models.most_common(1)[0][0] if models else "",
        is_priced=bool(calls) and all(each is not None for figure in figures for each in figure.prices),
        calls=calls,
        threads=len(figures),
        estimated=sum(money.bill_figures(call.figures) is None for each in figures for call in each.thread.calls),
        first_us=survey.first_us,
        last_us=survey.last_us,
    )
    report.sent = _add([bill for each in figures for bill in each.sent], figures)
    report.sent.modelled_cost = _add([bill for each in figures for bill in each.modelled], figures).cost
    report.holdfast = _add([bill for each in figures for bill in each.packed], figures)
    dead = [value for each in figures for value in each.dead]
    report.dead = sorted(dead, key=lambda value: (-value.cost, -value.tokens * value.calls, value.at))[:DEAD_VALUES]
    report.dead_values, report.dead_cost = len(dead), sum(value.cost for value in dead)
    report.cache_breaks = [found for each in figures for found in each.breaks]
    report.calls_detail = [detail for each in figures for detail in _list_details(each)]
    report.dead_calls = sum(detail.dead > 0 for detail in report.calls_detail)
    report.assumptions = list_assumptions(survey, report, figures, dead)
    return report


def _add(bills: list[CallBill], figures: Sequence[_ThreadFigures]) -> TokenBill:
    return money.add_bills(bills, [each for figure in figures for each in figure.prices])


def _measure_thread(
    thread: TraceThread, replay: ThreadReplay, prices: dict[str, Prices | None], model: str
) -> _ThreadFigures:
    sizes = [own or message.tokens for own, message in zip(replay.tokens, thread.messages, strict=True)]
    for message, seq in zip(thread.messages, replay.seqs, strict=True):
        message.seq = seq
    contexts = sum_contexts(thread, sizes)
    scale = calibrate(thread.calls, contexts)
    priced = [prices.get(call.figures.model or model) for call in thread.calls]
    ttls = [money.find_ttl(thread.calls, each) for each in priced]
    reported = [money.bill_figures(call.figures) for call in thread.calls]
    plain = _plain_prompts(thread.calls, contexts, reported, scale)
    modelled = money.model_bills(plain, thread.calls, ttls)
    sent = [own or model_bill for own, model_bill in zip(reported, modelled, strict=True)]
    packs = _pack_prompts(plain, contexts, replay, scale)
    figures = _ThreadFigures(
        thread=thread,
        replay=replay,
        prices=priced,
        scale=scale,
        sent=sent,
        modelled=modelled,
        packed=money.model_bills(packs, thread.calls, ttls),
        shown=[0] * (len(sent) + 1),
        shown_tokens=[0] * (len(sent) + 1),
        reads=[bill.read for bill in sent],
        read_prices=[each.cache_read if each is not None else 0 for each in priced],
        write_prices=[
            bill.price_write(each) if each is not None else 0 for bill, each in zip(sent, priced, strict=True)
        ],
    )
    figures.read_sums = [0, *itertools.accumulate(figures.read_prices)]
    for found in money.find_breaks(thread.calls, priced):
        reply = thread.messages[thread.calls[found.call].index].seq
        cost = money.to_micros(found.pico)
        figures.breaks.append(
            CacheBreak(
                reply=reply,
                tokens_rewritten=found.tokens,
                cost=cost,
                cause=found.cause,
                why=found.why,
                thread=thread.name,
            )
        )
    _find_dead(figures)
    figures.shown = list(itertools.accumulate(figures.shown))
    figures.shown_tokens = list(itertools.accumulate(figures.shown_tokens))
    return figures


def _plain_prompts(
    calls: Sequence[TraceCall], contexts: Sequence[int], bills: Sequence[CallBill | None], scale: CountScale
) -> list[PromptShape]:
    """The prompts of the log."""
    prompts: list[PromptShape] = []
    before = 0
    for call, context, bill in zip(calls, contexts, bills, strict=True):
        tokens = bill.tokens if bill is not None else scale.overhead + round(scale.ratio * context)
        floor = min(bill.read, scale.overhead) if bill is not None else 0
        kept = scale.overhead + round(scale.ratio * call.kept) if call.change else before
        prompts.append(PromptShape(tokens, min(kept, tokens), 0, floor))
        before = tokens
    return prompts


def _pack_prompts(
    plain: Sequence[PromptShape], contexts: Sequence[int], replay: ThreadReplay, scale: CountScale
) -> list[PromptShape]:
    """The prompts that Holdfast would have sent. Where no pack could be built, that of the log."""
    prompts: list[PromptShape] = []
    for prompt, context, pack in zip(plain, contexts, replay.packs, strict=True):
        if pack is None:
            prompts.append(prompt)
            continue
        hidden = max(0, prompt.tokens - round(scale.ratio * context))  # what the log does not have
        tokens = hidden + round(scale.ratio * pack.counted)
        passing = min(tokens, round(scale.ratio * pack.passing))
        shared = min(tokens - passing, hidden + round(scale.ratio * pack.shared)) if pack.shared else 0
        prompts.append(PromptShape(tokens, shared, passing, min(prompt.floor, tokens - passing)))
    return prompts


# Dead values


def _find_dead(figures: _ThreadFigures) -> None:
    thread = figures.thread
    indexes = {seq: index for index, seq in enumerate(figures.replay.seqs) if seq}
    for stale in thread.stale:
        value = _carry(figures, "stale_read", stale.what, stale.at, stale.tokens, stale.by)
        figures.dead += [value] if value is not None else []
    for fact in figures.replay.facts:
        if fact.at in indexes and fact.died_at in indexes:
            tokens = max(1, len(fact.value) // 4)
            parts = [(indexes[fact.died_at], tokens)]
            found = _carry(figures, "fact", fact.key, indexes[fact.at], parts, fact.by)
            if found is not None:
                figures.dead.append(msgspec.structs.replace(found, value=fact.value, words=fact.words))


def _carry(
    figures: _ThreadFigures, kind: str, what: str, at: int, parts: Sequence[tuple[int, int]], by: str
) -> DeadValue | None:
    """A dead value with the calls that were shown it; None if there are none. `parts` say at which entry how many tokens
    became outdated."""
    thread, scale = figures.thread, figures.scale
    message = thread.messages[at]
    ends = min(message.leaves, len(thread.calls))
    starts = [(max(thread.messages[index].enters, message.enters), tokens) for index, tokens in parts]
    first = min(start for start, _ in starts)
    if first >= ends:
        return None
    limit = scale.overhead + round(scale.ratio * (message.offset + sum(size for _, size in parts)))
    sizes = [(start, max(1, round(scale.ratio * size))) for start, size in starts if start < ends]
    pico = sum(size * _price_span(figures, start, ends, limit) for start, size in sizes)
    figures.shown[first] += 1
    figures.shown[ends] -= 1
    for start, size in sizes:
        figures.shown_tokens[start] += size
        figures.shown_tokens[ends] -= size
    return DeadValue(
        kind="fact" if kind == "fact" else "stale_read",
        what=what,
        at=message.seq,
        died_at=thread.messages[parts[0][0]].seq,
        by=by,
        calls=ends - first,
        tokens=sum(size for _, size in sizes),
        cost=money.to_micros(pico),
        thread=thread.name,
    )


def _price_span(figures: _ThreadFigures, start: int, end: int, limit: int) -> float:
    """What a token at this place cost in all calls from `start` on: it was read from the cache, if so much was."""
    unread = [number for number in range(start, end) if figures.reads[number] < limit]
    more = sum(figures.write_prices[number] - figures.read_prices[number] for number in unread)
    return figures.read_sums[end] - figures.read_sums[start] + more


def _list_details(figures: _ThreadFigures) -> list[CallDetail]:
    thread = figures.thread
    broken = {found.reply for found in figures.breaks}
    rows = zip(thread.calls, figures.sent, figures.packed, figures.prices, strict=True)
    details: list[CallDetail] = []
    for number, (call, sent, packed, prices) in enumerate(rows):
        seq = thread.messages[call.index].seq
        details.append(
            CallDetail(
                reply=seq,
                sent_tokens=sent.tokens,
                holdfast_tokens=packed.tokens,
                dead=figures.shown[number],
                dead_tokens=figures.shown_tokens[number],
                cost=money.to_micros(sent.price(prices)),
                holdfast_cost=money.to_micros(packed.price(prices)),
                is_break=seq in broken,
                thread=thread.name,
            )
        )
    return details


# Assumptions


def list_assumptions(
    survey: Survey, report: LogReport, figures: Sequence[_ThreadFigures], dead: Sequence[DeadValue]
) -> list[str]:
    """What the figures stand on, in words."""
    calls = [call for each in figures for call in each.thread.calls]
    reported = sum(money.bill_figures(call.figures) is not None for call in calls)
    found: list[str] = []
    if reported == len(calls) and calls:
        found.append("What was sent and paid is the provider's usage in the log.")
    elif reported:
        found.append(f"{len(calls) - reported} of {len(calls)} calls have no usage in the log; theirs is estimated.")
    elif calls:
        found.append(_NO_USAGE)
    hidden = max((each.scale.overhead for each in figures), default=0)
    if reported and hidden:
        found.append(
            f"System prompt and tools are not all in the log: about {hidden:,} tokens of every prompt. They are counted"
            " on both sides."
        )
    elif not reported:
        what = "Tool definitions are" if survey.has_system else "System prompt and tool definitions are"
        found.append(f"{what} not in the log, and on neither side of the figures.")
    if not report.is_priced and calls:
        named = report.model or "none"
        found.append(
            f"There are no prices for all models of the log (named: {named}), so every cost is 0. Name a model."
        )
    if not survey.has_times:
        found.append("The log has no times: caches are taken as warm, and the time of the file is shown.")
    found += _list_replay_assumptions(figures, calls)
    if len(dead) > DEAD_VALUES:
        found.append(f"The {DEAD_VALUES:,} most expensive of {len(dead):,} dead values are listed.")
    return found


def _find_usual_ttl(figures: _ThreadFigures) -> int:
    return next((each.ttl_s for each in figures.prices if each is not None), 300)


def _list_replay_assumptions(figures: Sequence[_ThreadFigures], calls: Sequence[TraceCall]) -> list[str]:
    sure = f"Plain statements of the user are taken as facts, and corrections are applied if they are {SURE:.0%} sure."
    found = [_COUNTERFACTUAL, _CACHE_MODEL, sure]
    if any(money.has_late_reads(each.thread.calls, _find_usual_ttl(each)) for each in figures):
        found.append(_LATE_READS)
    built = sum(pack is not None and pack.is_built for each in figures for pack in each.replay.packs)
    if built < len(calls):
        found.append(
            f"Packs were built for {built:,} of {len(calls):,} calls (at most about {PACKS:,}); others are interpolated."
        )
    refusals = {each.replay.refusal for each in figures} - {""}
    if refusals:
        found.append(f"Some packs could not be built ({', '.join(sorted(refusals))}); these calls count as in the log.")
    shortened = sum(each.replay.shortened for each in figures)
    if shortened:
        found.append(f"{shortened:,} messages were too large or too odd for a session, and are in it in short.")
    if any(call.change == "context" for call in calls):
        found.append("The program left out earlier messages at times; what was still in a prompt then is not known.")
    return found
