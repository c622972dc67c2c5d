//! A reproducible random number generator: the same seed gives the same numbers, independent of library versions.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// A seeded random number generator (SplitMix64).
pub(crate) struct SeededRng(u64);

impl SeededRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn random_seed() -> u64 {
        RandomState::new().build_hasher().finish()
    }

    /// Returns an independent generator for one component, so that the random numbers of a component do not depend on
    /// how many numbers other components draw.
    pub(crate) fn split(&mut self) -> Self {
        Self(self.next_u64())
    }

    /// Returns a number in `0..bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// Returns a random duration below `longest`.
    pub(crate) fn duration_below(&mut self, longest: Duration) -> Duration {
        let micros = u64::try_from(longest.as_micros()).unwrap();
        Duration::from_micros(self.below(micros))
    }

    /// Returns one of several values.
    pub(crate) fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[usize::try_from(self.below(values.len() as u64)).unwrap()]
    }

    /// Advances the generator by one step of SplitMix64.
    fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}
