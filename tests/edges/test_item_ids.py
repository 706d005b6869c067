"""Ids of the items of a rendering: stable, each given once, those of clients kept; and the messages found by them."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import ToolCall, codec, errors
from holdfast.core.sessions import message_ids
from holdfast.flows.sessions.transcript import message_of
from holdfast.model import limits
from holdfast.model.sessions.events import MessageRecorded
from holdfast.render.item_ids import REFERRING_ITEMS
from holdfast.types import Opaque, Source
from tests.edges.engines import EngineDesk
from tests.support import figure

ITEMS: list[dict[str, Any]] = [
    {
        "type": "message",
        "role": "user",
        "id": "msg_client",
        "content": [{"type": "input_text", "text": "Where is it?"}],
    },
    {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "sealed"},
    {
        "type": "message",
        "role": "assistant",
        "id": "msg_reply",
        "status": "completed",
        "content": [{"type": "output_text", "text": "One moment.", "annotations": []}],
    },
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": '{"a": 1}'},
    {"type": "function_call_output", "id": "fco_1", "call_id": "call_1", "output": "at the depot"},
    {"role": "user", "id": "plain_client", "content": "Thanks."},
]


def items_of(session: holdfast.Session, **options: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = session.context.render("openai-responses", ids=True, **options)["input"]
    return items


def test_ids_that_a_client_brought_are_kept_and_found(engine: holdfast.Engine) -> None:
    session = engine.create_session("c1")
    messages = session.record_all(ITEMS)
    ids = [item["id"] for item in items_of(session)]
    assert ids == ["msg_client", "rs_1", "msg_reply", "fc_1", "fco_1", "plain_client"]
    seqs = {name: getattr(session.find_message(name), "seq", None) for name in (*ids, "call_1")}
    user, reply, result, thanks = (message.seq for message in messages)
    assert seqs == {
        "msg_client": user, "rs_1": reply, "msg_reply": reply, "fc_1": reply, "call_1": reply, "fco_1": result,
        "plain_client": thanks,
    }  # fmt: skip
    assert session.find_message(messages[0].id) == messages[0]


def test_items_without_an_id_get_one_from_their_message(engine: holdfast.Engine) -> None:
    session = engine.create_session("c1")
    session.record("user", "Where is it?")
    calls = [{"name": "look", "args": {"n": number}} for number in range(2)]
    reply = session.record("assistant", "One moment.", tool_calls=calls)
    for call in reply.tool_calls:
        session.result(call, "at the depot")
    items = items_of(session)
    assert [item["id"] for item in items] == ["m2_0", "m3_0", "m3_1", "m3_2", "m4_0", "m5_0"]
    for item in items:
        message = session.find_message(item["id"])
        assert message is not None
        assert item["id"].startswith(f"m{message.seq}_")
    assert session.find_message("c3_1") == session.find_message("h3_0") == session.find_message("m3_2")
    for absent in ("m99_0", "m1_0", "nobody", "s7", "tail", "c9_9", f"m{'9' * 19}_0"):
        assert session.find_message(absent) is None
    for wrong in ("", "x" * 5_000, 7, None):
        with pytest.raises(errors.InvalidArgument):
            session.find_message(wrong)  # type: ignore[arg-type]


def test_the_id_of_a_response_finds_the_reply(engine: holdfast.Engine) -> None:
    session = engine.create_session("c1")
    session.record("user", "Hello?")
    response = {
        "object": "response", "id": "resp_9", "model": "gpt-5.5", "status": "completed",
        "output": [{"type": "message", "id": "msg_9", "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": "Hello.", "annotations": []}]}],
    }  # fmt: skip
    reply = session.record(response)
    assert session.find_message("resp_9") == session.find_message("msg_9") == reply


def test_an_id_is_given_once_to_the_first_that_claims_it(desk: EngineDesk) -> None:
    session = desk.open("memory").create_session("c1")
    for text in ("one", "two"):
        session.record_all([{"type": "message", "role": "user", "id": "twice", "content": text}])
    session.record_all([{"type": "message", "role": "user", "id": "m2_0", "content": "a forged one"}])
    items = items_of(session)
    assert [item["id"] for item in items] == [
        "twice",
        "m3_1",
        "m4_1",
    ]  # the first part of each is the shell with the id
    found = session.find_message("twice")
    assert found is not None
    assert found.seq == 3
    forged = session.find_message("m2_0")
    assert forged is not None
    assert forged.seq == 2


PLACES = ("source", "metadata", "call", "part", "around")
NAMES = st.sampled_from(["alpha", "msg_1", "a.b:c-d", "ä", 'say "hi"', "back\\slash", "x/y", "\u202e", "a\nb", "0.0"])


@settings(max_examples=figure(60, 2_000), deadline=None)
@given(st.fixed_dictionaries(dict.fromkeys(PLACES, NAMES)), st.booleans(), st.sampled_from(PLACES))
def test_no_id_is_ruled_out_that_a_message_has(names: dict[str, str], escape: bool, place: str) -> None:
    block = json.dumps({"id": names["part"], "around": {"id": names["around"]}}, ensure_ascii=escape)
    if escape:
        block = block.replace("a", r"\u0061")
    event = MessageRecorded(
        role="assistant",
        content=(Opaque("openai", block),),
        tool_calls=(ToolCall("c1_0", "look", {}, names["call"]),),
        tokens=1,
        counter="c",
        source=Source(id=names["source"]),
        metadata={"id": names["metadata"]},
    )
    with holdfast.open("memory:") as engine:
        stored = engine.create_session("s").events()[0]
    recorded = msgspec.structs.replace(stored, type=event.name, payload=codec.encode_event(event))
    assert names[place] in message_ids.ids_of(message_of(recorded))
    assert message_ids.may_have_id(recorded, names[place])
    assert message_ids.may_have_id(recorded, recorded.id)
    assert not message_ids.may_have_id(recorded, "nobody") or escape


def test_the_search_goes_back_to_the_first_message_or_to_its_limit(
    engine: holdfast.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = engine.create_session("c1")
    session.record_all([{"type": "message", "role": "user", "id": "oldest", "content": "Hello?"}])
    for start in range(0, 260, 130):
        session.record_all([("user", f"word {start + number}") for number in range(130)])
    session.withdraw(after=200)
    found = session.find_message("oldest")
    assert found is not None
    assert (found.seq, found.withdrawn) == (2, 0)
    last = session.find_message(session.messages(limit=1)[0].id)
    assert last is not None
    assert last.withdrawn
    monkeypatch.setattr(limits, "FOUND_MESSAGES", 260)
    assert session.find_message("oldest") is None
    monkeypatch.setattr(limits, "FOUND_MESSAGES", 261)
    assert session.find_message("oldest") == found
    session.erase([2], "asked to")
    assert session.find_message("oldest") is None


def test_a_rendering_for_a_provider_has_no_ids_of_ours(desk: EngineDesk) -> None:
    session = desk.open("memory").create_session("c1")
    session.record("user", "Hello?")
    session.record("assistant", "Hello.")
    assert all("id" not in item for item in session.context.render("openai-responses")["input"])
    assert all("id" not in item for item in session.pack(model="gpt-5.5").openai_responses()["input"])
    for other in ("anthropic", "openai", "text"):
        with pytest.raises(errors.InvalidArgument):
            session.context.render(other, ids=True)


def test_ids_are_unique_and_stay_whatever_the_view_shows(desk: EngineDesk) -> None:
    """Random conversations: longer, compacted and with a smaller budget, an item has the id that it had before."""
    for seed in range(figure(15, 500)):
        rng = random.Random(seed)
        session = desk.open("memory").create_session(f"c{seed}")
        before: dict[str, int | None] = {}
        for number in range(rng.randint(1, 25)):
            choice = rng.randint(0, 3)
            if choice == 0:
                session.record("user", f"message {number} {'word ' * rng.randint(1, 60)}")
            elif choice == 1:
                session.record_all([{"type": "message", "role": "user", "id": rng.choice("abc"), "content": "again"}])
            elif choice == 2:
                calls = [{"name": "look", "args": {"n": each}} for each in range(rng.randint(1, 3))]
                for call in session.record("assistant", "looking", tool_calls=calls).tool_calls:
                    session.result(call, f"result {'word ' * rng.randint(1, 40)}")
            else:
                session.record_all(
                    [{"role": "assistant", "content": [{"type": "text", "text": each} for each in "xyz"]}]
                )
            if rng.random() < 0.1:
                session.context.compact(strategy=holdfast.types.SummarizeOldest(keep_recent=4), window=9_000)
            items = items_of(session)
            ids = [item["id"] for item in items if item.get("type") not in REFERRING_ITEMS]
            assert len({*ids}) == len(ids)
            plain = session.context.render("openai-responses")["input"]
            assert [{**item, "id": None} for item in items] == [{**item, "id": None} for item in plain]
            for name in ids:
                if message_ids.parse_seq(name):
                    message = session.find_message(name)
                    assert message is not None
                    assert before.setdefault(name, message.seq) == message.seq
