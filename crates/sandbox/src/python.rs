//! Which Python there is, and which files belong to it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::process::Command;
use tokio::time::timeout;

use crate::Failure;

/// Asked once. The program on the path may be a shim that chooses among installations, so the interpreter itself says where it is.
const QUESTION: &str = "import json, os, sys, sysconfig\n\
    paths = [sysconfig.get_path('stdlib'), sysconfig.get_path('platstdlib'), sysconfig.get_config_var('LIBDIR')]\n\
    paths = [os.path.realpath(path) for path in paths if path]\n\
    print(json.dumps([sys.version_info[:2], os.path.realpath(sys.executable), paths]))";

const OLDEST: (u32, u32) = (3, 9);

const PATIENCE: Duration = Duration::from_secs(20);

/// Where the libraries are that Python and its modules link, and the time zones.
const SYSTEM: [&str; 6] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/etc/ld.so.cache", "/usr/share/zoneinfo"];

/// An installation of CPython.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Python {
    executable: PathBuf,
    readable: Vec<PathBuf>,
}

impl Python {
    /// Asks a program, such as `python3`, which installation it stands for.
    pub async fn find(program: &Path) -> Result<Self, Failure> {
        let unavailable = |why: String| Failure::Unavailable {
            reason: format!(
                "full Python is not run on this machine, because `{}` {why}; install Python {}.{} or newer, or name another",
                program.display(),
                OLDEST.0,
                OLDEST.1
            ),
        };
        let mut command = Command::new(program);
        command.args(["-I", "-S", "-c", QUESTION]).stdin(Stdio::null()).kill_on_drop(true);
        let output = match timeout(PATIENCE, command.output()).await {
            Ok(output) => output.map_err(|error| unavailable(format!("cannot be started: {error}")))?,
            Err(_) => return Err(unavailable("does not answer".to_owned())),
        };
        let answer = serde_json::from_slice(&output.stdout);
        let (version, executable, own): ((u32, u32), PathBuf, Vec<PathBuf>) =
            answer.map_err(|_| unavailable(format!("is no Python: {}", output.status)))?;
        if version < OLDEST {
            return Err(unavailable(format!("is Python {}.{}", version.0, version.1)));
        }
        let mut readable: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).chain(own).collect();
        readable.push(executable.clone());
        // Above comes before below, so that nothing is shown twice.
        readable.sort();
        readable.dedup();
        Ok(Self { executable, readable })
    }

    /// The interpreter.
    pub fn executable(&self) -> &Path {
        &self.executable
    }

    /// What it reads, all of it on the machine's side of the wall.
    pub fn readable(&self) -> &[PathBuf] {
        &self.readable
    }
}
