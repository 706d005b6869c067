"""Summaries in view, and better texts for them. A boundary uses the text of the rules at once; the text of a model
comes later.

Laws: a replacement changes one item of the view and nothing else. It takes effect only while that summary is in view,
so its messages are unchanged. A summarizer that fails leaves the text as it is.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from holdfast import codec
from holdfast.core import upcast
from holdfast.core.history.boundaries import find_surrounding_summary
from holdfast.core.history.views import critical_seqs, group_messages
from holdfast.errors import InvalidArgument, InvalidInput, PlanStale
from holdfast.flows import effects
from holdfast.flows.context import EngineContext, SessionContext, build_input, execute_command, execute_commands
from holdfast.flows.effects import Flow
from holdfast.flows.execute import CommandRequest
from holdfast.flows.history.guard import load_guarded_items
from holdfast.flows.history.views import cut_open_groups, read_items, read_summary, with_steady_state
from holdfast.flows.sessions.model_uses import take_answer
from holdfast.flows.sessions.transcript import message_of, read_stretch
from holdfast.model import limits
from holdfast.model.content import calling_seq
from holdfast.model.history.commands import Summarize
from holdfast.model.history.events import SummaryRecorded
from holdfast.model.history.views import Summary, SummaryDraft
from holdfast.model.log import StoredEvent
from holdfast.model.names import StreamId, check_size, check_whole
from holdfast.model.sessions.events import MessageRecorded
from holdfast.model.sessions.messages import Message
from holdfast.model.sessions.model_uses import SummaryAnswer
from holdfast.model.state import SessionState, SummaryRef

if TYPE_CHECKING:
    from holdfast.render.pack import Pack

_Ride: TypeAlias = Callable[..., SummaryAnswer | Awaitable[SummaryAnswer]]
_MIN_DRAFT_TOKENS = 2
"""Fewer tokens cannot be said in a shorter text."""


def draft_summary(context: SessionContext, keep_turns: int = 2) -> Flow[SummaryDraft | None]:
    """The oldest part of the view, up to the last turns, to be summarised. None if there is nothing."""
    check_whole("keep_turns", keep_turns, 0, limits.READ_EVENTS)
    return (yield from with_steady_state(context, lambda state: _build_draft(context, state, keep_turns)))


def _build_draft(context: SessionContext, state: SessionState, keep_turns: int) -> Flow[SummaryDraft | None]:
    stream = context.scope.stream
    frame = context.frame
    first = state.start_of(frame) + 1
    last = min((yield from _find_turns_start(stream, state, frame, keep_turns)), _last_draft_seq(state, frame, first))
    for call in state.open_calls:
        if call.frame == frame:
            last = min(last, (calling_seq(call.id) or 0) - 1)
    summary = find_surrounding_summary(state.summaries_of(frame), last)
    if summary is not None and summary.last > last:
        last = summary.first - 1
    stretch = (yield from read_stretch(stream, state, frame, first, last)) if last >= first else []
    assert stretch is not None, "_last_draft_seq keeps within what is read at once"
    stretch, last = cut_open_groups(stretch, last)
    critical = critical_seqs(stretch)
    stretch = [entry for entry in stretch if isinstance(entry, SummaryRef) or entry.seq not in critical]
    if len(stretch) < 2 and all(isinstance(entry, SummaryRef) for entry in stretch):
        return None
    tokens = sum(entry.tokens for entry in stretch)
    if tokens < _MIN_DRAFT_TOKENS:
        return None
    entries: list[Message | Summary] = []
    for entry in stretch:
        entries.append((yield from read_summary(stream, entry)) if isinstance(entry, SummaryRef) else entry)
    guarded = yield from load_guarded_items(context, state, group_messages(entries, state), turn=0, deferring=False)
    return SummaryDraft(
        scope=context.scope,
        frame=frame,
        first=first,
        last=last,
        version=state.version,
        items=guarded.items,
        tokens=tokens,
    )


def _find_turns_start(stream: StreamId, state: SessionState, frame: str | None, turns: int) -> Flow[int]:
    """The last seq before so many turns."""
    before, hidden = state.version + 1, state.hidden_ranges(frame)
    while turns > 0 and before > state.start + 1:
        page = yield from effects.read_back(stream, before, limits.READ_EVENTS, (MessageRecorded.name,))
        for recorded in page:
            if recorded.seq <= state.start:
                return state.start
            message = message_of(recorded)
            turns -= message.role == "user" and message.frame == frame and message.seq not in hidden
            if not turns:
                return recorded.seq - 1
        if not page:
            return state.start
        before = page[-1].seq
    return before - 1 if not turns else state.start


def _last_draft_seq(state: SessionState, frame: str | None, first: int) -> int:
    """The last seq of a stretch of SUMMARY_EVENTS events that are not summarised yet."""
    last = first + limits.SUMMARY_EVENTS - 1
    for summary in state.summaries_of(frame):
        if summary.first > last:
            break
        last += summary.last - summary.first + 1
    return min(last, state.version)


def summarize(
    context: SessionContext, draft: SummaryDraft, text: str, *, key: str | None = None, cause: str | None = None
) -> Flow[Summary]:
    """Show the messages of a draft as `text` from now on; they stay in the transcript."""
    if type(draft) is not SummaryDraft or (draft.scope, draft.frame) != (context.scope, context.frame):
        raise InvalidArgument(argument="draft", reason="it is not what draft_summary() of this conversation returned")
    first, last = check_whole("draft.first", draft.first, 1), check_whole("draft.last", draft.last, 1)
    version = check_whole("draft.version", draft.version, 1)
    _check_text(text)
    command = Summarize(scope=context.scope, first=first, last=last, version=version, text=text, frame=context.frame)
    tokens = context.engine.counter.count(text)
    (recorded,) = (yield from execute_command(context, command, tokens=[tokens], key=key, cause=cause)).events
    return _build_summary(recorded)


def _check_text(text: object) -> None:
    size = len(codec.check_text("the summary", text).encode())
    check_size("the summary", size, "bytes", "SPOOL_BYTES", "Make it shorter.")


def _build_summary(recorded: StoredEvent) -> Summary:
    event = upcast.decode_event(recorded)
    if not isinstance(event, SummaryRecorded):
        raise InvalidArgument(argument="key", reason="the summary of this key was erased since")
    return Summary(
        seq=recorded.seq,
        first=event.first,
        last=event.last,
        messages=event.messages,
        text=event.text,
        tokens=event.tokens,
        replaced=event.replaced,
        made_by="model",
    )


def check_summarizer(engine: EngineContext) -> None:
    if engine.summarizer is None:
        raise InvalidArgument(argument="summarizer", reason="the engine has none: open it with summarizer=")


def ask_summarizer(context: SessionContext, draft: SummaryDraft, tokens: int, pack: Pack | None = None) -> Flow[str]:
    """The text of the configured summarizer; empty if there is none, it fails, or its text is too long. One that can ride
    on the pack of the last model call gets it."""
    engine = context.engine
    if engine.summarizer is None:
        return ""
    ask = functools.partial(engine.summarizer.summarize, draft, tokens)
    ride: Callable[..., SummaryAnswer | Awaitable[SummaryAnswer]] | None = getattr(
        engine.summarizer, "summarize_pack", None
    )
    if pack is not None and ride is not None:
        ask = functools.partial(ride, draft, tokens, pack)
    try:
        answer: Any = yield from effects.run_outside(ask)  # awaited by now
    except Exception:  # noqa: BLE001 - a summarizer may raise anything, and an extract serves instead
        return ""
    text, _ = yield from take_answer(context, answer)
    try:
        codec.check_text("the summary", text)
    except InvalidInput:
        return ""
    fits = text.strip() and engine.counter.count(text) <= tokens and len(text.encode()) <= limits.SPOOL_BYTES
    return text if fits else ""


def summaries(context: SessionContext) -> Flow[tuple[Summary, ...]]:
    """The summaries in view, oldest first."""
    return (yield from with_steady_state(context, lambda state: _read_summaries(context, state)))


def _read_summaries(context: SessionContext, state: SessionState) -> Flow[tuple[Summary, ...]]:
    summaries: list[Summary] = []
    for ref in state.summaries_of(context.frame):
        summaries.append((yield from read_summary(context.scope.stream, ref)))
    return tuple(summaries)


def replace_summary(
    context: SessionContext, at: int, text: str, *, key: str | None = None, cause: str | None = None
) -> Flow[Summary]:
    """Show another text for the summary that event `at` made. This is a boundary."""
    at = check_whole("at", at, 1)
    _check_text(text)
    tokens = context.engine.counter.count(text)
    command = yield from with_steady_state(context, lambda state: _build_replacement(context, state, at, text, tokens))
    part = CommandRequest(command, build_input(context.engine, tokens=[tokens]))
    bound = codec.encode(["replace_summary", context.scope, context.frame, at, text])  # without the figures of the view
    (recorded,) = (yield from execute_commands(context.engine, [part], key=key, cause=cause, key_content=bound)).events
    return _build_summary(recorded)


def _build_replacement(
    context: SessionContext, state: SessionState, at: int, text: str, tokens: int
) -> Flow[Summarize]:
    """The command, with the figures of the view that it changes."""
    items, _ = yield from read_items(context, state)
    number = next((number for number, item in enumerate(items) if item.seq == at and isinstance(item, Summary)), None)
    sizes = [state.calibration.measure(item.tokens, item.blocks) for item in items]
    original = sum(sizes)
    final = original if number is None else original - sizes[number] + state.calibration.measure(tokens, 1)
    return Summarize(
        scope=context.scope,
        frame=context.frame,
        first=at,
        last=at,
        version=at,
        text=text,
        replaces=at,
        first_changed=number,
        original=original,
        final=final,
    )


def improve_summaries(context: SessionContext, *, cause: str | None = None) -> Flow[tuple[Summary, ...]]:
    """Have the summarizer rewrite the summaries in view that the rules made, from the messages themselves. Returns the
    new ones."""
    check_summarizer(context.engine)
    better: list[Summary] = []
    for old in (yield from summaries(context)):
        if old.made_by == "model":
            continue
        draft = yield from with_steady_state(context, functools.partial(_build_source_draft, context, old))
        text = "" if draft is None else (yield from ask_summarizer(context, draft, old.tokens))
        if text:
            try:
                better.append((yield from replace_summary(context, old.seq, text, cause=cause)))
            except PlanStale:
                continue
    return tuple(better)


def _build_source_draft(context: SessionContext, old: Summary, state: SessionState) -> Flow[SummaryDraft | None]:
    """The messages that a summary replaces; None if it is no longer in view, or they cannot be read at once."""
    ref = next((summary for summary in state.summaries_of(context.frame) if summary.seq == old.seq), None)
    if ref is None:
        return None
    bare = msgspec.structs.replace(state, summaries=tuple(summary for summary in state.summaries if summary is not ref))
    stretch = yield from read_stretch(context.scope.stream, bare, context.frame, old.first, old.last)
    if stretch is None or any(isinstance(entry, SummaryRef) for entry in stretch):
        return None
    messages = [entry for entry in stretch if isinstance(entry, Message) and entry.seq not in ref.kept]
    guarded = yield from load_guarded_items(context, state, group_messages(messages, state), turn=0, deferring=False)
    return SummaryDraft(
        scope=context.scope,
        frame=context.frame,
        first=old.first,
        last=old.last,
        version=state.version,
        items=guarded.items,
        tokens=sum(message.tokens for message in messages),
    )
