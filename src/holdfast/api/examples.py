"""Examples of requests, for the OpenAPI document. A test sends them."""

from __future__ import annotations

from typing import Any

EXAMPLES: dict[str, dict[str, Any]] = {
    "Engine.create_session": {"session": "order-1", "user": "ada"},
    "Engine.session": {"user": "ada", "create": True},
    "Session.record": {"message": "user", "content": "Ship the lamp to 123 Main St, please."},
    "Session.record_all": {"messages": [["user", "Hello"], ["assistant", "Good morning."]]},
    "Session.observe": {"message": "I moved: my address is 456 Oak Ave now."},
    "Session.pack": {"budget": 8_000, "model": "claude-sonnet-5", "brief": {"prompt": "You are the order desk."}},
    "Session.frame": {"goal": "Find a hotel in Rome", "budget": 20_000},
    "Facts.set": {"value": "456 Oak Ave", "reason": "said by phone"},
    "Ledger.set": {"value": "456 Oak Ave", "source": "billing"},
    "Ledger.set_all": {"facts": [{"key": "plan", "value": "pro"}, {"key": "seats", "value": 5, "depends_on": "plan"}]},
    "Working.set": {"value": {"step": 2}, "ttl_s": 600},
    "Environment.set": {"value": "Europe/Rome"},
    "Entries.append": {"kind": "checkpoint", "key": "1f0a", "body": {"step": 1}},
    "Memory.recall": {"query": "Where does Ada live?", "user": "ada"},
    "Session.take_turn": {"owner": "desk-1", "lease_s": 60, "wait_s": 30},
}
"""A body of an operation, by its name."""
