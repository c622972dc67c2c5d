//! Property tests of differences and highlighting.

use proptest::prelude::*;
use toolwright_gram::{Pattern, diff, highlight};

use crate::generate::{self, Random};
use crate::strategies::pattern;

proptest! {
    #[test]
    fn diff_of_a_pattern_with_itself_is_empty(pattern in pattern()) {
        prop_assert_eq!(diff(&pattern, &pattern), []);
    }

    #[test]
    fn diff_ignores_the_order_of_top_level_patterns(mut patterns in prop::collection::vec(pattern(), 2..5)) {
        let before = Pattern::from_members(patterns.clone());
        patterns.reverse();
        let same_name = |pattern: &Pattern| patterns.iter().filter(|other| other.identity() == pattern.identity()).count() > 1;
        prop_assume!(!patterns.iter().any(|pattern| !pattern.identity().is_empty() && same_name(pattern)));
        prop_assert_eq!(diff(&before, &Pattern::from_members(patterns.clone())), []);
    }

    #[test]
    fn diff_of_different_patterns_is_not_empty(before in pattern(), after in pattern()) {
        prop_assume!(!before.is_root() && !after.is_root() && before != after);
        prop_assert!(!diff(&before, &after).is_empty());
    }

    #[test]
    fn highlighted_tokens_are_ordered_and_cover_everything_except_whitespace(seed in any::<u64>()) {
        let text = generate::text(&mut Random::new(seed));
        let mut end = 0;
        for (span, _) in highlight(&text) {
            prop_assert!(text[end..span.start].trim_start_matches('\u{feff}').trim().is_empty(), "{:?}", text);
            prop_assert!(span.start >= end && span.end > span.start);
            end = span.end;
        }
        prop_assert!(text[end..].trim_start_matches('\u{feff}').trim().is_empty(), "{:?}", text);
    }
}
