-- The schema for SQLite. The schema for Postgres differs only in BYTEA, JSONB, COLLATE "C" and one foreign key.
-- Times are microseconds since 1970 in UTC. A column `x_key` holds the name in column `x` (or `x_name`) in lower case.

-- The number of changes to definitions, identities and secrets. Servers that share a database read it to detect
-- changes by other servers.
CREATE TABLE generation (
    id BIGINT PRIMARY KEY CHECK (id = 1),
    value BIGINT NOT NULL
);
INSERT INTO generation (id, value) VALUES (1, 0);

CREATE TABLE orgs (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL UNIQUE,
    created_at BIGINT NOT NULL
);

CREATE TABLE realms (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL REFERENCES orgs (id),
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (org_id, name_key),
    UNIQUE (org_id, id)
);

CREATE TABLE principals (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL REFERENCES orgs (id),
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    home_realm_id TEXT NOT NULL,
    -- A JSON array of role names.
    roles TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (org_id, name_key),
    UNIQUE (org_id, id),
    FOREIGN KEY (org_id, home_realm_id) REFERENCES realms (org_id, id)
);

CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    principal_id TEXT NOT NULL REFERENCES principals (id),
    label TEXT NOT NULL,
    -- SHA-256 of the key; the key itself is never stored.
    hash BLOB NOT NULL UNIQUE,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);
CREATE INDEX api_keys_by_principal ON api_keys (principal_id);

CREATE TABLE documents (
    id TEXT PRIMARY KEY,
    realm_id TEXT NOT NULL REFERENCES realms (id),
    kind TEXT NOT NULL,
    ref_name TEXT NOT NULL,
    ref_key TEXT NOT NULL,
    source TEXT NOT NULL,
    -- The number of the newest revision. Each write increments it.
    revision BIGINT NOT NULL,
    -- The revision that is read if no version is requested.
    head_revision BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- Documents are marked as deleted and not removed, because runs refer to their revisions by hash.
    deleted_at BIGINT
);
CREATE UNIQUE INDEX documents_by_name ON documents (realm_id, kind, ref_key) WHERE deleted_at IS NULL;

-- Rows are written once and never changed.
CREATE TABLE revisions (
    document_id TEXT NOT NULL REFERENCES documents (id),
    revision BIGINT NOT NULL,
    -- A semantic version. Empty for kinds of documents without versions.
    version TEXT NOT NULL,
    active BOOLEAN NOT NULL,
    -- JSON, stored as text to preserve the order of the keys.
    body TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    written_by TEXT NOT NULL,
    written_at BIGINT NOT NULL,
    PRIMARY KEY (document_id, revision)
);
CREATE INDEX revisions_by_version ON revisions (document_id, version, revision);
CREATE INDEX revisions_by_hash ON revisions (content_hash);

CREATE TABLE secrets (
    id TEXT PRIMARY KEY,
    org_id TEXT NOT NULL REFERENCES orgs (id),
    scope TEXT NOT NULL CHECK (scope IN ('user', 'realm', 'org')),
    -- Null if the scope is `org`.
    realm_id TEXT,
    -- Null unless the scope is `user`.
    principal_id TEXT,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    revision BIGINT NOT NULL,
    -- The id of the key that sealed the value. It distinguishes a wrong key from a modified row.
    key_id TEXT NOT NULL,
    -- Nonce, ciphertext and tag.
    sealed BLOB NOT NULL,
    updated_by TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- The time until which one server may renew the value. A refresh token can be used only once.
    claimed_until BIGINT,
    CHECK ((scope = 'org') = (realm_id IS NULL)),
    CHECK ((scope = 'user') = (principal_id IS NOT NULL)),
    FOREIGN KEY (org_id, realm_id) REFERENCES realms (org_id, id),
    FOREIGN KEY (org_id, principal_id) REFERENCES principals (org_id, id)
);
CREATE UNIQUE INDEX secrets_by_user ON secrets (realm_id, principal_id, name_key) WHERE scope = 'user';
CREATE UNIQUE INDEX secrets_by_realm ON secrets (realm_id, name_key) WHERE scope = 'realm';
CREATE UNIQUE INDEX secrets_by_org ON secrets (org_id, name_key) WHERE scope = 'org';

CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    realm_id TEXT NOT NULL REFERENCES realms (id),
    agent TEXT NOT NULL,
    owner_id TEXT NOT NULL,
    title TEXT,
    status TEXT NOT NULL CHECK (status IN ('ACTIVE', 'COMPLETED', 'ARCHIVED')),
    -- The next free turn_index.
    turn_count BIGINT NOT NULL,
    total_tokens BIGINT NOT NULL,
    summary TEXT,
    -- The number of turns that the summary covers, counted from the first turn.
    summarised_turns BIGINT NOT NULL,
    -- JSON, stored as text to preserve the order of the keys.
    shared_context TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX conversations_by_realm ON conversations (realm_id, updated_at, id);
CREATE INDEX conversations_by_owner ON conversations (realm_id, owner_id, updated_at, id);

CREATE TABLE turns (
    conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    turn_index BIGINT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL,
    content TEXT NOT NULL,
    body TEXT,
    tokens BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    -- The run that produced the turn.
    run_id TEXT,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (conversation_id, turn_index)
);

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    realm_id TEXT NOT NULL REFERENCES realms (id),
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    subject_hash TEXT NOT NULL,
    parent_id TEXT,
    conversation_id TEXT REFERENCES conversations (id) ON DELETE SET NULL,
    owner_id TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    durable BOOLEAN NOT NULL,
    started_at BIGINT NOT NULL,
    -- The columns from here to `last_entry_hash` are the current state of the run.
    status TEXT NOT NULL,
    reason TEXT,
    message TEXT,
    updated_at BIGINT NOT NULL,
    ended_at BIGINT,
    wake_at BIGINT,
    iterations BIGINT NOT NULL,
    tokens BIGINT NOT NULL,
    cost_usd DOUBLE PRECISION NOT NULL,
    -- The last journal entry when the state was written. A journal that ends earlier was truncated.
    last_entry_n BIGINT NOT NULL,
    last_entry_hash BLOB NOT NULL,
    -- The hashes of the shared parts to which the journal refers, in hexadecimal, separated by commas.
    shared_parts TEXT NOT NULL DEFAULT '',
    -- The server that drives the run. Null while the run is suspended and after its end.
    driver_id TEXT,
    -- The run that this run was forked from, and the number of the last entry that both share.
    forked_from TEXT,
    forked_at_entry BIGINT,
    -- The role of the run in a trial: kind, arm, and the run or trial that it belongs to.
    trial_kind TEXT,
    trial_arm TEXT,
    trial_of TEXT,
    -- The whole journal of a run that ended before it was first written. Such a run has no rows in `journal`.
    inline_journal TEXT
);
CREATE INDEX runs_by_realm ON runs (realm_id, started_at, id);
CREATE INDEX runs_by_owner ON runs (realm_id, owner_id, started_at, id);
CREATE INDEX runs_by_subject ON runs (realm_id, subject, started_at, id);
CREATE INDEX runs_by_conversation ON runs (conversation_id, started_at, id) WHERE conversation_id IS NOT NULL;
-- A conversation has at most one active run.
CREATE UNIQUE INDEX active_run_by_conversation ON runs (conversation_id)
    WHERE conversation_id IS NOT NULL AND ended_at IS NULL;
CREATE INDEX runs_by_parent ON runs (parent_id, started_at, id) WHERE parent_id IS NOT NULL;
CREATE INDEX running_runs_by_start ON runs (started_at, id) WHERE status = 'RUNNING';
CREATE INDEX runs_by_wake_at ON runs (wake_at, id) WHERE wake_at IS NOT NULL;

-- Rows are written once and never changed. If two servers drive the same run, the primary key lets only one of them
-- write entry n.
CREATE TABLE journal (
    run_id TEXT NOT NULL REFERENCES runs (id),
    n BIGINT NOT NULL,
    written_at BIGINT NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    -- The hash of the entry and of the previous hash.
    hash BLOB NOT NULL,
    PRIMARY KEY (run_id, n)
);

-- The approvals and client results that suspended runs wait for. Deleted when the run resumes.
CREATE TABLE waits (
    run_id TEXT NOT NULL REFERENCES runs (id),
    call_id TEXT NOT NULL,
    -- The realm of the run, repeated here for the index.
    realm_id TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('approval', 'client')),
    body TEXT NOT NULL,
    requested_at BIGINT NOT NULL,
    expires_at BIGINT,
    PRIMARY KEY (run_id, call_id)
);
CREATE INDEX waits_by_realm ON waits (realm_id, kind, requested_at, run_id, call_id);

-- Parts of start entries that many runs share, such as prompts, messages and tools. Each is stored once per realm.
CREATE TABLE shared_parts (
    realm_id TEXT NOT NULL REFERENCES realms (id),
    hash TEXT NOT NULL,
    body TEXT NOT NULL,
    -- The time of the last start of a run with this part. Unreferenced parts are deleted some time later.
    last_used_at BIGINT NOT NULL,
    PRIMARY KEY (realm_id, hash)
);

-- The servers that share this database. A server whose lease has expired no longer drives runs.
CREATE TABLE servers (
    id TEXT PRIMARY KEY,
    lease_until BIGINT NOT NULL
);

-- The data that is kept about deleted runs.
CREATE TABLE tombstones (
    run_id TEXT PRIMARY KEY,
    realm_id TEXT NOT NULL REFERENCES realms (id),
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    owner_id TEXT NOT NULL,
    status TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    ended_at BIGINT,
    entries BIGINT NOT NULL,
    -- The hash of the last journal entry.
    head_hash BLOB NOT NULL,
    deleted_at BIGINT NOT NULL,
    deleted_by TEXT NOT NULL
);
CREATE INDEX ended_runs_by_status ON runs (status, ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX tombstones_by_realm ON tombstones (realm_id, deleted_at, run_id);

-- The tasks of runs that an external scheduler drives. A row is written before its task starts, so a task that has a
-- row without an outcome may have been executed.
CREATE TABLE tasks (
    run_id TEXT NOT NULL REFERENCES runs (id),
    -- The id of the effect and the number of the attempt.
    id TEXT NOT NULL,
    -- The request of the external scheduler that executes the task.
    invocation_id TEXT NOT NULL,
    -- The server that executes the task.
    server_id TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    -- The event that the task resulted in, as JSON. Null until the task has finished.
    outcome TEXT,
    PRIMARY KEY (run_id, id)
);

-- The commands to runs that an external scheduler drives. A row is deleted when the sender has read the reply.
CREATE TABLE inbox (
    run_id TEXT NOT NULL REFERENCES runs (id),
    id TEXT NOT NULL,
    received_at BIGINT NOT NULL,
    -- JSON.
    command TEXT NOT NULL,
    -- JSON. Null until the run has applied the command.
    reply TEXT,
    PRIMARY KEY (run_id, id)
);
CREATE INDEX runs_by_driver ON runs (driver_id, status) WHERE driver_id IS NOT NULL;

CREATE INDEX runs_by_trial ON runs (realm_id, trial_of, started_at, id) WHERE trial_of IS NOT NULL;

-- The records of the entity types of each realm. Saving a type creates partial indexes for it, so this table has no
-- index that starts with the type.
CREATE TABLE records (
    realm_id TEXT NOT NULL REFERENCES realms (id),
    type_id TEXT NOT NULL REFERENCES documents (id),
    id TEXT NOT NULL,
    -- The number of writes.
    version BIGINT NOT NULL,
    -- The complete record as clients receive it, including the fields that the server manages, which filters can use.
    body TEXT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (id, type_id)
);

-- The reference data of providers. `provider` is the name of the provider in lower case.
CREATE TABLE reference_items (
    realm_id TEXT NOT NULL REFERENCES realms (id),
    provider TEXT NOT NULL,
    data_type TEXT NOT NULL,
    external_id TEXT NOT NULL,
    name TEXT NOT NULL,
    -- {"id", "metadata"} as JSON. The id may be a number.
    body TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('active', 'deleted')),
    synced_at BIGINT NOT NULL,
    PRIMARY KEY (realm_id, provider, data_type, external_id)
);
CREATE INDEX reference_items_by_type ON reference_items (realm_id, data_type, status, name);

-- For each type of reference data: the last attempt to fetch it, the principal, and the time of the next attempt.
CREATE TABLE reference_syncs (
    realm_id TEXT NOT NULL REFERENCES realms (id),
    provider TEXT NOT NULL,
    data_type TEXT NOT NULL,
    principal_id TEXT NOT NULL,
    attempted_at BIGINT NOT NULL,
    synced_at BIGINT,
    -- The error of the last attempt. The earlier data is kept.
    error TEXT,
    next_sync_at BIGINT,
    PRIMARY KEY (realm_id, provider, data_type)
);
CREATE INDEX reference_syncs_by_next_sync_at ON reference_syncs (next_sync_at) WHERE next_sync_at IS NOT NULL;

-- Differences between the outputs of tools and their schemas: one row for each tool and kind of difference.
CREATE TABLE drift_findings (
    id TEXT PRIMARY KEY,
    realm_id TEXT NOT NULL REFERENCES realms (id),
    tool TEXT NOT NULL,
    version TEXT NOT NULL,
    source TEXT NOT NULL CHECK (source IN ('output', 'import')),
    fingerprint TEXT NOT NULL,
    -- JSON.
    differences TEXT NOT NULL,
    count BIGINT NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    accepted_by TEXT,
    accepted_at BIGINT,
    UNIQUE (realm_id, tool, fingerprint)
);
CREATE INDEX drift_findings_by_realm ON drift_findings (realm_id, id);

-- The saved state of the machine of a run after entry n. Recovery starts from it and replays only later entries.
-- Deleted when the run ends.
CREATE TABLE checkpoints (
    run_id TEXT PRIMARY KEY REFERENCES runs (id),
    n BIGINT NOT NULL,
    body TEXT NOT NULL
);
