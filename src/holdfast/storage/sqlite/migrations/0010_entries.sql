-- Rows for the entries of other frameworks, and for the chunks of their bodies.

CREATE TABLE entry_rows (
    stream_no INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant    TEXT NOT NULL,
    actor     TEXT NOT NULL,
    session   TEXT NOT NULL,
    thread    TEXT NOT NULL,
    entry     TEXT NOT NULL,
    kind      TEXT NOT NULL,
    parent    TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    at_us     INTEGER NOT NULL,
    size      INTEGER NOT NULL,
    digest    TEXT NOT NULL,
    names     TEXT NOT NULL,              -- a JSON array of the full names, if one of them is shortened
    PRIMARY KEY (tenant, actor, session, thread, entry)
) STRICT, WITHOUT ROWID;

CREATE INDEX entry_rows_by_stream ON entry_rows (stream_no);
CREATE INDEX entry_rows_by_seq ON entry_rows (tenant, actor, session, thread, seq);
CREATE INDEX entry_rows_by_kind ON entry_rows (tenant, actor, session, thread, kind, seq);
CREATE INDEX entry_rows_by_parent ON entry_rows (tenant, actor, session, thread, parent, seq);

CREATE TABLE chunk_rows (
    stream_no INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant    TEXT NOT NULL,
    actor     TEXT NOT NULL,
    session   TEXT NOT NULL,
    thread    TEXT NOT NULL,
    digest    TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (tenant, actor, session, thread, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX chunk_rows_by_stream ON chunk_rows (stream_no);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('entry_rows', 'entry_rows', '10000000 1000000 10000 1000 1000 1'),
    ('entry_rows', 'entry_rows_by_stream', '10000000 1000'),
    ('entry_rows', 'entry_rows_by_seq', '10000000 1000000 10000 1000 1000 1'),
    ('entry_rows', 'entry_rows_by_kind', '10000000 1000000 10000 1000 1000 300 1'),
    ('entry_rows', 'entry_rows_by_parent', '10000000 1000000 10000 1000 1000 10 1'),
    ('chunk_rows', 'chunk_rows', '10000000 1000000 10000 1000 1000 1'),
    ('chunk_rows', 'chunk_rows_by_stream', '10000000 1000');

ANALYZE sqlite_schema;
