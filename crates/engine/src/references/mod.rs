//! Fetches and lists reference data: the names and ids that providers publish.
//!
//! A provider names the tools that list its items, and the store keeps the items. With these items, calls replace names
//! in inputs by ids, and prompts of agents can list the names.

mod cache;
mod extract;
mod lookup;
mod refresh;

use std::sync::Arc;
use std::time::Duration;

pub use toolwright_store::{ReferenceItem, SyncState};
use toolwright_store::{ReferenceSet, Store};
use toolwright_tools::CallRequest;
use toolwright_types::{Clock, Document, ReferenceSource, ToolProviderConfig};

pub(crate) use cache::ReferenceCache;

use crate::calls::Calls;
use toolwright_catalog::Session;
use toolwright_catalog::Unavailable;
use toolwright_catalog::registry::{Registry, RegistryError};
use toolwright_runs::DirectOutcome;

/// The maximum number of items of a data type.
pub(crate) const MAX_ITEMS: usize = 10_000;
/// How long to wait after a failed fetch before the next attempt. If the TTL of the items is shorter, the wait is as
/// long as the TTL.
const RETRY_DELAY: Duration = Duration::from_secs(300);

/// Fetches and lists reference data. Cheap to clone.
#[derive(Clone)]
pub struct ReferenceData {
    store: Store,
    registry: Registry,
    calls: Calls,
    cache: ReferenceCache,
    clock: Arc<dyn Clock>,
}

/// The result of fetching one data type.
#[derive(Debug, Default)]
pub struct SyncReport {
    /// The data type.
    pub data_type: String,
    /// The number of items that the tool returned.
    pub items_found: usize,
    /// The number of new items.
    pub created: usize,
    /// The number of changed items.
    pub updated: usize,
    /// The number of items that the tool no longer returns.
    pub deleted: usize,
    /// The number of items that were skipped because they are invalid.
    pub failed: usize,
    /// The first errors. If the whole fetch failed, the previous items are kept.
    pub errors: Vec<String>,
}

/// A page of the items of a provider.
#[derive(Debug)]
pub struct ReferencePage {
    /// The items of the page.
    pub items: Vec<ReferenceItem>,
    /// The state of the last fetch of each data type.
    pub syncs: Vec<SyncState>,
    /// Whether more items follow.
    pub more: bool,
}

impl ReferenceData {
    pub(crate) fn new(
        store: Store,
        registry: Registry,
        calls: Calls,
        cache: ReferenceCache,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { store, registry, calls, cache, clock }
    }

    /// Fetches the items of one data type of a provider, or of all data types if `data_type` is `None`. If a data type
    /// cannot be fetched, the report for this data type has the error, and the previous items are kept.
    pub async fn sync(
        &self,
        session: &Session,
        provider: &str,
        data_type: Option<&str>,
    ) -> Result<Vec<SyncReport>, RegistryError> {
        let provider = self.registry.get::<ToolProviderConfig>(session, provider, None).await?;
        self.registry.may_replace(session, Some(&provider), &provider.body)?;
        let selected = |source: &&ReferenceSource| data_type.is_none_or(|data_type| source.data_type == data_type);
        let sources: Vec<&ReferenceSource> = provider.body.reference_data.iter().filter(selected).collect();
        if let (Some(data_type), true) = (data_type, sources.is_empty()) {
            return Err(RegistryError::NotFound {
                kind: "reference data",
                reference: data_type.to_owned(),
                realm: session.realm.name.to_string(),
            });
        }
        let mut reports = Vec::with_capacity(sources.len());
        for source in sources {
            reports.push(self.sync_one(session, &provider, source).await?);
        }
        Ok(reports)
    }

    /// Returns a page of the items of a provider.
    pub async fn page(
        &self,
        session: &Session,
        provider: &str,
        data_type: Option<&str>,
        after: Option<(&str, &str)>,
        limit: u32,
    ) -> Result<ReferencePage, RegistryError> {
        let provider = self.registry.get::<ToolProviderConfig>(session, provider, None).await?;
        let references = self.store.references(&session.realm);
        let name = &provider.meta.ref_name;
        let mut items = references.page(name, data_type, after, i64::from(limit) + 1).await?;
        let more = items.len() > limit as usize;
        items.truncate(limit as usize);
        Ok(ReferencePage { items, syncs: references.sync_states(name).await?, more })
    }

    async fn sync_one(
        &self,
        session: &Session,
        provider: &Document<ToolProviderConfig>,
        source: &ReferenceSource,
    ) -> Result<SyncReport, Unavailable> {
        let set = ReferenceSet { provider: &provider.meta.ref_name, data_type: &source.data_type };
        let references = self.store.references(&session.realm);
        let by = session.principal.id;
        let fetched = match self.fetch(session, source).await? {
            Ok(output) => extract::items(&output, source),
            Err(error) => Err(error),
        };
        let mut report = SyncReport { data_type: source.data_type.clone(), ..SyncReport::default() };
        match fetched {
            Ok(extract::Extraction { items, found, failed, errors }) => {
                let next =
                    source.ttl_seconds.map(|seconds| self.clock.now().saturating_add(Duration::from_secs(seconds)));
                let changed = references.replace(set, items, by, next).await?;
                report.items_found = found;
                (report.created, report.updated, report.deleted) = (changed.created, changed.updated, changed.deleted);
                (report.failed, report.errors) = (failed, errors);
            }
            Err(error) => {
                let next = source
                    .ttl_seconds
                    .map(|seconds| self.clock.now().saturating_add(Duration::from_secs(seconds).min(RETRY_DELAY)));
                references.record_failure(set, &error, by, next).await?;
                report.errors.push(error);
            }
        }
        self.cache.invalidate(&session.realm, set);
        Ok(report)
    }

    /// Calls the tool that lists the items of a data type. Returns its output, or the reason why the call failed.
    async fn fetch(
        &self,
        session: &Session,
        source: &ReferenceSource,
    ) -> Result<Result<serde_json::Value, String>, Unavailable> {
        let input = serde_json::Value::Object(source.input.clone());
        let request = CallRequest { tool: source.tool_ref.clone(), version: None, input };
        let (_, called) = self.calls.execute(session, request).await?;
        Ok(match called {
            DirectOutcome::Waiting(_) => {
                Err(format!("tool `{}` is a client tool and cannot list items", source.tool_ref))
            }
            DirectOutcome::Done(envelope) => match envelope.error {
                Some(error) => Err(format!("tool `{}` failed: {}: {}", source.tool_ref, error.code, error.message)),
                None if envelope.truncated => {
                    Err(format!("the output of tool `{}` is too large; increase its `maxOutputBytes`", source.tool_ref))
                }
                None => Ok(envelope.output),
            },
        })
    }
}
