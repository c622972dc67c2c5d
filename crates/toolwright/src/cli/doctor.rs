//! `toolwright doctor`: checks the connection to the server step by step and suggests remedies.

use serde::Serialize;
use serde_json::json;
use toolwright_api::wire::WhoView;
use toolwright_types::{Clock, SystemClock, Timestamp};

use super::Context;
use super::client::ApiResponse;
use super::exit::Exit;
use super::failure::{Failure, Refusal};
use super::output::{Output, sanitize_line};
use super::time::parse_http_date;
use super::version::{CLIENT_VERSION, server_version};

/// The tolerated clock skew. If the skew is larger, keys seem to expire at unexpected times.
const MAX_CLOCK_SKEW_SECONDS: i64 = 30;

/// Arguments of `doctor` (none).
#[derive(clap::Args)]
pub(crate) struct DoctorArgs {}

/// The result of one check.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    status: Status,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
    #[serde(skip)]
    exit: Exit,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Warning,
    Failed,
    Skipped,
}

/// Checks the connection. Warnings do not affect the exit code.
pub(super) async fn run(cx: &Context) -> Result<Exit, Failure> {
    let checks = run_checks(cx).await;
    let exit = checks.iter().fold(Exit::Ok, |exit, check| exit.or(check.exit));
    if cx.output.json {
        cx.output.document(json!({ "ok": exit == Exit::Ok, "checks": checks }))?;
    } else {
        cx.output.lines(checks.iter().map(|check| check.line(&cx.output)))?;
    }
    Ok(exit)
}

async fn run_checks(cx: &Context) -> Vec<Check> {
    let health = cx.client.probe("/healthz").await;
    let mut checks = vec![reachable(cx, &health)];
    let Some(health) = health.ok().filter(|response| response.status == 200) else {
        checks.extend(["ready", "key", "version", "clock"].map(Check::skipped));
        return checks;
    };
    checks.push(ready(cx.client.probe("/readyz").await));
    checks.push(key(cx.client.get("/api/v1/ai/whoami", &[]).await));
    checks.push(version(cx.client.probe("/openapi.json").await));
    checks.push(clock(health.header("date"), SystemClock.now()));
    checks
}

fn reachable(cx: &Context, health: &Result<ApiResponse, Failure>) -> Check {
    let base = cx.client.base_url();
    let remedy = "start a server with `toolwright serve`, or select one with --url or TOOLWRIGHT_URL";
    match health {
        Ok(response) if response.status == 200 => Check::ok("reachable", format!("{base} is reachable")),
        Ok(response) => {
            Check::failed("reachable", format!("{base}/healthz returned status {}", response.status), Exit::Unavailable)
                .remedy("another program may be listening there; check --url or TOOLWRIGHT_URL")
        }
        Err(failure) => Check::failed("reachable", failure.to_string(), failure.exit()).remedy(remedy),
    }
}

fn ready(response: Result<ApiResponse, Failure>) -> Check {
    let remedy = "check the server's database; the server log has the cause";
    match response {
        Ok(response) if response.status == 200 => Check::ok("ready", "the server is ready".into()),
        Ok(response) => {
            Check::failed("ready", Refusal::parse(response.status, response.text, "").problem.detail, Exit::Unavailable)
                .remedy(remedy)
        }
        Err(failure) => Check::failed("ready", failure.to_string(), failure.exit()).remedy(remedy),
    }
}

fn key(response: Result<ApiResponse, Failure>) -> Check {
    match response.and_then(|response| response.read::<WhoView>()) {
        Ok(identity) => {
            let roles: Vec<&str> = identity.roles.iter().map(|role| role.as_str()).collect();
            let roles = if roles.is_empty() { "no roles".to_owned() } else { roles.join(", ") };
            Check::ok("key", format!("authenticated as {} in realm {} ({roles})", identity.principal, identity.realm))
        }
        Err(failure) => {
            let remedy = match &failure {
                Failure::Refused(refusal) if refusal.problem.status == 403 => "check --realm or TOOLWRIGHT_REALM",
                _ => {
                    "set TOOLWRIGHT_API_KEY or pass --api-key; administrators create keys with `toolwright keys create`"
                }
            };
            Check::failed("key", failure.to_string(), failure.exit()).remedy(remedy)
        }
    }
}

/// Compares the versions of the client and the server. If the server does not report its version, the result is only a
/// warning, because the connection works.
fn version(response: Result<ApiResponse, Failure>) -> Check {
    let client_version = CLIENT_VERSION;
    match response.ok().as_ref().and_then(server_version) {
        Some(server_version) if server_version == client_version => {
            Check::ok("version", format!("client and server have version {client_version}"))
        }
        Some(server_version) => {
            Check::warning("version", format!("the server has version {server_version}, this client {client_version}"))
                .remedy("use a client of the same version as the server")
        }
        None => Check::warning(
            "version",
            format!("the server does not report its version; this client has version {client_version}"),
        ),
    }
}

fn clock(date: Option<&str>, now: Timestamp) -> Check {
    let Some(server_time) = date.and_then(parse_http_date) else {
        return Check::warning("clock", "the server does not report its time".into());
    };
    let skew = (now.as_micros() - server_time.as_micros()) / 1_000_000;
    match skew.abs() {
        0..=MAX_CLOCK_SKEW_SECONDS => Check::ok("clock", "clocks are in sync".into()),
        seconds => {
            let side = if skew > 0 { "ahead of" } else { "behind" };
            Check::warning("clock", format!("this machine's clock is {seconds} s {side} the server's"))
                .remedy("synchronize both clocks, for example with chrony")
        }
    }
}

impl Check {
    fn new(name: &'static str, status: Status, detail: String) -> Self {
        Self { name, status, detail, remedy: None, exit: Exit::Ok }
    }

    fn ok(name: &'static str, detail: String) -> Self {
        Self::new(name, Status::Ok, detail)
    }

    fn warning(name: &'static str, detail: String) -> Self {
        Self::new(name, Status::Warning, detail)
    }

    fn skipped(name: &'static str) -> Self {
        Self::new(name, Status::Skipped, "skipped".into())
    }

    fn failed(name: &'static str, detail: String, exit: Exit) -> Self {
        Self { exit, ..Self::new(name, Status::Failed, detail) }
    }

    fn remedy(self, remedy: &str) -> Self {
        Self { remedy: Some(remedy.to_owned()), ..self }
    }

    fn line(&self, output: &Output) -> String {
        let mark = match self.status {
            Status::Ok => output.out.good('✓'),
            Status::Warning => output.out.warn('!'),
            Status::Failed => output.out.bad('✗'),
            Status::Skipped => output.out.dim('-'),
        };
        let remedy = self.remedy.as_ref().map(|remedy| format!(" → {remedy}")).unwrap_or_default();
        format!("{mark} {:<9}  {}{remedy}", self.name, sanitize_line(&self.detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doctor_warns_if_the_clock_skew_is_above_the_limit() {
        let now: Timestamp = "2026-11-15T05:02:00Z".parse().unwrap();
        let status = |date: &str| clock(Some(date), now).status;
        assert_eq!(status("Sun, 15 Nov 2026 05:01:47 GMT"), Status::Ok);
        assert_eq!(status("Sun, 15 Nov 2026 05:00:47 GMT"), Status::Warning);
        assert!(clock(Some("Sun, 15 Nov 2026 06:02:00 GMT"), now).detail.contains("3600 s behind"));
        assert_eq!(clock(None, now).exit, Exit::Ok);
    }
}
