"""Withdrawals among all else that changes a view, in random order: compactions, pages, erasures, frames, resets, situations
and facts.

Whatever comes: no view shows a word that was withdrawn, each other message is shown or summarised, a withdrawal that is
undone at once shows the same, every event is one that a command can have made, and a copy in another store shows the same.
"""

from __future__ import annotations

import re
from contextlib import suppress
from random import Random
from typing import Any

import pytest

import holdfast
from holdfast import codec, errors
from holdfast.core.faults import find_fault
from holdfast.core.fold import fold_session
from holdfast.core.invariants import find_violations
from holdfast.core.upcast import decode_event
from holdfast.model.state import SessionState
from holdfast.runtime.store_copy import copy
from holdfast.types import SummarizeOldest, Summary
from tests.property.session_model import CharCounter
from tests.property.store_tools import dump, session_events, store_of_kind
from tests.property.transcript_player import check_pairs
from tests.support import CountingIds, SteppingClock, figure

RUNS = figure(24, 2_000)
STEPS = 45
ERASABLE = (
    "message.recorded",
    "messages.withdrawn",
    "messages.restored",
    "frame.compacted",
    "situation.updated",
    "handle.moved",
)
MARK = re.compile(rb'"cache_control":\{"type":"ephemeral"\},?')
WORD = re.compile(r"w\d+x")


class Player:
    """Random steps on a session and its frames."""

    def __init__(self, engine: holdfast.Engine, seed: int) -> None:
        self.random = Random(seed)
        self.session = engine.create_session(f"s{seed}")
        self.frames: list[holdfast.Frame] = []
        self.words = 0

    def step(self) -> None:
        steps = {
            self.talk: 10,
            self.call: 4,
            self.answer: 6,
            self.compact: 3,
            self.page: 2,
            self.withdraw: 6,
            self.restore: 4,
            self.erase: 2,
            self.push: 1,
            self.pop: 1,
            self.update: 2,
            self.state_fact: 2,
            self.reset: 0.2,
        }
        self.random.choices([*steps], [*steps.values()])[0]()

    def conversation(self) -> Any:
        return self.random.choice([self.session, self.session, *self.frames])

    def text(self) -> str:
        """A text with a word that no other has."""
        self.words += 1
        return f"w{self.words}x " + "filler text " * self.random.choice([1, 30])

    def talk(self) -> None:
        place = self.conversation()
        roles = ["user"] if place.open_calls() else ["user", "user", "assistant", "assistant"]
        place.record(self.random.choice(roles + ["system"] * (place is self.session)), self.text())

    def call(self) -> None:
        place = self.conversation()
        if not place.open_calls():
            calls = [{"name": "look", "args": {"at": self.text()}} for _ in range(self.random.choice([1, 2]))]
            place.record("assistant", self.text(), tool_calls=calls)

    def answer(self) -> None:
        place = self.conversation()
        for call in place.open_calls():
            if self.random.random() < 0.7:
                place.result(call.id, self.text(), is_error=self.random.random() < 0.2)

    def compact(self) -> None:
        strategy = SummarizeOldest(keep_recent=self.random.randrange(1, 5))
        self.conversation().context.compact(strategy=strategy, window=100_000)

    def page(self) -> None:
        place = self.conversation()
        if handles := place.handles.list():
            move = self.random.choice([place.handles.page_out, place.handles.page_out, place.handles.page_in])
            with suppress(errors.Conflict, errors.InvalidInput):  # it is too small, or there already
                move(self.random.choice(handles))

    def withdraw(self) -> None:
        place = self.conversation()
        before, waits = render(place), bool(place.open_calls())
        after = self.random.choice([None, self.random.randrange(self.session.state().version + 2)])
        withdrawal = place.withdraw(after)
        if withdrawal is not None and not waits and self.random.random() < 0.5:
            place.restore(withdrawal)
            assert render(place) == before

    def restore(self) -> None:
        place = self.conversation()
        refs = [each.seq for each in self.session.state().withdrawals if each.frame == frame_of(place)]
        if refs:
            with suppress(errors.RestoreRefused):  # a newer summary covers their place
                place.restore(self.random.choice(refs))

    def erase(self) -> None:
        events = [each.seq for each in session_events(self.session) if each.payload and each.type in ERASABLE]
        if events:
            with suppress(errors.CallsOpen):
                self.session.erase([self.random.choice(events)], "asked to")

    def push(self) -> None:
        if len(self.frames) < 2:
            self.frames.append(self.session.frame("look", budget=1_000_000))

    def pop(self) -> None:
        if self.frames:
            self.frames.pop(self.random.randrange(len(self.frames))).pop()

    def update(self) -> None:
        self.conversation().situation.update({self.random.choice(["goal", "progress"]): self.text()})

    def state_fact(self) -> None:
        messages = [message for message in self.session.messages() if not message.erased]
        if messages:
            key, value = f"k{self.random.randrange(3)}", self.random.randrange(9)
            self.session.facts.set(key, value, provenance=self.random.choice(messages).id)

    def reset(self) -> None:
        if not self.frames:
            self.session.reset("anew")

    def check(self) -> None:
        state = self.session.state()
        assert find_violations(state) == []
        messages = self.session.messages(limit=1_000)
        for place in (self.session, *self.frames):
            check_pairs(place.context.window(1_000_000))
            view, text = place.context.view(), place.context.render("text")
            shown = {message.seq for message in view.messages}
            folds = [item for item in view.items if isinstance(item, Summary)]
            waiting = min((int(call.id[1:].partition("_")[0]) for call in place.open_calls()), default=state.version)
            for message in messages:
                if message.frame != frame_of(place) or message.erased or message.seq <= state.start_of(message.frame):
                    continue
                if message.withdrawn:
                    assert message.seq not in shown
                    assert not {*WORD.findall(message.text)} & {*WORD.findall(text)}
                elif message.seq < waiting:
                    assert message.seq in shown or any(fold.first <= message.seq <= fold.last for fold in folds)

    def check_log(self) -> None:
        """Every event is one that a command can have made, and a replay gives the same state."""
        state, events = SessionState(), session_events(self.session)
        erased = {recorded.seq for recorded in events if recorded.payload is None}
        for recorded in events:
            event = decode_event(recorded)
            assert find_fault(state, event, recorded.type, erased) is None
            state = fold_session(state, event, recorded.type, recorded.time_us)
        assert state == self.session.state()


def frame_of(place: Any) -> str | None:
    return place.id if isinstance(place, holdfast.Frame) else None


def render(place: Any) -> tuple[bytes, ...]:
    """What models are shown, without the marks of the provider's cache: they are at boundaries."""
    shown = (
        codec.encode(place.context.render(kind))
        for kind in ("text", "openai", "openai-responses", "anthropic", "gemini")
    )
    return tuple(MARK.sub(b"", each).replace(b",}", b"}") for each in shown)


def open_engine(url: str) -> holdfast.Engine:
    return holdfast.open(url, clock=SteppingClock(), ids=CountingIds(), counter=CharCounter())


@pytest.mark.parametrize(("kind", "other"), [("memory", "sqlite"), ("sqlite", "postgres"), ("postgres", "memory")])
def test_withdrawals_hold_among_all_that_changes_a_view(kind: Any, other: Any) -> None:
    with store_of_kind(kind) as url, store_of_kind(other) as target, open_engine(url) as engine:
        players = [Player(engine, seed) for seed in range(RUNS if kind == "memory" else max(1, RUNS // 20))]
        for player in players:
            for _ in range(STEPS):
                player.step()
                player.check()
            player.check_log()
        assert engine.admin.verify().problems == ()
        with open_engine(target) as there:
            copy(engine, there)
            assert dump(there) == dump(engine)
            for player in players:
                assert render(there.session(player.session.scope.session)) == render(player.session)
