"""A log of Claude Code in a session: its lines as entries, and what they say as messages. The log of a sub-agent is in the
same session: its lines are entries of their own, and what they say is in a frame.

Laws: a line is stored first, as it came; the messages follow from the stored lines, in any process, so a crash between
the two loses nothing and stores nothing twice. A line with a uuid is stored once. No line is refused for what it says.
What is shown is what the lines say: a prompt that a hook recorded before its line came is withdrawn, and recorded with the
line, unless the line comes next and says the same.
"""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

import holdfast
from holdfast.errors import EntryConflict, InvalidInput, VersionConflict
from holdfast.frameworks.claude_agents import (
    AgentDescription,
    AgentEnd,
    AgentFrames,
    describe_agent,
    find_agent,
    find_ends,
    find_parent_agent,
    find_starting_calls,
    is_description,
    is_finished,
    list_agents,
)
from holdfast.frameworks.claude_entries import (
    COMPACTION_KIND,
    INTENT_KIND,
    LINE_KIND,
    OUTCOME_KIND,
    REPLY_KIND,
    Fold,
    LogEntries,
    LogName,
    agent_kind,
    decode,
    find_line,
    name_entry,
    split_lines,
)
from holdfast.frameworks.claude_facts import confirm_facts
from holdfast.frameworks.claude_lines import (
    CONVERSATION,
    Line,
    LogMessage,
    find_kept_lines,
    is_sidechain,
    line_id,
    mark_copies,
    read_line,
    read_lines,
    text_of_prompt,
)
from holdfast.frameworks.claude_messages import HookPrompt, LogProgress, clean_message, mark_of, reduce_message
from holdfast.model import limits
from holdfast.model.frames.frames import Ending, StartedCall
from holdfast.model.history.ranges import LedgerFacts
from holdfast.model.sessions.messages import Message
from holdfast.model.state import OpenCall

_CUT_OFF = ("tool_use", "pause_turn")
"""Why a model stops that goes on."""
_TRIES = 50
"""How often a write is tried again, because another process wrote meanwhile."""
_PAGE = 1_000
_BATCH_MESSAGES = 100
_PARENTS = 50_000
_STEPS = 500
"""How many lines without a message are passed to find the message that a prompt follows."""


class UnknownCall(NamedTuple):
    """A tool call that was started and has no outcome: it may have taken effect."""

    id: str
    name: str
    key: str
    """The idempotency key under which it was started."""
    subpath: str
    """The sub-agent that made it; empty for the session itself."""


class ClaudeLog(LogEntries):
    """A log of Claude Code in a session of an engine. Threads can share it.

    The session has the name of the log's session, and the project as its actor. With `observe`, facts are read from the
    prompts of the user; `user` is as in engine.session(). agent() opens the logs of sub-agents."""

    def __init__(
        self, engine: holdfast.Engine, name: LogName, *, user: str | None = None, observe: bool = False
    ) -> None:
        super().__init__(engine, name, user=user)
        self._observe = observe
        self._agent = AgentFrames(name.subpath) if name.subpath else None
        self._progress = LogProgress(agent=name.subpath)
        self._taken_back: dict[HookPrompt, tuple[LedgerFacts, ...]] = {}
        """What a hook recorded and is recorded again with its line, with the facts that rest on it."""
        self._parents: dict[str, tuple[str | None, bool]] = {}
        """By the uuid of a line that was read here: the line that it follows, and whether it may have a message."""
        self._agents: dict[str, ClaudeLog] = {}
        self._main = self
        """The log of the session."""
        self._is_finished = False
        """A sub-agent has said its last."""
        self._is_held = False
        self._ends: list[AgentEnd] = []
        """What was read, while this log is held, of sub-agents that did not complete."""
        self._old_ends: list[AgentEnd] = []
        """What was stored of them before: a process that was killed may have ended no frame."""
        self._calls: dict[str, str] = {}
        """Calls that start sub-agents in the file of a session, by their prompts."""
        self._roots: dict[str, str] = {}
        """The first line of the sub-agent that a line belongs to, by their uuids."""
        self._lines: list[tuple[int, Line]] = []
        self._file: tuple[ClaudeLog, str] | None = None
        """Of a sub-agent in the file of a session: the log of that file, and the first line of the sub-agent."""

    def agent(self, subpath: str) -> ClaudeLog:
        """The log of a sub-agent of this session."""
        if self._main is not self:
            return self._main.agent(subpath)
        with self._lock:
            if subpath not in self._agents:
                log = self._agents[subpath] = ClaudeLog(
                    self._engine, self.name._replace(subpath=subpath), user=self._user
                )
                log._lock = self._lock  # they write to one session
                log._main = self
            return self._agents[subpath]

    def list_agents(self) -> list[str]:
        """The subpaths of the sub-agents that were ever in this session."""
        session = self.session()
        return list_agents(session) if session is not None else []

    def list_callers(self) -> list[str]:
        """The subpaths of the sub-agents that can have called tools: also of those of which no line is stored yet."""
        session = self.session()
        if session is None:
            return []
        started = session.entries.list(kind=agent_kind(INTENT_KIND), limit=_PAGE, bodies=False)
        return list(dict.fromkeys([*self.list_agents(), *(entry.parent for entry in started if entry.parent)]))

    def frames(self) -> list[holdfast.Frame]:
        """The frames of a sub-agent, oldest first: it has a further one for what it says after it has ended."""
        session = self.session()
        if session is None or self._agent is None:
            return []
        self._agent.load(session)
        return [session.frames.get(frame) for frame in self._agent.ids]

    def delete(self) -> None:
        """Erase what was said: destroy the session, or erase the lines and the frames of a sub-agent. Nothing of it is
        offered to long-term memory. Facts in the ledger of a user stay."""
        with self._lock:
            session = self.session()
            if session is not None and self._agent is not None:
                self._agent.erase(session)
                for kind in (LINE_KIND, INTENT_KIND, OUTCOME_KIND, COMPACTION_KIND, REPLY_KIND):
                    while page := self._list(session, kind, limit=limits.DELETED_ENTRIES, bodies=False):
                        session.entries.delete([entry.key for entry in page])
            elif session is not None:
                session.destroy("deleted", offload=False, forks="destroy")
            self._forget()

    def _forget(self) -> None:
        super()._forget()
        self._start_over()
        self._roots = {}
        self._taken_back = {}
        for log in self._agents.values():
            log._forget()

    def _start_over(self) -> None:
        """Read anew from the session what is recorded."""
        self._progress = LogProgress(agent=self.name.subpath)

    def _key(self, line: Line) -> str:
        return super()._key(line) if self._file is None else name_entry(line_id(line))

    # Lines

    def append(self, lines: Sequence[Line], fold: Fold | None = None, *, keys: Sequence[str] = ()) -> None:
        """Store lines, and record what they say. A line with a uuid is stored once, one without each time, unless `keys`
        has a key for it. With `fold`, the summary is stored with them."""
        if not lines:
            return
        with self._lock:
            session = self.open()
            if self._agent is not None:
                self._agent.name(session)
            named = self._name_lines(lines, keys or [""] * len(lines))
            for batch in split_lines(named):
                before, version = self._append_batch(session, batch, fold)
                if self._progress.version == before:  # nobody else wrote
                    self._progress.version = version
            self._follow(session)

    # Messages

    def follow(self) -> None:
        """Record what stored lines say and the session does not have yet. append() does this."""
        with self._lock:
            session = self.session()
            if session is not None:
                self._follow(session)

    def hold(self) -> None:
        """The logs of the sub-agents that this one starts are read after it: complete no frame of it before end()."""
        self._is_held = True

    def note_ends(self, lines: Iterable[Line]) -> None:
        """Note what stored lines say of sub-agents that did not complete, for end()."""
        self._old_ends += (end for line in lines for end in find_ends(line) if end.status != "completed")

    def end(self, status: Ending = "completed") -> None:
        """Nothing more comes: end the frame of this sub-agent, or those of all sub-agents in the file of this session. One
        is completed if its last reply calls no tool, and no sub-agent of it goes on; else it goes on."""
        with self._lock:
            session = self.session()
            self._is_held = False
            if session is not None:
                self._follow(session, is_over=True)
                ends, self._ends = self._ends, []
                self._end_agents(session, ends)
                old, self._old_ends = self._old_ends, []
                self._end_agents(session, old, is_old=True)
                self._settle(session, status, is_over=True)
            for log in list(self._agents.values()):
                if log._file is not None:
                    log.end(status)

    def _follow(self, session: holdfast.Session, *, is_over: bool = False) -> None:
        for _ in range(_TRIES):
            version = session.state().version
            try:
                if self._progress.version != version:
                    self._reload(session)
                    self._resume_reply(session)
                lines = self._read_new_lines(session)
                self._note_parents(lines)
                messages = read_lines(each for each in lines if self._is_own(each[1]))
                if not is_over and self._awaits_description(lines, messages):
                    return
                if not self._enter_frame(session, messages, lines):
                    self._start_over()
                    continue
                self._record(session, messages)
            except VersionConflict:
                self._start_over()
                continue
            if self._agent is None:
                self._follow_sidechains(session, lines)
            self._end_agents(session, [end for _, line in lines for end in find_ends(line)])
            if lines:
                self._progress.last = max(self._progress.last, lines[-1][0])
            if self._agent is not None and any(is_description(line) for _, line in lines):
                self._agent.describe(session, self._describe(session))
            self._settle(session, "completed")
            return

    def _reload(self, session: holdfast.Session) -> None:
        if self._agent is not None:
            self._agent.load(session)
            self._progress.frames = tuple(self._agent.ids)
        self._progress.reload(session)

    def _read_new_lines(self, session: holdfast.Session) -> list[tuple[int, Line]]:
        if self._file is None:
            return self._read_lines(session, self._progress.last)
        lines, self._lines = [each for each in self._lines if each[0] > self._progress.last], []
        return lines

    # Sub-agents

    def _conversation(self, session: holdfast.Session) -> holdfast.Session | holdfast.Frame:
        return session if self._agent is None else session.frames.get(self._agent.ids[-1])

    def _awaits_description(self, lines: list[tuple[int, Line]], messages: list[LogMessage]) -> bool:
        """Whether a sub-agent was only asked so far: the line that says where its frame belongs may still come."""
        if self._agent is None or self._agent.ids or self._file is not None:
            return False
        is_described = any(is_description(line) for _, line in lines)
        return not is_described and all(message.kind == "prompt" for message in messages)

    def _enter_frame(
        self, session: holdfast.Session, messages: list[LogMessage], lines: list[tuple[int, Line]]
    ) -> bool:
        """Push a frame for what a sub-agent says, if it has none, or the last one has ended. False if another process has
        done so meanwhile."""
        if self._agent is None or not self._progress.misses(messages):
            return True
        for _ in range(_TRIES):
            live = self._agent.find_live(session)
            if session.state().version == self._progress.version:
                break
            self._reload(session)  # another process may have recorded them, and ended the frame
        if live or not self._progress.misses(messages):
            return True
        has_all = self._file is not None and not self._agent.ids  # and the file can be long
        if not self._agent.push(session, self._describe(session, lines if has_all else None)):
            return False
        self._is_finished = False
        self._reload(session)
        return True

    def _describe(self, session: holdfast.Session, lines: list[tuple[int, Line]] | None = None) -> AgentDescription:
        own = lines if lines is not None else self._read_own_lines(session, 1)
        return describe_agent(self.name.subpath, (line for _, line in own), self._calls)

    def _settle(self, session: holdfast.Session, status: Ending, *, is_over: bool = False) -> None:
        """End the frame of a sub-agent with its last reply."""
        if self._agent is None or self._agent.find_live(session) is None:
            return
        progress = self._progress
        self._is_finished = self._is_finished or is_over
        is_replied = progress.ends_with_reply() and progress.reply_stop not in _CUT_OFF
        can_complete = is_replied and not self._is_held and (self._is_finished or bool(progress.reply_stop))
        if status == "completed" and not can_complete:
            return
        frame = self._agent.ids[-1]
        newest = session.messages(before=progress.seqs[-1] + 1, limit=1)[0] if is_replied else None
        if self._agent.pop(session, status, newest):
            above = find_parent_agent(session, frame)
            if above is not None:
                self.agent(above).follow()  # it may have waited for this one

    def _end_agents(self, session: holdfast.Session, ends: Iterable[AgentEnd], *, is_old: bool = False) -> None:
        """End the frames of sub-agents of which this log was told that they have ended. What is old says nothing of a
        further frame."""
        for end in ends:
            subpath = find_agent(session, end, self._agent.find_live(session) if self._agent is not None else "")
            if is_old and subpath is not None and len(self.agent(subpath).frames()) > 1:
                continue
            if subpath is not None:
                self.agent(subpath).end(end.status)
            elif self._is_held and end.status != "completed":
                self._ends.append(end)

    def _follow_sidechains(self, session: holdfast.Session, lines: list[tuple[int, Line]]) -> None:
        """Record what sub-agents say in the file of the session, each in a frame of its own."""
        calls = find_starting_calls(line for _, line in lines)
        roots: dict[str, ClaudeLog] = {}
        for seq, line in lines:
            if self._is_own(line):
                continue
            root = self._note_root(session, line)
            chain = roots[root] = self.agent(f"sidechains/{root}")
            chain._file = (self, root)
            chain._calls |= calls
            chain._lines.append((seq, line))
        for chain in roots.values():
            chain._follow(session)

    def _note_root(self, session: holdfast.Session, line: Line) -> str:
        """The first line of the sub-agent that a line belongs to."""
        uuid, parent = line_id(line), line.get("parentUuid")
        root = self._roots.get(uuid) or self._roots.get(str(parent)) or _find_root(session, line)
        self._roots[uuid] = root
        return root

    def _is_own(self, line: Line) -> bool:
        """Whether the line is of this conversation: older logs have those of sub-agents in the file of the session."""
        return bool(self.name.subpath) or not is_sidechain(line)

    def _record(self, session: holdfast.Session, messages: list[LogMessage]) -> None:
        progress = self._progress
        batch: list[LogMessage] = []
        mark_copies(messages, session.state().created_us, is_empty=not progress.seqs)
        for message in messages:
            if progress.is_recorded(message):
                continue
            parent = self._find_parent(session, message, batch) if message.kind == "prompt" else None
            goes_back = parent is not None and not progress.is_newest(parent, batch)
            if not goes_back and progress.accept_prompt(message):
                continue
            if progress.awaited:
                self._taken_back |= progress.withdraw_awaited(session)
            goes_on = message.kind == "reply" and not batch and progress.continues(message)
            if batch and (goes_back or message.kind == "summary" or len(batch) == _BATCH_MESSAGES):
                self._record_batch(session, batch)
                batch = []
            if progress.is_recorded(message):  # by another process, since this one looked
                continue
            if goes_back and parent is not None and self._find_message(session, parent):
                progress.withdraw(session, self._conversation(session), progress.ids[parent])
            if progress.is_recorded(message):  # by another process, since this one looked
                continue
            if goes_on:
                self._continue_reply(session, message)
            elif message.kind != "summary" or not self._summarize(session, message):
                batch.append(message)
        if batch:
            self._record_batch(session, batch)

    def _find_parent(self, session: holdfast.Session, prompt: LogMessage, batch: list[LogMessage]) -> str | None:
        """The uuid of the line of a message that a prompt follows; None if there is none that is known."""
        pending = {uuid for each in batch for uuid in each.ids}
        at, steps, is_found = prompt.parent, 0, None
        while at is not None and at not in pending and at not in self._progress.ids:
            if at not in self._parents:
                found = find_line(session, self._key({"uuid": at}))
                self._note_parents([] if found is None else [found])
            parent, is_message = self._parents.get(at, (None, False))
            if is_message and is_found is None:  # it is not recent
                is_found = self._find_message(session, at)
                if is_found:
                    return at
            at, steps = parent, steps + 1
            if steps == _STEPS:
                return None
        return at

    def _find_message(self, session: holdfast.Session, uuid: str) -> bool | None:
        """Whether the message of a line is recorded; None if the line has none."""
        if uuid in self._progress.ids:
            return True
        found = find_line(session, self._key({"uuid": uuid}))
        message = read_line(found[1], found[0]) if found is not None else None
        if message is None or message.kind == "summary":
            return None
        return self._progress.find(session, uuid, message.prompt)

    def _note_parents(self, lines: Iterable[tuple[int, Line]]) -> None:
        if len(self._parents) > _PARENTS:
            self._parents.clear()
        for _, line in lines:
            self._is_finished = self._is_finished or is_finished(line)
            parent = line.get("parentUuid")
            is_message = line.get("type") in CONVERSATION and self._is_own(line)
            self._parents[line_id(line)] = (parent if type(parent) is str else None, is_message)

    def _record_batch(self, session: holdfast.Session, batch: list[LogMessage]) -> list[Message]:
        progress = self._progress
        drafts = [each.message | self._mark(each) for each in batch]
        try:
            recorded = self._conversation(session).record_all(drafts, as_found=True, expect=progress.version)
        except InvalidInput:
            if len(batch) == 1:
                recorded = self._record_cleaned(session, batch[0])
            else:
                rest = (each for each in batch if not progress.is_recorded(each))
                return [message for each in rest for message in self._record_batch(session, [each])]
        progress.add(recorded)
        prompts = [each for each in recorded if each.role == "user" and mark_of(each).get("kind") == "prompt"]
        if self._observe and prompts:
            for prompt in prompts:
                with contextlib.suppress(InvalidInput):  # another process has withdrawn it
                    self._read_facts(session, prompt)
            progress.reload(session)
        return recorded

    def _read_facts(self, session: holdfast.Session, prompt: Message) -> None:
        """Read facts from a prompt. A copy of an old one says what may have changed since; and of one that a hook recorded
        first, they were read then."""
        mark = mark_of(prompt)
        first = next((each for each in self._taken_back if each.is_same(mark.get("prompt", ""), prompt.text)), None)
        if first is not None:
            confirm_facts(session, self._taken_back.pop(first), first.seq)
        elif not mark.get("copy"):
            session.observe(prompt)

    def _mark(self, message: LogMessage) -> dict[str, Any]:
        agent = {"agent": self.name.subpath} if self.name.subpath else {}
        return {"metadata": {"claude": message.mark | agent}}

    def _record_cleaned(self, session: holdfast.Session, message: LogMessage) -> list[Message]:
        """Record a message that the session refuses as it is: without what is refused, or else its text."""
        conversation, mark = self._conversation(session), self._mark(message)
        expect = self._progress.version
        try:
            return conversation.record_all([clean_message(message.message) | mark], as_found=True, expect=expect)
        except InvalidInput:
            return conversation.record_all([reduce_message(message.message) | mark], as_found=True, expect=expect)

    def _continue_reply(self, session: holdfast.Session, message: LogMessage) -> None:
        """A further line of a reply whose first calls still run. The reply is recorded anew with all of its calls; those
        that were started are started again, under their keys."""
        progress = self._progress
        started = {call.provider_id: call.key for call in self._open_calls(session) if call.key and call.provider_id}
        plan: dict[str, Any] = {"first": progress.reply_first, "last": message.last, "started": started}
        entry = self._entry(REPLY_KIND, f"{REPLY_KIND}-{secrets.token_hex(12)}", plan)
        [stored] = session.entries.append_all([entry], expect=progress.version)
        progress.version = max(progress.version, stored.seq)
        progress.withdraw(session, self._conversation(session), progress.reply_before, "its reply goes on")
        self._record_reply(session, plan)

    def _resume_reply(self, session: holdfast.Session) -> None:
        """Record a reply that was withdrawn to be recorded anew, if something came between the two."""
        newest = self._list(session, REPLY_KIND, limit=1)
        if not newest:
            return
        plan = decode(newest[0].body)
        if self._progress.misses_reply(plan["first"], newest[0].seq):
            self._record_reply(session, plan)
        elif self._start_again(session, plan):
            self._progress.reload(session)

    def _record_reply(self, session: holdfast.Session, plan: dict[str, Any]) -> None:
        lines = [(seq, line) for seq, line in self._read_own_lines(session, plan["first"]) if seq <= plan["last"]]
        parts = [each for each in read_lines(lines) if not self._progress.is_shown(each)]
        for part in parts:
            if part.first == plan["first"] and "usage" in read_lines(lines[:1])[0].message:
                part.message.pop("usage")  # it was counted with the first part
        if parts:
            self._record_batch(session, parts)
        self._start_again(session, plan)
        self._progress.reload(session)

    def _start_again(self, session: holdfast.Session, plan: dict[str, Any]) -> bool:
        """Start calls of a reply that was recorded anew, if they were started before. False if there are none."""
        keys = plan["started"]
        calls = (
            [call for call in self._open_calls(session) if call.provider_id in keys and not call.key] if keys else []
        )
        for call in calls:
            session.start_call(call.id, call_key=keys[call.provider_id])
        return bool(calls)

    def _read_own_lines(self, session: holdfast.Session, first: int) -> list[tuple[int, Line]]:
        """The lines of this conversation from this seq on."""
        if self._file is None:
            return [each for each in self._read_lines(session, first - 1) if self._is_own(each[1])]
        log, root = self._file
        lines = ((seq, line) for seq, line in log._read_lines(session, first - 1) if is_sidechain(line))
        return [(seq, line) for seq, line in lines if log._note_root(session, line) == root]

    def _open_calls(self, session: holdfast.Session) -> list[OpenCall]:
        """The open calls of this conversation."""
        frames = {*self._agent.ids} if self._agent is not None else {None}
        return [call for call in session.open_calls() if call.frame in frames]

    # Hooks

    def record_prompt(self, prompt: str, text: str) -> holdfast.Session:
        """Record what the user asks before its line is stored, so that its facts are known when the model is asked."""
        with self._lock:
            session = self.open()
            mark = {"hook": prompt, "kind": "prompt"}
            message = session.record("user", text, metadata={"claude": mark})
            if self._observe:
                session.observe(message)
            self._start_over()
            return session

    def start_call(self, call: str) -> StartedCall | None:
        """Record that a tool starts; None if its call is not recorded. Raises OutcomeUnknown if it was started before."""
        session = self.session()
        if session is None:
            return None
        for each in session.open_calls():
            if each.provider_id == call and (each.frame is None) == (self._agent is None):
                return session.start_call(each.id)
        return None

    def note(self, kind: str, call: str, body: Any) -> None:
        """Store what a hook got about a call."""
        session = self.open()
        with contextlib.suppress(EntryConflict):  # the first one counts
            try:
                session.entries.append_all([self._entry(kind, f"{kind}/{call}", body)])
            except InvalidInput:
                as_text = json.dumps(body, default=str).encode()
                session.entries.append_all([self._entry(kind, f"{kind}/{call}", as_text)])

    def settle_outcomes(self) -> None:
        """Record the outcome that a hook got for calls whose line with the result has not come."""
        with self._lock:
            self.follow()
            session = self.session()
            for call in self._open_calls(session) if session is not None else ():
                entry = session.entries.get(f"{OUTCOME_KIND}/{call.provider_id}") if session is not None else None
                if session is None or entry is None:
                    continue
                outcome = decode(entry.body)
                session.result(call.id, outcome.get("result"), is_error=outcome.get("is_error") is True)
                self._start_over()

    def unknown_calls(self) -> list[UnknownCall]:
        """The calls that were started and have no outcome."""
        self.settle_outcomes()
        session = self.session()
        if session is None:
            return []
        calls = [
            UnknownCall(call.provider_id or call.id, call.name, call.key, self.name.subpath)
            for call in self._open_calls(session)
            if call.key
        ]
        for entry in self._list(session, INTENT_KIND, limit=_PAGE):
            body = decode(entry.body)
            if body["call"] in {call.id for call in calls} or self._has_outcome(session, body["call"]):
                continue
            calls.append(UnknownCall(body["call"], body["name"], body["call"], self.name.subpath))
        return calls

    def _has_outcome(self, session: holdfast.Session, call: str) -> bool:
        if session.entries.get(f"{OUTCOME_KIND}/{call}") is not None:
            return True
        message = session.find_message(call)
        return message is not None and all(each.provider_id != call for each in session.open_calls())

    def _summarize(self, session: holdfast.Session, message: LogMessage) -> bool:
        """Show what Claude Code compacted as its summary, as Claude Code does. False if the summary is to be recorded as a
        message: nothing is before it, or it is longer than what it replaces."""
        key = f"{COMPACTION_KIND}/{self.name.subpath}{'/'.join(message.ids) or message.first}"
        if session.entries.get(key) is not None:
            return True
        context = self._conversation(session).context
        draft = context.draft_summary(0)
        if draft is None:
            return False
        kept = self._progress.find_first(self._read_kept(session, message))
        if kept is not None:
            draft = msgspec.structs.replace(draft, last=min(draft.last, kept - 1))
        try:
            context.summarize(draft, text_of_prompt(message.message["content"]))
        except InvalidInput:
            return False
        session.entries.append_all([self._entry(COMPACTION_KIND, key, None)])
        self._progress.last = max(self._progress.last, message.last)
        self._progress.reload(session)
        return True

    def _read_kept(self, session: holdfast.Session, summary: LogMessage) -> list[str]:
        """The uuids of the lines that Claude Code shows after a summary, although they are before it: the line that the
        summary follows names them."""
        found = find_line(session, self._key({"uuid": summary.parent}))
        return find_kept_lines(found[1]) if found is not None else []


def _find_root(session: holdfast.Session, line: Line) -> str:
    """The uuid of the first line of the sub-agent that this line belongs to, or the id of the agent."""
    if type(line.get("agentId")) is str:
        return f"agent-{line['agentId']}"
    passed: set[str] = set()
    while type(parent := line.get("parentUuid")) is str and parent not in passed:
        passed.add(parent)
        found = find_line(session, name_entry(parent))
        if found is None or not is_sidechain(found[1]):
            break
        line = found[1]
    return line_id(line)
