//! Tests of secrets: precedence of owners, sealing and renewal.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tempfile::TempDir;
use toolwright_store::SecretScope::{Org, Realm, User};
use toolwright_store::{PutError, RealmSecrets, SealKey, SealKeyError, SecretScope, UnsealError};
use toolwright_types::{Clock as _, DocumentId, PrincipalId, SecretId};

use crate::support::{TestDb, name, principal, realm};

on_both_databases!(
    secret_lookup_prefers_user_then_realm_then_org,
    secrets_are_not_visible_to_another_realm_or_user,
    unsealing_with_an_old_identity_fails_after_the_value_changed,
    secret_list_contains_only_secrets_that_the_principal_can_use,
    secret_cannot_be_unsealed_after_its_row_was_modified,
    unsealing_with_another_seal_key_is_a_wrong_key_error,
    secret_of_an_unknown_principal_is_rejected,
    concurrent_writes_of_a_secret_get_distinct_revisions,
    secret_renewal_is_claimed_by_one_caller_at_a_time,
    secret_is_not_replaced_if_its_value_has_changed,
);

async fn put(secrets: RealmSecrets<'_>, scope: SecretScope, secret: &str, value: &str) -> i64 {
    secrets.put(scope, &name(secret), SecretString::from(value), "someone").await.unwrap().revision
}

/// Returns the unsealed value of the secret that the principal would use.
async fn value(secrets: RealmSecrets<'_>, secret: &str, principal: PrincipalId) -> Option<String> {
    let identity = secrets.lookup(&name(secret), principal).await.unwrap()?;
    Some(secrets.unseal(&identity).await.unwrap().expose_secret().to_owned())
}

async fn secret_lookup_prefers_user_then_realm_then_org(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let someone = principal(&store, &main, "someone").await;
    let secrets = store.secrets(&main);
    assert_eq!(value(secrets, "crm", someone).await, None);

    for (scope, text) in [(Org, "org's"), (Realm, "realm's"), (User(someone), "someone's ü")] {
        put(secrets, scope, "crm", text).await;
        assert_eq!(value(secrets, "CRM", someone).await.as_deref(), Some(text));
        assert_eq!(secrets.lookup(&name("crm"), someone).await.unwrap().unwrap().scope, scope);
    }
    for (scope, then) in [(User(someone), Some("realm's")), (Realm, Some("org's")), (Org, None)] {
        assert!(secrets.remove(scope, &name("Crm")).await.unwrap());
        assert!(!secrets.remove(scope, &name("crm")).await.unwrap());
        assert_eq!(value(secrets, "crm", someone).await.as_deref(), then);
    }
}

async fn secrets_are_not_visible_to_another_realm_or_user(db: TestDb) {
    let store = db.open().await;
    let (here, there) = (realm(&store, "here").await, realm(&store, "there").await);
    let (someone, another) = (principal(&store, &here, "someone").await, principal(&store, &here, "another").await);
    let (ours, theirs) = (store.secrets(&here), store.secrets(&there));
    put(ours, User(someone), "a", "someone's").await;
    put(ours, Realm, "r", "here's").await;
    put(ours, Org, "o", "everyone's").await;

    assert_eq!(value(ours, "a", another).await, None);
    assert_eq!(value(theirs, "a", someone).await, None);
    assert_eq!(value(theirs, "r", someone).await, None);
    assert_eq!(value(theirs, "o", another).await.as_deref(), Some("everyone's"));
    assert!(!theirs.remove(Realm, &name("r")).await.unwrap());
    assert!(!ours.remove(User(another), &name("a")).await.unwrap());

    let identity = ours.lookup(&name("r"), someone).await.unwrap().unwrap();
    let foreign = theirs.unseal(&identity).await.unwrap_err();
    assert!(matches!(foreign, UnsealError::Changed(_)), "{foreign:?}");
    let mut stolen = ours.lookup(&name("a"), someone).await.unwrap().unwrap();
    stolen.scope = User(another);
    assert!(matches!(ours.unseal(&stolen).await, Err(UnsealError::Changed(_))));
}

async fn unsealing_with_an_old_identity_fails_after_the_value_changed(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let someone = principal(&store, &main, "someone").await;
    let secrets = store.secrets(&main);
    put(secrets, Realm, "crm", "one").await;
    let old = secrets.lookup(&name("crm"), someone).await.unwrap().unwrap();
    assert_eq!(put(secrets, Realm, "CRM", "two").await, 2);

    let new = secrets.lookup(&name("crm"), someone).await.unwrap().unwrap();
    assert_eq!((new.id, old.revision, new.revision), (old.id, 1, 2));
    assert!(matches!(secrets.unseal(&old).await, Err(UnsealError::Changed(id)) if id == old.id));
    assert_eq!(value(secrets, "crm", someone).await.as_deref(), Some("two"));

    secrets.remove(Realm, &name("crm")).await.unwrap();
    put(secrets, Realm, "crm", "three").await;
    let put_again = secrets.lookup(&name("crm"), someone).await.unwrap().unwrap();
    assert_ne!(put_again.id, old.id, "cached results of the old secret must not apply to the new one");
}

async fn secret_list_contains_only_secrets_that_the_principal_can_use(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let (someone, another) = (principal(&store, &main, "someone").await, principal(&store, &main, "another").await);
    let secrets = store.secrets(&main);
    for (scope, secret) in [(Org, "b"), (User(someone), "b"), (Realm, "B"), (User(another), "a"), (Org, "c")] {
        put(secrets, scope, secret, "hidden value").await;
    }

    let listed = secrets.list(someone).await.unwrap();
    let shown: Vec<_> = listed.iter().map(|info| (info.name.as_str(), info.scope)).collect();
    assert_eq!(shown, [("b", User(someone)), ("B", Realm), ("b", Org), ("c", Org)]);
    assert!(!format!("{listed:?} {store:?} {secrets:?}").contains("hidden value"));
    assert_eq!(listed[0].updated_by, "someone");
}

async fn secret_cannot_be_unsealed_after_its_row_was_modified(db: TestDb) {
    let store = db.open().await;
    let (main, other) = (realm(&store, "main").await, realm(&store, "other").await);
    let someone = principal(&store, &main, "someone").await;
    let another = principal(&store, &main, "another").await;
    let rival = store.tenancy().ensure_org(&"rival".parse().unwrap()).await.unwrap();
    let elsewhere = store.tenancy().ensure_realm(rival, &"main".parse().unwrap()).await.unwrap();
    let (here, there, abroad) = (store.secrets(&main), store.secrets(&other), store.secrets(&elsewhere));
    put(here, User(another), "owner", "another's").await;
    put(there, Realm, "realm", "the other realm's").await;
    put(abroad, Org, "org", "the other org's").await;
    for secret in ["name", "id", "revision", "value", "prize", "scope", "empty"] {
        put(here, User(someone), secret, secret).await;
    }

    // Each statement changes data that the seal protects, in the row of the secret with the name `of`. Afterwards the
    // lookup of the name `secret` finds this row.
    let new_id = SecretId::generate();
    for (secret, set, of) in [
        ("owner", format!("principal_id = '{someone}'"), "owner"),
        ("realm", format!("realm_id = '{}'", main.realm), "realm"),
        ("org", format!("org_id = '{}'", main.org), "org"),
        ("renamed", "name = 'renamed', name_key = 'renamed'".into(), "name"),
        ("id", format!("id = '{new_id}'"), "id"),
        ("revision", "revision = 2".into(), "revision"),
        ("value", "sealed = (SELECT s.sealed FROM secrets s WHERE s.name = 'prize')".into(), "value"),
        ("scope", "scope = 'org', realm_id = NULL, principal_id = NULL".into(), "scope"),
        ("empty", "sealed = ''".into(), "empty"),
    ] {
        db.tamper(format!("UPDATE secrets SET {set} WHERE name = '{of}'")).await;
        let identity = here.lookup(&name(secret), someone).await.unwrap().expect(secret);
        let opened = here.unseal(&identity).await;
        let tampered = matches!(&opened, Err(UnsealError::Tampered(damaged)) if *damaged == name(secret));
        assert!(tampered, "{secret}: {opened:?}");
    }
    assert_eq!(value(here, "prize", someone).await.as_deref(), Some("prize"));
}

async fn unsealing_with_another_seal_key_is_a_wrong_key_error(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let someone = principal(&store, &main, "someone").await;
    put(store.secrets(&main), Realm, "crm", "one").await;

    let other_store = db.with_other_key().open().await;
    let secrets = other_store.secrets(&main);
    let identity = secrets.lookup(&name("crm"), someone).await.unwrap().unwrap();
    let error = secrets.unseal(&identity).await.unwrap_err();
    assert!(matches!(error, UnsealError::WrongKey { .. }), "{error:?}");
    assert!(error.to_string().contains("set the secret again"), "{error}");
    put(secrets, Realm, "crm", "two").await;
    assert_eq!(value(secrets, "crm", someone).await.as_deref(), Some("two"));
}

async fn secret_of_an_unknown_principal_is_rejected(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let nobody = User(PrincipalId::generate());
    let error = store.secrets(&main).put(nobody, &name("a"), SecretString::from("x"), "someone").await.unwrap_err();
    assert!(matches!(error, PutError::UnknownOwner(_)), "{error:?}");
}

async fn secret_renewal_is_claimed_by_one_caller_at_a_time(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let someone = principal(&store, &main, "someone").await;
    let secrets = store.secrets(&main);
    put(secrets, User(someone), "login", "one").await;
    let identity = secrets.lookup(&name("login"), someone).await.unwrap().unwrap();
    let soon = db.clock.now().saturating_add(Duration::from_secs(10));
    assert!(secrets.claim_renewal(&identity, soon).await.unwrap());
    assert!(!secrets.claim_renewal(&identity, soon).await.unwrap(), "the renewal is claimed");
    secrets.release_renewal(&identity).await.unwrap();
    assert!(secrets.claim_renewal(&identity, soon).await.unwrap(), "the claim was released");
    db.clock.advance_seconds(11);
    let later = db.clock.now().saturating_add(Duration::from_secs(10));
    assert!(secrets.claim_renewal(&identity, later).await.unwrap(), "the claim has expired");
    assert!(secrets.replace(&identity, &SecretString::from("two")).await.unwrap());
    assert!(!secrets.claim_renewal(&identity, later).await.unwrap(), "the identity is outdated");
    let (new, is_claimed) = secrets.latest(&identity).await.unwrap().unwrap();
    assert!(!is_claimed);
    assert!(secrets.claim_renewal(&new, later).await.unwrap(), "the next value is not claimed");
    assert!(secrets.latest(&identity).await.unwrap().unwrap().1);
    put(secrets, User(someone), "login", "three").await;
    let (new, _) = secrets.latest(&identity).await.unwrap().unwrap();
    assert!(secrets.claim_renewal(&new, later).await.unwrap(), "a value that was set is not claimed");
    store.release_renewals().await.unwrap();
    assert!(secrets.claim_renewal(&new, later).await.unwrap(), "all claims were released");
}

async fn secret_is_not_replaced_if_its_value_has_changed(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let someone = principal(&store, &main, "someone").await;
    let secrets = store.secrets(&main);
    for scope in [Org, Realm, User(someone)] {
        put(secrets, scope, "login", "one").await;
        let old = secrets.lookup(&name("login"), someone).await.unwrap().unwrap();
        assert!(secrets.replace(&old, &SecretString::from("two")).await.unwrap());
        assert_eq!(value(secrets, "login", someone).await.as_deref(), Some("two"));
        assert!(!secrets.replace(&old, &SecretString::from("three")).await.unwrap());
        assert_eq!(secrets.latest(&old).await.unwrap().map(|(new, _)| (new.id, new.revision)), Some((old.id, 2)));
        secrets.remove(scope, &name("login")).await.unwrap();
        assert_eq!(secrets.latest(&old).await.unwrap(), None);
        assert!(!secrets.replace(&old, &SecretString::from("four")).await.unwrap());
    }
}

async fn concurrent_writes_of_a_secret_get_distinct_revisions(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let someone = principal(&store, &main, "someone").await;
    let mut puts = tokio::task::JoinSet::new();
    for n in 0..16 {
        let (store, main) = (store.clone(), main.clone());
        puts.spawn(async move { put(store.secrets(&main), User(someone), "crm", &n.to_string()).await });
    }
    let mut revisions = puts.join_all().await;
    revisions.sort_unstable();
    assert_eq!(revisions, (1..=16).collect::<Vec<_>>());
    assert!(value(store.secrets(&main), "crm", someone).await.is_some());
}

#[test]
fn seal_key_file_is_created_once_and_rejected_if_other_users_have_access() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("seal.key");
    let made = SealKey::from_file(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 32);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(format!("{made:?}"), format!("{:?}", SealKey::from_file(&path).unwrap()), "the id identifies the key");

    for mode in [0o640, 0o604, 0o660] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let error = SealKey::from_file(&path).unwrap_err();
        assert!(matches!(error, SealKeyError::TooOpen { .. }), "{error:?}");
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::write(&path, [0; 31]).unwrap();
    assert!(matches!(SealKey::from_file(&path), Err(SealKeyError::Length(31))));
    std::fs::write(&path, [0; 1000]).unwrap();
    assert!(matches!(SealKey::from_file(&path), Err(SealKeyError::Length(33))));
    let nowhere = SealKey::from_file(folder.path().join("no/such/folder")).unwrap_err();
    assert!(matches!(nowhere, SealKeyError::Create { .. }), "{nowhere:?}");
}

#[test]
fn base64_seal_key_must_have_32_bytes_and_is_never_printed() {
    let text = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let key = SealKey::from_base64(&format!(" {text}\n")).unwrap();
    assert!(!format!("{key:?}").contains("0123456789"), "{key:?}");
    let error = SealKey::from_base64("c2hvcnQ=").unwrap_err();
    assert_eq!(error.to_string(), "seal key must have 32 bytes, got 5");
    let error = SealKey::from_base64("not base64!").unwrap_err();
    assert!(!error.to_string().contains("not base64!"), "{error}");
}
