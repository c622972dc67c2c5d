-- Lists of runs by a status or a kind that few runs have. The indexes leave out the values that most runs have, so that the
-- most frequent writes do not change them.
CREATE INDEX runs_by_status ON runs (realm_id, status, started_at, id) WHERE status <> 'COMPLETED';
CREATE INDEX runs_by_kind ON runs (realm_id, kind, started_at, id) WHERE kind <> 'tool';
-- Lists of effects of one tool.
CREATE INDEX effects_by_tool ON effects (realm_id, tool, ended_at, run_id, call_id);
