"""How far the messages of a session follow the lines of its log."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

import holdfast
from holdfast.frameworks.claude_lines import Line, LogMessage, text_of_prompt
from holdfast.model.history.ranges import LedgerFacts
from holdfast.model.sessions.messages import Message
from holdfast.types import Withdrawal, shorten_name

_PAGE = 100
_REDUCED_CHARS = 100_000
"""The most of a message that is recorded if the session refuses it otherwise."""


class HookPrompt(NamedTuple):
    """A prompt that a hook recorded before its line came."""

    seq: int
    prompt: str
    """Its id."""
    text: str

    def is_same(self, prompt: str, text: str) -> bool:
        """Whether a line says this. One of what the user said while the model worked names no prompt."""
        return self.text == text and prompt in ("", self.prompt)


class LogProgress(msgspec.Struct):
    """What of a log is recorded, as of a version of the session."""

    agent: str = ""
    """The subpath of the sub-agent that this is the log of; empty for the session itself."""
    frames: tuple[str, ...] = ()
    """The frames of the sub-agent; it is in the last one."""
    version: int = -1
    last: int = 0
    """The seq of the last line whose message is recorded, or that has none."""
    ids: dict[str, int] = msgspec.field(default_factory=dict)
    """The seq of the message of each line, by its uuid; of recent lines."""
    hooks: dict[str, int] = msgspec.field(default_factory=dict)
    """The seq of the message of each prompt that a hook recorded, by its id; of recent ones that are shown."""
    awaited: list[HookPrompt] = msgspec.field(default_factory=list)
    """The newest messages, as far as a hook recorded them and their lines have not come: in their order."""
    accepted: dict[int, list[str]] = msgspec.field(default_factory=dict)
    """The seqs of prompts that a hook recorded and whose lines came behind all recorded ones, with these lines' uuids."""
    seqs: list[int] = msgspec.field(default_factory=list)
    """Of recent messages of the conversation, oldest first."""
    kinds: dict[int, str] = msgspec.field(default_factory=dict)
    firsts: dict[int, tuple[int, bool]] = msgspec.field(default_factory=dict)
    """By the seq of its first line: the seq of the newest message of that line, and whether it is withdrawn."""
    reply_group: str = ""
    """The newest reply: its id, its first line, the message before it, and its calls that have no result."""
    reply_first: int = 0
    reply_before: int = 0
    reply_open: set[str] = msgspec.field(default_factory=set)
    reply_stop: str = ""
    """Why the model stopped, if its line says it."""

    def reload(self, session: holdfast.Session, until: str = "") -> None:
        """Read the newest messages, until one of a line is among them that is shown; with `until`, that of this line."""
        version = session.state().version
        fresh = LogProgress(agent=self.agent, frames=self.frames, version=version, accepted=self.accepted)
        first = min((int(frame[1:]) for frame in self.frames), default=version if self.agent else 0)
        pages: list[list[Message]] = []
        before: int | None = version + 1
        while before is not None:
            page = session.messages(before=before, limit=_PAGE)
            pages.append(page)
            is_known = any(self._is_reached(message, until) for message in page)
            before = page[0].seq if page and not is_known and page[0].seq > first else None
        fresh.add(message for page in reversed(pages) for message in page)
        fresh.add(message for message in session.evidence(limit=_PAGE) if message.seq <= version)
        fresh.version = version
        fresh.last = max(fresh.last, self.last if self.version >= 0 else 0)
        for name in self.__struct_fields__:
            setattr(self, name, getattr(fresh, name))

    def _is_reached(self, message: Message, until: str) -> bool:
        mark = mark_of(message)
        if until:
            return until in mark.get("ids", ()) and self._is_own(message)
        return "last" in mark and not message.withdrawn and self._is_own(message)

    def find(self, session: holdfast.Session, uuid: str, prompt: str) -> bool:
        """Whether the session has the message of a line, also if that was long ago. Then `ids` has the uuid. `prompt` is
        the id of the prompt that the line says, if it says one."""
        if uuid not in self.ids:
            self.reload(session, uuid)
        if uuid not in self.ids and prompt in self.hooks:
            self.ids[uuid] = self.hooks[prompt]
        return uuid in self.ids

    def add(self, messages: Iterable[Message]) -> None:
        """Note recorded messages."""
        for message in messages:
            self.version = max(self.version, message.seq)
            if not self._is_own(message):
                continue
            mark = mark_of(message)
            self.last = max(self.last, mark.get("last", 0))
            self.ids.update((uuid, message.seq) for uuid in mark.get("ids", ()))
            if "first" in mark and message.seq >= self.firsts.get(mark["first"], (0, False))[0]:
                self.firsts[mark["first"]] = (message.seq, bool(message.withdrawn))
            if "hook" not in mark:  # prompts before it have their lines, or were withdrawn
                self.awaited = [each for each in self.awaited if each.seq > message.seq]
                self.accepted = {seq: ids for seq, ids in self.accepted.items() if seq > message.seq}
            if message.late or message.withdrawn or message.frame != (self.frames[-1] if self.frames else None):
                continue
            if "hook" in mark:
                self.hooks[mark["hook"]] = message.seq
            if message.seq in self.accepted:
                self.ids |= dict.fromkeys(self.accepted[message.seq], message.seq)
            elif "hook" in mark:
                self.awaited.append(HookPrompt(message.seq, mark["hook"], message.text))
            if message.role == "assistant":
                self.reply_group, self.reply_first = mark.get("group", ""), mark.get("first", 0)
                self.reply_before = self.seqs[-1] if self.seqs else 0
                self.reply_open = {call.id for call in message.tool_calls}
                self.reply_stop = mark.get("stop", "")
            for result in message.tool_results:
                self.reply_open.discard(result.tool_call_id)
            self.seqs.append(message.seq)
            self.kinds[message.seq] = "result" if message.tool_results else str(message.role)

    def _is_own(self, message: Message) -> bool:
        """Whether a message is of this conversation. The result of a call whose frame has ended is in no frame."""
        mark = mark_of(message)
        if mark:
            return str(mark.get("agent", "")) == self.agent
        return message.frame in self.frames if self.agent else message.frame is None

    def ends_with_reply(self) -> bool:
        """Whether the newest message is a reply that calls nothing."""
        return bool(self.seqs) and self.kinds[self.seqs[-1]] == "assistant" and not self.reply_open

    def is_recorded(self, message: LogMessage) -> bool:
        """Whether the session has the message of this line."""
        return bool(message.ids) and all(uuid in self.ids for uuid in message.ids)

    def accept_prompt(self, message: LogMessage) -> bool:
        """Note that this is the line of what a hook recorded. False if it is not, or says more."""
        if not self.awaited or message.kind != "prompt" or not message.is_plain:
            return False
        first = self.awaited[0]
        if not first.is_same(message.prompt, text_of_prompt(message.message["content"])):
            return False
        self.awaited.pop(0)
        self.accepted[first.seq] = message.ids
        self.ids |= dict.fromkeys(message.ids, first.seq)
        return True

    def misses(self, messages: Sequence[LogMessage]) -> bool:
        """Whether one of these messages may have to be recorded."""
        return any(not message.ids or not all(uuid in self.ids for uuid in message.ids) for message in messages)

    def find_first(self, uuids: Iterable[str]) -> int | None:
        """The seq of the first message of these lines that is shown; None if there is none."""
        return min((self.ids[uuid] for uuid in uuids if self.ids.get(uuid) in self.kinds), default=None)

    def is_shown(self, message: LogMessage) -> bool:
        """Whether the session has this message, and it is not withdrawn."""
        return bool(message.ids) and all(self.ids.get(uuid) in self.kinds for uuid in message.ids)

    def continues(self, message: LogMessage) -> bool:
        """Whether this is a further line of the newest reply: it is the newest message, or its calls still run."""
        is_newest = bool(self.seqs) and self.kinds[self.seqs[-1]] == "assistant"
        return bool(message.group) and message.group == self.reply_group and (bool(self.reply_open) or is_newest)

    def misses_reply(self, first: int, planned: int) -> bool:
        """Whether the reply of this first line is withdrawn, and was not recorded anew since this seq."""
        seq, is_withdrawn = self.firsts.get(first, (planned, False))
        return is_withdrawn and seq < planned

    def is_newest(self, uuid: str, batch: Sequence[LogMessage]) -> bool:
        """Whether only results come after the message of this line: in the session, and in the batch that is recorded
        next."""
        for at in range(len(batch) - 1, -1, -1):
            if uuid in batch[at].ids:
                return all(each.kind == "result" for each in batch[at + 1 :])
        seq = self.ids.get(uuid, 0)
        if seq not in self.kinds:
            return True  # withdrawn, or of an earlier frame
        awaited = {each.seq for each in self.awaited}
        later = (self.kinds[each] for each in self.seqs if each > seq and each not in awaited)
        return all(each.kind == "result" for each in batch) and all(kind == "result" for kind in later)

    def withdraw(
        self,
        session: holdfast.Session,
        conversation: holdfast.Session | holdfast.Frame,
        after: int,
        reason: str = "taken back in Claude Code",
    ) -> Withdrawal | None:
        """Withdraw what came after a message."""
        withdrawal = conversation.withdraw(after=after, reason=reason, expect=self.version)
        self.reload(session)
        return withdrawal

    def withdraw_awaited(self, session: holdfast.Session) -> dict[HookPrompt, tuple[LedgerFacts, ...]]:
        """Withdraw what a hook recorded: its lines come later, or say more. Returns the facts that rest on it."""
        awaited = list(self.awaited)
        before = max((seq for seq in self.seqs if seq < awaited[0].seq), default=0)
        withdrawal = self.withdraw(session, session, before, "recorded with its line")
        return dict.fromkeys(awaited, withdrawal.facts if withdrawal is not None else ())


def clean_message(message: Line) -> Line:
    """A message without what no provider could have sent: unknown shapes become text, and broken text is repaired."""
    blocks = message["content"]
    if type(blocks) is str:
        return {**message, "content": _repair(blocks)}
    return {**message, "content": [_clean_block(block, message["role"]) for block in blocks]}


def reduce_message(message: Line) -> Line:
    """What of a message is recorded in any case: its text and its calls, without most of their arguments."""
    content = clean_message(message)["content"]
    if type(content) is str:
        return {"role": message["role"], "content": content[:_REDUCED_CHARS]}
    texts = [block["text"] for block in content if block["type"] == "text"]
    calls = [block for block in content if block["type"] == "tool_use"]
    results = [block for block in content if block["type"] == "tool_result"]
    most = _REDUCED_CHARS // max(len(calls), 1)
    for call in calls:
        arguments = json.dumps(call["input"])
        if len(arguments) > most:
            call["input"] = {"shortened": arguments[: most // 10]}
    text = "\n".join(texts)[:_REDUCED_CHARS]
    return {"role": message["role"], "content": [*([{"type": "text", "text": text}] if text else []), *calls, *results]}


def _clean_block(block: Line, role: str) -> Line:
    if block.get("type") == "tool_result" and role == "user":
        text = text_of_prompt(block.get("content")) or json.dumps(block.get("content"))
        return {**block, "tool_use_id": clean_name(block.get("tool_use_id")) or "call", "content": _repair(text)}
    if block.get("type") == "tool_use" and role == "assistant":
        name, call = clean_name(block.get("name")), clean_name(block.get("id"))
        if not name or not call or type(block.get("input")) is not dict:
            return {"type": "text", "text": json.dumps(block)}
        repaired: Line = json.loads(_repair(json.dumps(block["input"], ensure_ascii=False)), parse_constant=str)
        return {"type": "tool_use", "id": call, "name": name, "input": repaired}
    if block.get("type") == "text":
        return {"type": "text", "text": _repair(str(block.get("text")))}
    return {"type": "text", "text": json.dumps(block)}


def clean_name(name: object) -> str:
    """A name of a tool or a call without what names cannot have; empty if nothing is left."""
    text = "".join(each for each in _repair(name) if each.isprintable()) if type(name) is str else ""
    return shorten_name(text) if text else ""


def _repair(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")


def mark_of(message: Message) -> dict[str, Any]:
    """The mark of a message that comes from a line or a hook; empty for any other."""
    mark = message.metadata.get("claude")
    return mark if isinstance(mark, dict) else {}
