"""The frames of sub-agents: what a sub-agent of Claude Code says is in a frame of its session.

Laws: the frame of a sub-agent that a sub-agent started is below the frame of that one, which does not complete before
it; all others are root frames, for they run side by side. A frame ends once, with the last reply as its result; what the
sub-agent says later is in a further frame. Any process finds the frames of a sub-agent in entries, also one that was
killed between a frame and its entry.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

import holdfast
from holdfast.errors import AlreadyTerminal, ChildrenActive, KeyConflict
from holdfast.frameworks.claude_lines import Line, text_of_prompt
from holdfast.frameworks.claude_messages import clean_name
from holdfast.model import limits
from holdfast.model.frames.frames import Ending, FrameState
from holdfast.model.sessions.messages import Message
from holdfast.types import shorten_name

AGENT_KIND = "claude.agent"
"""The kind of the entries that name the frames of a sub-agent; the first one of each sub-agent names none."""
_BUDGET = 1_000_000_000
_SHARE = 20
"""Claude Code limits what a sub-agent spends, not the frame. One below another gets a part of what is left of that one."""
_GOAL_CHARS = 200
_RESULT_BYTES = limits.SPOOL_BYTES - 100
_PAGE = 1_000
_ERASED = 500
"""Messages that are erased at once."""
_NOTICE = re.compile(r"<task-id>([^<\s]+)</task-id>.*?<status>(\w+)</status>", re.DOTALL)
_ENDINGS: dict[str, Ending] = {
    "completed": "completed",
    "failed": "failed",
    "killed": "cancelled",
    "stopped": "cancelled",
}


class _Record(msgspec.Struct, omit_defaults=True):
    """The body of an entry: that there is a sub-agent, a frame of it, or that it was deleted."""

    number: int
    subpath: str
    frame: str = ""
    call: str = ""
    is_deleted: bool = False


class AgentDescription(NamedTuple):
    """What a log says of a sub-agent."""

    goal: str
    type: str = ""
    call: str = ""
    """The id of the tool call that started it."""
    parent: str = ""
    """The id of the sub-agent that started it, if the log names one."""


class AgentEnd(NamedTuple):
    """What the log of a session says of the end of a sub-agent: by its id, or by the call that started it."""

    agent: str
    call: str
    status: Ending


class AgentFrames:
    """The frames of one sub-agent."""

    def __init__(self, subpath: str) -> None:
        self.subpath = subpath
        self.ids: list[str] = []
        """Oldest first."""
        self._number = 0

    def load(self, session: holdfast.Session) -> None:
        """Read which frames the sub-agent has."""
        found: list[str] = []
        self._number = 0
        for record in _read_records(session, parent=self.subpath):
            self._number = max(self._number, record.number)
            if record.is_deleted:
                break
            if record.frame and record.frame not in found:
                found.append(record.frame)
        self.ids = found[::-1]

    def find_live(self, session: holdfast.Session) -> str | None:
        """The frame that the sub-agent is in; None if it has none, or it has ended."""
        return self.ids[-1] if self.ids and self.ids[-1] in session.state().frames else None

    def push(self, session: holdfast.Session, about: AgentDescription) -> bool:
        """Push a frame for what the sub-agent says next. False if another process has pushed it, and ended it since."""
        self._number += 1
        inputs = self._inputs(about)
        key = shorten_name(f"claude/{session.scope.session}/{self._number}/{self.subpath}")
        cause = clean_name(about.call) or None
        parent = _find_parent(session, about)
        budget = _BUDGET if parent is None else max(1, parent.budget.available // _SHARE)
        options: Any = {"key": key, "cause": cause, "max_subframe_depth": limits.FRAME_DEPTH}
        try:
            frame = session.frame(about.goal, budget=budget, inputs=inputs, parent=parent, **options).frame_id
        except KeyConflict:  # a process died before it stored the entry, and knew less of the sub-agent
            found = _find_frame(session, inputs["agent"], {*self.ids})
            if found is None:
                return False
            frame = found
        self._note(session, frame=frame, call=about.call)
        self.ids.append(frame)
        return True

    def describe(self, session: holdfast.Session, about: AgentDescription) -> None:
        """Add to the frame what the log says of the sub-agent only after its first words."""
        live, inputs = self.find_live(session), self._inputs(about)
        if live is None:
            return
        frame = session.frames.get(live)
        state = frame.state()
        if (state.goal, state.inputs) != (about.goal, inputs):
            frame.update(goal=about.goal, inputs=inputs)
            self._number += 1
            self._note(session, frame=live, call=about.call)

    def _inputs(self, about: AgentDescription) -> dict[str, str]:
        inputs = {"agent": name_agent(self.subpath), "type": about.type, "call": about.call}
        return {name: value for name, value in inputs.items() if value}

    def name(self, session: holdfast.Session) -> None:
        """Store that there is a sub-agent. It has no frame before it says something."""
        if not self._number:
            self.load(session)
            if not self._number:
                self._number = 1
                self._note(session)

    def pop(self, session: holdfast.Session, status: Ending, reply: Message | None) -> bool:
        """End the frame, with a reply as its result. False if it cannot complete, because a sub-agent that it started goes
        on."""
        live = self.find_live(session)
        if live is not None:
            text = reply.text if reply is not None else ""
            try:
                session.frames.get(live).pop(status, _shorten(text), cascade=status != "completed")
            except ChildrenActive:
                return False
            except AlreadyTerminal:  # by another process
                pass
        return True

    def erase(self, session: holdfast.Session) -> None:
        """Erase what the sub-agent said, and its frames."""
        self.load(session)
        self.pop(session, "cancelled", None)
        frames = {*self.ids}
        seqs = [message.seq for message in _read_messages(session, frames)]
        seqs += [int(frame[1:]) for frame in frames]
        for at in range(0, len(seqs), _ERASED):
            session.erase(seqs[at : at + _ERASED], "sub-agent deleted")
        if self._number:
            self._number += 1
            self._note(session, is_deleted=True)
        self.ids = []

    def _note(self, session: holdfast.Session, **fields: Any) -> None:
        body = msgspec.to_builtins(_Record(number=self._number, subpath=self.subpath, **fields))
        key = f"{AGENT_KIND}/{self._number}/{self.subpath}"
        session.entries.append(AGENT_KIND, key, body, parent=self.subpath)


def name_agent(subpath: str) -> str:
    """The id of a sub-agent, from the path of its log."""
    return shorten_name(subpath.rpartition("/")[2].removeprefix("agent-") or subpath)


def list_agents(session: holdfast.Session) -> list[str]:
    """The subpaths of the sub-agents that were ever in a session, the newest first."""
    return list(dict.fromkeys(record.subpath for record in _read_records(session)))


def find_agent(session: holdfast.Session, end: AgentEnd, parent: str | None = "") -> str | None:
    """The subpath of a sub-agent that a log speaks of, if it has a live frame. The log of a sub-agent, in the frame
    `parent`, knows only of those that it started."""
    live = session.state().frames
    is_known = parent == "" or (parent in live and live[parent].children > 0)
    known = {each.id for each in live.values() if parent in ("", each.parent)} if is_known else ()
    for record in _read_records(session) if known else ():
        is_named = bool(end.agent) and name_agent(record.subpath) == end.agent
        if record.frame in known and (is_named or (end.call and record.call == end.call)):
            return record.subpath
    return None


def find_parent_agent(session: holdfast.Session, frame: str) -> str | None:
    """The subpath of the sub-agent that the frame of another is below."""
    parent = session.frames.get(frame).state().parent
    if parent is None:
        return None
    return next((record.subpath for record in _read_records(session) if record.frame == parent), None)


def _find_parent(session: holdfast.Session, about: AgentDescription) -> FrameState | None:
    """The live frame of the sub-agent that started this one; None if the session did, or that one has ended."""
    live = session.state().frames
    if not live:
        return None
    if about.parent:
        frames = [each.frame for each in _read_records(session) if name_agent(each.subpath) == about.parent]
    else:
        frames = [call.frame or "" for call in session.open_calls() if about.call and call.provider_id == about.call]
    found = next((live[frame] for frame in frames if frame in live), None)
    can_have_more = found is not None and found.depth < found.limits.max_subframe_depth and found.budget.available > 0
    return found if can_have_more else None


def _read_records(session: holdfast.Session, parent: str | None = None) -> Iterator[_Record]:
    """The entries about sub-agents, the newest first."""
    before: int | None = None
    while page := session.entries.list(kind=AGENT_KIND, parent=parent, before=before, limit=_PAGE):
        yield from (msgspec.convert(entry.body, _Record) for entry in page)
        if len(page) < _PAGE:
            return
        before = page[-1].seq


def describe_agent(subpath: str, lines: Iterable[Line], calls: dict[str, str]) -> AgentDescription:
    """What the lines of a sub-agent say of it. `calls` are the calls that start sub-agents, by their prompts."""
    about: Line = {}
    prompt = ""
    for line in lines:
        if line.get("type") == "agent_metadata":
            about = line
        elif line.get("type") == "user" and not prompt and type(line.get("message")) is dict:
            prompt = text_of_prompt(line["message"].get("content"))
    goal = _read_text(about.get("description")) or prompt or f"sub-agent {name_agent(subpath)}"
    call = _read_text(about.get("toolUseId")) or calls.get(prompt, "")
    parent = _read_text(about.get("parentAgentId"))
    return AgentDescription(goal[:_GOAL_CHARS], _read_text(about.get("agentType")), call, parent)


def find_starting_calls(lines: Iterable[Line]) -> dict[str, str]:
    """The calls in lines that start sub-agents, by their prompts."""
    calls: dict[str, str] = {}
    for line in lines:
        message = line.get("message")
        blocks = message.get("content") if type(message) is dict else None
        for block in blocks if type(blocks) is list else ():
            if type(block) is dict and block.get("name") in ("Task", "Agent") and type(block.get("input")) is dict:
                calls[_read_text(block["input"].get("prompt"))] = _read_text(block.get("id"))
    return calls


def find_ends(line: Line) -> Iterator[AgentEnd]:
    """What a line of a session says of the ends of sub-agents: the result of a call that waited for one, or a notice of
    one in the background."""
    message = line.get("message")
    content = message.get("content") if type(message) is dict and line.get("type") == "user" else None
    if type(content) is str and content.lstrip().startswith("<task-notification"):
        for agent, status in _NOTICE.findall(content):
            if status in _ENDINGS:
                yield AgentEnd(agent, "", _ENDINGS[status])
    told = line.get("toolUseResult")
    if type(told) is dict and told.get("status") == "async_launched":
        return
    for block in content if type(content) is list else ():
        if type(block) is dict and block.get("type") == "tool_result" and _read_text(block.get("tool_use_id")):
            agent = _read_text(told.get("agentId")) if type(told) is dict else ""
            yield AgentEnd(agent, block["tool_use_id"], "failed" if block.get("is_error") is True else "completed")


def is_description(line: Line) -> bool:
    """Whether a line describes its sub-agent."""
    return line.get("type") == "agent_metadata"


def is_finished(line: Line) -> bool:
    """Whether a line of a sub-agent says that it has finished."""
    return is_description(line) and line.get("finished") is True


def _find_frame(session: holdfast.Session, agent: str, known: set[str]) -> str | None:
    """The live frame of a sub-agent that no entry names."""
    after: str | None = None
    while page := session.frames.list(status="live", after=after):
        for state in page:
            inputs = session.frames.get(state.id).state().inputs
            if state.id not in known and type(inputs) is dict and inputs.get("agent") == agent:
                return state.id
        after = page[-1].id
    return None


def _read_messages(session: holdfast.Session, frames: set[str]) -> list[Message]:
    first = min((int(frame[1:]) for frame in frames), default=0)
    found = [message for message in session.evidence(limit=_PAGE) if message.frame in frames]
    before: int | None = None
    while frames and (page := session.messages(before=before, limit=_PAGE)):
        found += (message for message in page if message.frame in frames)
        before = page[0].seq
        if before <= first:
            break
    return [message for message in found if not message.erased]


def _shorten(text: str) -> str:
    return text.encode("utf-8", "replace")[:_RESULT_BYTES].decode("utf-8", "ignore")


def _read_text(value: object) -> str:
    return value.encode("utf-8", "replace").decode().strip() if type(value) is str else ""
