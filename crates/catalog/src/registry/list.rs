//! Lists definitions page by page.

use toolwright_query::Filter;
use toolwright_store::{DocumentCursor, DocumentSort, FieldEquals, ListError, ListQuery};
use toolwright_types::{DefinitionSource, Document};

use super::{Definition, Registry, RegistryError};
use crate::access::Session;

/// The number of definitions per additional read. If the session may not read some of the definitions, additional reads
/// fill the page.
const REFILL_PAGE_SIZE: u32 = 500;

/// A page of definitions.
#[derive(Debug)]
pub struct DefinitionPage<T> {
    /// The definitions that the session may read.
    pub items: Vec<Document<T>>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<DocumentCursor>,
}

/// The filters, the order and the position of a page of definitions.
#[derive(Debug, Clone, Default)]
pub struct DefinitionQuery {
    /// Conditions on fields. A definition must match all of them.
    pub filters: Vec<FieldEquals>,
    /// A filter in the query language, applied to the JSON that the API returns for a definition.
    pub matching: Option<Filter>,
    /// The source of the definitions, such as `MANUAL`. `None` matches every source.
    pub source: Option<DefinitionSource>,
    /// The apply set that created the definitions. `None` matches every definition.
    pub apply_set: Option<String>,
    /// The sort order.
    pub sort: DocumentSort,
    /// The number of definitions per page, at most 1000.
    pub limit: u32,
    /// The cursor that the previous page returned.
    pub cursor: Option<DocumentCursor>,
}

impl Registry {
    /// Returns a page of the definitions that the session may read.
    pub async fn list<T: Definition>(
        &self,
        session: &Session,
        query: DefinitionQuery,
    ) -> Result<DefinitionPage<T>, RegistryError> {
        let DefinitionQuery { filters, matching, source, apply_set, sort, limit, cursor } = query;
        let page_size = usize::try_from(limit.clamp(1, 1000)).unwrap_or(1);
        let mut query =
            ListQuery { filters, matching, source, apply_set, sort, limit: limit.saturating_add(1), cursor };
        let mut items: Vec<Document<T>> = Vec::new();
        loop {
            let page = self.store.definitions(&session.realm).list(T::KIND, &query).await.map_err(list_error)?;
            for document in page.items {
                let document = self.decode(document)?;
                if self.is_readable(session, &document.body) {
                    items.push(document);
                }
            }
            // The cursor contains the name of the last item. The session must be allowed to read this name. So the
            // cursor is created after unreadable definitions are removed.
            if items.len() > page_size {
                items.truncate(page_size);
                let next = items.last().map(|last| DocumentCursor::after(&last.meta, sort));
                return Ok(DefinitionPage { items, next });
            }
            match page.next {
                None => return Ok(DefinitionPage { items, next: None }),
                next => (query.cursor, query.limit) = (next, REFILL_PAGE_SIZE),
            }
        }
    }

    /// Returns all definitions that match the filters and that the session may read.
    pub async fn list_all<T: Definition>(
        &self,
        session: &Session,
        filters: Vec<FieldEquals>,
    ) -> Result<Vec<Document<T>>, RegistryError> {
        let (mut all, mut cursor) = (Vec::new(), None);
        loop {
            let query = DefinitionQuery { filters: filters.clone(), limit: 1000, cursor, ..DefinitionQuery::default() };
            let page = self.list::<T>(session, query).await?;
            all.extend(page.items);
            match page.next {
                Some(next) => cursor = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// Counts the definitions that match the filters, including those that the session may not read.
    pub async fn count<T: Definition>(
        &self,
        session: &Session,
        filters: &[FieldEquals],
        matching: Option<&Filter>,
    ) -> Result<u64, RegistryError> {
        self.may_enter(session)?;
        self.store.definitions(&session.realm).count(T::KIND, filters, matching).await.map_err(list_error)
    }
}

fn list_error(error: ListError) -> RegistryError {
    match error {
        ListError::Store(inner) => inner.into(),
        other => RegistryError::List(other.to_string()),
    }
}
