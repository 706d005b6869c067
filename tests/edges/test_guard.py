"""The guard on views: superseded values are redacted or marked where they stood before the change, nothing else is touched,
and the transcript is as it was."""

from __future__ import annotations

import inspect
import json
import re
from typing import Any

import pytest

import holdfast
from holdfast import Identity, Policy, errors
from holdfast.core import upcast
from holdfast.model.facts.detection import MessageSpan, Proposal
from holdfast.model.history.events import ContextRedacted
from holdfast.model.packs.pack import GUARD_MODES
from holdfast.model.rows import LedgerRow
from holdfast.types import Opaque, SummarizeOldest
from tests.edges.engines import EngineDesk, ManualClock, log_of, replace_store, rows_of, store_of
from tests.edges.fact_engines import open_ledger, open_session_ledger, proposal

OLD, NEW, NAME = "12 Main St", "5 Oak Ave", "Ada Byron"
MARKER = "[outdated: shipping_address]"
WINDOW = 8_000
LONG = "Some say one thing, and others another. " * 40


def shown(place: Any) -> dict[str, str]:
    """A conversation in the words of each provider."""
    dialects = ("text", "anthropic", "openai", "openai-responses")
    return {to: json.dumps(place.context.render(to), ensure_ascii=False) for to in dialects}


def everywhere(place: Any, text: str) -> bool:
    """Whether all of them, or none, say this."""
    told = {text in each for each in shown(place).values()}
    assert len(told) == 1
    return told.pop()


def redactions(engine: holdfast.Engine) -> list[ContextRedacted]:
    made = (upcast.decode_event(each) for each in log_of(engine))
    return [each for each in made if isinstance(each, ContextRedacted)]


def moved_out(engine: holdfast.Engine, *before: str) -> tuple[Any, Any]:
    """A conversation that tells an address in each of its roads, and the ledger that knows it."""
    session = engine.create_session("s")
    ledger = open_session_ledger(session)
    ledger.set("shipping_address", OLD)
    for text in before:
        session.record("assistant", text)
    session.record("user", f"I am {NAME}. Ship it to {OLD}, please.")
    session.record("assistant", f"I will ship it to {OLD}; the order is for {NAME}.")
    reply = session.record("assistant", "Let me look.", tool_calls=[{"name": "look", "args": {"order": "R2D2"}}])
    session.result(reply.tool_calls[0], {"to": OLD, "for": NAME, "lines": [1, "two", {"note": f"leave at {OLD}"}]})
    session.record("user", "What now?")
    return session, ledger


class Listening:
    """A detector that knows what will be said of which key, and in which words."""

    name = "listening"

    def __init__(self, *told: tuple[str, Any, str]) -> None:
        self._told = told

    def detect(self, observation: holdfast.types.Observation) -> tuple[Proposal, ...]:
        found: list[Proposal] = []
        for key, value, words in self._told:
            start = observation.message.text.find(words)
            if start >= 0:
                about = next((each.fact for each in observation.facts if each.key == key), None)
                span = MessageSpan(0, start, start + len(words))
                change: Any = "supersede" if about else "assert"
                found.append(proposal(change=change, key=key, value=value, fact=about, new=span))
        return tuple(found)


# Where a value stood before the change


def unmarked(place: Any, value: str = OLD) -> bool:
    """Whether any rendering shows a value without a marker behind it."""
    return any(re.search(re.escape(value) + r"(?! \[outdated)", each) is not None for each in shown(place).values())


def test_an_old_value_is_redacted_in_prose_and_marked_in_data(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    before = session.messages()
    assert everywhere(session, OLD)
    ledger.set("shipping_address", NEW)
    assert not unmarked(session)
    assert everywhere(session, f"I am {NAME}. Ship it to {MARKER}, please.")
    assert everywhere(session, f"I will ship it to {MARKER}; the order is for {NAME}.")
    assert everywhere(session, f"{OLD} {MARKER}"), "in the result, under its label"
    assert session.messages() == before


# Other views


def test_a_window_shows_no_old_value(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    before = session.context.window()
    assert list(before.messages) == session.messages()
    ledger.set("shipping_address", NEW)
    view = session.context.window()
    texts = [message.text for message in view.messages]
    assert f"I am {NAME}. Ship it to {MARKER}, please." in texts
    assert not re.search(re.escape(OLD) + r"(?! \[outdated)", "\n".join(texts))
    assert [message.seq for message in view.messages] == [message.seq for message in before.messages]
    assert view.messages == session.context.view().items[0].messages + tuple(
        message for item in session.context.view().items[1:] for message in item.messages
    )
    for tokens in range(view.tokens - 40, view.tokens + 2):
        try:
            small = session.context.window(tokens)
        except errors.WindowTooSmall:
            continue
        assert small.tokens <= tokens, "a marker may be longer than what it stands for"
        assert small.omitted + len(small.messages) == len(before.messages)


def test_a_late_result_in_a_window_shows_no_old_value(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = open_session_ledger(session)
    ledger.set("shipping_address", OLD)
    reply = session.record("assistant", tool_calls=[{"name": "look", "args": {}}])
    session.close_calls("too slow")
    session.result(reply.tool_calls[0], f"The shipping address is {OLD}.")
    ledger.set("shipping_address", NEW)
    session.record("user", "What now?")
    for (late,) in (session.context.window().late, session.context.view().late):
        assert f"{OLD} {MARKER}" in late.text


def _read_back(place: Any, **arguments: Any) -> str:
    """What the tool answers, of an engine that blocks or of one that is awaited."""
    answer = place.handles.tool()(**arguments)
    told: str = place._runner.run(answer) if inspect.iscoroutine(answer) else answer
    return told


def test_what_a_model_reads_back_shows_no_old_value(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = open_session_ledger(session)
    ledger.set("shipping_address", OLD)
    letter = session.record("user", f"{LONG}\nThe shipping address is {OLD}.\n{LONG}")
    frame = session.frame("read", budget=9_000)
    note = frame.handles.add("document", f"The shipping address is {OLD}.")
    session.record("user", "Read it.")
    handle = f"h{letter.seq}_0"
    for place, name in ((session, handle), (frame, note.id)):
        assert OLD in _read_back(place, handle=name)
    ledger.set("shipping_address", NEW)
    for place, name in ((session, handle), (frame, note.id)):
        for asked in ({}, {"search": "shipping"}, {"first_line": 1}):
            told = _read_back(place, handle=name, **asked)
            assert f"The shipping address is {MARKER}." in told
            assert OLD not in told
        assert OLD in place.handles.read(name).text, "a program is given what was stored"
    assert _read_back(session, handle=handle).splitlines()[-1].startswith(f"[{handle}: bytes 0 to ")


def test_rules_write_no_old_value_into_the_situation(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    session.record("assistant", f"It goes to the shipping address {OLD}.", pack=False)
    session.situation.act(approach=f"Ship it to the shipping address {OLD}")
    ledger.set("shipping_address", NEW)
    made = session.situation.refresh()
    told = " ".join(text for _, text in made.situation.fields)
    assert OLD not in told
    assert MARKER in told
    assert not re.search(re.escape(OLD) + r"(?! \[outdated)", session.situation.reasoning())
    assert OLD not in session.pack("What now?", budget=WINDOW).text.split("Situation:")[1]


def test_reinstating_a_fact_brings_back_the_same_bytes(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    before, old = shown(session), ledger.get("shipping_address")
    ledger.set("shipping_address", NEW)
    assert shown(session) != before
    ledger.review.reinstate(old)
    assert shown(session) == before


def test_a_reversal_shows_the_first_value_again(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    before = shown(session)
    ledger.set("shipping_address", NEW)
    session.record("assistant", f"It goes to {NEW} now.")
    session.record("user", "And then?")
    ledger.set("shipping_address", OLD)
    assert everywhere(session, f"I will ship it to {OLD}; the order is for {NAME}.")
    assert everywhere(session, f"It goes to {MARKER} now.")
    assert set(before) == set(shown(session))


@pytest.mark.parametrize("how", ["retracted", "expired", "run out", "superseded", "under another key"])
def test_it_does_not_matter_how_it_ended(desk: EngineDesk, how: str) -> None:
    clock = ManualClock()
    engine = desk.open("memory", clock=clock)
    session = engine.create_session("s")
    fact = session.ledger().set("shipping_address", OLD, ttl_s=60)
    session.record("user", f"To {OLD}. I am {NAME}.")
    session.record("user", "What now?")
    assert everywhere(session, OLD)
    match how:
        case "retracted":
            session.ledger().retract(fact)
        case "expired":
            session.ledger().review.expire(fact)
        case "run out":
            clock.now_s += 61
        case "superseded":
            session.ledger().set("shipping_address", NEW)
        case _:
            session.ledger().set("delivery", NEW, supersedes=fact)
    assert everywhere(session, f"To {MARKER}. I am {NAME}.")


@pytest.mark.parametrize(("how", "note"), [("supersede", "has changed since"), ("retract", "no longer applies")])
def test_a_note_where_it_is_not_certain_is_true_either_way(engine: holdfast.Engine, how: str, note: str) -> None:
    session = engine.create_session("s")
    ledger = open_session_ledger(session)
    fact = ledger.set("meeting_time", "9:30")
    session.record("user", "The train leaves at 09:30.")
    session.record("user", "What now?")
    if how == "supersede":
        ledger.set("meeting_time", "10:15")
    else:
        ledger.retract(fact)
    assert everywhere(session, f"The train leaves at 09:30 [meeting_time {note}].")


def test_what_is_stated_in_other_words_is_known_by_where_it_stands(desk: EngineDesk) -> None:
    """A value without a word that stands out is known by its provenance alone."""
    said = (
        ("budget", {"sum": 9000, "per": "year"}, "nine grand a year"),
        ("budget", {"sum": 7500}, "seven and a half"),
    )
    for kind in ("memory", "sqlite", "postgres"):
        session = desk.open(kind, detector=Listening(*said)).create_session("s")
        assert [each.outcome for each in session.observe("We have nine grand a year. I am Ada.").proposals] == [
            "applied"
        ]
        session.record("user", "What now?")
        assert everywhere(session, "grand")
        assert [each.outcome for each in session.observe("It is seven and a half now.").proposals] == ["applied"]
        session.record("user", "What now?")
        assert everywhere(session, "We have [outdated: budget]. I am Ada.")
        assert everywhere(session, "seven and a half")


def test_a_live_value_is_never_masked(engine: holdfast.Engine) -> None:
    """Not one that is the same as an old one, nor one that it is a part of, in whatever ledger."""
    ledger = open_ledger(engine, user="ada")
    session = engine.create_session("s", ledgers=[ledger.id])
    ledger.set("shipping_address", OLD)
    open_session_ledger(session).set("street", "Main St 12 B")
    session.record("user", f"Ship to {OLD}. We met in Main St 12 B yesterday.")
    session.record("user", "What now?")
    open_session_ledger(session).set("street", "Oak Ave 5 B")
    assert everywhere(session, f"Ship to {OLD}. We met in [outdated: street] yesterday.")
    open_session_ledger(session).set("shipping_address", OLD)
    ledger.retract("shipping_address")
    assert everywhere(session, OLD)


# What came after the change


def test_nothing_newer_than_the_change_is_touched(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    ledger.set("shipping_address", NEW)
    session.record("assistant", f"No, {OLD} is where it was.")
    session.record("user", f"Is the shipping address still {OLD}?")
    reply = session.record("assistant", "Let me look.", tool_calls=[{"name": "look", "args": {"was": OLD}}])
    session.result(reply.tool_calls[0], {"shipping_address": OLD})
    session.record("user", "I see.")
    for text in (f"No, {OLD} is where it was.", f"still {OLD}?", '"was'):
        assert everywhere(session, text)
    assert [*session.context.view().items[-2].messages] == session.messages()[-3:-1]


def test_a_tool_result_recorded_after_the_change_stays(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = open_session_ledger(session)
    ledger.set("shipping_address", OLD)
    session.record("user", "Where to?")
    reply = session.record("assistant", "", tool_calls=[{"name": "look", "args": {}}])
    ledger.set("shipping_address", NEW)
    session.result(reply.tool_calls[0], f"The shipping address is {OLD}.")
    session.record("user", "What now?")
    assert everywhere(session, f"The shipping address is {OLD}.")


class Still:
    """A clock that stands still, or runs backwards."""

    def __init__(self, step: int) -> None:
        self._now, self._step = 1_700_000_000_000_000, step

    def now_us(self) -> int:
        self._now += self._step
        return self._now


@pytest.mark.parametrize("step", [0, -1_000_000, 1_000_000])
@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_order_is_that_of_the_log_and_not_of_a_clock(desk: EngineDesk, kind: str, step: int) -> None:
    engine = desk.open(kind, clock=Still(step))
    theirs = engine.ledger(user="ada")
    session = engine.create_session("s", ledgers=[theirs.id])
    theirs.set("shipping_address", OLD)
    session.record("assistant", f"First: {OLD}.")
    theirs.set("shipping_address", NEW)
    session.record("assistant", f"Second: {OLD}.")
    session.record("user", "What now?")
    assert everywhere(session, f"First: {MARKER}.")
    assert everywhere(session, f"Second: {OLD}.")


def test_the_current_turn_is_untouched(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = open_session_ledger(session)
    ledger.set("shipping_address", OLD)
    session.record("user", f"My shipping address is {OLD}.")
    reply = session.record("assistant", f"I ship it to {OLD}.", tool_calls=[{"name": "ship", "args": {"to": OLD}}])
    session.result(reply.tool_calls[0], {"shipping_address": OLD})
    before = shown(session)
    ledger.set("shipping_address", NEW)
    assert shown(session) == before
    session.record("user", "What now?")
    assert everywhere(session, f"My shipping address is {MARKER}.")


def test_what_corrects_keeps_what_it_corrects_until_the_next_turn(desk: EngineDesk) -> None:
    said = (("colour", "magenta", "magenta"), ("colour", "turquoise", "turquoise"))
    session = desk.open("memory", detector=Listening(*said)).create_session("s")
    session.observe("My colour is magenta.")
    correction = "Actually, my colour is turquoise, not magenta."
    session.observe(correction)
    assert everywhere(session, correction)
    assert everywhere(session, "My colour is [outdated: colour].")
    session.record("user", "What now?")
    assert everywhere(session, "turquoise")


def test_system_messages_are_the_programs_own_words(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("system", f"The depot is at {OLD}.")
    open_session_ledger(session).set("shipping_address", OLD)
    session.record("user", f"To {OLD}.")
    open_session_ledger(session).set("shipping_address", NEW)
    session.record("user", "What now?")
    assert everywhere(session, f"The depot is at {OLD}.")
    assert everywhere(session, f"To {MARKER}.")


# Sentences that a guard must get right


def changed(engine: holdfast.Engine, key: str, old: Any, new: Any, *said: str) -> Any:
    """A conversation in which a fact changes after these messages, and the next turn begins."""
    session = engine.create_session("s")
    ledger = open_session_ledger(session)
    ledger.set(key, old)
    for text in said:
        session.record("user", text)
        session.record("assistant", "Fine.")
    ledger.set(key, new)
    session.record("user", "What now?")
    return session


def test_a_change_that_was_heard_leaves_other_meanings_of_the_value_alone(engine: holdfast.Engine) -> None:
    ledger = open_ledger(engine, user="ada")
    ledger.set("home_city", "Rome")
    session = engine.create_session("s", ledgers=[ledger.id])
    session.record("user", "I live in Rome. Book me a flight to Rome.")
    seen = session.observe("My home city is Lisbon now.")
    assert [(each.outcome, each.proposal.value) for each in seen.proposals] == [("applied", "Lisbon")]
    session.record("user", "What now?")
    assert everywhere(session, "I live in [outdated: home_city]. Book me a flight to Rome.")


def test_book_me_a_flight_to_rome_stays_after_home_city_changes_from_rome(engine: holdfast.Engine) -> None:
    session = changed(engine, "home_city", "Rome", "Paris", "I live in Rome.", "Book me a flight to Rome.")
    assert everywhere(session, "Book me a flight to Rome.")
    assert everywhere(session, "I live in [outdated: home_city].")


def test_send_the_invoice_to_alice_stays_after_the_lead_changes_from_alice(engine: holdfast.Engine) -> None:
    session = changed(
        engine, "project_lead", "Alice", "Bob", "Alice is the project lead.", "Send the invoice to Alice, please."
    )
    assert everywhere(session, "Send the invoice to Alice, please.")
    assert everywhere(session, "[outdated: project_lead] is the project lead.")


def test_the_environment_keeps_its_location_after_location_changes(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.environment.set("location", "Lisbon")
    open_session_ledger(session).set("location", "Lisbon")
    session.record("user", "Hello.")
    open_session_ledger(session).set("location", "Porto")
    session.record("user", "What now?")
    assert re.search(
        r"^- location: Lisbon \([^)]+\) \[location has changed since\]$", session.pack(budget=WINDOW).text, re.MULTILINE
    )
    session.environment.set("location", "Lisbon")
    assert re.search(r"^- location: Lisbon \([^)]+\)$", session.pack(budget=WINDOW).text, re.MULTILINE)


def test_a_call_with_an_old_value_in_its_arguments_is_shown_in_the_current_turn(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    open_session_ledger(session).set("shipping_address", OLD)
    session.record("user", "Ship it.")
    reply = session.record("assistant", "", tool_calls=[{"name": "ship", "args": {"to": OLD}}])
    session.result(reply.tool_calls[0], "done")
    before = shown(session)
    open_session_ledger(session).set("shipping_address", NEW)
    assert shown(session) == before


def test_no_colleges_in_the_north_stays(engine: holdfast.Engine) -> None:
    session = changed(engine, "college", "no", "yes", "There are no colleges in the north.")
    assert everywhere(session, "There are no colleges in the north.")


@pytest.mark.parametrize(
    ("key", "old", "new", "said", "expected"),
    [
        ("meeting_time", "9:30", "10:15", "The meeting is at 09:30.", "The meeting is at [outdated: meeting_time]."),
        ("meeting_date", "March 6th", "March 9th", "The meeting is on the 6th.", "on the [outdated: meeting_date]."),
        ("fruit", "apples", "pears", "My fruit: an apple", "My fruit: an [outdated: fruit]"),
        ("party_size", 4, 6, "A party of four people.", "A party of [outdated: party_size] people."),
    ],
)
def test_other_spellings_of_a_value_are_found(
    engine: holdfast.Engine, key: str, old: Any, new: Any, said: str, expected: str
) -> None:
    assert everywhere(changed(engine, key, old, new, said), expected)


@pytest.mark.parametrize("question", ["What was my old address?", "which address did I have before?"])
def test_a_question_about_the_past_gets_the_past_marked(engine: holdfast.Engine, question: str) -> None:
    session = changed(engine, "shipping_address", OLD, NEW, f"My address is {OLD}.")
    session.record("user", question)
    text = session.pack(budget=WINDOW).text
    assert re.search(rf"earlier value of shipping_address, no longer current, until .*: {re.escape(OLD)}", text)
    assert f"My address is {OLD}." not in text
    session.record("user", "What is my address?")
    assert OLD not in session.pack(budget=WINDOW).text


# What is never edited


def test_arguments_of_a_call_are_never_edited_and_a_note_stands_in_the_result(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = open_session_ledger(session)
    ledger.set("shipping_address", OLD)
    session.record("user", "Ship it.")
    reply = session.record("assistant", "Done.", tool_calls=[{"name": "ship", "args": {"to": OLD, "who": [NAME]}}])
    session.result(reply.tool_calls[0], "the slip is 77-B")
    session.record("user", "What now?")
    before = session.context.view().items
    ledger.set("shipping_address", NEW)
    after = session.context.view().items
    assert len(after) == len(before) == 3
    assert (after[0], after[2]) == (before[0], before[2])
    called, result = session.context.view().messages[1:3]
    assert called == reply
    assert result.text == "the slip is 77-B\n[The arguments of this call contain an outdated value: shipping_address]"
    assert everywhere(session, OLD)
    assert everywhere(session, "[The arguments of this call contain an outdated value: shipping_address]")


@pytest.mark.parametrize("where", ["signed", "beside", "in the blob store"])
def test_what_is_signed_is_never_edited(desk: EngineDesk, where: str) -> None:
    engine = desk.open("sqlite")
    session = engine.create_session("s")
    session.ledger().set("shipping_address", OLD)
    session.record("user", "Where to?")
    body = {"type": "thinking", "thinking": OLD if where != "beside" else "hm", "signature": "c2ln"}
    if where == "in the blob store":
        body["padding"] = "word " * 40_000
    part = Opaque("anthropic", json.dumps(body))
    session.record("assistant", [part, f"It goes to {OLD}." if where == "beside" else f"I am sure, {NAME}."])
    session.record("user", "What now?")
    session.ledger().set("shipping_address", NEW)
    rendered = json.dumps(session.context.render("anthropic"))
    assert "c2ln" in rendered
    if where == "beside":
        assert everywhere(session, f"It goes to {MARKER}.")
    else:
        assert everywhere(session, f"I am sure, {NAME}.")
        assert everywhere(session, "[This message states an outdated value: shipping_address]")
    assert session.context.view().messages[1].content[0] == session.messages()[1].content[0]


def test_signed_parts_that_state_nothing_old_stay_as_they_are(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    part = Opaque("anthropic", json.dumps({"type": "thinking", "thinking": "hm", "signature": "c2ln"}))
    session.record("assistant", [part, f"I am sure, {NAME}."])
    session.record("user", "What now?")
    ledger.set("shipping_address", NEW)
    assert "c2ln" in json.dumps(session.context.render("anthropic"))


# What was shortened


def test_summaries_are_made_of_guarded_text(desk: EngineDesk) -> None:
    heard: list[str] = []

    class Summarizer:
        prices = None

        def summarize(self, draft: holdfast.types.SummaryDraft, tokens: int) -> str:
            heard.append(draft.text)
            return f"{NAME} told where {NEW} is." if tokens else ""

    engine = desk.open("memory", summarizer=Summarizer())
    session, ledger = moved_out(engine, LONG)
    ledger.set("shipping_address", NEW)
    plain = re.compile(re.escape(OLD) + r"(?! \[outdated)")
    assert not plain.search(session.context.draft_summary(keep_turns=0).text)
    assert session.context.compact(strategy=SummarizeOldest(keep_recent=1), window=WINDOW).at is not None
    assert heard
    assert not any(map(plain.search, heard))
    assert everywhere(session, NEW)
    ledger.set("shipping_address", "9 Elm Rd")
    assert everywhere(session, f"{NAME} told where {MARKER} is.")


def test_a_summary_of_what_came_before_the_change_is_redacted(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine, LONG)
    assert session.context.compact(strategy=SummarizeOldest(keep_recent=1), window=WINDOW).at is not None
    assert everywhere(session, OLD)
    ledger.set("shipping_address", NEW)
    assert not unmarked(session)
    assert everywhere(session, MARKER)


def test_a_change_in_the_middle_of_what_a_summary_covers_adds_a_note(desk: EngineDesk) -> None:
    """What it says of the value may come from before the change or from after it."""

    class Summarizer:
        prices = None

        def summarize(self, draft: holdfast.types.SummaryDraft, tokens: int) -> str:
            return f"They spoke of {OLD}."

    session = desk.open("memory", summarizer=Summarizer()).create_session("s")
    session.ledger().set("shipping_address", OLD)
    session.record("user", f"To {OLD}. {LONG}")
    session.ledger().set("shipping_address", NEW)
    session.record("assistant", LONG)
    session.record("user", "I see.")
    session.record("assistant", "Well.")
    session.record("user", "What now?")
    assert session.context.compact(strategy=SummarizeOldest(keep_recent=1), window=WINDOW).at is not None
    assert everywhere(session, f"They spoke of {OLD} [shipping_address has changed since].")


@pytest.mark.parametrize("cut", ["head", "middle", "tail"])
def test_excerpts_of_what_states_it_are_guarded_where_it_is_stated(desk: EngineDesk, cut: str) -> None:
    """Also where the cut goes through the statement: what is left of it is known by where it stood."""
    said_of = (("budget", 9000, "nine grand and a bit more than that"), ("budget", 7500, "seven and a half"))
    engine = desk.open("memory", detector=Listening(*said_of))
    session = engine.create_session("s")
    said = "We have nine grand and a bit more than that"
    filler = "lorem ipsum dolor sit amet " * 400
    text = {"head": f"{said}. {filler}", "middle": f"{filler}. {said}. {filler}", "tail": f"{filler}. {said}"}[cut]
    session.record("user", "Begin.")
    session.observe(text)
    session.record("assistant", "Well.")
    session.record("user", "And then?")
    policy = holdfast.types.Classic(snip=0.01, micro=None, collapse=None, auto=None, per_msg_ratio=0.02)
    plan = session.context.compact(policy=policy, window=4_000)
    assert plan.reduced
    assert everywhere(session, "bit more") == (cut != "middle")
    session.observe("It is seven and a half.")
    session.record("user", "And then?")
    assert not any(everywhere(session, word) for word in ("nine", "grand", "bit", "more", "that"))


def test_a_preview_is_guarded_as_any_other_text(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = open_session_ledger(session)
    ledger.set("shipping_address", OLD)
    session.record("user", f"Ship to {OLD}. I am {NAME}. {'word ' * 30_000}")
    session.record("user", "What now?")
    assert everywhere(session, OLD)
    ledger.set("shipping_address", NEW)
    assert everywhere(session, f"Ship to {MARKER}. I am {NAME}.")


def test_late_results_are_guarded_too(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = open_session_ledger(session)
    ledger.set("shipping_address", OLD)
    session.record("user", "Where to?")
    reply = session.record("assistant", "", tool_calls=[{"name": "look", "args": {}}])
    session.close_calls("too slow")
    session.result(reply.tool_calls[0], f"to {OLD}, for {NAME}")
    assert everywhere(session, OLD)
    ledger.set("shipping_address", NEW)
    assert everywhere(session, f"to {OLD}, for {NAME}"), "it came in the current turn"
    session.record("user", "And now?")
    assert not unmarked(session)
    assert everywhere(session, NAME)


# Who reads


SECRET, WRONG = "Globex Corporation", "Initech Holdings"


def clerk_of(engine: holdfast.Engine, secret: str = SECRET) -> Any:
    """A session of someone who may not know who the partner is."""
    ledger = open_ledger(engine, organization="acme")
    ledger.set("merger_partner", secret, requires=["board"])
    clerk = Identity(user_id="clerk", permissions=())
    return engine.create_session("clerk", identity=clerk, ledgers=[ledger.id])


def test_a_tool_result_that_states_a_secret_is_withheld(engine: holdfast.Engine) -> None:
    session = clerk_of(engine)
    session.record("user", "Who is it?")
    reply = session.record("assistant", f"Surely {SECRET}.", tool_calls=[{"name": "look", "args": {}}])
    session.result(reply.tool_calls[0], {"with": SECRET, "desk": NAME})
    session.record("user", "What now?")
    assert not everywhere(session, "Globex")
    assert everywhere(session, "[withheld]")
    assert everywhere(session, NAME)
    pack = session.pack(budget=WINDOW)
    (event,) = redactions(engine)
    assert {(each.facts, bool(each.mark)) for each in event.redacted} == {((), True)}
    told = f"{pack} {pack.manifest} {event}"
    assert not any(secret in told for secret in ("Globex", "merger", "k1", "board"))
    assert pack.manifest.exposed == ()


def test_who_may_know_is_shown_all(engine: holdfast.Engine) -> None:
    clerk_of(engine)
    director = Identity(user_id="director", permissions=("board",))
    session = engine.create_session("s", identity=director, ledgers=[open_ledger(engine, organization="acme").id])
    session.record("assistant", f"We merge with {SECRET}.")
    session.record("user", "What now?")
    assert everywhere(session, f"We merge with {SECRET}.")


@pytest.mark.parametrize("echo", ["nobody", "the assistant", "a tool", "a call"])
@pytest.mark.parametrize("later", ["at once", "a turn later", "in a summary"])
@pytest.mark.parametrize("guess", [SECRET, WRONG])
def test_a_right_guess_and_a_wrong_one_look_the_same(desk: EngineDesk, guess: str, later: str, echo: str) -> None:
    """Two worlds that differ in the secret alone give the same bytes, whatever the reader types."""
    packs: list[str] = []
    for number, secret in enumerate((SECRET, WRONG)):
        engine = desk.open("memory")
        session = clerk_of(engine, secret)
        session.record("user", f"Is the merger partner {guess}? {LONG if later == 'in a summary' else ''}")
        calls = [{"name": "look", "args": {"for": guess}}] if echo in ("a call", "a tool") else []
        text = f"You ask for {guess}, the merger partner." if echo == "the assistant" else "I cannot say."
        reply = session.record("assistant", text, tool_calls=calls)
        if calls:
            session.result(reply.tool_calls[0], {"merger_partner": guess} if echo == "a tool" else "nothing")
        if later != "at once":
            session.record("assistant", f"Once more: {guess}?" if echo != "nobody" else "Well.")
            session.record("user", "And now?")
            session.record("user", "Well?")
        if later == "in a summary":
            assert session.context.compact(strategy=SummarizeOldest(keep_recent=1), window=WINDOW).at is not None
            session.record("assistant", f"As I said: {guess}." if echo != "nobody" else "No.")
            session.record("user", "I see.")
        packs.append(session.pack(budget=WINDOW).text + json.dumps(shown(session)))
        assert guess in packs[number]
    assert packs[0] == packs[1]


@pytest.mark.parametrize(("scope", "own_id"), [("task", "t1"), ("draft", "d1"), ("hypothetical", ""), ("session", "s")])
def test_a_value_of_another_scope_holds_there_and_stays_where_it_was_said(
    desk: EngineDesk, scope: Any, own_id: str
) -> None:
    engine = desk.open("memory")
    ledger = engine.ledger(user="ada")
    session = engine.create_session("s", ledgers=[ledger.id])
    ledger.set("budget_cap", "88,123 crowns", scope=scope, scope_id=own_id)
    said = f"Say the cap was 88,123 crowns. I am {NAME}."
    session.record("user", said)
    session.record("user", "What now?")
    assert everywhere(session, said)
    assert said in session.pack(budget=WINDOW).text
    assert re.search(r"- budget_cap.*: 88,123", session.pack(budget=WINDOW, within=[(scope, own_id)]).text)


def test_another_session_is_guarded_by_the_ledgers_that_it_reads(engine: holdfast.Engine) -> None:
    ledger = open_ledger(engine, user="ada")
    ledger.set("shipping_address", OLD)
    for name, ledgers in (("reads", [ledger.id]), ("does not", [])):
        session = engine.create_session(name, ledgers=ledgers)
        session.record("user", f"To {OLD}.")
        session.record("user", "What now?")
    ledger.set("shipping_address", NEW)
    assert not everywhere(engine.session("reads"), OLD)
    assert everywhere(engine.session("does not"), OLD)


def test_frames_are_guarded_as_sessions_are(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = open_session_ledger(session)
    ledger.set("shipping_address", OLD)
    frame = session.frame("Ship it.", budget=10_000)
    frame.record("user", f"To {OLD}, for {NAME}.")
    frame.record("user", "What now?")
    assert everywhere(frame, OLD)
    ledger.set("shipping_address", NEW)
    assert not everywhere(frame, OLD)
    assert everywhere(frame, NAME)
    frame.pack(budget=WINDOW)
    assert [each.frame for each in redactions(engine)] == [frame.id]
    assert session.state().view(frame.id).redacted
    assert not session.state().view(None).redacted


# Policies


def test_policies_of_the_guard(desk: EngineDesk) -> None:
    texts: dict[str, str] = {}
    for policy in GUARD_MODES:
        engine = desk.open("memory", policy=Policy(guard=policy))
        session, ledger = moved_out(engine)
        engine.ledger(session.ledger().id).set("secret_code", "swordfish-77", requires=["board"])
        session.record("assistant", "The code is swordfish-77.")
        session.record("user", "What now?")
        ledger.set("shipping_address", NEW)
        texts[policy] = session.context.render("text")
        assert "swordfish" not in texts[policy]
        assert (f"I will ship it to {OLD}" in texts[policy]) == (policy != "redact")
    assert f"I will ship it to {OLD} {MARKER}; the order" in texts["annotate"]
    assert "outdated" not in texts["off"]
    assert texts["annotate"].replace(f" {MARKER}", "") == texts["off"]
    with pytest.raises(holdfast.errors.InvalidArgument):
        desk.open("memory", policy=Policy(guard="perhaps"))  # type: ignore[arg-type]


def test_a_pack_may_ask_for_another_policy(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    ledger.set("shipping_address", NEW)
    assert f"ship it to {MARKER}" in str(session.pack(budget=WINDOW, settle=False))
    assert f"ship it to {OLD};" in str(session.pack(budget=WINDOW, guard="off", settle=False))
    assert f"ship it to {OLD} {MARKER};" in str(session.pack(budget=WINDOW, guard="annotate", settle=False))


def test_redactions_may_wait_for_the_next_boundary(desk: EngineDesk) -> None:
    """Until then the value stays where it was shown, the manifest admits it, and the tail states the current value."""
    engine = desk.open("memory", policy=Policy(deaths="deferred"))
    session, ledger = moved_out(engine, LONG, LONG)
    session.pack(budget=WINDOW)
    session.record("assistant", "Nothing.")
    old = ledger.get("shipping_address")
    ledger.set("shipping_address", NEW)
    late = session.record("user", f"I said {OLD}, did I not? I am {NAME}.")
    session.record("user", "And now?")
    pack = session.pack(budget=WINDOW)
    assert f"I will ship it to {OLD}" in str(pack)
    assert f"I said {OLD}" in str(pack), "that came later"
    places = {(each.fact, each.key, each.ledger) for each in pack.manifest.exposed}
    assert places == {(old.id, "shipping_address", ("session", "main", "s"))}
    assert late.seq not in {each.at for each in pack.manifest.exposed}
    assert len({each.at for each in pack.manifest.exposed}) == 3
    assert redactions(engine) == []
    assert f"- Earlier statements about shipping_address are outdated. Current value: {NEW}." in str(pack)
    assert session.context.compact(strategy=SummarizeOldest(keep_recent=8), window=WINDOW).at is not None
    pack = session.pack(budget=WINDOW)
    assert f"I will ship it to {MARKER}" in str(pack)
    assert pack.manifest.exposed == ()
    assert redactions(engine)[-1].first_changed is not None


# Boundaries


def test_deaths_since_the_last_call_are_one_boundary_with_its_first_change(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    session.pack(budget=WINDOW)
    session.record("assistant", "Nothing.")
    assert redactions(engine) == []
    version = session.state().version
    first = ledger.get("shipping_address")
    ledger.set("shipping_address", NEW)
    session.context.view()
    session.pack(budget=WINDOW, settle=False)
    assert session.state().version == version, "reading writes nothing"
    session.pack(budget=WINDOW)
    (event,) = redactions(engine)
    told = {each.at: each.facts for each in event.redacted}
    assert told == dict.fromkeys([1 + 1, 3, 5], (f"0:{first.id}",))
    assert (event.first_changed, event.why, event.frame) == (0, "died", None)
    assert event.original > 0 < event.final
    view = session.state().view(None)
    assert view.redacted == event.redacted
    assert view.boundary == session.state().version
    session.pack(budget=WINDOW)
    assert len(redactions(engine)) == 1
    ledger.review.reinstate(first)
    session.pack(budget=WINDOW)
    assert [each.why for each in redactions(engine)] == ["died", "returned"]
    assert session.state().view(None).redacted == ()
    assert OLD not in "".join(str(each) for each in redactions(engine))


def test_a_new_message_with_an_old_value_changes_nothing(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    ledger.set("shipping_address", NEW)
    session.pack(budget=WINDOW)
    session.record("assistant", "Nothing.")
    boundary, before = session.state().view(None).boundary, len(redactions(engine))
    session.record("assistant", f"As I said: {OLD}.")
    session.record("user", "Really?")
    session.pack(budget=WINDOW)
    assert session.state().view(None).boundary == boundary
    assert len(redactions(engine)) == before


def test_a_summary_with_its_note_in_it_is_no_boundary(desk: EngineDesk) -> None:
    """What is folded was guarded before: the note is a part of the summary, and nothing changes when that is read."""
    engine = desk.open("memory")
    session = engine.create_session("s")
    session.ledger().set("meeting_time", "9:30")
    session.record("user", f"The train leaves at 09:30. {LONG}")
    session.record("assistant", LONG)
    session.record("user", "I see.")
    session.ledger().set("meeting_time", "10:15")
    session.record("assistant", "Well.")
    session.record("user", "What now?")
    session.pack(budget=WINDOW)
    assert session.context.compact(strategy=SummarizeOldest(keep_recent=1), window=WINDOW).at is not None
    before, count = session.context.render("text"), len(redactions(engine))
    assert "09:30 [meeting_time has changed since]" in before
    session.pack(budget=WINDOW)
    assert session.context.render("text") == before
    assert len(redactions(engine)) == count


def test_between_boundaries_each_rendering_extends_the_last(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    last, boundary = session.context.render("openai"), session.state().view(None).boundary
    for number in range(6):
        if number % 2:
            ledger.set("shipping_address", f"{number} Birch Road")
        session.record("user", f"Is it {OLD}, or {number} Birch Road?")
        session.record("assistant", f"My shipping address is {number} Birch Road.", pack=False)
        session.pack("And?", budget=WINDOW)
        now, view = session.context.render("openai"), session.state().view(None)
        if view.boundary == boundary:
            assert now[: len(last)] == last
        last, boundary = now, view.boundary
    assert redactions(engine)


def test_redactions_leave_with_what_they_are_of(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine, LONG)
    ledger.set("shipping_address", NEW)
    session.pack(budget=WINDOW)
    view = session.state().view(None)
    assert len(view.redacted) == 3
    session.erase([view.redacted[0].at], "private")
    assert session.state().view(None).redacted == (), "their record is erased with the message"
    session.pack(budget=WINDOW)
    assert session.state().view(None).redacted == view.redacted[1:], "what is left is found again"
    plan = session.context.compact(strategy=SummarizeOldest(keep_recent=1), window=WINDOW)
    assert plan.fold is not None
    assert plan.fold.last >= view.redacted[1].at
    left = tuple(each for each in view.redacted if each.at > plan.fold.last)
    assert session.state().view(None).redacted == left
    session.reset("done")
    assert session.state().view(None).redacted == ()
    assert engine.admin.verify().problems == ()


def test_states_and_rows_are_those_that_the_log_makes(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    ledger.set("shipping_address", NEW)
    session.pack(budget=WINDOW)
    before, state = rows_of(engine), session.state()
    assert engine.admin.verify().problems == ()
    engine.admin.rebuild()
    assert rows_of(engine) == before
    assert session.state() == state


# What it costs


class Counting:
    """A store that counts how often it is asked for rows, and of which tables."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.asked: list[tuple[str, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def rows(self, table: Any, *args: Any, **kwargs: Any) -> Any:
        found = self._store.rows(table, *args, **kwargs)
        self.asked.append((table.table, len(found)))
        return found


def test_a_session_without_any_fact_costs_one_look(desk: EngineDesk) -> None:
    engine = desk.open("sqlite")
    session = engine.create_session("s", ledgers=[engine.ledger(user=f"u{number}").id for number in range(9)])
    session.record("user", "Hello.")
    counting = Counting(store_of(engine))
    with replace_store(engine, counting):
        session.context.view()
    assert counting.asked == [(LedgerRow.table, 0)]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_what_is_looked_up_follows_the_text_and_not_the_ledger(desk: EngineDesk, kind: str) -> None:
    engine = desk.open(kind)
    session, ledger = moved_out(engine)
    for first in (0, 200, 400):
        ledger.set_all(
            [{"key": f"note {n}", "value": f"word{n} of some other thing"} for n in range(first, first + 200)]
        )
        ledger.set_all([{"key": f"note {n}", "value": f"changed{n} into this"} for n in range(first, first + 200)])
    ledger.set("shipping_address", NEW)
    counting = Counting(store_of(engine))
    with replace_store(engine, counting):
        assert MARKER in session.context.render("text")
    assert sum(found for _, found in counting.asked) < 20
    assert len(counting.asked) < 12
