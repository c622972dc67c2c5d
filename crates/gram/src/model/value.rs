//! The values of properties. A value that the notation cannot express cannot be built.

use std::collections::BTreeMap;

use crate::syntax::is_symbol;

/// The value of a property.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Anything that is neither an array nor a map.
    Scalar(Scalar),
    /// Scalars in order.
    Array(Array),
    /// Entries by key.
    Map(Map),
}

/// The entries of a map value.
pub type Map = BTreeMap<String, Entry>;

/// The value of an entry of a [`Map`]: maps do not nest.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// Anything that is not an array.
    Scalar(Scalar),
    /// Scalars in order.
    Array(Array),
}

/// A value that is not made of other values.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// `42`, `1.5` or `10kg`
    Number(Number),
    /// `true` or `false`
    Boolean(bool),
    /// Text.
    String(String),
    /// A bare name.
    Symbol(Symbol),
    /// Text in some language, as in ``md`*text*` ``.
    Tagged {
        /// The language.
        tag: Symbol,
        /// The text.
        content: String,
    },
    /// `1..10`
    Range(Range),
}

/// A number, perhaps with a unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Number {
    /// A whole number. Hexadecimal and octal ones are read as their value.
    Integer(i64),
    /// A number with a decimal point.
    Decimal(Decimal),
    /// A whole number with a unit.
    Measurement(Measurement),
}

/// A finite number with a decimal point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decimal(f64);

impl Decimal {
    /// `value`, unless it is infinite or not a number.
    pub fn new(value: f64) -> Option<Self> {
        value.is_finite().then_some(Self(value))
    }

    /// The number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// A whole number with a unit of ASCII letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    amount: i64,
    unit: String,
}

impl Measurement {
    /// `amount` of `unit`, if that is one or more ASCII letters.
    pub fn new(amount: i64, unit: impl Into<String>) -> Option<Self> {
        let unit = unit.into();
        let is_unit = !unit.is_empty() && unit.bytes().all(|byte| byte.is_ascii_alphabetic());
        is_unit.then_some(Self { amount, unit })
    }

    /// How much.
    pub fn amount(&self) -> i64 {
        self.amount
    }

    /// Of what.
    pub fn unit(&self) -> &str {
        &self.unit
    }
}

/// A range of numbers, the ends included.
#[derive(Debug, Clone, PartialEq)]
pub enum Range {
    /// `1..10`
    Between(Number, Number),
    /// `1...`
    From(Number),
    /// `...10`
    To(Number),
}

/// A name that needs no quotes and is not a boolean.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(String);

impl Symbol {
    /// `name`, if it can be written as a symbol.
    pub fn new(name: impl Into<String>) -> Option<Self> {
        let name = name.into();
        (is_symbol(&name) && !matches!(name.as_str(), "true" | "false")).then_some(Self(name))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One or more scalars.
#[derive(Debug, Clone, PartialEq)]
pub struct Array(Vec<Scalar>);

impl Array {
    /// `items`, if there are any: the notation has no empty array.
    pub fn new(items: Vec<Scalar>) -> Option<Self> {
        (!items.is_empty()).then_some(Self(items))
    }

    /// The items.
    pub fn as_slice(&self) -> &[Scalar] {
        &self.0
    }
}

impl Value {
    /// The text of a string, tagged or not.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Scalar(Scalar::String(text) | Scalar::Tagged { content: text, .. }) => Some(text),
            _ => None,
        }
    }

    /// The text of a string or symbol.
    pub fn as_word(&self) -> Option<&str> {
        match self {
            Self::Scalar(scalar) => scalar.as_word(),
            _ => None,
        }
    }
}

impl Scalar {
    /// The text of a string or symbol.
    pub fn as_word(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Symbol(symbol) => Some(symbol.as_str()),
            _ => None,
        }
    }
}

impl Number {
    /// The number without its unit, as near as a double comes to it.
    pub fn as_f64(&self) -> f64 {
        match self {
            Self::Integer(value) => *value as f64,
            Self::Decimal(value) => value.get(),
            Self::Measurement(measurement) => measurement.amount as f64,
        }
    }

    /// The unit, when there is one.
    pub fn unit(&self) -> Option<&str> {
        match self {
            Self::Measurement(measurement) => Some(measurement.unit()),
            _ => None,
        }
    }
}

impl From<Scalar> for Value {
    fn from(scalar: Scalar) -> Self {
        Self::Scalar(scalar)
    }
}

impl From<Entry> for Value {
    fn from(entry: Entry) -> Self {
        match entry {
            Entry::Scalar(scalar) => Self::Scalar(scalar),
            Entry::Array(array) => Self::Array(array),
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Scalar(Scalar::String(text.to_owned()))
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Scalar(Scalar::String(text))
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Scalar(Scalar::Number(Number::Integer(value)))
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Scalar(Scalar::Boolean(value))
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Map(map)
    }
}

impl From<Symbol> for Value {
    fn from(symbol: Symbol) -> Self {
        Self::Scalar(Scalar::Symbol(symbol))
    }
}
