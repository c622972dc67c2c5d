//! Sessions and permissions: decides what a principal may do in a realm.

use std::sync::Arc;

use quick_cache::Equivalent;
use quick_cache::sync::Cache;
use toolwright_authz::{AccessDecision, Action, Authorizer, PolicyError, Resource, SecurityUri};
use toolwright_tools::CompiledTool;
use toolwright_tools::ports;
use toolwright_types::{CorrelationId, Principal, PrincipalId, RealmId, RealmScope, Role, ToolType};

/// The maximum number of decisions in the cache.
const DECISION_CACHE_SIZE: usize = 50_000;

/// An authenticated principal and the realm that it acts in.
#[derive(Debug, Clone)]
pub struct Session {
    /// The principal.
    pub principal: Arc<Principal>,
    /// The realm that the principal acts in.
    pub realm: Arc<RealmScope>,
    /// The number of Toolwright servers that the request has passed through before this one. A limit on this number
    /// stops tools that call themselves over MCP.
    pub hops: u8,
    /// The correlation id of the request. `None` if no request caused the session.
    pub correlation: Option<CorrelationId>,
}

impl Session {
    /// Creates the session of a request that comes directly from a client.
    pub fn new(principal: Arc<Principal>, realm: Arc<RealmScope>) -> Self {
        Self { principal, realm, hops: 0, correlation: None }
    }
}

/// The error for a permission that the principal lacks.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`{principal}` may not {action} {resource} in realm `{realm}`: {reason}")]
pub struct Denied {
    principal: String,
    action: &'static str,
    resource: String,
    realm: String,
    reason: String,
}

/// Decides what principals may do. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    policies: Arc<Authorizer>,
    /// The cached decisions. They never become stale: the policies do not change while the server runs, and the key
    /// contains everything else that a decision depends on, such as the roles and the home realm of the principal.
    decisions: Arc<Cache<OwnedRequest, Arc<AccessDecision>>>,
}

/// The cache key of an authorization request. Lookups use a key with borrowed strings.
#[derive(PartialEq, Eq, Hash)]
struct AuthorizationRequest<R, S> {
    principal: PrincipalId,
    roles: R,
    home: RealmId,
    realm: RealmId,
    action: Action,
    target: CachedResource<S>,
}

type OwnedRequest = AuthorizationRequest<Vec<Role>, String>;

impl Equivalent<OwnedRequest> for AuthorizationRequest<&[Role], &str> {
    fn equivalent(&self, key: &OwnedRequest) -> bool {
        let AuthorizationRequest { principal, ref roles, home, realm, action, ref target } = *key;
        *self
            == AuthorizationRequest {
                principal,
                roles: roles.as_slice(),
                home,
                realm,
                action,
                target: target.map(String::as_str),
            }
    }
}

/// A resource whose decisions are cached because requests for it are frequent.
#[derive(PartialEq, Eq, Hash)]
enum CachedResource<S> {
    /// A tool by category and name.
    Tool(Option<S>, S),
    Provider(S),
    Agent(S),
    Fragment(S),
    Type(S),
    Workflow(S),
    StepRegistration(S),
    ConditionBinding(S),
    Trigger(S),
    Webhook(S),
    Realm,
    Run(PrincipalId),
    Conversation(PrincipalId),
}

impl<'a> CachedResource<&'a str> {
    fn of(resource: Resource<'a>) -> Option<Self> {
        match resource {
            Resource::Tool { category, name } => Some(CachedResource::Tool(category, name)),
            Resource::Provider { name } => Some(CachedResource::Provider(name)),
            Resource::Agent { name } => Some(CachedResource::Agent(name)),
            Resource::Fragment { name } => Some(CachedResource::Fragment(name)),
            Resource::Type { name } => Some(CachedResource::Type(name)),
            Resource::Workflow { name } => Some(CachedResource::Workflow(name)),
            Resource::StepRegistration { name } => Some(CachedResource::StepRegistration(name)),
            Resource::ConditionBinding { name } => Some(CachedResource::ConditionBinding(name)),
            Resource::Trigger { name } => Some(CachedResource::Trigger(name)),
            Resource::Webhook { name } => Some(CachedResource::Webhook(name)),
            Resource::Run { owner } => Some(CachedResource::Run(owner)),
            Resource::Conversation { owner } => Some(CachedResource::Conversation(owner)),
            Resource::Realm => Some(CachedResource::Realm),
            _ => None,
        }
    }
}

impl<S> CachedResource<S> {
    /// Converts the strings of the resource, from owned to borrowed or from borrowed to owned.
    fn map<'a, T>(&'a self, text: impl Fn(&'a S) -> T) -> CachedResource<T> {
        match self {
            CachedResource::Tool(category, name) => CachedResource::Tool(category.as_ref().map(&text), text(name)),
            CachedResource::Provider(name) => CachedResource::Provider(text(name)),
            CachedResource::Agent(name) => CachedResource::Agent(text(name)),
            CachedResource::Fragment(name) => CachedResource::Fragment(text(name)),
            CachedResource::Type(name) => CachedResource::Type(text(name)),
            CachedResource::Workflow(name) => CachedResource::Workflow(text(name)),
            CachedResource::StepRegistration(name) => CachedResource::StepRegistration(text(name)),
            CachedResource::ConditionBinding(name) => CachedResource::ConditionBinding(text(name)),
            CachedResource::Trigger(name) => CachedResource::Trigger(text(name)),
            CachedResource::Webhook(name) => CachedResource::Webhook(text(name)),
            CachedResource::Run(owner) => CachedResource::Run(*owner),
            CachedResource::Conversation(owner) => CachedResource::Conversation(*owner),
            CachedResource::Realm => CachedResource::Realm,
        }
    }
}

impl Access {
    /// Loads the built-in policies and additional policies in Cedar syntax.
    pub fn with_policies(additional: &str) -> Result<Self, PolicyError> {
        Ok(Self {
            policies: Arc::new(Authorizer::with_policies(additional)?),
            decisions: Arc::new(Cache::new(DECISION_CACHE_SIZE)),
        })
    }

    /// Whether `session` may perform `action` on `resource`.
    pub fn allows(&self, session: &Session, action: Action, resource: Resource<'_>) -> bool {
        matches!(*self.decide(&session.principal, &session.realm, action, resource), AccessDecision::Allow(_))
    }

    /// Checks that `session` may perform `action` on `resource`.
    pub fn require(&self, session: &Session, action: Action, resource: Resource<'_>) -> Result<(), Denied> {
        match &*self.decide(&session.principal, &session.realm, action, resource) {
            AccessDecision::Allow(_) => Ok(()),
            AccessDecision::Deny(policies) => Err(Denied {
                principal: session.principal.name.to_string(),
                action: action.as_str(),
                resource: describe(resource),
                realm: session.realm.name.to_string(),
                reason: denial_reason(policies),
            }),
        }
    }
}

impl ports::Authorizer for Access {
    fn may_execute(
        &self,
        principal: &Principal,
        realm: &RealmScope,
        tool: &CompiledTool,
    ) -> Result<ports::Permit, ports::Denial> {
        let definition = &tool.definition;
        let (category, name) = (definition.category.as_deref(), definition.ref_name.as_str());
        // An agent that is called as a tool is authorized as an agent.
        let resource = match definition.tool_type {
            ToolType::Agent => Resource::Agent { name },
            _ => Resource::Tool { category, name },
        };
        let policy = self.authorize_execution(principal, realm, resource)?;
        // The security URI of a definition requires a second permission, in addition to the permission for the tool.
        if let Some(text) = definition.security_uri.as_deref() {
            let uri: Option<SecurityUri> = text.parse().ok();
            let target = uri.as_ref().and_then(execution_target);
            let invalid = || ports::Denial { permission: text.to_owned(), policies: Vec::new() };
            self.authorize_execution(principal, realm, target.ok_or_else(invalid)?)?;
        }
        Ok(ports::Permit { policy })
    }
}

impl Access {
    fn decide(
        &self,
        principal: &Principal,
        realm: &RealmScope,
        action: Action,
        resource: Resource<'_>,
    ) -> Arc<AccessDecision> {
        let decide = || Arc::new(self.policies.authorize(principal, realm, action, resource));
        let Some(target) = CachedResource::of(resource) else { return decide() };
        let Principal { id: principal, ref roles, home, .. } = *principal;
        let request =
            AuthorizationRequest { principal, roles: roles.as_slice(), home, realm: realm.realm, action, target };
        if let Some(decision) = self.decisions.get(&request) {
            return decision;
        }
        let (decision, target) = (decide(), request.target.map(|text| (*text).to_owned()));
        let request =
            AuthorizationRequest { principal, roles: roles.clone(), home, realm: realm.realm, action, target };
        self.decisions.insert(request, Arc::clone(&decision));
        decision
    }

    fn authorize_execution(
        &self,
        principal: &Principal,
        realm: &RealmScope,
        resource: Resource<'_>,
    ) -> Result<String, ports::Denial> {
        match &*self.decide(principal, realm, Action::Execute, resource) {
            AccessDecision::Allow(policies) => Ok(policies.join(",")),
            AccessDecision::Deny(policies) => {
                Err(ports::Denial { permission: permission(resource), policies: policies.clone() })
            }
        }
    }
}

/// Returns the tool, agent or workflow that a security URI names; `None` if the URI does not grant the permission to execute.
pub fn execution_target(uri: &SecurityUri) -> Option<Resource<'_>> {
    let tool = uri.as_tool_execution().map(|(category, name)| Resource::Tool { category: Some(category), name });
    let agent = || uri.as_agent_execution().map(|name| Resource::Agent { name });
    tool.or_else(agent).or_else(|| uri.as_workflow_execution().map(|name| Resource::Workflow { name }))
}

fn permission(resource: Resource<'_>) -> String {
    match resource {
        Resource::Agent { name } => SecurityUri::agent(name, Action::Execute).to_string(),
        Resource::Workflow { name } => SecurityUri::workflow(name, Action::Execute).to_string(),
        Resource::Tool { category, name } => SecurityUri::tool(category, name, Action::Execute).to_string(),
        other => describe(other),
    }
}

fn denial_reason(policies: &[String]) -> String {
    if policies.is_empty() { "no policy allows it".to_owned() } else { format!("forbidden by {}", policies.join(", ")) }
}

fn describe(resource: Resource<'_>) -> String {
    match resource {
        Resource::Tool { name, .. } => format!("tool `{name}`"),
        Resource::Provider { name } => format!("provider `{name}`"),
        Resource::Agent { name } => format!("agent `{name}`"),
        Resource::Fragment { name } => format!("prompt fragment `{name}`"),
        Resource::Type { name } => format!("type `{name}` and its records"),
        Resource::Workflow { name } => format!("workflow `{name}`"),
        Resource::StepRegistration { name } => format!("step registration `{name}`"),
        Resource::ConditionBinding { name } => format!("condition binding `{name}`"),
        Resource::Trigger { name } => format!("trigger `{name}`"),
        Resource::Webhook { name } => format!("webhook `{name}`"),
        Resource::Conversation { .. } => "conversations of others".to_owned(),
        Resource::Run { .. } => "runs of others".to_owned(),
        Resource::Principal { name } => format!("principal `{name}`"),
        Resource::Secret { name, .. } => format!("secret `{name}`"),
        Resource::Realm => "anything".to_owned(),
        Resource::Keys => "API keys".to_owned(),
        Resource::Realms => "realms".to_owned(),
        Resource::Commands => "commands that the server runs".to_owned(),
    }
}
