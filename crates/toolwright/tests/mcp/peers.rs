//! What MCP is tested against, installed by `scripts/mcp-peers`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Programs that are not ours.
pub struct Peers {
    home: PathBuf,
}

impl Peers {
    pub fn install() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/mcp-peers");
        let output = Command::new(script).stderr(Stdio::inherit()).output().unwrap();
        assert!(output.status.success(), "scripts/mcp-peers failed");
        Self { home: PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()) }
    }

    /// Node.js, as new as they need it.
    pub fn node(&self) -> PathBuf {
        self.home.join("node")
    }

    /// Python, with the SDK of the protocol.
    pub fn python(&self) -> PathBuf {
        self.home.join("python/bin/python")
    }

    /// Where packages are.
    pub fn modules(&self) -> PathBuf {
        self.home.join("node_modules")
    }

    /// A file of a package.
    pub fn file(&self, path: &str) -> PathBuf {
        self.modules().join(path)
    }

    /// Runs the conformance suite, and reads what it found from what it wrote.
    pub fn suite(&self, args: &[&str], output: &Path) -> Verdicts {
        let run = Command::new(self.node())
            .arg(self.file("@modelcontextprotocol/conformance/dist/index.js"))
            .args(args)
            .arg("--output-dir")
            .arg(output)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
        Verdicts { failures: read(output), said }
    }
}

/// Which scenarios there were, and what failed in each.
pub struct Verdicts {
    failures: BTreeMap<String, Vec<String>>,
    said: String,
}

impl Verdicts {
    /// The scenarios of a revision in a list of exceptions: lines of `revision scenario: reason`.
    pub fn excepted(list: &'static str, revision: &str) -> BTreeMap<&'static str, &'static str> {
        let lines = list.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        let parts = lines.map(|line| {
            let (head, reason) = line.split_once(": ").unwrap_or_else(|| panic!("no reason in `{line}`"));
            let (revision, scenario) = head.split_once(' ').unwrap_or_else(|| panic!("no scenario in `{line}`"));
            (revision, scenario, reason)
        });
        parts.filter(|(of, ..)| *of == revision).map(|(_, scenario, reason)| (scenario, reason)).collect()
    }

    /// Fails when a scenario failed that is not excepted, when one that is passed, and when there were too few.
    #[track_caller]
    pub fn check(&self, at_least: usize, excepted: &BTreeMap<&str, &str>) {
        assert!(self.failures.len() >= at_least, "only {} scenarios ran\n{}", self.failures.len(), self.said);
        let mut wrong = Vec::new();
        for (scenario, failures) in &self.failures {
            match (failures.as_slice(), excepted.get(scenario.as_str())) {
                ([], Some(reason)) => wrong.push(format!("{scenario} passed, although: {reason}")),
                ([_, ..], None) => wrong.push(format!("{scenario} failed: {}", failures.join("; "))),
                _ => {}
            }
        }
        let missing = excepted.keys().filter(|scenario| !self.failures.contains_key(**scenario));
        wrong.extend(missing.map(|scenario| format!("{scenario} is excepted and did not run")));
        assert!(wrong.is_empty(), "{}\n\n{}", wrong.join("\n"), self.said);
    }
}

/// Every folder with a `checks.json` is a scenario; its name is the folder's, without leg and time.
fn read(folder: &Path) -> BTreeMap<String, Vec<String>> {
    let timed = regex::Regex::new(r"^(server-)?(.*)-\d{4}-\d\d-\d\dT.*$").unwrap();
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        folders.extend(std::fs::read_dir(&at).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()));
        let Ok(text) = std::fs::read_to_string(at.join("checks.json")) else { continue };
        let checks: Vec<Value> = serde_json::from_str(&text).unwrap();
        let failed = checks.iter().filter(|check| check["status"] == "FAILURE");
        let failed =
            failed.map(|check| format!("{} ({})", check["id"].as_str().unwrap_or_default(), check["errorMessage"]));
        let name = at.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
        found.insert(timed.replace(&name, "$2").into_owned(), failed.collect());
    }
    found
}
