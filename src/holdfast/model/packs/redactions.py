"""What the guard did to the history of one pack. Data only."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.model.content import Json

RedactionMode: TypeAlias = Literal["redacted", "annotated", "exposed"]
"""A marker replaces the value · the value is shown, with a note · the value is shown."""
FactEnding: TypeAlias = Literal["superseded", "retracted", "expired"]


class PackRedaction(msgspec.Struct, frozen=True, kw_only=True):
    """A superseded value in the history of a pack, and what the guard did to it."""

    at: int
    """The seq of the message or the summary that states it."""
    part: int = 0
    """The index of the part: in the content of the message; with `call`, in the content of that result."""
    call: str = ""
    """The tool call whose result, or whose arguments, state it; empty for none."""
    start: int = 0
    end: int = 0
    """The characters of the marker, or of the value, in the text of that part as the pack shows it. Both are 0 for a
    value in arguments or in a signed part, which are never edited: a note beside them says that it is outdated."""
    value: Json
    """The superseded value."""
    mode: RedactionMode
    ledger: tuple[str, ...]
    """The key of the stream of its ledger."""
    fact: str
    """The id of the superseded fact."""
    key: str
    ended_by: str = ""
    """The id of the fact that superseded it, or the seq of the event of its ledger that ended it; empty if time did."""
    ended: FactEnding
    current: Json = None
    """The current value of the key; None for none, or for one that the reader may not know."""
