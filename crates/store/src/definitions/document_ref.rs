//! Parses the references to documents that clients send.

use toolwright_types::{
    AgentId, ConditionBindingId, DocumentKind, FragmentId, ProviderId, StepRegistrationId, ToolId, TriggerId, TypeId,
    WebhookId, WorkflowId,
};

/// A reference to a document by id or name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum DocumentRef {
    /// An id of the form `prefix_ULID`, such as `tool_01J9…`.
    Id(String),
    /// A name. Names are compared without regard to case.
    Name(String),
}

impl DocumentRef {
    /// Returns an id if `text` has the form of an id of this kind, otherwise a name. Never fails: a text that is
    /// neither an id nor a valid name matches no document.
    pub fn parse(kind: DocumentKind, text: &str) -> Self {
        let id = match kind {
            DocumentKind::Tool => text.parse::<ToolId>().map(|id| id.to_string()),
            DocumentKind::Provider => text.parse::<ProviderId>().map(|id| id.to_string()),
            DocumentKind::Agent => text.parse::<AgentId>().map(|id| id.to_string()),
            DocumentKind::Fragment => text.parse::<FragmentId>().map(|id| id.to_string()),
            DocumentKind::Type => text.parse::<TypeId>().map(|id| id.to_string()),
            DocumentKind::Workflow => text.parse::<WorkflowId>().map(|id| id.to_string()),
            DocumentKind::StepRegistration => text.parse::<StepRegistrationId>().map(|id| id.to_string()),
            DocumentKind::ConditionBinding => text.parse::<ConditionBindingId>().map(|id| id.to_string()),
            DocumentKind::Trigger => text.parse::<TriggerId>().map(|id| id.to_string()),
            DocumentKind::Webhook => text.parse::<WebhookId>().map(|id| id.to_string()),
        };
        id.map_or_else(|_| DocumentRef::Name(text.to_owned()), DocumentRef::Id)
    }

    /// Returns the values to compare with the columns `id` and `ref_key`.
    pub(super) fn columns(&self) -> (Option<&str>, Option<String>) {
        // A reference with U+0000 matches nothing, because no id or name contains U+0000. It must not reach Postgres,
        // which rejects U+0000 even in comparisons.
        match self {
            DocumentRef::Id(id) => (Some(id.as_str()).filter(|id| !id.contains('\0')), None),
            DocumentRef::Name(name) => (None, Some(name.to_ascii_lowercase()).filter(|name| !name.contains('\0'))),
        }
    }
}
