"""What only a provider can have written: signatures of thinking, and content that it alone can read."""

from __future__ import annotations

import base64
import hashlib
import hmac


class Sealer:
    """Signs with a secret. Whoever changes a sealed text can make no seal for it."""

    def __init__(self, secret: str = "fake-provider") -> None:
        self._key = secret.encode()

    def sign(self, text: str) -> str:
        """The signature of a thinking text."""
        digest = hmac.new(self._key, text.encode("utf-8", "surrogatepass"), hashlib.sha512).digest()
        return "Eq" + base64.b64encode(digest).decode()

    def has_signed(self, text: str, signature: object) -> bool:
        return isinstance(signature, str) and hmac.compare_digest(self.sign(text).encode(), signature.encode())

    def seal(self, text: str, prefix: str = "gAAAAA") -> str:
        """The text, unreadable for others, with the proof that it is unchanged."""
        data = text.encode("utf-8", "surrogatepass")
        mask = hashlib.shake_256(self._key).digest(len(data))
        hidden = bytes(one ^ other for one, other in zip(data, mask, strict=True))
        proof = hmac.new(self._key, b"seal" + data, hashlib.sha256).digest()
        return prefix + base64.b64encode(proof + hidden).decode()

    def has_sealed(self, sealed: object, prefix: str = "gAAAAA") -> bool:
        if not isinstance(sealed, str) or not sealed.startswith(prefix):
            return False
        try:
            data = base64.b64decode(sealed[len(prefix) :], validate=True)
        except ValueError:
            return False
        mask = hashlib.shake_256(self._key).digest(max(0, len(data) - 32))
        text = bytes(one ^ other for one, other in zip(data[32:], mask, strict=True))
        return hmac.compare_digest(data[:32], hmac.new(self._key, b"seal" + text, hashlib.sha256).digest())
