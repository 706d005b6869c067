"""Cache marks of clients: where a provider shall cache, and for how long."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from holdfast.gateway.bodies import decode, elements, is_array, members
from holdfast.gateway.dialects.elements import get_text
from holdfast.gateway.model import Slice
from holdfast.providers.fields import CACHE_HINTS

_TTL = re.compile(r"(\d{1,6})([smh])")
_UNITS_S = {"s": 1, "m": 60, "h": 3600}
_DEFAULT_TTL_S = 300


class Marks(NamedTuple):
    """Cache marks: how many, the longest time, and a mark of that time as it is written.

    Providers want marks of a longer time before those of a shorter one: so one more mark has the longest time."""

    number: int = 0
    ttl_s: int = 0
    longest: bytes = b""


def add_marks(marks: Marks, text: bytes, at: Slice, block: dict[str, Any], *, is_inner: bool = False) -> Marks:
    """The marks of a block added: its own, and those of the blocks that its content has."""
    if text.find(b"cache_control", at.start, at.end) < 0:
        return marks
    fields = members(text, at)
    inner = fields.get("content")
    if inner is not None and is_array(text, inner) and not is_inner:
        for place, each in zip(elements(text, inner), block["content"], strict=True):
            if type(each) is dict:
                marks = add_marks(marks, text, place, each, is_inner=True)
    own = read_mark(text, fields.get("cache_control"))
    longest = own.longest if own.ttl_s >= marks.ttl_s else marks.longest
    return Marks(marks.number + own.number, max(marks.ttl_s, own.ttl_s), longest)


def read_mark(text: bytes, at: Slice | None) -> Marks:
    """The mark at this slice; none for another value."""
    mark = None if at is None else decode(text, at)
    if at is None or type(mark) is not dict:
        return Marks()
    return Marks(1, read_ttl(get_text(mark, "ttl")) or _DEFAULT_TTL_S, text[at.start : at.end])


def read_ttl(text: str) -> int:
    """The seconds of a time such as `5m` or `24h`; 0 if it is none."""
    match = _TTL.fullmatch(text)
    return 0 if match is None else int(match[1]) * _UNITS_S[match[2]]


def strip_marks(block: Any) -> Any:
    """A block without its mark."""
    if type(block) is not dict or CACHE_HINTS.isdisjoint(block):
        return block
    return {key: item for key, item in block.items() if key not in CACHE_HINTS}
