"""A reply in several rounds: the model reads with the gateway's own tool, and goes on.

Laws: what the client gets is one reply, and texts of it come as the provider sends them. What was read is stored before the
end of the reply is sent. If the provider refuses to go on, the client gets its error.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import NamedTuple

from holdfast.gateway.codings import BodyDecoder, Undecodable
from holdfast.gateway.connections import RawHeaders
from holdfast.gateway.injected import extend_request
from holdfast.gateway.model import Dialect
from holdfast.gateway.splitters import ReadCall, ReadReply, make_splitter
from holdfast.gateway.upstream import UpstreamAnswer, UpstreamCut, UpstreamFailed

ERROR_BYTES = 1 << 20
"""How much of a refusal is read."""
DECODED_BYTES = 1 << 30
FAILED_STATUS = 502
"""What a client is told if the provider cannot be reached again."""
_LENGTH_HEADERS = frozenset({b"content-length", b"content-encoding"})


class RoundDriver(NamedTuple):
    """What a reply in rounds needs of its surroundings."""

    ask: Callable[[bytes], Awaitable[UpstreamAnswer]]
    """Send a request like the first one, with this body."""
    read: Callable[[Sequence[ReadCall]], Awaitable[list[str]]]
    keep: Callable[[ReadReply], Awaitable[None]]


def clean_reply_headers(headers: RawHeaders) -> RawHeaders:
    """The headers of a reply whose body changes on the way."""
    return [pair for pair in headers if pair[0].lower() not in _LENGTH_HEADERS]


async def follow_rounds(
    dialect: Dialect, body: bytes, answer: UpstreamAnswer, driver: RoundDriver
) -> AsyncGenerator[bytes, None]:
    """Yield the reply for the client. `body` is the request that was sent, and `answer` what came. Raises UpstreamCut."""
    is_stream = answer.find_header(b"content-type").startswith("text/event-stream")
    splitter = make_splitter(dialect, is_stream=is_stream)
    while True:
        try:
            async with contextlib.aclosing(_decode(answer)) as chunks:
                async for chunk in chunks:
                    if out := splitter.feed(chunk):
                        yield out
        finally:
            await answer.close()
        end = splitter.finish()
        results = await driver.read(end.calls) if end.calls else []
        if not end.goes_on:
            break
        body = extend_request(dialect, body, splitter.answer(results))
        try:
            answer = await driver.ask(body)
        except UpstreamFailed:
            yield splitter.fail(FAILED_STATUS, b"")
            return
        if not 200 <= answer.status < 300:
            yield splitter.fail(answer.status, await _read_error(answer))
            return
    if end.calls:
        splitter.answer(results)
    if splitter.hidden:
        await driver.keep(splitter.read_reply())
    if end.data:
        yield end.data


async def _decode(answer: UpstreamAnswer) -> AsyncGenerator[bytes, None]:
    """The body of an answer. One that cannot be decoded is one that was cut."""
    coding = answer.find_header(b"content-encoding").strip()
    try:
        decoder = None if coding in ("", "identity") else BodyDecoder(coding, DECODED_BYTES)
    except Undecodable as error:
        raise UpstreamCut(str(error)) from error
    async with contextlib.aclosing(answer.read()) as chunks:
        async for chunk in chunks:
            try:
                data = chunk if decoder is None else decoder.decode(chunk)
            except Undecodable as error:
                raise UpstreamCut(str(error)) from error
            yield data


async def _read_error(answer: UpstreamAnswer) -> bytes:
    data = b""
    try:
        async with contextlib.aclosing(_decode(answer)) as chunks:
            async for chunk in chunks:
                data += chunk
                if len(data) > ERROR_BYTES:
                    break
    finally:
        await answer.close()
    return data
