"""The desk: takes the requests of clients, and says what leaves.

Laws: a request whose view is empty leaves as the client's own bytes. Most requests leave at once, by what is known in
memory, and are recorded with their replies; a request that begins a line, or may need a boundary first, is recorded before
it leaves. Nothing that a request holds raises an error here: what cannot be read or recorded leaves as it came.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import holdfast
from holdfast.errors import VersionConflict
from holdfast.gateway import figures as call_figures
from holdfast.gateway.bodies import UnreadableBody
from holdfast.gateway.boundaries import Boundaries
from holdfast.gateway.dialects import cut_body, read_request
from holdfast.gateway.edits import apply_view
from holdfast.gateway.lineage import count_shared, find_match
from holdfast.gateway.lines import Family, Line, Lines
from holdfast.gateway.model import Arrival, ClientMessage, ClientRequest, Outcome, PreparedRequest, SentView
from holdfast.gateway.options import DeskOptions
from holdfast.gateway.own_reads import OwnReads, ReadingStep
from holdfast.gateway.recorder import Recorder, Step, read_reply, record_use, refusal_key
from holdfast.gateway.splitters import ReadCall, ReadReply
from holdfast.types import shorten_name


class Desk:
    """Takes requests, in any number of threads."""

    def __init__(self, engine: holdfast.Engine, options: DeskOptions | None = None) -> None:
        self.engine = engine
        self.options = DeskOptions() if options is None else options
        self._lines = Lines(engine, user=self.options.user)
        self._reads = OwnReads(self.options.read_back)
        self._boundaries = Boundaries(engine, self.options, self._reads)
        self._recorder = Recorder(engine, self.options)

    # Requests

    def prepare(self, arrival: Arrival) -> PreparedRequest:
        """Say what leaves for a request. Its view is in the log before it leaves."""
        try:
            request = read_request(arrival.dialect, arrival.headers, arrival.body)
        except UnreadableBody:
            return PreparedRequest(arrival=arrival, body=arrival.body)
        family = self._lines.family(name_family(arrival, request))
        if request.side:
            side = Step(request=request, family=family)
            return PreparedRequest(arrival=arrival, body=arrival.body, step=side, family=family.name)
        step = self._continue_line(family, request, arrival.body)
        if step is None:
            with family.lock:
                try:
                    step = self._follow_line(family, request, arrival.body)
                except VersionConflict:  # another process went on with the line meanwhile
                    step = self._follow_line(family, request, arrival.body)
        assert step.line is not None, "it has just been found"
        step.line.head, step.line.asked = request.head, len(request.messages)
        return self._build(arrival, step, step.line)

    def _continue_line(self, family: Family, request: ClientRequest, body: bytes) -> Step | None:
        """The step of a request that goes on with a known line as it is, from memory alone; None for any other."""
        chain = request.chain
        match = find_match(chain, request.messages, family.branches_of(request.agent))
        line = family.lines.get(match.branch)
        view = None if line is None else line.view  # another thread may change it
        if line is None or view is None or line.is_past or line.is_left_alone is not False:
            return None
        if match.relation not in ("continue", "retry") or match.shared < len(line.nodes):
            return None
        if not line.is_measured or was_continued_elsewhere(request, max(match.shared, line.asked)):
            return None
        is_warm = self._boundaries.is_warm(line, request)
        if not is_warm or self._boundaries.is_pressed(line, request, match.shared) or not keeps_end(request, view):
            return None
        rest = cut_body(request, body, match.shared)
        return Step(request=request, family=family, line=line, hash=chain[-1], view=view, is_warm=True, unrecorded=rest)

    def _follow_line(self, family: Family, request: ClientRequest, body: bytes) -> Step:
        """Record a request, and make a boundary if the cache is cold, or the request does not fit."""
        line, known = self._lines.follow(family, request, body)
        step = Step(request=request, family=family, line=line, hash=line.nodes[len(request.messages) - 1].hash)
        step.new = tuple(place.seq for places in line.places[known:] for place in places)
        step.is_warm = self._boundaries.is_warm(line, request)
        self._reads.choose(line, request)
        if self._leaves_alone(line):
            return step
        view = self._boundaries.load_view(line, request)
        is_new = known < len(request.messages)  # a repeated request leaves as it left the first time
        is_free = not step.is_warm and not self._boundaries.has_other_prompts(line, request)
        if is_new and (is_free or self._boundaries.is_pressed(line, request, known)):
            self._boundaries.make(line, request)
            view = line.view or SentView()
        family.read(line.session)
        if family.lines.get(line.name, line).is_past:  # the view may be that of the epoch that another process began
            raise VersionConflict(stream=line.name, expected=line.epoch, actual=line.epoch + 1)
        step.view = view if keeps_end(request, view) else SentView()
        return step

    def _build(self, arrival: Arrival, step: Step, line: Line, *, from_memory: bool = False) -> PreparedRequest:
        """The bytes that leave."""
        if not step.view.is_empty:
            step.saved, step.view_name = line.saved, line.view_name
            step.is_boundary, line.has_boundary = line.has_boundary, False
        edits = self._reads.build_edits(line, step.request, arrival.body, step.view, from_memory=from_memory)
        reading = None if edits is None else ReadingStep(line.session, step.hash)
        body = apply_view(arrival.body, step.request, step.view, mark=True, others=edits or ())
        kept = 0 if step.unrecorded is None else len(step.unrecorded.text)
        family = step.family.name
        return PreparedRequest(arrival=arrival, body=body, step=step, family=family, kept_bytes=kept, reading=reading)

    def fall_back(self, arrival: Arrival) -> PreparedRequest:
        """Build the bytes to send from memory alone: the last view of the conversation, and new messages as they are."""
        request = read_request(arrival.dialect, arrival.headers, arrival.body)
        line = None if request.side else self._lines.find_known(name_family(arrival, request), request)
        if line is None:
            return PreparedRequest(arrival=arrival, body=arrival.body)
        view, chain = line.view or SentView(), request.chain
        known = count_shared(chain, line.nodes)
        view = view if known >= view.depth and keeps_end(request, view) and not line.is_left_alone else SentView()
        family = self._lines.family(name_family(arrival, request))
        rest = cut_body(request, arrival.body, known)
        is_warm = self._boundaries.is_warm(line, request)
        step = Step(
            request=request, family=family, line=line, hash=chain[-1], view=view, is_warm=is_warm, unrecorded=rest
        )
        return self._build(arrival, step, line, from_memory=True)

    def _leaves_alone(self, line: Line) -> bool:
        """Whether a provider refused a changed request of this conversation."""
        if line.is_left_alone is None:
            line.is_left_alone = line.session.entries.get(refusal_key(line)) is not None
        return line.is_left_alone

    # Reads

    def read(self, prepared: PreparedRequest, calls: Sequence[ReadCall]) -> list[str]:
        """The results of calls of the gateway's own tool."""
        assert isinstance(prepared.reading, ReadingStep), "the request has the tool"
        return self._reads.answer(prepared.reading, calls)

    def keep_reads(self, prepared: PreparedRequest, reply: ReadReply) -> None:
        """Store what was read in a reply, before its client knows the end of it."""
        assert isinstance(prepared.reading, ReadingStep), "the request has the tool"
        self._reads.keep(prepared.reading, reply)

    # Replies

    def leave_alone(self, prepared: PreparedRequest) -> None:
        """Change no more requests of a conversation: the provider refused one. settle() stores it."""
        if isinstance(prepared.step, Step) and prepared.step.line is not None:
            prepared.step.line.is_left_alone = True

    def settle(self, prepared: PreparedRequest, outcome: Outcome) -> None:
        """Record the reply to a request, what it cost, and the boundary that is due for the next one."""
        step = prepared.step
        if not isinstance(step, Step):
            return
        recorder = self._recorder
        with step.family.lock:
            if step.line is None:
                step.family.load(self.engine)
                recorder.record_side(step, outcome)
                return
            line = self._find_recorded(step)
            reply = read_reply(outcome)
            message = recorder.record_reply(step, line, outcome, reply)
            if message is None:
                record_use(line.conversation if not line.is_past else line.session, "late reply", step, reply)
            step.family.read(line.session)
            line = step.family.lines.get(line.name, line)
            recorder.record_figures(step, line, reply, outcome)
            if outcome.was_resent:
                line.is_left_alone = True
                body = {"status": outcome.status, "model": step.request.model, "sent_us": outcome.sent_us}
                line.session.entries.append(call_figures.REFUSAL_KIND, refusal_key(line), body)
            if message is not None and outcome.is_complete and not self._leaves_alone(line) and not line.is_past:
                self._boundaries.make_ahead(line, step.request)
            recorder.end_frame(line, message, outcome)
            step.family.read(line.session)
        recorder.observe(step, line)  # without the lock: it takes time, and the next request may be here

    def _find_recorded(self, step: Step) -> Line:
        """The line of a step, with the messages of its request, if it goes on as it was."""
        assert step.line is not None, "a step of a conversation"
        step.family.read(step.line.session)
        line = step.family.lines.get(step.line.name, step.line)
        if step.unrecorded is not None:
            known = self._lines.record_late(step.family, line, step.request, step.unrecorded)
            line = step.family.lines.get(line.name, line)
            step.new = tuple(place.seq for places in line.places[known:] for place in places)
        step.counted = line.count_tokens(len(step.request.messages)) - step.saved
        return line


def keeps_end(request: ClientRequest, view: SentView) -> bool:
    """Whether a view leaves the last reply of a request, and all behind it, as it is."""
    last = len(request.messages) - 1
    while last > 0 and request.messages[last].role != "assistant":
        last -= 1
    return view.depth <= max(0, last)


def was_continued_elsewhere(request: ClientRequest, known: int) -> bool:
    """Whether a request has a reply that this process did not pass on, behind the first so many messages: another gateway
    did, and may have made a boundary. The first of the new messages can be a reply whose record is not finished."""
    return any(message.role == "assistant" for message in request.messages[known + 1 :])


def name_family(arrival: Arrival, request: ClientRequest) -> str:
    """The name of the session for the conversation of a request."""
    kind = request.client or "gateway"
    if request.family:
        return shorten_name(f"{kind}-{request.family}")
    headers = dict(arrival.headers)
    secret = headers.get("authorization", "") + headers.get("x-api-key", "")
    opening = b"".join(message.digest for message in find_opening(request.messages))
    name = hashlib.sha256(secret.encode()).digest() + opening + request.cache_key.encode()
    return f"{kind}-{hashlib.sha256(name).hexdigest()[:12]}"


def find_opening(messages: Sequence[ClientMessage]) -> Sequence[ClientMessage]:
    """The system messages that a list begins with, which all conversations of an application may share, and the first other
    message."""
    end = next((number for number, message in enumerate(messages, 1) if message.role != "system"), len(messages))
    return messages[:end]
