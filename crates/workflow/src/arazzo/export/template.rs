//! Texts with `${…}` placeholders, as texts with runtime expressions.

use super::super::expression::{TextPart, is_runtime, split_text};

/// A part of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    Constant(String),
    Placeholder(String),
}

/// Splits a template. A placeholder ends at the first `}`, because paths have no brackets of this kind.
pub(super) fn split(text: &str) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut constant = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, after) = rest.split_at_checked(at).unwrap_or((rest, ""));
        if let Some(before) = before.strip_suffix('$') {
            constant.push_str(before);
            constant.push_str("${");
            rest = after.get(2..).unwrap_or_default();
            continue;
        }
        constant.push_str(before);
        let (expression, tail) = after
            .get(2..)
            .and_then(|inner| inner.split_once('}'))
            .ok_or_else(|| "a placeholder is not closed".to_owned())?;
        // The import writes a final `$` before a placeholder as a literal.
        if expression == "'$'" {
            constant.push('$');
        } else {
            if !constant.is_empty() {
                parts.push(Part::Constant(std::mem::take(&mut constant)));
            }
            parts.push(Part::Placeholder(expression.trim().to_owned()));
        }
        rest = tail;
    }
    constant.push_str(rest);
    if !constant.is_empty() || parts.is_empty() {
        parts.push(Part::Constant(constant));
    }
    Ok(parts)
}

/// Writes a text. `convert` converts the expression of a placeholder to a runtime expression.
pub(super) fn write(text: &str, mut convert: impl FnMut(&str) -> Result<String, String>) -> Result<String, String> {
    let parts = split(text)?;
    if let [Part::Placeholder(expression)] = parts.as_slice() {
        let as_text = expression.strip_prefix("string(").and_then(|rest| rest.strip_suffix(')'));
        return match as_text {
            Some(path) => Ok(format!("{{{}}}", embeddable(convert(path)?)?)),
            None => convert(expression),
        };
    }
    let mut out = String::new();
    for part in parts {
        match part {
            Part::Constant(constant) => {
                let is_constant = matches!(split_text(&constant).as_slice(), [] | [TextPart::Constant(_)]);
                if !is_constant || out.is_empty() && is_runtime(&constant) {
                    return Err(format!("the text `{constant}` would be read as a runtime expression"));
                }
                out.push_str(&constant);
            }
            Part::Placeholder(expression) => out.push_str(&format!("{{{}}}", embeddable(convert(&expression)?)?)),
        }
    }
    Ok(out)
}

fn embeddable(expression: String) -> Result<String, String> {
    match expression.contains(['{', '}']) {
        true => Err(format!("`{expression}` cannot be part of a text")),
        false => Ok(expression),
    }
}
