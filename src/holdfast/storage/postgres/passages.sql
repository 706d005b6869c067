-- Named statements for passages and deliveries. Parameters only; no text is ever pasted into SQL.

-- name: index_passages
SELECT stream_version, is_stored FROM index_passages(
    %b::text, %b::text, %b::text, %b::text::jsonb, %b::text::jsonb, %b::bigint, %b::text::jsonb);

-- name: adopt_passages
SELECT adopt_passages(%b::text, %b::text, %b::text, %b::text::jsonb);

-- name: take_passages
SELECT take_passages(%b::text, %b::text, %b::text, %b::bigint, %b::bigint, %b::bigint[], %b::bigint[]);

-- name: forget_passages
SELECT dropped, residue FROM forget_passages(%b::text, %b::text, %b::text, %b::text, %b::bigint[]);

-- name: marks
SELECT s.key, m.version, m.format, m.places, m.user_name, m.speaker, m.permissions
FROM streams s JOIN passage_marks m USING (stream_no)
WHERE s.tenant = %b AND s.kind = 'session' AND s.key = ANY (%b::text[]) AND m.tenant = s.tenant;

-- name: numbers
SELECT s.key, s.stream_no FROM streams s WHERE s.tenant = %b AND s.kind = 'session' AND s.key = ANY (%b::text[]);

-- name: named_sessions
SELECT s.stream_no FROM streams s
WHERE s.tenant = %b AND s.kind = 'session' AND s.key::jsonb ->> 1 = ANY (%b::text[]);

-- name: shelves
SELECT h.shelf_no, h.stream_no, h.role, h.kind, h.user_name, h.requires, h.size FROM passage_shelves h
WHERE h.tenant = %b AND h.user_name = %b AND h.stream_no = 0 AND h.user_name <> ''
UNION ALL SELECT h.shelf_no, h.stream_no, h.role, h.kind, h.user_name, h.requires, h.size FROM passage_shelves h
WHERE h.stream_no = ANY (%b::bigint[]) AND h.stream_no <> 0 AND h.tenant = %b
UNION ALL SELECT t.shelf_no, t.stream_no, t.role, t.kind, t.user_name, t.requires, t.size
FROM (SELECT DISTINCT p.shelf_no FROM unnest(%b::bigint[]) AS n (stream_no) CROSS JOIN LATERAL (
        SELECT p.shelf_no FROM passages p
        WHERE p.stream_no = n.stream_no AND p.tenant = %b AND p.is_taken OFFSET 0) p) p
CROSS JOIN LATERAL (SELECT * FROM passage_shelves t WHERE t.shelf_no = p.shelf_no AND t.tenant = %b OFFSET 0) t;

-- name: shelves_by_number
SELECT h.shelf_no, h.stream_no, h.role, h.kind, h.user_name, h.requires, h.size FROM passage_shelves h
WHERE h.shelf_no = ANY (%b::integer[]) AND h.tenant = %b;

-- name: end_seqs
SELECT n.stream_no, p.low, p.high FROM unnest(%b::bigint[]) AS n (stream_no) CROSS JOIN LATERAL (
    SELECT min(p.seq) AS low, max(p.seq) AS high FROM passages p WHERE p.stream_no = n.stream_no AND p.tenant = %b) p;

-- name: span_rows
SELECT p.row_no FROM unnest(%b::bigint[], %b::bigint[], %b::bigint[]) AS n (stream_no, first, last) CROSS JOIN LATERAL (
    SELECT p.row_no FROM passages p
    WHERE p.stream_no = n.stream_no AND p.seq BETWEEN n.first AND n.last AND p.tenant = %b) p;

-- name: term_lists
SELECT a.shelf_no, a.term, w.first, w.width, w.rows
FROM unnest(%b::integer[], %b::text[]) AS a (shelf_no, term) CROSS JOIN LATERAL (
    SELECT w.first, w.width, w.rows FROM passage_words w
    WHERE w.shelf_no = a.shelf_no AND w.term = a.term AND w.tenant = %b
    ORDER BY w.shelf_no DESC, w.term DESC, w.first DESC LIMIT %b) w;

-- name: draft_rows
SELECT d.shelf_no, t.term, array_agg(d.row_no)
FROM passage_drafts d CROSS JOIN LATERAL unnest(d.terms) AS t (term)
WHERE d.shelf_no = ANY (%b::integer[]) AND d.tenant = %b AND t.term = ANY (%b::text[]) GROUP BY d.shelf_no, t.term;

-- name: term_counts
SELECT a.shelf_no, a.term, w.count
FROM unnest(%b::integer[], %b::text[]) AS a (shelf_no, term) CROSS JOIN LATERAL (
    SELECT coalesce(sum(octet_length(l.rows) / l.width), 0)::bigint AS count FROM (
        SELECT w.rows, w.width FROM passage_words w WHERE w.shelf_no = a.shelf_no AND w.term = a.term AND w.tenant = %b
        ORDER BY w.shelf_no DESC, w.term DESC, w.first DESC LIMIT %b) l) w;

-- name: bounds_of
SELECT p.row_no, p.shelf_no, p.stream_no, p.seq, p.time_us FROM passages p
WHERE p.row_no = ANY (%b::integer[]) AND p.tenant = %b;

-- name: passages_by_row
SELECT p.row_no, p.stream_no, p.seq, p.part, p.shelf_no, p.time_us, p.place, p.start, p.speaker, p.frame, p.handle, p.text,
       s.key
FROM unnest(%b::integer[]) AS n (row_no)
CROSS JOIN LATERAL (SELECT * FROM passages p WHERE p.row_no = n.row_no AND p.tenant = %b OFFSET 0) p
CROSS JOIN LATERAL (SELECT s.key FROM streams s WHERE s.stream_no = p.stream_no AND s.tenant = %b OFFSET 0) s;

-- name: passages_by_key
SELECT p.row_no, p.stream_no, p.seq, p.part, p.shelf_no, p.time_us, p.place, p.start, p.speaker, p.frame, p.handle, p.text,
       s.key
FROM unnest(%b::bigint[], %b::bigint[], %b::integer[]) WITH ORDINALITY AS n (stream_no, seq, part, at)
CROSS JOIN LATERAL (
    SELECT * FROM passages p WHERE p.stream_no = n.stream_no AND p.seq = n.seq AND p.part = n.part AND p.tenant = %b OFFSET 0) p
CROSS JOIN LATERAL (SELECT s.key FROM streams s WHERE s.stream_no = p.stream_no AND s.tenant = %b OFFSET 0) s
ORDER BY n.at;

-- name: passages_by_place
SELECT p.row_no, p.stream_no, p.seq, p.part, p.shelf_no, p.time_us, p.place, p.start, p.speaker, p.frame, p.handle, p.text,
       n.key
FROM unnest(%b::text[], %b::bigint[], %b::bigint[]) WITH ORDINALITY AS n (key, first, last, at)
CROSS JOIN LATERAL (
    SELECT s.stream_no FROM streams s WHERE s.tenant = %b AND s.kind = 'session' AND s.key = n.key OFFSET 0) s
CROSS JOIN LATERAL (
    SELECT * FROM passages p WHERE p.stream_no = s.stream_no AND p.place BETWEEN n.first AND n.last AND p.tenant = %b
    OFFSET 0) p
ORDER BY n.at, p.place, p.seq, p.part;

-- name: newest_of_shelves
SELECT p.time_us, p.row_no, p.stream_no, p.seq, p.shelf_no
FROM unnest(%b::integer[]) AS n (shelf_no) CROSS JOIN LATERAL (
    SELECT p.time_us, p.row_no, p.stream_no, p.seq, p.shelf_no FROM passages p
    WHERE p.shelf_no = n.shelf_no AND p.time_us BETWEEN %b AND %b AND p.tenant = %b
    ORDER BY p.shelf_no DESC, p.time_us DESC LIMIT %b OFFSET %b) p ORDER BY p.time_us DESC, p.row_no DESC;

-- name: sizes_of_shelves
SELECT p.shelf_no, p.stream_no, p.seq, p.time_us, octet_length(p.text) FROM passages p
WHERE p.shelf_no = ANY (%b::integer[]) AND p.time_us BETWEEN %b AND %b AND p.tenant = %b;

-- name: put_vectors
INSERT INTO passage_vectors (row_no, tenant, embedder, vector)
SELECT p.row_no, p.tenant, %b::text, n.vector
FROM unnest(%b::text[], %b::bigint[], %b::integer[], %b::bytea[]) AS n (key, seq, part, vector)
JOIN streams s ON s.tenant = %b AND s.kind = 'session' AND s.key = n.key
JOIN passages p ON p.stream_no = s.stream_no AND p.seq = n.seq AND p.part = n.part AND p.tenant = s.tenant
ON CONFLICT (row_no, embedder) DO UPDATE SET vector = excluded.vector RETURNING 1;

-- name: unembedded
SELECT p.row_no, p.stream_no, p.seq, p.part, p.shelf_no, p.time_us, p.place, p.start, p.speaker, p.frame, p.handle, p.text,
       s.key
FROM passage_shelves h CROSS JOIN LATERAL (
    SELECT * FROM passages p WHERE p.shelf_no = h.shelf_no AND p.tenant = h.tenant AND NOT EXISTS (
        SELECT FROM passage_vectors v WHERE v.row_no = p.row_no AND v.embedder = %b AND v.tenant = p.tenant)
    ORDER BY p.shelf_no, p.time_us LIMIT %b) p JOIN streams s ON s.stream_no = p.stream_no AND s.tenant = h.tenant
WHERE h.tenant = %b AND h.stream_no = 0 ORDER BY p.time_us, p.row_no LIMIT %b;

-- name: vectors_of_shelf
SELECT p.row_no, p.shelf_no, p.stream_no, p.seq, p.time_us, v.vector FROM (
    SELECT p.row_no, p.shelf_no, p.stream_no, p.seq, p.time_us FROM passages p
    WHERE p.shelf_no = %b AND p.time_us >= %b AND p.time_us <= %b AND (p.time_us, p.row_no) > (%b, %b) AND p.tenant = %b
    ORDER BY p.shelf_no, p.time_us, p.row_no LIMIT %b) p
LEFT JOIN LATERAL (
    SELECT v.vector FROM passage_vectors v WHERE v.row_no = p.row_no AND v.embedder = %b AND v.tenant = %b OFFSET 0) v ON true
ORDER BY p.time_us, p.row_no;

-- name: claim
SELECT o.tenant, o.actor, o.session, o.thread, o.entry, o.why, o.first, o.last, o.at_us, o.done,
       d.owner, d.until_us, d.attempts, d.next_us, d.error, d.set_aside
FROM claim_offloads(%b::text, %b::text, %b::bigint, %b::bigint, %b::integer) d
JOIN outbox_rows o USING (tenant, actor, session, thread, entry)
ORDER BY o.at_us, o.actor, o.session, o.thread, o.entry;

-- name: pending
SELECT o.tenant, o.actor, o.session, o.thread, o.entry, o.why, o.first, o.last, o.at_us, o.done,
       coalesce(d.owner, ''), coalesce(d.until_us, 0), coalesce(d.attempts, 0), coalesce(d.next_us, 0),
       coalesce(d.error, ''), coalesce(d.set_aside, false)
FROM outbox_rows o LEFT JOIN deliveries d USING (tenant, actor, session, thread, entry)
WHERE o.tenant = %b AND o.done = 0 AND (%b::boolean IS NULL OR coalesce(d.set_aside, false) = %b::boolean)
ORDER BY o.at_us, o.actor, o.session, o.thread, o.entry LIMIT %b;

-- name: renew
UPDATE deliveries d SET until_us = %b
WHERE d.tenant = %b AND d.actor = %b AND d.session = %b AND d.thread = %b AND d.entry = %b AND d.owner = %b
  AND d.attempts = %b
  AND EXISTS (SELECT FROM outbox_rows o WHERE o.tenant = d.tenant AND o.actor = d.actor AND o.session = d.session
              AND o.thread = d.thread AND o.entry = d.entry AND o.done = 0)
RETURNING 1;

-- name: release
UPDATE deliveries d SET owner = '', until_us = 0, next_us = %b, error = %b, set_aside = %b
WHERE d.tenant = %b AND d.actor = %b AND d.session = %b AND d.thread = %b AND d.entry = %b AND d.owner = %b
  AND d.attempts = %b RETURNING 1;

-- name: requeue
DELETE FROM deliveries
WHERE tenant = %b AND actor = %b AND session = %b AND thread = %b AND entry = %b AND until_us <= %b RETURNING 1;
