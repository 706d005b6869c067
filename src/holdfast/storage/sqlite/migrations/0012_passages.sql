-- Passages that can be recalled, the terms that they are found by, their vectors, and the deliveries of the outbox.

-- Who sees a passage depends on its shelf alone: a user's taken ones, or those of a stream that are not taken (yet), apart by
-- role, kind and permissions. The shelf of a stream stays when its passages are taken: it tells to which shelf they went.
CREATE TABLE passage_shelves (
    shelf_no  INTEGER PRIMARY KEY,
    tenant    TEXT NOT NULL,
    user      TEXT NOT NULL,
    stream_no INTEGER NOT NULL,           -- 0 for the taken ones of a user
    role      TEXT NOT NULL,
    kind      TEXT NOT NULL,
    requires  TEXT NOT NULL,              -- a JSON array, or empty for none
    size      INTEGER NOT NULL DEFAULT 0,
    UNIQUE (tenant, user, stream_no, role, kind, requires)
) STRICT;

CREATE INDEX passage_shelves_by_stream ON passage_shelves (stream_no) WHERE stream_no <> 0;

CREATE TABLE passages (
    row_no    INTEGER PRIMARY KEY AUTOINCREMENT,  -- never twice: the index of words may still know a removed one
    stream_no INTEGER NOT NULL REFERENCES streams (stream_no),
    seq       INTEGER NOT NULL,
    part      INTEGER NOT NULL,
    shelf_no  INTEGER NOT NULL REFERENCES passage_shelves (shelf_no),
    time_us   INTEGER NOT NULL,
    place     INTEGER NOT NULL,
    start     INTEGER NOT NULL,
    speaker   TEXT NOT NULL,
    frame     TEXT NOT NULL,
    handle    TEXT NOT NULL,
    text      TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX passages_by_key ON passages (stream_no, seq, part);
CREATE INDEX passages_by_place ON passages (stream_no, place);
CREATE INDEX passages_by_time ON passages (shelf_no, time_us);

CREATE TRIGGER passages_come AFTER INSERT ON passages BEGIN
    UPDATE passage_shelves SET size = size + 1 WHERE shelf_no = new.shelf_no;
END;

CREATE TRIGGER passages_go AFTER DELETE ON passages BEGIN
    UPDATE passage_shelves SET size = size - 1 WHERE shelf_no = old.shelf_no;
    DELETE FROM passage_words WHERE rowid = old.row_no;
END;

CREATE TRIGGER passages_move AFTER UPDATE OF shelf_no ON passages BEGIN
    UPDATE passage_shelves SET size = size - 1 WHERE shelf_no = old.shelf_no;
    UPDATE passage_shelves SET size = size + 1 WHERE shelf_no = new.shelf_no;
END;

-- Each term begins with the number of its shelf and an x: no search walks over what it may not show.
CREATE VIRTUAL TABLE passage_words USING fts5(
    terms, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii'
);

-- Which passages have which terms: for those that go to another shelf.
CREATE VIRTUAL TABLE passage_terms USING fts5vocab(passage_words, instance);

CREATE TABLE passage_marks (
    stream_no   INTEGER PRIMARY KEY REFERENCES streams (stream_no),
    version     INTEGER NOT NULL,
    format      INTEGER NOT NULL,
    places      INTEGER NOT NULL,
    user        TEXT NOT NULL,
    speaker     TEXT NOT NULL,
    permissions TEXT NOT NULL             -- a JSON array
) STRICT;

CREATE TABLE embedders (
    embedder_no INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE passage_vectors (
    embedder_no INTEGER NOT NULL REFERENCES embedders (embedder_no),
    row_no      INTEGER NOT NULL REFERENCES passages (row_no) ON DELETE CASCADE ON UPDATE CASCADE,
    vector      BLOB NOT NULL,            -- 4 bytes a number, the lowest byte first; its length is 1
    PRIMARY KEY (embedder_no, row_no)
) STRICT;

CREATE INDEX passage_vectors_by_row ON passage_vectors (row_no);

-- Who works on an entry of the outbox. Not rebuilt from the log: a delivery is no event.
CREATE TABLE deliveries (
    tenant    TEXT NOT NULL,
    actor     TEXT NOT NULL,
    session   TEXT NOT NULL,
    thread    TEXT NOT NULL,
    entry     INTEGER NOT NULL,
    owner     TEXT NOT NULL,
    until_us  INTEGER NOT NULL,
    attempts  INTEGER NOT NULL,
    next_us   INTEGER NOT NULL,
    error     TEXT NOT NULL,
    set_aside INTEGER NOT NULL,
    PRIMARY KEY (tenant, actor, session, thread, entry)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER deliveries_end AFTER UPDATE OF done ON outbox_rows WHEN new.done = 1 BEGIN
    DELETE FROM deliveries WHERE tenant = new.tenant AND actor = new.actor AND session = new.session
        AND thread = new.thread AND entry = new.entry;
END;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('passage_shelves', 'sqlite_autoindex_passage_shelves_1', '100000 10000 100 3 2 1 1'),
    ('passage_shelves', 'passage_shelves_by_stream', '100000 3'),
    ('passages', 'passages_by_key', '10000000 100 1 1'),
    ('passages', 'passages_by_place', '10000000 100 1'),
    ('passages', 'passages_by_time', '10000000 10000 1'),
    ('passage_vectors', 'sqlite_autoindex_passage_vectors_1', '10000000 10000000 1'),
    ('passage_vectors', 'passage_vectors_by_row', '10000000 1'),
    ('deliveries', 'deliveries', '1000 100 10 2 2 1');

ANALYZE sqlite_schema;
