-- The twin of migrations/sqlite/0002: the two differ only in COLLATE "C", which sorts ids and names by their bytes
-- whatever the locale of the database (SQLite always does), and faster.

CREATE TABLE conversations (
    id TEXT COLLATE "C" PRIMARY KEY,
    realm_id TEXT COLLATE "C" NOT NULL REFERENCES realms (id),
    agent TEXT NOT NULL,
    owner_id TEXT COLLATE "C" NOT NULL,
    title TEXT,
    status TEXT NOT NULL CHECK (status IN ('ACTIVE', 'COMPLETED', 'ARCHIVED')),
    -- The next free turn_index.
    turn_count BIGINT NOT NULL,
    total_tokens BIGINT NOT NULL,
    summary TEXT,
    -- How many turns, from the first on, the summary stands for.
    summarised_turns BIGINT NOT NULL,
    -- JSON as text, because the order of keys is kept.
    shared_context TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX conversations_of_realm ON conversations (realm_id, updated_at, id);
CREATE INDEX conversations_of_owner ON conversations (realm_id, owner_id, updated_at, id);

CREATE TABLE turns (
    conversation_id TEXT COLLATE "C" NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    turn_index BIGINT NOT NULL,
    id TEXT COLLATE "C" NOT NULL UNIQUE,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    body TEXT,
    tokens BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    -- The run it was said in.
    run_id TEXT COLLATE "C",
    said_at BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, turn_index)
);

CREATE TABLE runs (
    id TEXT COLLATE "C" PRIMARY KEY,
    realm_id TEXT COLLATE "C" NOT NULL REFERENCES realms (id),
    kind TEXT NOT NULL,
    subject TEXT COLLATE "C" NOT NULL,
    subject_hash TEXT NOT NULL,
    parent_id TEXT COLLATE "C",
    conversation_id TEXT COLLATE "C" REFERENCES conversations (id) ON DELETE SET NULL,
    owner_id TEXT COLLATE "C" NOT NULL,
    principal_id TEXT NOT NULL,
    durable BOOLEAN NOT NULL,
    started_at BIGINT NOT NULL,
    -- From here on: where the run stands.
    status TEXT NOT NULL,
    reason TEXT,
    message TEXT,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    wake_at BIGINT,
    iterations BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL
);
CREATE INDEX runs_of_realm ON runs (realm_id, started_at, id);
CREATE INDEX runs_of_owner ON runs (realm_id, owner_id, started_at, id);
CREATE INDEX runs_of_subject ON runs (realm_id, subject, started_at, id);
CREATE INDEX runs_of_conversation ON runs (conversation_id, started_at, id) WHERE conversation_id IS NOT NULL;
-- Two runs of one conversation at once would speak over each other.
CREATE UNIQUE INDEX runs_under_way_in_conversation ON runs (conversation_id)
    WHERE conversation_id IS NOT NULL AND ended_at IS NULL;
CREATE INDEX runs_of_parent ON runs (parent_id, started_at, id) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_under_way ON runs (started_at, id) WHERE status = 'RUNNING';
CREATE INDEX runs_to_wake ON runs (wake_at, id) WHERE wake_at IS NOT NULL;

-- Rows are written once and never changed. The key is what tells two owners of one run apart: only one of them
-- can write entry n.
CREATE TABLE journal (
    run_id TEXT COLLATE "C" NOT NULL REFERENCES runs (id),
    n BIGINT NOT NULL,
    written_at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (run_id, n)
);

-- What a suspended run waits for; gone when the run goes on.
CREATE TABLE waits (
    run_id TEXT COLLATE "C" NOT NULL REFERENCES runs (id),
    call_id TEXT COLLATE "C" NOT NULL,
    -- The run's, for the index.
    realm_id TEXT COLLATE "C" NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('approval', 'client')),
    body TEXT NOT NULL,
    asked_at BIGINT NOT NULL,
    expires_at BIGINT,
    PRIMARY KEY (run_id, call_id)
);
CREATE INDEX waits_of_realm ON waits (realm_id, kind, asked_at, run_id, call_id);
