//! Definitions: parsed at the door, checked as a whole, then written once or not at all.

mod batch;
mod definition;
mod generate;
mod parse;

use std::sync::Arc;

use serde_json::Value;
use toolwright_authz::Action;
use toolwright_query::Filter;
use toolwright_store::{CreateError, DeleteError, ListError, ListQuery, NewRevision, Ref, ReplaceError, Store};
pub use toolwright_store::{Cursor, Equals, Sort, SortKey};
use toolwright_tools::{DefinitionIssue, Issues};
use toolwright_types::{Document, DocumentKind, OrgId, RealmScope, RefName, Source};

pub(crate) use batch::Batch;
pub(crate) use definition::wrong_uri;
pub use definition::{Definition, Surroundings};
pub use generate::GenerateRequest;
pub(crate) use parse::merge;
pub use parse::pointer;

use crate::Unavailable;
use crate::access::{Access, Denied, Session};
use crate::catalog::Catalog;
use crate::llm::ModelShop;
use crate::records::{SqlTables, Upkeep};

/// How many definitions are read at once where a session may not see those of the first page.
const UNSEEN: u32 = 500;

/// How many writers may overtake a patch before it gives up.
const MOST_OVERTAKEN: usize = 100;

/// Reads and writes definitions of every kind. Cheap to clone.
#[derive(Clone)]
pub struct Registry {
    store: Store,
    catalog: Catalog,
    models: ModelShop,
    access: Access,
    upkeep: Upkeep,
    tables: SqlTables,
}

/// A definition that was written, and what its author should know.
#[derive(Debug)]
pub struct Saved<T> {
    /// The definition as it stands now.
    pub document: Document<T>,
    /// What the author should know.
    pub warnings: Vec<String>,
}

/// A part of a list.
#[derive(Debug)]
pub struct Listed<T> {
    /// The definitions the session may see.
    pub items: Vec<Document<T>>,
    /// Where the next page begins.
    pub next: Option<Cursor>,
}

/// Why a definition could not be read or written. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// Not permitted.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// There is none of this name.
    #[error("there is no {kind} `{reference}` in realm `{realm}`")]
    NotFound { kind: &'static str, reference: String, realm: String },
    /// There is no such version.
    #[error("{kind} `{reference}` has no version `{version}`")]
    NoVersion { kind: &'static str, reference: String, version: String },
    /// The name is taken.
    #[error("{kind} `{reference}` already exists; change it with PUT or PATCH, or choose another refName")]
    Duplicate { kind: &'static str, reference: String },
    /// Someone else wrote in between.
    #[error("the definition is at revision {current}, not at the one you read; read it again and repeat your change")]
    Stale { current: i64 },
    /// The definition is wrong.
    #[error("the definition is not valid{}", summary(.0))]
    Invalid(Issues),
    /// There are records of the type.
    #[error("type `{0}` has records; remove them first, with `deleteMany` and `\"all\": true` at /api/query")]
    HasRecords(String),
    /// The list was asked for in a way that makes no sense.
    #[error("{0}")]
    List(String),
    /// The database failed.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<toolwright_store::Unavailable> for RegistryError {
    fn from(error: toolwright_store::Unavailable) -> Self {
        RegistryError::Unavailable(error.into())
    }
}

/// Which definitions, in which order, from where on.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// All of these must hold.
    pub filters: Vec<Equals>,
    /// What must hold for the definition as it is shown; nothing when absent.
    pub matching: Option<Filter>,
    /// How they came to be; it does not matter when absent.
    pub source: Option<Source>,
    /// The order.
    pub sort: Sort,
    /// How many.
    pub limit: u32,
    /// Where the page before ended.
    pub cursor: Option<Cursor>,
}

impl Registry {
    pub(crate) fn new(
        store: Store,
        catalog: Catalog,
        models: ModelShop,
        access: Access,
        upkeep: Upkeep,
        tables: SqlTables,
    ) -> Self {
        Self { store, catalog, models, access, upkeep, tables }
    }

    /// The catalog of tools ready to call.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The databases that records may be in.
    pub(crate) fn tables(&self) -> &SqlTables {
        &self.tables
    }

    /// Writes a new definition.
    pub async fn create<T: Definition>(
        &self,
        session: &Session,
        body: Value,
        source: Source,
    ) -> Result<Saved<T>, RegistryError> {
        let mut definition: T = parse::definition(body).map_err(RegistryError::Invalid)?;
        definition.settle(&self.catalog);
        self.may_write(session, &definition)?;
        let warnings = self.check(&session.realm, &definition).await?;
        let new = new_revision(&definition, source)?;
        let by = session.principal.name.as_str();
        let created = self.store.in_realm(&session.realm).create(T::KIND, new, by).await;
        let written = created.map_err(|error| match error {
            CreateError::Duplicate(name) => RegistryError::Duplicate { kind: T::NOUN, reference: name.to_string() },
            CreateError::NameIsId(_) => invalid("/refName", error.to_string()),
            CreateError::Body(inner) => invalid("", inner.to_string()),
            CreateError::Unavailable(inner) => inner.into(),
        })?;
        self.catalog.changed();
        Ok(self.followed(session, with_body(written, definition), warnings).await)
    }

    /// Whether a definition could be written: it is valid, and the session may do so. Nothing is written.
    pub async fn may_save<T: Definition>(&self, session: &Session, definition: &T) -> Result<(), RegistryError> {
        self.may_write(session, definition)?;
        self.check(&session.realm, definition).await.map(drop)
    }

    /// The providers whose tools are to be discovered from time to time, each with a session of whoever wrote it last:
    /// what is found is imported on their authority.
    pub async fn discovering(&self, org: OrgId) -> Result<Vec<(Session, RefName)>, Unavailable> {
        let tenancy = self.store.tenancy();
        let wants = Equals { path: vec!["autoDiscoverTools".to_owned()], value: Value::Bool(true) };
        let mut found = Vec::new();
        for realm in tenancy.realms(org).await? {
            let realm = Arc::new(realm);
            let query = ListQuery { filters: vec![wants.clone()], limit: 1000, ..ListQuery::default() };
            let page = self.store.in_realm(&realm).list(DocumentKind::Provider, &query).await;
            let page = page.map_err(|error| Unavailable::new("the providers cannot be listed")(Box::new(error)))?;
            for provider in page.items {
                let Ok(name) = provider.meta.updated_by.parse() else { continue };
                let Some(principal) = tenancy.principal(org, &name).await? else { continue };
                let session = Session { principal: Arc::new(principal), realm: Arc::clone(&realm) };
                found.push((session, provider.meta.ref_name));
            }
        }
        Ok(found)
    }

    /// Replaces a definition, or adds a version to it.
    pub async fn replace<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
        expected: Option<i64>,
        body: Value,
        source: Source,
    ) -> Result<Saved<T>, RegistryError> {
        let current = self.get::<T>(session, reference, None).await?;
        let definition: T = parse::replacement(body, &current.body).map_err(RegistryError::Invalid)?;
        self.write(session, &current, expected, definition, source).await
    }

    /// Merges a patch (RFC 7396) into a definition: into the version it names, or else the present one.
    pub async fn merge<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
        expected: Option<i64>,
        patch: Value,
    ) -> Result<Saved<T>, RegistryError> {
        // Without If-Match a patch applies to whatever is there: one that another writer overtook is applied again.
        for _ in 0..MOST_OVERTAKEN {
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
    ) -> Result<Saved<T>, RegistryError> {
        let mut current = self.get::<T>(session, reference, None).await?;
        let expected = expected.or(Some(current.meta.revision));
        if let Some(version) = patch.get("version").and_then(Value::as_str)
            && let Ok(named) = self.get::<T>(session, reference, Some(version)).await
        {
            current = named;
        }
        let mut merged = serde_json::to_value(&current.body).map_err(|error| invalid("", error.to_string()))?;
        parse::merge(&mut merged, patch);
        let definition: T = parse::replacement(merged, &current.body).map_err(RegistryError::Invalid)?;
        // What was generated and then changed by a person is that person's from then on.
        let source = match current.meta.source {
            Source::AutoGenerated | Source::DatabaseImported => Source::Manual,
            Source::OpenapiImported if T::KIND == DocumentKind::Type => Source::Manual,
            other => other,
        };
        self.write(session, &current, expected, definition, source).await
    }

    /// Removes a definition with all its versions.
    pub async fn delete<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
        expected: Option<i64>,
    ) -> Result<(), RegistryError> {
        let current = self.get::<T>(session, reference, None).await?;
        self.access.require(session, Action::Write, current.body.resource())?;
        let deleted =
            self.store.in_realm(&session.realm).delete(T::KIND, &Ref::Id(current.meta.id.clone()), expected).await;
        deleted.map_err(|error| match error {
            DeleteError::NotFound => not_found::<T>(session, reference),
            DeleteError::Stale { current } => RegistryError::Stale { current },
            DeleteError::HasRecords => RegistryError::HasRecords(current.meta.ref_name.to_string()),
            DeleteError::Unavailable(inner) => inner.into(),
        })?;
        self.catalog.changed();
        if let Err(error) = T::removed(&current, &self.upkeep, &session.realm).await {
            tracing::error!(error = &error as &dyn std::error::Error, "what followed from a definition is still there");
        }
        Ok(())
    }

    /// A definition, at its head or in one version.
    pub async fn get<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
        version: Option<&str>,
    ) -> Result<Document<T>, RegistryError> {
        let definitions = self.store.in_realm(&session.realm);
        let wanted = Ref::parse(T::KIND, reference);
        let found = match version {
            None => definitions.get(T::KIND, &wanted).await?,
            Some(text) => {
                let missing =
                    || RegistryError::NoVersion { kind: T::NOUN, reference: reference.into(), version: text.into() };
                let version = text.parse().map_err(|_| missing())?;
                match definitions.get_version(T::KIND, &wanted, &version).await? {
                    None if definitions.get(T::KIND, &wanted).await?.is_some() => return Err(missing()),
                    found => found,
                }
            }
        };
        let document = self.typed(found.ok_or_else(|| not_found::<T>(session, reference))?)?;
        self.access.require(session, Action::Read, T::resource(&document.body))?;
        Ok(document)
    }

    /// All versions of a definition, highest first.
    pub async fn versions<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
    ) -> Result<Vec<Document<T>>, RegistryError> {
        let wanted = Ref::parse(T::KIND, reference);
        let found = self.store.in_realm(&session.realm).versions(T::KIND, &wanted).await?;
        if found.is_empty() {
            return Err(not_found::<T>(session, reference));
        }
        let documents: Vec<Document<T>> =
            found.into_iter().map(|document| self.typed(document)).collect::<Result<_, _>>()?;
        Ok(documents.into_iter().filter(|document| self.visible(session, &document.body)).collect())
    }

    /// A page of definitions.
    pub async fn list<T: Definition>(&self, session: &Session, wanted: Wanted) -> Result<Listed<T>, RegistryError> {
        let Wanted { filters, matching, source, sort, limit, cursor } = wanted;
        let most = usize::try_from(limit.clamp(1, 1000)).unwrap_or(1);
        let mut query = ListQuery { filters, matching, source, sort, limit: limit.saturating_add(1), cursor };
        let mut items: Vec<Document<T>> = Vec::new();
        loop {
            let page = self.store.in_realm(&session.realm).list(T::KIND, &query).await.map_err(list_error)?;
            for document in page.items {
                let document = self.typed(document)?;
                if self.visible(session, &document.body) {
                    items.push(document);
                }
            }
            // A cursor names the last item: it must be one that the session has seen.
            if items.len() > most {
                items.truncate(most);
                let next = items.last().map(|last| Cursor::after(&last.meta, sort));
                return Ok(Listed { items, next });
            }
            match page.next {
                None => return Ok(Listed { items, next: None }),
                next => (query.cursor, query.limit) = (next, UNSEEN),
            }
        }
    }

    /// Lets the session see a definition, or says why not.
    pub fn may_read<T: Definition>(&self, session: &Session, definition: &T) -> Result<(), Denied> {
        self.access.require(session, Action::Read, definition.resource())
    }

    /// Lets the session into its realm at all, or says why not.
    pub fn may_enter(&self, session: &Session) -> Result<(), Denied> {
        self.access.require(session, Action::Read, toolwright_authz::Resource::Realm)
    }

    /// How many definitions pass the filters.
    pub async fn count<T: Definition>(
        &self,
        session: &Session,
        filters: &[Equals],
        matching: Option<&Filter>,
    ) -> Result<u64, RegistryError> {
        self.may_enter(session)?;
        self.store.in_realm(&session.realm).count(T::KIND, filters, matching).await.map_err(list_error)
    }

    async fn write<T: Definition>(
        &self,
        session: &Session,
        current: &Document<T>,
        expected: Option<i64>,
        mut definition: T,
        source: Source,
    ) -> Result<Saved<T>, RegistryError> {
        definition.settle(&self.catalog);
        // Both sides of the change need the permission: moving a tool to another category must not evade it.
        self.access.require(session, Action::Write, current.body.resource())?;
        self.may_write(session, &definition)?;
        let warnings = self.check(&session.realm, &definition).await?;
        let new = new_revision(&definition, source)?;
        let target = Ref::Id(current.meta.id.clone());
        let by = session.principal.name.as_str();
        let replaced = self.store.in_realm(&session.realm).replace(T::KIND, &target, expected, new, by).await;
        let written = replaced.map_err(|error| match error {
            ReplaceError::NotFound => not_found::<T>(session, current.meta.ref_name.as_str()),
            ReplaceError::Stale { current } => RegistryError::Stale { current },
            ReplaceError::Duplicate(name) => RegistryError::Duplicate { kind: T::NOUN, reference: name.to_string() },
            ReplaceError::NameIsId(_) => invalid("/refName", error.to_string()),
            ReplaceError::Body(inner) => invalid("", inner.to_string()),
            ReplaceError::Unavailable(inner) => inner.into(),
        })?;
        self.catalog.changed();
        Ok(self.followed(session, with_body(written, definition), warnings).await)
    }

    /// The definition is written, so what follows from it cannot refuse it any more.
    async fn followed<T: Definition>(
        &self,
        session: &Session,
        document: Document<T>,
        mut warnings: Vec<String>,
    ) -> Saved<T> {
        match T::written(&document, &self.upkeep, &session.realm).await {
            Ok(more) => warnings.extend(more),
            Err(error) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "what follows from a definition was not made"
                );
                warnings.push(format!("{error}: what follows from this {} is not up to date; save it again", T::NOUN));
            }
        }
        Saved { document, warnings }
    }

    async fn check<T: Definition>(&self, realm: &RealmScope, definition: &T) -> Result<Vec<String>, RegistryError> {
        let around = Surroundings { catalog: &self.catalog, models: &self.models, realm };
        let mut warnings = definition.check(&around).await?.map_err(RegistryError::Invalid)?;
        warnings.extend(definition.look_around(&self.tables, realm).await.map_err(RegistryError::Invalid)?);
        Ok(warnings)
    }

    fn may_write<T: Definition>(&self, session: &Session, definition: &T) -> Result<(), Denied> {
        self.access.require(session, Action::Write, definition.resource())?;
        match definition.also_needs() {
            Some((action, resource)) => self.access.require(session, action, resource),
            None => Ok(()),
        }
    }

    fn visible<T: Definition>(&self, session: &Session, definition: &T) -> bool {
        self.may_read(session, definition).is_ok()
    }

    fn typed<T: Definition>(&self, document: Document<Value>) -> Result<Document<T>, RegistryError> {
        document.try_map(serde_json::from_value).map_err(|error| {
            Unavailable::new("a stored definition cannot be read by this release")(Box::new(error)).into()
        })
    }
}

fn new_revision<T: Definition>(definition: &T, source: Source) -> Result<NewRevision, RegistryError> {
    Ok(NewRevision {
        ref_name: definition.ref_name().clone(),
        version: definition.version().cloned(),
        active: definition.is_active(),
        source,
        body: serde_json::to_value(definition).map_err(|error| invalid("", error.to_string()))?,
    })
}

fn with_body<T>(written: Document<Value>, definition: T) -> Document<T> {
    written.map(|_| definition)
}

/// The first issue and how many there are; all of them stand in the list beside it.
fn summary(issues: &Issues) -> String {
    match issues.0.as_slice() {
        [] => String::new(),
        [one] => format!(": {}: {}", one.path, one.message),
        [first, ..] => format!(" in {} places, the first: {}: {}", issues.0.len(), first.path, first.message),
    }
}

fn not_found<T: Definition>(session: &Session, reference: &str) -> RegistryError {
    RegistryError::NotFound { kind: T::NOUN, reference: reference.to_owned(), realm: session.realm.name.to_string() }
}

fn invalid(path: &str, message: String) -> RegistryError {
    RegistryError::Invalid(Issues(vec![DefinitionIssue { path: path.to_owned(), message }]))
}

fn list_error(error: ListError) -> RegistryError {
    match error {
        ListError::Unavailable(inner) => inner.into(),
        other => RegistryError::List(other.to_string()),
    }
}
