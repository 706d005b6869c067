-- The kind of memory that a fact is, so that one kind can be listed without reading the others.

ALTER TABLE fact_rows ADD COLUMN memory_type text COLLATE "C" NOT NULL DEFAULT 'user';

CREATE INDEX fact_rows_by_memory_type ON fact_rows (tenant, ledger, memory_type, live, fact);

-- As for the other columns, what is rare is said before there is anything.
ALTER TABLE fact_rows ALTER memory_type SET (n_distinct = 3);
SELECT set_config('holdfast.every_tenant', 'on', true);
INSERT INTO fact_rows (stream_no, tenant, ledger, fact, subject, scope, scope_id, ref, live, claim, review, constrains,
                       expires_us, requires, key_words, words, state, anchor, memory_type)
VALUES (0, '-', '-', 1, '-', 'global', '', '', 1, 0, 0, 0, NULL, '', '', '', '{}', '-', 'user');
ANALYZE fact_rows;
DELETE FROM fact_rows WHERE stream_no = 0;
SELECT set_config('holdfast.every_tenant', 'off', true);

-- Older code writes facts without their kind: the next rebuild fills it in.
CREATE OR REPLACE FUNCTION put_fact_rows(rows jsonb, numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM put_frame_rows(rows, numbers);
    IF rows ? 'ledger_rows' THEN
        INSERT INTO ledger_rows (stream_no, tenant, ledger, kind, version, facts, created_us, updated_us)
        SELECT numbers[r.write], r.tenant, r.ledger, r.kind, r.version, r.facts, r.created_us, r.updated_us
        FROM jsonb_to_recordset(rows -> 'ledger_rows') AS r (
            write integer, tenant text, ledger text, kind text, version bigint, facts bigint, created_us bigint,
            updated_us bigint)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, ledger) DO UPDATE SET
            stream_no = excluded.stream_no, kind = excluded.kind, version = excluded.version, facts = excluded.facts,
            created_us = excluded.created_us, updated_us = excluded.updated_us;
    END IF;
    IF rows ? 'fact_rows' THEN
        INSERT INTO fact_rows (stream_no, tenant, ledger, fact, subject, scope, scope_id, ref, live, claim, review,
                               constrains, expires_us, requires, key_words, words, memory_type, anchor, state)
        SELECT numbers[r.write], r.tenant, r.ledger, r.fact, r.subject, r.scope, r.scope_id, r.ref, r.live, r.claim,
               r.review, r.constrains, r.expires_us, r.requires, r.key_words, r.words, coalesce(r.memory_type, 'user'),
               coalesce(r.anchor, ''), r.state
        FROM jsonb_to_recordset(rows -> 'fact_rows') AS r (
            write integer, tenant text, ledger text, fact bigint, subject text, scope text, scope_id text, ref text,
            live bigint, claim bigint, review bigint, constrains bigint, expires_us bigint, requires text, key_words text,
            words text, memory_type text, anchor text, state text)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, ledger, fact) DO UPDATE SET
            stream_no = excluded.stream_no, subject = excluded.subject, scope = excluded.scope,
            scope_id = excluded.scope_id, ref = excluded.ref, live = excluded.live, claim = excluded.claim, review = excluded.review,
            constrains = excluded.constrains, expires_us = excluded.expires_us, requires = excluded.requires,
            key_words = excluded.key_words, words = excluded.words, memory_type = excluded.memory_type,
            anchor = excluded.anchor, state = excluded.state;
    END IF;
    IF rows ? 'depend_rows' THEN
        INSERT INTO depend_rows (stream_no, tenant, ledger, source, fact, live)
        SELECT numbers[r.write], r.tenant, r.ledger, r.source, r.fact, r.live
        FROM jsonb_to_recordset(rows -> 'depend_rows') AS r (
            write integer, tenant text, ledger text, source bigint, fact bigint, live bigint)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, ledger, source, fact) DO UPDATE SET stream_no = excluded.stream_no, live = excluded.live;
    END IF;
    IF rows ? 'mention_rows' THEN
        INSERT INTO mention_rows (stream_no, tenant, ledger, fact, actor, session, thread, seq, start, stop, live)
        SELECT numbers[r.write], r.tenant, r.ledger, r.fact, r.actor, r.session, r.thread, r.seq, r.start, r.stop, r.live
        FROM jsonb_to_recordset(rows -> 'mention_rows') AS r (
            write integer, tenant text, ledger text, fact bigint, actor text, session text, thread text, seq bigint,
            start bigint, stop bigint, live bigint)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, ledger, fact, actor, session, thread, seq, start) DO UPDATE SET
            stream_no = excluded.stream_no, stop = excluded.stop, live = excluded.live;
    END IF;
END $$;
