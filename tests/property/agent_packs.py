"""What an agent lives through, drawn from a seed, with a pack before each reply: what is said, done and known changes, and
every pack is looked at."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, NamedTuple

from msgspec.structs import replace

import holdfast
from holdfast.adapters.tokens import EstimatingCounter
from holdfast.core.packs.assembly import HEADINGS
from holdfast.errors import CriticalOverflow, WindowTooSmall
from holdfast.flows.memory.index import take_history
from holdfast.flows.packs.assembly import LATEST_LABEL, TASK_LABEL
from holdfast.model.history.views import SUMMARY_LABEL, Summary
from holdfast.model.packs.pack import PREFIX_SECTIONS, TAIL_SECTIONS, Brief
from holdfast.model.sessions.messages import MessageGroup
from holdfast.model.tools.tool import Tool
from holdfast.render.pack import Pack
from holdfast.text.fence import CLOSING, OPENING, SEPARATOR
from holdfast.text.guard.finder import MARKER
from tests.edges.engines import ManualClock
from tests.property.agent_histories import check_extends, check_pairs, render_all
from tests.support import CountingIds

COUNT = EstimatingCounter().count


PLACES = ("Amber", "Birch", "Cobalt", "Dapple", "Ember", "Fjord", "Garnet", "Hazel", "Indigo", "Juniper")


KEYS = ("address", "colour", "deadline", "contact", "size")


STEPS = (
    "say",
    "say",
    "work",
    "know",
    "know",
    "forget",
    "note",
    "reply",
    "reply",
    "reply",
    "frame",
    "leave",
    "wait",
    "ask",
)


BRIEFS = {
    "clerk": Brief(
        prompt="You are a clerk.",
        invariants=("Never guess.",),
        tools=(Tool(name="look", description="Look it up.", parameters={"type": "object", "properties": {}}),),
    )
}


class LastPack(NamedTuple):
    """What a pack showed up to its tail, and since which boundary."""

    how: tuple[object, ...]
    renderings: dict[str, list[bytes]]


class AgentDay:
    """With `memory`, the agent has a memory, and has lived through days that it remembers."""

    def __init__(self, url: str, seed: int, *, memory: bool = False) -> None:
        self.chance = Random(seed)
        self.clock = ManualClock()
        self.engine: Any = holdfast.open(url, clock=self.clock, ids=CountingIds(), briefs=BRIEFS)
        self.ledger: Any = self.engine.ledger(user="ada")
        identity = holdfast.Identity(user_name="Ada", user_id="ada")
        self.make_session = partial(
            self.engine.create_session, identity=identity, ledgers=[self.ledger.id], memory=memory
        )
        self.memory = memory
        self.session: Any = self.make_session("s")
        self.frames: list[Any] = []
        self.live: dict[str, str] = {}
        self.dead: set[str] = set()
        self.spoken: set[str] = set()
        """Dead values that somebody spoke of after their end."""
        self.last: dict[str, LastPack] = {}
        self.shown: list[str] = []
        self.boundaries = 0
        self.refused: list[tuple[int, int]] = []
        self.recalled = 0

    def remember_day(self, name: str, steps: int) -> None:
        """Live through another day in a session of its own, and let memory take it."""
        today, self.session = self.session, self.make_session(name)
        for _ in range(steps):
            self.clock.now_s += self.chance.choice([1, 2, 60])
            getattr(self, f"_{self.chance.choice(['say', 'work', 'know', 'forget'])}")()
        self.session.destroy() if self.chance.random() < 0.3 else self.session.end()
        for offload in self.engine.admin.outbox():
            self.engine._drive(take_history(self.engine._context, offload))
            self.engine.admin.acknowledge(offload)
        self.session = today
        self.clock.now_s += 86_400

    def live_through(self, steps: int) -> None:
        for _ in range(steps):
            self.clock.now_s += self.chance.choice([1, 2, 60])
            getattr(self, f"_{self.chance.choice(STEPS)}")()
        self.pack(self.session)

    @property
    def place(self) -> Any:
        return self.chance.choice([self.session, self.session, *self.frames])

    def _value(self) -> str:
        return f"{self.chance.choice(PLACES)} {self.chance.randrange(100, 1_000)}"

    def _words(self) -> str:
        """Something that may tell what is known, or was."""
        told = [*self.live.values(), *sorted(self.dead)]
        said = [
            "It rains.",
            "We talked about the weather.",
            "Please go on.",
            "word " * self.chance.choice([3, 30, 120]),
        ]
        said += [f"The {self.chance.choice(KEYS)} is {self.chance.choice(told)}."] if told else []
        words = " ".join(self.chance.sample(said, self.chance.randint(1, len(said))))
        self.spoken |= {value for value in self.dead if value in words}
        return words

    def _say(self) -> None:
        self.place.record("user", self._words())

    def _work(self) -> None:
        place = self.place
        calls = [{"name": "look", "args": {"at": number}} for number in range(self.chance.randint(1, 2))]
        message = place.record("assistant", self._words(), tool_calls=calls)
        for call in message.tool_calls:
            place.result(call, self._words() * self.chance.choice([1, 1, 12]))

    def _know(self) -> None:
        key, value = self.chance.choice(KEYS), self._value()
        self.ledger.set(key, value, is_constraint=self.chance.random() < 0.1)
        if key in self.live and self.live[key] != value:
            self.dead.add(self.live[key])
        self.live[key] = value
        self.dead -= {*self.live.values()}
        self.spoken &= self.dead

    def _forget(self) -> None:
        if self.live:
            key = self.chance.choice(sorted(self.live))
            self.ledger.retract(key)
            self.dead.add(self.live.pop(key))
            self.dead -= {*self.live.values()}

    def _note(self) -> None:
        self.session.working.set(self.chance.choice(["cart", "draft"]), self._words())
        self.session.environment.set("weather", self._words(), ttl_s=self.chance.choice([None, 5]))

    def _frame(self) -> None:
        if len(self.frames) < 2:
            self.frames.append(self.session.frame("Find out.", budget=100_000))
            self.frames[-1].handles.add("document", self._words(), title=self._words()[:40])

    def _leave(self) -> None:
        if self.frames:
            self.frames.pop(self.chance.randrange(len(self.frames))).pop("completed", "Found.")

    def _wait(self) -> None:
        self.clock.now_s += self.chance.choice([10, 400, 4_000])

    def _ask(self) -> None:
        self.pack(self.place, f"What is the {self.chance.choice(KEYS)}?")

    def _reply(self) -> None:
        place = self.place
        pack = self.pack(place)
        if pack is not None:
            usage = holdfast.Usage(input_tokens=pack.tokens.used, output_tokens=10)
            place.record("assistant", self._words(), usage=usage, pack=pack)

    def check_reproduction(self) -> int:
        """Make every recorded pack again; how many of them recalled something."""
        recalls = 0
        for record in self.session.packs.list():
            manifest = self.session.packs.manifest(record)
            assert self.session.packs.reproduce(record).manifest == manifest
            recalls += "recall" in manifest.tokens.breakdown
        return recalls

    # Looking at packs

    def pack(self, place: Any, query: str | None = None) -> Pack | None:
        asked: dict[str, Any] = {
            "budget": self.chance.choice([700, 1_500, 4_000]),
            "role": self.chance.choice(["", "clerk"]),
            "model": self.chance.choice([None, "claude-sonnet-4-5"]),
            "profile": self.chance.choice(["balanced", "balanced", "comprehensive", "high_stakes"]),
            "min_compaction": self.chance.choice(["none", "none", "none", "light", "critical"]),
        }
        try:
            pack: Pack = place.pack(query, **asked)
        except (CriticalOverflow, WindowTooSmall) as error:
            self.refused.append((error.needed, error.budget))
            return None
        version = self.session.state().version
        again = place.pack(query, **asked, settle=False)
        assert self.session.state().version == version, "reading changes nothing"
        assert again.manifest == pack.manifest, "the same gives the same"
        assert render_all(again.history) == render_all(pack.history)
        assert pack.history.version <= version
        self._check(place, pack)
        return pack

    def _check(self, place: Any, pack: Pack) -> None:
        manifest, tokens = pack.manifest, pack.tokens
        assert tokens.used <= tokens.budget <= manifest.request.budget
        assert sum(tokens.breakdown.values()) == tokens.used == self._recounted(pack)
        renderings = render_all(pack.history)
        check_pairs(renderings)
        if self.memory:
            self._check_recall(place, pack)
        said = str(pack)
        self._check_guarded(pack)
        names = [(each.section, each.id) for each in manifest.entries]
        assert len({*names}) == len(names), "every candidate is told of once"
        assert all(each.reason for each in manifest.entries)
        constraints = [f"{each.key}: {each.value}" for each in self.ledger.constraints()]
        assert all(line in said for line in constraints), "what is Critical is in"
        assert [each.section for each in manifest.entries] == sorted(
            (each.section for each in manifest.entries), key=[*PREFIX_SECTIONS, "history", *TAIL_SECTIONS].index
        )
        if manifest.request.profile.history == "whole":
            self._check_extends(place, pack)
        self.shown.append(manifest.context_hash)

    def _check_guarded(self, pack: Pack) -> None:
        """Before the current turn, a superseded value is gone or marked; if nobody said it after its end."""
        items = pack.history.items
        users = [
            each.seq
            for item in items
            if isinstance(item, MessageGroup)
            for each in item.messages
            if each.role == "user"
        ]
        turn = users[-1] if users else items[-1].first if items else 0
        for item in items:
            texts = (
                [each.text for each in item.messages if each.seq < turn]
                if isinstance(item, MessageGroup)
                else [item.text]
            )
            for line in (line for text in texts for line in text.splitlines()):
                for value in self.dead - self.spoken:
                    assert value not in line or MARKER.search(line.partition(value)[2]), (value, line)

    def _check_recall(self, place: Any, pack: Pack) -> None:
        """It displaces nothing, stays within its share, is quoted, and shows no superseded value that is not marked."""
        request, section = pack.manifest.request, HEADINGS["recall"]
        (text,) = [each for each in pack.history.tail if each.startswith(section)] or [""]
        lines = text.removeprefix(section).strip("\n").split("\n")
        assert all(line.startswith(">") or line.endswith(":") for line in lines if line)
        for line, value in ((line, value) for line in lines for value in self.dead - self.spoken):
            assert value not in line or MARKER.search(line.partition(value)[2]), (value, line)
        self.recalled += len([line for line in lines if line.startswith("> ")])
        if not pack.tokens.breakdown.keys() <= {*PREFIX_SECTIONS, "history", "recall"}:
            assert pack.tokens.breakdown.get("recall", 0) <= request.effective * request.recall_share
        without = place.pack(
            request.query if request.asked else None,
            budget=request.budget,
            role=request.role,
            model=request.model or None,
            profile=request.profile,
            min_compaction=request.min_compaction,
            recall=False,
            settle=False,
        )
        assert without.tokens.level == pack.tokens.level
        others = [each for each in pack.manifest.entries if each.section != "recall"]
        assert others == list(without.manifest.entries)

    def _recounted(self, pack: Pack) -> int:
        measure: Callable[[int, int], int] = self.session.state().calibration.measure
        history = pack.history
        question = [each for each in history.tail if each.startswith((TASK_LABEL, LATEST_LABEL))]
        fence = [each for each in history.tail if each in (OPENING, CLOSING)]
        tail = [each for each in history.tail if each not in question and each not in fence]
        tools = [[each.name, each.description, each.parameters] for each in pack.tools]
        return (
            sum(measure(each.tokens, 1) for each in history.system)
            + (measure(COUNT(json.dumps(tools, separators=(",", ":"))), 0) if tools else 0)
            + measure(
                sum(each.tokens + COUNT(SUMMARY_LABEL) * isinstance(each, Summary) for each in history.items),
                sum(each.blocks for each in history.items),
            )
            + sum(measure(COUNT(each if each == CLOSING else each + SEPARATOR), 0) for each in (*fence, *tail))
            + (measure(0, 1) if tail else 0)
            + sum(measure(COUNT(each + SEPARATOR), 1) for each in question)
        )

    def _check_extends(self, place: Any, pack: Pack) -> None:
        """Between two boundaries what stands before the tail extends what stood there."""
        state = self.session.state()
        name = f"{place._context.frame or ''} {pack.manifest.brief}"
        how = (state.view(place._context.frame).boundary, state.changed, state.pinned)
        renderings = render_all(replace(pack.history, tail=()))
        last = self.last.get(name)
        if last is not None and last.how == how:
            self.boundaries += 1
            check_extends(renderings, last.renderings)
        if not pack.manifest.request.asked:  # else it was looked at and sent to nobody, so no cache has it
            self.last[name] = LastPack(how, renderings)

    def close(self) -> None:
        assert all(needed > budget for needed, budget in self.refused)
        report = self.engine.admin.verify()
        assert report.ok, report
        self.engine.close()
