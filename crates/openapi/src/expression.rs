//! Writing `${…}`: the ways to an input, and texts around them.

/// Words that cannot stand behind a dot.
const WORDS: [&str; 4] = ["true", "false", "null", "in"];

/// The way to a field of `base`: `param.id`, `param['x-y']`.
pub(crate) fn field(base: &str, name: &str) -> String {
    let mut characters = name.chars();
    let plain = characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !WORDS.contains(&name);
    if plain { format!("{base}.{name}") } else { format!("{base}[{}]", quoted(name)) }
}

/// A text as a literal.
pub(crate) fn quoted(text: &str) -> String {
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

/// A hole.
pub(crate) fn hole(expression: &str) -> String {
    format!("${{{expression}}}")
}

/// A text in which nothing is a hole. `before_hole` when one follows: `$${` would be no hole either.
pub(crate) fn literal(text: &str, before_hole: bool) -> String {
    let escaped = text.replace("${", "$${");
    match escaped.strip_suffix('$') {
        Some(rest) if before_hole => format!("{rest}${{'$'}}"),
        _ => escaped,
    }
}

/// The items of a list with a separator between them; a value that is no list as it is; nothing where nothing was given.
pub(crate) fn joined(list: &str, separator: &str) -> String {
    let items = format!("{list}.map(x, string(x)).join({})", quoted(separator));
    format!("type({list}) == 'list' ? {items} : {list}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_can_be_written() {
        for (name, way) in [
            ("id", "param.id"),
            ("_x1", "param._x1"),
            ("in", "param['in']"),
            ("x-y", "param['x-y']"),
            ("1a", "param['1a']"),
            ("", "param['']"),
            ("it's \\", "param['it\\'s \\\\']"),
        ] {
            assert_eq!(field("param", name), way);
        }
    }

    #[test]
    fn a_dollar_before_a_hole_stays_a_dollar() {
        assert_eq!(literal("/a$", true), "/a${'$'}");
        assert_eq!(literal("/a$", false), "/a$");
        assert_eq!(literal("/${x}", false), "/$${x}");
    }
}
