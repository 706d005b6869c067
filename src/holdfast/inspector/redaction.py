"""Redaction of JSON that leaves the machine: a file to send around has no credentials and no personal data that can be
recognized.

Laws: pure. The same value has the same placeholder in the whole file ([email-1]), so a reader can follow it. Names of
fields, numbers, ids and digests stay: what a view computes with is intact. A placeholder is never replaced: to redact
twice is to redact once. What is found by its name or its shape is replaced wherever else it stands, too, also inside JSON
in texts and in base64.

It cannot know what only a person knows: names, street addresses, a password that looks like a word and stands alone.
`all` replaces every text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias, get_args

from holdfast.inspector.patterns import PLACEHOLDER, Finding, find_secrets, is_learned, is_secret_name, passes_luhn
from holdfast.model.names import LedgerKind

RedactionMode: TypeAlias = Literal["secrets", "all", "none"]
MODES: tuple[RedactionMode, ...] = get_args(RedactionMode)
MOST_DEPTH = 8
"""How deep texts inside texts are read: JSON in a string, base64 in that."""
WITHHELD_CHARS = 4
"""A shorter value that needs a permission is not searched for in other texts: it would be found everywhere."""
BASE64_CHARS = 20
"""Shorter runs are not read as base64: a word is one, too."""
BINARY_CHARS = 256
"""Base64 of bytes that are no text, of at least this length, is left out: nobody can see what is in it."""
_BASE64 = re.compile(rf"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{{{BASE64_CHARS},}}={{0,2}}(?![A-Za-z0-9+/_=-])")
_PLAIN = re.compile(
    r"[a-z]{1,3}\d{1,9}(?:_\d{1,9})?|[0-9a-f]{24,64}(?:\.\d{1,9})?|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
"""Ids and digests: they stay in every mode."""
_KEPT_FIELDS = frozenset(
    "type kind role status fate mode cause level priority section provider model authority media_type object "
    "finish_reason stop_reason format encoding redaction holdfast made_at rights policy pressure profile currency "
    "version counter detail context_hash digest hash".split()
)
"""Fields whose value is one of a fixed set of words, or a digest: `all` leaves it if it looks like one."""
_NAME_FIELDS = frozenset("session actor thread user user_id user_name key name names ledger ledgers".split())
"""Fields with names: each has a placeholder of its own, so that what belongs together still does."""
LEDGER_KINDS = frozenset(get_args(LedgerKind))
_WORD = re.compile(r"[A-Za-z0-9_.:/+ -]{1,80}")
_FREE_FIELDS = frozenset("arguments input value values body metadata data payload external_data working claims".split())
"""Fields that hold what the application put there: no name in them means anything to a view."""


class Redactor:
    """Redacts the parts of one file. Give it everything with `learn` first, then `redact` each part."""

    def __init__(self, mode: RedactionMode = "secrets") -> None:
        self.mode: RedactionMode = mode
        self._numbers: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}
        self._learned: dict[str, str] = {}
        self._expression: re.Pattern[str] | None = None
        self._withheld: re.Pattern[str] | None = None
        self._texts: dict[str, str] = {}  # a message is in the file as often as a pack shows it
        self._parts: dict[tuple[int, str, bool], tuple[Any, Any]] = {}  # with the part itself: its id stays taken

    @property
    def counts(self) -> dict[str, int]:
        """How many different values were replaced, by kind."""
        return dict(sorted(self._counts.items()))

    @property
    def has_withheld(self) -> bool:
        return self._withheld is not None

    def withhold(self, texts: Iterable[str]) -> None:
        """Replace these texts wherever they stand, in every mode: values that need a permission."""
        known = sorted({each for each in texts if len(each) >= WITHHELD_CHARS}, key=lambda each: (-len(each), each))
        self._withheld = re.compile("|".join(map(re.escape, known))) if known else None

    def learn(self, values: Iterable[Any]) -> None:
        """Look at all that will be in the file, so that a secret that is recognized in one place is replaced in all."""
        if self.mode != "secrets":
            return
        for value in values:
            self.redact(value)
        known = sorted(self._learned, key=lambda each: (-len(each), each))
        self._expression = re.compile("|".join(map(re.escape, known))) if known else None
        self._texts.clear()  # they can have more secrets now
        self._parts.clear()

    def redact(self, value: Any) -> Any:
        """A JSON value without what must not leave."""
        if self.mode == "none":
            return value if self._withheld is None else self._map_texts(value)
        return self._redact_all(value, "", is_free=False) if self.mode == "all" else self._redact(value, "", 0)

    def redact_text(self, text: str) -> str:
        """A text without what must not leave."""
        return str(self.redact(text))

    def redact_name(self, name: str) -> str:
        """The name of a session, an actor, a ledger or a key, as `redact` shows it where it is the value of a field."""
        if self.mode == "none":
            return self._withhold(name)
        return self._hide(name, "session", is_free=False) if self.mode == "all" else self._redact_text(name, 0)

    def _withhold(self, text: str) -> str:
        if self._withheld is None:
            return text
        return self._withheld.sub(lambda match: self._replace("withheld", match[0]), text)

    def _map_texts(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._withhold(value)
        if isinstance(value, dict):
            return {name: self._map_texts(each) for name, each in value.items()}
        return [self._map_texts(each) for each in value] if isinstance(value, list) else value

    # Secrets

    def _redact(self, value: Any, field: str, depth: int) -> Any:
        if isinstance(value, str):
            if is_secret_name(field) and value.strip() and not PLACEHOLDER.fullmatch(value):
                return self._replace("password", value)
            return self._redact_text(value, depth)
        if isinstance(value, dict | list | tuple):
            if depth:
                return self._redact_part(value, field, depth)
            key = (id(value), field if isinstance(value, list) else "", False)
            if key not in self._parts:
                self._parts[key] = (value, self._redact_part(value, field, depth))
            return self._parts[key][1]
        if type(value) is int and passes_luhn(str(value)):
            return self._replace("card", str(value))
        return value

    def _redact_part(self, value: Any, field: str, depth: int) -> Any:
        if isinstance(value, dict):
            return {self._redact_text(name, depth): self._redact(each, name, depth) for name, each in value.items()}
        return [self._redact(each, field, depth) for each in value]

    def _redact_text(self, text: str, depth: int) -> str:
        if len(text) < 3 or depth > MOST_DEPTH:
            return text
        known = self._texts.get(text)
        if known is None:
            known = self._texts[text] = self._redact_new_text(text, depth)
        return known

    def _redact_new_text(self, text: str, depth: int) -> str:
        text = self._withhold(text)
        inner = self._redact_json(text, depth)
        if inner is not None:
            return inner
        text = _BASE64.sub(lambda match: self._redact_base64(match[0], depth), text)
        text = self._replace_findings(text, list(find_secrets(text)))
        if self._expression is not None:
            text = self._expression.sub(lambda match: self._learned[match[0]], text)
        return text

    def _redact_json(self, text: str, depth: int) -> str | None:
        """A text that is JSON as a whole, redacted as JSON; None if it is not, or nothing in it changes."""
        plain = text.strip()
        if len(plain) < 2 or (plain[0], plain[-1]) not in (("{", "}"), ("[", "]"), ('"', '"')):
            return None
        try:
            value = json.loads(plain)
        except (ValueError, RecursionError):
            return None
        redacted = self._redact(value, "", depth + 1)
        if redacted == value:
            return None
        written = json.dumps(redacted, ensure_ascii=False)
        return written if _is_unicode(written) else json.dumps(redacted)

    def _redact_base64(self, text: str, depth: int) -> str:
        """Base64 of a text, redacted inside; long base64 of anything else, left out."""
        plain = text.rstrip("=").replace("-", "+").replace("_", "/")
        try:
            decoded = base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            return text if len(text) < BINARY_CHARS or _is_word_like(text) else self._replace("binary", text)
        redacted = self._redact_text(decoded, depth + 1)
        return text if redacted == decoded else base64.b64encode(redacted.encode()).decode()

    def _replace_findings(self, text: str, findings: list[Finding]) -> str:
        """Replace what was found. Findings that overlap are replaced as one."""
        pieces, at = [], 0
        for finding in merge_findings(text, findings):
            pieces += [text[at : finding.start], self._replace(finding.kind, finding.value)]
            at = finding.end
        return "".join((*pieces, text[at:]))

    def _replace(self, kind: str, value: str) -> str:
        """The placeholder of a value, always the same for it."""
        known = self._numbers.get((kind, value))
        if known is None and value in self._learned:
            return self._learned[value]
        if known is None:
            number = self._counts[kind] = self._counts.get(kind, 0) + 1
            known = self._numbers[kind, value] = f"[{kind}-{number}]"
        if kind in ("key", "password") and is_learned(value):
            self._learned.setdefault(value, known)
        return known

    # Everything

    def _redact_all(self, value: Any, field: str, *, is_free: bool) -> Any:
        if isinstance(value, str):
            return self._hide(value, field, is_free=is_free)
        if isinstance(value, dict | list | tuple):
            key = (id(value), field, is_free)
            if key not in self._parts:
                self._parts[key] = (value, self._redact_all_of(value, field, is_free=is_free))
            return self._parts[key][1]
        if is_free and type(value) in (int, float):
            return 0
        return value

    def _redact_all_of(self, value: Any, field: str, *, is_free: bool) -> Any:
        if isinstance(value, dict):
            return {
                self._redact_text(name, 0): self._redact_all(each, name, is_free=is_free or name in _FREE_FIELDS)
                for name, each in value.items()
            }
        return [self._redact_all(each, field, is_free=is_free) for each in value]

    def _hide(self, text: str, field: str, *, is_free: bool) -> str:
        if is_free or text == shape_text(text):
            return shape_text(text)
        if not text or PLACEHOLDER.fullmatch(text) or _PLAIN.fullmatch(text):
            return text
        if field in _KEPT_FIELDS and _WORD.fullmatch(text):
            return text
        if field in _NAME_FIELDS:
            return text if text in LEDGER_KINDS else self._replace("name", text)
        if any(each.isspace() for each in text) or len(text) > 80:
            return shape_text(text)
        return self._replace("name", text)


def merge_findings(text: str, findings: Iterable[Finding]) -> list[Finding]:
    """Findings in the order of the text, none over another. Of two that overlap, the first one grows over the other; but
    not over a mail address, which is what the password in an address looks like: user:password@host."""
    merged: list[Finding] = []
    for each in sorted(findings, key=lambda found: (found.start, -found.end)):  # stable: the earlier pattern first
        if PLACEHOLDER.fullmatch(text[each.start : each.end]):
            continue
        last = merged[-1] if merged else None
        if last is None or each.start >= last.end:
            merged.append(each)
        elif each.end > last.end and each.kind != "email":
            merged[-1] = Finding(last.start, each.end, last.kind, text[last.start : each.end])
    return merged


def shape_text(text: str) -> str:
    """What stands for a text of about this length: the next power of two in characters, whatever it said."""
    if not text:
        return text
    length = 1 << (len(text) - 1).bit_length()
    return ("xxxxx " * (length // 6 + 1))[: length - 1] + "x"


def _is_unicode(text: str) -> bool:
    """Whether a text can be written: half of a surrogate pair cannot."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


def _is_word_like(text: str) -> bool:
    """Whether a long run is words with dashes or a path, not base64: it has no capitals, or hardly a digit."""
    return text.islower() or text.count("/") + text.count("-") + text.count("_") > len(text) / 12
