//! Derives entity types from Rust structs.

use serde_json::Value;
use toolwright_types::{JsonSchema, Operation, Relation, TypeDefinition};

use crate::tool::derived_schema;

/// A struct whose values are records of an entity type. `#[derive(EntityType)]` of `toolwright-derive` implements it.
pub trait EntityType: schemars::JsonSchema {
    /// The parts of the definition that cannot be derived from the struct's fields.
    const SPEC: EntitySpec;

    /// Returns the type definition. Its description is the struct's doc comment, its schema is derived from the fields.
    fn type_definition() -> Result<TypeDefinition, serde_json::Error>
    where
        Self: Sized,
    {
        let mut schema = derived_schema::<Self>();
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        Self::SPEC.definition(description, schema)
    }
}

/// The names of a type and its tools, and which tools are generated.
#[derive(Debug, Clone, Copy)]
pub struct EntitySpec {
    /// The name of the type.
    pub name: &'static str,
    /// The singular form in tool names; derived from `name` if absent.
    pub singular: Option<&'static str>,
    /// The plural form in tool names; derived from the singular form if absent.
    pub plural: Option<&'static str>,
    /// The category of the tools.
    pub category: Option<&'static str>,
    /// The labels of the tools.
    pub tags: &'static [&'static str],
    /// The indexed fields.
    pub searchable: &'static [&'static str],
    /// The operations for which no tool is generated.
    pub exclude: &'static [&'static str],
    /// The fields that hold ids of other records.
    pub relations: &'static [EntityRelation],
}

/// A field that holds the id of a record, or the ids of several records.
#[derive(Debug, Clone, Copy)]
pub struct EntityRelation {
    /// The name of the relation.
    pub name: &'static str,
    /// The type of the related records.
    pub target: &'static str,
    /// The JSON name of the field.
    pub field: &'static str,
    /// Whether the field is a list of ids.
    pub many: bool,
}

impl EntityRelation {
    fn definition(&self) -> Relation {
        let Self { name, target, field, many } = *self;
        Relation { name: name.to_owned(), target: target.to_owned(), field: field.to_owned(), many }
    }
}

impl EntitySpec {
    fn definition(&self, description: Option<Value>, schema: Value) -> Result<TypeDefinition, serde_json::Error> {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let text = |text: Option<&str>| text.map(str::to_owned);
        Ok(TypeDefinition {
            ref_name: serde_json::from_value(Value::from(self.name))?,
            name: None,
            singular_name: text(self.singular),
            plural_name: text(self.plural),
            description: description.as_ref().and_then(Value::as_str).map(str::to_owned),
            category: text(self.category),
            tags: owned(self.tags),
            json_schema: Some(JsonSchema(schema)),
            searchable_fields: owned(self.searchable),
            exclude_operations: self.exclude.iter().filter_map(|name| Operation::parse(name)).collect(),
            relations: self.relations.iter().map(EntityRelation::definition).collect(),
            records: None,
        })
    }
}
