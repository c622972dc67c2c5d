//! The report of a step that was in progress when its run ended. A caller must know which writes were sent, so that it
//! does not repeat them.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolwright_types::ToolEnvelope;

use crate::Ending;

/// The maximum number of items that a report lists.
const MAX_LISTED_ITEMS: usize = 50;

/// The calls of a step that was in progress when its run ended.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct InterruptedCalls {
    /// The number of calls that succeeded.
    pub succeeded: usize,
    /// The number of calls that failed.
    pub failed: usize,
    /// The number of calls that were sent and whose outcome is unknown. They may have changed something.
    pub unknown: usize,
    /// The number of calls that were not sent.
    pub not_started: usize,
    /// The index and the item of each call whose outcome is unknown, up to a maximum number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_items: Vec<Value>,
    /// The index and the item of each call that was not sent, up to a maximum number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_started_items: Vec<Value>,
}

/// How far a call came before its run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CallProgress {
    Succeeded,
    Failed,
    Unknown,
    NotStarted,
}

impl CallProgress {
    /// Returns how far a call came before its run ended with `ending`.
    pub(super) fn of(envelope: &ToolEnvelope, ending: &Ending) -> Self {
        let Some(error) = &envelope.error else { return CallProgress::Succeeded };
        let detail = |name: &str| error.details.as_ref().and_then(|details| details.get(name));
        if detail("outcome").and_then(Value::as_str) == Some("unknown") {
            return CallProgress::Unknown;
        }
        let ended_with_run = detail("reason").and_then(Value::as_str) == ending.reason.as_deref();
        if ended_with_run && detail("started") == Some(&Value::Bool(false)) {
            return CallProgress::NotStarted;
        }
        CallProgress::Failed
    }
}

impl InterruptedCalls {
    /// The number of calls that were sent.
    pub fn started(&self) -> usize {
        self.succeeded + self.failed + self.unknown
    }

    /// Counts one call. `item` is the item of the list that the call processes.
    pub(super) fn add(&mut self, progress: CallProgress, index: usize, item: Option<&Value>) {
        let (count, listed) = match progress {
            CallProgress::Succeeded => (&mut self.succeeded, None),
            CallProgress::Failed => (&mut self.failed, None),
            CallProgress::Unknown => (&mut self.unknown, Some(&mut self.unknown_items)),
            CallProgress::NotStarted => (&mut self.not_started, Some(&mut self.not_started_items)),
        };
        *count += 1;
        if let (Some(item), Some(listed)) = (item, listed.filter(|listed| listed.len() < MAX_LISTED_ITEMS)) {
            listed.push(json!({ "index": index, "item": item }));
        }
    }

    /// Describes the calls in a few words, such as `16 succeeded, 8 with unknown outcome, 20 not started`.
    pub(super) fn describe(&self) -> String {
        let counts = [
            (self.succeeded, "succeeded"),
            (self.failed, "failed"),
            (self.unknown, "with unknown outcome"),
            (self.not_started, "not started"),
        ];
        let present = counts.into_iter().filter(|(count, _)| *count > 0);
        present.map(|(count, words)| format!("{count} {words}")).collect::<Vec<_>>().join(", ")
    }
}
