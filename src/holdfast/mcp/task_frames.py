"""Tasks of MCP as they are stored: one session for each task, and its first frame is the task.

Laws:
- A task exists once its frame is stored, and all that is told of it is read from the log: any process answers the same.
- The process that works on a task holds the turn of its session. An active task without a turn was abandoned: the
  process has stopped, and nobody will finish what it began.
- The answers of the client are entries: the first answer to a request stays, whoever sends another one.
- The id of a task is a secret of 192 bits, and the task belongs to the caller who began it.
"""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

import msgspec

import holdfast
from holdfast.access.system import now_us
from holdfast.errors import EntryConflict, HoldfastError, InvalidName, NotFound
from holdfast.model.content import Body, Data, Part, Text
from holdfast.model.frames.frames import FrameRecord
from holdfast.model.sessions.turns import NO_LEASE

TASKS_ACTOR = "mcp-tasks"
"""The namespace of the sessions that are tasks."""
TASK_BUDGET = 1_000_000
"""The tokens that models may use in a task."""
MAX_INPUTS = 1_000
"""The rounds of a task, and the answers to them."""
_ID_BYTES = 24
_ROUND, _RESPONSE, _ATTEMPT = "mcp-round", "mcp-response", "mcp-attempt"


class TaskOwner(NamedTuple):
    """Who may use a task: the engine that acts for the caller, and a name that no other caller has."""

    engine: holdfast.AsyncEngine
    name: str


class TaskCall(msgspec.Struct, frozen=True, kw_only=True):
    """The tool call behind a task, with all that another process needs to go on with it."""

    tool: str
    arguments: dict[str, Any]
    owner: str
    ttl_ms: int
    version: str
    """The version of the protocol."""
    capabilities: dict[str, Any]
    """Of the client."""
    client: dict[str, Any] | None = None
    responses: dict[str, Any] | None = None
    """What the client had answered before the task began."""
    state: str | None = None


class InputRound(msgspec.Struct, frozen=True, kw_only=True):
    """Requests to the client that a run of the tool ended with, and the answers so far."""

    number: int
    requests: list[tuple[str, dict[str, Any]]]
    """Each with the name that the tool gave it."""
    state: str | None = None
    answers: dict[str, Any] = msgspec.field(default_factory=dict)
    """By the key of the request on the wire."""

    def key(self, index: int) -> str:
        """The name of a request on the wire: never used twice in a task."""
        return f"{self.number}.{index}"

    @property
    def outstanding(self) -> dict[str, dict[str, Any]]:
        keyed = {self.key(index): request for index, (_, request) in enumerate(self.requests)}
        return {key: request for key, request in keyed.items() if key not in self.answers}

    @property
    def tool_responses(self) -> dict[str, Any]:
        """The answers by the names that the tool gave."""
        keyed = {name: self.key(index) for index, (name, _) in enumerate(self.requests)}
        return {name: self.answers[key] for name, key in keyed.items() if key in self.answers}


class StoredTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task as the log has it now."""

    id: str
    engine: holdfast.AsyncEngine
    session: holdfast.AsyncSession
    frame: holdfast.AsyncFrame
    record: FrameRecord
    call: TaskCall
    updated_us: int
    has_worker: bool
    """Whether a process holds the turn, or worked on the task while it was read."""

    @property
    def expires_us(self) -> int:
        return self.record.created_us + self.call.ttl_ms * 1_000

    @property
    def has_expired(self) -> bool:
        return now_us() >= self.expires_us

    async def rounds(self) -> list[InputRound]:
        """The rounds of requests to the client, oldest first."""
        stored = reversed(await self.session.entries.list(kind=_ROUND, limit=MAX_INPUTS))
        answers: dict[str, Any] = {
            each.key.removeprefix("response-"): each.body
            for each in await self.session.entries.list(kind=_RESPONSE, limit=MAX_INPUTS)
        }
        found = []
        for entry in stored:
            one = msgspec.convert(entry.body, InputRound)
            keys = {one.key(index) for index in range(len(one.requests))}
            own = {key: answer for key, answer in answers.items() if key in keys}
            found.append(msgspec.structs.replace(one, answers=own))
        return found

    async def ask(self, requests: dict[str, dict[str, Any]], state: str | None) -> None:
        """Store requests to the client as the next round."""
        number = len(await self.rounds()) + 1
        body = {"number": number, "requests": [list(each) for each in requests.items()], "state": state}
        await self.session.entries.append(_ROUND, f"round-{number}", body)

    async def answer(self, answers: dict[str, Any]) -> None:
        """Store answers of the client. A request that has one keeps it."""
        for key, answer in answers.items():
            try:
                await self.session.entries.append(_RESPONSE, f"response-{key}", answer)
            except EntryConflict:
                continue

    async def count_attempts(self) -> int:
        """How often the tool was started since the last answers of the client."""
        return len(await self._list_attempts(f"after-{len(await self.rounds())}"))

    async def note_attempt(self) -> None:
        """Store that the tool is about to start."""
        parent = f"after-{len(await self.rounds())}"
        number = len(await self._list_attempts(parent)) + 1
        await self.session.entries.append(_ATTEMPT, f"{parent}-{number}", number, parent=parent)

    async def _list_attempts(self, parent: str) -> list[holdfast.types.Entry]:
        return await self.session.entries.list(kind=_ATTEMPT, parent=parent, limit=MAX_INPUTS, bodies=False)

    async def result(self) -> Any:
        """The value that its frame ended with."""
        return await read_value(self.engine, self.record.result)


def new_task_id() -> str:
    return secrets.token_urlsafe(_ID_BYTES)


async def create_task_session(owner: TaskOwner, task_id: str, call: TaskCall) -> holdfast.AsyncSession:
    """Create the session of a task. It is idle no longer than the task may live."""
    return await owner.engine.create_session(
        task_id, actor=TASKS_ACTOR, metadata={"tool": call.tool}, idle_timeout_s=call.ttl_ms / 1_000
    )


async def push_task_frame(session: holdfast.AsyncSession, call: TaskCall) -> holdfast.AsyncFrame:
    return await session.frame(f"tool {call.tool}", budget=TASK_BUDGET, inputs=msgspec.to_builtins(call))


async def open_task_session(owner: TaskOwner, task_id: str) -> holdfast.AsyncSession | None:
    try:
        return await owner.engine.session(task_id, actor=TASKS_ACTOR)
    except (NotFound, InvalidName):
        return None


async def load_task(owner: TaskOwner, task_id: str, session: holdfast.AsyncSession | None = None) -> StoredTask | None:
    """The task with this id, if it belongs to this owner. `session` is its session, if the caller has its turn."""
    opened = session or await open_task_session(owner, task_id)
    found = [] if opened is None else await opened.frames.list(limit=1)
    if opened is None or not found:
        return None
    frame = await opened.frames.get(found[0])
    before = await opened.state()
    record = await frame.state()
    call = msgspec.convert(record.inputs, TaskCall)
    if call.owner != owner.name:
        return None
    state = await opened.state()
    lease = state.leases.get("", NO_LEASE)
    has_changed = state.version != before.version  # the lease may be of a later time than the record
    return StoredTask(
        id=task_id,
        engine=owner.engine,
        session=opened,
        frame=frame,
        record=record,
        call=call,
        updated_us=state.updated_us,
        has_worker=has_changed or lease.is_held(now_us()),
    )


async def discard_task(session: holdfast.AsyncSession) -> None:
    """Erase a task whose time is over. If that fails, the next one who asks tries again."""
    try:
        await session.destroy("the time of the task is over", offload=False)
    except HoldfastError:
        return


async def discard_expired(engine: holdfast.AsyncEngine, ttl_ms: int, limit: int) -> None:
    """Erase tasks of the tenant whose time is over and for which nobody asks any more."""
    now = now_us()
    rows = await engine.sessions(actor=TASKS_ACTOR, idle_since_us=now - ttl_ms * 1_000, limit=limit)
    for row in rows:
        if row.expires_us is not None and row.expires_us <= now:
            await discard_task(await engine.session(row.session, actor=TASKS_ACTOR))


async def read_value(engine: holdfast.AsyncEngine, parts: tuple[Part, ...]) -> Any:
    """The JSON value in the result of a frame; a large one is in the blob store."""
    match parts:
        case (Data(value),):
            return value
        case (Text(text),):
            return text
        case (Body(ref=ref),):
            return msgspec.json.decode(await engine.blobs.read(ref))
    return None
