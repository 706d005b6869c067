"""What the tools return: data with a schema, and the same as text that a model reads at first sight."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal
from urllib.parse import quote

import msgspec
from mcp_types import CallToolResult, ContentBlock, ResourceLink, TextContent
from pydantic import BaseModel, Field

from holdfast.model import limits
from holdfast.model.facts.fact import Fact
from holdfast.model.names import LedgerId

SCHEME = "holdfast"
PREVIEW_CHARS = 400
"""What a tool shows of a value that is too large for its result."""


class FactView(BaseModel):
    """A fact as it is now."""

    key: str
    value: Any = Field(description="The current value; a preview if `is_preview`.")
    is_preview: bool = False
    ledger: str = Field(description="Where it is stored: `user ada`, `session trip-1`, …")
    since: str = Field(description="When it was stated, in UTC.")
    authority: str = Field(description="The authority of who stated it.")
    is_constraint: bool = Field(default=False, description="A rule that must be followed.")
    is_disputed: bool = False
    needs_review: str = Field(default="", description="Why it may be outdated; empty if it is not.")
    uri: str


class RememberResult(BaseModel):
    fact: FactView
    status: Literal["current", "unchanged", "claim"] = Field(
        description="current: it holds from now on. unchanged: it was known. claim: a statement of higher authority stays."
    )
    has_replaced: bool = Field(default=False, description="An earlier value of this key is outdated from now on.")


class RecallResult(BaseModel):
    facts: list[FactView] = Field(description="Current facts. Outdated values are never among them.")
    history: list[str] = Field(
        default_factory=list, description="What happened to the key, oldest first, if asked for."
    )
    quotations: str = Field(default="", description="What was said earlier, in this conversation or before it.")


class RecordResult(BaseModel):
    session: str
    message: int = Field(description="The number of the stored message.")
    changes: list[str] = Field(default_factory=list, description="Facts that the message has changed, or may have.")
    handle: str = Field(default="", description="For a long text: what read_handle reads it by.")
    uri: str = ""


class SituationResult(BaseModel):
    goal: str = ""
    progress: str = ""
    current_approach: str = ""
    key_findings: str = ""
    next_focus: str = ""
    changed: list[str] = Field(default_factory=list)
    shortened: list[str] = Field(default_factory=list, description="Fields that were too long, and were cut.")


class HandleResult(BaseModel):
    handle: str
    text: str = Field(description="The requested part. Its last line says which part this is, and how to read on.")


class PackResult(BaseModel):
    session: str
    pack: str = Field(default="", description="The id of the stored pack; empty if it was not stored.")
    text: str = Field(description="The context; empty if it is too large for a result: then read it by `uri`.")
    tokens: int
    budget: int
    omitted: int = Field(description="How many pieces did not fit.")
    uri: str = Field(default="", description="The manifest: why each piece is in the pack or not.")
    text_uri: str = ""


class FrameResult(BaseModel):
    session: str
    frame: str = Field(description="The id of the frame; empty for the whole conversation.")
    status: str
    goal: str
    budget: int = Field(description="The tokens that the work may use in all.")
    used: int
    available: int


class AskResult(BaseModel):
    """The answer of a person, or how to get it."""

    status: Literal["answered", "declined", "waiting"]
    answer: str = ""
    session: str
    frame: str = Field(description="The frame that has waited, or waits, for the answer.")
    token: str = Field(default="", description="If waiting: pass it to `ask` together with the answer.")
    next_step: str = Field(default="", description="What to do now.")


def session_uri(session: str, *rest: str) -> str:
    return "/".join([f"{SCHEME}://sessions", *(quote(each, safe="") for each in (session, *rest))])


def fact_uri(ledger: LedgerId | None, key: str) -> str:
    if ledger is None:
        return ""
    name = ledger.names[1] if ledger.kind == "session" else ledger.names[0]
    return "/".join([f"{SCHEME}://facts", *(quote(each, safe="") for each in (ledger.kind, name, key))])


def view_fact(fact: Fact) -> FactView:
    """A fact for a model. A value over the size of a result is shown in part: its resource has all of it."""
    text = show_value(fact.value)
    is_large = len(text.encode("utf-8", "surrogatepass")) > limits.SPOOL_BYTES
    return FactView(
        key=fact.key,
        value=text[:PREVIEW_CHARS] if is_large else fact.value,
        is_preview=is_large,
        ledger=describe_ledger(fact.ledger),
        since=format_time(fact.valid_from_us or fact.at_us),
        authority=fact.authority,
        is_constraint=fact.is_constraint,
        is_disputed=fact.is_disputed,
        needs_review=fact.review_reason,
        uri=fact_uri(fact.ledger, fact.key),
    )


def describe_ledger(ledger: LedgerId | None) -> str:
    """The ledger without the namespace of its session."""
    return "" if ledger is None else f"{ledger.kind} {ledger.names[1] if ledger.kind == 'session' else ledger.names[0]}"


def write_fact(fact: FactView) -> str:
    """A fact in one line."""
    notes = [f"{fact.ledger}, since {fact.since[:10]}"]
    notes += ["a rule to follow"] if fact.is_constraint else []
    notes += ["disputed"] if fact.is_disputed else []
    notes += [f"needs a review: {fact.needs_review}"] if fact.needs_review else []
    value = f"{fact.value}… (large: read {fact.uri})" if fact.is_preview else show_value(fact.value)
    return f"{fact.key}: {value} ({'; '.join(notes)})"


def show_value(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode("utf-8", "replace")


def format_time(time_us: int) -> str:
    return datetime.fromtimestamp(time_us / 1e6, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def build_result(data: BaseModel, text: str, links: Sequence[ResourceLink] = ()) -> CallToolResult:
    """The result of a tool: text for the model, links to what is too large for it, and the data."""
    content: list[ContentBlock] = [TextContent(type="text", text=text), *links]
    return CallToolResult(content=content, structured_content=data.model_dump(mode="json"))


def link(uri: str, name: str, description: str, *, size: int | None = None) -> ResourceLink:
    return ResourceLink(
        type="resource_link", uri=uri, name=name, description=description, size=size, mime_type="text/plain"
    )
