"""Errors of models, memories and embedders of the caller, of access to a server, and of packages that are not installed."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError
from holdfast.errors.inputs import NotFound

# Models


class ModelFailed(HoldfastError):
    """The model {model!r} gave no usable answer: {reason}. Nothing was changed by it."""

    model: str
    reason: str
    usage: object = None
    """The holdfast.Usage of the failed attempts; None if none was reported."""


class ModelUnavailable(ModelFailed):
    """The model {model!r} could not be asked: {reason}. Check the address and the server, or try again later."""


class ModelTimeout(ModelFailed):
    """The model {model!r} did not answer in time: {reason}. Use a longer timeout_s, or a faster model."""


class ModelRejected(ModelFailed):
    """The server of the model {model!r} does not accept the request: {reason}. Check the key, the name of the model and
    the options."""


class ModelRefused(ModelFailed):
    """The model {model!r} refused to answer: {reason}. Use another model, or do without."""


class AnswerInvalid(ModelFailed):
    """The answer of the model {model!r} is not what was asked for: {reason}. Use a model that follows schemas."""


class AnswerCut(ModelFailed):
    """The answer of the model {model!r} was cut off: {reason}. Allow more tokens with max_tokens."""


# Memories and embedders of the caller


class MemoryFailed(HoldfastError):
    """The memory {memory!r} failed in {operation}(): {reason}. Nothing of this store is lost. Try again when it works."""

    memory: str
    operation: str
    reason: str


class EmbedderFailed(HoldfastError):
    """The embedder {embedder!r} failed: {reason}. Check it. Meanwhile texts are found by their words."""

    embedder: str
    reason: str


# Access to a server


class AccessRefused(HoldfastError):
    """The server refuses the request: {reason}. Nothing was stored."""

    reason: str


class KeyRefused(AccessRefused):
    """The request has no valid key: {reason}. Pass one as `Authorization: Bearer …`. Nothing was stored."""


class RightMissing(AccessRefused):
    """The key may not do this: it lacks the right {right!r}. Use a key that has it. Nothing was stored."""

    right: str


class RateExceeded(AccessRefused):
    """The key may send {limit} requests in a minute. Send the request again after {retry_s} seconds. Nothing was stored."""

    limit: int
    retry_s: int


class SpendExceeded(AccessRefused):
    """The key may spend {limit} tokens in an hour, and has spent {spent}. Send the request again after {retry_s} seconds.
    Nothing was stored."""

    limit: int
    spent: int
    retry_s: int


class KeysMissing(HoldfastError):
    """Others could reach the server on {host!r}, directly or through a proxy, but it has no keys and no issuer of tokens.
    Create a key with `holdfast keys create`, or listen on 127.0.0.1 without `--behind-tls`. The server was not started."""

    host: str


class KeyNotFound(NotFound):
    """There is no key {key!r} in this store. Check its id with `holdfast keys list`. Nothing was changed."""

    key: str


class LedgerNotFound(NotFound):
    """There is no ledger {ledger!r} in tenant {tenant!r}. Check the name."""

    ledger: str
    tenant: str


# Servers of Holdfast, as their clients see them


class JobNotFound(NotFound):
    """There is no job {job!r} that the key may see. Check the id."""

    job: str


class Absent(NotFound):
    """{what}: there is none. Check the name. Nothing was changed."""

    what: str


class ServerError(HoldfastError):
    """The server {server} could not do what was asked: {reason}."""

    server: str
    reason: str


class ServerUnreachable(ServerError):
    """The server {server} cannot be reached: {reason}. Check the address, and try again. Whether a request that was sent
    has taken effect is unknown: send it again with the same key."""


class ServerFailed(ServerError):
    """The server {server} failed: {reason}. Its log says more, under the id of the request. Try again with the same key."""


class ServerBusy(ServerError):
    """The server {server} cannot take the request now: {reason}. Nothing was stored. Send it again after {retry_s}
    seconds."""

    retry_s: int


class RequestTimeout(ServerError):
    """The server {server} did not finish the request within {limit_s} seconds: {reason}. It may have taken effect.
    Send it again with the same key."""

    limit_s: int


class GatewayNotStarted(HoldfastError):
    """The gateway did not start: {reason}. The command was not run. Check the store and the options."""

    reason: str


class LocalOnly(HoldfastError):
    """{what} is not possible through a server: {reason}. Open the store itself with holdfast.open() for it."""

    what: str
    reason: str


# Packages


class ExtraMissing(HoldfastError, ImportError):
    """{what} needs a package that is not installed. Install it with: pip install 'holdfast[{extra}]'"""

    what: str
    extra: str
