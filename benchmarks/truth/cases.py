"""Labelled cases: what `observe` may change (`observe*.jsonl`) and what the guard may hide (`guard*.jsonl`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

Kind = Literal["MUST_CHANGE", "MAY_ASK", "MUST_NOT"]
"""The change has to be applied · at most a question is fine · nothing may change."""
Owner = Literal["user", "organization", "project"]


class FactCase(msgspec.Struct, frozen=True, omit_defaults=True):
    key: str
    value: Any
    owner: Owner = "user"
    authority: str | None = None
    was: tuple[Any, ...] = ()
    """Earlier values, the oldest first."""


class Turn(msgspec.Struct, frozen=True, omit_defaults=True):
    role: Literal["user", "assistant"]
    text: str


class Expectation(msgspec.Struct, frozen=True, omit_defaults=True):
    applied: dict[str, Any] = {}
    """The new value by key: null for a retraction, a list for any of several."""
    at_most: Literal["asked"] | None = None
    nothing: bool = False


class ObserveCase(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    kind: Kind
    category: str
    facts: tuple[FactCase, ...]
    text: str
    expect: Expectation
    talk_before: tuple[Turn, ...] = ()
    new_ok: bool = False
    """A fact under a key that was not known is no error here."""


class FactChange(msgspec.Struct, frozen=True, omit_defaults=True):
    key: str
    value: Any
    """None for a retraction."""
    owner: Owner = "user"
    authority: str | None = None


class Setting(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    value: str


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a conversation: a message, a tool call with its result, a change of a fact, a summary, a frame that is
    opened, or a value of the environment."""

    role: Literal["user", "assistant", "tool"] | None = None
    text: str = ""
    name: str = ""
    args: dict[str, Any] = {}
    result: Any = None
    change: FactChange | None = None
    summary: str | None = None
    keep_turns: int = 1
    frame: str | None = None
    environment: Setting | None = None


class GuardCase(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    category: str
    facts_before: tuple[FactCase, ...]
    conversation: tuple[Step, ...]
    must_keep: tuple[str, ...]
    """Has to be readable in the pack."""
    must_hide: tuple[str, ...]
    """Has to be gone from pack and history, or to carry a note that it is outdated."""
    must_note: tuple[str, ...] = ()
    """Has to be readable in the pack, with such a note: somebody asks for the past."""


Case = TypeVar("Case", ObserveCase, GuardCase)


def read_cases(path: Path, kind: type[Case]) -> list[Case]:
    """The cases of one file, one JSON object a line. An unknown form is an error that names the line."""
    decode = msgspec.json.Decoder(kind).decode
    cases: list[Case] = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            cases += [decode(line)] if line.strip() else []
        except msgspec.DecodeError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
    return cases
