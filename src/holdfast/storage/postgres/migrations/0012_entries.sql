-- Rows for the entries of other frameworks, and for the chunks of their bodies.

CREATE TABLE entry_rows (
    stream_no bigint NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    actor     text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    thread    text COLLATE "C" NOT NULL,
    entry     text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    parent    text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    at_us     bigint NOT NULL,
    size      bigint NOT NULL,
    digest    text COLLATE "C" NOT NULL,
    names     text COLLATE "C" NOT NULL,      -- a JSON array of the full names, if one of them is shortened
    PRIMARY KEY (tenant, actor, session, thread, entry)
);

CREATE INDEX entry_rows_by_stream ON entry_rows (stream_no);
CREATE INDEX entry_rows_by_seq ON entry_rows (tenant, actor, session, thread, seq, entry);
CREATE INDEX entry_rows_by_kind ON entry_rows (tenant, actor, session, thread, kind, seq, entry);
CREATE INDEX entry_rows_by_parent ON entry_rows (tenant, actor, session, thread, parent, seq, entry);

CREATE TABLE chunk_rows (
    stream_no bigint NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    actor     text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    thread    text COLLATE "C" NOT NULL,
    digest    text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    at        bigint NOT NULL,
    PRIMARY KEY (tenant, actor, session, thread, digest)
);

CREATE INDEX chunk_rows_by_stream ON chunk_rows (stream_no);

-- The functions that know the tables of before go on under another name.
ALTER FUNCTION put_rows(jsonb, bigint[]) RENAME TO put_page_rows;
ALTER FUNCTION forget_rows(bigint[]) RENAME TO forget_page_rows;

CREATE FUNCTION put_rows(rows jsonb, numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM put_page_rows(rows, numbers);
    IF rows ? 'entry_rows' THEN
        INSERT INTO entry_rows (stream_no, tenant, actor, session, thread, entry, kind, parent, seq, at_us, size, digest,
                                names)
        SELECT numbers[r.write], r.tenant, r.actor, r.session, r.thread, r.entry, r.kind, r.parent, r.seq, r.at_us, r.size,
               r.digest, r.names
        FROM jsonb_to_recordset(rows -> 'entry_rows') AS r (
            write integer, tenant text, actor text, session text, thread text, entry text, kind text, parent text,
            seq bigint, at_us bigint, size bigint, digest text, names text)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, actor, session, thread, entry) DO UPDATE SET
            stream_no = excluded.stream_no, kind = excluded.kind, parent = excluded.parent, seq = excluded.seq,
            at_us = excluded.at_us, size = excluded.size, digest = excluded.digest, names = excluded.names;
    END IF;
    IF rows ? 'chunk_rows' THEN
        INSERT INTO chunk_rows (stream_no, tenant, actor, session, thread, digest, seq, at)
        SELECT numbers[r.write], r.tenant, r.actor, r.session, r.thread, r.digest, r.seq, r.at
        FROM jsonb_to_recordset(rows -> 'chunk_rows') AS r (
            write integer, tenant text, actor text, session text, thread text, digest text, seq bigint, at bigint)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, actor, session, thread, digest) DO UPDATE SET
            stream_no = excluded.stream_no, seq = excluded.seq, at = excluded.at;
    END IF;
END $$;

CREATE FUNCTION forget_rows(numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM forget_page_rows(numbers);
    DELETE FROM entry_rows WHERE stream_no = ANY (numbers);
    DELETE FROM chunk_rows WHERE stream_no = ANY (numbers);
END $$;

ALTER TABLE entry_rows ENABLE ROW LEVEL SECURITY;
ALTER TABLE entry_rows FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_alone ON entry_rows USING (tenant = nullif(current_setting('holdfast.tenant', true), ''));
CREATE POLICY maintenance ON entry_rows TO CURRENT_USER USING (current_setting('holdfast.every_tenant', true) = 'on');

ALTER TABLE chunk_rows ENABLE ROW LEVEL SECURITY;
ALTER TABLE chunk_rows FORCE ROW LEVEL SECURITY;
CREATE POLICY tenant_alone ON chunk_rows USING (tenant = nullif(current_setting('holdfast.tenant', true), ''));
CREATE POLICY maintenance ON chunk_rows TO CURRENT_USER USING (current_setting('holdfast.every_tenant', true) = 'on');
