-- Passages that can be recalled, the terms that they are found by, their vectors, and the deliveries of the outbox.

-- Who sees a passage depends on its shelf alone: a user's taken ones, or those of a stream that are not taken (yet), apart by
-- role, kind and permissions. Whoever changes what is on a shelf locks it first.
CREATE TABLE passage_shelves (
    shelf_no   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant     text COLLATE "C" NOT NULL,
    user_name  text COLLATE "C" NOT NULL,
    stream_no  bigint NOT NULL,              -- 0 for the taken ones of a user
    role       text COLLATE "C" NOT NULL,
    kind       text COLLATE "C" NOT NULL,
    requires   text COLLATE "C" NOT NULL,    -- a JSON array, or empty for none
    size       bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 60);

-- The permissions of an identity can be longer than what an index takes. Databases are in UTF-8, so this never changes.
CREATE FUNCTION digest_text(value text) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
    SELECT pg_catalog.sha256(pg_catalog.convert_to(value, 'UTF8'))
$$;

CREATE UNIQUE INDEX passage_shelves_by_name
    ON passage_shelves (tenant, user_name, stream_no, role, kind, digest_text(requires));

CREATE INDEX passage_shelves_by_stream ON passage_shelves (stream_no) WHERE stream_no <> 0;

CREATE SEQUENCE passage_rows AS integer;

-- A passage leaves the drafts when it is taken: so what long-term memory has is only added to, and its pages stay full.
CREATE TABLE passages (
    stream_no bigint NOT NULL,
    seq       bigint NOT NULL,
    time_us   bigint NOT NULL,
    row_no    integer NOT NULL DEFAULT nextval('passage_rows'),
    shelf_no  integer NOT NULL,
    part      integer NOT NULL,
    place     integer NOT NULL,
    start     integer NOT NULL,
    tenant    text COLLATE "C" NOT NULL,
    speaker   text COLLATE "C" NOT NULL,
    frame     text COLLATE "C" NOT NULL,
    handle    text COLLATE "C" NOT NULL,
    text      text COLLATE "C" NOT NULL,
    is_taken  boolean NOT NULL
) PARTITION BY LIST (is_taken);

CREATE TABLE passages_taken PARTITION OF passages FOR VALUES IN (true);
CREATE TABLE passages_draft PARTITION OF passages FOR VALUES IN (false);

CREATE UNIQUE INDEX passages_taken_by_row ON passages_taken (row_no) WITH (fillfactor = 100);
CREATE UNIQUE INDEX passages_taken_by_key ON passages_taken (stream_no, seq, part) INCLUDE (place) WITH (fillfactor = 98);
CREATE INDEX passages_taken_by_time ON passages_taken (shelf_no, time_us) WITH (fillfactor = 98);
CREATE UNIQUE INDEX passages_draft_by_row ON passages_draft (row_no);
CREATE UNIQUE INDEX passages_draft_by_key ON passages_draft (stream_no, seq, part) INCLUDE (place);
CREATE INDEX passages_draft_by_time ON passages_draft (shelf_no, time_us);

-- Which taken passages on a shelf have a term: up to about 256 in a row. `rows` has their distances from `first`, the highest
-- byte first, 2 bytes each, or 4 where they are far apart. No GIN: its operators are not leakproof, so under row-level security
-- no index would be used for them; and each passage would hold its terms once more, which takes more than the lists.
CREATE TABLE passage_words (
    shelf_no integer NOT NULL,
    first    integer NOT NULL,
    width    smallint NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    term     text COLLATE "C" NOT NULL,
    rows     bytea NOT NULL,
    PRIMARY KEY (shelf_no, term, first)
) WITH (fillfactor = 90);

CREATE FUNCTION pack_rows(in_rows integer[], first integer, width integer) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT string_agg(substring(int4send(r - first) FROM 5 - width), '\x'::bytea ORDER BY r) FROM unnest(in_rows) AS r
$$;

CREATE FUNCTION unpack_rows(packed bytea, first integer, width integer) RETURNS integer[] LANGUAGE sql IMMUTABLE AS $$
    SELECT array_agg(first + get_byte(packed, i + width - 2) * 256 + get_byte(packed, i + width - 1)
        + CASE width WHEN 4 THEN (get_byte(packed, i) * 256 + get_byte(packed, i + 1)) * 65536 ELSE 0 END)
    FROM generate_series(0, octet_length(packed) - width, width) AS i
$$;

-- The terms of passages that are not taken: a session is searched as a whole, and its passages soon go to another shelf.
CREATE TABLE passage_drafts (
    shelf_no integer NOT NULL,
    row_no   integer NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    terms    text[] NOT NULL,
    PRIMARY KEY (shelf_no, row_no)
);

CREATE TABLE passage_marks (
    stream_no   bigint PRIMARY KEY,
    tenant      text COLLATE "C" NOT NULL,
    version     bigint NOT NULL,
    format      integer NOT NULL,
    places      bigint NOT NULL,
    user_name   text COLLATE "C" NOT NULL,
    speaker     text COLLATE "C" NOT NULL,
    permissions text COLLATE "C" NOT NULL     -- a JSON array
) WITH (fillfactor = 60);

CREATE TABLE passage_vectors (
    row_no   integer NOT NULL,
    tenant   text COLLATE "C" NOT NULL,
    embedder text COLLATE "C" NOT NULL,
    vector   bytea NOT NULL,                  -- 4 bytes a number, the lowest byte first; its length is 1
    PRIMARY KEY (row_no, embedder)
);
ALTER TABLE passage_vectors ALTER vector SET STORAGE EXTERNAL;  -- such numbers cannot be compressed

-- Who works on an entry of the outbox. Not rebuilt from the log: a delivery is no event.
CREATE TABLE deliveries (
    tenant    text COLLATE "C" NOT NULL,
    actor     text COLLATE "C" NOT NULL,
    session   text COLLATE "C" NOT NULL,
    thread    text COLLATE "C" NOT NULL,
    entry     bigint NOT NULL,
    owner     text COLLATE "C" NOT NULL,
    until_us  bigint NOT NULL,
    attempts  bigint NOT NULL,
    next_us   bigint NOT NULL,
    error     text COLLATE "C" NOT NULL,
    set_aside boolean NOT NULL,
    PRIMARY KEY (tenant, actor, session, thread, entry)
) WITH (fillfactor = 60);

CREATE FUNCTION end_delivery() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM deliveries WHERE tenant = new.tenant AND actor = new.actor AND session = new.session
        AND thread = new.thread AND entry = new.entry;
    RETURN NULL;
END $$;

CREATE TRIGGER deliveries_end AFTER UPDATE ON outbox_rows FOR EACH ROW WHEN (new.done = 1) EXECUTE FUNCTION end_delivery();

-- Number the shelf of a passage; it is locked until the end of the transaction.
CREATE FUNCTION lock_shelf(
    in_tenant text, in_user text, in_stream bigint, in_role text, in_kind text, in_requires text
) RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    number integer;
BEGIN
    LOOP
        SELECT shelf_no INTO number FROM passage_shelves WHERE tenant = in_tenant AND user_name = in_user
            AND stream_no = in_stream AND role = in_role AND kind = in_kind AND requires = in_requires FOR UPDATE;
        EXIT WHEN number IS NOT NULL;
        INSERT INTO passage_shelves (tenant, user_name, stream_no, role, kind, requires)
        VALUES (in_tenant, in_user, in_stream, in_role, in_kind, in_requires) ON CONFLICT DO NOTHING;
    END LOOP;
    RETURN number;
END $$;

-- Add rows to the lists of terms. The three arrays are columns; the shelves are locked.
CREATE FUNCTION add_words(in_tenant text, w_shelf integer[], w_row integer[], w_term text[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    added record;
    list  record;
    wide  integer;
BEGIN
    FOR added IN
        SELECT w.shelf, w.term, array_agg(w.row_no) AS rows, min(w.row_no) AS low, max(w.row_no) AS high
        FROM unnest(w_shelf, w_row, w_term) AS w (shelf, row_no, term) GROUP BY w.shelf, w.term
    LOOP
        SELECT l.first, l.width, l.rows, octet_length(l.rows) / l.width AS size INTO list FROM passage_words l
        WHERE l.shelf_no = added.shelf AND l.term = added.term AND l.tenant = in_tenant
        ORDER BY l.shelf_no DESC, l.term DESC, l.first DESC LIMIT 1;
        wide := CASE WHEN added.high - coalesce(list.first, added.low) < 65536 THEN coalesce(list.width, 2) ELSE 4 END;
        IF list.size < 256 AND (wide = list.width OR list.size < 32) THEN  -- a short list can be written again
            UPDATE passage_words SET width = wide, rows = CASE WHEN wide = list.width THEN list.rows
                ELSE pack_rows(unpack_rows(list.rows, list.first, list.width), list.first, wide) END
                || pack_rows(added.rows, list.first, wide)
            WHERE shelf_no = added.shelf AND term = added.term AND first = list.first AND tenant = in_tenant;
        ELSE
            wide := CASE WHEN added.high - added.low < 65536 THEN 2 ELSE 4 END;
            INSERT INTO passage_words (tenant, shelf_no, term, first, width, rows)
            VALUES (in_tenant, added.shelf, added.term, added.low, wide, pack_rows(added.rows, added.low, wide));
        END IF;
    END LOOP;
END $$;

-- Remove passages with their terms and vectors. Shelves are locked in the order of their names.
CREATE FUNCTION drop_passages(in_tenant text, numbers integer[]) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    shelves integer[];
    dropped bigint;
    low     integer;
    high    integer;
    list    record;
BEGIN
    IF cardinality(numbers) = 0 OR numbers IS NULL THEN
        RETURN 0;
    END IF;
    SELECT array_agg(DISTINCT p.shelf_no) INTO shelves FROM passages p WHERE p.row_no = ANY (numbers) AND p.tenant = in_tenant;
    PERFORM FROM passage_shelves WHERE shelf_no = ANY (shelves) AND tenant = in_tenant
    ORDER BY user_name, stream_no, role, kind, requires FOR UPDATE;
    DELETE FROM passage_vectors WHERE row_no = ANY (numbers) AND tenant = in_tenant;
    DELETE FROM passage_drafts WHERE shelf_no = ANY (shelves) AND row_no = ANY (numbers) AND tenant = in_tenant;
    WITH gone AS (
        DELETE FROM passages p WHERE p.row_no = ANY (numbers) AND p.tenant = in_tenant RETURNING p.shelf_no
    ), counted AS (
        SELECT g.shelf_no, count(*) AS gone FROM gone g GROUP BY g.shelf_no
    ), smaller AS (
        UPDATE passage_shelves s SET size = s.size - c.gone FROM counted c WHERE s.shelf_no = c.shelf_no
    )
    SELECT coalesce(sum(gone), 0) INTO dropped FROM counted;
    SELECT min(n), max(n) INTO low, high FROM unnest(numbers) AS n;
    FOR list IN
        SELECT w.shelf_no, w.term, w.first, w.width, u.rows FROM passage_words w
        CROSS JOIN LATERAL unpack_rows(w.rows, w.first, w.width) AS u (rows)
        WHERE w.shelf_no = ANY (shelves) AND w.tenant = in_tenant AND w.first <= high
          AND (unpack_rows(substring(w.rows FROM octet_length(w.rows) - w.width + 1), w.first, w.width))[1] >= low AND u.rows && numbers
    LOOP
        DELETE FROM passage_words w WHERE w.shelf_no = list.shelf_no AND w.term = list.term AND w.first = list.first
            AND w.tenant = in_tenant AND list.rows <@ numbers;
        UPDATE passage_words w SET rows = pack_rows(ARRAY(SELECT r FROM unnest(list.rows) AS r WHERE r <> ALL (numbers)),
                                                    w.first, w.width)
        WHERE w.shelf_no = list.shelf_no AND w.term = list.term AND w.first = list.first AND w.tenant = in_tenant;
    END LOOP;
    RETURN dropped;
END $$;

-- Remove shelves that are empty: those of users, and those of streams.
CREATE FUNCTION drop_shelves(in_tenant text, in_users text[], in_streams bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM passage_shelves WHERE tenant = in_tenant AND stream_no = ANY (in_streams) AND stream_no <> 0 AND size = 0;
    DELETE FROM passage_shelves WHERE tenant = in_tenant AND user_name = ANY (in_users) AND stream_no = 0 AND size = 0;
END $$;

-- `items` are passages with their terms. Those with the same key are replaced; taken is what `taken` names, or was before.
CREATE FUNCTION put_passages(in_tenant text, in_stream bigint, items jsonb, taken bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    item      record;
    was_taken bigint[];
    number    integer;
    shelf     integer;
    w_shelf   integer[] := '{}';
    w_row     integer[] := '{}';
    w_term    text[] := '{}';
BEGIN
    SELECT coalesce(array_agg(DISTINCT p.seq), '{}') || taken INTO was_taken
    FROM passages p JOIN passage_shelves s USING (shelf_no)
    WHERE p.stream_no = in_stream AND p.tenant = in_tenant AND s.stream_no = 0
      AND p.seq IN (SELECT (i ->> 'seq')::bigint FROM jsonb_array_elements(items) AS i);
    PERFORM drop_passages(in_tenant, ARRAY(
        SELECT p.row_no FROM jsonb_to_recordset(items) AS i (seq bigint, part integer)
        JOIN passages p ON p.stream_no = in_stream AND p.seq = i.seq AND p.part = i.part AND p.tenant = in_tenant));
    -- all shelves in one order before anything is put on them
    PERFORM lock_shelf(in_tenant, k.user_name, k.stream_no, k.role, k.kind, k.requires) FROM (
        SELECT DISTINCT i.user_name, n.stream_no, i.role, i.kind, i.requires
        FROM jsonb_to_recordset(items) AS i (user_name text, role text, kind text, requires text)
        CROSS JOIN unnest(ARRAY[0, in_stream]) AS n (stream_no) ORDER BY 1, 2, 3, 4, 5) k;
    FOR item IN
        SELECT i.*, i.is_taken OR i.seq = ANY (was_taken) AS now_taken FROM jsonb_to_recordset(items) AS i (
            seq bigint, part integer, kind text, role text, speaker text, user_name text, frame text, time_us bigint,
            place integer, requires text, handle text, start integer, text text, is_taken boolean, terms text[])
        ORDER BY i.seq, i.part
    LOOP
        SELECT s.shelf_no INTO shelf FROM passage_shelves s WHERE s.tenant = in_tenant AND s.user_name = item.user_name
            AND s.stream_no = CASE WHEN item.now_taken THEN 0 ELSE in_stream END AND s.role = item.role
            AND s.kind = item.kind AND s.requires = item.requires;
        INSERT INTO passages (
            stream_no, seq, part, shelf_no, time_us, place, start, tenant, speaker, frame, handle, text, is_taken)
        VALUES (in_stream, item.seq, item.part, shelf, item.time_us, item.place, item.start, in_tenant, item.speaker,
                item.frame, item.handle, item.text, item.now_taken) RETURNING row_no INTO number;
        IF item.now_taken THEN
            w_term := w_term || item.terms;
            w_row := w_row || array_fill(number, ARRAY[cardinality(item.terms)]);
            w_shelf := w_shelf || array_fill(shelf, ARRAY[cardinality(item.terms)]);
        ELSE
            INSERT INTO passage_drafts (shelf_no, row_no, tenant, terms) VALUES (shelf, number, in_tenant, item.terms);
        END IF;
    END LOOP;
    UPDATE passage_shelves s SET size = s.size + n.added FROM (
        SELECT p.shelf_no, count(*) AS added FROM jsonb_to_recordset(items) AS i (seq bigint, part integer)
        JOIN passages p ON p.stream_no = in_stream AND p.seq = i.seq AND p.part = i.part AND p.tenant = in_tenant
        GROUP BY p.shelf_no) n WHERE s.shelf_no = n.shelf_no;
    PERFORM add_words(in_tenant, w_shelf, w_row, w_term);
END $$;

-- Returns the version of the stream, and whether the batch was stored. The stream is locked against erasures: an indexer that
-- read an event before it was erased must not bring its words back.
CREATE FUNCTION index_passages(
    in_tenant text, in_kind text, in_key text, before jsonb, mark jsonb, covered bigint, items jsonb,
    OUT stream_version bigint, OUT is_stored boolean
) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    number bigint;
    stored jsonb;
    live   jsonb;
    dropped integer[];
    taken  bigint[];
BEGIN
    PERFORM act_for(in_tenant);
    is_stored := false;
    SELECT s.stream_no, s.version INTO number, stream_version FROM streams s
    WHERE s.tenant = in_tenant AND s.kind = in_kind AND s.key = in_key FOR SHARE;
    stream_version := coalesce(stream_version, 0);
    PERFORM pg_advisory_xact_lock(hashtextextended(in_tenant || ' ' || in_key, 20));
    SELECT jsonb_build_object('version', m.version, 'format', m.format, 'places', m.places, 'user', m.user_name,
                              'speaker', m.speaker, 'permissions', m.permissions::jsonb) INTO stored
    FROM passage_marks m WHERE m.stream_no = number AND m.tenant = in_tenant;
    IF stored IS DISTINCT FROM before OR number IS NULL OR (mark ->> 'version')::bigint > stream_version THEN
        is_stored := stored IS NOT DISTINCT FROM before;  -- then the version is what is wrong
        RETURN;
    END IF;
    SELECT array_agg(p.row_no), array_agg(p.seq) FILTER (WHERE s.stream_no = 0) INTO dropped, taken
    FROM passages p JOIN passage_shelves s USING (shelf_no)
    JOIN events e ON e.stream_no = p.stream_no AND e.seq = p.seq AND e.tenant = in_tenant
    WHERE p.stream_no = number AND p.seq > covered AND p.seq <= (mark ->> 'version')::bigint AND p.tenant = in_tenant
      AND s.kind = 'message' AND e.payload IS NOT NULL;
    PERFORM drop_passages(in_tenant, dropped);
    SELECT coalesce(jsonb_agg(i), '[]') INTO live FROM jsonb_array_elements(items) AS i
    JOIN events e ON e.stream_no = number AND e.seq = (i ->> 'seq')::bigint AND e.tenant = in_tenant
    WHERE e.payload IS NOT NULL;
    PERFORM put_passages(in_tenant, number, live, coalesce(taken, '{}'));
    INSERT INTO passage_marks (stream_no, tenant, version, format, places, user_name, speaker, permissions)
    VALUES (number, in_tenant, (mark ->> 'version')::bigint, (mark ->> 'format')::integer, (mark ->> 'places')::bigint,
            mark ->> 'user', mark ->> 'speaker', mark ->> 'permissions')
    ON CONFLICT (stream_no) DO UPDATE SET version = excluded.version, format = excluded.format, places = excluded.places,
        user_name = excluded.user_name, speaker = excluded.speaker, permissions = excluded.permissions;
    is_stored := true;
END $$;

-- Returns 0 if there is no such stream.
CREATE FUNCTION adopt_passages(in_tenant text, in_kind text, in_key text, items jsonb) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
BEGIN
    PERFORM act_for(in_tenant);
    SELECT s.stream_no INTO number FROM streams s
    WHERE s.tenant = in_tenant AND s.kind = in_kind AND s.key = in_key FOR SHARE;
    IF number IS NOT NULL THEN
        PERFORM put_passages(in_tenant, number, items, '{}');
    END IF;
    RETURN coalesce(number, 0);
END $$;

CREATE FUNCTION take_passages(
    in_tenant text, in_kind text, in_key text, low bigint, high bigint, h_first bigint[], h_last bigint[]
) RETURNS bigint LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    number  bigint;
    waiting integer[];
    total   bigint;
    moved   record;
    target  integer;
    new_no  integer[];
BEGIN
    PERFORM act_for(in_tenant);
    SELECT s.stream_no INTO number FROM streams s
    WHERE s.tenant = in_tenant AND s.kind = in_kind AND s.key = in_key FOR SHARE;
    PERFORM lock_shelf(in_tenant, k.user_name, k.stream_no, k.role, k.kind, k.requires) FROM (
        SELECT s.user_name, n.stream_no, s.role, s.kind, s.requires FROM passage_shelves s
        CROSS JOIN unnest(ARRAY[0, number]) AS n (stream_no)
        WHERE s.stream_no = number AND s.stream_no <> 0 AND s.tenant = in_tenant ORDER BY 1, 2, 3, 4, 5) k;
    SELECT count(*), coalesce(array_agg(p.row_no) FILTER (WHERE s.stream_no <> 0), '{}') INTO total, waiting
    FROM passages p JOIN passage_shelves s USING (shelf_no)
    WHERE p.stream_no = number AND p.seq BETWEEN low AND high AND p.tenant = in_tenant AND NOT EXISTS (
        SELECT FROM unnest(h_first, h_last) AS h (first, last) WHERE p.seq BETWEEN h.first AND h.last);
    FOR moved IN
        SELECT s.shelf_no, s.user_name, s.role, s.kind, s.requires, array_agg(p.row_no ORDER BY p.seq, p.part) AS rows
        FROM passages p JOIN passage_shelves s USING (shelf_no) WHERE p.row_no = ANY (waiting) AND p.tenant = in_tenant
        GROUP BY s.shelf_no, s.user_name, s.role, s.kind, s.requires
    LOOP
        target := lock_shelf(in_tenant, moved.user_name, 0, moved.role, moved.kind, moved.requires);
        new_no := ARRAY(SELECT nextval('passage_rows')::integer FROM generate_subscripts(moved.rows, 1));
        UPDATE passages p SET row_no = n.new, shelf_no = target, is_taken = true FROM unnest(moved.rows, new_no) AS n (old, new)
        WHERE p.row_no = n.old AND p.tenant = in_tenant;
        UPDATE passage_vectors v SET row_no = n.new FROM unnest(moved.rows, new_no) AS n (old, new)
        WHERE v.row_no = n.old AND v.tenant = in_tenant;
        PERFORM add_words(in_tenant, array_agg(target), array_agg(n.new), array_agg(t.term))
        FROM unnest(moved.rows, new_no) AS n (old, new)
        JOIN passage_drafts d ON d.shelf_no = moved.shelf_no AND d.row_no = n.old AND d.tenant = in_tenant
        CROSS JOIN LATERAL unnest(d.terms) AS t (term);
        DELETE FROM passage_drafts WHERE shelf_no = moved.shelf_no AND row_no = ANY (moved.rows) AND tenant = in_tenant;
        UPDATE passage_shelves SET size = size + CASE WHEN shelf_no = target THEN 1 ELSE -1 END * cardinality(moved.rows)
        WHERE shelf_no IN (target, moved.shelf_no);
    END LOOP;
    PERFORM drop_shelves(in_tenant, '{}', ARRAY[number]);
    RETURN total;
END $$;

-- Returns how many passages were removed, and how many of the subject are left.
CREATE FUNCTION forget_passages(
    in_tenant text, in_user text, in_kind text, in_key text, in_seqs bigint[], OUT dropped bigint, OUT residue bigint
) LANGUAGE plpgsql AS $$
DECLARE
    gone    integer[];
    homes   bigint[];
    users   text[];
BEGIN
    PERFORM act_for(in_tenant);
    IF in_key IS NULL THEN
        SELECT array_agg(p.row_no), array_agg(DISTINCT p.stream_no), ARRAY[in_user] INTO gone, homes, users
        FROM passages p WHERE p.tenant = in_tenant AND p.shelf_no IN (
            SELECT s.shelf_no FROM passage_shelves s WHERE s.tenant = in_tenant AND s.user_name = in_user);
    ELSE
        SELECT array_agg(p.row_no), array_agg(DISTINCT s.stream_no), array_agg(DISTINCT h.user_name)
        INTO gone, homes, users
        FROM streams s LEFT JOIN passages p ON p.stream_no = s.stream_no AND p.tenant = in_tenant
            AND (cardinality(in_seqs) = 0 OR p.seq = ANY (in_seqs))
        LEFT JOIN passage_shelves h ON h.shelf_no = p.shelf_no AND h.tenant = in_tenant
        WHERE s.tenant = in_tenant AND s.kind = in_kind AND s.key = in_key;
    END IF;
    dropped := drop_passages(in_tenant, array_remove(gone, NULL));
    DELETE FROM passage_marks WHERE stream_no = ANY (homes) AND tenant = in_tenant;
    PERFORM drop_shelves(in_tenant, users, homes);
    IF in_key IS NULL THEN
        DELETE FROM passage_shelves WHERE tenant = in_tenant AND user_name = in_user AND size = 0;
    END IF;
    SELECT count(*) INTO residue FROM passages p WHERE p.row_no = ANY (gone) AND p.tenant = in_tenant;
END $$;

-- With the payload of an event go its passages. Taken ones stay where the setting holdfast.keep_taken says so: a JSON array of
-- objects with tenant, key and seqs. The mark goes too: it has the identity after its event.
CREATE FUNCTION erase_passages() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    kept    jsonb := coalesce(nullif(current_setting('holdfast.keep_taken', true), ''), '[]');
    one     record;
BEGIN
    FOR one IN
        SELECT c.tenant, array_agg(DISTINCT c.stream_no) AS homes, array_agg(DISTINCT p.row_no) AS numbers,
               array_agg(DISTINCT h.user_name) AS users
        FROM changed c JOIN streams s USING (stream_no)
        LEFT JOIN (passages p JOIN passage_shelves h USING (shelf_no)) ON p.stream_no = c.stream_no AND p.seq = c.seq
            AND NOT (h.stream_no = 0 AND EXISTS (
                SELECT FROM jsonb_to_recordset(kept) AS k (tenant text, key text, seqs bigint[])
                WHERE k.tenant = s.tenant AND k.key = s.key AND p.seq = ANY (k.seqs)))
        WHERE c.payload IS NULL GROUP BY c.tenant
    LOOP
        PERFORM drop_passages(one.tenant, array_remove(one.numbers, NULL));
        DELETE FROM passage_marks WHERE stream_no = ANY (one.homes) AND tenant = one.tenant;
        PERFORM drop_shelves(one.tenant, one.users, one.homes);
    END LOOP;
    RETURN NULL;
END $$;

CREATE TRIGGER passages_go AFTER UPDATE ON events REFERENCING NEW TABLE AS changed
FOR EACH STATEMENT EXECUTE FUNCTION erase_passages();

CREATE FUNCTION claim_offloads(in_tenant text, in_owner text, now_us bigint, lease_us bigint, most integer)
RETURNS SETOF deliveries LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM act_for(in_tenant);
    DELETE FROM deliveries d WHERE d.tenant = in_tenant AND NOT EXISTS (
        SELECT FROM outbox_rows o WHERE o.tenant = d.tenant AND o.actor = d.actor AND o.session = d.session
            AND o.thread = d.thread AND o.entry = d.entry AND o.done = 0);
    RETURN QUERY
    WITH due AS (
        SELECT o.tenant, o.actor, o.session, o.thread, o.entry FROM outbox_rows o
        WHERE o.tenant = in_tenant AND o.done = 0 AND NOT EXISTS (
            SELECT FROM deliveries d WHERE d.tenant = o.tenant AND d.actor = o.actor AND d.session = o.session
                AND d.thread = o.thread AND d.entry = o.entry
                AND (d.set_aside OR d.until_us > now_us OR d.next_us > now_us))
        ORDER BY o.at_us, o.actor, o.session, o.thread, o.entry LIMIT most FOR UPDATE OF o SKIP LOCKED
    )
    INSERT INTO deliveries AS d (tenant, actor, session, thread, entry, owner, until_us, attempts, next_us, error, set_aside)
    SELECT tenant, actor, session, thread, entry, in_owner, now_us + lease_us, 1, 0, '', false FROM due
    ON CONFLICT (tenant, actor, session, thread, entry) DO UPDATE SET
        owner = excluded.owner, until_us = excluded.until_us, attempts = d.attempts + 1
        WHERE NOT d.set_aside AND d.until_us <= now_us AND d.next_us <= now_us
    RETURNING d.*;
END $$;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['passage_shelves', 'passages', 'passages_taken', 'passages_draft', 'passage_words', 'passage_drafts', 'passage_marks',
                                'passage_vectors', 'deliveries'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY tenant_alone ON %I '
                       'USING (tenant = nullif(current_setting(''holdfast.tenant'', true), ''''))', name);
        EXECUTE format('CREATE POLICY maintenance ON %I TO CURRENT_USER '
                       'USING (current_setting(''holdfast.every_tenant'', true) = ''on'')', name);
    END LOOP;
END $$;
