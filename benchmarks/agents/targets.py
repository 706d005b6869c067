"""Who is compared on what: the contenders on SQLite files, and those on databases of one PostgreSQL server."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec
import psycopg
from psycopg import sql

from benchmarks.harness import Turn

TURN, EACH = UNITS = ("a turn at once", "message by message")
TAIL, WINDOW = READS = ("tail", "window")

USER_TABLES = """
    SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class
    WHERE relkind = 'r' AND relnamespace NOT IN ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
"""


class Contender(msgspec.Struct, frozen=True):
    name: str
    side: str
    """The class that speaks for it in its own process, as `worker` is told it."""
    reads: tuple[str, ...]
    """By tokens, or by number where there is no way to ask for tokens."""
    units: tuple[str, ...] = UNITS
    rewrites: bool = False
    """Each step leaves a copy of the whole state, so how a session came about is seen on disk."""
    appends_note: str = ""
    reads_note: str = ""
    source: Path | None = None
    """The checkout of Holdfast that it uses, if that is not this one."""


class Ground(Protocol):
    """Where contenders keep what they store: an address each, and what lies there."""

    sizes_note: str

    def make(self, name: str) -> str:
        """The address of a new, empty store."""

    def size(self, address: str) -> int:
        """Its bytes on disk."""

    def drop(self, address: str) -> None:
        """Some grow large."""

    def metered(self, turn: Turn) -> Turn:
        """The turn, with what it took of those who serve it."""


class Files:
    """A folder for each, since other files lie beside the one that is named."""

    sizes_note = "With the write-ahead log, and all that lies beside the file."

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, name: str) -> str:
        folder = self._folder / name
        folder.mkdir()
        return str(folder / "store.db")

    def size(self, address: str) -> int:
        """The file and all that lies beside it: write-ahead log, shared memory, bodies."""
        return sum(each.stat().st_size for each in Path(address).parent.rglob("*") if each.is_file())

    def drop(self, address: str) -> None:
        shutil.rmtree(Path(address).parent)

    def metered(self, turn: Turn) -> Turn:
        return turn


class Databases:
    """A database for each, on one server."""

    sizes_note = "Tables and their indexes; the write-ahead log is the server's, and none of theirs."

    def __init__(self, url: Callable[[str], str], metered: Callable[[Turn], Turn]) -> None:
        self._url = url
        self._metered = metered
        self._numbers = itertools.count()
        self._names: dict[str, str] = {}

    def make(self, name: str) -> str:  # noqa: ARG002 - a number is a shorter name
        database = f"contender_{next(self._numbers)}"
        self._serve(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
        self._names[self._url(database)] = database
        return self._url(database)

    def size(self, address: str) -> int:
        with psycopg.connect(address) as connection:
            [size] = connection.execute(USER_TABLES).fetchone() or (0,)
        return int(size)

    def drop(self, address: str) -> None:
        database = sql.Identifier(self._names.pop(address))
        self._serve(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(database))

    def metered(self, turn: Turn) -> Turn:
        return self._metered(turn)

    def _serve(self, statement: sql.Composed) -> None:
        with psycopg.connect(self._url("postgres"), autocommit=True) as connection:
            connection.execute(statement)


class Target(msgspec.Struct, frozen=True):
    """What one comparison is about."""

    name: str
    ground: Ground
    ours: Contender
    peers: tuple[Contender, ...]
    reads_goal_from_turns: int
    """A read of a shorter session is of about all that there is."""
    settings_note: str = ""

    @property
    def contenders(self) -> tuple[Contender, ...]:
        return (self.ours, *self.peers)


SQLITE, POSTGRES = "OnSqlite", "OnPostgres"
"""What a module of sides calls those on each."""


def ours(ground: str) -> Contender:
    return Contender("holdfast", f"benchmarks.agents.holdfast_sessions:{ground}", READS)


def openai_agents(ground: str) -> Contender:
    return Contender(
        "openai-agents",
        f"benchmarks.agents.openai_agents:{ground}",
        (TAIL,),
        reads_note="openai-agents has no window by tokens.",
    )


def langgraph(ground: str) -> Contender:
    return Contender(
        "langgraph",
        f"benchmarks.agents.langgraph_savers:{ground}",
        (WINDOW,),
        (TURN,),
        rewrites=True,
        appends_note=(
            "langgraph saves the whole state after each step and has no smaller unit; its graph has the usual "
            "MessagesState, not the DeltaChannel that is in beta."
        ),
        reads_note="langgraph's window is the whole session, trimmed.",
    )


LLAMA_INDEX = Contender(
    "llama-index",
    "benchmarks.agents.llama_memory:LlamaIndex",
    (WINDOW,),
    reads_note=(
        "llama-index keeps a window of its own, of at most 0.7 of the tokens; it makes its indexes in an order that "
        "varies, and after some, SQLite reads by one that makes this linear."
    ),
)


def on_files(folder: Path, source: Path | None = None) -> Target:
    """With `source`, Holdfast as it is in that checkout is one more peer."""
    before = (
        ()
        if source is None
        else (msgspec.structs.replace(ours(SQLITE), name="before", reads=(WINDOW,), source=source),)
    )
    return Target(
        name="agents",
        ground=Files(folder),
        ours=ours(SQLITE),
        peers=(openai_agents(SQLITE), langgraph(SQLITE), LLAMA_INDEX, *before),
        reads_goal_from_turns=1_000,
        settings_note="synchronous=2 is FULL.",
    )


def on_postgres(url: Callable[[str], str], metered: Callable[[Turn], Turn]) -> Target:
    """`url` says the address of a database by its name."""
    return Target(
        name="postgres",
        ground=Databases(url, metered),
        ours=ours(POSTGRES),
        peers=(openai_agents(POSTGRES), langgraph(POSTGRES)),
        reads_goal_from_turns=0,
    )
