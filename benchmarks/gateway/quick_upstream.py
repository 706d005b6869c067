"""A provider that answers at once, for measurements of time: the recorded reply that a request names, as a stream.

Prints its port as a line. Its only argument is a file with the replies: {"name": [blocks…]}.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.gateway.upstreams.replies import Names, build_message, read_reply
from tests.gateway.upstreams.seals import Sealer
from tests.gateway.upstreams.streams import stream_message

BYTES_PER_TOKEN = 4
_SEALER = Sealer("benchmark")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


class QuickProvider:
    def __init__(self, replies: dict[str, list[dict[str, Any]]]) -> None:
        self._replies = replies
        self._sizes: dict[str, int] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.partition(b":")[::2] for line in head.lower().split(b"\r\n")[1:])
                size = int(fields.get(b"content-length", b"0"))
                await reader.readexactly(size)
                frames = self._answer(fields.get(b"x-fake-reply", b"").strip().decode(), size)
                writer.write(HEAD + b"".join(b"%x\r\n%b\r\n" % (len(frame), frame) for frame in frames) + b"0\r\n\r\n")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _answer(self, name: str, size: int) -> list[bytes]:
        """The reply, with a usage by the sizes of this request and the last one of the same session."""
        session, _, number = name.partition("/")
        before = min(size, self._sizes.get(session, 0))
        self._sizes[session] = size
        usage = {
            "input_tokens": 4,
            "cache_read_input_tokens": before // BYTES_PER_TOKEN,
            "cache_creation_input_tokens": (size - before) // BYTES_PER_TOKEN,
            "output_tokens": 50,
        }
        reply = read_reply(self._replies.get(f"{session.partition('+')[0]}/{number}", "Done."))
        message = build_message(reply, Names(session, int(number or 0)), _SEALER, "claude-sonnet-4-5", usage)
        return list(stream_message(message))


async def serve(provider: QuickProvider) -> None:
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0, limit=1 << 20)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(QuickProvider(json.loads(Path(sys.argv[1]).read_text()))))
