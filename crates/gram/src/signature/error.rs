//! The errors of signatures and of their conversion from JSON Schema.

use super::Type;

/// The reason why a pattern is not a valid signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The pattern is not a path of nodes such as `(a::Text)==>(::String)`.
    #[error("signature must be a path such as `(name::Text)==>(::String)`, or `()==>(::String)` without parameters")]
    NotAPath,
    /// A parameter or field has no name.
    #[error("parameter {position} must have a name, as in `(name::Text)`")]
    MissingParameterName {
        /// The position of the parameter, counted from 1.
        position: usize,
    },
    /// Two parameters have the same name.
    #[error("parameter `{name}` is declared more than once")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A node does not have exactly one label.
    #[error("{what} must have exactly one type; known types are {names}", names = Type::NAMES)]
    TypeCount {
        /// What has the wrong number of types: a parameter, a field, an item or the result.
        what: String,
    },
    /// A label is not the name of a type.
    #[error("{what} has the unknown type `{label}`; known types are {names}", names = Type::NAMES)]
    UnknownType {
        /// What has the unknown type: a parameter, a field, an item or the result.
        what: String,
        /// The label.
        label: String,
    },
    /// A default or an enum value does not have the type of its parameter.
    #[error("{property} of parameter `{name}` must be {expected}")]
    TypeMismatch {
        /// The property with the wrong value: `default` or `enum`.
        property: &'static str,
        /// The parameter.
        name: String,
        /// A description of the expected type.
        expected: String,
    },
    /// The default is not one of the enum values.
    #[error("default of parameter `{name}` must be one of its `enum` values")]
    DefaultNotInEnum {
        /// The parameter.
        name: String,
    },
    /// A property that parameters do not support.
    #[error(
        "parameter `{name}` has the unknown property `{key}`; known properties are default, description, enum, elementType and fields"
    )]
    UnknownProperty {
        /// The parameter.
        name: String,
        /// The property.
        key: String,
    },
    /// A known property has an invalid value, or the type of the parameter does not support the property.
    #[error("`{key}` of parameter `{name}` must be {expected}")]
    InvalidProperty {
        /// The parameter.
        name: String,
        /// The property.
        key: &'static str,
        /// A description of the valid use.
        expected: &'static str,
    },
    /// A parameter has elements that are neither the fields of an object nor the item type of an array.
    #[error(
        "parameter `{name}` must not have these elements; only an Object has fields, and only an Array has one item type"
    )]
    InvalidElements {
        /// The parameter.
        name: String,
    },
}

/// The reason why a signature cannot express a JSON Schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("schema at `{pointer}` cannot be expressed as a signature: {reason}")]
pub struct SchemaError {
    /// The JSON pointer of the unsupported part. Empty for the whole schema.
    pub pointer: String,
    /// The rule that the schema breaks.
    pub reason: String,
}
