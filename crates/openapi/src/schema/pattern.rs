//! Checks regular expressions. API documents contain patterns of many regex dialects.

use serde_json::json;
use toolwright_types::JsonSchema;

/// Returns whether the schema of a tool may contain the pattern. The pattern must follow ECMA-262, without look-around
/// and back-references, so that it matches in linear time, and its compiled size must be within the limit.
pub(super) fn is_supported(pattern: &str) -> bool {
    let options = jsonschema::PatternOptions::regex().size_limit(JsonSchema::MAX_PATTERN_BYTES);
    jsonschema::options().offline().with_pattern_options(options).build(&json!({ "pattern": pattern })).is_ok()
}
