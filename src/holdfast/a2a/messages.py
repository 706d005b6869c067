"""The messages and artifacts of a task of A2A, as messages of a session."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from a2a.types.a2a_pb2 import ROLE_AGENT, Message, Part, Task
from google.protobuf.json_format import MessageToDict

from holdfast.frameworks.shadows import ShadowMessage
from holdfast.model import limits

DATA_CHARS = 2_000
"""The most characters of a name or an address that stand for a file."""


def read_task(task: Task, *, is_over: bool) -> list[ShadowMessage]:
    """The conversation of a task: its history, the message of its status, and the artifacts once it is over."""
    messages = [*task.history]
    if task.status.HasField("message") and task.status.message not in messages:
        messages.append(task.status.message)
    read = [*_read_messages(messages)]
    if is_over:
        for number, artifact in enumerate(task.artifacts):
            name = artifact.artifact_id or str(number)
            content = _read_parts(artifact.parts)
            if content:
                read.append(ShadowMessage(f"artifact:{name}", {"role": "assistant", "content": content}))
    return read


def _read_messages(messages: Iterable[Message]) -> Iterator[ShadowMessage]:
    counts: dict[str, int] = {}
    for message in messages:
        content = _read_parts(message.parts)
        if not content:
            continue
        role = "assistant" if message.role == ROLE_AGENT else "user"
        read = ShadowMessage(message.message_id, {"role": role, "content": content})
        name = message.message_id or read.digest
        counts[name] = number = counts.get(name, 0) + 1  # an agent may send one id twice
        yield ShadowMessage(name if number == 1 else f"{name}-{number}", read.message)


def _read_parts(parts: Iterable[Part]) -> list[dict[str, Any]]:
    texts = [text for text in map(_read_part, parts) if text]
    if len(texts) > limits.CONTENT_PARTS:
        texts = ["\n".join(texts)]
    return [{"type": "text", "text": text} for text in texts]


def _read_part(part: Part) -> str:
    """A part as text. A file is named; its bytes are in the task."""
    kind = part.WhichOneof("content")
    if kind == "text":
        return part.text
    if kind == "data":
        return json.dumps(MessageToDict(part.data), ensure_ascii=False)
    label = f" {part.filename[:DATA_CHARS]}" if part.filename else ""
    media = f", {part.media_type}" if part.media_type else ""
    if kind == "raw":
        return f"[file{label}{media}, {len(part.raw)} bytes]"
    return f"[file{label}{media} at {part.url[:DATA_CHARS]}]" if kind == "url" else ""
