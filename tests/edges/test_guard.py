"""The guard on views: what is dead is in none of them, what lives stays, and the transcript is as it was."""

from __future__ import annotations

import json
from typing import Any

import pytest

import holdfast
from holdfast import Identity, Opaque, Policy, SummarizeOldest, Summary
from holdfast.core import upcast
from holdfast.model.detection import Proposal, Span
from holdfast.model.pack import GUARDS
from holdfast.model.rows import LedgerRow
from holdfast.model.view_events import ContextRedacted
from tests.edges.engines import Desk, HandClock, log_of, rows_of, store_of, store_replaced
from tests.edges.fact_engines import own, proposal, shelf

OLD, NEW, NAME = "12 Main St", "5 Oak Ave", "Ada Byron"
MARKER = "[superseded: shipping_address has a current value]"
WINDOW = 8_000
LONG = "Some say one thing, and others another. " * 40


def shown(place: Any) -> dict[str, str]:
    """A conversation in the words of each provider."""
    dialects = ("text", "anthropic", "openai", "openai-responses")
    return {to: json.dumps(place.render(to), ensure_ascii=False) for to in dialects}


def everywhere(place: Any, text: str) -> bool:
    """Whether all of them, or none, say this."""
    told = {text in each for each in shown(place).values()}
    assert len(told) == 1
    return told.pop()


def redactions(engine: holdfast.Engine) -> list[ContextRedacted]:
    made = (upcast.current(each) for each in log_of(engine))
    return [each for each in made if isinstance(each, ContextRedacted)]


def moved_out(engine: holdfast.Engine, *before: str) -> tuple[Any, Any]:
    """A conversation that tells an address in each of its roads, and the ledger that knows it."""
    session = engine.create_session("s")
    ledger = own(session)
    ledger.assert_("shipping_address", OLD)
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

    def detect(self, observation: holdfast.Observation) -> tuple[Proposal, ...]:
        found: list[Proposal] = []
        for key, value, words in self._told:
            start = observation.said.text.find(words)
            if start >= 0:
                about = next((each.fact for each in observation.facts if each.key == key), None)
                span = Span(0, start, start + len(words))
                change: Any = "supersede" if about else "assert"
                found.append(proposal(change=change, key=key, value=value, fact=about, new=span))
        return tuple(found)


# Roads


def test_a_dead_value_is_in_no_road_and_the_transcript_has_it(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    before = session.messages()
    assert everywhere(session, OLD)
    ledger.assert_("shipping_address", NEW)
    assert not everywhere(session, OLD)
    assert everywhere(session, NAME)
    assert everywhere(session, MARKER)
    assert session.messages() == before
    assert list(session.window().messages) == before


def test_a_fact_that_comes_back_is_shown_as_it_was(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    before, old = shown(session), ledger.current("shipping_address")
    ledger.assert_("shipping_address", NEW)
    assert shown(session) != before
    ledger.reinstate(old)
    assert shown(session) == before


@pytest.mark.parametrize("how", ["retracted", "expired", "run out", "superseded", "under another key"])
def test_it_does_not_matter_how_it_died(desk: Desk, how: str) -> None:
    clock = HandClock()
    engine = desk.open("memory", clock=clock)
    session = engine.create_session("s")
    fact = session.ledger().assert_("shipping_address", OLD, ttl_s=60)
    session.record("user", f"To {OLD}. I am {NAME}.")
    session.record("user", "What now?")
    assert everywhere(session, OLD)
    match how:
        case "retracted":
            session.ledger().retract(fact)
        case "expired":
            session.ledger().expire(fact)
        case "run out":
            clock.now_s += 61
        case "superseded":
            session.ledger().assert_("shipping_address", NEW)
        case _:
            session.ledger().assert_("delivery", NEW, supersedes=fact)
    assert not everywhere(session, OLD)
    assert everywhere(session, NAME)
    assert everywhere(session, "[superseded: delivery has") == (how == "under another key")
    assert everywhere(session, MARKER) == (how == "superseded")


def test_what_is_stated_in_other_words_is_known_by_where_it_stands(desk: Desk) -> None:
    """A value without a word that stands out is known by its provenance alone."""
    told = (
        ("budget", {"sum": 9000, "per": "year"}, "nine grand a year"),
        ("budget", {"sum": 7500}, "seven and a half"),
    )
    for kind in ("memory", "sqlite", "postgres"):
        session = desk.open(kind, detector=Listening(*told)).create_session("s")
        assert [each.outcome for each in session.observe("We have nine grand a year. I am Ada.").judged] == ["applied"]
        session.record("user", "What now?")
        assert everywhere(session, "grand")
        assert [each.outcome for each in session.observe("It is seven and a half now.").judged] == ["applied"]
        session.record("user", "What now?")
        assert not everywhere(session, "grand")
        assert everywhere(session, "seven and a half")
        assert everywhere(session, "Ada")


def test_a_live_value_is_never_masked(engine: holdfast.Engine) -> None:
    """Not one that is the same as a dead one, nor one that it is a part of, in whatever ledger."""
    ledger = shelf(engine, user="ada")
    session = engine.create_session("s", ledgers=[ledger.id])
    ledger.assert_("shipping_address", OLD)
    own(session).assert_("street", "Main St")
    own(session).assert_("street", "Oak Ave")
    session.record("user", f"Ship to {OLD}. We met in Main St yesterday.")
    session.record("user", "What now?")
    assert everywhere(session, OLD)
    assert not everywhere(session, "We met in Main St")
    own(session).assert_("shipping_address", OLD)
    ledger.retract("shipping_address")
    assert everywhere(session, OLD)


def test_a_question_may_ask_for_what_is_dead(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    ledger.assert_("shipping_address", NEW)
    asked = f"Is it still {OLD}?"
    session.record("user", asked)
    assert everywhere(session, asked)
    assert not everywhere(session, f"ship it to {OLD}")
    session.record("assistant", f"No, {OLD} is where it was.")
    assert everywhere(session, asked)
    assert not everywhere(session, "is where it was")
    session.record("user", "I see.")
    assert not everywhere(session, OLD)


def test_what_corrects_does_not_keep_what_it_corrects(desk: Desk) -> None:
    told = (("colour", "magenta", "is magenta"), ("colour", "turquoise", "is turquoise"))
    session = desk.open("memory", detector=Listening(*told)).create_session("s")
    session.observe("My colour is magenta.")
    session.observe("Actually, my colour is turquoise, not magenta.")
    assert not everywhere(session, "magenta")
    assert everywhere(session, "turquoise")


def test_system_messages_are_the_programs_own_words(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("system", f"The depot is at {OLD}.")
    own(session).assert_("shipping_address", OLD)
    own(session).assert_("shipping_address", NEW)
    session.record("user", f"To {OLD}.")
    session.record("user", "What now?")
    assert everywhere(session, f"The depot is at {OLD}.")
    assert not everywhere(session, f"To {OLD}")


# What is never edited


def test_arguments_of_a_call_are_never_edited_so_the_call_is_told_as_text(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = own(session)
    ledger.assert_("shipping_address", OLD)
    session.record("user", "Ship it.")
    reply = session.record("assistant", "Done.", tool_calls=[{"name": "ship", "args": {"to": OLD, "who": [NAME]}}])
    session.result(reply.tool_calls[0], f"It goes to {OLD}; the slip is 77-B.")
    session.record("user", "What now?")
    before = session.history()
    assert len(before.items) == 3
    ledger.assert_("shipping_address", NEW)
    after = session.history()
    collapsed = after.items[1]
    assert isinstance(collapsed, Summary)
    assert (collapsed.seq, collapsed.first, collapsed.last) == (reply.seq, reply.seq, reply.seq + 1)
    assert (collapsed.messages, collapsed.replaced) == (2, before.items[1].tokens)
    assert (after.items[0], after.items[2]) == (before.items[0], before.items[2])
    assert not everywhere(session, OLD)
    for kept in (NAME, "77-B", "ship", "Done."):
        assert everywhere(session, kept)
    assert session.messages()[1].tool_calls == reply.tool_calls


@pytest.mark.parametrize("where", ["signed", "beside", "in the blob store"])
def test_what_is_signed_is_never_edited(desk: Desk, where: str) -> None:
    engine = desk.open("sqlite")
    session = engine.create_session("s")
    session.ledger().assert_("shipping_address", OLD)
    session.record("user", "Where to?")
    body = {"type": "thinking", "thinking": OLD if where != "beside" else "hm", "signature": "c2ln"}
    if where == "in the blob store":
        body["padding"] = "word " * 40_000
    part = Opaque("anthropic", json.dumps(body))
    session.record("assistant", [part, f"It goes to {OLD}." if where == "beside" else f"I am sure, {NAME}."])
    session.record("user", "What now?")
    assert OLD in json.dumps(session.render("anthropic"))
    session.ledger().assert_("shipping_address", NEW)
    assert not everywhere(session, OLD)
    assert "c2ln" not in json.dumps(session.render("anthropic"))
    assert everywhere(session, NAME) == (where != "beside")
    kept = session.messages()[1].content[0]
    assert isinstance(kept, Opaque)


def test_signed_parts_that_tell_nothing_dead_stay_as_they_are(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    part = Opaque("anthropic", json.dumps({"type": "thinking", "thinking": "hm", "signature": "c2ln"}))
    session.record("assistant", [part, f"I am sure, {NAME}."])
    session.record("user", "What now?")
    ledger.assert_("shipping_address", NEW)
    assert "c2ln" in json.dumps(session.render("anthropic"))


# What was shortened


def test_summaries_and_what_they_are_made_of_tell_nothing_dead(desk: Desk) -> None:
    heard: list[str] = []

    class Summarizer:
        prices = None

        def summarize(self, draft: holdfast.SummaryDraft, tokens: int) -> str:
            heard.append(draft.text)
            return f"{NAME} told where {NEW} is." if tokens else ""

    engine = desk.open("memory", summarizer=Summarizer())
    session, ledger = moved_out(engine, LONG)
    ledger.assert_("shipping_address", NEW)
    assert OLD not in session.draft_summary(keep_turns=0).text
    assert session.compact(strategy=SummarizeOldest(keep_recent=1), window=WINDOW).at is not None
    assert heard
    assert not any(OLD in each for each in heard)
    assert everywhere(session, NEW)
    ledger.assert_("shipping_address", "9 Elm Rd")
    assert not everywhere(session, NEW)


def test_an_extract_made_before_the_death_is_guarded_when_it_is_read(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine, LONG)
    assert session.compact(strategy=SummarizeOldest(keep_recent=1), window=WINDOW).at is not None
    assert everywhere(session, OLD)
    ledger.assert_("shipping_address", NEW)
    assert not everywhere(session, OLD)


@pytest.mark.parametrize("cut", ["head", "middle", "tail"])
def test_excerpts_of_what_states_it_are_guarded_where_it_is_stated(desk: Desk, cut: str) -> None:
    """Also where the cut goes through the statement: what is left of it is known by where it stood."""
    told = (("budget", 9000, "nine grand and a bit more than that"), ("budget", 7500, "seven and a half"))
    engine = desk.open("memory", detector=Listening(*told))
    session = engine.create_session("s")
    said = "We have nine grand and a bit more than that"
    filler = "lorem ipsum dolor sit amet " * 400
    text = {"head": f"{said}. {filler}", "middle": f"{filler}. {said}. {filler}", "tail": f"{filler}. {said}"}[cut]
    session.record("user", "Begin.")
    session.observe(text)
    session.record("assistant", "Well.")
    session.record("user", "And then?")
    policy = holdfast.Classic(snip=0.01, micro=None, collapse=None, auto=None, per_msg_ratio=0.02)
    plan = session.compact(policy=policy, window=4_000)
    assert plan.reduced
    assert everywhere(session, "bit more") == (cut != "middle")
    session.observe("It is seven and a half.")
    session.record("user", "And then?")
    assert not any(everywhere(session, word) for word in ("nine", "grand", "bit", "more", "that"))


def test_a_preview_is_guarded_as_any_other_text(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = own(session)
    ledger.assert_("shipping_address", OLD)
    session.record("user", f"Ship to {OLD}. I am {NAME}. {'word ' * 30_000}")
    session.record("user", "What now?")
    assert everywhere(session, OLD)
    ledger.assert_("shipping_address", NEW)
    assert not everywhere(session, OLD)
    assert everywhere(session, NAME)


def test_late_results_are_guarded_too(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = own(session)
    ledger.assert_("shipping_address", OLD)
    session.record("user", "Where to?")
    reply = session.record("assistant", "", tool_calls=[{"name": "look", "args": {}}])
    session.close_open_calls("too slow")
    session.result(reply.tool_calls[0], f"to {OLD}, for {NAME}")
    assert everywhere(session, OLD)
    ledger.assert_("shipping_address", NEW)
    assert not everywhere(session, OLD)
    assert everywhere(session, NAME)


# Who reads


def test_what_a_reader_may_not_know_is_withheld_and_nothing_tells_of_it(engine: holdfast.Engine) -> None:
    ledger = shelf(engine, organization="acme")
    ledger.assert_("merger_partner", "Globex Corporation", requires=["board"])
    for name, permissions in (("clerk", ()), ("director", ("board",))):
        identity = Identity(user_id=name, permissions=permissions)
        session = engine.create_session(name, identity=identity, ledgers=[ledger.id])
        session.record("user", f"We merge with Globex Corporation. I am {NAME}.")
        session.record("user", "What now?")
    clerk, director = engine.session("clerk"), engine.session("director")
    assert not everywhere(clerk, "Globex")
    assert everywhere(clerk, "[withheld]")
    assert everywhere(clerk, NAME)
    assert everywhere(director, "Globex")
    pack = clerk.pack(budget=WINDOW)
    (event,) = redactions(engine)
    assert [(each.facts, bool(each.mark)) for each in event.redacted] == [((), True)]
    told = f"{pack} {pack.manifest} {event}"
    assert not any(secret in told for secret in ("Globex", "merger", "k1", "board"))
    assert pack.manifest.exposed == ()


@pytest.mark.parametrize(("scope", "own_id"), [("task", "t1"), ("draft", "d1"), ("hypothetical", ""), ("session", "s")])
def test_a_scope_is_shown_where_it_is_asked_for(desk: Desk, scope: Any, own_id: str) -> None:
    engine = desk.open("memory")
    ledger = engine.ledger(user="ada")
    session = engine.create_session("s", ledgers=[ledger.id])
    ledger.assert_("budget_cap", "88,123 crowns", scope=scope, scope_id=own_id)
    session.record("user", f"Say the cap was 88,123 crowns. I am {NAME}.")
    session.record("user", "What now?")
    assert everywhere(session, "88,123") == (scope == "session")
    assert "88,123" in str(session.pack(budget=WINDOW, within=[(scope, own_id)]))
    assert ("88,123" in str(session.pack(budget=WINDOW))) == (scope == "session")
    assert everywhere(session, NAME)


def test_a_hypothetical_question_is_not_taken_from_its_mouth(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    session.record("user", "What if the budget were 88,123 crowns?")
    own(session).assert_("budget", "88,123 crowns", scope="hypothetical")
    assert everywhere(session, "88,123")
    session.record("user", "What now?")
    assert not everywhere(session, "88,123")


def test_another_session_is_guarded_by_the_ledgers_that_it_reads(engine: holdfast.Engine) -> None:
    ledger = shelf(engine, user="ada")
    ledger.assert_("shipping_address", OLD)
    ledger.assert_("shipping_address", NEW)
    for name, ledgers in (("reads", [ledger.id]), ("does not", [])):
        session = engine.create_session(name, ledgers=ledgers)
        session.record("user", f"To {OLD}.")
        session.record("user", "What now?")
    assert not everywhere(engine.session("reads"), OLD)
    assert everywhere(engine.session("does not"), OLD)


def test_frames_are_guarded_as_sessions_are(engine: holdfast.Engine) -> None:
    session = engine.create_session("s")
    ledger = own(session)
    ledger.assert_("shipping_address", OLD)
    frame = session.frame("Ship it.", budget=10_000)
    frame.record("user", f"To {OLD}, for {NAME}.")
    frame.record("user", "What now?")
    assert everywhere(frame, OLD)
    ledger.assert_("shipping_address", NEW)
    assert not everywhere(frame, OLD)
    assert everywhere(frame, NAME)
    frame.pack(budget=WINDOW)
    assert [each.frame for each in redactions(engine)] == [frame.id]
    assert session.state().view(frame.id).redacted
    assert not session.state().view(None).redacted


# Policies


def test_policies_of_the_guard(desk: Desk) -> None:
    told: dict[str, str] = {}
    for policy in GUARDS:
        engine = desk.open("memory", policy=Policy(guard=policy))
        session, ledger = moved_out(engine)
        engine.ledger(session.ledger().id).assert_("secret_code", "swordfish", requires=["board"])
        session.record("user", "The code is swordfish.")
        session.record("user", "What now?")
        ledger.assert_("shipping_address", NEW)
        told[policy] = session.render("text")
        assert "swordfish" not in told[policy]
        assert (OLD in told[policy]) == (policy != "redact")
    assert "[no longer true: shipping_address has a current value]" in told["annotate"]
    assert "no longer true" not in told["off"] + told["redact"]
    with pytest.raises(holdfast.errors.InvalidContent):
        desk.open("memory", policy=Policy(guard="perhaps"))  # type: ignore[arg-type]


def test_a_pack_may_ask_for_another_policy(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    ledger.assert_("shipping_address", NEW)
    assert OLD not in str(session.pack(budget=WINDOW, settle=False))
    assert OLD in str(session.pack(budget=WINDOW, guard="off", settle=False))
    assert f"{OLD} [no longer true" in str(session.pack(budget=WINDOW, guard="annotate", settle=False))


def test_deaths_may_wait_for_the_next_boundary(desk: Desk) -> None:
    """Until then the value stays where it was shown, the manifest admits it, and what comes after the death is guarded."""
    engine = desk.open("memory", policy=Policy(deaths="deferred"))
    session, ledger = moved_out(engine, LONG, LONG)
    session.pack(budget=WINDOW)
    session.record("assistant", "Nothing.")
    dead = ledger.current("shipping_address")
    ledger.assert_("shipping_address", NEW)
    late = session.record("user", f"I said {OLD}, did I not? I am {NAME}.")
    session.record("user", "And now?")
    pack = session.pack(budget=WINDOW)
    assert f"I will ship it to {OLD}" in str(pack)
    assert f"I said {OLD}" not in str(pack)
    places = {(each.fact, each.key, each.ledger) for each in pack.manifest.exposed}
    assert places == {(dead.id, "shipping_address", ("session", "main", "s"))}
    assert late.seq not in {each.at for each in pack.manifest.exposed}
    assert len({each.at for each in pack.manifest.exposed}) == 3
    (event,) = redactions(engine)
    assert ([each.at for each in event.redacted], event.first_changed, event.why) == ([late.seq], None, "told")
    assert NEW in str(pack), "what holds is told in the tail"
    assert session.compact(strategy=SummarizeOldest(keep_recent=8), window=WINDOW).at is not None
    pack = session.pack(budget=WINDOW)
    assert OLD not in str(pack)
    assert pack.manifest.exposed == ()
    assert redactions(engine)[-1].first_changed is not None


# Boundaries


def test_deaths_since_the_last_call_are_one_boundary_with_its_first_change(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    session.pack(budget=WINDOW)
    session.record("assistant", "Nothing.")
    assert redactions(engine) == []
    version = session.state().version
    first = ledger.current("shipping_address")
    ledger.assert_("shipping_address", NEW)
    session.history()
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
    ledger.reinstate(first)
    session.pack(budget=WINDOW)
    assert [each.why for each in redactions(engine)] == ["died", "returned"]
    assert session.state().view(None).redacted == ()
    assert OLD not in "".join(str(each) for each in redactions(engine))


def test_a_new_message_that_tells_a_dead_value_is_no_boundary(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    ledger.assert_("shipping_address", NEW)
    session.pack(budget=WINDOW)
    session.record("assistant", "Nothing.")
    boundary = session.state().view(None).boundary
    reply = session.record("assistant", f"As I said: {OLD}.")
    session.record("user", "Really?")
    session.pack(budget=WINDOW)
    event = redactions(engine)[-1]
    assert ([each.at for each in event.redacted], event.first_changed, event.why) == ([reply.seq], None, "told")
    assert session.state().view(None).boundary == boundary
    assert session.state().view(None).redacted[-1].at == reply.seq


def test_redactions_leave_with_what_they_are_of(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine, LONG)
    ledger.assert_("shipping_address", NEW)
    session.pack(budget=WINDOW)
    view = session.state().view(None)
    assert len(view.redacted) == 3
    session.erase([view.redacted[0].at], "private")
    assert session.state().view(None).redacted == view.redacted[1:]
    plan = session.compact(strategy=SummarizeOldest(keep_recent=1), window=WINDOW)
    assert plan.fold is not None
    assert plan.fold.last >= view.redacted[1].at
    left = tuple(each for each in view.redacted if each.at > plan.fold.last)
    assert session.state().view(None).redacted == left
    session.reset("done")
    assert session.state().view(None).redacted == ()
    assert engine.verify().problems == ()


def test_states_and_rows_are_those_that_the_log_makes(engine: holdfast.Engine) -> None:
    session, ledger = moved_out(engine)
    ledger.assert_("shipping_address", NEW)
    session.pack(budget=WINDOW)
    before, state = rows_of(engine), session.state()
    assert engine.verify().problems == ()
    engine.rebuild()
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


def test_a_session_without_any_fact_costs_one_look(desk: Desk) -> None:
    engine = desk.open("sqlite")
    session = engine.create_session("s", ledgers=[engine.ledger(user=f"u{number}").id for number in range(9)])
    session.record("user", "Hello.")
    counting = Counting(store_of(engine))
    with store_replaced(engine, counting):
        session.history()
    assert counting.asked == [(LedgerRow.table, 0)]


@pytest.mark.parametrize("kind", ["memory", "sqlite", "postgres"])
def test_what_is_looked_up_follows_the_text_and_not_the_ledger(desk: Desk, kind: str) -> None:
    engine = desk.open(kind)
    session, ledger = moved_out(engine)
    for first in (0, 200, 400):
        ledger.assert_all(
            [{"key": f"note {n}", "value": f"word{n} of some other thing"} for n in range(first, first + 200)]
        )
        ledger.assert_all([{"key": f"note {n}", "value": f"changed{n} into this"} for n in range(first, first + 200)])
    ledger.assert_("shipping_address", NEW)
    counting = Counting(store_of(engine))
    with store_replaced(engine, counting):
        assert OLD not in session.render("text")
    assert sum(found for _, found in counting.asked) < 20
    assert len(counting.asked) < 12
