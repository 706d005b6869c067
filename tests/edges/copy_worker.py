"""A process that copies one store into another, says so of every page, and is killed."""

from __future__ import annotations

import os
import sys
import time

import msgspec

from holdfast.runtime import store_copy
from tests.crash.worker import serve_nursery

PAGE = 5
PAUSE_S = 0.001


class Copy(msgspec.Struct, frozen=True):
    source: str
    target: str


def copy_until_killed(line: bytes) -> None:
    """Whoever is done says so again and again, so that it is never too late for a kill."""
    task = msgspec.json.decode(line, type=Copy)
    store_copy._PAGE = PAGE
    store_copy.copy(task.source, task.target, progress=lambda done, _: say(b"%d" % done))
    while True:
        say(b"done")
        time.sleep(PAUSE_S)


def say(line: bytes) -> None:
    os.write(1, line + b"\n")


if __name__ == "__main__":
    assert sys.argv[1:] == ["nursery"]
    serve_nursery(copy_until_killed)
