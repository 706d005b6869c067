# Generated from sessions.py by tools/twins.py: do not edit.

"""Sessions and frames: the objects that programs work with. Each method runs one flow; here it is awaited."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, Self, Unpack

import holdfast
from holdfast.flows.facts import observation
from holdfast.flows.frames import frames, recovery, suspension
from holdfast.flows.frames.frames import FrameReference
from holdfast.flows.history import withdrawals
from holdfast.flows.memory import recall, removal
from holdfast.flows.packs import assembly
from holdfast.flows.sessions import activity, diffs, forks, ingest, layers, lifecycle, model_uses, tools
from holdfast.flows.sessions import messages as message_flows
from holdfast.model.content import Role, ToolCall, Usage
from holdfast.model.facts.outcomes import ObservationResult
from holdfast.model.frames.frames import (
    Ending,
    FrameRecord,
    FrameSpend,
    FrameState,
    FrameStatus,
    Recovery,
    StartedCall,
    SuspensionToken,
)
from holdfast.model.history.withdrawals import Restoration, Withdrawal
from holdfast.model.log import StoredEvent
from holdfast.model.memory.recall import RecalledPassage
from holdfast.model.names import check_instance, check_options
from holdfast.model.packs.pack import Brief, Profile
from holdfast.model.rows import SessionRow
from holdfast.model.sessions.activity import Activity
from holdfast.model.sessions.diffs import SessionDiff
from holdfast.model.sessions.layers import Identity
from holdfast.model.sessions.messages import Message
from holdfast.model.sessions.model_uses import ModelUse
from holdfast.model.state import OpenCall, SessionState
from holdfast.runtime.async_base import AsyncConversationBase, AsyncFrameBlock, AsyncTurnBlock, AwaitableFrame
from holdfast.runtime.async_facets import (
    AsyncBudgetFacet,
    AsyncContextFacet,
    AsyncEntriesFacet,
    AsyncEnvironmentFacet,
    AsyncFrameHandlesFacet,
    AsyncHandlesFacet,
    AsyncPacksFacet,
    AsyncSituationFacet,
    AsyncWorkingFacet,
)
from holdfast.runtime.async_ledgers import AsyncFactsFacet, AsyncLedger
from holdfast.runtime.options import FrameOptions, PackOptions, RecordOptions
from holdfast.runtime.tools import async_recall_memory_tool


class AsyncFramesFacet(AsyncConversationBase):
    """The frames of a session: `session.frames`."""

    async def list(
        self,
        *,
        status: FrameStatus | Literal["live"] | None = None,
        parent: FrameReference | FrameState | str | None = None,
        after: FrameState | str | None = None,
        limit: int = 100,
    ) -> builtins.list[FrameState]:
        """List the frames of the session, live and ended, in the order in which they were pushed.

        `status` selects frames of one status, or "live" for all that have not ended. `parent` selects the children
        of one frame. For the next page, pass the last frame of this one as `after`."""
        return await self._drive(
            frames.list_frames(self._context, status=status, parent=parent, after=after, limit=limit)
        )

    def get(self, frame: FrameState | str) -> AwaitableFrame:
        """Open a frame of the session by its id, live or ended. "top" opens the frame on top of the stack.

        Raises FrameNotFound if there is no such frame."""
        return self._open_frame(frames.get(self._context, frame))

    async def stack(self) -> builtins.list[FrameState]:
        """Return the frames from the root to the current one, or an empty list.

        The current frame is the live frame with the newest activity that is not suspended."""
        return await self._drive(frames.stack(self._context))


class _AsyncConversation(AsyncConversationBase):
    """The methods that a session and a frame share."""

    async def record(
        self,
        message: object,
        content: ingest.Content | None = None,
        *,
        tool_calls: Sequence[ToolCall | Mapping[str, Any]] = (),
        usage: Usage | None = None,
        pack: holdfast.Pack | Literal[False] | None = None,
        **options: Unpack[RecordOptions],
    ) -> Message:
        """Store a message. When this returns, the message survives a power failure.

            await session.record("user", "Where is my order?")
            await session.record("assistant", "One moment.", tool_calls=[{"name": "find_order", "args": {"id": 7}}])
            await session.record(response)  # what the OpenAI or Anthropic client returned

        `message` is a role with `content`, or a reply of a provider: an object of an official client, the same data as
        a dict, or a finished Deltas. `content` is text, a part such as Image or File, or a list of these; parts can be
        dicts in the format of Holdfast, OpenAI or Anthropic.

        A reply is tied to the pack that it answers, and the manifest of the pack is stored with it. Without `pack`,
        that is the newest pack of this conversation that this engine built and that has no reply yet. `pack=False` ties
        the reply to no pack. Tokens that were reserved with the pack are settled. In a frame, the usage of the reply is
        charged to the budget of the frame.

        Some replies are stored with their usage but shown to no model: an empty reply, a refusal, a reply that the
        provider cut off or filtered. `message.skipped` gives the reason. Do not run the tool calls of such a reply.

        `key` makes a retry safe: the same message with the same key is stored once. RecordOptions lists all options."""
        check_options("record", RecordOptions, options)
        return await self._drive(
            message_flows.record(
                self._context, message, content, tool_calls=tool_calls, usage=usage, pack=pack, **options
            )
        )

    async def record_model_uses(self, *uses: ModelUse, key: str | None = None, cause: str | None = None) -> None:
        """Record what models used beside the conversation, and charge it to the frame, if this is one.

            await session.record_model_uses(ModelUse(purpose="rerank", model="small", usage=Usage(1_200, 40)))

        The models of `holdfast.models` need no such call when the engine asks them."""
        await self._drive(model_uses.record_uses(self._context, uses, key=key, cause=cause))

    async def record_all(
        self,
        messages: Sequence[object],
        *,
        as_found: bool = False,
        key: str | None = None,
        expect: int | None = None,
        cause: str | None = None,
    ) -> list[Message]:
        """Store several messages in one transaction: all of them, or none.

        Each is what record() accepts as `message`, or a pair of role and content: `("user", "Hello")`.

        With `as_found`, messages of another system are stored whatever their order: before a reply, open calls are closed
        with an error, and a result without an open call becomes evidence beside the transcript."""
        return await self._drive(
            message_flows.record_all(self._context, messages, as_found=as_found, key=key, expect=expect, cause=cause)
        )

    async def result(
        self,
        call: ToolCall | OpenCall | str,
        value: object,
        *,
        is_error: bool = False,
        metadata: dict[str, Any] | None = None,
        key: str | None = None,
        expect: int | None = None,
        cause: str | None = None,
    ) -> Message:
        """Store the result of a tool call.

        `call` is the call, its id, or the id that the provider gave to an open call. `value` is text, a value that has
        a JSON form, parts of a message, or bytes, a binary file or an iterator of bytes: these are streamed to the blob
        store.

        If close_calls() has already closed the call, the result is kept as evidence beside the transcript:
        `message.late` gives the reason."""
        return await self._drive(
            message_flows.result(
                self._context, call, value, is_error=is_error, metadata=metadata, key=key, expect=expect, cause=cause
            )
        )

    async def start_call(
        self,
        call: ToolCall | OpenCall | str,
        *,
        call_key: str | None = None,
        again: bool = False,
        expect: int | None = None,
        cause: str | None = None,
    ) -> StartedCall:
        """Record that a tool is about to run, before it runs. run() does this for you.

        The call stays open until result() stores its outcome. If the process stops in between, recover() reports the
        call with an unknown outcome. The returned `key` is the idempotency key to pass to the system that the tool
        changes: it is `call_key`, or derived from the ids of the session and the call.

        Starting a call a second time raises OutcomeUnknown, because the first attempt may have taken effect. Check
        that, then pass `again=True`."""
        return await self._drive(
            tools.start(self._context, call, call_key=call_key, again=again, expect=expect, cause=cause)
        )

    async def run(
        self,
        call: ToolCall | OpenCall | str,
        function: Callable[..., Any] | Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]] | None = None,
        *,
        key_as: str | None = None,
        call_key: str | None = None,
        again: bool = False,
    ) -> Message:
        """Run a tool call: store the intent, call the function, and store what it returns as the result.

            for call in message.tool_calls:
                await session.run(call, [find_order, cancel_order])

        `function` is a function, a tool built with Tool.from_function(), a list of these, or a dict by tool name. From
        a list or a dict, the function that the call names is run. Tools, and functions in a list, get their arguments
        checked and converted to the annotated types. A call of `read_handle`, which every pack offers, needs no
        function.

        Failures become results with `is_error`, so that the model sees them: an exception, an unknown tool or wrong
        arguments (nothing runs), a return value without a JSON form (the function has run). holdfast.conversion lists
        the types that have a JSON form.

        With `key_as`, the function receives the idempotency key of the call in the parameter of that name. If the
        process stops while the function runs, the outcome stays unknown: recover() reports it, and nothing runs the
        call again unless you pass `again=True`."""
        self._check_functions(function)
        return await self._drive(
            tools.run(self._context, call, function, key_as=key_as, call_key=call_key, again=again)
        )

    async def open_calls(self) -> tuple[OpenCall, ...]:
        """Return the tool calls that have no result yet, oldest first. In a frame, only the calls made in that
        frame."""
        return await self._drive(message_flows.open_calls(self._context))

    async def close_calls(
        self, reason: str = "closed", *, key: str | None = None, expect: int | None = None, cause: str | None = None
    ) -> Message | None:
        """Close every open tool call with an error result, so that the model can be called again.

        Returns the message with these results, or None if no call is open. In a frame, only its own calls are
        closed. A result that arrives later is stored as evidence."""
        return await self._drive(
            message_flows.close_open_calls(self._context, reason, key=key, expect=expect, cause=cause)
        )

    def turn(self, *, lease_s: float = 60, wait_s: float = 30, owner: str | None = None) -> AsyncTurnBlock[Self]:
        """Take the turn on this conversation: one owner at a time works on it.

            async with session.turn() as session:
                await session.record("user", "Where is my order?")

        The block gets the session or frame, bound to the turn: all that is written through it, facts and frames
        included, is refused with LeaseLost once the turn is over, and nothing of it is stored. The turn is renewed while
        the block runs and given back at its end. After a crash it is free after `lease_s` seconds.

        If another owner has the turn, the call waits for at most `wait_s` seconds, in the order of arrival, and then
        raises TurnBusy, which names the owner. `owner` is a name for messages and logs; the default is made of the host
        and the process. What is written without a turn is not affected by turns."""
        return AsyncTurnBlock(self, lease_s, wait_s, owner)

    async def withdraw(
        self,
        after: Message | int | None = None,
        *,
        reason: str = "",
        key: str | None = None,
        expect: int | None = None,
        cause: str | None = None,
    ) -> Withdrawal | None:
        """Take messages out of the conversation, without erasing them.

            await session.withdraw()  # the newest reply, before the model is asked again
            await session.withdraw(after=message)  # all that came after this message

        Without `after`, this is the newest message; a call group, with all of its results, is one unit. `after` is a
        message or its seq. If a call is before it and a result behind it, the call is withdrawn too, and `grown` is true.
        Open calls of withdrawn messages are closed.

        The transcript keeps the messages, marked as `withdrawn`; no view, pack or summary shows them. A summary that
        tells of one of them is void: the other messages that it replaced are in view again. A fact that only withdrawn
        messages state needs a review, or is retracted: see `Policy.withdrawal`. Messages of frames have their own
        conversations: use `frame.withdraw()`.

        Returns None if there is no such message. restore() undoes the withdrawal."""
        return await self._drive(
            withdrawals.withdraw(self._context, after, reason=reason, key=key, expect=expect, cause=cause)
        )

    async def restore(
        self,
        withdrawal: Withdrawal | int,
        *,
        reason: str = "",
        key: str | None = None,
        expect: int | None = None,
        cause: str | None = None,
    ) -> Restoration:
        """Undo a withdrawal: its messages are in the conversation again, at their old places.

            await session.restore(await session.withdraw())  # shows the same as before

        Pass what withdraw() returned, or its seq. The facts of the withdrawal are as before, except those that were
        changed since. Raises RestoreRefused if it was undone before, the session was reset since, or a later summary
        covers the place of the messages."""
        return await self._drive(
            withdrawals.restore(self._context, withdrawal, reason=reason, key=key, expect=expect, cause=cause)
        )

    async def search(self, query: str, *, limit: int = 10, budget: int = 4_000) -> tuple[RecalledPassage, ...]:
        """Search this conversation: also messages that left the view, and tool results behind handles.

            for passage in await session.search("what did the carrier say?"):
                print(passage.time_us, passage.speaker, passage.text)

        The best passages come first, at most `limit` of them and at most `budget` tokens. `passage.seq` is the message that
        has the words, and `passage.handle` reads more of a large one. Superseded values are guarded as in a pack."""
        return await self._drive(recall.search_session(self._context, query, limit=limit, budget=budget))

    def recall_tool(self) -> Callable[..., Coroutine[Any, Any, str]]:
        """Return the function for the tool RECALL_MEMORY, for a framework that runs tools itself. It returns text for the
        model, also for wrong arguments.

        session.run(call) already runs a call of RECALL_MEMORY."""
        return async_recall_memory_tool(self)

    async def pack(
        self,
        query: str | None = None,
        *,
        budget: int = 8_000,
        model: str | None = None,
        brief: Brief | None = None,
        profile: Profile | str = "balanced",
        reserve: int | None = None,
        **options: Unpack[PackOptions],
    ) -> holdfast.Pack:
        """Build the context of the next model call. It has at most `budget` tokens.

            pack = await session.pack(budget=20_000, model="claude-sonnet-4-5")
            await session.record(await client.messages.create(**pack.anthropic()))

        A pack shows no superseded value as current and no tool call without its result. `pack.manifest` and
        `pack.explain()` say of every candidate why it is included, reduced, omitted or withheld.

        `query` is the topic that candidates are ranked by; the default is the newest message of the user. A query that
        is not a message is stored in the manifest, never in the conversation. The model sees it, as its task, only if
        the conversation has no unanswered message of the user.

        `model` is named in the request, and limits the budget to its context window. `brief` has the system prompt,
        rules and tools; without it, the engine's brief for `role` is used. `profile` is "balanced", "comprehensive",
        "high_stakes", or a Profile. `reserve` reserves tokens of the frame's budget for the call.

        Building a pack first updates the history view: superseded values are redacted, and a compaction that is due
        is carried out. Each is an event in the log; with `settle=False` nothing is written. PackOptions lists all
        options."""
        check_options("pack", PackOptions, options)
        return await self._drive(
            assembly.pack(
                self._context,
                query,
                budget=budget,
                model=model,
                brief=brief,
                profile=profile,
                reserve=reserve,
                **options,
            )
        )

    def frame(
        self,
        goal: str,
        *,
        budget: int,
        inputs: Any = None,
        parent: FrameReference | FrameState | str | None = None,
        **options: Unpack[FrameOptions],
    ) -> AwaitableFrame:
        """Push a frame: a unit of work with its own conversation and token budget.

            async with session.frame("Find a hotel in Rome", budget=20_000) as frame:
                await frame.record("user", "Under 150 euros, please.")

        `budget` is the number of tokens that model calls in the frame, and in all frames below it, may spend. A parent
        grants it from its own budget. `inputs` is any value with a JSON form that the frame starts from.

        At the end of a `with` block the frame ends: completed, or failed with the text of the exception. Without
        `with`, end it with pop(). FrameOptions lists the limits; they are never wider than those of the parent."""
        check_options("frame", FrameOptions, options)
        return self._open_frame(
            frames.push(self._context, goal, budget=budget, inputs=inputs, parent=parent, **options)
        )

    @property
    def context(self) -> AsyncContextFacet:
        """The history view: how the conversation is shown to models."""
        return AsyncContextFacet(self._drive, self._context)

    @property
    def packs(self) -> AsyncPacksFacet:
        """The stored packs of the conversation."""
        return AsyncPacksFacet(self._drive, self._context)

    @property
    def situation(self) -> AsyncSituationFacet:
        """The living summary of the conversation, and the actions it is based on."""
        return AsyncSituationFacet(self._drive, self._context)


class AsyncSession(_AsyncConversation):
    """One conversation and the work on it.

    Get one with `engine.session()` or `engine.create_session()`. A session object holds no state: any number of
    threads and processes can use the same session."""

    async def messages(self, *, before: int | None = None, limit: int = 100) -> list[Message]:
        """Return the last `limit` messages, oldest first. With `before`, the last ones before that seq.

        This is the transcript: it has withdrawn messages too, each with the seq of its withdrawal in `withdrawn`."""
        return await self._drive(message_flows.messages(self._context, before=before, limit=limit))

    async def find_message(self, message_id: str) -> Message | None:
        """Return the message that has this id, or an item, a part or a call with it; None if there is none.

            message = await session.find_message("m12_0")

        It may be an id of Holdfast (a message, an item m12_0, a handle h12_0, a call c12_0), or one that a client or a
        provider brought: of an input item, a response, a reply or a call. An id of Holdfast is found at once, another
        one by a search from the newest message back, through FOUND_MESSAGES at most; of several messages with it, the
        newest is returned."""
        return await self._drive(message_flows.find_message(self._context, message_id))

    async def evidence(self, *, before: int | None = None, limit: int = 100) -> list[Message]:
        """Return the last messages kept as evidence beside the transcript, oldest first: late results, for example.

        With `before`, the last ones before that seq."""
        return await self._drive(message_flows.evidence(self._context, before=before, limit=limit))

    async def events(self, *, after: int = 0, limit: int = 100) -> tuple[StoredEvent, ...]:
        """Return the stored events of the session with a seq greater than `after`, as the log has them."""
        return await self._drive(message_flows.events(self._context, after=after, limit=limit))

    async def activity(self, *, before: int | None = None, limit: int = 200) -> list[Activity]:
        """Return the work of the session as spans of time, newest first: turns, model calls, tools, frames, suspensions,
        boundaries and recoveries. With `before`, those that began before that seq.

        `parent` names the span around each. An open span has no end; an open tool call has the status that recover()
        gives it: "unknown" if it was started and has no result. What one event began is on one page, so a page may have
        more than `limit` spans. The turn of a span is looked for among the 1,000 events before the page, and its end
        among the 10,000 after it (ACTIVITY_EVENTS)."""
        return await self._drive(activity.activity(self._context, before=before, limit=limit))

    async def observe(
        self, message: str | Message, /, *, role: Role = "user", key: str | None = None, cause: str | None = None
    ) -> ObservationResult:
        """Detect which facts a message changes, and apply the changes that policy allows.

            outcome = await session.observe("I moved: my address is 456 Oak Ave now.")

        A text is recorded as a message with this `role`, in one transaction with the changes. A message that was
        recorded before is only read. The detector proposes facts to add, supersede, retract or expire. The policy
        decides by confidence and authority: a proposal is applied, stored as a claim, left for
        `session.facts.accept()`, or ignored.

        The changes have the authority of the speaker: the identity of the session for the user, less for the
        assistant and for tools, whatever the text says. A fact of higher authority in a shared ledger stays; the new
        statement is then stored in the session's own ledger."""
        return await self._drive(observation.observe(self._context, message, role=role, key=key, cause=cause))

    async def state(self) -> SessionState:
        """Return the current state of the session, including what other processes wrote."""
        return await self._drive(lifecycle.state(self._context))

    async def recover(self, *, key: str | None = None, expect: int | None = None, cause: str | None = None) -> Recovery:
        """Take over the session after an interruption, and return what was in progress.

        The result has the frames from the root to the current one, and the pending work. Look at `unknown_outcomes`
        first: tool calls that were started and have no result. The takeover is recorded; nothing else changes, and
        nothing is run again."""
        return await self._drive(recovery.recover(self._context, key=key, expect=expect, cause=cause))

    async def reset(
        self,
        reason: str = "reset",
        *,
        keep_system: bool = True,
        key: str | None = None,
        expect: int | None = None,
        cause: str | None = None,
    ) -> None:
        """Start the conversation again with an empty history view.

        The messages stay in the transcript and go to the outbox for long-term memory. System messages stay in view,
        unless `keep_system` is False."""
        await self._drive(
            lifecycle.reset(self._context, reason, keep_system=keep_system, key=key, expect=expect, cause=cause)
        )

    async def end(
        self, reason: str = "done", *, key: str | None = None, expect: int | None = None, cause: str | None = None
    ) -> None:
        """End the session: it accepts no more messages, and its messages go to the outbox for long-term memory.

        Everything stays readable. Ending it again changes nothing."""
        await self._drive(lifecycle.close(self._context, reason, key=key, expect=expect, cause=cause))

    async def fork(
        self,
        at: Message | int | str | None = None,
        *,
        as_: str | None = None,
        ephemeral: bool = False,
        key: str | None = None,
        cause: str | None = None,
    ) -> AsyncSession:
        """Begin another session that shares this conversation up to a point, and goes on from there.

            branch = await session.fork(at=message, as_="order-1-other-answer")
            what_if = await session.fork(ephemeral=True)

        `at` is the last message that both share, its seq, or any id of it; without it, both share everything so far.
        `as_` is the name of the new session; without it, a name is made. Nothing is copied: the fork reads the shared
        events where they are. Later messages of one are not seen by the other.

        The fork has the facts of the session's own ledger at that point, in a ledger of its own; other ledgers are
        shared. Tool calls that were open at that point are closed in the fork, and frames are cancelled there. What is
        erased here is erased in the fork, too.

        An `ephemeral` fork is in the memory of this process alone. All that is written through it stays there, also facts
        in shared ledgers and large bodies; nothing of it is left when it is no longer used."""
        options: dict[str, Any] = {"as_": as_, "key": key, "cause": cause}
        return await self._open_fork(functools.partial(forks.fork, at=at, **options), ephemeral=ephemeral)

    async def forks(self) -> tuple[SessionRow, ...]:
        """List the sessions that were forked from this one, and those that were forked from them, parents first."""
        return await self._drive(forks.list_forks(self._context))

    async def diff(self, other: AsyncSession) -> SessionDiff:
        """Compare this session with another one, usually one that was forked from it.

            await session.diff(branch).theirs  # the messages that only the branch has

        The result has the messages after the last one that both share, and the keys for which the own ledgers of the two
        have different facts."""
        check_instance("other", other, AsyncSession)
        ours = await self._drive(diffs.read_side(self._context))
        theirs = await other._drive(diffs.read_side(other._context))
        shared = diffs.find_common_end(ours, theirs)
        own_messages = await self._drive(diffs.read_later_messages(ours, shared))
        other_messages = await other._drive(diffs.read_later_messages(theirs, shared))
        return diffs.build_diff(ours, theirs, own_messages, other_messages)

    async def destroy(
        self,
        reason: str = "destroyed",
        *,
        offload: bool = True,
        forks: Literal["refuse", "destroy"] = "refuse",
        key: str | None = None,
        cause: str | None = None,
    ) -> None:
        """End the session for good: nobody can read it, and its id cannot be used again.

        The content is erased as soon as long-term memory has acknowledged every outbox entry of the session. With
        `offload=False` the remaining messages are not offered to long-term memory; if no earlier entry waits, the
        content is erased at once. The reason stays readable.

        A session that has forks is not destroyed, since they share its events; `forks="destroy"` destroys them first."""
        await self._drive(lifecycle.destroy(self._context, reason, offload=offload, forks=forks, key=key, cause=cause))

    async def erase(self, seqs: Sequence[int], reason: str, *, key: str | None = None) -> None:
        """Erase the content of these events for good, by their seqs.

        A tool call is erased with its results, and a message with the summaries that quote it. Headers and digests
        stay, so the hash chain still verifies. Long-term memory forgets them too: if a memory of your own fails to, they
        are erased here, and MemoryFailed is raised. Then call it again."""
        await self._drive(removal.erase_messages(self._context, seqs, reason, key=key))

    async def refresh_identity(
        self, identity: Identity, *, key: str | None = None, expect: int | None = None, cause: str | None = None
    ) -> None:
        """Replace the identity of the session, in every process: all of its fields, as the login system has them now.

        From then on, packs, searches, reads and writes use these permissions and this authority. A fact that
        requires a revoked permission is withheld. Only the program can call this: nothing in the conversation
        changes an identity. The same identity again changes nothing. A session that has ended can be refreshed too."""
        await self._drive(layers.refresh_identity(self._context, identity, key=key, expect=expect, cause=cause))

    async def ledger(
        self, *, user: str | None = None, project: str | None = None, organization: str | None = None
    ) -> AsyncLedger:
        """Open a ledger with the permissions and authority of the session's identity.

        Without arguments, this is the session's own ledger. Another one must be among the ledgers that the session
        reads."""
        return AsyncLedger(
            self._drive,
            await self._drive(observation.ledger(self._context, user=user, project=project, organization=organization)),
        )

    @property
    def facts(self) -> AsyncFactsFacet:
        """The facts that the session can read, and its own ledger."""
        return AsyncFactsFacet(self._drive, self._context)

    @property
    def frames(self) -> AsyncFramesFacet:
        """The frames of the session."""
        return AsyncFramesFacet(self._drive, self._context)

    @property
    def handles(self) -> AsyncHandlesFacet:
        """The handles of the conversation: pieces that can be read, paged out and paged in."""
        return AsyncHandlesFacet(self._drive, self._context)

    @property
    def working(self) -> AsyncWorkingFacet:
        """Named values for the current work. They end with the session."""
        return AsyncWorkingFacet(self._drive, self._context)

    @property
    def environment(self) -> AsyncEnvironmentFacet:
        """Values observed outside of the conversation: time zone, location and others."""
        return AsyncEnvironmentFacet(self._drive, self._context)

    @property
    def entries(self) -> AsyncEntriesFacet:
        """Records of other frameworks beside the messages, such as checkpoints."""
        return AsyncEntriesFacet(self._drive, self._context)


class AsyncFrame(AsyncFrameBlock, _AsyncConversation):
    """A unit of work in a session, with its own conversation and token budget.

    A frame object holds no state: any number of threads and processes can use the same frame. As a context manager,
    the frame ends with its block: completed, or failed with the text of the exception, and then all frames below it
    are cancelled. A frame that the block itself suspends or pops stays as it is."""

    async def state(self) -> FrameRecord:
        """Return the frame with all its fields: goal, status, budget, limits, inputs, handles and results."""
        return await self._drive(frames.state(self._context))

    async def ancestry(self) -> list[FrameState]:
        """Return the frames from the root to this one."""
        return await self._drive(frames.ancestry(self._context))

    async def spend(self) -> FrameSpend:
        """Return the tokens that this frame and all frames below it have used, live frames included."""
        return await self._drive(frames.spend(self._context))

    async def update(
        self,
        *,
        goal: str | None = None,
        inputs: Any = None,
        context_hash: str | None = None,
        key: str | None = None,
        expect: int | None = None,
        cause: str | None = None,
    ) -> None:
        """Change the goal, the inputs or the context hash of the frame. A value of None changes nothing."""
        await self._drive(
            frames.update(
                self._context, goal=goal, inputs=inputs, context_hash=context_hash, key=key, expect=expect, cause=cause
            )
        )

    async def suspend(
        self,
        reason: str,
        *,
        expires_at: datetime | None = None,
        resumable_by: str | Sequence[str] = (),
        cascade: bool = False,
        expect: int | None = None,
        cause: str | None = None,
    ) -> SuspensionToken:
        """Suspend the frame, and return the token that resumes it.

            token = await frame.suspend("waits for approval", resumable_by="manager")
            frame = await engine.resume(token)  # perhaps in another process, days later

        The token is returned only here: the store keeps a digest of it. It works once, for the principal that
        suspended the frame and for those in `resumable_by`. The budget stays granted, and the timeout pauses. Frames
        below this one go on, unless `cascade` suspends them too, under the same token."""
        return await self._drive(
            suspension.suspend(
                self._context,
                reason,
                expires_at=expires_at,
                resumable_by=resumable_by,
                cascade=cascade,
                expect=expect,
                cause=cause,
            )
        )

    async def reissue(
        self, *, expires_at: datetime | None = None, expect: int | None = None, cause: str | None = None
    ) -> SuspensionToken:
        """Return a new token for a suspended frame, in place of one that was lost, revoked or has expired."""
        return await self._drive(suspension.reissue(self._context, expires_at=expires_at, expect=expect, cause=cause))

    async def revoke(
        self, reason: str = "revoked", *, key: str | None = None, expect: int | None = None, cause: str | None = None
    ) -> None:
        """Make the token of a suspended frame invalid. Use reissue() for a new token, or pop() to end the frame."""
        await self._drive(suspension.revoke(self._context, reason, key=key, expect=expect, cause=cause))

    async def pop(
        self,
        status: Ending = "completed",
        summary: str = "",
        *,
        result: object = None,
        cascade: bool = False,
        key: str | None = None,
        expect: int | None = None,
        cause: str | None = None,
    ) -> None:
        """End the frame. Its parent gets the unused budget back, and a handle with the summary and the result.

        `result` is anything that a tool may return. If frames below this one are live, ChildrenActive is raised,
        unless `cascade` cancels them, deepest first. Ending a frame again in the same way changes nothing."""
        await self._drive(
            frames.pop(
                self._context, status, summary, result=result, cascade=cascade, key=key, expect=expect, cause=cause
            )
        )

    @property
    def budget(self) -> AsyncBudgetFacet:
        """The token budget of the frame."""
        return AsyncBudgetFacet(self._drive, self._context)

    @property
    def handles(self) -> AsyncFrameHandlesFacet:
        """The handles of the frame: what was added to it, and pieces of its conversation."""
        return AsyncFrameHandlesFacet(self._drive, self._context)

    @property
    def frame_id(self) -> str:
        """The id of the frame."""
        return self.id
