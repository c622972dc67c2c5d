//! Compares the parser of this crate with the reference parser on generated texts and prints every difference. Fails on
//! an unknown difference.
//!
//! Run it with `cargo run --release -p toolwright-gram --example compare_with_reference [texts] [seed]`.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::indexing_slicing, reason = "a developer tool")]

#[path = "../tests/grammar/differences.rs"]
mod differences;
#[path = "../tests/grammar/generate.rs"]
mod generate;

use std::collections::BTreeMap;
use std::process::ExitCode;

use differences::{Agreement, DIFFERENCES, Reference};
use generate::Random;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>().unwrap());
    let texts = arguments.next().unwrap_or(1_000_000);
    let seed = arguments.next().unwrap_or(42);

    let (mut reference, mut random) = (Reference::new(), Random::new(seed));
    let (mut accepted, mut known, mut unknown) = (0u64, BTreeMap::<&str, u64>::new(), 0u64);
    for _ in 0..texts {
        let text = generate::text(&mut random);
        accepted += u64::from(toolwright_gram::Tree::parse(&text).errors().is_empty());
        match reference.compare(&text) {
            Agreement::Same => {}
            Agreement::Known(name) => *known.entry(name).or_default() += 1,
            Agreement::Unknown(difference) => {
                unknown += 1;
                println!("{difference}");
            }
        }
    }

    println!("{texts} texts from seed {seed}: {accepted} accepted, {unknown} unknown differences");
    for difference in DIFFERENCES {
        println!(
            "{:>8} {}, such as {:?}",
            known.get(difference.name).unwrap_or(&0),
            difference.name,
            difference.example
        );
        println!("         {}", difference.reason);
    }
    if unknown == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
