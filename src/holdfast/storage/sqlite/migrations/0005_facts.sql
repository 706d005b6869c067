-- Rows for ledgers and their facts, and the words that a search finds facts by.

CREATE TABLE ledger_rows (
    stream_no  INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant     TEXT NOT NULL,
    ledger     TEXT NOT NULL,
    kind       TEXT NOT NULL,
    version    INTEGER NOT NULL,
    facts      INTEGER NOT NULL,
    created_us INTEGER NOT NULL,
    updated_us INTEGER NOT NULL,
    PRIMARY KEY (tenant, ledger)
) STRICT, WITHOUT ROWID;

CREATE INDEX ledger_rows_by_stream ON ledger_rows (stream_no);
CREATE INDEX ledger_rows_by_kind ON ledger_rows (tenant, kind, ledger);

CREATE TABLE fact_rows (
    row_no     INTEGER PRIMARY KEY,       -- by which its words are kept
    stream_no  INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant     TEXT NOT NULL,
    ledger     TEXT NOT NULL,
    fact       INTEGER NOT NULL,
    subject    TEXT NOT NULL,
    scope      TEXT NOT NULL,
    scope_id   TEXT NOT NULL,
    ref        TEXT NOT NULL,             -- empty for none, so that few rows are in its index
    live       INTEGER NOT NULL,
    claim      INTEGER NOT NULL,
    review     INTEGER NOT NULL,
    constrains INTEGER NOT NULL,
    expires_us INTEGER,                   -- NULL for never, so that few rows are in its index
    requires   TEXT NOT NULL,
    key_words  TEXT NOT NULL,
    words      TEXT NOT NULL,
    state      TEXT NOT NULL,             -- JSON
    UNIQUE (tenant, ledger, fact)
) STRICT;

CREATE INDEX fact_rows_by_stream ON fact_rows (stream_no);
CREATE INDEX fact_rows_by_slot ON fact_rows (tenant, ledger, subject, scope, scope_id, live, fact);
CREATE INDEX fact_rows_by_subject ON fact_rows (tenant, ledger, subject, fact);
CREATE INDEX fact_rows_by_life ON fact_rows (tenant, ledger, live, fact);
CREATE INDEX fact_rows_by_ref ON fact_rows (tenant, ledger, ref, live, fact) WHERE ref <> '';
CREATE INDEX fact_rows_live_by_subject ON fact_rows (tenant, ledger, subject, fact) WHERE live = 1;
CREATE INDEX fact_rows_live_by_scope ON fact_rows (tenant, ledger, scope, scope_id, fact) WHERE live = 1;
CREATE INDEX fact_rows_in_review ON fact_rows (tenant, ledger, fact) WHERE review = 1;
CREATE INDEX fact_rows_constraints ON fact_rows (tenant, ledger, fact) WHERE constrains = 1;
CREATE INDEX fact_rows_by_expiry ON fact_rows (tenant, expires_us, ledger, fact) WHERE live = 1 AND expires_us IS NOT NULL;
CREATE INDEX fact_rows_due ON fact_rows (tenant, ledger, expires_us, fact) WHERE live = 1 AND expires_us IS NOT NULL;

CREATE TABLE depend_rows (
    stream_no INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant    TEXT NOT NULL,
    ledger    TEXT NOT NULL,
    source    INTEGER NOT NULL,
    fact      INTEGER NOT NULL,
    live      INTEGER NOT NULL,
    PRIMARY KEY (tenant, ledger, source, fact)
) STRICT, WITHOUT ROWID;

CREATE INDEX depend_rows_by_stream ON depend_rows (stream_no);
CREATE INDEX depend_rows_live ON depend_rows (tenant, ledger, source, fact) WHERE live = 1;

CREATE TABLE mention_rows (
    stream_no INTEGER NOT NULL REFERENCES streams (stream_no),
    tenant    TEXT NOT NULL,
    ledger    TEXT NOT NULL,
    fact      INTEGER NOT NULL,
    actor     TEXT NOT NULL,
    session   TEXT NOT NULL,
    thread    TEXT NOT NULL,
    seq       INTEGER NOT NULL,
    start     INTEGER NOT NULL,
    stop      INTEGER NOT NULL,
    live      INTEGER NOT NULL,
    PRIMARY KEY (tenant, ledger, fact, actor, session, thread, seq, start)
) STRICT, WITHOUT ROWID;

CREATE INDEX mention_rows_by_stream ON mention_rows (stream_no);
CREATE INDEX mention_rows_by_session ON mention_rows (tenant, actor, session, thread, live, seq, ledger, fact, start);

-- The words of a fact as the index holds them: each begins with l or d for a live or a dead fact, and its ledger's number. So a
-- word's list holds nothing of another ledger: no search walks over it, and how common a word is elsewhere is not known.
CREATE VIEW fact_texts AS
SELECT row_no, iif(key_words = '', '', home || replace(key_words, ' ', ' ' || home)) AS key_words,
       iif(words = '', '', home || replace(words, ' ', ' ' || home)) AS words
FROM (SELECT row_no, iif(live = 1, 'l', 'd') || stream_no || 'x' AS home, key_words, words FROM fact_rows);

-- Only blanks part words: of what Unicode has learnt lately, the tokenizer knows nothing, and would part them there too.
CREATE VIRTUAL TABLE fact_words USING fts5(
    key_words, words, content = 'fact_texts', content_rowid = 'row_no',
    tokenize = "porter unicode61 remove_diacritics 2 categories 'L* M* N* P* S* C*'"
);

INSERT INTO fact_words (fact_words, rank) VALUES ('rank', 'bm25(3.0, 1.0)');

CREATE TRIGGER fact_words_come AFTER INSERT ON fact_rows BEGIN
    INSERT INTO fact_words (rowid, key_words, words)
    SELECT row_no, key_words, words FROM fact_texts WHERE row_no = new.row_no;
END;

-- Before a row goes, since what is taken from the index is what the row says.
CREATE TRIGGER fact_words_go BEFORE DELETE ON fact_rows BEGIN
    INSERT INTO fact_words (fact_words, rowid, key_words, words)
    SELECT 'delete', row_no, key_words, words FROM fact_texts WHERE row_no = old.row_no;
END;

CREATE TRIGGER fact_words_leave BEFORE UPDATE ON fact_rows
WHEN old.live IS NOT new.live OR old.words IS NOT new.words OR old.key_words IS NOT new.key_words
BEGIN
    INSERT INTO fact_words (fact_words, rowid, key_words, words)
    SELECT 'delete', row_no, key_words, words FROM fact_texts WHERE row_no = old.row_no;
END;

CREATE TRIGGER fact_words_return AFTER UPDATE ON fact_rows
WHEN old.live IS NOT new.live OR old.words IS NOT new.words OR old.key_words IS NOT new.key_words
BEGIN
    INSERT INTO fact_words (rowid, key_words, words)
    SELECT row_no, key_words, words FROM fact_texts WHERE row_no = new.row_no;
END;

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('ledger_rows', 'ledger_rows', '100000 10000 1'),
    ('ledger_rows', 'ledger_rows_by_stream', '100000 1'),
    ('ledger_rows', 'ledger_rows_by_kind', '100000 10000 2500 1'),
    ('fact_rows', 'sqlite_autoindex_fact_rows_1', '10000000 1000000 10000 1'),
    ('fact_rows', 'fact_rows_by_stream', '10000000 10000'),
    ('fact_rows', 'fact_rows_by_slot', '10000000 1000000 10000 100 50 20 10 1'),
    ('fact_rows', 'fact_rows_by_subject', '10000000 1000000 10000 100 1'),
    ('fact_rows', 'fact_rows_by_life', '10000000 1000000 10000 5000 1'),
    ('fact_rows', 'fact_rows_by_ref', '1000000 100000 1000 10 5 1'),
    ('fact_rows', 'fact_rows_live_by_subject', '5000000 500000 5000 10 1'),
    ('fact_rows', 'fact_rows_live_by_scope', '5000000 500000 5000 2000 1000 1'),
    ('fact_rows', 'fact_rows_in_review', '1000 100 10 1'),
    ('fact_rows', 'fact_rows_constraints', '1000 100 10 1'),
    ('fact_rows', 'fact_rows_by_expiry', '1000 100 1 1 1'),
    ('fact_rows', 'fact_rows_due', '1000 100 10 1 1'),
    ('depend_rows', 'depend_rows', '1000000 100000 1000 10 1'),
    ('depend_rows', 'depend_rows_by_stream', '1000000 1000'),
    ('depend_rows', 'depend_rows_live', '100000 10000 100 2 1'),
    ('mention_rows', 'mention_rows', '1000000 100000 1000 2 2 2 2 1 1'),
    ('mention_rows', 'mention_rows_by_stream', '1000000 1000'),
    ('mention_rows', 'mention_rows_by_session', '1000000 100000 1000 100 100 20 2 2 1 1');

ANALYZE sqlite_schema;
