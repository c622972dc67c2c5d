//! Limits for the cost and the output size of an evaluation.

/// Limits of one evaluation or one rendering.
///
/// Macros such as `map` loop over data of any size, so a short expression can take very long. Every visited node and
/// every iteration costs 1, and long strings cost more. Every value that the evaluation produces counts toward
/// `output_bytes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EvalLimits {
    /// The maximum cost.
    pub cost: u32,
    /// The maximum depth of an expression.
    pub depth: u16,
    /// The maximum size of all produced values, including the result, in bytes.
    pub output_bytes: usize,
}

impl Default for EvalLimits {
    fn default() -> Self {
        Self { cost: 100_000, depth: crate::syntax::MAX_DEPTH, output_bytes: 8 * 1024 * 1024 }
    }
}

/// The number of bytes that are read or copied at a cost of 1.
const BYTES_PER_COST: usize = 64;

/// The cost and the output bytes that a running evaluation may still use.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: EvalLimits,
    cost: u32,
    bytes: usize,
}

/// The error message of an evaluation that exceeds a limit.
#[derive(Debug)]
pub(crate) struct BudgetExceeded(pub String);

impl Budget {
    pub(crate) fn new(limits: EvalLimits) -> Self {
        Self { limits, cost: limits.cost, bytes: limits.output_bytes }
    }

    pub(crate) fn limits(&self) -> EvalLimits {
        self.limits
    }

    pub(crate) fn charge(&mut self, cost: u32) -> Result<(), BudgetExceeded> {
        self.cost = self.cost.checked_sub(cost).ok_or_else(|| {
            BudgetExceeded(format!("the evaluation must cost at most {}; loop over less data", self.limits.cost))
        })?;
        Ok(())
    }

    /// Charges the cost of reading `bytes` bytes.
    pub(crate) fn charge_scan(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        self.charge(u32::try_from(bytes / BYTES_PER_COST).unwrap_or(u32::MAX))
    }

    /// Charges `bytes` bytes of produced data.
    pub(crate) fn charge_output(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| {
            BudgetExceeded(format!(
                "the evaluation must produce at most {} bytes of values; produce less",
                self.limits.output_bytes
            ))
        })?;
        Ok(())
    }
}
