//! Outputs that are large or not JSON: what stays in the envelope, and where the rest goes.

use proptest::prelude::*;
use serde_json::{Value, json};
use toolwright_types::AttachmentKind;

use crate::stand_ins;
use crate::world::World;

#[tokio::test]
async fn what_exceeds_the_limit_is_cut_and_attached_whole() {
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
async fn what_fits_exactly_is_not_cut() {
    let world = World::start().await;
    for (bytes, cut) in [(1000, false), (1001, true)] {
        world.get("t", &format!("/huge/{bytes}"), json!({ "maxOutputBytes": 1000 }));
        let envelope = world.call("t", json!({})).await;
        assert_eq!(envelope.truncated, cut, "{bytes}");
        assert!(envelope.output.to_string().len() <= 1000);
    }
}

#[tokio::test]
async fn the_preview_of_a_document_keeps_its_shape_and_the_blob_is_the_document() {
    let rows = |n: usize| json!({ "rows": (0..n).map(|n| json!({ "id": n, "name": "ä\n\"".repeat(9) })).collect::<Vec<_>>(), "total": n });
    let world = World::with_functions(stand_ins::library("rows", move |_| async move { Ok(rows(500)) })).await;
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
async fn other_media_are_attached_by_kind() {
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
async fn text_is_text() {
    let world = World::start().await;
    for (path, start) in [("/text", "plain text, not JSON"), ("/html", "<!doctype html>")] {
        world.get("t", path, json!({}));
        let envelope = world.call("t", json!({})).await;
        assert!(envelope.output.as_str().unwrap().starts_with(start) && envelope.attachments.is_empty());
    }
}

#[tokio::test]
async fn an_answer_without_end_is_given_up() {
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

    /// Whatever is cut, the envelope's output fits the limit to the byte, also where escapes make text longer.
    #[test]
    fn a_cut_output_never_exceeds_its_limit(value in crate::properties::any_json(), repeat in 1..40usize, limit in 64..600usize) {
        let value = json!(vec![value; repeat]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let given = value.clone();
            let world = World::with_functions(stand_ins::library("given", move |_| std::future::ready(Ok(given.clone())))).await;
            world.function("t", "given", json!({ "maxOutputBytes": limit }));
            let envelope = world.call("t", json!({})).await;
            assert!(envelope.output.to_string().len() <= limit, "{} > {limit}: {}", envelope.output.to_string().len(), envelope.output);
            assert_eq!(envelope.truncated, value.to_string().len() > limit);
            assert!(envelope.output.is_array());
        });
    }
}
