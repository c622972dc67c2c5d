//! Tests of syntax highlighting.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "test helpers")]

#[path = "../grammar/corpus/accepted.rs"]
mod accepted;
#[path = "../grammar/generate.rs"]
#[allow(dead_code, reason = "shared with the grammar tests")]
mod generate;
mod textmate;

use toolwright_gram::{Span, TokenClass, highlight};

#[test]
fn token_class_depends_on_context() {
    use TokenClass::*;
    let text = "// c\n@@x:L @k(true) (a:B::`C` {d: 'e', \"f\": 1.5, g: md`h`, i: j, k: 1..2})-[7]->(b)";
    let found: Vec<(&str, TokenClass)> =
        highlight(text).into_iter().map(|(span, class)| (span.slice(text), class)).collect();
    let expected = [
        ("// c", Comment),
        ("@@", Annotation),
        ("x", Identifier),
        (":", Punctuation),
        ("L", Label),
        ("@", Annotation),
        ("k", Annotation),
        ("(", Punctuation),
        ("true", Boolean),
        (")", Punctuation),
        ("(", Punctuation),
        ("a", Identifier),
        (":", Punctuation),
        ("B", Label),
        ("::", Punctuation),
        ("`C`", Label),
        ("{", Punctuation),
        ("d", Key),
        (":", Punctuation),
        ("'e'", String),
        (",", Punctuation),
        ("\"f\"", Key),
        (":", Punctuation),
        ("1.5", Number),
        (",", Punctuation),
        ("g", Key),
        (":", Punctuation),
        ("md", Tag),
        ("`h`", String),
        (",", Punctuation),
        ("i", Key),
        (":", Punctuation),
        ("j", Symbol),
        (",", Punctuation),
        ("k", Key),
        (":", Punctuation),
        ("1", Number),
        ("..", Range),
        ("2", Number),
        ("}", Punctuation),
        (")", Punctuation),
        ("-", Arrow),
        ("[", Punctuation),
        ("7", Identifier),
        ("]", Punctuation),
        ("->", Arrow),
        ("(", Punctuation),
        ("b", Identifier),
        (")", Punctuation),
    ];
    assert_eq!(found, expected);
}

#[test]
fn unclosed_string_is_highlighted_as_an_error() {
    let text = "[a:Agent {model: \"x";
    let found = highlight(text);
    assert_eq!(found.last(), Some(&(Span::new(17, 19), TokenClass::Error)));
    assert!(found.contains(&(Span::new(3, 8), TokenClass::Label)));
}

#[test]
fn token_classes_have_textmate_scopes() {
    for class in [TokenClass::Comment, TokenClass::Error, TokenClass::Range, TokenClass::Tag] {
        assert!(TokenClass::SCOPES.iter().any(|(known, _)| *known == class));
    }
}
