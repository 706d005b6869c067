"""The facts of a ledger as files: /memories/facts/<key>.md has the value that holds now.

Laws: a file is a view, nothing is copied. An edit sets the fact with the authority of the tool: a fact of higher authority
stays, and the model is told so.
"""

from __future__ import annotations

import json
import time
from typing import Any
from urllib.parse import quote, unquote

import holdfast
from holdfast.anthropic.file_tree import CommandRefused, Edit, check_text, describe_file, format_size
from holdfast.errors import HoldfastError, InvalidName, TooLarge

FOLDER = "facts"
_SUFFIX = ".md"
_PLAIN = " !#$&'()+,-.;=@[]^_`{}~"
"""Characters of keys that file names have as they are, as they have letters of all languages; others are written as in
addresses, %2F."""
_PAGE = 1_000


class FactFiles:
    """The current facts of a ledger as files."""

    def __init__(self, ledger: holdfast.Ledger) -> None:
        self._ledger = ledger

    def names(self) -> dict[str, holdfast.Fact]:
        """The facts by the names of their files."""
        facts: dict[str, holdfast.Fact] = {}
        now_us = time.time_ns() // 1_000
        last: holdfast.Fact | None = None
        while page := self._ledger.items(after=last, limit=_PAGE):
            last = page[-1]
            facts |= {_name(fact.key): fact for fact in page if fact.scope == "global" and fact.is_current_at(now_us)}
        return facts

    def lines(self, prefix: str) -> list[str]:
        """The lines of a listing."""
        return [
            f"{format_size(len(show_value(fact.value).encode()))}\t{prefix}{name}"
            for name, fact in sorted(self.names().items())
        ]

    def view(self, name: str, shown: str, view_range: Any) -> str:
        """Show a fact."""
        return describe_file(show_value(self._require(name, shown).value), shown, view_range)

    def create(self, name: str, text: str, shown: str) -> str:
        """Set a fact that there is not."""
        if self._find(name) is not None:
            raise CommandRefused(f"File {shown} already exists")
        self._set(_read_name(name, shown), check_text(text, "file_text").rstrip("\n"), shown)
        return f"File created successfully at: {shown}"

    def edit(self, name: str, edit: Edit, shown: str) -> str:
        """Set a fact to another value."""
        fact = self._require(name, shown)
        text, answer = edit(show_value(fact.value))
        self._set(fact.key, _read_value(text, fact.value), shown)
        return answer

    def delete(self, name: str, shown: str) -> str:
        """Retract a fact."""
        fact = self._find(name)
        if fact is None:
            raise CommandRefused(f"The path {shown} does not exist")
        try:
            ended = self._ledger.retract(fact, reason="deleted in the memory tool")
        except HoldfastError as error:
            raise CommandRefused(f"{shown} was not deleted: {error}") from error
        if not any(each.id == fact.id for each in ended):
            raise CommandRefused(
                f"{shown} was not deleted: the fact was stated with the authority {fact.authority!r}, which is higher than "
                "yours. That you disagree is noted."
            )
        return f"Successfully deleted {shown}"

    def _set(self, key: str, value: Any, shown: str) -> None:
        if value == "":
            raise CommandRefused(f"{shown} was not changed: a fact cannot be empty. Delete the file instead.")
        try:
            fact = self._ledger.set(key, value, reason="written with the memory tool")
        except TooLarge as error:
            raise CommandRefused(
                f"{shown} was not changed: a fact has at most {error.limit:,} bytes. Create a file outside of "
                f"/memories/{FOLDER} for a long text."
            ) from error
        except InvalidName as error:
            raise CommandRefused(f"{shown} was not changed: no fact can have this name: {error.reason}") from error
        except HoldfastError as error:
            raise CommandRefused(f"{shown} was not changed: {error}") from error
        if fact.is_claim:
            current = self._ledger.get(key)
            stated = (
                f" It is {show_value(current.value).strip()!r}, stated by {current.authority!r}." if current else ""
            )
            raise CommandRefused(
                f"{shown} was not changed: the fact was stated with a higher authority than yours.{stated} "
                "What you wrote is kept as a claim until it is confirmed."
            )

    def _find(self, name: str) -> holdfast.Fact | None:
        if not name.endswith(_SUFFIX) or "/" in name:
            return None
        try:
            fact = self._ledger.get(unquote(name.removesuffix(_SUFFIX)))
        except InvalidName:  # no fact has such a key
            return None
        return fact if fact is not None and fact.is_current_at(time.time_ns() // 1_000) else None

    def _require(self, name: str, shown: str) -> holdfast.Fact:
        fact = self._find(name)
        if fact is None:
            raise CommandRefused(f"The path {shown} does not exist. Please provide a valid path.")
        return fact


def _name(key: str) -> str:
    letters = (each if not each.isascii() and each.isprintable() else quote(each, safe=_PLAIN) for each in key)
    return "".join(letters) + _SUFFIX


def _read_name(name: str, shown: str) -> str:
    key = unquote(name.removesuffix(_SUFFIX))
    if "/" in name or not name.endswith(_SUFFIX) or not key.strip():
        raise CommandRefused(
            f"Files in /memories/{FOLDER} are facts: name them /memories/{FOLDER}/<key>.md, not {shown}"
        )
    return key


def show_value(value: Any) -> str:
    """The text of a file with this value."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)
    return f"{text}\n"


def _read_value(text: str, before: Any) -> Any:
    """The value of an edited file: JSON where the value was JSON, if it still is."""
    plain = text.rstrip("\n")
    if isinstance(before, str):
        return plain
    try:
        return json.loads(plain)
    except ValueError:
        return plain
