//! Text, tree and pattern.

use proptest::prelude::*;
use toolwright_gram::syntax::Tree;
use toolwright_gram::{Definitions, Pattern, check, format, parse, print, print_line};

use crate::generate::{self, Random};
use crate::reference::{Reference, Verdict};
use crate::strategies::pattern;

fn texts() -> impl Strategy<Value = String> {
    any::<u64>().prop_map(|seed| generate::text(&mut Random::new(seed)))
}

fn documents() -> impl Strategy<Value = String> {
    any::<u64>().prop_map(|seed| generate::document(&mut Random::new(seed)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn the_tokens_are_the_text(text in prop_oneof![texts(), any::<String>()]) {
        let tree = Tree::parse(&text);
        let together: String = tree.tokens().map(|token| token.text).collect();
        prop_assert_eq!(together, text);
    }

    #[test]
    fn every_token_belongs_to_a_node(text in texts()) {
        let tree = Tree::parse(&text);
        let mut found = String::new();
        collect(tree.root(), &mut found);
        let wanted: String = tree.tokens().filter(|token| !token.kind.is_trivia()).map(|token| token.text).collect();
        prop_assert_eq!(found, wanted);
    }

    #[test]
    fn nothing_panics(text in prop_oneof![texts(), any::<String>()]) {
        for diagnostic in check(&text, &Definitions::default()) {
            diagnostic.render(&text);
        }
    }

    #[test]
    fn reading_what_was_printed_gives_the_pattern(pattern in pattern()) {
        prop_assert_eq!(parse(&print(&pattern)).unwrap(), pattern.clone(), "{}", print(&pattern));
        prop_assert_eq!(parse(&print_line(&pattern)).unwrap(), pattern);
    }

    #[test]
    fn what_is_printed_is_gram_to_the_reference_too(pattern in pattern()) {
        let text = print(&pattern);
        prop_assume!(!text.contains('\0'));
        prop_assert_eq!(Reference::new().compare(&text), Verdict::Same, "{}", text);
    }

    #[test]
    fn reading_the_json_gives_the_pattern(pattern in pattern()) {
        let json = serde_json::to_string(&pattern).unwrap();
        prop_assert_eq!(serde_json::from_str::<Pattern>(&json).unwrap(), pattern);
    }

    #[test]
    fn formatting_twice_is_formatting_once(text in documents()) {
        let once = format(&text).unwrap();
        prop_assert_eq!(format(&once).unwrap(), once.clone(), "from {:?}", text);
    }

    #[test]
    fn formatting_keeps_tokens_and_comments(text in documents()) {
        let formatted = format(&text).unwrap();
        prop_assert_eq!(without_layout(&formatted), without_layout(&text));
    }

    #[test]
    fn printed_text_is_formatted(pattern in pattern()) {
        let printed = print(&pattern);
        prop_assert_eq!(format(&printed).unwrap(), printed);
    }
}

fn collect(node: toolwright_gram::syntax::Node, out: &mut String) {
    for child in node.children() {
        match child {
            toolwright_gram::syntax::Child::Node(node) => collect(node, out),
            toolwright_gram::syntax::Child::Token(token) => out.push_str(token.text),
        }
    }
}

fn without_layout(text: &str) -> Vec<String> {
    let tree = Tree::parse(text);
    let tokens = tree.tokens().filter(|token| token.kind != toolwright_gram::syntax::TokenKind::Whitespace);
    tokens.map(|token| token.text.trim_end().to_owned()).collect()
}
