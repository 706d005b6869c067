"""Tools for the tests: one that pays, and one that stops the process in the middle."""

from __future__ import annotations

import os
import signal

from agent_framework import tool

from holdfast.agent_framework import current_call

KEYS: list[str] = []


@tool(approval_mode="never_require")
def pay(euros: int) -> str:
    """Pay an amount."""
    call = current_call()
    KEYS.append(call.key if call is not None else "")
    return f"paid {euros}"


@tool(approval_mode="never_require")
async def die() -> str:
    """Stop the process before there is a result."""
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"
