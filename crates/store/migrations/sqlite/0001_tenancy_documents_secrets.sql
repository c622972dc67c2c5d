-- The twin of migrations/postgres/0001: the two differ only in BLOB/BYTEA and in COLLATE "C".
-- Times are microseconds since 1970 in UTC. A *_key column is its name in lower case.

-- Counts changes of everything below, so that servers sharing a database notice each other's.
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
CREATE INDEX api_keys_of_principal ON api_keys (principal_id);

CREATE TABLE documents (
    id TEXT PRIMARY KEY,
    realm_id TEXT NOT NULL REFERENCES realms (id),
    kind TEXT NOT NULL,
    ref_name TEXT NOT NULL,
    ref_key TEXT NOT NULL,
    source TEXT NOT NULL,
    -- The newest revision: counts writes.
    revision BIGINT NOT NULL,
    -- The revision that a reader gets who names no version.
    head_revision BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    -- Set instead of removing the row: runs refer to revisions by their hash.
    deleted_at BIGINT
);
CREATE UNIQUE INDEX documents_by_name ON documents (realm_id, kind, ref_key) WHERE deleted_at IS NULL;

-- Rows are written once and never changed.
CREATE TABLE revisions (
    document_id TEXT NOT NULL REFERENCES documents (id),
    revision BIGINT NOT NULL,
    -- A semantic version; empty for kinds that have none.
    version TEXT NOT NULL,
    active BOOLEAN NOT NULL,
    -- JSON as text, because the order of keys is kept.
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
    -- Null for an org's secret.
    realm_id TEXT,
    -- Null but for a user's secret.
    principal_id TEXT,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    revision BIGINT NOT NULL,
    -- Which key sealed it, so that a wrong key can be told from a changed row.
    key_id TEXT NOT NULL,
    -- Nonce, ciphertext and tag.
    sealed BLOB NOT NULL,
    updated_by TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    CHECK ((scope = 'org') = (realm_id IS NULL)),
    CHECK ((scope = 'user') = (principal_id IS NOT NULL)),
    FOREIGN KEY (org_id, realm_id) REFERENCES realms (org_id, id),
    FOREIGN KEY (org_id, principal_id) REFERENCES principals (org_id, id)
);
CREATE UNIQUE INDEX secrets_of_user ON secrets (realm_id, principal_id, name_key) WHERE scope = 'user';
CREATE UNIQUE INDEX secrets_of_realm ON secrets (realm_id, name_key) WHERE scope = 'realm';
CREATE UNIQUE INDEX secrets_of_org ON secrets (org_id, name_key) WHERE scope = 'org';
