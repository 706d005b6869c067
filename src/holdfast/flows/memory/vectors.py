"""Vectors of the passages that long-term memory has taken.

Laws: a vector is made once for each passage and embedder, in the background. Until then the passage is found by its
words. An embedder that fails delays vectors, and nothing else. A text that it refuses delays no other: it gets a vector
that is near nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

from holdfast.errors import EmbedderFailed, describe_value
from holdfast.flows import effects
from holdfast.flows.context import EngineContext
from holdfast.flows.effects import Flow
from holdfast.model import limits
from holdfast.model.names import check_whole
from holdfast.ports import Embedder

_REFUSALS = 3
"""Texts that fail one after the other before the embedder itself is taken to have failed."""


def embed_pending(engine: EngineContext, *, limit: int = limits.READ_EVENTS) -> Flow[int]:
    """Embed passages that have no vector yet, at most so many. Returns how many. Raises EmbedderFailed."""
    check_whole("limit", limit, 1, limits.READ_EVENTS)
    embedder, done = engine.embedder, 0
    while embedder is not None and done < limit:
        size = min(limits.EMBED_PASSAGES, limit - done)
        passages = yield from effects.unembedded_passages(engine.tenant, embedder.name, size)
        if not passages:
            break
        texts = [each.text for each in passages]
        try:
            vectors = yield from embed_texts(embedder, texts)
        except EmbedderFailed as error:
            vectors = yield from _embed_each(embedder, texts, error)
        yield from effects.put_vectors(
            embedder.name, [(each.key, vector) for each, vector in zip(passages, vectors, strict=True)]
        )
        done += len(passages)
    return done


def _embed_each(embedder: Embedder, texts: Sequence[str], failure: EmbedderFailed) -> Flow[list[tuple[float, ...]]]:
    """The vectors of texts that failed together. If all of them fail, it is the embedder, not a text."""
    vectors: list[tuple[float, ...]] = []
    refused = (0.0,) * embedder.dimensions
    for text in texts:
        try:
            vectors += yield from embed_texts(embedder, [text])
        except EmbedderFailed:
            vectors.append(refused)
            if len(vectors) >= _REFUSALS and all(vector == refused for vector in vectors):
                break
    if all(vector == refused for vector in vectors):
        raise failure
    return vectors


def embed_texts(embedder: Embedder, texts: Sequence[str], *, is_query: bool = False) -> Flow[list[tuple[float, ...]]]:
    """The vectors of texts, checked and scaled to length 1. A question waits no longer than for a memory."""
    embed = functools.partial(embedder.embed, texts, is_query=is_query)
    timeout_s = limits.MEMORY_TIMEOUT_S if is_query else limits.DELIVERY_TIMEOUT_S
    try:
        answer = yield from effects.run_outside(embed, timeout_s=timeout_s)
        vectors = [_scale(tuple(map(float, vector))) for vector in answer]
    except Exception as error:
        raise EmbedderFailed(embedder=embedder.name, reason=f"{type(error).__name__}: {error}"[:200]) from error
    if len(vectors) != len(texts) or any(len(vector) != embedder.dimensions for vector in vectors):
        reason = f"{describe_value(answer)} is not {len(texts)} vectors of {embedder.dimensions} numbers"
        raise EmbedderFailed(embedder=embedder.name, reason=reason)
    return vectors


def _scale(vector: tuple[float, ...]) -> tuple[float, ...]:
    length = math.sqrt(sum(each * each for each in vector))
    if not math.isfinite(length) or length == 0:
        raise ValueError("a vector has no direction")
    return vector if abs(length - 1) < 1e-6 else tuple(each / length for each in vector)
