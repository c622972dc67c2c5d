//! Defines the exit codes. Scripts depend on them, so their values must not change.

use std::process::ExitCode;

/// The exit code of a command. [`HELP`] documents the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// The command succeeded.
    Ok = 0,
    /// The tool or the run failed, or the input does not match its schema.
    Failed = 1,
    /// Invalid arguments, or an unusable file or environment variable. `clap` uses the same code.
    Usage = 2,
    /// The resource does not exist.
    NotFound = 3,
    /// Not authenticated, or not permitted.
    Denied = 4,
    /// The name exists already, or the resource was modified concurrently.
    Conflict = 5,
    /// The request or a definition is invalid.
    Invalid = 6,
    /// The server is unreachable or failed.
    Unavailable = 7,
    /// The run waits for an approval, a client, a signal or a time, or is paused.
    Waiting = 8,
    /// Ctrl-C: 128 plus the number of SIGINT.
    Interrupted = 130,
}

/// The exit codes for `--help`.
pub(super) const HELP: &str = "\
Exit codes:
  0  success
  1  the tool or run failed, or the input does not match its schema
  2  invalid arguments, or an unusable file or environment variable
  3  not found
  4  not authenticated or not permitted
  5  the name already exists, or the resource was modified concurrently
  6  the request or a definition is invalid
  7  the server is unreachable or failed
  8  the run waits for an approval, a client, a signal or a time, or is paused";

impl Exit {
    /// Returns the exit code for an HTTP error status.
    pub fn from_status(status: u16) -> Self {
        match status {
            401 | 403 => Exit::Denied,
            404 => Exit::NotFound,
            409 | 412 => Exit::Conflict,
            400..=499 if status != 408 && status != 429 => Exit::Invalid,
            _ => Exit::Unavailable,
        }
    }

    /// Returns `self` unless it is `Ok`, so that the first failure determines the exit code.
    pub fn or(self, later: Exit) -> Exit {
        if self == Exit::Ok { later } else { self }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_status_maps_to_exit_code() {
        for (status, code) in [
            (400, 6),
            (401, 4),
            (403, 4),
            (404, 3),
            (405, 6),
            (409, 5),
            (412, 5),
            (413, 6),
            (422, 6),
            (429, 7),
            (500, 7),
            (503, 7),
            (507, 7),
            (302, 7),
        ] {
            assert_eq!(Exit::from_status(status) as u8, code, "{status}");
        }
    }

    #[test]
    fn first_failure_determines_exit_code() {
        assert_eq!(Exit::Ok.or(Exit::Invalid).or(Exit::Denied), Exit::Invalid);
        assert_eq!(Exit::Ok.or(Exit::Ok), Exit::Ok);
    }
}
