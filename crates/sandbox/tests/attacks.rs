//! Attacks on the isolation of CPython. Each attack has the outcome that the table expects, and the sandbox can run
//! jobs afterwards.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic; the exemption of the lints for tests does not cover helper functions"
)]

mod support;
#[path = "attacks/table.rs"]
mod table;

use std::time::Duration;

use futures::StreamExt;
use serde_json::json;
use support::{FnHost, children, config, job, with_python};
use table::{Attempt, Expect, attempts};
use toolwright_sandbox::{Job, JobError, JobLimits, JobOutput, Language, Limit, Mechanism, Sandbox, SandboxConfig};

#[tokio::test]
async fn all_attacks_fail_if_all_isolation_mechanisms_are_enabled() {
    run_all_attempts(&[]).await;
}

#[tokio::test]
async fn all_attacks_fail_even_if_namespaces_are_disabled() {
    run_all_attempts(&[Mechanism::Namespaces]).await;
}

async fn run_all_attempts(disabled: &[Mechanism]) {
    let sandbox = with_python(SandboxConfig { disabled_mechanisms: disabled.to_vec(), ..config() });
    let before = resident_megabytes();
    let unexpected: Vec<String> = futures::stream::iter(attempts())
        .map(|attempt| run_attempt(&sandbox, attempt))
        .buffer_unordered(3)
        .filter_map(std::future::ready)
        .collect()
        .await;
    assert!(unexpected.is_empty(), "without {disabled:?}:\n{}", unexpected.join("\n"));

    let output = sandbox.run(Language::CPython, "a", job("'still here'"), &host()).await;
    assert_eq!(output.unwrap().result, json!("still here"));
    assert_eq!(children().len(), 2, "only the warm processes remain");
    let after = resident_megabytes();
    assert!(after < before + 100, "memory grew from {before} MB to {after} MB");
}

async fn run_attempt(sandbox: &Sandbox, attempt: Attempt) -> Option<String> {
    let Attempt { name, code, expect } = attempt;
    let short = matches!(expect, Expect::Exceeds([Limit::Time]) | Expect::AnyFailure);
    let limits = JobLimits {
        time: if short { Duration::from_millis(200) } else { Duration::from_secs(30) },
        memory: 64 << 20,
        output: 64 << 10,
        depth: 200,
        host_calls: 10,
    };
    let functions = vec!["lookup".to_owned()];
    let code = format!("{}{code}", table::PREAMBLE);
    let outcome =
        sandbox.run(Language::CPython, "a", Job { code, functions, limits, inputs: json!({}) }, &host()).await;
    (!expect.holds(&outcome)).then(|| format!("{name}: expected {expect:?}, got {outcome:?}"))
}

/// A host with one function. The host panics when another function is called.
fn host() -> impl toolwright_sandbox::AsyncHost {
    FnHost(|function: &str, _| {
        assert_eq!(function, "lookup");
        Ok(json!("looked up"))
    })
}

impl Expect {
    fn holds(&self, outcome: &Result<JobOutput, JobError>) -> bool {
        match (self, outcome) {
            (Expect::Returns(text), Ok(output)) => {
                output.result == serde_json::from_str::<serde_json::Value>(text).unwrap()
            }
            (Expect::Raises(names), Err(JobError::Exception { message, .. })) => {
                names.iter().any(|name| message.starts_with(&format!("{name}:")) || message == name)
            }
            (Expect::Fails(text), Err(JobError::Exception { message, .. })) => message.contains(text),
            (Expect::Exceeds(limits), Err(JobError::Limit { limit })) => limits.contains(limit),
            (Expect::AnyFailure, Err(failure)) => !matches!(failure, JobError::Unavailable { .. }),
            _ => false,
        }
    }
}

fn resident_megabytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_ascii_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}
