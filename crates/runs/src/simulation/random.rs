//! Random numbers that a seed determines.

use std::time::Duration;

/// A random number generator.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `sides`.
    pub(super) fn below(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }

    /// Returns true with a probability of `in_a_thousand` per thousand.
    pub(super) fn chance(&mut self, in_a_thousand: u64) -> bool {
        self.below(1000) < in_a_thousand
    }

    /// A duration below `longest` milliseconds.
    pub(super) fn millis(&mut self, longest: u64) -> Duration {
        Duration::from_millis(self.below(longest))
    }

    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
