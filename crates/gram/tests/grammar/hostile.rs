//! Texts made to hurt a parser: each gets an answer, none takes the stack. How long it takes is for the bench to say.

use toolwright_gram::{Code, Definitions, MAX_NESTING, Tree, check, decode, format, parse, print};

#[test]
fn much_of_anything_is_answered_with_a_mistake() {
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
        assert!(!tree.mistakes().is_empty(), "{part:?}");
        assert!(tree.mistakes().len() <= 51, "{part:?}");
        assert_eq!(tree.tokens().map(|token| token.text.len()).sum::<usize>(), text.len(), "{part:?}");
    }
}

#[test]
fn brackets_nest_as_deep_as_they_may_and_no_deeper() {
    let nested = |depth: usize| "[|".repeat(depth) + "(a)" + &"]".repeat(depth);
    let pattern = parse(&nested(MAX_NESTING)).unwrap();
    assert_eq!(parse(&print(&pattern)).unwrap(), pattern);
    let json = serde_json::to_string(&pattern).unwrap();
    assert_eq!(serde_json::from_str::<toolwright_gram::Pattern>(&json).unwrap(), pattern);

    let text = nested(MAX_NESTING + 1);
    let tree = Tree::parse(&text);
    assert_eq!(tree.mistakes()[0].code, Code::TooDeep);
    assert_eq!(tree.mistakes()[0].span.start, 2 * MAX_NESTING);
    assert!(format(&text).is_err());
}

#[test]
fn an_annotation_takes_one_level_of_nesting() {
    let annotated = |depth: usize| format!("@k(1) {}(a){}", "[|".repeat(depth), "]".repeat(depth));
    let pattern = parse(&annotated(MAX_NESTING - 1)).unwrap();
    assert_eq!(parse(&print(&pattern)).unwrap(), pattern);
    assert!(parse(&annotated(MAX_NESTING)).is_err());
}

#[test]
fn a_long_path_is_no_deep_one() {
    let path = "(a)-->".repeat(50_000) + "(a)";
    let pattern = parse(&path).unwrap();
    assert_eq!(pattern.elements.len(), 50_000);
    assert_eq!(parse(&print(&pattern)).unwrap(), pattern);
}

#[test]
fn a_chain_of_references_is_followed_without_recursion() {
    let text: String = (0..20_000).map(|index| format!("[p{index} | p{}]\n", index + 1)).collect();
    let mistakes = check(&text, &Definitions::default());
    assert_eq!(mistakes.len(), 1);
    assert_eq!(mistakes[0].message, "`p20000` is not defined");
}

#[test]
fn a_text_of_wrong_names_is_cut_short() {
    let text = format!("[a:Agent {{}} | {}b]", "b, ".repeat(50_000));
    let mistakes = check(&text, &Definitions::default());
    assert_eq!(mistakes.len(), 51);
    assert_eq!(mistakes[50].code, Code::TooManyErrors);
}

#[test]
fn bytes_that_are_not_utf8_are_reported_where_they_stand() {
    let error = decode(b"(a)\n(b\xFF)").unwrap_err();
    let mistake = &error.as_slice()[0];
    assert_eq!((mistake.code, mistake.position.to_string()), (Code::InvalidUtf8, "2:3".to_owned()));
    assert_eq!(mistake.message, "byte `0xFF` is not UTF-8");
    assert_eq!(decode("(é)".as_bytes()).unwrap(), "(é)");
}
