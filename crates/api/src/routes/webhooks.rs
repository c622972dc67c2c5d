//! Webhooks that report events to other systems, and their deliveries.

use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde::Serialize;
use toolwright_triggers::{Delivery, DeliveryStatus, TimeCursor, Webhooks};
use toolwright_types::{DeliveryId, Timestamp, WebhookDefinition};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::triggers::HistoryParams;
use crate::collection::{self, Collection};
use crate::extract::{Caller, PathName, PathPair, QueryParams};
use crate::list_params;
use crate::problem::Problem;
use crate::revisions;
use crate::state::AppState;
use crate::views::{self, PageView, WebhookView};

const TAG: &str = "webhooks";

impl Collection for WebhookDefinition {
    const PATH: &'static str = "/api/v1/ai/webhooks";
    const TAG: &'static str = TAG;
    const SINGULAR: &'static str = "Webhook";
    const HAS_YAML: bool = true;
}

/// Returns the routes, with their OpenAPI description.
pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(collection::routes::<WebhookDefinition>())
        .merge(revisions::routes::<WebhookDefinition>())
        .routes(routes!(deliveries))
        .routes(routes!(retry))
        .routes(routes!(test))
        .routes(routes!(pause))
        .routes(routes!(resume))
}

/// A delivery of an event to a webhook.
#[derive(Serialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DeliveryView {
    /// The id, which the receiver gets as `webhook-id`.
    id: String,
    /// The type of the event.
    event_type: String,
    /// The body of the request.
    #[schema(value_type = Object)]
    body: serde_json::Value,
    /// When the event was recorded for the webhook.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// `PENDING`, `DELIVERED` or `DEAD`. A dead delivery is not attempted again, except on request.
    status: String,
    /// The number of attempts.
    attempts: u32,
    /// The time of the next attempt.
    #[schema(value_type = Option<String>, format = DateTime)]
    retry_at: Option<Timestamp>,
    /// The HTTP status of the last response.
    response_status: Option<u16>,
    /// Why the last attempt failed.
    error: Option<String>,
}

impl From<Delivery> for DeliveryView {
    fn from(delivery: Delivery) -> Self {
        Self {
            id: delivery.id.to_string(),
            event_type: delivery.event_type,
            body: serde_json::from_str(&delivery.body).unwrap_or_default(),
            created_at: delivery.created_at,
            status: delivery.status.as_str().to_owned(),
            attempts: delivery.attempts,
            retry_at: delivery.retry_at,
            response_status: delivery.response_status,
            error: delivery.error,
        }
    }
}

/// Lists the deliveries to a webhook, newest first. Requires the permission to write the webhook, because deliveries name
/// the runs of all principals.
#[utoipa::path(get, path = "/api/v1/ai/webhooks/{ref}/deliveries", tag = TAG, operation_id = "listWebhookDeliveries",
    params(("ref" = String, Path), ("status" = Option<String>, Query, description = "PENDING, DELIVERED or DEAD"),
        ("limit" = Option<u32>, Query), ("cursor" = Option<String>, Query)),
    responses((status = 200, body = PageView<DeliveryView>)))]
pub(crate) async fn deliveries(
    State(webhooks): State<Webhooks>,
    Caller(session): Caller,
    PathName(reference): PathName,
    QueryParams(params): QueryParams<HistoryParams>,
) -> Result<Json<PageView<DeliveryView>>, Problem> {
    let limit = list_params::limit(params.limit)?;
    let status = params.status.as_deref().map(str::parse::<DeliveryStatus>).transpose();
    let status = status.map_err(|error| Problem::invalid("status", error.to_string()))?;
    let cursor = list_params::cursor::<TimeCursor<DeliveryId>>(params.cursor.as_deref())?;
    let page = webhooks.deliveries(&session, &reference, status, cursor.as_ref(), limit).await?;
    let next_cursor = page.next.map(|cursor| cursor.to_string());
    Ok(Json(PageView { items: page.items.into_iter().map(DeliveryView::from).collect(), next_cursor }))
}

/// Attempts a delivery again now, also if it is dead.
#[utoipa::path(post, path = "/api/v1/ai/webhooks/{ref}/deliveries/{id}/retry", tag = TAG, operation_id = "retryWebhookDelivery",
    params(("ref" = String, Path), ("id" = String, Path)), responses((status = 200, body = DeliveryView)))]
pub(crate) async fn retry(
    State(webhooks): State<Webhooks>,
    Caller(session): Caller,
    PathPair(reference, id): PathPair,
) -> Result<Json<DeliveryView>, Problem> {
    Ok(Json(webhooks.retry(&session, &reference, &id).await?.into()))
}

/// Sends a test event to a webhook, also if the webhook is paused. The response has the outcome.
#[utoipa::path(post, path = "/api/v1/ai/webhooks/{ref}/test", tag = TAG, operation_id = "testWebhook",
    params(("ref" = String, Path)), responses((status = 200, body = DeliveryView)))]
pub(crate) async fn test(
    State(webhooks): State<Webhooks>,
    Caller(session): Caller,
    PathName(reference): PathName,
) -> Result<Json<DeliveryView>, Problem> {
    Ok(Json(webhooks.test(&session, &reference).await?.into()))
}

/// Pauses a webhook. Events that occur while it is paused are not sent later.
#[utoipa::path(post, path = "/api/v1/ai/webhooks/{ref}/pause", tag = TAG, operation_id = "pauseWebhook",
    params(("ref" = String, Path)), responses((status = 200, body = WebhookView)))]
pub(crate) async fn pause(
    State(webhooks): State<Webhooks>,
    Caller(session): Caller,
    PathName(reference): PathName,
) -> Result<impl IntoResponse, Problem> {
    Ok(views::saved(webhooks.set_enabled(&session, &reference, false).await?))
}

/// Resumes a paused webhook.
#[utoipa::path(post, path = "/api/v1/ai/webhooks/{ref}/resume", tag = TAG, operation_id = "resumeWebhook",
    params(("ref" = String, Path)), responses((status = 200, body = WebhookView)))]
pub(crate) async fn resume(
    State(webhooks): State<Webhooks>,
    Caller(session): Caller,
    PathName(reference): PathName,
) -> Result<impl IntoResponse, Problem> {
    Ok(views::saved(webhooks.set_enabled(&session, &reference, true).await?))
}
