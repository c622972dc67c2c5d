//! Inspects an MCP server from the command line: connects, lists the tools and calls those that the user selects. Calls
//! of a realm's tools do not use this module.

mod authorize;
mod sample;

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
    FormElicitationCapability, JsonObject, ProtocolVersion, Tool,
};
use rmcp::service::{ClientInitializeError, RequestContext, RunningService, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{AuthClient, StreamableHttpClientTransport};
use rmcp::{ClientHandler, ClientLifecycleMode, ErrorData, RoleClient, serve_client_with_lifecycle};
use serde_json::Value;
use toolwright_tools::ToolFailure;
use toolwright_tools::executor::Redactor;
use toolwright_types::ErrorCode;

use crate::client::{self, StreamFirstClient};
use crate::login::{OAuthClient, OAuthLoginError};
use authorize::Authorization;

/// How long a server may take to answer one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(15);
/// The largest number of authorizations in one probe.
const MAX_AUTHORIZATIONS: usize = 3;

/// A probe of one server.
pub struct Probe {
    /// The URL of the server.
    pub url: String,
    /// The HTTP client.
    pub http: reqwest::Client,
    /// The protocol version. `None` selects the newest version that both sides support.
    pub version: Option<String>,
    /// The calls to make.
    pub calls: ProbeCalls,
    /// A bearer token.
    pub token: Option<String>,
    /// The OAuth client for a login, if the server requires one.
    pub authorize: Option<OAuthClient>,
}

/// The calls of a probe.
pub enum ProbeCalls {
    /// Only these calls. With an empty list, the probe calls no tool.
    Only(Vec<ProbeCall>),
    /// One call to every tool, with sample arguments. This includes tools that delete or change data.
    All,
}

/// A call to make.
#[derive(Debug, Clone, serde::Deserialize)]
pub struct ProbeCall {
    /// The name of the tool.
    pub name: String,
    /// The arguments.
    #[serde(default)]
    pub arguments: Option<JsonObject>,
}

/// The result of a probe.
#[derive(Debug, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProbeReport {
    /// The name and version of the server.
    pub server: Option<String>,
    /// The negotiated protocol version.
    pub protocol_version: String,
    /// The names of the tools.
    pub tools: Vec<String>,
    /// The calls that were made.
    pub calls: Vec<ProbeCallReport>,
}

/// The outcome of one call.
#[derive(Debug, serde::Serialize)]
pub struct ProbeCallReport {
    /// The name of the tool.
    pub tool: String,
    /// Whether the tool returned without an error.
    pub ok: bool,
    /// The beginning of the output, or the error.
    pub output: String,
}

/// The reason why a probe failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The connection failed.
    #[error("{0}")]
    Connect(String),
    /// The server requires credentials, and the probe has none.
    #[error("the MCP server requires credentials")]
    LoginRequired,
    /// The server rejected the token.
    #[error("the MCP server rejected the token")]
    Rejected,
    /// The login failed.
    #[error("the login failed: {0}")]
    Unauthorized(String),
    /// The authorization server cannot be used, so there was no login.
    #[error("{0}")]
    AuthorizationServer(String),
    /// The server did not answer in time.
    #[error("the MCP server did not answer `{0}` in time")]
    Timeout(&'static str),
    /// A request failed.
    #[error("`{request}` failed: {cause}")]
    RequestFailed {
        /// The method of the request.
        request: &'static str,
        /// The error.
        cause: String,
    },
    /// The protocol version is unknown.
    #[error("`{0}` is not a known protocol version")]
    Version(String),
}

/// Messages of the login library are not for users, so they are not part of the error.
impl From<OAuthLoginError> for ProbeError {
    fn from(error: OAuthLoginError) -> Self {
        match error {
            OAuthLoginError::Refused(_) => ProbeError::Unauthorized(error.to_string()),
            OAuthLoginError::Registration(_) => {
                ProbeError::Unauthorized("the authorization server does not register clients; use --client-id".into())
            }
            OAuthLoginError::InsecureEndpoint(_) => ProbeError::AuthorizationServer(error.to_string()),
            OAuthLoginError::Failed(_) => ProbeError::AuthorizationServer(
                "the authorization server of the MCP server cannot be found, or answered with an error".into(),
            ),
        }
    }
}

type ProbeService = RunningService<RoleClient, AutoAcceptHandler>;

impl Probe {
    /// Runs the probe.
    pub async fn run(&self) -> Result<ProbeReport, ProbeError> {
        let mut session = ProbeSession { probe: self, authorization: Authorization::default(), authorizations: 0 };
        let mut service = session.connect().await?;
        let mut report = ProbeReport::default();
        if let Some(info) = service.peer().peer_info() {
            report.protocol_version = info.protocol_version.to_string();
            report.server = info.server_info.as_ref().map(|server| format!("{} {}", server.name, server.version));
        }
        let tools = session.list(&mut service).await?;
        report.tools = tools.iter().map(|tool| tool.name.to_string()).collect();
        for call in self.calls_to_make(&tools) {
            report.calls.push(session.call(&mut service, call).await?);
        }
        let _ = service.cancel().await;
        Ok(report)
    }

    fn calls_to_make(&self, tools: &[Tool]) -> Vec<ProbeCall> {
        let sample = |tool: &Tool| ProbeCall { name: tool.name.to_string(), arguments: sample::arguments(tool) };
        match &self.calls {
            ProbeCalls::Only(calls) => calls.clone(),
            ProbeCalls::All => tools.iter().map(sample).collect(),
        }
    }

    fn lifecycle(&self) -> Result<ClientLifecycleMode, ProbeError> {
        let Some(text) = &self.version else { return Ok(client::lifecycle()) };
        let supported = ProtocolVersion::KNOWN_VERSIONS.iter().find(|version| version.as_str() == text);
        let version = supported.cloned().ok_or_else(|| ProbeError::Version(text.clone()))?;
        Ok(if version.as_str() < ProtocolVersion::V_2026_07_28.as_str() {
            ClientLifecycleMode::Initialize
        } else {
            ClientLifecycleMode::Auto { preferred_versions: vec![version], legacy_version: None }
        })
    }
}

/// A connection to the server. It is opened again after each login.
struct ProbeSession<'a> {
    probe: &'a Probe,
    authorization: Authorization,
    authorizations: usize,
}

impl ProbeSession<'_> {
    async fn connect(&mut self) -> Result<ProbeService, ProbeError> {
        loop {
            match self.try_connect().await? {
                Ok(service) => return Ok(service),
                Err(error) => match error.auth_challenge().map(str::to_owned) {
                    Some(challenge) => self.authorize(&challenge).await?,
                    None => return Err(self.connect_error(error)),
                },
            }
        }
    }

    async fn try_connect(&mut self) -> Result<Result<ProbeService, ClientInitializeError>, ProbeError> {
        let probe = self.probe;
        let mut config = StreamableHttpClientTransportConfig::with_uri(probe.url.as_str());
        config.auth_header.clone_from(&probe.token);
        let lifecycle = probe.lifecycle()?;
        let connecting = async {
            match self.authorization.take_manager() {
                Some(manager) => {
                    let client = StreamFirstClient::new(AuthClient::new(probe.http.clone(), manager));
                    let transport = StreamableHttpClientTransport::with_client(client, config);
                    serve_client_with_lifecycle(AutoAcceptHandler, transport, lifecycle).await
                }
                None => {
                    let client = StreamFirstClient::new(probe.http.clone());
                    let transport = StreamableHttpClientTransport::with_client(client, config);
                    serve_client_with_lifecycle(AutoAcceptHandler, transport, lifecycle).await
                }
            }
        };
        tokio::time::timeout(2 * REQUEST_TIMEOUT, connecting).await.map_err(|_| ProbeError::Timeout("initialize"))
    }

    /// Returns the error of a connection that was refused without a challenge.
    fn connect_error(&self, error: ClientInitializeError) -> ProbeError {
        let ToolFailure { error, .. } = client::connect_failure(error, &Redactor::default());
        match error.code {
            ErrorCode::AuthRequired => self.credentials_error(),
            _ => ProbeError::Connect(error.message),
        }
    }

    /// Returns the error for a server that rejected a request of the probe for lack of valid credentials.
    fn credentials_error(&self) -> ProbeError {
        if self.probe.token.is_some() { ProbeError::Rejected } else { ProbeError::LoginRequired }
    }

    /// Performs a login. Fails after [`MAX_AUTHORIZATIONS`] logins.
    async fn authorize(&mut self, challenge: &str) -> Result<(), ProbeError> {
        let Some(authorize) = self.probe.authorize.as_ref() else { return Err(self.credentials_error()) };
        self.authorizations += 1;
        if self.authorizations > MAX_AUTHORIZATIONS {
            return Err(ProbeError::Unauthorized(format!(
                "the server still rejects the token after {MAX_AUTHORIZATIONS} authorizations"
            )));
        }
        self.authorization.grant(authorize, &self.probe.url, challenge).await
    }

    async fn list(&mut self, service: &mut ProbeService) -> Result<Vec<Tool>, ProbeError> {
        loop {
            let listing = tokio::time::timeout(REQUEST_TIMEOUT, service.list_all_tools()).await;
            match listing.map_err(|_| ProbeError::Timeout("tools/list"))? {
                Ok(tools) => return Ok(tools),
                Err(error) => self.reauthorize("tools/list", service, &error).await?,
            }
        }
    }

    async fn call(&mut self, service: &mut ProbeService, call: ProbeCall) -> Result<ProbeCallReport, ProbeError> {
        loop {
            let mut request = CallToolRequestParams::new(call.name.clone());
            request.arguments.clone_from(&call.arguments);
            let answer = tokio::time::timeout(REQUEST_TIMEOUT, service.call_tool(request)).await;
            let tool = call.name.clone();
            match answer {
                Err(_) => {
                    return Ok(ProbeCallReport { tool, ok: false, output: "the tool did not answer in time".into() });
                }
                Ok(Ok(result)) => {
                    let ok = result.is_error != Some(true);
                    let output = serde_json::to_value(&result.content).unwrap_or_default().to_string();
                    return Ok(ProbeCallReport { tool, ok, output: output.chars().take(500).collect() });
                }
                Ok(Err(error)) if challenge(&error).is_some() => {
                    self.reauthorize("tools/call", service, &error).await?
                }
                Ok(Err(error)) => return Ok(ProbeCallReport { tool, ok: false, output: request_error(&error) }),
            }
        }
    }

    /// If the request failed because authorization is missing, performs a login and connects again.
    async fn reauthorize(
        &mut self,
        request: &'static str,
        service: &mut ProbeService,
        error: &ServiceError,
    ) -> Result<(), ProbeError> {
        let Some(challenge) = challenge(error) else {
            return Err(ProbeError::RequestFailed { request, cause: request_error(error) });
        };
        self.authorize(&challenge).await?;
        *service = self.connect().await?;
        Ok(())
    }
}

/// Describes why a request failed.
fn request_error(error: &ServiceError) -> String {
    match error {
        ServiceError::McpError(error) => format!("the MCP server answered with an error: {}", error.message),
        ServiceError::TransportSend(error) => match client::http_failure(error.error.as_ref()) {
            Some(failure) => failure.error.message,
            None => "the connection to the MCP server was lost".into(),
        },
        ServiceError::TransportClosed | ServiceError::Cancelled { .. } => {
            "the connection to the MCP server was lost".into()
        }
        _ => "the MCP server did not answer as the protocol requires".into(),
    }
}

/// Returns the `WWW-Authenticate` challenge of a server that rejected a request.
fn challenge(error: &ServiceError) -> Option<String> {
    match error {
        ServiceError::TransportSend(error) => client::challenge(error.error.as_ref()),
        _ => None,
    }
}

/// Answers questions of the server (elicitations) by accepting the form with sample values.
struct AutoAcceptHandler;

impl ClientHandler for AutoAcceptHandler {
    fn get_info(&self) -> ClientConfig {
        let mut info = client::identity();
        let form = FormElicitationCapability::new().with_schema_validation(true);
        info.capabilities.elicitation = Some(ElicitationCapability::new().with_form(form));
        info
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _cx: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let ElicitRequestParams::FormElicitationParams { requested_schema, .. } = params else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let schema = serde_json::to_value(requested_schema).unwrap_or_default();
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(sample::form_values(&schema))))
    }
}
