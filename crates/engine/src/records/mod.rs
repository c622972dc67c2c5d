//! Records: what types describe, kept, found, changed.
//!
//! [`Records`] decides: who may, what is asked, whether a record fits, which version comes next. Where records live is a
//! [`RecordSource`], what permission adds is a [`RecordRules`].

mod asking;
mod compiled;
mod definition;
mod edges;
mod error;
mod expand;
mod rest;
mod rules;
mod save;
mod scope;
pub(crate) mod shape;
mod source;
mod sql;
mod table;
mod upkeep;

use std::sync::Arc;

use serde_json::Value;
use toolwright_authz::{Action, Resource};
use toolwright_query::{Cursor, Filter, Mode, Query};
use toolwright_store::{RecordPage, Selection, Store};
use toolwright_types::{Clock, OrgId, RealmId};

pub use asking::Question;
pub use compiled::CompiledType;
pub use error::{Part, RecordError};
pub use rest::CallPath;
pub use rules::{NoRules, RecordAction, RecordRule, RecordRules};
pub use save::{Saved, Wish};
pub use source::{Change, RecordSet, RecordSource, Removal, Written};
pub use sql::{Reachable, SqlTables, Unreachable};
pub use table::{Export, ExportRequest, FailedRow, Import, Progress};
pub use upkeep::{Generation, Upkeep};

pub(crate) use sql::unanswered;

use rest::RestResources;
use source::{Sources, StoreSource};

use crate::access::{Access, Session};
use crate::catalog::Catalog;

/// The most records of one page.
pub const MOST_RECORDS: u32 = 1000;

/// Reads and writes records. Cheap to clone.
#[derive(Clone)]
pub struct Records(Arc<Inner>, Permission, Option<Arc<CallPath>>);

/// What stands for the permission to reach records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Permission {
    /// That to read or write their type.
    OfType,
    /// That to call a tool made for the type: the executor has decided already.
    OfTool,
}

pub(crate) struct Inner {
    pub store: Store,
    pub catalog: Catalog,
    pub access: Access,
    pub sources: Sources,
    pub rules: Arc<dyn RecordRules>,
    pub clock: Arc<dyn Clock>,
    pub ids: save::Ids,
    pub orgs: moka::sync::Cache<OrgId, String>,
    pub homes: moka::sync::Cache<RealmId, String>,
}

/// Records that were found.
#[derive(Debug)]
pub struct FoundRecords {
    /// What is on the page.
    pub records: Vec<Value>,
    /// Where the next one begins; none on the last.
    pub next: Option<String>,
    /// How many there are on all pages, if that was asked.
    pub total: Option<u64>,
}

/// How a query is answered.
#[derive(Debug)]
pub struct QueryPlan {
    /// Whether related records are wanted.
    pub mode: Mode,
    /// Where they are put in.
    pub expand: Vec<String>,
}

impl Records {
    pub(crate) fn new(
        store: Store,
        tables: SqlTables,
        catalog: Catalog,
        access: Access,
        rules: Arc<dyn RecordRules>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let sources = Sources { store: StoreSource(store.clone()), sql: tables, rest: RestResources };
        let (orgs, homes) = (moka::sync::Cache::new(10_000), moka::sync::Cache::new(10_000));
        let ids = save::Ids::default();
        let inner = Inner { store, catalog, access, sources, rules, clock, ids, orgs, homes };
        Self(Arc::new(inner), Permission::OfType, None)
    }

    /// The same for a tool that was made for one type: the permission to call it is the permission to do what it does.
    pub(crate) fn by_tool(&self) -> Self {
        Self(Arc::clone(&self.0), Permission::OfTool, None)
    }

    /// The same with a way to the tools that records may be behind.
    pub(crate) fn calling(&self, calls: CallPath) -> Self {
        Self(Arc::clone(&self.0), self.1, Some(Arc::new(calls)))
    }

    /// The types whose records the session may read.
    pub async fn types(&self, session: &Session) -> Result<Vec<Arc<CompiledType>>, RecordError> {
        let all = self.0.catalog.entity_types(&session.realm).await?;
        Ok(all.iter().filter(|of| self.may_read(session, of)).cloned().collect())
    }

    /// The type of that name, or of the last part of a name with dots.
    pub async fn entity(&self, session: &Session, name: &str) -> Result<Arc<CompiledType>, RecordError> {
        let mut found = self.0.catalog.entity_type(&session.realm, name).await?;
        if let (None, Some((_, simple))) = (&found, name.rsplit_once('.')) {
            found = self.0.catalog.entity_type(&session.realm, simple).await?;
        }
        let short = || name.chars().take(128).collect();
        found.ok_or_else(|| RecordError::UnknownType { name: short(), realm: session.realm.name.to_string() })
    }

    /// How a query would be answered.
    pub async fn plan(&self, session: &Session, of: &str, query: &str) -> Result<QueryPlan, RecordError> {
        let of = self.permitted(session, of, RecordAction::Read).await?;
        let rule = self.0.rules.rule(session, &of, RecordAction::Read).await?;
        let plan = match asking::query(&of, &rule, Some(query))? {
            Some(query) => {
                self.check_known(session, &of, &query.asked().fields, Part::Query).await?;
                Some(query.plan())
            }
            None => None,
        };
        for expansion in plan.iter().flat_map(|plan| &plan.expand) {
            self.check_expansion(session, &of, expansion).await?;
        }
        Ok(QueryPlan {
            mode: plan.as_ref().map_or(Mode::Filter, |plan| plan.mode),
            expand: plan.into_iter().flat_map(|plan| plan.expand).map(|expansion| expansion.path).collect(),
        })
    }

    /// A page of records.
    pub async fn find(&self, session: &Session, of: &str, question: &Question) -> Result<FoundRecords, RecordError> {
        let of = self.permitted(session, of, RecordAction::Read).await?;
        let rule = self.0.rules.rule(session, &of, RecordAction::Read).await?;
        let asking = self.asking(session, &of, &rule, question).await?;
        let limit = question.limit.min(MOST_RECORDS);
        // One more than the page holds shows whether there is a next one.
        let page = RecordPage { sort: asking.sort.clone(), after: asking.after, skip: question.skip, limit: limit + 1 };
        let (source, set) = (self.source(&of), self.set(session, &of));
        let (mut records, total) = if question.total {
            let (records, total) = source.find_and_count(set, &asking.selection, &page).await?;
            (records, Some(total))
        } else {
            (source.find(set, &asking.selection, &page).await?, None)
        };
        let wanted = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = records.len() > wanted;
        records.truncate(wanted);
        let place = |record: &Value| {
            let id = record.get("id").and_then(Value::as_str).unwrap_or_default();
            Cursor::after(asking.query.as_ref(), &asking.sort, record, id)
        };
        // Before anything is taken out of the records that they are sorted by.
        let places: Vec<Cursor> = records.iter().map(place).collect();
        records.iter_mut().for_each(|record| rule.strip(record));
        if let Some(plan) = &asking.plan {
            self.expand(session, &of, &plan.expand, &question.variables, &mut records).await?;
        }
        let projections = [asking.plan.and_then(|plan| plan.fields), asking.fields];
        for projection in projections.into_iter().flatten() {
            records.iter_mut().for_each(|record| *record = projection.apply(record));
        }
        let cut = question.most_bytes.map_or(records.len(), |most| fitting(&records, most));
        let more = more || cut < records.len();
        records.truncate(cut);
        let next = cut.checked_sub(1).and_then(|last| places.get(last)).filter(|_| more).map(Cursor::to_string);
        Ok(FoundRecords { records, next, total })
    }

    /// How many records pass.
    pub async fn count(&self, session: &Session, of: &str, question: &Question) -> Result<u64, RecordError> {
        let of = self.permitted(session, of, RecordAction::Read).await?;
        let rule = self.0.rules.rule(session, &of, RecordAction::Read).await?;
        let asking = self.asking(session, &of, &rule, question).await?;
        only_filters(&asking.plan)?;
        self.source(&of).count(self.set(session, &of), &asking.selection).await
    }

    /// One record.
    pub async fn get(&self, session: &Session, of: &str, id: &str) -> Result<Value, RecordError> {
        let of = self.permitted(session, of, RecordAction::Read).await?;
        let rule = self.0.rules.rule(session, &of, RecordAction::Read).await?;
        let mut record = self.one(session, &of, &rule, id).await?.ok_or_else(|| no_record(&of, id))?;
        rule.strip(&mut record);
        Ok(record)
    }

    /// Removes one record; with `version`, only if it is still that one.
    pub async fn delete(&self, session: &Session, of: &str, id: &str, version: Option<i64>) -> Result<(), RecordError> {
        let of = self.permitted(session, of, RecordAction::Delete).await?;
        if version.is_some() && !of.definition.is_versioned() {
            let message = format!("records of type `{}` have none; leave it out", of.name());
            return Err(RecordError::asked(Part::Version, message));
        }
        let rule = self.0.rules.rule(session, &of, RecordAction::Delete).await?;
        let selection = one(&of, &rule, id);
        if self.source(&of).remove(self.set(session, &of), &selection, Removal::One(version)).await? > 0 {
            return Ok(());
        }
        let found = self.one(session, &of, &rule, id).await?.ok_or_else(|| no_record(&of, id))?;
        let current = save::version_of(&found);
        // A record that is what was meant and stays is kept by the place where it lives.
        if of.definition.records.is_some() && version.is_none_or(|version| version == current) {
            let kept = "the table kept the row, and a trigger or a rule of it gave no reason; nothing was removed";
            return Err(RecordError::unfit(of.name(), "", kept));
        }
        Err(RecordError::Conflict { id: id.to_owned(), current })
    }

    /// Removes the records that a query finds; all of them only if that is said.
    pub async fn delete_many(
        &self,
        session: &Session,
        of: &str,
        question: &Question,
        all: bool,
    ) -> Result<u64, RecordError> {
        let of = self.permitted(session, of, RecordAction::Delete).await?;
        let rule = self.0.rules.rule(session, &of, RecordAction::Delete).await?;
        let asking = self.asking(session, &of, &rule, question).await?;
        only_filters(&asking.plan)?;
        // A query of which nothing filters finds everything too.
        let asked = asking.query.as_ref().map(Query::asked).unwrap_or_default();
        if !all && asked.nothing() {
            return Err(RecordError::Everything(of.name().to_owned()));
        }
        self.source(&of).remove(self.set(session, &of), &asking.selection, Removal::All).await
    }

    async fn permitted(
        &self,
        session: &Session,
        name: &str,
        action: RecordAction,
    ) -> Result<Arc<CompiledType>, RecordError> {
        let of = self.entity(session, name).await?;
        self.permit(session, &of, action)?;
        if action != RecordAction::Read && !of.definition.is_writable() {
            return Err(source::read_only(&of));
        }
        Ok(of)
    }

    fn permit(&self, session: &Session, of: &CompiledType, action: RecordAction) -> Result<(), RecordError> {
        match self.1 {
            Permission::OfTool => Ok(()),
            Permission::OfType => self.require(session, of, action),
        }
    }

    /// What policies say. A tool made for one type stands for no permission on others, also not on related ones.
    fn require(&self, session: &Session, of: &CompiledType, action: RecordAction) -> Result<(), RecordError> {
        let action = match action {
            RecordAction::Read => Action::Read,
            RecordAction::Write | RecordAction::Delete => Action::Write,
        };
        Ok(self.0.access.require(session, action, Resource::Type { name: of.name() })?)
    }

    fn may_read(&self, session: &Session, of: &CompiledType) -> bool {
        self.require(session, of, RecordAction::Read).is_ok()
    }

    fn set<'a>(&'a self, session: &'a Session, of: &'a CompiledType) -> RecordSet<'a> {
        RecordSet { session, of, calls: self.2.as_deref() }
    }

    fn source(&self, of: &CompiledType) -> &dyn RecordSource {
        self.0.sources.of(of)
    }

    /// The record of that id, whole, if the rule lets it be seen.
    async fn one(
        &self,
        session: &Session,
        of: &CompiledType,
        rule: &RecordRule,
        id: &str,
    ) -> Result<Option<Value>, RecordError> {
        self.source(of).get(self.set(session, of), id, &one(of, rule, id)).await
    }
}

/// The record of that id, if the rule lets it be. U+0000, which no id has, would not even be compared by Postgres.
fn one(of: &CompiledType, rule: &RecordRule, id: &str) -> Selection {
    // Ids of others are what they are.
    let id = if of.definition.records.is_none() { save::same_case(id) } else { id.to_owned() };
    let ids = Filter::ids(Some(id).filter(|id| !id.contains('\0')));
    Selection::of(Filter::all([&rule.filter(), &ids]), of.searchable.clone())
}

/// How many of the records come to no more than so many bytes; one in any case.
fn fitting(records: &[Value], most: usize) -> usize {
    let sizes = records.iter().scan(0, |sum, record| {
        *sum += record.to_string().len();
        Some(*sum)
    });
    sizes.take_while(|sum| *sum <= most).count().max(1).min(records.len())
}

fn no_record(of: &CompiledType, id: &str) -> RecordError {
    RecordError::NoRecord { name: of.name().to_owned(), id: id.chars().take(128).collect() }
}

/// What related records a count or a removal would come with has no answer.
fn only_filters(plan: &Option<toolwright_query::Plan>) -> Result<(), RecordError> {
    match plan {
        Some(plan) if plan.mode == Mode::Aggregation => {
            Err(RecordError::asked(Part::Query, "expand(…) has no meaning here; leave it out"))
        }
        _ => Ok(()),
    }
}
