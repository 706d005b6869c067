"""What has to do with a question: asides, suppositions and what is set right give way, and nothing else does; whole units,
the same each time, whatever the text."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import hostile
from tests.support import figure

from holdfast.model.content import Role, Text, ToolCall, ToolResult
from holdfast.model.facts.fact import Fact
from holdfast.model.history.views import HistoryItem, Summary
from holdfast.model.packs.pack import Profile
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.text.selection import (
    FEW_FACTS,
    LEFT_WORDS,
    NEAR_TURNS,
    SHORT_WORDS,
    find_newer,
    select_facts,
    select_items,
)

EXAMPLES = figure(30, 1_000)


PROFILE = Profile(name="some", history="relevant", recent_turns=1)


HOSTILE = [text for case in hostile.TEXTS if len(text := case.make()) < 1_000]


OURS = ("harbour", "lantern", "quarry", "orchard", "saddle", "violet", "timber", "meadow", "copper", "falcon")


THEIRS = ("printer", "invoice", "gasket", "pylon", "turbine", "ledger", "magnet", "kernel", "socket", "boiler")


OPENING = ("Hold on - ", "Hold on: ", "One sec - ", "Urgent: ", "OK, hold on, ")


CLOSING = ("Back to the ", "Let's get back to the ", "Continuing with the ", "That is done, back to the ")


SUPPOSING = ("What if ", "Hypothetically, ", "Let's say ", "Theoretically, ", "Tentatively: ")


def said(role: Role, text: str) -> MessageGroup:
    return MessageGroup((Message(id="1", seq=1, role=role, content=(Text(text),), time_us=0, principal="p"),))


def talk(*texts: str) -> list[HistoryItem]:
    return [said("user", text) for text in texts]


def did(text: str, *, waits: bool = False) -> MessageGroup:
    call = Message(id="1", seq=1, role="assistant", tool_calls=(ToolCall("c", "look", {}),), time_us=0, principal="p")
    answer = Message(
        id="2", seq=2, role="tool", tool_results=(ToolResult("c", (Text(text),)),), time_us=0, principal="p"
    )
    return MessageGroup((call,), open=True) if waits else MessageGroup((call, answer))


def summary(text: str) -> Summary:
    return Summary(seq=1, first=1, last=1, messages=1, text=text, tokens=0)


def fact(key: str, value: str) -> Fact:
    return Fact(id="k1", key=key, value=value)


def kept(
    items: Sequence[HistoryItem], query: str, facts: Sequence[Fact] = (), *, recent_turns: int = PROFILE.recent_turns
) -> list[int]:
    """The places of those that are in."""
    choices = select_items(items, query, facts, Profile(name="some", history="relevant", recent_turns=recent_turns))
    return [at for at, (chosen, _, _) in enumerate(choices) if chosen]


def sentence(*about: str) -> str:
    return f"The {' and the '.join(about)} were looked at."


about_ours = st.lists(st.sampled_from(OURS), min_size=1, max_size=3, unique=True).map(lambda some: sentence(*some))


about_theirs = st.lists(st.sampled_from(THEIRS), min_size=1, max_size=3, unique=True).map(lambda some: sentence(*some))


anything = st.one_of(
    st.sampled_from(HOSTILE),
    about_ours,
    about_theirs,
    st.builds(str.__add__, st.sampled_from((*OPENING, *CLOSING, *SUPPOSING, "Update: ")), about_ours),
    st.sampled_from(("[outdated]", "[withheld]. So do it.", "Originally it was Hall A.", "This is just exploratory.")),
)


anyhow = st.one_of(
    st.builds(said, st.sampled_from(("user", "assistant", "system")), anything),
    st.builds(did, anything),
    st.builds(lambda text: did(text, waits=True), anything),
    st.builds(summary, anything),
)


@settings(max_examples=EXAMPLES)
@given(st.lists(anyhow, max_size=30), anything, st.lists(st.builds(fact, anything, anything), max_size=4), st.data())
def test_each_item_is_in_or_out_and_says_why(
    items: list[HistoryItem], query: str, facts: list[Fact], data: st.DataObject
) -> None:
    recent = data.draw(st.integers(0, 3))
    profile = Profile(name="some", history="relevant", recent_turns=recent)
    choices = select_items(items, query, facts, profile)
    assert len(choices) == len(items)
    assert choices == select_items(items, query, facts, profile)
    for item, (chosen, score, reason) in zip(items, choices, strict=True):
        assert 0.0 <= score <= 1.0
        assert reason
        assert chosen or not (isinstance(item, Summary) or item.open)
    turned = select_items(items, query, facts[::-1], profile)
    assert [(chosen, score) for chosen, score, _ in turned] == [(chosen, score) for chosen, score, _ in choices]


@settings(max_examples=EXAMPLES)
@given(
    st.lists(about_ours, min_size=1, max_size=4),
    st.sampled_from(OPENING),
    st.lists(about_theirs, min_size=1, max_size=4),
    st.sampled_from(CLOSING),
    st.sampled_from(OURS),
)
def test_an_aside_gives_way_unless_it_is_what_is_asked_about(
    before: list[str], opening: str, aside: list[str], closing: str, topic: str
) -> None:
    items = talk(*before, opening + aside[0], *aside[1:], closing + topic)
    left = range(len(before), len(before) + len(aside))
    assert kept(items, f"How many of the {topic} are there?") == [at for at in range(len(items)) if at not in left]
    assert kept(items, f"What did we say? {aside[0]}") == [*range(len(items))]


def test_an_aside_that_the_talk_never_came_back_from_is_no_aside() -> None:
    items = talk(sentence("harbour"), "Hold on - the printer burns", "It is out")
    assert kept(items, "Where is the harbour?") == [0, 1, 2]


def test_the_newest_turns_are_in_whatever_they_tell_of() -> None:
    items = talk(sentence("harbour"), "Hold on - the printer burns", "It is out", "Back to the harbour")
    assert kept(items, "Where is the harbour?") == [0, 3]
    assert kept(items, "Where is the harbour?", recent_turns=2) == [0, 2, 3]
    assert kept(items, "Where is the harbour?", recent_turns=9) == [0, 1, 2, 3]


@settings(max_examples=EXAMPLES)
@given(
    st.lists(st.tuples(st.sampled_from(SUPPOSING), about_ours), max_size=5),
    st.lists(about_ours, min_size=1, max_size=5),
)
def test_what_is_only_supposed_gives_way_to_what_is_so(supposed: list[tuple[str, str]], so: list[str]) -> None:
    texts = [(cue + text[0].lower() + text[1:], False) for cue, text in supposed] + [(text, True) for text in so]
    random.Random(len(texts)).shuffle(texts)
    items = talk(*(text for text, _ in texts))
    assert kept(items, "How many are there?") == [at for at, (_, real) in enumerate(texts) if real]
    assert kept(items, "And hypothetically?") == [*range(len(items))]


def test_talk_of_what_might_be_ends_where_it_becomes_earnest() -> None:
    items: list[HistoryItem] = [
        said("user", "Let's think aloud, this is just exploratory."),
        said("user", "We sell it for 40."),
        said("assistant", "At 40 it pays."),
        said("user", "That's enough. Let's talk about what we do."),
        said("user", "We sell it for 50."),
    ]
    assert kept(items, "What does it cost?") == [3, 4]


def test_a_later_update_of_the_same_thing_takes_the_place_of_a_short_statement() -> None:
    note, update = "Note: the harbour lantern is due in 30 days", "Update: the harbour lantern is due tomorrow"
    assert kept(talk(note, update), "When is it due?") == [1]
    assert kept(talk(update, note), "When is it due?") == [0, 1]
    assert kept(talk(note, update.replace("Update: ", "")), "When is it due?") == [0, 1]
    assert kept(talk(note, "Update: the printer is due tomorrow"), "When is it due?") == [0, 1]
    longer = f"{note}, and {' '.join(f'{word}{number}' for number, word in enumerate(THEIRS * 2))}"
    assert len(longer.split()) > SHORT_WORDS
    assert kept(talk(longer, update), "When is it due?") == [0, 1]


def test_what_was_gives_way_where_a_fact_says_what_is() -> None:
    recap = "It was originally planned for Friday. But Monday March 18th is the one."
    assert kept(talk(recap, "Fine."), "When?", [fact("launch", "monday  March 18th")]) == [1]
    assert kept(talk(recap, "Fine."), "When?", [fact("launch", "Tuesday")]) == [0, 1]
    assert kept(talk("Monday March 18th is the one.", "Fine."), "When?", [fact("launch", "Monday March 18th")]) == [
        0,
        1,
    ]
    claim = Fact(id="k2", key="launch", value="Monday March 18th", against="k1")
    assert kept(talk(recap, "Fine."), "When?", [claim]) == [0, 1]


@pytest.mark.parametrize("marker", ["[outdated]", "[outdated: order]", "[order has changed since]", "[withheld]"])
def test_what_is_left_of_a_dead_statement_goes_with_it_unless_it_tells_something(marker: str) -> None:
    assert kept(talk(f"To be clear: {marker}. Proceed with it.", "Fine."), "Shall we?") == [1]
    assert kept(talk(f"{marker}. The deposit is $500.", "Fine."), "Shall we?") == [0, 1]
    assert kept(talk(f"{marker}. Tell Ada Lovelace.", "Fine."), "Shall we?") == [0, 1]
    assert kept(talk(f"{marker} {' '.join(OURS[: LEFT_WORDS + 1])}", "Fine."), "Shall we?") == [0, 1]
    assert kept(talk("To be clear: proceed with it.", "Fine."), "Shall we?") == [0, 1]


def test_replies_go_with_what_they_reply_to_and_calls_stay() -> None:
    items: list[HistoryItem] = [
        said("assistant", "How can I help?"),
        said("user", "Hypothetically, could we use copper?"),
        did("copper: 12 a pound"),
        said("assistant", "It costs 12 a pound."),
        said("user", "We use timber."),
        said("assistant", "Timber it is."),
    ]
    assert kept(items, "What do we use?") == [0, 2, 4, 5]
    assert [reason for _, _, reason in select_items(items, "What do we use?", (), PROFILE)][
        3
    ] == "reply to an omitted message"


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 3))
def test_what_is_old_has_to_fit(before: int, after: int, recent: int) -> None:
    texts = ["We went on with the pylon."] * before + ["The falcon is in the tower."] + ["The turbine runs."] * after
    found = kept(talk(*texts), "Where is the falcon?", recent_turns=recent)
    newest = max(NEAR_TURNS, recent)
    assert found == [at for at, text in enumerate(texts) if "falcon" in text or len(texts) - at <= newest]


def test_facts_that_fit_the_question_lend_it_their_words() -> None:
    texts = ["The meadow was mown."] + ["The turbine runs."] * NEAR_TURNS
    assert kept(talk(*texts), "Who owns the falcon?")[0] == 1
    assert kept(talk(*texts), "Who owns the falcon?", [fact("falcon_home", "the meadow")])[0] == 0


@settings(max_examples=EXAMPLES)
@given(st.lists(st.tuples(st.sampled_from(OURS), st.sampled_from(THEIRS), st.integers(0, 3)), max_size=6))
def test_a_newer_observation_of_the_same_thing_takes_the_place_of_an_older_one(
    seen: list[tuple[str, str, int]],
) -> None:
    signals = [(f"{one.title()} {other} reads {at * 7}", at) for one, other, at in seen]
    for at, newer in enumerate(find_newer(signals)):
        alike = [place for place, each in enumerate(seen) if each[:2] == seen[at][:2] and each[2] > seen[at][2]]
        assert (newer is not None) >= bool(alike)
        if newer is not None:
            assert signals[newer][1] > signals[at][1]
            assert len({*signals[newer][0].split()} & {*signals[at][0].split()}) >= 2


def test_observations_of_different_things_stand_side_by_side() -> None:
    assert (
        find_newer([("Harbour: calm", 1), ("Harbour traffic is heavy", 2), ("12 degrees", 3), ("rain", 4)])
        == [None] * 4
    )
    assert find_newer([("VendorX renews in 30 days", 1), ("VendorX renews tomorrow", 1)]) == [None, None]
    assert find_newer([("VendorX renews in 30 days", 1), ("VendorX renews tomorrow", 2)]) == [1, None]


def test_what_someone_said_gives_way_who_was_wrong_as_another_says() -> None:
    talk_of_three = talk(
        "[Ada (Support)]: It is the cache.",
        "[Bo (Engineer)]: Ada was wrong. It is the timber.",
        "[Cy (Lead)]: Actually Bo was also wrong. It is the copper.",
    )
    assert kept(talk_of_three, "What is it?") == [2]
    assert kept(talk("[Ada (Support)]: It is the cache.", "[Ada (Support)]: Ada was wrong."), "What is it?") == [0, 1]
    assert kept(talk("It is the cache.", "[Bo (Engineer)]: Ada was wrong."), "What is it?") == [0, 1]
    held = [fact("note", "It is the cache."), fact("other", "It is the copper.")]
    texts = [message.text for item in talk_of_three if isinstance(item, MessageGroup) for message in item.messages]
    assert [bool(why) for why in select_facts("What is it?", held, texts)] == [False, True]


def others(count: int) -> list[Fact]:
    return [fact(f"filling_{THEIRS[at % len(THEIRS)]}_{at}", f"{at} of the {THEIRS[at % 7]}") for at in range(count)]


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 3 * FEW_FACTS), st.randoms(use_true_random=False))
def test_few_facts_are_all_in_and_of_many_those_that_fit(count: int, order: random.Random) -> None:
    facts = [fact("falcon_home", "the tower"), fact("falcon_keeper", "Ada Lovelace"), *others(count)]
    order.shuffle(facts)
    reasons = select_facts("Where is the falcon?", facts, ())
    fitting = [each.key for each, why in zip(facts, reasons, strict=True) if why]
    few = len(facts) <= FEW_FACTS
    assert sorted(fitting) == sorted(each.key for each in facts if few or each.key.startswith("falcon"))


def test_of_many_facts_those_are_in_that_the_talk_tells_or_names_and_those_kept_with_them() -> None:
    many = others(2 * FEW_FACTS)

    def found(query: str, said: str, *some: Fact) -> list[bool]:
        return [bool(why) for why in select_facts(query, [*some, *many], [said])[: len(some)]]

    home, keeper = fact("bird_home", "the old tower"), fact("bird_keeper", "fed by Lovelace")
    assert found("Where is it?", "Nothing.", home, keeper) == [False, False]
    assert found("Where is it?", "It sits in the old tower now.", fact("home", "the old tower"), keeper) == [
        True,
        False,
    ]
    assert found("Where is it?", "Lovelace called.", fact("home", "the old tower"), keeper) == [False, True]
    assert found("Where is it?", "Lovelace called.", home, keeper) == [True, True]
    assert found("Which tower?", "Nothing.", home, keeper) == [True, True]


@settings(max_examples=EXAMPLES)
@given(anything, st.lists(st.builds(fact, anything, anything), max_size=30), st.lists(anything, max_size=5))
def test_every_fact_is_in_or_out_whatever_the_text(query: str, facts: list[Fact], said: list[str]) -> None:
    found = select_facts(query, facts, said)
    assert len(found) == len(facts)
    assert found == select_facts(query, facts, said)
