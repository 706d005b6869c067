-- Where a session was forked from, so that the forks of a session are found.

ALTER TABLE session_rows ADD COLUMN parent TEXT NOT NULL DEFAULT '';
ALTER TABLE session_rows ADD COLUMN cut INTEGER NOT NULL DEFAULT 0;

CREATE INDEX session_rows_by_parent ON session_rows (tenant, parent);
