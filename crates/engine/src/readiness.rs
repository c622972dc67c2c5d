//! Checks whether a tool or a provider is ready for a caller: life cycle, permission, provider, secrets, drift and
//! changed definitions. Never opens a secret.
//!
//! The module first collects the data that the checks need. The checks are pure functions of this data.

use toolwright_catalog::registry::RegistryError;
use toolwright_catalog::{Session, Unavailable};
use toolwright_store::DriftQuery;
use toolwright_tools::CompiledTool;
use toolwright_types::{Document, ProviderType, Timestamp, ToolDefinition, ToolProviderConfig, ToolStatus};

use crate::engine::Engine;
use crate::provider_test::ProviderTest;

/// The maximum number of drift findings that are counted.
const MAX_FINDINGS: u32 = 100;

/// The number of revisions of a provider that are searched for its last change.
const MAX_REVISIONS: u32 = 50;

/// Whether a definition is ready for a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Readiness {
    /// The checks. The definition is ready if none of them failed.
    pub checks: Vec<ReadinessCheck>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadinessCheck {
    /// The name of the check.
    pub check: &'static str,
    /// The result.
    pub status: CheckStatus,
    /// The finding, as a sentence.
    pub message: String,
    /// What the caller can do to resolve the problem.
    pub remedy: Option<String>,
    /// For the check of a secret: the name of the secret.
    pub secret: Option<String>,
    /// For the check of a secret: who owns the secret that is used, `user`, `realm` or `org`.
    pub scope: Option<&'static str>,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckStatus {
    /// There is no problem.
    Ok,
    /// Calls are possible, but the problem needs attention.
    Warning,
    /// Calls fail.
    Failed,
}

impl CheckStatus {
    /// The name of the status.
    pub fn as_str(self) -> &'static str {
        match self {
            CheckStatus::Ok => "ok",
            CheckStatus::Warning => "warning",
            CheckStatus::Failed => "failed",
        }
    }
}

impl Readiness {
    /// Whether no check failed.
    pub fn is_ready(&self) -> bool {
        self.checks.iter().all(|check| check.status != CheckStatus::Failed)
    }
}

/// A secret that a call needs, and who owns the secret that the call would use.
struct SecretFact {
    name: String,
    scope: Option<&'static str>,
    /// Whether a user creates the secret by logging in.
    is_login: bool,
}

/// The last connection test of a provider, and the time of the provider's last change.
struct ConnectionFact {
    test: Option<ProviderTest>,
    /// When the provider was last changed. Listing the tools of the provider (a discovery) is not a change.
    changed_at: Timestamp,
}

impl Engine {
    /// Checks whether a tool is ready for the session. If `probe` is set, the connection to the provider of the tool is
    /// tested now. Otherwise the result of the last test is used.
    pub async fn tool_readiness(
        &self,
        session: &Session,
        tool: &CompiledTool,
        probe: bool,
    ) -> Result<Readiness, RegistryError> {
        let mut checks = vec![life_cycle(&tool.definition), self.permission(session, tool)];
        let provider = tool.provider.as_deref().map(|provider| &provider.config);
        if let Some(reference) = tool.definition.provider_ref.as_deref() {
            checks.push(provider_enabled(reference, provider));
        }
        if let Some(config) = provider {
            for secret in self.secrets_of(session, config).await? {
                checks.push(secret_check(&secret, config));
            }
            // A caller that may not read the provider gets no information about its connection.
            if let Ok(document) = self.registry.get::<ToolProviderConfig>(session, config.ref_name.as_str(), None).await
            {
                let connection = self.connection(session, &document, probe).await?;
                checks.extend(connection_check(&document.body, &connection));
                checks.extend(accepted_definition(&tool.definition, &document.body, connection.test.as_ref()));
            }
        }
        if tool.definition.invocation.code.is_some() {
            checks.push(self.sandbox_check(tool.definition.invocation.path.as_deref().unwrap_or_default()).await);
        }
        let query = DriftQuery {
            tool: Some(tool.definition.ref_name.to_string()),
            accepted: Some(false),
            after: None,
            limit: MAX_FINDINGS,
        };
        checks.push(drift_check(&tool.definition, self.drift.list(session, &query).await?.len()));
        Ok(Readiness { checks })
    }

    /// Checks whether a provider is ready for the session.
    pub async fn provider_readiness(
        &self,
        session: &Session,
        provider: &Document<ToolProviderConfig>,
        probe: bool,
    ) -> Result<Readiness, RegistryError> {
        let config = &provider.body;
        let mut checks = vec![provider_enabled(config.ref_name.as_str(), Some(config))];
        for secret in self.secrets_of(session, config).await? {
            checks.push(secret_check(&secret, config));
        }
        let connection = self.connection(session, provider, probe).await?;
        checks.extend(connection_check(config, &connection));
        if config.provider_type == ProviderType::Mcp
            && connection.test.as_ref().is_some_and(|test| test.tools.is_some())
        {
            let tools = self.registry.list_all::<ToolDefinition>(session, Vec::new()).await?;
            let tools = tools.iter().map(|tool| &tool.body).filter(|tool| is_provided_by(tool, config));
            let results = tools.filter_map(|tool| accepted_definition(tool, config, connection.test.as_ref()));
            checks.extend(results.filter(|check| check.status != CheckStatus::Ok));
        }
        Ok(Readiness { checks })
    }

    fn permission(&self, session: &Session, tool: &CompiledTool) -> ReadinessCheck {
        match self.calls.may_execute(session, tool) {
            Ok(()) => ReadinessCheck::ok("permission", "you may execute the tool".to_owned()),
            Err(permission) => {
                let message = format!("you lack the permission `{permission}`");
                ReadinessCheck::failed("permission", message).remedy("ask an administrator for the permission")
            }
        }
    }

    async fn secrets_of(
        &self,
        session: &Session,
        provider: &ToolProviderConfig,
    ) -> Result<Vec<SecretFact>, Unavailable> {
        let mut facts: Vec<SecretFact> = Vec::new();
        for name in provider.secret_names() {
            if facts.iter().any(|known| known.name == name) {
                continue;
            }
            facts.push(SecretFact {
                scope: self.vault.scope_of(session, name).await?,
                is_login: provider.auth.is_login() && provider.auth.secret_ref.as_deref() == Some(name),
                name: name.to_owned(),
            });
        }
        Ok(facts)
    }

    async fn connection(
        &self,
        session: &Session,
        provider: &Document<ToolProviderConfig>,
        probe: bool,
    ) -> Result<ConnectionFact, RegistryError> {
        let test = match probe {
            true => self.calls.test_provider(session, provider).await?,
            false => self.calls.last_provider_test(session, provider).await?,
        };
        let name = provider.meta.ref_name.as_str();
        let (revisions, _) = self.registry.revisions(session, name, None, MAX_REVISIONS).await?;
        Ok(ConnectionFact { test, changed_at: changed_at(provider, &revisions) })
    }

    async fn sandbox_check(&self, language: &str) -> ReadinessCheck {
        let languages = self.status.languages().await;
        match languages.iter().find(|status| status.language == language) {
            Some(status) if status.reason.is_none() => {
                ReadinessCheck::ok("sandbox", format!("this server runs `{language}`"))
            }
            _ => ReadinessCheck::failed("sandbox", format!("this server does not run `{language}`"))
                .remedy("ask an administrator; `GET /api/v1/ai/server` shows the reason to administrators"),
        }
    }
}

/// Returns when the provider was last changed. A discovery of tools writes the time of the discovery into the provider.
/// This does not count as a change. `revisions` are the last revisions of the provider, newest first.
fn changed_at(provider: &Document<ToolProviderConfig>, revisions: &[Document<ToolProviderConfig>]) -> Timestamp {
    let connection = |config: &ToolProviderConfig| ToolProviderConfig { last_discovery_sync: None, ..config.clone() };
    let current = connection(&provider.body);
    let unchanged = revisions.iter().take_while(|revision| connection(&revision.body) == current);
    unchanged.last().map_or(provider.meta.updated_at, |revision| revision.meta.updated_at)
}

fn is_provided_by(tool: &ToolDefinition, provider: &ToolProviderConfig) -> bool {
    tool.provider_ref.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(provider.ref_name.as_str()))
}

fn life_cycle(tool: &ToolDefinition) -> ReadinessCheck {
    let name = format!("`{}@{}`", tool.ref_name, tool.version);
    match (tool.enabled, tool.status) {
        (false, _) => {
            ReadinessCheck::failed("lifecycle", format!("{name} is disabled")).remedy("set `enabled` to true")
        }
        (true, ToolStatus::Blocked) => ReadinessCheck::failed("lifecycle", format!("{name} is blocked"))
            .remedy("use another version, or set `status` to `active`"),
        (true, ToolStatus::Draft) => {
            ReadinessCheck::warning("lifecycle", format!("{name} is a draft, so agents cannot use it"))
                .remedy("set `status` to `active`")
        }
        (true, ToolStatus::Deprecated) => {
            ReadinessCheck::warning("lifecycle", format!("{name} is deprecated")).remedy("use another version or tool")
        }
        (true, ToolStatus::Active) => ReadinessCheck::ok("lifecycle", format!("{name} is active")),
    }
}

fn provider_enabled(reference: &str, provider: Option<&ToolProviderConfig>) -> ReadinessCheck {
    match provider {
        None => ReadinessCheck::failed("provider", format!("provider `{reference}` does not exist"))
            .remedy("create the provider, or change `providerRef`"),
        Some(config) if !config.enabled => {
            ReadinessCheck::failed("provider", format!("provider `{reference}` is disabled"))
                .remedy("set `enabled` of the provider to true")
        }
        Some(_) => ReadinessCheck::ok("provider", format!("provider `{reference}` is enabled")),
    }
}

fn secret_check(secret: &SecretFact, provider: &ToolProviderConfig) -> ReadinessCheck {
    let name = &secret.name;
    let set = |scope: &str| format!("set it with `toolwright secrets set {name} --scope {scope}`");
    let check = match secret.scope {
        None => {
            let message = format!("no secret `{name}` for you, your realm or your organization");
            let remedy = if secret.is_login {
                format!("log in with `toolwright mcp login {}`", provider.ref_name)
            } else {
                set("realm")
            };
            ReadinessCheck::failed("secret", message).remedy(remedy)
        }
        Some("org") => {
            let message =
                format!("secret `{name}` of the whole organization is used, because you and your realm have none");
            ReadinessCheck::warning("secret", message).remedy(set("realm"))
        }
        Some("user") => ReadinessCheck::ok("secret", format!("your own secret `{name}` is used")),
        Some(_) => ReadinessCheck::ok("secret", format!("secret `{name}` of the realm is used")),
    };
    ReadinessCheck { secret: Some(name.clone()), scope: secret.scope, ..check }
}

/// Checks the connection to a provider. Returns `None` if the provider needs no connection.
fn connection_check(provider: &ToolProviderConfig, connection: &ConnectionFact) -> Option<ReadinessCheck> {
    if provider.provider_type == ProviderType::QuantumInternal {
        return None;
    }
    let name = &provider.ref_name;
    let test_it = || format!("test it with `toolwright providers test {name}`, or with `?probe=true`");
    Some(match &connection.test {
        None => {
            ReadinessCheck::warning("connection", format!("provider `{name}` has not been tested")).remedy(test_it())
        }
        Some(test) if test.at < connection.changed_at => {
            let message = format!("provider `{name}` has changed since its last test at {}", test.at);
            ReadinessCheck::warning("connection", message).remedy(test_it())
        }
        Some(ProviderTest { error: None, at, .. }) => {
            ReadinessCheck::ok("connection", format!("provider `{name}` answered at {at}"))
        }
        Some(ProviderTest { error: Some(error), at, .. }) => {
            let message = format!("the test of provider `{name}` at {at} failed: {}", error.message);
            ReadinessCheck::failed("connection", message).remedy(test_it())
        }
    })
}

/// Checks that an imported MCP tool still has the definition that was accepted. Returns `None` if the tool has no
/// accepted definition.
fn accepted_definition(
    tool: &ToolDefinition,
    provider: &ToolProviderConfig,
    test: Option<&ProviderTest>,
) -> Option<ReadinessCheck> {
    let accepted = tool.invocation.fingerprint.as_deref()?;
    let name = tool.invocation.path.as_deref().unwrap_or_else(|| tool.ref_name.as_str());
    let accept = format!("review the change, then POST /api/v1/ai/tool-providers/{}/accept", provider.ref_name);
    Some(match test.and_then(|test| test.tools.as_ref()).map(|tools| tools.get(name)) {
        None => {
            let message = format!("the definition of `{}` has not been compared with the server", tool.ref_name);
            ReadinessCheck::warning("quarantine", message).remedy("use `?probe=true` to compare it")
        }
        Some(None) => {
            let message = format!("the server no longer lists `{name}`, which `{}` calls", tool.ref_name);
            ReadinessCheck::failed("quarantine", message).remedy("delete the tool, or restore it on the server")
        }
        Some(Some(current)) if current != accepted => {
            let message = format!("the server's definition of `{}` has changed since it was accepted", tool.ref_name);
            ReadinessCheck::failed("quarantine", message).remedy(accept)
        }
        Some(Some(_)) => {
            ReadinessCheck::ok("quarantine", format!("the definition of `{}` is the accepted one", tool.ref_name))
        }
    })
}

fn drift_check(tool: &ToolDefinition, open: usize) -> ReadinessCheck {
    match open {
        0 => ReadinessCheck::ok("drift", "no open drift findings".to_owned()),
        _ => {
            let limit = usize::try_from(MAX_FINDINGS).unwrap_or(usize::MAX);
            let count = if open < limit { open.to_string() } else { format!("at least {open}") };
            let message = format!("{count} open drift findings: the outputs or the API differ from the definition");
            ReadinessCheck::warning("drift", message)
                .remedy(format!("see `toolwright drift list --tool {} --status open`", tool.ref_name))
        }
    }
}

impl ReadinessCheck {
    fn new(check: &'static str, status: CheckStatus, message: String) -> Self {
        Self { check, status, message, remedy: None, secret: None, scope: None }
    }

    fn ok(check: &'static str, message: String) -> Self {
        Self::new(check, CheckStatus::Ok, message)
    }

    fn warning(check: &'static str, message: String) -> Self {
        Self::new(check, CheckStatus::Warning, message)
    }

    fn failed(check: &'static str, message: String) -> Self {
        Self::new(check, CheckStatus::Failed, message)
    }

    fn remedy(self, remedy: impl Into<String>) -> Self {
        Self { remedy: Some(remedy.into()), ..self }
    }
}
