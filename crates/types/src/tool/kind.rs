//! The kinds of tools, from the point of view of a caller.

use serde::{Deserialize, Serialize};

use super::ToolType;

/// The kind of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum ToolKind {
    /// A tool that performs one operation.
    Simple,
    /// A tool that routes each call to one of several other tools.
    Composite,
    /// A tool with an embedded model.
    Agentic,
}

impl ToolKind {
    /// All kinds.
    pub const ALL: [ToolKind; 3] = [ToolKind::Simple, ToolKind::Composite, ToolKind::Agentic];

    /// The name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            ToolKind::Simple => "simple",
            ToolKind::Composite => "composite",
            ToolKind::Agentic => "agentic",
        }
    }
}

impl ToolType {
    /// The kind of the tools of this type.
    pub fn kind(self) -> ToolKind {
        match self {
            ToolType::Composite => ToolKind::Composite,
            ToolType::Agentic => ToolKind::Agentic,
            ToolType::QuantumApi
            | ToolType::QuantumQuery
            | ToolType::Helix
            | ToolType::ExternalRest
            | ToolType::ExternalMcp
            | ToolType::Grpc
            | ToolType::Function
            | ToolType::Agent
            | ToolType::Workflow => ToolKind::Simple,
        }
    }
}
