//! The MCP server over real HTTP: clients of both kinds, and what they say.

mod calls;
mod consent;
mod messages;
mod plain;
mod progress;

use reqwest::Method;
use serde_json::{Value, json};

use crate::harness::{Answer, Server, soon};

const NEWEST: &str = "2026-07-28";

const BEFORE: &str = "2025-11-25";

/// A client that can ask its user, or not.
#[derive(Clone)]
struct Client {
    server: Server,
    asks: bool,
}

impl Client {
    fn of(server: &Server) -> Self {
        Self { server: server.clone(), asks: false }
    }

    fn that_asks(server: &Server) -> Self {
        Self { server: server.clone(), asks: true }
    }

    fn request(&self, method: &str, mut params: Value) -> reqwest::RequestBuilder {
        let capabilities = if self.asks { json!({ "elicitation": { "form": {} } }) } else { json!({}) };
        params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(NEWEST);
        params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        let named = params.get("name").or_else(|| params.get("uri")).and_then(Value::as_str).map(str::to_owned);
        let mut request = post(&self.server)
            .header("mcp-protocol-version", NEWEST)
            .header("mcp-method", method)
            .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        if let Some(name) = named {
            request = request.header("mcp-name", name);
        }
        request
    }

    /// The reply to a request, result or error.
    async fn reply(&self, method: &str, params: Value) -> Value {
        reply(self.server.send(self.request(method, params)).await)
    }

    async fn result(&self, method: &str, params: Value) -> Value {
        let mut reply = self.reply(method, params).await;
        assert!(reply.get("error").is_none(), "{reply}");
        reply["result"].take()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({ "name": tool, "arguments": arguments })).await
    }

    /// Repeats a call with the answers to what it asked.
    async fn answer(&self, tool: &str, arguments: Value, asked: &Value, answers: Value) -> Value {
        let state = &asked["requestState"];
        let params = json!({ "name": tool, "arguments": arguments, "inputResponses": answers, "requestState": state });
        self.result("tools/call", params).await
    }

    async fn names(&self) -> Vec<String> {
        let tools = self.result("tools/list", json!({})).await;
        let names = tools["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned());
        names.filter(|name| name.starts_with("t_") || name.starts_with('_') || name.contains("__")).collect()
    }
}

fn post(server: &Server) -> reqwest::RequestBuilder {
    server.request(Method::POST, "/mcp").header("accept", "application/json, text/event-stream")
}

/// The last message of an answer, which is JSON or a stream.
fn reply(answer: Answer) -> Value {
    match answer.headers.get("content-type").and_then(|kind| kind.to_str().ok()) {
        Some(kind) if kind.starts_with("text/event-stream") => {
            let mut data = answer.text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
            let last = data.rfind(|data| !data.is_empty());
            serde_json::from_str(last.unwrap_or_else(|| panic!("no message: {}", answer.text))).unwrap()
        }
        _ => answer.json(),
    }
}

/// An older client's session.
struct Session {
    server: Server,
    id: String,
}

impl Session {
    async fn begin(server: &Server, capabilities: Value) -> Self {
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": BEFORE, "capabilities": capabilities, "clientInfo": { "name": "test", "version": "1" } } });
        let answer = server.send(post(server).json(&hello)).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        let id = answer.headers.get("mcp-session-id").unwrap().to_str().unwrap().to_owned();
        assert_eq!(reply(answer)["result"]["protocolVersion"], BEFORE);
        let session = Self { server: server.clone(), id };
        session.tell("notifications/initialized", json!({})).await;
        session
    }

    fn request(&self, message: &Value) -> reqwest::RequestBuilder {
        let request = post(&self.server).header("mcp-protocol-version", BEFORE);
        request.header("mcp-session-id", &self.id).json(message)
    }

    async fn tell(&self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        assert_eq!(self.server.send(self.request(&message)).await.status, 202);
    }

    /// The stream of what the server says by itself.
    async fn hear(&self) -> Stream {
        let request = self.server.request(Method::GET, "/mcp").header("accept", "text/event-stream");
        let request = request.header("mcp-protocol-version", BEFORE).header("mcp-session-id", &self.id);
        Stream::open(request).await
    }

    async fn stream(&self, id: u64, method: &str, params: Value) -> Stream {
        Stream::open(self.request(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))).await
    }
}

/// Messages as they come.
struct Stream {
    response: reqwest::Response,
    text: String,
}

impl Stream {
    async fn open(request: reqwest::RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        Self { response, text: String::new() }
    }

    /// The next message that fits; fails when it never comes.
    async fn until(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        soon(async {
            loop {
                while let Some((block, rest)) = self.text.split_once("\n\n") {
                    let data = block.lines().find_map(|line| line.strip_prefix("data:")).map(str::trim);
                    let message = data.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap());
                    self.text = rest.to_owned();
                    if let Some(message) = message.filter(|message: &Value| fits(message)) {
                        return message;
                    }
                }
                let chunk = self.response.chunk().await.unwrap().expect("the stream ended");
                self.text.push_str(std::str::from_utf8(&chunk).unwrap());
            }
        })
        .await
    }

    async fn notification(&mut self, method: &str) -> Value {
        self.until(|message| message["method"] == method).await
    }
}
