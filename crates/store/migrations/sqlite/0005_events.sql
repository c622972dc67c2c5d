-- The changes that the event stream of a realm reports. A row is written in the transaction of the change. Rows are
-- deleted after some time.
-- There is no foreign key: the realm of the change exists, and realms are never deleted.
CREATE TABLE events (
    realm_id TEXT NOT NULL,
    -- Only used on Postgres. SQLite has one writer, so the order of `seq` is the order of the commits.
    transaction_id BIGINT NOT NULL DEFAULT 0,
    -- `AUTOINCREMENT`: the number of a deleted row is not used again.
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    at BIGINT NOT NULL,
    event_type TEXT NOT NULL,
    kind TEXT NOT NULL,
    -- The id of the run, call, definition or finding that changed.
    subject_id TEXT NOT NULL,
    -- The run of the call.
    run_id TEXT,
    ref_name TEXT,
    status TEXT,
    revision BIGINT,
    -- The owner of the run. Null if the event does not concern a run.
    owner_id TEXT,
    -- The category of the tool that changed.
    category TEXT
);
CREATE INDEX events_by_realm ON events (realm_id, transaction_id, seq);

-- The last deleted event of each realm. A client that has not received it has missed events.
CREATE TABLE deleted_events (
    realm_id TEXT PRIMARY KEY,
    transaction_id BIGINT NOT NULL,
    seq BIGINT NOT NULL
);
