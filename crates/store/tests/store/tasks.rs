//! Tests of runs that the external scheduler drives: their driver, tasks and inbox.

use toolwright_store::{
    InboxItem, RunChange, RunState, ServerId, Store, StoredTask, TaskStart, TaskState, WriteError, Writer,
};
use toolwright_types::{DocumentId as _, RunId, RunStatus};

use crate::run_support::{RunningWriter, append, at, begin, new_run, state, update_state};
use crate::support::{TestDb, realm};

on_both_databases!(
    server_cannot_claim_a_run_of_the_external_scheduler,
    second_start_of_a_task_returns_the_state_of_the_first_start,
    repeatable_task_is_taken_over_unless_another_invocation_executes_it,
    command_reply_is_not_stored_if_an_entry_in_the_same_commit_is_rejected,
    state_with_an_older_journal_position_is_rejected,
);

/// Returns a run that the scheduler drives, and a writer that writes under the scheduler's id.
async fn scheduled_run(store: &Store, name: &str) -> (RunId, RunningWriter) {
    let (realm, running) = (realm(store, name).await, RunningWriter::as_server(store, ServerId::scheduler()));
    let run = new_run();
    running.writer.commit(run.id, vec![begin(&realm, &run), append(1)]).await.unwrap();
    (run.id, running)
}

async fn settled(writer: &Writer, run: RunId, state: RunState) {
    writer.commit(run, vec![RunChange::UpdateState { state, waits: Vec::new() }]).await.unwrap();
}

async fn server_cannot_claim_a_run_of_the_external_scheduler(db: TestDb) {
    let store = db.open().await;
    let (run, running) = scheduled_run(&store, "main").await;
    let server = ServerId::generate();
    assert_eq!(store.abandoned_runs(at(0)).await.unwrap(), []);
    assert!(!store.claim_run(run, &server, at(0)).await.unwrap());
    let (_, row) = store.run_anywhere(run).await.unwrap().unwrap();
    assert!(row.scheduled);
    assert_eq!(store.count_scheduled().await.unwrap(), 1);
    assert_eq!(store.scheduled_runs(at(0), None, 10).await.unwrap(), [], "it has just changed");
    assert_eq!(store.scheduled_runs(at(1), None, 10).await.unwrap(), [run]);
    assert_eq!(store.scheduled_runs(at(1), Some(run), 10).await.unwrap(), []);

    let waiting = RunState { wake_at: Some(at(5)), driven: true, ..state(RunStatus::AwaitingApproval) };
    settled(&running.writer, run, waiting).await;
    assert_eq!((store.due_runs(at(9), 10).await.unwrap(), store.next_wake().await.unwrap()), (Vec::new(), None));
    assert!(!store.claim_run(run, &server, at(9)).await.unwrap(), "also while it waits");
    assert_eq!(store.scheduled_runs(at(5), None, 10).await.unwrap(), []);
    assert_eq!(store.scheduled_runs(at(6), None, 10).await.unwrap(), [run], "it is due");

    settled(&running.writer, run, RunState { ended_at: Some(at(7)), ..state(RunStatus::Completed) }).await;
    assert_eq!(store.count_scheduled().await.unwrap(), 0);
    assert_eq!(store.scheduled_runs(at(99), None, 10).await.unwrap(), []);
    running.stop().await;
}

async fn second_start_of_a_task_returns_the_state_of_the_first_start(db: TestDb) {
    let store = db.open().await;
    let (run, running) = scheduled_run(&store, "main").await;
    let [here, there] = [ServerId::generate(), ServerId::generate()];
    store.lease(&there, at(100)).await.unwrap();
    let begin = async |id: &str, server: &ServerId, micros: i64| {
        let start = TaskStart { run, id, invocation: "i", server, at: at(micros), repeatable: false };
        store.start_task(start).await.unwrap()
    };
    assert_eq!(begin("call/x/0", &there, 0).await, TaskState::New);
    assert_eq!(begin("call/x/0", &here, 99).await, TaskState::Running);
    assert_eq!(begin("call/x/0", &here, 100).await, TaskState::Lost, "its server is gone");
    assert_eq!(begin("call/x/0", &there, 0).await, TaskState::Lost, "the server that executed it would know");
    assert_eq!(begin("call/x/1", &here, 0).await, TaskState::New, "another attempt is another task");

    store.finish_task(run, "call/x/0", "{\"first\":true}").await.unwrap();
    store.finish_task(run, "call/x/0", "{\"second\":true}").await.unwrap();
    assert_eq!(begin("call/x/0", &here, 0).await, TaskState::Done);
    let stored = StoredTask { outcome: Some("{\"first\":true}".into()) };
    assert_eq!(store.task(run, "call/x/0").await.unwrap(), Some(stored));

    store.inbox_put(run, "cmd_1", "{}", at(0)).await.unwrap();
    let ended = RunState { ended_at: Some(at(7)), ..state(RunStatus::Completed) };
    let end = RunChange::UpdateState { state: ended, waits: Vec::new() };
    running.writer.commit(run, vec![end, RunChange::ClearTasks]).await.unwrap();
    assert_eq!(store.task(run, "call/x/0").await.unwrap(), None);
    assert!(store.inbox_get(run, "cmd_1").await.unwrap().is_some(), "its sender has not read the reply");
    assert_eq!(begin("call/x/2", &here, 0).await, TaskState::Obsolete);
    let unknown = RunId::generate();
    let unknown = TaskStart { run: unknown, id: "x", invocation: "i", server: &here, at: at(0), repeatable: false };
    assert_eq!(store.start_task(unknown).await.unwrap(), TaskState::Obsolete);
    running.stop().await;
}

async fn repeatable_task_is_taken_over_unless_another_invocation_executes_it(db: TestDb) {
    let store = db.open().await;
    let (run, running) = scheduled_run(&store, "main").await;
    let [here, there] = [ServerId::generate(), ServerId::generate()];
    store.lease(&here, at(1000)).await.unwrap();
    store.lease(&there, at(100)).await.unwrap();
    let begin = async |invocation: &str, server: &ServerId, micros: i64| {
        let start = TaskStart { run, id: "model/1/0", invocation, server, at: at(micros), repeatable: true };
        store.start_task(start).await.unwrap()
    };
    assert_eq!(begin("i", &there, 0).await, TaskState::New);
    assert_eq!(begin("j", &here, 99).await, TaskState::Claimed);
    assert_eq!(begin("i", &here, 99).await, TaskState::New, "the invocation was repeated on another server");
    assert_eq!(begin("j", &there, 99).await, TaskState::Claimed, "it is executed here now");
    assert_eq!(begin("j", &here, 99).await, TaskState::New, "the server that executed it would know");
    assert_eq!(begin("k", &there, 1000).await, TaskState::New, "its server is gone");
    store.finish_task(run, "model/1/0", "{}").await.unwrap();
    assert_eq!(begin("k", &there, 1000).await, TaskState::Done);
    running.stop().await;
}

async fn command_reply_is_not_stored_if_an_entry_in_the_same_commit_is_rejected(db: TestDb) {
    let store = db.open().await;
    let (run, running) = scheduled_run(&store, "main").await;
    store.inbox_put(run, "cmd_1", "{\"command\":1}", at(0)).await.unwrap();
    let reply = || RunChange::Reply { id: "cmd_1".into(), reply: "\"accepted\"".into() };
    let twice = running.writer.commit(run, vec![append(1), reply()]).await;
    assert!(matches!(twice, Err(WriteError::Conflict(_))), "{twice:?}");
    let stored = store.inbox_get(run, "cmd_1").await.unwrap();
    assert_eq!(stored, Some(InboxItem { command: "{\"command\":1}".into(), reply: None }));

    running.writer.clear_failure(run).await.unwrap();
    running.writer.commit(run, vec![append(2), reply()]).await.unwrap();
    assert_eq!(store.inbox_get(run, "cmd_1").await.unwrap().unwrap().reply.as_deref(), Some("\"accepted\""));
    store.inbox_delete(run, "cmd_1").await.unwrap();
    assert_eq!(store.inbox_get(run, "cmd_1").await.unwrap(), None);
    running.stop().await;
}

async fn state_with_an_older_journal_position_is_rejected(db: TestDb) {
    let store = db.open().await;
    let (run, first) = scheduled_run(&store, "main").await;
    let second = RunningWriter::as_server(&store, ServerId::scheduler());
    let stands = |n: u64, status| {
        let mut state = RunState { driven: true, ..state(status) };
        state.journal_position.n = n;
        RunChange::UpdateState { state, waits: Vec::new() }
    };
    second.writer.commit(run, vec![append(2), stands(2, RunStatus::Running)]).await.unwrap();
    let late = first.writer.commit(run, vec![stands(1, RunStatus::AwaitingClient)]).await;
    assert!(matches!(late, Err(WriteError::LeaseLost(_))), "{late:?}");
    second.writer.commit(run, vec![stands(2, RunStatus::AwaitingApproval)]).await.unwrap();
    let (_, row) = store.run_anywhere(run).await.unwrap().unwrap();
    assert_eq!((row.state.status, row.state.journal_position.n), (RunStatus::AwaitingApproval, 2));
    let unused = update_state(RunStatus::Completed);
    assert!(matches!(first.writer.commit(run, vec![unused]).await, Err(WriteError::LeaseLost(_))));
    first.stop().await;
    second.stop().await;
}
