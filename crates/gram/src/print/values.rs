//! Prints names and values.

use std::fmt::Write;

use crate::model::{Array, Map, MapValue, Number, Properties, Range, Scalar, Value};
use crate::syntax::{is_integer, is_symbol};

/// The maximum number of characters of a quoted string. A longer string is printed as a fenced string.
const MAX_QUOTED_CHARS: usize = 120;

pub(super) fn identifier(out: &mut String, identity: &str) {
    if is_integer(identity) { out.push_str(identity) } else { name(out, identity) }
}

/// Prints a label or identifier, in backticks if necessary.
pub(super) fn name(out: &mut String, name: &str) {
    if is_symbol(name) { out.push_str(name) } else { quoted(out, name, '`') }
}

pub(super) fn record(out: &mut String, properties: &Properties) {
    braces(out, properties.iter(), value);
}

fn map(out: &mut String, map: &Map) {
    braces(out, map.iter(), |out, entry| match entry {
        MapValue::Scalar(entry) => scalar(out, entry),
        MapValue::Array(entry) => array(out, entry),
    });
}

fn braces<'v, V: 'v>(
    out: &mut String,
    entries: impl Iterator<Item = (&'v String, &'v V)>,
    value: impl Fn(&mut String, &V),
) {
    out.push('{');
    for (index, (key, entry)) in entries.enumerate() {
        if index > 0 {
            out.push(',');
        }
        name(out, key);
        out.push(':');
        value(out, entry);
    }
    out.push('}');
}

/// Prints a value in the notation of record values.
pub(super) fn value(out: &mut String, value: &Value) {
    match value {
        Value::Scalar(value) => scalar(out, value),
        Value::Array(value) => array(out, value),
        Value::Map(value) => map(out, value),
    }
}

fn array(out: &mut String, array: &Array) {
    out.push('[');
    for (index, item) in array.as_slice().iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        scalar(out, item);
    }
    out.push(']');
}

fn scalar(out: &mut String, scalar: &Scalar) {
    match scalar {
        Scalar::Number(value) => number(out, value),
        Scalar::Boolean(value) => out.push_str(if *value { "true" } else { "false" }),
        Scalar::Symbol(symbol) => out.push_str(symbol.as_str()),
        Scalar::String(text) if needs_fence(text) => fence(out, "", text),
        Scalar::String(text) => quoted(out, text, '"'),
        Scalar::Tagged { tag, content } if needs_fence(content) => fence(out, tag.as_str(), content),
        Scalar::Tagged { tag, content } => {
            out.push_str(tag.as_str());
            quoted(out, content, '`');
        }
        Scalar::Range(Range::Between(lower, upper)) => {
            number(out, lower);
            out.push_str("..");
            number(out, upper);
        }
        Scalar::Range(Range::From(lower)) => {
            number(out, lower);
            out.push_str("...");
        }
        Scalar::Range(Range::To(upper)) => {
            out.push_str("...");
            number(out, upper);
        }
    }
}

fn number(out: &mut String, number: &Number) {
    match number {
        Number::Integer(value) => push(out, value),
        Number::Decimal(value) => {
            let text = value.get().to_string();
            out.push_str(&text);
            if !text.contains('.') {
                out.push_str(".0");
            }
        }
        Number::Measurement(measurement) => {
            // `0xF` would be parsed as a hexadecimal number, but `-0xF` is parsed as 0 with the unit `xF`.
            if measurement.amount() == 0 && measurement.unit().starts_with('x') {
                out.push('-');
            }
            push(out, measurement.amount());
            out.push_str(measurement.unit());
        }
    }
}

fn push(out: &mut String, value: impl std::fmt::Display) {
    // Writing to a `String` cannot fail.
    let _ = write!(out, "{value}");
}

/// Returns whether a text should be printed as a fenced string. This is the case if the text is long or has several
/// lines, and a fenced string can represent it.
fn needs_fence(text: &str) -> bool {
    let has_lines = text.trim_end_matches('\n').contains('\n');
    let fits = !text.contains("```") && !text.ends_with('`') && !starts_like_a_comment(text);
    (has_lines || text.chars().nth(MAX_QUOTED_CHARS).is_some()) && fits
}

fn fence(out: &mut String, tag: &str, content: &str) {
    out.push_str("```");
    out.push_str(tag);
    out.push('\n');
    out.push_str(content);
    out.push_str("```");
}

fn quoted(out: &mut String, text: &str, quote: char) {
    // The slash is escaped, because the reference parser would read `//` or `/**` at the start of a quoted string as a
    // comment.
    let mut escape_slash = starts_like_a_comment(text);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '/' if escape_slash => {
                out.push_str("\\/");
                escape_slash = false;
            }
            '\\' => out.push_str("\\\\"),
            c if c == quote => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out.push(quote);
}

fn starts_like_a_comment(text: &str) -> bool {
    let text = text.trim_start();
    text.starts_with("//") || text.starts_with("/**")
}
