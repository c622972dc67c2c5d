use schemars::JsonSchema;
use serde::Deserialize;

use crate::{Tool, ToolCx, ToolFailure};

/// Returns a friendly greeting message for the given name.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct SayHello {
    /// The name of the person to greet.
    person_name: String,
}

impl Tool for SayHello {
    const NAME: &'static str = "sayHello";
    type Output = String;

    async fn call(self, _cx: &ToolCx<'_>) -> Result<String, ToolFailure> {
        Ok(format!("Hello, {}! Nice to meet you.", self.person_name))
    }
}
