//! Caches the compiled schemas of plans, so that calls to the same agentic tool do not compile them again.

use std::sync::Arc;

use serde_json::{Value, json};
use toolwright_machine::plan::{SequenceStep, plan_schema};
use toolwright_tools::{CompiledTool, Schema};
use toolwright_types::json::hex_digest;

/// The maximum number of cached schemas.
const MAX_SCHEMAS: u64 = 1_000;

/// The compiled schemas of plans. The key is the hash of the steps and of the input schemas of their tools.
pub(crate) struct PlanSchemas(moka::sync::Cache<String, Arc<Schema>>);

impl Default for PlanSchemas {
    fn default() -> Self {
        Self(moka::sync::Cache::new(MAX_SCHEMAS))
    }
}

impl PlanSchemas {
    /// Returns the schema of the plans for a sequence of tools.
    pub(crate) async fn get(&self, sequence: &[(SequenceStep, Arc<CompiledTool>)]) -> Result<Arc<Schema>, String> {
        let steps: Vec<SequenceStep> = sequence.iter().map(|(step, _)| step.clone()).collect();
        let inputs: Vec<Value> = sequence.iter().map(|(_, tool)| tool.input.source().clone()).collect();
        let key = key(&steps, &inputs);
        if let Some(found) = self.0.get(&key) {
            return Ok(found);
        }
        let schema = Schema::compile_large(plan_schema(&steps, &inputs)).await;
        let schema = Arc::new(schema.map_err(|error| error.to_string())?);
        self.0.insert(key, Arc::clone(&schema));
        Ok(schema)
    }
}

/// The schema of a plan contains the purposes of the steps, so they are a part of the key.
fn key(steps: &[SequenceStep], inputs: &[Value]) -> String {
    hex_digest(&json!([steps, inputs]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_with_other_purposes_or_input_schemas_have_other_keys() {
        let step = |purpose: &str| [SequenceStep { step: 1, tool: "save".into(), purpose: purpose.into() }];
        let (save, archive) = (step("Save the deal"), step("Archive the deal"));
        let (any, object) = ([json!({})], [json!({ "type": "object" })]);
        assert_eq!(key(&save, &any), key(&save, &any));
        assert_ne!(key(&save, &any), key(&archive, &any));
        assert_ne!(key(&save, &any), key(&save, &object));
    }
}
