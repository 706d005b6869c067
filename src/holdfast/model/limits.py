"""Limits. Each has a name, and passing one is a typed error."""

NAME_BYTES = 256
"""A tenant, actor, session, thread, principal, cause or idempotency key."""
WHOLE_NUMBER = (1 << 62) - 1
"""A version, seq or time."""
PAYLOAD_BYTES = 1 << 20
"""One event's payload. Larger bodies belong in the blob store."""
JSON_DEPTH = 128
"""Nested lists and objects in a JSON value."""
JSON_VALUES = 100_000
"""Values in a JSON value, nested ones included."""
JSON_INT_BITS = 64
"""A whole number in a JSON value, with its sign."""
LONG_NAME_BYTES = 4 << 10
"""The kind, key or parent of an entry. Over NAME_BYTES, the store has it shortened, with a hash."""
ENTRY_BYTES = 64 << 20
"""The body of one entry."""
ENTRY_VALUES = 2_000_000
"""Values in the JSON body of an entry, nested ones included."""
BATCH_ENTRIES = 200
"""Entries that one command may append."""
DELETED_ENTRIES = 1_000
"""Entries that one command may delete."""
SHARED_BYTES = 2 << 10
"""A larger value inside a JSON body of an entry is stored once, and shared by the entries that contain it."""
SHARED_ELEMENTS = 8
"""A list of fewer elements is not stored in runs of elements."""
RUN_BYTES = 1 << 10
"""The average size of a run of small list elements that are stored together; four times as much at most."""
NODE_RUNS = 32
"""The average number of runs that one chunk lists; four times as many at most."""
CHUNK_EVENTS = 256
"""Events for the chunks of one command: each chunk has an event of its own, unless there are more chunks than that."""
CHUNK_EVENT_BYTES = 256 << 10
"""Chunks in one event, together."""
CONTENT_PARTS = 1_000
"""Parts of one message."""
MESSAGE_CALLS = 256
"""Tool calls of one message."""
CALL_ID_CHARS = 4_096
"""A provider's id of a tool call."""
RAW_ARGS_BYTES = 256 << 10
"""The arguments of the calls of a message in the provider's spelling. Above it, only canonical JSON is stored."""
METADATA_BYTES = 64 << 10
"""The metadata of one session."""
VIEW_TRIES = 8
"""Times a view is built again when a message was erased meanwhile."""
PINNED_MESSAGES = 1_000
"""System messages of one session since its last reset."""
SUMMARIES = 100
"""Summaries in effect in one session."""
SUMMARY_EVENTS = 1_000
"""Events that one summary may cover, without those that earlier summaries cover."""
FORK_DEPTH = 1_000
"""Sessions that store the events of one fork: each fork of a fork adds one."""
DIFF_MESSAGES = 1_000
"""Messages of each session that a comparison of two sessions returns: the newest."""
WITHDRAWALS = 1_000
"""Withdrawals in effect in one session since its last reset."""
WITHDRAWN_FACTS = 1_000
"""Facts that one withdrawal may concern."""
REDUCED_PIECES = 10_000
"""Pieces in view of one conversation that are not shown as recorded."""
LIVE_MESSAGES = 10_000
"""Messages of one conversation that are read, or folded, at once."""
FOUND_MESSAGES = 100_000
"""Newest messages that find_message() searches for an id of a client or a provider."""
LEFT_OUT_HANDLES = 1_000
"""Handles of a frame that packs omit after a compaction."""
PACK_TOKENS = 500
"""The smallest budget of a pack."""
PACK_FACTS = 200
"""Facts that match the query of a pack; and the newest facts of each ledger beside them."""
PACK_PAGES = 10
"""Times as many newest facts of one scope that a pack reads if the reader may not see some of them."""
PACK_HANDLES = 200
"""The newest handles of a frame that a pack reads; and how many may be included or excluded by name."""
PACK_FRAMES = 12
"""The live frames that a pack of a session names: those with the newest activity, and their ancestors."""
PACK_FINISHED = 4
"""The ended root frames whose results a pack of a session shows: the last ones."""
PACK_ROOTS = 32
"""The newest root frames among which a pack of a session finds ended ones."""
PACK_STRETCHES = 32
"""Ranges of shown events in the record of a pack. If there are more, ranges are joined."""
PACK_MANIFEST_BYTES = 8 << 10
"""A larger compressed manifest goes to the blob store; a smaller one is in the record of the pack."""
PACK_QUERY_CHARS = 200
"""The part of the query in the record of a pack; the manifest has all of it."""
CALL_EVENTS = 10_000
"""Events of a session that are read back to find the model call before another one in its conversation."""
ACTIVITY_EVENTS = 10_000
"""Events of a session that are read after a page of its activity, to find where its spans end."""
DIFF_EVENTS = 10_000
"""Events of one stream that are read to explain the difference of two packs: the newest between them."""
PROMPT_BYTES = 1 << 20
"""A brief: its prompt, invariants and tools."""
INLINE_BYTES = 64 << 20
"""One image or file inside a message."""
SPOOL_BYTES = 50 << 10
"""A larger text or tool result goes to the blob store, and the message has a preview."""
PREVIEW_BYTES = 2 << 10
"""The preview of a text in the blob store."""
COUNTED_BYTES = 256 << 10
"""The bytes of a stored body that are counted: the tokens of a larger one are estimated."""
WHOLE_BYTES = 8 << 20
"""A larger stored body is never shown in full, whatever the budget."""
WINDOW_TOKENS = 1 << 30
"""Tokens of one window."""
LATE_SHOWN = 10
"""Late results that a view shows."""
BATCH_MESSAGES = 400
"""Messages that one command may record."""
BATCH_FACTS = 200
"""Facts that one command may assert."""
COMMAND_EVENTS = 1_000
"""Events of one command."""
ERASE_EVENTS = 10_000
"""Events that one erasure may name."""
SNAPSHOT_BYTES = 16 << 20
"""One stream's snapshot. A larger state is replayed instead."""
SNAPSHOT_EVERY = 100
"""Events between two snapshots of a stream: the most that a load has to replay. While many frames are live, it is up to
half of their number."""
READ_EVENTS = 1_000
"""Events or rows of one read."""
TURN_WAITERS = 64
"""Owners that wait for the turn on one conversation."""
TURN_GRACE_US = 1_000_000
"""How long a free turn waits for each owner in the queue before the next one may take it."""
REDECIDE_TRIES = 256
"""Times a command without an expected version is decided again when another process was first. Nearly always once; among
processes that never pause, a few need a dozen or more."""
REBUILD_TRIES = 16
"""Times a stream is replayed again when another process wrote to it meanwhile."""
GAP_EVENTS = 64
"""The shortest range of events without messages of a conversation that is remembered."""
GAPS = 256
"""How many such ranges are remembered; the oldest beyond them are read again."""
VIEWED_BYTES = 32 << 20
"""Memory for views of conversations."""
PACK_MEMORY_BYTES = 16 << 20
"""Memory for the facts of the last packs of conversations."""
UNANSWERED_PACKS = 64
"""Packs in the memory of an engine until their replies are recorded."""
PREPARED_SUMMARIES = 256
"""Conversations with a prepared summary in the memory of an engine."""
CACHED_STREAMS = 1_024
"""Streams whose state is in the memory of an engine."""
CACHED_BYTES = 64 << 20
"""The size of those states together; the one used last stays, whatever its size."""
BRIEF_BYTES = 2 << 10
"""A goal or a reason in the live state."""
INPUT_BYTES = 64 << 10
"""The inputs of one frame."""
LIVE_FRAMES = 20_000
"""Live frames of one session."""
FRAME_DEPTH = 64
"""The highest `max_subframe_depth`."""
WEIGHT = 1_000_000
"""The highest weight of a token in a budget, in thousandths."""
RESERVATIONS = 1_000
"""Open reservations of one frame."""
RESUMERS = 100
"""Principals that may resume one frame."""
ERRORS_KEPT = 256
"""Failures since the last reply that a frame remembers."""
LAYER_ITEMS = 1_000
"""Items in the working set, or in the environment, of a session."""
LAYER_BYTES = 256 << 10
"""The size of the working set, and of the environment."""
PERMISSIONS = 1_000
"""Permissions of one identity, or of one fact."""
SESSION_LEDGERS = 32
"""Ledgers that one session reads."""
SITUATION_TOKENS = 300
"""One field of a situation. A longer one is cut."""
SITUATION_BYTES = 4 << 10
"""One field of a situation, in bytes."""
SITUATIONS_BYTES = 1 << 20
"""The situations of all conversations of one session."""
SITUATION_AGE = 5
"""Iterations before rules may replace a field of a situation that the model or the program wrote."""
ACTIONS_KEPT = 4
"""The latest actions of a conversation, which the live state refers to."""
ACTION_TEXT_BYTES = 48 << 10
"""Each text of one action: thought, plan, reflection or attempt."""
ACTION_CALLS = 64
"""Tool calls of one action; from the transcript, the newest ones."""
ACTION_ARGS_BYTES = 4 << 10
"""The arguments of a tool call in an action; longer ones are cut."""
ACTION_RESULT_CHARS = 1_000
"""The part of a result in an action."""
OPEN_PROPOSALS = 100
"""Proposals of a session that wait for a decision; the oldest lapse."""
FACT_BYTES = 64 << 10
"""The value of one fact."""
FACT_WORDS = 1_000
"""Words of the value of a fact that a search can find."""
FACT_DISPUTES = 16
"""Retractions without sufficient authority that a fact lists: the newest ones."""
FACT_LINKS = 1_000
"""Links of one fact: dependencies, superseded facts, sources and mentions."""
SLOT_FACTS = 64
"""Live facts of one key in one scope: claims, and facts that some readers may not see."""
RIPPLE_FACTS = 10_000
"""Facts that the end of one may affect."""
EXPIRED_AT_ONCE = 256
"""Facts that one command expires; their dependents may add as many events."""
CHAIN_FACTS = 1_000
"""Facts of one chain that are shown."""
GUARD_WORDS = 4_000
"""Words of a view that are looked up at once to find facts."""
GUARD_FACTS = 2_000
"""Live facts, and ended ones, of one ledger that a view is compared with: the newest that it may mention."""
PAST_FACTS = 20
"""Earlier values that a pack shows for a question about the past, of each ledger."""
REDACTED_FACTS = 32
"""Facts that one item is marked for."""
REDACTED_ITEMS = 1_000
"""Items whose redactions one event changes."""
DETECTED_FACTS = 64
"""Facts in the input of a detector."""
DETECTED_MATCHES = 2_000
"""Facts of a ledger that are ranked to find those: the facts with the rarest words of the message."""
PROPOSALS = 64
"""Proposals of one call of a detector."""
MODEL_USES = 64
"""Uses of models that are recorded at once."""
DETECTED_BEFORE = 12
"""Earlier messages in the input of a detector."""
SEARCH_WORDS = 64
"""Words of a query that a search uses."""
BATCH_COMMANDS = 512
"""Commands that share one commit."""
QUEUED_COMMANDS = 100_000
"""Commands that may wait for the writer."""
BUSY_MS = 10_000
"""How long a writer waits for the lock of another process."""
STATEMENT_MS = 60_000
"""How long PostgreSQL may work on one statement, except for maintenance."""
POOL_CONNECTIONS = 10
"""Connections of one process to PostgreSQL, unless the address says `pool=`."""
MOST_CONNECTIONS = 1_000
"""The highest `pool=`."""
POOL_WAIT_MS = 10_000
"""How long a call waits for a free connection."""
CONNECT_S = 10
"""How long a new connection may take."""
RECONNECT_TRIES = 5
"""Times a call is tried on a new connection after the old one was lost."""
BATCH_BYTES = 8 << 20
"""Payloads, snapshots and rows of commands that share one commit on PostgreSQL; a single command may be larger."""
KNOWN_HEADS = 10_000
"""Streams whose heads a process remembers, so that an append needs no read before it."""
HINT_MS = 20
"""How long hints for other processes are collected before they are sent."""
READERS = 8
"""Read connections of one store."""
BLOB_CHUNK_BYTES = 256 << 10
"""The bytes of a blob that are read at once."""
BLOB_BYTES = 16 << 30
"""One blob."""
BLOB_GRACE_S = 24 * 3600
"""How long an unreferenced blob stays: the longest time between storing a body and referring to it."""
EXPORT_LINE_BYTES = 16 << 20
"""One line of an export."""
TELEMETRY_CHARS = 32_768
"""One text in an attribute of a span, if contents are exported. A longer text is cut."""
WATCH_EVENTS = 100
"""Events that a watch reads at once, ahead of its consumer."""
WATCH_FILE_MS = 50
"""How often a watched SQLite file is checked for commits of other processes."""
WATCH_READ_MS = 500
"""How often a watched store is read that announces no changes."""
WATCH_RECHECK_MS = 5_000
"""How often a watched store on PostgreSQL is read without an announcement, since a killed process may not have sent it."""
WATCH_RETRY_MS = 60_000
"""How long a watch tries again while the store cannot be read. Then it raises the error."""
PASSAGE_EVENTS = 500
"""Events of a session that are indexed for recall at once."""
PASSAGE_BODY_BYTES = 256 << 10
"""The beginning of a large body that is indexed for recall."""
PASSAGE_PARTS = 1_000
"""Passages of one message."""
INDEX_EVENTS = 100_000
"""Events of a session that one call indexes at most before it searches; the next call continues."""
RECALL_CANDIDATES = 400
"""Passages that are ranked for one question."""
RECALL_NEIGHBOURS = 400
"""Passages beside the best ones that are looked at."""
RECALL_TOKENS = 1_000_000
"""The budget of one recall."""
QUERY_CHARS = 8_192
"""The beginning of a question that is searched for."""
BOOTSTRAP_PASSAGES = 40
"""Passages, and situations, that the start of a session looks at."""
VECTOR_DIMENSIONS = 4_096
"""The length of a vector."""
EMBED_PASSAGES = 64
"""Passages that are embedded at once."""
MEMORY_TIMEOUT_S = 10
"""How long a pack waits for a memory of the caller. Then it is built without a recall."""
RECALLED_NAME_CHARS = 2_000
"""Characters of an id, a name or a reason in a passage of a memory of the caller."""
DELIVERY_MESSAGES = 500
"""Messages in one part of a conversation for long-term memory."""
DELIVERY_LEASE_S = 120
"""How long a worker has an entry of the outbox before another one may claim it. It is renewed while the worker lives."""
DELIVERY_TIMEOUT_S = 600
"""How long a memory of the caller may take for one part of a conversation, and an extractor for one message."""
DELIVERY_TRIES = 20
"""Failures after which an entry of the outbox is set aside."""
EXTRACTION_TRIES = 3
"""Tries of a delivery in which an extractor may fail. From then on, the rules read the messages instead."""
DELIVERY_ERROR_CHARS = 200
"""The error of a delivery."""
DELIVERY_FIRST_PAUSE_S = 1
"""The pause after the first failure of a delivery. It doubles with each further one."""
DELIVERY_LONGEST_PAUSE_S = 3_600
"""The longest pause between two tries."""

MODEL_TIMEOUT_S = 60.0
"""How long a call of a model may take, repairs included. A call of an embedder, too."""
MODEL_ANSWER_TOKENS = 2_000
"""The tokens of a model's answer, unless the caller says otherwise."""
MODEL_TEXT_CHARS = 60_000
"""The characters of a conversation, or of a message, that a prompt quotes. The middle of a longer one is left out."""
MODEL_ANSWERS = 1_000
"""Answers that a detector or an extractor remembers. It forgets the ones that were used the longest ago."""
MODEL_CONFIDENCE = 0.9
"""The highest confidence of a proposal of a model, unless the caller says otherwise."""
EMBEDDED_TEXTS = 64
"""Texts that an embedder takes at once; more are embedded in several steps."""
EMBEDDED_TOKENS = 256
"""Tokens of a text that the local embedder reads. The rest of a longer text is left out."""
