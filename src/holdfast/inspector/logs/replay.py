"""Replay a log into a session: before every reply, build the pack that Holdfast would have sent, and record the reply
with it.

Laws: the clock shows the time of the log. What the log took back is withdrawn; what its program left out or
summarized is not: Holdfast has its own view. A message that a session refuses is recorded in short. Nothing is sent
to a model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

import holdfast
from holdfast.errors import HoldfastError
from holdfast.inspector.logs.entries import LogEntry
from holdfast.inspector.logs.traces import is_same_call
from holdfast.model import limits
from holdfast.model.history.plans import PlanPolicy
from holdfast.model.packs.pack import PREFIX_SECTIONS
from holdfast.model.policy import Policy
from holdfast.model.sessions.messages import Message
from holdfast.render.pack import Pack
from holdfast.storage.sqlite.store import SqliteStore

SURE = 0.9
"""Only corrections that the detector is this sure of change a fact: a wrong accusation is worse than a missed one."""
PACKS = 1_000
"""A log with more calls gets packs at even distances, so many in all."""
GROWTH_SHARE = 0.02
"""Between two of these, no more than this share of the window is added."""
OBSERVED_CHARS = 20_000
"""Longer prompts are recorded, but no facts are read from them."""
_NEAR_CHARS = 60
"""How much of a line is quoted on each side of a value."""
_SHORT_CHARS = 100_000
_STEP_US = 1_000_000
"""Between the entries of a log without times."""


class LogClock:
    """Shows the time of the log."""

    def __init__(self) -> None:
        self.us = 0

    def now_us(self) -> int:
        return self.us


def open_scratch(path: str | os.PathLike[str], clock: LogClock, *, policy: PlanPolicy | None = None) -> holdfast.Engine:
    """Open an engine for a replay on a new file: a scratch store, which a power failure may damage."""
    store = SqliteStore(os.fspath(path), synchronous="OFF")
    return holdfast.open(store, clock=clock, compaction=policy, policy=Policy(apply_from=SURE))


class PackFigures(msgspec.Struct, frozen=True):
    """The tokens of a pack, by the engine's counter."""

    counted: int
    shared: int
    """At the front, the same as in the pack before."""
    passing: int
    """Behind the conversation."""
    is_built: bool = True
    """False for a call between two packs: the figures are those of the pack before, and what came since."""


class DeadFact(msgspec.Struct, frozen=True):
    """A superseded fact, with the seqs of the messages that state and end it."""

    key: str
    value: str
    words: str
    """The part of the message that states the value: it is in there as it is."""
    at: int
    died_at: int
    by: str


class ThreadReplay(msgspec.Struct):
    """What came of a thread."""

    seqs: list[int] = msgspec.field(default_factory=list)
    """The message of each entry; 0 for one that is not recorded."""
    tokens: list[int] = msgspec.field(default_factory=list)
    """The tokens of each, in full, by the engine's counter."""
    packs: list[PackFigures | None] = msgspec.field(default_factory=list)
    """Of each call; None where no pack could be built."""
    facts: list[DeadFact] = msgspec.field(default_factory=list)
    shortened: int = 0
    """Messages that were recorded in short."""
    refusal: str = ""
    """Why a pack could not be built, if any was."""


class ReplayOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a log is replayed."""

    budget: int
    model: str = ""
    step: int = 1
    """A pack is built for one call in so many."""
    overheads: dict[str, int] = msgspec.field(default_factory=dict)
    """By thread: tokens that are in every prompt and not in the log. The budget is less by so many."""


def replay_entries(
    entries: Iterable[LogEntry],
    open_session: Callable[[str], holdfast.Session],
    clock: LogClock | None,
    options: ReplayOptions,
) -> dict[str, ThreadReplay]:
    """Replay all entries. `open_session` opens the session of a thread."""
    threads: dict[str, _ThreadReplayer] = {}
    for entry in entries:
        if entry.thread not in threads:
            budget = max(limits.PACK_TOKENS, options.budget - options.overheads.get(entry.thread, 0))
            thread = _ThreadReplayer(open_session(entry.thread), clock, options, budget)
            threads[entry.thread] = thread
        threads[entry.thread].add(entry)
    return {name: thread.finish() for name, thread in threads.items()}


class _ThreadReplayer:
    """Replays one thread."""

    def __init__(self, session: holdfast.Session, clock: LogClock | None, options: ReplayOptions, budget: int) -> None:
        self._session, self._clock, self._options = session, clock, options
        self._budget = budget
        self._waiting: list[LogEntry] = []
        self._done = ThreadReplay()
        self._last: LogEntry | None = None
        self._open: set[str] = set()
        self._us = 0
        self._calls = 0
        self._before: Pack | None = None
        self._built = PackFigures(0, 0, 0)
        self._since = 0
        """Tokens that were recorded since the last pack."""

    def add(self, entry: LogEntry) -> None:
        if entry.kind != "reply":
            self._waiting.append(entry)
            return
        self._flush()
        is_new = self._last is None or not is_same_call(self._last.figures, entry.figures)
        pack = self._build_pack(entry) if is_new else None
        self._tell_time(entry)
        self._record_reply(entry, pack, is_new=is_new)
        self._last = entry

    def finish(self) -> ThreadReplay:
        self._flush()
        self._done.facts = list(_find_dead_facts(self._session))
        return self._done

    def _tell_time(self, entry: LogEntry) -> None:
        if self._clock is not None:
            self._us = max(self._us, entry.time_us) if entry.time_us else (self._us or self._clock.us) + _STEP_US
            self._clock.us = self._us

    # Messages

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        for entry in waiting:
            self._tell_time(entry)
            if entry.is_rewind and entry.keep is not None:
                self._rewind(entry.keep)
            if entry.kind == "summary" and any(self._done.seqs):
                self._note(0, 0)  # Holdfast still has what it summarizes
                continue
            messages = self._record_entry(entry)
            message = messages[-1] if messages else None
            self._note(message.seq if message else 0, sum(each.whole_tokens for each in messages))
            self._open -= {result.call for result in entry.results}
            if entry.kind == "prompt" and message is not None and len(entry.text) <= OBSERVED_CHARS:
                self._observe(message)

    def _note(self, seq: int, tokens: int) -> None:
        self._done.seqs.append(seq)
        self._done.tokens.append(tokens)
        self._since += tokens

    def _rewind(self, keep: list[int]) -> None:
        last = max((self._done.seqs[index] for index in keep if index < len(self._done.seqs)), default=0)
        if last:
            self._session.withdraw(after=last, reason="taken back in the log")
            self._open = set()

    def _record_entry(self, entry: LogEntry) -> list[Message]:
        for shorten in (False, True):
            try:
                recorded = self._session.record_all(_build_messages(entry, shorten), as_found=True)
                self._done.shortened += shorten
                return recorded
            except HoldfastError:
                continue
        self._done.shortened += 1
        return []

    def _observe(self, message: Message) -> None:
        """Read facts from a prompt. Plain statements, which would wait for a decision, are accepted."""
        for each in self._session.observe(message).proposals:
            if each.outcome == "asked" and each.proposal.change == "assert" and each.id:
                self._session.facts.accept(each.id)

    # Replies

    def _build_pack(self, entry: LogEntry) -> Pack | None:
        """The pack of this call; its figures are noted in any case."""
        options = self._options
        number, self._calls = self._calls, self._calls + 1
        if self._before is not None and number % options.step and self._since < GROWTH_SHARE * self._budget:
            self._done.packs.append(_grow(self._done.packs[-1], self._built, self._since))
            return None
        model = entry.figures.model or options.model
        try:
            pack = self._session.pack(budget=self._budget, model=model or None)
        except HoldfastError as error:
            self._done.refusal = type(error).__name__
            self._done.packs.append(None)
            return None
        self._built = measure_pack(self._before, pack)
        self._done.packs.append(self._built)
        self._before, self._since = pack, 0
        return pack

    def _record_reply(self, entry: LogEntry, pack: Pack | None, *, is_new: bool) -> None:
        if self._open:
            self._session.close_calls("the log has no result")
        usage = entry.figures.usage if is_new else None
        message: Message | None = None
        for shorten in (False, True):
            calls: list[dict[str, Any]] = [_build_call(call, shorten) for call in _unique_calls(entry)]
            text = entry.text[:_SHORT_CHARS] if shorten else entry.text
            try:
                message = self._session.record(
                    "assistant", text, tool_calls=calls, usage=usage, pack=pack or False, metadata=_mark(entry)
                )
                self._done.shortened += shorten
                break
            except HoldfastError:
                continue
        self._done.shortened += message is None
        self._open = {call.id for call in entry.calls} if message is not None and not message.skipped else set()
        self._note(message.seq if message else 0, message.whole_tokens if message else 0)


def _mark(entry: LogEntry) -> dict[str, Any]:
    return {"log": {"line": entry.line}}


def _unique_calls(entry: LogEntry) -> list[Any]:
    return list({call.id: call for call in entry.calls}.values())[: limits.MESSAGE_CALLS]


def _build_call(call: Any, shorten: bool) -> dict[str, Any]:
    args = {"shortened": str(call.args)[:1_000]} if shorten else call.args
    return {"id": call.id, "name": call.name, "args": args}


def _build_messages(entry: LogEntry, shorten: bool) -> list[dict[str, Any]]:
    most = _SHORT_CHARS if shorten else None
    text = entry.text[:most]
    messages: list[dict[str, Any]] = [
        {
            "role": "tool",
            "tool_results": [{"tool_call_id": result.call, "result": result.text[:most], "is_error": result.is_error}],
            "metadata": _mark(entry),
        }
        for result in entry.results
    ]
    if text.strip() and entry.kind != "result":
        role = "system" if entry.kind == "system" else "user"
        messages.append({"role": role, "content": text, "metadata": _mark(entry)})
    elif text.strip():
        messages.append({"role": "user", "content": text, "metadata": _mark(entry)})
    return messages


def measure_pack(before: Pack | None, pack: Pack) -> PackFigures:
    """The figures of a pack: what it shares with the one before are equal items at the front."""
    breakdown = pack.tokens.breakdown
    items = pack.history.items
    history = sum(item.tokens for item in items)
    prefix = sum(breakdown.get(section, 0) for section in PREFIX_SECTIONS)
    passing = max(0, pack.tokens.counted - history - prefix)
    shared = 0
    if before is not None:
        shared = prefix
        for one, other in zip(before.history.items, items, strict=False):
            if one is not other and one != other:
                break
            shared += other.tokens
    return PackFigures(pack.tokens.counted, min(shared, pack.tokens.counted), passing)


def _grow(before: PackFigures | None, built: PackFigures, since: int) -> PackFigures:
    """The figures of a call between two packs: its prompt is the pack before and what came since."""
    shared = 0 if before is None else before.counted - before.passing
    return PackFigures(built.counted + since, shared, built.passing, is_built=False)


def _find_dead_facts(session: holdfast.Session) -> Iterable[DeadFact]:
    """The superseded facts whose value a message of the session states."""
    ledger = session.ledger()
    after = None
    while page := ledger.items(status="dead", after=after):
        after = page[-1]
        for fact in page:
            successor = ledger.fact(fact.superseded_by) if fact.superseded_by else None
            if fact.status != "superseded" or successor is None or successor.source.turn is None:
                continue
            value, new = _text_of(fact.value), _text_of(successor.value)
            for at in sorted({mention.seq for mention in fact.mentions} or {fact.source.turn or 0}):
                found = session.messages(before=at + 1, limit=1) if at else []
                if found and found[0].seq == at and value and value in found[0].text:
                    words = _cut_words(found[0].text, value)
                    by = f"{fact.key} is {new[:120]} since"
                    yield DeadFact(fact.key, value, words, at, successor.source.turn, by)
                    break


def _cut_words(text: str, value: str) -> str:
    """The line that has a value, and of a long line what is near the value."""
    start = text.index(value)
    end = start + len(value)
    first = max(text.rfind("\n", 0, start) + 1, start - _NEAR_CHARS)
    line_end = text.find("\n", end)
    last = min(len(text) if line_end < 0 else line_end, end + _NEAR_CHARS)
    before = "…" if first and text[first - 1] != "\n" else ""
    after = "…" if last < len(text) and text[last] != "\n" else ""
    return f"{before}{text[first:last]}{after}"


def _text_of(value: object) -> str:
    return value if type(value) is str else msgspec.json.encode(value).decode()
