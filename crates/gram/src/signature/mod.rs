//! Type signatures of tools: `(personName::Text)==>(age::Int {default: 18})==>(::String)`.
//!
//! The last node is the return type. Each other node is a parameter. A parameter has a name, one label that names its
//! type, and optional properties:
//!
//! | property | meaning |
//! |---|---|
//! | `default` | the value if the parameter is omitted |
//! | `description` | a description |
//! | `enum` | the allowed values |
//! | `elementType` | the type of an array's items |
//! | `fields` | the fields of an object and their types, as in `{name: "Text", age: "Int"}` |
//!
//! Nested types are written as elements, in the bracket form of a path: `[ | p1, p2, …, result]`. The elements of an
//! `Object` are its fields, written like parameters. The only element of an `Array` is the type of its items:
//!
//! ```text
//! [ | [user:Object | (name::Text), [address:Object | (city::Text)]], [tags:Array | (::Text)], (::String)]
//! ```
//!
//! The types are `String` (or `Text`), `Integer` (`Int`), `Number` (`Double`), `Boolean` (`Bool`), `Object` and
//! `Array`. `()==>(::String)` has no parameters.

mod error;
mod from_pattern;
mod from_schema;
mod to_pattern;
mod to_schema;
mod type_check;

pub use error::{SchemaError, SignatureError};

use serde_json::Value as Json;

use crate::diagnostic::Diagnostics;
use crate::model::{self, Pattern};
use crate::print::print_signature;
use crate::syntax::Tree;

/// The parameters and return type of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Signature {
    /// The parameters in order. Their names are unique.
    pub parameters: Vec<Parameter>,
    /// The return type.
    pub returns: Type,
}

/// A parameter of a tool, or a field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// The name, which is not empty.
    pub name: String,
    /// The type.
    pub kind: Type,
    /// The value that is used if the parameter is omitted. A parameter without a default is required.
    pub default: Option<Json>,
    /// The description.
    pub description: Option<String>,
    /// The allowed values. Empty if all values of the type are allowed.
    pub choices: Vec<Json>,
}

/// The type of a parameter or result.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// Text.
    String,
    /// An integer.
    Integer,
    /// Any number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// An object, optionally with its fields.
    Object(Option<Vec<Parameter>>),
    /// An array, optionally with the type of its items.
    Array(Option<Box<Type>>),
}

impl Signature {
    /// Parses a signature.
    ///
    /// A signature may contain `{fields: [{name: "x", type: "Text"}]}`, an array of maps. The gram grammar allows this
    /// form only in signatures.
    pub fn parse(source: &str) -> Result<Self, SignatureParseError> {
        let pattern = model::lower_signature(&Tree::parse_signature(source).into_result()?)?;
        Ok(Self::from_pattern(&pattern)?)
    }

    /// Converts a pattern to a signature. In a tool, this pattern is the only element of the tool.
    pub fn from_pattern(pattern: &Pattern) -> Result<Self, SignatureError> {
        from_pattern::signature(pattern)
    }

    /// Converts the signature to a pattern, which can be used as the element of a tool.
    pub fn to_pattern(&self) -> Pattern {
        to_pattern::signature(self)
    }

    /// Returns the JSON Schema of an object with the parameters as properties.
    ///
    /// ```
    /// use serde_json::json;
    /// use toolwright_gram::Signature;
    ///
    /// let signature = Signature::parse("(personName::Text)==>(age::Int {default: 18})==>(::String)").unwrap();
    /// let schema = json!({
    ///     "type": "object",
    ///     "properties": {"personName": {"type": "string"}, "age": {"type": "integer", "default": 18}},
    ///     "required": ["personName"],
    /// });
    /// assert_eq!(signature.to_schema(), schema);
    /// ```
    pub fn to_schema(&self) -> Json {
        to_schema::object(&self.parameters)
    }

    /// Returns the signature whose JSON Schema is exactly `schema`. The return type is a separate argument, because the
    /// schema does not contain it.
    pub fn from_schema(schema: &Json, returns: Type) -> Result<Self, SchemaError> {
        from_schema::signature(schema, returns)
    }
}

impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&print_signature(&self.to_pattern()))
    }
}

/// The reason why a text is not a valid signature.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum SignatureParseError {
    /// The text is not valid gram.
    #[error(transparent)]
    Syntax(#[from] Diagnostics),
    /// The text is valid gram, but not a signature.
    #[error(transparent)]
    Signature(#[from] SignatureError),
}

impl Parameter {
    /// Creates a required parameter.
    pub fn required(name: impl Into<String>, kind: Type) -> Self {
        Self { name: name.into(), kind, default: None, description: None, choices: Vec::new() }
    }
}

impl Type {
    /// The names of all types, for error messages.
    pub(crate) const NAMES: &str = "String (Text), Integer (Int), Number (Double), Boolean (Bool), Object, Array";

    /// Returns the type whose name or alias is `name`. An object is returned without fields, an array without an item
    /// type.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "String" | "Text" => Some(Self::String),
            "Integer" | "Int" => Some(Self::Integer),
            "Number" | "Double" => Some(Self::Number),
            "Boolean" | "Bool" => Some(Self::Boolean),
            "Object" => Some(Self::Object(None)),
            "Array" => Some(Self::Array(None)),
            _ => None,
        }
    }

    /// Returns the canonical name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::String => "String",
            Self::Integer => "Integer",
            Self::Number => "Number",
            Self::Boolean => "Boolean",
            Self::Object(_) => "Object",
            Self::Array(_) => "Array",
        }
    }

    /// Returns the name in JSON Schema.
    pub(crate) fn schema_name(&self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Object(_) => "object",
            Self::Array(_) => "array",
        }
    }
}
