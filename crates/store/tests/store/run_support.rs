//! Helpers that create runs, entries and turns, and a running writer.

use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolwright_store::{
    EntryNotes, JournalEntry, JournalPosition, NewConversation, NewRun, NewTurn, RunChange, RunKind, RunLabels,
    RunState, ServerId, Store, Wait, WaitKind, Writer, WriterOptions,
};
use toolwright_types::{
    CallId, ConversationId, DocumentId, Owner, PrincipalId, RealmScope, RunId, RunStatus, Timestamp, TurnId,
};

/// A writer with its running service.
pub(crate) struct RunningWriter {
    pub writer: Writer,
    pub server: ServerId,
    stop: CancellationToken,
    service: JoinSet<()>,
}

impl RunningWriter {
    pub(crate) fn start(store: &Store) -> Self {
        Self::with(store, WriterOptions::default())
    }

    pub(crate) fn with(store: &Store, options: WriterOptions) -> Self {
        Self::start_as(store, ServerId::generate(), options)
    }

    /// Starts a writer that writes under the id `server`.
    pub(crate) fn as_server(store: &Store, server: ServerId) -> Self {
        Self::start_as(store, server, WriterOptions::default())
    }

    fn start_as(store: &Store, server: ServerId, options: WriterOptions) -> Self {
        let (writer, service) = store.writer(server.clone(), options);
        let stop = CancellationToken::new();
        Self { writer, server, stop: stop.clone(), service: JoinSet::from_iter([service.run(stop)]) }
    }

    /// Stops the service as a regular shutdown does.
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.service.join_all().await;
    }

    /// Aborts the service as a crash would.
    pub(crate) async fn kill(mut self) {
        self.service.shutdown().await;
    }
}

/// The time `micros` microseconds after a fixed time in 2026.
pub(crate) fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(1_790_000_000_000_000 + micros)
}

pub(crate) fn new_run() -> NewRun {
    NewRun {
        id: RunId::generate(),
        kind: RunKind::Agent,
        subject: "helper".into(),
        subject_hash: "cafe".into(),
        parent: None,
        conversation: None,
        owner: Owner::new(PrincipalId::generate()),
        principal: PrincipalId::generate(),
        durable: true,
        started_at: at(0),
        fork: None,
        trial: None,
        shared_parts: Vec::new(),
        labels: RunLabels::default(),
    }
}

pub(crate) fn state(status: RunStatus) -> RunState {
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
        journal_position: JournalPosition::default(),
    }
}

pub(crate) fn begin(realm: &RealmScope, run: &NewRun) -> RunChange {
    RunChange::Begin { realm: realm.realm, run: Box::new(run.clone()), state: Box::new(state(RunStatus::Running)) }
}

pub(crate) fn update_state(status: RunStatus) -> RunChange {
    RunChange::UpdateState { state: state(status), waits: Vec::new() }
}

pub(crate) fn entry(n: u64) -> JournalEntry {
    JournalEntry {
        n,
        at: at(n as i64),
        kind: "step".into(),
        body: json!({"n": n, "text": "ü \u{1F600}"}).to_string(),
        hash: [n as u8; 32],
        notes: EntryNotes::default(),
    }
}

pub(crate) fn append(n: u64) -> RunChange {
    RunChange::Append(entry(n))
}

pub(crate) fn wait(tool: &str, kind: WaitKind, requested_at: i64) -> Wait {
    Wait {
        call_id: CallId::derive(tool, "1.0.0", &json!({}), 0),
        kind,
        tool: tool.into(),
        body: json!({"tool": tool}).to_string(),
        requested_at: at(requested_at),
        expires_at: None,
    }
}

pub(crate) fn new_conversation() -> NewConversation {
    NewConversation {
        id: ConversationId::generate(),
        agent: "helper".into(),
        owner: PrincipalId::generate(),
        title: None,
        created_at: at(0),
    }
}

pub(crate) fn open(realm: &RealmScope, conversation: &NewConversation) -> RunChange {
    RunChange::OpenConversation { realm: realm.realm, conversation: conversation.clone() }
}

pub(crate) fn turn(role: &str, content: &str, micros: i64) -> NewTurn {
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

pub(crate) fn add_turns(realm: &RealmScope, conversation: ConversationId, turns: Vec<NewTurn>) -> RunChange {
    RunChange::AddTurns { realm: realm.realm, conversation, turns, title_if_none: None }
}

/// Returns the numbers of all entries of a run.
pub(crate) async fn numbers(store: &Store, realm: &RealmScope, run: RunId) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        let entries = store.runs(realm).entries(run, numbers.last().copied().unwrap_or(0), 1000).await.unwrap();
        if entries.is_empty() {
            return numbers;
        }
        numbers.extend(entries.iter().map(|entry| entry.n));
    }
}
