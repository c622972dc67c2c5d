-- The twin of migrations/postgres/0008, which has COLLATE "C" and one statement more.

-- Where the machine of a run stood after entry n, so that whoever goes on with it, perhaps a later release, need not tell it
-- everything again. Gone when the run has ended.
CREATE TABLE checkpoints (
    run_id TEXT PRIMARY KEY REFERENCES runs (id),
    n BIGINT NOT NULL,
    body TEXT NOT NULL
);
