//! Tests of conversations and their turns.

use std::sync::Arc;

use serde_json::json;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use toolwright_store::{
    Conversation, ConversationPatch, ConversationQuery, ConversationStatus, NewConversation, NewRun, NewTurn, Owners,
    RunChange, RunQuery, RunState, Turn, UpdateError, WriteError,
};
use toolwright_types::{Clock as _, ConversationId, DocumentId, PrincipalId, RunId, RunStatus};

use crate::run_support::{
    RunningWriter, add_turns, append, at, begin, new_conversation, new_run, numbers, open, state, turn, update_state,
};
use crate::support::{TestDb, realm};

on_both_databases!(
    conversation_is_read_back_as_written,
    turns_can_be_read_from_an_index_or_from_the_end,
    concurrently_added_turns_get_distinct_indexes,
    title_is_not_replaced_by_a_later_title,
    later_summary_replaces_the_earlier_one,
    patch_changes_only_the_fields_that_are_set,
    conversations_are_listed_most_recently_updated_first,
    deleting_a_conversation_keeps_its_runs,
    turns_added_to_a_deleted_conversation_are_ignored,
    conversation_can_be_deleted_while_turns_are_added,
    starting_a_second_unfinished_run_in_a_conversation_is_a_conflict,
    conversations_are_not_visible_in_another_realm,
);

fn opened(new: &NewConversation) -> Conversation {
    Conversation {
        id: new.id,
        agent: new.agent.clone(),
        owner: new.owner,
        // No principal with this id exists, so the owner is shown by id.
        owner_name: new.owner.to_string(),
        title: new.title.clone(),
        status: ConversationStatus::Active,
        turn_count: 0,
        total_tokens: 0,
        summary: None,
        summarised_turns: 0,
        shared_context: json!({}),
        created_at: new.created_at,
        updated_at: new.created_at,
    }
}

fn stored(index: u32, new: &NewTurn) -> Turn {
    let NewTurn { id, role, content, body, tokens, duration_ms, run, at } = new.clone();
    Turn { index, id, role, content, body, tokens, duration_ms, run, at }
}

async fn conversation_is_read_back_as_written(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let (new, run) = (new_conversation(), RunId::generate());
    running.writer.commit(run, vec![open(&realm, &new)]).await.unwrap();
    let conversations = store.conversations(&realm);
    assert_eq!(conversations.get(new.id).await.unwrap(), Some(opened(&new)));

    let asked = NewTurn { run: Some(run), ..turn("user", "what is 6 × 7?", 5) };
    let answered = NewTurn { body: Some(r#"{"calls":[]}"#.into()), tokens: 39, ..turn("assistant", "42", 9) };
    running.writer.write(run, vec![add_turns(&realm, new.id, vec![asked.clone()])]).await.unwrap();
    running.writer.commit(run, vec![add_turns(&realm, new.id, vec![answered.clone()])]).await.unwrap();
    assert_eq!(conversations.turns(new.id, 0, 10).await.unwrap(), [stored(0, &asked), stored(1, &answered)]);
    let expected = Conversation { turn_count: 2, total_tokens: 42, updated_at: at(9), ..opened(&new) };
    assert_eq!(conversations.get(new.id).await.unwrap(), Some(expected));
    assert_eq!(conversations.get(ConversationId::generate()).await.unwrap(), None);
    running.stop().await;
}

async fn turns_can_be_read_from_an_index_or_from_the_end(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let (new, run) = (new_conversation(), RunId::generate());
    // The conversation has more turns than one statement can insert.
    let turns: Vec<NewTurn> = (0..150).map(|n| turn("user", &n.to_string(), n)).collect();
    running.writer.commit(run, vec![open(&realm, &new), add_turns(&realm, new.id, turns)]).await.unwrap();
    let conversations = store.conversations(&realm);
    let indexes = |turns: Vec<Turn>| turns.iter().map(|turn| turn.index).collect::<Vec<_>>();
    let all = conversations.turns(new.id, 0, 1000).await.unwrap();
    assert!(all.iter().all(|turn| turn.content == turn.index.to_string()));
    assert_eq!(indexes(all), (0..150).collect::<Vec<_>>());
    assert_eq!(indexes(conversations.turns(new.id, 147, 2).await.unwrap()), [147, 148]);
    assert_eq!(conversations.turns(new.id, 150, 2).await.unwrap(), []);
    assert_eq!(indexes(conversations.last_turns(new.id, 3).await.unwrap()), [147, 148, 149]);
    assert_eq!(indexes(conversations.last_turns(new.id, 0).await.unwrap()), [149]);
    assert_eq!(conversations.last_turns(new.id, u32::MAX).await.unwrap().len(), 150);
    running.stop().await;
}

async fn concurrently_added_turns_get_distinct_indexes(db: TestDb) {
    // Each store represents a server.
    let stores = [db.open().await, db.open().await];
    let realm = realm(&stores[0], "main").await;
    let writings = [RunningWriter::start(&stores[0]), RunningWriter::start(&stores[1])];
    let targets = [new_conversation(), new_conversation()];
    let opening = targets.iter().map(|new| open(&realm, new)).collect();
    writings[0].writer.commit(RunId::generate(), opening).await.unwrap();

    let mut writers = JoinSet::new();
    for index in 0..16 {
        let writer = writings[index % 2].writer.clone();
        let mut order = [targets[0].id, targets[1].id];
        order.rotate_left(index / 2 % 2);
        let realm = realm.clone();
        writers.spawn(async move {
            let run = RunId::generate();
            for n in 0..5 {
                let turns_added = |id| add_turns(&realm, id, vec![turn("user", "a", n), turn("assistant", "b", n)]);
                writer.commit(run, order.map(turns_added).into()).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    for target in &targets {
        let turns = stores[0].conversations(&realm).turns(target.id, 0, 1000).await.unwrap();
        assert_eq!(turns.iter().map(|turn| turn.index).collect::<Vec<_>>(), (0..160).collect::<Vec<_>>());
        assert!(turns.chunks(2).all(|pair| (pair[0].content.as_str(), pair[1].content.as_str()) == ("a", "b")));
        let read = stores[0].conversations(&realm).get(target.id).await.unwrap().unwrap();
        assert_eq!((read.turn_count, read.total_tokens), (160, 480));
    }
    for running in writings {
        running.stop().await;
    }
}

async fn title_is_not_replaced_by_a_later_title(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let (new, run) = (new_conversation(), RunId::generate());
    let titled = |title: &str| RunChange::AddTurns {
        realm: realm.realm,
        conversation: new.id,
        turns: Vec::new(),
        title_if_none: Some(title.into()),
    };
    running.writer.commit(run, vec![open(&realm, &new), titled("first"), titled("second")]).await.unwrap();
    let read = store.conversations(&realm).get(new.id).await.unwrap().unwrap();
    assert_eq!(read, Conversation { title: Some("first".into()), ..opened(&new) });
    running.stop().await;
}

async fn later_summary_replaces_the_earlier_one(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let (new, run) = (new_conversation(), RunId::generate());
    let turns = (0..4).map(|n| turn("user", "x", n)).collect();
    let summary = |summarised_turns| RunChange::Summarise {
        realm: realm.realm,
        conversation: new.id,
        summary: format!("{summarised_turns} times x"),
        summarised_turns,
    };
    let changes = vec![open(&realm, &new), summary(1), add_turns(&realm, new.id, turns), summary(3)];
    running.writer.commit(run, changes).await.unwrap();
    let read = store.conversations(&realm).get(new.id).await.unwrap().unwrap();
    assert_eq!((read.summary.as_deref(), read.summarised_turns), (Some("3 times x"), 3));
    let rest = store.conversations(&realm).turns(new.id, read.summarised_turns, 10).await.unwrap();
    assert_eq!(rest.len(), 1);
    running.stop().await;
}

async fn patch_changes_only_the_fields_that_are_set(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let new = NewConversation { created_at: db.clock.now(), ..new_conversation() };
    running.writer.commit(RunId::generate(), vec![open(&realm, &new)]).await.unwrap();
    let conversations = store.conversations(&realm);
    let generation = store.generation().await.unwrap();

    let nothing = ConversationPatch::default();
    let title = ConversationPatch { title: Some("orders".into()), ..nothing.clone() };
    let titled = conversations.update(new.id, title).await.unwrap();
    assert!(titled.updated_at > new.created_at);
    let expected = Conversation { title: Some("orders".into()), updated_at: titled.updated_at, ..opened(&new) };
    assert_eq!(titled, expected);
    let shared = json!({"z": {"deal": 7}, "a": [null]});
    let context = ConversationPatch {
        status: Some(ConversationStatus::Archived),
        shared_context: Some(shared.clone()),
        ..nothing.clone()
    };
    let changed = conversations.update(new.id, context).await.unwrap();
    assert_eq!(changed.shared_context.to_string(), shared.to_string(), "the order of keys is preserved");
    assert_eq!((changed.title.as_deref(), changed.status), (Some("orders"), ConversationStatus::Archived));
    assert_eq!(conversations.get(new.id).await.unwrap(), Some(changed.clone()));

    let deep = (0..200).fold(json!(1), |inner, _| json!([inner]));
    let too_deep = ConversationPatch { shared_context: Some(deep), ..nothing.clone() };
    let error = conversations.update(new.id, too_deep).await;
    assert!(matches!(error, Err(UpdateError::TooDeep)), "{error:?}");
    let missing = conversations.update(ConversationId::generate(), nothing).await;
    assert!(matches!(missing, Err(UpdateError::NotFound)), "{missing:?}");
    assert_eq!(conversations.get(new.id).await.unwrap(), Some(changed));
    assert_eq!(
        store.generation().await.unwrap(),
        generation,
        "the generation counts only definitions, identities and secrets"
    );
    running.stop().await;
}

async fn conversations_are_listed_most_recently_updated_first(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let someone = PrincipalId::generate();
    let [a, b, c, d] = [(1, "helper"), (2, "helper"), (3, "other"), (3, "helper")].map(|(micros, agent)| {
        NewConversation { owner: someone, agent: agent.into(), created_at: at(micros), ..new_conversation() }
    });
    let mut changes: Vec<RunChange> = [&a, &b, &c, &d].map(|new| open(&realm, new)).into();
    changes.push(open(&realm, &new_conversation()));
    changes.push(add_turns(&realm, a.id, vec![turn("user", "x", 7)]));
    running.writer.commit(RunId::generate(), changes).await.unwrap();
    running.stop().await;
    let conversations = store.conversations(&realm);

    let (last, before) = if c.id > d.id { (c.id, d.id) } else { (d.id, c.id) };
    let of_someone = ConversationQuery { owner: Some(someone), ..ConversationQuery::default() };
    let helper = ConversationQuery { agent: Some("helper".into()), ..of_someone.clone() };
    let archived = ConversationQuery { status: Some(ConversationStatus::Archived), ..of_someone.clone() };
    for (query, expected) in
        [(of_someone, vec![a.id, last, before, b.id]), (helper, vec![a.id, d.id, b.id]), (archived, vec![])]
    {
        for limit in [1, 2, 100] {
            let mut query = ConversationQuery { limit, ..query.clone() };
            let mut seen = Vec::new();
            loop {
                let page = conversations.list(&query).await.unwrap();
                seen.extend(page.items.iter().map(|conversation| conversation.id));
                match page.next {
                    Some(next) => query.cursor = Some(next.to_string().parse().unwrap()),
                    None => break,
                }
            }
            assert_eq!(seen, expected, "{query:?}");
        }
    }
    assert_eq!(conversations.list(&ConversationQuery::default()).await.unwrap().items.len(), 5);
    for status in ConversationStatus::ALL {
        assert_eq!(status.as_str().parse::<ConversationStatus>(), Ok(status));
    }
}

async fn deleting_a_conversation_keeps_its_runs(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let (gone, kept) = (new_conversation(), new_conversation());
    let [of_gone, of_kept] = [&gone, &kept].map(|new| NewRun { conversation: Some(new.id), ..new_run() });
    for (new, run) in [(&gone, &of_gone), (&kept, &of_kept)] {
        let turns_added = add_turns(&realm, new.id, vec![turn("user", "x", 1), turn("assistant", "y", 2)]);
        running
            .writer
            .commit(run.id, vec![open(&realm, new), begin(&realm, run), append(1), turns_added])
            .await
            .unwrap();
    }
    let conversations = store.conversations(&realm);
    let generation = store.generation().await.unwrap();
    assert!(conversations.delete(gone.id).await.unwrap());
    assert!(!conversations.delete(gone.id).await.unwrap());
    assert_eq!(store.generation().await.unwrap(), generation);

    assert_eq!(conversations.get(gone.id).await.unwrap(), None);
    assert_eq!(conversations.turns(gone.id, 0, 10).await.unwrap(), []);
    assert_eq!(store.runs(&realm).get(of_gone.id).await.unwrap().unwrap().conversation, None);
    assert_eq!(numbers(&store, &realm, of_gone.id).await, [1]);
    assert_eq!(conversations.turns(kept.id, 0, 10).await.unwrap().len(), 2);
    let query = RunQuery { conversation: Some(kept.id), ..RunQuery::default() };
    assert_eq!(store.runs(&realm).list(Owners::All, &query).await.unwrap().items[0].id, of_kept.id);
    running.stop().await;
}

async fn turns_added_to_a_deleted_conversation_are_ignored(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let new = new_conversation();
    let [early, late] = [0, 1].map(|_| NewRun { conversation: Some(new.id), ..new_run() });
    running.writer.commit(early.id, vec![open(&realm, &new), begin(&realm, &early)]).await.unwrap();
    store.conversations(&realm).delete(new.id).await.unwrap();

    let turns_added = add_turns(&realm, new.id, vec![turn("assistant", "too late", 1)]);
    let summary =
        RunChange::Summarise { realm: realm.realm, conversation: new.id, summary: "x".into(), summarised_turns: 1 };
    running.writer.commit(early.id, vec![turns_added, append(1), summary]).await.unwrap();
    running.writer.commit(late.id, vec![begin(&realm, &late)]).await.unwrap();
    assert_eq!(numbers(&store, &realm, early.id).await, [1]);
    assert_eq!(store.runs(&realm).get(late.id).await.unwrap().unwrap().conversation, None);
    assert_eq!(store.conversations(&realm).get(new.id).await.unwrap(), None);
    running.stop().await;
}

async fn conversation_can_be_deleted_while_turns_are_added(db: TestDb) {
    const ENTRIES: u64 = 12;
    let stores = [db.open().await, db.open().await];
    let realm = realm(&stores[0], "main").await;
    let writings = [RunningWriter::start(&stores[0]), RunningWriter::start(&stores[1])];
    let targets: Vec<NewConversation> = (0..8).map(|_| new_conversation()).collect();
    let opening = targets.iter().map(|new| open(&realm, new)).collect();
    writings[0].writer.commit(RunId::generate(), opening).await.unwrap();

    let (half_way, mut tasks) = (Arc::new(Barrier::new(9)), JoinSet::new());
    for index in 0..8 {
        let (writer, realm, half_way) = (writings[index % 2].writer.clone(), realm.clone(), half_way.clone());
        let target = targets[index].id;
        tasks.spawn(async move {
            let run = NewRun { conversation: Some(target), ..new_run() };
            writer.write(run.id, vec![begin(&realm, &run)]).await.unwrap();
            for n in 1..=ENTRIES {
                if n == ENTRIES / 2 {
                    half_way.wait().await;
                }
                let turns_added = add_turns(&realm, target, vec![turn("user", "x", 1)]);
                writer.commit(run.id, vec![append(n), turns_added, update_state(RunStatus::Running)]).await.unwrap();
            }
            run.id
        });
    }
    half_way.wait().await;
    for target in &targets {
        assert!(stores[1].conversations(&realm).delete(target.id).await.unwrap());
    }
    for run in tasks.join_all().await {
        assert_eq!(numbers(&stores[0], &realm, run).await, (1..=ENTRIES).collect::<Vec<_>>());
        assert_eq!(stores[0].runs(&realm).get(run).await.unwrap().unwrap().conversation, None);
    }
    for running in writings {
        running.stop().await;
    }
}

async fn starting_a_second_unfinished_run_in_a_conversation_is_a_conflict(db: TestDb) {
    let store = db.open().await;
    let realm = realm(&store, "main").await;
    let running = RunningWriter::start(&store);
    let target = new_conversation();
    let run = || NewRun { conversation: Some(target.id), ..new_run() };
    let (first, second) = (run(), run());
    running.writer.commit(first.id, vec![open(&realm, &target), begin(&realm, &first)]).await.unwrap();
    let error = running.writer.commit(second.id, vec![begin(&realm, &second)]).await;
    assert!(matches!(error, Err(WriteError::Conflict(run)) if run == second.id), "{error:?}");
    let ended = RunState { ended_at: Some(at(5)), ..state(RunStatus::Completed) };
    running.writer.commit(first.id, vec![RunChange::UpdateState { state: ended, waits: Vec::new() }]).await.unwrap();
    let third = run();
    running.writer.commit(third.id, vec![begin(&realm, &third)]).await.unwrap();
    running.stop().await;
}

async fn conversations_are_not_visible_in_another_realm(db: TestDb) {
    let store = db.open().await;
    let (here, there) = (realm(&store, "here").await, realm(&store, "there").await);
    let running = RunningWriter::start(&store);
    let (theirs, run) = (new_conversation(), RunId::generate());
    running
        .writer
        .commit(run, vec![open(&there, &theirs), add_turns(&there, theirs.id, vec![turn("user", "x", 1)])])
        .await
        .unwrap();
    let before = store.conversations(&there).get(theirs.id).await.unwrap().unwrap();

    let ours = store.conversations(&here);
    assert_eq!(ours.get(theirs.id).await.unwrap(), None);
    assert_eq!(ours.turns(theirs.id, 0, 10).await.unwrap(), []);
    assert_eq!(ours.last_turns(theirs.id, 10).await.unwrap(), []);
    assert_eq!(ours.list(&ConversationQuery::default()).await.unwrap().items, []);
    let patch = ConversationPatch { title: Some("ours".into()), ..ConversationPatch::default() };
    assert!(matches!(ours.update(theirs.id, patch).await, Err(UpdateError::NotFound)));
    assert!(!ours.delete(theirs.id).await.unwrap());
    let summary =
        RunChange::Summarise { realm: here.realm, conversation: theirs.id, summary: "x".into(), summarised_turns: 1 };
    running.writer.commit(run, vec![add_turns(&here, theirs.id, vec![turn("user", "y", 2)]), summary]).await.unwrap();
    assert_eq!(store.conversations(&there).get(theirs.id).await.unwrap(), Some(before));
    running.stop().await;
}
