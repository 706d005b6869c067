"""Random conversations of agents as the planner is given them, and what a view comes to once a plan was carried out."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from holdfast.core.history.draft import PlanInput, PlanTools, SummarizeItems
from holdfast.core.history.planner import build_plan, plan_strategy
from holdfast.core.history.views import group_by_message, show_message
from holdfast.model.content import Data, Part, Role, Text, ToolCall, ToolResult, text_of
from holdfast.model.history.plans import (
    Classic,
    Faithful,
    Frugal,
    Plan,
    PlanPolicy,
    Strategy,
    SummarizeOldest,
    TruncateAt,
)
from holdfast.model.history.prices import Prices
from holdfast.model.history.views import HistoryItem, HistoryView, Summary
from holdfast.model.names import Scope
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.state import Calibration, ViewState
from holdfast.render import render_anthropic, render_openai_chat, render_openai_responses, render_text
from holdfast.text.extract.summary import extract_summary

SCOPE = Scope("acme", "ada", "s")


START_US = 1_700_000_000_000_000


SECOND_US = 1_000_000


PRICES = Prices(
    provider="some",
    model="one",
    input=3_000_000,
    cache_read=300_000,
    cache_write=3_750_000,
    output=15_000_000,
    window=200_000,
    max_output=8_000,
)


def count_quarters(said: str) -> int:
    """A counter of tokens: four characters each."""
    return (len(said) + 3) // 4


def make_prose(length: int, about: str = "work") -> str:
    """A text of about so many characters, each of its lines another."""
    line = "line {} of {}: src/{}.py has 17 errors in parse_row\n"
    count = length // 48 + 1
    return "".join(line.format(number, about, about) for number in range(count))[: max(1, length)]


class GrowingConversation:
    """A conversation that grows, as it is recorded, and whose view changes at boundaries."""

    def __init__(self) -> None:
        self.now_us = START_US
        self.version = 1
        self.items: list[HistoryItem] = []
        self.view = ViewState()

    def say(self, role: Role, *parts: Part, calls: int = 0, results: Sequence[ToolResult] = ()) -> Message:
        self.version += 1
        seq = self.version
        calling = tuple(ToolCall(f"c{seq}_{number}", "run", {"file": f"src/{seq}.py"}) for number in range(calls))
        tokens = sum(count_quarters(text_of([part])) for part in parts)
        tokens += sum(count_quarters("run") + count_quarters(json.dumps(call.args)) for call in calling)
        tokens += sum(count_quarters(text_of([part])) for result in results for part in result.content)
        message = Message(
            id=f"m{seq}",
            seq=seq,
            role=role,
            content=parts,
            tool_calls=calling,
            tool_results=tuple(results),
            tokens=tokens,
            time_us=self.now_us,
            principal="test",
        )
        if not results:
            self.items.append(MessageGroup((message,)))
            return message
        group = int(results[0].tool_call_id[1:].partition("_")[0])
        for number, item in enumerate(self.items):
            if isinstance(item, MessageGroup) and item.seq == group:
                self.items[number] = MessageGroup((*item.messages, message))
        return message

    def ground(self, window: int, at: Prices, **more: Any) -> PlanInput:
        return PlanInput(
            scope=SCOPE,
            version=self.version,
            items=tuple(self.items),
            view=self.view,
            window=window,
            prices=at,
            **{"now_us": self.now_us, **more},
        )

    def change(self, ground: PlanInput, plan: Plan) -> None:
        """A plan is carried out."""
        after = apply_plan(ground, plan)
        self.version, self.items, self.view = after.version, list(after.items), after.view


LENGTHS = st.sampled_from([1, 20, 150, 150, 1_000, 3_000, 9_000])


@st.composite
def conversations(draw: st.DrawFn, least: int = 1) -> GrowingConversation:
    """Turns of a user and an agent, with boundaries between some of them: parallel calls, results in one message or in
    several, words between a call and its result, errors, JSON."""
    talk = GrowingConversation()
    for number in range(draw(st.integers(least, 10))):
        talk.now_us += draw(st.sampled_from([0, 1, 60, 400, 4_000])) * SECOND_US
        what = draw(st.sampled_from(["user", "user", "reply", "calls", "calls", "calls", "boundary"]))
        if what == "user":
            talk.say("user", Text(make_prose(draw(LENGTHS), f"question{number}")))
        elif what == "reply":
            talk.say("assistant", Text(make_prose(draw(LENGTHS), f"answer{number}")))
        elif what == "calls":
            _calls(draw, talk, number)
        else:
            apply_boundary(talk, draw(st.sampled_from(BOUNDARIES)))
    return talk


BOUNDARIES: tuple[Strategy | Classic, ...] = (
    SummarizeOldest(0),
    SummarizeOldest(3),
    TruncateAt(2),
    Classic(snip=0.01, micro=None, large=100, auto=None),
)


def apply_boundary(talk: GrowingConversation, what: Strategy | Classic) -> None:
    """Fold what is old, or snip what is long."""
    ground = talk.ground(3_000, PRICES)
    made_with = plan_tools()
    talk.change(
        ground,
        build_plan(ground, what, made_with)
        if isinstance(what, Classic)
        else plan_strategy(ground, what, Frugal(), made_with),
    )


def _calls(draw: st.DrawFn, talk: GrowingConversation, number: int) -> None:
    reply = talk.say("assistant", Text(f"I look at {number}."), calls=draw(st.integers(1, 3)))
    waiting = list(reply.tool_calls)
    while waiting:
        if draw(st.integers(0, 4)) == 0:
            talk.say("user", Text(make_prose(draw(LENGTHS), "hurry")))
        at_once = draw(st.integers(1, len(waiting)))
        talk.say("tool", results=[_result(draw, call.id) for call in waiting[:at_once]])
        del waiting[:at_once]


def _result(draw: st.DrawFn, call: str) -> ToolResult:
    said = make_prose(draw(LENGTHS), call)
    parts: tuple[Part, ...] = (Text(said),)
    kind = draw(st.sampled_from(["text", "text", "json", "both"]))
    if kind == "json":
        parts = (Data({"rows": [*said.splitlines()]}),)
    elif kind == "both":
        parts = (Text("It is:"), Text(said))
    return ToolResult(call, parts, is_error=draw(st.integers(0, 5)) == 0)


shares = st.sampled_from([0.1, 0.4, 0.7, 0.9, 0.98, 1.02, 1.06, 1.1, 1.2, 1.3, 1.41, 2, 20])
"""The window, by what is in view."""


wide = st.sampled_from([1.02, 1.3, 2, 20])


prices = st.builds(
    functools.partial(replace, PRICES),
    cache_read=st.sampled_from([0, 30_000, 300_000, 3_000_000]),
    cache_write=st.sampled_from([300_000, 3_000_000, 3_750_000, 6_000_000]),
    ttl_s=st.sampled_from([0, 300, 3_600]),
)


calibrations = st.builds(
    Calibration, factor=st.sampled_from([1_000, 1_000, 250, 777, 1_300]), overhead=st.sampled_from([4, 0, 25])
)


frugal = st.builds(
    Frugal,
    preserve_turns=st.integers(0, 3),
    tail_share=st.sampled_from([0.25, 0.01, 1.0]),
    summary_share=st.sampled_from([1 / 16, 0.001, 0.5]),
    least=st.sampled_from([0, 100, 1_000]),
    large=st.sampled_from([100, 2_000]),
    excerpt=st.sampled_from([1, 30, 200]),
    recent=st.sampled_from([0, 0, 1, 4]),
    result_share=st.sampled_from([0.3, 0.01, 1.0]),
    payback_share=st.sampled_from([0.2, 1.0]),
)


faithful = st.builds(
    Faithful,
    threshold=st.sampled_from([0.85, 0.6]),
    target=st.sampled_from([0.5, 0.2]),
    cold=st.sampled_from([0.5, 0.3]),
    cold_target=st.sampled_from([0.25, 0.05]),
    turn_share=st.sampled_from([0.15, 0.01, 1.0]),
    least_share=st.sampled_from([0.1, 0.001]),
    summary_share=st.sampled_from([0.2, 0.001]),
    recent=st.sampled_from([0, 0, 1, 4]),
    result_share=st.sampled_from([0.3, 0.01, 1.0]),
    payback_share=st.sampled_from([0.2, 1.0]),
)


_steps = st.sampled_from([None, 0.5, 0.9])


classic = st.builds(
    Classic,
    snip=st.just(0.70) | _steps,
    micro=st.just(0.80) | _steps,
    collapse=st.just(0.90) | _steps,
    auto=st.just(0.95) | _steps,
    target=st.sampled_from([0.65, 0.3]),
    preserve_turns=st.integers(0, 3),
    tail_share=st.sampled_from([0.25, 0.01, 1.0]),
    large=st.sampled_from([100, 2_000]),
    excerpt=st.sampled_from([30, 200]),
)


@st.composite
def plan_inputs(draw: st.DrawFn, least: int = 1, *, fitting: bool = False) -> PlanInput:
    """So many turns at least, in a window of any size, or in one that they fit into."""
    talk = draw(conversations(least))
    later = draw(st.sampled_from([0, 1, 299, 301, 3_600, 90_000, -1, -90_000]))
    ground = talk.ground(
        1,
        draw(prices),
        system=draw(st.sampled_from([0, 0, 100, 4_000])),
        now_us=talk.now_us + later * SECOND_US,
        cold=draw(st.booleans()),
    )
    return replace(ground, window=max(1, round(count_tokens(ground, plan_tools()) * draw(wide if fitting else shares))))


def plan_tools(
    calibration: Calibration = Calibration(overhead=0), summarizing: int = 0, summarize: SummarizeItems | None = None
) -> PlanTools:
    """What the engine plans with. A summary costs so much for each of its tokens."""
    return PlanTools(
        measure=calibration.measure,
        count=count_quarters,
        summarize=summarize or (lambda items, tokens: extract_summary(items, tokens, count_quarters)),
        summarizing=lambda _tokens, summary: summarizing * summary,
    )


# What is shown


def last_seq(item: HistoryItem) -> int:
    return item.last if isinstance(item, Summary) else max(message.seq for message in item.messages)


def show_items(ground: PlanInput) -> list[HistoryItem]:
    reduced = group_by_message(ground.view.reduced)
    return [
        item
        if isinstance(item, Summary)
        else MessageGroup(tuple(show_message(message, reduced)[0] for message in item.messages))
        for item in ground.items
    ]


def measure_items(ground: PlanInput, made_with: PlanTools) -> list[int]:
    """What each item takes, as it is shown."""
    return [
        made_with.measure(item.tokens, 1 if isinstance(item, Summary) else len(item.messages))
        for item in show_items(ground)
    ]


def count_tokens(ground: PlanInput, made_with: PlanTools) -> int:
    return ground.system + sum(measure_items(ground, made_with))


def apply_plan(ground: PlanInput, plan: Plan) -> PlanInput:
    """What the next plan is made on, once this one was carried out and nothing else was said."""
    if plan.empty:
        return ground
    seq, fold, items = ground.version + 1, plan.fold, list(ground.items)
    reduced = {(each.message, each.piece): each for each in (*ground.view.reduced, *plan.reduced)}
    if fold is not None:
        stay = {*fold.kept}
        kept = [
            item
            for item in items
            if last_seq(item) > fold.last or (isinstance(item, MessageGroup) and item.seq in stay)
        ]
        summary = Summary(
            seq=seq,
            first=fold.first,
            last=fold.last,
            messages=fold.count,
            text=fold.text,
            tokens=fold.tokens,
            replaced=fold.replaced,
        )
        items = [summary, *kept]
        reduced = {place: each for place, each in reduced.items() if each.message > fold.last or each.message in stay}
    view = ViewState(
        seq,
        tuple(reduced[place] for place in sorted(reduced)),
        seq,
        plan.figures.calls,
        plan.figures.grown,
        results=plan.figures.results,
        repeats=plan.figures.repeats,
        earned=plan.figures.earned,
    )
    return replace(ground, version=seq, items=tuple(items), view=view)


def first_difference(before: Sequence[HistoryItem], after: Sequence[HistoryItem]) -> int | None:
    """The number of the first item that is shown otherwise, in every dialect alike; None if what is new only extends."""
    same = 0
    while same < min(len(before), len(after)) and before[same] == after[same]:
        same += 1
    for render in RENDERERS:
        assert render_items(render, before[:same]) == render_items(render, after[:same])
        if same < len(before):
            assert render_items(render, before[: same + 1]) != render_items(render, after[: same + 1])
    return same if same < len(before) else None


def render_items(render: Callable[[HistoryView], Any], items: Sequence[HistoryItem]) -> bytes:
    return encode_rendering(render(HistoryView(scope=SCOPE, version=1, items=tuple(items))))


RENDERERS: tuple[Callable[[HistoryView], Any], ...] = (
    render_text,
    render_openai_chat,
    render_openai_responses,
    functools.partial(render_anthropic, breakpoints=0),
)


def encode_rendering(rendering: Any) -> bytes:
    return json.dumps(rendering, sort_keys=True).encode()


policies: st.SearchStrategy[PlanPolicy] = st.one_of(faithful, frugal, classic)
