//! Handles `tools/call` of a tool as a direct call. If the tool requires confirmation, the user is asked for it after
//! the call is prepared and before the call is executed.

use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use toolwright_catalog::Session;
use toolwright_runs::DirectOutcome;
use toolwright_tools::CallRequest;
use toolwright_tools::export::{unmangle, unwrap_arguments};
use toolwright_types::{ErrorCode, Surface, ToolEnvelope, ToolError};

use super::consent::Consent;
use super::progress::Progress;
use super::{Server, results, unavailable};

impl Server {
    pub(super) async fn call(
        &self,
        session: &Session,
        request: CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let tool_listing = self.tool_listing(session).await?;
        match tool_listing.find(&request.name) {
            Some(callable) if callable.is_agent() => self.call_agent(session, callable, request, cx).await,
            Some(callable) => {
                let call = callable.call_request(request.arguments.clone().unwrap_or_default());
                self.call_tool(session, call, &request, cx).await
            }
            None => {
                let call = self.unlisted_call(session, &request).await?;
                self.call_tool(session, call, &request, cx).await
            }
        }
    }

    /// Creates the request for a tool that exists but is not listed. The executor will report why the tool cannot be
    /// called.
    async fn unlisted_call(
        &self,
        session: &Session,
        request: &CallToolRequestParams,
    ) -> Result<CallRequest, ErrorData> {
        let unknown = || {
            let message =
                format!("tool `{}` does not exist; `tools/list` lists the tools that you can call", request.name);
            ErrorData::invalid_params(message, None)
        };
        let tool = unmangle(&request.name).ok_or_else(unknown)?.to_string();
        let found = self.engine().calls.find(&session.realm, &tool, None).await.map_err(unavailable)?;
        let found = found.filter(|tool| self.engine().registry.may_read(session, &tool.definition).is_ok());
        let found = found.ok_or_else(unknown)?;
        let input = unwrap_arguments(&found, Value::Object(request.arguments.clone().unwrap_or_default()));
        Ok(CallRequest { tool, version: None, input })
    }

    async fn call_tool(
        &self,
        session: &Session,
        call: CallRequest,
        request: &CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut direct = self.engine().calls.prepare(session, Surface::McpTool, call).await;
        if let Some(ready) = direct.ready() {
            let definition = &ready.tool.definition;
            if !definition.is_tool_fully_executed_on_server {
                let message = format!(
                    "tool `{}` has to be completed by a client, which MCP clients cannot do; call it over REST",
                    definition.ref_name
                );
                let error = ToolError::new(ErrorCode::PolicyDenied, message).reason("client_tool");
                return Ok(results::from_envelope(&direct.refuse(error).await).into());
            }
            if definition.requires_confirmation {
                match self.consent_to_call(session, ready, request, cx).await? {
                    Consent::Granted => {}
                    Consent::InputRequired(input_required) => return Ok((*input_required).into()),
                    Consent::Denied(error) => return Ok(results::from_envelope(&direct.refuse(*error).await).into()),
                }
            }
        }
        let updates = direct.progress();
        let outcome =
            Progress::from_context(cx).report_during(&request.name, updates, direct.execute_to_end(&cx.ct)).await;
        let outcome = outcome.map_err(unavailable)?;
        let envelope = finished_envelope(outcome)?;
        Ok(results::from_envelope(&envelope).into())
    }
}

/// Returns the envelope of a finished call. A call to an agentic or composite tool may wait for an approval or a
/// client. MCP cannot report a waiting call as a result, so the error names the run.
pub(super) fn finished_envelope(outcome: DirectOutcome) -> Result<Box<ToolEnvelope>, ErrorData> {
    match outcome {
        DirectOutcome::Done(envelope) => Ok(envelope),
        DirectOutcome::Waiting(snapshot) => {
            let (run, status) = (snapshot.run.id(), snapshot.run.status());
            let message =
                format!("the call waits ({status}); decide over REST or the command line, then read run `{run}`");
            Err(ErrorData::internal_error(message, None))
        }
    }
}
