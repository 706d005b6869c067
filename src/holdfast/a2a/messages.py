"""A task of A2A as JSON, and its messages and artifacts as messages of a session.

Law: a reading that begins with an earlier one is equal to a reading that begins with nothing. Each message and artifact of
before counts only if it is equal.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from a2a.types.a2a_pb2 import ROLE_AGENT, Artifact, Message, Part, Task
from google.protobuf.json_format import MessageToDict, ParseDict, SerializeToJsonError

from holdfast.conversion import CheckedJson
from holdfast.frameworks.shadows import ShadowMessage
from holdfast.model import limits

DATA_CHARS = 2_000
"""The most characters of a name or an address that stand for a file."""


class _ReadMessage(NamedTuple):
    message: Message
    """A copy: a message that is taken out of a task would keep that whole task in memory."""
    fields: CheckedJson | None
    """Its JSON; None if it has no JSON form."""
    shadow: ShadowMessage
    """Without content, if models see nothing of it."""


class _ReadArtifact(NamedTuple):
    artifact: Artifact
    fields: CheckedJson | None


class TaskReading:
    """A task, read part by part. What `before` has of it is not read again; `body` is its JSON, if that is known."""

    def __init__(self, task: Task, before: TaskReading | None = None, body: Any = None) -> None:
        stored = body if isinstance(body, dict) else {}
        self._messages: dict[tuple[str, int], _ReadMessage] = {}
        self._artifacts: dict[tuple[str, int], _ReadArtifact] = {}
        self._names: dict[str, int] = {}
        """How often each name of a message came so far."""
        known_messages = before._messages if before is not None else {}
        known_artifacts = before._artifacts if before is not None else {}
        counts: dict[str, int] = {}
        history = [
            self._add_message(message, counts, known_messages, fields)
            for message, fields in _pair(task.history, stored.get("history"))
        ]
        artifacts = [
            self._add_artifact(artifact, number, known_artifacts, fields)
            for number, (artifact, fields) in enumerate(_pair(task.artifacts, stored.get("artifacts")))
        ]
        self.body = body if body is not None else _join_body(task, history, [each.fields for each in artifacts])
        """As JSON, so that what does not change is stored once; as bytes if the task has no JSON form, such as a NaN."""
        if task.status.HasField("message") and not self._has_message(task.status.message, counts):
            self._add_message(task.status.message, counts, known_messages, None)

    def _add_message(
        self, message: Message, counts: dict[str, int], known: dict[tuple[str, int], _ReadMessage], fields: Any
    ) -> Any:
        """Read a message, or find it; returns its JSON."""
        name = message.message_id
        counts[name] = number = counts.get(name, 0) + 1  # an agent may send one id twice
        read = known.get((name, number))
        if read is None or read.message != message:
            read = _read_message(message, fields)
        if read.shadow.message["content"]:
            shown = name or read.shadow.digest
            self._names[shown] = times = self._names.get(shown, 0) + 1
            shown = shown if times == 1 else f"{shown}-{times}"
            if shown != read.shadow.id:
                read = read._replace(shadow=ShadowMessage(shown, read.shadow.message))
        self._messages[name, number] = read
        return read.fields

    def _has_message(self, message: Message, counts: dict[str, int]) -> bool:
        name = message.message_id
        return any(self._messages[name, number].message == message for number in range(1, counts.get(name, 0) + 1))

    def _add_artifact(
        self, artifact: Artifact, number: int, known: dict[tuple[str, int], _ReadArtifact], fields: Any
    ) -> _ReadArtifact:
        name = (artifact.artifact_id, number)
        read = known.get(name)
        if read is None or read.artifact != artifact:
            copy = Artifact()
            copy.CopyFrom(artifact)
            read = _ReadArtifact(copy, _check(copy, fields))
        self._artifacts[name] = read
        return read

    def list_conversation(self, *, is_over: bool) -> list[ShadowMessage]:
        """The conversation: the history, the message of the status, and the artifacts once the task is over."""
        listed = [read.shadow for read in self._messages.values() if read.shadow.message["content"]]
        if is_over:
            for (name, number), read in self._artifacts.items():
                content = _read_parts(read.artifact.parts)
                if content:
                    listed.append(
                        ShadowMessage(f"artifact:{name or number}", {"role": "assistant", "content": content})
                    )
        return listed


def _pair(values: Sequence[Any], fields: list[Any] | None) -> Iterable[tuple[Any, Any]]:
    """Each value with its JSON, if that is known."""
    return zip(values, [None] * len(values) if fields is None else fields, strict=True)


def _join_body(task: Task, history: list[Any], artifacts: list[Any]) -> Any:
    rest = Task()
    rest.CopyFrom(task)
    rest.ClearField("history")
    rest.ClearField("artifacts")
    fields = _encode(rest)
    if fields is None or None in history or None in artifacts:
        return task.SerializeToString(deterministic=True)
    lists = {"history": history, "artifacts": artifacts}
    return {**fields, **{name: values for name, values in lists.items() if values}}


def _encode(value: Message | Artifact | Task) -> dict[str, Any] | None:
    """The JSON of a value; None if it would not come back as it is."""
    try:
        fields: dict[str, Any] = MessageToDict(value, preserving_proto_field_name=True)
        if ParseDict(fields, type(value)()) == value:
            return fields
    except (SerializeToJsonError, ValueError):
        pass
    return None


def decode_task(body: Any) -> Task:
    task: Task = Task.FromString(body) if isinstance(body, bytes) else ParseDict(body, Task())
    return task


def _read_message(message: Message, fields: Any) -> _ReadMessage:
    copy = Message()
    copy.CopyFrom(message)
    role = "assistant" if copy.role == ROLE_AGENT else "user"
    shadow = ShadowMessage(copy.message_id, {"role": role, "content": _read_parts(copy.parts)})
    return _ReadMessage(copy, _check(copy, fields), shadow)


def _check(value: Message | Artifact, fields: Any) -> CheckedJson | None:
    """The JSON of an element of a task, where it stands in the body."""
    fields = _encode(value) if fields is None else fields
    return None if fields is None else CheckedJson("the task", fields, 2)


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
        return _read_data(part)
    label = f" {part.filename[:DATA_CHARS]}" if part.filename else ""
    media = f", {part.media_type}" if part.media_type else ""
    if kind == "raw":
        return f"[file{label}{media}, {len(part.raw)} bytes]"
    return f"[file{label}{media} at {part.url[:DATA_CHARS]}]" if kind == "url" else ""


def _read_data(part: Part) -> str:
    """Data as JSON. Its fields are sorted: the order in which a protobuf has them differs from copy to copy."""
    try:
        return json.dumps(MessageToDict(part.data), ensure_ascii=False, sort_keys=True)
    except (SerializeToJsonError, ValueError):  # such as a NaN
        return "[data without a JSON form]"
