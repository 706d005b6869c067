-- The log: streams with their heads, events with idempotency keys, snapshots. Text is compared byte by byte, as elsewhere.

CREATE TABLE store (
    one        integer PRIMARY KEY CHECK (one = 1),
    era        integer NOT NULL,              -- raised when the log is restored into a server that counts from lower down
    projection integer NOT NULL               -- of the code that made the rows; 0 asks for a rebuild
);

INSERT INTO store (one, era, projection) VALUES (1, 1, 0);

CREATE TABLE streams (
    stream_no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant    text COLLATE "C" NOT NULL,
    kind      text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,      -- a JSON array of names
    version   bigint NOT NULL,
    hash      bytea NOT NULL,
    era       integer NOT NULL,               -- who wrote last: the next writer's transaction must be a later one
    xid       xid8 NOT NULL,
    UNIQUE (tenant, kind, key)
) WITH (fillfactor = 60);                     -- room for the next version beside this one: no index is touched then

CREATE TABLE events (
    era            integer NOT NULL,          -- the feed's order: era, transaction, position
    xid            xid8 NOT NULL,
    position       bigint GENERATED ALWAYS AS IDENTITY,
    tenant         text COLLATE "C" NOT NULL,
    stream_no      bigint NOT NULL,
    seq            bigint NOT NULL,
    command        bytea NOT NULL,
    ordinal        integer NOT NULL,
    type           text COLLATE "C" NOT NULL,
    version        integer NOT NULL,
    time_us        bigint NOT NULL,
    principal      text COLLATE "C" NOT NULL,
    cause          text COLLATE "C",
    key            text COLLATE "C",
    command_digest bytea NOT NULL,
    payload_digest bytea NOT NULL,
    hash           bytea NOT NULL,
    salt           bytea,
    payload        bytea,                     -- bytes of JSON; NULL, with the salt, once erased
    PRIMARY KEY (stream_no, seq)
);

CREATE INDEX events_in_order ON events (era, xid, position);

-- A key belongs to one command: its events, a stretch of a stream in each row. `part` is the ordinal of the first of them.
CREATE TABLE keys (
    tenant    text COLLATE "C" NOT NULL,
    key       text COLLATE "C" NOT NULL,
    part      integer NOT NULL,
    stream_no bigint NOT NULL,
    first     bigint NOT NULL,
    last      bigint NOT NULL,
    PRIMARY KEY (tenant, key, part)
);

CREATE TABLE snapshots (
    stream_no bigint PRIMARY KEY,
    tenant    text COLLATE "C" NOT NULL,
    version   bigint NOT NULL,
    format    integer NOT NULL,
    state     bytea NOT NULL
);
