//! Runs third-party programs for the MCP tests. `scripts/mcp-peers` installs them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// The installed third-party programs.
pub(crate) struct Peers {
    home: PathBuf,
}

impl Peers {
    pub(crate) fn install() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/mcp-peers");
        let output = Command::new(script).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "scripts/mcp-peers failed; see its output above");
        Self { home: PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()) }
    }

    /// The path of the Node.js version that the programs require.
    pub(crate) fn node(&self) -> PathBuf {
        self.home.join("node")
    }

    /// The path of a Python with the MCP SDK.
    pub(crate) fn python(&self) -> PathBuf {
        self.home.join("python/bin/python")
    }

    /// The folder of the Node.js packages.
    pub(crate) fn modules(&self) -> PathBuf {
        self.home.join("node_modules")
    }

    /// The path of a file in a Node.js package. `path` starts with the package name.
    pub(crate) fn file(&self, path: &str) -> PathBuf {
        self.modules().join(path)
    }

    /// Runs the conformance suite and reads its results from the output folder.
    pub(crate) fn run_suite(&self, args: &[&str], output: &Path) -> SuiteReport {
        let run = Command::new(self.node())
            .arg(self.file("@modelcontextprotocol/conformance/dist/index.js"))
            .args(args)
            .arg("--output-dir")
            .arg(output)
            .output()
            .unwrap();
        let log = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
        SuiteReport { failures: read_failures(output), log }
    }
}

/// The failed checks of every scenario that ran, and the log of the suite.
pub(crate) struct SuiteReport {
    failures: BTreeMap<String, Vec<String>>,
    log: String,
}

impl SuiteReport {
    /// Parses a list of expected failures, with one `revision scenario: reason` per line. Returns the scenarios of one
    /// revision with their reasons.
    pub(crate) fn parse_exceptions(list: &'static str, revision: &str) -> BTreeMap<&'static str, &'static str> {
        let lines = list.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        let parts = lines.map(|line| {
            let (head, reason) =
                line.split_once(": ").unwrap_or_else(|| panic!("expected `revision scenario: reason`, got `{line}`"));
            let (revision, scenario) =
                head.split_once(' ').unwrap_or_else(|| panic!("expected `revision scenario: reason`, got `{line}`"));
            (revision, scenario, reason)
        });
        parts
            .filter(|(line_revision, ..)| *line_revision == revision)
            .map(|(_, scenario, reason)| (scenario, reason))
            .collect()
    }

    /// Panics if the results differ from the expectation. Scenarios in `exceptions` must run and fail, all others must
    /// pass, and at least `min_scenarios` must run.
    #[track_caller]
    pub(crate) fn check(&self, min_scenarios: usize, exceptions: &BTreeMap<&str, &str>) {
        assert!(self.failures.len() >= min_scenarios, "only {} scenarios ran\n{}", self.failures.len(), self.log);
        let mut mismatches = Vec::new();
        for (scenario, failures) in &self.failures {
            match (failures.as_slice(), exceptions.get(scenario.as_str())) {
                ([], Some(reason)) => mismatches.push(format!("{scenario} passed; remove its exception: {reason}")),
                ([_, ..], None) => mismatches.push(format!("{scenario} failed: {}", failures.join("; "))),
                _ => {}
            }
        }
        let missing = exceptions.keys().filter(|scenario| !self.failures.contains_key(**scenario));
        mismatches.extend(missing.map(|scenario| format!("{scenario} has an exception but did not run")));
        assert!(mismatches.is_empty(), "{}\n\n{}", mismatches.join("\n"), self.log);
    }
}

/// Reads the failed checks of each scenario. A folder with a `checks.json` is a scenario. Its name is the folder name
/// without the prefix `server-` and the timestamp.
fn read_failures(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let timestamped = regex::Regex::new(r"^(server-)?(.*)-\d{4}-\d\d-\d\dT.*$").unwrap();
    let mut failures = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(current) = folders.pop() {
        folders.extend(
            std::fs::read_dir(&current).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()),
        );
        let Ok(text) = std::fs::read_to_string(current.join("checks.json")) else { continue };
        let checks: Vec<Value> = serde_json::from_str(&text).unwrap();
        let failed = checks.iter().filter(|check| check["status"] == "FAILURE");
        let failed =
            failed.map(|check| format!("{} ({})", check["id"].as_str().unwrap_or_default(), check["errorMessage"]));
        let name = current.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
        failures.insert(timestamped.replace(&name, "$2").into_owned(), failed.collect());
    }
    failures
}
