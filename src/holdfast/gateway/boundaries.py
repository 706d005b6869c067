"""Boundaries of the gateway: when the view of a line changes, and what it is then.

A boundary is made after a reply, for the requests that follow: so no request waits for it. Only where the cache is cold,
or a request does not fit, is it made before the request leaves.

Laws: a boundary is in the log before a request with it leaves. A view depends on the log alone.
"""

from __future__ import annotations

from collections.abc import Callable

import holdfast
from holdfast.errors import Conflict, HoldfastError
from holdfast.flows.history.compaction import plan as plan_compaction
from holdfast.gateway.lines import HeadUse, Line, name_view
from holdfast.gateway.model import ClientRequest, SentView
from holdfast.gateway.options import DeskOptions
from holdfast.gateway.own_reads import OwnReads
from holdfast.gateway.policies import GROWTH_STEP, choose_policy, plan_window
from holdfast.gateway.read_back import reword_texts
from holdfast.gateway.recorder import restore_measures
from holdfast.gateway.views import (
    FoldedRange,
    ViewChanges,
    build_view,
    count_saved,
    is_sound,
    read_changes,
)
from holdfast.model.history.plans import Plan, Spool
from holdfast.model.history.prices import UNKNOWN_PRICES, Prices, find_prices, with_ttl

NOTES_KIND = "gateway.notes"
"""The entry with what stands behind the summary of a boundary."""
_GROWTH_SHARE = 50
"""The part of the window by which a conversation has grown before a boundary is looked for again, if that is less than
GROWTH_STEP."""
_BYTES_PER_TOKEN = 4
_LOOK_BACK = 20
"""The blocks before a cache mark, with its own, at which Anthropic looks for a prompt that it has."""
_MAX_NOTES = 20


class Boundaries:
    """Makes boundaries, and reads views."""

    def __init__(self, engine: holdfast.Engine, options: DeskOptions, reads: OwnReads) -> None:
        self._options = options
        self._reads = reads
        self._policy = choose_policy(options.policy)
        self._count: Callable[[str], int] = engine._context.counter.count
        self._now_us: Callable[[], int] = engine._context.clock.now_us

    # Views

    def load_view(self, line: Line, request: ClientRequest) -> SentView:
        """The view in effect; it is built again only after a boundary."""
        state = line.session.state()
        boundary = max(state.changed, state.view(line.frame).boundary)
        if line.view is None or line.view_at != boundary:
            changes = read_changes(line)
            entry = line.session.entries.get(_notes_key(changes)) if changes.folded else None
            notes = str(entry.body) if entry is not None else ""
            view = build_view(line, request, changes, notes=notes, reword=self._reword(line, request))
            view = view if is_sound(request.messages, view) else SentView()
            line.view, line.view_at, line.view_name = view, boundary, name_view(view)
            line.saved = count_saved(line, view, changes, self._count)
        return line.view

    def _reword(self, line: Line, request: ClientRequest) -> Callable[[str], str]:
        read_back = self._reads.choose(line, request)
        return lambda text: reword_texts(text, read_back)

    # Circumstances

    def is_warm(self, line: Line, request: ClientRequest) -> bool:
        """Whether the provider's cache still has the last prompt of this line, as far as one can tell."""
        if not line.is_measured:
            restore_measures(line)
        replied_us = line.replied_us
        if not has_same_head(line, request):  # a client may change the model or the tools, and back
            use = line.heads.get(request.head)
            replied_us = 0 if use is None or not is_in_reach(request, use) else use.replied_us
        return self._is_recent(replied_us, request)

    def has_other_prompts(self, line: Line, request: ClientRequest) -> bool:
        """Whether the cache has the conversation also with another head. A boundary would break both."""
        others = (use for head, use in line.heads.items() if head != request.head and is_in_reach(request, use))
        return any(self._is_recent(use.replied_us, request) for use in others)

    def _is_recent(self, replied_us: int, request: ClientRequest) -> bool:
        ttl = request.ttl_s or find_request_prices(request).ttl_s
        return bool(replied_us) and self._now_us() - replied_us <= ttl * 1_000_000

    def is_pressed(self, line: Line, request: ClientRequest, known: int) -> bool:
        """Whether a request does not fit with the present view. Messages behind the first `known` ones are counted by
        their bytes: so the answer is the same before and after they are recorded."""
        new = request.messages[known:]
        more = (new[-1].at.end - new[0].at.start) // _BYTES_PER_TOKEN if new else 0
        return line.count_tokens(known) - line.saved + more > self._find_window(line, request)

    def _count_head(self, line: Line, request: ClientRequest) -> int:
        """The tokens before the messages, in the engine's count."""
        return round(_measure_head(line, request) / line.scale.factor)

    def _find_window(self, line: Line, request: ClientRequest) -> int:
        """The most tokens of the messages, in the engine's count."""
        head = _measure_head(line, request)
        window = plan_window(find_request_prices(request), request.max_output, head, self._options.window)
        return max(1, round(window / line.scale.factor))

    # Boundaries

    def make_ahead(self, line: Line, request: ClientRequest) -> None:
        """After a reply: make the boundary that is due for the next request, if the conversation has grown."""
        step = min(GROWTH_STEP, self._find_window(line, request) // _GROWTH_SHARE)
        if line.tokens - line.planned_tokens >= step and not self.has_other_prompts(line, request):
            line.planned_tokens = line.tokens
            self.make(line, request)

    def make(self, line: Line, request: ClientRequest) -> bool:
        """Commit the boundary that is due, if any; its view is loaded. Whether there was one."""
        caches = request.dialect != "anthropic" or request.ttl_s is not None
        if not caches and not self.is_pressed(line, request, len(request.messages)):
            return False  # a client that does not cache may send nothing more
        context = line.conversation.context
        adds_tool = self.load_view(line, request).is_empty and self._reads.choose(line, request).kind == "tool"
        plan = context._drive(
            plan_compaction(
                context._context,
                window=self._find_window(line, request),
                prices=find_request_prices(request),
                policy=self._policy,
                cold=not has_same_head(line, request) and not self.is_warm(line, request),
                rewritten_head=self._count_head(line, request) if adds_tool else None,
            )
        )
        if plan.empty or any(isinstance(op, Spool) for op in plan.ops) or not self._fits(line, request, plan):
            return False
        try:
            done = context.compact(plan)
        except Conflict:  # another process was first: what it made is in effect
            self.load_view(line, request)
            return False
        self._store_notes(line, request, done)
        self.load_view(line, request)
        line.has_boundary = True
        return True

    def _fits(self, line: Line, request: ClientRequest, plan: Plan) -> bool:
        """Whether a plan changes the request, and leaves it valid."""
        now = read_changes(line)
        folded = now.folded
        if plan.fold is not None:
            at = line.session.state().version + 1
            folded = (FoldedRange(plan.fold.first, plan.fold.last, frozenset(plan.fold.kept), at),)
        changes = ViewChanges(now.boundary, folded, ("",), (*now.reduced, *plan.reduced))
        view = build_view(line, request, changes)
        before = SentView() if line.view is None else line.view
        return is_sound(request.messages, view) and (view.removed, view.replaced) != (before.removed, before.replaced)

    def _store_notes(self, line: Line, request: ClientRequest, plan: Plan) -> None:
        """Store the facts that stand behind the summary until the next boundary. Known agents name their conversations; an
        id of another client may stand for several, so only the facts that this one states are shown."""
        if plan.fold is None:
            return
        facts = line.session.facts.items()
        if not request.client and self._options.user is None:
            own = {place.seq for places in line.places for place in places}
            facts = tuple(fact for fact in facts if any(mention.seq in own for mention in fact.mentions))
        if facts := facts[:_MAX_NOTES]:
            lines = [f"- {fact.key}: {fact.value}" for fact in facts]
            text = "\n".join(["Facts that the user stated before this summary was written:", *lines])
            line.session.entries.append(NOTES_KIND, _notes_key(read_changes(line)), text)


def _measure_head(line: Line, request: ClientRequest) -> int:
    """The tokens before the messages, in the provider's count: by the last reply, if there was one."""
    return line.head_tokens or request.head_bytes // _BYTES_PER_TOKEN


def has_same_head(line: Line, request: ClientRequest) -> bool:
    """Whether a request has the same before its messages as the last one of its line, as far as that is known."""
    return line.head in (b"", request.head)


def is_in_reach(request: ClientRequest, use: HeadUse) -> bool:
    """Whether a provider finds the prompt of an earlier call with the same head: Anthropic looks back at so many blocks."""
    return request.dialect != "anthropic" or request.count_pieces() - use.pieces < _LOOK_BACK


def find_request_prices(request: ClientRequest) -> Prices:
    """The prices of the model in a request, for the cache that the client asks for."""
    prices = find_prices(request.model) or UNKNOWN_PRICES
    if request.ttl_s is None or request.ttl_s == prices.ttl_s:
        return prices
    try:
        return with_ttl(prices, request.ttl_s)
    except HoldfastError:
        return prices


def _notes_key(changes: ViewChanges) -> str:
    return f"{NOTES_KIND}-{max(folded.at for folded in changes.folded)}"
