-- The twin of migrations/sqlite/0005: the two differ only in COLLATE "C".

-- The part that a run has in a trial: of which kind, which arm, and of which run or trial.
ALTER TABLE runs ADD COLUMN trial_kind TEXT COLLATE "C";
ALTER TABLE runs ADD COLUMN trial_arm TEXT COLLATE "C";
ALTER TABLE runs ADD COLUMN trial_of TEXT COLLATE "C";
CREATE INDEX runs_of_trial ON runs (realm_id, trial_of, started_at, id) WHERE trial_of IS NOT NULL;
