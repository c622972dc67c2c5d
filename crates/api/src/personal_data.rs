//! Masks personal data in logs of executions: mail addresses, phone numbers and card numbers.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

static MAIL: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}").ok());
static PHONE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\+\d{1,3}(?:[ .-]?\(?\d{1,4}\)?){2,5}\d|\(\d{3}\) ?\d{3}[ .-]\d{4}\b|\b\d{3}[ .-]\d{3}[ .-]\d{4}\b")
        .ok()
});
static CARD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\b\d(?:[ -]?\d){12,18}\b").ok());

/// Masks personal data in a text.
pub(crate) fn masked(text: &str) -> String {
    let text = replace(&MAIL, text, |_| Some("[email]"));
    let text = replace(&CARD, &text, |number| is_card_number(number).then_some("[card]"));
    replace(&PHONE, &text, |_| Some("[phone]")).into_owned()
}

/// Masks personal data in all strings of a value. The names of fields are not changed.
pub(crate) fn masked_value(value: &Value) -> Value {
    match value {
        Value::String(text) => Value::String(masked(text)),
        Value::Array(items) => items.iter().map(masked_value).collect(),
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), masked_value(value))).collect(),
        other => other.clone(),
    }
}

fn replace<'a>(
    pattern: &LazyLock<Option<Regex>>,
    text: &'a str,
    mask: impl Fn(&str) -> Option<&'static str>,
) -> Cow<'a, str> {
    let Some(pattern) = pattern.as_ref() else { return Cow::Borrowed(text) };
    pattern.replace_all(text, |found: &Captures<'_>| {
        let found = found.get(0).map_or("", |found| found.as_str());
        mask(found).map_or_else(|| found.to_owned(), str::to_owned)
    })
}

/// Whether the digits have a valid check digit (Luhn algorithm).
fn is_card_number(text: &str) -> bool {
    let digits = text.chars().filter_map(|c| c.to_digit(10)).rev().enumerate();
    let sum: u32 = digits
        .map(|(position, digit)| match position % 2 {
            0 => digit,
            _ if digit > 4 => digit * 2 - 9,
            _ => digit * 2,
        })
        .sum();
    sum.is_multiple_of(10)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mail_addresses_phone_numbers_and_card_numbers_are_masked() {
        for (text, expected) in [
            ("Write to ada.l@mail.example.org now", "Write to [email] now"),
            ("Call +49 (30) 1234 5678 today", "Call [phone] today"),
            ("Call (555) 123-4567 or 555-123-4567", "Call [phone] or [phone]"),
            ("Card 4111 1111 1111 1111.", "Card [card]."),
            ("Card 4111111111111111", "Card [card]"),
        ] {
            assert_eq!(masked(text), expected);
        }
    }

    #[test]
    fn ids_amounts_and_times_are_not_masked() {
        for text in [
            "deal 101, 3200 USD, run_01JCXYZ0123456789ABCDEFGHJ",
            "2026-11-18T09:30:00.123456Z",
            "1234567890123",
            "4111 1111 1111 1112",
            "user@localhost",
            "v1.2.3 costs 0.00125",
        ] {
            assert_eq!(masked(text), text);
        }
    }

    #[test]
    fn strings_at_any_depth_are_masked_and_field_names_are_kept() {
        let value = json!({ "a@b.org": [{ "to": "x@y.org" }, 7] });
        assert_eq!(masked_value(&value), json!({ "a@b.org": [{ "to": "[email]" }, 7] }));
    }
}
