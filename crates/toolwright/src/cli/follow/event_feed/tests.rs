use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::cli::Connection;

/// Sends the first stream on the first connection, the second stream on the second connection, and so on. Closes each
/// connection after its stream. Returns the received requests.
async fn serve_streams(listener: TcpListener, streams: Vec<String>) -> Vec<String> {
    let mut requests = Vec::new();
    for stream in streams {
        let (mut socket, _) = listener.accept().await.unwrap();
        requests.push(request(&mut socket).await);
        let response =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{stream}");
        socket.write_all(response.as_bytes()).await.unwrap();
    }
    requests
}

async fn request(socket: &mut TcpStream) -> String {
    let mut text = String::new();
    while !text.contains("\r\n\r\n") {
        let mut bytes = [0; 1024];
        let read = socket.read(&mut bytes).await.unwrap();
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
    text
}

fn event(kind: &str, content: &str, id: Option<u64>) -> String {
    let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
    format!(
        "event: {kind}\ndata: {}\n{id}\n",
        json!({ "type": kind, "content": content, "iteration": 1, "runId": "run_1" })
    )
}

async fn client() -> (ApiClient, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connection = Connection { url, api_key: None, realm: None, json: false, yaml: false };
    (ApiClient::new(&connection).unwrap(), listener)
}

/// Collects the items of a feed as text.
async fn collect_items(feed: EventFeed) -> Vec<String> {
    let describe = |item: Result<FeedItem, Failure>| match item {
        Ok(FeedItem::Event(event)) => match event.kind {
            StreamEventKind::TextDelta => event.content.unwrap_or_default(),
            other => format!("{other:?}"),
        },
        Ok(FeedItem::Disconnected) => "disconnected".into(),
        Ok(FeedItem::Reconnected) => "reconnected".into(),
        Err(failure) => failure.to_string(),
    };
    feed.map(describe).collect().await
}

#[tokio::test]
async fn broken_stream_resumes_after_the_last_event() {
    let (client, listener) = client().await;
    let first = event("THINKING", "", Some(1)) + &event("TEXT_DELTA", "The ans", None);
    let second = event("TEXT_DELTA", "The answer.", None) + &event("USAGE", "", Some(2));
    let third = event("DONE", "", Some(3));
    let (requests, items) = tokio::join!(serve_streams(listener, vec![first, second, third]), async {
        collect_items(start_run(&client, "/execute/stream", &json!({})).await.unwrap()).await
    });
    assert_eq!(
        items,
        [
            "Thinking",
            "The ans",
            "disconnected",
            "reconnected",
            "The answer.",
            "Usage",
            "disconnected",
            "reconnected",
            "Done"
        ]
    );
    assert!(requests[0].starts_with("POST /execute/stream "), "{}", requests[0]);
    for (request, last) in [(&requests[1], 1), (&requests[2], 2)] {
        assert!(request.starts_with("GET /api/v1/ai/runs/run_1/events "), "{request}");
        assert!(request.contains(&format!("last-event-id: {last}\r\n")), "{request}");
    }
}

#[tokio::test(start_paused = true)]
async fn feed_fails_when_the_server_stays_unreachable() {
    let (client, listener) = client().await;
    let (_, items) = tokio::join!(serve_streams(listener, vec![event("THINKING", "", Some(1))]), async {
        collect_items(watch_run(&client, "run_1").await.unwrap()).await
    });
    assert_eq!(items[..2], ["Thinking", "disconnected"]);
    assert!(items[2].contains("the stream ended before the run"), "{items:?}");
    assert_eq!(items.len(), 3);
}

#[tokio::test]
async fn feed_fails_when_the_connection_breaks_before_the_run_id_is_known() {
    let (client, listener) = client().await;
    let (_, items) = tokio::join!(serve_streams(listener, vec![String::new()]), async {
        collect_items(start_run(&client, "/execute/stream", &json!({})).await.unwrap()).await
    });
    assert_eq!(items.len(), 2, "{items:?}");
    assert!(items[1].contains("the stream ended before the run"), "{items:?}");
}
