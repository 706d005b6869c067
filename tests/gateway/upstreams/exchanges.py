"""What came to the fake provider, and what it answered, byte for byte."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
from typing import Any, Literal

Keep = Literal["all", "digests"]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclasses.dataclass
class Exchange:
    """A request and its answer."""

    number: int
    method: str
    target: str
    """The path and the query, as they were sent."""
    headers: tuple[tuple[bytes, bytes], ...]
    """As they were sent, in their order."""
    body: bytes = b""
    """As it was sent; without the frames of a chunked transfer. Empty if only digests are kept."""
    body_digest: str = ""
    body_bytes: int = 0
    status: int = 0
    answer_headers: tuple[tuple[bytes, bytes], ...] = ()
    sent: bytearray = dataclasses.field(default_factory=bytearray)
    _answer_digest: str = ""
    is_streamed: bool = False
    is_whole: bool = False
    """All of the answer was written to the connection."""
    refusal: str = ""
    """Why it was refused; empty if it was not."""
    line: str = ""
    turn: int = -1
    usage: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def answer(self) -> bytes:
        """The body of the answer, as far as it was sent; without the frames of a chunked transfer."""
        return bytes(self.sent)

    @property
    def answer_digest(self) -> str:
        return self._answer_digest or digest(self.answer)

    def forget(self) -> None:
        """Keep the digests of both bodies, and not the bodies."""
        self._answer_digest = digest(self.answer)
        self.body = b""
        self.sent.clear()

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def is_call(self) -> bool:
        """A request for a reply of a model."""
        return self.method == "POST" and self.path.removeprefix("/v1") in (
            "/messages",
            "/chat/completions",
            "/responses",
        )

    @property
    def request(self) -> Any:
        return json.loads(self.body)

    def get(self, name: str) -> str:
        """The header of the request with this name; empty if there is none."""
        wanted = name.lower().encode()
        return next((value.decode("latin-1") for key, value in self.headers if key.lower() == wanted), "")

    def as_dict(self) -> dict[str, Any]:
        """For a journal or another process."""
        value = {**dataclasses.asdict(self), "answer": self.answer, "answer_digest": self.answer_digest}
        del value["sent"], value["_answer_digest"]
        for name in ("headers", "answer_headers"):
            value[name] = [[key.decode("latin-1"), text.decode("latin-1")] for key, text in value[name]]
        for name in ("body", "answer"):
            value[name] = base64.b64encode(value[name]).decode()
        return value
