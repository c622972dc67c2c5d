//! A cache of reference data. The executor uses it to replace names by ids.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use toolwright_store::{ReferenceItem, ReferenceSet, Store};
use toolwright_tools::ports::{self, ReferenceMatch};
use toolwright_types::{RealmId, RealmScope, RefName, ReferenceSource};

use super::{MAX_ITEMS, lookup};

/// How long items are cached. New items that another server has fetched are visible after this time at the latest.
const CACHE_TTL: Duration = Duration::from_secs(10);
/// The maximum number of items in the cache.
const MAX_CACHED_ITEMS: u64 = 200_000;

type Key = (RealmId, String, String);

/// Caches reference items by realm, provider and data type. Cheap to clone.
#[derive(Clone)]
pub(crate) struct ReferenceCache {
    store: Store,
    cache: moka::sync::Cache<Key, Arc<Vec<ReferenceItem>>>,
}

impl ReferenceCache {
    pub(crate) fn new(store: Store) -> Self {
        let weigh = |_: &Key, items: &Arc<Vec<ReferenceItem>>| u32::try_from(items.len() + 1).unwrap_or(u32::MAX);
        let cache =
            moka::sync::Cache::builder().max_capacity(MAX_CACHED_ITEMS).weigher(weigh).time_to_live(CACHE_TTL).build();
        Self { store, cache }
    }

    /// Removes the items of a data type from the cache. Must be called after the items were fetched again.
    pub(crate) fn invalidate(&self, realm: &RealmScope, set: ReferenceSet<'_>) {
        self.cache.invalidate(&key(realm, set));
    }

    async fn items(
        &self,
        realm: &RealmScope,
        set: ReferenceSet<'_>,
    ) -> Result<Arc<Vec<ReferenceItem>>, ports::PortError> {
        let key = key(realm, set);
        if let Some(cached) = self.cache.get(&key) {
            return Ok(cached);
        }
        let limit = i64::try_from(MAX_ITEMS).unwrap_or(i64::MAX);
        let read = self.store.references(realm).items(set, limit).await;
        let items =
            Arc::new(read.map_err(|error| ports::PortError { port: "reference data", source: Box::new(error) })?);
        self.cache.insert(key, Arc::clone(&items));
        Ok(items)
    }
}

fn key(realm: &RealmScope, set: ReferenceSet<'_>) -> Key {
    (realm.realm, set.provider.key(), set.data_type.to_owned())
}

impl ports::ReferenceResolver for ReferenceCache {
    fn look_up<'a>(
        &'a self,
        realm: &'a RealmScope,
        provider: &'a RefName,
        source: &'a ReferenceSource,
        name: &'a str,
    ) -> BoxFuture<'a, Result<ReferenceMatch, ports::PortError>> {
        Box::pin(async move {
            let items = self.items(realm, ReferenceSet { provider, data_type: &source.data_type }).await?;
            Ok(lookup::find_match(&items, source, name))
        })
    }
}
