//! Writes several validated definitions in one transaction.

use serde_json::Value;
use toolwright_authz::{Action, Resource};
use toolwright_store::{BatchError, BatchWrite, CreateError, NewRevision, ReplaceError};
use toolwright_types::{DefinitionSource, Document, RefName, TypeDefinition};

use super::{Definition, Registry, RegistryError, invalid, new_revision, other_set};
use crate::access::{Denied, Session};

/// Definitions that are written in one transaction.
#[derive(Default)]
pub struct Batch(Vec<BatchWrite>);

impl Batch {
    /// Adds a definition that replaces `current`; `None` for a new definition.
    pub fn add<T: Definition>(&mut self, current: Option<&Document<T>>, new: NewRevision) {
        let replaces = current.map(|current| (current.meta.id.clone(), current.meta.revision));
        self.0.push(BatchWrite { kind: T::KIND, replaces, new });
    }

    /// Whether the batch has no definitions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Registry {
    /// Converts a definition to a revision and checks that it can be stored.
    pub fn prepare_revision<T: Definition>(
        definition: &T,
        source: DefinitionSource,
    ) -> Result<NewRevision, RegistryError> {
        let new = new_revision(definition, source.into())?;
        new.check().map_err(|error| invalid("", error.to_string()))?;
        Ok(new)
    }

    /// Checks that the session may replace `current` by `definition`. Without `current`, checks that it may create the
    /// definition.
    pub fn may_replace<T: Definition>(
        &self,
        session: &Session,
        current: Option<&Document<T>>,
        definition: &T,
    ) -> Result<(), Denied> {
        if let Some(current) = current {
            self.access.require(session, Action::Write, current.body.resource())?;
        }
        self.may_write(session, definition)
    }

    /// Checks that the session may write a tool with this category and name. An import checks this before it contacts
    /// the other server. At this time, it does not know the names of the tools, so it passes the name of the provider.
    pub fn may_import_tools(&self, session: &Session, category: Option<&str>, name: &str) -> Result<(), Denied> {
        self.access.require(session, Action::Write, Resource::Tool { category, name })
    }

    /// Checks that the session may write types. An import checks this before it contacts the other server.
    pub fn may_import_types(&self, session: &Session) -> Result<(), Denied> {
        self.access.require(session, Action::Write, Resource::Type { name: "import" })
    }

    /// Returns a definition if it exists.
    pub async fn find<T: Definition>(
        &self,
        session: &Session,
        reference: &RefName,
    ) -> Result<Option<Document<T>>, RegistryError> {
        match self.get::<T>(session, reference.as_str(), None).await {
            Ok(found) => Ok(Some(found)),
            Err(RegistryError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes all definitions of a batch and invalidates the catalog.
    pub async fn write_all(&self, session: &Session, batch: Batch) -> Result<Vec<Document<Value>>, RegistryError> {
        let by = session.principal.name.as_str();
        let written = self.store.definitions(&session.realm).write_all(batch.0, by).await.map_err(batch_error)?;
        self.catalog.invalidate();
        Ok(written)
    }
}

impl Registry {
    /// Writes entity types and runs their hooks. Returns warnings for their author.
    pub async fn write_types(&self, session: &Session, batch: Batch) -> Result<Vec<String>, RegistryError> {
        let mut warnings = Vec::new();
        for document in self.write_all(session, batch).await? {
            let document: Document<TypeDefinition> = self.decode(document)?;
            let name = document.meta.ref_name.clone();
            let saved = self.run_save_hooks(session, document, Vec::new()).await;
            warnings.extend(saved.warnings.into_iter().map(|warning| format!("{name}: {warning}")));
        }
        Ok(warnings)
    }

    /// Checks that the session may refer to a secret in a definition. This requires the permission to write the secret.
    pub fn may_use_secret(&self, session: &Session, name: &str) -> Result<(), RegistryError> {
        Ok(self.access.require(session, Action::Write, Resource::Secret { name, owner: None })?)
    }
}

fn batch_error(error: BatchError) -> RegistryError {
    let duplicate = |name: RefName| RegistryError::Duplicate { kind: "definition", reference: name.to_string() };
    match error {
        BatchError::Store(inner) => inner.into(),
        BatchError::Create { source: CreateError::Store(inner), .. } => inner.into(),
        BatchError::Replace { source: ReplaceError::Store(inner), .. } => inner.into(),
        BatchError::Create { source: CreateError::Duplicate(name), .. } => duplicate(name),
        BatchError::Replace { source: ReplaceError::Duplicate(name), .. } => duplicate(name),
        BatchError::Replace { source: ReplaceError::Stale { current }, .. } => RegistryError::Stale { current },
        BatchError::Replace { name, source: ReplaceError::OtherSet(set) } => other_set(name.as_str(), set),
        BatchError::Replace { name, source: ReplaceError::NotFound } => {
            RegistryError::NotFound { kind: "definition", reference: name.to_string(), realm: "this realm".to_owned() }
        }
        BatchError::Create { name, source } => invalid("/refName", format!("`{name}`: {source}")),
        BatchError::Replace { name, source } => invalid("/refName", format!("`{name}`: {source}")),
        BatchError::Body { name, source } => invalid("", format!("`{name}`: {source}")),
    }
}
