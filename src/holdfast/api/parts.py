"""The parts of the API that are no plain operation: turns, tools, bodies, feeds and jobs.

Law: the server and the OpenAPI document share this table, as they share that of the operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from holdfast.api.operations import FRAME_PATH, LEDGER_PATH, SESSION_PATH, Need, Verb
from holdfast.model.content import BlobRef
from holdfast.model.log import FeedEvent
from holdfast.model.sessions.messages import Message

BYTES = "bytes"
EVENTS = "events"


class TurnDemand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What asks for a turn. Send it again with the ticket of the answer, until the answer has a number."""

    owner: str
    """A name for messages and logs."""
    lease_s: float = 60
    """After a crash of the owner, the turn is free after so many seconds."""
    wait_s: float = 30
    """How long you will go on asking; less at each try."""
    ticket: int = 0
    """The place in the queue, from the answer before."""


class TurnOffer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer: the turn, or the place in the queue."""

    number: int | None = None
    """The turn; None if another owner has it."""
    ticket: int
    lease_us: int
    frame: str | None = None
    header: str | None = None
    """The value of the header Holdfast-Turn for requests under this turn."""


class TurnRenewal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For how long to keep a turn, from now."""

    lease_s: float = 60


class ToolText(msgspec.Struct, frozen=True):
    """What a tool tells a model."""

    text: str


class RunDemand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to run a call of a tool of the engine."""

    call_key: str | None = None
    again: bool = False


class CallerDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Who the server takes a caller for."""

    tenant: str
    principal: str
    """Who acts, as the events of the log say."""
    rights: tuple[str, ...] = ()
    actor: str | None = None
    """The only namespace of sessions that the caller may use; None for all."""
    user: str | None = None
    """The user of the key; None for a program."""
    is_local: bool = False
    """Whether the key is the token of a server on this machine."""
    version: str = ""
    """The version of the server."""


class TenantDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A tenant of a store."""

    name: str
    is_own: bool = False
    """Whether it is the tenant of the caller: the only one whose sessions and facts they can read."""


JobName: TypeAlias = Literal[
    "verify", "rebuild", "doctor", "export", "import", "backup", "import_transcript", "export_transcript"
]
JobStatus: TypeAlias = Literal["waiting", "running", "done", "failed", "cancelled"]


class JobDemand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Long work for the server."""

    what: JobName
    full: bool = False
    """For doctor: verify all events, however many there are."""
    body: BlobRef | None = None
    """For import and import_transcript: the file, from the answer to POST /blobs."""
    session: str | None = None
    """For transcripts."""
    actor: str | None = None
    thread: str | None = None
    metadata: dict[str, Any] | None = None
    """For import_transcript: the metadata of the new session."""


class Job(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Long work, and how far it is. Every replica of the server shows the same."""

    id: str
    what: JobName
    status: JobStatus
    by: str
    """The principal that asked for it."""
    created_us: int
    done: int = 0
    total: int = 0
    """The unit depends on the work: events, or bytes. 0 if it is not known."""
    ended_us: int | None = None
    result: Any = None
    """The report of verify or doctor, the number of streams, events or messages, or the session of a transcript."""
    file: BlobRef | None = None
    """What /jobs/{job}/file has: the export, the transcript, or a backup as a tar file. A collection removes it after a
    day."""
    error: dict[str, Any] | None = None
    """The problem that ended it."""


class Part(NamedTuple):
    """A request that is no plain operation."""

    name: str
    """The operationId."""
    verb: Verb
    path: str
    need: Need | None
    summary: str
    description: str = ""
    query: Mapping[str, tuple[Any, str]] = MappingProxyType({})
    """The parameters of the query: type and meaning."""
    body: Any = None
    """The type of the JSON body; BYTES for a stream of bytes; None for none."""
    answer: Any = None
    """The type of the JSON answer; BYTES or EVENTS for a stream; None for none."""
    status: Literal[200, 201, 202, 204] = 200
    is_open: bool = False
    """No key is needed."""


_AFTER = {
    "after": (str, "The cursor of the last event that you have; empty for the first event, `now` for the next one."),
    "timeout_s": (float, "End after so many seconds without an event; 0 for what is stored now."),
}
_FEED = (
    "Server-sent events: the id of each is its cursor, and the data is the stored event. A client that reconnects sends "
    "Last-Event-ID, or `after`, and misses nothing. A comment is sent when nothing happens."
)


def _conversation(prefix: str, holder: str) -> tuple[Part, ...]:
    return (
        Part(
            f"{holder}.take_turn",
            "POST",
            f"{prefix}/turns",
            "write",
            "Try once to take the turn on this conversation.",
            "Answers 201 with the turn, or 202 with a place in the queue: ask again with its ticket, every 10 to 100 ms. "
            "TurnBusy (409) says that the time to wait is over, or the queue is full. Send the header of the answer with "
            "each request under the turn: what is written once it is over is refused with LeaseLost.",
            body=TurnDemand,
            answer=TurnOffer,
            status=201,
        ),
        Part(
            f"{holder}.renew_turn",
            "PUT",
            f"{prefix}/turns/{{number}}",
            "write",
            "Keep a turn for its time from now.",
            "Do it every third of the lease. LeaseLost (409) says that it is over.",
            body=TurnRenewal,
            status=204,
        ),
        Part(f"{holder}.end_turn", "DELETE", f"{prefix}/turns/{{number}}", "write", "Give a turn back.", status=204),
        Part(
            f"{holder}.use_tool",
            "POST",
            f"{prefix}/tools/{{tool}}",
            "read",
            "Call a tool of the engine for a model: read_handle, recall_memory or update_situation.",
            "The body has the arguments of the model, as they are. The answer is text for the model, also for wrong "
            "arguments. update_situation needs the right to write.",
            body=dict[str, Any],
            answer=ToolText,
        ),
        Part(
            f"{holder}.run_call",
            "POST",
            f"{prefix}/calls/{{call}}/run",
            "write",
            "Run an open call of a tool of the engine, and store its result.",
            body=RunDemand,
            answer=Message,
        ),
        Part(
            f"{holder}.handle_content",
            "GET",
            f"{prefix}/handles/{{handle}}/content",
            "read",
            "Read the content of a handle as bytes, also a range of it.",
            "A handle of one text, value, image or file. It is as it was recorded, superseded values included.",
            answer=BYTES,
        ),
    )


PARTS: tuple[Part, ...] = (
    *_conversation(SESSION_PATH, "Session"),
    *_conversation(FRAME_PATH, "Frame"),
    Part(
        "Blobs.put",
        "POST",
        "/blobs",
        "write",
        "Store a large body, streamed, and return the reference to use in a message.",
        "Only for programs.",
        query={"media_type": (str, "The media type of the body, if it has one.")},
        body=BYTES,
        answer=BlobRef,
        status=201,
    ),
    Part(
        "Blobs.read",
        "GET",
        "/blobs/{digest}",
        "read",
        "Read a large body, or a range of it, streamed.",
        "Only for programs. Without `size`, a body is found that a message refers to.",
        query={"size": (int, "The size of the body, from its reference.")},
        answer=BYTES,
    ),
    Part(
        "Engine.caller",
        "GET",
        "/caller",
        None,
        "Say who the key belongs to, and what it may do: what a client or a page asks first.",
        answer=CallerDocument,
    ),
    Part("Engine.watch", "GET", "/feed", "read", "Follow the events of the tenant.", _FEED, _AFTER, answer=EVENTS),
    Part(
        "Session.watch",
        "GET",
        f"{SESSION_PATH}/feed",
        "read",
        "Follow the events of a session.",
        f"{_FEED} The cursor is the seq of the event.",
        _AFTER,
        answer=EVENTS,
    ),
    Part(
        "Ledger.watch",
        "GET",
        f"{LEDGER_PATH}/feed",
        "read",
        "Follow the events of a ledger.",
        f"{_FEED} The cursor is the seq of the event. With the key of a user, events have no payload: read the facts.",
        _AFTER,
        answer=EVENTS,
    ),
    Part(
        "Admin.watch",
        "GET",
        "/admin/events",
        "admin",
        "Follow the events of all tenants.",
        _FEED,
        _AFTER,
        answer=EVENTS,
    ),
    Part(
        "Admin.tenants",
        "GET",
        "/admin/tenants",
        "admin",
        "List the tenants that have a session, in the order of their names.",
        answer=list[TenantDocument],
    ),
    Part(
        "Jobs.start",
        "POST",
        "/jobs",
        "read",
        "Start long work: verify, rebuild, doctor, export, import, backup, or a transcript.",
        "Answers 202 with the job and its Location. All but transcripts need the right admin, and concern all tenants. "
        "With an Idempotency-Key, the same request again is the same job.",
        body=JobDemand,
        answer=Job,
        status=202,
    ),
    Part(
        "Jobs.list",
        "GET",
        "/jobs",
        "read",
        "List the last jobs that the caller may see, the newest first.",
        answer=list[Job],
    ),
    Part(
        "Jobs.get",
        "GET",
        "/jobs/{job}",
        "read",
        "Read how far a job is.",
        "A job whose process has ended without a word is failed within a minute.",
        answer=Job,
    ),
    Part("Jobs.file", "GET", "/jobs/{job}/file", "read", "Download the file that a job made.", answer=BYTES),
    Part(
        "Jobs.cancel",
        "DELETE",
        "/jobs/{job}",
        "read",
        "Cancel a job, at whichever replica it runs; of one that has ended, remove the file.",
        answer=Job,
    ),
    Part(
        "openapi",
        "GET",
        "/openapi.json",
        None,
        "This document.",
        answer=dict[str, Any],
        is_open=True,
    ),
)
"""All parts. FeedEvent is the data of an event of a feed."""
FEED_DATA = FeedEvent
