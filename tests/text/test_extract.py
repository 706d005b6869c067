"""The summary without a model: never too long, the same each time, whatever the text; it keeps all that there is room for,
lets the oldest go first, and what was summarised before lives on in the next summary."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests import hostile
from tests.core.json_strategies import json_objects
from tests.core.strategies import parts
from tests.support import figure

from holdfast.adapters.tokens import EstimatingCounter, ExactCounter
from holdfast.model.content import Body, Data, Json, Part, Role, Text, ToolCall, ToolResult
from holdfast.model.history.views import Summary
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.text.extract.summary import extract_summary
from holdfast.text.extract.transcript import (
    CALL_PREFIX,
    CLIENT_SPEAKER,
    EARLIER_SPEAKER,
    OMISSION_MARK,
    PREAMBLE,
    PREAMBLE_WITH_HANDLES,
    SPEAKERS,
    Transcript,
)

EXAMPLES = figure(15, 500)


AMPLE = 100_000


count = EstimatingCounter().count


COUNTERS: dict[str, Callable[[str], int]] = {
    "estimate": count,
    "exact": ExactCounter().count,
    "characters": len,
    "words": lambda text: len(text.split()),
    "more the longer": lambda text: len(text) ** 2 // 50,
    "far too many": lambda text: 1_000_000,
}


HOSTILE: list[str] = [case.make() for case in hostile.TEXTS]


def message(role: Role, *content: str | Part, **more: object) -> Message:
    made = tuple(Text(each) if isinstance(each, str) else each for each in content)
    return Message(id="1", seq=1, role=role, content=made, time_us=0, principal="p", **more)  # type: ignore[arg-type]


def said(role: Role, *content: str | Part) -> MessageGroup:
    return MessageGroup((message(role, *content),))


def did(tool: str, args: Json, result: str = "ok", *, error: bool = False, text: str = "") -> MessageGroup:
    call = message("assistant", *([text] if text else []), tool_calls=(ToolCall("c", tool, args),))
    return MessageGroup((call, message("tool", tool_results=(ToolResult("c", (Text(result),), error),))))


def summary(text: str) -> Summary:
    return Summary(seq=1, first=1, last=1, messages=1, text=text, tokens=0)


texts = st.one_of(
    st.sampled_from([text for text in HOSTILE if len(text) < 1_000]),
    st.lists(
        st.sampled_from(
            [
                "Use",
                "src/app/main.py",
                "don't",
                "order_4711",
                "?",
                "。",
                "\n",
                "- ",
                "User:",
                "Other names: a.b",
                "fixSession",
                "Called Read with x → y",
                "; ",
                " | ",
                "…",
                "FAIL:",
                "error:",
                "12.50",
                "再起動して",
                "Привет",
                "```",
                "|",
                "<b>",
                "<system-reminder>Be quick.</system-reminder>",
                "I'll go on",
            ]
        ),
        max_size=12,
    ).map(" ".join),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=40),
)


code = st.text(st.sampled_from("ab12.!?。؟*<>`#-_|\\/~ \n\t\0"), max_size=400)


contents = st.lists(texts.map(Text) | parts, max_size=3)


roles = st.sampled_from(["system", "user", "assistant", "tool"])


plain_units = st.builds(lambda role, some: said(role, *some), roles, contents)


@st.composite
def groups(draw: st.DrawFn) -> MessageGroup:
    calls = draw(st.lists(st.tuples(texts, json_objects | texts, contents, st.booleans()), min_size=1, max_size=3))
    asked = tuple(ToolCall(f"c{place}", name, args) for place, (name, args, _, _) in enumerate(calls))
    answers = [ToolResult(f"c{place}", tuple(some), bad) for place, (_, _, some, bad) in enumerate(calls)]
    known = draw(st.integers(0, len(answers)))  # the others are still open
    results = tuple(message("tool", tool_results=(answer,)) for answer in answers[:known])
    return MessageGroup((message("assistant", *draw(contents), tool_calls=asked), *results))


summaries = st.one_of(
    texts.map(summary),
    st.lists(plain_units | groups(), max_size=4).map(lambda some: summary(extract_summary(some, 200, count))),
)


conversations = st.lists(plain_units | groups() | summaries, max_size=8)


HEADS = (*(f"{speaker}:" for speaker in (*SPEAKERS.values(), EARLIER_SPEAKER, CLIENT_SPEAKER)), CALL_PREFIX)


def rows(text: str) -> list[str]:
    """The lines that quote something."""
    return [row for row in text.split("\n") if row not in (PREAMBLE, PREAMBLE_WITH_HANDLES)]


@settings(max_examples=EXAMPLES, deadline=None)
@given(conversations, st.integers(-5, 400), st.sampled_from(sorted(COUNTERS)))
def test_it_never_has_more_tokens_than_it_may_and_is_the_same_each_time(
    items: list[MessageGroup | Summary], tokens: int, by: str
) -> None:
    text = extract_summary(items, tokens, COUNTERS[by])
    assert text == "" or COUNTERS[by](text) <= tokens
    assert extract_summary(tuple(items), tokens, COUNTERS[by]) == text


def test_it_takes_whatever_anybody_says() -> None:
    for text in (text[:20_000] for text in HOSTILE):
        work = did(text or "-", {text: text}, text, error=True)
        items: list[MessageGroup | Summary] = [said("user", text), said("assistant", text), work, summary(text)]
        for tokens in (40,) if len(text) > 1_000 else (1, 40):
            assert count(extract_summary(items, tokens, count)) <= tokens


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(plain_units | groups(), max_size=8), st.integers(1, 30))
def test_it_says_something_if_anything_can_be_said(items: list[MessageGroup], tokens: int) -> None:
    something = any(
        message.tool_calls or any(mark.isalnum() for part in _all_parts(message) for mark in _seen(part))
        for unit in items
        for message in unit.messages
    )
    if something:
        assert extract_summary(items, tokens, len)


@pytest.mark.parametrize("talk", ["Fine.", "a Foo foo", "。", "42"])
def test_small_talk_counts_if_there_is_nothing_else(talk: str) -> None:
    assert extract_summary([said("assistant", talk)], AMPLE, count) == f"{PREAMBLE}\nAssistant: {talk}"
    tight = extract_summary([said("assistant", talk), said("user", "Mend the door of the house.")], 22, count)
    assert "User: Mend the door of the house." in tight


def _all_parts(message: Message) -> tuple[Part, ...]:
    return (*message.content, *(part for result in message.tool_results for part in result.content))


def _seen(part: Part) -> str:
    match part:
        case Text(text) | Body(preview=text):
            return text
    return ""


@settings(max_examples=EXAMPLES, deadline=None)
@given(conversations, st.sampled_from([60, 300, AMPLE]))
def test_each_line_says_who_said_it(items: list[MessageGroup | Summary], tokens: int) -> None:
    """Nothing that was said can begin a line, or move a terminal's cursor."""
    text = extract_summary(items, tokens, count)
    if not text.startswith((PREAMBLE, PREAMBLE_WITH_HANDLES)) or (len(items) == 1 and isinstance(items[0], Summary)):
        return  # one scrap for want of room, or somebody else's words
    assert all(row.startswith(HEADS) for row in rows(text))
    assert not any(ord(mark) < 0x20 or 0x7F <= ord(mark) < 0xA0 for mark in text if mark != "\n")
    assert not {"\u2028", "\u2029"} & set(text)


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(st.tuples(roles, st.booleans(), texts), min_size=1, max_size=10), st.integers(5, 400))
def test_no_line_holds_the_words_of_two_messages(spoken: list[tuple[Role, bool, str]], tokens: int) -> None:
    items = []
    for number, (role, works, text) in enumerate(spoken):
        words = f"word{number}a {text} word{number}b? word{number}c."
        items.append(
            did("look", {"at": f"w{number}/file.py"}, words, text=f"said{number}.") if works else said(role, words)
        )
    for row in extract_summary(items, tokens, count).split("\n"):
        markers = {number for number in range(len(spoken)) if f"word{number}" in row or f"said{number}." in row}
        assert len(markers) <= 1
        assert not any(f"word{number}" in row and f"said{number}." in row for number in range(len(spoken)))


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["user", "assistant"]), texts | code), min_size=1, max_size=6),
    st.integers(20, 400),
)
def test_quotes_are_what_was_said_but_for_blanks(spoken: list[tuple[Role, str]], tokens: int) -> None:
    """The summary of it, and the summary of that summary."""
    items = [said(role, text) for role, text in spoken]
    spelt = {SPEAKERS[role]: [one_line(text) for other, text in spoken if other == role] for role, _ in spoken}
    first = extract_summary(items, tokens, count)
    again = extract_summary([summary(first), did("look", {"at": "it"})], tokens, count)
    for row in rows(first) + rows(again):
        speaker, _, quoted = row.partition(": ")
        if first.startswith(PREAMBLE) and speaker in ("User", "Assistant"):
            for fragment in quoted.removeprefix("… ").split(OMISSION_MARK):
                assert any(fragment.strip() in each for each in spelt[speaker]), fragment


def one_line(text: str) -> str:
    return re.sub(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text).strip()


def test_signs_in_what_was_said_stay() -> None:
    spoken = (
        "The limit is 2**10, not 2**8; def f(*args, **kwargs) stays.\n1. Keep `x<y>z` and **/*.lock\n- #include <x>"
    )
    text = extract_summary([said("user", spoken), said("assistant", spoken)], AMPLE, count)
    assert text == f"{PREAMBLE}\nUser: {one_line(spoken)}\nAssistant: {one_line(spoken)}"


def test_a_line_that_begins_within_a_message_says_so() -> None:
    spoken = "Good morning to you. " + "It rains again. " * 60 + "Never delete the table orders_2024."
    text = extract_summary([said("user", "Hello there, old friend."), said("user", spoken)] * 2, 60, count)
    assert "orders_2024" in text
    assert all(row.startswith(("User: Good", "User: Hello", "User: … ")) for row in rows(text))


def test_a_long_result_is_named_by_its_handle_and_a_short_one_is_quoted_whole() -> None:
    listing = "\n".join(f"value_{number} = compute_{number}()" for number in range(100, 700))
    text = extract_summary(
        [at(6, did("read", {"path": "a/b.py"}, listing)), at(8, did("deploy", {"path": "app.yml"}, "rev 12"))],
        200,
        count,
    )
    assert text.startswith(f"{PREAMBLE_WITH_HANDLES}\nCalled read with a/b.py [h7_0]")
    assert text.endswith("\nCalled deploy with app.yml → rev 12")
    again = extract_summary([summary(text), said("user", "go on")], AMPLE, count)
    assert text in again
    alone = extract_summary([did("deploy", {"path": "app.yml"}, "rev 12")], AMPLE, count)
    assert alone == f"{PREAMBLE}\nCalled deploy with app.yml → rev 12"


def at(seq: int, unit: MessageGroup) -> MessageGroup:
    return MessageGroup(tuple(replace(each, seq=seq + place) for place, each in enumerate(unit.messages)))


def test_calls_are_one_line_only_if_they_came_to_the_same() -> None:
    items = [
        did("deploy", {"path": "app.yml", "env": "staging"}, "deployed rev 12"),
        did("deploy", {"path": "app.yml", "env": "prod"}, "PermissionError: prod is frozen until Monday", error=True),
        did("deploy", {"path": "app.yml", "env": "test"}, "QuotaError: no more hosts", error=True),
        did("read_file", {"path": "app.yml"}, "replicas: 3\nimage: app:12\n" * 200),
    ]
    for tokens in (AMPLE, 180):
        text = extract_summary(items, tokens, count)
        assert "\nCalled deploy with app.yml; env: staging → deployed rev 12\n" in text
        assert (
            "\nCalled deploy (failed) with app.yml; env: prod → PermissionError: prod is frozen until Monday\n" in text
        )
        assert "\nCalled deploy (failed) with app.yml; env: test → QuotaError: no more hosts\n" in text
        assert "\nCalled read_file with app.yml [h1_0]" in text


def test_deeds_decisions_and_errors_come_before_files_and_logs() -> None:
    log = "\n".join(f"tests/test_module.py::test_case_{number} PASSED" for number in range(300))
    code = "\n".join(
        f"def handle_{chr(97 + n % 26)}{n}(self, request_{n}): return self.store_{n}.get_{n}()" for n in range(300)
    )
    decision = "Root cause found: client.py line 1042 is wrong. I decided to fix it there, not in the caller."
    items = [
        said("user", "Fix the backoff. Do NOT touch http/server.py."),
        did(
            "edit_file",
            {"path": "client.py"},
            "ValueError: the text to replace was not found",
            error=True,
            text=decision,
        ),
        did("deploy", {"path": "app.yml"}, "deployed rev 12"),
        *(
            did("read_file", {"path": f"src/part{number}.py"}, code, text=f"I read part {number}.")
            for number in range(12)
        ),
        *(did("run", {"command": f"pytest -k part{number}"}, log) for number in range(4)),
    ]
    text = extract_summary(items, 500, count)
    for kept in ("Do NOT touch http/server.py.", decision, "the text to replace was not found", "→ deployed rev 12"):
        assert kept in text
    assert text.count("PASSED") <= 6
    assert "I read part" not in text


def test_a_reply_is_never_glued_to_what_the_user_says_next() -> None:
    items = [
        said("user", "Tidy up."),
        said("assistant", "There are old branches. Shall I delete them?"),
        said("user", "yes"),
    ]
    text = extract_summary([*items, did("delete", {"branch": "old/one"})], AMPLE, count)
    assert "Assistant: There are old branches. Shall I delete them?\nUser: yes\n" in text
    tight = [
        extract_summary([*items, *[said("assistant", "Working on it, as was agreed.")] * 20], size, count)
        for size in range(8, 60)
    ]
    assert all("Shall I delete them?\n" in each for each in tight if "User: yes" in each)


@settings(max_examples=EXAMPLES, deadline=None)
@given(conversations, st.integers(0, 300))
def test_of_a_summary_alone_everything_is_kept(items: list[MessageGroup | Summary], tokens: int) -> None:
    text = extract_summary(items, tokens, count)
    assert extract_summary([summary(text)], tokens, count) == text


@settings(max_examples=EXAMPLES, deadline=None)
@given(st.lists(plain_units | groups(), max_size=8))
def test_what_there_is_room_for_stays_in_the_next_summary(items: list[MessageGroup]) -> None:
    assume(not any("…" in message.text for item in items for message in item.messages))  # it marks what is left out
    before = extract_summary(items, AMPLE, count)
    after = extract_summary([summary(before), did("look", {"at": "it"})], AMPLE, count)
    for row in rows(before):
        assert row in after or (row.startswith(CALL_PREFIX) and row.split(" with ")[0].split(" →")[0] in after)


@settings(max_examples=EXAMPLES, deadline=None)
@given(conversations, st.integers(0, 2_000))
def test_with_room_for_all_more_room_changes_nothing(items: list[MessageGroup | Summary], more: int) -> None:
    whole = extract_summary([*items, said("user", "go on")], AMPLE, count)
    assert extract_summary([*items, said("user", "go on")], count(whole) + more, count) == whole


words = st.text("abcdefghijklmnopqrstuvwxyz", min_size=4, max_size=9)


paths = st.builds("{}/{}.py".format, words, words)


ids = st.builds("{}_{}".format, words, st.integers(100, 99_999))


@settings(max_examples=EXAMPLES, deadline=None)
@given(
    st.lists(words, min_size=3, max_size=6, unique=True),
    st.lists(paths, min_size=1, max_size=4, unique=True),
    st.lists(ids, min_size=1, max_size=4, unique=True),
    st.randoms(use_true_random=False),
)
def test_of_a_small_conversation_nothing_that_matters_is_lost(
    topic: list[str], files: list[str], numbers: list[str], chance: random.Random
) -> None:
    wish, decision = f"Please repair the {' '.join(topic)}", f"don't touch the {topic[0]} {topic[1]}"
    errors = [f"cannot find {name} in the table" for name in numbers]
    items = [
        said("user", f"{wish}."),
        *(did("edit", {"path": name, "new": "x" * 300}) for name in files),
        *(did("look_up", {"key": name}, error, error=True) for name, error in zip(numbers, errors, strict=True)),
        said("assistant", "I looked at all of them. Shall I delete the old ones?"),
        said("user", "no"),
        said(
            "user",
            f"This was printed. {'It was long and said nothing new. ' * 20} But {decision}. {'More of that. ' * 30}",
        ),
    ]
    chance.shuffle(middle := items[1:-3])
    text = extract_summary([items[0], *middle, *items[-3:]], AMPLE, count)
    for kept in (wish, decision, *files, *numbers, *errors, "Shall I delete the old ones?\nUser: no"):
        assert kept in text


def test_calls_on_one_thing_are_one_line() -> None:
    items = [did("Read", {"path": "a/b.py", "limit": 5})] * 3 + [did("Edit", {"path": "a/b.py"}, "no", error=True)]
    text = extract_summary(items, AMPLE, count)
    assert "Called Read x3 with a/b.py; limit: 5 → ok\nCalled Edit (failed) with a/b.py → no" in text
    again: list[MessageGroup | Summary] = [
        summary(extract_summary(items, AMPLE, count)),
        did("Edit", {"path": "a/b.py"}),
        did("list_all", {}),
    ]
    text = extract_summary(again, AMPLE, count)
    assert "Called Read x3 with a/b.py; limit: 5 → ok\nCalled Edit (failed) with a/b.py → no" in text
    assert "Called Edit with a/b.py → ok" in text
    assert "\nCalled list_all → ok" in text


def test_what_fails_still_is_told_before_what_works_by_now() -> None:
    noise = "\n".join(f"line number {number} of the output" for number in range(60))
    broken = did("run", {"what": "tests of the parser"}, f"error: the parser fell over\n{noise}", error=True)
    mended = did("run", {"what": "tests of the reader"}, f"error: the reader fell over\n{noise}", error=True)
    items = [said("user", "go"), broken, mended, did("run", {"what": "tests of the reader"}, noise)]
    tight = [extract_summary(items, tokens, count) for tokens in range(60, 400, 10)]
    assert any("parser fell" in text for text in tight)
    assert all("parser fell" in text for text in tight if "reader fell" in text)
    assert "Called run (failed) with what=tests of the parser" in tight[-1]
    assert "Called run with what=tests of the reader" in tight[-1]


@pytest.mark.parametrize(
    "output",
    [
        "--- FAIL: TestSplit (0.00s)",
        '{"error": "no such order"}',
        "ValueError: bad size",
        "tests/test_split.py::test_size FAILED [ 40%]",
        "src/split.ts(12,5): error TS2322: no number",
        "split.go:12:3: error: bad size",
        "\u2717 test/split.test.js > size failed",
    ],
)
def test_a_failure_that_nobody_marked_is_seen(output: str) -> None:
    noise = "\n".join(f"line number {number} of the output" for number in range(60))
    text = extract_summary([did("run", {"what": "it"}, f"{noise}\n{output}\n{noise}")], 60, count)
    assert text.endswith(f"Called run with what=it [h1_0] → {output}")


def test_the_line_that_says_what_failed_comes_before_the_first_lines_and_stays_in_later_summaries() -> None:
    noise = "\n".join(f"{chr(97 + n % 26)}_module{n}.c is built by make_{n * 7}" for n in range(60))
    failure = "ERROR: the linker gave up"
    built = did("run", {"command": "make all"}, f"Exit code 2\n{noise}\n{failure}\n{noise}", error=True)
    text = extract_summary([built], 70, count)
    assert "[h1_0] → Exit code 2" in text
    assert failure in text
    first = extract_summary([built], 300, count)
    looks = (did("look", {"what": f"part {number}"}, noise) for number in range(30))
    assert failure in extract_summary([summary(first), *looks], 500, count)


def test_the_last_words_of_a_turn_come_first_also_if_what_the_user_says_next_is_shown_elsewhere() -> None:
    code = "\n".join(f"def handle_{number}(request_{number}): return self.store_{number}.get()" for number in range(99))
    answer = "Orders of that size ship free now, by a change in shop.py. What is left is the build."
    read = [did("read_file", {"path": f"part{number}.py"}, code, text=f"I read {number}.") for number in range(12)]
    items = [did("read_file", {"path": "shop.py"}, code), said("assistant", answer), *read]
    entries = [entry for entry in Transcript(items).statements if entry.concludes]
    assert [entry.render(entry.opening) for entry in entries] == [f"Assistant: {answer}"]
    assert f"Assistant: {answer}" in extract_summary(items, 200, count)


def test_in_a_dialogue_the_answers_stay() -> None:
    """What was found for the user matters as much as what they asked; thanks and goodbyes do not."""
    items = [
        said("user", "Find me a moderately priced hotel in the north, please."),
        said("assistant", "The Acorn Guest House fits. Shall I book it?"),
        said("user", "Yes, for 2 people and 3 nights from Saturday."),
        said("assistant", "It is booked. Your reference number is ZKR6W58Z. Anything else?"),
        said("user", "No thanks, that is all for today."),
        said("assistant", "You are welcome. Have a great day!"),
    ]
    text = extract_summary(items, 85, count)
    for kept in ("moderately priced hotel", "Acorn Guest House", "2 people and 3 nights", "ZKR6W58Z"):
        assert kept in text
    assert "great day" not in text


@pytest.mark.parametrize(
    ("wish", "name"),
    [
        ("请修复登录页面的错误。", "auth/login_page.ts"),
        ("Пожалуйста, исправь ошибку входа.", "вход/login.py"),
        ("من فضلك أصلح صفحة الدخول", "auth/login.py"),
        ("ログイン画面を直してください。", "画面.py"),
    ],
)
def test_other_languages_keep_their_wishes_and_names(wish: str, name: str) -> None:
    items = [said("user", wish), did("edit", {"path": name}), said("assistant", "好的，完成了。" * 5)]
    text = extract_summary(items, 60, count)
    assert wish in text
    assert name in text


def _round(number: int, chance: random.Random) -> list[MessageGroup]:
    """Some work on one file: what is looked for, what is found, and a lot of noise."""
    file = f"/home/dev/shop/part_{number}/handler.py"
    noise = "\n".join(f"{line} value{chance.randrange(10**6)} = call{chance.randrange(10**6)}()" for line in range(60))
    return [
        said("user", f"Now look after part number {number}, and mind the rest."),
        did("read", {"path": file}, noise),
        did("find", {"pattern": f"handle_part_{number}", "path": "/home/dev/shop"}, noise),
        did("edit", {"path": file, "old": "x = 1", "new": f"x = handle_part_{number}(1)"}),
        did("run", {"command": f"pytest part_{number}"}, f"FAILED part_{number}: expected {number}"),
    ]


@pytest.mark.parametrize("tokens", [300, 600, 1_200])
def test_summaries_of_summaries_neither_grow_nor_lose_everything_at_once(tokens: int) -> None:
    chance = random.Random(tokens)
    kept = ""
    rounds = 24
    for number in range(1, rounds + 1):
        items: list[MessageGroup | Summary] = [*([summary(kept)] if kept else []), *_round(number, chance)]
        kept = extract_summary(items, tokens, count)
        assert count(kept) <= tokens
        assert f"part number {number}," in kept
        assert f"/home/dev/shop/part_{number}/handler.py" in kept
    assert "Now look after part number 1," in kept  # what it all began with
    known = [number for number in range(1, rounds + 1) if f"part_{number}/handler.py" in kept]
    assert len(known) >= tokens // 150
    assert sum(known) / len(known) > rounds / 2


def test_what_was_worked_on_stays_in_a_long_conversation_and_a_cut_text_loses_it() -> None:
    chance = random.Random(7)
    items: list[MessageGroup] = [
        said("user", "Make the shop faster."),
        said("user", "Use the new cache instead of the old one."),
    ]
    files = [f"src/shop/module_{number}.py" for number in range(5)]
    for number in range(200):
        noise = " ".join(f"word{chance.randrange(10**6)} other_{chance.randrange(10**6)}" for _ in range(60))
        items.append(did("grep", {"pattern": f"thing{number}"}, noise))
        if 50 <= number < 100:
            items.append(did("edit", {"path": files[number % 5], "new": f"cache.put({number})"}))
    text = extract_summary(items, 300, count)
    assert all(name in text for name in files)
    assert "Use the new cache instead of the old one." in text
    whole = json.dumps([[part.text for part in _texts(unit)] for unit in items])
    assert not any(name in whole[:600] + whole[-600:] for name in files)


def _texts(unit: MessageGroup) -> Sequence[Text]:
    return [part for message in unit.messages for part in _all_parts(message) if isinstance(part, Text)]


LONG = {
    "blanks": " ",
    "lines": "\n",
    "tags": "<a ",
    "open tags": "<a b",
    "fences": "```\n",
    "dots": "a.",
    "slashes": "/a",
    "colons": "a.py:1:",
    "stops": "! ",
    "no blanks": "用",
    "marks": "- ",
    "bars": "|",
    "failures": "error ",
    "failing lines": "a: error\n",
    "questions": "is it so? ",
    "decisions": "do not do it. ",
    "quotes": '"',
}


@pytest.mark.parametrize("piece", LONG.values(), ids=LONG)
def test_no_text_keeps_it_busy(piece: str) -> None:
    """Each would take minutes if a pattern went back and forth in it."""
    long = piece * (100_000 // len(piece))
    spelt = Data({"key": long})
    items: list[MessageGroup | Summary] = [
        said("user", long),
        said("assistant", long, spelt),
        did("run", {"what": long}, long),
        summary(long),
    ]
    assert count(extract_summary(items, 100, count)) <= 100


def test_it_counts_no_more_for_a_longer_conversation() -> None:
    def counted(units: int) -> int:
        seen = 0

        def counting(text: str) -> int:
            nonlocal seen
            seen += len(text)
            return count(text)

        chance = random.Random(units)
        extract_summary([unit for number in range(units // 5) for unit in _round(number, chance)], 500, counting)
        return seen

    assert counted(500) < 3 * counted(50)


SEED = """
from holdfast.model.content import Text
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.text.extract.summary import extract_summary
numbers = range(100, 140)
texts = (
    " ".join(f"a_{n}" for n in numbers),
    " ".join(f"a_{n} b_{n} c_{n}" for n in numbers),
    " ".join(f"c_{n} d_{n} c_{n} e_{n} e_{n} e_{n}" for n in numbers),
    " ".join(f"Use a_{n} b_{n} c_{n} d_{n} e_{n}." for n in numbers),
)
items = [
    MessageGroup((Message(id="1", seq=1, role="assistant", content=(Text(text),), time_us=0, principal="p"),))
    for text in texts
]
print(extract_summary(items, 200, lambda text: len(text) // 4))
"""


def test_the_seed_of_hashes_changes_nothing() -> None:
    """Fragments of equal worth are told apart by their order alone."""
    texts = {
        subprocess.run(
            [sys.executable, "-c", SEED], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "3", "4")
    }
    assert len(texts) == 1
    assert b"a_100" in texts.pop()


def test_what_a_client_wrote_is_not_said_by_its_user_and_comes_last() -> None:
    """The task of a user is not lost behind what their client writes into the same message."""
    rules = "<system-reminder>\nYou can use these skills.\n" + "- skill: does something.\n" * 60 + "</system-reminder>"
    task = "Fix the rounding in billing/invoices.py. Do not touch the tests."
    nag = "The task tools have not been used recently."
    items = [
        said("user", rules, f"{task}\n{rules}\nThe port stays 8080."),
        said("assistant", "I begin with the tests of the rounding."),
        said("user", f"<system-reminder>\n{nag}\n</system-reminder>"),
        said("assistant", "The cause is a float."),
    ]
    short = rows(extract_summary(items, 90, count))
    assert f"User: {task} … The port stays 8080." in short
    assert not any(row.startswith("User:") and ("skill" in row or nag in row) for row in short)
    whole = extract_summary(items, AMPLE, count)
    assert f"Client: {nag}" in rows(whole)
    assert f"Client: {nag}" in rows(extract_summary([summary(whole), said("user", "And?")], AMPLE, count))


@pytest.mark.parametrize("text", ["<system-reminder>Be quick.", "<div>Be quick.</div>", "</system-reminder>", "a < b"])
def test_what_is_no_whole_block_of_a_client_is_said_by_the_user(text: str) -> None:
    assert rows(extract_summary([said("user", text)], AMPLE, count)) == [f"User: {text}"]
