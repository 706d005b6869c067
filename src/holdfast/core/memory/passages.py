"""Cut messages into passages, with the terms that they are found by.

Laws:
- A passage is a verbatim part of one content of one message; `start` says where.
- Words of the user need no permission. What a tool or the assistant said needs those of the session then: a reader who
  has lost one of them does not get it back through memory.
- System messages, replies that models do not see and results that Holdfast itself wrote are no passages.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from holdfast.core.history.previews import is_text
from holdfast.core.history.views import pieces_of
from holdfast.model import limits
from holdfast.model.content import BlobRef, Body, Part, text_of
from holdfast.model.history.events import HandleReplaced
from holdfast.model.history.handles import piece_id
from holdfast.model.memory.passages import IndexedPassage, IndexMark, Passage, PassageKind
from holdfast.model.names import Scope
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.messages import Message
from holdfast.model.situation.situations import FIELDS, FieldName
from holdfast.text.recall.splits import split_passages
from holdfast.text.recall.terms import passage_terms

SPEAKER = "speaker"
"""The metadata of a message that names who said it, where several people speak in one role."""
_SITUATION_PART = 1_000_000
"""The parts of a situation are numbered from here, one for each of its fields."""


def follow_identity(mark: IndexMark, identity: Identity) -> IndexMark:
    """The mark after an event that sets the identity of the session."""
    return msgspec.structs.replace(
        mark,
        user=identity.user_id,
        speaker=identity.user_name,
        permissions=tuple(sorted({*identity.permissions})),
    )


def is_remembered(message: Message) -> bool:
    """Whether a message has passages."""
    return message.role not in (None, "system") and not message.skipped and not message.closing


def find_bodies(parts: Iterable[Part]) -> Iterator[BlobRef]:
    """The stored bodies among these parts that can be read as text."""
    for part in parts:
        if isinstance(part, Body) and is_text(part.ref):
            yield part.ref


def build_passages(
    scope: Scope,
    message: Message,
    mark: IndexMark,
    bodies: Mapping[str, bytes],
    recalls: Collection[str] = (),
) -> tuple[IndexedPassage, ...]:
    """The passages of a message. `bodies` has the beginnings of its stored bodies, by digest; `recalls` are calls of
    recall_memory, whose results only repeat other passages."""
    passages: list[IndexedPassage] = []
    for content, handle in _read_contents(message, bodies, recalls):
        for start, text in split_passages(content):
            if text.strip() and len(passages) < limits.PASSAGE_PARTS:
                passage = _build_passage(scope, message, mark, text, len(passages), handle, start)
                passages.append(IndexedPassage(passage, passage_terms(text)))
    return tuple(passages)


def _read_contents(
    message: Message, bodies: Mapping[str, bytes], recalls: Collection[str]
) -> Iterator[tuple[str, str]]:
    """The contents of a message as text, each with the handle that reads it; without one for a short text."""
    plain: list[Part] = []
    for number, parts, call in pieces_of(message):
        if call is None and not any(isinstance(part, Body) for part in parts):
            plain += parts
            continue
        if call in recalls:
            continue
        yield _read_text(parts, bodies), piece_id(message.seq, number)
    if plain:
        yield text_of(plain, "" if message.role == "assistant" else "\n"), ""


def _read_text(parts: Iterable[Part], bodies: Mapping[str, bytes]) -> str:
    texts = (_read_body(part, bodies) if isinstance(part, Body) else text_of([part]) for part in parts)
    return "\n".join(filter(None, texts))


def _read_body(body: Body, bodies: Mapping[str, bytes]) -> str:
    start = bodies.get(body.ref.digest)
    return body.preview if start is None else start.decode(errors="ignore")


def _build_passage(
    scope: Scope,
    message: Message,
    mark: IndexMark,
    text: str,
    part: int,
    handle: str = "",
    start: int = 0,
) -> Passage:
    assert message.role is not None, "an erased message has no passages"
    named = message.metadata.get(SPEAKER)
    is_user = message.role == "user" and message.frame is None  # in a frame, an agent writes these messages
    return Passage(
        scope=scope,
        seq=message.seq,
        part=part,
        role=message.role,
        speaker=named[: limits.NAME_BYTES] if isinstance(named, str) else mark.speaker if is_user else "",
        user=mark.user,
        frame=message.frame or "",
        time_us=message.time_us,
        place=mark.places,
        requires=() if is_user else mark.permissions,
        handle=handle,
        start=start,
        text=text,
    )


def build_attachment_passages(
    scope: Scope,
    event: HandleReplaced,
    time_us: int,
    mark: IndexMark,
    parts: Sequence[Part],
    bodies: Mapping[str, bytes],
) -> tuple[IndexedPassage, ...]:
    """The passages of a handle of a frame that was moved to the semantic tier: its knowledge entry."""
    passages: list[IndexedPassage] = []
    for start, text in split_passages(_read_text(parts, bodies)):
        if text.strip() and len(passages) < limits.PASSAGE_PARTS:
            passage = Passage(
                scope=scope,
                seq=event.at,
                part=len(passages),
                role="tool",
                user=mark.user,
                frame=event.frame,
                time_us=time_us,
                place=mark.places,
                requires=mark.permissions,
                handle=event.handle,
                start=start,
                text=text,
            )
            passages.append(IndexedPassage(passage, passage_terms(text)))
    return tuple(passages)


def build_situation_passages(
    scope: Scope, mark: IndexMark, fields: Mapping[FieldName, tuple[int, int, str]]
) -> tuple[IndexedPassage, ...]:
    """What a conversation had come to, a passage for each field. `fields` has the event that set it, its time and its text:
    whoever erases that event erases the passage."""
    kind: PassageKind = "situation"
    passages: list[IndexedPassage] = []
    for number, name in enumerate(FIELDS):
        if name in fields:
            seq, time_us, text = fields[name]
            line = f"{name.replace('_', ' ')}: {text}"
            passage = Passage(
                scope=scope,
                seq=seq,
                part=_SITUATION_PART + number,
                kind=kind,
                role="assistant",
                user=mark.user,
                time_us=time_us,
                place=mark.places,
                requires=mark.permissions,
                text=line,
            )
            passages.append(IndexedPassage(passage, passage_terms(line)))
    return tuple(passages)
