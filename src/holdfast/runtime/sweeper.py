"""Sweep in a background thread: `engine.admin.sweeper()`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.errors import HoldfastError, InvalidArgument, StoreClosed, describe_value

MAX_PAUSE_S = 10**6


def check_pause(every_s: object) -> float:
    """Check the seconds between two sweeps."""
    if type(every_s) not in (int, float) or not 0 < every_s <= MAX_PAUSE_S:  # type: ignore[operator]
        reason = f"{describe_value(every_s)} is not a number of seconds above 0 and up to {MAX_PAUSE_S}"
        raise InvalidArgument(argument="every_s", reason=reason)
    return float(every_s)  # type: ignore[arg-type]


def log_failure(pause: float) -> None:
    """Log the error that is being handled."""
    import logging  # noqa: PLC0415 - slow to load

    logging.getLogger("holdfast.sweeper").exception("sweep failed; the next one is in %s seconds", pause)


@contextmanager
def run_sweeper(sweep: Callable[[], object], every_s: float) -> Iterator[None]:
    """Sweep until the block ends. A failed sweep is logged, and the next one tries again."""
    pause = check_pause(every_s)
    done = threading.Event()

    def run() -> None:
        while not done.wait(pause):
            try:
                sweep()
            except StoreClosed:
                return
            except HoldfastError:
                log_failure(pause)

    thread = threading.Thread(target=run, name="holdfast-sweeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
