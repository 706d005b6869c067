"""An upstream of plain sockets: it records the exact bytes of requests, and answers with the bytes that a test gives it;
and a client of plain sockets, which sees the exact bytes of answers."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

WAIT_S = 20
"""How long a test waits for an event that comes at once, if it comes."""


class RawRequest(NamedTuple):
    """A request, as it came."""

    head: bytes
    """The request line and the headers, with the empty line."""
    framed: bytes
    """The body with its framing."""
    body: bytes

    @property
    def line(self) -> bytes:
        return self.head.split(b"\r\n", 1)[0]

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return parse_headers(self.head)

    def find(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


def parse_headers(head: bytes) -> list[tuple[bytes, bytes]]:
    lines = head.rstrip(b"\r\n").split(b"\r\n")[1:]
    return [(name, value.strip()) for name, _, value in (line.partition(b":") for line in lines)]


class WireReader:
    """Reads requests or answers from a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.rest = b""

    def fill(self) -> bool:
        data = self.connection.recv(1 << 16)
        self.rest += data
        return bool(data)

    def read_head(self) -> bytes | None:
        while b"\r\n\r\n" not in self.rest:
            if not self.fill():
                return None
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        return head + b"\r\n\r\n"

    def take(self, size: int) -> bytes:
        while len(self.rest) < size:
            if not self.fill():
                raise EOFError
        data, self.rest = self.rest[:size], self.rest[size:]
        return data

    def take_line(self) -> bytes:
        while b"\r\n" not in self.rest:
            if not self.fill():
                raise EOFError
        line, _, self.rest = self.rest.partition(b"\r\n")
        return line

    def read_chunk(self) -> tuple[bytes, bytes]:
        """A chunk with its framing, and its bytes; the last one is empty."""
        line = self.take_line()
        data = self.take(int(line, 16))
        return line + b"\r\n" + data + self.take(2), data

    def read_body(self, head: bytes) -> tuple[bytes, bytes]:
        """A body with its framing, and its bytes. Raises EOFError if it was cut."""
        headers = {name.lower(): value for name, value in parse_headers(head)}
        if headers.get(b"transfer-encoding", b"").lower() == b"chunked":
            framed = body = b""
            while True:
                frame, data = self.read_chunk()
                framed += frame
                body += data
                if not data:
                    return framed, body
        body = self.take(int(headers.get(b"content-length", b"0")))
        return body, body


Script: TypeAlias = Callable[[RawRequest, socket.socket], None]


class RawUpstream:
    """Listens on loopback. Each request is recorded, then `script` answers it. `context`: it speaks TLS."""

    def __init__(self, script: Script, context: ssl.SSLContext | None = None) -> None:
        self.script = script
        self.context = context
        self.requests: list[RawRequest] = []
        self.gone = threading.Event()
        """A connection was closed by the other side while its answer was open."""
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.connections: list[socket.socket] = []
        """All that were ever accepted."""
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http{'' if self.context is None else 's'}://127.0.0.1:{self._listener.getsockname()[1]}"

    @property
    def host(self) -> bytes:
        return self.url.partition("://")[2].encode()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # else `accept` goes on
        self._listener.close()
        for connection in self.connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.connections.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), self._secure(connection) as secured:
            reader = WireReader(secured)
            while (head := reader.read_head()) is not None:
                framed, body = reader.read_body(head)
                request = RawRequest(head, framed, body)
                self.requests.append(request)
                self.script(request, secured)

    def _secure(self, connection: socket.socket) -> socket.socket:
        return connection if self.context is None else self.context.wrap_socket(connection, server_side=True)

    def wait_for_gone(self, connection: socket.socket) -> None:
        """In a script: wait until the other side closes the connection."""
        with contextlib.suppress(OSError):
            while connection.recv(1024):
                pass
        self.gone.set()


def cut(connection: socket.socket) -> None:
    """In a script: close a connection in the middle of an answer."""
    connection.shutdown(socket.SHUT_RDWR)


def answer_with(*pieces: bytes) -> Script:
    """A script that sends these bytes, whatever was asked."""

    def script(_request: RawRequest, connection: socket.socket) -> None:
        for piece in pieces:
            connection.sendall(piece)

    return script


def build_answer(
    body: bytes,
    *,
    status: str = "200 OK",
    headers: str = "Content-Type: application/json\r\n",
    is_chunked: bool = False,
) -> bytes:
    """The bytes of an answer."""
    head = f"HTTP/1.1 {status}\r\n{headers}"
    if is_chunked:
        chunks = b"".join(frame_chunk(body[at : at + 7]) for at in range(0, len(body), 7))
        return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunks + b"0\r\n\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def frame_chunk(data: bytes) -> bytes:
    return b"%x\r\n" % len(data) + data + b"\r\n"


class RawClient(WireReader):
    """A connection to a gateway."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self.host = f"{host}:{port}".encode()
        connection = socket.create_connection((host, int(port)), timeout=WAIT_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().__init__(connection)

    def send(self, line: str, headers: str = "", body: bytes = b"") -> None:
        """Send a request. Without other framing, a body has its length."""
        if body and "transfer-encoding" not in headers.lower() and "content-length" not in headers.lower():
            headers += f"Content-Length: {len(body)}\r\n"
        head = f"{line} HTTP/1.1\r\nHost: {self.host.decode()}\r\n{headers}\r\n"
        self.connection.sendall(head.encode("latin-1") + body)

    def read_start(self) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """The status and the headers of an answer, and its head."""
        head = self.read_head()
        assert head is not None, "the gateway closed the connection"
        return int(head.split(b" ", 2)[1]), parse_headers(head), head

    def read_answer(self) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """A whole answer: status, headers and body."""
        status, headers, head = self.read_start()
        _, body = self.read_body(head)
        return status, headers, body

    def close(self) -> None:
        self.connection.close()


@contextlib.contextmanager
def open_client(url: str) -> Iterator[RawClient]:
    client = RawClient(url)
    try:
        yield client
    finally:
        client.close()
