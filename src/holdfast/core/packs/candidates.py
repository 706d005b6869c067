"""Facts and frames as candidates of a pack: the lines that show them.

Laws:
- The line of a fact shows its whole value. A note behind the value says what is uncertain, and tells a reader without
  other context what to do.
- The list of live frames is bounded in number and in tokens. A frame is listed after the frame above it, which is listed
  too; the others are counted.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime

from holdfast.core.frames.stack import (
    FrameMap,
    content_of,
    find_ancestry,
    find_descendants,
    group_by_parent,
    sort_by_age,
)
from holdfast.core.history.views import piece_size
from holdfast.core.packs.assembly import PackCandidate
from holdfast.model import limits
from holdfast.model.content import Json, text_of
from holdfast.model.facts.detection import Proposal
from holdfast.model.facts.fact import Fact
from holdfast.model.frames.events import FramePopped
from holdfast.model.frames.frames import FrameState, frame_seq
from holdfast.model.state import OpenProposal
from holdfast.text.lines import join_names, one_line, shorten
from holdfast.text.validity import read_validity
from holdfast.text.values import value_text

_DAY_US = 86_400_000_000
_ASK_FIRST = "ask before relying on it"
_SHARE = 16
"""The live frames of a session take one in so many tokens of its pack, at most."""
_GOAL_CHARS = 240
_REASON_CHARS = 120
_MAX_NAMED = 5
"""The frames that a waiting frame names."""
_MAX_INDENT = 8
"""The levels that are shown by indentation; deeper ones are shown at the last."""
_MIN_VALUE_CHARS = 16
"""Values of inputs are not shortened further: then the end of the line is cut."""
_RESULT_CHARS = (160, 1_000)
"""The least and the most that is shown of the result of a finished frame."""
NO_RESULT = "(no result)"


# Facts


def is_binding_constraint(fact: Fact) -> bool:
    return fact.is_constraint and not fact.is_claim


def format_fact(fact: Fact, now_us: int, note: str = "") -> str:
    """The line of a fact, with a note on what is uncertain about it."""
    key = fact.key if fact.scope in ("global", "session") else f"{fact.key} ({fact.scope} {fact.scope_id})"
    line = f"{key}: {fact_value_line(fact.value)}{describe_validity(fact, now_us)}"
    if fact.is_claim:
        return f"- claim by {fact.authority}, not confirmed: {line}"
    if is_binding_constraint(fact):
        return f"- CONSTRAINT ({_constraint_kind(fact)}) {line}{note}"
    return f"- {line}{note}"


def _constraint_kind(fact: Fact) -> str:
    """What kind of constraint it is, and who states it."""
    if fact.constraint_type in (None, fact.authority):
        return fact.authority
    return f"{fact.constraint_type}, stated by {fact.authority}"


def describe_dispute(fact: Fact, proposal: Proposal | None) -> str:
    """Who disagrees with a fact: writers who withdrew it without the authority, and the open proposal. Empty if nobody
    does."""
    if not fact.disputes and proposal is None:
        return ""
    notes: list[str] = []
    if fact.disputes:
        who = " and ".join(dict.fromkeys(dispute.authority for dispute in fact.disputes))
        notes.append(f" (stated by {fact.authority}; withdrawn by {who}, not confirmed: {_ASK_FIRST})")
    if proposal is not None:
        notes.append(f" ({_describe_proposal(proposal)}; {_ASK_FIRST})")
    return "".join(notes)


def _describe_proposal(proposal: Proposal) -> str:
    if proposal.change == "expire":
        return "may be out of date: its time seems to be over"
    claim = "it may not hold" if proposal.change == "retract" else "it may have changed"
    if proposal.change == "supersede" and proposal.value is not None:
        claim = f"it may now be {fact_value_line(proposal.value)}"
    return f"disputed: the conversation says that {claim}"


WITHDRAWN_NOTE = " (under review: the message that stated it was withdrawn; check before relying on it)"


def describe_review(source: Fact | None, current: Fact | None) -> str:
    """The note of a fact under review: the source that ended, and its current value, as far as the reader may know."""
    if source is None:
        return " (under review: something that it rests on has changed; check before relying on it)"
    if current is None:
        return f" (under review: it rests on {source.key}, which does not hold; check before relying on it)"
    value = fact_value_line(current.value)
    return f" (under review: it rests on {source.key}, which is now {value}; check before relying on it)"


def order_claims(facts: Iterable[Fact]) -> list[int]:
    """The indexes of these facts in an order in which each claim follows the fact that it disputes."""
    listed = [*facts]
    if not any(fact.is_claim for fact in listed):
        return list(range(len(listed)))
    slots = {_fact_slot(fact) for fact in listed if not fact.is_claim}
    order, claims = list[int](), dict[tuple[str, str, str], list[int]]()
    for at, fact in enumerate(listed):
        if fact.is_claim and _fact_slot(fact) in slots:
            claims.setdefault(_fact_slot(fact), []).append(at)
    for at, fact in enumerate(listed):
        if not (fact.is_claim and _fact_slot(fact) in slots):
            order += [at, *claims.pop(_fact_slot(fact), ())]
    return order


def rank_line(fact: Fact, score: float, before: PackCandidate | None) -> tuple[float, int]:
    """The score and the recency of a line. A claim ranks below the line before it, which shows the fact that it
    disputes."""
    if not fact.is_claim or before is None:
        return score, fact.at_us
    return min(score, before.score), min(fact.at_us, before.recency - 1)


def identify_line(fact: Fact, proposal: OpenProposal | None) -> str:
    """What the digest of a line is made of. No digest of a value outlives the value: it could be guessed."""
    if not fact.review and not fact.disputes and proposal is None:
        return fact.id
    disputes = " ".join(f"{dispute.authority} {dispute.at_us}" for dispute in fact.disputes)
    return " ".join((fact.id, fact.review, disputes, "" if proposal is None else proposal.id)).rstrip()


def _fact_slot(fact: Fact) -> tuple[str, str, str]:
    return fact.key, fact.scope, fact.scope_id


def fact_value_line(value: Json) -> str:
    return one_line(value_text(value))


def describe_validity(fact: Fact, now_us: int) -> str:
    """How long a fact is valid, unless its value names the day itself; empty if it has no limit."""
    if fact.expires_us is None and fact.valid_from_us <= now_us:
        return ""
    stated = read_validity(fact.value, fact.at_us)
    named = stated is not None and stated.names_the_day
    parts: list[str] = []
    if fact.valid_from_us > now_us:
        parts.append(f"not valid before {_format_day(fact.valid_from_us)}")
    if fact.expires_us is not None and not (named and stated is not None and stated.until_us == fact.expires_us):
        parts.append(_describe_end(fact.expires_us))
    return f" ({', '.join(parts)})" if parts else ""


def _describe_end(expires_us: int) -> str:
    if expires_us % _DAY_US == 0:
        return f"valid through {_format_day(expires_us - 1)}"
    return f"valid until {_format_day(expires_us, '%Y-%m-%d %H:%M UTC')}"


def _format_day(time_us: int, form: str = "%Y-%m-%d") -> str:
    try:
        return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime(form)
    except (ValueError, OverflowError, OSError):
        return f"{time_us // 1_000_000:,} seconds after 1970"  # beyond the calendar


# Frames


def build_ancestry_candidates(frames: FrameMap, name: str) -> list[PackCandidate]:
    """The frames from the root to this one."""
    candidates: list[PackCandidate] = []
    for frame in find_ancestry(frames, name):
        note = ", your current task" if frame.id == name else ""
        label = f"{'  ' * frame.depth}- {frame.id} ({frame.status}{note}): "
        budget = frame.budget
        left = f" [{budget.available:,} of {budget.total:,} tokens left]" if budget.total else ""
        candidates.append(_build_frame_candidate(frame, label, f"{one_line(frame.goal)}{left}{_reason_note(frame)}"))
    return candidates


def build_child_candidates(
    frames: FrameMap, name: str, budget: int, count: Callable[[str], int]
) -> list[PackCandidate]:
    """The live frames below one, listed as the pack of a session lists its live frames."""
    return build_live_candidates({frame.id: frame for frame in find_descendants(frames, name)}, budget, count)


def build_input_candidates(
    frame: FrameState, inputs: Json, budget: int, count: Callable[[str], int]
) -> list[PackCandidate]:
    """The inputs of a frame on one line, for its own pack of `budget` tokens; none if it has no inputs."""
    if inputs is None:
        return []
    label = f"{'  ' * (frame.depth + 1)}Inputs: "
    full_text = _inputs_text(inputs, None)
    text = _fit_inputs(inputs, full_text, budget // _SHARE, count)
    shown, size = len(text.encode()), len(full_text.encode())
    is_whole = text == full_text
    return [
        PackCandidate(
            id=f"{frame.id} inputs",
            section="breadcrumbs",
            text=f"{label}{text}",
            label=len(label),
            priority="high",
            recency=frame.depth,
            source="frame",
            at=frame.inputs_at,
            origin=frame.inputs_at,
            share=1.0 if is_whole else shown / size,
            share_note="" if is_whole else f"shown in part: {shown:,} of {size:,} bytes",
        )
    ]


def _fit_inputs(inputs: Json, full_text: str, room: int, count: Callable[[str], int]) -> str:
    """As much of the inputs as fits into the room: the longest values are shortened first, then the end is cut."""
    text, chars = full_text, len(full_text)
    while count(text) > room and chars > _MIN_VALUE_CHARS:
        chars //= 2
        text = _inputs_text(inputs, chars)
    while count(text) > room and len(text) > 1:
        text = shorten(text, len(text) // 2)
    return text


def _inputs_text(inputs: Json, chars: int | None) -> str:
    if isinstance(inputs, dict):
        return ", ".join(f"{one_line(name)} = {_input_value(value, chars)}" for name, value in inputs.items())
    return _input_value(inputs, chars)


def _input_value(value: Json, chars: int | None) -> str:
    text = fact_value_line(value)
    return text if chars is None else shorten(text, chars)


def build_finished_candidate(frame: FrameState, ending: FramePopped, budget: int) -> PackCandidate:
    """The result of a root frame that has ended, quoted as data, for the session's own pack of `budget` tokens."""
    least, most = _RESULT_CHARS
    parts = content_of(ending)
    text, size = text_of(parts).strip(), piece_size(parts)
    excerpt = shorten(text, max(least, min(most, budget // _SHARE)))
    shown = min(size, len(excerpt.encode()))
    is_whole = excerpt == text and shown == size
    lines = excerpt.splitlines() or [NO_RESULT]
    if not is_whole:
        lines.append(f"[only {shown:,} of {size:,} bytes are shown]")
    goal = shorten(one_line(frame.goal), _GOAL_CHARS)
    label = f"Finished work: {frame.id} "
    return PackCandidate(
        id=frame.id,
        section="handles",
        text="\n".join([f"{label}'{goal}' ({ending.status}):", *(f"> {line}" for line in lines)]),
        label=len(label),
        recency=frame.touched,
        source=f"finished frame, {ending.status}",
        at=frame.touched,
        origin=frame_seq(frame.id),  # the goal was written when the frame was pushed
        share=1.0 if is_whole else shown / size,
        share_note="" if is_whole else f"{shown:,} of {size:,} bytes shown",
    )


def build_live_candidates(frames: FrameMap, budget: int, count: Callable[[str], int]) -> list[PackCandidate]:
    """Live frames for a pack of `budget` tokens: those with the newest activity, and the frames above them."""
    if not frames:
        return []
    newest = heapq.nlargest(limits.PACK_FRAMES, frames.values(), key=lambda frame: (frame.touched, frame_seq(frame.id)))
    by_id = {frame.id: frame for recent in newest for frame in find_ancestry(frames, recent.id)}
    children: dict[str, list[str]] = {name: [] for name in by_id}
    for frame in frames.values():
        if frame.parent in children:
            children[frame.parent].append(frame.id)
    left, chosen = budget // _SHARE, dict[str, PackCandidate]()
    for recent in newest:
        new = [frame for frame in find_ancestry(frames, recent.id) if frame.id not in chosen]
        candidates = [_build_live_candidate(frame, children[frame.id]) for frame in new]
        size = sum(count(candidate.text) for candidate in candidates)
        if len(chosen) + len(new) <= limits.PACK_FRAMES and size <= left:
            chosen |= {candidate.id: candidate for candidate in candidates}
            left -= size
    listed = [chosen[name] for name in _sort_by_tree([by_id[name] for name in chosen])]
    return [*listed, *_build_remainder(len(frames) - len(listed), bool(listed))]


def _sort_by_tree(frames: Iterable[FrameState]) -> Iterator[str]:
    """The ids of these frames, each right before those below it, the oldest first."""
    by_id = {frame.id: frame for frame in frames}
    children = group_by_parent(by_id)
    stack = [frame for frame in sort_by_age(by_id) if frame.parent not in by_id][::-1]
    while stack:
        frame = stack.pop()
        yield frame.id
        stack += children.get(frame.id, [])[::-1]


def _build_live_candidate(frame: FrameState, children: Sequence[str]) -> PackCandidate:
    status: str = frame.status
    if status == "waiting":
        status = f"waiting for {join_names(sorted(children, key=frame_seq), _MAX_NAMED)}"
    label = f"{'  ' * min(frame.depth, _MAX_INDENT)}- {frame.id} ({status}): "
    return _build_frame_candidate(frame, label, f"{shorten(one_line(frame.goal), _GOAL_CHARS)}{_reason_note(frame)}")


def _reason_note(frame: FrameState) -> str:
    """Why a frame is suspended; empty if it is not."""
    reason = "" if frame.suspension is None else shorten(one_line(frame.suspension.reason), _REASON_CHARS)
    return f" [reason: {reason}]" if reason else ""


def _build_remainder(count: int, has_list: bool) -> list[PackCandidate]:
    """The line that counts the frames which are not listed."""
    if not count:
        return []
    noun = "frame" if count == 1 else "frames"
    text = f"- and {count:,} more {noun}" if has_list else f"- {count:,} {noun} {'is' if count == 1 else 'are'} live"
    return [
        PackCandidate(id="other frames", section="breadcrumbs", text=text, priority="high", recency=-1, source="frames")
    ]


def _build_frame_candidate(frame: FrameState, label: str, text: str) -> PackCandidate:
    return PackCandidate(
        id=frame.id,
        section="breadcrumbs",
        text=f"{label}{text}",
        label=len(label),
        priority="high",
        recency=frame.depth,
        source="frame",
        at=frame_seq(frame.id),
        origin=frame_seq(frame.id),
    )
