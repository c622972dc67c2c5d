//! Offers runs and blobs as MCP resources.

use data_encoding::BASE64;
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;
use toolwright_catalog::Session;
use toolwright_machine::view;
use toolwright_runs::{CommandError, Run, RunQuery};
use toolwright_types::{Attachment, RunId};

use super::{Server, unavailable};

const RUN_URI_PREFIX: &str = "toolwright://runs/";
const BLOB_URI_PREFIX: &str = "toolwright://blobs/";
const REST_BLOB_PATH: &str = "/api/v1/ai/blobs/";
const JSON: &str = "application/json";
/// The page size.
const PAGE_SIZE: u32 = 50;
/// The largest blob that can be read over MCP.
const MAX_BLOB_BYTES: usize = 8 << 20;

/// The resource URI of an attachment.
pub(super) fn blob_uri(attachment: &Attachment) -> Option<String> {
    attachment.url.strip_prefix(REST_BLOB_PATH).map(|id| format!("{BLOB_URI_PREFIX}{id}"))
}

/// The URI templates of the resources.
pub(super) fn templates() -> Vec<ResourceTemplate> {
    vec![
        ResourceTemplate::new(format!("{RUN_URI_PREFIX}{{id}}"), "run")
            .with_description("A run of an agent: its status, its response and its calls.")
            .with_mime_type(JSON),
        ResourceTemplate::new(format!("{BLOB_URI_PREFIX}{{id}}"), "blob")
            .with_description("A payload that is binary or was too large for a result."),
    ]
}

impl Server {
    /// Returns a page of the session's runs, newest first, and the next cursor.
    pub(super) async fn resources(
        &self,
        session: &Session,
        cursor: Option<&str>,
    ) -> Result<(Vec<Resource>, Option<String>), ErrorData> {
        let invalid_cursor = |_| ErrorData::invalid_params("`cursor` must be a cursor that this server returned", None);
        let cursor = cursor.map(str::parse).transpose().map_err(invalid_cursor)?;
        let query = RunQuery { limit: PAGE_SIZE, cursor, ..RunQuery::default() };
        let page = self.engine().runs.list(session, query).await.map_err(unavailable)?;
        Ok((page.items.iter().map(run_resource).collect(), page.next.map(|next| next.to_string())))
    }

    /// Returns the run ids that start with this prefix, newest run first. Only the newest 100 runs are searched.
    pub(super) async fn run_ids(&self, session: &Session, prefix: &str) -> Result<Vec<String>, ErrorData> {
        let query = RunQuery { limit: 100, ..RunQuery::default() };
        let page = self.engine().runs.list(session, query).await.map_err(unavailable)?;
        let ids = page.items.iter().map(|run| run.id.to_string());
        Ok(ids.filter(|id| id.starts_with(prefix)).collect())
    }

    /// Reads a resource.
    pub(super) async fn resource(&self, session: &Session, uri: &str) -> Result<ReadResourceResult, ErrorData> {
        let contents = if let Some(id) = uri.strip_prefix(RUN_URI_PREFIX) {
            self.run(session, uri, id).await?
        } else if let Some(id) = uri.strip_prefix(BLOB_URI_PREFIX) {
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
            Err(CommandError::Unavailable(error)) => return Err(unavailable(error)),
            Err(_) => return Err(not_found(uri)),
        };
        let run = &record.snapshot.run;
        let response = view::agent_response(run, &run.outputs());
        let text = json!({ "runId": id, "agent": record.row.subject, "response": response, "approvals": run.pending_approvals() });
        Ok(ResourceContents::text(text.to_string(), uri).with_mime_type(JSON))
    }

    async fn blob(&self, session: &Session, uri: &str, id: &str) -> Result<ResourceContents, ErrorData> {
        self.engine().registry.may_enter(session).map_err(|_| not_found(uri))?;
        let blob = self.engine().blobs.get(&session.realm, id).await.map_err(unavailable)?;
        let blob = blob.ok_or_else(|| not_found(uri))?;
        if blob.bytes.len() > MAX_BLOB_BYTES {
            let message = format!(
                "the resource must have at most {MAX_BLOB_BYTES} bytes to be read over MCP, got {}; fetch it at {REST_BLOB_PATH}{id}",
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

fn run_resource(run: &Run) -> Resource {
    Resource::new(format!("{RUN_URI_PREFIX}{}", run.id), run.id.to_string())
        .with_description(format!("a run of `{}`", run.subject))
        .with_mime_type(JSON)
}

/// The error for a resource that does not exist or that the principal may not read. Both cases have the same error, so
/// that a client cannot find out which resources exist.
pub(crate) fn not_found(uri: &str) -> ErrorData {
    ErrorData::resource_not_found("the resource does not exist", Some(json!({ "uri": uri })))
}
