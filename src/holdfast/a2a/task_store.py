"""A task store of A2A on sessions.

A context of A2A is a session of the owner, and a task is a thread of it. Every state of a task is an entry of its thread;
unchanged messages and artifacts are stored once. The conversation of the thread is that of the task. A ledger of the owner
lists the tasks, so that a list reads no task that it does not show.

Laws: a saved task comes back as it was saved. A task belongs to its owner: nobody else finds it. What is listed and what is
stored may differ for a moment, never what `get` returns.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from a2a.server.context import ServerCallContext
from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope
from a2a.server.tasks.task_store import TaskStore
from a2a.types.a2a_pb2 import (
    TASK_STATE_CANCELED,
    TASK_STATE_COMPLETED,
    TASK_STATE_FAILED,
    TASK_STATE_REJECTED,
    ListTasksRequest,
    ListTasksResponse,
    Task,
)
from a2a.utils.constants import DEFAULT_LIST_TASKS_PAGE_SIZE
from a2a.utils.errors import InvalidParamsError
from a2a.utils.task import ListTasksCursor, decode_list_tasks_cursor, decode_page_token, encode_list_tasks_cursor

import holdfast
from holdfast.a2a.messages import TaskReading, decode_task
from holdfast.a2a.saved_tasks import Place, SavedTask, SavedTasks
from holdfast.errors import (
    EntryConflict,
    HoldfastError,
    InvalidArgument,
    InvalidInput,
    InvalidName,
    SessionNotFound,
    describe_value,
)
from holdfast.frameworks.engines import check_engine, run_blocking
from holdfast.frameworks.shadows import Shadow
from holdfast.frameworks.tool_runs import ToolRuns, open_run
from holdfast.types import shorten_name

KIND = "a2a.task"
LEDGER = "a2a"
TERMINAL = frozenset({TASK_STATE_COMPLETED, TASK_STATE_FAILED, TASK_STATE_CANCELED, TASK_STATE_REJECTED})
_ANONYMOUS = "main"
_NAMED = "user:"
_TOOLS = "#tools"
_PAGE = 200
_TRIES = 20


class _Listed(NamedTuple):
    """A task, as far as a list needs it."""

    id: str
    context: str
    state: int
    at_ns: int | None
    thread: str

    @property
    def order(self) -> tuple[bool, int, str]:
        return (self.at_ns is not None, self.at_ns or 0, self.id)


class HoldfastTaskStore(TaskStore):
    """Tasks of A2A as threads of sessions, on a file or on PostgreSQL.

    The session of a task is `engine.session(task.context_id, actor=owner, thread=task.id)`; the actor of requests without a
    user is "main". With `observe`, facts are read from what users say."""

    def __init__(
        self, engine: holdfast.Engine, *, owner_resolver: OwnerResolver = resolve_user_scope, observe: bool = True
    ) -> None:
        self._engine = check_engine(engine)
        self._resolve_owner = owner_resolver
        self._observe = observe
        self._saved = SavedTasks()

    async def save(self, task: Task, context: ServerCallContext) -> None:
        """Store a task, as it is now."""
        copy = Task()
        copy.CopyFrom(task)
        await run_blocking(self._save, copy, self._actor(context))

    async def get(self, task_id: str, context: ServerCallContext) -> Task | None:
        """The task as it was saved last; None if the owner has none with this id."""
        return await run_blocking(self._get, task_id, self._actor(context))

    async def list(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        """A page of the owner's tasks, the last updated first."""
        return await run_blocking(self._list, params, self._actor(context))

    async def delete(self, task_id: str, context: ServerCallContext) -> None:
        """Delete a task and its conversation for good."""
        await run_blocking(self._delete, task_id, self._actor(context))

    # Beyond the protocol

    async def run_tool(
        self, task_id: str, context: ServerCallContext, function: Callable[..., Any], /, **arguments: Any
    ) -> Any:
        """Run a tool of the executor: its start is stored before it runs, and its result after it. Returns what it returns.

            found = await store.run_tool(request.task_id, request.call_context, look_up, order="4711")

        A function that is no coroutine function runs in a thread. Inside, `current_call().key` is the idempotency key.
        If the process dies in it, `tool_runs()` names the call. The task must be saved."""
        session = await run_blocking(self.tool_runs, task_id, context)
        name = getattr(function, "__name__", type(function).__name__)
        frame, call = await run_blocking(open_run, session, name, arguments)
        with frame, ToolRuns(frame).run(call) as run:  # the start and the result are short writes
            is_awaited = inspect.iscoroutinefunction(function)
            value = await (function(**arguments) if is_awaited else run_blocking(function, **arguments))
            try:
                run.finish(value)
            except InvalidInput:  # it has run, and its result is its own matter
                run.finish(f"[a value of type {type(value).__name__}]")
        return value

    def tool_runs(self, task_id: str, context: ServerCallContext) -> holdfast.Session:
        """A thread beside a task, with the runs of its tools: `tool_runs(…).recover()` names those that were running when a
        process died. It is deleted with the task. Raises InvalidArgument if the owner has no task with this id."""
        actor = self._actor(context)
        listed = self._find(task_id, actor)
        if listed is None:
            reason = f"no task with the id {describe_value(task_id)} is saved: await store.save(task, context) first"
            raise InvalidArgument(argument="task_id", reason=reason)
        return self._session(actor, _beside(listed), create=True)

    def _actor(self, context: ServerCallContext) -> str:
        owner = self._resolve_owner(context)
        if not owner:
            return _ANONYMOUS
        is_free = owner != _ANONYMOUS and not owner.startswith(_NAMED)
        return shorten_name(owner if is_free else f"{_NAMED}{owner}")

    def _ledger(self, actor: str) -> holdfast.Ledger:
        return self._engine.ledger(project=shorten_name(f"{LEDGER}:{actor}"))

    def _session(self, actor: str, listed: _Listed, *, create: bool = False) -> holdfast.Session:
        name = shorten_name(listed.context or listed.id)
        return self._engine.session(name, actor=actor, thread=shorten_name(listed.thread), create=create)

    def _find(self, task_id: str, actor: str) -> _Listed | None:
        try:
            name = shorten_name(f"task:{task_id}")
        except InvalidName:  # clients send any text: no task has such an id
            return None
        fact = self._ledger(actor).get(name)
        return None if fact is None else _read_listed(fact)

    def _save(self, task: Task, actor: str) -> None:
        for attempt in range(_TRIES):
            listed, is_new = self._locate(task, actor)
            try:
                session = self._session(actor, listed, create=True)
                saved = self._append(session, _place(actor, listed), task)
                self._note(actor, listed)
                is_over = task.status.state in TERMINAL
                saved.shadow.follow(saved.reading.list_conversation(is_over=is_over))
                return
            except SessionNotFound:  # another process has just deleted the task, which begins again
                if attempt == _TRIES - 1:
                    raise
            except HoldfastError:
                if is_new and self._load(actor, listed) is None:
                    self._unlist(actor, task.id)
                raise

    def _locate(self, task: Task, actor: str) -> tuple[_Listed, bool]:
        """The thread of a task, and whether it is new. It is listed first, so that a stored task is always found."""
        known = self._find(task.id, actor)
        listed = _Listed(task.id, task.context_id, task.status.state, _timestamp_ns(task), task.id)
        if known is not None:
            listed = listed._replace(context=known.context, thread=known.thread)  # it stays where it began
        opened = self._open_thread(actor, listed)
        is_new = known is None or opened.thread != known.thread
        if is_new:
            self._note(actor, opened)
        return opened, is_new

    def _open_thread(self, actor: str, listed: _Listed) -> _Listed:
        """The thread of a task, or another one if it was destroyed: its name is not used again."""
        try:
            self._session(actor, listed, create=True).state()
        except SessionNotFound:
            return listed._replace(thread=f"{listed.id}~{uuid.uuid4().hex}")
        return listed

    def _note(self, actor: str, listed: _Listed) -> None:
        """List the task. The same state again changes nothing."""
        for attempt in range(_TRIES):
            try:
                self._ledger(actor).set(shorten_name(f"task:{listed.id}"), listed._asdict())
                return
            except InvalidArgument:  # another process has just retracted the same value
                if attempt == _TRIES - 1:
                    raise

    def _append(self, session: holdfast.Session, place: Place, task: Task) -> SavedTask:
        for attempt in range(_TRIES):
            newest = self._read_newest(session, place)
            reading = TaskReading(task, newest.reading if newest is not None else None)
            if newest is not None and newest.is_equal(task, reading.body):
                return newest
            number, parent = (int(newest.key) + 1, newest.key) if newest is not None else (1, None)
            try:
                entry = session.entries.append(KIND, str(number), reading.body, parent=parent)
            except EntryConflict:  # another process has just saved the task
                if attempt == _TRIES - 1:
                    raise
                continue
            shadow = newest.shadow if newest is not None else Shadow(session, observe=self._observe)
            saved = SavedTask(task, entry, reading.body, shadow, reading)
            self._saved.keep(place, saved)
            return saved
        raise AssertionError("the last try returns or raises")

    def _read_newest(self, session: holdfast.Session, place: Place) -> SavedTask | None:
        """The task as it was saved last, by any process. Its body is read only if this one has not seen it."""
        kept = self._saved.find(place)
        newest = session.entries.list(kind=KIND, limit=1, bodies=kept is None)
        if kept is not None and newest and kept.is_of(newest[0]):
            return kept
        if kept is not None and newest:
            newest = session.entries.list(kind=KIND, limit=1)
        if not newest:
            return None
        [entry] = newest
        shadow = kept.shadow if kept is not None else Shadow(session, observe=self._observe)
        saved = SavedTask(decode_task(entry.body), entry, entry.body, shadow)
        self._saved.keep(place, saved)
        return saved

    def _get(self, task_id: str, actor: str) -> Task | None:
        listed = self._find(task_id, actor)
        return None if listed is None else self._load(actor, listed)

    def _load(self, actor: str, listed: _Listed) -> Task | None:
        try:
            newest = self._read_newest(self._session(actor, listed), _place(actor, listed))
        except SessionNotFound:
            return None
        return newest.copy() if newest is not None else None

    def _list(self, params: ListTasksRequest, actor: str) -> ListTasksResponse:
        listed = [each for each in self._read_ledger(actor) if _matches(each, params)]
        listed.sort(key=lambda each: each.order, reverse=True)
        start = _find_start(listed, params.page_token)
        size = params.page_size or DEFAULT_LIST_TASKS_PAGE_SIZE
        page = listed[start : start + size]
        more = start + size < len(listed)
        token = encode_list_tasks_cursor(ListTasksCursor(page[-1].at_ns, page[-1].id)) if more and page else None
        tasks = [task for each in page if (task := self._load(actor, each)) is not None]
        return ListTasksResponse(next_page_token=token, tasks=tasks, total_size=len(listed), page_size=size)

    def _read_ledger(self, actor: str) -> builtins.list[_Listed]:
        ledger, after = self._ledger(actor), None
        listed: builtins.list[_Listed] = []
        while page := ledger.items(after=after, limit=_PAGE):
            listed += [_read_listed(fact) for fact in page]
            after = page[-1]
        return listed

    def _delete(self, task_id: str, actor: str) -> None:
        listed = self._find(task_id, actor)
        if listed is None:
            return
        for each in (_beside(listed), listed):
            with contextlib.suppress(
                SessionNotFound
            ):  # deleted before, by a process that did not come to the next line
                self._session(actor, each).destroy("the task was deleted", offload=False)
        self._saved.forget(_place(actor, listed))
        self._unlist(actor, task_id)

    def _unlist(self, actor: str, task_id: str) -> None:
        self._ledger(actor).retract(shorten_name(f"task:{task_id}"), reason="the task was deleted")


def _beside(listed: _Listed) -> _Listed:
    """The thread of the tools of a task."""
    return listed._replace(thread=f"{listed.thread}{_TOOLS}")


def _place(actor: str, listed: _Listed) -> Place:
    return actor, listed.context or listed.id, listed.thread


def _read_listed(fact: holdfast.Fact) -> _Listed:
    value: Any = fact.value
    return _Listed(**value)


def _matches(listed: _Listed, params: ListTasksRequest) -> bool:
    if params.context_id and listed.context != params.context_id:
        return False
    if params.status and listed.state != params.status:
        return False
    if params.HasField("status_timestamp_after"):
        return listed.at_ns is not None and listed.at_ns >= params.status_timestamp_after.ToNanoseconds()
    return True


def _find_start(listed: builtins.list[_Listed], token: str) -> int:
    """The first task of the page that a token names."""
    if not token:
        return 0
    cursor = decode_list_tasks_cursor(token)
    if cursor is not None:
        after = cursor.sort_key()
        return next((number for number, each in enumerate(listed) if each.order < after), len(listed))
    first = decode_page_token(token)
    for number, each in enumerate(listed):
        if each.id == first:
            return number
    raise InvalidParamsError(f"Invalid page token: {token}")


def _timestamp_ns(task: Task) -> int | None:
    has_time = task.HasField("status") and task.status.HasField("timestamp")
    return task.status.timestamp.ToNanoseconds() if has_time else None
