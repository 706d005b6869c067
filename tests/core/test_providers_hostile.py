"""Malformed and hostile data: a draft or an InvalidInput, never another error, and never a wait."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given as having
from hypothesis import settings
from hypothesis import strategies as st

from holdfast.errors import InvalidArgument, InvalidInput
from holdfast.providers import Deltas, MessageDraft, read, read_all
from tests import hostile
from tests.core import converse_examples
from tests.core import provider_examples as given
from tests.core.converse_examples import GEMINI_PARTS
from tests.core.test_providers_deltas import SAMPLES, add_all, sample
from tests.support import figure

Path = tuple[str | int, ...]

WHOLE: dict[str, Any] = {
    **SAMPLES,
    "spoken": given.chat_completion(
        {"refusal": "no", "audio": {"id": "a"}, "function_call": {"name": "find", "arguments": "{}"}}
    ),
    "chat user": {
        "role": "user",
        "name": "ada",
        "content": [
            {"type": "text", "text": "x"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD", "detail": "low"}},
            {"type": "file", "file": {"file_data": "QUJD", "filename": "a"}},
            {"type": "input_audio", "input_audio": {"data": "QUJD", "format": "wav"}},
        ],
    },
    "chat tool": {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "x"}], "is_error": False},
    "anthropic user": {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": [{"type": "text", "text": "x"}]},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
            {"type": "document", "source": {"type": "text", "data": "x"}, "title": "t"},
        ],
    },
    "responses user": {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_image", "image_url": "u"}, {"type": "input_file", "file_data": "QUJD"}],
    },
    "responses output": {
        "type": "function_call_output",
        "call_id": "a",
        "output": [{"type": "input_text", "text": "x"}],
    },
    "local call": {"type": "computer_call", "call_id": "a", "id": "b", "action": {"type": "click", "x": 1}},
    **converse_examples.SAMPLES,
    "gemini user": {
        "role": "user",
        "parts": [
            {"functionResponse": {"id": "a", "name": "find", "response": {"output": 1}, "parts": [GEMINI_PARTS[5]]}},
            {"fileData": {"fileUri": "u", "mimeType": "image/png"}, "partMetadata": {"aB": 1}},
        ],
    },
    "bedrock user": {
        "role": "user",
        "content": [
            {"toolResult": {"toolUseId": "a", "content": [{"json": {"x": 1}}, {"text": "x"}], "status": "error"}},
            {"document": {"format": "pdf", "name": "n", "source": {"bytes": b"ABC"}, "context": "c"}},
            {"guardContent": {"text": {"text": "x", "qualifiers": ["query"]}}},
        ],
    },
    "litellm": given.chat_completion(
        {
            "content": "x",
            "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}],
            "provider_specific_fields": {"thought_signatures": ["c2ln"]},
            "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}],
        }
    ),
    "our own": {
        "role": "assistant",
        "content": ["x"],
        "tool_calls": [{"id": "a", "name": "find", "args": {}}],
        "tool_results": [{"tool_call_id": "a", "result": 1, "is_error": False}],
        "usage": {"input_tokens": 1},
        "metadata": {"a": 1},
    },
}
STREAMED: dict[str, Any] = {
    **{provider: sample(provider) for provider in SAMPLES},
    **{provider: converse_examples.sample(provider) for provider in converse_examples.SAMPLES},
    "litellm": [
        {
            "choices": [
                {
                    "index": 0,
                    "delta": {
                        "thinking_blocks": [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}],
                        "provider_specific_fields": {"a": ["b"], "c": "d"},
                    },
                    "finish_reason": "stop",
                }
            ]
        }
    ],
}

WRONG: list[Any] = ["", "x", "\ud800", 0, -1, 2**70, True, 1.5, [], {}, [[]], [{}], {"type": 7}, {"type": "text"}]
ODD = [
    *hostile.OBJECTS,
    *(case for case in hostile.STRUCTURES if "100000 deep" in case.name or "in itself" in case.name),
    *(hostile.HostileCase(repr(value), functools.partial(copy.copy, value)) for value in WRONG),
]


def paths(value: Any, here: Path = ()) -> Iterator[Path]:
    """Every place in a value, itself first."""
    yield here
    inner = value.items() if type(value) is dict else enumerate(value) if type(value) is list else ()
    for key, item in inner:
        yield from paths(item, (*here, key))


def replaced(value: Any, path: Path, change: Callable[[], Any]) -> Any:
    """A copy with something else in one place, if an earlier change has left that place; the rest is shared."""
    if not path:
        return change()
    key, *deeper = path
    there = key in value if type(value) is dict else type(value) is list and key in range(len(value))
    if not there:
        return value
    shallow = copy.copy(value)
    shallow[key] = replaced(value[key], tuple(deeper), change)
    return shallow


def refused_or(take: Callable[..., Any], *given: Any) -> Any:
    """What comes of it; None if it is refused as it should be."""
    try:
        return take(*given)
    except InvalidInput as error:
        return None if str(error) else pytest.fail("an error without words")


def taken(value: Any) -> None:
    """Read in every way; only an InvalidInput may come of it."""
    for drafts in (refused_or(read, value), refused_or(read_all, [value])):
        assert all(type(draft) is MessageDraft for draft in drafts or ())
    streamed(value)


def streamed(events: Any) -> None:
    deltas = Deltas()
    refused_or(add_all, deltas, events if type(events) is list else [events])
    assert type(deltas.text) is str
    for take in (deltas.response, deltas.partial):
        refused_or(read, refused_or(take))


ALL = [(taken, WHOLE), (streamed, STREAMED)]
PLACES = [(take, values[name], name, path) for take, values in ALL for name in values for path in paths(values[name])]


def test_there_are_many_places() -> None:
    assert len(PLACES) > 600


@pytest.mark.parametrize("name", sorted({name for *_, name, _ in PLACES}))
def test_any_wrong_value_in_any_place_is_a_draft_or_a_typed_error(name: str) -> None:
    turns = itertools.cycle(ODD)
    for take, whole, _, path in (place for place in PLACES if place[2] == name):
        for case in itertools.islice(turns, figure(17, len(ODD))):
            take(replaced(whole, path, case.make))


@pytest.mark.parametrize("case", hostile.CASES, ids=lambda case: case.name)
def test_any_hostile_value_is_refused_with_a_typed_error(case: hostile.HostileCase) -> None:
    taken(case.make())
    for key in ("content", "tool_calls", "metadata", "choices", "output"):
        taken({"role": "assistant", key: case.make()})
    taken(given.anthropic_message([{"type": "tool_use", "id": "a", "name": "find", "input": case.make()}]))
    taken(given.anthropic_message([{"type": "thinking", "thinking": case.make()}]))
    streamed([sample("chat")[0], case.make()])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=figure(150, 10_000))
@having(st.data())
def test_data_that_was_changed_in_several_places_is_a_draft_or_a_typed_error(data: st.DataObject) -> None:
    take, values = ALL[data.draw(st.integers(0, 1))]
    value = values[data.draw(st.sampled_from(sorted(values)))]
    for path in data.draw(st.lists(st.sampled_from(list(paths(value))), min_size=1, max_size=4)):
        new = data.draw(JSON | st.sampled_from(hostile.CASES).map(lambda case: case.make()))
        value = replaced(value, path, [new].pop)
    take(value)


class Dumping:
    """What claims to be an object of a client."""

    def __init__(self, dump: Callable[[], Any], kind: Any = None) -> None:
        self._dump = dump
        self.type = kind

    def model_dump(self, **_: Any) -> Any:
        return self._dump()


def failing() -> Any:
    raise hostile.HostileError("no")


def endless() -> Any:
    return endless()


@pytest.mark.parametrize(
    "dump", [failing, endless, lambda: None, lambda: "x", lambda: {1: 2}, lambda: Dumping(failing)]
)
@pytest.mark.parametrize("kind", [None, "message_start", "chunk"])
def test_an_object_that_cannot_be_dumped_is_invalid_content(dump: Callable[[], Any], kind: Any) -> None:
    for entrance in (read, Deltas().add, lambda value: read({"role": "user", "content": [value]})):
        with pytest.raises(InvalidArgument):
            entrance(Dumping(dump, kind))


def test_an_object_whose_attributes_fail_is_invalid_content() -> None:
    shy = type("Shy", (), {"__getattr__": lambda *_: failing(), "type": property(lambda _: failing())})()
    for entrance in (read, Deltas().add):
        with pytest.raises(InvalidArgument):
            entrance(shy)


def test_a_key_that_fails_when_compared_is_never_compared() -> None:
    def key(name: str) -> object:
        return type("Key", (), {"__hash__": lambda _: hash(name), "__eq__": lambda *_: failing()})()

    for name in ("role", "type", "object", "choices"):
        for entrance in (read, Deltas().add):
            with pytest.raises(InvalidArgument, match="not text"):
                entrance({key(name): "x"})
