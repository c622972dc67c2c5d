//! Reference data in prompts: `{{reference_data.users}}`. What a run was told is in its first entry, with the prompt.

use serde_json::{Map, Value};
use toolwright_types::RealmScope;

use super::{Agents, CompiledAgent, StartError};
use crate::references::{SHOWN, rendered};

/// The variable under which prompts find it.
const REFERENCE_DATA: &str = "reference_data";

impl Agents {
    /// The context with the reference data that the prompt mentions, as it is now. What a caller gives goes first.
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
        let whole = types.iter().any(String::is_empty);
        if whole {
            types = data.types().await?;
        }
        let mut texts = Map::new();
        for name in types {
            let (items, total) = (data.of_type(&name, SHOWN).await?, data.count_of_type(&name).await?);
            texts.insert(name.clone(), Value::String(rendered(&name, &items, total)));
        }
        let said = match whole {
            // All of it, one type after the other.
            true => Value::String(texts.values().filter_map(Value::as_str).collect::<Vec<_>>().join("\n\n")),
            false => Value::Object(texts),
        };
        context.insert(REFERENCE_DATA.to_owned(), said);
        Ok(context)
    }
}
