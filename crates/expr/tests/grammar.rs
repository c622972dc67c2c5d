//! Compares the expression parser with the parser of the `cel` crate: both must accept the same texts.

use proptest::prelude::*;
use toolwright_expr::Expression;

/// Whether the parser of the `cel` crate accepts the text. That parser needs much stack, so the texts have little
/// nesting.
fn reference_accepts(source: &str) -> bool {
    let parser = cel::Env::default().with_optional_support(false).parser();
    parser.enable_ident_escape_syntax(true).parse(source).is_ok()
}

fn check_agreement(source: &str) -> Result<(), String> {
    let ours = Expression::parse(source);
    let theirs = reference_accepts(source);
    match &ours {
        Ok(_) if theirs => Ok(()),
        Err(_) if !theirs => Ok(()),
        Ok(_) => Err(format!("`{source}`: only this crate accepts it")),
        Err(error) if is_known_difference(error.message()) => Ok(()),
        Err(error) => Err(format!("`{source}`: only this crate rejects it: {error}")),
    }
}

/// Whether the error message is for a text that `cel` accepts and this crate rejects intentionally.
fn is_known_difference(message: &str) -> bool {
    const REJECTED: &[&str] = &[
        "unknown function",
        "called as a method",
        "argument(s) in parentheses",
        "takes one field",
        "takes a variable name and an expression",
        "the first argument of",
        "pattern",
        "bytes literals",
        "messages cannot be constructed",
        // `cel` accepts `if {}` as a message of a type with the name `if`.
        "is a reserved word",
        // `cel` accepts `.name` as a name in the root namespace. This crate has no namespaces.
        "expected a value, found `.`",
    ];
    REJECTED.iter().any(|part| message.contains(part))
}

#[test]
fn parser_accepts_the_same_sample_texts_as_the_cel_crate() {
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
    let differences: Vec<String> = sources.iter().filter_map(|source| check_agreement(source).err()).collect();
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
        fn parser_accepts_the_same_random_tokens_as_the_cel_crate(source in tokens()) {
            prop_assert_eq!(check_agreement(&source), Ok(()));
    }
}
