//! Reads and writes definitions: parses and validates them, and checks the permissions of the session.

mod agent;
mod agentic;
mod apply;
mod batch;
mod definition;
mod entity_type;
mod error;
mod hooks;
mod list;
mod origin;
mod parse;
mod revisions;
mod signature;
mod trigger;
mod users;
mod uses;
mod workflow;
mod workflow_check;

use std::sync::Arc;

use semver::{Version, VersionReq};
use serde_json::Value;
use toolwright_authz::Action;
use toolwright_store::{CreateError, DeleteError, DocumentRef, ListQuery, NewRevision, ReplaceError, Store};
pub use toolwright_store::{DocumentCursor, DocumentSort, DocumentSortKey, FieldEquals};
use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::{DefinitionSource, Document, DocumentKind, OrgId, RealmScope, RefName, ToolStatus};

pub use apply::{AppliedDefinition, ApplyError, ApplyOptions, ApplyOutcome, InvalidElement, ToolInUse};
pub use batch::Batch;
pub use definition::{Definition, ValidationContext, WrittenNames, security_uri_issue};
pub use error::RegistryError;
pub use hooks::TypeHooks;
pub use list::{DefinitionPage, DefinitionQuery};
pub use origin::WriteOrigin;
pub use parse::{json_pointer, merge_patch};
pub use uses::{Use, Uses};
pub(crate) use uses::{record_tools, referenced_tools};
pub use workflow::WorkflowPlan;

use crate::Unavailable;
use crate::access::{Access, Denied, Session};
use crate::catalog::{Catalog, Versioned, select_version};
use crate::model_registry::{ModelInfo, ModelRegistry};

/// The maximum number of times that a patch is applied again after a concurrent write.
const MAX_PATCH_RETRIES: usize = 100;

/// Reads and writes definitions of every kind. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    store: Store,
    catalog: Catalog,
    models: ModelRegistry,
    access: Access,
    hooks: Arc<dyn TypeHooks>,
}

/// A version of a definition that a version requirement may select.
struct Candidate {
    version: Version,
    status: ToolStatus,
    document: Document<Value>,
}

impl Versioned for Candidate {
    fn version(&self) -> &Version {
        &self.version
    }

    fn status(&self) -> ToolStatus {
        self.status
    }
}

/// A saved definition, with warnings for its author.
#[derive(Debug)]
pub struct SavedDefinition<T> {
    /// The saved document.
    pub document: Document<T>,
    /// Warnings for the author.
    pub warnings: Vec<String>,
}

impl Registry {
    /// Creates a registry. The hooks are called when entity types change.
    pub fn new(
        store: Store,
        catalog: Catalog,
        models: ModelRegistry,
        access: Access,
        hooks: Arc<dyn TypeHooks>,
    ) -> Self {
        Self { store, catalog, models, access, hooks }
    }

    /// Returns the catalog of compiled definitions.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Returns the models for which the realm of the session has prices, and the default model, sorted by name.
    pub fn known_models(&self, session: &Session) -> Result<Vec<ModelInfo>, Denied> {
        self.may_enter(session)?;
        Ok(self.models.known_models(&session.realm))
    }

    /// Creates a definition.
    pub async fn create<T: Definition>(
        &self,
        session: &Session,
        body: Value,
        origin: impl Into<WriteOrigin> + Send,
    ) -> Result<SavedDefinition<T>, RegistryError> {
        let origin = origin.into();
        let definition: T = self.parse(body)?;
        self.may_write(session, &definition)?;
        let warnings = self.check(&session.realm, &definition).await?;
        let new = new_revision(&definition, origin)?;
        let by = session.principal.name.as_str();
        let created = self.store.definitions(&session.realm).create(T::KIND, new, by).await;
        let written = created.map_err(|error| match error {
            CreateError::Duplicate(name) => RegistryError::Duplicate { kind: T::NOUN, reference: name.to_string() },
            CreateError::NameIsId(_) => invalid("/refName", error.to_string()),
            CreateError::Body(inner) => invalid("", inner.to_string()),
            CreateError::Store(inner) => inner.into(),
        })?;
        self.catalog.invalidate();
        Ok(self.run_save_hooks(session, with_body(written, definition), warnings).await)
    }

    /// Parses a definition without checking or writing it.
    pub fn parse<T: Definition>(&self, body: Value) -> Result<T, RegistryError> {
        let mut definition: T = parse::definition(body).map_err(RegistryError::Invalid)?;
        definition.infer_omitted_fields(&self.catalog);
        Ok(definition)
    }

    /// Checks that a definition is valid and that the session may write it, without writing it.
    pub async fn validate<T: Definition>(&self, session: &Session, definition: &T) -> Result<(), RegistryError> {
        self.may_write(session, definition)?;
        self.check(&session.realm, definition).await.map(drop)
    }

    /// Returns the providers with `autoDiscoverTools`. Each provider comes with a session of the principal that wrote
    /// it last. Discovered tools are imported with the permissions of that principal.
    pub async fn auto_discovery_providers(&self, org: OrgId) -> Result<Vec<(Session, RefName)>, Unavailable> {
        let tenancy = self.store.tenancy();
        let enabled = FieldEquals { path: vec!["autoDiscoverTools".to_owned()], value: Value::Bool(true) };
        let mut found = Vec::new();
        for realm in tenancy.realms(org).await? {
            let realm = Arc::new(realm);
            let query = ListQuery { filters: vec![enabled.clone()], limit: 1000, ..ListQuery::default() };
            let page = self.store.definitions(&realm).list(DocumentKind::Provider, &query).await;
            let page = page.map_err(|error| Unavailable::new("the providers could not be listed", error))?;
            for provider in page.items {
                let Ok(name) = provider.meta.updated_by.parse() else { continue };
                let Some(principal) = tenancy.principal(org, &name).await? else { continue };
                let session = Session::new(Arc::new(principal), Arc::clone(&realm));
                found.push((session, provider.meta.ref_name));
            }
        }
        Ok(found)
    }

    /// Replaces a definition or adds a version to it.
    pub async fn replace<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
        expected: Option<i64>,
        body: Value,
        origin: impl Into<WriteOrigin> + Send,
    ) -> Result<SavedDefinition<T>, RegistryError> {
        let origin = origin.into();
        let current = self.get::<T>(session, reference, None).await?;
        let definition: T = parse::replacement(body, &current.body).map_err(RegistryError::Invalid)?;
        self.write(session, &current, expected, definition, origin).await
    }

    /// Applies a JSON merge patch (RFC 7396) to the version in the field `version` of the patch. This version must
    /// exist. Without the field, the patch is applied to the current version.
    pub async fn merge<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
        expected: Option<i64>,
        mut patch: Value,
    ) -> Result<SavedDefinition<T>, RegistryError> {
        if let Value::Object(fields) = &mut patch {
            T::expand_patch(fields).map_err(RegistryError::Invalid)?;
        }
        // Without `expected` (the header `If-Match`), a patch applies to any revision. So it is retried after a
        // concurrent write.
        for _ in 0..MAX_PATCH_RETRIES {
            match self.merge_once(session, reference, expected, patch.clone()).await {
                Err(RegistryError::Stale { .. }) if expected.is_none() => {}
                result => return result,
            }
        }
        self.merge_once(session, reference, expected, patch).await
    }

    async fn merge_once<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
        expected: Option<i64>,
        patch: Value,
    ) -> Result<SavedDefinition<T>, RegistryError> {
        let mut current = self.get::<T>(session, reference, None).await?;
        let expected = expected.or(Some(current.meta.revision));
        // A patch never adds a version. Otherwise a patch with a mistyped version would add a version and leave the
        // intended version unchanged.
        if let Some(version) = patch.get("version").and_then(Value::as_str)
            && T::KIND.is_versioned()
            && version.parse::<Version>().is_ok()
        {
            current = self.get::<T>(session, reference, Some(version)).await?;
        }
        let mut merged = serde_json::to_value(&current.body).map_err(|error| invalid("", error.to_string()))?;
        parse::merge_patch(&mut merged, patch);
        let definition: T = parse::replacement(merged, &current.body).map_err(RegistryError::Invalid)?;
        // The source becomes manual, so that generators and imports do not overwrite the manual change.
        let source = match current.meta.source {
            DefinitionSource::AutoGenerated | DefinitionSource::DatabaseImported => DefinitionSource::Manual,
            DefinitionSource::OpenapiImported if T::KIND == DocumentKind::Type => DefinitionSource::Manual,
            other => other,
        };
        self.write(session, &current, expected, definition, source.into()).await
    }

    /// Deletes a definition with all its versions. Returns a warning if other definitions use it.
    pub async fn delete<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
        expected: Option<i64>,
    ) -> Result<Option<String>, RegistryError> {
        let current = self.get::<T>(session, reference, None).await?;
        self.access.require(session, Action::Write, current.body.resource())?;
        let users = T::users(&current, self, session).await.unwrap_or_else(|error| {
            tracing::warn!(error = &error as &dyn std::error::Error, "could not list the users of a definition");
            None
        });
        let deleted = self
            .store
            .definitions(&session.realm)
            .delete(T::KIND, &DocumentRef::Id(current.meta.id.clone()), expected)
            .await;
        deleted.map_err(|error| match error {
            DeleteError::NotFound => not_found::<T>(session, reference),
            DeleteError::Stale { current } => RegistryError::Stale { current },
            DeleteError::HasRecords => RegistryError::HasRecords(current.meta.ref_name.to_string()),
            DeleteError::Store(inner) => inner.into(),
        })?;
        self.catalog.invalidate();
        if let Err(error) = T::after_delete(&current, &*self.hooks, &session.realm).await {
            tracing::error!(
                error = &error as &dyn std::error::Error,
                "could not remove the dependent data of a deleted definition"
            );
        }
        Ok(users)
    }

    /// Returns a version of a definition; `None` means the current version. For kinds without versions, a version is
    /// the number of a revision.
    pub async fn get<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
        version: Option<&str>,
    ) -> Result<Document<T>, RegistryError> {
        let definitions = self.store.definitions(&session.realm);
        let target = DocumentRef::parse(T::KIND, reference);
        let found = match version {
            None => definitions.get(T::KIND, &target).await?,
            Some(text) => match self.stored_version::<T>(session, &target, text).await? {
                None if definitions.get(T::KIND, &target).await?.is_some() => {
                    return Err(self.no_version::<T>(session, reference, text).await?);
                }
                found => found,
            },
        };
        let document = self.decode(found.ok_or_else(|| not_found::<T>(session, reference))?)?;
        self.access.require(session, Action::Read, T::resource(&document.body))?;
        Ok(document)
    }

    /// Returns the error for a version that does not exist. Names only the versions that the session may read.
    async fn no_version<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
        version: &str,
    ) -> Result<RegistryError, RegistryError> {
        let versions = if T::KIND.is_versioned() { self.versions::<T>(session, reference).await? } else { Vec::new() };
        let available = versions.iter().filter_map(|document| document.body.version()).map(ToString::to_string);
        Ok(RegistryError::NoVersion {
            kind: T::NOUN,
            reference: reference.to_owned(),
            version: version.to_owned(),
            available: available.collect(),
        })
    }

    /// Returns the document that `text` selects: an exact version, the best match for a requirement such as `^1.2`, or
    /// a revision.
    async fn stored_version<T: Definition>(
        &self,
        session: &Session,
        target: &DocumentRef,
        text: &str,
    ) -> Result<Option<Document<Value>>, RegistryError> {
        let definitions = self.store.definitions(&session.realm);
        if !T::KIND.is_versioned() {
            let Ok(revision) = text.parse() else { return Ok(None) };
            let newest = definitions.revisions(T::KIND, target, revision, 1).await?.pop();
            return Ok(newest.filter(|document| document.meta.revision == revision));
        }
        if let Ok(version) = text.parse() {
            return Ok(definitions.get_version(T::KIND, target, &version).await?);
        }
        let Ok(requirement) = text.parse::<VersionReq>() else { return Ok(None) };
        let mut candidates = Vec::new();
        for document in definitions.versions(T::KIND, target).await? {
            let body = self.decode::<T>(document.clone())?.body;
            candidates.extend(body.version().cloned().map(|version| Candidate {
                version,
                status: body.status(),
                document,
            }));
        }
        Ok(select_version(&candidates, Some(&requirement)).map(|candidate| candidate.document.clone()))
    }

    /// Returns all versions of a definition that the session may read, highest first.
    pub async fn versions<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
    ) -> Result<Vec<Document<T>>, RegistryError> {
        let target = DocumentRef::parse(T::KIND, reference);
        let found = self.store.definitions(&session.realm).versions(T::KIND, &target).await?;
        if found.is_empty() {
            return Err(not_found::<T>(session, reference));
        }
        let documents: Vec<Document<T>> =
            found.into_iter().map(|document| self.decode(document)).collect::<Result<_, _>>()?;
        Ok(documents.into_iter().filter(|document| self.is_readable(session, &document.body)).collect())
    }

    /// Checks that the session may read a definition.
    pub fn may_read<T: Definition>(&self, session: &Session, definition: &T) -> Result<(), Denied> {
        self.access.require(session, Action::Read, definition.resource())
    }

    /// Checks that the session may enter its realm.
    pub fn may_enter(&self, session: &Session) -> Result<(), Denied> {
        self.access.require(session, Action::Read, toolwright_authz::Resource::Realm)
    }

    async fn write<T: Definition>(
        &self,
        session: &Session,
        current: &Document<T>,
        expected: Option<i64>,
        mut definition: T,
        origin: WriteOrigin,
    ) -> Result<SavedDefinition<T>, RegistryError> {
        definition.infer_omitted_fields(&self.catalog);
        // The session needs the permission for the old and for the new definition. Otherwise it could change a tool
        // that it may not write, by moving the tool into a category that it may write.
        self.access.require(session, Action::Write, current.body.resource())?;
        self.may_write(session, &definition)?;
        let warnings = self.check(&session.realm, &definition).await?;
        let new = new_revision(&definition, origin)?;
        let target = DocumentRef::Id(current.meta.id.clone());
        let by = session.principal.name.as_str();
        let replaced = self.store.definitions(&session.realm).replace(T::KIND, &target, expected, new, by).await;
        let written = replaced.map_err(|error| match error {
            ReplaceError::NotFound => not_found::<T>(session, current.meta.ref_name.as_str()),
            ReplaceError::Stale { current } => RegistryError::Stale { current },
            ReplaceError::OtherSet(set) => other_set(current.meta.ref_name.as_str(), set),
            ReplaceError::Duplicate(name) => RegistryError::Duplicate { kind: T::NOUN, reference: name.to_string() },
            ReplaceError::NameIsId(_) => invalid("/refName", error.to_string()),
            ReplaceError::Body(inner) => invalid("", inner.to_string()),
            ReplaceError::Store(inner) => inner.into(),
        })?;
        self.catalog.invalidate();
        Ok(self.run_save_hooks(session, with_body(written, definition), warnings).await)
    }

    /// Updates the dependent data of a saved definition. A failure becomes a warning, because the definition is already
    /// saved.
    async fn run_save_hooks<T: Definition>(
        &self,
        session: &Session,
        document: Document<T>,
        mut warnings: Vec<String>,
    ) -> SavedDefinition<T> {
        match T::after_save(&document, &*self.hooks, &session.realm).await {
            Ok(more) => warnings.extend(more),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "could not update the dependent data of a definition"
                );
                warnings
                    .push(format!("{error}: indexes and tools of this {} are not up to date; save it again", T::NOUN));
            }
        }
        SavedDefinition { document, warnings }
    }

    /// Checks a stored definition again, as a save does. Returns warnings for its author.
    pub async fn recheck<T: Definition>(
        &self,
        session: &Session,
        definition: &T,
    ) -> Result<Vec<String>, RegistryError> {
        self.check(&session.realm, definition).await
    }

    async fn check<T: Definition>(&self, realm: &RealmScope, definition: &T) -> Result<Vec<String>, RegistryError> {
        self.check_among(realm, definition, WrittenNames::default()).await
    }

    /// Checks a definition that is written together with others.
    async fn check_among<T: Definition>(
        &self,
        realm: &RealmScope,
        definition: &T,
        written: WrittenNames,
    ) -> Result<Vec<String>, RegistryError> {
        let context = ValidationContext { catalog: &self.catalog, models: &self.models, realm, written };
        let mut warnings = definition.check(&context).await?.map_err(RegistryError::Invalid)?;
        warnings.extend(definition.check_external(&*self.hooks, realm).await.map_err(RegistryError::Invalid)?);
        Ok(warnings)
    }

    /// Checks that the session may write a definition.
    pub fn may_write<T: Definition>(&self, session: &Session, definition: &T) -> Result<(), Denied> {
        self.access.require(session, Action::Write, definition.resource())?;
        match definition.additional_permission() {
            Some((action, resource)) => self.access.require(session, action, resource),
            None => Ok(()),
        }
    }

    fn is_readable<T: Definition>(&self, session: &Session, definition: &T) -> bool {
        self.may_read(session, definition).is_ok()
    }

    fn decode<T: Definition>(&self, document: Document<Value>) -> Result<Document<T>, RegistryError> {
        document
            .try_map(serde_json::from_value)
            .map_err(|error| Unavailable::new("a stored definition is not valid in this release", error).into())
    }
}

fn new_revision<T: Definition>(definition: &T, origin: WriteOrigin) -> Result<NewRevision, RegistryError> {
    Ok(NewRevision {
        ref_name: definition.ref_name().clone(),
        version: definition.version().cloned(),
        active: definition.is_active(),
        source: origin.source,
        apply_set: origin.apply_set,
        body: serde_json::to_value(definition).map_err(|error| invalid("", error.to_string()))?,
    })
}

fn with_body<T>(written: Document<Value>, definition: T) -> Document<T> {
    written.map(|_| definition)
}

fn not_found<T: Definition>(session: &Session, reference: &str) -> RegistryError {
    RegistryError::NotFound { kind: T::NOUN, reference: reference.to_owned(), realm: session.realm.name.to_string() }
}

fn other_set(reference: &str, set: String) -> RegistryError {
    RegistryError::OtherSet { reference: reference.to_owned(), set }
}

fn invalid(path: &str, message: String) -> RegistryError {
    RegistryError::Invalid(Issues(vec![DefinitionIssue { path: path.to_owned(), message }]))
}
