-- The schedules of triggers, derived from their definitions.
CREATE TABLE trigger_schedules (
    trigger_id TEXT PRIMARY KEY REFERENCES documents (id) ON DELETE CASCADE,
    -- The revision of the definition from which `next_at` was computed.
    revision BIGINT NOT NULL,
    -- The next time of the schedule. Null for a webhook, a paused trigger and a schedule that has ended.
    next_at BIGINT
);
CREATE INDEX trigger_schedules_due ON trigger_schedules (next_at) WHERE next_at IS NOT NULL;

-- The firings of triggers. A firing starts at most one run.
CREATE TABLE trigger_firings (
    id TEXT PRIMARY KEY,
    realm_id TEXT NOT NULL,
    trigger_id TEXT NOT NULL,
    -- What caused the firing: a scheduled time, or the id of a webhook. The same cause fires once.
    cause TEXT NOT NULL,
    fired_at BIGINT NOT NULL,
    status TEXT NOT NULL,
    -- The id of the run, which is chosen before the run starts.
    run_id TEXT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    -- The time at which another attempt may start the run. Null if the run was started or is never started.
    retry_at BIGINT,
    -- Whether a server repeats the start. The sender of a webhook repeats it instead.
    repeats BOOLEAN NOT NULL,
    error TEXT,
    UNIQUE (trigger_id, cause)
);
CREATE INDEX trigger_firings_by_trigger ON trigger_firings (realm_id, trigger_id, fired_at, id);
CREATE INDEX trigger_firings_due ON trigger_firings (retry_at) WHERE repeats AND retry_at IS NOT NULL;
CREATE INDEX trigger_firings_by_age ON trigger_firings (fired_at);

-- The last event of each realm that was passed to its webhooks.
CREATE TABLE webhook_positions (
    realm_id TEXT PRIMARY KEY,
    transaction_id BIGINT NOT NULL,
    seq BIGINT NOT NULL
);

-- The deliveries of events to webhooks.
CREATE TABLE webhook_deliveries (
    id TEXT PRIMARY KEY,
    realm_id TEXT NOT NULL,
    webhook_id TEXT NOT NULL,
    -- The position of the event in the stream of its realm. A test has a position of its own.
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    body TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    status TEXT NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    -- The time of the next attempt. Null after the last attempt.
    retry_at BIGINT,
    -- The HTTP status of the last response.
    response_status BIGINT,
    error TEXT,
    UNIQUE (webhook_id, event_id)
);
CREATE INDEX webhook_deliveries_by_webhook ON webhook_deliveries (realm_id, webhook_id, created_at, id);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_age ON webhook_deliveries (created_at);
