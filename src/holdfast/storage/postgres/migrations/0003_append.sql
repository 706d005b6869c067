-- Writing: one call is one transaction and one round trip, for one command or for many that waited together.
--
-- Laws: a stream is locked before it is looked at; everything that can be refused is refused before anything of it is written;
-- a transaction writes to a stream only if it is younger than the one that wrote there last, so that the order of the
-- transactions, which is the feed's, never contradicts the order within a stream.

-- Whose rows this transaction may see: a tenant's, or everyone's if none is named and the role may look after the store.
CREATE FUNCTION act_for(in_tenant text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('holdfast.tenant', coalesce(in_tenant, ''), true),
            set_config('holdfast.every_tenant', CASE WHEN in_tenant IS NULL THEN 'on' ELSE 'off' END, true);
END $$;

-- The arrays are columns: w_ a stream that is written to, e_ an event, k_ a stretch of events under a key, s_ a snapshot,
-- x_ an event whose payload goes away. `write` counts the w_ from 1. What comes back are the writes that were refused: the
-- stream is not where it was expected to be, someone else holds it, or wrote to it after this transaction began.
-- If `alone`, locks are waited for, and one refusal refuses all; otherwise each write stands for itself.
CREATE FUNCTION append(
    in_tenant text, alone boolean,
    w_tenant text[], w_kind text[], w_key text[], w_expected bigint[], w_previous bytea[], w_version bigint[], w_hash bytea[],
    e_write integer[], e_seq bigint[], e_command bytea[], e_ordinal integer[], e_type text[], e_version integer[],
    e_time_us bigint[], e_principal text[], e_cause text[], e_key text[], e_command_digest bytea[],
    e_payload_digest bytea[], e_hash bytea[], e_salt bytea[], e_payload bytea[],
    k_write integer[], k_key text[], k_part integer[], k_first bigint[], k_last bigint[],
    s_write integer[], s_version bigint[], s_format integer[], s_state bytea[],
    x_write integer[], x_seq bigint[],
    rows jsonb
) RETURNS SETOF integer LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    numbers  bigint[];   -- of the streams that are written to; NULL for those that are not
    absent   boolean[];  -- whether a stream is to be made
    this_era integer;
    stream   record;
BEGIN
    PERFORM act_for(in_tenant);
    SELECT era INTO this_era FROM store;

    IF alone THEN  -- all in one order; below they are ours already
        PERFORM FROM unnest(w_tenant, w_kind, w_key) AS w (tenant, kind, key) JOIN streams s USING (tenant, kind, key)
        ORDER BY s.stream_no FOR UPDATE OF s;
    END IF;

    IF cardinality(w_key) = 1 THEN  -- the same as below, for the case that is there most often
        SELECT s.stream_no, s.version, s.hash, s.era, s.xid INTO stream FROM streams s
        WHERE s.tenant = w_tenant[1] AND s.kind = w_kind[1] AND s.key = w_key[1] FOR UPDATE SKIP LOCKED;
        numbers := ARRAY[CASE WHEN stream.version = w_expected[1] AND stream.hash = w_previous[1]
                               AND NOT (stream.era = this_era AND stream.xid > pg_current_xact_id()) THEN stream.stream_no END];
        absent := ARRAY[stream.stream_no IS NULL AND w_expected[1] = 0];
    ELSE
        WITH wanted AS (
            SELECT * FROM unnest(w_tenant, w_kind, w_key, w_expected, w_previous)
                     WITH ORDINALITY AS w (tenant, kind, key, expected, previous, at)
        ), locked AS MATERIALIZED (
            SELECT w.at, s.stream_no, s.version, s.hash, s.era, s.xid
            FROM wanted w JOIN streams s USING (tenant, kind, key) ORDER BY s.stream_no FOR UPDATE OF s SKIP LOCKED
        )
        SELECT array_agg(CASE WHEN l.version = w.expected AND l.hash = w.previous
                               AND NOT (l.era = this_era AND l.xid > pg_current_xact_id()) THEN l.stream_no END ORDER BY w.at),
               array_agg(l.stream_no IS NULL AND w.expected = 0 ORDER BY w.at)
        INTO numbers, absent FROM wanted w LEFT JOIN locked l USING (at);
    END IF;

    IF array_position(numbers, NULL) IS NOT NULL THEN
        RETURN QUERY SELECT r.at::integer FROM unnest(numbers, absent) WITH ORDINALITY AS r (number, absent, at)
                     WHERE r.number IS NULL AND NOT r.absent;
        IF FOUND AND alone THEN
            RETURN;
        END IF;
        FOR stream IN
            INSERT INTO streams (tenant, kind, key, version, hash, era, xid)
            SELECT w.tenant, w.kind, w.key, w.version, w.hash, this_era, pg_current_xact_id()
            FROM unnest(w_tenant, w_kind, w_key, w_version, w_hash, absent) AS w (tenant, kind, key, version, hash, absent)
            WHERE w.absent ORDER BY w.tenant, w.kind, w.key
            ON CONFLICT (tenant, kind, key) DO NOTHING RETURNING stream_no, tenant, kind, key
        LOOP
            FOR i IN 1 .. cardinality(w_key) LOOP
                IF w_key[i] = stream.key AND w_kind[i] = stream.kind AND w_tenant[i] = stream.tenant THEN
                    numbers[i] := stream.stream_no;
                END IF;
            END LOOP;
        END LOOP;
        RETURN QUERY SELECT r.at::integer FROM unnest(numbers, absent) WITH ORDINALITY AS r (number, absent, at)
                     WHERE r.number IS NULL AND r.absent;  -- made by another meanwhile
        IF FOUND AND alone THEN
            RAISE EXCEPTION 'a stream was made by another meanwhile' USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;

    UPDATE streams s SET version = w.version, hash = w.hash, era = this_era, xid = pg_current_xact_id()
    FROM unnest(numbers, w_version, w_hash, absent) AS w (number, version, hash, absent)
    WHERE s.stream_no = w.number AND NOT w.absent;

    INSERT INTO events (era, xid, tenant, stream_no, seq, command, ordinal, type, version, time_us, principal, cause, key,
                        command_digest, payload_digest, hash, salt, payload)
    SELECT this_era, pg_current_xact_id(), w_tenant[e.write], numbers[e.write], e.seq, e.command, e.ordinal, e.type, e.version,
           e.time_us, e.principal, e.cause, e.key, e.command_digest, e.payload_digest, e.hash, e.salt, e.payload
    FROM unnest(e_write, e_seq, e_command, e_ordinal, e_type, e_version, e_time_us, e_principal, e_cause, e_key,
                e_command_digest, e_payload_digest, e_hash, e_salt, e_payload)
         WITH ORDINALITY AS e (write, seq, command, ordinal, type, version, time_us, principal, cause, key, command_digest,
                               payload_digest, hash, salt, payload, at)
    WHERE numbers[e.write] IS NOT NULL ORDER BY e.at;

    IF cardinality(k_key) > 0 THEN
        INSERT INTO keys (tenant, key, part, stream_no, first, last)
        SELECT w_tenant[k.write], k.key, k.part, numbers[k.write], k.first, k.last
        FROM unnest(k_write, k_key, k_part, k_first, k_last) AS k (write, key, part, first, last)
        WHERE numbers[k.write] IS NOT NULL ORDER BY 1, 2, 3;
    END IF;

    IF cardinality(x_seq) > 0 THEN
        UPDATE events e SET payload = NULL, salt = NULL
        FROM unnest(x_write, x_seq) AS x (write, seq) WHERE e.stream_no = numbers[x.write] AND e.seq = x.seq;
        DELETE FROM snapshots n USING unnest(x_write) AS x (write) WHERE n.stream_no = numbers[x.write];
        PERFORM forget_rows(array_agg(numbers[x.write])) FROM (SELECT DISTINCT unnest(x_write)) AS x (write);
    END IF;

    IF cardinality(s_write) > 0 THEN
        INSERT INTO snapshots (stream_no, tenant, version, format, state)
        SELECT numbers[n.write], w_tenant[n.write], n.version, n.format, n.state
        FROM unnest(s_write, s_version, s_format, s_state) AS n (write, version, format, state)
        WHERE numbers[n.write] IS NOT NULL
        ON CONFLICT (stream_no) DO UPDATE SET version = excluded.version, format = excluded.format, state = excluded.state;
    END IF;

    PERFORM put_rows(rows, numbers);
END $$;

-- Make these a stream's rows if it is still at this version; the version that it is at.
CREATE FUNCTION replace_rows(in_tenant text, in_kind text, in_key text, expected bigint, rows jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
    actual bigint;
BEGIN
    PERFORM act_for(in_tenant);
    SELECT stream_no, version INTO number, actual FROM streams
    WHERE tenant = in_tenant AND kind = in_kind AND key = in_key FOR UPDATE;
    IF actual = expected THEN
        PERFORM forget_rows(ARRAY[number]);
        PERFORM put_rows(rows, ARRAY[number]);
    END IF;
    RETURN coalesce(actual, 0);
END $$;

-- Restored into another server, whose transactions count from lower down: what is there already lies before all of them. Whoever
-- opens the store asks, before anything is written; so it runs as whoever made the tables, and sees all of them.
CREATE FUNCTION begin_era() RETURNS void LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM act_for(NULL);
    IF is_ahead() THEN
        PERFORM FROM store FOR UPDATE;
        IF is_ahead() THEN  -- nobody was first
            UPDATE store SET era = era + 1;
        END IF;
    END IF;
    PERFORM act_for('');
END $$;

CREATE FUNCTION is_ahead() RETURNS boolean LANGUAGE sql AS $$
    SELECT coalesce((SELECT e.xid >= pg_snapshot_xmax(pg_current_snapshot()) FROM events e WHERE e.era = (SELECT era FROM store)
                     ORDER BY e.era DESC, e.xid DESC LIMIT 1), false);
$$;

DO $$ BEGIN
    EXECUTE format('ALTER FUNCTION begin_era() SET search_path = %I, pg_temp', current_schema());
END $$;
