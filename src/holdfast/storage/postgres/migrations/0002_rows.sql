-- Rows that can be dropped and rebuilt from the log, and the two functions that know which tables they are in.

CREATE TABLE session_rows (
    stream_no         bigint NOT NULL,
    tenant            text COLLATE "C" NOT NULL,
    actor             text COLLATE "C" NOT NULL,
    session           text COLLATE "C" NOT NULL,
    thread            text COLLATE "C" NOT NULL,
    status            text COLLATE "C" NOT NULL,
    version           bigint NOT NULL,
    messages          bigint NOT NULL,
    tokens            bigint NOT NULL,
    open_calls        bigint NOT NULL,
    input_tokens      bigint NOT NULL,
    cache_read_tokens bigint NOT NULL,
    output_tokens     bigint NOT NULL,
    created_us        bigint NOT NULL,
    updated_us        bigint NOT NULL,
    expires_us        bigint,
    residue           bigint NOT NULL,
    gone              bigint NOT NULL,
    PRIMARY KEY (tenant, actor, session, thread)
) WITH (fillfactor = 60);

CREATE INDEX session_rows_by_stream ON session_rows (stream_no);
CREATE INDEX session_rows_by_expiry ON session_rows (tenant, expires_us) WHERE expires_us IS NOT NULL;

CREATE TABLE outbox_rows (
    stream_no bigint NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    actor     text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    thread    text COLLATE "C" NOT NULL,
    entry     bigint NOT NULL,
    why       text COLLATE "C" NOT NULL,
    first     bigint NOT NULL,
    last      bigint NOT NULL,
    at_us     bigint NOT NULL,
    done      bigint NOT NULL,
    PRIMARY KEY (tenant, actor, session, thread, entry)
);

CREATE INDEX outbox_rows_by_stream ON outbox_rows (stream_no);
CREATE INDEX outbox_rows_pending ON outbox_rows (tenant, done, actor, session, thread, entry);

CREATE TABLE blob_rows (
    stream_no bigint NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    digest    text COLLATE "C" NOT NULL,
    actor     text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    thread    text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    size      bigint NOT NULL,
    PRIMARY KEY (tenant, digest, actor, session, thread, seq)
);

CREATE INDEX blob_rows_by_stream ON blob_rows (stream_no);

-- `rows` holds a list of objects for each table; `write` in each says which of `numbers` is its stream's.
CREATE FUNCTION put_rows(rows jsonb, numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF rows ? 'session_rows' THEN
        INSERT INTO session_rows (stream_no, tenant, actor, session, thread, status, version, messages, tokens, open_calls,
                                  input_tokens, cache_read_tokens, output_tokens, created_us, updated_us, expires_us,
                                  residue, gone)
        SELECT numbers[r.write], r.tenant, r.actor, r.session, r.thread, r.status, r.version, r.messages, r.tokens,
               r.open_calls, r.input_tokens, r.cache_read_tokens, r.output_tokens, r.created_us, r.updated_us, r.expires_us,
               r.residue, r.gone
        FROM jsonb_to_recordset(rows -> 'session_rows') AS r (
            write integer, tenant text, actor text, session text, thread text, status text, version bigint, messages bigint,
            tokens bigint, open_calls bigint, input_tokens bigint, cache_read_tokens bigint, output_tokens bigint,
            created_us bigint, updated_us bigint, expires_us bigint, residue bigint, gone bigint)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, actor, session, thread) DO UPDATE SET
            stream_no = excluded.stream_no, status = excluded.status, version = excluded.version,
            messages = excluded.messages, tokens = excluded.tokens, open_calls = excluded.open_calls,
            input_tokens = excluded.input_tokens, cache_read_tokens = excluded.cache_read_tokens,
            output_tokens = excluded.output_tokens, created_us = excluded.created_us, updated_us = excluded.updated_us,
            expires_us = excluded.expires_us, residue = excluded.residue, gone = excluded.gone;
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

CREATE FUNCTION forget_rows(numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM session_rows WHERE stream_no = ANY (numbers);
    DELETE FROM outbox_rows WHERE stream_no = ANY (numbers);
    DELETE FROM blob_rows WHERE stream_no = ANY (numbers);
END $$;
