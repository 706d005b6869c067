-- Rows for ledgers and their facts, and the words that a search finds facts by; and whoever knows which tables there are.

CREATE TABLE ledger_rows (
    stream_no  bigint NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    ledger     text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    version    bigint NOT NULL,
    facts      bigint NOT NULL,
    created_us bigint NOT NULL,
    updated_us bigint NOT NULL,
    PRIMARY KEY (tenant, ledger)
) WITH (fillfactor = 60);

CREATE INDEX ledger_rows_by_stream ON ledger_rows (stream_no);
CREATE INDEX ledger_rows_by_kind ON ledger_rows (tenant, kind, ledger);

CREATE TABLE fact_rows (
    stream_no  bigint NOT NULL,
    tenant     text COLLATE "C" NOT NULL,
    ledger     text COLLATE "C" NOT NULL,
    fact       bigint NOT NULL,
    subject    text COLLATE "C" NOT NULL,
    scope      text COLLATE "C" NOT NULL,
    scope_id   text COLLATE "C" NOT NULL,
    ref        text COLLATE "C" NOT NULL,
    live       bigint NOT NULL,
    claim      bigint NOT NULL,
    review     bigint NOT NULL,
    constrains bigint NOT NULL,
    expires_us bigint,
    requires   text COLLATE "C" NOT NULL,
    key_words  text COLLATE "C" NOT NULL,
    words      text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL,     -- JSON
    PRIMARY KEY (tenant, ledger, fact)
);

CREATE INDEX fact_rows_by_stream ON fact_rows (stream_no);
CREATE INDEX fact_rows_by_slot ON fact_rows (tenant, ledger, subject, scope, scope_id, live, fact);
CREATE INDEX fact_rows_by_subject ON fact_rows (tenant, ledger, subject, fact);
CREATE INDEX fact_rows_by_life ON fact_rows (tenant, ledger, live, fact);
CREATE INDEX fact_rows_by_ref ON fact_rows (tenant, ledger, ref, live, fact) WHERE ref <> '';
CREATE INDEX fact_rows_live_by_subject ON fact_rows (tenant, ledger, subject, fact) WHERE live = 1;
CREATE INDEX fact_rows_live_by_scope ON fact_rows (tenant, ledger, scope, scope_id, fact) WHERE live = 1;
CREATE INDEX fact_rows_in_review ON fact_rows (tenant, ledger, fact) WHERE review = 1;
CREATE INDEX fact_rows_constraints ON fact_rows (tenant, ledger, fact) WHERE constrains = 1;
CREATE INDEX fact_rows_by_expiry ON fact_rows (tenant, expires_us, ledger, fact) WHERE live = 1 AND expires_us IS NOT NULL;
CREATE INDEX fact_rows_due ON fact_rows (tenant, ledger, expires_us, fact) WHERE live = 1 AND expires_us IS NOT NULL;

-- Until somebody has analyzed the table, the planner takes every condition for a rare one, and of two indexes the smaller. So it is
-- told what is rare before there is anything: a ledger is large, a subject is not. ANALYZE needs a row to put that down.
ALTER TABLE fact_rows ALTER tenant SET (n_distinct = 1), ALTER ledger SET (n_distinct = 2),
    ALTER subject SET (n_distinct = -0.01), ALTER ref SET (n_distinct = -0.5), ALTER scope SET (n_distinct = 2),
    ALTER scope_id SET (n_distinct = 2), ALTER live SET (n_distinct = 2), ALTER fact SET (n_distinct = -0.1);
INSERT INTO fact_rows VALUES (0, '-', '-', 1, '-', 'global', '', '', 1, 0, 0, 0, NULL, '', '', '', '{}');
ANALYZE fact_rows;
DELETE FROM fact_rows;

CREATE TABLE depend_rows (
    stream_no bigint NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    ledger    text COLLATE "C" NOT NULL,
    source    bigint NOT NULL,
    fact      bigint NOT NULL,
    live      bigint NOT NULL,
    PRIMARY KEY (tenant, ledger, source, fact)
);

CREATE INDEX depend_rows_by_stream ON depend_rows (stream_no);
CREATE INDEX depend_rows_live ON depend_rows (tenant, ledger, source, fact) WHERE live = 1;

CREATE TABLE mention_rows (
    stream_no bigint NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    ledger    text COLLATE "C" NOT NULL,
    fact      bigint NOT NULL,
    actor     text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    thread    text COLLATE "C" NOT NULL,
    seq       bigint NOT NULL,
    start     bigint NOT NULL,
    stop      bigint NOT NULL,
    live      bigint NOT NULL,
    PRIMARY KEY (tenant, ledger, fact, actor, session, thread, seq, start)
);

CREATE INDEX mention_rows_by_stream ON mention_rows (stream_no);
CREATE INDEX mention_rows_by_session ON mention_rows (tenant, actor, session, thread, live, seq, ledger, fact, start);

-- A row for each word of each fact. No other index of words can be used behind a policy, since none of their operators is known
-- not to leak; and `home`, twice the number of a ledger, and one more for what lives, keeps everything else away.
CREATE TABLE fact_words (
    tenant text COLLATE "C" NOT NULL,
    home   bigint NOT NULL,
    word   text COLLATE "C" NOT NULL,         -- its stem
    fact   bigint NOT NULL,
    weight real NOT NULL,                     -- more for one that is there often, or in the key, and not one of many
    PRIMARY KEY (home, word, fact) INCLUDE (tenant, weight)
);

CREATE TEXT SEARCH DICTIONARY word_stem (TEMPLATE = snowball, LANGUAGE = english);

-- The stem of each word, without accents. What is longer than any word, an index could not hold.
CREATE FUNCTION stems_of(words text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT (ts_lexize('word_stem', left(w.word, 100)))[1]
    FROM string_to_table(CASE WHEN octet_length(words) = length(words) THEN words
                              ELSE regexp_replace(normalize(words, NFD), '[\u0300-\u036f]', '', 'g') END, ' ') AS w (word)
    WHERE w.word <> '';
$$;

CREATE FUNCTION put_fact_words() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'UPDATE' THEN
        DELETE FROM fact_words WHERE home = OLD.stream_no * 2 + (OLD.live = 1)::integer AND fact = OLD.fact
            AND word = ANY (ARRAY(SELECT stems_of(OLD.key_words || ' ' || OLD.words)));
    END IF;
    INSERT INTO fact_words (tenant, home, word, fact, weight)
    SELECT NEW.tenant, NEW.stream_no * 2 + (NEW.live = 1)::integer, s.word, NEW.fact,
           2.2 * s.counts / (s.counts + 0.3 + 0.9 * s.length / 16)
    FROM (SELECT w.word, sum(w.counts)::float8 AS counts, (sum(count(*)) OVER ())::float8 AS length
          FROM (SELECT stems_of(NEW.key_words), 3 UNION ALL SELECT stems_of(NEW.words), 1) AS w (word, counts)
          GROUP BY w.word) AS s
    ON CONFLICT (home, word, fact) DO UPDATE SET weight = excluded.weight;
    RETURN NULL;
END $$;

-- Rows go with their stream, so all of its words are looked through, and none is left whatever a stem was once.
CREATE FUNCTION forget_fact_words() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    ledger record;
BEGIN
    FOR ledger IN SELECT g.stream_no, array_agg(g.fact) AS facts FROM gone g GROUP BY g.stream_no LOOP
        DELETE FROM fact_words WHERE home = ledger.stream_no * 2 AND fact = ANY (ledger.facts);
        DELETE FROM fact_words WHERE home = ledger.stream_no * 2 + 1 AND fact = ANY (ledger.facts);
    END LOOP;
    RETURN NULL;
END $$;

CREATE TRIGGER put_fact_words AFTER INSERT ON fact_rows FOR EACH ROW EXECUTE FUNCTION put_fact_words();
CREATE TRIGGER move_fact_words AFTER UPDATE ON fact_rows FOR EACH ROW
WHEN ((OLD.stream_no, OLD.live, OLD.key_words, OLD.words)
      IS DISTINCT FROM (NEW.stream_no, NEW.live, NEW.key_words, NEW.words))
EXECUTE FUNCTION put_fact_words();
CREATE TRIGGER forget_fact_words AFTER DELETE ON fact_rows REFERENCING OLD TABLE AS gone
FOR EACH STATEMENT EXECUTE FUNCTION forget_fact_words();

-- What knows the tables of before goes on under another name.
ALTER FUNCTION put_rows(jsonb, bigint[]) RENAME TO put_frame_rows;
ALTER FUNCTION forget_rows(bigint[]) RENAME TO forget_frame_rows;

CREATE FUNCTION put_rows(rows jsonb, numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
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
                               constrains, expires_us, requires, key_words, words, state)
        SELECT numbers[r.write], r.tenant, r.ledger, r.fact, r.subject, r.scope, r.scope_id, r.ref, r.live, r.claim,
               r.review, r.constrains, r.expires_us, r.requires, r.key_words, r.words, r.state
        FROM jsonb_to_recordset(rows -> 'fact_rows') AS r (
            write integer, tenant text, ledger text, fact bigint, subject text, scope text, scope_id text, ref text,
            live bigint, claim bigint, review bigint, constrains bigint, expires_us bigint, requires text, key_words text,
            words text, state text)
        WHERE numbers[r.write] IS NOT NULL
        ON CONFLICT (tenant, ledger, fact) DO UPDATE SET
            stream_no = excluded.stream_no, subject = excluded.subject, scope = excluded.scope,
            scope_id = excluded.scope_id, ref = excluded.ref, live = excluded.live, claim = excluded.claim, review = excluded.review,
            constrains = excluded.constrains, expires_us = excluded.expires_us, requires = excluded.requires,
            key_words = excluded.key_words, words = excluded.words, state = excluded.state;
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

CREATE FUNCTION forget_rows(numbers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM forget_frame_rows(numbers);
    DELETE FROM ledger_rows WHERE stream_no = ANY (numbers);
    DELETE FROM fact_rows WHERE stream_no = ANY (numbers);
    DELETE FROM depend_rows WHERE stream_no = ANY (numbers);
    DELETE FROM mention_rows WHERE stream_no = ANY (numbers);
END $$;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['ledger_rows', 'fact_rows', 'depend_rows', 'mention_rows', 'fact_words'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant_alone ON %I '
                       'USING (tenant = nullif(current_setting(''holdfast.tenant'', true), ''''))', name);
        EXECUTE format('CREATE POLICY maintenance ON %I TO CURRENT_USER '
                       'USING (current_setting(''holdfast.every_tenant'', true) = ''on'')', name);
    END LOOP;
END $$;
