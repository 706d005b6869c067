-- The kind of memory that a fact is, so that one kind can be listed without reading the others.

ALTER TABLE fact_rows ADD COLUMN memory_type TEXT NOT NULL DEFAULT 'user';

CREATE INDEX fact_rows_by_memory_type ON fact_rows (tenant, ledger, memory_type, live, fact);

INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES
    ('fact_rows', 'fact_rows_by_memory_type', '10000000 1000000 10000 4000 2000 1');

ANALYZE sqlite_schema;
