"""Clause patterns of English, each with changes that it tells of, and sentences of the same shape that tell of none."""

from __future__ import annotations

import pytest
from tests.text.test_detect_truth import APPLIED, Before, Facts, proposed

WHOLE: list[tuple[str, Facts, Facts]] = [
    # full stops that end nothing
    ("My dermatologist is Dr. Okonkwo now.", {"dermatologist": "Dr. Hale"}, {"dermatologist": "Dr. Okonkwo"}),
    ("Our parish is St. Brendan's now.", {"parish": "St. Olaf's"}, {"parish": "St. Brendan's"}),
    ("The contact is Ms. Adeyemi.", {"contact": "Mr. Falk"}, {"contact": "Ms. Adeyemi"}),
    (
        "Change the supplier to Brandt & Co. KG.",
        {"supplier": "Hoffmann GmbH"},
        {"supplier": "Brandt & Co. KG"},
    ),
    ("The auditor is Crane Lowell, Inc.", {"auditor": "Pratt LLP"}, {"auditor": "Crane Lowell, Inc."}),
    ("Our lawyer is J. R. Whitcombe.", {"lawyer": "P. Adair"}, {"lawyer": "J. R. Whitcombe"}),
    ("My surgeon is Dr. Lee, M.D., starting today.", {"surgeon": "Dr. Park"}, {"surgeon": "Dr. Lee, M.D."}),
    # commas inside
    ("Change the toast to rye bread, no butter.", {"toast": "white bread, butter"}, {"toast": "rye bread, no butter"}),
    # what stands behind a value is no part of it
    ("Our cloud provider is Azure because of the credits.", {"cloud provider": "AWS"}, {"cloud provider": "Azure"}),
    ("The mascot is Otter as of today.", {"mascot": "Badger"}, {"mascot": "Otter"}),
    ("Set the branch to release-9 from today.", {"branch": "release-8"}, {"branch": "release-9"}),
    ("The project lead is Farah thanks to the new rota.", {"project lead": "Jonas"}, {"project lead": "Farah"}),
]


BETWEEN: list[tuple[str, Facts, Facts]] = [
    (
        "The meeting point, as everyone knows by now, is Pier 9.",
        {"meeting point": "Pier 4"},
        {"meeting point": "Pier 9"},
    ),
    ("The venue, which was the Corn Exchange, is the Drill Hall.", {"venue": "Corn Exchange"}, {"venue": "Drill Hall"}),
    (
        "The wifi password we use now is tulip-88-rain.",
        {"wifi password": "rose-12-sun"},
        {"wifi password": "tulip-88-rain"},
    ),
    ("The lunch time, despite all the complaints, is 12:45.", {"lunch time": "12:00"}, {"lunch time": "12:45"}),
    ("The vet (Moira moved away) is Dr. Sand.", {"vet": "Dr. Hale"}, {"vet": "Dr. Sand"}),
]


NEW_FIRST: list[tuple[str, Facts, Facts]] = [
    ("Ingrid is captain again.", {"captain": "Mona"}, {"captain": "Ingrid"}),
    ("Tariq is back as head chef.", {"head chef": "Luc"}, {"head chef": "Tariq"}),
    ("Yuki has replaced Omar as shift lead.", {"shift lead": "Omar"}, {"shift lead": "Yuki"}),
    ("Yuki takes over as shift lead.", {"shift lead": "Omar"}, {"shift lead": "Yuki"}),
    ("Yuki took over from Omar as our shift lead.", {"shift lead": "Omar"}, {"shift lead": "Yuki"}),
    ("June is our new treasurer.", {"treasurer": "Rose"}, {"treasurer": "June"}),
    ("it's Juniper, the meeting room, not Aspen", {"meeting room": "Aspen"}, {"meeting room": "Juniper"}),
    ("The new secretary? Paulo.", {"secretary": "Greta"}, {"secretary": "Paulo"}),
    ("for the billing contact take Ludmila", {"billing contact": "Piotr"}, {"billing contact": "Ludmila"}),
    ("For lead reviewer use Hana.", {"lead reviewer": "Ivo"}, {"lead reviewer": "Hana"}),
    ("scratch that, 10:30 for the yoga class", {"yoga class": "9:30"}, {"yoga class": "10:30"}),
    ("sorry, 14 May for the inspection", {"inspection": "7 May"}, {"inspection": "14 May"}),
]


KEYS: list[tuple[str, Facts, Facts]] = [
    ("bump python.version to 3.12.4", {"python.version": "3.11.9"}, {"python.version": "3.12.4"}),
    ("can you set db.poolSize to 40? it keeps stalling", {"db.poolSize": 20}, {"db.poolSize": 40}),
    ("maxUploads should be 12", {"maxUploads": 8}, {"maxUploads": 12}),
    ("set max_workers to 6 please", {"max_workers": 4}, {"max_workers": 6}),
    ("retry_limit=7", {"retry_limit": 5}, {"retry_limit": 7}),
    ("volume 30%, contrast 55% pls", {"volume": "20%", "contrast": "60%"}, {"volume": "30%", "contrast": "55%"}),
    ("theme dark, font size 16", {"theme": "light", "font size": "14"}, {"theme": "dark", "font size": "16"}),
    ("my daughters shoe size is 31 now", {"daughter's shoe size": 29}, {"daughter's shoe size": 31}),
    (
        "We found my daughter a place nearby, her school is Elm Grove now.",
        {"daughter's school": "Hillcrest"},
        {"daughter's school": "Elm Grove"},
    ),
    ("my handle is @nia.codes", {"github handle": "@nia_old"}, {"github handle": "@nia.codes"}),
    ("the profile picture is summit.png now", {"profile picture": "beach.jpg"}, {"profile picture": "summit.png"}),
    ("gate code changed again: 5520#", {"gate code": "1184#"}, {"gate code": "5520#"}),
    ("We're on redis 7.4 since this morning.", {"redis version": "6.2"}, {"redis version": "7.4"}),
]


CHANGES: list[tuple[str, Facts, Facts]] = [
    ("Swap the rice for a baked potato", {"side": "rice", "drink": "water"}, {"side": "baked potato"}),
    ("They gave me another parking spot: D-42.", {"parking spot": "B-17"}, {"parking spot": "D-42"}),
    (
        "I have a new maths teacher, she's called Ms. Bright.",
        {"maths teacher": "Mr. Dunn"},
        {"maths teacher": "Ms. Bright"},
    ),
    ("You have the platform wrong, it's 7.", {"platform": 4}, {"platform": 7}),
    (
        "the repo's been moved, it's github.example/b/tool now",
        {"repo": "github.example/a/tool"},
        {"repo": "github.example/b/tool"},
    ),
    ("my favourite drink isnt cola anymore its cocoa", {"favourite drink": "cola"}, {"favourite drink": "cocoa"}),
    ("Up to May my coach was Ilse; these days it's Marek.", {"coach": "Ilse"}, {"coach": "Marek"}),
    (
        "I've started at Larch Clinic, so put that down as my workplace.",
        {"workplace": "Elm Clinic"},
        {"workplace": "Larch Clinic"},
    ),
    ("I charge $70 an hour these days, please fix my hourly rate.", {"hourly rate": "$60"}, {"hourly rate": "$70"}),
    ("I got promoted to Senior Clerk!", {"job title": "Clerk"}, {"job title": "Senior Clerk"}),
    (
        "The cello lesson moves to Friday, same time.",
        {"cello lesson": "Monday 17:00 with Mr. Bell"},
        {"cello lesson": "Friday 17:00 with Mr. Bell"},
    ),
    ("Use staging-eu instead of staging-us.", {"deploy target": "staging-us"}, {"deploy target": "staging-eu"}),
    ("ADP was replaced by Gusto.", {"payroll provider": "ADP"}, {"payroll provider": "Gusto"}),
    ("Gusto replaced ADP.", {"payroll provider": "ADP"}, {"payroll provider": "Gusto"}),
    ("We chose Friday for the delivery.", {"delivery": "Thursday"}, {"delivery": "Friday"}),
    ("There will be 14 guests, not 12.", {"guests": 12}, {"guests": 14}),
    ('Our new slogan is "Built to last".', {"slogan": "Made for you"}, {"slogan": "Built to last"}),
    ("My pronouns are they/them.", {"pronouns": "she/her"}, {"pronouns": "they/them"}),
    ("Kim was elected chair yesterday.", {"chair": "Raj"}, {"chair": "Kim"}),
    ("The priority is high, not low.", {"priority": "low"}, {"priority": "high"}),
    ("Change the meeting to Tuesday. Wait, no, Wednesday.", {"meeting": "Monday"}, {"meeting": "Wednesday"}),
    ("We moved to New York City.", {"city": "Boston"}, {"city": "New York City"}),
    (
        "Our office address is 5 St. Anne's Court, London W1F 0BQ.",
        {"office address": "1 King St., London"},
        {"office address": "5 St. Anne's Court, London W1F 0BQ"},
    ),
    ("take the rope off the gear list", {"gear list": "tent, rope, lamp"}, {"gear list": "tent, lamp"}),
    ("add matches to the gear list", {"gear list": "tent, rope, lamp"}, {"gear list": "tent, rope, lamp, matches"}),
    ("fyi the due date sliped to 9 June", {"due date": "2 June"}, {"due date": "9 June"}),
]


@pytest.mark.parametrize(
    ("text", "facts", "wanted"),
    [*WHOLE, *BETWEEN, *NEW_FIRST, *KEYS, *CHANGES],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_pattern_tells_of_a_change(text: str, facts: Facts, wanted: Facts) -> None:
    assert {key: value for key, (value, sure) in proposed(text, facts).items() if sure >= APPLIED} == wanted


ANSWERS: list[tuple[str, str, Facts, Facts]] = [
    (
        ">Which language should the report language be?",
        "French would be best",
        {"report language": "German"},
        {"report language": "French"},
    ),
    (
        ">What cake flavour should it be instead of vanilla?",
        "Lemon. And no candles.",
        {"cake flavour": "vanilla"},
        {"cake flavour": "Lemon"},
    ),
    (">Do you want to keep the newsletter?", "nope", {"newsletter": "yes"}, {"newsletter": "no"}),
    (
        ">I've noted your blood type as A positive.",
        "no no, O negative!",
        {"blood type": "A positive"},
        {"blood type": "O negative"},
    ),
    (">How many seats do you need?", "7", {"seats": 4}, {"seats": 7}),
    (
        ">The memory limit is 256 MB.",
        "should be 512 MB",
        {"memory limit": "256 MB"},
        {"memory limit": "512 MB"},
    ),
    (">Your seat is 14C.", "nope, 15D", {"seat": "14C"}, {"seat": "15D"}),
    (
        ">The locker comes in red or grey. Which locker colour?",
        "the grey one",
        {"locker colour": "red"},
        {"locker colour": "grey"},
    ),
]


@pytest.mark.parametrize(("before", "text", "facts", "wanted"), ANSWERS, ids=[each[1] for each in ANSWERS])
def test_a_short_answer_or_correction_changes_what_was_asked(
    before: str, text: str, facts: Facts, wanted: Facts
) -> None:
    assert {key: value for key, (value, sure) in proposed(text, facts, (before,)).items() if sure >= APPLIED} == wanted


GONE: list[tuple[str, Before, Facts, str]] = [
    ("Please remove my middle name from the file.", (), {"middle name": "Rose"}, "middle name"),
    ("The voucher has expired, delete it.", (), {"voucher": "SAVE20"}, "voucher"),
    ("no need, I sold it last week", (">Shall I insure your scooter?",), {"scooter": "Vespa"}, "scooter"),
    ("There's no parking permit any more.", (), {"parking permit": "P-771"}, "parking permit"),
    ("We've sold the boat.", (), {"boat": "Dufour 34"}, "boat"),
    ("I no longer have a landline.", (), {"landline": "020 7946 0555"}, "landline"),
]


@pytest.mark.parametrize(("text", "before", "facts", "key"), GONE, ids=[each[0] for each in GONE])
def test_what_is_gone_is_taken_back(text: str, before: Before, facts: Facts, key: str) -> None:
    found = {key: value for key, (value, sure) in proposed(text, facts, before).items() if sure >= APPLIED}
    assert found == {key: None}


KEPT: list[tuple[str, Facts]] = [
    # parts of values, and doubtful ones
    ("The venue is Bar at the Park.", {"venue": "Town Hall"}),
    ("The room is Cedar or Maple.", {"room": "Aspen"}),
    ("My favourite colour isn't green.", {"favourite colour": "blue"}),
    ("My number is 0171 555 333.", {"phone number": "0171 555 111", "membership number": "0171 555 222"}),
    ("pretty sure the platform is 7 now", {"platform": 4}),
    ("For the Oslo trip my hotel is Casa Lima.", {"hotel": "Aster"}),
    ("For the Oslo trip, the contact is Ben.", {"contact": "Ida"}),
    ("While Dana's on leave the project lead is Farah.", {"project lead": "Jonas"}),
    ("The berth is C12 until Sunday.", {"marina berth": "B7"}),
    ("I earned $70 yesterday, please update my hourly rate.", {"hourly rate": "$60"}),
    ("This week the standup lead is Farah.", {"standup lead": "Jonas"}),
    ("The payroll provider is Gusto or Rippling.", {"payroll provider": "ADP"}),
    ("My favourite band is Earth, Wind & Fire.", {"favourite band": "Queen"}),
    ("My title is VP, Engineering.", {"job title": "Director"}),
    ("Our tax rate is 7.5% for food.", {"tax rate": "19%"}),
    ("Lunch is at 1 instead of 12 today.", {"lunch": "12:00"}),
    ("The docs say timeout: 60, retries: 5", {"timeout": 30, "retries": 3}),
    ("Only for Tuesday, the shift lead is Omar.", {"shift lead": "Yuki"}),
    ("The default timeout is 60 in version 3.", {"timeout": 30}),
    ("It's about time the payroll provider was changed to Gusto.", {"payroll provider": "ADP"}),
    ("The deadline is 5 May... actually no, leave it.", {"deadline": "1 May"}),
    # made up, or shown for its wording
    ("A fictitious company has a budget problem. The budget is 900 now.", {"budget": "500"}),
    ("Is this correct English: my deadline has been moved to 12 May", {"deadline": "5 May"}),
    ("The deadline was moved to 12 May. Is my grammar okay?", {"deadline": "5 May"}),
    ("Example sentence: the deadline is now 12 May.", {"deadline": "5 May"}),
    # between key and verb
    ("The venue, if I remember right, is the Drill Hall.", {"venue": "Corn Exchange"}),
    ("Is the venue, which was the Corn Exchange, the Drill Hall now?", {"venue": "Corn Exchange"}),
    ("The venue, unless it rains, is the Drill Hall.", {"venue": "Corn Exchange"}),
    ("The wifi password my neighbour uses is tulip-88-rain.", {"wifi password": "rose-12-sun"}),
    # new value first
    ("Is Ingrid captain again?", {"captain": "Mona"}),
    ("Ingrid isn't captain again.", {"captain": "Mona"}),
    ("I wish Ingrid were captain again.", {"captain": "Mona"}),
    ("If Mona is ill, Ingrid is captain again.", {"captain": "Mona"}),
    ("My brother says Ingrid is captain again.", {"captain": "Mona"}),
    ("Next year Ingrid takes over as captain.", {"captain": "Mona"}),
    ("In 2012 Ingrid took over as captain.", {"captain": "Mona"}),
    ("Nobody has replaced Mona as captain.", {"captain": "Mona"}),
    ("Yuki nearly replaced Omar as shift lead.", {"shift lead": "Omar"}),
    ("Their captain is Ingrid again.", {"captain": "Mona"}),
    ("Ingrid is a captain in the army.", {"captain": "Mona"}),
    ("The new secretary? No idea.", {"secretary": "Greta"}),
    ("The new secretary? Great choice.", {"secretary": "Greta"}),
    ("For the billing contact, take your time.", {"billing contact": "Piotr"}),
    # keys and settings
    ("what happens if I bump python.version to 3.12.4?", {"python.version": "3.11.9"}),
    ("don't set max_workers to 6", {"max_workers": 4}),
    ("should retry_limit=7?", {"retry_limit": 5}),
    ("the tutorial has volume 30%, contrast 55%", {"volume": "20%", "contrast": "60%"}),
    ("Ben's daughters shoe size is 31 now", {"daughter's shoe size": 29}),
    ("My sister is pleased, her school is Elm Grove now.", {"daughter's school": "Hillcrest"}),
    ("the tutorial is on redis 7.4", {"redis version": "6.2"}),
    ("We're on redis, by the way.", {"redis version": "6.2"}),
    ("We're on redis", {"redis version": "6.2"}),
    # changes
    ("Could I swap the rice for a baked potato?", {"side": "rice"}),
    ("I wouldn't swap the rice for anything.", {"side": "rice"}),
    ("They gave Ben another parking spot: D-42.", {"parking spot": "B-17"}),
    ("My friend has a new maths teacher, she's called Ms. Bright.", {"maths teacher": "Mr. Dunn"}),
    ("don't add matches to the gear list", {"gear list": "tent, rope, lamp"}),
    ("should I take the rope off the gear list?", {"gear list": "tent, rope, lamp"}),
    ("I'd prefer Friday for the delivery.", {"delivery": "Thursday"}),
    ("I hope I get promoted to Senior Clerk!", {"job title": "Clerk"}),
    ("Anna got promoted to Senior Clerk!", {"job title": "Clerk"}),
    ("Ben charges $70 an hour, is my hourly rate too low? Please fix the typo.", {"hourly rate": "$60"}),
    # cancellations
    ("Should I remove my middle name from the file?", {"middle name": "Rose"}),
    ("My bike is gone for repair.", {"bike": "Trek"}),
    ("Delete the hotel from my favourites list.", {"hotel": "Aster"}),
    ("The hotel is over there, delete it.", {"hotel": "Aster"}),
    ("I nearly sold the boat.", {"boat": "Dufour 34"}),
    ("My uncle sold the boat.", {"boat": "Dufour 34"}),
    ("If the voucher has expired, delete it.", {"voucher": "SAVE20"}),
    ("There's no parking permit on the windscreen, is that a problem?", {"parking permit": "P-771"}),
]


@pytest.mark.parametrize(("text", "facts"), KEPT, ids=[each[0] for each in KEPT])
def test_the_same_shape_without_a_change_changes_nothing(text: str, facts: Facts) -> None:
    assert {key: each for key, each in proposed(text, facts).items() if each[1] >= APPLIED} == {}


REFUSED: list[tuple[str, str, Facts]] = [
    (">Do you want to keep the newsletter?", "yes", {"newsletter": "yes"}),
    (">Shall I cancel the newsletter?", "nope", {"newsletter": "yes"}),
    (">Your seat is 14C.", "no, thanks!", {"seat": "14C"}),
    (">I've noted your blood type as A positive.", "no no, perfect!", {"blood type": "A positive"}),
    (">Shall I insure your scooter?", "no need, I bought it last week", {"scooter": "Vespa"}),
    (">Which hotel do you want, Mira or Casa Lima?", "the second one", {"hotel": "Aster"}),
    (">Which hotel do you want, Mira or Casa Lima?", "Neither.", {"hotel": "Aster"}),
    (">Which colour should I use?", "no idea", {"colour": "red"}),
    (">Which language should the report language be?", "Good question.", {"report language": "German"}),
]


@pytest.mark.parametrize(("before", "text", "facts"), REFUSED, ids=[each[1] for each in REFUSED])
def test_an_answer_without_a_value_changes_nothing(before: str, text: str, facts: Facts) -> None:
    assert {key: each for key, each in proposed(text, facts, (before,)).items() if each[1] >= APPLIED} == {}
