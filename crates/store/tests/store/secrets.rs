//! Secrets: whose comes first, and what a sealed row can and cannot be used for.

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use secrecy::{ExposeSecret as _, SecretString};
use tempfile::TempDir;
use toolwright_store::SecretScope::{Org, Realm, User};
use toolwright_store::{PutError, SealKey, SealKeyError, SecretScope, Secrets, UnsealError};
use toolwright_types::{Clock as _, DocumentId, PrincipalId, SecretId};

use crate::support::{TestDb, name, principal, realm};

on_both_databases!(
    a_users_secret_comes_before_the_realms_and_that_before_the_orgs,
    secrets_stay_in_their_realm_and_with_their_user,
    a_new_value_is_a_new_revision_and_the_old_identity_no_longer_opens,
    a_list_shows_what_a_principal_could_use,
    sealed_rows_cannot_be_swapped_or_changed,
    the_wrong_key_is_told_from_a_damaged_row,
    only_a_principal_of_the_org_can_own_a_secret,
    parallel_puts_each_get_their_own_revision,
    one_at_a_time_has_the_right_to_renew_a_secret,
    a_value_is_replaced_only_if_it_is_the_one_that_was_looked_up,
);

async fn put(secrets: Secrets<'_>, scope: SecretScope, secret: &str, value: &str) -> i64 {
    secrets.put(scope, &name(secret), SecretString::from(value), "someone").await.unwrap().revision
}

/// Looks a secret up and opens it.
async fn value(secrets: Secrets<'_>, secret: &str, principal: PrincipalId) -> Option<String> {
    let identity = secrets.lookup(&name(secret), principal).await.unwrap()?;
    Some(secrets.unseal(&identity).await.unwrap().expose_secret().to_owned())
}

async fn a_users_secret_comes_before_the_realms_and_that_before_the_orgs(db: TestDb) {
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

async fn secrets_stay_in_their_realm_and_with_their_user(db: TestDb) {
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

async fn a_new_value_is_a_new_revision_and_the_old_identity_no_longer_opens(db: TestDb) {
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
    assert_ne!(put_again.id, old.id, "so that nothing cached for the old one is taken for it");
}

async fn a_list_shows_what_a_principal_could_use(db: TestDb) {
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

async fn sealed_rows_cannot_be_swapped_or_changed(db: TestDb) {
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

    // Each changes one thing that a value is bound to, so that its owner finds a row under the name that says which.
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

async fn the_wrong_key_is_told_from_a_damaged_row(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let someone = principal(&store, &main, "someone").await;
    put(store.secrets(&main), Realm, "crm", "one").await;

    let strange = db.with_other_key().open().await;
    let secrets = strange.secrets(&main);
    let identity = secrets.lookup(&name("crm"), someone).await.unwrap().unwrap();
    let refused = secrets.unseal(&identity).await.unwrap_err();
    assert!(matches!(refused, UnsealError::WrongKey { .. }), "{refused:?}");
    assert!(refused.to_string().contains("put the secret again"), "{refused}");
    put(secrets, Realm, "crm", "two").await;
    assert_eq!(value(secrets, "crm", someone).await.as_deref(), Some("two"));
}

async fn only_a_principal_of_the_org_can_own_a_secret(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let nobody = User(PrincipalId::generate());
    let refused = store.secrets(&main).put(nobody, &name("a"), SecretString::from("x"), "someone").await.unwrap_err();
    assert!(matches!(refused, PutError::UnknownOwner(_)), "{refused:?}");
}

async fn one_at_a_time_has_the_right_to_renew_a_secret(db: TestDb) {
    let store = db.open().await;
    let main = realm(&store, "main").await;
    let someone = principal(&store, &main, "someone").await;
    let secrets = store.secrets(&main);
    put(secrets, User(someone), "login", "one").await;
    let identity = secrets.lookup(&name("login"), someone).await.unwrap().unwrap();
    let soon = db.clock.now().later(Duration::from_secs(10));
    assert!(secrets.claim_renewal(&identity, soon).await.unwrap());
    assert!(!secrets.claim_renewal(&identity, soon).await.unwrap(), "somebody has it");
    secrets.release_renewal(&identity).await.unwrap();
    assert!(secrets.claim_renewal(&identity, soon).await.unwrap(), "it was given back");
    db.clock.advance_seconds(11);
    let later = db.clock.now().later(Duration::from_secs(10));
    assert!(secrets.claim_renewal(&identity, later).await.unwrap(), "whoever had it took too long");
    assert!(secrets.replace(&identity, &SecretString::from("two")).await.unwrap());
    assert!(!secrets.claim_renewal(&identity, later).await.unwrap(), "there is nothing left to renew");
    let (new, is_claimed) = secrets.latest(&identity).await.unwrap().unwrap();
    assert!(!is_claimed);
    assert!(secrets.claim_renewal(&new, later).await.unwrap(), "the next value is free");
    assert!(secrets.latest(&identity).await.unwrap().unwrap().1);
    put(secrets, User(someone), "login", "three").await;
    let (new, _) = secrets.latest(&identity).await.unwrap().unwrap();
    assert!(secrets.claim_renewal(&new, later).await.unwrap(), "and so is one that was put");
    store.release_renewals().await.unwrap();
    assert!(secrets.claim_renewal(&new, later).await.unwrap(), "whoever had it is gone");
}

async fn a_value_is_replaced_only_if_it_is_the_one_that_was_looked_up(db: TestDb) {
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

async fn parallel_puts_each_get_their_own_revision(db: TestDb) {
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
fn a_key_file_is_made_once_and_only_for_its_owner() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("seal.key");
    let made = SealKey::from_file(&path).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), 32);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(format!("{made:?}"), format!("{:?}", SealKey::from_file(&path).unwrap()), "the id tells keys apart");

    for mode in [0o640, 0o604, 0o660] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let refused = SealKey::from_file(&path).unwrap_err();
        assert!(matches!(refused, SealKeyError::TooOpen { .. }), "{refused:?}");
        assert!(refused.to_string().contains("chmod 600"), "{refused}");
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
fn a_key_in_the_environment_is_base64_of_32_bytes_and_is_never_shown() {
    let text = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";
    let key = SealKey::from_base64(&format!(" {text}\n")).unwrap();
    assert!(!format!("{key:?}").contains("0123456789"), "{key:?}");
    let refused = SealKey::from_base64("c2hvcnQ=").unwrap_err();
    assert_eq!(refused.to_string(), "a seal key has 32 bytes, this one has 5");
    let refused = SealKey::from_base64("not base64!").unwrap_err();
    assert!(!refused.to_string().contains("not base64!"), "{refused}");
}
