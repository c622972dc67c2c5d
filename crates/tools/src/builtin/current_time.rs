use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolwright_types::SideEffects;

use crate::{Tool, ToolCx, ToolFailure};

/// Tells the current date and time.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct CurrentTime {
    /// An IANA time zone such as `Europe/Berlin`; UTC when absent.
    #[serde(default)]
    timezone: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Now {
    /// The moment in UTC, RFC 3339.
    utc: String,
    /// The same moment in the requested time zone, with its offset.
    local: String,
    /// The day of the week in that time zone.
    weekday: String,
}

impl Tool for CurrentTime {
    const NAME: &'static str = "current_time";
    const SIDE_EFFECTS: SideEffects = SideEffects::Reads;
    type Output = Now;

    async fn call(self, cx: &ToolCx<'_>) -> Result<Now, ToolFailure> {
        let now = cx.clock.now();
        let zone = self.timezone.as_deref().unwrap_or("UTC");
        let local = now.to_jiff().in_tz(zone).map_err(|_| {
            ToolFailure::invalid(format!("`{zone}` is not a time zone; use an IANA name such as `Europe/Berlin`"))
        })?;
        Ok(Now {
            utc: now.to_string(),
            local: local.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
            weekday: local.strftime("%A").to_string(),
        })
    }
}
