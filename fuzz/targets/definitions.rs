//! Parses arbitrary text as names, ids, definitions and envelopes. A serialized tool or agent must parse to the same
//! definition, and canonical JSON must stay the same when it is parsed and written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use toolwright_types::{
    AgentDefinition, CallId, PinnedHandle, PromptFragment, RefName, RunId, ToolDefinition, ToolEnvelope, ToolProviderConfig, json,
};

fuzz_target!(|text: &str| {
    let _ = text.parse::<RefName>();
    let _ = text.parse::<RunId>();
    if let Ok(tool) = serde_json::from_str::<ToolDefinition>(text) {
        let written = serde_json::to_string(&tool).expect("a definition must serialize");
        assert_eq!(serde_json::from_str::<ToolDefinition>(&written).expect("a serialized definition must parse"), tool);
    }
    if let Ok(agent) = serde_json::from_str::<AgentDefinition>(text) {
        let written = serde_json::to_string(&agent).expect("a definition must serialize");
        assert_eq!(serde_json::from_str::<AgentDefinition>(&written).expect("a serialized definition must parse"), agent);
    }
    let _ = serde_json::from_str::<ToolProviderConfig>(text);
    let _ = serde_json::from_str::<PromptFragment>(text);
    let _ = serde_json::from_str::<PinnedHandle>(text);
    let _ = serde_json::from_str::<ToolEnvelope>(text);
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        let canonical = json::canonical(&value);
        let again: Value = serde_json::from_str(&canonical).expect("canonical JSON must parse");
        assert_eq!(json::canonical(&again), canonical);
        let _ = CallId::derive("t", "1.0.0", &value, 0);
    }
});
