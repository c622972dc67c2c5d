//! `toolwright doctor`: each step of the way to a working call, and what to do where it ends.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_types::{Clock, SystemClock, Timestamp};

use super::Context;
use super::client::Answer;
use super::exit::Exit;
use super::failure::{Failure, Problem};
use super::output::{Output, plain};
use super::time::parse_http_date;

/// Beyond this, keys expire at moments that surprise people.
const TOLERATED_SKEW_SECONDS: i64 = 30;

/// Options of `doctor`: none.
#[derive(clap::Args)]
pub struct DoctorArgs {}

/// One check, and how it went.
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

#[derive(Deserialize)]
struct Who {
    principal: String,
    realm: String,
    roles: Vec<String>,
}

/// Checks the connection. All is well if nothing failed; a warning is no failure.
pub async fn run(cx: &Context) -> Result<Exit, Failure> {
    let checks = checks(cx).await;
    let exit = checks.iter().fold(Exit::Ok, |exit, check| exit.or(check.exit));
    if cx.output.json {
        cx.output.line(json!({ "ok": exit == Exit::Ok, "checks": checks }))?;
    } else {
        cx.output.lines(checks.iter().map(|check| check.line(&cx.output)))?;
    }
    Ok(exit)
}

async fn checks(cx: &Context) -> Vec<Check> {
    let alive = cx.client.probe("/healthz").await;
    let mut checks = vec![reachable(cx, &alive)];
    let Some(alive) = alive.ok().filter(|answer| answer.status == 200) else {
        checks.extend(["ready", "key", "version", "clock"].map(Check::skipped));
        return checks;
    };
    checks.push(ready(cx.client.probe("/readyz").await));
    checks.push(key(cx.client.get("/api/v1/ai/whoami", &[]).await));
    checks.push(version(cx.client.probe("/openapi.json").await));
    checks.push(clock(alive.date.as_deref(), SystemClock.now()));
    checks
}

fn reachable(cx: &Context, alive: &Result<Answer, Failure>) -> Check {
    let base = cx.client.base();
    let remedy = "start a server with `toolwright serve`, or name another with TOOLWRIGHT_URL or --url";
    match alive {
        Ok(answer) if answer.status == 200 => Check::ok("reachable", format!("{base} answers")),
        Ok(answer) => Check::failed(
            "reachable",
            format!("{base}/healthz answers with status {}", answer.status),
            Exit::Unavailable,
        )
        .remedy("something else listens there: check TOOLWRIGHT_URL or --url"),
        Err(failure) => Check::failed("reachable", failure.to_string(), failure.exit()).remedy(remedy),
    }
}

fn ready(answer: Result<Answer, Failure>) -> Check {
    let remedy = "the server's database does not answer; its log has the cause";
    match answer {
        Ok(answer) if answer.status == 200 => Check::ok("ready", "the server can work".into()),
        Ok(answer) => Check::failed("ready", Problem::read(answer.status, answer.text, "").detail, Exit::Unavailable)
            .remedy(remedy),
        Err(failure) => Check::failed("ready", failure.to_string(), failure.exit()).remedy(remedy),
    }
}

fn key(answer: Result<Answer, Failure>) -> Check {
    match answer.and_then(|answer| answer.read::<Who>()) {
        Ok(who) => {
            let roles = if who.roles.is_empty() { "no role".to_owned() } else { who.roles.join(", ") };
            Check::ok("key", format!("you are {} in realm {} ({roles})", who.principal, who.realm))
        }
        Err(failure) => {
            let remedy = match &failure {
                Failure::Refused(problem) if problem.status == 403 => "check TOOLWRIGHT_REALM or --realm",
                _ => {
                    "set TOOLWRIGHT_API_KEY or pass --api-key; an administrator makes keys with `toolwright keys create`"
                }
            };
            Check::failed("key", failure.to_string(), failure.exit()).remedy(remedy)
        }
    }
}

/// That the server does not tell its version is no fault of the connection.
fn version(answer: Result<Answer, Failure>) -> Check {
    let ours = env!("CARGO_PKG_VERSION");
    let document: Option<Value> = answer.and_then(|answer| answer.read()).ok();
    match document.as_ref().and_then(|document| document.pointer("/info/version")).and_then(Value::as_str) {
        Some(theirs) if theirs == ours => Check::ok("version", format!("the server and this client are {ours}")),
        Some(theirs) => Check::warning("version", format!("the server is {theirs}, this client is {ours}"))
            .remedy("use the client of the server's release where they disagree"),
        None => Check::warning("version", format!("the server does not tell its version; this client is {ours}")),
    }
}

fn clock(date: Option<&str>, now: Timestamp) -> Check {
    let Some(theirs) = date.and_then(parse_http_date) else {
        return Check::warning("clock", "the server does not tell its time".into());
    };
    let skew = (now.as_micros() - theirs.as_micros()) / 1_000_000;
    match skew.abs() {
        0..=TOLERATED_SKEW_SECONDS => Check::ok("clock", "both clocks agree".into()),
        seconds => {
            let side = if skew > 0 { "ahead of" } else { "behind" };
            Check::warning("clock", format!("this machine's clock is {seconds} s {side} the server's"))
                .remedy("let both machines keep time, for example with chrony")
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
        Self::new(name, Status::Skipped, "not checked".into())
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
        format!("{mark} {:<9}  {}{remedy}", self.name, plain(&self.detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_may_differ_a_little() {
        let now: Timestamp = "2026-11-15T05:02:00Z".parse().unwrap();
        let status = |date: &str| clock(Some(date), now).status;
        assert_eq!(status("Sun, 15 Nov 2026 05:01:47 GMT"), Status::Ok);
        assert_eq!(status("Sun, 15 Nov 2026 05:00:47 GMT"), Status::Warning);
        assert!(clock(Some("Sun, 15 Nov 2026 06:02:00 GMT"), now).detail.contains("3600 s behind"));
        assert_eq!(clock(None, now).exit, Exit::Ok);
    }
}
