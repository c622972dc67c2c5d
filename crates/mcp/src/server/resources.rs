//! Runs and blobs as MCP resources.

use data_encoding::BASE64;
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;
use toolwright_engine::Session;
use toolwright_engine::runs::{Run, RunQuery, SignalError};
use toolwright_machine::view;
use toolwright_types::{Attachment, RunId};

use super::{Server, unavailable};

const RUNS: &str = "toolwright://runs/";
const BLOBS: &str = "toolwright://blobs/";
/// Where REST has blobs.
const REST_BLOBS: &str = "/api/v1/ai/blobs/";
const JSON: &str = "application/json";
/// How many runs are on a page.
const PAGE: u32 = 50;
/// The largest blob that is read through MCP.
const LARGEST: usize = 8 << 20;

/// The resource that an attachment is.
pub(super) fn blob_uri(attachment: &Attachment) -> Option<String> {
    attachment.url.strip_prefix(REST_BLOBS).map(|id| format!("{BLOBS}{id}"))
}

/// What resources look like.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{RUNS}{{id}}"), "run")
            .with_description("A run of an agent: where it stands, what it answered and what it called.")
            .with_mime_type(JSON),
        ResourceTemplate::new(format!("{BLOBS}{{id}}"), "blob")
            .with_description("A payload that was too large for a result, or no text."),
    ]
}

impl Server {
    /// The session's runs, the newest first, and where the next page begins.
    pub(super) async fn resources(
        &self,
        session: &Session,
        cursor: Option<&str>,
    ) -> Result<(Vec<Resource>, Option<String>), ErrorData> {
        let wrong = |_| ErrorData::invalid_params("`cursor` is none that this server gave", None);
        let cursor = cursor.map(str::parse).transpose().map_err(wrong)?;
        let query = RunQuery { limit: PAGE, cursor, ..RunQuery::default() };
        let page = self.engine().runs.list(session, query).await.map_err(unavailable)?;
        Ok((page.items.iter().map(shown).collect(), page.next.map(|next| next.to_string())))
    }

    /// The ids of runs that begin like this, the newest first.
    pub(super) async fn run_ids(&self, session: &Session, beginning: &str) -> Result<Vec<String>, ErrorData> {
        let query = RunQuery { limit: 100, ..RunQuery::default() };
        let page = self.engine().runs.list(session, query).await.map_err(unavailable)?;
        let ids = page.items.iter().map(|run| run.id.to_string());
        Ok(ids.filter(|id| id.starts_with(beginning)).collect())
    }

    /// What is at a URI.
    pub(super) async fn resource(&self, session: &Session, uri: &str) -> Result<ReadResourceResult, ErrorData> {
        let contents = if let Some(id) = uri.strip_prefix(RUNS) {
            self.run(session, uri, id).await?
        } else if let Some(id) = uri.strip_prefix(BLOBS) {
            self.blob(session, uri, id).await?
        } else {
            return Err(not_found(uri));
        };
        Ok(ReadResourceResult::new(vec![contents]))
    }

    async fn run(&self, session: &Session, uri: &str, id: &str) -> Result<ResourceContents, ErrorData> {
        let id: RunId = id.parse().map_err(|_| not_found(uri))?;
        let record = match self.engine().runs.get(session, id).await {
            Ok(record) => record,
            Err(SignalError::Unavailable(error)) => return Err(unavailable(error)),
            Err(_) => return Err(not_found(uri)),
        };
        let run = &record.snapshot.run;
        let response = view::agent_response(run, &run.outputs());
        let text =
            json!({ "runId": id, "agent": record.row.subject, "response": response, "approvals": run.approvals() });
        Ok(ResourceContents::text(text.to_string(), uri).with_mime_type(JSON))
    }

    async fn blob(&self, session: &Session, uri: &str, id: &str) -> Result<ResourceContents, ErrorData> {
        self.engine().registry.may_enter(session).map_err(|_| not_found(uri))?;
        let blob = self.engine().blobs.get(&session.realm, id).await.map_err(unavailable)?;
        let blob = blob.ok_or_else(|| not_found(uri))?;
        if blob.bytes.len() > LARGEST {
            let message = format!(
                "the resource has {} bytes, more than the {LARGEST} that are read here; fetch it at {REST_BLOBS}{id}",
                blob.bytes.len()
            );
            return Err(ErrorData::invalid_params(message, Some(json!({ "uri": uri }))));
        }
        let is_text = blob.content_type.starts_with("text/") || blob.content_type.starts_with(JSON);
        let contents = match std::str::from_utf8(&blob.bytes) {
            Ok(text) if is_text => ResourceContents::text(text, uri),
            _ => ResourceContents::blob(BASE64.encode(&blob.bytes), uri),
        };
        Ok(contents.with_mime_type(blob.content_type))
    }
}

fn shown(run: &Run) -> Resource {
    Resource::new(format!("{RUNS}{}", run.id), run.id.to_string())
        .with_description(format!("a run of `{}`", run.subject))
        .with_mime_type(JSON)
}

/// A resource that is not there, or not for this principal: the two look alike.
pub(crate) fn not_found(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("there is no such resource", Some(json!({ "uri": uri })))
}
