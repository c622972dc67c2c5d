//! Conversations: list, read, continue, update and delete.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};
use toolwright_agents::conversations::{ConversationPatch, ConversationQuery, Conversations};
use toolwright_catalog::Session;
use toolwright_types::ConversationId;

use super::agents::{self, AgentExecuteBody};
use crate::collection::CountView;
use crate::conversation_views::ConversationView;
use crate::extract::{Caller, JsonBody, PathName, QueryParams};
use crate::list_params;
use crate::problem::{Code, Problem};
use crate::run_views::AgentResponseView;
use crate::state::AppState;
use crate::views::PageView;

const TAG: &str = "conversations";
/// The largest number of turns in one response.
const MAX_TURNS: u32 = 200;

/// The parameters of a list of conversations.
#[derive(Deserialize, utoipa::IntoParams, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ConversationListParams {
    /// The agent.
    agent_ref: Option<String>,
    /// `ACTIVE`, `COMPLETED` or `ARCHIVED`.
    status: Option<String>,
    /// Whether to include the conversations of all principals.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    all: bool,
    /// A query in the query language, on the fields of the listed conversations.
    query: Option<String>,
    /// The page size, from 1 to 100. Default: 20.
    limit: Option<u32>,
    /// `nextCursor` of the previous page.
    cursor: Option<String>,
}

/// Lists the caller's conversations, newest first.
#[utoipa::path(get, path = "/api/v1/ai/conversations", tag = TAG, operation_id = "listConversations", params(ConversationListParams),
    responses((status = 200, body = PageView<ConversationView>)))]
pub(crate) async fn list(
    State(conversations): State<Conversations>,
    Caller(session): Caller,
    QueryParams(params): QueryParams<ConversationListParams>,
) -> Result<Json<PageView<ConversationView>>, Problem> {
    page(&conversations, &session, params).await
}

/// Lists conversations. The body contains the parameters of the list.
#[utoipa::path(post, path = "/api/v1/ai/conversations/query", tag = TAG, operation_id = "queryConversations", request_body = ConversationListParams,
    responses((status = 200, body = PageView<ConversationView>)))]
pub(crate) async fn query(
    State(conversations): State<Conversations>,
    Caller(session): Caller,
    JsonBody(params): JsonBody<ConversationListParams>,
) -> Result<Json<PageView<ConversationView>>, Problem> {
    page(&conversations, &session, params).await
}

/// Counts conversations. `limit` and `cursor` have no effect.
#[utoipa::path(get, path = "/api/v1/ai/conversations/count", tag = TAG, operation_id = "countConversations", params(ConversationListParams),
    responses((status = 200, body = CountView)))]
pub(crate) async fn count(
    State(conversations): State<Conversations>,
    Caller(session): Caller,
    QueryParams(params): QueryParams<ConversationListParams>,
) -> Result<Json<CountView>, Problem> {
    let all = params.all;
    Ok(Json(CountView { count: conversations.count(&session, all, params.query()?).await? }))
}

async fn page(
    conversations: &Conversations,
    session: &Session,
    params: ConversationListParams,
) -> Result<Json<PageView<ConversationView>>, Problem> {
    let all = params.all;
    let page = conversations.list(session, all, params.query()?).await?;
    Ok(Json(PageView {
        items: page.items.into_iter().map(|item| ConversationView::new(item, None)).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
    }))
}

impl ConversationListParams {
    fn query(self) -> Result<ConversationQuery, Problem> {
        Ok(ConversationQuery {
            agent: self.agent_ref,
            status: parse_status("status", self.status.as_deref())?,
            matching: list_params::filter_on_known_fields(self.query.as_deref(), ConversationQuery::is_filterable)?,
            limit: list_params::limit(self.limit)?,
            cursor: list_params::cursor(self.cursor.as_deref())?,
            ..ConversationQuery::default()
        })
    }
}

/// The parameters of a conversation.
#[derive(Deserialize)]
pub(crate) struct TurnParams {
    #[serde(default)]
    from: u32,
}

/// Returns a conversation with at most 200 turns, starting at `from`.
#[utoipa::path(get, path = "/api/v1/ai/conversations/{id}", tag = TAG, operation_id = "getConversation",
    params(("id" = String, Path), ("from" = Option<u32>, Query, description = "the index of the first turn")),
    responses((status = 200, body = ConversationView)))]
pub(crate) async fn get(
    State(conversations): State<Conversations>,
    Caller(session): Caller,
    PathName(id): PathName,
    QueryParams(params): QueryParams<TurnParams>,
) -> Result<Json<ConversationView>, Problem> {
    let (conversation, turns) = conversations.get(&session, parse_id(&id)?, params.from, MAX_TURNS).await?;
    Ok(Json(ConversationView::new(conversation, Some(turns))))
}

/// A message that continues a conversation.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ContinueBody {
    /// The message of the user.
    user_message: String,
    /// The variables of the prompt.
    #[serde(default, deserialize_with = "toolwright_types::null_as_default")]
    #[schema(value_type = Object)]
    context: Map<String, Value>,
}

/// Sends a message to the agent of a conversation, and returns when the run ends or waits.
#[utoipa::path(post, path = "/api/v1/ai/conversations/{id}/continue", tag = TAG, operation_id = "continueConversation", request_body = ContinueBody,
    params(("id" = String, Path)),
    responses((status = 200, body = AgentResponseView)))]
pub(crate) async fn continue_conversation(
    State(engine): State<AppState>,
    Caller(session): Caller,
    PathName(id): PathName,
    JsonBody(body): JsonBody<ContinueBody>,
) -> Result<Json<AgentResponseView>, Problem> {
    let id = parse_id(&id)?;
    let (conversation, _) = engine.conversations.get(&session, id, 0, 1).await?;
    let body = AgentExecuteBody::with_message(body.user_message, id, body.context);
    Ok(Json(agents::run(&engine, &session, &conversation.agent, body).await?))
}

/// The fields to change; absent fields are kept.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ConversationPatchBody {
    /// The title.
    #[serde(default)]
    title: Option<String>,
    /// `ACTIVE`, `COMPLETED` or `ARCHIVED`.
    #[serde(default)]
    status: Option<String>,
    /// The context that all runs of the conversation share.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    shared_context: Option<Map<String, Value>>,
}

/// Changes the title, status or shared context of a conversation.
#[utoipa::path(patch, path = "/api/v1/ai/conversations/{id}", tag = TAG, operation_id = "updateConversation", request_body = ConversationPatchBody,
    params(("id" = String, Path)),
    responses((status = 200, body = ConversationView)))]
pub(crate) async fn update(
    State(conversations): State<Conversations>,
    Caller(session): Caller,
    PathName(id): PathName,
    JsonBody(body): JsonBody<ConversationPatchBody>,
) -> Result<Json<ConversationView>, Problem> {
    if let Some(context) = &body.shared_context {
        let text = serde_json::to_string(context).unwrap_or_default();
        toolwright_agents::check_context_size(&text).map_err(|error| Problem::invalid("/sharedContext", error))?;
    }
    let patch = ConversationPatch {
        title: body.title,
        status: parse_status("/status", body.status.as_deref())?,
        shared_context: body.shared_context.map(Value::Object),
    };
    let updated = conversations.update(&session, parse_id(&id)?, patch).await?;
    Ok(Json(ConversationView::new(updated, None)))
}

/// Deletes a conversation with all its turns.
#[utoipa::path(delete, path = "/api/v1/ai/conversations/{id}", tag = TAG, operation_id = "deleteConversation", params(("id" = String, Path)),
    responses((status = 204)))]
pub(crate) async fn delete(
    State(conversations): State<Conversations>,
    Caller(session): Caller,
    PathName(id): PathName,
) -> Result<StatusCode, Problem> {
    conversations.delete(&session, parse_id(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn parse_status<T: std::str::FromStr>(path: &str, text: Option<&str>) -> Result<Option<T>, Problem> {
    let invalid = |text| Problem::invalid(path, format!("must be `ACTIVE`, `COMPLETED` or `ARCHIVED`, got `{text}`"));
    text.map(|text| text.parse().map_err(|_| invalid(text))).transpose()
}

fn parse_id(id: &str) -> Result<ConversationId, Problem> {
    id.parse().map_err(|_| Problem::new(Code::NotFound, format!("conversation `{id}` does not exist")))
}
