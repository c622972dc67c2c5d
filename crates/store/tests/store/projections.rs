//! Tests of the rows that are written with journal entries: decisions and effects, and the waits of child runs.

use serde_json::json;
use toolwright_store::{
    Ancestry, CallFilter, DecisionOutcome, DecisionQuery, EffectOutcome, EffectQuery, NewRun, Owners, Resolution,
    RunChange, StoredDecision, StoredEffect, UndoneEffect, WaitKind, WaitQuery,
};
use toolwright_types::{CallId, RunId, RunStatus};

use crate::run_support::{RunningWriter, append, at, begin, new_run, state, wait};
use crate::support::{TestDb, realm};

on_both_databases!(
    decision_and_effect_are_written_with_their_entry_or_not_at_all,
    effect_is_resolved_once_and_undone_only_by_a_run_of_its_realm,
    query_for_waits_below_a_run_returns_only_waits_of_its_descendants,
);

fn call(n: u32) -> CallId {
    CallId::derive("pay", "1.0.0", &json!({ "n": n }), 0)
}

fn effect(n: u32, outcome: EffectOutcome) -> StoredEffect {
    StoredEffect {
        call_id: call(n),
        tool: "pay".into(),
        version: "1.0.0".into(),
        implementation: Some("cash".into()),
        input: json!({ "n": n }).to_string(),
        outcome,
        error: Some("lost\u{0}".into()),
        approved_by: Some("ann".into()),
        started_at: at(1),
        ended_at: at(i64::from(n)),
    }
}

fn decision(n: u64) -> StoredDecision {
    StoredDecision {
        n,
        call_id: call(1),
        tool: "pay".into(),
        outcome: DecisionOutcome::Edited,
        decided_by: Some("ann".into()),
        decided_at: at(3),
        body: "{}".into(),
    }
}

async fn decision_and_effect_are_written_with_their_entry_or_not_at_all(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let run = new_run();
    running.writer.commit(run.id, vec![begin(&realm, &run), append(1)]).await.unwrap();
    // A later outcome of a call replaces the earlier outcome, whether both are written in one transaction or in two.
    let unknown = RunChange::RecordEffect(effect(1, EffectOutcome::Unknown));
    let done = StoredEffect { error: None, ..effect(1, EffectOutcome::Done) };
    let changes = vec![RunChange::Decide(decision(2)), append(2), unknown.clone(), unknown.clone(), append(3)];
    running.writer.commit(run.id, changes).await.unwrap();
    running.writer.commit(run.id, vec![RunChange::RecordEffect(done.clone()), append(4)]).await.unwrap();
    // Entry 4 exists, so nothing of this commit is written.
    let rejected =
        vec![RunChange::Decide(decision(4)), RunChange::RecordEffect(effect(2, EffectOutcome::Done)), append(4)];
    assert!(running.writer.commit(run.id, rejected).await.is_err());
    running.stop().await;

    let runs = store.runs(&realm);
    let found = runs.decisions(Owners::All, &DecisionQuery::default()).await.unwrap().items;
    assert_eq!(found.iter().map(|found| &found.decision).collect::<Vec<_>>(), [&decision(2)]);
    assert_eq!((found[0].run, found[0].owner, found[0].ancestry), (run.id, run.owner, Ancestry::default()));
    let found = runs.effects(Owners::All, &EffectQuery::default()).await.unwrap().items;
    assert_eq!(found.iter().map(|found| &found.effect).collect::<Vec<_>>(), [&done]);
    assert_eq!(runs.effects(Owners::Only(new_run().owner), &EffectQuery::default()).await.unwrap().items, []);
}

async fn effect_is_resolved_once_and_undone_only_by_a_run_of_its_realm(db: TestDb) {
    let store = db.open().await;
    let (here, there) = (realm(&store, "here").await, realm(&store, "there").await);
    let running = RunningWriter::start(&store);
    let (one, undo, foreign) = (new_run(), new_run(), new_run());
    let recorded = [EffectOutcome::Unknown, EffectOutcome::Done, EffectOutcome::Done].into_iter().zip(1..);
    let mut changes = vec![begin(&here, &one)];
    changes.extend(recorded.map(|(outcome, n)| RunChange::RecordEffect(effect(n, outcome))));
    running.writer.commit(one.id, changes).await.unwrap();
    let undoes = |n| RunChange::UndoEffect(UndoneEffect { run: one.id, call_id: call(n), at: at(9) });
    running.writer.commit(undo.id, vec![begin(&here, &undo), undoes(2)]).await.unwrap();
    running.writer.commit(foreign.id, vec![begin(&there, &foreign), undoes(3)]).await.unwrap();
    running.stop().await;

    let resolution = Resolution { by: "ann".into(), at: at(10), note: Some("seen".into()) };
    let resolve = async |realm, n| {
        store.runs(realm).resolve_effect(one.id, &call(n), EffectOutcome::Failed, &resolution).await.unwrap()
    };
    assert!(!resolve(&there, 1).await);
    assert!(resolve(&here, 1).await);
    assert!(!resolve(&here, 1).await, "a second resolution changes nothing");
    assert!(!resolve(&here, 2).await);
    let runs = store.runs(&here);
    let page = runs.effects(Owners::All, &EffectQuery::default()).await.unwrap();
    let found: Vec<_> =
        page.items.iter().map(|found| (found.effect.outcome, found.resolution.clone(), found.undone)).collect();
    assert_eq!(
        found,
        [
            (EffectOutcome::Done, None, None),
            (EffectOutcome::Undone, None, Some((undo.id, at(9)))),
            (EffectOutcome::Failed, Some(resolution), None)
        ]
    );
    assert_eq!(page.items[0].effect.error.as_deref(), Some("lost\u{FFFD}"));
    assert_eq!(runs.undone_calls(one.id).await.unwrap(), [call(2)]);
    assert_eq!(runs.effect(Owners::All, one.id, &call(2)).await.unwrap().as_ref(), Some(&page.items[1]));
    assert_eq!(store.runs(&there).effect(Owners::All, one.id, &call(2)).await.unwrap(), None);
    assert_eq!(store.runs(&there).effects(Owners::All, &EffectQuery::default()).await.unwrap().items, []);
}

async fn query_for_waits_below_a_run_returns_only_waits_of_its_descendants(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let root = new_run();
    let child = NewRun { parent: Some(root.id), ..new_run() };
    let grandchild = NewRun { parent: Some(child.id), ..new_run() };
    let orphan = NewRun { parent: Some(RunId::from_bits(1)), ..new_run() };
    for (run, tool) in [(&root, "a"), (&child, "b"), (&grandchild, "c"), (&orphan, "d")] {
        let waits = vec![wait(tool, WaitKind::Approval, 1)];
        let suspended = RunChange::UpdateState { state: state(RunStatus::AwaitingApproval), waits };
        running.writer.commit(run.id, vec![begin(&realm, run), suspended]).await.unwrap();
    }
    running.stop().await;
    for (below, expected) in [
        (Some(root.id), vec![("b", Some(root.id), Some(root.id)), ("c", Some(child.id), Some(root.id))]),
        (Some(child.id), vec![("c", Some(child.id), Some(root.id))]),
        (Some(grandchild.id), vec![]),
    ] {
        let query = WaitQuery { below, ..WaitQuery::default() };
        let mut found = store.runs(&realm).waits(Owners::All, &query).await.unwrap().items;
        found.sort_by(|a, b| a.wait.tool.cmp(&b.wait.tool));
        let found: Vec<_> =
            found.iter().map(|found| (found.wait.tool.as_str(), found.ancestry.parent, found.ancestry.root)).collect();
        assert_eq!(found, expected);
    }
    let filter = CallFilter { tool: Some("d".into()), ..CallFilter::default() };
    let found =
        store.runs(&realm).waits(Owners::All, &WaitQuery { filter, ..WaitQuery::default() }).await.unwrap().items;
    assert_eq!((found.len(), found[0].ancestry.root), (1, orphan.parent), "the parent run was deleted");
}
