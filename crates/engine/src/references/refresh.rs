//! Refreshes reference data whose TTL has expired. If several servers share a database, only one server at a time
//! refreshes a data type.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use toolwright_store::DueSync;
use toolwright_types::{Document, ToolProviderConfig};

use super::{RETRY_DELAY, ReferenceData};
use toolwright_catalog::Session;
use toolwright_catalog::registry::RegistryError;

/// How often the server looks for data types whose TTL has expired.
const REFRESH_INTERVAL: Duration = Duration::from_secs(15);
/// The maximum number of data types that are refreshed in one interval.
const BATCH_SIZE: i64 = 20;

impl ReferenceData {
    /// Refreshes data types with a `ttlSeconds` until `stop` is cancelled.
    pub(crate) async fn run_refresh_loop(self, stop: CancellationToken) {
        self.refresh_every(REFRESH_INTERVAL, stop).await;
    }

    async fn refresh_every(self, interval: Duration, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(interval)).await.is_some() {
            // At shutdown, this future is dropped. If it has started a call, the shutdown of the runs ends the call.
            if let Some(Err(error)) = stop.run_until_cancelled(self.refresh()).await {
                tracing::warn!(%error, "could not refresh reference data");
            }
        }
    }

    /// Fetches the data types that are due. Data types that another server has claimed are skipped. Data types that no
    /// longer exist are not scheduled again.
    pub(crate) async fn refresh(&self) -> Result<(), RegistryError> {
        for due in self.store.due_references(BATCH_SIZE).await? {
            let Some((session, provider)) = self.provider_of(&due).await? else {
                self.store.claim_reference(&due, None).await?;
                continue;
            };
            // The claim lasts longer than a fetch. If this server crashes, another server fetches the items when the
            // claim has expired.
            let claimed = self.store.claim_reference(&due, Some(self.clock.now().saturating_add(RETRY_DELAY))).await?;
            if let (true, Some(source)) = (claimed, provider.body.reference_source(&due.data_type)) {
                let report = self.sync_one(&session, &provider, source).await?;
                if let Some(error) = report.errors.first() {
                    tracing::warn!(provider = %due.provider, data_type = due.data_type, %error, "reference data is stale");
                }
            }
        }
        Ok(())
    }

    /// Returns the provider of a data type, and a session of the principal that last fetched the data type. Returns
    /// `None` if the principal, the realm, the provider or the data type no longer exists.
    async fn provider_of(
        &self,
        due: &DueSync,
    ) -> Result<Option<(Session, Document<ToolProviderConfig>)>, RegistryError> {
        let tenancy = self.store.tenancy();
        let principal = tenancy.principal_by_id(due.principal).await?;
        let (Some(principal), Some(realm)) = (principal, tenancy.realm_by_id(due.realm).await?) else {
            return Ok(None);
        };
        let session = Session::new(Arc::new(principal), Arc::new(realm));
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
    use toolwright_types::{Clock, DefinitionSource, Timestamp, ToolDefinition};

    use super::*;
    use crate::{Engine, Options};

    const TTL: i64 = 3600;

    /// A clock that advances by one microsecond each time it is read, and by more only when the test advances it.
    struct ManualClock(AtomicI64);

    impl ManualClock {
        fn advance(&self, seconds: i64) {
            self.0.fetch_add(seconds * 1_000_000, Ordering::SeqCst);
        }
    }

    impl Clock for ManualClock {
        fn now(&self) -> Timestamp {
            Timestamp::from_micros(self.0.fetch_add(1, Ordering::SeqCst))
        }
    }

    /// An engine with one provider. The test sets the users that the provider's tool returns.
    struct Fixture {
        _folder: TempDir,
        engine: Engine,
        session: Session,
        clock: Arc<ManualClock>,
        users: Arc<Mutex<Option<Value>>>,
    }

    impl Fixture {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let clock = Arc::new(ManualClock(AtomicI64::new(1_790_000_000_000_000)));
            let users = Arc::new(Mutex::new(None));
            let output = Arc::clone(&users);
            let list = FunctionTool::erase("users", "Lists users.", json!({ "type": "object" }), move |_| {
                let users: Option<Value> = output.lock().unwrap().clone();
                users.ok_or_else(|| ToolFailure::invalid("user list is not available"))
            });
            let seal = SealKey::from_file(folder.path().join("seal.key")).unwrap();
            let mut options = Options::in_folder(folder.path().to_owned(), seal);
            options.clock = clock.clone();
            options.library = Library::new("crm").with_dyn(list);
            let (engine, _) = Engine::open(options).await.unwrap();
            let session = engine.identity.admin_session().await.unwrap();
            let tool = json!({ "refName": "crm/users", "toolType": "FUNCTION", "invocation": { "path": "users" }, "outputJsonSchema": {} });
            engine.registry.create::<ToolDefinition>(&session, tool, DefinitionSource::Manual).await.unwrap();
            let fixture = Self { _folder: folder, engine, session, clock, users };
            let provider = fixture.provider("users");
            let registry = &fixture.engine.registry;
            registry.create::<ToolProviderConfig>(&fixture.session, provider, DefinitionSource::Manual).await.unwrap();
            fixture
        }

        fn provider(&self, data_type: &str) -> Value {
            json!({ "refName": "crm", "referenceData": [{ "dataType": data_type, "toolRef": "crm/users", "ttlSeconds": TTL }] })
        }

        fn set_users(&self, names: &[&str]) {
            let users: Vec<Value> = names.iter().map(|name| json!({ "id": name, "name": name })).collect();
            *self.users.lock().unwrap() = Some(Value::Array(users));
        }

        fn fail(&self) {
            *self.users.lock().unwrap() = None;
        }

        /// Returns the names of the active items, and the state of the last fetch.
        async fn stored(&self) -> (Vec<String>, SyncState) {
            let page = self.engine.references.page(&self.session, "crm", Some("users"), None, 100).await.unwrap();
            let active = page.items.into_iter().filter(|item| item.active);
            (active.map(|item| item.name).collect(), page.syncs.into_iter().next().unwrap())
        }

        /// Calls `refresh` until `condition` is true. The refresh loop of the engine may also fetch the items first.
        async fn refresh_until(&self, condition: impl Fn(&[String], &SyncState) -> bool) -> (Vec<String>, SyncState) {
            loop {
                self.engine.references.refresh().await.unwrap();
                let (names, state) = self.stored().await;
                if condition(&names, &state) {
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
    async fn expired_items_are_fetched_again_and_a_failed_fetch_keeps_them() {
        let fixture = Fixture::new().await;
        fixture.set_users(&["Ada"]);
        fixture.engine.references.sync(&fixture.session, "crm", None).await.unwrap();
        // Nothing is fetched before the TTL expires.
        fixture.set_users(&["Bo", "Cy"]);
        fixture.clock.advance(TTL - 60);
        fixture.engine.references.refresh().await.unwrap();
        assert_eq!(fixture.stored().await.0, ["Ada"]);
        fixture.clock.advance(120);
        let (names, state) = fixture.refresh_until(|names, _| names.len() == 2).await;
        assert_eq!(names, ["Bo", "Cy"]);
        assert_eq!(seconds_between(state.attempted_at, state.next_sync_at), TTL);

        // A failed fetch keeps the items and is retried after `RETRY_DELAY`.
        fixture.fail();
        fixture.clock.advance(TTL);
        let (names, failed) = fixture.refresh_until(|_, state| state.error.is_some()).await;
        assert_eq!(names, ["Bo", "Cy"]);
        assert!(failed.error.as_ref().unwrap().contains("user list is not available"), "{failed:?}");
        assert_eq!(failed.synced_at, state.synced_at, "the last success is unchanged");
        assert_eq!(
            seconds_between(failed.attempted_at, failed.next_sync_at),
            i64::try_from(RETRY_DELAY.as_secs()).unwrap()
        );
        fixture.engine.references.refresh().await.unwrap();
        assert_eq!(fixture.stored().await.1, failed, "not retried at once");
        fixture.set_users(&["Di"]);
        fixture.clock.advance(i64::try_from(RETRY_DELAY.as_secs()).unwrap() + 1);
        let (names, state) = fixture.refresh_until(|_, state| state.error.is_none()).await;
        assert_eq!(names, ["Di"]);
        assert_eq!(seconds_between(state.attempted_at, state.next_sync_at), TTL);

        // A data type that the provider no longer has is not fetched again.
        let other = fixture.provider("teams");
        let registry = &fixture.engine.registry;
        registry
            .replace::<ToolProviderConfig>(&fixture.session, "crm", None, other, DefinitionSource::Manual)
            .await
            .unwrap();
        fixture.clock.advance(TTL + 1);
        fixture.refresh_until(|_, state| state.next_sync_at.is_none()).await;
        fixture.engine.close().await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn refresh_loop_fetches_expired_items_and_ends_when_stopped() {
        let fixture = Fixture::new().await;
        fixture.set_users(&["Ada"]);
        fixture.engine.references.sync(&fixture.session, "crm", None).await.unwrap();
        fixture.set_users(&["Bo"]);
        fixture.clock.advance(TTL + 1);
        let stop = CancellationToken::new();
        let refresh_loop = fixture.engine.references.clone().refresh_every(Duration::from_millis(1), stop.clone());
        let fetched = async {
            while fixture.stored().await.0 != ["Bo"] {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        tokio::join!(refresh_loop, fetched);
        fixture.engine.close().await;
    }
}
