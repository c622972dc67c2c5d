//! Patterns of properties and of their names. Descriptions of APIs hold those of any language.

use serde_json::json;
use toolwright_types::JsonSchema;

/// Whether a tool's schema may have this pattern: one of ECMA-262 that neither looks around nor refers back, so that it can
/// be held against a text in linear time, and that does not grow beyond measure.
pub(super) fn is_usable(pattern: &str) -> bool {
    let options = jsonschema::PatternOptions::regex().size_limit(JsonSchema::LARGEST_PATTERN);
    jsonschema::options().offline().with_pattern_options(options).build(&json!({ "pattern": pattern })).is_ok()
}
