"""System messages inside a conversation: they stay where they were recorded, in every rendering, whatever is folded,
withdrawn or forked around them, and the front of the prompt stays as it is."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import holdfast
from holdfast.model.history.views import HistoryView
from holdfast.render import render_text
from holdfast.types import SummarizeOldest
from tests.property.agent_histories import NEWER, check_extends, check_pairs, render_all
from tests.property.session_model import CharCounter
from tests.support import CountingIds, SteppingClock, figure

EXAMPLES = figure(12, 4_000)
KINDS = ("system", "system", "user", "user", "reply", "work", "work", "fold", "withdraw", "fork")
seeds = st.integers(0, 1 << 32)


class _Shown(NamedTuple):
    boundary: tuple[int, int]
    head: tuple[int, ...]
    renderings: dict[str, list[bytes]]


class _Talk:
    """A conversation, and what was last shown of it."""

    def __init__(self, session: holdfast.Session, chance: Random) -> None:
        self.session = session
        self.chance = chance
        self.marks: list[str] = []
        """What its system messages say."""
        self.shown: _Shown | None = None

    def take_step(self) -> _Talk:
        kind = self.chance.choice(KINDS)
        match kind:
            case "system" | "user":
                self._say(kind)
            case "reply":
                self.session.record("assistant", self._text())
            case "work":
                self._work()
            case "fold":
                keep = SummarizeOldest(self.chance.choice([0, 2, 5]))
                self.session.context.compact(strategy=keep, window=100_000)
            case "withdraw":
                spoken = [each for each in self.session.messages(limit=50) if each.role == "user"]
                if spoken:
                    self.session.withdraw(after=spoken[self.chance.randrange(len(spoken))].seq)
            case _:
                return self._fork()
        return self

    def _text(self) -> str:
        return f"word{self.chance.randrange(10**9)} " * self.chance.choice([2, 40])

    def _say(self, role: str) -> None:
        text = self._text()
        self.session.record(role, text)
        if role == "system":
            self.marks.append(text.split()[0])

    def _work(self) -> None:
        calls = self.session.record(
            "assistant", "So.", tool_calls=[{"name": "run", "args": {}, "id": "own"}]
        ).tool_calls
        if self.chance.random() < 0.5:
            self._say(self.chance.choice(["system", "user"]))
        self.session.result(calls[0], self._text(), is_error=self.chance.random() < 0.3)

    def _fork(self) -> _Talk:
        other = _Talk(self.session.fork(as_=f"f{self.chance.randrange(10**9)}"), self.chance)
        other.marks, other.shown = [*self.marks], self.shown
        return other

    def check(self) -> None:
        state = self.session.state()
        view = self.session.context.view()
        self.marks = [mark for mark in self.marks if mark in self._recorded()]
        assert [mark for mark in self.marks if render_text(view).count(mark) < 1] == [], "none is ever left out"
        self._check_order(view)
        self._check_renderings(view, (state.view(None).boundary, state.changed))
        pack = self.session.pack(budget=100_000, brief=holdfast.Brief(prompt="Be kind."), time=False, model=NEWER)
        assert self.session.state().version == state.version, "nothing had to change"
        check_pairs(render_all(replace(pack.history, tail=())))
        listed = [
            (entry.at, max(entry.at, entry.to)) for entry in pack.manifest.entries if entry.priority == "critical"
        ]
        pinned = [message.seq for message in view.messages if message.role == "system"]
        assert all(any(first <= seq <= last for first, last in listed) for seq in pinned)
        assert pack.tokens.used <= pack.tokens.budget
        assert [block["text"] for block in pack.anthropic()["system"]][:1] == ["Be kind."]

    def _recorded(self) -> str:
        messages = self.session.messages(limit=1_000)
        return " ".join(each.text for each in messages if each.role == "system" and not each.withdrawn)

    def _check_order(self, view: HistoryView) -> None:
        """Before the first other message they come first; later ones are between the messages around them."""
        first = self.session.state().spoken.first
        assert all(not first or message.seq < first for message in view.system)
        firsts = [item.first for item in view.items]
        assert firsts == sorted(firsts)

    def _check_renderings(self, view: HistoryView, boundary: tuple[int, int]) -> None:
        renderings = render_all(replace(view, tail=()))
        check_pairs(renderings)
        head = () if view.items else tuple(message.seq for message in view.system)
        if self.shown is not None and (boundary, head) == self.shown[:2]:
            check_extends(renderings, self.shown.renderings)
        self.shown = _Shown(boundary, head, renderings)


@settings(max_examples=EXAMPLES)
@given(seeds)
def test_each_rendering_extends_the_last_and_none_loses_a_system_message(seed: int) -> None:
    chance = Random(seed)
    with holdfast.open("memory:", clock=SteppingClock(), ids=CountingIds(), counter=CharCounter()) as engine:
        talks = [_Talk(engine.create_session("s"), chance)]
        for _ in range(24):
            talk = chance.choice(talks)
            other = talk.take_step()
            talk.check()
            if other is not talk:
                talks = [*talks[-2:], other]
                other.check()
        assert engine.admin.verify().problems == ()
