//! The worst-case cost of a run of an agent.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolwright_agents::{Agents, CostEstimate, CostModel, CostTerm, DelegateCost};

use super::models::ModelPriceView;
use crate::extract::{Caller, PathName};
use crate::problem::Problem;

/// The explanation of the worst case in the response.
const FORMULA: &str = "worst case = the lowest of the bounds that the limits give";

/// The worst-case cost of one run.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostEstimateView {
    /// The agent.
    pub agent_ref: String,
    /// The version of the agent.
    pub version: String,
    /// The highest possible cost of one run in US dollars; null if it is not known. `unknown` says why.
    pub worst_case_usd: Option<f64>,
    /// The limit that determines the worst case: `maxIterations`, `maxTokens` or `maxCostUsd`.
    pub binding_limit: Option<String>,
    /// How the worst case is computed from the bounds.
    pub formula: String,
    /// The upper bounds on the cost, one for each limit.
    pub bounds: Vec<CostBoundView>,
    /// The models of the agent.
    pub models: Vec<CostModelView>,
    /// The delegates of the agent.
    pub delegates: Vec<DelegateCostView>,
    /// What the estimate assumes.
    pub assumptions: Vec<String>,
    /// Prices, context sizes and delegates that are not known.
    pub unknown: Vec<String>,
}

/// The upper bound on the cost that follows from one limit.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct CostBoundView {
    /// The limit: `maxIterations`, `maxTokens` or `maxCostUsd`.
    pub limit: String,
    /// The value of the limit.
    pub value: f64,
    /// The bound in US dollars; null if it is not known.
    pub usd: Option<f64>,
    /// How the bound is computed.
    pub formula: String,
}

/// A model of an agent.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CostModelView {
    /// `model` or `fallback`.
    pub role: String,
    /// The name of the model.
    pub name: String,
    /// The provider.
    pub provider: Option<String>,
    /// The price; null if it is not known.
    pub price: Option<ModelPriceView>,
    /// The size of the context in tokens; null if it is not known.
    pub context_tokens: Option<u64>,
    /// The highest cost of one call in US dollars; null if it is not known.
    pub call_usd: Option<f64>,
}

/// The worst-case cost of one call to a delegate.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DelegateCostView {
    /// The reference to the delegate, in lower case.
    pub agent_ref: String,
    /// The highest cost of one call in US dollars; null if it is not known.
    pub worst_case_usd: Option<f64>,
}

impl From<CostEstimate> for CostEstimateView {
    fn from(estimate: CostEstimate) -> Self {
        let bound =
            |CostTerm { limit, value, usd, formula }| CostBoundView { limit: String::from(limit), value, usd, formula };
        let delegate = |DelegateCost { agent, worst_case_usd }| DelegateCostView { agent_ref: agent, worst_case_usd };
        Self {
            agent_ref: estimate.agent,
            version: estimate.version,
            worst_case_usd: estimate.worst_case_usd,
            binding_limit: estimate.binding_limit.map(str::to_owned),
            formula: FORMULA.to_owned(),
            bounds: estimate.terms.into_iter().map(bound).collect(),
            models: estimate.models.into_iter().map(CostModelView::from).collect(),
            delegates: estimate.delegates.into_iter().map(delegate).collect(),
            assumptions: estimate.assumptions,
            unknown: estimate.unknown,
        }
    }
}

impl From<CostModel> for CostModelView {
    fn from(CostModel { role, info, call_usd }: CostModel) -> Self {
        Self {
            role: role.to_owned(),
            price: info.price.as_ref().map(ModelPriceView::from),
            name: info.name,
            provider: info.provider,
            context_tokens: info.context_tokens,
            call_usd,
        }
    }
}

/// Estimates the worst-case cost of one run of an agent, from its limits and the prices of its models. Unknown prices
/// are reported and not guessed.
#[utoipa::path(get, path = "/api/v1/ai/agents/{ref}/cost-estimate", tag = "agents", operation_id = "estimateAgentCost", params(("ref" = String, Path)),
    responses((status = 200, body = CostEstimateView)))]
pub(crate) async fn get(
    State(agents): State<Agents>,
    Caller(session): Caller,
    PathName(agent): PathName,
) -> Result<Json<CostEstimateView>, Problem> {
    Ok(Json(agents.estimate_cost(&session, &agent).await?.into()))
}
