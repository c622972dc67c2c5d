//! Who acts in which realm, and what they may do there.

use std::sync::Arc;

use quick_cache::Equivalent;
use quick_cache::sync::Cache;
use toolwright_authz::{Action, Decision, Policies, PolicyError, Resource, SecurityUri};
use toolwright_tools::CompiledTool;
use toolwright_tools::ports;
use toolwright_types::{Principal, PrincipalId, RealmId, RealmScope, Role, ToolType};

/// How many decisions are remembered.
const MOST_TAKEN: usize = 50_000;

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
    taken: Arc<Cache<KeptQuestion, Arc<Decision>>>,
}

/// What is asked: borrowed, or kept with its answer.
#[derive(PartialEq, Eq, Hash)]
struct Question<R, S> {
    principal: PrincipalId,
    roles: R,
    home: RealmId,
    realm: RealmId,
    action: Action,
    target: Target<S>,
}

type KeptQuestion = Question<Vec<Role>, String>;

impl Equivalent<KeptQuestion> for Question<&[Role], &str> {
    fn equivalent(&self, kept: &KeptQuestion) -> bool {
        let Question { principal, ref roles, home, realm, action, ref target } = *kept;
        *self
            == Question { principal, roles: roles.as_slice(), home, realm, action, target: target.map(String::as_str) }
    }
}

/// What is asked about often enough to remember.
#[derive(PartialEq, Eq, Hash)]
enum Target<S> {
    /// By category and name.
    Tool(Option<S>, S),
    Agent(S),
    Type(S),
    Run(PrincipalId),
    Conversation(PrincipalId),
}

impl<'a> Target<&'a str> {
    fn of(resource: Resource<'a>) -> Option<Self> {
        match resource {
            Resource::Tool { category, name } => Some(Target::Tool(category, name)),
            Resource::Agent { name } => Some(Target::Agent(name)),
            Resource::Type { name } => Some(Target::Type(name)),
            Resource::Run { owner } => Some(Target::Run(owner)),
            Resource::Conversation { owner } => Some(Target::Conversation(owner)),
            _ => None,
        }
    }
}

impl<S> Target<S> {
    /// The same with other texts.
    fn map<'a, T>(&'a self, text: impl Fn(&'a S) -> T) -> Target<T> {
        match self {
            Target::Tool(category, name) => Target::Tool(category.as_ref().map(&text), text(name)),
            Target::Agent(name) => Target::Agent(text(name)),
            Target::Type(name) => Target::Type(text(name)),
            Target::Run(owner) => Target::Run(*owner),
            Target::Conversation(owner) => Target::Conversation(*owner),
        }
    }
}

impl Access {
    /// The built-in policies and more of them, in Cedar.
    pub fn with(more: &str) -> Result<Self, PolicyError> {
        Ok(Self { policies: Arc::new(Policies::with(more)?), taken: Arc::new(Cache::new(MOST_TAKEN)) })
    }

    /// Lets `session` do `action` to `resource`, or says why not.
    pub fn require(&self, session: &Session, action: Action, resource: Resource<'_>) -> Result<(), Denied> {
        match &*self.decide(&session.principal, &session.realm, action, resource) {
            Decision::Allow(_) => Ok(()),
            Decision::Deny(policies) => Err(Denied {
                who: session.principal.name.to_string(),
                action: action.as_str(),
                what: describe(resource),
                realm: session.realm.name.to_string(),
                because: because(policies),
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
    fn decide(
        &self,
        principal: &Principal,
        realm: &RealmScope,
        action: Action,
        resource: Resource<'_>,
    ) -> Arc<Decision> {
        let decide = || Arc::new(self.policies.decide(principal, realm, action, resource));
        let Some(target) = Target::of(resource) else { return decide() };
        let Principal { id: principal, ref roles, home, .. } = *principal;
        let question = Question { principal, roles: roles.as_slice(), home, realm: realm.realm, action, target };
        if let Some(taken) = self.taken.get(&question) {
            return taken;
        }
        let (taken, target) = (decide(), question.target.map(|text| (*text).to_owned()));
        let question = Question { principal, roles: roles.clone(), home, realm: realm.realm, action, target };
        self.taken.insert(question, Arc::clone(&taken));
        taken
    }

    fn execution(
        &self,
        principal: &Principal,
        realm: &RealmScope,
        resource: Resource<'_>,
    ) -> Result<String, ports::Denied> {
        match &*self.decide(principal, realm, Action::Execute, resource) {
            Decision::Allow(policies) => Ok(policies.join(",")),
            Decision::Deny(policies) => {
                Err(ports::Denied { permission: permission(resource), policies: policies.clone() })
            }
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
