"""A wire to PostgreSQL that breaks where we want it: a socket before the server's."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from contextlib import suppress
from typing import Literal, Self

from tests.postgres_server import SOCKET_FOLDER

SOCKET = ".s.PGSQL.5432"


MARK = b"<mark>"
"""What is sent with this in it is what the wire breaks on."""


STUCK_S = 120.0
"""Nothing is measured against it: only a test that hangs gets there."""


Break = Literal["before", "meanwhile", "after"]
"""Before the server has heard of it, when it has heard of it, or when it has answered."""


class PostgresProxy:
    """Breaks at the next statements with the mark in them, `times` of them. One that is `dead` carries nothing."""

    def __init__(self, folder: str) -> None:
        """`folder` is where the server has its socket."""
        self._server = os.path.join(folder, SOCKET)
        self._folder = tempfile.TemporaryDirectory(dir=SOCKET_FOLDER)
        self.folder = self._folder.name
        self.where: Break = "before"
        self.times = 0
        self.broken = 0
        self.dies = False
        """Whether it is dead once it broke."""
        self.dead = False
        self._mutex = threading.Lock()
        self._refusing = threading.Condition()
        self._refused = 0
        self._lines: list[_ProxyConnection] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(os.path.join(self.folder, SOCKET))
        self._listener.listen()
        self._thread = threading.Thread(target=self._accept)
        self._thread.start()

    def break_at(self, where: Break, times: int = 1, *, dies: bool = False) -> None:
        self.where, self.times, self.broken, self.dies = where, times, 0, dies

    def heal(self) -> None:
        self.times, self.dies, self.dead = 0, False, False

    def until_refused(self, times: int) -> None:
        """Wait until so many have tried in vain to connect."""
        with self._refusing:
            self._refused = 0
            assert self._refusing.wait_for(lambda: self._refused >= times, STUCK_S), "hardly anybody tries"

    def breaks_now(self, sent: bytes) -> bool:
        with self._mutex:
            if MARK not in sent or not self.times:
                return False
            self.times -= 1
            self.broken += 1
            return True

    def broke(self, line: _ProxyConnection) -> None:
        if self.dies:
            with self._mutex:
                self.dead = True
                for other in self._lines:
                    if other is not line:
                        other.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            if not self._carries(client):
                client.close()
                with self._refusing:
                    self._refused += 1
                    self._refusing.notify_all()

    def _carries(self, client: socket.socket) -> bool:
        server = socket.socket(socket.AF_UNIX)
        with self._mutex:
            if not self.dead and server.connect_ex(self._server) == 0:
                self._lines.append(_ProxyConnection(self, client, server))
                return True
        server.close()
        return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for line in self._lines:
            line.close()
        self._folder.cleanup()


class _ProxyConnection:
    """One connection: a thread for each direction."""

    def __init__(self, wire: PostgresProxy, client: socket.socket, server: socket.socket) -> None:
        self._wire = wire
        self._client = client
        self._server = server
        self._broken: Break | None = None
        self._threads = [threading.Thread(target=self._ask), threading.Thread(target=self._answer)]
        for thread in self._threads:
            thread.start()

    def cut(self, *ends: socket.socket) -> None:
        for end in ends or (self._client, self._server):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.cut()
        for thread in self._threads:
            thread.join()
        self._client.close()
        self._server.close()

    def _ask(self) -> None:
        with suppress(OSError):
            while sent := self._client.recv(1 << 16):
                self._broken = self._wire.where if self._wire.breaks_now(sent) else None
                if self._broken in ("before", "meanwhile"):
                    self._wire.broke(self)
                if self._broken == "before":
                    break
                self._server.sendall(sent)
                if self._broken == "meanwhile":
                    self.cut(self._client)
                    return  # the server goes on by itself, until it has something to say
        self.cut()

    def _answer(self) -> None:
        with suppress(OSError):
            while (said := self._server.recv(1 << 16)) and self._broken is None:
                self._client.sendall(said)
            if said and self._broken == "after":
                self._wire.broke(self)
        self.cut()
