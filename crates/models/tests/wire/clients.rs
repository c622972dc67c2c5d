//! The selection of the HTTP client and the key for a request.

use toolwright_models::{ErrorKind, ModelConfig, ModelFactory, Provider, UrlSource};

use crate::openai::{DONE, chunk, finish};
use crate::server::{MockResponse, MockServer};
use crate::support::{KEY, RecordingSink, client, user_request};

/// Returns a client that cannot connect. The tests use it in place of a client with egress rules.
fn unreachable_client() -> reqwest::Client {
    client();
    reqwest::Client::builder().proxy(reqwest::Proxy::all("http://127.0.0.1:9").unwrap()).build().unwrap()
}

async fn server() -> MockServer {
    let stream = [chunk(serde_json::json!({"content": "Hi"})), finish("stop"), DONE.to_owned()];
    MockServer::start([MockResponse::stream(stream.concat())]).await
}

#[tokio::test]
async fn operator_client_is_used_only_for_the_url_of_the_operator() {
    let server = server().await;
    let url = format!("{}/v1", server.url);
    let operator_url = url.clone();
    let models =
        ModelFactory::new(unreachable_client()).with_operator_client(client()).with_environment(
            move |name| match name {
                "OPENAI_BASE_URL" => Some(operator_url.clone()),
                "OPENAI_API_KEY" => Some(KEY.to_owned()),
                _ => None,
            },
        );
    let plain = ModelConfig::new(Provider::OpenAi, "gpt-4o");
    assert_eq!(models.endpoint(&plain).unwrap().source, UrlSource::Operator);
    let reply = models.build(&plain).unwrap().complete(&user_request("hi"), &mut RecordingSink::default()).await;
    assert_eq!(reply.unwrap().content, "Hi");
    assert_eq!(server.single_request().headers["authorization"].to_str().unwrap(), format!("Bearer {KEY}"));

    let own = ModelConfig { base_url: Some(format!("{url}/other")), ..plain };
    let endpoint = models.endpoint(&own).unwrap();
    assert_eq!((endpoint.source, endpoint.url.unwrap().to_string()), (UrlSource::Definition, format!("{url}/other/")));
    let error =
        models.build(&own).unwrap().complete(&user_request("hi"), &mut RecordingSink::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Network);
    assert_eq!(server.requests().len(), 1, "the request of the definition must not reach the server");
}

#[tokio::test]
async fn operator_key_is_not_sent_to_the_url_of_a_definition() {
    let server = server().await;
    let models =
        ModelFactory::new(client()).with_environment(|name| (name == "OPENAI_API_KEY").then(|| KEY.to_owned()));
    let url = Some(format!("{}/v1", server.url));
    let config = ModelConfig { base_url: url, ..ModelConfig::new(Provider::OpenAi, "gpt-4o") };
    models.build(&config).unwrap().complete(&user_request("hi"), &mut RecordingSink::default()).await.unwrap();
    assert!(!format!("{:?}", server.single_request().headers).contains(KEY));
    assert!(!format!("{models:?}").contains(KEY));
}

#[tokio::test]
async fn model_without_key_or_url_or_name_is_rejected() {
    let models = ModelFactory::new(client()).with_environment(|_| None);
    let kind = |config: ModelConfig| models.build(&config).err().unwrap().kind;
    assert_eq!(kind(ModelConfig::new(Provider::Anthropic, "claude-sonnet-4")), ErrorKind::Auth);
    assert_eq!(kind(ModelConfig::new(Provider::Helix, "reasoner")), ErrorKind::InvalidRequest);
    assert_eq!(kind(ModelConfig::new(Provider::OpenAi, " ")), ErrorKind::InvalidRequest);
    let scripted = models.build(&ModelConfig::new(Provider::Scripted, "echo")).unwrap();
    let mut sink = RecordingSink::default();
    let reply = scripted.complete(&user_request("say it again"), &mut sink).await.unwrap();
    assert_eq!((reply.content.as_str(), sink.text.len()), ("say it again", 3));
}
