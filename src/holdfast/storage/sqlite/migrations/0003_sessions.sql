-- Rows for tool calls, usage and idle timeouts, and the outbox. What was there is rebuilt from the log.

DROP TABLE session_rows;

CREATE TABLE session_rows (
    stream_no         INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant            TEXT NOT NULL,
    actor             TEXT NOT NULL,
    session           TEXT NOT NULL,
    thread            TEXT NOT NULL,
    status            TEXT NOT NULL,
    version           INTEGER NOT NULL,
    messages          INTEGER NOT NULL,
    tokens            INTEGER NOT NULL,
    open_calls        INTEGER NOT NULL,
    input_tokens      INTEGER NOT NULL,
    cache_read_tokens INTEGER NOT NULL,
    output_tokens     INTEGER NOT NULL,
    created_us        INTEGER NOT NULL,
    updated_us        INTEGER NOT NULL,
    expires_us        INTEGER,            -- NULL for never, so that few rows are in its index
    residue           INTEGER NOT NULL,
    gone              INTEGER NOT NULL,
    PRIMARY KEY (tenant, actor, session, thread)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_rows_by_stream ON session_rows (stream_no);
CREATE INDEX session_rows_by_expiry ON session_rows (tenant, expires_us) WHERE expires_us IS NOT NULL;

CREATE TABLE outbox_rows (
    stream_no INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant    TEXT NOT NULL,
    actor     TEXT NOT NULL,
    session   TEXT NOT NULL,
    thread    TEXT NOT NULL,
    entry     INTEGER NOT NULL,
    why       TEXT NOT NULL,
    first     INTEGER NOT NULL,
    last      INTEGER NOT NULL,
    at_us     INTEGER NOT NULL,
    done      INTEGER NOT NULL,           -- 1 once it was acknowledged
    PRIMARY KEY (tenant, actor, session, thread, entry)
) STRICT, WITHOUT ROWID;

CREATE INDEX outbox_rows_by_stream ON outbox_rows (stream_no);
CREATE INDEX outbox_rows_pending ON outbox_rows (tenant, done, actor, session, thread, entry);
