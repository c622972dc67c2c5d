//! Writes `${…}` templates: field accesses, string literals and the text around expressions.

/// Reserved words of the expression language, which cannot follow a dot.
const RESERVED_WORDS: [&str; 4] = ["true", "false", "null", "in"];

/// Writes the access to a field of `base`: `param.id`, `param['x-y']`.
pub(crate) fn field_access(base: &str, name: &str) -> String {
    let mut characters = name.chars();
    let plain = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !RESERVED_WORDS.contains(&name);
    if plain { format!("{base}.{name}") } else { format!("{base}[{}]", string_literal(name)) }
}

/// Writes a string literal.
pub(crate) fn string_literal(text: &str) -> String {
    let mut out = String::from("'");
    for c in text.chars() {
        match c {
            '\'' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

/// Writes the placeholder of an expression: `${…}`.
pub(crate) fn placeholder(expression: &str) -> String {
    format!("${{{expression}}}")
}

/// Escapes text so that no part of it is read as a placeholder. Set `before_placeholder` if a placeholder follows the
/// text. Then a final `$` is escaped too, because `$` and `${` would form the escape `$${`.
pub(crate) fn escape_text(text: &str, before_placeholder: bool) -> String {
    let escaped = text.replace("${", "$${");
    match escaped.strip_suffix('$') {
        Some(rest) if before_placeholder => format!("{rest}${{'$'}}"),
        _ => escaped,
    }
}

/// Writes an expression that joins the items of a list with a separator. The expression returns absent values and
/// values that are not lists unchanged.
pub(crate) fn join_list(list: &str, separator: &str) -> String {
    let items = format!("{list}.map(x, string(x)).join({})", string_literal(separator));
    format!("type({list}) == 'list' ? {items} : {list}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_not_identifiers_are_quoted_in_field_access() {
        for (name, expected) in [
            ("id", "param.id"),
            ("_x1", "param._x1"),
            ("in", "param['in']"),
            ("x-y", "param['x-y']"),
            ("1a", "param['1a']"),
            ("", "param['']"),
            ("it's \\", "param['it\\'s \\\\']"),
        ] {
            assert_eq!(field_access("param", name), expected);
        }
    }

    #[test]
    fn dollar_sign_before_a_placeholder_is_kept() {
        assert_eq!(escape_text("/a$", true), "/a${'$'}");
        assert_eq!(escape_text("/a$", false), "/a$");
        assert_eq!(escape_text("/${x}", false), "/$${x}");
    }
}
