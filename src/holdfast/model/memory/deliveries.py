"""Deliveries: how the entries of the outbox reach long-term memory.

Law: a delivery is no event. It says who works on an entry, until when, and how often it failed; what was delivered is in
the log, as the acknowledgement.
"""

from __future__ import annotations

import msgspec

from holdfast.model.sessions.messages import Offload


class Delivery(msgspec.Struct, frozen=True, kw_only=True):
    """An entry of the outbox that a worker has claimed, or that has failed before."""

    offload: Offload
    owner: str = ""
    """The worker that has it; empty for none."""
    until_us: int = 0
    """Until when it is claimed; then another worker may claim it."""
    attempts: int = 0
    """How often it was claimed."""
    next_us: int = 0
    """When it may be claimed again after a failure."""
    error: str = ""
    """Why it failed the last time."""
    is_set_aside: bool = False
    """It failed too often: no worker claims it until someone requeues it."""


class DeliveryOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one claimed entry. One that is neither delivered nor failed was left to another worker."""

    delivery: Delivery
    is_delivered: bool = False
    is_failed: bool = False
    facts: int = 0
    """How many facts were learned."""


class DeliveryReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one round of deliveries did."""

    delivered: tuple[Offload, ...] = ()
    failed: tuple[Delivery, ...] = ()
    """These are tried again later, or set aside."""
    facts: int = 0
    """How many facts were learned."""
    pending: int = 0
    """How many entries wait, due or not; those that are set aside do not count."""

    def add(self, outcome: DeliveryOutcome) -> DeliveryReport:
        """The report with one more entry."""
        return msgspec.structs.replace(
            self,
            delivered=(*self.delivered, *([outcome.delivery.offload] if outcome.is_delivered else [])),
            failed=(*self.failed, *([outcome.delivery] if outcome.is_failed else [])),
            facts=self.facts + outcome.facts,
        )


class DeliveryBacklog(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of the outbox that are not acknowledged, oldest first, up to READ_EVENTS of each kind."""

    waiting: tuple[Delivery, ...] = ()
    """They are due, in work, or tried again later."""
    set_aside: tuple[Delivery, ...] = ()
    """They failed too often: engine.memory.requeue() makes them due again."""
