"""Tokens of an identity provider: which are accepted, and what they allow."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

import holdfast
from holdfast.access import tokens
from holdfast.access.access import SYSTEM_TENANT, Access
from holdfast.access.token_settings import TokenSettings
from holdfast.access.tokens import KeySet, TokenVerifier
from holdfast.errors import InvalidInput, ServerBusy
from tests.server.running import running

ISSUER, AUDIENCE = "https://login.example", "holdfast"


class Issuer:
    """An identity provider with a key of each kind."""

    def __init__(self) -> None:
        self.private: dict[str, Any] = {
            "RS256": rsa.generate_private_key(public_exponent=65_537, key_size=2_048),
            "ES256": ec.generate_private_key(ec.SECP256R1()),
            "EdDSA": ed25519.Ed25519PrivateKey.generate(),
        }

    def key_set(self, *names: str) -> dict[str, Any]:
        return {"keys": [self.jwk(name) for name in names or self.private]}

    def jwk(self, name: str) -> dict[str, Any]:
        algorithm = jwt.get_algorithm_by_name(name)
        return {**json.loads(algorithm.to_jwk(self.private[name].public_key())), "kid": name, "use": "sig"}

    def sign(self, algorithm: str = "RS256", *, kid: str | None = "", key: Any = None, **claims: Any) -> str:
        content = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "ada",
            "exp": int(time.time()) + 300,
            "scope": "openid holdfast:read holdfast:write",
            **claims,
        }
        content = {name: value for name, value in content.items() if value is not None}
        headers = {} if kid is None else {"kid": kid or algorithm}
        return jwt.encode(content, key or self.private[algorithm], algorithm=algorithm, headers=headers)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def jwks(issuer: Issuer, tmp_path: Path) -> str:
    path = tmp_path / "jwks.json"
    path.write_text(json.dumps(issuer.key_set()))
    return str(path)


def settings_for(jwks: str, **changes: Any) -> TokenSettings:
    return TokenSettings(**{"issuer": ISSUER, "audience": AUDIENCE, "jwks": jwks, "tenant": "acme", **changes})


def verify(settings: TokenSettings, token: str) -> Access | None:
    return asyncio.run(TokenVerifier(settings).verify(token))


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_token_makes_a_user_of_its_subject(algorithm: str, issuer: Issuer, jwks: str) -> None:
    access = verify(settings_for(jwks), issuer.sign(algorithm))
    assert access is not None
    assert (access.tenant, access.principal, access.actor) == ("acme", "ada", "ada")
    assert access.rights == {"read", "write"}
    assert access.identity == holdfast.Identity(user_id="ada", authority="guest")
    assert access.key_id.startswith("jwt-")
    other = verify(settings_for(jwks), issuer.sign(algorithm, sub="bob"))
    assert other is not None
    assert other.key_id != access.key_id


def test_claims_say_tenant_authority_and_permissions_if_the_settings_name_them(issuer: Issuer, jwks: str) -> None:
    settings = settings_for(
        jwks,
        tenant="",
        tenant_claim="org",
        authority_claim="role",
        permissions_claim="perms",
        organization_claim="org",
        department_claim="unit",
        rights=("read", "admin"),
        requests_per_minute=5,
    )
    claims: dict[str, Any] = {"org": "globex", "role": "manager", "perms": ["hr", "pay"], "unit": "it", "name": "Ada"}
    access = verify(settings, issuer.sign(**claims, scope=["holdfast:admin", "holdfast:write"]))
    assert access is not None
    assert access.tenant == "globex"
    assert access.rights == {"admin"}
    assert access.requests_per_minute == 5
    assert access.identity == holdfast.Identity(
        user_id="ada",
        user_name="Ada",
        authority="manager",
        organization="globex",
        department="it",
        permissions=("hr", "pay"),
    )
    assert verify(settings, issuer.sign(**{**claims, "org": None})) is None
    assert verify(settings, issuer.sign(**{**claims, "org": SYSTEM_TENANT})) is None
    assert verify(settings, issuer.sign(**{**claims, "org": "a\0b"})) is None
    plain = verify(settings_for(jwks), issuer.sign(**claims, scope=None))
    assert plain is not None
    assert plain.rights == frozenset()
    assert plain.identity == holdfast.Identity(user_id="ada", user_name="Ada", authority="guest")


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "another"},
        {"aud": None},
        {"aud": []},
        {"exp": 1},
        {"exp": None},
        {"exp": "soon"},
        {"nbf": int(time.time()) + 86_400},  # much later than this suite ends
        {"sub": None},
        {"sub": ""},
        {"sub": 5},
        {"sub": "a\nb"},
        {"sub": "a" * 300},
        {"kid": "unknown"},
    ],
)
def test_a_token_that_lacks_anything_is_refused(claims: dict[str, Any], issuer: Issuer, jwks: str) -> None:
    try:
        token = issuer.sign(**claims)
    except TypeError:  # the library of the issuer refuses it, too: sign it by hand
        token = sign_by_hand(issuer, claims)
    assert verify(settings_for(jwks), token) is None


def sign_by_hand(issuer: Issuer, claims: dict[str, Any]) -> str:
    content = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": int(time.time()) + 300, **claims}
    return jwt.PyJWS().encode(json.dumps(content).encode(), issuer.private["RS256"], "RS256", {"kid": "RS256"})


def encode(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def test_no_token_is_signed_with_nothing_or_with_a_public_key(issuer: Issuer, jwks: str) -> None:
    good = issuer.sign()
    header, body, signature = good.split(".")
    public = (
        issuer.private["RS256"]
        .public_key()
        .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    shared = encode({"alg": "HS256", "kid": "RS256", "typ": "JWT"})
    mac = hmac.new(public, f"{shared}.{body}".encode(), hashlib.sha256).digest()
    forged = [
        f"{encode({'alg': 'none', 'kid': 'RS256'})}.{body}.",
        f"{encode({'alg': 'None', 'kid': 'RS256'})}.{body}.{signature}",
        f"{shared}.{body}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}",
        f"{encode({'alg': 'RS512', 'kid': 'RS256'})}.{body}.{signature}",
        f"{encode({'alg': 'ES256', 'kid': 'RS256'})}.{body}.{signature}",
        f"{encode({'alg': 'RS256', 'kid': 'ES256'})}.{body}.{signature}",
        f"{encode({'alg': 'RS256', 'kid': 'RS256', 'crit': ['exp']})}.{body}.{signature}",
        f"{encode({'alg': ['RS256'], 'kid': 'RS256'})}.{body}.{signature}",
        f"{header}.{encode({'sub': 'root'})}.{signature}",
        f"{header}.{body}.{signature[:-4]}AAAA",
        f"{header}.{body}.",
        f"{header}..{signature}",
        "..",
        "a.b.c",
        "é.ü.ñ",
        "x" * 100_000 + "..",
        issuer.sign("RS256", key=rsa.generate_private_key(public_exponent=65_537, key_size=2_048)),
    ]
    assert verify(settings_for(jwks), good) is not None
    for token in forged:
        assert verify(settings_for(jwks), token) is None, token[:80]
    assert verify(settings_for(jwks, algorithms=("ES256",)), good) is None


def test_a_token_with_a_critical_header_that_nobody_knows_is_refused(issuer: Issuer, jwks: str) -> None:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ada", "exp": int(time.time()) + 300}
    for header in ({}, {"crit": ["b64"], "b64": True}, {"crit": ["x"], "x": 1}):
        token = jwt.encode(claims, issuer.private["RS256"], "RS256", {"kid": "RS256", **header})
        assert (verify(settings_for(jwks), token) is None) == bool(header)


def test_a_secret_key_in_the_set_is_no_key_for_tokens(tmp_path: Path) -> None:
    path = tmp_path / "jwks.json"
    secret = b"0" * 32
    octets = {"kty": "oct", "kid": "s", "k": base64.urlsafe_b64encode(secret).rstrip(b"=").decode()}
    path.write_text(json.dumps({"keys": [octets]}))
    token = jwt.encode({"sub": "ada", "iss": ISSUER, "aud": AUDIENCE, "exp": 9e9}, secret, "HS256", {"kid": "s"})
    assert verify(settings_for(str(path)), token) is None


def test_the_leeway_is_for_clocks(issuer: Issuer, jwks: str) -> None:
    token = issuer.sign(exp=int(time.time()) - 20)
    assert verify(settings_for(jwks), token) is not None
    assert verify(settings_for(jwks, leeway_s=5), token) is None


def test_without_an_id_the_only_key_of_the_kind_counts(issuer: Issuer, jwks: str, tmp_path: Path) -> None:
    assert verify(settings_for(jwks), issuer.sign("ES256", kid=None)) is not None
    path = tmp_path / "two.json"
    path.write_text(json.dumps({"keys": [issuer.jwk("RS256"), {**issuer.jwk("RS256"), "kid": "other"}]}))
    assert verify(settings_for(str(path)), issuer.sign("RS256", kid=None)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"algorithms": ("HS256",)},
        {"algorithms": ("none",)},
        {"algorithms": ()},
        {"issuer": ""},
        {"audience": ""},
        {"jwks": ""},
        {"jwks": "http://login.example/jwks"},
        {"tenant": "", "tenant_claim": ""},
        {"tenant": "acme", "tenant_claim": "org"},
        {"tenant": SYSTEM_TENANT},
        {"rights": ("root",)},
    ],
)
def test_settings_that_would_let_anybody_in_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        TokenVerifier(settings_for(**{"jwks": "jwks.json", **changes}))


class Provider:
    """The address of an issuer's keys, which change."""

    def __init__(self) -> None:
        self.answer: Response = JSONResponse({"keys": []})
        self.requests = 0

    async def serve(self, _request: Request) -> Response:
        self.requests += 1
        return self.answer


@pytest.fixture
def provider() -> Iterator[tuple[Provider, str]]:
    provider = Provider()
    with running(Starlette(routes=[Route("/jwks", provider.serve)])) as url:
        yield provider, f"{url}/jwks"


def test_keys_are_read_again_for_an_unknown_id_but_not_for_a_flood(
    provider: tuple[Provider, str], issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, url = provider
    served.answer = JSONResponse(issuer.key_set("RS256"))

    async def run() -> None:
        verifier = TokenVerifier(settings_for(url))
        assert await verifier.verify(issuer.sign("RS256"))
        assert served.requests == 1
        served.answer = JSONResponse(issuer.key_set())
        for _ in range(20):
            assert await verifier.verify(issuer.sign("ES256")) is None, "the pause is not over"
        assert served.requests == 1
        monkeypatch.setattr(tokens, "JWKS_PAUSE_S", 0.0)
        answers = await asyncio.gather(*(verifier.verify(issuer.sign("ES256")) for _ in range(5)))
        assert all(answers)
        assert await verifier.verify(issuer.sign("RS256"))
        monkeypatch.setattr(tokens, "JWKS_PAUSE_S", 60.0)
        before = served.requests
        await asyncio.gather(*(verifier.verify(issuer.sign("RS256", kid=f"x{number}")) for number in range(20)))
        assert served.requests == before

    asyncio.run(run())


@pytest.mark.parametrize("fault", ["status", "redirect", "large", "text", "list", "odd", "empty"])
def test_keys_that_cannot_be_read_let_nobody_in_and_known_ones_stay_for_a_while(
    fault: str, provider: tuple[Provider, str], issuer: Issuer, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, url = provider
    faults = {
        "status": Response("no", status_code=500),
        "redirect": RedirectResponse("/jwks"),
        "large": Response(b" " * (tokens.JWKS_BYTES + 1)),
        "text": Response("{"),
        "list": JSONResponse([1]),
        "odd": JSONResponse({"keys": [1, None]}),
        "empty": JSONResponse({"keys": []}),
    }
    served.answer = faults[fault]

    async def run() -> None:
        with pytest.raises(ServerBusy, match="cannot be read"):
            await TokenVerifier(settings_for(url)).verify(issuer.sign())
        served.answer = JSONResponse(issuer.key_set())
        verifier = TokenVerifier(settings_for(url))
        assert await verifier.verify(issuer.sign())
        served.answer = faults[fault]
        monkeypatch.setattr(tokens, "JWKS_CACHE_S", -1.0)
        monkeypatch.setattr(tokens, "JWKS_PAUSE_S", 0.0)
        assert await verifier.verify(issuer.sign()), "known keys"
        monkeypatch.setattr(tokens, "JWKS_STALE_S", -1.0)
        with pytest.raises(ServerBusy):
            await verifier.verify(issuer.sign())

    asyncio.run(run())


def test_a_file_that_is_not_there_lets_nobody_in(tmp_path: Path, issuer: Issuer) -> None:
    with pytest.raises(ServerBusy):
        asyncio.run(KeySet(str(tmp_path / "absent")).find("RS256", "RSA"))


def test_no_log_has_a_token(issuer: Issuer, jwks: str, caplog: pytest.LogCaptureFixture) -> None:
    token = issuer.sign(exp=1)
    with caplog.at_level(logging.DEBUG):
        assert verify(settings_for(jwks), token) is None
    assert "ExpiredSignatureError" in caplog.text
    assert token.split(".")[1] not in caplog.text
    assert token.split(".")[2] not in caplog.text
