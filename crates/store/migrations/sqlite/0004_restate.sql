-- The twin of migrations/postgres/0004: the two differ only in COLLATE "C".

-- What is handed to a run that no single server drives, and what came of it. A row is made before the step begins, so
-- that whoever finds it without an outcome knows that the step may have been made.
CREATE TABLE steps (
    run_id TEXT NOT NULL REFERENCES runs (id),
    -- An effect of the run's machine and the entry that asked for it, or something that was said to the run.
    id TEXT NOT NULL,
    -- The server that makes the step.
    server_id TEXT NOT NULL,
    begun_at BIGINT NOT NULL,
    -- What was said to the run, as JSON; nothing of a step that its machine asked for.
    body TEXT,
    -- What came of it, as JSON; nothing before.
    outcome TEXT,
    PRIMARY KEY (run_id, id)
);
CREATE INDEX runs_by_driver ON runs (driver_id, status) WHERE driver_id IS NOT NULL;
