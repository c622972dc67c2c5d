//! Tests the sessions of browsers: login, the origin of requests, rights, and the end of a session.

use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::harness::{ADMIN_KEY, Deployment, Response, Server, Storage, with_timeout};

crate::on_both_databases!(
    session_has_the_rights_of_its_key,
    revoked_key_ends_its_sessions,
    logout_ends_only_its_session,
    session_ends_with_the_expiry_of_its_key,
    writes_with_a_cookie_require_the_origin_of_the_server,
    login_requires_the_origin_of_the_server,
    cookie_is_hidden_from_scripts_and_other_sites,
    cookie_is_accepted_only_as_a_cookie_of_the_api,
    session_switches_realms_like_its_key,
);

/// A browser: a client that sends a cookie and the headers of the UI.
struct Browser {
    server: Server,
    cookie: String,
}

impl Browser {
    /// Logs in. Panics if the login is refused.
    async fn log_in(server: &Server, body: Value) -> Self {
        let response = log_in(server, body).await;
        assert_eq!(response.status, StatusCode::OK, "{}", response.text);
        let header = response.headers["set-cookie"].to_str().unwrap();
        let cookie = header.split(';').next().unwrap().to_owned();
        Self { server: server.with_key(""), cookie }
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        self.server.request(method, path).header("cookie", &self.cookie)
    }

    async fn get(&self, path: &str) -> Response {
        self.server.send(self.request(Method::GET, path)).await
    }

    async fn post(&self, path: &str, body: Value) -> Response {
        self.server.send(from_ui(self.request(Method::POST, path)).json(&body)).await
    }

    async fn log_out(&self) -> Response {
        self.server.send(from_ui(self.request(Method::DELETE, "session"))).await
    }
}

/// Adds the headers of a request that the UI sends.
fn from_ui(request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
    request.header("x-toolwright-ui", "1").header("sec-fetch-site", "same-origin")
}

async fn log_in(server: &Server, body: Value) -> Response {
    let server = server.with_key("");
    server.send(from_ui(server.request(Method::POST, "session")).json(&body)).await
}

/// Creates a key of a member.
async fn member_key(server: &Server) -> (String, String) {
    let issued = server.post("keys", json!({ "label": "browser", "principal": "member" })).await.expect(201);
    (issued["id"].as_str().unwrap().to_owned(), issued["key"].as_str().unwrap().to_owned())
}

async fn session_has_the_rights_of_its_key(server: Server) {
    let (_, key) = member_key(&server).await;
    let member = Browser::log_in(&server, json!({ "key": key })).await;
    let who = member.get("whoami").await.expect(200);
    assert_eq!(who, json!({ "principal": "member", "realm": "default", "roles": ["member"] }));
    member.post("tools", json!({ "refName": "t", "toolType": "FUNCTION" })).await.problem(403, "forbidden");
    member.get("keys").await.problem(403, "forbidden");

    let admin = Browser::log_in(&server, json!({ "key": ADMIN_KEY })).await;
    assert_eq!(admin.get("whoami").await.expect(200)["roles"], json!(["admin"]));
    let tool = json!({ "refName": "t", "toolType": "FUNCTION", "invocation": { "path": "echo" } });
    admin.post("tools", tool).await.expect(201);
    for body in [json!({ "key": "wrong" }), json!({ "link": "wrong" }), json!({ "link": "" })] {
        log_in(&server, body).await.problem(401, "unauthenticated");
    }
    log_in(&server, json!({})).await.problem(400, "invalid-request");
    log_in(&server, json!({ "key": key, "link": "x" })).await.problem(400, "invalid-request");
}

async fn revoked_key_ends_its_sessions(server: Server) {
    let (id, key) = member_key(&server).await;
    let browser = Browser::log_in(&server, json!({ "key": key })).await;
    let stream = browser.request(Method::GET, "events").send().await.unwrap();
    assert_eq!(stream.status(), StatusCode::OK);
    server.delete(&format!("keys/{id}")).await.expect(204);
    browser.get("whoami").await.problem(401, "unauthenticated");
    log_in(&server, json!({ "key": key })).await.problem(401, "unauthenticated");
    with_timeout(stream.text()).await.unwrap();
}

async fn logout_ends_only_its_session(server: Server) {
    let (_, key) = member_key(&server).await;
    for key in [key.as_str(), ADMIN_KEY] {
        let first = Browser::log_in(&server, json!({ "key": key })).await;
        let second = Browser::log_in(&server, json!({ "key": key })).await;
        first.get("whoami").await.expect(200);
        let response = first.log_out().await;
        assert!(response.headers["set-cookie"].to_str().unwrap().contains("Max-Age=0"));
        response.expect(204);
        first.get("whoami").await.problem(401, "unauthenticated");
        second.get("whoami").await.expect(200);
        server.with_key(key).get("whoami").await.expect(200);
    }
}

async fn session_ends_with_the_expiry_of_its_key(server: Server) {
    let end = json!({ "principal": "guest", "expiresAt": "2999-01-01T00:00:00Z" });
    let issued = server.post("keys", end).await.expect(201);
    let session = log_in(&server, json!({ "key": issued["key"] })).await.expect(200);
    assert!(session["expiresAt"].as_str().unwrap() < "2999", "a session lasts at most a week: {session}");

    let past = json!({ "principal": "guest", "expiresAt": "2020-01-01T00:00:00Z" });
    let expired = server.post("keys", past).await.expect(201);
    log_in(&server, json!({ "key": expired["key"] })).await.problem(401, "unauthenticated");
}

async fn writes_with_a_cookie_require_the_origin_of_the_server(server: Server) {
    let browser = Browser::log_in(&server, json!({ "key": ADMIN_KEY })).await;
    let own = format!("http://{}", server.address);
    let refused: [&[(&str, &str)]; 6] = [
        &[],
        &[("x-toolwright-ui", "1")],
        &[("sec-fetch-site", "same-origin")],
        &[("x-toolwright-ui", "1"), ("sec-fetch-site", "same-site"), ("origin", &own)],
        &[("x-toolwright-ui", "1"), ("sec-fetch-site", "cross-site")],
        &[("x-toolwright-ui", "1"), ("origin", "http://example.com")],
    ];
    for headers in refused {
        let request = browser.request(Method::POST, "realms").json(&json!({ "name": "other" }));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        server.send(request).await.problem(403, "forbidden");
    }
    browser.get("realms").await.expect(200);
    let by_origin = browser.request(Method::POST, "realms").json(&json!({ "name": "other" }));
    let by_origin = by_origin.header("x-toolwright-ui", "1").header("origin", own);
    server.send(by_origin).await.expect(201);
    let with_key = server.request(Method::POST, "realms").header("cookie", &browser.cookie);
    server.send(with_key.json(&json!({ "name": "third" }))).await.expect(201);
}

async fn login_requires_the_origin_of_the_server(server: Server) {
    let login = server.with_key("").request(Method::POST, "session").json(&json!({ "key": ADMIN_KEY }));
    server
        .send(login.header("x-toolwright-ui", "1").header("sec-fetch-site", "cross-site"))
        .await
        .problem(403, "forbidden");
    let browser = Browser::log_in(&server, json!({ "key": ADMIN_KEY })).await;
    let logout = browser.request(Method::DELETE, "session").header("sec-fetch-site", "cross-site");
    server.send(logout).await.problem(403, "forbidden");
    browser.get("whoami").await.expect(200);
}

async fn cookie_is_hidden_from_scripts_and_other_sites(server: Server) {
    let response = log_in(&server, json!({ "key": ADMIN_KEY })).await;
    let cookie = response.headers["set-cookie"].to_str().unwrap();
    assert!(cookie.ends_with("; Path=/api; Max-Age=604800; HttpOnly; SameSite=Strict"), "{cookie}");
    assert_eq!(response.headers["cache-control"], "no-store");
    assert!(!response.text.contains(cookie.split(['=', ';']).nth(1).unwrap()));

    let anonymous = server.with_key("");
    let remote = from_ui(anonymous.request(Method::POST, "session")).header("host", "tools.example.com");
    let response = server.send(remote.json(&json!({ "key": ADMIN_KEY }))).await;
    assert!(response.headers["set-cookie"].to_str().unwrap().ends_with("SameSite=Strict; Secure"));
}

async fn cookie_is_accepted_only_as_a_cookie_of_the_api(server: Server) {
    let browser = Browser::log_in(&server, json!({ "key": ADMIN_KEY })).await;
    let (name, token) = browser.cookie.split_once('=').unwrap();
    assert_eq!(name, "toolwright_session");
    server.with_key(token).get("whoami").await.problem(401, "unauthenticated");
    let call =
        from_ui(browser.request(Method::POST, "/mcp")).json(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
    assert_eq!(server.send(call).await.status, StatusCode::UNAUTHORIZED);
    let key = server.with_key("").request(Method::GET, "whoami").header("cookie", format!("{name}={ADMIN_KEY}"));
    server.send(key).await.problem(401, "unauthenticated");
}

async fn session_switches_realms_like_its_key(server: Server) {
    server.post("realms", json!({ "name": "other" })).await.expect(201);
    let (_, key) = member_key(&server).await;
    let admin = Browser::log_in(&server, json!({ "key": ADMIN_KEY })).await;
    let member = Browser::log_in(&server, json!({ "key": key })).await;
    let who = server.send(admin.request(Method::GET, "whoami").header("x-realm", "other")).await.expect(200);
    assert_eq!(who["realm"], "other");
    server.send(member.request(Method::GET, "whoami").header("x-realm", "other")).await.problem(403, "forbidden");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn login_link_works_once() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start().await;
    let token = |server: &crate::harness::RunningServer| {
        secrecy::ExposeSecret::expose_secret(&server.engine.identity.issue_login_link()).to_owned()
    };
    let (replaced, link) = (token(&running), token(&running));
    log_in(&server, json!({ "link": replaced })).await.problem(401, "unauthenticated");
    let browser = Browser::log_in(&server, json!({ "link": link })).await;
    assert_eq!(browser.get("whoami").await.expect(200)["roles"], json!(["admin"]));
    log_in(&server, json!({ "link": link })).await.problem(401, "unauthenticated");

    let keys = server.get("keys").await.expect(200);
    assert_eq!(keys["items"][0]["label"], "login link");
    server.delete(&format!("keys/{}", keys["items"][0]["id"].as_str().unwrap())).await.expect(204);
    browser.get("whoami").await.problem(401, "unauthenticated");
    running.stop().await;
    deployment.remove().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn session_ends_when_the_administrators_key_changes() {
    let deployment = Deployment::new(Storage::Sqlite).await;
    let (server, running) = deployment.start().await;
    let browser = Browser::log_in(&server, json!({ "key": ADMIN_KEY })).await;
    running.stop().await;

    let (server, running) = deployment.start().await;
    let same_key = Browser { server: server.with_key(""), cookie: browser.cookie.clone() };
    same_key.get("whoami").await.expect(200);
    running.stop().await;

    let changed =
        |options: &mut toolwright_engine::Options| options.admin_key = Some("another-admin-key".to_owned().into());
    let (server, running) = deployment.start_with(changed).await;
    let other_key = Browser { server: server.with_key(""), cookie: browser.cookie };
    other_key.get("whoami").await.problem(401, "unauthenticated");
    running.stop().await;
    deployment.remove().await;
}
