"""Follow the log of a server."""

from __future__ import annotations

from typing import Any


def build_feed(*args: Any) -> Any:
    return args


class BlockingWatch:
    def __init__(self, *args: Any) -> None:
        raise NotImplementedError


class AwaitedWatch:
    def __init__(self, *args: Any) -> None:
        raise NotImplementedError
