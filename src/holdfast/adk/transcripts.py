"""The conversations of ADK's sessions as transcripts of Holdfast.

The main conversation of a session has all events that an agent without a branch is shown. An agent in a branch, or in an
isolation scope, has a conversation of its own, in a thread: it sees the main conversation and its own events, but not those
of its siblings. Siblings run at the same time, so their calls and results would be mixed up in one transcript. In the main
conversation their events are told as text, except those from inside a call: its result stands for them.

A branch is no frame: it has no goal, no budget and no end, and it goes on with the next invocation.

Law: recording an event again changes nothing, in any process.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Sequence, Set
from urllib.parse import unquote

from google.adk.events.event import Event

import holdfast
from holdfast.adk.events import belongs_to, call_ids, is_inside_call, is_node_input, live_events, to_messages
from holdfast.adk.names import Conversations, escape_name
from holdfast.errors import CallsOpen, KeyConflict, LocalOnly, PackChanged
from holdfast.frameworks.shadows import Shadow, ShadowMessage, mark_message

_KEPT = 256
"""How many shadows, and how many packs that wait for their reply, are kept in memory."""
_SCOPE_SIGN = "!"
_INSTANCES: weakref.WeakKeyDictionary[object, Transcripts] = weakref.WeakKeyDictionary()
_INSTANCES_LOCK = threading.Lock()


def conversation_key(branch: str | None, scope: str | None) -> str:
    """The name of the conversation for a branch and an isolation scope; empty for the main one."""
    return f"{branch or ''}{_SCOPE_SIGN}{scope}" if scope else branch or ""


def list_messages(events: Sequence[Event], branch: str, scope: str) -> list[ShadowMessage]:
    """The messages of the conversation that an agent in this branch and scope has."""
    messages: list[ShadowMessage] = []
    answered: set[str] = set()
    calls = set() if branch else call_ids(events)
    for event in live_events(events):
        if (
            not belongs_to(event, branch, scope)
            or is_node_input(event)
            or (not branch and is_inside_call(event, calls))
        ):
            continue
        is_foreign = bool(event.branch) and not branch
        for message in to_messages(event, flat=is_foreign):
            messages.append(tell_late_result(message, event, answered))
    return messages


def tell_late_result(message: ShadowMessage, event: Event, answered: set[str]) -> ShadowMessage:
    """A second result for a call, that the client of ADK brings later, is told as text: a call has one result."""
    call = message.message.get("tool_call_id")
    if not isinstance(call, str):
        return message
    if call not in answered:
        answered.add(call)
        return message
    names = {response.id: response.name for response in event.get_function_responses()}
    text = f"[later result of `{names.get(call)}`]\n{message.message['content']}"
    return ShadowMessage(message.id, {"role": "user", "content": text, "metadata": message.message["metadata"]})


class Transcripts:
    """Records events in conversations. All services and plugins of an engine share one: `Transcripts.of(engine)`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._shadows: OrderedDict[tuple[str, ...], Shadow] = OrderedDict()
        self._packs: OrderedDict[str, holdfast.Pack] = OrderedDict()
        self._late: OrderedDict[str, None] = OrderedDict()

    @classmethod
    def of(cls, engine: holdfast.Engine) -> Transcripts:
        """The one of this engine's store; of an engine on a server, its own."""
        try:
            shared: object = engine.store
        except LocalOnly:
            shared = engine
        with _INSTANCES_LOCK:
            return _INSTANCES.setdefault(shared, cls())

    def shadow(self, session: holdfast.Session, *, observe: bool) -> Shadow:
        """The shadow of a conversation."""
        scope = session.scope
        key = (scope.tenant, scope.actor, scope.session, scope.thread or "")
        with self._lock:
            shadow = self._shadows.pop(key, None) or Shadow(session, observe=observe)
            self._shadows[key] = shadow
            while len(self._shadows) > _KEPT:
                self._shadows.popitem(last=False)
            return shadow

    def expect_reply(self, event_id: str, pack: holdfast.Pack) -> None:
        """Remember the pack that an event answers, until the event is recorded."""
        with self._lock:
            self._packs[event_id] = pack
            while len(self._packs) > _KEPT:
                self._packs.popitem(last=False)

    def expect_late_result(self, call_id: str) -> None:
        """Remember that a call runs although it was closed, until its result is recorded."""
        with self._lock:
            self._late[call_id] = None
            while len(self._late) > _KEPT:
                self._late.popitem(last=False)

    def record_event(
        self, conversations: Conversations, names: tuple[str, str, str], event: Event, *, observe: bool
    ) -> None:
        """Record an event that was appended to the session with these names: app, user and id."""
        with self._lock:
            pack = self._packs.pop(event.id, None)
            ids = {each.id for each in event.get_function_responses() if each.id}
            late = {call for call in ids if self._late.pop(call, self) is None}
        main = conversations.branch(*names, "")
        if event.actions.rewind_before_invocation_id:
            rewind(main, event.actions.rewind_before_invocation_id)
            return
        key = conversation_key(event.branch, event.isolation_scope)
        messages = to_messages(event)
        if not messages:
            return
        session = conversations.branch(*names, key) if key else main
        recorded = record_messages(session, event, messages, pack, late)
        open_ids = {call.provider_id or call.id for call in main.open_calls()} if event.branch else ()
        if key and not event.isolation_scope and not is_inside_call(event, open_ids):
            session, recorded = main, record_messages(main, event, to_messages(event, flat=True), None)
        if observe and event.author == "user" and not event.get_function_responses():
            for message in recorded:
                session.observe(message)


def record_messages(
    session: holdfast.Session,
    event: Event,
    messages: Iterable[ShadowMessage],
    pack: holdfast.Pack | None,
    late: Set[str] = frozenset(),
) -> list[holdfast.Message]:
    """Record the messages of an event, once. Results that the plugin has recorded are left out; those of the calls in
    `late` are told as text. Returns the new messages of the user."""
    kept = _leave_known_results(session, event, list(messages), late)
    if not kept:
        return []
    scope = session.scope
    name = "\0".join((scope.actor, scope.session, scope.thread or "", event.id))
    key = f"adk-{hashlib.sha256(name.encode('utf-8', 'replace')).hexdigest()}"
    before = session.state().version
    try:
        if pack is not None and len(kept) == 1 and kept[0].message["role"] == "assistant":
            record_reply(session, kept[0], pack, key=key)
            return []
        marked = [{**each.message, "metadata": mark_message(each)} for each in kept]
        recorded = session.record_all(marked, as_found=True, key=key)
    except KeyConflict:  # it was recorded with its pack, or by another version of this module
        return []
    return [message for message in recorded if message.role == "user" and message.seq > before]


def record_reply(session: holdfast.Session, reply: ShadowMessage, pack: holdfast.Pack, *, key: str | None) -> None:
    """Record a reply with its pack. Calls that ADK left without a result are closed first."""
    message = reply.message
    usage = holdfast.Usage(**message["usage"]) if message.get("usage") else None
    answered: holdfast.Pack | None = pack
    for _ in range(3):
        try:
            session.record(
                "assistant",
                message["content"],
                tool_calls=message.get("tool_calls", ()),
                usage=usage,
                metadata=mark_message(reply),
                pack=answered if answered is not None else False,
                key=key,
            )
        except CallsOpen:
            session.close_calls("ADK went on without a result")
        except PackChanged:
            answered = None
        else:
            return


def rewind(session: holdfast.Session, invocation: str) -> None:
    """Withdraw all from the first message of an invocation on."""
    entries, before = [], None
    while page := session.entries.list(kind="event", parent=escape_name(invocation), before=before, bodies=False):
        entries += page
        before = page[-1].seq
    for entry in reversed(entries):
        name = unquote(entry.key)
        for each in (name, f"{name}/0"):
            message = session.find_message(each)
            if message is not None:
                session.withdraw(after=message.seq - 1, reason="rewound in ADK")
                return


def _leave_known_results(
    session: holdfast.Session, event: Event, messages: list[ShadowMessage], late: Set[str]
) -> list[ShadowMessage]:
    """Leave out results of calls that have one. One that the client brings later is told as text."""
    if not any("tool_call_id" in each.message for each in messages):
        return messages
    waiting = {call.provider_id or call.id for call in session.open_calls()}
    kept: list[ShadowMessage] = []
    for each in messages:
        call = each.message.get("tool_call_id")
        if call is None or call in waiting:
            kept.append(each)
        elif event.author == "user" or call in late:
            kept.append(tell_late_result(each, event, {str(call)}))
    return kept
