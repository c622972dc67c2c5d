//! How a command ends, as a number that scripts branch on.

use std::process::ExitCode;

/// How a command ended. The numbers are a contract; [`HELP`] shows them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// The tool or the run failed, or an input does not fit its schema.
    Failed = 1,
    /// The command line, or a file or variable it names, cannot be used. `clap` uses the same number.
    Usage = 2,
    /// There is no such thing.
    NotFound = 3,
    /// Not authenticated, or not permitted.
    Denied = 4,
    /// The name is taken, or someone else wrote meanwhile.
    Conflict = 5,
    /// The request or a definition is not valid.
    Invalid = 6,
    /// The server cannot be reached, or failed.
    Unavailable = 7,
    /// The run waits for a decision or for its client.
    Waiting = 8,
    /// Ctrl-C, as shells count it.
    Interrupted = 130,
}

/// The numbers, for `--help`.
pub const HELP: &str = "\
Exit codes:
  0  done
  1  the tool or the run failed, or the input does not fit its schema
  2  the command line, or a file or variable it names, cannot be used
  3  not found
  4  not authenticated or not permitted
  5  the name is taken, or someone else wrote meanwhile
  6  the request or a definition is not valid
  7  the server cannot be reached, or failed
  8  the run waits for a decision or for its client";

impl Exit {
    /// What an HTTP status that is no success means for the caller.
    pub fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Exit::Denied,
            404 => Exit::NotFound,
            409 | 412 => Exit::Conflict,
            400..=499 if status != 408 && status != 429 => Exit::Invalid,
            _ => Exit::Unavailable,
        }
    }

    /// This end, unless it was fine: the first failure of several decides.
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
    fn every_status_has_its_number() {
        for (status, number) in [
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
            (302, 7),
        ] {
            assert_eq!(Exit::of_status(status) as u8, number, "{status}");
        }
    }

    #[test]
    fn the_first_failure_decides() {
        assert_eq!(Exit::Ok.or(Exit::Invalid).or(Exit::Denied), Exit::Invalid);
        assert_eq!(Exit::Ok.or(Exit::Ok), Exit::Ok);
    }
}
