-- Named statements: a line "-- name: x" opens one. Parameters only; no text is ever pasted into SQL.

-- name: act_for
SELECT act_for(%b::text);

-- name: act_for_long
SELECT act_for(%b::text), set_config('statement_timeout', '0', true), set_config('enable_seqscan', 'on', true),
       set_config('enable_bitmapscan', 'on', true);

-- name: append
SELECT append(
    %b::text, %b::boolean,
    %b::text[], %b::text[], %b::text[], %b::bigint[], %b::bytea[], %b::bigint[], %b::bytea[],
    %b::integer[], %b::bigint[], %b::bytea[], %b::integer[], %b::text[], %b::integer[],
    %b::bigint[], %b::text[], %b::text[], %b::text[], %b::bytea[],
    %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[],
    %b::integer[], %b::text[], %b::integer[], %b::bigint[], %b::bigint[],
    %b::integer[], %b::bigint[], %b::integer[], %b::bytea[],
    %b::integer[], %b::bigint[],
    %b::text::jsonb);

-- name: append_keeping
WHERE set_config('holdfast.keep_taken', %b::text, true) IS NOT NULL;

-- name: replace_rows
SELECT replace_rows(%b::text, %b::text, %b::text, %b::bigint, %b::text::jsonb);

-- name: head
SELECT version, hash FROM streams WHERE tenant = %b AND kind = %b AND key = %b;

-- name: heads_of
SELECT w.at, s.version, s.hash
FROM unnest(%b::text[], %b::text[], %b::text[]) WITH ORDINALITY AS w (tenant, kind, key, at)
JOIN streams s USING (tenant, kind, key);

-- name: heads
SELECT tenant, kind, key, version, hash FROM streams ORDER BY tenant, kind, key LIMIT %b;

-- name: heads_after
SELECT tenant, kind, key, version, hash FROM streams
WHERE (tenant, kind, key) > (%b, %b, %b) ORDER BY tenant, kind, key LIMIT %b;

-- name: read
SELECT e.seq, e.command, e.ordinal, e.type, e.version, e.time_us, e.principal, e.cause, e.key, e.command_digest,
       e.payload_digest, e.hash, e.salt, e.payload
FROM events e
WHERE e.stream_no = (SELECT stream_no FROM streams WHERE tenant = %b AND kind = %b AND key = %b) AND e.tenant = %b
  AND e.seq > %b ORDER BY e.seq LIMIT %b;

-- name: read_back
SELECT e.seq, e.command, e.ordinal, e.type, e.version, e.time_us, e.principal, e.cause, e.key, e.command_digest,
       e.payload_digest, e.hash, e.salt, e.payload
FROM events e
WHERE e.stream_no = (SELECT stream_no FROM streams WHERE tenant = %b AND kind = %b AND key = %b) AND e.tenant = %b
  AND e.seq < %b ORDER BY e.seq DESC LIMIT %b;

-- name: read_back_types
SELECT e.seq, e.command, e.ordinal, e.type, e.version, e.time_us, e.principal, e.cause, e.key, e.command_digest,
       e.payload_digest, e.hash, e.salt, e.payload
FROM events e
WHERE e.stream_no = (SELECT stream_no FROM streams WHERE tenant = %b AND kind = %b AND key = %b) AND e.tenant = %b
  AND e.seq < %b AND e.type = ANY (%b::text[]) ORDER BY e.seq DESC LIMIT %b;

-- name: feed
SELECT s.tenant, s.kind, s.key, e.era || '.' || e.xid::text || '.' || e.position, e.seq, e.command, e.ordinal, e.type,
       e.version, e.time_us, e.principal, e.cause, e.key, e.command_digest, e.payload_digest, e.hash, e.salt, e.payload
FROM events e JOIN streams s USING (stream_no)
WHERE (e.era, e.xid, e.position) > (%b, (%b::text)::xid8, %b)
  AND (e.era < (SELECT era FROM store) OR e.xid < pg_snapshot_xmin(pg_current_snapshot()))
ORDER BY e.era, e.xid, e.position LIMIT %b;

-- name: feed_end
SELECT era, pg_snapshot_xmin(pg_current_snapshot())::text FROM store;

-- name: last_of_feed
SELECT e.era || '.' || e.xid::text || '.' || e.position FROM events e
WHERE (e.era, e.xid) < (SELECT era, pg_snapshot_xmin(pg_current_snapshot()) FROM store)
ORDER BY e.era DESC, e.xid DESC, e.position DESC LIMIT 1;

-- name: tenant_feed
SELECT s.tenant, s.kind, s.key, e.era || '.' || e.xid::text || '.' || e.position, e.seq, e.command, e.ordinal, e.type,
       e.version, e.time_us, e.principal, e.cause, e.key, e.command_digest, e.payload_digest, e.hash, e.salt, e.payload
FROM events e JOIN streams s USING (stream_no)
WHERE e.tenant = %b AND (e.era, e.xid, e.position) > (%b, (%b::text)::xid8, %b)
  AND (e.era, e.xid) < (%b::integer, (%b::text)::xid8)
ORDER BY e.era, e.xid, e.position LIMIT %b;

-- name: at_cursor
SELECT 1 FROM events WHERE era = %b AND xid = (%b::text)::xid8 AND position = %b;

-- name: positions
SELECT e.seq, e.era, e.xid::text, e.position
FROM events e
WHERE e.stream_no = (SELECT stream_no FROM streams WHERE tenant = %b AND kind = %b AND key = %b) AND e.tenant = %b
  AND e.seq = ANY (%b::bigint[]);

-- name: find
SELECT s.tenant, s.kind, s.key, k.part, e.seq, e.command, e.ordinal, e.type, e.version, e.time_us, e.principal,
       e.cause, e.key, e.command_digest, e.payload_digest, e.hash, e.salt, e.payload
FROM keys k JOIN streams s USING (stream_no) CROSS JOIN LATERAL (
    SELECT * FROM events WHERE stream_no = k.stream_no AND seq BETWEEN k.first AND k.last AND tenant = k.tenant
    ORDER BY seq OFFSET 0) e
WHERE k.tenant = %b AND k.key = %b AND s.tenant = k.tenant ORDER BY k.part, e.seq;

-- name: snapshot
SELECT n.version, n.format, n.state FROM snapshots n JOIN streams s USING (stream_no)
WHERE s.tenant = %b AND s.kind = %b AND s.key = %b AND n.tenant = s.tenant;

-- name: search
WITH homes AS MATERIALIZED (
    SELECT array_agg(stream_no * 2 + %b::bigint) AS numbers, array_agg(key) AS ledgers FROM streams
    WHERE tenant = %b AND kind = 'ledger' AND key = ANY (%b::text[])
), asked AS MATERIALIZED (
    SELECT s.word, c.facts FROM (SELECT DISTINCT stems_of(%b)) AS s (word) CROSS JOIN LATERAL (
        SELECT count(*)::float8 AS facts FROM fact_words w
        WHERE w.tenant = %b AND w.home = ANY ((SELECT numbers FROM homes)::bigint[]) AND w.word = s.word) c
    WHERE c.facts > 0
), scored AS (
    SELECT w.home, w.fact, sum(a.worth * w.weight) AS score
    FROM (SELECT word, ln(1 + sum(facts) OVER () / facts) AS worth FROM asked) a CROSS JOIN LATERAL (
        SELECT w.home, w.fact, w.weight FROM fact_words w
        WHERE w.tenant = %b AND w.home = ANY ((SELECT numbers FROM homes)::bigint[]) AND w.word = a.word OFFSET 0) w
    GROUP BY w.home, w.fact
)
SELECT s.score, f.* FROM (
    SELECT h.ledgers[array_position(h.numbers, s.home)] COLLATE "C" AS ledger, s.fact, s.score
    FROM scored s CROSS JOIN homes h ORDER BY score DESC, ledger, fact DESC) s CROSS JOIN LATERAL (
    SELECT f.tenant, f.ledger, f.fact, f.subject, f.scope, f.scope_id, f.ref, f.live, f.claim, f.review, f.constrains,
           f.expires_us, f.requires, f.key_words, f.words, f.memory_type, f.anchor, f.state
    FROM fact_rows f WHERE f.tenant = %b AND f.ledger = s.ledger AND f.fact = s.fact AND f.live = %b
      AND (f.expires_us IS NULL OR f.expires_us > %b)
      AND (f.scope, f.scope_id) IN (SELECT * FROM unnest(%b::text[], %b::text[]))
      AND (f.requires = '' OR %b OR f.requires::jsonb <@ %b::text::jsonb) LIMIT 1) f
ORDER BY s.score DESC, s.ledger, s.fact DESC LIMIT %b;

-- name: projection_version
SELECT projection FROM store;

-- name: set_projection_version
UPDATE store SET projection = %b;

-- name: totals
SELECT (SELECT count(*) FROM streams), (SELECT count(*) FROM events), (SELECT count(*) FROM keys WHERE part = 0),
       (SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p')),
       (SELECT count(*) FROM entry_rows), (SELECT coalesce(sum(size), 0)::bigint FROM entry_rows);

-- name: strange_session_rows
SELECT r.session FROM session_rows r LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM r.tenant OR s.kind <> 'session'
   OR s.key::jsonb IS DISTINCT FROM CASE WHEN r.thread = '' THEN jsonb_build_array(r.actor, r.session)
                                         ELSE jsonb_build_array(r.actor, r.session, r.thread) END LIMIT 10;

-- name: strange_blob_rows
SELECT r.session FROM blob_rows r LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM r.tenant OR s.kind <> 'session'
   OR s.key::jsonb IS DISTINCT FROM CASE WHEN r.thread = '' THEN jsonb_build_array(r.actor, r.session)
                                         ELSE jsonb_build_array(r.actor, r.session, r.thread) END LIMIT 10;

-- name: strange_outbox_rows
SELECT r.session FROM outbox_rows r LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM r.tenant OR s.kind <> 'session'
   OR s.key::jsonb IS DISTINCT FROM CASE WHEN r.thread = '' THEN jsonb_build_array(r.actor, r.session)
                                         ELSE jsonb_build_array(r.actor, r.session, r.thread) END LIMIT 10;

-- name: strange_frame_rows
SELECT r.session FROM frame_rows r LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM r.tenant OR s.kind <> 'session'
   OR s.key::jsonb IS DISTINCT FROM CASE WHEN r.thread = '' THEN jsonb_build_array(r.actor, r.session)
                                         ELSE jsonb_build_array(r.actor, r.session, r.thread) END LIMIT 10;

-- name: strange_handle_rows
SELECT r.session FROM handle_rows r LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM r.tenant OR s.kind <> 'session'
   OR s.key::jsonb IS DISTINCT FROM CASE WHEN r.thread = '' THEN jsonb_build_array(r.actor, r.session)
                                         ELSE jsonb_build_array(r.actor, r.session, r.thread) END LIMIT 10;

-- name: strange_page_rows
SELECT r.session FROM page_rows r LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM r.tenant OR s.kind <> 'session'
   OR s.key::jsonb IS DISTINCT FROM CASE WHEN r.thread = '' THEN jsonb_build_array(r.actor, r.session)
                                         ELSE jsonb_build_array(r.actor, r.session, r.thread) END LIMIT 10;

-- name: strange_entry_rows
SELECT r.session FROM entry_rows r LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM r.tenant OR s.kind <> 'session'
   OR s.key::jsonb IS DISTINCT FROM CASE WHEN r.thread = '' THEN jsonb_build_array(r.actor, r.session)
                                         ELSE jsonb_build_array(r.actor, r.session, r.thread) END LIMIT 10;

-- name: strange_chunk_rows
SELECT r.session FROM chunk_rows r LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM r.tenant OR s.kind <> 'session'
   OR s.key::jsonb IS DISTINCT FROM CASE WHEN r.thread = '' THEN jsonb_build_array(r.actor, r.session)
                                         ELSE jsonb_build_array(r.actor, r.session, r.thread) END LIMIT 10;

-- name: strange_token_rows
SELECT r.session FROM token_rows r LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM r.tenant OR s.kind <> 'session'
   OR s.key::jsonb IS DISTINCT FROM CASE WHEN r.thread = '' THEN jsonb_build_array(r.actor, r.session)
                                         ELSE jsonb_build_array(r.actor, r.session, r.thread) END LIMIT 10;

-- name: strange_ledger_rows
SELECT r.ledger FROM ledger_rows r LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM r.tenant OR s.kind <> 'ledger' OR s.key <> r.ledger LIMIT 10;

-- name: strange_fact_rows
SELECT r.ledger FROM fact_rows r LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM r.tenant OR s.kind <> 'ledger' OR s.key <> r.ledger LIMIT 10;

-- name: strange_depend_rows
SELECT r.ledger FROM depend_rows r LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM r.tenant OR s.kind <> 'ledger' OR s.key <> r.ledger LIMIT 10;

-- name: strange_mention_rows
SELECT r.ledger FROM mention_rows r LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM r.tenant OR s.kind <> 'ledger' OR s.key <> r.ledger LIMIT 10;

-- name: strange_passages
SELECT 'passage ' || p.row_no || ' belongs to no stream or is on no shelf of its tenant' FROM passages p
LEFT JOIN streams s ON s.stream_no = p.stream_no AND s.tenant = p.tenant
LEFT JOIN passage_shelves h ON h.shelf_no = p.shelf_no AND h.tenant = p.tenant
WHERE s.stream_no IS NULL OR h.shelf_no IS NULL OR (h.stream_no <> 0 AND h.stream_no <> p.stream_no)
UNION ALL SELECT 'the index has words of passage ' || r.row_no || ', which is not on that shelf' FROM passage_words w
CROSS JOIN LATERAL unnest(unpack_rows(w.rows, w.first, w.width)) AS r (row_no)
LEFT JOIN passages p ON p.row_no = r.row_no AND p.shelf_no = w.shelf_no AND p.tenant = w.tenant WHERE p.row_no IS NULL
UNION ALL SELECT 'passage ' || coalesce(p.row_no, d.row_no) || ' and its terms are not on the same shelf'
FROM (SELECT p.row_no, p.shelf_no FROM passages p JOIN passage_shelves h USING (shelf_no) WHERE h.stream_no <> 0) p
FULL JOIN passage_drafts d ON d.row_no = p.row_no AND d.shelf_no = p.shelf_no WHERE p.row_no IS NULL OR d.row_no IS NULL
UNION ALL SELECT 'shelf ' || h.shelf_no || ' does not have as many passages as it says' FROM passage_shelves h
WHERE h.size <> (SELECT count(*) FROM passages p WHERE p.shelf_no = h.shelf_no)
UNION ALL SELECT 'the vector of passage ' || v.row_no || ' has no passage' FROM passage_vectors v
LEFT JOIN passages p ON p.row_no = v.row_no AND p.tenant = v.tenant WHERE p.row_no IS NULL LIMIT 10;

-- name: strange_fact_words
SELECT coalesce(f.tenant, w.tenant), coalesce(f.fact, w.fact)
FROM (SELECT tenant, stream_no * 2 + (live = 1)::integer AS home, fact FROM fact_rows WHERE key_words || words ~ '[^ ]') f
FULL JOIN (SELECT DISTINCT tenant, home, fact FROM fact_words) w
  ON w.tenant = f.tenant AND w.home = f.home AND w.fact = f.fact
WHERE f.fact IS NULL OR w.fact IS NULL LIMIT 10;

-- name: lost_events
SELECT e.position FROM events e LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM e.tenant ORDER BY e.position LIMIT 10;

-- name: lost_snapshots
SELECT n.stream_no FROM snapshots n LEFT JOIN streams s USING (stream_no)
WHERE s.tenant IS DISTINCT FROM n.tenant ORDER BY n.stream_no LIMIT 10;

-- name: disordered_events
SELECT later.position FROM events earlier JOIN events later
  ON later.stream_no = earlier.stream_no AND earlier.seq = later.seq - 1
WHERE (later.era, later.xid, later.position) <= (earlier.era, earlier.xid, earlier.position)
ORDER BY later.position LIMIT 10;

-- name: keyless_events
SELECT e.position FROM events e
LEFT JOIN keys k ON k.tenant = e.tenant AND k.key = e.key AND k.stream_no = e.stream_no AND e.seq BETWEEN k.first AND k.last
WHERE e.key IS NOT NULL GROUP BY e.position HAVING count(k.key) <> 1 ORDER BY e.position LIMIT 10;

-- name: eventless_keys
SELECT k.tenant, k.key FROM keys k
WHERE (SELECT count(*) FROM events e WHERE e.stream_no = k.stream_no AND e.seq BETWEEN k.first AND k.last
       AND e.tenant = k.tenant AND e.key = k.key) <> k.last - k.first + 1 ORDER BY k.tenant, k.key LIMIT 10;

-- name: used_keys
SELECT k.tenant, k.key FROM unnest(%b::text[], %b::text[]) AS w (tenant, key) JOIN keys k USING (tenant, key)
WHERE k.part = 0 LIMIT 1;

-- name: blob
SELECT body_no FROM blobs WHERE tenant = %b AND digest = %b;

-- name: blobs
SELECT tenant, digest, put_s FROM blobs WHERE (tenant, digest) > (%b, %b) ORDER BY tenant, digest LIMIT %b;

-- name: piece
SELECT data FROM pieces WHERE tenant = %b AND body_no = %b AND number = %b;

-- name: begin_body
INSERT INTO bodies (tenant, begun_s) VALUES (%b, extract(epoch FROM clock_timestamp())) RETURNING body_no;

-- name: put_piece
INSERT INTO pieces (body_no, number, tenant, data) VALUES (%b, %b, %b, %b)
ON CONFLICT (body_no, number) DO UPDATE SET data = excluded.data RETURNING 1;

-- name: touch_blob
UPDATE blobs SET put_s = extract(epoch FROM clock_timestamp()) WHERE tenant = %b AND digest = %b RETURNING 1;

-- name: name_blob
INSERT INTO blobs (tenant, digest, body_no, put_s) VALUES (%b, %b, %b, extract(epoch FROM clock_timestamp()))
ON CONFLICT (tenant, digest) DO UPDATE SET put_s = excluded.put_s RETURNING body_no;

-- name: drop_blob
WITH gone AS (
    DELETE FROM blobs WHERE tenant = %b AND digest = %b AND put_s <= %b RETURNING tenant, body_no
), body AS (
    DELETE FROM bodies b USING gone WHERE b.body_no = gone.body_no AND b.tenant = gone.tenant
)
DELETE FROM pieces p USING gone WHERE p.body_no = gone.body_no AND p.tenant = gone.tenant RETURNING p.number;

-- name: drop_body
WITH gone AS (
    DELETE FROM bodies WHERE tenant = %b AND body_no = %b RETURNING tenant, body_no
)
DELETE FROM pieces p USING gone WHERE p.body_no = gone.body_no AND p.tenant = gone.tenant RETURNING p.number;

-- name: sweep_bodies
WITH gone AS (
    DELETE FROM bodies b WHERE b.begun_s <= %b AND NOT EXISTS (SELECT FROM blobs WHERE blobs.body_no = b.body_no)
    RETURNING b.tenant, b.body_no
), cleared AS (
    DELETE FROM pieces p USING gone WHERE p.body_no = gone.body_no AND p.tenant = gone.tenant
)
SELECT body_no FROM gone;
