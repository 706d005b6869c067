"""Open the conversation of a request for a response: find it or make it, take its turn, and record the input.

Laws: continuing the newest response of a conversation goes on in it; continuing an older one forks it there. The same
request with the same key is one response. A request that repeats one that failed before its reply takes its place. What
a caller may not use does not exist for them.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from typing import cast

import msgspec
from starlette.requests import Request

import holdfast
from holdfast.access.access import open_session
from holdfast.access.spend import KeySpending
from holdfast.errors import HoldfastError, NotFound
from holdfast.model.content import calling_seq
from holdfast.model.entries.entry import Entry
from holdfast.server.context import access_of, engine_of, settings_of, whole_engine
from holdfast.server.v1.bodies import Fields, get_text
from holdfast.server.v1.conversations import (
    USER_METADATA,
    check_new_ids,
    create_session,
    key_name,
    observe_user,
    open_conversation,
    walk_back,
)
from holdfast.server.v1.errors import ApiError, invalid, not_found
from holdfast.server.v1.ids import ResponseAddress, derive_conversation_id, new_conversation_id
from holdfast.server.v1.items import ItemReader, find_engine_calls, split_items
from holdfast.server.v1.output import make_id
from holdfast.server.v1.plans import ResponsePlan, read_conversation
from holdfast.server.v1.records import END_ENTRY, START_ENTRY, ResponseRecord, ResponseState, find_record
from holdfast.server.v1.runs import Run, Runs

SEALED = "reasoning.encrypted_content"


def runs_of(request: Request) -> Runs:
    """The runs of this process."""
    return cast("Runs", request.app.state.v1_runs)


def spending_of(request: Request) -> KeySpending:
    """What limits the tokens of callers."""
    return cast("KeySpending", request.app.state.spending)


async def open_response(request: Request, name: str, param: str | None = None) -> ResponseRecord:
    """A stored response, as the caller may use it."""
    access = access_of(request)
    ids = await runs_of(request).find_ids(whole_engine(request))
    place = ids.read(access.tenant, name)
    if place is None or not access.allows_actor(place.actor):
        raise not_found("Response", name, param)
    try:
        session = await open_session(engine_of(request), access, place.session, actor=place.actor)
    except NotFound:
        raise not_found("Response", name, param) from None
    record = await find_record(session, place, ids)
    if record is None:
        raise not_found("Response", name, param)
    return record


# Stored


class Opening:
    """Finds the conversation of a request, takes its turn, and records the input."""

    def __init__(self, request: Request, plan: ResponsePlan, key: str | None) -> None:
        self._request = request
        self._plan = plan
        self._key = None if key is None else key_name(request, key)
        self._entry_key = f"response-{secrets.token_hex(16)}" if self._key is None else f"{self._key}:response"
        """The key of the entry, and the owner of the turn: so everybody sees who works on a response."""
        self._turn = contextlib.AsyncExitStack()
        self._created: holdfast.AsyncSession | None = None
        """A session that was made for this request alone."""
        self._runs = runs_of(request)

    async def open(self) -> Run | ResponseRecord:
        """A run that is to be worked on, or the stored response of the same request."""
        try:
            return await self._open()
        except BaseException:
            await self._turn.aclose()
            if self._created is not None:
                with contextlib.suppress(HoldfastError):
                    await self._created.destroy("the request was refused", offload=False)
            raise

    async def _open(self) -> Run | ResponseRecord:
        request, plan = self._request, self._plan
        access = access_of(request)
        session = await self._open_session()
        entry = await self._find_entry(session)
        is_new = entry is None
        if entry is None:
            body = {"digest": plan.digest, "echo": plan.echo}
            entry = await session.entries.append(START_ENTRY, self._entry_key, body)
        record = await self._open_record(session, entry)
        if not is_new and (await record.read_answer()).has_answer:
            await self._turn.aclose()
            return record
        blobs = engine_of(request).blobs
        run = Run(
            plan,
            session,
            name=record.name,
            created_us=entry.at_us,
            record=record,
            upstream=self._runs.find_upstream(settings_of(request)),
            blobs=blobs,
            access=access,
            spending=spending_of(request),
            settings=settings_of(request),
            turn=self._turn,
        )
        await self._record_input(run, entry, is_new=is_new)
        if not is_new:
            ends = await session.entries.list(kind=END_ENTRY, parent=entry.key, limit=100, bodies=False)
            await run.resume(len(ends))
        return run

    async def _record_input(self, run: Run, entry: Entry, *, is_new: bool) -> None:
        session, plan = run.session, self._plan
        if not plan.items:
            if is_new and (await session.state()).messages == 0:
                raise invalid("'input' is missing, and the conversation is empty. Nothing was stored.", "input")
            run.input = (entry.seq, entry.seq)
            return
        if is_new:
            await check_answers(session, plan)
        if is_new and (plan.conversation is not None or plan.previous is not None):
            await check_new_ids(ItemReader(session, engine_of(self._request).blobs), plan.values, "input")
        messages: list[holdfast.Message] = []
        for number, batch in enumerate(split_items(plan.items)):
            messages += await session.record_all(batch, key=f"{entry.key}:input:{number}")
        run.input = (messages[0].seq - 1, messages[-1].seq)
        stored = [] if is_new else await session.messages(before=messages[-1].seq + 1, limit=1)
        if stored and stored[0].withdrawn:  # an earlier attempt has failed, and took it back
            await session.restore(stored[0].withdrawn)
        await observe_user(self._request, session, messages)

    async def _open_session(self) -> holdfast.AsyncSession:
        """The session of the request, with its turn."""
        plan, request = self._plan, self._request
        if plan.previous is not None:
            return await self._continue(plan.previous)
        if plan.conversation is not None:
            return await self._take_turn(await open_conversation(request, plan.conversation))
        name = new_conversation_id() if self._key is None else derive_conversation_id(self._key, "response")
        session = await create_session(request, name, user=plan.echo["metadata"].get(USER_METADATA))
        self._created = session if self._key is None else None
        return await self._take_turn(session)

    async def _take_turn(self, session: holdfast.AsyncSession) -> holdfast.AsyncSession:
        settings = settings_of(self._request)
        block = session.turn(lease_s=settings.turn_lease_s, wait_s=settings.turn_wait_s, owner=self._entry_key)
        return await self._turn.enter_async_context(block)

    async def _continue(self, name: str) -> holdfast.AsyncSession:
        """The session in which a response is continued: its own, or a fork."""
        request = self._request
        previous = await open_response(request, name, "previous_response_id")
        session = await self._take_turn(previous.session)
        state = await previous.read_state()
        if not state.replies or state.status not in ("completed", "incomplete"):
            raise invalid(f"The response '{name}' is {state.status}: it cannot be continued.", "previous_response_id")
        if await self._find_entry(session) is not None:
            return session
        newest = [message async for message in find_newest(session)]
        if not newest or newest[0].seq <= state.replies[-1]:
            return session
        await self._turn.aclose()
        self._turn = contextlib.AsyncExitStack()
        fork = None if self._key is None else derive_conversation_id(self._key, "fork")
        return await self._take_turn(await fork_after(request, previous, state, fork))

    async def _find_entry(self, session: holdfast.AsyncSession) -> Entry | None:
        """The entry of the same request, if it was made before: by its key; or else the newest one, if it is the same, has
        failed without a reply, and nothing came after it."""
        if self._key is not None:
            entry = await session.entries.get(self._entry_key)
            if entry is not None and _digest_of(entry) != self._plan.digest:
                raise ApiError(
                    409,
                    "The Idempotency-Key was used for another request. Use a new key. Nothing was stored.",
                    kind="conflict_error",
                    code="idempotency_key_reused",
                    headers={"x-should-retry": "false"},
                )
            return entry
        found = await session.entries.list(kind=START_ENTRY, limit=1)
        if not found or _digest_of(found[0]) != self._plan.digest:
            return None
        newest = [message async for message in find_newest(session)]
        if not newest or newest[0].seq < found[0].seq:
            return None
        ends = await session.entries.list(kind=END_ENTRY, parent=found[0].key, limit=1)
        state = msgspec.convert(ends[0].body, ResponseState) if ends else ResponseState(status="failed")
        is_input = newest[0].seq == state.input[1] if ends else newest[0].role != "assistant"
        is_last = is_input or await (await self._open_record(session, found[0])).is_continued_by(newest[0])
        return found[0] if state.is_abandoned and is_last else None

    async def _open_record(self, session: holdfast.AsyncSession, entry: Entry) -> ResponseRecord:
        ids = await self._runs.find_ids(whole_engine(self._request))
        place = ResponseAddress(session.scope.actor, session.scope.session, entry.seq)
        return ResponseRecord(session, entry, ids.sign(session.scope.tenant, place))


async def check_answers(session: holdfast.AsyncSession, plan: ResponsePlan) -> None:
    """Refuse a request that leaves calls of the model without their outputs, as providers do."""
    given = {value.get("call_id", value.get("id")) for value in plan.values}
    waiting = await session.open_calls()
    own = await find_engine_calls(session) if waiting else set()
    for call in waiting:
        if call.provider_id not in given and call.id not in given | own:
            name = call.provider_id or call.id
            reason = f"No tool output found for function call {name}. Pass it in 'input', or delete the item."
            raise invalid(f"{reason} Nothing was stored.", "input", "calls_open")


def _digest_of(entry: Entry) -> object:
    return entry.body.get("digest") if isinstance(entry.body, dict) else None


async def find_newest(session: holdfast.AsyncSession) -> AsyncIterator[holdfast.Message]:
    """The newest message that models see, if there is one."""
    async for message in walk_back(session, (await session.state()).version + 1):
        if message.skipped is None:
            yield message
            return


async def fork_after(
    request: Request, previous: ResponseRecord, state: ResponseState, name: str | None
) -> holdfast.AsyncSession:
    """A session that goes on after a response."""
    scope = previous.session.scope
    engine, access = engine_of(request), access_of(request)
    session = await open_session(engine, access, scope.session, actor=scope.actor)
    name = name or new_conversation_id()
    try:
        return await fork_at(request, session, state.replies[-1], name)
    except holdfast.errors.SessionExists:  # an earlier attempt with the same key
        fork = await open_session(engine, access, name, actor=scope.actor)
        await _repeat_reply(request, session, state.replies[-1], fork, name)
        return fork


async def fork_at(
    request: Request, session: holdfast.AsyncSession, seq: int | None, name: str | None = None
) -> holdfast.AsyncSession:
    """A fork of a session after a message, or after all; an ephemeral one without a name.

    Calls that are open in a fork are closed. So a reply whose calls the client still has to answer is not shared with the
    fork, but recorded in it again."""
    if seq is None:
        waiting = [calling_seq(call.id) for call in await session.open_calls()]
        seq = min((each for each in waiting if each is not None), default=None)
    last = (await session.messages(before=seq + 1, limit=1))[-1] if seq is not None else None
    at = None if last is None else last.seq - bool(last.tool_calls)
    fork = await session.fork(at=at, as_=name, ephemeral=name is None)
    if seq is not None:
        await _repeat_reply(request, session, seq, fork, name)
    return fork


async def _repeat_reply(
    request: Request, session: holdfast.AsyncSession, seq: int, fork: holdfast.AsyncSession, name: str | None
) -> None:
    """Record a reply with calls in a fork that does not share it."""
    last = (await session.messages(before=seq + 1, limit=1))[-1]
    if last.tool_calls:
        (items,) = await ItemReader(session, engine_of(request).blobs).show([last])
        model = (last.source.model if last.source is not None else None) or "unknown"
        reply = {"object": "response", "status": "completed", "model": model, "output": items}
        await fork.record(reply, pack=False, key=None if name is None else f"{name}:reply")


async def fork_ephemeral(request: Request, plan: ResponsePlan) -> holdfast.AsyncSession | None:
    """A fork of which nothing is stored, of the conversation that a request names; None if it names none."""
    if plan.previous is not None:
        previous = await open_response(request, plan.previous, "previous_response_id")
        state = await previous.read_state()
        if not state.replies:
            raise invalid(f"The response '{plan.previous}' has no output to continue.", "previous_response_id")
        return await fork_at(request, previous.session, state.replies[-1])
    if plan.conversation is not None:
        return await fork_at(request, await open_conversation(request, plan.conversation), None)
    return None


async def open_unstored(request: Request, plan: ResponsePlan) -> Run:
    """A run of which nothing is stored: on an ephemeral fork, or in a store in memory."""
    runs, access = runs_of(request), access_of(request)
    blobs = engine_of(request).blobs
    session = await fork_ephemeral(request, plan)
    turn = contextlib.AsyncExitStack()
    if session is None:
        memory = await runs.find_memory()
        session, blobs = await memory.create_session(new_conversation_id()), memory.blobs
        turn.push_async_callback(session.destroy, "not stored", offload=False)
    try:
        await check_answers(session, plan)
        for batch in split_items(plan.items) if plan.items else ():
            await observe_user(request, session, await session.record_all(batch))
    except BaseException:
        await turn.aclose()
        raise
    return Run(
        plan,
        session,
        name=make_id("resp"),
        created_us=time.time_ns() // 1_000,
        record=None,
        upstream=runs.find_upstream(settings_of(request)),
        blobs=blobs,
        access=access,
        spending=spending_of(request),
        settings=settings_of(request),
        turn=turn,
    )


# References


async def resolve_references(request: Request, body: Fields) -> Fields:
    """The request with the items that it refers to. One that is in the conversation already is left out."""
    values = body.get("input")
    if type(values) is not list or not any(map(_is_reference, values)):
        return body
    access_of(request).check("read")
    session: holdfast.AsyncSession | None = None
    conversation, previous = read_conversation(body), get_text(body, "previous_response_id")
    if conversation is not None:
        session = await open_conversation(request, conversation)
    elif previous is not None:
        session = (await open_response(request, previous, "previous_response_id")).session
    resolved: list[object] = []
    for number, value in enumerate(values):
        if not _is_reference(value):
            resolved.append(value)
        elif session is None or not await _has_item(request, session, value["id"]):
            resolved.append(await _find_output(request, value["id"], f"input[{number}]"))
    return {**body, "input": resolved}


def _is_reference(value: object) -> bool:
    if type(value) is not dict or type(value.get("id")) is not str:
        return False
    return value.get("type") == "item_reference" or (value.get("type") is None and "role" not in value)


async def _has_item(request: Request, session: holdfast.AsyncSession, name: str) -> bool:
    return await ItemReader(session, engine_of(request).blobs).find(name) is not None


async def _find_output(request: Request, name: str, param: str) -> Fields:
    """An item of the output of any response of the caller."""
    ids = await runs_of(request).find_ids(whole_engine(request))
    response = ids.read_item(access_of(request).tenant, name)
    if response is None:
        raise not_found("Item", name, param)
    record = await open_response(request, response, param)
    output = await record.read_output(engine_of(request).blobs, await record.read_state(), [SEALED])
    item = next((each for each in output if each.get("id") == name), None)
    if item is None:
        raise not_found("Item", name, param)
    return item
