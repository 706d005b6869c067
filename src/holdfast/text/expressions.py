"""Regular expressions that are compiled at their first use.

Law: such an expression matches what the compiled one matches. The rules of the detector have hundreds of them, and one
message needs few: a process does not wait for the others.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LateExpression:
    """Takes the methods of the compiled expression when one of them is first used; from then on they are its own."""

    def __init__(self, text: str, flags: int) -> None:
        self._source = text, flags

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # a copy or a pickle asks for what no expression has
            raise AttributeError(name)
        compiled = re.compile(*self._source)
        value = getattr(compiled, name)
        setattr(self, name, value)
        return value

    def __repr__(self) -> str:
        return f"<expression {self._source[0]!r}>"


def compile_late(text: str, flags: int = 0) -> re.Pattern[str]:
    """The regular expression, compiled at its first use."""
    return cast("re.Pattern[str]", _LateExpression(text, flags))
