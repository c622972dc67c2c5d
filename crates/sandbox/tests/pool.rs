//! Tests of the worker pool: which worker runs a job, and what happens to workers that misbehave.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic; the exemption of the lints for tests does not cover helper functions"
)]

mod support;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use serde_json::{Value, json};
use support::{FnHost, NoHost, children, config, exception, job, sandbox, with_python};
use tokio::sync::{Barrier, Notify};
use tokio::task::JoinSet;
use toolwright_sandbox::{
    AsyncHost, Job, JobError, JobLimits, JobOutput, JobOwner, Language, Limit, Sandbox, SandboxConfig,
};

async fn run(sandbox: &Sandbox, tenant: &str, code: &str) -> Result<JobOutput, JobError> {
    sandbox.run(Language::JavaScript, tenant, job(code), &NoHost).await
}

async fn worker_pid(sandbox: &Sandbox, tenant: &str) -> u64 {
    run(sandbox, tenant, "process").await.unwrap().result.as_u64().unwrap()
}

async fn assert_works(sandbox: &Sandbox) {
    assert_eq!(run(sandbox, "a", "echo").await.unwrap().result, json!({}));
}

/// Waits until the condition holds. The test runner's timeout ends a test that waits forever.
async fn wait_until(mut holds: impl FnMut() -> bool) {
    while !holds() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn worker_is_reused_for_the_same_tenant_only() {
    let sandbox = sandbox();
    let (a, b) = (worker_pid(&sandbox, "a").await, worker_pid(&sandbox, "b").await);
    assert_ne!(a, b);
    assert_eq!(worker_pid(&sandbox, "a").await, a);
    assert_eq!(worker_pid(&sandbox, "b").await, b);
    let other = sandbox.run(Language::Python, "a", job("process"), &NoHost).await.unwrap();
    assert_ne!(other.result, json!(a), "each language has its own workers");
}

#[tokio::test]
async fn longest_idle_worker_is_evicted() {
    let sandbox = Sandbox::new(SandboxConfig { max_idle: 2, ..config() });
    let first = worker_pid(&sandbox, "a").await;
    let second = worker_pid(&sandbox, "b").await;
    worker_pid(&sandbox, "c").await;
    wait_until(|| children().len() == 2).await;
    assert!(!children().contains(&u32::try_from(first).unwrap()));
    assert_eq!(worker_pid(&sandbox, "b").await, second);
}

#[tokio::test]
async fn worker_is_replaced_after_a_thousand_jobs() {
    let sandbox = sandbox();
    let first = worker_pid(&sandbox, "a").await;
    for _ in 1..999 {
        assert_works(&sandbox).await;
    }
    assert_eq!(worker_pid(&sandbox, "a").await, first, "the thousandth job");
    assert_ne!(worker_pid(&sandbox, "a").await, first);
}

#[tokio::test]
async fn misbehaving_worker_fails_its_job_and_is_replaced() {
    let sandbox = sandbox();
    let quick = JobLimits { time: Duration::from_millis(50), ..job("").limits };
    for (code, limits, expected) in [
        ("spin", quick, "the code exceeded its limit on time"),
        ("limit", job("").limits, "the code exceeded its limit on recursion"),
        ("allocate", job("").limits, "the code exceeded its limit on memory"),
        ("crash", job("").limits, "the interpreter exited unexpectedly (SIGABRT)"),
        ("malformed", job("").limits, "the code interfered with the interpreter"),
        ("spawn", job("").limits, "the code made a system call that the sandbox forbids"),
    ] {
        let before = worker_pid(&sandbox, "a").await;
        let error = sandbox.run(Language::JavaScript, "a", Job { limits, ..job(code) }, &NoHost).await.unwrap_err();
        assert_eq!(error.to_string(), expected, "{code}");
        assert_ne!(worker_pid(&sandbox, "a").await, before, "{code}");
        assert_eq!(children().len(), 1, "{code}: the old worker is killed and reaped");
    }
}

#[tokio::test]
async fn memory_limit_does_not_count_memory_that_the_allocator_reserved() {
    let sandbox = sandbox();
    let allocate = async |tenant, megabytes, memory| {
        let limits = JobLimits { memory, ..job("").limits };
        let job = Job { inputs: json!(megabytes), limits, ..job("allocate") };
        sandbox.run(Language::JavaScript, tenant, job, &NoHost).await.map(|output| output.result)
    };
    assert_eq!(allocate("a", 10, 64 << 20).await, Ok(json!(10)));
    assert_eq!(allocate("a", 300, 400 << 20).await, Ok(json!(300)));
    assert_eq!(allocate("b", 300, 64 << 20).await, Err(JobError::Limit { limit: Limit::Memory }));
}

#[tokio::test]
async fn worker_is_kept_after_the_submitted_code_fails() {
    let sandbox = sandbox();
    let before = worker_pid(&sandbox, "a").await;
    let error = run(&sandbox, "a", "nonsense").await.unwrap_err();
    assert_eq!(error, JobError::Code { message: "unknown program `nonsense`".to_owned(), line: Some(1) });
    assert!(exception(run(&sandbox, "a", "nest").await.unwrap_err()).contains("nested more than 100 levels deep"));
    assert_eq!(worker_pid(&sandbox, "a").await, before);
}

#[tokio::test]
async fn large_output_on_stderr_does_not_block_a_worker() {
    let sandbox = sandbox();
    assert_eq!(run(&sandbox, "a", "stderr").await.unwrap().result, Value::Null);
    assert_works(&sandbox).await;
}

#[tokio::test]
async fn server_enforces_the_output_limit_on_results() {
    let sandbox = sandbox();
    for output in [1 << 10, 512 << 10] {
        let limits = JobLimits { output, ..job("").limits };
        let error = sandbox.run(Language::JavaScript, "a", Job { limits, ..job("large") }, &NoHost).await;
        assert_eq!(error.unwrap_err(), JobError::Limit { limit: Limit::Output }, "{output}");
    }
}

#[tokio::test]
async fn inputs_above_the_memory_or_nesting_limit_are_rejected() {
    let sandbox = sandbox();
    let inputs = json!({ "text": "x".repeat(2 << 20) });
    let limits = JobLimits { memory: 1 << 20, ..job("").limits };
    let error = sandbox.run(Language::JavaScript, "a", Job { inputs, limits, ..job("echo") }, &NoHost).await;
    assert_eq!(error.unwrap_err(), JobError::Limit { limit: Limit::Memory });
    let deep = (0..120).fold(Value::Null, |inner, _| json!([inner]));
    let error = sandbox.run(Language::JavaScript, "a", Job { inputs: deep, ..job("echo") }, &NoHost).await;
    assert!(exception(error.unwrap_err()).contains("nested"));
    let limits = JobLimits { memory: 1 << 40, ..job("").limits };
    let error = sandbox.run(Language::JavaScript, "a", Job { limits, ..job("echo") }, &NoHost).await.unwrap_err();
    assert!(matches!(error, JobError::Unavailable { .. }), "{error:?}");
    assert_works(&sandbox).await;
}

#[tokio::test]
async fn submitted_code_receives_results_and_errors_of_host_functions() {
    let sandbox = sandbox();
    let host = FnHost(|function: &str, arguments| match arguments {
        Value::Number(_) => Err("number not found".to_owned()),
        other => Ok(json!({ "function": function, "arguments": other })),
    });
    let call = |inputs| sandbox.run(Language::JavaScript, "a", Job { inputs, ..job("call") }, &host);
    assert_eq!(call(json!("x")).await.unwrap().result, json!({ "function": "lookup", "arguments": "x" }));
    let expected =
        JobError::Exception { message: "number not found".to_owned(), line: Some(1), stdout: "called".to_owned() };
    assert_eq!(call(json!(1)).await.unwrap_err(), expected);
}

#[tokio::test]
async fn host_answer_over_a_limit_raises_an_exception_in_the_submitted_code() {
    let sandbox = sandbox();
    let limits = JobLimits { memory: 1 << 20, ..job("").limits };
    let large = FnHost(|_: &str, _| Ok(json!("x".repeat(2 << 20))));
    let error = sandbox.run(Language::JavaScript, "a", Job { limits, ..job("call") }, &large).await;
    assert!(exception(error.unwrap_err()).contains("larger than the memory limit"));
    let deep = FnHost(|_: &str, _| Ok((0..120).fold(Value::Null, |inner, _| json!([inner]))));
    let error = sandbox.run(Language::JavaScript, "a", job("call"), &deep).await;
    assert!(exception(error.unwrap_err()).contains("nested too deeply"));
}

#[tokio::test]
async fn call_to_a_function_that_is_not_granted_or_exceeds_the_call_limit_fails() {
    let sandbox = sandbox();
    let host = FnHost(|_: &str, _| panic!("the host must not be called"));
    let error = sandbox.run(Language::JavaScript, "a", Job { functions: vec![], ..job("call") }, &host).await;
    assert!(exception(error.unwrap_err()).contains("not granted"));
    let limits = JobLimits { host_calls: 0, ..job("").limits };
    let error = sandbox.run(Language::JavaScript, "a", Job { limits, ..job("call") }, &host).await;
    assert_eq!(error.unwrap_err(), JobError::Limit { limit: Limit::HostCalls });
}

/// A host that reports each call in `called` and answers after `release`.
struct SlowHost {
    called: Notify,
    release: Notify,
}

impl AsyncHost for SlowHost {
    fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, String>> {
        async {
            self.called.notify_one();
            self.release.notified().await;
            Ok(json!("at last"))
        }
        .boxed()
    }
}

#[tokio::test]
async fn time_in_host_functions_does_not_count_against_the_time_limit() {
    let sandbox = sandbox();
    let host = SlowHost { called: Notify::new(), release: Notify::new() };
    let limits = JobLimits { time: Duration::from_secs(5), ..job("").limits };
    let call = sandbox.run(Language::JavaScript, "a", Job { limits, ..job("call") }, &host);
    let others = async {
        host.called.notified().await;
        // Lets an hour of simulated time pass, which would trigger every shorter timer.
        tokio::time::pause();
        tokio::time::sleep(Duration::from_secs(3600)).await;
        tokio::time::resume();
        host.release.notify_one();
    };
    let (output, ()) = tokio::join!(call, others);
    assert_eq!(output.unwrap().result, json!("at last"));
}

#[tokio::test]
async fn dropping_a_run_kills_its_worker() {
    let sandbox = sandbox();
    let host = SlowHost { called: Notify::new(), release: Notify::new() };
    tokio::select! {
        _ = sandbox.run(Language::JavaScript, "a", job("call"), &host) => panic!("the host never answers"),
        () = host.called.notified() => {}
    }
    wait_until(|| children().is_empty()).await;
    assert_works(&sandbox).await;
}

#[tokio::test]
async fn dropping_the_sandbox_kills_its_workers() {
    let sandbox = sandbox();
    assert_works(&sandbox).await;
    assert_eq!(children().len(), 1);
    drop(sandbox);
    wait_until(|| children().is_empty()).await;
}

/// A host that answers when a number of calls have arrived.
struct BarrierHost {
    calls: AtomicUsize,
    barrier: Barrier,
}

impl AsyncHost for BarrierHost {
    fn call<'a>(&'a self, _: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, String>> {
        async {
            self.calls.fetch_add(1, Ordering::SeqCst);
            self.barrier.wait().await;
            Ok(arguments)
        }
        .boxed()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_jobs_share_four_workers() {
    let sandbox = Sandbox::new(SandboxConfig { max_running: 4, ..config() });
    let host = Arc::new(BarrierHost { calls: AtomicUsize::new(0), barrier: Barrier::new(1) });
    let jobs = (0..200).map(|number| {
        let (sandbox, host) = (sandbox.clone(), Arc::clone(&host));
        async move {
            let output = sandbox.run(Language::JavaScript, "a", job("process"), &*host).await.unwrap();
            let process = output.result.as_u64().unwrap();
            let job = Job { inputs: json!(number), ..job("echo") };
            let output = sandbox.run(Language::JavaScript, "a", job, &*host).await.unwrap();
            assert_eq!(output.result, json!(number));
            process
        }
    });
    let processes: BTreeSet<u64> = join_all(jobs).await.into_iter().collect();
    assert!(processes.len() <= 4, "{processes:?}");
    assert!(children().len() <= 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn job_that_waits_for_its_host_does_not_occupy_a_slot() {
    let sandbox = Sandbox::new(SandboxConfig { max_running: 1, ..config() });
    let host = Arc::new(BarrierHost { calls: AtomicUsize::new(0), barrier: Barrier::new(3) });
    let jobs = (0..3).map(|number| {
        let (sandbox, host) = (sandbox.clone(), Arc::clone(&host));
        async move {
            let job = Job { inputs: json!(number), ..job("call") };
            sandbox.run(Language::JavaScript, "a", job, &*host).await.unwrap().result
        }
    });
    // Each call waits until all three jobs have called, although only one job may run at a time.
    assert_eq!(join_all(jobs).await, [json!(0), json!(1), json!(2)]);
    assert_eq!(host.calls.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn missing_or_wrong_worker_program_makes_the_sandbox_unavailable() {
    let missing = Sandbox::new(SandboxConfig::new("/nowhere/worker"));
    let error = run(&missing, "a", "echo").await.unwrap_err();
    let JobError::Unavailable { reason } = error else { panic!("{error:?}") };
    assert!(reason.contains("/nowhere/worker") && reason.contains("could not be started"), "{reason}");
    let other = Sandbox::new(SandboxConfig::new("/bin/true"));
    let error = run(&other, "a", "echo").await.unwrap_err();
    let JobError::Unavailable { reason } = error else { panic!("{error:?}") };
    assert!(reason.contains("did not start"), "{reason}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn principal_that_queues_many_jobs_leaves_slots_to_other_principals() {
    // Of four slots, one tenant may use three, and one principal may use two.
    let sandbox = Sandbox::new(SandboxConfig { max_running: 4, ..config() });
    let run = |principal: &'static str, host: Arc<QueueHost>, code: &'static str| {
        let sandbox = sandbox.clone();
        let owner = JobOwner { tenant: "a", principal: Some(principal) };
        async move { sandbox.run(Language::JavaScript, owner, job(code), &*host).await }
    };
    // Dropping the set stops its jobs.
    let mut endless = JoinSet::new();
    for _ in 0..2 {
        let host = Arc::new(QueueHost::default());
        endless.spawn(run("ada", Arc::clone(&host), "spin"));
        wait_until(|| host.dequeued.load(Ordering::SeqCst) == 1).await;
    }
    let waiting = Arc::new(QueueHost::default());
    endless.spawn(run("ada", Arc::clone(&waiting), "spin"));
    wait_until(|| waiting.queued.load(Ordering::SeqCst) == 1).await;
    assert!(run("bob", Arc::default(), "echo").await.is_ok());
    assert_eq!(waiting.dequeued.load(Ordering::SeqCst), 0, "the third job of one principal waits");
}

/// A host that counts how often its job begins to wait for a slot, and how often it stops waiting.
#[derive(Default)]
struct QueueHost {
    queued: AtomicUsize,
    dequeued: AtomicUsize,
}

impl AsyncHost for QueueHost {
    fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, String>> {
        async { Err("no functions".to_owned()) }.boxed()
    }

    fn on_queued(&self) {
        self.queued.fetch_add(1, Ordering::SeqCst);
    }

    fn on_dequeued(&self) {
        self.dequeued.fetch_add(1, Ordering::SeqCst);
    }
}

/// A host whose function returns when a worker has ended.
struct UntilWorkerEnds;

impl AsyncHost for UntilWorkerEnds {
    fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, String>> {
        let has_ended = |pid: u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, fields)| fields.starts_with('Z'))
        };
        async move {
            wait_until(|| children().into_iter().any(has_ended)).await;
            Ok(Value::Null)
        }
        .boxed()
    }
}

#[tokio::test]
async fn processor_time_is_limited_while_a_host_function_runs() {
    const THREADS: &str = "
import hashlib, threading
for _ in range(4):
    threading.Thread(target=lambda: hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)).start()
lookup()
";
    let sandbox = with_python(config());
    for (language, code) in [(Language::JavaScript, "burn"), (Language::CPython, THREADS)] {
        let mut job = job(code);
        job.limits.time = Duration::from_secs(1);
        let outcome = sandbox.run(language, "a", job, &UntilWorkerEnds).await;
        assert!(matches!(outcome, Err(JobError::Limit { limit: Limit::Time })), "{language:?}: {outcome:?}");
    }
}

#[tokio::test]
async fn processor_time_of_earlier_jobs_does_not_count_against_the_limit() {
    let sandbox = sandbox();
    let first = worker_pid(&sandbox, "a").await;
    for _ in 0..4 {
        let mut job = job("work");
        job.limits.time = Duration::from_secs(10);
        job.inputs = json!(1_000);
        sandbox.run(Language::JavaScript, "a", job, &NoHost).await.unwrap();
    }
    let mut short = job("echo");
    short.limits.time = Duration::from_millis(1);
    sandbox.run(Language::JavaScript, "a", short, &NoHost).await.unwrap();
    assert_eq!(worker_pid(&sandbox, "a").await, first);
}
