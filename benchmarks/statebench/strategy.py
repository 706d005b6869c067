"""Holdfast as a memory strategy of StateBench: what happens goes into a session and a ledger, and the context of a query is
a pack.

What the data writes as text, and an agent's program would say in the call, is said in the call here: `[RESTRICTED: …]` is
a permission that the reader lacks, and `[SCOPE: …]` is the task that something at hand belongs to. Nothing else is read
here; what is superseded, supposed or beside the point is for the engine to tell.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from statebench.baselines.base import ContextResult, FactMetadata, MemoryStrategy  # type: ignore[import-not-found]
from statebench.schema.timeline import (  # type: ignore[import-not-found]
    ConversationTurn,
    Event,
    InitialState,
    StateWrite,
    Supersession,
    Write,
)

import holdfast
from holdfast.model.content import Role
from holdfast.model.pack import Entry, Profile

PROFILE = "high_stakes"
NO_ID = "W-AUTO"
LEDGER = "timeline"
_RESTRICTED = re.compile(r"\[RESTRICTED\b[^\]]*\]\s*")
_SCOPED = re.compile(r"\[SCOPE:\s*(?P<task>[^\]]+)\]\s*")
_RUNGS = holdfast.Ladder().rungs


class Clock:
    """The time of the timeline. It goes on, also between two events that bear the same."""

    def __init__(self) -> None:
        self.time_us = 0

    def now_us(self) -> int:
        return self.time_us

    def at(self, time: datetime) -> int:
        self.time_us = max(self.time_us + 1, int(time.replace(tzinfo=UTC).timestamp() * 1e6))
        return self.time_us


class HoldfastStrategy(MemoryStrategy):  # type: ignore[misc]
    def __init__(self, token_budget: int = 8_000, profile: str | Profile = PROFILE) -> None:
        super().__init__(token_budget)
        self._profile = profile
        self._engine: holdfast.Engine | None = None
        self.reset()

    @property
    def name(self) -> str:
        return "holdfast"

    @property
    def expects_initial_state(self) -> bool:
        return True

    def reset(self) -> None:
        if self._engine is not None:
            self._engine.close()
        self._clock = Clock()
        self._engine = holdfast.open("memory:", clock=self._clock)
        self._ledger = self._engine.ledger(project=LEDGER)
        self._session: holdfast.Session | None = None
        self._waiting: list[Event] = []

    @property
    def session(self) -> holdfast.Session:
        if self._session is None:
            assert self._engine is not None
            self._session = self._engine.create_session("timeline", ledgers=[self._ledger.id])
        return self._session

    def initialize_from_state(self, start: InitialState) -> None:
        assert self._engine is not None
        begun = self._clock.at(datetime.fromisoformat(str(start.environment["now"])))
        who = start.identity_role
        identity = holdfast.Identity(
            user_name=who.user_name,
            authority=who.authority,
            department=who.department or "",
            organization=who.organization or "",
        )
        self._session = self._engine.create_session("timeline", identity=identity, ledgers=[self._ledger.id])
        for fact in start.persistent_facts:
            self._assert(
                fact.id,
                fact.key,
                fact.value,
                fact.source.type,
                fact.source.authority,
                depends_on=fact.depends_on,
                constraint=fact.is_constraint,
                constraint_type=fact.constraint_type,
            )
        for number, item in enumerate(start.working_set):
            self._at_hand(f"{item.item_type} {number}", item.content)
        for name, value in start.environment.items():
            if name != "now":
                self.session.set_environment(name, value, observed_at_us=begun)

    def process_event(self, event: Event) -> None:
        self._waiting.append(event)

    def _catch_up(self) -> None:
        """What happened since the last query, in the order in which it happened: the data names some of it late."""
        for event in sorted(self._waiting, key=lambda each: each.ts):
            self._happen(event)
        self._waiting.clear()

    def _happen(self, event: Event) -> None:
        time_us = self._clock.at(event.ts)
        if isinstance(event, ConversationTurn):
            role: Role = "user" if event.speaker == "user" else "assistant"
            self.session.observe(event.text, role=role)
        elif isinstance(event, StateWrite | Supersession):
            for write in event.writes:
                self._write(write, time_us)

    def _write(self, write: Write, time_us: int) -> None:
        if write.layer == "environment":
            self.session.set_environment(write.key, write.value, observed_at_us=time_us)
        elif write.layer == "working_set":
            self._at_hand(write.key, write.value)
        else:
            self._assert(
                write.id,
                write.key,
                write.value,
                write.source.type,
                write.source.authority,
                supersedes=write.supersedes,
                depends_on=write.depends_on,
                constraint=write.is_constraint,
                constraint_type=write.constraint_type,
            )

    def _at_hand(self, name: str, value: str) -> None:
        """Something at hand, unless it belongs to a task of its own: then only who asks for that task is told."""
        task = _SCOPED.match(value)
        if task is None:
            self.session.set_working(name, value)
            return
        self.session.ledger().assert_(name, value[task.end() :], scope="task", scope_id=task["task"].strip())

    def _assert(
        self,
        ref: str,
        key: str,
        value: str,
        source: str,
        authority: str | None,
        *,
        supersedes: str | None = None,
        depends_on: list[str],
        constraint: bool,
        constraint_type: str | None,
    ) -> None:
        restricted = _RESTRICTED.match(value)
        self._ledger.assert_(
            key,
            value[restricted.end() :] if restricted else value,
            ref="" if ref == NO_ID else ref,
            source=source,
            authority=self._authority(authority or "peer", supersedes),
            depends_on=depends_on,
            supersedes=() if supersedes is None else supersedes,
            requires=("restricted",) if restricted else (),
            is_constraint=constraint or None,
            constraint_type=constraint_type,
        )

    def _authority(self, stated: str, supersedes: str | None) -> str:
        """As it is stated; but a record that says what it ends is kept by whoever may end that."""
        if supersedes is None:
            return stated
        ended = self._ledger.get(supersedes)
        while ended.superseded_by is not None:
            ended = self._ledger.get(ended.superseded_by)
        return min(stated, ended.authority, key=lambda each: _RUNGS.index(holdfast.Ladder().aliases.get(each, each)))

    def build_context(self, query: str) -> ContextResult:
        self._catch_up()
        pack = self.session.pack(query, budget=self.token_budget, profile=self._profile)
        shown = str(pack).rstrip().removesuffix(f"Question: {query}").rstrip()  # whoever asks puts it behind
        facts = [each for each in pack.manifest.entries if each.section == "facts"]
        included = [each for each in facts if each.fate in ("included", "reduced")]
        return ContextResult(
            context=shown,
            facts_included=[_told(each, valid=True) for each in included],
            facts_excluded=[_told(each, valid=False) for each in facts if each not in included],
            inclusion_reasons={each.id: each.reason for each in facts},
            token_count=pack.tokens.used,
        )


def _told(entry: Entry, *, valid: bool) -> FactMetadata:
    key, _, source = entry.source.partition(", ")
    return FactMetadata(fact_id=entry.id, key=key, value="", layer=2, is_valid=valid, source=source)
