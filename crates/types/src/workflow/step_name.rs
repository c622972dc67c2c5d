//! The names of steps.

/// The name of a step: letters, digits, `_` and `-`, starting with a letter or `_`.
pub type StepName = String;

/// Names that the expressions of a workflow use for other values.
pub const RESERVED_STEP_NAMES: [&str; 6] = ["input", "param", "steps", "item", "index", "output"];

/// The maximum length of the name of a step.
const MAX_NAME_CHARS: usize = 128;

/// Whether a text is a valid step name: letters, digits, `_` and `-`, starting with a letter or `_`, and not a name with
/// another meaning in expressions.
pub fn is_valid_step_name(name: &str) -> bool {
    let mut chars = name.chars();
    let first = chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    let rest = chars.all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    first && rest && name.len() <= MAX_NAME_CHARS && !RESERVED_STEP_NAMES.contains(&name)
}
