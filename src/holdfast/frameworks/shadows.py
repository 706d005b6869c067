"""The shadow of a framework's conversation: a session that has the same messages, so that packs, facts, recovery and
manifests work on it.

A framework gives its whole list of messages each time. `Shadow.follow` records what is new, and withdraws what the
framework took back.

Laws: following the same list again changes nothing, in any process. Nothing is erased: what the framework took back is
withdrawn, and what it cut off at the front stays. A message of the framework is never refused for its order. When a
conversation is recorded for the first time, what the user said before its newest turn is not taken for a statement of now.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import random
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from operator import is_
from typing import Any, NamedTuple

import msgspec

import holdfast
from holdfast import codec
from holdfast.errors import HoldfastError, InvalidArgument, VersionConflict
from holdfast.flows.entries.recordings import record_with_entries
from holdfast.frameworks.engines import is_local, observe_recorded, peek_state
from holdfast.frameworks.lost_runs import describe_lost, is_answer, is_of_run
from holdfast.model import limits
from holdfast.model.names import Scope
from holdfast.model.sessions.messages import Message
from holdfast.model.state import SessionState
from holdfast.types import Entry, NewEntry

_TRIES = 20
"""How often a list is compared again, because another process wrote meanwhile."""
_PAUSE_S = 0.01
"""The longest pause before the third try; the second comes at once, and each further one may be as much longer."""
_PAGE = 1_000
_BATCH = limits.BATCH_MESSAGES // 2
"""Messages of one transaction."""
_DIGEST_CHARS = 16
_SHARED = 10_000
"""The sessions of an engine whose shadows know of each other, in this process."""
RESULT_DIGEST = "tool_message"
"""In the metadata of a result that an adapter recorded when its tool ended: the digest of the message of the framework. A
list with another message for this call has changed the result since: then that one is recorded in its place."""
_UNSEEN = frozenset({"usage", "metadata"})
"""Fields of a message that no model sees."""
_ENCODER = msgspec.json.Encoder(order="deterministic", enc_hook=str)


class ShadowMessage:
    """A message of a framework.

    `name` is its id in the framework: stable, and unique in the conversation. `message` is a dict in a format that
    session.record() accepts; one with a tool result has its `tool_call_id`. `by_content` says that the framework has no
    id for it, and that the name comes from its content."""

    def __init__(self, name: str, message: dict[str, Any], *, by_content: bool = False) -> None:
        self.id = name
        self.message = message
        self.by_content = by_content

    @functools.cached_property
    def digest(self) -> str:
        """A digest of its content: another one means that the framework replaced the message. What models do not see does
        not count: frameworks complete the usage of a message later."""
        seen = {name: value for name, value in self.message.items() if name not in _UNSEEN}
        try:
            content = _ENCODER.encode(seen)
        except (UnicodeError, TypeError, ValueError):
            content = repr(seen).encode("utf-8", "backslashreplace")
        return hashlib.sha256(content).hexdigest()[:_DIGEST_CHARS]

    def __repr__(self) -> str:
        return f"<ShadowMessage {self.id!r}>"


class ShadowOutcome(NamedTuple):
    """What following a list changed."""

    recorded: tuple[Message, ...] = ()
    """The new messages."""
    extra: Sequence[ShadowMessage] = ()
    """Messages at the front that were not recorded: the framework put them before a conversation that is recorded whole.
    Show them with the pack, if they are for the model."""
    withdrawn: int = 0
    """How many messages were withdrawn."""


class _Known(msgspec.Struct, frozen=True):
    """A message of the session, as far as lists are compared with it."""

    seq: int
    id: str
    """The id in the framework; empty if it does not come from the framework."""
    digest: str
    answers: tuple[str, ...] = ()
    """The ids of the calls that it answers: those of the provider."""
    calls: tuple[str, ...] = ()
    is_evidence: bool = False
    """It is kept beside the conversation: it is empty, or answers no call. Lists may have it or not."""
    is_answer: bool = False
    """It is what a tool returned, recorded when the tool ended."""


class _Transcript(msgspec.Struct):
    """The messages of a session outside of frames that are not withdrawn, and the evidence, as of a version."""

    version: int = 0
    messages: int = 0
    evidence: int = 0
    withdrawn: int = 0
    known: list[_Known] = msgspec.field(default_factory=list)
    call_ids: dict[str, str] = msgspec.field(default_factory=dict)
    """The provider's id of each call, by ours."""
    names: set[str] = msgspec.field(default_factory=set)
    """The ids in the framework of all that are known."""
    shown: dict[int, str] = msgspec.field(default_factory=dict)
    """A digest of the parts of each message as they were recorded, by its seq."""
    counted: set[str] = msgspec.field(default_factory=set)
    """The ids in the framework of all messages that were recorded with their usage, also of those that are withdrawn."""
    withdrawn_calls: dict[str, tuple[str, str, str]] = msgspec.field(default_factory=dict)
    """The calls of withdrawn messages, by our ids: the id and the digest of the message, and the provider's id."""
    withdrawn_results: dict[tuple[str, str, str], int] = msgspec.field(default_factory=dict)
    """The seqs of their newest results that say what came of a run, by the same."""

    def add(self, recorded: Iterable[Message]) -> None:
        for message in recorded:
            if message.usage is not None and "framework" in message.metadata:
                self.counted.add(str(message.metadata.get("id") or ""))
            if message.withdrawn and message.frame is None and not message.erased:
                self._add_withdrawn(message)
            if message.withdrawn or message.frame is not None or message.erased:
                continue
            self.shown[message.seq] = digest_parts(message)
            for call in message.tool_calls:
                self.call_ids[call.id] = call.provider_id or call.id
            origin = message.metadata.get("framework")
            fields = origin if isinstance(origin, dict) else {}
            if message.late and not fields:
                continue
            name = str(message.metadata.get("id") or "") if fields else ""
            self.names |= {name} if name else set()
            self.known.append(
                _Known(
                    seq=message.seq,
                    id=name,
                    digest=str(fields.get("digest") or message.metadata.get(RESULT_DIGEST) or ""),
                    answers=tuple(
                        self.call_ids.get(result.tool_call_id, result.tool_call_id) for result in message.tool_results
                    ),
                    calls=tuple(call.provider_id or call.id for call in message.tool_calls),
                    is_evidence=bool(message.late),
                    is_answer=is_answer(message),
                )
            )

    def _add_withdrawn(self, message: Message) -> None:
        origin = message.metadata.get("framework")
        if isinstance(origin, dict):
            name, digest = str(message.metadata.get("id") or ""), str(origin.get("digest") or "")
            for call in message.tool_calls:
                self.withdrawn_calls[call.id] = (name, digest, call.provider_id or call.id)
        if len(message.tool_results) != 1 or not is_of_run(message):
            return
        if call_of := self.withdrawn_calls.get(message.tool_results[0].tool_call_id):
            self.withdrawn_results[call_of] = message.seq


class _Comparison(NamedTuple):
    """What it takes to make the session's conversation that of the framework."""

    new: Sequence[ShadowMessage]
    extra: Sequence[ShadowMessage] = ()
    after: int | None = None
    """Withdraw what comes after this seq; None to withdraw nothing."""


def digest_parts(message: Message) -> str:
    """A digest of what a message shows. It differs if a pack shows the message otherwise than it was recorded."""
    content = codec.encode((message.content, [(each.content, each.is_error) for each in message.tool_results]))
    return hashlib.sha256(content).hexdigest()[:_DIGEST_CHARS]


def name_messages(messages: Iterable[dict[str, Any]]) -> list[ShadowMessage]:
    """Give ids to messages of a framework that has none: from their content, and from how often it came before."""
    named: list[ShadowMessage] = []
    counts: dict[str, int] = {}
    for message in messages:
        digest = ShadowMessage("", message).digest
        counts[digest] = number = counts.get(digest, 0) + 1
        named.append(ShadowMessage(digest if number == 1 else f"{digest}-{number}", message, by_content=True))
    return named


class _Attention:
    """What the shadows of one session in this process share: one follows at a time, so that none builds on a message whose
    facts another has not read yet."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.observed = 0
        """The seq of the newest message of the user whose facts were read."""
        self.point = ""
        """The point from which a run goes on that leads the conversation. See Shadow.lead()."""


_ATTENTIONS: weakref.WeakKeyDictionary[Any, OrderedDict[Scope, _Attention]] = weakref.WeakKeyDictionary()
"""By the cache of each engine: they end with it, so that no later engine is taken for it."""
_ATTENTIONS_LOCK = threading.Lock()


def _share_attention(session: holdfast.Session) -> _Attention:
    with _ATTENTIONS_LOCK:
        attentions = _ATTENTIONS.setdefault(session._context.engine.cache, OrderedDict())
        shared = attentions.setdefault(session.scope, _Attention())
        attentions.move_to_end(session.scope)
        while len(attentions) > _SHARED:
            attentions.popitem(last=False)
        return shared


class Shadow:
    """The session that follows a conversation of a framework. Threads can share it.

    With `observe`, facts are read from new messages of the user; also from the newest one, if the process that recorded it
    died before. Of a list that is the first of the session, only the newest turn is read: what was said earlier may be
    outdated. With `unique_ids`, an id of the framework names one message for ever: what comes later under this id is the
    same reply in another form, and its usage is not counted again. With `spares_started`, a list that takes messages
    back is not followed while a call is started and has no result: who runs the tools tells the model of it first."""

    def __init__(
        self,
        session: holdfast.Session,
        *,
        observe: bool = True,
        unique_ids: bool = False,
        spares_started: bool = False,
    ) -> None:
        self.session = session
        self._spares_started = spares_started
        self._untold: list[dict[str, Any]] = []
        """What models are to be told with the next messages that are recorded."""
        self._observe = observe
        self._unique_ids = unique_ids
        self._transcript = _Transcript()
        self._followed: tuple[Sequence[ShadowMessage], _Transcript, int] | None = None
        """The last list, if nothing of it was left out, and how many messages were known with it."""
        self._unread: list[Message] = []
        """Messages whose facts are not read yet."""
        self._attention = _share_attention(session)
        self._lock = self._attention.lock

    def lead(self, point: str) -> None:
        """From now on, lists of points up to this one are late: the run that goes on from it has followed a newer list. All
        shadows of the session in this process ignore them. Points are ordered as text."""
        with self._lock:
            self._attention.point = point

    def follow(
        self,
        messages: Sequence[ShadowMessage],
        *,
        exact: bool = False,
        continues: bool = False,
        whole: bool = False,
        point: str = "",
        tells_lost: bool = False,
        reopened: Set[str] = frozenset(),
        is_copy: bool = False,
    ) -> ShadowOutcome:
        """Make the conversation of the session that of the framework.

        New messages are recorded. If the list goes on otherwise than the session, the messages that it lacks are withdrawn
        first; with `exact`, also if it merely ends earlier. Results of calls in the list are never withdrawn for that.
        Messages that are missing at the front stay: a framework that cuts its list off has not taken them back. A list that
        shares no message with the session replaces all; with `continues`, it goes on from the end. With `whole`, the list
        begins with the first message of the conversation: nothing is missing at its front. A list of a `point` that is not
        after the one of lead() is ignored. With `tells_lost`, messages that are withdrawn may be of a run that the
        framework has lost: models are told which tools have run in it, in a message of the system before what is new.
        `reopened` are calls that may run now, although they have results: these are withdrawn. `is_copy`: the list is
        that of another session, and no facts are read from it."""

        def compare(known: Sequence[_Known]) -> _Comparison:
            return _compare(known, messages, exact=exact, continues=continues, whole=whole, reopened=reopened)

        with self._lock:
            if point and point <= self._attention.point:
                return ShadowOutcome()
            is_first = not self._load().names
            for attempt in range(_TRIES):
                transcript = self._load()
                compared = self._continue_last(transcript, messages)
                if compared is None:
                    compared = compare(transcript.known)
                if compared.after is not None and self._spares_started and self._has_started_call():
                    return ShadowOutcome()
                try:
                    outcome = self._apply(transcript, compared, compare, tells_lost=tells_lost)
                    is_whole = not outcome.extra and transcript is self._transcript
                    self._followed = (messages, transcript, len(transcript.known)) if is_whole else None
                    if is_copy:
                        self._attention.observed = max(self._attention.observed, self._transcript.version)
                    else:
                        self._unread += _find_newest_turn(outcome.recorded) if is_first else outcome.recorded
                        self.read_facts()
                    return outcome
                except VersionConflict:
                    if attempt == _TRIES - 1:
                        raise
                    time.sleep(random.uniform(0, _PAUSE_S * attempt))  # noqa: S311 - so that others get ahead
        raise AssertionError("the last try returns or raises")

    def _has_started_call(self) -> bool:
        return any(call.attempts and call.frame is None for call in self.session.open_calls())

    def follow_with(
        self,
        messages: Sequence[ShadowMessage],
        build_entries: Callable[[SessionState], Sequence[NewEntry] | None],
        *,
        exact: bool = False,
        point: str = "",
    ) -> list[Entry] | None:
        """As follow(), and append entries in the same transaction; returns them. Call read_facts() afterwards.

        None if nothing was stored: the list has nothing new, it takes more than one transaction, or another one was faster.
        Then append the entries on their own, and call follow(). `build_entries` gets the state that the session still has
        when all is stored; it may raise, and None means that the entries take more than this."""
        with self._lock:
            if not is_local(self.session) or (point and point <= self._attention.point):
                return None
            state = peek_state(self.session)
            transcript = self._load(state)
            compared = self._continue_last(transcript, messages)
            if compared is None:
                compared = _compare(transcript.known, messages, exact=exact, continues=False, whole=False)
            if compared.after is not None or compared.extra or not 0 < len(compared.new) <= _BATCH:
                return None
            entries = build_entries(state)
            if entries is None:
                return None
            is_first = not transcript.names
            batch = [self._mark(each) for each in compared.new]
            flow = record_with_entries(self.session._context, batch, entries, expect=state.version)
            try:
                recorded, appended = self.session._drive(flow)
            except HoldfastError:
                return None
            self._add_stored(recorded, state.version)
            self._followed = (messages, transcript, len(transcript.known)) if transcript is self._transcript else None
            self._unread += _find_newest_turn(recorded) if is_first else recorded
            return appended

    def _continue_last(self, transcript: _Transcript, messages: Sequence[ShadowMessage]) -> _Comparison | None:
        """The comparison, if this is the last list with more at its end, and nothing was recorded beside it: then the
        list need not be walked. None for any other."""
        if self._followed is None:
            return None
        last, read, count = self._followed
        if read is not transcript or count != len(transcript.known) or not 0 < len(last) <= len(messages):
            return None
        end = transcript.known[-1]
        if end.id != last[-1].id or end.is_evidence or not all(map(is_, last, messages)):
            return None
        new = messages[len(last) :]
        answers = (each.message.get("tool_call_id") for each in new)
        return _Comparison(new) if all(call is None or call in end.calls for call in answers) else None

    def hold(self) -> contextlib.AbstractContextManager[object]:
        """While it is held, by this thread, no other shadow of the session in this process follows a list."""
        return self._lock

    def is_current(self) -> bool:
        """Whether no message was recorded or withdrawn since the last list."""
        state, transcript = self.session.state(), self._transcript
        known = (transcript.messages, transcript.evidence, transcript.withdrawn)
        return (state.messages, state.late, state.withdrawn) == known

    def known_ids(self) -> list[str]:
        """The ids of the framework's messages that are in the conversation, oldest first."""
        with self._lock:
            return [each.id for each in self._load().known if each.id]

    def known_names(self) -> Set[str]:
        """The ids of the framework's messages that are in the conversation. It is not copied: it grows later."""
        with self._lock:
            return self._load().names

    def has_other_result(self, call: str) -> bool:
        """Whether the newest result of a call, the id of the provider, is not what its tool returned."""
        with self._lock:
            results = (each for each in reversed(self._load().known) if call in each.answers)
            return (newest := next(results, None)) is not None and not newest.is_answer

    def find_withdrawn_result(self, call: str) -> Message | None:
        """What came of a run of this call, the id of the provider, if its message was recorded before and withdrawn: the
        framework left the branch, and has come back to it."""
        with self._lock:
            if not self._transcript.withdrawn_results:
                return None
            transcript = self._load()
            made = next((each for each in reversed(transcript.known) if call in each.calls), None)
            seq = None if made is None else transcript.withdrawn_results.get((made.id, made.digest, call))
        found = None if seq is None else next(iter(self.session.messages(before=seq + 1, limit=1)), None)
        return found if found is not None and not found.erased else None

    def shows_original(self, message: Message) -> bool:
        """Whether a pack shows this message as it was recorded: then the framework's own object can be shown."""
        return self._transcript.shown.get(message.seq) == digest_parts(message)

    def _load(self, state: SessionState | None = None) -> _Transcript:
        """The transcript as it is now, or in a state that this process knows. Only new messages are read, unless something
        was withdrawn or restored."""
        state, transcript = state or self.session.state(), self._transcript
        if state.version == transcript.version:
            return transcript
        is_older = state.messages < transcript.messages or state.late < transcript.evidence
        if state.withdrawn != transcript.withdrawn or not transcript.version or is_older:
            transcript = self._transcript = _Transcript()
        last = transcript.known[-1].seq if transcript.known else 0
        new = _read_back(self.session.messages, state.version + 1, state.messages - transcript.messages)
        new += _read_back(self.session.evidence, state.version + 1, state.late - transcript.evidence)
        transcript.add(sorted((each for each in new if each.seq > last), key=lambda each: each.seq))
        transcript.version, transcript.withdrawn = state.version, state.withdrawn
        transcript.messages, transcript.evidence = state.messages, state.late
        return transcript

    def _add_stored(self, stored: Sequence[Message], expect: int) -> int:
        """Add what was just recorded at a version; returns the next version. What is not all of it is read instead."""
        transcript = self._transcript
        if transcript.version != expect or not stored or stored[-1].seq != expect + len(stored):
            return self._load().version
        transcript.add(stored)
        late = sum(bool(each.late) for each in stored)
        transcript.version = stored[-1].seq
        transcript.messages, transcript.evidence = transcript.messages + len(stored) - late, transcript.evidence + late
        return transcript.version

    def _apply(
        self,
        transcript: _Transcript,
        compared: _Comparison,
        compare: Callable[[Sequence[_Known]], _Comparison],
        *,
        tells_lost: bool,
    ) -> ShadowOutcome:
        withdrawn = 0
        expect = transcript.version
        if compared.after is not None:
            taken = self.session.withdraw(after=compared.after, reason="taken back by the framework", expect=expect)
            gone = taken.messages if taken is not None else ()
            withdrawn = len(gone)
            left = self._load()
            expect = left.version
            stayed = {each.seq for each in transcript.known if each.seq <= compared.after}
            if not stayed <= {each.seq for each in left.known}:  # calls were withdrawn with their results
                compared = compared._replace(new=compare(left.known).new)
            if tells_lost and (text := describe_lost(gone, _list_calls(compared.new))):
                self._untold.append({"role": "system", "content": text})
        recorded: list[Message] = []
        new = [*self._untold, *(self._mark(each) for each in compared.new)]
        for start in range(0, len(new), _BATCH):
            stored = self.session.record_all(new[start : start + _BATCH], as_found=True, expect=expect)
            self._untold.clear()
            expect = self._add_stored(stored, expect)
            recorded += stored
        return ShadowOutcome(tuple(recorded), compared.extra, withdrawn)

    def _mark(self, message: ShadowMessage) -> dict[str, Any]:
        marked = {**message.message, "metadata": mark_message(message)}
        if self._unique_ids and not message.by_content and message.id in self._transcript.counted:
            marked.pop("usage", None)
        return marked

    def read_facts(self) -> None:
        """Read facts from what the user said, once for each message."""
        with self._lock:
            recorded, self._unread = self._unread, []
            if not self._observe:
                return
            newest = recorded or (self.session.messages(limit=1) if not self._attention.observed else ())
            for message in newest:
                if message.role == "user" and not message.late and message.seq > self._attention.observed:
                    with contextlib.suppress(InvalidArgument):  # another process has withdrawn it meanwhile
                        observe_recorded(self.session, message)
                    self._attention.observed = message.seq
            self._attention.observed = self._attention.observed or self._transcript.version


def _find_newest_turn(messages: Sequence[Message]) -> Sequence[Message]:
    """The last messages of the user, up to the reply before them, with all that comes after."""
    start = len(messages)
    for place in range(len(messages) - 1, -1, -1):
        if messages[place].role == "user":
            start = place
        elif messages[place].role == "assistant" and start < len(messages):
            break
    return messages[start:]


def _list_calls(messages: Iterable[ShadowMessage]) -> set[object]:
    """The ids of the calls in messages of a framework, also of those that are only answered there."""
    calls = {call.get("id") for each in messages for call in each.message.get("tool_calls", ())}
    return calls | {each.message.get("tool_call_id") for each in messages}


def _read_back(read: Callable[..., list[Message]], before: int, count: int) -> list[Message]:
    """The last messages before this seq."""
    messages: list[Message] = []
    while count > 0 and (page := read(before=before, limit=min(_PAGE, count))):
        messages += page
        before, count = page[0].seq, count - len(page)
    return messages


def mark_message(message: ShadowMessage) -> dict[str, Any]:
    """The metadata by which a recorded message is found again: pass it to session.record()."""
    own = message.message.get("metadata")
    return {**(own if isinstance(own, dict) else {}), "id": message.id, "framework": {"digest": message.digest}}


def _compare(
    known: Sequence[_Known],
    messages: Sequence[ShadowMessage],
    *,
    exact: bool,
    continues: bool,
    whole: bool,
    reopened: Set[str] = frozenset(),
) -> _Comparison:
    """Compare a list with the conversation. Both are walked once from the first message that they share."""
    places = {each.id: place for place, each in enumerate(known) if each.id}
    start = next((number for number, each in enumerate(messages) if each.id in places), None)
    if start is None:
        return _Comparison(messages) if continues else _continue(known, 0, messages, set(), exact=exact)
    place = places[messages[start].id]
    if whole:
        start = place = 0
    front = messages[:start]
    dropped = any(each.id for each in known[:place])
    stale = _find_stale(known, messages)
    stale |= {each.seq for each in known if not reopened.isdisjoint(each.answers)}
    listed = {each.id for each in messages}
    at, number = place, start
    passed: set[str] = set()  # calls of the current group whose results were recorded beside the list, in any order
    while number < len(messages):
        message = messages[number]
        if message.message.get("tool_call_id") in passed:
            number += 1
            continue
        while (
            at < len(known)
            and (_is_beside(known[at]) or (known[at].answers and known[at].id not in listed))
            and not _matches(known[at], message)
            and known[at].seq not in stale
        ):
            passed.update(() if known[at].is_evidence else known[at].answers)
            at += 1
        if at == len(known) or not _matches(known[at], message) or known[at].seq in stale:
            break
        passed = _find_answers_beside(known, at) if known[at].calls else passed | {*known[at].answers}
        at, number = at + 1, number + 1
    compared = _continue(known, at, messages[number:], passed, exact=exact, stale=stale)
    return _Comparison(compared.new, () if dropped else tuple(front), compared.after)


def _find_stale(known: Sequence[_Known], messages: Sequence[ShadowMessage]) -> set[int]:
    """The seqs of results that a list has otherwise than they were recorded when their tools ended. Of several results for
    one id, those that are the same on both sides belong together, and of the others the last ones."""
    results: dict[str, list[_Known]] = {}
    for each in known:
        if each.digest and not each.id and len(each.answers) == 1:
            results.setdefault(each.answers[0], []).append(each)
    answers: dict[str, list[str]] = {}
    for message in messages if results else ():
        call = message.message.get("tool_call_id")
        if call in results:
            answers.setdefault(str(call), []).append(message.digest)
    stale: set[int] = set()
    for call, digests in answers.items():
        left = [each for each in results[call] if not _take(digests, each.digest)]
        stale.update(each.seq for each in left[max(0, len(left) - len(digests)) :])
    return stale


def _take(digests: list[str], digest: str) -> bool:
    """Whether a digest was among these; it is taken out."""
    if digest not in digests:
        return False
    digests.remove(digest)
    return True


def _find_answers_beside(known: Sequence[_Known], at: int) -> set[str]:
    """The calls of the message at `at` whose results were recorded beside the list, also behind messages that another one
    recorded meanwhile: the list has each of them next to its call."""
    answers: set[str] = set()
    for each in known[at + 1 :]:
        if each.calls:
            break
        if not each.id and not each.is_evidence:
            answers.update(each.answers)
    return answers & {*known[at].calls}


def _continue(
    known: Sequence[_Known],
    at: int,
    rest: Sequence[ShadowMessage],
    passed: set[str],
    *,
    exact: bool,
    stale: Set[int] = frozenset(),
) -> _Comparison:
    """Both agree up to `at`. Results of the calls there belong to the list, wherever the framework has them."""
    calls = next((each.calls for each in reversed(known[:at]) if each.calls), ())
    answered = {*passed}
    while at < len(known) and (_is_beside(known[at]) or {*known[at].answers} & {*calls}) and known[at].seq not in stale:
        answered.update(() if known[at].is_evidence else known[at].answers)
        at += 1
    new = tuple(_leave_answers(rest, answered))
    if at == len(known) or (not new and not exact):
        return _Comparison(new)
    return _Comparison(new, after=next((each.seq for each in reversed(known[:at]) if not each.is_evidence), 0))


def _leave_answers(rest: Sequence[ShadowMessage], answered: set[str]) -> Iterator[ShadowMessage]:
    """The messages without results of calls that have one. A later call may have the id of an earlier one."""
    for each in rest:
        answered = answered - {call.get("id") for call in each.message.get("tool_calls", ())}
        if each.message.get("tool_call_id") not in answered:
            yield each


def _is_beside(known: _Known) -> bool:
    """Whether lists need not have this message."""
    return not known.id or known.is_evidence


def _matches(known: _Known, message: ShadowMessage) -> bool:
    if known.id:
        return known.id == message.id and known.digest == message.digest
    return _answers(known, message)


def _answers(known: _Known, message: ShadowMessage) -> bool:
    """Whether this is the recorded result of the same call: the tool's adapter recorded it when the tool ended."""
    return message.message.get("tool_call_id") in known.answers
