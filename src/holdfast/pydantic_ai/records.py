"""Records and entries of a conversation as entries of a session.

Laws: bodies are the framework's own JSON, so they come back as they were, with the same bytes in tool arguments. What UTF-8
cannot express, a half of a surrogate pair that stands alone, becomes a replacement character.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

from pydantic import TypeAdapter
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_core import PydanticSerializationError

from holdfast.pydantic_ai.conversations import RECORD_KIND
from holdfast.pydantic_ai.messages import clean
from holdfast.types import Entry, NewEntry

ENTRY_KIND = "pydantic-ai/entry"
"""The kind of the entries that are messages of a conversation."""
_PREFIX = "entry/"
_RECORDS: TypeAdapter[list[ConversationRecord]] = TypeAdapter(
    list[ConversationRecord], config={"ser_json_bytes": "base64", "val_json_bytes": "base64"}
)
T = TypeVar("T")


def name_entry(entry_id: str) -> str:
    """The key of an entry."""
    return _PREFIX + entry_id


def encode_entry(entry: ConversationEntry) -> NewEntry:
    """An entry of a conversation, with its message in the framework's JSON."""
    message = _dump(ModelMessagesTypeAdapter, [entry.message])
    parent = None if entry.parent_id is None else name_entry(entry.parent_id)
    return NewEntry(ENTRY_KIND, name_entry(entry.id), message, parent=parent)


def decode_entry(entry: Entry) -> ConversationEntry:
    """The entry of a conversation. Each call makes a new object."""
    assert isinstance(entry.body, bytes), "encode_entry wrote it"
    [message] = ModelMessagesTypeAdapter.validate_json(entry.body)
    return ConversationEntry(id=_read_id(entry.key), parent_id=find_parent(entry), message=message)


def find_parent(entry: Entry) -> str | None:
    """The id of the entry before this one."""
    return None if entry.parent is None else _read_id(entry.parent)


def encode_record(record: ConversationRecord, number: int) -> NewEntry:
    """A record, as the entry of this number."""
    return NewEntry(RECORD_KIND, f"record/{number}", _dump(_RECORDS, [record]))


def decode_record(entry: Entry | None) -> ConversationRecord | None:
    """The record in an entry; None if there is none, or if it says that the conversation was deleted."""
    if entry is None or not entry.body:
        return None
    assert isinstance(entry.body, bytes), "encode_record wrote it"
    [record] = _RECORDS.validate_json(entry.body)
    return record


def next_number(entry: Entry | None) -> int:
    """The number of the record after this one."""
    return 1 if entry is None else int(entry.key.partition("/")[2]) + 1


def _read_id(key: str) -> str:
    return key.removeprefix(_PREFIX)


def _dump(adapter: TypeAdapter[T], value: T) -> bytes:
    try:
        return adapter.dump_json(value)
    except PydanticSerializationError:
        return json.dumps(_clean_values(adapter.dump_python(value, mode="json")), ensure_ascii=False).encode()


def _clean_values(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(name): _clean_values(each) for name, each in value.items()}
    return [_clean_values(each) for each in value] if isinstance(value, list) else value
