-- The twin of migrations/sqlite/0006: the two differ only in JSONB and in COLLATE "C".

-- Records of the types that a realm defines. Each type has indexes of its own, made when it is saved; they are partial,
-- so this table has none that begins with the type.
CREATE TABLE records (
    realm_id TEXT NOT NULL REFERENCES realms (id),
    type_id TEXT NOT NULL REFERENCES documents (id),
    id TEXT COLLATE "C" NOT NULL,
    -- Counts writes.
    version BIGINT NOT NULL,
    -- The whole record as it is shown, with what the server manages: filters speak of that too.
    body JSONB NOT NULL,
    created_by TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_by TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (id, type_id)
);
