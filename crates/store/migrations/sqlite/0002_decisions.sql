-- The tool of the call that waits.
ALTER TABLE waits ADD COLUMN tool TEXT NOT NULL DEFAULT '';
UPDATE waits SET tool = COALESCE(json_extract(body, '$.tool'), '');

-- The decisions on approvals: one row for each journal entry with a decision or with the expiry of an approval. Each row
-- is written in the transaction of its entry.
CREATE TABLE decisions (
    run_id TEXT NOT NULL REFERENCES runs (id),
    -- The number of the journal entry.
    n BIGINT NOT NULL,
    call_id TEXT NOT NULL,
    -- The realm of the run, repeated here for the index.
    realm_id TEXT NOT NULL,
    tool TEXT NOT NULL,
    outcome TEXT NOT NULL CHECK (outcome IN ('approved', 'denied', 'edited', 'expired')),
    -- The name of the principal. Null if the approval expired.
    decided_by TEXT,
    decided_at BIGINT NOT NULL,
    -- The approval request, the reason and the new input, as JSON.
    body TEXT NOT NULL,
    PRIMARY KEY (run_id, n)
);
CREATE INDEX decisions_by_realm ON decisions (realm_id, decided_at, run_id, n);
CREATE INDEX decisions_by_tool ON decisions (realm_id, tool, decided_at);
