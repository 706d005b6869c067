"""The engine itself, call by call: a recorded session is recorded anew, and before each reply a pack is built and settled.

What is sent are the items of that pack, as they are shown; what the planner of the same policy foretells without an engine
is measured beside it, and both have to agree.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

import holdfast
from benchmarks.cost_folds import whole_units
from benchmarks.cost_recordings import Recording, count, result_text, spoken_text
from benchmarks.cost_score import PREFIX_TOKENS, Prompt, PromptPiece
from holdfast import codec
from holdfast.flows.sessions.messages import record_drafts
from holdfast.model.history.plans import PlanPolicy
from holdfast.model.history.prices import Prices
from holdfast.model.packs.pack import TAIL_SECTIONS, Brief
from holdfast.model.sessions.events import EvidenceKept, MessageRecorded, SessionCreated
from holdfast.model.sessions.messages import MessageDraft
from holdfast.render.pack import Pack
from holdfast.runtime.transcript_lines import LineReader
from holdfast.types import MessageGroup, Summary

ROLE = "agent"
RECORDED = (SessionCreated.name, MessageRecorded.name, EvidenceKept.name)
"""The events that a recorded session has: all but those that packs lead to."""
PAGE = 100


class Clock:
    """Shows what it is set to."""

    def __init__(self) -> None:
        self.us = 0

    def now_us(self) -> int:
        return self.us


class PackedSession:
    """A session in an engine, with packs of one window under one policy."""

    def __init__(self, recording: Recording, file: Path, policy: PlanPolicy, prices: Prices, window: int) -> None:
        self._recording, self._file, self._policy, self._window = recording, file, policy, window
        self._prices = msgspec.structs.replace(prices, window=window + 1, max_output=1)
        self._whole = whole_units(recording)
        self._units = {unit.seq: number for number, unit in enumerate(recording.units)}
        self._times = {message.seq: message.time_us for unit in recording.units for message in unit.messages}
        self._clock = Clock()
        self._known = 0
        self._events = 0
        self._origin: dict[int, int] = {}
        """From the seq of an event here to that in the recorded session, which has no boundaries."""

    def prompts(self) -> Iterator[Prompt]:
        brief = Brief(prompt=instructions(PREFIX_TOKENS))
        with holdfast.open(
            "memory:",
            spooling=holdfast.types.Spooling(
                threshold=0
            ),  # all policies are given the same: nothing is shown by a preview because it is large
            clock=self._clock,
            prices=[self._prices],
            briefs={ROLE: brief},
            compaction=self._policy,
        ) as engine:
            session = engine.create_session(self._recording.name)
            reader, calls = LineReader(), iter(self._recording.calls)
            with self._file.open("rb") as lines:
                for number, text in enumerate(lines, 1):
                    line = codec.decode_object(text)
                    if line["role"] == "assistant":
                        self._clock.us = max(self._clock.us, next(calls).sent_us)
                        pack = session.pack(budget=self._window, role=ROLE, model=self._prices.model)
                        yield [*map(self._shown, pack.history.items), *tail(pack)]
                    drafts = [msgspec.structs.replace(each, usage=None) for each in reader.read_drafts(number, line)]
                    self._record(session, drafts)

    def _record(self, session: holdfast.Session, drafts: list[MessageDraft]) -> None:
        self._catch_up(session)
        self._clock.us = max(self._clock.us, self._times.get(self._events + 1, 0))
        session._drive(record_drafts(session._context, drafts, as_found=True))
        self._catch_up(session)

    def _catch_up(self, session: holdfast.Session) -> None:
        while page := session.events(after=self._known, limit=PAGE):
            for event in page:
                self._known = event.seq
                if event.type in RECORDED:
                    self._events += 1
                    self._origin[event.seq] = self._events

    def _shown(self, item: MessageGroup | Summary) -> PromptPiece:
        if isinstance(item, Summary):
            return PromptPiece(("summary", item.seq), item.tokens, text=item.shown)
        whole = self._whole[self._units[self._origin[item.seq]]]
        if item.tokens == whole.tokens:
            return whole
        text = f"{spoken_text(item)}\n{result_text(item)}"
        return PromptPiece(("reduced", zlib.crc32(text.encode())), item.tokens, text=text)


def without_tails(prompts: Iterable[Prompt]) -> Iterator[Prompt]:
    for prompt in prompts:
        yield [each for each in prompt if not each.passing]


def with_tails(prompts: Iterable[Prompt], packs: Iterable[Prompt]) -> Iterator[Prompt]:
    """Prompts of the same session with the tails that these packs have."""
    for prompt, pack in zip(prompts, packs, strict=True):
        yield [*prompt, *(each for each in pack if each.passing)]


def tail(pack: Pack) -> Iterator[PromptPiece]:
    """What stands behind the history, made anew for each call."""
    tokens = sum(pack.tokens.breakdown.get(section, 0) for section in TAIL_SECTIONS)
    if tokens:
        yield PromptPiece(("tail", 0), tokens, text="\n".join(pack.history.tail), passing=True)


def instructions(tokens: int) -> str:
    """A text of so many tokens, as the library counts words."""
    words = ["Follow"]
    while count(" ".join(words)) < tokens:
        words += ["what", "was", "agreed"]
    return " ".join(words)
