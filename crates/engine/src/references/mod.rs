//! Reference data: what the systems of providers call things. Fetched by the providers' own tools through the ordinary path,
//! kept in the store, used to find ids for names and to tell agents what there is.

mod extract;
mod lookup;
mod render;
mod shelf;
mod upkeep;

use std::sync::Arc;
use std::time::Duration;

pub use toolwright_store::{ReferenceItem, SyncState};
use toolwright_store::{Shelf as Place, Store};
use toolwright_tools::CallRequest;
use toolwright_types::{Clock, Document, ReferenceSource, ToolProviderConfig};

pub(crate) use render::{SHOWN, of_type as rendered};
pub(crate) use shelf::Shelf;

use crate::Unavailable;
use crate::access::Session;
use crate::calls::Calls;
use crate::registry::{Registry, RegistryError};
use crate::runs::Called;

/// How many items of a type are kept.
pub(crate) const MOST_ITEMS: usize = 10_000;
/// When a fetch that failed is tried again, unless its items live shorter.
const AGAIN: Duration = Duration::from_secs(300);

/// Fetches and shows reference data. Cheap to clone.
#[derive(Clone)]
pub struct References {
    store: Store,
    registry: Registry,
    calls: Calls,
    shelf: Shelf,
    clock: Arc<dyn Clock>,
}

/// What a fetch of one type came to.
#[derive(Debug, Default)]
pub struct Synced {
    /// The type.
    pub data_type: String,
    /// Items that the tool returned.
    pub items_found: usize,
    /// Items that are new.
    pub created: usize,
    /// Items that changed.
    pub updated: usize,
    /// Items that are gone.
    pub deleted: usize,
    /// Items that could not be read.
    pub failed: usize,
    /// What went wrong. When nothing was found because of it, what was there stays.
    pub errors: Vec<String>,
}

/// A part of the items of a provider.
#[derive(Debug)]
pub struct Kept {
    /// The items.
    pub items: Vec<ReferenceItem>,
    /// How the last fetches went.
    pub syncs: Vec<SyncState>,
    /// Whether there are more.
    pub more: bool,
}

impl References {
    pub(crate) fn new(store: Store, registry: Registry, calls: Calls, shelf: Shelf, clock: Arc<dyn Clock>) -> Self {
        Self { store, registry, calls, shelf, clock }
    }

    /// Fetches the items of a provider: of one type, or of all. A type that cannot be fetched says so and keeps what it had.
    pub async fn sync(
        &self,
        session: &Session,
        provider: &str,
        data_type: Option<&str>,
    ) -> Result<Vec<Synced>, RegistryError> {
        let provider = self.registry.get::<ToolProviderConfig>(session, provider, None).await?;
        self.registry.may_replace(session, Some(&provider), &provider.body)?;
        let wanted = |source: &&ReferenceSource| data_type.is_none_or(|wanted| source.data_type == wanted);
        let sources: Vec<&ReferenceSource> = provider.body.reference_data.iter().filter(wanted).collect();
        if let (Some(wanted), true) = (data_type, sources.is_empty()) {
            return Err(RegistryError::NotFound {
                kind: "reference data",
                reference: wanted.to_owned(),
                realm: session.realm.name.to_string(),
            });
        }
        let mut all = Vec::with_capacity(sources.len());
        for source in sources {
            all.push(self.sync_one(session, &provider, source).await?);
        }
        Ok(all)
    }

    /// A page of what is kept of a provider.
    pub async fn page(
        &self,
        session: &Session,
        provider: &str,
        data_type: Option<&str>,
        after: Option<(&str, &str)>,
        limit: u32,
    ) -> Result<Kept, RegistryError> {
        let provider = self.registry.get::<ToolProviderConfig>(session, provider, None).await?;
        let references = self.store.references(&session.realm);
        let name = &provider.meta.ref_name;
        let mut items = references.page(name, data_type, after, i64::from(limit) + 1).await?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        Ok(Kept { items, syncs: references.states(name).await?, more })
    }

    async fn sync_one(
        &self,
        session: &Session,
        provider: &Document<ToolProviderConfig>,
        source: &ReferenceSource,
    ) -> Result<Synced, Unavailable> {
        let place = Place { provider: &provider.meta.ref_name, data_type: &source.data_type };
        let references = self.store.references(&session.realm);
        let by = session.principal.id;
        let fetched = match self.fetch(session, source).await? {
            Ok(output) => extract::items(&output, source),
            Err(error) => Err(error),
        };
        let mut synced = Synced { data_type: source.data_type.clone(), ..Synced::default() };
        match fetched {
            Ok(extract::Extracted { items, found, failed, errors }) => {
                let next = source.ttl_seconds.map(|seconds| self.clock.now().later(Duration::from_secs(seconds)));
                let changed = references.replace(place, items, by, next).await?;
                synced.items_found = found;
                (synced.created, synced.updated, synced.deleted) = (changed.created, changed.updated, changed.deleted);
                (synced.failed, synced.errors) = (failed, errors);
            }
            Err(error) => {
                let next =
                    source.ttl_seconds.map(|seconds| self.clock.now().later(Duration::from_secs(seconds).min(AGAIN)));
                references.failed(place, &error, by, next).await?;
                synced.errors.push(error);
            }
        }
        self.shelf.forget(&session.realm, place);
        Ok(synced)
    }

    /// What the tool of a type returns, or why it returned nothing.
    async fn fetch(
        &self,
        session: &Session,
        source: &ReferenceSource,
    ) -> Result<Result<serde_json::Value, String>, Unavailable> {
        let input = serde_json::Value::Object(source.input.clone());
        let request = CallRequest { tool: source.tool_ref.clone(), version: None, input };
        let (_, called) = self.calls.execute(session, request).await?;
        Ok(match called {
            Called::Waits(_) => {
                Err(format!("tool `{}` is performed by clients and cannot list items", source.tool_ref))
            }
            Called::Done(envelope) => match envelope.error {
                Some(error) => Err(format!("tool `{}` failed: {}: {}", source.tool_ref, error.code, error.message)),
                None if envelope.truncated => {
                    Err(format!("the output of tool `{}` is too large; raise its maxOutputBytes", source.tool_ref))
                }
                None => Ok(envelope.output),
            },
        })
    }
}
