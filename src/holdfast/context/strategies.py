"""Strategies that someone asks for by name: what each takes out of the view of a conversation, and of a frame's handles.

Laws: what is Critical stays as it is, and so does what the model has not seen; the lowest priority goes first, and of that
the oldest; nothing goes that need not, where a strategy has a target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from holdfast.context import levels
from holdfast.context.ground import Ground, Tools
from holdfast.context.outline import OUTLINE_TOKENS, outline
from holdfast.context.work import Work
from holdfast.errors import CriticalOverflow, StrategyRefused
from holdfast.model.handles import SCORES, Handle
from holdfast.model.messages import Item, Summary, Unit
from holdfast.model.plan import (
    CustomStrategy,
    Plan,
    PlanPolicy,
    PriorityBased,
    Strategy,
    SummarizeOldest,
    TruncateAt,
)


def asked(
    ground: Ground, strategy: Strategy, policy: PlanPolicy, tools: Tools, custom: levels.Custom | None = None
) -> Plan:
    """What someone asked for, whatever it costs. CriticalOverflow if the window does not hold what is Critical."""
    work = Work(ground, tools)
    critical = _critical_tokens(work)
    if critical > ground.window and not ground.flexible:
        raise CriticalOverflow(needed=critical, budget=ground.window)
    match strategy:
        case SummarizeOldest(keep_recent=keep):
            cut = _cut_at(work, keep)
            work.do(strategy, fold=(cut, round(policy.summary_share * ground.window)))
            work.leave_out(_older_handles(work, cut))
        case TruncateAt(message_count=keep):
            cut = _cut_at(work, keep)
            work.do(strategy, fold=(cut, 0))
            work.leave_out(_older_handles(work, cut))
        case PriorityBased():
            _by_priority(work)
        case CustomStrategy(name=name):
            assert custom is not None, "it was looked up by its name"
            _by_custom(work, name, custom)
    return work.plan(policy.name, "asked")


def _critical_tokens(work: Work) -> int:
    """What is never dropped: what stands first, and the messages and handles that are Critical."""
    messages = sum(
        size
        for item, size in zip(work.items, work.sizes, strict=True)
        if isinstance(item, Unit) and item.priority == "critical"
    )
    handles = (each for each in work.ground.handles if each.priority == "critical")
    return work.ground.system + messages + sum(work.tools.measure(each.tokens, 0) for each in handles)


def _cut_at(work: Work, messages: int) -> int:
    return work.cut(min(_recent(work.items, messages), work.unseen))


def _recent(items: Sequence[Item], messages: int) -> int:
    """The number of the first item of the newest so many messages, whole units."""
    kept = 0
    for number in range(len(items) - 1, -1, -1):
        kept += items[number].blocks
        if kept > messages:
            return number + 1
    return 0


def _older_handles(work: Work, cut: int) -> list[Handle]:
    """The handles that came before the oldest message that stays as it is; what is Critical stays."""
    if work.fold is None or not cut:
        return []
    last = work.fold.last
    return [each for each in work.ground.handles if each.at <= last and each.priority != "critical"]


def _by_priority(work: Work) -> None:
    """Messages and handles alike: the lowest first, and of those the oldest, until the rest fits."""
    window = work.ground.window
    over = work.tokens + work.handle_tokens - window
    if over <= 0:
        return
    line = work.tools.measure(OUTLINE_TOKENS, 1)
    found: list[tuple[int, int, int, Unit | Handle]] = [
        (SCORES[item.priority], item.seq, work.sizes[number], item)
        for number, item in enumerate(work.items[: work.unseen])
        if isinstance(item, Unit) and not work.stays(item)
    ]
    found += [
        (SCORES[each.priority], each.at, work.tools.measure(each.tokens, 0), each)
        for each in work.ground.handles
        if each.priority != "critical"
    ]
    units: set[int] = set()
    handles: list[Handle] = []
    for _, _, size, each in sorted(found, key=lambda one: one[:2]):
        if over <= 0:
            break
        if isinstance(each, Unit):
            over += 0 if units else line
            units.add(each.seq)
        else:
            handles.append(each)
        over -= size
    drop(work, PriorityBased(), units)
    work.leave_out(handles)


def drop(work: Work, op: PriorityBased | CustomStrategy, units: set[int], text: str = "") -> None:
    """Take these units out of the view, wherever they are: what is between them stays behind the line, or the text, that
    takes their place."""
    numbers = [number for number, item in enumerate(work.items) if isinstance(item, Unit) and item.seq in units]
    if not numbers:
        return
    number = work.cut(numbers[-1] + 1)
    before = (item for item in work.items[:number] if isinstance(item, Unit))
    work.keeps = frozenset(item.seq for item in before if item.seq not in units)
    work.do(op, fold=(number, 0), text=text)
    work.keeps = frozenset()


def _by_custom(work: Work, name: str, custom: levels.Custom) -> None:
    """What does not fit is put before the strategy: the messages that the model has seen, and the handles."""
    count: Callable[[str], int] = lambda text: work.tools.measure(work.tools.count(text), 1)  # noqa: E731
    units = {f"m{item.seq}": item for item in work.items[: work.unseen] if isinstance(item, Unit)}
    handles = {each.id: each for each in work.ground.handles}
    sizes = {f"m{item.seq}": size for item, size in zip(work.items, work.sizes, strict=True) if isinstance(item, Unit)}
    given = [
        levels.Candidate(key, "message", unit.priority, unit.seq, _text(unit), sizes[key])
        for key, unit in units.items()
    ]
    given += [
        levels.Candidate(key, "handle", each.priority, each.at, each.title, work.tools.measure(each.tokens, 0))
        for key, each in handles.items()
    ]
    total = work.tokens + work.handle_tokens
    room = work.ground.window - (total - sum(each.tokens for each in given))
    if total <= work.ground.window or not given:
        return
    critical = sum(each.tokens for each in given if each.priority == "critical")
    if critical > room:
        raise CriticalOverflow(needed=work.ground.window + critical - room, budget=work.ground.window)
    done = levels.compact(given, room, count=count, strategy=custom)
    left = {each.id: each.text for each in done.items}
    texts = {each.id: each.text for each in given}
    if any(key in left and left[key] != texts[key] for key in handles):
        raise StrategyRefused(strategy=name, reason="it changes the title of a handle: keep a handle, or leave it out")
    rewritten = [key for key in units if key in left and left[key] != texts[key]]
    gone = {unit.seq for key, unit in units.items() if key not in left or key in rewritten}
    messages = tuple(each.seq for key in rewritten for each in units[key].messages)
    folded = [item for item in work.items if isinstance(item, Summary) or item.seq in gone]
    text = "\n".join(left[key] for key in rewritten)
    if text and len(rewritten) < len(gone):
        text = f"{text}\n{outline(folded)}"
    drop(work, CustomStrategy(name, messages), gone, text)
    work.leave_out([each for key, each in handles.items() if key not in left])


def _text(unit: Unit) -> str:
    return "\n".join(filter(None, (each.text for each in unit.messages)))
