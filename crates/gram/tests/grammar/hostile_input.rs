//! Tests of hostile input: the parser must report a bounded number of errors and must not overflow the stack.
//! `benches/throughput.rs` measures the time.

use toolwright_gram::{DefinitionIndex, DiagnosticCode, MAX_NESTING, Tree, check, decode, format, parse, print};

#[test]
fn long_repetition_of_hostile_text_gives_a_bounded_number_of_errors() {
    let parts = [
        "[",
        "]",
        "(",
        ")",
        "{",
        "}",
        "(a)-->",
        "[|",
        "[a|[b|",
        "{a:",
        "{a:{",
        "{a:[",
        "@",
        "@@",
        "@k(",
        "`",
        "``",
        "```",
        "```\n",
        "```/**",
        "\"",
        "'",
        "\\",
        "/**",
        ":",
        "|",
        ",",
        "-",
        "<-",
        "...",
        "é",
        "\u{feff}",
        "\0",
        "0x",
        "(a)-[",
        "[|@k(1)[|",
    ];
    for part in parts {
        let text = part.repeat(200_000 / part.len());
        let tree = Tree::parse(&text);
        assert!(!tree.errors().is_empty(), "{part:?}");
        assert!(tree.errors().len() <= 51, "{part:?}");
        assert_eq!(tree.tokens().map(|token| token.text.len()).sum::<usize>(), text.len(), "{part:?}");
    }
}

#[test]
fn brackets_nested_deeper_than_the_limit_are_rejected() {
    let nested = |depth: usize| "[|".repeat(depth) + "(a)" + &"]".repeat(depth);
    let pattern = parse(&nested(MAX_NESTING)).unwrap();
    assert_eq!(parse(&print(&pattern)).unwrap(), pattern);
    let json = serde_json::to_string(&pattern).unwrap();
    assert_eq!(serde_json::from_str::<toolwright_gram::Pattern>(&json).unwrap(), pattern);

    let text = nested(MAX_NESTING + 1);
    let tree = Tree::parse(&text);
    assert_eq!(tree.errors()[0].code, DiagnosticCode::TooDeep);
    assert_eq!(tree.errors()[0].span.start, 2 * MAX_NESTING);
    assert!(format(&text).is_err());
}

#[test]
fn annotation_counts_as_one_level_of_nesting() {
    let annotated = |depth: usize| format!("@k(1) {}(a){}", "[|".repeat(depth), "]".repeat(depth));
    let pattern = parse(&annotated(MAX_NESTING - 1)).unwrap();
    assert_eq!(parse(&print(&pattern)).unwrap(), pattern);
    assert!(parse(&annotated(MAX_NESTING)).is_err());
}

#[test]
fn long_path_does_not_count_as_nesting() {
    let path = "(a)-->".repeat(50_000) + "(a)";
    let pattern = parse(&path).unwrap();
    assert_eq!(pattern.elements.len(), 50_000);
    assert_eq!(parse(&print(&pattern)).unwrap(), pattern);
}

#[test]
fn long_chain_of_references_does_not_overflow_the_stack() {
    let text: String = (0..20_000).map(|index| format!("[p{index} | p{}]\n", index + 1)).collect();
    let errors = check(&text, &DefinitionIndex::default());
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].message, "`p20000` is not defined");
}

#[test]
fn at_most_50_name_errors_are_reported() {
    let text = format!("[a:Agent {{}} | {}b]", "b, ".repeat(50_000));
    let errors = check(&text, &DefinitionIndex::default());
    assert_eq!(errors.len(), 51);
    assert_eq!(errors[50].code, DiagnosticCode::TooManyErrors);
}

#[test]
fn invalid_utf8_is_reported_with_its_position() {
    let error = decode(b"(a)\n(b\xFF)").unwrap_err();
    let error = &error.as_slice()[0];
    assert_eq!((error.code, error.position.to_string()), (DiagnosticCode::InvalidUtf8, "2:3".to_owned()));
    assert_eq!(error.message, "byte `0xFF` is not valid UTF-8");
    assert_eq!(decode("(é)".as_bytes()).unwrap(), "(é)");
}
