"""Work on responses: one run asks the upstream until the reply is complete, and records it.

Laws: a run has the turn on its conversation from its first write to its last. The input is recorded once, before the
upstream is asked, and the reply once, when it ended. A reply that breaks off is recorded as far as it came, with its
reason, and shown to no model. The same request again finds the stored reply; if there is none, the upstream is asked anew.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Any, Self

import httpx2
import msgspec

import holdfast
from holdfast.access.access import Access
from holdfast.access.spend import KeySpending
from holdfast.errors import HoldfastError
from holdfast.model import limits
from holdfast.model.content import Usage
from holdfast.model.history.prices import find_prices
from holdfast.server import metrics
from holdfast.server.settings import ServerSettings
from holdfast.server.v1.bodies import Fields
from holdfast.server.v1.errors import ApiError, find_error, invalid
from holdfast.server.v1.ids import ResponseIds, load_ids, name_item
from holdfast.server.v1.items import ENGINE_CALLS, ItemReader, find_engine_calls
from holdfast.server.v1.output import OutputBuilder, OutputTooLarge, make_id
from holdfast.server.v1.plans import ResponsePlan
from holdfast.server.v1.records import (
    CANCELLED,
    END_ENTRY,
    STOPPED_TEXT,
    ResponseRecord,
    ResponseState,
    build_response,
    show_sealed,
    show_usage,
    sum_usage,
)
from holdfast.server.v1.upstreams import (
    ReplyEnd,
    Upstream,
    UpstreamBroken,
    new_client,
    read_events,
    upstream_error,
)

log = logging.getLogger("holdfast.server.v1")

ENGINE_ROUNDS = 8
"""How often a model may read handles and memory for one response; after that it has to answer."""
UNREADABLE = (KeyError, IndexError, TypeError, AttributeError, ValueError)
"""What reading a reply of an unexpected shape raises."""
CANCEL_POLL_S = 0.5
"""How often a run in the background looks whether another replica cancelled it."""
ATTEMPT_ITEMS = 1 << 12
"""The numbers of items that each attempt at a response has."""
QUIET_S = 15
"""After how many seconds without an event a sign of life is sent."""
RECALL_SHARE = 0.25
"""The share of the budget that earlier conversations may take in front of the whole conversation."""
SETTLED_SHARE = 0.5
"""The share of the window up to which no compaction is due. A longer conversation is packed as it is, or refused."""


class Runs:
    """The runs of one process, and what they share."""

    def __init__(self) -> None:
        self._client: httpx2.AsyncClient | None = None
        self._ids: ResponseIds | None = None
        self._upstream: Upstream | None = None
        self._memory: holdfast.AsyncEngine | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.active: dict[str, Run] = {}
        """The runs of stored responses, by their ids."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for run in list(self.active.values()):
            run.stop(STOPPED_TEXT)
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._client is not None:
            await self._client.aclose()
        if self._memory is not None:
            await self._memory.close()

    def find_upstream(self, settings: ServerSettings) -> Upstream:
        if not settings.upstream:
            raise ApiError(
                501,
                "This server has no upstream: start it with `holdfast serve --upstream ADDRESS`. Nothing was stored.",
                kind="invalid_request_error",
                code="no_upstream",
                headers={"x-should-retry": "false"},
            )
        if self._client is None:
            self._client = new_client(settings.upstream_s)
        if self._upstream is None:
            self._upstream = Upstream(settings, self._client)
        return self._upstream

    async def find_ids(self, engine: holdfast.AsyncEngine) -> ResponseIds:
        if self._ids is None:
            self._ids = await load_ids(engine)
        return self._ids

    async def find_memory(self) -> holdfast.AsyncEngine:
        """The store of what is not stored: it ends with the process."""
        if self._memory is None:
            self._memory = await holdfast.open_async("memory:", principal="server")
        return self._memory

    def start(self, run: Run) -> asyncio.Task[None]:
        """Work on a run, whoever waits for it."""
        task = asyncio.create_task(run.work(), name="holdfast-response")
        run.task = task
        self._tasks.add(task)
        self.active[run.name] = run

        def forget(_: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if self.active.get(run.name) is run:
                del self.active[run.name]

        task.add_done_callback(forget)
        return task


class Run:
    """The work on one response."""

    def __init__(
        self,
        plan: ResponsePlan,
        session: holdfast.AsyncSession,
        *,
        name: str,
        created_us: int,
        record: ResponseRecord | None,
        upstream: Upstream,
        blobs: Any,
        access: Access,
        spending: KeySpending,
        settings: ServerSettings,
        turn: contextlib.AsyncExitStack,
    ) -> None:
        self.plan = plan
        self.session = session
        self.name = name
        self.created_us = created_us
        self.record = record
        """None for a response that is not stored."""
        self.task: asyncio.Task[None] | None = None
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the upstream has begun to answer; an error before that is the error of the request."""
        self.response: Fields = {}
        """The response when it is over."""
        self.input = (0, 0)
        self.extend_time: Callable[[], None] | None = None
        """Gives the request that waits for the reply more time, before each call of the model."""
        self._upstream = upstream
        self._blobs = blobs
        self._access = access
        self._spending = spending
        self._settings = settings
        self._turn = turn
        self._events: list[Fields] = []
        self._news = asyncio.Event()
        self._output = OutputBuilder(self._emit, name_item=self._name_item)
        self._items = 0
        self._usages: list[Usage | None] = []
        self._replies: list[int] = []
        self._pack = ""
        self._stop_reason = ""
        self._tries = 0
        self._failure: ApiError | None = None
        self._is_ending = False

    def _name_item(self, kind: str) -> str:
        """The id of a new item. Another attempt gives other ids."""
        if self.record is None:
            return make_id(kind)
        self._items += 1
        return name_item(self.name, kind, self._tries * ATTEMPT_ITEMS + self._items)

    # Events

    def _emit(self, kind: str, fields: Fields) -> None:
        if self.plan.stream:
            if "item" in fields:
                (item,) = show_sealed([fields["item"]], self.plan.question.include)
                fields = {**fields, "item": item}
            self._events.append({"type": kind, "sequence_number": len(self._events), **fields})
            self._news.set()

    async def follow(self) -> AsyncIterator[Fields | None]:
        """The events, as they come, until the response is over; None after a while without one."""
        at = 0
        while True:
            while at < len(self._events):
                yield self._events[at]
                at += 1
            if self.task is not None and self.task.done() and at == len(self._events):
                return
            self._news.clear()
            if at == len(self._events):
                try:
                    async with asyncio.timeout(QUIET_S):
                        await self._news.wait()
                except TimeoutError:
                    yield None

    def show(self, state: ResponseState) -> Fields:
        output = show_sealed([dict(item) for item in self._output.output], self.plan.question.include)
        return build_response(self.plan.echo, self.name, self.created_us, state, output)

    def stop(self, reason: str) -> None:
        """Stop the work: what was received is recorded."""
        if self.task is not None and not self.task.done() and not self._stop_reason and not self._is_ending:
            self._stop_reason = reason
            self.task.cancel(reason)

    # Work

    async def work(self) -> None:
        """Ask the upstream until the reply is complete; record how it ended."""
        state = ResponseState(status="failed")
        watch = asyncio.create_task(self._watch_cancel()) if self.plan.background else None
        try:
            await self._announce()
            end = await self._ask_rounds()
            status = "completed" if end.stop == "completed" else "incomplete"
            state = self._build_state(status, reason="" if end.stop == "completed" else end.stop, model=end.model)
        except asyncio.CancelledError:
            if not self._stop_reason:
                raise
            task = asyncio.current_task()
            if task is not None:
                task.uncancel()
            state = self._build_state("cancelled", reason=self._stop_reason)
            if self._stop_reason == STOPPED_TEXT:
                state = self._build_state("failed", error={"code": "server_error", "message": STOPPED_TEXT})
        except Exception as error:  # noqa: BLE001 - it becomes the state of the response
            state = self._fail(error)
        finally:
            if watch is not None:
                watch.cancel()
            await self._finish(state)

    async def _announce(self) -> None:
        begun = self.show(ResponseState(status="queued" if self.plan.background else "in_progress"))
        self._emit("response.created", {"response": begun})
        if self.plan.background:
            self._emit("response.queued", {"response": begun})
        self._emit("response.in_progress", {"response": {**begun, "status": "in_progress"}})

    def _build_state(self, status: str, **fields: Any) -> ResponseState:
        return ResponseState(
            status=status,
            replies=tuple(self._replies),
            input=self.input,
            usage=sum_usage(self._usages),
            pack=self._pack,
            session=self.session.scope.session,
            **fields,
        )

    def _fail(self, error: Exception) -> ResponseState:
        shown = self._failure = find_error(error)
        code = "rate_limit_exceeded" if shown.status == 429 else "server_error"
        return self._build_state("failed", error={"code": code, "message": str(shown)})

    async def _finish(self, state: ResponseState) -> None:
        """Store how the response ended, give the turn back, and tell who waits."""
        self._is_ending = True
        ended_us = time.time_ns() // 1_000
        try:
            if self.record is not None and state.status == "failed":
                await self._take_input_back()
            if self.record is not None:
                key = f"{self.record.entry.key}:end:{self._tries}"
                body = msgspec.to_builtins(state)
                end = await self.record.session.entries.append(END_ENTRY, key, body, parent=self.record.entry.key)
                ended_us = end.at_us  # so that who asks again sees the same
        except HoldfastError as error:
            log.warning("the end of a response was not stored: %s", type(error).__name__)
        finally:
            try:
                await self._turn.aclose()
            except HoldfastError as error:
                log.warning("the turn was not given back: %s", type(error).__name__)
            self.response = self.show(msgspec.structs.replace(state, ended_us=ended_us))
            last = "incomplete" if state.status == "cancelled" else state.status
            self._emit(f"response.{last}", {"response": self.response})
            if not self.ready.done() and self._failure is not None:
                self.ready.set_exception(self._failure)
                self.ready.exception()  # a run in the background has nobody who asks
            elif not self.ready.done():
                self.ready.set_result(None)
            self._news.set()

    async def _take_input_back(self) -> None:
        """Leave the conversation as it was, if the upstream gave no reply at all. Results of tools stay: without them,
        their calls would have to go, too."""
        first, last = self.input
        has_results = any(str(value.get("type", "")).endswith("_output") for value in self.plan.values)
        if self._replies or has_results or last <= first:
            return
        newest = await self.session.messages(limit=1)
        if newest and newest[0].seq == last:
            await self.session.withdraw(after=first, reason="the response failed")

    async def _watch_cancel(self) -> None:
        """Look whether somebody cancelled the response through another replica."""
        while self.record is not None:
            await asyncio.sleep(CANCEL_POLL_S)
            try:
                if await self.record.session.entries.get(f"{self.record.entry.key}:cancel") is not None:
                    self.stop(CANCELLED)
                    return
            except HoldfastError:
                continue  # the store may answer again

    async def resume(self, tries: int) -> None:
        """Take over what an earlier attempt has recorded."""
        self._tries = tries
        if self.record is None:
            return
        reader = ItemReader(self.session, self._blobs)
        for message in await self.record.find_replies():
            if message.skipped == "incomplete":
                continue
            self._replies.append(message.seq)
            self._usages.append(message.usage)
            (items,) = await reader.show([message])
            self._output.output += items

    async def _ask_rounds(self) -> ReplyEnd:
        for number in range(ENGINE_ROUNDS + 1):
            await self._run_engine_calls()
            end = await self._ask(may_read=number < ENGINE_ROUNDS)
            if self._output.client_calls or not self._output.engine_calls or end.stop != "completed":
                await self._run_engine_calls()
                return end
        raise invalid("The model read handles without end, and gave no answer. Try again.")

    async def _run_engine_calls(self) -> None:
        """Run the calls of the engine's own tools."""
        for call in sorted(await find_engine_calls(self.session)):
            await self.session.run(call, again=True)  # they only read, so a second time does no harm

    async def _ask(self, *, may_read: bool) -> ReplyEnd:
        """One call of the model: its pack, its reply, and the record of both."""
        pack = await self._build_pack(may_read=may_read)
        names = {str(tool.get("name")) for tool in self.plan.question.tools}
        engine_tools = tuple(tool for tool in pack.tools if tool.name not in names and _is_of_use(tool, pack))
        body = self._upstream.dialect.build_request(pack, self.plan.question, engine_tools)
        self._output.begin_round([tool.name for tool in engine_tools])
        await self._spending.check(self._access)
        if self.extend_time is not None:
            self.extend_time()
        try:
            end = await self._send(body)
        except (UpstreamBroken, OutputTooLarge, asyncio.CancelledError) as error:
            self._output.end_round("incomplete")
            await _shield(self._record(ReplyEnd("incomplete"), None))
            if isinstance(error, asyncio.CancelledError):
                raise
            raise ApiError(
                502, f"The upstream stopped in the middle of its reply: {error}.", kind="server_error"
            ) from error
        await _shield(self._record(end, pack))
        return end

    async def _send(self, body: Fields) -> ReplyEnd:
        dialect = self._upstream.dialect
        streams = self.plan.stream or self.plan.background
        if streams:
            dialect.mark_stream(body)
        async with self._upstream.open(body) as response:
            if not streams:
                reply = await self._upstream.read_json(response)
                try:
                    return dialect.read_reply(reply, self._output)
                except UNREADABLE as error:
                    raise upstream_error(502, f"its reply has an unexpected shape ({type(error).__name__})") from error
            if not self.ready.done():
                self.ready.set_result(None)
            reader = dialect.read_stream(self._output)
            async for event in read_events(response):
                try:
                    reader.add(event)
                except UNREADABLE as error:
                    raise UpstreamBroken(f"an event has an unexpected shape ({type(error).__name__})") from error
            end = reader.end()
            if end is None:
                raise UpstreamBroken("its stream ended too early")
            self._output.end_round("completed" if end.stop == "completed" else "incomplete")
            return end

    async def _record(self, end: ReplyEnd, pack: holdfast.Pack | None) -> None:
        """Record the reply of one round with its pack. What broke off is recorded without one."""
        output = self._output
        if not output.reply and end.stop == "incomplete":
            return
        status = "completed" if end.stop == "completed" else "incomplete"
        reply: Fields = {"object": "response", "model": end.model or self.plan.question.model, "status": status}
        reply["output"] = output.reply
        if self.record is not None:
            reply["id"] = self.record.mark
        if status == "incomplete" and end.stop != "incomplete":
            reply["incomplete_details"] = {"reason": end.stop}
        if end.usage is not None:
            reply["usage"] = show_usage(end.usage)
        metadata = {ENGINE_CALLS: output.engine_calls} if output.engine_calls else None
        message = await self.session.record(reply, pack=False if pack is None else pack, metadata=metadata)
        self._replies.append(message.seq)
        self._usages.append(end.usage)
        if pack is not None and self.record is not None:
            newest = await self.session.packs.list(limit=1)
            self._pack = newest[0].id if newest and newest[0].reply == message.seq else self._pack
        if end.usage is not None:
            total = end.usage.input_tokens + end.usage.output_tokens
            metrics.count_tokens(self._upstream.host, end.usage)
            key = f"{self.name}:{self._tries}:{len(self._replies)}"
            await self._spending.add(self._access, total, key=key)

    async def _build_pack(self, *, may_read: bool) -> holdfast.Pack:
        brief = self.plan.brief
        if not may_read:
            brief = msgspec.structs.replace(brief, read_handle=False, recall_memory=False)
        question = self.plan.question
        options: dict[str, Any] = {"model": question.model, "brief": brief, "max_output": question.max_output_tokens}
        options["time"] = False  # a client that wants the model to know the time says so
        if self.plan.truncation == "auto":
            budget = self._settings.budget or find_window(question.model, question.max_output_tokens)
            return await self.session.pack(budget=budget, **options)
        window = find_window(question.model, question.max_output_tokens)
        if (await self.session.state()).has_memory:  # what is sent beside the conversation has the bounds of a pack
            options["recall"] = RECALL_SHARE * min(1.0, self._settings.budget / window)
        held = await self.session.context.occupancy()
        tokens = held.system + held.resident_tokens + held.spooled_tokens + held.paged_tokens + held.collapsed_tokens
        try:
            return await self.session.pack(budget=window, settle=tokens <= window * SETTLED_SHARE, **options)
        except (holdfast.errors.CriticalOverflow, holdfast.errors.WindowTooSmall) as error:
            raise window_exceeded(error, window) from error


def _is_of_use(tool: holdfast.Tool, pack: holdfast.Pack) -> bool:
    """Whether to offer a tool of the engine. Beside tools of the client it is offered from the start, so that the list
    stays as it is. A client without tools may ask a model that takes none: it gets one when something is shown in part, or
    was called."""
    if tool.name != holdfast.READ_HANDLE.name or pack.brief.tools or tool.name in pack.text:
        return True
    return any(message.tool_calls for message in pack.history.messages)


def window_exceeded(error: HoldfastError, window: int) -> ApiError:
    needed = getattr(error, "needed", 0)
    return invalid(
        f"The conversation needs {needed} tokens, and the window of the model has {window}. Pass truncation='auto' to have "
        "it shortened.",
        "input",
        "context_length_exceeded",
    )


def find_window(model: str, max_output: int | None) -> int:
    """The tokens of a prompt that a model takes; the highest number if it is not known."""
    prices = find_prices(model)
    if prices is None:
        return limits.WINDOW_TOKENS
    return max(limits.PACK_TOKENS, prices.window - (max_output or prices.max_output))


async def _shield(work: Any) -> None:
    """Finish a write, also if the task is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
