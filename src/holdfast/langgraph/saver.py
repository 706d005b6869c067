"""HoldfastSaver: the checkpointer.

Laws: a checkpoint is stored whole or not at all, and survives a power failure when put() returns. Equal parts of
checkpoints are stored once in a thread. What the serializer does not allow is not built when it is read. The conversation
of a thread is that of its latest checkpoint in the root namespace.
"""

from __future__ import annotations

import copy
import functools
import heapq
import random
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import msgspec
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

import holdfast
from holdfast.errors import InvalidArgument, SessionDestroyedError, SessionNotFound, describe_value
from holdfast.frameworks.engines import check_engine, run_blocking
from holdfast.langgraph.records import (
    AGENT,
    BLOCK,
    BLOCKS,
    CHECKPOINT,
    OLDER,
    OWNER,
    RUN,
    WRITES,
    CheckpointName,
    build_writes,
    fold_writes,
    parse_checkpoint,
    parse_id,
)
from holdfast.langgraph.threads import ThreadSession, name_session, note_read
from holdfast.langgraph.transcripts import Spoken
from holdfast.langgraph.values import ValueCodec, ValueMemory
from holdfast.types import Entry, SessionRow, shorten_name

_END: Any = object()
_THREADS = 256
"""Threads whose last lists are in memory."""
_HEAD_FIELDS = ("v", "ts", "channel_versions", "versions_seen", "updated_channels", "pending_sends")
_OWN_KINDS = (CHECKPOINT, OLDER, RUN)
_COUNTERS = "counters_since_delta_snapshot"


class ThreadUsage(msgspec.Struct, frozen=True):
    """What is stored for a thread."""

    checkpoints: int
    writes: int
    messages: int
    """Messages of the transcript."""
    given_bytes: int
    """Bytes of the checkpoints and writes as they were given: each with all of its values."""
    stored_bytes: int
    """Bytes of the session's log, where equal parts are stored once. Values in the blob store are not counted."""


class HoldfastSaver(BaseCheckpointSaver[Any]):
    """A checkpointer of LangGraph that stores its threads in sessions.

        saver = HoldfastSaver(holdfast.open("agent.db"))
        graph = builder.compile(checkpointer=saver)

    The thread `thread_id` is the session of that name. The messages of the channel `transcript` are its conversation; None
    records no conversation. With `observe`, facts are read from new messages of the user. `user` names the field of
    `configurable` that has the id of the user: it counts when a session is created. `actor` is the agent to which the
    sessions belong.

    With `fence`, a run that began before another one ended is refused with WriterStale, and cannot displace what that run
    stored. A run that names its checkpoint forks the thread, as always.

    `serde` serializes values. The default one builds only messages and plain types of LangChain, LangGraph and Python, and
    the classes in `allow`; it never unpickles."""

    def __init__(
        self,
        engine: holdfast.Engine,
        *,
        transcript: str | None = "messages",
        fence: bool = False,
        observe: bool = True,
        user: str | None = "user_id",
        actor: str = "main",
        serde: SerializerProtocol | None = None,
        allow: Sequence[type] = (),
    ) -> None:
        self._engine = check_engine(engine)
        if serde is not None and allow:
            raise InvalidArgument(
                argument="allow", reason="it is for the default serializer: allow the classes in `serde`"
            )
        allowed = tuple((each.__module__, each.__name__) for each in allow)
        super().__init__(serde=serde or JsonPlusSerializer(allowed_msgpack_modules=allowed or None))
        self._transcript = transcript
        self._fence = fence
        self._observe = observe
        self._user = user
        self._actor = actor
        self._owner = ""
        self._owned_thread = ""
        self._threads: OrderedDict[str, ThreadSession] = OrderedDict()
        self._threads_lock = threading.Lock()
        self._memory = ValueMemory()

    @property
    def _codec(self) -> ValueCodec:
        return ValueCodec(self.serde, self._memory)

    # Threads

    def session(self, thread_id: str) -> holdfast.Session:
        """The session of a thread. Raises SessionNotFound if nothing was stored for it."""
        return self._engine.session(name_session(thread_id), actor=self._actor)

    def _find_thread(self, thread_id: str) -> ThreadSession | None:
        """A thread that has a session."""
        return self._threads.get(thread_id) or self._find_session(thread_id)

    def _find_session(self, thread_id: str) -> ThreadSession | None:
        """The same, also if another one destroyed the session meanwhile."""
        try:
            session = self.session(thread_id)
        except SessionNotFound:
            return None
        return self._threads.get(thread_id) or self._add_thread(thread_id, session)

    def _open_thread(self, config: RunnableConfig, user: object = None) -> ThreadSession:
        """A thread, for a write: its session is created if there is none, for a user, or that of the config."""
        configurable = config["configurable"]
        thread_id = _thread_id(config)
        thread = self._threads.get(thread_id)
        if thread is not None:
            return thread
        user = configurable.get(self._user, user) if self._user else user
        name = name_session(thread_id)
        session = self._engine.session(
            name,
            actor=self._actor,
            user=shorten_name(str(user)) if user is not None and str(user) else None,
            create=True,
            metadata={"thread_id": thread_id} if name != thread_id else None,
        )
        return self._add_thread(thread_id, session)

    def _add_thread(self, thread_id: str, session: holdfast.Session) -> ThreadSession:
        with self._threads_lock:
            thread = self._threads.setdefault(thread_id, ThreadSession(thread_id, session, observe=self._observe))
            self._threads.move_to_end(thread_id)
            while len(self._threads) > _THREADS:
                self._threads.popitem(last=False)
            return thread

    def _iter_threads(self) -> Iterator[ThreadSession]:
        """All threads of the actor."""
        after: SessionRow | None = None
        while rows := self._engine.sessions(actor=self._actor, after=after, limit=100):
            after = rows[-1]
            for row in rows:
                if row.thread:
                    continue
                session = self._engine.session(row.session, actor=self._actor)
                original = session.state().metadata.get("thread_id")
                thread_id = original if isinstance(original, str) else row.session
                yield self._threads.get(thread_id) or self._add_thread(thread_id, session)

    def _iter_agents(self, thread: ThreadSession) -> Iterator[ThreadSession]:
        """What agents inside the graph have of a thread: the middleware stores it in threads of the session."""
        scope = thread.session.scope
        after = SessionRow(
            tenant=scope.tenant,
            actor=scope.actor,
            session=scope.session,
            thread="",
            status="open",
            version=0,
            messages=0,
            tokens=0,
            open_calls=0,
            input_tokens=0,
            cache_read_tokens=0,
            output_tokens=0,
            created_us=0,
            updated_us=0,
            expires_us=None,
            residue=0,
            gone=0,
            parent="",
            cut=0,
        )
        while rows := self._engine.sessions(actor=scope.actor, after=after, limit=100):
            for row in rows:
                if row.session != scope.session:
                    return
                session = self._engine.session(row.session, actor=row.actor, thread=row.thread)
                yield ThreadSession(thread.id, session, observe=False)
            after = rows[-1]

    def _guard(
        self, thread: ThreadSession, parent: CheckpointName | None, *, is_root: bool
    ) -> Callable[[], None] | None:
        """What is checked right before a write is stored."""
        if self._owner and thread.id == self._owned_thread:
            return functools.partial(thread.check_owner, self._owner)
        if self._fence and is_root:
            return functools.partial(thread.check_parent, parent)
        return None

    # Read

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return a checkpoint with its writes: the one that the config names, or the latest of its namespace. None if
        there is none."""
        found = self._read_tuple(config)
        self._note_read(config, found)
        return found

    def _note_read(self, config: RunnableConfig, found: CheckpointTuple | None) -> None:
        configurable = config["configurable"]
        if found is not None and not configurable.get("checkpoint_ns"):
            note_read(str(configurable["thread_id"]), get_checkpoint_id(config), found.checkpoint["id"])

    def _read_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread = self._find_thread(_thread_id(config))
        if thread is None:
            return None
        namespace = _namespace(config)
        checkpoint_id = get_checkpoint_id(config)
        try:
            if checkpoint_id:
                entry = thread.find(CheckpointName(str(checkpoint_id), namespace))
            else:
                entry = thread.find_latest(namespace)
            return None if entry is None else self._build_tuple(thread, namespace, entry)
        except SessionDestroyedError:
            return None

    def _build_tuple(self, thread: ThreadSession, namespace: str, entry: Entry) -> CheckpointTuple:
        codec = self._codec
        body: Any = entry.body
        name = CheckpointName(parse_id(entry.key), namespace)
        head = codec.load(body["head"])
        fields = head["checkpoint"]
        values = thread.load_channels(codec, name, fields["channel_versions"], body["channels"])
        checkpoint = {**fields, "id": name.id, "channel_values": values}
        parent = None if entry.parent is None else _build_config(thread.id, namespace, parse_id(entry.parent))
        return CheckpointTuple(
            config=_build_config(thread.id, namespace, name.id),
            checkpoint=cast("Checkpoint", checkpoint),
            metadata=head["metadata"],
            parent_config=parent,
            pending_writes=self._load_writes(thread, name),
        )

    def _load_writes(self, thread: ThreadSession, name: CheckpointName) -> list[PendingWrite]:
        codec = self._codec
        return [(task, channel, codec.load(value)) for task, channel, value in fold_writes(thread.read_writes(name))]

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name of LangGraph
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Iterate over checkpoints, the highest id first: of a thread, of one of its namespaces, or of all threads.

        `filter` has fields of the metadata and their values; `before` names a checkpoint that all are older than."""
        if config is None:
            threads = [*self._iter_threads()]
        else:
            found = self._find_session(_thread_id(config))
            threads = [] if found is None else [found]
        namespace = None if config is None else config["configurable"].get("checkpoint_ns")
        only = None if config is None else get_checkpoint_id(config)
        last = None if before is None else get_checkpoint_id(before)
        streams = [_with_thread(thread, thread.iter_checkpoints(namespace)) for thread in threads]
        left = limit
        for name, thread in heapq.merge(*streams, key=lambda each: each[0].id, reverse=True):
            if left is not None and left <= 0:
                return
            if (only and name.id != only) or (last and name.id >= last):
                continue
            entry = thread.find(name)
            if entry is None:  # deleted meanwhile
                continue
            if filter:
                metadata = self._load_metadata(entry)
                if not all(metadata.get(field) == value for field, value in filter.items()):
                    continue
            left = None if left is None else left - 1
            yield self._build_tuple(thread, name.namespace, entry)

    def _load_metadata(self, entry: Entry) -> dict[str, Any]:
        body: Any = entry.body
        metadata: dict[str, Any] = self._codec.load(body["head"])["metadata"]
        return metadata

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return the writes of channels since the nearest ancestor that has their value, and that value."""
        thread = self._find_session(_thread_id(config)) if channels else None
        histories: dict[str, DeltaChannelHistory] = {channel: {"writes": []} for channel in channels}
        if thread is None:
            return histories
        namespace, checkpoint_id = _namespace(config), get_checkpoint_id(config)
        entry = thread.find(CheckpointName(str(checkpoint_id), namespace)) if checkpoint_id else None
        entry = entry or (None if checkpoint_id else thread.find_latest(namespace))
        codec = self._codec
        open_channels = {*channels}
        while open_channels and entry is not None and entry.parent is not None:
            name = CheckpointName(parse_id(entry.parent), namespace)
            entry = thread.find(name)
            if entry is None:
                break
            for task, channel, value in reversed(fold_writes(thread.read_writes(name))):
                if channel in open_channels:
                    histories[channel]["writes"].append((task, channel, codec.load(value)))
            body: Any = entry.body
            for channel in open_channels & body["channels"].keys():
                histories[channel]["seed"] = codec.load(thread.join_form(body["channels"][channel]))
                open_channels.discard(channel)
        for history in histories.values():
            history["writes"].reverse()
        return histories

    # Write

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint, and record what is new in the transcript. Returns the config that names the checkpoint."""
        thread = self._open_thread(config)
        namespace = _namespace(config)
        name = CheckpointName(checkpoint["id"], namespace)
        parent_id = get_checkpoint_id(config)
        parent = CheckpointName(str(parent_id), namespace) if parent_id else None
        codec = self._codec
        own: dict[str, Any] = {**get_checkpoint_metadata(config, metadata)}
        fields: dict[str, Any] = {**checkpoint}
        head = {"checkpoint": {field: fields[field] for field in _HEAD_FIELDS if field in fields}, "metadata": own}
        values = thread.dump_channels(codec, namespace, fields, new_versions, parent)
        run = own.get("run_id")
        guard = self._guard(thread, parent, is_root=not namespace)
        listed = values.lists.get(self._transcript) if self._transcript and not namespace else None
        spoken = None if listed is None else Spoken(listed[0], exact=own.get("source") in ("fork", "update"))
        thread.put_checkpoint(
            name, parent, codec.pack(head, is_element=True), values, f"{RUN}{run}" if run else "", guard, spoken
        )
        return _build_config(config["configurable"]["thread_id"], namespace, name.id)

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task at a checkpoint, which may be stored later."""
        if not writes:
            return
        thread = self._open_thread(config)
        name = CheckpointName(str(config["configurable"]["checkpoint_id"]), _namespace(config))
        codec = self._codec
        dumped = [(channel, codec.dump(value)) for channel, value in writes]
        guard = self._guard(thread, None, is_root=False)
        thread.append_writes(build_writes(name, task_id, task_path, dumped), guard)

    # Delete and copy

    def delete_thread(self, thread_id: str) -> None:
        """Delete all that is stored for a thread: checkpoints, writes, the transcript, what the middleware of agents has
        stored, also of those inside the graph, and the facts of the session's own ledger. The thread can be used again."""
        thread = self._find_session(str(thread_id))
        if thread is None:
            return
        reason = "the thread is deleted"
        for each in (thread, *self._iter_agents(thread)):
            each.delete([row.key for row in each.iter_rows() if _is_own(row) or row.kind.startswith(AGENT)], reason)
            each.erase_conversation(reason)

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of these runs, with their writes, in all threads."""
        if not run_ids:
            return
        for thread in self._iter_threads():
            runs = [row for run in dict.fromkeys(run_ids) for row in thread.iter_rows(kind=f"{RUN}{run}")]
            self._delete_checkpoints(thread, {row.parent for row in runs if row.parent}, "the run is deleted")

    def _delete_checkpoints(self, thread: ThreadSession, keys: set[str], reason: str) -> None:
        """Delete checkpoints, by their keys, and what belongs to them."""
        if not keys:
            return
        rows = [row for row in thread.iter_rows() if _is_own(row)]
        thread.delete([row.key for row in rows if (row.parent if _is_beside(row) else row.key) in keys], reason)
        thread.delete_unused_blocks()

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints and writes of a thread to another one. Both are independent of each other. A session that
        is created for the copy has the same user."""
        source = self._find_session(str(source_thread_id))
        if source is None or str(source_thread_id) == str(target_thread_id):
            return
        rows = [row for row in source.iter_rows() if _is_own(row)]
        if not rows:
            return
        user = source.session.state().identity.user_id
        target = self._open_thread({"configurable": {"thread_id": target_thread_id}}, user or None)
        target.copy_from(source, rows)
        latest = target.find_latest("")
        body: Any = None if latest is None else latest.body
        form = None if body is None else target.join_form(body["channels"].get(self._transcript))
        if isinstance(form, dict) and "list" in form:
            target.follow_copy(self._codec.load_list(form["list"]))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete the checkpoints of threads that are not needed to go on.

        "keep_latest" keeps the latest of each namespace, and the ancestors from which a DeltaChannel of it is rebuilt.
        "delete" deletes all of them. The transcript stays in both cases."""
        if strategy not in ("keep_latest", "delete"):
            reason = f'{describe_value(strategy)} is neither "keep_latest" nor "delete"'
            raise InvalidArgument(argument="strategy", reason=reason)
        for thread_id in thread_ids:
            thread = self._find_session(str(thread_id))
            if thread is None:
                continue
            rows = [row for row in thread.iter_rows() if _is_own(row)]
            if strategy == "delete":
                thread.delete([row.key for row in rows], "the checkpoints are pruned")
                continue
            checkpoints = {row.key: name for row in rows if (name := parse_checkpoint(row)) is not None}
            latest: dict[str, CheckpointName] = {}
            for name in checkpoints.values():
                if name.namespace not in latest or name.id > latest[name.namespace].id:
                    latest[name.namespace] = name
            kept = {key for name in latest.values() for key in self._find_needed(thread, name)}
            gone = checkpoints.keys() - kept
            if gone:
                self._delete_checkpoints(thread, gone, "the checkpoint is pruned")

    def _find_needed(self, thread: ThreadSession, name: CheckpointName) -> Iterator[str]:
        """The key of a checkpoint, and those of the ancestors that its delta channels are rebuilt from."""
        yield name.key
        entry = thread.find(name)
        if entry is None:
            return
        body: Any = entry.body
        head = self._codec.load(body["head"])
        versions = head["checkpoint"].get("channel_versions", {})
        counters = head["metadata"].get(_COUNTERS) or {}
        missing = {channel for channel in counters if channel in versions} - body["channels"].keys()
        while missing and entry is not None and entry.parent is not None:
            ancestor = CheckpointName(parse_id(entry.parent), name.namespace)
            entry = thread.find(ancestor)
            if entry is not None:
                yield ancestor.key
                body = entry.body
                missing -= body["channels"].keys()

    # Owners

    def claim_write_ownership(self, thread_id: str) -> HoldfastSaver:
        """Take over a thread: return a saver that writes as its owner. From then on, savers of earlier owners are refused
        on this thread with WriterStale. Reading needs no owner."""
        writer = copy.copy(self)
        thread = self._open_thread({"configurable": {"thread_id": thread_id}})
        writer._owner, writer._owned_thread = thread.claim(), thread.id
        return writer

    def check_write_ownership(self) -> None:
        """Raise WriterStale if this saver was an owner, and is not any more."""
        thread = self._find_thread(self._owned_thread) if self._owner else None
        if thread is not None:
            thread.check_owner(self._owner)

    # Figures

    def usage(self, thread_id: str) -> ThreadUsage:
        """Return what is stored for a thread. It reads the log of the thread."""
        session = self.session(thread_id)
        rows = [row for row in ThreadSession(str(thread_id), session, observe=False).iter_rows() if _is_own(row)]
        stored, after = 0, 0
        while events := session.events(after=after, limit=1_000):
            stored += sum(len(event.payload or b"") for event in events)
            after = events[-1].seq
        return ThreadUsage(
            checkpoints=sum(1 for row in rows if parse_checkpoint(row) is not None),
            writes=sum(1 for row in rows if row.kind == WRITES),
            messages=session.state().messages,
            given_bytes=sum(row.size for row in rows),
            stored_bytes=stored,
        )

    def get_next_version(self, current: Any, channel: None) -> Any:  # noqa: ARG002 - the name of LangGraph
        """Return the version after this one: the next number, or, after a text as other savers write it, such a text."""
        if isinstance(current, str):
            number = int(current.partition(".")[0])
            return f"{number + 1:032}.{random.random():016}"  # noqa: S311 - no secret
        return 1 if current is None else current + 1

    # Twins that are awaited

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """As get_tuple()."""
        found = await run_blocking(self._read_tuple, config)
        self._note_read(config, found)
        return found

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - the name of LangGraph
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """As list()."""
        found = self.list(config, filter=filter, before=before, limit=limit)
        while (each := await run_blocking(next, found, _END)) is not _END:
            yield each

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """As put()."""
        return await run_blocking(self.put, config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """As put_writes()."""
        await run_blocking(self.put_writes, config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        """As delete_thread()."""
        await run_blocking(self.delete_thread, thread_id)

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """As delete_for_runs()."""
        await run_blocking(self.delete_for_runs, run_ids)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """As copy_thread()."""
        await run_blocking(self.copy_thread, source_thread_id, target_thread_id)

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """As prune()."""
        await run_blocking(self.prune, thread_ids, strategy=strategy)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """As get_delta_channel_history()."""
        return await run_blocking(self.get_delta_channel_history, config=config, channels=channels)

    async def aclaim_write_ownership(self, thread_id: str) -> HoldfastSaver:
        """As claim_write_ownership()."""
        return await run_blocking(self.claim_write_ownership, thread_id)

    async def acheck_write_ownership(self) -> None:
        """As check_write_ownership()."""
        await run_blocking(self.check_write_ownership)


def _thread_id(config: RunnableConfig) -> str:
    thread_id = config["configurable"]["thread_id"]
    return str(thread_id) if thread_id is not None else name_session(thread_id)


def _namespace(config: RunnableConfig) -> str:
    return str(config["configurable"].get("checkpoint_ns") or "")


def _build_config(thread_id: Any, namespace: str, checkpoint_id: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": namespace, "checkpoint_id": checkpoint_id}}


def _with_thread(
    thread: ThreadSession, named: Iterator[tuple[CheckpointName, Entry]]
) -> Iterator[tuple[CheckpointName, ThreadSession]]:
    return ((name, thread) for name, _ in named)


def _is_own(row: Entry) -> bool:
    """Whether an entry is of a checkpointer."""
    return row.kind in (BLOCK, BLOCKS, WRITES, OWNER) or row.kind.startswith(_OWN_KINDS)


def _is_beside(row: Entry) -> bool:
    """Whether an entry belongs to the checkpoint that is its parent."""
    return row.kind == WRITES or row.kind.startswith(RUN)
