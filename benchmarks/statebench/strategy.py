"""Holdfast as a memory strategy of StateBench: what happens goes into a session and a ledger, and the context of a query is
a pack. `mapping` lists all that is done to the data on the way."""

from __future__ import annotations

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
from benchmarks.statebench.mapping import NO_ID, split_restriction, split_task
from holdfast.core.facts.authority import lowest_rung, outranks
from holdfast.model.content import Role
from holdfast.model.packs.pack import ManifestEntry, Profile

PROFILE = "balanced"
LEDGER = "timeline"
_LADDER = holdfast.types.AuthorityLadder()


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
    def __init__(
        self, token_budget: int = 8_000, profile: str | Profile = PROFILE, *, beyond_fields: bool = True
    ) -> None:
        super().__init__(token_budget)
        self._profile = profile
        self._beyond_fields = beyond_fields
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
            self._assert(fact)
        for number, item in enumerate(start.working_set):
            self._set_working(f"{item.item_type} {number}", item.content)
        for name, value in start.environment.items():
            if name != "now":
                self.session.environment.set(name, value, observed_at_us=begun)

    def process_event(self, event: Event) -> None:
        self._waiting.append(event)

    def _catch_up(self) -> None:
        """What happened since the last query."""
        if self._beyond_fields:
            self._waiting.sort(key=lambda each: each.ts)
        for event in self._waiting:
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
            self.session.environment.set(write.key, write.value, observed_at_us=time_us)
        elif write.layer == "working_set":
            self._set_working(write.key, write.value)
        else:
            self._assert(write)

    def _set_working(self, name: str, value: str) -> None:
        task, bare = split_task(value) if self._beyond_fields else ("", value)
        if task:
            self.session.ledger().set(name, bare, scope="task", scope_id=task)
        else:
            self.session.working.set(name, value)

    def _assert(self, write: Write) -> None:
        restricted, value = split_restriction(write.value) if self._beyond_fields else (False, write.value)
        self._ledger.set(
            write.key,
            value,
            ref="" if write.id == NO_ID else write.id,
            source=write.source.type,
            authority=self._authority(write),
            scope=None if write.scope == "global" else write.scope,  # the default of both: what its text tells
            depends_on=write.depends_on,
            supersedes=() if write.supersedes is None else write.supersedes,
            requires=("restricted",) if restricted else (),
            is_constraint=write.is_constraint or None,
            constraint_type=write.constraint_type,
        )

    def _authority(self, write: Write) -> str:
        stated: str = write.source.authority
        if write.supersedes is None or not self._beyond_fields:
            return stated
        ended = self._ledger.fact(write.supersedes)
        while ended.superseded_by is not None:
            ended = self._ledger.fact(ended.superseded_by)
        return ended.authority if outranks(_LADDER, ended.authority, stated) else lowest_rung(_LADDER, [stated])

    def build_context(self, query: str) -> ContextResult:
        self._catch_up()
        pack = self.session.pack(query, budget=self.token_budget, profile=self._profile)
        shown = str(pack).rstrip().removesuffix(f"Question: {query}").rstrip()
        facts = [each for each in pack.manifest.entries if each.section == "facts"]
        included = [each for each in facts if each.fate in ("included", "reduced")]
        return ContextResult(
            context=shown,
            facts_included=[_metadata(each, valid=True) for each in included],
            facts_excluded=[_metadata(each, valid=False) for each in facts if each not in included],
            inclusion_reasons={each.id: each.reason for each in facts},
            token_count=pack.tokens.used,
        )


def _metadata(entry: ManifestEntry, *, valid: bool) -> FactMetadata:
    key, _, source = entry.source.partition(", ")
    return FactMetadata(fact_id=entry.id, key=key, value="", layer=2, is_valid=valid, source=source)
