"""SIGTERM and SIGINT in a server process: readiness ends at once, and the server itself after the drain time.

uvicorn sets its own handlers before the application starts; these run first, and then hand the signal on.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from holdfast.server.state import ServerState


@contextmanager
def watch_signals(state: ServerState, drain_s: float) -> Iterator[None]:
    """Let the process drain and stop at signals, while the block runs. In a thread that is not the main one, nothing
    happens: signals are not for it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before: dict[signal.Signals, Any] = {}

    def hand_on(number: signal.Signals, frame: FrameType | None) -> None:
        state.stop()
        handler: Callable[[int, FrameType | None], object] | int | None = before.get(number)
        if callable(handler):
            handler(number, frame)

    def handle(number: int, frame: FrameType | None) -> None:
        known = signal.Signals(number)
        is_second = state.is_draining
        state.is_draining = True
        if drain_s and known is signal.SIGTERM and not is_second:
            loop.call_soon_threadsafe(loop.call_later, drain_s, hand_on, known, None)
        else:
            loop.call_soon_threadsafe(hand_on, known, frame)

    for each in (signal.SIGTERM, signal.SIGINT):
        before[each] = signal.signal(each, handle)
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
