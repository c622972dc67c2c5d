//! How a client names a document.

use toolwright_types::{AgentId, DocumentKind, FragmentId, ProviderId, ToolId, TypeId};

/// A document by its id or by its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Ref {
    /// `kind_ULID`.
    Id(String),
    /// A name, in any case.
    Name(String),
}

impl Ref {
    /// An id when `text` has the form of one of this kind, else a name. Any text will do: one that could be
    /// neither finds nothing.
    pub fn parse(kind: DocumentKind, text: &str) -> Self {
        let id = match kind {
            DocumentKind::Tool => text.parse::<ToolId>().map(|id| id.to_string()),
            DocumentKind::Provider => text.parse::<ProviderId>().map(|id| id.to_string()),
            DocumentKind::Agent => text.parse::<AgentId>().map(|id| id.to_string()),
            DocumentKind::Fragment => text.parse::<FragmentId>().map(|id| id.to_string()),
            DocumentKind::Type => text.parse::<TypeId>().map(|id| id.to_string()),
        };
        id.map_or_else(|_| Ref::Name(text.to_owned()), Ref::Id)
    }

    /// What to compare with the columns `id` and `ref_key`.
    pub(super) fn columns(&self) -> (Option<&str>, Option<String>) {
        // Postgres refuses the character even in a comparison; no name has it.
        match self {
            Ref::Id(id) => (Some(id.as_str()).filter(|id| !id.contains('\0')), None),
            Ref::Name(name) => (None, Some(name.to_ascii_lowercase()).filter(|name| !name.contains('\0'))),
        }
    }
}
