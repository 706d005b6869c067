"""Addresses of stores on a server: hide secrets, and refuse what would be misread.

Law: no secret of an address reaches an error, a log or a screen.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from holdfast.errors import InvalidUrl

POSTGRES_SCHEMES = ("postgresql://", "postgres://")
_PASSWORD = re.compile(r"(?<=://)([^:/?@]*):(?!\d+/[^@?]*(?:\?|$))(.*)@", re.DOTALL)
"""A user and a password, also one that is not percent-encoded; not a host and a port."""
_SECRET_PARAMETERS = frozenset(
    {"password", "sslpassword", "oauth_client_secret", "scram_client_key", "scram_server_key"}
)
"""Parameters of an address that libpq hides."""
_UNENCODED = re.compile(r"%(?![0-9A-Fa-f]{2})|\s")


def mask_address(url: str) -> str:
    """Return an address without its secrets; a file name as it is."""
    base, mark, query = _PASSWORD.sub(r"\1@", url).partition("?")
    if "://" not in base:
        return url
    return base + mark + "&".join(map(_mask_parameter, query.split("&")))


def _mask_parameter(word: str) -> str:
    name, equals, _ = word.partition("=")
    return f"{name}{equals}…" if unquote(name) in _SECRET_PARAMETERS else word


def check_address(url: str) -> None:
    """Refuse an address that libpq would misread: its error would quote the secrets."""
    password = _PASSWORD.search(url)
    if _UNENCODED.search(url) or (password and set("/@") & set(password[2])):
        reason = "in a user, a password or a parameter, @ is written %40, / is %2F, % is %25 and a space %20"
        raise InvalidUrl(url=mask_address(url), reason=reason)
