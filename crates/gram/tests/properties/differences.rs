//! Texts that differ and texts that do not.

use proptest::prelude::*;
use toolwright_gram::{Pattern, diff, tokens};

use crate::generate::{self, Random};
use crate::strategies::pattern;

proptest! {
    #[test]
    fn a_text_does_not_differ_from_itself(pattern in pattern()) {
        prop_assert_eq!(diff(&pattern, &pattern), []);
    }

    #[test]
    fn the_order_of_patterns_makes_no_difference(mut patterns in prop::collection::vec(pattern(), 2..5)) {
        let before = Pattern::root_of(patterns.clone());
        patterns.reverse();
        let same_name = |pattern: &Pattern| patterns.iter().filter(|other| other.identity() == pattern.identity()).count() > 1;
        prop_assume!(!patterns.iter().any(|pattern| !pattern.identity().is_empty() && same_name(pattern)));
        prop_assert_eq!(diff(&before, &Pattern::root_of(patterns.clone())), []);
    }

    #[test]
    fn different_patterns_differ(before in pattern(), after in pattern()) {
        prop_assume!(!before.is_root() && !after.is_root() && before != after);
        prop_assert!(!diff(&before, &after).is_empty());
    }

    #[test]
    fn colours_are_in_order_and_cover_everything_but_blanks(seed in any::<u64>()) {
        let text = generate::text(&mut Random::new(seed));
        let mut end = 0;
        for (span, _) in tokens(&text) {
            prop_assert!(text[end..span.start].trim_start_matches('\u{feff}').trim().is_empty(), "{:?}", text);
            prop_assert!(span.start >= end && span.end > span.start);
            end = span.end;
        }
        prop_assert!(text[end..].trim_start_matches('\u{feff}').trim().is_empty(), "{:?}", text);
    }
}
