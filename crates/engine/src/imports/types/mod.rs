//! Types that come from elsewhere: planned, held against what is there, and written as one batch.

mod database;
mod naming;
mod openapi;

use toolwright_openapi::{Document as Description, components, fits};
use toolwright_types::{Document, RecordsIn, RefName, Source, TypeDefinition};

use super::{ImportError, Imports, Origin, aside, fetch};
use crate::Unavailable;
use crate::access::Session;
use crate::records::{CompiledType, SqlTables};
use crate::registry::{Batch, Registry, RegistryError};

/// Types of one import: each has three tools.
const MOST_TYPES: usize = 1000;
/// Tables that are looked at for them.
const MOST_TABLES: u32 = 10_000;
/// Characters of a description that others wrote.
const LONGEST_DESCRIPTION: usize = 1000;

/// Which tables to import as types, and how.
#[derive(Debug, Default)]
pub struct DatabaseImport {
    /// The secret that holds the URL of the database.
    pub secret: String,
    /// The schema; SQLite has none.
    pub schema: String,
    /// Patterns of names of tables; all when empty.
    pub tables: Vec<String>,
    /// Whether types that were imported before are replaced.
    pub update: bool,
    /// Whether anything is written.
    pub apply: bool,
}

/// Which schemas of a document to import as types, and how.
#[derive(Debug)]
pub struct SchemaImport {
    /// The document.
    pub origin: Origin,
    /// Patterns of names of schemas; all when empty.
    pub schemas: Vec<String>,
    /// Whether types that were imported before are replaced.
    pub update: bool,
    /// Whether anything is written.
    pub apply: bool,
}

/// What became of an import of types.
#[derive(Debug, Default)]
pub struct TypeReport {
    /// Types that are new.
    pub imported: Vec<RefName>,
    /// Types that were replaced.
    pub updated: Vec<RefName>,
    /// Types that are as they would be already.
    pub unchanged: Vec<RefName>,
    /// What is no type, and why.
    pub skipped: Vec<SkippedType>,
    /// What whoever imports should know.
    pub warnings: Vec<String>,
}

/// Something that is no type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedType {
    /// What it is called where it comes from.
    pub name: String,
    /// Why not.
    pub reason: String,
}

/// What a source comes to.
#[derive(Debug, Default)]
struct TypePlan {
    types: Vec<PlannedType>,
    skipped: Vec<SkippedType>,
}

/// A type, and what it comes from.
#[derive(Debug)]
struct PlannedType {
    from: String,
    definition: TypeDefinition,
}

/// How an import is written down.
struct Writing {
    source: Source,
    update: bool,
    apply: bool,
}

impl Imports {
    /// Makes types of the tables of a database. Their records stay where they are.
    pub async fn database(&self, session: &Session, import: DatabaseImport) -> Result<TypeReport, ImportError> {
        // What is in the database is shown: to those who could have put its URL there.
        self.registry.may_use_secret(session, &import.secret)?;
        let turn = self.turns.acquire().await;
        let _turn = turn.map_err(|error| Unavailable::new("imports are closed")(Box::new(error)))?;
        let tables: &SqlTables = self.registry.tables();
        let database = tables.database(&session.realm, &import.secret).await?;
        let found = database.tables(&import.schema, MOST_TABLES).await.map_err(crate::records::unanswered)?;
        let plan = database::plan(&found, &import.secret, |name| fits(&import.tables, name));
        let writing = Writing { source: Source::DatabaseImported, update: import.update, apply: import.apply };
        self.write_types(session, plan, writing).await
    }

    /// Makes types of the objects that an OpenAPI document describes. Their records are kept here.
    pub async fn schemas(&self, session: &Session, import: SchemaImport) -> Result<TypeReport, ImportError> {
        let turn = self.turns.acquire().await;
        let _turn = turn.map_err(|error| Unavailable::new("imports are closed")(Box::new(error)))?;
        let SchemaImport { origin, schemas, update, apply } = import;
        let document = match origin {
            Origin::Value(value) => aside(move || Description::of_schemas(value)).await??,
            Origin::Text(text) => aside(move || Description::parse_schemas(&text)).await??,
            Origin::Url(url) => {
                let text = fetch::text(&self.http, url, &[]).await.map_err(ImportError::Fetch)?;
                aside(move || Description::parse_schemas(&text)).await??
            }
        };
        let found = aside(move || components(&document, |name| fits(&schemas, name))).await??;
        let writing = Writing { source: Source::OpenapiImported, update, apply };
        self.write_types(session, openapi::plan(found), writing).await
    }

    async fn write_types(&self, session: &Session, plan: TypePlan, how: Writing) -> Result<TypeReport, ImportError> {
        if plan.types.len() > MOST_TYPES {
            return Err(ImportError::TooMany(MOST_TYPES));
        }
        let mut report = TypeReport { skipped: plan.skipped, ..TypeReport::default() };
        let mut batch = Batch::default();
        for PlannedType { from, definition } in plan.types {
            let mut skip = |reason: String| report.skipped.push(SkippedType { name: from.clone(), reason });
            let name = definition.ref_name.clone();
            if let Err(issues) = CompiledType::compile(Document::unsaved(name.clone(), definition.clone())) {
                skip(issues.to_string());
                continue;
            }
            let current = self.registry.find::<TypeDefinition>(session, &name).await?;
            match decide(current.as_ref(), &definition, &how) {
                Decision::Skip(reason) => skip(reason),
                Decision::Keep => report.unchanged.push(name),
                Decision::Write => {
                    self.registry.may_replace(session, current.as_ref(), &definition).map_err(RegistryError::from)?;
                    let new = match Registry::storable(&definition, how.source) {
                        Ok(new) => new,
                        Err(error) => {
                            skip(error.to_string());
                            continue;
                        }
                    };
                    batch.add(current.as_ref(), new);
                    let list = if current.is_some() { &mut report.updated } else { &mut report.imported };
                    list.push(name);
                }
            }
        }
        if how.apply && !batch.is_empty() {
            report.warnings.extend(self.registry.write_types(session, batch).await?);
        }
        Ok(report)
    }
}

/// What becomes of one type.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    Write,
    Keep,
    Skip(String),
}

/// Only what was imported from the same place is ever replaced, and only when that was asked for.
fn decide(current: Option<&Document<TypeDefinition>>, planned: &TypeDefinition, how: &Writing) -> Decision {
    let Some(current) = current else { return Decision::Write };
    let name = &planned.ref_name;
    if current.meta.source != how.source {
        return Decision::Skip(format!(
            "type `{name}` exists and was not imported so, or was changed since; delete it first"
        ));
    }
    if !same_place(current.body.records.as_ref(), planned.records.as_ref()) {
        return Decision::Skip(format!("type `{name}` was imported from another place; delete it first"));
    }
    if current.body == *planned {
        return Decision::Keep;
    }
    if how.update {
        Decision::Write
    } else {
        Decision::Skip(format!("type `{name}` exists; use `update` to replace it"))
    }
}

fn same_place(one: Option<&RecordsIn>, other: Option<&RecordsIn>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(RecordsIn::Sql(one)), Some(RecordsIn::Sql(other))) => {
            (&one.url_secret_ref, &one.table) == (&other.url_secret_ref, &other.table)
        }
        _ => false,
    }
}

/// A text that others wrote, for a model to read.
fn described(text: &str) -> String {
    let text: String = text.chars().map(|c| if c == '\0' { ' ' } else { c }).take(LONGEST_DESCRIPTION).collect();
    text.trim().to_owned()
}
