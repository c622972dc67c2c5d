-- The twin of migrations/sqlite/0009: the two are the same.

-- The whole journal of a run that was over before it was written; such a run has no rows in `journal`.
ALTER TABLE runs ADD COLUMN story TEXT;
