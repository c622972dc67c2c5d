//! Finds, validates, writes and deletes records, which are the instances of entity types.
//!
//! [`Records`] checks permissions, validates queries and records, and assigns the next version. A [`RecordSource`]
//! stores the records: in the store of this server, in an external SQL table, or in an API that tools call.
//! [`RecordRules`] restricts which records and which fields a principal sees.

mod csv_io;
mod error;
mod expand;
mod generate;
mod maintenance;
mod query;
pub mod record_tools;
mod relations;
mod rest;
mod rules;
mod save;
mod source;
mod sources;
mod sql;
mod tool_caller;
mod variables;

use std::sync::Arc;

use serde_json::Value;
use toolwright_authz::{Action, Resource};
use toolwright_query::{Cursor, Filter, Query, QueryMode};
use toolwright_store::{RecordPage, Selection, Store};
use toolwright_types::{Clock, OrgId, RealmId};

pub use csv_io::{Export, ExportRequest, FailedRow, Import, ImportProgress};
pub use error::{RecordError, RequestPart};
pub use generate::GenerateRequest;
pub use maintenance::{GenerationSettings, TypeMaintenance};
pub use query::RecordQuery;
pub use record_tools::{GenerationReport, SkippedTool};
pub use rules::{NoRules, RecordAction, RecordRule, RecordRules};
pub use save::{SaveMode, SavedRecord};
pub use source::{ChangeOutcome, RecordChange, RecordSet, RecordSource, Removal};
pub use sql::{DatabaseAccess, DatabaseError, SqlTables};
pub use tool_caller::ToolCaller;

use rest::RestResources;
use sources::{Sources, StoreSource};

use toolwright_catalog::{Access, Catalog, CompiledType, Session};

/// The maximum number of records in one page.
pub const MAX_PAGE_SIZE: u32 = 1000;

/// Reads and writes records. Cheap to clone.
#[derive(Clone)]
pub struct Records {
    inner: Arc<Inner>,
    permission: PermissionBasis,
    tool_caller: Option<Arc<ToolCaller>>,
}

/// The check that decides whether access to records is permitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PermissionBasis {
    /// The policies for the entity type are checked.
    TypePolicy,
    /// Nothing more is checked, because the executor has already authorized the call to a tool that was generated for
    /// the type.
    ToolCall,
}

struct Inner {
    store: Store,
    catalog: Catalog,
    access: Access,
    sources: Sources,
    rules: Arc<dyn RecordRules>,
    clock: Arc<dyn Clock>,
    ids: save::RecordIdGenerator,
    org_names: moka::sync::Cache<OrgId, String>,
    home_realm_names: moka::sync::Cache<RealmId, String>,
}

/// A page of records.
#[derive(Debug)]
pub struct FoundRecords {
    /// The records of the page.
    pub records: Vec<Value>,
    /// The cursor of the next page; `None` on the last page.
    pub next: Option<String>,
    /// The number of records on all pages, if the query requested it.
    pub total: Option<u64>,
}

/// The result of checking a query without executing it.
#[derive(Debug)]
pub struct QueryPlan {
    /// Whether the query only filters or also fetches related records.
    pub mode: QueryMode,
    /// The paths at which related records are inserted.
    pub expand: Vec<String>,
}

impl Records {
    /// Creates a handle that checks the policies of the entity type for each operation.
    pub fn new(
        store: Store,
        tables: SqlTables,
        catalog: Catalog,
        access: Access,
        rules: Arc<dyn RecordRules>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let sources = Sources { store: StoreSource(store.clone()), sql: tables, rest: RestResources };
        let inner = Inner {
            store,
            catalog,
            access,
            sources,
            rules,
            clock,
            ids: save::RecordIdGenerator::default(),
            org_names: moka::sync::Cache::new(10_000),
            home_realm_names: moka::sync::Cache::new(10_000),
        };
        Self { inner: Arc::new(inner), permission: PermissionBasis::TypePolicy, tool_caller: None }
    }

    /// Returns a handle for generated tools. It does not check the policies of the type, because a principal that may
    /// call a generated tool may also perform the tool's operation on the type.
    pub fn authorized_by_tool(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), permission: PermissionBasis::ToolCall, tool_caller: None }
    }

    /// Returns a handle that can also read records from APIs, by calling the tools that the entity types name.
    pub fn with_tool_caller(&self, tool_caller: ToolCaller) -> Self {
        Self { inner: Arc::clone(&self.inner), permission: self.permission, tool_caller: Some(Arc::new(tool_caller)) }
    }

    /// Returns the types whose records the session may read.
    pub async fn types(&self, session: &Session) -> Result<Vec<Arc<CompiledType>>, RecordError> {
        let all = self.inner.catalog.entity_types(&session.realm).await?;
        Ok(all.iter().filter(|entity_type| self.may_read(session, entity_type)).cloned().collect())
    }

    /// Finds a type by name. If no type has this name, the part of the name after the last dot is tried.
    pub async fn entity_type(&self, session: &Session, name: &str) -> Result<Arc<CompiledType>, RecordError> {
        let mut found = self.inner.catalog.entity_type(&session.realm, name).await?;
        if let (None, Some((_, simple))) = (&found, name.rsplit_once('.')) {
            found = self.inner.catalog.entity_type(&session.realm, simple).await?;
        }
        let short = || name.chars().take(128).collect();
        found.ok_or_else(|| RecordError::UnknownType { name: short(), realm: session.realm.name.to_string() })
    }

    /// Checks a query and returns how it would be executed.
    pub async fn plan(&self, session: &Session, entity_type: &str, query: &str) -> Result<QueryPlan, RecordError> {
        let entity_type = self.permitted_type(session, entity_type, RecordAction::Read).await?;
        let rule = self.inner.rules.rule(session, &entity_type, RecordAction::Read).await?;
        let plan = match query::parse_query(&entity_type, &rule, Some(query))? {
            Some(query) => {
                self.check_open_fields(session, &entity_type, &query.dependencies().fields, RequestPart::Query).await?;
                Some(query.output_options())
            }
            None => None,
        };
        for expansion in plan.iter().flat_map(|plan| &plan.expand) {
            self.check_expansion(session, &entity_type, expansion).await?;
        }
        Ok(QueryPlan {
            mode: plan.as_ref().map_or(QueryMode::Filter, |plan| plan.mode),
            expand: plan.into_iter().flat_map(|plan| plan.expand).map(|expansion| expansion.path).collect(),
        })
    }

    /// Returns a page of records.
    pub async fn find(
        &self,
        session: &Session,
        entity_type: &str,
        request: &RecordQuery,
    ) -> Result<FoundRecords, RecordError> {
        let entity_type = self.permitted_type(session, entity_type, RecordAction::Read).await?;
        let rule = self.inner.rules.rule(session, &entity_type, RecordAction::Read).await?;
        let resolved = self.resolve_query(session, &entity_type, &rule, request).await?;
        let limit = request.limit.min(MAX_PAGE_SIZE);
        // Requests one record more than fits on the page, to learn whether there is a next page.
        let page =
            RecordPage { sort: resolved.sort.clone(), after: resolved.after, skip: request.skip, limit: limit + 1 };
        let (source, set) = (self.source(&entity_type), self.record_set(session, &entity_type));
        let (mut records, total) = if request.total {
            let (records, total) = source.find_and_count(set, &resolved.selection, &page).await?;
            (records, Some(total))
        } else {
            (source.find(set, &resolved.selection, &page).await?, None)
        };
        let page_size = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = records.len() > page_size;
        records.truncate(page_size);
        let cursor_after = |record: &Value| {
            let id = record.get("id").and_then(Value::as_str).unwrap_or_default();
            Cursor::after(resolved.query.as_ref(), &resolved.sort, record, id)
        };
        // A cursor contains the values of the sort fields. So the cursors are built before hidden fields are removed.
        let cursors: Vec<Cursor> = records.iter().map(cursor_after).collect();
        records.iter_mut().for_each(|record| rule.remove_hidden(record));
        if let Some(plan) = &resolved.plan {
            self.expand(session, &entity_type, &plan.expand, &request.variables, &mut records).await?;
        }
        let projections = [resolved.plan.and_then(|plan| plan.fields), resolved.fields];
        for projection in projections.into_iter().flatten() {
            records.iter_mut().for_each(|record| *record = projection.apply(record));
        }
        let cut = request.max_bytes.map_or(records.len(), |max| count_fitting(&records, max));
        let more = more || cut < records.len();
        records.truncate(cut);
        let next = cut.checked_sub(1).and_then(|last| cursors.get(last)).filter(|_| more).map(Cursor::to_string);
        Ok(FoundRecords { records, next, total })
    }

    /// Returns the number of records that match.
    pub async fn count(&self, session: &Session, entity_type: &str, request: &RecordQuery) -> Result<u64, RecordError> {
        let entity_type = self.permitted_type(session, entity_type, RecordAction::Read).await?;
        let rule = self.inner.rules.rule(session, &entity_type, RecordAction::Read).await?;
        let resolved = self.resolve_query(session, &entity_type, &rule, request).await?;
        reject_expansion(&resolved.plan)?;
        self.source(&entity_type).count(self.record_set(session, &entity_type), &resolved.selection).await
    }

    /// Returns one record.
    pub async fn get(&self, session: &Session, entity_type: &str, id: &str) -> Result<Value, RecordError> {
        let entity_type = self.permitted_type(session, entity_type, RecordAction::Read).await?;
        let rule = self.inner.rules.rule(session, &entity_type, RecordAction::Read).await?;
        let mut record =
            self.fetch(session, &entity_type, &rule, id).await?.ok_or_else(|| unknown_record(&entity_type, id))?;
        rule.remove_hidden(&mut record);
        Ok(record)
    }

    /// Deletes one record. With `version`, the record is deleted only if it still has that version.
    pub async fn delete(
        &self,
        session: &Session,
        entity_type: &str,
        id: &str,
        version: Option<i64>,
    ) -> Result<(), RecordError> {
        let entity_type = self.permitted_type(session, entity_type, RecordAction::Delete).await?;
        if version.is_some() && !entity_type.definition.is_versioned() {
            let message = format!("records of type `{}` have no version; omit it", entity_type.name());
            return Err(RecordError::invalid_request(RequestPart::Version, message));
        }
        let rule = self.inner.rules.rule(session, &entity_type, RecordAction::Delete).await?;
        let selection = select_by_id(&entity_type, &rule, id);
        if self
            .source(&entity_type)
            .remove(self.record_set(session, &entity_type), &selection, Removal::One(version))
            .await?
            > 0
        {
            return Ok(());
        }
        let found =
            self.fetch(session, &entity_type, &rule, id).await?.ok_or_else(|| unknown_record(&entity_type, id))?;
        let current = save::version_of(&found);
        // The record still exists and has the expected version, so the external database ignored the deletion.
        if entity_type.definition.records.is_some() && version.is_none_or(|version| version == current) {
            let message = "the table kept the row without an error; a trigger or rule may prevent the deletion";
            return Err(RecordError::invalid_record(entity_type.name(), "", message));
        }
        Err(RecordError::Conflict { id: id.to_owned(), current })
    }

    /// Deletes the records that match a query. Deleting every record requires `all`.
    pub async fn delete_many(
        &self,
        session: &Session,
        entity_type: &str,
        request: &RecordQuery,
        all: bool,
    ) -> Result<u64, RecordError> {
        let entity_type = self.permitted_type(session, entity_type, RecordAction::Delete).await?;
        let rule = self.inner.rules.rule(session, &entity_type, RecordAction::Delete).await?;
        let resolved = self.resolve_query(session, &entity_type, &rule, request).await?;
        reject_expansion(&resolved.plan)?;
        // A query without any condition matches every record, so it needs `all` too.
        let used = resolved.query.as_ref().map(Query::dependencies).unwrap_or_default();
        if !all && used.is_empty() {
            return Err(RecordError::MissingFilter(entity_type.name().to_owned()));
        }
        self.source(&entity_type)
            .remove(self.record_set(session, &entity_type), &resolved.selection, Removal::All)
            .await
    }

    async fn permitted_type(
        &self,
        session: &Session,
        name: &str,
        action: RecordAction,
    ) -> Result<Arc<CompiledType>, RecordError> {
        let entity_type = self.entity_type(session, name).await?;
        self.check_permission(session, &entity_type, action)?;
        if action != RecordAction::Read && !entity_type.definition.is_writable() {
            return Err(source::read_only_error(&entity_type));
        }
        Ok(entity_type)
    }

    fn check_permission(
        &self,
        session: &Session,
        entity_type: &CompiledType,
        action: RecordAction,
    ) -> Result<(), RecordError> {
        match self.permission {
            PermissionBasis::ToolCall => Ok(()),
            PermissionBasis::TypePolicy => self.require_permission(session, entity_type, action),
        }
    }

    /// Checks the policies for a type. Generated tools need this check for related types, because the permission to
    /// call a generated tool includes only the type that the tool was generated for.
    fn require_permission(
        &self,
        session: &Session,
        entity_type: &CompiledType,
        action: RecordAction,
    ) -> Result<(), RecordError> {
        let action = match action {
            RecordAction::Read => Action::Read,
            RecordAction::Write | RecordAction::Delete => Action::Write,
        };
        Ok(self.inner.access.require(session, action, Resource::Type { name: entity_type.name() })?)
    }

    fn may_read(&self, session: &Session, entity_type: &CompiledType) -> bool {
        self.require_permission(session, entity_type, RecordAction::Read).is_ok()
    }

    fn record_set<'a>(&'a self, session: &'a Session, entity_type: &'a CompiledType) -> RecordSet<'a> {
        RecordSet { session, entity_type, tool_caller: self.tool_caller.as_deref() }
    }

    fn source(&self, entity_type: &CompiledType) -> &dyn RecordSource {
        self.inner.sources.for_type(entity_type)
    }

    /// Returns the record with this id, with all its fields. `None` if it does not exist or does not match the filters
    /// of the record rule.
    async fn fetch(
        &self,
        session: &Session,
        entity_type: &CompiledType,
        rule: &RecordRule,
        id: &str,
    ) -> Result<Option<Value>, RecordError> {
        self.source(entity_type)
            .get(self.record_set(session, entity_type), id, &select_by_id(entity_type, rule, id))
            .await
    }
}

/// Selects the record with this id, if it matches the filters of the record rule. An id with U+0000 selects nothing,
/// because no id contains this character and Postgres rejects it in a comparison.
fn select_by_id(entity_type: &CompiledType, rule: &RecordRule, id: &str) -> Selection {
    // Only ids of this server's own store are normalized.
    let id = if entity_type.definition.records.is_none() { save::normalize_id(id) } else { id.to_owned() };
    let ids = Filter::ids(Some(id).filter(|id| !id.contains('\0')));
    Selection::of(Filter::all([&rule.filter(), &ids]), entity_type.searchable.clone())
}

/// Returns how many records from the start of the list fit into `max` bytes; at least one if the list is not empty.
fn count_fitting(records: &[Value], max: usize) -> usize {
    let sizes = records.iter().scan(0, |sum, record| {
        *sum += record.to_string().len();
        Some(*sum)
    });
    sizes.take_while(|sum| *sum <= max).count().max(1).min(records.len())
}

fn unknown_record(entity_type: &CompiledType, id: &str) -> RecordError {
    RecordError::UnknownRecord { name: entity_type.name().to_owned(), id: id.chars().take(128).collect() }
}

/// Rejects `expand(…)` in a count or a deletion, which return no records.
fn reject_expansion(plan: &Option<toolwright_query::OutputOptions>) -> Result<(), RecordError> {
    match plan {
        Some(plan) if plan.mode == QueryMode::Aggregation => {
            Err(RecordError::invalid_request(RequestPart::Query, "expand(…) is not supported here; remove it"))
        }
        _ => Ok(()),
    }
}
