"""A fake provider for tests and benchmarks: see `server`."""

from tests.gateway.upstreams.bills import Bill
from tests.gateway.upstreams.exchanges import Exchange, digest
from tests.gateway.upstreams.faults import Fault, read_fault
from tests.gateway.upstreams.replies import Call, Redacted, Reply, Text, Thinking, read_reply, say
from tests.gateway.upstreams.server import Ask, FakeProvider

__all__ = [
    "Ask",
    "Bill",
    "Call",
    "Exchange",
    "FakeProvider",
    "Fault",
    "Redacted",
    "Reply",
    "Text",
    "Thinking",
    "digest",
    "read_fault",
    "read_reply",
    "say",
]
