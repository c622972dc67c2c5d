use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_types::ErrorCode;

use crate::{Found, Tool, ToolCx, ToolFailure};

/// The name under which an agent is offered this tool.
pub const NAME: &str = "search_tools";

/// Finds further tools by what they do. What it finds can be called by name from then on.
#[derive(Deserialize, JsonSchema)]
pub struct SearchTools {
    /// What the tool should do, in a few words.
    query: String,
    /// How many tools to return.
    #[serde(default = "five")]
    #[schemars(range(min = 1, max = 20))]
    limit: usize,
}

#[derive(Serialize, JsonSchema)]
pub struct SearchResult {
    /// The tools that fit best, the best first.
    tools: Vec<Found>,
}

impl Tool for SearchTools {
    const NAME: &'static str = NAME;
    type Output = SearchResult;

    async fn call(self, cx: &ToolCx<'_>) -> Result<SearchResult, ToolFailure> {
        let Some(toolbox) = &cx.call.lent.toolbox else {
            let message = "only an agent has tools to search; list all tools instead";
            return Err(ToolFailure::fatal(ErrorCode::PolicyDenied, message).reason("no_toolbox"));
        };
        Ok(SearchResult { tools: toolbox.search(&self.query, self.limit) })
    }
}

fn five() -> usize {
    5
}
