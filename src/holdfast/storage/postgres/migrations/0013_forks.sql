-- Where a session was forked from, so that the forks of a session are found.

ALTER TABLE session_rows ADD COLUMN parent text COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE session_rows ADD COLUMN cut bigint NOT NULL DEFAULT 0;

CREATE INDEX session_rows_by_parent ON session_rows (tenant, parent);

-- Older code writes sessions without a parent.
CREATE OR REPLACE FUNCTION put_session_rows(rows jsonb, numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF rows ? 'session_rows' THEN
        INSERT INTO session_rows (stream_no, tenant, actor, session, thread, status, version, messages, tokens, open_calls,
                                  input_tokens, cache_read_tokens, output_tokens, created_us, updated_us, expires_us,
                                  residue, gone, parent, cut)
        SELECT numbers[r.write], r.tenant, r.actor, r.session, r.thread, r.status, r.version, r.messages, r.tokens,
               r.open_calls, r.input_tokens, r.cache_read_tokens, r.output_tokens, r.created_us, r.updated_us, r.expires_us,
               r.residue, r.gone, coalesce(r.parent, ''), coalesce(r.cut, 0)
        FROM jsonb_to_recordset(rows -> 'session_rows') AS r (
            write integer, tenant text, actor text, session text, thread text, status text, version bigint, messages bigint,
            tokens bigint, open_calls bigint, input_tokens bigint, cache_read_tokens bigint, output_tokens bigint,
            created_us bigint, updated_us bigint, expires_us bigint, residue bigint, gone bigint, parent text, cut bigint)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, actor, session, thread) DO UPDATE SET
            stream_no = excluded.stream_no, status = excluded.status, version = excluded.version,
            messages = excluded.messages, tokens = excluded.tokens, open_calls = excluded.open_calls,
            input_tokens = excluded.input_tokens, cache_read_tokens = excluded.cache_read_tokens,
            output_tokens = excluded.output_tokens, created_us = excluded.created_us, updated_us = excluded.updated_us,
            expires_us = excluded.expires_us, residue = excluded.residue, gone = excluded.gone, parent = excluded.parent,
            cut = excluded.cut;
    END IF;
    IF rows ? 'outbox_rows' THEN
        INSERT INTO outbox_rows (stream_no, tenant, actor, session, thread, entry, why, first, last, at_us, done)
        SELECT numbers[r.write], r.tenant, r.actor, r.session, r.thread, r.entry, r.why, r.first, r.last, r.at_us, r.done
        FROM jsonb_to_recordset(rows -> 'outbox_rows') AS r (
            write integer, tenant text, actor text, session text, thread text, entry bigint, why text, first bigint,
            last bigint, at_us bigint, done bigint)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, actor, session, thread, entry) DO UPDATE SET
            stream_no = excluded.stream_no, why = excluded.why, first = excluded.first, last = excluded.last,
            at_us = excluded.at_us, done = excluded.done;
    END IF;
    IF rows ? 'blob_rows' THEN
        INSERT INTO blob_rows (stream_no, tenant, digest, actor, session, thread, seq, size)
        SELECT numbers[r.write], r.tenant, r.digest, r.actor, r.session, r.thread, r.seq, r.size
        FROM jsonb_to_recordset(rows -> 'blob_rows') AS r (
            write integer, tenant text, digest text, actor text, session text, thread text, seq bigint, size bigint)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, digest, actor, session, thread, seq) DO UPDATE SET
            stream_no = excluded.stream_no, size = excluded.size;
    END IF;
END $$;
