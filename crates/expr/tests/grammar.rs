//! Our parser against the `cel` crate's: both must find the same texts to be expressions.

use proptest::prelude::*;
use toolwright_expr::Expression;

/// The reference parser, its macros off. It needs much stack, so that inputs stay shallow.
fn reference_accepts(source: &str) -> bool {
    let parser = cel::Env::default().with_optional_support(false).parser();
    parser.enable_ident_escape_syntax(true).parse(source).is_ok()
}

fn agree(source: &str) -> Result<(), String> {
    let ours = Expression::parse(source);
    let theirs = reference_accepts(source);
    match &ours {
        Ok(_) if theirs => Ok(()),
        Err(_) if !theirs => Ok(()),
        Ok(_) => Err(format!("`{source}`: only we accept it")),
        Err(error) if is_known_difference(error.message()) => Ok(()),
        Err(error) => Err(format!("`{source}`: only we refuse it: {error}")),
    }
}

/// What we refuse on purpose.
fn is_known_difference(message: &str) -> bool {
    const REFUSED: &[&str] = &[
        "unknown function",
        "is called on a value",
        "takes its value as an argument",
        "in its brackets",
        "takes one field",
        "takes a name and an expression",
        "the first argument of",
        "pattern",
        "bytes literals",
        "messages cannot be constructed",
        // `if {}`, a message whose type has the name of a keyword.
        "is a reserved word",
        // `.name`, the name in the outermost namespace: there are no namespaces here.
        "expected a value, found `.`",
    ];
    REFUSED.iter().any(|part| message.contains(part))
}

#[test]
fn the_reference_agrees_on_what_is_an_expression() {
    let sources = [
        "a",
        "a.b.c",
        "a[0].b",
        "a ? b : c",
        "a ? b : c ? d : e",
        "a ? b ? c : d : e",
        "a || b && c",
        "!a",
        "!!a",
        "--a",
        "!-a",
        "-!a",
        "!-1",
        "!-1.5",
        "!-1u",
        "!--1",
        "-1.5",
        "-1u",
        "-1.5.b",
        "- 1",
        "-1",
        "a -1",
        "1 - -1",
        "a.b.size()",
        "size(a)",
        "[1, 2,]",
        "[,]",
        "[1,,]",
        "{}",
        "{'a': 1,}",
        "{'a'}",
        "{a: b}",
        "size(a,)",
        "1.5",
        "1.",
        "1.e5",
        "1e5",
        "1e",
        "0x1f",
        "0x",
        "1u",
        "1.5u",
        "'a'",
        "\"a\"",
        "'a\"",
        "r'a\\'",
        "'''a'''",
        "''''''",
        "''",
        "'\\u00e9'",
        "'\\ud800'",
        "'\\x4'",
        "'\\400'",
        "'\\377'",
        "a in b",
        "in",
        "a.in",
        "a.true",
        "a.for",
        "for",
        "a.`b-c`",
        "a.``",
        "a // x",
        "// x",
        "a == b == c",
        "a < b < c",
        "(a)",
        "()",
        "(a",
        "a)",
        "a.b(c)",
        "a.b(",
        "true",
        "null",
        "a.null",
        "nullx",
        "1a",
        "a 1",
        "'a' 'b'",
        "a..b",
        ".5",
        "a.5",
        "\u{e9}",
        "a\u{a0}b",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775808",
        "-9223372036854775809",
        "1e999",
        "a\n+\nb",
        "'a\nb'",
        "'''a\nb'''",
        "a ? b",
        "a : b",
        "a.b.c[d.e]['f'].g",
        "a[1,2]",
        "a[]",
        "1 + 2 * 3 % 4",
    ];
    let differences: Vec<String> = sources.iter().filter_map(|source| agree(source).err()).collect();
    assert_eq!(differences, Vec::<String>::new());
}

fn tokens() -> impl Strategy<Value = String> {
    let token = prop::sample::select(vec![
        "a", "b.c", ".", "(", ")", "[", "]", "{", "}", "1", "1u", "1.5", "1e3", "'x'", "\"y\"", "r'z'", "!", "-", "+",
        "*", "/", "%", "&&", "||", "?", ":", ",", "==", "!=", "<", ">=", "in", " ", "\n", "true", "null", "size(a)",
        "a.trim()", "if", "[0]", "{'k': 1}",
    ]);
    prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.join(" "))
}

proptest! {
    #[test]
    fn the_reference_agrees_on_random_tokens(source in tokens()) {
        prop_assert_eq!(agree(&source), Ok(()));
    }
}
