-- The logins of browsers. A session ends with its key.
CREATE TABLE browser_sessions (
    -- A hash of the cookie; the cookie itself is never stored.
    hash BLOB PRIMARY KEY,
    -- Null for a login with the administrator's key from the environment, which is not in the database. The hash of
    -- such a session also depends on that key.
    key_id TEXT REFERENCES api_keys (id) ON DELETE CASCADE,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX browser_sessions_by_key ON browser_sessions (key_id);
CREATE INDEX browser_sessions_by_expiry ON browser_sessions (expires_at);
