-- The twin of migrations/postgres/0003: the two differ only in BLOB for BYTEA and in COLLATE "C".

-- Each entry's hash covers the entry and the hash before it.
ALTER TABLE journal ADD COLUMN hash BLOB;

-- The entry that the state was written after. Whoever cuts a journal off behind it can be told.
ALTER TABLE runs ADD COLUMN marked_n BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN marked_hash BLOB;
-- The parts of its entries, as hexadecimal hashes with commas between.
ALTER TABLE runs ADD COLUMN parts TEXT NOT NULL DEFAULT '';
-- The server that drives it; none while it waits, and after its end.
ALTER TABLE runs ADD COLUMN driver_id TEXT;
-- The run whose beginning it shares, and up to which entry.
ALTER TABLE runs ADD COLUMN forked_from TEXT;
ALTER TABLE runs ADD COLUMN forked_at BIGINT;

-- What entries of many runs have in common, written once: prompts, messages, tools.
CREATE TABLE parts (
    realm_id TEXT NOT NULL REFERENCES realms (id),
    hash TEXT NOT NULL,
    body TEXT NOT NULL,
    -- When a run last wanted it kept. One that no run names is deleted a while after.
    kept_at BIGINT NOT NULL,
    PRIMARY KEY (realm_id, hash)
);

-- The servers that share this database. One whose lease is over drives nothing any more.
CREATE TABLE servers (
    id TEXT PRIMARY KEY,
    lease_until BIGINT NOT NULL
);

-- What is left of runs that were deleted.
CREATE TABLE tombstones (
    run_id TEXT PRIMARY KEY,
    realm_id TEXT NOT NULL REFERENCES realms (id),
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    owner_id TEXT NOT NULL,
    status TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    entries BIGINT NOT NULL,
    head BLOB,
    deleted_at BIGINT NOT NULL,
    deleted_by TEXT NOT NULL
);
CREATE INDEX runs_that_ended ON runs (status, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX tombstones_of_realm ON tombstones (realm_id, deleted_at, run_id);
