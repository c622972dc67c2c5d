//! Tests of the built-in policies: a table whose rows contain a principal, a realm, an action, a resource and the
//! expected decision.
#![allow(clippy::unwrap_used, reason = "a test fails at the first unexpected error")]

use toolwright_authz::{AccessDecision, Action, Authorizer, Resource};
use toolwright_types::{DocumentId, OrgId, Principal, PrincipalId, RealmId, RealmScope, Role};

struct Fixture {
    realm: RealmScope,
    other_realm: RealmScope,
    other_org: RealmScope,
}

fn fixture() -> Fixture {
    let (ours, theirs) = (OrgId::generate(), OrgId::generate());
    let realm = |org, name: &str| RealmScope { org, realm: RealmId::generate(), name: name.parse().unwrap() };
    Fixture { realm: realm(ours, "ours"), other_realm: realm(ours, "sibling"), other_org: realm(theirs, "theirs") }
}

fn principal(fixture: &Fixture, roles: &[Role]) -> Principal {
    Principal {
        id: PrincipalId::generate(),
        name: "someone".parse().unwrap(),
        org: fixture.realm.org,
        home: fixture.realm.realm,
        roles: roles.to_vec(),
    }
}

#[test]
fn built_in_policies_grant_each_role_only_its_permissions() {
    let authorizer = Authorizer::with_default_policies().unwrap();
    let fixture = fixture();
    let (admin, member, no_role) =
        (principal(&fixture, &[Role::Admin]), principal(&fixture, &[Role::Member]), principal(&fixture, &[]));
    let tool = Resource::Tool { category: Some("crm"), name: "hubspot/search-deals" };
    let provider = Resource::Provider { name: "hubspot" };
    let own = |p: &Principal| Resource::Secret { name: "token", owner: Some(p.id) };
    let shared = Resource::Secret { name: "token", owner: None };
    for (who, realm, action, what, allowed) in [
        (&admin, &fixture.realm, Action::Write, tool, true),
        (&admin, &fixture.other_realm, Action::Execute, tool, true),
        (&admin, &fixture.other_org, Action::Read, tool, false),
        (&admin, &fixture.realm, Action::Write, Resource::Keys, true),
        (&admin, &fixture.other_org, Action::Write, Resource::Keys, false),
        (&admin, &fixture.realm, Action::Write, Resource::Realms, true),
        (&admin, &fixture.other_realm, Action::Read, Resource::Realm, true),
        (&admin, &fixture.other_org, Action::Read, Resource::Realm, false),
        (&member, &fixture.realm, Action::Read, Resource::Realm, true),
        (&member, &fixture.other_realm, Action::Read, Resource::Realm, false),
        (&member, &fixture.realm, Action::Execute, tool, true),
        (&member, &fixture.realm, Action::Read, provider, true),
        (&member, &fixture.realm, Action::Write, tool, false),
        (&member, &fixture.other_realm, Action::Execute, tool, false),
        (&member, &fixture.other_org, Action::Execute, tool, false),
        (&member, &fixture.realm, Action::Read, Resource::Keys, false),
        (&admin, &fixture.realm, Action::Write, Resource::Commands, true),
        (&member, &fixture.realm, Action::Write, Resource::Commands, false),
        (&member, &fixture.realm, Action::Execute, Resource::Commands, false),
        (&member, &fixture.realm, Action::Write, own(&member), true),
        (&member, &fixture.realm, Action::Write, own(&admin), false),
        (&member, &fixture.realm, Action::Write, shared, false),
        (&member, &fixture.realm, Action::Execute, Resource::Agent { name: "helper" }, true),
        (&member, &fixture.realm, Action::Write, Resource::Agent { name: "helper" }, false),
        (&member, &fixture.realm, Action::Read, Resource::Fragment { name: "tone" }, true),
        (&member, &fixture.realm, Action::Execute, Resource::Workflow { name: "fulfil" }, true),
        (&member, &fixture.realm, Action::Write, Resource::Workflow { name: "fulfil" }, false),
        (&member, &fixture.other_realm, Action::Read, Resource::Workflow { name: "fulfil" }, false),
        (&admin, &fixture.realm, Action::Write, Resource::Workflow { name: "fulfil" }, true),
        (&member, &fixture.realm, Action::Read, Resource::StepRegistration { name: "validate" }, true),
        (&member, &fixture.realm, Action::Write, Resource::StepRegistration { name: "validate" }, false),
        (&member, &fixture.realm, Action::Read, Resource::ConditionBinding { name: "is-large" }, true),
        (&member, &fixture.realm, Action::Write, Resource::ConditionBinding { name: "is-large" }, false),
        (&member, &fixture.realm, Action::Read, Resource::Type { name: "Order" }, true),
        (&member, &fixture.realm, Action::Write, Resource::Type { name: "Order" }, false),
        (&member, &fixture.other_realm, Action::Read, Resource::Type { name: "Order" }, false),
        (&admin, &fixture.realm, Action::Write, Resource::Type { name: "Order" }, true),
        (&member, &fixture.realm, Action::Read, Resource::Run { owner: member.id }, true),
        (&member, &fixture.realm, Action::Execute, Resource::Run { owner: member.id }, true),
        (&member, &fixture.realm, Action::Read, Resource::Run { owner: admin.id }, false),
        (&member, &fixture.realm, Action::Write, Resource::Conversation { owner: member.id }, true),
        (&member, &fixture.realm, Action::Read, Resource::Conversation { owner: admin.id }, false),
        (&admin, &fixture.realm, Action::Read, Resource::Conversation { owner: member.id }, true),
        (&admin, &fixture.other_org, Action::Read, Resource::Run { owner: member.id }, false),
        (&member, &fixture.realm, Action::ActAs, Resource::Principal { name: "robot" }, false),
        (&admin, &fixture.realm, Action::ActAs, Resource::Principal { name: "robot" }, true),
        (&no_role, &fixture.realm, Action::Read, tool, false),
    ] {
        let decision = authorizer.authorize(who, realm, action, what);
        assert_eq!(
            matches!(decision, AccessDecision::Allow(_)),
            allowed,
            "{:?} {action:?} {what:?} in {}",
            who.roles,
            realm.name
        );
    }
}

#[test]
fn decision_contains_the_ids_of_the_policies_that_allowed_the_action() {
    let authorizer = Authorizer::with_default_policies().unwrap();
    let fixture = fixture();
    let tool = Resource::Tool { category: None, name: "echo" };
    let allowed = authorizer.authorize(&principal(&fixture, &[Role::Member]), &fixture.realm, Action::Execute, tool);
    assert_eq!(allowed, AccessDecision::Allow(vec!["members-read-and-execute-in-their-realm".into()]));
    let denied = authorizer.authorize(&principal(&fixture, &[]), &fixture.realm, Action::Execute, tool);
    assert_eq!(denied, AccessDecision::Deny(vec![]));
}
