//! Tests of reading runs, journals and waits, and of claiming runs.

use toolwright_store::{
    Ancestry, CallFilter, Fork, JournalPosition, NewRun, Owners, PendingWait, RealmRuns, Run, RunChange, RunCursor,
    RunKind, RunLabels, RunQuery, RunState, ServerId, Store, StoredPart, TrialAssignment, WaitCursor, WaitKind,
    WaitQuery, WriteError,
};
use toolwright_types::{ConversationId, DocumentId, Owner, PrincipalId, RealmScope, RunId, RunStatus, TrialKind};

use crate::run_support::{
    RunningWriter, add_turns, append, at, begin, entry, new_conversation, new_run, open, state, turn, update_state,
    wait,
};
use crate::support::{TestDb, on_postgres, realm};

on_both_databases!(
    run_is_read_back_as_written,
    nul_character_in_text_is_stored_as_replacement_character,
    journal_is_read_in_pages,
    runs_are_listed_newest_first,
    run_list_contains_only_runs_that_match_the_query,
    waits_that_match_a_query_are_listed_oldest_first,
    running_run_without_a_lease_is_abandoned_and_waiting_run_is_due_at_its_wake_time,
    run_can_be_claimed_by_another_server_after_lease_expiry,
    part_shared_by_several_runs_is_stored_once_per_realm,
    runs_are_not_visible_in_another_realm,
    reading_a_run_with_contradictory_columns_is_an_error,
);

fn stored(realm: &RealmScope, new: &NewRun, state: RunState) -> Run {
    let NewRun {
        id,
        kind,
        subject,
        subject_hash,
        parent,
        conversation,
        owner,
        principal,
        durable,
        started_at,
        fork,
        trial,
        labels,
        ..
    } = new.clone();
    let realm = realm.realm;
    Run {
        realm,
        id,
        kind,
        subject,
        subject_hash,
        parent,
        conversation,
        owner,
        principal,
        durable,
        scheduled: false,
        started_at,
        fork,
        trial,
        labels,
        state,
    }
}

async fn insert_runs(store: &Store, realm: &RealmScope, runs: &[NewRun]) {
    let running = RunningWriter::start(store);
    for run in runs {
        running.writer.write(run.id, vec![begin(realm, run)]).await.unwrap();
    }
    running.stop().await;
}

fn of_run(run: RunId) -> CallFilter {
    CallFilter { run: Some(run), ..CallFilter::default() }
}

async fn run_is_read_back_as_written(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let conversation = new_conversation();
    let fork = Some(Fork { run: RunId::generate(), n: 7 });
    let of = Some(RunId::generate().to_string());
    let trial = Some(TrialAssignment { kind: TrialKind::Shadow, arm: "new".into(), of });
    let labels = RunLabels {
        agent_version: Some("1.2.0".into()),
        correlation_id: Some("request-7".into()),
        user_message: Some("What is open?".into()),
    };
    let parent = Some(RunId::generate());
    let new = NewRun { fork, trial, parent, conversation: Some(conversation.id), labels, ..new_run() };
    let first = RunState { cost_usd: 0.1, wake_at: Some(at(9)), ..state(RunStatus::Running) };
    let begin = RunChange::Begin { realm: realm.realm, run: Box::new(new.clone()), state: Box::new(first.clone()) };
    running.writer.commit(new.id, vec![open(&realm, &conversation), begin]).await.unwrap();
    assert_eq!(store.runs(&realm).get(new.id).await.unwrap(), Some(stored(&realm, &new, first)));

    let last = RunState {
        status: RunStatus::AwaitingApproval,
        reason: Some("approval".into()),
        message: Some("someone must look at it".into()),
        updated_at: at(20),
        ended_at: Some(at(30)),
        wake_at: Some(at(40)),
        iterations: 3,
        tokens: 1234,
        cost_usd: 0.1 + 0.2,
        driven: true,
        journal_position: JournalPosition { n: 1, hash: [1; 32] },
    };
    let waits = vec![wait("b", WaitKind::Client, 2), wait("a", WaitKind::Approval, 1)];
    running.writer.write(new.id, vec![append(1)]).await.unwrap();
    running
        .writer
        .commit(new.id, vec![RunChange::UpdateState { state: last.clone(), waits: waits.clone() }])
        .await
        .unwrap();
    assert_eq!(store.runs(&realm).get(new.id).await.unwrap(), Some(stored(&realm, &new, last)));
    assert_eq!(store.runs(&realm).entries(new.id, 0, 10).await.unwrap(), [entry(1)]);
    let pending = |wait: usize| PendingWait {
        run: new.id,
        subject: new.subject.clone(),
        owner: new.owner,
        ancestry: Ancestry { parent: new.parent, root: new.parent },
        wait: waits[wait].clone(),
    };
    let query = WaitQuery { filter: of_run(new.id), ..WaitQuery::default() };
    assert_eq!(store.runs(&realm).waits(Owners::All, &query).await.unwrap().items, [pending(1), pending(0)]);

    let end = RunState { journal_position: JournalPosition { n: 1, hash: [1; 32] }, ..state(RunStatus::Completed) };
    running.writer.commit(new.id, vec![RunChange::UpdateState { state: end, waits: Vec::new() }]).await.unwrap();
    assert_eq!(store.runs(&realm).waits(Owners::All, &query).await.unwrap().items, [], "a state replaces all waits");
    running.stop().await;
}

async fn nul_character_in_text_is_stored_as_replacement_character(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let (run, conversation) = (new_run(), new_conversation());
    let ended = RunState { message: Some("bad \0 byte".into()), ..state(RunStatus::Error) };
    let changes = vec![
        open(&realm, &conversation),
        begin(&realm, &run),
        add_turns(&realm, conversation.id, vec![turn("user", "a\0b", 1)]),
        RunChange::UpdateState { state: ended, waits: Vec::new() },
    ];
    running.writer.commit(run.id, changes).await.unwrap();
    let read = store.runs(&realm).get(run.id).await.unwrap().unwrap();
    assert_eq!(read.state.message.as_deref(), Some("bad \u{FFFD} byte"));
    assert_eq!(store.conversations(&realm).last_turns(conversation.id, 1).await.unwrap()[0].content, "a\u{FFFD}b");
    let query = RunQuery { subject: Some("a\0b".into()), ..RunQuery::default() };
    assert_eq!(store.runs(&realm).list(Owners::All, &query).await.unwrap().items, []);
    running.stop().await;
}

async fn journal_is_read_in_pages(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let run = new_run();
    // The journal has more entries than fit into one statement and into one page.
    let changes = std::iter::once(begin(&realm, &run)).chain((1..=1100).map(append)).collect();
    running.writer.commit(run.id, changes).await.unwrap();

    let runs = store.runs(&realm);
    assert_eq!(runs.entries(run.id, 0, 2).await.unwrap(), [entry(1), entry(2)]);
    assert_eq!(runs.entries(run.id, 1098, 10).await.unwrap(), [entry(1099), entry(1100)]);
    assert_eq!(runs.entries(run.id, 1100, 10).await.unwrap(), []);
    assert_eq!(runs.entries(run.id, u64::MAX, 10).await.unwrap(), []);
    assert_eq!(runs.entries(run.id, 0, 0).await.unwrap().len(), 1);
    assert_eq!(runs.entries(run.id, 0, u32::MAX).await.unwrap().len(), 1000);
    assert_eq!(runs.entries(RunId::generate(), 0, 10).await.unwrap(), []);
    running.stop().await;
}

/// Returns the runs of all pages. Each cursor is converted to text and back, as in a client request.
async fn all_pages(runs: &RealmRuns<'_>, owners: Owners, mut query: RunQuery) -> Vec<RunId> {
    let mut seen = Vec::new();
    loop {
        let page = runs.list(owners, &query).await.unwrap();
        assert!(page.items.len() <= query.limit.max(1) as usize);
        seen.extend(page.items.iter().map(|run| run.id));
        match page.next {
            Some(next) => query.cursor = Some(next.to_string().parse().unwrap()),
            None => return seen,
        }
    }
}

async fn runs_are_listed_newest_first(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    // Three of the runs start at the same time, so they are sorted by id.
    let mut runs: Vec<NewRun> =
        [5, 3, 3, 3, 9].into_iter().map(|micros| NewRun { started_at: at(micros), ..new_run() }).collect();
    insert_runs(&store, &realm, &runs).await;
    runs.sort_by_key(|run| std::cmp::Reverse((run.started_at, run.id.to_string())));
    let expected: Vec<RunId> = runs.iter().map(|run| run.id).collect();
    for limit in [1, 2, 3, 5, 100] {
        let query = RunQuery { limit, ..RunQuery::default() };
        assert_eq!(all_pages(&store.runs(&realm), Owners::All, query).await, expected, "limit {limit}");
    }

    let first = store.runs(&realm).list(Owners::All, &RunQuery { limit: 2, ..RunQuery::default() }).await.unwrap();
    insert_runs(&store, &realm, &[NewRun { started_at: at(10), ..new_run() }]).await;
    let rest = RunQuery { cursor: first.next, ..RunQuery::default() };
    assert_eq!(
        all_pages(&store.runs(&realm), Owners::All, rest).await,
        expected[2..],
        "newer runs do not shift the page"
    );
}

async fn run_list_contains_only_runs_that_match_the_query(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let conversation = new_conversation();
    let (someone, parent) = (Owner::new(PrincipalId::generate()), new_run());
    let child = NewRun {
        kind: RunKind::Tool,
        subject: "calculator".into(),
        parent: Some(parent.id),
        owner: someone,
        started_at: at(1),
        ..new_run()
    };
    let in_conversation =
        NewRun { conversation: Some(conversation.id), owner: someone, started_at: at(2), ..new_run() };
    running.writer.write(in_conversation.id, vec![open(&realm, &conversation)]).await.unwrap();
    for (run, status) in
        [(&parent, RunStatus::Running), (&child, RunStatus::Completed), (&in_conversation, RunStatus::Error)]
    {
        running.writer.commit(run.id, vec![begin(&realm, run), update_state(status)]).await.unwrap();
    }
    running.stop().await;

    let all = RunQuery::default;
    for (owners, query, expected) in [
        (Owners::All, all(), vec![in_conversation.id, child.id, parent.id]),
        (Owners::Only(someone), all(), vec![in_conversation.id, child.id]),
        (Owners::Only(Owner::new(PrincipalId::generate())), all(), vec![]),
        (Owners::All, RunQuery { status: vec![RunStatus::Completed], ..all() }, vec![child.id]),
        (
            Owners::All,
            RunQuery { status: vec![RunStatus::Running, RunStatus::Error], ..all() },
            vec![in_conversation.id, parent.id],
        ),
        (Owners::All, RunQuery { subject: Some("calculator".into()), ..all() }, vec![child.id]),
        (Owners::All, RunQuery { conversation: Some(conversation.id), ..all() }, vec![in_conversation.id]),
        (Owners::All, RunQuery { conversation: Some(ConversationId::generate()), ..all() }, vec![]),
        (Owners::All, RunQuery { parent: Some(parent.id), ..all() }, vec![child.id]),
        (Owners::All, RunQuery { kind: Some(RunKind::Agent), ..all() }, vec![in_conversation.id, parent.id]),
        (Owners::Only(someone), RunQuery { kind: Some(RunKind::Tool), ..all() }, vec![child.id]),
    ] {
        let query = RunQuery { limit: 1, ..query };
        assert_eq!(all_pages(&store.runs(&realm), owners, query.clone()).await, expected, "{owners:?} {query:?}");
    }
}

async fn waits_that_match_a_query_are_listed_oldest_first(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let (one, two) = (new_run(), new_run());
    let [a, b, c, d] = [
        ("a", WaitKind::Approval, 3),
        ("b", WaitKind::Client, 1),
        ("c", WaitKind::Approval, 2),
        ("d", WaitKind::Approval, 2),
    ]
    .map(|(tool, kind, requested_at)| wait(tool, kind, requested_at));
    for (run, waits) in [(&one, vec![a.clone(), b.clone()]), (&two, vec![c.clone(), d.clone()])] {
        let suspended = RunChange::UpdateState { state: state(RunStatus::AwaitingApproval), waits };
        running.writer.commit(run.id, vec![begin(&realm, run), suspended]).await.unwrap();
    }
    running.stop().await;

    let (c, d) = if c.call_id < d.call_id { (c, d) } else { (d, c) };
    let all = WaitQuery::default;
    let approval = Some(WaitKind::Approval);
    for (owners, query, expected) in [
        (Owners::All, all(), vec![&b, &c, &d, &a]),
        (Owners::All, WaitQuery { kind: approval, ..all() }, vec![&c, &d, &a]),
        (Owners::All, WaitQuery { kind: Some(WaitKind::Client), ..all() }, vec![&b]),
        (Owners::Only(one.owner), WaitQuery { kind: approval, ..all() }, vec![&a]),
        (Owners::Only(Owner::new(PrincipalId::generate())), all(), vec![]),
        (Owners::All, WaitQuery { filter: of_run(two.id), ..all() }, vec![&c, &d]),
    ] {
        let mut query = WaitQuery { limit: 1, ..query };
        let mut seen = Vec::new();
        loop {
            let page = store.runs(&realm).waits(owners, &query).await.unwrap();
            seen.extend(page.items.into_iter().map(|pending| pending.wait));
            match page.next {
                Some(next) => query.cursor = Some(next.to_string().parse().unwrap()),
                None => break,
            }
        }
        assert_eq!(seen.iter().collect::<Vec<_>>(), expected, "{query:?}");
    }
}

async fn running_run_without_a_lease_is_abandoned_and_waiting_run_is_due_at_its_wake_time(db: TestDb) {
    let store = db.open().await;
    let (here, there) = (realm(&store, "here").await, realm(&store, "there").await);
    assert_eq!(store.next_wake().await.unwrap(), None);
    let running = RunningWriter::start(&store);
    let [active, waiting, later, ended] = [4, 3, 2, 1].map(|micros| NewRun { started_at: at(micros), ..new_run() });
    let suspended = |micros| RunState { wake_at: Some(at(micros)), ..state(RunStatus::AwaitingClient) };
    for (run, realm, state) in [
        (&active, &here, state(RunStatus::Running)),
        (&waiting, &there, suspended(50)),
        (&later, &here, suspended(70)),
        (&ended, &here, state(RunStatus::Completed)),
    ] {
        let update = RunChange::UpdateState { state, waits: Vec::new() };
        running.writer.commit(run.id, vec![begin(realm, run)]).await.unwrap();
        running.writer.commit(run.id, vec![update]).await.unwrap();
    }

    let first = stored(&here, &active, state(RunStatus::Running));
    assert_eq!(store.abandoned_runs(at(0)).await.unwrap(), [(here.clone(), first)]);
    assert_eq!(store.next_wake().await.unwrap(), Some(at(50)));
    assert_eq!(store.due_runs(at(49), 10).await.unwrap(), []);
    let first = (there.clone(), stored(&there, &waiting, suspended(50)));
    assert_eq!(store.due_runs(at(50), 10).await.unwrap(), std::slice::from_ref(&first));
    let second = (here.clone(), stored(&here, &later, suspended(70)));
    assert_eq!(store.due_runs(at(99), 10).await.unwrap(), [first.clone(), second]);
    assert_eq!(store.due_runs(at(99), 1).await.unwrap(), [first]);
    assert!(store.claim_run(waiting.id, &running.server, at(0)).await.unwrap());
    // The server claimed the suspended run in order to execute a command, and has no lease.
    let abandoned: Vec<_> = store.abandoned_runs(at(0)).await.unwrap().into_iter().map(|(_, run)| run.id).collect();
    assert_eq!(abandoned, [waiting.id, active.id]);
    running.writer.commit(waiting.id, vec![update_state(RunStatus::Completed)]).await.unwrap();
    assert_eq!(store.next_wake().await.unwrap(), Some(at(70)));
    running.stop().await;
}

async fn run_can_be_claimed_by_another_server_after_lease_expiry(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let (first, second) = (RunningWriter::start(&store), RunningWriter::start(&store));
    store.lease(&first.server, at(100)).await.unwrap();
    store.lease(&first.server, at(50)).await.unwrap();
    store.lease(&second.server, at(1000)).await.unwrap();
    let run = new_run();
    first.writer.commit(run.id, vec![begin(&realm, &run), append(1)]).await.unwrap();
    assert_eq!(store.abandoned_runs(at(99)).await.unwrap(), []);
    assert!(!store.claim_run(run.id, &second.server, at(99)).await.unwrap(), "the lease of the driver is valid");

    assert_eq!(store.abandoned_runs(at(100)).await.unwrap().len(), 1);
    assert!(store.claim_run(run.id, &second.server, at(100)).await.unwrap());
    assert!(!store.claim_run(run.id, &first.server, at(100)).await.unwrap());
    second.writer.commit(run.id, vec![append(2)]).await.unwrap();
    let late = first.writer.commit(run.id, vec![append(2)]).await;
    // Postgres reports the lost lease; SQLite reports the duplicate entry.
    assert!(matches!(late, Err(WriteError::Conflict(_) | WriteError::LeaseLost(_))), "{late:?}");

    second.writer.commit(run.id, vec![update_state(RunStatus::AwaitingClient)]).await.unwrap();
    let third = ServerId::generate();
    assert!(store.claim_run(run.id, &third, at(100)).await.unwrap(), "a waiting run has no driver");
    first.stop().await;
    second.stop().await;
}

async fn part_shared_by_several_runs_is_stored_once_per_realm(db: TestDb) {
    let store = db.open().await;
    let (here, there) = (realm(&store, "here").await, realm(&store, "there").await);
    let running = RunningWriter::start(&store);
    let part = |hash: &str| StoredPart { hash: hash.into(), body: format!("{{\"says\":\"{hash}\"}}") };
    let keep = |realm: &RealmScope, hash: &str| RunChange::StorePart { realm: realm.realm, part: part(hash) };
    for _ in 0..2 {
        let [a, b] = [new_run(), new_run()];
        running.writer.commit(a.id, vec![keep(&here, "x"), keep(&here, "y"), begin(&here, &a)]).await.unwrap();
        running.writer.commit(b.id, vec![keep(&there, "x"), begin(&there, &b)]).await.unwrap();
    }
    let wanted = ["x", "y", "z"].map(str::to_owned);
    let found = store.runs(&here).shared_parts(&wanted).await.unwrap();
    assert_eq!(found, [("x".into(), part("x").body), ("y".into(), part("y").body)].into());
    assert_eq!(store.runs(&there).shared_parts(&wanted).await.unwrap().len(), 1);
    running.stop().await;
}

async fn runs_are_not_visible_in_another_realm(db: TestDb) {
    let store = db.open().await;
    let (here, there) = (realm(&store, "here").await, realm(&store, "there").await);
    let running = RunningWriter::start(&store);
    let theirs = new_conversation();
    let run = new_run();
    let suspended = RunChange::UpdateState {
        state: state(RunStatus::AwaitingApproval),
        waits: vec![wait("a", WaitKind::Approval, 1)],
    };
    let changes = vec![open(&there, &theirs), begin(&there, &run), append(1), suspended];
    running.writer.commit(run.id, changes).await.unwrap();

    let ours = store.runs(&here);
    assert_eq!(ours.get(run.id).await.unwrap(), None);
    assert_eq!(ours.entries(run.id, 0, 10).await.unwrap(), []);
    assert_eq!(ours.list(Owners::All, &RunQuery::default()).await.unwrap().items, []);
    assert_eq!(ours.list(Owners::Only(run.owner), &RunQuery::default()).await.unwrap().items, []);
    assert_eq!(ours.waits(Owners::All, &WaitQuery::default()).await.unwrap().items, []);
    assert_eq!(
        ours.waits(Owners::All, &WaitQuery { filter: of_run(run.id), ..WaitQuery::default() }).await.unwrap().items,
        []
    );
    assert_eq!(store.runs(&there).waits(Owners::All, &WaitQuery::default()).await.unwrap().items.len(), 1);

    let intruder = NewRun { conversation: Some(theirs.id), ..new_run() };
    running.writer.commit(intruder.id, vec![begin(&here, &intruder)]).await.unwrap();
    let read = ours.get(intruder.id).await.unwrap().unwrap();
    assert_eq!(read.conversation, None, "a run cannot join a conversation of another realm");
    running.stop().await;
}

async fn reading_a_run_with_contradictory_columns_is_an_error(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let fork = Some(Fork { run: RunId::generate(), n: 7 });
    let trial = Some(TrialAssignment { kind: TrialKind::Shadow, arm: "new".into(), of: None });
    let (forked, tried) = (NewRun { fork, ..new_run() }, NewRun { trial, ..new_run() });
    insert_runs(&store, &realm, &[forked.clone(), tried.clone()]).await;
    for (run, column) in [(&forked, "forked_at_entry"), (&tried, "trial_arm")] {
        assert!(store.runs(&realm).get(run.id).await.unwrap().is_some());
        db.tamper(format!("UPDATE runs SET {column} = NULL WHERE id = '{}'", run.id)).await;
        assert!(store.runs(&realm).get(run.id).await.is_err(), "{column}");
    }
}

#[test]
fn cursor_that_is_malformed_or_from_another_list_is_rejected() {
    use base64::Engine as _;
    let encode = |json: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json);
    let run = RunId::generate();
    assert!(encode(&format!(r#"{{"t":5,"i":"{run}"}}"#)).parse::<RunCursor>().is_ok());
    assert!(encode(&format!(r#"{{"t":5,"i":["{run}","call_x"]}}"#)).parse::<WaitCursor>().is_ok());
    for bad in [
        String::new(),
        "!".into(),
        encode("{}"),
        encode(&format!(r#"{{"t":5,"i":"{}"}}"#, ConversationId::generate())),
        encode(&format!(r#"{{"t":"5","i":"{run}"}}"#)),
        encode(&format!(r#"{{"t":5,"i":"{run}","more":1}}"#)),
        encode(&format!(r#"{{"t":5,"i":["{run}","call_x"]}}"#)),
    ] {
        assert!(bad.parse::<RunCursor>().is_err(), "{bad}");
    }
    assert!("tool".parse::<RunKind>().is_ok_and(|kind| kind == RunKind::Tool));
    assert!("Tool".parse::<RunKind>().unwrap_err().to_string().contains("`Tool`"));
}

/// Tested on Postgres only, because several servers cannot share an SQLite file.
#[tokio::test]
async fn append_after_lease_loss_is_rejected() {
    on_postgres(lost_run).await;
}

async fn lost_run(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let (first, second) = (RunningWriter::start(&store), RunningWriter::start(&store));
    let (lost, kept) = (new_run(), new_run());
    for run in [&lost, &kept] {
        first.writer.commit(run.id, vec![begin(&realm, run), append(1)]).await.unwrap();
    }
    assert!(store.claim_run(lost.id, &second.server, at(100)).await.unwrap());
    // Entry number 2 is free, but the append is rejected because another server drives the run.
    let late = first.writer.commit(lost.id, vec![append(2)]).await;
    assert!(matches!(late, Err(WriteError::LeaseLost(_))), "{late:?}");
    first.writer.commit(kept.id, vec![append(2)]).await.unwrap();
    second.writer.commit(lost.id, vec![append(2)]).await.unwrap();
    first.stop().await;
    second.stop().await;
}
