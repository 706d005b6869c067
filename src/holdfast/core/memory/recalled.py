"""What a memory of the caller answers, before anything is done with it.

Law: whatever it answers, packs can be built, stored and read again. A passage that says what no passage can say is refused
as a whole: guessing what was meant would hide the fault.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from holdfast import codec
from holdfast.errors import describe_value
from holdfast.model import limits
from holdfast.model.memory.recall import RecalledPassage


def check_recalled(passages: object) -> list[RecalledPassage]:
    """The passages, each checked. Raises ValueError, or whatever `passages` raises."""
    if not isinstance(passages, Sequence) or isinstance(passages, str | bytes):
        raise ValueError(f"it returned {describe_value(passages)}, not a list of holdfast.types.RecalledPassage")
    return [_check_passage(one) for one in passages]


def _check_passage(one: object) -> RecalledPassage:
    if type(one) is not RecalledPassage:
        raise ValueError(f"it returned {describe_value(one)} in its list, not a holdfast.types.RecalledPassage")
    try:
        passage = msgspec.convert(msgspec.to_builtins(one, builtin_types=(bytes, bytearray)), RecalledPassage)
    except (TypeError, msgspec.ValidationError) as error:
        raise ValueError(f"it returned a passage with a wrong value: {error}") from error
    names = (passage.id, passage.speaker, passage.session, passage.reason, passage.handle)
    for text in (passage.text, *names, *(() if passage.stream is None else passage.stream.key)):
        codec.check_text("a recalled passage", text)
    if any(len(text) > limits.RECALLED_NAME_CHARS for text in names):
        raise ValueError(f"it returned a passage with a name of more than {limits.RECALLED_NAME_CHARS:,} characters")
    if not math.isfinite(passage.score) or not _are_whole((passage.seq, passage.part, passage.start)):
        raise ValueError("it returned a passage with a number that is out of range")
    if passage.time_us is not None and not _are_whole((passage.time_us,)):
        raise ValueError("it returned a passage with a time that is out of range")
    return passage


def _are_whole(numbers: Iterable[int]) -> bool:
    return all(0 <= number <= limits.WHOLE_NUMBER for number in numbers)
