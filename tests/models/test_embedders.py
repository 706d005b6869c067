"""Embedders: vectors of length 1, in order, from a server, and from a model on this machine."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import errors
from holdfast.model import limits
from holdfast.models import LocalEmbedder, OpenAIEmbedder
from holdfast.models.embedders import normalize_vector
from tests.models.servers import ModelServer

Embed: TypeAlias = Callable[..., list[list[float]]]


async def embed_and_close(embedder: OpenAIEmbedder, texts: Any, options: dict[str, Any]) -> list[list[float]]:
    try:
        return await embedder.embed_async(texts, **options)
    finally:
        await embedder.close_async()


@pytest.fixture(params=["blocking", "awaited"])
def embed(request: pytest.FixtureRequest) -> Embed:
    """Embed texts, both ways."""

    def embed_blocking(embedder: OpenAIEmbedder, texts: Any, **options: Any) -> list[list[float]]:
        try:
            return embedder.embed(texts, **options)
        finally:
            embedder.close()

    if request.param == "blocking":
        return embed_blocking
    return lambda embedder, texts, **options: asyncio.run(embed_and_close(embedder, texts, options))


def make(server: ModelServer, **options: Any) -> OpenAIEmbedder:
    given: dict[str, Any] = {"dimensions": 2, "base_url": f"{server.address}/v1", "timeout_s": 5, **options}
    return OpenAIEmbedder("small", **given)


def length(vector: list[float]) -> float:
    return math.sqrt(sum(each * each for each in vector))


def test_vectors_come_in_order_and_have_length_one(server: ModelServer, embed: Embed) -> None:
    texts = ["x" * number for number in range(1, limits.EMBEDDED_TEXTS + 10)]
    embedder = make(server)
    vectors = embed(embedder, texts)
    assert [round(each[0] / each[1]) for each in vectors] == [len(text) for text in texts]
    assert all(length(each) == pytest.approx(1) for each in vectors)
    assert [len(body["input"]) for body in server.bodies] == [limits.EMBEDDED_TEXTS, 9]
    assert embedder.usage.input_tokens > 0
    assert (embedder.name, embedder.dimensions) == ("small/2", 2)


def test_no_text_is_refused_by_the_server(server: ModelServer, embed: Embed) -> None:
    assert embed(make(server), []) == []
    assert len(embed(make(server), ["", "  ", "x" * 1_000_000])) == 3
    assert server.provider.refused == []
    assert max(map(len, server.bodies[-1]["input"])) <= 24_000


def test_queries_and_passages_have_their_prefixes(server: ModelServer, embed: Embed) -> None:
    embedder = make(server, prefixes=("query: ", "passage: "))
    embed(embedder, ["a"], is_query=True)
    embed(embedder, ["a"])
    assert [body["input"] for body in server.bodies] == [["query: a"], ["passage: a"]]


@pytest.mark.parametrize("vector", [[], [1.0], [1.0, 2.0, 3.0], [1.0, "2"], [1.0, None], [1.0, True], [1e999, 1.0]])
def test_a_vector_of_another_shape_is_invalid(server: ModelServer, embed: Embed, vector: Any) -> None:
    server.provider.embed = lambda text: vector
    with pytest.raises(errors.ModelFailed):
        embed(make(server), ["text"])


def test_a_missing_vector_is_invalid(server: ModelServer, embed: Embed) -> None:
    server.provider.spelling = lambda data: b'{"data": [{"index": 1, "embedding": [1, 2]}]}'
    with pytest.raises(errors.AnswerInvalid, match="one for each text"):
        embed(make(server), ["text"])


def test_a_busy_server_is_asked_again_and_then_given_up(server: ModelServer, embed: Embed) -> None:
    statuses = [429, 500]
    server.provider.weather = lambda body: statuses.pop() if statuses else 0
    assert len(embed(make(server), ["text"])) == 1
    server.provider.weather = lambda body: 503
    with pytest.raises(errors.ModelUnavailable):
        embed(make(server), ["text"])
    server.provider.weather = lambda body: 401
    with pytest.raises(errors.ModelRejected):
        embed(make(server), ["text"])


@pytest.mark.usefixtures("quick")
def test_a_server_that_hangs_or_drips_times_out(server: ModelServer, embed: Embed) -> None:
    server.provider.drips = 0.1
    with pytest.raises(errors.ModelTimeout):
        embed(make(server, timeout_s=0.3), ["text"])
    server.provider.delay = lambda body: 30
    with pytest.raises(errors.ModelTimeout):
        embed(make(server, timeout_s=0.3), ["text"])


@pytest.mark.parametrize("texts", ["text", None, [5], ["\ud800"], [None]])
def test_what_is_no_list_of_texts_is_refused(server: ModelServer, embed: Embed, texts: Any) -> None:
    with pytest.raises(errors.InvalidInput):
        embed(make(server), texts)
    with pytest.raises(errors.InvalidInput):
        LocalEmbedder().embed(texts)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=8))
def test_every_vector_gets_length_one(figures: list[float]) -> None:
    vector = normalize_vector(figures)
    assert length(vector) == pytest.approx(1)
    assert len(vector) == len(figures)


# The local embedder


def test_without_its_packages_the_local_embedder_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(errors.ExtraMissing, match=r"holdfast\[embeddings\]"):
        LocalEmbedder().embed(["text"])


def test_near_meanings_have_near_vectors() -> None:
    cat, kitten, rates = LocalEmbedder().embed(
        ["The cat sits on the mat.", "A kitten is resting on a rug.", "Interest rates rose in May."]
    )
    near, far = (sum(a * b for a, b in zip(cat, other, strict=True)) for other in (kitten, rates))
    assert near > 0.5 > 0.2 > far
    assert len(cat) == LocalEmbedder.dimensions
    assert length(cat) == pytest.approx(1)


def test_a_text_has_one_vector_whatever_comes_with_it_and_whoever_asks() -> None:
    embedder = LocalEmbedder()
    texts = ["", "A room in Lyon.", "word " * 2_000, "東京 🜨", "word " * 3_000]
    vectors = embedder.embed(texts)
    assert vectors[2] == vectors[4], "what is behind the limit is left out"
    answers: list[list[list[float]]] = []
    threads = [threading.Thread(target=lambda: answers.append(embedder.embed(texts[::-1]))) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert answers == [vectors[::-1]] * 4
    assert embedder.embed(["[SEP] a [CLS]"]) == embedder.embed(["[sep] a [cls]"]), "a text is data"
    assert LocalEmbedder(threads=2).embed(texts[1:2])[0] == pytest.approx(vectors[1], abs=1e-3)
