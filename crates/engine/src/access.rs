//! Who acts in which realm, and what they may do there.

use std::sync::Arc;

use toolwright_authz::{Action, Decision, Policies, PolicyError, Resource, SecurityUri};
use toolwright_tools::CompiledTool;
use toolwright_tools::ports;
use toolwright_types::{Principal, PrincipalId, RealmId, RealmScope, Role, ToolType};

/// An authenticated principal in the realm it acts in.
#[derive(Debug, Clone)]
pub struct Session {
    /// Who.
    pub principal: Arc<Principal>,
    /// Where.
    pub realm: Arc<RealmScope>,
}

/// A permission that was not granted.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`{who}` may not {action} {what} in realm `{realm}`: {because}")]
pub struct Denied {
    who: String,
    action: &'static str,
    what: String,
    realm: String,
    because: String,
}

/// Decides what principals may do. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    policies: Arc<Policies>,
    /// A decision is a function of the policies and the question, so it need not be taken twice. The policies never
    /// change; a change of a principal's roles or home is another question.
    taken: moka::sync::Cache<Question, Decision>,
}

#[derive(PartialEq, Eq, Hash)]
struct Question {
    principal: PrincipalId,
    roles: Vec<Role>,
    home: RealmId,
    realm: RealmId,
    action: Action,
    target: Target,
}

/// What is asked about often enough to remember.
#[derive(PartialEq, Eq, Hash)]
enum Target {
    /// By category and name.
    Tool(Option<String>, String),
    Agent(String),
    Type(String),
    Run(PrincipalId),
    Conversation(PrincipalId),
}

impl Target {
    fn of(resource: Resource<'_>) -> Option<Self> {
        match resource {
            Resource::Tool { category, name } => Some(Target::Tool(category.map(str::to_owned), name.to_owned())),
            Resource::Agent { name } => Some(Target::Agent(name.to_owned())),
            Resource::Type { name } => Some(Target::Type(name.to_owned())),
            Resource::Run { owner } => Some(Target::Run(owner)),
            Resource::Conversation { owner } => Some(Target::Conversation(owner)),
            _ => None,
        }
    }
}

impl Access {
    /// The built-in policies and more of them, in Cedar.
    pub fn with(more: &str) -> Result<Self, PolicyError> {
        let taken = moka::sync::Cache::builder().max_capacity(50_000).build();
        Ok(Self { policies: Arc::new(Policies::with(more)?), taken })
    }

    /// Lets `session` do `action` to `resource`, or says why not.
    pub fn require(&self, session: &Session, action: Action, resource: Resource<'_>) -> Result<(), Denied> {
        match self.decide(&session.principal, &session.realm, action, resource) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(policies) => Err(Denied {
                who: session.principal.name.to_string(),
                action: action.as_str(),
                what: describe(resource),
                realm: session.realm.name.to_string(),
                because: because(&policies),
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
    ) -> Result<ports::Allowed, ports::Denied> {
        let definition = &tool.definition;
        let (category, name) = (definition.category.as_deref(), definition.ref_name.as_str());
        // An agent that is called like a tool is still an agent.
        let resource = match definition.tool_type {
            ToolType::Agent => Resource::Agent { name },
            _ => Resource::Tool { category, name },
        };
        let policy = self.execution(principal, realm, resource)?;
        // A definition's own URI is a second permission, never a replacement of the first.
        if let Some(own) = definition.security_uri.as_deref() {
            let uri: Option<SecurityUri> = own.parse().ok();
            let named = uri.as_ref().and_then(execution_target);
            let unusable = || ports::Denied { permission: own.to_owned(), policies: Vec::new() };
            self.execution(principal, realm, named.ok_or_else(unusable)?)?;
        }
        Ok(ports::Allowed { policy })
    }
}

impl Access {
    fn decide(&self, principal: &Principal, realm: &RealmScope, action: Action, resource: Resource<'_>) -> Decision {
        let decide = || self.policies.decide(principal, realm, action, resource);
        let Some(target) = Target::of(resource) else { return decide() };
        let question = Question {
            principal: principal.id,
            roles: principal.roles.clone(),
            home: principal.home,
            realm: realm.realm,
            action,
            target,
        };
        self.taken.get_with(question, decide)
    }

    fn execution(
        &self,
        principal: &Principal,
        realm: &RealmScope,
        resource: Resource<'_>,
    ) -> Result<String, ports::Denied> {
        match self.decide(principal, realm, Action::Execute, resource) {
            Decision::Allow(policies) => Ok(policies.join(",")),
            Decision::Deny(policies) => Err(ports::Denied { permission: permission(resource), policies }),
        }
    }
}

/// What a URI permits to execute, if it names a tool or an agent.
pub(crate) fn execution_target(uri: &SecurityUri) -> Option<Resource<'_>> {
    let tool = uri.as_tool_execution().map(|(category, name)| Resource::Tool { category: Some(category), name });
    tool.or_else(|| uri.as_agent_execution().map(|name| Resource::Agent { name }))
}

fn permission(resource: Resource<'_>) -> String {
    match resource {
        Resource::Agent { name } => SecurityUri::agent(name, Action::Execute).to_string(),
        Resource::Tool { category, name } => SecurityUri::tool(category, name, Action::Execute).to_string(),
        other => describe(other),
    }
}

fn because(policies: &[String]) -> String {
    if policies.is_empty() { "no policy allows it".to_owned() } else { format!("forbidden by {}", policies.join(", ")) }
}

fn describe(resource: Resource<'_>) -> String {
    match resource {
        Resource::Tool { name, .. } => format!("tool `{name}`"),
        Resource::Provider { name } => format!("provider `{name}`"),
        Resource::Agent { name } => format!("agent `{name}`"),
        Resource::Fragment { name } => format!("prompt fragment `{name}`"),
        Resource::Type { name } => format!("type `{name}` and its records"),
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
