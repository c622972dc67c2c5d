//! The keyword that counts the work of a validation.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use jsonschema::paths::Location;
use jsonschema::{Keyword, ValidationError};
use serde_json::{Map, Value};
use toolwright_budget::{Stopped, charge_nested, within};

/// A keyword that is placed in front of a schema and counts the work of validating against this schema. The value of
/// the keyword is the number of nodes of the schema.
pub(super) const METER: &str = "x-toolwright-work";

/// How many nodes of a schema are checked in one step.
const NODES_PER_STEP: u64 = 4;
/// How many bytes, items or fields of a value are checked in one step.
const UNITS_PER_STEP: u64 = 64;

/// Creates the validator of a [`METER`].
pub(super) fn meter<'a>(
    _parent: &'a Map<String, Value>,
    weight: &'a Value,
    _path: Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    Ok(Box::new(Meter { steps: 1 + weight.as_u64().unwrap_or(0) / NODES_PER_STEP }))
}

struct Meter {
    steps: u64,
}

impl<'i> Keyword<'i> for Meter {
    fn validate(&self, instance: &'i Value) -> Result<(), ValidationError<'i>> {
        self.is_valid(instance);
        Ok(())
    }

    fn is_valid(&self, instance: &'i Value) -> bool {
        let units = match instance {
            Value::String(text) => text.len(),
            Value::Array(items) => items.len(),
            Value::Object(fields) => fields.len(),
            _ => 0,
        };
        if charge_nested(self.steps.saturating_mul(1 + units as u64 / UNITS_PER_STEP)).is_err() {
            resume_unwind(Box::new(Unwound));
        }
        true
    }
}

/// The payload of the unwinding that ends a validation. This unwinding does not call the panic hook.
struct Unwound;

/// Performs an operation of a validator, whose schema may contain [`METER`] keywords, within a maximum number of steps.
pub(super) fn metered<T>(steps: u64, operation: impl FnOnce() -> T) -> Result<T, Stopped> {
    // An operation does not change the validator, so the validator can be used after the unwinding.
    match within(steps, || catch_unwind(AssertUnwindSafe(operation)))? {
        Ok(result) => Ok(result),
        Err(panic) => resume_unwind(panic),
    }
}

#[cfg(test)]
mod tests {
    use toolwright_budget::MAX_STEPS;

    use super::*;

    #[test]
    fn panic_of_the_validator_is_passed_on() {
        let panicked = catch_unwind(|| metered(MAX_STEPS, || resume_unwind(Box::new("other"))));
        assert_eq!(panicked.unwrap_err().downcast_ref::<&str>(), Some(&"other"));
    }
}
