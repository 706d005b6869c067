-- Words come as stems, and are looked for as stems: the index takes them as they are, so that every store finds the same.

DROP TABLE fact_words;

CREATE VIRTUAL TABLE fact_words USING fts5(
    key_words, words, content = 'fact_texts', content_rowid = 'row_no', tokenize = 'ascii'
);

INSERT INTO fact_words (fact_words, rank) VALUES ('rank', 'bm25(3.0, 1.0)');
INSERT INTO fact_words (fact_words) VALUES ('rebuild');
