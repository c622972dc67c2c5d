//! Which client and which key a request is made with.

use toolwright_models::{ErrorKind, ModelConfig, Models, Provider, UrlSource};

use crate::openai::{DONE, chunk, finish};
use crate::server::{Answer, Server};
use crate::support::{Heard, KEY, client, user};

/// A client that reaches nobody, in the place of one under egress rules.
fn guarded() -> reqwest::Client {
    client();
    reqwest::Client::builder().proxy(reqwest::Proxy::all("http://127.0.0.1:9").unwrap()).build().unwrap()
}

async fn server() -> Server {
    let stream = [chunk(serde_json::json!({"content": "Hi"})), finish("stop"), DONE.to_owned()];
    Server::start([Answer::stream(stream.concat())]).await
}

#[tokio::test]
async fn the_operators_address_is_exempt_from_the_rules_and_a_definitions_is_not() {
    let server = server().await;
    let url = format!("{}/v1", server.url);
    let of_operator = url.clone();
    let models = Models::new(guarded()).with_operators_client(client()).with_environment(move |name| match name {
        "OPENAI_BASE_URL" => Some(of_operator.clone()),
        "OPENAI_API_KEY" => Some(KEY.to_owned()),
        _ => None,
    });
    let plain = ModelConfig::new(Provider::OpenAi, "gpt-4o");
    assert_eq!(models.endpoint(&plain).unwrap().source, UrlSource::Operator);
    let reply = models.build(&plain).unwrap().complete(&user("hi"), &mut Heard::default()).await;
    assert_eq!(reply.unwrap().content, "Hi");
    assert_eq!(server.only().headers["authorization"].to_str().unwrap(), format!("Bearer {KEY}"));

    let own = ModelConfig { base_url: Some(format!("{url}/other")), ..plain };
    let endpoint = models.endpoint(&own).unwrap();
    assert_eq!((endpoint.source, endpoint.url.unwrap().to_string()), (UrlSource::Definition, format!("{url}/other/")));
    let error = models.build(&own).unwrap().complete(&user("hi"), &mut Heard::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Network);
    assert_eq!(server.asked().len(), 1, "the guarded client was used");
}

#[tokio::test]
async fn the_operators_key_does_not_go_to_an_address_of_a_definition() {
    let server = server().await;
    let models = Models::new(client()).with_environment(|name| (name == "OPENAI_API_KEY").then(|| KEY.to_owned()));
    let url = Some(format!("{}/v1", server.url));
    let config = ModelConfig { base_url: url, ..ModelConfig::new(Provider::OpenAi, "gpt-4o") };
    models.build(&config).unwrap().complete(&user("hi"), &mut Heard::default()).await.unwrap();
    assert!(!format!("{:?}", server.only().headers).contains(KEY));
    assert!(!format!("{models:?}").contains(KEY));
}

#[tokio::test]
async fn what_cannot_be_built_says_why() {
    let models = Models::new(client()).with_environment(|_| None);
    let kind = |config: ModelConfig| models.build(&config).err().unwrap().kind;
    assert_eq!(kind(ModelConfig::new(Provider::Anthropic, "claude-sonnet-4")), ErrorKind::Auth);
    assert_eq!(kind(ModelConfig::new(Provider::Helix, "reasoner")), ErrorKind::InvalidRequest);
    assert_eq!(kind(ModelConfig::new(Provider::OpenAi, " ")), ErrorKind::InvalidRequest);
    let scripted = models.build(&ModelConfig::new(Provider::Scripted, "echo")).unwrap();
    let mut heard = Heard::default();
    let reply = scripted.complete(&user("say it again"), &mut heard).await.unwrap();
    assert_eq!((reply.content.as_str(), heard.text.len()), ("say it again", 3));
}
