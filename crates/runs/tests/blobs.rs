//! The blob store, over a folder and over S3.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, also in its helpers"
)]

use std::net::TcpListener;

use bytes::Bytes;
use tempfile::TempDir;
use toolwright_runs::blobs::{BlobLocation, BlobStore};
use toolwright_tools::ports::{BlobStorage, Payload};
use toolwright_types::{Attachment, AttachmentKind, DocumentId, OrgId, RealmId, RealmScope};

/// A blob store. If the store uses a folder, the folder is deleted with the fixture.
struct Fixture {
    store: BlobStore,
    _folder: TempDir,
}

/// A store in a new folder.
fn folder() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file://{}/blobs", folder.path().display());
    Fixture { store: BlobStore::open(url.parse().unwrap(), &|_| None).unwrap(), _folder: folder }
}

/// A store in a bucket of the S3 test server, under a new prefix.
fn bucket() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().file_name().unwrap().to_str().unwrap().trim_start_matches('.').to_owned();
    let endpoint = std::env::var("TOOLWRIGHT_TEST_S3_URL").expect("run the tests with scripts/with-services");
    Fixture { store: s3(&format!("s3://toolwright/tests/{prefix}"), &endpoint), _folder: folder }
}

fn s3(url: &str, endpoint: &str) -> BlobStore {
    let location: BlobLocation = url.parse().unwrap();
    let variable = |name: &str| match name {
        "AWS_ACCESS_KEY_ID" | "AWS_SECRET_ACCESS_KEY" => Some("test".to_owned()),
        "AWS_ENDPOINT_URL" => Some(endpoint.to_owned()),
        _ => None,
    };
    BlobStore::open(location, &variable).unwrap()
}

fn payload(content_type: &str, bytes: Vec<u8>) -> Payload {
    Payload { kind: AttachmentKind::Blob, content_type: content_type.to_owned(), bytes: Bytes::from(bytes) }
}

fn realm(name: &str) -> RealmScope {
    RealmScope { org: OrgId::generate(), realm: RealmId::generate(), name: name.parse().unwrap() }
}

fn id(attachment: &Attachment) -> &str {
    attachment.url.strip_prefix("/api/v1/ai/blobs/").unwrap()
}

/// Defines each test twice: once for a folder and once for a bucket.
macro_rules! on_both_stores {
    ($($test:ident),+ $(,)?) => { $(
        mod $test {
            #[tokio::test]
            async fn in_a_folder() {
                super::$test(super::folder()).await;
            }

            #[tokio::test]
            async fn in_a_bucket() {
                super::$test(super::bucket()).await;
            }
        }
    )+ };
}

on_both_stores!(
    blob_keeps_its_bytes_size_and_content_type,
    blob_is_not_found_in_another_realm,
    same_payload_gets_the_same_url,
    unknown_ids_are_not_found,
    check_of_available_storage_succeeds,
);

async fn blob_keeps_its_bytes_size_and_content_type(Fixture { store, _folder }: Fixture) {
    let realm = realm("default");
    let large: Vec<u8> = (0..9_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    for (declared, stored, bytes) in [
        ("text/plain; charset=utf-8", "text/plain; charset=utf-8", b"hello".to_vec()),
        ("image/png", "image/png", Vec::new()),
        ("kein/ätyp\n", "kein/ätyp\n", b"x".to_vec()),
        (&format!("a/b; c={}", "d".repeat(200)), "a/b", b"y".to_vec()),
        ("application/octet-stream", "application/octet-stream", large),
    ] {
        let attachment = store.put(&realm, payload(declared, bytes.clone())).await.unwrap();
        assert_eq!(attachment.content_type.as_deref(), Some(stored));
        assert_eq!(attachment.bytes, Some(bytes.len() as u64));
        let blob = store.get(&realm, id(&attachment)).await.unwrap().unwrap();
        assert_eq!(blob.content_type, stored);
        assert!(blob.bytes == bytes, "{stored}: the bytes differ");
    }
}

async fn blob_is_not_found_in_another_realm(Fixture { store, _folder }: Fixture) {
    let (mine, other) = (realm("mine"), realm("other"));
    let attachment = store.put(&mine, payload("text/plain", b"hello".to_vec())).await.unwrap();
    assert!(store.get(&mine, id(&attachment)).await.unwrap().is_some());
    assert!(store.get(&other, id(&attachment)).await.unwrap().is_none());
}

async fn same_payload_gets_the_same_url(Fixture { store, _folder }: Fixture) {
    let realm = realm("default");
    let first = store.put(&realm, payload("text/plain", b"hello".to_vec())).await.unwrap();
    let second = store.put(&realm, payload("text/plain", b"hello".to_vec())).await.unwrap();
    assert_eq!(first.url, second.url);
}

async fn unknown_ids_are_not_found(Fixture { store, _folder }: Fixture) {
    let realm = realm("default");
    let unknown = format!("{}-{}", "0".repeat(64), "orsxg5a");
    for id in [unknown.as_str(), "", "..", "../seal.key", "a/b"] {
        assert!(store.get(&realm, id).await.unwrap().is_none(), "{id}");
    }
}

async fn check_of_available_storage_succeeds(Fixture { store, _folder }: Fixture) {
    store.check().await.unwrap();
}

#[tokio::test]
async fn availability_check_and_writes_fail_if_the_bucket_does_not_exist() {
    let endpoint = std::env::var("TOOLWRIGHT_TEST_S3_URL").expect("run the tests with scripts/with-services");
    let store = s3("s3://no-such-bucket", &endpoint);
    store.check().await.unwrap_err();
    let realm = realm("default");
    let error = store.put(&realm, payload("text/plain", b"hello".to_vec())).await.unwrap_err();
    assert_eq!(error.to_string(), "blob storage is unavailable");
}

#[tokio::test]
async fn all_blob_operations_fail_if_the_bucket_is_unreachable() {
    // The listener is dropped at once, so nothing listens on this port.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let store = s3("s3://toolwright", &format!("http://127.0.0.1:{port}"));
    assert_eq!(store.check().await.unwrap_err().to_string(), "blob storage did not answer");
    let realm = realm("default");
    let error = store.put(&realm, payload("text/plain", b"hello".to_vec())).await.unwrap_err();
    assert_eq!(error.to_string(), "blob storage is unavailable");
    let known = format!("{}-{}", "0".repeat(64), "orsxg5a");
    assert_eq!(store.get(&realm, &known).await.unwrap_err().to_string(), "blob storage did not answer");
}
