"""Results too large for the log: streamed to the blob store, shown by a preview, and read back in pieces.

Run as a program, this module streams one in a process of its own and says by how much it grew.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import io
import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import holdfast
from holdfast import BlobRef, Engine, Session, Text, ToolCall, errors
from holdfast.core.history.previews import split_ends
from holdfast.model import limits
from holdfast.types import Body, Data, Opaque
from tests.edges.engines import EngineDesk, blobs_of, contents, log_of, rows_of
from tests.support import figure

ROOT = Path(__file__).parents[2]
EXAMPLES = figure(20, 1_000)
LARGE_BYTES = 100 << 20
PIECE_BYTES = 1 << 20
GROWTH_BYTES = 64 << 20


def _waiting(engine: Engine, name: str = "s") -> tuple[Session, ToolCall]:
    session = engine.create_session(name)
    return session, session.record("assistant", None, tool_calls=[{"name": "cat"}]).tool_calls[0]


def _value(engine: Engine, session: Session) -> bytes | str:
    """What the newest result holds, wherever that is."""
    [part] = session.messages(limit=1)[0].tool_results[0].content
    if isinstance(part, Body):
        return engine.blobs.read(part.ref)
    assert isinstance(part, Text)
    return part.text


# What is large


def _streams(body: bytes) -> dict[str, Any]:
    """A body in every shape that is streamed."""
    return {
        "bytes": body,
        "bytearray": bytearray(body),
        "memoryview": memoryview(body),
        "file": io.BytesIO(body),
        "iterator": (body[at : at + 7_000] for at in range(0, len(body), 7_000)),
        "iterator of one": iter([body]),
        "iterator with nothings": iter([b"", body, b""]),
    }


@pytest.mark.parametrize("shape", _streams(b""))
@pytest.mark.parametrize("size", [0, 1, limits.SPOOL_BYTES, limits.SPOOL_BYTES + 1, 3 * limits.BLOB_CHUNK_BYTES + 5])
def test_a_stream_of_text_is_kept_whole_and_is_a_blob_only_if_it_is_large(
    size: int, shape: str, engine: Engine
) -> None:
    session, call = _waiting(engine)
    body = bytes(itertools.islice(itertools.cycle(b"abc def\n"), size))
    message = session.result(call, _streams(body)[shape])
    value = _value(engine, session)
    assert (value if isinstance(value, bytes) else value.encode()) == body
    [part] = message.tool_results[0].content
    if size > limits.SPOOL_BYTES:
        digest = hashlib.sha256(body).hexdigest()
        assert isinstance(part, Body)
        assert part.ref == BlobRef(digest, size, "text/plain")
        head, tail = split_ends(part.preview, part.tail)
        assert body.startswith(head.encode() + b"\n")
        assert body.endswith(b"\n" + tail.encode())
        assert len(head) > len(tail) > limits.PREVIEW_BYTES // 4
    else:
        assert part == Text(body.decode())
        assert blobs_of(engine) == []
    assert session.state().open_calls == ()
    assert engine.admin.verify().ok


_texts = st.text(min_size=1).map(lambda text: text * (limits.SPOOL_BYTES // len(text.encode()) + 1))


@settings(max_examples=EXAMPLES)
@given(text=_texts, cuts=st.lists(st.integers(0, 1 << 17), max_size=4))
def test_any_text_comes_back_however_it_was_cut_and_its_preview_has_both_ends(text: str, cuts: list[int]) -> None:
    body = text.encode()
    at = [0, *sorted(min(each, len(body)) for each in cuts), len(body)]
    with holdfast.open("memory:") as engine:
        session, call = _waiting(engine)
        streamed = session.result(call, (body[one:two] for one, two in itertools.pairwise(at)))
        [part] = streamed.tool_results[0].content
        if len(body) > limits.SPOOL_BYTES:
            assert isinstance(part, Body)
            assert part.ref.media_type == "text/plain"
            head, tail = split_ends(part.preview, part.tail)
            assert text.startswith(head)
            assert text.endswith(tail)
            assert limits.PREVIEW_BYTES // 2 - 10 < len(part.preview.encode()) <= limits.PREVIEW_BYTES
        assert _value(engine, session) in (body, text)
        other, again = _waiting(engine, "t")
        assert other.result(again, text).tool_results[0].content == (part,)


def test_bytes_that_are_no_text_are_a_body_without_a_preview_whatever_their_size(engine: Engine) -> None:
    for number, body in enumerate((b"\xff", b"\x00\xfe" * limits.SPOOL_BYTES, b"\xc3" * 9)):
        session, call = _waiting(engine, f"s{number}")
        [part] = session.result(call, body).tool_results[0].content
        assert isinstance(part, Body)
        assert (part.ref, part.preview) == (BlobRef(hashlib.sha256(body).hexdigest(), len(body)), "")
        assert _value(engine, session) == body


def test_large_json_is_a_body_of_json_and_comes_back_equal(engine: Engine) -> None:
    session, call = _waiting(engine)
    value = {"rows": [{"n": number, "text": "x" * 50} for number in range(2_000)]}
    [part] = session.result(call, value).tool_results[0].content
    assert isinstance(part, Body)
    assert part.ref.media_type == "application/json"
    assert json.loads(engine.blobs.read(part.ref)) == value
    other, again = _waiting(engine, "t")
    assert other.result(again, {"n": 1}).tool_results[0].content == (Data({"n": 1}),)


@pytest.mark.parametrize("role", ["system", "user", "assistant"])
def test_a_long_text_in_any_message_is_a_body_with_a_preview(role: str, engine: Engine) -> None:
    session = engine.create_session("s")
    text = "é" * limits.SPOOL_BYTES
    message = session.record(role, ["short", text, Opaque("anthropic", text)])
    short, body, opaque = message.content
    assert short == Text("short")
    assert isinstance(body, Body)
    assert isinstance(opaque, Opaque)
    assert isinstance(opaque.body, BlobRef)
    assert engine.blobs.read(body.ref).decode() == engine.blobs.read(opaque.body).decode() == text
    assert message.text.startswith("short")
    assert message.text.endswith(text[: limits.PREVIEW_BYTES // 4 - 2])
    assert session.context.window().messages == (message,)
    assert message.tokens < limits.PREVIEW_BYTES


def test_the_tokens_of_a_large_result_are_those_of_its_preview(engine: Engine) -> None:
    session, call = _waiting(engine)
    message = session.result(call, "word " * 1_000_000)
    assert 0 < message.tokens <= limits.PREVIEW_BYTES
    assert session.context.window(4_000).messages[-1] == message


# Trying again, and failing


def test_a_retry_with_the_same_stream_is_the_same_answer_and_with_another_a_conflict(engine: Engine) -> None:
    session, call = _waiting(engine)
    body = random.Random(1).randbytes(3 * limits.SPOOL_BYTES)
    first = session.result(call, iter([body]), key="k")
    before = contents(engine)
    assert session.result(call, io.BytesIO(body), key="k") == first
    assert contents(engine) == before
    with pytest.raises(errors.KeyConflict):
        session.result(call, iter([body, b"more"]), key="k")
    assert (log_of(engine), rows_of(engine)) == before[:2]


def _failing() -> Iterator[bytes]:
    yield b"x" * limits.SPOOL_BYTES
    yield b"y" * limits.BLOB_CHUNK_BYTES
    raise ConnectionError("the other side is gone")


class FailingFile(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        if found := super().read(size):
            return found
        raise ConnectionError("the other side is gone")


@pytest.mark.parametrize(
    "stream",
    [_failing, lambda: FailingFile(b"x"), lambda: FailingFile(b"x" * 2 * limits.SPOOL_BYTES)],
    ids=["iterator", "short file", "long file"],
)
def test_a_stream_that_breaks_off_leaves_nothing_and_the_call_waits_on(
    stream: Callable[[], Any], engine: Engine, desk: EngineDesk
) -> None:
    session, call = _waiting(engine)
    before = contents(engine)
    with pytest.raises(ConnectionError, match="the other side"):
        session.result(call, stream())
    assert contents(engine) == before
    assert list(desk.folder.rglob("*.partial")) == []
    assert [waiting.id for waiting in session.state().open_calls] == [call.id]
    session.result(call, iter([b"at last"]))
    assert _value(engine, session) == "at last"


def test_a_large_result_goes_with_the_message_that_holds_it(engine: Engine) -> None:
    session, call = _waiting(engine)
    message = session.result(call, b"x" * (2 * limits.SPOOL_BYTES))
    session.erase([message.seq], "asked to")
    assert [row for row in rows_of(engine) if type(row).__name__ == "BlobRow"] == []
    assert engine.admin.verify().ok


# The price of a hundred megabytes


def _pieces() -> Iterator[bytes]:
    """Bytes that do not compress, the same ones every time, never all of them at once."""
    rng = random.Random(5)
    for _ in range(LARGE_BYTES // PIECE_BYTES):
        yield rng.randbytes(PIECE_BYTES)


async def _pieces_awaited() -> AsyncIterator[bytes]:
    for piece in _pieces():
        yield piece


def _whole() -> bytes:
    body = bytearray(LARGE_BYTES)
    for number, piece in enumerate(_pieces()):
        body[number * PIECE_BYTES : (number + 1) * PIECE_BYTES] = piece
    return bytes(body)


def _text(first: str) -> str:
    """A character outside of ASCII makes every character of it two bytes wide in memory."""
    half = LARGE_BYTES // PIECE_BYTES // 2
    return first + "".join(piece.hex() for piece in itertools.islice(_pieces(), half))


def _file(folder: str) -> Any:
    path = os.path.join(folder, "large")
    with open(path, "wb") as file:
        file.writelines(_pieces())
    return open(path, "rb")


TEXTS = {"text": "", "wide text": "Ω"}
STREAMS: dict[str, Callable[[str], Any]] = {
    "iterator": lambda _: _pieces(),
    "file": _file,
    "bytes": lambda _: _whole(),
    "one piece": lambda _: iter([_whole()]),
    "text": lambda _: _text(TEXTS["text"]),
    "wide text": lambda _: _text(TEXTS["wide text"]),
}


def _figure(name: str) -> int:
    """Of this process, in bytes. What `getrusage` calls the peak begins with the parent's; the kernel's own does not."""
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name))


def _grown(before: int) -> int:
    return _figure("VmHWM") - before


def _settle() -> int:
    """Let the peak begin anew at what is in memory now."""
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")
    return _figure("VmRSS")


@functools.cache
def _digest(first: str | None) -> str:
    """What all streams of bytes come to, or a text that begins so."""
    digest = hashlib.sha256()
    for piece in _pieces() if first is None else [_text(first).encode()]:
        digest.update(piece)
    return digest.hexdigest()


def _ref_of(message: holdfast.Message) -> BlobRef:
    [part] = message.tool_results[0].content
    assert isinstance(part, Body)
    return part.ref


def stream_blocking(folder: str, way: str, *, blob: bool) -> dict[str, Any]:
    with holdfast.open(os.path.join(folder, "agent.db")) as engine:
        session, call = _waiting(engine, "warm")
        session.result(call, iter([b"x" * 2 * limits.SPOOL_BYTES]))
        session, call = _waiting(engine)
        stream = STREAMS[way](folder)
        before = _settle()
        ref = engine.blobs.put(stream) if blob else _ref_of(session.result(call, stream))
        written = _grown(before)
        before = _settle()
        digest = hashlib.sha256()
        for piece in engine.blobs.chunks(ref):
            digest.update(piece)
        if not blob:
            for budget in (8_000, 1_000_000):  # what cannot be shown whole is not read whole
                assert session.pack(budget=budget).manifest.of("reduced")
        read = _grown(before)
        assert engine.admin.verify().ok
        return {"written": written, "read": read, "digests": [digest.hexdigest(), ref.digest]}


async def stream_awaited(folder: str, way: str, *, blob: bool) -> dict[str, Any]:
    async with await holdfast.open_async(os.path.join(folder, "agent.db")) as engine:
        for name in ("warm", "s"):
            session = await engine.create_session(name)
            call = (await session.record("assistant", None, tool_calls=[{"name": "cat"}])).tool_calls[0]
            if name == "warm":
                await session.result(call, iter([b"x" * 2 * limits.SPOOL_BYTES]))
        stream = _pieces_awaited() if blob else STREAMS[way](folder)
        before = _settle()
        ref = await engine.blobs.put(stream) if blob else _ref_of(await session.result(call, stream))
        written = _grown(before)
        before = _settle()
        digest = hashlib.sha256()
        async for piece in engine.blobs.chunks(ref):
            digest.update(piece)
        read = _grown(before)
        assert (await engine.admin.verify()).ok
        return {"written": written, "read": read, "digests": [digest.hexdigest(), ref.digest]}


@pytest.mark.parametrize(
    ("way", "how"),
    [
        *((way, "blocking") for way in (*STREAMS, "put_blob")),
        *((way, "awaited") for way in ("iterator", "file", "put_blob")),
    ][:: figure(4, 1)],
)
def test_a_hundred_megabytes_pass_through_a_process_that_hardly_grows(way: str, how: str, desk: EngineDesk) -> None:
    command = [sys.executable, "-m", "tests.edges.test_large_results", str(desk.folder), way, how]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr[-1_000:]
    figures = json.loads(answer.stdout)
    assert figures["digests"] == [_digest(TEXTS.get(way))] * 2
    assert max(figures["written"], figures["read"]) <= GROWTH_BYTES, figures


def main(folder: str, way: str, how: str) -> None:
    blob = way == "put_blob"
    way = "iterator" if blob else way
    if how == "awaited":
        figures = asyncio.run(stream_awaited(folder, way, blob=blob))
    else:
        figures = stream_blocking(folder, way, blob=blob)
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
