-- One word of each fact, without which its value is told nowhere: by those of a text, the facts are found that it may tell.

ALTER TABLE fact_rows ADD COLUMN anchor TEXT NOT NULL DEFAULT '';

CREATE INDEX fact_rows_by_anchor ON fact_rows (tenant, ledger, anchor, live, fact);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('fact_rows', 'fact_rows_by_anchor', '10000000 1000000 10000 4 2 1');

ANALYZE sqlite_schema;
