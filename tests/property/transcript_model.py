"""A transcript in plain Python: what any sequence of commands must come to, said without the engine's own words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from hypothesis import strategies as st

from holdfast import errors
from holdfast.model import limits

TOOL = "t"
CALL_TOKENS = len(TOOL) + len("{}")
TIMEOUT_US = 1_000_000_000

Kind = Literal[
    "created", "message", "evidence", "summary", "reset", "closed", "timed_out", "destroyed", "acknowledged", "erasure"
]
ENDS = ("reset", "closed", "timed_out", "destroyed")


class Say(NamedTuple):
    role: Literal["system", "user", "assistant"]
    text: str


class Ask(NamedTuple):
    """The assistant calls tools, each with the provider's id, if it has one."""

    text: str
    own: tuple[str | None, ...]


class Answer(NamedTuple):
    """Results in one message. Which calls they name is picked by number when the time comes, and is then a name."""

    results: tuple[tuple[int | str, str, bool], ...]


class Empty(NamedTuple):
    role: Literal["user", "assistant", "tool"]


Item: TypeAlias = Say | Ask | Answer | Empty


class Record(NamedTuple):
    items: tuple[Item, ...]
    as_found: bool = False


class Abandon(NamedTuple):
    reason: str


class Summarise(NamedTuple):
    """Ends are picked by number, counted back from the newest event; `back` is how old the draft is."""

    first: int
    last: int
    back: int
    text: str


class Reset(NamedTuple):
    keep_system: bool


class Close(NamedTuple):
    pass


class Expire(NamedTuple):
    idle_us: int


class Destroy(NamedTuple):
    offload: bool


class Erase(NamedTuple):
    picks: tuple[int, ...]


Command: TypeAlias = Record | Abandon | Summarise | Reset | Close | Expire | Destroy | Erase

_texts = st.sampled_from(["hi", "hello there", "wörld ☃", "x" * 40])
_own = st.sampled_from([None, None, "p", "q", "r", "c999_0"])
_picks = st.integers(0, 200)

says = st.builds(Say, st.sampled_from(["user", "user", "assistant", "assistant", "system"]), _texts)
asks = st.builds(Ask, _texts | st.just(""), st.lists(_own, min_size=1, max_size=3).map(tuple))
answers = st.builds(
    Answer, st.lists(st.tuples(_picks, _texts | st.just(""), st.booleans()), min_size=1, max_size=3).map(tuple)
)
items = says | says | asks | answers | answers
_found = items | st.builds(Empty, st.sampled_from(["user", "assistant", "tool"]))
one_at_a_time = items.map(lambda item: Record((item,)))
batches = st.builds(Record, st.lists(items, min_size=2, max_size=5).map(tuple), st.just(False))
found = st.builds(Record, st.lists(_found, min_size=1, max_size=5).map(tuple), st.just(True))
abandons = st.builds(Abandon, st.sampled_from(["interrupted", "gone"]))
summaries = st.builds(
    Summarise,
    st.integers(0, 30),
    st.integers(0, 8),
    st.sampled_from([0, 0, 0, 0, 1, 3]),
    st.sampled_from(["s", "s", "so", " ", "y" * 30, "z" * 500]),
)
resets = st.builds(Reset, st.booleans())
erasures = st.builds(Erase, st.lists(st.integers(0, 40), min_size=1, max_size=3).map(tuple))
_ordinary = one_at_a_time | one_at_a_time | one_at_a_time | batches | abandons
_rare = summaries | summaries | erasures | resets | found
commands: st.SearchStrategy[Command] = _ordinary | _ordinary | _ordinary | _rare
ends = st.builds(Close) | st.builds(Expire, st.sampled_from([1, TIMEOUT_US])) | st.builds(Destroy, st.booleans())


@dataclass(frozen=True)
class Entry:
    """An event as the model remembers it; whether it was erased is the transcript's to know."""

    kind: Kind
    role: str = ""
    text: str = ""
    calls: tuple[tuple[str, str | None], ...] = ()
    results: tuple[tuple[str, str, bool], ...] = ()
    tokens: int = 0
    closing: bool = False
    reason: str = ""
    first: int = 0
    last: int = 0
    count: int = 0
    keep_system: bool = True
    seqs: tuple[int, ...] = ()


class ViewItem(NamedTuple):
    """What a view may show: a unit, or a summary."""

    first: int
    seqs: tuple[int, ...]
    tokens: int
    cut: bool
    """Whether a view had better begin here."""
    summary: bool = False
    messages: int = 0


class TranscriptRefusal(Exception):
    """Any one of these is a fitting answer."""

    def __init__(self, *fitting: type[errors.HoldfastError]) -> None:
        super().__init__(*fitting)
        self.errors = fitting


def group(call: str) -> int:
    """The seq of the message that made this call, which its id tells; 0 for a name that is no id."""
    match = re.fullmatch(r"c([1-9]\d*)_(0|[1-9]\d*)", call)
    return int(match[1]) if match else 0


class Transcript:
    """One session. Everything but the entries and what was erased is found out anew each time it is asked for."""

    def __init__(self) -> None:
        self.entries: list[Entry] = [Entry("created")]
        self.erased: set[int] = set()
        self.done: set[int] = set()
        self.horizon = 0
        """Where the batch began that is being recorded: what came before it is found by looking back only so far."""

    def copy(self) -> Transcript:
        new = Transcript()
        new.entries, new.erased, new.done = [*self.entries], {*self.erased}, {*self.done}
        return new

    # What it is

    @property
    def version(self) -> int:
        return len(self.entries)

    @property
    def status(self) -> str:
        last = [entry.kind for entry in self.entries if entry.kind in ENDS and entry.kind != "reset"][-1:]
        return {"destroyed": "destroyed"}.get(last[0], "closed") if last else "open"

    @property
    def start(self) -> int:
        return max((seq for seq, entry in self.numbered() if entry.kind == "reset"), default=0)

    @property
    def changed(self) -> int:
        kinds = ("reset", "summary", "erasure")
        return max((seq for seq, entry in self.numbered() if entry.kind in kinds), default=0)

    def numbered(self) -> Iterator[tuple[int, Entry]]:
        return enumerate(self.entries, 1)

    def readable(self, kind: Kind) -> list[tuple[int, Entry]]:
        return [(seq, entry) for seq, entry in self.numbered() if entry.kind == kind and seq not in self.erased]

    @property
    def open_calls(self) -> dict[str, str | None]:
        waiting: dict[str, str | None] = {}
        for _, entry in self.readable("message"):
            waiting |= dict(entry.calls)
            for call, _, _ in entry.results:
                waiting.pop(call, None)
        return waiting

    @property
    def pinned(self) -> list[int]:
        pinned: list[int] = []
        for seq, entry in self.numbered():
            if entry.kind == "reset" and not entry.keep_system:
                pinned = []
            elif entry.kind == "message" and entry.role == "system" and seq not in self.erased:
                pinned.append(seq)
        return pinned

    @property
    def in_effect(self) -> list[tuple[int, Entry]]:
        """The summaries that stand for something, in order."""
        found: list[tuple[int, Entry]] = []
        for seq, entry in self.numbered():
            if entry.kind == "reset":
                found = []
            elif entry.kind == "summary" and seq not in self.erased:
                found = [each for each in found if not entry.first <= each[1].first <= entry.last] + [(seq, entry)]
        return sorted(found, key=lambda each: each[1].first)

    def stretch(self, first: int, last: int) -> list[tuple[int, Entry]]:
        """What is shown from one seq to another: summaries, and messages that none of them stands for."""
        summaries = [each for each in self.in_effect if first <= each[1].first and each[1].last <= last]
        messages = [
            (seq, entry)
            for seq, entry in self.readable("message")
            if first <= seq <= last
            and entry.role != "system"
            and not any(each.first <= seq <= each.last for _, each in summaries)
        ]
        return summaries + messages

    @property
    def shown(self) -> list[ViewItem]:
        """What a view may show, in order: no unit with a call that waits."""
        units: dict[int, list[int]] = {}
        found: list[ViewItem] = []
        for seq, entry in self.stretch(self.start + 1, self.version):
            if entry.kind == "summary":
                found.append(ViewItem(entry.first, (seq,), entry.tokens, True, True, entry.count))
            else:
                units.setdefault(group(entry.results[0][0]) if entry.results else seq, []).append(seq)
        waiting = {group(call) for call in self.open_calls}
        for first, seqs in units.items():
            if first not in waiting:
                tokens = sum(self.entries[seq - 1].tokens for seq in seqs)
                found.append(
                    ViewItem(first, tuple(seqs), tokens, self.entries[first - 1].role == "user", False, len(seqs))
                )
        return sorted(found)

    @property
    def live(self) -> int:
        """Messages since the last reset, those of the system not counted."""
        return sum(seq > self.start and entry.role != "system" for seq, entry in self.readable("message"))

    @property
    def offers(self) -> list[tuple[int, str, int, int]]:
        """What waits for long-term memory: the entry, why, and from where to where."""
        found: list[tuple[int, str, int, int]] = []
        offered = 0
        for seq, entry in self.numbered():
            if entry.kind in ENDS:
                said = any(each.kind in ("message", "evidence") for each in self.entries[offered : seq - 1])
                if said and entry.reason != "not to be kept" and seq not in self.done:
                    found.append((seq, entry.kind, offered + 1, seq - 1))
                offered = seq
        return found

    # What becomes of a command

    def resolved(self, command: Command) -> Command:
        """With names in the place of picks. Each message of a batch is looked at after those before it."""
        if not isinstance(command, Record):
            return command
        ahead, known = self.copy(), list[Item]()
        for item in command.items:
            if isinstance(item, Answer):
                item = Answer(tuple((ahead.name(pick), text, wrong) for pick, text, wrong in item.results))
            known.append(item)
            try:
                ahead.take(item, as_found=command.as_found)
            except TranscriptRefusal:
                continue
        return Record(tuple(known), command.as_found)

    def name(self, pick: int | str) -> str:
        if isinstance(pick, str):
            return pick
        likely = [name for call in self.open_calls.items() for name in call if name is not None]
        if likely and pick % 5:
            return likely[pick % len(likely)]
        ever = [name for entry in self.entries for call in entry.calls for name in call if name is not None]
        unlikely = [*ever, *ever, "nowhere", "c1_0", f"c{self.version + 1}_0"]
        return unlikely[pick % len(unlikely)]

    def apply(self, command: Command) -> Transcript:
        """The transcript after a command; Refused if it is not to be carried out. This one stays as it is."""
        after = self.copy()
        if self.status == "destroyed" and not isinstance(command, Destroy):
            raise TranscriptRefusal(errors.SessionDestroyedError)
        match command:
            case Record(items, as_found):
                after.horizon = self.version
                after.record(items, as_found=as_found)
                after.horizon = 0
            case Abandon(reason):
                after.close_calls(reason)
            case Summarise():
                after.entries.append(self.summary(command))
            case Erase():
                after.erase(self.seqs(command))
            case Reset(keep_system):
                if self.status == "closed":
                    raise TranscriptRefusal(errors.SessionClosedError)
                after.end(Entry("reset", reason="again", keep_system=keep_system))
            case Close() if self.status == "open":
                after.end(Entry("closed", reason="done"))
            case Expire(idle_us) if self.status == "open" and idle_us >= TIMEOUT_US and 1 not in self.erased:
                after.end(Entry("timed_out", reason="the session was idle for too long"))
            case Destroy(offload) if self.status != "destroyed":
                after.end(Entry("destroyed", reason="over" if offload else "not to be kept"))
        return after

    def record(self, items: Sequence[Item], *, as_found: bool) -> None:
        """In a closed session, it does not matter which message of a batch is complained of."""
        try:
            for item in items:
                self.take(item, as_found=as_found)
        except TranscriptRefusal as refused:
            if self.status != "closed" or len(items) == 1:
                raise
            raise TranscriptRefusal(
                *refused.errors, errors.Conflict, errors.NotFound, errors.InvalidArgument
            ) from refused

    def take(self, item: Item, *, as_found: bool) -> None:
        match item:
            case Empty():
                if not as_found:
                    raise TranscriptRefusal(errors.InvalidArgument)
                self.entries.append(Entry("evidence", role=item.role))
            case Answer(results):
                self.answer([(self.name(call), text, wrong) for call, text, wrong in results], as_found=as_found)
            case Say(role, text):
                self.say(role, text, (), as_found=as_found)
            case Ask(text, own):
                self.say("assistant", text, own, as_found=as_found)

    def say(self, role: str, text: str, own: Sequence[str | None], *, as_found: bool) -> None:
        wrong: list[type[errors.HoldfastError]] = []
        given = [name for name in own if name is not None]
        if len({*given}) != len(given):
            wrong.append(errors.InvalidArgument)
        if self.status == "closed":
            wrong.append(errors.SessionClosedError)
        if role == "assistant" and self.open_calls and not as_found:
            wrong.append(errors.CallsOpen)
        if wrong:
            raise TranscriptRefusal(*wrong)
        if role == "assistant":
            self.close_calls("the log has none")
        calls = tuple((f"c{self.version + 1}_{at}", name) for at, name in enumerate(own))
        tokens = len(text) + CALL_TOKENS * len(calls)
        self.entries.append(Entry("message", role=role, text=text, calls=calls, tokens=tokens))

    def answer(self, results: Sequence[tuple[str, str, bool]], *, as_found: bool) -> None:
        taken: list[tuple[str, str, bool]] = []
        late: list[tuple[str, str, bool]] = []
        for name, text, wrong in results:
            call = self.waiting_for(name)
            if call is not None and call not in [each for each, _, _ in taken]:
                taken.append((call, text, wrong))
                continue
            fate = (call, "answered") if call is not None else self.fate(name)
            if not as_found and fate is None:
                raise TranscriptRefusal(errors.CallNotFound)
            if not as_found and fate is not None and fate[1] == "answered":
                raise TranscriptRefusal(errors.CallAnswered)
            late.append((fate[0] if fate else name, text, wrong))
        tokens = sum(len(text) for _, text, _ in results)
        if taken:
            self.entries.append(Entry("message", role="tool", results=tuple(taken), tokens=tokens))
            tokens = 0
        for each in late:
            self.entries.append(Entry("evidence", role="tool", results=(each,), tokens=tokens))
            tokens = 0

    def waiting_for(self, name: str) -> str | None:
        waiting = self.open_calls
        return name if name in waiting else next((call for call, own in waiting.items() if own == name), None)

    def fate(self, name: str) -> tuple[str, str] | None:
        """The newest call of this name that ever was, and what became of it. By the provider's id it is found only among
        the newest messages, and by one that reads like ours, only within its batch."""
        messages = self.readable("message")
        horizon = self.horizon or self.version
        behind = [seq for seq, entry in self.numbered() if entry.kind == "message" and seq <= horizon]
        seen_from = behind[-limits.READ_EVENTS :][0] if behind else 0
        for seq, entry in reversed(messages):
            for call, own in entry.calls:
                ends = [(at, each) for at, each in messages if call in [result[0] for result in each.results]]
                if not ends or name not in (call, own):
                    continue
                end, last = ends[0]
                if name == call or (seq >= seen_from and (not group(name) or end > horizon)):
                    return call, "closed" if last.closing else "answered"
        return None

    def close_calls(self, reason: str) -> None:
        waiting = self.open_calls
        if waiting:
            text = f"No result: {reason}"
            results = tuple((call, text, True) for call in waiting)
            tokens = len(text) * len(results)
            self.entries.append(Entry("message", role="tool", results=results, tokens=tokens, closing=True))

    def end(self, entry: Entry) -> None:
        self.close_calls(entry.reason)
        self.entries.append(entry)

    def summary(self, command: Summarise) -> Entry:
        first, last, drafted = self.bounds(command)
        stretch = self.stretch(first, last)
        calls = {call for _, entry in stretch for call, _ in entry.calls}
        results = {call for _, entry in stretch for call, _, _ in entry.results}
        tokens, text = sum(entry.tokens for _, entry in stretch), command.text
        cuts = [
            entry
            for _, entry in self.in_effect
            if entry.first <= last and first <= entry.last and not (first <= entry.first and entry.last <= last)
        ]
        wrong: list[type[errors.HoldfastError]] = []
        if not self.start < first <= last <= drafted or cuts or calls != results or self.unread(first, last):
            wrong.append(errors.InvalidArgument)
        if not text.strip() or len(text) >= tokens:
            wrong.append(errors.InvalidArgument)
        if self.changed > drafted:
            wrong = [errors.SummaryStale, *(() if 1 <= first <= last <= drafted else wrong)]
        elif any(group(call) <= last for call in self.open_calls):
            wrong.append(errors.CallsOpen)
        others = [entry for _, entry in self.in_effect if not first <= entry.first <= last]
        if len(others) >= limits.SUMMARIES:
            wrong.append(errors.TooLarge)
        if wrong:
            raise TranscriptRefusal(*wrong)
        count = sum(entry.count or 1 for _, entry in stretch)
        return Entry("summary", text=text, first=first, last=last, count=count, tokens=len(text))

    def unread(self, first: int, last: int) -> bool:
        """Whether this is more than a summary may stand for at once."""
        covered = sum(
            each.last - each.first + 1 for _, each in self.in_effect if first <= each.first and each.last <= last
        )
        return last - first + 1 - covered > limits.SUMMARY_EVENTS

    def bounds(self, command: Summarise) -> tuple[int, int, int]:
        """Its first and last event, and the version at which it was drafted."""
        last = max(0, self.version - command.last)
        return max(0, last - command.first), last, max(1, self.version - command.back)

    def seqs(self, command: Erase) -> tuple[int, ...]:
        """Which events to erase; once in a while, one that is not there. What an end decided is left alone."""
        picked = (self.version + 1 - pick if pick <= self.version + 1 else self.version for pick in command.picks)
        return tuple(1 if 1 <= seq <= self.version and self.decisive(seq) else seq for seq in picked)

    def decisive(self, seq: int) -> bool:
        entry = self.entries[seq - 1]
        return entry.kind in ("reset", "destroyed", "acknowledged")

    def erase(self, seqs: Sequence[int]) -> None:
        if not all(1 <= seq <= self.version for seq in seqs):
            raise TranscriptRefusal(errors.InvalidArgument)
        gone = self.goes_with(seqs)
        if gone & {group(call) for call in self.open_calls}:
            raise TranscriptRefusal(errors.CallsOpen)
        self.erased |= gone
        self.entries.append(Entry("erasure", seqs=tuple(sorted(gone))))

    def goes_with(self, seqs: Sequence[int]) -> set[int]:
        """A call takes its results along and the reverse, and what is told is taken along by what tells of it."""
        gone = {*seqs}
        for seq in seqs:
            entry = self.entries[seq - 1]
            if entry.kind == "erasure" and seq not in self.erased:
                gone |= {*entry.seqs}
            elif seq not in self.erased:
                gone |= self.unit(seq)
        for seq, entry in self.readable("summary"):
            if any(entry.first <= each <= entry.last for each in gone):
                gone.add(seq)
        return gone

    def unit(self, seq: int) -> set[int]:
        """The group that this belongs to, with the results that came late; else itself."""
        entry = self.entries[seq - 1]
        calls = {call for call, _ in entry.calls} | {call for call, _, _ in entry.results}
        first = max(map(group, calls), default=0)
        made = {call for call, _ in self.entries[first - 1].calls} if 1 <= first <= seq else set()
        if not calls & made:
            return {seq}
        return {
            first,
            *(at for at, each in self.numbered() if at > first and made & {call for call, _, _ in each.results}),
        }

    # What a view of it must be

    def view(self, budget: int, size: Callable[[int, int], int]) -> tuple[list[ViewItem], int]:
        """What is shown, and its tokens, where `size` is what so many tokens in so many messages count for. Refused if it
        cannot be shown."""
        used = sum(size(self.entries[seq - 1].tokens, 1) for seq in self.pinned)
        units = self.shown
        sizes = [size(unit.tokens, len(unit.seqs)) for unit in units]
        fits = [count for count in range(len(units) + 1) if used + sum(sizes[len(sizes) - count :]) <= budget]
        if not fits or (units and len(fits) == 1):
            raise TranscriptRefusal(errors.WindowTooSmall)
        most = fits[-1]

        def tokens(count: int) -> int:
            return sum(sizes[len(sizes) - count :])

        if most < len(units):
            better = [at for at in range(1, most + 1) if units[len(units) - at].cut and tokens(at) * 2 >= tokens(most)]
            most = max(better, default=most)
        return units[len(units) - most :], used + tokens(most)
