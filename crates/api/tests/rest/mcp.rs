//! The MCP server over real HTTP: what is offered to whom, what a call becomes, and who is asked first.

use reqwest::Method;
use serde_json::{Value, json};
use toolwright_testkit::{Faults, LOOPBACK};

use crate::grpc::inventory;
use crate::harness::{Answer, Server, calls_then, soon, with};
use crate::mcp_imports::{define_peer, import, with_peer};
use crate::{on_both_editions, on_sqlite};

on_both_editions!(
    tools_are_offered_to_those_who_may_call_them,
    a_call_is_the_same_call_as_everywhere,
    failures_are_results_with_a_code,
    agents_are_called_like_tools_when_they_say_so,
    prompts_and_runs_are_there_to_be_read,
);
on_sqlite!(
    nobody_is_let_in_without_a_key,
    pages_of_other_origins_are_refused,
    a_tool_that_asks_first_is_refused_where_nobody_can_be_asked,
    a_consent_is_for_one_call_and_good_once,
    an_older_client_is_asked_while_it_waits,
    what_an_agent_asks_goes_to_the_client,
    a_tool_of_the_client_is_refused,
    a_session_is_its_beginners,
    older_clients_hear_of_changes,
    listeners_hear_of_changes_that_concern_them,
    a_cancelled_request_ends_its_run,
    blobs_are_links,
    cursors_that_make_no_sense_are_refused,
    what_is_no_message_is_told_as_json_rpc_says,
    batches_are_for_the_revision_that_has_them,
    plain_calls_are_answered_as_all_others_are,
    a_plain_call_of_a_session_can_be_taken_back,
    a_plain_call_that_takes_long_says_so,
    progress_of_another_server_is_passed_on,
    messages_of_a_stream_are_counted,
);

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

async fn nobody_is_let_in_without_a_key(server: Server) {
    let anonymous = Client::of(&server.with_key(""));
    let answer = server.send(anonymous.request("tools/list", json!({}))).await;
    let challenge = answer.headers.get("www-authenticate").unwrap().to_str().unwrap().to_owned();
    answer.problem(401, "unauthenticated");
    let metadata = challenge.strip_prefix("Bearer resource_metadata=\"").unwrap().trim_end_matches('"');
    let path = metadata.strip_prefix(&format!("http://{}", server.address)).unwrap();
    let document = server.with_key("").get(path).await.expect(200);
    assert_eq!(document["resource"], format!("http://{}/mcp", server.address));
    let wrong = Client::of(&server.with_key("not-a-key"));
    server.send(wrong.request("tools/list", json!({}))).await.problem(401, "unauthenticated");
}

async fn pages_of_other_origins_are_refused(server: Server) {
    let client = Client::of(&server);
    for (header, value, status) in [
        ("origin", "http://evil.example", 403),
        ("host", "evil.example", 403),
        ("origin", "http://localhost:3000", 200),
        ("host", "localhost:7411", 200),
    ] {
        let answer = server.send(client.request("tools/list", json!({})).header(header, value)).await;
        assert_eq!(answer.status.as_u16(), status, "{header}: {value}: {}", answer.text);
    }
}

async fn tools_are_offered_to_those_who_may_call_them(server: Server) {
    server.define_echo("t_open", json!({ "inputJsonSchema": { "type": "object" } })).await;
    server.define_echo("t_hidden", json!({ "availableAs": ["tool"] })).await;
    server.define_echo("t_off", json!({ "enabled": false })).await;
    server.define_echo("t_draft", json!({ "status": "draft" })).await;
    server.define_echo("crm/find.deals", json!({ "sideEffects": "writes", "idempotent": true })).await;
    let client = Client::of(&server);
    assert_eq!(client.names().await, ["crm__find_-deals", "t_open"]);
    let tools = client.result("tools/list", json!({})).await;
    let deals = tools["tools"].as_array().unwrap().iter().find(|tool| tool["name"] == "crm__find_-deals").unwrap();
    let hints = json!([true, false, true]);
    let annotations = &deals["annotations"];
    let seen = json!([annotations["destructiveHint"], annotations["readOnlyHint"], annotations["idempotentHint"]]);
    assert_eq!(seen, hints);
    assert_eq!(client.call("crm__find_-deals", json!({ "a": 1 })).await["structuredContent"], json!({ "a": 1 }));

    let member = Client::of(&server.member("ada").await);
    assert_eq!(member.names().await, ["crm__find_-deals", "t_open"]);
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    let elsewhere = Client::of(&server.in_realm("other"));
    assert!(elsewhere.names().await.is_empty());
    let reply = elsewhere.reply("tools/call", json!({ "name": "t_open", "arguments": {} })).await;
    assert_eq!(reply["error"]["code"], -32602, "{reply}");
}

async fn a_call_is_the_same_call_as_everywhere(server: Server) {
    server.define_echo("t_echo", json!({})).await;
    let result = Client::of(&server).call("t_echo", json!({ "deal": 7 })).await;
    assert_eq!(result["isError"], false);
    assert_eq!(result["structuredContent"], json!({ "deal": 7 }));
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), json!({ "deal": 7 }));
    let receipt = &result["_meta"]["toolwright/envelope"];
    let direct = server.call("t_echo", json!({ "deal": 7 })).await;
    for field in ["call_id", "name", "version", "input", "output", "error"] {
        assert_eq!(receipt[field], direct[field], "{field}");
    }
    assert_eq!(receipt["metadata"]["principal"], "admin");
}

async fn failures_are_results_with_a_code(server: Server) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    server.define_echo("t_strict", json!({ "inputJsonSchema": schema })).await;
    server.define_echo("t_hidden", json!({ "availableAs": ["tool"] })).await;
    let client = Client::of(&server);
    for (tool, arguments, code, reason) in [
        ("t_strict", json!({ "n": "one" }), "VALIDATION_ERROR", "input_schema"),
        ("t_hidden", json!({}), "POLICY_DENIED", "not_available"),
    ] {
        let result = client.call(tool, arguments).await;
        assert_eq!(result["isError"], true, "{result}");
        let error = &result["structuredContent"]["error"];
        assert_eq!((&error["code"], &error["details"]["reason"]), (&json!(code), &json!(reason)), "{result}");
        assert!(result["content"][0]["text"].as_str().unwrap().starts_with(code), "{result}");
        assert_eq!(result["_meta"]["toolwright/envelope"]["error"]["code"], code);
    }
    let reply = client.reply("tools/call", json!({ "name": "t_none", "arguments": {} })).await;
    assert_eq!(reply["error"]["code"], -32602);
    assert!(reply["error"]["message"].as_str().unwrap().contains("t_none"), "{reply}");
}

async fn a_tool_that_asks_first_is_refused_where_nobody_can_be_asked(server: Server) {
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    let result = Client::of(&server).call("t_careful", json!({})).await;
    let error = &result["structuredContent"]["error"];
    assert_eq!(error["details"]["reason"], "confirmation_required", "{result}");
    assert!(error["message"].as_str().unwrap().contains("elicitation"), "{result}");
    // Calling over REST is agreeing.
    assert_eq!(server.call("t_careful", json!({ "a": 1 })).await["output"], json!({ "a": 1 }));
}

fn decision(decision: &str) -> Value {
    json!({ "action": "accept", "content": { "decision": decision } })
}

async fn a_consent_is_for_one_call_and_good_once(server: Server) {
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    let client = Client::that_asks(&server);
    let asked = client.call("t_careful", json!({ "deal": 7 })).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = asked["inputRequests"]["confirm"]["params"]["message"].as_str().unwrap();
    assert!(question.contains("t_careful") && question.contains("{\"deal\":7}"), "{question}");

    // Another input, another principal, another state: asked again each time.
    let approve = json!({ "confirm": decision("approve") });
    let other = client.answer("t_careful", json!({ "deal": 8 }), &asked, approve.clone()).await;
    assert_eq!(other["resultType"], "input_required");
    let ada = Client::that_asks(&server.member("ada").await);
    assert_eq!(
        ada.answer("t_careful", json!({ "deal": 7 }), &asked, approve.clone()).await["resultType"],
        "input_required"
    );
    let forged = json!({ "requestState": "rs1.AAAA.AAAA" });
    assert_eq!(
        client.answer("t_careful", json!({ "deal": 7 }), &forged, approve.clone()).await["resultType"],
        "input_required"
    );

    let done = client.answer("t_careful", json!({ "deal": 7 }), &asked, approve.clone()).await;
    assert_eq!(done["structuredContent"], json!({ "deal": 7 }), "{done}");
    let again = client.answer("t_careful", json!({ "deal": 7 }), &asked, approve).await;
    assert_eq!(again["resultType"], "input_required", "a consent was used twice");

    let deny = json!({ "confirm": { "action": "accept", "content": { "decision": "deny", "reason": "too early" } } });
    let denied = client.answer("t_careful", json!({ "deal": 7 }), &again, deny).await;
    let error = &denied["structuredContent"]["error"];
    assert_eq!((&error["code"], &error["details"]["reason"]), (&json!("POLICY_DENIED"), &json!("approval_denied")));
    assert!(error["message"].as_str().unwrap().contains("too early"), "{denied}");
}

async fn an_older_client_is_asked_while_it_waits(server: Server) {
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    let session = Session::begin(&server, json!({ "elicitation": {} })).await;
    for (said, approved) in [("approve", true), ("deny", false)] {
        let mut stream =
            session.stream(1, "tools/call", json!({ "name": "t_careful", "arguments": { "a": said } })).await;
        let question = stream.until(|message| message["method"] == "elicitation/create").await;
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"], "result": decision(said) });
        assert_eq!(server.send(session.request(&answer)).await.status, 202);
        let reply = stream.until(|message| message["id"] == 1 && message.get("result").is_some()).await;
        assert_eq!(reply["result"]["isError"], !approved, "{reply}");
    }
}

async fn a_tool_of_the_client_is_refused(server: Server) {
    server.define_echo("t_client", json!({ "isToolFullyExecutedOnServer": false })).await;
    let client = Client::of(&server);
    assert!(client.names().await.is_empty());
    let result = client.call("t_client", json!({})).await;
    assert_eq!(result["structuredContent"]["error"]["details"]["reason"], "client_tool", "{result}");
}

async fn agents_are_called_like_tools_when_they_say_so(server: Server) {
    server.define_echo("t_echo", json!({})).await;
    let rules = calls_then(json!([{ "name": "t_echo", "arguments": { "n": 1 } }]), "it says 1");
    let more = json!({ "toolRefs": ["t_echo"], "description": "asks the echo" });
    server.define_agent("t_silent", rules.clone(), more.clone()).await;
    let mut offered = more;
    offered["availableAs"] = json!(["mcpTool"]);
    server.define_agent("t_agent", rules, offered).await;
    let client = Client::of(&server);
    assert_eq!(client.names().await, ["t_agent", "t_echo"]);

    let params = json!({ "name": "t_agent", "arguments": { "task": "ask it" }, "_meta": { "progressToken": "p" } });
    let answer = server.send(client.request("tools/call", params)).await;
    let told: Vec<String> = SseLines::of(&answer.text, "notifications/progress");
    assert!(told.iter().any(|message| message == "calling t_echo"), "{told:?}");
    let result = reply(answer)["result"].take();
    assert_eq!(result["content"][0]["text"], "it says 1", "{result}");
    assert_eq!(result["structuredContent"]["status"], "COMPLETED");
    let run = result["structuredContent"]["runId"].as_str().unwrap();
    assert_eq!(server.get(&format!("runs/{run}")).await.expect(200)["status"], "COMPLETED");

    let refused = client.call("t_agent", json!({ "job": "ask it" })).await;
    assert_eq!(refused["structuredContent"]["error"]["code"], "VALIDATION_ERROR", "{refused}");
}

/// What notifications of a stream say.
struct SseLines;

impl SseLines {
    fn of(text: &str, method: &str) -> Vec<String> {
        let data =
            text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim).filter(|data| !data.is_empty());
        let messages = data.map(|data| serde_json::from_str::<Value>(data).unwrap());
        let told = messages.filter(|message| message["method"] == method);
        told.map(|message| message["params"]["message"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

async fn what_an_agent_asks_goes_to_the_client(server: Server) {
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    let rules = calls_then(json!([{ "name": "t_careful", "arguments": { "n": 1 } }]), "done");
    let more = json!({ "toolRefs": ["t_careful"], "availableAs": ["mcpTool"] });
    server.define_agent("t_agent", rules, more).await;
    let task = json!({ "task": "go" });

    let client = Client::that_asks(&server);
    let asked = client.call("t_agent", task.clone()).await;
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let call = asked["inputRequests"].as_object().unwrap().keys().next().unwrap().clone();
    let answers = json!({ call: decision("approve") });
    let done = client.answer("t_agent", task.clone(), &asked, answers).await;
    assert_eq!(done["content"][0]["text"], "done", "{done}");
    let run = done["structuredContent"]["runId"].as_str().unwrap().to_owned();
    let seen = server.get(&format!("runs/{run}")).await.expect(200);
    assert_eq!(seen["status"], "COMPLETED", "{seen}");

    // Nobody to ask: the run waits, and says where it can be answered.
    let waits = Client::of(&server).call("t_agent", task).await;
    assert_eq!(waits["structuredContent"]["status"], "AWAITING_APPROVAL", "{waits}");
    let run = waits["structuredContent"]["runId"].as_str().unwrap();
    let call = waits["structuredContent"]["approvals"][0].as_str().unwrap();
    server.post(&format!("runs/{run}/approvals/{call}"), json!({ "decision": "approve" })).await.expect(200);
    let read = client.result("resources/read", json!({ "uri": format!("toolwright://runs/{run}") })).await;
    let text: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text["response"]["responseText"], "done");
}

async fn prompts_and_runs_are_there_to_be_read(server: Server) {
    let fragment = json!({ "refName": "greeting", "description": "says hello", "content": "Hello {{user.name}}!" });
    server.post("prompt-fragments", fragment).await.expect(201);
    server.define_agent("t_agent", json!([{ "reply": { "text": "hi" } }]), json!({})).await;
    let run = server.run("t_agent", "hello").await["runId"].as_str().unwrap().to_owned();
    let client = Client::of(&server);
    let prompts = client.result("prompts/list", json!({})).await;
    assert_eq!(prompts["prompts"][0]["name"], "greeting");
    assert_eq!(prompts["prompts"][0]["arguments"][0]["name"], "user.name");
    let params = json!({ "name": "greeting", "arguments": { "user.name": "Ada" } });
    let prompt = client.result("prompts/get", params).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Hello Ada!");
    let unknown = client.reply("prompts/get", json!({ "name": "nobody" })).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");

    let uri = format!("toolwright://runs/{run}");
    let resources = client.result("resources/list", json!({})).await;
    assert_eq!(resources["resources"][0]["uri"], uri);
    let ada = Client::of(&server.member("ada").await);
    assert_eq!(ada.result("resources/list", json!({})).await["resources"], json!([]));
    for wrong in [uri.as_str(), "toolwright://runs/none", "toolwright://blobs/none", "file:///etc/passwd"] {
        let reply = ada.reply("resources/read", json!({ "uri": wrong })).await;
        assert_eq!(reply["error"]["data"]["uri"], wrong, "{reply}");
    }
}

async fn a_session_is_its_beginners(server: Server) {
    let session = Session::begin(&server, json!({})).await;
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!(server.send(session.request(&ping)).await.status, 200);
    let ada = server.member("ada").await;
    let stolen = Session { server: ada, id: session.id.clone() };
    assert_eq!(server.send(stolen.request(&ping)).await.status, 404);
    let invented = Session { server: server.clone(), id: "nobody-has-this".into() };
    assert_eq!(server.send(invented.request(&ping)).await.status, 404);
}

async fn older_clients_hear_of_changes(server: Server) {
    let session = Session::begin(&server, json!({})).await;
    let mut heard = session.hear().await;
    // What was shown before is known once the server has answered.
    session.stream(1, "tools/list", json!({})).await.until(|message| message["id"] == 1).await;
    server.define_echo("t_new", json!({})).await;
    heard.notification("notifications/tools/list_changed").await;
    server.post("prompt-fragments", json!({ "refName": "new", "content": "Hi" })).await.expect(201);
    heard.notification("notifications/prompts/list_changed").await;
}

async fn listeners_hear_of_changes_that_concern_them(server: Server) {
    let client = Client::of(&server);
    let wanted = json!({ "notifications": { "toolsListChanged": true } });
    let mut heard = Stream::open(client.request("subscriptions/listen", wanted)).await;
    heard.notification("notifications/subscriptions/acknowledged").await;
    // Of what is elsewhere or not offered nothing is heard, so the first news is of the last change.
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    server.in_realm("other").define_echo("t_elsewhere", json!({})).await;
    server.define_echo("t_hidden", json!({ "availableAs": ["tool"] })).await;
    server.define_echo("t_new", json!({})).await;
    heard.notification("notifications/tools/list_changed").await;
    assert_eq!(client.names().await, ["t_new"]);
}

async fn a_cancelled_request_ends_its_run(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("t_slow", &faults.base_url(), "/slow/60000", json!({})).await;
    let rules = calls_then(json!([{ "name": "t_slow", "arguments": {} }]), "never");
    server.define_agent("t_agent", rules, json!({ "toolRefs": ["t_slow"], "availableAs": ["mcpTool"] })).await;
    let session = Session::begin(&server, json!({})).await;
    let call = json!({ "name": "t_agent", "arguments": { "task": "wait" }, "_meta": { "progressToken": 7 } });
    let mut stream = session.stream(7, "tools/call", call).await;
    stream.until(|message| message["params"]["message"] == "calling t_slow").await;
    session.tell("notifications/cancelled", json!({ "requestId": 7, "reason": "no longer needed" })).await;
    server.until("runs", |runs| runs["items"][0]["status"] == "CANCELLED").await;
}

async fn blobs_are_links(server: Server) {
    server.define_echo("t_large", json!({ "maxOutputBytes": 1000 })).await;
    let client = Client::of(&server);
    let result = client.call("t_large", json!({ "text": "x".repeat(5000) })).await;
    let link = result["content"].as_array().unwrap().iter().find(|block| block["type"] == "resource_link").unwrap();
    let read = client.result("resources/read", json!({ "uri": link["uri"] })).await;
    let text: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(text["text"].as_str().unwrap().len(), 5000);
    assert_eq!(read["contents"][0]["mimeType"], "application/json");
}

async fn cursors_that_make_no_sense_are_refused(server: Server) {
    let client = Client::of(&server);
    for (method, cursor) in [("tools/list", ""), ("prompts/list", "what?"), ("resources/list", "what?")] {
        let reply = client.reply(method, json!({ "cursor": cursor })).await;
        assert_eq!(reply["error"]["code"], -32602, "{method}: {reply}");
    }
}

async fn what_is_no_message_is_told_as_json_rpc_says(server: Server) {
    let send = async |body: &str| {
        let request = post(&server).header("content-type", "application/json").body(body.to_owned());
        let answer = server.send(request).await;
        assert_eq!(answer.headers.get("content-type").unwrap(), "application/json", "{}", answer.text);
        (answer.status, answer.json())
    };
    for (body, code) in [
        ("{\"jsonrpc\":", -32700),
        ("[1", -32700),
        ("{\"id\":3,\"method\":\"ping\"}", -32600),
        ("[]", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"initialize\",\"params\":{}}", -32602),
    ] {
        let (status, answer) = send(body).await;
        assert_eq!((status.as_u16(), &answer["error"]["code"]), (400, &json!(code)), "{body}: {answer}");
    }
    // Parameters that are wrong are told from methods that are not there, to old clients and new ones.
    let session = Session::begin(&server, json!({})).await;
    let client = Client::of(&server);
    for (method, params, code) in [
        ("tools/call", json!({ "name": "calculator", "arguments": [] }), -32602),
        ("tools/call", json!({ "arguments": {} }), -32602),
        ("resources/read", json!({}), -32602),
        ("tools/cull", json!({}), -32601),
    ] {
        let asked = json!({ "jsonrpc": "2.0", "id": 5, "method": method, "params": params });
        let old = reply(server.send(session.request(&asked)).await);
        assert_eq!((&old["id"], &old["error"]["code"]), (&json!(5), &json!(code)), "{old}");
        let new = client.reply(method, params).await;
        assert_eq!(new["error"]["code"], code, "{new}");
    }
}

async fn batches_are_for_the_revision_that_has_them(server: Server) {
    let session = Session::begin(&server, json!({})).await;
    let add = |id: u64| {
        let params = json!({ "name": "calculator", "arguments": { "expression": format!("{id}+1") } });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
    };
    let told = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
    let batch = json!([add(1), told, add(2), { "jsonrpc": "2.0", "id": 3 }]);
    let send = async |batch: &Value| {
        let request = post(&server).header("mcp-session-id", &session.id).json(batch);
        server.send(request).await
    };
    let answer = send(&batch).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let messages = answer.text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    let mut messages: Vec<Value> =
        messages.filter(|data| !data.is_empty()).map(|data| serde_json::from_str(data).unwrap()).collect();
    messages.sort_by_key(|message| message["id"].as_u64());
    let ids: Vec<&Value> = messages.iter().map(|message| &message["id"]).collect();
    assert_eq!(ids, [1, 2, 3], "{}", answer.text);
    assert!(messages[0]["result"]["content"][0]["text"].as_str().unwrap().contains('2'), "{}", messages[0]);
    assert_eq!(messages[2]["error"]["code"], -32600);
    assert_eq!(send(&json!([told])).await.status, 202, "nothing to answer");

    let too_many = Value::Array((0..51).map(add).collect());
    let newer = server.send(session.request(&batch)).await;
    let sessionless = server.send(post(&server).json(&batch)).await;
    let twice = send(&json!([add(4), add(4)])).await;
    for refused in [send(&too_many).await, newer, sessionless, twice] {
        assert_eq!(refused.status, 400, "{}", refused.text);
        assert_eq!(refused.json()["error"]["code"], -32600);
    }
}

/// An answer without what is different each time.
fn timeless(answer: Answer) -> (u16, Value) {
    let status = answer.status.as_u16();
    if answer.text.is_empty() || !answer.text.contains('{') {
        return (status, json!(answer.text));
    }
    let mut said = reply(answer);
    if let Some(receipt) = said.pointer_mut("/result/_meta/toolwright~1envelope").and_then(Value::as_object_mut) {
        receipt.retain(|field, _| !["t_start", "t_end"].contains(&field.as_str()));
    }
    (status, said)
}

async fn plain_calls_are_answered_as_all_others_are(server: Server) {
    let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
    server.define_echo("t_echo", json!({ "inputJsonSchema": schema })).await;
    server.define_echo("t_careful", json!({ "requiresConfirmation": true })).await;
    server.define_echo("t_writes", json!({ "sideEffects": "writes" })).await;
    server.define_echo("t_hidden", json!({ "availableAs": ["tool"] })).await;
    let meta =
        json!({ "io.modelcontextprotocol/protocolVersion": NEWEST, "io.modelcontextprotocol/clientCapabilities": {} });
    let older_meta =
        json!({ "io.modelcontextprotocol/protocolVersion": BEFORE, "io.modelcontextprotocol/clientCapabilities": {} });
    let session = Session::begin(&server, json!({})).await;
    let ada = server.member("ada").await;
    let message =
        |id: Value, params: Value| json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
    let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments, "_meta": meta });
    let mut plain = call("t_echo", json!({ "n": 1 }));
    let bodies = [
        message(json!(1), plain.clone()),
        message(json!("a"), plain.clone()),
        message(json!(1.5), plain.clone()),
        message(Value::Null, plain.clone()),
        message(json!(1), call("t_echo", json!({ "n": "one" }))),
        message(json!(1), call("t_echo", Value::Null)),
        message(json!(1), call("t_echo", json!([]))),
        message(json!(1), call("t_careful", json!({}))),
        message(json!(1), call("t_writes", json!({ "n": 1 }))),
        message(json!(1), call("t_hidden", json!({}))),
        message(json!(1), call("t_none", json!({}))),
        message(json!(1), json!({ "name": "t_echo" })),
        message(json!(1), json!({ "name": "t_echo", "_meta": meta })),
        message(json!(1), json!({ "name": "t_echo", "_meta": {} })),
        message(json!(1), json!({ "name": "t_echo", "_meta": null })),
        message(json!(1), json!({ "name": "t_echo", "_meta": older_meta })),
        message(json!(1), json!({ "name": "t_echo", "_meta": { "io.modelcontextprotocol/protocolVersion": NEWEST } })),
        message(json!(1), json!({ "name": "t_echo", "arguments": { "n": 1 }, "more": 1, "_meta": meta })),
        json!({ "jsonrpc": "1.0", "id": 1, "method": "tools/call", "params": plain }),
        json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": { "_meta": meta } }),
        json!({ "jsonrpc": "2.0", "method": "tools/call", "params": plain }),
        {
            plain["_meta"]["progressToken"] = json!("p");
            message(json!(1), plain)
        },
    ];
    let standard = [("mcp-protocol-version", NEWEST), ("mcp-method", "tools/call"), ("mcp-name", "t_echo")];
    let heads: Vec<Vec<(&str, &str)>> = vec![
        standard.to_vec(),
        standard[..2].to_vec(),
        standard[..1].to_vec(),
        vec![],
        vec![standard[0], standard[1], ("mcp-name", "t_careful")],
        vec![standard[0], standard[1], ("mcp-name", "t_writes")],
        vec![standard[0], ("mcp-method", "tools/list"), standard[2]],
        vec![standard[0], standard[1], standard[2], standard[2]],
        vec![("mcp-protocol-version", "2099-01-01"), standard[1], standard[2]],
        vec![("mcp-protocol-version", BEFORE), ("mcp-session-id", &session.id)],
        vec![("mcp-protocol-version", "2025-03-26"), ("mcp-session-id", &session.id)],
        vec![("mcp-protocol-version", BEFORE), ("mcp-session-id", "none")],
        vec![standard[0], standard[1], standard[2], ("mcp-session-id", &session.id)],
    ];
    let (mut compared, mut results) = (0, 0);
    for who in [&server, &ada] {
        for (head, body) in heads.iter().flat_map(|head| bodies.iter().map(move |body| (head, body))) {
            // Two that were sent at once in a session could not be told apart.
            let send = async |more: Option<(&str, &str)>| {
                let request = head
                    .iter()
                    .copied()
                    .chain(more)
                    .fold(post(who), |request, (name, value)| request.header(name, value));
                timeless(who.send(request.json(body)).await)
            };
            let as_it_is = send(None).await;
            // A page of this machine may ask too, and nothing that a page asks is plain.
            let through_the_library = send(Some(("origin", "http://localhost:3000"))).await;
            assert_eq!(as_it_is, through_the_library, "{head:?} {body}");
            compared += 1;
            results += u32::from(as_it_is.1.get("result").is_some());
        }
    }
    assert!(results > 20 && compared > 500, "{results} of {compared}");
}

async fn a_plain_call_of_a_session_can_be_taken_back(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("t_slow", &faults.base_url(), "/slow/60000", json!({})).await;
    let session = Session::begin(&server, json!({})).await;
    let take_back =
        |id: &str| json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id } });
    // By itself, and among others.
    for (before, taken_back) in (0..).zip([take_back("slow"), json!([take_back("other"), take_back("slow")])]) {
        let asked = json!({ "jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": { "name": "t_slow", "arguments": {} } });
        let call = server.send(session.request(&asked));
        let taken_back = async {
            while faults.hits("/slow/60000") == before {
                tokio::task::yield_now().await;
            }
            session.tell("notifications/cancelled", json!({ "requestId": "other" })).await;
            let request = post(&server).header("mcp-session-id", &session.id).json(&taken_back);
            assert_eq!(server.send(request).await.status, 202);
        };
        let (answer, ()) = soon(async { tokio::join!(call, taken_back) }).await;
        assert_eq!(reply(answer)["result"]["structuredContent"]["error"]["details"]["reason"], "cancelled");
    }
}

async fn a_plain_call_that_takes_long_says_so(server: Server) {
    let faults = Faults::builder().start(LOOPBACK).await.unwrap();
    server.define_call("t_slow", &faults.base_url(), "/slow/600", json!({})).await;
    let client = Client::of(&server);
    let params = json!({ "name": "t_slow", "arguments": {}, "_meta": { "progressToken": "p" } });
    let answer = server.send(client.request("tools/call", params)).await;
    assert_eq!(answer.headers.get("content-type").unwrap(), "text/event-stream");
    let told: Vec<String> = SseLines::of(&answer.text, "notifications/progress");
    assert_eq!(told, ["t_slow is under way"]);
    assert_eq!(reply(answer)["result"]["isError"], false);

    // Whoever leaves meanwhile ends it.
    server.define_call("t_endless", &faults.base_url(), "/slow/60000", json!({})).await;
    let params = json!({ "name": "t_endless", "arguments": {}, "_meta": { "progressToken": 7 } });
    let mut stream = Stream::open(client.request("tools/call", params)).await;
    stream.notification("notifications/progress").await;
    drop(stream);
    let ended = |runs: &Value| runs["items"].as_array().unwrap().iter().any(|run| run["subject"] == "t_endless");
    let runs = server.until("runs", ended).await;
    assert_eq!(runs["items"][0]["status"], "ERROR", "{runs}");
}

async fn progress_of_another_server_is_passed_on(server: Server) {
    with_peer(|peer| async move {
        let faults = Faults::builder().start(LOOPBACK).await.unwrap();
        peer.define_call("t_slow", &faults.base_url(), "/slow/60000", json!({})).await;
        let rules = calls_then(json!([{ "name": "t_slow", "arguments": {} }]), "never");
        peer.define_agent("t_agent", rules, json!({ "toolRefs": ["t_slow"], "availableAs": ["mcpTool"] })).await;
        define_peer(&server, &peer, json!({})).await;
        import(&server, json!({ "providerRef": "peer", "prefix": "t_p_" })).await;
        let call = json!({ "name": "t_p_t_agent", "arguments": { "task": "wait" }, "_meta": { "progressToken": 7 } });
        let calls = |message: &Value| {
            let news = &message["params"];
            news["message"] == "calling t_slow" && news["progressToken"] == 7 && news["progress"].as_f64() > Some(1.0)
        };
        // What is done is counted by the peer, and whoever is not waited for any more is told so.
        let ended = |count: usize| {
            move |runs: &Value| {
                let runs = runs["items"].as_array().unwrap().iter();
                runs.filter(|run| run["status"] == "CANCELLED").count() == count
            }
        };

        let session = Session::begin(&server, json!({})).await;
        let mut stream = session.stream(7, "tools/call", call.clone()).await;
        stream.until(calls).await;
        session.tell("notifications/cancelled", json!({ "requestId": 7 })).await;
        peer.until("runs", ended(1)).await;

        // A tool that only reads is answered without a conversation.
        let tool = server.get("tools/t_p_t_agent").await.expect(200);
        let reads = with(tool, json!({ "hasSideEffects": false, "sideEffects": "reads" }));
        server.put("tools/t_p_t_agent", reads).await.expect(200);
        let mut stream = Stream::open(Client::of(&server).request("tools/call", call)).await;
        stream.until(calls).await;
        drop(stream);
        peer.until("runs", ended(2)).await;
    })
    .await;
}

async fn messages_of_a_stream_are_counted(server: Server) {
    let system = inventory(&server, &["ListItems"]).await;
    let session = Session::begin(&server, json!({})).await;
    let call = json!({ "name": "ListItems", "arguments": { "id": 3 }, "_meta": { "progressToken": "p" } });
    let mut stream = session.stream(1, "tools/call", call).await;
    let told = stream.until(|message| message["params"]["message"] == "3 messages came").await;
    assert_eq!(told["params"]["progress"].as_f64(), Some(3.0), "{told}");
    system.shutdown().await;
}
