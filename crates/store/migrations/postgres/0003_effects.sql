-- The writes to the outside world: one row for each call to a tool that writes, written in the transaction of the journal
-- entry that determines the outcome.
CREATE TABLE effects (
    run_id TEXT COLLATE "C" NOT NULL REFERENCES runs (id),
    call_id TEXT COLLATE "C" NOT NULL,
    -- The realm of the run, repeated here for the index.
    realm_id TEXT COLLATE "C" NOT NULL,
    tool TEXT NOT NULL,
    version TEXT NOT NULL,
    -- The tool that executed the call, if the run uses another implementation of `tool`.
    implementation TEXT,
    -- JSON, without secrets.
    input TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('done', 'failed', 'unknown', 'undone', 'captured')),
    error TEXT,
    -- The name of the principal that approved the call.
    approved_by TEXT,
    started_at BIGINT NOT NULL,
    ended_at BIGINT NOT NULL,
    -- The principal that set the outcome of a write whose outcome was unknown, and its remark.
    resolved_by TEXT,
    resolved_at BIGINT,
    note TEXT,
    -- The run that undid the call.
    undone_by TEXT,
    undone_at BIGINT,
    PRIMARY KEY (run_id, call_id)
);
CREATE INDEX effects_by_realm ON effects (realm_id, ended_at, run_id, call_id);
