//! Compiles entity types: the schema of the records, the searchable fields and the relations.

pub mod field_schema;

use std::sync::Arc;

use serde_json::{Map, Value};
use toolwright_expr::JsonPath;
use toolwright_query::sql::SearchableField;
use toolwright_query::{Field, InvalidField};
use toolwright_tools::{DefinitionIssue, Issues, Schema, Violation};
use toolwright_types::{Document, DocumentMeta, RecordLocation, TypeDefinition, TypeId};

use crate::catalog::compile_sized;

use self::field_schema::{FieldSchema, MANAGED, MANAGED_EXTERNAL, MANAGED_EXTERNAL_VERSIONED};

/// The maximum number of searchable fields, and the maximum number of relations. Each searchable field needs an index,
/// and every query checks each relation.
const MAX_FIELDS: usize = 32;
/// The maximum size of a schema in bytes.
const MAX_SCHEMA_BYTES: usize = 256 << 10;
/// The maximum number of characters of a name.
const MAX_NAME_CHARS: usize = 64;

/// An entity type that is ready to read and write records.
#[derive(Debug)]
pub struct CompiledType {
    /// The id of the type.
    pub id: TypeId,
    /// The metadata of the document, such as its id and revision.
    pub meta: DocumentMeta,
    /// The definition as it is stored.
    pub definition: TypeDefinition,
    /// The compiled schema of the records.
    pub schema: Arc<Schema>,
    /// The fields that have an index.
    pub searchable: Vec<SearchableField>,
    /// The relations to other types.
    pub relations: Vec<CompiledRelation>,
    /// For records from an API: the path of the records in the output of the tool that lists them.
    pub items: Option<JsonPath>,
    /// The names of the fields that the server sets.
    pub managed: &'static [&'static str],
    /// Whether the schema declares or requires the id, so that a check must include it.
    checks_id: bool,
    /// Whether the schema declares or requires the version and the version is a column of an external table.
    checks_version: bool,
}

/// A relation with its parsed field path.
#[derive(Debug, Clone)]
pub struct CompiledRelation {
    /// The name of the relation.
    pub name: String,
    /// The name of the target type.
    pub target: String,
    /// The field that contains the id of the target record.
    pub field: Field,
    /// Whether a record can have several target records.
    pub many: bool,
}

impl CompiledType {
    /// Compiles a definition. Returns the compiled type and warnings for the author, or all issues of an invalid
    /// definition.
    pub fn compile(document: Document<TypeDefinition>) -> Result<(Self, Vec<String>), Issues> {
        let Document { meta, body: definition } = document;
        let managed: &[&str] = match (&definition.records, definition.is_versioned()) {
            (None, _) => &MANAGED,
            (Some(_), true) => &MANAGED_EXTERNAL_VERSIONED,
            (Some(_), false) => &MANAGED_EXTERNAL,
        };
        let mut checker =
            TypeChecker { schema: definition.effective_schema(), managed, issues: Vec::new(), warnings: Vec::new() };
        checker.check_names(&definition);
        checker.check_version_field(&definition);
        let schema = checker.compile_schema();
        let searchable = checker.searchable_fields(&definition);
        let relations = checker.relations(&definition);
        let items = checker.items_path(&definition);
        let TypeChecker { schema: source, issues, warnings, .. } = checker;
        let (Some(schema), true) = (schema, issues.is_empty()) else { return Err(Issues(issues)) };
        let declares = |name: &str| source.get("properties").is_some_and(|properties| properties.get(name).is_some());
        let mentions = |name: &str| declares(name) || requires(&source, name);
        let schema = Arc::new(schema);
        let checks_id = mentions("id");
        let checks_version = definition.records.is_some() && definition.is_versioned() && mentions("version");
        // An unsaved definition has no id. A placeholder is sufficient, because the type has no records yet.
        let id = meta.id.parse().unwrap_or_else(|_| TypeId::from_bits(0));
        Ok((
            Self { id, meta, definition, schema, searchable, relations, items, managed, checks_id, checks_version },
            warnings,
        ))
    }

    /// Like [`CompiledType::compile`], but compiles a large schema on a thread for blocking work.
    pub async fn compile_large(document: Document<TypeDefinition>) -> Result<(Self, Vec<String>), Issues> {
        let schema = document.body.effective_schema();
        Box::pin(compile_sized(&[&schema], move || Self::compile(document))).await
    }

    /// Returns the name of the type.
    pub fn name(&self) -> &str {
        self.definition.ref_name.as_str()
    }

    /// Whether the schema allows this field in a record.
    pub fn allows_field(&self, field: &Field) -> bool {
        field_schema::lookup(self.schema.source(), field, self.managed) != FieldSchema::Forbidden
    }

    /// Whether the schema permits this field without declaring it.
    pub fn is_unconstrained(&self, field: &str) -> bool {
        Field::parse(field).is_ok_and(|field| {
            field_schema::lookup(self.schema.source(), &field, self.managed) == FieldSchema::Undeclared
        })
    }

    /// Checks the fields of a record against the schema. Includes the id if the schema mentions it, and the version if
    /// the schema mentions it and the version is a column of an external table. Returns all violations. A long
    /// validation does not block the thread.
    pub async fn check(&self, id: Option<&str>, version: i64, body: &Map<String, Value>) -> Result<(), Vec<Violation>> {
        let mut candidate = body.clone();
        if let (true, Some(id)) = (self.checks_id, id) {
            candidate.insert("id".into(), id.into());
        }
        if self.checks_version {
            candidate.insert("version".into(), version.into());
        }
        self.schema.validate(Value::Object(candidate)).await.map(drop)
    }

    /// Returns the relation with this name.
    pub fn relation(&self, name: &str) -> Option<&CompiledRelation> {
        self.relations.iter().find(|relation| relation.name == name)
    }
}

fn requires(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

/// Collects the issues and warnings of a definition.
struct TypeChecker {
    schema: Value,
    managed: &'static [&'static str],
    issues: Vec<DefinitionIssue>,
    warnings: Vec<String>,
}

impl TypeChecker {
    fn report(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.issues.push(DefinitionIssue { path: path.into(), message: message.into() });
    }

    fn check_names(&mut self, definition: &TypeDefinition) {
        let names = [("/singularName", &definition.singular_name), ("/pluralName", &definition.plural_name)];
        for (path, name) in names.into_iter().filter_map(|(path, name)| Some((path, name.as_deref()?))) {
            let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-'));
            if !letters || !name.starts_with(|c: char| c.is_ascii_alphabetic()) || name.len() > MAX_NAME_CHARS {
                let message = format!(
                    "must start with a letter, consist of letters, digits, `_`, `-` and spaces, and have at most {MAX_NAME_CHARS} characters"
                );
                self.report(path, message);
            }
        }
        if !definition.singular().starts_with(|c: char| c.is_ascii_alphabetic())
            || definition.singular().len() > MAX_NAME_CHARS
        {
            self.report("/singularName", "is required, because no tool name can be derived from the name of the type");
        }
    }

    fn check_version_field(&mut self, definition: &TypeDefinition) {
        let Some(RecordLocation::Sql(sql)) = &definition.records else { return };
        let Some(field) = &sql.version_field else { return };
        if !sql.writable {
            self.report("/records/versionField", "requires `writable: true`; set it, or omit `versionField`");
        }
        if *field == sql.id_field {
            self.report("/records/versionField", "must differ from `idField`");
        }
        if field != "version" && field_schema::properties(&self.schema).any(|(declared, _)| declared == field) {
            let path = format!("/jsonSchema/properties/{}", field.replace('~', "~0").replace('/', "~1"));
            self.report(path, format!("must not declare `{field}`, which records show as `version`"));
        }
        if field != "version" && requires(&self.schema, field) {
            self.report("/jsonSchema/required", format!("must not contain `{field}`, which records show as `version`"));
        }
    }

    fn compile_schema(&mut self) -> Option<Schema> {
        if self.schema.to_string().len() > MAX_SCHEMA_BYTES {
            self.report("/jsonSchema", format!("must have at most {MAX_SCHEMA_BYTES} bytes"));
            return None;
        }
        let types = field_schema::types(&self.schema);
        let describes_objects = self.schema.is_object() && (types.is_empty() || types.contains(&"object"));
        if !describes_objects && self.schema != Value::Bool(true) {
            self.report("/jsonSchema/type", "must be `object`, because records are objects");
        }
        // A record is checked before the server sets these fields. So a schema must not require them. The id is an
        // exception, because `CompiledType::check` adds it.
        let filled: &[&str] = if self.managed == MANAGED { &MANAGED } else { &[] };
        let required: Vec<&str> =
            filled.iter().copied().filter(|name| *name != "id" && requires(&self.schema, name)).collect();
        for name in required {
            self.report("/jsonSchema/required", format!("must not contain `{name}`, which the server fills in"));
        }
        let declared = |name: &&str| field_schema::properties(&self.schema).any(|(declared, _)| declared == name);
        let shadowed: Vec<&str> = filled.iter().copied().filter(|name| *name != "id").filter(declared).collect();
        for name in shadowed {
            self.warnings.push(format!("the server fills in `{name}`; the schema of this field has no effect"));
        }
        match Schema::compile(self.schema.clone()) {
            Ok(schema) => Some(schema),
            Err(violation) => {
                self.report(format!("/jsonSchema{}", violation.path), violation.message);
                None
            }
        }
    }

    fn searchable_fields(&mut self, definition: &TypeDefinition) -> Vec<SearchableField> {
        let mut found: Vec<SearchableField> = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        if definition.searchable_fields.len() > MAX_FIELDS {
            self.report("/searchableFields", format!("must have at most {MAX_FIELDS} items"));
            return found;
        }
        for (at, text) in definition.searchable_fields.iter().enumerate() {
            let path = format!("/searchableFields/{at}");
            if seen.contains(&text.as_str()) {
                self.report(path, format!("`{text}` must not be listed twice"));
                continue;
            }
            seen.push(text);
            let Some(field) = self.field(&path, text) else { continue };
            let kind = field_schema::searchable_kind(field_schema::lookup(&self.schema, &field, self.managed));
            match kind.map(|kind| SearchableField::new(text, kind)) {
                // The id always has an index.
                _ if text == "id" => {}
                Some(Ok(searchable)) => found.push(searchable),
                Some(Err(error)) => self.report(path, error.to_string()),
                None => self.warnings.push(format!(
                    "`{text}` is searched without an index, because the schema does not declare it as a single string, number or date"
                )),
            }
        }
        found
    }

    fn relations(&mut self, definition: &TypeDefinition) -> Vec<CompiledRelation> {
        let mut found: Vec<CompiledRelation> = Vec::new();
        if definition.relations.len() > MAX_FIELDS {
            self.report("/relations", format!("must have at most {MAX_FIELDS} items"));
            return found;
        }
        for (at, relation) in definition.relations.iter().enumerate() {
            let path = |field: &str| format!("/relations/{at}/{field}");
            let is_valid = Field::parse(&relation.name).is_ok() && !relation.name.contains(['.', ' ', '&', '/']);
            if !is_valid || relation.name.len() > MAX_NAME_CHARS {
                let message = format!(
                    "must consist of letters, digits, `_` and `-`, and have at most {MAX_NAME_CHARS} characters"
                );
                self.report(path("name"), message);
            } else if self.managed.contains(&relation.name.as_str()) {
                self.report(path("name"), format!("must not be `{}`, which the server fills in", relation.name));
            } else if found.iter().any(|other| other.name == relation.name) {
                self.report(path("name"), format!("`{}` is already the name of another relation", relation.name));
            }
            if relation.target.is_empty() {
                self.report(path("type"), "is required");
            }
            if let Some(field) = self.field(&path("field"), &relation.field) {
                let (name, target, many) = (relation.name.clone(), relation.target.clone(), relation.many);
                found.push(CompiledRelation { name, target, field, many });
            }
        }
        found
    }

    fn items_path(&mut self, definition: &TypeDefinition) -> Option<JsonPath> {
        let Some(RecordLocation::Rest(rest)) = &definition.records else { return None };
        if rest.id_field.is_empty() {
            self.report("/records/idField", "is required");
        }
        match JsonPath::parse(rest.items.as_deref()?) {
            Ok(path) => Some(path),
            Err(error) => {
                self.report("/records/items", error.to_string());
                None
            }
        }
    }

    /// Parses a field and checks that the schema allows it.
    fn field(&mut self, path: &str, text: &str) -> Option<Field> {
        match Field::parse(text).map_err(|error: InvalidField| error.to_string()) {
            Ok(field) if field_schema::lookup(&self.schema, &field, self.managed) == FieldSchema::Forbidden => {
                self.report(path, format!("the schema does not allow a field `{text}`"));
                None
            }
            Ok(field) => Some(field),
            Err(message) => {
                self.report(path, message);
                None
            }
        }
    }
}
