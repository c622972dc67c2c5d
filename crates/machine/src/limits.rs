//! How much a run may do and spend, and the arithmetic that says when it is too much.
//!
//! Not here: how a budget is shared among child runs, and prices.

use serde::{Deserialize, Serialize};
use toolwright_types::Usage;

use crate::{Ending, RunStatus};

/// The limits of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// How often the model may be asked.
    pub max_iterations: u32,
    /// How many tool calls may be started.
    pub max_tool_calls: u32,
    /// How long the run may be active; time in which it only waits for a person or a client is not counted.
    pub timeout_ms: Option<u64>,
    /// How many tokens it may consume.
    pub max_tokens: Option<u64>,
    /// How much it may cost.
    pub max_cost_usd: Option<f64>,
}

impl Default for Limits {
    /// What an agent has that says nothing.
    fn default() -> Self {
        Self { max_iterations: 10, max_tool_calls: 25, timeout_ms: Some(120_000), max_tokens: None, max_cost_usd: None }
    }
}

impl Limits {
    /// What the platform allows any run unless it is configured otherwise.
    pub fn platform() -> Self {
        Self {
            max_iterations: u32::MAX,
            max_tool_calls: 50,
            timeout_ms: None,
            max_tokens: None,
            max_cost_usd: Some(1.0),
        }
    }

    /// Each limit from whichever side has the tighter one.
    pub fn tightest(self, other: Self) -> Self {
        Self {
            max_iterations: self.max_iterations.min(other.max_iterations),
            max_tool_calls: self.max_tool_calls.min(other.max_tool_calls),
            timeout_ms: smaller(self.timeout_ms, other.timeout_ms),
            max_tokens: smaller(self.max_tokens, other.max_tokens),
            max_cost_usd: smaller(self.max_cost_usd, other.max_cost_usd),
        }
    }

    /// Why the model may not be asked once more.
    pub fn before_model(&self, spent: &Spent) -> Option<Breach> {
        if spent.iterations >= self.max_iterations {
            return Some(Breach::Iterations { limit: self.max_iterations });
        }
        self.overrun(spent)
    }

    /// Why no further tool call may be started.
    pub fn before_tool(&self, spent: &Spent) -> Option<Breach> {
        if spent.tool_calls >= self.max_tool_calls {
            return Some(Breach::ToolCalls { limit: self.max_tool_calls });
        }
        self.overrun(spent)
    }

    /// Whether the time is up.
    pub fn timed_out(&self, spent: &Spent) -> Option<Breach> {
        self.timeout_ms
            .filter(|limit| spent.active_us >= limit.saturating_mul(1000))
            .map(|limit_ms| Breach::Time { limit_ms })
    }

    fn overrun(&self, spent: &Spent) -> Option<Breach> {
        let tokens = self.max_tokens.filter(|limit| spent.usage.total() > *limit).map(|limit| Breach::Tokens { limit });
        let cost =
            self.max_cost_usd.filter(|limit| spent.cost_usd > *limit).map(|limit_usd| Breach::Cost { limit_usd });
        self.timed_out(spent).or(tokens).or(cost)
    }
}

/// What a run has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spent {
    /// Model calls that were begun.
    pub iterations: u32,
    /// Tool calls that were begun.
    pub tool_calls: u32,
    /// Tokens.
    pub usage: Usage,
    /// Money, as far as prices are known.
    pub cost_usd: f64,
    /// Active time in microseconds.
    pub active_us: u64,
}

impl Spent {
    /// Adds a cost; false when it is not known and so counts as nothing.
    pub(crate) fn pay(&mut self, cost_usd: Option<f64>) -> bool {
        match cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0) {
            Some(cost) => {
                // A sum that leaves the range of numbers is above any limit, and has to survive being saved.
                self.cost_usd = (self.cost_usd + cost).min(f64::MAX);
                true
            }
            None => false,
        }
    }
}

/// A limit that stands in the way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Breach {
    /// Of model calls.
    Iterations {
        /// How many were allowed.
        limit: u32,
    },
    /// Of tool calls.
    ToolCalls {
        /// How many were allowed.
        limit: u32,
    },
    /// Of time.
    Time {
        /// How long was allowed.
        limit_ms: u64,
    },
    /// Of tokens.
    Tokens {
        /// How many were allowed.
        limit: u64,
    },
    /// Of money.
    Cost {
        /// How much was allowed.
        limit_usd: f64,
    },
}

impl Breach {
    /// The stable word for it: the run's reason, and `details.reason` of calls that were refused for it.
    pub fn code(self) -> &'static str {
        match self {
            Breach::Iterations { .. } => "MAX_STEPS_EXCEEDED",
            Breach::ToolCalls { .. } => "MAX_TOOL_CALLS_EXCEEDED",
            Breach::Time { .. } => "TIMEOUT",
            Breach::Tokens { .. } => "MAX_TOKENS_EXCEEDED",
            Breach::Cost { .. } => "MAX_COST_EXCEEDED",
        }
    }

    /// How a run ends that meets it.
    pub fn ending(self) -> Ending {
        let (status, message) = match self {
            Breach::Iterations { limit } => (RunStatus::MaxIterations, format!("the model was asked {limit} times")),
            Breach::ToolCalls { limit } => (RunStatus::BudgetExceeded, format!("all {limit} tool calls are used")),
            Breach::Time { limit_ms } => (RunStatus::Timeout, format!("the run was active for {limit_ms} ms")),
            Breach::Tokens { limit } => (RunStatus::BudgetExceeded, format!("more than {limit} tokens are used")),
            Breach::Cost { limit_usd } => (RunStatus::BudgetExceeded, format!("more than {limit_usd} USD are spent")),
        };
        Ending::because(status, self.code(), message)
    }
}

fn smaller<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b < a { b } else { a }),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tighter_limit_wins_on_either_side() {
        let agent =
            Limits { max_tool_calls: 100, timeout_ms: Some(300_000), max_cost_usd: Some(0.5), ..Limits::default() };
        let both = agent.tightest(Limits::platform());
        assert_eq!(both, Limits::platform().tightest(agent));
        assert_eq!((both.max_iterations, both.max_tool_calls), (10, 50));
        assert_eq!((both.timeout_ms, both.max_cost_usd), (Some(300_000), Some(0.5)));
    }

    #[test]
    fn what_is_allowed_is_allowed_and_one_more_is_not() {
        let limits = Limits { max_tokens: Some(100), max_cost_usd: Some(1.0), ..Limits::default() };
        let code = |spent: Spent| limits.before_model(&spent).map(Breach::code);
        let tool = |spent: Spent| limits.before_tool(&spent).map(Breach::code);
        let usage = |n| Usage { input_tokens: n, ..Usage::default() };
        assert_eq!(code(Spent { iterations: 9, ..Spent::default() }), None);
        assert_eq!(code(Spent { iterations: 10, ..Spent::default() }), Some("MAX_STEPS_EXCEEDED"));
        assert_eq!(tool(Spent { iterations: 10, tool_calls: 24, ..Spent::default() }), None);
        assert_eq!(tool(Spent { tool_calls: 25, ..Spent::default() }), Some("MAX_TOOL_CALLS_EXCEEDED"));
        for check in [&code, &tool] as [&dyn Fn(Spent) -> Option<&'static str>; 2] {
            assert_eq!(check(Spent { usage: usage(100), ..Spent::default() }), None);
            assert_eq!(check(Spent { usage: usage(101), ..Spent::default() }), Some("MAX_TOKENS_EXCEEDED"));
            assert_eq!(check(Spent { cost_usd: 1.0, ..Spent::default() }), None);
            assert_eq!(check(Spent { cost_usd: 1.01, ..Spent::default() }), Some("MAX_COST_EXCEEDED"));
            assert_eq!(check(Spent { active_us: 119_999_999, ..Spent::default() }), None);
            assert_eq!(check(Spent { active_us: 120_000_000, ..Spent::default() }), Some("TIMEOUT"));
        }
    }

    #[test]
    fn a_cost_that_is_no_number_counts_as_unknown() {
        let mut spent = Spent::default();
        assert!(!spent.pay(None) && !spent.pay(Some(f64::NAN)) && !spent.pay(Some(-1.0)));
        assert!(spent.pay(Some(f64::MAX)) && spent.pay(Some(f64::MAX)));
        assert!(spent.cost_usd.is_finite());
    }
}
