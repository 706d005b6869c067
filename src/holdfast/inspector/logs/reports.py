"""The report of a log: what an agent was sent, what of it was outdated, where its cache broke, and what Holdfast
would have sent. Money is in micro-dollars, times in microseconds."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

LogKind: TypeAlias = Literal["claude-code", "openai-chat", "openai-responses", "anthropic", "langgraph", "holdfast"]
DeadKind: TypeAlias = Literal["fact", "stale_read"]
BreakCause: TypeAlias = Literal["idle", "compaction", "rewind", "model", "system", "tools", "context", "unknown"]
"""The cache was unused for too long · the log has a summary there · messages were taken back · another model ·
another system prompt · other tools · the program left out or changed earlier messages · the log does not say."""


class LogSource(msgspec.Struct, frozen=True, kw_only=True):
    """The file of a log."""

    kind: LogKind
    file: str
    """Its name, without folders."""
    lines: int
    """Lines, or elements of its list."""
    skipped: int = 0
    """Of these, broken ones and those that are no part of a conversation that can be read."""


class TokenBill(msgspec.Struct, kw_only=True):
    """Tokens of model calls, and their price."""

    tokens: int = 0
    """All prompts together."""
    cache_read: int = 0
    cache_write: int = 0
    fresh: int = 0
    """Neither read from a cache nor written to one."""
    output: int = 0
    cost: int = 0
    modelled_cost: int = 0
    """What the same prompts cost under the cache model of the report. For Holdfast it is the cost."""


class DeadValue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text that was outdated, and still in the context of later calls."""

    kind: DeadKind
    what: str
    """The key of a fact, or the tool and its target."""
    at: int
    """The seq of the message that has it."""
    died_at: int
    """The seq of the message that made it outdated."""
    by: str
    """What replaced it, in words."""
    calls: int
    """How many later calls were shown it."""
    tokens: int
    """Its tokens in each of these calls, in the end."""
    cost: int = 0
    """What carrying it cost in all of these calls."""
    value: str = ""
    """The outdated value of a fact, and the words of the message around it."""
    words: str = ""
    thread: str = ""


class CacheBreak(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call that paid again for tokens which the call before had in the cache."""

    reply: int
    """The seq of the reply."""
    tokens_rewritten: int
    cost: int = 0
    """What was paid for these tokens, less what reading them would have cost."""
    cause: BreakCause = "unknown"
    why: str = ""
    thread: str = ""


class CallDetail(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One model call."""

    reply: int
    """The seq of the reply."""
    sent_tokens: int
    holdfast_tokens: int
    dead: int = 0
    """How many dead values it was shown."""
    dead_tokens: int = 0
    cost: int = 0
    holdfast_cost: int = 0
    is_break: bool = msgspec.field(default=False, name="break")
    thread: str = ""


class LogReport(msgspec.Struct, kw_only=True):
    """What a log says."""

    source: LogSource
    session: str = ""
    """The session that the log was replayed into."""
    model: str = ""
    """The model of most calls; empty if the log names none."""
    is_priced: bool = False
    """The prices of all models are known. Without them, every cost is 0."""
    calls: int = 0
    threads: int = 1
    """Conversations: the session itself, and its sub-agents."""
    estimated: int = 0
    """Calls without usage in the log: their tokens and their cache are estimates."""
    first_us: int = 0
    last_us: int = 0
    sent: TokenBill = msgspec.field(default_factory=TokenBill)
    holdfast: TokenBill = msgspec.field(default_factory=TokenBill)
    dead: list[DeadValue] = msgspec.field(default_factory=list)
    """The most expensive first."""
    dead_values: int = 0
    """All of them, also those that are not listed, and what carrying them cost."""
    dead_cost: int = 0
    dead_calls: int = 0
    """Calls that were shown at least one dead value."""
    cache_breaks: list[CacheBreak] = msgspec.field(default_factory=list)
    """In their order."""
    assumptions: list[str] = msgspec.field(default_factory=list)
    calls_detail: list[CallDetail] = msgspec.field(default_factory=list)
