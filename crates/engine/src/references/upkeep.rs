//! Fetches again what has come of age, one server at a time.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolwright_store::DueSync;
use toolwright_types::{Document, ToolProviderConfig};

use super::{AGAIN, References};
use crate::access::Session;
use crate::registry::RegistryError;

/// How often the clock is looked at.
const ROUND: Duration = Duration::from_secs(15);
/// How many types are fetched in one round.
const AT_ONCE: i64 = 20;

impl References {
    /// Keeps what has a `ttlSeconds` no older than that, until `stop`.
    pub(crate) async fn keep_fresh(self, stop: CancellationToken) {
        self.keep_fresh_each(ROUND, stop).await;
    }

    async fn keep_fresh_each(self, round: Duration, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(round)).await.is_some() {
            // A call that is under way is ended by whoever ends all calls.
            if let Some(Err(error)) = stop.run_until_cancelled(self.refresh()).await {
                tracing::warn!(%error, "reference data could not be fetched again");
            }
        }
    }

    /// Fetches what is due. A type that another server takes is left to it, and one that nobody wants any more is dropped.
    pub(crate) async fn refresh(&self) -> Result<(), RegistryError> {
        for due in self.store.due_references(AT_ONCE).await? {
            let Some((session, provider)) = self.wanted(&due).await? else {
                self.store.claim_reference(&due, None).await?;
                continue;
            };
            // For longer than a fetch takes: whoever dies with it is followed by another.
            let claimed = self.store.claim_reference(&due, Some(self.clock.now().later(AGAIN))).await?;
            if let (true, Some(source)) = (claimed, provider.body.reference_source(&due.data_type)) {
                let synced = self.sync_one(&session, &provider, source).await?;
                if let Some(error) = synced.errors.first() {
                    tracing::warn!(provider = %due.provider, data_type = due.data_type, %error, "reference data is stale");
                }
            }
        }
        Ok(())
    }

    /// The provider, on the authority of whoever fetched the type last, as long as all of them are there.
    async fn wanted(&self, due: &DueSync) -> Result<Option<(Session, Document<ToolProviderConfig>)>, RegistryError> {
        let tenancy = self.store.tenancy();
        let principal = tenancy.principal_by_id(due.principal).await?;
        let (Some(principal), Some(realm)) = (principal, tenancy.realm_by_id(due.realm).await?) else {
            return Ok(None);
        };
        let session = Session { principal: Arc::new(principal), realm: Arc::new(realm) };
        let provider = self.registry.find::<ToolProviderConfig>(&session, &due.provider).await?;
        let provider = provider.filter(|provider| provider.body.reference_source(&due.data_type).is_some());
        Ok(provider.map(|provider| (session, provider)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicI64, Ordering};

    use serde_json::{Value, json};
    use tempfile::TempDir;
    use toolwright_store::{SealKey, SyncState};
    use toolwright_tools::{FunctionTool, Library, ToolFailure};
    use toolwright_types::{Clock, Source, Timestamp, ToolDefinition};

    use super::*;
    use crate::{Engine, Options};

    const TTL: i64 = 3600;

    /// A clock that stands still, or nearly, until somebody moves it.
    struct Hand(AtomicI64);

    impl Hand {
        fn pass(&self, seconds: i64) {
            self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
        }
    }

    impl Clock for Hand {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(self.0.fetch_add(1, Ordering::SeqCst))
        }
    }

    /// An engine with one provider, whose users are what is said here.
    struct World {
        _folder: TempDir,
        engine: Engine,
        session: Session,
        clock: Arc<Hand>,
        says: Arc<Mutex<Option<Value>>>,
    }

    impl World {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let clock = Arc::new(Hand(AtomicI64::new(1_790_000_000_000_000)));
            let says = Arc::new(Mutex::new(None));
            let answer = Arc::clone(&says);
            let list = FunctionTool::erase("users", "Lists users.", json!({ "type": "object" }), move |_| {
                let told: Option<Value> = answer.lock().unwrap().clone();
                told.ok_or_else(|| ToolFailure::invalid("nobody is at home"))
            });
            let seal = SealKey::from_file(folder.path().join("seal.key")).unwrap();
            let mut options = Options::in_folder(folder.path().to_owned(), seal);
            options.clock = clock.clone();
            options.library = Library::new("crm").with_dyn(list);
            let (engine, _) = Engine::open(options).await.unwrap();
            let session = engine.identity.admin_session().await.unwrap();
            let tool = json!({ "refName": "crm/users", "toolType": "FUNCTION", "invocation": { "path": "users" }, "outputJsonSchema": {} });
            engine.registry.create::<ToolDefinition>(&session, tool, Source::Manual).await.unwrap();
            let world = Self { _folder: folder, engine, session, clock, says };
            let provider = world.provider("users");
            let registry = &world.engine.registry;
            registry.create::<ToolProviderConfig>(&world.session, provider, Source::Manual).await.unwrap();
            world
        }

        fn provider(&self, data_type: &str) -> Value {
            json!({ "refName": "crm", "referenceData": [{ "dataType": data_type, "toolRef": "crm/users", "ttlSeconds": TTL }] })
        }

        fn say(&self, names: &[&str]) {
            let users: Vec<Value> = names.iter().map(|name| json!({ "id": name, "name": name })).collect();
            *self.says.lock().unwrap() = Some(Value::Array(users));
        }

        fn say_nothing(&self) {
            *self.says.lock().unwrap() = None;
        }

        async fn kept(&self) -> (Vec<String>, SyncState) {
            let kept = self.engine.references.page(&self.session, "crm", Some("users"), None, 100).await.unwrap();
            let active = kept.items.into_iter().filter(|item| item.active);
            (active.map(|item| item.name).collect(), kept.syncs.into_iter().next().unwrap())
        }

        /// Refreshes until things are so: the engine has a round of its own, which may be the one that fetches.
        async fn refreshed(&self, so: impl Fn(&[String], &SyncState) -> bool) -> (Vec<String>, SyncState) {
            loop {
                self.engine.references.refresh().await.unwrap();
                let (names, state) = self.kept().await;
                if so(&names, &state) {
                    return (names, state);
                }
                tokio::task::yield_now().await;
            }
        }
    }

    fn seconds_between(from: Timestamp, to: Option<Timestamp>) -> i64 {
        (to.unwrap().as_micros() - from.as_micros() + 500_000) / 1_000_000
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn what_has_come_of_age_is_fetched_again_and_what_fails_is_kept() {
        let world = World::new().await;
        world.say(&["Ada"]);
        world.engine.references.sync(&world.session, "crm", None).await.unwrap();
        // Until it is due, nobody asks.
        world.say(&["Bo", "Cy"]);
        world.clock.pass(TTL - 60);
        world.engine.references.refresh().await.unwrap();
        assert_eq!(world.kept().await.0, ["Ada"]);
        world.clock.pass(120);
        let (names, state) = world.refreshed(|names, _| names.len() == 2).await;
        assert_eq!(names, ["Bo", "Cy"]);
        assert_eq!(seconds_between(state.tried_at, state.next_at), TTL);

        // What cannot be fetched stays as it was, and is tried again soon.
        world.say_nothing();
        world.clock.pass(TTL);
        let (names, failed) = world.refreshed(|_, state| state.error.is_some()).await;
        assert_eq!(names, ["Bo", "Cy"]);
        assert!(failed.error.as_ref().unwrap().contains("nobody is at home"), "{failed:?}");
        assert_eq!(failed.synced_at, state.synced_at, "it is as old as it was");
        assert_eq!(seconds_between(failed.tried_at, failed.next_at), i64::try_from(AGAIN.as_secs()).unwrap());
        world.engine.references.refresh().await.unwrap();
        assert_eq!(world.kept().await.1, failed, "not at once");
        world.say(&["Di"]);
        world.clock.pass(i64::try_from(AGAIN.as_secs()).unwrap() + 1);
        let (names, state) = world.refreshed(|_, state| state.error.is_none()).await;
        assert_eq!(names, ["Di"]);
        assert_eq!(seconds_between(state.tried_at, state.next_at), TTL);

        // A type that the provider no longer has is not asked for again.
        let other = world.provider("teams");
        let registry = &world.engine.registry;
        registry.replace::<ToolProviderConfig>(&world.session, "crm", None, other, Source::Manual).await.unwrap();
        world.clock.pass(TTL + 1);
        world.refreshed(|_, state| state.next_at.is_none()).await;
        world.engine.close().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_loop_fetches_by_itself_until_it_is_stopped() {
        let world = World::new().await;
        world.say(&["Ada"]);
        world.engine.references.sync(&world.session, "crm", None).await.unwrap();
        world.say(&["Bo"]);
        world.clock.pass(TTL + 1);
        let stop = CancellationToken::new();
        let rounds = world.engine.references.clone().keep_fresh_each(Duration::from_millis(1), stop.clone());
        let seen = async {
            while world.kept().await.0 != ["Bo"] {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        tokio::join!(rounds, seen);
        world.engine.close().await;
    }
}
