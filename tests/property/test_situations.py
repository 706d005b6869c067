"""Situations and actions over whole conversations: every result is in one action, rules quote nothing that was erased, and
whoever reads sees the same, from a cache or from the log."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule, run_state_machine_as_test

import holdfast
from holdfast import errors
from holdfast.core.situation.fold import SITUATION_EVENTS
from holdfast.model import limits
from holdfast.model.situation.situations import FIELDS, FieldName
from holdfast.types import Situation
from tests.property.engine_machine import EngineMachine
from tests.property.store_tools import Kind, session_events
from tests.support import figure

STEPS = 25
COUNTS = {
    "memory": figure(25, 2_000),
    "sqlite": figure(6, 500),
    "postgres": figure(2, 100),
}


class Conversation:
    """What a plain observer would remember of one."""

    def __init__(self, held: Any, other: Any) -> None:
        self.held = held
        self.other = other
        """The same, held by an engine that caches next to nothing."""
        self.replies: list[int] = []
        """The seqs of those that were not erased."""
        self.answered: list[str] = []
        """Calls whose results came since the last action."""
        self.actions: list[tuple[int, tuple[str, ...]]] = []
        self.fields: dict[FieldName, tuple[str, str]] | None = {}
        """None when nobody can say, since something was erased."""


class Situations(EngineMachine):
    @initialize()
    def begin(self) -> None:
        self.engine, self.small = self.open(8), self.open(1)
        self.session = self.engine.create_session("s", actor="ada")
        self.talks = {"": Conversation(self.session, self.small.session("s", actor="ada"))}
        self.marks: dict[str, int] = {}
        """A word that only one message has, and its seq."""
        self.gone: set[str] = set()

    def talk(self, data: st.DataObject) -> Conversation:
        return self.talks[data.draw(st.sampled_from(sorted(self.talks)))]

    def mark(self) -> str:
        return f"mark{len(self.marks)}x"

    def noted(self, message: holdfast.Message, mark: str) -> None:
        self.marks[mark] = message.seq

    @precondition(lambda self: len(self.talks) < 3)
    @rule()
    def push(self) -> None:
        frame = self.session.frame("a part of the work", budget=1_000)
        self.talks[frame.id] = Conversation(frame, self.small.session("s", actor="ada").frames.get(frame.id))

    @precondition(lambda self: len(self.talks) > 1)
    @rule(data=st.data())
    def pop(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted({*self.talks} - {""})))
        talk = self.talks.pop(name)
        talk.held.close_calls()
        talk.held.pop("completed")
        assert talk.held.situation.get() == talk.other.situation.get() == Situation()
        with pytest.raises(errors.AlreadyTerminal):
            talk.held.situation.update({"goal": "too late"})
        self.check_actions(talk)

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        mark = self.mark()
        self.noted(self.talk(data).held.record("user", f"Look for {mark} among the orders."), mark)

    @rule(data=st.data(), names=st.lists(st.sampled_from(["search", "read"]), max_size=3))
    def reply(self, data: st.DataObject, names: list[str]) -> None:
        self.said(self.talk(data), names)

    def said(self, talk: Conversation, names: list[str]) -> None:
        mark = self.mark()
        calls = [{"name": name, "args": {"for": mark}} for name in names]
        try:
            said = talk.held.record("assistant", f"This is about {mark}.", tool_calls=calls)
        except errors.CallsOpen:
            return
        self.noted(said, mark)
        talk.replies.append(said.seq)

    @rule(data=st.data(), is_error=st.booleans())
    def answer(self, data: st.DataObject, is_error: bool) -> None:
        self.answered(data, self.talk(data), is_error)

    def answered(self, data: st.DataObject, talk: Conversation, is_error: bool) -> None:
        mark = self.mark()
        waiting = [call for call in self.session.state().open_calls if call.frame == (talk.held._context.frame)]
        if waiting:
            call = data.draw(st.sampled_from(waiting))
            text = f"TimeoutError: {mark}" if is_error else f"found {mark}"
            self.noted(talk.held.result(call.id, text, is_error=is_error), mark)
            talk.answered.append(call.id)

    @rule(data=st.data(), wrong=st.lists(st.booleans(), min_size=1, max_size=3), then=st.booleans())
    def use_tools(self, data: st.DataObject, wrong: list[bool], then: bool) -> None:
        """A reply, and what came of its calls; or of some of them, if others waited before."""
        talk = self.talk(data)
        self.said(talk, ["search"] * len(wrong))
        for is_error in wrong:
            self.answered(data, talk, is_error)
        if then:
            self.acted(talk)

    @rule(data=st.data())
    def act(self, data: st.DataObject) -> None:
        self.acted(self.talk(data))

    def acted(self, talk: Conversation) -> None:
        made = talk.held.situation.act("deep", thinking="so it goes")
        assert [each.call for each in made.tool_calls] == talk.answered
        assert made.iteration >= len(talk.replies)
        for each in made.tool_calls:
            assert each.outcome == ("timeout" if each.result.startswith("TimeoutError") else "success")
        talk.actions.append((made.seq, tuple(talk.answered)))
        talk.answered = []

    @rule(data=st.data(), named=st.lists(st.sampled_from(FIELDS), min_size=1, max_size=3), as_json=st.booleans())
    def update(self, data: st.DataObject, named: list[FieldName], as_json: bool) -> None:
        """A model quotes what it has read."""
        talk = self.talk(data)
        quoted = data.draw(st.sampled_from([*(mark for mark in self.marks if mark not in self.gone), "nothing"]))
        update: dict[str, Any] = {name: f"it is {quoted}, {name}" for name in named}
        whole = json.dumps({"thought": "hm", "summary_update": update}) if as_json else update
        made = talk.other.situation.update(whole, key=f"u{len(session_events(self.session))}")
        assert {*made.changed} <= {*named}
        assert made.ignored == (("thought",) if as_json else ())
        if talk.fields is not None:
            talk.fields |= {name: (update[name], "model") for name in named}

    @rule(data=st.data())
    def refresh(self, data: st.DataObject) -> None:
        talk = self.talk(data)
        before = talk.held.situation.get()
        made = talk.held.situation.refresh()
        for name, stated in before.origins.items():
            if (
                stated.by == "model"
                and max(len(talk.replies), before.iteration) - stated.iteration < limits.SITUATION_AGE
            ):
                assert made.situation.origins[name] == stated
        assert talk.held.situation.refresh().changed == ()  # nothing has happened since
        if talk.fields is not None:
            talk.fields = {name: (each.text, each.by) for name, each in made.situation.origins.items()}

    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        """Who erases a message erases what tells of it: no situation and no action has its words any more."""
        left = sorted({*self.marks} - self.gone)
        if not left:
            return
        mark = data.draw(st.sampled_from(left))
        try:
            self.session.erase([self.marks[mark]], "asked to")
        except errors.CallsOpen:
            return
        events = session_events(self.session)
        self.gone |= {each for each, seq in self.marks.items() if events[seq - 1].payload is None}
        assert mark in self.gone
        for event in events:
            if event.type in SITUATION_EVENTS and event.payload is not None:
                assert not [each for each in self.gone if each.encode() in event.payload]
        kept = {event.seq for event in events if event.payload is not None}
        for talk in self.talks.values():
            talk.fields = None
            talk.replies = [seq for seq in talk.replies if seq in kept]
            while talk.actions and talk.actions[-1][0] not in kept:  # what it told is told by nobody any more
                talk.answered = [*talk.actions.pop()[1], *talk.answered]
            talk.actions = [each for each in talk.actions if each[0] in kept]
            talk.answered = [call for call in talk.answered if int(call[1:].split("_")[0]) in kept]

    @precondition(lambda self: len(self.marks) > 5)
    @rule()
    def reset(self) -> None:
        self.session.close_calls()
        self.session.reset("another matter")
        self.talks = {"": Conversation(self.session, self.talks[""].other)}

    @rule(data=st.data())
    def look(self, data: st.DataObject) -> None:
        talk = self.talk(data)
        before = self.session.state().version
        found = talk.held.situation.get()
        assert talk.other.situation.get() == found
        if talk.fields is not None:
            assert {name: (each.text, each.by) for name, each in found.origins.items()} == talk.fields
        told = [talk.held.situation.reasoning(mode) for mode in ("fast", "deep")]
        assert told == [talk.other.situation.reasoning(mode) for mode in ("fast", "deep")]
        for each in told:
            assert not [mark for mark in self.gone if mark in each]
            assert all(f"{name}: {text}" in each for name, text in found.fields)
        self.check_actions(talk)
        assert self.session.state().version == before

    def check_actions(self, talk: Conversation) -> None:
        """Each result that was kept is in one action; those of other conversations are not among them."""
        listed = talk.held.situation.actions(limit=100)
        began = min((seq for seq, _ in talk.actions), default=0)
        ours = [(each.seq, tuple(call.call for call in each.tool_calls)) for each in listed if each.seq >= began > 0]
        assert ours == talk.actions
        assert talk.other.situation.actions(limit=2) == listed[-2:]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_situations_over_whole_conversations(kind: Kind) -> None:
    machine = type("Situations", (Situations,), {"kind": kind})
    run_state_machine_as_test(machine, settings=settings(max_examples=COUNTS[kind], stateful_step_count=STEPS))
