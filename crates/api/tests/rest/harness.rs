//! Starts servers for tests, each on port 0 and with a new database, and provides an HTTP client for them.

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
use toolwright_api::{McpServer, McpServices};
use toolwright_engine::{Engine, Options};
use toolwright_mcp::{Client, ClientOptions, Endpoint, HostPolicy, McpImports, ProcessLimits, ServerOptions};
use toolwright_store::{Location, SealKey};
use toolwright_tools::http::{EgressPolicy, HttpClient};
use toolwright_types::ToolType;

use crate::contract::Exchange;
use crate::event_stream::{EventStream, SseEvent};

pub(crate) const ADMIN_KEY: &str = "an-admin-key-for-tests";

/// The maximum number of commands of MCP providers that one principal may start.
pub(crate) const MAX_MCP_PROCESSES: usize = 4;
/// The maximum number of MCP sessions of one principal.
pub(crate) const MAX_MCP_SESSIONS: usize = 8;

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Storage {
    Sqlite,
    PostgresAndRedis,
}

/// An HTTP client of a running server. It sends an API key and, if set, a realm.
#[derive(Clone)]
pub(crate) struct Server {
    pub address: SocketAddr,
    pub key: String,
    pub realm: Option<String>,
    client: reqwest::Client,
}

/// A data folder and a database, on which a test can start one or more servers.
pub(crate) struct Deployment {
    folder: TempDir,
    database: Option<Database>,
}

struct Database {
    admin_url: String,
    name: String,
}

impl Deployment {
    pub(crate) async fn new(storage: Storage) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = match storage {
            Storage::Sqlite => None,
            Storage::PostgresAndRedis => Some(Database::create(folder.path()).await),
        };
        Self { folder, database }
    }

    pub(crate) async fn start(&self) -> (Server, RunningServer) {
        self.start_with(|_| ()).await
    }

    /// Returns the URL of the Postgres database. Panics if the deployment uses SQLite.
    pub(crate) fn database_url(&self) -> String {
        self.database.as_ref().expect("a deployment with Postgres").url()
    }

    /// Changes rows of the SQLite database while no server is running.
    pub(crate) async fn change_sqlite(&self, statement: &str) {
        let url = format!("sqlite://{}", self.folder.path().join("toolwright.db").display());
        let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
        connection.execute(sqlx::AssertSqlSafe(statement.to_owned())).await.unwrap();
        connection.close().await.unwrap();
    }

    /// Starts a server. `change` can modify its options.
    pub(crate) async fn start_with(&self, change: impl FnOnce(&mut Options)) -> (Server, RunningServer) {
        let seal = SealKey::from_file(self.folder.path().join("seal.key")).unwrap();
        let mut options = Options::in_folder(self.folder.path().to_owned(), seal);
        options.admin_key = Some(ADMIN_KEY.to_owned().into());
        if let Some(database) = &self.database {
            options.database = Some(Location::Postgres(database.url()));
            options.redis_url = Some(required_env("TOOLWRIGHT_TEST_REDIS_URL"));
        }
        let client = mcp_client();
        options.backends.push((ToolType::ExternalMcp, Arc::new(client.clone())));
        change(&mut options);
        let (engine, _) = Engine::open(options).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let app = toolwright_api::router(engine.clone(), mcp_services(&engine, &client));
        let tasks = TaskTracker::new();
        let serving = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());
        tasks.spawn(async move { serving.await.unwrap() });
        // The client opens a new connection for every request, because the server closes the connection after some
        // errors.
        let http = reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap();
        let server = Server { address, key: ADMIN_KEY.to_owned(), realm: None, client: http };
        (server, RunningServer { engine, mcp_client: client, stop, tasks })
    }

    pub(crate) async fn remove(self) {
        if let Some(database) = self.database {
            database.drop().await;
        }
    }
}

/// Returns an MCP client that may start stdio servers. `toolwright/tests/mcp/servers.rs` tests that stdio can be
/// disabled.
fn mcp_client() -> Client {
    let process_limits = ProcessLimits { per_realm: 10, per_principal: MAX_MCP_PROCESSES };
    let http = HttpClient::new(EgressPolicy::default());
    Client::new(ClientOptions { http, stdio: true, process_limits, command_user: None })
}

fn mcp_services(engine: &Engine, client: &Client) -> McpServices {
    let options = ServerOptions {
        host_policy: HostPolicy::loopback(),
        fixtures: false,
        max_body_bytes: 1 << 20,
        max_sessions_per_principal: MAX_MCP_SESSIONS,
    };
    let server = McpServer { path: "/mcp".into(), endpoint: Endpoint::new(engine.clone(), options) };
    McpServices { server: Some(server), imports: McpImports::new(engine.clone(), client.clone()) }
}

pub(crate) struct RunningServer {
    pub engine: Engine,
    pub mcp_client: Client,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl RunningServer {
    pub(crate) async fn stop(self) {
        self.stop.cancel();
        self.engine.shutdown_token().cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.engine.drain_calls(Duration::ZERO).await;
        self.engine.close().await;
        self.mcp_client.close().await;
    }
}

impl Database {
    async fn create(folder: &Path) -> Self {
        let admin_url = required_env("TOOLWRIGHT_TEST_POSTGRES_URL");
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

pub(crate) fn required_env(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} is not set; run through `make test` or `scripts/with-services`"))
}

/// Starts a server, runs the test with it, stops the server and removes its database.
pub(crate) async fn with_server<F: Future<Output = ()>>(storage: Storage, test: impl FnOnce(Server) -> F) {
    let deployment = Deployment::new(storage).await;
    let (server, running) = deployment.start().await;
    test(server).await;
    running.stop().await;
    deployment.remove().await;
}

/// Runs a test with a server that may call the mock of the model providers. The secret `model-key` is the mock's API
/// key.
pub(crate) async fn with_model_mock<F: Future<Output = ()>>(test: impl FnOnce(Server) -> F) {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) =
        deployment.start_with(|options| options.egress_allow = vec!["127.0.0.0/8".parse().unwrap()]).await;
    server.post("secrets", json!({ "name": "model-key", "value": "sk-a-key-of-the-realm" })).await.expect(201);
    test(server).await;
    running.stop().await;
    deployment.remove().await;
}

/// Returns the configuration of an OpenAI model whose requests go to the mock.
pub(crate) fn openai_model(model: &str) -> Value {
    let base = format!("{}/v1", required_env("TOOLWRIGHT_TEST_AIMOCK_URL"));
    json!({ "provider": "openai", "model": model, "baseUrl": base, "apiKeySecretRef": "model-key" })
}

/// Awaits a future for at most 20 seconds, so that a test fails instead of hanging.
pub(crate) async fn with_timeout<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future).await.expect("timed out after 20 seconds")
}

/// Awaits a future that must complete within two seconds.
pub(crate) async fn within_two_seconds<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(2), future).await.expect("timed out after 2 seconds")
}

/// Returns `base` with the fields of `more` added or replaced.
pub(crate) fn merge(mut base: Value, more: Value) -> Value {
    let Value::Object(more) = more else { return base };
    base.as_object_mut().unwrap().extend(more);
    base
}

/// Returns the configuration of a scripted model that chooses its replies by `rules`.
pub(crate) fn scripted_model(rules: Value) -> Value {
    json!({ "provider": "scripted", "model": "rules", "extraParams": { "script": { "rules": rules } } })
}

/// Returns the rules of a scripted model that makes the calls `calls` in its first turn and then replies with `text`.
pub(crate) fn calls_then(calls: Value, text: &str) -> Value {
    json!([{ "when": { "turn": 0 }, "reply": { "toolCalls": calls } }, { "reply": { "text": text } }])
}

/// Returns the envelopes of a response in the order of the calls.
pub(crate) fn envelopes(response: &Value) -> Vec<Value> {
    let outputs = &response["outputs"];
    let order = outputs["tool_order"].as_array().unwrap().iter();
    order.map(|id| outputs["tools_by_id"][id.as_str().unwrap()].clone()).collect()
}

/// Returns the error reason of each call in the order of the calls, or null if the call succeeded.
pub(crate) fn error_reasons(response: &Value) -> Vec<Value> {
    envelopes(response).iter().map(|envelope| envelope["error"]["details"]["reason"].clone()).collect()
}

/// An HTTP response with its complete body.
#[derive(Debug)]
pub(crate) struct Response {
    pub status: StatusCode,
    pub headers: reqwest::header::HeaderMap,
    pub text: String,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        if self.text.is_empty() { Value::Null } else { self.json() }
    }

    /// Asserts that the response is a problem document with this status and error code, and returns the document.
    #[track_caller]
    pub(crate) fn problem(self, status: u16, code: &str) -> Value {
        assert_eq!(self.headers.get("content-type").unwrap(), "application/problem+json", "{}", self.text);
        let body = self.expect(status);
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body["status"], status);
        body
    }
}

impl Server {
    /// Returns a client with another API key.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Self { key: key.to_owned(), ..self.clone() }
    }

    /// Returns a client in another realm.
    pub(crate) fn in_realm(&self, realm: &str) -> Self {
        Self { realm: Some(realm.to_owned()), ..self.clone() }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
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

    /// Sends a request. Panics if the request or the response does not match `openapi.json`.
    pub(crate) async fn send(&self, request: reqwest::RequestBuilder) -> Response {
        let request = request.build().unwrap();
        let exchange = Exchange::new(&request);
        let response = Box::pin(self.client.execute(request)).await.unwrap();
        let response = Response {
            status: response.status(),
            headers: response.headers().clone(),
            text: response.text().await.unwrap(),
        };
        if let Some(exchange) = exchange {
            exchange.check(&response);
        }
        response
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send(self.request(Method::GET, path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Response {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Response {
        self.send(self.request(Method::PUT, path).json(&body)).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Response {
        self.send(self.request(Method::PATCH, path).json(&body)).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Response {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// Sends a POST request and returns all events of the response.
    pub(crate) async fn stream(&self, path: &str, body: Value) -> Vec<SseEvent> {
        let answer = self.post(path, body).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        SseEvent::all(&answer.text)
    }

    /// Returns the events of a run up to its end. If `seen` is set, only events after this id are returned.
    pub(crate) async fn events(&self, run: &str, seen: Option<u64>) -> Vec<SseEvent> {
        let answer = self.send(self.watch_request(run, seen)).await;
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text);
        SseEvent::all(&answer.text)
    }

    /// Builds a request for the event stream of a run.
    pub(crate) fn watch_request(&self, run: &str, seen: Option<u64>) -> reqwest::RequestBuilder {
        let request = self.request(Method::GET, &format!("runs/{run}/events"));
        seen.into_iter().fold(request, |request, id| request.header("last-event-id", id))
    }

    /// Sends a request and opens its event stream.
    pub(crate) async fn open_stream(&self, request: reqwest::RequestBuilder) -> EventStream {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        EventStream::new(response)
    }

    /// Starts a run and opens its event stream.
    pub(crate) async fn start_stream(&self, agent: &str, message: &str) -> EventStream {
        let path = format!("agents/{agent}/execute/stream");
        self.open_stream(self.request(Method::POST, &path).json(&json!({ "userMessage": message }))).await
    }

    /// Polls a path until the predicate returns true for its response. Panics after 500 attempts.
    pub(crate) async fn poll_until(&self, path: &str, predicate: impl Fn(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        for _ in 0..500 {
            last = self.get(path).await.expect(200);
            if predicate(&last) {
                return last;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("{path} never satisfied the predicate: {last}");
    }

    /// Creates a principal with the member role in the same realm and returns its client.
    pub(crate) async fn member(&self, name: &str) -> Self {
        self.with_key(self.issue_key(json!({ "principal": name })).await.as_str())
    }

    /// Creates an API key and returns it.
    pub(crate) async fn issue_key(&self, body: Value) -> String {
        self.post("keys", body).await.expect(201)["key"].as_str().unwrap().to_owned()
    }

    /// Defines a tool that returns its input.
    pub(crate) async fn define_echo(&self, name: &str, more: Value) {
        let tool = json!({ "refName": name, "toolType": "FUNCTION", "description": name, "invocation": { "path": "echo" }, "outputJsonSchema": {} });
        self.post("tools", merge(tool, more)).await.expect(201);
    }

    /// Defines an HTTP tool that calls a path of a local server, and a provider for that server.
    pub(crate) async fn define_http_tool(&self, name: &str, base_url: &str, path: &str, more: Value) {
        let provider = json!({ "refName": format!("at_{name}"), "baseUrl": base_url, "egressAllow": ["127.0.0.0/8"] });
        self.post("tool-providers", provider).await.expect(201);
        let tool = json!({ "refName": name, "toolType": "EXTERNAL_REST", "description": name, "providerRef": format!("at_{name}"), "invocation": { "path": path }, "timeoutMs": 60_000 });
        self.post("tools", merge(tool, more)).await.expect(201);
    }

    /// Defines an agent with a scripted model.
    pub(crate) async fn define_agent(&self, name: &str, rules: Value, more: Value) -> Value {
        let agent = json!({ "refName": name, "llmConfig": scripted_model(rules) });
        self.post("agents", merge(agent, more)).await.expect(201)
    }

    /// Runs an agent and returns the response, which the server sends when the run ends or waits.
    pub(crate) async fn run(&self, agent: &str, message: &str) -> Value {
        self.execute_agent(agent, json!({ "userMessage": message })).await.expect(200)
    }

    pub(crate) async fn execute_agent(&self, agent: &str, body: Value) -> Response {
        self.post(&format!("agents/{agent}/execute"), body).await
    }

    /// Sends a message to an existing conversation.
    pub(crate) async fn continue_conversation(&self, agent: &str, conversation: &Value, message: &str) -> Response {
        self.execute_agent(agent, json!({ "userMessage": message, "conversationId": conversation })).await
    }

    /// Sends a decision on the approval at position `at` in the response of a run.
    pub(crate) async fn decide(&self, response: &Value, at: usize, decision: Value) -> Response {
        let approval = &response["approvals"][at];
        let (run, call) = (approval["runId"].as_str().unwrap(), approval["callId"].as_str().unwrap());
        self.post(&format!("runs/{run}/approvals/{call}"), decision).await
    }

    /// Calls a tool and returns its envelope.
    pub(crate) async fn call(&self, tool: &str, input: Value) -> Value {
        self.post(&format!("tools/{tool}/execute"), json!({ "input": input })).await.expect(200)
    }
}

/// Generates one test on SQLite from each function. For behaviour that does not depend on the database.
#[macro_export]
macro_rules! on_sqlite {
    ($($name:ident),* $(,)?) => {
        mod sqlite_only {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                $crate::harness::with_server($crate::harness::Storage::Sqlite, |server| super::$name(server)).await;
            })*
        }
    };
}
