//! Security URIs: the textual form of permissions.

use std::fmt;
use std::str::FromStr;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// The category in the URI of a tool that has no category.
pub(crate) const NO_CATEGORY: &str = "general";

const ENCODED_IN_SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A permission of the form `ai://area/segment/…/action`, for example
/// `ai://tools/crm.deals/hubspot%2Fsearch-deals/execute`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SecurityUri {
    segments: Vec<String>,
}

/// The error for a text that is not a security URI.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a security URI of the form `ai://tools/category/name/execute`")]
pub struct InvalidUri(String);

impl SecurityUri {
    /// The permission to perform `action` on a tool.
    pub fn tool(category: Option<&str>, name: &str, action: crate::Action) -> Self {
        let segments = ["tools", category.unwrap_or(NO_CATEGORY), name, action.as_str()];
        Self { segments: segments.map(str::to_owned).into() }
    }

    /// The permission to perform `action` on an agent.
    pub fn agent(name: &str, action: crate::Action) -> Self {
        Self { segments: ["agents", name, action.as_str()].map(str::to_owned).into() }
    }

    /// The permission to perform `action` on a workflow.
    pub fn workflow(name: &str, action: crate::Action) -> Self {
        Self { segments: ["workflows", name, action.as_str()].map(str::to_owned).into() }
    }

    /// Returns the name of the workflow, if the URI is the permission to execute a workflow.
    pub fn as_workflow_execution(&self) -> Option<&str> {
        match self.segments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["workflows", name, "execute"] => Some(name),
            _ => None,
        }
    }

    /// Returns the name of the agent, if the URI is the permission to execute an agent.
    pub fn as_agent_execution(&self) -> Option<&str> {
        match self.segments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["agents", name, "execute"] => Some(name),
            _ => None,
        }
    }

    /// Returns the category and name of the tool, if the URI is the permission to execute a tool.
    pub fn as_tool_execution(&self) -> Option<(&str, &str)> {
        match self.segments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["tools", category, name, "execute"] => Some((category, name)),
            _ => None,
        }
    }
}

impl FromStr for SecurityUri {
    type Err = InvalidUri;

    fn from_str(text: &str) -> Result<Self, InvalidUri> {
        let invalid = || InvalidUri(text.to_owned());
        let path = text.strip_prefix("ai://").ok_or_else(invalid)?;
        let segments: Vec<String> = path
            .split('/')
            .map(|segment| percent_decode_str(segment).decode_utf8().map(|decoded| decoded.into_owned()))
            .collect::<Result<_, _>>()
            .map_err(|_| invalid())?;
        if segments.len() < 3 || segments.iter().any(String::is_empty) {
            return Err(invalid());
        }
        Ok(Self { segments })
    }
}

impl fmt::Display for SecurityUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ai:/")?;
        for segment in &self.segments {
            write!(f, "/{}", utf8_percent_encode(segment, ENCODED_IN_SEGMENT))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn security_uri_encodes_slashes_in_names_and_malformed_uri_is_rejected() {
        let uri = SecurityUri::tool(Some("crm.deals"), "hubspot/search-deals", crate::Action::Execute);
        assert_eq!(uri.to_string(), "ai://tools/crm.deals/hubspot%2Fsearch-deals/execute");
        assert_eq!(uri.to_string().parse(), Ok(uri));
        let workflow: SecurityUri = "ai://workflows/orders%2Ffulfil/execute".parse().unwrap();
        assert_eq!(workflow.as_workflow_execution(), Some("orders/fulfil"));
        assert_eq!(workflow, SecurityUri::workflow("orders/fulfil", crate::Action::Execute));
        for malformed in
            ["", "ai://", "ai://tools", "ai://tools//x/execute", "http://tools/a/b/execute", "ai://tools/%ff/x/execute"]
        {
            assert!(malformed.parse::<SecurityUri>().is_err(), "{malformed}");
        }
    }
}
