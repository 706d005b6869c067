"""Sweeping in the background: in a thread, for those who block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from holdfast.errors import HoldfastError, InvalidNumber, StoreClosed, shown

LONGEST_S = 10**6


def checked_pause(every_s: object) -> float:
    if type(every_s) not in (int, float) or not 0 < every_s <= LONGEST_S:  # type: ignore[operator]
        raise InvalidNumber(what="every_s", value=shown(every_s), low=0, high=LONGEST_S)
    return float(every_s)  # type: ignore[arg-type]


def tell(pause: float) -> None:
    """Log the error that is being handled."""
    import logging  # noqa: PLC0415 - nobody else needs it

    logging.getLogger("holdfast.sweeper").exception("a sweep failed; the next one is in %s s", pause)


@contextmanager
def sweeping(sweep: Callable[[], object], every_s: float) -> Iterator[None]:
    """A failed sweep is logged, and the next one tries again: nothing is lost, it only lasts longer."""
    pause = checked_pause(every_s)
    done = threading.Event()

    def run() -> None:
        while not done.wait(pause):
            try:
                sweep()
            except StoreClosed:
                return
            except HoldfastError:
                tell(pause)

    thread = threading.Thread(target=run, name="holdfast-sweeper", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
