//! The `search_tools` function, with which a model finds tools that are not in its prompt.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_types::ErrorCode;

use crate::{Tool, ToolCx, ToolFailure, ToolMatch};

/// The name under which agents offer this tool to a model.
pub const NAME: &str = "search_tools";

/// Searches for further tools by what they do. The tools it finds can then be called by name.
#[derive(Deserialize, JsonSchema)]
pub struct SearchTools {
    /// What the tool should do, in a few words.
    query: String,
    /// How many tools to return.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 20))]
    limit: usize,
}

/// The result of a search.
#[derive(Serialize, JsonSchema)]
pub struct SearchResult {
    /// The tools that match best, best first.
    tools: Vec<ToolMatch>,
}

impl Tool for SearchTools {
    const NAME: &'static str = NAME;
    type Output = SearchResult;

    async fn call(self, cx: &ToolCx<'_>) -> Result<SearchResult, ToolFailure> {
        let Some(toolbox) = &cx.call.resources.toolbox else {
            let message = "only an agent has tools to search; list all tools instead";
            return Err(ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason("no_toolbox"));
        };
        Ok(SearchResult { tools: toolbox.search(&self.query, self.limit) })
    }
}

fn five() -> usize {
    5
}
