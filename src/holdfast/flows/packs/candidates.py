"""The candidates of a pack for its tail: facts, the working set, the environment, the situation, handles and frames.

Laws:
- What the reader may not know is no candidate. Reading changes nothing.
- What is looked at is bounded by named limits, not by how much there is.
- A handle is shown whole if it takes no more than its share of the budget, else by a preview that the manifest names. A
  Critical one is shown whole, or it is an error.
- All of it follows from the log up to the version of the pack.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from holdfast.core.frames.stack import content_of, ending_of
from holdfast.core.history.previews import PREVIEW_TOKEN_BYTES, count_shown_bytes, is_text, show_body
from holdfast.core.history.views import (
    Display,
    PartialPiece,
    ReadAmount,
    describe_shown_shares,
    piece_size,
    shown_share,
)
from holdfast.core.packs.assembly import PackCandidate
from holdfast.core.packs.candidates import (
    NO_RESULT,
    build_ancestry_candidates,
    build_child_candidates,
    build_finished_candidate,
    build_input_candidates,
    build_live_candidates,
    fact_value_line,
)
from holdfast.core.sessions.layers import LOCATION, TIMEZONE, is_expired
from holdfast.errors import BlobNotFound, CriticalOverflow, HandleNotFound, InvalidArgument
from holdfast.flows import effects
from holdfast.flows.context import SessionContext
from holdfast.flows.effects import Flow
from holdfast.flows.frames.frames import check_handle_id
from holdfast.flows.frames.lookup import decode_frame, decode_handle, read_event, session_filter
from holdfast.flows.history.handles import find_attachment_row, list_attachments, read_parts
from holdfast.flows.history.views import build_displayer, read_start
from holdfast.flows.sessions.transcript import read_message_piece
from holdfast.model import limits
from holdfast.model.content import Body, Part, text_of
from holdfast.model.frames.events import FramePopped, FramePushed, FrameUpdated
from holdfast.model.frames.frames import frame_seq
from holdfast.model.history.handles import Handle, handle_seq, parse_piece_id
from holdfast.model.history.views import HistoryItem
from holdfast.model.packs.pack import PackRequest
from holdfast.model.rows import FrameRow, RowOrder
from holdfast.model.sessions.layers import EnvironmentItem
from holdfast.model.sessions.messages import MessageGroup
from holdfast.model.situation.situations import SituationState
from holdfast.model.state import SessionState
from holdfast.text import relevance
from holdfast.text.cache import TextCache
from holdfast.text.lines import one_line
from holdfast.text.values import value_text

_NEWEST_FRAMES = RowOrder(backwards=True)
_IN_HISTORY = "is in the history"
_QUOTE = 20
"""The shortest result that is looked for in messages, in characters: an "ok" is found by chance."""
_EXCLUDED = "excluded by the request"
_TOKEN_COUNTS: TextCache[int] = TextCache(8 << 20)
"""The tokens of texts, by the counter's name: most of a pack was in the one before."""
_ENTRY_BYTES = 128
_CACHED_CHARS = 4_096
"""Longer texts are counted each time."""


def count_tokens(context: SessionContext, text: str) -> int:
    """The tokens of a text that is likely to be counted again."""
    counter = context.engine.counter
    if len(text) > _CACHED_CHARS:
        return counter.count(text)
    name = f"{counter.name} {text}"
    tokens = _TOKEN_COUNTS.get(name)
    if tokens is None:
        tokens = counter.count(text)
        _TOKEN_COUNTS.put(name, tokens, _ENTRY_BYTES)
    return tokens


# Working set, environment and situation


def build_working_candidates(state: SessionState, request: PackRequest) -> list[PackCandidate]:
    items = [(name, item) for name, item in sorted(state.working.items()) if not is_expired(item, request.as_of_us)]
    if not items:
        return []
    score_of = _build_scorer(request.query)
    candidates: list[PackCandidate] = []
    for name, item in items:
        score = score_of(f"{name} {value_text(item.value)}")
        candidates.append(
            PackCandidate(
                id=name,
                section="working_set",
                text=f"- {name}: {fact_value_line(item.value)}",
                label=len(f"- {name}: "),
                score=score,
                recency=item.at_us,
                origin=item.seq,
                source="working set",
                omission="" if score >= request.profile.least_score else f"does not fit the question ({score:.2f})",
            )
        )
    return candidates


def build_environment_candidates(state: SessionState, request: PackRequest) -> list[PackCandidate]:
    """The time, unless the request leaves it out, and the observations that have not expired."""
    items = {name: item for name, item in sorted(state.environment.items()) if not is_expired(item, request.as_of_us)}
    zone = items.pop(TIMEZONE, None)
    clock = "time"
    while clock in items:  # an observation has this name
        clock = f"the {clock}"
    time = PackCandidate(
        id=clock,
        section="environment",
        text=f"- time: {format_time(request.as_of_us, 'UTC' if zone is None else str(zone.value))}",
        priority="high",
        recency=request.as_of_us,
        source="clock",
    )
    candidates = [time] if request.time else []
    newer = _find_newer_observations(items, request)
    for name, item in items.items():
        candidates.append(
            PackCandidate(
                id=name,
                section="environment",
                text=f"- {name}: {fact_value_line(item.value)} (observed {format_time(item.observed_us, 'UTC')})",
                label=len(f"- {name}: "),
                priority="high" if name == LOCATION else "medium",
                recency=item.observed_us,
                origin=item.seq,
                source="environment",
                omission=f"a newer observation ({newer[name]}) is about the same thing" if name in newer else "",
            )
        )
    return candidates


def _find_newer_observations(items: Mapping[str, EnvironmentItem], request: PackRequest) -> dict[str, str]:
    """The newer observations of the same things, if only what is relevant is shown."""
    if request.profile.history != "relevant":
        return {}
    from holdfast.text.selection import find_newer  # noqa: PLC0415 - a good part of the time of an import

    names = [*items]
    newer = find_newer([(fact_value_line(items[name].value), items[name].observed_us) for name in names])
    return {name: names[at] for name, at in zip(names, newer, strict=True) if at is not None}


def format_time(time_us: int, zone: str) -> str:
    try:
        at = datetime.fromtimestamp(time_us / 1e6, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_us // 1_000_000:,} seconds after 1970"  # beyond the calendar
    try:
        at = at if zone == "UTC" else at.astimezone(ZoneInfo(zone))
    except (LookupError, ValueError, OverflowError, OSError):
        zone = "UTC"  # this machine does not know it
    return f"{at:%a %Y-%m-%d %H:%M} {zone}"


def _build_scorer(query: str) -> Callable[[str], float]:
    """Scores texts by the share of the words of the query that they have, from 0 to 1."""
    return functools.partial(relevance.matched_share, relevance.parse_query(query))


def build_situation_candidates(situation: SituationState) -> list[PackCandidate]:
    return [
        PackCandidate(
            id=name,
            section="situation",
            text=f"- {name}: {one_line(field.text)}",
            label=len(f"- {name}: "),
            priority="high",
            recency=-number,
            origin=field.seq,
            source="situation",
        )
        for number, (name, field) in enumerate(situation.fields.items())
    ]


# Handles


def build_handle_candidates(
    context: SessionContext, request: PackRequest, items: Sequence[HistoryItem], display: Display
) -> Flow[list[PackCandidate]]:
    """The handles of the frame, and those that the request names. Results that are in the history are left out."""
    handles = (yield from _find_reachable(context)) if context.frame is not None else []
    candidates: list[PackCandidate] = []
    if handles:
        score_of, in_view = _build_scorer(request.query), _answered_calls(items)
        scores = {handle.id: score_of(f"{handle.title} {handle.source or ''}") for handle in handles}
        for handle in sorted(handles, key=lambda one: (-one.score, -scores[one.id], -one.at)):
            candidate = yield from _show_handle(context, request, handle, scores[handle.id], in_view, display)
            is_open = not candidate.omission and handle.priority != "critical" and handle.id not in request.include
            if is_open and handle.kind == "sub_agent_join" and handle.source is not None:
                result_text = text_of(content_of((yield from read_event(context.scope.stream, handle.at)))).strip()
                if _is_told(items, frame_seq(handle.source), result_text):
                    candidate = replace(candidate, omission=_IN_HISTORY)
            candidates.append(candidate)
    for name in request.include:
        if name in {handle.id for handle in handles}:
            continue
        at = handle_seq(name) or (parse_piece_id(name) or (0,))[0]
        candidate = PackCandidate(id=name, section="handles", text="", source=name, wanted=True, at=at, origin=at)
        if name in request.exclude:
            candidates.append(replace(candidate, omission=_EXCLUDED))
            continue
        row = yield from find_attachment_row(context, handle_seq(name))
        added = None if row is None else decode_handle(row)
        if added is not None:
            candidate = replace(candidate, priority=added.priority)
        result = added if added is not None and added.kind == "sub_agent_join" else None
        candidates.append((yield from _read_candidate(context, name, candidate, display, result)))
    return candidates


def _answered_calls(items: Sequence[HistoryItem]) -> frozenset[str]:
    """The calls whose results are in the history."""
    messages = (message for item in items if isinstance(item, MessageGroup) for message in item.messages)
    return frozenset(result.tool_call_id for message in messages for result in message.tool_results)


def _show_handle(
    context: SessionContext,
    request: PackRequest,
    handle: Handle,
    score: float,
    in_view: frozenset[str],
    display: Display,
) -> Flow[PackCandidate]:
    """A handle of the frame as a candidate: with its text, or with the reason why it is left out."""
    is_requested = handle.id in request.include
    candidate = _handle_candidate(handle, score, is_requested)
    omission = "" if is_requested else _omission_reason(handle, score, in_view, request)
    if handle.id in request.exclude:
        if handle.priority == "critical" and not request.force:
            reason = f"{handle.id} is Critical. To exclude it, pass force=True"
            raise InvalidArgument(argument="exclude", reason=reason)
        omission = _EXCLUDED
    if omission:
        return replace(candidate, omission=omission)
    tokens = _estimate_tokens(context, handle, request)
    if tokens > request.effective and not is_requested and handle.priority != "critical":
        omission = f"does not fit: {tokens:,} tokens, {handle.priority} priority"
        return replace(candidate, omission=omission, too_large=True)
    return (yield from _read_candidate(context, handle.id, candidate, display, handle))


def _estimate_tokens(context: SessionContext, handle: Handle, request: PackRequest) -> int:
    """About the tokens of a handle in the pack: all of it, or a preview, if it takes more than its share."""
    spooling = context.engine.spooling
    if handle.priority == "critical" or handle.tokens <= request.effective * spooling.result_share:
        return handle.tokens
    return min(handle.tokens, spooling.preview_bytes(request.effective) // PREVIEW_TOKEN_BYTES)


def _find_reachable(context: SessionContext) -> Flow[list[Handle]]:
    """The newest handles of a frame; of the older ones, those that are Critical."""
    page, most = (yield from list_attachments(context, limit=limits.PACK_HANDLES)), limits.PACK_HANDLES
    reachable = [*page]
    while len(page) == most:
        most = limits.READ_EVENTS
        page = yield from list_attachments(context, before=page[0].id, limit=most)
        reachable += (handle for handle in page if handle.priority == "critical")
    return reachable


def _handle_candidate(handle: Handle, score: float, wanted: bool) -> PackCandidate:
    title = one_line(handle.title)  # written by anyone: kept on one line
    source = " ".join(filter(None, (handle.kind, f'"{title}"' if title else "", handle.source or "")))
    return PackCandidate(
        id=handle.id,
        section="handles",
        text="",
        priority=handle.priority,
        score=score,
        recency=handle.at,
        source=source,
        at=handle.at,
        origin=handle.at,
        wanted=wanted,
    )


def _omission_reason(handle: Handle, score: float, in_view: frozenset[str], request: PackRequest) -> str:
    if handle.priority == "critical":
        return ""
    if not handle.is_in_context:
        return f"{handle.residency}: read_handle reads it"
    if handle.source in in_view:
        return _IN_HISTORY
    if score < request.profile.least_score:
        return f"does not fit the question ({score:.2f})"
    return ""


def _read_candidate(
    context: SessionContext, name: str, candidate: PackCandidate, display: Display, handle: Handle | None
) -> Flow[PackCandidate]:
    """The candidate with its text, quoted as data under its source. `handle` names the event of the content, if that is
    known."""
    partly: list[PartialPiece] = []
    texts: list[str] = []
    source, empty = candidate.source, ""
    try:
        parts, ending = yield from _read_parts(context, name, handle)
        if ending and handle is not None:
            source, empty = _describe_result(handle, ending), f" {NO_RESULT}"
        for part in parts:
            texts.append(
                (yield from _show_part(context, part, name, candidate.priority == "critical", display, partly))
            )
    except (HandleNotFound, BlobNotFound) as error:
        if candidate.priority == "critical":
            raise
        return replace(candidate, omission=str(error), fate="missing")
    lines = [f"> {line}" for text in texts for line in text.splitlines()]
    text = "\n".join([f"[{name}] {source}:", *(lines or [f">{empty}"])])
    note = describe_shown_shares(partly, display.readable) if partly else ""
    return replace(candidate, text=text, label=len(f"[{name}] "), share=shown_share(partly), share_note=note)


def _describe_result(handle: Handle, ending: str) -> str:
    title = one_line(handle.title)
    return " ".join(filter(None, ("Result of sub-task", handle.source, f"'{title}'" if title else "", f"({ending})")))


def _read_parts(context: SessionContext, name: str, handle: Handle | None) -> Flow[tuple[Sequence[Part], str]]:
    """The content of a handle, and how the child frame ended that it is the result of; empty for another handle."""
    if handle is not None:
        event = yield from read_event(context.scope.stream, handle.at)
        return content_of(event), ending_of(event)
    piece = parse_piece_id(name)
    if piece is not None:
        _, parts, _ = yield from read_message_piece(context.scope, *piece)
        return parts, ""
    return (yield from read_parts(context, check_handle_id(name))), ""


def _show_part(
    context: SessionContext, part: Part, name: str, critical: bool, display: Display, partly: list[PartialPiece]
) -> Flow[str]:
    """A part as it is shown. A body that is shown in part is added to `partly`."""
    if not isinstance(part, Body):
        return text_of([part])
    presenter = build_displayer(context, display)
    if critical and is_text(part.ref):
        _check_critical_size(part, display)
        amount: ReadAmount | None = ReadAmount(part.ref, part.ref.size, True)
    else:
        amount = presenter.amount(part, context.engine.spooling.result_share)
    shown: Part = part
    if amount is not None:
        start = yield from read_start(context.engine, amount.ref, amount.size)
        shown, _ = presenter.part(part, start, amount.whole, name, "text")
    if not isinstance(shown, Body):
        return text_of([shown])
    partly.append(PartialPiece(name, count_shown_bytes(shown), piece_size([part])))
    return show_body(shown, name, "text", readable=display.readable)


def _check_critical_size(body: Body, display: Display) -> None:
    """What is Critical is shown whole, or it is an error: it is not read if it cannot fit."""
    budget = display.budget or 0
    if body.whole_tokens > budget or body.ref.size > limits.WHOLE_BYTES:
        raise CriticalOverflow(needed=max(body.whole_tokens, budget + 1), budget=budget)


# Frames


def build_frame_candidates(
    context: SessionContext, state: SessionState, request: PackRequest, items: Sequence[HistoryItem]
) -> Flow[list[PackCandidate]]:
    """To a frame: the frames above it, its inputs and its live children. To a session: its live frames, and the results
    of finished ones that the history does not have."""
    if context.frame is None and not state.frames and state.popped <= state.start:
        return []
    count, budget = functools.partial(count_tokens, context), request.effective
    if context.frame is None:
        return [
            *(yield from _build_finished_candidates(context, state, budget, items)),
            *build_live_candidates(state.frames, budget, count),
        ]
    frame = state.frames[context.frame]
    source = yield from read_event(context.scope.stream, frame.inputs_at)
    inputs = source.inputs if isinstance(source, FramePushed | FrameUpdated) else None
    return [
        *build_ancestry_candidates(state.frames, frame.id),
        *build_input_candidates(frame, inputs, budget, count),
        *build_child_candidates(state.frames, frame.id, budget, count),
    ]


def _build_finished_candidates(
    context: SessionContext, state: SessionState, budget: int, items: Sequence[HistoryItem]
) -> Flow[list[PackCandidate]]:
    """The results of the root frames that ended last since the last reset, oldest first; of the newest roots only."""
    if state.popped <= state.start:
        return []
    where = session_filter(context.scope) | {"parent": 0}
    rows = yield from effects.rows(FrameRow, where, None, limits.PACK_ROOTS, order=_NEWEST_FRAMES)
    roots = [decode_frame(row) for row in rows if row.ended is not None]
    ended = [root for root in roots if state.start < root.touched <= state.version]
    ended.sort(key=lambda root: root.touched)
    candidates: list[PackCandidate] = []
    for frame in ended[-limits.PACK_FINISHED :]:
        event = yield from read_event(context.scope.stream, frame.touched)
        if isinstance(event, FramePopped) and event.frame == frame.id:
            candidate = build_finished_candidate(frame, event, budget)
            is_told = _is_told(items, frame_seq(frame.id), text_of(content_of(event)).strip())
            candidates.append(replace(candidate, omission=_IN_HISTORY) if is_told else candidate)
    return candidates


def _is_told(items: Sequence[HistoryItem], start: int, result: str) -> bool:
    """Whether the history has the result of a frame: frameworks put what a sub-agent said into the main conversation, as a
    message that follows, or as the result of the call. An import may read that before the sub-agent."""
    messages = [message for item in items if isinstance(item, MessageGroup) for message in item.messages]
    texts = [text_of(answer.content) for message in messages for answer in message.tool_results]
    texts += (message.text for message in messages if message.seq > start)
    whole = _strip_lines(result)
    return len(whole) >= _QUOTE and any(whole in _strip_lines(text) for text in texts)


def _strip_lines(text: str) -> str:
    """A text as it can be found where it is quoted: programs indent what they quote."""
    return "\n".join(line.strip() for line in text.strip().splitlines())
