"""Every bound has a name. Passing one is a typed error, never a slow surprise."""

NAME_BYTES = 256
"""A tenant, actor, session, thread, principal, cause or idempotency key."""

WHOLE_NUMBER = (1 << 62) - 1
"""A version, seq or time."""

PAYLOAD_BYTES = 1 << 20
"""One event's payload. Larger bodies belong in the blob store."""

JSON_DEPTH = 128
"""Lists and objects inside each other in a JSON value."""

JSON_VALUES = 100_000
"""Values in a JSON value, those inside it counted."""

JSON_INT_BITS = 64
"""A whole number in a JSON value, its sign included."""

CONTENT_PARTS = 1_000
"""Parts of one message."""

MESSAGE_CALLS = 256
"""Tool calls of one message."""

CALL_ID_CHARS = 4_096
"""A provider's id of a tool call."""

RAW_ARGS_BYTES = 256 << 10
"""The arguments of a message's calls in the provider's own spelling. Beyond it, they are kept in canonical JSON alone."""

METADATA_BYTES = 64 << 10
"""The metadata of one session."""

VIEW_TRIES = 8
"""Times a view is made anew when something that it was to show was erased meanwhile."""

PINNED_MESSAGES = 1_000
"""System messages of one session since its last reset."""

SUMMARIES = 100
"""Summaries that are in effect in one session."""

SUMMARY_EVENTS = 1_000
"""Events that one summary may stand for, those that another stood for already not counted."""

REDUCED_PIECES = 10_000
"""Pieces of one conversation in view that are not shown as they were recorded."""

LIVE_MESSAGES = 10_000
"""Messages of one conversation that are looked at, or folded, at once."""

LEFT_OUT_HANDLES = 1_000
"""Handles of a frame that packs leave out since it was compacted."""

PACK_TOKENS = 500
"""The least that a pack may have."""

PACK_FACTS = 200
"""Facts that a pack looks at because they fit its query; and the newest of each ledger that it looks at beside them."""

PACK_PAGES = 10
"""Times as many newest facts of one scope that a pack looks at, if some of them are not for the reader."""

PACK_HANDLES = 200
"""The newest handles of a frame that a pack looks at; and how many may be included or excluded by name."""

PACK_FRAMES = 12
"""The live frames that a session's own pack names: those with the newest activity, and the ones above them."""

PACK_FINISHED = 4
"""The finished root frames whose results a session's own pack shows: those that ended last."""

PACK_ROOTS = 32
"""The newest root frames among which a session's own pack looks for finished ones."""

PACK_STRETCHES = 32
"""Stretches of events that the record of a pack names as shown; what lies between them is named with them if there are
more."""

PACK_MANIFEST_BYTES = 8 << 10
"""A compressed manifest above this goes to the blob store; below it, the record of the pack has it."""

PACK_QUERY_CHARS = 200
"""What the record of a pack has of its query; the manifest has all of it."""

DIFF_EVENTS = 10_000
"""Events of one stream that are read to tell why two packs differ: the newest of those between them."""

PROMPT_BYTES = 1 << 20
"""What a role is told: its prompt, invariants and tools."""

INLINE_BYTES = 64 << 20
"""One image or file inside a message."""

SPOOL_BYTES = 50 << 10
"""A text or tool result above this goes to the blob store, and the message keeps a preview."""

PREVIEW_BYTES = 2 << 10
"""What a message keeps of a text in the blob store."""

COUNTED_BYTES = 256 << 10
"""What is counted of a stored body: the tokens of a larger one are estimated from its beginning."""

WHOLE_BYTES = 8 << 20
"""A stored body above this is never shown whole, whatever the budget."""

WINDOW_TOKENS = 1 << 30
"""Tokens of one window."""

LATE_SHOWN = 10
"""Late results that a view brings along."""

BATCH_MESSAGES = 400
"""Messages that one command may record."""

BATCH_FACTS = 200
"""Facts that one command may assert."""

COMMAND_EVENTS = 1_000
"""Events that one command may make."""

ERASE_EVENTS = 10_000
"""Events that one erasure may name."""

SNAPSHOT_BYTES = 16 << 20
"""One stream's snapshot. A larger state is replayed instead."""

SNAPSHOT_EVERY = 100
"""Events between two snapshots of a stream: the most that opening one has to replay. While more frames than that live, it
is up to a quarter of their number, or twice that."""

READ_EVENTS = 1_000
"""Events or rows that one read may ask for."""

REDECIDE_TRIES = 256
"""Times a command without an expected version is decided anew when another process was first. Nearly always once; but
who waits for the lock is late again, so among processes that never pause a few need a dozen and more."""

REBUILD_TRIES = 16
"""Times a stream is replayed anew when another process wrote to it meanwhile."""

GAP_EVENTS = 64
"""Events between two messages of a conversation from which on it is remembered that there is none of it among them."""

GAPS = 256
"""How many such stretches are remembered; beyond them the oldest are read through again."""

VIEWED_BYTES = 32 << 20
"""What is kept in memory of conversations that were looked at."""

PREPARED_SUMMARIES = 256
"""Conversations for which an engine keeps a summary in memory that the next boundary may use."""

CACHED_STREAMS = 1_024
"""Streams whose state an engine keeps in memory."""

CACHED_BYTES = 64 << 20
"""What those states may weigh together; the one used last stays, whatever its weight."""

BRIEF_BYTES = 2 << 10
"""A goal, or a reason, that the live state keeps."""

INPUT_BYTES = 64 << 10
"""The inputs of one frame."""

LIVE_FRAMES = 20_000
"""Frames of one session that have not ended."""

FRAME_DEPTH = 64
"""What `max_subframe_depth` may be at most."""

WEIGHT = 1_000_000
"""What a token of one kind may count against a budget, in thousandths."""

RESERVATIONS = 1_000
"""Open reservations of one frame."""

RESUMERS = 100
"""Principals that may resume one frame."""

ERRORS_KEPT = 256
"""Failures since the assistant spoke last that a frame remembers."""

LAYER_ITEMS = 1_000
"""Items in a session's working set, or in what is around it."""

LAYER_BYTES = 256 << 10
"""What those may weigh together, each of the two."""

PERMISSIONS = 1_000
"""Permissions of one identity, or those that a fact requires."""

SESSION_LEDGERS = 32
"""Ledgers that one session reads."""

SITUATION_TOKENS = 300
"""One field of a situation. What is longer is cut."""

SITUATION_BYTES = 4 << 10
"""The same, whatever a token is."""

SITUATIONS_BYTES = 1 << 20
"""The situations of all conversations of one session."""

SITUATION_AGE = 5
"""Iterations that a field of a situation is left to whom it is from; then rules may write it anew."""

ACTIONS_KEPT = 4
"""The latest actions of a conversation, which the live state points to."""

ACTION_TEXT_BYTES = 48 << 10
"""What was thought, planned, reflected on or tried in one action, each."""

ACTION_CALLS = 64
"""Tool calls of one action; of those taken from the transcript, the newest."""

ACTION_ARGS_BYTES = 4 << 10
"""The arguments of a tool call that an action has as they are; longer ones are cut."""

ACTION_RESULT_CHARS = 1_000
"""What an action has of a result."""

OPEN_PROPOSALS = 100
"""Proposals of a session that wait for a word; the oldest lapse."""

FACT_BYTES = 64 << 10
"""The value of one fact."""

FACT_WORDS = 1_000
"""Words of a fact's value that a search finds it by."""

FACT_DISPUTES = 16
"""Those who took a fact back without the authority for it that it names: the newest ones."""

FACT_LINKS = 1_000
"""Facts that one names: what it depends on, supersedes or comes from, and where it is stated."""

SLOT_FACTS = 64
"""Live facts of one key in one scope: claims, and what some readers may not know of."""

RIPPLE_FACTS = 10_000
"""Facts that the death of one may touch."""

EXPIRED_AT_ONCE = 256
"""Facts that one command lets expire: with what depends on each, they make up to as many events more."""

CHAIN_FACTS = 1_000
"""Facts of one chain that are shown."""

GUARD_WORDS = 4_000
"""Words of a view that facts are looked up by at once."""

GUARD_FACTS = 2_000
"""Live facts, and dead ones, of one ledger that a view is compared with: the newest of those that it may tell."""

PAST_FACTS = 20
"""Earlier values that a pack shows for a question about the past, of each ledger."""
REDACTED_FACTS = 32
"""Facts that one item is said to tell."""

REDACTED_ITEMS = 1_000
"""Items whose redactions one event changes."""

DETECTED_FACTS = 64
"""Facts that a detector is shown."""

PROPOSALS = 64
"""Proposals that are taken from a detector at once."""

DETECTED_BEFORE = 12
"""Messages before the one observed that a detector is shown."""

SEARCH_WORDS = 64
"""Words of a query that a search looks for."""

BATCH_COMMANDS = 512
"""Commands that share one commit."""

QUEUED_COMMANDS = 100_000
"""Commands that may wait for the writer."""

BUSY_MS = 10_000
"""How long a writer waits for another process's lock."""

STATEMENT_MS = 60_000
"""How long PostgreSQL may work on one statement, but for the care of a whole store."""

POOL_CONNECTIONS = 10
"""Connections of one process to PostgreSQL, unless the address says `pool=`."""

MOST_CONNECTIONS = 1_000
"""What `pool=` may ask for."""

POOL_WAIT_MS = 10_000
"""How long a call waits for one of the connections to be free."""

CONNECT_S = 10
"""How long a new connection may take."""

RECONNECT_TRIES = 5
"""Times a call is tried on a new connection when the old one was lost under it."""

BATCH_BYTES = 8 << 20
"""Payloads, snapshots and rows of commands that share one commit on PostgreSQL; at least one command goes, whatever its
size."""

KNOWN_HEADS = 10_000
"""Streams whose heads a process remembers, so that an append needs no look before it."""

HINT_MS = 20
"""How long hints for other processes are gathered before they are sent."""

READERS = 8
"""Read connections of one store."""

BLOB_CHUNK_BYTES = 256 << 10
"""What is read of a blob at once."""

BLOB_BYTES = 16 << 30
"""One blob."""

BLOB_GRACE_S = 24 * 3600
"""How long an unreferenced blob is kept: the longest a writer may take between putting a body and naming it."""

EXPORT_LINE_BYTES = 16 << 20
"""One line of an export."""
