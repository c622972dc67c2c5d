//! Full Python against its walls: each attempt ends as the table says, and the server goes on.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;
#[path = "attacks/table.rs"]
mod table;

use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use support::{Answers, children, config, job, with_python};
use table::{Attempt, Expect, attempts};
use toolwright_sandbox::{Done, Failure, Job, Language, Limit, Limits, Mechanism, Sandbox, SandboxConfig};

#[tokio::test]
async fn nothing_gets_out_behind_all_walls() {
    all_attempts(&[]).await;
}

#[tokio::test]
async fn nothing_gets_out_where_the_kernel_gives_no_namespaces() {
    all_attempts(&[Mechanism::Namespaces]).await;
}

async fn all_attempts(without: &[Mechanism]) {
    let sandbox = with_python(SandboxConfig { without: without.to_vec(), ..config() });
    let before = resident_megabytes();
    let unexpected: Vec<String> = futures::stream::iter(attempts())
        .map(|attempt| tried(&sandbox, attempt))
        .buffer_unordered(3)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(unexpected.is_empty(), "without {without:?}:\n{}", unexpected.join("\n"));

    let done = sandbox.run(Language::CPython, "a", job("'still here'"), &host()).await;
    assert_eq!(done.unwrap().result, json!("still here"));
    assert_eq!(children().len(), 2, "nobody but those that are started ahead");
    let after = resident_megabytes();
    assert!(after < before + 100, "{before} MB became {after}");
}

async fn tried(sandbox: &Sandbox, attempt: Attempt) -> Option<String> {
    let Attempt { name, code, expect } = attempt;
    let endless = matches!(expect, Expect::Beyond([Limit::Time]) | Expect::Fails);
    let limits = Limits {
        time: if endless { Duration::from_millis(200) } else { Duration::from_secs(30) },
        memory: 64 << 20,
        output: 64 << 10,
        depth: 200,
        host_calls: 10,
    };
    let functions = vec!["lookup".to_owned()];
    let code = format!("{}{code}", table::BEFORE);
    let outcome =
        sandbox.run(Language::CPython, "a", Job { code, functions, limits, inputs: json!({}) }, &host()).await;
    (!expect.holds(&outcome)).then(|| format!("{name}: expected {expect:?}, came to {outcome:?}"))
}

/// Grants one function, and would be ashamed of any other.
fn host() -> impl toolwright_sandbox::AsyncHost {
    Answers(|function: &str, _| {
        assert_eq!(function, "lookup");
        Ok(json!("looked up"))
    })
}

impl Expect {
    fn holds(&self, outcome: &Result<Done, Failure>) -> bool {
        match (self, outcome) {
            (Expect::Gives(text), Ok(done)) => done.result == serde_json::from_str::<serde_json::Value>(text).unwrap(),
            (Expect::Raises(names), Err(Failure::Exception { message, .. })) => {
                names.iter().any(|name| message.starts_with(&format!("{name}:")) || message == name)
            }
            (Expect::Ends(part), Err(Failure::Exception { message, .. })) => message.contains(part),
            (Expect::Beyond(limits), Err(Failure::Limit { limit })) => limits.contains(limit),
            (Expect::Fails, Err(failure)) => !matches!(failure, Failure::Unavailable { .. }),
            _ => false,
        }
    }
}

fn resident_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}
