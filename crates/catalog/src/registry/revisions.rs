//! Reads the revisions of definitions. Each write creates a revision.

use toolwright_store::DocumentRef;
use toolwright_types::Document;

use super::{Definition, Registry, RegistryError};
use crate::access::Session;

impl Registry {
    /// Returns at most `limit` revisions of a definition that the session may read, newest first. `newest` is the
    /// highest number to return. The second value of the result is the `newest` of the next page, if there are more
    /// revisions.
    pub async fn revisions<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
        newest: Option<i64>,
        limit: u32,
    ) -> Result<(Vec<Document<T>>, Option<i64>), RegistryError> {
        self.get::<T>(session, reference, None).await?;
        let target = DocumentRef::parse(T::KIND, reference);
        let definitions = self.store.definitions(&session.realm);
        let found = definitions.revisions(T::KIND, &target, newest.unwrap_or(i64::MAX), limit).await?;
        // Revisions are numbered from 1 without gaps.
        let next = found.last().map(|oldest| oldest.meta.revision - 1).filter(|next| *next > 0);
        let documents: Vec<Document<T>> =
            found.into_iter().map(|document| self.decode(document)).collect::<Result<_, _>>()?;
        Ok((documents.into_iter().filter(|document| self.is_readable(session, &document.body)).collect(), next))
    }

    /// Returns one revision of a definition.
    pub async fn revision<T: Definition>(
        &self,
        session: &Session,
        reference: &str,
        number: i64,
    ) -> Result<Document<T>, RegistryError> {
        let current = self.get::<T>(session, reference, None).await?;
        let target = DocumentRef::Id(current.meta.id.clone());
        let definitions = self.store.definitions(&session.realm);
        let found = definitions.revisions(T::KIND, &target, number, 1).await?.pop();
        let missing = || RegistryError::NoRevision {
            kind: T::NOUN,
            reference: reference.to_owned(),
            revision: number,
            newest: current.meta.revision,
        };
        let found = found.filter(|document| document.meta.revision == number).ok_or_else(missing)?;
        let document = self.decode::<T>(found)?;
        // An earlier revision may have another category, for which the session has no permission.
        self.may_read(session, &document.body)?;
        Ok(document)
    }
}
