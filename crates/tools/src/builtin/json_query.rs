use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use toolwright_expr::JsonPath;

use crate::{Tool, ToolCx, ToolFailure};

/// Selects parts of a JSON document by a JSONPath (RFC 9535) and returns them as a list.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JsonQuery {
    /// The selector, for example `$.orders[?@.total > 100].id`.
    selector: String,
    /// The document to select from.
    document: Value,
}

impl Tool for JsonQuery {
    const NAME: &'static str = "json_query";
    type Output = Vec<Value>;

    async fn call(self, _cx: &ToolCx<'_>) -> Result<Vec<Value>, ToolFailure> {
        let path = JsonPath::parse(&self.selector).map_err(|error| ToolFailure::invalid(error.to_string()))?;
        let select = |(path, document): &(JsonPath, Value)| -> Result<Vec<Value>, String> {
            let nodes = path.query(document).map_err(|error| error.to_string())?;
            Ok(nodes.into_iter().cloned().collect())
        };
        let selected = toolwright_budget::run((path, self.document), select).await;
        let (_, nodes) = selected.map_err(|stopped| ToolFailure::invalid(stopped.to_string()))?;
        nodes.map_err(ToolFailure::invalid)
    }
}
