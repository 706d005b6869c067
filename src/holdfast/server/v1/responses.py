"""The Responses API: create, retrieve, delete, cancel, the input items, compact, and the count of input tokens.

Laws: an error before the model answers is an answer with a status; after that, it is the state of the response. A client
who goes away stops the work, unless it is in the background.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import time
from collections.abc import AsyncIterator, Iterator

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send

import holdfast
from holdfast.model.content import Usage
from holdfast.model.entries.entry import Entry
from holdfast.server.context import access_of, engine_of, extend_time, settings_of
from holdfast.server.v1.bodies import Fields, get_key, get_page, get_text, read_body
from holdfast.server.v1.conversations import (
    page_items,
    walk_messages,
)
from holdfast.server.v1.errors import invalid
from holdfast.server.v1.ids import new_conversation_id
from holdfast.server.v1.items import split_items
from holdfast.server.v1.openings import (
    Opening,
    find_newest,
    fork_ephemeral,
    open_response,
    open_unstored,
    resolve_references,
    runs_of,
    spending_of,
)
from holdfast.server.v1.output import make_id, spell_item
from holdfast.server.v1.plans import ResponsePlan, read_plan
from holdfast.server.v1.records import (
    CANCEL_ENTRY,
    CANCELLED,
    END_ENTRY,
    ResponseRecord,
    ResponseState,
    show_usage,
)
from holdfast.server.v1.runs import QUIET_S, Run, find_window

POLL_S = 0.1
"""How often a response that another replica works on is looked at."""
CANCEL_WAIT_S = 5
NUMBER_CHARS = 9
"""The most digits of the number of an event."""
ANSWER_S = 30
"""How long the answer may take beside the upstream: so that an upstream which is too slow is named in the answer."""
LEAST_WINDOW = 2_000
"""The smallest window to which a conversation is compacted."""
FORMAT = "text/event-stream"
WAITING = b": waiting\n\n"
CLIENT_GONE = "the client went away"


# Create


async def create(request: Request) -> Response:
    access = access_of(request)
    access.check("model")
    plan = read_plan(await resolve_references(request, await read_body(request)))
    if plan.store:
        access.check("write")
    key = get_key(request)
    runs, settings = runs_of(request), settings_of(request)
    upstream = runs.find_upstream(settings)
    upstream.dialect.check(plan.question)
    wait_for_model = functools.partial(extend_time, request, settings.upstream_s + ANSWER_S)
    wait_for_model()
    await spending_of(request).check(access)
    opened = await (Opening(request, plan, key).open() if plan.store else open_unstored(request, plan))
    if isinstance(opened, ResponseRecord):
        return await answer_stored(request, opened, streams=plan.stream)
    if not plan.background:
        opened.extend_time = wait_for_model
    runs.start(opened)
    if plan.background and not plan.stream:
        return JSONResponse(opened.show(ResponseState(status="queued")))
    if plan.stream:
        return await _stream(opened)
    await _wait_for(request, opened)
    if opened.ready.exception() is not None:
        await opened.ready
    return JSONResponse(opened.response)


async def _wait_for(request: Request, run: Run) -> None:
    """Wait for the end of a run; a client who goes away stops it."""
    assert run.task is not None, "it was started"
    watch = asyncio.create_task(_wait_for_disconnect(request))
    try:
        await asyncio.wait([run.task, watch], return_when=asyncio.FIRST_COMPLETED)
        if not run.task.done():
            run.stop(CLIENT_GONE)
            await asyncio.wait([run.task])
    except asyncio.CancelledError:
        run.stop(CLIENT_GONE)
        raise
    finally:
        run.extend_time = None
        watch.cancel()


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _stream(run: Run) -> Response:
    await asyncio.wait([run.ready])
    run.extend_time = None
    if run.ready.exception() is not None:
        await run.ready

    return RunStream(run)


class RunStream(StreamingResponse):
    """The events of a run. A client who goes away stops it, wherever the answer is at that moment: a generator would learn
    of it when it is collected."""

    def __init__(self, run: Run) -> None:
        super().__init__(self._spell(), media_type=FORMAT, headers={"cache-control": "no-store"})
        self._run = run

    async def _spell(self) -> AsyncIterator[bytes]:
        async for event in self._run.follow():
            yield WAITING if event is None else spell_event(event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            if not self._run.plan.background:
                self._run.stop(CLIENT_GONE)


def spell_event(event: Fields) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n".encode(errors="replace")


# Stored responses


async def answer_stored(request: Request, record: ResponseRecord, *, streams: bool, after: int = -1) -> Response:
    """A stored response, as JSON or as a stream."""
    if streams:
        sent = _send_stored(request, record, after)
        return StreamingResponse(sent, media_type=FORMAT, headers={"cache-control": "no-store"})
    return JSONResponse(await _describe_stored(request, record, await record.read_state()))


async def _describe_stored(request: Request, record: ResponseRecord, state: ResponseState) -> Fields:
    include = [*request.query_params.getlist("include"), *request.query_params.getlist("include[]")]
    return await record.describe(state, await record.read_output(engine_of(request).blobs, state, include))


async def _send_stored(request: Request, record: ResponseRecord, after: int) -> AsyncIterator[bytes]:
    """The events of a stored response, when it is over; until then, signs of life."""
    state, due = await record.read_state(), 0.0
    while not state.is_over:
        if time.monotonic() >= due:
            due = time.monotonic() + QUIET_S
            yield WAITING
        await asyncio.sleep(POLL_S)
        state = await record.read_state()
    for event in spell_response(await _describe_stored(request, record, state)):
        if event["sequence_number"] > after:
            yield spell_event(event)


def spell_response(response: Fields) -> Iterator[Fields]:
    """The events of a stream that give a response which is over."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None, "completed_at": None}
    last = "incomplete" if response["status"] == "cancelled" else response["status"]
    events: list[tuple[str, Fields]] = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
    ]
    for index, item in enumerate(response["output"]):
        events += spell_item(item, index)
    events.append((f"response.{last}", {"response": response}))
    for number, (kind, fields) in enumerate(events):
        yield {"type": kind, "sequence_number": number, **fields}


async def retrieve(request: Request) -> Response:
    access_of(request).check("read")
    record = await open_response(request, request.path_params["response"])
    after = request.query_params.get("starting_after", "")
    streams = request.query_params.get("stream", "").lower() in ("true", "1")
    is_number = after.isascii() and after.isdigit() and len(after) <= NUMBER_CHARS
    return await answer_stored(request, record, streams=streams, after=int(after) if is_number else -1)


async def delete(request: Request) -> Response:
    """Delete a response. Its items go with it if it is of no conversation and nothing continued it."""
    access_of(request).check("write")
    record = await open_response(request, request.path_params["response"])
    state = await record.read_state()
    if not state.is_over:
        raise invalid("The response is in progress: cancel it first. Nothing was deleted.")
    newest = [message async for message in find_newest(record.session)]
    is_last = not newest or not state.replies or newest[0].seq <= state.replies[-1]
    if record.body["echo"].get("conversation") is None and is_last:
        first, last = state.input
        kept = (first, max((last, *state.replies)))
        gone = [message.seq async for message in walk_messages(record.session, *kept)]
        if gone:
            await record.session.erase(gone, "deleted by the client")
    ends = await record.session.entries.list(kind=END_ENTRY, parent=record.entry.key, bodies=False)
    await record.session.entries.delete([record.entry.key, *(end.key for end in ends)])
    return JSONResponse({"id": record.name, "object": "response", "deleted": True})


async def cancel(request: Request) -> Response:
    access_of(request).check("write")
    record = await open_response(request, request.path_params["response"])
    if not record.body["echo"].get("background"):
        raise invalid("Only a response with background=true can be cancelled.", "response_id")
    state = await record.read_state()
    if not state.is_over:
        await record.session.entries.append(CANCEL_ENTRY, f"{record.entry.key}:cancel", {})
        run = runs_of(request).active.get(record.name)
        if run is not None:
            run.stop(CANCELLED)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CANCEL_WAIT_S):
                await _wait_for_end(record)
    return await answer_stored(request, record, streams=False)


async def _wait_for_end(record: ResponseRecord) -> None:
    ends: list[Entry] = []
    while not ends:
        await asyncio.sleep(POLL_S)
        ends = await record.session.entries.list(kind=END_ENTRY, parent=record.entry.key, limit=1, bodies=False)


async def list_input(request: Request) -> Response:
    access_of(request).check("read")
    after, order, limit = get_page(request)
    record = await open_response(request, request.path_params["response"])
    state = await record.read_state()
    seqs = state.input if state.is_over else (record.entry.seq, (await record.session.state()).version)
    return JSONResponse(await page_items(record.session, engine_of(request).blobs, after, order, limit, seqs))


# Compact and count


async def compact(request: Request) -> Response:
    """Compact a conversation: what the client sends, or what is stored behind a response. Nothing is stored."""
    access_of(request).check("read")
    body = await read_body(request)
    model = get_text(body, "model")
    if not model:
        raise invalid("'model' is missing. Nothing was stored.", "model")
    async with _open_scratch(request, read_plan({**body, "store": False})) as session:
        await session.context.compact(window=max(LEAST_WINDOW, settings_of(request).budget), model=model)
        shown = await session.context.render("openai-responses", ids=True)
        tokens = (await session.state()).tokens
    output = [_complete_item(item) for item in shown["input"]]
    about = {"id": make_id("resp"), "object": "response.compaction", "created_at": int(time.time())}
    return JSONResponse({**about, "output": output, "usage": show_usage(Usage(tokens))})


def _complete_item(item: Fields) -> Fields:
    if item.get("type", "message") != "message":
        return item
    kind = "output_text" if item["role"] == "assistant" else "input_text"
    content = item["content"]
    parts = [{"type": kind, "text": content}] if isinstance(content, str) else content
    return {"type": "message", "status": "completed", **item, "content": parts}


@contextlib.asynccontextmanager
async def _open_scratch(request: Request, plan: ResponsePlan) -> AsyncIterator[holdfast.AsyncSession]:
    """A session in memory with the conversation of a request: nothing of it is stored."""
    async with contextlib.AsyncExitStack() as stack:
        shared = await fork_ephemeral(request, plan)
        if shared is not None:
            session = shared
        else:
            memory = await runs_of(request).find_memory()
            session = await memory.create_session(new_conversation_id())
            stack.push_async_callback(session.destroy, "not stored", offload=False)
        for batch in split_items(plan.items) if plan.items else ():
            await session.record_all(batch)
        yield session


async def count_input(request: Request) -> Response:
    """The tokens that a request would send to the model."""
    access_of(request).check("read")
    body = await read_body(request)
    body.setdefault("model", "unknown")
    plan = read_plan({**body, "store": False})
    budget = settings_of(request).budget if plan.truncation == "auto" else find_window(plan.question.model, None)
    async with _open_scratch(request, plan) as session:
        pack = await session.pack(budget=budget, model=plan.question.model, brief=plan.brief, settle=False, time=False)
    return JSONResponse({"object": "response.input_tokens", "input_tokens": pack.tokens.used})
