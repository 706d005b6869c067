"""API keys as values: their form, their digests, and what the entries about them add up to. Pure.

Laws: a secret has 256 random bits and is stored only as its SHA-256. A key without a valid digest opens nothing. Comparison
takes the same time whatever the stored digest is, and a key that is not known costs a comparison, too.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable

import msgspec

from holdfast.access.access import RIGHTS, Access, Right
from holdfast.core.sessions.layers import check_identity
from holdfast.errors import InvalidArgument
from holdfast.model.entries.entry import Entry
from holdfast.model.limits import WHOLE_NUMBER
from holdfast.model.names import check_choice, check_name, check_whole
from holdfast.model.sessions.layers import Identity

SECRET_BYTES = 32
ID_BYTES = 6
KEY_CREATED, KEY_ROTATED, KEY_REVOKED = "key.created", "key.rotated", "key.revoked"
"""The kinds of the entries about keys. The key of the first is the id; the others have it as their parent."""
ACTOR, SESSION = "keys", "keys"
"""The session in SYSTEM_TENANT that has them."""
_KEY_PATTERN = re.compile(r"hf_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_NO_DIGEST = "0" * 64
"""What the digest of a key is compared with if its id is unknown."""


class KeySecret(str):
    """A complete key. It is a str; its repr, as in a traceback, does not show it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "KeySecret('…')"


class KeyDigest(msgspec.Struct, frozen=True):
    """A secret that opens a key, as its SHA-256, until the end of its overlap with the next one."""

    digest: str
    until_us: int | None = None


class KeyGrant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a key allows, as its entry has it."""

    name: str
    tenant: str = "default"
    principal: str = ""
    """Empty: the name of the key."""
    rights: tuple[Right, ...] = ("read",)
    actor: str | None = None
    identity: Identity | None = None
    expires_us: int | None = None
    requests_per_minute: int | None = None
    tokens_per_hour: int | None = None

    def check(self) -> KeyGrant:
        """The grant, checked and complete."""
        check_name("name", self.name)
        rights = tuple(
            right for right in RIGHTS if right in {check_choice("right", each, RIGHTS) for each in self.rights}
        )
        if not rights:
            raise InvalidArgument(argument="rights", reason=f"a key needs one at least: {', '.join(RIGHTS)}")
        if self.identity is not None and "admin" in rights:
            raise InvalidArgument(argument="rights", reason="a key of a user cannot maintain the store of all tenants")
        for what, value in (
            ("requests_per_minute", self.requests_per_minute),
            ("tokens_per_hour", self.tokens_per_hour),
        ):
            if value is not None:
                check_whole(what, value, 1)
        if self.expires_us is not None:
            check_whole("expires_us", self.expires_us)
        identity = None if self.identity is None else check_identity(self.identity)
        user = "" if identity is None else identity.user_id
        checked = msgspec.structs.replace(
            self, rights=rights, identity=identity, principal=self.principal or user or self.name
        )
        access = checked.build_access("")
        return msgspec.structs.replace(checked, actor=access.actor)

    def build_access(self, key_id: str) -> Access:
        return Access(
            tenant=self.tenant,
            principal=self.principal,
            rights=frozenset(self.rights),
            actor=self.actor,
            identity=self.identity,
            key_id=key_id,
            requests_per_minute=self.requests_per_minute,
            tokens_per_hour=self.tokens_per_hour,
        )


class KeyRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A key, as the entries about it say. It has no secret."""

    id: str
    grant: KeyGrant
    digests: tuple[KeyDigest, ...]
    created_us: int
    rotated_us: int | None = None
    revoked_us: int | None = None
    revocation_reason: str = ""

    @property
    def prefix(self) -> str:
        """The beginning of the key, which is no secret."""
        return f"hf_{self.id}"

    def status(self, now_us: int) -> str:
        """`live`, `expired` or `revoked`."""
        if self.revoked_us is not None:
            return "revoked"
        return "expired" if self.grant.expires_us is not None and self.grant.expires_us <= now_us else "live"


def make_key(key_id: str = "") -> tuple[str, KeySecret]:
    """Make the id of a new key, unless it is given, and a secret for it."""
    key_id = key_id or secrets.token_hex(ID_BYTES)
    return key_id, KeySecret(f"hf_{key_id}_{secrets.token_urlsafe(SECRET_BYTES)}")


def digest_key(key: str) -> str:
    """The SHA-256 of a complete key: the id is part of it."""
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def read_key_id(key: str) -> str:
    """The id in a key; an empty text if it has not the form of one."""
    match = _KEY_PATTERN.fullmatch(key)
    return match[1] if match else ""


def is_opened_by(record: KeyRecord | None, key: str, now_us: int) -> bool:
    """Whether this key opens the record now. It does the same work for every answer."""
    digest = digest_key(key)
    known = record.digests if record is not None else ()
    is_open = False
    for each in (*known, KeyDigest(_NO_DIGEST, 0)):
        is_same = hmac.compare_digest(each.digest, digest)
        is_open |= is_same and (each.until_us is None or now_us < each.until_us)
    return is_open and record is not None and record.status(now_us) == "live"


# Entries


class StoredGrant(msgspec.Struct, frozen=True):
    """The body of KEY_CREATED."""

    grant: KeyGrant
    digest: str
    by: str


class StoredRotation(msgspec.Struct, frozen=True):
    """The body of KEY_ROTATED."""

    digest: str
    overlap_us: int
    by: str


class StoredRevocation(msgspec.Struct, frozen=True):
    """The body of KEY_REVOKED."""

    by: str
    reason: str = ""


def fold_entries(records: dict[str, KeyRecord], entries: Iterable[Entry]) -> None:
    """Apply entries to the records, oldest first. An entry that Holdfast did not write changes nothing."""
    for entry in entries:
        try:
            if entry.kind == KEY_CREATED:
                stored = msgspec.convert(entry.body, StoredGrant)
                digests = (KeyDigest(stored.digest),)
                records[entry.key] = KeyRecord(
                    id=entry.key, grant=stored.grant, digests=digests, created_us=entry.at_us
                )
            elif (record := records.get(entry.parent or "")) is not None:
                records[record.id] = _apply_change(record, entry)
        except msgspec.ValidationError:
            continue


def _apply_change(record: KeyRecord, entry: Entry) -> KeyRecord:
    if entry.kind == KEY_REVOKED and record.revoked_us is None:
        reason = msgspec.convert(entry.body, StoredRevocation).reason
        return msgspec.structs.replace(record, revoked_us=entry.at_us, revocation_reason=reason)
    if entry.kind == KEY_ROTATED:
        stored = msgspec.convert(entry.body, StoredRotation)
        end_us = min(entry.at_us + stored.overlap_us, WHOLE_NUMBER)
        older = (
            KeyDigest(each.digest, end_us if each.until_us is None else min(each.until_us, end_us))
            for each in record.digests
            if each.until_us is None or each.until_us > entry.at_us
        )
        return msgspec.structs.replace(record, digests=(*older, KeyDigest(stored.digest)), rotated_us=entry.at_us)
    return record
