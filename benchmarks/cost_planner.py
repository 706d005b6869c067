"""The library's own planner, call by call: what it would have been asked, and what was sent after it answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.cost_folds import whole_units
from benchmarks.cost_recordings import Recording, count, result_text, spoken_text
from benchmarks.cost_score import PREFIX_TOKENS, Prompt, PromptPiece
from holdfast.core.history.draft import PlanInput, PlanTools, SummarizeItems
from holdfast.core.history.planner import build_plan, fill_plan
from holdfast.core.history.views import group_by_message, show_for_summary, show_message
from holdfast.model.history.plans import Plan, PlanPolicy
from holdfast.model.history.prices import Prices
from holdfast.model.history.views import HistoryItem
from holdfast.model.state import Calibration, ViewState
from holdfast.text.extract.summary import extract_summary
from holdfast.types import MessageGroup, Scope, Summary

GAP = "\n…\n"


CHARACTERS = 16
"""Of a token, at most: what is longer is not tried."""


CLOSE = 200
"""What is cut comes this near to what may be: one part in so many."""


def summarize_by_extract(items: Sequence[HistoryItem], tokens: int) -> str:
    return extract_summary(items, tokens, count)


def cut_summary(items: Sequence[HistoryItem], tokens: int) -> str:
    """The beginning and the end of all that is to be told, as much as so many tokens hold: what is done where nothing
    picks."""
    text = "\n".join(
        item.text if isinstance(item, Summary) else f"{spoken_text(item)}\n{result_text(item)}" for item in items
    )
    if len(text) <= CHARACTERS * tokens and count(text) <= tokens:
        return text
    fits, fails = 0, min(len(text), CHARACTERS * tokens + 1)
    while fails - fits > max(1, fits // CLOSE):
        middle = (fits + fails) // 2
        fits, fails = (middle, fails) if count(join_ends(text, middle)) <= tokens else (fits, middle)
    return join_ends(text, fits)


def join_ends(text: str, characters: int) -> str:
    tail = characters // 2
    return f"{text[: characters - tail]}{GAP}{text[len(text) - tail :]}"


TOOLS = PlanTools(measure=Calibration().measure, count=count)
"""As an engine has them before a provider told it any usage."""


class PlannedSession:
    """A session under a policy of the library."""

    def __init__(
        self,
        recording: Recording,
        policy: PlanPolicy,
        prices: Prices,
        window: int,
        summarize: SummarizeItems = summarize_by_extract,
    ) -> None:
        self._recording, self._policy, self._prices, self._window = recording, policy, prices, window
        self._summarize = summarize
        self._whole = whole_units(recording)
        self._view = ViewState()
        self._items: list[HistoryItem] = []
        self._shown: list[PromptPiece] = []
        self._units = 0
        self._boundaries = 0

    def prompts(self) -> Iterator[Prompt]:
        for call in self._recording.calls:
            self._items += self._recording.units[self._units : call.units]
            self._shown += self._whole[self._units : call.units]
            self._units = call.units
            ground = self.ground(call.sent_us)
            self._carry_out(self._filled(build_plan(ground, self._policy, TOOLS)), ground.version)
            yield list(self._shown)

    def ground(self, now_us: int) -> PlanInput:
        last = self._items[-1] if self._items else None
        return PlanInput(
            scope=Scope("default", "main", self._recording.name),
            version=last.last if isinstance(last, MessageGroup) else 1,
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
        reductions = group_by_message((*self._view.reduced, *made.reduced))
        kept = {*made.fold.kept}
        inside = [
            show_for_summary(item, reductions)
            for item in self._items
            if item.last <= last and not (isinstance(item, MessageGroup) and item.seq in kept)
        ]
        return fill_plan(made, inside, self._summarize(inside, made.fold.tokens), TOOLS)

    def _carry_out(self, made: Plan, version: int) -> None:
        if made.empty:
            return
        self._boundaries += 1
        reduced = {(each.message, each.piece): each for each in (*self._view.reduced, *made.reduced)}
        if made.fold is not None:
            fold = made.fold
            stay = {*fold.kept}
            left = [
                item
                for item in self._items
                if isinstance(item, MessageGroup) and (item.seq > fold.last or item.seq in stay)
            ]
            new = Summary(
                seq=version,
                first=fold.first,
                last=fold.last,
                messages=fold.count,
                text=fold.text,
                tokens=fold.tokens,
                replaced=fold.replaced,
            )
            shown_as = {id(item): each for item, each in zip(self._items, self._shown, strict=True)}
            self._shown = [shown_as[id(item)] for item in left]
            self._shown.insert(0, PromptPiece(("summary", self._boundaries), fold.tokens, text=new.shown))
            self._items = [new, *left]
            reduced = {key: each for key, each in reduced.items() if each.message > fold.last or each.message in stay}
        figures = made.figures
        self._view = ViewState(
            version, tuple(reduced.values()), version, figures.calls, figures.grown, earned=figures.earned
        )
        self._reduce({each.message for each in made.reduced})

    def _reduce(self, messages: set[int]) -> None:
        """Show the units of these messages as they are shown from now on."""
        reductions = group_by_message(self._view.reduced)
        for number, item in enumerate(self._items):
            if isinstance(item, MessageGroup) and any(message.seq in messages for message in item.messages):
                now = MessageGroup(tuple(show_message(message, reductions)[0] for message in item.messages))
                text = f"{spoken_text(now)}\n{result_text(now)}"
                self._shown[number] = PromptPiece(
                    ("reduced", self._boundaries * 10_000 + number), now.tokens, text=text
                )
