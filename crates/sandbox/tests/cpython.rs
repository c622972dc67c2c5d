//! Jobs in CPython.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic; the exemption of the lints for tests does not cover helper functions"
)]

mod support;

use std::path::Path;
use std::process::Stdio;

use serde_json::{Value, json};
use support::{FnHost, NoHost, children, config, job, with_python};
use tokio::process::Command;
use toolwright_sandbox::frame::{self, FromWorker, ToWorker};
use toolwright_sandbox::{
    Job, JobError, JobLimits, JobOutput, Language, Limit, PythonInstallation, Sandbox, SandboxConfig, WorkerConfig,
};

fn python() -> Sandbox {
    with_python(SandboxConfig { warm_processes: 0, ..config() })
}

async fn run(sandbox: &Sandbox, code: &str) -> Result<JobOutput, JobError> {
    sandbox.run(Language::CPython, "a", job(code), &NoHost).await
}

#[tokio::test]
async fn job_result_is_the_variable_named_result_or_else_the_last_expression() {
    let sandbox = python();
    for (code, expected) in [
        ("result = 1\n2", json!(1)),
        ("x = 20\nx + 1", json!(21)),
        ("x = 20", Value::Null),
        ("", Value::Null),
        ("# nothing", Value::Null),
        ("def f(n):\n  return n * 2\n[f(n) for n in range(3)]", json!([0, 2, 4])),
        ("{'a': (1, 2.5, None, True), 'ü': '\\u20ac'}", json!({ "a": [1, 2.5, null, true], "ü": "€" })),
        ("[2**64 - 1, -2**63, 2**70]", json!([u64::MAX, i64::MIN, 2f64.powi(70)])),
        ("from __future__ import annotations\nlen(__name__)", json!(8)),
    ] {
        assert_eq!(run(&sandbox, code).await.map(|output| output.result), Ok(expected), "{code}");
    }
}

#[tokio::test]
async fn inputs_are_available_as_a_whole_and_as_one_variable_per_field() {
    let sandbox = python();
    let inputs = json!({ "amount": 3, "not a name": 4, "result": 5, "inputs": 6, "lookup": 7, "__builtins__": 8 });
    let code = "print('seen')\n[amount, inputs['not a name'], inputs['inputs'], callable(lookup), len(inputs)]";
    let output = sandbox.run(Language::CPython, "a", Job { inputs, ..job(code) }, &NoHost).await.unwrap();
    assert_eq!(output, JobOutput { result: json!([3, 4, 6, true, 6]), stdout: "seen\n".to_owned() });
    let listed = Job { inputs: json!([1, 2]), ..job("sum(inputs)") };
    assert_eq!(sandbox.run(Language::CPython, "a", listed, &NoHost).await.unwrap().result, json!(3));
}

#[tokio::test]
async fn standard_library_modules_can_be_used() {
    let sandbox = python();
    for (code, expected) in [
        ("import statistics, decimal\n[statistics.mean([1, 2]), str(decimal.Decimal('0.1') * 3)]", json!([1.5, "0.3"])),
        ("import hashlib\nhashlib.sha256(b'x').hexdigest()[:8]", json!("2d711642")),
        ("import csv, io\nlist(csv.DictReader(io.StringIO('a,b\\n1,2')))", json!([{ "a": "1", "b": "2" }])),
        ("import asyncio\nasync def f():\n  await asyncio.sleep(0)\n  return 5\nasyncio.run(f())", json!(5)),
        ("import dataclasses\n@dataclasses.dataclass\nclass P:\n  x: int\ndataclasses.asdict(P(1))", json!({ "x": 1 })),
        (
            "import concurrent.futures as c\nwith c.ThreadPoolExecutor(2) as p:\n  result = list(p.map(abs, [-1]))",
            json!([1]),
        ),
        (
            "import tempfile\nwith tempfile.TemporaryFile() as f:\n  f.write(b'x')\n  f.seek(0)\n  result = f.read().decode()",
            json!("x"),
        ),
        (
            "import os\nos.makedirs('/tmp/a/b')\nopen('/tmp/a/b/c', 'w').write('x')\nos.listdir('/tmp/a/b')",
            json!(["c"]),
        ),
        (
            "import datetime, zoneinfo\nstr(datetime.datetime(2026, 7, 1, tzinfo=zoneinfo.ZoneInfo('UTC')).utcoffset())",
            json!("0:00:00"),
        ),
        ("import logging\nlogging.warning('careful')\nimport sys\nsys.stdout.buffer.write(b'raw')", json!(3)),
    ] {
        assert_eq!(run(&sandbox, code).await.map(|output| output.result), Ok(expected), "{code}");
    }
}

#[tokio::test]
async fn host_functions_accept_named_arguments_or_a_dict_and_raise_an_exception_if_the_call_fails() {
    let sandbox = python();
    let host = FnHost(|function: &str, arguments: Value| match arguments.get("id") {
        Some(Value::Null) => Err("there is no such deal".to_owned()),
        _ => Ok(json!({ "function": function, "arguments": arguments })),
    });
    for (code, expected) in [
        ("lookup(id=1)['arguments']", json!({ "id": 1 })),
        ("lookup({'id': 2}, more=True)['arguments']", json!({ "id": 2, "more": true })),
        ("lookup()", json!({ "function": "lookup", "arguments": {} })),
        ("try:\n  lookup(id=None)\nexcept ToolError as e:\n  result = str(e)", json!("there is no such deal")),
        (
            "try:\n  lookup(1)\nexcept TypeError as e:\n  result = str(e)",
            json!("lookup() takes named arguments or one dict"),
        ),
        ("try:\n  lookup(id={1})\nexcept TypeError as e:\n  result = 'set' in str(e)", json!(true)),
    ] {
        let output = sandbox.run(Language::CPython, "a", job(code), &host).await;
        assert_eq!(output.map(|output| output.result), Ok(expected), "{code}");
    }
    let limits = JobLimits { host_calls: 3, ..job("").limits };
    let many = Job { limits, ..job("while True:\n  lookup()") };
    let failure = sandbox.run(Language::CPython, "a", many, &host).await.unwrap_err();
    assert_eq!(failure, JobError::Limit { limit: Limit::HostCalls });
}

#[tokio::test]
async fn syntax_error_is_reported_with_its_line() {
    let sandbox = python();
    for (code, line, expected) in [
        ("x = 1\nx = = 2", Some(2), "SyntaxError: invalid syntax"),
        ("if True:\nx", Some(2), "IndentationError: expected an indented block"),
        ("x = '\0'", None, "null byte"),
        ("return 1", Some(1), "'return' outside function"),
    ] {
        let failure = run(&sandbox, code).await.unwrap_err();
        let JobError::Code { message, line: reported } = &failure else { panic!("{code}: {failure:?}") };
        assert!(message.contains(expected), "{code}: {message}");
        assert!(line.is_none() || *reported == line, "{code}: {reported:?}");
    }
}

#[tokio::test]
async fn traceback_contains_only_lines_of_the_submitted_code() {
    let sandbox = python();
    let failure = run(&sandbox, "print('so far')\ndef f(x):\n  return 1 / x\nf(0)").await.unwrap_err();
    let message = "ZeroDivisionError: division by zero\n  line 4, in <module>\n  line 3, in f".to_owned();
    assert_eq!(failure, JobError::Exception { message, line: Some(3), stdout: "so far\n".to_owned() });
    let failure = run(&sandbox, "import json\njson.loads('[')").await.unwrap_err();
    let JobError::Exception { message, line, .. } = failure else { panic!("{failure:?}") };
    assert!(message.starts_with("JSONDecodeError: Expecting value") && !message.contains("decoder.py"), "{message}");
    assert_eq!(line, Some(2));
}

#[tokio::test]
async fn result_that_is_not_json_is_rejected_with_its_path() {
    let sandbox = python();
    for (code, expected) in [
        ("{1, 2}", "it is of type set"),
        ("[1, {'a': object()}]", "/1/a is of type object"),
        ("b'x'", "it is of type bytes"),
        ("[float('nan')]", "/0 is nan"),
        ("float('-inf')", "it is -inf"),
        ("{1: 2}", "the key 1; JSON keys must be strings"),
        ("2**64 + 1", "an integer that JSON parsers would round"),
        ("10**400", "an integer that JSON parsers would round"),
        ("'\\ud800'", "a lone surrogate"),
        ("x = []\nx.append(x)\nx", "nested more than 100 levels deep"),
    ] {
        let failure = run(&sandbox, code).await.unwrap_err();
        assert!(failure.to_string().starts_with("the result cannot be converted to JSON: "), "{code}: {failure}");
        assert!(failure.to_string().contains(expected), "{code}: {failure}");
    }
}

#[tokio::test]
async fn process_cannot_see_files_or_environment_variables_of_the_machine() {
    let sandbox = python();
    for (code, expected) in [
        ("import os\nos.uname().nodename", json!("sandbox")),
        ("import os\n[os.getuid(), os.getgid()]", json!([65534, 65534])),
        (
            "import os\n[os.path.exists(p) for p in ('/etc/passwd', '/proc/self', '/dev/null', '/home', '/root/.bashrc')]",
            json!([false, false, false, false, false]),
        ),
        ("import os\n[dict(os.environ), os.getcwd()]", json!([{}, "/"])),
    ] {
        assert_eq!(run(&sandbox, code).await.map(|output| output.result), Ok(expected), "{code}");
    }
}

#[tokio::test]
async fn each_job_runs_in_a_new_process_that_was_started_in_advance() {
    let sandbox = with_python(SandboxConfig { warm_processes: 2, ..config() });
    assert!(children().is_empty());
    sandbox.warm_up().await;
    let warm = children();
    assert_eq!(warm.len(), 2);
    let process = "import os\nos.getpid()";
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(run(&sandbox, process).await.unwrap().result.as_u64().unwrap());
        assert_eq!(children().len(), 2, "the process of the job is gone and its replacement is started");
    }
    assert_eq!(seen[..2], [u64::from(warm[0]), u64::from(warm[1])]);
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 4);
}

#[tokio::test]
async fn process_that_exited_before_it_got_a_job_is_not_used() {
    let sandbox = with_python(SandboxConfig { warm_processes: 1, ..config() });
    sandbox.warm_up().await;
    let [waiting] = children()[..] else { panic!("expected one warm process") };
    let pid = nix::unistd::Pid::from_raw(i32::try_from(waiting).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
    // The process is now a zombie: it has exited but was not reaped yet.
    let dead = || std::fs::read_to_string(format!("/proc/{waiting}/stat")).is_ok_and(|stat| stat.contains(") Z "));
    while !dead() {
        std::thread::yield_now();
    }
    assert_eq!(run(&sandbox, "1").await.unwrap().result, json!(1));
}

#[tokio::test]
async fn process_exits_when_its_pipe_is_closed_even_if_the_submitted_code_sleeps() {
    let python = PythonInstallation::find(Path::new("python3")).await.unwrap();
    let config =
        WorkerConfig { language: Language::CPython, memory: 0, python: Some(python), disabled_mechanisms: vec![] };
    let mut worker = Command::new(support::config().program)
        .arg(serde_json::to_string(&config).unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let (mut input, mut output) = (worker.stdin.take().unwrap(), worker.stdout.take().unwrap());
    let ready: FromWorker = frame::read(&mut output, 1 << 16).await.unwrap();
    assert!(matches!(ready, FromWorker::Ready(_)), "{ready:?}");
    let sleeper = ToWorker::Run(job("import time\nlookup()\ntime.sleep(3600)"));
    frame::write(&mut input, &frame::encode(&sleeper).unwrap()).await.unwrap();
    let call: FromWorker = frame::read(&mut output, 1 << 16).await.unwrap();
    assert!(matches!(call, FromWorker::Call { .. }), "{call:?}");
    frame::write(&mut input, &frame::encode(&ToWorker::Answer(Ok(Value::Null))).unwrap()).await.unwrap();
    drop(input);
    assert!(worker.wait().await.unwrap().success());
}
