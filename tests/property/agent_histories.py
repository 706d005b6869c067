"""Days of agents, played in a session and its frames. After each step what is shown is compared with what was said."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from hypothesis import event
from msgspec.structs import replace

import holdfast
from holdfast import errors
from holdfast.core import invariants, upcast
from holdfast.core.fold import fold_session
from holdfast.core.history.views import find_system_messages, group_seq, has_whole_groups, pieces_of
from holdfast.model.content import BlobRef, Body, Data, Image, Part, Text, calling_seq, text_of
from holdfast.model.history.events import ContextCompacted, HandleMoved
from holdfast.model.history.handles import Handle, piece_id
from holdfast.model.history.plans import Classic, Collapse, Frugal, Plan, Reduction
from holdfast.model.history.views import HistoryItem, HistoryView, Summary
from holdfast.model.rows import BlobRow, PageRow
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.state import SessionState
from holdfast.render import render_anthropic, render_openai_chat, render_openai_responses, render_text
from tests.core.plan_inputs import make_prose
from tests.property.agent_steps import (
    Answer,
    Compact,
    Erase,
    GiveUp,
    Late,
    OutAndIn,
    Page,
    Pop,
    Push,
    Reopen,
    Reset,
    Say,
    Shortened,
    Spoken,
    Step,
    Summarise,
    TooLate,
    Wait,
    Work,
)
from tests.property.session_model import ManualClock
from tests.property.store_tools import rows_dump, rows_of_table, session_events

NEWER = "claude-opus-4-8"
"""A model that takes system messages inside a conversation."""


SPOOLING = holdfast.types.Spooling(3_000, 200)


FRAMES = 2


LINE = 80
"""Tokens that the line for what was paged out never has: nothing shorter is worth it."""


Conversation: TypeAlias = Any
"""A session or a frame, blocking."""


class RenderedHistory(NamedTuple):
    """What was rendered of a conversation, and how it was shown then."""

    how: tuple[object, ...]
    renderings: dict[str, list[bytes]]


class HistoryPlayer:
    """A session, its frames, and what was said in them."""

    def __init__(self, opened: Callable[[], holdfast.Engine], clock: ManualClock) -> None:
        self.opened = opened
        self.engine: Any = opened()
        self.clock = clock
        self.session: Any = self.engine.create_session("s")
        self.said: dict[int, Message] = {}
        self.start = 0
        self.marks = 0
        self.frames: dict[str, Any] = {}
        self.shown: dict[str | None, RenderedHistory] = {}
        self.paged: set[tuple[int, int]] = set()
        """Every piece that was ever shown otherwise."""
        self.closed: list[str] = []
        """Calls that were given up."""
        self.late: dict[int, Message] = {}
        """What came for them all the same."""
        self.erased: set[str] = set()
        """The marks of what was erased."""
        self._keep(self.session.record("system", "You are a careful agent."))

    def at(self, where: int) -> Conversation:
        places = [self.session, *self.frames.values()]
        return places[where % len(places)]

    def give(self, step: Step) -> None:
        """Carry out a step, and compare."""
        match step:
            case Say() | Work() | Answer() | GiveUp():
                self._speak(step)
            case Compact() | Late() | Page() | OutAndIn() | Summarise():
                self._shorten(self.at(step.where), step)
            case TooLate(length):
                self._too_late(length)
            case Erase(pick):
                self._erase(pick)
            case Wait(seconds):
                self.clock.us += seconds * 1_000_000
            case Reopen():
                self.engine = self.opened()
                self.session = self.engine.session("s")
                self.frames = {name: self.session.frames.get(name) for name in self.frames}
            case _:
                self._begin_or_end(step)
        self.check()

    def _shorten(self, place: Conversation, step: Shortened) -> None:
        match step:
            case Compact():
                self._compact(place, step)
            case Late(_, what):
                self._late(place, what)
            case Page(_, pick, out, tier):
                self._page(place, pick, out, tier)
            case OutAndIn(_, pick):
                self._out_and_in(place, pick)
            case Summarise(_, turns):
                self._summarise(place, turns)

    # What is said and done

    def text(self, length: int) -> str:
        """A text that nobody else says."""
        self.marks += 1
        return make_prose(max(length, 12), f"mark{self.marks}x")

    def _keep(self, message: Message) -> Message:
        self.said[message.seq] = message
        return message

    def _speak(self, step: Spoken) -> None:
        place = self.at(step.where)
        waiting = place.context.view().open_calls
        match step:
            case Say(role="assistant") | Work() if waiting:
                return
            case Say(_, role, length):
                usage = (
                    {"input_tokens": place.context.view().tokens + 50, "output_tokens": 9}
                    if role == "assistant"
                    else None
                )
                self._keep(place.record(role, self.text(length), usage=usage))
            case Work():
                self._work(place, step)
            case Answer(_, length) if waiting:
                self._keep(place.result(waiting[0], self.text(length)))
            case GiveUp() if waiting:
                self.closed += [
                    call.id for call in self.session.state().open_calls if place._context.frame in (None, call.frame)
                ]
                place.close_calls("nobody answers")
                for message in self.session.messages(limit=5):  # in the session, those of its frames, too
                    if not message.erased:
                        self.said.setdefault(message.seq, message)

    def _too_late(self, length: int) -> None:
        """It is told of after all else, and is no part of what was said."""
        if self.closed:
            message = self.session.result(self.closed.pop(), self.text(length))
            assert message.late
            self.late[message.seq] = message

    def _work(self, place: Conversation, step: Work) -> None:
        asked = [
            {"name": "run", "args": {"file": self.text(12)}, "id": f"own_{number}"} for number in range(step.calls)
        ]
        calls = self._keep(place.record("assistant", self.text(30), tool_calls=asked)).tool_calls
        answers = [(call, self._value(length, step.kind)) for call, length in zip(calls, step.lengths, strict=False)]
        if step.between:
            self._keep(place.record("user", self.text(40)))
        if step.at_once and answers:
            results = [{"tool_call_id": call.id, "result": value} for call, value in answers]
            if step.kind in ("text", "json"):
                for message in place.record_all([{"role": "tool", "tool_results": results}]):
                    self._keep(message)
                return
        for call, value in answers:
            self._keep(place.result(call, value, is_error=step.kind == "error"))

    def _value(self, length: int, kind: str) -> Any:
        said = self.text(length)
        match kind:
            case "json":
                return {"rows": said.splitlines(), "count": length}
            case "parts":
                return [Text("It is:"), Text(said), Data([length])]
            case "image":
                return [Text(said), Image(url=f"https://example.org/{self.marks}.png")]
            case _:
                return said

    def _summarise(self, place: Conversation, turns: int) -> None:
        draft = place.context.draft_summary(turns)
        if draft is None or draft.tokens < 20:
            return
        place.context.summarize(draft, "It was long.")

    def _begin_or_end(self, step: Step) -> None:
        match step:
            case Push() if len(self.frames) < FRAMES:
                frame = self.session.frame("look into it", budget=1_000_000)
                self.frames[frame.id] = frame
            case Pop(where) if where and self.frames:
                name = list(self.frames)[where % len(self.frames)]
                if self.frames[name].context.view().open_calls:
                    return
                self.frames.pop(name).pop("completed", "done")
                self.shown.pop(name, None)
            case Reset(keep_system) if not self.frames and not self.session.state().open_calls:
                self.session.reset("again", keep_system=keep_system)
                self.start = self.session.state().version
                self.shown.clear()
                if not keep_system:
                    self._keep(self.session.record("system", "You are careful again."))

    # Boundaries

    def _compact(self, place: Conversation, step: Compact) -> None:
        window = max(1, round((place.context.view().tokens + step.before) * step.share))
        budget = window if step.prices is None else min(window, step.prices.window - step.prices.max_output)
        before, state = place.context.view(budget=budget), self.session.state()
        options: dict[str, Any] = {"window": window, "prices": step.prices, "cold": step.cold, "before": step.before}
        if isinstance(step.how, Frugal | Classic):
            options["policy"] = step.how
            planned = place.context.plan(**options)
            assert planned == place.context.plan(**options)
        else:
            options["strategy"] = step.how
        assert self.session.state() == state, "planning changes nothing"
        self.marks += 1
        try:
            made = place.context.compact(**options, key=f"compact {self.marks}")
        except errors.CriticalOverflow:
            assert "strategy" in options
            assert self.session.state() == state, "what cannot be done changes nothing"
            return
        if isinstance(step.how, Frugal | Classic):
            check_same(made, planned)
        self._check_made(place, before, made, step.before, budget)
        event(f"compacted, {made.why}" + (", folded" if made.fold else "") + (", reduced" if made.reduced else ""))
        assert place.context.compact(**options, key=f"compact {self.marks}").at == made.at
        again = place.context.compact(**options)
        assert again.empty, again.explain()
        assert self.session.state().version == (made.at or before.version)

    def _check_made(self, place: Conversation, before: HistoryView, made: Plan, more: int, budget: int) -> None:
        """What came of a plan is what it said, in the window that it was made for."""
        after = place.context.view(budget=budget)
        first = first_difference(before.items, after.items)
        same = () if made.first_changed is None else before.items[made.first_changed : first]
        assert (made.first_changed is None) == (first is None)
        assert made.first_changed == first or (same and len(find_system_messages(same)) == len(same)), (
            "what stays behind a summary whose text stays is the same, too"
        )
        assert made.figures.before == before.tokens + more
        fits = after.tokens + more <= made.figures.window
        collapses = [(step.after, step.op) for step in made.steps if isinstance(step.op, Collapse)]
        missed = any(left > op.target_tokens for left, op in collapses if not op.summary_tokens)
        assert made.target_met == (fits and not missed)
        if made.empty:
            assert made.at is None
            assert after == before
            return
        assert made.figures.after == after.tokens + more < made.figures.before
        (recorded,) = self.session.events(after=before.version)
        told = upcast.decode_event(recorded)
        assert isinstance(told, ContextCompacted)
        assert recorded.seq == made.at
        assert told.reduced == made.reduced
        assert told.fold == made.fold
        left = {each.seq for each in before.messages} - {each.seq for each in after.messages}
        assert left == {*(() if made.fold is None else made.fold.messages)}, "it names every message that left"
        changed = {each.seq for each in after.messages if each not in before.messages}
        assert changed == {each.message for each in made.reduced}, "and every one that is shown otherwise"
        self.paged |= {(each.message, each.piece) for each in made.reduced}

    def _late(self, place: Conversation, what: str) -> None:
        """A plan is good as long as nothing changed what it was made on; what was said since makes no difference."""
        planned = place.context.plan(
            window=max(1, place.context.view().tokens // 2), policy=Classic(large=200, excerpt=30)
        )
        resident = [each for each in place.handles.list() if each.is_in_context and each.tokens > LINE]
        if planned.empty or not resident:
            return
        if what == "page":
            self._moved(place, resident[-1], out=True)
            before = self.session.state()
            try:
                place.context.compact(planned)
            except errors.PlanStale:
                assert self.session.state() == before
                return
            raise AssertionError("what was paged out since made it stale")
        self._keep(place.record("user", self.text(30)))
        done = place.context.compact(planned)
        check_same(done, planned)
        assert done.at == self.session.state().version
        self.paged |= {(each.message, each.piece) for each in done.reduced}

    def _moved(self, place: Conversation, piece: Handle, *, out: bool, tier: str = "durable") -> Handle:
        """Under a key, twice: the second time nothing happens."""
        self.marks += 1
        key = f"move {self.marks}"

        def move() -> Any:
            return place.handles.page_out(piece, tier=tier, key=key) if out else place.handles.page_in(piece, key=key)

        moved: Handle = move()
        version = self.session.state().version
        assert move() == moved
        assert (place.handles.page_out(piece, tier=tier) if out else place.handles.page_in(piece)).id == piece.id
        assert self.session.state().version == version
        assert moved.id == piece.id
        assert moved.digest == piece.digest
        assert moved.is_in_context != out
        self.paged |= {(int(piece.id[1:].partition("_")[0]), int(piece.id.partition("_")[2]))}
        return moved

    def _page(self, place: Conversation, pick: int, out: bool, tier: str) -> None:
        pieces = [each for each in place.handles.list() if each.tokens > LINE]
        if not pieces:
            return
        piece = pieces[pick % len(pieces)]
        before = place.context.view()
        if piece.is_in_context and not out:
            return
        self._moved(place, piece, out=out, tier=tier)
        if not out:
            self._check_whole(place, piece)
        assert len(place.context.view().items) == len(before.items)

    def _check_whole(self, place: Conversation, piece: Handle) -> None:
        """What was brought back is what was recorded, to the byte, also what went to the blob store at once."""
        seq, number = (int(each) for each in piece.id[1:].split("_"))
        (now,) = [parts for at, parts, _ in pieces_of(_message(place.context.view(), seq)) if at == number]
        (was,) = [parts for at, parts, _ in pieces_of(self.said[seq]) if at == number]
        assert [self._whole(part) for part in now] == [self._whole(part) for part in was]

    def _whole(self, part: Part) -> Part:
        if not isinstance(part, Body):
            return part
        return Text(self.engine.blobs.read(part.ref).decode())

    def _out_and_in(self, place: Conversation, pick: int) -> None:
        resident = [each for each in place.handles.list() if each.is_in_context and each.tokens > LINE]
        if not resident:
            return
        piece, before = resident[pick % len(resident)], place.context.view()
        self._moved(place, piece, out=True)
        assert not next(each for each in place.handles.list() if each.id == piece.id).is_in_context
        self._moved(place, piece, out=False)
        after = place.context.view()
        assert (after.system, after.items, after.tokens) == (before.system, before.items, before.tokens)
        assert next(each for each in place.handles.list() if each.id == piece.id).digest == piece.digest

    # Erasing

    def _erase(self, pick: int) -> None:
        there = [seq for seq in self.said if self.said[seq].role != "system"]
        if not there or self.session.state().open_calls:
            return
        self.session.erase([there[pick % len(there)]], "asked to")
        messages = (*self.session.messages(limit=1_000), *self.session.evidence(limit=1_000))
        gone = [message.seq for message in messages if message.erased]
        for seq in gone:
            for kept in (self.said, self.late):
                if seq in kept:
                    self.erased |= find_marks(kept.pop(seq))
        asked = {call.id for message in self.said.values() for call in message.tool_calls}
        self.closed = [call for call in self.closed if call in asked]
        self.paged &= find_reduced_pieces(session_events(self.session))
        self.shown.clear()
        self._check_erased()

    def _check_erased(self) -> None:
        """Nothing of it is in the log, in any row, or in a body that anything refers to."""
        log = b"\n".join(event.payload or b"" for event in session_events(self.session))
        kept = [log, rows_dump(self.engine)]
        for row in rows_of_table(self.engine.store, BlobRow):
            kept.append(self.engine.blobs.read(BlobRef(row.digest, row.size)))
        for mark in self.erased:
            assert not any(mark.encode() in each for each in kept), mark

    # What is shown

    def check(self) -> None:
        state = self.session.state()
        assert invariants.find_violations(state) == []
        for place in (self.session, *self.frames.values()):
            self._check_view(place, state)

    def _own(self, state: SessionState, frame: str | None) -> list[Message]:
        """What was said in a conversation since the last reset, up to what waits for results, in the order of units."""
        waiting = [calling_seq(call.id) or 0 for call in state.open_calls if call.frame == frame]
        until = min(waiting, default=state.version + 1)
        spoken = [each for each in self.said.values() if self.start < each.seq and not each.skipped]
        own = [each for each in spoken if each.frame == frame and each.role != "system"]
        first = min((each.seq for each in own), default=state.version + 1)
        own += (each for each in spoken if each.role == "system" and each.frame in (None, frame) and each.seq > first)
        return sorted((each for each in own if group_seq(each) < until), key=lambda each: (group_seq(each), each.seq))

    def _check_view(self, place: Conversation, state: SessionState) -> None:
        frame = place._context.frame
        history = place.context.view()
        own = self._own(state, frame)
        ranges = [(item.first, item.last) for item in history.items if isinstance(item, Summary)]
        kept = {seq for each in state.summaries_of(frame) for seq in each.kept}
        folded = [
            each
            for each in own
            if each.role != "system"
            and each.seq not in kept
            and any(first <= each.seq <= last for first, last in ranges)
        ]
        seqs = [message.seq for item in history.items if isinstance(item, MessageGroup) for message in item.messages]
        assert seqs == [each.seq for each in own if each not in folded]
        assert sum(item.messages for item in history.items if isinstance(item, Summary)) == len(folded)
        assert all(has_whole_groups(item.messages) for item in history.items if isinstance(item, MessageGroup))
        firsts = [item.first if isinstance(item, Summary) else item.seq for item in history.items]
        assert firsts == sorted(firsts)
        self._check_pieces(place, state, history, folded)
        self._check_renderings(history, state)

    def _check_pieces(
        self, place: Conversation, state: SessionState, history: HistoryView, folded: list[Message]
    ) -> None:
        view = state.view(place._context.frame)
        reduced = {(each.message, each.piece) for each in view.reduced}
        for message in history.messages:
            said = self.said[message.seq]
            for (number, now, _), (_, was, _) in zip(pieces_of(message), pieces_of(said), strict=True):
                stored = any(isinstance(part, Body) for part in was)
                assert now == was or stored or (message.seq, number) in reduced
                assert not any(isinstance(part, Body) for part in now)
        in_view = {message.seq for message in history.messages}
        assert {message for message, _ in reduced} <= in_view, "the table is bounded by the view"
        pieces = place.handles.list()
        assert len({each.id for each in pieces}) == len(pieces)
        sources = [each.source for each in pieces if each.source is not None]
        assert len({*sources}) == len(sources)
        assert reduced <= {_piece_position(each) for each in pieces}
        held = place.context.occupancy()
        measure = [state.calibration.measure(each.tokens, _count(each)) for each in history.items]
        system = sum(state.calibration.measure(each.tokens, 1) for each in history.system)
        tail = sum(state.calibration.measure(len(each), 1) for each in history.tail)
        assert held.tokens == history.tokens == system + sum(measure) + tail
        assert held.handles == len(pieces)
        assert held.folded == len(folded)
        assert held.collapsed_tokens == sum(each.whole_tokens for each in folded)
        shown = [
            self.said[message.seq]
            for item in history.items
            if isinstance(item, MessageGroup)
            for message in item.messages
        ]
        whole = sum(each.whole_tokens for each in (*folded, *shown)) + sum(each.tokens for each in history.system)
        assert held.resident_tokens + held.non_resident_tokens == held.total_tokens == whole

    def _check_renderings(self, history: HistoryView, state: SessionState) -> None:
        """Calls and results stand together, and between two boundaries each rendering extends the last."""
        renderings = render_all(replace(history, tail=()))
        check_pairs(renderings)
        told = json.dumps(history.tail).encode()
        for mark in self.erased:
            assert not any(mark.encode() in each for entries in (*renderings.values(), [told]) for each in entries)
        head = () if history.items else tuple(each.seq for each in history.system)  # it is fixed once anything was said
        how = (state.view(history.frame).boundary, state.changed, head)
        last = self.shown.get(history.frame)
        if last is not None and last.how == how:
            check_extends(renderings, last.renderings)
        self.shown[history.frame] = RenderedHistory(how, renderings)

    def close(self) -> None:
        """What was shown is shown when all is over, with what closed the calls that still waited."""
        self.session.end("over")
        for message in self.session.messages(limit=20):
            if not message.erased:
                self.said.setdefault(message.seq, message)
        self._check_view(self.session, self.session.state())

    def check_all(self) -> None:
        """The log leads to this state, the rows are what a rebuild would make, and the transcript is as it was said."""
        events = session_events(self.session)
        state = SessionState()
        for recorded in events:
            state = fold_session(state, upcast.decode_event(recorded), recorded.type, recorded.time_us)
            assert invariants.find_violations(state) == []
        assert state == self.session.state()
        kept = [each for each in self.session.messages(limit=1_000) if not each.erased]
        assert kept == [self.said[seq] for seq in sorted(self.said)]
        rows = {(row.message, row.piece) for row in rows_of_table(self.engine.store, PageRow)}
        assert self.paged <= rows, "what was ever shown otherwise is known for good"
        assert self.engine.admin.verify().problems == ()


def find_reduced_pieces(events: Sequence[holdfast.types.StoredEvent]) -> set[tuple[int, int]]:
    """The pieces that boundaries tell of: who erases a message erases those, and what else they say."""
    pieces: list[Reduction] = []
    for told in map(upcast.decode_event, events):
        if isinstance(told, ContextCompacted):
            pieces += told.reduced
        elif isinstance(told, HandleMoved):
            pieces.append(told.piece)
    return {(each.message, each.piece) for each in pieces}


def check_same(done: Plan, planned: Plan) -> None:
    """What was done is what was planned. A plan counts a summary with the most that it may take, and has no text for it."""
    for name in ("scope", "frame", "version", "policy", "why", "ops", "reduced", "considered", "prices", "more"):
        assert getattr(done, name) == getattr(planned, name), name
    assert done.figures.after <= planned.figures.after
    assert done.target_met or not planned.target_met
    if done.fold is None or planned.fold is None:
        assert replace(done, at=None) == planned
    else:
        assert done.fold.tokens <= planned.fold.tokens
        assert replace(done.fold, text="", tokens=0) == replace(planned.fold, text="", tokens=0)


def find_marks(message: Message) -> set[str]:
    """The names of what a message says, that nothing else says."""
    said = json.dumps([text_of(parts) for _, parts, _ in pieces_of(message)]) + json.dumps(
        [call.args for call in message.tool_calls]
    )
    words = said.replace("/", " ").replace(".", " ").replace(":", " ").split()
    return {word for word in words if word.startswith("mark") and word.endswith("x")}


def _message(history: HistoryView, seq: int) -> Message:
    return next(each for each in history.messages if each.seq == seq)


def _piece_position(piece: Handle) -> tuple[int, int]:
    seq, number = piece.id[1:].split("_")
    assert piece.id == piece_id(int(seq), int(number))
    return int(seq), int(number)


def _count(item: HistoryItem | Message) -> int:
    return len(item.messages) if isinstance(item, MessageGroup) else 1


# Renderings


def render_all(history: HistoryView) -> dict[str, list[bytes]]:
    """In every dialect, entry by entry, the system's first. Marks for a cache move along, and are no content."""
    blocks = render_anthropic(history, breakpoints=0)
    newer = render_anthropic(history, breakpoints=0, model=NEWER)
    check_places(newer["messages"])
    responses = render_openai_responses(history)
    return {
        "text": [bytes([each]) for each in render_text(history).encode()],
        "anthropic": _encode_entries([blocks["system"], *blocks["messages"]]),
        "anthropic, newer": _encode_entries([newer["system"], *newer["messages"]]),
        "openai": _encode_entries(render_openai_chat(history)),
        "openai-responses": _encode_entries([responses.get("instructions"), *responses["input"]]),
    }


def check_places(messages: Sequence[dict[str, Any]]) -> None:
    """Where Anthropic accepts a system message: behind a user's, before a reply or at the end, never next to another."""
    roles = [each["role"] for each in messages]
    for at, role in enumerate(roles):
        if role == "system":
            assert roles[at - 1 : at] == ["user"]
            assert roles[at + 1 : at + 2] in ([], ["assistant"])
        elif at:
            assert role != roles[at - 1]


def check_extends(longer: dict[str, list[bytes]], shorter: dict[str, list[bytes]]) -> None:
    """A rendering begins with an earlier one. For Anthropic block by block: what users say in a row is one message."""
    for dialect, entries in longer.items():
        now, before = (
            (_blocks(entries), _blocks(shorter[dialect]))
            if dialect.startswith("anthropic")
            else (entries, shorter[dialect])
        )
        assert now[: len(before)] == before, dialect


def _blocks(entries: Sequence[bytes]) -> list[bytes]:
    system, *messages = map(json.loads, entries)
    return _encode_entries([system, *([each["role"], block] for each in messages for block in each["content"])])


def _encode_entries(entries: Sequence[Any]) -> list[bytes]:
    return [json.dumps(each, sort_keys=True).encode() for each in entries]


def first_difference(before: Sequence[HistoryItem], after: Sequence[HistoryItem]) -> int | None:
    """The number of the first item that is rendered otherwise; None if what is new only extends."""
    same = 0
    while same < min(len(before), len(after)) and _renders_alike(before[same], after[same]):
        same += 1
    return same if same < len(before) else None


def _renders_alike(one: HistoryItem, other: HistoryItem) -> bool:
    return _render_alone(one) == _render_alone(other)


def _render_alone(item: HistoryItem) -> dict[str, list[bytes]]:
    return render_all(HistoryView(scope=holdfast.types.Scope("t", "a", "s"), version=1, items=(item,)))


def check_pairs(renderings: dict[str, list[bytes]]) -> None:
    """Every call has its result right behind it, and every result its call."""
    asked: list[str] = []
    answered: list[str] = []
    for entry in map(json.loads, renderings["anthropic"][1:]):
        asked += [each["id"] for each in entry["content"] if each["type"] == "tool_use"]
        answered += [each["tool_use_id"] for each in entry["content"] if each["type"] == "tool_result"]
        assert not answered or {*answered} == {*asked[: len(answered)]} or {*answered} <= {*asked}
    assert sorted(asked) == sorted(answered)
    assert len({*asked}) == len(asked)
    asked, answered = [], []
    for entry in map(json.loads, renderings["openai"]):
        asked += [each["id"] for each in entry.get("tool_calls", ())]
        answered += [entry["tool_call_id"]] if entry["role"] == "tool" else []
        assert {*answered} <= {*asked}
    assert sorted(asked) == sorted(answered)
    asked, answered = [], []
    for entry in map(json.loads, renderings["openai-responses"][1:]):
        asked += [entry["call_id"]] if entry.get("type") == "function_call" else []
        answered += [entry["call_id"]] if entry.get("type") == "function_call_output" else []
        assert {*answered} <= {*asked}
    assert sorted(asked) == sorted(answered)
