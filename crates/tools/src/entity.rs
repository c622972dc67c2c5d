//! Types of records as a Rust author writes them: a struct that derives [`EntityType`].

use toolwright_types::{JsonSchema, Operation, Relation};

pub use toolwright_derive::EntityType;
pub use toolwright_types::TypeDefinition;

use crate::tool::derived_schema;

/// A struct whose values are records.
///
/// ```
/// use schemars::JsonSchema;
/// use toolwright_tools::EntityType;
///
/// /// What a customer has ordered.
/// #[derive(JsonSchema, EntityType)]
/// #[serde(rename_all = "camelCase")]
/// #[tools(exclude(delete), searchable(status, customerId))]
/// #[tools(relation(name = "customer", type = "Customer", field = "customerId"))]
/// struct Order {
///     /// Where the order stands.
///     status: String,
///     customer_id: String,
///     total: f64,
/// }
///
/// let order = Order::entity_type();
/// assert_eq!(order.ref_name.as_str(), "Order");
/// assert_eq!(order.description.as_deref(), Some("What a customer has ordered."));
/// assert_eq!(order.effective_schema()["properties"]["customerId"]["type"], "string");
/// ```
///
/// What cannot be is told by the compiler:
///
/// ```compile_fail
/// #[derive(schemars::JsonSchema, toolwright_tools::EntityType)]
/// #[tools(exclude(drop))]
/// struct Order {}
/// ```
///
/// The definition is saved like any other, by `registry.create` or as the body of `POST /api/v1/ai/types`.
pub trait EntityType: schemars::JsonSchema {
    /// The type's definition.
    fn entity_type() -> TypeDefinition;
}

/// What a struct says of itself. Made by the derive macro.
#[doc(hidden)]
pub struct Declared {
    pub name: &'static str,
    pub description: Option<&'static str>,
    pub singular: Option<&'static str>,
    pub plural: Option<&'static str>,
    pub category: Option<&'static str>,
    pub tags: &'static [&'static str],
    pub exclude: &'static [&'static str],
    pub searchable: &'static [&'static str],
    pub relations: &'static [DeclaredRelation],
}

/// A relation as a struct declares it. Made by the derive macro.
#[doc(hidden)]
pub struct DeclaredRelation {
    pub name: &'static str,
    pub target: &'static str,
    pub field: &'static str,
    pub many: bool,
}

impl Declared {
    /// The definition of `T`.
    #[expect(clippy::expect_used, reason = "the macro lets no other name through")]
    pub fn define<T: schemars::JsonSchema>(self) -> TypeDefinition {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let relation = |relation: &DeclaredRelation| Relation {
            name: relation.name.to_owned(),
            target: relation.target.to_owned(),
            field: relation.field.to_owned(),
            many: relation.many,
        };
        TypeDefinition {
            ref_name: self.name.parse().expect("the name of a struct is the name of a type"),
            name: None,
            singular_name: self.singular.map(str::to_owned),
            plural_name: self.plural.map(str::to_owned),
            description: self.description.map(str::to_owned),
            category: self.category.map(str::to_owned),
            tags: own(self.tags),
            json_schema: Some(JsonSchema(derived_schema::<T>())),
            searchable_fields: own(self.searchable),
            exclude_operations: self.exclude.iter().filter_map(|name| Operation::parse(name)).collect(),
            relations: self.relations.iter().map(relation).collect(),
        }
    }
}
