//! Why something is no signature.

use super::Type;

/// A pattern that is no signature.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// The pattern is not a chain of nodes.
    #[error("a signature is a path such as `(name::Text)==>(::String)`; without parameters it is `()==>(::String)`")]
    NotAPath,
    /// A parameter, or a field, without a name.
    #[error("parameter {position} has no name; write `(name::Text)`")]
    Unnamed {
        /// Which one, counted from 1.
        position: usize,
    },
    /// Two parameters of one name.
    #[error("two parameters have the name `{name}`")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// A node that does not have exactly one label.
    #[error("{what} needs exactly one type; known types are {names}", names = Type::NAMES)]
    NotOneType {
        /// The parameter, or the result.
        what: String,
    },
    /// A label that is no type.
    #[error("{what} has the unknown type `{label}`; known types are {names}", names = Type::NAMES)]
    UnknownType {
        /// The parameter, or the result.
        what: String,
        /// The label.
        label: String,
    },
    /// A default or choice that does not have the type of its parameter.
    #[error("{property} of parameter `{name}` must be {expected}")]
    WrongType {
        /// `default` or `enum`.
        property: &'static str,
        /// The parameter.
        name: String,
        /// The type that it should have.
        expected: String,
    },
    /// A default that is not one of the choices.
    #[error("default of parameter `{name}` is not one of its `enum`")]
    NotAChoice {
        /// The parameter.
        name: String,
    },
    /// A property that parameters do not have.
    #[error(
        "parameter `{name}` has the unknown property `{key}`; known are default, description, enum, elementType and fields"
    )]
    UnknownProperty {
        /// The parameter.
        name: String,
        /// The property.
        key: String,
    },
    /// A known property on a parameter that it does not go with, or with a value that it does not take.
    #[error("`{key}` of parameter `{name}` must be {expected}")]
    WrongProperty {
        /// The parameter.
        name: String,
        /// The property.
        key: &'static str,
        /// What would be right.
        expected: &'static str,
    },
    /// Elements of a parameter that is neither an object nor an array of one type.
    #[error("parameter `{name}` cannot have these elements; fields belong to an Object, one item type to an Array")]
    WrongElements {
        /// The parameter.
        name: String,
    },
}

/// A schema that no signature has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pointer}` of the schema has no place in a signature: {reason}")]
pub struct SchemaError {
    /// The JSON pointer of the part that does not fit; empty for the schema itself.
    pub pointer: String,
    /// Why it does not fit.
    pub reason: String,
}
