//! The origin of a write of a definition.

use toolwright_types::DefinitionSource;

/// Where a write of a definition comes from.
#[derive(Debug, Clone, Default)]
pub struct WriteOrigin {
    /// The source that the definition gets.
    pub source: DefinitionSource,
    /// The apply set of the write, if the write is part of one.
    pub apply_set: Option<String>,
}

impl From<DefinitionSource> for WriteOrigin {
    fn from(source: DefinitionSource) -> Self {
        Self { source, apply_set: None }
    }
}
