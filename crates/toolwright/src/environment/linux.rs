//! Hides the environment of the server from other processes.
//!
//! A program that the server starts can read `/proc/<pid>/environ` and `/proc/<pid>/cmdline` of the server if the
//! program runs as the same user. Both files show the memory in which the kernel stored the environment and the
//! arguments when the program started. A variable that the process removes later remains visible there. So the server
//! executes itself again, with a small environment, and hands the variables over in an anonymous file.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use nix::sys::memfd::{MFdFlags, memfd_create};

/// The variable that contains the file descriptor of the anonymous file.
const HANDOVER_VARIABLE: &str = "TOOLWRIGHT_HANDOVER_FD";
/// The name of the anonymous file.
const FILE_NAME: &str = "toolwright-environment";
/// Variables that stay in the environment, because libraries read them. They contain no credentials.
const VISIBLE: [&str; 13] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "TMPDIR",
    "TZ",
    "RUST_LOG",
    "RUST_BACKTRACE",
    "NO_COLOR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "LD_LIBRARY_PATH",
    "LLVM_PROFILE_FILE",
];
/// Prefixes of variables that stay in the environment.
const VISIBLE_PREFIXES: [&str; 2] = ["LC_", "MIMALLOC_"];
/// Flags whose values can contain a password, and the variables that have the same effect.
const SECRET_FLAGS: [(&str, &str); 2] =
    [("--database-url", "TOOLWRIGHT_DATABASE_URL"), ("--redis-url", "TOOLWRIGHT_REDIS_URL")];

/// Hides the variables from other processes and returns them. Executes the program again if `/proc` shows anything that
/// must be hidden.
pub(super) fn hide(visible: BTreeMap<String, String>) -> anyhow::Result<BTreeMap<String, String>> {
    let variables = match visible.get(HANDOVER_VARIABLE) {
        Some(fd) => received(fd, &visible).with_context(|| {
            format!("read the environment that the server handed to itself; {HANDOVER_VARIABLE} must not be set")
        })?,
        None => {
            let start = Start::new(std::env::args_os(), visible);
            if start.is_hidden() {
                start.variables
            } else {
                return Err(start.execute_again());
            }
        }
    };
    // Other processes of the same user can neither read the memory of this process nor attach to it.
    nix::sys::prctl::set_dumpable(false).context("protect the memory of the server")?;
    Ok(variables)
}

/// The program, the arguments and the variables that the process was started with.
struct Start {
    program: OsString,
    /// The arguments without secret flags.
    arguments: Vec<OsString>,
    /// The variables, including those that replace secret flags.
    variables: BTreeMap<String, String>,
    has_secret_flag: bool,
}

impl Start {
    fn new(arguments: impl Iterator<Item = OsString>, mut variables: BTreeMap<String, String>) -> Self {
        let mut arguments = arguments;
        let program = arguments.next().unwrap_or_default();
        let mut kept = Vec::new();
        let mut has_secret_flag = false;
        while let Some(argument) = arguments.next() {
            match secret_flag(&argument) {
                None => kept.push(argument),
                Some((variable, value)) => {
                    let value = value.or_else(|| arguments.next()?.into_string().ok());
                    variables.insert(variable.to_owned(), value.unwrap_or_default());
                    has_secret_flag = true;
                }
            }
        }
        Self { program, arguments: kept, variables, has_secret_flag }
    }

    fn is_hidden(&self) -> bool {
        !self.has_secret_flag && self.variables.keys().all(|name| is_visible(name))
    }

    /// Executes the program again. Returns only if that fails.
    fn execute_again(self) -> anyhow::Error {
        match self.hand_over() {
            Ok(error) => anyhow::Error::new(error).context("execute the server again without its secrets"),
            Err(error) => error.context("hand over the environment of the server"),
        }
    }

    fn hand_over(self) -> anyhow::Result<std::io::Error> {
        // The file has no close-on-exec flag, so the next program inherits it.
        let mut file = File::from(memfd_create(FILE_NAME, MFdFlags::empty())?);
        file.write_all(&serde_json::to_vec(&self.variables)?)?;
        let program = std::env::current_exe().ok().filter(|path| path.exists());
        let mut command = Command::new(program.unwrap_or_else(|| PathBuf::from("/proc/self/exe")));
        command.arg0(&self.program).args(&self.arguments).env_clear();
        command.envs(self.variables.iter().filter(|(name, _)| is_visible(name)));
        command.env(HANDOVER_VARIABLE, file.as_raw_fd().to_string());
        Ok(command.exec())
    }
}

/// Reads the variables that [`Start::hand_over`] wrote, and closes the file.
fn received(fd: &str, visible: &BTreeMap<String, String>) -> anyhow::Result<BTreeMap<String, String>> {
    let number: i32 = fd.parse()?;
    let path = PathBuf::from(format!("/proc/self/fd/{number}"));
    let target = std::fs::read_link(&path)?;
    anyhow::ensure!(target.to_string_lossy().contains(FILE_NAME), "`{}` is another file", target.display());
    let text = std::fs::read(&path)?;
    nix::unistd::close(number)?;
    let mut variables: BTreeMap<String, String> = serde_json::from_slice(&text)?;
    variables.extend(visible.iter().filter(|(name, _)| is_visible(name)).map(|(n, v)| (n.clone(), v.clone())));
    Ok(variables)
}

/// If the argument is a secret flag, returns the variable that replaces the flag. Also returns the value, if the
/// argument has the form `--flag=value`.
fn secret_flag(argument: &OsStr) -> Option<(&'static str, Option<String>)> {
    let text = argument.to_str()?;
    let (flag, value) = text.split_once('=').map_or((text, None), |(flag, value)| (flag, Some(value.to_owned())));
    SECRET_FLAGS.iter().find(|(name, _)| *name == flag).map(|(_, variable)| (*variable, value))
}

fn is_visible(name: &str) -> bool {
    VISIBLE.contains(&name) || VISIBLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(arguments: &[&str], variables: &[(&str, &str)]) -> Start {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Start::new(arguments.iter().map(OsString::from), variables)
    }

    #[test]
    fn command_line_flag_with_a_secret_is_moved_to_an_environment_variable() {
        for arguments in [
            &["toolwright", "serve", "--database-url", "postgres://u:p@h/d", "--demo"][..],
            &["toolwright", "serve", "--database-url=postgres://u:p@h/d", "--demo"][..],
        ] {
            let start = start(arguments, &[("TOOLWRIGHT_DATABASE_URL", "postgres://other")]);
            assert_eq!(start.arguments, ["serve", "--demo"]);
            assert_eq!(start.variables["TOOLWRIGHT_DATABASE_URL"], "postgres://u:p@h/d");
            assert!(!start.is_hidden());
        }
    }

    #[test]
    fn process_is_executed_again_only_if_its_environment_may_contain_secrets() {
        assert!(start(&["toolwright", "serve", "--demo"], &[("PATH", "/bin"), ("LC_ALL", "C")]).is_hidden());
        for name in ["TOOLWRIGHT_ADMIN_KEY", "ANTHROPIC_API_KEY", "PGPASSWORD", "DATABASE_URL"] {
            assert!(!start(&["toolwright", "serve"], &[(name, "x")]).is_hidden(), "{name}");
        }
    }
}
