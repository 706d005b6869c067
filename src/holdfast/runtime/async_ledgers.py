# Generated from ledgers.py by tools/twins.py: do not edit.

"""Ledgers, and the facts that a session reads. Each method runs one flow; here it is awaited."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Unpack

import holdfast
from holdfast.flows.facts import changes, observation, queries
from holdfast.flows.facts.queries import Scopes
from holdfast.flows.sessions import diffs
from holdfast.model.facts.fact import Fact, FactExplanation, FactMatch, FactScope, FactSource, MemoryType
from holdfast.model.facts.outcomes import ObservedProposal
from holdfast.model.names import check_instance, check_options
from holdfast.model.state import OpenProposal
from holdfast.runtime.async_base import AsyncConversationBase, AsyncLedgerBase
from holdfast.runtime.options import FactOptions


class AsyncReviewFacet(AsyncLedgerBase):
    """Facts that need a decision: `ledger.review`."""

    async def list(self, *, after: str | Fact | None = None, limit: int = 100) -> tuple[Fact, ...]:
        """List the facts that need a review because a fact that they depend on has ended, in all scopes."""
        return await self._run(queries.list_reviews, after=after, limit=limit)

    async def confirm(
        self, fact: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
    ) -> Fact:
        """Confirm that a fact is still true after a review. This also settles disputes about it."""
        return await self._run(changes.confirm, fact, reason=reason, key=key, cause=cause)

    async def endorse(
        self,
        fact: str | Fact,
        authority: str | None = None,
        *,
        reason: str = "",
        key: str | None = None,
        cause: str | None = None,
    ) -> Fact:
        """Raise the authority of a fact, up to your own; `authority` names a lower rung.

        Requires the permission `facts:endorse`. A claim that no fact outranks any more becomes the current fact."""
        return await self._run(changes.endorse, fact, authority, reason=reason, key=key, cause=cause)

    async def reinstate(
        self, fact: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
    ) -> Fact:
        """Make a superseded fact current again. The fact that superseded it is retracted."""
        return await self._run(changes.reinstate, fact, reason=reason, key=key, cause=cause)

    async def promote(
        self,
        fact: str | Fact,
        *,
        scope: FactScope = "global",
        scope_id: str = "",
        reason: str = "",
        key: str | None = None,
        cause: str | None = None,
    ) -> Fact:
        """Move a fact from a narrower scope, such as a draft, to a wider one.

        There it supersedes facts as its authority allows; otherwise it is a claim."""
        return await self._run(
            changes.promote, fact, scope=scope, scope_id=scope_id, reason=reason, key=key, cause=cause
        )

    async def expire(
        self, fact: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
    ) -> Fact:
        """End a fact because its time is over. Facts that depend on it need a review."""
        return await self._run(changes.expire, fact, reason=reason, key=key, cause=cause)

    async def supersede(
        self, fact: str | Fact, by: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
    ) -> Fact:
        """Mark a fact as superseded by another existing fact. Returns the superseded fact."""
        return await self._run(changes.supersede, fact, by, reason=reason, key=key, cause=cause)


class AsyncLedger(AsyncLedgerBase):
    """A collection of facts by key: of a user, a project, an organization, or one session.

        ledger = engine.ledger(user="ada")
        await ledger.set("shipping_address", "456 Oak Ave")
        fact = await ledger.get("shipping_address")

    A ledger object holds no state: any number of sessions and processes can read and write one ledger at the same
    time. It shows only facts that its identity may know."""

    async def set(
        self,
        name: str,
        value: Any,
        /,
        *,
        supersedes: str | Fact | Sequence[str | Fact] = (),
        depends_on: str | Fact | Sequence[str | Fact] = (),
        source: FactSource | str | None = None,
        authority: str | None = None,
        scope: FactScope | None = None,
        **options: Unpack[FactOptions],
    ) -> Fact:
        """Set a fact: from now on, the key `name` has this value.

            await ledger.set("plan", "pro", source="billing", depends_on="contract")

        It supersedes the current fact with the same key and scope, and the facts that `supersedes` names by id, ref or
        key. A fact of higher authority is never superseded: the new one is then stored as a claim against it. Setting
        the same value again changes nothing.

        `authority` can be lower than that of the identity, not higher; it is never higher than that of the facts in
        `depends_on`. Memory type, scope and constraint are inferred from source and text unless you pass them. With
        `valid_from_us`, older news about a time-sensitive key supersede nothing. FactOptions lists all options."""
        check_options("set", FactOptions, options)
        return await self._run(
            changes.set_fact,
            name,
            value,
            supersedes=supersedes,
            depends_on=depends_on,
            source=source,
            authority=authority,
            scope=scope,
            **options,
        )

    async def set_all(
        self,
        facts: Sequence[dict[str, Any]],
        /,
        *,
        key: str | None = None,
        cause: str | None = None,
        expect: int | None = None,
    ) -> tuple[Fact, ...]:
        """Set several facts in one transaction: all of them, or none. Returns the facts that are new.

            await ledger.set_all([{"key": "plan", "value": "pro"}, {"key": "seats", "value": 5, "depends_on": "plan"}])

        Each dict has a `key`, a `value` and the options of set(). A fact can name an earlier one in the list by its
        ref or key."""
        return await self._run(changes.set_facts, facts, key=key, cause=cause, expect=expect)

    async def get(self, name: str, /, *, scope: FactScope = "global", scope_id: str = "") -> Fact | None:
        """Return the current fact for a key in one scope, or None.

        If a fact with another key has superseded it, that fact is returned."""
        return await self._run(queries.get_current, name, scope=scope, scope_id=scope_id)

    async def fact(self, fact: str | Fact, /) -> Fact:
        """Return a fact by its id, or by its ref or key if only one fact has it, whether it is current or has ended.

        A Fact that you pass is read again. Raises FactNotFound, or AmbiguousFact if several facts have the name."""
        return await self._run(queries.get_fact, fact)

    async def items(
        self,
        *,
        within: Scopes | Literal["any"] = (),
        status: Literal["live", "dead"] = "live",
        memory_type: MemoryType | None = None,
        after: str | Fact | None = None,
        limit: int = 100,
    ) -> tuple[Fact, ...]:
        """List facts in the order in which they were set: the live ones, claims included, or those that have ended
        ("dead").

        `memory_type` selects "user", "capability" or "organizational" facts. Without `within`, only the global scope
        is listed; name other scopes there, or pass "any". For the next page, pass the last fact of this one as
        `after`."""
        return await self._run(
            queries.list_facts, within=within, status=status, memory_type=memory_type, after=after, limit=limit
        )

    async def constraints(
        self, *, within: Scopes = (), after: str | Fact | None = None, limit: int = 100
    ) -> tuple[Fact, ...]:
        """List the constraints that are in force: in the global scope, and in the scopes that `within` names."""
        return await self._run(queries.list_constraints, within=within, after=after, limit=limit)

    async def history(self, name: str | Fact, /, *, limit: int = 100) -> tuple[Fact, ...]:
        """Return the facts that a key has had, oldest first: the newest `limit` of them.

        Facts under other keys that they superseded, or that superseded them, are included."""
        return await self._run(queries.read_history, name, limit=limit)

    async def why(self, name: str | Fact, /, *, scope: FactScope = "global", scope_id: str = "") -> FactExplanation:
        """Explain the value of a key: earlier values, claims and disputes, and the facts that it depends on or that
        depend on it.

        Pass a Fact to explain its key in its scope."""
        return await self._run(queries.explain, name, scope=scope, scope_id=scope_id)

    async def search(self, query: str, /, *, within: Scopes = (), limit: int = 50) -> tuple[FactMatch, ...]:
        """Search the live facts by words, best match first. Words in keys and names count for more than words in
        values.

        Without `within`, only the global scope is searched; name other scopes there."""
        return await self._run(queries.search_facts, query, within=within, limit=limit)

    async def retract(
        self, fact: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
    ) -> tuple[Fact, ...]:
        """Retract a fact, and every fact that was derived from it. Returns the facts that have ended.

        No other fact takes its place: superseded facts stay superseded. Without enough authority, the fact stays
        current and the retraction is stored as a dispute. Packs show the dispute beside the fact until someone with
        authority confirms or retracts it."""
        return await self._run(changes.retract, fact, reason=reason, key=key, cause=cause)

    async def erase(self, facts: str | Fact | Sequence[str | Fact], reason: str, *, key: str | None = None) -> None:
        """Erase these facts for good, by their ids: no event, row or index keeps their content.

        Facts that depend on them need a review."""
        await self._run(changes.erase, facts, reason, key=key)

    @property
    def review(self) -> AsyncReviewFacet:
        """The facts that need a decision, and the methods to decide."""
        return AsyncReviewFacet(self._drive, self._context)


class AsyncFactsFacet(AsyncConversationBase):
    """The facts that a session reads: `session.facts`.

    get() and search() look into all ledgers that the session reads. set(), set_all(), items() and constraints() use
    the session's own ledger. history(), why() and retract() use the ledger of the fact that get() returns for the
    key, or else the session's own."""

    async def get(self, name: str, /, *, scope: FactScope = "global", scope_id: str = "") -> Fact | None:
        """Return the current fact for a key in the ledgers that the session reads, or None.

        If several ledgers have one, the highest authority decides, then the order of the ledgers: the session's own
        is first."""
        return await self._drive(observation.get_fact(self._context, name, scope=scope, scope_id=scope_id))

    async def search(self, query: str, /, *, within: Scopes = (), limit: int = 50) -> tuple[FactMatch, ...]:
        """Search the facts in all ledgers that the session reads, best match first.

        Of facts with the same key and scope, only the one that get() returns is listed. The global scope and the
        session's own scope are searched; name other scopes in `within`."""
        return await self._drive(observation.search_facts(self._context, query, within=within, limit=limit))

    async def set(
        self,
        name: str,
        value: Any,
        /,
        *,
        supersedes: str | Fact | Sequence[str | Fact] = (),
        depends_on: str | Fact | Sequence[str | Fact] = (),
        source: FactSource | str | None = None,
        authority: str | None = None,
        scope: FactScope | None = None,
        **options: Unpack[FactOptions],
    ) -> Fact:
        """Set a fact in the session's own ledger: from now on, the key `name` has this value.

            await session.facts.set("budget", 150, reason="said by phone")

        It supersedes the current fact with the same key and scope, unless that has a higher authority: then the new
        fact is a claim. Other ledgers do not change: use session.ledger(user=…).set() for these. Ledger.set()
        describes all parameters."""
        check_options("set", FactOptions, options)
        return await self._run_own(
            changes.set_fact,
            name,
            value,
            supersedes=supersedes,
            depends_on=depends_on,
            source=source,
            authority=authority,
            scope=scope,
            **options,
        )

    async def set_all(
        self,
        facts: Sequence[dict[str, Any]],
        /,
        *,
        key: str | None = None,
        cause: str | None = None,
        expect: int | None = None,
    ) -> tuple[Fact, ...]:
        """Set several facts in the session's own ledger in one transaction: all of them, or none. Returns the new
        facts.

        Each dict has a `key`, a `value` and the options of set(). A fact can name an earlier one in the list by its
        ref or key."""
        return await self._run_own(changes.set_facts, facts, key=key, cause=cause, expect=expect)

    async def items(
        self,
        *,
        within: Scopes | Literal["any"] = (),
        status: Literal["live", "dead"] = "live",
        memory_type: MemoryType | None = None,
        after: str | Fact | None = None,
        limit: int = 100,
    ) -> tuple[Fact, ...]:
        """List the facts of the session's own ledger in the order in which they were set. See Ledger.items()."""
        return await self._run_own(
            queries.list_facts, within=within, status=status, memory_type=memory_type, after=after, limit=limit
        )

    async def constraints(
        self, *, within: Scopes = (), after: str | Fact | None = None, limit: int = 100
    ) -> tuple[Fact, ...]:
        """List the constraints of the session's own ledger that are in force. See Ledger.constraints()."""
        return await self._run_own(queries.list_constraints, within=within, after=after, limit=limit)

    async def history(self, name: str | Fact, /, *, limit: int = 100) -> tuple[Fact, ...]:
        """Return the facts that a key has had, oldest first: the newest `limit` of them.

        Facts under other keys that they superseded, or that superseded them, are included."""
        return await self._run_in_ledger_of(name, queries.read_history, name, limit=limit)

    async def why(self, name: str | Fact, /, *, scope: FactScope = "global", scope_id: str = "") -> FactExplanation:
        """Explain the value of a key: earlier values, claims and disputes, and the facts that it depends on or that
        depend on it.

        Pass a Fact to explain its key in its scope."""
        return await self._run_in_ledger_of(name, queries.explain, name, scope=scope, scope_id=scope_id)

    async def retract(
        self, fact: str | Fact, *, reason: str = "", key: str | None = None, cause: str | None = None
    ) -> tuple[Fact, ...]:
        """Retract a fact, and every fact that was derived from it. Returns the facts that have ended. See
        Ledger.retract()."""
        return await self._run_in_ledger_of(fact, changes.retract, fact, reason=reason, key=key, cause=cause)

    async def merge(
        self, into: holdfast.AsyncSession, *, apply: bool = False, key: str | None = None, cause: str | None = None
    ) -> tuple[ObservedProposal, ...]:
        """Bring the facts that this session changed in its own ledger back into the session that it was forked from.

            branch.facts.merge(session)  # await session.facts.proposals() has them now

        They become proposals that wait for accept() or decline(). With `apply`, they are set at once, with the authority
        of the other session's identity; a fact of higher authority there stays, and the new one is a claim. A constraint,
        and a fact with permissions or an expiry, needs `apply`. The source of a merged fact is this session and its fact.
        Facts that have not changed since the fork are left alone, and so are those whose `scope_id` is this session. Links
        to other facts are not merged."""
        check_instance("into", into, holdfast.AsyncSession)
        side = await self._drive(diffs.read_side(self._context))
        return await into._drive(diffs.merge_facts(into._context, side, apply=apply, key=key, cause=cause))

    async def proposals(self) -> tuple[OpenProposal, ...]:
        """List the proposals of observe() and merge() that wait for a decision."""
        return await self._drive(observation.open_proposals(self._context))

    async def accept(self, proposal: str, /, *, key: str | None = None, cause: str | None = None) -> None:
        """Apply a proposal, with the authority of the session's identity."""
        await self._drive(observation.accept(self._context, proposal, key=key, cause=cause))

    async def decline(self, proposal: str, /, *, key: str | None = None, cause: str | None = None) -> None:
        """Decline a proposal: no fact changes."""
        await self._drive(observation.decline(self._context, proposal, key=key, cause=cause))
