"""The library's own planner, call by call: what it would have been asked, and what was sent after it answered."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from benchmarks.cost_folds import whole_units
from benchmarks.cost_material import Recording, count, returned, said
from benchmarks.cost_score import PREFIX_TOKENS, Prompt, Shown
from holdfast import Scope, Summary, Unit
from holdfast.context.extract import extract
from holdfast.context.plan import Ground, Summarize, Tools, filled, plan
from holdfast.core.calibrate import calibrated
from holdfast.core.shown import by_message, item_shown, shown
from holdfast.model.messages import Item
from holdfast.model.plan import Plan, PlanPolicy, Prices
from holdfast.model.state import Calibration, ViewState

GAP = "\n…\n"
CHARACTERS = 16
"""Of a token, at most: what is longer is not tried."""
CLOSE = 200
"""What is cut comes this near to what may be: one part in so many."""


def extracted(items: Sequence[Item], tokens: int) -> str:
    return extract(items, tokens, count)


def cut(items: Sequence[Item], tokens: int) -> str:
    """The beginning and the end of all that is to be told, as much as so many tokens hold: what is done where nothing
    picks."""
    text = "\n".join(item.text if isinstance(item, Summary) else f"{said(item)}\n{returned(item)}" for item in items)
    if len(text) <= CHARACTERS * tokens and count(text) <= tokens:
        return text
    fits, fails = 0, min(len(text), CHARACTERS * tokens + 1)
    while fails - fits > max(1, fits // CLOSE):
        middle = (fits + fails) // 2
        fits, fails = (middle, fails) if count(ends(text, middle)) <= tokens else (fits, middle)
    return ends(text, fits)


def ends(text: str, characters: int) -> str:
    tail = characters // 2
    return f"{text[: characters - tail]}{GAP}{text[len(text) - tail :]}"


TOOLS = Tools(measure=functools.partial(calibrated, Calibration()), count=count)
"""As an engine has them before a provider told it any usage."""


class Planned:
    """A session under a policy of the library."""

    def __init__(
        self, recording: Recording, policy: PlanPolicy, prices: Prices, window: int, summarize: Summarize = extracted
    ) -> None:
        self._recording, self._policy, self._prices, self._window = recording, policy, prices, window
        self._summarize = summarize
        self._whole = whole_units(recording)
        self._view = ViewState()
        self._items: list[Item] = []
        self._shown: list[Shown] = []
        self._units = 0
        self._boundaries = 0

    def prompts(self) -> Iterator[Prompt]:
        for call in self._recording.calls:
            self._items += self._recording.units[self._units : call.units]
            self._shown += self._whole[self._units : call.units]
            self._units = call.units
            ground = self.ground(call.sent_us)
            self._carry_out(self._filled(plan(ground, self._policy, TOOLS)), ground.version)
            yield list(self._shown)

    def ground(self, now_us: int) -> Ground:
        last = self._items[-1] if self._items else None
        return Ground(
            scope=Scope("default", "main", self._recording.name),
            version=last.last if isinstance(last, Unit) else 1,
            system=PREFIX_TOKENS,
            items=tuple(self._items),
            view=self._view,
            window=self._window,
            prices=self._prices,
            now_us=now_us,
        )

    def _filled(self, made: Plan) -> Plan:
        """The plan with the text of its summary, as it is carried out."""
        if made.fold is None or made.fold.text:
            return made
        last = made.fold.last
        reductions = by_message((*self._view.reduced, *made.reduced))
        kept = {*made.fold.kept}
        inside = [
            item_shown(item, reductions)
            for item in self._items
            if item.last <= last and not (isinstance(item, Unit) and item.seq in kept)
        ]
        return filled(made, inside, self._summarize(inside, made.fold.tokens), TOOLS)

    def _carry_out(self, made: Plan, version: int) -> None:
        if made.empty:
            return
        self._boundaries += 1
        reduced = {(each.message, each.piece): each for each in (*self._view.reduced, *made.reduced)}
        if made.fold is not None:
            fold = made.fold
            stay = {*fold.kept}
            left = [
                item for item in self._items if isinstance(item, Unit) and (item.seq > fold.last or item.seq in stay)
            ]
            new = Summary(
                seq=version, first=fold.first, last=fold.last, messages=fold.count, text=fold.text, tokens=fold.tokens
            )
            shown_as = {id(item): each for item, each in zip(self._items, self._shown, strict=True)}
            self._shown = [shown_as[id(item)] for item in left]
            self._shown.insert(0, Shown(("summary", self._boundaries), fold.tokens, text=new.shown))
            self._items = [new, *left]
            reduced = {key: each for key, each in reduced.items() if each.message > fold.last or each.message in stay}
        figures = made.figures
        self._view = ViewState(version, tuple(reduced.values()), version, figures.calls, figures.grown)
        self._reduce({each.message for each in made.reduced})

    def _reduce(self, messages: set[int]) -> None:
        """Show the units of these messages as they are shown from now on."""
        reductions = by_message(self._view.reduced)
        for number, item in enumerate(self._items):
            if isinstance(item, Unit) and any(message.seq in messages for message in item.messages):
                now = Unit(tuple(shown(message, reductions)[0] for message in item.messages))
                text = f"{said(now)}\n{returned(now)}"
                self._shown[number] = Shown(("reduced", self._boundaries * 10_000 + number), now.tokens, text=text)
