"""The recall of a pack: passages of the conversation that left the view, and of the user's earlier sessions.

Laws:
- A message that is in view whole is not recalled. Of one that is shown in part, only what is not shown.
- Memory never stops a pack: what failed is in the manifest, as missing.
- A stored pack shows the same passages again, in the same words, or it is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from holdfast.core.history.guard import GuardInput
from holdfast.core.history.views import group_by_message
from holdfast.core.packs.assembly import PackCandidate
from holdfast.core.packs.recall import PassageView, build_recall_candidates
from holdfast.core.sessions.layers import TIMEZONE, is_expired
from holdfast.errors import PackChanged
from holdfast.flows.context import SessionContext, load_session
from holdfast.flows.effects import Flow
from holdfast.flows.frames.lookup import decode_handle
from holdfast.flows.history.handles import find_attachment_row
from holdfast.flows.load import CachedView
from holdfast.flows.memory.bootstrap import bootstrap_for_pack
from holdfast.flows.memory.guard import guard_passages, trace_passages
from holdfast.flows.memory.recall import has_frames, read_recalled, recall_for_pack
from holdfast.model import limits
from holdfast.model.content import calling_seq
from holdfast.model.history.handles import handle_seq
from holdfast.model.history.views import HistoryItem, Summary
from holdfast.model.memory.passages import PassageKey
from holdfast.model.memory.recall import MemoryAnswer, MemoryRange, RecalledPassage
from holdfast.model.packs.pack import Manifest, PackRequest, PassageTrace, PassageUse
from holdfast.model.sessions.messages import MessageGroup
from holdfast.model.state import SessionState
from holdfast.text.lines import one_line

_START_SHARE = 3
"""What earlier sessions ended with takes one in so many tokens of the recall, at most."""
_FAILURE = "recall"
"""The name of the candidate that says why memory could not answer."""


class PackRecall(NamedTuple):
    """What memory found for a pack."""

    passages: tuple[RecalledPassage, ...] = ()
    """Best first."""
    error: str = ""
    """Why it could not answer; empty if it did."""
    traces: tuple[PassageTrace, ...] | None = None
    """Of a stored pack, as they were then."""


class RecallCandidates(NamedTuple):
    """The candidates of a recall, and what a manifest stores of it."""

    candidates: list[PackCandidate]
    uses: tuple[PassageUse, ...]


def load_recall(
    context: SessionContext, state: SessionState, request: PackRequest, view: CachedView
) -> Flow[PackRecall]:
    """Ask memory about the query of a pack, and for the end of earlier sessions with what that leaves."""
    budget = min(limits.RECALL_TOKENS, int(request.effective * request.recall_share))
    if budget < 1:
        return PackRecall()
    partial = _find_partial_messages(context, state, view)
    shown = list(find_view_spans(context, state, view))
    if view.asked is not None and not request.asked:
        shown.append((view.asked.seq, view.asked.seq))  # the question itself
    answer = yield from ask_memory(context, state, request.query, budget, shown)
    passages = [one for one in answer.passages if not _is_shown(one, context, view, partial)]
    error = answer.error
    if state.has_memory and not error:
        left = min(budget - sum(one.tokens for one in passages), budget // _START_SHARE)
        known = {one.key for one in answer.passages if one.key is not None}
        start = yield from bootstrap_for_pack(context, state, max(0, left), shown, known)
        passages += start.passages
        error = start.error
    unique = {one.id: one for one in reversed(passages)}
    return PackRecall(tuple(one for one in passages if unique[one.id] is one), error)


def _find_partial_messages(context: SessionContext, state: SessionState, view: CachedView) -> frozenset[int]:
    """The messages in view of which a part may be recalled: one with a preview, or one that was paged out to the semantic
    tier."""
    reduced = group_by_message(state.view(context.frame).reduced)
    durable = {
        seq
        for seq, pieces in reduced.items()
        if any(piece.form == "page" and piece.tier == "durable" for piece in pieces.values())
    }
    semantic = {seq for seq, pieces in reduced.items() if any(piece.tier == "semantic" for piece in pieces.values())}
    previews = {seq for seq, pieces in view.partly.items() if any(piece.text for piece in pieces)}
    return frozenset(semantic | (previews - durable))


def _shown_spans(item: HistoryItem, partial: frozenset[int]) -> Iterator[tuple[int, int]]:
    if isinstance(item, MessageGroup):
        yield from ((message.seq, message.seq) for message in item.messages if message.seq not in partial)


def _is_shown(passage: RecalledPassage, context: SessionContext, view: CachedView, partial: frozenset[int]) -> bool:
    """Whether the words of a passage are in view: in a summary, or in a message that is shown in part."""
    if passage.stream != context.scope.stream:
        return False
    words = one_line(passage.text)
    for item in view.shown:
        if not item.first <= passage.seq <= item.last:
            continue
        texts = [item.text] if isinstance(item, Summary) else [one.text for one in item.messages if one.seq in partial]
        if any(words in one_line(text) for text in texts):
            return True
    return False


def ask_memory(
    context: SessionContext,
    state: SessionState,
    query: str,
    budget: int,
    shown: Sequence[tuple[int, int]],
    within: MemoryRange = MemoryRange(),
) -> Flow[MemoryAnswer]:
    """What memory has for a question beyond what is shown. A handle of a frame counts only while it is in the semantic
    tier with the content that was found."""
    answer = yield from recall_for_pack(context, state, query, budget, shown, within)
    stale = yield from _find_stale_attachments(context, answer.passages)
    if stale:
        shown = [*shown, *((seq, seq) for seq in sorted(stale))]
        answer = yield from recall_for_pack(context, state, query, budget, shown, within)
        stale = yield from _find_stale_attachments(context, answer.passages)
    stream = context.scope.stream
    left = (one for one in answer.passages if one.stream != stream or one.seq not in stale)
    return replace(answer, passages=tuple(left))


def _find_stale_attachments(context: SessionContext, passages: Sequence[RecalledPassage]) -> Flow[set[int]]:
    """The events of handles of frames, among these passages, that are not what the semantic tier has now."""
    stale: set[int] = set()
    for name, seq in sorted({(one.handle, one.seq) for one in passages if one.stream == context.scope.stream}):
        if not handle_seq(name):
            continue
        row = yield from find_attachment_row(context, handle_seq(name))
        handle = None if row is None else decode_handle(row)
        is_semantic = handle is not None and handle.residency == "paged_out" and handle.tier == "semantic"
        if handle is None or not is_semantic or handle.at != seq:
            stale.add(seq)
    return stale


def show_recall(
    context: SessionContext,
    state: SessionState,
    request: PackRequest,
    recall: PackRecall,
    guard_input: GuardInput,
    *,
    readable: bool,
) -> Flow[RecallCandidates]:
    """The passages as they may be shown."""
    traces = recall.traces
    if traces is None:
        traces = yield from trace_passages(context, guard_input, recall.passages)
    shown = guard_passages(guard_input, request.query, recall.passages, traces)
    view = build_passage_view(context, state, request.as_of_us, readable=readable)
    candidates = build_recall_candidates(shown, view, request.profile.least_score)
    if recall.error:
        failure = PackCandidate(id=_FAILURE, section="recall", text="", omission=one_line(recall.error), fate="missing")
        candidates.append(failure)
    uses = tuple(_build_use(one, trace) for one, trace in zip(recall.passages, traces, strict=True))
    return RecallCandidates(candidates, uses)


def read_stored_recall(context: SessionContext, pack: str, manifest: Manifest) -> Flow[PackRecall]:
    """What memory found for a stored pack. Raises PackChanged if something of it that the pack shows is gone."""
    uses = {use.id: use for use in manifest.passages}
    keys = {use.id: PassageKey(use.stream, use.seq, use.part) for use in uses.values() if use.stream is not None}
    failures = (entry.reason for entry in manifest.entries if entry.section == "recall" and entry.fate == "missing")
    error = next(failures, "")
    if not uses:
        return PackRecall((), error, ())
    state = yield from load_session(context)
    found = yield from read_recalled(context, state, [(key, uses[name].score) for name, key in keys.items()])
    passages = {one.key: one for one in found}
    for entry in manifest.entries:
        if entry.section == "recall" and entry.fate == "included" and keys.get(entry.id) not in passages:
            raise PackChanged(pack=pack, reason=f"the memory does not have {entry.id} ({entry.source}) any more")
    recalled = [
        replace(passages[key], id=name, reason=uses[name].reason) for name, key in keys.items() if key in passages
    ]
    return PackRecall(tuple(recalled), error, tuple(uses[one.id].trace for one in recalled))


def _build_use(passage: RecalledPassage, trace: PassageTrace) -> PassageUse:
    return PassageUse(
        id=passage.id,
        stream=passage.stream,
        seq=passage.seq,
        part=passage.part,
        score=passage.score,
        reason=passage.reason,
        trace=trace,
    )


def build_passage_view(
    context: SessionContext, state: SessionState, as_of_us: int, *, readable: bool = True
) -> PassageView:
    """Where passages are shown: in this session, by the dates of its time zone."""
    stream = context.scope.stream
    lineage = () if state.origin is None else state.origin.lineage
    own = {segment.stream_beside(stream): segment.last for segment in lineage} | {stream: state.version}
    zone = state.environment.get(TIMEZONE)
    is_known = zone is not None and not is_expired(zone, as_of_us)
    return PassageView(own, str(zone.value) if zone is not None and is_known else "UTC", readable)


def find_view_spans(context: SessionContext, state: SessionState, view: CachedView) -> Sequence[tuple[int, int]]:
    """What of a conversation is in view whole, and what is newer than the view since calls wait for their results."""
    partial = _find_partial_messages(context, state, view)
    waiting = [calling_seq(call.id) or 0 for call in state.open_calls if call.frame == context.frame]
    newer = [(min(waiting), state.version)] if waiting else []
    if has_frames(state):
        return [*(span for item in view.shown for span in _shown_spans(item, partial)), *newer]
    runs: list[tuple[int, int]] = []
    is_open = False
    for (
        item
    ) in view.shown:  # without frames, nothing is between two messages that are shown: few spans are searched fast
        for message in item.messages if isinstance(item, MessageGroup) else ():
            if message.seq in partial:
                is_open = False
            elif is_open:
                runs[-1] = (runs[-1][0], message.seq)
            else:
                runs.append((message.seq, message.seq))
                is_open = True
        is_open = is_open and isinstance(item, MessageGroup)
    return [*runs, *newer]
