"""The address of a store on a server: what may be shown of it, and what would be misread.

Law: nothing secret in an address reaches an error, a log or a screen.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from holdfast.errors import InvalidUrl

POSTGRES = ("postgresql://", "postgres://")

_PASSWORD = re.compile(r"(?<=://)([^:/?@]*):(?!\d+/[^@?]*(?:\?|$))(.*)@", re.DOTALL)
"""A user and a password, also one that should have been percent-encoded; not a host and a port."""

_SECRETS = frozenset({"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"})
"""Parameters of an address that libpq keeps to itself."""

_UNENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})|\s")


def shown_address(url: str) -> str:
    """A file name as it is, an address without what is secret in it."""
    base, mark, query = _PASSWORD.sub(r"\1@", url).partition("?")
    if "://" not in base:
        return url
    return base + mark + "&".join(map(_parameter, query.split("&")))


def _parameter(word: str) -> str:
    name, equals, _ = word.partition("=")
    return f"{name}{equals}…" if unquote(name) in _SECRETS else word


def check_address(url: str) -> None:
    """Refuse what libpq would read as something else, and quote in an error with all that is in it."""
    password = _PASSWORD.search(url)
    if _UNENCODED.search(url) or (password and set("/@") & set(password[2])):
        reason = "in a user, a password or a parameter, @ is written %40, / is %2F, % is %25 and a space %20"
        raise InvalidUrl(url=shown_address(url), reason=reason)
