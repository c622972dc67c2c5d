//! The filters that lists of approvals and effects share.

use toolwright_runs::CallFilter;
use toolwright_types::Timestamp;

use crate::problem::Problem;
use crate::routes::runs::parse_optional;

/// The filters of a request, before they are parsed.
pub(crate) struct CallFilterParams {
    pub tool_ref: Option<String>,
    pub agent_ref: Option<String>,
    pub run_id: Option<String>,
    pub principal: Option<String>,
    pub since: Option<String>,
    pub before: Option<String>,
}

impl CallFilterParams {
    /// Parses the filters.
    pub(crate) fn filter(self) -> Result<CallFilter, Problem> {
        Ok(CallFilter {
            tool: self.tool_ref,
            agent: self.agent_ref,
            run: parse_optional("runId", self.run_id.as_deref())?,
            principal: self.principal,
            since: time("since", self.since.as_deref())?,
            before: time("before", self.before.as_deref())?,
        })
    }
}

fn time(name: &str, text: Option<&str>) -> Result<Option<Timestamp>, Problem> {
    let rule = "must be a time such as `2026-01-31T12:00:00Z`";
    text.map(|text| text.parse().map_err(|_| Problem::invalid(name, format!("{rule}, got `{text}`")))).transpose()
}
