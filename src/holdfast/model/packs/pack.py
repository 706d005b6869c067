"""Packs: the bounded context of one model call, and the manifest with the fate of every candidate."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import msgspec

from holdfast.errors import InvalidArgument, describe_value
from holdfast.model.facts.fact import FactScope
from holdfast.model.history.handles import Priority
from holdfast.model.history.plans import Level, Strategy
from holdfast.model.names import LedgerId, Scope, StreamId, check_size, parse_id_number
from holdfast.model.tools.tool import READ_HANDLE, RECALL_MEMORY, Tool, describe_tools

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
    "recall",
    "handles",
    "breadcrumbs",
    "query",
]
"""In their order: what never changes, what only grows, and what is built for each call."""
SECTIONS: tuple[Section, ...] = get_args(Section)
PREFIX_SECTIONS: tuple[Section, ...] = SECTIONS[:4]
TAIL_SECTIONS: tuple[Section, ...] = SECTIONS[5:]
Fate: TypeAlias = Literal["included", "reduced", "omitted", "missing", "withheld"]
"""As it is · in a shorter form · left out · could not be read · withheld from this reader."""
GuardMode: TypeAlias = Literal["redact", "annotate", "off"]
"""What happens to the value of a superseded fact in a text: a marker that names the key replaces it · it stays, with a
note · nothing."""
GUARD_MODES: tuple[GuardMode, ...] = get_args(GuardMode)


class Brief(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What comes first in a pack: system prompt, rules and tools. It should stay the same from call to call."""

    prompt: str = ""
    """Who the model is and what it is for."""
    invariants: tuple[str, ...] = ()
    """Rules that always apply."""
    working_context: str = ""
    """Where the model works, and with what."""
    tools: tuple[Tool, ...] = ()
    """Tools, or functions, which Tool.from_function() describes."""
    read_handle: bool = True
    """Offer the tool that reads handles, beside `tools`. Without it, every marker in a pack says that the rest cannot
    be read."""
    recall_memory: bool = True
    """Offer the tool that searches earlier conversations, beside `tools`, in sessions with a memory."""

    def offer_tools(self, *, has_memory: bool) -> tuple[Tool, ...]:
        """The tools that a pack of a session offers: those of the brief, and those of the engine that it has none of."""
        own = {tool.name for tool in self.tools}
        engine: tuple[Tool, ...] = (READ_HANDLE,) if self.read_handle else ()
        engine += (RECALL_MEMORY,) if self.recall_memory and has_memory else ()
        return (*self.tools, *(tool for tool in engine if tool.name not in own))

    @property
    def reads_handles(self) -> bool:
        """Whether a tool that reads handles is offered."""
        return self.read_handle or any(tool.name == READ_HANDLE.name for tool in self.tools)


def check_brief(brief: object) -> Brief:
    """A copy of the brief, if it is a valid one."""
    if type(brief) is Brief and type(brief.tools) in (list, tuple):
        brief = msgspec.structs.replace(brief, tools=describe_tools(brief.tools) if brief.tools else ())
    try:
        copy = msgspec.json.decode(msgspec.json.encode(brief), type=Brief) if type(brief) is Brief else None
        is_valid = copy is not None and copy == brief
    except Exception:  # noqa: BLE001 - an object of a caller may raise anything when it is read
        copy, is_valid = None, False
    if copy is None or not is_valid:
        reason = f"pass a holdfast.Brief of texts and holdfast.Tool, not {describe_value(brief)}"
        raise InvalidArgument(argument="brief", reason=reason)
    check_size("brief", len(msgspec.json.encode(copy)), "bytes", "PROMPT_BYTES", "Make it shorter.")
    return copy


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """How dense a context is."""

    name: str
    fact_share: float = 0.7
    """The most that facts may take of the room that is left after everything Critical; constraints count as Critical.
    """
    recall_share: float = 0.25
    """The most that earlier conversation may take of the budget. It takes only what everything else leaves."""
    least_score: float = 0.0
    """Facts, the working set, handles and recalled passages that fit the query less are left out."""
    history: Literal["whole", "relevant"] = "whole"
    """The whole view of the conversation; or its newest turns, and of older ones what is relevant to the query. The
    latter is chosen for each call, so it costs the prompt cache."""
    recent_turns: int = 2
    """The newest turns that are always included, if the history is "relevant"."""
    review: Literal["mark", "omit"] = "mark"
    """A fact under review is shown with a note; or it is left out, and so is one that says of itself that it is
    invalid."""


PROFILES: dict[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="high_stakes",
            fact_share=0.5,
            recall_share=0.15,
            least_score=0.05,
            history="relevant",
            recent_turns=1,
            review="omit",
        ),
        Profile(name="balanced"),
        Profile(name="comprehensive", fact_share=0.85, recall_share=0.35),
    )
}


class PackRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The request of a pack: with the log at its version, all that it takes to build the same pack again."""

    query: str = ""
    asked: bool = True
    """The query is not a message of the user. It ranks the candidates, and is no part of the conversation."""
    stated: bool = True
    """The query is at the end of the pack: it is the newest message of the user but not in view, or there is nothing
    else to answer."""
    role: str = ""
    budget: int
    """As requested."""
    effective: int
    """The budget, but no more than the window of the model without its longest answer."""
    model: str = ""
    max_output: int | None = None
    """The longest answer, as requested."""
    include: tuple[str, ...] = ()
    """Handles to include."""
    exclude: tuple[str, ...] = ()
    force: bool = False
    """Critical handles may be excluded."""
    within: tuple[tuple[FactScope, str], ...] = ()
    """The scopes of facts that are read beside the global one, with their ids."""
    min_compaction: Level = "none"
    strategy: Strategy | None = None
    """The strategy that shortens the conversation, as requested; None for the engine's policy."""
    fact_share: float
    recall_share: float = 0.0
    """The share of the budget that earlier conversation may take; 0 for a pack without a recall."""
    profile: Profile
    guard: GuardMode = "redact"
    time: bool = True
    """The pack states the time. Without it, a later pack of the same state has the same bytes."""
    audit: bool = False
    """The manifest also lists what is withheld from the reader: do not show it to them."""
    as_of_us: int


class ManifestEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One candidate of a pack, and its fate."""

    id: str
    """Its name: `k12`, `h7`, `m5`, `m5-m90` for a stretch of messages, or the name of a candidate without an id."""
    section: Section
    fate: Fate
    reason: str
    """In words."""
    tokens: int = 0
    """Its tokens in the pack; if it is left out, those it would have taken, as far as known."""
    source: str = ""
    """Its origin: a message, a ledger, a tool."""
    authority: str = ""
    priority: Priority = "medium"
    score: float = 0.0
    """How well it fits the query."""
    rank: int = 0
    """Its rank among the candidates, from 1; 0 if it was not ranked."""
    at: int = 0
    """The seq of its event, or of the first event of the stretch."""
    to: int = 0
    """The seq of the last event of a stretch."""
    digest: str = ""
    """Of the text as it is shown: it differs if two packs show the same thing differently."""
    share: float = 1.0
    """The share of its bytes that is shown: 1 for all of it, 0 for a mere marker."""


class TokenSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The tokens of a pack by section, in the provider's count as far as it is known."""

    budget: int
    used: int
    breakdown: dict[Section, int]
    level: Level = "none"
    """How far the pack was compacted."""
    counted: int = 0
    """Its tokens in the engine's count, before calibration: never more than `used`."""
    messages: int = 0
    """The number of messages."""

    @property
    def remaining(self) -> int:
        return self.budget - self.used


class Exposure(msgspec.Struct, frozen=True, kw_only=True):
    """A superseded value in the history: one that is still shown, or that the guard hides or marks."""

    at: int
    """The seq of the message or summary that states it."""
    fact: str
    ledger: tuple[str, ...]
    key: str


class PassageTrace(msgspec.Struct, frozen=True, omit_defaults=True):
    """The place of a passage in the log among ended facts, as far as it may state them: the index of their ledger and
    their ids, such as `0:k12`."""

    ended: tuple[str, ...] = ()
    """The facts that had ended before: the passage is newer, and may state them."""
    known: tuple[str, ...] = ()
    """The facts that had been asserted before."""
    sources: tuple[str, ...] = ()
    """The facts that came from its message."""


class PassageUse(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A passage that memory found for a pack: all that it takes to show it again."""

    id: str
    stream: StreamId | None = None
    """None if only the memory of the caller has it: then it cannot be shown again."""
    seq: int = 0
    part: int = 0
    score: float = 0.0
    reason: str = ""
    trace: PassageTrace = PassageTrace()


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Why a pack is as it is. With the log, the same bytes can be built from it again."""

    scope: Scope
    frame: str | None = None
    version: int
    """The last event of the session that it includes."""
    ledgers: tuple[tuple[LedgerId, int], ...] = ()
    """The ledgers that were read, and the last event of each."""
    request: PackRequest
    brief: str = ""
    """The digest of the brief, which is not in the log."""
    boundary: int = 0
    """The last event that changed the history view; 0 for none."""
    candidates: tuple[tuple[int, str, float], ...] = ()
    """The facts that the index found: the index of their ledger, their ids and their scores."""
    passages: tuple[PassageUse, ...] = ()
    """The passages that memory found."""
    entries: tuple[ManifestEntry, ...] = ()
    exposed: tuple[Exposure, ...] = ()
    """Superseded values that are shown until the next boundary."""
    redacted: tuple[Exposure, ...] = ()
    """Superseded values that the guard hides or marks. Empty in manifests of versions before 0.15."""
    tokens: TokenSummary
    counter: str
    renderer: str
    policy: str
    """A digest of the policies that it was built under."""
    context_hash: str
    """The SHA-256 of all that is shown."""

    def of(self, fate: Fate) -> tuple[ManifestEntry, ...]:
        return tuple(entry for entry in self.entries if entry.fate == fate)


def pack_id(seq: int) -> str:
    """The id of a recorded pack: the seq of its event, which is unique in the session."""
    return f"p{seq}"


def pack_seq(pack: str | None) -> int:
    """The seq in the id of a pack; 0 for another text."""
    return parse_id_number("p", pack)


class PackRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A pack with a stored manifest."""

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


class PackChange(msgspec.Struct, frozen=True, kw_only=True):
    """The change of one candidate from one pack to another."""

    entry: ManifestEntry
    """As it is now; if it is gone, as it was."""
    before: ManifestEntry | None = None
    what: Literal["added", "gone", "changed", "in", "out"]
    """A new candidate · no longer a candidate · shown differently · included now · left out now."""
    why: str


class PackDiff(msgspec.Struct, frozen=True, kw_only=True):
    """The changes from one pack to another."""

    first: PackRecord
    second: PackRecord
    changes: tuple[PackChange, ...]
    same: int
    """The number of unchanged candidates."""
    prefix_kept: bool
    """The second pack begins with the first one up to its tail: the prompt cache stays warm."""

    def explain(self) -> str:
        """The changes in words: a line for each reason, with the candidates."""
        first, second = self.first.id or "a pack", self.second.id or "a pack that was not recorded"
        sizes = f"From {first} ({self.first.used:,} tokens) to {second} ({self.second.used:,} tokens)"
        cache = "stays warm" if self.prefix_kept else "begins anew"
        lines = [f"{sizes}: {len(self.changes):,} changed, {self.same:,} as before; a prompt cache {cache}."]
        grouped: dict[tuple[str, str, str], list[str]] = {}
        for change in self.changes:
            grouped.setdefault((change.entry.section, change.what, change.why), []).append(change.entry.id)
        lines += (
            f"  {_SIGNS[what]} {', '.join(ids)} ({section}): {why}" for (section, what, why), ids in grouped.items()
        )
        return "\n".join(lines)


_SIGNS = {"added": "+", "gone": "-", "changed": "~", "in": ">", "out": "<"}
