//! Chance that can be repeated: the same seed, the same throws, in every release of every library.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

/// A source of chance.
pub struct Dice(u64);

impl Dice {
    pub fn of(seed: u64) -> Self {
        Self(seed)
    }

    /// A seed that nobody chose.
    pub fn any_seed() -> u64 {
        RandomState::new().build_hasher().finish()
    }

    /// Dice of their own for another part: what one part throws does not change the throws of the others.
    pub fn split(&mut self) -> Self {
        Self(self.throw())
    }

    /// A number from 0 to below `sides`.
    pub fn below(&mut self, sides: u64) -> u64 {
        self.throw() % sides
    }

    /// A time from none to below `longest`.
    pub fn moment(&mut self, longest: Duration) -> Duration {
        let micros = u64::try_from(longest.as_micros()).unwrap();
        Duration::from_micros(self.below(micros))
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
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
