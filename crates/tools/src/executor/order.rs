//! Ordering constraints between the calls of one batch.

use std::collections::BTreeSet;

use toolwright_expr::Scope;
use toolwright_types::SideEffects;

use super::ReadyCall;

impl ReadyCall {
    /// Returns the order keys of the call. Calls of one batch that share a key must not run at the same time.
    pub fn order_keys(&self) -> BTreeSet<String> {
        let tool = &self.tool;
        let mut keys = BTreeSet::new();
        if tool.definition.sequential {
            keys.insert(format!("tool/{}", tool.id));
        }
        if let (SideEffects::Writes, Some(template)) = (tool.effects, &tool.resource_key) {
            // Two writes of this tool whose resource keys cannot be computed may change the same resource, so they
            // share a key.
            let rendered = template.render(&Scope::new(&self.input), toolwright_expr::escape::text);
            keys.insert(match rendered {
                Ok(text) => format!("resource/{}", text.text),
                Err(_) => format!("tool/{}", tool.id),
            });
        }
        keys
    }
}
