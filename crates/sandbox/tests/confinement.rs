//! The isolation of workers, and the errors on kernels that lack a mechanism.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests may panic; the exemption of the lints for tests does not cover helper functions"
)]

mod support;

use serde_json::{Value, json};
use support::{NoHost, config, job, sandbox, with_python};
use toolwright_sandbox::Mechanism::{Landlock, Namespaces, Seccomp};
use toolwright_sandbox::{Isolation, JobError, Language, Mechanism, PythonInstallation, Sandbox, SandboxConfig};

fn without(mechanisms: &[Mechanism]) -> SandboxConfig {
    SandboxConfig { disabled_mechanisms: mechanisms.to_vec(), ..config() }
}

async fn reason(sandbox: &Sandbox, language: Language) -> String {
    match sandbox.run(language, "a", job("echo"), &NoHost).await {
        Err(JobError::Unavailable { reason }) => reason,
        other => panic!("expected `Unavailable`, got {other:?}"),
    }
}

#[tokio::test]
async fn worker_uses_namespaces_and_landlock_and_seccomp() {
    let sandbox = with_python(config());
    for language in [Language::JavaScript, Language::CPython] {
        let Isolation { user, network, root, landlock, seccomp } = sandbox.probe(language).await.unwrap();
        assert!(user && network && root && landlock > 0 && seccomp, "{language:?}");
    }
}

#[tokio::test]
async fn embedded_interpreters_require_seccomp_or_landlock() {
    for mechanisms in [&[][..], &[Namespaces], &[Landlock], &[Seccomp], &[Namespaces, Landlock], &[Namespaces, Seccomp]]
    {
        let sandbox = Sandbox::new(without(mechanisms));
        let output = sandbox.run(Language::JavaScript, "a", job("echo"), &NoHost).await;
        assert_eq!(output.unwrap().result, json!({}), "{mechanisms:?}");
        let output = sandbox.run(Language::JavaScript, "a", job("read"), &NoHost).await.unwrap();
        assert!(
            ["permission denied", "entity not found"].map(Value::from).contains(&output.result),
            "{mechanisms:?}: {output:?}"
        );
    }
    for mechanisms in [&[Landlock, Seccomp][..], &[Namespaces, Landlock, Seccomp]] {
        let reason = reason(&Sandbox::new(without(mechanisms)), Language::JavaScript).await;
        assert!(reason.contains("seccomp") && reason.contains("Landlock") && reason.contains("Linux 5.13"), "{reason}");
    }
}

#[tokio::test]
async fn cpython_requires_file_and_network_isolation() {
    for (mechanisms, missing) in [
        (&[Landlock][..], "Landlock"),
        (&[Landlock, Namespaces], "Landlock"),
        (&[Landlock, Seccomp], "Landlock"),
        (&[Seccomp, Namespaces], "seccomp"),
        (&[Seccomp, Namespaces, Landlock], "Landlock"),
    ] {
        let reason = reason(&with_python(without(mechanisms)), Language::CPython).await;
        assert!(reason.contains(missing), "{mechanisms:?}: {reason}");
    }
    for mechanisms in [&[][..], &[Namespaces], &[Seccomp]] {
        let sandbox = with_python(without(mechanisms));
        let output = sandbox.run(Language::CPython, "a", job("6 * 7"), &NoHost).await;
        assert_eq!(output.unwrap().result, json!(42), "{mechanisms:?}");
    }
}

#[tokio::test]
async fn cpython_is_unavailable_without_a_python_installation() {
    assert!(reason(&sandbox(), Language::CPython).await.contains("disabled"));
    for (program, expected) in
        [("/nowhere/python3", "could not be started"), ("/bin/true", "is not a Python interpreter")]
    {
        let error = PythonInstallation::find(program.as_ref()).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[tokio::test]
async fn interpreter_process_can_start_threads_but_not_open_files_or_connect() {
    let sandbox = sandbox();
    for (code, expected) in [
        ("thread", json!(7)),
        ("set_name", json!(false)),
        ("read", json!("permission denied")),
        ("connect", json!("permission denied")),
    ] {
        let output = sandbox.run(Language::JavaScript, "a", job(code), &NoHost).await;
        assert_eq!(output.unwrap().result, expected, "{code}");
    }
}
