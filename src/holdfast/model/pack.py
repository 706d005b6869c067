"""Packs: the bounded context of one model call, and the manifest that says of every candidate why it is in, or is not."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from holdfast.errors import InvalidContent, shown
from holdfast.model.facts import FactScope
from holdfast.model.handles import Priority
from holdfast.model.names import LedgerId, Scope, check_size, number_in
from holdfast.model.plan import Level, Strategy
from holdfast.model.tools import READ_HANDLE, Tool, described_tools

Section: TypeAlias = Literal[
    "system",
    "identity",
    "invariants",
    "tools",
    "history",
    "notes",
    "environment",
    "situation",
    "facts",
    "working_set",
    "handles",
    "breadcrumbs",
    "query",
]
"""In the order in which they stand: what never changes, what only grows, and what is made anew for each call."""
SECTIONS: tuple[Section, ...] = get_args(Section)
PREFIX: tuple[Section, ...] = SECTIONS[:4]
TAIL: tuple[Section, ...] = SECTIONS[5:]

Fate: TypeAlias = Literal["included", "reduced", "omitted", "missing", "withheld"]
"""In as it is · in, in a shorter form · left out · could not be read · kept from this reader."""

Guard: TypeAlias = Literal["redact", "annotate", "off"]
"""What is done where a text states the value of a superseded fact: a marker that names the key replaces the value; the
value stays, with a note; or nothing."""
GUARDS: tuple[Guard, ...] = get_args(Guard)


class Brief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What someone in a role is told before anything else. It stands first, and so it should stay as it is."""

    prompt: str = ""
    """Who it is and what it is there for."""
    invariants: tuple[str, ...] = ()
    """What must hold whatever happens."""
    working_context: str = ""
    """Where it works, and with what."""
    tools: tuple[Tool, ...] = ()
    """Tools, or functions, which are described by Tool.from_function()."""
    read_handle: bool = True
    """Offer the tool that reads what is shown in part, beside `tools`. Without it, every marker in a pack says that the
    rest cannot be read."""

    @property
    def offered(self) -> tuple[Tool, ...]:
        """The tools that a pack offers: those of the brief, and the one that reads handles."""
        return (*self.tools, READ_HANDLE) if self.read_handle and not self._has_own else self.tools

    @property
    def reads_handles(self) -> bool:
        """Whether a tool that reads handles is offered."""
        return self.read_handle or self._has_own

    @property
    def _has_own(self) -> bool:
        return any(each.name == READ_HANDLE.name for each in self.tools)


def checked_brief(brief: object) -> Brief:
    """A brief of our own, whatever its parts are made of, if it is one."""
    if type(brief) is Brief and type(brief.tools) in (list, tuple):
        brief = msgspec.structs.replace(brief, tools=described_tools(brief.tools))
    try:
        made = msgspec.json.decode(msgspec.json.encode(brief), type=Brief) if type(brief) is Brief else None
        sound = made is not None and made == brief
    except Exception:  # noqa: BLE001 - whatever a caller's object does when it is looked at, it is no brief
        made, sound = None, False
    if made is None or not sound:
        raise InvalidContent(reason=f"{shown(brief)} is no brief: pass a holdfast.Brief of texts and holdfast.Tool")
    check_size("the brief", len(msgspec.json.encode(made)), "bytes", "PROMPT_BYTES", "Make it shorter.")
    return made


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """How dense a context is."""

    name: str
    fact_share: float = 0.7
    """The most of what remains after all that must be in that facts may take; constraints count as what must."""
    least_score: float = 0.0
    """Facts, things at hand and handles that fit the query less than this are left out."""
    history: Literal["whole", "relevant"] = "whole"
    """The whole view of the conversation; or its newest turns, and of what is older what has to do with the query. The
    latter is chosen anew for each call, so it costs a prompt cache."""
    recent_turns: int = 2
    """How many of the newest turns are in whatever they tell of, if only what is relevant is."""
    review: Literal["mark", "omit"] = "mark"
    """A fact that rests on something that has changed is shown with a mark, beside what holds now; or left out, and so is
    one that says of itself that it is invalid."""


PROFILES: dict[str, Profile] = {
    each.name: each
    for each in (
        Profile(
            name="high_stakes", fact_share=0.5, least_score=0.05, history="relevant", recent_turns=1, review="omit"
        ),
        Profile(name="balanced"),
        Profile(name="comprehensive", fact_share=0.85),
    )
}


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a pack was asked for: with the log at its position, all that it takes to make the same one again."""

    query: str = ""
    asked: bool = True
    """Nobody said the query; else it is the newest message of the user. It ranks what there is to choose from, and is no
    part of the conversation."""
    stated: bool = True
    """It stands at the end of the pack: it is what the user said last, but not in view, or there is nothing else to
    answer."""
    role: str = ""
    budget: int
    """As asked for."""
    effective: int
    """No more than what the model's window leaves without its longest answer."""
    model: str = ""
    max_output: int | None = None
    """The most that may be answered, as asked for."""
    include: tuple[str, ...] = ()
    """Handles that are wanted in."""
    exclude: tuple[str, ...] = ()
    force: bool = False
    """What is Critical may be excluded."""
    within: tuple[tuple[FactScope, str], ...] = ()
    """The scopes of facts that are looked into, with their ids, beside what holds everywhere."""
    min_compaction: Level = "none"
    strategy: Strategy | None = None
    """How what does not fit is made to, as asked for; None for what the engine's policy says."""
    fact_share: float
    profile: Profile
    guard: Guard = "redact"
    time: bool = True
    """The pack says what time it is. Without, a pack made later from the same state has the same bytes."""
    audit: bool = False
    """The manifest also tells what is kept from the reader, so it is not for them."""
    as_of_us: int


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One candidate for a pack, and what became of it."""

    id: str
    """What it is called: `k12`, `h7`, `m5`, `m5-m90` for a stretch of messages, or the name of what has no id."""
    section: Section
    fate: Fate
    reason: str
    """In words."""
    tokens: int = 0
    """What it takes in the pack; if it is not in, what it would have taken, as far as is known."""
    source: str = ""
    """Where it comes from: a message, a ledger, a tool."""
    authority: str = ""
    priority: Priority = "medium"
    score: float = 0.0
    """How well it fits the query."""
    rank: int = 0
    """Its place among those that were to choose from, counted from 1; 0 for what was not to choose."""
    at: int = 0
    """The seq of the event that it is from, or that begins the stretch."""
    to: int = 0
    """The seq of the last event of a stretch."""
    digest: str = ""
    """Of the text as it is shown: when two packs show the same thing otherwise, it differs."""
    share: float = 1.0
    """How much is shown of what is shown only in part, of its bytes: above 0 and below 1, or 0 for a mere marker. 1 for all
    else."""


class TokenSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What takes how much of a pack, as far as is known in the provider's own count."""

    budget: int
    used: int
    breakdown: dict[Section, int]
    level: Level = "none"
    """How far what is made anew for each call had to be compacted."""
    counted: int = 0
    """Its tokens as the counter says, before what the provider's figures taught: never more than `used`."""
    messages: int = 0
    """In how many messages."""

    @property
    def remaining(self) -> int:
        return self.budget - self.used


class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """A dead value that is still in the history: where it is told, and of which key."""

    at: int
    """The seq of the message or summary that tells it."""
    fact: str
    ledger: tuple[str, ...]
    key: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pack is as it is. With the log, the same bytes can be made from it again."""

    scope: Scope
    frame: str | None = None
    version: int
    """The last event of the session that it tells of."""
    ledgers: tuple[tuple[LedgerId, int], ...] = ()
    """The ledgers that were read, and the last event of each."""
    request: Request
    brief: str = ""
    """The digest of the brief: what was not in the log."""
    boundary: int = 0
    """The last event that changed how the history is shown; 0 for none."""
    candidates: tuple[tuple[int, str, float], ...] = ()
    """The facts that the index found: the place of their ledger, their ids and how well they fit."""
    entries: tuple[Entry, ...] = ()
    exposed: tuple[Exposure, ...] = ()
    """What is dead and shown all the same, until the next boundary."""
    tokens: TokenSummary
    counter: str
    renderer: str
    policy: str
    """A digest of the policies that it was made under."""
    context_hash: str
    """The SHA-256 of all that is shown."""

    def of(self, fate: Fate) -> tuple[Entry, ...]:
        return tuple(each for each in self.entries if each.fate == fate)


def pack_id(seq: int) -> str:
    """The id of a recorded pack: the seq of the event that recorded it makes it unique in the session."""
    return f"p{seq}"


def pack_seq(pack: str | None) -> int:
    """The seq in the id of a pack; 0 if it is no such id."""
    return number_in("p", pack)


class PackRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A pack whose manifest was kept."""

    id: str
    seq: int
    frame: str | None = None
    context_hash: str
    budget: int
    used: int
    level: Level
    query: str
    reply: int = 0
    """The seq of the message that answered it; 0 if none is known."""
    time_us: int


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one candidate from one pack to another."""

    entry: Entry
    """As it is now; as it was, if it is gone."""
    before: Entry | None = None
    what: Literal["added", "gone", "changed", "in", "out"]
    """A new candidate · none any more · shown otherwise · came in · went out."""
    why: str


class PackDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What changed from one pack to another, and why."""

    first: PackRecord
    second: PackRecord
    changes: tuple[Change, ...]
    same: int
    """How many candidates are as they were."""
    prefix_kept: bool
    """What the first showed up to its volatile tail begins the second: a prompt cache stays warm."""

    def explain(self) -> str:
        """What changed, in words: a line for each reason, with what it concerns."""
        first, second = self.first.id or "a pack", self.second.id or "a pack that was not recorded"
        sizes = f"From {first} ({self.first.used:,} tokens) to {second} ({self.second.used:,} tokens)"
        cache = "stays warm" if self.prefix_kept else "begins anew"
        lines = [f"{sizes}: {len(self.changes):,} changed, {self.same:,} as before; a prompt cache {cache}."]
        told: dict[tuple[str, str, str], list[str]] = {}
        for each in self.changes:
            told.setdefault((each.entry.section, each.what, each.why), []).append(each.entry.id)
        lines += (f"  {_SIGNS[what]} {', '.join(ids)} ({section}): {why}" for (section, what, why), ids in told.items())
        return "\n".join(lines)


_SIGNS = {"added": "+", "gone": "-", "changed": "~", "in": ">", "out": "<"}
