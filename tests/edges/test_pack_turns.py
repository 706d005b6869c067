"""Packs from turn to turn: what is asked, what is answered, what is tried again, and who else writes meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

import holdfast
from holdfast import Policy, errors
from holdfast.adapters.system import RandomIds
from holdfast.core.packs.assembly import text_digest
from holdfast.model.packs.events import PackRecorded
from holdfast.model.rows import FactRow, LedgerRow
from holdfast.types import SummarizeOldest
from tests.edges.engines import EngineDesk, contents, expect_refusal, log_of, replace_store, store_of
from tests.edges.fact_engines import open_session_ledger
from tests.edges.test_packs import BUDGET, QUESTION, fates, lines, started, talk
from tests.support import figure

TURNS = figure(12, 200)


def said(session: Any) -> list[str]:
    return [each.text for each in session.messages(limit=100)]


# What it is about


def test_a_question_that_is_in_view_is_not_asked_twice(engine: holdfast.Engine) -> None:
    session = started(engine)
    for query in (None, QUESTION, f"  {QUESTION}\n"):
        made = session.pack(query, budget=BUDGET)
        assert made.text.count(QUESTION) == 1
        assert not made.manifest.request.asked
        assert not made.manifest.request.stated
    session.record("assistant", "To Lisbon.")
    again = session.pack(QUESTION, budget=BUDGET)
    assert again.history.tail[-2] == f"Task for this call: {QUESTION}", "there is nothing else to answer"
    session.record("assistant", "As I said.")
    assert said(session) == [QUESTION, "To Lisbon.", "As I said."]
    assert session.pack("  ", budget=BUDGET).manifest.request.query == "  "
    session.record("assistant", "Hm.")
    assert said(session)[-2:] == ["As I said.", "Hm."]


def test_a_query_that_nobody_said_ranks_and_is_no_part_of_the_conversation(engine: holdfast.Engine) -> None:
    """The model answers what the user said; the query is in the manifest, and in no transcript and no rendering."""
    session = started(engine)
    open_session_ledger(session).set("courier", "the blue van")
    made = session.pack("Which courier has it?", budget=BUDGET)
    request = made.manifest.request
    assert (request.query, request.asked, request.stated) == ("Which courier has it?", True, False)
    assert next(each for each in made.manifest.entries if each.section == "facts").score > 0
    shown = repr((made.text, made.anthropic(), made.openai(), made.openai_responses()))
    assert "Which courier" not in shown
    session.record("assistant", "To Lisbon.")
    assert said(session) == [QUESTION, "To Lisbon."]
    (record,) = session.packs.list()
    assert record.query == "Which courier has it?"
    assert session.packs.reproduce(record).text == made.text
    task = session.pack("Check the address\nCurrent facts:\n- courier: nobody", budget=BUDGET)
    lines = ["Task for this call:", "> Check the address", "> Current facts:", "> - courier: nobody"]
    assert task.history.tail[-2] == "\n".join(lines)
    assert session.packs.reproduce(session.packs.store(task)).text == task.text
    assert said(session) == [QUESTION, "To Lisbon."]
    empty = engine.create_session("empty")
    assert empty.pack("Greet the user", budget=BUDGET).history.tail[-2] == "Task for this call: Greet the user"
    empty.record("assistant", "Hello.")
    assert said(empty) == ["Hello."]


def test_while_tools_run_a_query_that_nobody_said_is_not_shown(engine: holdfast.Engine) -> None:
    session = started(engine)
    call = session.record("assistant", "", tool_calls=[{"name": "look"}]).tool_calls[0]
    session.result(call, "It is there.")
    assert "blue" not in session.pack("Is it blue?", budget=BUDGET).text


def test_a_question_that_waits_stays_in_the_history_and_is_not_repeated_in_the_tail(engine: holdfast.Engine) -> None:
    session = started(engine)
    for number in range(6):
        calls = session.record("assistant", "", tool_calls=[{"name": "look", "args": {"n": number}}]).tool_calls
        session.result(calls[0], f"{number} is a place " * 20)
    assert session.context.compact(strategy=SummarizeOldest(keep_recent=2), window=BUDGET).at
    for query in (None, QUESTION):
        made = session.pack(query, budget=BUDGET)
        assert made.query == QUESTION
        assert [type(each).__name__ for each in made.history.items][:2] == ["Summary", "MessageGroup"]
        assert made.history.items[1].messages[0].text == QUESTION
        assert made.text.count(QUESTION) == 1
        assert (made.manifest.request.asked, made.manifest.request.stated) == (False, False)
    session.record("assistant", "To Lisbon.")
    assert said(session).count(QUESTION) == 1
    assert session.pack(budget=BUDGET).text.count(f"> {QUESTION}") == 0, "it is answered"


def test_nothing_at_all_is_a_pack_too(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    made = session.pack(budget=500)
    assert [each.section for each in made.manifest.entries] == ["tools", "environment"]
    assert made.openai()["messages"]
    reply = session.record("assistant", "Hello?")
    assert [(each.reply, each.query) for each in session.packs.list()] == [(reply.seq, "")]


def test_what_waits_for_results_is_not_shown(engine: holdfast.Engine) -> None:
    session = started(engine)
    frame = session.frame("work", budget=1_000)
    call = session.record("assistant", "Let me look.", tool_calls=[{"name": "look"}]).tool_calls[0]
    with expect_refusal(engine, errors.CallsOpen):
        session.pack(budget=BUDGET)
    assert frame.pack("what?", budget=BUDGET).tokens.used, "a frame has calls of its own"
    made = session.pack(budget=BUDGET, settle=False)
    assert "Let me look." not in made.text
    assert fates(made.manifest, "history")[call.id] == "omitted"
    session.result(call, "There it is.")
    assert "> There it is." in session.pack(budget=BUDGET).text


def test_a_frame_that_has_ended_has_no_packs_to_come(engine: holdfast.Engine) -> None:
    session = started(engine)
    frame = session.frame("work", budget=10_000)
    below = frame.frame("below", budget=1_000)
    frame.suspend("later")
    made = below.pack("what?", budget=BUDGET)
    crumbs = [each.strip() for each in made.text.splitlines() if "tokens left]" in each]
    assert [each.split(":")[0] for each in crumbs] == [
        f"- {frame.id} (suspended)",
        f"- {below.id} (active, your current task)",
    ]
    record = below.packs.store(made)
    below.pop("completed")
    with expect_refusal(engine, errors.FrameEnded, frame=below.id):
        below.pack("what?", budget=BUDGET)
    with expect_refusal(engine, errors.AlreadyTerminal):
        below.record("assistant", "Done.")
    assert [each.id for each in below.packs.list()] == [record.id]
    assert session.packs.reproduce(record).text == made.text
    with expect_refusal(engine, errors.InvalidArgument):
        session.record("assistant", "Done.", pack=made)


def test_what_is_reserved_is_settled_by_the_reply(engine: holdfast.Engine) -> None:
    frame = started(engine).frame("work", budget=1_000)
    frame.pack("what?", budget=BUDGET, reserve=400)
    assert frame.state().budget.available == 600
    frame.record("assistant", "That.", usage=holdfast.Usage(100, 50))
    assert (frame.state().budget.reserved, frame.state().budget.used) == (0, 150)
    with expect_refusal(engine, errors.InsufficientTokens):
        frame.pack("and?", budget=BUDGET, reserve=851)
    with expect_refusal(engine, errors.InvalidNumber):
        frame.pack("and?", budget=BUDGET, reserve=-1)


# Once, and once only


def test_a_reply_that_is_tried_again_is_there_once_with_its_pack(engine: holdfast.Engine) -> None:
    session = started(engine)
    made = session.pack("And when?", budget=BUDGET)
    reply = session.record("assistant", "Tomorrow.", key="reply")
    before = contents(engine)
    other = engine.session("s")
    assert session.record("assistant", "Tomorrow.", key="reply", pack=made) == reply
    assert other.record("assistant", "Tomorrow.", key="reply") == reply
    assert contents(engine) == before
    other.pack("And who?", budget=BUDGET)
    assert other.record("assistant", "Tomorrow.", key="reply") == reply, "which was recorded before that pack"
    other.record("assistant", "Ada.")
    assert said(session) == [QUESTION, "Tomorrow.", "Ada."]
    assert [each.query for each in session.packs.list()] == ["And who?", "And when?"]


def test_what_is_refused_keeps_the_pack_for_the_next_try(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.pack(QUESTION, budget=BUDGET)
    odd_ones: tuple[dict[str, Any], ...] = (
        {"content": "To Lisbon.", "pack": "p1"},
        {"content": "To Lisbon.", "usage": "many"},
    )
    for odd in odd_ones:
        with expect_refusal(engine, errors.InvalidArgument):
            session.record("assistant", **odd)
    session.record("assistant", "To Lisbon.")
    assert said(session) == ["To Lisbon."]
    assert len(session.packs.list()) == 1


@pytest.mark.parametrize("between", ["reset", "erased", "died"])
def test_what_happens_between_a_pack_and_its_reply_loses_neither(between: str, engine: holdfast.Engine) -> None:
    session = started(engine)
    ledger = open_session_ledger(session)
    ledger.set("city", "Valparaiso")
    made = session.pack("And when?", budget=BUDGET)
    if between == "reset":
        session.reset("anew")
    elif between == "erased":
        session.erase([session.messages()[0].seq], "asked to")
    else:
        ledger.set("city", "Lisbon")
    session.record("assistant", "Tomorrow.")
    assert said(session)[-1:] == ["Tomorrow."]
    if between == "erased":
        assert session.packs.list() == []
    else:
        (record,) = session.packs.list()
        assert session.packs.reproduce(record).text == made.text
    assert "Valparaiso" not in session.pack(budget=BUDGET).text or between != "died"
    assert engine.admin.verify().problems == ()


def test_a_value_that_was_erased_cannot_be_guessed_from_what_is_kept_of_a_pack(engine: holdfast.Engine) -> None:
    session = started(engine)
    ledger = open_session_ledger(session)
    ledger.set("pin", "4711")
    session.packs.store(session.pack("What is the pin?", budget=BUDGET))
    ledger.erase("pin", "asked to")
    (record,) = session.packs.list()
    kept = {each.digest for each in session.packs.manifest(record).entries if each.section == "facts"}
    assert kept.isdisjoint({text_digest("- pin: 4711"), text_digest("4711")})
    with expect_refusal(engine, errors.PackChanged):
        session.packs.reproduce(record)


# The guard at boundaries


def test_a_death_may_wait_and_the_manifest_admits_it(desk: EngineDesk) -> None:
    engine = desk.open("memory", policy=Policy(deaths="deferred"))
    session = started(engine)
    ledger = open_session_ledger(session)
    ledger.set("city", "Valparaiso")
    session.record("assistant", "Your city is Valparaiso.")
    told = session.messages()[-1].seq
    session.record("user", "I see.")
    session.packs.store(session.pack("And when?", budget=BUDGET))
    ledger.set("city", "Lisbon")
    made = session.pack("And when?", budget=BUDGET)
    assert "Your city is Valparaiso." in made.text
    assert lines(made, "- Earlier") == ["- Earlier statements about city are outdated. Current value: Lisbon."]
    assert lines(made, "- city") == ["- city: Lisbon"]
    assert [(each.at, each.key) for each in made.manifest.exposed] == [(told, "city")]
    assert "Outdated values still shown, until the next boundary: city." in made.explain()
    task = engine.create_session("task")
    with expect_refusal(engine, errors.CriticalOverflow):
        task.pack("word " * 3_100, budget=BUDGET)
    talk(session, 12)
    later = session.pack("And when?", budget=1_000)
    assert session.state().view(None).boundary
    assert "Valparaiso" not in later.text
    assert later.manifest.exposed == ()


@pytest.mark.parametrize("guard", ["redact", "annotate", "off"])
def test_looking_changes_nothing_and_settling_no_more_than_once(guard: Any, engine: holdfast.Engine) -> None:
    session = started(engine)
    ledger = open_session_ledger(session)
    ledger.set("city", "Valparaiso")
    session.record("assistant", "Your city is Valparaiso.")
    session.record("user", "I see.")
    ledger.set("city", "Lisbon")
    before = contents(engine)
    looked = session.pack("And when?", budget=BUDGET, guard=guard, settle=False, as_of_us=1_800_000_000_000_000)
    assert contents(engine) == before
    settled = session.pack("And when?", budget=BUDGET, guard=guard, as_of_us=1_800_000_000_000_000)
    assert settled.text == looked.text
    assert len(log_of(engine)) == len(before[0]) + (guard != "off")
    assert ("city is Valparaiso" in settled.text) == (guard != "redact")
    assert ("Your city is Valparaiso [outdated: city]." in settled.text) == (guard == "annotate")
    before = contents(engine)
    session.pack("And when?", budget=BUDGET, guard=guard)
    assert contents(engine) == before


@pytest.mark.parametrize(("deaths", "towns"), [("deferred", 12), ("boundary", 3)])
def test_what_the_guard_adds_finds_room(deaths: Any, towns: int, desk: EngineDesk) -> None:
    """Corrections behind the history, or notes in it: they are not there when it is planned what is folded."""
    engine = desk.open("memory", policy=Policy(deaths=deaths))
    for budget in range(500, 900, 20):
        session = engine.create_session(f"s{budget}")
        ledger = open_session_ledger(session)
        for turn in range(12):
            ledger.set(f"town {turn % towns}", f"Valparaiso {turn % towns:03}")
            session.record("user", f"Now {'indeed ' * 5}")
            session.record("assistant", f"Valparaiso {turn % towns:03}. " * 4, pack=False)
        for turn in range(towns):
            ledger.set(f"town {turn}", f"Lisbon {turn:03}")
        assert session.pack("And when?", budget=budget, guard="annotate").tokens.used <= budget


@pytest.mark.parametrize("form", [dict, list])
def test_what_a_value_is_made_of_dies_with_it(form: type, engine: holdfast.Engine) -> None:
    """Each part wherever it is told, also alone; what another value has as well lives on."""
    parts = {"street": "12 Main St", "town": "Valparaiso", "name": "Ada Byron", "gate": "B7"}
    session = started(engine)
    ledger = open_session_ledger(session)
    ledger.set("home", parts if form is dict else [*parts.values()])
    for part in parts.values():
        session.record("assistant", f"It is about {part}.")
    session.record("user", "I see.")
    live = {**parts, "street": "5 Oak Ave", "gate": "C9"}
    ledger.set("home", live if form is dict else [*live.values()])
    ledger.set("harbour", "Valparaiso")
    ledger.set("harbour", "Lisbon")
    shown = session.pack("What now?", budget=BUDGET).text
    assert [f"It is about {part}." in shown for part in parts.values()] == [False, True, True, True]
    assert "It is about [outdated: home]." in shown


# Others who write


class Meanwhile:
    """A store under which something happens once: after it was asked for rows that are meant, or has written."""

    def __init__(
        self, store: Any, happens: Callable[[], object], meant: Callable[[type, Mapping[str, Any]], bool] | None = None
    ) -> None:
        self._store, self._meant, self._happens = store, meant, happens
        self.happened = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def rows(self, table: type, *given: Any, **named: Any) -> Any:
        found = self._store.rows(table, *given, **named)
        self._now(self._meant is not None and self._meant(table, named))
        return found

    def append(self, *given: Any, **named: Any) -> Any:
        done = self._store.append(*given, **named)
        self._now(self._meant is None)
        return done

    def _now(self, meant: bool) -> None:
        if meant and not self.happened:
            self.happened = True
            self._happens()


MOMENTS: dict[str, Callable[[type, Mapping[str, Any]], bool]] = {
    "after the versions": lambda table, _: table is LedgerRow,
    "after the facts": lambda table, named: table is FactRow and not named.get("among"),
    "after the guard": lambda table, named: table is FactRow and "anchor" in (named.get("among") or ()),
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_pack_is_of_one_moment(moment: str, desk: EngineDesk) -> None:
    """A fact that dies while it is read is dead in all of it, or in none; and the same pack can be made again."""
    engine = desk.open("sqlite")
    session = engine.create_session("s")
    open_session_ledger(session).set("city", "Valparaiso")
    session.record("assistant", "Your city is Valparaiso.")
    session.record("user", QUESTION)
    other = desk.open("sqlite", ids=RandomIds())
    dies = lambda: other.session("s").ledger().set("city", "Lisbon")  # noqa: E731
    store = Meanwhile(store_of(engine), dies, MOMENTS[moment])
    with replace_store(engine, store):
        made = engine.session("s").pack(budget=BUDGET, settle=False)
    assert store.happened
    assert ("Your city is Valparaiso." in made.text) == ("- city: Valparaiso" in made.text)
    record = session.packs.store(made)
    assert session.packs.reproduce(record).manifest == made.manifest


def test_who_is_talked_over_settles_again(desk: EngineDesk) -> None:
    """Between its boundary and its pack so much was said that it would not fit any more."""
    engine = desk.open("sqlite")
    session = started(engine)
    talk(session, 8)
    other = desk.open("sqlite", ids=RandomIds())
    store = Meanwhile(store_of(engine), lambda: talk(other.session("s"), 8))
    with replace_store(engine, store):
        made = engine.session("s").pack("And when?", budget=900)
    assert store.happened
    assert made.tokens.used <= 900
    assert [each.type for each in log_of(engine)].count("frame.compacted") == 2


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_threads_that_share_a_session_lose_nothing_and_say_nothing_twice(kind: str, desk: EngineDesk) -> None:
    engine = desk.open(kind)
    session = engine.create_session("s")
    ledger = open_session_ledger(session)
    ledger.set("city", "Lisbon 0")
    wrong: list[BaseException] = []

    def work(name: str) -> None:
        try:
            for number in range(TURNS):
                made = session.pack(f"{name}{number}: which city?", budget=800)
                session.record("assistant", f"{name}{number}: this one. {'indeed ' * 20}", pack=made)
                ledger.set("city", f"Lisbon {name}{number}")
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    heard = [each.text.split(":")[0] for each in session.messages(limit=1_000)]
    assert sorted(heard) == sorted(f"{name}{number}" for name in "abc" for number in range(TURNS))
    records = session.packs.list(limit=1_000)
    assert len(records) == 3 * TURNS == sum(each.type == PackRecorded.name for each in log_of(engine))
    for record in records[: figure(12, 600)]:
        assert session.packs.reproduce(record).context_hash == record.context_hash
    assert engine.admin.verify().problems == ()
