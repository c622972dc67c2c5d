//! `toolwright mcp login`: logs in to an MCP server with OAuth in a browser, which is redirected to a loopback address
//! (RFC 8252). The grant is stored as a secret on the Toolwright server and nowhere else.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::pin::pin;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use axum::response::Html;
use axum::routing::get;
use futures::FutureExt;
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use toolwright_api::wire::SecretView;
use toolwright_mcp::{OAuthClient, OAuthLogin, OAuthLoginError, OAuthLoginRequest};
use toolwright_tools::http::Grant;
use toolwright_types::{AuthConfig, Clock, ProviderType, SystemClock, Timestamp};

use crate::cli::Context;
use crate::cli::client::{PROVIDERS, SECRETS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::secrets::SecretScopeArg;
use crate::cli::time::{format_minute, parse_http_date};

/// The maximum time for logging in.
const LOGIN_TIMEOUT: Duration = Duration::from_secs(600);
/// The maximum time for sending the result page to the browser.
const BROWSER_RESPONSE_TIMEOUT: Duration = Duration::from_secs(2);
/// The path that the browser is redirected to.
const CALLBACK_PATH: &str = "/callback";

/// The variable with the secret of a registered OAuth client. An argument would be visible to other users of the
/// machine.
const CLIENT_SECRET_VARIABLE: &str = "TOOLWRIGHT_MCP_CLIENT_SECRET";

/// Arguments of `mcp login`.
#[derive(clap::Args)]
#[command(
    after_help = "Set TOOLWRIGHT_MCP_CLIENT_SECRET to the secret of the OAuth client in the provider's `auth.clientId`."
)]
pub(crate) struct LoginArgs {
    /// Provider of the MCP server
    #[arg(value_parser = parse_name)]
    provider: String,
    /// Owner of the login
    #[arg(long, value_enum, default_value_t = SecretScopeArg::User)]
    scope: SecretScopeArg,
    /// Port of the redirect URI, for a client that is registered with one [default: any free port]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Print the login URL without opening a browser
    #[arg(long)]
    no_browser: bool,
}

/// The fields of a provider that a login needs. The complete type of a definition would reject unknown fields of a
/// newer server.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Provider {
    provider_type: ProviderType,
    base_url: Option<String>,
    auth: AuthConfig,
    #[serde(default)]
    egress_allow: Vec<String>,
}

/// The URI to which the browser was redirected, and a channel for the result that the browser shows.
type Callback = (Uri, oneshot::Sender<Result<(), String>>);

pub(super) async fn run(cx: &Context, args: LoginArgs) -> Result<Exit, Failure> {
    let (provider, _) = fetch_provider(cx, &args.provider).await?;
    let (server, secret) = provider.login_target(&args.provider)?;
    check_permission(cx, secret, args.scope).await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
    let listener = listener.map_err(|error| Failure::Usage(format!("cannot listen on port {}: {error}", args.port)))?;
    let origin = format!("http://{}", listener.local_addr()?);
    let client = OAuthClient {
        client_id: provider.auth.client_id.clone(),
        client_secret: std::env::var(CLIENT_SECRET_VARIABLE).ok().filter(|_| provider.auth.client_id.is_some()),
        client_metadata_url: None,
    };
    let request = OAuthLoginRequest {
        server,
        redirect: &format!("{origin}{CALLBACK_PATH}"),
        client: &client,
        scopes: &provider.auth.scopes,
        challenge: None,
        private: !provider.egress_allow.is_empty(),
    };
    let failed =
        |error: OAuthLoginError| Failure::Login { provider: args.provider.clone(), cause: in_one_line(&error) };
    let login = OAuthLogin::begin(request).await.map_err(failed)?;
    cx.output.note(format!("To log in, open this URL:\n\n  {}\n", login.url()));
    if !args.no_browser && open::that_detached(login.url()).is_err() {
        cx.output.note("cannot open a browser; open the URL on this machine");
    }
    let (done, ended) = oneshot::channel::<()>();
    let (callbacks, callback_receiver) = mpsc::channel(1);
    // A HEAD request, for example from a link preview, must not be treated as the redirect.
    let callback_route = get(handle_callback).head(|| async { StatusCode::METHOD_NOT_ALLOWED });
    let app = Router::new().route(CALLBACK_PATH, callback_route).with_state(callbacks);
    let serving = axum::serve(listener, app).with_graceful_shutdown(ended.map(drop));
    let mut serving = pin!(serving.into_future());
    let granted = async {
        let _done = done;
        let timed_out =
            || Failure::Login { provider: args.provider.clone(), cause: "timed out waiting for the login".into() };
        let callback = tokio::time::timeout(LOGIN_TIMEOUT, wait_for_callback(callback_receiver, &origin, &login)).await;
        let (redirected_to, browser) = callback.ok().flatten().ok_or_else(timed_out)?;
        let stored = async {
            // Fetches the provider again, because it may have changed during the login. The response also contains the
            // time of the Toolwright server, which determines when the token expires.
            let (current, now) = fetch_provider(cx, &args.provider).await?;
            if current.login_target(&args.provider)? != (server, secret) {
                return Err(Failure::Usage(format!(
                    "provider `{}` was modified during the login; log in again",
                    args.provider
                )));
            }
            let (grant, _) = login.finish(&redirected_to, now).await.map_err(failed)?;
            Ok((store_grant(cx, secret, args.scope, &grant).await?, grant))
        };
        let stored = stored.await;
        // Sending fails if the browser has disconnected. The login is complete anyway.
        let _ = browser.send(stored.as_ref().map(drop).map_err(Failure::to_string));
        stored
    };
    let (stored, grant) = tokio::select! {
        granted = granted => {
            // Let the server finish sending the page.
            let _ = tokio::time::timeout(BROWSER_RESPONSE_TIMEOUT, serving).await;
            granted?
        }
        served = &mut serving => return Err(Failure::Output(served.err().unwrap_or_else(|| ErrorKind::NotConnected.into()))),
    };
    show(cx, &args.provider, &stored, &grant)?;
    Ok(Exit::Ok)
}

/// Fetches a provider. Also returns the time of the Toolwright server.
async fn fetch_provider(cx: &Context, name: &str) -> Result<(Provider, Timestamp), Failure> {
    let response = cx.client.get(&path(PROVIDERS, name), &[]).await?;
    let now = response.header("date").and_then(parse_http_date).unwrap_or_else(|| SystemClock.now());
    Ok((response.read()?, now))
}

impl Provider {
    /// Returns the URL of the MCP server, and the name of the secret that stores the login.
    fn login_target(&self, name: &str) -> Result<(&str, &str), Failure> {
        let (Some(server), Some(secret), true, ProviderType::Mcp) =
            (&self.base_url, &self.auth.secret_ref, self.auth.is_login(), self.provider_type)
        else {
            return Err(Failure::Usage(format!(
                "provider `{name}` does not support logins; it needs `providerType: MCP`, a `baseUrl`, and `auth` with `authType: oauth2`, a \
                 `secretRef` and no `tokenEndpoint`"
            )));
        };
        Ok((server, secret))
    }
}

/// Fails early if the caller may not store the secret. To test this, the command sends an empty value. The Toolwright
/// server checks the permission first and then rejects the value as invalid, so nothing is stored.
async fn check_permission(cx: &Context, name: &str, scope: SecretScopeArg) -> Result<(), Failure> {
    let nothing = json!({ "name": name, "scope": scope.as_str(), "value": "" });
    match cx.client.post(SECRETS, &nothing).await {
        Err(Failure::Refused(refusal)) if refusal.problem.code == "forbidden" => Err(Failure::Refused(refusal)),
        _ => Ok(()),
    }
}

async fn store_grant(cx: &Context, name: &str, scope: SecretScopeArg, grant: &Grant) -> Result<SecretView, Failure> {
    let body = json!({ "name": name, "scope": scope.as_str(), "value": grant.to_secret().expose_secret() });
    cx.client.post(SECRETS, &body).await?.read()
}

/// Joins the causes of an error, which are on separate lines, into one line.
fn in_one_line(error: &OAuthLoginError) -> String {
    let text = error.to_string();
    let causes = text.lines().map(|line| line.trim().trim_start_matches("Caused by: "));
    causes.collect::<Vec<_>>().join(": ")
}

/// Waits for the redirect of this login. Returns the redirected URL and the channel for the result.
async fn wait_for_callback(
    mut callback_receiver: mpsc::Receiver<Callback>,
    origin: &str,
    login: &OAuthLogin,
) -> Option<(String, oneshot::Sender<Result<(), String>>)> {
    loop {
        let (uri, show) = callback_receiver.recv().await?;
        let url = format!("{origin}{uri}");
        if login.is_callback(&url) {
            return Some((url, show));
        }
        // The request is not the redirect of this login.
        let _ = show.send(Err("this redirect does not belong to the current login".into()));
    }
}

async fn handle_callback(State(callbacks): State<mpsc::Sender<Callback>>, uri: Uri) -> (StatusCode, Html<String>) {
    let (show, browser) = oneshot::channel();
    let result = match callbacks.send((uri, show)).await {
        Ok(()) => browser.await.unwrap_or_else(|_| Err("the login was aborted".into())),
        Err(_) => Err("the login has already ended".into()),
    };
    match result {
        Ok(()) => html_page(StatusCode::OK, "Logged in", "You are logged in. You can close this window."),
        Err(cause) => html_page(StatusCode::BAD_REQUEST, "Not logged in", &cause),
    }
}

fn html_page(status: StatusCode, title: &str, text: &str) -> (StatusCode, Html<String>) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let style =
        "font: 1.1rem system-ui; max-width: 32rem; margin: 20vh auto; padding: 0 1rem; color-scheme: light dark";
    let html_page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>{title}</title><body style=\"{style}\"><h1>{title}</h1><p>{text}</p>"
    );
    (status, Html(html_page))
}

fn show(cx: &Context, provider: &str, stored: &SecretView, grant: &Grant) -> Result<(), Failure> {
    let SecretView { name, scope, .. } = stored;
    let renews = grant.refresh_token.is_some();
    if cx.output.json {
        let until = grant.expires_at;
        let text =
            json!({ "provider": provider, "secret": name, "scope": scope, "renews": renews, "expiresAt": until });
        return Ok(cx.output.document(text)?);
    }
    let validity = match (renews, grant.expires_at) {
        (true, _) => "renewed automatically".to_owned(),
        (false, Some(at)) => format!("expires {}", format_minute(at)),
        (false, None) => "no known expiry".to_owned(),
    };
    let done = cx.output.out.good('✓');
    Ok(cx.output.line(format!("{done} logged in to {provider}  secret {name}  scope {scope}  {validity}"))?)
}
