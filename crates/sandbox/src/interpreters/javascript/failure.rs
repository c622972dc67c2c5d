//! What was thrown, and where.

use rquickjs::{CaughtError, Error, FromJs, Object, Value};

use super::super::values::shortened;
use crate::Limit;

/// The name under which QuickJS knows the code of a job.
pub(super) const FILE: &str = "code.js";

/// What an exception of QuickJS means.
pub(super) enum Thrown {
    /// The code went beyond a limit that QuickJS keeps.
    Limit(Limit),
    /// The code never ran.
    Unreadable { message: String, line: Option<u32> },
    /// The code failed.
    Exception { message: String, line: Option<u32> },
}

impl<'js> From<CaughtError<'js>> for Thrown {
    fn from(caught: CaughtError<'js>) -> Self {
        match caught {
            CaughtError::Exception(exception) => Self::of_object(exception.as_object()),
            CaughtError::Value(value) => Self::of_value(&value),
            CaughtError::Error(Error::Allocation) => Self::Limit(Limit::Memory),
            CaughtError::Error(Error::InvalidString(_)) => {
                Self::Unreadable { message: "the code has a NUL character".to_owned(), line: None }
            }
            CaughtError::Error(error) => Self::Exception { message: error.to_string(), line: None },
        }
    }
}

impl Thrown {
    fn of_object(error: &Object<'_>) -> Self {
        let name = text(error, "name").unwrap_or_else(|| "Error".to_owned());
        let message = text(error, "message").unwrap_or_default();
        match (name.as_str(), message.as_str()) {
            ("InternalError", "out of memory") => return Self::Limit(Limit::Memory),
            ("RangeError", "Maximum call stack size exceeded") => return Self::Limit(Limit::Depth),
            _ => {}
        }
        let stack = text(error, "stack").unwrap_or_default();
        let line = line(&stack);
        let message = if message.is_empty() { name.clone() } else { format!("{name}: {message}") };
        // An error of the parser begins with a place in the code; whatever ran is in a frame, in brackets.
        let unread = stack.trim_start().strip_prefix("at ").is_some_and(|place| place.starts_with(FILE));
        if name == "SyntaxError" && unread {
            return Self::Unreadable { message: shortened(&message), line };
        }
        Self::Exception { message, line }
    }

    fn of_value(value: &Value<'_>) -> Self {
        let shown = rquickjs::Coerced::<String>::from_js(value.ctx(), value.clone());
        let message = shown.map_or_else(|_| "a value that cannot be shown".to_owned(), |shown| shown.0);
        Self::Exception { message, line: None }
    }
}

fn text(error: &Object<'_>, field: &str) -> Option<String> {
    error.get::<_, Value>(field).ok()?.as_string()?.to_string().ok()
}

/// The innermost line of the code in a trace such as `    at f (code.js:3:7)`.
fn line(stack: &str) -> Option<u32> {
    let place = stack.split(FILE).nth(1)?.strip_prefix(':')?;
    place.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}
