//! Tests of orgs, realms, principals and API keys.

use toolwright_store::{CreateKeyError, EnsureError, NewApiKey};
use toolwright_types::{DocumentId, KeyId, OrgId, PrincipalId, RealmId, Role, Timestamp};

use crate::support::{TestDb, principal, realm};

on_both_databases!(
    ensuring_an_existing_realm_or_principal_returns_it_unchanged,
    concurrent_ensure_calls_return_the_same_realm_and_principal,
    realm_and_principal_names_are_case_insensitive,
    existing_principal_keeps_its_roles_until_set_roles_is_called,
    home_realm_of_another_org_is_rejected,
    api_key_is_found_until_it_is_revoked,
    api_key_is_found_until_it_expires,
    api_key_with_unknown_owner_or_duplicate_hash_or_nul_in_its_label_is_rejected,
);

fn key(principal: PrincipalId, fill: u8) -> NewApiKey {
    NewApiKey { principal, label: "laptop".into(), hash: [fill; 32], expires_at: None }
}

async fn ensuring_an_existing_realm_or_principal_returns_it_unchanged(db: TestDb) {
    let store = db.open().await;
    let tenancy = store.tenancy();
    let (first, second) = (realm(&store, "main").await, realm(&store, "main").await);
    assert_eq!(first, second);
    assert_eq!(
        principal(&store, &first, "someone@acme.example").await,
        principal(&store, &first, "someone@acme.example").await
    );

    let after = store.generation().await.unwrap();
    realm(&store, "main").await;
    assert_eq!(store.generation().await.unwrap(), after, "an existing row is not written again");
    assert_eq!(tenancy.realm_by_id(first.realm).await.unwrap(), Some(first.clone()));
    assert_eq!(tenancy.realm_by_id(RealmId::generate()).await.unwrap(), None);
    assert_eq!(tenancy.realm(first.org, &"other".parse().unwrap()).await.unwrap(), None);
    assert_eq!(tenancy.principal(first.org, &"nobody".parse().unwrap()).await.unwrap(), None);
}

async fn concurrent_ensure_calls_return_the_same_realm_and_principal(db: TestDb) {
    let store = db.open().await;
    let mut starts = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        starts.spawn(async move {
            let realm = realm(&store, "main").await;
            (principal(&store, &realm, "admin").await, realm)
        });
    }
    let found = starts.join_all().await;
    assert!(found.iter().all(|start| *start == found[0]), "{found:?}");
}

async fn realm_and_principal_names_are_case_insensitive(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "Main").await;
    assert_eq!(realm(&store, "mAIN").await, main);
    assert_eq!(main.name.as_str(), "Main");
    assert_eq!(principal(&store, &main, "Someone").await, principal(&store, &main, "someone").await);
    realm(&store, "backup").await;
    let names: Vec<_> = store.tenancy().realms(main.org).await.unwrap();
    assert_eq!(names.iter().map(|realm| realm.name.as_str()).collect::<Vec<_>>(), ["backup", "Main"]);
    assert_eq!(store.tenancy().realms(OrgId::generate()).await.unwrap(), []);
}

async fn existing_principal_keeps_its_roles_until_set_roles_is_called(db: TestDb) {
    let store = db.open().await;
    let tenancy = store.tenancy();
    let (main, other) = (realm(&store, "main").await, realm(&store, "other").await);
    let someone = "someone".parse().unwrap();
    let made = tenancy.ensure_principal(main.org, &someone, main.realm, &[Role::Member]).await.unwrap();
    assert_eq!((made.home, made.roles.as_slice()), (main.realm, [Role::Member].as_slice()));

    let found = tenancy.ensure_principal(main.org, &someone, other.realm, &[Role::Admin]).await.unwrap();
    assert_eq!(found, made);
    let raised = tenancy.set_roles(main.org, &someone, &[Role::Admin, Role::Member]).await.unwrap().unwrap();
    assert_eq!(raised.roles, [Role::Admin, Role::Member]);
    assert_eq!(tenancy.principal(main.org, &someone).await.unwrap().as_ref(), Some(&raised));
    assert_eq!(tenancy.principal_by_id(made.id).await.unwrap(), Some(raised));
    assert_eq!(tenancy.principal_by_id(PrincipalId::generate()).await.unwrap(), None);
    assert_eq!(tenancy.set_roles(main.org, &"nobody".parse().unwrap(), &[]).await.unwrap(), None);
}

async fn home_realm_of_another_org_is_rejected(db: TestDb) {
    let store = db.open().await;
    let tenancy = store.tenancy();
    let main = realm(&store, "main").await;
    let rival = tenancy.ensure_org(&"rival".parse().unwrap()).await.unwrap();
    let error = tenancy.ensure_principal(rival, &"spy".parse().unwrap(), main.realm, &[]).await.unwrap_err();
    assert!(matches!(error, EnsureError::HomeOutsideOrg { .. }), "{error:?}");
    let error = tenancy.ensure_realm(OrgId::generate(), &"main".parse().unwrap()).await.unwrap_err();
    assert!(matches!(error, EnsureError::UnknownOrg(_)), "{error:?}");
}

async fn api_key_is_found_until_it_is_revoked(db: TestDb) {
    let store = db.open().await;
    let tenancy = store.tenancy();
    let main = realm(&store, "main").await;
    let rival = tenancy.ensure_org(&"rival".parse().unwrap()).await.unwrap();
    let someone = principal(&store, &main, "someone").await;
    let made = tenancy.create_key(key(someone, 1), "root").await.unwrap();
    tenancy.create_key(key(someone, 2), "root").await.unwrap();

    let (found, owner) = tenancy.find_key(&[1; 32]).await.unwrap().unwrap();
    assert_eq!((&found, owner.id, owner.name.as_str()), (&made, someone, "someone"));
    assert_eq!(tenancy.find_key(&[3; 32]).await.unwrap(), None);
    assert!(!tenancy.revoke_key(rival, made.id).await.unwrap(), "a key of another org");
    assert!(!tenancy.revoke_key(main.org, KeyId::generate()).await.unwrap());

    assert!(tenancy.revoke_key(main.org, made.id).await.unwrap());
    assert_eq!(tenancy.find_key(&[1; 32]).await.unwrap(), None);
    assert!(tenancy.find_key(&[2; 32]).await.unwrap().is_some());
    assert!(!tenancy.revoke_key(main.org, made.id).await.unwrap(), "a key is revoked once");
    let listed = tenancy.keys(main.org).await.unwrap();
    assert_eq!(listed.iter().map(|(key, _)| key.revoked_at.is_some()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(tenancy.keys(rival).await.unwrap(), []);
}

async fn api_key_is_found_until_it_expires(db: TestDb) {
    use toolwright_types::Clock as _;
    let store = db.open().await;
    let tenancy = store.tenancy();
    let main = realm(&store, "main").await;
    let someone = principal(&store, &main, "someone").await;
    let in_an_hour = Timestamp::from_micros(db.clock.now().as_micros() + 3_600_000_000);
    let new = NewApiKey { expires_at: Some(in_an_hour), ..key(someone, 1) };
    assert_eq!(tenancy.create_key(new, "root").await.unwrap().expires_at, Some(in_an_hour));

    assert!(tenancy.find_key(&[1; 32]).await.unwrap().is_some());
    db.clock.advance_seconds(3600);
    assert_eq!(tenancy.find_key(&[1; 32]).await.unwrap(), None);
}

async fn api_key_with_unknown_owner_or_duplicate_hash_or_nul_in_its_label_is_rejected(db: TestDb) {
    let store = db.open().await;
    let tenancy = store.tenancy();
    let main = realm(&store, "main").await;
    let someone = principal(&store, &main, "someone").await;
    tenancy.create_key(key(someone, 1), "root").await.unwrap();
    let error = tenancy.create_key(key(someone, 1), "root").await.unwrap_err();
    assert!(matches!(error, CreateKeyError::Duplicate), "{error:?}");
    let error = tenancy.create_key(key(PrincipalId::generate(), 2), "root").await.unwrap_err();
    assert!(matches!(error, CreateKeyError::UnknownPrincipal(_)), "{error:?}");
    let error = tenancy.create_key(NewApiKey { label: "\0".into(), ..key(someone, 3) }, "root").await.unwrap_err();
    assert!(matches!(error, CreateKeyError::Label), "{error:?}");
}
