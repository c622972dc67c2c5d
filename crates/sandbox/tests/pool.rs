//! Who gets which worker, and what becomes of workers that misbehave.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use support::{Answers, Nobody, children, config, exception, job, sandbox};
use tokio::sync::{Barrier, Notify};
use toolwright_sandbox::{AsyncHost, Done, Failure, Job, Language, Limit, Limits, Sandbox, SandboxConfig};

async fn run(sandbox: &Sandbox, tenant: &str, code: &str) -> Result<Done, Failure> {
    sandbox.run(Language::JavaScript, tenant, job(code), &Nobody).await
}

async fn process(sandbox: &Sandbox, tenant: &str) -> u64 {
    run(sandbox, tenant, "process").await.unwrap().result.as_u64().unwrap()
}

async fn works(sandbox: &Sandbox) {
    assert_eq!(run(sandbox, "a", "echo").await.unwrap().result, json!({}));
}

/// Returns when the condition holds. Whoever waits in vain is stopped by the runner of the tests.
async fn eventually(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_worker_serves_its_tenant_again_and_no_other() {
    let sandbox = sandbox();
    let (a, b) = (process(&sandbox, "a").await, process(&sandbox, "b").await);
    assert_ne!(a, b);
    assert_eq!(process(&sandbox, "a").await, a);
    assert_eq!(process(&sandbox, "b").await, b);
    let other = sandbox.run(Language::Python, "a", job("process"), &Nobody).await.unwrap();
    assert_ne!(other.result, json!(a), "a language has its own workers");
}

#[tokio::test]
async fn the_worker_that_has_waited_longest_makes_room() {
    let sandbox = Sandbox::new(SandboxConfig { kept: 2, ..config() });
    let first = process(&sandbox, "a").await;
    let second = process(&sandbox, "b").await;
    process(&sandbox, "c").await;
    eventually(|| children().len() == 2).await;
    assert!(!children().contains(&u32::try_from(first).unwrap()));
    assert_eq!(process(&sandbox, "b").await, second);
}

#[tokio::test]
async fn a_worker_is_replaced_after_a_thousand_jobs() {
    let sandbox = sandbox();
    let first = process(&sandbox, "a").await;
    for _ in 1..999 {
        works(&sandbox).await;
    }
    assert_eq!(process(&sandbox, "a").await, first, "the thousandth");
    assert_ne!(process(&sandbox, "a").await, first);
}

#[tokio::test]
async fn whoever_misbehaves_hurts_its_own_job_and_is_replaced() {
    let sandbox = sandbox();
    let quick = Limits { time: Duration::from_millis(50), ..job("").limits };
    for (code, limits, expected) in [
        ("spin", quick, "the code went beyond its limit on time"),
        ("limit", job("").limits, "the code went beyond its limit on recursion"),
        ("allocate", job("").limits, "the code went beyond its limit on memory"),
        ("crash", job("").limits, "the interpreter ended (SIGABRT)"),
        ("babble", job("").limits, "the code interfered with the interpreter"),
        ("start", job("").limits, "the code tried to do what the sandbox forbids"),
    ] {
        let before = process(&sandbox, "a").await;
        let failure = sandbox.run(Language::JavaScript, "a", Job { limits, ..job(code) }, &Nobody).await.unwrap_err();
        assert_eq!(failure.to_string(), expected, "{code}");
        assert_ne!(process(&sandbox, "a").await, before, "{code}");
        assert_eq!(children().len(), 1, "{code}: ended and reaped");
    }
}

#[tokio::test]
async fn memory_is_limited_by_the_job_and_not_by_what_an_allocator_reserved() {
    let sandbox = sandbox();
    let allocate = async |tenant, megabytes, memory| {
        let limits = Limits { memory, ..job("").limits };
        let job = Job { inputs: json!(megabytes), limits, ..job("allocate") };
        sandbox.run(Language::JavaScript, tenant, job, &Nobody).await.map(|done| done.result)
    };
    assert_eq!(allocate("a", 10, 64 << 20).await, Ok(json!(10)));
    assert_eq!(allocate("a", 300, 400 << 20).await, Ok(json!(300)));
    assert_eq!(allocate("b", 300, 64 << 20).await, Err(Failure::Limit { limit: Limit::Memory }));
}

#[tokio::test]
async fn failures_of_the_code_alone_cost_no_worker() {
    let sandbox = sandbox();
    let before = process(&sandbox, "a").await;
    let failure = run(&sandbox, "a", "nonsense").await.unwrap_err();
    assert_eq!(failure, Failure::Code { message: "`nonsense` is no program".to_owned(), line: Some(1) });
    assert!(exception(run(&sandbox, "a", "nest").await.unwrap_err()).contains("nested more than 100 deep"));
    assert_eq!(process(&sandbox, "a").await, before);
}

#[tokio::test]
async fn a_worker_that_complains_without_end_does_not_block() {
    let sandbox = sandbox();
    assert_eq!(run(&sandbox, "a", "complain").await.unwrap().result, Value::Null);
    works(&sandbox).await;
}

#[tokio::test]
async fn the_server_measures_results_itself() {
    let sandbox = sandbox();
    for output in [1 << 10, 512 << 10] {
        let limits = Limits { output, ..job("").limits };
        let failure = sandbox.run(Language::JavaScript, "a", Job { limits, ..job("large") }, &Nobody).await;
        assert_eq!(failure.unwrap_err(), Failure::Limit { limit: Limit::Output }, "{output}");
    }
}

#[tokio::test]
async fn more_than_a_worker_can_hold_is_not_sent() {
    let sandbox = sandbox();
    let inputs = json!({ "text": "x".repeat(2 << 20) });
    let limits = Limits { memory: 1 << 20, ..job("").limits };
    let failure = sandbox.run(Language::JavaScript, "a", Job { inputs, limits, ..job("echo") }, &Nobody).await;
    assert_eq!(failure.unwrap_err(), Failure::Limit { limit: Limit::Memory });
    let deep = (0..120).fold(Value::Null, |inner, _| json!([inner]));
    let failure = sandbox.run(Language::JavaScript, "a", Job { inputs: deep, ..job("echo") }, &Nobody).await;
    assert!(exception(failure.unwrap_err()).contains("nested"));
    let limits = Limits { memory: 1 << 40, ..job("").limits };
    let failure = sandbox.run(Language::JavaScript, "a", Job { limits, ..job("echo") }, &Nobody).await.unwrap_err();
    assert!(matches!(failure, Failure::Unavailable { .. }), "{failure:?}");
    works(&sandbox).await;
}

#[tokio::test]
async fn calls_reach_the_host_and_its_errors_reach_the_code() {
    let sandbox = sandbox();
    let host = Answers(|function: &str, arguments| match arguments {
        Value::Number(_) => Err("there is no such number".to_owned()),
        other => Ok(json!({ "function": function, "arguments": other })),
    });
    let call = |inputs| sandbox.run(Language::JavaScript, "a", Job { inputs, ..job("call") }, &host);
    assert_eq!(call(json!("x")).await.unwrap().result, json!({ "function": "lookup", "arguments": "x" }));
    let failure = Failure::Exception {
        message: "there is no such number".to_owned(),
        line: Some(1),
        stdout: "called".to_owned(),
    };
    assert_eq!(call(json!(1)).await.unwrap_err(), failure);
}

#[tokio::test]
async fn answers_that_code_cannot_hold_are_errors_for_it() {
    let sandbox = sandbox();
    let limits = Limits { memory: 1 << 20, ..job("").limits };
    let large = Answers(|_: &str, _| Ok(json!("x".repeat(2 << 20))));
    let failure = sandbox.run(Language::JavaScript, "a", Job { limits, ..job("call") }, &large).await;
    assert!(exception(failure.unwrap_err()).contains("larger than the memory"));
    let deep = Answers(|_: &str, _| Ok((0..120).fold(Value::Null, |inner, _| json!([inner]))));
    let failure = sandbox.run(Language::JavaScript, "a", job("call"), &deep).await;
    assert!(exception(failure.unwrap_err()).contains("nested too deeply"));
}

#[tokio::test]
async fn functions_that_were_not_granted_are_not_called() {
    let sandbox = sandbox();
    let host = Answers(|_: &str, _| panic!("the host is not asked"));
    let failure = sandbox.run(Language::JavaScript, "a", Job { functions: vec![], ..job("call") }, &host).await;
    assert!(exception(failure.unwrap_err()).contains("not granted"));
    let limits = Limits { host_calls: 0, ..job("").limits };
    let failure = sandbox.run(Language::JavaScript, "a", Job { limits, ..job("call") }, &host).await;
    assert_eq!(failure.unwrap_err(), Failure::Limit { limit: Limit::HostCalls });
}

/// Answers when it is told to.
struct Slow {
    asked: Notify,
    answer: Notify,
}

impl AsyncHost for Slow {
    fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, String>> {
        async {
            self.asked.notify_one();
            self.answer.notified().await;
            Ok(json!("at last"))
        }
        .boxed()
    }
}

#[tokio::test]
async fn the_time_of_the_host_is_not_the_codes() {
    let sandbox = sandbox();
    let host = Slow { asked: Notify::new(), answer: Notify::new() };
    let limits = Limits { time: Duration::from_secs(5), ..job("").limits };
    let call = sandbox.run(Language::JavaScript, "a", Job { limits, ..job("call") }, &host);
    let others = async {
        host.asked.notified().await;
        // An hour passes at once, and whoever has set a timer for less is woken before.
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        tokio::time::resume();
        host.answer.notify_one();
    };
    let (done, ()) = tokio::join!(call, others);
    assert_eq!(done.unwrap().result, json!("at last"));
}

#[tokio::test]
async fn to_drop_a_run_is_to_end_its_worker() {
    let sandbox = sandbox();
    let host = Slow { asked: Notify::new(), answer: Notify::new() };
    tokio::select! {
        _ = sandbox.run(Language::JavaScript, "a", job("call"), &host) => panic!("nobody answers"),
        () = host.asked.notified() => {}
    }
    eventually(|| children().is_empty()).await;
    works(&sandbox).await;
}

#[tokio::test]
async fn to_drop_the_sandbox_is_to_end_its_workers() {
    let sandbox = sandbox();
    works(&sandbox).await;
    assert_eq!(children().len(), 1);
    drop(sandbox);
    eventually(|| children().is_empty()).await;
}

/// Answers when everyone is there.
struct Crowd {
    inside: AtomicUsize,
    everyone: Barrier,
}

impl AsyncHost for Crowd {
    fn call<'a>(&'a self, _: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, String>> {
        async {
            self.inside.fetch_add(1, Ordering::SeqCst);
            self.everyone.wait().await;
            Ok(arguments)
        }
        .boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_jobs_share_four_workers() {
    let sandbox = Sandbox::new(SandboxConfig { running: 4, ..config() });
    let crowd = Arc::new(Crowd { inside: AtomicUsize::new(0), everyone: Barrier::new(1) });
    let jobs = (0..200).map(|number| {
        let (sandbox, crowd) = (sandbox.clone(), Arc::clone(&crowd));
        async move {
            let done = sandbox.run(Language::JavaScript, "a", job("process"), &*crowd).await.unwrap();
            let process = done.result.as_u64().unwrap();
            let job = Job { inputs: json!(number), ..job("echo") };
            let done = sandbox.run(Language::JavaScript, "a", job, &*crowd).await.unwrap();
            assert_eq!(done.result, json!(number));
            process
        }
    });
    let processes: BTreeSet<u64> = join_all(jobs).await.into_iter().collect();
    assert!(processes.len() <= 4, "{processes:?}");
    assert!(children().len() <= 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_waits_for_the_host_keeps_nobody_waiting() {
    let sandbox = Sandbox::new(SandboxConfig { running: 1, ..config() });
    let crowd = Arc::new(Crowd { inside: AtomicUsize::new(0), everyone: Barrier::new(3) });
    let jobs = (0..3).map(|number| {
        let (sandbox, crowd) = (sandbox.clone(), Arc::clone(&crowd));
        async move {
            let job = Job { inputs: json!(number), ..job("call") };
            sandbox.run(Language::JavaScript, "a", job, &*crowd).await.unwrap().result
        }
    });
    // Each waits in its call until all three are there, although only one may run.
    assert_eq!(join_all(jobs).await, [json!(0), json!(1), json!(2)]);
    assert_eq!(crowd.inside.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_program_that_is_no_worker_says_what_is_wrong() {
    let missing = Sandbox::new(SandboxConfig::new("/nowhere/worker"));
    let failure = run(&missing, "a", "echo").await.unwrap_err();
    let Failure::Unavailable { reason } = failure else { panic!("{failure:?}") };
    assert!(reason.contains("/nowhere/worker") && reason.contains("cannot be started"), "{reason}");
    let other = Sandbox::new(SandboxConfig::new("/bin/true"));
    let failure = run(&other, "a", "echo").await.unwrap_err();
    let Failure::Unavailable { reason } = failure else { panic!("{failure:?}") };
    assert!(reason.contains("does not start"), "{reason}");
}
