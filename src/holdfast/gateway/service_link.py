"""What `holdfast run` gives its gateway: a socket that listens already, an id, and a pipe that closes when nobody needs the
gateway any more."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import MutableMapping

import msgspec

LINK_VARIABLE = "HOLDFAST_RUN_LINK"


class ServiceLink(msgspec.Struct, frozen=True, kw_only=True):
    """The link between a run and its gateway; the sockets and pipes are file descriptors."""

    run: str
    listener: int
    lifeline: int

    def encode(self) -> str:
        return msgspec.json.encode(self).decode()

    def watch(self) -> None:
        """End this process in order when the lifeline closes."""
        threading.Thread(target=self._wait, name="gateway-lifeline", daemon=True).start()

    def _wait(self) -> None:
        while os.read(self.lifeline, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)


def take_link(environ: MutableMapping[str, str]) -> ServiceLink | None:
    """The link that this process was started with; None if it was not started by `holdfast run`."""
    value = environ.pop(LINK_VARIABLE, None)
    return None if value is None else msgspec.json.decode(value, type=ServiceLink)
