//! Our parser against the reference: both must find the same texts to be gram.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests"
)]

mod differences;
mod generate;

use differences::{DIFFERENCES, Reference, Verdict};
use generate::Random;

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
