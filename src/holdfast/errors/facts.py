"""Errors about facts: which one is meant, who may change it, and what it leads to."""

from __future__ import annotations

from holdfast.errors.base import Conflict, InvalidInput, NotFound


class InvalidLedger(InvalidInput):
    """{value} is no ledger: {reason}. Name one with user=, project= or organization=, or take a session's own."""

    value: str
    reason: str


class AmbiguousFact(InvalidInput):
    """{name!r} is the name of several facts in the ledger {ledger}: {facts}. Pass the id of the one that you mean."""

    ledger: object
    name: str
    facts: str


class ForeignFact(InvalidInput):
    """The fact {fact!r} is in the ledger {home}, not in the ledger {ledger}. Use the ledger that it was read from. Nothing
    was stored."""

    fact: str
    home: str
    ledger: str


class FactNotFound(NotFound):
    """There is no fact {fact!r} in the ledger {ledger}. Pass the id, the name outside or the key of one that is there: see
    facts()."""

    ledger: object
    fact: str


class ProposalNotFound(NotFound):
    """The session {session!r} has no proposal {proposal!r} that waits. Pass the id of one that does: see proposals()."""

    session: str
    proposal: str


class FactNotLive(Conflict):
    """The fact {fact!r} is {status}, so {what}. Pass one that lives, or assert it again."""

    fact: str
    status: str
    what: str


class SupersessionCycle(Conflict):
    """The fact {fact!r} would {what}, which leads back to itself. Leave one of the two links out."""

    fact: str
    what: str


class AuthorityExceeded(Conflict):
    """This channel speaks with the authority {has!r}, and {asked!r} was asked for. Open the session, or the ledger, with an
    identity that has it."""

    asked: str
    has: str


class NotAuthorised(Conflict):
    """The fact {fact!r} stands on the authority {needs!r}; {has!r} is not enough to {what} it. Assert what you hold to be
    true, which is kept as a claim, or ask someone who may."""

    fact: str
    needs: str
    has: str
    what: str


class PermissionMissing(Conflict):
    """It takes the permission {permission!r} to {what}. Use an identity that has it."""

    permission: str
    what: str
