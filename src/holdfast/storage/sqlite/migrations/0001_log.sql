-- The log: streams with their heads, events with idempotency keys, snapshots.

CREATE TABLE streams (
    stream_no INTEGER PRIMARY KEY,
    tenant    TEXT NOT NULL,
    kind      TEXT NOT NULL,
    key       TEXT NOT NULL,              -- a JSON array of names
    version   INTEGER NOT NULL,
    hash      BLOB NOT NULL,
    UNIQUE (tenant, kind, key)
) STRICT;

CREATE TABLE events (
    position       INTEGER PRIMARY KEY,   -- the feed's order: 1, 2, 3… without a gap
    stream_no      INTEGER NOT NULL REFERENCES streams (stream_no),
    seq            INTEGER NOT NULL,
    command        BLOB NOT NULL,
    ordinal        INTEGER NOT NULL,
    type           TEXT NOT NULL,
    version        INTEGER NOT NULL,
    time_us        INTEGER NOT NULL,
    principal      TEXT NOT NULL,
    cause          TEXT,
    key            TEXT,
    command_digest BLOB NOT NULL,
    payload_digest BLOB NOT NULL,
    hash           BLOB NOT NULL,
    salt           BLOB,
    payload        BLOB,                  -- bytes of JSON; NULL, with the salt, once erased
    UNIQUE (stream_no, seq)
) STRICT;

-- A key belongs to the first event of its command; the writer sees to it that a tenant has it once.
CREATE INDEX events_by_key ON events (key) WHERE key IS NOT NULL AND ordinal = 0;
CREATE INDEX events_by_command ON events (command) WHERE key IS NOT NULL AND ordinal > 0;

CREATE TABLE snapshots (
    stream_no INTEGER PRIMARY KEY REFERENCES streams (stream_no),
    version   INTEGER NOT NULL,
    format    INTEGER NOT NULL,
    state     BLOB NOT NULL
) STRICT;

-- What the whole file holds, counted apart, so that a stream cut off with its head is missed.
CREATE TABLE log_totals (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    events  INTEGER NOT NULL,
    streams INTEGER NOT NULL,
    feed    BLOB NOT NULL                 -- the hashes of all events in the order of the feed, chained
) STRICT;

INSERT INTO log_totals (one, events, streams, feed) VALUES (1, 0, 0, zeroblob(32));
