"""What the gateway records of replies: messages, figures, facts, and the ends of sub-agents.

Laws: the reply of a request stands behind it, and is recorded once. The usage of every reply is counted, also of one that
comes too late to be a message.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from typing import Any

import msgspec

import holdfast
from holdfast.errors import Conflict, HoldfastError, VersionConflict
from holdfast.flows.sessions.messages import build_drafts, record_drafts
from holdfast.gateway import figures as call_figures
from holdfast.gateway.bodies import UnreadableBody
from holdfast.gateway.dialects import digest_reply
from holdfast.gateway.edits import has_own_mark
from holdfast.gateway.figures import ExchangeFigures, PromptSize, TokenScale
from holdfast.gateway.lineage import extend_chain
from holdfast.gateway.lines import TRIES, Conversation, Family, HeadUse, Line, build_mark, is_marked
from holdfast.gateway.model import BodyEnd, ClientRequest, Outcome, SentView
from holdfast.gateway.options import DeskOptions
from holdfast.gateway.statements import is_statement
from holdfast.model import limits
from holdfast.model.history.bills import CallBill, bill_usage
from holdfast.model.history.prices import Prices, find_prices
from holdfast.model.sessions.messages import Message, MessageDraft
from holdfast.model.sessions.model_uses import ModelUse

SIDE_SESSION = "gateway-side-calls"
"""The session for the figures of side calls that belong to no conversation."""
_FIGURES_READ = 20
"""Entries that are looked through for the last prompt of a line, after a restart."""
_MODEL_CHARS = 100
_RESULT_CHARS = 4_000
"""Of the reply of a sub-agent, that are stored as its result."""
_log = logging.getLogger("holdfast.gateway")


class Step(msgspec.Struct, kw_only=True):
    """What the desk needs to record the reply to a request."""

    request: ClientRequest
    family: Family
    line: Line | None = None
    """None for a side call."""
    hash: bytes = b""
    """Of the client's list."""
    view: SentView = SentView()
    saved: int = 0
    """Tokens that the view takes out, in the engine's count."""
    counted: int = 0
    """Tokens of the messages that are sent, in the engine's count."""
    view_name: int = 0
    """The name of the view; 0 if it is empty."""
    is_boundary: bool = False
    is_warm: bool = False
    unrecorded: BodyEnd | None = None
    """The messages that are recorded with the reply; None if all were recorded before the request left."""
    new: tuple[int, ...] = ()
    """The seqs of the messages that this request brought."""


class Recorder:
    """Records replies. The caller has the lock of the family."""

    def __init__(self, engine: holdfast.Engine, options: DeskOptions) -> None:
        self._engine = engine
        self._options = options

    def record_reply(self, step: Step, line: Line, outcome: Outcome, reply: MessageDraft | None) -> Message | None:
        """Record the reply behind the request that it answers; another reply to the same request is withdrawn first."""
        if outcome.reply is None or reply is None:
            return None
        for _ in range(TRIES):
            try:
                return self._record_reply(step, line, outcome.reply, reply)
            except VersionConflict:  # another process was first
                step.family.read(line.session)
                line = step.family.lines.get(line.name, line)
            except (HoldfastError, UnreadableBody, ValueError) as error:
                _log.warning("A reply was not recorded: %s", error)
                return None
        return None

    def _record_reply(self, step: Step, line: Line, body: dict[str, Any], reply: MessageDraft) -> Message | None:
        count = len(step.request.messages)
        if len(line.nodes) < count or line.nodes[count - 1].hash != step.hash or line.is_past:
            return None  # the client has sent another version meanwhile
        if len(line.nodes) > count:
            if not line.nodes[-1].is_reply or len(line.nodes) > count + 1:
                return None
            after, expect = line.places[count - 1][-1].seq, step.family.version_of(line)
            line.conversation.withdraw(after=after, reason="the client asked again", expect=expect)
            step.family.read(line.session)
        name = extend_chain(step.hash, digest_reply(step.request.dialect, body))
        calls = [str(call.provider_id) for call in reply.tool_calls if call.provider_id]
        mark = build_mark(line, name, "assistant", calls, (), is_reply=True)
        draft = msgspec.structs.replace(reply, metadata={"gateway": mark})
        expect = step.family.version_of(line)
        flow = record_drafts(line.conversation._context, [draft], as_found=True, expect=expect)
        return next(filter(is_marked, line.conversation._drive(flow)), None)

    def record_figures(self, step: Step, line: Line, reply: MessageDraft | None, outcome: Outcome) -> None:
        if not line.is_measured:
            restore_measures(line)
        view_name = 0 if outcome.was_resent else step.view_name
        if 200 <= outcome.status < 300:  # a request that failed or was given up may have had the view first
            step.is_boundary = view_name not in (0, line.settled_view)
            line.settled_view = view_name
        sent = bill_reply(reply, outcome)
        plain, saved, counted = sent, 0, step.counted + step.saved
        pieces = step.request.count_pieces()
        if sent is not None:
            if outcome.rounds == 1:  # the usage of more rounds counts the same messages several times
                line.scale.add(sent.tokens, step.counted)
            use = line.heads.get(step.request.head)
            before = line.last_prompt if use is None or use.prompt is None else use.prompt
            taken = 0 if outcome.was_resent else step.saved
            is_boundary = view_name not in (0, 0 if before is None else before.view)
            factor = line.scale.factor
            size = call_figures.measure_prompt(
                sent.tokens, counted, taken, factor, before=before, is_boundary=is_boundary
            )
            plain = call_figures.bill_plain(
                sent,
                size.plain,
                before=before,
                is_boundary=is_boundary,
                is_warm=step.is_warm,
                is_overtaken=line.is_fork or outcome.sent_us < line.sent_us,
                head=line.head_tokens,
                has_own_mark=not outcome.was_resent and has_own_mark(step.request, step.view),
            )
            saved = size.plain - sent.tokens
            if outcome.rounds == 1:
                cached = sent.read + sent.written
                before = line.last_prompt = msgspec.structs.replace(size, cached=cached, view=view_name)
                line.head_tokens = max(0, sent.tokens - round(step.counted * line.scale.factor))
            line.note_head(step.request.head, HeadUse(outcome.ended_us, pieces, before))
            line.sent_us, line.replied_us, line.is_fork = outcome.sent_us, outcome.ended_us, False
        found = ExchangeFigures(
            sent_us=outcome.sent_us,
            ended_us=outcome.ended_us,
            dialect=step.request.dialect,
            model=step.request.model,
            status=outcome.status,
            agent=line.agent,
            sent=sent,
            plain=plain,
            saved=saved,
            counted=counted,
            pieces=pieces,
            view=view_name,
            head=line.head_tokens,
            head_digest=step.request.head.hex(),
            factor=round(line.scale.factor, 6),
            is_boundary=step.is_boundary,
            was_resent=outcome.was_resent,
        )
        self._store_figures(line.session, found, find_prices(step.request.model))

    def _store_figures(self, session: holdfast.Session, found: ExchangeFigures, prices: Prices | None) -> None:
        priced = call_figures.price_call(msgspec.structs.replace(found, run=self._options.run), prices)
        key = f"{found.sent_us}-{hashlib.sha256(msgspec.json.encode(priced)).hexdigest()[:8]}"
        session.entries.append(call_figures.ENTRY_KIND, key, msgspec.to_builtins(priced))

    def record_side(self, step: Step, outcome: Outcome) -> None:
        """Store the figures of a side call, in the session of its conversation if there is one."""
        session = step.family.current or self._engine.session(SIDE_SESSION, create=True)
        reply = read_reply(outcome)
        sent = bill_reply(reply, outcome)
        record_use(session, "side call", step, reply)
        found = ExchangeFigures(
            sent_us=outcome.sent_us,
            ended_us=outcome.ended_us,
            dialect=step.request.dialect,
            model=step.request.model,
            status=outcome.status,
            agent=step.request.agent,
            side=step.request.side,
            sent=sent,
            plain=sent,
        )
        self._store_figures(session, found, find_prices(step.request.model))

    def observe(self, step: Step, line: Line) -> None:
        """Read facts from what the user said in this request, if it is not longer ago than a page of messages.

        A list that begins a line may have what was said long ago. It is read if nothing else can have been said since: the
        facts are those of a new session. Otherwise only the newest message is read."""
        if not self._options.observe or line.frame is not None or not step.new:
            return
        page = line.session.messages(limit=min(len(step.new) + 1, limits.READ_EVENTS))
        stated = [message for message in page if message.seq in step.new and is_statement(message)]
        is_first = bool(line.places) and step.new[0] == line.places[0][0].seq
        if is_first and (line.epoch or self._options.user is not None):
            stated = stated[-1:]
        for message in stated:
            try:
                line.session.observe(message)
            except HoldfastError as error:
                _log.warning("A message was not read for facts: %s", error)

    def end_frame(self, line: Line, message: Message | None, outcome: Outcome) -> None:
        """A reply of a sub-agent without calls is its result."""
        if line.frame is None or message is None or message.tool_calls or message.skipped or not outcome.is_complete:
            return
        with contextlib.suppress(Conflict):  # it has ended with its session's epoch
            line.session.frames.get(line.frame).pop("completed", message.text[:_RESULT_CHARS])


def restore_measures(line: Line) -> None:
    """Set what the last calls of a line said about sizes, and what they sent before the messages, from its entries: another
    process made them."""
    line.is_measured = True
    uses: dict[bytes, HeadUse] = {}
    for entry in line.session.entries.list(kind=call_figures.ENTRY_KIND, limit=_FIGURES_READ):  # the newest first
        try:
            found = msgspec.convert(entry.body, ExchangeFigures)
            head = bytes.fromhex(found.head_digest)
        except (msgspec.ValidationError, ValueError):
            continue
        if found.agent != line.agent or found.side or not 200 <= found.status < 300:
            continue
        line.head = line.head or head
        if found.counted and found.sent is not None and found.plain is not None:
            prompt = PromptSize(
                sent=found.sent.tokens,
                plain=found.plain.tokens,
                counted=found.counted,
                cached=found.sent.read + found.sent.written,
                view=found.view,
            )
            if not uses:
                line.last_prompt = prompt
                line.scale, line.head_tokens, line.settled_view = TokenScale(found.factor), found.head, found.view
            uses.setdefault(head, HeadUse(found.ended_us, found.pieces, prompt))
    for head, use in reversed(uses.items()):
        line.note_head(head, use)


def read_reply(outcome: Outcome) -> MessageDraft | None:
    """The reply as a session records it; None if there is none that can be read."""
    if outcome.reply is None:
        return None
    try:
        (reply,) = build_drafts(outcome.reply)
    except (HoldfastError, ValueError) as error:
        _log.warning("A reply was not read: %s", error)
        return None
    return reply


def record_use(conversation: Conversation, purpose: str, step: Step, reply: MessageDraft | None) -> None:
    """Record the usage of a reply that is no message of the conversation."""
    if reply is not None and reply.usage is not None:
        use = ModelUse(purpose=purpose, model=step.request.model[:_MODEL_CHARS], usage=reply.usage)
        conversation.record_model_uses(use)


def bill_reply(reply: MessageDraft | None, outcome: Outcome) -> CallBill | None:
    """What a call took, by the usage in its reply."""
    usage = None if reply is None else reply.usage
    return bill_usage(usage, count_long_writes(outcome.reply))


def count_long_writes(reply: object) -> int:
    """The tokens that Anthropic says it wrote to a cache of an hour."""
    usage = reply.get("usage") if isinstance(reply, dict) else None
    created = usage.get("cache_creation") if isinstance(usage, dict) else None
    tokens = created.get("ephemeral_1h_input_tokens") if isinstance(created, dict) else None
    return tokens if type(tokens) is int else 0


def refusal_key(line: Line) -> str:
    return f"{call_figures.REFUSAL_KIND}-{line.frame or 'main'}"
