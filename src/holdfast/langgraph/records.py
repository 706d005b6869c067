"""The entries of a thread: how checkpoints and writes are named in a session, and how writes are read.

| kind | key | parent | body |
|---|---|---|---|
| `checkpoint:` and the namespace | the checkpoint | the parent checkpoint | head and channels; large ones apart |
| `older checkpoint:` and the namespace | the same, of one that came after a newer one | | |
| `block` | a digest of the body | | elements of a list |
| `blocks` | a digest of the body | | names of blocks, or of blocks of blocks |
| `writes` | a random name | the checkpoint | task, path and writes |
| `run:` and the run | run and checkpoint | the checkpoint | none |
| `owner` | a random name | | none |

A checkpoint is named by its id, and by its namespace if that is not the root.

Laws: in the kind `checkpoint:`, a later entry has a higher id, so the newest entry is the latest checkpoint. Writes are
only appended: which of them count is decided when they are read. A block has the same elements for ever, and exists as long
as a checkpoint names it, or a block that exists. Where a block ends depends only on its elements: a list that grows, or
loses its oldest elements, has all but the ends in common with the last one.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import urllib.parse
import zlib
from collections.abc import Iterable, Mapping, Sequence
from operator import eq
from typing import Any, NamedTuple

import msgspec
from langgraph.checkpoint.base import WRITES_IDX_MAP, writes_sort_key

import holdfast
from holdfast.langgraph.deflation import (
    BLOCK_PREFIX,
    LARGE_BYTES,
    NAME_CHARS,
    measure,
    open_body,
    pack_body,
    pack_elements,
)
from holdfast.types import NewEntry

CHECKPOINT = "checkpoint:"
OLDER = "older checkpoint:"
WRITES = "writes"
BLOCK = "block"
BLOCKS = "blocks"
RUN = "run:"
OWNER = "owner"
AGENT = "langchain "
"""How the kinds begin of what the middleware of an agent stores about its tools, in the same session."""
_BLOCK_ELEMENTS = 6
"""Small elements of a block on average; three times as many at most."""
_BLOCK_BYTES = 3_072
"""A block ends when its elements have as many. A larger one is a block of its own."""
_ROW_BLOCKS = 8
"""Blocks that a block of blocks names on average; three times as many at most."""
_SAFE = "-_.:~"
"""Characters that stay as they are in an id."""


class CheckpointName(NamedTuple):
    """A checkpoint of a thread."""

    id: str
    namespace: str

    @property
    def key(self) -> str:
        quoted = urllib.parse.quote(self.id, safe=_SAFE)
        return f"{quoted} {self.namespace}" if self.namespace else quoted


def parse_checkpoint(entry: holdfast.types.Entry) -> CheckpointName | None:
    """The checkpoint of an entry; None if the entry is no checkpoint."""
    for prefix in (CHECKPOINT, OLDER):
        if entry.kind.startswith(prefix):
            return CheckpointName(parse_id(entry.key), entry.kind.removeprefix(prefix))
    return None


def parse_id(key: str) -> str:
    """The id of the checkpoint with this key."""
    return urllib.parse.unquote(key.partition(" ")[0])


def build_writes(name: CheckpointName, task_id: str, task_path: str, writes: Iterable[tuple[str, Any]]) -> NewEntry:
    """The entry for writes of a task. Their values are dumped already."""
    numbered = [[WRITES_IDX_MAP.get(channel, at), channel, value] for at, (channel, value) in enumerate(writes)]
    if measure(numbered) <= LARGE_BYTES:
        body = pack_body({"task": task_id, "path": task_path, "writes": numbered})
    else:
        apart = [[number, channel, pack_elements(value)] for number, channel, value in numbered]
        body = {"task": task_id, "path": task_path, "writes": apart}
    return NewEntry(WRITES, f"w{secrets.token_urlsafe(9)}", body, parent=name.key)


def build_checkpoint(head: str, forms: Mapping[str, Any]) -> Any:
    """The body of a checkpoint."""
    small: dict[str, Any] = {}
    large: dict[str, Any] = {}
    for channel, form in forms.items():
        if _is_blocked(form) or measure(form) <= LARGE_BYTES:
            small[channel] = form
        else:
            large[channel] = pack_elements(form)
    return pack_body({"head": head, "channels": small}, {"channels": large} if large else None)


def open_checkpoint(body: Any) -> dict[str, Any]:
    """The head and the channels of a checkpoint."""
    opened = open_body(body)
    return {"head": opened["head"], "channels": {**opened["channels"], **body.get("channels", {})}}


class Block(NamedTuple):
    """Elements of a list, or names of blocks."""

    key: str
    form: Mapping[str, list[str]]
    body: Any
    """The form, as it is stored."""
    end: int = 0
    """Where the elements end in the list."""

    @property
    def entry(self) -> NewEntry:
        """The entry of the block."""
        return NewEntry(BLOCKS if "blocks" in self.form else BLOCK, self.key, self.body)


class BlockedList(NamedTuple):
    """The texts of a list, and its blocks."""

    texts: Sequence[str] = ()
    blocks: tuple[Block, ...] = ()
    rows: tuple[Block, ...] = ()
    """The blocks that name others."""
    names: tuple[str, ...] = ()
    """The blocks that no other one names."""

    @property
    def form(self) -> dict[str, Any]:
        """What a checkpoint has of the list: the names of blocks, and the texts behind them."""
        tail = list(self.texts[self.blocks[-1].end :] if self.blocks else self.texts)
        return {"blocks": list(self.names), "list": tail} if self.names else {"list": tail}


def count_shared(texts: Sequence[str], others: Sequence[str]) -> int:
    """How many texts two lists have in common at their beginning."""
    count = min(len(texts), len(others))
    if all(map(eq, texts, others)):
        return count
    return next(at for at in range(count) if texts[at] != others[at])


def split_blocks(texts: Sequence[str], last: BlockedList) -> BlockedList:
    """The blocks of a list. What it shares with the beginning of the last one is not looked at again."""
    shared = count_shared(texts, last.texts)
    count = sum(1 for block in last.blocks if block.end <= shared)
    blocks = [*last.blocks[:count]]
    start = blocks[-1].end if blocks else 0
    size = 0
    for at in range(start, len(texts)):
        text = texts[at]
        if len(text) > LARGE_BYTES:
            if at > start:
                blocks.append(_build_block({"list": list(texts[start:at])}, at))
            blocks.append(_build_block({"list": [text]}, at + 1))
            start, size = at + 1, 0
            continue
        size += len(text)
        if (
            at + 1 - start == 3 * _BLOCK_ELEMENTS
            or size >= _BLOCK_BYTES
            or zlib.crc32(text.encode()) % _BLOCK_ELEMENTS == 0
        ):
            blocks.append(_build_block({"list": list(texts[start : at + 1])}, at + 1))
            start, size = at + 1, 0
    if tuple(blocks) == last.blocks:
        return last._replace(texts=texts)
    known = {tuple(row.form["blocks"]): row for row in last.rows}
    return BlockedList(texts, tuple(blocks), *_build_rows([block.key for block in blocks], known))


def _build_block(form: dict[str, list[str]], end: int = 0) -> Block:
    texts = form.get("list")
    body = form if texts and len(texts[0]) > LARGE_BYTES else pack_body(form)
    digest = hashlib.sha256(msgspec.json.encode(body)).digest()
    return Block(f"{BLOCK_PREFIX}{base64.urlsafe_b64encode(digest).decode()[:NAME_CHARS]}", form, body, end)


def _build_rows(keys: list[str], known: Mapping[tuple[str, ...], Block]) -> tuple[tuple[Block, ...], tuple[str, ...]]:
    """The blocks that name these, and others of them; and the names that are in none, highest first."""
    rows: list[Block] = []
    levels: list[list[str]] = []
    while keys:
        start = 0
        higher: list[str] = []
        for at, key in enumerate(keys):
            count = at + 1 - start
            if count == 3 * _ROW_BLOCKS or (count > 1 and zlib.crc32(key.encode()) % _ROW_BLOCKS == 0):
                rows.append(known.get(tuple(keys[start : at + 1])) or _build_block({"blocks": keys[start : at + 1]}))
                higher.append(rows[-1].key)
                start = at + 1
        levels.append(keys[start:])
        keys = higher
    return tuple(rows), tuple(key for level in reversed(levels) for key in level)


def named_blocks(form: Any) -> list[str]:
    """The blocks that a value of a channel names."""
    inner = _open_snapshot(form)
    return inner.get("blocks", []) if isinstance(inner, dict) else []


def _is_blocked(form: Any) -> bool:
    """Whether a value of a channel is a list, of which only the end is not in blocks."""
    inner = _open_snapshot(form)
    return isinstance(inner, dict) and "list" in inner


def _open_snapshot(form: Any) -> Any:
    while isinstance(form, dict) and "snapshot" in form:
        form = form["snapshot"]
    return form


def fold_writes(entries: Iterable[holdfast.types.Entry]) -> list[tuple[str, str, Any]]:
    """The writes of a checkpoint that count, as (task, channel, dumped value), in the order in which LangGraph applies
    them. The entries come oldest first.

    A write of a special channel replaces the earlier one; of all others, the first counts."""
    kept: dict[tuple[str, int], tuple[str, str, Any]] = {}
    for entry in entries:
        body = open_body(entry.body)
        for number, channel, value in body["writes"]:
            place = (body["task"], number)
            if number < 0 or place not in kept:
                kept[place] = (body["path"], channel, value)
    ordered = sorted(kept.items(), key=lambda item: writes_sort_key(item[1][0], *item[0]))
    return [(task, channel, value) for (task, _), (_, channel, value) in ordered]
