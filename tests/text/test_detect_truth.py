"""What people say, by kind, and what may come of it: a change, at most a question, or nothing.

A wrong change is worse than a missed one, so each kind has several wordings of both sides.
"""

from __future__ import annotations

from typing import TypeAlias

import pytest

from holdfast.model.content import Json
from holdfast.model.facts.detection import FactCandidate, Observation, Utterance
from holdfast.text.detect.detector import RuleDetector

APPLIED, ASKED = 0.8, 0.5


NOW_US = 1_740_992_400_000_000
"""3 March 2025."""


Facts: TypeAlias = dict[str, Json]


Before: TypeAlias = tuple[str, ...]


def proposed(text: str, facts: Facts, before: Before = ()) -> dict[str, tuple[Json, float]]:
    """The value proposed for each fact, with how sure that is. Of the messages before, those with `>` are the
    assistant's."""
    observation = Observation(
        message=Utterance(text),
        previous=tuple(
            Utterance(each.removeprefix(">"), "assistant" if each.startswith(">") else "user", seq)
            for seq, each in enumerate(before, 1)
        ),
        facts=tuple(
            FactCandidate(fact=key, key=key, value=value, text=str(value), since_us=NOW_US - 1)
            for key, value in facts.items()
        ),
        now_us=NOW_US,
    )
    found = RuleDetector().detect(observation)
    return {
        each.key: (each.value, each.confidence) for each in found if each.fact is not None and each.change != "expire"
    }


STATED: list[tuple[str, Facts, Facts]] = [
    # plain statements
    ("My phone number is 020 7946 0321.", {"phone number": "020 7946 0555"}, {"phone number": "020 7946 0321"}),
    (
        "my email address is kim.o-neil+shop@post.example.org",
        {"email": "kim@old.example"},
        {"email": "kim.o-neil+shop@post.example.org"},
    ),
    (
        "Our website is https://www.holm.example/en.",
        {"website": "https://holm.example"},
        {"website": "https://www.holm.example/en"},
    ),
    (
        "My IBAN is GB29 NWBK 6016 1331 9268 19.",
        {"iban": "GB94 BARC 1020 1530 0934 59"},
        {"iban": "GB29 NWBK 6016 1331 9268 19"},
    ),
    ("The rent is 1,310 euros.", {"rent": "1,250 euros"}, {"rent": "1,310 euros"}),
    ("My flight is LH 2034.", {"flight": "BA 117"}, {"flight": "LH 2034"}),
    ("The wedding is on 14 June.", {"wedding": "7 June"}, {"wedding": "14 June"}),
    ("My favourite colour is teal.", {"favorite color": "green"}, {"favorite color": "teal"}),
    ("Our dentist is Dr Okafor.", {"dentist": "Dr Lund"}, {"dentist": "Dr Okafor"}),
    ("The meeting room is Juniper.", {"meeting room": "Aspen"}, {"meeting room": "Juniper"}),
    ("My t-shirt size is XL.", {"t-shirt size": "L"}, {"t-shirt size": "XL"}),
    ("The server's IP is 10.0.4.17", {"server ip": "10.0.4.16"}, {"server ip": "10.0.4.17"}),
    ("Party size is 6", {"party size": 4}, {"party size": 6}),
    # whole values
    (
        "My address is Flat 3, 22 Quarry Road, Sheffield S11 8RT.",
        {"address": "9 Vale Close, Sheffield"},
        {"address": "Flat 3, 22 Quarry Road, Sheffield S11 8RT"},
    ),
    (
        "Our office address is Lindenallee 40, 20259 Hamburg.",
        {"office address": "Elbchaussee 2, 22765 Hamburg"},
        {"office address": "Lindenallee 40, 20259 Hamburg"},
    ),
    (
        "the delivery address is 4 rowan terrace, york yo10 3dp",
        {"delivery address": "19 Mill Lane, York"},
        {"delivery address": "4 rowan terrace, york yo10 3dp"},
    ),
    (
        "My address is 1600 Pine Ave Apt 4B, Tucson, AZ 85701",
        {"address": "12 Cactus Rd, Tucson"},
        {"address": "1600 Pine Ave Apt 4B, Tucson, AZ 85701"},
    ),
    # with a word that says so
    ("The deadline is now 30 April.", {"deadline": "15 April"}, {"deadline": "30 April"}),
    ("From now on my working hours are 8-16.", {"working hours": "9-17"}, {"working hours": "8-16"}),
    ("FYI the standup has moved to 09:45.", {"standup": "09:30"}, {"standup": "09:45"}),
    ("The launch was pushed back to 3 September.", {"launch": "20 August"}, {"launch": "3 September"}),
    ("The fee went up from 20 euros to 25 euros.", {"fee": "20 euros"}, {"fee": "25 euros"}),
    (
        "They raised my credit limit to 4,000 pounds.",
        {"credit limit": "3,000 pounds"},
        {"credit limit": "4,000 pounds"},
    ),
    ("New phone number: 0151 555 0188", {"phone number": "0151 555 0100"}, {"phone number": "0151 555 0188"}),
    # instructions
    ("Set the thermostat to 21 degrees please", {"thermostat": "19 degrees"}, {"thermostat": "21 degrees"}),
    ("Change my seat to 14C.", {"seat": "22A"}, {"seat": "14C"}),
    (
        "please update my job title to Head of Growth",
        {"job title": "Marketing Manager"},
        {"job title": "Head of Growth"},
    ),
    (
        "Could you move the dentist appointment to Monday at 4pm?",
        {"dentist appointment": "Friday at 2pm"},
        {"dentist appointment": "Monday at 4pm"},
    ),
    ("Can you switch the language to Portuguese?", {"language": "English"}, {"language": "Portuguese"}),
    ("Would you mind changing the pickup time to 6:15 pm?", {"pickup time": "5:30 pm"}, {"pickup time": "6:15 pm"}),
    ("Let's make the dinner 8pm", {"dinner": "7pm"}, {"dinner": "8pm"}),
    ("I want the status to be closed", {"status": "open"}, {"status": "closed"}),
    (
        "Use ops@harbor.example as the contact email.",
        {"contact email": "info@harbor.example"},
        {"contact email": "ops@harbor.example"},
    ),
    ("Make Farah the project lead.", {"project lead": "Jonas"}, {"project lead": "Farah"}),
    ("I'd like to change my delivery day to Saturday.", {"delivery day": "Thursday"}, {"delivery day": "Saturday"}),
    ("Reschedule the interview for Tuesday 11:00.", {"interview": "Monday 15:00"}, {"interview": "Tuesday 11:00"}),
    # slips of the pen
    ("pls udpate my adress to 7 Birch Lane", {"address": "3 Oak Street"}, {"address": "7 Birch Lane"}),
    ("the meetting is now on wednesday", {"meeting": "Tuesday"}, {"meeting": "wednesday"}),
    ("can u chnage the dealine to 12 may", {"deadline": "5 May"}, {"deadline": "12 may"}),
    # forms of numbers and times
    ("The discount is twelve percent now.", {"discount": "8%"}, {"discount": "twelve percent"}),
    ("The call is at quarter past four.", {"call": "15:30"}, {"call": "quarter past four"}),
    ("My salary is now $71k.", {"salary": "$64,000"}, {"salary": "$71k"}),
    # corrections
    ("It's Thompson, not Thomson.", {"surname": "Thomson"}, {"surname": "Thompson"}),
    ("No, the gate is C22, not C12.", {"gate": "C12"}, {"gate": "C22"}),
    ("We use Terraform instead of Pulumi.", {"iac tool": "Pulumi"}, {"iac tool": "Terraform"}),
    ("Replace Monday with Wednesday.", {"pickup day": "Monday"}, {"pickup day": "Wednesday"}),
    ("We moved the review from Tuesday to Thursday.", {"review": "Tuesday"}, {"review": "Thursday"}),
    (
        "The address should be 18 Elm Row, you mixed up the numbers.",
        {"address": "81 Elm Row"},
        {"address": "18 Elm Row"},
    ),
    # the past, and what is so since
    ("I used to work for Acme. My employer is Globex now.", {"employer": "Acme"}, {"employer": "Globex"}),
    ("Since January our rent is 980.", {"rent": "940"}, {"rent": "980"}),
    # several, and a request beside
    (
        "My new number is 0160 555 777 and my email is now jo@fern.example, please confirm.",
        {"phone number": "0160 555 111", "email": "jo@moss.example"},
        {"phone number": "0160 555 777", "email": "jo@fern.example"},
    ),
    ("Set the theme to dark and the language to French.", {"theme": "light", "language": "German"}, {"theme": "dark"}),
    (
        "Hi there! The workshop is now on 21 March because the trainer is ill. Can you tell everybody, and find a room?",
        {"workshop": "14 March"},
        {"workshop": "21 March"},
    ),
    (
        "Please change the guest count to 45 and ask the caterer what that costs.",
        {"guest count": 40},
        {"guest count": 45},
    ),
    # told by who has the say
    ("The hotel wrote to me: check-in is now at 16:00.", {"check-in": "15:00"}, {"check-in": "16:00"}),
    (
        "HR confirmed that my vacation allowance is 28 days.",
        {"vacation allowance": "25 days"},
        {"vacation allowance": "28 days"},
    ),
    # of themselves, without the key
    ("We moved to 61 Castle Street, Dover.", {"address": "2 Port Road, Dover"}, {"address": "61 Castle Street, Dover"}),
    ("I live in Utrecht now.", {"home city": "Delft"}, {"home city": "Utrecht"}),
    ("I work for Nordwind now.", {"employer": "Acme"}, {"employer": "Nordwind"}),
    ("You can reach me at 0170 555 919.", {"phone": "0170 555 818"}, {"phone": "0170 555 919"}),
    ("Please call me Sasha.", {"name": "Alexandra"}, {"name": "Sasha"}),
    ("We got divorced last spring.", {"marital status": "married"}, {"marital status": "divorced"}),
    ("I changed my email, it's pia@birch.example now.", {"email": "pia@oak.example"}, {"email": "pia@birch.example"}),
    # parts
    (
        "The street number is wrong in my address, it's 31, not 13.",
        {"address": "13 Hill Road, Leeds"},
        {"address": "31 Hill Road, Leeds"},
    ),
    ("Make the call 4pm", {"call": "Tuesday at 2pm"}, {"call": "Tuesday at 4pm"}),
    ("Please move the cleaning slot to 14-16.", {"cleaning slot": "Friday 9-11"}, {"cleaning slot": "Friday 14-16"}),
    # more wordings
    ("heya, my postcode changed, it's LS6 2AB now", {"postcode": "LS1 4AP"}, {"postcode": "LS6 2AB"}),
    ("Our wifi password is now tango-44-delta.", {"wifi password": "korall77"}, {"wifi password": "tango-44-delta"}),
    (
        "Please note that the invoice number is INV-2093.",
        {"invoice number": "INV-2039"},
        {"invoice number": "INV-2093"},
    ),
    ("The car is a Skoda Octavia now.", {"car": "VW Polo"}, {"car": "Skoda Octavia"}),
    ("My shoe size is 43.", {"shoe size": "42"}, {"shoe size": "43"}),
    ("can we push the standup to 10:15?", {"standup": "9:30"}, {"standup": "10:15"}),
    ("Correction: the venue is Lakeside Hall.", {"venue": "Town Hall"}, {"venue": "Lakeside Hall"}),
    ("i've changed my mind, set the alarm for 6:45", {"alarm": "7:00"}, {"alarm": "6:45"}),
    ("Bump the priority to high please.", {"priority": "medium"}, {"priority": "high"}),
    ("Our new accountant is Petra Holm.", {"accountant": "Lars Berg"}, {"accountant": "Petra Holm"}),
    ("My dog's name is Biscuit, not Bisquit.", {"dog name": "Bisquit"}, {"dog name": "Biscuit"}),
    ("The conference has been moved to Lyon.", {"conference": "Paris"}, {"conference": "Lyon"}),
    ("I've switched to the Family plan.", {"plan": "Solo"}, {"plan": "Family"}),
    ("Sprint length is three weeks from now on.", {"sprint length": "two weeks"}, {"sprint length": "three weeks"}),
    ("Set max retries to 5", {"max retries": 3}, {"max retries": 5}),
    (
        "the API base url is https://api.v2.orb.example/rest now",
        {"api base url": "https://api.orb.example"},
        {"api base url": "https://api.v2.orb.example/rest"},
    ),
    ("We decided: the release date is 9 October.", {"release date": "2 October"}, {"release date": "9 October"}),
    ("My weight is 81 kg.", {"weight": "84 kg"}, {"weight": "81 kg"}),
    ("Put the thermostat down to 18.", {"thermostat": 20}, {"thermostat": 18}),
    ("On second thought, make the pickup 5 pm.", {"pickup": "4 pm"}, {"pickup": "5 pm"}),
    ("You have my surname wrong: it's Nowak, not Novak.", {"surname": "Novak"}, {"surname": "Nowak"}),
    ("Sorry, I gave you the wrong date. The party is on 17 May.", {"party": "16 May"}, {"party": "17 May"}),
    ("Go back to Helvetica for the font.", {"font": "Inter"}, {"font": "Helvetica"}),
    ("Revert the theme to light.", {"theme": "dark"}, {"theme": "light"}),
    ("My landlord emailed: the rent is now 1,020 euros.", {"rent": "980 euros"}, {"rent": "1,020 euros"}),
    (
        "The clinic just called, my appointment has been moved to 11:20.",
        {"appointment": "10:40"},
        {"appointment": "11:20"},
    ),
    ("my timezone is Europe/Lisbon", {"timezone": "Europe/Berlin"}, {"timezone": "Europe/Lisbon"}),
    (
        "Our billing address is now 5 Station Approach, Guildford GU1 4UT, England.",
        {"billing address": "1 High St, Guildford"},
        {"billing address": "5 Station Approach, Guildford GU1 4UT, England"},
    ),
    ("It's no longer Friday, the demo is on Monday.", {"demo": "Friday"}, {"demo": "Monday"}),
    ("For the record, my middle name is Jude.", {"middle name": "Paul"}, {"middle name": "Jude"}),
    ("budget's 7,500 now", {"budget": "6,000"}, {"budget": "7,500"}),
    ("We'll be 9 people, so set the party size to 9.", {"party size": 7}, {"party size": 9}),
    ("My insurance number is AX-55102-9.", {"insurance number": "AX-55102-7"}, {"insurance number": "AX-55102-9"}),
    ("Mortgage rate is 3.9% as of today", {"mortgage rate": "4.1%"}, {"mortgage rate": "3.9%"}),
    ("Change delivery from Monday to Tuesday please", {"delivery": "Monday"}, {"delivery": "Tuesday"}),
    ("Amsterdam is our new headquarters.", {"headquarters": "Rotterdam"}, {"headquarters": "Amsterdam"}),
    ("Tea preference: green", {"tea preference": "black"}, {"tea preference": "green"}),
    ("Let's switch the cadence to biweekly.", {"cadence": "weekly"}, {"cadence": "biweekly"}),
    (
        "My passport number is C01X00T47 and it expires in 2031.",
        {"passport number": "C01X00T45"},
        {"passport number": "C01X00T47"},
    ),
    ("Would you set the volume to 40%?", {"volume": "60%"}, {"volume": "40%"}),
    (
        "Please correct my date of birth to 4 July 1988.",
        {"date of birth": "7 April 1988"},
        {"date of birth": "4 July 1988"},
    ),
    ("the max file size should be 50 MB", {"max file size": "20 MB"}, {"max file size": "50 MB"}),
    ("Rename the project to Nightjar.", {"project": "Kestrel"}, {"project": "Nightjar"}),
    (
        "Hi, could you change the return flight to Sunday 19:40? Thanks!",
        {"return flight": "Saturday 19:40"},
        {"return flight": "Sunday 19:40"},
    ),
    ("Upgrade my subscription to Gold.", {"subscription": "Silver"}, {"subscription": "Gold"}),
    ("We've postponed the audit until 3 November.", {"audit": "27 October"}, {"audit": "3 November"}),
    ("the train leaves at 8:12 now instead of 8:02", {"train": "8:02"}, {"train": "8:12"}),
    (
        "our standing order is 250 euros a month now",
        {"standing order": "200 euros a month"},
        {"standing order": "250 euros a month"},
    ),
    ("My coach is Ibrahim, no longer Kerstin.", {"coach": "Kerstin"}, {"coach": "Ibrahim"}),
    ("I go by Lexi.", {"name": "Alexandra"}, {"name": "Lexi"}),
    ("Reservation name is Okonkwo", {"reservation name": "Smith"}, {"reservation name": "Okonkwo"}),
    ("Just so you know, our vet is Dr Amari now.", {"vet": "Dr Pohl"}, {"vet": "Dr Amari"}),
    (
        "The school moved parents' evening to 6 November.",
        {"parents evening": "30 October"},
        {"parents evening": "6 November"},
    ),
    ("please set my daily step goal to 9,000", {"daily step goal": "8,000"}, {"daily step goal": "9,000"}),
    ("Our new slogan is Light Work.", {"slogan": "Hard Work"}, {"slogan": "Light Work"}),
    (
        "I've moved! New address: 3 Tannery Court, Northampton NN1 2LP",
        {"address": "8 Shoe Lane, Northampton"},
        {"address": "3 Tannery Court, Northampton NN1 2LP"},
    ),
    (
        "the landing page url should be https://go.tern.example/start",
        {"landing page url": "https://tern.example"},
        {"landing page url": "https://go.tern.example/start"},
    ),
    (
        "Can you put the haircut on Friday at 3:30 pm instead?",
        {"haircut": "Thursday at 3:30 pm"},
        {"haircut": "Friday at 3:30 pm"},
    ),
    ("My favourite team is Ajax these days.", {"favourite team": "Feyenoord"}, {"favourite team": "Ajax"}),
    ("The fine is 80 euros, not 60 euros.", {"fine": "60 euros"}, {"fine": "80 euros"}),
    ("switch the output format to yaml", {"output format": "json"}, {"output format": "yaml"}),
    ("Sorry, typo: my email is liv@reed.example", {"email": "lib@reed.example"}, {"email": "liv@reed.example"}),
    ("My son's school is Hillcrest now.", {"son school": "Westbrook"}, {"son school": "Hillcrest"}),
    ("Please raise the spending cap to $2,500.", {"spending cap": "$2,000"}, {"spending cap": "$2,500"}),
]


@pytest.mark.parametrize(("text", "facts", "wanted"), STATED, ids=[each[0] for each in STATED])
def test_what_is_stated_is_applied_whole(text: str, facts: Facts, wanted: Facts) -> None:
    found = proposed(text, facts)
    for key, value in wanted.items():
        assert key in found, found
        assert found[key][0] == value
        assert found[key][1] >= APPLIED
    assert {key for key, (_, sure) in found.items() if sure >= APPLIED} == {*wanted}


ENDED: list[tuple[str, Facts, str]] = [
    ("Cancel the gym membership.", {"gym membership": "Basic"}, "gym membership"),
    ("please cancel my dentist appointment, i'm ill", {"dentist appointment": "Friday at 2pm"}, "dentist appointment"),
    ("The team lunch is off.", {"team lunch": "Wednesday 12:30"}, "team lunch"),
    ("the barbecue has been called off", {"barbecue": "Saturday"}, "barbecue"),
    ("Our picnic is cancelled because of the rain.", {"picnic": "Sunday"}, "picnic"),
    ("I no longer have a landline.", {"landline": "030 555 1234"}, "landline"),
    ("we don't have a cleaner any more", {"cleaner": "Marta"}, "cleaner"),
    ("Scrap the second fitting.", {"second fitting": "3 May"}, "second fitting"),
    ("Could you delete my backup email?", {"backup email": "old@x.example"}, "backup email"),
    ("Drop the parking reservation, we take the train.", {"parking reservation": "P-4417"}, "parking reservation"),
    ("Forget the museum.", {"museum": "Prado"}, "museum"),
    ("Could you please remove my fax number, nobody uses it", {"fax number": "030 555 99"}, "fax number"),
    ("the yoga class got cancelled", {"yoga class": "Monday 18:00"}, "yoga class"),
    ("I don't need the rental car any more.", {"rental car": "Fiat 500"}, "rental car"),
    (
        "Please take me off the newsletter; delete my newsletter email.",
        {"newsletter email": "a@b.example"},
        "newsletter email",
    ),
    ("we're dropping the pottery class", {"pottery class": "Monday"}, "pottery class"),
]


@pytest.mark.parametrize(("text", "facts", "key"), ENDED, ids=[each[0] for each in ENDED])
def test_what_is_called_off_is_retracted(text: str, facts: Facts, key: str) -> None:
    found = proposed(text, facts)
    assert found.get(key, ("missing", 0))[0] is None
    assert found[key][1] >= APPLIED


ANSWERED: list[tuple[str, str, Facts, Facts]] = [
    (
        ">Shall I move the review to Friday 10:00?",
        "Yes please!",
        {"review": "Thursday 10:00"},
        {"review": "Friday 10:00"},
    ),
    (
        ">The Aster is full. Should I change the hotel to Casa Lima?",
        "yep, go ahead",
        {"hotel": "Aster"},
        {"hotel": "Casa Lima"},
    ),
    (">Do you want me to cancel the taxi?", "Yes, do that.", {"taxi": "17:30"}, {"taxi": None}),
    (">So your new address is 5 Kiln Road?", "Correct.", {"address": "9 Kiln Road"}, {"address": "5 Kiln Road"}),
    (
        ">Which day should the delivery day be?",
        "Saturday please",
        {"delivery day": "Thursday"},
        {"delivery day": "Saturday"},
    ),
    (
        ">Would you like to keep the window seat or have an aisle seat?",
        "aisle please",
        {"seat": "window"},
        {"seat": "aisle"},
    ),
    (">What should the title be?", "Make it Northern Lights", {"title": "Aurora"}, {"title": "Northern Lights"}),
    (">Your reservation is at 7 pm.", "Make it 8 pm instead.", {"reservation": "7 pm"}, {"reservation": "8 pm"}),
    (">The theme is dark now.", "change it back to light", {"theme": "dark"}, {"theme": "light"}),
]


@pytest.mark.parametrize(("before", "text", "facts", "wanted"), ANSWERED, ids=[each[1] for each in ANSWERED])
def test_an_answer_is_read_with_what_it_answers(before: str, text: str, facts: Facts, wanted: Facts) -> None:
    found = proposed(text, facts, (before,))
    assert {key: value for key, (value, sure) in found.items() if sure >= APPLIED} == wanted


NOTHING: dict[str, list[tuple[str, Facts]]] = {
    "questions": [
        ("Is my budget 800 euros?", {"budget": "600 euros"}),
        ("is the deadline friday", {"deadline": "Monday"}),
        ("Did you set my seat to 14C?", {"seat": "22A"}),
        ("Who changed the language to French?", {"language": "English"}),
        ("Should the launch be 1 May?", {"launch": "3 June"}),
        ("My flight is LH 2034, right?", {"flight": "BA 117"}),
        ("The meeting is on Friday, isn't it?", {"meeting": "Tuesday"}),
        ("Why is the price 59 euros?", {"price": "49 euros"}),
        ("Do you know if the gate is C22?", {"gate": "B12"}),
        ("Wasn't the rent 900?", {"rent": "850"}),
        ("Can you confirm that my address is 7 Birch Lane?", {"address": "3 Oak Street"}),
        ("I wonder whether the deadline is 12 May.", {"deadline": "5 May"}),
        ("Have you already moved the call to 4pm?", {"call": "2pm"}),
    ],
    "conditions": [
        ("If Ana agrees, move the call to 4pm.", {"call": "2pm"}),
        ("Move the call to 4pm if Ana agrees.", {"call": "2pm"}),
        ("Unless it rains the picnic is on Sunday.", {"picnic": "Saturday"}),
        ("Once the bank confirms, set the budget to 900 euros.", {"budget": "600 euros"}),
        ("Suppose the budget is 2,000 euros, what could we do?", {"budget": "600 euros"}),
        ("What if the launch moved to 1 May?", {"launch": "3 June"}),
        ("In case the flight is cancelled, change the hotel to Casa Lima.", {"hotel": "Aster"}),
        ("Imagine my salary is 90,000 a year.", {"salary": "52,000"}),
        ("The rent would be 1,000 with a garage.", {"rent": "850"}),
    ],
    "wishes": [
        ("I wish my salary was 90,000.", {"salary": "52,000"}),
        ("I'd love my car to be a Tesla.", {"car": "VW Polo"}),
        ("My dream house address would be 1 Beach Road.", {"address": "3 Oak Street"}),
        ("It would be nice if the meeting was on Friday.", {"meeting": "Tuesday"}),
        ("One day I will live in Rome.", {"home city": "Leeds"}),
    ],
    "negations": [
        ("Don't move the meeting to Friday.", {"meeting": "Tuesday"}),
        ("Please do not change my address to 7 Birch Lane.", {"address": "3 Oak Street"}),
        ("I never said the budget is 900 euros.", {"budget": "600 euros"}),
        ("There's no need to set the theme to dark.", {"theme": "light"}),
        ("The meeting isn't on Friday.", {"meeting": "Tuesday"}),
        ("Don't cancel the hotel.", {"hotel": "Aster"}),
        ("I almost cancelled the gym membership.", {"gym membership": "Basic"}),
        ("Keep my seat at 22A, not 14C.", {"seat": "22A"}),
        ("Leave the deadline on Monday.", {"deadline": "Friday"}),
        ("You shouldn't have changed the theme to dark.", {"theme": "light"}),
    ],
    "texts of others": [
        ('Translate "my address is 7 Birch Lane" into German.', {"address": "3 Oak Street"}),
        ("Write a mail to the team that the meeting is moved to Friday.", {"meeting": "Tuesday"}),
        ("Draft a reply saying: the price is 59 euros now.", {"price": "49 euros"}),
        ("Please proofread this: My job title is Head of Growth.", {"job title": "Analyst"}),
        ("The sign said 'the gate is C22'", {"gate": "B12"}),
        ("I got this text: Your password is changed to hunter2. Spam?", {"password": "korall77"}),
        ("```\nprice = 59\nset the price to 59 euros\n```\nWhy does this fail?", {"price": "49 euros"}),
        ("> the deadline is 12 May\nIs that from the old thread?", {"deadline": "5 May"}),
        ("Anna: the call is at 4pm\nBen: ok\nAnna: bring cake\n\nWhat did we agree on?", {"call": "2pm"}),
        ("From: Bank\nSubject: News\n\nYour new phone number is 0151 555 0188.", {"phone number": "0151 555 0100"}),
        ("Explain what `SET deadline = '2025-05-12' WHERE id = 3` does", {"deadline": "5 May"}),
        (
            "In my novel the hero's name is Ishmael and his address is 7 Birch Lane.",
            {"address": "3 Oak Street", "name": "Ada"},
        ),
    ],
    "reports": [
        ("My friend said the meeting is on Friday.", {"meeting": "Tuesday"}),
        ("Tom thinks my birthday is 1 June.", {"birthday": "14 April"}),
        ("My sister claims the deadline is 12 May.", {"deadline": "5 May"}),
        ("Some guy told me the gate is C22.", {"gate": "B12"}),
        ("Your colleague promised that my discount is 30%.", {"discount": "10%"}),
        ("Everyone says the price is 59 euros.", {"price": "49 euros"}),
        ("She insists that my name is Eva.", {"name": "Ada"}),
    ],
    "other owners": [
        ("The client's budget is 900 euros.", {"budget": "600 euros"}),
        ("My brother's address is 7 Birch Lane.", {"address": "3 Oak Street"}),
        ("my wifes phone number is 0151 555 0188", {"phone number": "0151 555 0100"}),
        ("His flight is LH 2034.", {"flight": "BA 117"}),
        ("Anna's deadline is 12 May, mine is earlier.", {"deadline": "5 May"}),
        ("Their rent is 990.", {"rent": "850"}),
        ("The salary of my colleague is 61,000.", {"salary": "52,000"}),
        ("My cousin lives in Rome now.", {"home city": "Leeds"}),
        ("What is your email? Mine bounces. Your name is Kai, I guess.", {"name": "Ada"}),
    ],
    "other things": [
        ("The guest wifi password is tulip22.", {"wifi password": "korall77"}),
        ("The Munich office is at 4 Isarweg.", {"office address": "1 King Street, London"}),
        ("My old address was 7 Birch Lane.", {"address": "3 Oak Street"}),
        ("My previous employer is Globex.", {"employer": "Acme"}),
        ("The marketing budget is 900 euros.", {"travel budget": "600 euros"}),
        ("The budget meeting is on Friday.", {"budget": "600 euros", "meeting": "Tuesday"}),
        ("The flight attendant is Maria.", {"flight": "BA 117"}),
        ("The car park costs 12 euros.", {"car": "VW Polo"}),
        ("The price of the deluxe version is 99 euros.", {"price": "49 euros"}),
        ("A hotel in Rome is 300 euros a night.", {"hotel": "Aster"}),
        ("Find me a flight to Madrid on Friday.", {"home city": "Leeds", "meeting": "Tuesday"}),
        ("Order 12 of the red cups.", {"party size": 4}),
    ],
    "the past": [
        ("In 2018 my salary was 38,000.", {"salary": "52,000"}),
        ("The meeting was on Friday last week.", {"meeting": "Tuesday"}),
        ("Back then my address was 7 Birch Lane.", {"address": "3 Oak Street"}),
        ("I used to live in Rome.", {"home city": "Leeds"}),
        ("When I was a student the rent was 300.", {"rent": "850"}),
    ],
    "for one time, task or test": [
        ("Just this once, send it to 7 Birch Lane.", {"shipping address": "3 Oak Street"}),
        ("For this exercise the budget is 9,000 euros.", {"budget": "600 euros"}),
        ("In the example the deadline is 12 May.", {"deadline": "5 May"}),
        ("I tested it locally with the timeout set to 5s.", {"timeout": "30s"}),
    ],
    "states": [
        ("My phone is broken.", {"phone": "0151 555 0100"}),
        ("The website is down again.", {"website": "https://holm.example"}),
        ("The hotel is amazing, thanks for the tip!", {"hotel": "Aster"}),
        ("My manager is on parental leave.", {"manager": "Nadia"}),
        ("the wifi is slow", {"wifi name": "Skynet"}),
        ("The meeting is too long.", {"meeting": "Tuesday"}),
        ("My email is full.", {"email": "kim@old.example"}),
        ("My name is hard to spell.", {"name": "Ada"}),
        ("The budget is tight.", {"budget": "600 euros"}),
        ("My address is fine as it is.", {"address": "3 Oak Street"}),
        ("My car is in the garage until Thursday.", {"car": "VW Polo"}),
        ("The deadline is getting closer.", {"deadline": "5 May"}),
        ("The flight is delayed by 2 hours.", {"flight": "BA 117"}),
        ("Our laptop is 3 years old.", {"laptop": "Dell XPS 13"}),
        ("My boss is Swedish.", {"boss": "Nadia"}),
        ("The hotel is 2 km away from the station.", {"hotel": "Aster"}),
    ],
    "irony": [
        ("yeah right, and my salary is a million dollars", {"salary": "52,000"}),
        ("Sure, and my name is Napoleon. lol", {"name": "Ada"}),
        ("The deadline is basically tomorrow, as usual.", {"deadline": "5 May"}),
        ("haha my address is 1 Couch Street these days", {"address": "3 Oak Street"}),
    ],
    "thanks and repetition": [
        ("Thanks, that's perfect!", {"meeting": "Tuesday"}),
        ("ok", {"deadline": "5 May"}),
        ("Great, see you on Friday!", {"meeting": "Tuesday"}),
        ("So the meeting is on Tuesday, as agreed.", {"meeting": "Tuesday"}),
        ("The call is at 3 pm.", {"call": "15:00"}),
        ("My budget is still 600 euros.", {"budget": "600 euros"}),
    ],
    "what is to be looked up": [
        ("Remind me to check whether the price is 59 euros.", {"price": "49 euros"}),
        ("They cancelled the concert.", {"meeting": "Tuesday"}),
        ("I read that the average rent is 1,400.", {"rent": "850"}),
        ("Compare a budget of 500 euros with one of 900 euros.", {"budget": "600 euros"}),
    ],
    "more wordings": [
        ("Is it true that the rent is 1,020 euros now?", {"rent": "980 euros"}),
        ("what happens when my rent is 1,020 euros", {"rent": "980 euros"}),
        ("She told me her phone number is 0171 555 333.", {"phone number": "0171 555 111"}),
        ("The hotel is next to the station.", {"hotel": "Aster"}),
        ("The hotel is booked out on Friday.", {"hotel": "Aster"}),
        ("The password is too short.", {"password": "abc"}),
        ("Our database is a mess.", {"database": "postgres"}),
        ("the database is slow today", {"database": "postgres"}),
        ("The project lead is sick this week.", {"project lead": "Jonas"}),
        ("My dentist is lovely and her practice is at 4 Elm Road.", {"dentist": "Dr Lund", "address": "9 Vale Close"}),
        ("The flight is at least 10 hours long.", {"flight": "BA 117"}),
        ("My car is 12 years old.", {"car": "VW Polo"}),
        ("Our budget is 10% higher than last year.", {"budget": "6,000"}),
        ("My employer is moving offices.", {"employer": "Acme"}),
        ("the deadline is killing me", {"deadline": "5 May"}),
        ("The theme is nice, but can the font be bigger?", {"theme": "dark"}),
        ("My status is complicated haha", {"status": "open"}),
        ("Let's pretend my name is Bond.", {"name": "Ada"}),
        ("Can you write a poem in which my name is Luna?", {"name": "Ada"}),
        ("How do I change my address to 7 Birch Lane on the portal?", {"address": "3 Oak Street"}),
        ("Where can I set the language to French?", {"language": "English"}),
        ("The template has 'Deadline: 12 May' in the footer, please fix the spacing.", {"deadline": "5 May"}),
        ("If my budget were 10,000 I'd buy it.", {"budget": "6,000"}),
        ("I was hoping the rent would be 900.", {"rent": "980"}),
        ("Last year the conference was in Lyon.", {"conference": "Paris"}),
        ("Ben's new address is 7 Birch Lane.", {"address": "3 Oak Street"}),
        ("Why on earth would the deadline be 12 May?", {"deadline": "5 May"}),
        ("The other phone number is 0171 555 333.", {"phone number": "0171 555 111"}),
        ("My emergency contact's phone is 0171 555 333", {"phone": "0171 555 111"}),
        ("Book a table for Friday at 7.", {"meeting": "Tuesday at 10"}),
        ("What's the weather in Oslo on Saturday?", {"home city": "Leeds", "picnic": "Sunday"}),
        ("We should talk about the budget on Thursday.", {"budget": "6,000", "meeting": "Tuesday"}),
        ("I'm meeting the manager at 3 pm.", {"meeting": "2 pm", "manager": "Nadia"}),
        ("My manager is Nadia's sister.", {"manager": "Nadia"}),
        ("My name is on the list, right?", {"name": "Ada"}),
        ("The address is on the invoice.", {"address": "3 Oak Street"}),
        ("The meeting is in ten minutes.", {"meeting": "Tuesday"}),
        ("the gate is closing", {"gate": "B12"}),
        ("Our team is 5 points ahead.", {"team size": 7}),
        ("The order is late by 3 days.", {"order": "SD-2210"}),
        ("My laptop is a nightmare", {"laptop": "Dell XPS 13"}),
        ("The plan is to leave early.", {"plan": "Solo"}),
        ("My goal is to sleep more.", {"goal": "10 km"}),
        ("The price is a joke.", {"price": "49 euros"}),
        ("My boss is an idiot.", {"boss": "Nadia"}),
        ("My doctor is Irish.", {"doctor": "Dr Lund"}),
        ("The language is hard to learn.", {"language": "Finnish"}),
        ("My diet is working.", {"diet": "vegan"}),
        ("Our status is unclear.", {"project": "Apollo"}),
        ("No rush, but is the price 59 euros now?", {"price": "49 euros"}),
        ("I need the budget by Friday.", {"budget": "6,000", "deadline": "Monday"}),
        ("Great, the package is here!", {"package": "P-100"}),
        ("I'd rather not change the hotel to Casa Lima.", {"hotel": "Aster"}),
        ("My address is 7 Birch Lane, just kidding.", {"address": "3 Oak Street"}),
    ],
    "yet more wordings": [
        ("My sister's new employer is Globex.", {"employer": "Acme"}),
        ("Do you remember when my address was 7 Birch Lane?", {"address": "3 Oak Street"}),
        ("Would be great if the budget was 9,000.", {"budget": "6,000"}),
        ("The default port for Redis is 6379.", {"port": "5432"}),
        ("In the tutorial, the region is us-east-1.", {"region": "eu-west-1"}),
        ("They say the password is hunter2.", {"password": "korall77"}),
        ("Ask Tom whether the gate is C22.", {"gate": "B12"}),
        ("Assume a rent of 1,500 and tell me what I can afford.", {"rent": "980"}),
        ("The car insurance is 600 euros a year.", {"car": "VW Polo"}),
        ("Our meeting room is freezing.", {"meeting room": "Aspen"}),
        ("The project is finally over.", {"project": "Kestrel"}),
        ("My address is none of your business.", {"address": "3 Oak Street"}),
        ("My phone is dead, so mail me.", {"phone": "0171 555 111"}),
        ("The coach is stuck in traffic.", {"coach": "Kerstin"}),
        ("The hotel is Spanish-owned.", {"hotel": "Casa Flor"}),
        ("Hotel prices are up 20%.", {"hotel": "Casa Flor", "price": "49 euros"}),
        ("Can the deadline be 12 May?", {"deadline": "5 May"}),
        ("I forgot to cancel the gym membership.", {"gym membership": "Basic"}),
        ("How do I cancel the subscription?", {"subscription": "Gold"}),
        ("Never cancel the backup job.", {"backup job": "03:00"}),
        ("Is the meeting off?", {"meeting": "Tuesday"}),
        ("My kids call me Captain.", {"name": "Ada"}),
        ("Call me tomorrow at 5 pm.", {"name": "Ada", "call": "2 pm"}),
        ("Call me maybe.", {"name": "Ada"}),
        ("I live in hope.", {"home city": "Leeds"}),
        ("I work for free.", {"employer": "Acme"}),
        ("We are staying at home tonight.", {"hotel": "Casa Flor"}),
        ("I moved to the sofa.", {"address": "3 Oak Street"}),
        ("I got a Tesla toy for my son.", {"car": "VW Polo"}),
        ("This is what the bot wrote: Your address is 7 Birch Lane.", {"address": "3 Oak Street"}),
        ('He asked "is the budget 900?" and I said "the budget is 900".', {"budget": "600"}),
        ("Budget: what was it again?", {"budget": "600"}),
        ("Language: how many do you speak?", {"language": "English"}),
        ("Make a list of hotels in Rome.", {"hotel": "Casa Flor"}),
        ("Move the text on the budget slide to page 3.", {"budget": "600"}),
        ("Update: the price of gold is 3,000 dollars.", {"price": "49 euros"}),
        ("The old phone number is 0171 555 333.", {"phone number": "0171 555 111"}),
        ("Use 7 Birch Lane as the address for this parcel only.", {"address": "3 Oak Street"}),
        ("The deadline for the other team is 12 May.", {"deadline": "5 May"}),
        ("Your deadline is 12 May.", {"deadline": "5 May"}),
        ("Wow, the new iPhone price is 1,199 euros.", {"price": "49 euros"}),
        ("We never use Slack.", {"chat tool": "Teams"}),
        ("The budget is not 900 euros.", {"budget": "600 euros"}),
        ("Is the vet Dr Amari?", {"vet": "Dr Pohl"}),
        ("Our vet is wonderful.", {"vet": "Dr Pohl"}),
        ("The vet bill is 80 euros.", {"vet": "Dr Pohl", "fine": "60 euros"}),
        ("The old landing page url is https://go.tern.example/start", {"landing page url": "https://tern.example"}),
        ("Mum's email is liv@reed.example", {"email": "lib@reed.example"}),
        ("My neighbour reckons the fine is 80 euros.", {"fine": "60 euros"}),
        ("If the fine is 80 euros I will appeal.", {"fine": "60 euros"}),
        ("The haircut was a disaster.", {"haircut": "Thursday"}),
        ("The haircut is on me.", {"haircut": "Thursday"}),
        ("My step goal is unrealistic.", {"step goal": "8,000"}),
        ("I walked 12,000 steps today!", {"step goal": "8,000"}),
        ("The address is easy to find.", {"address": "8 Shoe Lane"}),
        ("Paste this into the form: address is 3 Tannery Court", {"address": "8 Shoe Lane"}),
        ("Rewrite the sentence 'the slogan is Light Work' in French", {"slogan": "Hard Work"}),
        ("Who came up with the slogan Light Work?", {"slogan": "Hard Work"}),
        ("In March the slogan was Light Work.", {"slogan": "Hard Work"}),
        ("Try the output format yaml just for this run.", {"output format": "json"}),
        ("The output format is weird.", {"output format": "json"}),
        ("Don't you dare set the output format to yaml.", {"output format": "json"}),
        ("Dinner is served at the hotel.", {"dinner": "7 pm", "hotel": "Casa Flor"}),
        ("Dinner was 45 euros.", {"dinner": "7 pm"}),
        ("My son's school is great.", {"son school": "Westbrook"}),
        ("The pottery class is Monday, yes.", {"pottery class": "Monday"}),
        ("Cheers, have a nice weekend", {"pottery class": "Monday"}),
    ],
}


@pytest.mark.parametrize(
    ("text", "facts"),
    [each for table in NOTHING.values() for each in table],
    ids=[f"{kind}: {text}" for kind, table in NOTHING.items() for text, _ in table],
)
def test_what_is_not_said_in_earnest_of_ones_own_changes_nothing(text: str, facts: Facts) -> None:
    assert {key: each for key, each in proposed(text, facts).items() if each[1] >= ASKED} == {}


AT_MOST_ASKED: list[tuple[str, Facts]] = [
    ("I think the meeting is on Friday.", {"meeting": "Tuesday"}),
    ("Maybe the budget is 900 euros, not sure.", {"budget": "600 euros"}),
    ("My phone number might be 0151 555 0188.", {"phone number": "0151 555 0100"}),
    ("The gate is C22, I believe.", {"gate": "B12"}),
    ("From 1 June my rent will be 990.", {"rent": "850"}),
    ("Next month my salary goes up to 58,000.", {"salary": "52,000"}),
    ("We're moving the office to 4 Dock Street in autumn.", {"office address": "1 King Street"}),
    ("Starting in May my working hours are 8-16.", {"working hours": "9-17"}),
    ("This week my working hours are 10-14.", {"working hours": "9-17"}),
    ("For now, the project lead is Farah.", {"project lead": "Jonas"}),
    ("On staging the timeout is 5s.", {"timeout": "30s"}),
    ("Move the call to Friday.", {"sales call": "Tuesday", "team call": "Wednesday"}),
    ("The flight is at 9:15.", {"outbound flight": "7:00", "return flight": "18:00"}),
    ("I'm thinking of changing my job title to Consultant.", {"job title": "Analyst"}),
    ("The price is around 60 euros.", {"price": "49 euros"}),
    ("I heard that the rent is 990.", {"rent": "850"}),
    ("Working title for the project: Blue Harbor", {"project": "Red Harbor"}),
    ("My name isn't Bob.", {"name": "Bob"}),
    ("Can I cancel the order?", {"order": "SD-2210"}),
    ("I could make the deadline 12 May.", {"deadline": "5 May"}),
    ("The price is 59 euros? Let me check.", {"price": "49 euros"}),
    ("Apparently the train is at 8:12 now.", {"train": "8:02"}),
    (
        "Invoice to: 5 Station Approach, Guildford GU1 4UT. That's our new billing address.",
        {"billing address": "1 High St, Guildford"},
    ),
    ("My landlord wants the rent to be 1,020 euros but I refused.", {"rent": "980 euros"}),
    ("We might move the launch to May.", {"launch": "3 June"}),
    ("Nobody told me that the meeting is on Friday!", {"meeting": "Tuesday"}),
    ("Tell Anna that the meeting is on Friday.", {"meeting": "Tuesday"}),
    ("Send Anna this: my phone number is 0171 555 333", {"phone number": "0171 555 111"}),
    ("For the demo account, the email is demo@x.example.", {"email": "kim@old.example"}),
    ("My work email is kim@corp.example.", {"email": "kim@old.example"}),
    ("I can't believe the rent is 1,200 in this area.", {"rent": "980"}),
    ("The manager said the deadline is 12 May, but I doubt it.", {"deadline": "5 May"}),
    ("I'm not sure the meeting is on Friday.", {"meeting": "Tuesday"}),
    ("I should cancel the gym membership at some point.", {"gym membership": "Basic"}),
    ("They want to cancel the meeting.", {"meeting": "Tuesday"}),
    ("My friend cancelled the trip.", {"trip": "Rome"}),
    ("The meeting was cancelled last month, too.", {"meeting": "Tuesday"}),
    ("Happy birthday to me, 14 April is the best day.", {"birthday": "1 April"}),
    ("In case you wonder, my real name is not Ada.", {"name": "Ada"}),
    (
        "I'm flying to Rome on Friday to see my aunt, what should I pack?",
        {"departure": "Tuesday", "home city": "Leeds"},
    ),
    ("Set a reminder for the meeting on Friday.", {"meeting": "Tuesday"}),
    ("Change the colour of the logo to red.", {"theme color": "blue"}),
    ("My husband wants to change the hotel to Casa Lima.", {"hotel": "Casa Flor"}),
    ("Somebody changed the meeting to Friday without asking, please undo that.", {"meeting": "Tuesday"}),
    ("Until Sunday my address is Hotel Aster, Rome.", {"address": "3 Oak Street"}),
    ("While I'm in Rome my phone is 0171 555 333.", {"phone": "0171 555 111"}),
    ("The timeout is 5s in the test suite.", {"timeout": "30s"}),
    ("It says here my plan is Gold, is that right?", {"plan": "Silver"}),
    ("If I recall correctly my IBAN is DE44 5001 0517 5407 3249 31", {"iban": "DE12 5001 0517 0648 4898 90"}),
    ("Thursday would be better for the meeting, no?", {"meeting": "Tuesday"}),
    ("We considered changing the slogan to Light Work.", {"slogan": "Hard Work"}),
    ("Eventually the output format will be yaml.", {"output format": "json"}),
    ("On my machine the output format is yaml.", {"output format": "json"}),
    ("I thought the spending cap was $2,500?", {"spending cap": "$2,000"}),
    ("no idea what my blood pressure is, maybe 130?", {"blood pressure": "120"}),
    ("My team is Ajax in this game of FIFA.", {"favourite team": "Feyenoord"}),
    ("Our spending is at $2,500 already.", {"spending cap": "$2,000"}),
]


@pytest.mark.parametrize(("text", "facts"), AT_MOST_ASKED, ids=[each[0] for each in AT_MOST_ASKED])
def test_what_is_likely_but_not_certain_is_asked_at_most(text: str, facts: Facts) -> None:
    assert {key: each for key, each in proposed(text, facts).items() if each[1] >= APPLIED} == {}


DECLINED: list[tuple[str, str, Facts]] = [
    (">Shall I change the hotel to Casa Lima?", "Sounds nice, but I need to ask Ben first.", {"hotel": "Aster"}),
    (">Shall I move the call to 4pm?", "Hmm, not yet.", {"call": "2pm"}),
    (">Your call is at 2pm.", "Great, thanks!", {"call": "2pm"}),
    (">Should I cancel the taxi?", "no, keep it", {"taxi": "17:30"}),
    (">Should I set the budget to 900 euros?", "Let me think about it.", {"budget": "600 euros"}),
    (">Would Friday suit you for the review?", "Not really.", {"review": "Thursday"}),
]


@pytest.mark.parametrize(("before", "text", "facts"), DECLINED, ids=[each[1] for each in DECLINED])
def test_an_offer_that_is_not_taken_changes_nothing(before: str, text: str, facts: Facts) -> None:
    assert {key: each for key, each in proposed(text, facts, (before,)).items() if each[1] >= APPLIED} == {}
