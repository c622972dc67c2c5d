//! Runs that a conductor outside drives: whose they are, and the steps that are made for them.

use toolwright_store::{Change, RunState, Said, ServerId, StepState, Store, WriteError, Writer};
use toolwright_types::{DocumentId as _, RunId, RunStatus};

use crate::running::{Writing, append, at, begin, new_run, settle, state};
use crate::support::{TestDb, realm};

on_both_databases!(
    a_conducted_run_is_taken_by_no_server,
    a_step_that_is_begun_again_is_known_to_be,
    what_was_said_is_answered_together_with_what_follows_from_it,
    whoever_was_overtaken_changes_nothing,
);

/// A run that the conductor drives, and a writer in its name.
async fn conducted(store: &Store, name: &str) -> (RunId, Writing) {
    let (realm, writing) = (realm(store, name).await, Writing::as_server(store, ServerId::conductor()));
    let run = new_run();
    writing.writer.commit(run.id, vec![begin(&realm, &run), append(1)]).await.unwrap();
    (run.id, writing)
}

async fn settled(writer: &Writer, run: RunId, state: RunState) {
    writer.commit(run, vec![Change::Settle { state, waits: Vec::new() }]).await.unwrap();
}

async fn a_conducted_run_is_taken_by_no_server(db: TestDb) {
    let store = db.open().await;
    let (run, writing) = conducted(&store, "main").await;
    let server = ServerId::generate();
    assert_eq!(store.abandoned_runs(at(0)).await.unwrap(), []);
    assert!(!store.take_run(run, &server, at(0)).await.unwrap());
    let (_, row) = store.run_anywhere(run).await.unwrap().unwrap();
    assert!(row.conducted);
    assert_eq!(store.count_conducted().await.unwrap(), 1);
    assert_eq!(store.conducted_runs(at(0), None, 10).await.unwrap(), [], "something was heard of it just now");
    assert_eq!(store.conducted_runs(at(1), None, 10).await.unwrap(), [run]);
    assert_eq!(store.conducted_runs(at(1), Some(run), 10).await.unwrap(), []);

    let waiting = RunState { wake_at: Some(at(5)), driven: true, ..state(RunStatus::AwaitingApproval) };
    settled(&writing.writer, run, waiting).await;
    assert_eq!((store.due_runs(at(9), 10).await.unwrap(), store.next_wake().await.unwrap()), (Vec::new(), None));
    assert!(!store.take_run(run, &server, at(9)).await.unwrap(), "also while it waits");
    assert_eq!(store.conducted_runs(at(5), None, 10).await.unwrap(), []);
    assert_eq!(store.conducted_runs(at(6), None, 10).await.unwrap(), [run], "it is due");

    settled(&writing.writer, run, RunState { ended_at: Some(at(7)), ..state(RunStatus::Completed) }).await;
    assert_eq!(store.count_conducted().await.unwrap(), 0);
    assert_eq!(store.conducted_runs(at(99), None, 10).await.unwrap(), []);
    writing.stop().await;
}

async fn a_step_that_is_begun_again_is_known_to_be(db: TestDb) {
    let store = db.open().await;
    let (run, writing) = conducted(&store, "main").await;
    let [here, there] = [ServerId::generate(), ServerId::generate()];
    store.lease(&there, at(100)).await.unwrap();
    let begin =
        async |id: &str, server: &ServerId, micros: i64| store.begin_step(run, id, server, at(micros)).await.unwrap();
    assert_eq!(begin("call/x/0", &there, 0).await, StepState::Fresh);
    assert_eq!(begin("call/x/0", &here, 99).await, StepState::UnderWay);
    assert_eq!(begin("call/x/0", &here, 100).await, StepState::Lost, "its server is gone");
    assert_eq!(begin("call/x/0", &there, 0).await, StepState::Lost, "who made it would know");
    assert_eq!(begin("call/x/1", &here, 0).await, StepState::Fresh, "another attempt is another step");

    store.end_step(run, "call/x/0", "{\"first\":true}").await.unwrap();
    store.end_step(run, "call/x/0", "{\"second\":true}").await.unwrap();
    assert_eq!(begin("call/x/0", &here, 0).await, StepState::Done);
    let kept = Said { body: None, outcome: Some("{\"first\":true}".into()) };
    assert_eq!(store.said(run, "call/x/0").await.unwrap(), Some(kept));

    store.say(run, "said_1", "{}", &here, at(0)).await.unwrap();
    let ended = RunState { ended_at: Some(at(7)), ..state(RunStatus::Completed) };
    let end = Change::Settle { state: ended, waits: Vec::new() };
    writing.writer.commit(run, vec![end, Change::ClearSteps]).await.unwrap();
    assert_eq!(store.said(run, "call/x/0").await.unwrap(), None);
    assert!(store.said(run, "said_1").await.unwrap().is_some(), "it has not been answered");
    assert_eq!(begin("call/x/2", &here, 0).await, StepState::Pointless);
    assert_eq!(store.begin_step(RunId::generate(), "x", &here, at(0)).await.unwrap(), StepState::Pointless);
    writing.stop().await;
}

async fn what_was_said_is_answered_together_with_what_follows_from_it(db: TestDb) {
    let store = db.open().await;
    let (run, writing) = conducted(&store, "main").await;
    store.say(run, "said_1", "{\"wish\":1}", &ServerId::generate(), at(0)).await.unwrap();
    let answer = || Change::Answer { id: "said_1".into(), answer: "\"taken\"".into() };
    let twice = writing.writer.commit(run, vec![append(1), answer()]).await;
    assert!(matches!(twice, Err(WriteError::Conflict(_))), "{twice:?}");
    let said = store.said(run, "said_1").await.unwrap().unwrap();
    assert_eq!((said.body.as_deref(), said.outcome), (Some("{\"wish\":1}"), None));

    writing.writer.forget(run).await.unwrap();
    writing.writer.commit(run, vec![append(2), answer()]).await.unwrap();
    assert_eq!(store.said(run, "said_1").await.unwrap().unwrap().outcome.as_deref(), Some("\"taken\""));
    store.unsay(run, "said_1").await.unwrap();
    assert_eq!(store.said(run, "said_1").await.unwrap(), None);
    writing.stop().await;
}

async fn whoever_was_overtaken_changes_nothing(db: TestDb) {
    let store = db.open().await;
    let (run, first) = conducted(&store, "main").await;
    let second = Writing::as_server(&store, ServerId::conductor());
    let stands = |n: u64, status| {
        let mut state = RunState { driven: true, ..state(status) };
        state.mark.n = n;
        Change::Settle { state, waits: Vec::new() }
    };
    second.writer.commit(run, vec![append(2), stands(2, RunStatus::Running)]).await.unwrap();
    let late = first.writer.commit(run, vec![stands(1, RunStatus::AwaitingClient)]).await;
    assert!(matches!(late, Err(WriteError::Conflict(_))), "{late:?}");
    second.writer.commit(run, vec![stands(2, RunStatus::AwaitingApproval)]).await.unwrap();
    let (_, row) = store.run_anywhere(run).await.unwrap().unwrap();
    assert_eq!((row.state.status, row.state.mark.n), (RunStatus::AwaitingApproval, 2));
    let unused = settle(RunStatus::Completed);
    assert!(matches!(first.writer.commit(run, vec![unused]).await, Err(WriteError::Conflict(_))));
    first.stop().await;
    second.stop().await;
}
