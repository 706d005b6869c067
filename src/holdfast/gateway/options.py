"""What a gateway may be told."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

PolicyChoice: TypeAlias = Literal["faithful", "frugal"]
ReadBackChoice: TypeAlias = Literal["auto", "shell", "mcp", "tool", "none"]
"""How models read what left their view. `auto`: by the shell of clients that have one, else by a tool that is added."""


class DeskOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How conversations are recorded and shortened."""

    policy: PolicyChoice = "faithful"
    window: int | None = None
    """The most tokens of a request; by default, what the model takes, up to the window of the policy."""
    user: str | None = None
    """Whose ledger takes the facts that the user states; by default, the session's own."""
    observe: bool = True
    """Whether facts are read from what the user says."""
    read_back: ReadBackChoice = "auto"
    run: str = ""
    """The id of the `holdfast run` whose calls these are; empty for none."""
