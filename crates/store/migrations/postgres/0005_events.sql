-- The changes that the event stream of a realm reports. A row is written in the transaction of the change. Rows are
-- deleted after some time.
-- There is no foreign key: the realm of the change exists, and realms are never deleted.
CREATE TABLE events (
    realm_id TEXT COLLATE "C" NOT NULL,
    -- Transactions commit in another order than they get their ids and sequence numbers. So readers sort by the id of the
    -- transaction, and read only rows of transactions before the oldest transaction that is still active.
    transaction_id BIGINT NOT NULL DEFAULT (pg_current_xact_id()::TEXT::BIGINT),
    seq BIGINT GENERATED ALWAYS AS IDENTITY,
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
    category TEXT,
    PRIMARY KEY (realm_id, transaction_id, seq)
);

-- The last deleted event of each realm. A client that has not received it has missed events.
CREATE TABLE deleted_events (
    realm_id TEXT COLLATE "C" PRIMARY KEY,
    transaction_id BIGINT NOT NULL,
    seq BIGINT NOT NULL
);
