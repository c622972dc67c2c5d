//! A look at an MCP server as a client has it: connect, list, call. For people at a terminal; calls of tools of a realm do
//! not come by here.

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

use crate::client::{self, Listening};
use crate::login::{Authorize, LoginError};
use authorize::Authorization;

/// How long a server may take to answer one request.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often somebody is asked to let us in.
const MOST_AUTHORIZATIONS: usize = 3;

/// What to look at, and how.
pub struct Probe {
    /// Where the server is.
    pub url: String,
    /// How it is reached.
    pub http: reqwest::Client,
    /// The version of the protocol to speak; the newest that both know when absent.
    pub version: Option<String>,
    /// What to call; every tool when empty.
    pub calls: Vec<ToolCall>,
    /// A token, if there is one already.
    pub token: Option<String>,
    /// How to get in, if the server asks.
    pub authorize: Option<Authorize>,
}

/// A call to be made.
#[derive(Debug, Clone, serde::Deserialize)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Option<JsonObject>,
}

/// What was found.
#[derive(Debug, Default, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// What the server calls itself.
    pub server: Option<String>,
    /// The version of the protocol that was spoken.
    pub protocol_version: String,
    /// Its tools.
    pub tools: Vec<String>,
    /// The calls that were made.
    pub calls: Vec<Called>,
}

/// A call that was made.
#[derive(Debug, serde::Serialize)]
pub struct Called {
    /// The tool.
    pub tool: String,
    /// Whether it answered without an error.
    pub ok: bool,
    /// What it said.
    pub said: String,
}

/// Why a server could not be looked at.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// It cannot be connected to.
    #[error("the server cannot be connected to: {0}")]
    Connect(String),
    /// It wants somebody to log in.
    #[error("the server wants you to log in; use --authorize")]
    LoginNeeded,
    /// Nobody was let in.
    #[error("the server does not let us in: {0}")]
    Authorize(String),
    /// It did not answer.
    #[error("the server did not answer `{0}` in time")]
    Late(&'static str),
    /// It answered with an error.
    #[error("the server does not answer `{request}`: {cause}")]
    Refused {
        /// What was asked.
        request: &'static str,
        /// What it said.
        cause: String,
    },
    /// The version is none.
    #[error("`{0}` is no version of the protocol")]
    Version(String),
}

impl From<LoginError> for ProbeError {
    fn from(error: LoginError) -> Self {
        ProbeError::Authorize(error.to_string())
    }
}

type Connected = RunningService<RoleClient, Volunteer>;

impl Probe {
    /// Looks at the server.
    pub async fn run(&self) -> Result<Findings, ProbeError> {
        let mut login = Login { probe: self, authorization: Authorization::default(), times: 0 };
        let mut service = login.connect().await?;
        let mut findings = Findings::default();
        if let Some(info) = service.peer().peer_info() {
            findings.protocol_version = info.protocol_version.to_string();
            findings.server = info.server_info.as_ref().map(|server| format!("{} {}", server.name, server.version));
        }
        let tools = login.list(&mut service).await?;
        findings.tools = tools.iter().map(|tool| tool.name.to_string()).collect();
        for call in self.wanted(&tools) {
            findings.calls.push(login.call(&mut service, call).await?);
        }
        let _ = service.cancel().await;
        Ok(findings)
    }

    /// What is called: what was asked for, or everything that does not say that it destroys something.
    fn wanted(&self, tools: &[Tool]) -> Vec<ToolCall> {
        if !self.calls.is_empty() {
            return self.calls.clone();
        }
        let harmful = |tool: &&Tool| tool.annotations.as_ref().and_then(|hints| hints.destructive_hint) == Some(true);
        let tools = tools.iter().filter(|tool| !harmful(tool));
        tools.map(|tool| ToolCall { name: tool.name.to_string(), arguments: sample::arguments(tool) }).collect()
    }

    fn lifecycle(&self) -> Result<ClientLifecycleMode, ProbeError> {
        let Some(text) = &self.version else { return Ok(client::lifecycle()) };
        let known = ProtocolVersion::KNOWN_VERSIONS.iter().find(|version| version.as_str() == text);
        let version = known.cloned().ok_or_else(|| ProbeError::Version(text.clone()))?;
        Ok(if version.as_str() < ProtocolVersion::V_2026_07_28.as_str() {
            ClientLifecycleMode::Initialize
        } else {
            ClientLifecycleMode::Auto { preferred_versions: vec![version], legacy_version: None }
        })
    }
}

/// A connection that is made again when the server wants to know more about us.
struct Login<'a> {
    probe: &'a Probe,
    authorization: Authorization,
    times: usize,
}

impl Login<'_> {
    async fn connect(&mut self) -> Result<Connected, ProbeError> {
        loop {
            match self.try_to_connect().await? {
                Ok(service) => return Ok(service),
                Err(error) => match error.auth_challenge().map(str::to_owned) {
                    Some(challenge) => self.authorize(&challenge).await?,
                    None => return Err(ProbeError::Connect(error.to_string())),
                },
            }
        }
    }

    async fn try_to_connect(&mut self) -> Result<Result<Connected, ClientInitializeError>, ProbeError> {
        let probe = self.probe;
        let mut config = StreamableHttpClientTransportConfig::with_uri(probe.url.as_str());
        config.auth_header.clone_from(&probe.token);
        let lifecycle = probe.lifecycle()?;
        let connecting = async {
            match self.authorization.take_manager() {
                Some(manager) => {
                    let client = Listening::new(AuthClient::new(probe.http.clone(), manager));
                    let transport = StreamableHttpClientTransport::with_client(client, config);
                    serve_client_with_lifecycle(Volunteer, transport, lifecycle).await
                }
                None => {
                    let client = Listening::new(probe.http.clone());
                    let transport = StreamableHttpClientTransport::with_client(client, config);
                    serve_client_with_lifecycle(Volunteer, transport, lifecycle).await
                }
            }
        };
        tokio::time::timeout(2 * PATIENCE, connecting).await.map_err(|_| ProbeError::Late("initialize"))
    }

    /// Gets in, or says that it was tried often enough.
    async fn authorize(&mut self, challenge: &str) -> Result<(), ProbeError> {
        let authorize = self.probe.authorize.as_ref().ok_or(ProbeError::LoginNeeded)?;
        self.times += 1;
        if self.times > MOST_AUTHORIZATIONS {
            return Err(ProbeError::Authorize(format!("not even after {MOST_AUTHORIZATIONS} authorizations")));
        }
        self.authorization.grant(authorize, &self.probe.url, challenge).await
    }

    async fn list(&mut self, service: &mut Connected) -> Result<Vec<Tool>, ProbeError> {
        loop {
            let listing = tokio::time::timeout(PATIENCE, service.list_all_tools()).await;
            match listing.map_err(|_| ProbeError::Late("tools/list"))? {
                Ok(tools) => return Ok(tools),
                Err(error) => self.come_back("tools/list", service, &error).await?,
            }
        }
    }

    async fn call(&mut self, service: &mut Connected, call: ToolCall) -> Result<Called, ProbeError> {
        loop {
            let mut request = CallToolRequestParams::new(call.name.clone());
            request.arguments.clone_from(&call.arguments);
            let answer = tokio::time::timeout(PATIENCE, service.call_tool(request)).await;
            let tool = call.name.clone();
            match answer {
                Err(_) => return Ok(Called { tool, ok: false, said: "no answer in time".into() }),
                Ok(Ok(result)) => {
                    let ok = result.is_error != Some(true);
                    let said = serde_json::to_value(&result.content).unwrap_or_default().to_string();
                    return Ok(Called { tool, ok, said: said.chars().take(500).collect() });
                }
                Ok(Err(error)) if challenge(&error).is_some() => self.come_back("tools/call", service, &error).await?,
                Ok(Err(error)) => return Ok(Called { tool, ok: false, said: error.to_string() }),
            }
        }
    }

    /// Connects again with what the server wants, if that is why it refused.
    async fn come_back(
        &mut self,
        request: &'static str,
        service: &mut Connected,
        error: &ServiceError,
    ) -> Result<(), ProbeError> {
        let Some(challenge) = challenge(error) else {
            return Err(ProbeError::Refused { request, cause: error.to_string() });
        };
        self.authorize(&challenge).await?;
        *service = self.connect().await?;
        Ok(())
    }
}

/// What a server wants to know, where that is why it refused.
fn challenge(error: &ServiceError) -> Option<String> {
    match error {
        ServiceError::TransportSend(error) => client::challenge(error.error.as_ref()),
        _ => None,
    }
}

/// Whoever stands in for the user: takes what a form suggests.
struct Volunteer;

impl ClientHandler for Volunteer {
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
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(Value::Object(sample::suggested(&schema))))
    }
}
