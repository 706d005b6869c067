"""HTTP/1.1 on plain sockets, with control of every byte that is sent."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import itertools
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

from tests.gateway.upstreams.exchanges import Exchange, digest
from tests.gateway.upstreams.faults import Fault

HEAD_BYTES = 1 << 20
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 413: "Payload Too Large"}


@dataclasses.dataclass
class Answer:
    """What is sent, before a fault changes it."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes
    frames: tuple[int, ...] = ()
    """Of a stream: the bytes of each frame."""
    fault: Fault = dataclasses.field(default_factory=Fault)


class ClosedEarly(Exception):
    """The other side is gone, or the fault says so."""


Handler = Callable[[Exchange], Awaitable[Answer]]
Staller = Callable[[float], Awaitable[None]]


async def serve_connection(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    start: Callable[[str, str, tuple[tuple[bytes, bytes], ...]], Exchange],
    handle: Handler,
    stall: Staller,
    end: Callable[[Exchange, bool], None],
) -> None:
    """Answer the requests of one connection. `end` is called before the last bytes of an answer are written, or when it
    is clear that they never will be: whoever has read an answer finds it recorded."""
    try:
        while True:
            exchange = await _read_request(reader, writer, start)
            has_ended = False

            def complete(is_whole: bool, exchange: Exchange = exchange) -> None:
                nonlocal has_ended
                if not has_ended:
                    has_ended = True
                    end(exchange, is_whole)

            try:
                await _send(writer, exchange, await handle(exchange), stall, complete)
            finally:
                complete(False)
            if exchange.get("connection").lower() == "close":
                break
    except (ClosedEarly, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
        pass
    finally:
        writer.close()


async def _read_request(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    start: Callable[[str, str, tuple[tuple[bytes, bytes], ...]], Exchange],
) -> Exchange:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head[:-4].split(b"\r\n")
    method, target, _ = first.decode("latin-1").split(" ", 2)
    pairs = [line.partition(b":")[::2] for line in lines]
    headers = tuple((key, value.strip()) for key, value in pairs)
    exchange = start(method, target, headers)
    if exchange.get("expect").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    if exchange.get("transfer-encoding").lower() == "chunked":
        body = b"".join([chunk async for chunk in _read_chunks(reader)])
    else:
        body = await reader.readexactly(int(exchange.get("content-length") or 0))
    exchange.body, exchange.body_digest, exchange.body_bytes = body, digest(body), len(body)
    return exchange


async def _read_chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        yield (await reader.readexactly(size + 2))[:-2]
    while await reader.readuntil(b"\r\n") != b"\r\n":
        pass


async def _send(
    writer: asyncio.StreamWriter, exchange: Exchange, answer: Answer, stall: Staller, complete: Callable[[bool], None]
) -> None:
    fault = answer.fault
    is_stream = bool(answer.frames)
    body = answer.body.rstrip(b"\n") if fault.trim and is_stream else answer.body
    headers = list(answer.headers)
    if fault.gzip:
        body = gzip.compress(body, mtime=0)
        headers.append(("Content-Encoding", "gzip"))
    if is_stream:
        headers.append(("Transfer-Encoding", "chunked"))
    else:
        headers.append(("Content-Length", str(max(0, len(body) + fault.length))))
    exchange.status = answer.status
    exchange.answer_headers = tuple((key.encode("latin-1"), value.encode("latin-1")) for key, value in headers)
    if fault.cut is not None and fault.cut < 0:
        _close(writer, fault)
    if fault.stall and fault.stall_at < 0:
        await stall(fault.stall)
    lines = [f"HTTP/1.1 {answer.status} {REASONS.get(answer.status, 'Status')}"]
    lines += [f"{key}: {value}" for key, value in headers]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))
    if fault.cut == 0:
        _close(writer, fault)
    exchange.is_streamed = is_stream
    await _send_body(writer, exchange, b"" if exchange.method == "HEAD" else body, answer, stall, complete)
    await writer.drain()
    if fault.length > 0:
        _close(writer, fault)


async def _send_body(
    writer: asyncio.StreamWriter,
    exchange: Exchange,
    body: bytes,
    answer: Answer,
    stall: Staller,
    complete: Callable[[bool], None],
) -> None:
    fault, is_stream = answer.fault, exchange.is_streamed
    for start, end in _cut_pieces(body, answer):
        piece = body[start:end]
        exchange.sent += piece
        is_last = end == len(body)
        if is_last and fault.cut is None:
            complete(not fault.length)
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" if is_stream else piece)
        await writer.drain()
        if writer.is_closing():
            raise ClosedEarly
        if is_stream:
            await asyncio.sleep(0)
        if end == fault.stall_at:
            await stall(fault.stall)
        if end == fault.cut or (is_last and fault.cut is not None):
            _close(writer, fault)
    complete(True)
    if is_stream:
        writer.write(b"0\r\n\r\n")


def _cut_pieces(body: bytes, answer: Answer) -> Iterator[tuple[int, int]]:
    """Where the pieces of the body begin and end."""
    fault = answer.fault
    sizes: Iterator[int]
    if fault.chunks:
        sizes = itertools.cycle(max(1, size) for size in fault.chunks)
    elif answer.frames and not fault.gzip:
        sizes = itertools.chain(answer.frames, itertools.repeat(1 << 30))
    else:
        sizes = itertools.repeat(1 << 16 if not answer.frames else 512)
    stops = sorted(at for at in (fault.cut, fault.stall_at) if at is not None and at > 0)
    start = 0
    while start < len(body):
        end = min(len(body), start + next(sizes))
        stop = next((at for at in stops if start < at < end), end)
        yield start, stop
        start = stop


def _close(writer: asyncio.StreamWriter, fault: Fault) -> None:
    if fault.resets:
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
    raise ClosedEarly
