-- The twin of migrations/sqlite/0008, with COLLATE "C" and one statement more.

-- Where the machine of a run stood after entry n, so that whoever goes on with it, perhaps a later release, need not tell it
-- everything again. Gone when the run has ended.
CREATE TABLE checkpoints (
    run_id TEXT COLLATE "C" PRIMARY KEY REFERENCES runs (id),
    n BIGINT NOT NULL,
    body TEXT NOT NULL
);

-- A transaction that appends has begun the run, or holds its row so that nobody takes or deletes it. Looking the row up once
-- more for each entry would cost as much as the entry.
ALTER TABLE journal DROP CONSTRAINT journal_run_id_fkey;
