//! The configuration of a composite tool: a tool that routes each call to one of several operations.

use indexmap::IndexMap;
use serde::de::{DeserializeOwned, Error, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::nullable::null_as_default;
use crate::schema::{ParameterDefinition, schema_of_parameters};

/// How a composite tool routes its calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompositeConfig {
    /// Whether rules select the operation, or the caller names it.
    pub routing_mode: RoutingMode,
    /// The operation for calls that match no rule, given by its slug or by the id of its tool. Only for the mode
    /// `rule_based`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_operation_id: Option<String>,
    /// The operations, 1 to 20.
    #[serde(default, deserialize_with = "objects", skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<CompositeOperation>,
    /// The rules that select an operation. Only for the mode `rule_based`.
    #[serde(default, deserialize_with = "objects", skip_serializing_if = "Vec::is_empty")]
    pub routing_rules: Vec<RoutingRule>,
    /// The parameters of the composite tool, by name. Each entry also contains the parameter's name in each operation.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = std::collections::BTreeMap<String, UnifiedParameter>))]
    pub unified_schema: IndexMap<String, UnifiedParameter>,
    /// Data of the author. The server does not interpret it.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "Map::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub metadata: Map<String, Value>,
}

/// What selects the operation of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RoutingMode {
    /// The first rule that matches the input.
    RuleBased,
    /// The caller, with the parameter `operation`.
    AgentDriven,
}

impl RoutingMode {
    /// The name of the mode.
    pub fn as_str(self) -> &'static str {
        match self {
            RoutingMode::RuleBased => "rule_based",
            RoutingMode::AgentDriven => "agent_driven",
        }
    }
}

impl<'de> Deserialize<'de> for RoutingMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let found = [RoutingMode::RuleBased, RoutingMode::AgentDriven].into_iter().find(|mode| mode.as_str() == text);
        let rule = "INVALID_ROUTING_MODE: must be `rule_based` or `agent_driven`";
        found.ok_or_else(|| D::Error::custom(format!("{rule}, got `{text}`")))
    }
}

/// An operation of a composite tool: another tool, under a name of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompositeOperation {
    /// The name of the operation. Unique in the composite tool.
    pub operation_slug: String,
    /// The id of the tool. Either `actionId` or `actionSlug` is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_id: Option<String>,
    /// The name of the tool, with an optional version requirement: `hubspot/search-deals@^1.2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action_slug: Option<String>,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// What the operation does. Callers that select the operation see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Maps each parameter of the operation's tool to its value: the name of a parameter of the composite tool, a text
    /// with `${…}`, or a constant that is not a text.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "IndexMap::is_empty")]
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub parameter_mapping: IndexMap<String, Value>,
    /// The position among the operations that are listed to callers: lowest number first. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

impl CompositeOperation {
    /// The reference to the tool of the operation: its name, otherwise its id.
    pub fn tool(&self) -> Option<&str> {
        self.action_slug.as_deref().or(self.action_id.as_deref())
    }

    /// Whether `reference` means this operation: its slug, or the id of its tool.
    pub fn is_named(&self, reference: &str) -> bool {
        self.operation_slug == reference || self.action_id.as_deref() == Some(reference)
    }

    /// The text that describes the operation, if the author wrote one.
    pub fn summary(&self) -> Option<&str> {
        self.description.as_deref().or(self.display_name.as_deref()).filter(|text| !text.trim().is_empty())
    }
}

/// A rule that selects an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoutingRule {
    /// The condition.
    #[serde(deserialize_with = "object")]
    pub condition: RoutingCondition,
    /// The operation that the rule selects, given by its slug or by the id of its tool.
    pub operation_id: String,
    /// The order of the rules: lowest number first, and in the order of the list if the numbers are equal. Default: 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
}

/// A condition on one field of the input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RoutingCondition {
    /// How the field is compared with the value.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// The path of the field, with dots: `filter.company`, `items.0.name`.
    pub field: String,
    /// The text, or the regular expression for `matches`.
    pub value: String,
    /// Whether upper and lower case differ. Default: false.
    #[serde(default, deserialize_with = "null_as_default", skip_serializing_if = "std::ops::Not::not")]
    pub case_sensitive: bool,
}

/// How a condition compares a field with its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ConditionType {
    /// The field contains the value.
    Contains,
    /// The field equals the value.
    Equals,
    /// The regular expression matches a part of the field.
    Matches,
    /// The field starts with the value.
    StartsWith,
    /// The field ends with the value.
    EndsWith,
}

/// A parameter of a composite tool, and its name in each operation.
#[derive(Debug, Clone, PartialEq)]
pub struct UnifiedParameter {
    /// The parameter.
    pub definition: ParameterDefinition,
    /// The name of this parameter in each operation, by operation slug.
    pub operation_mappings: IndexMap<String, OperationMapping>,
}

/// The name of a unified parameter in one operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OperationMapping {
    /// The name of the parameter in the operation's tool.
    pub target_param: String,
}

/// The JSON field of a unified parameter that a `ParameterDefinition` does not have.
const OPERATION_MAPPINGS: &str = "operationMappings";

impl Serialize for UnifiedParameter {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Flat<'a> {
            #[serde(flatten)]
            definition: &'a ParameterDefinition,
            #[serde(rename = "operationMappings", skip_serializing_if = "IndexMap::is_empty")]
            operation_mappings: &'a IndexMap<String, OperationMapping>,
        }
        Flat { definition: &self.definition, operation_mappings: &self.operation_mappings }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for UnifiedParameter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Object(mut fields) = Object::<Map<String, Value>>::deserialize(deserializer)?;
        let mappings = fields.shift_remove(OPERATION_MAPPINGS).unwrap_or(Value::Null);
        let mappings: Option<IndexMap<String, Object<OperationMapping>>> = serde_json::from_value(mappings)
            .map_err(|error| D::Error::custom(format!("`{OPERATION_MAPPINGS}`: {error}")))?;
        let definition = serde_json::from_value(Value::Object(fields)).map_err(D::Error::custom)?;
        let mappings = mappings.unwrap_or_default().into_iter().map(|(operation, Object(target))| (operation, target));
        Ok(Self { definition, operation_mappings: mappings.collect() })
    }
}

#[cfg(feature = "openapi")]
mod openapi {
    use super::{IndexMap, OperationMapping, ParameterDefinition};

    /// A parameter of a composite tool: a parameter in the short form, and its name in each operation.
    #[derive(utoipa::ToSchema)]
    #[schema(as = UnifiedParameter)]
    #[expect(dead_code, reason = "the struct only describes the JSON")]
    struct UnifiedParameterSchema {
        #[schema(inline)]
        #[serde(flatten)]
        definition: ParameterDefinition,
        /// The name of this parameter in each operation, by operation slug.
        #[serde(rename = "operationMappings")]
        #[schema(value_type = Option<std::collections::BTreeMap<String, OperationMapping>>)]
        operation_mappings: IndexMap<String, OperationMapping>,
    }

    impl utoipa::PartialSchema for super::UnifiedParameter {
        fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
            UnifiedParameterSchema::schema()
        }
    }

    impl utoipa::ToSchema for super::UnifiedParameter {
        fn name() -> std::borrow::Cow<'static, str> {
            "UnifiedParameter".into()
        }

        fn schemas(schemas: &mut Vec<(String, utoipa::openapi::RefOr<utoipa::openapi::schema::Schema>)>) {
            UnifiedParameterSchema::schemas(schemas);
        }
    }
}

/// The name of the parameter with which a caller selects the operation.
pub const OPERATION_PARAMETER: &str = "operation";

impl CompositeConfig {
    /// Returns the operation that `reference` means: the slug of an operation, or the id of its tool.
    pub fn operation(&self, reference: &str) -> Option<&CompositeOperation> {
        let by_slug = self.operations.iter().find(|operation| operation.operation_slug == reference);
        by_slug.or_else(|| self.operations.iter().find(|operation| operation.is_named(reference)))
    }

    /// The operations in the order in which they are listed to callers.
    pub fn listed_operations(&self) -> Vec<&CompositeOperation> {
        let mut operations: Vec<&CompositeOperation> = self.operations.iter().collect();
        operations.sort_by_key(|operation| operation.priority.unwrap_or_default());
        operations
    }

    /// The references to the tools of the operations, with the path of each in the configuration.
    pub fn tools(&self) -> impl Iterator<Item = (String, &str)> {
        self.operations.iter().enumerate().filter_map(|(at, operation)| {
            let field = if operation.action_slug.is_some() { "actionSlug" } else { "actionId" };
            Some((format!("/operations/{at}/{field}"), operation.tool()?))
        })
    }

    /// The unified parameters in the short form of a schema.
    pub fn parameters(&self) -> IndexMap<String, ParameterDefinition> {
        self.unified_schema.iter().map(|(name, parameter)| (name.clone(), parameter.definition.clone())).collect()
    }

    /// The schema of the unified parameters; `None` if there are none.
    pub(super) fn unified_input_schema(&self) -> Option<Value> {
        if self.unified_schema.is_empty() {
            return None;
        }
        let mut schema = schema_of_parameters(&self.parameters());
        if let Some(fields) = schema.as_object_mut() {
            fields.insert("additionalProperties".into(), json!(false));
        }
        Some(schema)
    }

    /// Adds the parameter that selects the operation to an input schema. Only for the mode `agent_driven`.
    pub(super) fn with_operation_parameter(&self, mut schema: Value) -> Value {
        if self.routing_mode != RoutingMode::AgentDriven {
            return schema;
        }
        if schema == json!(true) {
            schema = json!({});
        }
        let Some(fields) = schema.as_object_mut() else { return schema };
        fields.entry("type").or_insert_with(|| json!("object"));
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        if let Some(properties) = properties.as_object_mut() {
            properties.insert(OPERATION_PARAMETER.to_owned(), self.operation_parameter());
        }
        let required = fields.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut()
            && !required.iter().any(|name| name == OPERATION_PARAMETER)
        {
            required.insert(0, json!(OPERATION_PARAMETER));
        }
        schema
    }

    /// The schema of the parameter that selects the operation.
    pub fn operation_parameter(&self) -> Value {
        let operations = self.listed_operations();
        let slugs: Vec<&str> = operations.iter().map(|operation| operation.operation_slug.as_str()).collect();
        let mut description = "The operation to perform.".to_owned();
        for operation in operations {
            if let Some(summary) = operation.summary() {
                description.push_str(&format!("\n- `{}`: {summary}", operation.operation_slug));
            }
        }
        json!({ "type": "string", "enum": slugs, "description": description })
    }
}

/// A value that must be an object in JSON. Without this wrapper, serde would read the items of an array as the fields
/// of the object.
struct Object<T>(T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: DeserializeOwned> Visitor<'de> for ObjectVisitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map))
            }
        }
        deserializer.deserialize_map(ObjectVisitor(std::marker::PhantomData)).map(Self)
    }
}

fn object<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(value)| value)
}

fn objects<'de, D: Deserializer<'de>, T: DeserializeOwned>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let items: Option<Vec<Object<T>>> = Option::deserialize(deserializer)?;
    Ok(items.unwrap_or_default().into_iter().map(|Object(item)| item).collect())
}
