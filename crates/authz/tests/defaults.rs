//! The built-in policies, as a table of who may do what where.
#![allow(clippy::unwrap_used)]

use toolwright_authz::{Action, Decision, Policies, Resource};
use toolwright_types::{DocumentId, OrgId, Principal, PrincipalId, RealmId, RealmScope, Role};

struct World {
    realm: RealmScope,
    other_realm: RealmScope,
    other_org: RealmScope,
}

fn world() -> World {
    let (ours, theirs) = (OrgId::generate(), OrgId::generate());
    let realm = |org, name: &str| RealmScope { org, realm: RealmId::generate(), name: name.parse().unwrap() };
    World { realm: realm(ours, "ours"), other_realm: realm(ours, "sibling"), other_org: realm(theirs, "theirs") }
}

fn principal(world: &World, roles: &[Role]) -> Principal {
    Principal {
        id: PrincipalId::generate(),
        name: "someone".parse().unwrap(),
        org: world.realm.org,
        home: world.realm.realm,
        roles: roles.to_vec(),
    }
}

#[test]
fn roles_reach_exactly_as_far_as_they_say() {
    let policies = Policies::defaults().unwrap();
    let world = world();
    let (admin, member, nobody) =
        (principal(&world, &[Role::Admin]), principal(&world, &[Role::Member]), principal(&world, &[]));
    let tool = Resource::Tool { category: Some("crm"), name: "hubspot/search-deals" };
    let provider = Resource::Provider { name: "hubspot" };
    let own = |p: &Principal| Resource::Secret { name: "token", owner: Some(p.id) };
    let shared = Resource::Secret { name: "token", owner: None };
    for (who, realm, action, what, allowed) in [
        (&admin, &world.realm, Action::Write, tool, true),
        (&admin, &world.other_realm, Action::Execute, tool, true),
        (&admin, &world.other_org, Action::Read, tool, false),
        (&admin, &world.realm, Action::Write, Resource::Keys, true),
        (&admin, &world.other_org, Action::Write, Resource::Keys, false),
        (&admin, &world.realm, Action::Write, Resource::Realms, true),
        (&admin, &world.other_realm, Action::Read, Resource::Realm, true),
        (&admin, &world.other_org, Action::Read, Resource::Realm, false),
        (&member, &world.realm, Action::Read, Resource::Realm, true),
        (&member, &world.other_realm, Action::Read, Resource::Realm, false),
        (&member, &world.realm, Action::Execute, tool, true),
        (&member, &world.realm, Action::Read, provider, true),
        (&member, &world.realm, Action::Write, tool, false),
        (&member, &world.other_realm, Action::Execute, tool, false),
        (&member, &world.other_org, Action::Execute, tool, false),
        (&member, &world.realm, Action::Read, Resource::Keys, false),
        (&admin, &world.realm, Action::Write, Resource::Commands, true),
        (&member, &world.realm, Action::Write, Resource::Commands, false),
        (&member, &world.realm, Action::Execute, Resource::Commands, false),
        (&member, &world.realm, Action::Write, own(&member), true),
        (&member, &world.realm, Action::Write, own(&admin), false),
        (&member, &world.realm, Action::Write, shared, false),
        (&member, &world.realm, Action::Execute, Resource::Agent { name: "helper" }, true),
        (&member, &world.realm, Action::Write, Resource::Agent { name: "helper" }, false),
        (&member, &world.realm, Action::Read, Resource::Fragment { name: "tone" }, true),
        (&member, &world.realm, Action::Read, Resource::Type { name: "Order" }, true),
        (&member, &world.realm, Action::Write, Resource::Type { name: "Order" }, false),
        (&member, &world.other_realm, Action::Read, Resource::Type { name: "Order" }, false),
        (&admin, &world.realm, Action::Write, Resource::Type { name: "Order" }, true),
        (&member, &world.realm, Action::Read, Resource::Run { owner: member.id }, true),
        (&member, &world.realm, Action::Execute, Resource::Run { owner: member.id }, true),
        (&member, &world.realm, Action::Read, Resource::Run { owner: admin.id }, false),
        (&member, &world.realm, Action::Write, Resource::Conversation { owner: member.id }, true),
        (&member, &world.realm, Action::Read, Resource::Conversation { owner: admin.id }, false),
        (&admin, &world.realm, Action::Read, Resource::Conversation { owner: member.id }, true),
        (&admin, &world.other_org, Action::Read, Resource::Run { owner: member.id }, false),
        (&member, &world.realm, Action::ActAs, Resource::Principal { name: "robot" }, false),
        (&admin, &world.realm, Action::ActAs, Resource::Principal { name: "robot" }, true),
        (&nobody, &world.realm, Action::Read, tool, false),
    ] {
        let decision = policies.decide(who, realm, action, what);
        assert_eq!(
            matches!(decision, Decision::Allow(_)),
            allowed,
            "{:?} {action:?} {what:?} in {}",
            who.roles,
            realm.name
        );
    }
}

#[test]
fn a_decision_names_its_policy() {
    let policies = Policies::defaults().unwrap();
    let world = world();
    let tool = Resource::Tool { category: None, name: "echo" };
    let allowed = policies.decide(&principal(&world, &[Role::Member]), &world.realm, Action::Execute, tool);
    assert_eq!(allowed, Decision::Allow(vec!["members-read-and-execute-in-their-realm".into()]));
    let denied = policies.decide(&principal(&world, &[]), &world.realm, Action::Execute, tool);
    assert_eq!(denied, Decision::Deny(vec![]));
}
