"""What a pack shows of stored bodies: whole within its share of the budget, else by a preview, and never silently."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import Brief, Tool, errors
from holdfast.types import Spooling
from tests.support import figure

EXAMPLES = figure(13, 500)
PASTE = "".join(f"{number:05} The quick brown fox jumps over the lazy dog.\n" for number in range(1_300))
FILE = "".join(f"    value_{number} = compute({number}, scale=3)\n" for number in range(1_200))
LOG = "".join(f"12:00:{number % 60:02} request {number:06} served in {number % 97} ms\n" for number in range(30_000))


def _session(**options: Any) -> Any:
    return holdfast.open("memory:", **options).create_session("s")


def _read(session: Any, value: object, name: str = "read_file") -> Any:
    (call,) = session.record("assistant", tool_calls=[{"name": name, "args": {}}]).tool_calls
    return session.result(call, value)


def _texts(pack: Any) -> list[str]:
    """What a pack shows of each message."""
    return [each.text for each in pack.history.messages]


def _of(pack: Any, seq: int) -> Any:
    (entry,) = [
        each for each in pack.manifest.entries if each.section == "history" and each.at <= seq <= max(each.at, each.to)
    ]
    return entry


# Whole or by a preview


@pytest.mark.parametrize("budget", [64_000, 200_000])
def test_a_paste_of_66_kb_and_a_file_of_44_kb_stand_whole(budget: int) -> None:
    session = _session()
    assert len(PASTE) > 66_000
    assert len(FILE) > 44_000
    session.record("user", PASTE)
    message = _read(session, FILE)
    session.record("user", "What is wrong with it?")
    pack = session.pack(budget=budget)
    assert {PASTE, FILE} <= {*_texts(pack)}
    assert json.dumps(FILE)[1:-1].rstrip("\\n") in json.dumps(pack.openai())
    assert "bytes total" not in pack.text
    assert _of(pack, message.seq).fate == "included"
    assert pack.tokens.used <= budget


def test_the_share_of_a_tool_result_is_a_quarter_and_that_of_a_paste_a_half() -> None:
    session = _session()
    pasted = session.record("user", PASTE)
    result = _read(session, PASTE)
    tokens = session.handles.get(f"h{pasted.seq}_0").tokens
    for budget, shown in ((tokens * 4 + 2_000, 2), (tokens * 4 - 40, 1), (tokens * 2 + 4, 1), (tokens * 2 - 4, 0)):
        pack = session.pack(budget=budget, settle=False)
        assert _texts(pack).count(PASTE) == shown
        assert (_of(pack, pasted.seq).fate == "reduced") == (shown == 0)
        assert (_of(pack, result.seq).fate == "reduced") == (shown < 2)


def test_shares_and_previews_are_policy() -> None:
    session = _session(spooling=Spooling(result_share=0.01, message_share=0.01, preview=100, preview_share=0.001))
    session.record("user", PASTE)
    text = session.pack(budget=200_000).text
    assert PASTE[:100] in text
    assert PASTE[:2_000] not in text


def test_a_preview_grows_with_the_budget() -> None:
    session = _session()
    _read(session, LOG)
    small, large = (_texts(session.pack(budget=budget))[-1] for budget in (8_000, 200_000))
    assert LOG[:1_300] in small
    assert LOG[:1_400] not in small
    assert LOG[-600:] in small
    assert LOG[:11_000] in large  # with the end that was stored
    assert LOG[:12_000] not in large
    assert LOG[-600:] in large


def test_a_preview_of_json_is_its_structure_at_every_budget() -> None:
    session = _session()
    _read(session, {"orders": [{"id": number, "state": "open"} for number in range(20_000)], "total": 20_000})
    for budget in (8_000, 200_000):
        text = session.pack(budget=budget).text
        assert '{"orders": [{"id": 0, "state": "open"}, {"id": 1,' in text
        assert "more)" in text


def test_a_body_is_reduced_only_when_that_is_shorter() -> None:
    session = _session(spooling=Spooling(threshold=100, preview=0))
    text = "A line of words that is stored. " * 8
    session.record("user", text)
    assert text in session.pack(budget=500, brief=Brief(read_handle=False)).text


def test_without_a_budget_the_stored_preview_is_shown() -> None:
    session = _session()
    session.record("user", PASTE)
    assert PASTE not in session.context.render("text")
    assert PASTE not in session.context.view().messages[0].text
    assert PASTE.rstrip() in session.context.render("text", budget=200_000)
    assert PASTE in session.context.view(budget=200_000).messages[0].text


bodies = st.sampled_from([200, 900, 3_000, 9_000, 30_000, 90_000])


@settings(max_examples=EXAMPLES)
@given(
    sizes=st.lists(st.tuples(st.sampled_from(["user", "tool"]), bodies), min_size=1, max_size=8),
    budget=st.sampled_from([2_000, 8_000, 16_000, 64_000]),
    data=st.data(),
)
def test_a_pack_fits_and_extends_the_last_between_boundaries(
    sizes: list[tuple[str, int]], budget: int, data: st.DataObject
) -> None:
    session = _session(spooling=Spooling(threshold=500, preview=200))
    before: list[str] = []
    boundary = 0
    for number, (role, size) in enumerate(sizes):
        text = f"{number} word " * (size // 7)
        if role == "user":
            session.record("user", text)
        else:
            _read(session, text if number % 2 else {"text": text, "number": number})
        pack = session.pack(budget=budget)
        assert pack.tokens.used <= budget
        assert sum(pack.tokens.breakdown.values()) == pack.tokens.used
        shown = [
            each.text
            for item in pack.history.items
            if isinstance(item, holdfast.types.MessageGroup)
            for each in item.messages
        ]
        if pack.manifest.boundary == boundary:
            assert shown[: len(before)] == before
        before, boundary = shown, pack.manifest.boundary
        if data.draw(st.booleans()):
            session.record("assistant", "Fine.")


def test_a_stored_question_that_a_program_summarised_is_repeated_with_its_marker() -> None:
    session = _session()
    asked = session.record("user", PASTE)
    for number in range(3):
        _read(session, f"{number} word " * 4_000)
    session.context.summarize(session.context.draft_summary(0), "The user pasted a text, and three files were read.")
    text = session.pack(budget=64_000).text
    assert "The newest message of the user" in text
    assert f'read_handle("h{asked.seq}_0")' in text.partition("The newest message of the user")[2]


# The manifest


def test_what_is_shown_in_part_is_reduced_with_its_share() -> None:
    session = _session()
    message = _read(session, LOG)
    pack = session.pack(budget=64_000)
    entry = _of(pack, message.seq)
    assert entry.fate == "reduced"
    assert 0 < entry.share < 0.01
    assert f"of {len(LOG) / 1e6:.1f} MB shown; read_handle h{message.seq}_0 reads the rest" in entry.reason
    assert entry.reason in pack.explain()


def test_what_a_plan_excerpts_is_reduced_with_its_share() -> None:
    session = _session()
    session.record("user", "Look.")
    message = _read(session, "word " * 9_000)
    session.record("assistant", "Seen.")
    for number in range(3):
        session.record("user", f"Go on {number}.")
        session.record("assistant", "Yes.")
    session.context.compact(
        window=64_000, policy=holdfast.types.Classic(snip=0.01, micro=None, collapse=None, auto=None)
    )
    entry = _of(session.pack(budget=64_000), message.seq)
    assert entry.fate == "reduced"
    assert 0 < entry.share < 1
    assert "of 45.0 kB shown" in entry.reason
    whole = [each for each in session.pack(budget=64_000).manifest.entries if each.fate == "included"]
    assert all(each.share == 1 for each in whole)


# The tool that reads the rest


def test_the_tool_is_in_the_list_from_the_start_in_every_dialect() -> None:
    session = _session()
    session.record("user", "Hello.")
    own = Tool(name="look", description="Look.", parameters={"type": "object", "properties": {}})
    for brief in (None, Brief(tools=(own,))):
        pack = session.pack(budget=8_000, brief=brief)
        names = [each.name for each in pack.tools]
        assert names == [*(["look"] if brief else []), "read_handle"]
        assert pack.openai()["tools"][-1]["function"]["name"] == "read_handle"
        assert pack.openai_responses()["tools"][-1]["name"] == "read_handle"
        assert pack.anthropic()["tools"][-1]["input_schema"]["required"] == ["handle"]
        assert pack.tokens.breakdown["tools"] > 0


def test_a_tool_of_that_name_in_the_brief_is_the_one_offered() -> None:
    session = _session()
    session.record("user", "Hello.")
    own = Tool(name="read_handle", description="Mine.", parameters={"type": "object", "properties": {}})
    assert session.pack(budget=8_000, brief=Brief(tools=(own,))).tools == (own,)


def test_without_the_tool_every_marker_says_that_the_rest_cannot_be_read() -> None:
    session = _session()
    session.record("user", PASTE)
    _read(session, LOG)
    out = _read(session, "word " * 500)
    session.handles.page_out(f"h{out.seq}_0")
    pack = session.pack(budget=8_000, brief=Brief(read_handle=False))
    assert pack.tools == ()
    assert "tools" not in pack.openai()
    assert "read_handle" not in pack.text
    assert pack.text.count("cannot be read here") == 3
    assert all("read_handle" not in each.reason for each in pack.manifest.entries)
    assert session.pack(budget=8_000).text.count("read_handle(") == 3


def test_a_call_of_the_tool_is_run_by_one_line() -> None:
    session = _session()
    message = _read(session, LOG)
    args = {"handle": f"h{message.seq}_0", "search": "request 012345 "}
    (call,) = session.record(
        "assistant", tool_calls=[{"name": "read_handle", "args": args, "id": "toolu_1"}]
    ).tool_calls
    answer = session.run(call)
    assert "request 012345 served" in answer.text
    (call,) = session.record("assistant", tool_calls=[{"name": "read_handle", "args": args}]).tool_calls
    assert "request 012345 served" in session.run(call.id).text
    (call,) = session.record("assistant", tool_calls=[{"name": "look", "args": {}}]).tool_calls
    with pytest.raises(errors.InvalidArgument, match="look"):
        session.run(call)
    session.close_calls("not run")


# Handles of a frame


def test_a_large_critical_handle_is_whole_or_an_error() -> None:
    session = _session()
    with session.frame("Read the report", budget=500_000) as frame:
        frame.handles.add("document", PASTE, priority="critical", title="report")
        frame.record("user", "What does it say?")
        pack = frame.pack(budget=64_000)
        assert all(line in pack.text for line in PASTE.splitlines())
        with pytest.raises(errors.CriticalOverflow):
            frame.pack(budget=8_000)


def test_a_handle_of_a_frame_follows_the_budget_and_says_so() -> None:
    session = _session()
    with session.frame("Read the report", budget=500_000) as frame:
        handle = frame.handles.add("document", PASTE, title="report")
        frame.record("user", "What does the report say?")
        (entry,) = [each for each in frame.pack(budget=200_000).manifest.entries if each.id == handle.id]
        assert (entry.fate, entry.share) == ("included", 1)
        (entry,) = [each for each in frame.pack(budget=16_000).manifest.entries if each.id == handle.id]
        assert entry.fate == "reduced"
        assert 0 < entry.share < 0.2
        assert "kB shown" in entry.reason


# Reproduction


def test_a_pack_with_bodies_is_reproduced() -> None:
    session = _session()
    session.record("user", PASTE)
    _read(session, LOG)
    pack = session.pack(budget=64_000, brief=Brief(read_handle=False))
    record = session.packs.store(pack)
    session.record("assistant", "Well.")
    assert session.packs.reproduce(record).text == pack.text


# The guard


def test_a_superseded_value_in_a_stored_body_is_redacted_where_it_is_shown() -> None:
    engine = holdfast.open("memory:", spooling=Spooling(threshold=300, preview=120))
    session: Any = engine.create_session("s")
    said = "My shipping address is 123 Main Street, please. " + "It is a long story about the garden. " * 30
    session.record("user", said)
    session.record("assistant", "Noted.")
    session.ledger().set("shipping_address", "123 Main Street")
    session.ledger().set("shipping_address", "456 Oak Avenue")
    session.record("user", "Where will it go?")
    text = session.pack(budget=8_000).text
    assert "123 Main Street" not in text
    assert "It is a long story about the garden. It is a long story" in text
