//! Generates the tools of entity types when a client requests it.

use toolwright_types::{Operation, ToolDefinition, TypeDefinition};

use toolwright_catalog::registry::RegistryError;
use toolwright_catalog::{Registry, Session};

use crate::TypeMaintenance;
use crate::record_tools::{GenerationReport, tool_definitions};

/// A request to generate tools.
#[derive(Debug, Clone, Default)]
pub struct GenerateRequest {
    /// The names of the entity types.
    pub types: Vec<String>,
    /// Whether to store the tools. If false, the tools are only returned.
    pub persist: bool,
    /// Operations to exclude, in addition to those that the types exclude.
    pub excluded: Vec<Operation>,
}

impl TypeMaintenance {
    /// Generates the tools of the requested types. With `persist`, it also stores the tools and reports which tools
    /// changed.
    pub async fn generate(
        &self,
        registry: &Registry,
        session: &Session,
        request: &GenerateRequest,
    ) -> Result<(Vec<ToolDefinition>, GenerationReport), RegistryError> {
        let mut types = Vec::new();
        for name in &request.types {
            let entity_type = registry.get::<TypeDefinition>(session, name, None).await?;
            if request.persist {
                registry.may_replace(session, Some(&entity_type), &entity_type.body)?;
            }
            types.push(entity_type.body);
        }
        let (mut generated, mut report) = (Vec::new(), GenerationReport::default());
        for entity_type in types {
            let tools = tool_definitions(&entity_type, &request.excluded);
            if request.persist {
                let by = session.principal.name.as_str();
                report.extend(self.generator().write_tools(&session.realm, &tools, by).await?);
            }
            generated.extend(tools);
        }
        Ok((generated, report))
    }
}
