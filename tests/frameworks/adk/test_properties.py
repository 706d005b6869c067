"""The pure parts, for any input."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from google.adk.events._rewind_events import _apply_rewinds
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.flows.llm_flows.contents import _get_contents
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast.adk.contents import arrange_contents, find_sources, read_view
from holdfast.adk.events import decode_event, encode_event, live_events
from holdfast.adk.memory_service import join_signs, normalize, separate_signs
from holdfast.adk.names import actor_of, escape_name, thread_of
from holdfast.adk.state import merge_state, split_state
from holdfast.adk.transcripts import list_messages
from holdfast.adk.uris import open_uri, read_uri
from holdfast.errors import HoldfastError, InvalidArgument
from holdfast.frameworks.shadows import Shadow
from holdfast.frameworks.shown import show_pack

ANY_TEXT = st.text(st.characters(codec=None), max_size=12)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(ANY_TEXT, ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_two_names_never_become_one(app: str, user: str, other_app: str, other_user: str) -> None:
    assert (actor_of(app, user) == actor_of(other_app, other_user)) == ((app, user) == (other_app, other_user))
    assert (escape_name(user) == escape_name(other_user)) == (user == other_user)


@given(ANY_TEXT, st.integers(1, 3), ANY_TEXT, st.integers(1, 3))
def test_two_branches_never_become_one_thread(branch: str, generation: int, other: str, later: int) -> None:
    same = (branch, generation) == (other, later)
    assert (thread_of(branch, generation) == thread_of(other, later)) == same
    assert thread_of(branch, generation) not in ("#state", "#memory", "#artifacts")


@given(
    st.dictionaries(st.sampled_from(["", "app:", "user:"]).flatmap(lambda p: st.just(p + "k") | st.just(p + "x")), JSON)
)
def test_state_is_split_and_merged(state: dict[str, Any]) -> None:
    assert merge_state(*split_state({**state, "temp:gone": 1})) == state


@given(ANY_TEXT)
def test_signs_are_joined_as_they_were(text: str) -> None:
    if "\u200b" not in text:
        assert join_signs(separate_signs(text)) == normalize(text)


@given(st.text(max_size=20), st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_an_event_reads_back_equal(text: str, delta: dict[str, Any]) -> None:
    content = types.Content(
        role="user", parts=[types.Part(text=text), types.Part.from_bytes(data=text.encode(), mime_type="x/y")]
    )
    event = Event(author="user", content=content, actions=EventActions(state_delta=delta), custom_metadata=delta)
    assert decode_event(encode_event(event)) == event


@st.composite
def conversations(draw: st.DrawFn) -> list[Event]:
    """What apps of ADK leave: turns of two agents, with tools, thoughts, files, repeated texts and rewinds."""
    events: list[Event] = []

    def add(author: str, *parts: types.Part, **fields: Any) -> None:
        role = "user" if author == "user" or parts[0].function_response else "model"
        content = types.Content(role=role, parts=list(parts)) if parts else None
        events.append(Event(author=author, content=content, invocation_id=invocation, timestamp=len(events), **fields))

    texts = st.sampled_from(["yes", "no", "yes", "12 Main Street", "a longer text of a user"])
    for turn in range(draw(st.integers(1, 6))):
        invocation = f"i{turn}"
        if events and draw(st.integers(0, 5)) == 0:
            actions = EventActions(
                rewind_before_invocation_id=draw(st.sampled_from([each.invocation_id for each in events]))
            )
            events.append(Event(author="user", invocation_id=invocation, actions=actions))
            continue
        add("user", types.Part(text=draw(texts)))
        agent = draw(st.sampled_from(["one", "two"]))
        for step in range(draw(st.integers(0, 2))):
            names = [f"adk-{turn}-{step}-{number}" for number in range(draw(st.integers(1, 2)))]
            calls = [
                types.Part(function_call=types.FunctionCall(id=name, name="look", args={"n": 1})) for name in names
            ]
            add(agent, *([types.Part(text="hm", thought=True)] if draw(st.booleans()) else []), *calls)
            results = [
                types.Part(
                    function_response=types.FunctionResponse(id=name, name="look", response={"seen": draw(texts)})
                )
                for name in names
            ]
            add(agent, *results)
        extra = [types.Part.from_bytes(data=b"x", mime_type="image/png")] if draw(st.booleans()) else []
        add(agent, types.Part(text=draw(texts)), *extra, actions=EventActions(state_delta={"k": turn}))
        if draw(st.booleans()):
            events.append(Event(author=agent, invocation_id=invocation, actions=EventActions(state_delta={"only": 1})))
    return events


@given(conversations())
@settings(deadline=None)
def test_rewinds_leave_what_adk_leaves(events: list[Event]) -> None:
    assert live_events(events) == _apply_rewinds(events)


@given(conversations(), st.sampled_from(["one", "two"]))
@settings(deadline=None, max_examples=60)
def test_a_pack_that_changes_nothing_sends_what_adk_sends(events: list[Event], agent: str) -> None:
    """And it comes from events of ADK, content by content. The tail is added at the end."""
    contents = _get_contents(None, copy.deepcopy(events), agent)
    live = live_events(events)
    sources = find_sources(contents, live, agent)
    assert None not in sources
    order = [live.index(source.event) for each in sources if each for source in each]
    assert order == sorted(order)
    with holdfast.open("memory:") as engine:
        shadow = Shadow(engine.create_session("s"), observe=False)
        messages = list_messages(events, "", "")
        if not messages:
            return
        shadow.follow(messages)
        shadow.session.close_calls("none")
        pack = shadow.session.pack("what?", budget=50_000)
        calls = [each.id or "" for event in live for each in event.get_function_responses()]
        view = read_view(show_pack(pack, shadow), [*shadow.known_ids(), *calls])
        arranged = arrange_contents(contents, live, agent, view)
    assert arranged[:-1] == contents
    assert (arranged[-1].parts or [types.Part()])[0].text == view.tail


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("holdfast:///agent.db", "agent.db"),
        ("holdfast:///data/agent%20one.db", "data/agent one.db"),
        ("holdfast:////var/lib/agent.db", "/var/lib/agent.db"),
        (
            "holdfast://ada:secret@db.example/desk?sslmode=require",
            "postgresql://ada:secret@db.example/desk?sslmode=require",
        ),
        ("holdfast:postgresql:///desk?host=/tmp", "postgresql:///desk?host=/tmp"),
        ("holdfast:https://state.example", "https://state.example"),
    ],
)
def test_addresses(uri: str, address: str) -> None:
    assert read_uri(uri) == address


@pytest.mark.parametrize("uri", ["", "sqlite:///x.db", "holdfast:", "holdfast://", "holdfast:///"])
def test_addresses_of_no_store_are_refused(uri: str) -> None:
    with pytest.raises(InvalidArgument, match="uri"):
        read_uri(uri)


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://ada:s3cret@db.example/desk",
        "postgresql://db.example/desk?password=s3cret",
        "holdfast://ada:s3cret@db example:port/desk",
        "sqlite+x://ada:s3cret@db.example/desk",
    ],
)
def test_no_error_quotes_a_password(uri: str) -> None:
    with pytest.raises(HoldfastError) as caught:
        open_uri(uri)
    assert "s3cret" not in f"{caught.value} {caught.value!r} {caught.value.__cause__!r}"
