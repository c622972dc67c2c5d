//! What an editor colours.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "helpers of tests")]

#[path = "../grammar/corpus/accepted.rs"]
mod accepted;
#[path = "../grammar/generate.rs"]
#[allow(dead_code, reason = "shared with the tests of the grammar")]
mod generate;
mod textmate;

use toolwright_gram::{Class, Span, tokens};

#[test]
fn each_token_has_the_class_of_its_place() {
    use Class::*;
    let text = "// c\n@@x:L @k(true) (a:B::`C` {d: 'e', \"f\": 1.5, g: md`h`, i: j, k: 1..2})-[7]->(b)";
    let found: Vec<(&str, Class)> = tokens(text).into_iter().map(|(span, class)| (span.of(text), class)).collect();
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
fn unfinished_text_is_coloured_as_far_as_it_goes() {
    let text = "[a:Agent {model: \"x";
    let found = tokens(text);
    assert_eq!(found.last(), Some(&(Span::new(17, 19), Class::Error)));
    assert!(found.contains(&(Span::new(3, 8), Class::Label)));
}

#[test]
fn every_class_has_a_scope() {
    for class in [Class::Comment, Class::Error, Class::Range, Class::Tag] {
        assert!(Class::SCOPES.iter().any(|(known, _)| *known == class));
    }
}
