"""Which recorded conversation a request goes on with. Pure.

Every client sends its whole list of messages each time. A chain of hashes over the digests of the messages names each
beginning of a list, so equal hashes mean equal beginnings. A branch is a recorded conversation: the hashes of its messages.

Its end is open: the client has not repeated it yet. It consists of the last message that the client sent, system messages
behind it, and the reply that was recorded for it. A client may send another version of what is open (an edited reply,
another reminder); its version is the transcript then. What the client has repeated is fixed: where a list differs from
that, it is a fork.

Laws: two lists with different messages are never taken for the same beginning. A list that extends a branch continues it. A
request that is repeated finds the place of the first one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

from holdfast.gateway.model import ClientMessage

HASH_BYTES = 12
Relation: TypeAlias = Literal["new", "continue", "retry", "revise", "fork", "epoch"]
"""Nothing of the family is known · it extends a branch · a branch has it already · it differs in the open end of a branch ·
it differs earlier · nothing of it is known, although the family is: the client shortened its list."""


class Node(NamedTuple):
    """A recorded message of a client."""

    hash: bytes
    role: str
    calls: tuple[str, ...] = ()
    """The client's ids of the calls that it makes or answers."""
    is_reply: bool = False
    """It was recorded as the reply of the provider, before the client repeated it."""


class Match(NamedTuple):
    """Where a request belongs."""

    relation: Relation
    branch: str = ""
    """The name of the branch that shares most with it."""
    shared: int = 0
    """The messages that both have from the beginning on."""


def build_chain(messages: Iterable[ClientMessage | bytes], before: Sequence[bytes] = ()) -> list[bytes]:
    """The hash of every beginning of a list of messages, or of their digests. `before` are those of the messages that come
    before these."""
    hashes = [*before]
    last = hashes[-1] if hashes else b""
    for message in messages:
        digest = message if isinstance(message, bytes) else message.digest
        last = extend_chain(last, digest)
        hashes.append(last)
    return hashes


def extend_chain(before: bytes, digest: bytes) -> bytes:
    """The hash of a list that ends in a message with this digest."""
    return hashlib.blake2b(before + digest, digest_size=HASH_BYTES).digest()


def find_match(
    chain: Sequence[bytes], messages: Sequence[ClientMessage], branches: Mapping[str, Sequence[Node]]
) -> Match:
    """Where a request with this chain belongs, among the branches of its family."""
    if not branches:
        return Match("new")
    best, name = 0, ""
    for each, nodes in branches.items():
        shared = count_shared(chain, nodes)
        if shared > best or (shared == best and shared and _fits_better(nodes, branches[name], shared)):
            best, name = shared, each
    if not best:
        return _match_unknown(messages, branches)
    return Match(_relate(messages, branches[name], best), name, best)


def count_shared(chain: Sequence[bytes], nodes: Sequence[Node]) -> int:
    """How many messages a list and a branch share from the beginning on. Hashes are chained, so halves are compared."""
    low, high = 0, min(len(chain), len(nodes))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if chain[middle - 1] == nodes[middle - 1].hash else (low, middle - 1)
    return low


def count_fixed(nodes: Sequence[Node]) -> int:
    """How many messages of a branch the client has repeated; those behind are open."""
    end = len(nodes)
    if end and nodes[end - 1].is_reply:
        end -= 1
    while end and nodes[end - 1].role == "system":
        end -= 1
    return max(0, end - 1)


def _fits_better(nodes: Sequence[Node], other: Sequence[Node], shared: int) -> bool:
    """Whether a branch that shares as much as another one leaves less behind: one that ends there, or is open there."""
    return _rank_end(nodes, shared) > _rank_end(other, shared)


def _rank_end(nodes: Sequence[Node], shared: int) -> int:
    if len(nodes) == shared:
        return 2
    return int(shared >= count_fixed(nodes))


def _relate(messages: Sequence[ClientMessage], nodes: Sequence[Node], shared: int) -> Relation:
    rest = nodes[shared:]
    if shared == len(messages):
        is_answered = shared >= count_fixed(nodes) and all(node.is_reply or node.role == "system" for node in rest)
        return "retry" if is_answered else "fork"
    if not rest:
        return "continue"
    return "revise" if is_revision(messages, nodes, shared) else "fork"


def is_revision(messages: Sequence[ClientMessage], nodes: Sequence[Node], shared: int) -> bool:
    """Whether a list has another version of the open end of a branch. A reply of which the client kept nothing is one; a
    message of the user with other words is a fork."""
    first, node = messages[shared], nodes[shared]
    if shared < count_fixed(nodes):
        return False
    if node.role in ("assistant", "system"):
        return first.role != "assistant" or {*_calls_of(first)} <= {*node.calls} or node.role == "system"
    return bool(node.calls) and first.role == node.role and _calls_of(first) == node.calls


def _match_unknown(messages: Sequence[ClientMessage], branches: Mapping[str, Sequence[Node]]) -> Match:
    """A list that shares nothing with its family: the first of a branch that was begun, another version of an only
    message, or an epoch."""
    for name, nodes in branches.items():
        if not nodes:
            return Match("continue", name, 0)
        if nodes and messages and is_revision(messages, nodes, 0):
            return Match("revise", name, 0)
    return Match("epoch", list(branches)[-1], 0)


def _calls_of(message: ClientMessage) -> tuple[str, ...]:
    return tuple(piece.call for piece in message.pieces if piece.call)
