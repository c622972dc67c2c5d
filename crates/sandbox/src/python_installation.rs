//! Finds a CPython installation and the files that belong to it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::time::timeout;

use crate::JobError;

/// Prints version, executable and library paths as JSON. The program on the `PATH` may be a shim that selects one of
/// several installations, so only the interpreter itself knows the real paths.
const PROBE_SCRIPT: &str = "import json, os, sys, sysconfig\n\
    paths = [sysconfig.get_path('stdlib'), sysconfig.get_path('platstdlib'), sysconfig.get_config_var('LIBDIR')]\n\
    paths = [os.path.realpath(path) for path in paths if path]\n\
    print(json.dumps([sys.version_info[:2], os.path.realpath(sys.executable), paths]))";

const MIN_VERSION: (u32, u32) = (3, 9);

const PROBE_TIMEOUT: Duration = Duration::from_secs(20);

/// The shared libraries that Python and its modules link, and the time zone database.
const SYSTEM_PATHS: [&str; 6] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo"];

/// An installation of CPython.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PythonInstallation {
    executable: PathBuf,
    readable: Vec<PathBuf>,
}

impl PythonInstallation {
    /// Runs a program, such as `python3`, to find the installation that it belongs to.
    pub async fn find(program: &Path) -> Result<Self, JobError> {
        let unavailable = |problem: String| JobError::Unavailable {
            reason: format!(
                "CPython is not available on this machine: `{}` {problem}; install Python {}.{} or newer, or configure another program",
                program.display(),
                MIN_VERSION.0,
                MIN_VERSION.1
            ),
        };
        let mut command = Command::new(program);
        command.args(["-I", "-S", "-c", PROBE_SCRIPT]).env_clear();
        // A program without a slash is searched in `PATH`.
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.stdin(Stdio::null()).kill_on_drop(true);
        let output = match timeout(PROBE_TIMEOUT, command.output()).await {
            Ok(output) => output.map_err(|error| unavailable(format!("could not be started: {error}")))?,
            Err(_) => return Err(unavailable(format!("did not answer within {} s", PROBE_TIMEOUT.as_secs()))),
        };
        let answer = serde_json::from_slice(&output.stdout);
        let (version, executable, own_paths): ((u32, u32), PathBuf, Vec<PathBuf>) =
            answer.map_err(|_| unavailable(format!("is not a Python interpreter ({})", output.status)))?;
        if version < MIN_VERSION {
            return Err(unavailable(format!("is Python {}.{}", version.0, version.1)));
        }
        let mut readable: Vec<PathBuf> = SYSTEM_PATHS.iter().map(PathBuf::from).chain(own_paths).collect();
        readable.push(executable.clone());
        // A parent directory sorts before its children. So when the paths are mounted in this order, a path whose
        // parent is already mounted can be skipped.
        readable.sort();
        readable.dedup();
        Ok(Self { executable, readable })
    }

    /// The path of the interpreter.
    pub fn executable(&self) -> &Path {
        &self.executable
    }

    /// The files and directories of the machine that the interpreter has to read, in sorted order.
    pub fn readable(&self) -> &[PathBuf] {
        &self.readable
    }
}
