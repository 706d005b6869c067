-- Words come as stems, and are looked for as stems: the index takes them as they are, so that every store finds the same.
-- What is longer than any word, an index could not hold.
CREATE OR REPLACE FUNCTION stems_of(words text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    SELECT left(w.word, 100) FROM string_to_table(words, ' ') AS w (word) WHERE w.word <> '';
$$;

DROP TEXT SEARCH DICTIONARY word_stem;

-- What was found by the stems of before is found by its words until the rows are made anew.
SELECT set_config('holdfast.every_tenant', 'on', true);
DELETE FROM fact_words;
INSERT INTO fact_words (tenant, home, word, fact, weight)
SELECT f.tenant, f.stream_no * 2 + (f.live = 1)::integer, s.word, f.fact,
       2.2 * s.counts / (s.counts + 0.3 + 0.9 * s.length / 16)
FROM fact_rows f CROSS JOIN LATERAL (
    SELECT w.word, sum(w.counts)::float8 AS counts, (sum(count(*)) OVER ())::float8 AS length
    FROM (SELECT stems_of(f.key_words), 3 UNION ALL SELECT stems_of(f.words), 1) AS w (word, counts)
    GROUP BY w.word) AS s;
SELECT set_config('holdfast.every_tenant', 'off', true);
