//! Large outputs and outputs that are not JSON: what stays in the envelope, and what is attached.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_types::AttachmentKind;

use crate::test_functions;
use crate::world::World;

#[tokio::test]
async fn oversized_output_is_truncated_and_attached() {
    let world = World::start().await;
    world.get("t", "/huge/3000000", json!({}));
    let envelope = world.call("t", json!({})).await;
    assert!(envelope.truncated);
    let kept = envelope.output.as_str().unwrap().len();
    assert!((1_999_000..=2_000_000).contains(&kept), "{kept}");
    let attachment = &envelope.attachments[0];
    assert_eq!((attachment.kind, attachment.bytes), (AttachmentKind::Blob, Some(2_999_998)));
    let blobs = world.blobs.payloads.lock().unwrap();
    assert_eq!(blobs.len(), 1);
    assert!(blobs[0].bytes.iter().all(|byte| *byte == b'x'));
}

#[tokio::test]
async fn only_output_over_the_limit_is_truncated() {
    let world = World::start().await;
    for (bytes, cut) in [(1000, false), (1001, true)] {
        world.get("t", &format!("/huge/{bytes}"), json!({ "maxOutputBytes": 1000 }));
        let envelope = world.call("t", json!({})).await;
        assert_eq!(envelope.truncated, cut, "{bytes}");
        assert!(envelope.output.to_string().len() <= 1000);
    }
}

#[tokio::test]
async fn truncated_output_keeps_its_first_rows_and_the_blob_is_complete() {
    let rows = |n: usize| json!({ "rows": (0..n).map(|n| json!({ "id": n, "name": "ä\n\"".repeat(9) })).collect::<Vec<_>>(), "total": n });
    let world = World::with_functions(test_functions::library("rows", move |_| async move { Ok(rows(500)) })).await;
    world.function("t", "rows", json!({ "maxOutputBytes": 2000 }));
    let envelope = world.call("t", json!({})).await;
    assert!(envelope.truncated && envelope.output.to_string().len() <= 2000);
    let kept = envelope.output["rows"].as_array().unwrap();
    assert!(kept.len() > 5 && kept[..5] == rows(5)["rows"].as_array().unwrap()[..], "{}", envelope.output);
    let blobs = world.blobs.payloads.lock().unwrap();
    assert_eq!(blobs[0].content_type, "application/json");
    assert_eq!(serde_json::from_slice::<Value>(&blobs[0].bytes).unwrap(), rows(500));
}

#[tokio::test]
async fn response_with_an_image_or_a_table_or_binary_data_becomes_an_attachment() {
    let world = World::start().await;
    for (kind, attached, content_type) in [
        ("png", AttachmentKind::Image, "image/png"),
        ("pdf", AttachmentKind::Blob, "application/pdf"),
        ("csv", AttachmentKind::Table, "text/csv; charset=utf-8"),
    ] {
        world.get("t", &format!("/binary/{kind}"), json!({}));
        let envelope = world.call("t", json!({})).await;
        let [attachment] = envelope.attachments.as_slice() else { panic!("{kind}: {envelope:?}") };
        assert_eq!((attachment.kind, attachment.content_type.as_deref()), (attached, Some(content_type)));
        let blob = world.blobs.payloads.lock().unwrap().last().unwrap().clone();
        assert_eq!(attachment.bytes, Some(blob.bytes.len() as u64));
        match attached {
            AttachmentKind::Table => assert_eq!(envelope.output.as_str().unwrap().as_bytes(), &blob.bytes[..]),
            _ => assert_eq!(envelope.output, json!({ "contentType": content_type, "bytes": blob.bytes.len() })),
        }
        assert!(!envelope.truncated);
    }
}

#[tokio::test]
async fn text_response_is_returned_as_text() {
    let world = World::start().await;
    for (path, start) in [("/text", "plain text, not JSON"), ("/html", "<!doctype html>")] {
        world.get("t", path, json!({}));
        let envelope = world.call("t", json!({})).await;
        assert!(envelope.output.as_str().unwrap().starts_with(start) && envelope.attachments.is_empty());
    }
}

#[tokio::test]
async fn endless_response_is_aborted() {
    let world = World::start().await;
    world.get("t", "/huge/1073741824", json!({}));
    let envelope = world.call("t", json!({})).await;
    assert!(
        crate::world::failure(&envelope).starts_with("PROVIDER_ERROR response_too_large"),
        "{}",
        crate::world::failure(&envelope)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The limit counts bytes of JSON, so escapes in the output count too.
    #[test]
    fn truncated_output_does_not_exceed_its_limit(value in crate::properties::any_json(), repeat in 1..40usize, limit in 64..600usize) {
        let value = json!(vec![value; repeat]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let given = value.clone();
            let world = World::with_functions(test_functions::library("given", move |_| std::future::ready(Ok(given.clone())))).await;
            world.function("t", "given", json!({ "maxOutputBytes": limit }));
            let envelope = world.call("t", json!({})).await;
            assert!(envelope.output.to_string().len() <= limit, "{} > {limit}: {}", envelope.output.to_string().len(), envelope.output);
            assert_eq!(envelope.truncated, value.to_string().len() > limit);
            assert!(envelope.output.is_array());
        });
    }
}
