-- Rows for frames, their handles and the tokens that wake them.

CREATE TABLE frame_rows (
    stream_no   INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant      TEXT NOT NULL,
    actor       TEXT NOT NULL,
    session     TEXT NOT NULL,
    thread      TEXT NOT NULL,
    frame       INTEGER NOT NULL,
    parent      INTEGER NOT NULL,
    ended       TEXT,                     -- NULL while it lives, so that only those that have ended are in its index
    deadline_us INTEGER,                  -- NULL for never, so that few rows are in its index
    state       TEXT NOT NULL,            -- JSON
    PRIMARY KEY (tenant, actor, session, thread, frame)
) STRICT, WITHOUT ROWID;

CREATE INDEX frame_rows_by_stream ON frame_rows (stream_no);
CREATE INDEX frame_rows_by_parent ON frame_rows (tenant, actor, session, thread, parent, frame);
CREATE INDEX frame_rows_by_ending ON frame_rows (tenant, actor, session, thread, ended, frame) WHERE ended IS NOT NULL;
CREATE INDEX frame_rows_by_deadline ON frame_rows (tenant, deadline_us, actor, session, thread, frame)
WHERE deadline_us IS NOT NULL;

CREATE TABLE handle_rows (
    stream_no INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant    TEXT NOT NULL,
    actor     TEXT NOT NULL,
    session   TEXT NOT NULL,
    thread    TEXT NOT NULL,
    handle    INTEGER NOT NULL,
    frame     INTEGER NOT NULL,
    source    TEXT,
    result    TEXT NOT NULL,
    state     TEXT NOT NULL,              -- JSON
    PRIMARY KEY (tenant, actor, session, thread, handle)
) STRICT, WITHOUT ROWID;

CREATE INDEX handle_rows_by_stream ON handle_rows (stream_no);
CREATE INDEX handle_rows_by_frame ON handle_rows (tenant, actor, session, thread, frame, handle);
CREATE INDEX handle_rows_by_source ON handle_rows (tenant, actor, session, thread, frame, source, handle)
WHERE source IS NOT NULL;

CREATE TABLE token_rows (
    stream_no INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant    TEXT NOT NULL,
    actor     TEXT NOT NULL,
    session   TEXT NOT NULL,
    thread    TEXT NOT NULL,
    frame     INTEGER NOT NULL,
    digest    TEXT NOT NULL,
    status    TEXT NOT NULL,
    suspended INTEGER NOT NULL,
    state     TEXT NOT NULL,              -- JSON
    PRIMARY KEY (tenant, actor, session, thread, frame, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX token_rows_by_stream ON token_rows (stream_no);
CREATE INDEX token_rows_by_digest ON token_rows (tenant, digest, actor, session, thread, frame);
CREATE INDEX token_rows_suspended ON token_rows (tenant, suspended, actor, session, thread, frame, digest);

-- How many rows share the first column of an index, its first two, and so on, in a large file: without a word about that, SQLite
-- takes the primary key, and looks through all of a session or of a tenant for the few rows that are asked for.
ANALYZE projection;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('session_rows', 'session_rows', '100000 10000 100 2 1'),
    ('session_rows', 'session_rows_by_stream', '100000 1'),
    ('session_rows', 'session_rows_by_expiry', '1000 100 1'),
    ('outbox_rows', 'outbox_rows', '1000000 100000 1000 20 10 1'),
    ('outbox_rows', 'outbox_rows_by_stream', '1000000 10'),
    ('outbox_rows', 'outbox_rows_pending', '1000000 100000 100 10 2 1 1'),
    ('blob_rows', 'blob_rows', '1000000 100000 2 2 2 2 1'),
    ('blob_rows', 'blob_rows_by_stream', '1000000 10'),
    ('frame_rows', 'frame_rows', '10000000 1000000 10000 1000 1000 1'),
    ('frame_rows', 'frame_rows_by_stream', '10000000 1000'),
    ('frame_rows', 'frame_rows_by_parent', '10000000 1000000 10000 1000 1000 10 1'),
    ('frame_rows', 'frame_rows_by_ending', '10000000 1000000 10000 1000 1000 10 1'),
    ('frame_rows', 'frame_rows_by_deadline', '1000 100 1 1 1 1 1'),
    ('handle_rows', 'handle_rows', '10000000 1000000 10000 1000 1000 1'),
    ('handle_rows', 'handle_rows_by_stream', '10000000 1000'),
    ('handle_rows', 'handle_rows_by_frame', '10000000 1000000 10000 1000 1000 10 1'),
    ('handle_rows', 'handle_rows_by_source', '10000000 1000000 10000 1000 1000 10 1 1'),
    ('token_rows', 'token_rows', '1000000 100000 1000 100 100 2 1'),
    ('token_rows', 'token_rows_by_stream', '1000000 100'),
    ('token_rows', 'token_rows_by_digest', '1000000 100000 1 1 1 1 1'),
    ('token_rows', 'token_rows_suspended', '1000000 100000 1000 10 2 2 1 1');

ANALYZE sqlite_schema;
