//! `toolwright mcp login`: the browser is sent to where the MCP server wants people to log in, and comes back to a page that only
//! this machine can reach (RFC 8252). What is granted goes to the server as a secret and stays nowhere else.

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
use toolwright_mcp::{Authorize, Login, LoginError, LoginRequest};
use toolwright_tools::http::Grant;
use toolwright_types::{AuthConfig, Clock, ProviderType, SystemClock, Timestamp};

use crate::cli::Context;
use crate::cli::client::{PROVIDERS, SECRETS, parse_name, path};
use crate::cli::exit::Exit;
use crate::cli::failure::Failure;
use crate::cli::secrets::Scope;
use crate::cli::time::{minute, parse_http_date};

/// How long somebody may take to log in.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long it may take to show the browser what became of it.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Where the browser comes back to.
const WAY_BACK: &str = "/callback";

/// Where the secret of a client is that was registered; arguments are seen by everyone on the machine.
const CLIENT_SECRET: &str = "TOOLWRIGHT_MCP_CLIENT_SECRET";

/// Options of `mcp login`.
#[derive(clap::Args)]
#[command(
    after_help = "The secret of a client that the provider names in `auth.clientId` is taken from TOOLWRIGHT_MCP_CLIENT_SECRET."
)]
pub struct LoginArgs {
    /// The provider whose MCP server to log in to
    #[arg(value_parser = parse_name)]
    provider: String,
    /// Who the login belongs to
    #[arg(long, value_enum, default_value_t = Scope::User)]
    scope: Scope,
    /// The port the browser comes back to, for a client that was registered with one; any when absent
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Show where to log in, and open no browser
    #[arg(long)]
    no_browser: bool,
}

/// What is known of a provider.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Provider {
    provider_type: ProviderType,
    base_url: Option<String>,
    auth: AuthConfig,
    #[serde(default)]
    egress_allow: Vec<String>,
}

#[derive(Deserialize)]
struct Kept {
    name: String,
    scope: String,
}

/// A browser that has come back, and where to say what it shows.
type Visit = (Uri, oneshot::Sender<Result<(), String>>);

pub(super) async fn run(cx: &Context, args: LoginArgs) -> Result<Exit, Failure> {
    let (provider, _) = look(cx, &args.provider).await?;
    let (server, secret) = provider.place(&args.provider)?;
    check_right(cx, secret, args.scope).await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port)).await;
    let listener = listener.map_err(|error| Failure::Usage(format!("listen on port {}: {error}", args.port)))?;
    let origin = format!("http://{}", listener.local_addr()?);
    let client = Authorize {
        client_id: provider.auth.client_id.clone(),
        client_secret: std::env::var(CLIENT_SECRET).ok().filter(|_| provider.auth.client_id.is_some()),
        client_metadata_url: None,
    };
    let request = LoginRequest {
        server,
        redirect: &format!("{origin}{WAY_BACK}"),
        client: &client,
        scopes: &provider.auth.scopes,
        challenge: None,
        private: !provider.egress_allow.is_empty(),
    };
    let failed = |error: LoginError| Failure::Login { provider: args.provider.clone(), cause: in_one_line(&error) };
    let login = Login::begin(request).await.map_err(failed)?;
    cx.output.note(format!("To log in, open this page:\n\n  {}\n", login.url()));
    if !args.no_browser && open::that_detached(login.url()).is_err() {
        cx.output.note("no browser could be opened; open the page yourself, on this machine");
    }
    let (done, ended) = oneshot::channel::<()>();
    let (visits, visitors) = mpsc::channel(1);
    // A page that is only looked at is not visited.
    let way_back = get(visited).head(|| async { StatusCode::METHOD_NOT_ALLOWED });
    let app = Router::new().route(WAY_BACK, way_back).with_state(visits);
    let serving = axum::serve(listener, app).with_graceful_shutdown(ended.map(drop));
    let mut serving = pin!(serving.into_future());
    let granted = async {
        let _done = done;
        let late = || Failure::Login { provider: args.provider.clone(), cause: "nobody logged in in time".into() };
        let back = tokio::time::timeout(PATIENCE, come_back(visitors, &origin, &login)).await;
        let (redirected_to, shown) = back.ok().flatten().ok_or_else(late)?;
        let kept = async {
            // Somebody may have changed it while the person was away; and how long a token lives is counted by the server's clock.
            let (again, now) = look(cx, &args.provider).await?;
            if again.place(&args.provider)? != (server, secret) {
                return Err(Failure::Usage(format!(
                    "provider `{}` has been changed meanwhile; log in again",
                    args.provider
                )));
            }
            let (grant, _) = login.finish(&redirected_to, now).await.map_err(failed)?;
            Ok((keep(cx, secret, args.scope, &grant).await?, grant))
        };
        let kept = kept.await;
        // The browser may be gone; that changes nothing.
        let _ = shown.send(kept.as_ref().map(drop).map_err(Failure::to_string));
        kept
    };
    let (kept, grant) = tokio::select! {
        granted = granted => {
            // What the browser still has to show.
            let _ = tokio::time::timeout(LAST_WORDS, serving).await;
            granted?
        }
        served = &mut serving => return Err(Failure::Output(served.err().unwrap_or_else(|| ErrorKind::NotConnected.into()))),
    };
    show(cx, &args.provider, &kept, &grant)?;
    Ok(Exit::Ok)
}

/// A provider, and the server's time.
async fn look(cx: &Context, name: &str) -> Result<(Provider, Timestamp), Failure> {
    let answer = cx.client.get(&path(PROVIDERS, name), &[]).await?;
    let now = answer.date.as_deref().and_then(parse_http_date).unwrap_or_else(|| SystemClock.now());
    Ok((answer.read()?, now))
}

impl Provider {
    /// Where its server is, and the name of the secret.
    fn place(&self, name: &str) -> Result<(&str, &str), Failure> {
        let (Some(server), Some(secret), true, ProviderType::Mcp) =
            (&self.base_url, &self.auth.secret_ref, self.auth.is_login(), self.provider_type)
        else {
            return Err(Failure::Usage(format!(
                "nobody logs in to provider `{name}`: it needs `providerType: MCP`, a `baseUrl`, and `auth` with `authType: oauth2`, a \
                 `secretRef` and no `tokenEndpoint`"
            )));
        };
        Ok((server, secret))
    }
}

/// Fails before anybody has logged in if the login could not be kept then. That a secret has no value is said only to whoever may
/// give it one.
async fn check_right(cx: &Context, name: &str, scope: Scope) -> Result<(), Failure> {
    let nothing = json!({ "name": name, "scope": scope.as_str(), "value": "" });
    match cx.client.post(SECRETS, &nothing).await {
        Err(Failure::Refused(problem)) if problem.code == "forbidden" => Err(Failure::Refused(problem)),
        _ => Ok(()),
    }
}

async fn keep(cx: &Context, name: &str, scope: Scope, grant: &Grant) -> Result<Kept, Failure> {
    let body = json!({ "name": name, "scope": scope.as_str(), "value": grant.to_secret().expose_secret() });
    cx.client.post(SECRETS, &body).await?.read()
}

/// The library tells causes in lines of their own.
fn in_one_line(error: &LoginError) -> String {
    let said = error.to_string();
    let causes = said.lines().map(|line| line.trim().trim_start_matches("Caused by: "));
    causes.collect::<Vec<_>>().join(": ")
}

/// Waits until the browser is back: where it was sent, and where to say what it shows.
async fn come_back(
    mut visitors: mpsc::Receiver<Visit>,
    origin: &str,
    login: &Login,
) -> Option<(String, oneshot::Sender<Result<(), String>>)> {
    loop {
        let (uri, show) = visitors.recv().await?;
        let url = format!("{origin}{uri}");
        if login.leads_to(&url) {
            return Some((url, show));
        }
        // Whoever that was.
        let _ = show.send(Err("this is not the way back from the page that was shown".into()));
    }
}

async fn visited(State(visits): State<mpsc::Sender<Visit>>, uri: Uri) -> (StatusCode, Html<String>) {
    let (show, shown) = oneshot::channel();
    let told = match visits.send((uri, show)).await {
        Ok(()) => shown.await.unwrap_or_else(|_| Err("the login was given up".into())),
        Err(_) => Err("the login is over".into()),
    };
    match told {
        Ok(()) => page(StatusCode::OK, "Logged in", "Toolwright has what it needs. You can close this window."),
        Err(cause) => page(StatusCode::BAD_REQUEST, "Not logged in", &cause),
    }
}

fn page(status: StatusCode, title: &str, text: &str) -> (StatusCode, Html<String>) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let style =
        "font: 1.1rem system-ui; max-width: 32rem; margin: 20vh auto; padding: 0 1rem; color-scheme: light dark";
    let page = format!(
        "<!doctype html><meta charset=\"utf-8\"><title>{title}</title><body style=\"{style}\"><h1>{title}</h1><p>{text}</p>"
    );
    (status, Html(page))
}

fn show(cx: &Context, provider: &str, kept: &Kept, grant: &Grant) -> Result<(), Failure> {
    let Kept { name, scope } = kept;
    let renews = grant.refresh_token.is_some();
    if cx.output.json {
        let until = grant.expires_at;
        let said =
            json!({ "provider": provider, "secret": name, "scope": scope, "renews": renews, "expiresAt": until });
        return Ok(cx.output.line(said)?);
    }
    let lasts = match (renews, grant.expires_at) {
        (true, _) => "renews itself".to_owned(),
        (false, Some(at)) => format!("until {}", minute(at)),
        (false, None) => "until the server refuses it".to_owned(),
    };
    let done = cx.output.out.good('✓');
    Ok(cx.output.line(format!("{done} logged in to {provider}  secret {name}  scope {scope}  {lasts}"))?)
}
