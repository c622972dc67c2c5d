//! Estimates the worst-case cost of one run of an agent, from its limits and the prices of its models.
//!
//! First collects the facts about the agent and its delegates. The estimate is a pure function of these facts.

use std::collections::{BTreeMap, VecDeque};

use toolwright_authz::{Action, Resource};
use toolwright_catalog::{CompiledAgent, ModelInfo, Session, Unavailable};
use toolwright_types::{MemoryStrategy, round_usd};

use super::delegate::MAX_DELEGATION_DEPTH;
use super::{Agents, StartError};

/// The maximum number of direct and indirect delegates whose facts are collected.
const MAX_AGENTS: usize = 100;

/// The worst-case cost of one run.
#[derive(Debug, Clone, PartialEq)]
pub struct CostEstimate {
    /// The name of the agent.
    pub agent: String,
    /// The version of the agent.
    pub version: String,
    /// The highest cost of one run in US dollars. `None` if a price or a context size is not known.
    pub worst_case_usd: Option<f64>,
    /// The limit that determines the worst case.
    pub binding_limit: Option<&'static str>,
    /// The upper bounds on the cost, one for each limit of the agent. The lowest bound is the worst case.
    pub terms: Vec<CostTerm>,
    /// The models of the agent.
    pub models: Vec<CostModel>,
    /// The delegates of the agent.
    pub delegates: Vec<DelegateCost>,
    /// What the estimate assumes.
    pub assumptions: Vec<String>,
    /// The prices and context sizes that are not known.
    pub unknown: Vec<String>,
}

/// The upper bound on the cost that follows from one limit.
#[derive(Debug, Clone, PartialEq)]
pub struct CostTerm {
    /// The limit: `maxIterations`, `maxTokens` or `maxCostUsd`.
    pub limit: &'static str,
    /// The value of the limit.
    pub value: f64,
    /// The bound in US dollars. `None` if it is not known.
    pub usd: Option<f64>,
    /// How the bound is computed.
    pub formula: String,
}

/// A model of an agent.
#[derive(Debug, Clone)]
pub struct CostModel {
    /// `model` or `fallback`.
    pub role: &'static str,
    /// The provider, the price and the context size of the model, if they are known.
    pub info: ModelInfo,
    /// The highest cost of one call in US dollars. `None` if it is not known.
    pub call_usd: Option<f64>,
}

impl PartialEq for CostModel {
    fn eq(&self, other: &Self) -> bool {
        (self.role, &self.info.name, self.call_usd) == (other.role, &other.info.name, other.call_usd)
    }
}

/// The worst-case cost of one call to a delegate.
#[derive(Debug, Clone, PartialEq)]
pub struct DelegateCost {
    /// The reference to the delegate.
    pub agent: String,
    /// The highest cost in US dollars. `None` if it is not known.
    pub worst_case_usd: Option<f64>,
}

/// The facts about an agent that determine its cost.
#[derive(Debug, Clone, Default)]
struct AgentFacts {
    iterations: u32,
    tool_calls: u32,
    parallel_calls: u32,
    max_tokens: Option<u64>,
    max_cost_usd: Option<f64>,
    tool_price: ToolPriceBound,
    output_tokens: u64,
    models: Vec<CostModel>,
    /// The references to the delegates, in lower case.
    delegates: Vec<String>,
}

/// The highest price of a call to one of the agent's own tools.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ToolPriceBound {
    /// In US dollars.
    PerCall(f64),
    /// Not known, because the price of at least one tool depends on its response.
    Unknown,
}

impl Default for ToolPriceBound {
    fn default() -> Self {
        ToolPriceBound::PerCall(0.0)
    }
}

impl ToolPriceBound {
    fn usd(self) -> Option<f64> {
        match self {
            ToolPriceBound::PerCall(usd) => Some(usd),
            ToolPriceBound::Unknown => None,
        }
    }
}

/// The facts about each agent. The key is the reference to the agent, in lower case. `None` means that the session may
/// not read the agent.
type Facts = BTreeMap<String, Option<AgentFacts>>;

impl Agents {
    /// Estimates the worst-case cost of one run of an agent.
    pub async fn estimate_cost(&self, session: &Session, agent: &str) -> Result<CostEstimate, StartError> {
        let compiled = self.find(session, agent).await?;
        let definition = &compiled.document.body;
        let name = definition.ref_name.to_string();
        self.0.access.require(session, Action::Read, Resource::Agent { name: &name })?;
        let own = self.cost_facts(session, &compiled).await?;
        let facts = self.delegate_facts(session, &own).await?;
        let mut estimate = estimate(&own, &facts);
        estimate.agent = name;
        estimate.version = definition.version.to_string();
        if definition.memory_config.strategy == MemoryStrategy::Summary {
            let text = "the model call that summarizes a long conversation before the run is not included";
            estimate.assumptions.push(text.to_owned());
        }
        Ok(estimate)
    }

    /// Collects the facts about all agents that an agent may delegate to, directly or indirectly.
    async fn delegate_facts(&self, session: &Session, own: &AgentFacts) -> Result<Facts, Unavailable> {
        let mut facts = Facts::new();
        let mut queue: VecDeque<String> = own.delegates.clone().into();
        while let Some(reference) = queue.pop_front() {
            if facts.contains_key(&reference) || facts.len() >= MAX_AGENTS {
                continue;
            }
            let Some(agent) = self.0.resolver.catalog.agent(&session.realm, &reference).await? else { continue };
            if !agent.is_runnable() {
                continue;
            }
            let name = agent.document.body.ref_name.as_str();
            let readable = self.0.access.require(session, Action::Read, Resource::Agent { name }).is_ok();
            let known = if readable { self.cost_facts(session, &agent).await.ok() } else { None };
            queue.extend(known.iter().flat_map(|known| known.delegates.clone()));
            facts.insert(reference, known);
        }
        Ok(facts)
    }

    async fn cost_facts(&self, session: &Session, agent: &CompiledAgent) -> Result<AgentFacts, StartError> {
        let (definition, models) = (&agent.document.body, &self.0.models);
        let limits = agent.limits(self.0.settings.defaults, self.0.settings.platform);
        let invalid = |error: toolwright_models::InvalidModelRef| StartError::Model(error.to_string());
        let llm = &definition.llm_config;
        let output_tokens = |llm: &toolwright_types::LlmConfig| {
            u64::from(llm.max_output_tokens.unwrap_or(models.defaults().max_output_tokens))
        };
        let mut used =
            vec![CostModel::new("model", models.info(&session.realm, llm).map_err(invalid)?, output_tokens(llm))];
        if let Some(choice) = &definition.fallback_model {
            let info = models.info(&session.realm, &models.fallback_config(llm, choice)).map_err(invalid)?;
            // The fallback model gets the same request. So the output limit of the configured model applies.
            used.push(CostModel::new("fallback", info, output_tokens(llm)));
        }
        let tools = self.0.resolver.tools(agent, &session.realm, &session.principal).await?;
        let mut tool_usd = Some(0.0);
        for member in tools.members().iter().filter(|member| !member.delegate) {
            let price = self.highest_price_usd(&session.realm, &member.tool).await?;
            tool_usd = tool_usd.zip(price).map(|(most, price): (f64, f64)| most.max(price));
        }
        Ok(AgentFacts {
            tool_price: tool_usd.map_or(ToolPriceBound::Unknown, ToolPriceBound::PerCall),
            iterations: limits.max_iterations,
            tool_calls: limits.max_tool_calls,
            parallel_calls: definition.execution_config.max_parallel_calls.unwrap_or(DEFAULT_PARALLEL_CALLS),
            max_tokens: limits.max_tokens,
            max_cost_usd: [limits.max_cost_usd, agent.cost_limit()].into_iter().flatten().reduce(f64::min),
            output_tokens: output_tokens(llm),
            models: used,
            delegates: definition.delegate_agent_refs.iter().map(|text| text.to_ascii_lowercase()).collect(),
        })
    }
}

/// The default of `maxParallelCalls`.
const DEFAULT_PARALLEL_CALLS: u32 = 8;

impl CostModel {
    fn new(role: &'static str, info: ModelInfo, output_tokens: u64) -> Self {
        let call_usd = call_cost(&info, output_tokens);
        Self { role, info, call_usd }
    }

    /// The highest price of one token.
    fn token_usd(&self) -> Option<f64> {
        let price = self.info.price.as_ref()?.price;
        Some(price.input.max(price.output) / 1000.0)
    }
}

/// The highest cost of one call: the request and the reply fill the context, and the reply has its maximum length.
fn call_cost(info: &ModelInfo, output_tokens: u64) -> Option<f64> {
    let price = info.price.as_ref()?.price;
    if price.input == 0.0 && price.output == 0.0 {
        return Some(0.0);
    }
    let context = info.context_tokens?;
    let output = output_tokens.min(context);
    let thousands = |tokens: u64| tokens as f64 / 1000.0;
    Some(thousands(context - output) * price.input + thousands(output) * price.output.max(price.input))
}

/// The highest cost of one run, and how far the run can exceed a limit. A limit is checked before a call, so the calls
/// that are already running can exceed it.
#[derive(Debug, Clone, Copy)]
struct Bound {
    /// The highest cost of the run.
    worst_usd: Option<f64>,
    /// The highest amount by which the run can exceed a limit on cost, in US dollars.
    excess_usd: Option<f64>,
    /// The highest number of tokens by which the run can exceed a limit on tokens.
    excess_tokens: Option<u64>,
    /// The highest price of one token.
    token_usd: Option<f64>,
}

fn estimate(own: &AgentFacts, facts: &Facts) -> CostEstimate {
    let mut bounds = BTreeMap::new();
    let delegates = delegate_bounds(own, facts, 0, &mut bounds);
    let terms = terms(own, &delegates);
    let binding = terms.iter().filter_map(|term| Some((term.limit, term.usd?)));
    let binding = binding.min_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| prices_known(own, &delegates));
    CostEstimate {
        agent: String::new(),
        version: String::new(),
        worst_case_usd: binding.map(|(_, usd)| usd),
        binding_limit: binding.map(|(limit, _)| limit),
        delegates: own
            .delegates
            .iter()
            .zip(&delegates)
            .map(|(agent, bound)| DelegateCost {
                agent: agent.clone(),
                worst_case_usd: bound.and_then(|bound| bound.worst_usd).map(round_usd),
            })
            .collect(),
        models: own.models.clone(),
        assumptions: assumptions(own),
        unknown: unknown(own, &delegates),
        terms,
    }
}

/// Returns the bound of each delegate of `agent`, or `None` for a delegate that cannot run. `depth` is the delegation
/// depth of `agent`.
fn delegate_bounds(
    agent: &AgentFacts,
    facts: &Facts,
    depth: u8,
    bounds: &mut BTreeMap<(String, u8), Bound>,
) -> Vec<Option<Bound>> {
    if depth >= MAX_DELEGATION_DEPTH {
        return vec![None; agent.delegates.len()];
    }
    let bound_of = |reference: &String| {
        let known = match facts.get(reference)? {
            Some(known) => known,
            None => return Some(Bound { worst_usd: None, excess_usd: None, excess_tokens: None, token_usd: None }),
        };
        let key = (reference.clone(), depth + 1);
        if let Some(bound) = bounds.get(&key) {
            return Some(*bound);
        }
        let delegates = delegate_bounds(known, facts, depth + 1, bounds);
        let terms = terms(known, &delegates);
        let worst = terms.iter().filter_map(|term| term.usd).reduce(f64::min);
        let bound = Bound {
            worst_usd: worst.filter(|_| prices_known(known, &delegates)),
            excess_usd: excess(call_usd(known), &delegates, known, |bound| bound.excess_usd),
            excess_tokens: excess_tokens(known, &delegates),
            token_usd: token_usd(known, &delegates),
        };
        bounds.insert(key, bound);
        Some(bound)
    };
    agent.delegates.iter().map(bound_of).collect()
}

/// Returns one upper bound on the cost for each limit of an agent.
fn terms(agent: &AgentFacts, delegates: &[Option<Bound>]) -> Vec<CostTerm> {
    let call = call_usd(agent);
    let worst_tool = worst_tool_call(agent, delegates, |bound| bound.worst_usd);
    let iterations = f64::from(agent.iterations);
    let by_iterations = call.zip(worst_tool).map(|(call, tool)| iterations * call + f64::from(agent.tool_calls) * tool);
    let formula = match worst_tool {
        Some(0.0) => "maxIterations × cost of the most expensive model call",
        _ => {
            "maxIterations × cost of the most expensive model call + maxToolCalls × cost of the most expensive call to a \
             tool or delegate"
        }
    };
    let mut terms = vec![CostTerm::new("maxIterations", iterations, by_iterations, formula)];
    if let Some(limit) = agent.max_tokens {
        let excess = excess_tokens(agent, delegates);
        let tokens = excess.map(|excess| limit.saturating_add(excess) as f64);
        let tool_calls = agent.tool_price.usd().map(|usd| f64::from(agent.tool_calls) * usd);
        let usd = tokens.zip(token_usd(agent, delegates)).zip(tool_calls);
        let usd = usd.map(|((tokens, price), tool_calls)| tokens * price + tool_calls);
        let formula = match tool_calls {
            Some(0.0) => {
                "(maxTokens + tokens of the calls that start before the limit is noticed) × highest price of a token"
            }
            _ => {
                "(maxTokens + tokens of the calls that start before the limit is noticed) × highest price of a token + \
                 maxToolCalls × highest price of a tool"
            }
        };
        terms.push(CostTerm::new("maxTokens", limit as f64, usd, formula));
    }
    if let Some(limit) = agent.max_cost_usd {
        let excess = excess(call, delegates, agent, |bound| bound.excess_usd);
        let formula = "maxCostUsd + cost of the calls that start before the limit is noticed";
        terms.push(CostTerm::new("maxCostUsd", limit, excess.map(|excess| limit + excess), formula));
    }
    terms
}

impl CostTerm {
    fn new(limit: &'static str, value: f64, usd: Option<f64>, formula: &str) -> Self {
        Self { limit, value, usd: usd.map(round_usd), formula: formula.to_owned() }
    }
}

/// The highest cost of one model call of an agent.
fn call_usd(agent: &AgentFacts) -> Option<f64> {
    agent.models.iter().map(|model| model.call_usd).reduce(|a, b| Some(a?.max(b?))).flatten()
}

/// The highest price of one token among the models of the agent and its delegates.
fn token_usd(agent: &AgentFacts, delegates: &[Option<Bound>]) -> Option<f64> {
    let own = agent.models.iter().map(CostModel::token_usd).reduce(|a, b| Some(a?.max(b?))).flatten()?;
    Some(own.max(highest(delegates, |bound| bound.token_usd)?))
}

/// The highest cost of one call to a tool or a delegate. `of` selects the cost in the bound of a delegate.
fn worst_tool_call(agent: &AgentFacts, delegates: &[Option<Bound>], of: impl Fn(&Bound) -> Option<f64>) -> Option<f64> {
    Some(agent.tool_price.usd()?.max(highest(delegates, of)?))
}

/// The highest cost of the calls that run after the last check of a limit: of one model call, or of all calls to tools
/// and delegates that run at the same time.
fn excess(
    call: Option<f64>,
    delegates: &[Option<Bound>],
    agent: &AgentFacts,
    of: impl Fn(&Bound) -> Option<f64>,
) -> Option<f64> {
    Some(call?.max(f64::from(agent.parallel_calls) * worst_tool_call(agent, delegates, of)?))
}

fn excess_tokens(agent: &AgentFacts, delegates: &[Option<Bound>]) -> Option<u64> {
    let own = agent.models.iter().map(|model| model.info.context_tokens).reduce(|a, b| Some(a?.max(b?))).flatten()?;
    let delegated =
        delegates.iter().flatten().map(|bound| bound.excess_tokens).try_fold(0, |most, one| Some(one?.max(most)))?;
    Some(own.max(u64::from(agent.parallel_calls).saturating_mul(delegated)))
}

/// The highest value among the bounds of the delegates: 0 without delegates, and `None` if one of the values is not
/// known.
fn highest(delegates: &[Option<Bound>], of: impl Fn(&Bound) -> Option<f64>) -> Option<f64> {
    delegates.iter().flatten().map(of).try_fold(0.0, |most: f64, one| Some(most.max(one?)))
}

/// Whether all prices are known. During a run, calls to a model without a price count as free, so a limit on cost does
/// not stop the run.
fn prices_known(agent: &AgentFacts, delegates: &[Option<Bound>]) -> bool {
    token_usd(agent, delegates).is_some()
}

fn assumptions(agent: &AgentFacts) -> Vec<String> {
    let mut all = vec![
        format!(
            "a model call fills the context of the model and returns {} tokens (`maxOutputTokens`)",
            agent.output_tokens
        ),
        "no input token comes from the provider's cache".to_owned(),
        "limits are checked before a call, so the calls that are running when a limit is reached are added".to_owned(),
        "`maxInputTokens` limits only the history, so it does not bound a request".to_owned(),
        "failed model calls that are repeated cost nothing".to_owned(),
        "a tool without a `price` costs nothing".to_owned(),
    ];
    if !agent.delegates.is_empty() {
        all.push("every tool call is a call to the most expensive tool or delegate".to_owned());
    }
    all
}

fn unknown(agent: &AgentFacts, delegates: &[Option<Bound>]) -> Vec<String> {
    let mut all = Vec::new();
    for CostModel { info, .. } in &agent.models {
        let name = &info.name;
        if info.price.is_none() {
            all.push(format!("the price of model `{name}` is not known, so its calls count as 0 toward `maxCostUsd`; set it in `prices_file`"));
        } else if info.context_tokens.is_none() && call_cost(info, agent.output_tokens).is_none() {
            all.push(format!("the context size of model `{name}` is not known; set `contextTokens` in `prices_file`"));
        }
    }
    if agent.tool_price == ToolPriceBound::Unknown {
        all.push("the price of a tool depends on its response (`price.perUnitUsd`)".to_owned());
    }
    for (reference, bound) in agent.delegates.iter().zip(delegates) {
        if bound.is_some_and(|bound| bound.worst_usd.is_none()) {
            all.push(format!("the cost of delegate `{reference}` is not known"));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use toolwright_catalog::ModelPrice;
    use toolwright_models::Price;

    use super::*;

    fn model(price: Option<(f64, f64)>, context_tokens: Option<u64>) -> CostModel {
        let price = price.map(|(input, output)| ModelPrice {
            price: Price { input, output, cached_input: None },
            source: None,
            as_of: None,
        });
        let name = "m".to_owned();
        let info = ModelInfo { name, provider: None, price, context_tokens, key_variable: None, is_default: false };
        CostModel::new("model", info, 1_000)
    }

    /// An agent with 10 iterations, whose model calls cost at most 0.01 for the input and 0.02 for the output.
    fn agent() -> AgentFacts {
        AgentFacts {
            iterations: 10,
            tool_calls: 5,
            parallel_calls: 2,
            output_tokens: 1_000,
            models: vec![model(Some((0.001, 0.02)), Some(11_000))],
            ..AgentFacts::default()
        }
    }

    fn worst(own: &AgentFacts, facts: &Facts) -> (Option<f64>, Option<&'static str>) {
        let estimate = estimate(own, facts);
        (estimate.worst_case_usd, estimate.binding_limit)
    }

    #[test]
    fn worst_case_cost_of_a_run_is_the_lowest_bound_among_its_limits() {
        let none = Facts::new();
        assert_eq!(worst(&agent(), &none), (Some(0.3), Some("maxIterations")));
        let limited = AgentFacts { max_cost_usd: Some(0.1), ..agent() };
        assert_eq!(
            worst(&limited, &none),
            (Some(0.13), Some("maxCostUsd")),
            "one call starts before the limit is noticed"
        );
        let limited = AgentFacts { max_tokens: Some(1_000), ..agent() };
        assert_eq!(worst(&limited, &none), (Some(0.24), Some("maxTokens")), "12,000 tokens at the higher price");
    }

    #[test]
    fn unknown_prices_and_context_sizes_are_reported_and_not_guessed() {
        let none = Facts::new();
        for (model, reason) in
            [(model(None, Some(11_000)), "price"), (model(Some((0.001, 0.02)), None), "context size")]
        {
            let agent = AgentFacts { models: vec![model], max_cost_usd: Some(1.0), ..agent() };
            assert_eq!(worst(&agent, &none), (None, None), "{reason}");
            let unknown = estimate(&agent, &none).unknown;
            assert!(unknown.len() == 1 && unknown[0].contains(reason), "{unknown:?}");
        }
        let free = AgentFacts { models: vec![model(Some((0.0, 0.0)), None)], ..agent() };
        assert_eq!(worst(&free, &none).0, Some(0.0));
    }

    #[test]
    fn worst_case_cost_of_a_run_includes_the_prices_of_its_tools() {
        let none = Facts::new();
        let priced = AgentFacts { tool_price: ToolPriceBound::PerCall(0.1), ..agent() };
        assert_eq!(worst(&priced, &none), (Some(0.8), Some("maxIterations")), "10 × 0.03 + 5 × 0.1");
        let limited = AgentFacts { max_cost_usd: Some(0.1), ..priced };
        assert_eq!(worst(&limited, &none), (Some(0.3), Some("maxCostUsd")), "two calls at 0.1 run at once");
        let by_unit = AgentFacts { tool_price: ToolPriceBound::Unknown, ..limited };
        assert_eq!(worst(&by_unit, &none), (None, None));
        assert!(estimate(&by_unit, &none).unknown[0].contains("perUnitUsd"));
    }

    #[test]
    fn worst_case_cost_of_a_run_includes_the_worst_case_cost_of_its_delegate_for_each_tool_call() {
        let parent = AgentFacts { delegates: vec!["child".into()], ..agent() };
        let child = AgentFacts { iterations: 2, ..agent() };
        let facts = Facts::from([("child".to_owned(), Some(child))]);
        assert_eq!(worst(&parent, &facts), (Some(0.6), Some("maxIterations")), "10 × 0.03 + 5 × 2 × 0.03");
        let limited = AgentFacts { max_cost_usd: Some(0.1), ..parent.clone() };
        assert_eq!(worst(&limited, &facts), (Some(0.16), Some("maxCostUsd")), "two delegates run at once");
        let unreadable = Facts::from([("child".to_owned(), None)]);
        assert_eq!(worst(&limited, &unreadable), (None, None));
        assert_eq!(worst(&parent, &Facts::new()).0, Some(0.3), "a delegate that does not exist is not called");
    }

    #[test]
    fn agent_that_delegates_to_itself_has_a_finite_worst_case_cost() {
        let looped = AgentFacts { delegates: vec!["a".into()], tool_calls: 1, ..agent() };
        let facts = Facts::from([("a".to_owned(), Some(looped.clone()))]);
        assert_eq!(worst(&looped, &facts).0, Some(1.8), "six levels of 0.3");
    }
}
