//! A real server on port 0 with a database of its own.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;

use reqwest::{Method, StatusCode};
use serde_json::Value;
use sqlx::{Connection, Executor};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use toolwright_engine::{Engine, Options};
use toolwright_store::{Location, SealKey};

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

    /// A server that is not made as all are.
    pub async fn start_with(&self, change: impl FnOnce(&mut Options)) -> (Server, Running) {
        let seal = SealKey::from_file(self.folder.path().join("seal.key")).unwrap();
        let mut options = Options::in_folder(self.folder.path().to_owned(), seal);
        options.admin_key = Some(ADMIN_KEY.to_owned().into());
        if let Some(database) = &self.database {
            options.database = Some(Location::Postgres(database.url()));
            options.redis_url = Some(required("TOOLWRIGHT_TEST_REDIS_URL"));
        }
        change(&mut options);
        let (engine, _) = Engine::open(options).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stop = CancellationToken::new();
        let app = toolwright_api::router(engine.clone());
        let tasks = TaskTracker::new();
        let serving = axum::serve(listener, app).with_graceful_shutdown(stop.clone().cancelled_owned());
        tasks.spawn(async move { serving.await.unwrap() });
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let server = Server { address, key: ADMIN_KEY.to_owned(), realm: None, client };
        (server, Running { engine, stop, tasks })
    }

    pub async fn remove(self) {
        if let Some(database) = self.database {
            database.drop().await;
        }
    }
}

pub struct Running {
    pub engine: Engine,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Running {
    pub async fn stop(self) {
        self.stop.cancel();
        self.engine.stopping().cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.engine.finish_calls(std::time::Duration::ZERO).await;
        self.engine.close().await;
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

    /// Calls a tool and gives its envelope.
    pub async fn call(&self, tool: &str, input: Value) -> Value {
        self.post(&format!("tools/{tool}/execute"), serde_json::json!({ "input": input })).await.expect(200)
    }
}
