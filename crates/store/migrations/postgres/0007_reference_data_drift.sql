-- The twin of migrations/sqlite/0007: the two differ only in COLLATE "C".

-- What the systems of providers call things. A provider is known by its name in lower case.
CREATE TABLE reference_items (
    realm_id TEXT COLLATE "C" NOT NULL REFERENCES realms (id),
    provider TEXT COLLATE "C" NOT NULL,
    data_type TEXT COLLATE "C" NOT NULL,
    external_id TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    -- {"id", "metadata"} as JSON: an id may be a number.
    body TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL CHECK (status IN ('active', 'deleted')),
    synced_at BIGINT NOT NULL,
    PRIMARY KEY (realm_id, provider, data_type, external_id)
);
CREATE INDEX reference_items_of_type ON reference_items (realm_id, data_type, status, name);

-- When each type was fetched last, by whom, and when it is due again.
CREATE TABLE reference_syncs (
    realm_id TEXT COLLATE "C" NOT NULL REFERENCES realms (id),
    provider TEXT COLLATE "C" NOT NULL,
    data_type TEXT COLLATE "C" NOT NULL,
    principal_id TEXT COLLATE "C" NOT NULL,
    tried_at BIGINT NOT NULL,
    synced_at BIGINT,
    -- Why the last try failed; what was there before is there still.
    error TEXT COLLATE "C",
    next_at BIGINT,
    PRIMARY KEY (realm_id, provider, data_type)
);
CREATE INDEX reference_syncs_due ON reference_syncs (next_at) WHERE next_at IS NOT NULL;

-- Where systems differ from what their tools say: once for each tool and shape of difference.
CREATE TABLE drift_findings (
    id TEXT COLLATE "C" PRIMARY KEY,
    realm_id TEXT COLLATE "C" NOT NULL REFERENCES realms (id),
    tool TEXT COLLATE "C" NOT NULL,
    version TEXT COLLATE "C" NOT NULL,
    source TEXT COLLATE "C" NOT NULL CHECK (source IN ('output', 'import')),
    fingerprint TEXT COLLATE "C" NOT NULL,
    -- JSON.
    differences TEXT COLLATE "C" NOT NULL,
    count BIGINT NOT NULL,
    first_seen BIGINT NOT NULL,
    last_seen BIGINT NOT NULL,
    accepted_by TEXT COLLATE "C",
    accepted_at BIGINT,
    UNIQUE (realm_id, tool, fingerprint)
);
CREATE INDEX drift_findings_of_realm ON drift_findings (realm_id, id);
