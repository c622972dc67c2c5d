//! Counts equal calls, so that the same call made twice in one run has two ids.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolwright_types::CallId;

/// Counts how often each call was made in one run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CallSequence {
    /// The number of equal calls, by the id of the first one.
    seen: HashMap<CallId, u64>,
}

impl CallSequence {
    /// Returns the id of the next call with this tool, version and input.
    pub fn next(&mut self, name: &str, version: &str, input: &Value) -> CallId {
        let first = CallId::derive(name, version, input, 0);
        let count = self.seen.entry(first.clone()).or_insert(0);
        let seq = *count;
        *count += 1;
        if seq == 0 { first } else { CallId::derive(name, version, input, seq) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn repeated_call_gets_a_new_id() {
        let mut run = CallSequence::default();
        let first = run.next("a", "1.0.0", &json!({ "x": 1, "y": 2 }));
        run.next("b", "1.0.0", &json!({}));
        let again = run.next("a", "1.0.0", &json!({ "y": 2, "x": 1.0 }));
        assert_ne!(first, again);
        assert_eq!(again, CallId::derive("a", "1.0.0", &json!({ "x": 1, "y": 2 }), 1));
        assert_eq!(CallSequence::default().next("a", "1.0.0", &json!({ "x": 1, "y": 2 })), first);
    }
}
