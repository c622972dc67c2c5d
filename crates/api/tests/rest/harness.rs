//! A real server on port 0 with a database of its own.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use sqlx::{Connection, Executor};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_api::{Mcp, McpServer};
use toolwright_engine::{Engine, Options};
use toolwright_mcp::{Client, ClientOptions, Endpoint, Imports, Reach, ServerOptions};
use toolwright_store::{Location, SealKey};
use toolwright_tools::http::{Egress, HttpClient};
use toolwright_types::ToolType;

pub const ADMIN_KEY: &str = "an-admin-key-for-tests";

#[derive(Clone, Copy, PartialEq)]
pub enum Edition {
    Sqlite,
    PostgresAndRedis,
}

/// A running server, and a client of it.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    pub key: String,
    pub realm: Option<String>,
    client: reqwest::Client,
}

/// Where a server keeps things; several servers may share one.
pub struct Home {
    folder: TempDir,
    database: Option<Database>,
}

struct Database {
    admin_url: String,
    name: String,
}

impl Home {
    pub async fn new(edition: Edition) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = match edition {
            Edition::Sqlite => None,
            Edition::PostgresAndRedis => Some(Database::create(folder.path()).await),
        };
        Self { folder, database }
    }

    pub async fn start(&self) -> (Server, Running) {
        self.start_with(|_| ()).await
    }

    /// Where its Postgres is.
    pub fn database_url(&self) -> String {
        self.database.as_ref().expect("a home with a database").url()
    }

    /// A server that is not made as all are.
    pub async fn start_with(&self, change: impl FnOnce(&mut Options)) -> (Server, Running) {
        let seal = SealKey::from_file(self.folder.path().join("seal.key")).unwrap();
        let mut options = Options::in_folder(self.folder.path().to_owned(), seal);
        options.admin_key = Some(ADMIN_KEY.to_owned().into());
        if let Some(database) = &self.database {
            options.database = Some(Location::Postgres(database.url()));
            options.redis_url = Some(required("TOOLWRIGHT_TEST_REDIS_URL"));
        }
        let client = mcp_client();
        options.backends.push((ToolType::ExternalMcp, Arc::new(client.clone())));
        change(&mut options);
        let (engine, _) = Engine::open(options).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let app = toolwright_api::router(engine.clone(), mcp(&engine, &client));
        let tasks = TaskTracker::new();
        let serving = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());
        tasks.spawn(async move { serving.await.unwrap() });
        // A connection of its own for each request: one that the server closes after an error is not met again.
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
        let server = Server { address, key: ADMIN_KEY.to_owned(), realm: None, client: http };
        (server, Running { engine, mcp_client: client, stop, tasks })
    }

    pub async fn remove(self) {
        if let Some(database) = self.database {
            database.drop().await;
        }
    }
}

/// Everything is allowed: what is refused is tested on the binary.
fn mcp_client() -> Client {
    Client::new(ClientOptions { http: HttpClient::new(Egress::default()), stdio: true })
}

fn mcp(engine: &Engine, client: &Client) -> Mcp {
    let options = ServerOptions { reach: Reach::loopback(), fixtures: false, largest_body: 1 << 20 };
    let server = McpServer { path: "/mcp".into(), endpoint: Endpoint::new(engine.clone(), options) };
    Mcp { server: Some(server), imports: Imports::new(engine.clone(), client.clone()) }
}

pub struct Running {
    pub engine: Engine,
    pub mcp_client: Client,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Running {
    pub async fn stop(self) {
        self.stop.cancel();
        self.engine.stopping().cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.engine.finish_calls(Duration::ZERO).await;
        self.engine.close().await;
        self.mcp_client.close().await;
    }
}

impl Database {
    async fn create(folder: &Path) -> Self {
        let admin_url = required("TOOLWRIGHT_TEST_POSTGRES_URL");
        let unique: String =
            folder.file_name().unwrap().to_string_lossy().chars().filter(char::is_ascii_alphanumeric).collect();
        let database = Self { admin_url, name: format!("rest_{}_{}", unique.to_ascii_lowercase(), std::process::id()) };
        database.admin(&format!("CREATE DATABASE {}", database.name)).await;
        database
    }

    fn url(&self) -> String {
        format!("{}/{}", self.admin_url.trim_end_matches('/'), self.name)
    }

    async fn drop(self) {
        self.admin(&format!("DROP DATABASE {} WITH (FORCE)", self.name)).await;
    }

    async fn admin(&self, statement: &str) {
        let url = format!("{}/postgres", self.admin_url.trim_end_matches('/'));
        let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
        connection.execute(sqlx::AssertSqlSafe(statement.to_owned())).await.unwrap();
        connection.close().await.unwrap();
    }
}

pub fn required(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} is not set; run through `make test` or `scripts/with-services`"))
}

/// Starts a server, runs the test on it, and takes everything down again.
pub async fn with_server<F: Future<Output = ()>>(edition: Edition, test: impl FnOnce(Server) -> F) {
    let home = Home::new(edition).await;
    let (server, running) = home.start().await;
    test(server).await;
    running.stop().await;
    home.remove().await;
}

/// Starts a server that reaches the mock of the providers, and has a key for it.
pub async fn with_mock<F: Future<Output = ()>>(test: impl FnOnce(Server) -> F) {
    let home = Home::new(Edition::Sqlite).await;
    let (server, running) =
        home.start_with(|options| options.egress_allow = vec!["127.0.0.0/8".parse().unwrap()]).await;
    server.post("secrets", json!({ "name": "model-key", "value": "sk-a-key-of-the-realm" })).await.expect(201);
    test(server).await;
    running.stop().await;
    home.remove().await;
}

/// A model of the mock.
pub fn openai(model: &str) -> Value {
    let base = format!("{}/v1", required("TOOLWRIGHT_TEST_AIMOCK_URL"));
    json!({ "provider": "openai", "model": model, "baseUrl": base, "apiKeySecretRef": "model-key" })
}

/// One event of a stream.
#[derive(Debug, Clone, PartialEq)]
pub struct SseEvent {
    pub id: Option<u64>,
    pub kind: String,
    pub data: Value,
}

impl SseEvent {
    /// The events of a stream's text; comments are left out.
    pub fn all(text: &str) -> Vec<Self> {
        text.split("\n\n").filter(|block| block.contains("data:")).map(Self::parse).collect()
    }

    fn parse(block: &str) -> Self {
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Self {
            id: field("id:").map(|text| text.parse().unwrap()),
            kind: field("event:").unwrap().to_owned(),
            data: serde_json::from_str(field("data:").unwrap()).unwrap(),
        }
    }
}

/// A stream that is read event by event.
pub struct Live {
    response: reqwest::Response,
    text: String,
}

impl Live {
    /// The next event; none at the end of the stream.
    pub async fn next(&mut self) -> Option<SseEvent> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (event, rest) = (SseEvent::all(block).pop(), rest.to_owned());
                self.text = rest;
                if event.is_some() {
                    return event;
                }
                continue;
            }
            let chunk = self.response.chunk().await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&chunk).unwrap());
        }
    }

    /// Reads on until an event of this kind.
    pub async fn until(&mut self, kind: &str) -> SseEvent {
        let found = soon(async {
            loop {
                match self.next().await {
                    Some(event) if event.kind != kind => {}
                    other => return other,
                }
            }
        });
        found.await.unwrap_or_else(|| panic!("the stream ended before {kind}"))
    }

    /// Everything that is left.
    pub async fn rest(mut self) -> Vec<SseEvent> {
        soon(async {
            let mut events = Vec::new();
            while let Some(event) = self.next().await {
                events.push(event);
            }
            events
        })
        .await
    }
}

/// What should not take long: a failure with a name instead of a test that hangs.
pub async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("this should not take so long")
}

/// What has to be over within two seconds.
pub async fn promptly<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(2), future).await.expect("this takes two seconds at most")
}

/// A definition with further fields.
pub fn with(mut base: Value, more: Value) -> Value {
    let Value::Object(more) = more else { return base };
    base.as_object_mut().unwrap().extend(more);
    base
}

/// A model that is not one: it answers by rules.
pub fn scripted(rules: Value) -> Value {
    json!({ "provider": "scripted", "model": "rules", "extraParams": { "script": { "rules": rules } } })
}

/// Rules that ask for these calls first, and then say this.
pub fn calls_then(calls: Value, text: &str) -> Value {
    json!([{ "when": { "turn": 0 }, "reply": { "toolCalls": calls } }, { "reply": { "text": text } }])
}

/// The receipts of a response, in the order of the calls.
pub fn receipts(response: &Value) -> Vec<Value> {
    let outputs = &response["outputs"];
    let order = outputs["tool_order"].as_array().unwrap().iter();
    order.map(|id| outputs["tools_by_id"][id.as_str().unwrap()].clone()).collect()
}

/// Why each call failed, in the order of the calls; null for those that did not.
pub fn reasons(response: &Value) -> Vec<Value> {
    receipts(response).iter().map(|receipt| receipt["error"]["details"]["reason"].clone()).collect()
}

/// An answer, read to its end.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// A problem of this status and code; gives its document.
    #[track_caller]
    pub fn problem(self, status: u16, code: &str) -> Value {
        assert_eq!(self.headers.get("content-type").unwrap(), "application/problem+json", "{}", self.text);
        let body = self.expect(status);
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["status"], status);
        body
    }
}

impl Server {
    /// The same server for another key.
    pub fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    /// The same server in another realm.
    pub fn in_realm(&self, realm: &str) -> Self {
        Self { realm: Some(realm.to_owned()), ..self.clone() }
    }

    pub fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/api/v1/ai/{path}") };
        let mut request = self.client.request(method, format!("http://{}{path}", self.address));
        if !self.key.is_empty() {
            request = request.bearer_auth(&self.key);
        }
        if let Some(realm) = &self.realm {
            request = request.header("x-realm", realm);
        }
        request
    }

    pub async fn send(&self, request: reqwest::RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        Answer { status: response.status(), headers: response.headers().clone(), text: response.text().await.unwrap() }
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::PUT, path).json(&body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::PATCH, path).json(&body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// The events of a stream that ends by itself.
    pub async fn stream(&self, path: &str, body: Value) -> Vec<SseEvent> {
        let answer = self.post(path, body).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        SseEvent::all(&answer.text)
    }

    /// The events of a run from after `seen` on, until the run ends.
    pub async fn events(&self, run: &str, seen: Option<u64>) -> Vec<SseEvent> {
        let answer = self.send(self.watching(run, seen)).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        SseEvent::all(&answer.text)
    }

    /// A request to watch a run.
    pub fn watching(&self, run: &str, seen: Option<u64>) -> reqwest::RequestBuilder {
        let request = self.request(Method::GET, &format!("runs/{run}/events"));
        seen.into_iter().fold(request, |request, id| request.header("last-event-id", id))
    }

    /// Reads a stream event by event.
    pub async fn live(&self, request: reqwest::RequestBuilder) -> Live {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Live { response, text: String::new() }
    }

    /// Starts a run and reads its stream event by event.
    pub async fn start(&self, agent: &str, message: &str) -> Live {
        let path = format!("agents/{agent}/execute/stream");
        self.live(self.request(Method::POST, &path).json(&json!({ "userMessage": message }))).await
    }

    /// Asks again and again until the answer fits; fails when it never does.
    pub async fn until(&self, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..500 {
            last = self.get(path).await.expect(200);
            if fits(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{path} never came to be as it should: {last}");
    }

    /// The same server for a new principal of this name in the same realm.
    pub async fn member(&self, name: &str) -> Self {
        self.with_key(self.issue(json!({ "principal": name })).await.as_str())
    }

    /// A new key.
    pub async fn issue(&self, body: Value) -> String {
        self.post("keys", body).await.expect(201)["key"].as_str().unwrap().to_owned()
    }

    /// Defines a tool that returns what it is given.
    pub async fn define_echo(&self, name: &str, more: Value) {
        let tool = json!({ "refName": name, "toolType": "FUNCTION", "description": name, "invocation": { "path": "echo" }, "outputJsonSchema": {} });
        self.post("tools", with(tool, more)).await.expect(201);
    }

    /// Defines a tool at a path of a server on this machine, and that server as its provider.
    pub async fn define_call(&self, name: &str, base_url: &str, path: &str, more: Value) {
        let provider = json!({ "refName": format!("at_{name}"), "baseUrl": base_url, "egressAllow": ["127.0.0.0/8"] });
        self.post("tool-providers", provider).await.expect(201);
        let tool = json!({ "refName": name, "toolType": "EXTERNAL_REST", "description": name, "providerRef": format!("at_{name}"), "invocation": { "path": path }, "timeoutMs": 60_000 });
        self.post("tools", with(tool, more)).await.expect(201);
    }

    /// Defines an agent that follows these rules.
    pub async fn define_agent(&self, name: &str, rules: Value, more: Value) -> Value {
        let agent = json!({ "refName": name, "llmConfig": scripted(rules) });
        self.post("agents", with(agent, more)).await.expect(201)
    }

    /// Runs an agent to its next rest.
    pub async fn run(&self, agent: &str, message: &str) -> Value {
        self.say(agent, json!({ "userMessage": message })).await.expect(200)
    }

    pub async fn say(&self, agent: &str, body: Value) -> Answer {
        self.post(&format!("agents/{agent}/execute"), body).await
    }

    /// Goes on with a conversation.
    pub async fn go_on(&self, agent: &str, conversation: &Value, message: &str) -> Answer {
        self.say(agent, json!({ "userMessage": message, "conversationId": conversation })).await
    }

    /// Decides on a call of a run, where both are in what the run answered.
    pub async fn decide(&self, response: &Value, at: usize, decision: Value) -> Answer {
        let approval = &response["approvals"][at];
        let (run, call) = (approval["runId"].as_str().unwrap(), approval["callId"].as_str().unwrap());
        self.post(&format!("runs/{run}/approvals/{call}"), decision).await
    }

    /// Calls a tool and gives its envelope.
    pub async fn call(&self, tool: &str, input: Value) -> Value {
        self.post(&format!("tools/{tool}/execute"), json!({ "input": input })).await.expect(200)
    }
}

/// Makes one test from each function, where no database has a part in what is tested.
#[macro_export]
macro_rules! on_sqlite {
    ($($name:ident),* $(,)?) => {
        mod sqlite_only {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::harness::with_server($crate::harness::Edition::Sqlite, |server| super::$name(server)).await;
            })*
        }
    };
}
