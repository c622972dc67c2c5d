//! The reach graph: what agents can reach.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use toolwright_catalog::registry::Registry;
use toolwright_catalog::{ReachEdge, ReachNode};
use toolwright_types::SideEffects;

use crate::extract::{Caller, QueryParams};
use crate::problem::Problem;

/// What agents can reach, among the definitions that the caller may read.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReachView {
    /// The nodes: agents, and everything that they reach.
    pub nodes: Vec<ReachNodeView>,
    /// The edges.
    pub edges: Vec<ReachEdgeView>,
    /// Whether the graph has more than 2,000 nodes or 10,000 edges and was cut off.
    pub truncated: bool,
}

/// A node of the reach graph.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReachNodeView {
    /// The id in this graph, such as `tool:crm/find`. The id of a version other than the current one ends in
    /// `@version`.
    pub id: String,
    /// `agent`, `tool`, `provider`, `type`, `host` or `database`.
    pub kind: String,
    /// The name. A database is named after the secret with its URL.
    pub name: String,
    /// The version of a tool or agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The side effects of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub side_effects: Option<SideEffects>,
    /// Whether each call of a tool, or each write of an agent, needs an approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires_confirmation: Option<bool>,
}

/// An edge of the reach graph.
#[derive(Debug, Serialize, Deserialize, utoipa::ToSchema)]
pub struct ReachEdgeView {
    /// The id of the node that uses `to`.
    pub from: String,
    /// The id of the node that `from` uses.
    pub to: String,
    /// How `from` uses `to`: `name`, `library`, `category`, `tag`, `delegate`, `fallback`, `verify`, `compensate`,
    /// `function`, `provider`, `host` or `records`.
    pub by: String,
}

impl From<ReachNode> for ReachNodeView {
    fn from(node: ReachNode) -> Self {
        let ReachNode { id, kind, name, version, side_effects, requires_confirmation } = node;
        Self { id, kind: kind.as_str().to_owned(), name, version, side_effects, requires_confirmation }
    }
}

impl From<ReachEdge> for ReachEdgeView {
    fn from(ReachEdge { from, to, by }: ReachEdge) -> Self {
        Self { from, to, by: by.to_owned() }
    }
}

/// The parameters of the graph.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReachParams {
    /// The agent to start from. Default: all agents.
    agent: Option<String>,
}

/// Returns what agents can reach: tools, providers, hosts, entity types and databases. Disabled and blocked definitions
/// are omitted.
#[utoipa::path(get, path = "/api/v1/ai/reach", tag = "agents", operation_id = "getReach", params(ReachParams),
    responses((status = 200, body = ReachView)))]
pub(crate) async fn get(
    State(registry): State<Registry>,
    Caller(session): Caller,
    QueryParams(ReachParams { agent }): QueryParams<ReachParams>,
) -> Result<Json<ReachView>, Problem> {
    let reach = registry.reach(&session, agent.as_deref()).await?;
    Ok(Json(ReachView {
        nodes: reach.nodes.into_iter().map(ReachNodeView::from).collect(),
        edges: reach.edges.into_iter().map(ReachEdgeView::from).collect(),
        truncated: reach.truncated,
    }))
}
