-- Named statements: a line "-- name: x" opens one. Parameters only; no text is ever pasted into SQL.

-- name: head
SELECT stream_no, version, hash FROM streams WHERE tenant = ? AND kind = ? AND key = ?;

-- name: heads
SELECT tenant, kind, key, version, hash FROM streams ORDER BY tenant, kind, key LIMIT ?;

-- name: heads_after
SELECT tenant, kind, key, version, hash FROM streams
WHERE (tenant, kind, key) > (?, ?, ?) ORDER BY tenant, kind, key LIMIT ?;

-- name: add_stream
INSERT INTO streams (tenant, kind, key, version, hash) VALUES (?, ?, ?, ?, ?);

-- name: move_head
UPDATE streams SET version = ?, hash = ? WHERE stream_no = ?;

-- name: add_event
INSERT INTO events (position, stream_no, seq, command, ordinal, type, version, time_us, principal, cause, key,
                    command_digest, payload_digest, hash, salt, payload)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: read
SELECT e.seq, e.command, e.ordinal, e.type, e.version, e.time_us, e.principal, e.cause, e.key, e.command_digest,
       e.payload_digest, e.hash, e.salt, e.payload
FROM events e JOIN streams s USING (stream_no)
WHERE s.tenant = ? AND s.kind = ? AND s.key = ? AND e.seq > ? ORDER BY e.seq LIMIT ?;

-- name: read_back
SELECT e.seq, e.command, e.ordinal, e.type, e.version, e.time_us, e.principal, e.cause, e.key, e.command_digest,
       e.payload_digest, e.hash, e.salt, e.payload
FROM events e JOIN streams s USING (stream_no)
WHERE s.tenant = ? AND s.kind = ? AND s.key = ? AND e.seq < ? ORDER BY e.seq DESC LIMIT ?;

-- name: read_back_types
SELECT e.seq, e.command, e.ordinal, e.type, e.version, e.time_us, e.principal, e.cause, e.key, e.command_digest,
       e.payload_digest, e.hash, e.salt, e.payload
FROM events e JOIN streams s USING (stream_no)
WHERE s.tenant = ? AND s.kind = ? AND s.key = ? AND e.seq < ? AND e.type IN (SELECT value FROM json_each(?))
ORDER BY e.seq DESC LIMIT ?;

-- name: feed
SELECT s.tenant, s.kind, s.key, e.position, e.seq, e.command, e.ordinal, e.type, e.version, e.time_us, e.principal,
       e.cause, e.key, e.command_digest, e.payload_digest, e.hash, e.salt, e.payload
FROM events e JOIN streams s USING (stream_no)
WHERE e.position > ? ORDER BY e.position LIMIT ?;

-- name: last_position
SELECT coalesce(max(position), 0) FROM events;

-- name: changed_streams
SELECT s.tenant, s.kind, s.key, e.position FROM events e JOIN streams s USING (stream_no)
WHERE e.position > ? ORDER BY e.position LIMIT ?;

-- name: positions
SELECT e.seq, e.position FROM events e JOIN streams s USING (stream_no)
WHERE s.tenant = ? AND s.kind = ? AND s.key = ? AND e.seq IN (SELECT value FROM json_each(?));

-- name: find
SELECT s.tenant, s.kind, s.key, e.position, e.seq, e.command, e.ordinal, e.type, e.version, e.time_us, e.principal,
       e.cause, e.key, e.command_digest, e.payload_digest, e.hash, e.salt, e.payload
FROM events e JOIN streams s USING (stream_no)
WHERE e.key = ? AND e.ordinal = 0 AND s.tenant = ?;

-- name: find_rest
SELECT s.tenant, s.kind, s.key, e.position, e.seq, e.command, e.ordinal, e.type, e.version, e.time_us, e.principal,
       e.cause, e.key, e.command_digest, e.payload_digest, e.hash, e.salt, e.payload
FROM events e JOIN streams s USING (stream_no)
WHERE e.command = ? AND e.ordinal > 0 AND e.key IS NOT NULL AND s.tenant = ? ORDER BY e.ordinal;

-- name: snapshot
SELECT n.version, n.format, n.state FROM snapshots n JOIN streams s USING (stream_no)
WHERE s.tenant = ? AND s.kind = ? AND s.key = ?;

-- name: put_snapshot
INSERT INTO snapshots (stream_no, version, format, state) VALUES (?, ?, ?, ?)
ON CONFLICT (stream_no) DO UPDATE SET version = excluded.version, format = excluded.format, state = excluded.state;

-- name: drop_snapshot
DELETE FROM snapshots WHERE stream_no = ?;

-- name: erase
UPDATE events SET payload = NULL, salt = NULL WHERE stream_no = ? AND seq = ?;

-- name: log_totals
SELECT events, streams, feed FROM log_totals;

-- name: set_log_totals
UPDATE log_totals SET events = ?, streams = ?, feed = ? WHERE one = 1;

-- name: ledgers
SELECT stream_no, key FROM streams WHERE tenant = ? AND kind = 'ledger' AND key IN (SELECT value FROM json_each(?));

-- name: search
SELECT -w.rank, f.tenant, f.ledger, f.fact, f.subject, f.scope, f.scope_id, f.ref, f.live, f.claim, f.review, f.constrains,
       f.expires_us, f.requires, f.key_words, f.words, f.memory_type, f.anchor, f.state
FROM fact_words w CROSS JOIN fact_rows f ON f.row_no = w.rowid
WHERE w.fact_words MATCH ? AND f.tenant = ? AND f.ledger = ? AND f.live = ?
  AND (f.expires_us IS NULL OR f.expires_us > ?)
  AND (f.scope, f.scope_id) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?))
  AND (f.requires = '' OR ?7 IS NULL OR NOT EXISTS (
      SELECT 1 FROM json_each(f.requires) r WHERE r.value NOT IN (SELECT value FROM json_each(?7))))
ORDER BY w.rank LIMIT ?8;

-- name: occurrences
SELECT count(*) FROM (SELECT 1 FROM fact_words WHERE fact_words MATCH ? LIMIT ?);

-- name: worth
SELECT -bm25(fact_words, 1e9, 1e9) FROM fact_words WHERE fact_words MATCH ? LIMIT 1;

-- name: has_facts
SELECT EXISTS (SELECT 1 FROM fact_rows WHERE stream_no = ?);

-- name: purge_words
INSERT INTO fact_words (fact_words) VALUES ('rebuild');

-- name: projection_version
SELECT version FROM projection;

-- name: set_projection_version
UPDATE projection SET version = ?;

-- name: entry_totals
SELECT count(*), coalesce(sum(size), 0) FROM entry_rows;

-- name: totals
SELECT (SELECT count(*) FROM streams), (SELECT count(*) FROM events),
       (SELECT count(*) FROM events WHERE key IS NOT NULL AND ordinal = 0), (SELECT events FROM log_totals), (SELECT streams FROM log_totals),
       (SELECT coalesce(max(position), 0) FROM events), (SELECT feed FROM log_totals);

-- name: feed_hashes
SELECT hash FROM events WHERE position > 0 ORDER BY position;

-- name: strange_session_rows
SELECT r.session FROM session_rows r JOIN streams s USING (stream_no)
WHERE s.tenant IS NOT r.tenant OR s.kind IS NOT 'session'
   OR s.key IS NOT iif(r.thread = '', json_array(r.actor, r.session), json_array(r.actor, r.session, r.thread)) LIMIT 10;

-- name: strange_blob_rows
SELECT r.session FROM blob_rows r JOIN streams s USING (stream_no)
WHERE s.tenant IS NOT r.tenant OR s.kind IS NOT 'session'
   OR s.key IS NOT iif(r.thread = '', json_array(r.actor, r.session), json_array(r.actor, r.session, r.thread)) LIMIT 10;

-- name: strange_outbox_rows
SELECT r.session FROM outbox_rows r JOIN streams s USING (stream_no)
WHERE s.tenant IS NOT r.tenant OR s.kind IS NOT 'session'
   OR s.key IS NOT iif(r.thread = '', json_array(r.actor, r.session), json_array(r.actor, r.session, r.thread)) LIMIT 10;

-- name: strange_frame_rows
SELECT r.session FROM frame_rows r JOIN streams s USING (stream_no)
WHERE s.tenant IS NOT r.tenant OR s.kind IS NOT 'session'
   OR s.key IS NOT iif(r.thread = '', json_array(r.actor, r.session), json_array(r.actor, r.session, r.thread)) LIMIT 10;

-- name: strange_handle_rows
SELECT r.session FROM handle_rows r JOIN streams s USING (stream_no)
WHERE s.tenant IS NOT r.tenant OR s.kind IS NOT 'session'
   OR s.key IS NOT iif(r.thread = '', json_array(r.actor, r.session), json_array(r.actor, r.session, r.thread)) LIMIT 10;

-- name: strange_page_rows
SELECT r.session FROM page_rows r JOIN streams s USING (stream_no)
WHERE s.tenant IS NOT r.tenant OR s.kind IS NOT 'session'
   OR s.key IS NOT iif(r.thread = '', json_array(r.actor, r.session), json_array(r.actor, r.session, r.thread)) LIMIT 10;

-- name: strange_entry_rows
SELECT r.session FROM entry_rows r JOIN streams s USING (stream_no)
WHERE s.tenant IS NOT r.tenant OR s.kind IS NOT 'session'
   OR s.key IS NOT iif(r.thread = '', json_array(r.actor, r.session), json_array(r.actor, r.session, r.thread)) LIMIT 10;

-- name: strange_chunk_rows
SELECT r.session FROM chunk_rows r JOIN streams s USING (stream_no)
WHERE s.tenant IS NOT r.tenant OR s.kind IS NOT 'session'
   OR s.key IS NOT iif(r.thread = '', json_array(r.actor, r.session), json_array(r.actor, r.session, r.thread)) LIMIT 10;

-- name: strange_token_rows
SELECT r.session FROM token_rows r JOIN streams s USING (stream_no)
WHERE s.tenant IS NOT r.tenant OR s.kind IS NOT 'session'
   OR s.key IS NOT iif(r.thread = '', json_array(r.actor, r.session), json_array(r.actor, r.session, r.thread)) LIMIT 10;

-- name: strange_ledger_rows
SELECT r.ledger FROM ledger_rows r JOIN streams s USING (stream_no)
WHERE s.tenant IS NOT r.tenant OR s.kind IS NOT 'ledger' OR s.key IS NOT r.ledger LIMIT 10;

-- name: strange_fact_rows
SELECT r.ledger FROM fact_rows r JOIN streams s USING (stream_no)
WHERE s.tenant IS NOT r.tenant OR s.kind IS NOT 'ledger' OR s.key IS NOT r.ledger LIMIT 10;

-- name: strange_depend_rows
SELECT r.ledger FROM depend_rows r JOIN streams s USING (stream_no)
WHERE s.tenant IS NOT r.tenant OR s.kind IS NOT 'ledger' OR s.key IS NOT r.ledger LIMIT 10;

-- name: strange_mention_rows
SELECT r.ledger FROM mention_rows r JOIN streams s USING (stream_no)
WHERE s.tenant IS NOT r.tenant OR s.kind IS NOT 'ledger' OR s.key IS NOT r.ledger LIMIT 10;

-- name: strange_fact_words
SELECT row_no FROM fact_rows WHERE row_no NOT IN (SELECT id FROM fact_words_docsize)
UNION ALL SELECT id FROM fact_words_docsize WHERE id NOT IN (SELECT row_no FROM fact_rows) LIMIT 10;

-- name: lost_events
SELECT e.position FROM events e LEFT JOIN streams s USING (stream_no) WHERE s.stream_no IS NULL
ORDER BY e.position LIMIT 10;

-- name: disordered_events
SELECT later.position FROM events earlier JOIN events later
  ON later.stream_no = earlier.stream_no AND earlier.seq = later.seq - 1
WHERE later.position <= earlier.position ORDER BY later.position LIMIT 10;

-- name: doubled_keys
SELECT s.tenant, e.key FROM events e JOIN streams s USING (stream_no) WHERE e.key IS NOT NULL AND e.ordinal = 0
GROUP BY s.tenant, e.key HAVING count(*) > 1 LIMIT 10;
