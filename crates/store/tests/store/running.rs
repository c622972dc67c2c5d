//! Runs, entries and turns to write, and a writer at work.

use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolwright_store::{
    Change, Entry, Mark, NewConversation, NewRun, NewTurn, RunKind, RunState, ServerId, Store, Wait, WaitKind, Writer,
    WriterOptions,
};
use toolwright_types::{
    CallId, ConversationId, DocumentId, PrincipalId, RealmScope, RunId, RunStatus, Timestamp, TurnId,
};

/// A writer whose service runs beside the test.
pub struct Writing {
    pub writer: Writer,
    pub server: ServerId,
    stop: CancellationToken,
    service: JoinSet<()>,
}

impl Writing {
    pub fn start(store: &Store) -> Self {
        Self::with(store, WriterOptions::default())
    }

    pub fn with(store: &Store, options: WriterOptions) -> Self {
        Self::starting(store, ServerId::generate(), options)
    }

    /// Writes in the name of this server.
    pub fn as_server(store: &Store, server: ServerId) -> Self {
        Self::starting(store, server, WriterOptions::default())
    }

    fn starting(store: &Store, server: ServerId, options: WriterOptions) -> Self {
        let (writer, service) = store.writer(server.clone(), options);
        let stop = CancellationToken::new();
        Self { writer, server, stop: stop.clone(), service: JoinSet::from_iter([service.run(stop)]) }
    }

    /// Ends the service as a server does when it shuts down.
    pub async fn stop(self) {
        self.stop.cancel();
        self.service.join_all().await;
    }

    /// Ends the service as a crash does.
    pub async fn kill(mut self) {
        self.service.shutdown().await;
    }
}

/// So many microseconds after a moment in 2026.
pub fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(1_790_000_000_000_000 + micros)
}

pub fn new_run() -> NewRun {
    NewRun {
        id: RunId::generate(),
        kind: RunKind::Agent,
        subject: "helper".into(),
        subject_hash: "cafe".into(),
        parent: None,
        conversation: None,
        owner: PrincipalId::generate(),
        principal: PrincipalId::generate(),
        durable: true,
        started_at: at(0),
        fork: None,
        trial: None,
        parts: Vec::new(),
    }
}

pub fn state(status: RunStatus) -> RunState {
    RunState {
        status,
        reason: None,
        message: None,
        updated_at: at(0),
        ended_at: None,
        wake_at: None,
        iterations: 0,
        tokens: 0,
        cost_usd: 0.0,
        driven: status == RunStatus::Running,
        mark: Mark::default(),
    }
}

pub fn begin(realm: &RealmScope, run: &NewRun) -> Change {
    Change::Begin { realm: realm.realm, run: Box::new(run.clone()), state: Box::new(state(RunStatus::Running)) }
}

pub fn settle(status: RunStatus) -> Change {
    Change::Settle { state: state(status), waits: Vec::new() }
}

pub fn entry(n: u64) -> Entry {
    Entry {
        n,
        at: at(n as i64),
        kind: "step".into(),
        body: json!({"n": n, "text": "ü \u{1F600}"}).to_string(),
        hash: [n as u8; 32],
    }
}

pub fn append(n: u64) -> Change {
    Change::Append(entry(n))
}

pub fn wait(tool: &str, kind: WaitKind, asked_at: i64) -> Wait {
    Wait {
        call_id: CallId::derive(tool, "1.0.0", &json!({}), 0),
        kind,
        body: json!({"tool": tool}).to_string(),
        asked_at: at(asked_at),
        expires_at: None,
    }
}

pub fn new_conversation() -> NewConversation {
    NewConversation {
        id: ConversationId::generate(),
        agent: "helper".into(),
        owner: PrincipalId::generate(),
        title: None,
        created_at: at(0),
    }
}

pub fn open(realm: &RealmScope, conversation: &NewConversation) -> Change {
    Change::OpenConversation { realm: realm.realm, conversation: conversation.clone() }
}

pub fn turn(role: &str, content: &str, micros: i64) -> NewTurn {
    NewTurn {
        id: TurnId::generate(),
        role: role.into(),
        content: content.into(),
        body: None,
        tokens: 3,
        duration_ms: 7,
        run: None,
        at: at(micros),
    }
}

pub fn say(realm: &RealmScope, conversation: ConversationId, turns: Vec<NewTurn>) -> Change {
    Change::AddTurns { realm: realm.realm, conversation, turns, title_if_none: None }
}

/// The numbers of all entries of a run.
pub async fn numbers(store: &Store, realm: &RealmScope, run: RunId) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        let entries = store.runs(realm).entries(run, numbers.last().copied().unwrap_or(0), 1000).await.unwrap();
        if entries.is_empty() {
            return numbers;
        }
        numbers.extend(entries.iter().map(|entry| entry.n));
    }
}
