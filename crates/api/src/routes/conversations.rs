//! Conversations: listed, read, continued, renamed, deleted.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};
use toolwright_engine::Session;
use toolwright_engine::conversations::{ConversationPatch, ConversationQuery};
use toolwright_types::ConversationId;

use super::agents::{self, AgentExecuteBody};
use crate::collection::CountView;
use crate::extract::{App, Body, Caller, Named, Parameters};
use crate::lists;
use crate::problem::{Code, Problem};
use crate::run_views::{AgentResponseView, ConversationView};
use crate::views::PageView;

const TAG: &str = "conversations";
/// How many turns are shown with a conversation.
const TURNS: u32 = 200;

/// Which conversations.
#[derive(Deserialize, utoipa::IntoParams, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WantedConversations {
    /// The agent.
    agent_ref: Option<String>,
    /// ACTIVE, COMPLETED or ARCHIVED.
    status: Option<String>,
    /// Everyone's instead of the caller's own.
    #[serde(default)]
    all: bool,
    /// In the query language, over the conversations as they are listed.
    query: Option<String>,
    /// 1 to 100; 20 when absent.
    limit: Option<u32>,
    /// Where the page before ended.
    cursor: Option<String>,
}

/// Lists the caller's conversations, the latest first.
#[utoipa::path(get, path = "/api/v1/ai/conversations", tag = TAG, operation_id = "listConversations", params(WantedConversations),
    responses((status = 200, body = PageView<ConversationView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn list(
    State(engine): State<App>,
    Caller(session): Caller,
    Parameters(wanted): Parameters<WantedConversations>,
) -> Result<Json<PageView<ConversationView>>, Problem> {
    page(&engine, &session, wanted).await
}

/// Finds conversations like the list, with the parameters as a body.
#[utoipa::path(post, path = "/api/v1/ai/conversations/query", tag = TAG, operation_id = "queryConversations", request_body = WantedConversations,
    responses((status = 200, body = PageView<ConversationView>), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn query(
    State(engine): State<App>,
    Caller(session): Caller,
    Body(wanted): Body<WantedConversations>,
) -> Result<Json<PageView<ConversationView>>, Problem> {
    page(&engine, &session, wanted).await
}

/// Counts conversations; where a page begins and how long it is makes no difference.
#[utoipa::path(get, path = "/api/v1/ai/conversations/count", tag = TAG, operation_id = "countConversations", params(WantedConversations),
    responses((status = 200, body = CountView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn count(
    State(engine): State<App>,
    Caller(session): Caller,
    Parameters(wanted): Parameters<WantedConversations>,
) -> Result<Json<CountView>, Problem> {
    let all = wanted.all;
    Ok(Json(CountView { count: engine.conversations.count(&session, all, wanted.query()?).await? }))
}

async fn page(
    engine: &App,
    session: &Session,
    wanted: WantedConversations,
) -> Result<Json<PageView<ConversationView>>, Problem> {
    let all = wanted.all;
    let page = engine.conversations.list(session, all, wanted.query()?).await?;
    Ok(Json(PageView {
        items: page.items.into_iter().map(|item| ConversationView::new(item, None)).collect(),
        next_cursor: page.next.map(|cursor| cursor.to_string()),
    }))
}

impl WantedConversations {
    fn query(self) -> Result<ConversationQuery, Problem> {
        let status = self.status.as_deref().map(str::parse).transpose();
        Ok(ConversationQuery {
            agent: self.agent_ref,
            status: status.map_err(|_| Problem::invalid("status", "is ACTIVE, COMPLETED or ARCHIVED"))?,
            matching: lists::matching_known(self.query.as_deref(), ConversationQuery::knows)?,
            limit: lists::limit(self.limit)?,
            cursor: lists::cursor(self.cursor.as_deref())?,
            ..ConversationQuery::default()
        })
    }
}

/// Which turns.
#[derive(Deserialize)]
pub struct WantedTurns {
    #[serde(default)]
    from: u32,
}

/// A conversation with its turns, at most 200 from `from` on.
#[utoipa::path(get, path = "/api/v1/ai/conversations/{id}", tag = TAG, operation_id = "getConversation",
    params(("id" = String, Path), ("from" = Option<u32>, Query, description = "the index of the first turn")),
    responses((status = 200, body = ConversationView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn get(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
    Parameters(wanted): Parameters<WantedTurns>,
) -> Result<Json<ConversationView>, Problem> {
    let (conversation, turns) = engine.conversations.get(&session, parse(&id)?, wanted.from, TURNS).await?;
    Ok(Json(ConversationView::new(conversation, Some(turns))))
}

/// What to go on with.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContinueBody {
    /// What the user says.
    user_message: String,
    /// Variables for the prompt.
    #[serde(default, deserialize_with = "toolwright_types::or_default")]
    #[schema(value_type = Object)]
    context: Map<String, Value>,
}

/// Says something more to the conversation's agent.
#[utoipa::path(post, path = "/api/v1/ai/conversations/{id}/continue", tag = TAG, operation_id = "continueConversation", request_body = ContinueBody,
    params(("id" = String, Path)),
    responses((status = 200, body = AgentResponseView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn go_on(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
    Body(body): Body<ContinueBody>,
) -> Result<Json<AgentResponseView>, Problem> {
    let id = parse(&id)?;
    let (conversation, _) = engine.conversations.get(&session, id, 0, 1).await?;
    let body = AgentExecuteBody::saying(body.user_message, id, body.context);
    Ok(Json(agents::run(&engine, &session, &conversation.agent, body).await?))
}

/// What to change; what is absent stays.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationPatchBody {
    /// The title.
    #[serde(default)]
    title: Option<String>,
    /// ACTIVE, COMPLETED or ARCHIVED.
    #[serde(default)]
    status: Option<String>,
    /// What its runs share.
    #[serde(default)]
    #[schema(value_type = Option<Object>)]
    shared_context: Option<Map<String, Value>>,
}

/// Renames a conversation, or puts it away.
#[utoipa::path(patch, path = "/api/v1/ai/conversations/{id}", tag = TAG, operation_id = "updateConversation", request_body = ConversationPatchBody,
    params(("id" = String, Path)),
    responses((status = 200, body = ConversationView), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn update(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
    Body(body): Body<ConversationPatchBody>,
) -> Result<Json<ConversationView>, Problem> {
    let status = body.status.as_deref().map(str::parse).transpose();
    let patch = ConversationPatch {
        title: body.title,
        status: status.map_err(|_| Problem::invalid("/status", "is ACTIVE, COMPLETED or ARCHIVED"))?,
        shared_context: body.shared_context.map(Value::Object),
    };
    let updated = engine.conversations.update(&session, parse(&id)?, patch).await?;
    Ok(Json(ConversationView::new(updated, None)))
}

/// Deletes a conversation with all its turns.
#[utoipa::path(delete, path = "/api/v1/ai/conversations/{id}", tag = TAG, operation_id = "deleteConversation", params(("id" = String, Path)),
    responses((status = 204), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub async fn delete(
    State(engine): State<App>,
    Caller(session): Caller,
    Named(id): Named,
) -> Result<StatusCode, Problem> {
    engine.conversations.delete(&session, parse(&id)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

fn parse(id: &str) -> Result<ConversationId, Problem> {
    id.parse().map_err(|_| Problem::new(Code::NotFound, format!("there is no conversation `{id}`")))
}
