-- Rows for frames, their handles and the tokens that wake them; and whoever knows which tables there are.

CREATE TABLE frame_rows (
    stream_no   bigint NOT NULL,
    tenant      text COLLATE "C" NOT NULL,
    actor       text COLLATE "C" NOT NULL,
    session     text COLLATE "C" NOT NULL,
    thread      text COLLATE "C" NOT NULL,
    frame       bigint NOT NULL,
    parent      bigint NOT NULL,
    ended       text COLLATE "C",
    deadline_us bigint,
    state       text COLLATE "C" NOT NULL,    -- JSON
    PRIMARY KEY (tenant, actor, session, thread, frame)
) WITH (fillfactor = 60);

CREATE INDEX frame_rows_by_stream ON frame_rows (stream_no);
CREATE INDEX frame_rows_by_parent ON frame_rows (tenant, actor, session, thread, parent, frame);
CREATE INDEX frame_rows_by_ending ON frame_rows (tenant, actor, session, thread, ended, frame) WHERE ended IS NOT NULL;
CREATE INDEX frame_rows_by_deadline ON frame_rows (tenant, deadline_us, actor, session, thread, frame)
WHERE deadline_us IS NOT NULL;

CREATE TABLE handle_rows (
    stream_no bigint NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    actor     text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    thread    text COLLATE "C" NOT NULL,
    handle    bigint NOT NULL,
    frame     bigint NOT NULL,
    source    text COLLATE "C",
    result    text COLLATE "C" NOT NULL,
    state     text COLLATE "C" NOT NULL,      -- JSON
    PRIMARY KEY (tenant, actor, session, thread, handle)
);

CREATE INDEX handle_rows_by_stream ON handle_rows (stream_no);
CREATE INDEX handle_rows_by_frame ON handle_rows (tenant, actor, session, thread, frame, handle);
CREATE INDEX handle_rows_by_source ON handle_rows (tenant, actor, session, thread, frame, source, handle)
WHERE source IS NOT NULL;

CREATE TABLE token_rows (
    stream_no bigint NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    actor     text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    thread    text COLLATE "C" NOT NULL,
    frame     bigint NOT NULL,
    digest    text COLLATE "C" NOT NULL,
    status    text COLLATE "C" NOT NULL,
    suspended bigint NOT NULL,
    state     text COLLATE "C" NOT NULL,      -- JSON
    PRIMARY KEY (tenant, actor, session, thread, frame, digest)
);

CREATE INDEX token_rows_by_stream ON token_rows (stream_no);
CREATE INDEX token_rows_by_digest ON token_rows (tenant, digest, actor, session, thread, frame);
CREATE INDEX token_rows_suspended ON token_rows (tenant, suspended, actor, session, thread, frame, digest);

-- `rows` holds a list of objects for each table; `write` in each says which of `numbers` is its stream's.
CREATE OR REPLACE FUNCTION put_rows(rows jsonb, numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
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
    IF rows ? 'frame_rows' THEN
        INSERT INTO frame_rows (stream_no, tenant, actor, session, thread, frame, parent, ended, deadline_us, state)
        SELECT numbers[r.write], r.tenant, r.actor, r.session, r.thread, r.frame, r.parent, r.ended, r.deadline_us, r.state
        FROM jsonb_to_recordset(rows -> 'frame_rows') AS r (
            write integer, tenant text, actor text, session text, thread text, frame bigint, parent bigint, ended text,
            deadline_us bigint, state text)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, actor, session, thread, frame) DO UPDATE SET
            stream_no = excluded.stream_no, parent = excluded.parent, ended = excluded.ended,
            deadline_us = excluded.deadline_us, state = excluded.state;
    END IF;
    IF rows ? 'handle_rows' THEN
        INSERT INTO handle_rows (stream_no, tenant, actor, session, thread, handle, frame, source, result, state)
        SELECT numbers[r.write], r.tenant, r.actor, r.session, r.thread, r.handle, r.frame, r.source, r.result, r.state
        FROM jsonb_to_recordset(rows -> 'handle_rows') AS r (
            write integer, tenant text, actor text, session text, thread text, handle bigint, frame bigint, source text,
            result text, state text)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, actor, session, thread, handle) DO UPDATE SET
            stream_no = excluded.stream_no, frame = excluded.frame, source = excluded.source, result = excluded.result,
            state = excluded.state;
    END IF;
    IF rows ? 'token_rows' THEN
        INSERT INTO token_rows (stream_no, tenant, actor, session, thread, frame, digest, status, suspended, state)
        SELECT numbers[r.write], r.tenant, r.actor, r.session, r.thread, r.frame, r.digest, r.status, r.suspended, r.state
        FROM jsonb_to_recordset(rows -> 'token_rows') AS r (
            write integer, tenant text, actor text, session text, thread text, frame bigint, digest text, status text,
            suspended bigint, state text)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, actor, session, thread, frame, digest) DO UPDATE SET
            stream_no = excluded.stream_no, status = excluded.status, suspended = excluded.suspended, state = excluded.state;
    END IF;
END $$;

CREATE OR REPLACE FUNCTION forget_rows(numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM session_rows WHERE stream_no = ANY (numbers);
    DELETE FROM outbox_rows WHERE stream_no = ANY (numbers);
    DELETE FROM blob_rows WHERE stream_no = ANY (numbers);
    DELETE FROM frame_rows WHERE stream_no = ANY (numbers);
    DELETE FROM handle_rows WHERE stream_no = ANY (numbers);
    DELETE FROM token_rows WHERE stream_no = ANY (numbers);
END $$;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['frame_rows', 'handle_rows', 'token_rows'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant_alone ON %I '
                       'USING (tenant = nullif(current_setting(''holdfast.tenant'', true), ''''))', name);
        EXECUTE format('CREATE POLICY maintenance ON %I TO CURRENT_USER '
                       'USING (current_setting(''holdfast.every_tenant'', true) = ''on'')', name);
    END LOOP;
END $$;
