//! The content filter: blocked words and patterns, matched in linear time.

use regex::{RegexSet, RegexSetBuilder};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a content filter looks for, as it is written in a definition.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct FilterRules {
    /// Words, matched whole and without regard to case.
    pub words: Vec<String>,
    /// Regular expressions, without look-around and back-references.
    pub patterns: Vec<String>,
    /// Which side of a call is looked at.
    pub applies_to: AppliesTo,
}

/// Which side of a call a filter looks at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AppliesTo {
    /// What goes in and what comes out.
    #[default]
    Both,
    /// What goes in.
    Input,
    /// What comes out.
    Output,
}

/// Rules that can be matched.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "FilterRules", into = "FilterRules")]
pub struct ContentFilter {
    rules: FilterRules,
    set: RegexSet,
}

/// Rules that cannot be matched.
#[derive(Debug, Clone, thiserror::Error)]
pub enum InvalidFilter {
    /// A blank rule would match everything.
    #[error("a content filter's words and patterns must not be blank")]
    Blank,
    /// Not a regular expression, or one that grows too large.
    #[error("a content filter's pattern does not compile: {0}")]
    Pattern(regex::Error),
}

impl ContentFilter {
    /// The number of the first rule that `value` breaks, words first, counted from 1.
    pub fn breaks_rule(&self, value: &Value) -> Option<usize> {
        match value {
            Value::String(text) => self.rule_in(text),
            Value::Number(number) => self.rule_in(&number.to_string()),
            Value::Array(items) => items.iter().find_map(|item| self.breaks_rule(item)),
            Value::Object(fields) => {
                fields.iter().find_map(|(key, value)| self.rule_in(key).or_else(|| self.breaks_rule(value)))
            }
            Value::Null | Value::Bool(_) => None,
        }
    }

    /// Whether what goes in is looked at.
    pub fn sees_input(&self) -> bool {
        self.rules.applies_to != AppliesTo::Output
    }

    /// Whether what comes out is looked at.
    pub fn sees_output(&self) -> bool {
        self.rules.applies_to != AppliesTo::Input
    }

    fn rule_in(&self, text: &str) -> Option<usize> {
        self.set.matches(text).iter().next().map(|rule| rule + 1)
    }
}

impl TryFrom<FilterRules> for ContentFilter {
    type Error = InvalidFilter;

    fn try_from(rules: FilterRules) -> Result<Self, InvalidFilter> {
        if rules.words.iter().chain(&rules.patterns).any(|rule| rule.trim().is_empty()) {
            return Err(InvalidFilter::Blank);
        }
        let patterns = rules.words.iter().map(|word| whole_word(word)).chain(rules.patterns.iter().cloned());
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

/// A word ends at a word boundary only where its own end is part of a word: `c++` has none on its right.
fn whole_word(word: &str) -> String {
    let edge = |end: Option<char>| if end.is_some_and(|c| c.is_alphanumeric() || c == '_') { r"\b" } else { "" };
    let word = word.trim();
    format!("(?i){}{}{}", edge(word.chars().next()), regex::escape(word), edge(word.chars().next_back()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_match_whole_and_patterns_match_anywhere() {
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
            assert_eq!(filter.breaks_rule(&value), rule, "{value}");
        }
    }

    #[test]
    fn rules_that_cannot_work_are_refused_when_they_are_read() {
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
