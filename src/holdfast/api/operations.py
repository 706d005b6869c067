"""The table of operations: which method of the public surface is reached by which request.

Laws: a method is in the table once for each path that reaches it, or in LOCAL with the reason why it is not. The server,
the OpenAPI document and the client are built from this table and from the signatures of the methods: nothing is said
twice. A path names what it works on; parameters that are not in the path are the query of a GET or DELETE request, and the
JSON body of any other. The idempotency key and the expected version are the headers Idempotency-Key and If-Match.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

from holdfast.runtime import facets, ledgers, sessions
from holdfast.runtime.admin import Admin
from holdfast.runtime.engine import Blobs, Engine
from holdfast.runtime.memory import MemoryFacet

Verb: TypeAlias = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Need: TypeAlias = Literal["read", "write", "admin"]
"""The right that an operation needs."""
SESSION_PATH = "/sessions/{session}"
FRAME_PATH = "/sessions/{session}/frames/{frame}"
LEDGER_PATH = "/ledgers/{kind}/{ledger}"
"""A ledger, as the program or the identity of the key sees it. The kind `session` has the name of its session."""
SESSION_LEDGER_PATH = "/sessions/{session}/ledgers/{kind}/{ledger}"
"""A ledger, as the identity of the session sees it."""


class ApiOperation(NamedTuple):
    """A method of the public surface, and the request that reaches it."""

    owner: type[Any]
    """The class of the object that has the method: Session, Ledger, ContextFacet."""
    method: str
    verb: Verb
    path: str
    """Below /api, with the parameters in braces."""
    need: Need
    facet: str = ""
    """The attribute of the session, frame, ledger or engine that leads to the owner; empty if it is the owner."""

    @property
    def name(self) -> str:
        """The operationId: unique, from the path and the method."""
        holder = "Frame" if self.path.startswith(FRAME_PATH) else self.owner.__name__.removesuffix("Facet")
        if self.path.startswith(SESSION_LEDGER_PATH):
            holder = f"Session{holder}"
        if holder == "Frame" and self.facet:
            holder = f"Frame{self.owner.__name__.removesuffix('Facet').removeprefix('Frame')}"
        return f"{holder}.{self.method.strip('_')}"


_ENGINE = """
sessions                GET     /sessions
create_session          POST    /sessions
session                 PUT     /sessions/{session}
ledgers                 GET     /ledgers
resume                  POST    /resume
suspended               GET     /suspended
"""
_CONVERSATION = """
record                  POST    /messages
record_all              POST    /messages/batch
record_model_uses       POST    /model-uses
open_calls              GET     /calls
start_call              POST    /calls/{call}/start
result                  POST    /calls/{call}/result
close_calls             POST    /calls/close
withdraw                POST    /withdrawals
restore                 POST    /withdrawals/{withdrawal}/restore
search                  GET     /search
pack                    POST    /packs                            read
frame                   POST    /frames
"""
_SESSION = """
state                   GET     /
messages                GET     /messages
find_message            GET     /messages/{message_id}
evidence                GET     /evidence
events                  GET     /events
activity                GET     /activity
observe                 POST    /observations
recover                 POST    /recover
reset                   POST    /reset
end                     POST    /end
fork                    POST    /forks
forks                   GET     /forks
diff                    GET     /diff
destroy                 DELETE  /
erase                   POST    /erase
refresh_identity        PUT     /identity
"""
_FRAME = """
state                   GET     /
ancestry                GET     /ancestry
spend                   GET     /spend
update                  PATCH   /
suspend                 POST    /suspend
reissue                 POST    /reissue
revoke                  POST    /revoke
pop                     POST    /pop
"""
_CONTEXT = """
view                    GET     /context/view
render                  GET     /context/render
window                  GET     /context/window
occupancy               GET     /context/occupancy
plan                    POST    /context/plan                     read
prepare                 POST    /context/prepare
compact                 POST    /context/compact
draft_summary           GET     /context/summary-draft
summarize               POST    /context/summaries
summaries               GET     /context/summaries
replace_summary         PUT     /context/summaries/{at}
improve_summaries       POST    /context/summaries/improve
"""
_PACKS = """
list                    GET     /packs
calls                   GET     /model-calls
manifest                GET     /packs/{pack}/manifest
reproduce               GET     /packs/{pack}
redactions              GET     /packs/{pack}/redactions
vary                    POST    /packs/{pack}/vary                read
diff                    POST    /packs/diff                       read
store                   POST    /packs/store
"""
_HANDLES = """
list                    GET     /handles
get                     GET     /handles/{name}
parts                   GET     /handles/{handle}/parts
read                    GET     /handles/{handle}/text
page_out                POST    /handles/{handle}/page-out
page_in                 POST    /handles/page-in
"""
_FRAME_HANDLES = """
add                     POST    /handles
replace                 PATCH   /handles/{handle}
attachments             GET     /attachments
"""
_SITUATION = """
get                     GET     /situation
update                  PATCH   /situation
refresh                 POST    /situation/refresh
act                     POST    /situation/actions
actions                 GET     /situation/actions
reasoning               GET     /situation/reasoning
"""
_BUDGET = """
reserve                 POST    /budget/reservations
commit                  POST    /budget/reservations/{reservation}/commit
cancel                  POST    /budget/reservations/{reservation}/cancel
use                     POST    /budget/use
grant                   POST    /budget/grant
"""
_FRAMES = """
list                    GET     /frames
stack                   GET     /frames/stack
"""
_WORKING = """
items                   GET     /working
set                     PUT     /working/{name}
clear                   POST    /working/clear
"""
_ENVIRONMENT = """
get                     GET     /environment
set                     PUT     /environment/{name}
clear                   POST    /environment/clear
"""
_ENTRIES = """
list                    GET     /entries
append                  POST    /entries
append_all              POST    /entries/batch
get                     GET     /entries/{key}
delete                  POST    /entries/delete
"""
_FACTS = """
items                   GET     /facts
search                  GET     /facts/search
constraints             GET     /facts/constraints
history                 GET     /facts/history
why                     GET     /facts/why
get                     GET     /facts/keys/{name}
set                     PUT     /facts/keys/{name}
set_all                 POST    /facts/batch
retract                 POST    /facts/retract
"""
_SESSION_FACTS = """
merge                   POST    /facts/merge
proposals               GET     /facts/proposals
accept                  POST    /facts/proposals/{proposal}/accept
decline                 POST    /facts/proposals/{proposal}/decline
"""
_LEDGER = """
fact                    GET     /facts/fact
erase                   POST    /facts/erase
"""
_REVIEW = """
list                    GET     /review
confirm                 POST    /review/confirm
endorse                 POST    /review/endorse
reinstate               POST    /review/reinstate
promote                 POST    /review/promote
expire                  POST    /review/expire
supersede               POST    /review/supersede
"""
_MEMORY = """
recall                  POST    /memory/recall                    read
bootstrap               GET     /memory/known
totals                  GET     /memory/totals
forget                  POST    /memory/forget
embed                   POST    /memory/embed
deliver                 POST    /memory/deliver
backlog                 GET     /memory/backlog
requeue                 POST    /memory/requeue
"""
_ADMIN = """
totals                  GET     /admin/totals
sweep                   POST    /admin/sweep
collect                 POST    /admin/collect
feed                    GET     /admin/feed
outbox                  GET     /admin/outbox
offloaded               POST    /admin/outbox/messages
acknowledge             POST    /admin/outbox/acknowledge
"""

LOCAL: dict[str, str] = {
    "Engine.acting_as": "the key decides the tenant and the principal",
    "Engine.close": "a connection has nothing to close on the server",
    "Engine.ledger": "opens an object, without a request",
    "Engine.recover": "is Session.recover",
    "Engine.watch": "is a stream: /feed",
    "Engine.worker": "the server delivers by itself",
    "Session.ledger": "opens an object: its ledger is checked by the first request",
    "Session.turn": "is a lease: /turns",
    "Frame.turn": "is a lease: /turns",
    "Session.run": "runs a function of the caller, between /calls/{call}/start and /calls/{call}/result",
    "Frame.run": "runs a function of the caller, between /calls/{call}/start and /calls/{call}/result",
    "Session.recall_tool": "is a function; it asks /tools/{tool}",
    "Frame.recall_tool": "is a function; it asks /tools/{tool}",
    "HandlesFacet.tool": "is a function; it asks /tools/{tool}",
    "FrameHandlesFacet.tool": "is a function; it asks /tools/{tool}",
    "SituationFacet.tool": "is a function; it asks /tools/{tool}",
    "FramesFacet.get": "opens an object: it asks for the state of the frame",
    "Blobs.put": "is a stream of bytes: /blobs",
    "Blobs.chunks": "is a stream of bytes: /blobs/{digest}",
    "Blobs.read": "is a stream of bytes: /blobs/{digest}",
    "Admin.verify": "is a job: /jobs",
    "Admin.rebuild": "is a job: /jobs",
    "Admin.backup": "is a job: /jobs",
    "Admin.export": "is a job: /jobs",
    "Admin.import_": "is a job: /jobs",
    "Admin.import_transcript": "is a job: /jobs",
    "Admin.export_transcript": "is a job: /jobs",
    "Admin.sweeper": "the server sweeps by itself",
    "Admin.watch": "is a stream: /admin/events",
}
"""Methods that are no single request and answer, and what they are instead."""


def _read_table(
    table: str, owner: type[Any], prefix: str, facet: str = "", need: Need | None = None
) -> list[ApiOperation]:
    operations = []
    for line in filter(None, table.splitlines()):
        method, verb, path, *words = line.split()
        default: Need = need or ("read" if verb == "GET" else "write")
        chosen: Any = words[0] if words else default
        operations.append(ApiOperation(owner, method, verb, prefix + path.rstrip("/"), chosen, facet))  # type: ignore[arg-type]
    return operations


def _conversation(owner: type[Any], prefix: str) -> list[ApiOperation]:
    """What a session and a frame share."""
    return [
        *_read_table(_CONVERSATION, owner, prefix),
        *_read_table(_CONTEXT, facets.ContextFacet, prefix, "context"),
        *_read_table(_PACKS, facets.PacksFacet, prefix, "packs"),
        *_read_table(_SITUATION, facets.SituationFacet, prefix, "situation"),
    ]


def _ledger(prefix: str) -> list[ApiOperation]:
    return [
        *_read_table(_FACTS + _LEDGER, ledgers.Ledger, prefix),
        *_read_table(_REVIEW, ledgers.ReviewFacet, prefix, "review"),
    ]


OPERATIONS: tuple[ApiOperation, ...] = (
    *_read_table(_ENGINE, Engine, ""),
    *_read_table(_SESSION, sessions.Session, SESSION_PATH),
    *_conversation(sessions.Session, SESSION_PATH),
    *_read_table(_HANDLES, facets.HandlesFacet, SESSION_PATH, "handles"),
    *_read_table(_FRAMES, sessions.FramesFacet, SESSION_PATH, "frames"),
    *_read_table(_WORKING, facets.WorkingFacet, SESSION_PATH, "working"),
    *_read_table(_ENVIRONMENT, facets.EnvironmentFacet, SESSION_PATH, "environment"),
    *_read_table(_ENTRIES, facets.EntriesFacet, SESSION_PATH, "entries"),
    *_read_table(_FACTS + _SESSION_FACTS, ledgers.FactsFacet, SESSION_PATH, "facts"),
    *_read_table(_FRAME, sessions.Frame, FRAME_PATH),
    *_conversation(sessions.Frame, FRAME_PATH),
    *_read_table(_HANDLES + _FRAME_HANDLES, facets.FrameHandlesFacet, FRAME_PATH, "handles"),
    *_read_table(_BUDGET, facets.BudgetFacet, FRAME_PATH, "budget"),
    *_ledger(LEDGER_PATH),
    *_ledger(SESSION_LEDGER_PATH),
    *_read_table(_MEMORY, MemoryFacet, "", "memory"),
    *_read_table(_ADMIN, Admin, "", "admin", need="admin"),
)
SURFACE: tuple[type[Any], ...] = (
    Engine,
    Blobs,
    Admin,
    MemoryFacet,
    sessions.Session,
    sessions.Frame,
    sessions.FramesFacet,
    facets.ContextFacet,
    facets.PacksFacet,
    facets.HandlesFacet,
    facets.FrameHandlesFacet,
    facets.SituationFacet,
    facets.WorkingFacet,
    facets.EnvironmentFacet,
    facets.EntriesFacet,
    facets.BudgetFacet,
    ledgers.Ledger,
    ledgers.FactsFacet,
    ledgers.ReviewFacet,
)
"""The classes of the public surface."""
