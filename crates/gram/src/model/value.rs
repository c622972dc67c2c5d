//! Defines property values. The constructors reject values that the notation cannot express.

use std::collections::BTreeMap;

use crate::syntax::is_symbol;

/// The value of a property.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A value that is neither an array nor a map.
    Scalar(Scalar),
    /// A list of scalars.
    Array(Array),
    /// A map from keys to scalars and arrays.
    Map(Map),
}

/// The entries of a map value.
pub type Map = BTreeMap<String, MapValue>;

/// A value in a [`Map`]. A map cannot contain another map.
#[derive(Debug, Clone, PartialEq)]
pub enum MapValue {
    /// A value that is not an array.
    Scalar(Scalar),
    /// A list of scalars.
    Array(Array),
}

/// A value that is neither an array nor a map.
#[derive(Debug, Clone, PartialEq)]
pub enum Scalar {
    /// `42`, `1.5` or `10kg`
    Number(Number),
    /// `true` or `false`
    Boolean(bool),
    /// Text.
    String(String),
    /// A name without quotes.
    Symbol(Symbol),
    /// Text with a language tag, as in ``md`*text*` ``.
    Tagged {
        /// The language.
        tag: Symbol,
        /// The text.
        content: String,
    },
    /// `1..10`
    Range(Range),
}

/// A number, optionally with a unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Number {
    /// An integer. Hexadecimal and octal notation is not preserved.
    Integer(i64),
    /// A number with a decimal point.
    Decimal(Decimal),
    /// An integer with a unit.
    Measurement(Measurement),
}

/// A finite number with a decimal point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Decimal(f64);

impl Decimal {
    /// Returns `None` if `value` is infinite or NaN.
    pub fn new(value: f64) -> Option<Self> {
        value.is_finite().then_some(Self(value))
    }

    /// Returns the number.
    pub fn get(self) -> f64 {
        self.0
    }
}

/// An integer with a unit of ASCII letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measurement {
    amount: i64,
    unit: String,
}

impl Measurement {
    /// Returns `None` if `unit` is empty or contains anything but ASCII letters.
    pub fn new(amount: i64, unit: impl Into<String>) -> Option<Self> {
        let unit = unit.into();
        let is_unit = !unit.is_empty() && unit.bytes().all(|byte| byte.is_ascii_alphabetic());
        is_unit.then_some(Self { amount, unit })
    }

    /// Returns the number without its unit.
    pub fn amount(&self) -> i64 {
        self.amount
    }

    /// Returns the unit.
    pub fn unit(&self) -> &str {
        &self.unit
    }
}

/// An inclusive range of numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum Range {
    /// `1..10`
    Between(Number, Number),
    /// `1...`
    From(Number),
    /// `...10`
    To(Number),
}

/// A name that can be written without quotes. `true` and `false` are not symbols.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Symbol(String);

impl Symbol {
    /// Returns `None` if `name` cannot be written as a symbol.
    pub fn new(name: impl Into<String>) -> Option<Self> {
        let name = name.into();
        (is_symbol(&name) && !matches!(name.as_str(), "true" | "false")).then_some(Self(name))
    }

    /// Returns the name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A non-empty list of scalars.
#[derive(Debug, Clone, PartialEq)]
pub struct Array(Vec<Scalar>);

impl Array {
    /// Returns `None` if `items` is empty: the notation has no empty array.
    pub fn new(items: Vec<Scalar>) -> Option<Self> {
        (!items.is_empty()).then_some(Self(items))
    }

    /// Returns the items.
    pub fn as_slice(&self) -> &[Scalar] {
        &self.0
    }
}

impl Value {
    /// Returns the text of a plain or tagged string.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Scalar(Scalar::String(text) | Scalar::Tagged { content: text, .. }) => Some(text),
            _ => None,
        }
    }

    /// Returns the text of a plain string or symbol.
    pub fn as_string_or_symbol(&self) -> Option<&str> {
        match self {
            Self::Scalar(scalar) => scalar.as_string_or_symbol(),
            _ => None,
        }
    }
}

impl Scalar {
    /// Returns the text of a plain string or symbol.
    pub fn as_string_or_symbol(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            Self::Symbol(symbol) => Some(symbol.as_str()),
            _ => None,
        }
    }
}

impl Number {
    /// Returns the number without its unit. Large integers lose precision.
    pub fn as_f64(&self) -> f64 {
        match self {
            Self::Integer(value) => *value as f64,
            Self::Decimal(value) => value.get(),
            Self::Measurement(measurement) => measurement.amount as f64,
        }
    }

    /// Returns the unit of a measurement.
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

impl From<MapValue> for Value {
    fn from(entry: MapValue) -> Self {
        match entry {
            MapValue::Scalar(scalar) => Self::Scalar(scalar),
            MapValue::Array(array) => Self::Array(array),
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
