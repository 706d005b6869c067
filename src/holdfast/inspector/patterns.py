"""What secrets and personal data look like in plain text.

Laws: a pattern finds what it names and leaves what a reader needs: digests, ids, figures, times and versions with three
parts stay. Nothing here matches a placeholder, so that text without secrets stays as it is. What repeats is bounded: the
time that a text takes grows with its length, whatever it says.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

PLACEHOLDER = re.compile(r"\[[a-z]+-\d+\]")
"""What stands for a value: [email-1]."""
SECRET_NAMES = re.compile(
    r"(?:pass[-_]?(?:word|wd|phrase|code)|pwd|secrets?|(?:api|access|secret|private|signing|encryption|account|shared|master)"
    r"[-_ ]?key|token|credentials?|authorization|cookie|cvv|cvc|otp)\Z",
    re.IGNORECASE,
)
"""Names of fields whose value is a secret: the last word decides, as in DB_PASSWORD and clientSecret."""
LEARNED_CHARS = 8
"""A secret of at least so many characters, which is no plain word, is replaced wherever else it stands."""

_NAME = (
    r"(?:pass[-_]?(?:word|wd|phrase|code)|pwd|secret|(?:api|access|secret|private|signing|encryption|account|shared|master)"
    r"[-_ ]?key|token|credentials?|cvv|cvc|otp)"
)
_VALUE = r"""(?:\\*"[^"\\\n]+|\\*'[^'\\\n]+|[^\s"'`,;&<>(){}\[\]\\]+)"""
_HARMLESS = frozenset(
    "str string int integer bool boolean bytes any none null nil true false undefined required optional missing empty "
    "wrong invalid valid expired unknown hidden redacted and or is was the a an for in of to no not yes".split()
)
"""Words behind `password:` that are no passwords."""
_REFERENCES = (
    "os.environ",
    "process.env",
    "getenv",
    "env.",
    "self.",
    "config.",
    "settings.",
    "$",
    "%",
    "***",
    "...",
    "<",
)
"""How programs refer to a secret without having it."""


class Finding(NamedTuple):
    """A part of a text to be replaced."""

    start: int
    end: int
    kind: str
    """The word of its placeholder: email."""
    value: str
    """The secret in its normal form: the same secret, written in two ways, is one."""


class Pattern(NamedTuple):
    """One kind of secret: where it may stand, which group of the match it is, and what else must hold."""

    kind: str
    expression: re.Pattern[str]
    group: int | str = 0
    check: Callable[[str], bool] = bool
    normalize: Callable[[str], str] = str


def passes_luhn(text: str) -> bool:
    """Whether the digits are a card number: their check digit is right, and they begin as cards do."""
    digits = [int(each) for each in text if each.isdigit()]
    if not 13 <= len(digits) <= 19 or digits[0] not in (2, 3, 4, 5, 6) or len(set(digits)) == 1:
        return False
    if digits[0] == 2 and not 2221 <= int("".join(map(str, digits[:4]))) <= 2720:
        return False
    doubled = (each * 2 - 9 if each > 4 else each * 2 for each in digits[-2::-2])
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def is_iban(text: str) -> bool:
    """Whether the check digits of a bank account number are right."""
    plain = re.sub(r"[ -]", "", text).upper()
    if not 15 <= len(plain) <= 34:
        return False
    return int("".join(str(int(each, 36)) for each in plain[4:] + plain[:4])) % 97 == 1


def is_phone(text: str) -> bool:
    return 8 <= sum(each.isdigit() for each in text) <= 15


def is_far_address(text: str) -> bool:
    """Whether this is the address of a host other than this machine."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


def is_secret_value(text: str) -> bool:
    """Whether what follows `password=` can be a secret."""
    plain = text.strip("\\\"'").rstrip(".:!?")
    if not plain or plain.lower() in _HARMLESS or plain.lower().startswith(_REFERENCES):
        return False
    return PLACEHOLDER.search(text) is None


def _is_token_value(text: str) -> bool:
    """For the word `token`, which also counts: a figure or a short word is no secret."""
    plain = text.strip("\\\"'")
    return is_secret_value(text) and len(plain) >= 6 and not plain.isdecimal()


def _is_bearer(text: str) -> bool:
    return len(text) >= 24 or (len(text) >= 8 and any(each.isdigit() for each in text))


def _strip_quotes(text: str) -> str:
    return text.strip("\\\"'")


def _normalize_email(text: str) -> str:
    return re.sub(r"%40|\\u0040|&#64;", "@", text, flags=re.IGNORECASE).lower()


def _digits(text: str) -> str:
    return "".join(each for each in text if each.isdigit())


_KEY_SHAPES = (
    r"sk-[A-Za-z0-9_-]{16,}",
    r"(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{10,}",
    r"whsec_[A-Za-z0-9+/=]{16,}",
    r"(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[A-Z0-9]{16}",
    r"AIza[0-9A-Za-z_-]{35}",
    r"ya29\.[0-9A-Za-z_-]{20,}",
    r"GOCSPX-[0-9A-Za-z_-]{20,}",
    r"gh[pousr]_[A-Za-z0-9]{30,}",
    r"github_pat_[A-Za-z0-9_]{20,}",
    r"glpat-[A-Za-z0-9_-]{16,}",
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}",
    r"xapp-[A-Za-z0-9-]{10,}",
    r"npm_[A-Za-z0-9]{30,}",
    r"pypi-[A-Za-z0-9_-]{16,}",
    r"hf_[A-Za-z0-9_-]{20,}",
    r"SG\.[\w-]{16,}\.[\w-]{16,}",
    r"(?:AC|SK)[0-9a-f]{32}",
    r"do[opr]_v1_[a-f0-9]{64}",
    r"\d{8,10}:[A-Za-z0-9_-]{35}",
    r"(?:gsk|r8|lin_api|ntn|sbp|sntrys|dckr_pat|tvly|fw|nvapi|pplx|xai|co|key|hvs|hvb)[-_.][A-Za-z0-9_-]{24,}",
    r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
    r"dapi[a-f0-9]{32}",
    r"AGE-SECRET-KEY-1[0-9A-Z]{50,}",
)
"""How the keys of well-known services begin."""
PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "key",
        re.compile(
            r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.DOTALL,
        ),
    ),
    Pattern("key", re.compile(r"(?<![\w-])eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*")),
    Pattern("key", re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(_KEY_SHAPES)})(?![A-Za-z0-9])")),
    Pattern("key", re.compile(r"hooks\.slack\.com/services/([A-Za-z0-9]+/[A-Za-z0-9]+/[A-Za-z0-9]+)"), 1),
    Pattern("key", re.compile(r"\bAccountKey=([A-Za-z0-9+/]{40,}={0,2})"), 1),
    Pattern(
        "key",
        re.compile(r"\b(?:bearer|basic|apikey|token)\s+([A-Za-z0-9._~+/-]{8,}={0,2})", re.IGNORECASE),
        1,
        _is_bearer,
    ),
    Pattern("password", re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"'<>\[\]]*:([^\s/@\"'<>\[\]]+)@"), 1),
    Pattern("password", re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://([^\s/:@\"'<>\[\]]+)@"), 1),
    Pattern(
        "password",
        re.compile(
            rf"(?:(?<![A-Za-z])|(?<=[a-z_-])(?=[A-Z])|(?<=[_-]))(?!token){_NAME}\\*[\"'`]?\s{{0,2}}(?:=>?|:|:=)[ \t]{{0,2}}"
            rf"(?P<value>{_VALUE})",
            re.IGNORECASE,
        ),
        "value",
        is_secret_value,
        _strip_quotes,
    ),
    Pattern(
        "password",
        re.compile(
            r"(?<![A-Za-z])(?:[A-Za-z]{1,32}[-_]){0,6}token\\*[\"'`]?\s{0,2}(?:=>?|:|:=)[ \t]{0,2}"
            rf"(?P<value>{_VALUE})",
            re.IGNORECASE,
        ),
        "value",
        _is_token_value,
        _strip_quotes,
    ),
    Pattern(
        "password",
        re.compile(
            r"\b(?:password|passphrase|passcode|pin|secret|api key|access code)\s+(?:is|was|will be|to)\s+"
            r"(?P<value>(?=[^\s\"']*[\d!#$%&*@^~_])[^\s\"'.,;]{4,}|\"[^\"\n]+\"|'[^'\n]+')",
            re.IGNORECASE,
        ),
        "value",
        is_secret_value,
        _strip_quotes,
    ),
    Pattern(
        "email",
        re.compile(r"\w[\w.+'-]{0,63}(?:@|%40|\\u0040|&#64;)\w[\w-]{0,62}(?:\.\w[\w-]{0,62}){1,8}", re.IGNORECASE),
        normalize=_normalize_email,
    ),
    Pattern(
        "iban",
        re.compile(
            r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?:[ -]?[A-Za-z0-9]{4}){2,7}(?:[ -]?[A-Za-z0-9]{1,3})?(?![A-Za-z0-9])"
        ),
        check=is_iban,
        normalize=lambda text: re.sub(r"[ -]", "", text).upper(),
    ),
    Pattern("card", re.compile(r"(?<![\w.-])\d(?:[ -]?\d){12,18}(?![\w-]|\.\d)"), check=passes_luhn, normalize=_digits),
    Pattern(
        "phone",
        re.compile(r"(?<![\w+.])\+\d{1,3}(?:[ .()/-]{0,2}\d){6,13}(?![\w-])"),
        check=is_phone,
        normalize=_digits,
    ),
    Pattern(
        "phone",
        re.compile(r"(?<![\w.+-])(?:1[ .-])?(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w-]|\.\d)"),
        check=is_phone,
        normalize=_digits,
    ),
    Pattern(
        "phone",
        re.compile(r"(?<![\w.+/:-])\(?0\d{1,4}\)?[ /-]\d{3,12}(?:[ -]\d{2,12}){0,5}(?![\w:-]|\.\d)"),
        check=is_phone,
        normalize=_digits,
    ),
    Pattern("address", re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w]|\.\d)"), check=is_far_address),
    Pattern(
        "address",
        re.compile(r"(?<![\w:.])[0-9A-Fa-f]{0,4}(?::[0-9A-Fa-f]{0,4}){2,7}(?:%\w+)?(?![\w:])"),
        check=is_far_address,
        normalize=str.lower,
    ),
    Pattern("user", re.compile(r"/(?:home|Users)/([^/\s\"'<>:|*?\\\[\]]+)"), 1),
    Pattern("user", re.compile(r"\b[A-Za-z]:\\{1,8}Users\\{1,8}([^\\/\s\"'<>:|*?\[\]]+)"), 1),
)


def find_secrets(text: str) -> Iterator[Finding]:
    """All parts of a text that are secrets or personal data, the first pattern first. They may overlap."""
    for pattern in PATTERNS:
        for match in pattern.expression.finditer(text):
            start, end = match.span(pattern.group)
            found = text[start:end]
            stripped = _strip_quotes(found) if pattern.normalize is _strip_quotes else found
            start += found.index(stripped)
            if stripped and pattern.check(found):
                yield Finding(start, start + len(stripped), pattern.kind, pattern.normalize(stripped))


def is_secret_name(name: str) -> bool:
    """Whether a field of this name has a secret."""
    return SECRET_NAMES.search(name) is not None


def is_learned(value: str) -> bool:
    """Whether a secret is so unlike a word that it is replaced wherever it stands."""
    return len(value) >= LEARNED_CHARS and not value.isalpha() and not value.isdecimal()
