//! Compares the parser of this crate with the reference parser: both must accept the same texts.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "test helpers")]

mod corpus;
mod diagnostics;
mod differences;
mod generate;
mod hostile_input;

use corpus::{ACCEPTED, REJECTED};
use differences::{Agreement, DIFFERENCES, Reference};
use generate::Random;
use toolwright_gram::Tree;

fn cases(groups: &'static [(&str, &[&str])]) -> impl Iterator<Item = (&'static str, &'static str)> {
    groups.iter().flat_map(|(group, texts)| texts.iter().map(move |text| (*group, *text)))
}

#[test]
fn valid_corpus_texts_are_accepted_and_invalid_ones_rejected() {
    for (group, text) in cases(ACCEPTED) {
        let tree = Tree::parse(text);
        assert!(tree.errors().is_empty(), "{group}: {text:?}: {}", tree.errors()[0]);
    }
    for (group, text) in cases(REJECTED) {
        assert!(!Tree::parse(text).errors().is_empty(), "{group}: {text:?} must be rejected");
    }
    assert!(cases(ACCEPTED).count() + cases(REJECTED).count() >= 300);
}

#[test]
fn parser_and_reference_parser_accept_the_same_corpus_texts() {
    let mut reference = Reference::new();
    for (group, text) in cases(ACCEPTED).chain(cases(REJECTED)) {
        assert_eq!(reference.compare(text), Agreement::Same, "{group}: {text:?}");
    }
}

#[test]
fn generated_texts_show_only_listed_differences_from_the_reference_parser() {
    let (mut reference, mut random) = (Reference::new(), Random::new(1));
    for _ in 0..20_000 {
        let text = generate::text(&mut random);
        if let Agreement::Unknown(difference) = reference.compare(&text) {
            panic!("{difference}");
        }
    }
}

#[test]
fn generated_documents_are_accepted_by_the_reference_parser() {
    let (mut reference, mut random) = (Reference::new(), Random::new(2));
    for _ in 0..2_000 {
        let text = generate::document(&mut random);
        assert!(reference.accepts(&text), "{text:?}");
    }
}

#[test]
fn each_listed_difference_has_an_example_that_shows_it() {
    let mut reference = Reference::new();
    for difference in DIFFERENCES {
        assert!(!difference.reason.is_empty());
        assert_eq!(
            reference.compare(difference.example),
            Agreement::Known(difference.name),
            "{:?}",
            difference.example
        );
    }
}
