//! May this principal do this to that? Cedar decides; this crate speaks its language so that no other has to.
//!
//! A permission is written as a security URI, `ai://tools/{category}/{name}/execute`. Category and realm are parents
//! of the resource, so a grant on `*` is membership, not text matching.

mod uri;

use std::collections::{HashMap, HashSet};

use cedar_policy::{
    Authorizer, Context, Decision as Verdict, Entities, Entity, EntityId, EntityTypeName, EntityUid, Policy, PolicyId,
    PolicySet, Request, RestrictedExpression,
};
use toolwright_types::{Principal, PrincipalId, RealmScope};

pub use uri::{InvalidUri, SecurityUri};

const DEFAULT_POLICIES: &str = include_str!("default.cedar");

/// What a principal wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Run it.
    Execute,
    /// See it.
    Read,
    /// Change it.
    Write,
    /// Act in its name.
    ActAs,
}

impl Action {
    /// The action as it ends a security URI.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Execute => "execute",
            Action::Read => "read",
            Action::Write => "write",
            Action::ActAs => "actAs",
        }
    }
}

/// What it wants to do that to.
#[derive(Debug, Clone, Copy)]
pub enum Resource<'a> {
    /// A tool, by category and name.
    Tool { category: Option<&'a str>, name: &'a str },
    /// A tool provider.
    Provider { name: &'a str },
    /// An agent.
    Agent { name: &'a str },
    /// A prompt fragment.
    Fragment { name: &'a str },
    /// A type of records, and its records.
    Type { name: &'a str },
    /// What someone said to an agent.
    Conversation { owner: PrincipalId },
    /// What someone had done.
    Run { owner: PrincipalId },
    /// Someone in whose name an agent may act.
    Principal { name: &'a str },
    /// A secret; `owner` when it is someone's own.
    Secret { name: &'a str, owner: Option<PrincipalId> },
    /// The realm itself: whether it may be entered.
    Realm,
    /// The API keys of the org.
    Keys,
    /// The realms of the org.
    Realms,
    /// Commands that the server runs on its own machine.
    Commands,
}

/// The outcome of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Allowed, by these policies.
    Allow(Vec<String>),
    /// Denied: by these policies, or because none allowed it.
    Deny(Vec<String>),
}

/// Policies that do not compile.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The text is no policy.
    #[error("the policies cannot be read")]
    Syntax(#[source] Box<cedar_policy::ParseErrors>),
    /// Two policies share an id.
    #[error("the policies cannot be combined")]
    Conflict(#[source] Box<cedar_policy::PolicySetError>),
    /// A name that Cedar cannot hold.
    #[error("`{0}` cannot be an entity type")]
    TypeName(String),
}

/// Decides by the policies it holds. Immutable; a change of policies makes a new one.
pub struct Policies {
    authorizer: Authorizer,
    policies: PolicySet,
    types: Types,
    actions: HashMap<Action, EntityUid>,
}

struct Types {
    user: EntityTypeName,
    role: EntityTypeName,
    org: EntityTypeName,
    realm: EntityTypeName,
    category: EntityTypeName,
    tool: EntityTypeName,
    provider: EntityTypeName,
    agent: EntityTypeName,
    fragment: EntityTypeName,
    entity: EntityTypeName,
    conversation: EntityTypeName,
    run: EntityTypeName,
    account: EntityTypeName,
    secret: EntityTypeName,
    collection: EntityTypeName,
}

impl Policies {
    /// The built-in policies.
    pub fn defaults() -> Result<Self, PolicyError> {
        Self::with("")
    }

    /// The built-in policies and more of them, in Cedar. What one of them forbids is forbidden.
    pub fn with(more: &str) -> Result<Self, PolicyError> {
        let text = format!("{DEFAULT_POLICIES}\n{more}");
        let name = |text: &str| text.parse::<EntityTypeName>().map_err(|_| PolicyError::TypeName(text.to_owned()));
        let action_type = name("Action")?;
        let actions = [Action::Execute, Action::Read, Action::Write, Action::ActAs].map(|action| {
            (action, EntityUid::from_type_name_and_id(action_type.clone(), EntityId::new(action.as_str())))
        });
        Ok(Self {
            authorizer: Authorizer::new(),
            policies: named(text.parse().map_err(|error| PolicyError::Syntax(Box::new(error)))?)?,
            types: Types {
                user: name("User")?,
                role: name("Role")?,
                org: name("Org")?,
                realm: name("Realm")?,
                category: name("Category")?,
                tool: name("Tool")?,
                provider: name("Provider")?,
                agent: name("Agent")?,
                fragment: name("Fragment")?,
                entity: name("EntityType")?,
                conversation: name("Conversation")?,
                run: name("Run")?,
                account: name("Account")?,
                secret: name("Secret")?,
                collection: name("Collection")?,
            },
            actions: HashMap::from(actions),
        })
    }

    /// Whether `principal` may do `action` to `resource` in `realm`.
    pub fn decide(
        &self,
        principal: &Principal,
        realm: &RealmScope,
        action: Action,
        resource: Resource<'_>,
    ) -> Decision {
        let Some(request) = self.question(principal, realm, action, resource) else {
            return Decision::Deny(Vec::new());
        };
        let (request, entities) = request;
        let response = self.authorizer.is_authorized(&request, &self.policies, &entities);
        let reasons: Vec<String> = response.diagnostics().reason().map(ToString::to_string).collect();
        match response.decision() {
            Verdict::Allow => Decision::Allow(reasons),
            Verdict::Deny => Decision::Deny(reasons),
        }
    }

    fn question(
        &self,
        principal: &Principal,
        realm: &RealmScope,
        action: Action,
        resource: Resource<'_>,
    ) -> Option<(Request, Entities)> {
        let types = &self.types;
        let org = uid(&types.org, principal.org);
        let owner_org = uid(&types.org, realm.org);
        let realm_uid = uid(&types.realm, realm.realm);
        let home = uid(&types.realm, principal.home);
        let user = uid(&types.user, principal.id);
        let roles: HashSet<EntityUid> = principal.roles.iter().map(|role| uid(&types.role, role.as_str())).collect();
        let attributes = HashMap::from([
            ("org".to_owned(), RestrictedExpression::new_entity_uid(org)),
            ("home".to_owned(), RestrictedExpression::new_entity_uid(home)),
            ("name".to_owned(), RestrictedExpression::new_string(principal.name.to_string())),
        ]);
        let mut entities = vec![
            Entity::new(user.clone(), attributes, roles).ok()?,
            Entity::new_no_attrs(realm_uid.clone(), HashSet::from([owner_org.clone()])),
        ];
        let target = self.target(realm, &realm_uid, &owner_org, resource, &mut entities)?;
        let request = Request::new(user, self.actions.get(&action)?.clone(), target, Context::empty(), None).ok()?;
        Some((request, Entities::from_entities(entities, None).ok()?))
    }

    /// Adds the resource and its parents to `entities`.
    fn target(
        &self,
        realm: &RealmScope,
        realm_uid: &EntityUid,
        org: &EntityUid,
        resource: Resource<'_>,
        entities: &mut Vec<Entity>,
    ) -> Option<EntityUid> {
        let types = &self.types;
        let in_realm = HashSet::from([realm_uid.clone()]);
        let named = |kind: &EntityTypeName, name: &str| uid(kind, format_args!("{}/{name}", realm.realm));
        let called =
            |name: &str| HashMap::from([("name".to_owned(), RestrictedExpression::new_string(name.to_owned()))]);
        let owned =
            |owner: PrincipalId| ("owner".to_owned(), RestrictedExpression::new_entity_uid(uid(&types.user, owner)));
        let (target, parents, attributes) = match resource {
            // The realm and its org are known already.
            Resource::Realm => return Some(realm_uid.clone()),
            Resource::Tool { category, name } => {
                let category = category.unwrap_or(uri::NO_CATEGORY);
                let group = uid(&types.category, format_args!("{}/{category}", realm.realm));
                entities.push(Entity::new_no_attrs(group.clone(), in_realm));
                (named(&types.tool, name), HashSet::from([group]), called(name))
            }
            Resource::Provider { name } => (named(&types.provider, name), in_realm, called(name)),
            Resource::Agent { name } => (named(&types.agent, name), in_realm, called(name)),
            Resource::Fragment { name } => (named(&types.fragment, name), in_realm, called(name)),
            Resource::Type { name } => (named(&types.entity, name), in_realm, called(name)),
            // Rules speak of whose it is, so one of a kind stands for all of that owner's.
            Resource::Conversation { owner } => {
                (named(&types.conversation, &owner.to_string()), in_realm, HashMap::from([owned(owner)]))
            }
            Resource::Run { owner } => (named(&types.run, &owner.to_string()), in_realm, HashMap::from([owned(owner)])),
            Resource::Principal { name } => (uid(&types.account, name), HashSet::from([org.clone()]), HashMap::new()),
            Resource::Secret { name, owner } => {
                (named(&types.secret, name), in_realm, owner.map(owned).into_iter().collect())
            }
            Resource::Keys => (uid(&types.collection, "keys"), HashSet::from([org.clone()]), HashMap::new()),
            Resource::Realms => (uid(&types.collection, "realms"), HashSet::from([org.clone()]), HashMap::new()),
            Resource::Commands => (uid(&types.collection, "commands"), HashSet::from([org.clone()]), HashMap::new()),
        };
        entities.push(Entity::new(target.clone(), attributes, parents).ok()?);
        Some(target)
    }
}

fn uid(kind: &EntityTypeName, id: impl std::fmt::Display) -> EntityUid {
    EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id.to_string()))
}

/// The same policies under the ids their authors gave them, because those appear in receipts and denials.
fn named(parsed: PolicySet) -> Result<PolicySet, PolicyError> {
    let named = parsed.policies().map(|policy| match policy.annotation("id") {
        Some(id) => policy.new_id(PolicyId::new(id)),
        None => policy.clone(),
    });
    PolicySet::from_policies(named.collect::<Vec<Policy>>()).map_err(|error| PolicyError::Conflict(Box::new(error)))
}
