//! The measured routes, each with the SQL that it executes.

/// The ids that the routes use.
#[derive(Default)]
pub(crate) struct Names {
    /// A run that has ended. All other ended runs are copies of it.
    pub run: String,
    /// A run that waits for approvals.
    pub waiting: String,
    /// A run with 20,000 entries.
    pub long: String,
    pub realm: String,
    pub principal: String,
    /// The time halfway between the first and the last start of a run, in microseconds and in RFC 3339.
    pub middle: (i64, String),
}

/// A route to measure.
pub(crate) struct Route {
    pub name: String,
    pub path: String,
    /// The statement that the route spends most of its time on. `None` if the route reads the cache.
    pub sql: Option<String>,
}

const RUN_COLUMNS: &str = "r.id, r.kind, r.subject, r.subject_hash, r.parent_id, r.conversation_id, r.owner_id, r.principal_id,
    r.durable, r.started_at, r.forked_from, r.forked_at_entry, r.trial_kind, r.trial_arm, r.trial_of, r.agent_version,
    r.correlation_id, r.user_message, r.status, r.reason, r.message, r.updated_at, r.ended_at, r.wake_at, r.iterations, r.tokens,
    r.cost_usd, r.driver_id, r.last_entry_n, r.last_entry_hash";

pub(crate) fn all(names: &Names) -> Vec<Route> {
    let Names { run, realm, long, .. } = names;
    let mut routes = run_lists(names);
    let mut add = |name: &str, path: String, sql: Option<String>| {
        routes.push(Route { name: name.to_owned(), path: format!("/api/v1/ai/{path}"), sql });
    };
    add(
        "count of runs",
        "runs/count?status=ERROR".into(),
        Some(format!("SELECT COUNT(*) FROM runs r WHERE r.realm_id = '{realm}' AND r.status IN ('ERROR')")),
    );
    let journal = format!("SELECT n, written_at, kind, body, hash FROM journal WHERE run_id = '{run}' ORDER BY n");
    add("run", format!("runs/{run}"), Some(journal.clone()));
    add("journal", format!("runs/{run}/journal"), Some(format!("{journal} LIMIT 50")));
    add("state", format!("runs/{run}/state"), Some(journal));
    add(
        "tree",
        format!("runs/{run}/tree"),
        Some(format!(
            "SELECT {RUN_COLUMNS} FROM runs r WHERE r.parent_id = '{run}' ORDER BY r.started_at, r.id LIMIT 500"
        )),
    );
    add(
        "long run, last page of the journal",
        format!("runs/{long}/journal?from=19950"),
        Some(format!(
            "SELECT n, written_at, kind, body, hash FROM journal WHERE run_id = '{long}' AND n >= 19950 ORDER BY n LIMIT 50"
        )),
    );
    add("long run, state in the middle", format!("runs/{long}/state?at=10000"), None);
    add("long run, state at the end", format!("runs/{long}/state"), None);
    add("long run, tree", format!("runs/{long}/tree"), None);
    let calls = |table: &str, order: &str, filter: &str| {
        Some(format!(
            "SELECT c.*, r.subject, r.owner_id, r.parent_id FROM {table} c JOIN runs r ON r.id = c.run_id
             WHERE c.realm_id = '{realm}'{filter} ORDER BY {order} LIMIT 21"
        ))
    };
    let newest_decisions = "c.decided_at DESC, c.run_id DESC, c.n DESC";
    let newest_effects = "c.ended_at DESC, c.run_id DESC, c.call_id DESC";
    let oldest_waits = "c.requested_at, c.run_id, c.call_id";
    add("pending approvals", "approvals".into(), calls("waits", oldest_waits, " AND c.kind = 'approval'"));
    add("decided approvals", "approvals?status=decided".into(), calls("decisions", newest_decisions, ""));
    add(
        "decided approvals of a tool",
        "approvals?status=decided&toolRef=rare".into(),
        calls("decisions", newest_decisions, " AND c.tool = 'rare'"),
    );
    add("effects", "effects".into(), calls("effects", newest_effects, ""));
    add("effects of a tool", "effects?toolRef=rare".into(), calls("effects", newest_effects, " AND c.tool = 'rare'"));
    add(
        "effects of a run",
        format!("effects?runId={run}"),
        calls("effects", newest_effects, &format!(" AND c.run_id = '{run}'")),
    );
    for (name, path) in [
        ("readiness of a tool", "tools/pay/readiness"),
        ("uses of a tool", "tools/pay/uses"),
        ("tools of an agent", "agents/payer/tools"),
        ("cost estimate", "agents/payer/cost-estimate"),
        ("reach", "reach"),
        ("models", "models"),
        ("principals", "principals"),
        ("trials", "trials"),
        ("server", "server"),
    ] {
        add(name, path.to_owned(), None);
    }
    routes
}

/// Returns the run list with each of its filters. Some of the filters select few or no runs, because such a list is the
/// slowest.
fn run_lists(names: &Names) -> Vec<Route> {
    let Names { run, realm, principal, middle: (micros, time), .. } = names;
    let called = "((r.kind = 'tool' AND r.subject = 'rare')
        OR EXISTS (SELECT 1 FROM journal j WHERE j.tool = 'rare' AND j.run_id = r.id))";
    let filters: [(&str, String, String); 12] = [
        ("all", String::new(), String::new()),
        ("status", "status=ERROR".into(), "r.status IN ('ERROR')".into()),
        ("status of few runs", "status=TIMEOUT".into(), "r.status IN ('TIMEOUT')".into()),
        ("agentRef", "agentRef=rare".into(), "r.subject = 'rare' AND r.kind = 'agent'".into()),
        ("kind of few runs", "kind=tool".into(), "r.kind = 'tool'".into()),
        ("principal", "principal=admin".into(), format!("r.principal_id = '{principal}'")),
        ("startedBefore", format!("startedBefore={time}"), format!("r.started_at < {micros}")),
        ("minCostUsd of few runs", "minCostUsd=5".into(), "r.cost_usd >= 5.0".into()),
        ("calledToolRef of few runs", "calledToolRef=rare".into(), called.into()),
        (
            "text without match",
            "text=nowhere".into(),
            "(r.subject LIKE '%nowhere%' OR r.user_message LIKE '%nowhere%' OR r.message LIKE '%nowhere%')".into(),
        ),
        ("parentRunId", format!("parentRunId={run}"), format!("r.parent_id = '{run}'")),
        ("trialOf", "trialOf=nothing".into(), "r.trial_of = 'nothing'".into()),
    ];
    let lists = filters.into_iter().map(|(name, query, condition)| {
        let condition = if condition.is_empty() { condition } else { format!(" AND {condition}") };
        Route {
            name: format!("runs, {name}"),
            path: format!("/api/v1/ai/runs?{query}"),
            sql: Some(format!(
                "SELECT {RUN_COLUMNS} FROM runs r WHERE r.realm_id = '{realm}'{condition}
                 ORDER BY r.started_at DESC, r.id DESC LIMIT 21"
            )),
        }
    });
    lists.collect()
}
