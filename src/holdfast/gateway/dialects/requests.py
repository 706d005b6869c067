"""Put a request together from what a dialect read of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from holdfast.gateway.bodies import decode
from holdfast.gateway.dialects.elements import PlacedElement, digest_parts
from holdfast.gateway.dialects.heads import HeadPart
from holdfast.gateway.dialects.identity import ClientIdentity
from holdfast.gateway.dialects.marks import Marks
from holdfast.gateway.dialects.recent import KnownMessages
from holdfast.gateway.lineage import build_chain
from holdfast.gateway.model import ClientMessage, ClientRequest, Dialect, Slice


def assemble_request(
    *,
    dialect: Dialect,
    array: Slice,
    placed: Sequence[PlacedElement],
    known: KnownMessages,
    identity: ClientIdentity,
    model: str,
    is_stream: bool,
    side: str,
    head: Sequence[HeadPart],
    marks: Sequence[tuple[int, int]] = (),
    last_mark: Marks = Marks(),
    max_output: int = 0,
) -> ClientRequest:
    """The request. `known` are its first messages, as far as they were read before; `marks` are counts and times of marks
    before the messages; `last_mark` is one behind them."""
    new = join_replies(placed[known.elements :])
    messages = (*known.messages, *new)
    own = last_mark
    for each in placed:
        if each.element.marks:
            is_longer = each.element.ttl_s > own.ttl_s
            longest = each.element.mark if is_longer or not own.longest else own.longest
            own = Marks(own.number + each.element.marks, max(own.ttl_s, each.element.ttl_s), longest)
    ttl_s = max([own.ttl_s, *(each for _, each in marks)])
    return ClientRequest(
        dialect=dialect,
        model=model,
        is_stream=is_stream,
        client=identity.client,
        family=identity.family,
        cache_key=identity.cache_key,
        agent=identity.agent,
        parent_agent=identity.parent_agent,
        side=side or ("" if messages else "no messages"),
        head=digest_parts([model.encode(), *(part.digest or b"-" for part in head)]),
        head_bytes=sum(part.size for part in head),
        array=array,
        messages=messages,
        chain=build_chain(new, known.chain),
        marks=own.number + sum(each for each, _ in marks),
        ttl_s=ttl_s or None,
        mark=own.longest,
        max_output=max_output,
    )


def join_replies(placed: Sequence[PlacedElement]) -> tuple[ClientMessage, ...]:
    """The messages: successive items of a reply are one."""
    messages: list[ClientMessage] = []
    run: list[PlacedElement] = []
    for each in placed:
        if each.element.joins:
            run.append(each)
            continue
        if run:
            messages.append(_join_run(run))
            run = []
        messages.append(each.message)
    if run:
        messages.append(_join_run(run))
    return tuple(messages)


def _join_run(run: Sequence[PlacedElement]) -> ClientMessage:
    return ClientMessage(
        at=Slice(run[0].message.at.start, run[-1].message.at.end),
        role="assistant",
        pieces=tuple(piece for each in run for piece in each.message.pieces),
        digest=digest_parts([b"reply", *(each.element.digest for each in run)]),
        stays=any(each.element.stays for each in run),
    )


def read_leading(placed: Sequence[PlacedElement]) -> HeadPart:
    """The system messages at the front, in dialects that have the system prompt among the messages."""
    leading = list(itertools.takewhile(lambda each: each.element.role == "system", placed))
    size = sum(each.message.at.end - each.message.at.start for each in leading)
    return HeadPart(digest=digest_parts(each.element.digest for each in leading), size=size, count=len(leading))


def read_whole(body: bytes, at: Slice | None) -> int:
    """The whole number at this slice; 0 if there is none."""
    value = None if at is None else decode(body, at)
    return value if type(value) is int and value > 0 else 0


def read_flag(body: bytes, at: Slice | None) -> bool:
    """Whether the value at this slice is true."""
    return at is not None and body[at.start : at.end] == b"true"
