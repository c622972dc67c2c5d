//! The functions of the expression language: names, call syntax and number of arguments.

use super::SyntaxError;

/// A function of the language. The macros (`map`, `filter`, `has`, …) are not functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Bool,
    Contains,
    Double,
    Dyn,
    EndsWith,
    Int,
    Join,
    LowerAscii,
    Matches,
    Max,
    Min,
    Omit,
    Size,
    Split,
    StartsWith,
    String,
    Trim,
    Type,
    Uint,
    UpperAscii,
}

/// The syntax of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `name(value)`
    Global,
    /// `value.name()`
    Method,
}

struct Signature {
    name: &'static str,
    function: Function,
    styles: &'static [Style],
    /// The minimum and maximum number of arguments, including the value before the dot.
    arguments: (usize, usize),
}

const GLOBAL: &[Style] = &[Style::Global];
const METHOD: &[Style] = &[Style::Method];
const EITHER: &[Style] = &[Style::Global, Style::Method];

/// The names of the macros, for the message about an unknown function.
const MACROS: &[&str] = &["all", "exists", "exists_one", "filter", "has", "map"];

#[rustfmt::skip]
const SIGNATURES: &[Signature] = &[
    Signature { name: "bool", function: Function::Bool, styles: GLOBAL, arguments: (1, 1) },
    Signature { name: "contains", function: Function::Contains, styles: METHOD, arguments: (2, 2) },
    Signature { name: "double", function: Function::Double, styles: GLOBAL, arguments: (1, 1) },
    Signature { name: "dyn", function: Function::Dyn, styles: GLOBAL, arguments: (1, 1) },
    Signature { name: "endsWith", function: Function::EndsWith, styles: METHOD, arguments: (2, 2) },
    Signature { name: "int", function: Function::Int, styles: GLOBAL, arguments: (1, 1) },
    Signature { name: "join", function: Function::Join, styles: METHOD, arguments: (1, 2) },
    Signature { name: "lowerAscii", function: Function::LowerAscii, styles: METHOD, arguments: (1, 1) },
    Signature { name: "matches", function: Function::Matches, styles: EITHER, arguments: (2, 2) },
    Signature { name: "max", function: Function::Max, styles: GLOBAL, arguments: (1, 64) },
    Signature { name: "min", function: Function::Min, styles: GLOBAL, arguments: (1, 64) },
    Signature { name: "omit", function: Function::Omit, styles: METHOD, arguments: (2, 2) },
    Signature { name: "size", function: Function::Size, styles: EITHER, arguments: (1, 1) },
    Signature { name: "split", function: Function::Split, styles: METHOD, arguments: (2, 3) },
    Signature { name: "startsWith", function: Function::StartsWith, styles: METHOD, arguments: (2, 2) },
    Signature { name: "string", function: Function::String, styles: GLOBAL, arguments: (1, 1) },
    Signature { name: "trim", function: Function::Trim, styles: METHOD, arguments: (1, 1) },
    Signature { name: "type", function: Function::Type, styles: GLOBAL, arguments: (1, 1) },
    Signature { name: "uint", function: Function::Uint, styles: GLOBAL, arguments: (1, 1) },
    Signature { name: "upperAscii", function: Function::UpperAscii, styles: METHOD, arguments: (1, 1) },
];

/// Resolves a call to a function. `count` is the number of arguments, including the value before the dot.
pub(crate) fn resolve(offset: usize, name: &str, style: Style, count: usize) -> Result<Function, SyntaxError> {
    let signature = SIGNATURES
        .iter()
        .find(|signature| signature.name == name)
        .ok_or_else(|| SyntaxError::new(offset, unknown(name)))?;
    if !signature.styles.contains(&style) {
        return Err(SyntaxError::new(offset, wrong_style(name, style)));
    }
    let (min, max) = signature.arguments;
    if !(min..=max).contains(&count) {
        return Err(SyntaxError::new(offset, wrong_count(name, style, signature.arguments, count)));
    }
    Ok(signature.function)
}

fn unknown(name: &str) -> String {
    let mut names: Vec<&str> = SIGNATURES.iter().map(|signature| signature.name).collect();
    names.extend(MACROS);
    names.sort_unstable();
    format!("unknown function `{name}`; expected one of {}", names.join(", "))
}

fn wrong_style(name: &str, style: Style) -> String {
    match style {
        Style::Global => format!("`{name}` must be called as a method; write `value.{name}(…)`"),
        Style::Method => format!("`{name}` must not be called as a method; write `{name}(value)`"),
    }
}

fn wrong_count(name: &str, style: Style, arguments: (usize, usize), count: usize) -> String {
    let before_dot = usize::from(style == Style::Method);
    let range = match (arguments.0 - before_dot, arguments.1 - before_dot) {
        (min, max) if min == max => min.to_string(),
        (min, max) => format!("{min} to {max}"),
    };
    let given = count - before_dot;
    format!("`{name}` takes {range} argument(s) in parentheses, got {given}")
}
