//! Type signatures of tools: `(personName::Text)==>(age::Int {default: 18})==>(::String)`.
//!
//! Each node but the last is a parameter, the last is what the tool returns. A parameter has a name, one label that names
//! its type, and perhaps properties:
//!
//! | property | meaning |
//! |---|---|
//! | `default` | the parameter may be left out |
//! | `description` | what it is for |
//! | `enum` | the values it may have |
//! | `elementType` | the type of an array's items |
//! | `fields` | the fields of an object and their types, `{name: "Text", age: "Int"}` |
//!
//! What lies deeper is written as elements, in the bracket form of a path: `[ | p1, p2, …, returned]`. The elements of
//! an `Object` are its fields, written like parameters; the one element of an `Array` is the type of its items:
//!
//! ```text
//! [ | [user:Object | (name::Text), [address:Object | (city::Text)]], [tags:Array | (::Text)], (::String)]
//! ```
//!
//! The types are `String` (or `Text`), `Integer` (`Int`), `Number` (`Double`), `Boolean` (`Bool`), `Object` and `Array`.
//! `()==>(::String)` takes nothing.

mod defaults;
mod error;
mod from_schema;
mod read;
mod to_schema;
mod write;

pub use error::{SchemaError, SignatureError};

use serde_json::Value as Json;

use crate::diagnostic::Diagnostics;
use crate::model::{self, Pattern};
use crate::print::print_signature;
use crate::syntax::Tree;

/// What a tool takes and what it returns.
#[derive(Debug, Clone, PartialEq)]
pub struct Signature {
    /// What it takes, in order. Each has a name of its own.
    pub parameters: Vec<Parameter>,
    /// What it returns.
    pub returns: Type,
}

/// A parameter of a tool, or a field of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its name, which is not empty.
    pub name: String,
    /// Its type.
    pub kind: Type,
    /// What it is when it is left out. Without a default it must be there.
    pub default: Option<Json>,
    /// What it is for.
    pub description: Option<String>,
    /// The values it may have; any when there are none.
    pub choices: Vec<Json>,
}

/// A type.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// Text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
    /// An object, with these fields if they are known.
    Object(Option<Vec<Parameter>>),
    /// An array, with items of this type if it is known.
    Array(Option<Box<Type>>),
}

impl Signature {
    /// Reads a signature from text.
    ///
    /// Besides gram it takes the form `{fields: [{name: "x", type: "Text"}]}`, which is documented for signatures although
    /// the grammar has no place for it.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let pattern = model::lower_signature(&Tree::parse_signature(source).valid()?)?;
        Ok(Self::from_pattern(&pattern)?)
    }

    /// Reads a signature from the element of a tool.
    pub fn from_pattern(pattern: &Pattern) -> Result<Self, SignatureError> {
        read::signature(pattern)
    }

    /// The signature as the element of a tool.
    pub fn to_pattern(&self) -> Pattern {
        write::signature(self)
    }

    /// The JSON Schema of an object with the parameters as properties.
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

    /// The signature whose schema is exactly `schema`. What it returns is not part of a schema.
    pub fn from_schema(schema: &Json, returns: Type) -> Result<Self, SchemaError> {
        from_schema::signature(schema, returns)
    }
}

impl std::fmt::Display for Signature {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&print_signature(&self.to_pattern()))
    }
}

/// A text that is no signature.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ParseError {
    /// The text is not gram.
    #[error(transparent)]
    Syntax(#[from] Diagnostics),
    /// The text is gram, but not a signature.
    #[error(transparent)]
    Signature(#[from] SignatureError),
}

impl Parameter {
    /// A parameter that must be there.
    pub fn required(name: impl Into<String>, kind: Type) -> Self {
        Self { name: name.into(), kind, default: None, description: None, choices: Vec::new() }
    }
}

impl Type {
    /// The names of all types, as errors list them.
    pub(crate) const NAMES: &str = "String (Text), Integer (Int), Number (Double), Boolean (Bool), Object, Array";

    /// The type of that name, in either vocabulary. Fields and items are not known from a name.
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

    /// Its name.
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

    /// Its name in JSON Schema.
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
