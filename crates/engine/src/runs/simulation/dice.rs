//! Chance that can be repeated: the same seed, the same throws.

use std::time::Duration;

/// A source of chance.
pub struct Dice(u64);

impl Dice {
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from 0 to below `sides`.
    pub fn below(&mut self, sides: u64) -> u64 {
        self.throw() % sides
    }

    /// Whether something happens that happens in so many of a thousand cases.
    pub fn happens(&mut self, in_a_thousand: u64) -> bool {
        self.below(1000) < in_a_thousand
    }

    /// A time from none to below so many milliseconds.
    pub fn millis(&mut self, longest: u64) -> Duration {
        Duration::from_millis(self.below(longest))
    }

    /// SplitMix64.
    fn throw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
