"""The sums over calls, and how near the priced counterfactual comes to what a provider charges for the plain requests."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdfast
from holdfast.cli import main
from holdfast.gateway.desk import Desk
from holdfast.gateway.engines import open_engine
from holdfast.gateway.figures import (
    ENTRY_KIND,
    REFUSAL_KIND,
    ExchangeFigures,
    PromptSize,
    bill_plain,
    measure_prompt,
    price_call,
)
from holdfast.gateway.model import Outcome, PreparedRequest
from holdfast.gateway.options import DeskOptions
from holdfast.gateway.proxy import Gateway, GatewayOptions
from holdfast.gateway.service import GatewayService
from holdfast.gateway.statistics import PICO, CallTotals, read_calls, sum_calls
from holdfast.model.history.bills import CallBill
from holdfast.model.history.prices import find_prices
from holdfast.runtime import doctor
from tests.gateway.loops import ChatLoop, MessagesLoop, ResponsesLoop, write_script
from tests.gateway.upstreams import FakeProvider

COUNTS = st.integers(0, 2_000_000)
BILLS = st.builds(CallBill, COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
SIZES = st.none() | st.builds(PromptSize, sent=COUNTS, plain=COUNTS, counted=COUNTS)
MODELS = st.sampled_from(["claude-sonnet-4-5", "gpt-5", "a-model-of-my-own"])


@st.composite
def draw_calls(draw: st.DrawFn) -> ExchangeFigures:
    sent = draw(st.none() | BILLS)
    saved = draw(COUNTS) if sent is not None else 0
    model = draw(MODELS)
    is_boundary = draw(st.booleans())
    plain = None
    if sent is not None:
        total = sent.tokens + saved
        plain = bill_plain(sent, total, before=draw(SIZES), is_boundary=is_boundary, is_warm=draw(st.booleans()))
    found = ExchangeFigures(
        sent_us=draw(COUNTS),
        ended_us=draw(COUNTS),
        dialect="anthropic",
        model=model,
        status=draw(st.sampled_from([0, 200, 200, 200, 400, 529])),
        side=draw(st.sampled_from(["", "", "no tools"])),
        sent=sent,
        plain=plain,
        saved=saved,
        is_boundary=is_boundary,
        was_resent=draw(st.booleans()),
        run=draw(st.sampled_from(["", "a", "b"])),
    )
    return price_call(found, find_prices(model))


CALLS = st.lists(draw_calls(), max_size=12)


@given(CALLS, CALLS)
def test_the_sums_of_two_sets_of_calls_are_those_of_their_union(
    first: list[ExchangeFigures], second: list[ExchangeFigures]
) -> None:
    merged = sum_calls(first)
    merged.merge(sum_calls(second))
    assert merged == sum_calls([*first, *second]) == sum_calls([*second, *first])


@given(CALLS)
def test_every_call_is_counted_once_and_what_has_no_price_is_named(calls: list[ExchangeFigures]) -> None:
    totals = sum_calls(calls)
    assert totals.calls + totals.side_calls + totals.failed == len(calls)
    metered = [call for call in calls if call.sent is not None]
    assert totals.sent == sum(call.sent.tokens for call in metered if call.sent is not None)
    assert totals.saved == sum(call.saved for call in metered)
    assert totals.cost == sum(call.cost for call in calls)
    assert totals.plain_cost == sum(call.plain_cost for call in calls)
    assert sum(totals.unpriced.values()) == sum(not call.cost and not call.plain_cost for call in metered)
    assert totals.unmetered == sum(call.sent is None and 200 <= call.status < 300 for call in calls)
    assert 0 <= totals.cache_share <= 1
    document = json.loads(json.dumps(totals.as_document()))
    assert (document["cost_usd"] is None) == (not totals.has_prices)


@given(BILLS, COUNTS, SIZES, st.booleans(), st.booleans())
def test_the_counterfactual_has_all_tokens_of_the_plain_prompt(
    sent: CallBill, plain: int, before: PromptSize | None, is_boundary: bool, is_warm: bool
) -> None:
    bill = bill_plain(sent, plain, before=before, is_boundary=is_boundary, is_warm=is_warm)
    assert bill.tokens == plain
    assert bill.output == sent.output
    assert min(bill.read, bill.write, bill.long_write, bill.fresh) >= 0


@given(st.lists(st.tuples(st.integers(1, 5_000), st.booleans()), min_size=1, max_size=30), st.floats(0.7, 1.5))
def test_the_size_of_the_plain_prompt_is_exact_between_boundaries(steps: list[tuple[int, bool]], factor: float) -> None:
    """A provider that counts `factor` times what the engine counts, and a view that takes out half at each boundary."""
    counted = removed = 0
    before: PromptSize | None = None
    for growth, is_boundary in steps:
        counted += growth
        removed = counted // 2 if is_boundary else removed
        sent = round((counted - removed) * factor)
        before = measure_prompt(sent, counted, removed, factor, before=before, is_boundary=is_boundary)
        assert abs(before.plain - counted * factor) <= len(steps) + 1


def test_calls_are_read_once_since_a_time_and_by_their_run() -> None:
    with open_engine("memory:") as engine:
        origin = engine.session("claude-1", create=True)
        message = origin.record("user", "Hello")
        now = time.time_ns() // 1_000
        for number, run in enumerate(["", "a", "a", "b"]):
            figures = ExchangeFigures(
                sent_us=now + number,
                ended_us=now,
                dialect="chat",
                model="m",
                status=200,
                sent=CallBill(fresh=1),
                run=run,
            )
            origin.entries.append(ENTRY_KIND, f"call-{number}", msgspec.to_builtins(figures))
        origin.entries.append(ENTRY_KIND, "foreign", {"mine": True})
        origin.fork(at=message.seq, as_="claude-1.2")
        assert sum_calls(call.figures for call in read_calls(engine)).calls == 4
        assert [call.key for call in read_calls(engine, run="a")] == ["call-2", "call-1"]
        assert [call.key for call in read_calls(engine, since_us=now + 3)] == ["call-3"]
        assert not list(read_calls(engine, since_us=now + 3_600_000_000))


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
@pytest.mark.parametrize("loop", [MessagesLoop, ChatLoop, ResponsesLoop], ids=lambda each: each.dialect)
def test_what_calls_would_have_cost_is_within_two_percent_of_what_the_plain_calls_cost(
    loop: type[MessagesLoop],
) -> None:
    turns = 30
    script = write_script(turns)
    with FakeProvider(script, keep="digests") as plain:
        agent = loop(plain.url, "a")
        agent.run(turns)
        agent.close()
    with FakeProvider(script, keep="digests") as shortened, open_engine("memory:") as engine:
        desk = Desk(engine, DeskOptions(window=12_000))
        options = GatewayOptions(deadline_s=60, anthropic_url=shortened.url, openai_url=f"{shortened.url}/v1")
        with GatewayService(Gateway(desk, options)) as service:
            agent = loop(service.url, "a")
            agent.run(turns)
            agent.close()
        totals = sum_calls(call.figures for call in read_calls(engine))
    assert (totals.calls, totals.failed, totals.refusals) == (turns, 0, 0)
    assert totals.boundaries >= 2
    assert totals.cost / PICO == pytest.approx(shortened.bill.dollars, rel=1e-9)
    assert totals.plain_cost / PICO == pytest.approx(plain.bill.dollars, rel=0.02)
    assert totals.sent + totals.saved == pytest.approx(plain.bill.prompt, rel=0.02)


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
def test_the_counterfactual_goes_on_after_a_restart(tmp_path: Path) -> None:
    turns = 24
    script = write_script(turns)
    with FakeProvider(script, keep="digests") as plain:
        agent = MessagesLoop(plain.url, "a")
        agent.run(turns)
        agent.close()
    with FakeProvider(script, keep="digests") as shortened, open_engine(str(tmp_path / "g.db")) as engine:
        agent = MessagesLoop("http://127.0.0.1:9", "a")
        for until in (9, 10, 17, turns):
            desk = Desk(engine, DeskOptions(window=12_000))
            with GatewayService(Gateway(desk, GatewayOptions(deadline_s=60, anthropic_url=shortened.url))) as service:
                agent.client = agent.client.with_options(base_url=service.url)
                agent.run(until)
        agent.close()
        totals = sum_calls(call.figures for call in read_calls(engine))
    assert totals.boundaries >= 2
    assert totals.cost / PICO == pytest.approx(shortened.bill.dollars, rel=1e-9)
    assert totals.plain_cost / PICO == pytest.approx(plain.bill.dollars, rel=0.02)


class HastyDesk(Desk):
    """Before it records every third reply, it waits for the next one to be recorded, for a while."""

    def __init__(self, engine: holdfast.Engine, options: DeskOptions) -> None:
        super().__init__(engine, options)
        self._begun = 0
        self._overtaken = threading.Event()

    def settle(self, prepared: PreparedRequest, outcome: Outcome) -> None:
        self._begun += 1
        if self._begun % 3 == 0:
            self._overtaken.clear()
            self._overtaken.wait(0.1)
        else:
            self._overtaken.set()
        super().settle(prepared, outcome)


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
def test_replies_that_are_recorded_late_leave_the_counterfactual_right(tmp_path: Path) -> None:
    turns = 18
    script = write_script(turns)
    with FakeProvider(script, keep="digests") as plain:
        agent = MessagesLoop(plain.url, "a")
        agent.run(turns)
        agent.close()
    with FakeProvider(script, keep="digests") as shortened, open_engine(str(tmp_path / "g.db")) as engine:
        desk = HastyDesk(engine, DeskOptions(window=12_000))
        with GatewayService(Gateway(desk, GatewayOptions(deadline_s=60, anthropic_url=shortened.url))) as service:
            agent = MessagesLoop(service.url, "a")
            agent.run(turns)
            agent.close()
        totals = sum_calls(call.figures for call in read_calls(engine))
    assert totals.boundaries >= 2
    assert totals.cost / PICO == pytest.approx(shortened.bill.dollars, rel=1e-9)
    assert totals.plain_cost / PICO == pytest.approx(plain.bill.dollars, rel=0.02)


def test_the_doctor_names_conversations_that_are_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.REFUSAL_KIND == REFUSAL_KIND
    file = str(tmp_path / "gateway.db")
    with open_engine(file) as engine:
        session = engine.session("claude-77", create=True)
        session.record("user", "Hello")
        session.entries.append(REFUSAL_KIND, f"{REFUSAL_KIND}-main", {"status": 413, "model": "gpt-5", "sent_us": 1})
    assert main(["--file", file, "--json", "doctor"]) == 0
    checks = {each["name"]: each for each in json.loads(capsys.readouterr().out)["checks"]}
    assert checks["gateway"]["verdict"] == "warn"
    assert "claude-77 (status 413, gpt-5, " in checks["gateway"]["found"]
    assert f'"{REFUSAL_KIND}-main"' in checks["gateway"]["advice"]


def test_the_figures_say_what_they_leave_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "gateway.db")
    with open_engine(file) as engine:
        session = engine.session("codex-1", create=True)
        common = {"sent_us": time.time_ns() // 1_000, "ended_us": 0, "dialect": "chat", "status": 200}
        bill = CallBill(read=900_000, fresh=100_000, output=10)
        calls = [
            price_call(ExchangeFigures(**common, model="gpt-5", sent=bill, plain=bill), find_prices("gpt-5")),  # type: ignore[arg-type]
            ExchangeFigures(**common, model="a-model-of-my-own", sent=bill, plain=bill),  # type: ignore[arg-type]
            ExchangeFigures(**common, model="gpt-5"),  # type: ignore[arg-type]
        ]
        for number, figures in enumerate(calls):
            session.entries.append(ENTRY_KIND, str(number), msgspec.to_builtins(figures))
    assert main(["stats", "--gateway", "--file", file]) == 0
    out = capsys.readouterr().out
    assert "90% of them read from the prompt cache" in out
    assert "a-model-of-my-own (1)" in out
    assert "1 call whose usage the provider did not report" in out
    assert main(["stats", "--gateway", "--file", file, "--since", "2100-01-01"]) == 0
    assert "No gateway has recorded a call here since then." in capsys.readouterr().out
    assert main(["stats", "--file", file, "--since", "2026-01-01"]) == 2
    assert main(["--json", "stats", "--gateway", "--file", file]) == 0
    (row,) = json.loads(capsys.readouterr().out)["sessions"]
    assert row["session"] == "codex-1"
    assert row["unpriced"] == {"a-model-of-my-own": 1}


def test_without_any_price_no_sum_of_money_is_shown() -> None:
    from holdfast.cli.gateway_figures import NO_CALLS, describe_run

    totals = CallTotals(calls=1, sent=10, unpriced={"x": 1})
    assert not any("$" in text for text in describe_run(totals, "g.db"))
    assert describe_run(CallTotals(), "g.db") == [NO_CALLS]


def test_a_refusal_names_the_command_that_says_more() -> None:
    """Without an option, `holdfast doctor` looks at the file of an agent, not at the store of the gateway."""
    from holdfast.cli.gateway_figures import describe_run

    line, *_ = describe_run(CallTotals(calls=2, refusals=1), "/data of mine/g.db")
    assert "1 refusal (see `holdfast doctor --file '/data of mine/g.db'`)" in line
