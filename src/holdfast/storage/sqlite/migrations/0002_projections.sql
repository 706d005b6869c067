-- Rows that can be dropped and rebuilt from the log.

CREATE TABLE projection (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL              -- of the code that made the rows; 0 asks for a rebuild
) STRICT;

INSERT INTO projection (one, version) VALUES (1, 0);

CREATE TABLE session_rows (
    stream_no  INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant     TEXT NOT NULL,
    actor      TEXT NOT NULL,
    session    TEXT NOT NULL,
    thread     TEXT NOT NULL,
    status     TEXT NOT NULL,
    version    INTEGER NOT NULL,
    messages   INTEGER NOT NULL,
    tokens     INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    PRIMARY KEY (tenant, actor, session, thread)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_rows_by_stream ON session_rows (stream_no);

CREATE TABLE blob_rows (
    stream_no INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant    TEXT NOT NULL,
    digest    TEXT NOT NULL,
    actor     TEXT NOT NULL,
    session   TEXT NOT NULL,
    thread    TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    size      INTEGER NOT NULL,
    PRIMARY KEY (tenant, digest, actor, session, thread, seq)
) STRICT, WITHOUT ROWID;

CREATE INDEX blob_rows_by_stream ON blob_rows (stream_no);
