//! The functions that exist, how they may be called, and with how many arguments.

use super::SyntaxError;

/// A function of the language. Loops (`map`, `filter`, …) and `has` are not functions.
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

/// How a call is written.
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
    /// Fewest and most arguments, the value before the dot included.
    arguments: (usize, usize),
}

const GLOBAL: &[Style] = &[Style::Global];
const METHOD: &[Style] = &[Style::Method];
const EITHER: &[Style] = &[Style::Global, Style::Method];

/// Names of the macros, for the list of what exists.
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

/// Finds the function that a call means. `count` includes the value before the dot.
pub(crate) fn resolve(at: usize, name: &str, style: Style, count: usize) -> Result<Function, SyntaxError> {
    let signature = SIGNATURES
        .iter()
        .find(|signature| signature.name == name)
        .ok_or_else(|| SyntaxError::new(at, unknown(name)))?;
    if !signature.styles.contains(&style) {
        return Err(SyntaxError::new(at, wrong_style(name, style)));
    }
    let (fewest, most) = signature.arguments;
    if !(fewest..=most).contains(&count) {
        return Err(SyntaxError::new(at, wrong_count(name, style, signature.arguments, count)));
    }
    Ok(signature.function)
}

/// The message about a call of something that does not exist.
fn unknown(name: &str) -> String {
    let mut names: Vec<&str> = SIGNATURES.iter().map(|signature| signature.name).collect();
    names.extend(MACROS);
    names.sort_unstable();
    format!("unknown function `{name}`; there are {}", names.join(", "))
}

fn wrong_style(name: &str, style: Style) -> String {
    match style {
        Style::Global => format!("`{name}` is called on a value; write `value.{name}(…)`"),
        Style::Method => format!("`{name}` takes its value as an argument; write `{name}(value)`"),
    }
}

fn wrong_count(name: &str, style: Style, arguments: (usize, usize), count: usize) -> String {
    let before_dot = usize::from(style == Style::Method);
    let range = match (arguments.0 - before_dot, arguments.1 - before_dot) {
        (fewest, most) if fewest == most => fewest.to_string(),
        (fewest, most) => format!("{fewest} to {most}"),
    };
    let given = count - before_dot;
    format!("`{name}` takes {range} argument(s) in its brackets, not {given}")
}
