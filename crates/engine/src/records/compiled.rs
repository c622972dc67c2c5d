//! A type made ready for its records: the schema compiled, the fields that an index serves, the relations.

use serde_json::{Map, Value};
use toolwright_expr::JsonPath;
use toolwright_query::sql::Searchable;
use toolwright_query::{Field, InvalidField};
use toolwright_tools::{DefinitionIssue, Issues, Schema, Violation};
use toolwright_types::{Document, Meta, RecordsIn, TypeDefinition, TypeId};

use super::shape::{self, MANAGED, MANAGED_ELSEWHERE, MANAGED_VERSIONED, Shape};

/// Searchable fields and relations of one type. Each field costs an index, each relation a look at every query.
const MOST_FIELDS: usize = 32;
/// Bytes of a schema.
const LARGEST_SCHEMA: usize = 256 << 10;
/// Characters of a name.
const LONGEST_NAME: usize = 64;

/// A type whose records can be read and written.
#[derive(Debug)]
pub struct CompiledType {
    pub(crate) id: TypeId,
    /// What the server manages of the definition.
    pub meta: Meta,
    /// The definition.
    pub definition: TypeDefinition,
    pub(super) schema: Schema,
    pub(super) searchable: Vec<Searchable>,
    pub(super) relations: Vec<CompiledRelation>,
    /// Where the records are in what a tool lists.
    pub(super) items: Option<JsonPath>,
    /// The fields that its author does not fill in.
    pub(super) managed: &'static [&'static str],
    /// Whether the schema speaks of the id.
    checks_id: bool,
    /// Whether it speaks of a version that is a column of somebody else's table.
    checks_version: bool,
}

/// A relation with its path read.
#[derive(Debug, Clone)]
pub(super) struct CompiledRelation {
    pub name: String,
    pub target: String,
    pub field: Field,
    pub many: bool,
}

impl CompiledType {
    /// Compiles a definition, or says everything that is wrong with it. Beside it comes what its author should know.
    pub(crate) fn compile(document: Document<TypeDefinition>) -> Result<(Self, Vec<String>), Issues> {
        let Document { meta, body: definition } = document;
        let managed: &[&str] = match (&definition.records, definition.is_versioned()) {
            (None, _) => &MANAGED,
            (Some(_), true) => &MANAGED_VERSIONED,
            (Some(_), false) => &MANAGED_ELSEWHERE,
        };
        let mut check =
            Check { schema: definition.effective_schema(), managed, issues: Vec::new(), warnings: Vec::new() };
        check.names(&definition);
        check.version_field(&definition);
        let schema = check.compiled_schema();
        let searchable = check.searchable(&definition);
        let relations = check.relations(&definition);
        let items = check.items(&definition);
        let Check { schema: source, issues, warnings, .. } = check;
        let (Some(schema), true) = (schema, issues.is_empty()) else { return Err(Issues(issues)) };
        let declares = |name: &str| source.get("properties").is_some_and(|properties| properties.get(name).is_some());
        let speaks_of = |name: &str| declares(name) || requires(&source, name);
        let checks_id = speaks_of("id");
        let checks_version = definition.records.is_some() && definition.is_versioned() && speaks_of("version");
        // A definition that was not saved has no id, and no records either.
        let id = meta.id.parse().unwrap_or_else(|_| TypeId::from_bits(0));
        Ok((
            Self { id, meta, definition, schema, searchable, relations, items, managed, checks_id, checks_version },
            warnings,
        ))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.definition.ref_name.as_str()
    }

    /// Whether a record of it can have this field.
    pub(super) fn may_have(&self, field: &Field) -> bool {
        shape::at(self.schema.source(), field, self.managed) != Shape::Impossible
    }

    /// Whether the schema says nothing of this field.
    pub(super) fn leaves_open(&self, field: &str) -> bool {
        Field::parse(field).is_ok_and(|field| shape::at(self.schema.source(), &field, self.managed) == Shape::Open)
    }

    /// Whether what an author wrote fits the schema, and if not, where.
    pub(super) fn check(
        &self,
        id: Option<&str>,
        version: i64,
        body: &Map<String, Value>,
    ) -> Result<(), Vec<Violation>> {
        let mut candidate = body.clone();
        if let (true, Some(id)) = (self.checks_id, id) {
            candidate.insert("id".into(), id.into());
        }
        if self.checks_version {
            candidate.insert("version".into(), version.into());
        }
        self.schema.check(&Value::Object(candidate))
    }

    pub(super) fn relation(&self, name: &str) -> Option<&CompiledRelation> {
        self.relations.iter().find(|relation| relation.name == name)
    }
}

fn requires(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|required| required == name))
}

/// What is found out about a definition on the way.
struct Check {
    schema: Value,
    managed: &'static [&'static str],
    issues: Vec<DefinitionIssue>,
    warnings: Vec<String>,
}

impl Check {
    fn wrong(&mut self, path: impl Into<String>, message: impl Into<String>) {
        self.issues.push(DefinitionIssue { path: path.into(), message: message.into() });
    }

    fn names(&mut self, definition: &TypeDefinition) {
        let given = [("/singularName", &definition.singular_name), ("/pluralName", &definition.plural_name)];
        for (path, name) in given.into_iter().filter_map(|(path, name)| Some((path, name.as_deref()?))) {
            let letters = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '_' | '-'));
            if !letters || !name.starts_with(|c: char| c.is_ascii_alphabetic()) || name.len() > LONGEST_NAME {
                let rule = format!("is a word of letters, digits, `_`, `-` and spaces, at most {LONGEST_NAME} of them");
                self.wrong(path, format!("{rule}, because tools are named after it"));
            }
        }
        if !definition.singular().starts_with(|c: char| c.is_ascii_alphabetic())
            || definition.singular().len() > LONGEST_NAME
        {
            self.wrong("/singularName", "tools are named after the type, whose name gives none; write one here");
        }
    }

    fn version_field(&mut self, definition: &TypeDefinition) {
        let Some(RecordsIn::Sql(sql)) = &definition.records else { return };
        let Some(field) = &sql.version_field else { return };
        if !sql.writable {
            self.wrong(
                "/records/versionField",
                "is for records that are written; say `writable: true`, or leave it out",
            );
        }
        if *field == sql.id_field {
            self.wrong("/records/versionField", "cannot be the field that tells records apart");
        }
        if field != "version" && shape::properties(&self.schema).any(|(declared, _)| declared == field) {
            let path = format!("/jsonSchema/properties/{}", field.replace('~', "~0").replace('/', "~1"));
            self.wrong(path, format!("`{field}` is shown as `version`; leave it out"));
        }
        if field != "version" && requires(&self.schema, field) {
            self.wrong("/jsonSchema/required", format!("`{field}` is shown as `version`; leave it out"));
        }
    }

    fn compiled_schema(&mut self) -> Option<Schema> {
        if self.schema.to_string().len() > LARGEST_SCHEMA {
            self.wrong("/jsonSchema", format!("a schema has at most {LARGEST_SCHEMA} bytes"));
            return None;
        }
        let types = shape::types(&self.schema);
        let speaks_of_objects = self.schema.is_object() && (types.is_empty() || types.contains(&"object"));
        if !speaks_of_objects && self.schema != Value::Bool(true) {
            self.wrong("/jsonSchema/type", "a record is an object, so its schema is one of `\"type\": \"object\"`");
        }
        // Those would be checked before the server fills them in.
        let filled: &[&str] = if self.managed == MANAGED { &MANAGED } else { &[] };
        let unfillable: Vec<&str> =
            filled.iter().copied().filter(|name| *name != "id" && requires(&self.schema, name)).collect();
        for name in unfillable {
            self.wrong("/jsonSchema/required", format!("the server fills in `{name}`; leave it out"));
        }
        let declared = |name: &&str| shape::properties(&self.schema).any(|(declared, _)| declared == name);
        let shadowed: Vec<&str> = filled.iter().copied().filter(|name| *name != "id").filter(declared).collect();
        for name in shadowed {
            self.warnings.push(format!("the server fills in `{name}`, whatever the schema says of it"));
        }
        match Schema::compile(self.schema.clone()) {
            Ok(schema) => Some(schema),
            Err(violation) => {
                self.wrong(format!("/jsonSchema{}", violation.path), violation.message);
                None
            }
        }
    }

    fn searchable(&mut self, definition: &TypeDefinition) -> Vec<Searchable> {
        let mut found: Vec<Searchable> = Vec::new();
        let mut seen: Vec<&str> = Vec::new();
        if definition.searchable_fields.len() > MOST_FIELDS {
            self.wrong("/searchableFields", format!("a type has at most {MOST_FIELDS} of them"));
            return found;
        }
        for (at, text) in definition.searchable_fields.iter().enumerate() {
            let path = format!("/searchableFields/{at}");
            if seen.contains(&text.as_str()) {
                self.wrong(path, format!("`{text}` is there twice"));
                continue;
            }
            seen.push(text);
            let Some(field) = self.field(&path, text) else { continue };
            let kind = shape::searchable_kind(shape::at(&self.schema, &field, self.managed));
            match kind.map(|kind| Searchable::new(text, kind)) {
                // The id has an index of its own.
                _ if text == "id" => {}
                Some(Ok(searchable)) => found.push(searchable),
                Some(Err(error)) => self.wrong(path, error.to_string()),
                None => self.warnings.push(format!(
                    "`{text}` is searched without an index, because the schema does not say that it holds one text, number or date"
                )),
            }
        }
        found
    }

    fn relations(&mut self, definition: &TypeDefinition) -> Vec<CompiledRelation> {
        let mut found: Vec<CompiledRelation> = Vec::new();
        if definition.relations.len() > MOST_FIELDS {
            self.wrong("/relations", format!("a type has at most {MOST_FIELDS} of them"));
            return found;
        }
        for (at, relation) in definition.relations.iter().enumerate() {
            let path = |field: &str| format!("/relations/{at}/{field}");
            let is_word = Field::parse(&relation.name).is_ok() && !relation.name.contains(['.', ' ', '&', '/']);
            if !is_word || relation.name.len() > LONGEST_NAME {
                self.wrong(path("name"), "is one word of letters, digits, `_` and `-`");
            } else if self.managed.contains(&relation.name.as_str()) {
                self.wrong(path("name"), format!("the server fills in `{}`; choose another name", relation.name));
            } else if found.iter().any(|other| other.name == relation.name) {
                self.wrong(path("name"), format!("there are two relations `{}`", relation.name));
            }
            if relation.target.is_empty() {
                self.wrong(path("type"), "names the type of the other records");
            }
            if let Some(field) = self.field(&path("field"), &relation.field) {
                let (name, target, many) = (relation.name.clone(), relation.target.clone(), relation.many);
                found.push(CompiledRelation { name, target, field, many });
            }
        }
        found
    }

    fn items(&mut self, definition: &TypeDefinition) -> Option<JsonPath> {
        let Some(RecordsIn::Rest(rest)) = &definition.records else { return None };
        if rest.id_field.is_empty() {
            self.wrong("/records/idField", "names the field that tells records apart");
        }
        match JsonPath::parse(rest.items.as_deref()?) {
            Ok(path) => Some(path),
            Err(error) => {
                self.wrong("/records/items", error.to_string());
                None
            }
        }
    }

    fn field(&mut self, place: &str, text: &str) -> Option<Field> {
        match Field::parse(text).map_err(|error: InvalidField| error.to_string()) {
            Ok(field) if shape::at(&self.schema, &field, self.managed) == Shape::Impossible => {
                self.wrong(place, format!("no record can have a field `{text}`, says the schema"));
                None
            }
            Ok(field) => Some(field),
            Err(message) => {
                self.wrong(place, message);
                None
            }
        }
    }
}
