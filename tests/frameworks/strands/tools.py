"""Tools for the tests: one that pays, and one that stops the process in the middle."""

from __future__ import annotations

import os
import signal

from strands import tool

from holdfast.strands import current_call

KEYS: list[str] = []


@tool
def pay(euros: int) -> str:
    """Pay an amount.

    Args:
        euros: How much to pay.
    """
    call = current_call()
    KEYS.append(call.key if call is not None else "")
    return f"paid {euros}"


@tool
def die() -> str:
    """Stop the process before there is a result."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"
