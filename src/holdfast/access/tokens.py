"""Tokens of an identity provider (OpenID Connect, JWT): verified with its public keys, and turned into an access.

Laws: the algorithm is one of the settings', of a public key, and fits the kind of the key; never `none`, never a shared
secret. Issuer, audience, expiry and subject are required. The caller is a user: their namespace is theirs alone, their
authority is the lowest of a person unless a claim that the settings name says otherwise. A token that is not valid is
refused without a reason; the reason is in the log, without the token.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from pathlib import Path
from typing import Any

from holdfast.access.access import Access
from holdfast.access.token_settings import KEY_TYPES, TokenSettings
from holdfast.errors import ExtraMissing, InvalidInput, ServerBusy
from holdfast.model.sessions.layers import Identity

try:
    import httpx2
    import jwt
except ImportError as error:
    raise ExtraMissing(what="the verification of tokens", extra="server") from error

SCOPE_PREFIX = "holdfast:"
TOKEN_CHARS = 16_384
"""The longest token that is read."""
JWKS_BYTES = 1 << 20
"""The largest set of keys that is read."""
JWKS_CACHE_S = 600.0
"""How long the keys of the issuer are used before they are read again."""
JWKS_PAUSE_S = 10.0
"""The least time between two reads of the keys: a token may name a key that does not exist."""
JWKS_STALE_S = 3_600.0
"""How long known keys are used while they cannot be read again."""
JWKS_TIMEOUT_S = 5.0
logger = logging.getLogger("holdfast.access")


class KeySet:
    """The public keys of the issuer, by their ids."""

    def __init__(self, source: str, client: httpx2.AsyncClient | None = None) -> None:
        self._source = source
        self._client = client
        self._keys: list[jwt.PyJWK] = []
        self._read_at = self._tried_at = float("-inf")
        self._lock = asyncio.Lock()

    async def find(self, key_id: str | None, key_type: str) -> jwt.PyJWK | None:
        """The key of this id; without an id, the only key of this type. An unknown id is looked for at the issuer."""
        now = time.monotonic()
        if now - self._read_at > JWKS_CACHE_S:
            await self._refresh(now)
        found = self._select(key_id, key_type)
        if found is None:
            await self._refresh(now)
            found = self._select(key_id, key_type)
        return found

    def _select(self, key_id: str | None, key_type: str) -> jwt.PyJWK | None:
        fitting = [key for key in self._keys if key.key_type == key_type and key.public_key_use in (None, "sig")]
        if key_id is not None:
            fitting = [key for key in fitting if key.key_id == key_id]
        return fitting[0] if len(fitting) == 1 else None

    async def _refresh(self, now: float) -> None:
        """Read the keys, at most once in JWKS_PAUSE_S. Known keys stay for a while if that fails."""
        async with self._lock:
            if now - self._tried_at < JWKS_PAUSE_S:
                self._check_age(now)
                return
            self._tried_at = now
            try:
                text = await self._read_source()
                self._keys = jwt.PyJWKSet.from_dict(json.loads(text)).keys
            except (OSError, ValueError, TypeError, AttributeError, httpx2.HTTPError, jwt.PyJWTError) as error:
                logger.warning("the keys of the issuer cannot be read: %s", type(error).__name__)
                self._check_age(now)
                return
            self._read_at = now

    def _check_age(self, now: float) -> None:
        if now - self._read_at > JWKS_STALE_S:
            reason = "the keys of the issuer of tokens cannot be read"
            raise ServerBusy(server="of Holdfast", reason=reason, retry_s=int(JWKS_PAUSE_S))

    async def _read_source(self) -> bytes:
        if not self._source.startswith(("https://", "http://")):
            return await asyncio.to_thread(Path(self._source).read_bytes)
        if self._client is not None:
            return await _download(self._client, self._source)
        async with httpx2.AsyncClient(timeout=JWKS_TIMEOUT_S) as client:
            return await _download(client, self._source)


async def _download(client: httpx2.AsyncClient, url: str) -> bytes:
    body = b""
    async with client.stream("GET", url) as response:
        response.raise_for_status()
        if response.status_code != 200:  # a redirect could lead anywhere
            raise ValueError("the address answers with another status")
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > JWKS_BYTES:
                raise ValueError("the set of keys is too large")
    return body


class TokenVerifier:
    """Verifies the tokens of one issuer."""

    def __init__(self, settings: TokenSettings, keys: KeySet | None = None) -> None:
        self._settings = settings.check()
        self._keys = KeySet(settings.jwks) if keys is None else keys

    async def verify(self, token: str) -> Access | None:
        """What the token allows; None if it is not valid."""
        try:
            claims = await self._read_claims(token)
            return None if claims is None else self._build_access(claims)
        except (jwt.PyJWTError, InvalidInput, ValueError, TypeError, RecursionError) as error:
            logger.info("token refused: %s", type(error).__name__)
            return None

    async def _read_claims(self, token: str) -> dict[str, Any] | None:
        if len(token) > TOKEN_CHARS:
            return None
        header = jwt.get_unverified_header(token)
        algorithm = header.get("alg")
        if algorithm not in self._settings.algorithms or "crit" in header:
            return None
        key_id = header.get("kid")
        key = await self._keys.find(None if key_id is None else str(key_id), KEY_TYPES[algorithm])
        if key is None or key.algorithm_name != algorithm:
            return None
        return jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            audience=self._settings.audience,
            issuer=self._settings.issuer,
            leeway=self._settings.leeway_s,
            options={"require": ["exp", "iss", "aud", "sub"]},
        )

    def _build_access(self, claims: dict[str, Any]) -> Access:
        settings = self._settings
        subject = _read_text(claims, "sub")
        tenant = settings.tenant or _read_text(claims, settings.tenant_claim)
        scopes = _read_list(claims, settings.scope_claim)
        digest = hashlib.sha256(json.dumps([settings.issuer, tenant, subject]).encode()).hexdigest()
        identity = Identity(
            user_id=subject,
            user_name=_read_optional(claims, settings.name_claim),
            authority=_read_optional(claims, settings.authority_claim) or settings.authority,
            organization=_read_optional(claims, settings.organization_claim),
            department=_read_optional(claims, settings.department_claim),
            permissions=tuple(_read_list(claims, settings.permissions_claim)),
        )
        return Access(
            tenant=tenant,
            principal=subject,
            rights=frozenset(right for right in settings.rights if SCOPE_PREFIX + right in scopes),
            actor=subject,
            identity=identity,
            key_id=f"jwt-{digest[:32]}",
            requests_per_minute=settings.requests_per_minute,
            tokens_per_hour=settings.tokens_per_hour,
        )


def _read_text(claims: dict[str, Any], name: str) -> str:
    """A claim that must be there, as text."""
    value = claims.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError("a claim is missing")
    return value


def _read_optional(claims: dict[str, Any], name: str) -> str:
    value = claims.get(name) if name else None
    return value if isinstance(value, str) else ""


def _read_list(claims: dict[str, Any], name: str) -> list[str]:
    """A claim of several texts: a list, or a text with spaces between them."""
    value = claims.get(name) if name else None
    if isinstance(value, str):
        return value.split()
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
