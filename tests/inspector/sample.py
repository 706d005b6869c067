"""A store to look at: a travel desk with all that the inspector has a view for. The same bytes of content in every run.

    python -m tests.inspector.sample desk.db            writes it
    python -m tests.inspector.sample desk.db --large 10000

The clock and the ids are fixed, the model and the tools are scripted, and nothing leaves the process. What a provider would
have read from its prompt cache is worked out from the requests: the part at the front that is the same as in the request
before, as long as the cache is warm.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import holdfast
from holdfast import File, Identity, Image, Session, Text, Usage
from tests.inspector import desk
from tests.inspector.desk import CLAUDE, GPT, Call, Turn
from tests.support import CountingIds

START = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
TRIP, EMPTY, REFUND, FORK, OTHER_TENANT = "trip-1", "trip-new", "refund-7", "trip-1-other-hotel", "contoso"
USER, BUDGET = "maya", 9_000
MAYA = Identity(
    user_name="Maya Lindqvist",
    user_id=USER,
    authority="peer",
    organization="northwind",
    permissions=("travel", "passport"),
)
SECRET = "P-4471-8802-SE"
"""The passport number: a reader without the permission `passport` sees no trace of it."""
WARM_S = {CLAUDE: 300, GPT: 1_800}
BATCH = 400
"""Messages of one transaction in a large session."""


class DeskClock:
    """A clock that moves a little at every look, and as far as the story says."""

    def __init__(self, start: datetime) -> None:
        self._now_us = int(start.timestamp()) * 1_000_000

    def now_us(self) -> int:
        self._now_us += 1_000
        return self._now_us

    def wait(self, seconds: float) -> None:
        self._now_us += int(seconds * 1_000_000)

    def until(self, moment: datetime) -> None:
        self._now_us = max(self._now_us, int(moment.timestamp()) * 1_000_000)


class PromptCache:
    """What a provider has in its prompt cache: the last request to each model, while it is warm."""

    def __init__(self, clock: DeskClock) -> None:
        self._clock = clock
        self._last: dict[str, tuple[str, int]] = {}

    def charge(self, pack: holdfast.Pack, model: str, output: int) -> Usage:
        """The usage of a call with this pack."""
        request = pack.anthropic(breakpoints=0) if model == CLAUDE else pack.openai()
        prompt = json.dumps(
            [request.get(part) for part in ("tools", "system", "messages")]
        )  # in the order of the cache
        before, at_us = self._last.get(model, ("", 0))
        now_us = self._clock.now_us()
        is_warm = now_us - at_us < WARM_S[model] * 1_000_000
        shared = count_common(prompt, before) if is_warm else 0
        self._last[model] = (prompt, now_us)
        total = pack.tokens.used
        read = total * shared // len(prompt) // 64 * 64
        written = (total - read) * 9 // 10 if model == CLAUDE else 0  # the other one does not report it
        return Usage(total, output, cache_read_tokens=read, cache_write_tokens=written)


def count_common(one: str, other: str) -> int:
    """The number of characters at the front that two texts share."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[:middle] == other[:middle] else (low, middle - 1)
    return low


class Desk:
    """The agent: it builds packs, has the scripted model answer, and runs the scripted tools."""

    def __init__(self, session: Any, clock: DeskClock, cache: PromptCache) -> None:
        self.session, self.clock, self.cache = session, clock, cache
        self.brief = desk.BRIEF
        self.replies = 0

    def run_turn(self, turn: Turn) -> holdfast.Message:
        """One turn of the traveller, up to the answer."""
        self.clock.wait(turn.pause_s)
        with self.session.turn(owner="desk-worker-1", lease_s=3_600) as session:
            asked: holdfast.Message = session.record("user", turn.text)
            if turn.fact:
                state_fact(session.facts, asked, turn.fact)
            if turn.user_fact:
                state_fact(session.ledger(user=USER), asked, turn.user_fact)
            for step in turn.steps:
                self.run_step(session, step.text, step.calls, turn.model, **turn.options)
        return asked

    def run_step(
        self, conversation: Any, text: str, calls: Sequence[Call] = (), model: str = CLAUDE, **options: Any
    ) -> holdfast.Message:
        """One model call, and the tools that it asks for."""
        pack = conversation.pack(
            **{"budget": BUDGET, "brief": self.brief, "model": model, "max_output": 600, **options}
        )
        self.clock.wait(2.4 + len(text) / 60)
        self.replies += 1
        output = 18 + len(text) // 4 + 40 * len(calls)
        reply = build_reply(model, text, calls, self.cache.charge(pack, model, output), self.replies)
        message: holdfast.Message = conversation.record(reply)
        results = {call.name: call for call in calls}
        for call in message.tool_calls:
            conversation.run(call, self.play(results[call.name]))
        return message

    def play(self, call: Call) -> Callable[..., Any]:
        """A tool that takes its time and does what the script says."""

        def tool(**_arguments: Any) -> Any:
            self.clock.wait(30 if isinstance(call.result, Exception) else 0.7 + len(str(call.result)) / 20_000)
            if isinstance(call.result, Exception):
                raise call.result
            return call.result

        return tool


def build_reply(model: str, text: str, calls: Sequence[Call], usage: Usage, number: int) -> dict[str, Any]:
    """A reply as the client of the provider returns it."""
    if model == CLAUDE:
        uses = [
            {"type": "tool_use", "id": f"toolu_{number:04d}{each}", "name": call.name, "input": call.args}
            for each, call in enumerate(calls)
        ]
        fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        return {
            "id": f"msg_{number:06d}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [{"type": "text", "text": text}, *uses],
            "stop_reason": "tool_use" if calls else "end_turn",
            "usage": {
                "input_tokens": fresh,
                "output_tokens": usage.output_tokens,
                "cache_read_input_tokens": usage.cache_read_tokens,
                "cache_creation_input_tokens": usage.cache_write_tokens,
            },
        }
    return {
        "id": f"chatcmpl-{number:06d}",
        "object": "chat.completion",
        "created": 1_793_600_000 + number,
        "model": model,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {
            "prompt_tokens": usage.input_tokens,
            "completion_tokens": usage.output_tokens,
            "total_tokens": usage.input_tokens + usage.output_tokens,
            "prompt_tokens_details": {"cached_tokens": usage.cache_read_tokens},
        },
    }


def state_fact(ledger: Any, message: holdfast.Message, fact: dict[str, Any]) -> None:
    """A fact that a message states, with the message as its origin."""
    options = {name: value for name, value in fact.items() if name not in ("key", "value")}
    ledger.set(fact["key"], fact["value"], provenance=f"m{message.seq}", **options)


# The stories


def write_earlier_sessions(engine: holdfast.Engine, clock: DeskClock) -> None:
    """Two trips that ended: what is said there is in the long-term memory of the traveller."""
    for name, messages in desk.EARLIER.items():
        session = engine.create_session(name, user=USER, identity=MAYA, memory=True)
        for role, text in messages:
            if role == "user":
                session.observe(text)
            else:
                session.record("assistant", text)
            clock.wait(50)
        session.end("the trip is over")
        clock.wait(86_400)
    engine.memory.deliver()


def write_company(engine: holdfast.Engine, clock: DeskClock) -> None:
    """The ledgers of the company and of the traveller, before the trip."""
    company = engine.ledger(organization="northwind")
    company.set("hotel_limit", "150 euros a night", authority="policy", source="handbook 2025", is_constraint=True)
    clock.wait(60)
    company.set(
        "hotel_limit",
        "180 euros a night",
        authority="policy",
        source="handbook 2026",
        is_constraint=True,
        constraint_type="budget",
        reason="The board raised it for 2026.",
    )
    company.set("invoice_address", "Northwind AB, Sveavägen 44, Stockholm", authority="manager", source="billing")
    maya = engine.ledger(user=USER)
    maya.set("passport_number", SECRET, requires=["passport"], source="profile")
    maya.set(
        "airport_lounge",
        "gold card until 3 November",
        expires_at_us=int(START.timestamp()) * 1_000_000 + 86_400_000_000,
    )
    maya.set("phone", "+46 70 123 45 67", source="profile")


def write_trip(engine: holdfast.Engine, clock: DeskClock, cache: PromptCache) -> Session:
    """The trip: about forty turns over ten days, two models, and every cause that costs a prompt cache."""
    company = engine.ledger(organization="northwind")
    session = engine.create_session(
        TRIP, user=USER, identity=MAYA, memory=True, ledgers=[engine.ledger(user=USER).id, company.id]
    )
    agent = Desk(session, clock, cache)
    session.environment.set("timezone", "Europe/Stockholm")
    session.environment.set("exchange_rate", {"EUR/SEK": 11.08}, ttl_s=3_600)
    for turn in desk.FIRST_DAY:
        agent.run_turn(turn)
    write_parts(engine, session, agent)
    facts = session.facts
    facts.set("per_night", "128 euros", depends_on="hotel", source="check_rate")
    facts.set("total_cost", "3 nights, 384 euros", depends_on="per_night", source="desk", authority="agent")
    session.working.set("open_points", ["seat on TP782", "name on the invoice"])
    session.working.set("draft_mail", {"to": "forum@example.com", "subject": "Arrival"}, ttl_s=7_200)
    session.situation.update(
        {
            "goal": "Plan Maya's trip to the Web Forum.",
            "progress": "Flights and hotel are chosen, nothing is paid.",
            "next_focus": "Confirm the dates.",
        }
    )
    for turn in desk.SECOND_DAY:
        agent.run_turn(turn)
    write_changes(engine, session, agent)
    write_frames(session, agent, clock)
    clock.until(datetime(2026, 11, 7, 10, 0, tzinfo=UTC))
    for number, turn in enumerate(desk.WEEKEND):
        agent.brief = desk.WEEKEND_BRIEF if number >= 2 else desk.BRIEF  # someone edits the prompt meanwhile
        agent.run_turn(turn)
    agent.brief = desk.BRIEF
    clock.until(datetime(2026, 11, 14, 8, 30, tzinfo=UTC))
    for number, turn in enumerate(desk.LAST_DAY):
        agent.run_turn(turn)
        if number == 1:
            withdraw_reply(session, agent, clock)
    return session


def write_parts(engine: holdfast.Engine, session: Session, agent: Desk) -> None:
    """A message with a picture and a file."""
    badge = engine.blobs.put(desk.draw_png(), media_type="image/png")
    letter = engine.blobs.put(desk.write_pdf(), media_type="application/pdf")
    parts: list[Any] = [
        Text("Here is the letter of the forum and a photo of my badge."),
        Image(badge),
        File(letter, "invitation.pdf"),
    ]
    agent.clock.wait(45)
    with session.turn(owner="desk-worker-1", lease_s=3_600) as taken:
        taken.record("user", parts)
        agent.run_step(taken, "Thank you, I keep the letter and the photo with your trip.")


def write_changes(engine: holdfast.Engine, session: Session, agent: Desk) -> None:
    """A claim, a dispute, a proposal, a retraction, an expiry, and facts that need a review."""
    company = engine.ledger(organization="northwind").id
    jonas = engine.ledger(company, identity=Identity(user_name="Jonas Berg", user_id="jonas", authority="guest"))
    jonas.set("hotel_limit", "220 euros a night", source="a remark in the kitchen")
    jonas.retract("invoice_address", reason="I think that we have moved.")
    agent.clock.wait(30)
    session.facts.retract("airport_transfer", reason="She takes the train from Lisbon.")
    session.observe("My phone may be +46 70 765 43 21 from Monday on.")
    agent.run_step(session, "I ask before I change it.")
    engine.ledger(user=USER).review.expire("airport_lounge", reason="The card was valid until 3 November.")


def write_frames(session: Session, agent: Desk, clock: DeskClock) -> None:
    """Frames: one done with a child, one overdrawn, one that waits for a manager, and one that a crash left."""
    with session.frame("Compare three hotels by the river", budget=30_000) as compare:
        compare.record("user", "Compare Casa do Rio, Ribeira and Estrela.")
        agent.run_step(compare, "I compare them.", (desk.NEW_RATE,))
        with compare.frame("Read the reviews of Casa do Rio", budget=6_000) as reviews:
            reviews.record("user", "Sum up the newest reviews.")
            agent.run_step(reviews, "Guests like the view and the quiet rooms. Two mention a slow lift.")
        agent.run_step(compare, "Casa do Rio is the best of the three.")
        clock.wait(20)
    with session.frame("Check the invoice rules", budget=2_500) as rules:
        rules.record("user", "Which rules apply to an invoice that a conference pays?")
        agent.run_step(rules, "The invoice names the traveller and the event.")
        rules.budget.use(1_900)
    waiting = session.frame("Approve the night above 150 euros", budget=8_000)
    waiting.record("user", "Casa do Rio is 164 euros. Ask the manager.")
    agent.run_step(waiting, "I have written to the manager.")
    waiting.suspend("waits for the approval of the manager", resumable_by=["manager", "travel-office"])
    paying = session.frame("Book Casa do Rio", budget=20_000, inputs={"hotel": "Casa do Rio", "nights": 3})
    paying.record("user", "Book Casa do Rio for three nights.")
    paying.budget.reserve("the booking", 3_000)
    seats = paying.frame("Choose a room", budget=5_000)
    seats.record("user", "Away from the lift, please.")
    agent.run_step(seats, "Room 214 is at the end of the corridor.")
    pack = paying.pack(budget=BUDGET, brief=agent.brief, model=CLAUDE)
    usage = agent.cache.charge(pack, CLAUDE, 60)
    call = Call("book_hotel", {"hotel": "Casa do Rio", "nights": 3}, None)
    agent.replies += 1
    booked = paying.record(build_reply(CLAUDE, "I book it now.", (call,), usage, agent.replies))
    clock.wait(1)
    paying.start_call(booked.tool_calls[0])  # the process ends here: whether the room is paid is unknown


def withdraw_reply(session: Session, agent: Desk, clock: DeskClock) -> None:
    """A reply that is taken back, and asked again."""
    clock.wait(20)
    session.withdraw(reason="The traveller pressed stop.")
    agent.run_step(session, "Yes. Online check-in for TP781 opened at 06:00 this morning.", model=GPT)


def write_refund(engine: holdfast.Engine, clock: DeskClock) -> None:
    """A session whose process died while it paid, and that was taken over."""
    session = engine.create_session(REFUND, user=USER, identity=MAYA)
    session.record("user", "Please refund the ticket of last May, 64 euros.")
    reply = session.record(
        "assistant", "I pay it back.", tool_calls=[{"name": "refund", "args": {"ticket": "R-55", "euros": 64}}]
    )
    session.start_call(reply.tool_calls[0])
    clock.wait(900)
    session.recover()


def write_others(engine: holdfast.Engine, session: Session, clock: DeskClock) -> None:
    """A fork, an empty session, an odd name, entries of a framework, and another tenant."""
    hotel = next(message for message in session.messages(limit=500) if message.text == "Take Casa do Rio.")
    branch = session.fork(at=hotel.seq - 1, as_=FORK)
    branch.record("user", "What if I take the Ribeira?")
    branch.record("assistant", "The Ribeira is 118 euros a night, and 400 metres from the river.")
    branch.facts.set("hotel", "Ribeira", reason="cheaper")
    branch.facts.merge(session)  # a proposal that waits for a decision
    engine.create_session(EMPTY, user=USER)
    odd = engine.create_session(desk.ODD_NAME, user=USER)
    odd.record("user", "A session can have any name.")
    odd.record("assistant", "So it seems.")
    odd.entries.append("checkpoint", "step-1", {"node": "plan", "state": {"city": "Lisbon", "nights": 3}})
    odd.entries.append(
        "checkpoint", "step-2", {"node": "book", "state": {"city": "Porto", "nights": 3}}, parent="step-1"
    )
    other = engine.acting_as(tenant=OTHER_TENANT)
    theirs = other.create_session("ticket-1", user="ola")
    theirs.record("user", "The printer on floor 3 is out of paper.")
    theirs.record("assistant", "I have told the service desk.")
    clock.wait(5)


def write_large(engine: holdfast.Engine, messages: int, session: str = "") -> None:
    """A session of so many messages, each with its number."""
    long = engine.create_session(session or f"large-{messages}", user="lin")
    for first in range(0, messages, BATCH):
        long.record_all(desk.large_messages(min(BATCH, messages - first), first))


def build_sample(path: str | os.PathLike[str], *, large: int = 0) -> None:
    """Write the sample store to a file that does not exist yet; with `large`, one more session of so many messages."""
    with open_desk(path) as (engine, clock):
        write_earlier_sessions(engine, clock)
        write_company(engine, clock)
        clock.until(START)
        session = write_trip(engine, clock, PromptCache(clock))
        write_refund(engine, clock)
        write_others(engine, session, clock)
        if large:
            write_large(engine, large)


def build_large(path: str | os.PathLike[str], sizes: Sequence[int]) -> None:
    """Write a store of sessions with so many messages each: `large-<messages>`."""
    with open_desk(path) as (engine, _clock):
        for size in sizes:
            write_large(engine, size)


@contextmanager
def open_desk(path: str | os.PathLike[str]) -> Iterator[tuple[holdfast.Engine, DeskClock]]:
    """An engine with the clock and the ids of the sample."""
    clock = DeskClock(START - timedelta(days=160))
    with holdfast.open(path, clock=clock, ids=CountingIds(), briefs={"": desk.BRIEF}) as engine:
        yield engine, clock


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="tests.inspector.sample", description="Write the sample store of the inspector."
    )
    parser.add_argument("file")
    parser.add_argument("--large", type=int, default=0, metavar="N", help="one more session, with N messages")
    arguments = parser.parse_args()
    build_sample(arguments.file, large=arguments.large)
    print(f"{arguments.file}: sessions {TRIP}, {REFUND}, {FORK}, {EMPTY} and others; tenant {OTHER_TENANT}")


if __name__ == "__main__":
    main()
