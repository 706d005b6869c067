"""Requests to a server and their answers, and when a request is sent again. No input or output happens here.

Laws: a request is sent again only if that cannot do anything twice: it was never sent, or it only reads, or the server
knows it by its idempotency key. Every write that takes a key has one: that of the caller, or one made for this call. The
number of tries and the pauses between them are bounded.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from holdfast import errors
from holdfast.api.problems import read_problem
from holdfast.errors import HoldfastError, ServerBusy, ServerFailed, ServerUnreachable
from holdfast.flows.effects import OutsideCall
from holdfast.runtime.logs import log

T = TypeVar("T")
JSON = "application/json"
OCTETS = "application/octet-stream"
ABSENT = "Absent"
"""The type of the problem that stands for an answer of None."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
"""The pause before the first retry; it doubles, up to the longest. A server may ask for another one."""
_AGAIN = (502, 503, 504)
"""The statuses of servers and proxies that may be over soon."""
_NO_CONTENT = 204
FIRST_FAILURE = 300
"""The first status that is no answer: redirections are not followed, since they would take the key elsewhere."""


class Upload(NamedTuple):
    """A body that is streamed."""

    open: Callable[[], Iterator[bytes] | AsyncIterator[bytes]]
    """Yields the chunks of the body; awaited in an event loop alone."""
    is_repeatable: bool
    """Whether the body can be sent a second time."""


class RemoteRequest(NamedTuple):
    """One request, below the address of the API."""

    verb: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | Upload | None = None
    media_type: str = JSON
    is_safe: bool = False
    """Sending it twice does the same as sending it once."""
    is_first: bool = False
    """It finds out whether the address is that of Holdfast: an answer of another server is no error yet."""

    @property
    def has_body_again(self) -> bool:
        """Whether the body can be sent a second time."""
        return not isinstance(self.body, Upload) or self.body.is_repeatable

    @property
    def is_repeatable(self) -> bool:
        return self.is_safe and self.has_body_again


class RemoteResponse(NamedTuple):
    """The whole answer to a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Unanswered(Exception):
    """No answer came. `was_sent`: the server may have the request."""

    def __init__(self, reason: str, *, was_sent: bool) -> None:
        super().__init__(reason)
        self.was_sent = was_sent


class Sending(NamedTuple):
    """Ask for one try to send a request."""

    request: RemoteRequest


class Pause(NamedTuple):
    """Ask to wait."""

    seconds: float


class Download(NamedTuple):
    """Ask for a body, written to a file. Answered with its SHA-256 and its size."""

    request: RemoteRequest
    path: str


RemoteEffect: TypeAlias = RemoteRequest | OutsideCall | Pause | Download
RemoteFlow: TypeAlias = Generator[RemoteEffect, Any, T]
"""What a method does: requests to the server, pauses, downloads, and calls of functions of the caller."""


def ask(request: RemoteRequest) -> RemoteFlow[RemoteResponse]:
    """Send a request, and return its answer. Raises the error that the server reports."""
    answer: RemoteResponse = yield request
    return answer


def run_outside(function: Callable[[], T]) -> RemoteFlow[T]:
    """Call a function of the caller that may take a while."""
    answer: T = yield OutsideCall(function)
    return answer


def attempts(request: RemoteRequest, server: str, retries: int) -> Generator[Sending | Pause, Any, RemoteResponse]:
    """Try to send a request until there is an answer, or no further try is allowed. Each Sending is answered with a
    RemoteResponse, or with Unanswered."""
    for left in range(retries, -1, -1):
        failure: HoldfastError
        pause_s = min(FIRST_PAUSE_S * 2 ** (retries - left), LONGEST_PAUSE_S) * (0.5 + random.random())  # noqa: S311
        try:
            response: RemoteResponse = yield Sending(request)
        except Unanswered as error:
            failure = ServerUnreachable(server=server, reason=str(error))
            failure.__cause__ = error.__cause__
            may_retry = request.is_repeatable or (request.has_body_again and not error.was_sent)
        else:
            is_answer = response.status < FIRST_FAILURE or is_absent(response)
            if is_answer or (request.is_first and is_foreign(response)):
                return response
            failure = read_failure(response, server)
            is_refused = isinstance(failure, ServerBusy)  # before anything was done
            may_retry = (request.is_repeatable and response.status in _AGAIN) or (is_refused and request.has_body_again)
            pause_s = _read_pause(response, pause_s)
        if not (left and may_retry):
            raise failure
        log("%s %s failed, trying again: %s", request.verb, request.path, type(failure).__name__)
        yield Pause(min(pause_s, LONGEST_PAUSE_S))
    raise AssertionError("the last try returns or raises")


def _read_pause(response: RemoteResponse, default_s: float) -> float:
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdigit() else default_s


def is_absent(response: RemoteResponse) -> bool:
    """Whether the answer stands for None."""
    if response.status == _NO_CONTENT:
        return True
    return response.status == 404 and _read_document(response).get("type") == ABSENT


def is_foreign(response: RemoteResponse) -> bool:
    """Whether the answer is one that no address of the API of Holdfast gives. One of a proxy that is busy may go away."""
    if response.status < FIRST_FAILURE or response.status in (429, *range(500, 600)):
        return False
    kind = getattr(errors, str(_read_document(response).get("type")), None)
    return not (isinstance(kind, type) and issubclass(kind, HoldfastError))


def read_failure(response: RemoteResponse, server: str) -> HoldfastError:
    """The error that an answer reports."""
    document = _read_document(response)
    if document:
        return read_problem(document, server)
    return ServerFailed(server=server, reason=f"it answered with status {response.status}, and not as Holdfast does")


def _read_document(response: RemoteResponse) -> dict[str, Any]:
    if "json" not in response.headers.get("content-type", ""):
        return {}
    try:
        document = msgspec.json.decode(response.body)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
