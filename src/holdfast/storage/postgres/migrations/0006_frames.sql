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

-- What knows the tables of before goes on under another name.
ALTER FUNCTION put_rows(jsonb, bigint[]) RENAME TO put_session_rows;
ALTER FUNCTION forget_rows(bigint[]) RENAME TO forget_session_rows;

CREATE FUNCTION put_rows(rows jsonb, numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM put_session_rows(rows, numbers);
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

CREATE FUNCTION forget_rows(numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM forget_session_rows(numbers);
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
