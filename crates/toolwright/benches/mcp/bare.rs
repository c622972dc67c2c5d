//! A server that implements the MCP protocol and nothing else. It runs as a second process of this benchmark program.
//! If it is started with a folder, a background task also records each call as one row in SQLite, with many rows per
//! commit.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Connection, Executor, SqliteConnection};
use tokio::sync::mpsc;

use crate::server::Server;

pub(crate) const FLAG: &str = "--bare-mcp-server";

/// Starts this program again as the server. If `folder` is given, the server records calls in that folder.
pub(crate) fn start(folder: Option<&Path>) -> Server {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(FLAG).args(folder).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    Server { child, address: line.trim().to_owned(), startup_ms: 0.0 }
}

/// Serves until it is killed.
#[expect(clippy::disallowed_methods, reason = "the process is killed together with its tasks")]
pub(crate) fn serve(folder: Option<PathBuf>) {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap());
        let config = StreamableHttpServerConfig::default().with_json_response(true);
        let journal = folder.map(|folder| {
            let (sender, receiver) = mpsc::channel(1024);
            tokio::spawn(record_calls(folder, receiver));
            sender
        });
        let echo = move || Ok(Echo { journal: journal.clone() });
        let service = StreamableHttpService::new(echo, Arc::new(LocalSessionManager::default()), config);
        let app = axum::Router::new().route_service("/mcp", service);
        axum::serve(axum::serve::ListenerExt::tap_io(listener, |tcp| drop(tcp.set_nodelay(true))), app).await.unwrap();
    });
}

/// Writes calls to SQLite. Each commit contains the calls of the last five milliseconds.
async fn record_calls(folder: PathBuf, mut calls: mpsc::Receiver<String>) {
    let options = SqliteConnectOptions::new().filename(folder.join("calls.db")).create_if_missing(true);
    let options = options.journal_mode(SqliteJournalMode::Wal).synchronous(SqliteSynchronous::Full);
    let mut connection = SqliteConnection::connect_with(&options).await.unwrap();
    connection.execute("CREATE TABLE calls (id INTEGER PRIMARY KEY, body TEXT NOT NULL)").await.unwrap();
    while let Some(first) = calls.recv().await {
        let mut batch = vec![first];
        let deadline = tokio::time::Instant::now() + Duration::from_millis(5);
        while let Ok(Some(next)) = tokio::time::timeout_at(deadline, calls.recv()).await {
            batch.push(next);
        }
        let mut transaction = connection.begin().await.unwrap();
        for calls in batch.chunks(64) {
            let rows = vec!["(?)"; calls.len()].join(", ");
            let insert = format!("INSERT INTO calls (body) VALUES {rows}");
            let insert = calls.iter().fold(sqlx::query(AssertSqlSafe(insert)), |insert, call| insert.bind(call));
            insert.execute(&mut *transaction).await.unwrap();
        }
        transaction.commit().await.unwrap();
    }
}

struct Echo {
    journal: Option<mpsc::Sender<String>>,
}

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _cx: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo", "Returns its input", Map::new())]))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = CallToolResult::structured(Value::Object(request.arguments.unwrap_or_default()));
        if let Some(journal) = &self.journal {
            let call = json!({ "tool": request.name, "result": result });
            journal.send(call.to_string()).await.unwrap();
        }
        Ok(result.into())
    }
}
