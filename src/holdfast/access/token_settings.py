"""The settings of tokens of an identity provider. They need no package of the server."""

from __future__ import annotations

import urllib.parse

import msgspec

from holdfast.access.access import RIGHTS, Access, Right
from holdfast.errors import InvalidArgument
from holdfast.model.names import check_choice

KEY_TYPES = {"RS256": "RSA", "ES256": "EC", "EdDSA": "OKP"}
"""The algorithms that are allowed, and the kind of key that each one needs."""
_LOOPBACK = {"localhost", "127.0.0.1", "::1"}


class TokenSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which tokens a server accepts, and what they allow."""

    issuer: str
    audience: str
    jwks: str
    """The public keys of the issuer: a file, or an address with https (with http only on this machine)."""
    algorithms: tuple[str, ...] = ("RS256", "ES256", "EdDSA")
    leeway_s: int = 30
    """How far the clocks may differ."""
    tenant: str = ""
    """The tenant of all tokens; or else `tenant_claim` names the claim that has it."""
    tenant_claim: str = ""
    rights: tuple[Right, ...] = ("read", "write", "model")
    """The most that a token may allow. Its scopes say what it does allow: `holdfast:read holdfast:write`."""
    scope_claim: str = "scope"
    name_claim: str = "name"
    authority: str = "guest"
    """The authority of a user whose token says none."""
    authority_claim: str = ""
    permissions_claim: str = ""
    organization_claim: str = ""
    department_claim: str = ""
    requests_per_minute: int | None = None
    """For each user."""
    tokens_per_hour: int | None = None
    """For each user."""

    def check(self) -> TokenSettings:
        """The settings, checked."""
        for name in ("issuer", "audience", "jwks"):
            if not getattr(self, name):
                raise InvalidArgument(argument=f"jwt.{name}", reason="it is empty")
        if not self.algorithms:
            raise InvalidArgument(argument="jwt.algorithms", reason="it is empty")
        for algorithm in self.algorithms:
            check_choice("jwt.algorithms", algorithm, tuple(KEY_TYPES))
        for right in self.rights:
            check_choice("jwt.rights", right, RIGHTS)
        if bool(self.tenant) == bool(self.tenant_claim):
            raise InvalidArgument(argument="jwt.tenant", reason="pass either a tenant or the claim that has it")
        if self.tenant:
            Access(tenant=self.tenant)
        url = urllib.parse.urlsplit(self.jwks)
        if url.scheme == "http" and url.hostname not in _LOOPBACK:
            raise InvalidArgument(argument="jwt.jwks", reason="keys from another machine need https")
        return self
