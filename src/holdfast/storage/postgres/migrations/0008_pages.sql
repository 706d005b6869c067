-- Rows for the pieces of messages that are not shown as they were recorded; and whoever knows which tables there are.

CREATE TABLE page_rows (
    stream_no bigint NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    actor     text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    thread    text COLLATE "C" NOT NULL,
    message   bigint NOT NULL,
    piece     bigint NOT NULL,
    frame     bigint NOT NULL,
    residency text COLLATE "C" NOT NULL,
    state     text COLLATE "C" NOT NULL,      -- JSON
    PRIMARY KEY (tenant, actor, session, thread, message, piece)
);

CREATE INDEX page_rows_by_stream ON page_rows (stream_no);
CREATE INDEX page_rows_by_residency ON page_rows (tenant, actor, session, thread, frame, residency, message, piece);

-- What knows the tables of before goes on under another name.
ALTER FUNCTION put_rows(jsonb, bigint[]) RENAME TO put_fact_rows;
ALTER FUNCTION forget_rows(bigint[]) RENAME TO forget_fact_rows;

CREATE FUNCTION put_rows(rows jsonb, numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM put_fact_rows(rows, numbers);
    IF rows ? 'page_rows' THEN
        INSERT INTO page_rows (stream_no, tenant, actor, session, thread, message, piece, frame, residency, state)
        SELECT numbers[r.write], r.tenant, r.actor, r.session, r.thread, r.message, r.piece, r.frame, r.residency, r.state
        FROM jsonb_to_recordset(rows -> 'page_rows') AS r (
            write integer, tenant text, actor text, session text, thread text, message bigint, piece bigint, frame bigint,
            residency text, state text)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, actor, session, thread, message, piece) DO UPDATE SET
            stream_no = excluded.stream_no, frame = excluded.frame, residency = excluded.residency, state = excluded.state;
    END IF;
END $$;

CREATE FUNCTION forget_rows(numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM forget_fact_rows(numbers);
    DELETE FROM page_rows WHERE stream_no = ANY (numbers);
END $$;

ALTER TABLE page_rows ENABLE ROW LEVEL SECURITY;
ALTER TABLE page_rows FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_alone ON page_rows USING (tenant = nullif(current_setting('holdfast.tenant', true), ''));
CREATE POLICY maintenance ON page_rows TO CURRENT_USER USING (current_setting('holdfast.every_tenant', true) = 'on');
