//! What workers give up, and what is refused where a kernel does not let them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod support;

use serde_json::{Value, json};
use support::{Nobody, config, job, sandbox, with_python};
use toolwright_sandbox::Mechanism::{Landlock, Namespaces, Seccomp};
use toolwright_sandbox::{Failure, Isolation, Language, Mechanism, Sandbox, SandboxConfig};

fn without(mechanisms: &[Mechanism]) -> SandboxConfig {
    SandboxConfig { without: mechanisms.to_vec(), ..config() }
}

async fn reason(sandbox: &Sandbox, language: Language) -> String {
    match sandbox.run(language, "a", job("echo"), &Nobody).await {
        Err(Failure::Unavailable { reason }) => reason,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn all_walls_stand_on_a_kernel_that_has_them() {
    let sandbox = with_python(config());
    for language in [Language::JavaScript, Language::CPython] {
        let Isolation { user, network, root, landlock, seccomp } = sandbox.probe(language).await.unwrap();
        assert!(user && network && root && landlock > 0 && seccomp, "{language:?}");
    }
}

#[tokio::test]
async fn interpreters_run_behind_one_wall_and_not_behind_none() {
    for mechanisms in [&[][..], &[Namespaces], &[Landlock], &[Seccomp], &[Namespaces, Landlock], &[Namespaces, Seccomp]]
    {
        let sandbox = Sandbox::new(without(mechanisms));
        let done = sandbox.run(Language::JavaScript, "a", job("echo"), &Nobody).await;
        assert_eq!(done.unwrap().result, json!({}), "{mechanisms:?}");
        let done = sandbox.run(Language::JavaScript, "a", job("read"), &Nobody).await.unwrap();
        assert!(
            ["permission denied", "entity not found"].map(Value::from).contains(&done.result),
            "{mechanisms:?}: {done:?}"
        );
    }
    for mechanisms in [&[Landlock, Seccomp][..], &[Namespaces, Landlock, Seccomp]] {
        let reason = reason(&Sandbox::new(without(mechanisms)), Language::JavaScript).await;
        assert!(reason.contains("seccomp") && reason.contains("Landlock") && reason.contains("Linux 5.13"), "{reason}");
    }
}

#[tokio::test]
async fn full_python_is_refused_without_a_wall_before_files_or_before_the_network() {
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
        let done = sandbox.run(Language::CPython, "a", job("6 * 7"), &Nobody).await;
        assert_eq!(done.unwrap().result, json!(42), "{mechanisms:?}");
    }
}

#[tokio::test]
async fn without_a_python_there_is_none() {
    assert!(reason(&sandbox(), Language::CPython).await.contains("switched off"));
    for (program, expected) in [("/nowhere/python3", "cannot be started"), ("/bin/true", "is no Python")] {
        let failure = toolwright_sandbox::Python::find(program.as_ref()).await.unwrap_err();
        assert!(failure.to_string().contains(expected), "{failure}");
    }
}

#[tokio::test]
async fn an_interpreter_has_threads_but_no_files_no_network_and_no_processes() {
    let sandbox = sandbox();
    for (code, expected) in [
        ("thread", json!(7)),
        ("name", json!(false)),
        ("read", json!("permission denied")),
        ("connect", json!("permission denied")),
    ] {
        let done = sandbox.run(Language::JavaScript, "a", job(code), &Nobody).await;
        assert_eq!(done.unwrap().result, expected, "{code}");
    }
}
