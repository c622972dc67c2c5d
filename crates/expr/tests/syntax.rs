//! Syntax errors of expressions: each states its position, the broken rule and the remedy.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test fails at the first unexpected error")]

use toolwright_expr::{Expression, JsonTextTemplate, Template};

fn syntax_error(source: &str) -> String {
    match Expression::parse(source) {
        Ok(_) => panic!("{source} was accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn syntax_error_explains_the_mistake_and_has_a_position() {
    let cases = [
        ("", "the expression is empty; write a path such as `param.name` at 1:1"),
        ("a +", "expected a value, found the end at 1:4"),
        ("a b", "expected an operator or the end, found `b` at 1:3"),
        ("(a", "expected `)` for the bracket opened at byte 0, found the end at 1:3"),
        ("[1, 2", "expected `]` for the bracket opened at byte 0, found the end at 1:6"),
        ("a ? b", "expected `:` between the two values of `? :`, found the end at 1:6"),
        ("a = b", "`=` is not an operator; write `==` to compare at 1:3"),
        ("a & b", "`&` is not an operator; write `&&` at 1:3"),
        ("a.1x", "expected an operator or the end, found `x` at 1:4"),
        ("a.", "expected a field name after `.` (other keys as in `value[\"key\"]`), found the end at 1:3"),
        ("'abc", "unterminated string; close it with `'` at 1:1"),
        ("'a\\q'", "`\\q` is not an escape sequence; write `\\\\` for a backslash at 1:3"),
        ("b'abc'", "bytes literals are not supported; use a string at 1:1"),
        ("a.B{x: 1}", "messages cannot be constructed; write a map such as `{\"key\": value}` at 1:4"),
        ("for", "`for` is a reserved word; write `input.for` at 1:1"),
        ("${a}", "`$` is not allowed in an expression; write names without `${…}` at 1:1"),
        (
            "9223372036854775808",
            "the integer does not fit in 64 bits; write it with a decimal point, or with the suffix `u` at 1:1",
        ),
        ("x.size(1)", "`size` takes 0 argument(s) in parentheses, got 1 at 1:3"),
        ("split('a', 'b')", "`split` must be called as a method; write `value.split(…)` at 1:1"),
        ("x.string()", "`string` must not be called as a method; write `string(value)` at 1:3"),
        ("has(a)", "`has` takes one field, as in `has(param.name)` at 1:1"),
        ("a.map(1, b)", "the first argument of `map` must be a variable name, as in `list.map(x, …)` at 1:7"),
        ("a.all(x)", "`all` takes a variable name and an expression, as in `list.all(x, x.ok)` at 1:3"),
        ("a.matches('(')", "invalid pattern `(`: unclosed group at 1:11"),
        (
            "a.matches('\\\\w{1000}{1000}')",
            "invalid pattern `\\w{1000}{1000}`: it is too large; use fewer repetitions at 1:11",
        ),
    ];
    for (source, expected) in cases {
        assert_eq!(syntax_error(source), expected, "{source}");
    }
}

#[test]
fn unknown_function_error_lists_the_functions() {
    assert_eq!(
        syntax_error("1 + foo(2)"),
        "unknown function `foo`; expected one of all, bool, contains, double, dyn, endsWith, exists, exists_one, filter, \
         has, int, join, lowerAscii, map, matches, max, min, omit, size, split, startsWith, string, trim, type, uint, upperAscii at 1:5"
    );
    assert!(syntax_error("a.foo()").starts_with("unknown function `foo`"));
}

#[test]
fn texts_of_16_kib_with_maximum_nesting_do_not_overflow_the_stack() {
    // A test thread has 2 MiB of stack. Each text has the maximum length of 16 KiB.
    let filled = |unit: &str, last: &str| {
        let count = (16 * 1024 - last.len() - 1) / unit.len();
        unit.repeat(count) + last
    };
    let nested = |open: &str, close: &str| {
        let count = (16 * 1024 - 1) / (open.len() + close.len());
        open.repeat(count) + "1" + &close.repeat(count)
    };
    let sources = [
        filled("(", ""),
        filled("[", ""),
        filled("{", ""),
        filled("!", ""),
        filled("-", ""),
        filled("!", "a"),
        filled("-", "a"),
        filled("a?b:", "c"),
        filled("a?", "c"),
        format!("a{}", filled(".a", "")),
        format!("1{}", filled("+1", "")),
        format!("1{}", filled("- -1", "")),
        format!("a{}", filled("&&a", "")),
        format!("a{}", filled("==a", "")),
        format!("a{}", filled("[0]", "")),
        format!("a{}", filled(".trim()", "")),
        format!("a{}", filled(".map(x,x)", "")),
        filled("f(", ""),
        filled("size(", ""),
        filled("a.map(x,", ""),
        filled("has(", ""),
        filled("'", ""),
        filled("\\", ""),
        filled("`", ""),
        filled("${", ""),
        filled("//", ""),
        nested("(", ")"),
        nested("[", "]"),
        nested("{1:", "}"),
        nested("size(", ")"),
        nested("a.map(x,", ")"),
        nested("a[", "]"),
        nested("!(", ")"),
        nested("(1+", ")"),
        nested("(a?b:", ")"),
        nested("[1,", "]"),
    ];
    for source in &sources {
        assert!(source.len() <= 16 * 1024);
        let shown = &source[..source.len().min(20)];
        if let Ok(expression) = Expression::parse(source) {
            let nothing = serde_json::Value::Null;
            let _ = expression.evaluate(&toolwright_expr::Scope::new(&nothing));
        }
        let _ = Template::parse(&format!("{source}${{{source}}}")).map(|template| (shown, template));
        let _ = JsonTextTemplate::parse(source);
    }
}

#[test]
fn evaluating_the_deepest_parsable_expression_does_not_overflow_the_stack() {
    // Each unit opens one bracket and adds as many levels to the tree as possible.
    for unit in ["[", "!(", "(a ? a || a && a == 1 + 2 * -", "size(", "[1].map(x, ", "[0][", "{'a': "] {
        let close = match unit {
            "[" | "[0][" => "]",
            "{'a': " => "}",
            _ => ")",
        };
        let deepest = (1..=200).rev().find_map(|depth| {
            let tail = if unit.contains('?') { " : a)" } else { close };
            let head = if unit.contains('?') { unit.to_owned() + "(" } else { unit.to_owned() };
            let tail = if unit.contains('?') { format!("){tail}") } else { tail.to_owned() };
            let source = head.repeat(depth) + "1" + &tail.repeat(depth);
            Expression::parse(&source).ok()
        });
        let nothing = serde_json::json!({"a": true});
        let scope = toolwright_expr::Scope::new(&nothing);
        let _ = deepest.expect(unit).evaluate(&scope);
    }
}

#[test]
fn expression_longer_than_16_kib_is_rejected() {
    let longest = format!("a{}", " ".repeat(16 * 1024 - 1));
    assert!(Expression::parse(&longest).is_ok());
    assert!(syntax_error(&format!("{longest} ")).starts_with("an expression must be at most 16384 bytes, got 16385"));
}

#[test]
fn expression_with_more_than_32_calls_of_the_matches_function_is_rejected() {
    let many = vec!["a.matches('[a-z]+')"; 33].join(" || ");
    assert_eq!(syntax_error(&many), "an expression must have at most 32 calls to `matches` at 1:1");
}

#[test]
fn chain_of_2000_operators_does_not_exceed_the_depth_limit() {
    for unit in [" + 1", " && true", ".a", "[0]", " == 1"] {
        let source = format!("a{}", unit.repeat(2000));
        assert!(Expression::parse(&source).is_ok(), "{unit}");
    }
    assert!(Expression::parse(&format!("{}c", "a ? b : ".repeat(1500))).is_ok());
    assert!(Expression::parse(&format!("{}c", "!".repeat(15_000))).is_ok());
}

#[test]
fn text_is_a_name_if_and_only_if_it_parses_as_a_path_of_one_name() {
    for text in ["a", "_a1", "input", "while", "in", "true", "null", "void", "a-b", "1a", "", "a.b", "é", "namespace"]
    {
        let parsed = Expression::parse(text).ok();
        let references = parsed.as_ref().map(Expression::references).unwrap_or_default();
        let is_one_name = matches!(references.as_slice(), [one] if one.root == text && one.fields.is_empty());
        assert_eq!(Expression::is_name(text), is_one_name, "{text}");
    }
}
