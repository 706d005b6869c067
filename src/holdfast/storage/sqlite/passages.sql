-- Named statements for passages and deliveries. Parameters only; no text is ever pasted into SQL.

-- name: find_shelf
SELECT shelf_no FROM passage_shelves
WHERE tenant = ? AND user = ? AND stream_no = ? AND role = ? AND kind = ? AND requires = ?;

-- name: add_shelf
INSERT INTO passage_shelves (tenant, user, stream_no, role, kind, requires) VALUES (?, ?, ?, ?, ?, ?);

-- name: user_shelves
SELECT shelf_no, stream_no, role, kind, user, requires, size FROM passage_shelves
WHERE tenant = ? AND user = ? AND stream_no = 0;

-- name: shelves_by_number
SELECT shelf_no, stream_no, role, kind, user, requires, size FROM passage_shelves WHERE shelf_no = ?;

-- name: stream_shelves
SELECT shelf_no, stream_no, role, kind, user, requires, size FROM passage_shelves WHERE stream_no = ? AND stream_no <> 0;

-- name: taken_shelves
SELECT t.shelf_no, t.stream_no, t.role, t.kind, t.user, t.requires, t.size
FROM passage_shelves s JOIN passage_shelves t
  ON t.tenant = s.tenant AND t.user = s.user AND t.stream_no = 0 AND t.role = s.role AND t.kind = s.kind
  AND t.requires = s.requires
WHERE s.stream_no = ? AND s.stream_no <> 0;

-- name: named_sessions
SELECT DISTINCT s.stream_no FROM streams s
WHERE s.tenant = ? AND s.kind = 'session' AND s.key ->> 1 IN (SELECT value FROM json_each(?));

-- name: streams_of
SELECT stream_no, tenant, kind, key FROM streams WHERE stream_no IN (SELECT value FROM json_each(?));

-- name: mark
SELECT version, format, places, user, speaker, permissions FROM passage_marks WHERE stream_no = ?;

-- name: put_mark
INSERT INTO passage_marks (stream_no, version, format, places, user, speaker, permissions) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (stream_no) DO UPDATE SET version = excluded.version, format = excluded.format, places = excluded.places,
    user = excluded.user, speaker = excluded.speaker, permissions = excluded.permissions;

-- name: drop_mark
DELETE FROM passage_marks WHERE stream_no = ?;

-- name: live_seqs
SELECT seq FROM events WHERE stream_no = ? AND seq IN (SELECT value FROM json_each(?)) AND payload IS NOT NULL;

-- name: covered_passages
SELECT p.row_no, p.seq, s.stream_no = 0 FROM passages p JOIN passage_shelves s USING (shelf_no)
WHERE p.stream_no = ?1 AND p.seq BETWEEN ?2 AND ?3 AND s.kind = 'message'
  AND (SELECT e.payload FROM events e WHERE e.stream_no = ?1 AND e.seq = p.seq) IS NOT NULL;

-- name: passages_of_seqs
SELECT p.row_no, p.seq, p.part, s.stream_no = 0 FROM passages p JOIN passage_shelves s USING (shelf_no)
WHERE p.stream_no = ? AND p.seq IN (SELECT value FROM json_each(?));

-- name: add_passage
INSERT INTO passages (stream_no, seq, part, shelf_no, time_us, place, start, speaker, frame, handle, text)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: add_words
INSERT INTO passage_words (rowid, terms) VALUES (?, ?);

-- name: drop_words
DELETE FROM passage_words WHERE rowid = ?;

-- name: drop_passage
DELETE FROM passages WHERE row_no = ?;

-- name: span_passages
SELECT p.row_no, p.seq, p.shelf_no, s.stream_no = 0 FROM passages p JOIN passage_shelves s USING (shelf_no)
WHERE p.stream_no = ? AND p.seq BETWEEN ? AND ? ORDER BY p.seq, p.part;

-- name: terms_of_shelf
SELECT doc, term FROM passage_terms WHERE term >= ? AND term < ?;

-- name: last_row
SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'passages';

-- name: set_last_row
UPDATE sqlite_sequence SET seq = ? WHERE name = 'passages';

-- name: shelf
SELECT tenant, user, role, kind, requires FROM passage_shelves WHERE shelf_no = ?;

-- name: move_passage
UPDATE passages SET row_no = ?, shelf_no = ? WHERE row_no = ?;

-- name: erase_passages
DELETE FROM passages WHERE stream_no = ?1 AND seq IN (SELECT value FROM json_each(?2))
  AND (NOT ?3 OR shelf_no IN (SELECT shelf_no FROM passage_shelves WHERE stream_no = ?1));

-- name: forget_stream
DELETE FROM passages WHERE stream_no = ?;

-- name: streams_of_user
SELECT DISTINCT p.stream_no FROM passages p
WHERE p.shelf_no IN (SELECT shelf_no FROM passage_shelves WHERE tenant = ? AND user = ?);

-- name: forget_user
DELETE FROM passages WHERE shelf_no IN (SELECT shelf_no FROM passage_shelves WHERE tenant = ? AND user = ?);

-- name: drop_user_shelves
DELETE FROM passage_shelves WHERE tenant = ? AND user = ? AND size = 0;

-- name: drop_stream_shelves
DELETE FROM passage_shelves AS s WHERE s.stream_no = ?1 AND s.stream_no <> 0 AND s.size = 0 AND NOT EXISTS (
    SELECT 1 FROM passages p JOIN passage_shelves t USING (shelf_no)
    WHERE p.stream_no = ?1 AND t.user = s.user AND t.role = s.role AND t.kind = s.kind AND t.requires = s.requires);

-- name: drop_empty_shelves
DELETE FROM passage_shelves WHERE shelf_no IN (SELECT value FROM json_each(?)) AND stream_no = 0 AND size = 0;

-- name: shelves_of_stream
SELECT DISTINCT shelf_no FROM passages WHERE stream_no = ?;

-- name: count_user
SELECT coalesce(sum(size), 0) FROM passage_shelves WHERE tenant = ? AND user = ?;

-- name: purge_passage_words
INSERT INTO passage_words (passage_words) VALUES ('optimize');

-- name: rows_with
SELECT rowid FROM passage_words WHERE passage_words MATCH ? ORDER BY rowid DESC LIMIT ?;

-- name: count_with
SELECT count(*) FROM (SELECT 1 FROM passage_words WHERE passage_words MATCH ? LIMIT ?);

-- name: rows_with_between
SELECT rowid FROM passage_words WHERE passage_words MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC LIMIT ?;

-- name: bounds_of
SELECT row_no, shelf_no, stream_no, seq, time_us FROM passages WHERE row_no IN (SELECT value FROM json_each(?))
ORDER BY row_no DESC;

-- name: span_rows
SELECT row_no FROM passages WHERE stream_no = ? AND seq BETWEEN ? AND ?;

-- name: end_seqs
SELECT min(seq), max(seq) FROM passages WHERE stream_no = ?;

-- name: passages_by_row
SELECT p.row_no, p.stream_no, p.seq, p.part, p.shelf_no, p.time_us, p.place, p.start, p.speaker, p.frame, p.handle, p.text
FROM passages p WHERE p.row_no IN (SELECT value FROM json_each(?));

-- name: passages_by_key
SELECT p.row_no, p.stream_no, p.seq, p.part, p.shelf_no, p.time_us, p.place, p.start, p.speaker, p.frame, p.handle, p.text
FROM passages p WHERE p.stream_no = ? AND p.seq = ? AND p.part = ?;

-- name: passages_by_place
SELECT p.row_no, p.stream_no, p.seq, p.part, p.shelf_no, p.time_us, p.place, p.start, p.speaker, p.frame, p.handle, p.text
FROM passages p WHERE p.stream_no = ? AND p.place BETWEEN ? AND ? ORDER BY p.place, p.seq, p.part;

-- name: newest_of_shelf
SELECT p.time_us, p.row_no, p.stream_no, p.seq, p.shelf_no FROM passages p INDEXED BY passages_by_time
WHERE p.shelf_no = ?1 AND p.time_us BETWEEN ?2 AND ?3 ORDER BY p.time_us DESC, p.row_no DESC;

-- name: sizes_of_shelf
SELECT p.shelf_no, p.stream_no, p.seq, p.time_us, octet_length(p.text) FROM passages p
WHERE p.shelf_no = ?1 AND p.time_us BETWEEN ?2 AND ?3;

-- name: embedder
SELECT embedder_no FROM embedders WHERE name = ?;

-- name: add_embedder
INSERT INTO embedders (name) VALUES (?) ON CONFLICT (name) DO NOTHING;

-- name: row_of_key
SELECT row_no FROM passages WHERE stream_no = ? AND seq = ? AND part = ?;

-- name: put_vector
INSERT INTO passage_vectors (embedder_no, row_no, vector) VALUES (?, ?, ?)
ON CONFLICT (embedder_no, row_no) DO UPDATE SET vector = excluded.vector;

-- name: unembedded
SELECT p.row_no FROM passages p JOIN passage_shelves s USING (shelf_no)
WHERE s.tenant = ?1 AND s.stream_no = 0 AND NOT EXISTS (
    SELECT 1 FROM passage_vectors v WHERE v.embedder_no = ?2 AND v.row_no = p.row_no)
ORDER BY p.time_us, p.row_no LIMIT ?3;

-- name: vectors_of_shelf
SELECT p.row_no, p.shelf_no, p.stream_no, p.seq, p.time_us, v.vector
FROM passages p CROSS JOIN passage_vectors v ON v.embedder_no = ?2 AND v.row_no = p.row_no
WHERE p.shelf_no = ?1 AND p.time_us BETWEEN ?3 AND ?4;

-- name: strange_passages
SELECT 'passage ' || p.row_no || ' belongs to no stream or is on no shelf' FROM passages p
LEFT JOIN streams s USING (stream_no) LEFT JOIN passage_shelves h USING (shelf_no)
WHERE s.stream_no IS NULL OR h.shelf_no IS NULL OR s.tenant <> h.tenant OR (h.stream_no <> 0 AND h.stream_no <> p.stream_no)
UNION ALL SELECT 'passage ' || row_no || ' has no words in the index' FROM passages
WHERE row_no NOT IN (SELECT id FROM passage_words_docsize)
UNION ALL SELECT 'the index has words of passage ' || id || ', which does not exist' FROM passage_words_docsize
WHERE id NOT IN (SELECT row_no FROM passages)
UNION ALL SELECT 'shelf ' || shelf_no || ' does not have as many passages as it says' FROM passage_shelves h
WHERE size <> (SELECT count(*) FROM passages p WHERE p.shelf_no = h.shelf_no) LIMIT 10;

-- name: pending
SELECT o.tenant, o.actor, o.session, o.thread, o.entry, o.why, o.first, o.last, o.at_us, o.done,
       coalesce(d.owner, ''), coalesce(d.until_us, 0), coalesce(d.attempts, 0), coalesce(d.next_us, 0),
       coalesce(d.error, ''), coalesce(d.set_aside, 0)
FROM outbox_rows o LEFT JOIN deliveries d USING (tenant, actor, session, thread, entry)
WHERE o.tenant = ?1 AND o.done = 0 AND (?2 IS NULL OR coalesce(d.set_aside, 0) = ?2)
  AND (?3 IS NULL OR (coalesce(d.until_us, 0) <= ?3 AND coalesce(d.next_us, 0) <= ?3))
ORDER BY o.at_us, o.actor, o.session, o.thread, o.entry LIMIT ?4;

-- name: drop_ended_deliveries
DELETE FROM deliveries AS d WHERE d.tenant = ? AND NOT EXISTS (
    SELECT 1 FROM outbox_rows o WHERE o.tenant = d.tenant AND o.actor = d.actor AND o.session = d.session
        AND o.thread = d.thread AND o.entry = d.entry AND o.done = 0);

-- name: claim
INSERT INTO deliveries (tenant, actor, session, thread, entry, owner, until_us, attempts, next_us, error, set_aside)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (tenant, actor, session, thread, entry) DO UPDATE SET owner = excluded.owner, until_us = excluded.until_us,
    attempts = excluded.attempts;

-- name: renew
UPDATE deliveries AS d SET until_us = ?
WHERE tenant = ? AND actor = ? AND session = ? AND thread = ? AND entry = ? AND owner = ? AND attempts = ?
  AND EXISTS (SELECT 1 FROM outbox_rows o WHERE o.tenant = d.tenant AND o.actor = d.actor AND o.session = d.session
              AND o.thread = d.thread AND o.entry = d.entry AND o.done = 0)
RETURNING 1;

-- name: release
UPDATE deliveries SET owner = '', until_us = 0, next_us = ?, error = ?, set_aside = ?
WHERE tenant = ? AND actor = ? AND session = ? AND thread = ? AND entry = ? AND owner = ? AND attempts = ?
RETURNING 1;

-- name: requeue
DELETE FROM deliveries
WHERE tenant = ? AND actor = ? AND session = ? AND thread = ? AND entry = ? AND until_us <= ?;
