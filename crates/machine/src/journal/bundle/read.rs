//! Parses and verifies the text of a bundle.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::{RunId, RunStatus, Timestamp};

use super::super::chain::Hash;
use super::super::shared_parts::{self, SharedPart};
use super::{Bundle, FORMAT_VERSION, InvalidBundle, RunOutcome, StoredEntry, first_broken_entry, referenced_blobs};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    pub bundle: u32,
    pub run: RunId,
    pub subject: String,
    pub entries: u64,
    pub head_hash: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartLine {
    shared_part: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EntryLine {
    entry: u64,
    at: Timestamp,
    hash: String,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ReactionsLine {
    after: u64,
    reactions: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OutcomeLine {
    outcome: RunOutcome,
}

impl Bundle {
    /// Parses a bundle. The hash chain, the shared parts and the blobs are verified.
    pub fn parse(text: &str) -> Result<Self, InvalidBundle> {
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let (_, first) = lines.next().ok_or(InvalidBundle::Incomplete("it is empty"))?;
        let header: Header = match serde_json::from_str::<Value>(first) {
            Ok(value) => match value.get("bundle").and_then(Value::as_u64) {
                None => return Err(line_error(1, "not a bundle: the field `bundle` is missing")),
                Some(form) if form != u64::from(FORMAT_VERSION) => {
                    return Err(InvalidBundle::UnsupportedVersion(u32::try_from(form).unwrap_or(u32::MAX)));
                }
                Some(_) => serde_json::from_value(value).map_err(|error| line_error(1, &error.to_string()))?,
            },
            Err(_) => return Err(line_error(1, "not a bundle: the line is not JSON")),
        };
        let mut bundle = Self {
            run: header.run,
            subject: header.subject,
            parts: Vec::new(),
            blobs: Vec::new(),
            entries: Vec::new(),
            reactions: BTreeMap::new(),
            outcome: RunOutcome {
                status: RunStatus::Running,
                reason: None,
                outputs: Value::Null,
                resource_usage: Value::Null,
                decisions: Vec::new(),
            },
        };
        let mut ended = false;
        for (at, line) in lines {
            if ended {
                return Err(line_error(at, "unexpected line after the outcome"));
            }
            ended = bundle.read_line(at, line)?;
        }
        if !ended {
            return Err(InvalidBundle::Incomplete("the outcome is missing"));
        }
        bundle.verify(header.entries, &header.head_hash)?;
        Ok(bundle)
    }

    /// Parses one line. Returns true for the outcome, which is the last line.
    fn read_line(&mut self, at: usize, line: &str) -> Result<bool, InvalidBundle> {
        let value: Value = serde_json::from_str(line).map_err(|error| line_error(at, &error.to_string()))?;
        let has = |name: &str| value.get(name).is_some();
        let invalid = |error: serde_json::Error| line_error(at, &error.to_string());
        if has("shared_part") {
            let PartLine { shared_part, text } = serde_json::from_value(value).map_err(invalid)?;
            self.parts.push(SharedPart { hash: shared_part, body: text });
        } else if has("blob") {
            self.blobs.push(serde_json::from_value(value).map_err(invalid)?);
        } else if has("entry") {
            let EntryLine { entry, at: when, hash, text } = serde_json::from_value(value).map_err(invalid)?;
            let hash = HEXLOWER.decode(hash.as_bytes()).ok().and_then(|bytes| Hash::try_from(bytes).ok());
            let hash = hash.ok_or_else(|| line_error(at, "`hash` must be 64 hexadecimal digits"))?;
            self.entries.push(StoredEntry { n: entry, at: when, body: text, hash });
        } else if has("after") {
            let ReactionsLine { after, reactions } = serde_json::from_value(value).map_err(invalid)?;
            if self.reactions.insert(after, reactions).is_some() {
                return Err(line_error(at, "duplicate `after` line for the same entry"));
            }
        } else if has("outcome") {
            self.outcome = serde_json::from_value::<OutcomeLine>(value).map_err(invalid)?.outcome;
            return Ok(true);
        } else {
            return Err(line_error(
                at,
                "must have one of the fields `shared_part`, `blob`, `entry`, `after` or `outcome`",
            ));
        }
        Ok(false)
    }

    fn verify(&self, entries: u64, head: &str) -> Result<(), InvalidBundle> {
        first_broken_entry(self.run, &self.entries).map_or(Ok(()), |n| Err(InvalidBundle::BrokenChain { n }))?;
        let count = u64::try_from(self.entries.len()).unwrap_or(u64::MAX);
        let last = self.entries.last().map(|last| HEXLOWER.encode(&last.hash)).unwrap_or_default();
        if count != entries || last != head {
            return Err(InvalidBundle::Incomplete("the entries do not match the header"));
        }
        let first = self.entries.first().map(|first| first.body.as_str()).unwrap_or("{}");
        let entry_error = |problem: String| InvalidBundle::Entry { n: 1, problem };
        let named = shared_parts::referenced_parts(first).map_err(|error| entry_error(error.to_string()))?;
        if let Some(missing) = named.values().find(|hash| !self.parts.iter().any(|part| part.hash == **hash)) {
            return Err(entry_error(format!("shared part `{missing}` is missing")));
        }
        if let Some(n) = self.reactions.keys().find(|n| **n == 0 || **n > count) {
            return Err(InvalidBundle::Entry { n: *n, problem: "the entry does not exist".to_owned() });
        }
        for id in self.entries.iter().flat_map(|entry| referenced_blobs(&entry.body)) {
            if !self.blobs.iter().any(|blob| blob.id == id) {
                return Err(InvalidBundle::Blob(id));
            }
        }
        for part in &self.parts {
            if shared_parts::hash_of(&part.body) != part.hash {
                return Err(InvalidBundle::Entry { n: 1, problem: format!("shared part `{}` was changed", part.hash) });
            }
        }
        for blob in &self.blobs {
            let bytes = data_encoding::BASE64.decode(blob.base64.as_bytes()).ok();
            let hash = bytes.map(|bytes| shared_parts::hash_of_bytes(&bytes));
            if hash.is_none_or(|hash| blob.id.split('-').next() != Some(hash.as_str())) {
                return Err(InvalidBundle::Blob(blob.id.clone()));
            }
        }
        Ok(())
    }
}

fn line_error(line: usize, problem: &str) -> InvalidBundle {
    InvalidBundle::Line { line, problem: problem.to_owned() }
}
