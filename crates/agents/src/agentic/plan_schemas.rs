//! Caches the compiled schemas of plans, so that calls to the same agentic tool do not compile them again.

use std::sync::Arc;

use serde_json::Value;
use toolwright_machine::plan::{SequenceStep, plan_schema};
use toolwright_tools::{CompiledTool, Schema};

/// The maximum number of cached schemas.
const MAX_SCHEMAS: u64 = 1_000;

/// The compiled schemas of plans. The key contains the content hash of each tool of the sequence.
pub(crate) struct PlanSchemas(moka::sync::Cache<String, Arc<Schema>>);

impl Default for PlanSchemas {
    fn default() -> Self {
        Self(moka::sync::Cache::new(MAX_SCHEMAS))
    }
}

impl PlanSchemas {
    /// Returns the schema of the plans for a sequence of tools.
    pub(crate) async fn get(&self, sequence: &[(SequenceStep, Arc<CompiledTool>)]) -> Result<Arc<Schema>, String> {
        let part = |(step, tool): &(SequenceStep, Arc<CompiledTool>)| format!("{}:{}", step.step, tool.content_hash);
        let key: Vec<String> = sequence.iter().map(part).collect();
        let key = key.join(",");
        if let Some(found) = self.0.get(&key) {
            return Ok(found);
        }
        let steps: Vec<SequenceStep> = sequence.iter().map(|(step, _)| step.clone()).collect();
        let inputs: Vec<Value> = sequence.iter().map(|(_, tool)| tool.input.source().clone()).collect();
        let schema = Schema::compile_large(plan_schema(&steps, &inputs)).await;
        let schema = Arc::new(schema.map_err(|error| error.to_string())?);
        self.0.insert(key, Arc::clone(&schema));
        Ok(schema)
    }
}
