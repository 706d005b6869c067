-- Large bodies, in pieces. A body has no name until it is complete; `blobs` gives it one.

CREATE TABLE bodies (
    body_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant  text COLLATE "C" NOT NULL,
    begun_s double precision NOT NULL
);

CREATE TABLE pieces (
    body_no bigint NOT NULL,
    number  integer NOT NULL,
    tenant  text COLLATE "C" NOT NULL,
    data    bytea NOT NULL,                   -- compressed already
    PRIMARY KEY (body_no, number)
);

ALTER TABLE pieces ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE blobs (
    tenant  text COLLATE "C" NOT NULL,
    digest  text COLLATE "C" NOT NULL,
    body_no bigint NOT NULL,
    put_s   double precision NOT NULL,        -- seconds since the epoch, by the server's clock
    PRIMARY KEY (tenant, digest)
);

CREATE INDEX blobs_by_body ON blobs (body_no);
