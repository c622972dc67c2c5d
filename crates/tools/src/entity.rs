//! A Rust struct as a type of records.

use serde_json::Value;
use toolwright_types::{JsonSchema, Operation, Relation, TypeDefinition};

use crate::tool::derived_schema;

/// A struct whose values are records of a type. `#[derive(EntityType)]` of `toolwright-derive` implements it.
pub trait EntityType: schemars::JsonSchema {
    /// What cannot be read off the struct.
    const NAMING: EntityNaming;

    /// The type, ready to be registered: the description is the struct's doc comment, the schema that of its fields.
    fn type_definition() -> Result<TypeDefinition, serde_json::Error>
    where
        Self: Sized,
    {
        let mut schema = derived_schema::<Self>();
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        Self::NAMING.definition(description, schema)
    }
}

/// What a type and its tools are called, and which of them there are.
#[derive(Debug, Clone, Copy)]
pub struct EntityNaming {
    /// The type.
    pub name: &'static str,
    /// One record.
    pub singular: Option<&'static str>,
    /// Several.
    pub plural: Option<&'static str>,
    /// The category of the tools.
    pub category: Option<&'static str>,
    /// The labels of the tools.
    pub tags: &'static [&'static str],
    /// Fields that an index serves.
    pub searchable: &'static [&'static str],
    /// Operations without a tool.
    pub exclude: &'static [&'static str],
    /// Fields that hold ids of other records.
    pub relations: &'static [EntityRelation],
}

/// A field that holds the id of a record, or the ids of several.
#[derive(Debug, Clone, Copy)]
pub struct EntityRelation {
    /// What the relation is called.
    pub name: &'static str,
    /// The type of the other records.
    pub target: &'static str,
    /// The field, as it is called in JSON.
    pub field: &'static str,
    /// Whether it is a list.
    pub many: bool,
}

impl EntityRelation {
    fn definition(&self) -> Relation {
        let Self { name, target, field, many } = *self;
        Relation { name: name.to_owned(), target: target.to_owned(), field: field.to_owned(), many }
    }
}

impl EntityNaming {
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
