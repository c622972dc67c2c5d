-- Columns for lists of runs. They are null in runs of earlier builds.
ALTER TABLE runs ADD COLUMN agent_version TEXT;
ALTER TABLE runs ADD COLUMN correlation_id TEXT;
-- The first characters of the user's message, for searches.
ALTER TABLE runs ADD COLUMN user_message TEXT;

-- Columns for pages of a journal. They are null in entries of earlier builds.
-- The call that the entry concerns, and its tool.
ALTER TABLE journal ADD COLUMN call_id TEXT;
ALTER TABLE journal ADD COLUMN tool TEXT;
-- Whether the run could be forked before this entry. The value is written with the next entry, because an entry is
-- written before it takes effect.
ALTER TABLE journal ADD COLUMN fork_state TEXT;
CREATE INDEX journal_by_tool ON journal (tool, run_id) WHERE tool IS NOT NULL;
