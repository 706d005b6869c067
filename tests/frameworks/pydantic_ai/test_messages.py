"""Messages of the framework as messages of a session: names, and the way there and back."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

import holdfast
from holdfast.frameworks.shadows import Shadow
from holdfast.pydantic_ai.messages import convert_message, name_pieces, restore_response
from tests.frameworks.pydantic_ai.histories import answer, ask, every_kind

WORDS = st.sampled_from(["yes", "no", "go on"])
TURNS = st.lists(st.tuples(WORDS, WORDS), max_size=8)
TEXTS = st.text(max_size=40)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
PARTS: st.SearchStrategy[Any] = st.one_of(
    st.builds(TextPart, TEXTS),
    st.builds(ThinkingPart, TEXTS, signature=st.none() | TEXTS),
    st.builds(
        ToolCallPart,
        st.sampled_from(["pay", "look"]),
        st.one_of(st.none(), TEXTS, st.dictionaries(TEXTS, VALUES, max_size=3)),
        tool_call_id=st.uuids().map(str),
    ),
)


def names(messages: list[ModelMessage], known: list[str] | None = None, **options: Any) -> list[str]:
    converted = [convert_message(message) for message in messages]
    return [each.shadow.id for each in name_pieces(converted, known or (), **options)]


def build(turns: list[tuple[str, str]]) -> list[ModelMessage]:
    return [message for asked, answered in turns for message in (ask(asked), answer(answered))]


@given(TURNS, WORDS, st.integers(0, 20))
def test_a_window_has_the_names_of_the_whole(turns: list[tuple[str, str]], word: str, cut: int) -> None:
    """However often the same words were said before."""
    history = build(turns)
    known = names(history)
    window = history[min(cut, max(len(history) - 1, 0)) :]
    new = names([*window, ask(word)], known)
    assert new[:-1] == known[len(history) - len(window) :]
    assert new[-1] not in known
    assert names([*history, ask(word)])[-1] == new[-1]


@given(TURNS, WORDS)
def test_a_list_that_goes_on_from_the_end_has_new_names(turns: list[tuple[str, str]], word: str) -> None:
    known = names(build(turns))
    [name] = names([ask(word)], known, continues=True)
    assert name not in known
    assert names([ask(word), answer("new")], [*known, name], continues=True)[0] == name


@given(TURNS)
def test_names_do_not_depend_on_how_parts_are_grouped(turns: list[tuple[str, str]]) -> None:
    results: list[ModelMessage] = []
    together: list[ModelMessage] = []
    for number, (asked, answered) in enumerate(turns):
        part = ToolReturnPart("look", answered, tool_call_id=str(number))
        results += [ModelRequest(parts=[part]), ask(asked)]
        together.append(ModelRequest(parts=[part, UserPromptPart(asked)]))
    assert names(results) == names(together)


def test_names_survive_the_frameworks_json() -> None:
    stored = ModelMessagesTypeAdapter.validate_json(ModelMessagesTypeAdapter.dump_json(every_kind()))
    assert names(stored) == names(every_kind())
    assert len({*names(stored)}) == len(names(stored))


@settings(max_examples=60, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=5))
def test_a_response_comes_back_from_the_session(parts: list[Any]) -> None:
    """Any response can be recorded, and restored so that it is known again."""
    ordered = sorted(parts, key=lambda part: isinstance(part, ToolCallPart))  # calls come last in a session
    session = holdfast.open("memory:").create_session("s")
    shadow = Shadow(session)
    messages: list[ModelMessage] = [ask("?"), ModelResponse(parts=ordered)]
    converted = [convert_message(message) for message in messages]
    shadow.follow([each.shadow for each in name_pieces(converted)])
    recorded = [*session.messages(), *session.evidence()]
    restored = [restore_response(each) for each in recorded if each.role == "assistant"]
    texts = [part for part in ordered if not isinstance(part, TextPart) or part.content]
    if restored and texts:
        assert names([ask("?"), restored[0]]) == names(messages)
    version = session.state().version
    shadow.follow([each.shadow for each in name_pieces(converted)])
    assert session.state().version == version
