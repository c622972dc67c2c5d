//! The items as the executor asks for them: read once, kept for a few seconds.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use toolwright_store::{ReferenceItem, Shelf as Place, Store};
use toolwright_tools::ports::{self, Meaning};
use toolwright_types::{RealmId, RealmScope, RefName, ReferenceSource};

use super::{MOST_ITEMS, lookup};

/// How long items that another server has fetched meanwhile may go unnoticed.
const KEPT: Duration = Duration::from_secs(10);
/// How many items are kept in memory.
const MOST_KEPT: u64 = 200_000;

type Key = (RealmId, String, String);

/// Items by realm, provider and type. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shelf {
    store: Store,
    kept: moka::sync::Cache<Key, Arc<Vec<ReferenceItem>>>,
}

impl Shelf {
    pub fn new(store: Store) -> Self {
        let weigh = |_: &Key, items: &Arc<Vec<ReferenceItem>>| u32::try_from(items.len() + 1).unwrap_or(u32::MAX);
        let kept = moka::sync::Cache::builder().max_capacity(MOST_KEPT).weigher(weigh).time_to_live(KEPT).build();
        Self { store, kept }
    }

    /// Forgets a type that was fetched anew.
    pub fn forget(&self, realm: &RealmScope, place: Place<'_>) {
        self.kept.invalidate(&key(realm, place));
    }

    async fn items(&self, realm: &RealmScope, place: Place<'_>) -> Result<Arc<Vec<ReferenceItem>>, ports::Unavailable> {
        let key = key(realm, place);
        if let Some(kept) = self.kept.get(&key) {
            return Ok(kept);
        }
        let limit = i64::try_from(MOST_ITEMS).unwrap_or(i64::MAX);
        let read = self.store.references(realm).of(place, limit).await;
        let items =
            Arc::new(read.map_err(|error| ports::Unavailable { port: "reference data", source: Box::new(error) })?);
        self.kept.insert(key, Arc::clone(&items));
        Ok(items)
    }
}

fn key(realm: &RealmScope, place: Place<'_>) -> Key {
    (realm.realm, place.provider.key(), place.data_type.to_owned())
}

impl ports::References for Shelf {
    fn look_up<'a>(
        &'a self,
        realm: &'a RealmScope,
        provider: &'a RefName,
        source: &'a ReferenceSource,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Meaning, ports::Unavailable>> {
        Box::pin(async move {
            let items = self.items(realm, Place { provider, data_type: &source.data_type }).await?;
            Ok(lookup::meaning(&items, source, name))
        })
    }
}
