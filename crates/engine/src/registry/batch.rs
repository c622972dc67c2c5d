//! Many definitions at once, which were checked: all of them are written, or none.

use serde_json::Value;
use toolwright_authz::{Action, Resource};
use toolwright_store::{BatchError, BatchWrite, CreateError, NewRevision, ReplaceError};
use toolwright_types::{Document, RefName, Source, TypeDefinition};

use super::{Definition, Registry, RegistryError, invalid, new_revision};
use crate::access::{Denied, Session};

/// Definitions to be written together.
#[derive(Default)]
pub(crate) struct Batch(Vec<BatchWrite>);

impl Batch {
    /// Adds a definition: in the place of `current`, or as a new one.
    pub fn add<T: Definition>(&mut self, current: Option<&Document<T>>, new: NewRevision) {
        let onto = current.map(|current| (current.meta.id.clone(), current.meta.revision));
        self.0.push(BatchWrite { kind: T::KIND, onto, new });
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Registry {
    /// A definition as it is stored, if it can be.
    pub(crate) fn storable<T: Definition>(definition: &T, source: Source) -> Result<NewRevision, RegistryError> {
        let new = new_revision(definition, source)?;
        new.check().map_err(|error| invalid("", error.to_string()))?;
        Ok(new)
    }

    /// Lets the session write a definition in the place of another, or says why not.
    pub(crate) fn may_replace<T: Definition>(
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

    /// A definition, if there is one.
    pub(crate) async fn find<T: Definition>(
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

    /// Writes everything, and forgets what was compiled once.
    pub(crate) async fn write_all(
        &self,
        session: &Session,
        batch: Batch,
    ) -> Result<Vec<Document<Value>>, RegistryError> {
        let by = session.principal.name.as_str();
        let written = self.store.in_realm(&session.realm).write_all(batch.0, by).await.map_err(failed)?;
        self.catalog.changed();
        Ok(written)
    }
}

impl Registry {
    /// Writes types, and brings up to date what follows from them. Gives what their author should know.
    pub(crate) async fn write_types(&self, session: &Session, batch: Batch) -> Result<Vec<String>, RegistryError> {
        let mut warnings = Vec::new();
        for document in self.write_all(session, batch).await? {
            let document: Document<TypeDefinition> = self.typed(document)?;
            let name = document.meta.ref_name.clone();
            let saved = self.followed(session, document, Vec::new()).await;
            warnings.extend(saved.warnings.into_iter().map(|warning| format!("{name}: {warning}")));
        }
        Ok(warnings)
    }

    /// Lets the session make use of a secret that it could have set, or says why not.
    pub(crate) fn may_use_secret(&self, session: &Session, name: &str) -> Result<(), RegistryError> {
        Ok(self.access.require(session, Action::Write, Resource::Secret { name, owner: None })?)
    }
}

fn failed(error: BatchError) -> RegistryError {
    let duplicate = |name: RefName| RegistryError::Duplicate { kind: "definition", reference: name.to_string() };
    match error {
        BatchError::Unavailable(inner) => inner.into(),
        BatchError::Create { source: CreateError::Unavailable(inner), .. } => inner.into(),
        BatchError::Replace { source: ReplaceError::Unavailable(inner), .. } => inner.into(),
        BatchError::Create { source: CreateError::Duplicate(name), .. } => duplicate(name),
        BatchError::Replace { source: ReplaceError::Duplicate(name), .. } => duplicate(name),
        BatchError::Replace { source: ReplaceError::Stale { current }, .. } => RegistryError::Stale { current },
        BatchError::Replace { name, source: ReplaceError::NotFound } => {
            RegistryError::NotFound { kind: "definition", reference: name.to_string(), realm: "this realm".to_owned() }
        }
        BatchError::Create { name, source } => invalid("/refName", format!("`{name}`: {source}")),
        BatchError::Replace { name, source } => invalid("/refName", format!("`{name}`: {source}")),
        BatchError::Body { name, source } => invalid("", format!("`{name}`: {source}")),
    }
}
