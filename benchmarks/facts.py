"""What facts cost: asserting, reading and observing with more and more of them behind, a key with a long past, searching
against the raw full-text query, and what a fact takes on disk; in a file and on PostgreSQL."""

from __future__ import annotations

import itertools
import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Protocol

import apsw
import msgspec
import psycopg
from tests.postgres_server import SOCKET_FOLDER, PostgresServer

import holdfast
from benchmarks import sample_messages
from benchmarks.harness import FSYNC, Bench, Sample, Samples, Spread, Turn, each_us, limit_met, measure_each, time_ratio
from benchmarks.postgres import schema
from benchmarks.postgres_meter import Meter
from benchmarks.report import Goal, Line, Table, micros
from holdfast import codec
from holdfast.core.facts.project import LedgerFold
from holdfast.flows.execute import build_snapshot
from holdfast.model import limits
from holdfast.model.facts.events import FactAsserted, FactSuperseded
from holdfast.model.facts.fact import FactSource, FactState, fact_id
from holdfast.model.log import Append, NewEvent, StreamWrite
from holdfast.model.names import LedgerId
from holdfast.model.state import LedgerState
from holdfast.ports import EventStore

NAME = "facts"
FLAT = Goal("at most", 2)
RAW = Goal("at most", 2)
OBSERVE_FLAT = Goal("at most", 3)
SIZES = (100, 1_000, 10_000, 100_000)
PAST = (10, 10_000)
"""How often a key was superseded."""
BEST = 50
LEDGER, SESSION = "ledger.search", "session.search"
HISTORY = "history()"
TAIL = 10
TIMES = 5
"""Operations in a turn."""
NEW, AGAIN, CURRENT, OBSERVE = ACTIONS = ("assert_ a new key", "assert_ a new value", "current()", "observe()")
WORDS = 8_000
SYLLABLES = ("ba", "ko", "ri", "tu", "mel", "dar", "sin", "pol", "ven", "gus", "lam", "ort", "ney", "chi", "fra", "zen")
QUERIES = {
    "rare words": (3_100, 4_700, 5_900),
    "common words": (0, 2, 5),
    "one common word, two rare": (1, 3_900, 5_300),
    "a sentence of eight": (0, 3, 8, 40, 150, 600, 2_100, 4_400),
}
"""The words that are asked for, by how common they are: the first is in most facts, the last in a few of 100,000."""


def word(rank: int) -> str:
    """Words that no stemmer takes for forms of each other."""
    base = len(SYLLABLES)
    return "".join(SYLLABLES[rank // base**place % base] for place in range(4)) + "k"


class Texts:
    """Facts of a dozen words, some in most of them and most in a few, always the same ones."""

    def __init__(self) -> None:
        self._random = random.Random(7)  # the same texts in every run
        self._words = [word(rank) for rank in range(WORDS)]
        self._weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(WORDS)))

    def value(self) -> str:
        count = self._random.randint(8, 16)
        return " ".join(self._random.choices(self._words, cum_weights=self._weights, k=count))

    def pairs(self, count: int) -> Iterator[tuple[str, str]]:
        for number in range(count):
            yield key(number), self.value()


def key(number: int) -> str:
    return f"{word(number % 997)}_{number}"


def query(ranks: Iterable[int]) -> str:
    return " ".join(word(rank) for rank in ranks)


def fill(store: EventStore, ledger: LedgerId, facts: Iterable[tuple[str, str]]) -> None:
    """A ledger with these facts, in the largest appends that the store takes. A key that comes again is superseded."""
    state, known, live = LedgerState(), dict[str, FactState](), dict[str, str]()
    ahead = iter(facts)
    while page := list(itertools.islice(ahead, limits.COMMAND_EVENTS // 2)):
        events: list[FactAsserted | FactSuperseded] = []
        for name, value in page:
            fact = fact_id(state.version + len(events) + 1)
            events.append(
                FactAsserted(key=name, value=value, source=FactSource(), valid_from_us=sample_messages.TIME_US)
            )
            if name in live:
                events.append(FactSuperseded(fact=live[name], by=fact, rule="implicit"))
            live[name] = fact
        new = tuple(NewEvent(each.name, each.version, codec.encode_event(each), os.urandom(16)) for each in events)
        before = state.version
        fold = LedgerFold(ledger, state, known)
        for each in events:
            fold.add(each, each.name, sample_messages.TIME_US)
        state = fold.state
        known = {fact: fold.facts[fact] for fact in live.values()}
        snapshot = build_snapshot(ledger.stream, before, state)
        write = StreamWrite(ledger.stream, before, new, tuple(fold.build_rows()), snapshot)
        store.append(Append(os.urandom(16).hex(), b"", sample_messages.TIME_US, "local", (write,)))


def run(bench: Bench) -> list[Table]:
    with ExitStack() as stack:
        ledgers = [fill_ledger(stack, bench.file(f"{size}.db"), size) for size in SIZES[: bench.pick(4, 3)]]
        tables = [measure_growth(bench, ledgers, "in a file", observe=OBSERVE_FLAT)]
        pairs = Texts().pairs(ledgers[-1].facts)
        raw = stack.enter_context(closing(Fts5(bench.file("raw.db"), pairs)))
        tables.append(measure_search(bench, ledgers[-1], raw))
    return [*tables, measure_long_keys(bench), over_an_append(bench), on_disk(bench), *on_postgres(bench)]


def on_postgres(bench: Bench) -> list[Table]:
    sizes = (SIZES[0], bench.pick(SIZES[3], SIZES[2]))
    with ExitStack() as stack:
        server = PostgresServer(parent=SOCKET_FOLDER)
        stack.callback(server.remove)
        meter = stack.enter_context(closing(Meter(server)))
        # the probe syncs the disk that the server has
        probed = stack.enter_context(tempfile.TemporaryDirectory(dir=Path(server.folder).parent))
        bench = msgspec.structs.replace(bench, folder=Path(probed))
        ledgers = [fill_ledger(stack, schema(server, f"facts_{size}"), size) for size in sizes]
        raw = stack.enter_context(closing(Tsquery(server.url(), Texts().pairs(sizes[-1]))))
        return [
            measure_growth(bench, ledgers, "on PostgreSQL", meter.metered),
            measure_search(bench, ledgers[-1], raw, meter.metered),
        ]


class FilledLedger(msgspec.Struct, frozen=True):
    """An engine with one ledger of so many facts, and a session that reads it."""

    engine: holdfast.Engine
    ledger: holdfast.Ledger
    session: holdfast.Session
    facts: int


def fill_ledger(stack: ExitStack, address: Path | str, facts: int) -> FilledLedger:
    engine = stack.enter_context(holdfast.open(address))
    ledger = engine.ledger(project="large")
    sample_messages.warm(engine.store)
    fill(engine.store, ledger.id, Texts().pairs(facts))
    return FilledLedger(engine, ledger, engine.create_session("reader", ledgers=[ledger.id]), facts)


def name(action: str, size: int) -> str:
    return f"{action}, {size:,} facts"


def keep_turn(turn: Turn) -> Turn:
    return turn


def measure_growth(
    bench: Bench,
    ledgers: Sequence[FilledLedger],
    where: str,
    metered: Callable[[Turn], Turn] = keep_turn,
    observe: Goal | None = None,
) -> Table:
    sizes = [each.facts for each in ledgers]
    rounds, slices = bench.pick(7, 3), bench.pick(2, 2)
    turns = {what: metered(turn) for each in ledgers for what, turn in ledger_turns(each).items()}
    samples = bench.in_turns(rounds, turns, slices=slices)
    lines = [
        *compare_sizes(samples, (NEW, AGAIN, CURRENT), sizes),
        *compare_sizes(processor(samples), (NEW, AGAIN), sizes, more=", CPU"),
        *compare_sizes(samples, (OBSERVE,), sizes, goal=observe),
        *compare_sizes(processor(samples), (OBSERVE,), sizes, goal=None, more=", CPU"),
    ]
    return Table(
        name=NAME,
        title=f"in a ledger of so many, {where}",
        ours="ours",
        theirs=f"with {sizes[0]} facts",
        lines=lines,
        notes=[
            "The facts before are appended to the store 500 at a time. CPU is the same without the wait for the disk.",
            f"Measuring adds {rounds * slices * TIMES + TIMES:,} new keys to each ledger.",
            "observe() searches for the words of a sentence: in more facts, there is more to find.",
        ],
    )


def assert_sample(ledger: holdfast.Ledger, pairs: Iterable[tuple[str, str]]) -> Sample:
    def keep(pair: tuple[str, str]) -> None:
        ledger.set(*pair)

    return measure_each(keep, list(pairs))


def ledger_turns(at: FilledLedger) -> dict[str, Turn]:
    """What is done in a ledger, each a few times on facts all over it."""
    numbers, texts = itertools.count(at.facts), Texts()
    old = random.Random(11)  # the same facts in every run

    def some() -> list[str]:
        return [key(old.randrange(at.facts)) for _ in range(TIMES)]

    def valued(keys: Iterable[str]) -> Sample:
        return assert_sample(at.ledger, [(each, texts.value()) for each in keys])

    def observing() -> Sample:
        said = [f"Correction: {each} is {texts.value()}, not what we said before." for each in some()]
        return measure_each(at.session.observe, said)

    def read(name: str) -> None:
        assert at.ledger.get(name) is not None

    return {
        name(NEW, at.facts): lambda: valued(key(next(numbers)) for _ in range(TIMES)),
        name(AGAIN, at.facts): lambda: valued(some()),
        name(CURRENT, at.facts): lambda: read_sample(read, some()),
        name(OBSERVE, at.facts): observing,
    }


def read_sample(work: Callable[[str], object], items: Sequence[str]) -> Sample:
    return msgspec.structs.replace(measure_each(work, items), commits=0)


def processor(samples: Samples) -> dict[str, list[Sample]]:
    """The time on processors alone, a server's among it: what the disk takes says little about a ledger."""
    return {
        what: [msgspec.structs.replace(each, wall_s=max(each.cpu_s + each.server_s, 1e-9)) for each in taken]
        for what, taken in samples.items()
    }


def compare_sizes(
    samples: Samples, actions: Sequence[str], sizes: Sequence[int], *, goal: Goal | None = FLAT, more: str = ""
) -> list[Line]:
    """Each action at each size, over the same at the smallest."""
    return [
        Line(
            what=name(action, size) + more,
            ours=micros(each_us(samples[name(action, size)])),
            theirs=micros(each_us(samples[name(action, sizes[0])])),
            ratio=time_ratio(samples[name(action, size)], samples[name(action, sizes[0])]),
            goal=goal,
            limit="" if more else limit_met(samples[name(action, size)], samples[FSYNC]),
        )
        for action in actions
        for size in sizes[1:]
    ]


def measure_long_keys(bench: Bench) -> Table:
    rounds, slices = bench.pick(7, 3), bench.pick(2, 2)
    with ExitStack() as stack:
        turns: dict[str, Turn] = {}
        for past in PAST:
            engine = stack.enter_context(holdfast.open(bench.file(f"past-{past}.db")))
            sample_messages.warm(engine.store)
            ledger = engine.ledger(project="long")
            fill(engine.store, ledger.id, ((key(0), value) for _, value in Texts().pairs(past)))
            turns |= change_turns(ledger, past)
        samples = bench.in_turns(rounds, turns, slices=slices)
    return Table(
        name=NAME,
        title="one key that was superseded over and over",
        ours="ours",
        theirs=f"{PAST[0]} times",
        lines=[
            *compare_sizes(samples, (AGAIN, CURRENT, HISTORY), PAST),
            *compare_sizes(processor(samples), (AGAIN,), PAST, more=", CPU"),
        ],
        notes=[f"Measuring adds {rounds * slices * TIMES + TIMES:,} more values. {HISTORY} reads the newest {TAIL}."],
    )


def change_turns(ledger: holdfast.Ledger, past: int) -> dict[str, Turn]:
    texts = Texts()
    return {
        name(AGAIN, past): lambda: assert_sample(ledger, [(key(0), texts.value()) for _ in range(TIMES)]),
        name(CURRENT, past): lambda: read_sample(ledger.get, [key(0)] * TIMES),
        name(HISTORY, past): lambda: read_sample(lambda name: ledger.history(name, limit=TAIL), [key(0)] * TIMES),
    }


class Raw(Protocol):
    """Full text and nothing else: one table of the same keys and values."""

    name: str

    def search(self, asked: str) -> Sequence[object]: ...

    def count(self, asked: str) -> int: ...


class Fts5:
    name = "raw FTS5"

    def __init__(self, path: Path, pairs: Iterable[tuple[str, str]]) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute(
            "CREATE VIRTUAL TABLE raw USING fts5(key, value, tokenize = 'porter unicode61 remove_diacritics 2')"
        )
        with self._connection:
            self._connection.executemany("INSERT INTO raw VALUES (?, ?)", pairs)

    def search(self, asked: str) -> Sequence[object]:
        best = "SELECT rowid, rank, key, value FROM raw WHERE raw MATCH ? ORDER BY rank LIMIT ?"
        return list(self._connection.execute(best, (self._any(asked), BEST)))

    def count(self, asked: str) -> int:
        ((count,),) = self._connection.execute("SELECT count(*) FROM raw WHERE raw MATCH ?", (self._any(asked),))
        assert isinstance(count, int)
        return count

    def _any(self, asked: str) -> str:
        return " OR ".join(f'"{each}"' for each in asked.split())

    def close(self) -> None:
        self._connection.close()


class Tsquery:
    name = "raw tsquery"

    def __init__(self, url: str, pairs: Iterable[tuple[str, str]]) -> None:
        self._connection: psycopg.Connection[Any] = psycopg.connect(url, autocommit=True)
        self._connection.execute(
            "CREATE TABLE raw (fact bigserial PRIMARY KEY, key text NOT NULL, value text NOT NULL, words tsvector NOT NULL "
            "GENERATED ALWAYS AS (setweight(to_tsvector('english', translate(key, '_', ' ')), 'A') || "
            "to_tsvector('english', value)) STORED)"
        )
        with self._connection.cursor() as cursor, cursor.copy("COPY raw (key, value) FROM STDIN") as copy:
            for pair in pairs:
                copy.write_row(pair)
        self._connection.execute("CREATE INDEX ON raw USING gin (words)")
        self._connection.execute("VACUUM ANALYZE raw")

    def search(self, asked: str) -> Sequence[object]:
        best = (
            "SELECT fact, ts_rank(words, asked) AS rank, key, value FROM raw, to_tsquery('english', %s) AS asked "
            "WHERE words @@ asked ORDER BY rank DESC LIMIT %s"
        )
        return self._connection.execute(best, (self._any(asked), BEST)).fetchall()

    def count(self, asked: str) -> int:
        sql = "SELECT count(*) FROM raw WHERE words @@ to_tsquery('english', %s)"
        row = self._connection.execute(sql, (self._any(asked),)).fetchone()
        assert row is not None
        return int(row[0])

    def _any(self, asked: str) -> str:
        return " | ".join(asked.split())

    def close(self) -> None:
        self._connection.close()


def measure_search(bench: Bench, at: FilledLedger, raw: Raw, metered: Callable[[Turn], Turn] = keep_turn) -> Table:
    """The best of all facts, with their values, and the same by the index alone."""
    rounds, slices = bench.pick(7, 3), bench.pick(2, 1)
    searches: dict[str, Callable[[str], Sequence[object]]] = {
        LEDGER: at.ledger.search,
        SESSION: at.session.facts.search,
        raw.name: raw.search,
    }
    turns = {
        f"{who}: {what}": metered(search_turn(search, query(ranks)))
        for what, ranks in QUERIES.items()
        for who, search in searches.items()
    }
    samples = bench.in_turns(rounds, turns, slices=slices)
    matches = {what: raw.count(query(ranks)) for what, ranks in QUERIES.items()}
    return Table(
        name=NAME,
        title=f"the best {BEST} of {at.facts:,}",
        ours="ours",
        theirs=raw.name,
        lines=[
            Line(
                what=f"{who}: {what}, in {matches[what]:,} facts",
                ours=micros(each_us(samples[f"{who}: {what}"])),
                theirs=micros(each_us(samples[f"{raw.name}: {what}"])),
                ratio=time_ratio(samples[f"{who}: {what}"], samples[f"{raw.name}: {what}"]),
                goal=RAW if who == LEDGER else None,
            )
            for who in (LEDGER, SESSION)
            for what in QUERIES
        ],
        notes=["Raw is one table of the same keys and values: a match, ordered by rank, limited, with the texts."],
    )


def search_turn(work: Callable[[str], Sequence[object]], asked: str) -> Turn:
    def search(text: str) -> None:
        assert work(text)

    return lambda: read_sample(search, [asked] * 3)


def over_an_append(bench: Bench) -> Table:
    times, rounds, slices = 20, bench.pick(11, 3), bench.pick(10, 3)
    with ExitStack() as stack:
        at = fill_ledger(stack, bench.file("append.db"), 1_000)
        plain, texts = at.engine.create_session("plain"), Texts()
        numbers = itertools.count(1_000)
        record = "session.record"

        turns: dict[str, Turn] = {
            record: lambda: measure_each(
                lambda text: plain.record("user", text), [texts.value() for _ in range(times)]
            ),
            NEW: lambda: assert_sample(at.ledger, [(key(next(numbers)), texts.value()) for _ in range(times)]),
            AGAIN: lambda: assert_sample(at.ledger, [(key(1), texts.value()) for _ in range(times)]),
            "observe() what changes nothing": lambda: measure_each(
                plain.observe, [texts.value() for _ in range(times)]
            ),
        }
        samples = bench.in_turns(rounds, turns, slices=slices)
    lines = [
        Line(
            what=what + more,
            ours=micros(each_us(taken[what])),
            theirs=micros(each_us(taken[record])),
            ratio=time_ratio(taken[what], taken[record]),
            limit="" if more else limit_met(taken[what], samples[FSYNC]),
        )
        for more, taken in (("", samples), (", CPU", processor(samples)))
        for what in list(turns)[1:]
    ]
    return Table(
        name=NAME,
        title="each is one durable append",
        ours="ours",
        theirs="session.record",
        lines=lines,
        notes=[f"{rounds} rounds of {slices} turns; the message says what the value of the fact says."],
    )


def on_disk(bench: Bench) -> Table:
    sizes = (1_000, 10_000)
    lines: list[Line] = []
    for size in sizes:
        path = bench.file(f"disk-{size}.db")
        with holdfast.open(path) as engine:
            ledger = engine.ledger(project="small")
            assert_sample(ledger, Texts().pairs(size))
        said = sum(len(name) + len(value) for name, value in Texts().pairs(size))
        taken = path.stat().st_size
        lines.append(
            Line(
                what=f"{size:,} facts",
                ours=f"{taken / size:,.0f} bytes",
                theirs=f"{said / size:,.0f} bytes",
                ratio=Spread.of([taken / said]),
            )
        )
    return Table(
        name=NAME,
        title="bytes on disk a fact",
        ours="file",
        theirs="key and value",
        lines=lines,
        notes=["Event, hash and row with its indexes, the words for searching among them; after the last checkpoint."],
    )
