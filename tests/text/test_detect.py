"""What the default detector reads in plain text, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import figure

from holdfast.model.content import Json, Role
from holdfast.model.facts.detection import FactCandidate, MessageSpan, Observation, Proposal, Utterance
from holdfast.text.detect.detector import RuleDetector

APPLIED = 0.8
"""From this confidence on a policy acts by itself."""


ASKED = 0.5


def us(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * 1_000_000


def observed(
    text: str,
    facts: dict[str, Json],
    *before: str,
    role: Role = "user",
    now_us: int = 0,
    since_us: int = 1,
    expires_us: int | None = None,
) -> Observation:
    """The messages before are the user's, or, with `>` in front, the assistant's."""
    return Observation(
        message=Utterance(text, role),
        previous=tuple(
            Utterance(each.removeprefix(">"), "assistant" if each.startswith(">") else "user", seq)
            for seq, each in enumerate(before, 1)
        ),
        facts=tuple(
            FactCandidate(fact=key, key=key, value=value, text=str(value), since_us=since_us, expires_us=expires_us)
            for key, value in facts.items()
        ),
        now_us=now_us,
    )


def changes(observation: Observation, least: float = APPLIED) -> dict[str, Proposal]:
    """The facts that would lose their value, with why."""
    found = [each for each in RuleDetector().detect(observation) if each.fact is not None and each.confidence >= least]
    return {each.fact: each for each in found if each.fact is not None}


def quoted(observation: Observation, spans: Sequence[MessageSpan]) -> list[str]:
    texts = {0: observation.message.text} | {each.seq: each.text for each in observation.previous}
    return [texts[span.seq][span.start : span.end] for span in spans]


SET_RIGHT: list[tuple[str, dict[str, Json], tuple[str, ...], str, Json]] = [
    ("Make that $40,000.", {"project_budget": "$100,000"}, ("The budget is $100,000.",), "project_budget", "$40,000"),
    ("No, it's for 3 people.", {"party_size": 4}, (">So a table for 4 people?",), "party_size", 3),
    ("Actually, the deadline moved to June 20.", {"project_deadline": "June 15"}, (), "project_deadline", "June 20"),
    ("We moved the call from Tuesday to Friday.", {"call_day": "Tuesday"}, (), "call_day", "Friday"),
    ("Sorry, could we do 8 pm instead?", {"table.time": "7 pm"}, (">Booked for 7 pm.",), "table.time", "8 pm"),
    ("The discount is 15% now.", {"discount": "10%"}, (), "discount", "15%"),
    ("Keys rotate every 30 days now, not 90 days.", {"key_rotation": "90 days"}, (), "key_rotation", "30 days"),
    ("Correction: it runs for 24 months.", {"contract_length": "12 months"}, (), "contract_length", "24 months"),
    ("My name is Anna, not Ana.", {"user_name": "Ana"}, (), "user_name", "Anna"),
    ("Let's use Postgres instead of MySQL.", {"database": "MySQL"}, (), "database", "Postgres"),
    ("Sarah is now the owner of the migration.", {"migration_owner": "Bob"}, (), "migration_owner", "Sarah"),
    ("Actually, send it to Oslo instead.", {"ship_to": "Bergen"}, ("Ship it to Bergen.",), "ship_to", "Oslo"),
    ("The priority is retention now.", {"top_priority": "growth"}, (), "top_priority", "retention"),
    ("As of today, the project is delayed.", {"project_status": "in planning"}, (), "project_status", "delayed"),
    ("I'm vegetarian now", {"diet": "vegan"}, ("I'm vegan",), "diet", "vegetarian"),
    ("We don't need parking anymore.", {"parking": "yes", "wifi": "yes"}, (), "parking", "no"),
    ("We don't need parking anymore.", {"parking": True}, (), "parking", False),
    (
        "We'll go with Globex for the contract.",
        {"selected_vendor": "Initech"},
        ("We'll go with Initech for the contract.",),
        "selected_vendor",
        "Globex",
    ),
]


@pytest.mark.parametrize(("text", "facts", "before", "key", "value"), SET_RIGHT, ids=[each[0] for each in SET_RIGHT])
def test_a_value_that_is_set_right_is_superseded(
    text: str, facts: dict[str, Json], before: tuple[str, ...], key: str, value: Json
) -> None:
    found = changes(observed(text, facts, *before))
    assert list(found) == [key]
    assert found[key].change == "supersede"
    assert found[key].value == value


MADE_OF_SEVERAL: list[tuple[str, dict[str, Json], Json, str]] = [
    ("Actually, let's do Thursday at 3pm", {"meeting_time": "Tuesday at 2pm"}, "Thursday at 3pm", "explicit"),
    (
        "Actually, let's do the meeting Thursday at 3pm",
        {"meeting_time": "Tuesday at 2pm"},
        "Thursday at 3pm",
        "explicit",
    ),
    ("Let's do the meeting Thursday at 3pm", {"meeting": "Tuesday at 2pm"}, "Thursday at 3pm", "explicit"),
    ("Let's do the meeting Thursday at 3.", {"meeting": "Tuesday at 2pm"}, "Thursday at 3", "explicit"),
    ("Actually, the meeting is on Thursday at 3pm.", {"meeting": "Tuesday at 2pm"}, "Thursday at 3pm", "explicit"),
    ("let's move the meeting to Thursday at 3pm", {"meeting": "Tuesday at 2pm"}, "Thursday at 3pm", "explicit"),
    (
        "We moved the meeting from Tuesday at 2pm to 3pm on Friday.",
        {"meeting": "Tuesday at 2pm"},
        "3pm on Friday",
        "explicit",
    ),
    ("Not Tuesday, make it Thursday at 3pm.", {"meeting": "Tuesday at 2pm"}, "Thursday at 3pm", "explicit"),
    ("The sync is Monday, 10:00 UTC now.", {"sync": "Friday, 9:00 UTC"}, "Monday, 10:00 UTC", "implicit"),
    ("The hours are now 9am to 5pm.", {"hours": "10am to 6pm"}, "9am to 5pm", "explicit"),
    ("The hotel limit is 300 euros a night.", {"hotel_limit": "120 euros a night"}, "300 euros a night", "implicit"),
    ("The fee is $40 per person now.", {"fee": "$30 per person"}, "$40 per person", "implicit"),
    ("The rent is now $900/month.", {"rent": "$800/month"}, "$900/month", "explicit"),
    ("My salary is now $90,000 a year.", {"salary": "$80,000 a month"}, "$90,000 a year", "explicit"),
    ("Let's offer a 25% discount", {"discount": "15% discount"}, "25% discount", "implicit"),
    ("Actually, the policy is max 25% now.", {"policy": "max 15%"}, "max 25%", "explicit"),
    ("I moved to 45 Oak Avenue.", {"address": "12 Elm Street"}, "45 Oak Avenue", "explicit"),
    ("I moved to 45 Oak Avenue.", {"address": "123 Main St", "airport": "Hamburg"}, "45 Oak Avenue", "explicit"),
    ("We are no longer using Kafka, we use Pulsar.", {"broker": "Kafka"}, "Pulsar", "explicit"),
]


@pytest.mark.parametrize(("text", "facts", "value", "rule"), MADE_OF_SEVERAL, ids=[each[0] for each in MADE_OF_SEVERAL])
def test_a_value_is_all_of_what_was_said_and_no_more(text: str, facts: dict[str, Json], value: Json, rule: str) -> None:
    observation = observed(text, facts)
    (found,) = changes(observation).values()
    assert (found.change, found.rule, found.fact, found.value) == ("supersede", rule, next(iter(facts)), value)
    assert found.new is not None
    assert quoted(observation, [found.new]) == [value]


@pytest.mark.parametrize(
    ("text", "facts", "value", "said"),
    [
        ("Make it 4pm instead", {"meeting": "Tuesday at 2pm"}, "Tuesday at 4pm", "4pm"),
        ("Make it Thursday instead.", {"meeting": "Tuesday at 2pm"}, "Thursday at 2pm", "Thursday"),
        ("Make it 11:00.", {"sync": "Friday at 9:00 UTC"}, "Friday at 11:00 UTC", "11:00"),
        ("Actually, make it 300 euros.", {"hotel_limit": "120 euros a night"}, "300 euros a night", "300 euros"),
    ],
)
def test_what_is_not_said_anew_stays_as_it_was(text: str, facts: dict[str, Json], value: Json, said: str) -> None:
    observation = observed(text, facts)
    (found,) = changes(observation).values()
    assert found.value == value
    assert found.new is not None
    assert quoted(observation, [found.new]) == [said]


DAYS = ["Monday", "Tuesday", "next Friday", "tomorrow", "March 15", "the 3rd of May"]


TIMES = ["9am", "2 pm", "10:30", "noon", "half past 7", "6 in the evening"]


SAID = [
    "Actually, let's do the meeting {}.",
    "The meeting is now {}.",
    "Correction: the meeting is on {}, thanks.",
    "Please move the meeting to {} instead.",
    "Let's do the meeting {}",
]


@settings(max_examples=figure(30, 2_000), deadline=None)
@given(
    st.permutations(DAYS),
    st.permutations(TIMES),
    st.sampled_from(["{day} at {time}", "{day}, {time}", "{time} on {day}", "{day} {time}"]),
    st.sampled_from(SAID),
    st.sampled_from(["meeting", "meeting_time", "team.meeting"]),
)
def test_a_day_and_a_time_are_one_value(days: list[str], times: list[str], form: str, said: str, key: str) -> None:
    new = form.format(day=days[0], time=times[0])
    observation = observed(said.format(new), {key: f"{days[1]} at {times[1]}", "budget": "$50,000"})
    (found,) = changes(observation).values()
    assert (found.change, found.key, found.value) == ("supersede", key, new)
    assert found.new is not None
    assert quoted(observation, [found.new]) == [new]
    again = observed(said.format(new), {key: form.format(day=days[0], time=times[0])})
    assert changes(again, 0.0) == {}


def test_a_statement_with_another_amount_is_asked_about() -> None:
    observation = observed("Let's offer a 25% discount", {"discount": "we can offer 15% discount"})
    assert changes(observation) == {}
    (found,) = changes(observation, ASKED).values()
    assert (found.change, found.rule, found.value) == ("supersede", "implicit", "25% discount")
    assert found.new is not None
    assert quoted(observation, [found.new]) == ["25% discount"]


@pytest.mark.parametrize("old", ["123 Main St", "456 Oak Ave"])
@pytest.mark.parametrize(
    "text",
    [
        "I moved. The shipping address is 456 Oak Ave now, not 123 Main St.",
        "Ship it to 456 Oak Ave, not 123 Main St.",
        "It is 456 Oak Ave now instead of 123 Main St.",
        "Not 123 Main St, 456 Oak Ave.",
    ],
)
def test_no_word_of_an_address_is_a_value(text: str, old: str) -> None:
    for each in changes(observed(text, {"shipping address": old}), ASKED).values():
        assert each.value == "456 Oak Ave" != old


def test_what_is_quoted_as_wrong_is_no_new_value() -> None:
    decision = "Applied 25% discount: $10,000 base - $2,500 = $7,500 final"
    facts: dict[str, Json] = {
        "discount": "15%",
        "rule": "Maximum discount is 15%",
        "customer": "Acme",
        "decision": decision,
    }
    wrong = f"our previous conclusion '{decision}' was based on incorrect information"
    text = f"This means {wrong} and needs to be RECALCULATED."
    found = changes(observed(text, facts), 0.0)
    assert {key: (each.change, each.value, each.new) for key, each in found.items()} == {
        "decision": ("retract", None, None)
    }
    right = observed("I said 'at 2pm', which was wrong: the call is 'at 3pm'.", {"call": "1pm"})
    assert [each.value for each in changes(right).values()] == ["3pm"]


@settings(max_examples=figure(6, 200), deadline=None)
@given(st.integers(0, 90_000), st.sampled_from(["x", "rain and fog ", "all is quiet here. "]), st.integers(1, 1_500))
def test_a_long_text_is_read_at_its_beginning_and_at_its_end(length: int, part: str, behind: int) -> None:
    filling = (part * (length // len(part) + 1))[:length]
    after = (part * (behind // len(part) + 1))[:behind]
    for ahead in ("", filling):
        text = f"{ahead}\nActually, the deadline is June 20.\n{filling if not ahead else after}"
        observation = observed(text, {"deadline": "June 15"})
        (found,) = changes(observation).values()
        assert found.value == "June 20"
        assert found.new is not None
        assert quoted(observation, [found.new]) == ["June 20"]


def test_what_stands_in_the_middle_of_a_long_text_is_not_read() -> None:
    text = "so it goes " * 600 + "Actually, the deadline is June 20. " + "so it goes " * 200
    assert changes(observed(text, {"deadline": "June 15"}), 0.0) == {}


@pytest.mark.parametrize(
    ("text", "facts", "before"),
    [
        ("The meeting is on Tuesday.", {"meeting": "Tuesday at 2pm"}, ()),
        ("The meeting is at 2.", {"meeting": "Tuesday at 2pm"}, ()),
        ("Is the meeting on Thursday at 3pm?", {"meeting": "Tuesday at 2pm"}, ()),
        ("I had lunch on Thursday at 1pm with Bob.", {"meeting": "Tuesday at 2pm"}, ()),
        ("I forget the address.", {"address": "12 Elm Street"}, ()),
        ("Don't forget the address.", {"address": "12 Elm Street"}, ()),
        ("You're the best. I'm set for now.", {"destination": "Oslo"}, ()),
        ("We are using Kafka.", {"broker": "Kafka"}, ()),
        ("The call is on Tuesday.", {"call_day": "Tuesday"}, ()),
        ("Yes, at 7 in the evening.", {"time": "7 pm"}, (">At 7 pm?",)),
        ("Is the call on Friday?", {"call_day": "Tuesday"}, ("The call is on Tuesday.",)),
        ("When is the review, on Friday or on Monday?", {"review_day": "Tuesday"}, ()),
        ("Don't change the budget to $30,000.", {"budget": "$50,000"}, ("The budget is $50,000.",)),
        ("It's not on Friday.", {"call_day": "Tuesday"}, ("The call is on Tuesday.",)),
        ("What if we moved it to Friday?", {"call_day": "Tuesday"}, ("The call is on Tuesday.",)),
        ("Suppose the budget is $90,000.", {"budget": "$50,000"}, ()),
        ("We might move it to Friday, not sure yet.", {"call_day": "Tuesday"}, ("The call is on Tuesday.",)),
        ("As a rough estimate, the budget is $70,000.", {"budget": "$50,000"}, ()),
        ("I had lunch at 1 pm with Bob.", {"meeting_time": "3 pm"}, ("The meeting is at 3 pm.",)),
        ("Find another table for my mother at 6 pm.", {"time": "5 pm"}, ("Find a table at 5 pm.",)),
        ("The budget for the other team is $30,000.", {"project_budget": "$50,000"}, ("Project budget: $50,000",)),
        ("The marketing budget is $30,000.", {"project_budget": "$50,000"}, ("Project budget: $50,000",)),
        ("The vendor quoted $75,000 for the license.", {"quarterly_budget": "$50,000"}, ()),
        ("My sister lives in Rome.", {"home_city": "Porto"}, ("I live in Porto.",)),
        ("I'd also like a hotel for Friday.", {"flight_date": "Tuesday"}, ("A flight on Tuesday.",)),
        ("Thanks, see you tomorrow!", {"call_day": "Tuesday"}, ()),
        ("I need a taxi from Leeds to York.", {"train.departure": "Leeds"}, ("A train from Leeds.",)),
        ("Keep the location as it is.", {"order_location": "Oslo"}, ()),
        ("Thanks, that's all for now.", {"destination": "Oslo"}, ("Go to Oslo.",)),
        ("All features need 80% coverage, this one has 30% coverage.", {"gate": "At least 80% coverage"}, ()),
    ],
)
def test_other_talk_changes_nothing(text: str, facts: dict[str, Json], before: tuple[str, ...]) -> None:
    assert changes(observed(text, facts, *before)) == {}


def test_only_what_is_named_is_changed() -> None:
    facts: dict[str, Json] = {"order_quantity": "500", "order_location": "Oslo"}
    found = changes(observed("Keep the location, but change the quantity to 750.", facts, "500 units to Oslo."))
    assert list(found) == ["order_quantity"]


@pytest.mark.parametrize(
    ("text", "facts", "before"),
    [
        ("Scratch that.", {"call_day": "Tuesday"}, ("The call is on Tuesday.",)),
        ("Cancel that order.", {"laptop_order": "ten laptops"}, ("Order ten laptops.",)),
        ("The office is no longer in Berlin.", {"office_location": "Berlin"}, ()),
        ("Forget about the Acme deal.", {"lead": "The Acme deal is worth $2M"}, ()),
        ("Our conclusion 'ship on May 1' was based on incorrect data.", {"decision": "ship on May 1"}, ()),
        ("Forget the address.", {"address": "12 Elm Street", "seat": "window"}, ()),
        ("We are no longer using Kafka.", {"broker": "Kafka", "database": "Postgres"}, ()),
        ("We don't use Kafka any more.", {"broker": "Kafka"}, ()),
        ("We stopped using Kafka.", {"broker": "Kafka"}, ()),
    ],
)
def test_what_is_taken_back_is_retracted(text: str, facts: dict[str, Json], before: tuple[str, ...]) -> None:
    found = changes(observed(text, facts, *before))
    assert [each.change for each in found.values()] == ["retract"]
    assert all(each.value is None and each.new is None for each in found.values())


def test_what_says_itself_that_it_is_off_is_not_taken_back_again() -> None:
    assert changes(observed("Cancel that order.", {"order": "order of laptops cancelled"}, "Order laptops.")) == {}


@pytest.mark.parametrize(
    ("answer", "offer", "facts", "value"),
    [
        ("Sure, that works.", "Tuesday is full. How about Friday instead?", {"call_day": "Tuesday"}, "Friday"),
        ("Yes please.", "They only have a table for 3 people. Would that work?", {"party_size": 4}, 3),
        ("Sounds good to me.", "Sorry, 7 pm is taken. How about 6:30 pm?", {"time": "7 pm"}, "6:30 pm"),
    ],
)
def test_an_offer_that_is_agreed_to_is_the_new_value(
    answer: str, offer: str, facts: dict[str, Json], value: Json
) -> None:
    observation = observed(answer, facts, f">{offer}")
    (found,) = changes(observation).values()
    assert (found.change, found.value) == ("supersede", value)
    assert found.new is not None
    assert found.new.seq == 1
    assert quoted(observation, [found.new]) == [str(value)]
    assert changes(observed(f"No, {answer.lower()}", facts, f">{offer}")) == {}


def test_an_offer_that_is_declined_changes_nothing() -> None:
    offer = ">Tuesday is full. How about Friday instead?"
    assert changes(observed("Okay, no.", {"call_day": "Tuesday"}, offer)) == {}


def test_the_other_side_echoes_and_offers_but_never_decides() -> None:
    facts: dict[str, Json] = {"budget": "$50,000"}
    for text in ("Noted: the budget is $50,000.", "I have set the budget to $60,000 instead.", "How about $60,000?"):
        assert changes(observed(text, facts, "The budget is $50,000.", role="assistant")) == {}


def test_spans_say_exactly_where_the_old_and_the_new_value_stand() -> None:
    observation = observed(
        "Correction: it was Tuesday, the call is now on Friday.",
        {"call_day": "Tuesday"},
        "The call is on Tuesday.",
        ">Noted: Tuesday. Tuesdays are fine.",
    )
    (found,) = changes(observation).values()
    assert found.new is not None
    assert quoted(observation, [found.new]) == ["Friday"]
    assert quoted(observation, found.old) == ["Tuesday"], "where it is said of the call, and not of other Tuesdays"
    assert {span.seq for span in found.old} == {1}


def test_a_value_is_found_where_it_is_written_in_another_way() -> None:
    observation = observed("No, make it 8 pm.", {"time": "half past 7 in the evening"}, ">So the time is 7:30 pm?")
    (found,) = changes(observation).values()
    assert quoted(observation, found.old) == ["7:30 pm"]


def test_a_number_is_stated_only_where_it_counts_the_same() -> None:
    observation = observed(
        "No, make it 5 people.", {"party_size": 4}, "4 people, and 4 bottles of wine.", ">For 4 people?"
    )
    (found,) = changes(observation).values()
    assert quoted(observation, found.old) == ["4", "4"]
    assert found.value == 5


def test_where_a_fact_is_known_to_be_stated_is_told_along() -> None:
    stated = MessageSpan(17, 4, 11)
    candidate = FactCandidate(fact="f", key="call_day", value="Tuesday", text="Tuesday", spans=(stated,))
    (found,) = RuleDetector().detect(Observation(message=Utterance("Make it Friday instead."), facts=(candidate,)))
    assert stated in found.old


@pytest.mark.parametrize(
    ("text", "authority"),
    [
        ("Per the CEO, the budget is $80,000.", "CEO"),
        ("[VP] I'm overriding that. The budget is $80,000.", "VP"),
        ("[Mike (CFO)]: the budget is now $80,000.", "CFO"),
        ("The board cut it: the budget is now $80,000.", "board"),
        ("The budget is now $80,000.", ""),
        ("The budget is now $80,000 per month.", ""),
    ],
)
def test_who_is_named_as_the_source_is_noted(text: str, authority: str) -> None:
    (found,) = changes(observed(text, {"budget": "$50,000"})).values()
    assert found.authority == authority
    assert (found.rule == "authority") == bool(authority)


@pytest.mark.parametrize(
    ("value", "now", "least"),
    [
        ("Offer is valid until March 15, 2026", "2026-03-16T00:00:00", APPLIED),
        ("Send it by March 15", "2026-03-16T00:00:00", ASKED),
        ("The meeting is on Friday", "2026-03-14T00:00:00", ASKED),
    ],
)
def test_a_deadline_that_has_passed_expires(value: str, now: str, least: float) -> None:
    since = us("2026-03-09T09:00:00")
    (found,) = changes(observed("Hello.", {"note": value}, now_us=us(now), since_us=since), least).values()
    assert (found.change, found.rule) == ("expire", "temporal")
    assert changes(observed("Hello.", {"note": value}, now_us=us("2026-03-13T08:00:00"), since_us=since), ASKED) == {}


def test_a_date_without_a_year_is_the_next_one() -> None:
    facts: dict[str, Json] = {"note": "Send it by March 15"}
    since = us("2026-11-01T09:00:00")
    assert changes(observed("Hi.", facts, now_us=us("2026-11-05T09:00:00"), since_us=since), ASKED) == {}
    assert changes(observed("Hi.", facts, now_us=us("2027-03-16T09:00:00"), since_us=since), ASKED) != {}


def test_a_fact_expires_when_it_was_said_to() -> None:
    end = us("2026-03-15T12:00:00")
    assert changes(observed("Hi.", {"k": "v"}, now_us=end - 1, expires_us=end)) == {}
    (found,) = changes(observed("Hi.", {"k": "v"}, now_us=end, expires_us=end)).values()
    assert found.change == "expire"


def test_a_birthday_does_not_expire() -> None:
    facts: dict[str, Json] = {"birthday": "March 3, 1990"}
    assert changes(observed("Hi.", facts, now_us=us("2026-03-15T12:00:00")), ASKED) == {}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Hold on - call about the Q4 budget", "call_q4_budget"),
        ("Back to the Globex proposal", "globex_proposal"),
        ("Incident resolved, back to planning", "planning"),
        ("Let's talk about the launch.", "launch"),
    ],
)
def test_the_talk_turns(text: str, key: str) -> None:
    (found,) = RuleDetector().detect(observed(text, {"budget": "$5"}))
    assert (found.change, found.rule, found.key, found.fact) == ("switch", "topic", key, None)


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("What if the budget were $90,000?", "hypothetical"),
        ("Theoretically, $40 is possible.", "hypothetical"),
        ("Draft: a contract of 24 months", "draft"),
        ("Tentatively targeting March 15", "draft"),
    ],
)
def test_what_is_only_supposed_is_kept_apart(text: str, scope: str) -> None:
    (found,) = RuleDetector().detect(observed(text, {"budget": "$50,000", "contract": "12 months"}))
    assert (found.change, found.scope, found.fact, found.value) == ("assert", scope, None, text)


def test_all_is_supposed_until_the_talk_is_in_earnest_again() -> None:
    facts: dict[str, Json] = {"budget": "$50,000"}
    opening = "Let's do a pricing exploration. This is just exploratory."
    assert changes(observed("Make the budget $90,000.", facts, opening)) == {}
    ended = changes(observed("Actually, the budget is now $90,000.", facts, opening, "OK, that's enough of that."))
    assert list(ended) == ["budget"]


def test_what_is_plainly_said_of_something_new_is_asked_for() -> None:
    (found,) = RuleDetector().detect(observed("The kickoff is on Friday.", {"city": "Oslo"}))
    assert (found.change, found.rule, found.key, found.value) == ("assert", "stated", "kickoff", "Friday")
    assert ASKED <= found.confidence < APPLIED


def test_a_commitment_outlives_a_preference() -> None:
    facts: dict[str, Json] = {
        "contract": "Committed to 18 months contract with Acme",
        "payment_preference": "Prefer monthly billing payment terms",
    }
    said = "I'm committed to Acme. I prefer monthly billing for now."
    found = changes(observed("Actually, let's switch to milestone-based instead.", facts, said))
    assert list(found) == ["payment_preference"]


def test_what_must_be_is_not_switched_in_passing() -> None:
    facts: dict[str, Json] = {"cadence": "must be weekly", "review_preference": "Prefer weekly reviews"}
    found = changes(observed("Actually, let's switch to biweekly instead.", facts), ASKED)
    assert list(found) == ["review_preference"]


def test_a_reason_quotes_no_value() -> None:
    for text, facts, before, _, value in SET_RIGHT:
        for found in changes(observed(text, facts, *before)).values():
            for word in (str(value), *map(str, facts.values())):
                assert word.lower() not in found.reason.lower().replace(found.key, "").split()


@pytest.mark.parametrize(
    ("text", "key", "old", "new"),
    [
        ("Line 2 speed is 40 now.", "line_2.speed", 40, None),
        ("Line 2 speed is 50 now.", "line_2.speed", 40, 50),
        ("The room 2 capacity is 14 now.", "room_2_capacity", 12, 14),
        ("As I said, the address 2 floor is 4 now.", "address_2.floor", 4, None),
    ],
)
def test_a_number_in_the_name_of_a_fact_is_no_value(text: str, key: str, old: Json, new: Json) -> None:
    found = changes(observed(text, {key: old}), ASKED)
    assert {name: each.value for name, each in found.items()} == ({} if new is None else {key: new})
