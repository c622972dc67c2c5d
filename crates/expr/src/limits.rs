//! How much one evaluation may cost. Nothing here knows what is being evaluated.

/// Limits of one evaluation or one rendering.
///
/// Macros are loops over data of any size, so that a short expression can ask for much work: every
/// node visited and every iteration costs a step, long strings cost more, and whatever is produced
/// on the way counts against `output_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Steps of work.
    pub steps: u32,
    /// Deepest nesting of an expression that is still evaluated.
    pub depth: u16,
    /// Bytes of all values produced on the way, the result included.
    pub output_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 100_000, depth: crate::syntax::MAX_DEPTH, output_bytes: 8 * 1024 * 1024 }
    }
}

/// Bytes that are looked at or copied for the price of one step.
const BYTES_PER_STEP: usize = 64;

/// What is left of the [`Limits`] while an evaluation runs.
#[derive(Debug)]
pub(crate) struct Meter {
    limits: Limits,
    steps: u32,
    bytes: usize,
}

/// A limit was reached; the text says which.
#[derive(Debug)]
pub(crate) struct Exhausted(pub String);

impl Meter {
    pub fn new(limits: Limits) -> Self {
        Self { limits, steps: limits.steps, bytes: limits.output_bytes }
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Takes `count` steps.
    pub fn steps(&mut self, count: u32) -> Result<(), Exhausted> {
        self.steps = self
            .steps
            .checked_sub(count)
            .ok_or_else(|| Exhausted(format!("more than {} steps of work; loop over less data", self.limits.steps)))?;
        Ok(())
    }

    /// Takes the steps that looking at `bytes` bytes costs.
    pub fn scan(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.steps(u32::try_from(bytes / BYTES_PER_STEP).unwrap_or(u32::MAX))
    }

    /// Takes `bytes` bytes of newly made data.
    pub fn produce(&mut self, bytes: usize) -> Result<(), Exhausted> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| {
            Exhausted(format!("more than {} bytes of values made; produce less", self.limits.output_bytes))
        })?;
        Ok(())
    }
}
