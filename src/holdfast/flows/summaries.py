"""Summaries in view, and better texts for them: a boundary uses the rule-made text at once, a model's text comes later.

Laws: a replacement changes one item of the view and nothing else; it takes effect only while that very summary is in view,
so its messages are as they were; a summarizer that fails leaves what is there.
"""

from __future__ import annotations

import functools

import msgspec

from holdfast import codec, errors
from holdfast.core import upcast
from holdfast.core.calibrate import calibrated
from holdfast.core.units import grouped
from holdfast.flows import effects
from holdfast.flows.effects import Flow
from holdfast.flows.execute import Part
from holdfast.flows.guard import show_guarded
from holdfast.flows.history import read
from holdfast.flows.place import Context, Place, given_to, together
from holdfast.flows.read import stretch_of
from holdfast.flows.views import steady, summary_of
from holdfast.model import limits
from holdfast.model.commands import Summarize
from holdfast.model.messages import Message, Summary, SummaryDraft
from holdfast.model.names import check_size, checked_whole
from holdfast.model.state import SessionState, SummaryRef
from holdfast.model.view_events import SummaryRecorded


def ask_summarizer(context: Context, draft: SummaryDraft, tokens: int) -> Flow[str]:
    """The text of the configured summarizer; empty if there is none, it fails, or its text is too long."""
    if context.summarizer is None:
        return ""
    try:
        text = yield from effects.outside(functools.partial(context.summarizer.summarize, draft, tokens))
        codec.checked_text("the summary", text)
    except Exception:  # noqa: BLE001 - whatever goes wrong in there, what is extracted serves
        return ""
    fits = text.strip() and context.counter.count(text) <= tokens and len(text.encode()) <= limits.SPOOL_BYTES
    return text if fits else ""


def summaries(place: Place) -> Flow[tuple[Summary, ...]]:
    """The summaries in view, oldest first. `seq` names one, `made_by` says whether the rules made it or a model."""
    return (yield from steady(place, lambda state: _summaries(place, state)))


def _summaries(place: Place, state: SessionState) -> Flow[tuple[Summary, ...]]:
    found: list[Summary] = []
    for ref in state.summaries_of(place.frame):
        found.append((yield from summary_of(place.scope.stream, ref)))
    return tuple(found)


def replace_summary(
    place: Place, at: int, text: str, *, key: str | None = None, cause: str | None = None
) -> Flow[Summary]:
    """Show another text for the summary that event `at` made, as listed by summaries(), from now on.

    This is a boundary: the prompt cache is lost from that summary on, so the best moment is when the cache is cold. Refused
    with PlanStale if the summary is no longer in view, and if the text is empty or not shorter than the messages it
    stands for."""
    at = checked_whole("at", at, 1)
    codec.checked_text("the summary", text)
    check_size("the summary", len(text.encode()), "bytes", "SPOOL_BYTES", "Make it shorter.")
    tokens = place.context.counter.count(text)
    command = yield from steady(place, lambda state: _replacement(place, state, at, text, tokens))
    part = Part(command, given_to(place.context, tokens=[tokens]))
    bound = codec.encode(
        ["replace_summary", place.scope, place.frame, at, text]
    )  # the figures are not what was asked for
    (recorded,) = (yield from together(place.context, [part], key=key, cause=cause, bound=bound)).events
    event = upcast.current(recorded)
    if not isinstance(event, SummaryRecorded):
        raise errors.InvalidContent(reason="what was done under this key was erased since")
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


def _replacement(place: Place, state: SessionState, at: int, text: str, tokens: int) -> Flow[Summarize]:
    """What is asked for, with the figures of the view that it changes."""
    items, _ = yield from read(place, state)
    number = next((number for number, item in enumerate(items) if item.seq == at and isinstance(item, Summary)), None)
    sizes = [calibrated(state.calibration, item.tokens, item.blocks) for item in items]
    original = sum(sizes)
    final = original if number is None else original - sizes[number] + calibrated(state.calibration, tokens, 1)
    return Summarize(
        scope=place.scope,
        frame=place.frame,
        first=at,
        last=at,
        version=at,
        text=text,
        replaces=at,
        first_changed=number,
        original=original,
        final=final,
    )


def improve_summaries(place: Place, *, cause: str | None = None) -> Flow[tuple[Summary, ...]]:
    """Have the engine's summarizer write the summaries in view anew that the rules made, from the messages themselves.

    Returns the new ones. A summary stays as it is if the summarizer fails, if its text is longer than the one there, if the
    messages are more than SUMMARY_EVENTS, or if the view changed meanwhile. Each new text is a boundary, as with
    replace_summary()."""
    if place.context.summarizer is None:
        raise errors.InvalidContent(reason="there is no summarizer: open the engine with summarizer=")
    better: list[Summary] = []
    for old in (yield from summaries(place)):
        if old.made_by == "model":
            continue
        draft = yield from steady(place, functools.partial(_draft, place, old))
        text = "" if draft is None else (yield from ask_summarizer(place.context, draft, old.tokens))
        if text:
            try:
                better.append((yield from replace_summary(place, old.seq, text, cause=cause)))
            except errors.PlanStale:
                continue
    return tuple(better)


def _draft(place: Place, old: Summary, state: SessionState) -> Flow[SummaryDraft | None]:
    """The messages that a summary stands for; None if it is not in view any more, or they cannot be read at once."""
    ref = next((each for each in state.summaries_of(place.frame) if each.seq == old.seq), None)
    if ref is None:
        return None
    bare = msgspec.structs.replace(state, summaries=tuple(each for each in state.summaries if each is not ref))
    stretch = yield from stretch_of(place.scope.stream, bare, place.frame, old.first, old.last)
    if stretch is None or any(isinstance(each, SummaryRef) for each in stretch):
        return None
    messages = [each for each in stretch if isinstance(each, Message) and each.seq not in ref.kept]
    guarded = yield from show_guarded(place, state, grouped(messages, state), turn=0, deferring=False)
    return SummaryDraft(
        scope=place.scope,
        frame=place.frame,
        first=old.first,
        last=old.last,
        version=state.version,
        items=guarded.items,
        tokens=sum(each.tokens for each in messages),
    )
