"""The cursors of feeds, as their readers see them.

The cursor of the feed of a tenant is a position in the log of all tenants: the difference of two says how much everybody
wrote between them. A caller who may maintain the whole store gets it as it is. Everybody else gets it sealed: it says
nothing, has always the same length, and works for that caller only, on any replica.

Law: the secret is in the store, made once. A cursor that was not sealed for the caller is the cursor of nothing.
"""

from __future__ import annotations

import base64
import binascii
import os

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

import holdfast
from holdfast.access.access import Access
from holdfast.access.system import system_session
from holdfast.errors import EntryConflict, InvalidCursor

SECRET_BYTES = 32
NONCE_BYTES = 12
PLAIN_BYTES = 63
"""A cursor is filled up to a multiple of this and a byte: its length says nothing."""
SEALED_CHARS = 1_000
"""The longest sealed cursor that is read."""
PREFIX = "own-"


class CursorSeal:
    """Seals the cursors of one caller; without a secret, they stay as they are."""

    def __init__(self, secret: bytes | None, access: Access) -> None:
        self._cipher = None if secret is None else AESGCM(secret)
        user = "" if access.identity is None else access.identity.user_id
        self._holder = msgspec.json.encode([access.tenant, access.actor, user])

    def seal(self, cursor: str) -> str:
        """The cursor, for the caller. The start of a feed is no secret."""
        if self._cipher is None or cursor == "":
            return cursor
        plain = cursor.encode()
        plain += b"\0" * (-len(plain) % PLAIN_BYTES + 1)
        nonce = os.urandom(NONCE_BYTES)
        sealed = nonce + self._cipher.encrypt(nonce, plain, self._holder)
        return PREFIX + base64.urlsafe_b64encode(sealed).decode().rstrip("=")

    def open(self, cursor: str) -> str:
        """The cursor that the caller was given."""
        if self._cipher is None or cursor == "":
            return cursor
        text = cursor.removeprefix(PREFIX)
        if text == cursor or len(cursor) > SEALED_CHARS or not cursor.isascii():
            raise InvalidCursor(cursor=cursor)
        try:
            data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
            plain = self._cipher.decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], self._holder)
        except (binascii.Error, ValueError, InvalidTag):
            raise InvalidCursor(cursor=cursor) from None
        return plain.rstrip(b"\0").decode()


async def find_seal(engine: holdfast.AsyncEngine, access: Access) -> CursorSeal:
    """The seal of a caller. `engine` may be the engine of anyone. Who maintains the whole store may know its volume."""
    if access.actor is None and "admin" in access.rights:
        return CursorSeal(None, access)
    session = await system_session(engine, "feeds", actor="secrets")
    entry = await session.entries.get("cursor-key")
    if entry is None:
        try:
            entry = await session.entries.append("secret", "cursor-key", os.urandom(SECRET_BYTES).hex())
        except EntryConflict:  # another process was first
            entry = await session.entries.get("cursor-key")
    assert entry is not None, "it was appended, and is never deleted"
    return CursorSeal(bytes.fromhex(str(entry.body)), access)
