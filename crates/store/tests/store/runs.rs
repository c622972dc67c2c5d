//! Runs, their journals and what they wait for, as they are read.

use toolwright_store::{
    Change, Fork, InTrial, Mark, NewRun, Part, PendingWait, Run, RunCursor, RunKind, RunQuery, RunState, Runs,
    ServerId, Store, WaitCursor, WaitKind, WaitQuery, WriteError,
};
use toolwright_types::{ConversationId, DocumentId, PrincipalId, RealmScope, RunId, RunStatus, TrialKind};

use crate::running::{
    Writing, append, at, begin, entry, new_conversation, new_run, open, say, settle, state, turn, wait,
};
use crate::support::{TestDb, on_postgres, realm};

on_both_databases!(
    a_run_comes_back_as_it_was_written,
    text_that_postgres_cannot_store_is_written_with_a_replacement,
    a_journal_is_read_in_parts,
    lists_go_from_the_newest_run_to_the_oldest,
    lists_pass_what_is_asked_for,
    waits_go_from_the_oldest_to_the_newest_and_pass_what_is_asked_for,
    a_server_finds_what_it_has_to_go_on_with,
    a_run_is_driven_by_one_server_and_by_another_when_that_is_lost,
    what_runs_have_in_common_is_kept_once_for_each_realm,
    a_realm_sees_no_runs_of_another,
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
        conducted: false,
        started_at,
        fork,
        trial,
        state,
    }
}

async fn begun(store: &Store, realm: &RealmScope, runs: &[NewRun]) {
    let writing = Writing::start(store);
    for run in runs {
        writing.writer.write(run.id, vec![begin(realm, run)]).await.unwrap();
    }
    writing.stop().await;
}

async fn a_run_comes_back_as_it_was_written(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let writing = Writing::start(&store);
    let conversation = new_conversation();
    let fork = Some(Fork { run: RunId::generate(), n: 7 });
    let of = Some(RunId::generate().to_string());
    let trial = Some(InTrial { kind: TrialKind::Shadow, arm: "new".into(), of });
    let new = NewRun { fork, trial, parent: Some(RunId::generate()), conversation: Some(conversation.id), ..new_run() };
    let first = RunState { cost_usd: 0.1, wake_at: Some(at(9)), ..state(RunStatus::Running) };
    let begin = Change::Begin { realm: realm.realm, run: Box::new(new.clone()), state: Box::new(first.clone()) };
    writing.writer.commit(new.id, vec![open(&realm, &conversation), begin]).await.unwrap();
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
        mark: Mark { n: 1, hash: [1; 32] },
    };
    let waits = vec![wait("b", WaitKind::Client, 2), wait("a", WaitKind::Approval, 1)];
    writing.writer.write(new.id, vec![append(1)]).await.unwrap();
    writing.writer.commit(new.id, vec![Change::Settle { state: last.clone(), waits: waits.clone() }]).await.unwrap();
    assert_eq!(store.runs(&realm).get(new.id).await.unwrap(), Some(stored(&realm, &new, last)));
    assert_eq!(store.runs(&realm).entries(new.id, 0, 10).await.unwrap(), [entry(1)]);
    let pending = |wait: usize| PendingWait {
        run: new.id,
        subject: new.subject.clone(),
        owner: new.owner,
        wait: waits[wait].clone(),
    };
    let query = WaitQuery { run: Some(new.id), ..WaitQuery::default() };
    assert_eq!(store.runs(&realm).waits(&query).await.unwrap().items, [pending(1), pending(0)]);

    let end = RunState { mark: Mark { n: 1, hash: [1; 32] }, ..state(RunStatus::Completed) };
    writing.writer.commit(new.id, vec![Change::Settle { state: end, waits: Vec::new() }]).await.unwrap();
    assert_eq!(store.runs(&realm).waits(&query).await.unwrap().items, [], "a state replaces all waits");
    writing.stop().await;
}

async fn text_that_postgres_cannot_store_is_written_with_a_replacement(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let writing = Writing::start(&store);
    let (run, conversation) = (new_run(), new_conversation());
    let ended = RunState { message: Some("bad \0 byte".into()), ..state(RunStatus::Error) };
    let changes = vec![
        open(&realm, &conversation),
        begin(&realm, &run),
        say(&realm, conversation.id, vec![turn("user", "a\0b", 1)]),
        Change::Settle { state: ended, waits: Vec::new() },
    ];
    writing.writer.commit(run.id, changes).await.unwrap();
    let read = store.runs(&realm).get(run.id).await.unwrap().unwrap();
    assert_eq!(read.state.message.as_deref(), Some("bad \u{FFFD} byte"));
    assert_eq!(store.conversations(&realm).last_turns(conversation.id, 1).await.unwrap()[0].content, "a\u{FFFD}b");
    let query = RunQuery { subject: Some("a\0b".into()), ..RunQuery::default() };
    assert_eq!(store.runs(&realm).list(&query).await.unwrap().items, []);
    writing.stop().await;
}

async fn a_journal_is_read_in_parts(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let writing = Writing::start(&store);
    let run = new_run();
    // More than one statement takes, and more than one answer holds.
    let changes = std::iter::once(begin(&realm, &run)).chain((1..=1100).map(append)).collect();
    writing.writer.commit(run.id, changes).await.unwrap();

    let runs = store.runs(&realm);
    assert_eq!(runs.entries(run.id, 0, 2).await.unwrap(), [entry(1), entry(2)]);
    assert_eq!(runs.entries(run.id, 1098, 10).await.unwrap(), [entry(1099), entry(1100)]);
    assert_eq!(runs.entries(run.id, 1100, 10).await.unwrap(), []);
    assert_eq!(runs.entries(run.id, u64::MAX, 10).await.unwrap(), []);
    assert_eq!(runs.entries(run.id, 0, 0).await.unwrap().len(), 1);
    assert_eq!(runs.entries(run.id, 0, u32::MAX).await.unwrap().len(), 1000);
    assert_eq!(runs.entries(RunId::generate(), 0, 10).await.unwrap(), []);
    writing.stop().await;
}

/// The runs of all pages, each cursor having travelled as text.
async fn all_pages(runs: &Runs<'_>, mut query: RunQuery) -> Vec<RunId> {
    let mut seen = Vec::new();
    loop {
        let page = runs.list(&query).await.unwrap();
        assert!(page.items.len() <= query.limit.max(1) as usize);
        seen.extend(page.items.iter().map(|run| run.id));
        match page.next {
            Some(next) => query.cursor = Some(next.to_string().parse().unwrap()),
            None => return seen,
        }
    }
}

async fn lists_go_from_the_newest_run_to_the_oldest(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    // Three began at the same moment: their ids decide.
    let mut runs: Vec<NewRun> =
        [5, 3, 3, 3, 9].into_iter().map(|micros| NewRun { started_at: at(micros), ..new_run() }).collect();
    begun(&store, &realm, &runs).await;
    runs.sort_by_key(|run| std::cmp::Reverse((run.started_at, run.id.to_string())));
    let expected: Vec<RunId> = runs.iter().map(|run| run.id).collect();
    for limit in [1, 2, 3, 5, 100] {
        let query = RunQuery { limit, ..RunQuery::default() };
        assert_eq!(all_pages(&store.runs(&realm), query).await, expected, "limit {limit}");
    }

    let first = store.runs(&realm).list(&RunQuery { limit: 2, ..RunQuery::default() }).await.unwrap();
    begun(&store, &realm, &[NewRun { started_at: at(10), ..new_run() }]).await;
    let rest = RunQuery { cursor: first.next, ..RunQuery::default() };
    assert_eq!(all_pages(&store.runs(&realm), rest).await, expected[2..], "what is newer shifts nothing");
}

async fn lists_pass_what_is_asked_for(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let writing = Writing::start(&store);
    let conversation = new_conversation();
    let (someone, parent) = (PrincipalId::generate(), new_run());
    let child = NewRun {
        kind: RunKind::Tool,
        subject: "calculator".into(),
        parent: Some(parent.id),
        owner: someone,
        started_at: at(1),
        ..new_run()
    };
    let talk = NewRun { conversation: Some(conversation.id), owner: someone, started_at: at(2), ..new_run() };
    writing.writer.write(talk.id, vec![open(&realm, &conversation)]).await.unwrap();
    for (run, status) in [(&parent, RunStatus::Running), (&child, RunStatus::Completed), (&talk, RunStatus::Error)] {
        writing.writer.commit(run.id, vec![begin(&realm, run), settle(status)]).await.unwrap();
    }
    writing.stop().await;

    let all = RunQuery::default;
    for (query, expected) in [
        (all(), vec![talk.id, child.id, parent.id]),
        (RunQuery { owner: Some(someone), ..all() }, vec![talk.id, child.id]),
        (RunQuery { owner: Some(PrincipalId::generate()), ..all() }, vec![]),
        (RunQuery { status: vec![RunStatus::Completed], ..all() }, vec![child.id]),
        (RunQuery { status: vec![RunStatus::Running, RunStatus::Error], ..all() }, vec![talk.id, parent.id]),
        (RunQuery { subject: Some("calculator".into()), ..all() }, vec![child.id]),
        (RunQuery { conversation: Some(conversation.id), ..all() }, vec![talk.id]),
        (RunQuery { conversation: Some(ConversationId::generate()), ..all() }, vec![]),
        (RunQuery { parent: Some(parent.id), ..all() }, vec![child.id]),
        (RunQuery { kind: Some(RunKind::Agent), ..all() }, vec![talk.id, parent.id]),
        (RunQuery { kind: Some(RunKind::Tool), owner: Some(someone), ..all() }, vec![child.id]),
    ] {
        let query = RunQuery { limit: 1, ..query };
        assert_eq!(all_pages(&store.runs(&realm), query.clone()).await, expected, "{query:?}");
    }
}

async fn waits_go_from_the_oldest_to_the_newest_and_pass_what_is_asked_for(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let writing = Writing::start(&store);
    let (one, two) = (new_run(), new_run());
    let [a, b, c, d] = [
        ("a", WaitKind::Approval, 3),
        ("b", WaitKind::Client, 1),
        ("c", WaitKind::Approval, 2),
        ("d", WaitKind::Approval, 2),
    ]
    .map(|(tool, kind, asked_at)| wait(tool, kind, asked_at));
    for (run, waits) in [(&one, vec![a.clone(), b.clone()]), (&two, vec![c.clone(), d.clone()])] {
        let suspended = Change::Settle { state: state(RunStatus::AwaitingApproval), waits };
        writing.writer.commit(run.id, vec![begin(&realm, run), suspended]).await.unwrap();
    }
    writing.stop().await;

    let (c, d) = if c.call_id < d.call_id { (c, d) } else { (d, c) };
    let all = WaitQuery::default;
    let approval = Some(WaitKind::Approval);
    for (query, expected) in [
        (all(), vec![&b, &c, &d, &a]),
        (WaitQuery { kind: approval, ..all() }, vec![&c, &d, &a]),
        (WaitQuery { kind: Some(WaitKind::Client), ..all() }, vec![&b]),
        (WaitQuery { kind: approval, owner: Some(one.owner), ..all() }, vec![&a]),
        (WaitQuery { owner: Some(PrincipalId::generate()), ..all() }, vec![]),
        (WaitQuery { run: Some(two.id), ..all() }, vec![&c, &d]),
    ] {
        let mut query = WaitQuery { limit: 1, ..query };
        let mut seen = Vec::new();
        loop {
            let page = store.runs(&realm).waits(&query).await.unwrap();
            seen.extend(page.items.into_iter().map(|pending| pending.wait));
            match page.next {
                Some(next) => query.cursor = Some(next.to_string().parse().unwrap()),
                None => break,
            }
        }
        assert_eq!(seen.iter().collect::<Vec<_>>(), expected, "{query:?}");
    }
}

async fn a_server_finds_what_it_has_to_go_on_with(db: TestDb) {
    let store = db.open().await;
    let (here, there) = (realm(&store, "here").await, realm(&store, "there").await);
    assert_eq!(store.next_wake().await.unwrap(), None);
    let writing = Writing::start(&store);
    let [running, waiting, later, ended] = [4, 3, 2, 1].map(|micros| NewRun { started_at: at(micros), ..new_run() });
    let suspended = |micros| RunState { wake_at: Some(at(micros)), ..state(RunStatus::AwaitingClient) };
    for (run, realm, state) in [
        (&running, &here, state(RunStatus::Running)),
        (&waiting, &there, suspended(50)),
        (&later, &here, suspended(70)),
        (&ended, &here, state(RunStatus::Completed)),
    ] {
        let settled = Change::Settle { state, waits: Vec::new() };
        writing.writer.commit(run.id, vec![begin(realm, run)]).await.unwrap();
        writing.writer.commit(run.id, vec![settled]).await.unwrap();
    }

    let running = stored(&here, &running, state(RunStatus::Running));
    assert_eq!(store.abandoned_runs(at(0)).await.unwrap(), [(here.clone(), running)]);
    assert_eq!(store.next_wake().await.unwrap(), Some(at(50)));
    assert_eq!(store.due_runs(at(49), 10).await.unwrap(), []);
    let first = (there.clone(), stored(&there, &waiting, suspended(50)));
    assert_eq!(store.due_runs(at(50), 10).await.unwrap(), std::slice::from_ref(&first));
    let second = (here.clone(), stored(&here, &later, suspended(70)));
    assert_eq!(store.due_runs(at(99), 10).await.unwrap(), [first.clone(), second]);
    assert_eq!(store.due_runs(at(99), 1).await.unwrap(), [first]);
    assert!(store.take_run(waiting.id, &writing.server, at(0)).await.unwrap());
    writing.writer.commit(waiting.id, vec![settle(RunStatus::Completed)]).await.unwrap();
    assert_eq!(store.next_wake().await.unwrap(), Some(at(70)));
    writing.stop().await;
}

async fn a_run_is_driven_by_one_server_and_by_another_when_that_is_lost(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let (first, second) = (Writing::start(&store), Writing::start(&store));
    store.lease(&first.server, at(100)).await.unwrap();
    store.lease(&first.server, at(50)).await.unwrap();
    store.lease(&second.server, at(1000)).await.unwrap();
    let run = new_run();
    first.writer.commit(run.id, vec![begin(&realm, &run), append(1)]).await.unwrap();
    assert_eq!(store.abandoned_runs(at(99)).await.unwrap(), []);
    assert!(!store.take_run(run.id, &second.server, at(99)).await.unwrap(), "it is driven");

    assert_eq!(store.abandoned_runs(at(100)).await.unwrap().len(), 1);
    assert!(store.take_run(run.id, &second.server, at(100)).await.unwrap());
    assert!(!store.take_run(run.id, &first.server, at(100)).await.unwrap());
    second.writer.commit(run.id, vec![append(2)]).await.unwrap();
    let late = first.writer.commit(run.id, vec![append(2)]).await;
    assert!(matches!(late, Err(WriteError::Conflict(_))), "{late:?}");

    second.writer.commit(run.id, vec![settle(RunStatus::AwaitingClient)]).await.unwrap();
    let third = ServerId::generate();
    assert!(store.take_run(run.id, &third, at(100)).await.unwrap(), "one that waits is nobody's");
    first.stop().await;
    second.stop().await;
}

async fn what_runs_have_in_common_is_kept_once_for_each_realm(db: TestDb) {
    let store = db.open().await;
    let (here, there) = (realm(&store, "here").await, realm(&store, "there").await);
    let writing = Writing::start(&store);
    let part = |hash: &str| Part { hash: hash.into(), body: format!("{{\"says\":\"{hash}\"}}") };
    let keep = |realm: &RealmScope, hash: &str| Change::Keep { realm: realm.realm, part: part(hash) };
    for _ in 0..2 {
        let [a, b] = [new_run(), new_run()];
        writing.writer.commit(a.id, vec![keep(&here, "x"), keep(&here, "y"), begin(&here, &a)]).await.unwrap();
        writing.writer.commit(b.id, vec![keep(&there, "x"), begin(&there, &b)]).await.unwrap();
    }
    let wanted = ["x", "y", "z"].map(str::to_owned);
    let found = store.runs(&here).parts(&wanted).await.unwrap();
    assert_eq!(found, [("x".into(), part("x").body), ("y".into(), part("y").body)].into());
    assert_eq!(store.runs(&there).parts(&wanted).await.unwrap().len(), 1);
    writing.stop().await;
}

async fn a_realm_sees_no_runs_of_another(db: TestDb) {
    let store = db.open().await;
    let (here, there) = (realm(&store, "here").await, realm(&store, "there").await);
    let writing = Writing::start(&store);
    let theirs = new_conversation();
    let run = new_run();
    let suspended =
        Change::Settle { state: state(RunStatus::AwaitingApproval), waits: vec![wait("a", WaitKind::Approval, 1)] };
    let changes = vec![open(&there, &theirs), begin(&there, &run), append(1), suspended];
    writing.writer.commit(run.id, changes).await.unwrap();

    let ours = store.runs(&here);
    assert_eq!(ours.get(run.id).await.unwrap(), None);
    assert_eq!(ours.entries(run.id, 0, 10).await.unwrap(), []);
    assert_eq!(ours.list(&RunQuery::default()).await.unwrap().items, []);
    assert_eq!(ours.list(&RunQuery { owner: Some(run.owner), ..RunQuery::default() }).await.unwrap().items, []);
    assert_eq!(ours.waits(&WaitQuery::default()).await.unwrap().items, []);
    assert_eq!(ours.waits(&WaitQuery { run: Some(run.id), ..WaitQuery::default() }).await.unwrap().items, []);
    assert_eq!(store.runs(&there).waits(&WaitQuery::default()).await.unwrap().items.len(), 1);

    let intruder = NewRun { conversation: Some(theirs.id), ..new_run() };
    writing.writer.commit(intruder.id, vec![begin(&here, &intruder)]).await.unwrap();
    let read = ours.get(intruder.id).await.unwrap().unwrap();
    assert_eq!(read.conversation, None, "a run is part of no conversation of another realm");
    writing.stop().await;
}

#[test]
fn a_cursor_of_another_list_is_refused() {
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

/// Only where servers share a database can one write what another has taken.
#[tokio::test]
async fn who_lost_a_run_writes_nothing_more_of_it() {
    on_postgres(lost_run).await;
}

async fn lost_run(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let (first, second) = (Writing::start(&store), Writing::start(&store));
    let (lost, kept) = (new_run(), new_run());
    for run in [&lost, &kept] {
        first.writer.commit(run.id, vec![begin(&realm, run), append(1)]).await.unwrap();
    }
    assert!(store.take_run(lost.id, &second.server, at(100)).await.unwrap());
    // The next number is free, and the run is still not its to write.
    let late = first.writer.commit(lost.id, vec![append(2)]).await;
    assert!(matches!(late, Err(WriteError::Conflict(_))), "{late:?}");
    first.writer.commit(kept.id, vec![append(2)]).await.unwrap();
    second.writer.commit(lost.id, vec![append(2)]).await.unwrap();
    first.stop().await;
    second.stop().await;
}
