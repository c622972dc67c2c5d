//! Our parser against the reference: both must find the same texts to be gram.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

mod corpus;
mod differences;
mod generate;
mod hostile;
mod mistakes;

use corpus::{ACCEPTED, REFUSED};
use differences::{DIFFERENCES, Reference, Verdict};
use generate::Random;
use toolwright_gram::Tree;

fn cases(of: &'static [(&str, &[&str])]) -> impl Iterator<Item = (&'static str, &'static str)> {
    of.iter().flat_map(|(group, texts)| texts.iter().map(move |text| (*group, *text)))
}

#[test]
fn the_corpus_is_accepted_and_refused_as_it_says() {
    for (group, text) in cases(ACCEPTED) {
        let tree = Tree::parse(text);
        assert!(tree.mistakes().is_empty(), "{group}: {text:?}: {}", tree.mistakes()[0]);
    }
    for (group, text) in cases(REFUSED) {
        assert!(!Tree::parse(text).mistakes().is_empty(), "{group}: {text:?} must be refused");
    }
    assert!(cases(ACCEPTED).count() + cases(REFUSED).count() >= 300);
}

#[test]
fn the_reference_agrees_on_the_corpus() {
    let mut reference = Reference::new();
    for (group, text) in cases(ACCEPTED).chain(cases(REFUSED)) {
        assert_eq!(reference.compare(text), Verdict::Same, "{group}: {text:?}");
    }
}

#[test]
fn the_reference_agrees_on_generated_texts() {
    let (mut reference, mut random) = (Reference::new(), Random::new(1));
    for _ in 0..20_000 {
        let text = generate::text(&mut random);
        if let Verdict::Unknown(difference) = reference.compare(&text) {
            panic!("{difference}");
        }
    }
}

#[test]
fn generated_documents_keep_to_the_grammar() {
    let (mut reference, mut random) = (Reference::new(), Random::new(2));
    for _ in 0..2_000 {
        let text = generate::document(&mut random);
        assert!(reference.accepts(&text), "{text:?}");
    }
}

#[test]
fn every_known_difference_shows_in_its_example() {
    let mut reference = Reference::new();
    for difference in DIFFERENCES {
        assert!(!difference.reason.is_empty());
        assert_eq!(reference.compare(difference.example), Verdict::Known(difference.name), "{:?}", difference.example);
    }
}
