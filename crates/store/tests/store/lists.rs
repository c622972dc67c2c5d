//! Lists: order, pages, filters.

use proptest::prelude::{any, prop_assert_eq, proptest};
use serde_json::json;
use toolwright_store::{Cursor, InvalidCursor, ListError, ListQuery, Ref, Sort, SortKey};
use toolwright_types::DocumentKind::{Provider, Tool};

use crate::support::{TestDb, on_postgres_with, revision, with_tools};

on_both_databases!(
    pages_are_complete_while_documents_come_and_go,
    every_order_goes_both_ways,
    a_cursor_is_good_for_its_own_order_only,
    a_page_holds_at_least_one_and_not_more_than_a_thousand,
);

async fn pages_are_complete_while_documents_come_and_go(db: TestDb) {
    let store = db.open().await;
    let tools = ["b", "d", "f", "h", "j", "l", "n"].map(|name| (name, json!({})));
    let realm = with_tools(&store, &tools).await;
    let definitions = store.in_realm(&realm);
    definitions.create(Provider, revision("c", json!({})), "someone").await.unwrap();

    let mut query = ListQuery { limit: 3, ..ListQuery::default() };
    let mut seen = Vec::new();
    for (before, after) in [("a", "e"), ("c", "m"), ("g", "z")] {
        let page = definitions.list(Tool, &query).await.unwrap();
        seen.extend(page.items.iter().map(|item| item.meta.ref_name.to_string()));
        // A cursor travels as text.
        query.cursor = page.next.map(|next| next.to_string().parse().unwrap());
        definitions.create(Tool, revision(before, json!({})), "someone").await.unwrap();
        definitions.create(Tool, revision(after, json!({})), "someone").await.unwrap();
        if before == "a" {
            definitions.delete(Tool, &Ref::parse(Tool, "f"), None).await.unwrap();
        }
    }

    // What came before the end of a page already shown is missed, even where that end was deleted; the rest is there.
    assert_eq!(seen, ["b", "d", "f", "h", "j", "l", "m", "n"]);
    assert_eq!(query.cursor, None);
}

async fn every_order_goes_both_ways(db: TestDb) {
    let store = db.open().await;
    let realm = with_tools(&store, &[("b", json!({})), ("A_", json!({})), ("a-c", json!({})), ("C", json!({}))]).await;
    let definitions = store.in_realm(&realm);
    definitions.replace(Tool, &Ref::parse(Tool, "b"), None, revision("b", json!({})), "someone").await.unwrap();

    for (by, order) in [
        (SortKey::RefName, ["a-c", "A_", "b", "C"]),
        (SortKey::CreatedAt, ["b", "A_", "a-c", "C"]),
        (SortKey::UpdatedAt, ["A_", "a-c", "C", "b"]),
    ] {
        for descending in [false, true] {
            let mut expected = order;
            if descending {
                expected.reverse();
            }
            let mut query = ListQuery { sort: Sort { by, descending }, limit: 1, ..ListQuery::default() };
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

async fn a_cursor_is_good_for_its_own_order_only(db: TestDb) {
    let store = db.open().await;
    let realm = with_tools(&store, &[("a", json!({})), ("b", json!({}))]).await;
    let definitions = store.in_realm(&realm);
    let first = definitions.list(Tool, &ListQuery { limit: 1, ..ListQuery::default() }).await.unwrap();
    let query = ListQuery {
        sort: Sort { by: SortKey::CreatedAt, descending: false },
        cursor: first.next,
        ..ListQuery::default()
    };
    let refused = definitions.list(Tool, &query).await.unwrap_err();
    assert!(matches!(refused, ListError::CursorOfAnotherOrder), "{refused:?}");
}

async fn a_page_holds_at_least_one_and_not_more_than_a_thousand(db: TestDb) {
    let store = db.open().await;
    let realm = with_tools(&store, &[("a", json!({})), ("b", json!({}))]).await;
    let definitions = store.in_realm(&realm);
    for (limit, expected) in [(0, 1), (1, 1), (2, 2), (u32::MAX, 2)] {
        let page = definitions.list(Tool, &ListQuery { limit, ..ListQuery::default() }).await.unwrap();
        assert_eq!(page.items.len(), expected);
        assert_eq!(page.next.is_some(), expected == 1);
    }
}

/// English would put `A_` before `a-c`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_locale_of_a_postgres_database_does_not_change_the_order() {
    let english = "TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C' ENCODING 'UTF8'";
    on_postgres_with(english, every_order_goes_both_ways).await;
}

#[test]
fn text_that_is_no_cursor_is_refused() {
    use base64::Engine as _;
    let encode = |json: &str| base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(json);
    let good = r#"{"s":{"by":"refName","descending":false},"a":"x","i":"tool_1"}"#;
    assert!(encode(good).parse::<Cursor>().is_ok());
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
        assert_eq!(bad.parse::<Cursor>(), Err(InvalidCursor), "{bad}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_the_cursor_parser_stumble(bytes in any::<Vec<u8>>(), text in any::<String>()) {
        use base64::Engine as _;
        let encoded = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
        for text in [encoded, text] {
            if let Ok(cursor) = text.parse::<Cursor>() {
                prop_assert_eq!(cursor.to_string().parse::<Cursor>(), Ok(cursor));
            }
        }
    }
}
