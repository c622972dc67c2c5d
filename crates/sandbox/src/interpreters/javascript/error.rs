//! Maps exceptions of QuickJS to errors with a line number.

use rquickjs::{CaughtError, Error, FromJs, Object, Value};

use super::super::values::truncate_message;
use crate::Limit;

/// The file name that QuickJS reports for the code of a job.
pub(super) const FILE: &str = "code.js";

/// The meaning of an exception of QuickJS.
pub(super) enum ScriptError {
    /// The code exceeded a limit that QuickJS enforces.
    Limit(Limit),
    /// The code could not be parsed, so it never ran.
    Syntax { message: String, line: Option<u32> },
    /// The code failed.
    Exception { message: String, line: Option<u32> },
}

impl<'js> From<CaughtError<'js>> for ScriptError {
    fn from(caught: CaughtError<'js>) -> Self {
        match caught {
            CaughtError::Exception(exception) => Self::from_error_object(exception.as_object()),
            CaughtError::Value(value) => Self::from_thrown_value(&value),
            CaughtError::Error(Error::Allocation) => Self::Limit(Limit::Memory),
            CaughtError::Error(Error::InvalidString(_)) => {
                Self::Syntax { message: "the code contains a NUL character".to_owned(), line: None }
            }
            CaughtError::Error(error) => Self::Exception { message: error.to_string(), line: None },
        }
    }
}

impl ScriptError {
    fn from_error_object(error: &Object<'_>) -> Self {
        let name = string_property(error, "name").unwrap_or_else(|| "Error".to_owned());
        let message = string_property(error, "message").unwrap_or_default();
        match (name.as_str(), message.as_str()) {
            ("InternalError", "out of memory") => return Self::Limit(Limit::Memory),
            ("RangeError", "Maximum call stack size exceeded") => return Self::Limit(Limit::Depth),
            _ => {}
        }
        let stack = string_property(error, "stack").unwrap_or_default();
        let line = line_in_stack(&stack);
        let message = if message.is_empty() { name.clone() } else { format!("{name}: {message}") };
        // The stack trace of a parser error begins with a position in the code. In the stack trace of a run-time error,
        // positions are in brackets after a function name.
        let from_parser = stack.trim_start().strip_prefix("at ").is_some_and(|position| position.starts_with(FILE));
        if name == "SyntaxError" && from_parser {
            return Self::Syntax { message: truncate_message(&message), line };
        }
        Self::Exception { message, line }
    }

    fn from_thrown_value(value: &Value<'_>) -> Self {
        let text = rquickjs::Coerced::<String>::from_js(value.ctx(), value.clone());
        let message = text.map_or_else(|_| "a value that cannot be converted to a string".to_owned(), |text| text.0);
        Self::Exception { message, line: None }
    }
}

fn string_property(error: &Object<'_>, field: &str) -> Option<String> {
    error.get::<_, Value>(field).ok()?.as_string()?.to_string().ok()
}

/// Returns the innermost line of the code in a stack trace such as `    at f (code.js:3:7)`.
fn line_in_stack(stack: &str) -> Option<u32> {
    let position = stack.split(FILE).nth(1)?.strip_prefix(':')?;
    position.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
