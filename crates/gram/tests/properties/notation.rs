//! Property tests of texts, trees and patterns.

use proptest::prelude::*;
use toolwright_gram::syntax::Tree;
use toolwright_gram::{DefinitionIndex, Pattern, check, format, parse, print, print_line};

use crate::generate::{self, Random};
use crate::reference::{Agreement, Reference};
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
    fn joined_tokens_equal_the_source_text(text in prop_oneof![texts(), any::<String>()]) {
        let tree = Tree::parse(&text);
        let together: String = tree.tokens().map(|token| token.text).collect();
        prop_assert_eq!(together, text);
    }

    #[test]
    fn every_token_belongs_to_a_node(text in texts()) {
        let tree = Tree::parse(&text);
        let mut found = String::new();
        collect(tree.root(), &mut found);
        let expected: String = tree.tokens().filter(|token| !token.kind.is_trivia()).map(|token| token.text).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn check_and_render_do_not_panic_on_any_text(text in prop_oneof![texts(), any::<String>()]) {
        for diagnostic in check(&text, &DefinitionIndex::default()) {
            diagnostic.render(&text);
        }
    }

    #[test]
    fn printed_pattern_parses_to_the_same_pattern(pattern in pattern()) {
        prop_assert_eq!(parse(&print(&pattern)).unwrap(), pattern.clone(), "{}", print(&pattern));
        prop_assert_eq!(parse(&print_line(&pattern)).unwrap(), pattern);
    }

    #[test]
    fn printed_pattern_is_accepted_by_the_reference_parser(pattern in pattern()) {
        let text = print(&pattern);
        prop_assume!(!text.contains('\0'));
        prop_assert_eq!(Reference::new().compare(&text), Agreement::Same, "{}", text);
    }

    #[test]
    fn pattern_is_unchanged_after_conversion_to_json_and_back(pattern in pattern()) {
        let json = serde_json::to_string(&pattern).unwrap();
        prop_assert_eq!(serde_json::from_str::<Pattern>(&json).unwrap(), pattern);
    }

    #[test]
    fn formatting_a_formatted_text_does_not_change_it(text in documents()) {
        let once = format(&text).unwrap();
        prop_assert_eq!(format(&once).unwrap(), once.clone(), "from {:?}", text);
    }

    #[test]
    fn formatting_preserves_tokens_and_comments(text in documents()) {
        let formatted = format(&text).unwrap();
        prop_assert_eq!(without_whitespace(&formatted), without_whitespace(&text));
    }

    #[test]
    fn formatting_a_printed_pattern_does_not_change_it(pattern in pattern()) {
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

fn without_whitespace(text: &str) -> Vec<String> {
    let tree = Tree::parse(text);
    let tokens = tree.tokens().filter(|token| token.kind != toolwright_gram::syntax::TokenKind::Whitespace);
    tokens.map(|token| token.text.trim_end().to_owned()).collect()
}
