# Generated from facets.py by tools/twins.py: do not edit.

"""The facets of sessions and frames.

They are `session.context`, `.packs`, `.handles`, `.situation`, `.working`, `.environment`, `.entries` and
`frame.budget`. Each method runs one flow; here it is awaited.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Unpack

import holdfast
from holdfast.core.history.levels import StrategyArgument
from holdfast.flows.entries import entries
from holdfast.flows.frames import budget
from holdfast.flows.history import compaction, handle_text, handles, summaries, views
from holdfast.flows.history.handle_text import DEFAULT_BYTES
from holdfast.flows.history.views import Dialect
from holdfast.flows.packs import calls, records
from holdfast.flows.sessions import layers
from holdfast.flows.situation import situations
from holdfast.model.content import Part, ToolCall, Usage
from holdfast.model.entries.entry import Entry, NewEntry
from holdfast.model.frames.frames import Reservation
from holdfast.model.history.handles import Handle, HandleKind, HandleText, Priority
from holdfast.model.history.plans import Occupancy, Plan, PlanPolicy, PolicyName, Tier
from holdfast.model.history.prices import Prices
from holdfast.model.history.views import HistoryView, Summary, SummaryDraft, TranscriptView
from holdfast.model.names import check_options
from holdfast.model.packs.calls import ModelCall
from holdfast.model.packs.pack import GuardMode, Manifest, PackDiff, PackRecord, Profile
from holdfast.model.packs.redactions import PackRedaction
from holdfast.model.sessions.layers import Environment, WorkingItem
from holdfast.model.situation.situations import (
    Action,
    ActionCall,
    ActionMode,
    ActionOutcome,
    FieldName,
    Situation,
    SituationUpdate,
)
from holdfast.model.state import OpenCall
from holdfast.runtime import reproduction
from holdfast.runtime.async_base import AsyncConversationBase
from holdfast.runtime.options import ActionOptions, CompactOptions, WriteOptions
from holdfast.runtime.tools import async_read_handle_tool, async_situation_tool


class AsyncContextFacet(AsyncConversationBase):
    """The history view of a conversation, and its compaction: `session.context`."""

    async def view(self, *, budget: int | None = None) -> HistoryView:
        """Return the history view: the conversation as a model sees it since the last boundary.

        In a session, this is the conversation outside of frames; in a frame, that of the frame. Values of superseded
        facts are redacted or annotated, as the guard of the policy says; messages() has the originals. With
        `budget`, large bodies are shown as in a pack of that many tokens: complete, or as a preview with a marker
        that names the handle to read. Without it, each is shown by its stored preview."""
        return await self._drive(views.history(self._context, budget=budget))

    async def render(
        self, to: Dialect = "anthropic", *, budget: int | None = None, ids: bool = False, model: str | None = None
    ) -> Any:
        """Return the history view in the format of a provider.

        `to` is "anthropic" or "bedrock" (a dict with `system` and `messages`), "openai" or "litellm" (a list of chat
        messages), "openai-responses" (a dict with `instructions` and `input`), "gemini" (a dict with `system_instruction`
        and `contents`) or "text". `budget` is as in view(). For a model call, use session.pack() instead: it adds facts,
        the brief and tools.

        With `ids`, each item of "openai-responses" has a stable id: the one that came with it, or one from its message,
        such as m12_0. session.find_message() finds the message. Providers refuse ids that they did not make, so this is
        for lists of items, not for model calls.

        A system message that was recorded inside the conversation is shown there. For "anthropic" it has the role
        "system" if `model` is known to accept it; else it is a fenced text in the turn of the user."""
        return await self._drive(views.render(self._context, to, budget=budget, ids=ids, model=model))

    async def window(self, tokens: int = 8_000) -> TranscriptView:
        """Return the system messages and as many of the newest message groups as fit into `tokens`.

        A group is never split; the preferred cut is the beginning of a turn. Summaries are shown in place of the
        messages that they cover. Superseded values are redacted or annotated, as in view(). Token counts are
        corrected by the usage that the provider reported."""
        return await self._drive(views.window(self._context, tokens))

    async def occupancy(self) -> Occupancy:
        """Return how many tokens each kind of content takes in the context, and how many were moved out of it.

        In a frame, this covers the frame and its handles; in a session, also the handles of its live frames. The sum
        of resident and moved tokens is the same wherever content moves."""
        return await self._drive(handles.occupancy(self._context))

    async def plan(
        self,
        *,
        window: int | None = None,
        model: str | None = None,
        prices: Prices | None = None,
        policy: PlanPolicy | PolicyName | None = None,
        before: int = 0,
        cold: bool = False,
    ) -> Plan:
        """Return the compaction plan: its steps, the tokens they free, their cost, and when they pay off. Changes
        nothing.

        The model is the one that answered last, unless `model` or `prices` names another. `window` limits the tokens
        of the whole prompt; without it, the context window of the model less its longest answer is the limit.
        `before` is the number of tokens before the conversation, such as tools and a system prompt that are not
        recorded. `cold=True` says that the prompt cache of the provider is lost anyway."""
        return await self._drive(
            compaction.plan(
                self._context, window=window, model=model, prices=prices, policy=policy, before=before, cold=cold
            )
        )

    async def prepare(
        self, pack: holdfast.Pack | None = None, *, window: int | None = None, model: str | None = None, before: int = 0
    ) -> bool:
        """Write the summary of the next boundary in advance, so that no pack has to wait for the summarizer.

        Call it between two model calls, or in the background. Returns True if a summary is ready. While the boundary is
        far away, the summarizer is not called: under the faithful policy, until the history is within 15% of the window
        below its threshold; under other policies, until a boundary is due.

        The text is kept in the memory of this engine; nothing is stored. The next boundary uses it if the messages
        are still shown as they were, and the summary is enough to get below the threshold. Pass the last `pack` of
        this conversation, so that its figures are used; without it, `window`, `model` and `before` are as in plan()."""
        return await self._drive(compaction.prepare(self._context, pack, window=window, model=model, before=before))

    async def compact(
        self, plan: Plan | None = None, *, strategy: StrategyArgument | None = None, **options: Unpack[CompactOptions]
    ) -> Plan:
        """Carry out the compaction that plan() proposes, if any. Returns the plan, with its event in `at`.

            await session.context.compact()
            await session.context.compact(strategy=TruncateAt(20))

        With `plan`, exactly that plan is carried out; PlanStale is raised if the view has changed since. With
        `strategy`, the strategy is followed whatever it costs: SummarizeOldest and TruncateAt keep the newest messages;
        PriorityBased removes the lowest priority first, oldest first, until the rest fits into `window`; a strategy of
        your own, given by name or as a function, is called if the history does not fit.

        Critical messages always stay; if they alone do not fit, CriticalOverflow is raised. In a frame, handles take
        part: those left out are collapsed until handles.page_in(). The transcript does not change. CompactOptions
        lists all options."""
        check_options("compact", CompactOptions, options)
        return await self._drive(compaction.compact(self._context, plan, strategy=strategy, **options))

    async def draft_summary(self, keep_turns: int = 2) -> SummaryDraft | None:
        """Return the oldest part of the view, without the last `keep_turns` turns, as a draft to summarize; None if it
        is empty.

        Have a model summarize `draft.text` or `draft.items`, then call summarize() with the draft and the result."""
        return await self._drive(summaries.draft_summary(self._context, keep_turns))

    async def summarize(
        self, draft: SummaryDraft, text: str, *, key: str | None = None, cause: str | None = None
    ) -> Summary:
        """Show the messages of the draft as `text` from now on. The messages stay in the transcript.

        Raises SummaryStale if the history has changed since the draft, and InvalidArgument if the text is empty or
        not shorter than the messages."""
        return await self._drive(summaries.summarize(self._context, draft, text, key=key, cause=cause))

    async def summaries(self) -> tuple[Summary, ...]:
        """Return the summaries in the view, oldest first.

        `seq` identifies a summary. `made_by` says whether rules or a model wrote it."""
        return await self._drive(summaries.summaries(self._context))

    async def replace_summary(self, at: int, text: str, *, key: str | None = None, cause: str | None = None) -> Summary:
        """Replace the text of the summary with the seq `at`; summaries() lists them.

        This is a boundary: the prompt cache is lost from this summary on, so do it when the cache is cold. Raises
        PlanStale if the summary is no longer in the view, and InvalidArgument if the text is empty or not shorter
        than the messages that it covers."""
        return await self._drive(summaries.replace_summary(self._context, at, text, key=key, cause=cause))

    async def improve_summaries(self, *, cause: str | None = None) -> tuple[Summary, ...]:
        """Have the engine's summarizer rewrite the summaries that rules wrote, from the original messages.

        Returns the new summaries; each is a boundary, as in replace_summary(). A summary stays as it is if the
        summarizer fails, if the new text is longer, if it covers more than SUMMARY_EVENTS messages, or if the view
        changed meanwhile."""
        return await self._drive(summaries.improve_summaries(self._context, cause=cause))


class AsyncPacksFacet(AsyncConversationBase):
    """The stored packs of a conversation: `session.packs`."""

    async def list(self, *, before: int | None = None, limit: int = 100) -> builtins.list[PackRecord]:
        """List the stored packs, newest first. With `before`, those before that seq.

        In a frame, only the packs of the frame; in a session, all. Erased packs are not listed."""
        return await self._drive(records.packs(self._context, before=before, limit=limit))

    async def calls(self, *, before: int | None = None, limit: int = 100) -> builtins.list[ModelCall]:
        """List the model calls, newest first: replies with their packs, usage and cost, and why the prompt cache was kept
        or lost. With `before`, those before that seq.

        Every reply of the assistant is a call, with or without a stored pack; so is a stored pack without a reply. Each
        is compared with the call before in the same conversation. In a frame, only the calls of the frame; in a
        session, all. The cost is that of the engine's price list; None if the provider reported no usage, or if the
        model is not listed."""
        return await self._drive(calls.model_calls(self._context, before=before, limit=limit))

    async def manifest(self, pack: PackRecord | str) -> Manifest:
        """Return the manifest of a stored pack: for every candidate, why it was included or not."""
        return await self._drive(records.manifest(self._context, pack))

    async def diff(
        self,
        first: holdfast.Pack | PackRecord | str | None = None,
        second: holdfast.Pack | PackRecord | str | None = None,
    ) -> PackDiff:
        """Return what changed from one pack to another, and why.

        Pass packs, records from list(), or ids. Without `second`, the last stored pack is used; without `first`, the
        one before `second` in the same conversation."""
        return await self._drive(records.diff(self._context, first, second))

    async def reproduce(self, pack: PackRecord | str) -> holdfast.Pack:
        """Build a stored pack again from the log, byte for byte, whatever happened since.

        Raises PackChanged if that is impossible: something that the pack shows was erased, or this engine uses
        another token counter, policy or renderer."""
        return await self._drive(reproduction.reproduce(self._context, pack))

    async def redactions(self, pack: PackRecord | str) -> tuple[PackRedaction, ...]:
        """Return what the guard hid or marked in the history of a stored pack, and which superseded values it still showed.

        Each has the characters in the text that the pack shows, the fact, and what ended it. Facts that the identity of
        the session may not know are left out. The pack is built again for that: PackChanged is raised as in
        reproduce()."""
        return await self._drive(reproduction.list_redactions(self._context, pack))

    async def vary(
        self,
        pack: PackRecord | str,
        *,
        budget: int | None = None,
        profile: Profile | str | None = None,
        guard: GuardMode | None = None,
        policy: PlanPolicy | PolicyName | None = None,
        model: str | None = None,
        max_output: int | None = None,
        query: str | None = None,
    ) -> holdfast.Pack:
        """Build a stored pack again with other options: what would the model have seen? Nothing is stored, and no model is
        asked.

            varied = await session.packs.vary("p12", budget=4_000, guard="annotate")
            print(await session.packs.diff("p12", varied).explain())

        The log is that of the version of the pack. Boundaries before it stay; if the options call for another one, it is
        made in memory, with a summary by rules. The passages that memory found are those of the stored pack, also for
        another query. Without changes, this is reproduce()."""
        return await self._drive(
            reproduction.vary(
                self._context,
                pack,
                budget=budget,
                profile=profile,
                guard=guard,
                policy=policy,
                model=model,
                max_output=max_output,
                query=query,
            )
        )

    async def store(self, pack: holdfast.Pack, *, key: str | None = None, cause: str | None = None) -> PackRecord:
        """Store the manifest of a pack that gets no reply. record() stores the manifest of a pack that gets one."""
        return await self._drive(records.store(self._context, pack, key=key, cause=cause))


class AsyncHandlesFacet(AsyncConversationBase):
    """The handles of a conversation: addressable pieces of context, in view or not. `session.handles`."""

    async def get(self, name: Handle | ToolCall | OpenCall | str) -> Handle:
        """Return a handle by its id, or by its source: a tool call, its id, or the source that a frame's handle was
        added with.

        Raises HandleNotFound if there is none, and AmbiguousHandle if several live handles have that source: a
        provider may use one id for two calls."""
        return await self._drive(handles.get_handle(self._context, name))

    async def list(self) -> builtins.list[Handle]:
        """List the handles of the messages in view, oldest first: tool results, stored bodies and reduced pieces.

        `residency` says which of them are in the context. read(), parts() and page_in() accept their ids."""
        return await self._drive(handles.list_handles(self._context))

    async def parts(self, handle: Handle | str) -> tuple[Part, ...]:
        """Return the content of a handle as parts.

        A handle is a piece of a message ("h12_0") or something added to a frame ("h12"). A large body is a
        reference: use read() for a range of it, or engine.blobs.read() for all of it."""
        return await self._drive(handles.read_parts(self._context, handle))

    async def read(
        self,
        handle: Handle | str,
        *,
        start: int | None = None,
        stop: int | None = None,
        first_line: int | None = None,
        last_line: int | None = None,
        search: str | None = None,
        limit: int = DEFAULT_BYTES,
    ) -> HandleText:
        """Read a range of the content of a handle as text. Only the needed part of a large body is loaded.

            await session.handles.read("h12_0", first_line=1, last_line=40)
            await session.handles.read("h12_0", first_line=-20)
            await session.handles.read("h12_0", search="timeout")

        Select bytes from `start` up to, not including, `stop`; or lines from `first_line` (1 is the first) to
        `last_line`; or, with `search`, the lines that contain a text, ignoring case. A negative `start` or `first_line`
        counts from the end. At most `limit` bytes are returned; `stop` and `more` of the answer say how to continue.

        This is the stored text, superseded values included. The function that tool() returns redacts them for a
        model."""
        return await self._drive(
            handle_text.read_text(
                self._context,
                handle,
                start=start,
                stop=stop,
                first_line=first_line,
                last_line=last_line,
                search=search,
                limit=limit,
            )
        )

    async def page_out(self, handle: Handle | str, *, tier: Tier = "durable", key: str | None = None) -> Handle:
        """Move a piece of a message, or a handle of a frame, out of the view. A line that names it stays.

        The content goes to the blob store, and page_in() brings it back unchanged. With tier="semantic", packs that
        recall show the passages of it that fit their query, and page_in(query=…) finds it. This is a boundary: the
        prompt cache is lost from that piece on."""
        return await self._drive(handles.page_out(self._context, handle, tier=tier, key=key))

    async def page_in(
        self, handle: Handle | str | None = None, *, query: str | None = None, key: str | None = None
    ) -> Handle:
        """Show a piece complete again, as it was recorded, also one that was stored as a large body when it arrived.

            await session.handles.page_in("h12_0")
            await session.handles.page_in(query="what did the carrier say?")

        With `query`, it is the piece in the semantic tier that fits best; NoHandleFits is raised if none does.

        The content is checked against its digest. This is a boundary: the prompt cache is lost from that piece on."""
        return await self._drive(handles.page_in(self._context, handle, query=query, key=key))

    def tool(self) -> Callable[..., Coroutine[Any, Any, str]]:
        """Return the function for the tool READ_HANDLE. It returns text for the model, also for wrong arguments.

        session.run(call) already runs a call of READ_HANDLE; session.run(call, session.handles.tool()) does the
        same."""
        return async_read_handle_tool(self)


class AsyncFrameHandlesFacet(AsyncHandlesFacet):
    """The handles of a frame: what was added to it, and the pieces of its conversation. `frame.handles`."""

    async def add(
        self,
        kind: HandleKind,
        content: object,
        *,
        priority: Priority = "medium",
        title: str = "",
        source: str | None = None,
        metadata: dict[str, Any] | None = None,
        **options: Unpack[WriteOptions],
    ) -> Handle:
        """Add content to the frame as a handle: text, a value with a JSON form, parts of a message, or bytes, which are
        streamed.

            await frame.handles.add("document", open("report.pdf", "rb"), title="Report", priority="high")

        The same content from the same `source` again is the same handle; other content from it raises HandleExists."""
        check_options("add", WriteOptions, options)
        return await self._drive(
            handles.add_handle(
                self._context,
                kind,
                content,
                priority=priority,
                title=title,
                source=source,
                metadata=metadata,
                **options,
            )
        )

    async def replace(
        self,
        handle: Handle | str,
        content: object = None,
        *,
        priority: Priority | None = None,
        title: str | None = None,
        metadata: dict[str, Any] | None = None,
        key: str | None = None,
        cause: str | None = None,
    ) -> Handle:
        """Replace the content, priority, title or metadata of a handle. Arguments of None change nothing; the id
        stays."""
        return await self._drive(
            handles.replace_handle(
                self._context, handle, content, priority=priority, title=title, metadata=metadata, key=key, cause=cause
            )
        )

    async def attachments(self, *, before: str | None = None, limit: int = 100) -> builtins.list[Handle]:
        """Return the newest handles that were added to the frame, oldest first. With `before`, those before that
        one."""
        return await self._drive(handles.list_attachments(self._context, before=before, limit=limit))


class AsyncSituationFacet(AsyncConversationBase):
    """The situation: the living summary of a conversation, and the actions it is based on. `session.situation`."""

    async def get(self) -> Situation:
        """Return the stored situation, with the origin of each field.

        The situation is empty after a reset, and in a frame that has ended."""
        return await self._drive(situations.situation(self._context))

    async def update(
        self,
        update: dict[str, Any] | str | None = None,
        *,
        iteration: int | None = None,
        by: str = "model",
        clear: Sequence[FieldName] = (),
        key: str | None = None,
        cause: str | None = None,
    ) -> SituationUpdate:
        """Update the situation: any of goal, progress, current_approach, key_findings and next_focus.

            await session.situation.update({"progress": "Two of three hotels compared."})

        Fields that are blank or missing stay as they are; `clear` names fields to empty. `update` is a dict, or JSON
        text from a model, also inside a code fence or under the key `summary_update`. The answer lists unknown keys,
        which are ignored, and fields that were too long, which are cut at a word. `by` names the author. `iteration`
        is the step that the update comes from; the default is the number of replies of the assistant."""
        return await self._drive(
            situations.update_situation(
                self._context, update, iteration=iteration, by=by, clear=clear, key=key, cause=cause
            )
        )

    async def refresh(
        self, *, iteration: int | None = None, key: str | None = None, cause: str | None = None
    ) -> SituationUpdate:
        """Update the situation by rules, without a model: from the requests, actions, findings and open points in the
        log.

        A field that a model or a person wrote is kept for 5 iterations (SITUATION_AGE) after the one that it came
        from. Then the rules replace it, if they have content for it. Fields that the rules wrote are updated or
        emptied each time."""
        return await self._drive(situations.refresh_situation(self._context, iteration=iteration, key=key, cause=cause))

    async def act(
        self,
        mode: ActionMode = "fast",
        *,
        thinking: str = "",
        planning: str = "",
        reflection: str = "",
        approach: str = "",
        tool_calls: Sequence[dict[str, Any] | ActionCall] | None = None,
        outcomes: dict[str, ActionOutcome] | None = None,
        **options: Unpack[ActionOptions],
    ) -> Action:
        """Store one action: what the model thought, planned and tried, and what its tools did.

        Without `tool_calls`, these are taken from the transcript: the newest 64 calls with results since the last
        action. An error result counts as "error", or "timeout" for a TimeoutError; `outcomes` overrides this by call
        id: {"c4_0": "failure"}. A list of calls has dicts with `name`, `args`, `result` and `outcome`. Long
        arguments are cut, and results after 1000 characters."""
        check_options("act", ActionOptions, options)
        return await self._drive(
            situations.act(
                self._context,
                mode,
                thinking=thinking,
                planning=planning,
                reflection=reflection,
                approach=approach,
                tool_calls=tool_calls,
                outcomes=outcomes,
                **options,
            )
        )

    async def actions(self, *, before: int | None = None, limit: int = 10) -> list[Action]:
        """Return the last actions of the conversation, oldest first. With `before`, the last ones before that seq."""
        return await self._drive(situations.actions(self._context, before=before, limit=limit))

    async def reasoning(self, mode: ActionMode = "fast", *, max_history: int = 3) -> str:
        """Return a text for a model to reason on.

        "fast": the situation, and the results of the latest tools. "deep": the situation, and the latest action in
        full. If no situation is stored, up to `max_history` earlier actions are listed in short, before the latest
        in full. Superseded values are redacted or annotated; get() and actions() return the originals."""
        return await self._drive(situations.reasoning_context(self._context, mode, max_history=max_history))

    def tool(self) -> Callable[..., Coroutine[Any, Any, str]]:
        """Return the function for the tool UPDATE_SITUATION. It returns text for the model, also for wrong arguments.

        session.run(call, session.situation.tool())"""
        return async_situation_tool(self)


class AsyncWorkingFacet(AsyncConversationBase):
    """Named values for the current work, gone with the session: `session.working`."""

    async def set(
        self, name: str, value: Any, *, ttl_s: float | None = None, key: str | None = None, cause: str | None = None
    ) -> None:
        """Set a value under this name. Setting the same value again changes nothing.

        It is removed after `ttl_s` seconds, if given, and at the end of the conversation."""
        await self._drive(layers.set_working(self._context, name, value, ttl_s=ttl_s, key=key, cause=cause))

    async def items(self) -> dict[str, WorkingItem]:
        """Return the current values by name."""
        return await self._drive(layers.working(self._context))

    async def clear(self, *names: str, key: str | None = None, cause: str | None = None) -> None:
        """Remove the values with these names; without names, all values."""
        await self._drive(layers.clear_working(self._context, *names, key=key, cause=cause))


class AsyncEnvironmentFacet(AsyncConversationBase):
    """Values observed outside of the conversation: `session.environment`."""

    async def set(
        self,
        name: str,
        value: Any,
        *,
        observed_at_us: int | None = None,
        ttl_s: float | None = None,
        expires_at_us: int | None = None,
        key: str | None = None,
        cause: str | None = None,
    ) -> None:
        """Store an observation: `timezone`, `location`, or anything else that changes outside of the conversation.

            await session.environment.set("timezone", "Europe/Rome")

        Only the program can do this: no message and no tool result changes the environment. An observation that is
        older than the stored one changes nothing. `ttl_s` counts from the time of the observation."""
        await self._drive(
            layers.set_environment(
                self._context,
                name,
                value,
                observed_at_us=observed_at_us,
                ttl_s=ttl_s,
                expires_at_us=expires_at_us,
                key=key,
                cause=cause,
            )
        )

    async def get(self, *, as_of_us: int | None = None) -> Environment:
        """Return the environment now, or at `as_of_us`: date and time, and the observations that have not expired by
        then."""
        return await self._drive(layers.environment(self._context, as_of_us=as_of_us))

    async def clear(self, *names: str, key: str | None = None, cause: str | None = None) -> None:
        """Remove the observations with these names; without names, all. Only the program can do this."""
        await self._drive(layers.clear_environment(self._context, *names, key=key, cause=cause))


class AsyncEntriesFacet(AsyncConversationBase):
    """Records of other frameworks beside the messages, such as checkpoints: `session.entries`."""

    async def append(
        self, kind: str, key: str, body: Any, *, parent: str | None = None, cause: str | None = None
    ) -> Entry:
        """Append an entry. Returns it with its position.

            await session.entries.append("checkpoint", "1f0a", {"messages": messages}, parent="1f09")

        The body is a JSON value or bytes, and never changes. If the key exists with the same kind, parent and body,
        nothing is stored and that entry is returned; with any other content, EntryConflict is raised. A long list, or
        a large value, inside a JSON body is stored once for all entries that contain it: a list that grows by one
        element costs one element. `parent` is the key of another entry, which need not exist. Entries are not part
        of the conversation: no model sees them."""
        return await self._drive(entries.append(self._context, NewEntry(kind, key, body, parent), cause=cause))

    async def append_all(
        self,
        new: Sequence[NewEntry],
        *,
        expect: int | None = None,
        key: str | None = None,
        cause: str | None = None,
    ) -> builtins.list[Entry]:
        """Append several entries, all or none. Returns them in the same order.

            await session.entries.append_all([NewEntry("write", "1f0a/0", "hello"), NewEntry("write", "1f0a/1", "!")])

        With `expect`, the session must be at that version; otherwise VersionConflict is raised."""
        return await self._drive(entries.append_all(self._context, new, expect=expect, key=key, cause=cause))

    async def get(self, key: str) -> Entry | None:
        """Return the entry with this key; None if there is none."""
        return await self._drive(entries.get(self._context, key))

    async def list(
        self,
        *,
        kind: str | None = None,
        parent: str | None = None,
        before: int | None = None,
        limit: int = 100,
        bodies: bool = True,
    ) -> builtins.list[Entry]:
        """Return entries, newest first: all of them, those of a kind, those with a parent, or both.

        The next page is before the `seq` of the last entry of this one. `bodies=False` reads no bodies."""
        return await self._drive(
            entries.list_entries(self._context, kind=kind, parent=parent, before=before, limit=limit, bodies=bodies)
        )

    async def delete(
        self,
        keys: Sequence[str],
        *,
        reason: str = "entries deleted",
        key: str | None = None,
        cause: str | None = None,
    ) -> None:
        """Delete the entries with these keys, and what no other entry shares with them. Unknown keys are ignored.

        Their content is erased; the log shows only that there were entries. A deleted key can be used again. Each call
        reads the whole session, so pass many keys at once. Large bodies are removed by engine.admin.collect()."""
        await self._drive(entries.delete(self._context, keys, reason=reason, key=key, cause=cause))


class AsyncBudgetFacet(AsyncConversationBase):
    """The token budget of a frame: `frame.budget`. Tokens are those that model calls consume."""

    async def reserve(
        self, purpose: str, amount: int, *, key: str | None = None, expect: int | None = None, cause: str | None = None
    ) -> Reservation:
        """Reserve tokens for a purpose, until commit() or cancel() settles the reservation.

        Raises InsufficientTokens if the frame has fewer tokens available."""
        return await self._drive(budget.reserve(self._context, purpose, amount, key=key, expect=expect, cause=cause))

    async def commit(
        self,
        reservation: Reservation | str,
        actual: int | Usage,
        *,
        key: str | None = None,
        expect: int | None = None,
        cause: str | None = None,
    ) -> None:
        """Settle a reservation with the tokens that were really used: a number, or the usage that the provider
        reported.

        It may be more than was reserved, and more than the budget: what happened is recorded."""
        await self._drive(budget.commit(self._context, reservation, actual, key=key, expect=expect, cause=cause))

    async def cancel(
        self,
        reservation: Reservation | str,
        *,
        key: str | None = None,
        expect: int | None = None,
        cause: str | None = None,
    ) -> None:
        """Release the tokens of a reservation that is not needed."""
        await self._drive(budget.cancel(self._context, reservation, key=key, expect=expect, cause=cause))

    async def use(
        self, actual: int | Usage, *, key: str | None = None, expect: int | None = None, cause: str | None = None
    ) -> None:
        """Charge tokens that were not reserved. Replies that are recorded in the frame are charged automatically."""
        await self._drive(budget.use(self._context, actual, key=key, expect=expect, cause=cause))

    async def grant(
        self, amount: int, *, key: str | None = None, expect: int | None = None, cause: str | None = None
    ) -> None:
        """Add tokens to the budget of the frame. They come from the budget of its parent, if it has one."""
        await self._drive(budget.grant(self._context, amount, key=key, expect=expect, cause=cause))
