"""A thread of LangGraph in a session: its entries, its transcript, and who may write.

Laws: nothing is stored between the check of a guard and the write. A block that a checkpoint names is stored with it, or
was stored before and not deleted since.
"""

from __future__ import annotations

import contextvars
import heapq
import threading
import time
import uuid
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

import holdfast
from holdfast.errors import (
    Contended,
    EntryConflict,
    InvalidArgument,
    InvalidName,
    StorageCorrupt,
    VersionConflict,
    WriterStale,
)
from holdfast.frameworks.engines import append_new_entry, list_entries, peek_state
from holdfast.langgraph.deflation import open_body
from holdfast.langgraph.records import (
    BLOCK,
    BLOCKS,
    CHECKPOINT,
    OLDER,
    OWNER,
    WRITES,
    Block,
    BlockedList,
    CheckpointName,
    build_checkpoint,
    named_blocks,
    open_checkpoint,
    parse_checkpoint,
    parse_id,
    split_blocks,
)
from holdfast.langgraph.transcripts import Spoken, ThreadTranscript
from holdfast.langgraph.values import KnownList, ValueCodec, is_shared_list, open_snapshot
from holdfast.model import limits
from holdfast.types import Entry, NewEntry, SessionState, shorten_name

_PAGE = 1_000
_BODIES = 100
"""Entries with bodies of one read."""
_DELETED = 1_000
_ERASED = 5_000
_BATCH_BLOCKS = 100
_BATCH_ENTRIES = 100
_BATCH_BYTES = 4 << 20
_FEW_BLOCKS = 8
_TRIES = 256
_PAUSE_S = 0.002
_LONGEST_PAUSE_S = 0.02
_REMEMBERED_BODIES = 16
_REMEMBERED_READS = 64

_ADDRESSED: contextvars.ContextVar[tuple[tuple[str, str], ...]] = contextvars.ContextVar(
    "holdfast_addressed", default=()
)
"""The checkpoints that this context has read by their id: who runs from one of them forks the thread on purpose."""


class ChannelForms(NamedTuple):
    """The values of a checkpoint, as they are stored."""

    id: str
    versions: Mapping[str, Any]
    forms: Mapping[str, Any]
    lists: Mapping[str, tuple[KnownList, BlockedList]]
    """Of the channels that are lists."""


class ThreadSession:
    """A thread of LangGraph, stored in a session. Threads of the program can share it."""

    def __init__(self, thread_id: str, session: holdfast.Session, *, observe: bool) -> None:
        self.id = thread_id
        self.session = session
        self._transcript = ThreadTranscript(thread_id, session, observe=observe)
        self._lock = threading.RLock()
        self._write_lock = threading.RLock()
        """Who holds it writes entries: writers of one process do not run into each other's versions."""
        self._bodies: OrderedDict[int, Any] = OrderedDict()
        self._newest: dict[str, str] = {}
        """The highest id of each namespace that this process has seen."""
        self._changed = -1
        """The session's last erasure when the next fields were read."""
        self._last_forms: dict[str, ChannelForms] = {}
        """Of the checkpoint of each namespace that was read or written last."""
        self._lists: dict[tuple[str, str], tuple[KnownList, BlockedList]] = {}
        """The same, of the lists in it, by namespace and channel."""
        self._blocks: dict[str, Mapping[str, list[str]]] = {}
        """Blocks that are stored, by their keys: the texts or the names in them."""

    # Read

    def find_latest(self, namespace: str) -> Entry | None:
        """The latest checkpoint of a namespace, with its body."""
        while rows := self.session.entries.list(kind=CHECKPOINT + namespace, limit=1, bodies=False):
            entry = self._load_body(rows[0])
            if entry is not None:
                self._newest[namespace] = parse_id(entry.key)
                return entry
        return None

    def find(self, name: CheckpointName) -> Entry | None:
        """A checkpoint by its id, with its body."""
        entry = self.session.entries.get(name.key)
        return None if entry is None else _open_entry(entry)

    def _load_body(self, row: Entry) -> Entry | None:
        """An entry with its body; None if it was deleted meanwhile."""
        with self._lock:
            body = self._bodies.get(row.seq)
        if body is None:
            found = self.session.entries.get(row.key)
            if found is None:
                return None
            body = _open_entry(found).body
            self._remember_body(found.seq, body)
        return msgspec.structs.replace(row, body=body)

    def _remember_body(self, seq: int, body: Any) -> None:
        """Bodies of entries never change, and a seq is never used again."""
        with self._lock:
            self._bodies[seq] = body
            if len(self._bodies) > _REMEMBERED_BODIES:
                self._bodies.popitem(last=False)

    def read_writes(self, name: CheckpointName) -> list[Entry]:
        """The writes of a checkpoint, oldest first."""
        return [*self.iter_rows(kind=WRITES, parent=name.key, bodies=True, is_known=True)][::-1]

    def iter_rows(
        self, *, kind: str | None = None, parent: str | None = None, bodies: bool = False, is_known: bool = False
    ) -> Iterator[Entry]:
        """The entries of the session, newest first; without their bodies unless `bodies`. `is_known`: the caller has just
        read an entry of the session."""
        limit = _BODIES if bodies else _PAGE
        before: int | None = None
        while True:
            page = list_entries(
                self.session, is_known=is_known, kind=kind, parent=parent, before=before, limit=limit, bodies=bodies
            )
            yield from page
            if len(page) < limit:
                return
            before = page[-1].seq

    def iter_checkpoints(self, namespace: str | None) -> Iterator[tuple[CheckpointName, Entry]]:
        """The checkpoints of a namespace, or of all of them, highest id first, without their bodies."""
        if namespace is None:
            named = [(name, row) for row in self.iter_rows() if (name := parse_checkpoint(row)) is not None]
            yield from sorted(named, key=lambda each: each[0].id, reverse=True)
            return
        newer = (
            (CheckpointName(parse_id(row.key), namespace), row) for row in self.iter_rows(kind=CHECKPOINT + namespace)
        )
        older = [(CheckpointName(parse_id(row.key), namespace), row) for row in self.iter_rows(kind=OLDER + namespace)]
        older.sort(key=lambda each: each[0].id, reverse=True)
        yield from heapq.merge(newer, older, key=lambda each: each[0].id, reverse=True)

    # Values

    def load_channels(
        self, codec: ValueCodec, name: CheckpointName, versions: Mapping[str, Any], forms: Any
    ) -> dict[str, Any]:
        """The values of a checkpoint."""
        same = self._take_same_lists(name, forms)
        self._read_blocks([key for channel, form in forms.items() if channel not in same for key in named_blocks(form)])
        values: dict[str, Any] = {}
        lists: dict[str, tuple[KnownList, BlockedList]] = {}
        for channel, form in forms.items():
            if not isinstance(form, dict) or "list" not in form:
                values[channel] = codec.load(self._join_form(form))
                continue
            with self._lock:  # the elements of the last list go before those of the next one come
                last = self._lists.pop((name.namespace, channel), (None, BlockedList()))[1]
            last = same.get(channel, last)
            known = codec.load_list(last.texts if channel in same else self._join_texts(form))
            values[channel] = [*known.elements]
            with self._lock:
                lists[channel] = known, last if channel in same else split_blocks(known.texts, last)
                self._lists[name.namespace, channel] = lists[channel]
        with self._lock:
            self._last_forms[name.namespace] = ChannelForms(name.id, {**versions}, forms, lists)
        return values

    def _take_same_lists(self, name: CheckpointName, forms: Any) -> dict[str, BlockedList]:
        """The lists of a checkpoint, without their elements, if it is the one that was read or written last. Blocks never
        change: equal names are equal texts."""
        with self._lock:
            last = self._last_forms.pop(name.namespace, None)
        if last is None or last.id != name.id:
            return {}
        return {
            channel: blocked
            for channel, (_, blocked) in last.lists.items()
            if "list" in last.forms[channel] and last.forms[channel] == forms.get(channel)
        }

    def join_form(self, form: Any) -> Any:
        """A value of a channel, with its blocks in it."""
        self._read_blocks(named_blocks(form))
        return self._join_form(form)

    def _join_form(self, form: Any) -> Any:
        if isinstance(form, dict) and "snapshot" in form:
            return {"snapshot": self._join_form(form["snapshot"])}
        return {"list": self._join_texts(form)} if isinstance(form, dict) and "blocks" in form else form

    def _join_texts(self, form: Any) -> list[str]:
        with self._lock:
            try:
                texts = self._join_blocks(form.get("blocks", ()))
            except KeyError as error:
                reason = f"the block {error} is missing"
                raise StorageCorrupt(what=f"a checkpoint of the thread {self.id!r}", reason=reason) from error
        texts += form["list"]
        return texts

    def _join_blocks(self, keys: Iterable[str]) -> list[str]:
        texts: list[str] = []
        for key in keys:
            form = self._blocks[key]
            texts += form["list"] if "list" in form else self._join_blocks(form["blocks"])
        return texts

    def _read_blocks(self, keys: Sequence[str]) -> None:
        """Read blocks, and those that they name."""
        if not keys:
            return
        changed = peek_state(self.session).changed  # who names the blocks has just read the session
        with self._lock:
            self._check_changed(changed)
        missing = self._find_missing(keys)
        if len(missing) > _FEW_BLOCKS:
            for kind in (BLOCKS, BLOCK):
                for count, entry in enumerate(self.iter_rows(kind=kind, bodies=True), start=1):
                    self._add_block(entry)
                    if count % _BODIES == 0 and not (missing := self._find_missing(keys)):
                        break
            missing = self._find_missing(keys)
        while missing:
            for key in missing:
                found = self.session.entries.get(key)
                if found is None:
                    return
                self._add_block(found)
            missing = self._find_missing(keys)

    def _find_missing(self, keys: Iterable[str]) -> set[str]:
        """Which of these blocks, and of those that they name, are not known."""
        missing: set[str] = set()
        left = [*keys]
        with self._lock:
            while left:
                key = left.pop()
                form = self._blocks.get(key)
                if form is None:
                    missing.add(key)
                elif "blocks" in form:
                    left += form["blocks"]
        return missing

    def _check_changed(self, changed: int) -> None:
        """Forget which blocks are stored, if something was erased since they were read."""
        if changed != self._changed:
            self._blocks.clear()
            self._bodies.clear()
            self._changed = changed

    def _add_block(self, entry: Entry) -> None:
        form = open_body(entry.body)
        with self._lock:
            self._blocks[entry.key] = form

    def dump_channels(
        self,
        codec: ValueCodec,
        namespace: str,
        checkpoint: Mapping[str, Any],
        changed: Collection[str],
        parent: CheckpointName | None,
    ) -> ChannelForms:
        """The values of a checkpoint, as they are stored. What its parent has in the same version is not looked at."""
        values, versions = checkpoint["channel_values"], checkpoint["channel_versions"]
        with self._lock:
            last = self._last_forms.get(namespace)
        if last is None or parent is None or last.id != parent.id:
            last = ChannelForms("", {}, {}, {})
        forms: dict[str, Any] = {}
        lists: dict[str, tuple[KnownList, BlockedList]] = {}
        for channel in values.keys() & versions.keys():
            is_same = channel in last.forms and last.versions.get(channel) == versions[channel]
            if is_same and channel not in changed and (channel in last.lists or not named_blocks(last.forms[channel])):
                forms[channel] = last.forms[channel]
                if channel in last.lists:
                    lists[channel] = last.lists[channel]
            else:
                forms[channel] = self._dump_channel(codec, namespace, channel, values[channel], lists)
        return ChannelForms(checkpoint["id"], {**versions}, forms, lists)

    def _dump_channel(
        self,
        codec: ValueCodec,
        namespace: str,
        channel: str,
        value: Any,
        lists: dict[str, tuple[KnownList, BlockedList]],
    ) -> Any:
        inner = open_snapshot(value)
        if inner is not None:
            return {"snapshot": self._dump_channel(codec, namespace, channel, inner, lists)}
        if not is_shared_list(value):
            return codec.dump(value)
        with self._lock:
            last, blocked = self._lists.get((namespace, channel), (KnownList(), BlockedList()))
            known = codec.dump_list(value, last)
            blocked = split_blocks(known.texts, blocked)
            self._lists[namespace, channel] = lists[channel] = known, blocked
        return blocked.form

    # Write

    def put_checkpoint(
        self,
        name: CheckpointName,
        parent: CheckpointName | None,
        head: str,
        values: ChannelForms,
        run: str,
        guard: Callable[[], None] | None,
        spoken: Spoken | None = None,
    ) -> None:
        """Append a checkpoint, with the blocks that it needs, and make the conversation that of a list in it. One with the
        same id is replaced."""
        newest = self._newest.get(name.namespace)
        if newest is None:
            newest = self._find_newest(name.namespace)
        kind = (CHECKPOINT if name.id >= newest else OLDER) + name.namespace
        body: Any = build_checkpoint(head, values.forms)
        new = [NewEntry(kind, name.key, body, None if parent is None else parent.key)]
        if run:
            new.append(NewEntry(run, f"{run} {name.key}", None, name.key))
        blocks = [block for _, blocked in values.lists.values() for block in (*blocked.blocks, *blocked.rows)]
        entries = None if spoken is None else self._append_spoken(new, blocks, guard, spoken, name.id)
        if entries is None:
            try:
                entries = self._append_guarded(new, blocks, guard)
            except EntryConflict:
                self.delete([each.key for each in new], "the checkpoint is replaced")
                entries = self._append_guarded(new, blocks, guard)
            if spoken is not None:
                self._transcript.follow(spoken, point=name.id)
        self._newest[name.namespace] = max(newest, name.id)
        self._remember_body(entries[0].seq, {"head": head, "channels": {**values.forms}})
        with self._lock:
            self._last_forms[name.namespace] = values

    def append_writes(self, new: NewEntry, guard: Callable[[], None] | None) -> None:
        """Append the writes of a task. With a guard, nothing is stored between its check and the entries."""
        if guard is not None:
            self._append_guarded([new], (), guard)
            return
        with self._write_lock:
            append_new_entry(self.session, new)

    def _append_guarded(
        self, new: Sequence[NewEntry], blocks: Sequence[Block], guard: Callable[[], None] | None
    ) -> list[Entry]:
        for attempt in range(_TRIES):
            with self._write_lock:
                state = self.session.state() if attempt else peek_state(self.session)
                entries = self._try_append(new, blocks, guard, state)
            if entries:
                return entries
            if entries is None:
                time.sleep(min(_PAUSE_S * attempt, _LONGEST_PAUSE_S))
        raise Contended(stream=self.id, tries=_TRIES, limit_name="TRIES", expected=0, actual=0)

    def _try_append(
        self,
        new: Sequence[NewEntry],
        blocks: Sequence[Block],
        guard: Callable[[], None] | None,
        state: SessionState,
    ) -> list[Entry] | None:
        """Append entries, and blocks that are not stored in this state. None if another one was faster; nothing if there
        are too many blocks for one time."""
        missing = self._find_new_blocks(blocks, state)
        if guard is not None:
            guard()
        first = [*missing.values()][:_BATCH_BLOCKS]
        added = [block.entry for block in first]
        try:
            if len(missing) > len(first):
                self.session.entries.append_all(added)
                entries = []
            else:
                entries = self.session.entries.append_all([*added, *new], expect=state.version)[len(added) :]
        except VersionConflict:
            return None
        self._note_blocks(first, state)
        return entries

    def _find_new_blocks(self, blocks: Sequence[Block], state: SessionState) -> dict[str, Block]:
        """The blocks that are not stored, by their keys."""
        with self._lock:
            self._check_changed(state.changed)
            return {block.key: block for block in blocks if block.key not in self._blocks}

    def _note_blocks(self, blocks: Iterable[Block], state: SessionState) -> None:
        """Note that blocks are stored since this state."""
        with self._lock:
            if state.changed == self._changed:
                self._blocks |= {block.key: block.form for block in blocks}

    def _append_spoken(
        self,
        new: Sequence[NewEntry],
        blocks: Sequence[Block],
        guard: Callable[[], None] | None,
        spoken: Spoken,
        point: str,
    ) -> list[Entry] | None:
        """Append entries, and record what is new in a list, in one transaction. None if nothing was stored."""
        added: dict[str, Block] = {}
        before: list[SessionState] = []

        def build(state: SessionState) -> list[NewEntry] | None:
            added.update(self._find_new_blocks(blocks, state))
            before.append(state)
            if guard is not None:
                guard()
            return None if len(added) > _BATCH_BLOCKS else [*(block.entry for block in added.values()), *new]

        entries = self._transcript.follow_with(spoken, build, self._write_lock, point=point)
        if entries is None:
            return None
        self._note_blocks(added.values(), before[0])
        return entries[len(added) :]

    def claim(self) -> str:
        """Make a new owner of the thread: writers of earlier owners are refused."""
        owner = uuid.uuid4().hex
        self.session.entries.append(OWNER, owner, None)
        return owner

    def check_owner(self, owner: str) -> None:
        """Raise WriterStale if another owner came after this one."""
        newest = self.session.entries.list(kind=OWNER, limit=1, bodies=False)
        if not newest or newest[0].key != owner:
            raise WriterStale(thread=self.id, reason="another writer claimed it")

    def check_parent(self, parent: CheckpointName | None) -> None:
        """Raise WriterStale if a checkpoint is not the newest one of the root namespace, and this context has not asked
        for it by its id."""
        newest = self._find_newest("")
        read = parent.id if parent is not None else ""
        if newest == read or (self.id, read) in _ADDRESSED.get():
            return
        reason = f"its latest checkpoint is {newest or 'none'}, and this run began with {read or 'none'}"
        raise WriterStale(thread=self.id, reason=reason)

    def delete(self, keys: Iterable[str], reason: str) -> None:
        """Delete entries."""
        listed = list(keys)
        for start in range(0, len(listed), _DELETED):
            self.session.entries.delete(listed[start : start + _DELETED], reason=reason)
        self._forget()

    def copy_from(self, source: ThreadSession, rows: Sequence[Entry]) -> None:
        """Append entries of another thread, newest first in `rows`. What this thread has already stays as it is."""
        here = {row.key for row in self.iter_rows()}
        newest: dict[str, str] = {}
        batch: list[NewEntry] = []
        size = 0
        for row in reversed(rows):
            entry = source.session.entries.get(row.key) if row.key not in here else None
            if entry is None:
                continue
            kind, name = entry.kind, parse_checkpoint(entry)
            if name is not None:
                if name.namespace not in newest:
                    newest[name.namespace] = self._find_newest(name.namespace)
                kind = (CHECKPOINT if name.id >= newest[name.namespace] else OLDER) + name.namespace
                newest[name.namespace] = max(newest[name.namespace], name.id)
            if batch and (len(batch) == _BATCH_ENTRIES or size + entry.size > _BATCH_BYTES):
                self._append_copies(batch)
                batch, size = [], 0
            batch.append(NewEntry(kind, entry.key, entry.body, entry.parent))
            size += entry.size
        if batch:
            self._append_copies(batch)
        self._forget()

    def _append_copies(self, new: Sequence[NewEntry]) -> None:
        with self._write_lock:
            self.session.entries.append_all(new)

    def _find_newest(self, namespace: str) -> str:
        """The highest id of a namespace; empty if it has no checkpoint."""
        rows = self.session.entries.list(kind=CHECKPOINT + namespace, limit=1, bodies=False)
        return parse_id(rows[0].key) if rows else ""

    def delete_unused_blocks(self) -> None:
        """Delete the blocks that no checkpoint names."""
        unused = {row.key for row in self.iter_rows(kind=BLOCK)}
        named = {row.key: open_body(row.body)["blocks"] for row in self.iter_rows(kind=BLOCKS, bodies=True)}
        unused |= named.keys()
        for name, _ in self.iter_checkpoints(None) if unused else ():
            entry = self.find(name) if unused else None
            body: Any = None if entry is None else entry.body
            left = [] if body is None else [key for form in body["channels"].values() for key in named_blocks(form)]
            while left:
                key = left.pop()
                if key in unused:
                    unused.discard(key)
                    left += named.get(key, ())
        self.delete(sorted(unused), "no checkpoint needs the block")

    def erase_conversation(self, reason: str) -> None:
        """Erase the messages, the evidence and the facts of the session, and begin its conversation again."""
        session = self.session
        if session.open_calls():
            session.close_calls(reason)
        version = session.state().version
        seqs = [*_iter_seqs(session.messages, version), *_iter_seqs(session.evidence, version)]
        for start in range(0, len(seqs), _ERASED):
            session.erase(seqs[start : start + _ERASED], reason)
        ledger = session.ledger()
        while facts := ledger.items(limit=100):
            ledger.erase(list(facts), reason)
        if seqs and session.state().status == "open":
            session.reset(reason, keep_system=False)
        self._forget()

    def _forget(self) -> None:
        with self._lock:
            self._bodies.clear()
            self._blocks.clear()
            self._newest.clear()
            self._last_forms.clear()
            self._lists.clear()
        self._transcript.forget()

    def follow_copy(self, known: KnownList) -> None:
        """Make the conversation of the session that of a list which comes from another thread."""
        self._transcript.follow(Spoken(known, exact=False), is_copy=True)


def _open_entry(entry: Entry) -> Entry:
    """A checkpoint with what was packed in it."""
    return msgspec.structs.replace(entry, body=open_checkpoint(entry.body))


def name_session(thread_id: object, what: str = "thread_id") -> str:
    """The name of the session of a thread. Raises InvalidName if no session can have one for it."""
    if thread_id is None:
        reason = 'it is None: pass {"configurable": {"thread_id": "…"}}, with another id for each conversation'
        raise InvalidArgument(argument=what, reason=reason)
    try:
        return shorten_name(str(thread_id))
    except InvalidName as error:
        raise InvalidName(what=what, value=str(thread_id), reason=error.reason, limit=limits.NAME_BYTES) from None


def note_read(thread_id: str, checkpoint_id: str | None, latest_id: str | None) -> None:
    """Note which checkpoint this context has read: by its id, or as the latest one."""
    reads = _ADDRESSED.get()
    if checkpoint_id:
        if (thread_id, checkpoint_id) not in reads:
            _ADDRESSED.set((*reads, (thread_id, checkpoint_id))[-_REMEMBERED_READS:])
    elif latest_id and (thread_id, latest_id) in reads:
        _ADDRESSED.set(tuple(each for each in reads if each != (thread_id, latest_id)))


def _iter_seqs(read: Callable[..., list[Any]], version: int) -> Iterator[int]:
    before = version + 1
    while page := read(before=before, limit=_PAGE):
        yield from (message.seq for message in page if not message.erased)
        before = page[0].seq
