//! Inserts reference data into prompts, for variables such as `{{reference_data.users}}`. The first journal entry
//! of a run contains the rendered prompt, so a recovery or a replay does not read the reference data again.

use serde_json::{Map, Value};
use toolwright_types::RealmScope;

use super::{Agents, CompiledAgent, StartError};
use crate::reference_rendering::{MAX_ITEMS, render_type};

/// The name of the prompt variable that contains the reference data.
const REFERENCE_DATA: &str = "reference_data";

impl Agents {
    /// Extends the context with the reference data that the prompt uses. A variable `reference_data` of the caller
    /// takes precedence.
    pub(super) async fn with_reference_data(
        &self,
        agent: &CompiledAgent,
        realm: &RealmScope,
        mut context: Map<String, Value>,
    ) -> Result<Map<String, Value>, StartError> {
        let mentioned = agent.prompt.variables().filter(|path| path.split('.').next() == Some(REFERENCE_DATA));
        let mut types: Vec<String> =
            mentioned.map(|path| path.split('.').nth(1).unwrap_or_default().to_owned()).collect();
        if types.is_empty() || context.contains_key(REFERENCE_DATA) {
            return Ok(context);
        }
        let data = self.0.store.references(realm);
        let all_types = types.iter().any(String::is_empty);
        if all_types {
            types = data.types().await?;
        }
        let mut texts = Map::new();
        for name in types {
            let (items, total) = (data.items_of_type(&name, MAX_ITEMS).await?, data.count_of_type(&name).await?);
            texts.insert(name.clone(), Value::String(render_type(&name, &items, total)));
        }
        let rendered = match all_types {
            // The prompt uses `{{reference_data}}` without a type, so the texts of all types are joined.
            true => Value::String(texts.values().filter_map(Value::as_str).collect::<Vec<_>>().join("\n\n")),
            false => Value::Object(texts),
        };
        context.insert(REFERENCE_DATA.to_owned(), rendered);
        Ok(context)
    }
}
