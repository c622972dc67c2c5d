//! Conditions of routing rules, compiled.

use std::borrow::Cow;

use regex::{Regex, RegexBuilder};
use serde_json::Value;
use toolwright_budget::charge;
use toolwright_types::{ConditionType, JsonSchema, RoutingCondition};

/// How many bytes of text are compared in one step of the budget.
const BYTES_PER_STEP: usize = 8;

/// A condition on one field of an input.
#[derive(Debug)]
pub(super) struct Condition {
    path: Vec<String>,
    test: Test,
}

#[derive(Debug)]
enum Test {
    /// A comparison of texts. If `case_sensitive` is false, `value` is stored in lower case.
    Text {
        how: TextTest,
        value: String,
        case_sensitive: bool,
    },
    Pattern(Regex),
}

#[derive(Debug, Clone, Copy)]
enum TextTest {
    Contains,
    Equals,
    StartsWith,
    EndsWith,
}

impl Condition {
    /// Compiles a condition. The error states what is wrong with the `value` of the condition.
    pub(super) fn compile(condition: &RoutingCondition) -> Result<Self, String> {
        let RoutingCondition { kind, field, value, case_sensitive } = condition;
        let how = match kind {
            ConditionType::Contains => Some(TextTest::Contains),
            ConditionType::Equals => Some(TextTest::Equals),
            ConditionType::StartsWith => Some(TextTest::StartsWith),
            ConditionType::EndsWith => Some(TextTest::EndsWith),
            ConditionType::Matches => None,
        };
        if value.is_empty() && *kind != ConditionType::Equals {
            return Err("must not be empty, because every text would match; use `defaultOperationId`".to_owned());
        }
        let test = match how {
            Some(how) => {
                let value = if *case_sensitive { value.clone() } else { value.to_lowercase() };
                Test::Text { how, value, case_sensitive: *case_sensitive }
            }
            None => {
                // The regex engine takes linear time, and the size of the compiled pattern is limited.
                let mut builder = RegexBuilder::new(value);
                let builder = builder.case_insensitive(!case_sensitive).size_limit(JsonSchema::MAX_PATTERN_BYTES);
                Test::Pattern(builder.build().map_err(|error| format!("is not a valid regular expression: {error}"))?)
            }
        };
        Ok(Self { path: field.split('.').map(str::to_owned).collect(), test })
    }

    /// Whether the condition matches. If the field is missing or null, the condition does not match. A value that is
    /// not text is compared as JSON text.
    pub(super) fn matches(&self, input: &Value) -> bool {
        let found = self.path.iter().try_fold(input, |value, segment| match value {
            Value::Object(fields) => fields.get(segment),
            Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
            _ => None,
        });
        let text = match found {
            None | Some(Value::Null) => return false,
            Some(Value::String(text)) => Cow::Borrowed(text.as_str()),
            Some(other) => Cow::Owned(other.to_string()),
        };
        let steps = u64::try_from(text.len() / BYTES_PER_STEP).unwrap_or(u64::MAX).saturating_add(1);
        // If the step limit is reached, the routing fails as a whole, so the result of this condition does not matter.
        charge(steps).is_ok() && self.test.accepts(&text)
    }
}

impl Test {
    fn accepts(&self, text: &str) -> bool {
        let (how, value, case_sensitive) = match self {
            Test::Pattern(pattern) => return pattern.is_match(text),
            Test::Text { how, value, case_sensitive } => (how, value.as_str(), case_sensitive),
        };
        let text = if *case_sensitive { Cow::Borrowed(text) } else { Cow::Owned(text.to_lowercase()) };
        match how {
            TextTest::Contains => text.contains(value),
            TextTest::Equals => text == value,
            TextTest::StartsWith => text.starts_with(value),
            TextTest::EndsWith => text.ends_with(value),
        }
    }
}
