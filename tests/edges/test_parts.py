"""Content as dicts: in our own shape, and in the shapes of the providers."""

from __future__ import annotations

import base64
from typing import Any

import pytest

import holdfast
from holdfast import Engine, File, Image, Text, errors
from holdfast.types import Body, Data, Opaque
from tests.edges.engines import contents, expect_refusal

PNG = b"\x89PNG\r\n\x1a\n\x00"
BASE64 = base64.b64encode(PNG).decode()
URL = f"data:image/png;base64,{BASE64}"
HELLO = {"type": "text", "text": "Hello."}

SHAPES: dict[str, Any] = {
    "chat": [HELLO, {"type": "image_url", "image_url": {"url": URL}}],
    "chat, a bare address": [HELLO, {"type": "image_url", "image_url": URL}],
    "responses": [{"type": "input_text", "text": "Hello."}, {"type": "input_image", "image_url": URL}],
    "Anthropic": [
        HELLO,
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": BASE64}},
    ],
    "text and a dict": ["Hello.", {"type": "image_url", "image_url": {"url": URL}}],
}
FILES: dict[str, Any] = {
    "chat": {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{BASE64}", "filename": "a.pdf"}},
    "responses": {"type": "input_file", "file_data": f"data:application/pdf;base64,{BASE64}", "filename": "a.pdf"},
    "Anthropic": {
        "type": "document",
        "title": "a.pdf",
        "source": {"type": "base64", "media_type": "application/pdf", "data": BASE64},
    },
}


@pytest.mark.parametrize("shape", SHAPES)
def test_parts_in_the_shapes_of_the_providers(engine: Engine, shape: str) -> None:
    message = engine.create_session("s").record("user", SHAPES[shape])
    text, image = (part for part in message.content if not isinstance(part, Opaque))
    assert text == Text("Hello.")
    assert isinstance(image, Image)
    assert image.ref is not None
    assert engine.blobs.read(image.ref) == PNG


@pytest.mark.parametrize("shape", FILES)
def test_files_in_the_shapes_of_the_providers(engine: Engine, shape: str) -> None:
    session = engine.create_session("s")
    for content in ([FILES[shape]], FILES[shape], (FILES[shape],)):
        (file,) = (part for part in session.record("user", content).content if not isinstance(part, Opaque))
        assert isinstance(file, File)
        assert (file.name, file.ref.media_type, engine.blobs.read(file.ref)) == ("a.pdf", "application/pdf", PNG)


def test_parts_in_our_own_shape(engine: Engine) -> None:
    ref = engine.blobs.put(PNG, media_type="image/png")
    plain = {"digest": ref.digest, "size": ref.size, "media_type": "image/png"}
    given: list[Any] = [
        HELLO,
        {"type": "data", "value": {"a": [1]}},
        {"type": "image", "ref": plain},
        {"type": "image", "url": "https://example.com/a.png"},
        {"type": "file", "ref": plain, "name": "a.png"},
        {"type": "body", "ref": plain, "preview": "PNG"},
        {"type": "opaque", "issuer": "anthropic", "body": '{"type":"thinking"}'},
    ]
    message = engine.create_session("s").record("user", given)
    body = message.content[5]
    assert isinstance(body, Body)
    assert message.content == (
        Text("Hello."),
        Data({"a": [1]}),
        Image(ref=ref),
        Image(url="https://example.com/a.png"),
        File(ref, "a.png"),
        Body(ref, "PNG", preview_tokens=body.preview_tokens),
        Opaque("anthropic", '{"type":"thinking"}'),
    )


def test_what_goes_with_a_role_goes_with_dicts_too(engine: Engine) -> None:
    session = engine.create_session("s")
    calls = [{"name": "look", "args": {}, "id": "p"}]
    usage = holdfast.Usage(input_tokens=9)
    message = session.record("assistant", [HELLO], tool_calls=calls, usage=usage, metadata={"a": 1})
    assert (message.text, message.usage, message.metadata) == ("Hello.", usage, {"a": 1})
    assert [call.provider_id for call in message.tool_calls] == ["p"]
    session.record("user", [{"type": "tool_result", "tool_use_id": "p", "content": "found"}])
    assert session.state().open_calls == ()
    first, second = session.record_all([("user", [HELLO]), ("user", "Hello.")])
    assert first.content == second.content


WRONG: dict[str, tuple[Any, int]] = {
    "no type": ([HELLO, {"words": "x"}], 1),
    "a type that nobody knows": ([{"type": "hologram"}], 0),
    "a number": ([HELLO, HELLO, 5], 2),
    "text that is none": ([{"type": "text", "text": 5}], 0),
    "an image that is not base64": ([HELLO, {"type": "image_url", "image_url": {"url": "data:image/png;base64,!"}}], 1),
    "an image of nothing": ([HELLO, {"type": "image"}], 1),
    "two addresses of an image": ([{"type": "image", "url": 5}], 0),
    "a file without its size": ([{"type": "file", "ref": {"digest": "0" * 64}}], 0),
    "an own part with more in it": ([{"type": "data", "value": 1, "more": 2}], 0),
    "a digest that is none": ([HELLO, {"type": "file", "ref": {"digest": "x", "size": 1}}], 1),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_taken_is_named_by_its_place(engine: Engine, name: str) -> None:
    session = engine.create_session("s")
    content, index = WRONG[name]
    before = contents(engine)
    with pytest.raises(errors.InvalidArgument, match=rf"`content\[{index}\]`"):
        session.record("user", content)
    assert contents(engine) == before


def test_a_part_that_names_a_body_of_nobody_is_refused(engine: Engine) -> None:
    session = engine.create_session("s")
    with expect_refusal(engine, errors.BlobNotFound):
        session.record("user", [{"type": "file", "ref": {"digest": "0" * 64, "size": 1}}])
