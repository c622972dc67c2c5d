//! Tests of document lists: order, pages and cursors.

use proptest::prelude::{any, prop_assert_eq, proptest};
use serde_json::json;
use toolwright_store::{
    DocumentCursor, DocumentRef, DocumentSort, DocumentSortKey, InvalidPageCursor, ListError, ListQuery,
};
use toolwright_types::DocumentKind::{Provider, Tool};

use crate::support::{TestDb, on_postgres_with, realm_with_tools, revision};

on_both_databases!(
    paging_lists_each_document_once_despite_inserts_and_deletes,
    documents_are_sorted_by_each_key_in_both_directions,
    cursor_from_a_list_with_another_sort_order_is_rejected,
    page_size_0_is_raised_to_1_and_page_size_u32_max_is_accepted,
);

async fn paging_lists_each_document_once_despite_inserts_and_deletes(db: TestDb) {
    let store = db.open().await;
    let tools = ["b", "d", "f", "h", "j", "l", "n"].map(|name| (name, json!({})));
    let realm = realm_with_tools(&store, &tools).await;
    let definitions = store.definitions(&realm);
    definitions.create(Provider, revision("c", json!({})), "someone").await.unwrap();

    let mut query = ListQuery { limit: 3, ..ListQuery::default() };
    let mut seen = Vec::new();
    for (before, after) in [("a", "e"), ("c", "m"), ("g", "z")] {
        let page = definitions.list(Tool, &query).await.unwrap();
        seen.extend(page.items.iter().map(|item| item.meta.ref_name.to_string()));
        // Convert the cursor to text and back, as a client request does.
        query.cursor = page.next.map(|next| next.to_string().parse().unwrap());
        definitions.create(Tool, revision(before, json!({})), "someone").await.unwrap();
        definitions.create(Tool, revision(after, json!({})), "someone").await.unwrap();
        if before == "a" {
            definitions.delete(Tool, &DocumentRef::parse(Tool, "f"), None).await.unwrap();
        }
    }

    // Documents that were inserted before the cursor position are missing. All others are listed, although the document
    // at the cursor was deleted.
    assert_eq!(seen, ["b", "d", "f", "h", "j", "l", "m", "n"]);
    assert_eq!(query.cursor, None);
}

async fn documents_are_sorted_by_each_key_in_both_directions(db: TestDb) {
    let store = db.open().await;
    let realm =
        realm_with_tools(&store, &[("b", json!({})), ("A_", json!({})), ("a-c", json!({})), ("C", json!({}))]).await;
    let definitions = store.definitions(&realm);
    definitions.replace(Tool, &DocumentRef::parse(Tool, "b"), None, revision("b", json!({})), "someone").await.unwrap();

    for (by, order) in [
        (DocumentSortKey::RefName, ["a-c", "A_", "b", "C"]),
        (DocumentSortKey::CreatedAt, ["b", "A_", "a-c", "C"]),
        (DocumentSortKey::UpdatedAt, ["A_", "a-c", "C", "b"]),
    ] {
        for descending in [false, true] {
            let mut expected = order;
            if descending {
                expected.reverse();
            }
            let mut query = ListQuery { sort: DocumentSort { by, descending }, limit: 1, ..ListQuery::default() };
            let mut seen = Vec::new();
            loop {
                let page = definitions.list(Tool, &query).await.unwrap();
                seen.extend(page.items.iter().map(|item| item.meta.ref_name.to_string()));
                query.cursor = page.next;
                if query.cursor.is_none() {
                    break;
                }
            }
            assert_eq!(seen, expected, "{by:?}, descending: {descending}");
        }
    }
}

async fn cursor_from_a_list_with_another_sort_order_is_rejected(db: TestDb) {
    let store = db.open().await;
    let realm = realm_with_tools(&store, &[("a", json!({})), ("b", json!({}))]).await;
    let definitions = store.definitions(&realm);
    let first = definitions.list(Tool, &ListQuery { limit: 1, ..ListQuery::default() }).await.unwrap();
    let query = ListQuery {
        sort: DocumentSort { by: DocumentSortKey::CreatedAt, descending: false },
        cursor: first.next,
        ..ListQuery::default()
    };
    let error = definitions.list(Tool, &query).await.unwrap_err();
    assert!(matches!(error, ListError::CursorSortMismatch), "{error:?}");
}

async fn page_size_0_is_raised_to_1_and_page_size_u32_max_is_accepted(db: TestDb) {
    let store = db.open().await;
    let realm = realm_with_tools(&store, &[("a", json!({})), ("b", json!({}))]).await;
    let definitions = store.definitions(&realm);
    for (limit, expected) in [(0, 1), (1, 1), (2, 2), (u32::MAX, 2)] {
        let page = definitions.list(Tool, &ListQuery { limit, ..ListQuery::default() }).await.unwrap();
        assert_eq!(page.items.len(), expected);
        assert_eq!(page.next.is_some(), expected == 1);
    }
}

/// With an English collation Postgres would sort `A_` before `a-c`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_locale_does_not_change_the_sort_order() {
    let english = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C' ENCODING 'UTF8'";
    on_postgres_with(english, documents_are_sorted_by_each_key_in_both_directions).await;
}

#[test]
fn malformed_document_cursor_is_rejected() {
    use base64::Engine as _;
    let encode = |json: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json);
    let good = r#"{"s":{"by":"refName","descending":false},"a":"x","i":"tool_1"}"#;
    assert!(encode(good).parse::<DocumentCursor>().is_ok());
    for bad in [
        String::new(),
        "!".into(),
        encode("{}"),
        encode("[]"),
        encode(&good.replace("\"x\"", "5")),
        encode(&good.replace("refName", "createdAt")),
        encode(&good.replace("refName", "shoeSize")),
        encode(&good.replace('x', "\\u0000")),
        encode(&good.replace("tool_1", "\\u0000")),
        encode(&good.replace("\"i\"", "\"more\":1,\"i\"")),
        format!("{}=", encode(good)),
    ] {
        assert_eq!(bad.parse::<DocumentCursor>(), Err(InvalidPageCursor), "{bad}");
    }
}

proptest! {
    #[test]
    fn cursor_is_unchanged_after_formatting_and_parsing(bytes in any::<Vec<u8>>(), text in any::<String>()) {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
        for text in [encoded, text] {
            if let Ok(cursor) = text.parse::<DocumentCursor>() {
                prop_assert_eq!(cursor.to_string().parse::<DocumentCursor>(), Ok(cursor));
            }
        }
    }
}
