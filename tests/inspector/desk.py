"""The words of the sample store: a travel desk, one traveller, and what is said and done in her trip. Data only."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import holdfast

CLAUDE, GPT = "claude-sonnet-5", "gpt-6.1-terra"
NOTES = "Maya's flight and hotel are on one invoice. The conference pays the invoice."


class Call(NamedTuple):
    """A tool call of the model, and what the tool does: it returns `result`, or it raises it."""

    name: str
    args: dict[str, Any]
    result: Any


class Step(NamedTuple):
    """One reply of the model."""

    text: str
    calls: tuple[Call, ...] = ()


class Turn(NamedTuple):
    """What the traveller writes, and the replies up to the answer."""

    text: str
    steps: tuple[Step, ...]
    pause_s: int = 40
    """How long the desk waits for the message after the answer before."""
    model: str = CLAUDE
    fact: dict[str, Any] | None = None
    """A fact of the session that the message states."""
    user_fact: dict[str, Any] | None = None
    """A fact of the traveller that the message states."""
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed
    """Options of the packs of the turn."""


def say(text: str, answer: str, **rest: Any) -> Turn:
    """A turn without tools."""
    return Turn(text, (Step(answer),), **rest)


def find_flights(route: str, count: int) -> list[dict[str, Any]]:
    """Flights as the airline's system lists them: a long JSON list."""
    lines = ("TP781", "SK1487", "D85641", "LH805", "KL1108", "AF1263", "BA777")
    return [
        {
            "flight": lines[number % 7],
            "route": route,
            "departs": f"2026-11-{16 + number % 4}T{6 + number % 15:02d}:{number * 5 % 60:02d}",
            "stops": number % 3,
            "fare_eur": 118 + number * 37 % 310,
            "seats_left": number * 7 % 23,
            "bags": {"cabin": 1, "hold": number % 2},
        }
        for number in range(count)
    ]


def list_hotels(city: str, count: int) -> str:
    """Hotels as a long text: more than a pack shows."""
    names = ("Avenida", "Casa do Rio", "Mirador", "Estrela", "Bairro", "Ribeira", "Atlantico", "Aurora")
    return "".join(
        f"{number + 1:>4}  Hotel {names[number % 8]} {city} {number // 8 + 1}, {92 + number * 13 % 140} euros a night, "
        f"{number % 5 + 1} km from the centre, breakfast {'included' if number % 2 else '14 euros'}, "
        f"rating {6 + number * 7 % 40 / 10:.1f}\n"
        for number in range(count)
    )


def build_tool(name: str, description: str, **parameters: str) -> holdfast.Tool:
    schema = {
        "type": "object",
        "properties": {parameter: {"type": kind} for parameter, kind in parameters.items()},
        "required": list(parameters),
    }
    return holdfast.Tool(name=name, description=description, parameters=schema)


TOOLS = (
    build_tool("search_flights", "Search flights by route and day.", route="string", day="string"),
    build_tool("search_hotels", "List the hotels of a city.", city="string"),
    build_tool("check_rate", "Read the current rate of one hotel.", hotel="string"),
    build_tool("book_hotel", "Book a hotel. It is paid at once.", hotel="string", nights="integer"),
    build_tool("train_times", "Read the timetable of a railway line.", line="string", day="string"),
    build_tool("send_itinerary", "Send the itinerary to the traveller.", to="string"),
)
BRIEF = holdfast.Brief(
    prompt="You are the travel desk of Northwind. Answer in one or two sentences. Name prices in euros.",
    invariants=("Never book above the hotel limit.", "Read the current rate before you name one."),
    working_context="The desk books flights, trains and hotels for employees. Travellers write by chat.",
    tools=TOOLS,
)
WEEKEND_BRIEF = holdfast.Brief(
    prompt=BRIEF.prompt + " On weekends, say that the office answers on Monday.",
    invariants=BRIEF.invariants,
    working_context=BRIEF.working_context,
    tools=TOOLS,
)

FLIGHTS = Call("search_flights", {"route": "ARN-LIS", "day": "2026-11-16"}, find_flights("ARN-LIS", 160))
HOTELS = Call("search_hotels", {"city": "Lisbon"}, list_hotels("Lisbon", 260))
RATE = Call(
    "check_rate", {"hotel": "Avenida"}, {"hotel": "Hotel Avenida", "rate_eur": 128, "free": 4, "refundable": True}
)
NEW_RATE = Call("check_rate", {"hotel": "Casa do Rio"}, {"hotel": "Casa do Rio", "rate_eur": 164, "free": 1})
TRAIN = Call(
    "train_times",
    {"line": "Lisbon-Porto", "day": "2026-11-18"},
    {
        "line": "Lisbon-Porto",
        "trains": [{"leaves": f"{hour:02d}:39", "arrives": f"{hour + 3:02d}:23"} for hour in range(7, 20)],
    },
)
BROKEN = Call(
    "send_itinerary", {"to": "maya.lindqvist@example.com"}, TimeoutError("the mail server did not answer in 30 s")
)
SENT = Call("send_itinerary", {"to": "maya.lindqvist@example.com"}, {"sent": True, "id": "mail-20261104-17"})

FIRST_DAY = (
    Turn(
        "Hello, I need a trip to Lisbon for the Web Forum, 16 to 19 November. I leave from Stockholm.",
        (
            Step("I look for flights and hotels.", (FLIGHTS, HOTELS)),
            Step("The direct flight TP781 on the 16th is 118 euros. Shall I look at one of the hotels more closely?"),
        ),
        fact={"key": "destination", "value": "Lisbon"},
    ),
    say(
        "Take TP781. I want an aisle seat, as always.",
        "I have noted TP781 with an aisle seat.",
        user_fact={"key": "seat_preference", "value": "aisle"},
    ),
    Turn(
        "Is the Hotel Avenida free?",
        (Step("I read the rate.", (RATE,)), Step("Yes. The Hotel Avenida is 128 euros a night, and refundable.")),
    ),
    say(
        "Good, put me into the Hotel Avenida.",
        "The Hotel Avenida is on your plan, at 128 euros a night.",
        fact={"key": "hotel", "value": "Hotel Avenida"},
    ),
    say("Does it have breakfast?", "Breakfast is 14 euros a day there."),
    say(
        "I am vegetarian, please tell them.",
        "I have told the hotel that you are vegetarian.",
        user_fact={"key": "diet", "value": "vegetarian"},
    ),
    say("How far is it to the venue?", "About 2 km. The red metro line takes eleven minutes."),
    say("What does the flight back cost?", "TP782 on the 19th is 155 euros. It lands in Stockholm at 22:40."),
    say("Take it.", "TP782 is on your plan, with an aisle seat.", fact={"key": "return_flight", "value": "TP782"}),
    say(
        "Please also think of a taxi from the airport.",
        "A taxi to the hotel takes 25 minutes. I have put 20 euros into the plan.",
        fact={"key": "airport_transfer", "value": "taxi, 20 euros"},
    ),
    say("Who pays the invoice?", "The conference does. You pay nothing at the desk of the hotel."),
)
SECOND_DAY = (
    say("Good morning. Is all of this booked?", "It is planned. I book it when you confirm the dates.", pause_s=72_000),
    say(
        "The forum has moved: it is in Porto now, same days.",
        "Thank you, the trip goes to Porto now. The Hotel Avenida is in Lisbon: I look for another one.",
        fact={"key": "destination", "value": "Porto", "reason": "The organizers moved the forum."},
    ),
    Turn(
        "Then please find me a hotel near the river.",
        (
            Step("I look in Porto.", (Call("search_hotels", {"city": "Porto"}, list_hotels("Porto", 240)),)),
            Step("I read the rate of the first one.", (NEW_RATE,)),
            Step("Casa do Rio is by the river, 164 euros a night. One room is left."),
        ),
    ),
    say(
        "Take Casa do Rio.",
        "Casa do Rio is on your plan instead, at 164 euros a night.",
        fact={"key": "hotel", "value": "Casa do Rio"},
    ),
    Turn(
        "And how do I get from Lisbon to Porto?",
        (
            Step("I read the timetable.", (TRAIN,)),
            Step("Trains leave each hour at 39 minutes past, and take 2 hours 44 minutes."),
        ),
    ),
    say("The one at 11:39 is fine.", "Noted: the train at 11:39.", fact={"key": "train", "value": "11:39"}),
    say("Does the train have wifi?", "Yes, in both classes."),
    Turn(
        "Send me the itinerary, please.",
        (
            Step("I send it.", (BROKEN,)),
            Step("The mail server did not answer. I try once more.", (SENT,)),
            Step("It is on its way to maya.lindqvist@example.com."),
        ),
    ),
    say("Got it, thank you.", "You are welcome."),
    say("Can you tell me what the weather is like there?", "In November it rains often, at 12 to 17 degrees."),
    say("Do I need a visa?", "No. A Swedish passport is enough for Portugal."),
)
WEEKEND = (
    say("It is Saturday, is anyone there?", "I am. For changes to the invoice, the office answers on Monday."),
    say("Only one thing: is the room for one person?", "Yes, one person for three nights."),
    say("Could my colleague Jonas take it if I fall ill?", "Yes. The name can be changed until the 14th."),
    say("And the train?", "The ticket is not personal. He can use it."),
    say("Perfect. Have a nice weekend.", "You too."),
)
LAST_DAY = (
    say("Good morning! I am packing.", "Good morning. Your flight TP781 leaves on the 16th at 06:00.", model=GPT),
    say("Can I check in already?", "Yes. Online check-in opened this morning.", model=GPT),
    say("What do I tell the taxi driver at the station in Porto?", "Ask for the Rua da Alfandega.", model=GPT),
    say(
        "Remind me: which hotel am I in, and what does it cost a night?",
        "You are in the Hotel Avenida, at 128 euros a night.",
        model=GPT,
        options={"guard": "off"},
    ),
    say(
        "No! I moved to the Casa do Rio days ago. Why do you say Avenida?",
        "You are right, and I am sorry. You are in the Casa do Rio, at 164 euros a night.",
        model=GPT,
    ),
    say("Are you sure now?", "Yes. Casa do Rio, three nights, 164 euros each.", model=GPT),
    say(
        "And the limit of the company?",
        "It is 180 euros a night. You are below it.",
        model=GPT,
        options={"budget": 2_600},
    ),
    say("How early do I have to be at the airport?", "Two hours before: at 04:00 on the 16th.", model=GPT),
    say(
        "That is brutal.",
        "It is. The next direct flight is at noon, for 266 euros.",
        model=GPT,
        options={"profile": "high_stakes"},
    ),
    say("No, I keep it.", "Good. TP781 at 06:00 it is.", model=GPT),
    say(
        "Do you have the letter of the forum that I sent?",
        "Yes, the file invitation.pdf and the photo of your badge.",
        model=GPT,
    ),
    say("Then all is done.", "All is done. Have a good trip, Maya.", model=GPT),
)
EARLIER = {
    "trip-2025-rome": (
        ("user", "I need three nights in Rome in May."),
        ("assistant", "The Hotel Forum has a quiet room for 140 euros a night."),
        ("user", "Quiet is what I need: I sleep badly next to a lift. And I never eat nuts, I am allergic."),
        ("assistant", "I have asked for a room away from the lift, and told them of the allergy to nuts."),
        ("user", "My office address is Kungsgatan 12, Stockholm."),
        ("assistant", "Thank you, the invoice goes to Kungsgatan 12."),
    ),
    "trip-2026-oslo": (
        ("user", "Please book the night train to Oslo. I get sick on small planes."),
        ("assistant", "The night train leaves at 23:07. You have a compartment of your own."),
        ("user", "In Oslo I liked the hotel by the river, the one with the late breakfast."),
        ("assistant", "That is the Grims Grenka. I keep it in mind."),
        ("user", "My office address is now Sveavägen 44, Stockholm."),
        ("assistant", "I have changed the address for invoices to Sveavägen 44."),
    ),
}
ODD_NAME = 'a/b "quoted" <b>&amp;</b> 100% ?#\' ✈ رحلة إلى لشبونة'


def draw_png(width: int = 96, height: int = 60) -> bytes:
    """A small picture: a badge with a stripe."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    rows = b"".join(
        b"\0" + b"".join(bytes((20, 90, 140) if y < 14 else (240, 240 - x, 200 + x % 50)) for x in range(width))
        for y in range(height)
    )
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def write_pdf() -> bytes:
    """A letter of one line: small, and valid enough to be a file."""
    return (
        b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[]/Count 0>>endobj\n"
        b"trailer<</Root 1 0 R>>\n%%EOF\n"
    )


def large_messages(count: int, first: int = 0) -> Sequence[tuple[str, str]]:
    """Messages of a long conversation: each says its number, so that a test knows what it sees."""
    return [
        ("user", f"Question {number}: where is parcel {number * 7}?")
        if number % 2 == 0
        else ("assistant", f"Answer {number}: parcel {(number - 1) * 7} is at depot {number % 97}.")
        for number in range(first, first + count)
    ]
