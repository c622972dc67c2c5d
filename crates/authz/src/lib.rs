//! Authorization: whether a principal may perform an action on a resource. Cedar policies decide.
//! No other crate depends on Cedar.
//!
//! A permission is written as a security URI, such as `ai://tools/{category}/{name}/execute`. In Cedar, the category
//! and the realm are parents of the resource entity. A policy for all tools of a category therefore tests the entity
//! hierarchy and does not compare strings.

mod uri;

use std::collections::{HashMap, HashSet};

use cedar_policy::{
    Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Policy, PolicyId, PolicySet, Request,
    RestrictedExpression,
};
use toolwright_types::{Principal, PrincipalId, RealmScope};

pub use uri::{InvalidUri, SecurityUri};

const DEFAULT_POLICIES: &str = include_str!("default.cedar");

/// An action on a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Run the resource.
    Execute,
    /// Read the resource.
    Read,
    /// Change the resource.
    Write,
    /// Use the permissions of the service account that is the resource.
    ActAs,
}

impl Action {
    /// The action as the last segment of a security URI.
    pub fn as_str(self) -> &'static str {
        match self {
            Action::Execute => "execute",
            Action::Read => "read",
            Action::Write => "write",
            Action::ActAs => "actAs",
        }
    }
}

/// The target of an action.
#[derive(Debug, Clone, Copy)]
pub enum Resource<'a> {
    /// A tool, identified by category and name.
    Tool {
        /// The category of the tool, if it has one.
        category: Option<&'a str>,
        /// The reference name of the tool.
        name: &'a str,
    },
    /// A tool provider.
    Provider {
        /// The reference name of the provider.
        name: &'a str,
    },
    /// An agent.
    Agent {
        /// The reference name of the agent.
        name: &'a str,
    },
    /// A prompt fragment.
    Fragment {
        /// The reference name of the fragment.
        name: &'a str,
    },
    /// An entity type and its records.
    Type {
        /// The reference name of the entity type.
        name: &'a str,
    },
    /// A workflow.
    Workflow {
        /// The reference name of the workflow.
        name: &'a str,
    },
    /// A step registration.
    StepRegistration {
        /// The reference name of the registration.
        name: &'a str,
    },
    /// A condition binding.
    ConditionBinding {
        /// The reference name of the condition.
        name: &'a str,
    },
    /// A trigger.
    Trigger {
        /// The reference name of the trigger.
        name: &'a str,
    },
    /// A webhook that reports events.
    Webhook {
        /// The reference name of the webhook.
        name: &'a str,
    },
    /// All conversations of one principal with agents.
    Conversation {
        /// The principal who owns the conversations.
        owner: PrincipalId,
    },
    /// All runs of one principal.
    Run {
        /// The principal who owns the runs.
        owner: PrincipalId,
    },
    /// A service account whose permissions an agent uses.
    Principal {
        /// The name of the service account.
        name: &'a str,
    },
    /// A secret of a realm or of one principal.
    Secret {
        /// The name of the secret.
        name: &'a str,
        /// The principal who owns the secret; `None` for a secret that the realm shares.
        owner: Option<PrincipalId>,
    },
    /// The realm itself. The permission decides whether the principal may act in the realm at all.
    Realm,
    /// The API keys of the org.
    Keys,
    /// The realms of the org.
    Realms,
    /// Commands that the server runs on its host.
    Commands,
}

/// The outcome of an authorization request, with the ids of the policies that determined it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessDecision {
    /// Allowed by these policies.
    Allow(Vec<String>),
    /// Denied by these policies, which forbid the action. The list is empty if the action is denied only because no
    /// policy permits it.
    Deny(Vec<String>),
}

/// The reason why policies cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The text does not parse as Cedar.
    #[error("parse Cedar policies")]
    Syntax(#[source] Box<cedar_policy::ParseErrors>),
    /// Two policies share an id.
    #[error("combine Cedar policies")]
    Conflict(#[source] Box<cedar_policy::PolicySetError>),
    /// A name is not a valid Cedar entity type.
    #[error("`{0}` is not a valid Cedar entity type name")]
    TypeName(String),
}

/// An authorizer with a fixed set of policies. To change the policies, create a new `Authorizer`.
pub struct Authorizer {
    cedar: cedar_policy::Authorizer,
    policies: PolicySet,
    types: EntityTypes,
    actions: HashMap<Action, EntityUid>,
}

struct EntityTypes {
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
    workflow: EntityTypeName,
    step_registration: EntityTypeName,
    condition_binding: EntityTypeName,
    trigger: EntityTypeName,
    webhook: EntityTypeName,
    conversation: EntityTypeName,
    run: EntityTypeName,
    account: EntityTypeName,
    secret: EntityTypeName,
    collection: EntityTypeName,
}

impl Authorizer {
    /// Loads the built-in policies.
    pub fn with_default_policies() -> Result<Self, PolicyError> {
        Self::with_policies("")
    }

    /// Loads the built-in policies and the policies of `extra`, which is Cedar text. A `forbid` in either set overrides
    /// every `permit`.
    pub fn with_policies(extra: &str) -> Result<Self, PolicyError> {
        let text = format!("{DEFAULT_POLICIES}\n{extra}");
        let name = |text: &str| text.parse::<EntityTypeName>().map_err(|_| PolicyError::TypeName(text.to_owned()));
        let action_type = name("Action")?;
        let actions = [Action::Execute, Action::Read, Action::Write, Action::ActAs].map(|action| {
            (action, EntityUid::from_type_name_and_id(action_type.clone(), EntityId::new(action.as_str())))
        });
        Ok(Self {
            cedar: cedar_policy::Authorizer::new(),
            policies: with_annotated_ids(text.parse().map_err(|error| PolicyError::Syntax(Box::new(error)))?)?,
            types: EntityTypes {
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
                workflow: name("Workflow")?,
                step_registration: name("StepRegistration")?,
                condition_binding: name("ConditionBinding")?,
                trigger: name("Trigger")?,
                webhook: name("Webhook")?,
                conversation: name("Conversation")?,
                run: name("Run")?,
                account: name("Account")?,
                secret: name("Secret")?,
                collection: name("Collection")?,
            },
            actions: HashMap::from(actions),
        })
    }

    /// Decides whether `principal` may perform `action` on `resource` in `realm`.
    pub fn authorize(
        &self,
        principal: &Principal,
        realm: &RealmScope,
        action: Action,
        resource: Resource<'_>,
    ) -> AccessDecision {
        let Some((request, entities)) = self.cedar_request(principal, realm, action, resource) else {
            return AccessDecision::Deny(Vec::new());
        };
        let response = self.cedar.is_authorized(&request, &self.policies, &entities);
        let reasons: Vec<String> = response.diagnostics().reason().map(ToString::to_string).collect();
        match response.decision() {
            cedar_policy::Decision::Allow => AccessDecision::Allow(reasons),
            cedar_policy::Decision::Deny => AccessDecision::Deny(reasons),
        }
    }

    /// Builds the Cedar request and the entities that it refers to. Returns `None` if Cedar rejects one of them.
    fn cedar_request(
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
        let target = self.add_resource(realm, &realm_uid, &owner_org, resource, &mut entities)?;
        let request = Request::new(user, self.actions.get(&action)?.clone(), target, Context::empty(), None).ok()?;
        Some((request, Entities::from_entities(entities, None).ok()?))
    }

    /// Adds the resource and its parents to `entities` and returns the uid of the resource.
    fn add_resource(
        &self,
        realm: &RealmScope,
        realm_uid: &EntityUid,
        org: &EntityUid,
        resource: Resource<'_>,
        entities: &mut Vec<Entity>,
    ) -> Option<EntityUid> {
        let types = &self.types;
        let in_realm = HashSet::from([realm_uid.clone()]);
        let realm_uid_of = |kind: &EntityTypeName, name: &str| uid(kind, format_args!("{}/{name}", realm.realm));
        let name_attribute =
            |name: &str| HashMap::from([("name".to_owned(), RestrictedExpression::new_string(name.to_owned()))]);
        let owner_attribute =
            |owner: PrincipalId| ("owner".to_owned(), RestrictedExpression::new_entity_uid(uid(&types.user, owner)));
        let (target, parents, attributes) = match resource {
            // `entities` already contains the realm and its org.
            Resource::Realm => return Some(realm_uid.clone()),
            Resource::Tool { category, name } => {
                let category = category.unwrap_or(uri::NO_CATEGORY);
                let group = uid(&types.category, format_args!("{}/{category}", realm.realm));
                entities.push(Entity::new_no_attrs(group.clone(), in_realm));
                (realm_uid_of(&types.tool, name), HashSet::from([group]), name_attribute(name))
            }
            Resource::Provider { name } => (realm_uid_of(&types.provider, name), in_realm, name_attribute(name)),
            Resource::Agent { name } => (realm_uid_of(&types.agent, name), in_realm, name_attribute(name)),
            Resource::Fragment { name } => (realm_uid_of(&types.fragment, name), in_realm, name_attribute(name)),
            Resource::Type { name } => (realm_uid_of(&types.entity, name), in_realm, name_attribute(name)),
            Resource::Workflow { name } => (realm_uid_of(&types.workflow, name), in_realm, name_attribute(name)),
            Resource::StepRegistration { name } => {
                (realm_uid_of(&types.step_registration, name), in_realm, name_attribute(name))
            }
            Resource::ConditionBinding { name } => {
                (realm_uid_of(&types.condition_binding, name), in_realm, name_attribute(name))
            }
            Resource::Trigger { name } => (realm_uid_of(&types.trigger, name), in_realm, name_attribute(name)),
            Resource::Webhook { name } => (realm_uid_of(&types.webhook, name), in_realm, name_attribute(name)),
            // Policies test only the owner, so one entity represents all conversations or runs of an owner.
            Resource::Conversation { owner } => (
                realm_uid_of(&types.conversation, &owner.to_string()),
                in_realm,
                HashMap::from([owner_attribute(owner)]),
            ),
            Resource::Run { owner } => {
                (realm_uid_of(&types.run, &owner.to_string()), in_realm, HashMap::from([owner_attribute(owner)]))
            }
            Resource::Principal { name } => (uid(&types.account, name), HashSet::from([org.clone()]), HashMap::new()),
            Resource::Secret { name, owner } => {
                (realm_uid_of(&types.secret, name), in_realm, owner.map(owner_attribute).into_iter().collect())
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

/// Replaces Cedar's generated policy ids by the `@id` annotations, because envelopes and error messages show the policy
/// ids.
fn with_annotated_ids(parsed: PolicySet) -> Result<PolicySet, PolicyError> {
    let policies = parsed.policies().map(|policy| match policy.annotation("id") {
        Some(id) => policy.new_id(PolicyId::new(id)),
        None => policy.clone(),
    });
    PolicySet::from_policies(policies.collect::<Vec<Policy>>()).map_err(|error| PolicyError::Conflict(Box::new(error)))
}
