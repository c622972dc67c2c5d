//! `tools/call` of a tool: the two halves of a direct call, with a person's consent between them where it is wanted.

use rmcp::model::{CallToolRequestParams, CallToolResponse};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use toolwright_engine::Session;
use toolwright_engine::runs::Called;
use toolwright_tools::CallRequest;
use toolwright_tools::export::{unmangle, unwrap_arguments};
use toolwright_types::{ErrorCode, Surface, ToolEnvelope, ToolError};

use super::consent::{Consent, Question};
use super::progress::Progress;
use super::{Server, results, unavailable};

impl Server {
    pub(super) async fn call(
        &self,
        session: &Session,
        request: CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let offer = self.offer(session).await?;
        match offer.find(&request.name) {
            Some(callable) if callable.is_agent() => self.call_agent(session, callable, request, cx).await,
            Some(callable) => {
                let wanted = callable.called_with(request.arguments.clone().unwrap_or_default());
                self.call_tool(session, wanted, &request, cx).await
            }
            None => {
                let wanted = self.not_offered(session, &request).await?;
                self.call_tool(session, wanted, &request, cx).await
            }
        }
    }

    /// A call of what is there and not offered: the executor says why it cannot be made.
    async fn not_offered(&self, session: &Session, request: &CallToolRequestParams) -> Result<CallRequest, ErrorData> {
        let unknown = || {
            let message = format!("there is no tool `{}`; tools/list has those you can call", request.name);
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
        wanted: CallRequest,
        request: &CallToolRequestParams,
        cx: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut direct = self.engine().calls.prepare(session, Surface::McpTool, wanted).await;
        if let Some(ready) = direct.ready() {
            let definition = &ready.tool.definition;
            if !definition.is_tool_fully_executed_on_server {
                let message = format!(
                    "the last step of tool `{}` is a client's, and no MCP client can take it; call it over REST",
                    definition.ref_name
                );
                let error = ToolError::new(ErrorCode::PolicyDenied, message).reason("client_tool");
                return Ok(results::of_envelope(&direct.refuse(error).await).into());
            }
            if definition.requires_confirmation {
                match self.consent(&Question::of_call(session, ready), request, cx).await? {
                    Consent::Given => {}
                    Consent::Asked(asked) => return Ok((*asked).into()),
                    Consent::Refused(error) => return Ok(results::of_envelope(&direct.refuse(*error).await).into()),
                }
            }
        }
        let heard = direct.progress();
        let made = Progress::of(cx).during(&request.name, heard, direct.make(&cx.ct)).await;
        let called = made.map_err(unavailable)?;
        let envelope = ended(called)?;
        Ok(results::of_envelope(&envelope).into())
    }
}

/// The receipt of a call, which has ended: those that wait for a client are refused before.
pub(super) fn ended(called: Called) -> Result<Box<ToolEnvelope>, ErrorData> {
    match called {
        Called::Done(envelope) => Ok(envelope),
        Called::Waits(_) => Err(ErrorData::internal_error("a call waits for somebody whom MCP cannot reach", None)),
    }
}
