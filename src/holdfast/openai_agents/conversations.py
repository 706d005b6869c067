"""The conversation behind a session of the SDK: its items, and the messages of a session that follow them. It blocks.

The items are the truth for the SDK, the messages for packs, facts and recovery. Items are stored first; the messages
follow, also after a crash in between.

Laws: an item is added once. A reply that the hooks recorded with its pack becomes the message of its items. Calls that were
started and never reached the SDK are not forgotten: the next turn begins with their outcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any, Literal, TypeVar

import msgspec

import holdfast
from holdfast.errors import CallAnswered, CallsOpen, InvalidArgument, OutcomeUnknown, VersionConflict
from holdfast.frameworks.shadows import Shadow, ShadowMessage, mark_message
from holdfast.frameworks.tool_runs import ToolRuns, describe_unknown
from holdfast.model.sessions.messages import Message, MessageGroup
from holdfast.model.state import OpenCall
from holdfast.openai_agents.item_log import ItemGroup, ItemLog, LoggedItem, NewItem
from holdfast.openai_agents.items import (
    Item,
    build_call,
    build_message,
    call_of,
    check_item,
    is_model_item,
    is_output,
    is_user_message,
    item_key,
)
from holdfast.render.openai import render_openai_responses
from holdfast.types import HistoryView, StartedCall

T = TypeVar("T")

AbandonedCalls = Literal["tell", "raise", "forget"]
"""What happens to calls that were started in a run that broke off, when the next turn begins: the model is told that their
outcome is unknown; OutcomeUnknown is raised; or they are withdrawn, and the model may call them again."""

_TRIES = 20
_OVERLAP = 8
"""How many items before the new ones are compared again, at least."""
_SPAN = 64
"""How many, at most, as long as the list only grows."""
_RECENT = 40
"""How many messages are searched for replies whose items were not added yet."""
_RUNNING: dict[str, asyncio.Task[Any]] = {}
"""The tasks of the tools that run in this process, by the key of the call. One that is done has broken off."""
_NOT_STARTED = "Error: the run broke off before this call. The tool did not run."


class _Reply(msgspec.Struct, frozen=True):
    """A reply that the hooks recorded, and whose items the SDK has not added."""

    message: Message
    keys: tuple[str, ...]

    @property
    def name(self) -> str:
        return str(self.message.metadata["id"])

    @property
    def group(self) -> ItemGroup:
        framework = self.message.metadata["framework"]
        digest = str(framework.get("digest") or "") if isinstance(framework, dict) else ""
        return ItemGroup(self.name, len(self.keys), digest)


class ItemConversation:
    """The items and the messages of one session. Threads can share it."""

    def __init__(
        self, session: holdfast.Session, *, abandoned: AbandonedCalls = "tell", repeatable: Sequence[str] = ()
    ) -> None:
        if abandoned not in ("tell", "raise", "forget"):
            raise InvalidArgument(argument="abandoned", reason='pass "tell", "raise" or "forget"')
        self.session = session
        self.log = ItemLog(session)
        self.shadow = Shadow(session)
        self.runs = ToolRuns(session, repeatable=repeatable)
        self._abandoned = abandoned
        self._repeatable = frozenset(repeatable)
        self._lock = threading.RLock()
        self._reset = 0
        self._staged: dict[str, None] = {}
        """The keys of items that were added before the SDK did."""
        self._started: dict[str, StartedCall] = {}
        self._start = ""
        """The key of the item at which the last comparison began."""
        self._shadows: dict[tuple[str, ...], ShadowMessage] = {}
        """The last messages that were compared, by the keys of their items."""
        self._searched: tuple[int, int] | None = None
        """How many messages there were, and how many withdrawals, when no reply was waiting for its items."""

    # The session of the SDK

    def read(self, limit: int | None = None) -> list[Item]:
        """The newest items, oldest first; all of them without a limit, or with a negative one."""
        with self._lock:
            self.log.load()
            self.log.drop_erased()
            items = [each.item for each in self.log.shown if each.key not in self._staged]
        if limit is not None and limit >= 0:
            items = items[-limit:] if limit else []
        return copy.deepcopy(items)

    def add(self, items: Sequence[object]) -> None:
        """Add items, all or none, and record what is new in them."""
        new = [check_item(item) for item in items]
        if not new:
            return
        with self._lock:
            self.log.load()
            self._add(self._claim_staged(new))

    def stage(self, items: Sequence[Item]) -> None:
        """Add items that the SDK is going to add, before it does: streamed runs add the input behind the filter."""
        with self._lock:
            self.log.load()
            self._unstage()
            self._staged = dict.fromkeys(self._add(copy.deepcopy(list(items))))

    def _add(self, new: list[Item]) -> list[str]:
        if not new:
            return []
        self._reset_cleared()
        replies = self._find_replies()
        labelled = self._group_items(self._drop_adopted(new, replies), replies)
        if any(map(is_user_message, new)):
            claimed = {each.group.name for each in labelled}
            self._settle_missing()
            self._settle_abandoned([reply for reply in replies if reply.name not in claimed])
            self._started.clear()
        keys = self.log.append(labelled) if labelled else []
        self._follow()
        return keys

    def _claim_staged(self, new: list[Item]) -> list[Item]:
        """The items that were not staged. What was staged otherwise than the SDK adds it is taken back."""
        staged = [each.item for each in self.log.items if each.key in self._staged]
        if staged and new[: len(staged)] == staged:
            self._staged = {}
            return new[len(staged) :]
        self._unstage()
        return new

    def _unstage(self) -> None:
        if self._staged:
            keys, self._staged = list(self._staged), {}
            self.log.withdraw(keys)
            self._follow(exact=True)

    def withdraw_last(self) -> Item | None:
        """Take the newest item back."""
        with self._lock:
            self._unstage()
            popped = self._retry(self.log.withdraw_last)
            if popped is None:
                return None
            if is_output(popped.item):  # the call is recorded again without its result
                with contextlib.suppress(VersionConflict):
                    self._follow_items(self._before_call(call_of(popped.item)), exact=True)
            self._follow(exact=True)
            return copy.deepcopy(popped.item)

    def clear(self) -> None:
        """Empty the view of the SDK, and begin the conversation anew. The log keeps everything."""
        with self._lock:
            self.log.load()
            self._unstage()
            self._follow()
            self.session.close_calls("the session was cleared")
            self.log.clear()
            self._reset_cleared()

    def compact(self, **options: Any) -> None:
        """Carry out the compaction that pays off, if any. Items stay as they are."""
        try:
            self.session.context.compact(**options)
        except InvalidArgument as error:
            if error.argument != "window":  # no model is known, so no price and no window
                raise

    def erase(self, messages: Sequence[Message], reason: str) -> None:
        """Erase messages for good, and their items."""
        with self._lock:
            self.log.load()
            names = {str(message.metadata.get("id") or "") for message in messages}
            calls = {call.provider_id for message in messages for call in message.tool_calls}
            entries = [
                each.seq
                for each in self.log.items
                if each.group.name in names or (is_output(each.item) and call_of(each.item) in calls)
            ]
            self.session.erase([*(message.seq for message in messages), *entries], reason)
            self.shadow = Shadow(self.session)
            self.log.reload()

    # The hooks

    def record_reply(
        self, items: Sequence[Item], agent: str, usage: holdfast.Usage, pack: holdfast.Pack | None
    ) -> Message:
        """Record the reply of a model. Its items come later, from the SDK."""
        if not items:
            return self.session.record("assistant", "", usage=usage, pack=pack or False)
        record, metadata = _draft_reply(items, agent)
        record["usage"] = None if usage == holdfast.Usage() else usage
        with self._lock:
            self._unstage()  # the SDK showed it to the model, and did not add it
            self.sync()
            try:
                return self.session.record(record, metadata=metadata, pack=pack or False)
            except CallsOpen:
                self.check_running()
                self.session.close_calls("the model went on without a result")
                return self.session.record(record, metadata=metadata, pack=pack or False)

    def start_tool(self, call_id: str, name: str, task: asyncio.Task[Any] | None = None) -> None:
        """Store that a tool starts, in this task. Raises OutcomeUnknown if it was started before and has no result."""
        try:
            run = self.runs.start(call_id, name)
        except CallAnswered:
            with self._lock:
                self._retry(lambda: self._record_again(call_id))
                run = self.runs.start(call_id, name)
        if run.started is not None:
            self._started[call_id] = run.started
            for key in [key for key, other in list(_RUNNING.items()) if other.done()]:
                _RUNNING.pop(key, None)
            if task is not None:
                _RUNNING[run.started.key] = task

    def _record_again(self, call_id: str) -> None:
        """Record a reply again whose call was closed before it was started: an approval may come when the conversation has
        gone on without the call. Raises CallAnswered if it was started or answered, and VersionConflict if another process
        wrote meanwhile."""
        waiting = self.session.open_calls()
        if any(call_id in (call.id, call.provider_id) for call in waiting):
            return
        made = self.session.find_message(call_id)
        spans = self.session.activity(before=made.seq + 1, limit=1) if made is not None else ()
        cancelled = {each.id for each in spans if each.kind == "tool" and each.status == "cancelled"}
        calls = [call for call in made.tool_calls if call.id in cancelled] if made is not None else []
        closed = {call.provider_id or call.id: call for call in calls}
        if made is None or call_id not in closed:
            raise CallAnswered(session=self.session.scope.session, call=call_id)
        version = self._close_unstarted(waiting, self.log.version)
        added = [each for each in self.log.shown if each.group.name == made.metadata.get("id")]
        beside = {call_of(each.item) for each in added} - {None, *closed}
        outputs = [each for each in self.log.shown if is_output(each.item) and call_of(each.item) in beside]
        kept = {None, *closed, *(call_of(each.item) for each in outputs)}
        old = [each for each in added if call_of(each.item) in kept]
        items = [each.item for each in old] or list(map(build_call, closed.values()))
        own = made.metadata.get("openai_agents")
        record, metadata = _draft_reply(items, str(own.get("agent") or "") if isinstance(own, dict) else "")
        group = _read_reply(self.session.record(record, metadata=metadata, pack=False, expect=version)).group
        for each in outputs:
            message = build_message("", [each.item]).message
            self.session.result(call_of(each.item) or "", message["content"], is_error=message["is_error"])
        again = [NewItem(each.item, group, replaces=each.key) for each in old]
        again += [NewItem(each.item, ItemGroup(_name_item()), replaces=each.key) for each in outputs]
        self.log.append(again or [NewItem(item, group) for item in items])
        self._follow()

    def _close_unstarted(self, waiting: Sequence[OpenCall], version: int) -> int:
        """Close calls that wait for an approval of their own; returns the next version. Raises OutcomeUnknown if a call was
        started."""
        self.check_running(waiting)
        started = [call for call in waiting if call.attempts]
        if started:
            raise _outcome_unknown(started[0])
        message = self.session.close_calls("the run went on without a result", expect=version)
        return message.seq if message is not None else version

    def finish_tool(self, call_id: str, output: Item, *, is_error: bool = False) -> None:
        """Store the result of a tool, as the SDK shows it."""
        started = self._started.pop(call_id, None)
        if started is not None:
            _RUNNING.pop(started.key, None)
            content = build_message("", [output]).message["content"]
            try:
                self.session.result(started.call, content, is_error=is_error)
            except CallAnswered:  # another process has given the call up meanwhile: what came of it is kept as evidence
                late = {"role": "tool", "tool_call_id": started.call, "content": content, "is_error": is_error}
                self.session.record_all([late], as_found=True)
                raise

    def started_call(self, call_id: str) -> StartedCall | None:
        """The call that is running under this id of the provider."""
        return self._started.get(call_id)

    # The filter

    def check_running(self, calls: Sequence[OpenCall] | None = None) -> None:
        """Raise CallsOpen if open calls are running in this process: their run is not over, and another one has to wait."""
        waiting = self.session.open_calls() if calls is None else calls
        running = [call for call in waiting if (task := _RUNNING.get(call.key)) is not None and not task.done()]
        if running:
            names = ", ".join(call.provider_id or call.id for call in running)
            what = "another run is at work on it: wait for its end, or start each run inside hf.turn()"
            raise CallsOpen(session=self.session.scope.session, count=len(running), calls=names, what=what)

    def has_running_tools(self) -> bool:
        """Whether tools of this conversation are running here. A model call meanwhile is one of a tool."""
        tasks = [_RUNNING.get(started.key) for started in list(self._started.values())]
        return any(task is not None and not task.done() for task in tasks)

    def sync(self) -> list[LoggedItem]:
        """Make the messages follow the items, and return what the SDK sees."""
        with self._lock:
            self.log.load()
            self._reset_cleared()
            self._follow()
            return list(self.log.shown)

    # Inside

    def _retry(self, write: Callable[[], T]) -> T:
        for attempt in range(_TRIES):
            self.log.load()
            try:
                return write()
            except VersionConflict:
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError("the last try returns or raises")

    def _reset_cleared(self) -> None:
        """Empty the history view if a session was cleared; also if a process stopped before it could."""
        if self.log.cleared != self._reset:
            self._reset = self.log.cleared
            self.session.reset("cleared", keep_system=False, key=f"openai-agents-clear-{self.log.cleared}")

    def _follow(self, *, exact: bool = False) -> None:
        """Make the messages follow the items. Another process may add or take back items meanwhile: then again, so that the
        last one to follow has seen all of them. If others never rest, the messages follow later."""
        for _ in range(_TRIES):
            at, popped, is_done = self.log.last, self.log.popped, False
            with contextlib.suppress(VersionConflict):
                self._follow_items(self.log.items, exact=exact)
                is_done = True
            self.log.load()
            if is_done and self.log.last == at:
                return
            exact = exact or self.log.popped != popped

    def _follow_items(self, items: Sequence[LoggedItem], *, exact: bool) -> None:
        """Follow the items from one on that has a message. What was erased between others stays erased."""
        known = self.shadow.known_names()
        last = next((at for at in range(len(items) - 1, -1, -1) if items[at].group.name in known), -1)
        start = self._find_start(items, known, last)
        groups: list[list[LoggedItem]] = []
        erased: set[str | None] = set()
        at = start
        for group in split_groups(items[start:]):
            is_known = group[0].group.name in known or at > last
            if not is_known and not (is_output(group[0].item) and call_of(group[0].item) not in erased):
                erased.update(call_of(each.item) for each in group)
            else:
                groups.append(group)
            at += len(group)
        self.shadow.follow([self._build_shadow(group) for group in groups], exact=exact)

    def _find_start(self, items: Sequence[LoggedItem], known: Set[str], last: int) -> int:
        """Where the comparison begins: at the first item of a message that is known, the same one as last time if it is
        near. A list that only grows need not be compared from the front."""
        for at in range(min(last - _OVERLAP, len(items) - 1), max(last - _SPAN, -1), -1):
            if items[at].key == self._start and items[at].group.name in known:
                return at
        start = next((at for at in range(last - _OVERLAP, -1, -1) if items[at].group.name in known), 0)
        while start > 0 and items[start - 1].group.name == items[start].group.name:
            start -= 1
        self._start = items[start].key if items else ""
        return start

    def _build_shadow(self, group: list[LoggedItem]) -> ShadowMessage:
        """The message of these items, which is the same object as last time."""
        key = tuple(each.key for each in group)
        message = self._shadows.pop(key, None) or _shadow(group)
        self._shadows[key] = message
        while len(self._shadows) > 2 * _SPAN:
            del self._shadows[next(iter(self._shadows))]
        return message

    def _before_call(self, call: str | None) -> list[LoggedItem]:
        """The items before the message with this call."""
        items = self.log.items
        name = next((each.group.name for each in reversed(items) if _makes_call(each.item, call)), None)
        at = next((at for at, each in enumerate(items) if each.group.name == name), len(items))
        return items[:at]

    def _find_replies(self) -> list[_Reply]:
        """The replies that the hooks recorded and the SDK has not added, oldest first."""
        replies: list[_Reply] = []
        state = self.log.state
        new = _RECENT
        if self._searched is not None and self._searched[1] == state.withdrawn:
            new = min(_RECENT, state.messages - self._searched[0])
        for message in self.session.messages(limit=new) if new > 0 else ():
            own = message.metadata.get("openai_agents")
            is_reply = isinstance(own, dict) and own.get("items") is not None
            if not is_reply or message.withdrawn or message.erased or message.frame or message.late:
                continue
            if message.metadata.get("id") not in self.log.groups:
                replies.append(_read_reply(message))
        self._searched = None if replies else (state.messages, state.withdrawn)
        return replies

    def _drop_adopted(self, items: list[Item], replies: Sequence[_Reply]) -> list[Item]:
        """The items without those that were adopted, and that the SDK adds after all: their calls, the results of these,
        and what else is in the replies that made them. Equal items of another reply stay: reasoning and texts repeat."""
        adopted = [each for each in self.log.shown[-_RECENT:] if each.is_adopted]
        if not adopted:
            return items
        waiting = {call.provider_id or call.id for reply in replies for call in reply.message.tool_calls}
        calls = {each.mark: each.group.name for each in adopted if call_of(each.item) not in (None, *waiting)}
        kept: list[Item] = []
        for _, run in itertools.groupby(items, is_model_item):
            keyed = [(item_key(item), item) for item in run]
            made = {calls[key] for key, _ in keyed if key in calls}
            beside = {each.mark for each in adopted if each.group.name in made and call_of(each.item) is None}
            kept += (item for key, item in keyed if key not in calls and key not in beside)
        return kept

    def _group_items(self, items: list[Item], replies: list[_Reply]) -> list[NewItem]:
        """Each item, and the message that it belongs to."""
        keys = [item_key(item) for item in items]
        left = [reply for reply in replies if reply.keys]
        labelled: list[NewItem] = []
        start = 0
        while start < len(items):
            reply = next((each for each in left if tuple(keys[start : start + len(each.keys)]) == each.keys), None)
            if reply is not None:
                left.remove(reply)
                group, end = reply.group, start + len(reply.keys)
            else:
                end = start + 1
                while is_model_item(items[start]) and end < len(items) and is_model_item(items[end]):
                    if any(tuple(keys[end : end + len(each.keys)]) == each.keys for each in left):
                        break
                    end += 1
                if whole := self._complete_reply(items[start:end], keys[start:end], left):
                    labelled += whole
                    start = end
                    continue
                group = ItemGroup(_name_item(), end - start)
            labelled += [NewItem(item, group) for item in items[start:end]]
            start = end
        return labelled

    def _complete_reply(self, items: Sequence[Item], keys: Sequence[str], replies: list[_Reply]) -> list[NewItem]:
        """The items of a reply of which the SDK adds a part, with the others: it leaves out the calls of tools that raised.
        Nothing if the items are of no such reply."""
        reply = next((each for each in replies if {*keys} < {*each.keys}), None)
        if reply is None or self._abandoned == "forget" or not is_model_item(items[0]):
            return []
        waiting = {call.id for call in self.session.open_calls() if not call.attempts}
        added = {call_of(item) for item in items}
        missing = [call for call in reply.message.tool_calls if (call.provider_id or call.id) not in added]
        if all(call.id in waiting for call in missing):  # they did not start: an approval may be waiting
            return []
        made = {item_key(item): item for item in map(build_call, missing)}
        own = dict(zip(keys, items, strict=True))
        if {*reply.keys} != own.keys() | made.keys():
            return []
        replies.remove(reply)
        return [NewItem({**made, **own}[key], reply.group, key not in own) for key in reply.keys]

    # Runs that broke off

    def _settle_abandoned(self, replies: list[_Reply]) -> None:
        """Take up the calls of runs that broke off, so that no effect is forgotten."""
        for reply in replies:
            calls = {call.id for call in reply.message.tool_calls}
            if not calls:
                continue
            waiting = {call.id: call for call in self.session.open_calls() if call.id in calls}
            self.check_running(list(waiting.values()))
            started = [call for call in waiting.values() if call.attempts]
            unknown = [call for call in started if call.name not in self._repeatable]
            answered = calls - waiting.keys()
            if self._abandoned == "raise" and unknown:
                raise _outcome_unknown(unknown[0])
            if self._abandoned == "forget" or not (unknown or answered):
                continue
            self._close([*waiting.values()])
            self._adopt(reply)

    def _settle_missing(self) -> None:
        """Add the results of calls that the SDK has without a result: it left them out when it added the others of their
        reply, or they were approved in a run that broke off. A call that did not start is of no interest."""
        recent = self.log.shown[-_RECENT:]
        answered = {call_of(each.item) for each in recent if is_output(each.item)}
        left = [each for each in recent if not is_output(each.item) and call_of(each.item) not in (None, *answered)]
        if not left or self._abandoned == "forget":
            return
        messages = self.session.messages(limit=_RECENT)
        replies = {str(each.metadata.get("id")): each for each in messages if each.tool_calls}
        ran = {result.tool_call_id for each in messages if not each.closing for result in each.tool_results}
        waiting = {call.id: call for call in self.session.open_calls()}
        ran.update(call.id for call in waiting.values() if call.attempts)
        lost = {
            call.id: (reply, call.provider_id or call.id)
            for each in left
            if (reply := replies.get(each.group.name)) is not None
            for call in reply.tool_calls
            if (call.provider_id or call.id) == call_of(each.item) and (each.is_adopted or call.id in ran)
        }
        self._give_up([call for call in waiting.values() if call.id in lost])
        names = {name for _, name in lost.values()}
        rendered = {reply.seq: self._render(reply) for reply, _ in lost.values()}
        results = [item for items in rendered.values() for item in items if is_output(item) and call_of(item) in names]
        if results:
            self.log.append([NewItem(item, ItemGroup(_name_item()), is_adopted=True) for item in results])

    def _give_up(self, waiting: Sequence[OpenCall]) -> None:
        """Close calls of a run that broke off, unless the program is to find out first."""
        self.check_running(waiting)
        unknown = [call for call in waiting if call.attempts and call.name not in self._repeatable]
        if self._abandoned == "raise" and unknown:
            raise _outcome_unknown(unknown[0])
        self._close(waiting)

    def _close(self, waiting: Sequence[OpenCall]) -> None:
        """Give calls of a run that broke off the results that the model is told."""
        for call in waiting:
            text = describe_unknown(_outcome_unknown(call)) if call.attempts else _NOT_STARTED
            with contextlib.suppress(CallAnswered):  # a tool of the run ended after all: its result is adopted
                self.session.result(call.id, text, is_error=True)
            self._started.pop(call.provider_id or "", None)

    def _adopt(self, reply: _Reply) -> None:
        """Add the items of a reply and its results, which the SDK never added."""
        items = self._render(reply.message)
        made = [item for item in items if not is_output(item)]
        label = ItemGroup(reply.name, len(made), reply.group.digest)
        new = [NewItem(item, label, is_adopted=True) for item in made]
        outputs = [item for item in items if is_output(item)]
        new += [NewItem(item, ItemGroup(_name_item()), is_adopted=True) for item in outputs]
        self.log.append(new)

    def _render(self, reply: Message) -> list[Item]:
        """The items of a reply and of its results."""
        calls = {call.id for call in reply.tool_calls}
        later = self.session.messages(limit=_RECENT)
        results = [each for each in later if any(result.tool_call_id in calls for result in each.tool_results)]
        group = MessageGroup((reply, *results))
        view = HistoryView(scope=self.session.scope, version=self.log.version, items=(group,))
        items: list[Item] = render_openai_responses(view)["input"]
        return items


def _draft_reply(items: Sequence[Item], agent: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A reply of these items, and its metadata."""
    draft = build_message(f"reply-{uuid.uuid4().hex}", items)
    own = {"openai_agents": {"agent": agent, "items": [item_key(item) for item in items]}}
    named = ShadowMessage(draft.id, {**draft.message, "metadata": own})
    return {**draft.message}, mark_message(named)


def _read_reply(message: Message) -> _Reply:
    own = message.metadata.get("openai_agents")
    keys = own.get("items") if isinstance(own, dict) else None
    return _Reply(message, tuple(map(str, keys if isinstance(keys, list) else ())))


def split_groups(items: Sequence[LoggedItem]) -> Iterator[list[LoggedItem]]:
    """Successive items of one message."""
    group: list[LoggedItem] = []
    for each in items:
        if group and group[-1].group.name != each.group.name:
            yield group
            group = []
        group.append(each)
    if group:
        yield group


def _shadow(group: list[LoggedItem]) -> ShadowMessage:
    about = group[0].group
    message = build_message(about.name, [each.item for each in group])
    if about.digest and len(group) == about.size:
        message.digest = about.digest
    return message


def _makes_call(item: Item, call: str | None) -> bool:
    return is_model_item(item) and call is not None and call_of(item) == call


def _name_item() -> str:
    return f"item-{uuid.uuid4().hex}"


def _outcome_unknown(call: OpenCall) -> OutcomeUnknown:
    return OutcomeUnknown(call=call.id, name=call.name, key=call.key, attempts=call.attempts)
