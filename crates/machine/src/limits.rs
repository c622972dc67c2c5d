//! The limits of a run and the checks against them.
//!
//! Not here: model prices, and the division of a budget among child runs.

use serde::{Deserialize, Serialize};
use toolwright_types::{Usage, round_usd};

use crate::{Ending, RunStatus};

/// The limits of one run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// The maximum number of model calls.
    pub max_iterations: u32,
    /// The maximum number of tool calls that may be started.
    pub max_tool_calls: u32,
    /// The maximum active time; time spent suspended is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The maximum number of tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    /// The maximum cost in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
}

impl Default for Limits {
    /// The limits of an agent whose definition sets no limits.
    fn default() -> Self {
        Self { max_iterations: 10, max_tool_calls: 25, timeout_ms: Some(120_000), max_tokens: None, max_cost_usd: None }
    }
}

impl Limits {
    /// The platform's default limits for every run.
    pub fn platform() -> Self {
        Self {
            max_iterations: u32::MAX,
            max_tool_calls: 50,
            timeout_ms: None,
            max_tokens: None,
            max_cost_usd: Some(1.0),
        }
    }

    /// Combines two sets of limits: each limit is the smaller of the two values.
    pub fn tightest(self, other: Self) -> Self {
        Self {
            max_iterations: self.max_iterations.min(other.max_iterations),
            max_tool_calls: self.max_tool_calls.min(other.max_tool_calls),
            timeout_ms: tighter(self.timeout_ms, other.timeout_ms),
            max_tokens: tighter(self.max_tokens, other.max_tokens),
            max_cost_usd: tighter(self.max_cost_usd, other.max_cost_usd),
        }
    }

    /// Returns the limit that forbids another model call, if there is one.
    pub fn before_model(&self, resource_usage: &ResourceUsage) -> Option<Breach> {
        if resource_usage.iterations >= self.max_iterations {
            return Some(Breach::Iterations { limit: self.max_iterations });
        }
        self.budget_breach(resource_usage)
    }

    /// Returns the limit that forbids another tool call, if there is one.
    pub fn before_tool(&self, resource_usage: &ResourceUsage) -> Option<Breach> {
        if resource_usage.tool_calls >= self.max_tool_calls {
            return Some(Breach::ToolCalls { limit: self.max_tool_calls });
        }
        self.budget_breach(resource_usage)
    }

    /// Returns the cost limit if calls with this price would exceed it.
    pub(crate) fn price_breach(&self, resource_usage: &ResourceUsage, price_usd: f64) -> Option<Breach> {
        let cost_usd = resource_usage.cost_usd;
        let limit_usd = self.max_cost_usd.filter(|limit| round_usd(cost_usd + price_usd) > *limit)?;
        Some(Breach::Price { limit_usd, cost_usd, price_usd })
    }

    /// Returns the time limit if the run has reached it.
    pub fn timed_out(&self, resource_usage: &ResourceUsage) -> Option<Breach> {
        self.timeout_ms
            .filter(|limit| resource_usage.active_us >= limit.saturating_mul(1000))
            .map(|limit_ms| Breach::Time { limit_ms })
    }

    /// Returns the limit of time, tokens or cost that is exceeded, if there is one.
    pub(crate) fn budget_breach(&self, resource_usage: &ResourceUsage) -> Option<Breach> {
        let tokens =
            self.max_tokens.filter(|limit| resource_usage.usage.total() > *limit).map(|limit| Breach::Tokens { limit });
        let cost = self
            .max_cost_usd
            .filter(|limit| resource_usage.cost_usd > *limit)
            .map(|limit_usd| Breach::Cost { limit_usd });
        self.timed_out(resource_usage).or(tokens).or(cost)
    }
}

/// The resources that a run has consumed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct ResourceUsage {
    /// Started model calls.
    pub iterations: u32,
    /// Started tool calls.
    pub tool_calls: u32,
    /// Tokens.
    pub usage: Usage,
    /// Cost in US dollars. Calls with an unknown price count as 0.
    pub cost_usd: f64,
    /// Active time in microseconds.
    pub active_us: u64,
}

impl ResourceUsage {
    /// Adds a cost. Returns false if the cost is unknown or invalid; it then counts as 0.
    pub(crate) fn add_cost(&mut self, cost_usd: Option<f64>) -> bool {
        match cost_usd.filter(|cost| cost.is_finite() && *cost >= 0.0) {
            Some(cost) => {
                // JSON cannot store infinity, so the sum is limited to `f64::MAX`, which is still above every cost
                // limit.
                self.cost_usd = round_usd((self.cost_usd + cost).min(f64::MAX));
                true
            }
            None => false,
        }
    }
}

/// An exceeded limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Breach {
    /// Too many model calls.
    Iterations {
        /// The limit.
        limit: u32,
    },
    /// Too many tool calls.
    ToolCalls {
        /// The limit.
        limit: u32,
    },
    /// Too much active time.
    Time {
        /// The limit in milliseconds.
        limit_ms: u64,
    },
    /// Too many tokens.
    Tokens {
        /// The limit.
        limit: u64,
    },
    /// Too high a cost.
    Cost {
        /// The limit in US dollars.
        limit_usd: f64,
    },
    /// A call whose price would lead to too high a cost.
    Price {
        /// The limit in US dollars.
        limit_usd: f64,
        /// The cost so far.
        cost_usd: f64,
        /// The price of the call.
        price_usd: f64,
    },
}

impl Breach {
    /// The stable code of this limit. It is the `reason` of the run and the `details.reason` of each call that the
    /// limit refused.
    pub fn code(self) -> &'static str {
        match self {
            Breach::Iterations { .. } => "MAX_STEPS_EXCEEDED",
            Breach::ToolCalls { .. } => "MAX_TOOL_CALLS_EXCEEDED",
            Breach::Time { .. } => "TIMEOUT",
            Breach::Tokens { .. } => "MAX_TOKENS_EXCEEDED",
            Breach::Cost { .. } | Breach::Price { .. } => "MAX_COST_EXCEEDED",
        }
    }

    /// The ending of a run that exceeds this limit.
    pub fn ending(self) -> Ending {
        let (status, message) = match self {
            Breach::Iterations { limit } => {
                (RunStatus::MaxIterations, format!("the limit of {limit} model calls is reached"))
            }
            Breach::ToolCalls { limit } => {
                (RunStatus::BudgetExceeded, format!("the limit of {limit} tool calls is reached"))
            }
            Breach::Time { limit_ms } => (RunStatus::Timeout, format!("the time limit of {limit_ms} ms is exceeded")),
            Breach::Tokens { limit } => (RunStatus::BudgetExceeded, format!("the limit of {limit} tokens is exceeded")),
            Breach::Cost { limit_usd } => {
                (RunStatus::BudgetExceeded, format!("the cost limit of {limit_usd} USD is exceeded"))
            }
            Breach::Price { limit_usd, cost_usd, price_usd } => (
                RunStatus::BudgetExceeded,
                format!(
                    "a call for {price_usd} USD would exceed the cost limit of {limit_usd} USD; {cost_usd} USD are spent"
                ),
            ),
        };
        Ending::with_reason(status, self.code(), message)
    }
}

fn tighter<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b < a { b } else { a }),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combined_limits_take_the_smaller_value_of_each_limit() {
        let agent =
            Limits { max_tool_calls: 100, timeout_ms: Some(300_000), max_cost_usd: Some(0.5), ..Limits::default() };
        let both = agent.tightest(Limits::platform());
        assert_eq!(both, Limits::platform().tightest(agent));
        assert_eq!((both.max_iterations, both.max_tool_calls), (10, 50));
        assert_eq!((both.timeout_ms, both.max_cost_usd), (Some(300_000), Some(0.5)));
    }

    #[test]
    fn usage_equal_to_a_limit_is_allowed_for_tokens_and_cost_but_not_for_time() {
        let limits = Limits { max_tokens: Some(100), max_cost_usd: Some(1.0), ..Limits::default() };
        let code = |resource_usage: ResourceUsage| limits.before_model(&resource_usage).map(Breach::code);
        let tool = |resource_usage: ResourceUsage| limits.before_tool(&resource_usage).map(Breach::code);
        let usage = |n| Usage { input_tokens: n, ..Usage::default() };
        assert_eq!(code(ResourceUsage { iterations: 9, ..ResourceUsage::default() }), None);
        assert_eq!(code(ResourceUsage { iterations: 10, ..ResourceUsage::default() }), Some("MAX_STEPS_EXCEEDED"));
        assert_eq!(tool(ResourceUsage { iterations: 10, tool_calls: 24, ..ResourceUsage::default() }), None);
        assert_eq!(tool(ResourceUsage { tool_calls: 25, ..ResourceUsage::default() }), Some("MAX_TOOL_CALLS_EXCEEDED"));
        for check in [&code, &tool] as [&dyn Fn(ResourceUsage) -> Option<&'static str>; 2] {
            assert_eq!(check(ResourceUsage { usage: usage(100), ..ResourceUsage::default() }), None);
            assert_eq!(
                check(ResourceUsage { usage: usage(101), ..ResourceUsage::default() }),
                Some("MAX_TOKENS_EXCEEDED")
            );
            assert_eq!(check(ResourceUsage { cost_usd: 1.0, ..ResourceUsage::default() }), None);
            assert_eq!(check(ResourceUsage { cost_usd: 1.01, ..ResourceUsage::default() }), Some("MAX_COST_EXCEEDED"));
            assert_eq!(check(ResourceUsage { active_us: 119_999_999, ..ResourceUsage::default() }), None);
            assert_eq!(check(ResourceUsage { active_us: 120_000_000, ..ResourceUsage::default() }), Some("TIMEOUT"));
        }
    }

    #[test]
    fn negative_or_non_finite_cost_counts_as_unknown() {
        let mut resource_usage = ResourceUsage::default();
        assert!(
            !resource_usage.add_cost(None)
                && !resource_usage.add_cost(Some(f64::NAN))
                && !resource_usage.add_cost(Some(-1.0))
        );
        assert!(resource_usage.add_cost(Some(f64::MAX)) && resource_usage.add_cost(Some(f64::MAX)));
        assert!(resource_usage.cost_usd.is_finite());
    }

    #[test]
    fn sum_of_costs_has_no_rounding_error() {
        let mut resource_usage = ResourceUsage::default();
        for _ in 0..8 {
            resource_usage.add_cost(Some(0.0001));
        }
        assert_eq!(resource_usage.cost_usd, 0.0008);
    }
}
