//! The content filter: blocked words and patterns, matched in linear time.

use regex::{RegexSet, RegexSetBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The rules of a content filter, as an agent definition contains them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct FilterRules {
    /// Words, matched as whole words and case-insensitively.
    pub words: Vec<String>,
    /// Regular expressions without look-around and back-references.
    pub patterns: Vec<String>,
    /// Whether the filter checks the input of a call, its output, or both.
    pub applies_to: AppliesTo,
}

/// The parts of a call that a content filter checks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AppliesTo {
    /// Input and output.
    #[default]
    Both,
    /// Input only.
    Input,
    /// Output only.
    Output,
}

/// Compiled content filter rules.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "FilterRules", into = "FilterRules")]
pub struct ContentFilter {
    rules: FilterRules,
    set: RegexSet,
}

/// The reason why content filter rules cannot be compiled.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InvalidFilter {
    /// A word or pattern is blank and would match everything.
    #[error("words and patterns of a content filter must not be blank")]
    Blank,
    /// A pattern is not a valid regular expression, or compiles to too large a program.
    #[error("pattern of the content filter does not compile: {0}")]
    Pattern(regex::Error),
}

impl ContentFilter {
    /// Returns the number of the first rule that `value` breaks. Rules are counted from 1: first the words, then the
    /// patterns.
    pub fn first_broken_rule(&self, value: &Value) -> Option<usize> {
        match value {
            Value::String(text) => self.broken_rule_in(text),
            Value::Number(number) => self.broken_rule_in(&number.to_string()),
            Value::Array(items) => items.iter().find_map(|item| self.first_broken_rule(item)),
            Value::Object(fields) => fields
                .iter()
                .find_map(|(key, value)| self.broken_rule_in(key).or_else(|| self.first_broken_rule(value))),
            Value::Null | Value::Bool(_) => None,
        }
    }

    /// Whether the filter checks inputs.
    pub fn checks_input(&self) -> bool {
        self.rules.applies_to != AppliesTo::Output
    }

    /// Whether the filter checks outputs.
    pub fn checks_output(&self) -> bool {
        self.rules.applies_to != AppliesTo::Input
    }

    fn broken_rule_in(&self, text: &str) -> Option<usize> {
        self.set.matches(text).iter().next().map(|rule| rule + 1)
    }
}

impl TryFrom<FilterRules> for ContentFilter {
    type Error = InvalidFilter;

    fn try_from(rules: FilterRules) -> Result<Self, InvalidFilter> {
        if rules.words.iter().chain(&rules.patterns).any(|rule| rule.trim().is_empty()) {
            return Err(InvalidFilter::Blank);
        }
        let patterns = rules.words.iter().map(|word| whole_word_pattern(word)).chain(rules.patterns.iter().cloned());
        let set = RegexSetBuilder::new(patterns).size_limit(1 << 20).build().map_err(InvalidFilter::Pattern)?;
        Ok(Self { rules, set })
    }
}

impl From<ContentFilter> for FilterRules {
    fn from(filter: ContentFilter) -> Self {
        filter.rules
    }
}

impl PartialEq for ContentFilter {
    fn eq(&self, other: &Self) -> bool {
        self.rules == other.rules
    }
}

/// Adds a word boundary before the first and after the last character, if that character is a letter, a digit or an
/// underscore. `c++` therefore gets a boundary on its left only.
fn whole_word_pattern(word: &str) -> String {
    let edge = |end: Option<char>| if end.is_some_and(|c| c.is_alphanumeric() || c == '_') { r"\b" } else { "" };
    let word = word.trim();
    format!("(?i){}{}{}", edge(word.chars().next()), regex::escape(word), edge(word.chars().next_back()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn content_filter_matches_words_as_whole_words_and_patterns_anywhere() {
        let filter: ContentFilter =
            serde_json::from_value(json!({ "words": ["secret", "c++"], "patterns": ["[0-9]{16}"] })).unwrap();
        for (value, rule) in [
            (json!({ "q": "a SECRET plan" }), Some(1)),
            (json!({ "q": "secretary" }), None),
            (json!({ "secret": null }), Some(1)),
            (json!(["learn C++ today"]), Some(2)),
            (json!({ "card": 4111_1111_1111_1111_u64 }), Some(3)),
            (json!({ "card": "x4111111111111111y" }), Some(3)),
            (json!({ "ok": [true, null, 1.5] }), None),
        ] {
            assert_eq!(filter.first_broken_rule(&value), rule, "{value}");
        }
    }

    #[test]
    fn invalid_content_filter_rules_are_rejected_on_deserialization() {
        for bad in [
            json!({ "words": [" "] }),
            json!({ "patterns": ["("] }),
            json!({ "patterns": ["(?=x)"] }),
            json!({ "patterns": ["a{1000}{1000}{1000}"] }),
            json!({ "word": ["x"] }),
        ] {
            assert!(serde_json::from_value::<ContentFilter>(bad.clone()).is_err(), "{bad}");
        }
    }
}
