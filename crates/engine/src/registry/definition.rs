//! What the kinds of definitions have in common.

use std::future::Future;

use semver::Version;
use serde::Serialize;
use serde::de::DeserializeOwned;
use toolwright_authz::Resource;
use toolwright_tools::Issues;
use toolwright_tools::http::CompiledProvider;
use toolwright_types::{
    Document, DocumentKind, Meta, RealmScope, RefName, Source, Status, Timestamp, ToolDefinition, ToolProviderConfig,
};

use crate::Unavailable;
use crate::catalog::Catalog;

/// A kind of definition.
pub trait Definition: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Where it is stored.
    const KIND: DocumentKind;
    /// What people call it.
    const NOUN: &'static str;

    /// Its name.
    fn ref_name(&self) -> &RefName;

    /// What permissions speak of.
    fn resource(&self) -> Resource<'_>;

    /// Its version, for kinds that have them.
    fn version(&self) -> Option<&Version> {
        None
    }

    /// Whether this version is offered.
    fn is_active(&self) -> bool {
        true
    }

    /// Everything that is wrong with it, or what its author should know.
    fn check(
        &self,
        catalog: &Catalog,
        realm: &RealmScope,
    ) -> impl Future<Output = Result<Result<Vec<String>, Issues>, Unavailable>> + Send;
}

impl Definition for ToolDefinition {
    const KIND: DocumentKind = DocumentKind::Tool;
    const NOUN: &'static str = "tool";

    fn ref_name(&self) -> &RefName {
        &self.ref_name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::Tool { category: self.category.as_deref(), name: self.ref_name.as_str() }
    }

    fn version(&self) -> Option<&Version> {
        Some(&self.version)
    }

    fn is_active(&self) -> bool {
        self.status == Status::Active
    }

    async fn check(&self, catalog: &Catalog, realm: &RealmScope) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        let compiled = catalog.compile(realm, unsaved(self)).await?;
        Ok(compiled.map(|tool| tool.warnings().to_vec()))
    }
}

impl Definition for ToolProviderConfig {
    const KIND: DocumentKind = DocumentKind::Provider;
    const NOUN: &'static str = "provider";

    fn ref_name(&self) -> &RefName {
        &self.ref_name
    }

    fn resource(&self) -> Resource<'_> {
        Resource::Provider { name: self.ref_name.as_str() }
    }

    async fn check(&self, _catalog: &Catalog, _realm: &RealmScope) -> Result<Result<Vec<String>, Issues>, Unavailable> {
        Ok(CompiledProvider::compile(unsaved(self)).map(|_| Vec::new()))
    }
}

/// A document around a definition that is not stored, or not yet.
pub(crate) fn unsaved<T: Definition + Clone>(definition: &T) -> Document<T> {
    let never = Timestamp::from_micros(0);
    Document {
        meta: Meta {
            id: String::new(),
            ref_name: definition.ref_name().clone(),
            source: Source::Manual,
            revision: 0,
            content_hash: String::new(),
            created_by: String::new(),
            created_at: never,
            updated_by: String::new(),
            updated_at: never,
        },
        body: definition.clone(),
    }
}
