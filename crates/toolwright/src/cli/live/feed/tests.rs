use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::cli::Connection;

/// A server that answers connection after connection with these parts of streams, then is gone. Gives what it was asked.
async fn served(listener: TcpListener, streams: Vec<String>) -> Vec<String> {
    let mut asked = Vec::new();
    for stream in streams {
        let (mut socket, _) = listener.accept().await.unwrap();
        asked.push(request(&mut socket).await);
        let answer = format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{stream}");
        socket.write_all(answer.as_bytes()).await.unwrap();
    }
    asked
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
    format!("event: {kind}\ndata: {}\n{id}\n", json!({ "type": kind, "content": content, "runId": "run_1" }))
}

async fn client() -> (Client, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connection = Connection { url, api_key: None, realm: None, json: false };
    (Client::new(&connection).unwrap(), listener)
}

/// What comes out of a feed, in words.
async fn heard(feed: Feed) -> Vec<String> {
    let word = |fed: Result<Fed, Failure>| match fed {
        Ok(Fed::Told(told)) => match told.what {
            Happening::TextDelta { content } => content,
            other => format!("{other:?}"),
        },
        Ok(Fed::Lost) => "lost".into(),
        Ok(Fed::Found) => "found".into(),
        Err(failure) => failure.to_string(),
    };
    feed.map(word).collect().await
}

#[tokio::test]
async fn a_stream_that_breaks_goes_on_after_the_last_event() {
    let (client, listener) = client().await;
    let first = event("THINKING", "", Some(1)) + &event("TEXT_DELTA", "The ans", None);
    let second = event("TEXT_DELTA", "The answer.", None) + &event("USAGE", "", Some(2));
    let third = event("DONE", "", Some(3));
    let (asked, heard) = tokio::join!(served(listener, vec![first, second, third]), async {
        heard(start(&client, "/execute/stream", &json!({})).await.unwrap()).await
    });
    assert_eq!(heard, ["Thinking", "The ans", "lost", "found", "The answer.", "Usage", "lost", "found", "Done"]);
    assert!(asked[0].starts_with("POST /execute/stream "), "{}", asked[0]);
    for (request, last) in [(&asked[1], 1), (&asked[2], 2)] {
        assert!(request.starts_with("GET /api/v1/ai/runs/run_1/events "), "{request}");
        assert!(request.contains(&format!("last-event-id: {last}\r\n")), "{request}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_is_given_up() {
    let (client, listener) = client().await;
    let (_, heard) = tokio::join!(served(listener, vec![event("THINKING", "", Some(1))]), async {
        heard(watch(&client, "run_1").await.unwrap()).await
    });
    assert_eq!(heard[..2], ["Thinking", "lost"]);
    assert!(heard[2].contains("the stream ended early"), "{heard:?}");
    assert_eq!(heard.len(), 3);
}

#[tokio::test]
async fn a_run_that_never_said_its_name_cannot_be_found_again() {
    let (client, listener) = client().await;
    let (_, heard) = tokio::join!(served(listener, vec![String::new()]), async {
        heard(start(&client, "/execute/stream", &json!({})).await.unwrap()).await
    });
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard[1].contains("the stream ended early"), "{heard:?}");
}
