//! Connection tests of providers. The result of the last test is read from the run of that test.

use std::collections::BTreeMap;

use serde_json::Value;
use toolwright_catalog::{Session, Unavailable};
use toolwright_runs::{CommandError, DirectOutcome, RunKind, RunQuery};
use toolwright_types::{Document, ErrorCode, ProviderType, Timestamp, ToolEnvelope, ToolError, ToolProviderConfig};

use crate::calls::Calls;

/// The number of recent calls that are searched for the last connection test. Some of these calls may not be tests,
/// because a tool can have the same name as the provider.
const RECENT_CALLS: u32 = 20;

/// The result of a connection test.
#[derive(Debug, Clone)]
pub struct ProviderTest {
    /// The error of the test; `None` if the provider answered and accepted the credentials.
    pub error: Option<ToolError>,
    /// The HTTP status of the response.
    pub http_status: Option<u16>,
    /// For an MCP server: the fingerprints of its tools, by name.
    pub tools: Option<BTreeMap<String, String>>,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// When the test ended.
    pub at: Timestamp,
}

impl Calls {
    /// Tests the connection to a provider. Returns `None` if the provider is this server, which needs no connection.
    pub async fn test_provider(
        &self,
        session: &Session,
        provider: &Document<ToolProviderConfig>,
    ) -> Result<Option<ProviderTest>, Unavailable> {
        if provider.body.provider_type == ProviderType::QuantumInternal {
            return Ok(None);
        }
        match self.probe(session, provider).await? {
            DirectOutcome::Done(envelope) => Ok(Some(ProviderTest::new(&provider.body, *envelope))),
            DirectOutcome::Waiting(_) => {
                Err(Unavailable::new("the connection test failed", "the test unexpectedly waits for a client"))
            }
        }
    }

    /// Returns the last connection test of a provider. Tests whose runs the session may not read are ignored.
    pub async fn last_provider_test(
        &self,
        session: &Session,
        provider: &Document<ToolProviderConfig>,
    ) -> Result<Option<ProviderTest>, Unavailable> {
        let subject = Some(provider.meta.ref_name.to_string());
        let query = RunQuery { subject, kind: Some(RunKind::Tool), limit: RECENT_CALLS, ..RunQuery::default() };
        let page = self.runs().list(session, query).await?;
        // The tool of a test is not stored, so it has no content hash.
        let Some(test) = page.items.iter().find(|run| run.subject_hash.is_empty() && run.state.ended_at.is_some())
        else {
            return Ok(None);
        };
        let envelope = match self.runs().get(session, test.id).await {
            Ok(record) => record.snapshot.run.outputs().tools_by_id.into_values().next(),
            Err(CommandError::Unavailable(error)) => return Err(error),
            // The run was deleted.
            Err(_) => None,
        };
        Ok(envelope.map(|envelope| ProviderTest::new(&provider.body, envelope)))
    }
}

impl ProviderTest {
    fn new(provider: &ToolProviderConfig, envelope: ToolEnvelope) -> Self {
        let ToolEnvelope { error, output, metadata, t_start, t_end, .. } = envelope;
        let listed = output.get("tools").and_then(Value::as_array);
        let listed = listed.filter(|_| provider.provider_type == ProviderType::Mcp);
        let text = |tool: &Value, field: &str| tool.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            error: error.filter(|error| !shows_a_connection(provider, metadata.http_status, error)),
            http_status: metadata.http_status,
            tools: listed
                .map(|tools| tools.iter().map(|tool| (text(tool, "name"), text(tool, "fingerprint"))).collect()),
            duration_ms: t_end.millis_since(t_start),
            at: t_end,
        }
    }
}

/// Whether an error of a connection test still shows that the provider is reachable and accepts the credentials. Few
/// HTTP systems have a resource at their base URL, so a status such as 404 is enough. A gRPC server whose provider has
/// a descriptor set need not support reflection.
fn shows_a_connection(provider: &ToolProviderConfig, http_status: Option<u16>, error: &ToolError) -> bool {
    match provider.provider_type {
        ProviderType::Rest => error.code == ErrorCode::ProviderError && http_status.is_some_and(|status| status < 500),
        ProviderType::Grpc => {
            let status = error.details.as_ref().and_then(|details| details.get("grpc_status"));
            provider.descriptor_set.is_some() && status.is_some_and(|status| status == "UNIMPLEMENTED")
        }
        ProviderType::Mcp | ProviderType::QuantumInternal => false,
    }
}
