-- Rows for the pieces of messages that are not shown as they were recorded.

CREATE TABLE page_rows (
    stream_no INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant    TEXT NOT NULL,
    actor     TEXT NOT NULL,
    session   TEXT NOT NULL,
    thread    TEXT NOT NULL,
    message   INTEGER NOT NULL,
    piece     INTEGER NOT NULL,
    frame     INTEGER NOT NULL,
    residency TEXT NOT NULL,
    state     TEXT NOT NULL,              -- JSON
    PRIMARY KEY (tenant, actor, session, thread, message, piece)
) STRICT, WITHOUT ROWID;

CREATE INDEX page_rows_by_stream ON page_rows (stream_no);
CREATE INDEX page_rows_by_residency ON page_rows (tenant, actor, session, thread, frame, residency, message, piece);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('page_rows', 'page_rows', '10000000 1000000 10000 1000 1000 2 1'),
    ('page_rows', 'page_rows_by_stream', '10000000 1000'),
    ('page_rows', 'page_rows_by_residency', '10000000 1000000 10000 1000 1000 100 50 2 1');

ANALYZE sqlite_schema;
