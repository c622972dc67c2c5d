//! The event stream of a realm.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::IntoResponse;
use axum::response::sse::{Event as SseEvent, KeepAlive, Sse};
use futures::stream::{self, StreamExt};
use serde::{Deserialize, Serialize};
use toolwright_engine::events::{Event, EventKind, EventListener, EventPosition, StreamItem};
use toolwright_types::Timestamp;

use crate::extract::{Caller, CallerKey, QueryParams};
use crate::problem::Problem;
use crate::state::AppState;
use crate::stream::HEARTBEAT;

const TAG: &str = "events";
/// The value of the parameter `kinds` that selects all kinds of definitions.
const DEFINITIONS: &str = "definitions";

/// A change in the realm. The event does not contain the changed object. Clients read the object with the route for
/// objects of its kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    /// READY, RESET, RUN_STARTED, RUN_CHANGED, RUN_ENDED, APPROVAL_REQUESTED, APPROVAL_DECIDED, DEFINITION_CREATED,
    /// DEFINITION_UPDATED, DEFINITION_DELETED, DRIFT_FOUND or DRIFT_ACCEPTED.
    #[serde(rename = "type")]
    pub event_type: String,
    /// The time of the change. The events READY and RESET have only the field `type`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, format = DateTime)]
    pub at: Option<Timestamp>,
    /// The kind of the object: runs, approvals, tools, providers, agents, fragments, types, workflows,
    /// step-registrations, condition-bindings or drift.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The id of the run, call, definition or finding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The run of the call, for approvals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<String>,
    /// The name of the definition. For a run, its agent or tool. For an approval or a finding, its tool.
    #[serde(rename = "ref", default, skip_serializing_if = "Option::is_none")]
    pub ref_name: Option<String>,
    /// The status of the run or finding, or the outcome of the approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// The revision of the definition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
}

impl From<&Event> for EventView {
    fn from(event: &Event) -> Self {
        Self {
            event_type: event.event_type.as_str().to_owned(),
            at: Some(event.at),
            kind: Some(event.kind.as_str().to_owned()),
            id: Some(event.id.clone()),
            run_id: event.run.clone(),
            ref_name: event.ref_name.clone(),
            status: event.status.clone(),
            revision: event.revision,
        }
    }
}

/// The parameters of the stream.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventParams {
    /// The kinds of the objects, separated by commas: runs, approvals, tools, providers, agents, fragments, types,
    /// workflows, step-registrations, condition-bindings or drift. `definitions` selects all kinds of definitions.
    /// Default: all.
    kinds: Option<String>,
    /// Like `Last-Event-ID`, for clients that cannot set headers.
    after: Option<String>,
}

/// Streams the changes in the realm, as far as the caller may read the changed objects. The stream starts after the
/// event `Last-Event-ID`, or now if the header is absent.
#[utoipa::path(get, path = "/api/v1/ai/events", tag = TAG, operation_id = "listenToEvents",
    params(EventParams, ("Last-Event-ID" = Option<String>, Header, description = "the id of the last event that was received")),
    responses((status = 200, body = EventView, content_type = "text/event-stream")))]
pub(crate) async fn listen(
    State(engine): State<AppState>,
    Caller(session): Caller,
    CallerKey(key): CallerKey,
    QueryParams(params): QueryParams<EventParams>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, Problem> {
    let kinds = parse_kinds(params.kinds.as_deref())?;
    let after = match headers.get("last-event-id") {
        Some(value) => Some(parse_position("Last-Event-ID", &String::from_utf8_lossy(value.as_bytes()))?),
        None => params.after.as_deref().map(|text| parse_position("after", text)).transpose()?,
    };
    let listener = engine.events.listen(session, kinds, after).await?;
    let items = stream::unfold(listener, async |mut listener: EventListener| {
        listener.next().await.map(|item| (Ok::<_, std::convert::Infallible>(sse_event(&item)), listener))
    });
    let stop = engine.shutdown_token();
    let closed = async move { stop.run_until_cancelled(key.rejected()).await };
    Ok(Sse::new(items.take_until(closed)).keep_alive(KeepAlive::new().interval(HEARTBEAT)))
}

fn parse_kinds(text: Option<&str>) -> Result<Vec<EventKind>, Problem> {
    let mut kinds = Vec::new();
    for name in text.unwrap_or_default().split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let before = kinds.len();
        kinds.extend(
            EventKind::ALL.into_iter().filter(|kind| {
                kind.as_str() == name || (name == DEFINITIONS && matches!(kind, EventKind::Definition(_)))
            }),
        );
        if kinds.len() == before {
            let known = EventKind::ALL.map(EventKind::as_str).join("`, `");
            let message = format!("must contain only `{known}` and `{DEFINITIONS}`, got `{name}`");
            return Err(Problem::invalid("kinds", message));
        }
    }
    Ok(kinds)
}

fn parse_position(place: &str, text: &str) -> Result<EventPosition, Problem> {
    text.trim()
        .parse()
        .map_err(|error: toolwright_engine::events::InvalidEventPosition| Problem::invalid(place, error.to_string()))
}

fn sse_event(item: &StreamItem) -> SseEvent {
    let signal = |name: &str, position: &EventPosition| {
        let view = EventView { event_type: name.to_owned(), ..EventView::default() };
        SseEvent::default().event(name).id(position.to_string()).data(serialize(&view))
    };
    match item {
        StreamItem::Ready(position) => signal("READY", position),
        StreamItem::Reset(position) => signal("RESET", position),
        StreamItem::Event(shared) => SseEvent::default()
            .event(shared.event.event_type.as_str())
            .id(shared.event.position.to_string())
            .data(shared.text(|event| serialize(&EventView::from(event)))),
    }
}

fn serialize(view: &EventView) -> String {
    // Strings and numbers always serialize.
    serde_json::to_string(view).unwrap_or_default()
}
