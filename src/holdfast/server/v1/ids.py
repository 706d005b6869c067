"""The ids of conversations and responses.

Laws: a response id says where the response is stored (its namespace, its session and its position) and is signed with a
secret that all replicas share, so no table is needed to find it. An id that somebody made up, or that belongs to another
tenant, is the id of nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import NamedTuple

import msgspec

import holdfast
from holdfast.access.access import SYSTEM_TENANT
from holdfast.model.names import DEFAULT_ACTOR

SIGNING_SESSION = "v1"
SIGNING_ENTRY = "signing"
SIGNING_BYTES = 32
MAC_BYTES = 16
PREFIX = "resp_"
NUMBER_CHARS = 6
"""The number of an item in its response, as hexadecimal digits at the end of its id."""
ID_CHARS = 1_200
"""The most characters of a response id: two names and a number."""


class ResponseAddress(NamedTuple):
    """Where a response is stored."""

    actor: str
    session: str
    seq: int
    """The position of its entry in the session."""


def new_conversation_id() -> str:
    return f"conv_{secrets.token_hex(24)}"


def derive_conversation_id(*words: str) -> str:
    """The id of a conversation that a request with an idempotency key begins: a retry means the same one."""
    return f"conv_{hashlib.sha256(msgspec.json.encode(words)).hexdigest()[:48]}"


def name_item(response: str, kind: str, number: int) -> str:
    """The id of an item of a response: it says which one, so that others can refer to it."""
    return f"{kind}_{response.removeprefix(PREFIX)}{number:0{NUMBER_CHARS}x}"


class ResponseIds:
    """Signs response ids, and reads them."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, tenant: str, place: ResponseAddress) -> str:
        data = msgspec.msgpack.encode(["" if place.actor == DEFAULT_ACTOR else place.actor, place.session, place.seq])
        text = base64.urlsafe_b64encode(self._mac(tenant, data) + data).decode().rstrip("=")
        return f"{PREFIX}{text}"

    def read(self, tenant: str, name: object) -> ResponseAddress | None:
        """The place of a response; None if this is no id of a response of this tenant."""
        if type(name) is not str or not name.startswith(PREFIX) or len(name) > ID_CHARS or not name.isascii():
            return None
        text = name.removeprefix(PREFIX)
        try:
            signed = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        mac, data = signed[:MAC_BYTES], signed[MAC_BYTES:]
        if not data or not hmac.compare_digest(mac, self._mac(tenant, data)):
            return None
        actor, session, seq = msgspec.msgpack.decode(data, type=tuple[str, str, int])
        place = ResponseAddress(actor or DEFAULT_ACTOR, session, seq)
        return place if self.sign(tenant, place) == name else None

    def read_item(self, tenant: str, name: object) -> str | None:
        """The id of the response that an item is of; None if this is no id of an item of a response."""
        if type(name) is not str or len(name) <= NUMBER_CHARS:
            return None
        response = PREFIX + name[:-NUMBER_CHARS].partition("_")[2]
        return None if self.read(tenant, response) is None else response

    def _mac(self, tenant: str, data: bytes) -> bytes:
        return hmac.digest(self._secret, tenant.encode() + b"\0" + data, hashlib.sha256)[:MAC_BYTES]


async def load_ids(engine: holdfast.AsyncEngine) -> ResponseIds:
    """The ids of this store. The first server makes the secret; all others read it."""
    session = await engine.acting_as(tenant=SYSTEM_TENANT, principal="server").session(SIGNING_SESSION, create=True)
    entry = await session.entries.get(SIGNING_ENTRY)
    if entry is None:
        try:
            entry = await session.entries.append("secret", SIGNING_ENTRY, secrets.token_hex(SIGNING_BYTES))
        except holdfast.errors.EntryConflict:  # another server was first
            entry = await session.entries.get(SIGNING_ENTRY)
    assert entry is not None, "it was appended, and is never deleted"
    return ResponseIds(bytes.fromhex(str(entry.body)))
