//! Imports entity types from databases and OpenAPI documents.

mod database;
mod naming;
mod openapi;

use toolwright_openapi::{OpenApiDocument, component_schemas, matches_any};
use toolwright_types::{DefinitionSource, Document, RecordLocation, RefName, TypeDefinition};

use super::conflict::ImportAction;
use super::fetch::fetch_text;
use super::{DocumentSource, ImportError, Imports, run_blocking};
use toolwright_catalog::CompiledType;
use toolwright_catalog::Session;
use toolwright_catalog::registry::{Batch, Registry, RegistryError};

/// The maximum number of types in one import. Tools are generated for each type.
const MAX_TYPES: usize = 1000;
/// The maximum number of tables that an import reads.
const MAX_TABLES: u32 = 10_000;
/// The maximum number of characters of an imported description.
const MAX_DESCRIPTION_CHARS: usize = 1000;

/// A request to import tables of a database as entity types.
#[derive(Debug, Default)]
pub struct DatabaseImport {
    /// The secret with the URL of the database.
    pub secret: String,
    /// The database schema. It is ignored for SQLite, which has no schemas.
    pub schema: String,
    /// Name patterns of the tables to import. An empty list imports all tables.
    pub tables: Vec<String>,
    /// Whether types of an earlier import are replaced.
    pub update: bool,
    /// Whether the types are written. If false, the import only reports what it would do.
    pub apply: bool,
}

/// A request to import schemas of an OpenAPI document as entity types.
#[derive(Debug)]
pub struct SchemaImport {
    /// The document.
    pub document: DocumentSource,
    /// Name patterns of the schemas to import. An empty list imports all schemas.
    pub schemas: Vec<String>,
    /// Whether types of an earlier import are replaced.
    pub update: bool,
    /// Whether the types are written. If false, the import only reports what it would do.
    pub apply: bool,
}

/// The result of an import of entity types.
#[derive(Debug, Default)]
pub struct TypeImportReport {
    /// The types that were added.
    pub imported: Vec<RefName>,
    /// The types that were replaced.
    pub updated: Vec<RefName>,
    /// The existing types that are equal to the imported types.
    pub unchanged: Vec<RefName>,
    /// The tables or schemas that were not imported, with the reason.
    pub skipped: Vec<SkippedType>,
    /// Warnings for the user who started the import.
    pub warnings: Vec<String>,
}

/// A table or schema that was not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedType {
    /// The name of the table or schema.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// The types that an import proposes.
#[derive(Debug, Default)]
struct TypeProposal {
    types: Vec<ProposedType>,
    skipped: Vec<SkippedType>,
}

/// A type, and the name of the table or schema from which it was generated.
#[derive(Debug)]
struct ProposedType {
    source_name: String,
    definition: TypeDefinition,
}

/// The options for writing the proposed types.
struct WriteOptions {
    source: DefinitionSource,
    update: bool,
    apply: bool,
}

impl Imports {
    /// Imports the tables of a database as entity types. Their records stay in that database.
    pub async fn database(&self, session: &Session, import: DatabaseImport) -> Result<TypeImportReport, ImportError> {
        // The report names the tables of the database. So the session needs the permission to write the secret that
        // contains the URL of the database.
        self.registry.may_use_secret(session, &import.secret)?;
        let _permit = self.acquire_permit().await?;
        let database = self.tables.database(&session.realm, &import.secret).await?;
        let found =
            database.tables(&import.schema, MAX_TABLES).await.map_err(toolwright_records::DatabaseError::from_store)?;
        let proposal = database::propose(&found, &import.secret, |name| matches_any(&import.tables, name));
        let options =
            WriteOptions { source: DefinitionSource::DatabaseImported, update: import.update, apply: import.apply };
        self.write_types(session, proposal, options).await
    }

    /// Imports the object schemas of an OpenAPI document as entity types. Their records are stored in this server's
    /// database.
    pub async fn schemas(&self, session: &Session, import: SchemaImport) -> Result<TypeImportReport, ImportError> {
        let _permit = self.acquire_permit().await?;
        let SchemaImport { document, schemas, update, apply } = import;
        let document = match document {
            DocumentSource::Value(value) => {
                run_blocking(move || OpenApiDocument::from_value_for_schemas(value)).await??
            }
            DocumentSource::Text(text) => run_blocking(move || OpenApiDocument::parse_for_schemas(&text)).await??,
            DocumentSource::Url(url) => {
                self.registry.may_import_types(session).map_err(RegistryError::from)?;
                let text = fetch_text(&self.http, url, &[]).await.map_err(ImportError::Fetch)?;
                run_blocking(move || OpenApiDocument::parse_for_schemas(&text)).await??
            }
        };
        let found = run_blocking(move || component_schemas(&document, |name| matches_any(&schemas, name))).await??;
        let options = WriteOptions { source: DefinitionSource::OpenapiImported, update, apply };
        self.write_types(session, openapi::propose(found), options).await
    }

    async fn write_types(
        &self,
        session: &Session,
        proposal: TypeProposal,
        options: WriteOptions,
    ) -> Result<TypeImportReport, ImportError> {
        if proposal.types.len() > MAX_TYPES {
            return Err(ImportError::TooManyTypes(MAX_TYPES));
        }
        let mut report = TypeImportReport { skipped: proposal.skipped, ..TypeImportReport::default() };
        let mut batch = Batch::default();
        for ProposedType { source_name, definition } in proposal.types {
            let mut skip = |reason: String| report.skipped.push(SkippedType { name: source_name.clone(), reason });
            let name = definition.ref_name.clone();
            if let Err(issues) = CompiledType::compile(Document::unsaved(name.clone(), definition.clone())) {
                skip(issues.to_string());
                continue;
            }
            let current = self.registry.find::<TypeDefinition>(session, &name).await?;
            match resolve_conflict(current.as_ref(), &definition, &options) {
                ImportAction::Skip(reason) => skip(reason),
                ImportAction::Unchanged => report.unchanged.push(name),
                ImportAction::Write => {
                    self.registry.may_replace(session, current.as_ref(), &definition).map_err(RegistryError::from)?;
                    let new = match Registry::prepare_revision(&definition, options.source) {
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
        if options.apply && !batch.is_empty() {
            report.warnings.extend(self.registry.write_types(session, batch).await?);
        }
        Ok(report)
    }
}

/// Decides what an import does with a type. An existing type is replaced if `update` is set, and the existing type was
/// imported from the same kind of source and has its records in the same place.
fn resolve_conflict(
    current: Option<&Document<TypeDefinition>>,
    proposed: &TypeDefinition,
    options: &WriteOptions,
) -> ImportAction {
    let Some(current) = current else { return ImportAction::Write };
    let name = &proposed.ref_name;
    if current.meta.source != options.source {
        return ImportAction::Skip(format!(
            "type `{name}` exists and was not imported from this kind of source, or was changed since; delete it first"
        ));
    }
    if !is_same_location(current.body.records.as_ref(), proposed.records.as_ref()) {
        return ImportAction::Skip(format!("type `{name}` was imported from another table; delete it first"));
    }
    if current.body == *proposed {
        return ImportAction::Unchanged;
    }
    if options.update {
        ImportAction::Write
    } else {
        ImportAction::Skip(format!("type `{name}` exists; use `update` to replace it"))
    }
}

fn is_same_location(one: Option<&RecordLocation>, other: Option<&RecordLocation>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(RecordLocation::Sql(one)), Some(RecordLocation::Sql(other))) => {
            (&one.url_secret_ref, &one.table) == (&other.url_secret_ref, &other.table)
        }
        _ => false,
    }
}

/// Replaces U+0000 in an imported description by a space, and shortens the description, because models read it.
fn clean_description(text: &str) -> String {
    let text: String = text.chars().map(|c| if c == '\0' { ' ' } else { c }).take(MAX_DESCRIPTION_CHARS).collect();
    text.trim().to_owned()
}
